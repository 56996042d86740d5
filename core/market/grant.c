/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes: the arenas, and the queue of those who wait for bytes to come free. The queue is strictly
 * first in, first out: a large request is not starved by small ones behind it.
 *
 * A node is a wish: who asks gets bytes of its own node's arenas, of a new one of it, or of any
 * other's, and fails or waits only where all of these are full.
 */
#include "core/market/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES    4096
#define GROW_AGAIN_MS 10000u
#define PAGED_FROM    (64u << 10) /* grants from this size on start at a page */
#define USE_TEXT_MS   1000u
#define TELL_FIRST_MS 2000u /* a program that waits is told why, and told again */
#define TELL_AGAIN_MS 10000u
#define TELL_EVERY_MS 1000u

static enum mkt_status grow(struct mkt_market *market, uint32_t node)
{
    struct mkt_space *space;
    enum mkt_status status;

    if (market->arenas == market->max_arenas)
        return MKT_NO_SPACE;
    space = mkt_space_create(market->limits.arena_bytes);
    if (!space)
        return MKT_NO_MEMORY;
    market->no_arena = (struct mkt_error){.status = MKT_OK};
    status = mkt_op_grow(market, market->arenas + 1, node, market->limits.arena_bytes,
                         &market->no_arena);
    if (status != MKT_OK) {
        mkt_space_destroy(space);
        market->no_arena_ms = market->now_ms;
        return status;
    }
    market->arena[market->arenas++] = (struct arena){.space = space, .node = node};
    /* It may have been on the way to a failure. */
    market->no_arena = (struct mkt_error){.status = MKT_OK};
    return MKT_OK;
}

static enum mkt_status alloc_in(struct mkt_market *market, uint32_t at, uint64_t bytes,
                                uint64_t align, struct mkt_extent *extent_out)
{
    uint64_t offset;
    enum mkt_status status = mkt_space_alloc(market->arena[at].space, bytes, align, &offset);

    if (status == MKT_OK) {
        *extent_out = (struct mkt_extent){.arena = at + 1, .offset = offset, .length = bytes};
        market->used_bytes += bytes;
    }
    return status;
}

/* In arenas of the node, or in all others. To whom the node is no matter all are its own. */
static enum mkt_status alloc_there(struct mkt_market *market, uint64_t bytes, uint64_t align,
                                   uint32_t node, bool own, struct mkt_extent *extent_out)
{
    for (uint32_t at = 0; at < market->arenas; at++) {
        if ((node == MKT_NO_NODE || market->arena[at].node == node) != own)
            continue;
        enum mkt_status status = alloc_in(market, at, bytes, align, extent_out);
        if (status != MKT_NO_SPACE)
            return status;
    }
    return MKT_NO_SPACE;
}

static enum mkt_status alloc_in_new(struct mkt_market *market, uint64_t bytes, uint64_t align,
                                    uint32_t node, struct mkt_extent *extent_out)
{
    enum mkt_status status = grow(market, node);

    return status == MKT_OK ? alloc_in(market, market->arenas - 1, bytes, align, extent_out)
                            : status;
}

/* A new arena costs address space, another node's memory costs each access. But where one couldn't
 * be had just before, that is tried last: it would fail again at each grant. */
static enum mkt_status alloc_near(struct mkt_market *market, uint64_t bytes, uint64_t align,
                                  uint32_t node, struct mkt_extent *extent_out)
{
    bool can_grow =
        market->no_arena.status == MKT_OK || market->now_ms - market->no_arena_ms >= GROW_AGAIN_MS;
    enum mkt_status grown = MKT_NO_SPACE;
    enum mkt_status status = alloc_there(market, bytes, align, node, true, extent_out);

    if (status != MKT_NO_SPACE)
        return status;
    if (can_grow)
        grown = alloc_in_new(market, bytes, align, node, extent_out);
    if (grown == MKT_OK)
        return grown;
    status = alloc_there(market, bytes, align, node, false, extent_out);
    if (status != MKT_NO_SPACE)
        return status;
    return can_grow ? grown : alloc_in_new(market, bytes, align, node, extent_out);
}

static enum mkt_status alloc(struct mkt_market *market, uint64_t bytes, uint64_t align,
                             enum bytes_use use, uint32_t node, struct mkt_extent *extent_out)
{
    uint64_t limit = market->limits.memory_bytes;

    if (bytes > market->limits.arena_bytes)
        return MKT_NO_SPACE;
    bytes = mkt_round_granule(bytes);
    if (use == BYTES_INDEX)
        limit += limit / 50;
    else if (use == BYTES_GRANT)
        limit -= mkt_tier_reserve(market);
    if (bytes > limit || market->used_bytes > limit - bytes)
        return MKT_NO_SPACE;
    return alloc_near(market, bytes, align, node, extent_out);
}

const char *mkt_bytes_why(const struct mkt_market *market, enum mkt_status status)
{
    const struct mkt_error *error = &market->no_arena;

    return error->status == status && error->text[0] ? error->text : mkt_status_text(status);
}

/* What is on disk as well gives way. */
enum mkt_status mkt_bytes_alloc(struct mkt_market *market, uint64_t bytes, uint64_t align,
                                enum bytes_use use, uint32_t node, struct mkt_extent *extent_out)
{
    enum mkt_status status;

    do
        status = alloc(market, bytes, align, use, node, extent_out);
    while (status == MKT_NO_SPACE && bytes <= market->limits.arena_bytes &&
           bytes <= market->limits.memory_bytes && mkt_save_evict(market));
    return status;
}

uint32_t mkt_bytes_node(const struct mkt_market *market, const struct mkt_extent *extent)
{
    return market->arena[extent->arena - 1].node;
}

static void defer(struct mkt_market *market, const struct mkt_extent *extent, uint64_t bytes)
{
    if (market->deferred_count < MKT_DEFERRED_RANGES)
        market->deferred[market->deferred_count++] =
            (struct range){extent->arena, extent->offset, bytes};
    else
        market->lost_bytes += bytes;
}

void mkt_bytes_free(struct mkt_market *market, const struct mkt_extent *extent)
{
    uint64_t bytes = mkt_round_granule(extent->length);

    if (bytes == 0)
        return;
    market->used_bytes -= bytes;
    if (mkt_space_free(market->arena[extent->arena - 1].space, extent->offset, bytes) != MKT_OK)
        defer(market, extent, bytes);
    else
        mkt_op_freed(market, extent);
}

void mkt_bytes_lose(struct mkt_market *market, const struct mkt_extent *extent)
{
    market->used_bytes -= mkt_round_granule(extent->length);
    market->lost_bytes += mkt_round_granule(extent->length);
}

void mkt_bytes_free_ranges(struct mkt_market *market, struct ranges *ranges)
{
    for (uint32_t i = 0; i < ranges->count; i++) {
        const struct range *range = &ranges->item[i];

        mkt_bytes_free(market, &(struct mkt_extent){.arena = range->arena,
                                                    .offset = range->offset,
                                                    .length = range->length});
    }
    mkt_ranges_fini(ranges);
}

void mkt_bytes_retry_deferred(struct mkt_market *market)
{
    while (market->deferred_count > 0) {
        const struct range *range = &market->deferred[market->deferred_count - 1];
        const struct mkt_extent extent = {
            .arena = range->arena, .offset = range->offset, .length = range->length};

        if (mkt_space_free(market->arena[range->arena - 1].space, range->offset, range->length) !=
            MKT_OK)
            return;
        market->deferred_count--;
        mkt_op_freed(market, &extent);
    }
}

/* ---- grants ---- */

/* Small grants lie close together, large ones start at a page. Not at a huge page: in a series of
 * steps with pieces of 3 MiB that took 32 % more pages than were ever used at once, with 20 MiB 6
 * %; pages of 4096 take 1 to 2 %. */
static uint64_t alignment(uint64_t bytes, uint64_t asked)
{
    uint64_t align = bytes >= PAGED_FROM ? PAGE_BYTES : MKT_EXTENT_GRANULE;

    return asked > align ? asked : align;
}

static enum mkt_status grant(struct mkt_market *market, struct session *session, uint64_t bytes,
                             uint64_t align, struct mkt_extent *extent_out)
{
    enum mkt_status status = mkt_bytes_alloc(market, bytes, alignment(bytes, align), BYTES_GRANT,
                                             session->node, extent_out);

    /* Small arenas have no aligned place for what fits into them otherwise. */
    if (status == MKT_NO_SPACE && align < alignment(bytes, align))
        status =
            mkt_bytes_alloc(market, bytes, align > MKT_EXTENT_GRANULE ? align : MKT_EXTENT_GRANULE,
                            BYTES_GRANT, session->node, extent_out);
    if (status != MKT_OK)
        return status;
    status = mkt_session_grant(market, session, extent_out);
    if (status != MKT_OK)
        mkt_bytes_free(market, extent_out);
    return status;
}

static void answer(struct mkt_market *market, struct session *session, uint64_t request,
                   const struct mkt_extent *extent)
{
    struct mkt_msg msg = {.type = MKT_MSG_GRANTED, .request = request};

    msg.extent.extent = *extent;
    mkt_reply(market, session, &msg, extent);
}

void mkt_grant_scratch(struct mkt_market *market, struct session *session,
                       struct mkt_extent *extent_out)
{
    memset(extent_out, 0, sizeof(*extent_out));
    if (market->limits.scratch_bytes == 0 || market->grant_waits || session->ended ||
        session->refused)
        return;
    if (grant(market, session, market->limits.scratch_bytes, 0, extent_out) != MKT_OK)
        memset(extent_out, 0, sizeof(*extent_out));
}

bool mkt_grant_at_once(struct mkt_market *market, struct session *session, uint64_t bytes,
                       struct mkt_extent *extent_out)
{
    return !market->grant_waits && !session->ended && !session->refused &&
           grant(market, session, bytes, 0, extent_out) == MKT_OK;
}

struct largest {
    struct object *object[3];
    uint64_t bytes[3];
};

static uint64_t object_bytes(const struct object *object)
{
    const struct version *version;
    uint64_t bytes = 0;

    DL_FOREACH (object->versions, version) {
        bytes += version->data_bytes + (version->image ? version->image->extent.length : 0) +
                 version->index.length;
    }
    return bytes;
}

static void find_largest(const struct mkt_market *market, struct largest *largest)
{
    struct object *object, *next;

    memset(largest, 0, sizeof(*largest));
    HASH_ITER (hh, market->objects, object, next) {
        uint64_t bytes = object_bytes(object);

        for (int i = 0; i < 3; i++) {
            if (bytes <= largest->bytes[i])
                continue;
            memmove(&largest->object[i + 1], &largest->object[i],
                    (2 - i) * sizeof(largest->object[0]));
            memmove(&largest->bytes[i + 1], &largest->bytes[i],
                    (2 - i) * sizeof(largest->bytes[0]));
            largest->object[i] = object;
            largest->bytes[i] = bytes;
            break;
        }
    }
}

/* "in use: 3 GiB, of which ...; largest: a.h5 (1 GiB), b.h5 (1 GiB)". It looks at all objects, and
 * many waits may end one after the other: what it says may be a second old. */
static const char *describe_use(struct mkt_market *market)
{
    char *text = market->use_text;
    const size_t capacity = sizeof(market->use_text);
    struct mkt_market_usage usage;
    struct largest largest;
    char size[3][32];
    size_t at;

    if (text[0] && market->now_ms < market->use_ms + USE_TEXT_MS)
        return text;
    market->use_ms = market->now_ms;
    mkt_market_usage(market, &usage);
    find_largest(market, &largest);
    at = (size_t)snprintf(
        text, capacity, "in use: %s, of which published %s and granted to programs %s",
        mkt_size_text(usage.used_bytes, size[0]), mkt_size_text(usage.published_bytes, size[1]),
        mkt_size_text(usage.granted_bytes, size[2]));
    if (market->limits.tier_bytes > 0 && at < capacity)
        at += (size_t)snprintf(text + at, capacity - at,
                               "; below memory (`ssd`) %s of %s, %s kept free to read it",
                               mkt_size_text(market->tier_bytes, size[0]),
                               mkt_size_text(market->limits.tier_bytes, size[1]),
                               mkt_size_text(mkt_tier_reserve(market), size[2]));
    if (market->tier_failure[0] && at < capacity)
        at += (size_t)snprintf(text + at, capacity - at, "; moving out fails: %.350s",
                               market->tier_failure);
    for (int i = 0; i < 3 && largest.object[i] && at < capacity; i++) {
        const char *path = mkt_path_text(largest.object[i]->name.path);
        size_t length = strlen(path);

        if (length > 150)
            path += length - 150;
        at +=
            (size_t)snprintf(text + at, capacity - at, "%s'%s' (%s)", i == 0 ? "; largest: " : ", ",
                             path, mkt_size_text(largest.bytes[i], size[0]));
    }
    return text;
}

/* ---- who holds what ---- */

static uint64_t bytes_in_memory(const struct version *version)
{
    uint64_t bytes = version->index.length + (version->image ? version->image->extent.length : 0);

    for (uint64_t p = 0; p < version->pieces; p++)
        bytes += version->piece[p]->data.length;
    return bytes;
}

static const struct session *who_has_open(const struct mkt_market *market,
                                          const struct version *version)
{
    const struct group *group, *next;

    HASH_ITER (hh, market->groups, group, next) {
        for (uint32_t r = 0; group->version_open == version && r < group->size; r++) {
            if (group->member[r].session)
                return group->member[r].session;
        }
    }
    return NULL;
}

/* What takes the most: "'out.h5' version 17 (1 GiB) is open in analysis (pid 4711)". */
static void describe_holder(const struct mkt_market *market, char *text, size_t capacity)
{
    const struct version *version, *largest = NULL;
    uint64_t most = 0;
    char size[32];

    DL_FOREACH2 (market->versions, version, all_next) {
        uint64_t bytes = bytes_in_memory(version);

        /* Of equals the one that somebody has open. */
        if (bytes > most || (bytes == most && largest && largest->pins == 0 && version->pins > 0)) {
            largest = version;
            most = bytes;
        }
    }
    if (!largest) {
        snprintf(text, capacity, "all of it is being written by programs");
        return;
    }
    const struct session *session = who_has_open(market, largest);
    int at = snprintf(text, capacity, "'%s' version %llu (%s) ",
                      mkt_path_text(largest->object->name.path),
                      (unsigned long long)largest->number, mkt_size_text(most, size));
    if (at < 0 || (size_t)at >= capacity)
        return;
    if (session)
        snprintf(text + at, capacity - (size_t)at, "is open in %s (pid %u)", session->program,
                 session->pid);
    else if (!mkt_save_is_owed(largest) && market->tier_failure[0])
        snprintf(text + at, capacity - (size_t)at,
                 "is the largest; moving out to the tier below memory fails: %.350s",
                 market->tier_failure);
    else
        snprintf(text + at, capacity - (size_t)at, "%s",
                 mkt_save_is_owed(largest) ? "isn't on disk yet"
                 : market->limits.tier_bytes > 0
                     ? "is the largest; the tier below memory is slower "
                       "than its writers, or full"
                     : "is kept in memory (`keep`, `h5market rm`)");
}

static void tell(struct mkt_market *market, struct session *session, uint64_t request,
                 uint64_t bytes, uint64_t started_ms, const char *holder)
{
    struct mkt_msg msg = {.type = MKT_MSG_WAITING, .request = request};
    char text[MKT_ERROR_TEXT_BYTES], size[32];
    static const struct mkt_extent nothing;

    snprintf(text, sizeof(text), "waiting %.0f s for %s of memory: %s",
             (double)(market->now_ms - started_ms) / 1000, mkt_size_text(bytes, size), holder);
    msg.waiting.text = (struct mkt_bytes){text, (uint32_t)strlen(text)};
    mkt_op_send(market, session, &msg, &nothing);
}

static bool is_to_be_told(const struct mkt_market *market, uint64_t started_ms, uint64_t told_ms)
{
    return told_ms == 0 ? market->now_ms - started_ms >= TELL_FIRST_MS
                        : market->now_ms - told_ms >= TELL_AGAIN_MS;
}

/* All who wait, once a second. */
static void tell_all(struct mkt_market *market)
{
    struct grant_wait *wait;
    struct move *move;
    char holder[700];

    market->tell_ms = market->now_ms + TELL_EVERY_MS;
    describe_holder(market, holder, sizeof(holder));
    DL_FOREACH (market->grant_waits, wait) {
        if (!is_to_be_told(market, wait->started_ms, wait->told_ms))
            continue;
        tell(market, wait->session, wait->request, wait->bytes, wait->started_ms, holder);
        wait->told_ms = market->now_ms;
    }
    DL_FOREACH (market->waiting_moves, move) {
        if (!is_to_be_told(market, move->started_ms, move->told_ms))
            continue;
        tell(market, move->session, move->request, move->length, move->started_ms, holder);
        move->told_ms = market->now_ms;
    }
}

void mkt_grant_note_wait(struct mkt_market *market)
{
    if (market->tell_ms <= market->now_ms)
        market->tell_ms = market->now_ms + TELL_EVERY_MS;
    mkt_note_deadline(market, market->tell_ms);
}

static void refuse_too_large(struct mkt_market *market, struct session *session, uint64_t request,
                             uint64_t bytes)
{
    char size[2][32];
    bool arena = bytes <= market->limits.memory_bytes;

    mkt_reply_error(
        market, session, request, MKT_NO_SPACE,
        "%s asked for %s at once; the %s is %s; raise `%s` in h5market.yaml", session->program,
        mkt_size_text(bytes, size[0]), arena ? "largest piece" : "whole market",
        mkt_size_text(arena ? market->limits.arena_bytes : market->limits.memory_bytes, size[1]),
        arena ? "arena" : "memory");
}

static void enqueue(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                    uint64_t now_ms)
{
    struct grant_wait *wait;

    if (market->waiting_grants >= market->limits.max_waiting) {
        mkt_reply_error(market, session, msg->request, MKT_NO_SPACE,
                        "the market is full and %u requests wait for memory already, the most that "
                        "may (`max_waiting`)",
                        market->waiting_grants);
        return;
    }
    wait = calloc(1, sizeof(*wait));
    if (!wait) {
        mkt_reply_error(market, session, msg->request, MKT_NO_MEMORY,
                        "the market daemon is out of memory");
        return;
    }
    *wait = (struct grant_wait){.session = session,
                                .request = msg->request,
                                .bytes = msg->grant.bytes,
                                .align = msg->grant.align,
                                .started_ms = now_ms,
                                .deadline_ms = now_ms + market->limits.full_timeout_ms};
    DL_APPEND(market->grant_waits, wait);
    DL_APPEND2(session->grant_waits, wait, session_prev, session_next);
    market->waiting_grants++;
    mkt_note_deadline(market, wait->deadline_ms);
    mkt_grant_note_wait(market);
}

void mkt_grant_request(struct mkt_market *market, struct session *session,
                       const struct mkt_msg *msg, uint64_t now_ms)
{
    uint64_t bytes = msg->grant.bytes, align = msg->grant.align;
    struct mkt_extent extent;
    enum mkt_status status = MKT_NO_SPACE;

    if (bytes == 0 || (align & (align - 1)) != 0 || align > market->limits.arena_bytes) {
        mkt_reply_error(market, session, msg->request, MKT_INVALID,
                        "a grant of %llu bytes aligned to %llu makes no sense",
                        (unsigned long long)bytes, (unsigned long long)align);
        return;
    }
    if (bytes > market->limits.arena_bytes ||
        mkt_round_granule(bytes) > market->limits.memory_bytes) {
        refuse_too_large(market, session, msg->request, bytes);
        return;
    }
    if (!market->grant_waits)
        status = grant(market, session, bytes, align, &extent);
    if (status == MKT_OK)
        answer(market, session, msg->request, &extent);
    else if (status == MKT_NO_SPACE && session->grants.count < MKT_MAX_RANGES)
        enqueue(market, session, msg, now_ms);
    else if (status == MKT_NO_SPACE)
        mkt_reply_error(market, session, msg->request, status,
                        "%s holds %u separate ranges, the most that a program may",
                        session->program, session->grants.count);
    else
        mkt_reply_error(market, session, msg->request, status,
                        "the market daemon could not get memory: %s",
                        mkt_bytes_why(market, status));
}

static void wait_end(struct mkt_market *market, struct grant_wait *wait)
{
    DL_DELETE(market->grant_waits, wait);
    DL_DELETE2(wait->session->grant_waits, wait, session_prev, session_next);
    market->waiting_grants--;
    free(wait);
}

bool mkt_grant_cancel(struct mkt_market *market, struct session *session, uint64_t request)
{
    struct grant_wait *wait;

    DL_FOREACH2 (session->grant_waits, wait, session_next) {
        if (wait->request == request) {
            mkt_reply_error(market, session, request, MKT_CANCELLED,
                            "the wait for memory was ended");
            wait_end(market, wait);
            return true;
        }
    }
    return false;
}

void mkt_grant_forget(struct mkt_market *market, struct session *session)
{
    while (session->grant_waits)
        wait_end(market, session->grant_waits);
}

bool mkt_grant_is_short(const struct mkt_market *market)
{
    uint64_t limit = market->limits.memory_bytes - mkt_tier_reserve(market);

    return market->grant_waits ||
           (market->used_bytes > limit - limit / 16 && market->evictable_count == 0 &&
            mkt_tier_is_full(market, limit / 16));
}

/* What the rules say of the files that the session writes; the group of one that says so. */
static const struct group *group_with(const struct session *session, enum mkt_on_full on_full)
{
    const struct member *member;

    DL_FOREACH (session->members, member) {
        if (member->group->state == GROUP_WRITING && member->group->stream.on_full == on_full)
            return member->group;
    }
    return NULL;
}

/* `on_full: drop-oldest`. True: something went. */
static bool drop_for(struct mkt_market *market, const struct grant_wait *wait)
{
    const struct group *group =
        mkt_tier_is_full(market, wait->bytes) ? group_with(wait->session, MKT_FULL_DROP) : NULL;

    return group && group->object->stream && mkt_stream_drop_oldest(market, group->object->stream);
}

/* `on_full: fail`. True: it is answered. */
static bool fail_at_once(struct mkt_market *market, struct grant_wait *wait)
{
    char size[2][32];

    if (!mkt_tier_is_full(market, wait->bytes) || !group_with(wait->session, MKT_FULL_FAIL))
        return false;
    mkt_reply_error(market, wait->session, wait->request, MKT_NO_SPACE,
                    "the market is full, and the rule says not to wait for %s (`on_full: fail`); "
                    "limit %s (`memory` in h5market.yaml); %s",
                    mkt_size_text(wait->bytes, size[0]),
                    mkt_size_text(market->limits.memory_bytes, size[1]), describe_use(market));
    wait_end(market, wait);
    return true;
}

void mkt_grant_serve(struct mkt_market *market)
{
    while (market->grant_waits) {
        struct grant_wait *wait = market->grant_waits;
        struct mkt_extent extent;

        if (wait->session->refused) {
            wait_end(market, wait);
            continue;
        }
        enum mkt_status status = grant(market, wait->session, wait->bytes, wait->align, &extent);
        if (status == MKT_NO_SPACE && (drop_for(market, wait) || fail_at_once(market, wait)))
            continue;
        if (status != MKT_OK)
            return;
        answer(market, wait->session, wait->request, &extent);
        wait_end(market, wait);
    }
}

/* All wait equally long, so that the first in the queue is the first to end. */
void mkt_grant_tick(struct mkt_market *market, uint64_t now_ms)
{
    struct grant_wait *wait;
    char size[2][32];

    while ((wait = market->grant_waits) && wait->deadline_ms <= now_ms) {
        mkt_reply_error(market, wait->session, wait->request, MKT_NO_SPACE,
                        "the market is full: waited %.1f s for %s; limit %s (`memory` in "
                        "h5market.yaml); %s; raise it, keep fewer versions, or "
                        "`h5market rm` what is not needed%s%.300s",
                        (double)(now_ms - wait->started_ms) / 1000,
                        mkt_size_text(wait->bytes, size[0]),
                        mkt_size_text(market->limits.memory_bytes, size[1]), describe_use(market),
                        market->no_arena.text[0] ? "; no more memory was to be had: " : "",
                        market->no_arena.text);
        wait_end(market, wait);
    }
    if ((market->grant_waits || market->waiting_moves) && market->tell_ms <= now_ms)
        tell_all(market);
}
