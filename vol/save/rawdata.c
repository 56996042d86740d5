/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/save/save.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROGRESS_AFTER_MS 2000
#define CHUNK_CACHE_SLOTS 24593
#define CHUNK_CACHE_BYTES (256u << 20)

struct walk {
    struct mkt_client *client;
    const struct mkt_index_view *index;
    struct mkt_save_progress *progress;
    struct mkt_error *error;
    enum mkt_status status;
    bool chunked; /* which datasets this walk is for */
    uint64_t arrays_found;
};

/* ---- progress ---- */

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void mkt_save_progress_add(struct mkt_save_progress *progress, uint64_t bytes)
{
    uint64_t now = now_ms();
    if (!progress->began_ms)
        progress->began_ms = now;
    progress->done_bytes += bytes;
    bool last = progress->done_bytes == progress->total_bytes;
    if (now - progress->began_ms < PROGRESS_AFTER_MS ||
        (!last && now - progress->shown_ms < (progress->terminal ? 250 : 10000)))
        return;
    progress->shown_ms = now;
    progress->shown = true;
    fprintf(stderr, "%s%s: %.2f of %.2f GiB%s", progress->terminal ? "\r" : "", progress->name,
            (double)progress->done_bytes / (1 << 30), (double)progress->total_bytes / (1 << 30),
            progress->terminal && !last ? "" : "\n");
}

/* ---- errors ---- */

static herr_t note_deepest(unsigned n, const H5E_error2_t *entry, void *context)
{
    (void)n;
    const char **deepest = context;
    if (entry->desc && entry->desc[0])
        *deepest = entry->desc;
    return 0;
}

enum mkt_status mkt_save_hdf5_failed(const char *what, const char *name, struct mkt_error *error)
{
    const char *deepest = "no reason given";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, note_deepest, &deepest);
    bool full = strstr(deepest, "No space") || strstr(deepest, "quota");
    return mkt_error_set(error, full ? MKT_NO_SPACE : MKT_IO_ERROR, "%s %s failed: %s%s", what,
                         name, deepest, full ? "; make room on the target's file system" : "");
}

/* ---- one dataset ---- */

static enum mkt_status write_piece(void *context, const struct mkt_piece *piece)
{
    return mkt_save_piece(context, piece);
}

/* True if the dataset is what the index says it is. */
static bool fits(hid_t space, const struct mkt_array *array, size_t type_bytes)
{
    hsize_t dims[MKT_MAX_RANK];
    if (type_bytes != array->element_bytes || H5Sget_simple_extent_ndims(space) != (int)array->rank)
        return false;
    if (array->rank == 0)
        return true;
    H5Sget_simple_extent_dims(space, dims, NULL);
    for (uint32_t d = 0; d < array->rank; d++)
        if (dims[d] != array->dims[d])
            return false;
    return true;
}

static enum mkt_status write_pieces(struct walk *walk, hid_t dataset, const char *name,
                                    uint32_t position, const struct mkt_array *array)
{
    struct mkt_slab whole;
    uint64_t origin[MKT_MAX_RANK] = {0};
    struct mkt_save_dataset target = {.id = dataset,
                                      .type = H5Dget_type(dataset),
                                      .name = name,
                                      .array = *array,
                                      .client = walk->client,
                                      .progress = walk->progress,
                                      .error = walk->error};
    hid_t space = H5Dget_space(dataset);
    enum mkt_status status;
    if (target.type < 0 || space < 0)
        status = mkt_save_hdf5_failed("opening dataset", name, walk->error);
    else if (!fits(space, array, H5Tget_size(target.type)))
        status = mkt_error_set(walk->error, MKT_CORRUPT,
                               "dataset %s does not fit the market's record of it", name);
    else {
        mkt_slab_box(&whole, array->rank, origin, array->dims);
        status = mkt_index_view_query(walk->index, position, &whole, write_piece, &target);
        if (status != MKT_OK && !walk->error->text[0])
            mkt_error_set(walk->error, status, "dataset %s: %s", name, mkt_status_text(status));
    }
    if (space >= 0)
        H5Sclose(space);
    if (target.type >= 0)
        H5Tclose(target.type);
    return status;
}

/* Chunks that more than one piece touches stay in the cache until they are whole. */
static hid_t open_dataset(hid_t root, const char *name)
{
    hid_t dapl = H5Pcreate(H5P_DATASET_ACCESS), dataset = H5I_INVALID_HID;
    if (dapl >= 0 && H5Pset_chunk_cache(dapl, CHUNK_CACHE_SLOTS, CHUNK_CACHE_BYTES, 1.0) >= 0)
        dataset = H5Dopen2(root, name, dapl);
    if (dapl >= 0)
        H5Pclose(dapl);
    return dataset;
}

static bool is_chunked(hid_t dataset)
{
    hid_t dcpl = H5Dget_create_plist(dataset);
    bool chunked = dcpl >= 0 && H5Pget_layout(dcpl) == H5D_CHUNKED;
    if (dcpl >= 0)
        H5Pclose(dcpl);
    return chunked;
}

static herr_t visit(hid_t root, const char *name, const H5O_info2_t *info, void *context)
{
    struct walk *walk = context;
    struct mkt_array array;
    uint32_t position;
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    walk->status = mkt_index_view_find_token(walk->index, info->token.__data, &position);
    if (walk->status == MKT_NOT_FOUND) { /* its raw data is in the image */
        walk->status = MKT_OK;
        return 0;
    }
    if (walk->status == MKT_OK)
        walk->status = mkt_index_view_array(walk->index, position, &array);
    if (walk->status != MKT_OK) {
        mkt_error_set(walk->error, walk->status, "the index of the version is corrupt");
        return -1;
    }
    walk->arrays_found++;
    if (mkt_index_view_pieces(walk->index, position) == 0)
        return 0;
    hid_t dataset = open_dataset(root, name);
    if (dataset < 0) {
        walk->status = mkt_save_hdf5_failed("opening dataset", name, walk->error);
        return -1;
    }
    if (is_chunked(dataset) == walk->chunked)
        walk->status = write_pieces(walk, dataset, name, position, &array);
    if (H5Dclose(dataset) < 0 && walk->status == MKT_OK) /* writes what the chunk cache holds */
        walk->status = mkt_save_hdf5_failed("writing dataset", name, walk->error);
    return walk->status == MKT_OK ? 0 : -1;
}

/* ---- the file ---- */

static hid_t open_native(const char *path)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), file = H5I_INVALID_HID;
    if (fapl < 0)
        return fapl;
    /* The lock is ours already. */
    if (H5Pset_vol(fapl, H5VL_NATIVE, NULL) >= 0 && H5Pset_fapl_sec2(fapl) >= 0 &&
        H5Pset_file_locking(fapl, false, true) >= 0)
        file = H5Fopen(path, H5F_ACC_RDWR, fapl);
    H5Pclose(fapl);
    return file;
}

enum mkt_status mkt_save_raw_data(const char *path, struct mkt_client *client,
                                  const struct mkt_index_view *index,
                                  struct mkt_save_progress *progress, struct mkt_error *error)
{
    struct walk walk = {
        .client = client, .index = index, .progress = progress, .error = error, .status = MKT_OK};
    herr_t visited = 0;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (index->arrays == 0)
        return MKT_OK;
    mkt_save_progress_add(progress, 0);
    hid_t file = open_native(path);
    if (file < 0)
        return mkt_save_hdf5_failed("opening the image in", path, error);
    /* Contiguous ones first: a chunk that grows leaves space with old bytes behind, and HDF5 would
     * hand that to a contiguous dataset without clearing what is never written in it. */
    for (int pass = 0; pass < 2 && visited >= 0; pass++) {
        walk.chunked = pass == 1;
        walk.arrays_found = 0;
        visited = H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_NATIVE, visit, &walk, H5O_INFO_BASIC);
    }
    if (visited < 0 && walk.status == MKT_OK)
        walk.status = mkt_save_hdf5_failed("walking through", path, error);
    if (H5Fclose(file) < 0 && walk.status == MKT_OK)
        walk.status = mkt_save_hdf5_failed("closing", path, error);
    if (walk.status == MKT_OK && walk.arrays_found < index->arrays)
        fprintf(stderr, "%s: %" PRIu64 " datasets have no name in the file any more; left out\n",
                progress->name, index->arrays - walk.arrays_found);
    return walk.status;
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
