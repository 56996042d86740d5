/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stream to a daemon: frames out, replies in, deadlines. Internal to core/client.
 *
 * A daemon that dies beside its keeper is followed by another. So frames are kept until a reply
 * shows that they were handled; when the stream breaks, it is made anew, the daemon says up to
 * which number it has handled what was sent, and the rest is sent again. The caller notices nothing
 * but the time. When that fails the link is `lost` and stays so. One thread at a time.
 *
 * Small frames go through a mailbox while the other side looks there. The daemon reads it before
 * the socket; so that none of ours overtakes another, it is used only when an answer shows that all
 * that went into the socket was handled. We look out for replies there whenever we don't sleep.
 */
#ifndef MKT_CLIENT_LINK_H
#define MKT_CLIENT_LINK_H

#include "core/base/clock.h"
#include "core/base/spin.h"
#include "core/wire/mailbox.h"
#include "core/wire/messages.h"
#include <sys/types.h>

#define MKT_LINK_FDS 4

struct mkt_link {
    int fd;
    dev_t dev; /* of the socket: a program that closes all descriptors must not get our bytes into
                  its own file */
    ino_t ino;
    bool is_ours; /* the descriptor, when it was looked at in the call in hand */
    bool lost;
    bool last_words;  /* reading what is left of a broken stream */
    uint64_t session; /* 0: a broken stream is not made anew */
    uint8_t secret[MKT_ID_BYTES];
    unsigned resends;     /* of the request in hand */
    uint64_t deadline_ms; /* of the wait in hand */
    uint32_t silence_ms;
    uint64_t heard_ms; /* when the last byte came, or could be sent */
    uint64_t next_request, round_trips;
    uint64_t answered, in_socket; /* the last request that was answered; that the socket took */
    struct mkt_mailbox *mailbox;  /* NULL: none */
    uint8_t *in, *out;
    size_t in_capacity, in_bytes, in_used; /* in_used: bytes of the frame handed out last */
    size_t out_capacity, out_bytes;
    size_t out_sent; /* of these, sent: kept until they are known to be handled */
    int out_fd;      /* rides on the frame at out_fd_at; the caller's; -1: none */
    size_t out_fd_at;
    int fds[MKT_LINK_FDS];
    unsigned fd_count;
    struct mkt_spin spin; /* before sleeping for an answer */
    char *directory;
};

/* How long to wait for one reply. */
struct mkt_wait {
    uint64_t deadline_ms; /* of mkt_now_ms; UINT64_MAX: as long as the daemon lives */
    bool ping; /* the answer may rightly take long: ask now and then whether the daemon lives */
    bool (*tick)(void *context);      /* every 100 to 250 ms; true ends the wait. NULL: none */
    void (*meanwhile)(void *context); /* once, when the request has left. NULL: nothing to do */
    void (*told)(void *context, const struct mkt_bytes *text); /* WAITING. NULL: not wanted */
    void *context;
};
#define MKT_WAIT_REPLY ((struct mkt_wait){.deadline_ms = UINT64_MAX})

/* Connects and checks who is there. MKT_NOT_FOUND: nobody listens. MKT_DENIED. MKT_TIMED_OUT. */
enum mkt_status mkt_link_open(struct mkt_link *link, const char *directory, uint64_t deadline_ms,
                              struct mkt_error *error);
void mkt_link_close(struct mkt_link *link);
/* Says HELLO and gets WELCOME; from then on there is a mailbox, if it can be had. */
enum mkt_status mkt_link_greet(struct mkt_link *link, struct mkt_msg *hello,
                               const struct mkt_wait *wait, struct mkt_msg *reply_out,
                               struct mkt_error *error);

/* Puts a message behind what waits to be sent and numbers it (request 0: the next number). */
enum mkt_status mkt_link_queue(struct mkt_link *link, struct mkt_msg *msg, struct mkt_error *error);
/* How much waits to be sent. */
static inline size_t mkt_link_unsent(const struct mkt_link *link)
{
    return link->out_bytes - link->out_sent;
}
/* MKT_OK unless it is lost, or the program closed the socket's descriptor: then it is lost now. */
enum mkt_status mkt_link_check(struct mkt_link *link, struct mkt_error *error);
/* Makes a broken stream anew. MKT_PEER_DOWN, MKT_TIMED_OUT: it is lost. */
enum mkt_status mkt_link_resume(struct mkt_link *link, struct mkt_error *error);
/* Sends what waits if that costs little for what it is, so that the daemon works on it meanwhile.
 */
enum mkt_status mkt_link_push(struct mkt_link *link, struct mkt_error *error);
/* Sends what waits; blocks while the socket is full. */
enum mkt_status mkt_link_flush(struct mkt_link *link, struct mkt_error *error);

/* Sends what waits and the request (with a descriptor unless fd < 0), and blocks for its reply,
 * which must be of type `expected`; an ERROR is turned into status and text. reply_out's lists live
 * until the next call. *fd_out (may be NULL) gets the reply's descriptor or -1. MKT_CANCELLED: tick
 * said so; the request is still unanswered: mkt_link_cancel ends it. */
enum mkt_status mkt_link_request(struct mkt_link *link, struct mkt_msg *request, int fd,
                                 enum mkt_msg_type expected, const struct mkt_wait *wait,
                                 struct mkt_msg *reply_out, int *fd_out, struct mkt_error *error);
/* Sends CANCEL for a request that waits and blocks for the answer to it, which may still be a
 * success. */
enum mkt_status mkt_link_cancel(struct mkt_link *link, uint64_t request, enum mkt_msg_type expected,
                                struct mkt_msg *reply_out, struct mkt_error *error);
/* Says that the stream is of no use any more and why; returns status. */
enum mkt_status mkt_link_lose(struct mkt_link *link, struct mkt_error *error,
                              enum mkt_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
