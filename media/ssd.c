/* SPDX-License-Identifier: BSD-3-Clause */
#include "media/ssd.h"

#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/base/log.h"
#include "media/ssd_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- opening and closing ---- */

static enum mkt_status check_options(const struct mkt_ssd_options *options, struct mkt_error *error)
{
    if (options->folders_count == 0 || options->folders_count > MKT_SSD_FOLDERS_MAX)
        return mkt_error_set(error, MKT_INVALID, "%u folders for records; 1 to %d are possible",
                             options->folders_count, MKT_SSD_FOLDERS_MAX);
    if (options->segment_bytes != 0 && options->segment_bytes < MKT_SSD_SEGMENT_BYTES_MIN)
        return mkt_error_set(error, MKT_INVALID, "segments of %llu bytes; %llu are the least",
                             (unsigned long long)options->segment_bytes,
                             (unsigned long long)MKT_SSD_SEGMENT_BYTES_MIN);
    return MKT_OK;
}

static enum mkt_status open_folders(struct mkt_ssd *ssd, const struct mkt_ssd_options *options,
                                    struct mkt_error *error)
{
    char name[64];

    snprintf(name, sizeof(name), "h5market-ssd-%u", (unsigned)geteuid());
    for (unsigned i = 0; i < options->folders_count; i++) {
        enum mkt_status status =
            mkt_ssd_folder_open(options->folders[i], options->name != NULL ? options->name : name,
                                options->without_direct, &ssd->folders[i], error);
        if (status != MKT_OK)
            return status;
        ssd->folders_count++;
        if (!ssd->folders[i].is_direct)
            snprintf(ssd->why_not, sizeof(ssd->why_not), "no O_DIRECT in %.200s%s",
                     ssd->folders[i].path, options->without_direct ? " (not wanted)" : "");
        if (ssd->folders[i].epoch > ssd->epoch)
            ssd->epoch = ssd->folders[i].epoch;
    }
    return MKT_OK;
}

/* An epoch that no record was written in: also where the folder's own count is lost. */
static enum mkt_status begin_epoch(struct mkt_ssd *ssd, struct mkt_error *error)
{
    enum mkt_status status = MKT_OK;

    if (ssd->epoch == 0)
        ssd->epoch = (uint32_t)(mkt_wall_ns() / 1000000000u);
    ssd->epoch++;
    for (unsigned i = 0; i < ssd->folders_count && status == MKT_OK; i++)
        status = mkt_ssd_folder_set_epoch(&ssd->folders[i], ssd->epoch, error);
    return status;
}

static enum mkt_status fill(struct mkt_ssd *ssd, const struct mkt_ssd_options *options,
                            struct mkt_error *error)
{
    struct mkt_file_engine_options engine = {
        .queue_depth = options->queue_depth,
        .queues = options->queues,
        .without_uring = options->without_uring,
    };
    enum mkt_status status = mkt_file_engine_create(&engine, &ssd->engine, error);

    if (status == MKT_OK)
        status = open_folders(ssd, options, error);
    for (unsigned i = 0; i < ssd->folders_count && status == MKT_OK; i++)
        status = mkt_ssd_scan(ssd, &ssd->folders[i], error);
    return status == MKT_OK ? begin_epoch(ssd, error) : status;
}

/* Ends everything in memory but the folders. */
static void empty(struct mkt_ssd *ssd)
{
    struct ssd_segment *segment, *next;

    ssd->open_count = 0;
    HASH_ITER (hh, ssd->segments, segment, next) {
        HASH_DEL(ssd->segments, segment);
        mkt_ssd_segment_destroy(segment);
    }
    mkt_file_engine_destroy(ssd->engine);
    pthread_mutex_destroy(&ssd->lock);
    pthread_mutex_destroy(&ssd->files);
}

static void log_opening(struct mkt_ssd *ssd)
{
    const char *why = mkt_file_engine_why_no_uring(ssd->engine);
    struct mkt_ssd_usage usage;

    if (why != NULL && ssd->why_not[0] == '\0')
        snprintf(ssd->why_not, sizeof(ssd->why_not), "%.255s", why);
    mkt_ssd_usage(ssd, &usage);
    mkt_log_info("ssd", "%.1000s: %llu records in %llu segments, %llu bytes; %s, %s%s%.255s",
                 ssd->folders[0].path, (unsigned long long)usage.records,
                 (unsigned long long)usage.segments, (unsigned long long)usage.file_bytes,
                 usage.uses_direct ? "O_DIRECT" : "page cache",
                 usage.uses_uring ? "io_uring" : "plain calls",
                 usage.why_not[0] != '\0' ? "; " : "", usage.why_not);
}

enum mkt_status mkt_ssd_open(const struct mkt_ssd_options *options, struct mkt_ssd **ssd_out,
                             struct mkt_error *error)
{
    enum mkt_status status = check_options(options, error);

    if (status != MKT_OK)
        return status;
    struct mkt_ssd *ssd = calloc(1, sizeof(*ssd));
    if (ssd == NULL)
        return mkt_error_set(error, MKT_NO_MEMORY, "no memory for the table of records");
    pthread_mutex_init(&ssd->lock, NULL);
    pthread_mutex_init(&ssd->files, NULL);
    ssd->limit_bytes = options->limit_bytes;
    ssd->segment_bytes = options->segment_bytes > 0 ? options->segment_bytes / SSD_BLOCK * SSD_BLOCK
                                                    : MKT_SSD_SEGMENT_BYTES;
    ssd->next_segment = 1;
    status = fill(ssd, options, error);
    if (status != MKT_OK) {
        empty(ssd);
        for (unsigned i = 0; i < ssd->folders_count; i++)
            mkt_ssd_folder_close(&ssd->folders[i]);
        free(ssd);
        return status;
    }
    log_opening(ssd);
    *ssd_out = ssd;
    return MKT_OK;
}

/* Segments without a record that is written are of no use to a successor. */
static void doom_useless(struct mkt_ssd *ssd, bool all)
{
    struct ssd_segment *segment, *next;

    pthread_mutex_lock(&ssd->lock);
    mkt_ssd_doom_spares_locked(ssd);
    HASH_ITER (hh, ssd->segments, segment, next) {
        bool useful = false;
        for (unsigned i = 0; i < segment->entries_count && !all; i++)
            useful = useful || (segment->entries[i].record != NULL &&
                                segment->entries[i].record->state == SSD_WRITTEN);
        if (useful)
            continue;
        for (unsigned i = 0; i < segment->entries_count; i++) {
            free(segment->entries[i].record);
            segment->entries[i].record = NULL;
        }
        HASH_DEL(ssd->segments, segment);
        segment->next = ssd->doomed;
        ssd->doomed = segment;
    }
    pthread_mutex_unlock(&ssd->lock);
}

static void end(struct mkt_ssd *ssd, bool remove_all)
{
    if (ssd == NULL)
        return;
    doom_useless(ssd, remove_all);
    mkt_ssd_tidy(ssd);
    empty(ssd);
    for (unsigned i = 0; i < ssd->folders_count; i++)
        if (remove_all)
            mkt_ssd_folder_remove(&ssd->folders[i]);
        else
            mkt_ssd_folder_close(&ssd->folders[i]);
    free(ssd);
}

void mkt_ssd_close(struct mkt_ssd *ssd)
{
    end(ssd, false);
}

void mkt_ssd_destroy(struct mkt_ssd *ssd)
{
    end(ssd, true);
}

/* ---- a record's use by a call ---- */

static enum mkt_status say(const struct mkt_ssd_record *record, enum mkt_status status,
                           const char *what, struct mkt_error *error)
{
    return mkt_error_set(error, status, "the record %llx.%u of %llu bytes %s",
                         (unsigned long long)record->place, record->generation,
                         (unsigned long long)record->bytes, what);
}

/* Takes the record into use, in state `writing` or for reading. */
static enum mkt_status acquire(struct mkt_ssd *ssd, const struct mkt_ssd_record *handle,
                               bool writing, struct ssd_record **record_out,
                               struct mkt_error *error)
{
    enum mkt_status status = MKT_OK;

    pthread_mutex_lock(&ssd->lock);
    struct ssd_record *record = mkt_ssd_find_locked(ssd, handle);
    if (record == NULL)
        status = say(handle, MKT_STALE, "was freed", error);
    else if (writing && record->state != SSD_RESERVED)
        status = say(handle, MKT_EXISTS, "was written before", error);
    else if (!writing && record->state == SSD_RETIRED)
        status = say(handle, record->why, "failed before, as the log says", error);
    else if (!writing && record->state != SSD_WRITTEN)
        status = say(handle, MKT_NOT_FOUND, "isn't written yet", error);
    if (status == MKT_OK) {
        record->users++;
        if (writing)
            record->state = SSD_WRITING;
        *record_out = record;
    }
    pthread_mutex_unlock(&ssd->lock);
    return status;
}

/* The last user of a freed record ends it. */
static void release_locked(struct mkt_ssd *ssd, struct ssd_record *record)
{
    if (--record->users == 0 && record->is_freed)
        mkt_ssd_drop_locked(ssd, record);
}

static enum mkt_status write_parts(struct mkt_ssd *ssd, struct ssd_record *record,
                                   const void *bytes, struct mkt_error *error)
{
    struct ssd_segment *segment = record->segment;
    struct mkt_ssd_record_disk *disk = &record->disk;
    uint64_t data = disk->offset + ssd_header_bytes(disk->bytes);
    enum mkt_status status = mkt_ssd_segment_prepare(ssd, segment, error);

    if (status != MKT_OK)
        return status;
    (void)mkt_fault_point("ssd.before-data");
    status =
        mkt_file_write(ssd->engine, &segment->file, data, bytes, disk->bytes, record->crcs, error);
    (void)mkt_fault_point("ssd.before-header");
    if (status != MKT_OK)
        return status;
    disk->nonce = segment->nonce;
    disk->crc = mkt_ssd_record_sum(record);
    status = mkt_file_write(ssd->engine, &segment->file, disk->offset, disk,
                            ssd_header_length(disk->bytes), NULL, error);
    (void)mkt_fault_point("ssd.written");
    return status;
}

enum mkt_status mkt_ssd_write(struct mkt_ssd *ssd, const struct mkt_ssd_record *handle,
                              const void *bytes, struct mkt_error *error)
{
    struct mkt_error own;
    struct ssd_record *record;
    enum mkt_status status = acquire(ssd, handle, true, &record, error);

    if (error == NULL)
        error = &own;
    if (status != MKT_OK)
        return status;
    status = write_parts(ssd, record, bytes, error);
    pthread_mutex_lock(&ssd->lock);
    if (status == MKT_OK) {
        record->state = SSD_WRITTEN;
        if (record->is_freed)
            status = say(handle, MKT_STALE, "was freed while it was written", error);
    } else {
        record->is_freed = true;
        if (status == MKT_IO_ERROR || status == MKT_NO_SPACE)
            mkt_ssd_seal_locked(ssd, record->segment); /* the next try goes elsewhere */
    }
    release_locked(ssd, record);
    pthread_mutex_unlock(&ssd->lock);
    return status;
}

static bool are_ranges_valid(const struct mkt_ssd_record *record,
                             const struct mkt_file_range *ranges, unsigned count)
{
    uint64_t end = 0;

    for (unsigned i = 0; i < count; i++) {
        if (ranges[i].offset < end || ranges[i].offset > record->bytes ||
            ranges[i].length > record->bytes - ranges[i].offset)
            return false;
        end = ranges[i].offset + ranges[i].length;
    }
    return true;
}

enum mkt_status mkt_ssd_read(struct mkt_ssd *ssd, const struct mkt_ssd_record *handle,
                             const struct mkt_file_range *ranges, unsigned count, void *to,
                             struct mkt_error *error)
{
    struct mkt_error own;
    struct ssd_record *record;
    enum mkt_status status = acquire(ssd, handle, false, &record, error);

    if (error == NULL)
        error = &own;
    if (status != MKT_OK)
        return status;
    struct mkt_file_source source = {
        .file = &record->segment->file,
        .offset = record->disk.offset + ssd_header_bytes(record->disk.bytes),
        .crcs = record->crcs,
    };
    status = are_ranges_valid(handle, ranges, count)
                 ? mkt_file_read(ssd->engine, &source, ranges, count, to, error)
                 : say(handle, MKT_INVALID, "was asked for ranges that it hasn't", error);
    pthread_mutex_lock(&ssd->lock);
    bool is_first = record->state == SSD_WRITTEN;
    if (status == MKT_CORRUPT || status == MKT_IO_ERROR) {
        record->state = SSD_RETIRED;
        record->why = status;
    }
    is_first = is_first && record->state == SSD_RETIRED;
    release_locked(ssd, record);
    pthread_mutex_unlock(&ssd->lock);
    if (is_first)
        mkt_log_error("ssd", "%s: record %llx.%u won't be read again", error->text,
                      (unsigned long long)handle->place, handle->generation);
    return status;
}
