/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conformance/media_suite.h"
#include "tests/unit/random.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB        ((uint64_t)1 << 20)
#define SIZE_BYTES (8 * MIB)

static const struct mkt_medium *media;

static void *create(uint64_t size_bytes)
{
    struct mkt_error error;
    void *arena;

    assert_int_equal(media->create(size_bytes, &arena, &error), MKT_OK);
    return arena;
}

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t blocks_bytes(const void *arena)
{
    struct stat about;

    assert_int_equal(fstat(media->fd(arena), &about), 0);
    return (uint64_t)about.st_blocks * 512;
}

/* Whether each page of the range is in the page cache, seen through a mapping of our own. */
static bool all_in_core(const void *arena, uint64_t offset, uint64_t length)
{
    uint64_t pages = length / page_bytes();
    unsigned char *resident = malloc(pages);
    void *view = mmap(NULL, length, PROT_READ, MAP_SHARED, media->fd(arena), (off_t)offset);
    bool all = true;

    assert_ptr_not_equal(view, MAP_FAILED);
    assert_int_equal(mincore(view, length, resident), 0);
    for (uint64_t i = 0; i < pages; i++)
        all &= resident[i] & 1;
    munmap(view, length);
    free(resident);
    return all;
}

static void test_media_new_arena_is_empty_and_of_its_size(void **state)
{
    void *arena = create(SIZE_BYTES);
    struct stat about;

    (void)state;
    assert_int_equal(fstat(media->fd(arena), &about), 0);
    assert_int_equal(about.st_size, SIZE_BYTES);
    assert_int_equal(media->resident_bytes(arena), 0);
    assert_false(media->is_populated(arena, 0, 1));
    assert_true(media->is_populated(arena, 4096, 0));
    assert_true(fcntl(media->fd(arena), F_GETFD) & FD_CLOEXEC);
    media->destroy(arena);
    media->destroy(NULL);
}

/* Whoever gets the descriptor can't pull the bytes from under the others. */
static void test_media_size_is_sealed(void **state)
{
    void *arena = create(SIZE_BYTES);
    int fd = media->fd(arena);

    (void)state;
    assert_int_equal(ftruncate(fd, 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 2 * SIZE_BYTES), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    media->destroy(arena);
}

static void test_media_populate_brings_pages_in(void **state)
{
    void *arena = create(SIZE_BYTES);

    (void)state;
    assert_int_equal(media->populate(arena, 2 * MIB, 3 * MIB), MKT_OK);
    assert_true(media->is_populated(arena, 2 * MIB, 3 * MIB));
    assert_false(media->is_populated(arena, 2 * MIB - 1, 2));
    assert_false(media->is_populated(arena, 5 * MIB - 1, 2));
    assert_true(all_in_core(arena, 2 * MIB, 3 * MIB));
    assert_true(blocks_bytes(arena) >= 3 * MIB);
    assert_int_equal(media->resident_bytes(arena), blocks_bytes(arena));
    media->destroy(arena);
}

static void test_media_populate_keeps_bytes(void **state)
{
    void *arena = create(SIZE_BYTES);
    uint8_t *base = media->base(arena);

    (void)state;
    base[100] = 7;
    base[MIB] = 8;
    assert_int_equal(media->populate(arena, 0, 2 * MIB), MKT_OK);
    assert_int_equal(media->populate(arena, 0, 2 * MIB), MKT_OK);
    assert_int_equal(base[100], 7);
    assert_int_equal(base[MIB], 8);
    assert_int_equal(base[101], 0);
    media->destroy(arena);
}

static void test_media_odd_range_is_populated_to_the_page(void **state)
{
    void *arena = create(SIZE_BYTES);
    uint64_t page = page_bytes();

    (void)state;
    assert_int_equal(media->populate(arena, page + 1, page), MKT_OK); /* touches two pages */
    assert_true(media->is_populated(arena, page, 2 * page));
    assert_false(media->is_populated(arena, page, 2 * page + 1));
    media->destroy(arena);
}

static void test_media_punch_gives_whole_pages_back(void **state)
{
    void *arena = create(SIZE_BYTES);
    uint8_t *base = media->base(arena);
    uint64_t page = page_bytes();

    (void)state;
    assert_int_equal(media->populate(arena, 0, SIZE_BYTES), MKT_OK);
    assert_true(blocks_bytes(arena) >= SIZE_BYTES);
    memset(base, 1, SIZE_BYTES);
    assert_int_equal(media->punch(arena, 4 * MIB - 1, 2 * MIB + 2), MKT_OK);
    assert_false(media->is_populated(arena, 4 * MIB, 1));
    assert_false(media->is_populated(arena, 6 * MIB - 1, 1));
    assert_true(media->is_populated(arena, 0, 4 * MIB));
    assert_true(media->is_populated(arena, 6 * MIB, 2 * MIB));
    assert_true(blocks_bytes(arena) <= SIZE_BYTES - 2 * MIB);
    assert_false(all_in_core(arena, 4 * MIB, 2 * MIB));
    assert_int_equal(base[4 * MIB - 1], 1); /* neighbours in the range's last partial pages */
    assert_int_equal(base[6 * MIB], 1);
    assert_int_equal(base[4 * MIB], 0);
    assert_int_equal(base[6 * MIB - 1], 0);
    assert_int_equal(media->punch(arena, 1, page), MKT_OK); /* holds no whole page */
    assert_true(media->is_populated(arena, 0, 2 * page));
    assert_int_equal(base[page], 1);
    media->destroy(arena);
}

static void test_media_other_mapping_sees_the_bytes(void **state)
{
    void *arena = create(SIZE_BYTES);
    uint8_t *view = mmap(NULL, SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, media->fd(arena), 0);

    (void)state;
    assert_ptr_not_equal(view, MAP_FAILED);
    view[3 * MIB + 5] = 99;
    assert_int_equal(((uint8_t *)media->base(arena))[3 * MIB + 5], 99);
    media->destroy(arena);
    assert_int_equal(view[3 * MIB + 5], 99); /* a client that still maps it keeps it */
    munmap(view, SIZE_BYTES);
}

static void test_media_range_outside_is_refused(void **state)
{
    void *arena = create(SIZE_BYTES), *other = NULL;
    struct mkt_error error = {MKT_OK, ""};

    (void)state;
    assert_int_equal(media->populate(arena, SIZE_BYTES - 1, 2), MKT_INVALID);
    assert_int_equal(media->populate(arena, UINT64_MAX, 2), MKT_INVALID);
    assert_int_equal(media->punch(arena, 0, SIZE_BYTES + 1), MKT_INVALID);
    assert_false(media->is_populated(arena, UINT64_MAX - 1, 10));
    assert_int_equal(media->create(0, &other, &error), MKT_INVALID);
    assert_int_equal(error.status, MKT_INVALID);
    assert_int_equal(media->create(UINT64_MAX, &other, &error), MKT_INVALID);
    assert_null(other);
    media->destroy(arena);
}

/* Sparse: address space is free of charge. */
static void test_media_huge_arena_costs_nothing(void **state)
{
    const uint64_t size = (uint64_t)1 << 36;
    void *arena = create(size);

    (void)state;
    assert_int_equal(media->populate(arena, size - MIB, MIB), MKT_OK);
    assert_true(media->is_populated(arena, size - MIB, MIB));
    assert_true(media->resident_bytes(arena) <= 4 * MIB);
    media->destroy(arena);
}

static void test_media_random_ranges_match_model(void **state)
{
    void *arena = create(SIZE_BYTES);
    uint64_t page = page_bytes(), pages = SIZE_BYTES / page, seed = 6;
    bool *in = calloc(pages, sizeof(*in));

    (void)state;
    for (int round = 0; round < 400; round++) {
        uint64_t offset = random_in(&seed, 0, SIZE_BYTES - 1),
                 end = random_in(&seed, offset, SIZE_BYTES);
        uint64_t first, last;

        if (random_in(&seed, 0, 3))
            end = offset + random_in(&seed, 0, 20 * page) < SIZE_BYTES
                      ? offset + random_in(&seed, 0, 20 * page)
                      : end;
        if (end > SIZE_BYTES)
            end = SIZE_BYTES;
        if (random_in(&seed, 0, 1)) {
            assert_int_equal(media->populate(arena, offset, end - offset), MKT_OK);
            for (first = offset / page, last = (end + page - 1) / page;
                 end > offset && first < last; first++)
                in[first] = true;
        } else {
            assert_int_equal(media->punch(arena, offset, end - offset), MKT_OK);
            for (first = (offset + page - 1) / page, last = end / page; first < last; first++)
                in[first] = false;
        }
        offset = random_in(&seed, 0, SIZE_BYTES - 1);
        uint64_t length =
            random_in(&seed, 1, SIZE_BYTES - offset < 50 * page ? SIZE_BYTES - offset : 50 * page);
        bool all = true;
        for (uint64_t p = offset / page; p * page < offset + length; p++)
            all &= in[p];
        assert_int_equal(media->is_populated(arena, offset, length), all);
    }
    free(in);
    media->destroy(arena);
}

struct worker {
    void *arena;
    uint64_t offset, seed;
    int bad;
};

static void *churn(void *context)
{
    struct worker *worker = context;

    for (int i = 0; i < 60; i++) {
        uint64_t page = page_bytes(),
                 offset = worker->offset + random_in(&worker->seed, 0, 200) * page;
        uint64_t length = random_in(&worker->seed, 1, 40) * page;

        worker->bad += media->populate(worker->arena, offset, length) != MKT_OK;
        worker->bad += !media->is_populated(worker->arena, offset, length);
        worker->bad += media->punch(worker->arena, offset, length) != MKT_OK;
        worker->bad += media->is_populated(worker->arena, offset, page);
    }
    return NULL;
}

static void test_media_ranges_of_threads_are_independent(void **state)
{
    void *arena = create(SIZE_BYTES);
    struct worker workers[4];
    pthread_t threads[4];

    (void)state;
    for (uint64_t i = 0; i < 4; i++) { /* neighbouring ranges: they share words of any bitmap */
        workers[i] = (struct worker){arena, i * 241 * page_bytes(), i + 1, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].bad, 0);
    }
    media->destroy(arena);
}

#define NODES 1024

/* The kernel's answer on an address, or on this process. False: it doesn't say. */
static bool ask_policy(int *mode_out, unsigned long nodes_out[NODES / 64], void *address,
                       unsigned long flags)
{
    memset(nodes_out, 0, NODES / 8);
    return syscall(SYS_get_mempolicy, mode_out, nodes_out, (unsigned long)NODES, address, flags) ==
           0;
}

/* A node that this process may use; -1 if nobody knows. */
static int some_node(void)
{
    unsigned long nodes[NODES / 64];
    int mode;

    if (!ask_policy(&mode, nodes, NULL, MPOL_F_MEMS_ALLOWED))
        return -1;
    for (int node = NODES - 1; node >= 0; node--) /* the last: the first is everybody's */
        if (nodes[node / 64] >> node % 64 & 1)
            return node;
    return -1;
}

/* Bound once, for pages that come in through any mapping, and no more than preferred. */
static void test_media_bound_arena_prefers_its_node(void **state)
{
    void *arena = create(SIZE_BYTES);
    unsigned long nodes[NODES / 64];
    struct mkt_error error = {MKT_OK, ""};
    int node = some_node(), mode = -1, where = -1;

    (void)state;
    if (node < 0 || media->bind(arena, (uint32_t)node, &error) != MKT_OK) {
        media->destroy(arena);
        print_message("the kernel doesn't bind memory here: %s\n", error.text);
        skip();
    }
    assert_int_equal(media->populate(arena, 0, 2 * MIB), MKT_OK);
    uint8_t *view = mmap(NULL, SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, media->fd(arena), 0);
    assert_ptr_not_equal(view, MAP_FAILED);
    view[4 * MIB] = 1;
    for (uint64_t at = 0; at <= 4 * MIB; at += 4 * MIB) {
        assert_true(ask_policy(&mode, nodes, view + at, MPOL_F_ADDR));
        assert_int_equal(mode, MPOL_PREFERRED);
        assert_true(nodes[node / 64] == 1UL << node % 64);
        assert_int_equal(view[at], at > 0);
        assert_true(ask_policy(&where, nodes, view + at, MPOL_F_NODE | MPOL_F_ADDR));
        assert_int_equal(where, node);
    }
    munmap(view, SIZE_BYTES);
    media->destroy(arena);
}

static void test_media_arena_that_cant_be_bound_is_as_good(void **state)
{
    void *arena = create(SIZE_BYTES);
    struct mkt_error error = {MKT_OK, ""};

    (void)state;
    assert_int_not_equal(media->bind(arena, NODES - 1, &error), MKT_OK);
    assert_non_null(strstr(error.text, "1023"));
    assert_int_equal(media->bind(arena, 1 << 20, &error), MKT_INVALID);
    assert_int_equal(media->populate(arena, 0, MIB), MKT_OK);
    assert_true(all_in_core(arena, 0, MIB));
    media->destroy(arena);
}

int media_suite_run(const char *name, const struct mkt_medium *ops)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_media_new_arena_is_empty_and_of_its_size),
        cmocka_unit_test(test_media_size_is_sealed),
        cmocka_unit_test(test_media_populate_brings_pages_in),
        cmocka_unit_test(test_media_populate_keeps_bytes),
        cmocka_unit_test(test_media_odd_range_is_populated_to_the_page),
        cmocka_unit_test(test_media_punch_gives_whole_pages_back),
        cmocka_unit_test(test_media_other_mapping_sees_the_bytes),
        cmocka_unit_test(test_media_range_outside_is_refused),
        cmocka_unit_test(test_media_huge_arena_costs_nothing),
        cmocka_unit_test(test_media_random_ranges_match_model),
        cmocka_unit_test(test_media_ranges_of_threads_are_independent),
        cmocka_unit_test(test_media_bound_arena_prefers_its_node),
        cmocka_unit_test(test_media_arena_that_cant_be_bound_is_as_good),
    };

    media = ops;
    return _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL);
}
