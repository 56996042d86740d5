/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NUMA nodes of this machine that processors have their ordinary memory on, as hwloc sees them,
 * and which processor is near to which. Nodes without memory, and memory of another kind (HBM,
 * CXL, a device's) beside a processor's own, are nobody's. HWLOC_XMLFILE makes it a recorded
 * machine. Owned by one thread.
 */
#ifndef MKT_DAEMON_NODES_H
#define MKT_DAEMON_NODES_H

#include "core/base/status.h"
#include <stdbool.h>
#include <stdint.h>

#define MKT_NODES_MAX 64

struct mkt_nodes {
    uint32_t count; /* 0: it is no matter where bytes are */
    struct mkt_node {
        uint32_t number; /* as the kernel counts */
        uint32_t cpus;
        uint64_t memory_bytes;
    } node[MKT_NODES_MAX];
    uint32_t *of_cpu; /* the number of its node; MKT_NO_NODE: none */
    uint32_t cpus;
    const char *why_none; /* count 0; lives for ever */
};

/* What is there, if `wanted` and more than one: else count is 0 and it has cost next to nothing. */
void mkt_nodes_find(bool wanted, struct mkt_nodes *nodes_out);
void mkt_nodes_fini(struct mkt_nodes *nodes);

/* MKT_NO_NODE where it is no matter, or the processor isn't known. */
uint32_t mkt_nodes_of_cpu(const struct mkt_nodes *nodes, uint32_t cpu);
/* "NUMA nodes 0 (32 GiB), 1 (32 GiB)", or why there are none. */
const char *mkt_nodes_text(const struct mkt_nodes *nodes, char *text, size_t capacity);

#endif
