/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/info.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/wire/messages.h"
#include "vol/callbacks.h"

#define MAX_WAIT_S 1e9
#define MAX_EVERY  1000000u

static const struct mkt_vol_info defaults = {.wait_ms = -1};

static bool parse_wait(const char *value, struct mkt_vol_info *info)
{
    char *end;
    double seconds = strtod(value, &end);
    if (end == value || *end || !(seconds >= 0) || seconds > MAX_WAIT_S)
        return false;
    info->wait_ms = (int64_t)ceil(seconds * 1000);
    return true;
}

static bool parse_version(const char *value, struct mkt_vol_info *info)
{
    char *end;
    errno = 0;
    unsigned long long version = strtoull(value, &end, 10);
    if (end == value || *end || errno || value[0] == '-' || version == 0)
        return false;
    info->version = version;
    return true;
}

static bool parse_after(const char *value, struct mkt_vol_info *info)
{
    info->after_start = true;
    return strcmp(value, "start") == 0;
}

static bool parse_deliver(const char *value, struct mkt_vol_info *info)
{
    static const char *const words[] = {"", "latest", "next", "all"};
    char *end;
    for (uint32_t i = MKT_DELIVER_LATEST; i < MKT_DELIVER_EVERY; i++) {
        if (strcmp(value, words[i]) == 0) {
            info->deliver = i;
            return true;
        }
    }
    if (strncmp(value, "every:", 6) != 0 || value[6] < '1' || value[6] > '9')
        return false;
    unsigned long every = strtoul(value + 6, &end, 10);
    if (*end || every > MAX_EVERY)
        return false;
    info->deliver = MKT_DELIVER_EVERY;
    info->every = (uint32_t)every;
    return true;
}

static bool parse_reader(const char *value, struct mkt_vol_info *info)
{
    free(info->reader);
    size_t length = strlen(value);
    info->reader = length > 0 && length < MKT_READER_NAME_BYTES ? strdup(value) : NULL;
    return info->reader != NULL;
}

static bool parse_config(const char *value, struct mkt_vol_info *info)
{
    free(info->config);
    info->config = value[0] ? strdup(value) : NULL;
    return info->config != NULL;
}

static const struct {
    const char *name;
    const char *shape;
    bool (*parse)(const char *value, struct mkt_vol_info *info);
} keys[] = {
    {"wait", "seconds, 0 or more", parse_wait},
    {"version", "a number from 1", parse_version},
    {"after", "`start`", parse_after},
    {"deliver", "latest, next, all or every:N", parse_deliver},
    {"reader", "a name of 1 to 63 characters", parse_reader},
    {"config", "a path", parse_config},
};

/* One word, NUL-terminated and ours to cut. */
static bool parse_word(char *word, struct mkt_vol_info *info, char *reason, size_t capacity)
{
    char *value = strchr(word, '=');
    if (value)
        *value++ = '\0';
    for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (strcmp(word, keys[i].name) != 0)
            continue;
        if (value && keys[i].parse(value, info))
            return true;
        snprintf(reason, capacity, "`%s` needs a value: %s", word, keys[i].shape);
        return false;
    }
    snprintf(
        reason, capacity,
        "`%s` is unknown; known are wait=, version=, after=, deliver=, reader= and config=", word);
    return false;
}

bool mkt_vol_info_parse(const char *string, struct mkt_vol_info *info_out, char *reason,
                        size_t capacity)
{
    struct mkt_vol_info info = defaults;
    char *copy = strdup(string ? string : "");
    if (!copy) {
        snprintf(reason, capacity, "out of memory");
        return false;
    }
    bool good = true;
    char *rest = NULL;
    for (char *word = strtok_r(copy, " \t\n", &rest); word && good;
         word = strtok_r(NULL, " \t\n", &rest))
        good = parse_word(word, &info, reason, capacity);
    free(copy);
    if (good)
        *info_out = info;
    else {
        free(info.config);
        free(info.reader);
    }
    return good;
}

void *mkt_vol_info_copy(const void *info)
{
    if (!info)
        return NULL;
    struct mkt_vol_info *copy = malloc(sizeof(*copy));
    if (!copy)
        return NULL;
    *copy = *(const struct mkt_vol_info *)info;
    const struct mkt_vol_info *from = info;
    copy->config = from->config ? strdup(from->config) : NULL;
    copy->wrong = from->wrong ? strdup(from->wrong) : NULL;
    copy->reader = from->reader ? strdup(from->reader) : NULL;
    if ((from->reader && !copy->reader) || (from->config && !copy->config) ||
        (from->wrong && !copy->wrong)) {
        mkt_vol_info_free(copy);
        return NULL;
    }
    return copy;
}

static int compare_numbers(int64_t left, int64_t right)
{
    return (left > right) - (left < right);
}

herr_t mkt_vol_info_cmp(int *order_out, const void *left, const void *right)
{
    const struct mkt_vol_info *a = left ? left : &defaults;
    const struct mkt_vol_info *b = right ? right : &defaults;
    int order = compare_numbers(a->wait_ms, b->wait_ms);
    if (!order)
        order = (a->version > b->version) - (a->version < b->version);
    if (!order)
        order = compare_numbers(a->after_start, b->after_start);
    if (!order)
        order = compare_numbers(a->deliver, b->deliver);
    if (!order)
        order = compare_numbers(a->every, b->every);
    if (!order)
        order = strcmp(a->reader ? a->reader : "", b->reader ? b->reader : "");
    if (!order)
        order = strcmp(a->config ? a->config : "", b->config ? b->config : "");
    if (!order)
        order = strcmp(a->wrong ? a->wrong : "", b->wrong ? b->wrong : "");
    *order_out = order;
    return 0;
}

herr_t mkt_vol_info_free(void *info)
{
    struct mkt_vol_info *mine = info;
    if (mine) {
        free(mine->config);
        free(mine->reader);
        free(mine->wrong);
    }
    free(mine);
    return 0;
}

/* HDF5 frees the string with free. */
herr_t mkt_vol_info_to_str(const void *info, char **string_out)
{
    const struct mkt_vol_info *from = info ? info : &defaults;
    static const char *const delivers[] = {"", " deliver=latest", " deliver=next", " deliver=all"};
    char wait[48] = "", version[48] = "", every[48] = "";
    if (from->wait_ms >= 0)
        snprintf(wait, sizeof(wait), " wait=%" PRId64 ".%03d", from->wait_ms / 1000,
                 (int)(from->wait_ms % 1000));
    if (from->version)
        snprintf(version, sizeof(version), " version=%" PRIu64, from->version);
    if (from->deliver == MKT_DELIVER_EVERY)
        snprintf(every, sizeof(every), " deliver=every:%" PRIu32, from->every);
    char *string = NULL;
    if (asprintf(&string, "%s%s%s%s%s%s%s%s", wait, version,
                 from->after_start ? " after=start" : "",
                 from->deliver == MKT_DELIVER_EVERY ? every : delivers[from->deliver],
                 from->reader ? " reader=" : "", from->reader ? from->reader : "",
                 from->config ? " config=" : "", from->config ? from->config : "") < 0)
        return -1;
    if (string[0] == ' ')
        memmove(string, string + 1, strlen(string));
    *string_out = string;
    return 0;
}

/* A string that isn't understood is no error here: HDF5 couldn't set its default connector then,
 * and all that follows would run on native without a word. Each open says it instead. */
herr_t mkt_vol_info_from_str(const char *string, void **info_out)
{
    char reason[512];
    struct mkt_vol_info *info = malloc(sizeof(*info));
    if (!info)
        return -1;
    if (!mkt_vol_info_parse(string, info, reason, sizeof(reason))) {
        mkt_log_error("vol", "connector string `%s`: %s", string ? string : "", reason);
        *info = defaults;
        if (asprintf(&info->wrong, "connector string `%s`: %s", string ? string : "", reason) < 0) {
            free(info);
            return -1;
        }
    }
    *info_out = info;
    return 0;
}
