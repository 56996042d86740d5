/* SPDX-License-Identifier: BSD-3-Clause */
/* The wrapper around a native object, and the callbacks of objects of any type. */
#include "vol/object.h"

#include <stdlib.h>

#include "core/base/log.h"
#include "vol/callbacks.h"
#include "vol/context.h"
#include "vol/file_state.h"
#include "vol/intent.h"
#include "vol/native.h"
#include "vol/threads.h"

struct mkt_vol_object *mkt_vol_object_wrap(void *under, H5I_type_t type, struct mkt_vol_file *file)
{
    struct mkt_vol_object *object = mkt_vol_alloc(sizeof(*object));
    if (!object) {
        mkt_vol_fail(H5E_RESOURCE, H5E_NOSPACE, "out of memory for an object's wrapper");
        return NULL;
    }
    object->mark = MKT_VOL_OBJECT_MARK;
    object->under = under;
    object->type = type;
    object->file = file;
    if (file)
        mkt_vol_file_get_reference(file);
    return object;
}

void mkt_vol_object_set_internal(struct mkt_vol_object *object)
{
    object->internal = true;
    if (object->file)
        mkt_vol_file_object_gone(object->file);
}

void mkt_vol_object_free(struct mkt_vol_object *object)
{
    if (!object)
        return;
    if (object->file) {
        if (!object->internal && !object->closing)
            mkt_vol_file_object_gone(object->file);
        mkt_vol_file_put_reference(object->file);
    }
    object->mark = 0;
    free(object);
}

bool mkt_vol_object_usable(const void *object)
{
    if (mkt_vol_files_settle() < 0)
        mkt_log_error("vol", "a file that an external link had opened was not published");
    if (!object || ((const struct mkt_vol_object *)object)->under)
        return true;
    mkt_vol_fail(H5E_ARGS, H5E_BADVALUE,
                 "the object was closed already: its last close failed; close it once more");
    return false;
}

herr_t mkt_vol_object_may_flush(const struct mkt_vol_object *object)
{
    if (object->file && object->file->in_market &&
        object->file->state->driver == MKT_VOL_DRIVER_MPIO)
        return mkt_vol_fail(H5E_FILE, H5E_UNSUPPORTED, "H5Oflush isn't supported for parallel");
    return 0;
}

void *mkt_vol_object_adopt(void *under, H5I_type_t type)
{
    if (!under)
        return NULL;
    struct mkt_vol_object *object = mkt_vol_object_wrap(under, type, mkt_vol_file_of(under, type));
    if (!object)
        goto err_under;
    if (type == H5I_DATASET && object->file->in_market && mkt_vol_dataset_attach(object) < 0)
        goto err_object;
    return object;

err_object:
    mkt_vol_object_free(object);
err_under:
    mkt_vol_native_close(under, type);
    return NULL;
}

bool mkt_vol_object_closing(struct mkt_vol_object *object)
{
    if (!object->under) {
        mkt_vol_object_free(object);
        return false;
    }
    object->closing = true;
    if (object->file) {
        mkt_vol_file_object_gone(object->file);
        mkt_vol_file_prepare(object);
    }
    return true;
}

herr_t mkt_vol_object_closed(struct mkt_vol_object *object, herr_t native_result)
{
    bool gone = native_result >= 0 || mkt_vol_files_fail_released(object);
    if (!gone) {
        object->closing = false;
        if (object->file)
            mkt_vol_file_object_back(object->file);
        return -1;
    }
    object->under = NULL;
    if (mkt_vol_files_settle() < 0 || native_result < 0)
        return -1;
    mkt_vol_object_free(object);
    return 0;
}

void *mkt_vol_object_open(void *object, const H5VL_loc_params_t *loc, H5I_type_t *type_out,
                          hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return NULL;
    H5I_type_t type = H5I_BADID;
    void *under =
        mkt_vol_native()->object_cls.open(mkt_vol_under(object), loc, &type, dxpl, request);
    void *opened = mkt_vol_object_adopt(under, type);
    if (opened)
        *type_out = type;
    return opened;
}

herr_t mkt_vol_object_copy(void *source, const H5VL_loc_params_t *source_loc,
                           const char *source_name, void *target,
                           const H5VL_loc_params_t *target_loc, const char *target_name,
                           hid_t ocpypl, hid_t lcpl, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(source) || !mkt_vol_object_usable(target))
        return -1;
    /* Wherever mounts lead, native makes the copy in the location's file. */
    if (mkt_vol_may_write_in(target) < 0)
        return -1;
    if (mkt_vol_native()->object_cls.copy(mkt_vol_under(source), source_loc, source_name,
                                          mkt_vol_under(target), target_loc, target_name, ocpypl,
                                          lcpl, dxpl, request) < 0)
        return -1;
    if (!mkt_vol_files_any())
        return 0;
    return mkt_vol_arrays_copied(source, source_name, target, target_name);
}

herr_t mkt_vol_object_get(void *object, const H5VL_loc_params_t *loc, H5VL_object_get_args_t *args,
                          hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return -1;
    /* GET_FILE answers native's own file: HDF5 looks its id up by that and wraps it where it has
     * none. */
    return mkt_vol_native()->object_cls.get(mkt_vol_under(object), loc, args, dxpl, request);
}

herr_t mkt_vol_object_specific(void *object, const H5VL_loc_params_t *loc,
                               H5VL_object_specific_args_t *args, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return -1;
    if (args->op_type == H5VL_OBJECT_FLUSH && mkt_vol_object_may_flush(object) < 0)
        return -1;
    mkt_vol_threads_hold();
    herr_t result =
        mkt_vol_native()->object_cls.specific(mkt_vol_under(object), loc, args, dxpl, request);
    mkt_vol_threads_unhold();
    if (result >= 0 && args->op_type == H5VL_OBJECT_CHANGE_REF_COUNT &&
        args->args.change_rc.delta < 0)
        mkt_vol_files_note_unlink();
    return result;
}

herr_t mkt_vol_object_optional(void *object, const H5VL_loc_params_t *loc,
                               H5VL_optional_args_t *args, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return -1;
    mkt_vol_threads_hold();
    herr_t result =
        mkt_vol_native()->object_cls.optional(mkt_vol_under(object), loc, args, dxpl, request);
    mkt_vol_threads_unhold();
    return result;
}
