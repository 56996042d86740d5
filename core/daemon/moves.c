/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/moves.h"
#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/base/hash.h"
#include "core/daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define THREADS         4
#define TIDY_SECONDS    5
#define LIMIT_MIN_BYTES ((uint64_t)16 << 20)
#define PROBE_BYTES     (8u << 20) /* to measure speeds with */
#define PROBE_READS     32

/*
 * queued ─▶ a thread does it ─▶ done ─▶ the loop tells the market
 */
struct job {
    uint64_t move;
    bool in, tidies;
    struct mkt_ssd_record record;
    struct mkt_extent memory; /* the arena's bytes, at `address` */
    uint8_t *address;
    void *arena;
    struct mkt_span *span;
    uint32_t spans;
    uint64_t from;
    enum mkt_status status;
    struct mkt_error error;
    struct job *next;
};

struct queue {
    struct job *first, **last;
};

struct mkt_moves {
    struct mkt_daemon *daemon;
    struct mkt_ssd *ssd;
    uv_async_t wake; /* something is done */
    pthread_t thread[THREADS];
    unsigned threads;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t work;
    struct queue queued, done;
    bool stopping;
    /* The loop's. */
    bool dropped; /* something since the last time that files were removed */
    unsigned seconds;
    enum mkt_status complained_of; /* the last move out; MKT_OK: none */
};

static void put(struct queue *queue, struct job *job)
{
    if (!queue->first)
        queue->last = &queue->first;
    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
}

static struct job *take(struct queue *queue)
{
    struct job *job = queue->first;

    if (job)
        queue->first = job->next;
    return job;
}

static void job_free(struct job *job)
{
    free(job->span);
    free(job);
}

/* ---- in the threads ---- */

static void write_out(struct mkt_moves *moves, struct job *job)
{
    mkt_fault_point("tier.before-write");
    job->status = mkt_ssd_write(moves->ssd, &job->record, job->address, &job->error);
    mkt_fault_point("tier.written");
}

static void read_in(struct mkt_moves *moves, struct job *job)
{
    const struct mkt_medium *medium = moves->daemon->arenas.medium;
    struct mkt_file_range ranges[64];

    for (uint32_t at = 0; at < job->spans && job->status == MKT_OK;) {
        const struct mkt_span *span = &job->span[at];
        uint32_t count = 0;

        for (; count < 64 && at + count < job->spans; count++) {
            uint64_t offset = span[count].offset - job->from;

            ranges[count] = (struct mkt_file_range){span[count].offset, span[count].length};
            job->status =
                medium->populate(job->arena, job->memory.offset + offset, span[count].length);
            if (job->status != MKT_OK)
                return;
        }
        job->status = mkt_ssd_read(moves->ssd, &job->record, ranges, count,
                                   job->address + (span[0].offset - job->from), &job->error);
        at += count;
    }
    mkt_fault_point("tier.read");
}

static void *serve(void *context)
{
    struct mkt_moves *moves = context;

    pthread_mutex_lock(&moves->lock);
    while (!moves->stopping) {
        struct job *job = take(&moves->queued);

        if (!job) {
            pthread_cond_wait(&moves->work, &moves->lock);
            continue;
        }
        pthread_mutex_unlock(&moves->lock);
        if (job->tidies)
            mkt_ssd_tidy(moves->ssd);
        else if (job->in)
            read_in(moves, job);
        else
            write_out(moves, job);
        pthread_mutex_lock(&moves->lock);
        put(&moves->done, job);
        uv_async_send(&moves->wake);
    }
    pthread_mutex_unlock(&moves->lock);
    return NULL;
}

/* ---- in the loop ---- */

static struct mkt_extent cold_of(const struct mkt_ssd_record *record)
{
    return (struct mkt_extent){.arena = MKT_ARENA_TIER,
                               .generation = record->generation,
                               .offset = record->place,
                               .length = record->bytes};
}

static struct mkt_ssd_record record_of(const struct mkt_extent *cold)
{
    return (struct mkt_ssd_record){
        .place = cold->offset, .generation = cold->generation, .bytes = cold->length};
}

static const char *why_of(const struct job *job)
{
    return job->error.text[0] ? job->error.text : mkt_status_text(job->status);
}

/* Of each failure once until it works again: a full disk would fill the log. */
static void complain(struct mkt_moves *moves, const struct job *job)
{
    bool told = !job->in && job->status == moves->complained_of;

    if (!job->in)
        moves->complained_of = job->status;
    if (job->status == MKT_OK || told)
        return;
    mkt_log_warning("tier", "%" PRIu64 " bytes could not be %s: %s",
                    job->in ? job->record.bytes : job->memory.length,
                    job->in ? "read back" : "moved out, and are tried again", why_of(job));
}

static void finish(struct mkt_moves *moves, struct job *job)
{
    struct mkt_extent cold = cold_of(&job->record);

    if (!job->tidies) {
        complain(moves, job);
        if (!job->in)
            mkt_market_note_tier(moves->daemon->market, job->status == MKT_OK ? NULL : why_of(job));
        mkt_market_moved(moves->daemon->market, job->move, job->status, &cold, mkt_now_ms());
    }
    job_free(job);
}

static void on_done(uv_async_t *wake)
{
    struct mkt_moves *moves = wake->data;
    struct queue done;
    struct job *job;

    pthread_mutex_lock(&moves->lock);
    done = moves->done;
    moves->done = (struct queue){.first = NULL};
    pthread_mutex_unlock(&moves->lock);
    while ((job = take(&done)))
        finish(moves, job);
    if (!moves->daemon->stopping)
        mkt_shell_settle(moves->daemon);
}

static void hand_over(struct mkt_moves *moves, struct job *job, bool is_done)
{
    pthread_mutex_lock(&moves->lock);
    put(is_done ? &moves->done : &moves->queued, job);
    pthread_cond_signal(&moves->work);
    pthread_mutex_unlock(&moves->lock);
    if (is_done)
        uv_async_send(&moves->wake);
}

/* A broken state would have to be told from a lack of memory: neither can go on. */
static struct job *job_create(struct mkt_moves *moves, uint64_t move,
                              const struct mkt_extent *memory)
{
    struct job *job = calloc(1, sizeof(*job));

    if (!job) {
        mkt_log_error("tier", "out of memory");
        abort();
    }
    job->move = move;
    job->memory = *memory;
    job->address = mkt_arenas_address(&moves->daemon->arenas, memory);
    job->arena = mkt_arenas_find(&moves->daemon->arenas, memory);
    return job;
}

void mkt_moves_out(struct mkt_moves *moves, uint64_t move, const struct mkt_extent *memory)
{
    struct job *job = job_create(moves, move, memory);

    job->status = mkt_ssd_reserve(moves->ssd, memory->length, &job->record);
    if (job->status == MKT_NO_SPACE) {
        moves->seconds = TIDY_SECONDS; /* what was freed is wanted now */
        mkt_error_set(&job->error, MKT_NO_SPACE,
                      "its files have no %" PRIu64 " bytes left within %" PRIu64 " (`ssd_size`)",
                      memory->length, moves->daemon->limits.tier_bytes);
    }
    hand_over(moves, job, job->status != MKT_OK);
}

void mkt_moves_in(struct mkt_moves *moves, uint64_t move, const struct mkt_market_reading *reading)
{
    struct job *job = job_create(moves, move, &reading->memory);

    job->in = true;
    job->record = record_of(&reading->cold);
    job->from = reading->from;
    job->spans = reading->count;
    job->span = calloc(reading->count, sizeof(*job->span));
    if (job->span)
        memcpy(job->span, reading->spans, reading->count * sizeof(*job->span));
    else
        job->status = MKT_NO_MEMORY;
    hand_over(moves, job, job->status != MKT_OK);
}

void mkt_moves_drop_cold(struct mkt_moves *moves, const struct mkt_extent *cold)
{
    const struct mkt_ssd_record record = record_of(cold);

    (void)mkt_ssd_free(moves->ssd, &record); /* stale after a restart, where it was freed before */
    moves->dropped = true;
}

void mkt_moves_second(struct mkt_moves *moves)
{
    if (!moves || !moves->dropped || ++moves->seconds < TIDY_SECONDS)
        return;
    struct job *job = calloc(1, sizeof(*job));
    if (!job)
        return;
    job->tidies = true;
    moves->dropped = false;
    moves->seconds = 0;
    hand_over(moves, job, false);
}

void mkt_moves_usage(struct mkt_moves *moves, struct mkt_ssd_usage *usage_out)
{
    mkt_ssd_usage(moves->ssd, usage_out);
}

/* ---- opening ---- */

/* Cuts the list at its colons. */
static unsigned split(char *list, const char *folders[MKT_SSD_FOLDERS_MAX])
{
    unsigned count = 0;

    for (char *next; count < MKT_SSD_FOLDERS_MAX && (next = strsep(&list, ":"));)
        folders[count++] = next;
    return count;
}

/* A folder that isn't there yet will be on the file system of its parent. */
static bool look_at_disk(const char *folder, struct statvfs *about_out)
{
    char parent[PATH_MAX];

    if (statvfs(folder, about_out) == 0)
        return true;
    snprintf(parent, sizeof(parent), "%s", folder);
    char *slash = strrchr(parent, '/');
    if (slash && slash[1] == '\0' && slash > parent) {
        *slash = '\0';
        slash = strrchr(parent, '/');
    }
    if (!slash)
        return false;
    slash[slash == parent] = '\0';
    return statvfs(parent, about_out) == 0;
}

/* What is free where the folders are, each file system once. */
static uint64_t free_bytes(const char *const *folders, unsigned count, const char *name)
{
    unsigned long seen[MKT_SSD_FOLDERS_MAX];
    unsigned disks = 0, at;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        struct statvfs about;

        if (!look_at_disk(folders[i], &about))
            continue;
        bytes += mkt_ssd_held_bytes(folders[i], name); /* used again, or they go */
        for (at = 0; at < disks && seen[at] != about.f_fsid; at++)
            ;
        if (at < disks)
            continue;
        seen[disks++] = about.f_fsid;
        bytes += (uint64_t)about.f_bavail * about.f_frsize;
    }
    return bytes;
}

/* A market has one for life, however many workers. */
static uint64_t limit_of(const struct mkt_daemon *daemon, const char *const *folders,
                         unsigned count, const char *name)
{
    const struct mkt_config *config = &daemon->config;
    char size[2][32];

    if (daemon->limits.tier_bytes > 0)
        return daemon->limits.tier_bytes;
    uint64_t free = free_bytes(folders, count, name);
    if (config->ssd_bytes == 0)
        return free / 100 * config->ssd_percent;
    if (config->ssd_bytes <= free)
        return config->ssd_bytes;
    mkt_log_warning("tier", "`ssd_size` is %s, but %s are free in %s: that is the limit",
                    mkt_config_show_size(config->ssd_bytes, size[0], sizeof(size[0])),
                    mkt_config_show_size(free, size[1], sizeof(size[1])), config->ssd);
    return free;
}

static void set_limits(struct mkt_daemon *daemon, uint64_t tier_bytes)
{
    const struct mkt_config *config = &daemon->config;
    struct mkt_market_limits *limits = &daemon->limits;

    limits->tier_bytes = tier_bytes;
    limits->tier_least_bytes = config->ssd_least_bytes;
    limits->tier_high_bytes = limits->memory_bytes / 100 * config->high_percent;
    limits->tier_low_bytes = limits->memory_bytes / 100 * config->low_percent;
    limits->promote_after = config->promote_after;
}

static void log_start(struct mkt_moves *moves, const char *folders)
{
    const struct mkt_market_limits *limits = &moves->daemon->limits;
    struct mkt_ssd_usage usage;
    char size[4][32];

    mkt_ssd_usage(moves->ssd, &usage);
    mkt_log_info("tier",
                 "below memory %s in %s, %s, %s%s%s, %s/s and %u us a read; data moves out above "
                 "%s of memory in use, until "
                 "below %s",
                 mkt_config_show_size(usage.limit_bytes, size[0], sizeof(size[0])), folders,
                 usage.uses_direct ? "O_DIRECT" : "through the page cache",
                 usage.uses_uring ? "io_uring" : "pread and pwrite", usage.why_not[0] ? ": " : "",
                 usage.why_not,
                 mkt_config_show_size(limits->tier_speeds.bytes_per_s, size[3], sizeof(size[3])),
                 limits->tier_speeds.latency_ns / 1000,
                 mkt_config_show_size(limits->tier_high_bytes, size[1], sizeof(size[1])),
                 mkt_config_show_size(limits->tier_low_bytes, size[2], sizeof(size[2])));
}

static uint64_t per_time(uint64_t begun_ns, uint64_t times)
{
    uint64_t ns = (mkt_now_ns() - begun_ns) / times;

    return ns > 0 ? ns : 1;
}

static enum mkt_status time_reads(struct mkt_moves *moves, const struct mkt_ssd_record *record,
                                  uint8_t *bytes, struct mkt_speeds *speeds,
                                  struct mkt_error *error)
{
    struct mkt_file_range range = {0, PROBE_BYTES};
    uint64_t begun_ns = mkt_now_ns();
    enum mkt_status status = mkt_ssd_read(moves->ssd, record, &range, 1, bytes, error);

    speeds->bytes_per_s = PROBE_BYTES * UINT64_C(1000000000) / per_time(begun_ns, 1);
    begun_ns = mkt_now_ns();
    for (int i = 0; status == MKT_OK && i < PROBE_READS; i++) {
        range = (struct mkt_file_range){
            (uint64_t)(i * 37 % PROBE_READS) * (PROBE_BYTES / PROBE_READS), 4096};
        status = mkt_ssd_read(moves->ssd, record, &range, 1, bytes, error);
    }
    speeds->latency_ns = (uint32_t)per_time(begun_ns, PROBE_READS);
    return status;
}

/* What the cost of a read is reckoned with. Without speeds nothing is chosen by cost. */
static void measure(struct mkt_moves *moves)
{
    struct mkt_speeds *speeds = &moves->daemon->limits.tier_speeds;
    struct mkt_ssd_record record;
    struct mkt_error error = {0};
    uint8_t *bytes = calloc(1, PROBE_BYTES);
    enum mkt_status status = bytes ? MKT_OK : MKT_NO_MEMORY;

    if (status == MKT_OK)
        status = mkt_ssd_reserve(moves->ssd, PROBE_BYTES, &record);
    if (status == MKT_OK) {
        status = mkt_ssd_write(moves->ssd, &record, bytes, &error);
        if (status == MKT_OK)
            status = time_reads(moves, &record, bytes, speeds, &error);
        (void)mkt_ssd_free(moves->ssd, &record);
    }
    speeds->queue_depth = moves->daemon->config.ssd_queue_depth;
    if (status != MKT_OK)
        *speeds = (struct mkt_speeds){.bytes_per_s = 0};
    if (status != MKT_OK)
        mkt_log_warning("tier", "its speed could not be measured: %s",
                        error.text[0] ? error.text : mkt_status_text(status));
    free(bytes);
}

/* Several markets of a user may share a folder. */
static void name_folder(const struct mkt_daemon *daemon, char *name, size_t capacity)
{
    snprintf(name, capacity, "h5market-ssd-%016" PRIx64,
             mkt_hash64(daemon->folder.path, strlen(daemon->folder.path), 0));
}

static enum mkt_status open_ssd(struct mkt_moves *moves, struct mkt_error *error)
{
    const struct mkt_config *config = &moves->daemon->config;
    char list[MKT_CONFIG_FOLDERS_BYTES], name[64];
    const char *folders[MKT_SSD_FOLDERS_MAX];

    strcpy(list, config->ssd);
    name_folder(moves->daemon, name, sizeof(name));
    unsigned count = split(list, folders);
    const struct mkt_ssd_options options = {.folders = folders,
                                            .folders_count = count,
                                            .name = name,
                                            .limit_bytes =
                                                limit_of(moves->daemon, folders, count, name),
                                            .queue_depth = config->ssd_queue_depth};
    if (options.limit_bytes < LIMIT_MIN_BYTES)
        return mkt_error_set(error, MKT_NO_SPACE,
                             "there is no room for a tier below memory in %s (`ssd`): of what is "
                             "free there `ssd_size` gives it %llu MiB",
                             config->ssd, (unsigned long long)options.limit_bytes >> 20);
    enum mkt_status status = mkt_ssd_open(&options, &moves->ssd, error);
    if (status != MKT_OK)
        return status;
    set_limits(moves->daemon, options.limit_bytes);
    if (moves->daemon->limits.tier_speeds.queue_depth == 0) /* the first worker */
        measure(moves);
    return MKT_OK;
}

static enum mkt_status start_threads(struct mkt_moves *moves, struct mkt_error *error)
{
    while (moves->threads < THREADS) {
        int failed = pthread_create(&moves->thread[moves->threads], NULL, serve, moves);

        if (failed)
            return mkt_error_set(error, mkt_status_from_errno(failed), "no thread for `ssd`: %s",
                                 strerror(failed));
        moves->threads++;
    }
    return MKT_OK;
}

enum mkt_status mkt_moves_open(struct mkt_daemon *daemon, struct mkt_moves **moves_out,
                               struct mkt_error *error)
{
    struct mkt_moves *moves;

    *moves_out = NULL;
    if (!daemon->config.ssd[0])
        return MKT_OK;
    moves = calloc(1, sizeof(*moves));
    if (!moves)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    moves->daemon = daemon;
    pthread_mutex_init(&moves->lock, NULL);
    pthread_cond_init(&moves->work, NULL);
    enum mkt_status status = open_ssd(moves, error);
    if (status != MKT_OK) {
        pthread_cond_destroy(&moves->work);
        pthread_mutex_destroy(&moves->lock);
        free(moves);
        return status;
    }
    uv_async_init(&daemon->loop, &moves->wake, on_done);
    moves->wake.data = moves;
    *moves_out = moves;
    return MKT_OK;
}

/* What the market believes to be there, by place. */
struct known {
    struct mkt_moves *moves;
    struct mkt_extent *list;
    size_t count, capacity, freed;
    bool failed;
};

static int by_place(const void *a, const void *b)
{
    const struct mkt_extent *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->generation < y->generation ? -1 : x->generation > y->generation;
}

static void note_known(void *context, const struct mkt_extent *cold)
{
    struct known *known = context;

    if (known->count == known->capacity) {
        size_t capacity = known->capacity ? 2 * known->capacity : 1024;
        struct mkt_extent *larger = realloc(known->list, capacity * sizeof(*larger));
        known->failed |= !larger;
        if (!larger)
            return;
        known->list = larger;
        known->capacity = capacity;
    }
    known->list[known->count++] = *cold;
}

static void free_unknown(void *context, const struct mkt_ssd_record *record)
{
    struct known *known = context;
    const struct mkt_extent cold = cold_of(record);

    if (known->count > 0 && bsearch(&cold, known->list, known->count, sizeof(cold), by_place))
        return;
    (void)mkt_ssd_free(known->moves->ssd, record);
    known->freed++;
}

static enum mkt_status sort_out(struct mkt_moves *moves)
{
    struct known known = {.moves = moves};
    enum mkt_status status = MKT_NO_MEMORY;

    mkt_market_each_cold(moves->daemon->market, note_known, &known);
    if (!known.failed) {
        if (known.count > 0)
            qsort(known.list, known.count, sizeof(*known.list), by_place);
        status = mkt_ssd_each(moves->ssd, free_unknown, &known);
    }
    free(known.list);
    moves->dropped = known.freed > 0;
    return status;
}

enum mkt_status mkt_moves_go_on(struct mkt_moves *moves, struct mkt_error *error)
{
    if (!moves)
        return MKT_OK;
    enum mkt_status status = sort_out(moves);
    if (status != MKT_OK)
        return mkt_error_set(error, status, "out of memory");
    log_start(moves, moves->daemon->config.ssd);
    status = start_threads(moves, error);
    if (status == MKT_OK)
        mkt_market_move_again(moves->daemon->market);
    return status;
}

/* ---- the end ---- */

void mkt_moves_stop(struct mkt_moves *moves)
{
    if (!moves)
        return;
    pthread_mutex_lock(&moves->lock);
    moves->stopping = true;
    pthread_cond_broadcast(&moves->work);
    pthread_mutex_unlock(&moves->lock);
    for (unsigned i = 0; i < moves->threads; i++)
        pthread_join(moves->thread[i], NULL);
    moves->threads = 0;
    uv_close((uv_handle_t *)&moves->wake, NULL);
}

void mkt_moves_destroy(struct mkt_moves *moves)
{
    struct job *job;

    if (!moves)
        return;
    while ((job = take(&moves->queued)) || (job = take(&moves->done)))
        job_free(job);
    mkt_ssd_destroy(moves->ssd);
    pthread_cond_destroy(&moves->work);
    pthread_mutex_destroy(&moves->lock);
    free(moves);
}
