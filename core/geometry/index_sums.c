/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/index_sums.h"
#include "core/base/hash.h"

#include <string.h>

static uint64_t blocks_of(uint64_t length)
{
    return (length + MKT_INDEX_BLOCK_BYTES - 1) / MKT_INDEX_BLOCK_BYTES;
}

uint64_t mkt_index_sums_bytes(uint64_t length)
{
    uint64_t bytes = 0;

    while (length > MKT_INDEX_BLOCK_BYTES) {
        length = blocks_of(length) * sizeof(uint64_t);
        bytes += length;
    }
    return bytes;
}

static uint64_t block_sum(const uint8_t *from, uint64_t length, uint64_t block)
{
    uint64_t offset = block * MKT_INDEX_BLOCK_BYTES, left = length - offset;

    return mkt_hash64(from + offset, left < MKT_INDEX_BLOCK_BYTES ? left : MKT_INDEX_BLOCK_BYTES,
                      0);
}

uint64_t mkt_index_sums_fill(uint8_t *bytes, uint64_t length)
{
    if (length == 0)
        return 0;
    while (length > MKT_INDEX_BLOCK_BYTES) {
        uint8_t *table = bytes + length;
        uint64_t blocks = blocks_of(length);

        for (uint64_t block = 0; block < blocks; block++) {
            uint64_t sum = block_sum(bytes, length, block);
            memcpy(table + block * sizeof(sum), &sum, sizeof(sum));
        }
        bytes = table;
        length = blocks * sizeof(uint64_t);
    }
    return block_sum(bytes, length, 0);
}

void mkt_index_sums_init(struct mkt_index_sums *sums, const struct mkt_index_view *view)
{
    uint64_t from = view->pieces_offset, length = view->pieces_bytes;

    sums->bytes = view->bytes;
    sums->root = view->root;
    sums->levels = 0;
    sums->known = view->known;
    if (!sums->known)
        sums->known = memset(&sums->own, 0, sizeof(sums->own));
    for (;;) {
        sums->from[sums->levels] = from;
        sums->length[sums->levels++] = length;
        if (length <= MKT_INDEX_BLOCK_BYTES)
            return;
        from += length;
        length = blocks_of(length) * sizeof(uint64_t);
    }
}

/* Depth: the levels. */
static bool is_sound(struct mkt_index_sums *sums, unsigned level, uint64_t block)
{
    uint64_t *known = level < 2 ? &sums->known->block[level][block % MKT_INDEX_KNOWN] : NULL;
    uint64_t sum = sums->root, place = block * sizeof(sum);

    if (known && *known == block + 1)
        return true;
    if (level + 1 < sums->levels) {
        if (!is_sound(sums, level + 1, place / MKT_INDEX_BLOCK_BYTES))
            return false;
        memcpy(&sum, sums->bytes + sums->from[level + 1] + place, sizeof(sum));
    }
    if (block_sum(sums->bytes + sums->from[level], sums->length[level], block) != sum)
        return false;
    if (known)
        *known = block + 1;
    return true;
}

bool mkt_index_sums_check(struct mkt_index_sums *sums, uint64_t offset, uint64_t length)
{
    if (length == 0)
        return true;
    if (offset < sums->from[0] || offset - sums->from[0] > sums->length[0] ||
        length > sums->length[0] - (offset - sums->from[0]))
        return false;
    uint64_t first = (offset - sums->from[0]) / MKT_INDEX_BLOCK_BYTES,
             last = (offset - sums->from[0] + length - 1) / MKT_INDEX_BLOCK_BYTES;
    for (uint64_t block = first; block <= last; block++) {
        if (!is_sound(sums, 0, block))
            return false;
    }
    return true;
}
