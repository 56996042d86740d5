/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static enum mkt_status fail(const struct mkt_folder *folder, const char *what, const char *name,
                            struct mkt_error *error)
{
    int kept = errno;

    return mkt_error_set(error, mkt_status_from_errno(kept), "cannot %s %.400s/%s: %s", what,
                         folder->path, name, strerror(kept));
}

enum mkt_status mkt_folder_open(const char *path, struct mkt_folder *folder_out,
                                struct mkt_error *error)
{
    struct mkt_folder folder = {.lock_fd = -1};
    struct stat facts;

    snprintf(folder.path, sizeof(folder.path), "%s", path);
    folder.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.fd < 0)
        return fail(&folder, "open", "", error);
    if (fstat(folder.fd, &facts) != 0 || facts.st_uid != geteuid() || (facts.st_mode & 077)) {
        close(folder.fd);
        return mkt_error_set(error, MKT_DENIED,
                             "%.400s must belong to this user and be closed to others (chmod 0700)",
                             path);
    }
    *folder_out = folder;
    return MKT_OK;
}

void mkt_folder_close(struct mkt_folder *folder)
{
    if (folder->lock_fd >= 0)
        close(folder->lock_fd);
    if (folder->fd >= 0)
        close(folder->fd);
    folder->fd = folder->lock_fd = -1;
}

/* True if the lock file that we hold is still the one in the folder: who leaves removes it. */
static bool lock_is_current(const struct mkt_folder *folder, int fd)
{
    struct stat held, there;

    return fstat(fd, &held) == 0 &&
           fstatat(folder->fd, MKT_FOLDER_LOCK, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

enum mkt_status mkt_folder_lock(struct mkt_folder *folder, struct mkt_error *error)
{
    for (int tries = 0; tries < 100; tries++) {
        int fd =
            openat(folder->fd, MKT_FOLDER_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return fail(folder, "open", MKT_FOLDER_LOCK, error);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            bool busy = errno == EWOULDBLOCK || errno == EINTR;
            enum mkt_status status =
                busy ? mkt_error_set(error, MKT_BUSY, "another daemon holds %.400s", folder->path)
                     : fail(folder, "lock", MKT_FOLDER_LOCK, error);
            close(fd);
            return status;
        }
        if (lock_is_current(folder, fd)) {
            folder->lock_fd = fd;
            return MKT_OK;
        }
        close(fd);
    }
    return mkt_error_set(error, MKT_BUSY, "the lock of %.400s changes all the time", folder->path);
}

/* The socket's address through the folder's descriptor, which is short whatever the folder's name.
 */
static void make_address(const struct mkt_folder *folder, struct sockaddr_un *address_out)
{
    *address_out = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address_out->sun_path, sizeof(address_out->sun_path),
             "/proc/self/fd/%d/" MKT_FOLDER_SOCKET, folder->fd);
    if (access("/proc/self/fd", X_OK) != 0)
        snprintf(address_out->sun_path, sizeof(address_out->sun_path), "%.90s/" MKT_FOLDER_SOCKET,
                 folder->path);
}

enum mkt_status mkt_folder_listen(struct mkt_folder *folder, int *fd_out, struct mkt_error *error)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return fail(folder, "make", MKT_FOLDER_SOCKET, error);
    make_address(folder, &address);
    if (unlinkat(folder->fd, MKT_FOLDER_SOCKET, 0) != 0 && errno != ENOENT)
        goto err_socket;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        goto err_socket;
    if (fchmodat(folder->fd, MKT_FOLDER_SOCKET, 0600, 0) != 0 || listen(fd, SOMAXCONN) != 0)
        goto err_bind;
    *fd_out = fd;
    return MKT_OK;

err_bind:
    mkt_folder_unlisten(folder);
err_socket:
    fail(folder, "listen on", MKT_FOLDER_SOCKET, error);
    close(fd);
    return error ? error->status : MKT_IO_ERROR;
}

void mkt_folder_hide_socket(struct mkt_folder *folder)
{
    renameat(folder->fd, MKT_FOLDER_SOCKET, folder->fd, MKT_FOLDER_HIDDEN);
}

void mkt_folder_show_socket(struct mkt_folder *folder)
{
    renameat(folder->fd, MKT_FOLDER_HIDDEN, folder->fd, MKT_FOLDER_SOCKET);
}

void mkt_folder_unlisten(struct mkt_folder *folder)
{
    unlinkat(folder->fd, MKT_FOLDER_SOCKET, 0);
    unlinkat(folder->fd, MKT_FOLDER_HIDDEN, 0);
}

enum mkt_status mkt_folder_write_pid(struct mkt_folder *folder, const char *name, int pid,
                                     struct mkt_error *error)
{
    int fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0 || dprintf(fd, "%d\n", pid) < 0) {
        enum mkt_status status = fail(folder, "write", name, error);
        if (fd >= 0)
            close(fd);
        return status;
    }
    close(fd);
    return MKT_OK;
}

void mkt_folder_leave(struct mkt_folder *folder)
{
    unlinkat(folder->fd, MKT_FOLDER_PID, 0);
    unlinkat(folder->fd, MKT_FOLDER_WORKER, 0);
    unlinkat(folder->fd, MKT_FOLDER_LOCK, 0);
    if (folder->lock_fd >= 0)
        close(folder->lock_fd);
    folder->lock_fd = -1;
}

static int read_pid(const struct mkt_folder *folder)
{
    char text[32] = "";
    int fd = openat(folder->fd, MKT_FOLDER_PID, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    return n > 0 ? (int)strtol(text, NULL, 10) : 0;
}

bool mkt_folder_has_listener(const struct mkt_folder *folder, int *pid_out)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool there;

    if (fd < 0)
        return false;
    make_address(folder, &address);
    there = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN;
    close(fd);
    *pid_out = read_pid(folder);
    return there;
}

bool mkt_folder_is_lost(const struct mkt_folder *folder)
{
    char path[PATH_MAX + 32];
    struct stat held, there;

    snprintf(path, sizeof(path), "%s/" MKT_FOLDER_LOCK, folder->path);
    if (lstat(path, &there) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    return fstat(folder->lock_fd, &held) == 0 &&
           (held.st_dev != there.st_dev || held.st_ino != there.st_ino);
}

enum mkt_status mkt_folder_open_log(const struct mkt_folder *folder, enum mkt_log_level level,
                                    struct mkt_error *error)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/self/fd/%d/" MKT_FOLDER_LOG, folder->fd);
    if (mkt_log_open_file(path, level) != MKT_OK)
        return fail(folder, "write", MKT_FOLDER_LOG, error);
    fd = openat(folder->fd, MKT_FOLDER_LOG, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        dup2(fd, STDERR_FILENO);
        close(fd);
    }
    return MKT_OK;
}

void mkt_folder_rotate_log(const struct mkt_folder *folder)
{
    struct stat facts;
    struct mkt_error error;

    if (fstatat(folder->fd, MKT_FOLDER_LOG, &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
        facts.st_size < MKT_FOLDER_LOG_BYTES)
        return;
    if (renameat(folder->fd, MKT_FOLDER_LOG, folder->fd, MKT_FOLDER_LOG_BEFORE) == 0)
        if (mkt_folder_open_log(folder, mkt_log_level(), &error) != MKT_OK)
            mkt_log_warning("daemon", "%s", error.text);
}
