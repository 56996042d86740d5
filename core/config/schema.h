/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one table of all keys: what parses them, checks them and documents them. Pure; any thread.
 */
#ifndef MKT_CONFIG_SCHEMA_H
#define MKT_CONFIG_SCHEMA_H

#include "core/config/config.h"

enum mkt_value_kind {
    MKT_VALUE_DURATION,          /* uint32_t milliseconds */
    MKT_VALUE_DURATION_OR_NEVER, /* the same, MKT_CONFIG_NEVER for "never" */
    MKT_VALUE_SIZE,              /* uint64_t bytes */
    MKT_VALUE_SIZE_OR_PERCENT, /* uint64_t bytes, followed by uint32_t percent; one of both is 0 */
    MKT_VALUE_COUNT,           /* uint32_t */
    MKT_VALUE_LEVEL,           /* uint32_t: enum mkt_log_level */
    MKT_VALUE_MODE,            /* uint32_t: enum mkt_mode */
    MKT_VALUE_PUBLISH,         /* uint32_t: enum mkt_publish, followed by uint32_t closes */
    MKT_VALUE_BACKGROUND,      /* uint64_t: bytes a second, 0 to yield, UINT64_MAX for no limit */
    MKT_VALUE_DURABILITY,      /* uint32_t: enum mkt_durability */
    MKT_VALUE_YES_NO,          /* uint32_t: 1 or 0 */
    MKT_VALUE_NUMA,            /* uint32_t: enum mkt_numa */
    MKT_VALUE_FOLDERS,         /* char[MKT_CONFIG_FOLDERS_BYTES]: absolute paths between colons */
    MKT_VALUE_UNTIL,           /* uint32_t: 1 for `consumed` */
    MKT_VALUE_END,             /* uint32_t: a number, or MKT_END_AT_EXIT */
    MKT_VALUE_DELIVER,         /* uint32_t: enum mkt_deliver, followed by uint32_t every */
    MKT_VALUE_ON_FULL,         /* uint32_t: enum mkt_on_full */
    MKT_VALUE_NAME,            /* const char *, malloc'ed */
    MKT_VALUE_PATTERN,         /* const char *, malloc'ed */
    MKT_VALUE_DATASETS         /* the same, as in struct mkt_rule; a mapping, set by parse.c */
};

struct mkt_schema_field {
    const char *key;
    enum mkt_value_kind kind;
    size_t offset;
    uint64_t minimum, maximum; /* in the unit of the kind */
    bool required;
    bool of_files;        /* means something also in a rule with `mode: file` */
    const char *standard; /* the default, as one would write it; NULL: none, the structure's zero */
    const char *standard_text; /* what the reference says instead; may be NULL */
    const char *help;
};

struct mkt_schema_table {
    const char *what; /* of a message: "a rule of files" */
    const struct mkt_schema_field *fields;
    size_t fields_count;
};

extern const struct mkt_schema_table mkt_schema_resources; /* into struct mkt_config */
extern const struct mkt_schema_table mkt_schema_rule;      /* into struct mkt_rule */
#define MKT_SCHEMA_RULES_KEY "files"

/* Parses a value into the structure at `base`. MKT_INVALID with a text without file and line;
 * MKT_NO_MEMORY. */
enum mkt_status mkt_schema_set(const struct mkt_schema_field *field, const char *value, void *base,
                               struct mkt_error *error);

/* Appends a rule for datasets; the same failures. */
enum mkt_status mkt_schema_add_dataset(const struct mkt_schema_field *field, const char *pattern,
                                       const char *mode, const char **datasets,
                                       struct mkt_error *error);

/* The value in the structure at `base`, as one would write it; "" where it is zero, so that the
 * default holds. Returns `text`. */
const char *mkt_schema_show(const struct mkt_schema_field *field, const void *base, char *text,
                            size_t capacity);

/* The kind's notation, for messages and the reference: "a duration such as 60, 60s or 5m". */
const char *mkt_schema_notation(enum mkt_value_kind kind);

#endif
