/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arenas that this process has mapped: each at most twice, read-only from its first read on and
 * writable from its first grant on, for as long as the client lives. Internal to core/client.
 */
#ifndef MKT_CLIENT_ARENA_H
#define MKT_CLIENT_ARENA_H

#include "core/client/link.h"

struct mkt_arena_view {
    uint8_t *base;     /* NULL: not mapped this way */
    uint64_t *entered; /* a bit a page: it is in this process's page tables */
};

struct mkt_mapped_arena {
    uint32_t id;
    uint64_t size_bytes;
    struct mkt_arena_view views[2]; /* read-only, writable */
};

struct mkt_mapped_arenas {
    struct mkt_mapped_arena *list;
    uint32_t count;
};

void mkt_mapped_arenas_fini(struct mkt_mapped_arenas *arenas);
/* The address of an extent; asks the daemon for the arena once a view. MKT_PROTOCOL if the extent
 * can't be. */
enum mkt_status mkt_mapped_arenas_map(struct mkt_mapped_arenas *arenas, struct mkt_link *link,
                                      const struct mkt_extent *extent, bool writable,
                                      void **address_out, struct mkt_error *error);
/* The address of an extent whose pages are all entered in the writable view, else NULL. */
void *mkt_mapped_arenas_written(const struct mkt_mapped_arenas *arenas,
                                const struct mkt_extent *extent);

#endif
