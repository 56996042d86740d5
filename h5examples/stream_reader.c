// SPDX-License-Identifier: BSD-3-Clause
//
// Opens one file again and again until that fails, and verifies what it finds.
//
//   stream_reader FILE [MILLISECONDS]
//
// MILLISECONDS is what the work on a step takes. Ends with 0 if the open failed because the stream
// of its versions has ended, with 3 if it failed for another reason, with 1 on a wrong value.
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CELLS 4096

static double values[CELLS];

static void work(long milliseconds)
{
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static int verify(hid_t file)
{
    int step = -1, wrong = 0;
    hid_t number = H5Aopen(file, "step", H5P_DEFAULT);
    hid_t data = H5Dopen2(file, "values", H5P_DEFAULT);
    if (H5Aread(number, H5T_NATIVE_INT, &step) < 0 ||
        H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        wrong = CELLS;
    for (int i = 0; i < CELLS && wrong < CELLS; i++)
        wrong += values[i] != step + i / 8192.0;
    H5Dclose(data);
    H5Aclose(number);
    printf("stream_reader: step %d%s\n", step, wrong ? ", WRONG" : "");
    fflush(stdout);
    return wrong;
}

// H5E_CANTNEXT: there is no next one, and none will come.
static herr_t look_for_end(unsigned n, const H5E_error2_t *error, void *is_end)
{
    (void)n;
    if (error->min_num == H5E_CANTNEXT)
        *(int *)is_end = 1;
    return 0;
}

int main(int argc, char **argv)
{
    int wrong = 0, is_end = 0;
    hid_t file;
    if (argc < 2) {
        fprintf(stderr, "usage: stream_reader FILE [MILLISECONDS]\n");
        return 2;
    }
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    while ((file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT)) >= 0) {
        wrong += verify(file);
        work(argc > 2 ? atol(argv[2]) : 0);
        H5Fclose(file);
    }
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, look_for_end, &is_end);
    if (is_end)
        printf("stream_reader: end of stream\n");
    else
        H5Eprint2(H5E_DEFAULT, stderr);
    return wrong ? 1 : is_end ? 0 : 3;
}
