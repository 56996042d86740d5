/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: the processes that opened one file together, and what a writing group has added but not
 * published.
 */
#include "core/market/internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

struct group *mkt_group_create(struct mkt_market *market, uint32_t size)
{
    struct group *group = calloc(1, sizeof(*group));

    if (!group)
        return NULL;
    group->member = calloc(size, sizeof(*group->member));
    group->file = market->last_file + 1;
    if (group->member && mkt_heap_reserve(&market->timed, HASH_COUNT(market->groups) + 1) == MKT_OK)
        HASH_ADD(hh, market->groups, file, sizeof(group->file), group);
    if (!group->member || !MKT_TABLE_ADDED(group, hh)) {
        free(group->member);
        free(group);
        return NULL;
    }
    market->last_file++;
    group->size = group->left = size;
    group->state = GROUP_JOINING;
    group->reader_place = -1;
    for (uint32_t rank = 0; rank < size; rank++) {
        group->member[rank].group = group;
        group->member[rank].rank = rank;
        group->member[rank].commit_stamp = UINT64_MAX;
    }
    return group;
}

void mkt_group_set_deadline(struct mkt_market *market, struct group *group, uint64_t deadline_ms)
{
    group->timed = true;
    group->deadline.key = deadline_ms;
    group->deadline.tie = group->file;
    mkt_heap_put(&market->timed, &group->deadline);
    mkt_note_deadline(market, deadline_ms);
}

void mkt_group_clear_deadline(struct mkt_market *market, struct group *group)
{
    group->timed = false;
    mkt_heap_take(&market->timed, &group->deadline);
}

void mkt_member_join(struct member *member, struct session *session, uint64_t request)
{
    member->session = session;
    member->request = request;
    member->state = MEMBER_WAITING;
    DL_APPEND(session->members, member);
}

void mkt_member_done(struct mkt_market *market, struct member *member)
{
    struct group *group = member->group;

    if (member->state == MEMBER_DONE)
        return;
    if (member->rank == 0)
        market->background_files -= mkt_group_is_background(group);
    if (member->session)
        DL_DELETE(member->session->members, member);
    member->session = NULL;
    member->state = MEMBER_DONE;
    if (--group->left > 0)
        return;
    mkt_group_clear_deadline(market, group);
    mkt_open_note_no_waiting(market, group);
    group->doomed = true;
    LL_PREPEND2(market->doomed, group, doomed_next);
}

struct member *mkt_member_find(struct mkt_market *market, struct session *session, uint64_t file)
{
    struct group *group;
    struct member *member;

    HASH_FIND(hh, market->groups, &file, sizeof(file), group);
    if (!group)
        return NULL;
    if (group->size == 1)
        return group->member[0].session == session ? &group->member[0] : NULL;
    /* A program has fewer files open than a group may have ranks. */
    DL_FOREACH (session->members, member) {
        if (member->group == group)
            return member;
    }
    return NULL;
}

bool mkt_group_is_background(const struct group *group)
{
    const struct session *session = group->member[0].session;

    return (group->state == GROUP_READING || group->state == GROUP_WRITING) && session &&
           session->yields;
}

const char *mkt_member_text(const struct member *member, char buffer[128])
{
    const struct session *session = member->session;

    if (session && member->group->size > 1)
        snprintf(buffer, 128, "rank %u (%s, pid %u)", member->rank, session->program, session->pid);
    else if (session)
        snprintf(buffer, 128, "%s (pid %u)", session->program, session->pid);
    else
        snprintf(buffer, 128, "rank %u", member->rank);
    return buffer;
}

void mkt_group_array_free(struct mkt_market *market, struct group *group, struct group_array *array)
{
    HASH_DEL(group->arrays, array);
    for (uint32_t i = 0; i < array->count; i++)
        mkt_piece_drop(market, array->piece[i]);
    group->pieces -= array->count;
    free(array->piece);
    free(array);
}

static void group_destroy(struct mkt_market *market, struct group *group)
{
    struct group_array *array, *next;

    HASH_ITER (hh, group->arrays, array, next) {
        mkt_group_array_free(market, group, array);
    }
    mkt_bytes_free_ranges(market, &group->spoilt);
    mkt_image_drop(market, group->image);
    mkt_save_await_no_more(market, group);
    mkt_stream_leave(market, group);
    if (group->version_open)
        mkt_version_unpin(market, group->version_open, group->state == GROUP_READING);
    if (group->intent == MKT_INTENT_LOAD)
        DL_DELETE2(market->loads, group, load_prev, load_next);
    if (group->object) {
        struct object *object = group->object;

        if (object->writer == group)
            object->writer = NULL;
        if (group->state == GROUP_WRITING)
            mkt_tier_wake_all(market, object); /* its pieces are only theirs now */
        mkt_object_settle(market, object, "its writer went without publishing it");
        mkt_object_put(market, object);
    }
    if (group->in_tokens)
        HASH_DELETE(hh_token, market->groups_by_token, group);
    HASH_DEL(market->groups, group);
    mkt_owned_name_fini(&group->name);
    free(group->set);
    free(group->listed);
    free(group->member);
    free(group);
}

void mkt_group_reap(struct mkt_market *market)
{
    while (market->doomed) {
        struct group *group = market->doomed;

        LL_DELETE2(market->doomed, group, doomed_next);
        group_destroy(market, group);
    }
}

/* ---- poison ---- */

void mkt_group_poison(struct mkt_market *market, struct group *group, uint64_t now_ms,
                      const char *format, ...)
{
    struct object *object = group->object;
    va_list arguments;

    assert(group->state == GROUP_WRITING);
    if (group->poisoned)
        return;
    group->poisoned = true;
    va_start(arguments, format);
    vsnprintf(group->cause, sizeof(group->cause), format, arguments);
    va_end(arguments);
    mkt_group_clear_deadline(market, group);
    group->committed = 0;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct member *member = &group->member[rank];

        if (member->state != MEMBER_COMMITTING)
            continue;
        mkt_reply_error(market, member->session, member->request, MKT_POISONED,
                        "'%s' was not published: %s", mkt_path_text(object->name.path),
                        group->cause);
        mkt_member_done(market, member);
    }
    if (object->writer == group) {
        object->writer = NULL;
        mkt_object_settle(market, object, group->cause);
        mkt_open_wake(market, object, now_ms);
    }
}

/* ---- ADD ---- */

/* The pieces of one ADD, before they belong to the group. */
struct batch {
    struct held_piece **piece;
    uint32_t count;
};

static void batch_fini(struct batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++)
        free(batch->piece[i]);
    free(batch->piece);
}

static enum mkt_status batch_init(struct batch *batch, const struct mkt_msg_add *add, uint32_t rank)
{
    const uint8_t *at = add->records.data;
    uint64_t left = add->records.length;
    struct mkt_piece piece;
    uint32_t used;

    *batch = (struct batch){0};
    if (add->count == 0 || add->count > left / sizeof(struct mkt_piece_record_wire))
        return MKT_PROTOCOL;
    batch->piece = calloc(add->count, sizeof(struct held_piece *));
    if (!batch->piece)
        return MKT_NO_MEMORY;
    for (uint32_t i = 0; i < add->count; i++, at += used, left -= used) {
        if (mkt_piece_decode(at, left, add->array.element_bytes, &piece, &used) != MKT_OK ||
            piece.slab.rank != add->array.rank)
            return MKT_PROTOCOL;
        struct held_piece *held = mkt_piece_hold(&piece, add->array.element_bytes, rank);
        if (!held)
            return MKT_NO_MEMORY;
        batch->piece[batch->count++] = held;
    }
    return left == 0 ? MKT_OK : MKT_PROTOCOL;
}

/* Extent 2i is piece i's data, 2i + 1 its table. */
static const struct mkt_extent *batch_extent(const struct batch *batch, uint32_t at)
{
    const struct held_piece *piece = batch->piece[at / 2];

    return at % 2 == 0 ? &piece->data : &piece->table;
}

/* Out of the session's grants, all or nothing. */
static enum mkt_status batch_take(struct mkt_market *market, const struct batch *batch,
                                  struct session *session)
{
    for (uint32_t at = 0; at < 2 * batch->count; at++) {
        const struct mkt_extent *extent = batch_extent(batch, at);
        enum mkt_status status =
            extent->length > 0 ? mkt_session_take(market, session, extent) : MKT_OK;

        if (status == MKT_OK)
            continue;
        while (at-- > 0) {
            extent = batch_extent(batch, at);
            if (extent->length > 0 && mkt_session_grant(market, session, extent) != MKT_OK)
                assert(!"what was taken out goes back where it was");
        }
        return status;
    }
    return MKT_OK;
}

static struct group_array *array_get(struct group *group, const struct mkt_array *info)
{
    struct group_array *array;

    HASH_FIND(hh, group->arrays, &info->identity, sizeof(info->identity), array);
    if (array)
        return array;
    array = calloc(1, sizeof(*array));
    if (!array)
        return NULL;
    array->identity = info->identity;
    array->info = *info;
    HASH_ADD(hh, group->arrays, identity, sizeof(array->identity), array);
    if (!MKT_TABLE_ADDED(array, hh)) {
        free(array);
        return NULL;
    }
    return array;
}

static enum mkt_status array_reserve(struct group_array *array, uint32_t more)
{
    uint64_t capacity = array->capacity ? array->capacity : 4;

    while (capacity < (uint64_t)array->count + more)
        capacity *= 2;
    if (capacity == array->capacity)
        return MKT_OK;
    struct held_piece **piece = realloc(array->piece, capacity * sizeof(struct held_piece *));
    if (!piece)
        return MKT_NO_MEMORY;
    array->piece = piece;
    array->capacity = (uint32_t)capacity;
    return MKT_OK;
}

static void array_note_writer(struct group_array *array, uint32_t rank, uint64_t stamp)
{
    if (array->last_stamp != 0 && array->last_rank != rank)
        array->other_stamp = array->last_stamp;
    array->last_rank = rank;
    array->last_stamp = stamp;
}

static void array_append(struct mkt_market *market, struct group *group, struct group_array *array,
                         struct batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct held_piece *piece = batch->piece[i];

        mkt_piece_stamp(piece, ++market->last_stamp);
        array->piece[array->count++] = piece;
        market->added_bytes += piece->data.length;
        array_note_writer(array, piece->rank, piece->stamp);
    }
    group->pieces += batch->count;
    batch->count = 0;
}

/* A client that isn't answered believes that its bytes are pieces and may write into them again:
 * they stay the group's. */
static void spoil(struct mkt_market *market, struct member *member, const struct batch *batch,
                  bool answered)
{
    struct session *session = member->session;
    struct group *group = member->group;

    for (uint32_t at = 0; at < 2 * batch->count; at++) {
        const struct mkt_extent *extent = batch_extent(batch, at);

        if (extent->length == 0)
            continue;
        if (answered)
            mkt_bytes_free(market, extent);
        else if (mkt_ranges_put(&group->spoilt, extent) != MKT_OK &&
                 mkt_session_grant(market, session, extent) != MKT_OK)
            mkt_bytes_lose(market, extent);
    }
}

static void add_failed(struct mkt_market *market, struct session *session,
                       const struct mkt_msg *msg, struct group *group)
{
    if (msg->add.acknowledge)
        mkt_reply_error(market, session, msg->request, MKT_POISONED,
                        "'%s' can't be written any more: %s",
                        mkt_path_text(group->object->name.path), group->cause);
}

/* The bytes are the group's now, whatever comes. */
static void add_taken(struct mkt_market *market, struct member *member, const struct mkt_msg *msg,
                      struct batch *batch, uint64_t now_ms)
{
    const struct mkt_msg_add *add = &msg->add;
    struct group *group = member->group;
    struct session *session = member->session;
    struct group_array *array = NULL;

    if (!group->poisoned && batch->count > market->limits.max_pieces - group->pieces)
        mkt_group_poison(market, group, now_ms,
                         "it has more pieces than the %u that a version may have (`max_pieces`)",
                         market->limits.max_pieces);
    if (!group->poisoned) {
        array = array_get(group, &add->array);
        if (!array || array_reserve(array, batch->count) != MKT_OK)
            mkt_group_poison(market, group, now_ms, "the market daemon is out of memory");
    }
    if (group->poisoned) {
        spoil(market, member, batch, add->acknowledge);
        add_failed(market, session, msg, group);
        return;
    }
    struct mkt_msg answer = {.type = MKT_MSG_ADDED, .request = msg->request};
    answer.added.first_stamp = market->last_stamp + 1;
    array->info = add->array;
    array_append(market, group, array, batch);
    if (add->acknowledge)
        mkt_reply(market, session, &answer, NULL);
}

static bool array_differs(struct group *group, const struct mkt_array *info)
{
    struct group_array *array;

    HASH_FIND(hh, group->arrays, &info->identity, sizeof(info->identity), array);
    return array &&
           (array->info.element_bytes != info->element_bytes || array->info.rank != info->rank);
}

void mkt_group_add(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                   uint64_t now_ms)
{
    const struct mkt_msg_add *add = &msg->add;
    struct member *member = mkt_member_find(market, session, add->file);
    struct batch batch;
    enum mkt_status status;

    if (!member || member->group->state != GROUP_WRITING ||
        (member->state == MEMBER_COMMITTING && !member->keep_open)) {
        mkt_refuse(market, session, "it added to a file that it does not write");
        return;
    }
    struct group *group = member->group;
    group->last_ms = now_ms;
    if (array_differs(group, &add->array)) {
        mkt_refuse(market, session, "it changed the element size or the rank of an array");
        return;
    }
    status = batch_init(&batch, add, member->rank);
    if (status == MKT_OK)
        status = batch_take(market, &batch, session);
    if (status == MKT_OK) {
        add_taken(market, member, msg, &batch, now_ms);
    } else if (status == MKT_PROTOCOL) {
        mkt_refuse(market, session,
                   "it added pieces that are malformed or whose bytes were not granted to it");
    } else {
        /* Its bytes stay granted until it ends: there was no memory to say more. */
        mkt_group_poison(market, group, now_ms, "the market daemon is out of memory");
        add_failed(market, session, msg, group);
    }
    batch_fini(&batch);
}

/* ---- TOUCH and LOOKUP ---- */

static struct group_array *find_array(struct group *group, uint64_t identity)
{
    struct group_array *array;

    HASH_FIND(hh, group->arrays, &identity, sizeof(identity), array);
    return array;
}

/* Has another rank the last word somewhere in the piece's bounding box? A piece that is no longer
 * its own to change (published, or never added) counts as overtaken. */
static bool is_superseded(const struct group_array *array, uint32_t rank, uint64_t stamp)
{
    struct mkt_piece own, other;
    uint32_t at;
    struct held_piece *piece = mkt_piece_by_stamp(array->piece, array->count, stamp, &at);

    if (!piece || piece->published || piece->rank != rank || mkt_piece_parse(piece, &own) != MKT_OK)
        return true;
    if ((array->last_rank == rank ? array->other_stamp : array->last_stamp) < stamp)
        return false;
    for (at++; at < array->count; at++) {
        piece = array->piece[at];
        if (piece->rank == rank || mkt_piece_parse(piece, &other) != MKT_OK)
            continue;
        if (mkt_slab_bounds_meet(&own.slab, &other.slab))
            return true;
    }
    return false;
}

/* The writing member behind a request, or an answer that there is none. */
static struct member *writing_member(struct mkt_market *market, struct session *session,
                                     const struct mkt_msg *msg, uint64_t file)
{
    struct member *member = mkt_member_find(market, session, file);

    if (!member || member->group->state != GROUP_WRITING) {
        mkt_reply_error(market, session, msg->request, MKT_INVALID,
                        "file %llu is not open for writing here", (unsigned long long)file);
        return NULL;
    }
    if (member->group->poisoned) {
        mkt_reply_error(market, session, msg->request, MKT_POISONED,
                        "'%s' can't be written any more: %s",
                        mkt_path_text(member->group->object->name.path), member->group->cause);
        return NULL;
    }
    return member;
}

void mkt_group_touch(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                     uint64_t now_ms)
{
    const struct mkt_msg_touch *touch = &msg->touch;
    struct member *member = writing_member(market, session, msg, touch->file);
    struct mkt_msg answer = {.type = MKT_MSG_TOUCHED, .request = msg->request};

    if (!member)
        return;
    member->group->last_ms = now_ms;
    struct group_array *array = find_array(member->group, touch->identity);
    answer.touched.superseded = !array || is_superseded(array, member->rank, touch->stamp);
    mkt_reply(market, session, &answer, NULL);
}

static enum mkt_status build_lookup(const struct group_array *array, void **bytes_out,
                                    uint64_t *length_out)
{
    struct mkt_index_builder *builder = mkt_index_builder_create();
    struct mkt_piece piece;
    enum mkt_status status;

    if (!builder)
        return MKT_NO_MEMORY;
    status = array ? mkt_index_builder_add_array(builder, &array->info) : MKT_OK;
    for (uint32_t i = 0; array && status == MKT_OK && i < array->count; i++) {
        status = mkt_piece_parse(array->piece[i], &piece);
        if (status == MKT_OK)
            status = mkt_index_builder_add_piece(builder, &piece);
    }
    if (status == MKT_OK)
        status = mkt_index_builder_finish(builder, bytes_out, length_out);
    mkt_index_builder_destroy(builder);
    return status;
}

void mkt_group_lookup(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                      uint64_t now_ms)
{
    const struct mkt_msg_lookup *lookup = &msg->lookup;
    struct member *member = writing_member(market, session, msg, lookup->file);
    struct mkt_msg answer = {.type = MKT_MSG_FOUND, .request = msg->request};
    struct mkt_extent *extent = &answer.extent.extent;
    void *bytes = NULL;
    uint64_t length = 0;

    if (!member)
        return;
    member->group->last_ms = now_ms;
    enum mkt_status status =
        build_lookup(find_array(member->group, lookup->identity), &bytes, &length);
    if (status == MKT_OK)
        status =
            mkt_bytes_alloc(market, length, MKT_EXTENT_GRANULE, BYTES_INDEX, session->node, extent);
    if (status == MKT_OK) {
        status = mkt_session_grant(market, session, extent);
        if (status != MKT_OK)
            mkt_bytes_free(market, extent);
    }
    if (status == MKT_OK) {
        extent->length = length;
        mkt_op_write(market, extent, bytes);
        mkt_reply(market, session, &answer, NULL);
    } else {
        mkt_reply_error(market, session, msg->request, status,
                        "the index of an array of '%s' could not be made: %s",
                        mkt_path_text(member->group->object->name.path),
                        mkt_bytes_why(market, status));
    }
    free(bytes);
}

/* ---- CLOSE ---- */

void mkt_group_close(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                     uint64_t now_ms)
{
    struct member *member = mkt_member_find(market, session, msg->file.file);
    char who[128];

    /* One-way, and a file that failed is closed again by some: nothing to complain about. */
    if (!member)
        return;
    struct group *group = member->group;
    if (group->state == GROUP_READING) {
        group->closed += member->state == MEMBER_ACTIVE && !msg->file.unread;
        mkt_member_done(market, member);
    } else if (group->state == GROUP_WRITING && member->state != MEMBER_COMMITTING) {
        mkt_member_text(member, who);
        mkt_member_done(market, member);
        mkt_group_poison(market, group, now_ms, "%s closed it without publishing", who);
    } else {
        mkt_refuse(market, session, "it closed a file while its own request for it was waiting");
    }
}
