/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/engine.h"
#include "transport/nontemporal.h"

#include <string.h>

/* One side of a move. The two innermost loops are a plane; the rest is walked around it. */
struct plane {
    uint64_t bytes, inner_count, outer_count;
    uint64_t to_inner, from_inner, to_outer, from_outer;
};

typedef void (*plane_fn)(const struct plane *plane, char *to, const char *from);

/* A copy of constant size compiles to a few instructions, where a call would cost more than the
 * copy. */
#define DEFINE_PLANE(name, size)                                            \
    static void name(const struct plane *plane, char *to, const char *from) \
    {                                                                       \
        for (uint64_t o = 0; o < plane->outer_count; o++) {                 \
            char *t = to + o * plane->to_outer;                             \
            const char *f = from + o * plane->from_outer;                   \
            for (uint64_t i = 0; i < plane->inner_count; i++) {             \
                memcpy(t, f, size);                                         \
                t += plane->to_inner;                                       \
                f += plane->from_inner;                                     \
            }                                                               \
        }                                                                   \
    }

DEFINE_PLANE(plane_1, 1)
DEFINE_PLANE(plane_2, 2)
DEFINE_PLANE(plane_4, 4)
DEFINE_PLANE(plane_8, 8)
DEFINE_PLANE(plane_12, 12)
DEFINE_PLANE(plane_16, 16)
DEFINE_PLANE(plane_24, 24)
DEFINE_PLANE(plane_32, 32)
DEFINE_PLANE(plane_48, 48)
DEFINE_PLANE(plane_64, 64)
DEFINE_PLANE(plane_any, plane->bytes)

static void plane_stream(const struct plane *plane, char *to, const char *from)
{
    for (uint64_t o = 0; o < plane->outer_count; o++) {
        char *t = to + o * plane->to_outer;
        const char *f = from + o * plane->from_outer;
        for (uint64_t i = 0; i < plane->inner_count; i++) {
            mkt_nontemporal_copy(t, f, plane->bytes, f + plane->from_inner);
            t += plane->to_inner;
            f += plane->from_inner;
        }
    }
}

/* Where streaming pays: beyond what a core's share of the caches holds, and in runs of a few lines.
 */
#define STREAM_MOVE_BYTES ((uint64_t)8 << 20)
#define STREAM_RUN_BYTES  256

static bool should_stream(const struct mkt_move *move)
{
    uint64_t total = move->bytes;

    if (!MKT_NONTEMPORAL_AVAILABLE || move->bytes < STREAM_RUN_BYTES)
        return false;
    for (uint32_t i = 0; i < move->loops; i++)
        total *= move->loop[i].count;
    return total > STREAM_MOVE_BYTES;
}

static plane_fn plane_of(uint64_t bytes)
{
    switch (bytes) {
    case 1:
        return plane_1;
    case 2:
        return plane_2;
    case 4:
        return plane_4;
    case 8:
        return plane_8;
    case 12:
        return plane_12;
    case 16:
        return plane_16;
    case 24:
        return plane_24;
    case 32:
        return plane_32;
    case 48:
        return plane_48;
    case 64:
        return plane_64;
    default:
        return plane_any;
    }
}

struct sides {
    const struct mkt_move *move;
    bool get;
    struct plane plane;
    plane_fn copy;
};

static uint64_t to_step(const struct sides *sides, const struct mkt_loop *loop)
{
    return sides->get ? loop->mem_step : loop->piece_step;
}

static uint64_t from_step(const struct sides *sides, const struct mkt_loop *loop)
{
    return sides->get ? loop->piece_step : loop->mem_step;
}

/* depth is at most MKT_MAX_LOOPS. */
static void walk(const struct sides *sides, uint32_t depth, char *to, const char *from)
{
    if (depth + 2 >= sides->move->loops) {
        sides->copy(&sides->plane, to, from);
        return;
    }
    const struct mkt_loop *loop = &sides->move->loop[depth];
    for (uint64_t i = 0; i < loop->count; i++)
        walk(sides, depth + 1, to + i * to_step(sides, loop), from + i * from_step(sides, loop));
}

static void set_plane(struct sides *sides)
{
    const struct mkt_move *move = sides->move;
    const struct mkt_loop one = {1, 0, 0};
    const struct mkt_loop *inner = move->loops > 0 ? &move->loop[move->loops - 1] : &one;
    const struct mkt_loop *outer = move->loops > 1 ? &move->loop[move->loops - 2] : &one;

    sides->plane = (struct plane){
        .bytes = move->bytes,
        .inner_count = inner->count,
        .outer_count = outer->count,
        .to_inner = to_step(sides, inner),
        .from_inner = from_step(sides, inner),
        .to_outer = to_step(sides, outer),
        .from_outer = from_step(sides, outer),
    };
    sides->copy = should_stream(move) ? plane_stream : plane_of(move->bytes);
}

static void shm_move(const struct mkt_move *move, enum mkt_direction direction, void *memory,
                     void *piece)
{
    struct sides sides = {.move = move, .get = direction == MKT_GET};
    char *m = (char *)memory + move->mem, *p = (char *)piece + move->piece;

    set_plane(&sides);
    if (sides.get)
        walk(&sides, 0, m, p);
    else
        walk(&sides, 0, p, m);
    if (sides.copy == plane_stream)
        mkt_nontemporal_fence();
}

const struct mkt_engine_ops mkt_engine_shm = {.name = "shm", .move = shm_move};
