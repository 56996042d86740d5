/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A market under many sessions: thousands of writers and readers in random order, full memory with
 * a tier below, deaths in the middle of everything. At the end nothing is lost, nothing is left, no
 * wait has passed its deadline; and a call costs about the same among 10,000 sessions as among 100.
 *
 * One process a group: what groups of ranks do to one another is tests/sim's. Everything comes from
 * one seed.
 */
#include "core/market/market.h"
#include "tests/unit/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ARENA_BYTES = 64 << 20,
    MAX_ARENAS = 64,
    MAX_PIECES = 6,
    PIECE_WORDS = 4096, /* of a piece, at most */
    ARRAY_WORDS = MAX_PIECES * PIECE_WORDS,
    IMAGE_WORDS = 2, /* the attempt, and how many pieces it wrote */
    WAIT_MS = 2000,
    FULL_MS = 3000,
    MOVE_MS = 2000, /* a move that has begun ends, however long that takes */
    ROUND_MS = 200, /* on average a session acts once in this time */
    MOVES = 64,
    DATASET = 1
};

#define CHECK(condition, ...)                                                               \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr,                                                                 \
                    "market_scale: seed %llu, step %llu: ", (unsigned long long)scale.seed, \
                    (unsigned long long)scale.step);                                        \
            fprintf(stderr, __VA_ARGS__);                                                   \
            fprintf(stderr, "\n");                                                          \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

/* ---- what is measured ---- */

enum call {
    CALL_BEGIN,
    CALL_CREATE,
    CALL_READ,
    CALL_GRANT,
    CALL_ADD,
    CALL_COMMIT,
    CALL_FETCH,
    CALL_RELEASE,
    CALL_CLOSE,
    CALL_CANCEL,
    CALL_WITHDRAW,
    CALL_MOVED,
    CALL_TICK,
    CALL_END,
    CALL_RECLAIM,
    CALL_USAGE,
    CALLS
};
static const char *const call_name[CALLS] = {"session begin", "OPEN create", "OPEN read", "GRANT",
                                             "ADD",           "COMMIT",      "FETCH",     "RELEASE",
                                             "CLOSE",         "CANCEL",      "WITHDRAW",  "moved",
                                             "tick",          "session end", "reclaim",   "usage"};

struct cost {
    uint64_t calls, ns;
};

/* ---- the world ---- */

enum state {
    GONE,
    IDLE,
    CREATING, /* until OPENED */
    WRITING,
    GRANTING, /* until GRANTED */
    GRANTED,
    OPENING, /* a reader, until OPENED */
    READING,
    FETCHING /* until FETCHED */
};

struct seen {
    struct mkt_extent data;
    uint64_t stamp;
};

struct actor {
    enum state state;
    uint64_t session, request, deadline_ms; /* of the wait */
    uint32_t path;
    uint64_t file, attempt;
    unsigned pieces, done;   /* of the version that is written or read */
    uint64_t words;          /* of the piece in hand */
    struct mkt_extent bytes; /* GRANTED; READING: fetched, to be given back */
    struct mkt_span span;
    struct seen piece[MAX_PIECES];
};

struct path {
    bool by_stub;
    uint64_t stub;             /* serial number of the object whose stub stands there; 0: none */
    uint64_t version, attempt; /* the newest; 0: none */
};

struct kept {
    uint64_t length;
    uint8_t bytes[];
};

struct pending {
    uint64_t move;
    bool in;
    struct mkt_extent memory, cold;
    uint64_t from;
};

static struct {
    uint64_t seed, random, step, now;
    struct mkt_market *market;
    uint8_t *arena[MAX_ARENAS];
    struct actor *actor;
    uint32_t actors;
    struct path *path;
    uint64_t last_session, last_request, last_attempt, last_stub;
    uint64_t *ended; /* sessions that are to be reclaimed */
    uint32_t ended_count;
    struct kept **kept; /* by the number of its place */
    uint64_t kept_count, kept_capacity, kept_live;
    struct pending pending[MOVES];
    unsigned moves;
    struct cost cost[CALLS];
    uint64_t versions, verified, fetched, timeouts, deaths;
} scale;

static uint64_t chance(uint64_t low, uint64_t high)
{
    return random_in(&scale.random, low, high);
}

static bool one_in(uint64_t n)
{
    return chance(1, n) == 1;
}

static uint64_t cpu_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void account(enum call call, uint64_t started_ns)
{
    scale.cost[call].ns += cpu_ns() - started_ns;
    scale.cost[call].calls++;
}

static void *address(const struct mkt_extent *extent)
{
    CHECK(extent->arena >= 1 && extent->arena <= MAX_ARENAS && scale.arena[extent->arena - 1],
          "an extent is in arena %u", extent->arena);
    return scale.arena[extent->arena - 1] + extent->offset;
}

/* ---- contents: each word names its writer's attempt, its piece and its place ---- */

static uint64_t word(uint64_t attempt, unsigned piece, uint64_t at)
{
    return attempt * 0x9e3779b97f4a7c15u ^ (uint64_t)piece << 56 ^ at;
}

static void fill(uint64_t *words, uint64_t count, uint64_t attempt, unsigned piece)
{
    for (uint64_t i = 0; i < count; i++)
        words[i] = word(attempt, piece, i);
}

static void verify(const struct actor *actor, const uint64_t *words, uint64_t from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        CHECK(words[i] == word(actor->attempt, actor->done, from + i),
              "word %llu of piece %u of version by attempt %llu of path %u is wrong",
              (unsigned long long)(from + i), actor->done, (unsigned long long)actor->attempt,
              actor->path);
    scale.verified += count * sizeof(*words);
}

/* ---- the market's shell ---- */

static void on_write(void *context, const struct mkt_extent *extent, const void *bytes)
{
    (void)context;
    memcpy(address(extent), bytes, extent->length);
}

static enum mkt_status on_grow(void *context, uint32_t arena, uint32_t node, uint64_t size_bytes,
                               struct mkt_error *error)
{
    (void)context;
    (void)node;
    CHECK(arena >= 1 && arena <= MAX_ARENAS, "arena %u", arena);
    scale.arena[arena - 1] = malloc(size_bytes);
    return scale.arena[arena - 1] ? MKT_OK : mkt_error_set(error, MKT_NO_MEMORY, "no memory");
}

/* Who still uses it sees so. */
static void on_freed(void *context, const struct mkt_extent *extent)
{
    (void)context;
    memset(address(extent), 0xdd, extent->length < 64 ? extent->length : 64);
}

static void on_drop_stub(void *context, const uint8_t object[MKT_ID_BYTES])
{
    uint64_t stub, path;

    (void)context;
    memcpy(&stub, object, sizeof(stub));
    memcpy(&path, object + sizeof(stub), sizeof(path));
    if (scale.path[path - 1].stub == stub)
        scale.path[path - 1].stub = 0;
}

static void on_refuse(void *context, uint64_t session, const char *why)
{
    (void)context;
    CHECK(false, "session %llu was refused: %s", (unsigned long long)session, why);
}

/* ---- the tier: places are numbers, moves end later than they begin ---- */

static struct pending *add_move(uint64_t move)
{
    CHECK(scale.moves < MOVES, "too many moves at one time");
    scale.pending[scale.moves] = (struct pending){.move = move};
    return &scale.pending[scale.moves++];
}

static void on_move_out(void *context, uint64_t move, const struct mkt_extent *memory)
{
    (void)context;
    add_move(move)->memory = *memory;
}

static void on_move_in(void *context, uint64_t move, const struct mkt_market_reading *reading)
{
    struct pending *pending = add_move(move);

    (void)context;
    pending->in = true;
    pending->memory = reading->memory;
    pending->cold = reading->cold;
    pending->from = reading->from;
}

static struct kept **kept_at(const struct mkt_extent *cold)
{
    CHECK(cold->offset < scale.kept_count && scale.kept[cold->offset],
          "a piece is to be in the tier, and isn't there");
    return &scale.kept[cold->offset];
}

static void on_drop_cold(void *context, const struct mkt_extent *cold)
{
    struct kept **kept = kept_at(cold);

    (void)context;
    free(*kept);
    *kept = NULL;
    scale.kept_live--;
}

static struct mkt_extent keep(const struct mkt_extent *memory)
{
    struct kept *kept = malloc(sizeof(*kept) + memory->length);

    if (scale.kept_count == scale.kept_capacity) {
        scale.kept_capacity = scale.kept_capacity ? 2 * scale.kept_capacity : 1024;
        scale.kept = realloc(scale.kept, scale.kept_capacity * sizeof(*scale.kept));
    }
    CHECK(kept && scale.kept, "no memory for the tier");
    kept->length = memory->length;
    memcpy(kept->bytes, address(memory), memory->length);
    scale.kept[scale.kept_count] = kept;
    scale.kept_live++;
    return (struct mkt_extent){
        .arena = MKT_ARENA_TIER, .offset = scale.kept_count++, .length = memory->length};
}

/* Ends one move. */
static void tier_act(void)
{
    unsigned at = (unsigned)chance(0, scale.moves - 1);
    struct pending done = scale.pending[at];
    enum mkt_status status = one_in(200) ? MKT_IO_ERROR : MKT_OK;

    scale.pending[at] = scale.pending[--scale.moves];
    if (status == MKT_OK && !done.in) {
        done.cold = keep(&done.memory);
    } else if (status == MKT_OK) {
        const struct kept *kept = *kept_at(&done.cold);
        uint64_t length = kept->length - done.from;

        memcpy(address(&done.memory), kept->bytes + done.from,
               length < done.memory.length ? length : done.memory.length);
    }
    uint64_t started = cpu_ns();
    mkt_market_moved(scale.market, done.move, status, &done.cold, scale.now);
    account(CALL_MOVED, started);
}

/* ---- answers ---- */

static void on_error(struct actor *actor, const struct mkt_msg_error *error)
{
    CHECK(error->status == MKT_TIMED_OUT || error->status == MKT_NOT_FOUND ||
              error->status == MKT_BUSY || error->status == MKT_NO_SPACE ||
              error->status == MKT_CANCELLED || error->status == MKT_POISONED ||
              error->status == MKT_IO_ERROR,
          "session %llu was told: %.*s", (unsigned long long)actor->session,
          (int)error->text.length, (const char *)error->text.data);
    scale.timeouts += error->status == MKT_TIMED_OUT || error->status == MKT_NO_SPACE;
    if (actor->state == CREATING || actor->state == OPENING)
        actor->state = IDLE;
    else if (actor->state == FETCHING)
        actor->state = READING;
    else if (actor->state == GRANTING)
        actor->state = WRITING;
}

static enum mkt_status see_piece(void *context, const struct mkt_piece *piece)
{
    struct actor *actor = context;

    CHECK(actor->pieces < MAX_PIECES, "a version has too many pieces");
    actor->piece[actor->pieces++] = (struct seen){piece->data, piece->stamp};
    return MKT_OK;
}

static void on_opened_to_read(struct actor *actor, const struct mkt_msg_opened *opened)
{
    const struct path *path = &scale.path[actor->path];
    const uint64_t zero = 0, all = ARRAY_WORDS;
    struct mkt_index_view view;
    uint64_t image[2];
    struct mkt_slab want;

    memcpy(image, address(&opened->image), sizeof(image));
    CHECK(opened->version == path->version && image[0] == path->attempt,
          "path %u: version %llu by attempt %llu was opened, but %llu by %llu is the newest",
          actor->path, (unsigned long long)opened->version, (unsigned long long)image[0],
          (unsigned long long)path->version, (unsigned long long)path->attempt);
    CHECK(mkt_index_view_open(&view, address(&opened->index), opened->index.length) == MKT_OK,
          "an index is corrupt");
    actor->file = opened->file;
    actor->attempt = image[0];
    actor->pieces = actor->done = 0;
    mkt_slab_box(&want, 1, &zero, &all);
    CHECK(mkt_index_view_query(&view, 0, &want, see_piece, actor) == MKT_OK &&
              actor->pieces == image[1],
          "a version has %u pieces, not %llu", actor->pieces, (unsigned long long)image[1]);
    actor->state = READING;
}

static void on_opened(struct actor *actor, const struct mkt_msg_opened *opened)
{
    if (actor->state == OPENING) {
        on_opened_to_read(actor, opened);
        return;
    }
    CHECK(actor->state == CREATING && opened->source == MKT_SOURCE_EMPTY, "a create was opened");
    actor->file = opened->file;
    actor->attempt = ++scale.last_attempt;
    actor->pieces = (unsigned)chance(1, MAX_PIECES);
    actor->done = 0;
    actor->state = WRITING;
}

/* What was asked for is there, whole pieces in their place in memory as well. */
static void on_fetched(struct actor *actor, const struct mkt_msg_fetched *fetched)
{
    const uint8_t *bytes = address(&fetched->extent);

    CHECK(actor->state == FETCHING, "a piece came for nothing");
    verify(actor, (const uint64_t *)(bytes + (actor->span.offset - fetched->from)),
           actor->span.offset / sizeof(uint64_t), actor->span.length / sizeof(uint64_t));
    actor->bytes = fetched->owned ? fetched->extent : (struct mkt_extent){.length = 0};
    actor->done++;
    scale.fetched++;
    actor->state = READING;
}

static void on_committed(struct actor *actor, uint64_t version)
{
    struct path *path = &scale.path[actor->path];

    CHECK(actor->state == WRITING, "a commit was answered for nothing");
    actor->state = IDLE;
    if (version == 0)
        return; /* withdrawn meanwhile */
    path->version = version;
    path->attempt = actor->attempt;
    scale.versions++;
}

/* The market must not be called from here: what an answer leads to is done when the session acts
 * again. */
static void on_send(void *context, uint64_t session, const struct mkt_msg *msg,
                    const struct mkt_extent *populate)
{
    struct actor *actor = &scale.actor[session % scale.actors];

    (void)context;
    (void)populate;
    CHECK(actor->session == session && msg->request == actor->request,
          "session %llu was answered a request that it doesn't wait for",
          (unsigned long long)session);
    CHECK(scale.now <= actor->deadline_ms, "an answer came %llu ms after its deadline",
          (unsigned long long)(scale.now - actor->deadline_ms));
    switch (msg->type) {
    case MKT_MSG_ERROR:
        on_error(actor, &msg->error);
        break;
    case MKT_MSG_OPENED:
        on_opened(actor, &msg->opened);
        break;
    case MKT_MSG_GRANTED:
        CHECK(actor->state == GRANTING, "a grant came for nothing");
        actor->bytes = msg->extent.extent;
        actor->state = GRANTED;
        break;
    case MKT_MSG_COMMITTED:
        on_committed(actor, msg->version.version);
        break;
    case MKT_MSG_FETCHED:
        on_fetched(actor, &msg->fetched);
        break;
    case MKT_MSG_WAITING: /* no answer */
        CHECK(actor->state == GRANTING || actor->state == FETCHING,
              "somebody who waits for no memory is told on whom");
        break;
    default:
        CHECK(msg->type == MKT_MSG_WITHDRAWN, "an answer of type %d", msg->type);
        break;
    }
}

static void send_message(struct actor *actor, enum call call, struct mkt_msg msg)
{
    if (msg.request == 0)
        msg.request = ++scale.last_request;
    if (msg.type != MKT_MSG_CANCEL)
        actor->request = msg.request;
    uint64_t started = cpu_ns();
    mkt_market_message(scale.market, actor->session, &msg, scale.now);
    account(call, started);
}

/* ---- a writer ---- */

static struct mkt_bytes text(const char *string)
{
    return (struct mkt_bytes){string, (uint32_t)strlen(string)};
}

static struct mkt_name name_of(uint32_t at, char buffer[32])
{
    const struct path *path = &scale.path[at];
    struct mkt_name name = {.parent_dev = 1, .parent_ino = 2};
    uint64_t number = at + 1;

    snprintf(buffer, 32, "step%06u.h5", at);
    name.leaf = name.path = text(buffer);
    if (path->stub) {
        memcpy(name.object, &path->stub, sizeof(path->stub));
        memcpy(name.object + sizeof(path->stub), &number, sizeof(number));
    }
    return name;
}

static struct mkt_msg open_msg(struct actor *actor, enum mkt_intent intent, char buffer[32])
{
    struct mkt_msg msg = {.type = MKT_MSG_OPEN};

    msg.open.size = 1;
    msg.open.intent = intent;
    msg.open.mode = MKT_MODE_MEMORY;
    msg.open.name = name_of(actor->path, buffer);
    return msg;
}

static void act_create(struct actor *actor)
{
    struct path *path;
    char buffer[32];

    actor->path = (uint32_t)chance(0, scale.actors - 1);
    path = &scale.path[actor->path];
    if (path->by_stub && !path->stub)
        path->stub = ++scale.last_stub;
    struct mkt_msg msg = open_msg(actor, MKT_INTENT_CREATE, buffer);
    msg.open.has_stub = path->stub != 0;
    actor->state = CREATING;
    actor->deadline_ms = scale.now;
    send_message(actor, CALL_CREATE, msg);
}

/* The next piece, or in the end the image. */
static void act_grant(struct actor *actor)
{
    struct mkt_msg msg = {.type = MKT_MSG_GRANT};

    actor->words = actor->done < actor->pieces ? chance(1, PIECE_WORDS) : IMAGE_WORDS;
    msg.grant.bytes = actor->words * sizeof(uint64_t);
    actor->state = GRANTING;
    actor->deadline_ms = scale.now + FULL_MS;
    send_message(actor, CALL_GRANT, msg);
}

static const struct mkt_array dataset = {
    .identity = 1, .element_bytes = sizeof(uint64_t), .rank = 1, .dims = {ARRAY_WORDS}};

static void act_add(struct actor *actor)
{
    uint8_t record[MKT_PIECE_RECORD_MAX_BYTES];
    struct mkt_piece piece = {.form = MKT_PIECE_BOX, .data = actor->bytes};
    const uint64_t start = actor->done * PIECE_WORDS;
    struct mkt_msg msg = {.type = MKT_MSG_ADD};

    piece.data.length = actor->words * sizeof(uint64_t);
    fill(address(&actor->bytes), actor->words, actor->attempt, actor->done++);
    mkt_slab_box(&piece.slab, 1, &start, &actor->words);
    mkt_piece_encode(&piece, record);
    msg.add.file = actor->file;
    msg.add.array = dataset;
    msg.add.count = 1;
    msg.add.records = (struct mkt_bytes){record, mkt_piece_record_bytes(&piece)};
    actor->bytes.length = 0;
    actor->state = WRITING;
    send_message(actor, CALL_ADD, msg);
}

static void act_commit(struct actor *actor)
{
    uint64_t *image = address(&actor->bytes);
    struct mkt_msg msg = {.type = MKT_MSG_COMMIT};
    uint8_t record[512];

    image[0] = actor->attempt;
    image[1] = actor->pieces;
    mkt_array_record_encode(&dataset, record);
    msg.commit.file = actor->file;
    msg.commit.image = actor->bytes;
    msg.commit.image.length = IMAGE_WORDS * sizeof(*image);
    msg.commit.count = 1;
    msg.commit.arrays = (struct mkt_bytes){record, (uint32_t)mkt_array_record_bytes(&dataset)};
    actor->bytes.length = 0;
    actor->state = WRITING;
    actor->deadline_ms = scale.now;
    send_message(actor, CALL_COMMIT, msg);
}

static void act_close(struct actor *actor)
{
    actor->state = IDLE;
    send_message(actor, CALL_CLOSE,
                 (struct mkt_msg){.type = MKT_MSG_CLOSE, .file = {.file = actor->file}});
}

/* ---- a reader ---- */

static void act_open(struct actor *actor)
{
    char buffer[32];

    actor->path = (uint32_t)chance(0, scale.actors - 1);
    struct mkt_msg msg = open_msg(actor, MKT_INTENT_READ, buffer);
    msg.open.wait_ms = msg.open.writer_timeout_ms = one_in(8) ? 0 : WAIT_MS;
    actor->state = OPENING;
    actor->deadline_ms = scale.now + WAIT_MS;
    send_message(actor, CALL_READ, msg);
}

static void act_fetch(struct actor *actor, const struct seen *piece)
{
    struct mkt_msg msg = {.type = MKT_MSG_FETCH};
    uint64_t words = piece->data.length / sizeof(uint64_t), from = chance(0, words - 1);

    actor->span =
        (struct mkt_span){from * sizeof(uint64_t), chance(1, words - from) * sizeof(uint64_t)};
    msg.fetch.file = actor->file;
    msg.fetch.identity = dataset.identity;
    msg.fetch.stamp = piece->stamp;
    msg.fetch.count = 1;
    msg.fetch.spans = &actor->span;
    actor->state = FETCHING;
    actor->deadline_ms = scale.now + FULL_MS + MOVE_MS;
    send_message(actor, CALL_FETCH, msg);
}

static void act_read(struct actor *actor)
{
    if (actor->bytes.length > 0) {
        struct mkt_extent bytes = actor->bytes;

        actor->bytes.length = 0;
        send_message(actor, CALL_RELEASE,
                     (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &bytes}});
    } else if (actor->done == actor->pieces) {
        act_close(actor);
    } else if (mkt_extent_is_cold(&actor->piece[actor->done].data)) {
        act_fetch(actor, &actor->piece[actor->done]);
    } else {
        const struct mkt_extent *data = &actor->piece[actor->done].data;

        verify(actor, address(data), 0, data->length / sizeof(uint64_t));
        actor->done++;
    }
}

/* ---- a session's life ---- */

static void act_begin(struct actor *actor)
{
    uint64_t at = (uint64_t)(actor - scale.actor);

    actor->session = ++scale.last_session * scale.actors + at;
    actor->state = IDLE;
    actor->bytes.length = 0;
    uint64_t started = cpu_ns();
    enum mkt_status status =
        mkt_market_session_begin(scale.market, actor->session, "scale", (uint32_t)at, MKT_NO_NODE);
    account(CALL_BEGIN, started);
    CHECK(status == MKT_OK, "a session can't begin: %s", mkt_status_text(status));
}

/* Its process may live on, and be known to be dead later. */
static void act_die(struct actor *actor)
{
    uint64_t started = cpu_ns();

    actor->state = GONE;
    mkt_market_session_end(scale.market, actor->session, scale.now);
    account(CALL_END, started);
    scale.ended[scale.ended_count++] = actor->session;
    scale.deaths++;
}

static void reclaim_one(void)
{
    uint32_t at = (uint32_t)chance(0, scale.ended_count - 1);
    uint64_t session = scale.ended[at], started = cpu_ns();

    scale.ended[at] = scale.ended[--scale.ended_count];
    mkt_market_session_reclaim(scale.market, session, scale.now);
    account(CALL_RECLAIM, started);
}

static void act_withdraw(struct actor *actor)
{
    struct mkt_msg msg = {.type = MKT_MSG_WITHDRAW};
    char buffer[32];

    actor->path = (uint32_t)chance(0, scale.actors - 1);
    actor->deadline_ms = scale.now;
    msg.withdraw.name = name_of(actor->path, buffer);
    scale.path[actor->path].version = 0;
    send_message(actor, CALL_WITHDRAW, msg);
}

static void act_cancel(struct actor *actor)
{
    send_message(actor, CALL_CANCEL,
                 (struct mkt_msg){.type = MKT_MSG_CANCEL, .request = actor->request});
}

static void act_idle(struct actor *actor)
{
    if (one_in(40))
        act_withdraw(actor);
    else if (one_in(3))
        act_create(actor);
    else
        act_open(actor);
}

static void act(struct actor *actor)
{
    if (actor->state != GONE && one_in(100)) {
        act_die(actor);
        return;
    }
    switch (actor->state) {
    case GONE:
        act_begin(actor);
        break;
    case IDLE:
        act_idle(actor);
        break;
    case WRITING:
        act_grant(actor);
        break;
    case GRANTED:
        if (actor->done < actor->pieces)
            act_add(actor);
        else
            act_commit(actor);
        break;
    case READING:
        act_read(actor);
        break;
    default:
        if (one_in(50))
            act_cancel(actor);
        break;
    }
}

/* ---- a run ---- */

static void look(void)
{
    struct mkt_market_usage usage;
    uint64_t started = cpu_ns();

    mkt_market_usage(scale.market, &usage);
    account(CALL_USAGE, started);
    CHECK(usage.used_bytes >= usage.published_bytes + usage.granted_bytes,
          "%llu bytes are used, and %llu and %llu published and granted",
          (unsigned long long)usage.used_bytes, (unsigned long long)usage.published_bytes,
          (unsigned long long)usage.granted_bytes);
    for (uint32_t at = 0; at < scale.actors; at++) {
        const struct actor *actor = &scale.actor[at];

        CHECK((actor->state != GRANTING && actor->state != OPENING && actor->state != FETCHING) ||
                  scale.now <= actor->deadline_ms,
              "session %llu waits %llu ms past its deadline", (unsigned long long)actor->session,
              (unsigned long long)(scale.now - actor->deadline_ms));
    }
}

static void audit(void)
{
    struct mkt_error error;

    CHECK(mkt_market_audit(scale.market, &error) == MKT_OK, "audit: %s", error.text);
}

static void advance(uint64_t now)
{
    while (mkt_market_next_deadline(scale.market) <= now) {
        uint64_t deadline = mkt_market_next_deadline(scale.market), started;

        scale.now = deadline > scale.now ? deadline : scale.now;
        started = cpu_ns();
        mkt_market_tick(scale.market, scale.now);
        account(CALL_TICK, started);
    }
    scale.now = now;
}

static void step(void)
{
    scale.step++;
    advance(10000 + scale.step * ROUND_MS / scale.actors);
    if (scale.moves > 0 && one_in(2))
        tier_act();
    if (scale.ended_count > 0 && (scale.ended_count == scale.actors || one_in(40)))
        reclaim_one();
    act(&scale.actor[chance(0, scale.actors - 1)]);
}

static void set_up(uint32_t actors, uint64_t seed)
{
    static const struct mkt_market_ops ops = {.send = on_send,
                                              .write = on_write,
                                              .grow = on_grow,
                                              .freed = on_freed,
                                              .drop_stub = on_drop_stub,
                                              .move_out = on_move_out,
                                              .move_in = on_move_in,
                                              .drop_cold = on_drop_cold,
                                              .refuse = on_refuse};
    const uint64_t memory = (uint64_t)actors * (48 << 10) + (1 << 20);
    const struct mkt_market_limits limits = {.memory_bytes = memory,
                                             .arena_bytes = ARENA_BYTES,
                                             .full_timeout_ms = FULL_MS,
                                             .join_timeout_ms = 500,
                                             .commit_timeout_ms = 2000,
                                             .max_objects = 2 * actors,
                                             .max_groups = 4 * actors,
                                             .max_waiting = actors,
                                             .max_pieces = 100,
                                             .tier_bytes = memory,
                                             .tier_least_bytes = 4096,
                                             .tier_high_bytes = memory / 100 * 80,
                                             .tier_low_bytes = memory / 100 * 70,
                                             .promote_after = 3};

    memset(&scale, 0, sizeof(scale));
    scale.seed = scale.random = seed;
    scale.actors = actors;
    scale.now = 10000;
    scale.actor = calloc(actors, sizeof(*scale.actor));
    scale.path = calloc(actors, sizeof(*scale.path));
    scale.ended = calloc(actors, sizeof(*scale.ended));
    scale.market = mkt_market_create(&limits, &ops, NULL);
    CHECK(scale.actor && scale.path && scale.ended && scale.market, "no memory");
    for (uint32_t at = 0; at < actors; at++)
        scale.path[at].by_stub = one_in(2);
}

/* All sessions end, moves too; then everything is withdrawn. */
static void wind_up(void)
{
    struct mkt_market_usage usage;

    for (uint32_t at = 0; at < scale.actors; at++) {
        while (scale.ended_count > 0)
            reclaim_one();
        if (scale.actor[at].state != GONE)
            act_die(&scale.actor[at]);
    }
    while (scale.ended_count > 0)
        reclaim_one();
    while (scale.moves > 0)
        tier_act();
    audit();
    mkt_market_usage(scale.market, &usage);
    CHECK(usage.used_bytes == usage.published_bytes && usage.granted_bytes == 0,
          "%llu bytes are used, %llu published", (unsigned long long)usage.used_bytes,
          (unsigned long long)usage.published_bytes);
    act_begin(&scale.actor[0]);
    for (uint32_t at = 0; at < scale.actors; at++) {
        struct mkt_msg msg = {.type = MKT_MSG_WITHDRAW};
        char buffer[32];

        msg.withdraw.name = name_of(at, buffer);
        scale.actor[0].deadline_ms = scale.now;
        send_message(&scale.actor[0], CALL_WITHDRAW, msg);
    }
    while (scale.moves > 0)
        tier_act();
    audit();
    mkt_market_usage(scale.market, &usage);
    CHECK(usage.used_bytes == 0 && usage.objects == 0 && usage.groups == 0 && usage.versions == 0 &&
              usage.tier_bytes == 0 && scale.kept_live == 0,
          "%llu bytes, %u objects, %llu bytes in the tier are left",
          (unsigned long long)usage.used_bytes, usage.objects,
          (unsigned long long)usage.tier_bytes);
}

static void tear_down(void)
{
    mkt_market_destroy(scale.market);
    for (unsigned a = 0; a < MAX_ARENAS; a++)
        free(scale.arena[a]);
    free(scale.actor);
    free(scale.path);
    free(scale.ended);
    free(scale.kept);
}

static void run(uint32_t actors, uint64_t rounds, uint64_t seed, struct cost cost_out[CALLS])
{
    const uint64_t steps = actors * rounds, looks = 16;

    set_up(actors, seed);
    for (uint64_t part = 0; part < looks; part++) {
        for (uint64_t i = 0; i < steps / looks; i++)
            step();
        look();
        if (actors <= 1000)
            audit();
    }
    memcpy(cost_out, scale.cost, sizeof(scale.cost));
    wind_up();
    printf("%u sessions: %llu versions, %llu MiB verified, %llu reads from the tier, %llu deaths, "
           "%llu waits timed out\n",
           actors, (unsigned long long)scale.versions, (unsigned long long)scale.verified >> 20,
           (unsigned long long)scale.fetched, (unsigned long long)scale.deaths,
           (unsigned long long)scale.timeouts);
    fflush(stdout);
    tear_down();
}

/* ---- figures ---- */

#define SIZES 3
static const uint32_t size[SIZES] = {100, 1000, 10000};

static double mean_ns(const struct cost *cost)
{
    return cost->calls > 0 ? (double)cost->ns / (double)cost->calls : 0;
}

/* Linear would be a factor of 100. What is left to caches, and to a busy machine, is far less. It
 * is for people to judge: times fail no test. */
#define FACTOR_MAX 15
#define NOISE_NS   2000

static void print_costs(struct cost cost[SIZES][CALLS])
{
    printf("%-14s", "ns a call");
    for (unsigned s = 0; s < SIZES; s++)
        printf(" %10u", size[s]);
    printf("    calls\n");
    for (unsigned call = 0; call < CALLS; call++) {
        double first = mean_ns(&cost[0][call]), last = mean_ns(&cost[SIZES - 1][call]);
        bool grows = last > FACTOR_MAX * (first > NOISE_NS ? first : NOISE_NS);

        printf("%-14s", call_name[call]);
        for (unsigned s = 0; s < SIZES; s++)
            printf(" %10.0f", mean_ns(&cost[s][call]));
        printf(" %8llu%s\n", (unsigned long long)cost[SIZES - 1][call].calls,
               grows ? "  grows with the number of sessions" : "");
    }
}

/* market_scale [rounds [seed]]: each session acts about so often */
int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 100;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    static struct cost cost[SIZES][CALLS];

    for (unsigned s = 0; s < SIZES; s++)
        run(size[s], rounds * (s == 0 ? 10 : 1), seed, cost[s]);
    print_costs(cost);
    return 0;
}
