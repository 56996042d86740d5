/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/file_queue.h"

#include "core/base/log.h"
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RETRIES_MAX    1000 /* of a request that the kernel has no room for, 1 ms apart */
#define ENDED_EARLY    (-1)
#define REASON_BYTES   256
#define ALIGNMENT_BYTE MKT_FILE_BLOCK_BYTES

struct mkt_file_queue {
    struct io_uring ring;
    bool has_ring, has_buffers; /* buffers: the kernel knows them */
    unsigned on_ring;           /* requests that the kernel has */
    char *buffers;
    struct mkt_file_request *unused, *ended;
    struct mkt_file_request slots[];
};

static void make_ring(struct mkt_file_queue *queue, unsigned depth, char *why_not_out)
{
    struct iovec vector = {queue->buffers, depth * MKT_FILE_CHUNK_BYTES};
    int result = io_uring_queue_init(depth, &queue->ring, 0);

    if (result < 0) {
        snprintf(why_not_out, REASON_BYTES, "io_uring: %s%s", strerror(-result),
                 result == -EPERM ? " (a container or kernel.io_uring_disabled forbids it)" : "");
        return;
    }
    queue->has_ring = true;
    /* A limit of locked memory may forbid that; it saves a little time only. */
    queue->has_buffers = io_uring_register_buffers(&queue->ring, &vector, 1) == 0;
    if (!queue->has_buffers)
        mkt_log_debug("file", "buffers of an io_uring aren't registered (`ulimit -l`)");
}

enum mkt_status mkt_file_queue_create(unsigned depth, bool without_uring,
                                      struct mkt_file_queue **queue_out, char *why_no_uring_out)
{
    struct mkt_file_queue *queue = calloc(1, sizeof(*queue) + depth * sizeof(queue->slots[0]));

    if (queue == NULL)
        return MKT_NO_MEMORY;
    queue->buffers = aligned_alloc(ALIGNMENT_BYTE, depth * MKT_FILE_CHUNK_BYTES);
    if (queue->buffers == NULL) {
        free(queue);
        return MKT_NO_MEMORY;
    }
    for (unsigned i = 0; i < depth; i++) {
        queue->slots[i].buffer = queue->buffers + i * MKT_FILE_CHUNK_BYTES;
        mkt_file_queue_release(queue, &queue->slots[i]);
    }
    why_no_uring_out[0] = '\0';
    if (without_uring)
        snprintf(why_no_uring_out, REASON_BYTES, "io_uring: not wanted");
    else
        make_ring(queue, depth, why_no_uring_out);
    *queue_out = queue;
    return MKT_OK;
}

void mkt_file_queue_destroy(struct mkt_file_queue *queue)
{
    if (queue == NULL)
        return;
    if (queue->has_ring)
        io_uring_queue_exit(&queue->ring);
    free(queue->buffers);
    free(queue);
}

struct mkt_file_request *mkt_file_queue_take(struct mkt_file_queue *queue)
{
    struct mkt_file_request *request = queue->unused;

    if (request != NULL) {
        queue->unused = request->next;
        request->done = 0;
        request->retries = 0;
        request->error = 0;
    }
    return request;
}

void mkt_file_queue_release(struct mkt_file_queue *queue, struct mkt_file_request *request)
{
    request->next = queue->unused;
    queue->unused = request;
}

/* ---- what a call of the kernel answered ---- */

/* True: the request has ended. A part that was moved is asked for no more; the rest starts at a
 * multiple of the file's block again. `result` is bytes, or an errno value below 0. */
static bool take_result(struct mkt_file_request *request, int64_t result)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    if (result == -EINTR || result == -EAGAIN) {
        if (request->retries++ < RETRIES_MAX) {
            if (result == -EAGAIN)
                nanosleep(&pause, NULL);
            return false;
        }
    }
    if (result < 0) {
        request->error = (int)-result;
        return true;
    }
    if (result == 0) {
        request->error = request->writes ? ENOSPC : ENDED_EARLY;
        return true;
    }
    request->done += (uint64_t)result;
    if (request->done >= request->bytes)
        return true;
    if (request->file->is_direct && result < (int64_t)MKT_FILE_BLOCK_BYTES) {
        request->error = request->writes ? EIO : ENDED_EARLY; /* less than a block: no progress */
        return true;
    }
    if (request->file->is_direct)
        request->done -= request->done % MKT_FILE_BLOCK_BYTES;
    return false;
}

/* ---- plain calls ---- */

static void move_plainly(struct mkt_file_queue *queue, struct mkt_file_request *request)
{
    ssize_t result;

    do {
        char *memory = request->memory + request->done;
        size_t bytes = request->bytes - request->done;
        off_t offset = (off_t)(request->offset + request->done);
        result = request->writes ? pwrite(request->file->fd, memory, bytes, offset)
                                 : pread(request->file->fd, memory, bytes, offset);
    } while (!take_result(request, result < 0 ? -errno : result));
    request->next = queue->ended;
    queue->ended = request;
}

/* ---- io_uring ---- */

static void prepare(struct mkt_file_queue *queue, struct mkt_file_request *request,
                    struct io_uring_sqe *sqe)
{
    int fd = request->file->fd;
    uint64_t offset = request->offset + request->done;

    request->vector.iov_base = request->memory + request->done;
    request->vector.iov_len = request->bytes - request->done;
    if (request->is_buffered && queue->has_buffers) {
        void *memory = request->vector.iov_base;
        unsigned bytes = (unsigned)request->vector.iov_len;
        if (request->writes)
            io_uring_prep_write_fixed(sqe, fd, memory, bytes, offset, 0);
        else
            io_uring_prep_read_fixed(sqe, fd, memory, bytes, offset, 0);
    } else if (request->writes) {
        io_uring_prep_writev(sqe, fd, &request->vector, 1, offset);
    } else {
        io_uring_prep_readv(sqe, fd, &request->vector, 1, offset);
    }
    io_uring_sqe_set_data(sqe, request);
}

/* False: the kernel took nothing. */
static bool enter(struct mkt_file_queue *queue)
{
    for (unsigned tries = 0; tries < RETRIES_MAX; tries++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        int result = io_uring_submit(&queue->ring);
        if (result > 0)
            return true;
        if (result != 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY)
            break;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* NULL: the ring is full of what the kernel doesn't take. */
static struct io_uring_sqe *get_sqe(struct mkt_file_queue *queue)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&queue->ring);

    if (sqe == NULL && io_uring_submit(&queue->ring) > 0)
        sqe = io_uring_get_sqe(&queue->ring);
    return sqe;
}

void mkt_file_queue_submit(struct mkt_file_queue *queue, struct mkt_file_request *request)
{
    /* Without O_DIRECT the kernel copies in the call itself: a ring gains nothing. */
    struct io_uring_sqe *sqe = queue->has_ring && request->file->is_direct ? get_sqe(queue) : NULL;

    if (sqe == NULL) {
        move_plainly(queue, request);
        return;
    }
    prepare(queue, request, sqe);
    if (enter(queue)) {
        queue->on_ring++;
        return;
    }
    /* It still stands in the ring and may be taken later: then as nothing. */
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, NULL);
    move_plainly(queue, request);
}

static struct io_uring_cqe *wait_for_cqe(struct mkt_file_queue *queue)
{
    struct io_uring_cqe *cqe = NULL;
    struct __kernel_timespec wait = {.tv_sec = MKT_FILE_WAIT_MS / 1000};
    int result;

    while ((result = io_uring_wait_cqe_timeout(&queue->ring, &cqe, &wait)) != 0 || cqe == NULL) {
        const struct timespec pause = {.tv_nsec = 1000000};
        if (result == -ETIME)
            mkt_log_warning("file", "a device has been silent for %d s; waiting on",
                            MKT_FILE_WAIT_MS / 1000);
        else if (result != -EINTR)
            nanosleep(&pause, NULL);
    }
    return cqe;
}

struct mkt_file_request *mkt_file_queue_wait(struct mkt_file_queue *queue)
{
    struct mkt_file_request *request = queue->ended;

    if (request != NULL) {
        queue->ended = request->next;
        return request;
    }
    while (queue->on_ring > 0) {
        struct io_uring_cqe *cqe = wait_for_cqe(queue);
        int result = cqe->res;
        request = io_uring_cqe_get_data(cqe);
        io_uring_cqe_seen(&queue->ring, cqe);
        if (request == NULL)
            continue;
        queue->on_ring--;
        if (take_result(request, result))
            return request;
        mkt_file_queue_submit(queue, request);
        if (queue->ended != NULL) /* it went the plain way, and has ended */
            return mkt_file_queue_wait(queue);
    }
    return NULL;
}
