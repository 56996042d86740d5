/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that computes and writes in turns, as simulations do: per step COMPUTE_MS of work, then
 * one file of MIB of float64. Prints the seconds of each step: those of the HDF5 calls (create,
 * write, close), and those of the whole step.
 *
 * usage: bench_cycle FOLDER MIB STEPS COMPUTE_MS [fsync]
 */
#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double compute(double seconds)
{
    double end = now_s() + seconds, value = 1;
    while (now_s() < end)
        for (int i = 0; i < 1000; i++)
            value = sqrt(value + i);
    return value;
}

static void sync_file(const char *path)
{
    int fd = open(path, O_RDWR);
    if (fd < 0 || fsync(fd) != 0) {
        perror(path);
        exit(1);
    }
    close(fd);
}

static void write_file(const char *path, hsize_t rows, const double *values)
{
    hsize_t dims[2] = {rows, 131072}; /* rows of 1 MiB */
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t dataset =
        H5Dcreate2(file, "field", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (file < 0 || dataset < 0 ||
        H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0 ||
        H5Dclose(dataset) < 0 || H5Sclose(space) < 0 || H5Fclose(file) < 0)
        exit(1);
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc < 5) {
        fprintf(stderr, "usage: %s FOLDER MIB STEPS COMPUTE_MS [fsync]\n", argv[0]);
        return 2;
    }
    hsize_t rows = strtoull(argv[2], NULL, 10);
    int steps = atoi(argv[3]);
    double work_s = atof(argv[4]) / 1000, sum = 0;
    size_t count = (size_t)rows * 131072;
    double *values = malloc(count * sizeof(*values));
    if (!values)
        return 1;
    for (size_t i = 0; i < count; i++)
        values[i] = (double)i;
    for (int step = 0; step < steps; step++) {
        double begin = now_s();
        sum += compute(work_s);
        values[0] = step;
        snprintf(path, sizeof(path), "%s/step%d.h5", argv[1], step);
        double before = now_s();
        write_file(path, rows, values);
        if (argc > 5)
            sync_file(path);
        double end = now_s();
        printf("%.6f %.6f\n", end - before, end - begin);
        fflush(stdout);
    }
    free(values);
    return isfinite(sum) ? 0 : 1;
}
