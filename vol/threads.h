/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HDF5's global lock in a thread-safe library: given back while a long wait sleeps, so that the
 * program's other threads go on with HDF5. Never in a call inside another one (an external link, a
 * callback of an iteration), whose state must stand still. All is called under the lock.
 */
#ifndef MKT_VOL_THREADS_H
#define MKT_VOL_THREADS_H

#include "vol/vol.h"

/* At each start of the connector. */
void mkt_vol_threads_init(void);

/* True if a long wait that begins here may give the lock back. */
bool mkt_vol_threads_may_release(void);
/* False: it can't be, and is held as before. */
bool mkt_vol_threads_release(void);
void mkt_vol_threads_acquire(void);

/* Around what calls the program or opens files: waits in there keep the lock. HDF5's state is in
 * the middle of something. */
void mkt_vol_threads_hold(void);
void mkt_vol_threads_unhold(void);

/* True if threads of this process sleep in waits: what they use must stay. */
bool mkt_vol_threads_wait(void);

/* True once the library closes: waits should end. Its end waits for them. May be asked without the
 * lock. */
bool mkt_vol_threads_end(void);

#endif
