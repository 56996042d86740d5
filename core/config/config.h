/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * h5market.yaml: its resources, which are the daemon's, and its rules, which are the client's. The
 * daemon parses both its own file and the text that each client sends when it connects; nothing
 * here reads files. An unknown key or a value out of range is an error that names file and line.
 *
 * Pure; any thread.
 */
#ifndef MKT_CONFIG_CONFIG_H
#define MKT_CONFIG_CONFIG_H

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/wire/rules.h"
#include <stdio.h>

#define MKT_CONFIG_MAX_RULES     1000
#define MKT_CONFIG_FOLDERS_BYTES 4096       /* its end counts */
#define MKT_CONFIG_NEVER         UINT32_MAX /* of a duration that may be "never" */

enum mkt_numa {
    MKT_NUMA_AUTO, /* arenas belong to nodes where there are several */
    MKT_NUMA_OFF
};

struct mkt_config {
    /* resources */
    uint64_t memory_bytes;   /* 0: memory_percent counts */
    uint32_t memory_percent; /* of the node's memory or the tightest limit above the daemon */
    uint64_t arena_bytes;    /* 0: by the daemon */
    uint32_t numa;           /* enum mkt_numa */
    uint64_t journal_bytes;
    uint64_t scratch_bytes;
    uint32_t full_timeout_ms, writer_timeout_ms, join_timeout_ms, commit_timeout_ms;
    uint32_t idle_exit_ms, idle_trim_ms, drain_timeout_ms;
    uint32_t max_objects, max_writers, max_waiting, max_pieces, max_connections, max_readers;
    uint32_t reader_grace_ms;
    char ssd[MKT_CONFIG_FOLDERS_BYTES]; /* folders of the tier below memory; "": there is none */
    uint64_t ssd_bytes;                 /* 0: ssd_percent counts */
    uint32_t ssd_percent;               /* of what is free on the folders' file systems */
    uint32_t high_percent, low_percent; /* of `memory`: above the one pieces move out, until below
                                           the other */
    uint64_t ssd_least_bytes;
    uint32_t promote_after, ssd_queue_depth;
    uint64_t background_rate; /* of archivers, bytes a second; see market.h */
    uint32_t log_level;       /* enum mkt_log_level */
    /* rules; first match wins */
    struct mkt_rule *rules;
    uint32_t rules_count;
};

/* What holds without a file. */
void mkt_config_init(struct mkt_config *config_out);

/* Parses `length` bytes of YAML; an empty text is a configuration too. Keys that it doesn't set
 * have the values of `base`, or the defaults if that is NULL; rules are never taken from it. `path`
 * is for messages only ("h5market.yaml:7: unknown key 'kep' (did you mean 'keep'?)"). MKT_INVALID,
 * MKT_NO_MEMORY; then *config_out isn't written. Else the caller ends its life with
 * mkt_config_fini. */
enum mkt_status mkt_config_parse(const char *text, size_t length, const char *path,
                                 const struct mkt_config *base, struct mkt_config *config_out,
                                 struct mkt_error *error);
void mkt_config_fini(struct mkt_config *config);

/* The reference of all keys, in Markdown: docs/configuration.md. */
void mkt_config_write_reference(FILE *out);

/* "1 min 30 s" and "4 GiB": how values are shown. Return `text`. */
const char *mkt_config_show_duration(uint32_t ms, char *text, size_t capacity);
const char *mkt_config_show_size(uint64_t bytes, char *text, size_t capacity);

#endif
