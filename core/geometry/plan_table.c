/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/plan_internal.h"

#include <stddef.h>
#include <string.h>

/* Joins runs that follow one another evenly into one move, so that scattered elements don't cost a
 * call each. */
struct joiner {
    mkt_move_fn fn;
    void *context;
    struct mkt_move move; /* bytes == 0: none yet */
};

static void joiner_flush(struct joiner *joiner)
{
    if (joiner->move.bytes > 0)
        joiner->fn(joiner->context, &joiner->move);
    joiner->move.bytes = 0;
}

static bool joiner_extend(struct mkt_move *move, uint64_t mem, uint64_t piece, uint64_t bytes)
{
    struct mkt_loop *loop = &move->loop[0];

    if (move->loops == 0 && mem == move->mem + move->bytes && piece == move->piece + move->bytes) {
        move->bytes += bytes;
        return true;
    }
    if (bytes != move->bytes)
        return false;
    if (move->loops == 0) {
        if (mem <= move->mem || piece <= move->piece)
            return false;
        move->loops = 1;
        *loop = (struct mkt_loop){2, mem - move->mem, piece - move->piece};
        return true;
    }
    if (mem != move->mem + loop->count * loop->mem_step ||
        piece != move->piece + loop->count * loop->piece_step)
        return false;
    loop->count++;
    return true;
}

static void joiner_add(struct joiner *joiner, uint64_t mem, uint64_t piece, uint64_t bytes)
{
    struct mkt_move *move = &joiner->move;

    if (move->bytes > 0 && joiner_extend(move, mem, piece, bytes))
        return;
    joiner_flush(joiner);
    move->mem = mem;
    move->piece = piece;
    move->bytes = bytes;
    move->loops = 0;
}

/* Bitmaps. */

static uint64_t load_word(const uint8_t *bitmap, uint64_t bits, uint64_t word)
{
    uint64_t value = 0, bytes = bits / 8 + (bits % 8 != 0), left = bytes - word * 8;

    memcpy(&value, bitmap + word * 8, left < 8 ? left : 8);
    return value;
}

/* The first index in [from, to) whose bit equals `set`, or `to`. */
static uint64_t find_bit(const uint8_t *bitmap, uint64_t bits, uint64_t from, uint64_t to, bool set)
{
    while (from < to) {
        uint64_t word = load_word(bitmap, bits, from / 64);

        word = (set ? word : ~word) >> (from % 64);
        if (word != 0) {
            from += (uint64_t)__builtin_ctzll(word);
            return from < to ? from : to;
        }
        from = (from / 64 + 1) * 64;
    }
    return to;
}

struct masker {
    const uint8_t *bitmap;
    uint64_t bits, element_bytes, elements;
    struct joiner joiner;
};

static void mask_run(struct masker *masker, uint64_t mem, uint64_t piece, uint64_t bytes)
{
    uint64_t first = piece / masker->element_bytes, end = first + bytes / masker->element_bytes;

    for (uint64_t at = first; at < end;) {
        uint64_t from = find_bit(masker->bitmap, masker->bits, at, end, true);
        if (from == end)
            return;
        at = find_bit(masker->bitmap, masker->bits, from, end, false);
        masker->elements += at - from;
        joiner_add(&masker->joiner, mem + (from - first) * masker->element_bytes,
                   from * masker->element_bytes, (at - from) * masker->element_bytes);
    }
}

static void mask_loops(struct masker *masker, const struct mkt_move *move, uint32_t depth,
                       uint64_t mem, uint64_t piece)
{
    if (depth == move->loops) {
        mask_run(masker, mem, piece, move->bytes);
        return;
    }
    const struct mkt_loop *loop = &move->loop[depth];
    for (uint64_t i = 0; i < loop->count; i++)
        mask_loops(masker, move, depth + 1, mem + i * loop->mem_step, piece + i * loop->piece_step);
}

static void mask_move(void *context, const struct mkt_move *move)
{
    mask_loops(context, move, 0, move->mem, move->piece);
}

uint64_t mkt_plan_masked(const struct mkt_plan_input *in, const uint8_t *bitmap,
                         uint32_t element_bytes, mkt_move_fn fn, void *context)
{
    struct masker masker = {
        .bitmap = bitmap,
        .bits = mkt_slab_elements(in->piece),
        .element_bytes = element_bytes,
        .elements = 0,
    };

    masker.joiner.fn = fn;
    masker.joiner.context = context;
    masker.joiner.move.bytes = 0;
    mkt_plan_slab(in, element_bytes, mask_move, &masker);
    joiner_flush(&masker.joiner);
    return masker.elements;
}

/* Lists. */

struct list_entry {
    uint64_t offset, length;
};

static struct list_entry load_entry(const uint8_t *table, uint64_t position)
{
    struct list_entry entry;

    memcpy(&entry, table + position * sizeof(entry), sizeof(entry));
    return entry;
}

/* The first entry that ends beyond `offset`. */
static uint64_t first_entry_beyond(const uint8_t *table, uint64_t entries, uint64_t offset)
{
    uint64_t low = 0, high = entries;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        struct list_entry entry = load_entry(table, middle);

        if (entry.offset + entry.length > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Elements in the entries before `position`: the table has no sums, but one of equal lengths needs
 * none. */
static uint64_t elements_before(const uint8_t *table, uint64_t entries, uint64_t held,
                                uint64_t position)
{
    uint64_t sum = 0;

    if (held == entries)
        return position;
    if (position <= entries / 2) {
        for (uint64_t i = 0; i < position; i++)
            sum += load_entry(table, i).length;
        return sum;
    }
    for (uint64_t i = position; i < entries; i++)
        sum += load_entry(table, i).length;
    return held - sum;
}

/* A row is what differs only in the last dimension. */
struct lister {
    const struct mkt_plan_input *in;
    uint32_t rank;
    uint64_t element_bytes, elements;
    uint64_t row_length; /* of the piece's box */
    uint64_t row;        /* the row that the next two speak of */
    bool row_wanted;
    uint64_t row_mem;
    struct joiner joiner;
};

static void enter_row(struct lister *lister, uint64_t row)
{
    const struct mkt_plan_input *in = lister->in;
    uint64_t rest = row;

    lister->row = row;
    lister->row_wanted = false;
    lister->row_mem = in->layout->base_bytes;
    for (uint32_t d = lister->rank - 1; d-- > 0;) {
        uint64_t extent = mkt_dim_elements(&in->piece->dim[d]), index;

        if (!mkt_dim_find(&in->want->dim[d], in->piece->dim[d].start + rest % extent, &index))
            return;
        lister->row_mem +=
            mkt_layout_dim_at(&in->layout->dim[d], index) * in->layout->dim[d].pitch_bytes;
        rest /= extent;
    }
    lister->row_wanted = true;
}

static void list_one(struct lister *lister, uint64_t coord, uint64_t position)
{
    const struct mkt_layout_dim *layout = &lister->in->layout->dim[lister->rank - 1];
    uint64_t index;

    if (!mkt_dim_find(&lister->in->want->dim[lister->rank - 1], coord, &index))
        return;
    lister->elements++;
    joiner_add(&lister->joiner,
               lister->row_mem + mkt_layout_dim_at(layout, index) * layout->pitch_bytes,
               position * lister->element_bytes, lister->element_bytes);
}

/* `length` elements of the wanted row from `coord` on; the data holds them from `position` on. */
static void list_run(struct lister *lister, uint64_t coord, uint64_t length, uint64_t position)
{
    const struct mkt_layout_dim *layout = &lister->in->layout->dim[lister->rank - 1];
    const struct mkt_dim run = {coord, length, 1, length};
    const uint64_t size = lister->element_bytes;
    struct mkt_cut cut;
    struct mkt_segment segment;

    mkt_cut_begin(&cut, &lister->in->want->dim[lister->rank - 1], &run, layout);
    while (mkt_cut_next(&cut, &segment)) {
        lister->elements += segment.reps * segment.len;
        for (uint64_t i = 0; i < segment.reps; i++) {
            uint64_t mem =
                lister->row_mem + (segment.mem + i * segment.mem_step) * layout->pitch_bytes;
            uint64_t piece = (position + segment.piece + i * segment.piece_step) * size;

            if (layout->pitch_bytes == size) {
                joiner_add(&lister->joiner, mem, piece, segment.len * size);
                continue;
            }
            for (uint64_t k = 0; k < segment.len; k++)
                joiner_add(&lister->joiner, mem + k * layout->pitch_bytes, piece + k * size, size);
        }
    }
}

/* One table entry, row by row. */
static void list_entry_rows(struct lister *lister, struct list_entry entry, uint64_t position)
{
    uint64_t first = lister->in->piece->dim[lister->rank - 1].start;

    while (entry.length > 0) {
        uint64_t row = entry.offset / lister->row_length,
                 column = entry.offset % lister->row_length;
        uint64_t length = lister->row_length - column;

        if (length > entry.length)
            length = entry.length;
        if (row != lister->row)
            enter_row(lister, row);
        if (lister->row_wanted && length == 1)
            list_one(lister, first + column, position);
        else if (lister->row_wanted)
            list_run(lister, first + column, length, position);
        entry.offset += length;
        entry.length -= length;
        position += length;
    }
}

/* The packed indices, in the piece's box, of the first and one past the last element that the
 * bounds allow. */
static void list_bounds(const struct mkt_plan_input *in, uint32_t rank, uint64_t *first_out,
                        uint64_t *end_out)
{
    uint64_t first = 0, last = 0;

    for (uint32_t d = 0; d < rank; d++) {
        const struct mkt_dim *want = &in->want->dim[d], *box = &in->piece->dim[d];
        uint64_t low = want->start > box->start ? want->start : box->start;
        uint64_t want_end = mkt_dim_end(want), box_end = mkt_dim_end(box);
        uint64_t high = (want_end < box_end ? want_end : box_end) - 1;

        first = first * mkt_dim_elements(box) + (low - box->start);
        last = last * mkt_dim_elements(box) + (high - box->start);
    }
    *first_out = first;
    *end_out = last + 1;
}

uint64_t mkt_plan_list(const struct mkt_plan_input *in, const uint8_t *table, uint64_t entries,
                       uint64_t held, uint32_t element_bytes, mkt_move_fn fn, void *context)
{
    struct lister lister = {
        .in = in, .rank = in->want->rank, .element_bytes = element_bytes, .row = UINT64_MAX};
    uint64_t first, end;

    if (lister.rank == 0) { /* the one element */
        mkt_plan_slab(in, element_bytes, fn, context);
        return 1;
    }
    lister.row_length = mkt_dim_elements(&in->piece->dim[lister.rank - 1]);
    lister.joiner.fn = fn;
    lister.joiner.context = context;
    list_bounds(in, lister.rank, &first, &end);
    uint64_t at = first_entry_beyond(table, entries, first);
    uint64_t position = elements_before(table, entries, held, at);
    for (; at < entries; at++) {
        struct list_entry entry = load_entry(table, at);
        if (entry.offset >= end)
            break;
        list_entry_rows(&lister, entry, position);
        position += entry.length;
    }
    joiner_flush(&lister.joiner);
    return lister.elements;
}

static bool list_is_valid(const struct mkt_piece *piece, const uint8_t *table,
                          uint32_t element_bytes)
{
    uint64_t free_from = 0, sum = 0, elements = mkt_slab_elements(&piece->slab);

    for (uint64_t i = 0; i < piece->table.length / sizeof(struct list_entry); i++) {
        struct list_entry entry = load_entry(table, i);
        uint64_t end;

        if (entry.length == 0 || entry.offset < free_from ||
            __builtin_add_overflow(entry.offset, entry.length, &end) || end > elements)
            return false;
        free_from = end;
        sum += entry.length;
    }
    return sum == piece->data.length / element_bytes;
}

bool mkt_piece_table_is_valid(const struct mkt_piece *piece, const void *table,
                              uint32_t element_bytes)
{
    uint64_t elements = mkt_slab_elements(&piece->slab);

    switch (piece->form) {
    case MKT_PIECE_BOX:
    case MKT_PIECE_SLAB:
        return true;
    case MKT_PIECE_MASKED:
        return table && piece->table.length >= elements / 8 + (elements % 8 != 0);
    case MKT_PIECE_LIST:
        return table && list_is_valid(piece, table, element_bytes);
    }
    return false;
}
