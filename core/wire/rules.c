/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/wire/rules.h"
#include "core/wire/codec.h"
#include <stdlib.h>
#include <string.h>

/* A rule takes no less than this. */
#define RULE_MIN_BYTES 56

/* A rule's texts, in the order in which they are decoded. */
struct rule_texts {
    struct mkt_bytes pattern, datasets, reader;
};

static void walk_stream(struct mkt_codec *codec, struct mkt_rule *rule)
{
    mkt_codec_range(codec, &rule->consumed, 0, 1);
    mkt_codec_u32(codec, &rule->readers);
    mkt_codec_u32(codec, &rule->queue);
    mkt_codec_u32(codec, &rule->queue_timeout_ms);
    mkt_codec_u32(codec, &rule->end_after);
    mkt_codec_range(codec, &rule->on_full, 0, MKT_FULL_FILE);
    mkt_codec_range(codec, &rule->deliver, 0, MKT_DELIVER_EVERY);
    mkt_codec_u32(codec, &rule->every);
}

static void walk_rule(struct mkt_codec *codec, struct mkt_rule *rule, struct rule_texts *texts)
{
    mkt_codec_bytes(codec, &texts->pattern);
    mkt_codec_range(codec, &rule->mode, 0, MKT_MODE_BOTH);
    mkt_codec_u32(codec, &rule->keep);
    mkt_codec_u32(codec, &rule->wait_ms);
    mkt_codec_u32(codec, &rule->writer_timeout_ms);
    mkt_codec_range(codec, &rule->publish, 0, MKT_PUBLISH_FLUSH);
    mkt_codec_u32(codec, &rule->publish_close);
    mkt_codec_range(codec, &rule->durability, 0, MKT_DURABILITY_NONE);
    mkt_codec_u32(codec, &rule->priority);
    mkt_codec_range(codec, &rule->backup, 0, 1);
    mkt_codec_range(codec, &rule->pin, 0, 1);
    mkt_codec_range(codec, &rule->stage_in, 0, 1);
    mkt_codec_u32(codec, &rule->exit_wait_ms);
    mkt_codec_bytes(codec, &texts->datasets);
    walk_stream(codec, rule);
    mkt_codec_bytes(codec, &texts->reader);
}

static struct mkt_bytes text_of(const char *text)
{
    return (struct mkt_bytes){text, text != NULL ? (uint32_t)strlen(text) : 0};
}

static void walk_rules(struct mkt_codec *codec, const struct mkt_rule *rules, uint32_t count)
{
    mkt_codec_u32(codec, &count);
    for (uint32_t i = 0; i < count && !codec->failed; i++) {
        struct mkt_rule rule = rules[i];
        struct rule_texts texts = {text_of(rule.pattern), text_of(rule.datasets),
                                   text_of(rule.reader)};
        walk_rule(codec, &rule, &texts);
    }
}

enum mkt_status mkt_rules_encode(const struct mkt_rule *rules, uint32_t count, void **bytes_out,
                                 uint32_t *length_out)
{
    struct mkt_codec codec = {.mode = MKT_CODEC_MEASURE};
    walk_rules(&codec, rules, count);
    if (codec.failed || codec.at > MKT_FRAME_MAX_BYTES / 2)
        return MKT_INVALID;
    void *bytes = malloc(codec.at);
    if (bytes == NULL)
        return MKT_NO_MEMORY;
    codec = (struct mkt_codec){.mode = MKT_CODEC_WRITE, .out = bytes, .end = codec.at};
    walk_rules(&codec, rules, count);
    *bytes_out = bytes;
    *length_out = (uint32_t)codec.at;
    return MKT_OK;
}

/* Appends it at *end; false if it is no text. */
static bool put_text(struct mkt_bytes bytes, char **end, const char **text_out)
{
    if (bytes.length > 0 && memchr(bytes.data, 0, bytes.length))
        return false;
    *text_out = *end;
    if (bytes.length > 0)
        memcpy(*end, bytes.data, bytes.length);
    (*end)[bytes.length] = '\0';
    *end += bytes.length + 1;
    return true;
}

/* Rules first, then their texts. */
static enum mkt_status read_rules(struct mkt_codec *codec, struct mkt_rule *rules, uint32_t count)
{
    char *end = (char *)(rules + count);
    for (uint32_t i = 0; i < count; i++) {
        struct rule_texts texts = {.pattern = {NULL, 0}};
        walk_rule(codec, &rules[i], &texts);
        if (codec->failed || !put_text(texts.pattern, &end, &rules[i].pattern) ||
            !put_text(texts.datasets, &end, &rules[i].datasets) ||
            !put_text(texts.reader, &end, &rules[i].reader))
            return MKT_PROTOCOL;
    }
    return codec->at == codec->end ? MKT_OK : MKT_PROTOCOL;
}

enum mkt_status mkt_rules_decode(struct mkt_bytes bytes, struct mkt_rule **rules_out,
                                 uint32_t *count_out)
{
    uint32_t count = 0;
    struct mkt_codec codec = {.mode = MKT_CODEC_READ, .in = bytes.data, .end = bytes.length};
    if (bytes.length > 0) /* empty bytes: no rules */
        mkt_codec_u32(&codec, &count);
    if (codec.failed || count > bytes.length / RULE_MIN_BYTES)
        return MKT_PROTOCOL;
    /* The texts of a rule are shorter than its record. */
    struct mkt_rule *rules = calloc(1, count * sizeof(*rules) + bytes.length + 1);
    if (rules == NULL)
        return MKT_NO_MEMORY;
    enum mkt_status status = read_rules(&codec, rules, count);
    if (status != MKT_OK) {
        free(rules);
        return status;
    }
    *rules_out = rules;
    *count_out = count;
    return MKT_OK;
}

/*
 * Stars match as little as they can and grow when what follows fails. Only the last star of each
 * kind has to be remembered: a later `**` can take whatever an earlier star could have taken, and a
 * `*` can't leave its component; so the time is at most pattern x text for each kind.
 */
static bool pattern_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *star_text = NULL;
    const char *deep = NULL, *deep_text = NULL;
    for (;;) {
        if (pattern[0] == '*' && pattern[1] == '*') {
            while (*pattern == '*')
                pattern++;
            deep = pattern;
            deep_text = text;
            star = NULL;
        } else if (*pattern == '*') {
            star = ++pattern;
            star_text = text;
        } else if (*text != '\0' && (*pattern == *text || (*pattern == '?' && *text != '/'))) {
            pattern++;
            text++;
        } else if (*text == '\0' && *pattern == '\0') {
            return true;
        } else if (star != NULL && *star_text != '\0' && *star_text != '/') {
            text = ++star_text;
            pattern = star;
        } else if (deep != NULL && *deep_text != '\0') {
            text = ++deep_text;
            pattern = deep;
            star = NULL;
        } else {
            return false;
        }
    }
}

bool mkt_rule_matches(const struct mkt_rule *rule, const char *path, const char **path_out)
{
    const char *slash = strrchr(path, '/');
    bool whole = strchr(rule->pattern, '/') != NULL || slash == NULL;
    const char *text = whole ? path : slash + 1;
    if (path_out != NULL)
        *path_out = text;
    return pattern_matches(rule->pattern, text);
}

char *mkt_rule_set(const char *pattern, size_t length, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t folder =
        slash != NULL && memchr(pattern, '/', length) == NULL ? (size_t)(slash + 1 - path) : 0;
    char *set = malloc(folder + length + 1), *end = set;
    if (set == NULL)
        return NULL;
    memcpy(set, path, folder);
    end += folder;
    for (size_t i = 0; i < length; i++)
        if (folder == 0 || pattern[i] != '*' || i == 0 || pattern[i - 1] != '*')
            *end++ = pattern[i]; /* `**` would reach into folders below */
    *end = '\0';
    return set;
}

const struct mkt_rule *mkt_rules_match(const struct mkt_rule *rules, uint32_t count,
                                       const char *path)
{
    for (uint32_t i = 0; i < count; i++)
        if (mkt_rule_matches(&rules[i], path, NULL))
            return &rules[i];
    return NULL;
}

bool mkt_rule_keeps_dataset(const struct mkt_rule *rule, const char *path)
{
    char pattern[MKT_DATASET_PATTERN_BYTES];
    const char *slash = strrchr(path, '/'), *at = rule->datasets, *end;
    for (; at != NULL && (end = strchr(at, '\n')) != NULL; at = end + 1) {
        size_t length = (size_t)(end - at) - 1;
        if (end == at || length >= sizeof(pattern))
            continue;
        memcpy(pattern, at + 1, length);
        pattern[length] = '\0';
        bool whole = strchr(pattern, '/') != NULL || slash == NULL;
        if (pattern_matches(pattern, whole ? path : slash + 1))
            return *at == 'M';
    }
    return false;
}

void mkt_rule_apply(struct mkt_rule *rule, const struct mkt_rule *found)
{
    if (found == NULL)
        return;
    rule->pattern = found->pattern;
    rule->wait_ms = found->wait_ms;
    if (found->mode != 0)
        rule->mode = found->mode;
    if (found->keep != 0)
        rule->keep = found->keep;
    if (found->writer_timeout_ms != 0)
        rule->writer_timeout_ms = found->writer_timeout_ms;
    if (found->publish != 0)
        rule->publish = found->publish;
    if (found->publish_close != 0)
        rule->publish_close = found->publish_close;
    if (found->durability != 0)
        rule->durability = found->durability;
    rule->priority = found->priority;
    rule->backup = found->backup;
    rule->pin = found->pin;
    rule->stage_in = found->stage_in;
    if (found->exit_wait_ms != 0)
        rule->exit_wait_ms = found->exit_wait_ms;
    rule->datasets = found->datasets;
    rule->consumed = found->consumed;
    rule->readers = found->readers;
    rule->queue = found->queue;
    rule->queue_timeout_ms = found->queue_timeout_ms;
    rule->end_after = found->end_after;
    rule->on_full = found->on_full;
    rule->deliver = found->deliver;
    rule->every = found->every;
    rule->reader = found->reader;
    rule->line = found->line;
}
