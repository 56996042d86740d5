/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/plan/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

bool mkt_plan_parse_list(const char *text, struct mkt_plan_list *list_out)
{
    *list_out = (struct mkt_plan_list){.given = true};
    do {
        char *end;
        if (list_out->count == MKT_MAX_RANK || *text < '0' || *text > '9')
            return false;
        errno = 0;
        list_out->number[list_out->count++] = strtoull(text, &end, 10);
        if (errno || (*end && *end != ','))
            return false;
        text = *end ? end + 1 : NULL;
    } while (text);
    return true;
}

static uint64_t number_of(const struct mkt_plan_list *list, uint32_t dimension, uint64_t otherwise)
{
    return dimension < list->count ? list->number[dimension] : otherwise;
}

/* One past the last element; UINT64_MAX: more than can be counted. */
static uint64_t end_of(const struct mkt_dim *dim)
{
    uint64_t steps, end;
    if (__builtin_mul_overflow(dim->count - 1, dim->stride, &steps) ||
        __builtin_add_overflow(dim->start, steps, &end) ||
        __builtin_add_overflow(end, dim->block, &end))
        return UINT64_MAX;
    return end;
}

static enum mkt_status check_dim(struct mkt_dim *dim, uint32_t dimension, uint64_t extent,
                                 struct mkt_error *error)
{
    if (dim->count == 0 || dim->block == 0 || dim->stride == 0)
        return mkt_error_set(error, MKT_INVALID,
                             "the selection is empty: dimension %" PRIu32 " has a 0 where stride, "
                             "count and block are at least 1",
                             dimension);
    if (dim->count > 1 && dim->block > dim->stride)
        return mkt_error_set(error, MKT_INVALID,
                             "the blocks overlap in dimension %" PRIu32 ": each has %" PRIu64
                             " elements, but the next begins %" PRIu64 " after it (-S)",
                             dimension, dim->block, dim->stride);
    if (end_of(dim) > extent)
        return mkt_error_set(error, MKT_INVALID,
                             "the selection is outside: in dimension %" PRIu32
                             " it ends at %" PRIu64 ", and the dataset has %" PRIu64 " elements",
                             dimension, end_of(dim), extent);
    if (dim->count == 1)
        dim->stride = dim->block;
    return MKT_OK;
}

static enum mkt_status check_counts(const struct mkt_plan_asked *asked, uint32_t rank,
                                    struct mkt_error *error)
{
    const struct mkt_plan_list *const lists[] = {&asked->start, &asked->stride, &asked->count,
                                                 &asked->block};
    for (int i = 0; i < 4; i++) {
        if (lists[i]->count > rank)
            return mkt_error_set(error, MKT_INVALID,
                                 "-%c has %" PRIu32 " numbers, and the dataset %" PRIu32
                                 " dimensions",
                                 "sSck"[i], lists[i] -> count, rank);
    }
    return MKT_OK;
}

enum mkt_status mkt_plan_select(const struct mkt_plan_asked *asked, const struct mkt_array *array,
                                struct mkt_slab *slab_out, struct mkt_error *error)
{
    static const uint64_t origin[MKT_MAX_RANK];
    enum mkt_status status = check_counts(asked, array->rank, error);
    if (status != MKT_OK)
        return status;
    if (!asked->start.given && !asked->stride.given && !asked->count.given && !asked->block.given) {
        mkt_slab_box(slab_out, array->rank, origin, array->dims);
        return MKT_OK;
    }
    slab_out->rank = array->rank;
    for (uint32_t d = 0; d < array->rank && status == MKT_OK; d++) {
        slab_out->dim[d] = (struct mkt_dim){.start = number_of(&asked->start, d, 0),
                                            .stride = number_of(&asked->stride, d, 1),
                                            .count = number_of(&asked->count, d, 1),
                                            .block = number_of(&asked->block, d, 1)};
        status = check_dim(&slab_out->dim[d], d, array->dims[d], error);
    }
    if (status == MKT_OK)
        mkt_slab_normalise(slab_out);
    return status;
}
