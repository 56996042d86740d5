/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/plan_internal.h"

#include <stddef.h>
#include <string.h>

#define POOL_SEGMENTS \
    96 /* kept on the stack; dimensions that need more are cut anew for each outer segment */

struct planner {
    const struct mkt_plan_input *in;
    uint32_t element_bytes, rank;
    uint64_t piece_pitch[MKT_MAX_RANK];
    /* Segments of dimension d, or NULL if they didn't fit the pool. */
    const struct mkt_segment *kept[MKT_MAX_RANK];
    uint32_t kept_count[MKT_MAX_RANK];
    struct mkt_segment pool[POOL_SEGMENTS];
    uint32_t pool_used;
    struct mkt_segment chosen[MKT_MAX_RANK];
    uint64_t elements;
    mkt_move_fn fn;
    void *context;
};

void mkt_layout_packed(struct mkt_layout *layout_out, const struct mkt_slab *want,
                       uint32_t element_bytes, uint64_t base_bytes)
{
    uint64_t pitch = element_bytes;

    layout_out->base_bytes = base_bytes;
    for (uint32_t d = want->rank; d-- > 0;) {
        uint64_t elements = mkt_dim_elements(&want->dim[d]);

        layout_out->dim[d] = (struct mkt_layout_dim){0, elements, elements, pitch};
        pitch *= elements;
    }
}

/* Loops are gathered from the inside out, each melted into its inner neighbour where both sides
 * allow. */
struct loop_stack {
    uint64_t bytes;
    uint32_t count;
    struct mkt_loop loop[MKT_MAX_LOOPS];
};

static void push_loop(struct loop_stack *stack, uint64_t count, uint64_t mem_step,
                      uint64_t piece_step)
{
    struct mkt_loop *inner = stack->count > 0 ? &stack->loop[stack->count - 1] : NULL;

    if (count == 1)
        return;
    if (!inner && mem_step == stack->bytes && piece_step == stack->bytes)
        stack->bytes *= count;
    else if (inner && mem_step == inner->mem_step * inner->count &&
             piece_step == inner->piece_step * inner->count)
        inner->count *= count;
    else
        stack->loop[stack->count++] = (struct mkt_loop){count, mem_step, piece_step};
}

static void emit(struct planner *planner)
{
    const struct mkt_layout *layout = planner->in->layout;
    struct loop_stack stack = {.bytes = planner->element_bytes, .count = 0};
    struct mkt_move move;
    uint64_t elements = 1;

    move.mem = layout->base_bytes;
    move.piece = 0;
    for (uint32_t d = planner->rank; d-- > 0;) {
        const struct mkt_segment *segment = &planner->chosen[d];
        uint64_t mem_pitch = layout->dim[d].pitch_bytes, piece_pitch = planner->piece_pitch[d];

        move.mem += segment->mem * mem_pitch;
        move.piece += segment->piece * piece_pitch;
        elements *= segment->len * segment->reps;
        push_loop(&stack, segment->len, mem_pitch, piece_pitch);
        push_loop(&stack, segment->reps, segment->mem_step * mem_pitch,
                  segment->piece_step * piece_pitch);
    }
    move.bytes = stack.bytes;
    move.loops = stack.count;
    for (uint32_t i = 0; i < stack.count; i++)
        move.loop[i] = stack.loop[stack.count - 1 - i];
    planner->elements += elements;
    planner->fn(planner->context, &move);
}

static void begin_cut(const struct planner *planner, uint32_t d, struct mkt_cut *cut)
{
    mkt_cut_begin(cut, &planner->in->want->dim[d], &planner->in->piece->dim[d],
                  &planner->in->layout->dim[d]);
}

/* Keeps the segments of a dimension in the pool if they fit. False if there are none. */
static bool keep_segments(struct planner *planner, uint32_t d)
{
    struct mkt_segment *first = planner->pool + planner->pool_used, segment;
    struct mkt_cut cut;
    uint32_t count = 0;

    begin_cut(planner, d, &cut);
    planner->kept[d] = NULL;
    while (mkt_cut_next(&cut, &segment)) {
        if (planner->pool_used + count == POOL_SEGMENTS)
            return true;
        first[count++] = segment;
    }
    planner->kept[d] = first;
    planner->kept_count[d] = count;
    planner->pool_used += count;
    return count > 0;
}

/* All products of the segments of dimensions d and further in; depth is the rank, at most
 * MKT_MAX_RANK. */
static void combine(struct planner *planner, uint32_t d)
{
    if (d == planner->rank) {
        emit(planner);
        return;
    }
    if (planner->kept[d]) {
        for (uint32_t i = 0; i < planner->kept_count[d]; i++) {
            planner->chosen[d] = planner->kept[d][i];
            combine(planner, d + 1);
        }
        return;
    }
    struct mkt_cut cut;
    begin_cut(planner, d, &cut);
    while (mkt_cut_next(&cut, &planner->chosen[d]))
        combine(planner, d + 1);
}

uint64_t mkt_plan_slab(const struct mkt_plan_input *in, uint32_t element_bytes, mkt_move_fn fn,
                       void *context)
{
    struct planner planner;
    uint64_t pitch = element_bytes;

    planner.in = in;
    planner.element_bytes = element_bytes;
    planner.rank = in->want->rank;
    planner.pool_used = 0;
    planner.elements = 0;
    planner.fn = fn;
    planner.context = context;
    /* From the inside out: the innermost dimensions are walked most often. */
    for (uint32_t d = planner.rank; d-- > 0;) {
        planner.piece_pitch[d] = pitch;
        pitch *= mkt_dim_elements(&in->piece->dim[d]);
        if (!keep_segments(&planner, d))
            return 0;
    }
    combine(&planner, 0);
    return planner.elements;
}

uint64_t mkt_plan_piece(const struct mkt_slab *want, const struct mkt_layout *layout,
                        const struct mkt_piece *piece, const void *table, uint32_t element_bytes,
                        mkt_move_fn fn, void *context)
{
    const struct mkt_plan_input in = {want, &piece->slab, layout};

    if (!mkt_slab_bounds_meet(want, &piece->slab))
        return 0;
    switch (piece->form) {
    case MKT_PIECE_BOX:
    case MKT_PIECE_SLAB:
        return mkt_plan_slab(&in, element_bytes, fn, context);
    case MKT_PIECE_MASKED:
        return mkt_plan_masked(&in, table, element_bytes, fn, context);
    case MKT_PIECE_LIST:
        return mkt_plan_list(&in, table, piece->table.length / 16,
                             piece->data.length / element_bytes, element_bytes, fn, context);
    }
    return 0;
}
