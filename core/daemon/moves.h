/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tier below memory: does the moves that the market decides on. Threads of its own copy between
 * the arenas and the medium's files; all else is the loop's.
 */
#ifndef MKT_DAEMON_MOVES_H
#define MKT_DAEMON_MOVES_H

#include "core/market/market.h"
#include "media/ssd.h"

struct mkt_daemon;
struct mkt_moves;

/* Opens the folders of the configuration; *moves_out is NULL where it names none. Sets the tier's
 * limits of the market. What mkt_ssd_open says. */
enum mkt_status mkt_moves_open(struct mkt_daemon *daemon, struct mkt_moves **moves_out,
                               struct mkt_error *error);
/* Once the market is what it was, or new: what lies in the files and isn't its own goes, and the
 * moves that were under way are made again. */
enum mkt_status mkt_moves_go_on(struct mkt_moves *moves, struct mkt_error *error);
/* The market's operations. */
void mkt_moves_out(struct mkt_moves *moves, uint64_t move, const struct mkt_extent *memory);
void mkt_moves_in(struct mkt_moves *moves, uint64_t move, const struct mkt_market_reading *reading);
void mkt_moves_drop_cold(struct mkt_moves *moves, const struct mkt_extent *cold);
/* Now and then: gives the space of what was dropped back. */
void mkt_moves_second(struct mkt_moves *moves);
void mkt_moves_usage(struct mkt_moves *moves, struct mkt_ssd_usage *usage_out);

/* Ends its threads, as soon as they are through with the move in hand; the loop has to run on until
 * its handle is closed. */
void mkt_moves_stop(struct mkt_moves *moves);
/* After the loop. Removes its files. NULL is allowed. */
void mkt_moves_destroy(struct mkt_moves *moves);

#endif
