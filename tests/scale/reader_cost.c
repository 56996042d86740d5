/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a reader of one place costs, by the number of pieces that its version has: round trips to
 * the daemon, and bytes of the index that it touches. The first must not grow, the second no faster
 * than the logarithm. A touched byte is one of a page that was read: the index's pages are made
 * inaccessible first, and each fault is counted.
 */
#include "core/base/clock.h"
#include "core/client/client.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    ELEMENTS = 8, /* of a piece */
    BATCH = 1000, /* pieces in one ADD */
    SIZES = 5,
    /* The tree's fan-out is 16: a level more for 16 times as many pieces, and for each a page of
     * its boxes, of records, of what finds them, and of checksums. */
    PAGES_A_LEVEL = 4
};
static const uint32_t pieces_of[SIZES] = {10, 100, 1000, 10000, 100000};

static struct mkt_client *client;
static struct mkt_error error;

static void check(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "reader_cost: %s: %s\n", what, error.text);
    exit(1);
}

static uint64_t element(uint32_t pieces, uint64_t i)
{
    return ((uint64_t)pieces << 32) + i;
}

/* ---- pages touched ---- */

static uint8_t *guarded;
static size_t guarded_pages;
static volatile unsigned touched;

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    uint8_t *at = info->si_addr;

    (void)signal_number;
    (void)context;
    if (at < guarded || at >= guarded + guarded_pages * PAGE)
        _exit(2);
    touched++;
    if (mprotect((void *)((uintptr_t)at & ~(uintptr_t)(PAGE - 1)), PAGE, PROT_READ) != 0)
        _exit(2);
}

static void guard(const void *bytes, uint64_t length)
{
    uintptr_t first = (uintptr_t)bytes & ~(uintptr_t)(PAGE - 1),
              end = ((uintptr_t)bytes + length + PAGE - 1) & ~(uintptr_t)(PAGE - 1);

    guarded = (uint8_t *)first;
    guarded_pages = (end - first) / PAGE;
    touched = 0;
    check(mprotect(guarded, end - first, PROT_NONE) == 0, "mprotect");
}

static void unguard(void)
{
    check(mprotect(guarded, guarded_pages * PAGE, PROT_READ) == 0, "mprotect");
}

/* ---- a version ---- */

static struct mkt_array array_of(uint32_t pieces)
{
    struct mkt_array array = {.identity = 1,
                              .element_bytes = sizeof(uint64_t),
                              .rank = 1,
                              .dims = {(uint64_t)pieces * ELEMENTS}};

    memset(array.token, 1, sizeof(array.token));
    return array;
}

static void add_batch(uint64_t file, uint32_t pieces, uint32_t from, uint32_t count)
{
    static struct mkt_piece piece[BATCH];
    const struct mkt_array array = array_of(pieces);

    for (uint32_t i = 0; i < count; i++) {
        uint64_t start = (uint64_t)(from + i) * ELEMENTS, length = ELEMENTS;
        void *address;

        piece[i] = (struct mkt_piece){.form = MKT_PIECE_BOX};
        check(mkt_client_reserve(client, ELEMENTS * sizeof(uint64_t), &piece[i].data, &address,
                                 &error) == MKT_OK,
              "reserve");
        for (uint64_t e = 0; e < ELEMENTS; e++)
            ((uint64_t *)address)[e] = element(pieces, start + e);
        mkt_slab_box(&piece[i].slab, 1, &start, &length);
    }
    check(mkt_client_add(client, file, &array, piece, count, false, NULL, &error) == MKT_OK, "add");
}

static void write_version(const char *path, uint32_t pieces)
{
    const struct mkt_open create = {
        .path = path, .intent = MKT_INTENT_CREATE, .size = 1, .wait_ms = -1};
    const struct mkt_array array = array_of(pieces);
    struct mkt_commit commit = {
        .image = "an image", .image_bytes = 8, .arrays = &array, .arrays_count = 1};
    struct mkt_opened opened;
    uint64_t version;

    check(mkt_client_open(client, &create, &opened, &error) == MKT_OK, "create");
    for (uint32_t at = 0; at < pieces; at += BATCH)
        add_batch(opened.file, pieces, at, pieces - at < BATCH ? pieces - at : BATCH);
    commit.file = opened.file;
    check(mkt_client_commit(client, &commit, &version, &error) == MKT_OK, "commit");
}

/* ---- a reader of one element ---- */

struct reading {
    uint32_t pieces, found;
    uint64_t wanted;
};

static enum mkt_status read_piece(void *context, const struct mkt_piece *piece)
{
    struct reading *reading = context;
    void *address;

    if (mkt_client_map(client, &piece->data, false, &address, &error) != MKT_OK)
        return error.status;
    uint64_t value = ((const uint64_t *)address)[reading->wanted - piece->slab.dim[0].start];
    if (value != element(reading->pieces, reading->wanted))
        return mkt_error_set(&error, MKT_CORRUPT, "element %llu is wrong",
                             (unsigned long long)reading->wanted);
    reading->found++;
    return MKT_OK;
}

struct cost {
    uint64_t round_trips, index_bytes, ns;
    unsigned pages;
};

static struct cost read_one(const char *path, uint32_t pieces, bool guards)
{
    const struct mkt_open request = {
        .path = path, .intent = MKT_INTENT_READ, .size = 1, .wait_ms = 0};
    struct reading reading = {.pieces = pieces, .wanted = (uint64_t)pieces * ELEMENTS * 2 / 3};
    struct cost cost = {.round_trips = mkt_client_round_trips(client)};
    struct mkt_opened opened;
    struct mkt_index_view view;
    struct mkt_slab want;
    const uint64_t one = 1;

    check(mkt_client_open(client, &request, &opened, &error) == MKT_OK, "open");
    cost.index_bytes = opened.index_bytes;
    if (guards)
        guard(opened.index, opened.index_bytes);
    uint64_t started_ns = mkt_now_ns();
    check(mkt_index_view_open(&view, opened.index, opened.index_bytes) == MKT_OK, "index");
    mkt_slab_box(&want, 1, &reading.wanted, &one);
    check(mkt_index_view_query(&view, 0, &want, read_piece, &reading) == MKT_OK &&
              reading.found == 1,
          "query");
    cost.ns = mkt_now_ns() - started_ns;
    cost.pages = touched;
    if (guards)
        unguard();
    mkt_client_close(client, opened.file);
    cost.round_trips = mkt_client_round_trips(client) - cost.round_trips;
    return cost;
}

static unsigned levels_of(uint64_t pieces)
{
    unsigned levels = 1;

    for (; pieces > 1; pieces = (pieces + 15) / 16)
        levels++;
    return levels;
}

static bool measure(uint32_t pieces)
{
    char path[32];

    snprintf(path, sizeof(path), "pieces%u.h5", pieces);
    write_version(path, pieces);
    (void)read_one(path, pieces, false); /* maps the arenas that it needs */
    struct cost touch = read_one(path, pieces, true), cost = read_one(path, pieces, false);
    unsigned allowed = PAGES_A_LEVEL * levels_of(pieces);
    bool good = cost.round_trips == 1 && touch.pages <= allowed && touch.pages > 0;

    printf("%8u %12llu %11llu %14u %14u %10.1f%s\n", pieces, (unsigned long long)cost.round_trips,
           (unsigned long long)cost.index_bytes, touch.pages * PAGE, allowed * PAGE,
           (double)cost.ns / 1000, good ? "" : "  too much");
    return good;
}

int main(void)
{
    const struct mkt_client_options options = {.daemon_path = getenv("MARKET_DAEMON")};
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    bool good = true;

    check(mkt_client_connect(&options, &client, &error) == MKT_OK, "connect");
    check(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
    printf("  pieces  round trips index bytes  bytes touched   bytes allowed  open+query us\n");
    for (unsigned s = 0; s < SIZES; s++)
        good = measure(pieces_of[s]) && good;
    mkt_client_destroy(client);
    return good ? 0 : 1;
}
