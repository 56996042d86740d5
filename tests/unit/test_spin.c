/* SPDX-License-Identifier: BSD-3-Clause */
/* How often it is worth looking before going to sleep. */
#include "core/base/spin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Chances until the next look, that one included. */
static unsigned chances(struct mkt_spin *spin)
{
    unsigned count = 1;
    while (!mkt_spin_begin(spin))
        count++;
    return count;
}

static void test_spin_success_looks_each_time(void **state)
{
    struct mkt_spin spin = {0};
    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(chances(&spin), 1);
        mkt_spin_end(&spin, true);
    }
}

static void test_spin_failures_look_ever_more_rarely(void **state)
{
    struct mkt_spin spin = {0};
    (void)state;
    assert_int_equal(chances(&spin), 1);
    for (unsigned wait = 2; wait <= 64; wait *= 2) {
        mkt_spin_end(&spin, false);
        assert_int_equal(chances(&spin), wait + 1);
    }
    for (int i = 0; i < 3; i++) {
        mkt_spin_end(&spin, false);
        assert_int_equal(chances(&spin), 65);
    }
}

static void test_spin_one_success_forgives(void **state)
{
    struct mkt_spin spin = {0};
    (void)state;
    for (int i = 0; i < 6; i++)
        mkt_spin_end(&spin, false);
    assert_int_equal(chances(&spin), 65);
    mkt_spin_end(&spin, true);
    assert_int_equal(chances(&spin), 1);
    mkt_spin_end(&spin, false);
    assert_int_equal(chances(&spin), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spin_success_looks_each_time),
        cmocka_unit_test(test_spin_failures_look_ever_more_rarely),
        cmocka_unit_test(test_spin_one_success_forgives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
