/* SPDX-License-Identifier: BSD-3-Clause */
/* By what a file on disk is known again. */
#ifndef MKT_BASE_FILE_IDENTITY_H
#define MKT_BASE_FILE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

/* The inode of a removed file is given to another soon, so the inode alone says little. Device and
 * inode are the first 16 bytes: a key for tables. */
struct mkt_file_identity {
    uint64_t dev, ino;           /* ino 0: no file */
    uint64_t size;               /* bytes */
    uint64_t mtime_ns, birth_ns; /* since 1970; birth 0: the file system doesn't know it */
};

/* What stands at a path, where a link there leads to, or what is open as `fd`; one call of the
 * kernel, so that all is of one file. mode_out: its type and permissions. Returns 0, or an errno
 * value (ENOENT: nothing). */
int mkt_file_look(const char *path, struct mkt_file_identity *file_out, uint32_t *mode_out);
int mkt_file_look_through(const char *path, struct mkt_file_identity *file_out, uint32_t *mode_out);
int mkt_file_look_fd(int fd, struct mkt_file_identity *file_out, uint32_t *mode_out);

/* Removes the name of an open file where it still leads to it. Of all who do it in this way only
 * one is at it, so that none takes away what was put there after another had removed the file. Who
 * holds a lock on it is waited for a second. False: something else is there, or nothing. */
bool mkt_file_remove(int fd, const char *path);

/* The same inode, whatever was written to it meanwhile. */
static inline bool mkt_file_same(const struct mkt_file_identity *a,
                                 const struct mkt_file_identity *b)
{
    return a->ino == b->ino && a->dev == b->dev &&
           (a->birth_ns == b->birth_ns || a->birth_ns == 0 || b->birth_ns == 0);
}

/* The same file, and nobody has written to it. */
static inline bool mkt_file_unchanged(const struct mkt_file_identity *a,
                                      const struct mkt_file_identity *b)
{
    return mkt_file_same(a, b) && a->size == b->size && a->mtime_ns == b->mtime_ns;
}

#endif
