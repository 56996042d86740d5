/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/engine_file.h"

#include "core/base/clock.h"
#include "core/base/fault.h"
#include "transport/crc32c.h"
#include "transport/file_queue.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK          ((uint64_t)MKT_FILE_BLOCK_BYTES)
#define CHUNK_BLOCKS   (MKT_FILE_CHUNK_BYTES / BLOCK)
#define DEPTH_DEFAULT  16
#define QUEUES_DEFAULT 4
/* A request of its own costs about as much as these blocks do. */
#define GAP_BLOCKS 8
/* Fewer whole blocks than these go through a buffer with their neighbours. */
#define STRAIGHT_BLOCKS 8
#define REASON_BYTES    256

struct mkt_file_engine {
    struct mkt_file_engine_options options;
    char why_no_uring[REASON_BYTES];
    pthread_mutex_t lock; /* of what follows; a leaf */
    pthread_cond_t freed;
    unsigned queues_made;
    unsigned idle_count;
    struct mkt_file_queue *idle[MKT_FILE_QUEUES_MAX];
};

/* ---- the pool of queues ---- */

enum mkt_status mkt_file_engine_create(const struct mkt_file_engine_options *options,
                                       struct mkt_file_engine **engine_out, struct mkt_error *error)
{
    struct mkt_file_engine *engine = calloc(1, sizeof(*engine));
    pthread_condattr_t clock;

    if (engine == NULL)
        return mkt_error_set(error, MKT_NO_MEMORY, "no memory for an engine of files");
    engine->options = *options;
    if (engine->options.queue_depth == 0)
        engine->options.queue_depth = DEPTH_DEFAULT;
    if (engine->options.queues == 0)
        engine->options.queues = QUEUES_DEFAULT;
    if (engine->options.queue_depth > MKT_FILE_DEPTH_MAX ||
        engine->options.queues > MKT_FILE_QUEUES_MAX) {
        free(engine);
        return mkt_error_set(error, MKT_INVALID, "a queue depth of %u (at most %u), %u queues (%u)",
                             options->queue_depth, MKT_FILE_DEPTH_MAX, options->queues,
                             MKT_FILE_QUEUES_MAX);
    }
    /* The first is made here, to know whether there is io_uring. */
    enum mkt_status status =
        mkt_file_queue_create(engine->options.queue_depth, engine->options.without_uring,
                              &engine->idle[0], engine->why_no_uring);
    if (status != MKT_OK) {
        free(engine);
        return mkt_error_set(error, status, "no memory for the buffers of %u requests",
                             options->queue_depth);
    }
    engine->idle_count = engine->queues_made = 1;
    engine->options.without_uring = engine->why_no_uring[0] != '\0';
    pthread_mutex_init(&engine->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->freed, &clock);
    pthread_condattr_destroy(&clock);
    *engine_out = engine;
    return MKT_OK;
}

void mkt_file_engine_destroy(struct mkt_file_engine *engine)
{
    if (engine == NULL)
        return;
    for (unsigned i = 0; i < engine->idle_count; i++)
        mkt_file_queue_destroy(engine->idle[i]);
    pthread_cond_destroy(&engine->freed);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
}

const char *mkt_file_engine_why_no_uring(const struct mkt_file_engine *engine)
{
    return engine->why_no_uring[0] != '\0' ? engine->why_no_uring : NULL;
}

/* Waits for an idle queue, or may make one: then NULL. */
static enum mkt_status claim_queue(struct mkt_file_engine *engine,
                                   struct mkt_file_queue **queue_out)
{
    uint64_t deadline = mkt_now_ms() + MKT_FILE_WAIT_MS;
    struct timespec until = {.tv_sec = (time_t)(deadline / 1000),
                             .tv_nsec = (long)(deadline % 1000) * 1000000};
    enum mkt_status status = MKT_OK;

    *queue_out = NULL;
    pthread_mutex_lock(&engine->lock);
    while (engine->idle_count == 0 && engine->queues_made == engine->options.queues &&
           status == MKT_OK)
        if (pthread_cond_timedwait(&engine->freed, &engine->lock, &until) == ETIMEDOUT)
            status = MKT_TIMED_OUT;
    if (engine->idle_count > 0) {
        *queue_out = engine->idle[--engine->idle_count];
        status = MKT_OK;
    } else if (status == MKT_OK) {
        engine->queues_made++;
    }
    pthread_mutex_unlock(&engine->lock);
    return status;
}

/* `queue` NULL: it couldn't be made. */
static void put_queue(struct mkt_file_engine *engine, struct mkt_file_queue *queue)
{
    pthread_mutex_lock(&engine->lock);
    if (queue != NULL)
        engine->idle[engine->idle_count++] = queue;
    else
        engine->queues_made--;
    pthread_cond_signal(&engine->freed);
    pthread_mutex_unlock(&engine->lock);
}

static enum mkt_status get_queue(struct mkt_file_engine *engine, const struct mkt_file *file,
                                 struct mkt_file_queue **queue_out, struct mkt_error *error)
{
    char why[REASON_BYTES];
    enum mkt_status status = claim_queue(engine, queue_out);

    if (status != MKT_OK)
        return mkt_error_set(error, status, "%.400s: all %u queues were busy for %d s", file->name,
                             engine->options.queues, MKT_FILE_WAIT_MS / 1000);
    if (*queue_out != NULL)
        return MKT_OK;
    status = mkt_file_queue_create(engine->options.queue_depth, engine->options.without_uring,
                                   queue_out, why);
    if (status == MKT_OK)
        return MKT_OK;
    put_queue(engine, NULL);
    return mkt_error_set(error, status, "%.400s: no memory for the buffers of %u requests",
                         file->name, engine->options.queue_depth);
}

/* ---- a call: requests, one after the other, and what is done with each when it ended ---- */

struct mover {
    const struct mkt_file *file;
    /* Fills the request, whose buffer is there to be used; false: nothing is left. */
    bool (*next)(struct mover *mover, struct mkt_file_request *request);
    enum mkt_status (*finish)(struct mover *mover, const struct mkt_file_request *request,
                              struct mkt_error *error);
};

static enum mkt_status request_status(const struct mkt_file_request *request,
                                      struct mkt_error *error)
{
    const char *verb = request->writes ? "write" : "read";
    unsigned long long offset = (unsigned long long)request->offset;
    enum mkt_status status = MKT_IO_ERROR;

    if (request->error == 0)
        return MKT_OK;
    if (request->error < 0)
        return mkt_error_set(error, MKT_CORRUPT, "%.400s ends before offset %llu",
                             request->file->name, offset + request->bytes);
    if (request->error == ENOSPC || request->error == EDQUOT || request->error == ENOMEM)
        status = mkt_status_from_errno(request->error);
    return mkt_error_set(error, status, "can't %s %.400s at %llu: %s", verb, request->file->name,
                         offset, strerror(request->error));
}

/* Keeps the queue full; after a failure what is on its way still ends. */
static enum mkt_status run(struct mkt_file_queue *queue, struct mover *mover,
                           struct mkt_error *error)
{
    enum mkt_status status = MKT_OK;
    bool more = true;

    for (;;) {
        struct mkt_file_request *request = NULL;
        if (more && status == MKT_OK)
            request = mkt_file_queue_take(queue);
        if (request != NULL) {
            request->file = mover->file;
            more = mover->next(mover, request);
            if (more) {
                mkt_file_queue_submit(queue, request);
                (void)mkt_fault_point("file.submitted");
            } else {
                mkt_file_queue_release(queue, request);
            }
            continue;
        }
        request = mkt_file_queue_wait(queue);
        if (request == NULL)
            return status;
        if (status == MKT_OK)
            status = request_status(request, error);
        if (status == MKT_OK)
            status = mover->finish(mover, request, error);
        mkt_file_queue_release(queue, request);
    }
}

static enum mkt_status move(struct mkt_file_engine *engine, struct mover *mover,
                            struct mkt_error *error)
{
    struct mkt_file_queue *queue;
    enum mkt_status status = get_queue(engine, mover->file, &queue, error);

    if (status != MKT_OK)
        return status;
    status = run(queue, mover, error);
    put_queue(engine, queue);
    return status;
}

static bool is_aligned(const struct mkt_file *file, const char *memory)
{
    return ((uintptr_t)memory & (file->memory_align - 1)) == 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- writing ---- */

struct writing {
    struct mover mover;
    uint64_t offset, bytes, at; /* at: bytes that requests were made for */
    const char *from;
    uint32_t *crcs;
};

static void sum_blocks(const struct writing *writing, const struct mkt_file_request *request)
{
    for (uint64_t i = 0; writing->crcs != NULL && i * BLOCK < request->bytes; i++)
        writing->crcs[request->block + i] = mkt_crc32c(0, request->memory + i * BLOCK, BLOCK);
}

static bool next_write(struct mover *mover, struct mkt_file_request *request)
{
    struct writing *writing = (struct writing *)mover;
    const char *from = writing->from + writing->at;
    uint64_t bytes = least(writing->bytes - writing->at, MKT_FILE_CHUNK_BYTES);
    uint64_t whole = bytes - bytes % BLOCK;

    if (bytes == 0)
        return false;
    request->writes = true;
    request->offset = writing->offset + writing->at;
    request->block = writing->at / BLOCK;
    request->is_buffered = whole == 0 || !is_aligned(mover->file, from);
    if (request->is_buffered) {
        request->memory = request->buffer;
        request->bytes = (bytes + BLOCK - 1) / BLOCK * BLOCK;
        memcpy(request->buffer, from, bytes);
        memset(request->buffer + bytes, 0, request->bytes - bytes);
        writing->at += bytes;
    } else {
        request->memory = (char *)(uintptr_t)from; /* only read */
        request->bytes = whole;
        writing->at += whole;
    }
    sum_blocks(writing, request);
    return true;
}

static enum mkt_status finish_write(struct mover *mover, const struct mkt_file_request *request,
                                    struct mkt_error *error)
{
    enum mkt_status status = mkt_fault_point("file.written");

    (void)mover;
    return status == MKT_OK ? MKT_OK
                            : mkt_error_set(error, status, "can't write %.400s: a fault point",
                                            request->file->name);
}

enum mkt_status mkt_file_write(struct mkt_file_engine *engine, const struct mkt_file *file,
                               uint64_t offset, const void *from, uint64_t bytes,
                               uint32_t *crcs_out, struct mkt_error *error)
{
    struct writing writing = {
        .mover = {.file = file, .next = next_write, .finish = finish_write},
        .offset = offset,
        .bytes = bytes,
        .from = from,
        .crcs = crcs_out,
    };

    return move(engine, &writing.mover, error);
}

/* ---- reading ---- */

struct reading {
    struct mover mover;
    const struct mkt_file_source *source;
    const struct mkt_file_range *ranges;
    unsigned count, range; /* range: the first with blocks that no request was made for */
    uint64_t block;        /* the first that no request was made for */
    char *to;
};

static uint64_t first_block(const struct mkt_file_range *range)
{
    return range->offset / BLOCK;
}

static uint64_t end_block(const struct mkt_file_range *range)
{
    return range->length == 0 ? 0 : (range->offset + range->length + BLOCK - 1) / BLOCK;
}

/* The first range from `range` on that has blocks from `block` on. */
static unsigned skip_ranges(const struct reading *reading, unsigned range, uint64_t block)
{
    while (range < reading->count && end_block(&reading->ranges[range]) <= block)
        range++;
    return range;
}

/* Where the byte at `offset` of the blocks lands. */
static char *target(const struct reading *reading, uint64_t offset)
{
    return reading->to + (offset - reading->ranges[0].offset);
}

/* How many blocks from `block` on can be read into the target of a range as they are. */
static uint64_t straight_blocks(const struct reading *reading, unsigned range, uint64_t block)
{
    const struct mkt_file_range *wanted = &reading->ranges[range];
    uint64_t end = (wanted->offset + wanted->length) / BLOCK;

    if (block * BLOCK < wanted->offset || block >= end ||
        !is_aligned(reading->mover.file, target(reading, block * BLOCK)))
        return 0;
    return least(end - block, CHUNK_BLOCKS);
}

/* The end of the blocks from reading->block on that one buffer takes: to a gap that is larger than
 * a request is worth, or to where blocks can be read straight. */
static uint64_t buffered_end(const struct reading *reading)
{
    uint64_t end = reading->block, limit = reading->block + CHUNK_BLOCKS;
    unsigned range = reading->range;

    while (end < limit) {
        range = skip_ranges(reading, range, end);
        if (range == reading->count)
            break;
        uint64_t next = first_block(&reading->ranges[range]);
        if (next < end)
            next = end;
        if (next - end > GAP_BLOCKS || next >= limit)
            break;
        if (next > reading->block && straight_blocks(reading, range, next) >= STRAIGHT_BLOCKS)
            break;
        end = next + 1;
    }
    return end;
}

static bool next_read(struct mover *mover, struct mkt_file_request *request)
{
    struct reading *reading = (struct reading *)mover;

    reading->range = skip_ranges(reading, reading->range, reading->block);
    if (reading->range == reading->count)
        return false;
    if (reading->block < first_block(&reading->ranges[reading->range]))
        reading->block = first_block(&reading->ranges[reading->range]);
    uint64_t blocks = straight_blocks(reading, reading->range, reading->block);
    request->writes = false;
    request->is_buffered = blocks < STRAIGHT_BLOCKS;
    request->memory = target(reading, reading->block * BLOCK);
    if (request->is_buffered) {
        request->memory = request->buffer;
        blocks = buffered_end(reading) - reading->block;
    }
    request->block = reading->block;
    request->range = reading->range;
    request->offset = reading->source->offset + reading->block * BLOCK;
    request->bytes = blocks * BLOCK;
    reading->block += blocks;
    return true;
}

/* From the buffer into the targets of all ranges that it holds a part of. */
static void hand_out(const struct reading *reading, const struct mkt_file_request *request)
{
    uint64_t start = request->block * BLOCK, end = start + request->bytes;

    for (unsigned i = request->range; i < reading->count; i++) {
        const struct mkt_file_range *range = &reading->ranges[i];
        uint64_t from = range->offset > start ? range->offset : start;
        uint64_t to = least(range->offset + range->length, end);
        if (range->offset >= end)
            break;
        if (from < to)
            memcpy(target(reading, from), request->memory + (from - start), to - from);
    }
}

static enum mkt_status finish_read(struct mover *mover, const struct mkt_file_request *request,
                                   struct mkt_error *error)
{
    const struct reading *reading = (const struct reading *)mover;
    const uint32_t *crcs = reading->source->crcs;
    enum mkt_status status = mkt_fault_point("file.read");

    if (status != MKT_OK)
        return mkt_error_set(error, status, "can't read %.400s: a fault point",
                             request->file->name);
    for (uint64_t i = 0; crcs != NULL && i * BLOCK < request->bytes; i++)
        if (mkt_crc32c(0, request->memory + i * BLOCK, BLOCK) != crcs[request->block + i])
            return mkt_error_set(error, MKT_CORRUPT, "%.400s has a wrong checksum at offset %llu",
                                 request->file->name,
                                 (unsigned long long)(request->offset + i * BLOCK));
    if (request->is_buffered)
        hand_out(reading, request);
    return MKT_OK;
}

enum mkt_status mkt_file_read(struct mkt_file_engine *engine, const struct mkt_file_source *source,
                              const struct mkt_file_range *ranges, unsigned count, void *to,
                              struct mkt_error *error)
{
    struct reading reading = {
        .mover = {.file = source->file, .next = next_read, .finish = finish_read},
        .source = source,
        .ranges = ranges,
        .count = count,
        .to = to,
    };

    return move(engine, &reading.mover, error);
}
