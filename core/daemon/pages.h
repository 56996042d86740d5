/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which pages are in memory. What is granted must be; what comes free stays populated, because the
 * next file will want it, until nobody has come for a while or memory is tight. Ahead of the next
 * file, while nobody transfers anything, workers bring in what the last ones took. Pages are
 * brought in by workers and punched out by the loop's thread, never a range that a worker has in
 * hand. Loop thread only.
 */
#ifndef MKT_DAEMON_PAGES_H
#define MKT_DAEMON_PAGES_H

#include "core/daemon/daemon.h"

struct mkt_pages *mkt_pages_create(struct mkt_daemon *daemon); /* NULL: out of memory */
/* Call when no worker is at it any more. */
void mkt_pages_destroy(struct mkt_pages *pages);

/* Brings the extent's pages in; `done` is called from the loop, never from within. MKT_NO_MEMORY:
 * it won't be. */
typedef void (*mkt_pages_done_fn)(void *context, enum mkt_status status);
enum mkt_status mkt_pages_populate(struct mkt_pages *pages, const struct mkt_extent *extent,
                                   mkt_pages_done_fn done, void *context);

void mkt_pages_note_grant(struct mkt_pages *pages, const struct mkt_extent *extent);
void mkt_pages_note_publish(struct mkt_pages *pages, uint64_t now_ms);
/* After each call into the market. */
void mkt_pages_settle(struct mkt_pages *pages);
/* Once a second. */
void mkt_pages_tick(struct mkt_pages *pages, uint64_t now_ms);
/* The daemon ends: no more work is begun. */
void mkt_pages_stop(struct mkt_pages *pages);

#endif
