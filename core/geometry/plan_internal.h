/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the planner share. Internal to geometry. Pure. */
#ifndef MKT_GEOMETRY_PLAN_INTERNAL_H
#define MKT_GEOMETRY_PLAN_INTERNAL_H

#include "core/geometry/cut.h"
#include "core/geometry/plan.h"

/* want and piece have the same rank, and their bounding boxes meet. */
struct mkt_plan_input {
    const struct mkt_slab *want, *piece;
    const struct mkt_layout *layout;
};

/* The moves of a piece in which every element of the slab is present. Each returns the number of
 * elements moved. */
uint64_t mkt_plan_slab(const struct mkt_plan_input *in, uint32_t element_bytes, mkt_move_fn fn,
                       void *context);

/* The same less the elements whose bit in `bitmap` is clear. */
uint64_t mkt_plan_masked(const struct mkt_plan_input *in, const uint8_t *bitmap,
                         uint32_t element_bytes, mkt_move_fn fn, void *context);

/* `table` has `entries` pairs; the data holds `held` elements in the table's order. */
uint64_t mkt_plan_list(const struct mkt_plan_input *in, const uint8_t *table, uint64_t entries,
                       uint64_t held, uint32_t element_bytes, mkt_move_fn fn, void *context);

#endif
