/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: versions that follow each other, of one object, or of all whose writer's rule has the
 * same pattern; the named readers that go through them, each at its own pace; the queue that lets
 * their writer wait; the end.
 *
 *   of a version, for each named reader:   (there) -deliver-> had -closed by all ranks-> read
 *                                             ^-- the reader dies before --'
 *
 * An object is of a stream from the first time that somebody takes it for one: a writer by its
 * rule, a reader by what it wants delivered, or who ends it. It stays in that one. Who reads
 * without a name isn't seen here.
 */
#include "core/market/internal.h"
#include "core/wire/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

static struct stream *find_key(const struct mkt_market *market, const char *key)
{
    struct stream *stream;

    HASH_FIND_STR(market->streams, key, stream);
    return stream;
}

/* With a reference. */
static enum mkt_status stream_create(struct mkt_market *market, const char *key, bool is_patterned,
                                     struct stream **stream_out)
{
    struct stream *stream;

    if (HASH_COUNT(market->streams) >= 2 * market->limits.max_objects)
        return MKT_NO_SPACE;
    stream = calloc(1, sizeof(*stream));
    if (!stream)
        return MKT_NO_MEMORY;
    stream->key = strdup(key);
    if (stream->key)
        HASH_ADD_KEYPTR(hh, market->streams, stream->key, strlen(stream->key), stream);
    if (!stream->key || !MKT_TABLE_ADDED(stream, hh)) {
        free(stream->key);
        free(stream);
        return MKT_NO_MEMORY;
    }
    stream->is_patterned = is_patterned;
    stream->references = 1;
    *stream_out = stream;
    return MKT_OK;
}

/* That a pattern's stream has ended is remembered when nothing is left of it. */
void mkt_stream_put(struct mkt_market *market, struct stream *stream)
{
    if (!stream || --stream->references > 0 || (stream->is_patterned && stream->ended))
        return;
    for (uint32_t place = 0; place < stream->count; place++)
        market->leaving_readers -= stream->reader[place].state == READER_LEAVING;
    HASH_DEL(market->streams, stream);
    free(stream->key);
    free(stream->reader);
    free(stream);
}

static void enter(struct stream *stream, struct version *version)
{
    version->stream = stream;
    version->had = version->read = 0;
    stream->references++;
    DL_APPEND2(stream->versions, version, stream_prev, stream_next);
    stream->versions_count++;
}

/* The object is of the stream from now on, with the versions that it has. */
static void attach(struct object *object, struct stream *stream)
{
    struct version *version;

    object->stream = stream;
    stream->references++;
    DL_FOREACH (object->versions, version) {
        if (!version->hidden)
            enter(stream, version);
    }
}

static enum mkt_status get_by_pattern(struct mkt_market *market, const char *pattern,
                                      struct stream **stream_out)
{
    struct stream *stream = find_key(market, pattern);

    if (!stream)
        return stream_create(market, pattern, true, stream_out);
    stream->references++;
    *stream_out = stream;
    return MKT_OK;
}

/* Of this object alone. No pattern has a line's end. */
static enum mkt_status make_own(struct mkt_market *market, struct object *object)
{
    char key[2 * MKT_ID_BYTES + 2] = "\n";
    struct stream *stream;

    for (int i = 0; i < MKT_ID_BYTES; i++)
        snprintf(key + 1 + 2 * i, 3, "%02x", object->id[i]);
    enum mkt_status status = stream_create(market, key, false, &stream);
    if (status != MKT_OK)
        return status;
    attach(object, stream);
    mkt_stream_put(market, stream);
    return MKT_OK;
}

struct stream *mkt_stream_find(const struct mkt_market *market, const struct group *group,
                               const struct object *object)
{
    struct stream *stream, *next;

    if (object)
        return object->stream;
    stream = group->set ? find_key(market, group->set) : NULL;
    if (stream)
        return stream;
    HASH_ITER (hh, market->streams, stream, next) {
        const struct mkt_rule rule = {.pattern = stream->key};

        if (stream->is_patterned && mkt_rule_matches(&rule, group->name.path, NULL))
            return stream;
    }
    return NULL;
}

/* ---- who takes part ---- */

static void reader_comes(struct mkt_market *market, struct reader *reader)
{
    market->leaving_readers -= reader->state == READER_LEAVING;
    reader->state = READER_HERE;
    reader->is_early |= reader->told && reader->sessions == 0;
    reader->sessions++;
}

static void reader_goes(struct mkt_market *market, struct reader *reader)
{
    if (--reader->sessions > 0)
        return;
    reader->state = READER_LEAVING;
    reader->left_ms = market->now_ms;
    market->leaving_readers++;
    mkt_note_deadline(market, reader->left_ms + market->limits.reader_grace_ms);
}

/* Once for each session. */
static enum mkt_status attend(struct mkt_market *market, struct session *session,
                              struct stream *stream, int32_t place)
{
    struct attendance *attendance;

    DL_FOREACH (session->attendances, attendance) {
        if (attendance->stream == stream && attendance->reader == place)
            return MKT_OK;
    }
    attendance = calloc(1, sizeof(*attendance));
    if (!attendance)
        return MKT_NO_MEMORY;
    attendance->stream = stream;
    attendance->reader = place;
    stream->references++;
    DL_APPEND(session->attendances, attendance);
    if (place < 0)
        stream->writers++;
    else
        reader_comes(market, &stream->reader[place]);
    return MKT_OK;
}

static void end(struct mkt_market *market, struct stream *stream)
{
    stream->ended = true;
    market->has_stream_news = true;
}

void mkt_stream_forget(struct mkt_market *market, struct session *session)
{
    struct attendance *attendance, *next;

    DL_FOREACH_SAFE (session->attendances, attendance, next) {
        struct stream *stream = attendance->stream;

        DL_DELETE(session->attendances, attendance);
        if (attendance->reader >= 0)
            reader_goes(market, &stream->reader[attendance->reader]);
        else if (--stream->writers == 0 && stream->end_after == MKT_END_AT_EXIT)
            end(market, stream);
        free(attendance);
        market->has_stream_news = true;
        mkt_stream_put(market, stream);
    }
}

/* ---- what a version still is to whom ---- */

static bool is_wanted(uint32_t deliver, uint32_t every, const struct version *version)
{
    return deliver != MKT_DELIVER_EVERY || (version->step - 1) % every == 0;
}

static bool is_for(const struct reader *reader, const struct version *version)
{
    return is_wanted(reader->deliver, reader->every, version);
}

static bool has_read(const struct stream *stream, uint32_t place, const struct version *version)
{
    return (version->read >> place & 1) || !is_for(&stream->reader[place], version);
}

/* How a version is with its readers. */
struct standing {
    uint32_t reads;
    int32_t pending;   /* the first reader that will still read it; -1: none */
    int32_t following; /* the first of these that goes through all; -1: none */
    int32_t demanded;  /* the first of these that must get it (`deliver: all`); -1: none */
};

static struct standing standing_of(const struct version *version)
{
    const struct stream *stream = version->stream;
    struct standing standing = {.pending = -1, .following = -1, .demanded = -1};

    for (uint32_t place = 0; place < stream->count; place++) {
        const struct reader *reader = &stream->reader[place];

        if (has_read(stream, place, version)) {
            standing.reads++;
        } else if (reader->state != READER_GONE) {
            if (standing.pending < 0)
                standing.pending = (int32_t)place;
            if (standing.following < 0 && reader->deliver != MKT_DELIVER_LATEST)
                standing.following = (int32_t)place;
            if (standing.demanded < 0 && reader->deliver == MKT_DELIVER_ALL)
                standing.demanded = (int32_t)place;
        }
    }
    return standing;
}

static uint32_t readers_wanted(const struct stream *stream)
{
    return stream->readers_wanted > 0 ? stream->readers_wanted : 1;
}

/* `readers` have read it; without that, all who go through the stream, and at least one. */
static bool is_consumed(const struct stream *stream, const struct standing *standing)
{
    return standing->reads >= readers_wanted(stream) &&
           (stream->readers_wanted > 0 || standing->following < 0);
}

/* Somebody that lives, or is still to come, will read it. */
static bool is_awaited(const struct version *version)
{
    const struct stream *stream = version->stream;
    struct standing standing = standing_of(version);

    return standing.demanded >= 0 ||
           (!is_consumed(stream, &standing) &&
            (standing.pending >= 0 || stream->count < readers_wanted(stream)));
}

/* With the newest version it would be forgotten where they are who go through the stream. */
static bool is_anchor(const struct version *version)
{
    const struct stream *stream = version->stream;

    for (uint32_t place = 0; place < stream->count; place++) {
        if (stream->reader[place].state != READER_GONE &&
            stream->reader[place].deliver != MKT_DELIVER_LATEST)
            return version == (stream->is_patterned ? stream->versions->stream_prev
                                                    : mkt_version_visible(version->object));
    }
    return false;
}

/* Among the newest `count` of its stream. */
static bool is_among_newest(const struct version *version, uint32_t count)
{
    for (; version && count > 0; count--)
        version = version->stream_next;
    return !version;
}

/* What nobody will read stays as far as the queue goes, for readers that come back. */
bool mkt_stream_holds(const struct version *version)
{
    const struct stream *stream = version->stream;

    if (!stream)
        return false;
    struct standing standing = standing_of(version);
    if (standing.demanded >= 0 || is_anchor(version))
        return true;
    if (!stream->consumed || is_consumed(stream, &standing))
        return false;
    return stream->queue == 0 || is_awaited(version) || is_among_newest(version, stream->queue);
}

static uint32_t unread_of(const struct stream *stream)
{
    const struct version *version;
    uint32_t unread = 0;

    DL_FOREACH2 (stream->versions, version, stream_next)
        unread += is_awaited(version);
    return unread;
}

static uint64_t unread_by(const struct object *object, uint32_t place)
{
    const struct version *version;
    uint64_t unread = 0;

    DL_FOREACH (object->versions, version)
        unread += version->stream && !has_read(version->stream, place, version);
    return unread;
}

/* ---- retention ---- */

void mkt_stream_enter(struct mkt_market *market, struct version *version)
{
    struct stream *stream = version->object->stream;

    version->step = ++version->object->steps;
    if (!stream)
        return;
    enter(stream, version);
    if (++stream->published == stream->end_after)
        end(market, stream);
}

void mkt_stream_retire(struct mkt_market *market, struct version *version)
{
    struct stream *stream = version->stream;

    if (!stream)
        return;
    for (uint32_t place = 0; place < stream->count; place++) {
        struct reader *reader = &stream->reader[place];

        if (reader->deliver == MKT_DELIVER_LATEST || (version->had >> place & 1) ||
            has_read(stream, place, version))
            continue;
        reader->skipped++;
        reader->untold++;
    }
    DL_DELETE2(stream->versions, version, stream_prev, stream_next);
    stream->versions_count--;
    version->stream = NULL;
    market->has_stream_news = true;
    mkt_stream_put(market, stream);
}

/* The oldest that may go of those beyond the stream's `keep`; or NULL. */
static struct version *first_to_go(const struct stream *stream)
{
    struct version *version = stream->versions;

    for (uint32_t i = stream->keep > 0 ? stream->keep : 1; i < stream->versions_count; i++) {
        if (!mkt_stream_holds(version) && !mkt_save_is_owed(version))
            return version;
        version = version->stream_next;
    }
    return NULL;
}

void mkt_stream_apply(struct mkt_market *market, struct stream *stream)
{
    struct version *oldest;

    stream->references++;
    while ((oldest = first_to_go(stream))) {
        struct object *object = oldest->object;

        mkt_object_get(object);
        mkt_version_retire(market, oldest);
        mkt_object_settle(market, object, "its readers have read it (`until: consumed`)");
        mkt_object_put(market, object);
    }
    mkt_stream_put(market, stream);
}

/* Something isn't held any more. */
static void retain(struct mkt_market *market, struct stream *stream)
{
    struct version *version;

    market->has_stream_news = true;
    if (stream->consumed) {
        mkt_stream_apply(market, stream);
        return;
    }
    stream->references++;
    do {
        DL_FOREACH2 (stream->versions, version, stream_next) {
            if (mkt_version_retain(market, version->object))
                break;
        }
    } while (version);
    mkt_stream_put(market, stream);
}

/* ---- writers ---- */

static bool is_ruled(const struct mkt_stream_rule *rule)
{
    return rule->consumed || rule->queue > 0 || rule->end_after > 0 ||
           rule->on_full == MKT_FULL_DROP;
}

static void begin_anew(struct mkt_market *market, struct stream *stream)
{
    if (!stream || !stream->ended)
        return;
    stream->references++;
    stream->ended = false;
    stream->published = 0;
    for (uint32_t place = 0; place < stream->count; place++)
        stream->reader[place].told = stream->reader[place].is_early = false;
    mkt_stream_put(market, stream);
}

static void take_rule(struct mkt_market *market, struct stream *stream, const struct group *group)
{
    market->has_stream_news = true;
    stream->consumed = group->stream.consumed || group->stream.queue > 0;
    stream->readers_wanted = group->stream.readers;
    stream->queue = group->stream.queue;
    stream->end_after = group->stream.end_after;
    stream->keep = group->keep;
}

/* Also those of which only the end is known. */
static void begin_all_anew(struct mkt_market *market, const struct object *object)
{
    struct stream *stream, *next;

    HASH_ITER (hh, market->streams, stream, next) {
        const struct mkt_rule rule = {.pattern = stream->key};

        if (stream->is_patterned && stream->ended &&
            mkt_rule_matches(&rule, object->name.path, NULL))
            begin_anew(market, stream);
    }
}

enum mkt_status mkt_stream_write(struct mkt_market *market, struct group *group,
                                 struct object *object)
{
    enum mkt_status status = MKT_OK;
    struct stream *stream;

    begin_all_anew(market, object);
    if (!object->stream && is_ruled(&group->stream) && group->set) {
        status = get_by_pattern(market, group->set, &stream);
        if (status != MKT_OK)
            return status;
        attach(object, stream);
        mkt_stream_put(market, stream);
    }
    stream = object->stream;
    if (!stream)
        return MKT_OK;
    begin_anew(market, stream);
    if (is_ruled(&group->stream))
        take_rule(market, stream, group);
    return attend(market, group->member[0].session, stream, -1);
}

static void describe_wait(const struct version *version, char text[MKT_STREAM_TEXT_BYTES])
{
    const struct stream *stream = version->stream;
    struct standing standing = standing_of(version);
    int32_t place = standing.demanded >= 0    ? standing.demanded
                    : standing.following >= 0 ? standing.following
                                              : standing.pending;

    if (place < 0) {
        snprintf(text, MKT_STREAM_TEXT_BYTES,
                 "version %llu of '%.200s' waits for a reader that hasn't come yet (%u of %u are "
                 "known)",
                 (unsigned long long)version->number, mkt_path_text(version->object->name.path),
                 stream->count, readers_wanted(stream));
        return;
    }
    const struct reader *reader = &stream->reader[place];
    snprintf(text, MKT_STREAM_TEXT_BYTES,
             "version %llu of '%.200s' waits for reader '%s' (%s, pid %u%s)",
             (unsigned long long)version->number, mkt_path_text(version->object->name.path),
             reader->name, reader->program, reader->pid,
             reader->state == READER_LEAVING ? ", which has ended" : "");
}

bool mkt_stream_is_full(const struct mkt_market *market, const struct group *group,
                        const struct object *object, char text[MKT_STREAM_TEXT_BYTES])
{
    const struct stream *stream =
        group->stream.queue > 0 ? mkt_stream_find(market, group, object) : NULL;
    const struct version *version;

    if (!stream || unread_of(stream) < group->stream.queue)
        return false;
    DL_FOREACH2 (stream->versions, version, stream_next) {
        if (is_awaited(version))
            break;
    }
    describe_wait(version, text);
    return true;
}

/* ---- readers ---- */

/* Those of the path that went before anybody knew this reader. */
static uint64_t count_missed(const struct reader *reader, const struct object *object)
{
    const struct version *version = object ? object->versions : NULL;
    uint64_t gone;

    while (version && !version->stream)
        version = version->next;
    gone = version ? version->step - 1 : object ? object->steps : 0;
    if (reader->deliver != MKT_DELIVER_EVERY || gone == 0)
        return gone;
    return (gone - 1) / reader->every + 1;
}

static enum mkt_status add_reader(struct mkt_market *market, struct stream *stream,
                                  const char *name, struct mkt_error *error)
{
    if (stream->count >= market->limits.max_readers || stream->count == MKT_STREAM_READERS_MAX)
        return mkt_error_set(error, MKT_NO_SPACE,
                             "its stream has %u named readers, the most that it may "
                             "(`max_readers`); give programs that share the work one name "
                             "(`reader`)",
                             stream->count);
    if (stream->count == stream->capacity) {
        uint32_t capacity = stream->capacity > 0 ? 2 * stream->capacity : 2;
        struct reader *larger = realloc(stream->reader, capacity * sizeof(*larger));

        if (!larger)
            return mkt_error_set(error, MKT_NO_MEMORY, "the market daemon is out of memory");
        stream->reader = larger;
        stream->capacity = capacity;
    }
    struct reader *reader = &stream->reader[stream->count++];
    memset(reader, 0, sizeof(*reader));
    snprintf(reader->name, sizeof(reader->name), "%s", name);
    reader->state = READER_GONE;
    return MKT_OK;
}

static int32_t find_reader(const struct stream *stream, const char *name)
{
    for (uint32_t place = 0; place < stream->count; place++) {
        if (strcmp(stream->reader[place].name, name) == 0)
            return (int32_t)place;
    }
    return -1;
}

/* What was there before its program came isn't for it (`after=start`). */
static void pass_over(const struct group *group, struct object *object, int32_t place)
{
    struct version *version;

    DL_FOREACH (object->versions, version) {
        if (!version->stream || version->published_ms >= group->after_ms)
            continue;
        version->had |= UINT64_C(1) << place;
        version->read |= UINT64_C(1) << place;
    }
}

/* Programs under one name may want different things: the last that came counts. */
static void take_wish(struct mkt_market *market, struct reader *reader, const struct group *group)
{
    uint32_t every = group->stream.every > 0 ? group->stream.every : 1;

    if (reader->deliver == group->stream.deliver && reader->every == every)
        return;
    reader->deliver = group->stream.deliver;
    reader->every = every;
    market->has_stream_news = true;
}

static enum mkt_status join(struct mkt_market *market, struct group *group, struct stream *stream,
                            struct object *object, struct mkt_error *error)
{
    struct session *session = group->member[0].session;
    const char *name = group->reader[0] ? group->reader : session->program;
    int32_t place = find_reader(stream, name);
    bool is_new = place < 0;

    if (is_new) {
        enum mkt_status status = add_reader(market, stream, name, error);
        if (status != MKT_OK)
            return status;
        place = (int32_t)stream->count - 1;
    }
    struct reader *reader = &stream->reader[place];
    if (is_new || group->state != GROUP_WAITING)
        take_wish(market, reader, group);
    if (is_new && reader->deliver != MKT_DELIVER_LATEST)
        reader->skipped = reader->untold = count_missed(reader, object);
    if (attend(market, session, stream, place) != MKT_OK)
        return mkt_error_set(error, MKT_NO_MEMORY, "the market daemon is out of memory");
    snprintf(reader->program, sizeof(reader->program), "%s", session->program);
    reader->pid = session->pid;
    group->reader_place = place;
    if (object)
        pass_over(group, object, place);
    return MKT_OK;
}

enum mkt_status mkt_stream_join(struct mkt_market *market, struct group *group,
                                struct object *object, struct mkt_error *error)
{
    bool is_latest = group->stream.deliver == MKT_DELIVER_LATEST;
    struct stream *stream;

    group->reader_place = -1;
    if (group->stream.deliver == 0)
        return MKT_OK;
    stream = mkt_stream_find(market, group, object);
    if (!stream && object && !is_latest) {
        enum mkt_status status = make_own(market, object);
        if (status != MKT_OK)
            return mkt_error_set(error, status, "there is no room for its stream");
        stream = object->stream;
    }
    if (!stream || (is_latest && !stream->consumed))
        return MKT_OK;
    return join(market, group, stream, object, error);
}

struct version *mkt_stream_pick(const struct group *group, const struct object *object)
{
    uint32_t every = group->stream.every > 0 ? group->stream.every : 1;
    struct version *version;

    if (group->reader_place < 0)
        return NULL;
    DL_FOREACH (object->versions, version) {
        if (version->stream && !(version->had >> group->reader_place & 1) &&
            is_wanted(group->stream.deliver, every, version))
            return version;
    }
    return NULL;
}

uint64_t mkt_stream_deliver(const struct group *group, struct version *version)
{
    struct reader *reader;
    uint64_t untold;

    if (group->reader_place < 0 || !version->stream)
        return 0;
    reader = &version->stream->reader[group->reader_place];
    version->had |= UINT64_C(1) << group->reader_place;
    reader->delivered++;
    reader->last = version->number;
    untold = reader->untold;
    reader->untold = 0;
    return untold;
}

/* Whoever takes the newest never comes back to older ones of that path. */
static void note_read(struct version *version, const struct reader *reader, uint64_t bit)
{
    version->had |= bit;
    version->read |= bit;
    if (reader->deliver != MKT_DELIVER_LATEST)
        return;
    for (struct version *older = version->object->versions; older != version; older = older->next) {
        older->had |= bit;
        older->read |= bit;
    }
}

/* Another group has it open under the same name. */
static bool is_open_elsewhere(const struct mkt_market *market, const struct version *version,
                              int32_t place)
{
    const struct group *group, *next;

    HASH_ITER (hh, market->groups, group, next) {
        if (group->state == GROUP_READING && group->version_open == version &&
            group->reader_place == place)
            return true;
    }
    return false;
}

void mkt_stream_leave(struct mkt_market *market, struct group *group)
{
    struct version *version = group->version_open;
    struct stream *stream = group->object ? group->object->stream : NULL;
    int32_t place = group->reader_place;

    group->reader_place = -1;
    if (group->state != GROUP_READING || place < 0 || !version->stream)
        return;
    uint64_t bit = UINT64_C(1) << place;
    if (group->closed == group->size)
        note_read(version, &stream->reader[place], bit);
    else if (!(version->read & bit) && !is_open_elsewhere(market, version, place))
        version->had &= ~bit;
    retain(market, stream);
}

/* ---- the end ---- */

bool mkt_stream_is_over(const struct mkt_market *market, const struct group *reader,
                        const struct object *object)
{
    const struct stream *stream = mkt_stream_find(market, reader, object);
    const struct group *group, *next;

    if (!stream || !stream->ended ||
        (reader->reader_place >= 0 && stream->reader[reader->reader_place].is_early))
        return false;
    HASH_ITER (hh, market->groups, group, next) {
        if (group->state == GROUP_WRITING && group->object->writer == group &&
            group->object->stream == stream)
            return false;
    }
    return true;
}

void mkt_stream_note_told(const struct mkt_market *market, const struct group *group,
                          const struct object *object)
{
    struct stream *stream = mkt_stream_find(market, group, object);

    if (stream && group->reader_place >= 0)
        stream->reader[group->reader_place].told = true;
}

static enum mkt_status end_object(struct mkt_market *market, struct object *object)
{
    enum mkt_status status = object->stream ? MKT_OK : make_own(market, object);

    if (status == MKT_OK)
        end(market, object->stream);
    return status;
}

/* Of a pattern without a slash each folder has a stream. */
static bool is_of_pattern(const struct stream *stream, const char *pattern)
{
    const char *slash = strchr(pattern, '/') ? NULL : strrchr(stream->key, '/');

    return stream->is_patterned && strcmp(slash ? slash + 1 : stream->key, pattern) == 0;
}

/* Also for files of the pattern that aren't there. */
static enum mkt_status end_pattern(struct mkt_market *market, const char *pattern,
                                   uint64_t *count_out)
{
    const struct mkt_rule rule = {.pattern = pattern};
    enum mkt_status status = MKT_OK;
    struct object *object, *next;
    struct stream *stream, *next_stream;
    uint64_t count = 0;

    HASH_ITER (hh, market->streams, stream, next_stream) {
        if (!is_of_pattern(stream, pattern))
            continue;
        end(market, stream);
        count++;
    }
    HASH_ITER (hh, market->objects, object, next) {
        if (status != MKT_OK || !mkt_rule_matches(&rule, object->name.path, NULL))
            continue;
        status = end_object(market, object);
        count++;
    }
    if (status == MKT_OK && count > 0) {
        status = get_by_pattern(market, pattern, &stream);
        if (status == MKT_OK) {
            end(market, stream);
            mkt_stream_put(market, stream);
        }
    }
    *count_out = count;
    return status;
}

static enum mkt_status end_name(struct mkt_market *market, const struct mkt_name *from,
                                uint64_t *count_out)
{
    struct owned_name name;
    bool differs;

    if (mkt_owned_name_init(&name, from) != MKT_OK)
        return MKT_NO_MEMORY;
    struct object *object = mkt_object_by_client_name(market, &name, &differs);
    mkt_owned_name_fini(&name);
    *count_out = object && !differs;
    return *count_out ? end_object(market, object) : MKT_OK;
}

void mkt_stream_end(struct mkt_market *market, struct session *session, const struct mkt_msg *msg)
{
    const struct mkt_msg_end *request = &msg->end;
    struct mkt_msg answer = {.type = MKT_MSG_ENDED, .request = msg->request};
    bool by_pattern = request->pattern.length > 0;
    char *pattern = by_pattern ? strndup(request->pattern.data, request->pattern.length) : NULL;
    enum mkt_status status = MKT_NO_MEMORY;
    uint64_t count = 0;

    if (pattern)
        status = end_pattern(market, pattern, &count);
    else if (!by_pattern)
        status = end_name(market, &request->name, &count);
    free(pattern);
    answer.count.versions = count;
    if (status != MKT_OK)
        mkt_reply_error(market, session, msg->request, status,
                        "the market daemon has no room for another stream");
    else if (count == 0)
        mkt_reply_error(market, session, msg->request, MKT_NOT_FOUND,
                        "the market holds nothing of that stream");
    else
        mkt_reply(market, session, &answer, NULL);
}

/* ---- waits and time ---- */

/* No reader is promised it. */
static bool may_be_dropped(const struct version *version)
{
    struct standing standing = standing_of(version);

    return version->pins == 0 && !mkt_save_is_owed(version) && standing.demanded < 0 &&
           (!version->stream->consumed || is_consumed(version->stream, &standing));
}

bool mkt_stream_drop_oldest(struct mkt_market *market, const struct stream *stream)
{
    struct version *version;

    DL_FOREACH2 (stream->versions, version, stream_next) {
        struct object *object = version->object;

        if (!may_be_dropped(version))
            continue;
        mkt_object_get(object);
        mkt_version_retire(market, version);
        mkt_object_settle(market, object, "dropped: memory was full (`on_full: drop-oldest`)");
        mkt_object_put(market, object);
        return true;
    }
    return false;
}

bool mkt_stream_is_asked(const struct group *group)
{
    return group->intent != MKT_INTENT_LOAD &&
           (group->intent != MKT_INTENT_READ || group->stream.deliver > MKT_DELIVER_LATEST);
}

/* One that looks again may end the waits of others. */
bool mkt_stream_serve(struct mkt_market *market)
{
    struct group *group, *next;

    if (!market->has_stream_news)
        return false;
    market->has_stream_news = false;
    market->stream_looks++;
    if (market->stream_waits == 0)
        return true;
    HASH_ITER (hh, market->groups, group, next) {
        if (group->state != GROUP_WAITING || !mkt_stream_is_asked(group) ||
            group->stream_looked == market->stream_looks)
            continue;
        group->stream_looked = market->stream_looks;
        mkt_open_look_again(market, group);
    }
    return true;
}

/* Those of its readers whose grace is over. True: there were some. */
static bool let_go(struct mkt_market *market, struct stream *stream, uint64_t now_ms)
{
    bool any = false;

    for (uint32_t place = 0; place < stream->count; place++) {
        struct reader *reader = &stream->reader[place];

        if (reader->state != READER_LEAVING ||
            reader->left_ms + market->limits.reader_grace_ms > now_ms)
            continue;
        reader->state = READER_GONE;
        market->leaving_readers--;
        any = true;
    }
    return any;
}

void mkt_stream_tick(struct mkt_market *market, uint64_t now_ms)
{
    struct stream *stream, *next;

    if (market->leaving_readers == 0)
        return;
    HASH_ITER (hh, market->streams, stream, next) {
        if (let_go(market, stream, now_ms))
            retain(market, stream);
    }
}

void mkt_stream_note_deadlines(struct mkt_market *market)
{
    const struct stream *stream, *next;

    if (market->leaving_readers == 0)
        return;
    HASH_ITER (hh, market->streams, stream, next) {
        for (uint32_t place = 0; place < stream->count; place++) {
            const struct reader *reader = &stream->reader[place];

            if (reader->state == READER_LEAVING)
                mkt_note_deadline(market, reader->left_ms + market->limits.reader_grace_ms);
        }
    }
}

void mkt_stream_drop_all(struct mkt_market *market)
{
    struct stream *stream, *next;

    HASH_ITER (hh, market->streams, stream, next) {
        stream->ended = false;
        stream->references++;
        mkt_stream_put(market, stream);
    }
}

/* ---- observers ---- */

bool mkt_market_stream(const struct mkt_market *market, const uint8_t id[MKT_ID_BYTES],
                       struct mkt_stream_info *info_out)
{
    const struct object *object = mkt_object_by_id(market, id);
    const struct stream *stream = object ? object->stream : NULL;

    if (!stream)
        return false;
    *info_out = (struct mkt_stream_info){.pattern = stream->is_patterned ? stream->key : NULL,
                                         .readers = stream->readers_wanted,
                                         .queue = stream->queue,
                                         .unread = unread_of(stream),
                                         .end_after = stream->end_after,
                                         .published = stream->published,
                                         .consumed = stream->consumed,
                                         .ended = stream->ended};
    return true;
}

void mkt_market_each_reader(const struct mkt_market *market, const uint8_t id[MKT_ID_BYTES],
                            mkt_reader_fn fn, void *context)
{
    const struct object *object = mkt_object_by_id(market, id);
    const struct stream *stream = object ? object->stream : NULL;

    for (uint32_t place = 0; stream && place < stream->count; place++) {
        const struct reader *reader = &stream->reader[place];

        fn(context, &(struct mkt_reader_info){.name = reader->name,
                                              .program = reader->program,
                                              .pid = reader->pid,
                                              .deliver = reader->deliver,
                                              .every = reader->every,
                                              .is_here = reader->state == READER_HERE,
                                              .is_gone = reader->state == READER_GONE,
                                              .delivered = reader->delivered,
                                              .skipped = reader->skipped,
                                              .last = reader->last,
                                              .unread = unread_by(object, place)});
    }
}
