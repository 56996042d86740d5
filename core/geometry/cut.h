/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One dimension of a plan: cuts want ∩ piece along one axis into segments, each a row of equal runs
 * that lie evenly in memory and in the piece. A generator with constant state: it allocates
 * nothing, and a pattern of a few runs that repeats a billion times costs a few steps. Internal to
 * geometry. Pure.
 */
#ifndef MKT_GEOMETRY_CUT_H
#define MKT_GEOMETRY_CUT_H

#include "core/geometry/plan.h"

/* reps runs of len elements. mem counts elements along the memory's dimension, piece packed indices
 * of the piece's. */
struct mkt_segment {
    uint64_t mem, piece, len;
    uint64_t reps, mem_step, piece_step;
};

/* The longest run from packed index i of the want, and what is left of the block it lies in on each
 * side. */
struct mkt_run {
    uint64_t i, coord, len;
    uint64_t want_block, want_in, want_left;
    uint64_t piece_block, piece_in, piece_left;
    uint64_t mem_block, mem_in, mem_left;
};

#define MKT_CUT_PERIOD_RUNS 8 /* longer patterns aren't folded */

struct mkt_cut {
    struct mkt_dim want, piece;
    struct mkt_layout_dim layout;
    uint64_t elements; /* of the want */
    uint64_t next;     /* packed index in the want from which to look for more runs */
    struct mkt_run ahead[MKT_CUT_PERIOD_RUNS + 1]; /* found, not yet given out */
    uint32_t ahead_count;
    uint32_t folded, period; /* ahead[folded .. period-1] repeat, and the rest of ahead is void */
    uint64_t fold_more, fold_mem_step, fold_piece_step;
};

void mkt_cut_begin(struct mkt_cut *cut, const struct mkt_dim *want, const struct mkt_dim *piece,
                   const struct mkt_layout_dim *layout);

/* The next segment; false at the end. The runs of different segments may interleave. */
bool mkt_cut_next(struct mkt_cut *cut, struct mkt_segment *segment_out);

/* True if the two sets surely have no element in common; false may also mean "too costly to tell".
 */
bool mkt_dim_surely_disjoint(const struct mkt_dim *a, const struct mkt_dim *b);

/* Packed index of a coordinate; false if the dimension does not hold it. */
static inline bool mkt_dim_find(const struct mkt_dim *dim, uint64_t coord, uint64_t *index_out)
{
    if (coord < dim->start)
        return false;
    if (dim->count == 1) {
        *index_out = coord - dim->start;
        return *index_out < dim->block;
    }
    uint64_t block = (coord - dim->start) / dim->stride, in = (coord - dim->start) % dim->stride;
    *index_out = block * dim->block + in;
    return block < dim->count && in < dim->block;
}

static inline uint64_t mkt_layout_dim_at(const struct mkt_layout_dim *layout, uint64_t index)
{
    if (index < layout->block)
        return layout->start + index;
    return layout->start + index / layout->block * layout->stride + index % layout->block;
}

#endif
