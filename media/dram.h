/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DRAM: an arena is one memfd, sparse, of fixed size, handed to clients as a descriptor. The daemon
 * populates pages (so that its own cgroup is charged, off the clients' data path) and punches them
 * out again. An arena is created and destroyed by one thread; populate and punch of different
 * ranges may run in any thread.
 */
#ifndef MKT_MEDIA_DRAM_H
#define MKT_MEDIA_DRAM_H

#include "core/base/status.h"
#include <stdbool.h>
#include <stdint.h>

struct mkt_dram_arena;

/* A sealed-size memfd mapped once here (huge pages advised where the kernel allows). */
enum mkt_status mkt_dram_arena_create(uint64_t size_bytes, struct mkt_dram_arena **arena_out,
                                      struct mkt_error *error_out);
void mkt_dram_arena_destroy(struct mkt_dram_arena *arena);
int mkt_dram_arena_fd(const struct mkt_dram_arena *arena);
void *mkt_dram_arena_base(const struct mkt_dram_arena *arena);

/* True if every page of the range is known to be in memory. */
bool mkt_dram_arena_is_populated(const struct mkt_dram_arena *arena, uint64_t offset,
                                 uint64_t length);
/* Brings the pages in; blocks for as long as the kernel needs to clear them. MKT_NO_MEMORY. */
enum mkt_status mkt_dram_arena_populate(struct mkt_dram_arena *arena, uint64_t offset,
                                        uint64_t length);
/* Gives whole pages inside the range back to the kernel. */
enum mkt_status mkt_dram_arena_punch(struct mkt_dram_arena *arena, uint64_t offset,
                                     uint64_t length);
uint64_t mkt_dram_arena_resident_bytes(const struct mkt_dram_arena *arena);

#endif
