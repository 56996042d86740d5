/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions: how one is built from what a group added, when it becomes visible, and when its bytes
 * go.
 */
#include "core/market/internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pieces and images ---- */

struct held_piece *mkt_piece_hold(const struct mkt_piece *piece, uint32_t element_bytes,
                                  uint32_t rank)
{
    uint32_t record_bytes = mkt_piece_record_bytes(piece);
    struct held_piece *held = malloc(sizeof(*held) + record_bytes);

    if (!held)
        return NULL;
    *held = (struct held_piece){.references = 1,
                                .rank = rank,
                                .element_bytes = element_bytes,
                                .record_bytes = record_bytes,
                                .data = piece->data,
                                .table = piece->table};
    mkt_piece_encode(piece, held->record);
    return held;
}

struct held_piece *mkt_piece_by_stamp(struct held_piece *const *pieces, uint32_t count,
                                      uint64_t stamp, uint32_t *at_out)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (pieces[middle]->stamp < stamp)
            low = middle + 1;
        else
            high = middle;
    }
    if (at_out)
        *at_out = low;
    return low < count && pieces[low]->stamp == stamp ? pieces[low] : NULL;
}

void mkt_piece_stamp(struct held_piece *piece, uint64_t stamp)
{
    struct mkt_piece_record_wire *head = (struct mkt_piece_record_wire *)piece->record;

    piece->stamp = stamp;
    memcpy(&head->stamp, &stamp, sizeof(stamp));
}

enum mkt_status mkt_piece_parse(const struct held_piece *held, struct mkt_piece *piece_out)
{
    uint32_t used;

    return mkt_piece_decode(held->record, held->record_bytes, held->element_bytes, piece_out,
                            &used);
}

void mkt_piece_drop(struct mkt_market *market, struct held_piece *piece)
{
    if (--piece->references > 0)
        return;
    mkt_bytes_free(market, &piece->data);
    mkt_bytes_free(market, &piece->table);
    mkt_tier_drop(market, piece);
    free(piece);
}

void mkt_image_drop(struct mkt_market *market, struct held_image *image)
{
    if (!image || --image->references > 0)
        return;
    mkt_bytes_free(market, &image->extent);
    free(image);
}

/* ---- building ---- */

/* Where the pieces of one array come from. */
struct sources {
    const struct version_array *base; /* NULL: none */
    const struct group_array *added;
};

/* Arrays mostly keep their order from version to version, some are gone, new ones have higher
 * identities: begins at the same position, which is found there or soon after. */
const struct version_array *mkt_version_array(const struct version *version, uint64_t identity,
                                              uint32_t position)
{
    if (!version || version->arrays == 0 || identity > version->last_identity)
        return NULL;
    position %= version->arrays;
    for (uint32_t i = 0; i < version->arrays; i++) {
        const struct version_array *array = &version->array[(position + i) % version->arrays];

        if (array->info.identity == identity)
            return array;
    }
    return NULL;
}
static struct sources sources_of(const struct group *group, uint64_t identity, uint32_t position)
{
    struct sources sources = {.base = mkt_version_array(group->version_open, identity, position)};
    struct group_array *added;
    HASH_FIND(hh, group->arrays, &identity, sizeof(identity), added);
    sources.added = added;
    return sources;
}

/* Pieces that a rank added after its COMMIT belong to the next version. */
static bool is_committed(const struct group *group, const struct held_piece *piece)
{
    return piece->stamp < group->member[piece->rank].commit_stamp;
}

static uint64_t count_pieces(const struct group *group, const struct sources *sources)
{
    uint64_t count = sources->base ? sources->base->count : 0;

    for (uint32_t i = 0; sources->added && i < sources->added->count; i++)
        count += is_committed(group, sources->added->piece[i]);
    return count;
}

static bool fits(const struct mkt_array *info, const struct sources *sources)
{
    if (sources->base && (sources->base->info.element_bytes != info->element_bytes ||
                          sources->base->info.rank != info->rank))
        return false;
    return !sources->added || (sources->added->info.element_bytes == info->element_bytes &&
                               sources->added->info.rank == info->rank);
}

static void version_free(struct version *version)
{
    if (!version)
        return;
    free(version->array);
    free(version->piece);
    free(version);
}

/* The list of the new version's arrays: rank 0's, or the base's if rank 0 changed nothing. */
struct wanted {
    uint32_t count;
    const struct mkt_array *listed;
    const struct version *base;
};

static const struct mkt_array *wanted_info(const struct wanted *wanted, uint32_t at)
{
    return wanted->base ? &wanted->base->array[at].info : &wanted->listed[at];
}

static struct wanted wanted_of(const struct group *group)
{
    if (group->version_open && group->member[0].unchanged && group->listed_count == 0)
        return (struct wanted){group->version_open->arrays, NULL, group->version_open};
    return (struct wanted){group->listed_count, group->listed, NULL};
}

static enum mkt_status out_of_memory(struct mkt_error *error)
{
    return mkt_error_set(error, MKT_NO_MEMORY, "the market daemon is out of memory");
}

static enum mkt_status allocate(struct mkt_market *market, const struct group *group,
                                const struct wanted *wanted, struct version **version_out,
                                struct mkt_error *error)
{
    uint64_t pieces = 0;

    for (uint32_t i = 0; i < wanted->count; i++) {
        const struct mkt_array *info = wanted_info(wanted, i);
        struct sources sources = sources_of(group, info->identity, i);

        if (!fits(info, &sources))
            return mkt_error_set(error, MKT_CORRUPT,
                                 "array %llu was written with elements or dimensions other than "
                                 "those it has at the close",
                                 (unsigned long long)info->identity);
        pieces += count_pieces(group, &sources);
    }
    if (pieces > market->limits.max_pieces)
        return mkt_error_set(
            error, MKT_NO_SPACE,
            "its version would have %llu pieces, more than the %u that one may have (`max_pieces`)",
            (unsigned long long)pieces, market->limits.max_pieces);
    struct version *version = calloc(1, sizeof(*version));
    if (version && mkt_tier_make_room(market, market->versions_count + 1) == MKT_OK) {
        version->array = calloc(wanted->count + 1, sizeof(*version->array));
        version->piece = calloc(pieces + 1, sizeof(struct held_piece *));
    }
    if (!version || !version->array || !version->piece) {
        version_free(version);
        return out_of_memory(error);
    }
    *version_out = version;
    return MKT_OK;
}

static void collect(const struct group *group, const struct wanted *wanted, struct version *version)
{
    version->arrays = wanted->count;
    for (uint32_t i = 0; i < wanted->count; i++) {
        struct version_array *array = &version->array[i];
        struct sources sources = sources_of(group, wanted_info(wanted, i)->identity, i);

        array->info = *wanted_info(wanted, i);
        if (array->info.identity > version->last_identity)
            version->last_identity = array->info.identity;
        array->piece = version->piece + version->pieces;
        for (uint32_t p = 0; sources.base && p < sources.base->count; p++)
            array->piece[array->count++] = sources.base->piece[p];
        for (uint32_t p = 0; sources.added && p < sources.added->count; p++) {
            if (is_committed(group, sources.added->piece[p]))
                array->piece[array->count++] = sources.added->piece[p];
        }
        version->pieces += array->count;
        for (uint32_t p = 0; p < array->count; p++)
            version->data_bytes += mkt_piece_bytes(array->piece[p]);
    }
}

static enum mkt_status index_fill(struct mkt_index_builder *builder, const struct version *version)
{
    struct mkt_piece piece;
    enum mkt_status status = MKT_OK;

    for (uint32_t i = 0; status == MKT_OK && i < version->arrays; i++) {
        const struct version_array *array = &version->array[i];

        status = mkt_index_builder_add_array(builder, &array->info);
        for (uint32_t p = 0; status == MKT_OK && p < array->count; p++) {
            status = mkt_piece_parse(array->piece[p], &piece);
            if (status == MKT_OK)
                status = mkt_index_builder_add_piece(builder, &piece);
        }
    }
    return status;
}

static enum mkt_status make_index(const struct version *version, void **bytes_out,
                                  uint64_t *length_out)
{
    struct mkt_index_builder *builder = mkt_index_builder_create();
    enum mkt_status status = MKT_NO_MEMORY;

    if (builder) {
        status = index_fill(builder, version);
        if (status == MKT_OK)
            status = mkt_index_builder_finish(builder, bytes_out, length_out);
        mkt_index_builder_destroy(builder);
    }
    return status;
}

static enum mkt_status write_index(struct mkt_market *market, struct version *version,
                                   uint32_t node, struct mkt_error *error)
{
    void *bytes = NULL;
    uint64_t length = 0;
    enum mkt_status status = make_index(version, &bytes, &length);

    if (status == MKT_NO_MEMORY)
        return out_of_memory(error);
    if (status != MKT_OK)
        return mkt_error_set(error, status, "its index could not be built: %s",
                             mkt_status_text(status));
    status =
        mkt_bytes_alloc(market, length, MKT_EXTENT_GRANULE, BYTES_INDEX, node, &version->index);
    if (status == MKT_OK) {
        version->index.length = length;
        mkt_op_write(market, &version->index, bytes);
    } else {
        char size[2][32];

        mkt_error_set(error, status,
                      "there is no room for its index of %s; limit %s (`memory` in h5market.yaml)"
                      "%s%.400s",
                      mkt_size_text(length, size[0]),
                      mkt_size_text(market->limits.memory_bytes, size[1]),
                      market->no_arena.text[0] ? "; no more memory was to be had: " : "",
                      market->no_arena.text);
    }
    free(bytes);
    return status;
}

/* A piece counts once, in however many versions it is. */
void mkt_version_account(struct mkt_market *market, const struct mkt_extent *extent, bool in)
{
    uint64_t rounded = mkt_round_granule(extent->length);

    market->live_bytes += in ? extent->length : -extent->length;
    market->published_bytes += in ? rounded : -rounded;
}

static void account_index(struct mkt_market *market, const struct version *version, bool in)
{
    uint64_t rounded = mkt_round_granule(version->index.length);

    market->published_bytes += in ? rounded : -rounded;
}

static void piece_enter(struct mkt_market *market, struct held_piece *piece)
{
    piece->references++;
    piece->published = true;
    if (piece->versions++ > 0)
        return;
    mkt_version_account(market, &piece->data, true);
    mkt_version_account(market, &piece->table, true);
}

static void piece_leave(struct mkt_market *market, struct held_piece *piece)
{
    if (--piece->versions == 0) {
        mkt_version_account(market, &piece->data, false);
        mkt_version_account(market, &piece->table, false);
    }
    mkt_piece_drop(market, piece);
}

/* From here on nothing fails: the version takes its references. */
static void take_references(struct mkt_market *market, struct group *group, struct version *version)
{
    for (uint64_t p = 0; p < version->pieces; p++)
        piece_enter(market, version->piece[p]);
    account_index(market, version, true);
    if (group->image) {
        version->image = group->image;
        group->image = NULL;
        mkt_version_account(market, &version->image->extent, true);
    } else if (group->version_open && group->member[0].unchanged && group->version_open->image) {
        version->image = group->version_open->image;
        version->image->references++;
    }
    version->object = group->object;
    mkt_object_get(version->object);
    mkt_tier_enter(market, version);
    DL_APPEND2(market->versions, version, all_prev, all_next);
    market->versions_count++;
}

enum mkt_status mkt_version_build(struct mkt_market *market, struct group *group,
                                  struct version **version_out, struct mkt_error *error)
{
    struct wanted wanted = wanted_of(group);
    struct version *version = NULL;
    enum mkt_status status = allocate(market, group, &wanted, &version, error);

    if (status != MKT_OK)
        return status;
    collect(group, &wanted, version);
    status = write_index(market, version,
                         group->image ? mkt_bytes_node(market, &group->image->extent) : MKT_NO_NODE,
                         error);
    if (status != MKT_OK) {
        version_free(version);
        return status;
    }
    take_references(market, group, version);
    version->closes = (group->version_open ? group->version_open->closes : 0) + 1;
    version->hidden = version->closes < group->publish_close;
    version->loaded = group->intent == MKT_INTENT_LOAD;
    *version_out = version;
    return MKT_OK;
}

/* As long as before: places change, records don't grow. Who holds it for a save that is to come
 * doesn't look at it. */
enum mkt_status mkt_version_refresh(struct mkt_market *market, struct version *version)
{
    void *bytes = NULL;
    uint64_t length = 0;

    if (!version->index_is_old || version->pins > (uint32_t)version->save.held)
        return MKT_OK;
    enum mkt_status status = make_index(version, &bytes, &length);
    if (status != MKT_OK)
        return MKT_NO_MEMORY;
    assert(length == version->index.length);
    mkt_op_write(market, &version->index, bytes);
    free(bytes);
    version->index_is_old = false;
    return MKT_OK;
}

/* ---- life ---- */

struct version *mkt_version_newest(const struct object *object)
{
    return object->versions ? object->versions->prev : NULL;
}

struct version *mkt_version_visible(const struct object *object)
{
    struct version *version = mkt_version_newest(object);

    while (version && version->hidden)
        version = version == object->versions ? NULL : version->prev;
    return version;
}

/* The oldest that may go of those beyond `keep`; NULL: none, or they are still to be saved. */
static struct version *first_to_go(const struct set *set)
{
    struct version *version = set->versions;

    for (uint32_t i = set->keep; i < set->count; i++, version = version->set_next) {
        if (!mkt_save_is_owed(version) && !mkt_stream_holds(version))
            return version;
    }
    return NULL;
}

void mkt_set_apply(struct mkt_market *market, struct set *set)
{
    struct version *oldest;

    set->references++;
    while ((oldest = first_to_go(set))) {
        struct object *object = oldest->object;
        char why[128];

        snprintf(why, sizeof(why), "beyond `keep: %u` of '%.80s'", set->keep, set->pattern);
        mkt_object_get(object);
        mkt_version_retire(market, oldest);
        mkt_object_settle(market, object, why);
        mkt_object_put(market, object);
    }
    mkt_set_put(market, set);
}

/* What is beyond the object's own `keep`, without a set. */
static void retire_older(struct mkt_market *market, struct object *object)
{
    uint32_t keep = object->keep ? object->keep : 1;
    uint32_t beyond = object->count > keep ? object->count - keep : 0;
    struct version *version, *next;

    DL_FOREACH_SAFE (object->versions, version, next) {
        if (beyond-- == 0)
            return;
        if (!mkt_stream_holds(version))
            mkt_version_retire(market, version);
    }
}

bool mkt_version_retain(struct mkt_market *market, struct object *object)
{
    uint32_t versions = market->versions_retired;

    mkt_object_get(object);
    if (object->stream && object->stream->consumed)
        mkt_stream_apply(market, object->stream);
    else if (object->set)
        mkt_set_apply(market, object->set);
    else
        retire_older(market, object);
    mkt_object_put(market, object);
    return versions != market->versions_retired;
}

static void apply_retention(struct mkt_market *market, struct version *version)
{
    struct object *object = version->object;
    struct version *older, *next;

    /* What was loaded is in no set. */
    DL_FOREACH_SAFE (object->versions, older, next) {
        if (version->set && older != version && older->loaded)
            mkt_version_retire(market, older);
    }
    mkt_version_retain(market, object);
}

/* What was only begun before it. */
static void retire_hidden(struct mkt_market *market, const struct version *successor)
{
    struct version *version, *next;

    DL_FOREACH_SAFE (successor->object->versions, version, next) {
        if (version->hidden && version != successor)
            mkt_version_retire(market, version);
    }
}

static void reveal(struct mkt_market *market, struct version *version, uint64_t now_ms)
{
    struct object *object = version->object;

    version->hidden = false;
    version->published_ms = now_ms;
    retire_hidden(market, version);
    if (object->set) {
        version->set = object->set;
        version->set->references++;
        DL_APPEND2(version->set->versions, version, set_prev, set_next);
        version->set->count++;
    }
    mkt_stream_enter(market, version);
    mkt_save_begin(market, version);
    apply_retention(market, version);
}

void mkt_version_publish(struct mkt_market *market, struct version *version, uint64_t now_ms)
{
    struct object *object = version->object;

    version->number = ++object->last_version;
    version->published_ms = now_ms;
    DL_APPEND(object->versions, version);
    object->count++;
    market->publishes++;
    if (version->hidden)
        retire_hidden(market, version);
    else
        reveal(market, version, now_ms);
}

void mkt_version_close(struct mkt_market *market, struct version *version, uint32_t publish_close,
                       uint64_t now_ms)
{
    if (version->hidden && !version->retired && ++version->closes >= publish_close)
        reveal(market, version, now_ms);
}

static void destroy(struct mkt_market *market, struct version *version)
{
    mkt_tier_forget_version(market, version);
    mkt_tier_leave(market, version);
    DL_DELETE2(market->versions, version, all_prev, all_next);
    market->versions_count--;
    for (uint64_t p = 0; p < version->pieces; p++)
        piece_leave(market, version->piece[p]);
    account_index(market, version, false);
    if (version->image && version->image->references == 1)
        mkt_version_account(market, &version->image->extent, false);
    mkt_image_drop(market, version->image);
    mkt_bytes_free(market, &version->index);
    mkt_tier_wake_all(market, version->object); /* pieces that they shared */
    mkt_object_put(market, version->object);
    version_free(version);
}

void mkt_version_retire(struct mkt_market *market, struct version *version)
{
    assert(!version->retired);
    version->retired = true;
    DL_DELETE(version->object->versions, version);
    version->object->count--;
    market->versions_retired++;
    mkt_stream_retire(market, version);
    if (version->set) {
        DL_DELETE2(version->set->versions, version, set_prev, set_next);
        version->set->count--;
        mkt_set_put(market, version->set);
        version->set = NULL;
    }
    mkt_save_give_up(market, version);
    if (version->pins == 0)
        destroy(market, version);
}

void mkt_version_pin(struct version *version, bool reader)
{
    version->pins++;
    version->readers += reader;
    if (reader)
        mkt_tier_note_read(version);
}

void mkt_version_unpin(struct mkt_market *market, struct version *version, bool reader)
{
    version->pins--;
    version->readers -= reader;
    if (version->pins == 0 && version->retired)
        destroy(market, version);
    else
        mkt_tier_wake(market, version);
}
