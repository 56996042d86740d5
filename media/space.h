/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A range allocator over [0, size) that never touches the bytes it manages. Lowest address first,
 * so that pages that were used before are used again. Any sub-range of what was allocated can be
 * freed. Owned by one thread.
 */
#ifndef MKT_MEDIA_SPACE_H
#define MKT_MEDIA_SPACE_H

#include "core/base/status.h"
#include <stdint.h>

#define MKT_SPACE_GRANULE 64 /* bytes; lengths and offsets are rounded up to it */

struct mkt_space;
struct mkt_space *mkt_space_create(uint64_t size_bytes); /* NULL: out of memory */
void mkt_space_destroy(struct mkt_space *space);

/* length > 0; align a power of two >= the granule. MKT_NO_SPACE (no range is large enough),
 * MKT_NO_MEMORY. */
enum mkt_status mkt_space_alloc(struct mkt_space *space, uint64_t length, uint64_t align,
                                uint64_t *offset_out);

/* Both ends are rounded up, so that freeing an allocation part by part frees each granule once,
 * with the part that holds its first byte. MKT_INVALID if a part of the range is free already or
 * outside; MKT_NO_MEMORY (nothing is freed). */
enum mkt_status mkt_space_free(struct mkt_space *space, uint64_t offset, uint64_t length);

uint64_t mkt_space_free_bytes(const struct mkt_space *space);
uint64_t mkt_space_largest_free(const struct mkt_space *space);

/* Calls fn for each free range in address order. */
typedef void (*mkt_range_fn)(void *context, uint64_t offset, uint64_t length);
void mkt_space_each_free(const struct mkt_space *space, mkt_range_fn fn, void *context);

#endif
