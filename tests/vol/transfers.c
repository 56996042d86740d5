/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers that the transfer list or the call itself makes unusual. Two files at once, A and B,
 * which may be of different kinds (one in the market, one on disk).
 *
 *   transfers write A B    writes, verifies before the close
 *   transfers read A B     verifies in another process
 *
 * A word more: calls for several datasets mix those of A and B.
 */
#include "scenario.h"

#include <string.h>

enum {
    ROWS = 60,
    COLUMNS = 50,
    ALL = ROWS * COLUMNS
};

static hid_t new_dataset(hid_t file, const char *name, hid_t type, const hsize_t *chunk,
                         double fill)
{
    hsize_t dims[2] = {ROWS, COLUMNS};
    hid_t space = H5Screate_simple(2, dims, NULL), list = H5Pcreate(H5P_DATASET_CREATE), dataset;

    if (chunk)
        MUST(H5Pset_chunk(list, 2, chunk));
    MUST(H5Pset_fill_value(list, H5T_NATIVE_DOUBLE, &fill));
    MUST(dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Pclose(list);
    H5Sclose(space);
    return dataset;
}

static hid_t every_other_row(void)
{
    hsize_t dims[2] = {ROWS, COLUMNS}, start[2] = {1, 3}, stride[2] = {2, 1}, count[2] = {20, 40};
    hid_t space = H5Screate_simple(2, dims, NULL);

    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
    return space;
}

static int is_in_every_other_row(int i)
{
    int y = i / COLUMNS, x = i % COLUMNS;

    return y >= 1 && y % 2 == 1 && y < 41 && x >= 3 && x < 43;
}

static hid_t transform(const char *expression)
{
    hid_t list = H5Pcreate(H5P_DATASET_XFER);

    MUST(H5Pset_data_transform(list, expression));
    return list;
}

/* ---- a data transform on the way in, with conversion and without, and on the way out ---- */

static void transforms_write(hid_t a, hid_t b)
{
    static double values[ALL];
    hid_t list = transform("2*x + 1"), space = every_other_row();
    hid_t same = new_dataset(a, "same type", H5T_NATIVE_DOUBLE, NULL, -7),
          other = new_dataset(a, "other type", H5T_STD_I32BE, NULL, -7),
          there = new_dataset(b, "same type", H5T_NATIVE_DOUBLE, NULL, -7);

    for (int i = 0; i < ALL; i++)
        values[i] = i;
    MUST(H5Dwrite(same, H5T_NATIVE_DOUBLE, space, space, list, values));
    MUST(H5Dwrite(other, H5T_NATIVE_DOUBLE, space, space, list, values));
    MUST(H5Dwrite(there, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, list, values));
    CHECK(values[77] == 77);
    H5Dclose(same);
    H5Dclose(other);
    H5Dclose(there);
    H5Sclose(space);
    H5Pclose(list);
}

static void verify_transformed(hid_t file, const char *name, int whole)
{
    static double plain[ALL], changed[ALL];
    static int numbers[ALL];
    hid_t list = transform("(x - 1) / 2"), ints = transform("x + 5"), dataset;
    int wrong = 0;

    MUST(dataset = H5Dopen2(file, name, H5P_DEFAULT));
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, plain));
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, list, changed));
    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, ints, numbers));
    for (int i = 0; i < ALL; i++) {
        double want = whole || is_in_every_other_row(i) ? 2 * i + 1 : -7;
        wrong += plain[i] != want || changed[i] != (want - 1) / 2 || numbers[i] != (int)want + 5;
    }
    CHECK(wrong == 0);
    H5Dclose(dataset);
    H5Pclose(list);
    H5Pclose(ints);
}

static void transforms_verify(hid_t a, hid_t b)
{
    verify_transformed(a, "same type", 0);
    verify_transformed(a, "other type", 0);
    verify_transformed(b, "same type", 1);
}

/* ---- a conversion's callback says what comes of values that don't fit ---- */

static H5T_conv_ret_t saturate(H5T_conv_except_t kind, hid_t from, hid_t to, void *source,
                               void *target, void *seen)
{
    signed char value = kind == H5T_CONV_EXCEPT_RANGE_HI ? 99 : -99;

    (void)from;
    (void)to;
    (void)source;
    ++*(int *)seen;
    memcpy(target, &value, 1);
    return H5T_CONV_HANDLED;
}

static void callbacks_write(hid_t a, hid_t b)
{
    static int values[ALL];
    hid_t list = H5Pcreate(H5P_DATASET_XFER),
          dataset = new_dataset(a, "saturated", H5T_STD_I8LE, NULL, 0);
    int seen = 0;

    (void)b;
    for (int i = 0; i < ALL; i++)
        values[i] = i % 3 == 0 ? 1000 : i % 3 == 1 ? -1000 : 5;
    MUST(H5Pset_type_conv_cb(list, saturate, &seen));
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, list, values));
    CHECK(seen == ALL / 3 * 2);
    H5Dclose(dataset);
    H5Pclose(list);
}

static H5T_conv_ret_t give_up(H5T_conv_except_t kind, hid_t from, hid_t to, void *source,
                              void *target, void *data)
{
    (void)kind;
    (void)from;
    (void)to;
    (void)source;
    (void)target;
    (void)data;
    return H5T_CONV_ABORT;
}

static void callbacks_verify(hid_t a, hid_t b)
{
    static signed char values[ALL];
    static unsigned char positive[ALL];
    hid_t dataset, list = H5Pcreate(H5P_DATASET_XFER);
    herr_t result;
    int wrong = 0;

    (void)b;
    MUST(dataset = H5Dopen2(a, "saturated", H5P_DEFAULT));
    MUST(H5Dread(dataset, H5T_NATIVE_SCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < ALL; i++)
        wrong += values[i] != (i % 3 == 0 ? 99 : i % 3 == 1 ? -99 : 5);
    CHECK(wrong == 0);
    MUST(H5Pset_type_conv_cb(list, give_up, NULL));
    H5E_BEGIN_TRY
    {
        result = H5Dread(dataset, H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, list, positive);
    }
    H5E_END_TRY
    CHECK(result < 0);
    H5Dclose(dataset);
    H5Pclose(list);
}

/* ---- H5S_PLIST and H5S_BLOCK ---- */

static hid_t rows_from_list(hsize_t first, hsize_t rows)
{
    hsize_t start[2] = {first, 0}, stride[2] = {1, 1}, count[2] = {rows, COLUMNS},
            block[2] = {1, 1};
    hid_t list = H5Pcreate(H5P_DATASET_XFER);

    MUST(H5Pset_dataset_io_hyperslab_selection(list, 2, H5S_SELECT_SET, start, stride, count,
                                               block));
    return list;
}

static void spaces_write(hid_t a, hid_t b)
{
    static short values[ALL];
    hid_t list = rows_from_list(10, 20), space = every_other_row();
    hid_t dataset = new_dataset(a, "spaces", H5T_NATIVE_SHORT, NULL, -1),
          other = new_dataset(b, "spaces", H5T_NATIVE_SHORT, NULL, -1);

    for (int i = 0; i < ALL; i++)
        values[i] = (short)i;
    MUST(H5Dwrite(dataset, H5T_NATIVE_SHORT, H5S_BLOCK, H5S_PLIST, list, values));
    MUST(H5Dwrite(other, H5T_NATIVE_SHORT, H5S_BLOCK, space, H5P_DEFAULT, values));
    H5Dclose(dataset);
    H5Dclose(other);
    H5Sclose(space);
    H5Pclose(list);
}

static void spaces_verify(hid_t a, hid_t b)
{
    static short values[ALL], row[COLUMNS], placed[ALL];
    hid_t list = rows_from_list(12, 1), dataset;
    int wrong = 0, next = 0;

    MUST(dataset = H5Dopen2(a, "spaces", H5P_DEFAULT));
    MUST(H5Dread(dataset, H5T_NATIVE_SHORT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < ALL; i++)
        wrong += values[i] != (i / COLUMNS >= 10 && i / COLUMNS < 30 ? i - 10 * COLUMNS : -1);
    CHECK(wrong == 0);
    MUST(H5Dread(dataset, H5T_NATIVE_SHORT, H5S_BLOCK, H5S_PLIST, list, row));
    MUST(H5Dread(dataset, H5T_NATIVE_SHORT, H5S_ALL, H5S_PLIST, list, placed));
    for (int x = 0; x < COLUMNS; x++)
        wrong += row[x] != 2 * COLUMNS + x || placed[12 * COLUMNS + x] != row[x];
    CHECK(wrong == 0 && placed[0] == 0);
    H5Dclose(dataset);
    MUST(dataset = H5Dopen2(b, "spaces", H5P_DEFAULT));
    MUST(H5Dread(dataset, H5T_NATIVE_SHORT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < ALL; i++)
        wrong += values[i] != (is_in_every_other_row(i) ? next++ : -1);
    CHECK(wrong == 0);
    H5Dclose(dataset);
    H5Pclose(list);
}

/* ---- several datasets in one call; native wants them in one file, the market doesn't ---- */

static int several_files;

enum {
    MANY = 6
};

static void many_write(hid_t a, hid_t b)
{
    static double doubles[ALL];
    static int ints[ALL];
    const hsize_t chunk[2] = {7, 50};
    hid_t datasets[MANY], types[MANY], memory[MANY], spaces[MANY], rows = every_other_row();
    const void *buffers[MANY];

    for (int i = 0; i < ALL; i++) {
        doubles[i] = i + 0.5;
        ints[i] = -i;
    }
    for (int i = 0; i < MANY; i++) {
        char name[24];

        snprintf(name, sizeof name, "many %d", i);
        datasets[i] = new_dataset((several_files ? i % 2 : i >= MANY / 2) ? b : a, name,
                                  H5T_NATIVE_DOUBLE, i > 2 ? chunk : NULL, 3);
        types[i] = i % 3 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT;
        buffers[i] = i % 3 ? (void *)doubles : (void *)ints;
        memory[i] = spaces[i] = i < 4 ? H5S_ALL : rows;
    }
    if (several_files) {
        MUST(H5Dwrite_multi(MANY, datasets, types, memory, spaces, H5P_DEFAULT, buffers));
    } else {
        MUST(H5Dwrite_multi(MANY / 2, datasets, types, memory, spaces, H5P_DEFAULT, buffers));
        MUST(H5Dwrite_multi(MANY / 2, datasets + MANY / 2, types + MANY / 2, memory + MANY / 2,
                            spaces + MANY / 2, H5P_DEFAULT, buffers + MANY / 2));
    }
    for (int i = 0; i < MANY; i++)
        H5Dclose(datasets[i]);
    H5Sclose(rows);
}

static void many_verify(hid_t a, hid_t b)
{
    static double values[MANY][ALL];
    hid_t datasets[MANY], types[MANY], spaces[MANY];
    void *buffers[MANY];
    int wrong = 0;

    for (int i = 0; i < MANY; i++) {
        char name[24];

        snprintf(name, sizeof name, "many %d", i);
        MUST(datasets[i] =
                 H5Dopen2((several_files ? i % 2 : i >= MANY / 2) ? b : a, name, H5P_DEFAULT));
        types[i] = H5T_NATIVE_DOUBLE;
        spaces[i] = H5S_ALL;
        buffers[i] = values[i];
    }
    if (several_files) {
        MUST(H5Dread_multi(MANY, datasets, types, spaces, spaces, H5P_DEFAULT, buffers));
    } else {
        MUST(H5Dread_multi(MANY / 2, datasets, types, spaces, spaces, H5P_DEFAULT, buffers));
        MUST(H5Dread_multi(MANY / 2, datasets + MANY / 2, types, spaces, spaces, H5P_DEFAULT,
                           buffers + MANY / 2));
    }
    for (int n = 0; n < MANY; n++) {
        for (int i = 0; i < ALL; i++)
            wrong += values[n][i] != (n > 3 && !is_in_every_other_row(i) ? 3
                                      : n % 3                            ? i + 0.5
                                                                         : -i);
        H5Dclose(datasets[n]);
    }
    CHECK(wrong == 0);
}

static const struct {
    const char *name;
    void (*write)(hid_t a, hid_t b), (*verify)(hid_t a, hid_t b);
} scenarios[] = {
    {"transforms", transforms_write, transforms_verify},
    {"callbacks", callbacks_write, callbacks_verify},
    {"spaces", spaces_write, spaces_verify},
    {"many", many_write, many_verify},
};

int main(int argc, char **argv)
{
    hid_t a, b;

    if (argc < 4)
        return 2;
    several_files = argc > 4;
    int writing = strcmp(argv[1], "write") == 0;
    scenario = "open";
    if (writing) {
        MUST(a = H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
        MUST(b = H5Fcreate(argv[3], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    } else {
        MUST(a = H5Fopen(argv[2], H5F_ACC_RDONLY, H5P_DEFAULT));
        MUST(b = H5Fopen(argv[3], H5F_ACC_RDONLY, H5P_DEFAULT));
    }
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        scenario = scenarios[i].name;
        if (writing)
            scenarios[i].write(a, b);
        scenarios[i].verify(a, b);
    }
    CHECK(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 2);
    MUST(H5Fclose(a));
    MUST(H5Fclose(b));
    if (failures)
        fprintf(stderr, "transfers: %s: %d failures\n", argv[1], failures);
    return failures > 0;
}
