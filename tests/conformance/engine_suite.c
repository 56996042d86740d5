/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conformance/engine_suite.h"
#include "tests/unit/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define REGION_BYTES (1 << 15)
#define POISON       0xa5

#define LARGE_BYTES ((uint64_t)13 << 20)

static const struct mkt_engine_ops *subject;
static uint64_t region_bytes;

static void set_region(uint64_t bytes)
{
    region_bytes = bytes;
    checking_engine_set_regions(bytes, bytes);
}

/* The model: runs one by one, by index arithmetic. */

static uint64_t total_runs(const struct mkt_move *move)
{
    uint64_t runs = 1;

    for (uint32_t i = 0; i < move->loops; i++)
        runs *= move->loop[i].count;
    return runs;
}

static void run_at(const struct mkt_move *move, uint64_t run, uint64_t *mem_out,
                   uint64_t *piece_out)
{
    *mem_out = move->mem;
    *piece_out = move->piece;
    for (uint32_t i = move->loops; i-- > 0;) {
        *mem_out += run % move->loop[i].count * move->loop[i].mem_step;
        *piece_out += run % move->loop[i].count * move->loop[i].piece_step;
        run /= move->loop[i].count;
    }
}

static void move_by_model(const struct mkt_move *move, enum mkt_direction direction,
                          uint8_t *memory, uint8_t *piece)
{
    const uint64_t runs = total_runs(move);

    for (uint64_t run = 0; run < runs; run++) {
        uint64_t mem, at;

        run_at(move, run, &mem, &at);
        if (direction == MKT_GET)
            memcpy(memory + mem, piece + at, move->bytes);
        else
            memcpy(piece + at, memory + mem, move->bytes);
    }
}

static void fill(uint8_t *bytes, uint64_t length, uint64_t seed)
{
    for (uint64_t i = 0; i + 8 <= length; i += 8) {
        uint64_t word = random_next(&seed);
        memcpy(bytes + i, &word, 8);
    }
}

static void check_move(const struct mkt_move *move, enum mkt_direction direction)
{
    uint8_t *source = malloc(region_bytes), *before = malloc(region_bytes);
    uint8_t *target = malloc(region_bytes), *expected = malloc(region_bytes);

    fill(source, region_bytes, move->bytes + move->loops);
    memcpy(before, source, region_bytes);
    memset(target, POISON, region_bytes);
    memset(expected, POISON, region_bytes);
    if (direction == MKT_GET) {
        move_by_model(move, direction, expected, source);
        subject->move(move, direction, target, source);
    } else {
        move_by_model(move, direction, source, expected);
        subject->move(move, direction, source, target);
    }
    assert_memory_equal(target, expected, region_bytes);
    assert_memory_equal(source, before, region_bytes);
    free(source);
    free(before);
    free(target);
    free(expected);
}

static void check_both(const struct mkt_move *move)
{
    check_move(move, MKT_GET);
    check_move(move, MKT_PUT);
}

static void test_engine_single_run_of_any_length(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (uint64_t bytes = 1; bytes <= 200; bytes++) {
        struct mkt_move move = {
            random_in(&seed, 0, 99), random_in(&seed, 0, 99), bytes, 0, {{0, 0, 0}}};
        check_both(&move);
    }
    struct mkt_move whole = {0, 0, REGION_BYTES, 0, {{0, 0, 0}}};
    check_both(&whole);
}

/* Random loops whose runs don't overlap on either side, gaps and odd addresses included. */
static void test_engine_nested_loops_match_model(void **state)
{
    uint64_t seed = 2;
    uint64_t deep = 0;

    (void)state;
    for (int round = 0; round < 800; round++) {
        struct mkt_move move = {random_in(&seed, 0, 7),
                                random_in(&seed, 0, 7),
                                random_in(&seed, 1, 70),
                                0,
                                {{0, 0, 0}}};
        struct mkt_loop inner_first[8];
        uint64_t loops = random_in(&seed, 1, 7), mem = move.bytes, piece = mem;

        for (uint64_t i = 0; i < loops; i++) {
            struct mkt_loop loop = {random_in(&seed, 1, 5), mem + random_in(&seed, 0, 3),
                                    piece + random_in(&seed, 0, 3)};
            if (loop.count * loop.mem_step > REGION_BYTES - 16 ||
                loop.count * loop.piece_step > REGION_BYTES - 16)
                break;
            inner_first[move.loops++] = loop;
            mem = loop.count * loop.mem_step;
            piece = loop.count * loop.piece_step;
        }
        for (uint32_t i = 0; i < move.loops; i++)
            move.loop[i] = inner_first[move.loops - 1 - i];
        deep += move.loops > 3;
        check_both(&move);
    }
    assert_true(deep > 100);
}

/* The two sides walk the same elements in different orders of magnitude: a transposition. */
static void test_engine_transposing_loops_match_model(void **state)
{
    (void)state;
    for (uint64_t bytes = 1; bytes <= 16; bytes++) {
        struct mkt_move move = {0, 0, bytes, 2, {{30, 40 * bytes, bytes}, {40, bytes, 30 * bytes}}};
        check_both(&move);
    }
}

static void test_engine_all_loops_are_walked(void **state)
{
    struct mkt_move move = {3, 5, 1, MKT_MAX_LOOPS, {{0, 0, 0}}};
    uint64_t step = 1;

    (void)state;
    for (uint32_t i = MKT_MAX_LOOPS; i-- > 0;) {
        bool counts = i % 6 == 3;
        move.loop[i] = (struct mkt_loop){counts ? 2 : 1, step, step};
        step *= counts ? 2 : 1;
    }
    assert_true(step > 1000 && step < REGION_BYTES / 2);
    check_both(&move);
}

/* Beyond the caches an engine may copy in another way. */
static void test_engine_large_moves_match_model(void **state)
{
    static const uint64_t runs[] = {256, 1089, 5001, 16384, 24641, 70000};
    uint64_t seed = 3;

    (void)state;
    set_region(LARGE_BYTES);
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        uint64_t bytes = runs[i], count = ((uint64_t)9 << 20) / bytes / 4 + 1;
        struct mkt_move move = {
            random_in(&seed, 0, 99), random_in(&seed, 0, 99), bytes, 2, {{0, 0, 0}}};

        move.loop[1] =
            (struct mkt_loop){4, bytes + random_in(&seed, 0, 70), bytes + random_in(&seed, 0, 70)};
        move.loop[0] =
            (struct mkt_loop){count, 4 * move.loop[1].mem_step, 4 * move.loop[1].piece_step};
        check_move(&move, i % 2 ? MKT_GET : MKT_PUT);
    }
    struct mkt_move whole = {7, 33, (uint64_t)9 << 20, 0, {{0, 0, 0}}};
    check_move(&whole, MKT_PUT);
    set_region(REGION_BYTES);
}

int engine_suite_run(const char *name, const struct mkt_engine_ops *engine)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine_single_run_of_any_length),
        cmocka_unit_test(test_engine_nested_loops_match_model),
        cmocka_unit_test(test_engine_transposing_loops_match_model),
        cmocka_unit_test(test_engine_all_loops_are_walked),
        cmocka_unit_test(test_engine_large_moves_match_model),
    };

    subject = engine;
    set_region(REGION_BYTES);
    return _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL);
}
