/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The planner and an engine against a model that goes element by element: for each element of the
 * wanted slab it asks whether the piece holds it and where. Memory and piece hold values that name
 * their place, so a byte that comes from the wrong place, comes twice or goes astray shows.
 */
#include "core/geometry/plan.h"
#include "tests/unit/random.h"
#include "transport/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASES  8000
#define POISON 0xa5

struct scenario {
    uint32_t rank, element_bytes;
    uint64_t dims[MKT_MAX_RANK];
    struct mkt_slab want;
    struct mkt_layout layout;
    struct mkt_piece piece;
    uint8_t *table;
    uint64_t memory_bytes;
};

/* A random slab inside dims, boxes and cyclic ones alike. */
static void random_dim(uint64_t *seed, uint64_t extent, bool box, struct mkt_dim *dim)
{
    uint64_t start = random_in(seed, 0, random_in(seed, 0, 3) == 0 ? extent - 1 : (extent - 1) / 4),
             room = extent - start;

    *dim = (struct mkt_dim){
        start, 1, 1, room - random_in(seed, 0, random_in(seed, 0, 3) == 0 ? room - 1 : room / 4)};
    dim->stride = dim->block;
    if (box || random_in(seed, 0, 2) == 0)
        return;
    dim->block = random_in(seed, 1, room < 4 ? room : 4);
    dim->stride = dim->block + random_in(seed, 0, 3);
    uint64_t most = (room - dim->block) / dim->stride + 1;
    dim->count = most - random_in(seed, 0, most / 4);
}

static void random_slab(uint64_t *seed, const struct scenario *s, bool box, struct mkt_slab *slab)
{
    slab->rank = s->rank;
    for (uint32_t d = 0; d < s->rank; d++)
        random_dim(seed, s->dims[d], box, &slab->dim[d]);
    assert_true(mkt_slab_is_valid(slab, s->dims));
}

/* Packed, a box inside a larger buffer, or a strided selection of memory: each the layout of a
 * memory slab. */
static void random_layout(uint64_t *seed, struct scenario *s)
{
    uint64_t pitch = s->element_bytes, kind = random_in(seed, 0, 3);

    s->layout.base_bytes = kind == 0 ? 0 : random_in(seed, 0, 9);
    if (kind == 0) {
        mkt_layout_packed(&s->layout, &s->want, s->element_bytes, 0);
        s->memory_bytes = mkt_slab_elements(&s->want) * s->element_bytes;
        return;
    }
    if (random_in(seed, 0, 3) == 0) /* a member of larger records */
        pitch += random_in(seed, 1, 9);
    for (uint32_t d = s->rank; d-- > 0;) {
        struct mkt_layout_dim *dim = &s->layout.dim[d];
        uint64_t elements = mkt_dim_elements(&s->want.dim[d]);

        dim->start = random_in(seed, 0, 2);
        dim->block = kind == 1 ? elements : random_in(seed, 1, elements);
        if (kind == 2) /* as selected in the file */
            dim->block = s->want.dim[d].block;
        dim->stride = dim->block + (kind == 1 ? 0 : random_in(seed, 0, 2));
        dim->pitch_bytes = pitch;
        uint64_t blocks = (elements + dim->block - 1) / dim->block;
        pitch *= dim->start + blocks * dim->stride + random_in(seed, 0, 1);
    }
    s->memory_bytes = s->layout.base_bytes + pitch;
}

static void random_mask(uint64_t *seed, struct scenario *s, uint64_t elements)
{
    uint64_t density = random_in(seed, 0, 2);

    s->piece.table.length = elements / 8 + (elements % 8 != 0);
    s->table = calloc(1, s->piece.table.length);
    for (uint64_t i = 0; i < elements; i++) {
        bool set = density == 0   ? random_in(seed, 0, 1)
                   : density == 1 ? (i / 13 % 2) == 0
                                  : random_in(seed, 0, 9) != 0;
        if (set)
            s->table[i / 8] |= (uint8_t)(1u << (i % 8));
    }
}

static void random_list(uint64_t *seed, struct scenario *s, uint64_t elements)
{
    uint64_t longest = random_in(seed, 0, 2) == 0 ? 1 : random_in(seed, 1, 40),
             at = random_in(seed, 0, elements - 1);
    uint64_t held = 0, entries = 0, *pair = malloc(elements * 16);

    while (at < elements) {
        uint64_t length = random_in(seed, 1, longest);

        if (length > elements - at)
            length = elements - at;
        pair[2 * entries] = at;
        pair[2 * entries + 1] = length;
        entries++;
        held += length;
        at += length + random_in(seed, 0, 3);
    }
    s->table = (uint8_t *)pair;
    s->piece.table.length = entries * 16;
    s->piece.data.length = held * s->element_bytes;
}

static void random_piece(uint64_t *seed, struct scenario *s)
{
    memset(&s->piece, 0, sizeof(s->piece));
    s->piece.form = (enum mkt_piece_form)random_in(seed, MKT_PIECE_BOX, MKT_PIECE_LIST);
    s->table = NULL;
    random_slab(seed, s, s->piece.form != MKT_PIECE_SLAB, &s->piece.slab);
    uint64_t elements = mkt_slab_elements(&s->piece.slab);
    s->piece.data.length = elements * s->element_bytes;
    if (s->piece.form == MKT_PIECE_MASKED)
        random_mask(seed, s, elements);
    if (s->piece.form == MKT_PIECE_LIST)
        random_list(seed, s, elements);
    assert_true(mkt_piece_table_is_valid(&s->piece, s->table, s->element_bytes));
}

static void random_scenario(uint64_t *seed, struct scenario *s)
{
    static const uint64_t most[] = {1, 1500, 60, 20, 11, 8};
    static const uint32_t sizes[] = {1, 2, 3, 4, 8, 12, 16, 24};

    s->rank = (uint32_t)random_in(seed, 0, 24) == 0 ? 0 : (uint32_t)random_in(seed, 1, 5);
    s->element_bytes = sizes[random_in(seed, 0, 7)];
    for (uint32_t d = 0; d < s->rank; d++)
        s->dims[d] =
            random_in(seed, random_in(seed, 0, 9) == 0 ? 1 : most[s->rank] / 2, most[s->rank]);
    random_slab(seed, s, random_in(seed, 0, 2) == 0, &s->want);
    random_layout(seed, s);
    random_piece(seed, s);
}

/* The model. */

static void coords_of(const struct mkt_slab *slab, uint64_t index, uint64_t *coords)
{
    for (uint32_t d = slab->rank; d-- > 0;) {
        const struct mkt_dim *dim = &slab->dim[d];
        uint64_t elements = dim->count * dim->block, i = index % elements;

        coords[d] = dim->start + i / dim->block * dim->stride + i % dim->block;
        index /= elements;
    }
}

#define MAX_EXTENT 1500

/* For each dimension and coordinate the packed index along the dimension, or -1. */
struct map {
    int at[5][MAX_EXTENT];
};

static void map_slab(const struct mkt_slab *slab, struct map *map)
{
    memset(map->at, 0xff, sizeof(map->at));
    for (uint32_t d = 0; d < slab->rank; d++) {
        int index = 0;

        for (uint64_t c = 0; c < slab->dim[d].count; c++)
            for (uint64_t b = 0; b < slab->dim[d].block; b++)
                map->at[d][slab->dim[d].start + c * slab->dim[d].stride + b] = index++;
    }
}

static bool index_of(const struct mkt_slab *slab, const struct map *map, const uint64_t *coords,
                     uint64_t *index_out)
{
    uint64_t index = 0;

    for (uint32_t d = 0; d < slab->rank; d++) {
        if (map->at[d][coords[d]] < 0)
            return false;
        index = index * slab->dim[d].count * slab->dim[d].block + (uint64_t)map->at[d][coords[d]];
    }
    *index_out = index;
    return true;
}

/* For each packed index of the piece's slab its element in the data, or UINT64_MAX. */
static uint64_t *places_of(const struct scenario *s)
{
    uint64_t elements = mkt_slab_elements(&s->piece.slab), held = 0,
             *place = malloc(elements * sizeof(*place));
    const uint64_t *pair = (const uint64_t *)s->table;

    for (uint64_t i = 0; i < elements; i++)
        place[i] = s->piece.form == MKT_PIECE_LIST ? UINT64_MAX : i;
    if (s->piece.form == MKT_PIECE_MASKED)
        for (uint64_t i = 0; i < elements; i++)
            if (!(s->table[i / 8] >> (i % 8) & 1))
                place[i] = UINT64_MAX;
    if (s->piece.form == MKT_PIECE_LIST)
        for (uint64_t e = 0; e < s->piece.table.length / 16; e++)
            for (uint64_t i = 0; i < pair[2 * e + 1]; i++)
                place[pair[2 * e] + i] = held++;
    return place;
}

static uint64_t memory_of(const struct scenario *s, uint64_t index)
{
    uint64_t at = s->layout.base_bytes;

    for (uint32_t d = s->rank; d-- > 0;) {
        const struct mkt_layout_dim *dim = &s->layout.dim[d];
        uint64_t elements = mkt_dim_elements(&s->want.dim[d]), i = index % elements;

        at += (dim->start + i / dim->block * dim->stride + i % dim->block) * dim->pitch_bytes;
        index /= elements;
    }
    return at;
}

static uint64_t model(const struct scenario *s, enum mkt_direction direction, uint8_t *memory,
                      uint8_t *data)
{
    uint64_t *place = places_of(s), moved = 0, coords[MKT_MAX_RANK], index;
    struct map map;

    map_slab(&s->piece.slab, &map);
    for (uint64_t i = 0; i < mkt_slab_elements(&s->want); i++) {
        coords_of(&s->want, i, coords);
        if (!index_of(&s->piece.slab, &map, coords, &index) || place[index] == UINT64_MAX)
            continue;
        uint8_t *m = memory + memory_of(s, i), *p = data + place[index] * s->element_bytes;
        memcpy(direction == MKT_GET ? m : p, direction == MKT_GET ? p : m, s->element_bytes);
        moved++;
    }
    free(place);
    return moved;
}

/* The subject. */

struct execution {
    const struct scenario *s;
    enum mkt_direction direction;
    uint8_t *memory, *data;
    uint64_t bytes;
};

static void execute(void *context, const struct mkt_move *move)
{
    struct execution *e = context;
    uint64_t bytes = move->bytes, mem_end = move->mem + move->bytes,
             piece_end = move->piece + move->bytes;

    assert_true(move->loops <= MKT_MAX_LOOPS);
    for (uint32_t i = 0; i < move->loops; i++) {
        assert_true(move->loop[i].count > 1);
        bytes *= move->loop[i].count;
        mem_end += (move->loop[i].count - 1) * move->loop[i].mem_step;
        piece_end += (move->loop[i].count - 1) * move->loop[i].piece_step;
    }
    assert_true(mem_end <= e->s->memory_bytes && piece_end <= e->s->piece.data.length);
    e->bytes += bytes;
    mkt_engine_shm.move(move, e->direction, e->memory, e->data);
}

static uint8_t *filled(uint64_t bytes, uint64_t seed)
{
    uint8_t *buffer = malloc(bytes);

    for (uint64_t i = 0; i < bytes; i++)
        buffer[i] = (uint8_t)random_next(&seed);
    return buffer;
}

static uint8_t *poisoned(uint64_t bytes)
{
    return memset(malloc(bytes), POISON, bytes);
}

static void check_direction(const struct scenario *s, enum mkt_direction direction,
                            uint64_t case_seed)
{
    uint64_t source_bytes = direction == MKT_GET ? s->piece.data.length : s->memory_bytes;
    uint64_t target_bytes = direction == MKT_GET ? s->memory_bytes : s->piece.data.length;
    uint8_t *source = filled(source_bytes, case_seed), *expected = poisoned(target_bytes),
            *actual = poisoned(target_bytes);
    uint64_t wanted = direction == MKT_GET ? model(s, direction, expected, source)
                                           : model(s, direction, source, expected);
    struct execution e = {s, direction, direction == MKT_GET ? actual : source,
                          direction == MKT_GET ? source : actual, 0};
    uint64_t moved =
        mkt_plan_piece(&s->want, &s->layout, &s->piece, s->table, s->element_bytes, execute, &e);

    if (moved != wanted || e.bytes != wanted * s->element_bytes ||
        memcmp(expected, actual, target_bytes) != 0)
        fail_msg("case %llu: form %d rank %u: moved %llu of %llu elements",
                 (unsigned long long)case_seed, (int)s->piece.form, s->rank,
                 (unsigned long long)moved, (unsigned long long)wanted);
    free(source);
    free(expected);
    free(actual);
}

static void test_plan_random_selections_match_model(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= CASES; i++) {
        uint64_t seed = i;
        struct scenario s;

        random_scenario(&seed, &s);
        check_direction(&s, MKT_GET, i);
        check_direction(&s, MKT_PUT, i);
        free(s.table);
    }
}

/* Number and shape of moves: what makes plans cheap. */

struct tally {
    uint64_t moves;
    struct mkt_move last;
};

static void tally_move(void *context, const struct mkt_move *move)
{
    struct tally *tally = context;

    tally->moves++;
    tally->last = *move;
}

static struct mkt_piece box_piece(uint32_t rank, const uint64_t *start, const uint64_t *count,
                                  uint32_t element_bytes)
{
    struct mkt_piece piece = {.form = MKT_PIECE_BOX};

    mkt_slab_box(&piece.slab, rank, start, count);
    piece.data.length = mkt_slab_elements(&piece.slab) * element_bytes;
    return piece;
}

static void test_plan_box_in_box_is_one_move(void **state)
{
    struct mkt_piece piece = box_piece(3, (uint64_t[]){0, 0, 0}, (uint64_t[]){64, 32, 16}, 8);
    struct mkt_slab want;
    struct mkt_layout layout;
    struct tally tally = {0};

    (void)state;
    mkt_slab_box(&want, 3, (uint64_t[]){8, 0, 0}, (uint64_t[]){8, 32, 16});
    mkt_layout_packed(&layout, &want, 8, 0);
    assert_int_equal(mkt_plan_piece(&want, &layout, &piece, NULL, 8, tally_move, &tally),
                     8 * 32 * 16);
    assert_int_equal(tally.moves, 1);
    assert_int_equal(tally.last.loops, 0);
    assert_int_equal(tally.last.bytes, 8 * 32 * 16 * 8);
    assert_int_equal(tally.last.piece, 8 * 32 * 16 * 8);

    mkt_slab_box(&want, 3, (uint64_t[]){0, 0, 8}, (uint64_t[]){64, 32, 8});
    mkt_layout_packed(&layout, &want, 8, 0);
    memset(&tally, 0, sizeof(tally));
    assert_int_equal(mkt_plan_piece(&want, &layout, &piece, NULL, 8, tally_move, &tally),
                     64 * 32 * 8);
    assert_int_equal(tally.moves, 1);
    assert_int_equal(tally.last.loops, 1); /* the two outer loops melt into one */
    assert_int_equal(tally.last.loop[0].count, 64 * 32);
    assert_int_equal(tally.last.bytes, 64);
}

static void test_plan_huge_cyclic_costs_few_moves(void **state)
{
    const uint64_t blocks = (uint64_t)1 << 40;
    struct mkt_slab want = {1, {{5, 7, blocks, 3}}};
    struct mkt_piece piece = {.form = MKT_PIECE_SLAB, .slab = {1, {{4, 14, blocks / 2, 9}}}};
    struct mkt_layout layout;
    struct tally tally = {0};

    (void)state;
    piece.data.length = mkt_slab_elements(&piece.slab);
    mkt_layout_packed(&layout, &want, 1, 0);
    /* In each 14: the want has 5..7 and 12..14, the piece 4..12. */
    assert_int_equal(mkt_plan_piece(&want, &layout, &piece, NULL, 1, tally_move, &tally),
                     blocks / 2 * 4);
    assert_int_equal(tally.moves, 2); /* runs of two lengths alternate: a row of each */
}

static void test_plan_cyclic_in_box_folds(void **state)
{
    const uint64_t blocks = (uint64_t)1 << 40;
    struct mkt_slab want = {1, {{0, 7, blocks, 3}}};
    struct mkt_piece piece = box_piece(1, (uint64_t[]){8}, (uint64_t[]){7 * (blocks - 3) + 1}, 1);
    struct mkt_layout layout;
    struct tally tally = {0};

    (void)state;
    mkt_layout_packed(&layout, &want, 1, 0);
    /* 8 and 9 of block 1, whole blocks from 14 on, and an end that may be cut. */
    assert_true(mkt_plan_piece(&want, &layout, &piece, NULL, 1, tally_move, &tally) >
                3 * (blocks - 4));
    assert_in_range(tally.moves, 2, 3);
}

static void test_plan_even_and_odd_never_meet(void **state)
{
    const uint64_t count = (uint64_t)1 << 40;
    struct mkt_slab want = {1, {{0, 2, count, 1}}};
    struct mkt_piece piece = {.form = MKT_PIECE_SLAB, .slab = {1, {{1, 4, count / 2, 1}}}};
    struct mkt_layout layout;
    struct tally tally = {0};

    (void)state;
    mkt_layout_packed(&layout, &want, 1, 0);
    assert_int_equal(mkt_plan_piece(&want, &layout, &piece, NULL, 1, tally_move, &tally), 0);
    assert_int_equal(tally.moves, 0);
}

static void test_plan_scalar_moves_its_element(void **state)
{
    struct mkt_slab want = {.rank = 0};
    struct mkt_piece piece = {.form = MKT_PIECE_BOX, .slab = {.rank = 0}, .data = {1, 0, 0, 8}};
    struct mkt_layout layout;
    struct tally tally = {0};

    (void)state;
    mkt_layout_packed(&layout, &want, 8, 40);
    assert_int_equal(mkt_plan_piece(&want, &layout, &piece, NULL, 8, tally_move, &tally), 1);
    assert_int_equal(tally.moves, 1);
    assert_int_equal(tally.last.mem, 40);
    assert_int_equal(tally.last.bytes, 8);
    assert_int_equal(tally.last.loops, 0);
}

static void test_plan_ranks_that_differ_move_nothing(void **state)
{
    struct mkt_piece piece = box_piece(2, (uint64_t[]){0, 0}, (uint64_t[]){4, 4}, 1);
    struct mkt_slab want;
    struct mkt_layout layout;
    struct tally tally = {0};

    (void)state;
    mkt_slab_box(&want, 1, (uint64_t[]){0}, (uint64_t[]){4});
    mkt_layout_packed(&layout, &want, 1, 0);
    assert_int_equal(mkt_plan_piece(&want, &layout, &piece, NULL, 1, tally_move, &tally), 0);
}

/* Every dimension cyclic at rank 32: two loops in each. */
static void test_plan_full_rank_cyclic_has_room_for_its_loops(void **state)
{
    struct mkt_slab want = {.rank = MKT_MAX_RANK};
    struct mkt_piece piece = {.form = MKT_PIECE_BOX, .slab = {.rank = MKT_MAX_RANK}};
    struct mkt_layout layout = {0};
    struct tally tally = {0};

    (void)state;
    for (int d = 0; d < MKT_MAX_RANK; d++) {
        bool wide = d < 12;
        want.dim[d] = wide ? (struct mkt_dim){0, 3, 2, 2} : (struct mkt_dim){0, 1, 1, 1};
        piece.slab.dim[d] = wide ? (struct mkt_dim){0, 5, 1, 5} : (struct mkt_dim){0, 1, 1, 1};
        layout.dim[d] =
            (struct mkt_layout_dim){0, 4, 2, (uint64_t)7 << (3 * (12 - (wide ? d : 12)))};
    }
    assert_int_equal(mkt_plan_piece(&want, &layout, &piece, NULL, 1, tally_move, &tally),
                     (uint64_t)1 << 24);
    assert_int_equal(tally.moves, 1);
    assert_int_equal(tally.last.loops, 24);
}

/* Tables from a hostile client. */

static bool list_valid(uint64_t box, uint64_t held, const uint64_t *pairs, uint64_t entries)
{
    struct mkt_piece piece = {.form = MKT_PIECE_LIST};

    mkt_slab_box(&piece.slab, 1, (uint64_t[]){0}, &box);
    piece.data.length = held * 4;
    piece.table.length = entries * 16;
    return mkt_piece_table_is_valid(&piece, pairs, 4);
}

static void test_table_list_bad_content_is_refused(void **state)
{
    (void)state;
    assert_true(list_valid(10, 5, (uint64_t[]){0, 2, 2, 1, 8, 2}, 3));
    assert_false(list_valid(10, 4, (uint64_t[]){0, 2, 2, 1, 8, 2}, 3)); /* sum */
    assert_false(list_valid(10, 5, (uint64_t[]){2, 2, 0, 1, 8, 2}, 3)); /* order */
    assert_false(list_valid(10, 5, (uint64_t[]){0, 3, 2, 1, 9, 1}, 3)); /* overlap */
    assert_false(list_valid(10, 5, (uint64_t[]){0, 3, 9, 2}, 2));       /* outside */
    assert_false(list_valid(10, 2, (uint64_t[]){0, 2, 4, 0}, 2));       /* empty */
    assert_false(list_valid(10, 1, (uint64_t[]){0, 2, 4, UINT64_MAX}, 2));
}

static void test_table_mask_too_short_is_refused(void **state)
{
    struct mkt_piece piece = {.form = MKT_PIECE_MASKED, .table = {.length = 2}};
    const uint8_t bits[3] = {0};

    (void)state;
    mkt_slab_box(&piece.slab, 1, (uint64_t[]){0}, (uint64_t[]){17});
    assert_false(mkt_piece_table_is_valid(&piece, bits, 1));
    assert_false(mkt_piece_table_is_valid(&piece, NULL, 1));
    piece.table.length = 3;
    assert_true(mkt_piece_table_is_valid(&piece, bits, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_random_selections_match_model),
        cmocka_unit_test(test_plan_box_in_box_is_one_move),
        cmocka_unit_test(test_plan_huge_cyclic_costs_few_moves),
        cmocka_unit_test(test_plan_cyclic_in_box_folds),
        cmocka_unit_test(test_plan_even_and_odd_never_meet),
        cmocka_unit_test(test_plan_scalar_moves_its_element),
        cmocka_unit_test(test_plan_ranks_that_differ_move_nothing),
        cmocka_unit_test(test_plan_full_rank_cyclic_has_room_for_its_loops),
        cmocka_unit_test(test_table_list_bad_content_is_refused),
        cmocka_unit_test(test_table_mask_too_short_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
