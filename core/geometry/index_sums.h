/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checksums over what an index holds of pieces (layout: index_layout.h), so that a reader checks
 * what it looks at and not all the rest: a block's sum stands in a table, that table is cut into
 * blocks whose sums stand in a smaller table, and so on up to one sum, the root, which the index's
 * header has. Internal to geometry.
 */
#ifndef MKT_GEOMETRY_INDEX_SUMS_H
#define MKT_GEOMETRY_INDEX_SUMS_H

#include "core/geometry/index_layout.h"

#define MKT_INDEX_SUM_LEVELS 8 /* of blocks of 1 KiB, 128 sums each: beyond any length */

/* Bytes of all tables over `length` bytes. */
uint64_t mkt_index_sums_bytes(uint64_t length);
/* Fills the tables, which follow the `length` bytes; returns the root. */
uint64_t mkt_index_sums_fill(uint8_t *bytes, uint64_t length);

/* Of one query. */
struct mkt_index_sums {
    const uint8_t *bytes;
    uint64_t from[MKT_INDEX_SUM_LEVELS], length[MKT_INDEX_SUM_LEVELS]; /* level 0: the pieces */
    unsigned levels;
    uint64_t root;
    struct mkt_index_known *known; /* of level 0 and 1: the view's, or `own` */
    struct mkt_index_known own;
};
void mkt_index_sums_init(struct mkt_index_sums *sums, const struct mkt_index_view *view);
/* True if these bytes of the index are as they were written. `offset` counts from the index's
 * start; what isn't a piece's isn't sound. */
bool mkt_index_sums_check(struct mkt_index_sums *sums, uint64_t offset, uint64_t length);

#endif
