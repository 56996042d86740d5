/* SPDX-License-Identifier: BSD-3-Clause */
/* The connector string. */
#include "vol/info.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/wire/messages.h"
#include "vol/callbacks.h"

static void test_info_parse_all_keys_are_read(void **state)
{
    (void)state;
    struct mkt_vol_info info;
    char reason[256];
    assert_true(mkt_vol_info_parse("  wait=1.5 version=7\tafter=start config=/a/b.yaml "
                                   "deliver=every:12 reader=me ",
                                   &info, reason, sizeof(reason)));
    assert_int_equal(info.wait_ms, 1500);
    assert_int_equal(info.version, 7);
    assert_true(info.after_start);
    assert_string_equal(info.config, "/a/b.yaml");
    assert_int_equal(info.deliver, MKT_DELIVER_EVERY);
    assert_int_equal(info.every, 12);
    assert_string_equal(info.reader, "me");
    free(info.config);
    free(info.reader);
}

static void test_info_parse_empty_is_all_defaults(void **state)
{
    (void)state;
    struct mkt_vol_info info;
    char reason[256];
    assert_true(mkt_vol_info_parse("", &info, reason, sizeof(reason)));
    assert_true(info.wait_ms == -1 && info.version == 0 && !info.after_start && !info.config);
}

static void test_info_parse_bad_words_name_themselves(void **state)
{
    (void)state;
    static const char *const bad[] = {"wait",
                                      "wait=",
                                      "wait=-1",
                                      "wait=abc",
                                      "wait=1e300",
                                      "wait=nan",
                                      "patience=3",
                                      "version=0",
                                      "version=-3",
                                      "version=1x",
                                      "after=end",
                                      "config=",
                                      "deliver=",
                                      "deliver=some",
                                      "deliver=every",
                                      "deliver=every:0",
                                      "deliver=every:-1",
                                      "deliver=every:2x",
                                      "deliver=every:9999999",
                                      "reader="};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct mkt_vol_info info;
        char reason[256] = "", key[32];
        assert_false(mkt_vol_info_parse(bad[i], &info, reason, sizeof(reason)));
        snprintf(key, sizeof(key), "%.*s", (int)strcspn(bad[i], "="), bad[i]);
        assert_non_null(strstr(reason, key));
    }
}

static void test_info_to_str_comes_back_the_same(void **state)
{
    (void)state;
    static const char *const strings[] = {"",
                                          "wait=0",
                                          "wait=60 config=x",
                                          "version=3 after=start",
                                          "wait=0.25",
                                          "deliver=latest",
                                          "deliver=next reader=a",
                                          "deliver=all",
                                          "deliver=every:5 reader=b config=y"};
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        struct mkt_vol_info info, again;
        char reason[256], *text = NULL;
        int order = 1;
        assert_true(mkt_vol_info_parse(strings[i], &info, reason, sizeof(reason)));
        assert_int_equal(mkt_vol_info_to_str(&info, &text), 0);
        assert_true(mkt_vol_info_parse(text, &again, reason, sizeof(reason)));
        assert_int_equal(mkt_vol_info_cmp(&order, &info, &again), 0);
        assert_int_equal(order, 0);
        struct mkt_vol_info *copy = mkt_vol_info_copy(&info);
        mkt_vol_info_cmp(&order, copy, &info);
        assert_int_equal(order, 0);
        mkt_vol_info_free(copy);
        free(text);
        free(info.config);
        free(info.reader);
        free(again.config);
        free(again.reader);
    }
}

static void test_info_from_str_keeps_what_is_wrong(void **state)
{
    (void)state;
    void *wrong = NULL, *good = NULL;
    int order = 0;
    assert_int_equal(mkt_vol_info_from_str("wiat=60", &wrong), 0);
    assert_int_equal(mkt_vol_info_from_str("", &good), 0);
    assert_non_null(strstr(((struct mkt_vol_info *)wrong)->wrong, "wiat"));
    assert_null(((struct mkt_vol_info *)good)->wrong);
    struct mkt_vol_info *copy = mkt_vol_info_copy(wrong);
    assert_int_equal(mkt_vol_info_cmp(&order, copy, wrong), 0);
    assert_int_equal(order, 0);
    mkt_vol_info_cmp(&order, wrong, good);
    assert_int_not_equal(order, 0);
    mkt_vol_info_free(copy);
    mkt_vol_info_free(wrong);
    mkt_vol_info_free(good);
}

static void test_info_null_is_like_the_defaults(void **state)
{
    (void)state;
    struct mkt_vol_info info;
    char reason[256], *text = NULL;
    int order = 1;
    mkt_vol_info_parse("", &info, reason, sizeof(reason));
    mkt_vol_info_cmp(&order, NULL, &info);
    assert_int_equal(order, 0);
    mkt_vol_info_cmp(&order, NULL, NULL);
    assert_int_equal(order, 0);
    assert_null(mkt_vol_info_copy(NULL));
    assert_int_equal(mkt_vol_info_free(NULL), 0);
    assert_int_equal(mkt_vol_info_to_str(NULL, &text), 0);
    assert_string_equal(text, "");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info_parse_all_keys_are_read),
        cmocka_unit_test(test_info_parse_empty_is_all_defaults),
        cmocka_unit_test(test_info_parse_bad_words_name_themselves),
        cmocka_unit_test(test_info_to_str_comes_back_the_same),
        cmocka_unit_test(test_info_from_str_keeps_what_is_wrong),
        cmocka_unit_test(test_info_null_is_like_the_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
