/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arenas of a daemon, by id (1, 2, ...): turns extents into addresses and pages. Owned by the
 * loop's thread; a worker gets the medium's arena (mkt_arenas_find) and nothing of this.
 */
#ifndef MKT_DAEMON_ARENAS_H
#define MKT_DAEMON_ARENAS_H

#include "core/base/extent.h"
#include "core/daemon/keeper.h"
#include "media/medium.h"

struct mkt_arenas {
    const struct mkt_medium *medium;
    struct mkt_keeper *keeper; /* holds each arena's descriptor, too; NULL: none */
    uint32_t count, capacity;
    bool told_unbound; /* the log says that the kernel binds no arena */
    struct mkt_arena_entry {
        void *arena;
        uint64_t size_bytes;
        uint32_t node; /* MKT_NO_NODE: any */
        bool is_bound;
    } * list; /* the arena with id i is list[i - 1] */
};

void mkt_arenas_init(struct mkt_arenas *arenas, const struct mkt_medium *medium,
                     struct mkt_keeper *keeper);
void mkt_arenas_fini(struct mkt_arenas *arenas);

/* Makes the next arena, which must be number `id`, or goes on with the one that the keeper has. Its
 * pages come from `node`, if that isn't MKT_NO_NODE; where they can't, from anywhere. */
enum mkt_status mkt_arenas_grow(struct mkt_arenas *arenas, uint32_t id, uint32_t node,
                                uint64_t size_bytes, struct mkt_error *error);
/* MKT_NO_NODE also if there is no such arena. */
uint32_t mkt_arenas_node(const struct mkt_arenas *arenas, uint32_t id);

/* The descriptor, which stays the arena's, and the size; -1 if there is no such arena. */
int mkt_arenas_fd(const struct mkt_arenas *arenas, uint32_t id, uint64_t *size_out);

/* The medium's arena, and the address; NULL if the extent isn't inside an arena. */
void *mkt_arenas_find(const struct mkt_arenas *arenas, const struct mkt_extent *extent);
void *mkt_arenas_address(const struct mkt_arenas *arenas, const struct mkt_extent *extent);

bool mkt_arenas_is_populated(const struct mkt_arenas *arenas, const struct mkt_extent *extent);
enum mkt_status mkt_arenas_populate(struct mkt_arenas *arenas, const struct mkt_extent *extent);
enum mkt_status mkt_arenas_punch(struct mkt_arenas *arenas, const struct mkt_extent *extent);
uint64_t mkt_arenas_resident_bytes(const struct mkt_arenas *arenas);
/* Of one arena that is there. */
uint64_t mkt_arenas_resident_bytes_of(const struct mkt_arenas *arenas, uint32_t id);

#endif
