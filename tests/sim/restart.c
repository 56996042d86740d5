/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon dies and another goes on: a market made again from a journal, from time to time from a
 * dump and what came after it, takes the place of the one that ran. Nobody may notice: it is the
 * same to the byte, and the schedule goes on with it.
 */
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DUMP_BYTES (4u << 20)

#ifdef __SANITIZE_ADDRESS__
#define DEATHS 0 /* what a dead market leaves is a leak */
#else
#define DEATHS 1
#endif

struct record {
    struct record *next;
    size_t length;
    _Alignas(8) uint8_t bytes[];
};

static struct {
    bool on;
    uint8_t *dump; /* from which the records go on; NULL: from nothing */
    size_t dump_bytes;
    struct record *first, **last;
    const struct record *at; /* of a replay */
    bool is_done;
    _Alignas(8) uint8_t room[MKT_CALL_MAX_BYTES];
} journal;

static struct {
    jmp_buf back;
    unsigned operations; /* so many more in this call; 0: it doesn't die */
} death;

static _Alignas(8) uint8_t before[DUMP_BYTES], after[DUMP_BYTES];

/* ---- the journal ---- */

static void drop_records(void)
{
    while (journal.first) {
        struct record *record = journal.first;
        journal.first = record->next;
        free(record);
    }
    journal.last = &journal.first;
}

void restart_begin(bool on)
{
    drop_records();
    free(journal.dump);
    journal.dump = NULL;
    journal.on = on;
    journal.is_done = true;
    death.operations = 0;
    world.deaths_left = on && one_in(20) ? DEATHS : 0;
}

void *restart_reserve(void *context)
{
    (void)context;
    return journal.on ? journal.room : NULL;
}

void restart_append(void *context, size_t bytes)
{
    (void)context;
    SIM_CHECK(bytes > 0 && bytes <= MKT_CALL_MAX_BYTES, "a record of %zu bytes", bytes);
    memory_leave();
    struct record *record = malloc(sizeof(*record) + bytes);
    record->next = NULL;
    record->length = bytes;
    memcpy(record->bytes, journal.room, bytes);
    *journal.last = record;
    journal.last = &record->next;
    journal.is_done = false;
    memory_enter();
    restart_operation();
}

void restart_done(void *context)
{
    (void)context;
    journal.is_done = true;
}

static bool next_record(void *context, const void **bytes_out, size_t *length_out)
{
    const struct record *record = journal.at;

    (void)context;
    if (!record)
        return false;
    *bytes_out = record->bytes;
    *length_out = record->length;
    journal.at = record->next;
    return true;
}

/* ---- the same market again ---- */

static size_t dump(struct mkt_market *market, uint8_t *bytes)
{
    size_t length;

    SIM_CHECK(mkt_market_dump(market, bytes, DUMP_BYTES, &length) == MKT_OK,
              "the market can't be dumped");
    return length;
}

/* True if the two are the same in every field, list and byte. */
static void compare(struct mkt_market *one, struct mkt_market *other, const char *what)
{
    size_t length = dump(one, before), other_length = dump(other, after);

    for (size_t i = 0; i < length && i < other_length; i++)
        SIM_CHECK(before[i] == after[i], "a market %s differs at byte %zu of %zu", what, i, length);
    SIM_CHECK(length == other_length, "a market %s has %zu bytes and not %zu", what, other_length,
              length);
}

static struct mkt_market *create(void)
{
    struct mkt_market *market = mkt_market_create(&world.limits, world_operations, NULL);

    SIM_CHECK(market, "no market");
    return market;
}

static void forget(struct mkt_market *market)
{
    world.is_apart = true; /* what it does at its end isn't the world's */
    mkt_market_destroy(market);
    world.is_apart = false;
}

static void restore(struct mkt_market *market, const uint8_t *bytes, size_t length)
{
    struct mkt_error error;

    SIM_CHECK(mkt_market_restore(market, bytes, length, &error) == MKT_OK, "%s", error.text);
}

void restart_compact(void)
{
    struct mkt_market *again = create();

    sim_trace("the journal begins anew");
    drop_records();
    free(journal.dump);
    journal.dump_bytes = dump(world.market, before);
    journal.dump = malloc(journal.dump_bytes);
    memcpy(journal.dump, before, journal.dump_bytes);
    restore(again, journal.dump, journal.dump_bytes);
    compare(world.market, again, "restored from a dump");
    forget(again);
}

void restart_market(void)
{
    struct mkt_market *again = create(), *former = world.market;
    struct mkt_error error = {0};

    sim_trace("the daemon is restarted");
    world.restarts++;
    if (journal.dump)
        restore(again, journal.dump, journal.dump_bytes);
    journal.at = journal.first;
    SIM_CHECK(mkt_market_replay(again, next_record, NULL, journal.is_done, &error) == MKT_OK, "%s",
              error.text);
    if (former) {
        compare(former, again, "made again from the journal");
        forget(former);
    }
    journal.is_done = true;
    world.market = again;
    world_audit();
    tier_restart();
    world_reconnect();
}

/* ---- in the middle of a call ---- */

void restart_enter(void)
{
    death.operations = world.deaths_left > 0 && one_in(30) ? (unsigned)chance(1, 6) : 0;
    memory_enter();
}

void restart_leave(void)
{
    memory_leave();
    death.operations = 0;
}

void restart_operation(void)
{
    if (death.operations > 0 && --death.operations == 0)
        longjmp(death.back, 1);
}

/* Of whom it may have heard the end of the connection, and no more. */
static void reclaim_again(void)
{
    for (unsigned i = 0; i < world.processes; i++) {
        if (world.process[i].reclaimed)
            mkt_market_session_reclaim(world.market, world.process[i].session, world.now);
    }
}

void restart_step(void (*step)(void))
{
    if (setjmp(death.back) == 0) {
        step();
        return;
    }
    sim_trace("the daemon dies in the middle of a call");
    world.deaths++;
    memory_arm(0, 0);
    world.deaths_left--;
    world.market = NULL; /* as it is nobody can use it, nor free it */
    restart_market();
    reclaim_again();
}
