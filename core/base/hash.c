/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/hash.h"

/* Inlined, so that the plugin needs no library. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t mkt_hash64(const void *bytes, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, length, seed);
}
