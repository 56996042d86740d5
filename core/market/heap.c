/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/market/internal.h"

#include <stdlib.h>

static bool comes_before(const struct ranked *a, const struct ranked *b)
{
    return a->key < b->key || (a->key == b->key && a->tie < b->tie);
}

static void set(struct heap *heap, uint32_t place, struct ranked *ranked)
{
    heap->item[place - 1] = ranked;
    ranked->place = place;
}

/* Its place may be too low for it, or ... */
static void rise(struct heap *heap, struct ranked *ranked)
{
    uint32_t place = ranked->place;

    while (place > 1 && comes_before(ranked, heap->item[place / 2 - 1])) {
        set(heap, place, heap->item[place / 2 - 1]);
        place /= 2;
    }
    set(heap, place, ranked);
}

/* ... too high. */
static void sink(struct heap *heap, struct ranked *ranked)
{
    uint32_t place = ranked->place;

    for (;;) {
        uint32_t child = 2 * place;

        if (child < heap->count && comes_before(heap->item[child], heap->item[child - 1]))
            child++;
        if (child > heap->count || !comes_before(heap->item[child - 1], ranked))
            break;
        set(heap, place, heap->item[child - 1]);
        place = child;
    }
    set(heap, place, ranked);
}

enum mkt_status mkt_heap_reserve(struct heap *heap, uint32_t count)
{
    uint32_t capacity = heap->capacity ? heap->capacity : 16;

    while (capacity < count)
        capacity *= 2;
    if (capacity == heap->capacity)
        return MKT_OK;
    struct ranked **item = realloc(heap->item, capacity * sizeof(struct ranked *));
    if (!item)
        return MKT_NO_MEMORY;
    heap->item = item;
    heap->capacity = capacity;
    return MKT_OK;
}

void mkt_heap_put(struct heap *heap, struct ranked *ranked)
{
    if (ranked->place == 0)
        set(heap, ++heap->count, ranked);
    rise(heap, ranked);
    sink(heap, ranked);
}

void mkt_heap_take(struct heap *heap, struct ranked *ranked)
{
    uint32_t place = ranked->place;

    if (place == 0)
        return;
    struct ranked *last = heap->item[--heap->count];
    ranked->place = 0;
    if (last == ranked)
        return;
    set(heap, place, last);
    rise(heap, last);
    sink(heap, last);
}

struct ranked *mkt_heap_first(const struct heap *heap)
{
    return heap->count > 0 ? heap->item[0] : NULL;
}

void mkt_heap_fini(struct heap *heap)
{
    free(heap->item);
    *heap = (struct heap){.item = NULL};
}
