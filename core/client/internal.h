/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared inside core/client only.
 */
#ifndef MKT_CLIENT_INTERNAL_H
#define MKT_CLIENT_INTERNAL_H

#include "core/client/arena.h"
#include "core/client/client.h"
#include "core/client/link.h"

/* What was granted and isn't used yet: small reservations are cut from it. */
struct mkt_pool {
    struct mkt_extent *list; /* the rest of each grant; the last is used first */
    uint32_t count, capacity;
    uint64_t free_bytes;
};

/* A file that is open here. */
struct mkt_client_file {
    uint64_t file;
    bool writable;
};

struct mkt_client {
    uint64_t process; /* that connected */
    struct mkt_link link;
    char *directory;
    uint8_t daemon[MKT_ID_BYTES], market[MKT_ID_BYTES];
    char host[64];
    struct mkt_rule defaults; /* of what a rule leaves open */
    struct mkt_rule *rules;
    uint32_t rules_count;
    uint32_t full_timeout_ms;
    bool on_demand;        /* the daemon: see mkt_client_options */
    uint64_t memory_bytes; /* the market's limit */
    uint64_t started_ms; /* when it connected, by the node's monotonic clock, which the daemon reads
                            too */
    struct mkt_mapped_arenas arenas;
    struct mkt_pool pool;
    struct mkt_client_file *files;
    uint32_t files_count, files_capacity;
};

/* MKT_OK if calls make sense: not a forked child, not lost. */
enum mkt_status mkt_client_check(struct mkt_client *client, struct mkt_error *error);

/* This host's name, for people. */
void mkt_client_host(char *host_out, size_t capacity);

/* ---- files ---- */
enum mkt_status mkt_client_file_enter(struct mkt_client *client, uint64_t file, bool writable,
                                      struct mkt_error *error);
void mkt_client_file_leave(struct mkt_client *client, uint64_t file);
/* True if `file` is the last writable one. */
bool mkt_client_file_is_last_writer(const struct mkt_client *client, uint64_t file);

/* ---- grants.c ---- */
/* For struct mkt_wait: says to the user why it waits. */
void mkt_client_told(void *context, const struct mkt_bytes *text);
/* Takes over a grant. Failure to note it gives it back. */
void mkt_pool_add(struct mkt_client *client, const struct mkt_extent *grant);
/* Queues what gives everything unused back. */
void mkt_pool_release(struct mkt_client *client);
void mkt_pool_fini(struct mkt_pool *pool);

#endif
