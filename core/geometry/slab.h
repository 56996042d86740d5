/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regular hyperslabs: HDF5's start/stride/count/block in each dimension. A box is the slab whose
 * stride equals its block or whose count is 1. Pure values; any thread.
 *
 * Packed order: the elements of a slab in row-major order of the array. Along one dimension the
 * packed index i (0 .. count*block-1) stands for coordinate start + (i / block) * stride + i %
 * block.
 */
#ifndef MKT_GEOMETRY_SLAB_H
#define MKT_GEOMETRY_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#define MKT_MAX_RANK 32 /* H5S_MAX_RANK */

struct mkt_dim {
    uint64_t start, stride, count,
        block; /* elements; count, block >= 1; stride >= block if count > 1 */
};

/* rank 0 is a scalar: one element. */
struct mkt_slab {
    uint32_t rank;
    struct mkt_dim dim[MKT_MAX_RANK];
};

/* A box from start and count (elements); dimensions are normalised to stride = block = count, count
 * = 1. */
void mkt_slab_box(struct mkt_slab *slab_out, uint32_t rank, const uint64_t *start,
                  const uint64_t *count);

/* True if start/stride/count/block are sane (no zero, no overflow) and the slab lies inside
 * dims[rank] (dims NULL: only sanity). Slabs from a wire must pass this before any other use. */
bool mkt_slab_is_valid(const struct mkt_slab *slab, const uint64_t *dims);

/* Merges blocks that touch (stride == block, or count == 1) so that equal sets have equal values.
 */
void mkt_slab_normalise(struct mkt_slab *slab);

bool mkt_slab_is_box(const struct mkt_slab *slab);
bool mkt_slab_equal(const struct mkt_slab *a, const struct mkt_slab *b); /* both normalised */
uint64_t mkt_slab_elements(const struct mkt_slab *slab);

/* Elements along one dimension (count * block) and its last coordinate + 1. */
uint64_t mkt_dim_elements(const struct mkt_dim *dim);
uint64_t mkt_dim_end(const struct mkt_dim *dim);

/* True if the bounding boxes meet. */
bool mkt_slab_bounds_meet(const struct mkt_slab *a, const struct mkt_slab *b);

#endif
