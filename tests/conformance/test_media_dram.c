/* SPDX-License-Identifier: BSD-3-Clause */
#include "media/medium.h"
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
    void *arena;

    (void)state;
    assert_int_equal(mkt_medium_dram.create(1 << 20, &arena, NULL), MKT_OK);
    populate_errno = ENOMEM;
    assert_int_equal(mkt_medium_dram.populate(arena, 0, 1 << 16), MKT_NO_MEMORY);
    populate_errno = EFAULT;
    assert_int_equal(mkt_medium_dram.populate(arena, 0, 1 << 16), MKT_NO_MEMORY);
    populate_errno = 0;
    assert_false(mkt_medium_dram.is_populated(arena, 0, 1));
    mkt_medium_dram.destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dram_populate_without_memory_says_so)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    failed += media_suite_run("dram, bare", &mkt_medium_dram);
    populate_errno = EINVAL;
    failed += media_suite_run("dram, on a kernel that can't populate a mapping", &mkt_medium_dram);
    populate_errno = 0;

    checking_media_wrap(&mkt_medium_dram);
    failed += media_suite_run("dram, checked", &checking_media);
    if (checking_media_calls() == 0 || checking_media_open_arenas() != 0) {
        fprintf(stderr, "the wrapper saw %llu calls, and %d arenas stay open\n",
                (unsigned long long)checking_media_calls(), checking_media_open_arenas());
        failed++;
    }
    return failed;
}
