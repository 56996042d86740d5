/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/save/rawdata.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_CACHE_SLOTS 24593
#define CHUNK_CACHE_BYTES (256u << 20)

struct walk {
    hid_t file;
    const char *name; /* the file's */
    const struct mkt_raw_source *source;
    struct mkt_error *error;
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

const char *mkt_raw_name(hid_t dataset, char name[MKT_RAW_NAME_BYTES])
{
    if (H5Iget_name(dataset, name, MKT_RAW_NAME_BYTES) <= 0)
        strcpy(name, "without a name");
    return name;
}

enum mkt_status mkt_raw_dataset_failed(const char *what, hid_t dataset, struct mkt_error *error)
{
    char name[MKT_RAW_NAME_BYTES], whole[MKT_RAW_NAME_BYTES + 8];
    hid_t errors = H5Eget_current_stack(); /* the search for the name mustn't clear it */
    snprintf(whole, sizeof(whole), "dataset %s", mkt_raw_name(dataset, name));
    if (errors >= 0)
        H5Eset_current_stack(errors);
    return mkt_raw_failed(what, whole, error);
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

static enum mkt_status write_pieces(struct walk *walk, hid_t id, const struct mkt_raw_array *array)
{
    struct mkt_slab whole;
    uint64_t origin[MKT_MAX_RANK] = {0};
    char name[MKT_RAW_NAME_BYTES];
    struct mkt_raw_dataset target = {.id = id,
                                     .type = H5Dget_type(id),
                                     .chunked = walk->chunked,
                                     .array = array->meta,
                                     .source = walk->source,
                                     .error = walk->error};
    hid_t space = H5Dget_space(id);
    enum mkt_status status;
    if (target.type < 0 || space < 0)
        status = mkt_raw_dataset_failed("opening", id, walk->error);
    else if (!mkt_raw_fits(space, &array->meta, H5Tget_size(target.type)))
        status = mkt_error_set(walk->error, MKT_CORRUPT,
                               "dataset %s does not fit the market's record of it",
                               mkt_raw_name(id, name));
    else {
        mkt_slab_box(&whole, array->meta.rank, origin, array->meta.dims);
        status = walk->source->query(walk->source->context, array, &whole, write_piece, &target,
                                     walk->error);
        if (status != MKT_OK && !walk->error->text[0])
            mkt_error_set(walk->error, status, "dataset %s: %s", mkt_raw_name(id, name),
                          mkt_status_text(status));
    }
    if (space >= 0)
        H5Sclose(space);
    if (target.type >= 0)
        H5Tclose(target.type);
    return status;
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
static enum mkt_status allocate(hid_t dataset, struct mkt_error *error)
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
    return status >= 0 ? MKT_OK : mkt_raw_dataset_failed("allocating", dataset, error);
}

/* Says in the file that the elements of a dataset were left out of it. */
static enum mkt_status mark(hid_t dataset, struct mkt_error *error)
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
    enum mkt_status status = good ? MKT_OK : mkt_raw_dataset_failed("marking", dataset, error);
    if (attribute >= 0)
        H5Aclose(attribute);
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    return status;
}

/* ---- the file ---- */

static herr_t compare(hid_t root, const char *name, const H5O_info2_t *info, void *context)
{
    (void)root;
    (void)name;
    return memcmp(&info->token, context, MKT_TOKEN_BYTES) == 0;
}

/* The dataset of an array; negative without a failure: it has none any more, since it was never
 * linked, or its last link went while it was open. */
static hid_t open_dataset(struct walk *walk, const struct mkt_array *array, enum mkt_status *status)
{
    H5O_token_t token;
    H5O_info2_t info;

    _Static_assert(sizeof token == MKT_TOKEN_BYTES, "tokens of HDF5 and of the market");
    memcpy(&token, array->token, sizeof token);
    hid_t id = H5Oopen_by_token(walk->file, token);
    /* Can't it be opened, or is nothing there? */
    if (id < 0 &&
        H5Ovisit3(walk->file, H5_INDEX_NAME, H5_ITER_NATIVE, compare, &token, H5O_INFO_BASIC) != 0)
        *status = mkt_raw_failed("opening a dataset of", walk->name, walk->error);
    if (id >= 0 && H5Iget_type(id) == H5I_DATASET && H5Oget_info3(id, &info, H5O_INFO_BASIC) >= 0 &&
        info.rc > 0)
        return id;
    if (id >= 0)
        H5Oclose(id);
    return H5I_INVALID_HID;
}

static enum mkt_status write_array(struct walk *walk, const struct mkt_raw_array *array)
{
    enum mkt_status status = MKT_OK;
    bool chunked, early;
    hid_t dataset = open_dataset(walk, &array->meta, &status);

    if (dataset < 0)
        return status;
    walk->found++;
    look_at_list(dataset, &chunked, &early);
    bool left_out =
        walk->source->leaves_memory_only && (array->meta.flags & MKT_ARRAY_MEMORY_ONLY) != 0;
    if (chunked == walk->chunked && array->any)
        status = left_out ? mark(dataset, walk->error) : write_pieces(walk, dataset, array);
    if (chunked == walk->chunked && early && status == MKT_OK)
        status = allocate(dataset, walk->error);
    if (H5Dclose(dataset) < 0 && status == MKT_OK) /* writes what the chunk cache holds */
        status = mkt_raw_failed("writing a dataset of", walk->name, walk->error);
    return status;
}

static enum mkt_status walk_arrays(struct walk *walk)
{
    struct mkt_raw_array array = {0};
    enum mkt_status status;

    while ((status = walk->source->next(walk->source->context, &array)) == MKT_OK) {
        status = write_array(walk, &array);
        if (status != MKT_OK)
            return status;
    }
    if (status != MKT_NOT_FOUND)
        return mkt_error_set(walk->error, status, "the index of the version is corrupt");
    return MKT_OK;
}

herr_t mkt_raw_list(hid_t fapl)
{
    return H5Pset_cache(fapl, 0, CHUNK_CACHE_SLOTS, CHUNK_CACHE_BYTES, 1.0);
}

enum mkt_status mkt_raw_write(hid_t file, const char *name, const struct mkt_raw_source *source,
                              uint64_t *found_out, struct mkt_error *error)
{
    struct walk walk = {.file = file, .name = name, .source = source, .error = error};
    enum mkt_status status = MKT_OK;
    /* Contiguous ones first: a chunk that grows leaves space with old bytes behind, and HDF5 would
     * hand that to a contiguous dataset without clearing what is never written in it. */
    for (int pass = 0; pass < 2 && status == MKT_OK; pass++) {
        walk.chunked = pass == 1;
        walk.found = 0;
        status = walk_arrays(&walk);
    }
    *found_out = walk.found;
    return status;
}
