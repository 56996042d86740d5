/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of segments: made before the first write into them, with holes where records were
 * freed, removed when nobody needs them. */
#include "media/ssd_internal.h"

#include "core/base/fault.h"
#include "core/base/log.h"
#include "transport/crc32c.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

void mkt_ssd_segment_name(uint32_t id, char name[SSD_NAME_BYTES])
{
    snprintf(name, SSD_NAME_BYTES, "segment-%08x", id);
}

uint32_t mkt_ssd_segment_sum(const struct mkt_ssd_segment_disk *header)
{
    struct mkt_ssd_segment_disk copy = *header;

    copy.crc = 0;
    return mkt_crc32c(0, &copy, sizeof(copy));
}

void mkt_ssd_segment_destroy(struct ssd_segment *segment)
{
    for (unsigned i = 0; i < segment->entries_count; i++)
        free(segment->entries[i].record);
    if (segment->file.fd >= 0)
        close(segment->file.fd);
    free(segment->entries);
    free(segment);
}

/* ---- removal ---- */

static void remove_file(struct ssd_segment *segment)
{
    char name[SSD_NAME_BYTES];

    if (segment->file_id == 0)
        return;
    mkt_ssd_segment_name(segment->file_id, name);
    (void)mkt_fault_point("ssd.before-removal");
    if (unlinkat(segment->folder->fd, name, 0) != 0 && errno != ENOENT)
        mkt_log_warning("ssd", "can't remove %.1000s/%s: %s", segment->folder->path, name,
                        strerror(errno));
    (void)mkt_fault_point("ssd.removed");
    segment->file_id = 0;
}

/* True if there was something to remove. */
static bool tidy_holding_files(struct mkt_ssd *ssd)
{
    pthread_mutex_lock(&ssd->lock);
    struct ssd_segment *doomed = ssd->doomed;
    ssd->doomed = NULL;
    pthread_mutex_unlock(&ssd->lock);
    bool any = doomed != NULL;
    while (doomed != NULL) {
        struct ssd_segment *segment = doomed;
        doomed = segment->next;
        segment->entries_count = 0; /* all of them are NULL */
        remove_file(segment);
        mkt_ssd_segment_destroy(segment);
    }
    return any;
}

/* fallocate; returns an errno value. */
static int change_space(const struct ssd_segment *segment, int mode, uint64_t from, uint64_t bytes)
{
    int result;

    do
        result = fallocate(segment->file.fd, mode, (off_t)from, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

/* ---- holes ---- */

/* So that the disk's room comes back while others of the segment are needed. */
static void punch(struct mkt_ssd *ssd, const struct ssd_hole *hole)
{
    struct ssd_segment *segment = hole->segment;

    (void)mkt_fault_point("ssd.before-punch");
    int reason =
        change_space(segment, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, hole->from, hole->bytes);
    (void)mkt_fault_point("ssd.punched");
    pthread_mutex_lock(&ssd->lock);
    if (reason == 0)
        mkt_ssd_note_hole_locked(ssd, hole);
    else
        segment->folder->without_holes = true;
    pthread_mutex_unlock(&ssd->lock);
    if (reason != 0)
        mkt_log_info("ssd",
                     "no holes can be punched in %.1000s (%s): freed space comes back a segment at "
                     "a time",
                     segment->folder->path, strerror(reason));
}

static bool take_hole(struct mkt_ssd *ssd, struct ssd_hole *hole_out)
{
    pthread_mutex_lock(&ssd->lock);
    bool found = mkt_ssd_take_hole_locked(ssd, hole_out);
    pthread_mutex_unlock(&ssd->lock);
    return found;
}

void mkt_ssd_tidy(struct mkt_ssd *ssd)
{
    struct ssd_hole hole;

    pthread_mutex_lock(&ssd->files);
    tidy_holding_files(ssd);
    while (take_hole(ssd, &hole))
        punch(ssd, &hole);
    pthread_mutex_unlock(&ssd->files);
}

/* ---- a file for a segment ---- */

static bool is_full(int reason)
{
    return reason == ENOSPC || reason == EDQUOT;
}

static enum mkt_status fail(const struct ssd_segment *segment, const char *what, int reason,
                            struct mkt_error *error)
{
    if (is_full(reason))
        return mkt_error_set(error, MKT_NO_SPACE,
                             "%.700s is full: no %llu bytes for a segment (%s); make room there, "
                             "or lower the limit",
                             segment->folder->path, (unsigned long long)segment->bytes,
                             strerror(reason));
    return mkt_error_set(error, MKT_IO_ERROR, "can't %s %.700s: %s", what, segment->path,
                         strerror(reason));
}

static void set_path(struct ssd_segment *segment, const char *name)
{
    snprintf(segment->path, sizeof(segment->path), "%s/%s", segment->folder->path, name);
}

static enum mkt_status make_file(struct ssd_segment *segment, struct mkt_error *error)
{
    struct ssd_folder *folder = segment->folder;
    char name[SSD_NAME_BYTES];

    mkt_ssd_segment_name(segment->id, name);
    set_path(segment, name);
    segment->file.fd = openat(folder->fd, name,
                              O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW |
                                  (folder->is_direct ? O_DIRECT : 0),
                              0600);
    if (segment->file.fd < 0)
        return fail(segment, "make", errno, error);
    segment->file.is_direct = folder->is_direct;
    segment->file.memory_align = folder->memory_align;
    segment->file_id = segment->id;
    (void)mkt_fault_point("ssd.made");
    return MKT_OK;
}

static void discard_file(struct ssd_segment *segment)
{
    remove_file(segment);
    close(segment->file.fd);
    segment->file.fd = -1;
}

/* A spare's file gets the new id; if somebody took it away, a new one is made. */
static enum mkt_status rename_file(struct ssd_segment *segment, struct mkt_error *error)
{
    char from[SSD_NAME_BYTES], to[SSD_NAME_BYTES];

    mkt_ssd_segment_name(segment->file_id, from);
    mkt_ssd_segment_name(segment->id, to);
    if (renameat(segment->folder->fd, from, segment->folder->fd, to) != 0) {
        discard_file(segment);
        return make_file(segment, error);
    }
    segment->file_id = segment->id;
    set_path(segment, to);
    (void)mkt_fault_point("ssd.renamed");
    return MKT_OK;
}

/* So that writes find their space; where the file system can't do that, the disk may be full at a
 * write. Returns an errno value. */
static int allocate(const struct ssd_segment *segment)
{
    int reason = change_space(segment, 0, 0, segment->bytes);

    if (reason == EOPNOTSUPP || reason == ENOSYS)
        reason = ftruncate(segment->file.fd, (off_t)segment->bytes) == 0 ? 0 : errno;
    if (reason != 0)
        return reason;
    return mkt_fault_point("ssd.allocated") == MKT_NO_SPACE ? ENOSPC : 0;
}

/* What the disk has, or half of it if that was too much, but room for its records: the disk is
 * smaller than the limit. False: it can't be shorter. */
static bool shorten(struct mkt_ssd *ssd, struct ssd_segment *segment)
{
    struct statvfs about;
    uint64_t bytes = segment->bytes / 2;

    /* What a failed attempt got stays with the file on some file systems. */
    if (ftruncate(segment->file.fd, 0) != 0 || fstatvfs(segment->file.fd, &about) != 0)
        return false;
    uint64_t free = (uint64_t)about.f_bavail * about.f_frsize;
    if (free > bytes && free < segment->bytes)
        bytes = free;
    bytes -= bytes % SSD_BLOCK;
    pthread_mutex_lock(&ssd->lock);
    if (bytes < segment->end)
        bytes = segment->end;
    bool is_shorter = bytes < segment->bytes;
    ssd->file_bytes -= segment->bytes - bytes;
    segment->bytes = bytes;
    pthread_mutex_unlock(&ssd->lock);
    return is_shorter;
}

static enum mkt_status write_header(struct mkt_ssd *ssd, struct ssd_segment *segment,
                                    struct mkt_error *error)
{
    struct mkt_ssd_segment_disk header = {
        .magic = MKT_SSD_SEGMENT_MAGIC,
        .version = MKT_SSD_LAYOUT_VERSION,
        .id = segment->id,
        .epoch = ssd->epoch,
    };

    if (getrandom(&header.nonce, sizeof(header.nonce), 0) != sizeof(header.nonce))
        return fail(segment, "make", errno, error);
    segment->nonce = header.nonce;
    header.crc = mkt_ssd_segment_sum(&header);
    enum mkt_status status =
        mkt_file_write(ssd->engine, &segment->file, 0, &header, sizeof(header), NULL, error);
    (void)mkt_fault_point("ssd.segment-headed");
    return status;
}

static enum mkt_status prepare_holding_files(struct mkt_ssd *ssd, struct ssd_segment *segment,
                                             struct mkt_error *error)
{
    enum mkt_status status = MKT_OK;

    tidy_holding_files(ssd);
    if (segment->file.fd < 0)
        status = make_file(segment, error);
    else if (segment->file_id != segment->id)
        status = rename_file(segment, error);
    if (status != MKT_OK)
        return status;
    int reason = allocate(segment);
    if (is_full(reason)) { /* the disk is smaller than the limit */
        pthread_mutex_lock(&ssd->lock);
        mkt_ssd_doom_spares_locked(ssd);
        pthread_mutex_unlock(&ssd->lock);
        if (tidy_holding_files(ssd))
            reason = allocate(segment);
    }
    while (is_full(reason) && shorten(ssd, segment))
        reason = allocate(segment);
    status =
        reason != 0 ? fail(segment, "allocate", reason, error) : write_header(ssd, segment, error);
    if (status != MKT_OK)
        discard_file(segment);
    return status;
}

enum mkt_status mkt_ssd_segment_prepare(struct mkt_ssd *ssd, struct ssd_segment *segment,
                                        struct mkt_error *error)
{
    enum mkt_status status = MKT_OK;

    if (__atomic_load_n(&segment->is_ready, __ATOMIC_ACQUIRE))
        return MKT_OK;
    pthread_mutex_lock(&ssd->files);
    if (!segment->is_ready)
        status = prepare_holding_files(ssd, segment, error);
    if (status == MKT_OK)
        __atomic_store_n(&segment->is_ready, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&ssd->files);
    return status;
}
