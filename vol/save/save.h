/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of h5market-save. One thread. */
#ifndef MKT_VOL_SAVE_SAVE_H
#define MKT_VOL_SAVE_SAVE_H

#include <hdf5.h>

#include "core/client/client.h"
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* ---- target.c: the file on disk, which appears whole or not at all ---- */
struct mkt_save_target {
    char path[PATH_MAX]; /* where it goes; not a symbolic link */
    char temporary[PATH_MAX];
    char folder[PATH_MAX];
    int fd;       /* of the temporary file, locked; -1: none */
    bool replace; /* something stands at the path and may be replaced */
    bool is_stub; /* it is the entry of `object` */
    uint8_t object[MKT_ID_BYTES];
    mode_t mode;
};
/* `path` may name a folder: the file gets the last part of `source` as its name. Without `force`
 * nothing may be at the path. */
enum mkt_status mkt_save_target_open(struct mkt_save_target *target, const char *path,
                                     const char *source, bool force, struct mkt_error *error);
/* Fills the temporary file with the image. */
enum mkt_status mkt_save_target_fill(struct mkt_save_target *target, const void *image,
                                     uint64_t image_bytes, struct mkt_error *error);
/* Puts it on disk for good under its own name. */
enum mkt_status mkt_save_target_finish(struct mkt_save_target *target, struct mkt_error *error);
/* Leaves nothing behind unless finished. */
void mkt_save_target_close(struct mkt_save_target *target);

/* ---- version.c ---- */
struct mkt_save_progress {
    uint64_t total_bytes, done_bytes;
    uint64_t began_ms, shown_ms;
    bool terminal, shown;
    const char *name;
};
/* Writes all raw data of the version into its image at `path`. */
enum mkt_status mkt_save_raw_data(const char *path, struct mkt_client *client,
                                  const struct mkt_index_view *index,
                                  struct mkt_save_progress *progress, struct mkt_error *error);
/* Bytes of all pieces. */
enum mkt_status mkt_save_count_bytes(const struct mkt_index_view *index, uint64_t *bytes_out);
/* True once a signal asked to end. */
bool mkt_save_is_interrupted(void);

#endif
