/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes and their data stay in the image. */
#include "vol/callbacks.h"
#include "vol/object.h"
#include "vol/threads.h"

void *mkt_vol_attribute_create(void *object, const H5VL_loc_params_t *loc, const char *name,
                               hid_t type, hid_t space, hid_t acpl, hid_t aapl, hid_t dxpl,
                               void **request)
{
    if (!mkt_vol_object_usable(object))
        return NULL;
    void *under = mkt_vol_native()->attr_cls.create(mkt_vol_under(object), loc, name, type, space,
                                                    acpl, aapl, dxpl, request);
    return mkt_vol_object_adopt(under, H5I_ATTR);
}

void *mkt_vol_attribute_open(void *object, const H5VL_loc_params_t *loc, const char *name,
                             hid_t aapl, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return NULL;
    void *under =
        mkt_vol_native()->attr_cls.open(mkt_vol_under(object), loc, name, aapl, dxpl, request);
    return mkt_vol_object_adopt(under, H5I_ATTR);
}

herr_t mkt_vol_attribute_read(void *attribute, hid_t type, void *buffer, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(attribute))
        return -1;
    return mkt_vol_native()->attr_cls.read(mkt_vol_under(attribute), type, buffer, dxpl, request);
}

herr_t mkt_vol_attribute_write(void *attribute, hid_t type, const void *buffer, hid_t dxpl,
                               void **request)
{
    if (!mkt_vol_object_usable(attribute))
        return -1;
    return mkt_vol_native()->attr_cls.write(mkt_vol_under(attribute), type, buffer, dxpl, request);
}

herr_t mkt_vol_attribute_get(void *object, H5VL_attr_get_args_t *args, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return -1;
    return mkt_vol_native()->attr_cls.get(mkt_vol_under(object), args, dxpl, request);
}

herr_t mkt_vol_attribute_specific(void *object, const H5VL_loc_params_t *loc,
                                  H5VL_attr_specific_args_t *args, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return -1;
    mkt_vol_threads_hold();
    herr_t result =
        mkt_vol_native()->attr_cls.specific(mkt_vol_under(object), loc, args, dxpl, request);
    mkt_vol_threads_unhold();
    return result;
}

herr_t mkt_vol_attribute_optional(void *object, H5VL_optional_args_t *args, hid_t dxpl,
                                  void **request)
{
    if (!mkt_vol_object_usable(object))
        return -1;
    mkt_vol_threads_hold();
    herr_t result = mkt_vol_native()->attr_cls.optional(mkt_vol_under(object), args, dxpl, request);
    mkt_vol_threads_unhold();
    return result;
}

herr_t mkt_vol_attribute_close(void *attribute, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_closing(attribute))
        return 0;
    return mkt_vol_object_closed(
        attribute, mkt_vol_native()->attr_cls.close(mkt_vol_under(attribute), dxpl, request));
}
