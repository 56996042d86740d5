/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules of h5market.yaml as the daemon returns them to a client: by pattern, first match wins.
 * Pure; any thread.
 */
#ifndef MKT_WIRE_RULES_H
#define MKT_WIRE_RULES_H

#include "core/wire/messages.h"

enum mkt_publish {
    MKT_PUBLISH_CLOSE = 1,
    MKT_PUBLISH_FLUSH
};

/* In a batch step a program's exit waits for its files, and bears saves that fail for so long. */
#define MKT_EXIT_WAIT_MS          60000u     /* the default */
#define MKT_EXIT_WAIT_NEVER       UINT32_MAX /* it doesn't wait */
#define MKT_DATASET_PATTERN_BYTES 1024       /* its end counts */

/* A pattern without a slash matches the last component of a path, one with a slash the absolute
 * path;
 * `*` and `?` don't match a slash, `**` does. */
struct mkt_rule {
    const char *pattern;
    uint32_t mode; /* enum mkt_mode; 0: the default */
    uint32_t keep; /* 0: the default */
    uint32_t wait_ms;
    uint32_t writer_timeout_ms; /* 0: the default */
    uint32_t publish;           /* enum mkt_publish; 0: the default */
    uint32_t publish_close; /* `publish: close N`: versions appear from the Nth close on; 0 = 1 */
    uint32_t durability;    /* enum mkt_durability; 0: the default */
    uint32_t priority;      /* of its saves, the highest first */
    uint32_t backup;        /* 1: saved at the market's end, whatever the mode */
    uint32_t pin;           /* 1: it stays in memory where it would move to a tier below */
    uint32_t stage_in;      /* 1: a real file is loaded by its first reader */
    uint32_t exit_wait_ms;  /* see MKT_EXIT_WAIT_NEVER; 0: the default */
    /* For datasets in the file: "MPATTERN\n" and "BPATTERN\n", mode memory and both, in order;
     * NULL or empty: all are of mode both. */
    const char *datasets;
    /* Of a stream, as in struct mkt_stream_rule; all 0: the default. */
    uint32_t consumed; /* 1: `until: consumed` */
    uint32_t readers, queue, queue_timeout_ms, end_after;
    uint32_t on_full; /* enum mkt_on_full; 0: the default */
    uint32_t deliver, every;
    const char *reader; /* NULL or empty: the program's name */
    uint32_t line;      /* of the configuration; not in the encoded form */
};

/* Encodes `count` rules; *bytes_out is malloc'ed and the caller's. */
enum mkt_status mkt_rules_encode(const struct mkt_rule *rules, uint32_t count, void **bytes_out,
                                 uint32_t *length_out);
/* Decodes into one malloc'ed block that the caller frees (patterns point into it). MKT_PROTOCOL. */
enum mkt_status mkt_rules_decode(struct mkt_bytes bytes, struct mkt_rule **rules_out,
                                 uint32_t *count_out);
/* True if the rule is for the absolute path: `*path_out` is what of it the pattern is for, the path
 * or its last component. path_out may be NULL. */
bool mkt_rule_matches(const struct mkt_rule *rule, const char *path, const char **path_out);
/* Whose files count together with the one at the absolute path, under the rule that matches it: the
 * pattern, or, since one without a slash is for every folder's files, that in the path's folder.
 * malloc'ed; NULL: no memory. */
char *mkt_rule_set(const char *pattern, size_t length, const char *path);
/* True if a dataset, by its absolute path in the file, is to be in memory only. */
bool mkt_rule_keeps_dataset(const struct mkt_rule *rule, const char *path);
/* What `found` (NULL: no rule) sets takes the place of the defaults in *rule. */
void mkt_rule_apply(struct mkt_rule *rule, const struct mkt_rule *found);
/* The first rule that matches the absolute path, or NULL. */
const struct mkt_rule *mkt_rules_match(const struct mkt_rule *rules, uint32_t count,
                                       const char *path);

#endif
