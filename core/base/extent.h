/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A descriptor of bytes in a medium. Descriptors, never pointers, pass between components;
 * the medium that owns the arena turns one into an address.
 */
#ifndef MKT_BASE_EXTENT_H
#define MKT_BASE_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

/* Fixed layout: part of piece records, messages and indexes (little-endian, 24 bytes). */
struct mkt_extent {
    uint32_t arena;      /* id of the arena, 1.. ; 0 means "no extent" */
    uint32_t generation; /* of the place; 0 while places never move */
    uint64_t offset;     /* bytes from the start of the arena */
    uint64_t length;     /* bytes */
};

/* Arenas from this id on are tiers that no client maps: what lies there is fetched. Their offsets
 * and generations are the medium's own. */
#define MKT_ARENA_TIER 0x80000000u

static inline bool mkt_extent_is_cold(const struct mkt_extent *extent)
{
    return extent->arena >= MKT_ARENA_TIER;
}

/* A part of something, in bytes from its start. */
struct mkt_span {
    uint64_t offset, length;
};
_Static_assert(sizeof(struct mkt_span) == 16, "mkt_span is a wire layout");

/* Bytes change hands in whole granules of this size: the extents that a client adds, commits or
 * releases start at a multiple of it, and the last granule belongs to the extent whole. */
#define MKT_EXTENT_GRANULE 64

/* Bytes rounded up to whole granules. */
static inline uint64_t mkt_round_granule(uint64_t bytes)
{
    return (bytes + MKT_EXTENT_GRANULE - 1) & ~(uint64_t)(MKT_EXTENT_GRANULE - 1);
}

_Static_assert(sizeof(struct mkt_extent) == 24, "mkt_extent is a wire layout");

#endif
