/* SPDX-License-Identifier: BSD-3-Clause */
/* What the pass-through callbacks share: from a wrapper to the native object, and back. */
#ifndef MKT_VOL_OBJECT_H
#define MKT_VOL_OBJECT_H

#include "vol/vol.h"

static inline void *mkt_vol_under(const void *object)
{
    return object ? ((const struct mkt_vol_object *)object)->under : NULL;
}

/* Where callbacks start: publishes what native let go of outside of a close (a file that an
 * external link opened for a look). False, with an entry on the error stack, for an object whose
 * close failed after native had let go of it. */
bool mkt_vol_object_usable(const void *object);

/* Native keeps this one for itself and will unwrap it; it doesn't count as open. */
void mkt_vol_object_set_internal(struct mkt_vol_object *object);

/* Wraps a native object that a callback just got, finding its file; NULL stays NULL. Closes `under`
 * on failure. */
void *mkt_vol_object_adopt(void *under, H5I_type_t type);

#endif
