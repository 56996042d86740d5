/* SPDX-License-Identifier: BSD-3-Clause */
/* What the deletion of a link ends. Around native's deletion: begin, delete, end. */
#ifndef MKT_VOL_UNLINK_H
#define MKT_VOL_UNLINK_H

#include "vol/vol.h"

struct mkt_vol_doomed;
/* NULL: nothing in the market is affected. */
struct mkt_vol_doomed *mkt_vol_unlink_begin(struct mkt_vol_object *location,
                                            const H5VL_loc_params_t *loc);
void mkt_vol_unlink_end(struct mkt_vol_doomed *doomed, bool deleted);

#endif
