/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conformance/engine_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct {
    const struct mkt_engine_ops *engine;
    uint64_t memory_bytes, piece_bytes, moves;
} checker;

void checking_engine_wrap(const struct mkt_engine_ops *engine)
{
    checker.engine = engine;
    checker.moves = 0;
}

void checking_engine_set_regions(uint64_t memory_bytes, uint64_t piece_bytes)
{
    checker.memory_bytes = memory_bytes;
    checker.piece_bytes = piece_bytes;
}

uint64_t checking_engine_moves(void)
{
    return checker.moves;
}

static void mark_runs(const struct mkt_move *move, bool memory_side, uint32_t depth, uint64_t at,
                      uint8_t *named)
{
    if (depth == move->loops) {
        memset(named + at, 1, move->bytes);
        return;
    }
    const struct mkt_loop *loop = &move->loop[depth];
    for (uint64_t i = 0; i < loop->count; i++)
        mark_runs(move, memory_side, depth + 1,
                  at + i * (memory_side ? loop->mem_step : loop->piece_step), named);
}

static void check_bounds(const struct mkt_move *move)
{
    uint64_t mem = move->mem + move->bytes, piece = move->piece + move->bytes;

    assert_true(move->bytes > 0 && move->loops <= MKT_MAX_LOOPS);
    for (uint32_t i = 0; i < move->loops; i++) {
        assert_true(move->loop[i].count > 0);
        mem += (move->loop[i].count - 1) * move->loop[i].mem_step;
        piece += (move->loop[i].count - 1) * move->loop[i].piece_step;
    }
    assert_true(mem <= checker.memory_bytes && piece <= checker.piece_bytes);
}

static void *copy_of(const void *bytes, uint64_t length)
{
    return memcpy(malloc(length), bytes, length);
}

static void checked_move(const struct mkt_move *move, enum mkt_direction direction, void *memory,
                         void *piece)
{
    bool get = direction == MKT_GET;
    uint64_t target_bytes = get ? checker.memory_bytes : checker.piece_bytes;
    uint64_t source_bytes = get ? checker.piece_bytes : checker.memory_bytes;
    uint8_t *target = get ? memory : piece, *source = get ? piece : memory;

    check_bounds(move);
    uint8_t *named = calloc(1, target_bytes), *target_before = copy_of(target, target_bytes);
    uint8_t *source_before = copy_of(source, source_bytes);
    checker.engine->move(move, direction, memory, piece);
    checker.moves++;
    mark_runs(move, get, 0, get ? move->mem : move->piece, named);
    for (uint64_t i = 0; i < target_bytes; i++)
        if (!named[i] && target[i] != target_before[i])
            fail_msg("byte %llu changed but no run names it", (unsigned long long)i);
    assert_memory_equal(source, source_before, source_bytes);
    free(named);
    free(target_before);
    free(source_before);
}

const struct mkt_engine_ops checking_engine = {.name = "checking", .move = checked_move};
