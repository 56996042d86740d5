/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's block of an n-dimensional float64 array, and the values that belong into it.
 *
 * Each value names its place in the whole array, its step and its dataset, and is exact in a
 * double, so a reader can tell a wrong, a misplaced and a stale value from the right one.
 */
#ifndef BENCH_BLOCK_H
#define BENCH_BLOCK_H

#include <stdint.h>

#define BLOCK_DIMS_MAX 8

struct block {
    int ndims;
    uint64_t dims[BLOCK_DIMS_MAX]; /* the whole array */
    uint64_t start[BLOCK_DIMS_MAX];
    uint64_t count[BLOCK_DIMS_MAX];
};

/* "512,512,256" into block->ndims and dims, start 0 and count all. Returns 0, or -1 for a malformed
 * text. */
int block_parse(struct block *block, const char *text);

/* Rank `rank` of `size`'s share of `whole` along `axis`. */
struct block block_share(const struct block *whole, int axis, int rank, int size);

/* What both have; false if that is nothing. */
int block_intersect(const struct block *a, const struct block *b, struct block *out);

uint64_t block_elements(const struct block *block);

void block_fill(const struct block *block, double *values, int step, int dataset);

/* Looks at every `stride`-th value and at the last; returns how many are wrong. */
uint64_t block_count_wrong(const struct block *block, const double *values, int step, int dataset,
                           uint64_t stride);

#endif
