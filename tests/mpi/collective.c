/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What HDF5 says after transfers of a group about how they went, chunks that each rank writes
 * directly. Rank 0 prints the answers; through the market they must be
 * native's.
 *
 *   collective FILE [more]    more: what native's MPI-IO can't: filtered chunks written directly,
 * and fill values where an extent shrank within a chunk and grew again
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call)                                                                \
    do {                                                                          \
        if ((call) < 0) {                                                         \
            fprintf(stderr, "collective: line %d: %s failed\n", __LINE__, #call); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                         \
        }                                                                         \
    } while (0)
#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "collective: line %d, rank %d: %s\n", __LINE__, rank, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                      \
        }                                                                                      \
    } while (0)

static int rank, size;

enum {
    ROWS = 8, /* of each rank */
    COLUMNS = 16
};

static void tell(const char *what, hid_t list)
{
    H5D_mpio_actual_io_mode_t mode;
    H5D_mpio_actual_chunk_opt_mode_t chunks;
    uint32_t local, global;

    MUST(H5Pget_mpio_actual_io_mode(list, &mode));
    MUST(H5Pget_mpio_actual_chunk_opt_mode(list, &chunks));
    MUST(H5Pget_mpio_no_collective_cause(list, &local, &global));
    if (rank == 0)
        printf("%s: mode %d, chunks %d, local %#x, global %#x\n", what, (int)mode, (int)chunks,
               local, global);
}

static hid_t own_rows(void)
{
    hsize_t dims[2] = {(hsize_t)size * ROWS, COLUMNS}, start[2] = {(hsize_t)rank * ROWS, 0},
            count[2] = {ROWS, COLUMNS};
    hid_t space = H5Screate_simple(2, dims, NULL);

    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
    return space;
}

static hid_t create(hid_t file, const char *name, H5D_layout_t layout, unsigned deflate)
{
    hsize_t dims[2] = {(hsize_t)size * ROWS, COLUMNS}, most[2] = {H5S_UNLIMITED, COLUMNS},
            chunk[2] = {4, COLUMNS};
    hid_t list = H5Pcreate(H5P_DATASET_CREATE), dataset;
    hid_t space = H5Screate_simple(2, dims, layout == H5D_CHUNKED ? most : NULL);
    int fill = -1;

    if (layout == H5D_CHUNKED)
        MUST(H5Pset_chunk(list, 2, chunk));
    if (deflate)
        MUST(H5Pset_deflate(list, deflate));
    MUST(H5Pset_fill_value(list, H5T_NATIVE_INT, &fill));
    MUST(dataset = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(list);
    return dataset;
}

/* ---- how transfers went ---- */

static void transfer(hid_t dataset, const char *name)
{
    static double values[ROWS * COLUMNS];
    static int ints[ROWS * COLUMNS];
    hid_t list = H5Pcreate(H5P_DATASET_XFER), space = own_rows();
    hsize_t own[2] = {ROWS, COLUMNS};
    hid_t memory = H5Screate_simple(2, own, NULL);
    char what[64];

    tell("before", list);
    MUST(H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE));
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, list, ints));
    snprintf(what, sizeof what, "%s, collective write", name);
    tell(what, list);
    MUST(H5Dread(dataset, H5T_NATIVE_INT, memory, space, list, ints));
    snprintf(what, sizeof what, "%s, collective read", name);
    tell(what, list);
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, list, values));
    snprintf(what, sizeof what, "%s, collective read with conversion", name);
    tell(what, list);
    H5Sselect_none(space);
    H5Sselect_none(memory);
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, list, ints));
    snprintf(what, sizeof what, "%s, collective write of nothing", name);
    tell(what, list);
    H5Sclose(space);
    H5Sclose(memory);
    space = own_rows();
    memory = H5Screate_simple(2, own, NULL);
    MUST(H5Pset_dxpl_mpio(list, H5FD_MPIO_INDEPENDENT));
    MUST(H5Dread(dataset, H5T_NATIVE_INT, memory, space, list, ints));
    snprintf(what, sizeof what, "%s, independent read", name);
    tell(what, list);
    MUST(H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE));
    MUST(H5Pset_dxpl_mpio_chunk_opt(list, H5FD_MPIO_CHUNK_MULTI_IO));
    MUST(H5Dread(dataset, H5T_NATIVE_INT, memory, space, list, ints));
    snprintf(what, sizeof what, "%s, chunk by chunk", name);
    tell(what, list);
    H5Sclose(memory);
    H5Sclose(space);
    H5Pclose(list);
}

static void transfers(hid_t file)
{
    static const struct {
        const char *name;
        H5D_layout_t layout;
        unsigned deflate;
    } kinds[] = {{"contiguous", H5D_CONTIGUOUS, 0},
                 {"chunked", H5D_CHUNKED, 0},
                 {"filtered", H5D_CHUNKED, 6}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        hid_t dataset = create(file, kinds[i].name, kinds[i].layout, kinds[i].deflate);

        transfer(dataset, kinds[i].name);
        H5Dclose(dataset);
    }
}

/* ---- each rank its own chunks ---- */

static void verify_direct(hid_t dataset)
{
    int *values = malloc(sizeof(int) * (size_t)size * ROWS * COLUMNS), wrong = 0;

    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < size * ROWS * COLUMNS; i++)
        wrong += values[i] != (i / COLUMNS % ROWS < 4 ? 1000 * (i / COLUMNS / ROWS) + i % 64 : -1);
    CHECK(wrong == 0);
    free(values);
}

static void direct(hid_t file, const char *name, unsigned deflate)
{
    hid_t dataset = create(file, name, H5D_CHUNKED, deflate);
    hsize_t offset[2] = {(hsize_t)rank * ROWS, 0}, count, bytes;
    int chunk[4 * COLUMNS], back[4 * COLUMNS];
    uint32_t mask = 9;

    for (int i = 0; i < 4 * COLUMNS; i++)
        chunk[i] = 1000 * rank + i;
    /* In the filtered dataset the chunk isn't. */
    MUST(H5Dwrite_chunk(dataset, H5P_DEFAULT, deflate ? 1 : 0, offset, sizeof chunk, chunk));
    MUST(H5Dread_chunk(dataset, H5P_DEFAULT, offset, &mask, back));
    CHECK(mask == (deflate ? 1 : 0) && memcmp(chunk, back, sizeof chunk) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    verify_direct(dataset);
    MUST(H5Dget_num_chunks(dataset, H5S_ALL, &count));
    MUST(H5Dget_chunk_storage_size(dataset, offset, &bytes));
    CHECK(count == (hsize_t)(deflate ? size : 2 * size));
    CHECK(bytes == sizeof chunk);
    MPI_Barrier(MPI_COMM_WORLD);
    H5Dclose(dataset);
}

/* ---- an extent that shrinks and grows again ---- */

static int resized(int y, int x)
{
    if (y < 5)
        return 1000 * (y / ROWS) + y % ROWS * COLUMNS + x;
    return y >= size * ROWS - 2 ? 7 : -1;
}

static void verify_resized(hid_t dataset)
{
    int *values = malloc(sizeof(int) * (size_t)size * ROWS * COLUMNS), wrong = 0;

    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < size * ROWS * COLUMNS; i++)
        wrong += values[i] != resized(i / COLUMNS, i % COLUMNS);
    CHECK(wrong == 0);
    free(values);
}

static void shrink(hid_t file)
{
    hid_t dataset = create(file, "resized", H5D_CHUNKED, 0), space = own_rows();
    hsize_t own[2] = {ROWS, COLUMNS}, less[2] = {5, COLUMNS},
            again[2] = {(hsize_t)size * ROWS, COLUMNS};
    hid_t memory = H5Screate_simple(2, own, NULL);
    int values[ROWS * COLUMNS];

    for (int i = 0; i < ROWS * COLUMNS; i++)
        values[i] = 1000 * rank + i;
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
    MUST(H5Dset_extent(dataset, less));
    MUST(H5Dset_extent(dataset, again));
    H5Sclose(memory);
    H5Sclose(space);
    /* The last rank writes the last two rows. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        hsize_t start[2] = {(hsize_t)size * ROWS - 2, 0}, count[2] = {2, COLUMNS};

        for (int i = 0; i < 2 * COLUMNS; i++)
            values[i] = 7;
        space = H5Dget_space(dataset);
        MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
        MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_BLOCK, space, H5P_DEFAULT, values));
        H5Sclose(space);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    verify_resized(dataset);
    MPI_Barrier(MPI_COMM_WORLD);
    H5Dclose(dataset);
}

static void shrink_reopened(const char *path, hid_t list)
{
    hsize_t less[2] = {3, COLUMNS}, again[2] = {(hsize_t)size * ROWS, COLUMNS};
    int values[3 * COLUMNS], wrong = 0;
    hid_t file, dataset;

    MUST(file = H5Fopen(path, H5F_ACC_RDWR, list));
    MUST(dataset = H5Dopen2(file, "resized", H5P_DEFAULT));
    verify_resized(dataset);
    MPI_Barrier(MPI_COMM_WORLD);
    MUST(H5Dset_extent(dataset, less));
    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < 3 * COLUMNS; i++)
        wrong += values[i] != resized(i / COLUMNS, i % COLUMNS);
    CHECK(wrong == 0);
    MUST(H5Dset_extent(dataset, again));
    H5Dclose(dataset);
    MUST(H5Fclose(file));

    int *whole = malloc(sizeof(int) * (size_t)size * ROWS * COLUMNS);
    MUST(file = H5Fopen(path, H5F_ACC_RDONLY, list));
    MUST(dataset = H5Dopen2(file, "resized", H5P_DEFAULT));
    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, whole));
    for (int i = 0; i < size * ROWS * COLUMNS; i++)
        wrong += whole[i] != (i / COLUMNS < 3 ? resized(i / COLUMNS, i % COLUMNS) : -1);
    CHECK(wrong == 0);
    free(whole);
    H5Dclose(dataset);
    MUST(H5Fclose(file));
}

/* Each rank gets the whole file, with what the others wrote. */
static void image(hid_t file)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS), copy, dataset;

    MUST(H5Fflush(file, H5F_SCOPE_GLOBAL));
    MPI_Barrier(MPI_COMM_WORLD);
    ssize_t bytes = H5Fget_file_image(file, NULL, 0);
    MUST(bytes);
    void *buffer = malloc((size_t)bytes);
    MUST(H5Fget_file_image(file, buffer, (size_t)bytes));
    MUST(H5Pset_vol(list, H5VL_NATIVE, NULL));
    MUST(H5Pset_fapl_core(list, 1 << 16, 0));
    MUST(H5Pset_file_image(list, buffer, (size_t)bytes));
    MUST(copy = H5Fopen("image in memory", H5F_ACC_RDONLY, list));
    MUST(dataset = H5Dopen2(copy, "direct", H5P_DEFAULT));
    verify_direct(dataset);
    H5Dclose(dataset);
    MUST(H5Fclose(copy));
    H5Pclose(list);
    free(buffer);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2)
        return 2;
    hid_t list = H5Pcreate(H5P_FILE_ACCESS), file, dataset;
    int more = argc > 2;

    MUST(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL));
    MUST(file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, list));
    transfers(file);
    direct(file, "direct", 0);
    if (more) {
        direct(file, "direct filtered", 6);
        shrink(file);
        image(file);
    }
    MUST(H5Fclose(file));

    MUST(file = H5Fopen(argv[1], H5F_ACC_RDONLY, list));
    MUST(dataset = H5Dopen2(file, "direct", H5P_DEFAULT));
    verify_direct(dataset);
    H5Dclose(dataset);
    if (more) {
        MUST(dataset = H5Dopen2(file, "direct filtered", H5P_DEFAULT));
        verify_direct(dataset);
        H5Dclose(dataset);
    }
    MUST(H5Fclose(file));
    if (more)
        shrink_reopened(argv[1], list);
    H5Pclose(list);
    MPI_Finalize();
    return 0;
}
