/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/market/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(MKT_EXTENT_GRANULE == MKT_SPACE_GRANULE,
               "the allocator's granule is the contract's");

void mkt_ranges_fini(struct ranges *ranges)
{
    free(ranges->item);
    *ranges = (struct ranges){0};
}

static bool is_before(const struct range *range, uint32_t arena, uint64_t offset)
{
    return range->arena < arena || (range->arena == arena && range->offset <= offset);
}

/* How many ranges start at or before the place. */
static uint32_t count_before(const struct ranges *ranges, uint32_t arena, uint64_t offset)
{
    uint32_t low = 0, high = ranges->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (is_before(&ranges->item[middle], arena, offset))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum mkt_status make_room(struct ranges *ranges)
{
    if (ranges->count < ranges->capacity)
        return MKT_OK;
    if (ranges->count >= MKT_MAX_RANGES)
        return MKT_NO_SPACE;
    uint32_t capacity = ranges->capacity ? ranges->capacity * 2 : 8;
    struct range *item = realloc(ranges->item, capacity * sizeof(*item));
    if (!item)
        return MKT_NO_MEMORY;
    ranges->item = item;
    ranges->capacity = capacity;
    return MKT_OK;
}

static void insert(struct ranges *ranges, uint32_t at, const struct range *range)
{
    memmove(&ranges->item[at + 1], &ranges->item[at], (ranges->count - at) * sizeof(*range));
    ranges->item[at] = *range;
    ranges->count++;
}

static void erase(struct ranges *ranges, uint32_t at)
{
    ranges->count--;
    memmove(&ranges->item[at], &ranges->item[at + 1],
            (ranges->count - at) * sizeof(ranges->item[0]));
}

static bool touch(const struct range *low, const struct range *high)
{
    return low->arena == high->arena && low->offset + low->length == high->offset;
}

enum mkt_status mkt_ranges_put(struct ranges *ranges, const struct mkt_extent *extent)
{
    struct range range = {extent->arena, extent->offset, mkt_round_granule(extent->length)};
    uint32_t at = count_before(ranges, range.arena, range.offset);
    bool below = at > 0 && touch(&ranges->item[at - 1], &range);
    bool above = at < ranges->count && touch(&range, &ranges->item[at]);

    assert(range.length > 0);
    if (below) {
        ranges->item[at - 1].length += range.length;
        if (above) {
            ranges->item[at - 1].length += ranges->item[at].length;
            erase(ranges, at);
        }
    } else if (above) {
        ranges->item[at].offset = range.offset;
        ranges->item[at].length += range.length;
    } else {
        enum mkt_status status = make_room(ranges);

        if (status != MKT_OK)
            return status;
        insert(ranges, at, &range);
    }
    ranges->bytes += range.length;
    return MKT_OK;
}

/* Overflow-safe: an extent comes from another process. */
static bool is_inside(const struct range *range, const struct mkt_extent *extent)
{
    return range->arena == extent->arena && extent->offset >= range->offset &&
           extent->offset % MKT_EXTENT_GRANULE == 0 && extent->length > 0 &&
           extent->offset - range->offset < range->length &&
           extent->length <= range->length - (extent->offset - range->offset);
}

enum mkt_status mkt_ranges_take(struct ranges *ranges, const struct mkt_extent *extent)
{
    uint32_t at = count_before(ranges, extent->arena, extent->offset);

    if (at == 0 || !is_inside(&ranges->item[at - 1], extent))
        return MKT_PROTOCOL;
    struct range *range = &ranges->item[at - 1];
    uint64_t length = mkt_round_granule(extent->length);
    uint64_t below = extent->offset - range->offset, above = range->length - below - length;
    if (below > 0 && above > 0) {
        enum mkt_status status = make_room(ranges);

        if (status != MKT_OK)
            return status;
        insert(ranges, at, &(struct range){extent->arena, extent->offset + length, above});
        ranges->item[at - 1].length = below;
    } else if (below > 0) {
        range->length = below;
    } else if (above > 0) {
        range->offset += length;
        range->length = above;
    } else {
        erase(ranges, at - 1);
    }
    ranges->bytes -= length;
    return MKT_OK;
}
