/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/rtree.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LEVELS 16 /* 16^16 pieces are beyond any count */

uint64_t mkt_rtree_nodes(uint64_t pieces)
{
    uint64_t nodes = 0, level = pieces;

    do {
        level = mkt_index_level_nodes(level);
        nodes += level;
    } while (level > 1);
    return nodes;
}

/* Sort-tile-recursive: sorted along one dimension and cut into slices of whole leaves, each slice
 * then along the next. */

struct sort_key {
    uint64_t centre;
    uint32_t piece;
};

struct tiler {
    const struct mkt_rtree_input *input;
    struct sort_key *keys;
    uint32_t *order;
    uint32_t dims; /* those along which the pieces differ */
    uint32_t dim[MKT_MAX_RANK];
};

static const struct mkt_interval *box_of(const struct mkt_rtree_input *input, uint32_t piece)
{
    return input->boxes + (size_t)piece * input->rank;
}

static int compare_keys(const void *a, const void *b)
{
    const struct sort_key *x = a, *y = b;

    if (x->centre != y->centre)
        return x->centre < y->centre ? -1 : 1;
    return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static void sort_along(struct tiler *tiler, uint32_t first, uint32_t count, uint32_t dim)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t piece = tiler->order[first + i];
        const struct mkt_interval *side = &box_of(tiler->input, piece)[dim];

        tiler->keys[i] = (struct sort_key){side->low + (side->end - side->low) / 2, piece};
    }
    qsort(tiler->keys, count, sizeof(*tiler->keys), compare_keys);
    for (uint32_t i = 0; i < count; i++)
        tiler->order[first + i] = tiler->keys[i].piece;
}

/* The least s with s^power >= value. */
static uint32_t root_up(uint32_t value, uint32_t power)
{
    for (uint32_t s = 1;; s++) {
        uint64_t product = 1;

        for (uint32_t i = 0; i < power && product < value; i++)
            product *= s;
        if (product >= value)
            return s;
    }
}

/* `depth` is at most the rank. */
static void tile(struct tiler *tiler, uint32_t first, uint32_t count, uint32_t depth)
{
    if (depth == tiler->dims || count <= 1)
        return;
    sort_along(tiler, first, count, tiler->dim[depth]);
    uint32_t leaves = (uint32_t)mkt_index_level_nodes(count);
    uint32_t slices = root_up(leaves, tiler->dims - depth);
    uint32_t slice = (leaves + slices - 1) / slices * MKT_INDEX_FANOUT;
    for (uint32_t at = 0; at < count; at += slice)
        tile(tiler, first + at, count - at < slice ? count - at : slice, depth + 1);
}

static void find_varying_dims(struct tiler *tiler)
{
    const struct mkt_rtree_input *input = tiler->input;

    tiler->dims = 0;
    for (uint32_t d = 0; d < input->rank; d++)
        for (uint32_t i = 1; i < input->pieces; i++)
            if (box_of(input, i)[d].low != box_of(input, 0)[d].low ||
                box_of(input, i)[d].end != box_of(input, 0)[d].end) {
                tiler->dim[tiler->dims++] = d;
                break;
            }
}

static void widen(struct mkt_interval *box, const struct mkt_interval *by, uint32_t rank)
{
    for (uint32_t d = 0; d < rank; d++) {
        if (by[d].low < box[d].low)
            box[d].low = by[d].low;
        if (by[d].end > box[d].end)
            box[d].end = by[d].end;
    }
}

static void fill_nodes(const struct mkt_rtree_input *input, const uint32_t *order,
                       struct mkt_interval *nodes)
{
    const uint32_t rank = input->rank;
    const size_t box_bytes = rank * sizeof(*nodes);
    const struct mkt_interval *below = NULL;
    uint64_t count = input->pieces;

    do {
        for (uint64_t i = 0; i < count; i++) {
            const struct mkt_interval *child = below ? below + i * rank : box_of(input, order[i]);
            struct mkt_interval *node = nodes + i / MKT_INDEX_FANOUT * rank;

            if (i % MKT_INDEX_FANOUT == 0)
                memcpy(node, child, box_bytes);
            else
                widen(node, child, rank);
        }
        below = nodes;
        count = mkt_index_level_nodes(count);
        nodes += count * rank;
    } while (count > 1);
}

enum mkt_status mkt_rtree_build(const struct mkt_rtree_input *input, uint32_t *order_out,
                                struct mkt_interval *nodes_out)
{
    struct tiler tiler = {.input = input, .order = order_out};

    tiler.keys = malloc(input->pieces * sizeof(*tiler.keys));
    if (!tiler.keys)
        return MKT_NO_MEMORY;
    for (uint32_t i = 0; i < input->pieces; i++)
        order_out[i] = i;
    find_varying_dims(&tiler);
    tile(&tiler, 0, input->pieces, 0);
    free(tiler.keys);
    fill_nodes(input, order_out, nodes_out);
    return MKT_OK;
}

/* Overlap: the tree joined with itself. */

struct join {
    const struct mkt_rtree_input *input;
    const uint32_t *order;
    const struct mkt_interval *level[MAX_LEVELS];
    uint64_t level_nodes[MAX_LEVELS];
    uint64_t steps_left; /* pairs that may still be looked at */
};

static bool boxes_meet(const struct mkt_interval *a, const struct mkt_interval *b, uint32_t rank)
{
    for (uint32_t d = 0; d < rank; d++)
        if (a[d].low >= b[d].end || b[d].low >= a[d].end)
            return false;
    return true;
}

static bool pair_is_disjoint(struct join *join, uint32_t a, uint32_t b)
{
    const struct mkt_rtree_input *input = join->input;

    if (join->steps_left == 0)
        return false;
    join->steps_left--;
    return !boxes_meet(box_of(input, a), box_of(input, b), input->rank) ||
           input->disjoint(input->context, a, b);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whether no piece below node a overlaps another one below node b of the same level. */
static bool nodes_are_disjoint(struct join *join, uint32_t level, uint64_t a, uint64_t b)
{
    const uint32_t rank = join->input->rank;
    uint64_t below = level == 0 ? join->input->pieces : join->level_nodes[level - 1];
    uint64_t a_end = min_u64(below, (a + 1) * MKT_INDEX_FANOUT),
             b_end = min_u64(below, (b + 1) * MKT_INDEX_FANOUT);

    if (a != b && !boxes_meet(join->level[level] + a * rank, join->level[level] + b * rank, rank))
        return true;
    for (uint64_t x = a * MKT_INDEX_FANOUT; x < a_end; x++) {
        uint64_t first = a != b ? b * MKT_INDEX_FANOUT : level == 0 ? x + 1 : x;

        for (uint64_t y = first; y < b_end; y++)
            if (level == 0 ? !pair_is_disjoint(join, join->order[x], join->order[y])
                           : !nodes_are_disjoint(join, level - 1, x, y))
                return false;
    }
    return true;
}

bool mkt_rtree_pieces_are_disjoint(const struct mkt_rtree_input *input, const uint32_t *order,
                                   const struct mkt_interval *nodes)
{
    struct join join = {.input = input, .order = order};
    uint32_t levels = 0;

    join.steps_left = (uint64_t)input->pieces * 64 + 65536;
    if (!nodes) {
        for (uint32_t a = 0; a < input->pieces; a++)
            for (uint32_t b = a + 1; b < input->pieces; b++)
                if (!pair_is_disjoint(&join, a, b))
                    return false;
        return true;
    }
    for (uint64_t count = input->pieces; levels == 0 || count > 1; levels++) {
        count = mkt_index_level_nodes(count);
        join.level[levels] = nodes;
        join.level_nodes[levels] = count;
        nodes += count * input->rank;
    }
    return nodes_are_disjoint(&join, levels - 1, 0, 0);
}
