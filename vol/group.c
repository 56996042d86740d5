/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups are native's. Mounting passes a second object, whose wrapper comes off. */
#include "vol/callbacks.h"
#include "vol/file_state.h"
#include "vol/object.h"
#include "vol/threads.h"

void *mkt_vol_group_create(void *object, const H5VL_loc_params_t *loc, const char *name, hid_t lcpl,
                           hid_t gcpl, hid_t gapl, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return NULL;
    void *under = mkt_vol_native()->group_cls.create(mkt_vol_under(object), loc, name, lcpl, gcpl,
                                                     gapl, dxpl, request);
    return mkt_vol_object_adopt(under, H5I_GROUP);
}

void *mkt_vol_group_open(void *object, const H5VL_loc_params_t *loc, const char *name, hid_t gapl,
                         hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return NULL;
    void *under =
        mkt_vol_native()->group_cls.open(mkt_vol_under(object), loc, name, gapl, dxpl, request);
    return mkt_vol_object_adopt(under, H5I_GROUP);
}

herr_t mkt_vol_group_get(void *group, H5VL_group_get_args_t *args, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(group))
        return -1;
    return mkt_vol_native()->group_cls.get(mkt_vol_under(group), args, dxpl, request);
}

herr_t mkt_vol_group_specific(void *group, H5VL_group_specific_args_t *args, hid_t dxpl,
                              void **request)
{
    if (!mkt_vol_object_usable(group))
        return -1;
    if (args->op_type == H5VL_GROUP_FLUSH && mkt_vol_object_may_flush(group) < 0)
        return -1;
    H5VL_group_specific_args_t native_args = *args;
    if (args->op_type == H5VL_GROUP_MOUNT)
        native_args.args.mount.child_file = mkt_vol_under(args->args.mount.child_file);
    herr_t result =
        mkt_vol_native()->group_cls.specific(mkt_vol_under(group), &native_args, dxpl, request);
    /* A mounted file whose last handle is gone ends with the unmount. */
    if (args->op_type == H5VL_GROUP_UNMOUNT && mkt_vol_files_settle() < 0)
        result = -1;
    return result;
}

herr_t mkt_vol_group_optional(void *group, H5VL_optional_args_t *args, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(group))
        return -1;
    mkt_vol_threads_hold();
    herr_t result = mkt_vol_native()->group_cls.optional(mkt_vol_under(group), args, dxpl, request);
    mkt_vol_threads_unhold();
    return result;
}

herr_t mkt_vol_group_close(void *group, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_closing(group))
        return 0;
    return mkt_vol_object_closed(
        group, mkt_vol_native()->group_cls.close(mkt_vol_under(group), dxpl, request));
}
