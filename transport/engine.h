/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Engines move bytes between two places and never allocate. Which engine serves is a function of
 * the pair (memory of the application, medium of the piece). Any thread; no state.
 */
#ifndef MKT_TRANSPORT_ENGINE_H
#define MKT_TRANSPORT_ENGINE_H

#include "core/geometry/plan.h"

enum mkt_direction {
    MKT_GET,
    MKT_PUT
}; /* piece -> memory, memory -> piece */

struct mkt_engine_ops {
    const char *name;
    /* Executes one move. `memory` and `piece` are the mapped bases that the move's offsets count
     * from. */
    void (*move)(const struct mkt_move *move, enum mkt_direction direction, void *memory,
                 void *piece);
};

/* Both places are mapped in this process. */
extern const struct mkt_engine_ops mkt_engine_shm;

#endif
