/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of a series, a file each of MIB of float64: written, read whole, or read in part. Each
 * value of a reader is compared. Prints the seconds of each step's HDF5 calls.
 *
 * usage: bench_steps write|read FOLDER FIRST COUNT MIB [PERCENT]
 *   PERCENT    of each file's rows, in one run from its middle
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROW 131072 /* a MiB */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fail(const char *what, const char *path)
{
    fprintf(stderr, "bench_steps: %s: %s\n", path, what);
    exit(1);
}

static void write_step(const char *path, hsize_t rows, const double *values)
{
    const hsize_t dims[2] = {rows, ROW};
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t dataset =
        H5Dcreate2(file, "field", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (file < 0 || dataset < 0 ||
        H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0 ||
        H5Dclose(dataset) < 0 || H5Sclose(space) < 0 || H5Fclose(file) < 0)
        fail("can't be written", path);
}

static void read_step(const char *path, hsize_t first, hsize_t rows, double *values)
{
    const hsize_t start[2] = {first, 0}, count[2] = {rows, ROW};
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t dataset = H5Dopen2(file, "field", H5P_DEFAULT);
    hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(2, count, NULL);
    if (file < 0 || dataset < 0 ||
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
        H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, values) < 0 ||
        H5Sclose(memory) < 0 || H5Sclose(space) < 0 || H5Dclose(dataset) < 0 || H5Fclose(file) < 0)
        fail("can't be read", path);
}

/* The value of an element names its step and its place. */
static void fill(double *values, size_t count, int step)
{
    for (size_t i = 0; i < count; i += 512)
        for (size_t j = 0; j < 512; j++)
            values[i + j] = (double)step * 1e9 + (double)(i + j);
}

static void check(const double *values, size_t first, size_t count, int step, const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (values[i] != (double)step * 1e9 + (double)(first + i))
            fail("has a wrong value", path);
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: %s write|read FOLDER FIRST COUNT MIB [PERCENT]\n", argv[0]);
        return 2;
    }
    int reads = strcmp(argv[1], "read") == 0, first = atoi(argv[3]), count = atoi(argv[4]);
    hsize_t all = strtoull(argv[5], NULL, 10), rows = all, from = 0;
    if (argc > 6) {
        rows = (all * strtoull(argv[6], NULL, 10) + 99) / 100;
        from = (all - rows) / 2;
    }
    double *values = malloc(rows * ROW * sizeof(*values));
    if (!values)
        return 1;
    memset(values, 1, rows * ROW * sizeof(*values)); /* touched before */
    for (int step = first; step < first + count; step++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/step%d.h5", argv[2], step);
        if (!reads)
            fill(values, rows * ROW, step);
        double before = now_s();
        if (reads)
            read_step(path, from, rows, values);
        else
            write_step(path, rows, values);
        double seconds = now_s() - before;
        if (reads)
            check(values, from * ROW, rows * ROW, step, path);
        printf("%.6f\n", seconds);
        fflush(stdout);
    }
    free(values);
    return 0;
}
