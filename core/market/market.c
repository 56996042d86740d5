/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/market/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_MS      20u   /* after the last request, while nobody has a file open */
#define QUIET_OPEN_MS 1000u /* the same, while somebody has: who moves bytes says nothing */

struct mkt_market *mkt_market_create(const struct mkt_market_limits *limits,
                                     const struct mkt_market_ops *ops, void *context)
{
    struct mkt_market *market;

    if (limits->arena_bytes < MKT_EXTENT_GRANULE || limits->arena_bytes % MKT_EXTENT_GRANULE != 0)
        return NULL;
    market = calloc(1, sizeof(*market));
    if (!market)
        return NULL;
    market->limits = *limits;
    market->ops = *ops;
    market->context = context;
    market->next_deadline_ms = UINT64_MAX;
    /* Room for fragmentation: an arena is address space, only its used pages are memory. */
    uint64_t arenas = (2 * (limits->memory_bytes / limits->arena_bytes + 1) + 2) *
                      (limits->nodes > 1 ? limits->nodes : 1);
    market->max_arenas = arenas > UINT16_MAX ? UINT16_MAX : (uint32_t)arenas;
    market->arena = calloc(market->max_arenas, sizeof(*market->arena));
    market->waiting = calloc(MKT_WAITING_BUCKETS, sizeof(struct group *));
    if (!market->arena || !market->waiting) {
        free(market->arena);
        free(market->waiting);
        free(market);
        return NULL;
    }
    return market;
}

static void destroy_groups(struct mkt_market *market)
{
    struct group *group, *next;

    HASH_ITER (hh, market->groups, group, next) {
        for (uint32_t rank = 0; rank < group->size; rank++)
            mkt_member_done(market, &group->member[rank]);
    }
    mkt_group_reap(market);
}

void mkt_market_destroy(struct mkt_market *market)
{
    struct session *session, *next_session;
    struct object *object, *next_object;

    if (!market)
        return;
    HASH_ITER (hh, market->sessions, session, next_session) {
        session->ended = true;
        mkt_grant_forget(market, session);
        mkt_save_forget(market, session);
        mkt_stream_forget(market, session);
    }
    mkt_tier_destroy(market);
    destroy_groups(market);
    HASH_ITER (hh, market->objects, object, next_object) {
        object->has_stub = false; /* stubs outlive a daemon */
        mkt_object_withdraw(market, object, true, "the market ended");
    }
    mkt_save_drop_held(market);
    mkt_stream_drop_all(market);
    HASH_ITER (hh, market->sessions, session, next_session) {
        HASH_DEL(market->sessions, session);
        mkt_session_free(session);
    }
    for (uint32_t i = 0; i < market->arenas; i++)
        mkt_space_destroy(market->arena[i].space);
    free(market->arena);
    free(market->waiting);
    mkt_heap_fini(&market->timed);
    mkt_heap_fini(&market->small_queue);
    mkt_heap_fini(&market->main_queue);
    free(market);
}

/* ---- answers ---- */

void mkt_reply(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
               const struct mkt_extent *populate)
{
    static const struct mkt_extent nothing;

    if (session && !session->ended && !session->refused) {
        market->replies++;
        mkt_session_remember(session, msg);
        mkt_op_send(market, session, msg, populate ? populate : &nothing);
    }
}

void mkt_reply_error(struct mkt_market *market, struct session *session, uint64_t request,
                     enum mkt_status status, const char *format, ...)
{
    char text[MKT_ERROR_TEXT_BYTES];
    struct mkt_msg msg = {.type = MKT_MSG_ERROR, .request = request};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    msg.error.status = status;
    msg.error.text = (struct mkt_bytes){text, (uint32_t)strlen(text)};
    mkt_reply(market, session, &msg, NULL);
}

void mkt_refuse(struct mkt_market *market, struct session *session, const char *why)
{
    if (session->ended || session->refused)
        return;
    session->refused = true;
    mkt_op_refuse(market, session, why);
}

const char *mkt_path_text(const char *path)
{
    size_t length = strlen(path);

    return length > MKT_PATH_TEXT_BYTES ? path + length - MKT_PATH_TEXT_BYTES : path;
}

const char *mkt_size_text(uint64_t bytes, char buffer[32])
{
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    unsigned at = 0;

    for (; value >= 1024 && at < 5; at++)
        value /= 1024;
    snprintf(buffer, 32, at == 0 ? "%.0f %s" : "%.1f %s", value, unit[at]);
    return buffer;
}

/* ---- messages ---- */

static void release(struct mkt_market *market, struct session *session,
                    const struct mkt_msg_release *release)
{
    for (uint32_t i = 0; i < release->count; i++) {
        struct mkt_extent extent;

        memcpy(&extent, (const uint8_t *)release->extents + i * sizeof(extent), sizeof(extent));
        if (!mkt_session_give(market, session, &extent))
            return;
    }
}

/* Ends one waiting request of the session, if it still waits. */
static void cancel(struct mkt_market *market, struct session *session, uint64_t request,
                   uint64_t now_ms)
{
    struct member *member;

    if (mkt_grant_cancel(market, session, request) || mkt_save_cancel(market, session, request) ||
        mkt_tier_cancel(market, session, request))
        return;
    DL_FOREACH (session->members, member) {
        if (member->request == request &&
            (member->state == MEMBER_WAITING || member->state == MEMBER_COMMITTING))
            break;
    }
    if (!member)
        return;
    struct group *group = member->group;
    char who[128];
    mkt_member_text(member, who);
    if (member->state == MEMBER_WAITING) {
        mkt_open_fail(market, group, MKT_CANCELLED, "'%s' was not opened: %s gave up waiting",
                      group->has_name ? mkt_path_text(group->name.path) : "a file", who);
    } else if (group->published) {
        mkt_reply_error(market, session, request, MKT_CANCELLED,
                        "'%s' is published in memory; whether its file is safe was not waited for",
                        mkt_path_text(group->object->name.path));
        mkt_member_done(market, member);
    } else {
        mkt_reply_error(market, session, request, MKT_CANCELLED,
                        "'%s' was not published: the wait was ended",
                        mkt_path_text(group->object->name.path));
        group->committed--;
        mkt_member_done(market, member);
        mkt_group_poison(market, group, now_ms, "%s gave up waiting for the other ranks", who);
    }
}

static void withdraw(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                     uint64_t now_ms)
{
    struct owned_name name;
    bool differs;

    if (mkt_owned_name_init(&name, &msg->withdraw.name) != MKT_OK) {
        mkt_reply_error(market, session, msg->request, MKT_NO_MEMORY,
                        "the market daemon is out of memory");
        return;
    }
    struct object *object = mkt_object_by_client_name(market, &name, &differs);
    if (!object && mkt_id_is_zero(name.object) && name.file.ino == 0)
        object = mkt_object_by_place(market, &name);
    if (!object) {
        mkt_reply_error(market, session, msg->request, MKT_NOT_FOUND,
                        "the market holds nothing for '%s'", mkt_path_text(name.path));
    } else {
        char why[128];
        struct mkt_msg answer = {.type = MKT_MSG_WITHDRAWN, .request = msg->request};

        snprintf(why, sizeof(why), "withdrawn by %s (pid %u)", session->program, session->pid);
        mkt_object_get(object);
        answer.count.versions = mkt_object_withdraw(market, object, false, why);
        mkt_open_wake(market, object, now_ms);
        mkt_object_put(market, object);
        mkt_reply(market, session, &answer, NULL);
    }
    mkt_owned_name_fini(&name);
}

static void dispatch(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                     uint64_t now_ms)
{
    switch (msg->type) {
    case MKT_MSG_OPEN:
        mkt_open_request(market, session, msg, now_ms);
        break;
    case MKT_MSG_CANCEL:
        cancel(market, session, msg->request, now_ms);
        break;
    case MKT_MSG_GRANT:
        mkt_grant_request(market, session, msg, now_ms);
        break;
    case MKT_MSG_RELEASE:
        release(market, session, &msg->release);
        break;
    case MKT_MSG_ADD:
        mkt_group_add(market, session, msg, now_ms);
        break;
    case MKT_MSG_TOUCH:
        mkt_group_touch(market, session, msg, now_ms);
        break;
    case MKT_MSG_LOOKUP:
        mkt_group_lookup(market, session, msg, now_ms);
        break;
    case MKT_MSG_COMMIT:
        mkt_commit_request(market, session, msg, now_ms);
        break;
    case MKT_MSG_CLOSE:
        mkt_group_close(market, session, msg, now_ms);
        break;
    case MKT_MSG_WITHDRAW:
        withdraw(market, session, msg, now_ms);
        break;
    case MKT_MSG_SAVE_NEXT:
        mkt_save_next(market, session, msg);
        break;
    case MKT_MSG_SAVE_YIELD:
        mkt_save_yield(market, session, msg);
        break;
    case MKT_MSG_SAVE_PLACE:
        mkt_save_place(market, session, msg);
        break;
    case MKT_MSG_SAVE_DONE:
        mkt_save_done(market, session, msg);
        break;
    case MKT_MSG_SAVE_WAIT:
        mkt_save_wait(market, session, msg);
        break;
    case MKT_MSG_FETCH:
        mkt_tier_fetch(market, session, msg);
        break;
    case MKT_MSG_DRAIN:
        mkt_save_drain(market, session, msg);
        break;
    case MKT_MSG_END:
        mkt_stream_end(market, session, msg);
        break;
    default:
        mkt_refuse(market, session, "it sent a message that is not for the market");
        break;
    }
}

void mkt_settle(struct mkt_market *market)
{
    do {
        do
            mkt_group_reap(market);
        while (mkt_stream_serve(market));
        mkt_bytes_retry_deferred(market);
        mkt_grant_serve(market);
        mkt_tier_serve(market);
        mkt_save_serve(market);
    } while (market->has_stream_news); /* what gave way for memory was unread */
}

void mkt_market_message(struct mkt_market *market, uint64_t id, const struct mkt_msg *msg,
                        uint64_t now_ms)
{
    struct session *session = mkt_session_find(market, id);

    if (!session || session->ended || session->refused)
        return;
    mkt_record_message(market, id, msg, now_ms);
    market->requests++;
    if (msg->type != MKT_MSG_CANCEL && msg->request > session->last_request)
        session->last_request = msg->request;
    market->now_ms = now_ms;
    if (msg->type < MKT_MSG_SAVE_NEXT && !session->yields)
        market->foreground_ms = now_ms;
    dispatch(market, session, msg, now_ms);
    mkt_settle(market);
    mkt_record_done(market);
}

bool mkt_market_stub_removed(struct mkt_market *market, const uint8_t id[MKT_ID_BYTES],
                             bool replaced, uint64_t now_ms)
{
    struct object *object = mkt_object_by_id(market, id);
    const struct version *newest = object ? mkt_version_visible(object) : NULL;

    /* Not while its own file takes the stub's place. */
    if (object && mkt_save_is_placing(market, object))
        return false;
    if (!object || (!object->has_stub && object->name.file.ino == 0))
        return true;
    mkt_record_stub_removed(market, id, replaced, now_ms);
    market->now_ms = now_ms;
    if (replaced && newest && mkt_save_is_owed(newest)) {
        mkt_object_lose_stub(market, object);
        mkt_settle(market);
        mkt_record_done(market);
        return true;
    }
    mkt_object_get(object);
    mkt_object_withdraw(market, object, true, "withdrawn: its file was removed");
    mkt_open_wake(market, object, now_ms);
    mkt_object_put(market, object);
    mkt_settle(market);
    mkt_record_done(market);
    return true;
}

/* ---- time ---- */

void mkt_note_deadline(struct mkt_market *market, uint64_t deadline_ms)
{
    if (deadline_ms < market->next_deadline_ms)
        market->next_deadline_ms = deadline_ms;
}

uint64_t mkt_market_next_deadline(const struct mkt_market *market)
{
    return market->next_deadline_ms;
}

uint64_t mkt_market_quiet_ms(const struct mkt_market *market)
{
    bool has_open_files =
        HASH_COUNT(market->groups) > market->waiting_opens + market->background_files;

    return market->foreground_ms + (has_open_files ? QUIET_OPEN_MS : QUIET_MS);
}

/* A group whose time is up leaves the list or gets a later deadline, and may take others along. */
static struct group *first_expired(const struct mkt_market *market, uint64_t now_ms)
{
    struct ranked *first = mkt_heap_first(&market->timed);

    if (!first || first->key > now_ms)
        return NULL;
    return (struct group *)((char *)first - offsetof(struct group, deadline));
}

void mkt_market_tick(struct mkt_market *market, uint64_t now_ms)
{
    struct group *group;
    const struct ranked *first;

    if (now_ms < market->next_deadline_ms)
        return;
    mkt_record_tick(market, now_ms);
    market->now_ms = now_ms;
    mkt_grant_tick(market, now_ms);
    while ((group = first_expired(market, now_ms))) {
        if (group->state == GROUP_WRITING)
            mkt_commit_tick(market, group, now_ms);
        else
            mkt_open_tick(market, group, now_ms);
    }
    mkt_stream_tick(market, now_ms);
    mkt_settle(market);
    market->next_deadline_ms = UINT64_MAX;
    first = mkt_heap_first(&market->timed);
    if (first)
        mkt_note_deadline(market, first->key);
    if (market->grant_waits)
        mkt_note_deadline(market, market->grant_waits->deadline_ms);
    if (market->grant_waits || market->waiting_moves)
        mkt_note_deadline(market, market->tell_ms);
    mkt_stream_note_deadlines(market);
    mkt_save_tick(market);
    mkt_tier_tick(market);
    mkt_record_done(market);
}
