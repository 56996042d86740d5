/* SPDX-License-Identifier: BSD-3-Clause */
/* What reads from a tier cost. */
#include "core/geometry/cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static const struct mkt_speeds speeds = {
    .bytes_per_s = 1000 * 1000 * 1000, .latency_ns = 100000, .queue_depth = 8};

static void test_read_of_a_byte_costs_a_block(void **state)
{
    const struct mkt_span span = {5000, 1};
    struct mkt_read_cost cost = mkt_cost_read(&speeds, &span, 1);

    (void)state;
    assert_int_equal(cost.requests, 1);
    assert_int_equal(cost.bytes, 4096);
    assert_int_equal(cost.ns, 100000 + 4096);
}

static void test_spans_in_one_block_are_read_once(void **state)
{
    const struct mkt_span spans[] = {{10, 10}, {100, 10}, {4090, 10}, {4200, 8}};
    struct mkt_read_cost cost = mkt_cost_read(&speeds, spans, 4);

    (void)state;
    assert_int_equal(cost.requests, 1);
    assert_int_equal(cost.bytes, 2 * 4096);
}

static void test_rounds_are_of_the_queue_depth(void **state)
{
    struct mkt_span spans[9];

    (void)state;
    for (int i = 0; i < 9; i++)
        spans[i] = (struct mkt_span){(uint64_t)i * MIB, 4096};
    assert_int_equal(mkt_cost_read(&speeds, spans, 8).ns, 100000 + 8 * 4096);
    assert_int_equal(mkt_cost_read(&speeds, spans, 9).ns, 2 * 100000 + 9 * 4096);
}

static void test_few_small_parts_are_read_alone_and_many_as_the_whole(void **state)
{
    struct mkt_span spans[1024];
    uint64_t length = 4 * MIB;

    (void)state;
    for (int i = 0; i < 1024; i++)
        spans[i] = (struct mkt_span){(uint64_t)i * 4096, 8};
    assert_false(mkt_cost_prefers_whole(&speeds, spans, 1, length));
    assert_true(mkt_cost_prefers_whole(&speeds, spans, 1024, length));
    for (int i = 0; i < 512; i++) /* every other block: 64 rounds cost more than 2 MiB */
        spans[i] = (struct mkt_span){(uint64_t)i * 8192, 8};
    assert_true(mkt_cost_prefers_whole(&speeds, spans, 512, length));
}

static void test_nothing_is_chosen_without_speeds(void **state)
{
    const struct mkt_speeds none = {.bytes_per_s = 0};
    const struct mkt_span span = {0, 4096};

    (void)state;
    assert_false(mkt_cost_prefers_whole(&none, &span, 1, 4096));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_of_a_byte_costs_a_block),
        cmocka_unit_test(test_spans_in_one_block_are_read_once),
        cmocka_unit_test(test_rounds_are_of_the_queue_depth),
        cmocka_unit_test(test_few_small_parts_are_read_alone_and_many_as_the_whole),
        cmocka_unit_test(test_nothing_is_chosen_without_speeds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
