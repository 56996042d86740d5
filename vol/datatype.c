/* SPDX-License-Identifier: BSD-3-Clause */
/* Named types are native's. */
#include "vol/callbacks.h"
#include "vol/object.h"

void *mkt_vol_datatype_commit(void *object, const H5VL_loc_params_t *loc, const char *name,
                              hid_t type, hid_t lcpl, hid_t tcpl, hid_t tapl, hid_t dxpl,
                              void **request)
{
    if (!mkt_vol_object_usable(object))
        return NULL;
    void *under = mkt_vol_native()->datatype_cls.commit(mkt_vol_under(object), loc, name, type,
                                                        lcpl, tcpl, tapl, dxpl, request);
    return mkt_vol_object_adopt(under, H5I_DATATYPE);
}

void *mkt_vol_datatype_open(void *object, const H5VL_loc_params_t *loc, const char *name,
                            hid_t tapl, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return NULL;
    void *under =
        mkt_vol_native()->datatype_cls.open(mkt_vol_under(object), loc, name, tapl, dxpl, request);
    return mkt_vol_object_adopt(under, H5I_DATATYPE);
}

herr_t mkt_vol_datatype_get(void *datatype, H5VL_datatype_get_args_t *args, hid_t dxpl,
                            void **request)
{
    if (!mkt_vol_object_usable(datatype))
        return -1;
    return mkt_vol_native()->datatype_cls.get(mkt_vol_under(datatype), args, dxpl, request);
}

herr_t mkt_vol_datatype_specific(void *datatype, H5VL_datatype_specific_args_t *args, hid_t dxpl,
                                 void **request)
{
    if (!mkt_vol_object_usable(datatype))
        return -1;
    if (args->op_type == H5VL_DATATYPE_FLUSH && mkt_vol_object_may_flush(datatype) < 0)
        return -1;
    return mkt_vol_native()->datatype_cls.specific(mkt_vol_under(datatype), args, dxpl, request);
}

herr_t mkt_vol_datatype_optional(void *datatype, H5VL_optional_args_t *args, hid_t dxpl,
                                 void **request)
{
    if (!mkt_vol_object_usable(datatype))
        return -1;
    return H5VLdatatype_optional(mkt_vol_under(datatype), mkt_vol_native_id(), args, dxpl, request);
}

herr_t mkt_vol_datatype_close(void *datatype, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_closing(datatype))
        return 0;
    return mkt_vol_object_closed(
        datatype, mkt_vol_native()->datatype_cls.close(mkt_vol_under(datatype), dxpl, request));
}
