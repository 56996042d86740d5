/* SPDX-License-Identifier: BSD-3-Clause */
/* Blobs hold variable-length data, which stays in the image. */
#include "vol/callbacks.h"
#include "vol/object.h"

herr_t mkt_vol_blob_put(void *object, const void *buffer, size_t size, void *id, void *context)
{
    return mkt_vol_native()->blob_cls.put(mkt_vol_under(object), buffer, size, id, context);
}

herr_t mkt_vol_blob_get(void *object, const void *id, void *buffer, size_t size, void *context)
{
    return mkt_vol_native()->blob_cls.get(mkt_vol_under(object), id, buffer, size, context);
}

herr_t mkt_vol_blob_specific(void *object, void *id, H5VL_blob_specific_args_t *args)
{
    return mkt_vol_native()->blob_cls.specific(mkt_vol_under(object), id, args);
}

herr_t mkt_vol_blob_optional(void *object, void *id, H5VL_optional_args_t *args)
{
    return H5VLblob_optional(mkt_vol_under(object), mkt_vol_native_id(), id, args);
}
