/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/client/connect.h"
#include "core/base/clock.h"
#include "core/client/directory.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A socket's name holds 107 bytes; /proc gives every folder a short one. */
static void socket_address(const char *directory, int directory_fd, struct sockaddr_un *address_out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length =
        snprintf(address.sun_path, sizeof(address.sun_path), "%s/" MKT_SOCKET_NAME, directory);
    if (length < 0 || (size_t)length >= sizeof(address.sun_path))
        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" MKT_SOCKET_NAME,
                 directory_fd);
    *address_out = address;
}

static enum mkt_status connect_before(int fd, const struct sockaddr_un *address,
                                      const char *directory, uint64_t deadline_ms,
                                      struct mkt_error *error)
{
    while (connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0) {
        if (errno == ECONNREFUSED || errno == ENOENT)
            return mkt_error_set(error, MKT_NOT_FOUND, "no market daemon listens in %s", directory);
        if (errno != EAGAIN && errno != EINTR)
            return mkt_error_set(error, mkt_status_from_errno(errno),
                                 "can't connect to the market daemon in %s: %s", directory,
                                 strerror(errno));
        if (mkt_now_ms() >= deadline_ms)
            return mkt_error_set(error, MKT_TIMED_OUT,
                                 "the market daemon in %s accepts no connection (is it stopped?); "
                                 "see %s/" MKT_LOG_NAME,
                                 directory, directory);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return MKT_OK;
}

/* True if this number stands for a user of our name space and not for "a user that has none here".
 */
static bool is_own_uid(uid_t uid)
{
    unsigned long overflow = 65534, inside, outside, count;
    FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
    if (file != NULL) {
        if (fscanf(file, "%lu", &overflow) != 1)
            overflow = 65534;
        fclose(file);
    }
    if (uid != geteuid())
        return false;
    if (uid != overflow)
        return true;
    bool mapped = false;
    file = fopen("/proc/self/uid_map", "re");
    while (file != NULL && fscanf(file, "%lu %lu %lu", &inside, &outside, &count) == 3)
        mapped = mapped || (uid >= inside && uid - inside < count);
    if (file != NULL)
        fclose(file);
    return mapped;
}

static enum mkt_status check_peer(int fd, const char *directory, struct mkt_error *error)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return mkt_error_set(error, MKT_IO_ERROR, "can't tell who serves the market in %s: %s",
                             directory, strerror(errno));
    if (!is_own_uid(peer.uid))
        return mkt_error_set(error, MKT_DENIED,
                             "the market daemon in %s runs as user %lu, this process as %lu; "
                             "markets are not shared between users",
                             directory, (unsigned long)peer.uid, (unsigned long)geteuid());
    return MKT_OK;
}

static enum mkt_status open_socket(const char *directory, int directory_fd, uint64_t deadline_ms,
                                   int *fd_out, struct mkt_error *error)
{
    struct sockaddr_un address;
    socket_address(directory, directory_fd, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return mkt_error_set(error, mkt_status_from_errno(errno), "can't make a socket: %s",
                             strerror(errno));
    enum mkt_status status = connect_before(fd, &address, directory, deadline_ms, error);
    if (status == MKT_OK)
        status = check_peer(fd, directory, error);
    if (status != MKT_OK)
        close(fd);
    else
        *fd_out = fd;
    return status;
}

enum mkt_status mkt_connect(const char *directory, uint64_t deadline_ms, int *fd_out,
                            struct mkt_error *error)
{
    int directory_fd;
    enum mkt_status status = mkt_directory_open(directory, &directory_fd, error);
    if (status != MKT_OK)
        return status;
    status = open_socket(directory, directory_fd, deadline_ms, fd_out, error);
    close(directory_fd);
    return status;
}
