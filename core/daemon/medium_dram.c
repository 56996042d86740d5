/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/medium.h"
#include "media/dram.h"

static enum mkt_status create(uint64_t size_bytes, void **arena_out, struct mkt_error *error)
{
    struct mkt_dram_arena *arena;
    enum mkt_status status = mkt_dram_arena_create(size_bytes, &arena, error);

    if (status == MKT_OK)
        *arena_out = arena;
    return status;
}

static void destroy(void *arena)
{
    mkt_dram_arena_destroy(arena);
}

static int fd(const void *arena)
{
    return mkt_dram_arena_fd(arena);
}

static void *base(const void *arena)
{
    return mkt_dram_arena_base(arena);
}

static bool is_populated(const void *arena, uint64_t offset, uint64_t length)
{
    return mkt_dram_arena_is_populated(arena, offset, length);
}

static enum mkt_status populate(void *arena, uint64_t offset, uint64_t length)
{
    return mkt_dram_arena_populate(arena, offset, length);
}

static enum mkt_status punch(void *arena, uint64_t offset, uint64_t length)
{
    return mkt_dram_arena_punch(arena, offset, length);
}

static uint64_t resident_bytes(const void *arena)
{
    return mkt_dram_arena_resident_bytes(arena);
}

const struct mkt_medium mkt_medium_dram = {
    .name = "dram",
    .create = create,
    .destroy = destroy,
    .fd = fd,
    .base = base,
    .is_populated = is_populated,
    .populate = populate,
    .punch = punch,
    .resident_bytes = resident_bytes,
};
