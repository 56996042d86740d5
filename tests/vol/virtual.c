/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A virtual dataset over datasets of two other files, of its own and of one that isn't there.
 *
 *   virtual sources A B    writes the sources
 *   virtual create V A B   writes the virtual datasets, verifies before the close
 *   virtual read V         verifies
 *   virtual write V A      writes through the mapping, verifies in A
 *   virtual refuse V A     a mapping without limits: reads fail
 */
#include "scenario.h"

#include <string.h>

enum {
    ROWS = 12,
    COLUMNS = 10
};

static hid_t space_of(hsize_t rows, hsize_t columns)
{
    hsize_t dims[2] = {rows, columns};

    return H5Screate_simple(2, dims, NULL);
}

static hid_t box(hid_t space, hsize_t y, hsize_t x, hsize_t stride, hsize_t rows, hsize_t columns)
{
    hsize_t start[2] = {y, x}, step[2] = {stride, 1}, count[2] = {rows, columns};

    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, step, count, NULL));
    return space;
}

/* ---- sources: 6 x 10 of int16 in A, 10 x 6 of double in B ---- */

static void sources(const char *a, const char *b)
{
    short first[6][COLUMNS];
    double second[10][6];
    hid_t file, dataset, space;

    for (int y = 0; y < 6; y++)
        for (int x = 0; x < COLUMNS; x++)
            first[y][x] = (short)(100 * y + x);
    for (int y = 0; y < 10; y++)
        for (int x = 0; x < 6; x++)
            second[y][x] = 10000 + 100 * y + x;
    MUST(file = H5Fcreate(a, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    hid_t group = H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    space = space_of(6, COLUMNS);
    MUST(dataset = H5Dcreate2(group, "100%", H5T_STD_I16BE, space, H5P_DEFAULT, H5P_DEFAULT,
                              H5P_DEFAULT));
    MUST(H5Dwrite(dataset, H5T_NATIVE_SHORT, H5S_ALL, H5S_ALL, H5P_DEFAULT, first));
    H5Dclose(dataset);
    H5Sclose(space);
    H5Gclose(group);
    MUST(H5Fclose(file));
    MUST(file = H5Fcreate(b, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    space = space_of(10, 6);
    MUST(dataset = H5Dcreate2(file, "second", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT,
                              H5P_DEFAULT));
    MUST(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, second));
    H5Dclose(dataset);
    H5Sclose(space);
    MUST(H5Fclose(file));
}

/* ---- the virtual dataset ----
 * Rows 0, 2, 4 .. 10 are A's rows; row 1 is this file's own line; row 3, columns 2..7 are B's row
 * 4; row 5 is of a file that isn't there; the rest is mapped to nothing. */

static int expected(int y, int x)
{
    if (y % 2 == 0)
        return 100 * (y / 2) + x;
    if (y == 1)
        return -1000 - x;
    if (y == 3 && x >= 2 && x < 8)
        return 10000 + 400 + x - 2;
    return -9;
}

static void map(hid_t list, hid_t to, const char *file, const char *name, hid_t from)
{
    MUST(H5Pset_virtual(list, to, file, name, from));
    H5Sclose(to);
    H5Sclose(from);
}

static void create(const char *v, const char *a, const char *b)
{
    int own[COLUMNS], fill = -9;
    hid_t file, dataset, list = H5Pcreate(H5P_DATASET_CREATE), space;

    for (int x = 0; x < COLUMNS; x++)
        own[x] = -1000 - x;
    MUST(file = H5Fcreate(v, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    space = space_of(1, COLUMNS);
    MUST(dataset =
             H5Dcreate2(file, "own", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, own));
    H5Dclose(dataset);
    H5Sclose(space);

    MUST(H5Pset_fill_value(list, H5T_NATIVE_INT, &fill));
    map(list, box(space_of(ROWS, COLUMNS), 0, 0, 2, 6, COLUMNS), a, "/g/100%%",
        space_of(6, COLUMNS));
    map(list, box(space_of(ROWS, COLUMNS), 1, 0, 1, 1, COLUMNS), ".", "own", space_of(1, COLUMNS));
    map(list, box(space_of(ROWS, COLUMNS), 3, 2, 1, 1, 6), b, "second",
        box(space_of(10, 6), 4, 0, 1, 1, 6));
    map(list, box(space_of(ROWS, COLUMNS), 5, 0, 1, 1, COLUMNS), "absent.h5", "nothing",
        space_of(1, COLUMNS));
    space = space_of(ROWS, COLUMNS);
    /* Native writes to sources as if memory had the virtual dataset's type. */
    MUST(dataset =
             H5Dcreate2(file, "virtual", H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(list);
    MUST(H5Fclose(file));
}

static void verify(const char *v)
{
    int whole[ROWS][COLUMNS], wrong = 0;
    double part[7][COLUMNS];
    hid_t file, dataset, memory, space;

    MUST(file = H5Fopen(v, H5F_ACC_RDONLY, H5P_DEFAULT));
    MUST(dataset = H5Dopen2(file, "virtual", H5P_DEFAULT));
    memset(whole, 0x55, sizeof whole);
    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, whole));
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            wrong += whole[y][x] != expected(y, x);
    CHECK(wrong == 0);

    /* A part, into a part of another shape, converted. */
    for (int y = 0; y < 7; y++)
        for (int x = 0; x < COLUMNS; x++)
            part[y][x] = 0.5;
    space = box(space_of(ROWS, COLUMNS), 1, 3, 1, 5, 4);
    memory = box(space_of(7, COLUMNS), 0, 6, 1, 5, 4);
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, part));
    for (int y = 0; y < 7; y++)
        for (int x = 0; x < COLUMNS; x++)
            wrong += part[y][x] != (y < 5 && x >= 6 ? expected(y + 1, x - 3) : 0.5);
    CHECK(wrong == 0);
    H5Sclose(memory);
    H5Sclose(space);
    /* Nothing of this is of a source. */
    space = box(space_of(ROWS, COLUMNS), 7, 0, 1, 1, COLUMNS);
    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_BLOCK, space, H5P_DEFAULT, whole));
    CHECK(whole[0][0] == -9 && whole[0][COLUMNS - 1] == -9);
    H5Sclose(space);
    H5Dclose(dataset);
    CHECK(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 1);
    MUST(H5Fclose(file));
}

static void write_through(const char *v, const char *a)
{
    int row[COLUMNS];
    short line[COLUMNS];
    hid_t file, dataset, space;
    herr_t unmapped;

    for (int x = 0; x < COLUMNS; x++)
        row[x] = 7000 + x;
    MUST(file = H5Fopen(v, H5F_ACC_RDWR, H5P_DEFAULT));
    MUST(dataset = H5Dopen2(file, "virtual", H5P_DEFAULT));
    space = box(space_of(ROWS, COLUMNS), 8, 0, 1, 1, COLUMNS);
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_BLOCK, space, H5P_DEFAULT, row));
    H5Sclose(space);
    H5E_BEGIN_TRY
    {
        space = box(space_of(ROWS, COLUMNS), 3, 0, 1, 1, COLUMNS);
        unmapped = H5Dwrite(dataset, H5T_NATIVE_INT, H5S_BLOCK, space, H5P_DEFAULT, row);
    }
    H5E_END_TRY
    CHECK(unmapped < 0);
    H5Sclose(space);
    H5Dclose(dataset);
    MUST(H5Fclose(file));
    MUST(file = H5Fopen(a, H5F_ACC_RDONLY, H5P_DEFAULT));
    MUST(dataset = H5Dopen2(file, "/g/100%", H5P_DEFAULT));
    space = box(space_of(6, COLUMNS), 4, 0, 1, 1, COLUMNS);
    MUST(H5Dread(dataset, H5T_NATIVE_SHORT, H5S_BLOCK, space, H5P_DEFAULT, line));
    CHECK(line[0] == 7000 && line[COLUMNS - 1] == 7000 + COLUMNS - 1);
    H5Sclose(space);
    H5Dclose(dataset);
    MUST(H5Fclose(file));
}

static void refuse(const char *v, const char *a)
{
    hsize_t dims[2] = {6, COLUMNS}, most[2] = {H5S_UNLIMITED, COLUMNS}, start[2] = {0, 0},
            count[2] = {H5S_UNLIMITED, 1}, block[2] = {1, COLUMNS};
    hid_t file, dataset, list = H5Pcreate(H5P_DATASET_CREATE), to, from;
    int values[6 * COLUMNS];
    herr_t result;

    MUST(file = H5Fcreate(v, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    to = H5Screate_simple(2, dims, most);
    from = H5Screate_simple(2, dims, most);
    MUST(H5Sselect_hyperslab(to, H5S_SELECT_SET, start, NULL, count, block));
    MUST(H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, count, block));
    MUST(H5Pset_virtual(list, to, a, "/g/100%%", from));
    H5Sselect_all(to);
    MUST(dataset = H5Dcreate2(file, "v", H5T_NATIVE_INT, to, H5P_DEFAULT, list, H5P_DEFAULT));
    H5E_BEGIN_TRY
    {
        result = H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    }
    H5E_END_TRY
    CHECK(result < 0);
    H5Sclose(to);
    H5Sclose(from);
    H5Pclose(list);
    H5Dclose(dataset);
    MUST(H5Fclose(file));
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    if (strcmp(argv[1], "sources") == 0)
        sources(argv[2], argv[3]);
    else if (strcmp(argv[1], "create") == 0)
        create(argv[2], argv[3], argv[4]);
    else if (strcmp(argv[1], "write") == 0)
        write_through(argv[2], argv[3]);
    else if (strcmp(argv[1], "refuse") == 0)
        refuse(argv[2], argv[3]);
    else
        verify(argv[2]);
    return failures > 0;
}
