/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far something long has come, for lines that say so: none in the first two seconds, then one
 * each ten, on a terminal one line that changes. What the lines say is their writers'. Plain data,
 * one thread; times are mkt_now_ms's.
 */
#ifndef MKT_BASE_PROGRESS_H
#define MKT_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct mkt_progress {
    uint64_t began_ms, line_ms;
    uint64_t first_bytes, left_bytes; /* to do in all, and still */
    bool terminal;                    /* standard error is one */
    bool shown;                       /* a line was due; on a terminal it stands there */
};

/* Notes what is still to be done; what comes in addition counts as to be done from the start. True
 * if it has changed. */
bool mkt_progress_note(struct mkt_progress *progress, uint64_t left_bytes);
/* True if a line is due, which is then taken as written. The `last` isn't left out. */
bool mkt_progress_is_due(struct mkt_progress *progress, uint64_t now_ms, bool last);
/* Bytes a second since it began. */
uint64_t mkt_progress_rate(const struct mkt_progress *progress, uint64_t now_ms);
/* Leaves the line that stands on the terminal. */
void mkt_progress_end_line(struct mkt_progress *progress);

#endif
