/* SPDX-License-Identifier: BSD-3-Clause */
/* Which record lies where: segments, their records, and what becomes of both. No I/O. */
#include "media/ssd_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ENTRIES 16

struct ssd_segment *mkt_ssd_segment_create(struct ssd_folder *folder, uint64_t bytes)
{
    struct ssd_segment *segment = calloc(1, sizeof(*segment));

    if (segment == NULL)
        return NULL;
    segment->folder = folder;
    segment->bytes = bytes;
    segment->end = SSD_BLOCK;
    segment->file = (struct mkt_file){.fd = -1, .name = segment->path};
    return segment;
}

static bool grow_entries(struct ssd_segment *segment)
{
    unsigned capacity =
        segment->entries_capacity > 0 ? segment->entries_capacity * 2 : FIRST_ENTRIES;
    struct ssd_entry *entries = realloc(segment->entries, capacity * sizeof(*entries));

    if (entries == NULL)
        return false;
    segment->entries = entries;
    segment->entries_capacity = capacity;
    return true;
}

enum mkt_status mkt_ssd_segment_append_locked(struct ssd_segment *segment,
                                              struct ssd_record *record)
{
    if (segment->entries_count == segment->entries_capacity && !grow_entries(segment))
        return MKT_NO_MEMORY;
    segment->entries[segment->entries_count++] =
        (struct ssd_entry){.block = (uint32_t)(record->disk.offset / SSD_BLOCK), .record = record};
    record->segment = segment;
    segment->end = record->disk.offset + ssd_record_bytes(record->disk.bytes);
    segment->live_bytes += ssd_record_bytes(record->disk.bytes);
    segment->live_count++;
    return MKT_OK;
}

static struct ssd_entry *find_entry(struct ssd_segment *segment, uint32_t block)
{
    unsigned low = 0, high = segment->entries_count;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (segment->entries[middle].block < block)
            low = middle + 1;
        else
            high = middle;
    }
    return low < segment->entries_count && segment->entries[low].block == block
               ? &segment->entries[low]
               : NULL;
}

struct ssd_record *mkt_ssd_find_locked(struct mkt_ssd *ssd, const struct mkt_ssd_record *record)
{
    uint32_t id = (uint32_t)(record->place >> 32);
    struct ssd_segment *segment;
    struct ssd_entry *entry = NULL;

    HASH_FIND(hh, ssd->segments, &id, sizeof(id), segment);
    if (segment != NULL)
        entry = find_entry(segment, (uint32_t)record->place);
    if (entry == NULL || entry->record == NULL || entry->record->is_freed ||
        entry->record->disk.generation != record->generation || record->reserved != 0 ||
        entry->record->disk.bytes != record->bytes)
        return NULL;
    return entry->record;
}

/* ---- a segment's end ---- */

static void doom_locked(struct mkt_ssd *ssd, struct ssd_segment *segment)
{
    ssd->file_bytes -= segment->bytes;
    segment->next = ssd->doomed;
    ssd->doomed = segment;
}

void mkt_ssd_doom_spares_locked(struct mkt_ssd *ssd)
{
    while (ssd->spares != NULL) {
        struct ssd_segment *spare = ssd->spares;
        ssd->spares = spare->next;
        ssd->spares_count--;
        doom_locked(ssd, spare);
    }
}

/* A segment without a record, which nobody uses. */
static void recycle_locked(struct mkt_ssd *ssd, struct ssd_segment *segment)
{
    assert(segment->live_count == 0 && segment->live_bytes == 0 && !segment->is_open);
    HASH_DEL(ssd->segments, segment);
    segment->id = 0;
    ssd->file_bytes += segment->hole_bytes;
    segment->hole_bytes = 0;
    segment->dead_count = 0;
    if (segment->file.fd < 0 || segment->bytes != ssd->segment_bytes ||
        ssd->spares_count == SSD_SPARES_MAX || ssd->file_bytes > ssd->limit_bytes) {
        doom_locked(ssd, segment);
        return;
    }
    segment->entries_count = 0;
    segment->end = SSD_BLOCK;
    segment->next = ssd->spares;
    ssd->spares = segment;
    ssd->spares_count++;
}

void mkt_ssd_seal_locked(struct mkt_ssd *ssd, struct ssd_segment *segment)
{
    if (!segment->is_open)
        return;
    segment->is_open = false;
    for (unsigned i = 0; i < ssd->open_count; i++)
        if (ssd->open[i] == segment) {
            ssd->open[i] = ssd->open[--ssd->open_count];
            break;
        }
    if (segment->live_count == 0)
        recycle_locked(ssd, segment);
}

void mkt_ssd_drop_locked(struct mkt_ssd *ssd, struct ssd_record *record)
{
    struct ssd_segment *segment = record->segment;
    struct ssd_entry *entry = find_entry(segment, (uint32_t)(record->disk.offset / SSD_BLOCK));

    assert(record->users == 0 && entry != NULL && entry->record == record);
    entry->record = NULL;
    segment->live_bytes -= ssd_record_bytes(record->disk.bytes);
    segment->live_count--;
    segment->dead_count++;
    free(record);
    if (segment->live_count == 0 && !segment->is_open)
        recycle_locked(ssd, segment);
}

/* ---- holes ---- */

/* Where what comes after an entry begins. */
static uint64_t end_of_entry(const struct ssd_segment *segment, unsigned at)
{
    return at + 1 < segment->entries_count ? segment->entries[at + 1].block * SSD_BLOCK
                                           : segment->end;
}

static bool is_dead(const struct ssd_segment *segment, unsigned at)
{
    return at < segment->entries_count && segment->entries[at].record == NULL &&
           !segment->entries[at].is_hole;
}

static void take_hole(struct ssd_segment *segment, struct ssd_hole *hole_out)
{
    unsigned at = 0;

    while (!is_dead(segment, at))
        at++;
    *hole_out = (struct ssd_hole){.segment = segment, .id = segment->id};
    hole_out->from = segment->entries[at].block * SSD_BLOCK;
    for (; is_dead(segment, at); at++) {
        segment->entries[at].is_hole = true;
        segment->dead_count--;
        hole_out->bytes = end_of_entry(segment, at) - hole_out->from;
    }
}

bool mkt_ssd_take_hole_locked(struct mkt_ssd *ssd, struct ssd_hole *hole_out)
{
    struct ssd_segment *segment, *next;

    HASH_ITER (hh, ssd->segments, segment, next) {
        if (segment->dead_count == 0 || segment->live_count == 0 ||
            segment->folder->without_holes ||
            !__atomic_load_n(&segment->is_ready, __ATOMIC_RELAXED))
            continue;
        take_hole(segment, hole_out);
        return true;
    }
    return false;
}

void mkt_ssd_note_hole_locked(struct mkt_ssd *ssd, const struct ssd_hole *hole)
{
    if (hole->segment->id != hole->id)
        return;
    hole->segment->hole_bytes += hole->bytes;
    ssd->file_bytes -= hole->bytes;
}

/* ---- space for a record ---- */

static uint64_t room(const struct ssd_segment *segment)
{
    return segment->bytes - segment->end;
}

static struct ssd_segment *find_open_locked(struct mkt_ssd *ssd, uint64_t need)
{
    for (unsigned i = 0; i < ssd->open_count; i++)
        if (room(ssd->open[i]) >= need)
            return ssd->open[i];
    return NULL;
}

/* Those whose records are all freed serve anew as a whole. */
static void seal_empty_locked(struct mkt_ssd *ssd)
{
    for (unsigned i = ssd->open_count; i-- > 0;)
        if (ssd->open[i]->live_count == 0)
            mkt_ssd_seal_locked(ssd, ssd->open[i]);
}

static void seal_fullest_locked(struct mkt_ssd *ssd)
{
    struct ssd_segment *fullest = ssd->open[0];

    for (unsigned i = 1; i < ssd->open_count; i++)
        if (room(ssd->open[i]) < room(fullest))
            fullest = ssd->open[i];
    mkt_ssd_seal_locked(ssd, fullest);
}

/* A segment without a file, its bytes counted; NULL: the limit, or no memory (status_out). */
static struct ssd_segment *new_segment_locked(struct mkt_ssd *ssd, uint64_t need,
                                              enum mkt_status *status_out)
{
    uint64_t least = SSD_BLOCK + need, bytes = ssd->segment_bytes;

    if (bytes < least) {
        bytes = least;
        if (ssd->file_bytes + bytes > ssd->limit_bytes)
            mkt_ssd_doom_spares_locked(ssd);
    }
    uint64_t left = ssd->limit_bytes > ssd->file_bytes ? ssd->limit_bytes - ssd->file_bytes : 0;
    if (bytes > left)
        bytes = left - left % SSD_BLOCK;
    *status_out = MKT_NO_SPACE;
    if (bytes < least || ssd->next_segment == UINT32_MAX)
        return NULL;
    *status_out = MKT_NO_MEMORY;
    struct ssd_folder *folder = &ssd->folders[ssd->next_folder];
    struct ssd_segment *segment = mkt_ssd_segment_create(folder, bytes);
    if (segment != NULL) {
        ssd->next_folder = (ssd->next_folder + 1) % ssd->folders_count;
        ssd->file_bytes += bytes;
    }
    return segment;
}

static struct ssd_segment *open_segment_locked(struct mkt_ssd *ssd, uint64_t need,
                                               enum mkt_status *status_out)
{
    struct ssd_segment *segment = NULL, *known;

    seal_empty_locked(ssd);
    if (ssd->spares != NULL && SSD_BLOCK + need <= ssd->segment_bytes) {
        segment = ssd->spares;
        ssd->spares = segment->next;
        ssd->spares_count--;
    } else {
        segment = new_segment_locked(ssd, need, status_out);
    }
    if (segment == NULL)
        return NULL;
    if (ssd->open_count == SSD_OPEN_MAX)
        seal_fullest_locked(ssd);
    segment->id = ssd->next_segment++;
    __atomic_store_n(&segment->is_ready, false, __ATOMIC_RELAXED);
    HASH_ADD(hh, ssd->segments, id, sizeof(segment->id), segment);
    HASH_FIND(hh, ssd->segments, &segment->id, sizeof(segment->id), known);
    if (known == NULL) {
        doom_locked(ssd, segment);
        *status_out = MKT_NO_MEMORY;
        return NULL;
    }
    segment->is_open = true;
    ssd->open[ssd->open_count++] = segment;
    return segment;
}

static enum mkt_status place_locked(struct mkt_ssd *ssd, struct ssd_record *record)
{
    uint64_t need = ssd_record_bytes(record->disk.bytes);
    enum mkt_status status = MKT_OK;
    struct ssd_segment *segment = find_open_locked(ssd, need);

    if (segment == NULL)
        segment = open_segment_locked(ssd, need, &status);
    if (segment == NULL)
        return status;
    record->disk.segment = segment->id;
    record->disk.offset = segment->end;
    record->disk.generation = ssd->epoch;
    status = mkt_ssd_segment_append_locked(segment, record);
    if (room(segment) < 2 * SSD_BLOCK)
        mkt_ssd_seal_locked(ssd, segment);
    return status;
}

static void fill_handle(const struct ssd_record *record, struct mkt_ssd_record *record_out)
{
    *record_out = (struct mkt_ssd_record){
        .place = (uint64_t)record->disk.segment << 32 | record->disk.offset / SSD_BLOCK,
        .generation = record->disk.generation,
        .bytes = record->disk.bytes,
    };
}

enum mkt_status mkt_ssd_reserve(struct mkt_ssd *ssd, uint64_t bytes,
                                struct mkt_ssd_record *record_out)
{
    if (bytes == 0 || bytes > MKT_SSD_RECORD_BYTES_MAX)
        return MKT_INVALID;
    if (ssd_record_bytes(bytes) + SSD_BLOCK > ssd->limit_bytes)
        return MKT_NO_SPACE;
    struct ssd_record *record =
        calloc(1, sizeof(*record) + ssd_blocks(bytes) * sizeof(record->crcs[0]));
    if (record == NULL)
        return MKT_NO_MEMORY;
    record->disk.magic = MKT_SSD_RECORD_MAGIC;
    record->disk.version = MKT_SSD_LAYOUT_VERSION;
    record->disk.bytes = bytes;
    pthread_mutex_lock(&ssd->lock);
    enum mkt_status status = place_locked(ssd, record);
    if (status == MKT_OK)
        fill_handle(record, record_out);
    pthread_mutex_unlock(&ssd->lock);
    if (status != MKT_OK)
        free(record);
    return status;
}

enum mkt_status mkt_ssd_free(struct mkt_ssd *ssd, const struct mkt_ssd_record *record)
{
    pthread_mutex_lock(&ssd->lock);
    struct ssd_record *found = mkt_ssd_find_locked(ssd, record);
    if (found != NULL) {
        found->is_freed = true;
        if (found->users == 0)
            mkt_ssd_drop_locked(ssd, found);
    }
    pthread_mutex_unlock(&ssd->lock);
    return found != NULL ? MKT_OK : MKT_STALE;
}

/* ---- what the owner asks ---- */

bool mkt_ssd_is_known(struct mkt_ssd *ssd, const struct mkt_ssd_record *record)
{
    pthread_mutex_lock(&ssd->lock);
    const struct ssd_record *found = mkt_ssd_find_locked(ssd, record);
    bool known = found != NULL && found->state == SSD_WRITTEN;
    pthread_mutex_unlock(&ssd->lock);
    return known;
}

static bool is_listed(const struct ssd_record *record)
{
    return record != NULL && !record->is_freed &&
           (record->state == SSD_WRITTEN || record->state == SSD_RETIRED);
}

static size_t list_segment(const struct ssd_segment *segment, struct mkt_ssd_record *list)
{
    size_t count = 0;

    for (unsigned i = 0; i < segment->entries_count; i++)
        if (is_listed(segment->entries[i].record))
            fill_handle(segment->entries[i].record, &list[count++]);
    return count;
}

/* A copy of the handles, so that fn is called without the lock. NULL with *count_out > 0: no
 * memory. */
static struct mkt_ssd_record *list_locked(struct mkt_ssd *ssd, size_t *count_out)
{
    struct ssd_segment *segment, *next;
    size_t count = 0;

    HASH_ITER (hh, ssd->segments, segment, next)
        count += segment->live_count;
    *count_out = count;
    struct mkt_ssd_record *list = count > 0 ? malloc(count * sizeof(*list)) : NULL;
    if (list == NULL)
        return NULL;
    count = 0;
    HASH_ITER (hh, ssd->segments, segment, next)
        count += list_segment(segment, list + count);
    *count_out = count;
    return list;
}

enum mkt_status mkt_ssd_each(struct mkt_ssd *ssd, mkt_ssd_record_fn fn, void *context)
{
    size_t count;

    pthread_mutex_lock(&ssd->lock);
    struct mkt_ssd_record *list = list_locked(ssd, &count);
    pthread_mutex_unlock(&ssd->lock);
    if (list == NULL)
        return count > 0 ? MKT_NO_MEMORY : MKT_OK;
    for (size_t i = 0; i < count; i++)
        fn(context, &list[i]);
    free(list);
    return MKT_OK;
}

void mkt_ssd_usage(struct mkt_ssd *ssd, struct mkt_ssd_usage *usage_out)
{
    struct mkt_ssd_usage usage = {.limit_bytes = ssd->limit_bytes, .uses_direct = true};
    struct ssd_segment *segment, *next;

    for (unsigned i = 0; i < ssd->folders_count; i++)
        usage.uses_direct = usage.uses_direct && ssd->folders[i].is_direct;
    usage.uses_uring = usage.uses_direct && mkt_file_engine_why_no_uring(ssd->engine) == NULL;
    memcpy(usage.why_not, ssd->why_not, sizeof(usage.why_not));
    pthread_mutex_lock(&ssd->lock);
    usage.file_bytes = ssd->file_bytes;
    HASH_ITER (hh, ssd->segments, segment, next) {
        usage.segments++;
        usage.records += segment->live_count;
        usage.live_bytes += segment->live_bytes;
        usage.dead_bytes += segment->end - SSD_BLOCK - segment->live_bytes - segment->hole_bytes;
    }
    pthread_mutex_unlock(&ssd->lock);
    *usage_out = usage;
}
