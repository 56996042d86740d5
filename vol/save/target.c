/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that is being made: .<name>.h5market-tmp in the target's folder, locked while this
 * process lives, renamed when it is whole. What a killed process left is taken over.
 */
#include "vol/save/save.h"

#include "core/base/fault.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILL_BYTES (8u << 20)

enum mkt_status mkt_save_failed(struct mkt_error *error, const char *what, const char *path)
{
    int reason = errno;
    return mkt_error_set(error, mkt_status_from_errno(reason), "%s %s: %s%s", what, path,
                         strerror(reason),
                         reason == ENOSPC || reason == EDQUOT ? "; make room there" : "");
}

static const char *leaf_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static enum mkt_status too_long(struct mkt_error *error, const char *path)
{
    return mkt_error_set(error, MKT_INVALID, "%s: the path is too long", path);
}

/* What may stand at the path, and with which mode. */
static enum mkt_status examine(struct mkt_save_target *target, bool force, struct mkt_error *error)
{
    struct stat found;
    mode_t mask = umask(0);
    umask(mask);
    target->mode = 0666 & ~mask;
    if (lstat(target->path, &found) != 0)
        return errno == ENOENT ? MKT_OK : mkt_save_failed(error, "can't look at", target->path);
    if (!S_ISREG(found.st_mode))
        return mkt_error_set(error, MKT_INVALID, "%s is no ordinary file; name another target",
                             target->path);
    if (!force) {
        bool stub = mkt_path_kind(target->path) == MKT_PATH_STUB;
        return mkt_error_set(error, MKT_EXISTS,
                             stub ? "%s stands for a file in the market; name another target, or "
                                    "--force to replace it: "
                                    "what the market holds under that name is then withdrawn"
                                  : "%s exists; name another target, or --force to replace it",
                             target->path);
    }
    target->replace = true;
    target->is_stub = mkt_path_object(target->path, target->object);
    target->mode = found.st_mode & 07777;
    return MKT_OK;
}

/* Sets path (a folder becomes the file in it, a link what it leads to), folder and temporary. */
static enum mkt_status name_all(struct mkt_save_target *target, const char *path,
                                const char *source, struct mkt_error *error)
{
    struct stat found;
    char resolved[PATH_MAX];
    int length = snprintf(target->path, PATH_MAX, "%s", path);
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode))
        length = snprintf(target->path, PATH_MAX, "%s%s%s", path, leaf_of(path)[0] ? "/" : "",
                          leaf_of(source));
    if (length < 0 || length >= PATH_MAX)
        return too_long(error, path);
    if (lstat(target->path, &found) == 0 && S_ISLNK(found.st_mode)) {
        if (!realpath(target->path, resolved))
            return mkt_save_failed(error, "can't follow the link", target->path);
        strcpy(target->path, resolved);
    }
    const char *leaf = leaf_of(target->path);
    int before = (int)(leaf - target->path);
    if (!leaf[0])
        return mkt_error_set(error, MKT_INVALID, "there is no folder %s", target->path);
    snprintf(target->folder, PATH_MAX, "%.*s", before ? before : 1, before ? target->path : ".");
    if (snprintf(target->temporary, PATH_MAX, "%.*s.%s" MKT_SAVE_SUFFIX, before, target->path,
                 leaf) >= PATH_MAX)
        return too_long(error, path);
    return MKT_OK;
}

/* Opens and locks the temporary file, the one that has the name now. */
static enum mkt_status take_temporary(struct mkt_save_target *target, struct mkt_error *error)
{
    struct stat mine, named;
    for (int tries = 0; tries < 10; tries++) {
        int fd = open(target->temporary, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        target->read_only = fd < 0 && errno == EACCES;
        if (target->read_only)
            fd = open(target->temporary, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && target->read_only)
            errno = EACCES; /* whatever the second attempt met */
        if (fd < 0)
            return mkt_save_failed(error, "can't create", target->temporary);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            close(fd);
            return mkt_error_set(error, MKT_BUSY, "%s is being saved by another process",
                                 target->path);
        }
        if (fstat(fd, &mine) == 0 && lstat(target->temporary, &named) == 0 &&
            mine.st_ino == named.st_ino && mine.st_dev == named.st_dev) {
            target->fd = fd;
            return MKT_OK;
        }
        close(fd); /* another process finished between our open and our lock */
    }
    return mkt_error_set(error, MKT_BUSY, "%s is being saved by other processes", target->path);
}

/* The lock is of the kind that HDF5 uses. Without it a reader could open the file in the moment
 * between the rename and our close, and be refused. */
enum mkt_status mkt_save_target_share(const struct mkt_save_target *target, struct mkt_error *error)
{
    if (flock(target->fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return mkt_error_set(error, MKT_BUSY, "%s is being saved by another process", target->path);
    return MKT_OK;
}

enum mkt_status mkt_save_target_renew(struct mkt_save_target *target, struct mkt_error *error)
{
    if (!target->read_only)
        return MKT_OK;
    if (unlink(target->temporary) != 0)
        return mkt_save_failed(error, "can't remove", target->temporary);
    close(target->fd);
    target->fd = -1;
    return take_temporary(target, error);
}

enum mkt_status mkt_save_target_open(struct mkt_save_target *target, const char *path,
                                     const char *source, bool force, struct mkt_error *error)
{
    memset(target, 0, sizeof(*target));
    target->fd = -1;
    enum mkt_status status = name_all(target, path, source, error);
    if (status == MKT_OK)
        status = examine(target, force, error);
    if (status == MKT_OK)
        status = take_temporary(target, error);
    return status == MKT_OK ? mkt_save_target_renew(target, error) : status;
}

enum mkt_status mkt_save_target_name(struct mkt_save_target *target, const char *path,
                                     struct mkt_error *error)
{
    memset(target, 0, sizeof(*target));
    target->fd = -1;
    return name_all(target, path, path, error);
}

enum mkt_status mkt_save_target_take(struct mkt_save_target *target, const char *path,
                                     struct mkt_error *error)
{
    enum mkt_status status = mkt_save_target_name(target, path, error);
    return status == MKT_OK ? take_temporary(target, error) : status;
}

enum mkt_status mkt_save_target_fill(const struct mkt_save_target *target, const void *image,
                                     uint64_t image_bytes, struct mkt_save_progress *progress,
                                     struct mkt_error *error)
{
    if (ftruncate(target->fd, 0) != 0)
        return mkt_save_failed(error, "can't write to", target->temporary);
    for (uint64_t done = 0; done < image_bytes;) {
        size_t part = image_bytes - done < FILL_BYTES ? image_bytes - done : FILL_BYTES;
        ssize_t written = pwrite(target->fd, (const char *)image + done, part, (off_t)done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return mkt_save_failed(error, "can't write to", target->temporary);
        done += (uint64_t)written;
        enum mkt_status status = mkt_save_moved(progress, (uint64_t)written, error);
        if (status != MKT_OK)
            return status;
    }
    return MKT_OK;
}

enum mkt_status mkt_save_target_sync_folder(const struct mkt_save_target *target,
                                            struct mkt_error *error)
{
    enum mkt_status status = mkt_fault_point("save.folder-sync");
    if (status != MKT_OK)
        return mkt_error_set(error, status, "can't write the folder %s: %s", target->folder,
                             mkt_status_text(status));
    int folder = open(target->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return mkt_save_failed(error, "can't open the folder", target->folder);
    int failed = fsync(folder);
    int reason = errno;
    close(folder);
    if (failed && reason != EINVAL) { /* a file system that has nothing to sync */
        errno = reason;
        return mkt_save_failed(error, "can't write the folder", target->folder);
    }
    return MKT_OK;
}

/* A rename that replaces nothing unless it may. */
static int rename_into_place(const struct mkt_save_target *target)
{
    if (target->replace)
        return rename(target->temporary, target->path);
    if (renameat2(AT_FDCWD, target->temporary, AT_FDCWD, target->path, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* A file system without that flag. */
    if (link(target->temporary, target->path) != 0)
        return -1;
    unlink(target->temporary);
    return 0;
}

enum mkt_status mkt_save_target_finish(struct mkt_save_target *target, struct mkt_error *error)
{
    if (fchmod(target->fd, target->mode) != 0 || fsync(target->fd) != 0)
        return mkt_save_failed(error, "can't write to", target->temporary);
    enum mkt_status status = mkt_save_target_share(target, error);
    if (status != MKT_OK)
        return status;
    if (rename_into_place(target) != 0)
        return mkt_save_failed(error, "can't create", target->path);
    close(target->fd);
    target->fd = -1;
    return mkt_save_target_sync_folder(target, error);
}

void mkt_save_target_close(struct mkt_save_target *target)
{
    if (target->fd < 0)
        return;
    unlink(target->temporary);
    close(target->fd);
    target->fd = -1;
}
