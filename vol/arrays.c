/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/arrays.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "vol/arrays_internal.h"
#include "vol/own_types.h"

#define BLOCK_ARRAYS 32
#define ADD_AT_ONCE  16 /* pieces handed to the client in one call at a commit */

/* Arrays lie together and apart from what native allocates meanwhile: in a file of a thousand
 * datasets that is to be felt. */
struct mkt_vol_array_block {
    struct mkt_vol_array_block *next;
    uint32_t used, capacity;
    struct mkt_vol_array array[];
};

static struct mkt_vol_array *array_new(struct mkt_vol_arrays *arrays)
{
    struct mkt_vol_array_block *block = arrays->blocks;

    if (!block || block->used == block->capacity) {
        uint32_t capacity = !block                           ? 1
                            : block->capacity < BLOCK_ARRAYS ? 2 * block->capacity
                                                             : BLOCK_ARRAYS;
        block = malloc(sizeof *block + capacity * sizeof *block->array);
        if (!block)
            return NULL;
        *block = (struct mkt_vol_array_block){.next = arrays->blocks, .capacity = capacity};
        arrays->blocks = block;
    }
    struct mkt_vol_array *array = &block->array[block->used++];
    memset(array, 0, sizeof *array);
    return array;
}

static struct mkt_vol_array *array_insert(struct mkt_vol_arrays *arrays,
                                          const struct mkt_array *meta)
{
    struct mkt_vol_array *array = array_new(arrays);

    if (!array)
        return NULL;
    array->owner = arrays;
    array->meta = *meta;
    struct mkt_vol_array *former;
    HASH_FIND(by_token, arrays->by_token, meta->token, MKT_TOKEN_BYTES, former);
    if (former)
        mkt_vol_array_kill(former);
    HASH_ADD(by_token, arrays->by_token, meta.token, MKT_TOKEN_BYTES, array);
    if (!array->by_token.tbl)
        return NULL;
    *arrays->last = array;
    arrays->last = &array->next;
    if (meta->identity >= arrays->next_identity && meta->identity < UINT64_MAX / 2)
        arrays->next_identity = meta->identity + 1;
    return array;
}

static struct mkt_vol_array *array_from_base(struct mkt_vol_arrays *arrays, uint32_t position)
{
    struct mkt_array meta;

    if (mkt_index_view_array(&arrays->base, position, &meta) != MKT_OK)
        return NULL;
    struct mkt_vol_array *array = array_insert(arrays, &meta);
    if (array) {
        array->in_base = true;
        array->base_position = position;
    }
    return array;
}

static int by_identity(const void *left, const void *right)
{
    uint64_t a = ((const struct mkt_array *)left)->identity,
             b = ((const struct mkt_array *)right)->identity;

    return a < b ? -1 : a > b;
}

/* A writer lists every array at its commit, so it knows all of them from the start, in the order of
 * identities. */
static bool arrays_load(struct mkt_vol_arrays *arrays)
{
    uint32_t count = arrays->base.arrays;
    struct mkt_array *list = malloc((count ? count : 1) * sizeof *list);
    bool ok = list != NULL;

    for (uint32_t i = 0; ok && i < count; i++)
        ok = mkt_index_view_array(&arrays->base, i, &list[i]) == MKT_OK;
    if (ok)
        qsort(list, count, sizeof *list, by_identity);
    for (uint32_t i = 0; ok && i < count; i++) {
        uint32_t position;

        ok = mkt_index_view_find_identity(&arrays->base, list[i].identity, &position) == MKT_OK &&
             array_from_base(arrays, position) != NULL;
    }
    free(list);
    return ok;
}

struct mkt_vol_arrays *mkt_vol_arrays_create(struct mkt_vol_file *file, const void *index,
                                             uint64_t index_bytes)
{
    struct mkt_vol_arrays *arrays = calloc(1, sizeof *arrays);

    if (!arrays)
        return NULL;
    arrays->file = file;
    arrays->last = &arrays->first;
    arrays->next_identity = 1;
    if (index && index_bytes > 0) {
        arrays->has_base = mkt_index_view_open(&arrays->base, index, index_bytes) == MKT_OK;
        arrays->base.known = &arrays->base_known;
        if (!arrays->has_base || (file->writable && !arrays_load(arrays))) {
            mkt_vol_arrays_destroy(arrays);
            return NULL;
        }
    }
    return arrays;
}

void mkt_vol_arrays_destroy(struct mkt_vol_arrays *arrays)
{
    if (!arrays)
        return;
    HASH_CLEAR(by_token, arrays->by_token);
    for (struct mkt_vol_array *array = arrays->first, *next; array; array = next) {
        next = array->next;
        mkt_vol_array_fini(array);
    }
    for (struct mkt_vol_array_block *block = arrays->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(arrays);
}

bool mkt_vol_arrays_changed(const struct mkt_vol_arrays *arrays)
{
    return arrays->changed;
}

void mkt_vol_arrays_note_unlink(struct mkt_vol_arrays *arrays)
{
    arrays->changed = true;
}

struct mkt_vol_array *mkt_vol_array_find(struct mkt_vol_arrays *arrays,
                                         const uint8_t token[MKT_TOKEN_BYTES])
{
    struct mkt_vol_array *array;
    uint32_t position;

    HASH_FIND(by_token, arrays->by_token, token, MKT_TOKEN_BYTES, array);
    if (!array && arrays->has_base && !arrays->file->writable &&
        mkt_index_view_find_token(&arrays->base, token, &position) == MKT_OK)
        array = array_from_base(arrays, position);
    return array;
}

/* A reader's are made as they are asked for. */
static enum mkt_status next_of_base(struct mkt_vol_arrays *arrays, struct mkt_vol_array **array)
{
    uint32_t position = *array ? (*array)->base_position + 1 : 0;
    struct mkt_array meta;

    if (!arrays->has_base || position >= arrays->base.arrays)
        return MKT_NOT_FOUND;
    enum mkt_status status = mkt_index_view_array(&arrays->base, position, &meta);
    if (status != MKT_OK)
        return status;
    struct mkt_vol_array *found = mkt_vol_array_find(arrays, meta.token);
    if (!found)
        return MKT_NO_MEMORY;
    /* Two under one token would have no end. */
    if (found->base_position != position)
        return MKT_CORRUPT;
    *array = found;
    return MKT_OK;
}

enum mkt_status mkt_vol_arrays_next(struct mkt_vol_arrays *arrays, struct mkt_vol_array **array)
{
    if (!arrays->file->writable)
        return next_of_base(arrays, array);
    struct mkt_vol_array *found = *array ? (*array)->next : arrays->first;
    while (found && found->dead)
        found = found->next;
    if (!found)
        return MKT_NOT_FOUND;
    *array = found;
    return MKT_OK;
}

struct mkt_vol_array *mkt_vol_array_create(struct mkt_vol_arrays *arrays,
                                           const uint8_t token[MKT_TOKEN_BYTES],
                                           uint32_t element_bytes, uint32_t rank,
                                           const uint64_t *dims, uint32_t flags, bool created)
{
    struct mkt_array meta = {.element_bytes = element_bytes, .flags = flags, .rank = rank};

    /* The ranks need not open one dataset at the same time: what was found is named by its token,
     * not by order. */
    meta.identity = created ? arrays->next_identity
                            : mkt_hash64(token, MKT_TOKEN_BYTES, 0) | (UINT64_C(1) << 63);
    memcpy(meta.token, token, MKT_TOKEN_BYTES);
    memcpy(meta.dims, dims, rank * sizeof *dims);
    struct mkt_vol_array *array = array_insert(arrays, &meta);
    if (array)
        arrays->changed = arrays->changed || created;
    return array;
}

const struct mkt_array *mkt_vol_array_meta(const struct mkt_vol_array *array)
{
    return &array->meta;
}

H5D_alloc_time_t mkt_vol_array_alloc_time(const struct mkt_vol_array *array)
{
    return (H5D_alloc_time_t)(array->meta.flags & MKT_VOL_ARRAY_ALLOC_TIME);
}

bool mkt_vol_array_has_type(const struct mkt_vol_array *array, hid_t type)
{
    uint32_t flag = array->meta.flags & MKT_VOL_ARRAY_OWN_TYPES;
    struct mkt_vol_own_type own = {0};

    if (flag != 0)
        own = mkt_vol_own_type(type);
    return flag != 0 && flag == MKT_VOL_ARRAY_OWN_TYPE(own.number) &&
           own.bytes == array->meta.element_bytes;
}

uint64_t mkt_vol_array_generation(const struct mkt_vol_array *array)
{
    return array->generation;
}

struct mkt_vol_file *mkt_vol_array_file(const struct mkt_vol_array *array)
{
    return array->owner->file;
}

void mkt_vol_array_kill(struct mkt_vol_array *array)
{
    if (array->dead)
        return;
    array->dead = true;
    array->owner->changed = true;
    HASH_DELETE(by_token, array->owner->by_token, array);
}

static enum mkt_status array_send(struct mkt_vol_array *array, struct mkt_error *error)
{
    struct mkt_vol_file *file = array->owner->file;
    struct mkt_piece batch[ADD_AT_ONCE];
    uint32_t filled = 0;

    for (uint32_t i = 0; i < array->pieces; i++) {
        struct mkt_vol_piece *piece = array->piece[i];

        if (piece->written && !piece->settled) {
            mkt_vol_piece_settle(array, piece);
            mkt_vol_piece_parse(array, piece, &batch[filled++]);
        }
        if (filled == ADD_AT_ONCE || (filled > 0 && i + 1 == array->pieces)) {
            enum mkt_status status = mkt_client_add(file->client, file->handle, &array->meta, batch,
                                                    filled, false, NULL, error);
            if (status != MKT_OK)
                return status;
            filled = 0;
        }
    }
    return MKT_OK;
}

enum mkt_status mkt_vol_arrays_list(struct mkt_vol_arrays *arrays, struct mkt_array **list_out,
                                    uint32_t *count_out, uint64_t *hash_out)
{
    uint32_t live = HASH_CNT(by_token, arrays->by_token), filled = 0;
    struct mkt_array *list = malloc((live ? live : 1) * sizeof *list);
    struct mkt_error error = {0};
    uint64_t hash = 0;

    if (!list)
        return MKT_NO_MEMORY;
    for (struct mkt_vol_array *array = arrays->first; array; array = array->next) {
        if (array->dead)
            continue;
        /* In a larger group the market has the pieces already. */
        if (arrays->file->size == 1) {
            enum mkt_status status = array_send(array, &error);
            if (status != MKT_OK) {
                mkt_vol_file_poison(arrays->file, "%s", error.text);
                free(list);
                return status;
            }
        }
        const struct mkt_array *meta = &array->meta;
        hash = mkt_hash64(&meta->identity, sizeof meta->identity, hash);
        hash = mkt_hash64(meta->token, MKT_TOKEN_BYTES, hash);
        hash = mkt_hash64(meta->dims, meta->rank * sizeof *meta->dims, hash);
        list[filled++] = *meta;
    }
    mkt_client_push(arrays->file->client); /* native's close takes a while */
    if (!mkt_arrays_rise(list, filled))
        qsort(list, filled, sizeof *list, by_identity);
    *list_out = list;
    *count_out = filled;
    *hash_out = hash;
    return MKT_OK;
}
