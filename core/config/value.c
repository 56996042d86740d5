/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/config/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit duration_units[] = {{"", 1000},      {"ms", 1},      {"s", 1000},
                                             {"m", 60000},    {"min", 60000}, {"h", 3600000},
                                             {"d", 86400000}, {NULL, 0}};
static const struct unit size_units[] = {{"", 1},
                                         {"B", 1},
                                         {"K", UINT64_C(1) << 10},
                                         {"KiB", UINT64_C(1) << 10},
                                         {"KB", 1000},
                                         {"M", UINT64_C(1) << 20},
                                         {"MiB", UINT64_C(1) << 20},
                                         {"MB", 1000000},
                                         {"G", UINT64_C(1) << 30},
                                         {"GiB", UINT64_C(1) << 30},
                                         {"GB", 1000000000},
                                         {"T", UINT64_C(1) << 40},
                                         {"TiB", UINT64_C(1) << 40},
                                         {"TB", UINT64_C(1000000000000)},
                                         {NULL, 0}};
static const struct unit count_units[] = {{"", 1}, {NULL, 0}};

const char *mkt_schema_notation(enum mkt_value_kind kind)
{
    switch (kind) {
    case MKT_VALUE_DURATION:
        return "a duration such as 60, 60s, 5m or 250ms";
    case MKT_VALUE_DURATION_OR_NEVER:
        return "a duration such as 60, 60s or 5m, or never";
    case MKT_VALUE_SIZE:
        return "a size such as 512MiB or 4GiB";
    case MKT_VALUE_SIZE_OR_PERCENT:
        return "a size such as 4GiB, or a percentage such as 50%";
    case MKT_VALUE_COUNT:
        return "a whole number";
    case MKT_VALUE_LEVEL:
        return "error, warning, info or debug";
    case MKT_VALUE_MODE:
        return "both, memory or file";
    case MKT_VALUE_PUBLISH:
        return "close, flush, or close and a number such as close 2";
    case MKT_VALUE_BACKGROUND:
        return "full-delay, none, or rate and a size such as rate 200MiB";
    case MKT_VALUE_DURABILITY:
        return "async, close or none";
    case MKT_VALUE_YES_NO:
        return "true or false";
    case MKT_VALUE_NUMA:
        return "auto or off";
    case MKT_VALUE_FOLDERS:
        return "an absolute path, or several with colons between";
    case MKT_VALUE_UNTIL:
        return "consumed";
    case MKT_VALUE_END:
        return "a whole number, or exit";
    case MKT_VALUE_DELIVER:
        return "latest, next, all, or every and a number such as every 5";
    case MKT_VALUE_ON_FULL:
        return "wait, fail, drop-oldest or file";
    case MKT_VALUE_NAME:
        return "a name of 1 to 63 characters without blanks";
    case MKT_VALUE_PATTERN:
        return "a pattern of 1 to 4096 characters";
    case MKT_VALUE_DATASETS:
        return "a mapping from patterns to memory or both, such as {\"/diagnostics/**\": memory}";
    }
    return "";
}

/* A whole number with a unit. False for anything else, and beyond 64 bits. */
static bool parse_quantity(const char *value, const struct unit *units, uint64_t *quantity_out)
{
    uint64_t number = 0;
    const char *at = value;

    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
            return false;
    if (at == value)
        return false;
    while (*at == ' ')
        at++;
    for (; units->name; units++)
        if (strcmp(at, units->name) == 0)
            return !__builtin_mul_overflow(number, units->factor, quantity_out);
    return false;
}

const char *mkt_config_show_duration(uint32_t ms, char *text, size_t capacity)
{
    if (ms == MKT_CONFIG_NEVER)
        snprintf(text, capacity, "never");
    else if (ms % 1000 != 0)
        snprintf(text, capacity, "%" PRIu32 " ms", ms);
    else if (ms % 60000 != 0 || ms == 0)
        snprintf(text, capacity, "%" PRIu32 " s", ms / 1000);
    else
        snprintf(text, capacity, "%" PRIu32 " min", ms / 60000);
    return text;
}

const char *mkt_config_show_size(uint64_t bytes, char *text, size_t capacity)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double shown = (double)bytes;
    size_t unit = 0;

    while (shown >= 1024 && unit < sizeof(units) / sizeof(units[0]) - 1) {
        shown /= 1024;
        unit++;
    }
    snprintf(text, capacity, shown == (double)(uint64_t)shown ? "%.0f %s" : "%.1f %s", shown,
             units[unit]);
    return text;
}

static void show_bound(enum mkt_value_kind kind, uint64_t bound, char *text, size_t capacity)
{
    if (kind == MKT_VALUE_DURATION || kind == MKT_VALUE_DURATION_OR_NEVER)
        mkt_config_show_duration((uint32_t)bound, text, capacity);
    else if (kind == MKT_VALUE_SIZE || kind == MKT_VALUE_SIZE_OR_PERCENT)
        mkt_config_show_size(bound, text, capacity);
    else
        snprintf(text, capacity, "%" PRIu64, bound);
}

static enum mkt_status bad_value(const struct mkt_schema_field *field, const char *value,
                                 struct mkt_error *error)
{
    return mkt_error_set(error, MKT_INVALID, "'%.80s' isn't a value of '%s': it takes %s", value,
                         field->key, mkt_schema_notation(field->kind));
}

static enum mkt_status check_range(const struct mkt_schema_field *field, const char *value,
                                   uint64_t quantity, struct mkt_error *error)
{
    char low[32], high[32];

    if (quantity >= field->minimum && quantity <= field->maximum)
        return MKT_OK;
    show_bound(field->kind, field->minimum, low, sizeof(low));
    show_bound(field->kind, field->maximum, high, sizeof(high));
    return mkt_error_set(error, MKT_INVALID, "'%.80s' is out of range for '%s': it takes %s to %s",
                         value, field->key, low, high);
}

static enum mkt_status set_quantity(const struct mkt_schema_field *field, const char *value,
                                    const struct unit *units, uint64_t *quantity_out,
                                    struct mkt_error *error)
{
    if (!parse_quantity(value, units, quantity_out))
        return bad_value(field, value, error);
    return check_range(field, value, *quantity_out, error);
}

static enum mkt_status set_number32(const struct mkt_schema_field *field, const char *value,
                                    const struct unit *units, uint32_t *number_out,
                                    struct mkt_error *error)
{
    uint64_t quantity = 0;
    enum mkt_status status = set_quantity(field, value, units, &quantity, error);

    if (status == MKT_OK)
        *number_out = (uint32_t)quantity;
    return status;
}

static enum mkt_status set_size_or_percent(const struct mkt_schema_field *field, const char *value,
                                           void *at, struct mkt_error *error)
{
    static const struct unit percent[] = {{"%", 1}, {NULL, 0}};
    uint64_t quantity;
    struct pair {
        uint64_t bytes;
        uint32_t percent; /* what follows isn't the pair's: no assignment as a whole */
    } *pair = at;

    if (parse_quantity(value, percent, &quantity)) {
        if (quantity < 1 || quantity > 100)
            return mkt_error_set(error, MKT_INVALID,
                                 "'%.80s' is out of range for '%s': it takes 1%% to 100%%", value,
                                 field->key);
        pair->bytes = 0;
        pair->percent = (uint32_t)quantity;
        return MKT_OK;
    }
    enum mkt_status status = set_quantity(field, value, size_units, &quantity, error);
    if (status == MKT_OK) {
        pair->bytes = quantity;
        pair->percent = 0;
    }
    return status;
}

struct word {
    const char *word;
    uint32_t value;
};

static const struct word modes[] = {
    {"both", MKT_MODE_BOTH}, {"memory", MKT_MODE_MEMORY}, {"file", MKT_MODE_FILE}, {NULL, 0}};
static const struct word durabilities[] = {{"async", MKT_DURABILITY_ASYNC},
                                           {"close", MKT_DURABILITY_CLOSE},
                                           {"none", MKT_DURABILITY_NONE},
                                           {NULL, 0}};
static const struct word numas[] = {{"auto", MKT_NUMA_AUTO}, {"off", MKT_NUMA_OFF}, {NULL, 0}};
static const struct word on_full[] = {{"wait", MKT_FULL_WAIT},
                                      {"fail", MKT_FULL_FAIL},
                                      {"drop-oldest", MKT_FULL_DROP},
                                      {"file", MKT_FULL_FILE},
                                      {NULL, 0}};
static const struct word yes_no[] = {{"true", 1}, {"false", 0}, {"yes", 1}, {"no", 0}, {NULL, 0}};

static enum mkt_status set_word(const struct mkt_schema_field *field, const char *value,
                                const struct word *words, uint32_t *value_out,
                                struct mkt_error *error)
{
    for (; words->word; words++) {
        if (strcmp(value, words->word) == 0) {
            *value_out = words->value;
            return MKT_OK;
        }
    }
    return bad_value(field, value, error);
}

static enum mkt_status set_publish(const struct mkt_schema_field *field, const char *value,
                                   uint32_t *publish_out, struct mkt_error *error)
{
    struct pair {
        uint32_t publish, closes;
    } *pair = (struct pair *)publish_out;
    uint64_t closes = 0;

    if (strcmp(value, "flush") == 0)
        *pair = (struct pair){.publish = MKT_PUBLISH_FLUSH};
    else if (strcmp(value, "close") == 0)
        *pair = (struct pair){.publish = MKT_PUBLISH_CLOSE};
    else if (strncmp(value, "close ", 6) == 0 && parse_quantity(value + 6, count_units, &closes)) {
        enum mkt_status status = check_range(field, value, closes, error);
        if (status != MKT_OK)
            return status;
        *pair = (struct pair){.publish = MKT_PUBLISH_CLOSE, .closes = (uint32_t)closes};
    } else
        return bad_value(field, value, error);
    return MKT_OK;
}

static enum mkt_status set_deliver(const struct mkt_schema_field *field, const char *value,
                                   uint32_t *deliver_out, struct mkt_error *error)
{
    static const struct word words[] = {{"latest", MKT_DELIVER_LATEST},
                                        {"next", MKT_DELIVER_NEXT},
                                        {"all", MKT_DELIVER_ALL},
                                        {NULL, 0}};
    struct pair {
        uint32_t deliver, every;
    } *pair = (struct pair *)deliver_out;
    uint64_t every = 0;

    if (strncmp(value, "every ", 6) == 0 && parse_quantity(value + 6, count_units, &every)) {
        enum mkt_status status = check_range(field, value, every, error);
        if (status == MKT_OK)
            *pair = (struct pair){.deliver = MKT_DELIVER_EVERY, .every = (uint32_t)every};
        return status;
    }
    pair->every = 0;
    return set_word(field, value, words, &pair->deliver, error);
}

static enum mkt_status set_end(const struct mkt_schema_field *field, const char *value,
                               uint32_t *end_out, struct mkt_error *error)
{
    if (strcmp(value, "exit") != 0)
        return set_number32(field, value, count_units, end_out, error);
    *end_out = MKT_END_AT_EXIT;
    return MKT_OK;
}

static enum mkt_status set_background(const struct mkt_schema_field *field, const char *value,
                                      uint64_t *rate_out, struct mkt_error *error)
{
    if (strcmp(value, "full-delay") == 0)
        *rate_out = 0;
    else if (strcmp(value, "none") == 0)
        *rate_out = UINT64_MAX;
    else if (strncmp(value, "rate ", 5) == 0)
        return set_quantity(field, value + 5, size_units, rate_out, error);
    else
        return bad_value(field, value, error);
    return MKT_OK;
}

static enum mkt_status set_pattern(const struct mkt_schema_field *field, const char *value,
                                   char **pattern_out, struct mkt_error *error)
{
    size_t length = strlen(value);
    char *copy;

    if (length < field->minimum || length > field->maximum)
        return mkt_error_set(error, MKT_INVALID, "'%s' takes %s", field->key,
                             mkt_schema_notation(field->kind));
    copy = strdup(value);
    if (!copy)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    free(*pattern_out);
    *pattern_out = copy;
    return MKT_OK;
}

static enum mkt_status set_folders(const struct mkt_schema_field *field, const char *value,
                                   char *folders_out, struct mkt_error *error)
{
    const char *end;

    for (const char *folder = value;; folder = end + 1) {
        end = strchrnul(folder, ':');
        if (*folder != '/')
            return bad_value(field, value, error);
        if (!*end)
            break;
    }
    if (strlen(value) >= MKT_CONFIG_FOLDERS_BYTES)
        return mkt_error_set(error, MKT_INVALID, "'%s' takes paths of together at most %d bytes",
                             field->key, MKT_CONFIG_FOLDERS_BYTES - 1);
    strcpy(folders_out, value);
    return MKT_OK;
}

static enum mkt_status set_name(const struct mkt_schema_field *field, const char *value,
                                char **name_out, struct mkt_error *error)
{
    if (strpbrk(value, " \t\n"))
        return bad_value(field, value, error);
    return set_pattern(field, value, name_out, error);
}

static enum mkt_status set_level(const struct mkt_schema_field *field, const char *value,
                                 uint32_t *level_out, struct mkt_error *error)
{
    enum mkt_log_level level;

    if (mkt_log_level_parse(value, &level) != MKT_OK)
        return bad_value(field, value, error);
    *level_out = (uint32_t)level;
    return MKT_OK;
}

enum mkt_status mkt_schema_set(const struct mkt_schema_field *field, const char *value, void *base,
                               struct mkt_error *error)
{
    void *at = (char *)base + field->offset;

    switch (field->kind) {
    case MKT_VALUE_DURATION_OR_NEVER:
        if (strcmp(value, "never") == 0) {
            *(uint32_t *)at = MKT_CONFIG_NEVER;
            return MKT_OK;
        }
        return set_number32(field, value, duration_units, at, error);
    case MKT_VALUE_DURATION:
        return set_number32(field, value, duration_units, at, error);
    case MKT_VALUE_SIZE:
        return set_quantity(field, value, size_units, at, error);
    case MKT_VALUE_SIZE_OR_PERCENT:
        return set_size_or_percent(field, value, at, error);
    case MKT_VALUE_COUNT:
        return set_number32(field, value, count_units, at, error);
    case MKT_VALUE_LEVEL:
        return set_level(field, value, at, error);
    case MKT_VALUE_MODE:
        return set_word(field, value, modes, at, error);
    case MKT_VALUE_BACKGROUND:
        return set_background(field, value, at, error);
    case MKT_VALUE_DURABILITY:
        return set_word(field, value, durabilities, at, error);
    case MKT_VALUE_YES_NO:
        return set_word(field, value, yes_no, at, error);
    case MKT_VALUE_NUMA:
        return set_word(field, value, numas, at, error);
    case MKT_VALUE_PUBLISH:
        return set_publish(field, value, at, error);
    case MKT_VALUE_FOLDERS:
        return set_folders(field, value, at, error);
    case MKT_VALUE_UNTIL:
        return set_word(field, value, (const struct word[]){{"consumed", 1}, {NULL, 0}}, at, error);
    case MKT_VALUE_END:
        return set_end(field, value, at, error);
    case MKT_VALUE_DELIVER:
        return set_deliver(field, value, at, error);
    case MKT_VALUE_ON_FULL:
        return set_word(field, value, on_full, at, error);
    case MKT_VALUE_NAME:
        return set_name(field, value, at, error);
    case MKT_VALUE_PATTERN:
        return set_pattern(field, value, at, error);
    case MKT_VALUE_DATASETS:
        return bad_value(field, value, error);
    }
    return MKT_INVALID;
}

enum mkt_status mkt_schema_add_dataset(const struct mkt_schema_field *field, const char *pattern,
                                       const char *mode, const char **datasets,
                                       struct mkt_error *error)
{
    size_t length = strlen(pattern), before = *datasets ? strlen(*datasets) : 0;
    bool memory = strcmp(mode, "memory") == 0;
    char *larger;

    if (!memory && strcmp(mode, "both") != 0)
        return mkt_error_set(error, MKT_INVALID, "'%.80s' isn't a mode of datasets: memory or both",
                             mode);
    if (length < field->minimum || length > field->maximum || strchr(pattern, '\n'))
        return mkt_error_set(error, MKT_INVALID,
                             "a pattern of '%s' has 1 to %" PRIu64 " characters, in one line",
                             field->key, field->maximum);
    larger = realloc((char *)*datasets, before + length + 3);
    if (!larger)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    larger[before] = memory ? 'M' : 'B';
    memcpy(larger + before + 1, pattern, length);
    memcpy(larger + before + 1 + length, "\n", 2);
    *datasets = larger;
    return MKT_OK;
}

static const char *word_of(const struct word *words, uint32_t value)
{
    for (; words->word; words++)
        if (words->value == value)
            return words->word;
    return "";
}

/* "PATTERN: memory, PATTERN: both" */
static const char *show_datasets(const char *datasets, char *text, size_t capacity)
{
    size_t at = 0;
    const char *end;

    for (; datasets && (end = strchr(datasets, '\n')); datasets = end + 1) {
        int length =
            snprintf(text + at, capacity - at, "%s%.*s: %s", at ? ", " : "",
                     (int)(end - datasets - 1), datasets + 1, *datasets == 'M' ? "memory" : "both");
        if (length < 0 || (size_t)length >= capacity - at)
            break;
        at += (size_t)length;
    }
    return text;
}

static const char *show_deliver(const uint32_t *deliver, char *text, size_t capacity)
{
    static const char *const words[] = {"", "latest", "next", "all"};

    if (deliver[0] < MKT_DELIVER_EVERY)
        return words[deliver[0]];
    snprintf(text, capacity, "every %" PRIu32, deliver[1]);
    return text;
}

static const char *show_publish(const uint32_t *publish, char *text, size_t capacity)
{
    if (publish[0] == MKT_PUBLISH_FLUSH)
        return "flush";
    if (publish[0] == 0 || publish[1] == 0)
        return publish[0] == 0 ? "" : "close";
    snprintf(text, capacity, "close %" PRIu32, publish[1]);
    return text;
}

const char *mkt_schema_show(const struct mkt_schema_field *field, const void *base, char *text,
                            size_t capacity)
{
    const void *at = (const char *)base + field->offset;
    uint32_t value = 0;

    text[0] = '\0';
    memcpy(&value, at, sizeof(value));
    switch (field->kind) {
    case MKT_VALUE_DURATION:
    case MKT_VALUE_DURATION_OR_NEVER:
        return value ? mkt_config_show_duration(value, text, capacity) : "";
    case MKT_VALUE_COUNT:
        if (value)
            snprintf(text, capacity, "%" PRIu32, value);
        return text;
    case MKT_VALUE_MODE:
        return word_of(modes, value);
    case MKT_VALUE_DURABILITY:
        return word_of(durabilities, value);
    case MKT_VALUE_ON_FULL:
        return word_of(on_full, value);
    case MKT_VALUE_YES_NO:
        return value ? "true" : "";
    case MKT_VALUE_PUBLISH:
        return show_publish(at, text, capacity);
    case MKT_VALUE_UNTIL:
        return value ? "consumed" : "";
    case MKT_VALUE_END:
        if (value && value != MKT_END_AT_EXIT)
            snprintf(text, capacity, "%" PRIu32, value);
        return value == MKT_END_AT_EXIT ? "exit" : text;
    case MKT_VALUE_DELIVER:
        return show_deliver(at, text, capacity);
    case MKT_VALUE_NAME:
    case MKT_VALUE_PATTERN:
        return *(char *const *)at ? *(char *const *)at : "";
    case MKT_VALUE_DATASETS:
        return show_datasets(*(char *const *)at, text, capacity);
    case MKT_VALUE_SIZE:
    case MKT_VALUE_SIZE_OR_PERCENT:
    case MKT_VALUE_LEVEL:
    case MKT_VALUE_NUMA:
    case MKT_VALUE_FOLDERS:
    case MKT_VALUE_BACKGROUND:
        break; /* of resources, which h5market stat shows */
    }
    return text;
}
