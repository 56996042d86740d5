/* SPDX-License-Identifier: BSD-3-Clause */
#include "media/space.h"
#include "tests/unit/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GRANULE MKT_SPACE_GRANULE
#define UNITS   2048 /* granules of the model */

/* One byte a granule: free or not. */
struct model {
    bool used[UNITS];
};

static bool model_find(const struct model *model, uint64_t units, uint64_t align_units,
                       uint64_t *at_out)
{
    for (uint64_t at = 0; at + units <= UNITS; at += align_units) {
        uint64_t n = 0;

        while (n < units && !model->used[at + n])
            n++;
        if (n == units) {
            *at_out = at;
            return true;
        }
    }
    return false;
}

struct walk {
    const struct model *model;
    uint64_t at, free_units, longest;
};

static void check_range(void *context, uint64_t offset, uint64_t length)
{
    struct walk *walk = context;
    uint64_t first = offset / GRANULE, end = first + length / GRANULE;

    assert_true(length > 0 && offset % GRANULE == 0 && length % GRANULE == 0 && end <= UNITS);
    for (; walk->at < first; walk->at++)
        assert_true(walk->model->used[walk->at]);
    assert_true(first == 0 || walk->model->used[first - 1]); /* neighbours are merged */
    for (; walk->at < end; walk->at++)
        assert_false(walk->model->used[walk->at]);
    walk->free_units += end - first;
    if (end - first > walk->longest)
        walk->longest = end - first;
}

static void check_against(const struct mkt_space *space, const struct model *model)
{
    struct walk walk = {.model = model};

    mkt_space_each_free(space, check_range, &walk);
    for (; walk.at < UNITS; walk.at++)
        assert_true(model->used[walk.at]);
    assert_int_equal(mkt_space_free_bytes(space), walk.free_units * GRANULE);
    assert_int_equal(mkt_space_largest_free(space), walk.longest * GRANULE);
}

static void random_alloc(uint64_t *seed, struct mkt_space *space, struct model *model)
{
    uint64_t length =
        random_in(seed, 1, random_in(seed, 0, 9) ? 12 * GRANULE : UNITS / 3 * GRANULE);
    uint64_t align = (uint64_t)GRANULE << (random_in(seed, 0, 2) ? 0 : random_in(seed, 0, 5));
    uint64_t units = (length + GRANULE - 1) / GRANULE, expected, offset = 0;
    bool fits = model_find(model, units, align / GRANULE, &expected);
    enum mkt_status status = mkt_space_alloc(space, length, align, &offset);

    assert_int_equal(status, fits ? MKT_OK : MKT_NO_SPACE);
    if (!fits)
        return;
    assert_int_equal(offset, expected * GRANULE); /* the lowest address */
    memset(model->used + expected, true, units);
}

static void random_free(uint64_t *seed, struct mkt_space *space, struct model *model)
{
    uint64_t first = random_in(seed, 0, UNITS - 1), end = first;
    uint64_t most = random_in(seed, 1, 40);
    bool bad;

    while (end < UNITS && end - first < most && model->used[end])
        end++;
    bad = end == first || random_in(seed, 0, 9) == 0;
    if (bad && end < UNITS)
        end++;
    bad = false;
    for (uint64_t i = first; i < end; i++)
        bad |= !model->used[i];
    /* A length that ends inside the last granule means the whole granule. */
    uint64_t length = (end - first) * GRANULE - random_in(seed, 0, end > first ? GRANULE - 1 : 0);
    assert_int_equal(mkt_space_free(space, first * GRANULE, length), bad ? MKT_INVALID : MKT_OK);
    if (!bad)
        memset(model->used + first, false, end - first);
}

static void test_space_random_operations_match_bitmap(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 12; round++) {
        struct mkt_space *space = mkt_space_create(UNITS * GRANULE + 13);
        struct model model = {{false}};
        uint64_t seed = round, bias = random_in(&seed, 3, 7);

        for (int i = 0; i < 2500; i++) {
            if (random_in(&seed, 0, 9) < bias)
                random_alloc(&seed, space, &model);
            else
                random_free(&seed, space, &model);
            if (i % 16 == 0)
                check_against(space, &model);
        }
        check_against(space, &model);
        mkt_space_destroy(space);
    }
}

/* With as many ranges, a list would need seconds. */
static void test_space_hundred_thousand_ranges_stay_quick(void **state)
{
    enum {
        pieces = 200000
    };
    struct mkt_space *space = mkt_space_create((uint64_t)pieces * 128);
    uint64_t offset, seed = 1;

    (void)state;
    for (uint64_t i = 0; i < pieces; i++) {
        assert_int_equal(mkt_space_alloc(space, 128, 64, &offset), MKT_OK);
        assert_int_equal(offset, i * 128);
    }
    assert_int_equal(mkt_space_free_bytes(space), 0);
    for (uint64_t i = 0; i < pieces; i += 2)
        assert_int_equal(mkt_space_free(space, i * 128, 128), MKT_OK);
    assert_int_equal(mkt_space_largest_free(space), 128);
    assert_int_equal(mkt_space_alloc(space, 192, 64, &offset), MKT_NO_SPACE);
    for (int i = 0; i < 200000; i++) { /* near the end: a search from the front would crawl */
        uint64_t at = random_in(&seed, pieces / 2 - 1000, pieces / 2 - 1) * 256 + 128;
        assert_int_equal(mkt_space_free(space, at, 64), MKT_OK);
        assert_int_equal(mkt_space_alloc(space, 192, 64, &offset), MKT_OK);
        assert_int_equal(offset, at - 128);
        assert_int_equal(mkt_space_free(space, offset, 128), MKT_OK);
    }
    mkt_space_destroy(space);
}

static void test_space_bad_arguments_are_refused(void **state)
{
    struct mkt_space *space = mkt_space_create(4096);
    uint64_t offset;

    (void)state;
    assert_int_equal(mkt_space_alloc(space, 0, 64, &offset), MKT_INVALID);
    assert_int_equal(mkt_space_alloc(space, 64, 32, &offset), MKT_INVALID);
    assert_int_equal(mkt_space_alloc(space, 64, 96, &offset), MKT_INVALID);
    assert_int_equal(mkt_space_alloc(space, UINT64_MAX, 64, &offset), MKT_NO_SPACE);
    assert_int_equal(mkt_space_alloc(space, 64, (uint64_t)1 << 63, &offset), MKT_NO_SPACE);
    assert_int_equal(mkt_space_alloc(space, 4096, 64, &offset), MKT_OK);
    assert_int_equal(mkt_space_free(space, 4096, 64), MKT_INVALID);
    assert_int_equal(mkt_space_free(space, 64, UINT64_MAX), MKT_INVALID);
    assert_int_equal(mkt_space_free(space, 0, 4097), MKT_INVALID);
    assert_int_equal(mkt_space_free_bytes(space), 0);
    mkt_space_destroy(space);
    mkt_space_destroy(NULL);
}

/* Cut anywhere, the parts together give back the whole, each granule once. */
static void test_space_parts_free_the_whole(void **state)
{
    struct mkt_space *space = mkt_space_create(1 << 16);
    uint64_t offset, seed = 4;

    (void)state;
    for (int round = 0; round < 500; round++) {
        uint64_t length = random_in(&seed, 1, 5000);
        assert_int_equal(mkt_space_alloc(space, length, 64, &offset), MKT_OK);
        for (uint64_t at = 0; at < length;) {
            uint64_t part = random_in(&seed, 1, length - at);
            assert_int_equal(mkt_space_free(space, offset + at, part), MKT_OK);
            at += part;
        }
        assert_int_equal(mkt_space_free_bytes(space), 1 << 16);
        assert_int_equal(mkt_space_largest_free(space), 1 << 16);
    }
    mkt_space_destroy(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_space_random_operations_match_bitmap),
        cmocka_unit_test(test_space_hundred_thousand_ranges_stay_quick),
        cmocka_unit_test(test_space_bad_arguments_are_refused),
        cmocka_unit_test(test_space_parts_free_the_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
