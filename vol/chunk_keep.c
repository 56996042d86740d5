/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks that keep their space when a dataset shrinks; see chunks.h. */
#include <stdlib.h>
#include <string.h>

#include "vol/chunks.h"
#include "vol/chunks_internal.h"
#include "vol/error.h"

struct mkt_vol_kept {
    uint64_t count, capacity;
    uint64_t (*scaled)[MKT_MAX_RANK];
};

static void kept_destroy(struct mkt_vol_kept *kept)
{
    if (!kept)
        return;
    free(kept->scaled);
    free(kept);
}

static herr_t kept_append(struct mkt_vol_kept **kept, const uint64_t *scaled)
{
    if (!*kept && !(*kept = calloc(1, sizeof **kept)))
        goto err_memory;
    if ((*kept)->count == (*kept)->capacity) {
        uint64_t capacity = (*kept)->capacity ? 2 * (*kept)->capacity : 8;
        void *grown = realloc((*kept)->scaled, capacity * sizeof *(*kept)->scaled);

        if (!grown)
            goto err_memory;
        (*kept)->scaled = grown;
        (*kept)->capacity = capacity;
    }
    memcpy((*kept)->scaled[(*kept)->count++], scaled, sizeof *(*kept)->scaled);
    return 0;

err_memory:
    return mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC, "no memory for a list of chunks");
}

/* Keeps a chunk if it was written, but nowhere in what is left of it. */
static herr_t keep_if_cut(struct mkt_vol_store *store, const uint64_t *scaled, const uint64_t *dims,
                          struct mkt_vol_kept **kept)
{
    struct mkt_slab box;
    bool was, stays;

    mkt_vol_store_box(store, scaled, &box);
    if (mkt_vol_store_is_written(store, &box, &was) < 0)
        return -1;
    for (uint32_t d = 0; d < box.rank; d++)
        if (mkt_dim_end(&box.dim[d]) > dims[d]) {
            uint64_t left = dims[d] - box.dim[d].start;

            box.dim[d] = (struct mkt_dim){box.dim[d].start, left, 1, left};
        }
    if (!was || mkt_vol_store_is_written(store, &box, &stays) < 0)
        return was ? -1 : 0;
    return stays ? 0 : kept_append(kept, scaled);
}

/* The chunks across the new edge of dimension `edge`. */
static herr_t keep_at_edge(struct mkt_vol_store *store, uint32_t edge, const uint64_t *dims,
                           struct mkt_vol_kept **kept)
{
    uint64_t scaled[MKT_MAX_RANK] = {0}, chunks[MKT_MAX_RANK];
    uint32_t rank = store->meta->rank;

    for (uint32_t d = 0; d < rank; d++) {
        uint64_t least = dims[d] < store->meta->dims[d] ? dims[d] : store->meta->dims[d];

        chunks[d] = (least + store->chunk[d] - 1) / store->chunk[d];
        if (chunks[d] == 0)
            return 0;
    }
    scaled[edge] = chunks[edge] - 1;
    for (;;) {
        if (keep_if_cut(store, scaled, dims, kept) < 0)
            return -1;
        uint32_t d = rank;
        while (d-- > 0) {
            if (d == edge)
                continue;
            if (++scaled[d] < chunks[d])
                break;
            scaled[d] = 0;
        }
        if (d == UINT32_MAX)
            return 0;
    }
}

static bool is_empty(uint32_t rank, const uint64_t *dims)
{
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] == 0)
            return true;
    return false;
}

static herr_t keep_cut(struct mkt_vol_store *store, const uint64_t *dims,
                       struct mkt_vol_kept **kept)
{
    const uint64_t first[MKT_MAX_RANK] = {0};
    const struct mkt_array *meta = store->meta;
    herr_t result = 0;

    if (!store->chunked || !store->written || store->alloc_time == H5D_ALLOC_TIME_EARLY ||
        is_empty(meta->rank, dims))
        return 0;
    if (store->alloc_time == H5D_ALLOC_TIME_LATE) /* one says that there are all */
        return kept_append(kept, first);
    for (uint32_t d = 0; d < meta->rank && result >= 0; d++)
        if (dims[d] < meta->dims[d] && dims[d] % store->chunk[d] != 0)
            result = keep_at_edge(store, d, dims, kept);
    return result;
}

herr_t mkt_vol_stored_before_resize(struct mkt_vol_object *object, struct mkt_vol_array *array,
                                    const uint64_t *dims, struct mkt_vol_kept **kept_out)
{
    const struct mkt_array *meta = mkt_vol_array_meta(array);
    struct mkt_vol_store store;
    bool shrinks = false;

    *kept_out = NULL;
    for (uint32_t d = 0; d < meta->rank; d++)
        shrinks = shrinks || dims[d] < meta->dims[d];
    if (!shrinks || object->file->size > 1)
        return 0;
    if (mkt_vol_store_open(&store, object, array) < 0)
        return -1;
    herr_t result = keep_cut(&store, dims, kept_out);
    mkt_vol_store_close(&store);
    if (result < 0) {
        kept_destroy(*kept_out);
        *kept_out = NULL;
    }
    return result;
}

/* One element of each is written as it reads. */
herr_t mkt_vol_stored_after_resize(struct mkt_vol_object *object, struct mkt_vol_array *array,
                                   struct mkt_vol_kept *kept)
{
    struct mkt_vol_store store;
    struct mkt_slab box;
    bool there = false;
    herr_t result = 0;

    if (!kept)
        return 0;
    if (mkt_vol_store_open(&store, object, array) < 0) {
        kept_destroy(kept);
        return -1;
    }
    store.values = malloc(store.meta->element_bytes);
    if (!store.values)
        result = mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC, "no memory for an element");
    for (uint64_t i = 0; result >= 0 && i < kept->count; i++) {
        mkt_vol_store_box(&store, kept->scaled[i], &box);
        for (uint32_t d = 0; d < box.rank; d++)
            box.dim[d] = (struct mkt_dim){box.dim[d].start, 1, 1, 1};
        result = mkt_vol_store_is_allocated(&store, kept->scaled[i], &there);
        if (result >= 0 && !there &&
            (mkt_vol_store_move(&store, &box, false) < 0 ||
             mkt_vol_store_move(&store, &box, true) < 0))
            result = -1;
    }
    mkt_vol_store_close(&store);
    kept_destroy(kept);
    return result;
}
