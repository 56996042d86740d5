/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/walk.h"

#include <stdlib.h>
#include <string.h>

#include "vol/native.h"

herr_t mkt_vol_walk_open_at(struct mkt_vol_object *location, const H5VL_loc_params_t *loc,
                            struct mkt_vol_object *child_out)
{
    memset(child_out, 0, sizeof *child_out);
    child_out->under = mkt_vol_native()->object_cls.open(location->under, loc, &child_out->type,
                                                         H5P_DATASET_XFER_DEFAULT, NULL);
    if (!child_out->under)
        return -1;
    child_out->file = mkt_vol_file_of(child_out->under, child_out->type);
    return 0;
}

herr_t mkt_vol_walk_open(struct mkt_vol_object *parent, const char *name,
                         struct mkt_vol_object *child_out)
{
    H5VL_loc_params_t loc = {
        .obj_type = parent->type,
        .type = H5VL_OBJECT_BY_NAME,
        .loc_data.loc_by_name = {.name = name, .lapl_id = H5P_LINK_ACCESS_DEFAULT}};

    return mkt_vol_walk_open_at(parent, &loc, child_out);
}

void mkt_vol_walk_close(struct mkt_vol_object *child)
{
    mkt_vol_native_close(child->under, child->type);
}

herr_t mkt_vol_walk_info(struct mkt_vol_object *object, struct mkt_vol_walk_info *info_out)
{
    H5VL_loc_params_t self = {.obj_type = object->type, .type = H5VL_OBJECT_BY_SELF};
    H5O_info2_t info;
    H5VL_object_get_args_t args = {.op_type = H5VL_OBJECT_GET_INFO,
                                   .args.get_info = {.fields = H5O_INFO_BASIC, .oinfo = &info}};

    if (mkt_vol_native()->object_cls.get(object->under, &self, &args, H5P_DATASET_XFER_DEFAULT,
                                         NULL) < 0)
        return -1;
    _Static_assert(sizeof info.token == MKT_TOKEN_BYTES, "tokens of HDF5 and of the market");
    memcpy(info_out->token, &info.token, MKT_TOKEN_BYTES);
    info_out->links = info.rc;
    return 0;
}

herr_t mkt_vol_walk_links(struct mkt_vol_object *group, hsize_t *links_out)
{
    H5G_info_t info;
    H5VL_group_get_args_t args = {
        .op_type = H5VL_GROUP_GET_INFO,
        .args.get_info = {.loc_params = {.obj_type = H5I_GROUP, .type = H5VL_OBJECT_BY_SELF},
                          .ginfo = &info}};

    if (mkt_vol_native()->group_cls.get(group->under, &args, H5P_DATASET_XFER_DEFAULT, NULL) < 0)
        return -1;
    *links_out = info.nlinks;
    return 0;
}

herr_t mkt_vol_walk_name(struct mkt_vol_object *group, hsize_t i, char **name_out)
{
    H5VL_loc_params_t loc = {.obj_type = H5I_GROUP,
                             .type = H5VL_OBJECT_BY_IDX,
                             .loc_data.loc_by_idx = {.name = ".",
                                                     .idx_type = H5_INDEX_NAME,
                                                     .order = H5_ITER_NATIVE,
                                                     .n = i,
                                                     .lapl_id = H5P_LINK_ACCESS_DEFAULT}};
    H5L_info2_t info;
    size_t length = 0;
    H5VL_link_get_args_t get_info = {.op_type = H5VL_LINK_GET_INFO, .args.get_info.linfo = &info};
    H5VL_link_get_args_t get_name = {.op_type = H5VL_LINK_GET_NAME,
                                     .args.get_name.name_len = &length};

    *name_out = NULL;
    if (mkt_vol_native()->link_cls.get(group->under, &loc, &get_info, H5P_DATASET_XFER_DEFAULT,
                                       NULL) < 0)
        return -1;
    if (info.type != H5L_TYPE_HARD)
        return 0;
    if (mkt_vol_native()->link_cls.get(group->under, &loc, &get_name, H5P_DATASET_XFER_DEFAULT,
                                       NULL) < 0)
        return -1;
    *name_out = malloc(length + 1);
    get_name.args.get_name.name = *name_out;
    get_name.args.get_name.name_size = length + 1;
    if (!*name_out)
        return -1;
    return mkt_vol_native()->link_cls.get(group->under, &loc, &get_name, H5P_DATASET_XFER_DEFAULT,
                                          NULL);
}
