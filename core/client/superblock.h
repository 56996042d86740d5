/* SPDX-License-Identifier: BSD-3-Clause */
/* The little that is to be known of an HDF5 file's superblock (file format specification, level
 * 0A). Pure. */
#ifndef MKT_CLIENT_SUPERBLOCK_H
#define MKT_CLIENT_SUPERBLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mkt_superblock {
    size_t offset; /* where it starts; the bytes before it are the user block */
    unsigned version;
    bool open_for_writing;  /* its writer hasn't closed it, or never will */
    uint64_t end_of_file;   /* from the start of the image */
    size_t checksum_offset; /* version 2 and 3; else 0 */
};

/* False if there is none. */
bool mkt_superblock_read(const void *image, size_t bytes, struct mkt_superblock *superblock_out);
/* Marks the file as properly closed and its end as stated: what native does at a close. */
void mkt_superblock_close(void *image, const struct mkt_superblock *superblock,
                          uint64_t end_of_file);

/* HDF5's checksum of metadata. */
uint32_t mkt_superblock_checksum(const uint8_t *bytes, size_t length);

#endif
