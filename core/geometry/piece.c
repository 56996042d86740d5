/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/piece_layout.h"

#include <stddef.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian");
_Static_assert(offsetof(struct mkt_piece_record_wire, data) == 16, "piece record data");
_Static_assert(offsetof(struct mkt_piece_record_wire, table) == 40, "piece record table");
_Static_assert(offsetof(struct mkt_piece_record_wire, dims) == 64, "piece record dimensions");

static uint32_t words_per_dim(enum mkt_piece_form form)
{
    return form == MKT_PIECE_SLAB ? 4 : 2;
}

uint32_t mkt_piece_record_bytes(const struct mkt_piece *piece)
{
    return (uint32_t)sizeof(struct mkt_piece_record_wire) +
           piece->slab.rank * words_per_dim(piece->form) * (uint32_t)sizeof(uint64_t);
}

void mkt_piece_encode(const struct mkt_piece *piece, void *record_out)
{
    struct mkt_piece_record_wire head = {
        .form = (uint16_t)piece->form,
        .rank = (uint16_t)piece->slab.rank,
        .record_bytes = mkt_piece_record_bytes(piece),
        .stamp = piece->stamp,
        .data = piece->data,
        .table = piece->table,
    };
    uint8_t *out = record_out;

    memcpy(out, &head, sizeof(head));
    out += sizeof(head);
    for (uint32_t d = 0; d < piece->slab.rank; d++) {
        const struct mkt_dim *dim = &piece->slab.dim[d];
        const uint64_t box[2] = {dim->start, mkt_dim_elements(dim)};
        const uint64_t slab[4] = {dim->start, dim->stride, dim->count, dim->block};

        if (piece->form == MKT_PIECE_SLAB) {
            memcpy(out, slab, sizeof(slab));
            out += sizeof(slab);
        } else {
            memcpy(out, box, sizeof(box));
            out += sizeof(box);
        }
    }
}

static void decode_dims(const uint8_t *in, struct mkt_piece *piece)
{
    for (uint32_t d = 0; d < piece->slab.rank; d++) {
        uint64_t word[4];

        if (piece->form == MKT_PIECE_SLAB) {
            memcpy(word, in, sizeof(word));
            piece->slab.dim[d] = (struct mkt_dim){word[0], word[1], word[2], word[3]};
            in += sizeof(word);
        } else {
            memcpy(word, in, 2 * sizeof(uint64_t));
            piece->slab.dim[d] = (struct mkt_dim){word[0], word[1], 1, word[1]};
            in += 2 * sizeof(uint64_t);
        }
    }
}

static bool extent_is_zero(const struct mkt_extent *extent)
{
    return extent->arena == 0 && extent->generation == 0 && extent->offset == 0 &&
           extent->length == 0;
}

static bool extent_fits(const struct mkt_extent *extent)
{
    uint64_t end;

    return !__builtin_add_overflow(extent->offset, extent->length, &end);
}

static bool sizes_are_consistent(const struct mkt_piece *piece, uint32_t element_bytes)
{
    uint64_t elements = mkt_slab_elements(&piece->slab), bytes;

    if (element_bytes == 0 || __builtin_mul_overflow(elements, (uint64_t)element_bytes, &bytes))
        return false;
    if (!extent_fits(&piece->data) || !extent_fits(&piece->table))
        return false;
    switch (piece->form) {
    case MKT_PIECE_BOX:
    case MKT_PIECE_SLAB:
        return piece->data.length == bytes && extent_is_zero(&piece->table);
    case MKT_PIECE_MASKED:
        return piece->data.length == bytes &&
               piece->table.length >= elements / 8 + (elements % 8 != 0);
    case MKT_PIECE_LIST:
        return piece->data.length > 0 && piece->data.length <= bytes &&
               piece->data.length % element_bytes == 0 && piece->table.length > 0 &&
               piece->table.length % 16 == 0 &&
               piece->table.length / 16 <= piece->data.length / element_bytes;
    }
    return false;
}

enum mkt_status mkt_piece_decode(const void *record, uint64_t available, uint32_t element_bytes,
                                 struct mkt_piece *piece_out, uint32_t *used_out)
{
    struct mkt_piece_record_wire head;
    struct mkt_piece piece;

    if (available < sizeof(head))
        return MKT_PROTOCOL;
    memcpy(&head, record, sizeof(head));
    if (head.form < MKT_PIECE_BOX || head.form > MKT_PIECE_LIST || head.rank > MKT_MAX_RANK)
        return MKT_PROTOCOL;
    piece.form = (enum mkt_piece_form)head.form;
    piece.stamp = head.stamp;
    piece.data = head.data;
    piece.table = head.table;
    piece.slab.rank = head.rank;
    if (head.record_bytes != mkt_piece_record_bytes(&piece) || head.record_bytes > available)
        return MKT_PROTOCOL;
    decode_dims((const uint8_t *)record + sizeof(head), &piece);
    if (!mkt_slab_is_valid(&piece.slab, NULL) || !sizes_are_consistent(&piece, element_bytes))
        return MKT_PROTOCOL;
    /* Member by member: the unused tail of the dimensions is large and undefined. */
    piece_out->form = piece.form;
    piece_out->stamp = piece.stamp;
    piece_out->data = piece.data;
    piece_out->table = piece.table;
    piece_out->slab.rank = piece.slab.rank;
    memcpy(piece_out->slab.dim, piece.slab.dim, piece.slab.rank * sizeof(struct mkt_dim));
    *used_out = head.record_bytes;
    return MKT_OK;
}
