/* SPDX-License-Identifier: BSD-3-Clause */
/* A version's raw data into the file on disk: the index as a source, progress, and its end by a
 * signal. */
#include "vol/save/save.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/base/log.h"
#include "vol/save/opened.h"
#include "vol/save/rawdata.h"

#define YIELD_BYTES (4u << 20)

/* ---- progress ---- */

static void progress_add(struct mkt_save_progress *progress, uint64_t bytes)
{
    struct mkt_progress *lines = &progress->lines;
    uint64_t now = mkt_now_ms();
    if (!lines->began_ms)
        lines->began_ms = now;
    progress->done_bytes += bytes;
    bool last = progress->done_bytes == progress->total_bytes;
    if (!mkt_progress_is_due(lines, now, last))
        return;
    fprintf(stderr, "%s%s: %.2f of %.2f GiB%s", lines->terminal ? "\r" : "", progress->name,
            (double)progress->done_bytes / (1 << 30), (double)progress->total_bytes / (1 << 30),
            lines->terminal && !last ? "" : "\n");
}

static enum mkt_status yield(struct mkt_save_progress *progress, uint64_t bytes,
                             struct mkt_error *error)
{
    progress->since_yield_bytes += bytes;
    if (progress->since_yield_bytes < YIELD_BYTES)
        return MKT_OK;
    bytes = progress->since_yield_bytes;
    progress->since_yield_bytes = 0;
    return mkt_client_save_yield(progress->yields_to, bytes, error);
}

enum mkt_status mkt_save_moved(struct mkt_save_progress *progress, uint64_t bytes,
                               struct mkt_error *error)
{
    if (mkt_save_is_interrupted())
        return mkt_error_set(error, MKT_CANCELLED, "interrupted; nothing was written");
    if (progress->yields_to)
        return yield(progress, bytes, error);
    if (bytes > 0)
        progress_add(progress, bytes);
    return MKT_OK;
}

/* ---- the index as a source ---- */

struct version {
    const struct mkt_index_view *index;
    struct mkt_save_progress *progress;
};

static enum mkt_status next(void *context, struct mkt_raw_array *array)
{
    const struct version *version = context;
    uint64_t position = array->own ? array->position + 1 : 0;
    if (position >= version->index->arrays)
        return MKT_NOT_FOUND;
    array->own = context;
    array->position = position;
    array->any = mkt_index_view_pieces(version->index, (uint32_t)position) > 0;
    return mkt_index_view_array(version->index, (uint32_t)position, &array->meta);
}

static enum mkt_status query(void *context, const struct mkt_raw_array *array,
                             const struct mkt_slab *want, mkt_piece_fn fn, void *fn_context,
                             struct mkt_error *error)
{
    (void)error;
    return mkt_index_view_query(((const struct version *)context)->index, (uint32_t)array->position,
                                want, fn, fn_context);
}

static enum mkt_status moved(void *context, uint64_t bytes, struct mkt_error *error)
{
    return mkt_save_moved(((const struct version *)context)->progress, bytes, error);
}

/* ---- the file ---- */

static hid_t open_native(const char *path)
{
    hid_t fapl = mkt_opened_access_list(), file = H5I_INVALID_HID;
    if (fapl < 0)
        return fapl;
    if (H5Pset_fapl_sec2(fapl) >= 0 && mkt_raw_list(fapl) >= 0)
        file = H5Fopen(path, H5F_ACC_RDWR, fapl);
    H5Pclose(fapl);
    return file;
}

static void say_left_out(const struct mkt_save_progress *progress, const char *path, uint64_t count)
{
    static const char text[] = "datasets are in the file no more, unlinked while they were open; "
                               "left out";
    if (progress->yields_to)
        mkt_log_info("archiver", "%s: %" PRIu64 " %s", path, count, text);
    else
        fprintf(stderr, "%s: %" PRIu64 " %s\n", progress->name, count, text);
}

enum mkt_status mkt_save_raw_data(const char *path, struct mkt_client *client, uint64_t handle,
                                  const struct mkt_index_view *index,
                                  struct mkt_save_progress *progress, struct mkt_error *error)
{
    struct version version = {.index = index, .progress = progress};
    const struct mkt_raw_source source = {.context = &version,
                                          .client = client,
                                          .file = handle,
                                          .leaves_memory_only = progress->leaves_memory_only,
                                          .next = next,
                                          .query = query,
                                          .moved = moved};
    uint64_t found = 0;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (index->arrays == 0)
        return MKT_OK;
    if (!progress->yields_to)
        progress_add(progress, 0);
    hid_t file = open_native(path);
    if (file < 0)
        return mkt_raw_failed("opening the image in", path, error);
    enum mkt_status status = mkt_raw_write(file, path, &source, &found, error);
    if (H5Fclose(file) < 0 && status == MKT_OK)
        status = mkt_raw_failed("closing", path, error);
    if (status == MKT_OK && found < index->arrays)
        say_left_out(progress, path, index->arrays - found);
    return status;
}

static enum mkt_status add_bytes(void *context, const struct mkt_piece *piece)
{
    *(uint64_t *)context += piece->data.length;
    return MKT_OK;
}

enum mkt_status mkt_save_count_bytes(const struct mkt_index_view *index, uint64_t *bytes_out)
{
    uint64_t bytes = 0;
    for (uint32_t position = 0; position < index->arrays; position++) {
        struct mkt_array array;
        struct mkt_slab whole;
        uint64_t origin[MKT_MAX_RANK] = {0};
        enum mkt_status status = mkt_index_view_array(index, position, &array);
        if (status != MKT_OK)
            return status;
        mkt_slab_box(&whole, array.rank, origin, array.dims);
        status = mkt_index_view_query(index, position, &whole, add_bytes, &bytes);
        if (status != MKT_OK)
            return status;
    }
    *bytes_out = bytes;
    return MKT_OK;
}

enum mkt_status mkt_save_version(const struct mkt_save_target *target, struct mkt_client *client,
                                 const struct mkt_opened *version,
                                 struct mkt_save_progress *progress, struct mkt_error *error)
{
    struct mkt_index_view index = {0};
    enum mkt_status status = MKT_OK;
    if (version->index_bytes)
        status = mkt_index_view_open(&index, version->index, version->index_bytes);
    if (status == MKT_OK && index.arrays)
        status = mkt_save_count_bytes(&index, &progress->total_bytes);
    if (status != MKT_OK)
        return mkt_error_set(error, status, "the index of the version is corrupt");
    status = mkt_save_target_fill(target, version->image, version->image_bytes, progress, error);
    if (status == MKT_OK)
        status = mkt_fault_point("save.filled");
    if (status == MKT_OK)
        status = mkt_save_mark_early(target, &index, error);
    if (status == MKT_OK)
        status =
            mkt_save_raw_data(target->temporary, client, version->file, &index, progress, error);
    return status;
}
