/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/index.h"
#include "core/geometry/index_layout.h"
#include "tests/unit/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The pieces of one array, kept beside the index. */
struct model {
    struct mkt_array array;
    struct mkt_piece *pieces;
    uint32_t count;
};

struct index {
    void *bytes;
    uint64_t length;
    struct mkt_index_view view;
};

static struct mkt_array array_of(uint64_t identity, uint32_t rank, uint32_t element_bytes)
{
    struct mkt_array array = {
        .identity = identity, .element_bytes = element_bytes, .flags = 7, .rank = rank};

    memcpy(array.token, &identity, sizeof(identity));
    array.token[15] = 1;
    for (uint32_t d = 0; d < rank; d++)
        array.dims[d] = 1000 + d;
    return array;
}

static struct index build(const struct model *models, uint32_t count)
{
    struct mkt_index_builder *builder = mkt_index_builder_create();
    struct index index;

    for (uint32_t m = 0; m < count; m++) {
        assert_int_equal(mkt_index_builder_add_array(builder, &models[m].array), MKT_OK);
        for (uint32_t i = 0; i < models[m].count; i++)
            assert_int_equal(mkt_index_builder_add_piece(builder, &models[m].pieces[i]), MKT_OK);
    }
    assert_int_equal(mkt_index_builder_finish(builder, &index.bytes, &index.length), MKT_OK);
    mkt_index_builder_destroy(builder);
    assert_int_equal(mkt_index_view_open(&index.view, index.bytes, index.length), MKT_OK);
    return index;
}

static void set_box(struct mkt_piece *piece, uint32_t rank, const uint64_t *start,
                    const uint64_t *count, uint32_t element_bytes, uint64_t stamp)
{
    memset(piece, 0, sizeof(*piece));
    piece->form = MKT_PIECE_BOX;
    piece->stamp = stamp;
    mkt_slab_box(&piece->slab, rank, start, count);
    piece->data =
        (struct mkt_extent){1, 0, stamp * 4096, mkt_slab_elements(&piece->slab) * element_bytes};
}

static void random_piece(uint64_t *seed, uint32_t rank, uint64_t space, uint64_t size,
                         uint64_t stamp, struct mkt_piece *piece)
{
    uint64_t start[MKT_MAX_RANK], count[MKT_MAX_RANK];

    for (uint32_t d = 0; d < rank; d++) {
        start[d] = random_in(seed, 0, space);
        count[d] = random_in(seed, 1, size);
    }
    set_box(piece, rank, start, count, 8, stamp);
    if (random_in(seed, 0, 3) == 0) { /* records of another length among them */
        piece->form = MKT_PIECE_SLAB;
        for (uint32_t d = 0; d < rank; d++)
            piece->slab.dim[d] = (struct mkt_dim){start[d], 3, count[d], 2};
        piece->data.length = mkt_slab_elements(&piece->slab) * 8;
    }
}

static struct model random_model(uint64_t *seed, uint64_t identity, uint32_t rank, uint32_t count,
                                 uint64_t space, uint64_t size)
{
    struct model model = {array_of(identity, rank, 8),
                          malloc((count + 1) * sizeof(struct mkt_piece)), count};

    for (uint32_t i = 0; i < count; i++)
        random_piece(seed, rank, space, size, i, &model.pieces[i]);
    return model;
}

/* Compares a query with the model's own scan. */

struct expectation {
    const struct model *model;
    const struct mkt_slab *want;
    uint32_t next, calls;
};

static enum mkt_status expect_piece(void *context, const struct mkt_piece *piece)
{
    struct expectation *e = context;

    while (e->next < e->model->count &&
           !mkt_slab_bounds_meet(&e->model->pieces[e->next].slab, e->want))
        e->next++;
    assert_true(e->next < e->model->count);
    const struct mkt_piece *expected = &e->model->pieces[e->next++];
    assert_int_equal(piece->stamp, expected->stamp);
    assert_int_equal(piece->form, expected->form);
    assert_memory_equal(&piece->data, &expected->data, sizeof(piece->data));
    assert_true(mkt_slab_equal(&piece->slab, &expected->slab));
    e->calls++;
    return MKT_OK;
}

static uint32_t check_query(const struct index *index, uint32_t position, const struct model *model,
                            const struct mkt_slab *want)
{
    struct expectation e = {model, want, 0, 0};

    assert_int_equal(mkt_index_view_query(&index->view, position, want, expect_piece, &e), MKT_OK);
    for (; e.next < model->count; e.next++)
        assert_false(mkt_slab_bounds_meet(&model->pieces[e.next].slab, want));
    return e.calls;
}

static void random_want(uint64_t *seed, uint32_t rank, uint64_t space, uint64_t size,
                        struct mkt_slab *want)
{
    uint64_t start[MKT_MAX_RANK], count[MKT_MAX_RANK];

    for (uint32_t d = 0; d < rank; d++) {
        start[d] = random_in(seed, 0, space);
        count[d] = random_in(seed, 1, size);
    }
    mkt_slab_box(want, rank, start, count);
}

static void test_index_query_matches_scan(void **state)
{
    static const uint32_t counts[] = {0, 1, 15, 16, 17, 255, 256, 257, 4097};
    uint64_t seed = 11;

    (void)state;
    for (uint32_t rank = 0; rank <= 5; rank++)
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            uint64_t space = 200;
            struct model model = random_model(&seed, 3, rank, counts[c], space, 12);
            struct index index = build(&model, 1);

            assert_int_equal(mkt_index_view_pieces(&index.view, 0), counts[c]);
            for (int i = 0; i < 12; i++) {
                struct mkt_slab want;
                random_want(&seed, rank, space, i < 6 ? 40 : 400, &want);
                check_query(&index, 0, &model, &want);
            }
            free(index.bytes);
            free(model.pieces);
        }
}

static void test_index_hundred_thousand_pieces_match_scan(void **state)
{
    uint64_t seed = 5, calls = 0;
    struct model model = random_model(&seed, 1, 3, 100000, 3000, 60);
    struct index index = build(&model, 1);

    (void)state;
    for (int i = 0; i < 60; i++) {
        struct mkt_slab want;
        random_want(&seed, 3, 3000, 400, &want);
        calls += check_query(&index, 0, &model, &want);
    }
    assert_true(calls > 1000);
    free(index.bytes);
    free(model.pieces);
}

/* A tree that leads nowhere near would pass the tests above: count what a small query decodes. */
static void test_index_small_query_is_selective(void **state)
{
    struct model model = {array_of(1, 3, 8), malloc(32768 * sizeof(struct mkt_piece)), 0};

    (void)state;
    for (uint64_t i = 0; i < 32; i++)
        for (uint64_t j = 0; j < 32; j++)
            for (uint64_t k = 0; k < 32; k++, model.count++)
                set_box(&model.pieces[model.count], 3, (uint64_t[]){i * 8, j * 8, k * 8},
                        (uint64_t[]){8, 8, 8}, 8, model.count);
    struct index index = build(&model, 1);
    struct mkt_index_array_disk entry;
    struct mkt_index_header_disk header;
    memcpy(&header, index.bytes, sizeof(header));
    memcpy(&entry, (char *)index.bytes + header.arrays_offset, sizeof(entry));
    const uint64_t *box = (const uint64_t *)((char *)index.bytes + entry.nodes_offset);
    uint64_t leaves = 32768 / MKT_INDEX_FANOUT, met = 0;
    for (uint64_t leaf = 0; leaf < leaves; leaf++, box += 6)
        met +=
            box[0] < 17 && box[1] > 16 && box[2] < 17 && box[3] > 16 && box[4] < 17 && box[5] > 16;
    assert_in_range(met, 1, 4); /* leaves that hold the element (16, 16, 16) in their box */
    struct mkt_slab want;
    mkt_slab_box(&want, 3, (uint64_t[]){16, 16, 16}, (uint64_t[]){1, 1, 1});
    assert_int_equal(check_query(&index, 0, &model, &want), 1);
    assert_true(mkt_index_view_disjoint(&index.view, 0));
    /* The data are 128 MiB in pieces of 4 KiB. */
    assert_true(index.length * 10 < (uint64_t)32768 * 4096);
    free(index.bytes);
    free(model.pieces);
}

static void test_index_overlap_clears_disjoint(void **state)
{
    struct model model = {array_of(1, 2, 8), malloc(4096 * sizeof(struct mkt_piece)), 0};

    (void)state;
    for (uint64_t i = 0; i < 64; i++)
        for (uint64_t j = 0; j < 64; j++, model.count++)
            set_box(&model.pieces[model.count], 2, (uint64_t[]){i * 8, j * 8}, (uint64_t[]){8, 8},
                    8, model.count);
    model.pieces[777].slab.dim[1].block++; /* one row into its neighbour */
    model.pieces[777].data.length = mkt_slab_elements(&model.pieces[777].slab) * 8;
    struct index index = build(&model, 1);
    assert_false(mkt_index_view_disjoint(&index.view, 0));
    free(index.bytes);
    free(model.pieces);
}

/* Cyclic pieces: their boxes overlap, their elements don't. */
static void test_index_cyclic_pieces_are_disjoint(void **state)
{
    struct mkt_piece pieces[24];
    struct model model = {array_of(1, 2, 8), pieces, 24};

    (void)state;
    for (uint64_t i = 0; i < 24; i++) {
        memset(&pieces[i], 0, sizeof(pieces[i]));
        pieces[i].form = MKT_PIECE_SLAB;
        pieces[i].slab = (struct mkt_slab){2, {{0, 4, 1, 4}, {i * 2, 48, 100, 2}}};
        pieces[i].data.length = mkt_slab_elements(&pieces[i].slab) * 8;
    }
    for (model.count = 4; model.count <= 24; model.count += 20) {
        struct index index = build(&model, 1);
        assert_true(mkt_index_view_disjoint(&index.view, 0));
        free(index.bytes);
    }
    pieces[3].slab.dim[1].start++;
    model.count = 24;
    struct index index = build(&model, 1);
    assert_false(mkt_index_view_disjoint(&index.view, 0));
    free(index.bytes);
}

/* Disjointness must never be claimed wrongly. */
static void test_index_disjoint_claims_hold(void **state)
{
    uint64_t seed = 99, claimed = 0;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        uint32_t count = (uint32_t)random_in(&seed, 2, 3);
        struct mkt_piece pieces[3];
        struct model model = {array_of(1, 1, 1), pieces, count};
        uint8_t owners[256] = {0};
        bool overlap = false;

        for (uint32_t i = 0; i < count; i++) {
            uint64_t block = random_in(&seed, 1, 3);
            memset(&pieces[i], 0, sizeof(pieces[i]));
            pieces[i].form = MKT_PIECE_SLAB;
            pieces[i].slab =
                (struct mkt_slab){1,
                                  {{random_in(&seed, 0, 30), block + random_in(&seed, 0, 9),
                                    random_in(&seed, 1, 12), block}}};
            pieces[i].data.length = mkt_slab_elements(&pieces[i].slab);
            for (uint64_t e = 0; e < pieces[i].data.length; e++) {
                const struct mkt_dim *dim = &pieces[i].slab.dim[0];
                uint8_t *owner = &owners[dim->start + e / block * dim->stride + e % block];
                overlap |= *owner != 0;
                *owner = 1;
            }
        }
        struct index index = build(&model, 1);
        bool disjoint = mkt_index_view_disjoint(&index.view, 0);
        assert_int_equal(disjoint, !overlap); /* small sets are told exactly */
        claimed += disjoint;
        free(index.bytes);
    }
    assert_true(claimed > 100);
}

static void test_index_arrays_are_found(void **state)
{
    enum {
        arrays = 500
    };
    struct model models[arrays];
    uint64_t seed = 2;

    (void)state;
    for (uint32_t i = 0; i < arrays; i++) /* identities in no order */
        models[i] = random_model(&seed, (i * 7919u) % 10007u + 1, i % 4, i % 40, 100, 10);
    memset(models[9].array.token, 0, MKT_TOKEN_BYTES);
    memcpy(models[11].array.token, models[10].array.token, MKT_TOKEN_BYTES);
    struct index index = build(models, arrays);
    assert_int_equal(index.view.arrays, arrays);
    for (uint32_t i = 0; i < arrays; i++) {
        struct mkt_array found;
        uint32_t position;

        assert_int_equal(
            mkt_index_view_find_identity(&index.view, models[i].array.identity, &position), MKT_OK);
        assert_int_equal(mkt_index_view_array(&index.view, position, &found), MKT_OK);
        assert_int_equal(found.identity, models[i].array.identity);
        assert_int_equal(found.rank, models[i].array.rank);
        assert_int_equal(found.element_bytes, 8);
        assert_int_equal(found.flags, 7);
        assert_memory_equal(found.dims, models[i].array.dims, found.rank * sizeof(uint64_t));
        assert_int_equal(mkt_index_view_pieces(&index.view, position), models[i].count);
        struct mkt_slab want;
        random_want(&seed, found.rank, 100, 60, &want);
        check_query(&index, position, &models[i], &want);
        if (i == 9) {
            assert_int_equal(
                mkt_index_view_find_token(&index.view, models[i].array.token, &position),
                MKT_NOT_FOUND);
            continue;
        }
        assert_int_equal(mkt_index_view_find_token(&index.view, models[i].array.token, &position),
                         MKT_OK);
        assert_int_equal(mkt_index_view_array(&index.view, position, &found), MKT_OK);
        uint64_t youngest = models[10].array.identity > models[11].array.identity
                                ? models[10].array.identity
                                : models[11].array.identity;
        assert_int_equal(found.identity, i == 10 || i == 11 ? youngest : models[i].array.identity);
    }
    uint32_t position;
    uint8_t absent[MKT_TOKEN_BYTES] = {0xff};
    assert_int_equal(mkt_index_view_find_token(&index.view, absent, &position), MKT_NOT_FOUND);
    assert_int_equal(mkt_index_view_find_identity(&index.view, 999999, &position), MKT_NOT_FOUND);
    for (uint32_t i = 0; i < arrays; i++)
        free(models[i].pieces);
    free(index.bytes);
}

static enum mkt_status stop_at_second(void *context, const struct mkt_piece *piece)
{
    (void)piece;
    return ++*(int *)context == 2 ? MKT_CANCELLED : MKT_OK;
}

static void test_index_query_ends_with_callbacks_status(void **state)
{
    uint64_t seed = 8;
    int calls = 0;

    (void)state;
    struct model model = random_model(&seed, 1, 2, 100, 10, 10);
    struct index index = build(&model, 1);
    struct mkt_slab want;
    mkt_slab_box(&want, 2, (uint64_t[]){0, 0}, (uint64_t[]){50, 50});
    assert_int_equal(mkt_index_view_query(&index.view, 0, &want, stop_at_second, &calls),
                     MKT_CANCELLED);
    assert_int_equal(calls, 2);
    want.rank = 1;
    assert_int_equal(mkt_index_view_query(&index.view, 0, &want, stop_at_second, &calls),
                     MKT_INVALID);
    assert_int_equal(mkt_index_view_query(&index.view, 1, &want, stop_at_second, &calls),
                     MKT_NOT_FOUND);
    free(index.bytes);
    free(model.pieces);
}

static void test_index_twin_identity_is_refused(void **state)
{
    struct mkt_index_builder *builder = mkt_index_builder_create();
    struct mkt_array array = array_of(4, 1, 8);
    void *bytes;
    uint64_t length;

    (void)state;
    assert_int_equal(mkt_index_builder_add_array(builder, &array), MKT_OK);
    assert_int_equal(mkt_index_builder_add_array(builder, &array), MKT_OK);
    assert_int_equal(mkt_index_builder_finish(builder, &bytes, &length), MKT_EXISTS);
    mkt_index_builder_destroy(builder);
}

static void test_index_bad_piece_is_refused(void **state)
{
    struct mkt_index_builder *builder = mkt_index_builder_create();
    struct mkt_array array = array_of(4, 1, 8);
    struct mkt_piece piece;

    (void)state;
    set_box(&piece, 1, (uint64_t[]){0}, (uint64_t[]){10}, 8, 1);
    assert_int_equal(mkt_index_builder_add_piece(builder, &piece), MKT_INVALID); /* of no array */
    assert_int_equal(mkt_index_builder_add_array(builder, &array), MKT_OK);
    piece.data.length--;
    assert_int_equal(mkt_index_builder_add_piece(builder, &piece), MKT_INVALID);
    piece.data.length++;
    assert_int_equal(mkt_index_builder_add_piece(builder, &piece), MKT_OK);
    set_box(&piece, 2, (uint64_t[]){0, 0}, (uint64_t[]){10, 1}, 8, 1);
    assert_int_equal(mkt_index_builder_add_piece(builder, &piece), MKT_INVALID);
    mkt_index_builder_destroy(builder);
}

static enum mkt_status ignore_piece(void *context, const struct mkt_piece *piece)
{
    (void)context;
    (void)piece;
    return MKT_OK;
}

/* A query over bytes that may be wrong: what it says of pieces is right, and it has seen all, or it
 * says that something is wrong. */
static bool query_is_right_or_corrupt(const struct mkt_index_view *view, const struct model *model,
                                      const struct mkt_slab *want)
{
    struct expectation e = {model, want, 0, 0};
    enum mkt_status status = mkt_index_view_query(view, 0, want, expect_piece, &e);

    if (status == MKT_CORRUPT)
        return false;
    assert_int_equal(status, MKT_OK);
    for (; e.next < model->count; e.next++)
        assert_false(mkt_slab_bounds_meet(&model->pieces[e.next].slab, want));
    return true;
}

/* Opens it and looks for one place and for everything; true if nothing was found to be wrong. */
static bool reads_well(struct index *index, const struct model *model)
{
    struct mkt_slab some, all;
    struct mkt_index_view view;

    mkt_slab_box(&some, 2, (uint64_t[]){20, 20}, (uint64_t[]){3, 3});
    mkt_slab_box(&all, 2, (uint64_t[]){0, 0}, (uint64_t[]){1000, 1000});
    if (mkt_index_view_open(&view, index->bytes, index->length) != MKT_OK)
        return false;
    bool some_is_right = query_is_right_or_corrupt(&view, model, &some);
    return query_is_right_or_corrupt(&view, model, &all) && some_is_right;
}

static void test_index_flipped_bit_is_corrupt(void **state)
{
    uint64_t seed = 3, found = 0;

    (void)state;
    struct model model = random_model(&seed, 1, 2, 2500, 50, 5);
    struct index index = build(&model, 1);
    struct mkt_index_header_disk header;
    struct mkt_index_array_disk entry;
    memcpy(&header, index.bytes, sizeof(header));
    memcpy(&entry, (char *)index.bytes + header.arrays_offset, sizeof(entry));
    assert_true(index.length > 128 * MKT_INDEX_BLOCK_BYTES); /* two tables of sums */
    for (uint64_t i = 0; i < index.length; i += i < header.pieces_offset + 2000 ? 1 : 41) {
        ((uint8_t *)index.bytes)[i] ^= (uint8_t)(1u << (i % 8));
        bool well = reads_well(&index, &model);
        /* Whoever reads everything reads all records, and needs nothing else but the root's box. */
        if (i < entry.records_offset + entry.records_bytes)
            assert_false(well);
        found += !well;
        ((uint8_t *)index.bytes)[i] ^= (uint8_t)(1u << (i % 8));
    }
    assert_true(found > 2000);
    assert_true(reads_well(&index, &model));
    free(index.bytes);
    free(model.pieces);
}

static void test_index_cut_short_is_corrupt(void **state)
{
    uint64_t seed = 3;
    struct mkt_index_view view;

    (void)state;
    struct model model = random_model(&seed, 1, 2, 40, 50, 5);
    struct index index = build(&model, 1);
    for (uint64_t length = 0; length < index.length; length += 5) {
        void *part = malloc(length + 1);
        memcpy(part, index.bytes, length);
        assert_int_equal(mkt_index_view_open(&view, part, length), MKT_CORRUPT);
        free(part);
    }
    free(index.bytes);
    free(model.pieces);
}

/* Where a reader looks there is another index by now, whole and with its own sums, or half of it.
 */
static void test_index_replaced_later_is_not_believed(void **state)
{
    uint64_t seed = 4;
    struct mkt_slab all;

    (void)state;
    struct model model = random_model(&seed, 1, 2, 300, 50, 5);
    struct index index = build(&model, 1);
    for (uint32_t i = 0; i < model.count; i++)
        model.pieces[i].data.offset += 64;
    struct index other = build(&model, 1);
    assert_int_equal(other.length, index.length);
    mkt_slab_box(&all, 2, (uint64_t[]){0, 0}, (uint64_t[]){1000, 1000});
    for (uint64_t half = 2; half-- > 0;) {
        uint64_t from = half * index.length / 2;
        memcpy((uint8_t *)index.bytes + from, (uint8_t *)other.bytes + from, index.length - from);
        assert_int_equal(mkt_index_view_query(&index.view, 0, &all, ignore_piece, NULL),
                         MKT_CORRUPT);
    }
    free(other.bytes);
    free(index.bytes);
    free(model.pieces);
}

/* Bytes that change after the view was opened: any answer will do, but none from outside the block.
 */
static void test_index_bytes_changed_later_stay_inside(void **state)
{
    uint64_t seed = 17;

    (void)state;
    struct model models[2] = {random_model(&seed, 1, 2, 300, 50, 5),
                              random_model(&seed, 2, 3, 9, 50, 5)};
    struct index index = build(models, 2);
    uint8_t *bytes = malloc(index.length);
    for (int round = 0; round < 4000; round++) {
        struct mkt_index_view view = index.view;
        view.bytes = bytes;
        memcpy(bytes, index.bytes, index.length);
        for (uint64_t n = random_in(&seed, 1, 6); n-- > 0;) {
            uint64_t reach = random_in(&seed, 0, 1) ? 300 : index.length;
            bytes[random_in(&seed, 8, reach - 1)] = (uint8_t)random_next(&seed);
        }
        for (uint32_t position = 0; position < 2; position++) {
            struct mkt_array array;
            struct mkt_slab want;
            uint32_t found;
            if (mkt_index_view_array(&view, position, &array) != MKT_OK)
                continue;
            random_want(&seed, array.rank, 50, 60, &want);
            mkt_index_view_query(&view, position, &want, ignore_piece, NULL);
            mkt_index_view_find_token(&view, array.token, &found);
            mkt_index_view_find_identity(&view, array.identity, &found);
            mkt_index_view_disjoint(&view, position);
        }
    }
    free(bytes);
    free(index.bytes);
    free(models[0].pieces);
    free(models[1].pieces);
}

static void test_index_empty_is_valid(void **state)
{
    struct index index = build(NULL, 0);
    uint32_t position;

    (void)state;
    assert_int_equal(index.view.arrays, 0);
    assert_int_equal(mkt_index_view_find_identity(&index.view, 1, &position), MKT_NOT_FOUND);
    free(index.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_query_matches_scan),
        cmocka_unit_test(test_index_hundred_thousand_pieces_match_scan),
        cmocka_unit_test(test_index_small_query_is_selective),
        cmocka_unit_test(test_index_overlap_clears_disjoint),
        cmocka_unit_test(test_index_cyclic_pieces_are_disjoint),
        cmocka_unit_test(test_index_disjoint_claims_hold),
        cmocka_unit_test(test_index_arrays_are_found),
        cmocka_unit_test(test_index_query_ends_with_callbacks_status),
        cmocka_unit_test(test_index_twin_identity_is_refused),
        cmocka_unit_test(test_index_bad_piece_is_refused),
        cmocka_unit_test(test_index_flipped_bit_is_corrupt),
        cmocka_unit_test(test_index_cut_short_is_corrupt),
        cmocka_unit_test(test_index_replaced_later_is_not_believed),
        cmocka_unit_test(test_index_bytes_changed_later_stay_inside),
        cmocka_unit_test(test_index_empty_is_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
