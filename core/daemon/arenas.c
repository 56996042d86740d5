/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/arenas.h"
#include "core/base/log.h"

#include <stdlib.h>

void mkt_arenas_init(struct mkt_arenas *arenas, const struct mkt_medium *medium,
                     struct mkt_keeper *keeper)
{
    *arenas = (struct mkt_arenas){.medium = medium, .keeper = keeper};
}

void mkt_arenas_fini(struct mkt_arenas *arenas)
{
    while (arenas->count > 0)
        arenas->medium->destroy(arenas->list[--arenas->count].arena);
    free(arenas->list);
    arenas->list = NULL;
}

static enum mkt_status make_room(struct mkt_arenas *arenas)
{
    uint32_t capacity = arenas->capacity ? 2 * arenas->capacity : 8;
    struct mkt_arena_entry *list;

    if (arenas->count < arenas->capacity)
        return MKT_OK;
    list = realloc(arenas->list, capacity * sizeof(*list));
    if (!list)
        return MKT_NO_MEMORY;
    arenas->list = list;
    arenas->capacity = capacity;
    return MKT_OK;
}

static void bind_to_node(struct mkt_arenas *arenas, struct mkt_arena_entry *entry)
{
    struct mkt_error error;

    if (entry->node == MKT_NO_NODE)
        return;
    entry->is_bound = arenas->medium->bind(entry->arena, entry->node, &error) == MKT_OK;
    if (entry->is_bound || arenas->told_unbound)
        return;
    arenas->told_unbound = true;
    mkt_log_warning("pages", "arenas can't be bound, the kernel places their pages: %s",
                    error.text);
}

static void add(struct mkt_arenas *arenas, void *arena, uint32_t node, uint64_t size_bytes)
{
    struct mkt_arena_entry *entry = &arenas->list[arenas->count++];

    *entry = (struct mkt_arena_entry){.arena = arena, .size_bytes = size_bytes, .node = node};
    bind_to_node(arenas, entry);
}

static enum mkt_status adopt(struct mkt_arenas *arenas, int fd, uint32_t node, uint64_t size_bytes,
                             struct mkt_error *error)
{
    void *arena;
    enum mkt_status status = arenas->medium->adopt(fd, size_bytes, &arena, error);

    if (status == MKT_OK)
        add(arenas, arena, node, size_bytes);
    return status;
}

enum mkt_status mkt_arenas_grow(struct mkt_arenas *arenas, uint32_t id, uint32_t node,
                                uint64_t size_bytes, struct mkt_error *error)
{
    void *arena;
    enum mkt_status status;

    if (id != arenas->count + 1)
        return mkt_error_set(error, MKT_INVALID, "arena %u follows %u", id, arenas->count);
    if (make_room(arenas) != MKT_OK)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    struct mkt_kept_key key = mkt_kept_key(MKT_KEPT_ARENA, id);
    int fd = mkt_keeper_take(arenas->keeper, key);
    if (fd >= 0)
        return adopt(arenas, fd, node, size_bytes, error);
    status = arenas->medium->create(size_bytes, &arena, error);
    if (status != MKT_OK)
        return status;
    mkt_keeper_keep(arenas->keeper, key, arenas->medium->fd(arena));
    add(arenas, arena, node, size_bytes);
    return MKT_OK;
}

uint32_t mkt_arenas_node(const struct mkt_arenas *arenas, uint32_t id)
{
    return id == 0 || id > arenas->count ? MKT_NO_NODE : arenas->list[id - 1].node;
}

int mkt_arenas_fd(const struct mkt_arenas *arenas, uint32_t id, uint64_t *size_out)
{
    if (id == 0 || id > arenas->count)
        return -1;
    *size_out = arenas->list[id - 1].size_bytes;
    return arenas->medium->fd(arenas->list[id - 1].arena);
}

void *mkt_arenas_find(const struct mkt_arenas *arenas, const struct mkt_extent *extent)
{
    if (extent->arena == 0 || extent->arena > arenas->count)
        return NULL;
    uint64_t size_bytes = arenas->list[extent->arena - 1].size_bytes;
    if (extent->length > size_bytes || extent->offset > size_bytes - extent->length)
        return NULL;
    return arenas->list[extent->arena - 1].arena;
}

void *mkt_arenas_address(const struct mkt_arenas *arenas, const struct mkt_extent *extent)
{
    void *arena = mkt_arenas_find(arenas, extent);

    return arena ? (char *)arenas->medium->base(arena) + extent->offset : NULL;
}

bool mkt_arenas_is_populated(const struct mkt_arenas *arenas, const struct mkt_extent *extent)
{
    void *arena = mkt_arenas_find(arenas, extent);

    return arena && arenas->medium->is_populated(arena, extent->offset, extent->length);
}

enum mkt_status mkt_arenas_populate(struct mkt_arenas *arenas, const struct mkt_extent *extent)
{
    void *arena = mkt_arenas_find(arenas, extent);

    return arena ? arenas->medium->populate(arena, extent->offset, extent->length) : MKT_INVALID;
}

enum mkt_status mkt_arenas_punch(struct mkt_arenas *arenas, const struct mkt_extent *extent)
{
    void *arena = mkt_arenas_find(arenas, extent);

    return arena ? arenas->medium->punch(arena, extent->offset, extent->length) : MKT_INVALID;
}

uint64_t mkt_arenas_resident_bytes(const struct mkt_arenas *arenas)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < arenas->count; i++)
        bytes += mkt_arenas_resident_bytes_of(arenas, i + 1);
    return bytes;
}

uint64_t mkt_arenas_resident_bytes_of(const struct mkt_arenas *arenas, uint32_t id)
{
    return arenas->medium->resident_bytes(arenas->list[id - 1].arena);
}
