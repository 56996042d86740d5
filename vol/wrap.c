/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrapping: HDF5 hands us objects that native made on its own way (iteration, types of datasets,
 * the file that a file keeps of itself). The context carries nothing, since an object's file is
 * asked of the object; native has no context of its own.
 */
#include "vol/callbacks.h"
#include "vol/context.h"
#include "vol/object.h"

static char no_context; /* something to point at: HDF5 takes NULL for "no wrapping" */

void *mkt_vol_wrap_get_object(const void *object)
{
    return mkt_vol_under(object);
}

herr_t mkt_vol_wrap_get_context(const void *object, void **context_out)
{
    (void)object;
    *context_out = &no_context;
    return 0;
}

herr_t mkt_vol_wrap_free_context(void *context)
{
    (void)context;
    return 0;
}

void *mkt_vol_wrap_object(void *under, H5I_type_t type, void *context)
{
    (void)context;
    if (mkt_vol_context_post_open() == MKT_VOL_POST_OPEN_BARE)
        return under;
    struct mkt_vol_object *object = mkt_vol_object_wrap(under, type, mkt_vol_file_of(under, type));
    if (object && mkt_vol_context_post_open() == MKT_VOL_POST_OPEN_WRAPPED)
        mkt_vol_object_set_internal(object);
    if (object && type == H5I_DATASET && object->file->in_market &&
        mkt_vol_dataset_attach(object) < 0) {
        mkt_vol_object_free(object);
        return NULL;
    }
    return object;
}

void *mkt_vol_wrap_unwrap(void *object)
{
    void *under = mkt_vol_under(object);
    struct mkt_vol_object *wrapper = object;
    if (wrapper->dataset)
        mkt_vol_dataset_detach(wrapper);
    mkt_vol_object_free(wrapper);
    return under;
}
