/* SPDX-License-Identifier: BSD-3-Clause */
/* Seeded random numbers for tests (splitmix64): the same cases on every machine. */
#ifndef MKT_TESTS_UNIT_RANDOM_H
#define MKT_TESTS_UNIT_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in low .. high, both included. */
static inline uint64_t random_in(uint64_t *state, uint64_t low, uint64_t high)
{
    return low + random_next(state) % (high - low + 1);
}

#endif
