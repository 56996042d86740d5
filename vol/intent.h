/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes to files that were opened for reading. Native refuses most by itself; here is what it
 * doesn't see, since the data isn't its own, or sees halfway, when it has metadata that it can't
 * write at the close. One text, and native's classes of errors.
 */
#ifndef MKT_VOL_INTENT_H
#define MKT_VOL_INTENT_H

#include "vol/vol.h"

/* Negative, with an entry on the error stack, if the object's file is the market's and open for
 * reading. NULL is allowed. */
herr_t mkt_vol_may_write(const struct mkt_vol_object *object);
/* The same for what is made in the location's file, whatever path leads on from there. */
herr_t mkt_vol_may_write_in(struct mkt_vol_object *location);
/* The same for a link that is made or removed; mounts may lead it into another file. */
herr_t mkt_vol_may_link(struct mkt_vol_object *location, const H5VL_loc_params_t *loc);

#endif
