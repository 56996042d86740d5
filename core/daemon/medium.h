/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the daemon asks of a medium that clients map: make an arena, hand out its descriptor, bring
 * pages in and give them back. A new medium is a new file with one such table, named in main.c.
 * Arenas are made and ended by the loop's thread; populate may run in any thread, punch is the
 * loop's.
 */
#ifndef MKT_DAEMON_MEDIUM_H
#define MKT_DAEMON_MEDIUM_H

#include "core/base/status.h"
#include <stdbool.h>
#include <stdint.h>

struct mkt_medium {
    const char *name;
    enum mkt_status (*create)(uint64_t size_bytes, void **arena_out, struct mkt_error *error);
    void (*destroy)(void *arena);
    int (*fd)(const void *arena);
    void *(*base)(const void *arena);
    bool (*is_populated)(const void *arena, uint64_t offset, uint64_t length);
    enum mkt_status (*populate)(void *arena, uint64_t offset, uint64_t length);
    enum mkt_status (*punch)(void *arena, uint64_t offset, uint64_t length);
    uint64_t (*resident_bytes)(const void *arena);
};

extern const struct mkt_medium mkt_medium_dram;

#endif
