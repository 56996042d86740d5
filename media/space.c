/* SPDX-License-Identifier: BSD-3-Clause */
#include "media/space.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

/*
 * A treap of the free ranges by address. Each node knows the longest range below it, so the lowest
 * range of a sufficient length is found in one descent. Nodes lie in one growing table and name
 * each other by index; 0 is none.
 */
struct node {
    uint64_t start, length, longest;
    uint32_t left, right; /* right links the unused nodes, too */
    uint32_t priority;
};

struct mkt_space {
    uint64_t size, free_bytes;
    struct node *nodes;
    uint32_t capacity, unused, root;
    uint32_t random;
};

#define FIRST_CAPACITY 64
#define SPARE_NODES    2 /* what one operation adds at most */

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

static uint64_t end_of(const struct node *node)
{
    return node->start + node->length;
}

static uint64_t longest_of(const struct mkt_space *space, uint32_t at)
{
    return at ? space->nodes[at].longest : 0;
}

static void refresh(struct mkt_space *space, uint32_t at)
{
    struct node *node = &space->nodes[at];
    uint64_t left = longest_of(space, node->left), right = longest_of(space, node->right);

    node->longest = node->length;
    if (left > node->longest)
        node->longest = left;
    if (right > node->longest)
        node->longest = right;
}

static void link_unused(struct mkt_space *space, uint32_t at)
{
    space->nodes[at].right = space->unused;
    space->unused = at;
}

static bool grow(struct mkt_space *space)
{
    uint32_t capacity = space->capacity ? space->capacity * 2 : FIRST_CAPACITY;
    struct node *nodes =
        capacity > space->capacity ? realloc(space->nodes, capacity * sizeof(*nodes)) : NULL;

    if (!nodes)
        return false;
    space->nodes = nodes;
    for (uint32_t at = capacity; at-- > (space->capacity ? space->capacity : 1);)
        link_unused(space, at);
    space->capacity = capacity;
    return true;
}

/* Makes sure that the operation to come finds its nodes, so that it can't fail half-way. */
static bool reserve(struct mkt_space *space)
{
    if (space->unused && space->nodes[space->unused].right)
        return true;
    _Static_assert(SPARE_NODES == 2, "the check above looks for two");
    return grow(space);
}

static uint32_t take_node(struct mkt_space *space, uint64_t start, uint64_t length)
{
    uint32_t at = space->unused;

    assert(at != 0);
    space->unused = space->nodes[at].right;
    space->random ^= space->random << 13;
    space->random ^= space->random >> 17;
    space->random ^= space->random << 5;
    space->nodes[at] = (struct node){start, length, length, 0, 0, space->random};
    return at;
}

/* Splits into ranges that start below `start` and the rest. */
static void split(struct mkt_space *space, uint32_t at, uint64_t start, uint32_t *low_out,
                  uint32_t *high_out)
{
    if (!at) {
        *low_out = *high_out = 0;
        return;
    }
    struct node *node = &space->nodes[at];
    if (node->start < start) {
        split(space, node->right, start, &node->right, high_out);
        *low_out = at;
    } else {
        split(space, node->left, start, low_out, &node->left);
        *high_out = at;
    }
    refresh(space, at);
}

static uint32_t merge(struct mkt_space *space, uint32_t low, uint32_t high)
{
    if (!low || !high)
        return low ? low : high;
    struct node *l = &space->nodes[low], *h = &space->nodes[high];
    if (l->priority >= h->priority) {
        l->right = merge(space, l->right, high);
        refresh(space, low);
        return low;
    }
    h->left = merge(space, low, h->left);
    refresh(space, high);
    return high;
}

static void insert(struct mkt_space *space, uint64_t start, uint64_t length)
{
    uint32_t low, high, at = take_node(space, start, length);

    split(space, space->root, start, &low, &high);
    space->root = merge(space, merge(space, low, at), high);
}

static void erase(struct mkt_space *space, uint64_t start)
{
    uint32_t low, middle, high;

    split(space, space->root, start, &low, &high);
    split(space, high, start + 1, &middle, &high);
    assert(middle && !space->nodes[middle].left && !space->nodes[middle].right);
    link_unused(space, middle);
    space->root = merge(space, low, high);
}

struct mkt_space *mkt_space_create(uint64_t size_bytes)
{
    struct mkt_space *space = calloc(1, sizeof(*space));

    if (!space)
        return NULL;
    space->size = size_bytes & ~(uint64_t)(MKT_SPACE_GRANULE - 1);
    space->random = 0x9e3779b9;
    if (!grow(space)) {
        free(space);
        return NULL;
    }
    if (space->size > 0)
        insert(space, 0, space->size);
    space->free_bytes = space->size;
    return space;
}

void mkt_space_destroy(struct mkt_space *space)
{
    if (!space)
        return;
    free(space->nodes);
    free(space);
}

static bool holds(const struct node *node, uint64_t length, uint64_t align)
{
    uint64_t waste = round_up(node->start, align) - node->start;

    return node->length >= waste && node->length - waste >= length;
}

/* The lowest range that holds `length` aligned bytes. Granule-aligned requests never look back. */
static uint32_t find_lowest(const struct mkt_space *space, uint32_t at, uint64_t length,
                            uint64_t align)
{
    if (longest_of(space, at) < length)
        return 0;
    const struct node *node = &space->nodes[at];
    uint32_t found = find_lowest(space, node->left, length, align);
    if (found)
        return found;
    if (holds(node, length, align))
        return at;
    return find_lowest(space, node->right, length, align);
}

enum mkt_status mkt_space_alloc(struct mkt_space *space, uint64_t length, uint64_t align,
                                uint64_t *offset_out)
{
    if (length == 0 || align < MKT_SPACE_GRANULE || (align & (align - 1)) != 0)
        return MKT_INVALID;
    if (length > space->size || align > space->size)
        return MKT_NO_SPACE;
    length = round_up(length, MKT_SPACE_GRANULE);
    if (!reserve(space))
        return MKT_NO_MEMORY;
    uint32_t at = find_lowest(space, space->root, length, align);
    if (!at)
        return MKT_NO_SPACE;
    uint64_t start = space->nodes[at].start, end = end_of(&space->nodes[at]),
             offset = round_up(start, align);
    erase(space, start);
    if (offset > start)
        insert(space, start, offset - start);
    if (offset + length < end)
        insert(space, offset + length, end - offset - length);
    space->free_bytes -= length;
    *offset_out = offset;
    return MKT_OK;
}

/* The free range with the highest start that is not above `start`, and the one after it. */
static void find_neighbours(const struct mkt_space *space, uint64_t start, uint32_t *below_out,
                            uint32_t *above_out)
{
    *below_out = *above_out = 0;
    for (uint32_t at = space->root; at;) {
        const struct node *node = &space->nodes[at];

        if (node->start <= start) {
            *below_out = at;
            at = node->right;
        } else {
            *above_out = at;
            at = node->left;
        }
    }
}

enum mkt_status mkt_space_free(struct mkt_space *space, uint64_t offset, uint64_t length)
{
    uint64_t end;
    uint32_t below, above;

    if (__builtin_add_overflow(offset, length, &end) || end > space->size)
        return MKT_INVALID;
    offset = round_up(offset, MKT_SPACE_GRANULE);
    end = round_up(end, MKT_SPACE_GRANULE);
    if (offset == end)
        return MKT_OK;
    find_neighbours(space, offset, &below, &above);
    const struct node *b = &space->nodes[below], *a = &space->nodes[above];
    if ((below && end_of(b) > offset) || (above && a->start < end))
        return MKT_INVALID;
    if (!reserve(space))
        return MKT_NO_MEMORY;
    b = &space->nodes[below];
    a = &space->nodes[above];
    space->free_bytes += end - offset;
    if (below && end_of(b) == offset) {
        offset = b->start;
    } else {
        below = 0;
    }
    if (above && a->start == end) {
        end = end_of(a);
        erase(space, space->nodes[above].start);
    }
    if (below)
        erase(space, offset);
    insert(space, offset, end - offset);
    return MKT_OK;
}

uint64_t mkt_space_free_bytes(const struct mkt_space *space)
{
    return space->free_bytes;
}

uint64_t mkt_space_largest_free(const struct mkt_space *space)
{
    return longest_of(space, space->root);
}

static void each_free(const struct mkt_space *space, uint32_t at, mkt_range_fn fn, void *context)
{
    if (!at)
        return;
    each_free(space, space->nodes[at].left, fn, context);
    fn(context, space->nodes[at].start, space->nodes[at].length);
    each_free(space, space->nodes[at].right, fn, context);
}

void mkt_space_each_free(const struct mkt_space *space, mkt_range_fn fn, void *context)
{
    each_free(space, space->root, fn, context);
}
