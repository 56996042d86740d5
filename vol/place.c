/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a write goes. Pieces must not explode, so in the order of preference:
 *   overwrite  a piece of just this slab that may still change is written again in place;
 *   tile       many small writes of one array go to boxes of a fixed grid, each with a bitmap of
 * what was written; extend     a small box that continues the last piece along its slowest axis (a
 * record, a row) joins it; new        a piece of its own. Tiles and extending are for a process
 * that writes alone: a larger group knows each piece from its first write on.
 */
#include <stdlib.h>
#include <string.h>

#include "vol/arrays_internal.h"
#include "vol/mask.h"

#define OVERLAP_SCAN_MAX                                                                     \
    4096                  /* later pieces looked at before an overwrite in place is given up \
                           */
#define SMALL_BYTES  4096 /* a write for a tile */
#define TILES_FROM   64   /* small pieces of an array before tiles begin */
#define LISTED_MAX   4    /* pieces of an array before there is a table of them */
#define TILE_BYTES   (UINT64_C(64) << 10)
#define EXTEND_BYTES (UINT64_C(64) << 10) /* a larger box stays a piece of its own */
#define EXTENDED_MAX (UINT64_C(16) << 20) /* a piece that grew so large isn't extended */

/* ---- pieces by their slab ---- */

static size_t key_bytes(const struct mkt_vol_piece *piece)
{
    return piece->record->record_bytes - sizeof *piece->record;
}

void mkt_vol_piece_unhash(struct mkt_vol_array *array, struct mkt_vol_piece *piece)
{
    if (piece->hashed && piece->is_tile)
        HASH_DELETE(by_slab, array->by_tile, piece);
    else if (piece->hashed)
        HASH_DELETE(by_slab, array->by_slab, piece);
    piece->hashed = piece->listed = false;
}

/* Few pieces are looked through: a table would be larger than they. */
static struct mkt_vol_piece *find_by_slab(const struct mkt_vol_array *array, const void *key,
                                          size_t bytes)
{
    struct mkt_vol_piece *found = NULL;

    if (array->by_slab) {
        HASH_FIND(by_slab, array->by_slab, key, bytes, found);
        return found;
    }
    uint32_t end = array->pieces < LISTED_MAX ? array->pieces : LISTED_MAX;
    for (uint32_t i = 0; i < end; i++)
        if (array->piece[i]->listed && key_bytes(array->piece[i]) == bytes &&
            memcmp(array->piece[i]->record->dims, key, bytes) == 0)
            return array->piece[i];
    return NULL;
}

static void put_in_table(struct mkt_vol_array *array, struct mkt_vol_piece *piece)
{
    piece->listed = false;
    HASH_ADD_KEYPTR(by_slab, array->by_slab, piece->record->dims, key_bytes(piece), piece);
    piece->hashed = piece->by_slab.tbl != NULL;
}

/* The latest piece of a slab is the one to overwrite. Without memory for the table there is none.
 */
static void piece_hash(struct mkt_vol_array *array, struct mkt_vol_piece *piece)
{
    struct mkt_vol_piece *former = find_by_slab(array, piece->record->dims, key_bytes(piece));

    if (former)
        mkt_vol_piece_unhash(array, former);
    if (!array->by_slab && array->pieces <= LISTED_MAX) {
        piece->listed = true;
        return;
    }
    for (uint32_t i = 0; i < LISTED_MAX && i < array->pieces; i++)
        if (array->piece[i]->listed)
            put_in_table(array, array->piece[i]);
    put_in_table(array, piece);
}

void mkt_vol_array_seal(struct mkt_vol_array *array)
{
    struct mkt_vol_piece *piece, *next;

    HASH_ITER (by_slab, array->by_tile, piece, next)
        mkt_vol_piece_unhash(array, piece);
}

/* ---- bytes ---- */

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
    if (table_bytes > 0) {
        status = mkt_client_reserve(client, table_bytes, &record->table, &piece->table, error);
        if (status != MKT_OK)
            record->table = (struct mkt_extent){0};
    }
    return status;
}

static enum mkt_status piece_new(struct mkt_vol_array *array, const struct mkt_piece *wanted,
                                 struct mkt_vol_piece **piece_out, struct mkt_error *error)
{
    struct mkt_vol_piece *piece = mkt_vol_piece_create(wanted);

    if (!piece)
        return mkt_error_set(error, MKT_NO_MEMORY, "no memory for the description of a piece");
    enum mkt_status status = reserve(array, piece, error);
    if (status == MKT_OK && mkt_vol_piece_append(array, piece) != MKT_OK)
        status = mkt_error_set(error, MKT_NO_MEMORY, "no memory for the list of pieces");
    if (status != MKT_OK)
        mkt_vol_piece_destroy(array, piece);
    else
        *piece_out = piece;
    return status;
}

/* ---- overwriting ---- */

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

static struct mkt_vol_piece *find_to_overwrite(struct mkt_vol_array *array,
                                               const struct mkt_piece *wanted)
{
    uint64_t record[MKT_PIECE_RECORD_MAX_BYTES / 8];
    const struct mkt_piece_record_wire *key = (const struct mkt_piece_record_wire *)record;
    struct mkt_vol_piece *piece;

    mkt_piece_encode(wanted, record);
    piece = find_by_slab(array, key->dims, key->record_bytes - sizeof *key);
    return piece && !piece->settled && !covered_later(array, piece, &wanted->slab) ? piece : NULL;
}

/* ---- tiles ---- */

/* The tile of the array's grid that holds the slab; false if it would take several. */
static bool tile_of(const struct mkt_array *meta, const struct mkt_slab *slab,
                    struct mkt_slab *tile_out)
{
    uint64_t room = TILE_BYTES / meta->element_bytes;

    tile_out->rank = slab->rank;
    for (uint32_t d = slab->rank; d-- > 0;) {
        uint64_t side = meta->dims[d] < room ? meta->dims[d] : room;

        if (side == 0)
            return false;
        uint64_t start = slab->dim[d].start / side * side;
        uint64_t length = meta->dims[d] - start < side ? meta->dims[d] - start : side;
        if (mkt_dim_end(&slab->dim[d]) > start + length)
            return false;
        tile_out->dim[d] = (struct mkt_dim){start, length, 1, length};
        room /= side;
    }
    return true;
}

static enum mkt_status place_in_tile(struct mkt_vol_place *place, const struct mkt_slab *tile,
                                     struct mkt_error *error)
{
    struct mkt_vol_array *array = place->array;
    struct mkt_piece wanted = {.form = MKT_PIECE_MASKED, .slab = *tile};
    uint64_t record[MKT_PIECE_RECORD_MAX_BYTES / 8], elements = mkt_slab_elements(tile);
    const struct mkt_piece_record_wire *key = (const struct mkt_piece_record_wire *)record;
    struct mkt_vol_piece *piece;

    mkt_piece_encode(&wanted, record);
    HASH_FIND(by_slab, array->by_tile, key->dims, key->record_bytes - sizeof *key, piece);
    if (!piece) {
        wanted.data.length = elements * array->meta.element_bytes;
        wanted.table.length = mkt_vol_mask_bytes(elements);
        enum mkt_status status = piece_new(array, &wanted, &piece, error);
        if (status != MKT_OK)
            return status;
        memset(piece->table, 0, wanted.table.length);
        piece->is_tile = true;
        HASH_ADD_KEYPTR(by_slab, array->by_tile, piece->record->dims, key_bytes(piece), piece);
        piece->hashed = piece->by_slab.tbl != NULL;
    }
    place->kind = MKT_VOL_PLACE_TILE;
    place->piece = piece;
    place->geometry = (struct mkt_piece){.form = MKT_PIECE_BOX, .slab = *tile};
    place->data = piece->data;
    return MKT_OK;
}

static void mark_in_tile(void *context, const struct mkt_move *move)
{
    mkt_vol_mask_set(context, move, MKT_VOL_MASK_PIECE);
}

/* ---- extending ---- */

/* True if `slab` follows the box along the slowest axis in which either is longer than 1: packed,
 * it comes right behind. */
static bool continues(const struct mkt_slab *box, const struct mkt_slab *slab, uint32_t *axis_out)
{
    uint32_t d = 0;

    while (d < box->rank && mkt_dim_elements(&box->dim[d]) == 1 &&
           mkt_dim_elements(&slab->dim[d]) == 1 && box->dim[d].start == slab->dim[d].start)
        d++;
    if (d == box->rank || slab->dim[d].start != mkt_dim_end(&box->dim[d]))
        return false;
    *axis_out = d;
    for (d++; d < box->rank; d++)
        if (box->dim[d].start != slab->dim[d].start ||
            mkt_dim_elements(&box->dim[d]) != mkt_dim_elements(&slab->dim[d]))
            return false;
    return true;
}

static bool can_extend(const struct mkt_vol_array *array, const struct mkt_slab *slab,
                       uint64_t bytes, uint32_t *axis_out)
{
    struct mkt_piece last;

    if (array->pieces == array->indexed || bytes > EXTEND_BYTES)
        return false;
    const struct mkt_vol_piece *piece = array->piece[array->pieces - 1];
    if (!piece->written || piece->settled || piece->record->form != MKT_PIECE_BOX ||
        piece->record->data.length + bytes > EXTENDED_MAX)
        return false;
    mkt_vol_piece_parse(array, piece, &last);
    return continues(&last.slab, slab, axis_out);
}

/* Room behind the piece's data: its capacity doubles, so each byte moves once or twice in all. */
static enum mkt_status make_room(struct mkt_vol_array *array, struct mkt_vol_piece *piece,
                                 uint64_t bytes, struct mkt_error *error)
{
    struct mkt_client *client = array->owner->file->client;
    struct mkt_extent former = piece->record->data, larger;
    uint64_t needed = former.length + bytes;
    void *data;

    if (needed <= piece->data_capacity)
        return MKT_OK;
    uint64_t capacity = mkt_round_granule(2 * needed);
    enum mkt_status status = mkt_client_reserve(client, capacity, &larger, &data, error);
    if (status != MKT_OK)
        return status;
    memcpy(data, piece->data, former.length);
    larger.length = former.length;
    former.length = piece->data_capacity;
    piece->record->data = larger;
    piece->data = data;
    piece->data_capacity = capacity;
    mkt_client_unreserve(client, &former);
    return MKT_OK;
}

static enum mkt_status place_behind(struct mkt_vol_place *place, uint64_t bytes, uint32_t axis,
                                    struct mkt_error *error)
{
    struct mkt_vol_array *array = place->array;
    struct mkt_vol_piece *piece = array->piece[array->pieces - 1];

    enum mkt_status status = make_room(array, piece, bytes, error);
    if (status != MKT_OK)
        return status;
    place->kind = MKT_VOL_PLACE_EXTEND;
    place->axis = axis;
    place->piece = piece;
    place->data = (uint8_t *)piece->data + piece->record->data.length;
    return MKT_OK;
}

static void extend(struct mkt_vol_place *place)
{
    struct mkt_vol_piece *piece = place->piece;

    mkt_vol_piece_unhash(place->array, piece);
    piece->record->dims[2 * place->axis + 1] += mkt_dim_elements(&place->slab.dim[place->axis]);
    piece->record->data.length +=
        mkt_slab_elements(&place->slab) * place->array->meta.element_bytes;
    piece_hash(place->array, piece);
}

/* ---- the way of a write ---- */

enum mkt_status mkt_vol_array_place(struct mkt_vol_array *array, const struct mkt_slab *slab,
                                    bool packed, struct mkt_vol_place *place_out,
                                    struct mkt_error *error)
{
    uint64_t bytes = mkt_slab_elements(slab) * array->meta.element_bytes;
    bool alone = array->owner->file->size == 1;
    struct mkt_slab tile;
    uint32_t axis;

    place_out->array = array;
    place_out->slab = *slab;
    place_out->geometry = (struct mkt_piece){
        .form = mkt_slab_is_box(slab) ? MKT_PIECE_BOX : MKT_PIECE_SLAB, .slab = *slab};
    place_out->geometry.data.length = bytes;

    bool small = alone && bytes <= SMALL_BYTES && mkt_slab_elements(slab) > 0;
    if (small && !packed && array->small_pieces >= TILES_FROM && tile_of(&array->meta, slab, &tile))
        return place_in_tile(place_out, &tile, error);
    mkt_vol_array_seal(array);

    struct mkt_vol_piece *piece = find_to_overwrite(array, &place_out->geometry);
    if (piece) {
        place_out->kind = MKT_VOL_PLACE_OVERWRITE;
    } else if (alone && place_out->geometry.form == MKT_PIECE_BOX &&
               can_extend(array, slab, bytes, &axis)) {
        return place_behind(place_out, bytes, axis, error);
    } else {
        enum mkt_status status = piece_new(array, &place_out->geometry, &piece, error);
        if (status != MKT_OK)
            return status;
        array->small_pieces += small;
        place_out->kind = MKT_VOL_PLACE_NEW;
    }
    place_out->piece = piece;
    place_out->data = piece->data;
    return MKT_OK;
}

enum mkt_status mkt_vol_array_place_table(struct mkt_vol_array *array,
                                          const struct mkt_piece *piece,
                                          struct mkt_vol_place *place_out, struct mkt_error *error)
{
    struct mkt_vol_piece *created;

    mkt_vol_array_seal(array);
    enum mkt_status status = piece_new(array, piece, &created, error);
    if (status != MKT_OK)
        return status;
    *place_out = (struct mkt_vol_place){.array = array,
                                        .piece = created,
                                        .kind = MKT_VOL_PLACE_NEW,
                                        .slab = piece->slab,
                                        .geometry = *piece,
                                        .data = created->data,
                                        .table = created->table};
    return MKT_OK;
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
    struct mkt_vol_piece *piece;
    struct mkt_piece wanted;

    mkt_vol_piece_parse(array, former, &wanted);
    wanted.stamp = 0;
    enum mkt_status status = piece_new(array, &wanted, &piece, error);
    if (status != MKT_OK)
        return status;
    memcpy(piece->data, former->data, wanted.data.length);
    piece->written = true;
    piece_hash(array, piece);
    return tell_group(array, piece, error);
}

static enum mkt_status confirm_overwrite(struct mkt_vol_array *array,
                                         const struct mkt_vol_piece *piece, struct mkt_error *error)
{
    struct mkt_vol_file *file = array->owner->file;
    bool superseded = false;

    if (file->size == 1)
        return MKT_OK;
    enum mkt_status status = mkt_client_touch(file->client, file->handle, array->meta.identity,
                                              piece->record->stamp, &superseded, error);
    return status == MKT_OK && superseded ? write_again(array, piece, error) : status;
}

enum mkt_status mkt_vol_array_written(struct mkt_vol_place *place, struct mkt_error *error)
{
    struct mkt_vol_array *array = place->array;
    struct mkt_vol_piece *piece = place->piece;
    struct mkt_layout layout;

    array->owner->changed = true;
    array->generation++;
    piece->written = true;
    switch (place->kind) {
    case MKT_VOL_PLACE_OVERWRITE:
        return confirm_overwrite(array, piece, error);
    case MKT_VOL_PLACE_TILE:
        mkt_layout_packed(&layout, &place->slab, 1, 0);
        mkt_plan_piece(&place->slab, &layout, &place->geometry, NULL, 1, mark_in_tile,
                       piece->table);
        return MKT_OK;
    case MKT_VOL_PLACE_EXTEND:
        extend(place);
        return MKT_OK;
    case MKT_VOL_PLACE_NEW:
        break;
    }
    if (piece->record->table.length == 0)
        piece_hash(array, piece);
    return array->owner->file->size == 1 ? MKT_OK : tell_group(array, piece, error);
}

void mkt_vol_array_dropped(struct mkt_vol_place *place)
{
    if (place->kind != MKT_VOL_PLACE_NEW)
        return;
    /* Nothing was placed since: it is the last. */
    place->array->pieces--;
    mkt_vol_piece_destroy(place->array, place->piece);
}

void mkt_vol_piece_settle(struct mkt_vol_array *array, struct mkt_vol_piece *piece)
{
    struct mkt_client *client = array->owner->file->client;
    struct mkt_piece_record_wire *record = piece->record;
    uint64_t used = mkt_round_granule(record->data.length);

    if (piece->is_tile &&
        mkt_vol_mask_is_full(piece->table, record->data.length / array->meta.element_bytes)) {
        mkt_vol_array_forget_index(array); /* it may name the table */
        record->form = MKT_PIECE_BOX;
        mkt_client_unreserve(client, &record->table);
        record->table = (struct mkt_extent){0};
    }
    if (used < piece->data_capacity) {
        struct mkt_extent rest = record->data;

        rest.offset += used;
        rest.length = piece->data_capacity - used;
        mkt_client_unreserve(client, &rest);
        piece->data_capacity = used;
    }
    mkt_vol_piece_unhash(array, piece);
    piece->settled = true;
}
