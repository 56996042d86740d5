/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds the R-tree of one array (layout: index_layout.h) and tells whether its pieces overlap. The
 * builder's half; readers walk the bytes in index_view.c. Internal to geometry. Pure.
 */
#ifndef MKT_GEOMETRY_RTREE_H
#define MKT_GEOMETRY_RTREE_H

#include "core/geometry/index_layout.h"

/* An interval of one dimension of a bounding box. */
struct mkt_interval {
    uint64_t low, end;
};

/* The pieces of an array as the builder sees them. */
struct mkt_rtree_input {
    uint32_t rank;
    uint32_t pieces;
    const struct mkt_interval *boxes; /* pieces x rank */
    /* True if the two pieces surely share no element; called only where their boxes meet. */
    bool (*disjoint)(const void *context, uint32_t a, uint32_t b);
    const void *context;
};

/* Boxes in all levels of the tree. */
uint64_t mkt_rtree_nodes(uint64_t pieces);

/* Fills order_out[pieces] and nodes_out[mkt_rtree_nodes() x rank] by sort-tile-recursive.
 * MKT_NO_MEMORY. */
enum mkt_status mkt_rtree_build(const struct mkt_rtree_input *input, uint32_t *order_out,
                                struct mkt_interval *nodes_out);

/* True if no two pieces overlap; false also if that would take too long to tell. The tree, with
 * more than MKT_INDEX_SCAN_MAX pieces, must have been built; below that order and nodes are NULL.
 */
bool mkt_rtree_pieces_are_disjoint(const struct mkt_rtree_input *input, const uint32_t *order,
                                   const struct mkt_interval *nodes);

#endif
