/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MKT_BASE_CLOCK_H
#define MKT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t mkt_timespec_ns(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

/* Since some moment of the past: for waits. The same for all processes of the node. */
static inline uint64_t mkt_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return mkt_timespec_ns(&now);
}

static inline uint64_t mkt_now_ms(void)
{
    return mkt_now_ns() / 1000000u;
}

/* Since 1970: for what is compared with the times of files. */
static inline uint64_t mkt_wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return mkt_timespec_ns(&now);
}

#endif
