/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * OPEN: the ranks of a group come together, rank 0's name is resolved once, and all get one answer.
 * A reader that finds no version waits: for the writer if there is one, else for somebody to come.
 */
#include "core/base/hash.h"
#include "core/market/internal.h"
#include "core/wire/rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers to all ranks ---- */

static void leave_tokens(struct mkt_market *market, struct group *group)
{
    if (!group->in_tokens)
        return;
    HASH_DELETE(hh_token, market->groups_by_token, group);
    group->in_tokens = false;
}

/* Ends the wait: the group is no longer JOINING or WAITING. */
static void stop_waiting(struct mkt_market *market, struct group *group)
{
    mkt_group_clear_deadline(market, group);
    mkt_open_note_no_waiting(market, group);
    market->waiting_opens--;
    leave_tokens(market, group);
}

/* Ranks that come after the group has failed are told at once. */
static void remember_failure(struct mkt_market *market, const struct group *group,
                             enum mkt_status status, const char *text)
{
    struct failed_join *failed;

    if (group->present == group->size || group->size == 1)
        return;
    failed = &market->failed_join[market->failed_join_next++ % MKT_FAILED_JOINS_REMEMBERED];
    memcpy(failed->token, group->token, MKT_ID_BYTES);
    failed->status = status;
    snprintf(failed->text, sizeof(failed->text), "%.255s", text);
}

static void leave_all(struct mkt_market *market, struct group *group)
{
    for (uint32_t rank = 0; rank < group->size; rank++)
        mkt_member_done(market, &group->member[rank]);
}

void mkt_open_fail(struct mkt_market *market, struct group *group, enum mkt_status status,
                   const char *format, ...)
{
    char text[MKT_ERROR_TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    remember_failure(market, group, status, text);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct member *member = &group->member[rank];

        if (member->state == MEMBER_WAITING)
            mkt_reply_error(market, member->session, member->request, status, "%s", text);
    }
    stop_waiting(market, group);
    leave_all(market, group);
}

/* The same answer to all; where writers get a scratch grant each has its own. */
static void answer_all(struct mkt_market *market, struct group *group, const struct mkt_msg *answer,
                       bool scratch)
{
    char notice[MKT_SAVE_NOTICE_BYTES];

    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct member *member = &group->member[rank];
        struct mkt_msg msg = *answer;

        msg.request = member->request;
        if (rank == 0) {
            mkt_save_notice(market, member->session, group->object, notice);
            msg.opened.notice = (struct mkt_bytes){notice, (uint32_t)strlen(notice)};
        }
        if (scratch)
            mkt_grant_scratch(market, member->session, &msg.opened.scratch);
        member->state = MEMBER_ACTIVE;
        mkt_reply(market, member->session, &msg, &msg.opened.scratch);
    }
}

/* An answer after which the group has nothing open. */
static void answer_and_leave(struct mkt_market *market, struct group *group, enum mkt_source source,
                             const struct object *object)
{
    struct mkt_msg answer = {.type = MKT_MSG_OPENED};
    struct version *newest = object ? mkt_version_newest(object) : NULL;

    answer.opened.source = source;
    answer.opened.version = newest ? newest->number : 0;
    if (object)
        memcpy(answer.opened.object, object->id, MKT_ID_BYTES);
    stop_waiting(market, group);
    answer_all(market, group, &answer, false);
    leave_all(market, group);
}

static void answer_native(struct mkt_market *market, struct group *group)
{
    answer_and_leave(market, group, MKT_SOURCE_NATIVE, NULL);
}

/* The group has the object open from now on; the answer to it, so far. */
static struct mkt_msg enter(struct mkt_market *market, struct group *group, enum group_state state,
                            struct object *object)
{
    struct mkt_msg answer = {.type = MKT_MSG_OPENED};

    stop_waiting(market, group);
    group->state = state;
    market->background_files += mkt_group_is_background(group);
    group->object = object;
    mkt_object_get(object);
    answer.opened.file = group->file;
    answer.opened.source = MKT_SOURCE_EMPTY;
    memcpy(answer.opened.object, object->id, MKT_ID_BYTES);
    return answer;
}

static void begin(struct mkt_market *market, struct group *group, enum group_state state,
                  struct object *object, struct version *version)
{
    struct mkt_msg answer = enter(market, group, state, object);

    if (version) {
        mkt_version_pin(version, state == GROUP_READING);
        market->read_opens += state == GROUP_READING;
        group->version_open = version;
        group->version_number = version->number;
        answer.opened.source = MKT_SOURCE_VERSION;
        answer.opened.version = version->number;
        answer.opened.index = version->index;
        if (version->image)
            answer.opened.image = version->image->extent;
        if (state == GROUP_READING)
            answer.opened.skipped = mkt_stream_deliver(group, version);
    }
    answer_all(market, group, &answer, state == GROUP_WRITING);
}

/* ---- texts ---- */

static const char *describe_writer(const struct group *writer, char *text, size_t capacity)
{
    for (uint32_t rank = 0; rank < writer->size; rank++) {
        const struct session *session = writer->member[rank].session;

        if (session) {
            snprintf(text, capacity, "%s (pid %u%s)", session->program, session->pid,
                     writer->size > 1 ? ", a parallel program" : "");
            return text;
        }
    }
    snprintf(text, capacity, "another program");
    return text;
}

static void fail_busy(struct mkt_market *market, struct group *group, const struct object *object)
{
    char who[96];

    mkt_open_fail(market, group, MKT_BUSY,
                  "'%s' is open for writing in %s: wait until that has closed it, or end it",
                  mkt_path_text(group->name.path),
                  describe_writer(object->writer, who, sizeof(who)));
}

static void fail_out_of_memory(struct mkt_market *market, struct group *group)
{
    mkt_open_fail(market, group, MKT_NO_MEMORY,
                  "'%s' was not opened: the market daemon is out of memory",
                  mkt_path_text(group->name.path));
}

/* Nothing is there, and nobody waits for it. */
static void fail_not_found(struct mkt_market *market, struct group *group,
                           const struct object *object)
{
    const char *path = mkt_path_text(group->name.path);
    bool by_stub = !mkt_id_is_zero(group->name.object);
    const struct withdrawn *withdrawn =
        by_stub ? mkt_withdrawn_find(market, group->name.object) : NULL;

    if (withdrawn)
        mkt_open_fail(market, group, MKT_NOT_FOUND, "'%s' is not in the market any more: %s", path,
                      withdrawn->why);
    else if (by_stub && !object)
        mkt_open_fail(
            market, group, MKT_NOT_FOUND,
            "'%s' is a left-over stub: the market no longer has its object (withdrawn, or "
            "the daemon was restarted), and the data with it; remove the file or write "
            "it anew",
            path);
    else if (group->version != 0 && object)
        mkt_open_fail(
            market, group, MKT_NOT_FOUND, "version %llu of '%s' is not there; the newest is %llu",
            (unsigned long long)group->version, path, (unsigned long long)object->last_version);
    else if (group->waits_on[0])
        mkt_open_fail(market, group, MKT_NOT_FOUND,
                      "'%s' was never published: %s went without publishing it", path,
                      group->waits_on);
    else
        mkt_open_fail(market, group, MKT_NOT_FOUND,
                      "the market has no version of '%s', nor does anybody write it; `wait` lets a "
                      "reader start first",
                      path);
}

/* ---- READ ---- */

/* At a path without a stub there may be an object whose stub its writer has just put there, after
 * the reader looked. A stub that is older than that race has been seen, or moved elsewhere. */
static struct object *find_raced_stub(const struct mkt_market *market,
                                      const struct owned_name *name, uint64_t now_ms)
{
    struct object *object = mkt_object_by_stub_place(market, name);
    const struct version *newest = object ? mkt_version_newest(object) : NULL;

    return newest && newest->number == 1 && newest->published_ms + MKT_STUB_RACE_MS >= now_ms
               ? object
               : NULL;
}

/* Its only writer brings in what is on disk as well: nobody need wait for that. */
static bool is_loading(const struct object *object)
{
    return object->writer && object->writer->intent == MKT_INTENT_LOAD;
}

static bool is_nameless(const struct owned_name *name)
{
    return mkt_id_is_zero(name->object) && name->file.ino == 0;
}

/* What is wanted of an object, or NULL. */
static struct version *pick_version(const struct group *group, const struct object *object)
{
    struct version *version;

    if (group->version == 0 && group->stream.deliver > MKT_DELIVER_LATEST)
        return mkt_stream_pick(group, object);
    if (group->version == 0) {
        version = mkt_version_visible(object);
        return version && version->published_ms >= group->after_ms ? version : NULL;
    }
    DL_FOREACH (object->versions, version) {
        if (version->number == group->version && !version->hidden)
            return version;
    }
    return NULL;
}

static bool is_own_writer(const struct group *reader, const struct group *writer)
{
    for (uint32_t w = 0; w < writer->size; w++) {
        for (uint32_t r = 0; writer->member[w].session && r < reader->size; r++) {
            if (reader->member[r].session == writer->member[w].session)
                return true;
        }
    }
    return false;
}

static uint64_t add_ms(uint64_t time_ms, uint32_t more_ms)
{
    return time_ms + more_ms < time_ms ? UINT64_MAX : time_ms + more_ms;
}

static void wait_until(struct mkt_market *market, struct group *group, uint64_t deadline_ms)
{
    group->state = GROUP_WAITING;
    mkt_open_note_waiting(market, group);
    mkt_group_set_deadline(market, group, deadline_ms);
}

/* Closed, but not often enough for readers. */
static bool is_begun(const struct object *object)
{
    return object->versions && mkt_version_newest(object)->hidden;
}

static bool is_stream_reader(const struct group *group)
{
    return group->version == 0 && group->stream.deliver > MKT_DELIVER_LATEST;
}

/* It has had all that is there. */
static void fail_follow(struct mkt_market *market, struct group *group, uint64_t now_ms)
{
    mkt_open_fail(market, group, MKT_TIMED_OUT,
                  "no further version of '%s' within %.1f s, and its reader has had all; raise "
                  "`wait` if its writer takes longer, or let the writer end the stream (`end`, "
                  "`h5market end`)",
                  mkt_path_text(group->name.path), (double)(now_ms - group->started_ms) / 1000);
}

/* No version of the object will do now. */
static void read_wait_or_fail(struct mkt_market *market, struct group *group,
                              const struct object *object, uint64_t now_ms)
{
    uint32_t wait_ms = group->wait_ms;
    bool lost = object && group->version != 0 && group->version <= object->last_version;
    bool written = object && object->writer && !lost;
    bool begun = object && !lost && !written && is_begun(object);
    bool follows = is_stream_reader(group) && object && object->steps > 0;

    if (written && is_loading(object)) {
        answer_native(market, group);
        return;
    }
    if (written && is_own_writer(group, object->writer)) {
        mkt_open_fail(market, group, MKT_BUSY,
                      "'%s' is being written by this same program: close it first",
                      mkt_path_text(group->name.path));
        return;
    }
    if (written) {
        describe_writer(object->writer, group->waits_on, sizeof(group->waits_on));
    } else if (begun) {
        snprintf(group->waits_on, sizeof(group->waits_on),
                 "its writer (closed %u times, `publish: close N`)",
                 mkt_version_newest(object)->closes);
    } else if (group->name.file.ino != 0 && !(object && object->versions) && !group->stream.only) {
        answer_native(market, group);
        return;
    }
    if ((written || begun || follows) && group->writer_timeout_ms > wait_ms)
        wait_ms = group->writer_timeout_ms;
    bool is_over = add_ms(group->started_ms, wait_ms) < now_ms;
    if (follows && is_over && !written)
        fail_follow(market, group, now_ms);
    else if (lost || is_over || (wait_ms == 0 && !written && !begun && !follows))
        fail_not_found(market, group, object);
    else
        wait_until(market, group, add_ms(group->started_ms, wait_ms));
}

/* Somebody else's file stands there now: it wins. But what is still to be saved stays, by its
 * place, for when that file is gone again. */
static void displace(struct mkt_market *market, struct object *object)
{
    const struct version *newest = mkt_version_visible(object);

    if (newest && mkt_save_is_owed(newest)) {
        mkt_object_lose_stub(market, object);
        return;
    }
    mkt_object_retire_all(market, object);
    if (!object->writer)
        mkt_object_settle(market, object, "another file was put in its place");
}

static void fail_end(struct mkt_market *market, struct group *group, const struct object *object)
{
    mkt_stream_note_told(market, group, object);
    mkt_open_fail(market, group, MKT_END,
                  "end of stream: '%s' has no more versions for this reader, and its writers said "
                  "that none will come",
                  mkt_path_text(group->name.path));
}

/* False: the group has its answer. */
static bool join_stream(struct mkt_market *market, struct group *group, struct object *object)
{
    struct mkt_error error;
    enum mkt_status status = mkt_stream_join(market, group, object, &error);

    if (status != MKT_OK)
        mkt_open_fail(market, group, status, "'%s' was not opened: %.500s",
                      mkt_path_text(group->name.path), error.text);
    return status == MKT_OK;
}

/* `woken_by`: what changed, NULL at first. */
static void open_read(struct mkt_market *market, struct group *group, struct object *woken_by,
                      uint64_t now_ms)
{
    bool differs;
    struct object *object = mkt_object_by_client_name(market, &group->name, &differs);
    struct version *version;

    if (group->mode == MKT_MODE_FILE) {
        answer_native(market, group);
        return;
    }
    if (differs) {
        displace(market, object);
        answer_native(market, group);
        return;
    }
    if (!object && is_nameless(&group->name))
        object = woken_by && !woken_by->gone ? woken_by
                 : group->wait_ms > 0        ? find_raced_stub(market, &group->name, now_ms)
                                             : NULL;
    if (!join_stream(market, group, object))
        return;
    version = object ? pick_version(group, object) : NULL;
    if (version && mkt_version_refresh(market, version) != MKT_OK)
        fail_out_of_memory(market, group);
    else if (version)
        begin(market, group, GROUP_READING, object, version);
    else if (is_stream_reader(group) && mkt_stream_is_over(market, group, object))
        fail_end(market, group, object);
    else
        read_wait_or_fail(market, group, object, now_ms);
}

/* ---- LOAD ---- */

/* What a real file's bytes need, and an object that knows the file. */
static void begin_loading(struct mkt_market *market, struct group *group)
{
    struct session *session = group->member[0].session;
    struct mkt_extent scratch;
    struct object *object;

    if (!mkt_grant_at_once(market, session, group->name.file.size, &scratch)) {
        answer_native(market, group);
        return;
    }
    enum mkt_status status = mkt_object_create(market, &group->name, false, &object);
    if (status != MKT_OK) {
        mkt_session_give(market, session, &scratch);
        answer_native(market, group);
        return;
    }
    object->writer = group;
    object->mode = group->mode;
    struct mkt_msg answer = enter(market, group, GROUP_WRITING, object);
    answer.opened.scratch = scratch;
    answer_all(market, group, &answer, false);
}

static void open_load(struct mkt_market *market, struct group *group, uint64_t now_ms)
{
    bool differs;
    struct object *object = mkt_object_by_client_name(market, &group->name, &differs);

    if (object && differs && !object->writer) {
        mkt_object_retire_all(market, object);
        mkt_object_settle(market, object, "another file was put in its place");
        object = NULL;
    }
    if (group->mode == MKT_MODE_FILE || group->name.file.ino == 0 || group->name.file.size == 0 ||
        (object && differs))
        answer_native(market, group);
    else if (!object)
        begin_loading(market, group);
    else if (is_loading(object) && group->state != GROUP_WAITING)
        wait_until(market, group, add_ms(now_ms, market->limits.commit_timeout_ms));
    else if (!is_loading(object))
        answer_and_leave(market, group, MKT_SOURCE_VERSION, object);
}

/* A group's open that waits for rank 0, which loads the file first. */
static bool is_prepared(const struct mkt_market *market, const struct group *group)
{
    const struct group *other;

    DL_FOREACH2 (market->loads, other, load_next) {
        if (!other->doomed && memcmp(other->token, group->token, MKT_ID_BYTES) == 0)
            return true;
    }
    return false;
}

static bool waits_for(const struct mkt_market *market, const struct group *group,
                      const struct object *object)
{
    if (!mkt_id_is_zero(group->name.object))
        return memcmp(group->name.object, object->id, MKT_ID_BYTES) == 0;
    if (group->name.file.ino != 0)
        return (group->name.file.ino == object->name.file.ino &&
                group->name.file.dev == object->name.file.dev) ||
               mkt_save_find_placing(market, &group->name) == object;
    return group->name.place_bytes == object->name.place_bytes &&
           memcmp(group->name.place, object->name.place, group->name.place_bytes) == 0;
}

/* Those who wait by one key: an object's id, a file, or a place. */
static uint32_t bucket_of(const void *key, size_t bytes)
{
    return (uint32_t)(mkt_hash64(key, bytes, 0) % MKT_WAITING_BUCKETS) + 1;
}

static uint32_t bucket_of_file(const struct mkt_file_identity *file)
{
    const uint64_t key[2] = {file->dev, file->ino};

    return bucket_of(key, sizeof(key));
}

void mkt_open_note_no_waiting(struct mkt_market *market, struct group *group)
{
    if (group->bucket == 0)
        return;
    DL_DELETE(market->waiting[group->bucket - 1], group);
    group->bucket = 0;
    market->stream_waits -= mkt_stream_is_asked(group);
}

void mkt_open_note_waiting(struct mkt_market *market, struct group *group)
{
    const struct owned_name *name = &group->name;
    uint32_t bucket = !mkt_id_is_zero(name->object) ? bucket_of(name->object, MKT_ID_BYTES)
                      : name->file.ino != 0         ? bucket_of_file(&name->file)
                                                    : bucket_of(name->place, name->place_bytes);

    if (bucket == group->bucket)
        return;
    mkt_open_note_no_waiting(market, group);
    group->bucket = bucket;
    DL_APPEND(market->waiting[bucket - 1], group);
    market->stream_waits += mkt_stream_is_asked(group);
}

static void wake_bucket(struct mkt_market *market, uint32_t bucket, struct object *object,
                        uint64_t now_ms)
{
    struct group *group, *next;

    DL_FOREACH_SAFE (market->waiting[bucket - 1], group, next) {
        if (!waits_for(market, group, object))
            continue;
        if (group->intent == MKT_INTENT_LOAD)
            open_load(market, group, now_ms);
        else if (group->intent == MKT_INTENT_READ)
            open_read(market, group, object, now_ms);
        else
            market->has_stream_news = true;
        if (group->bucket > 0)
            mkt_open_note_waiting(market, group); /* its name may be another now */
    }
}

/* The object's next version whose file may be at its place without a report yet. */
static const struct version *next_placed(const struct mkt_market *market,
                                         const struct object *object, uint64_t after)
{
    const struct version *version;

    DL_FOREACH2 (market->unsaved, version, save_next) {
        if (version->object == object && version->number > after && version->save.placed.ino != 0)
            return version;
    }
    return NULL;
}

void mkt_open_wake(struct mkt_market *market, struct object *object, uint64_t now_ms)
{
    const struct version *placed = NULL;

    if (market->waiting_opens == 0)
        return;
    mkt_object_get(object);
    if (object->stream)
        market->has_stream_news = true; /* for others of the stream */
    wake_bucket(market, bucket_of(object->id, MKT_ID_BYTES), object, now_ms);
    if (object->name.file.ino != 0)
        wake_bucket(market, bucket_of_file(&object->name.file), object, now_ms);
    wake_bucket(market, bucket_of(object->name.place, object->name.place_bytes), object, now_ms);
    for (uint64_t after = 0; (placed = next_placed(market, object, after));) {
        after = placed->number;
        wake_bucket(market, bucket_of_file(&placed->save.placed), object, now_ms);
    }
    mkt_object_put(market, object);
}

static void open_probe(struct mkt_market *market, struct group *group)
{
    bool differs;
    struct object *object = mkt_object_by_client_name(market, &group->name, &differs);

    if (object && !differs && (object->versions || (object->writer && !is_loading(object))))
        answer_and_leave(market, group, MKT_SOURCE_VERSION, object);
    else if (group->name.file.ino != 0)
        answer_native(market, group);
    else
        fail_not_found(market, group, NULL);
}

/* ---- writers ---- */

static void begin_writing(struct mkt_market *market, struct group *group, struct object *object,
                          struct version *version, uint64_t now_ms)
{
    bool is_consumed = group->stream.consumed || group->stream.queue > 0;
    const char *set = group->set && !is_consumed ? group->set : "";

    enum mkt_status status = mkt_stream_write(market, group, object);
    if (status == MKT_OK)
        status = mkt_object_set_retention(market, object, set, group->keep);
    if (status != MKT_OK) {
        if (status == MKT_NO_SPACE)
            mkt_open_fail(market, group, status,
                          "'%s' was not opened: the market knows as many streams as it may (twice "
                          "`max_objects`)",
                          mkt_path_text(group->name.path));
        else
            fail_out_of_memory(market, group);
        mkt_object_settle(market, object, "it was never written");
        return;
    }
    object->writer = group;
    object->mode = group->mode;
    object->durability = group->durability ? group->durability : MKT_DURABILITY_ASYNC;
    object->priority = group->priority;
    object->backup = group->backup;
    object->pin = group->pin;
    object->writer_session = group->member[0].session->id;
    market->save_turn++;
    mkt_tier_wake_all(market, object);
    begin(market, group, GROUP_WRITING, object, version);
    mkt_open_wake(market, object, now_ms);
}

/* True if the group waits for a place in the queue, or has waited in vain. Who has waited doesn't
 * just go on when there is one: what stands at the path may have changed, so it is to look again.
 */
static bool wait_for_queue(struct mkt_market *market, struct group *group,
                           const struct object *object, uint64_t now_ms)
{
    const struct mkt_stream_rule *rule = &group->stream;
    uint64_t end_ms = add_ms(group->started_ms, rule->queue_timeout_ms), told_ms = end_ms;
    char text[MKT_STREAM_TEXT_BYTES];

    if (rule->patience_ms > 0 && rule->patience_ms < rule->queue_timeout_ms)
        told_ms = add_ms(group->started_ms, rule->patience_ms);
    if (!mkt_stream_is_full(market, group, object, text)) {
        if (group->state != GROUP_WAITING)
            return false;
        mkt_open_fail(market, group, MKT_STALE, "%s", ""); /* nothing to tell anybody */
    } else if (now_ms < told_ms)
        wait_until(market, group, told_ms);
    else
        mkt_open_fail(market, group, now_ms < end_ms ? MKT_STALE : MKT_TIMED_OUT,
                      "'%s' can't be written yet: its stream has %u unread versions, the most that "
                      "it may (`queue`): %s",
                      mkt_path_text(group->name.path), rule->queue, text);
    return true;
}

static void look_at_queue(struct mkt_market *market, struct group *group, uint64_t now_ms)
{
    bool differs;
    struct object *object = mkt_object_by_client_name(market, &group->name, &differs);

    wait_for_queue(market, group, object, now_ms);
}

static void open_create(struct mkt_market *market, struct group *group, struct object *object,
                        uint64_t now_ms)
{
    enum mkt_status status = MKT_OK;

    if (group->intent == MKT_INTENT_CREATE_EXCL &&
        (group->name.file.ino != 0 || (object && (object->versions || object->writer)))) {
        mkt_open_fail(market, group, MKT_EXISTS, "'%s' exists already",
                      mkt_path_text(group->name.path));
        return;
    }
    if (group->stream.on_full == MKT_FULL_FILE && mkt_grant_is_short(market)) {
        if (object)
            mkt_object_withdraw(market, object, false, "withdrawn: memory was full, it is a file");
        answer_native(market, group);
        return;
    }
    if (wait_for_queue(market, group, object, now_ms))
        return;
    if (object && !object->has_stub && object->name.file.ino != 0)
        group->has_stub = false; /* its file has taken the stub's place since the client looked */
    if (object)
        status = mkt_object_rename(market, object, &group->name, group->has_stub);
    else
        status = mkt_object_create(market, &group->name, group->has_stub, &object);
    if (status == MKT_OK)
        begin_writing(market, group, object, NULL, now_ms);
    else if (status == MKT_NO_SPACE)
        mkt_open_fail(market, group, status,
                      "'%s' was not created: the market holds %u objects, the most that it may "
                      "(%s)",
                      mkt_path_text(group->name.path), market->limits.max_objects,
                      market->limits.max_objects_by ? market->limits.max_objects_by
                                                    : "`max_objects`");
    else
        fail_out_of_memory(market, group);
}

static void open_read_write(struct mkt_market *market, struct group *group, struct object *object,
                            uint64_t now_ms)
{
    struct version *newest = object ? mkt_version_newest(object) : NULL;

    if (newest && group->read_only) {
        mkt_open_fail(market, group, MKT_DENIED, "'%s' may not be written by this user",
                      mkt_path_text(group->name.path));
        return;
    }
    if (newest && wait_for_queue(market, group, object, now_ms))
        return;
    /* Each rank would get a copy of it, and its file is as good. */
    if (newest && newest->save.state == SAVE_SAVED && newest->image && !mkt_stream_holds(newest) &&
        newest->image->extent.length >
            market->limits.memory_bytes / MKT_LOAD_PART_TO_WRITE / group->size) {
        mkt_object_retire_all(market, object);
        mkt_object_settle(market, object, "withdrawn: it was opened as a file");
        newest = NULL;
    }
    if (newest && mkt_version_refresh(market, newest) != MKT_OK)
        fail_out_of_memory(market, group);
    else if (newest)
        begin_writing(market, group, object, newest, now_ms);
    else if (group->name.file.ino != 0)
        answer_native(market, group);
    else
        fail_not_found(market, group, NULL);
}

static void open_write(struct mkt_market *market, struct group *group, uint64_t now_ms)
{
    bool differs;
    struct object *object = mkt_object_by_client_name(market, &group->name, &differs);

    while (object && is_loading(object)) {
        mkt_group_poison(market, object->writer, now_ms, "it was opened for writing meanwhile");
        object = mkt_object_by_client_name(market, &group->name, &differs);
    }
    if (object && differs) {
        bool written = object->writer != NULL;

        displace(market, object);
        object = written ? object : NULL;
    }
    if (object && object->writer) {
        if (group->intent == MKT_INTENT_CREATE_EXCL)
            open_create(market, group, object, now_ms);
        else
            fail_busy(market, group, object);
    } else if (group->mode == MKT_MODE_FILE) {
        /* Native refuses an exclusive create, since something stands there. */
        if (object && group->intent != MKT_INTENT_CREATE_EXCL)
            mkt_object_withdraw(market, object, false, "withdrawn: it was opened as a file");
        answer_native(market, group);
    } else if (market->drains > 0) {
        mkt_open_fail(market, group, MKT_BUSY,
                      "'%s' was not opened for writing: the market is ending, and saves what it "
                      "holds (`h5market stop`, or a signal of the batch system to its daemon)",
                      mkt_path_text(group->name.path));
    } else if (group->intent == MKT_INTENT_READ_WRITE) {
        open_read_write(market, group, object, now_ms);
    } else {
        open_create(market, group, object, now_ms);
    }
}

/* ---- the ranks come together ---- */

static void resolve(struct mkt_market *market, struct group *group, uint64_t now_ms)
{
    leave_tokens(market, group);
    switch (group->intent) {
    case MKT_INTENT_READ:
        open_read(market, group, NULL, now_ms);
        break;
    case MKT_INTENT_PROBE:
        open_probe(market, group);
        break;
    case MKT_INTENT_LOAD:
        open_load(market, group, now_ms);
        break;
    default:
        open_write(market, group, now_ms);
        break;
    }
}

static enum mkt_status take_request(struct mkt_market *market, struct group *group,
                                    const struct mkt_msg_open *open)
{
    group->intent = open->intent;
    if (group->intent == MKT_INTENT_LOAD)
        DL_APPEND2(market->loads, group, load_prev, load_next);
    group->mode = open->mode;
    group->wait_ms = open->wait_ms;
    group->writer_timeout_ms = open->writer_timeout_ms;
    group->keep = open->keep;
    group->publish_close = open->publish_close;
    group->durability = open->durability;
    group->priority = open->priority;
    group->backup = open->backup;
    group->pin = open->pin;
    group->version = open->version;
    group->after_ms = open->after_ms;
    group->read_only = open->read_only;
    group->has_stub = open->has_stub;
    group->stream = open->stream;
    group->stream.reader.data = NULL; /* in the group's own `reader` */
    group->stream.reader.length = 0;
    if (open->stream.reader.length > 0)
        snprintf(group->reader, sizeof(group->reader), "%.*s", (int)open->stream.reader.length,
                 (const char *)open->stream.reader.data);
    if (mkt_owned_name_init(&group->name, &open->name) != MKT_OK)
        return MKT_NO_MEMORY;
    group->has_name = true;
    if (open->set.length == 0)
        return MKT_OK;
    group->set = mkt_rule_set(open->set.data, open->set.length, group->name.path);
    return group->set ? MKT_OK : MKT_NO_MEMORY;
}

static struct group *find_by_token(struct mkt_market *market, const uint8_t token[MKT_ID_BYTES])
{
    struct group *group;

    HASH_FIND(hh_token, market->groups_by_token, token, MKT_ID_BYTES, group);
    return group;
}

static struct group *start_group(struct mkt_market *market, const struct mkt_msg_open *open,
                                 uint64_t now_ms)
{
    struct group *group = mkt_group_create(market, open->size);

    if (!group)
        return NULL;
    memcpy(group->token, open->token, MKT_ID_BYTES);
    if (open->size > 1) {
        HASH_ADD(hh_token, market->groups_by_token, token, MKT_ID_BYTES, group);
        group->in_tokens = MKT_TABLE_ADDED(group, hh_token);
        if (!group->in_tokens) {
            leave_all(market, group);
            return NULL;
        }
    }
    market->waiting_opens++;
    group->started_ms = group->last_ms = now_ms;
    mkt_group_set_deadline(market, group, add_ms(now_ms, market->limits.join_timeout_ms));
    return group;
}

/* NULL, and answered, if there can be no group for this request. */
static struct group *find_or_start_group(struct mkt_market *market, struct session *session,
                                         const struct mkt_msg *msg, uint64_t now_ms)
{
    const struct mkt_msg_open *open = &msg->open;
    struct group *group = open->size > 1 ? find_by_token(market, open->token) : NULL;

    if (group)
        return group;
    for (uint32_t i = 0; open->size > 1 && i < MKT_FAILED_JOINS_REMEMBERED; i++) {
        const struct failed_join *failed = &market->failed_join[i];

        if (failed->text[0] && memcmp(failed->token, open->token, MKT_ID_BYTES) == 0) {
            mkt_reply_error(market, session, msg->request, failed->status, "%s", failed->text);
            return NULL;
        }
    }
    if (HASH_COUNT(market->groups) >= market->limits.max_groups) {
        mkt_reply_error(market, session, msg->request, MKT_NO_SPACE,
                        "the market has %u files open, the most that it may (`max_writers`)",
                        HASH_COUNT(market->groups));
        return NULL;
    }
    if (market->waiting_opens >= market->limits.max_waiting) {
        mkt_reply_error(market, session, msg->request, MKT_NO_SPACE,
                        "%u opens wait already, the most that may (`max_waiting`)",
                        market->waiting_opens);
        return NULL;
    }
    group = start_group(market, open, now_ms);
    if (!group)
        mkt_reply_error(market, session, msg->request, MKT_NO_MEMORY,
                        "the market daemon is out of memory");
    return group;
}

/* Why this rank can't be of this group, or NULL. */
static const char *misfit(const struct group *group, const struct session *session,
                          const struct mkt_msg_open *open)
{
    const struct member *member;

    if (group->size != open->size)
        return "its ranks disagree about their number";
    if (group->member[open->rank].state != MEMBER_ABSENT)
        return "two processes say that they are the same rank";
    DL_FOREACH (session->members, member) {
        if (member->group == group)
            return "one process says that it is two ranks";
    }
    return NULL;
}

void mkt_open_request(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                      uint64_t now_ms)
{
    const struct mkt_msg_open *open = &msg->open;

    if (open->size == 0 || open->size > MKT_MAX_RANKS || open->rank >= open->size ||
        (open->rank == 0 && (open->intent < MKT_INTENT_READ || open->intent > MKT_INTENT_LOAD)) ||
        (open->rank == 0 && open->intent == MKT_INTENT_LOAD && open->size != 1)) {
        mkt_reply_error(market, session, msg->request, MKT_INVALID,
                        "an open of rank %u of %u with intent %u makes no sense", open->rank,
                        open->size, open->intent);
        return;
    }
    struct group *group = find_or_start_group(market, session, msg, now_ms);
    if (!group)
        return;
    const char *why = misfit(group, session, open);
    if (why) {
        mkt_reply_error(market, session, msg->request, MKT_INVALID,
                        "a file can't be opened together: %s", why);
        mkt_open_fail(market, group, MKT_INVALID, "a file can't be opened together: %s", why);
        return;
    }
    mkt_member_join(&group->member[open->rank], session, msg->request);
    group->present++;
    if (open->rank == 0 && take_request(market, group, open) != MKT_OK)
        mkt_open_fail(market, group, MKT_NO_MEMORY,
                      "a file was not opened: the market daemon is out of memory");
    else if (group->present == group->size)
        resolve(market, group, now_ms);
}

void mkt_open_look_again(struct mkt_market *market, struct group *group)
{
    if (group->intent == MKT_INTENT_READ)
        open_read(market, group, NULL, market->now_ms);
    else
        look_at_queue(market, group, market->now_ms);
}

/* ---- time ---- */

static void fail_join(struct mkt_market *market, struct group *group)
{
    char missing[96] = "";
    size_t at = 0;

    for (uint32_t rank = 0; rank < group->size && at < sizeof(missing) - 16; rank++) {
        if (group->member[rank].state == MEMBER_ABSENT)
            at +=
                (size_t)snprintf(missing + at, sizeof(missing) - at, "%s%u", at ? ", " : "", rank);
    }
    mkt_open_fail(market, group, MKT_TIMED_OUT,
                  "'%s' was opened by %u of %u ranks: rank %s%s did not come within %.1f s; all "
                  "ranks of the communicator must open it",
                  group->has_name ? mkt_path_text(group->name.path) : "a file", group->present,
                  group->size, missing, at >= sizeof(missing) - 16 ? ", ..." : "",
                  (double)market->limits.join_timeout_ms / 1000);
}

void mkt_open_tick(struct mkt_market *market, struct group *group, uint64_t now_ms)
{
    const char *path = group->has_name ? mkt_path_text(group->name.path) : "";
    double waited = (double)(now_ms - group->started_ms) / 1000;

    if (group->state == GROUP_JOINING && is_prepared(market, group))
        mkt_group_set_deadline(market, group, add_ms(now_ms, market->limits.join_timeout_ms));
    else if (group->state == GROUP_JOINING)
        fail_join(market, group);
    else if (group->intent == MKT_INTENT_LOAD)
        answer_native(market, group);
    else if (group->intent != MKT_INTENT_READ)
        look_at_queue(market, group, now_ms);
    else if (is_stream_reader(group) && group->reader_place >= 0 && !group->waits_on[0])
        fail_follow(market, group, now_ms);
    else if (group->waits_on[0])
        mkt_open_fail(market, group, MKT_TIMED_OUT,
                      "no version of '%s' within %.1f s: waited for %s to close it; raise "
                      "`writer_timeout` in h5market.yaml if that takes longer",
                      path, waited, group->waits_on);
    else
        mkt_open_fail(market, group, MKT_TIMED_OUT,
                      "no version of '%s' within %.1f s: nobody published it; start its writer, or "
                      "raise `wait` if it starts later",
                      path, waited);
}
