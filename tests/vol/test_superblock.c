/* SPDX-License-Identifier: BSD-3-Clause */
/* The superblock's reader and writer, against images that HDF5 makes of every version, with and
 * without a user block. */
#include "core/client/superblock.h"

#include <hdf5.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct image {
    uint8_t *bytes;
    size_t length;
};

/* The image of a closed file with a group. */
static struct image make(H5F_libver_t low, hsize_t user_block, hbool_t tracked)
{
    struct image image = {0};
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), fcpl = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_fapl_core(fapl, 1, true);
    H5Pset_libver_bounds(fapl, low, H5F_LIBVER_LATEST);
    if (tracked)
        H5Pset_istore_k(fcpl, 64); /* has superblock version 1 written */
    H5Pset_userblock(fcpl, user_block);
    hid_t file = H5Fcreate("superblock.h5", H5F_ACC_TRUNC, fcpl, fapl);
    assert_true(file >= 0);
    H5Gclose(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Fclose(file);
    FILE *stream = fopen("superblock.h5", "rb");
    assert_non_null(stream);
    fseek(stream, 0, SEEK_END);
    image.length = (size_t)ftell(stream);
    rewind(stream);
    image.bytes = malloc(image.length);
    assert_int_equal(fread(image.bytes, 1, image.length, stream), image.length);
    fclose(stream);
    remove("superblock.h5");
    H5Pclose(fapl);
    H5Pclose(fcpl);
    return image;
}

static const struct {
    H5F_libver_t low;
    hsize_t user_block;
    hbool_t tracked;
    unsigned version;
} cases[] = {
    {H5F_LIBVER_EARLIEST, 0, false, 0},   {H5F_LIBVER_EARLIEST, 512, false, 0},
    {H5F_LIBVER_EARLIEST, 2048, true, 1}, {H5F_LIBVER_V18, 0, false, 2},
    {H5F_LIBVER_V18, 1024, false, 2},     {H5F_LIBVER_V110, 0, false, 3},
    {H5F_LIBVER_V110, 8192, false, 3},
};

static void test_superblock_read_any_version_finds_its_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct image image = make(cases[i].low, cases[i].user_block, cases[i].tracked);
        struct mkt_superblock superblock;
        assert_true(mkt_superblock_read(image.bytes, image.length, &superblock));
        assert_int_equal(superblock.version, cases[i].version);
        assert_int_equal(superblock.offset, cases[i].user_block);
        assert_int_equal(superblock.end_of_file, image.length);
        free(image.bytes);
    }
}

/* What was opened for writing and is closed by us is what HDF5 closed, checksum included. */
static void test_superblock_close_open_file_equals_closed_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct image image = make(cases[i].low, cases[i].user_block, cases[i].tracked);
        struct mkt_superblock superblock;
        assert_true(mkt_superblock_read(image.bytes, image.length, &superblock));
        uint8_t *open = malloc(image.length);
        memcpy(open, image.bytes, image.length);
        open[superblock.offset + (superblock.version >= 2 ? 11 : 20)] |= 0x05;
        if (superblock.checksum_offset)
            memset(open + superblock.checksum_offset, 0x5a, 4);
        mkt_superblock_close(open, &superblock, image.length);
        assert_memory_equal(open, image.bytes, image.length);
        free(open);
        free(image.bytes);
    }
}

static void test_superblock_read_rubbish_or_short_is_refused(void **state)
{
    (void)state;
    struct mkt_superblock superblock;
    uint8_t rubbish[4096];
    memset(rubbish, 0x89, sizeof(rubbish));
    assert_false(mkt_superblock_read(rubbish, sizeof(rubbish), &superblock));
    struct image image = make(H5F_LIBVER_V110, 0, false);
    for (size_t length = 0; length < 48; length++)
        assert_false(mkt_superblock_read(image.bytes, length, &superblock));
    image.bytes[8] = 99; /* a version to come */
    assert_false(mkt_superblock_read(image.bytes, image.length, &superblock));
    image.bytes[8] = 3;
    image.bytes[9] = 255; /* the size of an address */
    assert_false(mkt_superblock_read(image.bytes, image.length, &superblock));
    free(image.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_superblock_read_any_version_finds_its_end),
        cmocka_unit_test(test_superblock_close_open_file_equals_closed_file),
        cmocka_unit_test(test_superblock_read_rubbish_or_short_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
