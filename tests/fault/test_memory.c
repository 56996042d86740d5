/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory limits of machines that are written down here as files. */
#include "core/daemon/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define GIB (UINT64_C(1) << 30)

static char root[64];

static void put(const char *path, const char *text)
{
    char full[512];
    FILE *file;

    snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(full, 0700);
        *at = '/';
    }
    file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_machine(void **state)
{
    (void)state;
    strcpy(root, "/tmp/mkt_memory.XXXXXX");
    if (!mkdtemp(root))
        return 1;
    put("/proc/meminfo",
        "MemTotal:       67108864 kB\nMemFree:  1 kB\nMemAvailable:   50000000 kB\n");
    return 0;
}

static int remove_machine(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static void test_memory_no_groups_gives_the_nodes(void **state)
{
    struct mkt_memory memory;

    (void)state;
    mkt_memory_find(root, &memory);
    assert_int_equal(memory.total_bytes, 64 * GIB);
    assert_string_equal(mkt_memory_source(&memory), "the node's memory");
    assert_false(mkt_memory_is_tight(&memory));
    put("/proc/meminfo",
        "MemTotal:       67108864 kB\nMemFree:  1 kB\nMemAvailable:   3000000 kB\n");
    assert_true(mkt_memory_is_tight(&memory));
}

static void test_memory_v2_takes_the_tightest_above(void **state)
{
    struct mkt_memory memory;

    (void)state;
    put("/proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    put("/proc/self/cgroup", "0::/job/step/task\n");
    put("/sys/fs/cgroup/job/memory.max", "max\n");
    put("/sys/fs/cgroup/job/step/memory.max", "8589934592\n");
    put("/sys/fs/cgroup/job/step/task/memory.max", "34359738368\n");
    mkt_memory_find(root, &memory);
    assert_int_equal(memory.total_bytes, 8 * GIB);
    assert_string_equal(mkt_memory_source(&memory), "/sys/fs/cgroup/job/step");
    put("/sys/fs/cgroup/job/memory.high", "4294967296\n");
    mkt_memory_find(root, &memory);
    assert_int_equal(memory.total_bytes, 4 * GIB);
    assert_string_equal(mkt_memory_source(&memory), "/sys/fs/cgroup/job");
    /* What the page cache could give back doesn't count. */
    put("/sys/fs/cgroup/job/memory.current", "4290000000\n");
    put("/sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 2000000000\n");
    assert_false(mkt_memory_is_tight(&memory));
    put("/sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 1000\n");
    assert_true(mkt_memory_is_tight(&memory));
}

static void test_memory_v1_takes_the_tightest_above(void **state)
{
    struct mkt_memory memory;

    (void)state;
    put("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
                                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                                "38 31 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/proc/self/cgroup", "8:pids:/\n4:cpu,memory:/slurm/uid_7/job_3\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/slurm/uid_7/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/slurm/uid_7/job_3/memory.limit_in_bytes", "17179869184\n");
    mkt_memory_find(root, &memory);
    assert_int_equal(memory.total_bytes, 16 * GIB);
    assert_string_equal(mkt_memory_source(&memory), "/sys/fs/cgroup/memory/slurm/uid_7/job_3");
    put("/sys/fs/cgroup/memory/slurm/uid_7/job_3/memory.usage_in_bytes", "17100000000\n");
    put("/sys/fs/cgroup/memory/slurm/uid_7/job_3/memory.stat", "total_inactive_file 0\n");
    assert_true(mkt_memory_is_tight(&memory));
}

static void test_memory_container_sees_its_own_top(void **state)
{
    struct mkt_memory memory;

    (void)state;
    /* The mount shows a part of the hierarchy; the process is below it, or is named by its host's
     * path. */
    put("/proc/self/mountinfo", "35 31 0:32 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
    put("/proc/self/cgroup", "0::/docker/abc/inner\n");
    put("/sys/fs/cgroup/memory.max", "2147483648\n");
    put("/sys/fs/cgroup/inner/memory.max", "max\n");
    mkt_memory_find(root, &memory);
    assert_int_equal(memory.total_bytes, 2 * GIB);
    put("/proc/self/cgroup", "0::/elsewhere/../..\n");
    mkt_memory_find(root, &memory);
    assert_int_equal(memory.total_bytes, 2 * GIB);
    assert_string_equal(mkt_memory_source(&memory), "/sys/fs/cgroup");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory_no_groups_gives_the_nodes, make_machine,
                                        remove_machine),
        cmocka_unit_test_setup_teardown(test_memory_v2_takes_the_tightest_above, make_machine,
                                        remove_machine),
        cmocka_unit_test_setup_teardown(test_memory_v1_takes_the_tightest_above, make_machine,
                                        remove_machine),
        cmocka_unit_test_setup_teardown(test_memory_container_sees_its_own_top, make_machine,
                                        remove_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
