/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/wire/rules.h"
#include "tests/unit/random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_match(const char *pattern, const char *path, bool expected)
{
    struct mkt_rule rule = {.pattern = pattern};
    bool found = mkt_rules_match(&rule, 1, path) == &rule;
    if (found != expected)
        fail_msg("pattern %s, path %s: %s", pattern, path, found ? "matched" : "did not match");
}

static void test_rules_pattern_without_slash_matches_last_component(void **state)
{
    (void)state;
    assert_match("a.h5", "/tmp/a.h5", true);
    assert_match("a.h5", "/tmp/a.h5x", false);
    assert_match("a.h5", "/a.h5/b.h5", false);
    assert_match("plt*", "/d/plt00010", true);
    assert_match("plt*", "/plt/x", false);
    assert_match("*", "/d/x", true);
    assert_match("*.h5", "/d/.h5", true);
    assert_match("?.h5", "/d/.h5", false);
    assert_match("?.h5", "/d/a.h5", true);
    assert_match("*a*b*c*", "/d/xxaxxbxxcxx", true);
    assert_match("*a*b*c*", "/d/xxaxxcxxbxx", false);
    assert_match("**", "/d/x", true);
    assert_match("", "/d/x", false);
    assert_match("", "/d/", true);
}

static void test_rules_pattern_with_slash_matches_absolute_path(void **state)
{
    (void)state;
    assert_match("/tmp/a.h5", "/tmp/a.h5", true);
    assert_match("tmp/a.h5", "/tmp/a.h5", false);
    assert_match("/tmp/*.h5", "/tmp/x/a.h5", false);
    assert_match("/tmp/*/a.h5", "/tmp/x/a.h5", true);
    assert_match("/tmp/?/a.h5", "/tmp///a.h5", false);
    assert_match("/tmp/**/a.h5", "/tmp/x/y/a.h5", true);
    assert_match("/tmp/**/a.h5", "/tmp/a.h5", false);
    assert_match("/tmp/**a.h5", "/tmp/a.h5", true);
    assert_match("**/a.h5", "/a.h5", true);
    assert_match("**/out/*.h5", "/x/out/y/out/z.h5", true);
    assert_match("**/out/*.h5", "/x/out/y/z.h5", false);
    assert_match("/*/b/**/d", "/a/b/c/c/d", true);
    assert_match("/*/b/**/d", "/a/a/b/c/d", false);
    assert_match("/a/***/b", "/a/x/y/b", true);
}

/* The definition, slowly. */
static void check_set(const char *pattern, const char *path, const char *wanted)
{
    char *set = mkt_rule_set(pattern, strlen(pattern), path);
    const struct mkt_rule rule = {.pattern = set};

    assert_string_equal(set, wanted);
    assert_true(mkt_rule_matches(&rule, path, NULL));
    free(set);
}

static void test_rules_pattern_without_slash_has_a_set_for_each_folder(void **state)
{
    (void)state;
    check_set("plt*.h5", "/a/b/plt1.h5", "/a/b/plt*.h5");
    check_set("**", "/a/plt1.h5", "/a/*"); /* and not what is in /a/b */
    check_set("/a/**", "/a/b/plt1.h5", "/a/**");
    check_set("**/plt?", "/a/b/plt1", "**/plt?");
    check_set("*", "/plt1", "/*");
}

static bool matches(const char *pattern, const char *text)
{
    if (*pattern == '\0')
        return *text == '\0';
    if (pattern[0] == '*' && pattern[1] == '*') {
        while (*pattern == '*')
            pattern++;
        for (;; text++) {
            if (matches(pattern, text))
                return true;
            if (*text == '\0')
                return false;
        }
    }
    if (*pattern == '*') {
        for (pattern++;; text++) {
            if (matches(pattern, text))
                return true;
            if (*text == '\0' || *text == '/')
                return false;
        }
    }
    if (*text == '\0' || (*pattern == '?' ? *text == '/' : *pattern != *text))
        return false;
    return matches(pattern + 1, text + 1);
}

static void test_rules_random_patterns_match_definition(void **state)
{
    (void)state;
    uint64_t random = 6;
    unsigned hits = 0;
    for (int round = 0; round < 200000; round++) {
        char pattern[10] = "/", text[12] = "/";
        size_t length = 1 + random_next(&random) % 8;
        for (size_t i = 1; i < length; i++)
            pattern[i] = "ab/**?*/"[random_next(&random) % 8];
        length = 1 + random_next(&random) % 10;
        for (size_t i = 1; i < length; i++)
            text[i] = "aab/"[random_next(&random) % 4];
        bool expected = matches(pattern, text);
        hits += expected;
        assert_match(pattern, text, expected);
    }
    assert_true(hits > 2000);
}

/* Doubling stars must not double the time. */
static void test_rules_many_stars_end_soon(void **state)
{
    (void)state;
    char pattern[512] = "/", text[4096];
    for (int i = 0; i < 60; i++)
        strcat(pattern, "a*b**");
    strcat(pattern, "c");
    memset(text, 'a', sizeof(text) - 1);
    for (size_t i = 0; i < sizeof(text) - 1; i += 2)
        text[i] = 'b';
    text[0] = '/';
    text[sizeof(text) - 1] = '\0';
    assert_match(pattern, text, false);
}

static void test_rules_first_match_wins(void **state)
{
    (void)state;
    const struct mkt_rule rules[] = {{.pattern = "b*"}, {.pattern = "*"}, {.pattern = "a*"}};
    assert_ptr_equal(mkt_rules_match(rules, 3, "/a"), &rules[1]);
    assert_ptr_equal(mkt_rules_match(rules, 3, "/b"), &rules[0]);
    assert_null(mkt_rules_match(rules, 1, "/a"));
    assert_null(mkt_rules_match(NULL, 0, "/a"));
}

static void test_rules_round_trip_keeps_all(void **state)
{
    (void)state;
    const struct mkt_rule rules[] = {
        {.pattern = "plt*",
         .mode = MKT_MODE_MEMORY,
         .keep = 3,
         .wait_ms = 4,
         .writer_timeout_ms = 5,
         .publish = MKT_PUBLISH_FLUSH,
         .publish_close = 6,
         .durability = MKT_DURABILITY_CLOSE,
         .priority = 9,
         .backup = 1,
         .stage_in = 1,
         .exit_wait_ms = 7,
         .datasets = "M/a/**\nBb\n",
         .consumed = 1,
         .readers = 10,
         .queue = 11,
         .queue_timeout_ms = 12,
         .end_after = MKT_END_AT_EXIT,
         .deliver = MKT_DELIVER_EVERY,
         .every = 13,
         .reader = "analysis"},
        {.pattern = ""},
        {.pattern = "/a/**/b?.h5",
         .mode = MKT_MODE_BOTH,
         .keep = UINT32_MAX,
         .wait_ms = 1,
         .writer_timeout_ms = 2,
         .publish = MKT_PUBLISH_CLOSE,
         .publish_close = 2,
         .durability = MKT_DURABILITY_NONE},
    };
    void *bytes;
    uint32_t length, count;
    struct mkt_rule *back;
    assert_int_equal(mkt_rules_encode(rules, 3, &bytes, &length), MKT_OK);
    assert_int_equal(mkt_rules_decode((struct mkt_bytes){bytes, length}, &back, &count), MKT_OK);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(back[i].pattern, rules[i].pattern);
        assert_true(back[i].mode == rules[i].mode && back[i].keep == rules[i].keep);
        assert_true(back[i].wait_ms == rules[i].wait_ms && back[i].publish == rules[i].publish);
        assert_true(back[i].writer_timeout_ms == rules[i].writer_timeout_ms);
        assert_true(back[i].publish_close == rules[i].publish_close);
        assert_true(back[i].durability == rules[i].durability);
        assert_true(back[i].priority == rules[i].priority && back[i].backup == rules[i].backup &&
                    back[i].stage_in == rules[i].stage_in);
        assert_true(back[i].exit_wait_ms == rules[i].exit_wait_ms);
        assert_string_equal(back[i].datasets, rules[i].datasets ? rules[i].datasets : "");
        assert_true(back[i].consumed == rules[i].consumed && back[i].readers == rules[i].readers);
        assert_true(back[i].queue == rules[i].queue &&
                    back[i].queue_timeout_ms == rules[i].queue_timeout_ms &&
                    back[i].end_after == rules[i].end_after);
        assert_true(back[i].deliver == rules[i].deliver && back[i].every == rules[i].every);
        assert_string_equal(back[i].reader, rules[i].reader ? rules[i].reader : "");
    }
    free(back);
    /* Cut or with something behind it, it is refused. */
    for (uint32_t cut = 1; cut < length; cut++) {
        void *exact = malloc(cut);
        memcpy(exact, bytes, cut);
        assert_int_equal(mkt_rules_decode((struct mkt_bytes){exact, cut}, &back, &count),
                         MKT_PROTOCOL);
        free(exact);
    }
    void *longer = calloc(1, length + 8);
    memcpy(longer, bytes, length);
    assert_int_equal(mkt_rules_decode((struct mkt_bytes){longer, length + 8}, &back, &count),
                     MKT_PROTOCOL);
    free(longer);
    free(bytes);
}

static void test_rules_none_round_trip(void **state)
{
    (void)state;
    void *bytes;
    uint32_t length, count;
    struct mkt_rule *back;
    assert_int_equal(mkt_rules_encode(NULL, 0, &bytes, &length), MKT_OK);
    assert_int_equal(mkt_rules_decode((struct mkt_bytes){bytes, length}, &back, &count), MKT_OK);
    assert_int_equal(count, 0);
    free(back);
    free(bytes);
    assert_int_equal(mkt_rules_decode((struct mkt_bytes){NULL, 0}, &back, &count), MKT_OK);
    assert_int_equal(count, 0);
    free(back);
}

static void test_rules_pattern_with_nul_is_refused(void **state)
{
    (void)state;
    const struct mkt_rule rule = {.pattern = "abcd"};
    uint8_t *bytes;
    uint32_t length, count;
    struct mkt_rule *back;
    assert_int_equal(mkt_rules_encode(&rule, 1, (void **)&bytes, &length), MKT_OK);
    uint8_t *at = memmem(bytes, length, "abcd", 4);
    assert_non_null(at);
    at[2] = 0;
    assert_int_equal(mkt_rules_decode((struct mkt_bytes){bytes, length}, &back, &count),
                     MKT_PROTOCOL);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_pattern_without_slash_matches_last_component),
        cmocka_unit_test(test_rules_pattern_with_slash_matches_absolute_path),
        cmocka_unit_test(test_rules_pattern_without_slash_has_a_set_for_each_folder),
        cmocka_unit_test(test_rules_random_patterns_match_definition),
        cmocka_unit_test(test_rules_many_stars_end_soon),
        cmocka_unit_test(test_rules_first_match_wins),
        cmocka_unit_test(test_rules_round_trip_keeps_all),
        cmocka_unit_test(test_rules_none_round_trip),
        cmocka_unit_test(test_rules_pattern_with_nul_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
