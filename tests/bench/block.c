/* SPDX-License-Identifier: BSD-3-Clause */
#include "block.h"

#include <stdlib.h>

/* Up to 2^28 elements, 256 steps and 2^16 datasets stay apart and exact. */
static double value_base(int step, int dataset)
{
    return (double)(((uint64_t)dataset << 36) + ((uint64_t)(step + 1) << 28));
}

int block_parse(struct block *block, const char *text)
{
    *block = (struct block){0};
    for (;;) {
        char *end;
        unsigned long long extent = strtoull(text, &end, 10);

        if (end == text || extent == 0 || block->ndims == BLOCK_DIMS_MAX)
            return -1;
        block->dims[block->ndims] = extent;
        block->count[block->ndims++] = extent;
        if (*end == '\0')
            return 0;
        if (*end != ',')
            return -1;
        text = end + 1;
    }
}

struct block block_share(const struct block *whole, int axis, int rank, int size)
{
    struct block share = *whole;
    uint64_t extent = whole->dims[axis];
    uint64_t first = extent * (uint64_t)rank / (uint64_t)size;

    share.start[axis] = first;
    share.count[axis] = extent * (uint64_t)(rank + 1) / (uint64_t)size - first;
    return share;
}

int block_intersect(const struct block *a, const struct block *b, struct block *out)
{
    *out = *a;
    for (int d = 0; d < a->ndims; d++) {
        uint64_t end_a = a->start[d] + a->count[d];
        uint64_t end_b = b->start[d] + b->count[d];
        uint64_t end = end_a < end_b ? end_a : end_b;

        out->start[d] = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
        if (out->start[d] >= end)
            return 0;
        out->count[d] = end - out->start[d];
    }
    return 1;
}

uint64_t block_elements(const struct block *block)
{
    uint64_t elements = 1;

    for (int d = 0; d < block->ndims; d++)
        elements *= block->count[d];
    return elements;
}

/* The place in the whole array of the block's element number `local`. */
static uint64_t whole_index(const struct block *block, uint64_t local)
{
    uint64_t index = 0;
    uint64_t factor = 1;

    for (int d = block->ndims - 1; d >= 0; d--) {
        index += (block->start[d] + local % block->count[d]) * factor;
        local /= block->count[d];
        factor *= block->dims[d];
    }
    return index;
}

void block_fill(const struct block *block, double *values, int step, int dataset)
{
    uint64_t row = block->count[block->ndims - 1];
    uint64_t elements = block_elements(block);

    for (uint64_t at = 0; at < elements; at += row) {
        double first = value_base(step, dataset) + (double)whole_index(block, at);

        for (uint64_t i = 0; i < row; i++)
            values[at + i] = first + (double)i;
    }
}

uint64_t block_count_wrong(const struct block *block, const double *values, int step, int dataset,
                           uint64_t stride)
{
    double base = value_base(step, dataset);
    uint64_t row = block->count[block->ndims - 1];
    uint64_t elements = block_elements(block);
    uint64_t next = 0;
    uint64_t wrong = 0;

    for (uint64_t at = 0; at < elements; at += row) {
        double first;

        if (next >= at + row)
            continue;
        first = base + (double)whole_index(block, at);
        for (; next < at + row; next += stride)
            wrong += values[next] != first + (double)(next - at);
    }
    if (elements > 0)
        wrong += values[elements - 1] != base + (double)whole_index(block, elements - 1);
    return wrong;
}
