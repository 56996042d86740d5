/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datasets that the application wanted to be allocated early: in the image their storage is
 * allocated late, so that the image stays small. Here their object headers are made to say what was
 * asked (file format specification, levels 2A1 and 2A2); the storage itself is rawdata.c's.
 */
#include "vol/save/save.h"

#include "core/client/superblock.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILL_VALUE       0x05
#define CONTINUATION     0x10
#define IS_SHARED        0x02 /* of a message: its contents are elsewhere */
#define HAS_TIMES        0x20 /* of a header of version 2 */
#define HAS_PHASES       0x10
#define HAS_ORDER        0x04
#define CHECKSUM_BYTES   4
#define BLOCKS_MAX       64
#define BLOCK_MAX_BYTES  (1u << 20)
#define PREFIX_MAX_BYTES 34 /* version 2: signature to size */
#define USERBLOCK_FIRST  512

struct image_file {
    int fd;
    uint64_t base; /* where the superblock is: addresses count from there */
    unsigned address_bytes, length_bytes;
};

struct header {
    const struct image_file *file;
    unsigned version, message_bytes; /* of a message's head */
    struct block {
        uint64_t address, bytes; /* with signature and checksum, where it has them */
        unsigned messages_at;
    } block[BLOCKS_MAX];
    unsigned blocks;
};

static uint64_t load(const uint8_t *bytes, unsigned width)
{
    uint64_t value = 0;

    for (unsigned i = width; i > 0; i--)
        value = value << 8 | bytes[i - 1];
    return value;
}

static bool read_at(const struct image_file *file, uint64_t address, void *bytes, size_t count)
{
    return pread(file->fd, bytes, count, (off_t)(file->base + address)) == (ssize_t)count;
}

static bool find_superblock(struct image_file *file)
{
    static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    uint8_t start[16];

    for (file->base = 0; read_at(file, 0, start, sizeof(start));
         file->base = file->base ? file->base * 2 : USERBLOCK_FIRST) {
        if (memcmp(start, signature, sizeof(signature)) != 0)
            continue;
        unsigned sizes_at = start[8] < 2 ? 13 : 9;
        file->address_bytes = start[sizes_at];
        file->length_bytes = start[sizes_at + 1];
        return file->address_bytes <= 8 && file->length_bytes <= 8;
    }
    return false;
}

/* The first block of the header at the address. */
static bool open_header(struct header *header, uint64_t address)
{
    uint8_t prefix[PREFIX_MAX_BYTES] = {0};
    struct block *block = &header->block[0];

    if (!read_at(header->file, address, prefix, 16))
        return false;
    header->blocks = 1;
    if (memcmp(prefix, "OHDR", 4) != 0) {
        header->version = 1;
        header->message_bytes = 8;
        *block = (struct block){.address = address + 16, .bytes = load(prefix + 8, 4)};
        return prefix[0] == 1;
    }
    unsigned flags = prefix[5], width = 1u << (flags & 3);
    unsigned at = 6 + (flags & HAS_TIMES ? 16 : 0) + (flags & HAS_PHASES ? 4 : 0);
    header->version = 2;
    header->message_bytes = flags & HAS_ORDER ? 6 : 4;
    if (!read_at(header->file, address, prefix, at + width))
        return false;
    *block = (struct block){.address = address,
                            .bytes = at + width + load(prefix + at, width) + CHECKSUM_BYTES,
                            .messages_at = at + width};
    return true;
}

static bool add_continuation(struct header *header, const uint8_t *data)
{
    const struct image_file *file = header->file;

    if (header->blocks == BLOCKS_MAX)
        return false;
    header->block[header->blocks++] =
        (struct block){.address = load(data, file->address_bytes),
                       .bytes = load(data + file->address_bytes, file->length_bytes),
                       .messages_at = header->version == 2 ? 4 : 0};
    return true;
}

/* A fill value message: true if it said late and says early now. */
static bool make_early(uint8_t *data, size_t bytes)
{
    unsigned mask = data[0] < 3 ? 0xff : 0x03;

    if (bytes < 2 || (data[1] & mask) != H5D_ALLOC_TIME_LATE)
        return false;
    data[1] = (uint8_t)((data[1] & ~mask) | H5D_ALLOC_TIME_EARLY);
    return true;
}

/* True if the block was changed. */
static bool walk_messages(struct header *header, const struct block *block, uint8_t *bytes)
{
    size_t end = block->bytes - (header->version == 2 ? CHECKSUM_BYTES : 0);
    bool changed = false;

    for (size_t at = block->messages_at; at + header->message_bytes <= end;) {
        bool old = header->version == 1;
        unsigned type = old ? (unsigned)load(bytes + at, 2) : bytes[at];
        size_t size = load(bytes + at + (old ? 2 : 1), 2);
        unsigned flags = bytes[at + (old ? 4 : 3)];
        uint8_t *data = bytes + at + header->message_bytes;

        at += header->message_bytes + size;
        if (at > end)
            break;
        if (type == CONTINUATION &&
            size >= header->file->address_bytes + header->file->length_bytes)
            (void)!add_continuation(header, data);
        if (type == FILL_VALUE && !(flags & IS_SHARED))
            changed |= make_early(data, size);
    }
    return changed;
}

static bool write_block(const struct header *header, const struct block *block, uint8_t *bytes)
{
    if (header->version == 2) {
        size_t covered = block->bytes - CHECKSUM_BYTES;
        uint32_t sum = mkt_superblock_checksum(bytes, covered);

        for (unsigned i = 0; i < CHECKSUM_BYTES; i++)
            bytes[covered + i] = (uint8_t)(sum >> (8 * i));
    }
    return pwrite(header->file->fd, bytes, block->bytes,
                  (off_t)(header->file->base + block->address)) == (ssize_t)block->bytes;
}

/* False: it couldn't be read or written. A header without such a message stays as it is. */
static bool mark(const struct image_file *file, uint64_t address)
{
    struct header header = {.file = file};
    bool good = open_header(&header, address);

    for (unsigned i = 0; good && i < header.blocks; i++) {
        const struct block block = header.block[i];
        uint8_t *bytes =
            block.bytes > block.messages_at + CHECKSUM_BYTES && block.bytes <= BLOCK_MAX_BYTES
                ? malloc(block.bytes)
                : NULL;
        good = bytes && read_at(file, block.address, bytes, block.bytes);
        if (good && walk_messages(&header, &block, bytes))
            good = write_block(&header, &block, bytes);
        free(bytes);
    }
    return good;
}

enum mkt_status mkt_save_mark_early(const struct mkt_save_target *target,
                                    const struct mkt_index_view *index, struct mkt_error *error)
{
    struct image_file file = {.fd = target->fd};
    struct mkt_array array;
    bool known = false;

    for (uint32_t position = 0; position < index->arrays; position++) {
        if (mkt_index_view_array(index, position, &array) != MKT_OK)
            return mkt_error_set(error, MKT_CORRUPT, "the index of the version is corrupt");
        if ((array.flags & MKT_SAVE_ALLOC_TIME) != H5D_ALLOC_TIME_EARLY)
            continue;
        known = known || find_superblock(&file);
        /* A token of native HDF5's is the address of the object's header. */
        if (!known || !mark(&file, load(array.token, file.address_bytes)))
            return mkt_error_set(error, MKT_IO_ERROR, "a dataset's header in %s can't be changed",
                                 target->temporary);
    }
    return MKT_OK;
}
