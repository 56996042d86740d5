/* SPDX-License-Identifier: BSD-3-Clause */
#include "media/dram.h"
#include "tests/conformance/media_suite.h"

#include <stdio.h>

static enum mkt_status create(uint64_t size_bytes, void **arena_out, struct mkt_error *error_out)
{
    struct mkt_dram_arena *arena;
    enum mkt_status status = mkt_dram_arena_create(size_bytes, &arena, error_out);

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

static const struct media_ops dram = {
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

int main(void)
{
    int failed = media_suite_run("dram, bare", &dram);

    checking_media_wrap(&dram);
    failed += media_suite_run("dram, checked", &checking_media);
    if (checking_media_calls() == 0 || checking_media_open_arenas() != 0) {
        fprintf(stderr, "the wrapper saw %llu calls, and %d arenas stay open\n",
                (unsigned long long)checking_media_calls(), checking_media_open_arenas());
        failed++;
    }
    return failed;
}
