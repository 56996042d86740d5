/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of h5market-save. One thread. */
#ifndef MKT_VOL_SAVE_SAVE_H
#define MKT_VOL_SAVE_SAVE_H

#include <hdf5.h>

#include "core/base/progress.h"
#include "core/client/client.h"
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* How far a save is. */
struct mkt_save_progress {
    uint64_t total_bytes, done_bytes;
    struct mkt_progress lines;
    bool leaves_memory_only; /* arrays that a rule keeps in memory aren't written, but marked */
    struct mkt_client *yields_to; /* NULL: as fast as it goes */
    uint64_t since_yield_bytes;
    const char *name;
};

/* ---- target.c: the file on disk, which appears whole or not at all ---- */
#define MKT_SAVE_SUFFIX ".h5market-tmp"
struct mkt_save_target {
    char path[PATH_MAX]; /* where it goes; not a symbolic link */
    char temporary[PATH_MAX];
    char folder[PATH_MAX];
    int fd;         /* of the temporary file, locked; -1: none */
    bool read_only; /* that one was left read-only, and can't be written to */
    bool replace;   /* something stands at the path and may be replaced */
    bool is_stub;   /* it is the entry of `object` */
    uint8_t object[MKT_ID_BYTES];
    mode_t mode;
};
/* `path` may name a folder: the file gets the last part of `source` as its name. Without `force`
 * nothing may be at the path. */
enum mkt_status mkt_save_target_open(struct mkt_save_target *target, const char *path,
                                     const char *source, bool force, struct mkt_error *error);
/* Fills the temporary file with the image. */
enum mkt_status mkt_save_target_fill(const struct mkt_save_target *target, const void *image,
                                     uint64_t image_bytes, struct mkt_save_progress *progress,
                                     struct mkt_error *error);
/* Puts it on disk for good under its own name. */
enum mkt_status mkt_save_target_finish(struct mkt_save_target *target, struct mkt_error *error);
/* The new name in the folder, for good; a file system that has nothing to sync there is no failure.
 */
enum mkt_status mkt_save_target_sync_folder(const struct mkt_save_target *target,
                                            struct mkt_error *error);
/* Leaves nothing behind unless finished. */
void mkt_save_target_close(struct mkt_save_target *target);
/* Sets the names, and nothing else. */
enum mkt_status mkt_save_target_name(struct mkt_save_target *target, const char *path,
                                     struct mkt_error *error);
/* For deposit.c: opens and locks the temporary file of target->path, target->folder set, too. */
enum mkt_status mkt_save_target_take(struct mkt_save_target *target, const char *path,
                                     struct mkt_error *error);
/* Before the file gets its own name: from now on its readers may lock it, other savers still may
 * not. */
enum mkt_status mkt_save_target_share(const struct mkt_save_target *target,
                                      struct mkt_error *error);
/* A temporary file that was left read-only makes way for a new one. */
enum mkt_status mkt_save_target_renew(struct mkt_save_target *target, struct mkt_error *error);
enum mkt_status mkt_save_failed(struct mkt_error *error, const char *what, const char *path);

/* ---- deposit.c: a file that takes the place of its stub, or of its predecessor ---- */
/*
 * The temporary file is filled, completed (owner, mode and attributes of what it replaces, on
 * disk), announced to the market, and exchanged with what stands at the path. Only then is it
 * looked at what came out: if it isn't what was expected, the exchange is undone. So nothing that
 * somebody else put there meanwhile is lost, and at each moment the path leads to the old or to the
 * new. An attempt that follows one which was killed takes up where that ended.
 *
 * A file that can't be exchanged without losing something (hard links, an owner who isn't this
 * user) is written in place, under HDF5's lock; the whole new file stays beside it until then.
 */
struct mkt_save_deposit {
    struct mkt_save_target target;
    const struct mkt_save_order *order;
    struct mkt_file_identity expected; /* dev and ino of what stands there; ino 0: nothing */
    bool in_place;                     /* written over, not exchanged */
    bool resumed;                      /* in_place: an earlier attempt may have begun to write */
    bool owns_temporary;               /* what has the temporary name is this order's */
    bool placed;                       /* an earlier attempt put the file at its place */
    /* What is at the path already, if not safe there, or (in_place) half written; ino 0: nothing */
    struct mkt_file_identity there;
};
/* MKT_NOT_FOUND: what stood there was removed. MKT_EXISTS: something else stands there. */
enum mkt_status mkt_save_deposit_open(struct mkt_save_deposit *deposit,
                                      const struct mkt_save_order *order, struct mkt_error *error);
/* Makes the filled temporary file complete and safe; *file_out is its identity. */
enum mkt_status mkt_save_deposit_complete(struct mkt_save_deposit *deposit,
                                          struct mkt_file_identity *file_out,
                                          struct mkt_error *error);
/* Puts it at its place; *file_out is what stands there then. After a failure deposit->there says
 * what the next attempt has to know. */
enum mkt_status mkt_save_deposit_place(struct mkt_save_deposit *deposit,
                                       struct mkt_file_identity *file_out, struct mkt_error *error);
/* Leaves nothing of an attempt that didn't end. */
void mkt_save_deposit_close(struct mkt_save_deposit *deposit);

/* ---- version.c ---- */
/* So much has been written: says so at times, or yields. MKT_CANCELLED: interrupted. */
enum mkt_status mkt_save_moved(struct mkt_save_progress *progress, uint64_t bytes,
                               struct mkt_error *error);
/* Writes a version, image and raw data, into the temporary file. */
enum mkt_status mkt_save_version(const struct mkt_save_target *target, struct mkt_client *client,
                                 const struct mkt_opened *version,
                                 struct mkt_save_progress *progress, struct mkt_error *error);
/* In mkt_array.flags: MKT_VOL_ARRAY_ALLOC_TIME of vol/arrays.h. */
#define MKT_SAVE_ALLOC_TIME 0x3u
/* early.c: the image in the temporary file says which datasets are to be allocated early. */
enum mkt_status mkt_save_mark_early(const struct mkt_save_target *target,
                                    const struct mkt_index_view *index, struct mkt_error *error);
/* Writes all raw data of the version, which is open as `handle` (0: ordered), into its image at
 * `path`. */
enum mkt_status mkt_save_raw_data(const char *path, struct mkt_client *client, uint64_t handle,
                                  const struct mkt_index_view *index,
                                  struct mkt_save_progress *progress, struct mkt_error *error);
/* Bytes of all pieces. */
enum mkt_status mkt_save_count_bytes(const struct mkt_index_view *index, uint64_t *bytes_out);
/* True once a signal asked to end. */
bool mkt_save_is_interrupted(void);

#endif
