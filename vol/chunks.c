/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/chunks.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "vol/chunks_internal.h"
#include "vol/error.h"
#include "vol/file_state.h"
#include "vol/intent.h"
#include "vol/native.h"
#include "vol/transfer_internal.h"

struct stored_chunk {
    uint64_t position;    /* in native's order, those not allocated counted */
    uint64_t bytes;       /* 0: not asked yet */
    uint32_t filter_mask; /* with bytes */
};

struct mkt_vol_stored {
    uint64_t generation; /* of the array */
    uint64_t count, capacity;
    struct stored_chunk *chunk;
};

void mkt_vol_stored_destroy(struct mkt_vol_stored *stored)
{
    if (!stored)
        return;
    free(stored->chunk);
    free(stored);
}

/* ---- a look ---- */

/* An extensible array counts along its one unlimited dimension first. */
static void order_axes(struct mkt_vol_store *store)
{
    hsize_t most[MKT_MAX_RANK];
    uint32_t unlimited = 0, axes = 0;
    H5D_chunk_index_t index = H5D_CHUNK_IDX_BTREE;
    H5VL_native_dataset_optional_args_t args = {.get_chunk_idx_type.idx_type = &index};

    hid_t space = mkt_vol_native_get(store->object, H5VL_DATASET_GET_SPACE);
    if (mkt_vol_native_ask(store->object, H5VL_NATIVE_DATASET_GET_CHUNK_INDEX_TYPE, &args) >= 0 &&
        index == H5D_CHUNK_IDX_EARRAY && H5Sget_simple_extent_dims(space, NULL, most) > 0)
        for (uint32_t d = 0; d < store->meta->rank; d++)
            if (most[d] == H5S_UNLIMITED)
                unlimited = d;
    if (space >= 0)
        mkt_vol_close_keeping_errors(space);
    store->axis[axes++] = unlimited;
    for (uint32_t d = 0; d < store->meta->rank; d++)
        if (d != unlimited)
            store->axis[axes++] = d;
}

static herr_t read_chunking(struct mkt_vol_store *store)
{
    H5VL_native_dataset_optional_args_t args = {
        .get_num_chunks = {.space_id = H5S_ALL, .nchunks = &store->native_chunks}};
    hsize_t chunk[MKT_MAX_RANK];

    store->filters = H5Pget_nfilters(store->dcpl);
    if (store->filters < 0 || H5Pget_chunk(store->dcpl, MKT_MAX_RANK, chunk) < 0 ||
        H5Pset_alloc_time(store->dcpl, H5D_ALLOC_TIME_INCR) < 0 ||
        mkt_vol_native_ask(store->object, H5VL_NATIVE_DATASET_GET_NUM_CHUNKS, &args) < 0)
        return -1;
    store->total = 1;
    store->chunk_bytes = store->meta->element_bytes;
    for (uint32_t d = 0; d < store->meta->rank; d++) {
        store->chunk[d] = chunk[d];
        store->chunks[d] = (store->meta->dims[d] + chunk[d] - 1) / chunk[d];
        store->total *= store->chunks[d];
        store->chunk_bytes *= chunk[d];
    }
    order_axes(store);
    return 0;
}

void mkt_vol_store_close(struct mkt_vol_store *store)
{
    mkt_vol_twin_close(&store->twin);
    mkt_vol_sources_close(&store->sources);
    if (store->type >= 0)
        mkt_vol_close_keeping_errors(store->type);
    if (store->dcpl >= 0)
        mkt_vol_close_keeping_errors(store->dcpl);
    free(store->values);
}

/* MPI-IO allocates what isn't filtered when a file is opened for writing, if it wasn't before. */
static void allocate_as_mpio(struct mkt_vol_store *store)
{
    const struct mkt_vol_file *file = store->object->file;

    if (file->writable && file->state->driver == MKT_VOL_DRIVER_MPIO &&
        H5Pget_nfilters(store->dcpl) == 0)
        store->alloc_time = H5D_ALLOC_TIME_EARLY;
}

herr_t mkt_vol_store_open(struct mkt_vol_store *store, struct mkt_vol_object *object,
                          struct mkt_vol_array *array)
{
    struct mkt_error error;

    memset(store, 0, sizeof *store);
    store->object = object;
    store->array = array;
    store->meta = mkt_vol_array_meta(array);
    store->alloc_time = mkt_vol_array_alloc_time(array);
    store->twin = MKT_VOL_TWIN_NONE;
    if (mkt_vol_sources_open(&store->sources, array, &error) != MKT_OK)
        return mkt_vol_fail_status(&error);
    store->written = !mkt_vol_sources_empty(&store->sources);
    store->type = mkt_vol_native_get(object, H5VL_DATASET_GET_TYPE);
    store->dcpl = mkt_vol_native_get(object, H5VL_DATASET_GET_DCPL);
    allocate_as_mpio(store);
    if (store->type >= 0 && store->dcpl >= 0) {
        store->chunked = H5Pget_layout(store->dcpl) == H5D_CHUNKED;
        if (!store->chunked || read_chunking(store) >= 0)
            return 0;
    }
    mkt_vol_store_close(store);
    return -1;
}

/* ---- places of chunks ---- */

static void scaled_of_position(const struct mkt_vol_store *store, uint64_t position,
                               uint64_t *scaled_out)
{
    for (uint32_t i = store->meta->rank; i-- > 0;) {
        uint32_t d = store->axis[i];

        scaled_out[d] = position % store->chunks[d];
        position /= store->chunks[d];
    }
}

void mkt_vol_store_box(const struct mkt_vol_store *store, const uint64_t *scaled,
                       struct mkt_slab *box_out)
{
    uint64_t start[MKT_MAX_RANK], count[MKT_MAX_RANK];

    for (uint32_t d = 0; d < store->meta->rank; d++) {
        uint64_t left;

        start[d] = scaled[d] * store->chunk[d];
        left = store->meta->dims[d] - start[d];
        count[d] = left < store->chunk[d] ? left : store->chunk[d];
    }
    mkt_slab_box(box_out, store->meta->rank, start, count);
}

static haddr_t address_of(const struct mkt_vol_store *store, const uint64_t *scaled)
{
    uint64_t index = 0;

    for (uint32_t d = 0; d < store->meta->rank; d++)
        index = index * store->chunks[d] + scaled[d];
    return MKT_VOL_CHUNK_ADDRESS + index * store->chunk_bytes;
}

/* The chunk of an element; false if that is outside of the extent. */
static bool scaled_of_offset(const struct mkt_vol_store *store, const hsize_t *offset,
                             uint64_t *scaled_out)
{
    for (uint32_t d = 0; d < store->meta->rank; d++) {
        scaled_out[d] = offset[d] / store->chunk[d];
        if (scaled_out[d] >= store->chunks[d])
            return false;
    }
    return true;
}

/* ---- is it there? ---- */

struct touch {
    const struct mkt_vol_store *store;
    const struct mkt_slab *box;
    uint64_t elements;
};

static void move_nothing(void *context, const struct mkt_move *move)
{
    (void)context;
    (void)move;
}

static enum mkt_status touch_piece(void *context, const struct mkt_piece *piece)
{
    struct touch *touch = context;
    uint32_t bytes = touch->store->meta->element_bytes;
    struct mkt_layout packed;
    const void *table;

    if (touch->elements > 0)
        return MKT_OK;
    enum mkt_status status =
        mkt_client_piece_table(touch->store->object->file->client, piece, bytes, &table);
    if (status != MKT_OK)
        return status;
    mkt_layout_packed(&packed, touch->box, bytes, 0);
    touch->elements += mkt_plan_piece(touch->box, &packed, piece, table, bytes, move_nothing, NULL);
    return MKT_OK;
}

herr_t mkt_vol_store_is_written(struct mkt_vol_store *store, const struct mkt_slab *box,
                                bool *written_out)
{
    struct touch touch = {.store = store, .box = box};

    enum mkt_status status =
        store->written ? mkt_vol_sources_query(&store->sources, box, touch_piece, &touch) : MKT_OK;
    *written_out = touch.elements > 0;
    return status == MKT_OK ? 0
                            : mkt_vol_fail(H5E_DATASET, H5E_CANTGET,
                                           "%s: cannot look at a dataset in the market: %s",
                                           store->object->file->path, mkt_status_text(status));
}

/* What the dataset in the image has of a chunk; *bytes_out 0: nothing. */
static herr_t ask_native(struct mkt_vol_store *store, const uint64_t *scaled, uint32_t *mask_out,
                         uint64_t *bytes_out)
{
    hsize_t offset[MKT_MAX_RANK], bytes = 0;
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    H5VL_native_dataset_optional_args_t args = {
        .get_chunk_info_by_coord = {
            .offset = offset, .filter_mask = &mask, .addr = &address, .size = &bytes}};

    *bytes_out = 0;
    *mask_out = 0;
    if (store->native_chunks == 0)
        return 0;
    for (uint32_t d = 0; d < store->meta->rank; d++)
        offset[d] = scaled[d] * store->chunk[d];
    if (mkt_vol_native_ask(store->object, H5VL_NATIVE_DATASET_GET_CHUNK_INFO_BY_COORD, &args) < 0)
        return -1;
    if (address != HADDR_UNDEF) {
        *bytes_out = bytes;
        *mask_out = mask;
    }
    return 0;
}

static bool all_allocated(const struct mkt_vol_store *store)
{
    return store->alloc_time == H5D_ALLOC_TIME_EARLY ||
           (store->alloc_time == H5D_ALLOC_TIME_LATE &&
            (store->written || store->native_chunks > 0));
}

herr_t mkt_vol_store_is_allocated(struct mkt_vol_store *store, const uint64_t *scaled,
                                  bool *allocated_out)
{
    struct mkt_slab box;
    uint64_t bytes;
    uint32_t mask;

    *allocated_out = true;
    if (all_allocated(store))
        return 0;
    mkt_vol_store_box(store, scaled, &box);
    if (mkt_vol_store_is_written(store, &box, allocated_out) < 0)
        return -1;
    if (*allocated_out)
        return 0;
    if (ask_native(store, scaled, &mask, &bytes) < 0)
        return -1;
    *allocated_out = bytes > 0;
    return 0;
}

/* ---- filtered bytes ---- */

/* Room for a chunk's values, and its dataset in the twin. */
static herr_t twin_of(struct mkt_vol_store *store, const struct mkt_slab *box, uint32_t mask)
{
    uint64_t dims[MKT_MAX_RANK] = {0};

    if (!store->values && !(store->values = malloc(store->chunk_bytes)))
        return mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC, "no memory for a chunk of %llu bytes",
                            (unsigned long long)store->chunk_bytes);
    for (uint32_t d = 0; d < store->meta->rank; d++)
        dims[d] = box->dim[d].block;
    if (store->twin.dataset && mask == store->twin_mask &&
        memcmp(dims, store->twin_dims, sizeof dims) == 0)
        return 0;
    if (store->twin.file < 0 && mkt_vol_twin_open(&store->twin) < 0)
        return -1;
    hid_t dcpl = mask ? H5Pcopy(store->dcpl) : store->dcpl;
    herr_t result = dcpl < 0 ? -1 : 0;
    for (int i = store->filters; i-- > 0 && result >= 0;) {
        unsigned flags;
        size_t none = 0;

        if (i < 32 && mask >> i & 1)
            result = H5Premove_filter(
                dcpl, H5Pget_filter2(dcpl, (unsigned)i, &flags, &none, NULL, 0, NULL, NULL));
    }
    if (result >= 0)
        result = mkt_vol_twin_make(&store->twin, store->type, store->meta->rank, dims, dcpl);
    if (mask && dcpl >= 0)
        mkt_vol_close_keeping_errors(dcpl);
    memcpy(store->twin_dims, dims, sizeof dims);
    store->twin_mask = mask;
    return result;
}

herr_t mkt_vol_store_move(struct mkt_vol_store *store, const struct mkt_slab *box, bool writing)
{
    hsize_t dims[MKT_MAX_RANK], start[MKT_MAX_RANK], count[MKT_MAX_RANK];
    hsize_t elements = mkt_slab_elements(box);
    struct mkt_vol_transfer transfer = {.dataset = store->object,
                                        .array = store->array,
                                        .file_type = store->type,
                                        .mem_type = store->type,
                                        .mem_space = H5Screate_simple(1, &elements, NULL),
                                        .dxpl = H5P_DATASET_XFER_DEFAULT};
    herr_t result = -1;

    for (uint32_t d = 0; d < box->rank; d++) {
        dims[d] = store->meta->dims[d];
        start[d] = box->dim[d].start;
        count[d] = box->dim[d].block;
    }
    transfer.file_space = H5Screate_simple((int)box->rank, dims, NULL);
    if (transfer.mem_space >= 0 && transfer.file_space >= 0 &&
        H5Sselect_hyperslab(transfer.file_space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0)
        result = writing ? mkt_vol_transfer_write(&transfer, store->values)
                         : mkt_vol_transfer_read(&transfer, store->values);
    if (transfer.mem_space >= 0)
        mkt_vol_close_keeping_errors(transfer.mem_space);
    if (transfer.file_space >= 0)
        mkt_vol_close_keeping_errors(transfer.file_space);
    return result;
}

static uint64_t values_hash(const struct mkt_vol_store *store, const struct mkt_slab *box)
{
    return mkt_hash64(store->values, mkt_slab_elements(box) * store->meta->element_bytes, 0);
}

static uint64_t offset_hash(const struct mkt_slab *box)
{
    uint64_t hash = 0;

    for (uint32_t d = 0; d < box->rank; d++)
        hash = mkt_hash64(&box->dim[d].start, sizeof box->dim[d].start, hash);
    return hash;
}

/* A chunk's values go through its filters in the twin: all, or those that a direct write of just
 * these values left out. */
static herr_t fill_twin(struct mkt_vol_store *store, const struct mkt_slab *box)
{
    if (twin_of(store, box, 0) < 0 || mkt_vol_store_move(store, box, false) < 0)
        return -1;
    uint32_t mask = mkt_vol_array_mask(store->array, offset_hash(box), values_hash(store, box));
    if (twin_of(store, box, mask) < 0)
        return -1;
    return mkt_vol_twin_write(&store->twin, H5P_DATASET_XFER_DEFAULT, store->values);
}

/* From the mask of a pipeline without some filters to that of the whole one. */
static uint32_t whole_mask(const struct mkt_vol_store *store, uint32_t mask)
{
    uint32_t whole = store->twin_mask;

    for (int i = 0, bit = 0; i < store->filters && i < 32; i++)
        if (!(store->twin_mask >> i & 1))
            whole |= (mask >> bit++ & 1) << i;
    return whole;
}

/* Bytes and filter mask of a chunk that is allocated. */
static herr_t measure(struct mkt_vol_store *store, const uint64_t *scaled, uint32_t *mask_out,
                      uint64_t *bytes_out)
{
    hsize_t origin[MKT_MAX_RANK] = {0}, bytes = 0;
    unsigned mask = 0;
    haddr_t address;
    H5VL_native_dataset_optional_args_t args = {
        .get_chunk_info_by_coord = {
            .offset = origin, .filter_mask = &mask, .addr = &address, .size = &bytes}};
    struct mkt_slab box;
    bool written;

    *mask_out = 0;
    *bytes_out = store->chunk_bytes;
    if (store->filters == 0)
        return 0;
    mkt_vol_store_box(store, scaled, &box);
    if (mkt_vol_store_is_written(store, &box, &written) < 0)
        return -1;
    if (!written) {
        if (ask_native(store, scaled, mask_out, bytes_out) < 0)
            return -1;
        if (*bytes_out > 0)
            return 0;
    }
    if (fill_twin(store, &box) < 0 ||
        mkt_vol_twin_ask(&store->twin, H5VL_NATIVE_DATASET_GET_CHUNK_INFO_BY_COORD, &args) < 0)
        return -1;
    *mask_out = whole_mask(store, mask);
    *bytes_out = bytes;
    return 0;
}

/* ---- the list of chunks ---- */

static bool stored_append(struct mkt_vol_stored *stored, uint64_t position)
{
    if (stored->count == stored->capacity) {
        uint64_t capacity = stored->capacity ? 2 * stored->capacity : 64;
        struct stored_chunk *grown = realloc(stored->chunk, capacity * sizeof *grown);

        if (!grown)
            return false;
        stored->chunk = grown;
        stored->capacity = capacity;
    }
    stored->chunk[stored->count++] = (struct stored_chunk){.position = position};
    return true;
}

static struct mkt_vol_stored *look_for_chunks(struct mkt_vol_store *store)
{
    struct mkt_vol_stored *stored = calloc(1, sizeof *stored);
    uint64_t scaled[MKT_MAX_RANK];
    bool there;

    if (!stored)
        goto err_memory;
    stored->generation = mkt_vol_array_generation(store->array);
    for (uint64_t i = 0; i < store->total; i++) {
        scaled_of_position(store, i, scaled);
        if (mkt_vol_store_is_allocated(store, scaled, &there) < 0)
            goto err_stored;
        if (there && !stored_append(stored, i))
            goto err_memory;
    }
    return stored;

err_memory:
    mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC, "no memory for a list of chunks");
err_stored:
    mkt_vol_stored_destroy(stored);
    return NULL;
}

/* The list, as it was last time if nothing can have changed since. */
static struct mkt_vol_stored *list_chunks(struct mkt_vol_store *store, struct mkt_vol_stored **kept)
{
    const struct mkt_vol_file *file = store->object->file;

    if (*kept && (!file->writable || file->size == 1) &&
        (*kept)->generation == mkt_vol_array_generation(store->array))
        return *kept;
    mkt_vol_stored_destroy(*kept);
    *kept = look_for_chunks(store);
    return *kept;
}

static herr_t measure_listed(struct mkt_vol_store *store, struct stored_chunk *chunk,
                             uint64_t *scaled_out)
{
    scaled_of_position(store, chunk->position, scaled_out);
    return chunk->bytes > 0 ? 0 : measure(store, scaled_out, &chunk->filter_mask, &chunk->bytes);
}

/* ---- sizes ---- */

/* Not chunked. */
static uint64_t whole_bytes(const struct mkt_vol_store *store)
{
    uint64_t bytes = store->meta->element_bytes;

    for (uint32_t d = 0; d < store->meta->rank; d++)
        bytes *= store->meta->dims[d];
    if (store->written || store->alloc_time == H5D_ALLOC_TIME_EARLY)
        return bytes;
    return H5Pget_layout(store->dcpl) == H5D_COMPACT ? 0 : mkt_vol_native_bytes(store->object);
}

/* Space of no bytes is never allocated, but in the object header it is always. */
static bool whole_is_allocated(const struct mkt_vol_store *store)
{
    return whole_bytes(store) > 0 || H5Pget_layout(store->dcpl) == H5D_COMPACT;
}

herr_t mkt_vol_stored_size(struct mkt_vol_object *object, struct mkt_vol_array *array,
                           struct mkt_vol_stored **kept, uint64_t *bytes_out)
{
    struct mkt_vol_store store;
    uint64_t scaled[MKT_MAX_RANK], bytes = 0;
    herr_t result = 0;

    if (mkt_vol_store_open(&store, object, array) < 0)
        return -1;
    if (!store.chunked) {
        bytes = whole_bytes(&store);
    } else if (store.filters == 0 && all_allocated(&store)) {
        bytes = store.total * store.chunk_bytes;
    } else {
        struct mkt_vol_stored *stored = list_chunks(&store, kept);

        result = stored ? 0 : -1;
        for (uint64_t i = 0; result >= 0 && i < stored->count; i++) {
            result = measure_listed(&store, &stored->chunk[i], scaled);
            bytes += stored->chunk[i].bytes;
        }
    }
    mkt_vol_store_close(&store);
    *bytes_out = bytes;
    return result;
}

herr_t mkt_vol_stored_status(struct mkt_vol_object *object, struct mkt_vol_array *array,
                             struct mkt_vol_stored **kept, H5D_space_status_t *status_out)
{
    struct mkt_vol_store store;
    herr_t result = 0;

    if (mkt_vol_store_open(&store, object, array) < 0)
        return -1;
    uint64_t have, all = 1;
    if (!store.chunked) {
        have = whole_is_allocated(&store);
    } else {
        struct mkt_vol_stored *stored = list_chunks(&store, kept);

        result = stored ? 0 : -1;
        have = stored ? stored->count : 0;
        all = store.total;
    }
    *status_out = have == 0     ? H5D_SPACE_STATUS_NOT_ALLOCATED
                  : have == all ? H5D_SPACE_STATUS_ALLOCATED
                                : H5D_SPACE_STATUS_PART_ALLOCATED;
    mkt_vol_store_close(&store);
    return result;
}

/* ---- queries ---- */

static herr_t by_index(struct mkt_vol_store *store, struct mkt_vol_stored **kept,
                       H5VL_native_dataset_get_chunk_info_by_idx_t *args)
{
    struct mkt_vol_stored *stored = list_chunks(store, kept);
    uint64_t scaled[MKT_MAX_RANK];

    if (!stored)
        return -1;
    if (args->chk_index >= stored->count)
        return mkt_vol_fail(H5E_DATASET, H5E_BADRANGE, "chunk index is out of range");
    struct stored_chunk *chunk = &stored->chunk[args->chk_index];
    if (measure_listed(store, chunk, scaled) < 0)
        return -1;
    if (args->filter_mask)
        *args->filter_mask = chunk->filter_mask;
    if (args->addr)
        *args->addr = address_of(store, scaled);
    if (args->size)
        *args->size = chunk->bytes;
    for (uint32_t d = 0; args->offset && d < store->meta->rank; d++)
        args->offset[d] = scaled[d] * store->chunk[d];
    return 0;
}

static herr_t by_coordinates(struct mkt_vol_store *store,
                             H5VL_native_dataset_get_chunk_info_by_coord_t *args)
{
    uint64_t scaled[MKT_MAX_RANK], bytes;
    uint32_t mask;
    bool there = false;

    if (args->addr)
        *args->addr = HADDR_UNDEF;
    if (args->size)
        *args->size = 0;
    if (!scaled_of_offset(store, args->offset, scaled))
        return 0;
    if (mkt_vol_store_is_allocated(store, scaled, &there) < 0)
        return -1;
    if (!there)
        return 0;
    if (measure(store, scaled, &mask, &bytes) < 0)
        return -1;
    if (args->filter_mask)
        *args->filter_mask = mask;
    if (args->addr)
        *args->addr = address_of(store, scaled);
    if (args->size)
        *args->size = bytes;
    return 0;
}

/* Native has no size for a chunk that isn't there, unless nothing at all is. */
static herr_t storage_of_chunk(struct mkt_vol_store *store,
                               H5VL_native_dataset_get_chunk_storage_size_t *args)
{
    uint64_t scaled[MKT_MAX_RANK], bytes;
    uint32_t mask;
    bool there = false;

    if (scaled_of_offset(store, args->offset, scaled) &&
        mkt_vol_store_is_allocated(store, scaled, &there) < 0)
        return -1;
    if (!there) {
        *args->size = 0;
        return !mkt_vol_sources_unallocated(&store->sources) || store->native_chunks > 0
                   ? mkt_vol_fail(H5E_DATASET, H5E_CANTGET, "chunk storage is not allocated")
                   : 0;
    }
    if (measure(store, scaled, &mask, &bytes) < 0)
        return -1;
    *args->size = bytes;
    return 0;
}

/* The callback may do anything to the dataset: the list is its own. */
static herr_t iterate(struct mkt_vol_store *store, H5D_chunk_iter_op_t op, void *op_data)
{
    struct mkt_vol_stored *stored = look_for_chunks(store);
    uint64_t scaled[MKT_MAX_RANK];
    hsize_t offset[MKT_MAX_RANK];
    herr_t result = stored ? 0 : -1;

    for (uint64_t i = 0; result == 0 && i < stored->count; i++) {
        struct stored_chunk *chunk = &stored->chunk[i];

        result = measure_listed(store, chunk, scaled);
        if (result < 0)
            break;
        for (uint32_t d = 0; d < store->meta->rank; d++)
            offset[d] = scaled[d] * store->chunk[d];
        result = op(offset, chunk->filter_mask, address_of(store, scaled), chunk->bytes, op_data);
    }
    mkt_vol_stored_destroy(stored);
    return result;
}

/* ---- direct chunk I/O ---- */

static herr_t aligned_box(const struct mkt_vol_store *store, const hsize_t *offset,
                          struct mkt_slab *box_out)
{
    uint64_t scaled[MKT_MAX_RANK];

    if (!scaled_of_offset(store, offset, scaled))
        return mkt_vol_fail(H5E_DATASET, H5E_BADVALUE, "offset exceeds dimensions of dataset");
    for (uint32_t d = 0; d < store->meta->rank; d++)
        if (offset[d] % store->chunk[d] != 0)
            return mkt_vol_fail(H5E_DATASET, H5E_BADVALUE,
                                "offset doesn't fall on chunks's boundary");
    mkt_vol_store_box(store, scaled, box_out);
    return 0;
}

/* The structures of HDF5 1.14 and 2.x differ behind `filters`; only what they share is touched
 * here. */
static herr_t read_chunk(struct mkt_vol_store *store, H5VL_native_dataset_optional_args_t *args)
{
    const hsize_t *offset = args->chunk_read.offset;
    const hsize_t origin[MKT_MAX_RANK] = {0};
    uint64_t scaled[MKT_MAX_RANK];
    struct mkt_slab box;
    bool there;

    if (aligned_box(store, offset, &box) < 0)
        return -1;
    scaled_of_offset(store, offset, scaled);
    if (mkt_vol_store_is_allocated(store, scaled, &there) < 0)
        return -1;
    if (!there)
        return mkt_vol_fail(H5E_DATASET, H5E_CANTGET, "chunk address isn't defined");
    if (fill_twin(store, &box) < 0)
        return -1;
    args->chunk_read.offset = origin;
    herr_t result = mkt_vol_twin_ask(&store->twin, H5VL_NATIVE_DATASET_CHUNK_READ, args);
    args->chunk_read.offset = offset;
    args->chunk_read.filters = whole_mask(store, args->chunk_read.filters);
    return result;
}

/* What the bytes say is what is kept. The twin goes without the filters that were left out: native
 * may read such a chunk with all of them (it remembers the mask of the chunk before). */
static herr_t write_chunk(struct mkt_vol_store *store, H5VL_native_dataset_optional_args_t *args)
{
    const uint32_t mask = args->chunk_write.filters;
    const hsize_t *offset = args->chunk_write.offset;
    const hsize_t origin[MKT_MAX_RANK] = {0};
    struct mkt_slab box;

    if (mkt_vol_may_write(store->object) < 0)
        return -1;
    if (aligned_box(store, offset, &box) < 0 || twin_of(store, &box, mask) < 0)
        return -1;
    args->chunk_write.offset = origin;
    args->chunk_write.filters = 0;
    herr_t result = mkt_vol_twin_ask(&store->twin, H5VL_NATIVE_DATASET_CHUNK_WRITE, args);
    args->chunk_write.offset = offset;
    args->chunk_write.filters = mask;
    if (result < 0)
        return -1;
    if (mkt_vol_twin_read(&store->twin, H5P_DATASET_XFER_DEFAULT, store->values) < 0)
        return mkt_vol_fail(H5E_DATASET, H5E_WRITEERROR,
                            "%s: a chunk in the market must be one that the dataset's filters can "
                            "read; write it as elements, or use mode `file` for this path",
                            store->object->file->path);
    if (mkt_vol_store_move(store, &box, true) < 0)
        return -1;
    mkt_vol_array_note_mask(store->array, offset_hash(&box), values_hash(store, &box), mask);
    return 0;
}

/* ---- the operations ---- */

/* Native would have chosen otherwise for what is allocated early. */
static herr_t index_type(struct mkt_vol_store *store, H5VL_native_dataset_optional_args_t *args)
{
    if (mkt_vol_native_ask(store->object, H5VL_NATIVE_DATASET_GET_CHUNK_INDEX_TYPE, args) < 0)
        return -1;
    H5D_chunk_index_t *type = args->get_chunk_idx_type.idx_type;
    if (*type == H5D_CHUNK_IDX_FARRAY && store->filters == 0 &&
        store->alloc_time == H5D_ALLOC_TIME_EARLY)
        *type = H5D_CHUNK_IDX_NONE;
    return 0;
}

static herr_t answer(struct mkt_vol_store *store, struct mkt_vol_stored **kept, int operation,
                     H5VL_native_dataset_optional_args_t *args)
{
    struct mkt_vol_stored *stored;

    switch (operation) {
    case H5VL_NATIVE_DATASET_GET_CHUNK_INDEX_TYPE:
        return index_type(store, args);
    case H5VL_NATIVE_DATASET_GET_CHUNK_STORAGE_SIZE:
        return storage_of_chunk(store, &args->get_chunk_storage_size);
    case H5VL_NATIVE_DATASET_GET_NUM_CHUNKS:
        stored = list_chunks(store, kept);
        if (!stored)
            return -1;
        *args->get_num_chunks.nchunks = stored->count;
        return 0;
    case H5VL_NATIVE_DATASET_GET_CHUNK_INFO_BY_IDX:
        return by_index(store, kept, &args->get_chunk_info_by_idx);
    case H5VL_NATIVE_DATASET_GET_CHUNK_INFO_BY_COORD:
        return by_coordinates(store, &args->get_chunk_info_by_coord);
    case H5VL_NATIVE_DATASET_CHUNK_ITER:
        return iterate(store, args->chunk_iter.op, args->chunk_iter.op_data);
    case H5VL_NATIVE_DATASET_CHUNK_READ:
        return read_chunk(store, args);
    default:
        return write_chunk(store, args);
    }
}

bool mkt_vol_chunks_optional(struct mkt_vol_object *object, struct mkt_vol_array *array,
                             struct mkt_vol_stored **kept, H5VL_optional_args_t *args,
                             herr_t *result_out)
{
    struct mkt_vol_store store;

    switch (args->op_type) {
    case H5VL_NATIVE_DATASET_GET_CHUNK_INDEX_TYPE:
    case H5VL_NATIVE_DATASET_GET_CHUNK_STORAGE_SIZE:
    case H5VL_NATIVE_DATASET_GET_NUM_CHUNKS:
    case H5VL_NATIVE_DATASET_GET_CHUNK_INFO_BY_IDX:
    case H5VL_NATIVE_DATASET_GET_CHUNK_INFO_BY_COORD:
    case H5VL_NATIVE_DATASET_CHUNK_ITER:
    case H5VL_NATIVE_DATASET_CHUNK_READ:
    case H5VL_NATIVE_DATASET_CHUNK_WRITE:
        break;
    default:
        return false;
    }
    *result_out = -1;
    if (mkt_vol_store_open(&store, object, array) < 0)
        return true;
    if (store.chunked)
        *result_out = answer(&store, kept, args->op_type, args->args);
    else
        mkt_vol_fail(H5E_ARGS, H5E_BADTYPE, "not a chunked dataset");
    mkt_vol_store_close(&store);
    return true;
}
