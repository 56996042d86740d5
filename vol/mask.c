/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/mask.h"

static void set_run(uint8_t *mask, uint64_t first, uint64_t count)
{
    for (uint64_t e = first; e < first + count;) {
        if (e % 8 == 0 && first + count - e >= 8) {
            mask[e / 8] = 0xff;
            e += 8;
        } else {
            mask[e / 8] |= (uint8_t)(1u << e % 8);
            e++;
        }
    }
}

void mkt_vol_mask_set(uint8_t *mask, const struct mkt_move *move, enum mkt_vol_mask_side side)
{
    uint64_t index[MKT_MAX_LOOPS] = {0};

    for (;;) {
        uint64_t at = side == MKT_VOL_MASK_MEMORY ? move->mem : move->piece;
        for (uint32_t l = 0; l < move->loops; l++)
            at += index[l] *
                  (side == MKT_VOL_MASK_MEMORY ? move->loop[l].mem_step : move->loop[l].piece_step);
        set_run(mask, at, move->bytes);
        uint32_t l = move->loops;
        while (l > 0 && ++index[l - 1] == move->loop[l - 1].count)
            index[--l] = 0;
        if (l == 0)
            return;
    }
}

bool mkt_vol_mask_is_full(const uint8_t *mask, uint64_t elements)
{
    for (uint64_t byte = 0; byte < elements / 8; byte++)
        if (mask[byte] != 0xff)
            return false;
    return elements % 8 == 0 ||
           (mask[elements / 8] & ((1u << elements % 8) - 1)) == (1u << elements % 8) - 1;
}
