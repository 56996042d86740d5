/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

unsigned mkt_peer_overflow_uid(void)
{
    unsigned uid = 65534;
    FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");

    if (file) {
        if (fscanf(file, "%u", &uid) != 1)
            uid = 65534;
        fclose(file);
    }
    return uid;
}

enum mkt_status mkt_peer_check(int fd, struct mkt_error *error)
{
    struct ucred credentials;
    socklen_t length = sizeof(credentials);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
        return mkt_error_set(error, MKT_DENIED, "who connects can't be told: %s", strerror(errno));
    if (credentials.uid != geteuid() || credentials.uid == mkt_peer_overflow_uid())
        return mkt_error_set(error, MKT_DENIED, "this market belongs to user %u, and user %u asks",
                             (unsigned)geteuid(), (unsigned)credentials.uid);
    return MKT_OK;
}

int mkt_peer_open_process(int fd)
{
    struct ucred credentials;
    socklen_t length = sizeof(credentials);
    int pidfd;
    socklen_t pidfd_length = sizeof(pidfd);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &pidfd_length) == 0)
        return pidfd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0 || credentials.pid <= 0)
        return -1;
    /* The process may have died and its number been given away since it connected: then its socket
     * is at its end. */
    pidfd = (int)syscall(SYS_pidfd_open, credentials.pid, 0);
    return pidfd;
}
