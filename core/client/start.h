/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting a daemon that takes nothing from its starter. Internal to core/client.
 */
#ifndef MKT_CLIENT_START_H
#define MKT_CLIENT_START_H

#include "core/client/link.h"

struct mkt_start {
    const char *directory, *daemon_path;
    const char *config_path; /* NULL: none */
    bool on_demand;
    uint64_t deadline_ms;
};

/* Connects to the daemon in the folder and starts one if nobody listens; many processes that do so
 * at once start one. */
enum mkt_status mkt_start_or_connect(const struct mkt_start *start, struct mkt_link *link,
                                     struct mkt_error *error);

#endif
