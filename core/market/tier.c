/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tier below memory: pieces of published versions move there when memory runs short, and come
 * back, whole or in part, when somebody reads them.
 *
 *   in memory ── OUT ─▶ in both ──▶ in the tier ── IN, after n reads ─▶ in both
 *                                        └─ IN for a reader: parts, in bytes of his own
 *
 * Published bytes never change, so a move needs no lock: it copies, then looks whether the piece
 * may change its place still. A reader's version keeps its places: what it found in memory stays
 * there, and what it found in the tier it asks for by FETCH, whose answer is where it is then. Only
 * pieces of a single version that nobody has open leave memory; its index is told at the next open.
 *
 * Who goes first (S3-FIFO): a version starts in a small queue, and leaves it in the order of
 * publication; what was read more than once by then goes to the main queue, whose head goes round
 * once more for each read. So a pass over everything pushes nothing out that is read again and
 * again, at the cost of a number and a mark a version.
 *
 * Each queue holds, by turn, the versions that may have something to give. One that turns out to
 * have nothing is taken out, with its turn, and comes back when something about it changes: nobody
 * has it open any more, a move ended, who shared its pieces has gone.
 */
#include "core/market/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_PERCENT 10u         /* of the memory in use, for the small queue */
#define LEAST_BYTES   (16u << 10) /* smaller pieces stay: each needs a block of its own there */
#define HEAT_MAX      3u
#define BLOCK_BYTES   4096u
#define PAUSE_MS      1000u /* after a failure */

static bool has_tier(const struct mkt_market *market)
{
    return market->limits.tier_bytes > 0;
}

/* ---- places ---- */

/* What the records of indexes say from now on. */
static void note_place(struct held_piece *piece)
{
    const struct mkt_extent *place = piece->data.length > 0 ? &piece->data : &piece->cold;

    memcpy(piece->record + offsetof(struct mkt_piece_record_wire, data), place, sizeof(*place));
}

static void note_copy(struct mkt_market *market, struct held_piece *piece)
{
    bool is_copy = piece->data.length > 0 && piece->cold.length > 0;

    if (is_copy && !piece->is_copy)
        DL_APPEND2(market->copies, piece, copy_prev, copy_next);
    else if (!is_copy && piece->is_copy)
        DL_DELETE2(market->copies, piece, copy_prev, copy_next);
    piece->is_copy = is_copy;
}

void mkt_tier_drop(struct mkt_market *market, struct held_piece *piece)
{
    if (piece->cold.length == 0)
        return;
    market->tier_bytes -= piece->cold.length;
    mkt_op_drop_cold(market, &piece->cold);
    piece->cold = (struct mkt_extent){.length = 0};
    note_copy(market, piece);
}

void mkt_tier_note_read(struct version *version)
{
    version->heat += version->heat < HEAT_MAX;
}

enum mkt_status mkt_tier_make_room(struct mkt_market *market, uint32_t versions)
{
    if (!has_tier(market))
        return MKT_OK;
    enum mkt_status status = mkt_heap_reserve(&market->small_queue, versions);

    return status == MKT_OK ? mkt_heap_reserve(&market->main_queue, versions) : status;
}

void mkt_tier_enter(struct mkt_market *market, struct version *version)
{
    version->turn.key = ++market->last_turn;
    version->is_main = false;
    version->heat = 0;
    market->small_bytes += version->data_bytes;
    mkt_tier_wake(market, version);
}

static struct heap *queue_of(struct mkt_market *market, const struct version *version)
{
    return version->is_main ? &market->main_queue : &market->small_queue;
}

void mkt_tier_leave(struct mkt_market *market, struct version *version)
{
    mkt_heap_take(queue_of(market, version), &version->turn);
    market->small_bytes -= version->is_main ? 0 : version->data_bytes;
}

void mkt_tier_wake(struct mkt_market *market, struct version *version)
{
    if (has_tier(market) && version->pins == 0 && !version->retired)
        mkt_heap_put(queue_of(market, version), &version->turn);
}

void mkt_tier_wake_all(struct mkt_market *market, const struct object *object)
{
    struct version *version;

    DL_FOREACH (object->versions, version)
        mkt_tier_wake(market, version);
}

/* ---- moves ---- */

static void move_free(struct mkt_market *market, struct move *move)
{
    if (move->begun) {
        DL_DELETE(market->moves, move);
        market->moves_begun--;
    } else {
        DL_DELETE(market->waiting_moves, move);
        market->waiting_move_bytes -= move->length;
    }
    if (move->begun && !move->in)
        market->leaving_bytes -= mkt_round_granule(move->memory.length);
    if (move->session)
        DL_DELETE2(move->session->fetches, move, session_prev, session_next);
    move->piece->moves--;
    mkt_piece_drop(market, move->piece);
    mkt_tier_wake_all(market, move->object);
    mkt_object_put(market, move->object);
    free(move->span);
    free(move);
}

static struct move *move_create(struct mkt_market *market, struct object *object,
                                struct held_piece *piece, bool in)
{
    struct move *move = calloc(1, sizeof(*move));

    if (!move)
        return NULL;
    move->id = ++market->last_move;
    move->in = in;
    move->object = object;
    mkt_object_get(object);
    move->piece = piece;
    piece->references++;
    piece->moves++;
    DL_APPEND(market->waiting_moves, move);
    return move;
}

static void begin(struct mkt_market *market, struct move *move)
{
    DL_DELETE(market->waiting_moves, move);
    DL_APPEND(market->moves, move);
    market->waiting_move_bytes -= move->in ? move->length : 0;
    move->begun = true;
    market->moves_begun++;
    if (!move->in)
        market->leaving_bytes += mkt_round_granule(move->memory.length);
    mkt_op_move(market, move);
}

/* ---- who leaves ---- */

static bool may_leave(const struct mkt_market *market, const struct held_piece *piece)
{
    return piece->data.length >= market->limits.tier_least_bytes && piece->data.length > 0 &&
           piece->references == 1; /* the version's */
}

bool mkt_tier_may_give(const struct mkt_market *market, const struct version *version)
{
    uint64_t p = 0;

    while (p < version->pieces && !may_leave(market, version->piece[p]))
        p++;
    return p < version->pieces && version->pins == 0 && !version->retired && !version->object->pin;
}

static struct held_piece *first_to_leave(const struct mkt_market *market, struct version *version)
{
    for (uint64_t p = version->stays; p < version->pieces; p++) {
        if (may_leave(market, version->piece[p]))
            return version->piece[p];
        if (p == version->stays &&
            (version->piece[p]->data.length == 0 ||
             version->piece[p]->data.length < market->limits.tier_least_bytes))
            version->stays++;
    }
    return NULL;
}

/* The first of a queue that has something to give. */
static struct version *head_of(const struct mkt_market *market, struct heap *queue)
{
    struct ranked *first;

    while ((first = mkt_heap_first(queue))) {
        struct version *version =
            (struct version *)((char *)first - offsetof(struct version, turn));

        if (version->pins == 0 && !version->retired && !version->object->pin &&
            first_to_leave(market, version))
            return version;
        mkt_heap_take(queue, first);
    }
    return NULL;
}

/* The version that gives next; NULL: none can. */
static struct version *victim(struct mkt_market *market)
{
    bool small = market->small_bytes > market->used_bytes / 100 * SMALL_PERCENT;
    struct heap *const first = small ? &market->small_queue : &market->main_queue,
                       *const other = small ? &market->main_queue : &market->small_queue;

    for (;;) {
        struct version *version = head_of(market, first);

        if (!version)
            version = head_of(market, other);
        if (!version)
            return NULL;
        if (!version->is_main && version->heat > 1) {
            mkt_heap_take(&market->small_queue, &version->turn);
            market->small_bytes -= version->data_bytes;
            version->is_main = true;
            version->heat = 0;
        } else if (version->is_main && version->heat > 0) {
            version->heat--;
        } else {
            return version;
        }
        version->turn.key = ++market->last_turn;
        mkt_heap_put(&market->main_queue, &version->turn);
    }
}

/* A copy in the tier of what is in memory as well; room for what is in neither. */
static bool drop_a_copy(struct mkt_market *market)
{
    struct held_piece *piece;

    DL_FOREACH2 (market->copies, piece, copy_next) {
        if (piece->moves == 0) {
            mkt_tier_drop(market, piece);
            return true;
        }
    }
    return false;
}

static bool has_room(struct mkt_market *market, uint64_t bytes)
{
    if (bytes > market->limits.tier_bytes)
        return false;
    do {
        if (market->tier_bytes + market->leaving_bytes <= market->limits.tier_bytes - bytes)
            return true;
    } while (drop_a_copy(market));
    return false;
}

uint64_t mkt_tier_reserve(const struct mkt_market *market)
{
    uint64_t half = market->limits.memory_bytes / 2;

    return market->largest_cold_bytes < half ? market->largest_cold_bytes : half;
}

bool mkt_tier_is_full(const struct mkt_market *market, uint64_t bytes)
{
    uint64_t taken = market->tier_bytes + market->leaving_bytes;

    return !has_tier(market) || taken > market->limits.tier_bytes ||
           bytes > market->limits.tier_bytes - taken;
}

/* So many bytes ought to leave memory, beside those that are leaving. */
static uint64_t excess(struct mkt_market *market)
{
    const struct mkt_market_limits *limits = &market->limits;
    uint64_t used = market->used_bytes - market->leaving_bytes;
    uint64_t wanted = market->grant_waits ? market->grant_waits->bytes : 0;

    if (market->used_bytes > limits->tier_high_bytes)
        market->empties = true;
    if (used <= limits->tier_low_bytes)
        market->empties = false;
    uint64_t goal = limits->memory_bytes - mkt_tier_reserve(market);
    goal -= wanted < goal ? wanted : goal;
    if (market->empties && limits->tier_low_bytes < goal)
        goal = limits->tier_low_bytes;
    return used > goal ? used - goal : 0;
}

/* What the tier has of it already needs no copying. */
static void leave(struct mkt_market *market, struct held_piece *piece, struct version *version)
{
    mkt_version_account(market, &piece->data, false);
    mkt_bytes_free(market, &piece->data);
    piece->data = (struct mkt_extent){.length = 0};
    piece->reads = 0;
    note_place(piece);
    note_copy(market, piece);
    version->index_is_old = true;
}

static bool start_leaving(struct mkt_market *market, struct version *version)
{
    struct held_piece *piece = first_to_leave(market, version);
    struct move *move;

    if (piece->cold.length > 0) {
        leave(market, piece, version);
        return true;
    }
    if (!has_room(market, piece->data.length))
        return false;
    move = move_create(market, version->object, piece, false);
    if (!move)
        return false;
    move->version = version;
    move->memory = piece->data;
    begin(market, move);
    return true;
}

static void make_room(struct mkt_market *market)
{
    struct version *version;

    if (market->tier_pause_ms > market->now_ms)
        return;
    while (market->moves_begun < MKT_MOVES_AT_ONCE && excess(market) > 0 &&
           (version = victim(market)) && start_leaving(market, version))
        ;
}

/* ---- who comes back ---- */

static bool fits_well(const struct mkt_market *market, uint64_t bytes)
{
    return market->used_bytes + mkt_round_granule(bytes) <= market->limits.tier_high_bytes;
}

static void refuse(struct mkt_market *market, struct move *move, enum mkt_status status,
                   const char *why)
{
    mkt_reply_error(market, move->session, move->request, status, "%s", why);
    move_free(market, move);
}

/* The piece is in memory meanwhile: that is the answer. */
static void answer_in_place(struct mkt_market *market, struct session *session, uint64_t request,
                            const struct held_piece *piece)
{
    struct mkt_msg answer = {.type = MKT_MSG_FETCHED, .request = request};

    answer.fetched.extent = piece->data;
    mkt_reply(market, session, &answer, NULL);
}

/* What a session reads: the version of a file that is open there, or what it saves. */
static struct version *version_of(struct mkt_market *market, struct session *session, uint64_t file)
{
    struct version *version;

    if (file != 0) {
        const struct member *member = mkt_member_find(market, session, file);
        return member ? member->group->version_open : NULL;
    }
    DL_FOREACH2 (market->unsaved, version, save_next) {
        if (version->save.saver == session)
            return version;
    }
    return NULL;
}

/* False: there is no memory for it now. */
static bool start_coming(struct mkt_market *market, struct move *move)
{
    enum mkt_status status;

    if (move->piece->data.length > 0) {
        answer_in_place(market, move->session, move->request, move->piece);
        move_free(market, move);
        return true;
    }
    status = mkt_bytes_alloc(market, move->length, BLOCK_BYTES, BYTES_READ,
                             move->session ? move->session->node : MKT_NO_NODE, &move->memory);
    if (status == MKT_NO_SPACE)
        return false;
    if (status != MKT_OK)
        refuse(market, move, status, mkt_bytes_why(market, status));
    if (status != MKT_OK)
        return true;
    begin(market, move);
    return true;
}

static void serve_fetches(struct mkt_market *market)
{
    struct move *move, *next;

    DL_FOREACH_SAFE (market->waiting_moves, move, next) {
        if (market->moves_begun >= 2 * MKT_MOVES_AT_ONCE || !start_coming(market, move))
            return;
    }
}

void mkt_tier_serve(struct mkt_market *market)
{
    if (!has_tier(market))
        return;
    serve_fetches(market);
    make_room(market);
}

/* ---- FETCH ---- */

static struct held_piece *find_piece(const struct version *version, uint64_t identity,
                                     uint64_t stamp)
{
    const struct version_array *array = mkt_version_array(version, identity, 0);

    return array ? mkt_piece_by_stamp(array->piece, array->count, stamp, NULL) : NULL;
}

static bool spans_are_valid(const struct mkt_span *spans, uint32_t count, uint64_t length)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (spans[i].length == 0 || spans[i].offset < end || spans[i].offset > length ||
            spans[i].length > length - spans[i].offset)
            return false;
        end = spans[i].offset + spans[i].length;
    }
    return count > 0;
}

/* What is wanted, or the whole piece: if it is to stay, or if that takes no longer. */
static void set_extent(struct mkt_market *market, struct move *move)
{
    const struct mkt_market_limits *limits = &market->limits;
    uint64_t length = move->piece->cold.length;

    move->keeps = limits->promote_after > 0 && move->piece->reads >= limits->promote_after &&
                  fits_well(market, length);
    if (move->keeps ||
        mkt_cost_prefers_whole(&limits->tier_speeds, move->span, move->spans, length)) {
        move->span[0] = (struct mkt_span){0, length};
        move->spans = 1;
    }
    const struct mkt_span *last = &move->span[move->spans - 1];
    move->from = move->span[0].offset & ~(uint64_t)(BLOCK_BYTES - 1);
    move->length = last->offset + last->length - move->from;
    market->waiting_move_bytes += move->length;
}

static struct move *fetch_create(struct mkt_market *market, struct session *session,
                                 const struct mkt_msg *msg, struct object *object,
                                 struct held_piece *piece)
{
    const struct mkt_msg_fetch *fetch = &msg->fetch;
    struct mkt_span *spans = malloc(fetch->count * sizeof(*spans));
    struct move *move = spans ? move_create(market, object, piece, true) : NULL;

    if (!move) {
        free(spans);
        return NULL;
    }
    memcpy(spans, fetch->spans, fetch->count * sizeof(*spans));
    move->span = spans;
    move->spans = fetch->count;
    move->session = session;
    DL_APPEND2(session->fetches, move, session_prev, session_next);
    move->request = msg->request;
    move->started_ms = market->now_ms;
    move->deadline_ms = market->now_ms + market->limits.full_timeout_ms;
    return move;
}

void mkt_tier_fetch(struct mkt_market *market, struct session *session, const struct mkt_msg *msg)
{
    const struct mkt_msg_fetch *fetch = &msg->fetch;
    const struct version *version = version_of(market, session, fetch->file);
    struct held_piece *piece = version ? find_piece(version, fetch->identity, fetch->stamp) : NULL;

    if (!piece) {
        mkt_reply_error(market, session, msg->request, MKT_STALE,
                        "the version that is read has no such piece");
        return;
    }
    market->fetches++;
    if (piece->data.length > 0) {
        answer_in_place(market, session, msg->request, piece);
        return;
    }
    struct move *move = fetch_create(market, session, msg, version->object, piece);
    if (!move) {
        mkt_reply_error(market, session, msg->request, MKT_NO_MEMORY,
                        "the market daemon is out of memory");
        return;
    }
    if (!spans_are_valid(move->span, move->spans, piece->cold.length)) {
        move_free(market, move);
        mkt_refuse(market, session, "it asked for bytes that a piece doesn't have");
        return;
    }
    piece->reads += piece->reads < UINT8_MAX;
    set_extent(market, move);
    mkt_note_deadline(market, move->deadline_ms);
    mkt_grant_note_wait(market);
}

/* ---- moves that ended ---- */

static void moved_out(struct mkt_market *market, struct move *move, enum mkt_status status,
                      const struct mkt_extent *cold)
{
    struct held_piece *piece = move->piece;

    if (status != MKT_OK) {
        market->tier_pause_ms = market->now_ms + PAUSE_MS;
        mkt_note_deadline(market, market->tier_pause_ms);
    } else {
        piece->cold = *cold;
        piece->cold.length = piece->data.length;
        market->tier_bytes += piece->cold.length;
        if (piece->cold.length > market->largest_cold_bytes)
            market->largest_cold_bytes = mkt_round_granule(piece->cold.length);
        market->moved_out_bytes += piece->cold.length;
        /* Somebody may have it open by now, or a new version share it: then it stays as well. */
        if (move->version && move->version->pins == 0 && piece->references == 2)
            leave(market, piece, move->version);
        note_copy(market, piece);
    }
    move_free(market, move);
}

/* The piece has its place in memory again. */
static void keep(struct mkt_market *market, struct move *move)
{
    struct held_piece *piece = move->piece;
    struct version *version;

    piece->data = move->memory;
    piece->data.length = piece->cold.length; /* what was allocated are whole granules */
    mkt_version_account(market, &piece->data, true);
    note_place(piece);
    note_copy(market, piece);
    move->memory = (struct mkt_extent){.length = 0};
    /* Only versions of one object share pieces. Where an index says that it is in the tier, it is
     * asked for, and found here. */
    DL_FOREACH (move->object->versions, version) {
        version->stays = 0;
        version->index_is_old = true;
    }
}

static void give(struct mkt_market *market, struct move *move)
{
    struct mkt_msg answer = {.type = MKT_MSG_FETCHED, .request = move->request};
    enum mkt_status status = mkt_session_grant(market, move->session, &move->memory);

    if (status != MKT_OK) {
        mkt_reply_error(market, move->session, move->request, status,
                        "the market daemon can't note what it read for %s: %s",
                        move->session->program, mkt_status_text(status));
        return;
    }
    answer.fetched.extent = move->memory;
    answer.fetched.from = move->from;
    answer.fetched.owned = true;
    move->memory = (struct mkt_extent){.length = 0};
    mkt_reply(market, move->session, &answer, NULL);
}

/* What was read; between the spans there may be much that wasn't. */
static uint64_t span_bytes(const struct move *move)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < move->spans; i++)
        bytes += move->span[i].length;
    return bytes;
}

static void moved_in(struct mkt_market *market, struct move *move, enum mkt_status status)
{
    struct held_piece *piece = move->piece;
    bool keeps = move->keeps && piece->data.length == 0 && piece->versions > 0;

    if (status == MKT_OK) {
        market->moved_in_bytes += span_bytes(move);
        if (keeps)
            keep(market, move);
        if (keeps && move->session)
            answer_in_place(market, move->session, move->request, piece);
        else if (move->session)
            give(market, move);
    } else if (move->session) {
        mkt_reply_error(market, move->session, move->request, status,
                        "a piece of %llu bytes could not be read from the tier of files (`ssd`): "
                        "%s; the daemon's log says more",
                        (unsigned long long)piece->cold.length, mkt_status_text(status));
    }
    mkt_bytes_free(market, &move->memory);
    move_free(market, move);
}

static struct move *find_move(const struct mkt_market *market, uint64_t id)
{
    struct move *move;

    DL_FOREACH (market->moves, move) {
        if (move->id == id)
            return move;
    }
    return NULL;
}

void mkt_market_moved(struct mkt_market *market, uint64_t id, enum mkt_status status,
                      const struct mkt_extent *cold, uint64_t now_ms)
{
    struct move *move = find_move(market, id);

    if (!move)
        return;
    mkt_record_moved(market, id, status, cold, now_ms);
    market->now_ms = now_ms;
    if (move->in)
        moved_in(market, move, status);
    else
        moved_out(market, move, status, cold);
    mkt_settle(market);
    mkt_record_done(market);
}

void mkt_market_note_tier(struct mkt_market *market, const char *failure)
{
    snprintf(market->tier_failure, sizeof(market->tier_failure), "%s", failure ? failure : "");
}

void mkt_market_move_again(struct mkt_market *market)
{
    struct move *move;

    DL_FOREACH (market->moves, move)
        mkt_op_move(market, move);
}

bool mkt_market_find_piece(const struct mkt_market *market, const uint8_t object[MKT_ID_BYTES],
                           uint64_t number, uint64_t identity, uint64_t stamp,
                           struct mkt_extent *place_out)
{
    const struct version *version;
    const struct held_piece *piece;

    DL_FOREACH2 (market->versions, version, all_next) {
        if (version->number != number || memcmp(version->object->id, object, MKT_ID_BYTES) != 0)
            continue;
        piece = find_piece(version, identity, stamp);
        if (piece)
            *place_out = piece->data.length > 0 ? piece->data : piece->cold;
        return piece != NULL;
    }
    return false;
}

void mkt_market_each_cold(const struct mkt_market *market, mkt_cold_fn fn, void *context)
{
    const struct version *version;
    const struct move *move;

    DL_FOREACH2 (market->versions, version, all_next) {
        for (uint64_t p = 0; p < version->pieces; p++) {
            if (version->piece[p]->cold.length > 0)
                fn(context, &version->piece[p]->cold);
        }
    }
    DL_FOREACH (market->moves, move) {
        if (move->piece->cold.length > 0)
            fn(context, &move->piece->cold);
    }
    DL_FOREACH (market->waiting_moves, move)
        fn(context, &move->piece->cold);
}

/* ---- who goes, and time ---- */

void mkt_tier_forget_version(struct mkt_market *market, const struct version *version)
{
    struct move *move;

    DL_FOREACH (market->moves, move) {
        if (move->version == version)
            move->version = NULL;
    }
}

/* What has begun goes on, for nobody: its memory is in use until it ends. */
static void abandon(struct mkt_market *market, struct move *move)
{
    if (!move->begun) {
        move_free(market, move);
        return;
    }
    DL_DELETE2(move->session->fetches, move, session_prev, session_next);
    move->session = NULL;
}

void mkt_tier_forget(struct mkt_market *market, struct session *session)
{
    while (session->fetches)
        abandon(market, session->fetches);
}

bool mkt_tier_cancel(struct mkt_market *market, struct session *session, uint64_t request)
{
    struct move *move;

    DL_FOREACH2 (session->fetches, move, session_next) {
        if (move->request != request)
            continue;
        mkt_reply_error(market, session, request, MKT_CANCELLED, "the wait was ended");
        abandon(market, move);
        return true;
    }
    return false;
}

void mkt_tier_tick(struct mkt_market *market)
{
    struct move *move;
    char size[2][32], text[300];

    if (market->tier_pause_ms > market->now_ms)
        mkt_note_deadline(market, market->tier_pause_ms);
    /* All wait equally long: the first that came ends first. */
    while ((move = market->waiting_moves)) {
        if (move->deadline_ms > market->now_ms) {
            mkt_note_deadline(market, move->deadline_ms);
            return;
        }
        snprintf(text, sizeof(text),
                 "the market is full: no room for %s that are to be read from the tier of files; "
                 "limit %s (`memory` in h5market.yaml); raise it, or close files",
                 mkt_size_text(move->length, size[0]),
                 mkt_size_text(market->limits.memory_bytes, size[1]));
        refuse(market, move, MKT_NO_SPACE, text);
    }
}

void mkt_tier_destroy(struct mkt_market *market)
{
    while (market->waiting_moves)
        move_free(market, market->waiting_moves);
    while (market->moves) {
        if (market->moves->in)
            mkt_bytes_free(market, &market->moves->memory);
        move_free(market, market->moves);
    }
}
