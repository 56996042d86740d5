/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/geometry/piece_layout.h"
#include "core/geometry/plan.h"
#include "tests/unit/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ELEMENT_BYTES 8

static struct mkt_piece piece_of(enum mkt_piece_form form)
{
    struct mkt_piece piece = {.form = form, .stamp = 42, .data = {3, 0, 4096, 0}};

    mkt_slab_box(&piece.slab, 3, (uint64_t[]){1, 2, 3}, (uint64_t[]){4, 5, 6});
    if (form == MKT_PIECE_SLAB)
        piece.slab.dim[1] = (struct mkt_dim){2, 7, 5, 3};
    piece.data.length = mkt_slab_elements(&piece.slab) * ELEMENT_BYTES;
    if (form == MKT_PIECE_MASKED)
        piece.table = (struct mkt_extent){3, 0, 64, 15};
    if (form == MKT_PIECE_LIST) {
        piece.table = (struct mkt_extent){3, 0, 64, 3 * 16};
        piece.data.length = 10 * ELEMENT_BYTES;
    }
    return piece;
}

static enum mkt_status decode_changed(struct mkt_piece piece)
{
    uint8_t record[MKT_PIECE_RECORD_MAX_BYTES];
    struct mkt_piece decoded;
    uint32_t used;

    mkt_piece_encode(&piece, record);
    return mkt_piece_decode(record, sizeof(record), ELEMENT_BYTES, &decoded, &used);
}

static void test_piece_every_form_round_trips(void **state)
{
    (void)state;
    for (int form = MKT_PIECE_BOX; form <= MKT_PIECE_LIST; form++) {
        struct mkt_piece piece = piece_of((enum mkt_piece_form)form), decoded;
        uint32_t bytes = mkt_piece_record_bytes(&piece), used;
        uint8_t *record = malloc(bytes);

        assert_int_equal(bytes, 64 + 3 * (form == MKT_PIECE_SLAB ? 32 : 16));
        memset(&decoded, 0xa5, sizeof(decoded));
        mkt_piece_encode(&piece, record);
        assert_int_equal(mkt_piece_decode(record, bytes, ELEMENT_BYTES, &decoded, &used), MKT_OK);
        assert_int_equal(used, bytes);
        assert_int_equal(decoded.form, form);
        assert_int_equal(decoded.stamp, 42);
        assert_memory_equal(&decoded.data, &piece.data, sizeof(piece.data));
        assert_memory_equal(&decoded.table, &piece.table, sizeof(piece.table));
        assert_true(mkt_slab_equal(&decoded.slab, &piece.slab));
        free(record);
    }
}

static void test_piece_scalar_and_full_rank_round_trip(void **state)
{
    struct mkt_piece piece = {.form = MKT_PIECE_BOX, .data = {1, 0, 0, ELEMENT_BYTES}}, decoded;
    uint8_t record[MKT_PIECE_RECORD_MAX_BYTES];
    uint32_t used;

    (void)state;
    mkt_piece_encode(&piece, record);
    assert_int_equal(mkt_piece_decode(record, 64, ELEMENT_BYTES, &decoded, &used), MKT_OK);
    assert_int_equal(used, 64);
    assert_int_equal(decoded.slab.rank, 0);

    piece.form = MKT_PIECE_SLAB;
    piece.slab.rank = MKT_MAX_RANK;
    for (int d = 0; d < MKT_MAX_RANK; d++)
        piece.slab.dim[d] = (struct mkt_dim){(uint64_t)d, 1, 1, 1};
    assert_int_equal(mkt_piece_record_bytes(&piece), MKT_PIECE_RECORD_MAX_BYTES);
    mkt_piece_encode(&piece, record);
    assert_int_equal(mkt_piece_decode(record, sizeof(record), ELEMENT_BYTES, &decoded, &used),
                     MKT_OK);
    assert_true(mkt_slab_equal(&decoded.slab, &piece.slab));
}

static void test_piece_short_record_is_refused(void **state)
{
    struct mkt_piece piece = piece_of(MKT_PIECE_SLAB), decoded;
    uint32_t bytes = mkt_piece_record_bytes(&piece), used = 7;
    uint8_t record[MKT_PIECE_RECORD_MAX_BYTES];

    (void)state;
    mkt_piece_encode(&piece, record);
    for (uint32_t n = 0; n < bytes; n++) {
        uint8_t *part = malloc(n + 1);
        memcpy(part, record, n);
        assert_int_equal(mkt_piece_decode(part, n, ELEMENT_BYTES, &decoded, &used), MKT_PROTOCOL);
        free(part);
    }
    assert_int_equal(used, 7);
}

static void test_piece_contradicting_sizes_are_refused(void **state)
{
    struct mkt_piece piece;

    (void)state;
    for (int form = MKT_PIECE_BOX; form <= MKT_PIECE_SLAB; form++) {
        piece = piece_of((enum mkt_piece_form)form);
        piece.data.length++;
        assert_int_equal(decode_changed(piece), MKT_PROTOCOL);
        piece = piece_of((enum mkt_piece_form)form);
        piece.table.length = 16;
        assert_int_equal(decode_changed(piece), MKT_PROTOCOL);
    }
    piece = piece_of(MKT_PIECE_MASKED);
    piece.table.length = 14; /* 120 elements need 15 bytes */
    assert_int_equal(decode_changed(piece), MKT_PROTOCOL);
    piece = piece_of(MKT_PIECE_LIST);
    piece.table.length = 40;
    assert_int_equal(decode_changed(piece), MKT_PROTOCOL);
    piece = piece_of(MKT_PIECE_LIST);
    piece.table.length = 11 * 16; /* more entries than elements */
    assert_int_equal(decode_changed(piece), MKT_PROTOCOL);
    piece = piece_of(MKT_PIECE_LIST);
    piece.data.length = 121 * ELEMENT_BYTES; /* more than the box holds */
    assert_int_equal(decode_changed(piece), MKT_PROTOCOL);
    piece = piece_of(MKT_PIECE_LIST);
    piece.data.length = 10 * ELEMENT_BYTES - 1;
    assert_int_equal(decode_changed(piece), MKT_PROTOCOL);
}

static void test_piece_overflowing_numbers_are_refused(void **state)
{
    struct mkt_piece piece = piece_of(MKT_PIECE_BOX);

    (void)state;
    piece.data.offset = UINT64_MAX - 100;
    assert_int_equal(decode_changed(piece), MKT_PROTOCOL);
    piece = piece_of(MKT_PIECE_BOX);
    piece.slab.dim[0] = (struct mkt_dim){UINT64_MAX - 3, 4, 1, 4};
    assert_int_equal(decode_changed(piece), MKT_PROTOCOL);
    piece = piece_of(MKT_PIECE_BOX);
    piece.slab.dim[0] = (struct mkt_dim){0, 1, 1, 0};
    piece.data.length = 0;
    assert_int_equal(decode_changed(piece), MKT_PROTOCOL);
    /* 2^61 elements of 8 bytes: the product is 0 in 64 bits. */
    mkt_slab_box(&piece.slab, 1, (uint64_t[]){0}, (uint64_t[]){(uint64_t)1 << 61});
    piece.data.length = 0;
    assert_int_equal(decode_changed(piece), MKT_PROTOCOL);
}

static void sink(void *context, const struct mkt_move *move)
{
    (void)context;
    (void)move;
}

/* Whatever decodes is safe to plan with. */
static void test_piece_mutated_records_never_misbehave(void **state)
{
    uint64_t seed = 12, accepted = 0;

    (void)state;
    for (int round = 0; round < 100000; round++) {
        struct mkt_piece piece = piece_of(
                             (enum mkt_piece_form)random_in(&seed, MKT_PIECE_BOX, MKT_PIECE_LIST)),
                         decoded;
        uint32_t bytes = mkt_piece_record_bytes(&piece), used;
        uint8_t record[MKT_PIECE_RECORD_MAX_BYTES];

        mkt_piece_encode(&piece, record);
        for (uint64_t n = random_in(&seed, 0, 3); n-- > 0;)
            record[random_in(&seed, 0, bytes - 1)] =
                (uint8_t)random_in(&seed, 0, random_in(&seed, 0, 1) ? 8 : 255);
        if (mkt_piece_decode(record, bytes, ELEMENT_BYTES, &decoded, &used) != MKT_OK)
            continue;
        accepted++;
        assert_true(used <= bytes);
        assert_true(mkt_slab_is_valid(&decoded.slab, NULL));
        if (decoded.form <= MKT_PIECE_SLAB) {
            struct mkt_slab want;
            struct mkt_layout layout;
            mkt_slab_box(&want, 3, (uint64_t[]){0, 0, 0}, (uint64_t[]){4, 40, 40});
            mkt_layout_packed(&layout, &want, ELEMENT_BYTES, 0);
            mkt_plan_piece(&want, &layout, &decoded, NULL, ELEMENT_BYTES, sink, NULL);
        }
    }
    assert_true(accepted > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_piece_every_form_round_trips),
        cmocka_unit_test(test_piece_scalar_and_full_rank_round_trip),
        cmocka_unit_test(test_piece_short_record_is_refused),
        cmocka_unit_test(test_piece_contradicting_sizes_are_refused),
        cmocka_unit_test(test_piece_overflowing_numbers_are_refused),
        cmocka_unit_test(test_piece_mutated_records_never_misbehave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
