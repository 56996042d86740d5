/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changing extents. What a dataset loses when it shrinks must not come back when it grows again, so
 * shrinking cuts the pieces: those outside go, those that stand across the new edge are replaced by
 * their inner part.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/engine.h"
#include "vol/arrays_internal.h"
#include "vol/file_state.h"
#include "vol/mask.h"

struct cut {
    struct mkt_vol_array *array;
    struct mkt_slab keep; /* the new extent as a box */
    bool empty;           /* a dimension became 0 */
    struct mkt_error error;
    /* of the piece at work */
    void *memory, *piece_data;
};

static void move_cut(void *context, const struct mkt_move *move)
{
    const struct cut *cut = context;

    mkt_engine_shm.move(move, MKT_GET, cut->memory, cut->piece_data);
}

static void mark_cut(void *context, const struct mkt_move *move)
{
    mkt_vol_mask_set(context, move, MKT_VOL_MASK_MEMORY);
}

static bool inner_box(const struct cut *cut, const struct mkt_slab *slab,
                      struct mkt_slab *inner_out, bool *whole_out)
{
    *inner_out = *slab;
    *whole_out = true;
    if (cut->empty)
        return false;
    for (uint32_t d = 0; d < slab->rank; d++) {
        uint64_t start = slab->dim[d].start, end = mkt_dim_end(&slab->dim[d]),
                 edge = cut->keep.dim[d].block;

        if (start >= edge)
            return false;
        if (end > edge) {
            *whole_out = false;
            end = edge;
        }
        inner_out->dim[d] = (struct mkt_dim){start, end - start, 1, end - start};
    }
    return true;
}

/* The inner part of a piece as a piece of its own: the box with a bitmap of what the piece holds of
 * it. */
static enum mkt_status cut_piece(void *context, const struct mkt_piece *piece)
{
    struct cut *cut = context;
    struct mkt_vol_array *array = cut->array;
    struct mkt_client *client = array->owner->file->client;
    uint32_t bytes = array->meta.element_bytes;
    struct mkt_piece wanted = {.form = MKT_PIECE_MASKED};
    struct mkt_vol_place place;
    struct mkt_layout layout;
    void *table = NULL;
    bool whole;

    if (!inner_box(cut, &piece->slab, &wanted.slab, &whole))
        return MKT_OK;
    enum mkt_status status =
        mkt_client_map_source(client, &piece->data, &cut->piece_data, &cut->error);
    if (status == MKT_OK && piece->table.length > 0)
        status = mkt_client_map(client, &piece->table, false, &table, &cut->error);
    if (status != MKT_OK)
        return status;
    uint64_t elements = mkt_slab_elements(&wanted.slab);
    wanted.data.length = elements * bytes;
    wanted.table.length = mkt_vol_mask_bytes(elements);
    status = mkt_vol_array_place_table(array, &wanted, &place, &cut->error);
    if (status != MKT_OK)
        return status;
    cut->memory = place.data;
    memset(place.table, 0, wanted.table.length);
    mkt_layout_packed(&layout, &wanted.slab, bytes, 0);
    mkt_plan_piece(&wanted.slab, &layout, piece, table, bytes, move_cut, cut);
    mkt_layout_packed(&layout, &wanted.slab, 1, 0);
    mkt_plan_piece(&wanted.slab, &layout, piece, table, 1, mark_cut, place.table);
    return mkt_vol_array_written(&place, &cut->error);
}

/* Rebuilds the list of pieces: what the base had of it, then this process's own, each cut. */
static enum mkt_status cut_all(struct cut *cut)
{
    struct mkt_vol_array *array = cut->array;
    struct mkt_vol_piece **former = array->piece;
    uint32_t former_count = array->pieces, i = 0;
    struct mkt_slab all;
    enum mkt_status status = MKT_OK;

    array->piece = NULL;
    array->pieces = array->capacity = 0;
    mkt_vol_array_forget_index(array);
    if (array->in_base) {
        mkt_slab_box(&all, array->meta.rank, (uint64_t[MKT_MAX_RANK]){0}, array->meta.dims);
        status =
            mkt_index_view_query(&array->owner->base, array->base_position, &all, cut_piece, cut);
        array->in_base = false;
    }
    for (; i < former_count && status == MKT_OK; i++) {
        struct mkt_piece parsed;
        struct mkt_slab inner;
        bool whole;

        mkt_vol_piece_parse(array, former[i], &parsed);
        if (inner_box(cut, &parsed.slab, &inner, &whole) && whole) {
            status = mkt_vol_piece_append(array, former[i]);
            if (status != MKT_OK)
                break;
            continue;
        }
        status = cut_piece(cut, &parsed);
        mkt_vol_piece_destroy(array, former[i]);
    }
    for (; i < former_count; i++)
        mkt_vol_piece_destroy(array, former[i]);
    free(former);
    return status;
}

/* In a group rank 0 cuts for all: what it keeps becomes the pieces of another array, which takes
 * the place of the former on every rank. The others wait until it is done. */
static enum mkt_status cut_for_group(struct cut *cut, struct mkt_vol_sources *sources)
{
    struct mkt_vol_array *array = cut->array;
    struct mkt_vol_file *file = array->owner->file;
    enum mkt_status status = MKT_OK;
    struct mkt_slab all;

    for (uint32_t i = 0; i < array->pieces; i++)
        mkt_vol_piece_destroy(array, array->piece[i]);
    array->pieces = 0;
    mkt_vol_array_forget_index(array);
    array->meta.identity = array->owner->next_identity++;
    mkt_slab_box(&all, array->meta.rank, (uint64_t[MKT_MAX_RANK]){0}, array->meta.dims);
    if (file->rank == 0)
        status = mkt_vol_sources_query(sources, &all, cut_piece, cut);
    array->in_base = false;
    status = (enum mkt_status)mkt_vol_group_first(&file->state->group, (uint32_t)status);
    if (status != MKT_OK && file->rank != 0)
        mkt_error_set(&cut->error, status, "rank 0 could not cut the dataset");
    return status;
}

static herr_t shrink(struct mkt_vol_array *array, const uint64_t *dims)
{
    struct mkt_vol_file *file = array->owner->file;
    struct cut cut = {.array = array};
    struct mkt_vol_sources sources;
    enum mkt_status status = MKT_OK;

    /* What the others wrote before this call has to be seen. */
    mkt_vol_group_meet(&file->state->group);
    if (mkt_vol_sources_open(&sources, array, &cut.error) != MKT_OK) {
        mkt_vol_file_poison(file, "cutting a dataset failed: %s", cut.error.text);
        if (file->size > 1) /* the others wait */
            mkt_vol_group_first(&file->state->group, MKT_UNSUPPORTED);
        return mkt_vol_fail_status(&cut.error);
    }
    if (!mkt_vol_sources_empty(&sources))
        array->meta.flags |= MKT_VOL_ARRAY_HAD_SPACE;
    for (uint32_t d = 0; d < array->meta.rank; d++)
        cut.empty = cut.empty || dims[d] == 0;
    mkt_slab_box(&cut.keep, array->meta.rank, (uint64_t[MKT_MAX_RANK]){0}, dims);
    if (file->size > 1) {
        status = cut_for_group(&cut, &sources);
    } else if (!mkt_vol_sources_empty(&sources)) {
        /* The base's array keeps its identity for readers; what is left here is another array. */
        if (array->in_base)
            array->meta.identity = array->owner->next_identity++;
        status = cut_all(&cut);
    }
    mkt_vol_sources_close(&sources);
    if (status == MKT_OK)
        return 0;
    mkt_vol_file_poison(file, "cutting a dataset failed: %s", cut.error.text);
    return mkt_vol_fail_status(&cut.error);
}

herr_t mkt_vol_array_resize(struct mkt_vol_array *array, const uint64_t *dims)
{
    bool shrinks = false;

    for (uint32_t d = 0; d < array->meta.rank; d++)
        shrinks = shrinks || dims[d] < array->meta.dims[d];
    array->owner->changed = true;
    array->generation++;
    mkt_vol_array_seal(array);
    if (shrinks && shrink(array, dims) < 0)
        return -1;
    memcpy(array->meta.dims, dims, array->meta.rank * sizeof *dims);
    return 0;
}
