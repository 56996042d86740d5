/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mkt_error error;

static enum mkt_status parse(const char *text, struct mkt_config *config)
{
    return mkt_config_parse(text, strlen(text), "h5market.yaml", NULL, config, &error);
}

static void assert_rejected(const char *text, const char *wanted)
{
    struct mkt_config config;

    memset(&config, 0xa5, sizeof(config));
    struct mkt_config before = config;
    assert_int_equal(parse(text, &config), MKT_INVALID);
    assert_memory_equal(&config, &before, sizeof(config));
    assert_string_equal(error.text, wanted);
}

static void test_config_empty_gives_defaults(void **state)
{
    static const char *const texts[] = {"",   "\n\n",     "# nothing\n", "---\n",
                                        "{}", "files:\n", "files: []\n"};
    struct mkt_config config;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(parse(texts[i], &config), MKT_OK);
        assert_int_equal(config.memory_bytes, 0);
        assert_int_equal(config.memory_percent, 50);
        assert_int_equal(config.numa, MKT_NUMA_AUTO);
        assert_int_equal(config.full_timeout_ms, 60000);
        assert_int_equal(config.writer_timeout_ms, 30000);
        assert_int_equal(config.idle_exit_ms, 600000);
        assert_int_equal(config.log_level, MKT_LOG_INFO);
        assert_int_equal(config.rules_count, 0);
        mkt_config_fini(&config);
    }
}

static void test_config_values_are_understood(void **state)
{
    struct mkt_config config;

    (void)state;
    assert_int_equal(
        parse("memory: 4GiB\nfull_timeout: 60\nwriter_timeout: 250ms\njoin_timeout: 5m\n"
              "commit_timeout: 2h\nidle_exit: never\narena: 512 MiB\nscratch: 0\nmax_objects: 7\n"
              "log: debug\nnuma: off\n",
              &config),
        MKT_OK);
    assert_int_equal(config.memory_bytes, UINT64_C(4) << 30);
    assert_int_equal(config.memory_percent, 0);
    assert_int_equal(config.full_timeout_ms, 60000);
    assert_int_equal(config.writer_timeout_ms, 250);
    assert_int_equal(config.join_timeout_ms, 300000);
    assert_int_equal(config.commit_timeout_ms, 7200000);
    assert_int_equal(config.idle_exit_ms, MKT_CONFIG_NEVER);
    assert_int_equal(config.arena_bytes, UINT64_C(512) << 20);
    assert_int_equal(config.scratch_bytes, 0);
    assert_int_equal(config.max_objects, 7);
    assert_int_equal(config.log_level, MKT_LOG_DEBUG);
    assert_int_equal(config.numa, MKT_NUMA_OFF);
    mkt_config_fini(&config);
}

/* One key's value leaves its neighbours in the structure alone. */
static void test_config_size_or_percent_sets_nothing_else(void **state)
{
    static const char *const texts[] = {"ssd_size: 1GiB\n", "ssd_size: 20%\n", "memory: 1GiB\n",
                                        "memory: 20%\n"};
    struct mkt_config config, standard;

    (void)state;
    assert_int_equal(parse("", &standard), MKT_OK);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(parse(texts[i], &config), MKT_OK);
        config.ssd_bytes = standard.ssd_bytes;
        config.ssd_percent = standard.ssd_percent;
        config.memory_bytes = standard.memory_bytes;
        config.memory_percent = standard.memory_percent;
        assert_memory_equal(&config, &standard, offsetof(struct mkt_config, rules));
        mkt_config_fini(&config);
    }
    mkt_config_fini(&standard);
}

static void test_config_rules_keep_their_order_and_values(void **state)
{
    struct mkt_config config;

    (void)state;
    assert_int_equal(parse("files:\n"
                           "- {match: 'plt*', keep: 3, wait: 60, mode: memory, publish: close 2}\n"
                           "- match: /scratch/**/chk\n"
                           "  mode: file\n"
                           "  writer_timeout: 5s\n"
                           "- match: \"3\"\n"
                           "  publish: flush\n",
                           &config),
                     MKT_OK);
    assert_int_equal(config.rules_count, 3);
    assert_string_equal(config.rules[0].pattern, "plt*");
    assert_int_equal(config.rules[0].keep, 3);
    assert_int_equal(config.rules[0].wait_ms, 60000);
    assert_int_equal(config.rules[0].mode, MKT_MODE_MEMORY);
    assert_int_equal(config.rules[0].publish, MKT_PUBLISH_CLOSE);
    assert_int_equal(config.rules[0].publish_close, 2);
    assert_string_equal(config.rules[1].pattern, "/scratch/**/chk");
    assert_int_equal(config.rules[1].mode, MKT_MODE_FILE);
    assert_int_equal(config.rules[1].writer_timeout_ms, 5000);
    assert_int_equal(config.rules[1].keep, 0);
    assert_string_equal(config.rules[2].pattern, "3");
    assert_int_equal(config.rules[2].publish, MKT_PUBLISH_FLUSH);
    mkt_config_fini(&config);
}

static void test_config_streams_are_understood(void **state)
{
    struct mkt_config config;

    (void)state;
    assert_int_equal(
        parse("max_readers: 7\n"
              "reader_grace: 3s\n"
              "files:\n"
              "- {match: a, until: consumed, readers: 2, queue: 4, queue_timeout: 5s,\n"
              "   end: exit, deliver: every 3, reader: viewer}\n"
              "- {match: b, end: 100, deliver: all}\n"
              "- {match: c, deliver: latest}\n",
              &config),
        MKT_OK);
    assert_int_equal(config.max_readers, 7);
    assert_int_equal(config.reader_grace_ms, 3000);
    const struct mkt_rule *a = &config.rules[0], *b = &config.rules[1], *c = &config.rules[2];
    assert_true(a->consumed == 1 && a->readers == 2 && a->queue == 4);
    assert_int_equal(a->queue_timeout_ms, 5000);
    assert_true(a->end_after == MKT_END_AT_EXIT && b->end_after == 100 && c->end_after == 0);
    assert_true(a->deliver == MKT_DELIVER_EVERY && a->every == 3);
    assert_true(b->deliver == MKT_DELIVER_ALL && c->deliver == MKT_DELIVER_LATEST);
    assert_string_equal(a->reader, "viewer");
    assert_null(b->reader);
    mkt_config_fini(&config);
}

static void test_config_short_rules_keep_their_order(void **state)
{
    struct mkt_config config;

    (void)state;
    assert_int_equal(parse("files:\n"
                           "  plt*: {mode: memory, keep: 3}\n"
                           "  \"quoted: *\": file\n"
                           "  **/scratch/*: memory\n"
                           "  nothing:\n"
                           "  *: both # all others\n",
                           &config),
                     MKT_OK);
    assert_int_equal(config.rules_count, 5);
    assert_string_equal(config.rules[0].pattern, "plt*");
    assert_int_equal(config.rules[0].mode, MKT_MODE_MEMORY);
    assert_int_equal(config.rules[0].keep, 3);
    assert_int_equal(config.rules[0].line, 2);
    assert_string_equal(config.rules[1].pattern, "quoted: *");
    assert_int_equal(config.rules[1].mode, MKT_MODE_FILE);
    assert_string_equal(config.rules[2].pattern, "**/scratch/*");
    assert_int_equal(config.rules[2].mode, MKT_MODE_MEMORY);
    assert_string_equal(config.rules[3].pattern, "nothing");
    assert_int_equal(config.rules[3].mode, 0);
    assert_string_equal(config.rules[4].pattern, "*");
    assert_int_equal(config.rules[4].mode, MKT_MODE_BOTH);
    assert_int_equal(config.rules[4].line, 6);
    mkt_config_fini(&config);
    assert_rejected(
        "files:\n  a: {mode: memory}\n  b: {match: c}\n",
        "h5market.yaml:3: the pattern stands before the colon: 'match' is one too many");
    assert_rejected(
        "files:\n  a: fast\n",
        "h5market.yaml:2: 'fast' isn't a value of 'mode': it takes both, memory or file");
    assert_rejected(
        "files:\n  a: [1]\n",
        "h5market.yaml:2: a pattern of 'files' takes a mode, or settings such as {mode: "
        "memory, keep: 3}");
}

static void test_config_datasets_first_match_wins(void **state)
{
    struct mkt_config config;

    (void)state;
    assert_int_equal(parse("files:\n"
                           "- match: a\n"
                           "  datasets:\n"
                           "    /diagnostics/kept*: both\n"
                           "    /diagnostics/**: memory\n"
                           "    *_tmp: memory\n"
                           "- {match: b, datasets: {}}\n",
                           &config),
                     MKT_OK);
    const struct mkt_rule *rule = &config.rules[0];
    assert_true(mkt_rule_keeps_dataset(rule, "/diagnostics/a"));
    assert_true(mkt_rule_keeps_dataset(rule, "/diagnostics/deep/a"));
    assert_false(mkt_rule_keeps_dataset(rule, "/diagnostics/kept"));
    assert_true(mkt_rule_keeps_dataset(rule, "/fields/x_tmp"));
    assert_false(mkt_rule_keeps_dataset(rule, "/fields/x"));
    assert_false(mkt_rule_keeps_dataset(rule, "/diagnostics"));
    assert_false(mkt_rule_keeps_dataset(&config.rules[1], "/diagnostics/a"));
    mkt_config_fini(&config);
    assert_rejected("files: [{match: a, datasets: {b: file}}]\n",
                    "h5market.yaml:1: 'file' isn't a mode of datasets: memory or both");
    assert_rejected("files: [{match: a, datasets: memory}]\n",
                    "h5market.yaml:1: 'datasets' takes a mapping from patterns to memory or both, "
                    "such as {\"/diagnostics/**\": memory}");
}

static void test_config_base_fills_what_is_not_said(void **state)
{
    static const char text[] = "writer_timeout: 5\n";
    struct mkt_config base, config;

    (void)state;
    assert_int_equal(parse("writer_timeout: 7\nfull_timeout: 9\nfiles: [{match: a}]\n", &base),
                     MKT_OK);
    assert_int_equal(mkt_config_parse(text, sizeof(text) - 1, "x", &base, &config, &error), MKT_OK);
    assert_int_equal(config.writer_timeout_ms, 5000);
    assert_int_equal(config.full_timeout_ms, 9000);
    assert_int_equal(config.rules_count, 0);
    mkt_config_fini(&config);
    mkt_config_fini(&base);
}

static void test_config_unknown_key_names_line_and_neighbour(void **state)
{
    (void)state;
    assert_rejected(
        "memory: 3GiB\nfiles:\n- match: a\n  keep: 2\n- match: b\n  wait: 3\n  kep: 3\n",
        "h5market.yaml:7: unknown key 'kep' (did you mean 'keep'?)");
    assert_rejected("\n\nfile: []\n",
                    "h5market.yaml:3: unknown key 'file' (did you mean 'files'?)");
    assert_rejected("memroy: 1GiB\n",
                    "h5market.yaml:1: unknown key 'memroy' (did you mean 'memory'?)");
    assert_rejected("colour: red\n", "h5market.yaml:1: unknown key 'colour' in the configuration");
    assert_rejected(
        "log: info\nkeep: 4\n",
        "h5market.yaml:2: key 'keep' belongs to a rule of 'files', not to the configuration");
    assert_rejected("files:\n- {match: a,\n   full_timeout: 4}\n",
                    "h5market.yaml:3: key 'full_timeout' belongs to the configuration, not to a "
                    "rule of 'files'");
}

static void test_config_wrong_value_names_line_and_notation(void **state)
{
    (void)state;
    assert_rejected("log: info\nfull_timeout: 5x\n",
                    "h5market.yaml:2: '5x' isn't a value of 'full_timeout': it takes a duration "
                    "such as 60, 60s, 5m "
                    "or 250ms");
    assert_rejected("memory: lots\n",
                    "h5market.yaml:1: 'lots' isn't a value of 'memory': it takes a size such as "
                    "4GiB, or a percentage such as 50%");
    assert_rejected("memory: 0%\n",
                    "h5market.yaml:1: '0%' is out of range for 'memory': it takes 1% to 100%");
    assert_rejected("memory: 101%\n",
                    "h5market.yaml:1: '101%' is out of range for 'memory': it takes 1% to 100%");
    assert_rejected(
        "memory: 1\n",
        "h5market.yaml:1: '1' is out of range for 'memory': it takes 16 MiB to 1024 TiB");
    assert_rejected("memory: 99999999999999999999999\n",
                    "h5market.yaml:1: '99999999999999999999999' isn't a value of 'memory': it "
                    "takes a size such as "
                    "4GiB, or a percentage such as 50%");
    assert_rejected("memory: 99999999999999TiB\n",
                    "h5market.yaml:1: '99999999999999TiB' isn't a value of 'memory': it takes a "
                    "size such as 4GiB, "
                    "or a percentage such as 50%");
    assert_rejected(
        "max_objects: -1\n",
        "h5market.yaml:1: '-1' isn't a value of 'max_objects': it takes a whole number");
    assert_rejected(
        "full_timeout:\n",
        "h5market.yaml:1: 'full_timeout' takes a duration such as 60, 60s, 5m or 250ms");
    assert_rejected(
        "full_timeout: [1]\n",
        "h5market.yaml:1: 'full_timeout' takes a duration such as 60, 60s, 5m or 250ms");
    assert_rejected("idle_exit: 40d\n",
                    "h5market.yaml:1: '40d' is out of range for 'idle_exit': it takes 1 s to "
                    "43200 min");
    assert_rejected(
        "log: trace\n",
        "h5market.yaml:1: 'trace' isn't a value of 'log': it takes error, warning, info or debug");
    assert_rejected("files: [{match: a, keep: 0}]\n",
                    "h5market.yaml:1: '0' is out of range for 'keep': it takes 1 to 1000000");
    assert_rejected(
        "files: [{match: a, publish: close 0}]\n",
        "h5market.yaml:1: 'close 0' is out of range for 'publish': it takes 1 to 1000000");
    assert_rejected("files:\n- match: a\n  deliver: every 0\n",
                    "h5market.yaml:3: 'every 0' is out of range for 'deliver': it takes 1 to "
                    "1000000");
    assert_rejected("files:\n- match: a\n  end: never\n",
                    "h5market.yaml:3: 'never' isn't a value of 'end': it takes a whole number, or "
                    "exit");
    assert_rejected("files:\n- match: a\n  reader: two words\n",
                    "h5market.yaml:3: 'two words' isn't a value of 'reader': it takes a name of 1 "
                    "to 63 characters without blanks");
    assert_rejected("files:\n- match: a\n  durability: disk\n",
                    "h5market.yaml:3: 'disk' isn't a value of 'durability': it takes async, close "
                    "or none");
    assert_rejected("files:\n- match: a\n  backup: maybe\n",
                    "h5market.yaml:3: 'maybe' isn't a value of 'backup': it takes true or false");
    assert_rejected("files:\n- match: a\n  mode: disk\n",
                    "h5market.yaml:3: 'disk' isn't a value of 'mode': it takes both, memory "
                    "or file");
    assert_rejected("files:\n- match: ''\n",
                    "h5market.yaml:2: 'match' takes a pattern of 1 to 4096 characters");
}

static void test_config_wrong_shape_names_line(void **state)
{
    (void)state;
    assert_rejected("- a\n", "h5market.yaml:1: a configuration is a list of 'key: value' lines");
    assert_rejected("hello\n", "h5market.yaml:1: a configuration is a list of 'key: value' lines");
    assert_rejected("files: b\n", "h5market.yaml:1: 'files' takes a list of rules");
    assert_rejected(
        "files:\n- a\n",
        "h5market.yaml:2: each entry of 'files' is a rule such as {match: \"plt*\", keep: 3}");
    assert_rejected("files:\n- keep: 3\n", "h5market.yaml:2: this rule has no 'match'");
    assert_rejected("files:\n- match: a\n  keep: 3\n  mode: file\n",
                    "h5market.yaml:3: 'keep' says nothing of ordinary files (`mode: file`)");
    assert_rejected("files:\n  a: {mode: file, wait: 3s,\n      until: consumed}\n",
                    "h5market.yaml:3: 'until' says nothing of ordinary files (`mode: file`)");
    assert_rejected("memory: 4GiB\nmemory: 5GiB\n", "h5market.yaml:2: key 'memory' is there twice");
    assert_rejected("[1]: 2\n", "h5market.yaml:1: a key of the configuration must be a word");
    assert_rejected("log: info\n---\nlog: debug\n",
                    "h5market.yaml:3: a second document: a configuration is one");
    assert_rejected("log: \"in\\0fo\"\n",
                    "h5market.yaml:1: 'log' takes error, warning, info or debug");
    assert_int_equal(parse("files: [\n", &(struct mkt_config){.rules = NULL}), MKT_INVALID);
    assert_non_null(strstr(error.text, "h5market.yaml:2: not YAML: "));
    assert_int_equal(parse("log: \xff\xfe", &(struct mkt_config){.rules = NULL}), MKT_INVALID);
    assert_non_null(strstr(error.text, "not YAML"));
}

static void test_config_low_watermark_is_below_the_high_one(void **state)
{
    struct mkt_config config;

    (void)state;
    assert_rejected("low_watermark: 60\nhigh_watermark: 50\n",
                    "h5market.yaml:1: 'low_watermark' (60) is above 'high_watermark' (50)");
    assert_rejected("memory: 1GiB\nlow_watermark: 81\n",
                    "h5market.yaml:2: 'low_watermark' (81) is above 'high_watermark' (80)");
    assert_int_equal(parse("low_watermark: 50\nhigh_watermark: 50\n", &config), MKT_OK);
    assert_int_equal(config.low_percent, 50);
    mkt_config_fini(&config);
    assert_int_equal(parse("high_watermark: 50\n", &config), MKT_OK); /* 70 was nobody's wish */
    assert_int_equal(config.high_percent, 50);
    assert_int_equal(config.low_percent, 50);
    mkt_config_fini(&config);
}

static void test_config_too_many_rules_are_refused(void **state)
{
    size_t capacity = 64 + (MKT_CONFIG_MAX_RULES + 1) * 16;
    char *text = calloc(1, capacity);
    struct mkt_config config;

    (void)state;
    strcpy(text, "files:\n");
    for (int i = 0; i < MKT_CONFIG_MAX_RULES; i++)
        strcat(text, "- {match: a}\n");
    assert_int_equal(parse(text, &config), MKT_OK);
    assert_int_equal(config.rules_count, MKT_CONFIG_MAX_RULES);
    mkt_config_fini(&config);
    strcat(text, "- {match: a}\n");
    assert_rejected(text, "h5market.yaml:2: more than 1000 rules");
    free(text);
}

/* Cut, doubled and changed texts: an answer, never a crash. */
static void test_config_mangled_text_is_survived(void **state)
{
    static const char text[] =
        "memory: 4GiB\nidle_exit: never # why\nfiles: &r\n- {match: 'plt*', keep: 3}\n"
        "- match: \"/a/**\"\n  wait: 5m\n  publish: close 2\n- *r\n";
    char mangled[sizeof(text)];
    struct mkt_config config;
    uint32_t random = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        memcpy(mangled, text, sizeof(text));
        size_t length = sizeof(text) - 1;
        for (int change = 0; change < 1 + round % 4; change++) {
            random = random * 1664525 + 1013904223;
            mangled[(random >> 8) % length] =
                (random % 3 ? "-:{}[]&*!|>'\"%@ \n\t#,0"[random % 22] : (char)(random >> 24));
        }
        if (round % 5 == 0)
            length = (random >> 10) % length;
        if (mkt_config_parse(mangled, length, "x", NULL, &config, &error) == MKT_OK)
            mkt_config_fini(&config);
        else
            assert_non_null(strstr(error.text, "x:"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_empty_gives_defaults),
        cmocka_unit_test(test_config_values_are_understood),
        cmocka_unit_test(test_config_size_or_percent_sets_nothing_else),
        cmocka_unit_test(test_config_rules_keep_their_order_and_values),
        cmocka_unit_test(test_config_streams_are_understood),
        cmocka_unit_test(test_config_short_rules_keep_their_order),
        cmocka_unit_test(test_config_datasets_first_match_wins),
        cmocka_unit_test(test_config_base_fills_what_is_not_said),
        cmocka_unit_test(test_config_unknown_key_names_line_and_neighbour),
        cmocka_unit_test(test_config_wrong_value_names_line_and_notation),
        cmocka_unit_test(test_config_wrong_shape_names_line),
        cmocka_unit_test(test_config_low_watermark_is_below_the_high_one),
        cmocka_unit_test(test_config_too_many_rules_are_refused),
        cmocka_unit_test(test_config_mangled_text_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
