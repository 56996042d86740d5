/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One client's connection: bytes to frames and back, bounded in every direction, and the watch over
 * the client's process. It knows no message; what frames mean is its owner's. Loop thread only.
 *
 *   accept -> open ---------> closed ------------> gone
 *                  EOF, error,       the process is
 *                  refused           dead (pidfd)
 *
 * `closed` means no more frames either way; `gone` means that the process can't touch shared memory
 * any more. Where no pidfd is to be had, gone follows closed at once.
 *
 * Frames come from the socket, and from the client's mailbox while it is looked at. What is in the
 * mailbox is older than what is still in the socket (core/client/link.h).
 */
#ifndef MKT_DAEMON_CONNECTION_H
#define MKT_DAEMON_CONNECTION_H

#include "core/daemon/hash_table.h"
#include "core/wire/mailbox.h"
#include "core/wire/messages.h"
#include <uv.h>

#define MKT_CONNECTION_HELLO_MS   10000u
#define MKT_CONNECTION_OUT_BYTES  (32u << 20)  /* unsent replies; beyond it the client is cut off */
#define MKT_CONNECTION_OUT_PAUSE  (1u << 20)   /* beyond it nothing more is read from it */
#define MKT_CONNECTION_FDS        4            /* received and not yet claimed by a frame */
#define MKT_CONNECTION_READ_BYTES (256u << 10) /* at one go, so that others have their turn */

struct mkt_connection;

struct mkt_connection_ops {
    /* A frame; `fd` rode on it (-1: none) and is the callee's. May doom the connection, not destroy
     * it. */
    void (*frame)(void *context, struct mkt_connection *connection,
                  const struct mkt_frame_wire *head, const void *payload, int fd);
    /* The owner may set is_bare: then `gone` follows at once. */
    void (*closed)(void *context, struct mkt_connection *connection, const char *why);
    /* The last call for a connection. */
    void (*gone)(void *context, struct mkt_connection *connection);
};

struct mkt_output;

struct mkt_connection {
    /* the owner's */
    UT_hash_handle by_session;
    uint64_t session; /* never reused */
    bool greeted;     /* the owner took its HELLO */
    bool is_bare;     /* it is closed, and its process has no part in shared memory any more */
    char program[256];
    uint32_t pid;          /* as the client sees itself; for people */
    uint64_t last_request; /* numbers rise */
    char *answer;          /* of the last query, for its later parts */
    size_t answer_bytes;

    /* its own */
    const struct mkt_connection_ops *ops;
    void *context;
    int fd, pidfd, events; /* watched for */
    uv_poll_t poll, death;
    uv_timer_t timer; /* of the HELLO, then of the end */
    bool closed, dead, doomed;
    bool is_absent;      /* its client has still to come back; closed */
    char why[200];       /* it is doomed */
    unsigned handles;    /* not yet closed by the loop */
    unsigned references; /* replies that wait for pages */
    uint8_t *in;
    size_t in_bytes, in_capacity;
    int fds[MKT_CONNECTION_FDS];
    unsigned fds_count;
    struct mkt_output *out_first, **out_last;
    size_t out_bytes;
    struct mkt_mailbox *mailbox; /* NULL: none */
};

/* Takes an accepted socket over (also on failure). Refuses another user's process (MKT_DENIED). */
enum mkt_status mkt_connection_create(uv_loop_t *loop, int fd, const struct mkt_connection_ops *ops,
                                      void *context, struct mkt_connection **connection_out,
                                      struct mkt_error *error);

/* One of a client that was connected to a former process of this daemon and may connect anew:
 * `closed`, and `gone` when its process is dead (pidfd, taken over), or, without a pidfd, after
 * grace_ms. */
enum mkt_status mkt_connection_create_absent(uv_loop_t *loop, int pidfd, uint32_t grace_ms,
                                             const struct mkt_connection_ops *ops, void *context,
                                             struct mkt_connection **connection_out,
                                             struct mkt_error *error);
/* It has connected anew: lets an absent one go without a word. */
void mkt_connection_dismiss(struct mkt_connection *connection);

/* Maps the client's mailbox; the descriptor stays the caller's. One that is none is left alone. */
void mkt_connection_set_mailbox(struct mkt_connection *connection, int fd);
/* Begins to look into the mailbox, or stops. False: it has none, or is closed. */
bool mkt_connection_look(struct mkt_connection *connection, bool looks);
/* True if the client was on this thread's processor when it sent last. */
bool mkt_connection_is_from_here(const struct mkt_connection *connection);
/* Handles what is in the mailbox. False: nothing. */
bool mkt_connection_take_mail(struct mkt_connection *connection);

/* Queues a frame (malloc'ed; taken over) and sends what mailbox or socket take. `fd` (-1: none)
 * stays the caller's and must live as long as the daemon. Dooms a connection whose output is too
 * long. */
void mkt_connection_send(struct mkt_connection *connection, void *frame, size_t bytes, int fd);

/* Encodes and sends; dooms the connection if that can't be. */
void mkt_connection_send_message(struct mkt_connection *connection, const struct mkt_msg *message,
                                 int fd);
void mkt_connection_send_error(struct mkt_connection *connection, uint64_t request,
                               enum mkt_status status, const char *text);

/* Marks it: no frame of it is handled any more, and it closes as soon as the call in hand is over.
 */
void mkt_connection_doom(struct mkt_connection *connection, const char *why);
/* Closes it now: the owner is told `closed`, and `gone` when the process is dead. */
void mkt_connection_close(struct mkt_connection *connection);
/* Lets go at the daemon's end: `closed` and `gone` at once. */
void mkt_connection_abandon(struct mkt_connection *connection);

void mkt_connection_hold(struct mkt_connection *connection);
void mkt_connection_drop(struct mkt_connection *connection);

#endif
