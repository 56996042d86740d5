/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A medium whose arenas clients map: it makes an arena, hands out its descriptor, brings pages in
 * and gives them back. It owns bytes and copies none. A new medium is a new file with one such
 * table, named in the daemon's main.c, and a program of a few lines in tests/conformance.
 *
 * An arena is created and destroyed by one thread; populate and punch of different ranges may run
 * in any thread.
 */
#ifndef MKT_MEDIA_MEDIUM_H
#define MKT_MEDIA_MEDIUM_H

#include "core/base/status.h"
#include <stdbool.h>
#include <stdint.h>

/* `arena` is the medium's own structure. Offsets and lengths are bytes. */
struct mkt_medium {
    const char *name;
    /* Of fixed size, sparse. MKT_INVALID (size), MKT_NO_MEMORY, or what the kernel says. */
    enum mkt_status (*create)(uint64_t size_bytes, void **arena_out, struct mkt_error *error);
    /* The same of a descriptor (taken over) that another process's create made: with its contents,
     * and the pages that are in memory. */
    enum mkt_status (*adopt)(int fd, uint64_t size_bytes, void **arena_out,
                             struct mkt_error *error);
    void (*destroy)(void *arena);
    int (*fd)(const void *arena);
    void *(*base)(const void *arena);
    /* True if every page of the range is known to be in memory. */
    bool (*is_populated)(const void *arena, uint64_t offset, uint64_t length);
    /* Brings the pages in; blocks for as long as the kernel needs to clear them. MKT_NO_MEMORY,
     * MKT_INVALID. */
    enum mkt_status (*populate)(void *arena, uint64_t offset, uint64_t length);
    /* Gives whole pages inside the range back to the kernel. */
    enum mkt_status (*punch)(void *arena, uint64_t offset, uint64_t length);
    /* Pages that come in from now on, whoever touches them, are of NUMA node `node` as long as that
     * has some. MKT_INVALID (this process has no such node), or what the kernel says; the arena is
     * as it was then. One thread at a time. */
    enum mkt_status (*bind)(void *arena, uint32_t node, struct mkt_error *error);
    uint64_t (*resident_bytes)(const void *arena);
};

/* dram.c: an arena is one memfd of sealed size, mapped once (huge pages advised where the kernel
 * allows), so that the daemon's own cgroup is charged for its pages. */
extern const struct mkt_medium mkt_medium_dram;

#endif
