/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One schedule: picks what happens next until every process is gone, then counts what is left.
 */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STEPS 100000

enum event {
    EVENT_DELIVER,
    EVENT_RECEIVE,
    EVENT_ACT,
    EVENT_END,
    EVENT_RECLAIM,
    EVENT_DIE,
    EVENT_CANCEL,
    EVENT_STUB,
    EVENT_TIER,
    EVENT_TIME
};

struct choice {
    enum event event;
    struct process *process;
};

static bool can_cancel(const struct process *process)
{
    return process->connected && process->alive && !process->cancelled &&
           (process->waits_for == MKT_MSG_OPENED || process->waits_for == MKT_MSG_GRANTED ||
            process->waits_for == MKT_MSG_COMMITTED);
}

/* What may happen to or by a process. */
static unsigned choices_of(struct process *process, struct choice *out)
{
    unsigned count = 0;

    if (process->reclaimed)
        return 0;
    if (!process->ended && !process->refused && process->to_market.count > 0)
        out[count++] = (struct choice){EVENT_DELIVER, process};
    if (process->alive && process->connected && process->to_client.count > 0)
        out[count++] = (struct choice){EVENT_RECEIVE, process};
    if (process_can_act(process) && (process->connected || one_in(2)))
        out[count++] = (struct choice){EVENT_ACT, process};
    if (!process->ended &&
        (process->refused || (!process->connected && process->to_market.count == 0)))
        out[count++] = (struct choice){EVENT_END, process};
    if (!process->alive && (process->ended || one_in(20)))
        out[count++] = (struct choice){EVENT_RECLAIM, process};
    if (process->alive && !process->connected && process->ended && one_in(4))
        out[count++] = (struct choice){EVENT_DIE, process};
    if (can_cancel(process) && one_in(60))
        out[count++] = (struct choice){EVENT_CANCEL, process};
    return count;
}

static void pass_time(bool forced)
{
    uint64_t next = mkt_market_next_deadline(world.market), now = world.now + chance(1, 20);

    if (next != UINT64_MAX && next > world.now && (forced || one_in(4)))
        now = next;
    sim_trace("time passes");
    world_tick(now);
}

static void cancel(struct process *process)
{
    struct mkt_msg msg = {.type = MKT_MSG_CANCEL, .request = process->request};

    process->cancelled = true;
    world_send(process, &msg);
}

static void happen(const struct choice *choice)
{
    struct process *process = choice->process;

    switch (choice->event) {
    case EVENT_DELIVER:
        world_deliver_to_market(process);
        break;
    case EVENT_RECEIVE:
        process_receive(process);
        break;
    case EVENT_ACT:
        process_act(process);
        break;
    case EVENT_END:
        process->connected = false;
        queue_clear(&process->to_market);
        world_session_end(process);
        break;
    case EVENT_RECLAIM:
        world_session_reclaim(process);
        break;
    case EVENT_DIE:
        process->alive = false;
        break;
    case EVENT_CANCEL:
        cancel(process);
        break;
    case EVENT_STUB:
        world_stub_removed((unsigned)chance(0, world.removals - 1));
        break;
    case EVENT_TIER:
        tier_act();
        break;
    case EVENT_TIME:
        pass_time(false);
        break;
    }
}

static void maybe_kill(unsigned rarity)
{
    if (rarity == 0 || !one_in(rarity))
        return;
    struct process *process = &world.process[chance(0, world.processes - 1)];
    if (!process->alive || !process->connected)
        return;
    if (one_in(3) && !process->program->is_archiver)
        process_cut(process);
    else
        process_kill(process);
}

static void maybe_restart(void)
{
    if (world.restart_rarity == 0)
        return;
    if (one_in(4 * world.restart_rarity))
        restart_compact();
    if (one_in(world.restart_rarity))
        restart_market();
}

/* Archivers come again as long as there is anybody else. */
static void look_after_archivers(void)
{
    bool others = false;

    for (unsigned i = 0; i < world.processes; i++)
        others |= !world.process[i].program->is_archiver && !world.process[i].reclaimed;
    for (unsigned i = 0; others && i < world.processes; i++) {
        if (world.process[i].program->is_archiver && world.process[i].reclaimed)
            archiver_reborn(&world.process[i]);
    }
    if (others)
        return;
    world.archivers_end = true;
    for (unsigned i = 0; i < world.processes; i++) {
        if (world.process[i].program->is_archiver && world.process[i].alive)
            process_kill(&world.process[i]);
    }
}

static bool all_gone(void)
{
    for (unsigned i = 0; i < world.processes; i++) {
        if (!process_is_done(&world.process[i]))
            return false;
    }
    return true;
}

/* True if the process waits for nothing but time. */
static void step(void)
{
    struct choice choice[MAX_PROCESSES * 8];
    unsigned count = 0;

    for (unsigned i = 0; i < world.processes; i++)
        count += choices_of(&world.process[i], &choice[count]);
    if (world.removals > 0)
        choice[count++] = (struct choice){EVENT_STUB, NULL};
    if (tier_can_act() && (count == 0 || one_in(world.tier_pace)))
        choice[count++] = (struct choice){EVENT_TIER, NULL};
    if (count == 0) {
        bool waits = false;

        for (unsigned i = 0; i < world.processes; i++)
            waits |= !world.process[i].reclaimed && world.process[i].alive &&
                     world.process[i].connected && world.process[i].waits_for != 0;
        SIM_CHECK(!waits || world.has_hostile ||
                      mkt_market_next_deadline(world.market) != UINT64_MAX,
                  "somebody waits, and nothing will ever happen");
        pass_time(true);
        return;
    }
    if (one_in(10))
        choice[0] = (struct choice){EVENT_TIME, NULL};
    happen(&choice[choice[0].event == EVENT_TIME ? 0 : chance(0, count - 1)]);
}

/* A hostile process may wait for an answer to what it garbled: it ends when all others have. */
static void end_hostile(void)
{
    bool others = false;

    for (unsigned i = 0; i < world.processes; i++)
        others |= !world.process[i].reclaimed && !world.process[i].program->hostile &&
                  !world.process[i].program->is_archiver;
    for (unsigned i = 0; i < world.processes && !others; i++) {
        if (world.process[i].program->hostile && world.process[i].connected && one_in(10))
            process_kill(&world.process[i]);
    }
}

/* ---- what is left ---- */

static const struct mkt_msg *ask(struct process *process, struct mkt_msg *msg,
                                 enum mkt_msg_type wanted, struct mkt_msg *answer_out)
{
    static struct frame *answered;

    free(answered);
    msg->request = process->request = ++world.last_request;
    process->waits_for = wanted;
    world_send(process, msg);
    world_deliver_to_market(process);
    answered = queue_take(&process->to_client);
    SIM_CHECK(answered, "no answer at the end");
    SIM_CHECK(mkt_msg_decode((const struct mkt_frame_wire *)answered->data,
                             answered->data + sizeof(struct mkt_frame_wire),
                             answer_out) == MKT_OK &&
                  answer_out->type == wanted,
              "the wrong answer at the end: %d, %.*s", answer_out->type,
              answer_out->type == MKT_MSG_ERROR ? (int)answer_out->error.text.length : 0,
              (const char *)answer_out->error.text.data);
    return answer_out;
}

struct left {
    uint8_t object[32][MKT_ID_BYTES];
    uint64_t number[64];
    bool hidden[64];
    unsigned objects, versions;
};

static void list_object(void *context, const struct mkt_object_info *info)
{
    struct left *left = context;

    SIM_CHECK(!info->has_writer && info->readers == 0 && info->versions > 0, "'%s' is still in use",
              info->path);
    SIM_CHECK(world.keeps_sets || info->versions == 1, "'%s' keeps %u versions", info->path,
              info->versions);
    SIM_CHECK(left->objects < 32, "too many objects at the end");
    memcpy(left->object[left->objects++], info->object, MKT_ID_BYTES);
}

static void list_version(void *context, const struct mkt_version_info *info)
{
    struct left *left = context;

    SIM_CHECK(left->versions < 64, "too many versions at the end");
    left->hidden[left->versions] = info->hidden;
    left->number[left->versions++] = info->version;
}

static void read_and_withdraw(struct process *process, const uint8_t object[MKT_ID_BYTES])
{
    struct left versions = {0};
    struct mkt_msg answer, withdraw = {.type = MKT_MSG_WITHDRAW};

    mkt_market_each_version(world.market, object, list_version, &versions);
    for (unsigned v = 0; v < versions.versions; v++) {
        struct mkt_msg open = {.type = MKT_MSG_OPEN}, close = {.type = MKT_MSG_CLOSE};

        if (versions.hidden[v])
            continue;
        open.open.size = 1;
        open.open.intent = MKT_INTENT_READ;
        open.open.mode = MKT_MODE_MEMORY;
        open.open.version = versions.number[v];
        memcpy(open.open.name.object, object, MKT_ID_BYTES);
        ask(process, &open, MKT_MSG_OPENED, &answer);
        content_check(&answer.opened);
        close.file.file = answer.opened.file;
        world_send(process, &close);
        world_deliver_to_market(process);
    }
    memcpy(withdraw.withdraw.name.object, object, MKT_ID_BYTES);
    ask(process, &withdraw, MKT_MSG_WITHDRAWN, &answer);
    SIM_CHECK(answer.count.versions == versions.versions, "%d versions were withdrawn, not %u",
              (int)answer.count.versions, versions.versions);
}

static void check_rest(void)
{
    struct mkt_market_usage usage;
    struct left left = {0};
    struct process *process = &world.process[world.processes];
    struct program *program = &world.program[world.programs];

    memory_arm(0, 0);
    world_tick(world.now + 1);
    while (tier_can_act())
        tier_act();
    mkt_market_usage(world.market, &usage);
    SIM_CHECK(usage.groups == 0 && usage.waiting_opens == 0 && usage.waiting_grants == 0 &&
                  usage.sessions == 0 && usage.granted_bytes == 0,
              "at the end there are %u groups, %u + %u waits, %u sessions, %d bytes granted",
              usage.groups, usage.waiting_opens, usage.waiting_grants, usage.sessions,
              (int)usage.granted_bytes);
    SIM_CHECK(usage.used_bytes == usage.published_bytes,
              "at the end %d bytes are used, %d published", (int)usage.used_bytes,
              (int)usage.published_bytes);
    memset(process, 0, sizeof(*process));
    *program = (struct program){.size = 1, .jobs = 1, .rank = {process}};
    process->number = world.processes++;
    process->session = 5000;
    process->program = program;
    world_session_begin(process);
    program->is_archiver = true;
    world.archivers_end = true;
    archive_rest(process);
    program->is_archiver = false;
    mkt_market_each_object(world.market, list_object, &left);
    for (unsigned i = 0; i < left.objects; i++)
        read_and_withdraw(process, left.object[i]);
    world_session_reclaim(process);
    while (tier_can_act())
        tier_act();
    world_audit();
    mkt_market_usage(world.market, &usage);
    SIM_CHECK(usage.used_bytes == 0 && usage.objects == 0 && usage.versions == 0 &&
                  usage.live_bytes == 0,
              "after all is withdrawn %d bytes are used", (int)usage.used_bytes);
    SIM_CHECK(usage.tier_bytes == 0 && tier_is_empty(), "something is left in the tier");
}

bool schedule_run(uint64_t seed, bool trace, bool short_of_memory)
{
    world.trace = trace;
    if (setjmp(world.failed) != 0) {
        memory_arm(0, 0);
        return false;
    }
    world_begin(seed, short_of_memory);
    programs_make();
    unsigned rarity = one_in(4) ? 0 : (unsigned)chance(20, 400);
    uint64_t stop =
        one_in(10) ? chance(1, 300) : UINT64_MAX; /* the market goes with all that is in it */
    while (!all_gone() && world.steps < stop) {
        SIM_CHECK(++world.steps < MAX_STEPS, "it does not end");
        restart_step(step);
        maybe_kill(rarity);
        maybe_restart();
        end_hostile();
        look_after_archivers();
        if (world.audit_always || world.steps % 16 == 0)
            world_audit();
    }
    world.deaths_left = 0;
    world_audit();
    if (all_gone())
        check_rest();
    world_end();
    return true;
}
