/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links are native's. H5L_SAME_LOC comes as a NULL object. What a deletion ends is
 * looked up before native deletes (unlink.h).
 */
#include "vol/callbacks.h"
#include "vol/file_state.h"
#include "vol/intent.h"
#include "vol/object.h"
#include "vol/threads.h"
#include "vol/unlink.h"

herr_t mkt_vol_link_create(H5VL_link_create_args_t *args, void *object,
                           const H5VL_loc_params_t *loc, hid_t lcpl, hid_t lapl, hid_t dxpl,
                           void **request)
{
    if (!mkt_vol_object_usable(object) || mkt_vol_may_link(object, loc) < 0)
        return -1;
    H5VL_link_create_args_t native_args = *args;
    if (args->op_type == H5VL_LINK_CREATE_HARD)
        native_args.args.hard.curr_obj = mkt_vol_under(args->args.hard.curr_obj);
    return mkt_vol_native()->link_cls.create(&native_args, mkt_vol_under(object), loc, lcpl, lapl,
                                             dxpl, request);
}

herr_t mkt_vol_link_copy(void *source, const H5VL_loc_params_t *source_loc, void *target,
                         const H5VL_loc_params_t *target_loc, hid_t lcpl, hid_t lapl, hid_t dxpl,
                         void **request)
{
    if (!mkt_vol_object_usable(source) || !mkt_vol_object_usable(target) ||
        mkt_vol_may_link(target, target_loc) < 0)
        return -1;
    return mkt_vol_native()->link_cls.copy(mkt_vol_under(source), source_loc, mkt_vol_under(target),
                                           target_loc, lcpl, lapl, dxpl, request);
}

herr_t mkt_vol_link_move(void *source, const H5VL_loc_params_t *source_loc, void *target,
                         const H5VL_loc_params_t *target_loc, hid_t lcpl, hid_t lapl, hid_t dxpl,
                         void **request)
{
    if (!mkt_vol_object_usable(source) || !mkt_vol_object_usable(target) ||
        mkt_vol_may_link(source, source_loc) < 0 || mkt_vol_may_link(target, target_loc) < 0)
        return -1;
    return mkt_vol_native()->link_cls.move(mkt_vol_under(source), source_loc, mkt_vol_under(target),
                                           target_loc, lcpl, lapl, dxpl, request);
}

herr_t mkt_vol_link_get(void *object, const H5VL_loc_params_t *loc, H5VL_link_get_args_t *args,
                        hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return -1;
    return mkt_vol_native()->link_cls.get(mkt_vol_under(object), loc, args, dxpl, request);
}

herr_t mkt_vol_link_specific(void *object, const H5VL_loc_params_t *loc,
                             H5VL_link_specific_args_t *args, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return -1;
    if (args->op_type == H5VL_LINK_DELETE && mkt_vol_may_link(object, loc) < 0)
        return -1;
    struct mkt_vol_doomed *doomed =
        args->op_type == H5VL_LINK_DELETE ? mkt_vol_unlink_begin(object, loc) : NULL;
    mkt_vol_threads_hold();
    herr_t result =
        mkt_vol_native()->link_cls.specific(mkt_vol_under(object), loc, args, dxpl, request);
    mkt_vol_threads_unhold();
    mkt_vol_unlink_end(doomed, result >= 0);
    if (result >= 0 && args->op_type == H5VL_LINK_DELETE)
        mkt_vol_files_note_unlink();
    return result;
}

herr_t mkt_vol_link_optional(void *object, const H5VL_loc_params_t *loc, H5VL_optional_args_t *args,
                             hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return -1;
    return H5VLlink_optional(mkt_vol_under(object), loc, mkt_vol_native_id(), args, dxpl, request);
}
