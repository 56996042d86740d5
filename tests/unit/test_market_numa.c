/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions near to NUMA nodes: whose arenas their bytes come from. */
#include "tests/unit/market_shell.h"

enum {
    ON_3 = SESSIONS + 1, /* sessions, by the node that they are near to */
    ON_5,
    ALSO_ON_5
};

static int setup_numa(void **state)
{
    static const uint32_t node[] = {3, 5, 5};
    struct mkt_market_limits limits = default_limits;

    (void)state;
    limits.nodes = 2;
    start(&limits);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(mkt_market_session_begin(shell.market, ON_3 + i, "prog", 200, node[i]),
                         MKT_OK);
    return 0;
}

static uint32_t node_of(struct mkt_extent extent)
{
    return shell.arena_node[extent.arena - 1];
}

struct counted {
    uint32_t arenas;
    uint64_t used_bytes;
    uint32_t node;
};

static void count(void *context, const struct mkt_arena_info *info)
{
    struct counted *counted = context;

    assert_int_equal(info->node, shell.arena_node[info->arena - 1]);
    if (info->node != counted->node)
        return;
    counted->arenas++;
    counted->used_bytes += info->used_bytes;
}

static struct counted at_node(uint32_t node)
{
    struct counted counted = {.node = node};

    mkt_market_each_arena(shell.market, count, &counted);
    return counted;
}

static void test_numa_grants_come_from_arenas_of_the_own_node(void **state)
{
    (void)state;
    assert_int_equal(node_of(granted(ON_3, 1000)), 3);
    assert_int_equal(node_of(granted(ON_5, 2000)), 5);
    assert_int_equal(node_of(granted(ALSO_ON_5, 3000)), 5);
    assert_int_equal(node_of(granted(ON_3, 4000)), 3);
    assert_int_equal(at_node(3).arenas, 1);
    assert_int_equal(at_node(5).arenas, 1);
    assert_int_equal(at_node(3).used_bytes, 1024 + 4032);
    assert_int_equal(at_node(3).used_bytes + at_node(5).used_bytes, used());
}

static void test_numa_first_grant_of_an_open_comes_from_the_own_node(void **state)
{
    (void)state;
    granted(ON_3, 1000);
    say(ON_5, open_msg("a.h5", MKT_INTENT_CREATE));
    assert_int_equal(node_of(opened(ON_5).scratch), 5);
}

/* Whoever is near to no node takes the first that has room, and makes no arena beside others. */
static void test_numa_session_of_no_node_takes_any(void **state)
{
    struct mkt_extent first = granted(ON_5, 1000);

    (void)state;
    assert_int_equal(granted(1, 1000).arena, first.arena);
    assert_int_equal(at_node(MKT_NO_NODE).arenas, 0);
}

static void test_numa_one_limit_holds_for_all_nodes(void **state)
{
    (void)state;
    granted(ON_3, ARENA);
    granted(ON_5, ARENA);
    say(ON_3, (struct mkt_msg){.type = MKT_MSG_GRANT, .grant = {64, 0}});
    pass(1000);
    take_error(ON_3, MKT_NO_SPACE, "the market is full");
}

/* No more arenas: the other node's have room, so nobody fails or waits, and nothing is asked for
 * again and again. */
static void test_numa_grant_spills_over_where_no_arena_can_be_had(void **state)
{
    struct mkt_extent near = granted(ON_5, ARENA / 2), far;

    (void)state;
    shell.no_arena = MKT_NO_MEMORY;
    far = granted(ON_3, 1000);
    assert_int_equal(node_of(far), 5);
    shell.no_arena = MKT_OK;
    assert_int_equal(node_of(granted(ON_3, 1000)), 5);
    assert_int_equal(at_node(3).arenas, 0);
    /* That one is full: then it is tried again. */
    assert_int_equal(node_of(granted(ON_3, ARENA / 2)), 3);
    say(ON_5, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &near}});
    assert_int_equal(node_of(granted(ON_3, 1000)), 3);
}

/* Gives back all of it but a granule in the middle, so that nothing as large fits there again. */
static void leave_a_granule(uint64_t session, struct mkt_extent extent)
{
    struct mkt_extent part[2] = {extent, extent};

    part[0].length = extent.length / 2;
    part[1].offset += part[0].length + MKT_EXTENT_GRANULE;
    part[1].length -= part[0].length + MKT_EXTENT_GRANULE;
    say(session, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {2, part}});
}

static void test_numa_arena_that_couldnt_be_had_is_tried_again_later(void **state)
{
    (void)state;
    granted(ON_5, 1000);
    shell.no_arena = MKT_NO_MEMORY;
    assert_int_equal(node_of(granted(ON_3, 1000)), 5);
    shell.no_arena = MKT_OK;
    shell.now += 9999;
    assert_int_equal(node_of(granted(ON_3, 1000)), 5);
    shell.now += 1;
    assert_int_equal(node_of(granted(ON_3, 1000)), 3);
}

static void test_numa_grant_spills_over_where_all_arenas_are_there(void **state)
{
    struct mkt_market_limits limits = default_limits;

    (void)state;
    limits.nodes = 2;
    limits.memory_bytes = ARENA - 64; /* at most four arenas a node: eight */
    start(&limits);
    assert_int_equal(mkt_market_session_begin(shell.market, ON_3, "prog", 200, 3), MKT_OK);
    assert_int_equal(mkt_market_session_begin(shell.market, ON_5, "prog", 200, 5), MKT_OK);
    for (unsigned i = 0; i < ARENAS; i++)
        leave_a_granule(ON_5, granted(ON_5, ARENA / 4 * 3));
    assert_int_equal(at_node(5).arenas, ARENAS);
    assert_int_equal(node_of(granted(ON_3, 1000)), 5);
}

/* An index lies near its image. */
static void test_numa_index_lies_near_its_image(void **state)
{
    struct mkt_msg commit = {.type = MKT_MSG_COMMIT};

    (void)state;
    granted(ON_3, 1000);
    say(ON_5, open_msg("a.h5", MKT_INTENT_CREATE));
    struct mkt_msg_opened file = opened(ON_5);
    commit.commit.file = file.file;
    commit.commit.image = file.scratch;
    commit.commit.image.length = 64;
    say(ON_5, commit);
    assert_int_equal(take(ON_5, MKT_MSG_COMMITTED).msg.version.version, 1);
    say(ON_3, open_msg("a.h5", MKT_INTENT_READ));
    assert_int_equal(node_of(opened(ON_3).index), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_numa_grants_come_from_arenas_of_the_own_node,
                                        setup_numa, teardown),
        cmocka_unit_test_setup_teardown(test_numa_first_grant_of_an_open_comes_from_the_own_node,
                                        setup_numa, teardown),
        cmocka_unit_test_setup_teardown(test_numa_session_of_no_node_takes_any, setup_numa,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_numa_one_limit_holds_for_all_nodes, setup_numa,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_numa_grant_spills_over_where_no_arena_can_be_had,
                                        setup_numa, teardown),
        cmocka_unit_test_setup_teardown(test_numa_arena_that_couldnt_be_had_is_tried_again_later,
                                        setup_numa, teardown),
        cmocka_unit_test_teardown(test_numa_grant_spills_over_where_all_arenas_are_there, teardown),
        cmocka_unit_test_setup_teardown(test_numa_index_lies_near_its_image, setup_numa, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
