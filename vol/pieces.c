/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "vol/arrays_internal.h"

#define OVERLAP_SCAN_MAX                                                                 \
    4096              /* later pieces looked at before an overwrite in place is given up \
                       */
#define INDEX_FROM 64 /* pieces; fewer are scanned */

/* ---- pieces ---- */

struct mkt_vol_piece *mkt_vol_piece_create(const struct mkt_piece *piece)
{
    struct mkt_vol_piece *created = calloc(1, sizeof *created + mkt_piece_record_bytes(piece));

    if (created) {
        created->record = (struct mkt_piece_record_wire *)(created + 1);
        mkt_piece_encode(piece, created->record);
    }
    return created;
}

static size_t key_bytes(const struct mkt_vol_piece *piece)
{
    return piece->record->record_bytes - sizeof *piece->record;
}

static void piece_unhash(struct mkt_vol_array *array, struct mkt_vol_piece *piece)
{
    if (piece->hashed)
        HASH_DELETE(by_slab, array->by_slab, piece);
    piece->hashed = false;
}

/* The latest piece of a slab is the one to overwrite. Without memory for the table there is none.
 */
static void piece_hash(struct mkt_vol_array *array, struct mkt_vol_piece *piece)
{
    struct mkt_vol_piece *former;

    HASH_FIND(by_slab, array->by_slab, piece->record->dims, key_bytes(piece), former);
    if (former)
        piece_unhash(array, former);
    HASH_ADD_KEYPTR(by_slab, array->by_slab, piece->record->dims, key_bytes(piece), piece);
    piece->hashed = piece->by_slab.tbl != NULL;
}

void mkt_vol_piece_destroy(struct mkt_vol_array *array, struct mkt_vol_piece *piece)
{
    struct mkt_vol_file *file = array->owner->file;
    bool ours = file->size == 1 ? !piece->settled : piece->record->stamp == 0;

    piece_unhash(array, piece);
    if (ours && piece->record->data.arena != 0) {
        struct mkt_extent reserved = piece->record->data;

        reserved.length = piece->data_capacity;
        mkt_client_unreserve(file->client, &reserved);
    }
    if (ours && piece->record->table.arena != 0)
        mkt_client_unreserve(file->client, &piece->record->table);
    free(piece);
}

enum mkt_status mkt_vol_piece_append(struct mkt_vol_array *array, struct mkt_vol_piece *piece)
{
    if (array->pieces == array->capacity) {
        uint32_t capacity = array->capacity ? 2 * array->capacity : 4;
        struct mkt_vol_piece **grown = realloc(array->piece, capacity * sizeof *grown);

        if (!grown)
            return MKT_NO_MEMORY;
        array->piece = grown;
        array->capacity = capacity;
    }
    array->piece[array->pieces++] = piece;
    return MKT_OK;
}

void mkt_vol_piece_parse(const struct mkt_vol_array *array, const struct mkt_vol_piece *piece,
                         struct mkt_piece *piece_out)
{
    uint32_t used;

    /* Our own record: it decodes. */
    (void)mkt_piece_decode(piece->record, piece->record->record_bytes, array->meta.element_bytes,
                           piece_out, &used);
}

void mkt_vol_array_forget_index(struct mkt_vol_array *array)
{
    free(array->index_bytes);
    array->index_bytes = NULL;
    array->indexed = 0;
}

void mkt_vol_array_destroy(struct mkt_vol_array *array)
{
    for (uint32_t i = array->pieces; i-- > 0;)
        mkt_vol_piece_destroy(array, array->piece[i]);
    free(array->piece);
    mkt_vol_array_forget_index(array);
    free(array);
}

/* ---- writing ---- */

static bool covered_later(const struct mkt_vol_array *array, const struct mkt_vol_piece *piece,
                          const struct mkt_slab *slab)
{
    struct mkt_piece later;

    for (uint32_t i = array->pieces, scanned = 0; i-- > 0 && array->piece[i] != piece;) {
        if (++scanned > OVERLAP_SCAN_MAX)
            return true;
        mkt_vol_piece_parse(array, array->piece[i], &later);
        if (mkt_slab_bounds_meet(&later.slab, slab))
            return true;
    }
    return false;
}

static enum mkt_status reserve(struct mkt_vol_array *array, struct mkt_vol_piece *piece,
                               struct mkt_error *error)
{
    struct mkt_client *client = array->owner->file->client;
    struct mkt_piece_record_wire *record = piece->record;
    uint64_t table_bytes = record->table.length;

    piece->data_capacity = record->data.length;
    record->table = (struct mkt_extent){0};
    enum mkt_status status =
        mkt_client_reserve(client, piece->data_capacity, &record->data, &piece->data, error);
    if (status != MKT_OK) {
        record->data = (struct mkt_extent){0};
        return status;
    }
    /* A reservation may be rounded up; the piece names what it holds. */
    piece->data_capacity = record->data.length;
    if (table_bytes > 0) {
        status = mkt_client_reserve(client, table_bytes, &record->table, &piece->table, error);
        if (status != MKT_OK)
            record->table = (struct mkt_extent){0};
    }
    return status;
}

static struct mkt_vol_piece *place_new(struct mkt_vol_array *array, const struct mkt_piece *wanted,
                                       struct mkt_error *error)
{
    struct mkt_vol_piece *piece = mkt_vol_piece_create(wanted);

    if (!piece) {
        mkt_error_set(error, MKT_NO_MEMORY, "no memory for the description of a piece");
        return NULL;
    }
    if (reserve(array, piece, error) != MKT_OK)
        goto err_destroy;
    piece->record->data.length = wanted->data.length;
    piece->record->table.length = wanted->table.length;
    if (mkt_vol_piece_append(array, piece) != MKT_OK) {
        mkt_error_set(error, MKT_NO_MEMORY, "no memory for the list of pieces");
        goto err_destroy;
    }
    return piece;

err_destroy:
    mkt_vol_piece_destroy(array, piece);
    return NULL;
}

struct mkt_vol_piece *mkt_vol_array_place(struct mkt_vol_array *array, const struct mkt_slab *slab,
                                          void **address_out, struct mkt_error *error)
{
    struct mkt_piece wanted = {.form = mkt_slab_is_box(slab) ? MKT_PIECE_BOX : MKT_PIECE_SLAB,
                               .slab = *slab};
    uint64_t record[MKT_PIECE_RECORD_MAX_BYTES / 8];
    const struct mkt_piece_record_wire *key = (const struct mkt_piece_record_wire *)record;
    struct mkt_vol_piece *piece;

    wanted.data.length = mkt_slab_elements(slab) * array->meta.element_bytes;
    mkt_piece_encode(&wanted, record);
    HASH_FIND(by_slab, array->by_slab, key->dims, key->record_bytes - sizeof *key, piece);
    if (!piece || piece->settled || covered_later(array, piece, slab))
        piece = place_new(array, &wanted, error);
    if (piece)
        *address_out = piece->data;
    return piece;
}

struct mkt_vol_piece *mkt_vol_array_place_table(struct mkt_vol_array *array,
                                                const struct mkt_piece *wanted, void **data_out,
                                                void **table_out, struct mkt_error *error)
{
    struct mkt_vol_piece *piece = place_new(array, wanted, error);

    if (piece) {
        *data_out = piece->data;
        *table_out = piece->table;
    }
    return piece;
}

static enum mkt_status tell_group(struct mkt_vol_array *array, struct mkt_vol_piece *piece,
                                  struct mkt_error *error)
{
    struct mkt_vol_file *file = array->owner->file;
    struct mkt_piece parsed;
    uint64_t stamp;

    mkt_vol_piece_parse(array, piece, &parsed);
    enum mkt_status status =
        mkt_client_add(file->client, file->handle, &array->meta, &parsed, 1, true, &stamp, error);
    if (status == MKT_OK)
        piece->record->stamp = stamp;
    return status;
}

/* Another rank wrote over the piece after its stamp: what was written in place now becomes a piece
 * of its own, the latest. */
static enum mkt_status write_again(struct mkt_vol_array *array, const struct mkt_vol_piece *former,
                                   struct mkt_error *error)
{
    struct mkt_piece wanted;

    mkt_vol_piece_parse(array, former, &wanted);
    wanted.stamp = 0;
    struct mkt_vol_piece *piece = place_new(array, &wanted, error);
    if (!piece)
        return error->status;
    memcpy(piece->data, former->data, wanted.data.length);
    return mkt_vol_array_written(array, piece, error);
}

enum mkt_status mkt_vol_array_written(struct mkt_vol_array *array, struct mkt_vol_piece *piece,
                                      struct mkt_error *error)
{
    struct mkt_vol_file *file = array->owner->file;
    bool again = piece->written;

    array->owner->changed = true;
    piece->written = true;
    if (!again && (piece->record->form == MKT_PIECE_BOX || piece->record->form == MKT_PIECE_SLAB))
        piece_hash(array, piece);
    if (file->size == 1)
        return MKT_OK;
    if (!again)
        return tell_group(array, piece, error);

    bool superseded = false;
    enum mkt_status status = mkt_client_touch(file->client, file->handle, array->meta.identity,
                                              piece->record->stamp, &superseded, error);
    return status == MKT_OK && superseded ? write_again(array, piece, error) : status;
}

void mkt_vol_array_dropped(struct mkt_vol_array *array, struct mkt_vol_piece *piece)
{
    if (piece->written)
        return;
    /* Nothing was placed since: it is the last. */
    array->pieces--;
    mkt_vol_piece_destroy(array, piece);
}

/* ---- reading ---- */

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

static enum mkt_status index_pieces(struct mkt_vol_array *array)
{
    struct mkt_index_builder *builder = mkt_index_builder_create();
    struct mkt_piece parsed;
    void *bytes = NULL;
    uint64_t length;

    if (!builder)
        return MKT_NO_MEMORY;
    enum mkt_status status = mkt_index_builder_add_array(builder, &array->meta);
    for (uint32_t i = 0; status == MKT_OK && i < array->pieces; i++) {
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
    array->indexed = array->pieces;
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
