/* SPDX-License-Identifier: BSD-3-Clause */
#include "media/dram.h"
#include "tests/conformance/media_suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>

#include <cmocka.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static enum mkt_status create(uint64_t size_bytes, void **arena_out, struct mkt_error *error_out)
{
    struct mkt_dram_arena *arena;
    enum mkt_status status = mkt_dram_arena_create(size_bytes, &arena, error_out);

    if (status == MKT_OK)
        *arena_out = arena;
    return status;
}

static void destroy(void *arena)
{
    mkt_dram_arena_destroy(arena);
}

static int fd(const void *arena)
{
    return mkt_dram_arena_fd(arena);
}

static void *base(const void *arena)
{
    return mkt_dram_arena_base(arena);
}

static bool is_populated(const void *arena, uint64_t offset, uint64_t length)
{
    return mkt_dram_arena_is_populated(arena, offset, length);
}

static enum mkt_status populate(void *arena, uint64_t offset, uint64_t length)
{
    return mkt_dram_arena_populate(arena, offset, length);
}

static enum mkt_status punch(void *arena, uint64_t offset, uint64_t length)
{
    return mkt_dram_arena_punch(arena, offset, length);
}

static uint64_t resident_bytes(const void *arena)
{
    return mkt_dram_arena_resident_bytes(arena);
}

static const struct media_ops dram = {
    .name = "dram",
    .create = create,
    .destroy = destroy,
    .fd = fd,
    .base = base,
    .is_populated = is_populated,
    .populate = populate,
    .punch = punch,
    .resident_bytes = resident_bytes,
};

/* The linker sends madvise here (--wrap): other kernels, and a machine without memory. */
static int populate_errno;

int __real_madvise(void *address, size_t length, int advice);
int __wrap_madvise(void *address, size_t length, int advice);

int __wrap_madvise(void *address, size_t length, int advice)
{
    if (advice == MADV_POPULATE_WRITE && populate_errno != 0) {
        errno = populate_errno;
        return -1;
    }
    return __real_madvise(address, length, advice);
}

static void test_dram_populate_without_memory_says_so(void **state)
{
    struct mkt_dram_arena *arena;

    (void)state;
    assert_int_equal(mkt_dram_arena_create(1 << 20, &arena, NULL), MKT_OK);
    populate_errno = ENOMEM;
    assert_int_equal(mkt_dram_arena_populate(arena, 0, 1 << 16), MKT_NO_MEMORY);
    populate_errno = EFAULT;
    assert_int_equal(mkt_dram_arena_populate(arena, 0, 1 << 16), MKT_NO_MEMORY);
    populate_errno = 0;
    assert_false(mkt_dram_arena_is_populated(arena, 0, 1));
    mkt_dram_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dram_populate_without_memory_says_so)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    failed += media_suite_run("dram, bare", &dram);
    populate_errno = EINVAL;
    failed += media_suite_run("dram, on a kernel that can't populate a mapping", &dram);
    populate_errno = 0;

    checking_media_wrap(&dram);
    failed += media_suite_run("dram, checked", &checking_media);
    if (checking_media_calls() == 0 || checking_media_open_arenas() != 0) {
        fprintf(stderr, "the wrapper saw %llu calls, and %d arenas stay open\n",
                (unsigned long long)checking_media_calls(), checking_media_open_arenas());
        failed++;
    }
    return failed;
}
