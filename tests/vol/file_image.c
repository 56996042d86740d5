/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain HDF5 program that takes a file's image (H5Fget_file_image) while it writes it, after more
 * was written, and as a reader; each image is opened by native HDF5 and has every value.
 */
#include "scenario.h"

#include <string.h>

#define ROWS    40
#define COLUMNS 30

struct pair {
    int whole;
    double part;
};

static hid_t pair_type(void)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(struct pair));

    H5Tinsert(type, "whole", HOFFSET(struct pair, whole), H5T_NATIVE_INT);
    H5Tinsert(type, "part", HOFFSET(struct pair, part), H5T_NATIVE_DOUBLE);
    return type;
}

static hid_t create(hid_t file, const char *name, hid_t type, const hsize_t *chunk)
{
    const hsize_t dims[2] = {ROWS, COLUMNS}, most[2] = {H5S_UNLIMITED, COLUMNS};
    hid_t space = H5Screate_simple(2, dims, chunk ? most : NULL);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE), dataset;
    const int fill = -7;

    if (H5Tget_class(type) == H5T_INTEGER)
        H5Pset_fill_value(list, H5T_NATIVE_INT, &fill);
    if (chunk) {
        H5Pset_chunk(list, 2, chunk);
        H5Pset_deflate(list, 1);
    }
    MUST(dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Pclose(list);
    H5Sclose(space);
    return dataset;
}

/* Every other row of a dataset of integers. */
static void write_rows(hid_t dataset, int value)
{
    const hsize_t start[2] = {0, 0}, stride[2] = {2, 1}, count[2] = {ROWS / 2, COLUMNS};
    int values[ROWS / 2 * COLUMNS];
    hsize_t elements = ROWS / 2 * COLUMNS;
    hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &elements, NULL);

    for (int i = 0; i < ROWS / 2 * COLUMNS; i++)
        values[i] = value + i;
    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
    H5Sclose(memory);
    H5Sclose(space);
}

/* Scattered elements: in the market no hyperslab. */
static void write_points(hid_t dataset, int value)
{
    const hsize_t points[3][2] = {{39, 29}, {1, 5}, {17, 0}};
    const int values[3] = {value, value + 1, value + 2};
    hsize_t elements = 3;
    hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &elements, NULL);

    MUST(H5Sselect_elements(space, H5S_SELECT_SET, 3, points[0]));
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
    H5Sclose(memory);
    H5Sclose(space);
}

static void write_text(hid_t file)
{
    const char *text = "of variable length";
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR), dataset;

    H5Tset_size(type, H5T_VARIABLE);
    MUST(dataset = H5Dcreate2(file, "text", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text));
    H5Dclose(dataset);
    H5Sclose(space);
    H5Tclose(type);
}

static void write_pairs(hid_t file)
{
    struct pair pairs[ROWS * COLUMNS];
    hid_t type = pair_type(), dataset = create(file, "pairs", type, NULL);

    for (int i = 0; i < ROWS * COLUMNS; i++)
        pairs[i] = (struct pair){i, i * 0.5};
    MUST(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, pairs));
    H5Dclose(dataset);
    H5Tclose(type);
}

/* ---- what must be there ---- */

static int value_at(int row, int column, int rows, int points)
{
    if (points && row == 39 && column == 29)
        return points;
    if (points && row == 1 && column == 5)
        return points + 1;
    if (points && row == 17 && column == 0)
        return points + 2;
    return row % 2 ? -7 : rows + row / 2 * COLUMNS + column;
}

static void verify_numbers(hid_t file, const char *name, int rows, int points)
{
    int values[ROWS][COLUMNS], wrong = 0;
    hid_t dataset;

    MUST(dataset = H5Dopen2(file, name, H5P_DEFAULT));
    memset(values, 0x5a, sizeof values);
    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            wrong += values[row][column] != value_at(row, column, rows, points);
    CHECK(wrong == 0);
    H5Dclose(dataset);
}

static void verify(hid_t file, int rows, int points)
{
    struct pair pairs[ROWS * COLUMNS];
    hid_t type = pair_type(), text_type = H5Tcopy(H5T_C_S1), dataset;
    char *text = NULL;
    int wrong = 0;

    verify_numbers(file, "plain", rows, points);
    verify_numbers(file, "g/packed", rows, points);
    MUST(dataset = H5Dopen2(file, "pairs", H5P_DEFAULT));
    MUST(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, pairs));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        wrong += pairs[i].whole != i || pairs[i].part != i * 0.5;
    CHECK(wrong == 0);
    H5Dclose(dataset);
    H5Tclose(type);
    H5Tset_size(text_type, H5T_VARIABLE);
    MUST(dataset = H5Dopen2(file, "text", H5P_DEFAULT));
    MUST(H5Dread(dataset, text_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text));
    CHECK(text && strcmp(text, "of variable length") == 0);
    H5free_memory(text);
    H5Dclose(dataset);
    H5Tclose(text_type);
}

/* As H5LTopen_file_image does, with native HDF5 whatever the environment says. */
static void verify_image(const void *bytes, size_t count, int rows, int points)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), file;

    MUST(H5Pset_vol(fapl, H5VL_NATIVE, NULL));
    MUST(H5Pset_fapl_core(fapl, 1 << 16, 0));
    MUST(H5Pset_file_image(fapl, (void *)bytes, count));
    MUST(file = H5Fopen("only in memory", H5F_ACC_RDONLY, fapl));
    verify(file, rows, points);
    MUST(H5Fclose(file));
    H5Pclose(fapl);
}

static void take(hid_t file, int rows, int points)
{
    ssize_t count = H5Fget_file_image(file, NULL, 0), got;
    char *bytes = count > 0 ? malloc((size_t)count + 8) : NULL;

    MUST(count);
    CHECK(count > ROWS * COLUMNS * (ssize_t)(sizeof(int) + sizeof(struct pair)));
    if (!bytes)
        return;
    H5E_BEGIN_TRY
    {
        got = H5Fget_file_image(file, bytes, (size_t)count - 1);
    }
    H5E_END_TRY
    CHECK(got < 0);
    memset(bytes, 0x5a, (size_t)count + 8);
    MUST(got = H5Fget_file_image(file, bytes, (size_t)count + 8));
    CHECK(got == count);
    for (int b = 0; b < 8; b++)
        CHECK(bytes[count + b] == 0x5a);
    verify_image(bytes, (size_t)count, rows, points);
    free(bytes);
}

/* ---- */

/* Native has no whole file to give where the superblock's checksum counts the mark of a writer. */
static int native_can(H5F_libver_t low, int writing)
{
    return !writing || getenv("HDF5_VOL_CONNECTOR") || low == H5F_LIBVER_EARLIEST;
}

static void run(const char *path, H5F_libver_t low, hsize_t user_block)
{
    const hsize_t chunk[2] = {8, 7};
    hid_t fcpl = H5Pcreate(H5P_FILE_CREATE), fapl = H5Pcreate(H5P_FILE_ACCESS), file;

    scenario = path;
    H5Pset_userblock(fcpl, user_block);
    H5Pset_libver_bounds(fapl, low, H5F_LIBVER_LATEST);
    MUST(file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl));
    hid_t plain = create(file, "plain", H5T_STD_I32BE, NULL);
    H5Gclose(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    hid_t packed = create(file, "g/packed", H5T_STD_I32LE, chunk);
    write_rows(plain, 1000);
    write_rows(packed, 1000);
    write_pairs(file);
    write_text(file);
    MUST(H5Fflush(file, H5F_SCOPE_GLOBAL));
    if (native_can(low, 1))
        take(file, 1000, 0);
    write_points(plain, 70000);
    write_points(packed, 70000);
    MUST(H5Fflush(file, H5F_SCOPE_GLOBAL));
    if (native_can(low, 1))
        take(file, 1000, 70000);
    CHECK(H5Fget_obj_count(file, H5F_OBJ_ALL) == 3);
    H5Dclose(packed);
    H5Dclose(plain);
    MUST(H5Fclose(file));

    MUST(file = H5Fopen(path, H5F_ACC_RDONLY, fapl));
    take(file, 1000, 70000);
    verify(file, 1000, 70000);
    MUST(H5Fclose(file));

    /* Written over, half of it in this process and half by the former open. */
    MUST(file = H5Fopen(path, H5F_ACC_RDWR, fapl));
    MUST(plain = H5Dopen2(file, "plain", H5P_DEFAULT));
    MUST(packed = H5Dopen2(file, "g/packed", H5P_DEFAULT));
    write_points(plain, 80000);
    write_points(packed, 80000);
    H5Dclose(plain);
    H5Dclose(packed);
    MUST(H5Fflush(file, H5F_SCOPE_GLOBAL));
    if (native_can(low, 1))
        take(file, 1000, 80000);
    MUST(H5Fclose(file));
    H5Pclose(fapl);
    H5Pclose(fcpl);
}

int main(void)
{
    run("earliest.h5", H5F_LIBVER_EARLIEST, 0);
    run("latest.h5", H5F_LIBVER_LATEST, 0);
    run("block.h5", H5F_LIBVER_EARLIEST, 512);
    return failures ? 1 : 0;
}
