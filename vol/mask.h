/* SPDX-License-Identifier: BSD-3-Clause */
/* Bitmaps of MASKED pieces: bit i stands for packed element i of the box. */
#ifndef MKT_VOL_MASK_H
#define MKT_VOL_MASK_H

#include "core/geometry/plan.h"

/* The bytes of a bitmap for so many elements. */
static inline uint64_t mkt_vol_mask_bytes(uint64_t elements)
{
    return (elements + 7) / 8;
}

/* Sets the bits of a plan's move that was made for elements of one byte; counts on the memory's
 * side or on the piece's. */
enum mkt_vol_mask_side {
    MKT_VOL_MASK_MEMORY,
    MKT_VOL_MASK_PIECE
};
void mkt_vol_mask_set(uint8_t *mask, const struct mkt_move *move, enum mkt_vol_mask_side side);
/* True if the first `elements` bits are all set. */
bool mkt_vol_mask_is_full(const uint8_t *mask, uint64_t elements);

#endif
