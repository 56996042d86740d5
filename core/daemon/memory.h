/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory there is for this process: the node's, or the tightest limit of the control
 * groups above it (versions 1 and 2), and how near to it they are. Reads /proc and the cgroup file
 * systems; owned by one thread.
 */
#ifndef MKT_DAEMON_MEMORY_H
#define MKT_DAEMON_MEMORY_H

#include "core/base/status.h"
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct mkt_memory {
    uint64_t total_bytes; /* the node's, or the tightest limit */
    char group[PATH_MAX]; /* the folder of the group with that limit; "": none is tighter than the
                             node */
    bool is_v1;           /* of that group */
    char root[PATH_MAX];  /* prefix of all paths; "" but in tests */
};

/* `root` is a prefix to /proc and to the cgroup mounts: "", or a recorded machine. */
void mkt_memory_find(const char *root, struct mkt_memory *memory_out);

/* True if less than a twentieth of total_bytes can still be had. */
bool mkt_memory_is_tight(const struct mkt_memory *memory);

/* Where total_bytes comes from, for people. */
const char *mkt_memory_source(const struct mkt_memory *memory);

#endif
