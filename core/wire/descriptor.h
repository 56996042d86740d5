/* SPDX-License-Identifier: BSD-3-Clause */
/* A descriptor that rides on a message to a Unix socket. Pure; any thread. */
#ifndef MKT_WIRE_DESCRIPTOR_H
#define MKT_WIRE_DESCRIPTOR_H

#include <string.h>
#include <sys/socket.h>

/* Room for one descriptor; lives until the message is sent. */
union mkt_descriptor_room {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

/* Puts the descriptor, which stays the caller's, onto the message; `room` need not be cleared. */
static inline void mkt_descriptor_attach(struct msghdr *message, union mkt_descriptor_room *room,
                                         int fd)
{
    memset(room, 0, sizeof(*room));
    message->msg_control = room->bytes;
    message->msg_controllen = sizeof(room->bytes);
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(int));
}

#endif
