/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: programs that write one path again and again by a rule, and readers with names that go
 * through its versions; and a model of who got what. No version goes to one reader twice unless the
 * first time wasn't read to the end; they come in order; who asks for all gets all as long as it is
 * there; and no writer waits for readers that have gone.
 */
#include "tests/sim/sim.h"

#include <string.h>

#define MAX_DELIVERIES 512

static const char *const names[STREAM_READERS] = {"reader-a", "reader-b", "reader-c"};

enum delivery_state {
    DELIVERY_OPEN,
    DELIVERY_READ,
    DELIVERY_LOST,
    DELIVERY_AGAIN /* lost, and delivered once more */
};
struct delivery {
    uint8_t object[MKT_ID_BYTES];
    uint64_t number;
    unsigned reader;
    const struct program *program;
    uint64_t file;
    unsigned closed; /* bit r: rank r */
    enum delivery_state state;
};

static struct {
    struct delivery delivery[MAX_DELIVERIES];
    unsigned deliveries;
    uint64_t absent_ms[STREAM_READERS]; /* since it got something the last time, when its first
                                           process went; 0: none did */
    uint64_t left_ms[STREAM_READERS];   /* when its last process went; 0: none did */
    bool was_gone[STREAM_READERS];      /* it may have missed some */
    bool is_ended;                      /* somebody may have ended a stream */
} model;

void stream_begin(void)
{
    memset(&model, 0, sizeof(model));
}

/* ---- programs ---- */

static void make_writer(struct program *program, const struct stream_setup *setup)
{
    program->jobs = (unsigned)chance(2, MAX_JOBS);
    for (unsigned j = 0; j < program->jobs; j++) {
        struct job *job = &program->job[j];

        job->kind = JOB_WRITE;
        job->path = setup->path;
        job->failing_rank = job->lazy_rank = -1;
        job->intent = one_in(5) ? MKT_INTENT_READ_WRITE : MKT_INTENT_CREATE;
        /* Where no stub stands a group's look at the path may be older than the file that an
         * archiver has put there. */
        job->mode = world.archivers > 0 && world.path[setup->path].uses_stub && one_in(2)
                        ? MKT_MODE_BOTH
                        : MKT_MODE_MEMORY;
        job->rounds = one_in(6) ? 2 : 1;
        job->operations = (unsigned)chance(0, 3);
        job->stream = setup->rule;
        job->keep = setup->keep;
    }
    if (one_in(2)) {
        program->job[program->jobs - 1] = (struct job){.kind = JOB_END,
                                                       .path = setup->path,
                                                       .failing_rank = -1,
                                                       .lazy_rank = -1,
                                                       .by_pattern = one_in(2)};
        model.is_ended = true;
    }
    model.is_ended |= setup->rule.end_after > 0;
}

static void make_reader(struct program *program, const struct stream_setup *setup, unsigned reader)
{
    static const uint32_t delivers[STREAM_READERS] = {MKT_DELIVER_NEXT, MKT_DELIVER_ALL,
                                                      MKT_DELIVER_EVERY};
    uint32_t deliver = reader == 2 && one_in(2) ? MKT_DELIVER_LATEST : delivers[reader];

    program->jobs = (unsigned)chance(2, MAX_JOBS);
    program->reader = reader + 1;
    for (unsigned j = 0; j < program->jobs; j++) {
        struct job *job = &program->job[j];

        job->kind = JOB_READ;
        job->path = setup->path;
        job->failing_rank = job->lazy_rank = -1;
        job->intent = MKT_INTENT_READ;
        job->mode = MKT_MODE_MEMORY;
        job->wait_ms = (uint32_t)chance(0, 1000);
        job->writer_timeout_ms = (uint32_t)chance(0, 800);
        job->operations = (unsigned)chance(0, 3);
        job->stream.deliver = deliver;
        job->stream.every = 2;
        job->stream.only = true;
        job->stream.reader = (struct mkt_bytes){names[reader], (uint32_t)strlen(names[reader])};
    }
}

void stream_make(struct program *program, const struct stream_setup *setup, unsigned role)
{
    *program = (struct program){.size = one_in(2) ? 1 : (unsigned)chance(2, MAX_RANKS)};
    if (role == 0)
        make_writer(program, setup);
    else
        make_reader(program, setup, (unsigned)chance(0, STREAM_READERS - 1));
}

void stream_set_up(struct stream_setup *setup)
{
    *setup = (struct stream_setup){.path = (unsigned)chance(0, PATHS - 1)};
    setup->rule.consumed = one_in(2);
    setup->rule.readers = (uint32_t)chance(0, 2);
    setup->rule.queue = one_in(2) ? (uint32_t)chance(1, 3) : 0;
    setup->rule.queue_timeout_ms = (uint32_t)chance(0, 600);
    setup->rule.patience_ms = one_in(2) ? (uint32_t)chance(1, 300) : 0;
    setup->rule.end_after = one_in(4) ? MKT_END_AT_EXIT : one_in(3) ? (uint32_t)chance(1, 4) : 0;
    setup->keep = one_in(3) ? (uint32_t)chance(1, 3) : 0;
    if (one_in(3))
        setup->rule.on_full = (uint8_t)chance(MKT_FULL_FAIL, MKT_FULL_FILE);
}

/* ---- the model ---- */

static bool same_stream(const struct delivery *delivery, const uint8_t object[MKT_ID_BYTES],
                        unsigned reader)
{
    return delivery->reader == reader && memcmp(delivery->object, object, MKT_ID_BYTES) == 0;
}

static void note_presence(unsigned reader)
{
    if (model.absent_ms[reader] != 0 &&
        world.now - model.absent_ms[reader] >= world.limits.reader_grace_ms)
        model.was_gone[reader] = true;
    model.absent_ms[reader] = 0;
}

/* The latest that it got of the object; 0: none. */
static uint64_t last_of(const uint8_t object[MKT_ID_BYTES], unsigned reader)
{
    uint64_t last = 0;

    for (unsigned i = 0; i < model.deliveries; i++) {
        const struct delivery *delivery = &model.delivery[i];

        if (same_stream(delivery, object, reader) && delivery->number > last)
            last = delivery->number;
    }
    return last;
}

/* Nothing between may be left out for who asks for all. */
static void check_none_skipped(const struct mkt_msg_opened *opened, unsigned reader, uint64_t last)
{
    if (model.was_gone[reader] || world.meddled || world.hides_versions || world.has_hostile ||
        last == 0)
        return;
    for (uint64_t number = last + 1; number < opened->version; number++)
        SIM_CHECK(content_order(opened->object, number) == 0,
                  "reader %s got version %d after %d, but %d is between", names[reader],
                  (int)opened->version, (int)last, (int)number);
    for (unsigned i = 0; i < model.deliveries; i++) {
        const struct delivery *delivery = &model.delivery[i];

        SIM_CHECK(!same_stream(delivery, opened->object, reader) ||
                      delivery->state != DELIVERY_LOST || delivery->number > opened->version,
                  "reader %s never got version %d, which was lost to it, again", names[reader],
                  (int)delivery->number);
    }
}

/* True if it was lost the first time. */
static bool take_lost(const struct mkt_msg_opened *opened, unsigned reader)
{
    for (unsigned i = 0; i < model.deliveries; i++) {
        struct delivery *delivery = &model.delivery[i];

        if (!same_stream(delivery, opened->object, reader) || delivery->number != opened->version ||
            delivery->state == DELIVERY_AGAIN)
            continue;
        SIM_CHECK(delivery->state == DELIVERY_LOST, "reader %s got version %d twice", names[reader],
                  (int)opened->version);
        delivery->state = DELIVERY_AGAIN;
        return true;
    }
    return false;
}

void stream_delivered(const struct process *process, const struct mkt_msg_opened *opened)
{
    const struct job *job = &process->program->job[process->job];
    unsigned reader = process->program->reader - 1;

    if (process->rank != 0 || process->program->reader == 0 || opened->file == 0 ||
        job->stream.deliver == MKT_DELIVER_LATEST)
        return;
    sim_trace("%s (process %u, deliver %u) gets version %d", names[reader], process->number,
              job->stream.deliver, (int)opened->version);
    note_presence(reader);
    uint64_t last = last_of(opened->object, reader);
    bool again = take_lost(opened, reader);
    SIM_CHECK(again || opened->version > last, "reader %s got version %d after %d", names[reader],
              (int)opened->version, (int)last);
    if (!again && job->stream.deliver == MKT_DELIVER_ALL)
        check_none_skipped(opened, reader, last);
    SIM_CHECK(model.deliveries < MAX_DELIVERIES, "too many deliveries");
    struct delivery *delivery = &model.delivery[model.deliveries++];
    *delivery = (struct delivery){.number = opened->version,
                                  .reader = reader,
                                  .program = process->program,
                                  .file = opened->file};
    memcpy(delivery->object, opened->object, MKT_ID_BYTES);
    world.stream_reads++;
}

static struct delivery *find_open(const struct process *process, uint64_t file)
{
    for (unsigned i = 0; i < model.deliveries; i++) {
        struct delivery *delivery = &model.delivery[i];

        if (delivery->program == process->program && delivery->state == DELIVERY_OPEN &&
            (file == 0 || delivery->file == file))
            return delivery;
    }
    return NULL;
}

void stream_closed(const struct process *process, uint64_t file)
{
    struct delivery *delivery = find_open(process, file);

    if (!delivery)
        return;
    sim_trace("process %u has closed version %d", process->number, (int)delivery->number);
    delivery->closed |= 1u << process->rank;
    if (delivery->closed == (1u << process->program->size) - 1)
        delivery->state = DELIVERY_READ;
}

static bool is_present(unsigned reader)
{
    for (unsigned p = 0; p < world.programs; p++) {
        const struct process *process = world.program[p].rank[0];

        if (world.program[p].reader == reader + 1 && process->exists && !process->ended)
            return true;
    }
    return false;
}

void stream_session_ended(const struct process *process)
{
    unsigned reader = process->program->reader;
    struct delivery *delivery = reader > 0 ? find_open(process, 0) : NULL;

    if (delivery && !(delivery->closed >> process->rank & 1))
        delivery->state = DELIVERY_LOST;
    /* As the market sees it: by rank 0 of each program that came. */
    if (reader > 0 && process->rank == 0)
        model.left_ms[reader - 1] = world.now;
    if (reader > 0 && process->rank == 0 && model.absent_ms[reader - 1] == 0)
        model.absent_ms[reader - 1] = world.now;
}

void stream_check_end(const struct process *process)
{
    SIM_CHECK(process->program->reader > 0 && model.is_ended,
              "process %u was told of an end that nobody announced", process->number);
}

struct counted {
    unsigned known, present;
};

static void count_reader(void *context, const struct mkt_reader_info *info)
{
    struct counted *counted = context;

    counted->known++;
    for (unsigned reader = 0; reader < STREAM_READERS; reader++) {
        if (strcmp(info->name, names[reader]) == 0)
            counted->present += is_present(reader) ||
                                world.now - model.left_ms[reader] < world.limits.reader_grace_ms;
    }
}

/* All ranks of a writer have asked, and have no answer. */
static bool waits_for_a_place(const struct program *program)
{
    for (unsigned r = 0; r < program->size; r++) {
        const struct process *process = program->rank[r];

        if (!process->exists || process->ended || process->job >= program->jobs ||
            process->job != program->rank[0]->job || /* one was refused, and is further on */
            program->job[process->job].kind != JOB_WRITE ||
            program->job[process->job].stream.queue == 0 || process->waits_for != MKT_MSG_OPENED ||
            !process->delivered || process->cancelled || process->to_client.count > 0)
            return false;
    }
    return !program->is_archiver;
}

/* All readers that the stream knows have gone, and no more are to come: the queue has a place. */
void stream_check_waits(void)
{
    for (unsigned p = 0; p < world.programs; p++) {
        const struct program *program = &world.program[p];
        struct counted counted = {0};
        struct mkt_stream_info info;

        if (!waits_for_a_place(program))
            continue;
        const struct process *process = program->rank[0];
        const struct mkt_name *name = &program->job[process->job].name;
        uint8_t object[MKT_ID_BYTES];
        if (!mkt_market_resolve(world.market, name, object) ||
            !mkt_market_stream(world.market, object, &info) || info.unread < info.queue)
            continue;
        mkt_market_each_reader(world.market, object, count_reader, &counted);
        SIM_CHECK(counted.present > 0 || counted.known < (info.readers > 0 ? info.readers : 1),
                  "a writer waits for readers that have gone");
    }
}
