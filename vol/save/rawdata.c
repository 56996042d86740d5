/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/save/rawdata.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_CACHE_SLOTS 24593
#define CHUNK_CACHE_BYTES (256u << 20)

struct walk {
    const struct mkt_raw_source *source;
    struct mkt_error *error;
    enum mkt_status status;
    bool chunked; /* which datasets this walk is for */
    uint64_t found;
};

/* ---- errors ---- */

static herr_t note_deepest(unsigned n, const H5E_error2_t *entry, void *context)
{
    (void)n;
    const char **deepest = context;
    if (entry->desc && entry->desc[0])
        *deepest = entry->desc;
    return 0;
}

enum mkt_status mkt_raw_failed(const char *what, const char *name, struct mkt_error *error)
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
    return mkt_raw_piece(context, piece);
}

bool mkt_raw_fits(hid_t space, const struct mkt_array *array, size_t type_bytes)
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

static enum mkt_status write_pieces(struct walk *walk, hid_t id, const char *name,
                                    const struct mkt_raw_array *array)
{
    struct mkt_slab whole;
    uint64_t origin[MKT_MAX_RANK] = {0};
    struct mkt_raw_dataset target = {.id = id,
                                     .type = H5Dget_type(id),
                                     .name = name,
                                     .chunked = walk->chunked,
                                     .array = array->meta,
                                     .source = walk->source,
                                     .error = walk->error};
    hid_t space = H5Dget_space(id);
    enum mkt_status status;
    if (target.type < 0 || space < 0)
        status = mkt_raw_failed("opening dataset", name, walk->error);
    else if (!mkt_raw_fits(space, &array->meta, H5Tget_size(target.type)))
        status = mkt_error_set(walk->error, MKT_CORRUPT,
                               "dataset %s does not fit the market's record of it", name);
    else {
        mkt_slab_box(&whole, array->meta.rank, origin, array->meta.dims);
        status = walk->source->query(walk->source->context, array, &whole, write_piece, &target,
                                     walk->error);
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

static void look_at_list(hid_t dataset, bool *chunked_out, bool *early_out)
{
    hid_t dcpl = H5Dget_create_plist(dataset);
    H5D_alloc_time_t time = H5D_ALLOC_TIME_DEFAULT;
    *chunked_out = dcpl >= 0 && H5Pget_layout(dcpl) == H5D_CHUNKED;
    *early_out = dcpl >= 0 && H5Pget_alloc_time(dcpl, &time) >= 0 && time == H5D_ALLOC_TIME_EARLY;
    if (dcpl >= 0)
        H5Pclose(dcpl);
}

/* Native allocates all storage with the first write, of one element here: what is there. */
static herr_t touch(hid_t dataset, hid_t type, hid_t space)
{
    static const hsize_t one[H5S_MAX_RANK] = {[0 ... H5S_MAX_RANK - 1] = 1};
    static const hsize_t origin[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_ndims(space);
    void *element = calloc(1, H5Tget_size(type));
    hid_t scalar = H5Screate(H5S_SCALAR);
    herr_t status =
        rank > 0 ? H5Sselect_hyperslab(space, H5S_SELECT_SET, origin, NULL, one, NULL) : 0;
    if (status >= 0)
        status = element ? H5Dread(dataset, type, scalar, space, H5P_DEFAULT, element) : -1;
    if (status >= 0)
        status = H5Dwrite(dataset, type, scalar, space, H5P_DEFAULT, element);
    H5Sclose(scalar);
    free(element);
    return status;
}

/* The storage that an early allocation would have brought. */
static enum mkt_status allocate(hid_t dataset, const char *name, struct mkt_error *error)
{
    H5D_space_status_t allocated = H5D_SPACE_STATUS_ALLOCATED;
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    herr_t status = H5Dget_space_status(dataset, &allocated);
    if (status >= 0 && allocated != H5D_SPACE_STATUS_ALLOCATED &&
        H5Sget_simple_extent_npoints(space) > 0)
        status = touch(dataset, type, space);
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    return status >= 0 ? MKT_OK : mkt_raw_failed("allocating dataset", name, error);
}

/* The array of the dataset that the walk is at; false: there is nothing to write. */
static bool find(struct walk *walk, const H5O_info2_t *info, struct mkt_raw_array *array_out)
{
    uint8_t token[MKT_TOKEN_BYTES];

    _Static_assert(sizeof info->token == MKT_TOKEN_BYTES, "tokens of HDF5 and of the market");
    memcpy(token, &info->token, sizeof token);
    memset(array_out, 0, sizeof *array_out);
    walk->status = walk->source->find(walk->source->context, token, array_out);
    if (walk->status == MKT_NOT_FOUND) { /* its raw data is in the image */
        walk->status = MKT_OK;
        return false;
    }
    if (walk->status != MKT_OK) {
        mkt_error_set(walk->error, walk->status, "the index of the version is corrupt");
        return false;
    }
    walk->found++;
    return true;
}

/* Says in the file that the elements of a dataset were left out of it. */
static enum mkt_status mark(hid_t dataset, const char *name, struct mkt_error *error)
{
    static const char text[] = "a rule of h5market.yaml kept the elements in memory; what the file "
                               "has are fill values";
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t type = H5Tcopy(H5T_C_S1), attribute = H5I_INVALID_HID;
    bool good = space >= 0 && type >= 0 && H5Tset_size(type, sizeof text) >= 0;
    if (good && H5Aexists(dataset, MKT_RAW_MARK) == 0) {
        attribute = H5Acreate2(dataset, MKT_RAW_MARK, type, space, H5P_DEFAULT, H5P_DEFAULT);
        good = attribute >= 0 && H5Awrite(attribute, type, text) >= 0;
    }
    enum mkt_status status = good ? MKT_OK : mkt_raw_failed("marking dataset", name, error);
    if (attribute >= 0)
        H5Aclose(attribute);
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    return status;
}

static herr_t visit(hid_t root, const char *name, const H5O_info2_t *info, void *context)
{
    struct walk *walk = context;
    struct mkt_raw_array array;
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    if (!find(walk, info, &array))
        return walk->status == MKT_OK ? 0 : -1;
    hid_t dataset = open_dataset(root, name);
    if (dataset < 0) {
        walk->status = mkt_raw_failed("opening dataset", name, walk->error);
        return -1;
    }
    bool chunked, early;
    look_at_list(dataset, &chunked, &early);
    bool left_out =
        walk->source->leaves_memory_only && (array.meta.flags & MKT_ARRAY_MEMORY_ONLY) != 0;
    if (chunked == walk->chunked && array.any)
        walk->status =
            left_out ? mark(dataset, name, walk->error) : write_pieces(walk, dataset, name, &array);
    if (chunked == walk->chunked && early && walk->status == MKT_OK)
        walk->status = allocate(dataset, name, walk->error);
    if (H5Dclose(dataset) < 0 && walk->status == MKT_OK) /* writes what the chunk cache holds */
        walk->status = mkt_raw_failed("writing dataset", name, walk->error);
    return walk->status == MKT_OK ? 0 : -1;
}

/* ---- the file ---- */

enum mkt_status mkt_raw_write(hid_t file, const char *name, const struct mkt_raw_source *source,
                              uint64_t *found_out, struct mkt_error *error)
{
    struct walk walk = {.source = source, .error = error, .status = MKT_OK};
    herr_t visited = 0;
    /* Contiguous ones first: a chunk that grows leaves space with old bytes behind, and HDF5 would
     * hand that to a contiguous dataset without clearing what is never written in it. */
    for (int pass = 0; pass < 2 && visited >= 0; pass++) {
        walk.chunked = pass == 1;
        walk.found = 0;
        visited = H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_NATIVE, visit, &walk, H5O_INFO_BASIC);
    }
    if (visited < 0 && walk.status == MKT_OK)
        walk.status = mkt_raw_failed("walking through", name, error);
    *found_out = walk.found;
    return walk.status;
}
