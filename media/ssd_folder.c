/* SPDX-License-Identifier: BSD-3-Clause */
/* Our folder inside the user's: one process at a time, told by a locked file. */
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
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_NAME "lock"

static enum mkt_status fail(const char *what, const char *path, int reason, struct mkt_error *error)
{
    return mkt_error_set(error, mkt_status_from_errno(reason), "can't %s %.700s: %s", what, path,
                         strerror(reason));
}

static enum mkt_status make_folder(const char *user_path, const char *name,
                                   struct ssd_folder *folder, struct mkt_error *error)
{
    struct stat facts;
    int length = snprintf(folder->path, sizeof(folder->path), "%s/%s", user_path, name);

    if (length < 0 || (size_t)length >= sizeof(folder->path) || strchr(name, '/') != NULL)
        return mkt_error_set(error, MKT_INVALID, "no folder: %.400s/%.200s", user_path, name);
    if (mkdir(user_path, 0700) == 0) /* a wrong path may be on another disk than was meant */
        mkt_log_warning("ssd", "%.1000s was made: it wasn't there", user_path);
    else if (errno != EEXIST)
        return fail("make", user_path, errno, error);
    if (mkdir(folder->path, 0700) != 0 && errno != EEXIST)
        return fail("make", folder->path, errno, error);
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder->fd < 0)
        return fail("open", folder->path, errno, error);
    if (fstat(folder->fd, &facts) != 0 || facts.st_uid != geteuid() || (facts.st_mode & 077)) {
        close(folder->fd);
        return mkt_error_set(error, MKT_DENIED,
                             "%.700s must belong to this user and be closed to others (chmod 0700)",
                             folder->path);
    }
    return MKT_OK;
}

static uint32_t folder_sum(const struct mkt_ssd_folder_disk *about)
{
    struct mkt_ssd_folder_disk copy = *about;

    copy.crc = 0;
    return mkt_crc32c(0, &copy, sizeof(copy));
}

static bool read_about(int fd, struct mkt_ssd_folder_disk *about_out)
{
    return pread(fd, about_out, sizeof(*about_out), 0) == (ssize_t)sizeof(*about_out) &&
           about_out->magic == MKT_SSD_FOLDER_MAGIC && about_out->crc == folder_sum(about_out);
}

static enum mkt_status is_held(const struct ssd_folder *folder, int fd, struct mkt_error *error)
{
    struct mkt_ssd_folder_disk about;

    if (!read_about(fd, &about))
        return mkt_error_set(error, MKT_BUSY, "another process holds %.700s", folder->path);
    return mkt_error_set(error, MKT_BUSY,
                         "process %d on %.63s holds %.600s; end it, or name another folder",
                         (int)about.pid, about.host, folder->path);
}

/* True if the file that we locked is still the one in the folder: who leaves may remove it. */
static bool is_current(const struct ssd_folder *folder, int fd)
{
    struct stat held, there;

    return fstat(fd, &held) == 0 &&
           fstatat(folder->fd, LOCK_NAME, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

static enum mkt_status lock_folder(struct ssd_folder *folder, struct mkt_error *error)
{
    for (int tries = 0; tries < 100; tries++) {
        int fd = openat(folder->fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        enum mkt_status status;
        if (fd < 0)
            return fail("open the lock in", folder->path, errno, error);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            status = errno == EWOULDBLOCK ? is_held(folder, fd, error)
                                          : fail("lock", folder->path, errno, error);
            close(fd);
            return status;
        }
        if (is_current(folder, fd)) {
            folder->lock_fd = fd;
            return MKT_OK;
        }
        close(fd);
    }
    return mkt_error_set(error, MKT_BUSY, "the lock of %.700s changes all the time", folder->path);
}

enum mkt_status mkt_ssd_folder_set_epoch(struct ssd_folder *folder, uint32_t epoch,
                                         struct mkt_error *error)
{
    struct mkt_ssd_folder_disk about = {
        .magic = MKT_SSD_FOLDER_MAGIC,
        .version = MKT_SSD_LAYOUT_VERSION,
        .epoch = epoch,
        .pid = (int32_t)getpid(),
    };

    gethostname(about.host, sizeof(about.host) - 1);
    about.crc = folder_sum(&about);
    (void)mkt_fault_point("ssd.before-epoch");
    ssize_t written = pwrite(folder->lock_fd, &about, sizeof(about), 0);
    if (written != (ssize_t)sizeof(about) || fdatasync(folder->lock_fd) != 0)
        return fail("write the lock in", folder->path, written < 0 ? errno : EIO, error);
    (void)mkt_fault_point("ssd.epoch-written");
    folder->epoch = epoch;
    return MKT_OK;
}

/* Tries O_DIRECT on the lock file; says once why not. */
static void probe_direct(struct ssd_folder *folder)
{
    int fd = openat(folder->fd, LOCK_NAME, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
    int reason = errno;

    folder->memory_align = MKT_SSD_BLOCK_BYTES;
#ifdef STATX_DIOALIGN /* Linux 6.1 */
    struct statx about;
    if (fd >= 0 && statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) == 0 &&
        (about.stx_mask & STATX_DIOALIGN) && about.stx_dio_mem_align > 0) {
        folder->memory_align = about.stx_dio_mem_align;
        reason = EINVAL;
        if (about.stx_dio_offset_align == 0 || about.stx_dio_offset_align > MKT_SSD_BLOCK_BYTES) {
            close(fd);
            fd = -1;
        }
    }
#endif
    void *block = aligned_alloc(MKT_SSD_BLOCK_BYTES, MKT_SSD_BLOCK_BYTES);
    if (fd >= 0 && (block == NULL || pread(fd, block, MKT_SSD_BLOCK_BYTES, 0) < 0)) {
        reason = errno;
        close(fd);
        fd = -1;
    }
    free(block);
    folder->is_direct = fd >= 0;
    if (fd >= 0)
        close(fd);
    else
        mkt_log_info("ssd", "%.1000s: no O_DIRECT (%s), so it goes through the page cache",
                     folder->path, strerror(reason));
}

enum mkt_status mkt_ssd_folder_open(const char *path, const char *name, bool without_direct,
                                    struct ssd_folder *folder, struct mkt_error *error)
{
    struct mkt_ssd_folder_disk about;

    *folder = (struct ssd_folder){.fd = -1, .lock_fd = -1, .memory_align = 1};
    enum mkt_status status = make_folder(path, name, folder, error);
    if (status != MKT_OK)
        return status;
    status = lock_folder(folder, error);
    if (status != MKT_OK) {
        close(folder->fd);
        return status;
    }
    if (read_about(folder->lock_fd, &about))
        folder->epoch = about.epoch;
    if (!without_direct)
        probe_direct(folder);
    if (!folder->is_direct)
        folder->memory_align = 1;
    return MKT_OK;
}

void mkt_ssd_folder_close(struct ssd_folder *folder)
{
    close(folder->lock_fd);
    close(folder->fd);
}

void mkt_ssd_folder_remove(struct ssd_folder *folder)
{
    unlinkat(folder->fd, LOCK_NAME, 0);
    rmdir(folder->path); /* stays if something else lies there */
    mkt_ssd_folder_close(folder);
}

uint64_t mkt_ssd_held_bytes(const char *user_path, const char *name)
{
    char path[PATH_MAX];
    const struct dirent *entry;
    struct stat facts;
    uint64_t bytes = 0;

    snprintf(path, sizeof(path), "%s/%s", user_path, name);
    DIR *list = opendir(path);
    while (list && (entry = readdir(list)))
        if (fstatat(dirfd(list), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(facts.st_mode))
            bytes += (uint64_t)facts.st_blocks * 512;
    if (list)
        closedir(list);
    return bytes;
}
