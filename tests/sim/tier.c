/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tier below memory: what was moved there, and moves that are under way. A move copies at one
 * moment of its life, later than it was asked for, so that bytes that were freed or used again
 * meanwhile show. Some fail.
 */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_MOVES = 64,
    MAX_SPANS = 8
};

struct kept {
    struct kept *next;
    struct mkt_extent place;
    bool is_known;
    uint8_t bytes[];
};

struct pending {
    uint64_t move;
    bool in;
    struct mkt_extent memory, cold;
    uint64_t from;
    unsigned spans;
    struct mkt_span span[MAX_SPANS];
};

static struct kept *all;
static struct pending pending[MAX_MOVES];
static unsigned moves;
static uint64_t last_place;

void tier_begin(struct mkt_market_limits *limits)
{
    moves = 0;
    world.tier_pace = (unsigned)chance(1, 30);
    if (one_in(2))
        return;
    limits->tier_bytes = one_in(2) ? chance(64, 2048) : chance(1, 64) << 10;
    limits->tier_least_bytes = one_in(2) ? 0 : chance(1, 128);
    limits->tier_high_bytes =
        limits->memory_bytes / 100 * (one_in(3) ? chance(10, 100) : chance(0, 8));
    limits->tier_low_bytes = limits->tier_high_bytes / 100 * chance(0, 100);
    limits->promote_after = (uint32_t)chance(0, 3);
    if (one_in(2))
        limits->tier_speeds = (struct mkt_speeds){.bytes_per_s = chance(1, 100) << 20,
                                                  .latency_ns = (uint32_t)chance(1, 100) * 1000,
                                                  .queue_depth = (uint32_t)chance(1, 8)};
}

static struct kept **find(const struct mkt_extent *place)
{
    struct kept **link = &all;

    while (*link && ((*link)->place.offset != place->offset ||
                     (*link)->place.generation != place->generation))
        link = &(*link)->next;
    return link;
}

static void drop(struct kept **link)
{
    struct kept *gone = *link;

    *link = gone->next;
    free(gone);
}

void tier_end(void)
{
    while (all)
        drop(&all);
}

const void *tier_bytes(const struct mkt_extent *cold)
{
    const struct kept *kept = *find(cold);

    SIM_CHECK(kept && kept->place.length == cold->length && mkt_extent_is_cold(cold),
              "a piece is to be in the tier, and isn't there");
    return kept->bytes;
}

static struct pending *add(uint64_t move)
{
    SIM_CHECK(moves < MAX_MOVES, "too many moves at one time");
    for (unsigned i = 0; i < moves; i++)
        SIM_CHECK(pending[i].move != move, "a move was asked for twice");
    pending[moves] = (struct pending){.move = move};
    return &pending[moves++];
}

void tier_move_out(void *context, uint64_t move, const struct mkt_extent *memory)
{
    (void)context;
    add(move)->memory = *memory;
    restart_operation();
}

void tier_move_in(void *context, uint64_t move, const struct mkt_market_reading *reading)
{
    struct pending *more = add(move);

    (void)context;
    SIM_CHECK(reading->count > 0 && reading->count <= MAX_SPANS, "a read of %u parts",
              reading->count);
    more->in = true;
    more->memory = reading->memory;
    more->cold = reading->cold;
    more->from = reading->from;
    more->spans = reading->count;
    memcpy(more->span, reading->spans, reading->count * sizeof(more->span[0]));
    restart_operation();
}

void tier_drop_cold(void *context, const struct mkt_extent *cold)
{
    struct kept **link = find(cold);

    (void)context;
    if (world.is_apart)
        return;
    SIM_CHECK(*link || world.deaths > 0, "what is not in the tier was dropped from it");
    if (*link)
        drop(link);
    restart_operation();
}

bool tier_can_act(void)
{
    return moves > 0;
}

static enum mkt_status copy_out(struct pending *done)
{
    struct kept *kept = malloc(sizeof(*kept) + done->memory.length);

    if (one_in(12)) {
        free(kept);
        return one_in(2) ? MKT_NO_SPACE : MKT_IO_ERROR;
    }
    memcpy(kept->bytes, world_bytes(&done->memory), done->memory.length);
    kept->place = (struct mkt_extent){.arena = MKT_ARENA_TIER,
                                      .generation = (uint32_t)chance(1, 1000),
                                      .offset = ++last_place << 12,
                                      .length = done->memory.length};
    kept->next = all;
    all = kept;
    done->cold = kept->place;
    return MKT_OK;
}

static enum mkt_status copy_in(const struct pending *done)
{
    const uint8_t *from = tier_bytes(&done->cold);
    uint8_t *to = world_bytes(&done->memory);

    if (one_in(20))
        return MKT_IO_ERROR;
    for (unsigned i = 0; i < done->spans; i++) {
        const struct mkt_span *span = &done->span[i];

        SIM_CHECK(span->offset - done->from + span->length <= done->memory.length &&
                      span->offset + span->length <= done->cold.length,
                  "a read goes beyond its bytes");
        memcpy(to + (span->offset - done->from), from + span->offset, span->length);
    }
    return MKT_OK;
}

void tier_act(void)
{
    unsigned at = (unsigned)chance(0, moves - 1);
    struct pending done = pending[at];
    enum mkt_status status = done.in ? copy_in(&done) : copy_out(&done);

    pending[at] = pending[--moves];
    sim_trace("move %d %s: %s", (int)done.move, done.in ? "in" : "out", mkt_status_name(status));
    restart_enter();
    mkt_market_moved(world.market, done.move, status, &done.cold, world.now);
    restart_leave();
    world.moves++;
}

static void note_known(void *context, const struct mkt_extent *cold)
{
    struct kept *kept = *find(cold);

    (void)context;
    SIM_CHECK(kept, "a piece is to be in the tier, and isn't there");
    kept->is_known = true;
}

void tier_restart(void)
{
    moves = 0;
    for (struct kept *kept = all; kept; kept = kept->next)
        kept->is_known = false;
    mkt_market_each_cold(world.market, note_known, NULL);
    for (struct kept **link = &all; *link;) {
        if ((*link)->is_known)
            link = &(*link)->next;
        else
            drop(link);
    }
    mkt_market_move_again(world.market);
}

bool tier_is_empty(void)
{
    return all == NULL;
}
