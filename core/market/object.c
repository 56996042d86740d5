/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects: what a name stands for, and how long its versions stay.
 * A name resolves to the object that its stub names; else to the one that knows the real file that
 * stands there; else, where nothing stands, to the object without a stub that was made at that
 * place.
 */
#include "core/market/internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

enum mkt_status mkt_owned_name_init(struct owned_name *name, const struct mkt_name *from)
{
    memset(name, 0, sizeof(*name));
    memcpy(name->object, from->object, MKT_ID_BYTES);
    name->file = from->file;
    name->place_bytes = 16 + from->leaf.length;
    name->place = malloc(name->place_bytes);
    name->path = malloc((size_t)from->path.length + 1);
    if (!name->place || !name->path) {
        mkt_owned_name_fini(name);
        return MKT_NO_MEMORY;
    }
    memcpy(name->place, &from->parent_dev, 8);
    memcpy(name->place + 8, &from->parent_ino, 8);
    if (from->leaf.length > 0)
        memcpy(name->place + 16, from->leaf.data, from->leaf.length);
    if (from->path.length > 0)
        memcpy(name->path, from->path.data, from->path.length);
    name->path[from->path.length] = '\0';
    return MKT_OK;
}

void mkt_owned_name_fini(struct owned_name *name)
{
    free(name->place);
    free(name->path);
    name->place = NULL;
    name->path = NULL;
}

bool mkt_id_is_zero(const uint8_t id[MKT_ID_BYTES])
{
    static const uint8_t zero[MKT_ID_BYTES];

    return memcmp(id, zero, MKT_ID_BYTES) == 0;
}

struct object *mkt_object_by_id(const struct mkt_market *market, const uint8_t id[MKT_ID_BYTES])
{
    struct object *object;

    HASH_FIND(hh, market->objects, id, MKT_ID_BYTES, object);
    return object;
}

#define FILE_KEY_BYTES 16
_Static_assert(offsetof(struct mkt_file_identity, dev) == 0 &&
                   offsetof(struct mkt_file_identity, ino) == 8,
               "device and inode are one key");

static struct object *by_file(const struct mkt_market *market, const struct owned_name *name)
{
    struct object *object;

    HASH_FIND(hh_file, market->objects_by_file, &name->file, FILE_KEY_BYTES, object);
    return object;
}

struct object *mkt_object_by_name(const struct mkt_market *market, const struct owned_name *name,
                                  bool *file_differs_out)
{
    struct object *object;

    *file_differs_out = false;
    if (!mkt_id_is_zero(name->object))
        return mkt_object_by_id(market, name->object);
    if (name->file.ino != 0) {
        object = mkt_save_find_placing(market, name);
        if (object)
            return object;
        object = by_file(market, name);
        /* Its own next file is being written there, in place. */
        if (object && object->name.file.mtime_ns != name->file.mtime_ns &&
            mkt_save_is_placing(market, object))
            return object;
        if (object)
            *file_differs_out = !mkt_file_unchanged(&object->name.file, &name->file);
        return object;
    }
    /* Not what was written over a real file that is no longer there. */
    object = mkt_object_by_place(market, name);
    return object && object->name.file.ino == 0 ? object : NULL;
}

static struct object *by_replaced(const struct mkt_market *market, const struct owned_name *name)
{
    for (uint32_t i = 0; i < MKT_REPLACED_REMEMBERED; i++) {
        const struct replaced *replaced = &market->replaced[i];

        if (mkt_file_unchanged(&replaced->file, &name->file))
            return mkt_object_by_id(market, replaced->object);
    }
    return NULL;
}

struct object *mkt_object_by_client_name(const struct mkt_market *market, struct owned_name *name,
                                         bool *file_differs_out)
{
    struct object *object = mkt_object_by_name(market, name, file_differs_out);
    bool by_stub = !mkt_id_is_zero(name->object);

    /* The inode of a file that was replaced is used again soon, for the object's next file as well.
     */
    if (name->file.ino != 0 && !by_stub && (!object || *file_differs_out)) {
        struct object *meant = by_replaced(market, name);

        if (!meant)
            return object;
        object = meant;
        *file_differs_out = false;
    } else if (!by_stub) {
        return object;
    }
    if (object && !object->has_stub && object->name.file.ino != 0)
        name->file = object->name.file;
    return object;
}

struct object *mkt_object_by_place(const struct mkt_market *market, const struct owned_name *name)
{
    struct object *object;

    HASH_FIND(hh_place, market->objects_by_place, name->place, name->place_bytes, object);
    return object;
}

/* ---- tables ---- */

/* Of the object's place: stubs have a table of their own. */
static struct object **place_table(struct mkt_market *market, const struct object *object)
{
    return object->by_stub ? &market->stubs_by_place : &market->objects_by_place;
}

struct object *mkt_object_by_stub_place(const struct mkt_market *market,
                                        const struct owned_name *name)
{
    struct object *object;

    HASH_FIND(hh_place, market->stubs_by_place, name->place, name->place_bytes, object);
    return object;
}

static void table_remove(struct mkt_market *market, struct object *object)
{
    if (MKT_TABLE_ADDED(object, hh_place)) {
        HASH_DELETE(hh_place, *place_table(market, object), object);
        object->hh_place.tbl = NULL;
    }
    if (MKT_TABLE_ADDED(object, hh_file)) {
        HASH_DELETE(hh_file, market->objects_by_file, object);
        object->hh_file.tbl = NULL;
    }
}

/* Enters the names. An older object under the same file or place gives way in that table. */
static enum mkt_status table_enter(struct mkt_market *market, struct object *object)
{
    struct object *other;

    object->by_stub = object->has_stub;
    struct object **places = place_table(market, object);
    HASH_FIND(hh_place, *places, object->name.place, object->name.place_bytes, other);
    if (other) {
        HASH_DELETE(hh_place, *places, other);
        other->hh_place.tbl = NULL;
    }
    HASH_ADD_KEYPTR(hh_place, *places, object->name.place, object->name.place_bytes, object);
    if (!MKT_TABLE_ADDED(object, hh_place))
        return MKT_NO_MEMORY;
    if (object->name.file.ino != 0) {
        other = by_file(market, &object->name);
        if (other) {
            HASH_DELETE(hh_file, market->objects_by_file, other);
            other->hh_file.tbl = NULL;
        }
        HASH_ADD_KEYPTR(hh_file, market->objects_by_file, &object->name.file, FILE_KEY_BYTES,
                        object);
        if (!MKT_TABLE_ADDED(object, hh_file))
            return MKT_NO_MEMORY;
    }
    return MKT_OK;
}

static enum mkt_status name_copy(struct owned_name *to, const struct owned_name *from)
{
    const struct mkt_name name = {.leaf = {from->place + 16, from->place_bytes - 16},
                                  .path = {from->path, (uint32_t)strlen(from->path)},
                                  .file = from->file};
    enum mkt_status status = mkt_owned_name_init(to, &name);

    if (status == MKT_OK) {
        memcpy(to->object, from->object, MKT_ID_BYTES);
        memcpy(to->place, from->place, 16);
    }
    return status;
}

/* An id for an object that no stub names: a count, in a form that no random id has. */
static void make_id(struct mkt_market *market, uint8_t id[MKT_ID_BYTES])
{
    memset(id, 0, MKT_ID_BYTES);
    memcpy(id, "no-stub", 7);
    do {
        market->last_object++;
        memcpy(id + 8, &market->last_object, 8);
    } while (mkt_object_by_id(market, id));
}

static uint32_t id_mark(const uint8_t id[MKT_ID_BYTES])
{
    uint32_t word[MKT_ID_BYTES / 4];

    memcpy(word, id, MKT_ID_BYTES);
    return (word[0] ^ word[1] ^ word[2] ^ word[3]) | 1;
}

static struct withdrawn *withdrawn_find(const struct mkt_market *market,
                                        const uint8_t id[MKT_ID_BYTES])
{
    uint32_t mark = id_mark(id);

    for (uint32_t i = 0; i < MKT_WITHDRAWN_REMEMBERED; i++) {
        if (market->withdrawn_mark[i] == mark &&
            memcmp(market->withdrawn[i].id, id, MKT_ID_BYTES) == 0)
            return (struct withdrawn *)&market->withdrawn[i];
    }
    return NULL;
}

const struct withdrawn *mkt_withdrawn_find(const struct mkt_market *market,
                                           const uint8_t id[MKT_ID_BYTES])
{
    return withdrawn_find(market, id);
}

enum mkt_status mkt_object_create(struct mkt_market *market, const struct owned_name *name,
                                  bool has_stub, struct object **object_out)
{
    struct object *object;
    struct withdrawn *withdrawn;

    if (HASH_COUNT(market->objects) >= market->limits.max_objects)
        return MKT_NO_SPACE;
    object = calloc(1, sizeof(*object));
    if (!object)
        return MKT_NO_MEMORY;
    if (name_copy(&object->name, name) != MKT_OK)
        goto err_free_object;
    object->has_stub = has_stub;
    if (mkt_id_is_zero(name->object))
        make_id(market, object->id);
    else
        memcpy(object->id, name->object, MKT_ID_BYTES);
    HASH_ADD(hh, market->objects, id, MKT_ID_BYTES, object);
    if (!MKT_TABLE_ADDED(object, hh))
        goto err_free_name;
    if (table_enter(market, object) != MKT_OK)
        goto err_leave_tables;
    object->references = 1;
    withdrawn = withdrawn_find(market, object->id);
    if (withdrawn) {
        object->last_version = withdrawn->last_version;
        market->withdrawn_mark[withdrawn - market->withdrawn] = 0;
    }
    *object_out = object;
    return MKT_OK;

err_leave_tables:
    table_remove(market, object);
    HASH_DEL(market->objects, object);
err_free_name:
    mkt_owned_name_fini(&object->name);
err_free_object:
    free(object);
    return MKT_NO_MEMORY;
}

enum mkt_status mkt_object_rename(struct mkt_market *market, struct object *object,
                                  const struct owned_name *name, bool has_stub)
{
    struct owned_name copy, former = object->name;

    if (name_copy(&copy, name) != MKT_OK)
        return MKT_NO_MEMORY;
    market->has_stream_news = true; /* names lead elsewhere now */
    table_remove(market, object);
    object->name = copy;
    object->has_stub = object->has_stub || has_stub;
    if (table_enter(market, object) == MKT_OK) {
        mkt_owned_name_fini(&former);
        return MKT_OK;
    }
    table_remove(market, object);
    object->name = former;
    mkt_owned_name_fini(&copy);
    /* Without memory for its former name either it can be found by its id only. */
    if (table_enter(market, object) != MKT_OK)
        table_remove(market, object);
    return MKT_NO_MEMORY;
}

void mkt_object_set_file(struct mkt_market *market, struct object *object,
                         const struct mkt_file_identity *file)
{
    struct replaced *replaced =
        &market->replaced[market->replaced_next++ % MKT_REPLACED_REMEMBERED];

    replaced->file = object->name.file;
    memcpy(replaced->object, object->id, MKT_ID_BYTES);
    market->has_stream_news = true; /* names lead elsewhere now */
    table_remove(market, object);
    object->has_stub = false;
    object->name.file = *file;
    /* Without memory for it the object can be found by its id only; the file has its data. */
    if (table_enter(market, object) != MKT_OK)
        table_remove(market, object);
}

void mkt_object_lose_stub(struct mkt_market *market, struct object *object)
{
    static const struct mkt_file_identity none = {.ino = 0};

    mkt_object_set_file(market, object, &none);
}

bool mkt_object_revive(struct mkt_market *market, struct object *object, bool by_file,
                       bool by_place)
{
    if (!object->gone)
        HASH_ADD(hh, market->objects, id, MKT_ID_BYTES, object);
    if (by_file)
        HASH_ADD_KEYPTR(hh_file, market->objects_by_file, &object->name.file, FILE_KEY_BYTES,
                        object);
    if (by_place)
        HASH_ADD_KEYPTR(hh_place, *place_table(market, object), object->name.place,
                        object->name.place_bytes, object);
    return (object->gone || MKT_TABLE_ADDED(object, hh)) &&
           MKT_TABLE_ADDED(object, hh_file) == by_file &&
           MKT_TABLE_ADDED(object, hh_place) == by_place;
}

void mkt_object_get(struct object *object)
{
    object->references++;
}

void mkt_set_put(struct mkt_market *market, struct set *set)
{
    if (!set || --set->references > 0)
        return;
    HASH_DEL(market->sets, set);
    free(set->pattern);
    free(set);
}

void mkt_object_put(struct mkt_market *market, struct object *object)
{
    if (!object || --object->references > 0)
        return;
    assert(object->gone && !object->versions && !object->writer);
    mkt_set_put(market, object->set);
    mkt_stream_put(market, object->stream);
    mkt_owned_name_fini(&object->name);
    free(object->save_failure);
    free(object);
}

/* ---- retention ---- */

static struct set *set_get(struct mkt_market *market, const char *pattern)
{
    struct set *set;

    HASH_FIND_STR(market->sets, pattern, set);
    if (set) {
        set->references++;
        return set;
    }
    set = calloc(1, sizeof(*set));
    if (!set)
        return NULL;
    set->pattern = strdup(pattern);
    if (set->pattern)
        HASH_ADD_KEYPTR(hh, market->sets, set->pattern, strlen(set->pattern), set);
    if (!set->pattern || !MKT_TABLE_ADDED(set, hh)) {
        free(set->pattern);
        free(set);
        return NULL;
    }
    set->references = 1;
    return set;
}

enum mkt_status mkt_object_set_retention(struct mkt_market *market, struct object *object,
                                         const char *pattern, uint32_t keep)
{
    struct set *set = NULL;

    if (keep > 0 && pattern[0]) {
        set = set_get(market, pattern);
        if (!set)
            return MKT_NO_MEMORY;
        set->keep = keep;
    }
    mkt_set_put(market, object->set);
    object->set = set;
    object->keep = keep;
    return MKT_OK;
}

static void remember(struct mkt_market *market, const struct object *object, const char *why)
{
    struct withdrawn *entry = withdrawn_find(market, object->id);

    if (!entry)
        entry = &market->withdrawn[market->withdrawn_next++ % MKT_WITHDRAWN_REMEMBERED];
    market->withdrawn_mark[entry - market->withdrawn] = id_mark(object->id);
    memcpy(entry->id, object->id, MKT_ID_BYTES);
    entry->last_version = object->last_version;
    snprintf(entry->why, sizeof(entry->why), "%.127s", why);
}

static void leave(struct mkt_market *market, struct object *object, bool stub_is_gone,
                  const char *why)
{
    remember(market, object, why);
    table_remove(market, object);
    HASH_DEL(market->objects, object);
    object->gone = true;
    market->save_turn++;
    if ((object->has_stub || object->name.file.ino != 0) && !stub_is_gone)
        mkt_op_drop_stub(market, object->id);
    mkt_object_put(market, object);
}

void mkt_object_settle(struct mkt_market *market, struct object *object, const char *why)
{
    if (!object->gone && !object->writer && !object->versions)
        leave(market, object, false, why);
}

void mkt_object_retire_all(struct mkt_market *market, struct object *object)
{
    mkt_object_get(object);
    while (object->versions)
        mkt_version_retire(market, object->versions);
    mkt_object_put(market, object);
}

uint32_t mkt_object_withdraw(struct mkt_market *market, struct object *object, bool stub_is_gone,
                             const char *why)
{
    uint32_t count = object->count;

    if (object->gone)
        return 0;
    mkt_object_retire_all(market, object);
    object->writer = NULL; /* what it writes goes nowhere, as with a file that was removed while it
                              was written */
    market->withdrawals++;
    leave(market, object, stub_is_gone, why);
    return count;
}
