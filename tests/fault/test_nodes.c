/* SPDX-License-Identifier: BSD-3-Clause */
/* NUMA nodes of machines that are recorded in tests/fault/machines. */
#include "core/daemon/nodes.h"
#include "core/market/market.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GIB (UINT64_C(1) << 30)

static void find(const char *machine, bool wanted, struct mkt_nodes *nodes_out)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/tests/fault/machines/%s.xml", getenv("MKT_SOURCE_DIR"),
             machine);
    setenv("HWLOC_XMLFILE", path, 1);
    mkt_nodes_find(wanted, nodes_out);
    unsetenv("HWLOC_XMLFILE");
}

static void test_nodes_two_sockets_are_two_nodes(void **state)
{
    struct mkt_nodes nodes;
    char text[256];

    (void)state;
    find("two-sockets", true, &nodes);
    assert_int_equal(nodes.count, 2);
    for (uint32_t cpu = 0; cpu < 16; cpu++)
        assert_int_equal(mkt_nodes_of_cpu(&nodes, cpu), cpu % 2);
    assert_int_equal(mkt_nodes_of_cpu(&nodes, 16), MKT_NO_NODE);
    assert_int_equal(mkt_nodes_of_cpu(&nodes, UINT32_MAX), MKT_NO_NODE);
    assert_int_equal(nodes.node[0].cpus, 8);
    assert_int_equal(nodes.node[1].memory_bytes, 32 * GIB);
    assert_string_equal(mkt_nodes_text(&nodes, text, sizeof(text)),
                        "NUMA nodes 0 (32 GiB), 1 (32 GiB)");
    mkt_nodes_fini(&nodes);
}

/* Beside ordinary memory there is labelled HBM (0), the same without a label (3), and CXL (4). */
static void test_nodes_other_kinds_of_memory_are_nobodys(void **state)
{
    struct mkt_nodes nodes;

    (void)state;
    find("kinds-of-memory", true, &nodes);
    assert_int_equal(nodes.count, 2);
    assert_int_equal(mkt_nodes_of_cpu(&nodes, 0), 1);
    assert_int_equal(mkt_nodes_of_cpu(&nodes, 1), 1);
    assert_int_equal(mkt_nodes_of_cpu(&nodes, 2), 2);
    assert_int_equal(mkt_nodes_of_cpu(&nodes, 3), 2);
    mkt_nodes_fini(&nodes);
}

static void test_nodes_socket_without_memory_leaves_one(void **state)
{
    struct mkt_nodes nodes;

    (void)state;
    find("socket-without-memory", true, &nodes);
    assert_int_equal(nodes.count, 0);
    assert_non_null(strstr(nodes.why_none, "one NUMA node"));
    assert_int_equal(mkt_nodes_of_cpu(&nodes, 0), MKT_NO_NODE);
    mkt_nodes_fini(&nodes);
}

static void test_nodes_not_wanted_are_none(void **state)
{
    struct mkt_nodes nodes;
    char text[256];

    (void)state;
    find("two-sockets", false, &nodes);
    assert_int_equal(nodes.count, 0);
    assert_string_equal(mkt_nodes_text(&nodes, text, sizeof(text)), "`numa: off`");
    assert_int_equal(mkt_nodes_of_cpu(&nodes, 1), MKT_NO_NODE);
    mkt_nodes_fini(&nodes);
}

/* Whatever it has, each processor's node is one of those that are listed. */
static void test_nodes_of_this_machine_are_consistent(void **state)
{
    struct mkt_nodes nodes;

    (void)state;
    mkt_nodes_find(true, &nodes);
    assert_int_not_equal(nodes.count, 1);
    assert_true((nodes.count == 0) == (nodes.why_none != NULL));
    for (uint32_t cpu = 0; nodes.count > 0 && cpu < nodes.cpus; cpu++) {
        uint32_t node = mkt_nodes_of_cpu(&nodes, cpu), at = 0;
        while (at < nodes.count && nodes.node[at].number != node)
            at++;
        assert_true(node == MKT_NO_NODE || at < nodes.count);
    }
    mkt_nodes_fini(&nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_two_sockets_are_two_nodes),
        cmocka_unit_test(test_nodes_other_kinds_of_memory_are_nobodys),
        cmocka_unit_test(test_nodes_socket_without_memory_leaves_one),
        cmocka_unit_test(test_nodes_not_wanted_are_none),
        cmocka_unit_test(test_nodes_of_this_machine_are_consistent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
