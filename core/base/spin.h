/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether to look for something a little longer before going to sleep for it. Waking a thread costs
 * both sides more than a small message does, but on a busy node looking in vain takes a processor
 * from those who work: so each failure has the next chances skipped, up to 64 of them, and a
 * success forgives all. Plain memory, no clock: the caller's bounds say how long one look is.
 */
#ifndef MKT_BASE_SPIN_H
#define MKT_BASE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define MKT_SPIN_SKIP_LOG2 6u

struct mkt_spin {
    uint32_t failures; /* in a row, at most MKT_SPIN_SKIP_LOG2 */
    uint32_t skip;     /* chances still to be let go */
};

/* True: look. Asked once for each chance. */
static inline bool mkt_spin_begin(struct mkt_spin *spin)
{
    if (spin->skip == 0)
        return true;
    spin->skip--;
    return false;
}

static inline void mkt_spin_end(struct mkt_spin *spin, bool found)
{
    if (found) {
        spin->failures = 0;
        return;
    }
    spin->failures += spin->failures < MKT_SPIN_SKIP_LOG2;
    spin->skip = 1u << spin->failures;
}

#endif
