/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary HDF5 program that writes, or checks, a file with one dataset of each kind that the
 * market treats in a way of its own. usage: apps_sample write|check PATH [SEED]     apps_sample
 * hold PATH: writes, then waits for the end of its input     apps_sample large PATH MEGABYTES
 * apps_sample layers PATH N: writes one dataset N times, each part over the former ones
 */
#include <hdf5.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N      96 /* an axis */
#define POINTS 40

static int seed = 1;

#define CHECK(call)                                                         \
    do {                                                                    \
        if ((call) < 0) {                                                   \
            fprintf(stderr, "apps_sample: line %d: " #call "\n", __LINE__); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static void expect(int good, const char *what, long at)
{
    if (good)
        return;
    fprintf(stderr, "apps_sample: wrong value in %s at %ld\n", what, at);
    exit(1);
}

/* ---- values ---- */

static double grid_value(long i)
{
    return (double)(i % 9973) * 0.5 + seed;
}

/* Every third row, every fifth column; the rest is the fill value. */
static int strided_value(long i)
{
    return i / N % 3 == 0 && i % N % 5 == 0 ? (int)i + seed : -7;
}

static hsize_t point_at(int k)
{
    return (hsize_t)(k * k * 31 % (N * N));
}

static int point_value(long i)
{
    for (int k = POINTS - 1; k >= 0; k--)
        if ((long)point_at(k) == i)
            return k + seed;
    return 0;
}

/* A checkerboard, in the lower half. */
static int board_value(long i)
{
    return i / N >= N / 2 && (i / N + i % N) % 2 == 0 ? (int)i * 3 + seed : 0;
}

/* Three long runs of a dataset with one axis. */
static const hsize_t runs[3][2] = {{5, 100}, {150, 1000}, {1151, 700}};
#define RUNS_EXTENT 2000

static int runs_value(long i)
{
    for (int k = 0; k < 3; k++)
        if ((hsize_t)i >= runs[k][0] && (hsize_t)i < runs[k][0] + runs[k][1])
            return (int)i + 7 * seed;
    return 0;
}

/* ---- one dataset ---- */

static hid_t make(hid_t file, const char *name, hid_t type, int rank, hid_t dcpl)
{
    hsize_t dims[2] = {N, N};
    hid_t dataset, space;
    CHECK(space = rank ? H5Screate_simple(rank, dims, NULL) : H5Screate(H5S_SCALAR));
    CHECK(dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT));
    CHECK(H5Sclose(space));
    return dataset;
}

static void write_grid(hid_t file, const char *name, int chunked)
{
    hsize_t chunk[2] = {25, 40}, start[2] = {0, 0}, rows[2] = {N / 2, N};
    static double values[N * N];
    hid_t dcpl, dataset, space, memory;
    for (long i = 0; i < N * N; i++)
        values[i] = grid_value(i);
    CHECK(dcpl = H5Pcreate(H5P_DATASET_CREATE));
    if (chunked) {
        CHECK(H5Pset_chunk(dcpl, 2, chunk));
        if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0)
            CHECK(H5Pset_deflate(dcpl, 1));
    }
    dataset = make(file, name, H5T_IEEE_F64BE, 2, dcpl);
    /* Two halves that meet inside a row of chunks. */
    for (int half = 0; half < 2; half++) {
        start[0] = (hsize_t)half * N / 2;
        CHECK(space = H5Dget_space(dataset));
        CHECK(memory = H5Screate_simple(2, rows, NULL));
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, rows, NULL));
        CHECK(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT,
                       values + (long)half * N / 2 * N));
        CHECK(H5Sclose(space));
        CHECK(H5Sclose(memory));
    }
    CHECK(H5Dclose(dataset));
    CHECK(H5Pclose(dcpl));
}

static void write_strided(hid_t file)
{
    hsize_t start[2] = {0, 0}, stride[2] = {3, 5}, count[2] = {(N + 2) / 3, (N + 4) / 5};
    static int values[N * N];
    int fill = -7;
    hid_t dcpl, dataset, space;
    for (long i = 0; i < N * N; i++)
        values[i] = strided_value(i);
    CHECK(dcpl = H5Pcreate(H5P_DATASET_CREATE));
    CHECK(H5Pset_fill_value(dcpl, H5T_NATIVE_INT, &fill));
    dataset = make(file, "strided", H5T_STD_I32LE, 2, dcpl);
    CHECK(space = H5Dget_space(dataset));
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
    CHECK(H5Dwrite(dataset, H5T_NATIVE_INT, space, space, H5P_DEFAULT, values));
    CHECK(H5Sclose(space));
    CHECK(H5Dclose(dataset));
    CHECK(H5Pclose(dcpl));
}

static void write_points(hid_t file)
{
    hsize_t coordinates[POINTS][2], count = POINTS;
    int values[POINTS];
    hid_t dataset = make(file, "points", H5T_STD_I32LE, 2, H5P_DEFAULT), space, memory;
    for (int k = 0; k < POINTS; k++) {
        coordinates[k][0] = point_at(k) / N;
        coordinates[k][1] = point_at(k) % N;
        values[k] = k + seed;
    }
    CHECK(space = H5Dget_space(dataset));
    CHECK(memory = H5Screate_simple(1, &count, NULL));
    CHECK(H5Sselect_elements(space, H5S_SELECT_SET, POINTS, &coordinates[0][0]));
    CHECK(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
    CHECK(H5Sclose(space));
    CHECK(H5Sclose(memory));
    CHECK(H5Dclose(dataset));
}

static void write_board(hid_t file)
{
    hsize_t start[2] = {N / 2, 0}, stride[2] = {2, 2}, count[2] = {N / 4, N / 2};
    static int values[N * N];
    hid_t dataset = make(file, "board", H5T_STD_I32LE, 2, H5P_DEFAULT), space;
    for (long i = 0; i < N * N; i++)
        values[i] = board_value(i);
    CHECK(space = H5Dget_space(dataset));
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
    start[0]++;
    start[1]++;
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_OR, start, stride, count, NULL));
    CHECK(H5Dwrite(dataset, H5T_NATIVE_INT, space, space, H5P_DEFAULT, values));
    CHECK(H5Sclose(space));
    CHECK(H5Dclose(dataset));
}

static void write_runs(hid_t file)
{
    hsize_t dims = RUNS_EXTENT;
    static int values[RUNS_EXTENT];
    hid_t dataset, space;
    for (long i = 0; i < RUNS_EXTENT; i++)
        values[i] = runs_value(i);
    CHECK(space = H5Screate_simple(1, &dims, NULL));
    CHECK(dataset = H5Dcreate2(file, "runs", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT,
                               H5P_DEFAULT));
    CHECK(H5Sselect_none(space));
    for (int k = 0; k < 3; k++)
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_OR, &runs[k][0], NULL, &runs[k][1], NULL));
    CHECK(H5Dwrite(dataset, H5T_NATIVE_INT, space, space, H5P_DEFAULT, values));
    CHECK(H5Sclose(space));
    CHECK(H5Dclose(dataset));
}

static void write_rest(hid_t file)
{
    double scalar = 2.5 * seed;
    const char *words[N];
    hid_t type, dataset, group;
    hobj_ref_t reference;
    dataset = make(file, "scalar", H5T_IEEE_F64LE, 0, H5P_DEFAULT);
    CHECK(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &scalar));
    CHECK(H5Dclose(dataset));
    for (int i = 0; i < N; i++)
        words[i] = i % 2 ? "odd" : "even, and longer";
    CHECK(type = H5Tcopy(H5T_C_S1));
    CHECK(H5Tset_size(type, H5T_VARIABLE));
    CHECK(group = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    dataset = make(group, "words", type, 1, H5P_DEFAULT);
    CHECK(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, words));
    CHECK(H5Dclose(dataset));
    CHECK(H5Rcreate(&reference, file, "grid", H5R_OBJECT, H5I_INVALID_HID));
    dataset = make(group, "reference", H5T_STD_REF_OBJ, 0, H5P_DEFAULT);
    CHECK(H5Dwrite(dataset, H5T_STD_REF_OBJ, H5S_ALL, H5S_ALL, H5P_DEFAULT, &reference));
    CHECK(H5Dclose(dataset));
    CHECK(H5Dclose(make(file, "never_written", H5T_STD_I32LE, 2, H5P_DEFAULT)));
    CHECK(H5Gclose(group));
    CHECK(H5Tclose(type));
}

static void write_file(const char *path)
{
    hid_t file;
    CHECK(file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    write_grid(file, "chunked", 1);
    write_grid(file, "grid", 0);
    write_strided(file);
    write_points(file);
    write_board(file);
    write_runs(file);
    write_rest(file);
    CHECK(H5Fclose(file));
}

/* ---- checking ---- */

static void read_all(hid_t file, const char *name, hid_t type, void *values)
{
    hid_t dataset;
    CHECK(dataset = H5Dopen2(file, name, H5P_DEFAULT));
    CHECK(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    CHECK(H5Dclose(dataset));
}

static void check_grids(hid_t file)
{
    static double values[N * N];
    const char *names[] = {"grid", "chunked"};
    for (int which = 0; which < 2; which++) {
        memset(values, 0xee, sizeof(values));
        read_all(file, names[which], H5T_NATIVE_DOUBLE, values);
        for (long i = 0; i < N * N; i++)
            expect(values[i] == grid_value(i), names[which], i);
    }
}

static void check_integers(hid_t file)
{
    static const struct {
        const char *name;
        int (*value)(long i);
        long count;
    } datasets[] = {{"strided", strided_value, N * N},
                    {"points", point_value, N * N},
                    {"board", board_value, N * N},
                    {"runs", runs_value, RUNS_EXTENT}};
    static int values[N * N];
    for (int which = 0; which < 4; which++) {
        memset(values, 0xee, sizeof(values));
        read_all(file, datasets[which].name, H5T_NATIVE_INT, values);
        for (long i = 0; i < datasets[which].count; i++)
            expect(values[i] == datasets[which].value(i), datasets[which].name, i);
    }
}

static void check_rest(hid_t file)
{
    double scalar = 0;
    char *words[N];
    hobj_ref_t reference;
    hid_t type, found;
    char name[64] = "";
    read_all(file, "scalar", H5T_NATIVE_DOUBLE, &scalar);
    expect(scalar == 2.5 * seed, "scalar", 0);
    CHECK(type = H5Tcopy(H5T_C_S1));
    CHECK(H5Tset_size(type, H5T_VARIABLE));
    read_all(file, "group/words", type, words);
    for (int i = 0; i < N; i++)
        expect(strcmp(words[i], i % 2 ? "odd" : "even, and longer") == 0, "words", i);
    for (int i = 0; i < N; i++)
        H5free_memory(words[i]);
    read_all(file, "group/reference", H5T_STD_REF_OBJ, &reference);
    CHECK(found = H5Rdereference2(file, H5P_DEFAULT, H5R_OBJECT, &reference));
    CHECK(H5Iget_name(found, name, sizeof(name)));
    expect(strcmp(name, "/grid") == 0, "reference", 0);
    CHECK(H5Oclose(found));
    CHECK(H5Tclose(type));
}

static void check_file(const char *path)
{
    hid_t file;
    CHECK(file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
    check_grids(file);
    check_integers(file);
    check_rest(file);
    CHECK(H5Fclose(file));
}

/* ---- a file that stays open, and a large one ---- */

static void hold_file(const char *path)
{
    hid_t file;
    CHECK(file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    write_grid(file, "grid", 0);
    puts("open");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    CHECK(H5Fclose(file));
}

static void write_large(const char *path, hsize_t megabytes)
{
    hsize_t count = megabytes << 17;
    double *values = calloc(count, sizeof(*values));
    hid_t file, space, dataset;
    CHECK(file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    CHECK(space = H5Screate_simple(1, &count, NULL));
    CHECK(dataset = H5Dcreate2(file, "large", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT,
                               H5P_DEFAULT));
    CHECK(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    CHECK(H5Dclose(dataset));
    CHECK(H5Sclose(space));
    CHECK(H5Fclose(file));
    free(values);
}

/* One dataset in layers, each over a part of the former ones; the third over all of them. */
static void write_layers(const char *path, int layers)
{
    static const hsize_t layer[][2] = {{0, 60000}, {40000, 60000}, {0, 100000}, {50000, 10}};
    hsize_t dims = 100000;
    int *values = calloc(dims, sizeof(*values));
    hid_t file, space, dataset;
    CHECK(file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    CHECK(space = H5Screate_simple(1, &dims, NULL));
    CHECK(dataset = H5Dcreate2(file, "layers", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT,
                               H5P_DEFAULT));
    for (int i = 0; i < layers && i < 4; i++) {
        hid_t memory = H5Screate_simple(1, &layer[i][1], NULL);
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &layer[i][0], NULL, &layer[i][1], NULL));
        CHECK(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
        CHECK(H5Sclose(memory));
        CHECK(H5Dclose(dataset));
        CHECK(H5Fclose(file)); /* what is published is no more changed in place */
        CHECK(file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT));
        CHECK(dataset = H5Dopen2(file, "layers", H5P_DEFAULT));
    }
    CHECK(H5Dclose(dataset));
    CHECK(H5Sclose(space));
    CHECK(H5Fclose(file));
    free(values);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    if (argc > 3)
        seed = atoi(argv[3]);
    if (strcmp(argv[1], "write") == 0)
        write_file(argv[2]);
    else if (strcmp(argv[1], "check") == 0)
        check_file(argv[2]);
    else if (strcmp(argv[1], "hold") == 0)
        hold_file(argv[2]);
    else if (strcmp(argv[1], "large") == 0)
        write_large(argv[2], (hsize_t)seed);
    else if (strcmp(argv[1], "layers") == 0)
        write_layers(argv[2], seed);
    else
        return 2;
    return 0;
}
