/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The audit: recounts from scratch what the market keeps in counters and references, and lays all
 * bytes that somebody owns side by side. For tests.
 */
#include "core/market/internal.h"

#include <stdlib.h>
#include <string.h>

struct owned {
    struct range range;
    const char *owner;
};
struct counted {
    const void *what;
    uint32_t references, versions;
};

struct audit {
    const struct mkt_market *market;
    struct mkt_error *error;
    struct owned *owned;
    size_t owned_count, owned_capacity;
    struct counted *counted; /* pieces and images, one entry a reference, sorted by address later */
    size_t counted_count, counted_capacity;
    uint64_t cold_bytes;
    uint32_t copies;
    bool failed;
};

#define AUDIT(audit, condition, ...)                                 \
    do {                                                             \
        if (!(condition) && !(audit)->failed) {                      \
            (audit)->failed = true;                                  \
            mkt_error_set((audit)->error, MKT_CORRUPT, __VA_ARGS__); \
        }                                                            \
    } while (0)

static void *grown(struct audit *audit, void *list, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return list;
    size_t more = *capacity ? *capacity * 2 : 256;
    void *bigger = realloc(list, more * size);
    AUDIT(audit, bigger, "no memory for the audit");
    if (!bigger)
        return list;
    *capacity = more;
    return bigger;
}

static void own(struct audit *audit, uint32_t arena, uint64_t offset, uint64_t length,
                const char *owner)
{
    if (length == 0)
        return;
    audit->owned = grown(audit, audit->owned, audit->owned_count, &audit->owned_capacity,
                         sizeof(*audit->owned));
    if (!audit->failed)
        audit->owned[audit->owned_count++] =
            (struct owned){{arena, offset, mkt_round_granule(length)}, owner};
}

static void own_extent(struct audit *audit, const struct mkt_extent *extent, const char *owner)
{
    own(audit, extent->arena, extent->offset, extent->length, owner);
}

static void own_ranges(struct audit *audit, const struct ranges *ranges, const char *owner)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < ranges->count; i++) {
        own(audit, ranges->item[i].arena, ranges->item[i].offset, ranges->item[i].length, owner);
        bytes += ranges->item[i].length;
    }
    AUDIT(audit, bytes == ranges->bytes, "%s ranges count %llu bytes, not %llu", owner,
          (unsigned long long)ranges->bytes, (unsigned long long)bytes);
}

static void count(struct audit *audit, const void *what, uint32_t versions)
{
    audit->counted = grown(audit, audit->counted, audit->counted_count, &audit->counted_capacity,
                           sizeof(*audit->counted));
    if (!audit->failed)
        audit->counted[audit->counted_count++] = (struct counted){what, 1, versions};
}

/* ---- sessions and groups ---- */

static void audit_sessions(struct audit *audit)
{
    struct session *session, *next;
    struct member *member;
    const struct grant_wait *wait;
    const struct move *fetch;
    uint64_t granted = 0;

    HASH_ITER (hh, audit->market->sessions, session, next) {
        own_ranges(audit, &session->grants, "a session's grants");
        granted += session->grants.bytes;
        DL_FOREACH2 (session->grant_waits, wait, session_next)
            AUDIT(audit, wait->session == session, "a wait is in another session's list");
        DL_FOREACH2 (session->fetches, fetch, session_next)
            AUDIT(audit, fetch->session == session, "a read is in another session's list");
        DL_FOREACH (session->members, member) {
            AUDIT(audit, member->session == session, "a member is in another session's list");
            AUDIT(audit, !session->ended || member->state == MEMBER_GONE,
                  "an ended session takes part in file %llu",
                  (unsigned long long)member->group->file);
        }
    }
    AUDIT(audit, granted == audit->market->granted_bytes, "%llu bytes are granted, not %llu",
          (unsigned long long)granted, (unsigned long long)audit->market->granted_bytes);
}

static bool awaits(const struct group *group)
{
    const struct group *closer;

    if (!group->awaits)
        return false;
    DL_FOREACH2 (group->awaits->save.closers, closer, await_next) {
        if (closer == group)
            return true;
    }
    return false;
}

static void audit_members(struct audit *audit, const struct group *group)
{
    uint32_t left = 0, present = 0, committed = 0;

    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct member *member = &group->member[rank];

        left += member->state != MEMBER_DONE;
        present += member->state != MEMBER_ABSENT;
        committed += member->state == MEMBER_COMMITTING;
        AUDIT(audit,
              (member->state == MEMBER_ABSENT || member->state == MEMBER_DONE) ==
                  (member->session == NULL),
              "rank %u of file %llu has a session that does not fit its state %d", rank,
              (unsigned long long)group->file, member->state);
        AUDIT(audit,
              member->state != MEMBER_WAITING || group->state == GROUP_JOINING ||
                  group->state == GROUP_WAITING,
              "a rank of file %llu still waits for its open", (unsigned long long)group->file);
    }
    AUDIT(audit, left == group->left && left > 0, "file %llu has %u ranks left, not %u",
          (unsigned long long)group->file, left, group->left);
    AUDIT(audit, present == group->present, "file %llu has %u ranks, not %u",
          (unsigned long long)group->file, present, group->present);
    AUDIT(audit, (group->published ? 0 : committed) == group->committed,
          "file %llu has %u commits, not %u", (unsigned long long)group->file, committed,
          group->committed);
    AUDIT(audit,
          committed == 0 || (group->published ? awaits(group) : group->timed && !group->poisoned),
          "commits of file %llu wait for ever", (unsigned long long)group->file);
}

/* It waits for a version, or for a place in a queue. */
static void audit_stream_waiting(struct audit *audit, const struct group *group)
{
    char text[MKT_STREAM_TEXT_BYTES];
    struct owned_name name = group->name;
    bool differs;
    const struct object *object = mkt_object_by_client_name(audit->market, &name, &differs);
    const struct stream *stream = mkt_stream_find(audit->market, group, object);

    if (group->intent != MKT_INTENT_READ) {
        /* Without memory for its new name an object isn't found: then a deadline ends the wait. */
        AUDIT(audit, !stream || mkt_stream_is_full(audit->market, group, object, text),
              "a writer of '%s' waits though its stream's queue has a place", group->name.path);
        return;
    }
    /* Who looked at the path before its stub was there may wait for an object that its name doesn't
     * lead to; and to whose name it doesn't now, it may again later. */
    object = mkt_object_by_name(audit->market, &group->name, &differs);
    if (!object || group->version != 0)
        return;
    AUDIT(audit, !stream || !mkt_stream_pick(group, object),
          "a reader of '%s' waits for a version that is there", group->name.path);
    AUDIT(audit, !mkt_stream_is_over(audit->market, group, object),
          "a reader of '%s' waits though its stream has ended", group->name.path);
}

static void audit_waiting(struct audit *audit, const struct group *group)
{
    bool differs;
    const struct object *object = mkt_object_by_name(audit->market, &group->name, &differs);
    const struct version *newest = object && !differs ? mkt_version_visible(object) : NULL;

    if (group->intent != MKT_INTENT_LOAD &&
        (group->intent != MKT_INTENT_READ || group->stream.deliver > MKT_DELIVER_LATEST)) {
        audit_stream_waiting(audit, group);
        return;
    }
    AUDIT(audit, !newest || group->version != 0 || newest->published_ms < group->after_ms,
          "an open of '%s' waits for a version that is there", group->name.path);
}

static void audit_group(struct audit *audit, const struct group *group)
{
    struct group_array *array, *next;
    bool waits = group->state == GROUP_JOINING || group->state == GROUP_WAITING;
    uint32_t pieces = 0;

    audit_members(audit, group);
    if (group->state == GROUP_WAITING)
        audit_waiting(audit, group);
    AUDIT(audit, !waits || group->timed, "the open of file %llu waits for ever",
          (unsigned long long)group->file);
    AUDIT(audit, waits == (group->object == NULL), "file %llu and its object do not fit",
          (unsigned long long)group->file);
    AUDIT(audit, group->in_tokens == (group->state == GROUP_JOINING && group->size > 1),
          "file %llu and the tokens", (unsigned long long)group->file);
    AUDIT(audit, group->timed == (group->deadline.place > 0), "file %llu and the deadlines",
          (unsigned long long)group->file);
    AUDIT(audit, (group->state == GROUP_WAITING) == (group->bucket > 0),
          "file %llu is not where those are who wait", (unsigned long long)group->file);
    AUDIT(audit, !group->timed || group->deadline.key >= audit->market->next_deadline_ms,
          "the deadline of file %llu is not known", (unsigned long long)group->file);
    AUDIT(audit,
          group->state != GROUP_WRITING ||
              (group->object->writer == group) ==
                  (!group->poisoned && !group->published && !group->object->gone),
          "file %llu and the writer of its object do not fit", (unsigned long long)group->file);
    own_ranges(audit, &group->spoilt, "a group's spoilt bytes");
    if (group->image)
        count(audit, group->image, 0);
    if (group->image)
        own_extent(audit, &group->image->extent, "a group's image");
    HASH_ITER (hh, group->arrays, array, next) {
        for (uint32_t i = 0; i < array->count; i++) {
            AUDIT(audit, i == 0 || array->piece[i - 1]->stamp < array->piece[i]->stamp,
                  "stamps of an array are not in order");
            count(audit, array->piece[i], 0);
        }
        pieces += array->count;
    }
    AUDIT(audit, pieces == group->pieces, "file %llu has %u pieces, not %u",
          (unsigned long long)group->file, pieces, group->pieces);
}

static void audit_groups(struct audit *audit)
{
    struct group *group, *next;
    uint32_t waiting = 0, timed = 0, counted = 0, background = 0, loads = 0;

    HASH_ITER (hh, audit->market->groups, group, next) {
        audit_group(audit, group);
        waiting += group->state == GROUP_JOINING || group->state == GROUP_WAITING;
        timed += group->timed;
        background += mkt_group_is_background(group);
        loads += group->intent == MKT_INTENT_LOAD;
    }
    DL_COUNT2(audit->market->loads, group, counted, load_next);
    AUDIT(audit, loads == counted, "%u groups bring a file in, not %u", loads, counted);
    AUDIT(audit, background == audit->market->background_files, "%u files yield, not %u",
          background, audit->market->background_files);
    counted = audit->market->timed.count;
    AUDIT(audit, timed == counted, "%u groups have deadlines, not %u", timed, counted);
    AUDIT(audit, waiting == audit->market->waiting_opens, "%u opens wait, not %u", waiting,
          audit->market->waiting_opens);
    AUDIT(audit, !audit->market->doomed, "an ended group was not freed");
}

static void audit_grant_waits(struct audit *audit)
{
    struct grant_wait *wait;
    uint32_t waits = 0;

    DL_FOREACH (audit->market->grant_waits, wait) {
        AUDIT(audit, !wait->session->ended, "an ended session waits for memory");
        AUDIT(audit, wait->deadline_ms >= audit->market->next_deadline_ms,
              "the deadline of a wait for memory is not known");
        waits++;
    }
    AUDIT(audit, waits == audit->market->waiting_grants, "%u grants wait, not %u", waits,
          audit->market->waiting_grants);
}

/* ---- objects and versions ---- */

static uint32_t count_pins(const struct mkt_market *market, const struct version *version,
                           uint32_t *readers_out)
{
    struct group *group, *next;
    uint32_t pins = 0;

    *readers_out = 0;
    HASH_ITER (hh, market->groups, group, next) {
        if (group->version_open != version)
            continue;
        pins++;
        *readers_out += group->state == GROUP_READING;
    }
    return pins + (version->save.saver != NULL || version->save.held);
}

static void audit_save(struct audit *audit, const struct version *version)
{
    const struct save *save = &version->save;
    const struct version *listed;
    bool unsaved = false, saved = false;

    DL_FOREACH2 (audit->market->unsaved, listed, save_next)
        unsaved |= listed == version;
    DL_FOREACH2 (audit->market->saved, listed, save_next)
        saved |= listed == version;
    AUDIT(audit,
          unsaved == (save->state == SAVE_PENDING || save->state == SAVE_RUNNING ||
                      save->state == SAVE_PLACING) &&
              saved == (save->state == SAVE_SAVED),
          "version %llu of '%s' is in the wrong list of saves", (unsigned long long)version->number,
          version->object->name.path);
    AUDIT(audit,
          (save->saver != NULL) == (save->state == SAVE_RUNNING || save->state == SAVE_PLACING),
          "version %llu of '%s' and its saver do not fit", (unsigned long long)version->number,
          version->object->name.path);
    AUDIT(audit,
          !version->retired || save->state != SAVE_PENDING || (save->held && save->placed.ino != 0),
          "a retired version is still to be saved");
    AUDIT(audit, !version->retired || save->state != SAVE_SAVED,
          "a retired version can be evicted");
    AUDIT(audit, !save->held || (version->retired && save->state == SAVE_PENDING),
          "a version is held for no reason");
    AUDIT(audit, !save->closers || unsaved, "somebody waits for a version that nobody will save");
}

static void audit_drains(struct audit *audit)
{
    const struct session *session, *next;
    uint32_t drains = 0;

    HASH_ITER (hh, audit->market->sessions, session, next) {
        drains += session->drains;
    }
    AUDIT(audit, drains == audit->market->drains, "%u sessions drain, not %u", drains,
          audit->market->drains);
}

static void audit_saves(struct audit *audit)
{
    const struct version *version;
    const struct group *closer;
    uint64_t count = 0;
    uint32_t awaited = 0;

    DL_FOREACH2 (audit->market->unsaved, version, save_next) {
        count++;
        DL_FOREACH2 (version->save.closers, closer, await_next)
            awaited++;
    }
    AUDIT(audit, awaited == audit->market->awaited, "%u closes wait for files, not %u", awaited,
          audit->market->awaited);
    AUDIT(audit, count == audit->market->unsaved_count, "%llu versions are unsaved, not %llu",
          (unsigned long long)count, (unsigned long long)audit->market->unsaved_count);
}

static void audit_version(struct audit *audit, const struct version *version)
{
    uint32_t readers, pins = count_pins(audit->market, version, &readers);
    uint64_t pieces = 0, bytes = 0;

    AUDIT(audit, pins == version->pins && readers == version->readers,
          "version %llu of '%s' has %u pins, not %u", (unsigned long long)version->number,
          version->object->name.path, pins, version->pins);
    AUDIT(audit, !version->retired || version->pins > 0,
          "a retired version without readers keeps its bytes");
    AUDIT(audit, !version->object->gone || version->retired,
          "a version of a withdrawn object is not retired");
    audit_save(audit, version);
    own_extent(audit, &version->index, "a version's index");
    if (version->image)
        count(audit, version->image, 0);
    for (uint32_t a = 0; a < version->arrays; a++) {
        for (uint32_t p = 0; p < version->array[a].count; p++) {
            const struct held_piece *piece = version->array[a].piece[p];

            count(audit, version->array[a].piece[p], 1);
            AUDIT(audit, p == 0 || version->array[a].piece[p - 1]->stamp < piece->stamp,
                  "stamps of a version's array are not in order");
        }
        pieces += version->array[a].count;
    }
    for (uint64_t p = 0; p < version->pieces; p++)
        bytes += mkt_piece_bytes(version->piece[p]);
    AUDIT(audit, bytes == version->data_bytes, "a version has %llu bytes of data, not %llu",
          (unsigned long long)bytes, (unsigned long long)version->data_bytes);
    AUDIT(audit, pieces == version->pieces, "a version has %llu pieces, not %llu",
          (unsigned long long)pieces, (unsigned long long)version->pieces);
}

static int compare_pointers(const void *a, const void *b)
{
    const void *const *x = a, *const *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Images of versions: each once, however many versions share it. */
static void own_images(struct audit *audit)
{
    const struct mkt_market *market = audit->market;
    const struct held_image **image =
        malloc((market->versions_count + 1) * sizeof(struct held_image *));
    struct version *version;
    size_t images = 0;

    AUDIT(audit, image, "no memory for the audit");
    if (!image)
        return;
    DL_FOREACH2 (market->versions, version, all_next) {
        if (version->image)
            image[images++] = version->image;
    }
    qsort(image, images, sizeof(image[0]), compare_pointers);
    for (size_t i = 0; i < images; i++) {
        if (i == 0 || image[i] != image[i - 1])
            own_extent(audit, &image[i]->extent, "an image");
    }
    free(image);
}

static void audit_versions(struct audit *audit)
{
    struct version *version;
    uint64_t small_bytes = 0;
    uint32_t versions = 0;

    DL_FOREACH2 (audit->market->versions, version, all_next) {
        audit_version(audit, version);
        small_bytes += version->is_main ? 0 : version->data_bytes;
        AUDIT(audit,
              audit->market->limits.tier_bytes == 0 || version->turn.place > 0 ||
                  !mkt_tier_may_give(audit->market, version),
              "a version that could leave memory is in no queue");
        versions++;
    }
    AUDIT(audit, small_bytes == audit->market->small_bytes,
          "the small queue has %llu bytes, not %llu", (unsigned long long)small_bytes,
          (unsigned long long)audit->market->small_bytes);
    AUDIT(audit, versions == audit->market->versions_count, "%u versions, not %u", versions,
          audit->market->versions_count);
    own_images(audit);
}

static uint32_t count_object_references(const struct mkt_market *market,
                                        const struct object *object)
{
    struct group *group, *next;
    struct version *version;
    const struct save_wait *wait;
    const struct move *move;
    uint32_t references = !object->gone;

    HASH_ITER (hh, market->groups, group, next) {
        references += group->object == object;
    }
    DL_FOREACH2 (market->versions, version, all_next) {
        references += version->object == object;
    }
    DL_FOREACH (market->save_waits, wait)
        references += wait->object == object;
    DL_FOREACH (market->moves, move)
        references += move->object == object;
    DL_FOREACH (market->waiting_moves, move)
        references += move->object == object;
    return references;
}

static void audit_object(struct audit *audit, const struct object *object)
{
    const struct version *version;
    uint32_t versions = 0, references = count_object_references(audit->market, object);
    uint64_t last = 0;

    DL_FOREACH (object->versions, version) {
        AUDIT(audit, version->object == object && !version->retired,
              "'%s' lists a version that is not its own", object->name.path);
        AUDIT(audit, version->number > last, "versions of '%s' are not in order",
              object->name.path);
        last = version->number;
        versions++;
    }
    AUDIT(audit, last <= object->last_version, "'%s' forgot a version number", object->name.path);
    AUDIT(audit, versions == object->count, "'%s' has %u versions, not %u", object->name.path,
          versions, object->count);
    AUDIT(audit, references == object->references, "'%s' has %u references, not %u",
          object->name.path, references, object->references);
    AUDIT(audit, object->versions || object->writer,
          "'%s' has neither version nor writer and is still there", object->name.path);
}

static void audit_objects(struct audit *audit)
{
    const struct mkt_market *market = audit->market;
    struct object *object, *next_object;
    struct set *set, *next_set;

    HASH_ITER (hh, market->objects, object, next_object) {
        audit_object(audit, object);
    }
    HASH_ITER (hh, market->sets, set, next_set) {
        const struct version *version;
        uint32_t versions = 0, references = 0;

        DL_FOREACH2 (set->versions, version, set_next) {
            AUDIT(audit, version->set == set, "a version is in another set's list");
            AUDIT(audit, !version->hidden, "`keep` counts a version that nobody sees");
            versions++;
        }
        HASH_ITER (hh, market->objects, object, next_object) {
            references += object->set == set;
        }
        AUDIT(audit, versions == set->count, "the set '%s' has %u versions, not %u", set->pattern,
              versions, set->count);
        AUDIT(audit, set->references >= versions + references,
              "the set '%s' has %u references, not %u", set->pattern, set->references,
              versions + references);
    }
}

/* ---- moves ---- */

static void audit_moves(struct audit *audit)
{
    const struct move *move;
    uint64_t leaving = 0, waiting = 0;
    uint32_t begun = 0;

    DL_FOREACH (audit->market->moves, move) {
        begun += move->begun;
        count(audit, move->piece, 0);
        if (move->in)
            own_extent(audit, &move->memory, "a move");
        if (!move->in)
            leaving += mkt_round_granule(move->memory.length);
        AUDIT(audit, !move->session || !move->session->ended, "an ended session waits for a read");
    }
    DL_FOREACH (audit->market->waiting_moves, move) {
        count(audit, move->piece, 0);
        waiting += move->length;
        AUDIT(audit, !move->begun && move->in && move->session && !move->session->ended,
              "a move waits for nothing");
        AUDIT(audit, move->deadline_ms >= audit->market->next_deadline_ms,
              "the deadline of a read from the tier is not known");
    }
    AUDIT(audit, waiting == audit->market->waiting_move_bytes, "reads of %llu bytes wait, not %llu",
          (unsigned long long)waiting, (unsigned long long)audit->market->waiting_move_bytes);
    AUDIT(audit, begun == audit->market->moves_begun && leaving == audit->market->leaving_bytes,
          "%u moves of %llu bytes are under way, not %u of %llu", begun,
          (unsigned long long)leaving, audit->market->moves_begun,
          (unsigned long long)audit->market->leaving_bytes);
}

/* ---- streams ---- */

static void audit_reader(struct audit *audit, const struct stream *stream, uint32_t place)
{
    const struct reader *reader = &stream->reader[place];
    const struct session *session, *next;
    const struct attendance *attendance;
    uint32_t sessions = 0;

    HASH_ITER (hh, audit->market->sessions, session, next) {
        DL_FOREACH (session->attendances, attendance) {
            sessions += attendance->stream == stream && attendance->reader == (int32_t)place;
        }
        AUDIT(audit, !session->ended || !session->attendances, "an ended session reads a stream");
    }
    AUDIT(audit, sessions == reader->sessions, "reader '%s' has %u sessions, not %u", reader->name,
          sessions, reader->sessions);
    AUDIT(audit, (reader->state == READER_HERE) == (sessions > 0),
          "reader '%s' is in the wrong state", reader->name);
    AUDIT(audit,
          reader->state != READER_LEAVING ||
              reader->left_ms + audit->market->limits.reader_grace_ms >=
                  audit->market->next_deadline_ms,
          "nobody will see that reader '%s' is gone", reader->name);
}

static void audit_stream_versions(struct audit *audit, const struct stream *stream)
{
    const struct version *version;
    uint32_t versions = 0;

    DL_FOREACH2 (stream->versions, version, stream_next) {
        AUDIT(audit, version->stream == stream && version->object->stream == stream,
              "a version is in another stream's list");
        AUDIT(audit, !version->retired && !version->hidden && version->step > 0,
              "a stream has a version that nobody sees");
        AUDIT(audit, (version->read & ~version->had) == 0, "a version was read that nobody had");
        versions++;
    }
    AUDIT(audit, versions == stream->versions_count, "a stream has %u versions, not %u", versions,
          stream->versions_count);
}

static uint32_t count_stream_references(const struct mkt_market *market,
                                        const struct stream *stream)
{
    const struct session *session, *next_session;
    const struct attendance *attendance;
    const struct group *group, *next_group;
    const struct object *object, *next_object, *last = NULL;
    uint32_t references = stream->versions_count;

    HASH_ITER (hh, market->sessions, session, next_session) {
        DL_FOREACH (session->attendances, attendance)
            references += attendance->stream == stream;
    }
    HASH_ITER (hh, market->objects, object, next_object)
        references += object->stream == stream;
    /* Of those that are gone at least one each. */
    HASH_ITER (hh, market->groups, group, next_group) {
        if (group->object && group->object->gone && group->object->stream == stream &&
            group->object != last)
            last = group->object;
    }
    return references + (last != NULL);
}

static void audit_streams(struct audit *audit)
{
    const struct stream *stream, *next;
    const struct group *group, *next_group;
    uint32_t leaving = 0, waits = 0;

    HASH_ITER (hh, audit->market->streams, stream, next) {
        audit_stream_versions(audit, stream);
        for (uint32_t place = 0; place < stream->count; place++) {
            audit_reader(audit, stream, place);
            leaving += stream->reader[place].state == READER_LEAVING;
        }
        AUDIT(audit, stream->references >= count_stream_references(audit->market, stream),
              "a stream has fewer references than are there");
        AUDIT(audit, stream->references > 0 || (stream->is_patterned && stream->ended),
              "a stream is left that nobody needs");
    }
    AUDIT(audit, leaving == audit->market->leaving_readers, "%u readers leave, not %u", leaving,
          audit->market->leaving_readers);
    HASH_ITER (hh, audit->market->groups, group, next_group) {
        waits += group->state == GROUP_WAITING && mkt_stream_is_asked(group);
    }
    AUDIT(audit, waits == audit->market->stream_waits, "%u groups wait on streams, not %u", waits,
          audit->market->stream_waits);
    AUDIT(audit, !audit->market->has_stream_news, "who waits for a stream didn't look again");
}

/* ---- references and bytes ---- */

static int compare_counted(const void *a, const void *b)
{
    return compare_pointers(&((const struct counted *)a)->what, &((const struct counted *)b)->what);
}

/* Merges equal entries; what is left is each piece and image once. */
static void merge_counted(struct audit *audit)
{
    size_t kept = 0;

    if (audit->counted_count == 0)
        return;
    qsort(audit->counted, audit->counted_count, sizeof(audit->counted[0]), compare_counted);
    for (size_t i = 1; i < audit->counted_count; i++) {
        if (audit->counted[i].what == audit->counted[kept].what) {
            audit->counted[kept].references++;
            audit->counted[kept].versions += audit->counted[i].versions;
        } else {
            audit->counted[++kept] = audit->counted[i];
        }
    }
    audit->counted_count = kept + 1;
}

static const struct counted *find_counted(const struct audit *audit, const void *what)
{
    const struct counted key = {what, 0, 0};

    return audit->counted_count
               ? bsearch(&key, audit->counted, audit->counted_count, sizeof(key), compare_counted)
               : NULL;
}

static void audit_piece(struct audit *audit, struct held_piece *piece)
{
    struct counted *counted = (struct counted *)find_counted(audit, piece);

    AUDIT(audit, counted, "a piece was not counted");
    if (!counted || counted->references == 0)
        return;
    AUDIT(audit, counted->references == piece->references && counted->versions == piece->versions,
          "a piece has %u references, not %u", counted->references, piece->references);
    counted->references = 0; /* seen */
    AUDIT(audit, piece->data.length > 0 || piece->cold.length > 0, "a piece is nowhere");
    AUDIT(audit, piece->cold.length == 0 || piece->published,
          "an unpublished piece is in the tier");
    audit->cold_bytes += piece->cold.length;
    audit->copies += piece->is_copy;
    AUDIT(audit, piece->is_copy == (piece->data.length > 0 && piece->cold.length > 0),
          "a piece and the list of copies do not fit");
    own_extent(audit, &piece->data, "a piece");
    own_extent(audit, &piece->table, "a piece's table");
}

static void audit_pieces(struct audit *audit)
{
    struct group *group, *next_group;
    struct group_array *array, *next_array;
    struct version *version;
    const struct move *move;
    const struct held_piece *copy;
    uint32_t copies = 0;

    merge_counted(audit);
    DL_FOREACH2 (audit->market->versions, version, all_next) {
        const struct counted *image = version->image ? find_counted(audit, version->image) : NULL;

        AUDIT(audit, !version->image || (image && image->references == version->image->references),
              "an image has the wrong count of references");
        for (uint64_t p = 0; p < version->pieces; p++)
            audit_piece(audit, version->piece[p]);
    }
    HASH_ITER (hh, audit->market->groups, group, next_group) {
        HASH_ITER (hh, group->arrays, array, next_array) {
            for (uint32_t i = 0; i < array->count; i++)
                audit_piece(audit, array->piece[i]);
        }
    }
    DL_FOREACH (audit->market->moves, move)
        audit_piece(audit, move->piece);
    DL_FOREACH (audit->market->waiting_moves, move)
        audit_piece(audit, move->piece);
    DL_COUNT2(audit->market->copies, copy, copies, copy_next);
    AUDIT(audit, copies == audit->copies, "%u pieces are in the tier as well, not %u",
          audit->copies, copies);
    AUDIT(audit, audit->cold_bytes == audit->market->tier_bytes,
          "%llu bytes are in the tier, not %llu", (unsigned long long)audit->cold_bytes,
          (unsigned long long)audit->market->tier_bytes);
}

static void own_free(void *context, const struct mkt_extent *extent)
{
    own_extent(context, extent, "free");
}

static int compare_owned(const void *a, const void *b)
{
    const struct range *x = &((const struct owned *)a)->range,
                       *y = &((const struct owned *)b)->range;

    if (x->arena != y->arena)
        return x->arena < y->arena ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Every byte of every arena has one owner. */
static void audit_bytes(struct audit *audit)
{
    const struct mkt_market *market = audit->market;
    uint64_t used = 0, free_bytes = 0, total = market->arenas * market->limits.arena_bytes,
             deferred = 0;

    for (size_t i = 0; i < audit->owned_count; i++)
        used += audit->owned[i].range.length;
    mkt_market_each_free(market, own_free, audit);
    for (uint32_t i = 0; i < market->deferred_count; i++) {
        own(audit, market->deferred[i].arena, market->deferred[i].offset,
            market->deferred[i].length, "deferred");
        deferred += market->deferred[i].length;
    }
    for (uint32_t i = 0; i < market->arenas; i++)
        free_bytes += mkt_space_free_bytes(market->arena[i].space);
    AUDIT(audit, used == market->used_bytes, "%llu bytes are owned, but %llu are used",
          (unsigned long long)used, (unsigned long long)market->used_bytes);
    AUDIT(audit, used + free_bytes + deferred + market->lost_bytes == total,
          "%llu bytes used, %llu free and %llu between are not %llu", (unsigned long long)used,
          (unsigned long long)free_bytes, (unsigned long long)(deferred + market->lost_bytes),
          (unsigned long long)total);
    if (audit->failed || audit->owned_count == 0)
        return;
    qsort(audit->owned, audit->owned_count, sizeof(audit->owned[0]), compare_owned);
    for (size_t i = 1; i < audit->owned_count; i++) {
        const struct owned *low = &audit->owned[i - 1], *high = &audit->owned[i];

        AUDIT(audit,
              low->range.arena < high->range.arena ||
                  low->range.offset + low->range.length <= high->range.offset,
              "byte %llu of arena %u belongs to %s and to %s",
              (unsigned long long)high->range.offset, high->range.arena, low->owner, high->owner);
    }
}

enum mkt_status mkt_market_audit(const struct mkt_market *market, struct mkt_error *error_out)
{
    struct audit audit = {.market = market, .error = error_out};

    audit_sessions(&audit);
    audit_groups(&audit);
    audit_grant_waits(&audit);
    audit_versions(&audit);
    audit_objects(&audit);
    audit_streams(&audit);
    audit_saves(&audit);
    audit_drains(&audit);
    audit_moves(&audit);
    audit_pieces(&audit);
    audit_bytes(&audit);
    free(audit.owned);
    free(audit.counted);
    return audit.failed ? MKT_CORRUPT : MKT_OK;
}
