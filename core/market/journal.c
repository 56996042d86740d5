/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The journal: each call that can change a market, as a record that says all about it, and the way
 * back from records to a market. A new entry of the market needs a kind here.
 *
 *   call ─▶ record ─▶ reserve, append ─▶ state changes ─▶ answers        (a replay: the same from
 * the record on, but the answers, which have left already, or are asked for again)
 *
 * The one thing that a call doesn't decide by itself is whether a new arena could be had: that is a
 * record of its own, behind the call's.
 */
#include "core/market/internal.h"

#include <string.h>

enum call_kind {
    CALL_SESSION_BEGIN = 1,
    CALL_SESSION_END,
    CALL_SESSION_RECLAIM,
    CALL_MESSAGE,
    CALL_TICK,
    CALL_STUB_REMOVED,
    CALL_NO_PAGES,
    CALL_MOVED,
    CALL_GROWN /* the outcome of an arena that the call before wanted */
};

/* Head of a record; `bytes` of payload follow. */
struct call_disk {
    uint32_t kind, bytes;
    uint64_t session, now_ms;
    uint64_t
        detail; /* node and pid, a request, a move, arena and status, or whether it was replaced */
};
_Static_assert(sizeof(struct call_disk) == 32, "a record's head");
_Static_assert(sizeof(struct call_disk) + MKT_FRAME_MAX_BYTES <= MKT_CALL_MAX_BYTES, "it fits");

/* Room for head and payload; NULL: nobody keeps a journal. */
static struct call_disk *start(const struct mkt_market *market)
{
    return market->ops.reserve && !market->replay ? market->ops.reserve(market->context) : NULL;
}

static void keep(const struct mkt_market *market, struct call_disk *call, struct call_disk head,
                 const void *payload)
{
    *call = head;
    if (payload)
        memcpy(call + 1, payload, head.bytes);
    market->ops.append(market->context, sizeof(*call) + head.bytes);
}

void mkt_record_session_begin(struct mkt_market *market, uint64_t session, const char *program,
                              uint32_t pid, uint32_t node)
{
    struct call_disk *call = start(market);
    size_t length = program ? strnlen(program, 255) : 0;

    if (call)
        keep(market, call,
             (struct call_disk){.kind = CALL_SESSION_BEGIN,
                                .bytes = (uint32_t)length,
                                .session = session,
                                .detail = (uint64_t)node << 32 | pid},
             program);
}

void mkt_record_session_end(struct mkt_market *market, uint64_t session, uint64_t now_ms)
{
    struct call_disk *call = start(market);

    if (call)
        keep(market, call,
             (struct call_disk){.kind = CALL_SESSION_END, .session = session, .now_ms = now_ms},
             NULL);
}

void mkt_record_session_reclaim(struct mkt_market *market, uint64_t session, uint64_t now_ms)
{
    struct call_disk *call = start(market);

    if (call)
        keep(market, call,
             (struct call_disk){.kind = CALL_SESSION_RECLAIM, .session = session, .now_ms = now_ms},
             NULL);
}

void mkt_record_message(struct mkt_market *market, uint64_t session, const struct mkt_msg *msg,
                        uint64_t now_ms)
{
    struct call_disk *call = start(market);
    size_t bytes;

    if (!call)
        return;
    if (mkt_msg_encode(msg, false, call + 1, MKT_FRAME_MAX_BYTES, &bytes) == MKT_OK)
        keep(market, call,
             (struct call_disk){.kind = CALL_MESSAGE,
                                .bytes = (uint32_t)bytes,
                                .session = session,
                                .now_ms = now_ms},
             NULL);
    else
        market->ops.append(market->context, 0); /* what came as a frame fits into one */
}

void mkt_record_tick(struct mkt_market *market, uint64_t now_ms)
{
    struct call_disk *call = start(market);

    if (call)
        keep(market, call, (struct call_disk){.kind = CALL_TICK, .now_ms = now_ms}, NULL);
}

void mkt_record_stub_removed(struct mkt_market *market, const uint8_t object[MKT_ID_BYTES],
                             bool replaced, uint64_t now_ms)
{
    struct call_disk *call = start(market);

    if (call)
        keep(market, call,
             (struct call_disk){.kind = CALL_STUB_REMOVED,
                                .bytes = MKT_ID_BYTES,
                                .now_ms = now_ms,
                                .detail = replaced},
             object);
}

void mkt_record_no_pages(struct mkt_market *market, uint64_t session, uint64_t request,
                         const struct mkt_extent *extent, uint64_t now_ms)
{
    struct call_disk *call = start(market);

    if (call)
        keep(market, call,
             (struct call_disk){.kind = CALL_NO_PAGES,
                                .bytes = sizeof(*extent),
                                .session = session,
                                .now_ms = now_ms,
                                .detail = request},
             extent);
}

struct moved_disk {
    struct mkt_extent cold;
    uint64_t status;
};

void mkt_record_moved(struct mkt_market *market, uint64_t move, enum mkt_status status,
                      const struct mkt_extent *cold, uint64_t now_ms)
{
    struct call_disk *call = start(market);
    const struct moved_disk moved = {.cold = *cold, .status = status};

    if (call)
        keep(market, call,
             (struct call_disk){
                 .kind = CALL_MOVED, .bytes = sizeof(moved), .now_ms = now_ms, .detail = move},
             &moved);
}

void mkt_record_done(struct mkt_market *market)
{
    if (market->ops.done && !market->replay)
        market->ops.done(market->context);
}

/* ---- back ---- */

static void advance(struct replay *replay)
{
    if (!replay->next(replay->context, &replay->bytes, &replay->length))
        replay->bytes = NULL;
}

static bool read_head(const void *bytes, size_t length, struct call_disk *head_out);

/* Takes the outcomes that follow a call, so that what comes next is another call, or nothing. */
static enum mkt_status take_outcomes(struct replay *replay)
{
    struct call_disk head;

    replay->grown_count = replay->grown_used = 0;
    for (; replay->bytes; advance(replay)) {
        if (!read_head(replay->bytes, replay->length, &head))
            return MKT_CORRUPT;
        if (head.kind != CALL_GROWN)
            return MKT_OK;
        if (replay->grown_count == MKT_REPLAY_GROWN)
            return MKT_CORRUPT;
        replay->grown[replay->grown_count++] = replay->bytes;
    }
    return MKT_OK;
}

/* A record's head, if that is one. */
static bool read_head(const void *bytes, size_t length, struct call_disk *head_out)
{
    if (length < sizeof(*head_out))
        return false;
    memcpy(head_out, bytes, sizeof(*head_out));
    return head_out->bytes == length - sizeof(*head_out);
}

static enum mkt_status replay_message(struct mkt_market *market, const struct call_disk *call,
                                      const uint8_t *payload)
{
    struct mkt_frame_wire head;
    struct mkt_msg msg;

    if (call->bytes < sizeof(head))
        return MKT_CORRUPT;
    memcpy(&head, payload, sizeof(head));
    if (head.bytes != call->bytes - sizeof(head) ||
        mkt_msg_decode(&head, payload + sizeof(head), &msg) != MKT_OK)
        return MKT_CORRUPT;
    mkt_market_message(market, call->session, &msg, call->now_ms);
    return MKT_OK;
}

static enum mkt_status replay_begin(struct mkt_market *market, const struct call_disk *call,
                                    const uint8_t *payload)
{
    char program[256];

    if (call->bytes >= sizeof(program))
        return MKT_CORRUPT;
    memcpy(program, payload, call->bytes);
    program[call->bytes] = '\0';
    (void)!mkt_market_session_begin(market, call->session, program, (uint32_t)call->detail,
                                    (uint32_t)(call->detail >> 32));
    return MKT_OK;
}

static enum mkt_status replay_no_pages(struct mkt_market *market, const struct call_disk *call,
                                       const uint8_t *payload)
{
    struct mkt_extent extent;

    if (call->bytes != sizeof(extent))
        return MKT_CORRUPT;
    memcpy(&extent, payload, sizeof(extent));
    mkt_market_no_pages(market, call->session, call->detail, &extent, call->now_ms);
    return MKT_OK;
}

static enum mkt_status replay_moved(struct mkt_market *market, const struct call_disk *call,
                                    const uint8_t *payload)
{
    struct moved_disk moved;

    if (call->bytes != sizeof(moved))
        return MKT_CORRUPT;
    memcpy(&moved, payload, sizeof(moved));
    mkt_market_moved(market, call->detail, (enum mkt_status)moved.status, &moved.cold,
                     call->now_ms);
    return MKT_OK;
}

static enum mkt_status replay_call(struct mkt_market *market, const struct call_disk *call,
                                   const uint8_t *payload)
{
    switch (call->kind) {
    case CALL_SESSION_BEGIN:
        return replay_begin(market, call, payload);
    case CALL_SESSION_END:
        mkt_market_session_end(market, call->session, call->now_ms);
        return MKT_OK;
    case CALL_SESSION_RECLAIM:
        mkt_market_session_reclaim(market, call->session, call->now_ms);
        return MKT_OK;
    case CALL_MESSAGE:
        return replay_message(market, call, payload);
    case CALL_TICK:
        mkt_market_tick(market, call->now_ms);
        return MKT_OK;
    case CALL_STUB_REMOVED:
        if (call->bytes != MKT_ID_BYTES)
            return MKT_CORRUPT;
        mkt_market_stub_removed(market, payload, call->detail != 0, call->now_ms);
        return MKT_OK;
    case CALL_NO_PAGES:
        return replay_no_pages(market, call, payload);
    case CALL_MOVED:
        return replay_moved(market, call, payload);
    default:
        return MKT_CORRUPT;
    }
}

enum mkt_status mkt_market_replay(struct mkt_market *market, mkt_record_fn next, void *context,
                                  bool is_done, struct mkt_error *error_out)
{
    struct replay replay = {.next = next, .context = context, .is_done = is_done};
    enum mkt_status status = MKT_OK;
    unsigned long long records = 0;

    market->replay = &replay;
    advance(&replay);
    while (status == MKT_OK && replay.bytes) {
        const uint8_t *bytes = replay.bytes;
        struct call_disk call;

        status = read_head(bytes, replay.length, &call) ? MKT_OK : MKT_CORRUPT;
        advance(&replay);
        if (status == MKT_OK)
            status = take_outcomes(&replay);
        if (status == MKT_OK)
            status = replay_call(market, &call, bytes + sizeof(call));
        records++;
    }
    market->replay = NULL;
    if (status != MKT_OK)
        mkt_error_set(error_out, status, "record %llu of the journal can't be read", records);
    return status;
}

/* ---- the operations ---- */

/* True for calls whose effects the world has seen. */
static bool is_past(const struct mkt_market *market)
{
    return market->replay && (market->replay->bytes || market->replay->is_done);
}

/* Also of a call that is made again because it may not have come to its end. */
static void note_grown(struct mkt_market *market, uint32_t arena, enum mkt_status status,
                       const char *text)
{
    struct call_disk *call = market->ops.reserve ? market->ops.reserve(market->context) : NULL;

    if (call)
        keep(market, call,
             (struct call_disk){.kind = CALL_GROWN,
                                .bytes = status == MKT_OK ? 0 : (uint32_t)strlen(text),
                                .detail = (uint64_t)arena << 32 | status},
             text);
}

/* What became of the arena then. */
static enum mkt_status grow_again(struct mkt_market *market, const uint8_t *record, uint32_t arena,
                                  uint32_t node, uint64_t size_bytes, struct mkt_error *error)
{
    struct call_disk head;

    memcpy(&head, record, sizeof(head));
    if (head.detail >> 32 != arena)
        return mkt_error_set(error, MKT_CORRUPT, "arena %u was not the next one", arena);
    if ((uint32_t)head.detail == MKT_OK)
        return market->ops.grow(market->context, arena, node, size_bytes, error);
    return mkt_error_set(error, (enum mkt_status)(uint32_t)head.detail, "%.*s", (int)head.bytes,
                         (const char *)record + sizeof(head));
}

enum mkt_status mkt_op_grow(struct mkt_market *market, uint32_t arena, uint32_t node,
                            uint64_t size_bytes, struct mkt_error *error)
{
    struct replay *replay = market->replay;

    if (replay && replay->grown_used < replay->grown_count)
        return grow_again(market, replay->grown[replay->grown_used++], arena, node, size_bytes,
                          error);
    enum mkt_status status = market->ops.grow(market->context, arena, node, size_bytes, error);
    note_grown(market, arena, status, error->text);
    return status;
}

void mkt_op_send(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                 const struct mkt_extent *populate)
{
    if (!market->replay)
        market->ops.send(market->context, session->id, msg, populate);
}

void mkt_op_write(struct mkt_market *market, const struct mkt_extent *extent, const void *bytes)
{
    if (!is_past(market))
        market->ops.write(market->context, extent, bytes);
}

void mkt_op_freed(struct mkt_market *market, const struct mkt_extent *extent)
{
    if (!is_past(market) && market->ops.freed)
        market->ops.freed(market->context, extent);
}

void mkt_op_drop_stub(struct mkt_market *market, const uint8_t object[MKT_ID_BYTES])
{
    if (!is_past(market))
        market->ops.drop_stub(market->context, object);
}

/* What is under way at a replay's end is asked for again then. */
void mkt_op_move(struct mkt_market *market, const struct move *move)
{
    const struct mkt_market_reading reading = {.cold = move->piece->cold,
                                               .memory = move->memory,
                                               .from = move->from,
                                               .count = move->spans,
                                               .spans = move->span};

    if (market->replay)
        return;
    if (move->in)
        market->ops.move_in(market->context, move->id, &reading);
    else
        market->ops.move_out(market->context, move->id, &move->memory);
}

void mkt_op_drop_cold(struct mkt_market *market, const struct mkt_extent *cold)
{
    if (!is_past(market))
        market->ops.drop_cold(market->context, cold);
}

void mkt_op_refuse(struct mkt_market *market, struct session *session, const char *why)
{
    if (!market->replay)
        market->ops.refuse(market->context, session->id, why);
}
