/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/client/superblock.h"

#include <string.h>

static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

#define VERSION_AT      8
#define V0_ADDRESS_AT   13 /* the size of an address */
#define V0_FLAGS_AT     20 /* as in version 2; native writes them but doesn't look */
#define V0_ADDRESSES_AT 24 /* base, free space, end of file, driver */
#define V1_ADDRESSES_AT 28
#define V2_ADDRESS_AT   9
#define V2_FLAGS_AT     11
#define V2_ADDRESSES_AT 12 /* base, extension, end of file, root group; then the checksum */
#define END_OF_FILE     2  /* its place among the addresses in either */
#define OPEN_FOR_WRITE  0x01
#define OPEN_FOR_SWMR   0x04

static uint64_t load(const uint8_t *bytes, unsigned width)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static void store(uint8_t *bytes, uint64_t value, unsigned width)
{
    for (unsigned i = 0; i < width; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

/* Where the addresses start and how wide each is, from the superblock's start; 0: a version that we
 * don't know. */
static size_t addresses(const uint8_t *superblock, unsigned *width_out)
{
    switch (superblock[VERSION_AT]) {
    case 0:
    case 1:
        *width_out = superblock[V0_ADDRESS_AT];
        return superblock[VERSION_AT] == 0 ? V0_ADDRESSES_AT : V1_ADDRESSES_AT;
    case 2:
    case 3:
        *width_out = superblock[V2_ADDRESS_AT];
        return V2_ADDRESSES_AT;
    default:
        return 0;
    }
}

bool mkt_superblock_read(const void *image, size_t bytes, struct mkt_superblock *superblock_out)
{
    const uint8_t *start = image;
    size_t offset = 0;
    /* At 0, 512, 1024, 2048 and so on. */
    while (offset < bytes && bytes - offset >= V0_ADDRESSES_AT &&
           memcmp(start + offset, signature, sizeof(signature)) != 0)
        offset = offset ? offset * 2 : 512;
    if (offset >= bytes || bytes - offset < V0_ADDRESSES_AT)
        return false;
    unsigned width = 0;
    size_t at = addresses(start + offset, &width);
    if (!at || width == 0 || width > 8 || bytes - offset < at + 4 * (size_t)width + 4)
        return false;
    superblock_out->offset = offset;
    superblock_out->version = start[offset + VERSION_AT];
    superblock_out->open_for_writing =
        start[offset + (superblock_out->version >= 2 ? V2_FLAGS_AT : V0_FLAGS_AT)] & OPEN_FOR_WRITE;
    superblock_out->end_of_file = load(start + offset + at + END_OF_FILE * (size_t)width, width);
    superblock_out->checksum_offset =
        superblock_out->version >= 2 ? offset + at + 4 * (size_t)width : 0;
    return superblock_out->end_of_file >= offset;
}

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

/* HDF5's metadata checksum: Bob Jenkins's lookup3 (hashlittle), burtleburtle.net/bob/c/lookup3.c.
 */
uint32_t mkt_superblock_checksum(const uint8_t *key, size_t length)
{
    uint32_t a = 0xdeadbeef + (uint32_t)length, b = a, c = a;
    while (length > 12) {
        a += (uint32_t)load(key, 4);
        b += (uint32_t)load(key + 4, 4);
        c += (uint32_t)load(key + 8, 4);
        a = (a - c) ^ rotate(c, 4), c += b;
        b = (b - a) ^ rotate(a, 6), a += c;
        c = (c - b) ^ rotate(b, 8), b += a;
        a = (a - c) ^ rotate(c, 16), c += b;
        b = (b - a) ^ rotate(a, 19), a += c;
        c = (c - b) ^ rotate(b, 4), b += a;
        key += 12;
        length -= 12;
    }
    if (length == 0)
        return c;
    uint8_t rest[12] = {0};
    memcpy(rest, key, length);
    a += (uint32_t)load(rest, 4);
    b += (uint32_t)load(rest + 4, 4);
    c += (uint32_t)load(rest + 8, 4);
    c = (c ^ b) - rotate(b, 14);
    a = (a ^ c) - rotate(c, 11);
    b = (b ^ a) - rotate(a, 25);
    c = (c ^ b) - rotate(b, 16);
    a = (a ^ c) - rotate(c, 4);
    b = (b ^ a) - rotate(a, 14);
    return (c ^ b) - rotate(b, 24);
}

void mkt_superblock_close(void *image, const struct mkt_superblock *superblock,
                          uint64_t end_of_file)
{
    uint8_t *start = (uint8_t *)image + superblock->offset;
    unsigned width = 0;
    size_t at = addresses(start, &width);
    if (!at)
        return;
    store(start + at + END_OF_FILE * (size_t)width, end_of_file, width);
    start[superblock->version >= 2 ? V2_FLAGS_AT : V0_FLAGS_AT] &=
        (uint8_t) ~(OPEN_FOR_WRITE | OPEN_FOR_SWMR);
    if (superblock->checksum_offset) {
        size_t length = superblock->checksum_offset - superblock->offset;
        store((uint8_t *)image + superblock->checksum_offset,
              mkt_superblock_checksum(start, length), 4);
    }
}
