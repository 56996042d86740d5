/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan: turns "these elements are wanted, they lie so in memory" and "this piece holds those
 * elements" into moves. Pure: offsets in, offsets out; an engine (transport/) executes the moves.
 *
 * Two regular hyperslabs are products of one-dimensional sets, so is their intersection: each
 * dimension is cut on its own into segments that are contiguous in memory and in the piece, and the
 * moves are the products of these segments, inner dimensions merged into longer runs where both
 * sides allow.
 */
#ifndef MKT_GEOMETRY_PLAN_H
#define MKT_GEOMETRY_PLAN_H

#include "core/geometry/piece_layout.h"
#include "core/geometry/slab.h"

/* Where the wanted elements lie in the application's memory. The element with packed index (i0, i1,
 * ...) of the wanted slab lies at byte  base + sum over d of (start + (i / block) * stride + i %
 * block) * pitch. */
struct mkt_layout_dim {
    uint64_t start, stride, block; /* elements along the dimension of memory */
    uint64_t pitch_bytes;          /* from one element to the next along it */
};
struct mkt_layout {
    uint64_t base_bytes;
    struct mkt_layout_dim dim[MKT_MAX_RANK];
};

/* The layout of a buffer that holds `want` packed, from byte base_bytes on. */
void mkt_layout_packed(struct mkt_layout *layout_out, const struct mkt_slab *want,
                       uint32_t element_bytes, uint64_t base_bytes);

/* An n-dimensional strided move: for all loop indices, `bytes` bytes between
 * mem + sum(i * mem_step) and piece + sum(i * piece_step). Loop 0 is the outermost. */
struct mkt_loop {
    uint64_t count;
    uint64_t mem_step, piece_step; /* bytes */
};
#define MKT_MAX_LOOPS                                                           \
    (2 * MKT_MAX_RANK) /* blocks and the elements of a block, in each dimension \
                        */
struct mkt_move {
    uint64_t mem, piece; /* bytes from the memory's base and from the start of the piece's data */
    uint64_t bytes;
    uint32_t loops;
    struct mkt_loop loop[MKT_MAX_LOOPS];
};

typedef void (*mkt_move_fn)(void *context, const struct mkt_move *move);

/* Calls `fn` for each move that the elements of `want` in `piece` need; `table` is the mapped table
 * of a MASKED or LIST piece (else NULL), already checked by mkt_piece_table_is_valid. Returns the
 * number of elements moved (each once). Never blocks; allocates nothing for slabs whose dimensions
 * cut into few segments. */
uint64_t mkt_plan_piece(const struct mkt_slab *want, const struct mkt_layout *layout,
                        const struct mkt_piece *piece, const void *table, uint32_t element_bytes,
                        mkt_move_fn fn, void *context);

/* Checks the content of a mapped table against its piece: sorted, disjoint, inside the box, sum of
 * lengths equal to the data. */
bool mkt_piece_table_is_valid(const struct mkt_piece *piece, const void *table,
                              uint32_t element_bytes);

#endif
