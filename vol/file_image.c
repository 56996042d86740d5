/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * H5Fget_file_image: the image that native works in lacks the raw data, which lies in the market. A
 * native file in memory is made of it for the length of the call, gets the raw data, and answers.
 */
#include "vol/file_image.h"

#include <stdlib.h>

#include "core/client/superblock.h"
#include "vol/arrays.h"
#include "vol/error.h"
#include "vol/file_state.h"
#include "vol/save/rawdata.h"

/* ---- the file's arrays as a source ---- */

static enum mkt_status next(void *context, struct mkt_raw_array *array)
{
    struct mkt_vol_file *file = context;
    struct mkt_vol_array *own = array->own;
    enum mkt_status status = mkt_vol_arrays_next(file->arrays, &own);

    if (status != MKT_OK)
        return status;
    array->own = own;
    array->meta = *mkt_vol_array_meta(own);
    array->any = true;
    return MKT_OK;
}

static enum mkt_status query(void *context, const struct mkt_raw_array *array,
                             const struct mkt_slab *want, mkt_piece_fn fn, void *fn_context,
                             struct mkt_error *error)
{
    struct mkt_vol_sources sources;

    (void)context;
    enum mkt_status status = mkt_vol_sources_open(&sources, array->own, error);
    if (status != MKT_OK)
        return status;
    status = mkt_vol_sources_query(&sources, want, fn, fn_context);
    mkt_vol_sources_close(&sources);
    return status;
}

/* ---- the native file ---- */

/* What is in the driver's buffer after a flush. *owned_out: free it. */
static const void *metadata(struct mkt_vol_file *file, size_t *bytes_out, void **owned_out)
{
    *owned_out = NULL;
    if (!file->writable)
        return mkt_vol_image_content(file->image, bytes_out);
    *owned_out = mkt_vol_image_copy_flushed(file->image, bytes_out);
    return *owned_out;
}

static hid_t open_image(struct mkt_vol_image *image)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), file = H5I_INVALID_HID;

    if (fapl < 0)
        return fapl;
    if (mkt_raw_list(fapl) >= 0)
        file = mkt_vol_image_open_alone(image, fapl);
    mkt_vol_close_keeping_errors(fapl);
    return file;
}

/* Native gives the bytes of a file that is open: as if it were closed they are whole everywhere. */
static enum mkt_status take(hid_t twin, const H5VL_native_file_get_file_image_t *args,
                            const char *path, struct mkt_error *error)
{
    struct mkt_superblock superblock;

    if (H5Fflush(twin, H5F_SCOPE_LOCAL) < 0)
        return mkt_raw_failed("writing an image of", path, error);
    ssize_t bytes = H5Fget_file_image(twin, NULL, 0);
    if (bytes >= 0 && args->buf && args->buf_size < (size_t)bytes)
        return mkt_error_set(error, MKT_INVALID, "supplied buffer too small");
    if (bytes >= 0 && args->buf)
        bytes = H5Fget_file_image(twin, args->buf, args->buf_size);
    if (bytes < 0)
        return mkt_raw_failed("taking an image of", path, error);
    *args->image_len = (size_t)bytes;
    if (args->buf && mkt_superblock_read(args->buf, (size_t)bytes, &superblock))
        mkt_superblock_close(args->buf, &superblock, superblock.end_of_file);
    return MKT_OK;
}

static enum mkt_status make(struct mkt_vol_file *file,
                            const H5VL_native_file_get_file_image_t *args, struct mkt_error *error)
{
    const struct mkt_raw_source source = {.context = file,
                                          .client = file->client,
                                          .file = file->handle,
                                          .next = next,
                                          .query = query};
    uint64_t found;
    size_t bytes = 0;
    void *owned;
    const void *content = metadata(file, &bytes, &owned);
    struct mkt_vol_image *image =
        content ? mkt_vol_image_create(content, bytes, true, NULL, NULL) : NULL;
    enum mkt_status status = MKT_NO_MEMORY;

    if (!image) {
        mkt_error_set(error, status, "no memory for an image of %s", file->path);
        goto done;
    }
    hid_t twin = open_image(image);
    if (twin < 0) {
        status = mkt_raw_failed("opening an image of", file->path, error);
        goto done;
    }
    status = mkt_raw_write(twin, file->path, &source, &found, error);
    if (status == MKT_OK)
        status = take(twin, args, file->path, error);
    H5Fclose(twin);
done:
    mkt_vol_image_destroy(image);
    free(owned);
    return status;
}

static herr_t flush(const struct mkt_vol_object *object, hid_t dxpl)
{
    H5VL_file_specific_args_t args = {
        .op_type = H5VL_FILE_FLUSH, .args.flush = {.obj_type = H5I_FILE, .scope = H5F_SCOPE_LOCAL}};

    return object->file->writable
               ? mkt_vol_native()->file_cls.specific(object->under, &args, dxpl, NULL)
               : 0;
}

herr_t mkt_vol_file_image_get(struct mkt_vol_object *object,
                              const H5VL_native_file_get_file_image_t *args, hid_t dxpl)
{
    struct mkt_vol_file *file = object->file;
    struct mkt_error error = {0};
    struct mkt_vol_silence silence;
    void *context;

    if (mkt_vol_file_refuse_in_child(file, H5E_FILE) < 0)
        return -1;
    if (flush(object, dxpl) < 0 || mkt_vol_call_context_open(&context) < 0)
        return -1;
    mkt_vol_silence_begin(&silence);
    error.status = make(file, args, &error);
    H5Eclear2(H5E_DEFAULT);
    mkt_vol_silence_end(&silence);
    mkt_vol_call_context_close(context);
    return error.status == MKT_OK ? 0 : mkt_vol_fail_status(&error);
}
