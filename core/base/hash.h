/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fast 64-bit hash for checksums and tables (XXH3). Not for secrets. The value is part of disk
 * and wire layouts. Pure; any thread.
 */
#ifndef MKT_BASE_HASH_H
#define MKT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The hash of `length` bytes; chain calls by passing the former value as the seed. */
uint64_t mkt_hash64(const void *bytes, size_t length, uint64_t seed);

#endif
