/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The SSD medium: records of bytes in segment files, in folders that the user names. A record is
 * reserved, written once as a whole, read in parts, and freed. It isn't a file system: a record
 * can't change. A segment's file goes when all of its records are freed; before that the freed ones
 * become holes in it (mkt_ssd_tidy), where the file system can do that.
 *
 * The files outlive the process. Who opens the folder next finds all records that were completely
 * written, those that were freed meanwhile among them: it frees what it doesn't know
 * (mkt_ssd_each). That holds for the death of processes; after a loss of power a record may be
 * missing or damaged, and a read says so: each block has a checksum.
 *
 * Threads: reserve, free, each are the owner's, one thread's; they do no I/O. write, read, tidy may
 * run in any thread beside them and each other, and block; is_known and usage may be called
 * anywhere. A record may be freed while it is read or written: that call ends well or with
 * MKT_STALE. The medium has no thread of its own.
 */
#ifndef MKT_MEDIA_SSD_H
#define MKT_MEDIA_SSD_H

#include "core/base/status.h"
#include "transport/engine_file.h"
#include <stdbool.h>
#include <stdint.h>

#define MKT_SSD_FOLDERS_MAX 16
/* Four records of 64 MiB with their headers, and a little more. */
#define MKT_SSD_SEGMENT_BYTES     ((uint64_t)257 << 20)
#define MKT_SSD_SEGMENT_BYTES_MIN ((uint64_t)1 << 16)
#define MKT_SSD_RECORD_BYTES_MAX  ((uint64_t)1 << 40)

struct mkt_ssd;

struct mkt_ssd_options {
    /* Each on a disk of its own, or there is one; segments go round. A missing one is made, but not
     * its parent. */
    const char *const *folders;
    unsigned folders_count;
    const char *name;       /* of our folder inside each; NULL: "h5market-ssd-<uid>" */
    uint64_t limit_bytes;   /* of all files together */
    uint64_t segment_bytes; /* 0: MKT_SSD_SEGMENT_BYTES. A longer record gets a longer segment. */
    unsigned queue_depth, queues; /* of mkt_file_engine_options */
    bool without_uring, without_direct;
};

/* A handle: plain values that may be kept anywhere, a journal too. All zeros is none. */
struct mkt_ssd_record {
    uint64_t place; /* segment << 32 | offset in blocks */
    uint32_t generation, reserved;
    uint64_t bytes;
};
_Static_assert(sizeof(struct mkt_ssd_record) == 24, "a journal's layout");

/* What the files of an earlier life hold in the folder `name` inside of `user_path`. */
uint64_t mkt_ssd_held_bytes(const char *user_path, const char *name);
/* Opens the folders: makes what is missing, finds the records that are there, cuts off torn ends
 * and removes segments without a record. What else lies there stays as it is. MKT_BUSY: another
 * process has one open, and the text says which. MKT_DENIED: not ours, or not writable.
 * MKT_INVALID, MKT_NOT_FOUND (a folder's parent), MKT_NO_SPACE, MKT_NO_MEMORY, MKT_IO_ERROR. A
 * damaged segment is no error. Blocks: reads a block or more for each record. */
enum mkt_status mkt_ssd_open(const struct mkt_ssd_options *options, struct mkt_ssd **ssd_out,
                             struct mkt_error *error);

/* No call may be running. The records stay. NULL is allowed. */
void mkt_ssd_close(struct mkt_ssd *ssd);

/* The same, and removes all files of ours; a folder in which something else lies stays. */
void mkt_ssd_destroy(struct mkt_ssd *ssd);

/* Space for a record of `bytes`, 1 .. MKT_SSD_RECORD_BYTES_MAX. MKT_NO_SPACE (within the limit),
 * MKT_NO_MEMORY, MKT_INVALID. */
enum mkt_status mkt_ssd_reserve(struct mkt_ssd *ssd, uint64_t bytes,
                                struct mkt_ssd_record *record_out);

/* MKT_STALE: it was freed before, or its write failed. */
enum mkt_status mkt_ssd_free(struct mkt_ssd *ssd, const struct mkt_ssd_record *record);

/* Writes a reserved record: all of its bytes, which must not change meanwhile. MKT_NO_SPACE (the
 * disk is full), MKT_IO_ERROR, MKT_TIMED_OUT, MKT_NO_MEMORY: the record is freed. MKT_STALE
 * (freed), MKT_EXISTS (written before). */
enum mkt_status mkt_ssd_write(struct mkt_ssd *ssd, const struct mkt_ssd_record *record,
                              const void *bytes, struct mkt_error *error);

/* Reads ranges of a record, ascending and without an overlap: range i lands at `to` +
 * ranges[i].offset - ranges[0].offset, so that strided parts keep their distances; bytes between
 * them stay as they are. Reads only blocks that it needs, and short gaps between them.
 * MKT_STALE (freed), MKT_NOT_FOUND (not written yet), MKT_INVALID (ranges), MKT_TIMED_OUT,
 * MKT_NO_MEMORY. MKT_CORRUPT and MKT_IO_ERROR retire the record: later reads answer the same at
 * once, until it is freed. On failure the bytes of the ranges are undefined. */
enum mkt_status mkt_ssd_read(struct mkt_ssd *ssd, const struct mkt_ssd_record *record,
                             const struct mkt_file_range *ranges, unsigned count, void *to,
                             struct mkt_error *error);

/* Removes the files of segments that aren't used any more (writes do that, too, before they make
 * another file), and punches holes where freed records lay in others. Blocks. */
void mkt_ssd_tidy(struct mkt_ssd *ssd);

/* True if the record can be read. */
bool mkt_ssd_is_known(struct mkt_ssd *ssd, const struct mkt_ssd_record *record);

/* Calls fn for each record that is written (retired ones, too). fn may call everything.
 * MKT_NO_MEMORY (then for none). */
typedef void (*mkt_ssd_record_fn)(void *context, const struct mkt_ssd_record *record);
enum mkt_status mkt_ssd_each(struct mkt_ssd *ssd, mkt_ssd_record_fn fn, void *context);

struct mkt_ssd_usage {
    uint64_t limit_bytes;
    uint64_t file_bytes; /* of all segments, less their holes */
    uint64_t live_bytes; /* of records, their headers included */
    uint64_t dead_bytes; /* of what was freed and isn't a hole yet */
    uint64_t segments, records;
    bool uses_direct, uses_uring; /* what is in force */
    char why_not[256];            /* why one isn't; empty if both are */
};

void mkt_ssd_usage(struct mkt_ssd *ssd, struct mkt_ssd_usage *usage_out);

#endif
