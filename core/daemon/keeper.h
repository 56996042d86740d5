/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper: the process that was started as h5marketd. It does next to nothing, so that it
 * doesn't fail: it holds what the market lives on (memory, descriptors, the journal), starts a
 * worker, which is the daemon, and starts another if that one dies.
 *
 *      keeper ── fork ──▶ worker 1 (serves) ──▶ exit 0: the end of both
 *        │  ◀── descriptors ──  │
 *        │                      ✗ killed, crashed
 *        └────── fork ──▶ worker 2: the journal again, then serves
 *
 * Descriptors go over a socket and wait in it until the keeper is woken, seldom, or the worker is
 * dead: handing one over costs one call of the kernel and wakes nobody.
 *
 * The keeper's side has one thread, and so has the worker's (the loop's).
 */
#ifndef MKT_DAEMON_KEEPER_H
#define MKT_DAEMON_KEEPER_H

#include "core/daemon/folder.h"
#include "core/daemon/journal.h"

#define MKT_KEEPER_RESTARTS  8u /* in MKT_KEEPER_WITHIN_MS; after more it gives up */
#define MKT_KEEPER_WITHIN_MS 60000u

enum mkt_kept_kind {
    MKT_KEPT_LISTENER = 1, /* key: zeros */
    MKT_KEPT_ARENA,        /* key: its id */
    MKT_KEPT_STUB,         /* key: the object */
    MKT_KEPT_PROCESS       /* a pidfd; key: the session */
};

struct mkt_kept_key {
    uint32_t kind, reserved;
    uint8_t id[MKT_ID_BYTES];
};
struct mkt_kept_key mkt_kept_key(enum mkt_kept_kind kind, uint64_t number);
struct mkt_kept_key mkt_kept_key_of_object(const uint8_t object[MKT_ID_BYTES]);

struct mkt_kept; /* a descriptor in the keeper's hand */

/* What a worker has of its keeper. */
struct mkt_keeper {
    int fd;   /* -1: the keeper is gone */
    int bell; /* wakes it */
    unsigned unheard;
    struct mkt_journal journal;
    struct mkt_kept *kept; /* what former workers had */
};

/* Splits this process: returns true in each worker, with its keeper; false in the keeper when all
 * is over, with the exit status. A worker is restarted only after the first was ready
 * (state->is_serving). Without memory for a journal there is one worker and no keeper: true, with
 * *keeper_out NULL. `is_foreground`: the log isn't the folder's. Who has nobody to report to finds
 * -1 in *report_fd. */
bool mkt_keeper_split(struct mkt_folder *folder, bool is_foreground, int *report_fd,
                      struct mkt_keeper **keeper_out, int *exit_status_out);

/* ---- the worker's; `keeper` may be NULL ---- */
/* Hands a copy of the descriptor over, in place of one with that key. */
void mkt_keeper_keep(struct mkt_keeper *keeper, struct mkt_kept_key key, int fd);
void mkt_keeper_forget(struct mkt_keeper *keeper, struct mkt_kept_key key);
/* Once a second: what waits in the socket is taken out. */
void mkt_keeper_tick(struct mkt_keeper *keeper);
/* Takes over what a former worker had; -1: nothing. */
int mkt_keeper_take(struct mkt_keeper *keeper, struct mkt_kept_key key);
/* One of this kind after another; -1: no more. */
int mkt_keeper_take_any(struct mkt_keeper *keeper, enum mkt_kept_kind kind,
                        struct mkt_kept_key *key_out);
/* Its socket came to an end. */
void mkt_keeper_lose(struct mkt_keeper *keeper);
void mkt_keeper_destroy(struct mkt_keeper *keeper);

#endif
