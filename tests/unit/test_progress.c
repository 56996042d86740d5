/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_progress_lines_come_after_two_seconds_and_each_ten(void **state)
{
    struct mkt_progress progress = {.began_ms = 1000};

    (void)state;
    assert_false(mkt_progress_is_due(&progress, 2999, false));
    assert_false(mkt_progress_is_due(&progress, 2999, true));
    assert_false(progress.shown);
    assert_false(mkt_progress_is_due(&progress, 9999, false));
    assert_true(mkt_progress_is_due(&progress, 10000, false));
    assert_true(progress.shown);
    assert_false(mkt_progress_is_due(&progress, 19999, false));
    assert_true(mkt_progress_is_due(&progress, 19999, true));
    assert_false(mkt_progress_is_due(&progress, 29998, false));
    assert_true(mkt_progress_is_due(&progress, 29999, false));
}

static void test_progress_of_a_terminal_changes_four_times_a_second(void **state)
{
    struct mkt_progress progress = {.began_ms = 1000, .terminal = true};

    (void)state;
    assert_false(mkt_progress_is_due(&progress, 2999, false));
    assert_true(mkt_progress_is_due(&progress, 3000, false));
    assert_false(mkt_progress_is_due(&progress, 3249, false));
    assert_true(mkt_progress_is_due(&progress, 3250, false));
    mkt_progress_end_line(&progress);
    assert_false(progress.shown);
}

static void test_progress_counts_what_comes_in_addition_as_to_do(void **state)
{
    struct mkt_progress progress = {.began_ms = 1000};

    (void)state;
    assert_true(mkt_progress_note(&progress, 5000));
    assert_int_equal(mkt_progress_rate(&progress, 1000), 0);
    assert_int_equal(mkt_progress_rate(&progress, 2000), 0);
    assert_false(mkt_progress_note(&progress, 5000));
    assert_true(mkt_progress_note(&progress, 1000));
    assert_int_equal(mkt_progress_rate(&progress, 3000), 2000);
    assert_true(mkt_progress_note(&progress, 9000));
    assert_int_equal(mkt_progress_rate(&progress, 3000), 2000);
    assert_true(mkt_progress_note(&progress, 0));
    assert_int_equal(mkt_progress_rate(&progress, 2000), 13000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress_lines_come_after_two_seconds_and_each_ten),
        cmocka_unit_test(test_progress_of_a_terminal_changes_four_times_a_second),
        cmocka_unit_test(test_progress_counts_what_comes_in_addition_as_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
