/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/file_identity.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define REMOVE_TRIES    1000
#define REMOVE_PAUSE_NS 1000000

static uint64_t in_ns(const struct statx_timestamp *time)
{
    return (uint64_t)time->tv_sec * 1000000000u + time->tv_nsec;
}

static int look(int fd, const char *path, int flags, struct mkt_file_identity *file_out,
                uint32_t *mode_out)
{
    struct statx info;
    if (statx(fd, path, flags, STATX_BASIC_STATS | STATX_BTIME, &info) != 0)
        return errno;
    *file_out = (struct mkt_file_identity){.dev = makedev(info.stx_dev_major, info.stx_dev_minor),
                                           .ino = info.stx_ino,
                                           .size = info.stx_size,
                                           .mtime_ns = in_ns(&info.stx_mtime)};
    if (info.stx_mask & STATX_BTIME)
        file_out->birth_ns = in_ns(&info.stx_btime);
    *mode_out = info.stx_mode;
    return 0;
}

int mkt_file_look(const char *path, struct mkt_file_identity *file_out, uint32_t *mode_out)
{
    return look(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, file_out, mode_out);
}

int mkt_file_look_through(const char *path, struct mkt_file_identity *file_out, uint32_t *mode_out)
{
    return look(AT_FDCWD, path, 0, file_out, mode_out);
}

int mkt_file_look_fd(int fd, struct mkt_file_identity *file_out, uint32_t *mode_out)
{
    return look(fd, "", AT_EMPTY_PATH, file_out, mode_out);
}

/* False: it can't be had, as on some network file systems. */
static bool lock(int fd)
{
    for (int tries = 0; tries < REMOVE_TRIES; tries++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = REMOVE_PAUSE_NS}, NULL);
    }
    return false;
}

bool mkt_file_remove(int fd, const char *path)
{
    struct stat held, there;
    bool locked = lock(fd);
    bool removed = fstat(fd, &held) == 0 && lstat(path, &there) == 0 &&
                   held.st_dev == there.st_dev && held.st_ino == there.st_ino && unlink(path) == 0;
    if (locked)
        flock(fd, LOCK_UN);
    return removed;
}
