/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datasets. In a file that native keeps they are passed through. In a market file the dataset
 * itself is native's (in the image), its raw data the market's, unless HDF5 has to interpret it.
 */
#include <stdlib.h>
#include <string.h>

#include "vol/arrays.h"
#include "vol/chunks.h"
#include "vol/collective.h"
#include "vol/error.h"
#include "vol/file_state.h"
#include "vol/intent.h"
#include "vol/list_selection.h"
#include "vol/native.h"
#include "vol/object.h"
#include "vol/own_types.h"
#include "vol/transfer.h"
#include "vol/virtual.h"
#include "vol/walk.h"

#define EARLY_BYTES_MAX                                                      \
    4096 /* allocated early in the image, though the data goes to the market \
          */

#define PATH_BYTES 4096 /* of a dataset in its file; a longer one is for no rule */

enum raw_data {
    RAW_UNKNOWN, /* decided at the first transfer */
    RAW_REDIRECTED,
    RAW_NATIVE, /* stays in the image */
    RAW_VIRTUAL /* virtual.c: native would read its sources past the connector */
};

struct mkt_vol_dataset {
    enum raw_data raw;
    struct mkt_vol_array *array; /* REDIRECTED */
    bool unnamed;                /* created without a link: gone at its close if it got none */
    struct mkt_vol_stored *stored;
};

struct extent {
    uint32_t rank;
    uint64_t dims[MKT_MAX_RANK];
};

static herr_t extent_read(struct extent *extent_out, hid_t space)
{
    hsize_t dims[MKT_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, dims, NULL);

    for (int d = 0; d < rank; d++)
        extent_out->dims[d] = dims[d];
    extent_out->rank = rank < 0 ? 0 : (uint32_t)rank;
    return rank < 0 ? -1 : 0;
}

static bool is_null(const struct extent *extent, hid_t space)
{
    return extent->rank == 0 && H5Sget_simple_extent_type(space) == H5S_NULL;
}

/* ---- what is redirected ---- */

/* True for elements that are plain bytes: HDF5 need not interpret them to store them. Old object
 * references are such bytes, but only native can convert them to new ones; so they stay with it
 * where one process writes. */
static bool type_is_plain(hid_t type, bool references)
{
    bool plain = true;

    if (mkt_vol_own_type(type).number != 0)
        return true;
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_FLOAT:
    case H5T_TIME:
    case H5T_BITFIELD:
    case H5T_OPAQUE:
    case H5T_ENUM:
        return true;
    case H5T_STRING:
        return H5Tis_variable_str(type) == 0;
    case H5T_REFERENCE:
        return references && H5Tequal(type, H5T_STD_REF_OBJ) > 0;
    case H5T_ARRAY: {
        hid_t base = H5Tget_super(type);
        plain = base >= 0 && type_is_plain(base, references);
        H5Tclose(base);
        return plain;
    }
    case H5T_COMPOUND: {
        int members = H5Tget_nmembers(type);
        for (int m = 0; plain && m < members; m++) {
            hid_t member = H5Tget_member_type(type, (unsigned)m);
            plain = member >= 0 && type_is_plain(member, references);
            H5Tclose(member);
        }
        return plain && members > 0;
    }
    default: /* variable length, and classes younger than this code */
        return false;
    }
}

static enum raw_data classify(const struct mkt_vol_file *file, hid_t type, hid_t space,
                              const struct extent *extent, hid_t dcpl)
{
    /* Nobody makes virtual datasets by default; three questions take as long as a small write. */
    bool is_default = dcpl == H5P_DATASET_CREATE_DEFAULT;
    if (!is_default && H5Pget_layout(dcpl) == H5D_VIRTUAL)
        return RAW_VIRTUAL;
    if (is_null(extent, space) || !type_is_plain(type, file->size > 1) ||
        (!is_default && H5Pget_external_count(dcpl) != 0))
        return RAW_NATIVE;
    return RAW_REDIRECTED;
}

static uint32_t alloc_time_of(hid_t dcpl)
{
    H5D_alloc_time_t time = H5D_ALLOC_TIME_LATE;

    if (dcpl != H5P_DATASET_CREATE_DEFAULT)
        (void)H5Pget_alloc_time(dcpl, &time);
    return (uint32_t)time & MKT_VOL_ARRAY_ALLOC_TIME;
}

/* Decides for a dataset without an array. A writer's gets one then, since it may be written. */
static herr_t decide(struct mkt_vol_object *object)
{
    struct mkt_vol_dataset *dataset = object->dataset;
    struct mkt_vol_walk_info info;
    struct extent extent;
    hid_t type = mkt_vol_native_get(object, H5VL_DATASET_GET_TYPE);
    hid_t dcpl = mkt_vol_native_get(object, H5VL_DATASET_GET_DCPL);
    hid_t space = mkt_vol_native_get(object, H5VL_DATASET_GET_SPACE);
    herr_t result = -1;

    if (type < 0 || dcpl < 0 || space < 0 || extent_read(&extent, space) < 0)
        goto done;
    enum raw_data raw = classify(object->file, type, space, &extent, dcpl);
    /* A reader's dataset without an array was never written: native answers with fill values. */
    if (raw == RAW_REDIRECTED && !object->file->writable)
        raw = RAW_NATIVE;
    if (raw == RAW_REDIRECTED) {
        if (mkt_vol_walk_info(object, &info) < 0)
            goto done;
        dataset->array = mkt_vol_array_find(object->file->arrays, info.token);
        if (!dataset->array)
            dataset->array =
                mkt_vol_array_create(object->file->arrays, info.token, (uint32_t)H5Tget_size(type),
                                     extent.rank, extent.dims, alloc_time_of(dcpl), false);
        if (!dataset->array) {
            mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC, "no memory for the description of an array");
            goto done;
        }
    }
    dataset->raw = raw;
    result = 0;
done:
    if (type >= 0)
        H5Tclose(type);
    if (dcpl >= 0)
        H5Pclose(dcpl);
    if (space >= 0)
        H5Sclose(space);
    return result;
}

herr_t mkt_vol_dataset_attach(struct mkt_vol_object *object)
{
    struct mkt_vol_walk_info info;

    if (!object->file || !object->file->in_market)
        return 0;
    struct mkt_vol_dataset *dataset = mkt_vol_alloc(sizeof *dataset);
    if (!dataset)
        return mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC, "no memory for a dataset");
    if (mkt_vol_walk_info(object, &info) < 0) {
        free(dataset);
        return -1;
    }
    dataset->array = mkt_vol_array_find(object->file->arrays, info.token);
    dataset->raw = dataset->array ? RAW_REDIRECTED : RAW_UNKNOWN;
    object->dataset = dataset;
    return 0;
}

void mkt_vol_dataset_detach(struct mkt_vol_object *object)
{
    if (!object->dataset)
        return;
    mkt_vol_stored_destroy(object->dataset->stored);
    free(object->dataset);
    object->dataset = NULL;
}

/* ---- create, open, close ---- */

/* A token is used again as soon as its object is gone: what an array under it held isn't this
 * dataset's. */
static herr_t forget_former(struct mkt_vol_object *object)
{
    struct mkt_vol_walk_info info;

    if (mkt_vol_walk_info(object, &info) < 0)
        return -1;
    struct mkt_vol_array *former = mkt_vol_array_find(object->file->arrays, info.token);
    if (former)
        mkt_vol_array_kill(former);
    return 0;
}

/* What a rule for datasets says of a new one, by the path that it got. */
static uint32_t flags_by_rule(const struct mkt_vol_object *object)
{
    const struct mkt_rule *rule = &object->file->state->rule;
    H5VL_loc_params_t self = {.type = H5VL_OBJECT_BY_SELF, .obj_type = H5I_DATASET};
    char path[PATH_BYTES];
    size_t length = 0;
    H5VL_object_get_args_t args = {
        .op_type = H5VL_OBJECT_GET_NAME,
        .args.get_name = {.buf_size = sizeof path, .buf = path, .name_len = &length}};

    if (!rule->datasets || !rule->datasets[0] ||
        mkt_vol_native()->object_cls.get(object->under, &self, &args, H5P_DATASET_XFER_DEFAULT,
                                         NULL) < 0 ||
        length == 0 || length >= sizeof path)
        return 0;
    return mkt_rule_keeps_dataset(rule, path) ? MKT_ARRAY_MEMORY_ONLY : 0;
}

/* A new dataset takes its ordinal now, on every rank of the group alike, whether or not this rank
 * ever writes it. */
static herr_t attach_created(struct mkt_vol_object *object, enum raw_data raw, hid_t type,
                             const struct extent *extent, uint32_t flags)
{
    struct mkt_vol_walk_info info;

    struct mkt_vol_dataset *dataset = mkt_vol_alloc(sizeof *dataset);
    if (!dataset)
        return mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC, "no memory for a dataset");
    dataset->raw = raw;
    object->dataset = dataset;
    if (raw != RAW_REDIRECTED)
        return forget_former(object);
    if (mkt_vol_walk_info(object, &info) < 0)
        return -1;
    struct mkt_vol_own_type own = mkt_vol_own_type(type);
    uint32_t bytes = own.number != 0 ? own.bytes : (uint32_t)H5Tget_size(type);
    flags |= MKT_VOL_ARRAY_OWN_TYPE(own.number) | flags_by_rule(object);
    dataset->array = mkt_vol_array_create(object->file->arrays, info.token, bytes, extent->rank,
                                          extent->dims, flags, true);
    return dataset->array ? 0
                          : mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC,
                                         "no memory for the description of an array");
}

static bool is_type(hid_t type)
{
    return mkt_vol_own_type(type).number != 0 || H5Iget_type(type) == H5I_DATATYPE;
}

/* Bytes of all elements; SIZE_MAX at the most. */
static size_t dataset_bytes(hid_t type, hid_t space)
{
    hssize_t points = H5Sget_simple_extent_npoints(space);
    size_t bytes;

    return points < 0 || __builtin_mul_overflow((size_t)points, H5Tget_size(type), &bytes)
               ? SIZE_MAX
               : bytes;
}

/* The list to create with: native must not allocate what it will not hold, which only `early` does
 * before the first write; a little doesn't matter, and makes its answers true. *owned_out: close it
 * afterwards. */
static hid_t late_list(hid_t dcpl, hid_t type, hid_t space, uint32_t alloc_time, bool *owned_out)
{
    *owned_out = false;
    if (alloc_time != H5D_ALLOC_TIME_EARLY || dataset_bytes(type, space) <= EARLY_BYTES_MAX ||
        H5Pget_layout(dcpl) == H5D_COMPACT)
        return dcpl;
    hid_t late = H5Pcopy(dcpl);
    if (late >= 0 && H5Pset_alloc_time(late, H5D_ALLOC_TIME_LATE) < 0) {
        H5Pclose(late);
        late = H5I_INVALID_HID;
    }
    *owned_out = late >= 0;
    return late;
}

void *mkt_vol_dataset_create(void *location, const H5VL_loc_params_t *loc, const char *name,
                             hid_t lcpl, hid_t type, hid_t space, hid_t dcpl, hid_t dapl,
                             hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(location))
        return NULL;
    struct mkt_vol_object *parent = location;
    bool in_market = parent->file && parent->file->in_market, owned = false;
    struct extent extent = {0};
    /* Where these aren't what they should be, native says so. */
    enum raw_data raw = in_market && is_type(type) && H5Iget_type(space) == H5I_DATASPACE &&
                                extent_read(&extent, space) >= 0
                            ? classify(parent->file, type, space, &extent, dcpl)
                            : RAW_NATIVE;
    uint32_t alloc_time = in_market ? alloc_time_of(dcpl) : 0;
    hid_t list = dcpl;

    if (raw == RAW_REDIRECTED)
        list = late_list(dcpl, type, space, alloc_time, &owned);
    if (list < 0)
        return NULL;
    void *under = mkt_vol_native()->dataset_cls.create(parent->under, loc, name, lcpl, type, space,
                                                       list, dapl, dxpl, request);
    if (owned)
        mkt_vol_close_keeping_errors(list);
    if (!under)
        return NULL;
    struct mkt_vol_object *object =
        mkt_vol_object_wrap(under, H5I_DATASET, mkt_vol_file_of(under, H5I_DATASET));
    if (!object) {
        mkt_vol_native()->dataset_cls.close(under, dxpl, NULL);
        return NULL;
    }
    if (!object->file->in_market) {
        object->not_virtual =
            dcpl == H5P_DATASET_CREATE_DEFAULT || H5Pget_layout(dcpl) != H5D_VIRTUAL;
        return object;
    }
    /* As MPI-IO does: space in a parallel file is allocated early, but for filtered data. */
    if (object->file->state->driver == MKT_VOL_DRIVER_MPIO && H5Pget_nfilters(dcpl) == 0)
        alloc_time = H5D_ALLOC_TIME_EARLY;
    /* Behind an external link. */
    if (!in_market && extent_read(&extent, space) >= 0)
        raw = classify(object->file, type, space, &extent, dcpl);
    if (attach_created(object, raw, type, &extent, alloc_time) < 0) {
        mkt_vol_dataset_close(object, dxpl, NULL);
        return NULL;
    }
    object->dataset->unnamed = name == NULL;
    return object;
}

void *mkt_vol_dataset_open(void *location, const H5VL_loc_params_t *loc, const char *name,
                           hid_t dapl, hid_t dxpl, void **request)
{
    struct mkt_vol_object *parent = location;

    if (!mkt_vol_object_usable(location))
        return NULL;
    void *under = mkt_vol_native()->dataset_cls.open(parent->under, loc, name, dapl, dxpl, request);
    return mkt_vol_object_adopt(under, H5I_DATASET); /* attaches */
}

/* What was never linked ends with its handle. */
static void forget_unlinked(struct mkt_vol_object *object)
{
    struct mkt_vol_dataset *dataset = object->dataset;
    struct mkt_vol_walk_info info;

    if (object->under && dataset && dataset->unnamed && dataset->array &&
        mkt_vol_walk_info(object, &info) >= 0 && info.links == 0)
        mkt_vol_array_kill(dataset->array);
}

herr_t mkt_vol_dataset_close(void *object, hid_t dxpl, void **request)
{
    struct mkt_vol_object *dataset = object;

    forget_unlinked(dataset);
    if (!mkt_vol_object_closing(dataset))
        return 0;
    herr_t result = mkt_vol_native()->dataset_cls.close(dataset->under, dxpl, request);
    if (result >= 0)
        mkt_vol_dataset_detach(dataset);
    return mkt_vol_object_closed(dataset, result);
}

/* ---- transfers ---- */

/* Native refuses to write such data by MPI-IO, since each rank's copy of the metadata would differ.
 * So do we. */
static herr_t refuse_group(const struct mkt_vol_object *object)
{
    H5S_class_t class = H5S_NULL;
    hid_t space = object->file->size > 1 ? mkt_vol_native_get(object, H5VL_DATASET_GET_SPACE)
                                         : H5I_INVALID_HID;

    if (space >= 0) {
        class = H5Sget_simple_extent_type(space);
        H5Sclose(space);
    }
    if (object->file->size == 1 || class == H5S_NULL)
        return 0;
    return mkt_vol_fail(
        H5E_DATASET, H5E_UNSUPPORTED,
        "Parallel IO does not support writing VL or region reference datatypes yet");
}

/* Readies a dataset of a market file for a transfer. `transfer->array` stays NULL if native does
 * it. */
static herr_t transfer_begin(struct mkt_vol_transfer *transfer, struct mkt_vol_object *object)
{
    struct mkt_vol_dataset *dataset = object->dataset;

    if (dataset->raw == RAW_UNKNOWN && decide(object) < 0)
        return -1;
    if (dataset->raw != RAW_REDIRECTED)
        return 0;
    /* Not kept between calls: the application's object counts would show it. */
    transfer->owns_type = !mkt_vol_array_has_type(dataset->array, transfer->mem_type);
    transfer->file_type = transfer->owns_type ? mkt_vol_native_get(object, H5VL_DATASET_GET_TYPE)
                                              : transfer->mem_type;
    transfer->dataset = object;
    transfer->array = dataset->array;
    if (transfer->file_type >= 0 && transfer->file_space == H5S_PLIST) {
        const struct mkt_array *meta = mkt_vol_array_meta(dataset->array);
        transfer->file_space = mkt_vol_list_selection(transfer->dxpl, meta->rank, meta->dims);
        transfer->owns_space = transfer->file_space >= 0;
        if (!transfer->owns_space && transfer->owns_type)
            mkt_vol_close_keeping_errors(transfer->file_type);
    }
    return transfer->file_type < 0 || transfer->file_space < 0 ? -1 : 0;
}

static herr_t transfer_end(const struct mkt_vol_transfer *transfer, herr_t result)
{
    if (transfer->owns_space)
        mkt_vol_close_keeping_errors(transfer->file_space);
    if (transfer->owns_type && result < 0)
        mkt_vol_close_keeping_errors(transfer->file_type);
    else if (transfer->owns_type)
        H5Tclose(transfer->file_type);
    return result;
}

/* A dataset in the market that is virtual, or a virtual one elsewhere with sources in the market.
 */
static bool is_virtual(struct mkt_vol_object *object)
{
    if (!object->dataset)
        return !object->not_virtual && mkt_vol_virtual_concerns(object);
    if (object->dataset->raw == RAW_UNKNOWN)
        (void)decide(object); /* a failure comes again, in transfer_begin */
    return object->dataset->raw == RAW_VIRTUAL;
}

/* In a file that native keeps. */
static herr_t read_passed(struct mkt_vol_object *object, hid_t mem_type, hid_t mem_space,
                          hid_t file_space, hid_t dxpl, void *buffer)
{
    return mkt_vol_native()->dataset_cls.read(1, &object->under, &mem_type, &mem_space, &file_space,
                                              dxpl, &buffer, NULL);
}

static herr_t write_passed(struct mkt_vol_object *object, hid_t mem_type, hid_t mem_space,
                           hid_t file_space, hid_t dxpl, const void *buffer)
{
    return mkt_vol_native()->dataset_cls.write(1, &object->under, &mem_type, &mem_space,
                                               &file_space, dxpl, &buffer, NULL);
}

static herr_t read_one(struct mkt_vol_object *object, hid_t mem_type, hid_t mem_space,
                       hid_t file_space, hid_t dxpl, void *buffer)
{
    struct mkt_vol_transfer transfer = {
        .mem_type = mem_type, .mem_space = mem_space, .file_space = file_space, .dxpl = dxpl};

    if (!mkt_vol_object_usable(object))
        return -1;
    bool resolve = is_virtual(object);
    if (!object->dataset && !resolve)
        return read_passed(object, mem_type, mem_space, file_space, dxpl, buffer);
    if (resolve)
        return mkt_vol_virtual_read(object, mem_type, mem_space, file_space, dxpl, buffer);
    if (transfer_begin(&transfer, object) < 0)
        return -1;
    if (!transfer.array)
        return mkt_vol_native_read(object, mem_type, mem_space, file_space, dxpl, buffer);
    return transfer_end(&transfer, mkt_vol_transfer_read(&transfer, buffer));
}

static herr_t write_one(struct mkt_vol_object *object, hid_t mem_type, hid_t mem_space,
                        hid_t file_space, hid_t dxpl, const void *buffer)
{
    struct mkt_vol_transfer transfer = {
        .mem_type = mem_type, .mem_space = mem_space, .file_space = file_space, .dxpl = dxpl};

    if (!mkt_vol_object_usable(object))
        return -1;
    bool resolve = is_virtual(object);
    if (!object->dataset && !resolve)
        return write_passed(object, mem_type, mem_space, file_space, dxpl, buffer);
    if (mkt_vol_may_write(object) < 0)
        return -1;
    if (resolve)
        return mkt_vol_virtual_write(object, mem_type, mem_space, file_space, dxpl, buffer);
    if (transfer_begin(&transfer, object) < 0)
        return -1;
    if (!transfer.array)
        return refuse_group(object) < 0
                   ? -1
                   : mkt_vol_native_write(object, mem_type, mem_space, file_space, dxpl, buffer);
    return transfer_end(&transfer, mkt_vol_transfer_write(&transfer, buffer));
}

/* What native would find wrong with a dataset that it keeps, before it writes. */
static herr_t check_native_write(struct mkt_vol_object *object, hid_t mem_type, hid_t mem_space,
                                 hid_t file_space)
{
    hid_t type = mkt_vol_native_get(object, H5VL_DATASET_GET_TYPE), extent;
    H5T_cdata_t *path;
    herr_t result = 0;

    if (type < 0)
        return -1;
    htri_t equal = H5Tequal(mem_type, type);
    if (equal < 0 || (!equal && !H5Tfind(mem_type, type, &path)))
        result = mkt_vol_fail(H5E_DATASET, H5E_UNSUPPORTED,
                              "unable to convert between src and dest datatypes");
    H5Tclose(type);
    extent = mkt_vol_native_get(object, H5VL_DATASET_GET_SPACE);
    if (result < 0 || extent < 0)
        return -1;
    hssize_t in_file = H5Sget_select_npoints(file_space > H5S_PLIST ? file_space : extent);
    if (file_space != H5S_PLIST && mem_space > H5S_PLIST &&
        in_file != H5Sget_select_npoints(mem_space))
        result = mkt_vol_fail(H5E_DATASET, H5E_BADVALUE,
                              "src and dest dataspaces have different number of elements selected");
    H5Sclose(extent);
    return result;
}

/* Of several datasets none is written if one can't be. */
static herr_t check_write(struct mkt_vol_object *object, hid_t mem_type, hid_t mem_space,
                          hid_t file_space, hid_t dxpl)
{
    struct mkt_vol_transfer transfer = {
        .mem_type = mem_type, .mem_space = mem_space, .file_space = file_space, .dxpl = dxpl};

    if (!mkt_vol_object_usable(object))
        return -1;
    if (!object->dataset || is_virtual(object))
        return 0;
    if (mkt_vol_may_write(object) < 0)
        return -1;
    if (transfer_begin(&transfer, object) < 0)
        return -1;
    if (!transfer.array)
        return refuse_group(object) < 0
                   ? -1
                   : check_native_write(object, mem_type, mem_space, file_space);
    return transfer_end(&transfer, mkt_vol_transfer_check_write(&transfer));
}

static void report(size_t count, void *dataset[], hid_t mem_type[], hid_t dxpl)
{
    struct mkt_vol_collective call = {0};

    for (size_t i = 0; i < count; i++) {
        const struct mkt_vol_object *object = dataset[i];

        if (object->dataset)
            mkt_vol_collective_note(&call, object, mem_type[i], dxpl);
    }
    mkt_vol_collective_report(&call, dxpl);
}

herr_t mkt_vol_dataset_read(size_t count, void *dataset[], hid_t mem_type[], hid_t mem_space[],
                            hid_t file_space[], hid_t dxpl, void *buffer[], void **request)
{
    (void)request; /* nothing is asynchronous */
    for (size_t i = 0; i < count; i++)
        if (read_one(dataset[i], mem_type[i], mem_space[i], file_space[i], dxpl, buffer[i]) < 0)
            return -1;
    report(count, dataset, mem_type, dxpl);
    return 0;
}

herr_t mkt_vol_dataset_write(size_t count, void *dataset[], hid_t mem_type[], hid_t mem_space[],
                             hid_t file_space[], hid_t dxpl, const void *buffer[], void **request)
{
    (void)request;
    for (size_t i = 0; count > 1 && i < count; i++)
        if (check_write(dataset[i], mem_type[i], mem_space[i], file_space[i], dxpl) < 0)
            return -1;
    for (size_t i = 0; i < count; i++)
        if (write_one(dataset[i], mem_type[i], mem_space[i], file_space[i], dxpl, buffer[i]) < 0)
            return -1;
    report(count, dataset, mem_type, dxpl);
    return 0;
}

/* ---- get, specific, optional ---- */

/* False: native's to answer. */
static bool get_redirected(struct mkt_vol_object *object, H5VL_dataset_get_args_t *args,
                           herr_t *result_out)
{
    struct mkt_vol_dataset *dataset = object->dataset;
    uint64_t bytes = 0;

    switch (args->op_type) {
    case H5VL_DATASET_GET_STORAGE_SIZE:
        *result_out = mkt_vol_stored_size(object, dataset->array, &dataset->stored, &bytes);
        *args->args.get_storage_size.storage_size = bytes;
        return true;
    case H5VL_DATASET_GET_SPACE_STATUS:
        *result_out = mkt_vol_stored_status(object, dataset->array, &dataset->stored,
                                            args->args.get_space_status.status);
        return true;
    default:
        return false;
    }
}

herr_t mkt_vol_dataset_get(void *dataset, H5VL_dataset_get_args_t *args, hid_t dxpl, void **request)
{
    struct mkt_vol_object *object = dataset;

    if (!mkt_vol_object_usable(object))
        return -1;
    bool redirected = object->dataset && object->dataset->raw == RAW_REDIRECTED;
    herr_t result;
    if (redirected && get_redirected(object, args, &result))
        return result;
    if (mkt_vol_native()->dataset_cls.get(object->under, args, dxpl, request) < 0)
        return -1;
    if (redirected && args->op_type == H5VL_DATASET_GET_DCPL) {
        H5D_alloc_time_t time = mkt_vol_array_alloc_time(object->dataset->array);
        /* Others stand in native's list; set again, they would no longer follow its layout. */
        if (time == H5D_ALLOC_TIME_EARLY)
            return H5Pset_alloc_time(args->args.get_dcpl.dcpl_id, time);
    }
    return 0;
}

static herr_t resize(struct mkt_vol_object *object, const uint64_t *dims)
{
    struct mkt_vol_array *array = object->dataset->array;
    struct mkt_vol_kept *kept;

    if (mkt_vol_stored_before_resize(object, array, dims, &kept) < 0)
        return -1;
    herr_t result = mkt_vol_array_resize(array, dims);
    if (mkt_vol_stored_after_resize(object, array, kept) < 0)
        return -1;
    return result;
}

herr_t mkt_vol_dataset_specific(void *dataset, H5VL_dataset_specific_args_t *args, hid_t dxpl,
                                void **request)
{
    struct mkt_vol_object *object = dataset;
    struct extent extent;

    if (!mkt_vol_object_usable(object))
        return -1;
    if (args->op_type == H5VL_DATASET_FLUSH && mkt_vol_object_may_flush(object) < 0)
        return -1;
    if (mkt_vol_native()->dataset_cls.specific(object->under, args, dxpl, request) < 0)
        return -1;
    if (args->op_type != H5VL_DATASET_SET_EXTENT || !object->dataset)
        return 0;
    if (object->dataset->raw == RAW_UNKNOWN && decide(object) < 0)
        return -1;
    if (object->dataset->raw != RAW_REDIRECTED)
        return 0;
    hid_t space = mkt_vol_native_get(object, H5VL_DATASET_GET_SPACE);
    if (space < 0)
        return -1;
    herr_t result = extent_read(&extent, space);
    H5Sclose(space);
    return result < 0 ? -1 : resize(object, extent.dims);
}

/* Native would answer of the empty dataset in the image, which isn't the truth. False: it may. */
static bool optional_redirected(struct mkt_vol_object *object, H5VL_optional_args_t *args,
                                herr_t *result_out)
{
    struct mkt_vol_dataset *dataset = object->dataset;
    H5VL_native_dataset_optional_args_t *native = args->args;

    if (args->op_type != H5VL_NATIVE_DATASET_GET_OFFSET)
        return mkt_vol_chunks_optional(object, dataset->array, &dataset->stored, args, result_out);
    *native->get_offset.offset = HADDR_UNDEF; /* it lies in no file */
    *result_out = 0;
    return true;
}

/* True if H5Dformat_convert would change the dataset: its index of chunks. */
static bool would_be_converted(struct mkt_vol_object *object)
{
    H5D_chunk_index_t type = H5D_CHUNK_IDX_BTREE;
    H5VL_native_dataset_optional_args_t args = {.get_chunk_idx_type = {.idx_type = &type}};
    herr_t result = mkt_vol_native_ask(object, H5VL_NATIVE_DATASET_GET_CHUNK_INDEX_TYPE, &args);
    return result >= 0 && type != H5D_CHUNK_IDX_BTREE;
}

herr_t mkt_vol_dataset_optional(void *dataset, H5VL_optional_args_t *args, hid_t dxpl,
                                void **request)
{
    struct mkt_vol_object *object = dataset;

    if (!mkt_vol_object_usable(object))
        return -1;
    if (object->dataset && object->dataset->raw == RAW_UNKNOWN && decide(object) < 0)
        return -1;
    if (args->op_type == H5VL_NATIVE_DATASET_FORMAT_CONVERT && would_be_converted(object) &&
        mkt_vol_may_write(object) < 0)
        return -1;
    herr_t result;
    if (object->dataset && object->dataset->raw == RAW_REDIRECTED &&
        optional_redirected(object, args, &result))
        return result;
    return mkt_vol_native()->dataset_cls.optional(object->under, args, dxpl, request);
}
