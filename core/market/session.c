/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/market/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct session *mkt_session_find(const struct mkt_market *market, uint64_t id)
{
    struct session *session;

    HASH_FIND(hh, market->sessions, &id, sizeof(id), session);
    return session;
}

static void copy_program(char *out, size_t capacity, const char *program)
{
    size_t at = 0;

    for (; program && program[at] && at < capacity - 1; at++)
        out[at] = (unsigned char)program[at] < ' ' || program[at] == 0x7f ? '?' : program[at];
    out[at] = '\0';
    if (at == 0)
        strcpy(out, "?");
}

static enum mkt_status begin(struct mkt_market *market, uint64_t id, const char *program,
                             uint32_t pid, uint32_t node)
{
    struct session *session;

    if (mkt_session_find(market, id))
        return MKT_EXISTS;
    if (HASH_COUNT(market->sessions) >= MKT_MAX_SESSIONS)
        return MKT_NO_SPACE;
    session = calloc(1, sizeof(*session));
    if (!session)
        return MKT_NO_MEMORY;
    session->id = id;
    session->pid = pid;
    session->node = node;
    copy_program(session->program, sizeof(session->program), program);
    HASH_ADD(hh, market->sessions, id, sizeof(session->id), session);
    if (!MKT_TABLE_ADDED(session, hh)) {
        free(session);
        return MKT_NO_MEMORY;
    }
    return MKT_OK;
}

enum mkt_status mkt_market_session_begin(struct mkt_market *market, uint64_t id,
                                         const char *program, uint32_t pid, uint32_t node)
{
    mkt_record_session_begin(market, id, program, pid, node);
    enum mkt_status status = begin(market, id, program, pid, node);
    mkt_record_done(market);
    return status;
}

/* The connection of a member is gone; what its process could touch stays. */
static void member_gone(struct mkt_market *market, struct member *member, uint64_t now_ms)
{
    struct group *group = member->group;
    char who[128];

    mkt_member_text(member, who);
    switch (group->state) {
    case GROUP_JOINING:
    case GROUP_WAITING:
        mkt_open_fail(market, group, MKT_PEER_DOWN, "'%s' was not opened: %s ended while it waited",
                      group->has_name ? mkt_path_text(group->name.path) : "a file", who);
        break;
    case GROUP_READING:
        member->state = MEMBER_GONE;
        mkt_stream_leave(market, group);
        break;
    case GROUP_WRITING:
        if (group->published) {
            member->state = MEMBER_GONE;
            break;
        }
        if (member->state == MEMBER_COMMITTING)
            group->committed--;
        member->state = MEMBER_GONE;
        mkt_group_poison(market, group, now_ms, "%s ended before the file was closed by all ranks",
                         who);
        break;
    }
}

/* One that goes may take others of the session along, or give them what they waited for. */
static struct member *first_present(const struct session *session)
{
    struct member *member;

    DL_FOREACH (session->members, member) {
        if (member->state != MEMBER_GONE)
            return member;
    }
    return NULL;
}

void mkt_market_session_end(struct mkt_market *market, uint64_t id, uint64_t now_ms)
{
    struct session *session = mkt_session_find(market, id);
    struct member *member;

    if (!session || session->ended)
        return;
    mkt_record_session_end(market, id, now_ms);
    session->ended = true;
    session->reply_bytes = 0;
    market->now_ms = now_ms;
    mkt_grant_forget(market, session);
    mkt_save_forget(market, session);
    mkt_tier_forget(market, session);
    while ((member = first_present(session)))
        member_gone(market, member, now_ms);
    mkt_stream_forget(market, session);
    mkt_settle(market);
    mkt_record_done(market);
}

void mkt_market_session_reclaim(struct mkt_market *market, uint64_t id, uint64_t now_ms)
{
    struct session *session = mkt_session_find(market, id);

    if (!session)
        return;
    market->now_ms = now_ms;
    mkt_market_session_end(market, id, now_ms);
    mkt_record_session_reclaim(market, id, now_ms);
    while (session->members)
        mkt_member_done(market, session->members);
    market->granted_bytes -= session->grants.bytes;
    mkt_bytes_free_ranges(market, &session->grants);
    HASH_DEL(market->sessions, session);
    mkt_session_free(session);
    mkt_settle(market);
    mkt_record_done(market);
}

bool mkt_market_session_is_bare(const struct mkt_market *market, uint64_t id)
{
    const struct session *session = mkt_session_find(market, id);

    return !session || (session->ended && !session->members && session->grants.count == 0);
}

void mkt_session_free(struct session *session)
{
    mkt_ranges_fini(&session->grants);
    free(session->reply);
    free(session);
}

/* ---- connecting anew ---- */

void mkt_session_remember(struct session *session, const struct mkt_msg *msg)
{
    size_t bytes;

    session->reply_bytes = 0;
    if (mkt_msg_encode(msg, false, session->reply, session->reply_capacity, &bytes) != MKT_OK) {
        uint8_t *larger = mkt_msg_size(msg, &bytes) == MKT_OK ? malloc(bytes) : NULL;
        if (!larger)
            return;
        free(session->reply);
        session->reply = larger;
        session->reply_capacity = (uint32_t)bytes;
        if (mkt_msg_encode(msg, false, session->reply, bytes, &bytes) != MKT_OK)
            return;
    }
    session->reply_bytes = (uint32_t)bytes;
}

static bool recall(const struct session *session, struct mkt_msg *msg_out)
{
    struct mkt_frame_wire head;

    if (session->reply_bytes == 0)
        return false;
    memcpy(&head, session->reply, sizeof(head));
    return mkt_msg_decode(&head, session->reply + sizeof(head), msg_out) == MKT_OK;
}

enum mkt_status mkt_market_session_resume(struct mkt_market *market, uint64_t id,
                                          uint64_t *processed_out)
{
    const struct session *session = mkt_session_find(market, id);

    if (!session || session->ended || session->refused)
        return MKT_NOT_FOUND;
    *processed_out = session->last_request;
    return MKT_OK;
}

void mkt_market_answer_again(struct mkt_market *market, uint64_t id)
{
    struct session *session = mkt_session_find(market, id);
    struct mkt_extent populate = {.length = 0};
    struct mkt_msg msg;

    if (!session || session->ended || session->refused || !recall(session, &msg))
        return;
    if (msg.type == MKT_MSG_GRANTED)
        populate = msg.extent.extent;
    else if (msg.type == MKT_MSG_OPENED)
        populate = msg.opened.scratch;
    market->ops.send(market->context, id, &msg, &populate);
}

static void answer_without_pages(struct mkt_market *market, struct session *session,
                                 uint64_t request)
{
    struct mkt_msg msg;

    if (recall(session, &msg) && msg.request == request && msg.type == MKT_MSG_OPENED) {
        msg.opened.scratch = (struct mkt_extent){.length = 0};
        mkt_reply(market, session, &msg, NULL);
    } else
        mkt_reply_error(
            market, session, request, MKT_NO_SPACE,
            "the node has no memory left for the market (see 'memory' in h5market.yaml)");
}

void mkt_market_no_pages(struct mkt_market *market, uint64_t id, uint64_t request,
                         const struct mkt_extent *extent, uint64_t now_ms)
{
    struct session *session = mkt_session_find(market, id);

    if (!session || session->ended || session->refused)
        return;
    mkt_record_no_pages(market, id, request, extent, now_ms);
    market->now_ms = now_ms;
    if (mkt_session_give(market, session, extent)) {
        answer_without_pages(market, session, request);
        mkt_settle(market);
    }
    mkt_record_done(market);
}

enum mkt_status mkt_session_grant(struct mkt_market *market, struct session *session,
                                  const struct mkt_extent *extent)
{
    enum mkt_status status = mkt_ranges_put(&session->grants, extent);

    if (status == MKT_OK)
        market->granted_bytes += mkt_round_granule(extent->length);
    return status;
}

enum mkt_status mkt_session_take(struct mkt_market *market, struct session *session,
                                 const struct mkt_extent *extent)
{
    enum mkt_status status = mkt_ranges_take(&session->grants, extent);

    if (status == MKT_OK)
        market->granted_bytes -= mkt_round_granule(extent->length);
    return status;
}

bool mkt_session_give(struct mkt_market *market, struct session *session,
                      const struct mkt_extent *extent)
{
    enum mkt_status status = mkt_session_take(market, session, extent);

    if (status == MKT_PROTOCOL) {
        mkt_refuse(market, session, "it gave back or published bytes that were not granted to it");
        return false;
    }
    /* Without memory to split the range the bytes stay granted until the session ends. */
    if (status == MKT_OK)
        mkt_bytes_free(market, extent);
    return true;
}
