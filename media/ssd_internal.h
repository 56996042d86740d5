/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the SSD medium share.
 *
 *   record:   reserved ─ write ─▶ writing ─▶ written ─ bad checksum, I/O error ─▶ retired
 *             (each may be freed; one in use goes when its last call ends; a failed write frees)
 *   segment:  open (takes records) ─▶ sealed ─ all records freed ─▶ spare, used again under a new
 * id └▶ doomed: its file is removed
 *
 * Locks, in this order: `files`, while files are made, renamed, removed or get holes (the one lock
 * that is held across I/O: it keeps a removal and the next file from needing the disk's room twice,
 * and a hole out of a segment that serves anew; the owner never takes it); `lock`, a leaf, for all
 * tables.
 */
#ifndef MKT_MEDIA_SSD_INTERNAL_H
#define MKT_MEDIA_SSD_INTERNAL_H

#include "media/ssd.h"
#include "media/ssd_layout.h"
#include <limits.h>
#include <pthread.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define SSD_BLOCK      ((uint64_t)MKT_SSD_BLOCK_BYTES)
#define SSD_OPEN_MAX   8
#define SSD_SPARES_MAX 4
#define SSD_NAME_BYTES 32

_Static_assert(MKT_SSD_BLOCK_BYTES == MKT_FILE_BLOCK_BYTES, "the engine checks whole blocks");

enum ssd_record_state {
    SSD_RESERVED,
    SSD_WRITING,
    SSD_WRITTEN,
    SSD_RETIRED
};

struct ssd_record {
    struct ssd_segment *segment;
    enum ssd_record_state state;
    enum mkt_status why; /* it was retired */
    bool is_freed;
    unsigned users; /* calls that read or write it */
    /* As on disk; the checksums follow directly. */
    struct mkt_ssd_record_disk disk;
    uint32_t crcs[];
};
_Static_assert(offsetof(struct ssd_record, crcs) ==
                   offsetof(struct ssd_record, disk) + sizeof(struct mkt_ssd_record_disk),
               "header and checksums are written as one");

struct ssd_entry {
    uint32_t block;
    bool is_hole;              /* freed, and given back, or about to be */
    struct ssd_record *record; /* NULL: freed */
};

struct ssd_folder {
    char path[PATH_MAX];
    int fd, lock_fd;
    uint32_t epoch; /* that stands there */
    bool is_direct;
    bool without_holes; /* the file system can't */
    uint32_t memory_align;
};

struct ssd_segment {
    /* id: 0 while it isn't in the table; file_id: by which the file is named, 0: there is none */
    uint32_t id, file_id;
    uint64_t nonce;
    uint64_t bytes, end; /* of the file; where the next record goes */
    uint64_t live_bytes, hole_bytes;
    unsigned live_count, dead_count; /* dead: freed, and no hole yet */
    bool is_open;
    bool is_ready; /* the file is there, with a header; atomic, changed under `files` */
    struct ssd_folder *folder;
    struct mkt_file file;
    char path[PATH_MAX + SSD_NAME_BYTES];
    struct ssd_entry *entries; /* by block */
    unsigned entries_count, entries_capacity;
    struct ssd_segment *next; /* spare or doomed */
    UT_hash_handle hh;
};

struct ssd_hole {
    struct ssd_segment *segment;
    uint32_t id; /* the segment's; it may serve anew when the hole is punched */
    uint64_t from, bytes;
};

struct mkt_ssd {
    struct mkt_file_engine *engine;
    struct ssd_folder folders[MKT_SSD_FOLDERS_MAX];
    unsigned folders_count, next_folder;
    uint64_t limit_bytes, segment_bytes;
    char why_not[256];
    uint32_t epoch, next_segment;
    pthread_mutex_t files, lock;
    uint64_t file_bytes;
    struct ssd_segment *segments; /* by id */
    struct ssd_segment *open[SSD_OPEN_MAX];
    unsigned open_count, spares_count;
    struct ssd_segment *spares, *doomed;
};

static inline uint64_t ssd_blocks(uint64_t bytes)
{
    return (bytes + SSD_BLOCK - 1) / SSD_BLOCK;
}

/* Of a record's header with its checksums, before it is filled up. */
static inline uint64_t ssd_header_length(uint64_t bytes)
{
    return sizeof(struct mkt_ssd_record_disk) + ssd_blocks(bytes) * sizeof(uint32_t);
}

static inline uint64_t ssd_header_bytes(uint64_t bytes)
{
    return ssd_blocks(ssd_header_length(bytes)) * SSD_BLOCK;
}

static inline uint64_t ssd_record_bytes(uint64_t bytes)
{
    return ssd_header_bytes(bytes) + ssd_blocks(bytes) * SSD_BLOCK;
}

/* ---- ssd_folder.c ---- */

/* Opens or makes our folder `name` inside `path`, and holds its lock. */
enum mkt_status mkt_ssd_folder_open(const char *path, const char *name, bool without_direct,
                                    struct ssd_folder *folder_out, struct mkt_error *error);
enum mkt_status mkt_ssd_folder_set_epoch(struct ssd_folder *folder, uint32_t epoch,
                                         struct mkt_error *error);
void mkt_ssd_folder_close(struct ssd_folder *folder);
/* Removes lock and folder. */
void mkt_ssd_folder_remove(struct ssd_folder *folder);

/* ---- ssd_scan.c ---- */

/* Adds all segments of a folder. MKT_NO_MEMORY, MKT_IO_ERROR (the folder can't be listed). */
enum mkt_status mkt_ssd_scan(struct mkt_ssd *ssd, struct ssd_folder *folder,
                             struct mkt_error *error);
uint32_t mkt_ssd_record_sum(const struct ssd_record *record);
uint32_t mkt_ssd_segment_sum(const struct mkt_ssd_segment_disk *header);

/* ---- ssd_files.c ---- */

void mkt_ssd_segment_name(uint32_t id, char name[SSD_NAME_BYTES]);
/* Sees to it that the segment's file is there. Any thread that uses one of its records. */
enum mkt_status mkt_ssd_segment_prepare(struct mkt_ssd *ssd, struct ssd_segment *segment,
                                        struct mkt_error *error);
/* Closes the file and ends the structure. */
void mkt_ssd_segment_destroy(struct ssd_segment *segment);

/* ---- ssd_space.c; _locked: the caller holds `lock` ---- */

struct ssd_segment *mkt_ssd_segment_create(struct ssd_folder *folder, uint64_t bytes);
/* MKT_NO_MEMORY. */
enum mkt_status mkt_ssd_segment_append_locked(struct ssd_segment *segment,
                                              struct ssd_record *record);
/* NULL: stale. */
struct ssd_record *mkt_ssd_find_locked(struct mkt_ssd *ssd, const struct mkt_ssd_record *record);
void mkt_ssd_drop_locked(struct mkt_ssd *ssd, struct ssd_record *record);
void mkt_ssd_seal_locked(struct mkt_ssd *ssd, struct ssd_segment *segment);
/* Freed bytes that lie together and are still the disk's, which are taken for a hole from now on:
 * the caller punches it, under `files`. False: there are none. */
bool mkt_ssd_take_hole_locked(struct mkt_ssd *ssd, struct ssd_hole *hole_out);
/* It was punched. */
void mkt_ssd_note_hole_locked(struct mkt_ssd *ssd, const struct ssd_hole *hole);
/* All spares will be removed. */
void mkt_ssd_doom_spares_locked(struct mkt_ssd *ssd);

#endif
