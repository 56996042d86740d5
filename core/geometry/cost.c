/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/cost.h"

static uint64_t divide_up(uint64_t number, uint64_t by)
{
    return number / by + (number % by != 0);
}

struct mkt_read_cost mkt_cost_read(const struct mkt_speeds *speeds, const struct mkt_span *spans,
                                   uint32_t count)
{
    struct mkt_read_cost cost = {.requests = 0};
    uint64_t next = 0; /* block that isn't read yet */

    for (uint32_t i = 0; i < count; i++) {
        uint64_t first = spans[i].offset / MKT_COST_BLOCK_BYTES,
                 end = divide_up(spans[i].offset + spans[i].length, MKT_COST_BLOCK_BYTES);

        if (first < next)
            first = next;
        if (end <= first)
            continue;
        cost.bytes += (end - first) * MKT_COST_BLOCK_BYTES;
        /* What follows without a gap is the same request. */
        cost.requests += divide_up((end - first) * MKT_COST_BLOCK_BYTES, MKT_COST_REQUEST_BYTES) -
                         (i > 0 && first == next);
        next = end;
    }
    if (cost.requests == 0 && cost.bytes > 0)
        cost.requests = 1;
    if (speeds->bytes_per_s == 0)
        return cost;
    cost.ns = (uint64_t)((double)cost.bytes * 1e9 / (double)speeds->bytes_per_s) +
              divide_up(cost.requests, speeds->queue_depth ? speeds->queue_depth : 1) *
                  speeds->latency_ns;
    return cost;
}

bool mkt_cost_prefers_whole(const struct mkt_speeds *speeds, const struct mkt_span *spans,
                            uint32_t count, uint64_t length)
{
    const struct mkt_span whole = {0, length};

    return speeds->bytes_per_s > 0 &&
           mkt_cost_read(speeds, &whole, 1).ns <= mkt_cost_read(speeds, spans, count).ns;
}
