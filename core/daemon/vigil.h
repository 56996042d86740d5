/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staying awake for the next message. Waking a thread that sleeps costs sender and receiver more
 * than a small request does, and a client in the midst of opening and closing files sends the next
 * one in a moment. So after messages in close succession the loop polls instead of sleeping, for a
 * bounded time, while that pays off, and lets go of the processor between two looks. Where others
 * want it, it doesn't pay off. Meanwhile it looks into the mailboxes of those that it heard of
 * lately.
 *
 * The kernel sometimes leaves client and daemon on one processor for long, while another has
 * nothing to do: each waits for the other to sleep. After some messages from its own processor the
 * loop goes to another of those that it may use. Loop thread only.
 */
#ifndef MKT_DAEMON_VIGIL_H
#define MKT_DAEMON_VIGIL_H

#include "core/base/spin.h"
#include "core/daemon/connection.h"
#include <uv.h>

#define MKT_VIGIL_NS    500000u /* at most, after a message */
#define MKT_VIGIL_BOXES 16      /* more mailboxes aren't looked at: their owners use the socket */

struct mkt_vigil_box {
    struct mkt_connection *connection;
    uint64_t since_ns; /* its last message */
};

struct mkt_vigil {
    uv_idle_t idle;    /* active: the loop polls */
    uint64_t since_ns; /* the last message */
    uint64_t polled_ns;
    struct mkt_spin spin;
    struct mkt_vigil_box boxes[MKT_VIGIL_BOXES];
    unsigned boxes_count;
    unsigned from_here; /* messages in a row from our own processor */
    uint64_t moved_ns;  /* the last move to another */
};

void mkt_vigil_init(struct mkt_vigil *vigil, uv_loop_t *loop);
/* Closes its handle. */
void mkt_vigil_close(struct mkt_vigil *vigil);
/* A message of it was handled. */
void mkt_vigil_note_message(struct mkt_vigil *vigil, struct mkt_connection *connection);
/* It is closed. */
void mkt_vigil_forget(struct mkt_vigil *vigil, struct mkt_connection *connection);

#endif
