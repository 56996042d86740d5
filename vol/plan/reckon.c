/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a read does, step by step as vol/overlay.c and the market's tier do it, but for moving
 * bytes: the same pieces in the same order, the same moves, the same parts, the same choice.
 */
#include "vol/plan/plan.h"

#include <stdlib.h>
#include <string.h>

struct tally {
    struct mkt_plan *plan;
    struct mkt_client *client;
    uint32_t skip;
};

/* What the moves of one piece come to. */
struct moves {
    uint64_t runs, least, most;
    struct mkt_spans *spans; /* NULL: it is in memory */
};

static void add_move(void *context, const struct mkt_move *move)
{
    struct moves *moves = context;
    uint64_t runs = 1;
    for (uint32_t l = 0; l < move->loops; l++)
        runs *= move->loop[l].count;
    if (moves->runs == 0 || move->bytes < moves->least)
        moves->least = move->bytes;
    if (move->bytes > moves->most)
        moves->most = move->bytes;
    moves->runs += runs;
    if (moves->spans)
        mkt_spans_add(moves->spans, move);
}

static struct mkt_plan_piece *append(struct mkt_plan *plan, const struct mkt_piece *piece)
{
    if (plan->count == plan->capacity) {
        uint64_t capacity = plan->capacity ? 2 * plan->capacity : 64;
        struct mkt_plan_piece *larger = realloc(plan->piece, capacity * sizeof(*larger));
        if (!larger)
            return NULL;
        plan->piece = larger;
        plan->capacity = capacity;
    }
    uint32_t rank = piece->slab.rank;
    struct mkt_dim *dim = malloc((rank > 0 ? rank : 1) * sizeof(*dim));
    if (!dim)
        return NULL;
    memcpy(dim, piece->slab.dim, rank * sizeof(*dim));
    struct mkt_plan_piece *row = &plan->piece[plan->count++];
    *row = (struct mkt_plan_piece){.form = piece->form,
                                   .stamp = piece->stamp,
                                   .bytes = piece->data.length,
                                   .dim = dim,
                                   .below = mkt_extent_is_cold(&piece->data)};
    return row;
}

static void weigh(const struct mkt_plan *plan, struct mkt_plan_piece *row, struct mkt_spans *spans)
{
    const struct mkt_span whole = {0, row->bytes};
    row->whole = mkt_cost_read(&plan->speeds, &whole, 1);
    if (spans->failed) { /* a read would take all of it, too */
        row->parts = row->whole;
        row->takes_whole = true;
        return;
    }
    mkt_spans_tidy(spans);
    row->parts = mkt_cost_read(&plan->speeds, spans->item, spans->count);
    row->takes_whole = mkt_cost_prefers_whole(&plan->speeds, spans->item, spans->count, row->bytes);
}

static enum mkt_status add_row(struct tally *tally, const struct mkt_piece *piece,
                               const struct moves *moves, uint64_t elements)
{
    struct mkt_plan_piece *row = append(tally->plan, piece);
    if (!row)
        return MKT_NO_MEMORY;
    row->wanted_bytes = elements * tally->plan->element_bytes;
    row->runs = moves->runs;
    row->run_least = moves->least;
    row->run_most = moves->most;
    row->way = moves->runs > 1                   ? MKT_PLAN_STRIDED
               : row->wanted_bytes == row->bytes ? MKT_PLAN_WHOLE
                                                 : MKT_PLAN_RUN;
    if (row->below)
        weigh(tally->plan, row, moves->spans);
    return MKT_OK;
}

static enum mkt_status take_piece(void *context, const struct mkt_piece *piece)
{
    struct tally *tally = context;
    struct mkt_plan *plan = tally->plan;
    struct mkt_spans spans = {0};
    struct moves moves = {.spans = mkt_extent_is_cold(&piece->data) ? &spans : NULL};
    struct mkt_layout packed;
    const void *table;
    if (tally->skip > 0) {
        tally->skip--;
        return MKT_OK;
    }
    enum mkt_status status =
        mkt_client_piece_table(tally->client, piece, plan->element_bytes, &table);
    if (status != MKT_OK)
        return status;
    mkt_layout_packed(&packed, &plan->want, plan->element_bytes, 0);
    uint64_t elements =
        mkt_plan_piece(&plan->want, &packed, piece, table, plan->element_bytes, add_move, &moves);
    if (elements > 0)
        status = add_row(tally, piece, &moves, elements);
    else
        plan->beside++;
    mkt_spans_fini(&spans);
    return status;
}

enum mkt_status mkt_plan_reckon(struct mkt_plan *plan, struct mkt_client *client,
                                const struct mkt_index_view *index,
                                const struct mkt_plan_dataset *dataset, struct mkt_error *error)
{
    struct mkt_cover cover;
    struct tally tally = {.plan = plan, .client = client};
    plan->disjoint = true;
    plan->holds_all = mkt_slab_elements(&plan->want) == 0;
    if (!dataset->is_written || plan->holds_all)
        return MKT_OK;
    mkt_cover_begin(&cover, client, &plan->want, plan->element_bytes);
    enum mkt_status status =
        mkt_index_view_query(index, dataset->position, &plan->want, mkt_cover_piece, &cover);
    if (status == MKT_OK) {
        bool disjoint =
            mkt_cover_is_open(&cover) && mkt_index_view_disjoint(index, dataset->position);
        plan->holds_all = mkt_cover_holds_all(&cover, disjoint);
        plan->hidden = tally.skip = mkt_cover_hidden(&cover);
        plan->disjoint =
            cover.whole > 0 ? cover.whole == cover.hits : mkt_cover_is_disjoint(&cover, disjoint);
        status = mkt_index_view_query(index, dataset->position, &plan->want, take_piece, &tally);
    }
    return status == MKT_OK
               ? MKT_OK
               : mkt_error_set(error, status, "the version's pieces can't be gone through: %s",
                               mkt_status_text(status));
}

const struct mkt_read_cost *mkt_plan_chosen(const struct mkt_plan_piece *piece)
{
    return piece->takes_whole ? &piece->whole : &piece->parts;
}

void mkt_plan_fini(struct mkt_plan *plan)
{
    for (uint64_t i = 0; i < plan->count; i++)
        free(plan->piece[i].dim);
    free(plan->piece);
}
