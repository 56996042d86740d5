/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a former process left: segments are read header by header. Where no header is, because a
 * write was torn or a header is damaged, the next one is looked for block by block. Nothing is
 * added to such a segment any more; its torn end is cut off.
 */
#include "media/ssd_internal.h"

#include "core/base/fault.h"
#include "core/base/log.h"
#include "transport/crc32c.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW_BYTES ((uint64_t)1 << 20)
#define HEADER_BYTES ((uint64_t)64 << 10) /* read at once where a header is expected */

/* A part of a file in memory. */
struct window {
    char *bytes;
    uint64_t start, length, size; /* size: of the file, whole blocks */
    int fd;
    bool has_failed; /* a part couldn't be read, so what is there isn't known */
};

/* The block at `at`; what follows is read with it, `ahead` bytes in all. NULL: it can't be read. */
static const char *block_at(struct window *window, uint64_t at, uint64_t ahead)
{
    if (at >= window->start && at + SSD_BLOCK <= window->start + window->length)
        return window->bytes + (at - window->start);
    if (at + SSD_BLOCK > window->size)
        return NULL;
    uint64_t length = ahead < window->size - at ? ahead : window->size - at;
    ssize_t count;
    do
        count = pread(window->fd, window->bytes, length, (off_t)at);
    while (count < 0 && errno == EINTR);
    if (mkt_fault_point("ssd.scanned") != MKT_OK)
        count = -1;
    window->has_failed = window->has_failed || count < 0;
    window->start = at;
    window->length = count > 0 ? (uint64_t)count : 0;
    return window->length >= SSD_BLOCK ? window->bytes : NULL;
}

uint32_t mkt_ssd_record_sum(const struct ssd_record *record)
{
    struct mkt_ssd_record_disk copy = record->disk;

    copy.crc = 0;
    return mkt_crc32c(mkt_crc32c(0, &copy, sizeof(copy)), record->crcs,
                      ssd_blocks(copy.bytes) * sizeof(record->crcs[0]));
}

static bool may_be_record(const struct ssd_segment *segment, uint64_t at,
                          const struct mkt_ssd_record_disk *disk, uint64_t size)
{
    return disk->magic == MKT_SSD_RECORD_MAGIC && disk->version == MKT_SSD_LAYOUT_VERSION &&
           disk->segment == segment->id && disk->nonce == segment->nonce && disk->offset == at &&
           disk->bytes > 0 && disk->bytes <= MKT_SSD_RECORD_BYTES_MAX &&
           ssd_record_bytes(disk->bytes) <= size - at;
}

/* The whole header, block by block, into `to`. */
static bool read_header(struct window *window, uint64_t at, char *to, uint64_t length)
{
    for (uint64_t done = 0; done < length; done += SSD_BLOCK) {
        const char *block = block_at(window, at + done, HEADER_BYTES);
        if (block == NULL)
            return false;
        memcpy(to + done, block, length - done < SSD_BLOCK ? length - done : SSD_BLOCK);
    }
    return true;
}

/* The record whose header is at `at`; NULL: none, or no memory (status_out). */
static struct ssd_record *record_at(struct window *window, const struct ssd_segment *segment,
                                    uint64_t at, enum mkt_status *status_out)
{
    struct mkt_ssd_record_disk disk;
    const char *block = block_at(window, at, HEADER_BYTES);

    if (block == NULL)
        return NULL;
    memcpy(&disk, block, sizeof(disk));
    if (!may_be_record(segment, at, &disk, window->size))
        return NULL;
    struct ssd_record *record =
        calloc(1, sizeof(*record) + ssd_blocks(disk.bytes) * sizeof(record->crcs[0]));
    if (record == NULL) {
        *status_out = MKT_NO_MEMORY;
        return NULL;
    }
    record->state = SSD_WRITTEN;
    char *header = (char *)record + offsetof(struct ssd_record, disk);
    if (read_header(window, at, header, ssd_header_length(disk.bytes)) &&
        record->disk.bytes == disk.bytes && record->disk.crc == mkt_ssd_record_sum(record))
        return record;
    free(record);
    return NULL;
}

/* The next block from `at` on that starts as a record does; the file's size if there is none.
 * Holes, which the file system knows, are passed over. */
static uint64_t next_candidate(struct window *window, uint64_t at)
{
    const uint64_t magic = MKT_SSD_RECORD_MAGIC;

    while (at + SSD_BLOCK <= window->size) {
        bool is_in = at >= window->start && at < window->start + window->length;
        off_t data = is_in ? (off_t)at : lseek(window->fd, (off_t)at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        if (data > (off_t)at)
            at = (uint64_t)data / SSD_BLOCK * SSD_BLOCK;
        const char *block = block_at(window, at, WINDOW_BYTES);
        if (block != NULL && memcmp(block, &magic, sizeof(magic)) == 0)
            return at;
        at += SSD_BLOCK;
    }
    return window->size;
}

static enum mkt_status find_records(struct window *window, struct ssd_segment *segment)
{
    enum mkt_status status = MKT_OK;
    uint64_t at = SSD_BLOCK;

    while (at + SSD_BLOCK <= window->size && status == MKT_OK) {
        struct ssd_record *record = record_at(window, segment, at, &status);
        if (record == NULL) {
            at = next_candidate(window, at + SSD_BLOCK);
            continue;
        }
        status = mkt_ssd_segment_append_locked(segment, record);
        if (status != MKT_OK)
            free(record);
        at = segment->end;
    }
    return status;
}

enum segment_kind {
    SEGMENT_OURS,
    SEGMENT_DAMAGED,
    SEGMENT_OTHER /* of another layout, or it can't be read */
};

static enum segment_kind read_segment_header(struct window *window, struct ssd_segment *segment,
                                             uint32_t *epoch_out)
{
    struct mkt_ssd_segment_disk header;
    const char *block = block_at(window, 0, HEADER_BYTES);

    if (block == NULL)
        return window->has_failed ? SEGMENT_OTHER : SEGMENT_DAMAGED;
    memcpy(&header, block, sizeof(header));
    if (header.magic != MKT_SSD_SEGMENT_MAGIC || header.crc != mkt_ssd_segment_sum(&header))
        return SEGMENT_DAMAGED;
    if (header.version != MKT_SSD_LAYOUT_VERSION)
        return SEGMENT_OTHER;
    segment->nonce = header.nonce;
    *epoch_out = header.epoch;
    return header.id == segment->id ? SEGMENT_OURS : SEGMENT_DAMAGED;
}

static void cut_end(struct ssd_segment *segment, uint64_t size)
{
    (void)mkt_fault_point("ssd.before-cut");
    if (size > segment->end && ftruncate(segment->file.fd, (off_t)segment->end) != 0)
        mkt_log_warning("ssd", "can't cut %.1000s to %llu bytes: %s", segment->path,
                        (unsigned long long)segment->end, strerror(errno));
    (void)mkt_fault_point("ssd.cut");
}

/* Opens what the name stands for; false: it is no file of ours, or can't be opened, and is left
 * alone. */
static bool open_segment(struct ssd_segment *segment, const char *name, uint64_t *size_out)
{
    const struct ssd_folder *folder = segment->folder;
    struct stat facts;
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (folder->is_direct ? O_DIRECT : 0);

    snprintf(segment->path, sizeof(segment->path), "%s/%.16s", folder->path, name);
    segment->file.is_direct = folder->is_direct;
    segment->file.memory_align = folder->memory_align;
    segment->file.fd = openat(folder->fd, name, flags);
    if (segment->file.fd >= 0 && fstat(segment->file.fd, &facts) == 0 && S_ISREG(facts.st_mode)) {
        *size_out = (uint64_t)facts.st_size / SSD_BLOCK * SSD_BLOCK;
        return true;
    }
    mkt_log_warning("ssd", "%.1000s is left alone: it isn't a file that can be opened",
                    segment->path);
    return false;
}

/* Puts the segment into the table. MKT_NOT_FOUND: it is of no use; MKT_NO_MEMORY. */
static enum mkt_status adopt_segment(struct mkt_ssd *ssd, struct ssd_segment *segment,
                                     uint64_t size)
{
    struct ssd_segment *known;

    for (unsigned i = 0; i < segment->entries_count; i++)
        if (segment->entries[i].record->disk.generation > ssd->epoch)
            ssd->epoch = segment->entries[i].record->disk.generation;
    HASH_FIND(hh, ssd->segments, &segment->id, sizeof(segment->id), known);
    if (segment->live_count == 0 || known != NULL)
        return MKT_NOT_FOUND;
    HASH_ADD(hh, ssd->segments, id, sizeof(segment->id), segment);
    HASH_FIND(hh, ssd->segments, &segment->id, sizeof(segment->id), known);
    if (known == NULL)
        return MKT_NO_MEMORY;
    segment->bytes = size;
    segment->is_ready = true;
    ssd->file_bytes += size;
    return MKT_OK;
}

/* What becomes of a segment that was read. Where a part couldn't be read nothing is taken away: the
 * next open may find more. */
static enum mkt_status settle_segment(struct mkt_ssd *ssd, struct ssd_segment *segment,
                                      const struct window *window, enum segment_kind kind)
{
    uint64_t size = window->size;

    if (kind == SEGMENT_OURS && segment->live_count > 0 && !window->has_failed) {
        cut_end(segment, size);
        size = segment->end;
    }
    enum mkt_status status =
        kind == SEGMENT_OURS ? adopt_segment(ssd, segment, size) : MKT_NOT_FOUND;
    if (status == MKT_OK)
        return MKT_OK;
    if (status == MKT_NOT_FOUND && (kind == SEGMENT_OTHER || window->has_failed)) {
        mkt_log_warning("ssd", "%.1000s is left alone: %s", segment->path,
                        window->has_failed ? "it can't be read" : "it has another layout");
    } else if (status == MKT_NOT_FOUND) {
        char name[SSD_NAME_BYTES];
        mkt_ssd_segment_name(segment->id, name);
        mkt_log_info("ssd", "%.1000s holds no record of use and is removed", segment->path);
        unlinkat(segment->folder->fd, name, 0);
    }
    mkt_ssd_segment_destroy(segment);
    return status == MKT_NO_MEMORY ? status : MKT_OK;
}

static enum mkt_status scan_segment(struct mkt_ssd *ssd, struct ssd_folder *folder, char *buffer,
                                    const char *name, uint32_t id)
{
    struct ssd_segment *segment = mkt_ssd_segment_create(folder, 0);
    enum mkt_status status = MKT_OK;
    uint64_t size = 0;
    uint32_t epoch = 0;

    if (segment == NULL)
        return MKT_NO_MEMORY;
    segment->id = segment->file_id = id;
    if (id >= ssd->next_segment && id < UINT32_MAX)
        ssd->next_segment = id + 1;
    if (!open_segment(segment, name, &size)) {
        mkt_ssd_segment_destroy(segment);
        return MKT_OK;
    }
    struct window window = {.bytes = buffer, .size = size, .fd = segment->file.fd};
    enum segment_kind kind = read_segment_header(&window, segment, &epoch);
    if (kind == SEGMENT_OURS)
        status = find_records(&window, segment);
    if (epoch > ssd->epoch)
        ssd->epoch = epoch;
    if (status == MKT_OK)
        return settle_segment(ssd, segment, &window, kind);
    mkt_ssd_segment_destroy(segment);
    return status;
}

/* The id in a name that we give; 0: it is another's. */
static uint32_t parse_name(const char *name)
{
    char again[SSD_NAME_BYTES];
    unsigned long id = strncmp(name, "segment-", 8) == 0 ? strtoul(name + 8, NULL, 16) : 0;

    if (id == 0 || id > UINT32_MAX)
        return 0;
    mkt_ssd_segment_name((uint32_t)id, again);
    return strcmp(again, name) == 0 ? (uint32_t)id : 0;
}

enum mkt_status mkt_ssd_scan(struct mkt_ssd *ssd, struct ssd_folder *folder,
                             struct mkt_error *error)
{
    enum mkt_status status = MKT_OK;
    struct dirent *entry;
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;

    if (list == NULL) {
        status = mkt_error_set(error, MKT_IO_ERROR, "can't list %.700s: %s", folder->path,
                               strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    char *buffer = aligned_alloc(SSD_BLOCK, WINDOW_BYTES);
    if (buffer == NULL)
        status = MKT_NO_MEMORY;
    while (status == MKT_OK && (entry = readdir(list)) != NULL) {
        uint32_t id = parse_name(entry->d_name);
        if (id != 0)
            status = scan_segment(ssd, folder, buffer, entry->d_name, id);
    }
    if (status == MKT_NO_MEMORY)
        mkt_error_set(error, status, "no memory for the table of %.700s", folder->path);
    free(buffer);
    closedir(list);
    return status;
}
