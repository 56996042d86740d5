/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/crc32c.h"

#include <isa-l/crc.h>

#define STEP_BYTES ((size_t)1 << 30) /* the library takes an int */

uint32_t mkt_crc32c(uint32_t before, const void *bytes, size_t length)
{
    /* The library only reads, though its type doesn't say so. */
    unsigned char *at = (unsigned char *)(uintptr_t)bytes;
    uint32_t crc = ~before;

    while (length > 0) {
        size_t step = length < STEP_BYTES ? length : STEP_BYTES;
        crc = crc32_iscsi(at, (int)step, crc);
        at += step;
        length -= step;
    }
    return ~crc;
}
