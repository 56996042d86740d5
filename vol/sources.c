/* SPDX-License-Identifier: BSD-3-Clause */
/* What covers an array now: the version's pieces, then the group's or this process's own. */
#include <stdlib.h>
#include <string.h>

#include "vol/arrays_internal.h"

#define INDEX_FROM 64 /* own pieces; fewer are scanned */

enum mkt_status mkt_vol_sources_open(struct mkt_vol_sources *sources, struct mkt_vol_array *array,
                                     struct mkt_error *error)
{
    struct mkt_vol_file *file = array->owner->file;
    const void *index = NULL;

    memset(sources, 0, sizeof *sources);
    sources->array = array;
    sources->has_base = array->in_base;
    sources->base_position = array->base_position;
    if (!file->writable || file->size == 1)
        return MKT_OK;
    enum mkt_status status = mkt_client_lookup(file->client, file->handle, array->meta.identity,
                                               &sources->group_extent, &index, error);
    if (status != MKT_OK)
        return status;
    if (mkt_index_view_open(&sources->group, index, sources->group_extent.length) != MKT_OK) {
        mkt_client_unreserve(file->client, &sources->group_extent);
        return mkt_error_set(error, MKT_CORRUPT,
                             "the daemon's list of the group's pieces is damaged");
    }
    sources->has_group = sources->group.arrays > 0;
    return MKT_OK;
}

void mkt_vol_sources_close(struct mkt_vol_sources *sources)
{
    if (sources->group_extent.length > 0)
        mkt_client_unreserve(sources->array->owner->file->client, &sources->group_extent);
    sources->group_extent.length = 0;
}

static uint32_t own_pieces(const struct mkt_vol_sources *sources)
{
    const struct mkt_vol_array *array = sources->array;

    return array->owner->file->size == 1 ? array->pieces : 0; /* else the group's list has them */
}

bool mkt_vol_sources_empty(const struct mkt_vol_sources *sources)
{
    const struct mkt_vol_arrays *arrays = sources->array->owner;

    return (!sources->has_base ||
            mkt_index_view_pieces(&arrays->base, sources->base_position) == 0) &&
           (!sources->has_group || mkt_index_view_pieces(&sources->group, 0) == 0) &&
           own_pieces(sources) == 0;
}

bool mkt_vol_sources_unallocated(const struct mkt_vol_sources *sources)
{
    return mkt_vol_sources_empty(sources) &&
           mkt_vol_array_alloc_time(sources->array) != H5D_ALLOC_TIME_EARLY &&
           !(sources->array->meta.flags & MKT_VOL_ARRAY_HAD_SPACE);
}

bool mkt_vol_sources_disjoint(const struct mkt_vol_sources *sources)
{
    const struct mkt_vol_array *array = sources->array;
    bool base =
        sources->has_base && mkt_index_view_pieces(&array->owner->base, sources->base_position) > 0;
    uint32_t own = own_pieces(sources);

    if (base)
        return own == 0 && !sources->has_group &&
               mkt_index_view_disjoint(&array->owner->base, sources->base_position);
    if (sources->has_group)
        return mkt_index_view_disjoint(&sources->group, 0);
    return own <= 1 || (array->indexed == own && mkt_index_view_disjoint(&array->index, 0));
}

/* Those that are written: a piece being written is the last one. */
static enum mkt_status index_pieces(struct mkt_vol_array *array)
{
    uint32_t written = array->pieces;
    struct mkt_index_builder *builder = mkt_index_builder_create();
    struct mkt_piece parsed;
    void *bytes = NULL;
    uint64_t length;

    if (!builder)
        return MKT_NO_MEMORY;
    while (written > 0 && !array->piece[written - 1]->written)
        written--;
    enum mkt_status status = mkt_index_builder_add_array(builder, &array->meta);
    for (uint32_t i = 0; status == MKT_OK && i < written; i++) {
        mkt_vol_piece_parse(array, array->piece[i], &parsed);
        parsed.stamp = i; /* the order, and the way back to the piece */
        status = mkt_index_builder_add_piece(builder, &parsed);
    }
    if (status == MKT_OK)
        status = mkt_index_builder_finish(builder, &bytes, &length);
    mkt_index_builder_destroy(builder);
    if (status != MKT_OK)
        return status;
    mkt_vol_array_forget_index(array);
    array->index_bytes = bytes;
    array->indexed = written;
    return mkt_index_view_open(&array->index, bytes, length);
}

static enum mkt_status query_own(struct mkt_vol_array *array, const struct mkt_slab *want,
                                 mkt_piece_fn fn, void *context)
{
    enum mkt_status status = MKT_OK;
    uint32_t rest = array->pieces - array->indexed;

    if (rest > INDEX_FROM && rest > array->indexed / 2)
        status = index_pieces(array);
    if (status == MKT_OK && array->indexed > 0)
        status = mkt_index_view_query(&array->index, 0, want, fn, context);
    for (uint32_t i = array->indexed; status == MKT_OK && i < array->pieces; i++) {
        struct mkt_piece piece;

        mkt_vol_piece_parse(array, array->piece[i], &piece);
        if (array->piece[i]->written && mkt_slab_bounds_meet(&piece.slab, want))
            status = fn(context, &piece);
    }
    return status;
}

enum mkt_status mkt_vol_sources_query(const struct mkt_vol_sources *sources,
                                      const struct mkt_slab *want, mkt_piece_fn fn, void *context)
{
    const struct mkt_vol_array *array = sources->array;
    enum mkt_status status = MKT_OK;

    if (sources->has_base)
        status =
            mkt_index_view_query(&array->owner->base, sources->base_position, want, fn, context);
    if (status == MKT_OK && sources->has_group)
        status = mkt_index_view_query(&sources->group, 0, want, fn, context);
    if (status == MKT_OK && own_pieces(sources) > 0)
        status = query_own(sources->array, want, fn, context);
    return status;
}
