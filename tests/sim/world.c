/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The market's shell in the simulation: arenas with real bytes, the network, the stubs.
 */
#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world world;

#define FREED_BYTE 0xdd

void sim_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(world.failure, sizeof(world.failure), format, arguments);
    va_end(arguments);
    longjmp(world.failed, 1);
}

void sim_trace(const char *format, ...)
{
    va_list arguments;

    if (!world.trace)
        return;
    printf("%5llu %6llu ms  ", (unsigned long long)world.steps, (unsigned long long)world.now);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

uint64_t chance(uint64_t low, uint64_t high)
{
    return random_in(&world.random, low, high);
}

bool one_in(unsigned n)
{
    return chance(1, n) == 1;
}

/* ---- queues ---- */

static void queue_put(struct queue *queue, struct frame *frame)
{
    if (!queue->head)
        queue->tail = &queue->head;
    frame->next = NULL;
    *queue->tail = frame;
    queue->tail = &frame->next;
    queue->count++;
}

struct frame *queue_take(struct queue *queue)
{
    struct frame *frame = queue->head;

    if (!frame)
        return NULL;
    queue->head = frame->next;
    queue->count--;
    return frame;
}

void queue_clear(struct queue *queue)
{
    while (queue->head)
        free(queue_take(queue));
}

static struct frame *encode(const struct mkt_msg *msg)
{
    struct frame *frame;
    size_t bytes, written;

    SIM_CHECK(mkt_msg_size(msg, &bytes) == MKT_OK, "a message of type %d is too large", msg->type);
    frame = malloc(sizeof(*frame) + bytes);
    frame->bytes = bytes;
    SIM_CHECK(mkt_msg_encode(msg, false, frame->data, bytes, &written) == MKT_OK &&
                  written == bytes,
              "a message of type %d can't be encoded", msg->type);
    return frame;
}

void world_send(struct process *process, const struct mkt_msg *msg)
{
    if (process->connected)
        queue_put(&process->to_market, encode(msg));
}

/* ---- what the market asks of its shell ---- */

void *world_bytes(const struct mkt_extent *extent)
{
    SIM_CHECK(extent->arena >= 1 && extent->arena <= world.arenas &&
                  extent->offset + extent->length <= world.limits.arena_bytes,
              "an extent lies outside all arenas");
    return world.arena[extent->arena - 1] + extent->offset;
}

const void *world_piece(const struct mkt_extent *extent)
{
    return mkt_extent_is_cold(extent) ? tier_bytes(extent) : world_bytes(extent);
}

static struct process *find_process(uint64_t session)
{
    for (unsigned i = 0; i < world.processes; i++) {
        if (world.process[i].session == session)
            return &world.process[i];
    }
    sim_fail("a message for session %d, which nobody has", (int)session);
}

struct newest {
    uint64_t number;
};

static void find_newest(void *context, const struct mkt_version_info *info)
{
    struct newest *newest = context;

    if (!info->hidden && info->version > newest->number)
        newest->number = info->version;
}

static void note_published(const struct process *process, uint64_t number)
{
    const struct job *job = &process->program->job[process->job];

    bool fresh = content_order(process->opened.object, number) == 0;
    struct newest newest = {.number = 0}; /* nothing of an object that was withdrawn meanwhile */
    mkt_market_each_version(world.market, process->opened.object, find_newest, &newest);
    content_published(process->opened.object, number, job->attempt, process->round);
    unsigned content = content_order(process->opened.object, number);
    if (fresh)
        sim_trace("'%s', %u is published, mode %u", world.path[job->path].name, content, job->mode);
    if (content > 0 && fresh)
        archive_owe(&world.path[job->path], content,
                    job->mode == MKT_MODE_BOTH && job->durability != MKT_DURABILITY_NONE &&
                        job->publish_close <= 1 && newest.number >= number);
}

static bool is_known(const struct attempt *attempt, unsigned round)
{
    for (unsigned v = 0; v < world.versions; v++) {
        if (world.version[v].attempt == attempt && world.version[v].round == round)
            return true;
    }
    return false;
}

/* All of its ranks wait for the answers to what the market has. */
static bool have_all_committed(const struct program *program)
{
    for (unsigned r = 0; r < program->size; r++) {
        if (program->rank[r]->waits_for != MKT_MSG_COMMITTED || !program->rank[r]->delivered ||
            program->rank[r]->to_client.count > 0)
            return false;
    }
    return true;
}

/* What is being published just now is to become a file. */
static bool is_successor_owed(const uint8_t object[MKT_ID_BYTES])
{
    for (unsigned i = 0; i < world.processes; i++) {
        const struct process *process = &world.process[i];
        const struct job *job = &process->program->job[process->job];

        if (have_all_committed(process->program) && job->kind == JOB_WRITE &&
            memcmp(process->opened.object, object, MKT_ID_BYTES) == 0 &&
            !is_known(job->attempt, process->round))
            return job->mode == MKT_MODE_BOTH;
    }
    return false;
}

/* Its file, or its successor's, is on disk, unless somebody meddled with the path. */
static void check_durability(const struct process *process, uint64_t number)
{
    const struct job *job = &process->program->job[process->job];
    const struct path *path = &world.path[job->path];
    struct newest newest = {.number = 0};
    unsigned content = content_order(process->opened.object, number);

    if (job->mode != MKT_MODE_BOTH || job->durability != MKT_DURABILITY_CLOSE ||
        job->publish_close > 1 || process->round + 1 < job->rounds || job->unchanged ||
        job->lazy_rank == 0 || world.has_hostile || path->owed < content || path->owed == 0 ||
        content == 0)
        return;
    /* Just now replaced by one that is not to be saved. */
    mkt_market_each_version(world.market, process->opened.object, find_newest, &newest);
    if (newest.number > number && content_order(process->opened.object, newest.number) == 0 &&
        !is_successor_owed(process->opened.object))
        return;
    SIM_CHECK(path->has_file && path->content >= content && path->is_safe,
              "a close was answered though '%s' has %u and not %u on disk", path->name,
              path->content, content);
}

/* Versions whose writers aren't told yet, since their files aren't on disk. */
static void find_published(void)
{
    for (unsigned i = 0; i < world.processes; i++) {
        const struct process *process = &world.process[i];
        struct newest newest = {.number = 0};

        if (!have_all_committed(process->program) || process->program->hostile ||
            process->program->job[process->job].durability != MKT_DURABILITY_CLOSE ||
            process->program->job[process->job].unchanged ||
            is_known(process->program->job[process->job].attempt, process->round))
            continue;
        mkt_market_each_version(world.market, process->opened.object, find_newest, &newest);
        if (newest.number > 0 && content_order(process->opened.object, newest.number) == 0)
            note_published(process, newest.number);
    }
}

static void check_answer(struct process *process, const struct mkt_msg *msg)
{
    struct mkt_index_view view;

    if (msg->type == MKT_MSG_OPENED && msg->opened.index.length > 0)
        SIM_CHECK(mkt_index_view_open(&view, world_bytes(&msg->opened.index),
                                      msg->opened.index.length) == MKT_OK,
                  "the index of an opened version is not there when the answer leaves");
    if (process->program->hostile)
        return;
    SIM_CHECK(msg->request == process->request && process->waits_for != 0,
              "process %u got an answer (type %d) that it does not wait for", process->number,
              msg->type);
    if (msg->type == MKT_MSG_OPENED)
        stream_delivered(process, &msg->opened);
    if (msg->type == MKT_MSG_COMMITTED) {
        process->published = msg->version.version;
        note_published(process, msg->version.version);
        check_durability(process, msg->version.version);
    }
}

/* To a client that is connected anew. It may have had the answer, or it is on its way for the first
 * time. */
static void send_again(struct process *process, const struct mkt_msg *msg)
{
    if (!process->waits_for || msg->request != process->request)
        return;
    if (!process->was_answered)
        check_answer(process, msg);
    queue_put(&process->to_client, encode(msg));
}

/* From another node's arena only where no new one of its own can be had. */
static void check_node(const struct process *process, const struct mkt_extent *extent)
{
    uint64_t of_a_node = 2 * (world.limits.memory_bytes / world.limits.arena_bytes + 1) + 2;

    if (extent->length == 0 || process->node == MKT_NO_NODE ||
        world.arena_node[extent->arena - 1] == process->node)
        return;
    world.far_grants++;
    SIM_CHECK(world.most_arenas > 0 || world.short_of_memory ||
                  world.arenas == of_a_node * world.limits.nodes,
              "process %u on node %u got bytes of arena %u", process->number, process->node,
              extent->arena);
}

static void on_send(void *context, uint64_t session, const struct mkt_msg *msg,
                    const struct mkt_extent *populate)
{
    struct process *process = find_process(session);

    (void)context;
    if (world.answers_again) {
        send_again(process, msg);
        return;
    }
    memory_leave();
    SIM_CHECK(!process->ended, "an answer to a session that ended");
    SIM_CHECK(msg->type != MKT_MSG_GRANTED ||
                  memcmp(populate, &msg->extent.extent, sizeof(*populate)) == 0,
              "a grant that is not populated");
    check_node(process, populate);
    check_answer(process, msg);
    queue_put(&process->to_client, encode(msg));
    memory_enter();
    restart_operation();
}

static void on_write(void *context, const struct mkt_extent *extent, const void *bytes)
{
    (void)context;
    memcpy(world_bytes(extent), bytes, extent->length);
    restart_operation();
}

static enum mkt_status on_grow(void *context, uint32_t arena, uint32_t node, uint64_t size_bytes,
                               struct mkt_error *error)
{
    (void)context;
    if (arena <= world.arenas) { /* a market made again */
        SIM_CHECK(node == world.arena_node[arena - 1], "arena %u went to node %u", arena, node);
        return MKT_OK;
    }
    SIM_CHECK(node == MKT_NO_NODE || (world.limits.nodes > 1 && node < world.limits.nodes),
              "an arena of node %u", node);
    if (world.most_arenas > 0 && world.arenas >= world.most_arenas)
        return mkt_error_set(error, MKT_NO_SPACE, "no more of them (the simulator)");
    SIM_CHECK(arena == world.arenas + 1 && arena <= MAX_ARENAS, "arena %u is not the next one",
              arena);
    memory_leave();
    mkt_error_set(error, MKT_NO_MEMORY, "on the way to a failure"); /* means nothing */
    world.arena_node[world.arenas] = node;
    world.arena[world.arenas++] = calloc(1, size_bytes);
    memory_enter();
    return MKT_OK;
}

static void on_freed(void *context, const struct mkt_extent *extent)
{
    (void)context;
    if (!world.is_apart)
        memset(world_bytes(extent), FREED_BYTE, extent->length);
    restart_operation();
}

/* Nobody looks after it any more. */
static void forget_removal(const uint8_t object[MKT_ID_BYTES])
{
    for (unsigned at = 0; at < world.removals;) {
        if (memcmp(world.removed[at], object, MKT_ID_BYTES) != 0) {
            at++;
            continue;
        }
        world.removals--;
        memmove(world.removed[at], world.removed[at + 1], (world.removals - at) * MKT_ID_BYTES);
        memmove(&world.removed_path[at], &world.removed_path[at + 1], world.removals - at);
    }
}

static void on_drop_stub(void *context, const uint8_t object[MKT_ID_BYTES])
{
    (void)context;
    forget_removal(object);
    for (unsigned p = 0; p < PATHS; p++) {
        if (world.path[p].has_stub && memcmp(world.path[p].stub, object, MKT_ID_BYTES) == 0) {
            world.path[p].has_stub = false;
            world_disturb(p);
        }
        if (world.path[p].temporary.is_stub &&
            memcmp(world.path[p].temporary.stub, object, MKT_ID_BYTES) == 0)
            world.path[p].temporary = (struct file){.exists = false};
    }
}

static void on_refuse(void *context, uint64_t session, const char *why)
{
    struct process *process = find_process(session);

    (void)context;
    sim_trace("the market refuses process %u: %s", process->number, why);
    SIM_CHECK(process->program->hostile, "process %u was refused: %s", process->number, why);
    process->refused = true;
}

/* ---- calls of the market ---- */

void world_audit(void)
{
    struct mkt_error error = {0};

    if (mkt_market_audit(world.market, &error) != MKT_OK)
        sim_fail("audit: %s", error.text);
}

static void note_delivered(struct process *process, const struct mkt_msg *msg)
{
    if (msg->request != process->request || msg->type == MKT_MSG_CANCEL || process->delivered)
        return;
    process->delivered = true;
    process->delivered_ms = world.now;
}

void world_deliver_to_market(struct process *process)
{
    struct frame *frame = queue_take(&process->to_market);
    struct mkt_msg msg;
    enum mkt_status status = mkt_msg_decode((const struct mkt_frame_wire *)frame->data,
                                            frame->data + sizeof(struct mkt_frame_wire), &msg);

    SIM_CHECK(status == MKT_OK, "a message can't be decoded: %s", mkt_status_name(status));
    sim_trace("process %u -> market: type %d, request %d", process->number, msg.type,
              (int)msg.request);
    note_delivered(process, &msg);
    if (msg.type == MKT_MSG_WITHDRAW ||
        (msg.type == MKT_MSG_OPEN && msg.open.mode == MKT_MODE_FILE)) {
        for (unsigned p = 0; p < PATHS; p++)
            world_disturb(p);
    }
    if (msg.type == MKT_MSG_CLOSE)
        stream_closed(process, msg.file.file);
    restart_enter();
    mkt_market_message(world.market, process->session, &msg, world.now);
    restart_leave();
    find_published();
    free(frame);
}

void world_tick(uint64_t now_ms)
{
    world.now = now_ms;
    restart_enter();
    mkt_market_tick(world.market, now_ms);
    restart_leave();
    find_published();
    stream_check_waits();
    SIM_CHECK(mkt_market_next_deadline(world.market) > now_ms,
              "the next deadline has passed after a tick");
    for (unsigned i = 0; i < world.processes; i++) {
        const struct process *process = &world.process[i];

        SIM_CHECK(!process->waits_for || !process->delivered || process->to_client.count > 0 ||
                      process->ended || process->program->hostile || process->limit_ms == 0 ||
                      process->delivered_ms + process->limit_ms > now_ms,
                  "process %u waits for %d since %d ms, longer than %d", process->number,
                  process->waits_for, (int)(now_ms - process->delivered_ms),
                  (int)process->limit_ms);
    }
}

/* One that is there, or none. */
static uint32_t draw_node(void)
{
    uint64_t node = random_in(&world.node_random, 0, world.limits.nodes);

    return world.limits.nodes == 1 || node == world.limits.nodes ? MKT_NO_NODE : (uint32_t)node;
}

void world_session_begin(struct process *process)
{
    process->node = draw_node();
    memory_enter();
    enum mkt_status status = mkt_market_session_begin(world.market, process->session, "sim",
                                                      process->number, process->node);
    memory_leave();
    SIM_CHECK(status == MKT_OK || (status == MKT_NO_MEMORY && world.short_of_memory),
              "a session did not begin: %s", mkt_status_name(status));
    process->exists = process->alive = process->connected = status == MKT_OK;
    process->ended = process->reclaimed = !process->exists;
}

/* The others of a writing group wait for a rank that is gone: their closes fail at once. */
static void check_poisoned(const struct process *gone)
{
    const struct program *program = gone->program;

    if (gone->program->hostile || gone->file == 0 ||
        program->job[gone->job].durability == MKT_DURABILITY_CLOSE) /* it may wait for the file */
        return;
    for (unsigned r = 0; r < program->size; r++) {
        const struct process *process = program->rank[r];

        SIM_CHECK(process == gone || process->ended || !process->exists ||
                      process->phase != PHASE_COMMITTING ||
                      process->waits_for != MKT_MSG_COMMITTED || !process->delivered ||
                      process->file != gone->file || process->to_client.count > 0,
                  "rank %u waits for a rank that ended", r);
    }
}

void world_session_end(struct process *process)
{
    sim_trace("process %u: its connection ends", process->number);
    process->ended = true;
    process->connected = false;
    queue_clear(&process->to_client);
    stream_session_ended(process);
    restart_enter();
    mkt_market_session_end(world.market, process->session, world.now);
    restart_leave();
    check_poisoned(process);
}

void world_session_reclaim(struct process *process)
{
    sim_trace("process %u: reclaimed", process->number);
    if (!process->ended && process->program)
        stream_session_ended(process);
    process->ended = process->reclaimed = true;
    queue_clear(&process->to_client);
    queue_clear(&process->to_market);
    restart_enter();
    mkt_market_session_reclaim(world.market, process->session, world.now);
    restart_leave();
}

void world_stub_removed(unsigned at)
{
    uint8_t object[MKT_ID_BYTES];

    sim_trace("the market hears that a stub was removed");
    uint8_t path = world.removed_path[at];
    memcpy(object, world.removed[at], MKT_ID_BYTES);
    memmove(world.removed[at], world.removed[at + 1], (--world.removals - at) * MKT_ID_BYTES);
    memmove(&world.removed_path[at], &world.removed_path[at + 1], world.removals - at);
    restart_enter();
    bool heard =
        mkt_market_stub_removed(world.market, object, world.path[path].has_file, world.now);
    restart_leave();
    if (heard && !world.path[path].has_file)
        world.path[path].owed = 0; /* withdrawn */
    if (!heard) {                  /* looked at again later */
        memcpy(world.removed[world.removals], object, MKT_ID_BYTES);
        world.removed_path[world.removals++] = path;
    }
}

void world_disturb(unsigned path)
{
    world.path[path].committed = 0;
    world.path[path].owed = 0;
    world.meddled = true;
    for (unsigned i = 0; i < world.processes; i++) {
        struct process *process = &world.process[i];

        if (process->program && process->job < process->program->jobs &&
            process->program->job[process->job].path == path)
            process->known_version = process->published = 0;
    }
}

/* ---- life ---- */

static const struct mkt_market_ops operations = {.send = on_send,
                                                 .write = on_write,
                                                 .grow = on_grow,
                                                 .freed = on_freed,
                                                 .drop_stub = on_drop_stub,
                                                 .move_out = tier_move_out,
                                                 .move_in = tier_move_in,
                                                 .drop_cold = tier_drop_cold,
                                                 .refuse = on_refuse,
                                                 .reserve = restart_reserve,
                                                 .append = restart_append,
                                                 .done = restart_done};
const struct mkt_market_ops *const world_operations = &operations;

void world_reconnect(void)
{
    world.answers_again = true;
    for (unsigned i = 0; i < world.processes; i++) {
        struct process *process = &world.process[i];

        if (!process->exists || process->ended)
            continue;
        process->was_answered = process->to_client.count > 0;
        queue_clear(&process->to_client);
        mkt_market_answer_again(world.market, process->session);
    }
    world.answers_again = false;
    find_published(); /* what the call in which it died may have published */
}

static void make_paths(void)
{
    for (unsigned p = 0; p < PATHS; p++) {
        struct path *path = &world.path[p];

        snprintf(path->name, sizeof(path->name), "/data/file%u.h5", p);
        path->uses_stub = p % 2 == 0;
        path->has_file = p == 1 && one_in(3);
        path->mtime = 1000;
        path->ino = ++world.last_ino;
    }
}

void world_begin(uint64_t seed, bool short_of_memory)
{
    bool trace = world.trace;
    static const uint64_t arena_kib[] = {16, 32, 64, 256};

    memset(&world, 0, offsetof(struct world, failed));
    memset((char *)&world + offsetof(struct world, market), 0,
           sizeof(world) - offsetof(struct world, market));
    world.trace = trace;
    world.seed = world.random = seed;
    world.now = 100000;
    world.short_of_memory = short_of_memory;
    world.audit_always = one_in(8);
    world.limits = (struct mkt_market_limits){
        .arena_bytes = arena_kib[chance(0, 3)] << 10,
        .scratch_bytes = one_in(2) ? 0 : chance(1, 8) * 256,
        .full_timeout_ms = (uint32_t)chance(50, 500),
        .join_timeout_ms = (uint32_t)chance(50, 500),
        .commit_timeout_ms = (uint32_t)chance(50, 500),
        .max_objects = one_in(10) ? 2 : 64,
        .max_groups = one_in(10) ? 3 : 64,
        .max_waiting = one_in(10) ? 2 : 64,
        .max_pieces = one_in(6) ? 6 : 1000,
        .max_readers = one_in(10) ? 1 : MKT_STREAM_READERS_MAX,
        .reader_grace_ms = (uint32_t)chance(0, 300),
    };
    world.limits.memory_bytes = one_in(3) ? world.limits.arena_bytes * 4 : chance(8, 40) << 10;
    world.node_random = ~seed;
    world.limits.nodes = (uint32_t)random_in(&world.node_random, 1, 3);
    if (world.limits.nodes > 1 && world.limits.arena_bytes > 4 * world.limits.memory_bytes)
        world.most_arenas = (unsigned)random_in(&world.node_random, 0, 1); /* has room for all */
    tier_begin(&world.limits);
    world.restart_rarity = short_of_memory || one_in(3) ? 0 : (unsigned)chance(10, 300);
    restart_begin(world.restart_rarity > 0);
    stream_begin();
    memory_arm(short_of_memory ? chance(20, 400) : 0, seed);
    world.market = mkt_market_create(&world.limits, &operations, NULL);
    SIM_CHECK(world.market, "no market");
    make_paths();
}

void world_end(void)
{
    memory_arm(0, 0);
    for (unsigned i = 0; i < world.processes; i++) {
        queue_clear(&world.process[i].to_client);
        queue_clear(&world.process[i].to_market);
    }
    mkt_market_destroy(world.market);
    world.market = NULL;
    for (unsigned a = 0; a < world.arenas; a++)
        free(world.arena[a]);
    world.arenas = 0;
    restart_begin(false);
    tier_end();
    content_free();
}
