/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/cut.h"
#include "core/geometry/slab.h"
#include "tests/unit/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static bool valid(uint64_t start, uint64_t stride, uint64_t count, uint64_t block)
{
    const struct mkt_slab slab = {1, {{start, stride, count, block}}};

    return mkt_slab_is_valid(&slab, NULL);
}

static void test_slab_sane_is_valid(void **state)
{
    (void)state;
    assert_true(valid(0, 1, 1, 1));
    assert_true(valid(5, 1, 1, 10)); /* one block: the stride says nothing */
    assert_true(valid(5, 10, 7, 10));
    assert_true(valid(UINT64_MAX - 1, 1, 1, 1));
}

static void test_slab_zero_or_overflow_is_invalid(void **state)
{
    const uint64_t half = (uint64_t)1 << 63;
    struct mkt_slab wide = {
        3,
        {{0, 1, 1, (uint64_t)1 << 22}, {0, 1, 1, (uint64_t)1 << 22}, {0, 1, 1, (uint64_t)1 << 22}}};

    (void)state;
    assert_false(valid(0, 0, 1, 1));
    assert_false(valid(0, 1, 0, 1));
    assert_false(valid(0, 1, 1, 0));
    assert_false(valid(0, 3, 2, 4));              /* blocks overlap */
    assert_false(valid(0, half, 3, 1));           /* span */
    assert_false(valid(half, half, 2, 1));        /* end */
    assert_false(valid(UINT64_MAX, 1, 1, 1));     /* end */
    assert_false(valid(0, UINT64_MAX, 2, 2));     /* end */
    assert_false(mkt_slab_is_valid(&wide, NULL)); /* 2^66 elements */
    wide.rank = MKT_MAX_RANK + 1;
    assert_false(mkt_slab_is_valid(&wide, NULL));
}

static void test_slab_outside_dims_is_invalid(void **state)
{
    const struct mkt_slab slab = {2, {{0, 4, 3, 2}, {5, 5, 1, 5}}};

    (void)state;
    assert_true(mkt_slab_is_valid(&slab, (uint64_t[]){10, 10}));
    assert_false(mkt_slab_is_valid(&slab, (uint64_t[]){9, 10}));
    assert_false(mkt_slab_is_valid(&slab, (uint64_t[]){10, 9}));
}

static void test_slab_normalise_gives_equal_sets_equal_values(void **state)
{
    struct mkt_slab a = {2, {{3, 5, 4, 5}, {0, 9, 1, 2}}}, b;

    (void)state;
    mkt_slab_box(&b, 2, (uint64_t[]){3, 0}, (uint64_t[]){20, 2});
    assert_true(mkt_slab_is_box(&a));
    mkt_slab_normalise(&a);
    assert_true(mkt_slab_equal(&a, &b));
    b.dim[1].start = 1;
    assert_false(mkt_slab_equal(&a, &b));
    a = (struct mkt_slab){1, {{0, 3, 2, 2}}};
    b = a;
    mkt_slab_normalise(&a);
    assert_true(mkt_slab_equal(&a, &b));
    assert_false(mkt_slab_is_box(&a));
}

static void test_slab_counts_and_bounds(void **state)
{
    const struct mkt_slab slab = {2, {{1, 4, 3, 2}, {5, 5, 1, 5}}}, scalar = {.rank = 0};
    struct mkt_slab other;

    (void)state;
    assert_int_equal(mkt_slab_elements(&slab), 30);
    assert_int_equal(mkt_slab_elements(&scalar), 1);
    assert_int_equal(mkt_dim_end(&slab.dim[0]), 11);
    assert_true(mkt_slab_bounds_meet(&scalar, &scalar));
    mkt_slab_box(&other, 2, (uint64_t[]){10, 9}, (uint64_t[]){1, 1});
    assert_true(mkt_slab_bounds_meet(&slab, &other));
    mkt_slab_box(&other, 2, (uint64_t[]){11, 9}, (uint64_t[]){1, 1});
    assert_false(mkt_slab_bounds_meet(&slab, &other));
    other.rank = 1;
    assert_false(mkt_slab_bounds_meet(&slab, &other));
}

/* One dimension cut: every common element in exactly one run, at its place on both sides. */
static void test_cut_random_dimensions_match_model(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct mkt_dim side[2];
        uint64_t place[2][1024];
        struct mkt_layout_dim layout = {random_in(&seed, 0, 3), 0, random_in(&seed, 1, 9), 1};

        memset(place, 0xff, sizeof(place));
        layout.stride = layout.block + random_in(&seed, 0, 3);
        for (int s = 0; s < 2; s++) {
            uint64_t block = random_in(&seed, 1, random_in(&seed, 0, 2) ? 5 : 90), index = 0;
            side[s] = (struct mkt_dim){random_in(&seed, 0, 40), block + random_in(&seed, 0, 6),
                                       random_in(&seed, 1, 900 / (block + 6)), block};
            for (uint64_t c = 0; c < side[s].count; c++)
                for (uint64_t b = 0; b < block; b++)
                    place[s][side[s].start + c * side[s].stride + b] = index++;
        }
        uint64_t expected = 0, found = 0;
        for (int c = 0; c < 1024; c++)
            expected += place[0][c] != UINT64_MAX && place[1][c] != UINT64_MAX;
        if (expected > 0)
            assert_false(mkt_dim_surely_disjoint(&side[0], &side[1]));

        struct mkt_cut cut;
        struct mkt_segment segment;
        mkt_cut_begin(&cut, &side[0], &side[1], &layout);
        while (mkt_cut_next(&cut, &segment))
            for (uint64_t r = 0; r < segment.reps; r++)
                for (uint64_t k = 0; k < segment.len; k++) {
                    uint64_t mem = segment.mem + r * segment.mem_step + k - layout.start;
                    uint64_t piece = segment.piece + r * segment.piece_step + k;
                    assert_true(mem % layout.stride < layout.block);
                    uint64_t want = mem / layout.stride * layout.block + mem % layout.stride;
                    uint64_t coord = side[0].start + want / side[0].block * side[0].stride +
                                     want % side[0].block;
                    assert_true(want < mkt_dim_elements(&side[0]) && coord < 1024);
                    assert_int_equal(place[0][coord], want);
                    assert_int_equal(place[1][coord], piece);
                    place[0][coord] = UINT64_MAX; /* once */
                    found++;
                }
        assert_int_equal(found, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slab_sane_is_valid),
        cmocka_unit_test(test_slab_zero_or_overflow_is_invalid),
        cmocka_unit_test(test_slab_outside_dims_is_invalid),
        cmocka_unit_test(test_slab_normalise_gives_equal_sets_equal_values),
        cmocka_unit_test(test_slab_counts_and_bounds),
        cmocka_unit_test(test_cut_random_dimensions_match_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
