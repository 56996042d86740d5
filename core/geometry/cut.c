/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/cut.h"

#define PROBE_STEPS 256 /* bound of a disjointness probe */

static struct mkt_dim normalised(const struct mkt_dim *dim)
{
    struct mkt_slab slab = {.rank = 1, .dim = {*dim}};

    mkt_slab_normalise(&slab);
    return slab.dim[0];
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Two cyclic sets meet nowhere if their blocks don't meet modulo the greatest common divisor of their strides. */
static bool phases_are_disjoint(const struct mkt_dim *a, const struct mkt_dim *b)
{
    uint64_t period = gcd(a->stride, b->stride);
    uint64_t shift = (b->start % period + period - a->start % period) % period;

    if (a->block >= period || b->block >= period)
        return false;
    return shift >= a->block && shift + b->block <= period;
}

void mkt_cut_begin(struct mkt_cut *cut, const struct mkt_dim *want, const struct mkt_dim *piece,
                   const struct mkt_layout_dim *layout)
{
    cut->want = normalised(want);
    cut->piece = normalised(piece);
    cut->layout = *layout;
    cut->elements = mkt_dim_elements(want);
    cut->next = 0;
    cut->has_ahead = false;
    if (layout->stride == layout->block || layout->block >= cut->elements)
        cut->layout.block = cut->layout.stride = cut->elements;
    if (cut->want.count > 1 && cut->piece.count > 1 && phases_are_disjoint(&cut->want, &cut->piece))
        cut->next = cut->elements;
}

/* The first packed index whose coordinate is not below `coord`. */
static uint64_t seek(const struct mkt_dim *dim, uint64_t coord)
{
    if (coord <= dim->start)
        return 0;
    uint64_t block = (coord - dim->start) / dim->stride, in = (coord - dim->start) % dim->stride;
    return block >= dim->count ? dim->count * dim->block : block * dim->block + min_u64(in, dim->block);
}

static void complete_run(const struct mkt_cut *cut, struct mkt_run *run)
{
    run->want_left = cut->want.block - run->want_in;
    run->piece_left = cut->piece.block - run->piece_in;
    run->mem_block = run->i / cut->layout.block;
    run->mem_in = run->i % cut->layout.block;
    run->mem_left = cut->layout.block - run->mem_in;
    run->len = min_u64(run->want_left, min_u64(run->piece_left, run->mem_left));
}

/* The first run at or after packed index i. */
static bool find_run(const struct mkt_cut *cut, uint64_t i, struct mkt_run *run)
{
    const struct mkt_dim *want = &cut->want, *piece = &cut->piece;

    while (i < cut->elements) {
        run->i = i;
        run->want_block = i / want->block;
        run->want_in = i % want->block;
        run->coord = want->start + run->want_block * want->stride + run->want_in;
        if (run->coord < piece->start) {
            i = seek(want, piece->start);
            continue;
        }
        run->piece_block = (run->coord - piece->start) / piece->stride;
        run->piece_in = (run->coord - piece->start) % piece->stride;
        if (run->piece_block >= piece->count)
            return false;
        if (run->piece_in < piece->block) {
            complete_run(cut, run);
            return true;
        }
        if (run->piece_block + 1 == piece->count)
            return false;
        i = seek(want, piece->start + (run->piece_block + 1) * piece->stride);
    }
    return false;
}

static uint64_t mem_at(const struct mkt_cut *cut, const struct mkt_run *run)
{
    return cut->layout.start + run->mem_block * cut->layout.stride + run->mem_in;
}

/*
 * How many runs follow `a` at the distance of `b`, its successor. On each side the set is, over the range in question,
 * either one block (a and b lie in the same one; its end is the bound) or periodic with that distance (a and b lie at
 * the same place of different blocks; the number of blocks is the bound). Then all runs and all gaps repeat those of a.
 */
static uint64_t side_repeats(uint64_t block_a, uint64_t in_a, uint64_t left_a, uint64_t block_b, uint64_t in_b,
                             uint64_t blocks, uint64_t len, uint64_t distance)
{
    if (block_a == block_b)
        return (left_a - len) / distance;
    if (in_a == in_b)
        return (blocks - 1 - block_a) / (block_b - block_a);
    return 0;
}

static uint64_t repeats(const struct mkt_cut *cut, const struct mkt_run *a, const struct mkt_run *b)
{
    if (a->len != b->len)
        return 0;
    uint64_t want = side_repeats(a->want_block, a->want_in, a->want_left, b->want_block, b->want_in, cut->want.count,
                                 a->len, b->coord - a->coord);
    uint64_t piece = side_repeats(a->piece_block, a->piece_in, a->piece_left, b->piece_block, b->piece_in,
                                  cut->piece.count, a->len, b->coord - a->coord);
    uint64_t mem = side_repeats(a->mem_block, a->mem_in, a->mem_left, b->mem_block, b->mem_in, UINT64_MAX, a->len,
                                b->i - a->i);
    return min_u64(want, min_u64(piece, mem));
}

bool mkt_cut_next(struct mkt_cut *cut, struct mkt_segment *segment_out)
{
    struct mkt_run a, b;

    if (cut->has_ahead)
        a = cut->ahead;
    else if (!find_run(cut, cut->next, &a))
        return false;
    cut->has_ahead = false;
    segment_out->mem = mem_at(cut, &a);
    segment_out->piece = a.piece_block * cut->piece.block + a.piece_in;
    segment_out->len = a.len;
    segment_out->reps = 1;
    segment_out->mem_step = segment_out->piece_step = 0;
    cut->next = a.i + a.len;
    if (!find_run(cut, cut->next, &b)) {
        cut->next = cut->elements;
        return true;
    }
    uint64_t more = repeats(cut, &a, &b);
    if (more == 0) {
        cut->ahead = b;
        cut->has_ahead = true;
        return true;
    }
    segment_out->reps += more;
    segment_out->mem_step = mem_at(cut, &b) - segment_out->mem;
    segment_out->piece_step = b.piece_block * cut->piece.block + b.piece_in - segment_out->piece;
    cut->next = a.i + more * (b.i - a.i) + a.len;
    return true;
}

/* Whether a run exists within a bounded number of steps of b from the first coordinate of a. */
static bool meets_within(const struct mkt_dim *a, const struct mkt_dim *b, bool *met_out)
{
    uint64_t i = 0, elements = mkt_dim_elements(a);

    *met_out = false;
    for (int step = 0; step < PROBE_STEPS; step++) {
        if (i >= elements)
            return true;
        uint64_t coord = a->start + i / a->block * a->stride + i % a->block;
        if (coord < b->start) {
            i = seek(a, b->start);
            continue;
        }
        uint64_t block = (coord - b->start) / b->stride, in = (coord - b->start) % b->stride;
        if (block >= b->count || (in >= b->block && block + 1 == b->count))
            return true;
        if (in < b->block) {
            *met_out = true;
            return true;
        }
        i = seek(a, b->start + (block + 1) * b->stride);
    }
    return false;
}

bool mkt_dim_surely_disjoint(const struct mkt_dim *a, const struct mkt_dim *b)
{
    struct mkt_dim x = normalised(a), y = normalised(b);
    bool met;

    if (x.start >= mkt_dim_end(&y) || y.start >= mkt_dim_end(&x))
        return true;
    if (x.count == 1 && y.count == 1)
        return false;
    if (x.count > 1 && y.count > 1 && phases_are_disjoint(&x, &y))
        return true;
    return meets_within(&x, &y, &met) && !met;
}
