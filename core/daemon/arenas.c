/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/arenas.h"

#include <stdlib.h>

enum mkt_status mkt_arenas_init(struct mkt_arenas *arenas, const struct mkt_medium *medium)
{
    *arenas = (struct mkt_arenas){.medium = medium,
                                  .list = calloc(MKT_ARENAS_MAX, sizeof(*arenas->list))};
    return arenas->list ? MKT_OK : MKT_NO_MEMORY;
}

void mkt_arenas_fini(struct mkt_arenas *arenas)
{
    while (arenas->count > 0)
        arenas->medium->destroy(arenas->list[--arenas->count].arena);
    free(arenas->list);
    arenas->list = NULL;
}

enum mkt_status mkt_arenas_grow(struct mkt_arenas *arenas, uint32_t id, uint64_t size_bytes,
                                struct mkt_error *error)
{
    void *arena;
    enum mkt_status status;

    if (id != arenas->count + 1 || arenas->count == MKT_ARENAS_MAX)
        return mkt_error_set(error, MKT_NO_SPACE, "arena %u of at most %d", id, MKT_ARENAS_MAX);
    status = arenas->medium->create(size_bytes, &arena, error);
    if (status != MKT_OK)
        return status;
    arenas->list[arenas->count].arena = arena;
    arenas->list[arenas->count].size_bytes = size_bytes;
    arenas->count++;
    return MKT_OK;
}

int mkt_arenas_fd(const struct mkt_arenas *arenas, uint32_t id, uint64_t *size_out)
{
    if (id == 0 || id > arenas->count)
        return -1;
    *size_out = arenas->list[id - 1].size_bytes;
    return arenas->medium->fd(arenas->list[id - 1].arena);
}

static void *arena_of(const struct mkt_arenas *arenas, const struct mkt_extent *extent)
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
    void *arena = arena_of(arenas, extent);

    return arena ? (char *)arenas->medium->base(arena) + extent->offset : NULL;
}

bool mkt_arenas_is_populated(const struct mkt_arenas *arenas, const struct mkt_extent *extent)
{
    void *arena = arena_of(arenas, extent);

    return arena && arenas->medium->is_populated(arena, extent->offset, extent->length);
}

enum mkt_status mkt_arenas_populate(struct mkt_arenas *arenas, const struct mkt_extent *extent)
{
    void *arena = arena_of(arenas, extent);

    return arena ? arenas->medium->populate(arena, extent->offset, extent->length) : MKT_INVALID;
}

enum mkt_status mkt_arenas_punch(struct mkt_arenas *arenas, const struct mkt_extent *extent)
{
    void *arena = arena_of(arenas, extent);

    return arena ? arenas->medium->punch(arena, extent->offset, extent->length) : MKT_INVALID;
}

uint64_t mkt_arenas_resident_bytes(const struct mkt_arenas *arenas)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < arenas->count; i++)
        bytes += arenas->medium->resident_bytes(arenas->list[i].arena);
    return bytes;
}
