/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of an index: little-endian, 8-byte aligned parts, offsets from the start of the block.
 *
 *   header
 *   array entries, sorted by (token, identity)
 *   u32 positions of the arrays sorted by identity
 *   dims (u64) of each array
 *   the pieces, for each array: piece records in the order in which the later wins,
 *                   and, with more than MKT_INDEX_SCAN_MAX of them,
 *                   u32 offsets of the records (in 8 bytes, from the first record),
 *                   the R-tree: u32 order of the pieces in the leaves, then nodes
 *   tables of checksums over the pieces
 *
 * The header's checksum covers all before the pieces. The pieces are cut into blocks of
 * MKT_INDEX_BLOCK_BYTES, the last may be shorter; the first table has the u64 checksum of each. A
 * table longer than a block is cut into blocks as well, whose checksums are the next table. The
 * checksum of the last table (of the pieces, if one block holds them; 0 without any) is the
 * header's `root`. All are mkt_hash64 with seed 0.
 *
 * R-tree: leaf l holds the pieces order[16 l .. 16 l + 15]; their boxes stand in the records alone.
 * Level 0 has a box for each leaf, level k + 1 one for 16 boxes of level k, up to one root. The
 * levels follow one another, level 0 first; a box is rank x { u64 low, u64 end }.
 */
#ifndef MKT_GEOMETRY_INDEX_LAYOUT_H
#define MKT_GEOMETRY_INDEX_LAYOUT_H

#include "core/geometry/index.h"

#include <stddef.h>

#define MKT_INDEX_MAGIC       "MKTINDEX"
#define MKT_INDEX_VERSION     2
#define MKT_INDEX_FANOUT      16
#define MKT_INDEX_SCAN_MAX    16 /* up to so many pieces a scan is as fast as a tree */
#define MKT_INDEX_BLOCK_BYTES 1024

struct mkt_index_header_disk {
    char magic[8];
    uint64_t checksum; /* of all bytes from `version` to the pieces */
    uint32_t version;
    uint32_t arrays;
    uint64_t total_bytes;
    uint64_t arrays_offset;
    uint64_t identities_offset;
    uint64_t pieces_offset;
    uint64_t sums_offset; /* where the pieces end */
    uint64_t root;
};
_Static_assert(sizeof(struct mkt_index_header_disk) == 72, "index header");
_Static_assert(offsetof(struct mkt_index_header_disk, version) == 16, "what the checksum covers");

#define MKT_INDEX_ARRAY_DISJOINT 1u /* no two pieces overlap */

struct mkt_index_array_disk {
    uint8_t token[MKT_TOKEN_BYTES];
    uint64_t identity;
    uint32_t element_bytes;
    uint32_t flags; /* the client's own */
    uint32_t rank;
    uint32_t index_flags; /* MKT_INDEX_ARRAY_* */
    uint64_t pieces;
    uint64_t dims_offset;
    uint64_t records_offset;
    uint64_t records_bytes;
    uint64_t record_offsets_offset; /* 0 without a tree, as the next two */
    uint64_t order_offset;
    uint64_t nodes_offset;
};
_Static_assert(sizeof(struct mkt_index_array_disk) == 96, "index array entry");

/* Boxes of a level of the tree over `below` children. */
static inline uint64_t mkt_index_level_nodes(uint64_t below)
{
    return (below + MKT_INDEX_FANOUT - 1) / MKT_INDEX_FANOUT;
}

#endif
