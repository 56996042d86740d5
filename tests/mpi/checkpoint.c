/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain parallel simulation with a checkpoint a step, which can go on from any of them with any
 * number of ranks. Each value depends on all steps before it, so a wrong one stays wrong.
 *
 *   checkpoint LAST [FILE]    steps up to LAST, from the start or from the checkpoint FILE
 */
#include <hdf5.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VALUES 100003

static int rank, size;
static hsize_t first, count;
static uint64_t *values;

static void must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "checkpoint: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Step `step` of element `at`. */
static uint64_t advance(uint64_t value, hsize_t at, int step)
{
    return value * 6364136223846793005u + at * 1442695040888963407u + (uint64_t)step;
}

static void transfer(hid_t file, int writing)
{
    const hsize_t all[1] = {VALUES};
    hid_t space = H5Screate_simple(1, all, NULL), memory = H5Screate_simple(1, &count, NULL);
    hid_t list = H5Pcreate(H5P_DATASET_XFER);
    hid_t dataset = writing ? H5Dcreate2(file, "values", H5T_STD_U64LE, space, H5P_DEFAULT,
                                         H5P_DEFAULT, H5P_DEFAULT)
                            : H5Dopen2(file, "values", H5P_DEFAULT);
    must(dataset >= 0, "no dataset");
    H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &count, NULL);
    must((writing ? H5Dwrite(dataset, H5T_NATIVE_UINT64, memory, space, list, values)
                  : H5Dread(dataset, H5T_NATIVE_UINT64, memory, space, list, values)) >= 0,
         "a transfer failed");
    H5Dclose(dataset);
    H5Pclose(list);
    H5Sclose(memory);
    H5Sclose(space);
}

static hid_t step_attribute(hid_t file, int create)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = create
                          ? H5Acreate2(file, "step", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT)
                          : H5Aopen(file, "step", H5P_DEFAULT);
    must(attribute >= 0, "no attribute");
    H5Sclose(space);
    return attribute;
}

static void save(hid_t access, int step)
{
    char path[64];
    snprintf(path, sizeof(path), "chk_%04d.h5", step);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    must(file >= 0, "a checkpoint can't be created");
    hid_t attribute = step_attribute(file, 1);
    must(H5Awrite(attribute, H5T_NATIVE_INT, &step) >= 0, "the step can't be written");
    H5Aclose(attribute);
    transfer(file, 1);
    must(H5Fclose(file) >= 0, "a checkpoint can't be closed");
}

static int restore(hid_t access, const char *path)
{
    int step = -1;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
    must(file >= 0, "the checkpoint can't be opened");
    hid_t attribute = step_attribute(file, 0);
    must(H5Aread(attribute, H5T_NATIVE_INT, &step) >= 0, "the step can't be read");
    H5Aclose(attribute);
    transfer(file, 0);
    H5Fclose(file);
    return step;
}

static void check(int step)
{
    for (hsize_t i = 0; i < count; i++) {
        uint64_t value = 0;
        for (int s = 1; s <= step; s++)
            value = advance(value, first + i, s);
        must(values[i] == value, "a value is wrong");
    }
}

int main(int argc, char **argv)
{
    int last = argc > 1 ? atoi(argv[1]) : 0, step = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    first = (hsize_t)VALUES * (hsize_t)rank / (hsize_t)size;
    count = (hsize_t)VALUES * (hsize_t)(rank + 1) / (hsize_t)size - first;
    values = calloc(count, sizeof(*values));
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    if (argc > 2) {
        step = restore(access, argv[2]);
        check(step);
        if (rank == 0)
            printf("from %d\n", step);
    }
    while (step < last) {
        step++;
        for (hsize_t i = 0; i < count; i++)
            values[i] = advance(values[i], first + i, step);
        save(access, step);
        if (rank == 0)
            printf("step %d\n", step);
        fflush(stdout);
        usleep(20000);
    }
    check(step);
    if (rank == 0)
        printf("right up to %d\n", step);
    H5Pclose(access);
    free(values);
    MPI_Finalize();
    return 0;
}
