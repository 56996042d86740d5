/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a piece of this process: its record, its bytes, its place among the array's pieces.
 */
#include <stdlib.h>

#include "vol/arrays_internal.h"

struct mkt_vol_piece *mkt_vol_piece_create(const struct mkt_piece *piece)
{
    struct mkt_vol_piece *created = mkt_vol_alloc(sizeof *created + mkt_piece_record_bytes(piece));

    if (created) {
        created->record = (struct mkt_piece_record_wire *)(created + 1);
        mkt_piece_encode(piece, created->record);
    }
    return created;
}

void mkt_vol_piece_destroy(struct mkt_vol_array *array, struct mkt_vol_piece *piece)
{
    struct mkt_vol_file *file = array->owner->file;
    bool ours = file->size == 1 ? !piece->settled : piece->record->stamp == 0;

    mkt_vol_piece_unhash(array, piece);
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

void mkt_vol_array_fini(struct mkt_vol_array *array)
{
    for (uint32_t i = array->pieces; i-- > 0;)
        mkt_vol_piece_destroy(array, array->piece[i]);
    free(array->piece);
    mkt_vol_array_forget_index(array);
    mkt_vol_array_forget_masks(array);
}
