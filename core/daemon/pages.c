/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/pages.h"
#include "core/base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MIB             (UINT64_C(1) << 20)
#define AHEAD_DELAY_MS  20u        /* a writer that leaves at once wants no more pages */
#define AHEAD_BYTES     (16 * MIB) /* at one go, so that a grant finds a worker soon */
#define PUNCH_BYTES     (64 * MIB) /* in one turn of the loop */
#define PUNCH_CALLS     4096u      /* the same, where nothing is populated */
#define KEPT_PART       32u       /* one part in so many may stay free and populated after a trim */
#define CUT_BYTES       (2 * MIB) /* chunks are cut at its multiples, so that no page lies in two */
#define LONGEST_WAIT_MS 120000u
#define HISTORY         5u                   /* publishes looked back on */
#define DEMANDS_MAX     (MKT_NODES_MAX + 1u) /* and what is of no node */

/* A range that a worker brings in. */
struct job {
    uv_work_t work;
    struct job *next, **link;
    struct mkt_pages *pages;
    const struct mkt_medium *medium;
    void *arena; /* the medium's */
    struct mkt_extent extent;
    enum mkt_status status;
    mkt_pages_done_fn done; /* NULL: ahead of need */
    void *context;
};

/* What files take of the arenas of one node. */
struct demand {
    uint32_t node;
    uint64_t granted_bytes;         /* since the last publish */
    uint64_t volume_bytes[HISTORY]; /* of the last publishes, number i at [i % HISTORY] */
};

struct mkt_pages {
    struct mkt_daemon *daemon;
    struct job *jobs; /* in a worker's hand, or queued for one */
    bool ahead_running, stopping, short_of_room;
    uv_timer_t ahead, punch;
    struct mkt_extent punch_below; /* how far the running trim has come; arena 0: none runs */
    uint64_t used_ms;              /* last grant or publish; 0: all is trimmed since */
    uint64_t publish_ms;           /* the last one; 0: none */
    /* Of the last publishes, number i at [i % HISTORY]. */
    uint32_t intervals_count, volumes_count;
    uint64_t interval_ms[HISTORY];
    struct demand demand[DEMANDS_MAX]; /* by node, in the order in which they came up */
    uint32_t demands;
};

struct mkt_pages *mkt_pages_create(struct mkt_daemon *daemon)
{
    struct mkt_pages *pages = calloc(1, sizeof(*pages));

    if (!pages)
        return NULL;
    pages->daemon = daemon;
    uv_timer_init(&daemon->loop, &pages->ahead);
    uv_timer_init(&daemon->loop, &pages->punch);
    pages->ahead.data = pages->punch.data = pages;
    return pages;
}

void mkt_pages_stop(struct mkt_pages *pages)
{
    pages->stopping = true;
    if (!uv_is_closing((uv_handle_t *)&pages->ahead)) {
        uv_close((uv_handle_t *)&pages->ahead, NULL);
        uv_close((uv_handle_t *)&pages->punch, NULL);
    }
}

void mkt_pages_destroy(struct mkt_pages *pages)
{
    free(pages);
}

/* ---- bringing in ---- */

static void job_work(uv_work_t *work)
{
    struct job *job = work->data;

    job->status = job->medium->populate(job->arena, job->extent.offset, job->extent.length);
}

static void go_ahead(struct mkt_pages *pages);
static void on_ahead(uv_timer_t *timer);

static void job_done(uv_work_t *work, int status)
{
    struct job *job = work->data;
    struct mkt_pages *pages = job->pages;

    *job->link = job->next;
    if (job->next)
        job->next->link = job->link;
    if (job->done)
        job->done(job->context, status != 0 ? MKT_CANCELLED : job->status);
    else {
        pages->ahead_running = false;
        if (status == 0 && job->status == MKT_OK)
            go_ahead(pages);
    }
    free(job);
}

enum mkt_status mkt_pages_populate(struct mkt_pages *pages, const struct mkt_extent *extent,
                                   mkt_pages_done_fn done, void *context)
{
    const struct mkt_arenas *arenas = &pages->daemon->arenas;
    void *arena = mkt_arenas_find(arenas, extent);
    struct job *job = arena ? malloc(sizeof(*job)) : NULL;

    if (!job)
        return MKT_NO_MEMORY;
    *job = (struct job){.pages = pages,
                        .medium = arenas->medium,
                        .arena = arena,
                        .extent = *extent,
                        .done = done,
                        .context = context};
    job->work.data = job;
    pages->short_of_room |= done != NULL; /* or may be: the end of the call will show */
    if (uv_queue_work(&pages->daemon->loop, &job->work, job_work, job_done) != 0) {
        free(job);
        return MKT_NO_MEMORY;
    }
    job->next = pages->jobs;
    job->link = &pages->jobs;
    if (job->next)
        job->next->link = &job->next;
    pages->jobs = job;
    return MKT_OK;
}

static bool overlaps(const struct mkt_extent *a, const struct mkt_extent *b)
{
    return a->arena == b->arena && a->offset < b->offset + b->length &&
           b->offset < a->offset + a->length;
}

static bool is_in_hand(const struct mkt_pages *pages, const struct mkt_extent *extent)
{
    for (const struct job *job = pages->jobs; job; job = job->next)
        if (overlaps(&job->extent, extent))
            return true;
    return false;
}

/* ---- what is free ---- */

struct free_list {
    struct mkt_extent *extents;
    size_t count, capacity;
    bool failed;
};

static void add_free(void *context, const struct mkt_extent *extent)
{
    struct free_list *list = context;

    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct mkt_extent *grown = realloc(list->extents, capacity * sizeof(*grown));
        if (!grown) {
            list->failed = true;
            return;
        }
        list->extents = grown;
        list->capacity = capacity;
    }
    list->extents[list->count++] = *extent;
}

/* Memory in arenas that nobody uses. */
static uint64_t free_resident_bytes(const struct mkt_pages *pages, uint64_t *used_out)
{
    struct mkt_market_usage usage;
    uint64_t resident = mkt_arenas_resident_bytes(&pages->daemon->arenas);

    mkt_market_usage(pages->daemon->market, &usage);
    *used_out = usage.used_bytes;
    return resident > usage.used_bytes ? resident - usage.used_bytes : 0;
}

/* ---- ahead of need ---- */

/* The node's; the last one stands for all that there is no room for. */
static struct demand *find_demand(struct mkt_pages *pages, uint32_t node)
{
    uint32_t at = 0;

    while (at < pages->demands && pages->demand[at].node != node)
        at++;
    if (at == DEMANDS_MAX)
        return &pages->demand[DEMANDS_MAX - 1];
    if (at == pages->demands)
        pages->demand[pages->demands++] = (struct demand){.node = node};
    return &pages->demand[at];
}

/* What a file took there of late. */
static uint64_t expected_bytes(const struct demand *demand)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < HISTORY; i++)
        if (demand->volume_bytes[i] > most)
            most = demand->volume_bytes[i];
    return most;
}

struct ready {
    const struct mkt_arenas *arenas;
    uint32_t node;
    uint64_t resident_bytes, used_bytes;
};

static void add_ready(void *context, const struct mkt_arena_info *info)
{
    struct ready *ready = context;

    if (info->node != ready->node)
        return;
    ready->resident_bytes += mkt_arenas_resident_bytes_of(ready->arenas, info->arena);
    ready->used_bytes += info->used_bytes;
}

/* True if the next file would find less there than the last ones took. */
static bool is_short(const struct mkt_pages *pages, const struct demand *demand)
{
    struct ready ready = {.arenas = &pages->daemon->arenas, .node = demand->node};
    uint64_t expected = expected_bytes(demand);

    mkt_market_each_arena(pages->daemon->market, add_ready, &ready);
    return expected > 0 && ready.resident_bytes < ready.used_bytes + expected;
}

/* The lowest free chunk of the node's arenas that isn't in memory. */
static bool find_absent(const struct mkt_pages *pages, uint32_t node, struct mkt_extent *chunk_out)
{
    struct free_list list = {.count = 0};
    bool found = false;

    mkt_market_each_free(pages->daemon->market, add_free, &list);
    for (size_t i = 0; i < list.count && !found; i++) {
        struct mkt_extent rest = list.extents[i];
        if (mkt_arenas_node(&pages->daemon->arenas, rest.arena) != node)
            continue;
        while (rest.length > 0 && !found) {
            struct mkt_extent chunk = rest;
            chunk.length = rest.length < AHEAD_BYTES ? rest.length : AHEAD_BYTES;
            found = !mkt_arenas_is_populated(&pages->daemon->arenas, &chunk) &&
                    !is_in_hand(pages, &chunk);
            if (found)
                *chunk_out = chunk;
            rest.offset += chunk.length;
            rest.length -= chunk.length;
        }
    }
    free(list.extents);
    return found;
}

/* A chunk that the next file would not find. False: there is none, or no room for it. */
static bool find_next(const struct mkt_pages *pages, struct mkt_extent *chunk_out)
{
    uint64_t used, ready = free_resident_bytes(pages, &used);

    if (used + ready + AHEAD_BYTES > pages->daemon->limits.memory_bytes ||
        mkt_memory_is_tight(&pages->daemon->memory))
        return false;
    for (uint32_t i = 0; i < pages->demands; i++) {
        const struct demand *demand = &pages->demand[i];

        if (is_short(pages, demand) && find_absent(pages, demand->node, chunk_out))
            return true;
    }
    return false;
}

/* One chunk after the other, between the programs' transfers: zeroing pages takes a processor and
 * as much of the memory's rate as a copy does. */
static void go_ahead(struct mkt_pages *pages)
{
    uint64_t quiet_ms, now_ms = mkt_now_ms();
    struct mkt_extent chunk;

    if (pages->stopping || pages->ahead_running || pages->used_ms == 0 || !find_next(pages, &chunk))
        return;
    quiet_ms = mkt_market_quiet_ms(pages->daemon->market);
    if (now_ms < quiet_ms)
        uv_timer_start(&pages->ahead, on_ahead, quiet_ms - now_ms, 0);
    else
        pages->ahead_running = mkt_pages_populate(pages, &chunk, NULL, NULL) == MKT_OK;
}

static void on_ahead(uv_timer_t *timer)
{
    struct mkt_pages *pages = timer->data;
    const struct mkt_connection *writer = mkt_shell_find(pages->daemon, pages->daemon->last_writer);

    if (writer && !writer->closed)
        go_ahead(pages);
}

/* ---- giving back ---- */

static void on_punch(uv_timer_t *timer);

/* The topmost chunk of a free range, at most `bytes` long. */
static struct mkt_extent cut_top(const struct mkt_extent *range, uint64_t bytes)
{
    struct mkt_extent chunk = *range;
    uint64_t end = range->offset + range->length;

    if (range->length > bytes) {
        uint64_t start = (end - bytes) / CUT_BYTES * CUT_BYTES;
        chunk.offset = start > range->offset ? start : range->offset;
        chunk.length = end - chunk.offset;
    }
    return chunk;
}

/* What of a free range lies below the place that the trim has come to. */
static struct mkt_extent cut_below(const struct mkt_extent *range, const struct mkt_extent *below)
{
    struct mkt_extent rest = *range;

    if (below->arena == 0 || range->arena < below->arena)
        return rest;
    if (range->arena > below->arena || range->offset >= below->offset)
        rest.length = 0;
    else if (range->offset + range->length > below->offset)
        rest.length = below->offset - range->offset;
    return rest;
}

/* Punches free memory, from the top down, until at most `kept` bytes of it are in memory. False:
 * the turn of the loop is over, and punch_below says where to go on. */
static bool punch_some(struct mkt_pages *pages, const struct free_list *list, uint64_t kept)
{
    uint64_t used, ready = free_resident_bytes(pages, &used), start = ready;
    uint32_t calls = 0;

    for (size_t i = list->count; i > 0; i--) {
        struct mkt_extent rest = cut_below(&list->extents[i - 1], &pages->punch_below);
        while (rest.length > 0) {
            if (ready <= kept)
                return true;
            struct mkt_extent chunk =
                cut_top(&rest, ready - kept < AHEAD_BYTES ? ready - kept : AHEAD_BYTES);
            if (!is_in_hand(pages, &chunk))
                mkt_arenas_punch(&pages->daemon->arenas, &chunk);
            rest.length -= chunk.length;
            pages->punch_below = chunk;
            ready = free_resident_bytes(pages, &used);
            if (start - ready >= PUNCH_BYTES || ++calls >= PUNCH_CALLS)
                return false;
        }
    }
    return true;
}

/* One turn of a trim, which begins one if none runs. */
static void trim(struct mkt_pages *pages, bool keep_some)
{
    struct free_list list = {.count = 0};
    uint64_t used, ready = free_resident_bytes(pages, &used),
                   kept = keep_some ? used / KEPT_PART : 0;
    bool done = true;

    if (pages->stopping || ready <= kept)
        goto out;
    mkt_market_each_free(pages->daemon->market, add_free, &list);
    done = punch_some(pages, &list, kept);
    free(list.extents);
out:
    if (done)
        pages->punch_below = (struct mkt_extent){.arena = 0};
    else
        uv_timer_start(&pages->punch, on_punch, 0, 0);
}

/* Goes on where the last turn ended, unless somebody came and there is room. */
static void on_punch(uv_timer_t *timer)
{
    struct mkt_pages *pages = timer->data;
    bool tight = pages->short_of_room || mkt_memory_is_tight(&pages->daemon->memory);

    if (pages->used_ms == 0 || tight)
        trim(pages, !tight);
    else
        pages->punch_below = (struct mkt_extent){.arena = 0};
}

/* ---- what happens ---- */

void mkt_pages_note_grant(struct mkt_pages *pages, const struct mkt_extent *extent)
{
    uint32_t node = mkt_arenas_node(&pages->daemon->arenas, extent->arena);

    find_demand(pages, node)->granted_bytes += extent->length;
    pages->used_ms = mkt_now_ms();
}

void mkt_pages_note_publish(struct mkt_pages *pages, uint64_t now_ms)
{
    if (pages->publish_ms != 0)
        pages->interval_ms[pages->intervals_count++ % HISTORY] = now_ms - pages->publish_ms;
    for (uint32_t i = 0; i < pages->demands; i++) {
        struct demand *demand = &pages->demand[i];
        demand->volume_bytes[pages->volumes_count % HISTORY] = demand->granted_bytes;
        demand->granted_bytes = 0;
    }
    pages->volumes_count++;
    pages->publish_ms = now_ms;
    pages->used_ms = now_ms;
    if (!pages->stopping)
        uv_timer_start(&pages->ahead, on_ahead, AHEAD_DELAY_MS, 0);
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

/* The usual interval between files: the median, so that one pause doesn't count. 0: not known. */
static uint64_t usual_interval_ms(const struct mkt_pages *pages)
{
    uint64_t sorted[HISTORY];
    uint32_t count = pages->intervals_count < HISTORY ? pages->intervals_count : HISTORY;

    if (count == 0)
        return 0;
    memcpy(sorted, pages->interval_ms, count * sizeof(sorted[0]));
    qsort(sorted, count, sizeof(sorted[0]), compare);
    return sorted[count / 2];
}

static uint64_t trim_after_ms(const struct mkt_pages *pages)
{
    uint64_t wait_ms = 3 * usual_interval_ms(pages);

    if (wait_ms > LONGEST_WAIT_MS)
        wait_ms = LONGEST_WAIT_MS;
    return wait_ms > pages->daemon->config.idle_trim_ms ? wait_ms
                                                        : pages->daemon->config.idle_trim_ms;
}

void mkt_pages_tick(struct mkt_pages *pages, uint64_t now_ms)
{
    if (pages->daemon->arenas.count == 0 || pages->punch_below.arena != 0)
        return;
    if (pages->used_ms != 0 && now_ms - pages->used_ms >= trim_after_ms(pages))
        pages->used_ms = 0;
    if (mkt_memory_is_tight(&pages->daemon->memory))
        trim(pages, false);
    else if (pages->used_ms == 0)
        trim(pages, true);
}

/* Fragmentation can leave more populated than the market may use: then what is free goes. */
void mkt_pages_settle(struct mkt_pages *pages)
{
    uint64_t pending = 0;

    if (!pages->short_of_room || pages->stopping)
        return;
    for (const struct job *job = pages->jobs; job; job = job->next)
        pending += job->extent.length;
    if (mkt_arenas_resident_bytes(&pages->daemon->arenas) + pending >
        pages->daemon->limits.memory_bytes)
        trim(pages, false);
    pages->short_of_room = pages->punch_below.arena != 0;
}
