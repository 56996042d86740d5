/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lies in a folder of segment files. All of it is little-endian, and everything starts at a
 * multiple of a block (4 KiB).
 *
 *   lock                  mkt_ssd_folder_disk; held with flock by the process that has it open
 *   segment-<id, 8 hex>   mkt_ssd_segment_disk | record | record | ...
 *     record              mkt_ssd_record_disk, CRC32C of each block of data | data
 *
 * A record's header is written after its data, so a record with a header is whole. A header names
 * its place and its segment's nonce, so that what was there before, in the same file or in what a
 * user stored, is never taken for a record.
 */
#ifndef MKT_MEDIA_SSD_LAYOUT_H
#define MKT_MEDIA_SSD_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define MKT_SSD_LAYOUT_VERSION 1
#define MKT_SSD_BLOCK_BYTES    4096u

#define MKT_SSD_FOLDER_MAGIC  0x646c6f6644535348u /* "HSSDfold" */
#define MKT_SSD_SEGMENT_MAGIC 0x6d67657344535348u /* "HSSDsegm" */
#define MKT_SSD_RECORD_MAGIC  0x6463657244535348u /* "HSSDrecd" */

/* A checksum is that of its structure with the field itself 0, and of what follows it. */
struct mkt_ssd_folder_disk {
    uint64_t magic;
    uint32_t version, crc;
    uint32_t epoch; /* of the last open; the generation of the records written since */
    int32_t pid;    /* who opened it, and where */
    char host[64];
};

struct mkt_ssd_segment_disk {
    uint64_t magic;
    uint32_t version, crc;
    uint32_t id, epoch;
    uint64_t nonce;
};

struct mkt_ssd_record_disk {
    uint64_t magic;
    uint32_t version, crc; /* crc: of the blocks' checksums, too */
    uint32_t segment, generation;
    uint64_t nonce;
    uint64_t offset; /* of this header in the file */
    uint64_t bytes;  /* of data; the last block is filled with zeros */
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "layouts are little-endian");
_Static_assert(sizeof(struct mkt_ssd_folder_disk) == 88, "a disk layout");
_Static_assert(offsetof(struct mkt_ssd_folder_disk, host) == 24, "a disk layout");
_Static_assert(sizeof(struct mkt_ssd_segment_disk) == 32, "a disk layout");
_Static_assert(offsetof(struct mkt_ssd_segment_disk, nonce) == 24, "a disk layout");
_Static_assert(sizeof(struct mkt_ssd_record_disk) == 48, "a disk layout");
_Static_assert(offsetof(struct mkt_ssd_record_disk, offset) == 32, "a disk layout");

#endif
