/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a read from a tier of files costs: some parts of a piece, or all of it. Pure.
 */
#ifndef MKT_GEOMETRY_COST_H
#define MKT_GEOMETRY_COST_H

#include "core/base/extent.h"

#define MKT_COST_BLOCK_BYTES   4096u      /* what is read is whole blocks */
#define MKT_COST_REQUEST_BYTES (1u << 20) /* and a request has at most so many bytes */

/* As they were measured; bytes_per_s 0: not known, nothing is chosen by cost. */
struct mkt_speeds {
    uint64_t bytes_per_s; /* many large requests at once */
    uint32_t latency_ns;  /* one request of a block, alone */
    uint32_t queue_depth; /* requests at once */
};

struct mkt_read_cost {
    uint64_t requests, bytes; /* bytes: of the blocks */
    uint64_t ns;
};

/* Spans are ascending and disjoint. The time is  bytes / bytes_per_s + rounds * latency, a round
 * for each queue_depth requests: latencies within a round overlap, the drive's rate is shared. */
struct mkt_read_cost mkt_cost_read(const struct mkt_speeds *speeds, const struct mkt_span *spans,
                                   uint32_t count);

/* True if all of the piece is to be had in the time that the spans need. */
bool mkt_cost_prefers_whole(const struct mkt_speeds *speeds, const struct mkt_span *spans,
                            uint32_t count, uint64_t length);

#endif
