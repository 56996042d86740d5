/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves bytes between memory and the blocks of a file, each block with a checksum (CRC32C). What
 * the blocks mean and where in which file they lie is the caller's.
 *
 * A call has a bounded number of requests in flight: with io_uring where the file is open with
 * O_DIRECT, otherwise one after the other with pread and pwrite. Memory that the file can't be read
 * into or written from as it lies goes through buffers of the engine; all other memory is moved
 * straight. Checksums are computed while other requests are on their way.
 *
 * Any thread. A call needs a queue, of which there is a bounded number, and waits for one at most
 * MKT_FILE_WAIT_MS. Once requests are in flight it can't go away before they end: the device may
 * still write into the memory. A device that is silent for MKT_FILE_WAIT_MS is told in the log.
 */
#ifndef MKT_TRANSPORT_ENGINE_FILE_H
#define MKT_TRANSPORT_ENGINE_FILE_H

#include "core/base/status.h"
#include <stdbool.h>
#include <stdint.h>

#define MKT_FILE_BLOCK_BYTES 4096u
#define MKT_FILE_WAIT_MS     60000
#define MKT_FILE_DEPTH_MAX   128u
#define MKT_FILE_QUEUES_MAX  64u

struct mkt_file_engine;

struct mkt_file_engine_options {
    unsigned queue_depth; /* requests of one call in flight; 0: 16 */
    unsigned queues;      /* calls that run at once; 0: 4 */
    bool without_uring;
};

/* An open file, the caller's. */
struct mkt_file {
    int fd;
    bool is_direct;        /* opened with O_DIRECT */
    uint32_t memory_align; /* of memory, as the file asks for it: a power of two */
    const char *name;      /* for messages */
};

/* Bytes of a sequence of blocks, counted from the first block's start. */
struct mkt_file_range {
    uint64_t offset, length;
};

/* MKT_INVALID (a bound is exceeded), MKT_NO_MEMORY. Without io_uring the engine works, too. */
enum mkt_status mkt_file_engine_create(const struct mkt_file_engine_options *options,
                                       struct mkt_file_engine **engine_out,
                                       struct mkt_error *error);
/* No call may be running. NULL is allowed. */
void mkt_file_engine_destroy(struct mkt_file_engine *engine);

/* NULL: it uses io_uring; otherwise why not. Lives as long as the engine. */
const char *mkt_file_engine_why_no_uring(const struct mkt_file_engine *engine);

/* Writes `bytes` > 0 from memory to the file at `offset`, a multiple of a block; what is left of
 * the last block becomes zeros. crcs_out (NULL is allowed) gets the checksum of each block. The
 * memory must not change meanwhile. MKT_NO_SPACE, MKT_IO_ERROR, MKT_TIMED_OUT (no queue came free),
 * MKT_NO_MEMORY; then any part of it may have been written. */
enum mkt_status mkt_file_write(struct mkt_file_engine *engine, const struct mkt_file *file,
                               uint64_t offset, const void *from, uint64_t bytes,
                               uint32_t *crcs_out, struct mkt_error *error);

struct mkt_file_source {
    const struct mkt_file *file;
    uint64_t offset;      /* of the first block in the file, a multiple of a block */
    const uint32_t *crcs; /* of each block; NULL: they aren't checked */
};

/* Reads ascending ranges that don't overlap (some may be empty): range i lands at `to` +
 * ranges[i].offset - ranges[0].offset, and no other byte there changes. Only blocks of the ranges
 * are read, and those of short gaps between them. MKT_CORRUPT (a wrong checksum, or the file ends
 * early), MKT_IO_ERROR, MKT_TIMED_OUT, MKT_NO_MEMORY; then the bytes of the ranges are undefined.
 */
enum mkt_status mkt_file_read(struct mkt_file_engine *engine, const struct mkt_file_source *source,
                              const struct mkt_file_range *ranges, unsigned count, void *to,
                              struct mkt_error *error);

#endif
