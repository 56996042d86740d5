/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A market's whole state as bytes, and back: where a journal begins anew. For processes of one
 * program only: structures are copied as they are, so a new field that is no pointer is in a dump
 * by itself. Pointers become numbers. One walk over everything serves to write and to read; where
 * it writes it allocates nothing.
 *
 *   market, free ranges, sessions, sets, streams, objects, images, pieces, versions, groups things,
 * each with what it owns; a number is the place in this order lists who is in which list, in its
 * order
 */
#include "core/market/internal.h"

#include <stdlib.h>
#include <string.h>

#define DUMP_MAGIC UINT64_C(0x31504d5544544b4d) /* "MKTDUMP1" */

/* A structure that grew: if by a pointer, it needs a line below; then adapt its number here. */
_Static_assert(sizeof(struct session) == 232, "see above");
_Static_assert(sizeof(struct owned_name) == 80, "see above");
_Static_assert(sizeof(struct held_piece) == 128, "see above");
_Static_assert(sizeof(struct held_image) == 40, "see above");
_Static_assert(sizeof(struct set) == 88, "see above");
_Static_assert(sizeof(struct stream) == 144, "see above");
_Static_assert(sizeof(struct reader) == 192, "see above");
_Static_assert(sizeof(struct attendance) == 32, "see above");
_Static_assert(sizeof(struct version) == 384, "see above");
_Static_assert(sizeof(struct object) == 392, "see above");
_Static_assert(sizeof(struct group_array) == 408, "see above");
_Static_assert(sizeof(struct member) == 72, "see above");
_Static_assert(sizeof(struct group) == 1264, "see above");
_Static_assert(sizeof(struct grant_wait) == 88, "see above");
_Static_assert(sizeof(struct save_wait) == 72, "see above");
_Static_assert(sizeof(struct move) == 176, "see above");

/* What was read so far, by number. */
struct table {
    void **item;
    uint32_t count, capacity;
};

struct dump {
    struct mkt_market *market;
    bool reads, failed; /* failed: what comes after does nothing */
    uint8_t *bytes;
    size_t at, end;
    uint64_t mark; /* of this dump, in the high half of `dumped` */
    struct table streams, objects, images, pieces, versions;
};

/* ---- bytes ---- */

static bool can_go_on(struct dump *dump, size_t bytes)
{
    if (dump->failed || bytes > dump->end - dump->at)
        dump->failed = true;
    return !dump->failed;
}

/* The structure in the buffer where it writes, so that pointers can be wiped there; the structure
 * itself where it reads. */
static void *walk_bytes(struct dump *dump, void *bytes, size_t length)
{
    size_t padded = (length + 7) & ~(size_t)7;
    uint8_t *place = dump->bytes + dump->at;

    if (!can_go_on(dump, padded) || length == 0)
        return bytes;
    dump->at += padded;
    if (dump->reads) {
        memcpy(bytes, place, length);
        return bytes;
    }
    memcpy(place, bytes, length);
    memset(place + length, 0, padded - length);
    return place;
}

static void walk_u64(struct dump *dump, uint64_t *number)
{
    walk_bytes(dump, number, sizeof(*number));
}

/* Memory for what is read. */
static void *allocate(struct dump *dump, size_t bytes)
{
    void *memory = dump->failed ? NULL : calloc(1, bytes > 0 ? bytes : 1);

    if (!memory)
        dump->failed = true;
    return memory;
}

/* A block of its own. */
static void walk_block(struct dump *dump, void **block, size_t length)
{
    if (dump->reads)
        *block = length > 0 ? allocate(dump, length) : NULL;
    if (!dump->failed)
        walk_bytes(dump, *block, length);
}

static void walk_text(struct dump *dump, char **text)
{
    uint64_t bytes = !dump->reads && *text ? strlen(*text) + 1 : 0;

    walk_u64(dump, &bytes);
    if (dump->reads)
        *text = NULL;
    if (bytes > 0 && can_go_on(dump, bytes))
        walk_block(dump, (void **)text, bytes);
}

/* Where it reads: true while another one follows. Where it writes: says whether one does. */
static bool another(struct dump *dump, bool follows)
{
    uint64_t flag = follows;

    walk_u64(dump, &flag);
    return flag == 1 && !dump->failed;
}

/* ---- numbers for pointers ---- */

static void table_fini(struct table *table)
{
    free(table->item);
}

/* Gives the next number: keeps what was read, marks what is written. */
static void enter(struct dump *dump, struct table *table, void *item, uint64_t *dumped)
{
    if (dump->reads && table->count == table->capacity && !dump->failed) {
        uint32_t capacity = table->capacity ? 2 * table->capacity : 64;
        void **larger = realloc(table->item, capacity * sizeof(*larger));
        if (!larger) {
            dump->failed = true;
            return;
        }
        table->item = larger;
        table->capacity = capacity;
    }
    if (dump->failed)
        return;
    if (dump->reads)
        table->item[table->count] = item;
    *dumped = dump->reads ? 0 : dump->mark | (table->count + 1);
    table->count++;
}

static bool is_entered(const struct dump *dump, uint64_t dumped)
{
    return dumped >> 32 == dump->mark >> 32;
}

/* 0 is none. */
static void *walk_number(struct dump *dump, const struct table *table, void *item, uint64_t dumped)
{
    uint64_t number = item ? (uint32_t)dumped : 0;

    walk_u64(dump, &number);
    if (!dump->reads || dump->failed || number == 0)
        return dump->reads ? NULL : item;
    if (number > table->count) {
        dump->failed = true;
        return NULL;
    }
    return table->item[number - 1];
}

static struct stream *walk_stream_number(struct dump *dump, struct stream *stream)
{
    return walk_number(dump, &dump->streams, stream, stream && !dump->reads ? stream->dumped : 0);
}

static struct object *walk_object_number(struct dump *dump, struct object *object)
{
    return walk_number(dump, &dump->objects, object, object && !dump->reads ? object->dumped : 0);
}

static struct version *walk_version_number(struct dump *dump, struct version *version)
{
    return walk_number(dump, &dump->versions, version,
                       version && !dump->reads ? version->dumped : 0);
}

static struct session *walk_session_id(struct dump *dump, struct session *session)
{
    uint64_t id = !dump->reads && session ? session->id : 0, is_there = !dump->reads && session;

    walk_u64(dump, &is_there);
    walk_u64(dump, &id);
    if (dump->reads)
        session = is_there ? mkt_session_find(dump->market, id) : NULL;
    if (is_there && !session)
        dump->failed = true;
    return session;
}

static struct group *walk_group_file(struct dump *dump, struct group *group)
{
    uint64_t file = !dump->reads && group ? group->file : 0;

    walk_u64(dump, &file);
    if (!dump->reads)
        return group;
    HASH_FIND(hh, dump->market->groups, &file, sizeof(file), group);
    if (file != 0 && !group)
        dump->failed = true;
    return group;
}

static struct set *walk_set_number(struct dump *dump, struct set *set)
{
    struct set *each, *next;
    uint64_t number = 0, at = 0;

    HASH_ITER (hh, dump->market->sets, each, next) {
        at++;
        if (!dump->reads && each == set)
            number = at;
    }
    walk_u64(dump, &number);
    if (!dump->reads)
        return set;
    at = 0;
    set = NULL;
    HASH_ITER (hh, dump->market->sets, each, next) {
        if (++at == number)
            set = each;
    }
    return set;
}

/* ---- the market's own, and its arenas ---- */

static void walk_market(struct dump *dump)
{
    struct mkt_market *market = dump->market;
    const struct mkt_market_ops ops = market->ops;
    void *const context = market->context;
    struct arena *const arena = market->arena;
    struct group **const waiting = market->waiting;
    const uint64_t max_arenas = market->max_arenas, arena_bytes = market->limits.arena_bytes;
    struct mkt_market *copy = walk_bytes(dump, market, sizeof(*market));

    if (dump->failed)
        return;
    /* What is made anew, or comes from the caller. */
    copy->ops = (struct mkt_market_ops){.send = NULL};
    copy->context = NULL;
    copy->arena = NULL;
    copy->sessions = NULL;
    copy->objects = copy->objects_by_file = NULL;
    copy->objects_by_place = copy->stubs_by_place = NULL;
    copy->sets = NULL;
    copy->streams = NULL;
    copy->groups = copy->groups_by_token = copy->loads = copy->doomed = NULL;
    copy->timed = copy->small_queue = copy->main_queue = (struct heap){.item = NULL};
    copy->waiting = NULL;
    copy->grant_waits = NULL;
    copy->versions = copy->unsaved = copy->saved = NULL;
    copy->save_waits = NULL;
    copy->moves = copy->waiting_moves = NULL;
    copy->copies = NULL;
    copy->replay = NULL;
    copy->dumps = 0;
    if (!dump->reads)
        return;
    market->ops = ops;
    market->context = context;
    market->arena = arena;
    market->waiting = waiting;
    dump->failed = market->max_arenas != max_arenas || market->limits.arena_bytes != arena_bytes;
}

static void write_range(void *context, uint64_t offset, uint64_t length)
{
    struct dump *dump = context;

    (void)another(dump, true);
    walk_u64(dump, &offset);
    walk_u64(dump, &length);
}

/* Takes everything, and gives back what was free. */
static void read_arena(struct dump *dump, uint32_t at)
{
    struct mkt_market *market = dump->market;
    uint64_t size = market->limits.arena_bytes, offset, length = 0;
    struct mkt_error error;
    struct mkt_space *space = mkt_space_create(size);
    uint64_t node = 0;

    walk_u64(dump, &node);
    market->arena[at] = (struct arena){.space = space, .node = (uint32_t)node};
    if (!space || mkt_space_alloc(space, size, MKT_SPACE_GRANULE, &offset) != MKT_OK ||
        market->ops.grow(market->context, at + 1, (uint32_t)node, size, &error) != MKT_OK)
        dump->failed = true;
    while (another(dump, false)) {
        walk_u64(dump, &offset);
        walk_u64(dump, &length);
        if (!dump->failed && mkt_space_free(space, offset, length) != MKT_OK)
            dump->failed = true;
    }
}

static void walk_arenas(struct dump *dump)
{
    struct mkt_market *market = dump->market;

    for (uint32_t i = 0; i < market->arenas && !dump->failed; i++) {
        if (dump->reads) {
            read_arena(dump, i);
            continue;
        }
        uint64_t node = market->arena[i].node;
        walk_u64(dump, &node);
        mkt_space_each_free(market->arena[i].space, write_range, dump);
        (void)another(dump, false);
    }
}

/* ---- things ---- */

/* Field by field: what is between them may be anything. */
static void walk_ranges(struct dump *dump, struct ranges *ranges)
{
    if (dump->reads)
        ranges->item =
            ranges->count > 0 ? allocate(dump, ranges->count * sizeof(struct range)) : NULL;
    for (uint32_t i = 0; i < ranges->count && !dump->failed; i++) {
        struct range *range = &ranges->item[i];
        uint64_t arena = range->arena;

        walk_u64(dump, &arena);
        range->arena = (uint32_t)arena;
        walk_u64(dump, &range->offset);
        walk_u64(dump, &range->length);
    }
}

static void wipe_ranges(struct ranges *copy)
{
    copy->item = NULL;
    copy->capacity = copy->count;
}

static void walk_session(struct dump *dump, struct session *session)
{
    struct session *copy = walk_bytes(dump, session, sizeof(*session));

    if (dump->failed)
        return;
    copy->reply = NULL;
    copy->reply_capacity = copy->reply_bytes;
    copy->members = NULL;
    copy->grant_waits = NULL;
    copy->fetches = NULL;
    copy->attendances = NULL;
    memset(&copy->hh, 0, sizeof(copy->hh));
    wipe_ranges(&copy->grants);
    walk_block(dump, (void **)&session->reply, session->reply_bytes);
    walk_ranges(dump, &session->grants);
}

static void read_session(struct dump *dump)
{
    struct session *session = allocate(dump, sizeof(*session));

    if (!session)
        return;
    walk_session(dump, session);
    HASH_ADD(hh, dump->market->sessions, id, sizeof(session->id), session);
    if (!MKT_TABLE_ADDED(session, hh))
        dump->failed = true;
}

static void walk_sessions(struct dump *dump)
{
    struct session *session, *next;

    if (dump->reads) {
        while (another(dump, false))
            read_session(dump);
        return;
    }
    HASH_ITER (hh, dump->market->sessions, session, next) {
        (void)another(dump, true);
        walk_session(dump, session);
    }
    (void)another(dump, false);
}

static void walk_set(struct dump *dump, struct set *set)
{
    struct set *copy = walk_bytes(dump, set, sizeof(*set));

    if (dump->failed)
        return;
    memset(&copy->hh, 0, sizeof(copy->hh));
    copy->versions = NULL;
    if (!dump->reads)
        copy->pattern = NULL;
    walk_text(dump, &set->pattern);
}

static void read_set(struct dump *dump)
{
    struct set *set = allocate(dump, sizeof(*set));

    if (!set)
        return;
    walk_set(dump, set);
    if (dump->failed || !set->pattern)
        return;
    HASH_ADD_KEYPTR(hh, dump->market->sets, set->pattern, strlen(set->pattern), set);
    if (!MKT_TABLE_ADDED(set, hh))
        dump->failed = true;
}

static void walk_sets(struct dump *dump)
{
    struct set *set, *next;

    if (dump->reads) {
        while (another(dump, false))
            read_set(dump);
        return;
    }
    HASH_ITER (hh, dump->market->sets, set, next) {
        (void)another(dump, true);
        walk_set(dump, set);
    }
    (void)another(dump, false);
}

static void walk_stream(struct dump *dump, struct stream *stream)
{
    struct stream *copy = walk_bytes(dump, stream, sizeof(*stream));

    if (dump->failed)
        return;
    memset(&copy->hh, 0, sizeof(copy->hh));
    copy->versions = NULL;
    copy->capacity = copy->count;
    copy->dumped = 0;
    if (!dump->reads) {
        copy->key = NULL;
        copy->reader = NULL;
    }
    walk_text(dump, &stream->key);
    walk_block(dump, (void **)&stream->reader, stream->count * sizeof(*stream->reader));
}

static void read_stream(struct dump *dump)
{
    struct stream *stream = allocate(dump, sizeof(*stream));

    if (!stream)
        return;
    walk_stream(dump, stream);
    if (dump->failed || !stream->key)
        return;
    HASH_ADD_KEYPTR(hh, dump->market->streams, stream->key, strlen(stream->key), stream);
    if (!MKT_TABLE_ADDED(stream, hh))
        dump->failed = true;
    enter(dump, &dump->streams, stream, &stream->dumped);
}

static void walk_streams(struct dump *dump)
{
    struct stream *stream, *next;

    if (dump->reads) {
        while (another(dump, false))
            read_stream(dump);
        return;
    }
    HASH_ITER (hh, dump->market->streams, stream, next) {
        (void)another(dump, true);
        walk_stream(dump, stream);
        enter(dump, &dump->streams, stream, &stream->dumped);
    }
    (void)another(dump, false);
}

static void wipe_name(struct owned_name *copy)
{
    copy->place = NULL;
    copy->path = NULL;
}

static void walk_name(struct dump *dump, struct owned_name *name)
{
    uint64_t has_place = !dump->reads && name->place;

    walk_u64(dump, &has_place);
    if (has_place)
        walk_block(dump, (void **)&name->place, name->place_bytes);
    walk_text(dump, &name->path);
}

static void walk_object(struct dump *dump, struct object *object)
{
    uint64_t by_file = !dump->reads && MKT_TABLE_ADDED(object, hh_file),
             by_place = !dump->reads && MKT_TABLE_ADDED(object, hh_place);
    struct object *copy = walk_bytes(dump, object, sizeof(*object));

    if (dump->failed)
        return;
    copy->versions = NULL;
    copy->writer = NULL;
    copy->dumped = 0;
    memset(&copy->hh, 0, sizeof(copy->hh));
    memset(&copy->hh_file, 0, sizeof(copy->hh_file));
    memset(&copy->hh_place, 0, sizeof(copy->hh_place));
    if (!dump->reads) {
        wipe_name(&copy->name);
        copy->save_failure = NULL;
        copy->set = NULL;
        copy->stream = NULL;
    }
    walk_u64(dump, &by_file);
    walk_u64(dump, &by_place);
    walk_name(dump, &object->name);
    walk_text(dump, &object->save_failure);
    object->set = walk_set_number(dump, object->set);
    object->stream = walk_stream_number(dump, object->stream);
    if (dump->reads && !dump->failed)
        dump->failed = !mkt_object_revive(dump->market, object, by_file, by_place);
}

static void write_object(struct dump *dump, struct object *object)
{
    if (!object || is_entered(dump, object->dumped))
        return;
    (void)another(dump, true);
    walk_object(dump, object);
    enter(dump, &dump->objects, object, &object->dumped);
}

/* Those of the table first; then who is gone, but still referred to. */
static void write_objects(struct dump *dump)
{
    struct mkt_market *market = dump->market;
    struct object *object, *next;
    struct version *version;
    struct group *group, *next_group;
    const struct save_wait *wait;
    const struct move *move;

    HASH_ITER (hh, market->objects, object, next)
        write_object(dump, object);
    DL_FOREACH2 (market->versions, version, all_next)
        write_object(dump, version->object);
    HASH_ITER (hh, market->groups, group, next_group)
        write_object(dump, group->object);
    DL_FOREACH (market->save_waits, wait)
        write_object(dump, wait->object);
    DL_FOREACH (market->moves, move)
        write_object(dump, move->object);
    DL_FOREACH (market->waiting_moves, move)
        write_object(dump, move->object);
    (void)another(dump, false);
}

static void walk_objects(struct dump *dump)
{
    if (!dump->reads) {
        write_objects(dump);
        return;
    }
    while (another(dump, false)) {
        struct object *object = allocate(dump, sizeof(*object));
        if (!object)
            return;
        walk_object(dump, object);
        enter(dump, &dump->objects, object, &object->dumped);
    }
}

/* ---- images and pieces ---- */

static void write_image(struct dump *dump, struct held_image *image)
{
    if (!image || is_entered(dump, image->dumped))
        return;
    (void)another(dump, true);
    struct held_image *copy = walk_bytes(dump, image, sizeof(*image));
    if (dump->failed)
        return;
    copy->dumped = 0;
    enter(dump, &dump->images, image, &image->dumped);
}

static void walk_images(struct dump *dump)
{
    struct version *version;
    struct group *group, *next;

    while (dump->reads && another(dump, false)) {
        struct held_image *image = allocate(dump, sizeof(*image));
        if (!image)
            return;
        walk_bytes(dump, image, sizeof(*image));
        enter(dump, &dump->images, image, &image->dumped);
    }
    if (dump->reads)
        return;
    DL_FOREACH2 (dump->market->versions, version, all_next)
        write_image(dump, version->image);
    HASH_ITER (hh, dump->market->groups, group, next)
        write_image(dump, group->image);
    (void)another(dump, false);
}

static struct held_image *walk_image_number(struct dump *dump, struct held_image *image)
{
    return walk_number(dump, &dump->images, image, image && !dump->reads ? image->dumped : 0);
}

static void write_piece(struct dump *dump, struct held_piece *piece)
{
    uint64_t bytes = sizeof(*piece) + piece->record_bytes;

    if (is_entered(dump, piece->dumped))
        return;
    walk_u64(dump, &bytes);
    struct held_piece *copy = walk_bytes(dump, piece, bytes);
    if (dump->failed)
        return;
    copy->copy_prev = copy->copy_next = NULL;
    copy->dumped = 0;
    enter(dump, &dump->pieces, piece, &piece->dumped);
}

static void write_pieces(struct dump *dump)
{
    struct version *version;
    struct group *group, *next;
    struct group_array *array, *next_array;
    const struct move *move;
    uint64_t end = 0;

    DL_FOREACH2 (dump->market->versions, version, all_next) {
        for (uint64_t p = 0; p < version->pieces && !dump->failed; p++)
            write_piece(dump, version->piece[p]);
    }
    HASH_ITER (hh, dump->market->groups, group, next) {
        HASH_ITER (hh, group->arrays, array, next_array) {
            for (uint32_t p = 0; p < array->count && !dump->failed; p++)
                write_piece(dump, array->piece[p]);
        }
    }
    DL_FOREACH (dump->market->moves, move)
        write_piece(dump, move->piece);
    DL_FOREACH (dump->market->waiting_moves, move)
        write_piece(dump, move->piece);
    walk_u64(dump, &end);
}

static void walk_pieces(struct dump *dump)
{
    uint64_t bytes = 0;

    if (!dump->reads) {
        write_pieces(dump);
        return;
    }
    for (walk_u64(dump, &bytes); bytes > 0 && can_go_on(dump, bytes); walk_u64(dump, &bytes)) {
        struct held_piece *piece = allocate(dump, bytes);
        if (!piece)
            return;
        walk_bytes(dump, piece, bytes);
        if (piece->record_bytes != bytes - sizeof(*piece))
            dump->failed = true;
        enter(dump, &dump->pieces, piece, &piece->dumped);
    }
}

/* `count` numbers of pieces. */
static void walk_piece_numbers(struct dump *dump, struct held_piece **piece, uint64_t count)
{
    for (uint64_t p = 0; p < count && !dump->failed; p++)
        piece[p] = walk_number(dump, &dump->pieces, dump->reads ? NULL : piece[p],
                               dump->reads ? 0 : piece[p]->dumped);
}

/* ---- versions ---- */

static void walk_version_arrays(struct dump *dump, struct version *version)
{
    uint64_t pieces = 0;

    if (dump->reads) {
        version->array = allocate(dump, (version->arrays + 1) * sizeof(*version->array));
        version->piece = allocate(dump, (version->pieces + 1) * sizeof(struct held_piece *));
    }
    walk_piece_numbers(dump, version->piece, version->pieces);
    for (uint32_t i = 0; i < version->arrays && !dump->failed; i++) {
        struct version_array *array = &version->array[i];
        struct version_array *copy = walk_bytes(dump, array, sizeof(*array));

        if (dump->failed)
            return;
        copy->piece = NULL;
        array->piece = version->piece + pieces;
        pieces += array->count;
    }
}

static void walk_version(struct dump *dump, struct version *version)
{
    struct version *copy = walk_bytes(dump, version, sizeof(*version));

    if (dump->failed)
        return;
    copy->prev = copy->next = copy->set_prev = copy->set_next = NULL;
    copy->stream_prev = copy->stream_next = NULL;
    copy->all_prev = copy->all_next = copy->save_prev = copy->save_next = NULL;
    copy->dumped = 0;
    /* What tier.c finds out again. */
    copy->turn.place = 0;
    copy->stays = 0;
    if (!dump->reads) {
        copy->object = NULL;
        copy->array = NULL;
        copy->piece = NULL;
        copy->image = NULL;
        copy->set = NULL;
        copy->stream = NULL;
        copy->save.saver = NULL;
        copy->save.closers = NULL;
    }
    version->object = walk_object_number(dump, version->object);
    version->image = walk_image_number(dump, version->image);
    version->set = walk_set_number(dump, version->set);
    version->stream = walk_stream_number(dump, version->stream);
    version->save.saver = walk_session_id(dump, version->save.saver);
    walk_version_arrays(dump, version);
}

static void walk_versions(struct dump *dump)
{
    struct version *version;

    while (dump->reads && another(dump, false)) {
        version = allocate(dump, sizeof(*version));
        if (!version)
            return;
        walk_version(dump, version);
        DL_APPEND2(dump->market->versions, version, all_prev, all_next);
        enter(dump, &dump->versions, version, &version->dumped);
    }
    if (dump->reads)
        return;
    DL_FOREACH2 (dump->market->versions, version, all_next) {
        (void)another(dump, true);
        walk_version(dump, version);
        enter(dump, &dump->versions, version, &version->dumped);
    }
    (void)another(dump, false);
}

/* ---- groups ---- */

static void walk_group_array(struct dump *dump, struct group_array *array)
{
    struct group_array *copy = walk_bytes(dump, array, sizeof(*array));

    if (dump->failed)
        return;
    memset(&copy->hh, 0, sizeof(copy->hh));
    copy->capacity = copy->count;
    if (!dump->reads)
        copy->piece = NULL;
    else
        array->piece = allocate(dump, array->count * sizeof(struct held_piece *));
    walk_piece_numbers(dump, array->piece, array->count);
}

static void walk_group_arrays(struct dump *dump, struct group *group)
{
    struct group_array *array, *next;

    while (dump->reads && another(dump, false)) {
        array = allocate(dump, sizeof(*array));
        if (!array)
            return;
        walk_group_array(dump, array);
        HASH_ADD(hh, group->arrays, identity, sizeof(array->identity), array);
        if (!MKT_TABLE_ADDED(array, hh))
            dump->failed = true;
    }
    if (dump->reads)
        return;
    HASH_ITER (hh, group->arrays, array, next) {
        (void)another(dump, true);
        walk_group_array(dump, array);
    }
    (void)another(dump, false);
}

static void walk_members(struct dump *dump, struct group *group)
{
    if (dump->reads)
        group->member = allocate(dump, group->size * sizeof(*group->member));
    for (uint32_t rank = 0; rank < group->size && !dump->failed; rank++) {
        struct member *member = &group->member[rank], *copy;

        copy = walk_bytes(dump, member, sizeof(*member));
        if (dump->failed)
            return;
        copy->prev = copy->next = NULL;
        if (!dump->reads) {
            copy->group = NULL;
            copy->session = NULL;
        }
        member->group = group;
        member->session = walk_session_id(dump, member->session);
    }
}

static void wipe_group(struct group *copy)
{
    memset(&copy->hh, 0, sizeof(copy->hh));
    memset(&copy->hh_token, 0, sizeof(copy->hh_token));
    copy->prev = copy->next = copy->doomed_next = NULL;
    copy->load_prev = copy->load_next = NULL;
    copy->deadline.place = 0;
    copy->await_prev = copy->await_next = NULL;
    copy->member = NULL;
    copy->arrays = NULL;
    copy->listed_capacity = copy->listed_count;
    copy->listed = NULL;
    copy->set = NULL;
    copy->object = NULL;
    copy->version_open = copy->awaits = NULL;
    copy->image = NULL;
    wipe_ranges(&copy->spoilt);
    wipe_name(&copy->name);
}

static void walk_group(struct dump *dump, struct group *group)
{
    struct group *copy = walk_bytes(dump, group, sizeof(*group));

    if (dump->failed)
        return;
    wipe_group(copy);
    walk_members(dump, group);
    walk_name(dump, &group->name);
    walk_text(dump, &group->set);
    group->object = walk_object_number(dump, group->object);
    group->version_open = walk_version_number(dump, group->version_open);
    group->awaits = walk_version_number(dump, group->awaits);
    group->image = walk_image_number(dump, group->image);
    walk_group_arrays(dump, group);
    walk_ranges(dump, &group->spoilt);
    walk_block(dump, (void **)&group->listed, group->listed_count * sizeof(*group->listed));
}

static void read_group(struct dump *dump)
{
    struct group *group = allocate(dump, sizeof(*group));

    if (!group)
        return;
    walk_group(dump, group);
    HASH_ADD(hh, dump->market->groups, file, sizeof(group->file), group);
    if (!MKT_TABLE_ADDED(group, hh))
        dump->failed = true;
    dump->failed |=
        mkt_heap_reserve(&dump->market->timed, HASH_COUNT(dump->market->groups)) != MKT_OK;
    if (group->timed && !dump->failed)
        mkt_heap_put(&dump->market->timed, &group->deadline);
    if (group->intent == MKT_INTENT_LOAD)
        DL_APPEND2(dump->market->loads, group, load_prev, load_next);
    if (!group->in_tokens || dump->failed)
        return;
    HASH_ADD(hh_token, dump->market->groups_by_token, token, MKT_ID_BYTES, group);
    if (!MKT_TABLE_ADDED(group, hh_token))
        dump->failed = true;
}

static void walk_groups(struct dump *dump)
{
    struct group *group, *next;

    if (dump->reads) {
        while (another(dump, false))
            read_group(dump);
        return;
    }
    HASH_ITER (hh, dump->market->groups, group, next) {
        (void)another(dump, true);
        walk_group(dump, group);
    }
    (void)another(dump, false);
}

/* ---- lists ---- */

/* Numbers of versions, to the first that is none. */
#define WALK_VERSIONS(dump, head, before, after)             \
    do {                                                     \
        struct version *each;                                \
        if (!(dump)->reads) {                                \
            DL_FOREACH2 (head, each, after)                  \
                (void)walk_version_number(dump, each);       \
            (void)walk_version_number(dump, NULL);           \
        } else                                               \
            while ((each = walk_version_number(dump, NULL))) \
                DL_APPEND2(head, each, before, after);       \
    } while (0)

static void walk_closers(struct dump *dump, struct version *version)
{
    struct group *group;

    if (dump->reads) {
        while ((group = walk_group_file(dump, NULL)))
            DL_APPEND2(version->save.closers, group, await_prev, await_next);
        return;
    }
    DL_FOREACH2 (version->save.closers, group, await_next)
        (void)walk_group_file(dump, group);
    (void)walk_group_file(dump, NULL);
}

static void walk_version_lists(struct dump *dump)
{
    struct mkt_market *market = dump->market;
    struct set *set, *next;
    struct stream *stream, *next_stream;
    struct version *version;

    HASH_ITER (hh, market->streams, stream, next_stream)
        WALK_VERSIONS(dump, stream->versions, stream_prev, stream_next);
    HASH_ITER (hh, market->sets, set, next)
        WALK_VERSIONS(dump, set->versions, set_prev, set_next);
    WALK_VERSIONS(dump, market->unsaved, save_prev, save_next);
    WALK_VERSIONS(dump, market->saved, save_prev, save_next);
    DL_FOREACH2 (market->versions, version, all_next)
        walk_closers(dump, version);
}

/* Of the objects in the order of their numbers, which is that of writing. */
static void walk_object_lists(struct dump *dump)
{
    struct object *object;

    for (;;) {
        struct version *each;

        object = walk_object_number(dump, NULL); /* an end, or where to go on */
        if (!object)
            return;
        object->writer = walk_group_file(dump, NULL);
        while ((each = walk_version_number(dump, NULL)))
            DL_APPEND(object->versions, each);
    }
}

static void write_object_lists(struct dump *dump, struct object *object)
{
    struct version *each;

    (void)walk_object_number(dump, object);
    (void)walk_group_file(dump, object->writer);
    DL_FOREACH (object->versions, each)
        (void)walk_version_number(dump, each);
    (void)walk_version_number(dump, NULL);
}

/* Who is gone has neither versions nor a writer. */
static void walk_objects_lists(struct dump *dump)
{
    struct object *object, *next;

    if (dump->reads) {
        walk_object_lists(dump);
        return;
    }
    HASH_ITER (hh, dump->market->objects, object, next)
        write_object_lists(dump, object);
    (void)walk_object_number(dump, NULL);
}

/* Who waits for the same in one bucket is woken in the order in which they came. */
static void walk_waiting(struct dump *dump)
{
    struct group *group;

    while (dump->reads && (group = walk_group_file(dump, NULL))) {
        if (group->bucket == 0 || group->bucket > MKT_WAITING_BUCKETS) {
            dump->failed = true;
            return;
        }
        DL_APPEND(dump->market->waiting[group->bucket - 1], group);
    }
    if (dump->reads)
        return;
    for (uint32_t at = 0; at < MKT_WAITING_BUCKETS; at++) {
        DL_FOREACH (dump->market->waiting[at], group)
            (void)walk_group_file(dump, group);
    }
    (void)walk_group_file(dump, NULL);
}

static void walk_copies(struct dump *dump)
{
    struct mkt_market *market = dump->market;
    struct held_piece *piece;

    while (dump->reads && (piece = walk_number(dump, &dump->pieces, NULL, 0)))
        DL_APPEND2(market->copies, piece, copy_prev, copy_next);
    if (dump->reads)
        return;
    DL_FOREACH2 (market->copies, piece, copy_next)
        (void)walk_number(dump, &dump->pieces, piece, piece->dumped);
    (void)walk_number(dump, &dump->pieces, NULL, 0);
}

static void walk_members_of(struct dump *dump, struct session *session)
{
    struct member *member;
    struct group *group;
    uint64_t rank = 0;

    if (!dump->reads) {
        DL_FOREACH (session->members, member) {
            rank = member->rank;
            (void)walk_group_file(dump, member->group);
            walk_u64(dump, &rank);
        }
        (void)walk_group_file(dump, NULL);
        return;
    }
    while ((group = walk_group_file(dump, NULL))) {
        walk_u64(dump, &rank);
        if (dump->failed || rank >= group->size) {
            dump->failed = true;
            return;
        }
        member = &group->member[rank];
        DL_APPEND(session->members, member);
    }
}

static void walk_attendance(struct dump *dump, struct attendance *attendance)
{
    struct attendance *copy = walk_bytes(dump, attendance, sizeof(*attendance));

    if (dump->failed)
        return;
    copy->prev = copy->next = NULL;
    if (!dump->reads)
        copy->stream = NULL;
    attendance->stream = walk_stream_number(dump, attendance->stream);
}

static void walk_grant_wait(struct dump *dump, struct grant_wait *wait)
{
    struct grant_wait *copy = walk_bytes(dump, wait, sizeof(*wait));

    if (dump->failed)
        return;
    copy->prev = copy->next = copy->session_prev = copy->session_next = NULL;
    if (!dump->reads)
        copy->session = NULL;
    wait->session = walk_session_id(dump, wait->session);
    if (dump->reads && wait->session)
        DL_APPEND2(wait->session->grant_waits, wait, session_prev, session_next);
}

static void walk_save_wait(struct dump *dump, struct save_wait *wait)
{
    struct save_wait *copy = walk_bytes(dump, wait, sizeof(*wait));

    if (dump->failed)
        return;
    copy->prev = copy->next = NULL;
    if (!dump->reads) {
        copy->session = NULL;
        copy->object = NULL;
    }
    wait->session = walk_session_id(dump, wait->session);
    wait->object = walk_object_number(dump, wait->object);
}

static void walk_move(struct dump *dump, struct move *move)
{
    struct move *copy = walk_bytes(dump, move, sizeof(*move));

    if (dump->failed)
        return;
    copy->prev = copy->next = copy->session_prev = copy->session_next = NULL;
    if (!dump->reads) {
        copy->piece = NULL;
        copy->object = NULL;
        copy->version = NULL;
        copy->session = NULL;
        copy->span = NULL;
    }
    move->session = walk_session_id(dump, move->session);
    if (dump->reads && move->session)
        DL_APPEND2(move->session->fetches, move, session_prev, session_next);
    move->object = walk_object_number(dump, move->object);
    move->version = walk_version_number(dump, move->version);
    walk_piece_numbers(dump, &move->piece, 1);
    walk_block(dump, (void **)&move->span, move->spans * sizeof(*move->span));
}

/* In the order in which they wait. */
#define WALK_WAITS(dump, type, head, walk)                                                        \
    do {                                                                                          \
        struct type *each;                                                                        \
        while ((dump)->reads && another(dump, false) && (each = allocate(dump, sizeof(*each)))) { \
            walk(dump, each);                                                                     \
            DL_APPEND(head, each);                                                                \
        }                                                                                         \
        if ((dump)->reads)                                                                        \
            break;                                                                                \
        DL_FOREACH (head, each) {                                                                 \
            (void)another(dump, true);                                                            \
            walk(dump, each);                                                                     \
        }                                                                                         \
        (void)another(dump, false);                                                               \
    } while (0)

/* Versions that have nothing to give leave their queues again. */
static void read_queues(struct dump *dump)
{
    struct version *version;

    if (!dump->failed)
        dump->failed = mkt_tier_make_room(dump->market, dump->market->versions_count) != MKT_OK;
    if (dump->failed)
        return;
    DL_FOREACH2 (dump->market->versions, version, all_next)
        mkt_tier_wake(dump->market, version);
}

static void walk_lists(struct dump *dump)
{
    struct session *session, *next;

    walk_version_lists(dump);
    walk_objects_lists(dump);
    walk_waiting(dump);
    walk_copies(dump);
    HASH_ITER (hh, dump->market->sessions, session, next)
        walk_members_of(dump, session);
    HASH_ITER (hh, dump->market->sessions, session, next)
        WALK_WAITS(dump, attendance, session->attendances, walk_attendance);
    WALK_WAITS(dump, grant_wait, dump->market->grant_waits, walk_grant_wait);
    WALK_WAITS(dump, save_wait, dump->market->save_waits, walk_save_wait);
    WALK_WAITS(dump, move, dump->market->moves, walk_move);
    WALK_WAITS(dump, move, dump->market->waiting_moves, walk_move);
    if (dump->reads)
        read_queues(dump);
}

/* ---- all of it ---- */

static void walk(struct dump *dump)
{
    uint64_t magic = DUMP_MAGIC;

    walk_u64(dump, &magic);
    dump->failed |= magic != DUMP_MAGIC;
    walk_market(dump);
    walk_arenas(dump);
    walk_sessions(dump);
    walk_sets(dump);
    walk_streams(dump);
    walk_objects(dump);
    walk_images(dump);
    walk_pieces(dump);
    walk_versions(dump);
    walk_groups(dump);
    walk_lists(dump);
}

enum mkt_status mkt_market_dump(struct mkt_market *market, void *bytes, size_t capacity,
                                size_t *length_out)
{
    struct dump dump = {
        .market = market, .bytes = bytes, .end = capacity, .mark = (uint64_t)++market->dumps << 32};

    walk(&dump);
    if (dump.failed)
        return MKT_NO_SPACE;
    *length_out = dump.at;
    return MKT_OK;
}

enum mkt_status mkt_market_restore(struct mkt_market *market, const void *bytes, size_t length,
                                   struct mkt_error *error_out)
{
    struct dump dump = {.market = market, .reads = true, .bytes = (uint8_t *)bytes, .end = length};

    walk(&dump);
    table_fini(&dump.streams);
    table_fini(&dump.objects);
    table_fini(&dump.images);
    table_fini(&dump.pieces);
    table_fini(&dump.versions);
    if (dump.failed || dump.at != length)
        return mkt_error_set(error_out, MKT_CORRUPT, "the market's state can't be read back");
    return MKT_OK;
}
