/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/save/save.h"

#include "core/client/stub_layout.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define XATTR_LIST_MAX  65536
#define XATTR_VALUE_MAX 65536
#define COPY_BYTES      (8u << 20)

/* ---- what stands at the path ---- */

static bool is_same(const struct stat *info, const struct mkt_file_identity *file)
{
    return file->ino != 0 && info->st_dev == file->dev && info->st_ino == file->ino;
}

/* As the market knows files: also its size and its time are those. */
static bool is_unchanged(const struct stat *info, const struct mkt_file_identity *file)
{
    return is_same(info, file) && (uint64_t)info->st_size == file->size &&
           (uint64_t)info->st_mtim.tv_sec * 1000000000u + (uint64_t)info->st_mtim.tv_nsec ==
               file->mtime_ns;
}

static bool is_stub_of(const char *path, const uint8_t object[MKT_ID_BYTES])
{
    struct mkt_stub_disk stub;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool is = pread(fd, &stub, sizeof(stub), 0) == (ssize_t)sizeof(stub) &&
              mkt_stub_is_valid(&stub) && memcmp(stub.object, object, MKT_ID_BYTES) == 0;
    close(fd);
    return is;
}

/* True if what stands at `path` is what the order's file may take the place of. */
static bool is_expected(const struct mkt_save_order *order, const char *path,
                        const struct stat *info)
{
    if (!S_ISREG(info->st_mode))
        return false;
    if (order->has_stub)
        return is_stub_of(path, order->object);
    return is_unchanged(info, &order->file);
}

static struct mkt_file_identity identity_of(int fd, const struct stat *info)
{
    struct statx more;
    struct mkt_file_identity file = {.dev = info->st_dev,
                                     .ino = info->st_ino,
                                     .size = (uint64_t)info->st_size,
                                     .mtime_ns = (uint64_t)info->st_mtim.tv_sec * 1000000000u +
                                                 (uint64_t)info->st_mtim.tv_nsec};
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &more) == 0 && (more.stx_mask & STATX_BTIME))
        file.birth_ns =
            (uint64_t)more.stx_btime.tv_sec * 1000000000u + (uint64_t)more.stx_btime.tv_nsec;
    return file;
}

/* ---- opening ---- */

/* A stub that an attempt which was killed had exchanged already lies under the temporary name: then
 * the path is the one that name was made of. */
static char *path_of(const struct mkt_save_order *order)
{
    const char *slash = strrchr(order->path, '/');
    size_t folder = slash ? (size_t)(slash - order->path) + 1 : 0;
    size_t leaf = strlen(order->path) - folder, suffix = strlen(MKT_SAVE_SUFFIX);
    char *path = strdup(order->path);

    if (path && order->placed.ino != 0 && leaf > suffix + 1 && path[folder] == '.' &&
        strcmp(path + folder + leaf - suffix, MKT_SAVE_SUFFIX) == 0) {
        memmove(path + folder, path + folder + 1, leaf - suffix - 1);
        path[folder + leaf - suffix - 1] = '\0';
    }
    return path;
}

/* Sets what is expected, or says what is wrong. */
static enum mkt_status examine(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    const struct mkt_save_order *order = deposit->order;
    struct mkt_save_target *target = &deposit->target;
    struct stat info;
    bool expects = order->has_stub || order->file.ino != 0;

    if (lstat(target->path, &info) != 0) {
        if (errno != ENOENT)
            return mkt_save_failed(error, "can't look at", target->path);
        if (expects)
            return mkt_error_set(error, MKT_NOT_FOUND, "%s was removed", target->path);
        target->mode = 0666;
        return MKT_OK;
    }
    deposit->placed = is_same(&info, &order->placed);
    if (deposit->placed)
        return MKT_OK;
    if (!expects || !is_expected(order, target->path, &info))
        return mkt_error_set(error, MKT_EXISTS,
                             "%s: something else stands there since, and is left alone; the "
                             "version stays in memory: `h5market save` writes it elsewhere",
                             target->path);
    deposit->expected = (struct mkt_file_identity){.dev = info.st_dev, .ino = info.st_ino};
    deposit->in_place = !order->has_stub && info.st_nlink > 1;
    target->mode = info.st_mode & 07777;
    return MKT_OK;
}

/* A path that ended up as a link leads to the file that is meant. */
enum mkt_status mkt_save_deposit_open(struct mkt_save_deposit *deposit,
                                      const struct mkt_save_order *order, struct mkt_error *error)
{
    *deposit = (struct mkt_save_deposit){.order = order, .target = {.fd = -1}};
    char *path = path_of(order);
    if (!path)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    enum mkt_status status = mkt_save_target_take(&deposit->target, path, error);
    free(path);
    return status == MKT_OK ? examine(deposit, error) : status;
}

/* ---- completing ---- */

/* Extended attributes and access lists go along as far as the file system takes them. */
static void copy_attributes(const char *from, int to)
{
    static char list[XATTR_LIST_MAX], value[XATTR_VALUE_MAX];
    ssize_t length = llistxattr(from, list, sizeof(list));

    for (ssize_t at = 0; at < length; at += (ssize_t)strlen(list + at) + 1) {
        ssize_t bytes = lgetxattr(from, list + at, value, sizeof(value));
        if (bytes >= 0)
            (void)fsetxattr(to, list + at, value, (size_t)bytes, 0);
    }
}

static enum mkt_status take_over_owner(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat old, mine;

    if (deposit->expected.ino == 0) {
        mode_t mask = umask(0);
        umask(mask);
        return fchmod(target->fd, target->mode & ~mask) == 0
                   ? MKT_OK
                   : mkt_save_failed(error, "can't set the mode of", target->temporary);
    }
    if (lstat(target->path, &old) != 0 || fstat(target->fd, &mine) != 0)
        return mkt_save_failed(error, "can't look at", target->path);
    if ((old.st_uid != mine.st_uid || old.st_gid != mine.st_gid) &&
        fchown(target->fd, old.st_uid, old.st_gid) != 0 &&
        fchown(target->fd, (uid_t)-1, old.st_gid) != 0 && old.st_uid != mine.st_uid)
        return mkt_save_failed(error, "can't give the owner of the former file to", target->path);
    copy_attributes(target->path, target->fd);
    if (fchmod(target->fd, target->mode) != 0)
        return mkt_save_failed(error, "can't set the mode of", target->temporary);
    return MKT_OK;
}

enum mkt_status mkt_save_deposit_complete(struct mkt_save_deposit *deposit,
                                          struct mkt_file_identity *file_out,
                                          struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat info;
    enum mkt_status status = take_over_owner(deposit, error);

    if (status != MKT_OK)
        return status;
    if (fsync(target->fd) != 0 || fstat(target->fd, &info) != 0)
        return mkt_save_failed(error, "can't write to", target->temporary);
    *file_out = identity_of(target->fd, &info);
    return MKT_OK;
}

/* ---- placing ---- */

static enum mkt_status conflict(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    return mkt_error_set(error, MKT_EXISTS,
                         "%s was replaced while its file was being written; what stands there is "
                         "left alone, and the version stays in memory",
                         deposit->target.path);
}

static enum mkt_status sync_folder(const struct mkt_save_target *target, struct mkt_error *error)
{
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

/* For file systems that can't exchange: what stands there is looked at just before. */
static enum mkt_status replace(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat info;

    if (lstat(target->path, &info) != 0 || !is_same(&info, &deposit->expected) ||
        !is_expected(deposit->order, target->path, &info))
        return conflict(deposit, error);
    if (rename(target->temporary, target->path) != 0)
        return mkt_save_failed(error, "can't replace", target->path);
    return MKT_OK;
}

static enum mkt_status exchange(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat info;

    if (renameat2(AT_FDCWD, target->temporary, AT_FDCWD, target->path, RENAME_EXCHANGE) != 0) {
        if (errno == EINVAL || errno == ENOSYS)
            return replace(deposit, error);
        if (errno == ENOENT)
            return mkt_error_set(error, MKT_NOT_FOUND, "%s was removed", target->path);
        return mkt_save_failed(error, "can't replace", target->path);
    }
    /* What came out: the one that was expected, and as it was. */
    if (lstat(target->temporary, &info) != 0 || !is_same(&info, &deposit->expected) ||
        !is_expected(deposit->order, target->temporary, &info)) {
        if (renameat2(AT_FDCWD, target->temporary, AT_FDCWD, target->path, RENAME_EXCHANGE) != 0)
            return mkt_save_failed(error, "can't put back what somebody else put at", target->path);
        return conflict(deposit, error);
    }
    if (unlink(target->temporary) != 0)
        return mkt_save_failed(error, "can't remove", target->temporary);
    return MKT_OK;
}

static enum mkt_status create(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;

    if (renameat2(AT_FDCWD, target->temporary, AT_FDCWD, target->path, RENAME_NOREPLACE) == 0)
        return MKT_OK;
    if ((errno == EINVAL || errno == ENOSYS) && link(target->temporary, target->path) == 0) {
        unlink(target->temporary);
        return MKT_OK;
    }
    return errno == EEXIST ? conflict(deposit, error)
                           : mkt_save_failed(error, "can't create", target->path);
}

static enum mkt_status copy_bytes(int from, int to, const char *path, struct mkt_error *error)
{
    char *buffer = malloc(COPY_BYTES);
    off_t at = 0;
    ssize_t read = 0, written = 0;

    while (buffer && (read = pread(from, buffer, COPY_BYTES, at)) > 0) {
        for (ssize_t done = 0; done < read; done += written) {
            written = pwrite(to, buffer + done, (size_t)(read - done), at + done);
            if (written <= 0)
                break;
        }
        if (written <= 0)
            break;
        at += read;
    }
    free(buffer);
    if (!buffer)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    if (read < 0 || (read > 0 && written <= 0) || ftruncate(to, at) != 0 || fsync(to) != 0)
        return mkt_save_failed(error, "can't write to", path);
    return MKT_OK;
}

/* Its hard links stay one file. Until the copy is complete the temporary file is, too. */
static enum mkt_status write_in_place(struct mkt_save_deposit *deposit,
                                      struct mkt_file_identity *file_out, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat info;
    int fd = open(target->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return mkt_save_failed(error, "can't open", target->path);
    enum mkt_status status = MKT_OK;
    if (fstat(fd, &info) != 0 || !is_same(&info, &deposit->expected))
        status = conflict(deposit, error);
    if (status == MKT_OK)
        status = copy_bytes(target->fd, fd, target->path, error);
    if (status == MKT_OK && fstat(fd, &info) != 0)
        status = mkt_save_failed(error, "can't look at", target->path);
    if (status == MKT_OK) {
        *file_out = identity_of(fd, &info);
        unlink(target->temporary);
    }
    close(fd);
    return status;
}

/* What an attempt that was killed had put there already. */
static enum mkt_status finish_placed(struct mkt_save_deposit *deposit,
                                     struct mkt_file_identity *file_out, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat info;
    int fd = open(target->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 || fstat(fd, &info) != 0) {
        if (fd >= 0)
            close(fd);
        return mkt_save_failed(error, "can't look at", target->path);
    }
    *file_out = identity_of(fd, &info);
    close(fd);
    unlink(target->temporary);
    return sync_folder(target, error);
}

enum mkt_status mkt_save_deposit_place(struct mkt_save_deposit *deposit,
                                       struct mkt_file_identity *file_out, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat info;
    enum mkt_status status;

    if (deposit->placed)
        return finish_placed(deposit, file_out, error);
    if (deposit->in_place)
        return write_in_place(deposit, file_out, error);
    status = deposit->expected.ino != 0 ? exchange(deposit, error) : create(deposit, error);
    if (status != MKT_OK)
        return status;
    if (fstat(target->fd, &info) != 0)
        return mkt_save_failed(error, "can't look at", target->path);
    *file_out = identity_of(target->fd, &info);
    close(target->fd);
    target->fd = -1;
    return sync_folder(target, error);
}

void mkt_save_deposit_close(struct mkt_save_deposit *deposit)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat mine, named;

    if (target->fd < 0)
        return;
    /* Under the temporary name may lie what couldn't be put back: that is somebody's. */
    if (fstat(target->fd, &mine) == 0 && lstat(target->temporary, &named) == 0 &&
        mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
        unlink(target->temporary);
    close(target->fd);
    target->fd = -1;
}
