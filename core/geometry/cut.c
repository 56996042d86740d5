/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/cut.h"

#include <string.h>

#define PROBE_STEPS 256 /* bound of a disjointness probe */

static struct mkt_dim normalised(const struct mkt_dim *dim)
{
    struct mkt_dim result = *dim;

    if (result.count > 1 && result.stride == result.block) {
        result.block *= result.count;
        result.count = 1;
    }
    if (result.count == 1)
        result.stride = result.block;
    return result;
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

/* Two cyclic sets meet nowhere if their blocks don't meet modulo the greatest common divisor of
 * their strides. */
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
    cut->ahead_count = cut->folded = cut->period = 0;
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
    return block >= dim->count ? dim->count * dim->block
                               : block * dim->block + min_u64(in, dim->block);
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

static uint64_t piece_at(const struct mkt_cut *cut, const struct mkt_run *run)
{
    return run->piece_block * cut->piece.block + run->piece_in;
}

/*
 * Folding. Runs first .. last are followed by `again`. If on each side `again` lies either at the
 * same place of another block as `first` (the set is periodic with that distance; the number of
 * blocks is the bound) or in the same block (which then holds everything in between; its end is the
 * bound), then runs and gaps repeat until the nearest bound.
 */
struct side {
    uint64_t first_block, last_block, last_left, again_block, blocks;
};

static bool is_congruent(uint64_t block_a, uint64_t in_a, uint64_t block_b, uint64_t in_b)
{
    return block_a == block_b || in_a == in_b;
}

/* How often the pattern repeats on this side beyond its first time; the ends are congruent. */
static uint64_t side_repeats(const struct side *side, uint64_t last_len, uint64_t distance)
{
    if (side->first_block == side->again_block)
        return (side->last_left - last_len) / distance;
    return (side->blocks - 1 - side->last_block) / (side->again_block - side->first_block);
}

static uint64_t repeats(const struct mkt_cut *cut, const struct mkt_run *first,
                        const struct mkt_run *last, const struct mkt_run *again)
{
    if (first->len != again->len ||
        !is_congruent(first->want_block, first->want_in, again->want_block, again->want_in) ||
        !is_congruent(first->piece_block, first->piece_in, again->piece_block, again->piece_in) ||
        !is_congruent(first->mem_block, first->mem_in, again->mem_block, again->mem_in))
        return 0;
    const struct side want = {first->want_block, last->want_block, last->want_left,
                              again->want_block, cut->want.count};
    const struct side piece = {first->piece_block, last->piece_block, last->piece_left,
                               again->piece_block, cut->piece.count};
    const struct side mem = {first->mem_block, last->mem_block, last->mem_left, again->mem_block,
                             UINT64_MAX};
    uint64_t coords = again->coord - first->coord;

    return min_u64(side_repeats(&want, last->len, coords),
                   min_u64(side_repeats(&piece, last->len, coords),
                           side_repeats(&mem, last->len, again->i - first->i)));
}

/* Makes sure that ahead[position] is there. */
static bool look_ahead(struct mkt_cut *cut, uint32_t position)
{
    if (position < cut->ahead_count)
        return true;
    struct mkt_run *run = &cut->ahead[cut->ahead_count];
    if (!find_run(cut, cut->next, run)) {
        cut->next = cut->elements;
        return false;
    }
    cut->next = run->i + run->len;
    cut->ahead_count++;
    return true;
}

/* Looks for a pattern of which ahead[0] is the first run. */
static bool fold(struct mkt_cut *cut)
{
    for (uint32_t period = 1; period <= MKT_CUT_PERIOD_RUNS && look_ahead(cut, period); period++) {
        const struct mkt_run *first = &cut->ahead[0], *last = &cut->ahead[period - 1],
                             *again = &cut->ahead[period];
        uint64_t more = repeats(cut, first, last, again);

        if (more == 0)
            continue;
        cut->folded = 0;
        cut->period = period;
        cut->fold_more = more;
        cut->fold_mem_step = mem_at(cut, again) - mem_at(cut, first);
        cut->fold_piece_step = piece_at(cut, again) - piece_at(cut, first);
        cut->next = last->i + more * (again->i - first->i) + last->len;
        return true;
    }
    return false;
}

static void put_segment(const struct mkt_cut *cut, const struct mkt_run *run,
                        struct mkt_segment *segment_out)
{
    *segment_out = (struct mkt_segment){mem_at(cut, run), piece_at(cut, run), run->len, 1, 0, 0};
}

static bool next_folded(struct mkt_cut *cut, struct mkt_segment *segment_out)
{
    if (cut->folded == cut->period)
        return false;
    put_segment(cut, &cut->ahead[cut->folded++], segment_out);
    segment_out->reps += cut->fold_more;
    segment_out->mem_step = cut->fold_mem_step;
    segment_out->piece_step = cut->fold_piece_step;
    if (cut->folded == cut->period)
        cut->ahead_count = 0;
    return true;
}

bool mkt_cut_next(struct mkt_cut *cut, struct mkt_segment *segment_out)
{
    if (next_folded(cut, segment_out))
        return true;
    if (!look_ahead(cut, 0))
        return false;
    if (fold(cut))
        return next_folded(cut, segment_out);
    put_segment(cut, &cut->ahead[0], segment_out);
    cut->ahead_count--;
    memmove(&cut->ahead[0], &cut->ahead[1], cut->ahead_count * sizeof(cut->ahead[0]));
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
