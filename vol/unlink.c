/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deleting a link may end datasets: the one it names, or those below a group. Whose last link goes
 * is looked up before native deletes, since afterwards their tokens may name anything; their arrays
 * are published no more.
 */
#include "vol/unlink.h"

#include <stdlib.h>
#include <string.h>

#include "vol/arrays.h"
#include "vol/walk.h"

struct mkt_vol_doomed {
    struct mkt_vol_file *file;
    uint8_t (*token)[MKT_TOKEN_BYTES];
    size_t count;
};

static herr_t doom(struct mkt_vol_doomed *doomed, struct mkt_vol_object *object);

static herr_t doom_children(struct mkt_vol_doomed *doomed, struct mkt_vol_object *group)
{
    struct mkt_vol_object child;
    hsize_t links;

    if (mkt_vol_walk_links(group, &links) < 0)
        return -1;
    for (hsize_t i = 0; i < links; i++) {
        char *name;
        herr_t result = mkt_vol_walk_name(group, i, &name);

        if (result >= 0 && name && mkt_vol_walk_open(group, name, &child) >= 0) {
            result = doom(doomed, &child);
            mkt_vol_walk_close(&child);
        }
        free(name);
        if (result < 0)
            return -1;
    }
    return 0;
}

/* An object with further links lives on. */
static herr_t doom(struct mkt_vol_doomed *doomed, struct mkt_vol_object *object)
{
    struct mkt_vol_walk_info info;

    if (mkt_vol_walk_info(object, &info) < 0)
        return -1;
    if (info.links > 1)
        return 0;
    if (object->type == H5I_GROUP)
        return doom_children(doomed, object);
    if (object->type != H5I_DATASET || !object->file->in_market)
        return 0;
    void *grown = realloc(doomed->token, (doomed->count + 1) * MKT_TOKEN_BYTES);
    if (!grown)
        return -1;
    doomed->token = grown;
    doomed->file = object->file;
    memcpy(doomed->token[doomed->count++], info.token, MKT_TOKEN_BYTES);
    return 0;
}

struct mkt_vol_doomed *mkt_vol_unlink_begin(struct mkt_vol_object *location,
                                            const H5VL_loc_params_t *loc)
{
    H5L_info2_t info;
    H5VL_link_get_args_t args = {.op_type = H5VL_LINK_GET_INFO, .args.get_info.linfo = &info};
    struct mkt_vol_object target;
    struct mkt_vol_doomed *doomed = NULL;

    if (!location || !location->file || !location->file->in_market)
        return NULL;
    /* Whatever fails here leaves its error to native's deletion. */
    H5E_BEGIN_TRY
    {
        if (mkt_vol_native()->link_cls.get(location->under, loc, &args, H5P_DATASET_XFER_DEFAULT,
                                           NULL) >= 0 &&
            info.type == H5L_TYPE_HARD && mkt_vol_walk_open_at(location, loc, &target) >= 0) {
            doomed = calloc(1, sizeof *doomed);
            if (doomed)
                (void)doom(doomed, &target);
            mkt_vol_walk_close(&target);
        }
    }
    H5E_END_TRY
    if (!doomed)
        H5Eclear2(H5E_DEFAULT);
    return doomed;
}

void mkt_vol_unlink_end(struct mkt_vol_doomed *doomed, bool deleted)
{
    if (!doomed)
        return;
    for (size_t i = 0; deleted && i < doomed->count; i++) {
        struct mkt_vol_array *array = mkt_vol_array_find(doomed->file->arrays, doomed->token[i]);

        if (array)
            mkt_vol_array_kill(array);
    }
    free(doomed->token);
    free(doomed);
}
