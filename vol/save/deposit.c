/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/save/save.h"

#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/base/log.h"
#include "core/client/stub_layout.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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
           mkt_timespec_ns(&info->st_mtim) == file->mtime_ns;
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

/* ---- opening ---- */

/* A stub that an attempt which was killed had exchanged already lies under the temporary name: then
 * the path is the one that name was made of. */
static char *path_of(const struct mkt_save_order *order, const char *ordered)
{
    const char *slash = strrchr(ordered, '/');
    size_t folder = slash ? (size_t)(slash - ordered) + 1 : 0;
    size_t leaf = strlen(ordered) - folder, suffix = strlen(MKT_SAVE_SUFFIX);
    char *path = strdup(ordered);

    if (path && order->placed.ino != 0 && leaf > suffix + 1 && path[folder] == '.' &&
        strcmp(path + folder + leaf - suffix, MKT_SAVE_SUFFIX) == 0) {
        memmove(path + folder, path + folder + 1, leaf - suffix - 1);
        path[folder + leaf - suffix - 1] = '\0';
    }
    return path;
}

static enum mkt_status something_else(const struct mkt_save_deposit *deposit,
                                      struct mkt_error *error)
{
    return mkt_error_set(
        error, MKT_EXISTS,
        "%s: something else stands there since, and is left alone; the version "
        "stays in memory: `h5market save` writes it elsewhere, `h5market rm` gives it up",
        deposit->target.path);
}

/* Whether the file may be written in place only. An attempt to do so announces the file itself. */
static void choose_way(struct mkt_save_deposit *deposit, const struct stat *info)
{
    const struct mkt_save_order *order = deposit->order;
    uid_t user = geteuid();

    deposit->expected = (struct mkt_file_identity){.dev = info->st_dev, .ino = info->st_ino};
    deposit->in_place =
        !order->has_stub && (info->st_nlink > 1 || (user != 0 && info->st_uid != user));
    deposit->target.mode = info->st_mode & 07777;
}

/* An attempt that was killed while it wrote in place: what stands there is neither old nor new. */
static bool is_half_written(const struct mkt_save_order *order, const struct stat *info)
{
    return !order->has_stub && order->placed.ino == order->file.ino &&
           is_same(info, &order->placed);
}

static enum mkt_status removed(const struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    return mkt_error_set(error, MKT_NOT_FOUND, "%s was removed", deposit->target.path);
}

static enum mkt_status look_at_path(const struct mkt_save_deposit *deposit, struct stat *info_out,
                                    struct mkt_error *error)
{
    if (lstat(deposit->target.path, info_out) == 0)
        return MKT_OK;
    return errno == ENOENT ? removed(deposit, error)
                           : mkt_save_failed(error, "can't look at", deposit->target.path);
}

/* What had been found at the path, and as it was then. */
static bool is_former(const struct mkt_save_deposit *deposit, const char *path,
                      const struct stat *info)
{
    return is_same(info, &deposit->expected) && is_expected(deposit->order, path, info);
}

/* Sets what is expected at the path, or says what is wrong. */
static enum mkt_status examine(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    const struct mkt_save_order *order = deposit->order;
    struct mkt_save_target *target = &deposit->target;
    struct stat info;
    bool expects = order->has_stub || order->file.ino != 0;

    if (lstat(target->path, &info) != 0) {
        if (errno != ENOENT)
            return mkt_save_failed(error, "can't look at", target->path);
        deposit->there.ino = 0;
        if (expects)
            return removed(deposit, error);
        target->mode = 0666;
        return MKT_OK;
    }
    if (is_half_written(order, &info)) {
        choose_way(deposit, &info);
        deposit->in_place = deposit->resumed = true;
        return MKT_OK;
    }
    deposit->placed = is_same(&info, &order->placed);
    if (deposit->placed)
        return MKT_OK;
    deposit->there.ino = 0;
    if (!expects || !is_expected(order, target->path, &info))
        return something_else(deposit, error);
    choose_way(deposit, &info);
    return MKT_OK;
}

/*
 * What has the temporary name: this order's own file, or what a killed attempt took from the path
 * by the exchange (the stub, the former file, or what somebody else had put there). An attempt
 * announces its file before it exchanges it, so without an announcement the name is its own.
 */
static enum mkt_status examine_temporary(struct mkt_save_deposit *deposit, bool *came_out,
                                         struct mkt_error *error)
{
    const struct mkt_save_order *order = deposit->order;
    struct stat info;

    if (fstat(deposit->target.fd, &info) != 0)
        return mkt_save_failed(error, "can't look at", deposit->target.temporary);
    *came_out = order->placed.ino != 0 && order->placed.ino != order->file.ino &&
                !is_same(&info, &order->placed) && info.st_size > 0;
    deposit->owns_temporary = !*came_out || is_expected(order, deposit->target.temporary, &info);
    return MKT_OK;
}

/* The stub was moved since an attempt that didn't end: what that left where it was. */
static void remove_former(const struct mkt_save_deposit *deposit)
{
    const struct mkt_save_order *order = deposit->order;
    char *path = order->former ? path_of(order, order->former) : NULL;
    struct mkt_save_target former;
    struct mkt_error error;
    struct stat info;

    if (path && mkt_save_target_name(&former, path, &error) == MKT_OK &&
        strcmp(former.temporary, deposit->target.temporary) != 0) {
        int fd = open(former.temporary, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 &&
            (order->placed.ino == 0 || is_same(&info, &order->placed)))
            unlink(former.temporary);
        if (fd >= 0)
            close(fd);
    }
    free(path);
}

static enum mkt_status put_back(struct mkt_save_deposit *deposit, struct mkt_error *error);

/* A path that ended up as a link leads to the file that is meant. */
enum mkt_status mkt_save_deposit_open(struct mkt_save_deposit *deposit,
                                      const struct mkt_save_order *order, struct mkt_error *error)
{
    bool came_out = false;

    *deposit = (struct mkt_save_deposit){
        .order = order, .target = {.fd = -1}, .there = order->placed}; /* as far as is known */
    char *path = path_of(order, order->path);
    if (!path)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    enum mkt_status status = mkt_save_target_take(&deposit->target, path, error);
    free(path);
    if (status == MKT_OK)
        remove_former(deposit);
    if (status == MKT_OK)
        status = examine_temporary(deposit, &came_out, error);
    if (status == MKT_OK)
        status = examine(deposit, error);
    if (status == MKT_OK && !came_out && !deposit->placed)
        status = mkt_save_target_renew(&deposit->target, error);
    if (status != MKT_OK || !came_out)
        return status;
    if (deposit->placed && !deposit->owns_temporary)
        return put_back(deposit, error);
    return deposit->placed ? MKT_OK : something_else(deposit, error);
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
    enum mkt_status status = look_at_path(deposit, &old, error);
    if (status != MKT_OK)
        return status;
    if (fstat(target->fd, &mine) != 0)
        return mkt_save_failed(error, "can't look at", target->temporary);
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
    uint32_t mode;
    enum mkt_status status = take_over_owner(deposit, error);

    if (status != MKT_OK)
        return status;
    if (fsync(target->fd) != 0 || mkt_file_look_fd(target->fd, file_out, &mode) != 0)
        return mkt_save_failed(error, "can't write to", target->temporary);
    mkt_fault_point("archiver.completed");
    if (deposit->in_place)
        *file_out = deposit->expected;
    return MKT_OK;
}

/* ---- placing ---- */

static enum mkt_status conflict(const struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    return mkt_error_set(error, MKT_EXISTS,
                         "%s was replaced while its file was being written; what stands there is "
                         "left alone, and the version stays in memory",
                         deposit->target.path);
}

/* From here on the file is anybody's, and the market has to know of it however the attempt ends. */
static void note_there(struct mkt_save_deposit *deposit)
{
    struct mkt_file_identity file;
    uint32_t mode;

    (void)flock(deposit->target.fd, LOCK_UN);
    if (mkt_file_look_fd(deposit->target.fd, &file, &mode) == 0)
        deposit->there = file;
}

/* Just before the file takes the place of what was expected there. */
static enum mkt_status look_again(const struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    struct stat info;
    enum mkt_status status = look_at_path(deposit, &info, error);

    if (status == MKT_OK && !is_former(deposit, deposit->target.path, &info))
        status = conflict(deposit, error);
    if (status == MKT_OK)
        mkt_fault_point("archiver.looked");
    return status;
}

/* For file systems that can't exchange. */
static enum mkt_status replace(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;

    if (rename(target->temporary, target->path) != 0)
        return mkt_save_failed(error, "can't replace", target->path);
    mkt_fault_point("archiver.replaced");
    note_there(deposit);
    return MKT_OK;
}

static enum mkt_status stuck(const struct mkt_save_deposit *deposit, int why,
                             struct mkt_error *error)
{
    return mkt_error_set(error, mkt_status_from_errno(why),
                         "%s: what somebody else had put there lies at %s and can't be put back: "
                         "%s",
                         deposit->target.path, deposit->target.temporary, strerror(why));
}

/* Takes the file from its path again: it came there by mistake, and what it had displaced is gone.
 */
static enum mkt_status take_back(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat moved;

    if (renameat2(AT_FDCWD, target->path, AT_FDCWD, target->temporary, RENAME_NOREPLACE) == 0) {
        if (lstat(target->temporary, &moved) != 0)
            return mkt_save_failed(error, "can't look at", target->temporary);
        if (!is_same(&moved, &deposit->there)) {
            deposit->there.ino = 0;
            if (renameat2(AT_FDCWD, target->temporary, AT_FDCWD, target->path, RENAME_NOREPLACE) !=
                0)
                return stuck(deposit, errno, error);
            return conflict(deposit, error);
        }
        if (unlink(target->temporary) != 0)
            return mkt_save_failed(error, "can't remove", target->temporary);
    } else if (errno != ENOENT) {
        return mkt_save_failed(error, "can't remove", target->path);
    }
    deposit->there.ino = 0;
    return removed(deposit, error);
}

/* What the exchange brought out goes back to where it was, or where it would be by now. */
static enum mkt_status put_back(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    int failure;

    mkt_fault_point("archiver.before-put-back");
    deposit->owns_temporary = false;
    if (renameat2(AT_FDCWD, target->temporary, AT_FDCWD, target->path, RENAME_EXCHANGE) == 0) {
        mkt_fault_point("archiver.put-back");
        deposit->there.ino = 0;
        if (unlink(target->temporary) != 0)
            return mkt_save_failed(error, "can't remove", target->temporary);
        return conflict(deposit, error);
    }
    failure = errno;
    if (failure == ENOENT) { /* one of the two is gone */
        if (renameat2(AT_FDCWD, target->temporary, AT_FDCWD, target->path, RENAME_NOREPLACE) == 0) {
            deposit->there.ino = 0;
            return conflict(deposit, error);
        }
        failure = errno;
        if (failure == ENOENT)
            return take_back(deposit, error);
    }
    return stuck(deposit, failure, error);
}

static enum mkt_status remove_temporary(const struct mkt_save_target *target,
                                        struct mkt_error *error)
{
    if (unlink(target->temporary) != 0 && errno != ENOENT)
        return mkt_save_failed(error, "can't remove", target->temporary);
    mkt_fault_point("archiver.unlinked");
    return MKT_OK;
}

/* Who has the former file open for writing, under HDF5's lock, would go on writing into what no
 * path leads to any more. *fd_out holds a lock against that until it is closed; -1: none is needed.
 */
static enum mkt_status lock_former(const struct mkt_save_deposit *deposit, int *fd_out,
                                   struct mkt_error *error)
{
    const char *path = deposit->target.path;

    *fd_out = -1;
    if (deposit->order->has_stub)
        return MKT_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        return mkt_error_set(error, MKT_BUSY, "%s is open for writing in another program", path);
    }
    *fd_out = fd;
    return MKT_OK;
}

static enum mkt_status exchange(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat info;
    enum mkt_status status = look_again(deposit, error);

    if (status != MKT_OK)
        return status;
    if (renameat2(AT_FDCWD, target->temporary, AT_FDCWD, target->path, RENAME_EXCHANGE) != 0) {
        if (errno == EINVAL || errno == ENOSYS)
            return replace(deposit, error);
        if (errno == ENOENT)
            return removed(deposit, error);
        return mkt_save_failed(error, "can't replace", target->path);
    }
    mkt_fault_point("archiver.exchanged");
    note_there(deposit);
    if (lstat(target->temporary, &info) != 0 || !is_former(deposit, target->temporary, &info))
        return put_back(deposit, error);
    return remove_temporary(target, error);
}

static enum mkt_status create(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    bool linked = false;

    if (renameat2(AT_FDCWD, target->temporary, AT_FDCWD, target->path, RENAME_NOREPLACE) != 0) {
        linked = (errno == EINVAL || errno == ENOSYS) && link(target->temporary, target->path) == 0;
        if (!linked)
            return errno == EEXIST ? conflict(deposit, error)
                                   : mkt_save_failed(error, "can't create", target->path);
    }
    mkt_fault_point("archiver.created");
    note_there(deposit);
    return linked ? remove_temporary(target, error) : MKT_OK;
}

/* One run of bytes of `from` into the same place of `to`; false: errno says why. */
static bool write_all(int to, const char *bytes, size_t count, off_t at)
{
    for (size_t done = 0; done < count;) {
        ssize_t written = pwrite(to, bytes + done, count - done, at + (off_t)done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        done += (size_t)written;
    }
    return true;
}

static bool copy_bytes(int from, int to, char *buffer)
{
    off_t at = 0;
    ssize_t bytes;

    while ((bytes = pread(from, buffer, COPY_BYTES, at)) > 0) {
        if (!write_all(to, buffer, (size_t)bytes, at))
            return false;
        mkt_fault_point("archiver.in-place-half");
        at += bytes;
    }
    return bytes == 0 && ftruncate(to, at) == 0 && fsync(to) == 0;
}

/* Space for all of it before the first byte is changed, where the file system can promise it. */
static enum mkt_status reserve_space(int fd, int from, const char *path, struct mkt_error *error)
{
    struct stat info;

    if (fstat(from, &info) != 0)
        return mkt_save_failed(error, "can't look at the copy of", path);
    if (info.st_size > 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, info.st_size) != 0 &&
        errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return mkt_save_failed(error, "can't write to", path);
    return MKT_OK;
}

static enum mkt_status overwrite(struct mkt_save_deposit *deposit, int fd, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    char *buffer = malloc(COPY_BYTES);

    if (!buffer)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    enum mkt_status status = reserve_space(fd, target->fd, target->path, error);
    if (status == MKT_OK) {
        deposit->there = deposit->expected;
        if (!copy_bytes(target->fd, fd, buffer))
            status = mkt_save_failed(error, "can't write to", target->path);
    }
    free(buffer);
    return status;
}

/* Whoever relies on the old file being whole at each moment should know. */
static void say_in_place(const struct mkt_save_target *target, const struct stat *info)
{
    if (info->st_nlink > 1)
        mkt_log_info("archiver", "%s was written in place, since it has %lu hard links",
                     target->path, (unsigned long)info->st_nlink);
    else
        mkt_log_info("archiver", "%s was written in place, since it is another user's",
                     target->path);
}

/* Its hard links stay one file, its owner stays. Until the copy is complete the temporary file is,
 * too; meanwhile programs that use HDF5's locks find the file locked. */
static enum mkt_status write_in_place(struct mkt_save_deposit *deposit,
                                      struct mkt_file_identity *file_out, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat info;
    uint32_t mode;
    enum mkt_status status = MKT_OK;
    int fd = open(target->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return mkt_save_failed(error, "can't open", target->path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        status = mkt_error_set(error, MKT_BUSY, "%s can only be written in place, and is open",
                               target->path);
    else if (fstat(fd, &info) != 0 || !is_same(&info, &deposit->expected) ||
             (!deposit->resumed && !is_unchanged(&info, &deposit->order->file)))
        status = conflict(deposit, error);
    if (status == MKT_OK)
        status = overwrite(deposit, fd, error);
    if (status == MKT_OK && mkt_file_look_fd(fd, file_out, &mode) != 0)
        status = mkt_save_failed(error, "can't look at", target->path);
    if (status == MKT_OK) {
        mkt_fault_point("archiver.in-place-synced");
        say_in_place(target, &info);
        status = remove_temporary(target, error);
    }
    close(fd);
    return status;
}

static enum mkt_status sync_placed(struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    enum mkt_status status = mkt_save_target_sync_folder(&deposit->target, error);

    if (status == MKT_OK)
        mkt_fault_point("archiver.folder-synced");
    return status;
}

/* What an attempt that was killed had put there already. */
static enum mkt_status finish_placed(struct mkt_save_deposit *deposit,
                                     struct mkt_file_identity *file_out, struct mkt_error *error)
{
    struct mkt_save_target *target = &deposit->target;
    struct mkt_file_identity file;
    uint32_t mode;

    if (mkt_file_look(target->path, &file, &mode) != 0)
        return mkt_save_failed(error, "can't look at", target->path);
    enum mkt_status status = remove_temporary(target, error);
    if (status == MKT_OK)
        status = sync_placed(deposit, error);
    if (status == MKT_OK)
        *file_out = file;
    return status;
}

enum mkt_status mkt_save_deposit_place(struct mkt_save_deposit *deposit,
                                       struct mkt_file_identity *file_out, struct mkt_error *error)
{
    enum mkt_status status;

    if (deposit->placed)
        return finish_placed(deposit, file_out, error);
    if (deposit->in_place)
        return write_in_place(deposit, file_out, error);
    int former = -1;
    status = mkt_save_target_share(&deposit->target, error);
    if (status == MKT_OK && deposit->expected.ino != 0)
        status = lock_former(deposit, &former, error);
    if (status == MKT_OK)
        status = deposit->expected.ino != 0 ? exchange(deposit, error) : create(deposit, error);
    if (former >= 0)
        close(former);
    if (status == MKT_OK && deposit->there.ino == 0)
        status = mkt_save_failed(error, "can't look at", deposit->target.path);
    if (status == MKT_OK)
        status = sync_placed(deposit, error);
    if (status == MKT_OK)
        *file_out = deposit->there;
    return status;
}

void mkt_save_deposit_close(struct mkt_save_deposit *deposit)
{
    struct mkt_save_target *target = &deposit->target;
    struct stat mine, named;

    if (target->fd < 0)
        return;
    /* Not what somebody else may have put there, nor what the next attempt needs. */
    if (deposit->owns_temporary && deposit->there.ino == 0 && fstat(target->fd, &mine) == 0 &&
        lstat(target->temporary, &named) == 0 && mine.st_ino == named.st_ino &&
        mine.st_dev == named.st_dev)
        unlink(target->temporary);
    close(target->fd);
    target->fd = -1;
}
