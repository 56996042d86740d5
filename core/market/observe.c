/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an observer may ask. Nothing here changes state.
 */
#include "core/market/internal.h"

#include <string.h>

void mkt_market_usage(const struct mkt_market *market, struct mkt_market_usage *usage_out)
{
    *usage_out = (struct mkt_market_usage){
        .limit_bytes = market->limits.memory_bytes,
        .used_bytes = market->used_bytes,
        .granted_bytes = market->granted_bytes,
        .published_bytes = market->published_bytes,
        .live_bytes = market->live_bytes,
        .arenas = market->arenas,
        .sessions = HASH_COUNT(market->sessions),
        .objects = HASH_COUNT(market->objects),
        .versions = market->versions_count,
        .groups = HASH_COUNT(market->groups),
        .waiting_opens = market->waiting_opens,
        .waiting_grants = market->waiting_grants,
        .unsaved_versions = market->unsaved_count,
        .unsaved_bytes = market->unsaved_bytes,
        .evictable_versions = market->evictable_count,
        .saved_versions = market->saves,
        .saved_bytes = market->saved_bytes,
        .yielded_ms = market->yielded_ms,
        .tier_limit_bytes = market->limits.tier_bytes,
        .tier_bytes = market->tier_bytes,
        .moved_out_bytes = market->moved_out_bytes,
        .moved_in_bytes = market->moved_in_bytes,
        .fetches = market->fetches,
        .moves = market->moves_begun,
        .tier_failure = market->tier_failure,
        .publishes = market->publishes,
        .withdrawals = market->withdrawals,
        .requests = market->requests,
        .replies = market->replies,
        .added_bytes = market->added_bytes,
        .read_opens = market->read_opens,
    };
}

static void describe_writer(const struct group *writer, struct mkt_object_info *info)
{
    info->has_writer = true;
    info->writer_ranks = writer->size;
    for (uint32_t rank = 0; rank < writer->size; rank++) {
        if (!writer->member[rank].session)
            continue;
        info->writer_program = writer->member[rank].session->program;
        info->writer_pid = writer->member[rank].session->pid;
        return;
    }
}

/* A version whose file was replaced by a later one's is on disk no more. */
static bool is_superseded(const struct version *version)
{
    for (const struct version *later = version->next; later; later = later->next) {
        if (later->save.state == SAVE_SAVED)
            return true;
    }
    return false;
}

static struct mkt_saving_info describe_saving(const struct version *version)
{
    const struct save *save = &version->save;
    struct mkt_saving_info info = {.state = MKT_SAVING_NONE};

    switch (save->state) {
    case SAVE_NONE:
        break;
    case SAVE_PENDING:
        info.state = save->tries > 0 ? MKT_SAVING_FAILING : MKT_SAVING_UNSAVED;
        info.retry_ms = save->retry_ms;
        break;
    case SAVE_RUNNING:
    case SAVE_PLACING:
        info.state = MKT_SAVING_RUNNING;
        break;
    case SAVE_SAVED:
        info.state = is_superseded(version) ? MKT_SAVING_NONE : MKT_SAVING_SAVED;
        break;
    }
    info.tries = save->tries;
    if (save->tries > 0 && info.state != MKT_SAVING_SAVED && info.state != MKT_SAVING_NONE)
        info.failure = version->object->save_failure;
    return info;
}

static uint64_t tier_bytes(const struct version *version)
{
    uint64_t bytes = 0;

    for (uint64_t p = 0; p < version->pieces; p++) {
        const struct held_piece *piece = version->piece[p];
        bytes += piece->data.length == 0 ? piece->cold.length : 0;
    }
    return bytes;
}

static void describe_object(const struct object *object, struct mkt_object_info *info)
{
    const struct version *version, *newest = mkt_version_visible(object);

    *info = (struct mkt_object_info){.path = object->name.path,
                                     .newest_version = newest ? newest->number : 0,
                                     .versions = object->count,
                                     .has_stub = object->has_stub,
                                     .file_dev = object->name.file.dev,
                                     .file_ino = object->name.file.ino,
                                     .mode = object->mode,
                                     .durability = object->durability,
                                     .priority = object->priority,
                                     .backup = object->backup};
    if (newest)
        info->saving = describe_saving(newest);
    info->keeps_some = newest && newest->keeps_some;
    memcpy(info->object, object->id, MKT_ID_BYTES);
    DL_FOREACH (object->versions, version) {
        info->readers += version->readers;
        info->tier_bytes += tier_bytes(version);
        info->bytes += version->data_bytes + (version->image ? version->image->extent.length : 0) +
                       version->index.length;
    }
    if (object->writer)
        describe_writer(object->writer, info);
}

void mkt_market_each_object(const struct mkt_market *market, mkt_object_fn fn, void *context)
{
    struct object *object, *next;

    HASH_ITER (hh, market->objects, object, next) {
        struct mkt_object_info info;

        describe_object(object, &info);
        fn(context, &info);
    }
}

void mkt_market_each_version(const struct mkt_market *market, const uint8_t id[MKT_ID_BYTES],
                             mkt_version_fn fn, void *context)
{
    struct object *object = mkt_object_by_id(market, id);
    struct version *version;

    if (!object)
        return;
    DL_FOREACH (object->versions, version) {
        const struct mkt_version_info info = {
            .version = version->number,
            .published_ms = version->published_ms,
            .data_bytes = version->data_bytes,
            .tier_bytes = tier_bytes(version),
            .image_bytes = version->image ? version->image->extent.length : 0,
            .index_bytes = version->index.length,
            .pieces = version->pieces,
            .arrays = version->arrays,
            .readers = version->readers,
            .newest = version == mkt_version_visible(object),
            .hidden = version->hidden,
            .saving = describe_saving(version)};

        fn(context, &info);
    }
}

/* ---- who waits ---- */

static struct mkt_wait_info wait_of(const struct session *session, enum mkt_wait_kind kind)
{
    return (struct mkt_wait_info){
        .kind = kind, .program = session->program, .pid = session->pid, .path = "", .waits_on = ""};
}

static void each_open(const struct mkt_market *market, uint64_t now_ms, mkt_wait_fn fn,
                      void *context)
{
    const struct group *group, *next;

    HASH_ITER (hh, market->groups, group, next) {
        const struct session *session = group->member[0].session;

        if (group->state != GROUP_WAITING || !session)
            continue;
        struct mkt_wait_info info = wait_of(session, MKT_WAIT_OPEN);
        info.waited_ms = now_ms - group->started_ms;
        info.path = group->name.path;
        info.waits_on = group->waits_on;
        fn(context, &info);
    }
}

void mkt_market_each_wait(const struct mkt_market *market, uint64_t now_ms, mkt_wait_fn fn,
                          void *context)
{
    const struct grant_wait *wait;
    const struct move *move;

    DL_FOREACH (market->grant_waits, wait) {
        struct mkt_wait_info info = wait_of(wait->session, MKT_WAIT_MEMORY);

        info.waited_ms = now_ms - wait->started_ms;
        info.bytes = wait->bytes;
        fn(context, &info);
    }
    DL_FOREACH (market->waiting_moves, move) {
        struct mkt_wait_info info = wait_of(move->session, MKT_WAIT_FETCH);
        info.waited_ms = now_ms - move->started_ms;
        info.bytes = move->length;
        fn(context, &info);
    }
    each_open(market, now_ms, fn, context);
}

bool mkt_market_resolve(const struct mkt_market *market, const struct mkt_name *name,
                        uint8_t object_out[MKT_ID_BYTES])
{
    struct owned_name owned;
    bool differs;

    if (mkt_owned_name_init(&owned, name) != MKT_OK)
        return false;
    struct object *object = mkt_object_by_client_name(market, &owned, &differs);
    mkt_owned_name_fini(&owned);
    if (!object || differs)
        return false;
    memcpy(object_out, object->id, MKT_ID_BYTES);
    return true;
}

struct each_free {
    mkt_market_free_fn fn;
    void *context;
    uint32_t arena;
};

static void each_free(void *context, uint64_t offset, uint64_t length)
{
    const struct each_free *each = context;

    each->fn(each->context,
             &(struct mkt_extent){.arena = each->arena, .offset = offset, .length = length});
}

void mkt_market_each_free(const struct mkt_market *market, mkt_market_free_fn fn, void *context)
{
    for (uint32_t at = 0; at < market->arenas; at++) {
        struct each_free each = {fn, context, at + 1};

        mkt_space_each_free(market->arena[at].space, each_free, &each);
    }
}

void mkt_market_each_arena(const struct mkt_market *market, mkt_arena_fn fn, void *context)
{
    for (uint32_t at = 0; at < market->arenas; at++) {
        const struct arena *arena = &market->arena[at];

        fn(context, &(struct mkt_arena_info){.arena = at + 1,
                                             .node = arena->node,
                                             .used_bytes = market->limits.arena_bytes -
                                                           mkt_space_free_bytes(arena->space)});
    }
}

void mkt_market_each_session(const struct mkt_market *market, mkt_session_fn fn, void *context)
{
    struct session *session, *next;

    HASH_ITER (hh, market->sessions, session, next) {
        fn(context, &(struct mkt_session_info){.session = session->id,
                                               .program = session->program,
                                               .pid = session->pid,
                                               .ended = session->ended || session->refused});
    }
}

bool mkt_market_was_withdrawn(const struct mkt_market *market, const uint8_t object[MKT_ID_BYTES])
{
    return !mkt_object_by_id(market, object) && mkt_withdrawn_find(market, object);
}
