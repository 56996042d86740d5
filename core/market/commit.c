/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * COMMIT: when every rank has said that it is done, the next version is published, or nobody's
 * close succeeds.
 */
#include "core/market/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what rank 0 lists ---- */

static enum mkt_status list_reserve(struct group *group, uint32_t count)
{
    uint64_t capacity = group->listed_capacity ? group->listed_capacity : 8;
    struct mkt_array *listed;

    while (capacity < count)
        capacity *= 2;
    if (capacity == group->listed_capacity)
        return MKT_OK;
    listed = realloc(group->listed, capacity * sizeof(*listed));
    if (!listed)
        return MKT_NO_MEMORY;
    group->listed = listed;
    group->listed_capacity = (uint32_t)capacity;
    return MKT_OK;
}

static enum mkt_status list_append(struct mkt_market *market, struct group *group,
                                   const struct mkt_msg_commit *commit)
{
    uint32_t offset = 0;
    enum mkt_status status;

    if (commit->count > market->limits.max_pieces - group->listed_count)
        return MKT_NO_SPACE;
    status = list_reserve(group, group->listed_count + commit->count);
    for (uint32_t i = 0; status == MKT_OK && i < commit->count; i++) {
        status =
            mkt_array_record_decode(commit->arrays, &offset, &group->listed[group->listed_count]);
        if (status == MKT_OK)
            group->listed_count++;
    }
    return status;
}

static int compare_identities(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* An identity that is listed twice would have its pieces in the version twice. */
static enum mkt_status check_listed(const struct group *group, struct mkt_error *error)
{
    enum mkt_status status = MKT_OK;
    uint64_t *identity;

    if (mkt_arrays_rise(group->listed, group->listed_count))
        return MKT_OK;
    identity = malloc(group->listed_count * sizeof(*identity));
    if (!identity)
        return mkt_error_set(error, MKT_NO_MEMORY, "the market daemon is out of memory");
    for (uint32_t i = 0; i < group->listed_count; i++)
        identity[i] = group->listed[i].identity;
    qsort(identity, group->listed_count, sizeof(*identity), compare_identities);
    for (uint32_t i = 1; i < group->listed_count; i++) {
        if (identity[i] == identity[i - 1])
            status = mkt_error_set(error, MKT_CORRUPT, "array %llu is listed twice",
                                   (unsigned long long)identity[i]);
    }
    free(identity);
    return status;
}

/* ---- all ranks have committed ---- */

static void answer_all(struct mkt_market *market, struct group *group, uint64_t number)
{
    bool keep_open = group->member[0].keep_open;

    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct member *member = &group->member[rank];
        struct mkt_msg answer = {.type = MKT_MSG_COMMITTED, .request = member->request};
        struct session *session = member->session;

        answer.version.version = number;
        member->commit_stamp = UINT64_MAX;
        if (keep_open)
            member->state = MEMBER_ACTIVE;
        else
            mkt_member_done(market, member);
        mkt_reply(market, session, &answer, NULL);
    }
}

static bool agree(const struct group *group, char *text, size_t capacity)
{
    const struct member *first = &group->member[0];

    for (uint32_t rank = 1; rank < group->size; rank++) {
        const struct member *member = &group->member[rank];

        if (member->keep_open != first->keep_open)
            snprintf(text, capacity, "rank %u closes it, rank 0 flushes it",
                     member->keep_open ? 0 : rank);
        else if (member->hash != first->hash)
            snprintf(text, capacity,
                     "its ranks disagree about the datasets in it (rank %u and rank 0): calls that "
                     "create, extend or delete them must be "
                     "collective",
                     rank);
        else
            continue;
        return false;
    }
    return true;
}

static bool all_unchanged(const struct group *group)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (!group->member[rank].unchanged)
            return false;
    }
    return true;
}

static void mark_listed(struct group *group)
{
    for (uint32_t i = 0; i < group->listed_count; i++) {
        struct group_array *array;

        HASH_FIND(hh, group->arrays, &group->listed[i].identity, sizeof(uint64_t), array);
        if (array)
            array->listed_in = group->version_number;
    }
}

/* After a flush: arrays that no longer live take their pieces along, unless one came after a COMMIT
 * of this round. */
static void drop_unlisted(struct mkt_market *market, struct group *group)
{
    struct group_array *array, *next;

    if (group->listed_count == 0)
        return;
    mark_listed(group);
    HASH_ITER (hh, group->arrays, array, next) {
        if (array->listed_in == group->version_number)
            continue;
        uint32_t i = 0;
        while (i < array->count &&
               array->piece[i]->stamp < group->member[array->piece[i]->rank].commit_stamp)
            i++;
        if (i == array->count)
            mkt_group_array_free(market, group, array);
    }
    mkt_tier_wake_all(market, group->object);
}

static void end_round(struct mkt_market *market, struct group *group)
{
    mkt_group_clear_deadline(market, group);
    group->committed = 0;
    group->listed_count = 0;
    mkt_image_drop(market, group->image);
    group->image = NULL;
}

void mkt_commit_saved(struct mkt_market *market, struct group *group, enum mkt_status status,
                      const char *why)
{
    struct mkt_msg answer = {.type = MKT_MSG_COMMITTED};

    answer.version.version = group->version_number;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct member *member = &group->member[rank];
        struct session *session = member->session;

        if (member->state != MEMBER_COMMITTING)
            continue;
        answer.request = member->request;
        mkt_member_done(market, member);
        if (status == MKT_OK)
            mkt_reply(market, session, &answer, NULL);
        else
            mkt_reply_error(market, session, answer.request, status,
                            "'%s' is published in memory, but its file is not on disk yet: %s; it "
                            "is tried again",
                            mkt_path_text(group->object->name.path), why);
    }
}

/* The last close may wait until its version, or what it left unchanged, is on disk. */
static void answer_close(struct mkt_market *market, struct group *group, struct version *version)
{
    if (group->published && version && mkt_save_is_unsaved(version) &&
        group->object->mode == MKT_MODE_BOTH && group->object->durability == MKT_DURABILITY_CLOSE)
        mkt_save_await(market, version, group);
    else
        answer_all(market, group, group->version_number);
}

/* Publishes what can't fail any more. */
static void publish(struct mkt_market *market, struct group *group, struct version *version,
                    uint64_t now_ms)
{
    struct object *object = group->object;
    bool keep_open = group->member[0].keep_open, gone = object->gone;

    mkt_object_get(object);
    if (gone) {
        /* Withdrawn while it was written: as with a removed file, the writer ends well and nothing
         * is left. */
        version->pins = 1;
        version->retired = true;
    } else {
        if (!keep_open)
            object->writer = NULL;
        mkt_version_publish(market, version, now_ms);
    }
    group->version_number = version->number;
    if (keep_open)
        drop_unlisted(market, group);
    end_round(market, group);
    group->published = !keep_open;
    answer_close(market, group, version);
    if (gone)
        mkt_version_unpin(market, version, false);
    else
        mkt_open_wake(market, object, now_ms);
    mkt_object_put(market, object);
}

static void finish(struct mkt_market *market, struct group *group, uint64_t now_ms)
{
    struct version *version = NULL;
    struct mkt_error error;

    if (!agree(group, error.text, sizeof(error.text))) {
        mkt_group_poison(market, group, now_ms, "%s", error.text);
    } else if (all_unchanged(group)) {
        struct object *object = group->object;
        bool keep_open = group->member[0].keep_open;

        if (!keep_open && group->version_open && !object->gone)
            mkt_version_close(market, group->version_open, group->publish_close, now_ms);
        end_round(market, group);
        group->published = !keep_open;
        answer_close(market, group, object->gone ? NULL : mkt_version_visible(object));
        if (!keep_open && object->writer == group)
            object->writer = NULL;
        if (!keep_open && !object->gone) {
            mkt_object_settle(market, object, "its writer closed it without publishing anything");
            mkt_open_wake(market, object, now_ms);
        }
    } else if (check_listed(group, &error) != MKT_OK ||
               mkt_version_build(market, group, &version, &error) != MKT_OK) {
        mkt_group_poison(market, group, now_ms, "%s", error.text);
    } else {
        publish(market, group, version, now_ms);
    }
}

/* ---- one rank ---- */

/* The image changes hands with the COMMIT that is the rank's last of the round. False: refused. */
static bool take_image(struct mkt_market *market, struct member *member,
                       const struct mkt_msg_commit *commit, enum mkt_status *status_out)
{
    struct group *group = member->group;
    struct session *session = member->session;
    struct held_image *image;

    *status_out = MKT_OK;
    if (commit->image.length == 0)
        return true;
    if (member->rank != 0 || commit->more || group->image) {
        mkt_refuse(market, session, "it published an image that is not its to publish");
        return false;
    }
    image = malloc(sizeof(*image));
    if (!image) {
        *status_out = MKT_NO_MEMORY;
        return mkt_session_give(market, session, &commit->image);
    }
    *image = (struct held_image){.references = 1, .extent = commit->image};
    *status_out = mkt_session_take(market, session, &commit->image);
    if (*status_out == MKT_OK) {
        group->image = image;
        return true;
    }
    free(image);
    if (*status_out == MKT_PROTOCOL)
        mkt_refuse(market, session, "it published an image whose bytes were not granted to it");
    return *status_out != MKT_PROTOCOL;
}

static void fail_poisoned(struct mkt_market *market, struct member *member, uint64_t request)
{
    struct group *group = member->group;

    mkt_reply_error(market, member->session, request, MKT_POISONED, "'%s' was not published: %s",
                    mkt_path_text(group->object->name.path), group->cause);
    if (group->image && member->rank == 0) {
        mkt_image_drop(market, group->image);
        group->image = NULL;
    }
    mkt_member_done(market, member);
}

static void poison_by_rank(struct mkt_market *market, struct member *member,
                           const struct mkt_bytes *failure, uint64_t now_ms)
{
    char who[128];

    mkt_group_poison(market, member->group, now_ms, "%s failed: %.*s", mkt_member_text(member, who),
                     failure->length > 350 ? 350 : (int)failure->length,
                     (const char *)failure->data);
}

void mkt_commit_request(struct mkt_market *market, struct session *session,
                        const struct mkt_msg *msg, uint64_t now_ms)
{
    const struct mkt_msg_commit *commit = &msg->commit;
    struct member *member = mkt_member_find(market, session, commit->file);
    enum mkt_status status;

    if (!member || member->group->state != GROUP_WRITING || member->state != MEMBER_ACTIVE) {
        mkt_refuse(market, session, "it committed a file that it does not write");
        return;
    }
    struct group *group = member->group;
    if (!take_image(market, member, commit, &status))
        return;
    group->last_ms = now_ms;
    if (commit->failure.length > 0)
        poison_by_rank(market, member, &commit->failure, now_ms);
    if (!group->poisoned && status == MKT_OK && member->rank == 0)
        status = list_append(market, group, commit);
    if (status == MKT_PROTOCOL) {
        mkt_refuse(market, session, "its list of arrays is malformed");
        return;
    }
    if (status != MKT_OK)
        mkt_group_poison(market, group, now_ms,
                         "the market daemon could not take the close of rank %u: %s", member->rank,
                         mkt_status_text(status));
    if (commit->more)
        return;
    if (group->poisoned) {
        fail_poisoned(market, member, msg->request);
        return;
    }
    member->state = MEMBER_COMMITTING;
    member->request = msg->request;
    member->hash = commit->hash;
    member->unchanged = commit->unchanged;
    member->keep_open = commit->keep_open;
    member->commit_stamp = market->last_stamp + 1;
    if (++group->committed == group->size)
        finish(market, group, now_ms);
    else
        mkt_group_set_deadline(market, group, now_ms + market->limits.commit_timeout_ms);
}

/* Time out on silence: what any rank says in the meantime counts. */
void mkt_commit_tick(struct mkt_market *market, struct group *group, uint64_t now_ms)
{
    char missing[96] = "";
    size_t at = 0;

    if (group->last_ms + market->limits.commit_timeout_ms > now_ms) {
        mkt_group_set_deadline(market, group, group->last_ms + market->limits.commit_timeout_ms);
        return;
    }
    for (uint32_t rank = 0; rank < group->size && at < sizeof(missing) - 16; rank++) {
        if (group->member[rank].state == MEMBER_ACTIVE)
            at +=
                (size_t)snprintf(missing + at, sizeof(missing) - at, "%s%u", at ? ", " : "", rank);
    }
    mkt_group_poison(market, group, now_ms,
                     "rank %s did not close it within %.1f s of the last sign of life", missing,
                     (double)market->limits.commit_timeout_ms / 1000);
}
