/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/slab.h"

#include <stddef.h>

void mkt_slab_box(struct mkt_slab *slab_out, uint32_t rank, const uint64_t *start,
                  const uint64_t *count)
{
    slab_out->rank = rank;
    for (uint32_t d = 0; d < rank; d++)
        slab_out->dim[d] = (struct mkt_dim){start[d], count[d], 1, count[d]};
}

/* The last coordinate + 1, or false if it does not fit. */
static bool checked_end(const struct mkt_dim *dim, uint64_t *end_out)
{
    uint64_t span;

    return !__builtin_mul_overflow(dim->count - 1, dim->stride, &span) &&
           !__builtin_add_overflow(span, dim->block, &span) &&
           !__builtin_add_overflow(span, dim->start, end_out);
}

bool mkt_slab_is_valid(const struct mkt_slab *slab, const uint64_t *dims)
{
    uint64_t elements = 1;

    if (slab->rank > MKT_MAX_RANK)
        return false;
    for (uint32_t d = 0; d < slab->rank; d++) {
        const struct mkt_dim *dim = &slab->dim[d];
        uint64_t end, along;

        if (dim->count == 0 || dim->block == 0 || dim->stride == 0)
            return false;
        if (dim->count > 1 && dim->stride < dim->block)
            return false;
        if (!checked_end(dim, &end) || (dims && end > dims[d]))
            return false;
        if (__builtin_mul_overflow(dim->count, dim->block, &along) ||
            __builtin_mul_overflow(elements, along, &elements))
            return false;
    }
    return true;
}

void mkt_slab_normalise(struct mkt_slab *slab)
{
    for (uint32_t d = 0; d < slab->rank; d++) {
        struct mkt_dim *dim = &slab->dim[d];

        if (dim->count > 1 && dim->stride == dim->block) {
            dim->block *= dim->count;
            dim->count = 1;
        }
        if (dim->count == 1)
            dim->stride = dim->block;
    }
}

bool mkt_slab_is_box(const struct mkt_slab *slab)
{
    for (uint32_t d = 0; d < slab->rank; d++)
        if (slab->dim[d].count != 1 && slab->dim[d].stride != slab->dim[d].block)
            return false;
    return true;
}

bool mkt_slab_equal(const struct mkt_slab *a, const struct mkt_slab *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t d = 0; d < a->rank; d++) {
        const struct mkt_dim *x = &a->dim[d], *y = &b->dim[d];
        if (x->start != y->start || x->stride != y->stride || x->count != y->count ||
            x->block != y->block)
            return false;
    }
    return true;
}

uint64_t mkt_slab_elements(const struct mkt_slab *slab)
{
    uint64_t elements = 1;

    for (uint32_t d = 0; d < slab->rank; d++)
        elements *= mkt_dim_elements(&slab->dim[d]);
    return elements;
}

uint64_t mkt_dim_elements(const struct mkt_dim *dim)
{
    return dim->count * dim->block;
}

uint64_t mkt_dim_end(const struct mkt_dim *dim)
{
    return dim->start + (dim->count - 1) * dim->stride + dim->block;
}

bool mkt_slab_bounds_meet(const struct mkt_slab *a, const struct mkt_slab *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dim[d].start >= mkt_dim_end(&b->dim[d]) ||
            b->dim[d].start >= mkt_dim_end(&a->dim[d]))
            return false;
    return true;
}
