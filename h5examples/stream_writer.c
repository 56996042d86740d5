// SPDX-License-Identifier: BSD-3-Clause
//
// Writes one file anew for every step, as a simulation does with its newest snapshot.
//
//   stream_writer FILE STEPS [MILLISECONDS]
//
// MILLISECONDS is what the work between two steps takes.
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CELLS 4096

static double values[CELLS];

static void work(long milliseconds)
{
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static int write_step(const char *path, int step)
{
    hsize_t cells = CELLS;
    for (int i = 0; i < CELLS; i++)
        values[i] = step + i / 8192.0;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (file < 0)
        return -1;
    hid_t scalar = H5Screate(H5S_SCALAR), line = H5Screate_simple(1, &cells, NULL);
    hid_t number = H5Acreate2(file, "step", H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT);
    hid_t data =
        H5Dcreate2(file, "values", H5T_NATIVE_DOUBLE, line, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    int good = H5Awrite(number, H5T_NATIVE_INT, &step) >= 0 &&
               H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
    H5Dclose(data);
    H5Aclose(number);
    H5Sclose(line);
    H5Sclose(scalar);
    return H5Fclose(file) >= 0 && good ? 0 : -1;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: stream_writer FILE STEPS [MILLISECONDS]\n");
        return 2;
    }
    for (int step = 1; step <= atoi(argv[2]); step++) {
        work(argc > 3 ? atol(argv[3]) : 0);
        if (write_step(argv[1], step) < 0)
            return 1;
        printf("stream_writer: step %d\n", step);
        fflush(stdout);
    }
    return 0;
}
