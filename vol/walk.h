/* SPDX-License-Identifier: BSD-3-Clause */
/* Walking over native objects by the names of their links, behind HDF5's ids. */
#ifndef MKT_VOL_WALK_H
#define MKT_VOL_WALK_H

#include "vol/vol.h"

/* Opens a native object for the length of a walk. `child_out` is no wrapper that HDF5 ever sees;
 * its file isn't referenced. */
herr_t mkt_vol_walk_open(struct mkt_vol_object *parent, const char *name,
                         struct mkt_vol_object *child_out);
/* The same for any location. */
herr_t mkt_vol_walk_open_at(struct mkt_vol_object *location, const H5VL_loc_params_t *loc,
                            struct mkt_vol_object *child_out);
void mkt_vol_walk_close(struct mkt_vol_object *child);

struct mkt_vol_walk_info {
    uint8_t token[MKT_TOKEN_BYTES];
    unsigned links; /* hard links to the object */
};
herr_t mkt_vol_walk_info(struct mkt_vol_object *object, struct mkt_vol_walk_info *info_out);
herr_t mkt_vol_walk_links(struct mkt_vol_object *group, hsize_t *links_out);
/* The name of the i-th link of a group in native order, malloc'ed; NULL in *name_out if it isn't a
 * hard link. */
herr_t mkt_vol_walk_name(struct mkt_vol_object *group, hsize_t i, char **name_out);

#endif
