/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Microseconds of single HDF5 calls, and seconds of a large transfer: what the connector costs
 * where it leaves files alone. Prints "name value" lines: the median of each call in microseconds,
 * "bulk" in seconds (MIB written and read at once).
 *
 * usage: bench_calls FOLDER MIB
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS     400
#define BULK_TURNS 5

enum call {
    CREATE,
    OPEN,
    PROBE,
    DELETE,
    CREATE_DATASET,
    WRITE,
    READ,
    CREATE_ATTRIBUTE,
    CREATE_GROUP,
    CALLS
};
static const char *const names[CALLS] = {"create",         "open",  "probe", "delete",
                                         "create dataset", "write", "read",  "create attribute",
                                         "create group"};
static double taken_us[CALLS][ROUNDS];

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static void check(hid_t result)
{
    if (result < 0)
        exit(1);
}

#define TIMED(call, expression)               \
    do {                                      \
        double begin = now_us();              \
        hid_t result = (expression);          \
        taken_us[call][r] = now_us() - begin; \
        check(result);                        \
        last = result;                        \
    } while (0)

static void one_round(const char *path, int r)
{
    hsize_t dims[1] = {8};
    double values[8] = {0};
    hid_t last = 0, space = H5Screate_simple(1, dims, NULL);
    TIMED(CREATE, H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    hid_t file = last;
    TIMED(CREATE_DATASET,
          H5Dcreate2(file, "d", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    hid_t dataset = last;
    TIMED(WRITE, H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    TIMED(READ, H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    TIMED(CREATE_ATTRIBUTE,
          H5Acreate2(dataset, "a", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT));
    check(H5Aclose(last));
    TIMED(CREATE_GROUP, H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    check(H5Gclose(last));
    check(H5Dclose(dataset));
    check(H5Fclose(file));
    TIMED(PROBE, H5Fis_accessible(path, H5P_DEFAULT));
    TIMED(OPEN, H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
    check(H5Fclose(last));
    TIMED(DELETE, H5Fdelete(path, H5P_DEFAULT));
    check(H5Sclose(space));
}

static double bulk_s(const char *path, hsize_t mib)
{
    hsize_t dims[2] = {mib, 131072};
    double *values = calloc((size_t)mib * 131072, sizeof(*values));
    if (!values)
        exit(1);
    memset(values, 1, (size_t)mib * 131072 * sizeof(*values));
    double begin = now_us();
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t dataset =
        H5Dcreate2(file, "d", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    check(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    check(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    check(H5Dclose(dataset));
    check(H5Fclose(file));
    double seconds = (now_us() - begin) / 1e6;
    check(H5Fdelete(path, H5P_DEFAULT));
    check(H5Sclose(space));
    free(values);
    return seconds;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

int main(int argc, char **argv)
{
    char path[4096];
    double bulk[BULK_TURNS];
    if (argc != 3) {
        fprintf(stderr, "usage: %s FOLDER MIB\n", argv[0]);
        return 2;
    }
    snprintf(path, sizeof(path), "%s/calls.h5", argv[1]);
    for (int r = 0; r < ROUNDS; r++)
        one_round(path, r);
    for (int call = 0; call < CALLS; call++)
        printf("%s\t%.2f\n", names[call], median(taken_us[call], ROUNDS));
    for (int turn = 0; turn < BULK_TURNS; turn++)
        bulk[turn] = bulk_s(path, strtoull(argv[2], NULL, 10));
    printf("bulk\t%.4f\n", median(bulk, BULK_TURNS));
    return 0;
}
