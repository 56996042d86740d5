/* SPDX-License-Identifier: BSD-3-Clause */
/* SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014). */
#include "differential.h"

static uint64_t state;

void random_start(uint64_t seed, uint64_t step)
{
    state = seed * UINT64_C(0xd1342543de82ef95) + step * UINT64_C(0x2545f4914f6cdd1d);
    random_bits();
}

uint64_t random_bits(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

unsigned pick(unsigned below)
{
    return below ? (unsigned)(random_bits() % below) : 0;
}

bool chance(unsigned percent)
{
    return pick(100) < percent;
}
