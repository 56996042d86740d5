/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The filters that direct chunk writes left out. The data rests unfiltered, so this is no more than
 * what to answer to who reads the chunk back directly: in this process, and as long as its values
 * are those that were written.
 */
#include <stdlib.h>

#include "vol/arrays_internal.h"

struct mkt_vol_chunk_mask {
    UT_hash_handle by_offset;
    uint64_t offset_hash, values_hash;
    uint32_t filter_mask;
};

void mkt_vol_array_note_mask(struct mkt_vol_array *array, uint64_t offset_hash,
                             uint64_t values_hash, uint32_t filter_mask)
{
    struct mkt_vol_chunk_mask *mask;

    HASH_FIND(by_offset, array->masks, &offset_hash, sizeof offset_hash, mask);
    if (!mask && filter_mask == 0)
        return;
    if (!mask) {
        mask = calloc(1, sizeof *mask);
        if (!mask)
            return;
        mask->offset_hash = offset_hash;
        HASH_ADD(by_offset, array->masks, offset_hash, sizeof offset_hash, mask);
        if (!mask->by_offset.tbl) {
            free(mask);
            return;
        }
    }
    mask->values_hash = values_hash;
    mask->filter_mask = filter_mask;
}

uint32_t mkt_vol_array_mask(const struct mkt_vol_array *array, uint64_t offset_hash,
                            uint64_t values_hash)
{
    struct mkt_vol_chunk_mask *mask;

    HASH_FIND(by_offset, array->masks, &offset_hash, sizeof offset_hash, mask);
    return mask && mask->values_hash == values_hash ? mask->filter_mask : 0;
}

void mkt_vol_array_forget_masks(struct mkt_vol_array *array)
{
    struct mkt_vol_chunk_mask *mask, *next;

    HASH_ITER (by_offset, array->masks, mask, next) {
        HASH_DELETE(by_offset, array->masks, mask);
        free(mask);
    }
}
