/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The piece record: the one layout in which a piece crosses the socket, lives in the market's
 * memory and stands in a published index. Little-endian, 8-byte aligned, variable length:
 * the fixed head, then
 *   BOX, MASKED, LIST: rank x { u64 start, u64 count }            (LIST: the bounding box)
 *   SLAB:              rank x { u64 start, stride, count, block }
 *
 * data holds the elements in the file's datatype, packed in row-major order of the box or slab
 * (LIST: in the order of its table). table is
 *   MASKED: a bitmap, bit i (byte i/8, bit i%8) says that packed element i was written;
 *   LIST:   { u64 offset, u64 length } pairs, sorted, disjoint, in elements of the array's
 * row-major order *within the bounding box given* (offset of an element = its packed index in that
 * box).
 */
#ifndef MKT_GEOMETRY_PIECE_LAYOUT_H
#define MKT_GEOMETRY_PIECE_LAYOUT_H

#include "core/base/extent.h"
#include "core/base/status.h"
#include "core/geometry/slab.h"

enum mkt_piece_form {
    MKT_PIECE_BOX = 1,
    MKT_PIECE_SLAB = 2,
    MKT_PIECE_MASKED = 3,
    MKT_PIECE_LIST = 4
};

struct mkt_piece_record_wire {
    uint16_t form;
    uint16_t rank;
    uint32_t record_bytes; /* head and dimensions */
    uint64_t stamp;        /* node-wide order of writes, the later wins; set by the market */
    struct mkt_extent data;
    struct mkt_extent table; /* all zero for BOX and SLAB */
    uint64_t dims[];
};
_Static_assert(sizeof(struct mkt_piece_record_wire) == 64, "piece record head");

/* The same, parsed. */
struct mkt_piece {
    enum mkt_piece_form form;
    uint64_t stamp;
    struct mkt_extent data, table;
    struct mkt_slab slab; /* BOX, MASKED: the box; SLAB: the slab; LIST: the bounding box */
};

#define MKT_PIECE_RECORD_MAX_BYTES (64 + MKT_MAX_RANK * 32)

uint32_t mkt_piece_record_bytes(const struct mkt_piece *piece);

/* Writes mkt_piece_record_bytes() bytes. */
void mkt_piece_encode(const struct mkt_piece *piece, void *record_out);

/* Parses and checks one record of at most `available` bytes from an untrusted source: form, rank,
 * sizes, slab sanity, and that data.length == elements * element_bytes (not for LIST) and the
 * table's length fits. Returns MKT_OK or MKT_PROTOCOL. `used_out` gets record_bytes. */
enum mkt_status mkt_piece_decode(const void *record, uint64_t available, uint32_t element_bytes,
                                 struct mkt_piece *piece_out, uint32_t *used_out);

#endif
