/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * External links. Native follows them inside itself, where a file of the market can't be found (and
 * a real file would be opened in memory, its changes lost). So the link class is registered anew:
 * the search for the file is HDF5's own, step by step, but each candidate is opened as an
 * application would open it, through the connector of the parent file. The class is the process's;
 * parents that aren't ours are followed by the same search, through their connector.
 */
#ifndef MKT_VOL_EXTERNAL_H
#define MKT_VOL_EXTERNAL_H

#include "vol/vol.h"

/* Once for each life of the library; later calls do nothing. Clears the error stack. */
void mkt_vol_external_register(void);
bool mkt_vol_external_registered(void);
/* Grows with each link that leads into the market, to a file that can't be opened. */
unsigned mkt_vol_external_failures(void);
/* HDF5 forgets its link classes when it ends. */
void mkt_vol_external_forget(void);

#endif
