/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/progress.h"

#include <stdio.h>

#define FIRST_LINE_MS 2000u
#define LINE_MS       10000u /* between two lines */
#define TERMINAL_MS   250u   /* between two states of the one line of a terminal */

bool mkt_progress_note(struct mkt_progress *progress, uint64_t left_bytes)
{
    bool changed = left_bytes != progress->left_bytes;

    if (left_bytes > progress->left_bytes)
        progress->first_bytes += left_bytes - progress->left_bytes;
    progress->left_bytes = left_bytes;
    return changed;
}

bool mkt_progress_is_due(struct mkt_progress *progress, uint64_t now_ms, bool last)
{
    uint64_t step_ms = progress->terminal ? TERMINAL_MS : LINE_MS;

    if (now_ms - progress->began_ms < FIRST_LINE_MS ||
        (!last && now_ms - progress->line_ms < step_ms))
        return false;
    progress->line_ms = now_ms;
    progress->shown = true;
    return true;
}

uint64_t mkt_progress_rate(const struct mkt_progress *progress, uint64_t now_ms)
{
    uint64_t taken_ms = now_ms - progress->began_ms;

    return taken_ms > 0 ? (progress->first_bytes - progress->left_bytes) * 1000 / taken_ms : 0;
}

void mkt_progress_end_line(struct mkt_progress *progress)
{
    if (progress->terminal && progress->shown)
        fputc('\n', stderr);
    progress->shown = false;
}
