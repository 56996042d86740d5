/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a redirected dataset has where nobody wrote. Native answers for an image's dataset, which
 * has no space; where there would be space in a file it isn't always the fill value that stands
 * there.
 */
#ifndef MKT_VOL_UNWRITTEN_H
#define MKT_VOL_UNWRITTEN_H

#include "vol/arrays.h"

/* True if space is there that nothing was ever filled into (no fill value, or never to be written):
 * new space of a file holds zeros. False: native says what reads there. */
bool mkt_vol_unwritten_is_zeros(const struct mkt_vol_object *dataset,
                                const struct mkt_vol_sources *sources);
/* True if a write of so many elements makes the space and, being of all of them, saves native from
 * filling it: what a partial write of compounds leaves out stays zeros then. */
bool mkt_vol_unwritten_stays_zeros(const struct mkt_vol_object *dataset,
                                   const struct mkt_vol_sources *sources, uint64_t elements);

#endif
