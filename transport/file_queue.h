/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests on their way between memory and a file: an io_uring, or plain calls that end at once. A
 * bounded number of slots, each with an aligned buffer. Internal to the engine of files; used by
 * one thread at a time.
 */
#ifndef MKT_TRANSPORT_FILE_QUEUE_H
#define MKT_TRANSPORT_FILE_QUEUE_H

#include "transport/engine_file.h"
#include <sys/uio.h>

#define MKT_FILE_CHUNK_BYTES ((uint64_t)256 << 10) /* of one request, and of a slot's buffer */

struct mkt_file_request {
    const struct mkt_file *file;
    bool writes, is_buffered; /* buffered: `memory` is the slot's buffer */
    char *memory;
    uint64_t offset, bytes; /* in the file; whole blocks where it is open with O_DIRECT */
    uint64_t block;         /* for the caller: which of its blocks is the first */
    unsigned range;         /* for the caller */
    /* The queue's. */
    char *buffer;
    uint64_t done;
    unsigned retries;
    int error; /* an errno value once it ended; -1: the file ended early */
    struct iovec vector;
    struct mkt_file_request *next;
};

struct mkt_file_queue;

/* `why_no_uring_out` (255 bytes and a zero) is empty if it has a ring. MKT_NO_MEMORY. */
enum mkt_status mkt_file_queue_create(unsigned depth, bool without_uring,
                                      struct mkt_file_queue **queue_out, char *why_no_uring_out);
void mkt_file_queue_destroy(struct mkt_file_queue *queue);

/* A free slot, or NULL: all are on their way. It is put with _submit or _release. */
struct mkt_file_request *mkt_file_queue_take(struct mkt_file_queue *queue);
void mkt_file_queue_release(struct mkt_file_queue *queue, struct mkt_file_request *request);
void mkt_file_queue_submit(struct mkt_file_queue *queue, struct mkt_file_request *request);

/* One that ended, whichever; NULL: none is on its way. Blocks. It stays taken until released. */
struct mkt_file_request *mkt_file_queue_wait(struct mkt_file_queue *queue);

#endif
