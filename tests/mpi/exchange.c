/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain parallel HDF5 program that writes, or reads and verifies, one file with a dataset for
 * each combination of dataspace rank (1 to 5) and way to split it over the processes. Every value
 * is known from its place, so any number of writers can be read by any number of readers.
 *
 *   exchange write FILE     exchange read FILE     exchange rewrite FILE (reopens, overwrites a
 * part)
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANK 5
#define FILL     (-1.0)

enum pattern {
    BLOCK,
    UNEVEN,
    CYCLIC,
    POINTS,
    GHOST,
    LAST_AXIS,
    CHECKER,
    OVERWRITE,
    HALF,
    PATTERNS
};
static const char *const pattern_name[PATTERNS] = {
    "block", "uneven", "cyclic", "points", "ghost", "last_axis", "checker", "overwrite", "half"};

static int rank, size, failures;

static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "exchange: rank %d: %s failed\n", rank, what);
    H5Eprint2(H5E_DEFAULT, stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void shape(int dims_count, hsize_t *dims)
{
    static const hsize_t extent[MAX_RANK][MAX_RANK] = {
        {1003}, {37, 24}, {24, 10, 9}, {12, 5, 7, 4}, {12, 3, 4, 2, 5}};

    memcpy(dims, extent[dims_count - 1], sizeof(hsize_t) * (size_t)dims_count);
}

static hsize_t volume(int dims_count, const hsize_t *dims)
{
    hsize_t n = 1;

    for (int d = 0; d < dims_count; d++)
        n *= dims[d];
    return n;
}

/* What stands at an element after all writes. */
static double expected(enum pattern pattern, int dims_count, const hsize_t *dims, hsize_t index,
                       int rewritten)
{
    hsize_t row = index / (volume(dims_count, dims) / dims[0]);
    double value = (double)index + 1000.0 * pattern + 100000.0 * dims_count;

    if (pattern == OVERWRITE && row >= dims[0] / 4 && row < dims[0] / 2)
        value = -value;
    if (pattern == HALF && row >= dims[0] / 2)
        value = FILL;
    if (rewritten && row == 1)
        value += 0.5;
    return value;
}

/* Selects what process `who` of `of` has in this way of splitting. Returns the number of elements.
 */
static hsize_t select_part(hid_t space, enum pattern pattern, int dims_count, const hsize_t *dims,
                           int who, int of)
{
    hsize_t start[MAX_RANK] = {0}, count[MAX_RANK], block[MAX_RANK];
    int axis = pattern == LAST_AXIS ? dims_count - 1 : 0;
    hsize_t n = dims[axis], from = n * (hsize_t)who / (hsize_t)of,
            to = n * (hsize_t)(who + 1) / (hsize_t)of;

    memcpy(count, dims, sizeof(hsize_t) * (size_t)dims_count);
    if (pattern == UNEVEN) { /* shares grow with the process; the first of several has none */
        hsize_t all = of > 1 ? (hsize_t)of * (hsize_t)(of - 1) / 2 : 1;
        from = of > 1 ? n * ((hsize_t)who * (hsize_t)(who - 1) / 2) / all : 0;
        to = of > 1 ? n * ((hsize_t)(who + 1) * (hsize_t)who / 2) / all : n;
        if (who == 0 && of > 1)
            from = to = 0;
    }
    if (pattern == HALF) {
        from = n / 2 * (hsize_t)who / (hsize_t)of;
        to = n / 2 * (hsize_t)(who + 1) / (hsize_t)of;
    }
    if (pattern == GHOST) {
        from = from > 0 ? from - 1 : 0;
        to = to < n ? to + 1 : n;
    }
    H5Sselect_none(space);
    if (pattern == CYCLIC) {
        for (hsize_t at = 2 * (hsize_t)who; at < n; at += 2 * (hsize_t)of) {
            start[0] = at;
            count[0] = at + 2 <= n ? 2 : n - at;
            H5Sselect_hyperslab(space, H5S_SELECT_OR, start, NULL, count, NULL);
        }
    } else if (pattern == POINTS) {
        hsize_t total = volume(dims_count, dims), points = 0;
        hsize_t *coords =
            malloc(sizeof(hsize_t) * (size_t)dims_count * (size_t)(total / (hsize_t)of + 1));
        for (hsize_t i = total; i-- > 0;) { /* backwards: not in the file's order */
            if (i % (hsize_t)of != (hsize_t)who)
                continue;
            hsize_t rest = i;
            for (int d = dims_count; d-- > 0; rest /= dims[d])
                coords[points * (hsize_t)dims_count + (hsize_t)d] = rest % dims[d];
            points++;
        }
        if (points > 0)
            H5Sselect_elements(space, H5S_SELECT_SET, points, coords);
        free(coords);
    } else if (pattern == CHECKER) { /* two boxes a process, not in one row */
        hsize_t middle = dims_count > 1 ? dims[dims_count - 1] / 2 : 0;
        for (int half = 0; half < (dims_count > 1 ? 2 : 1); half++) {
            hsize_t owner = (hsize_t)((who + half) % of);
            start[0] = n * owner / (hsize_t)of;
            count[0] = n * (owner + 1) / (hsize_t)of - start[0];
            if (dims_count > 1) {
                start[dims_count - 1] = half ? middle : 0;
                count[dims_count - 1] = half ? dims[dims_count - 1] - middle : middle;
            }
            H5Sselect_hyperslab(space, H5S_SELECT_OR, start, NULL, count, NULL);
        }
    } else if (to > from) {
        start[axis] = from;
        count[axis] = 1;
        memcpy(block, dims, sizeof(hsize_t) * (size_t)dims_count);
        block[axis] = to - from;
        for (int d = 0; d < dims_count; d++)
            count[d] = 1;
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, block);
    }
    return (hsize_t)H5Sget_select_npoints(space);
}

/* The linear indices of a selection, in its order. */
static hsize_t *indices_of(hid_t space, hsize_t elements)
{
    hsize_t *index = malloc(sizeof(hsize_t) * (size_t)(elements + 1)), filled = 0;

    if (elements == 0)
        return index;
    hid_t iterator = H5Ssel_iter_create(space, 1, 0);
    while (filled < elements) {
        hsize_t offset[64];
        size_t length[64], runs, got;
        check(H5Ssel_iter_get_seq_list(iterator, 64, (size_t)elements, &runs, &got, offset,
                                       length) >= 0,
              "iteration");
        for (size_t r = 0; r < runs; r++)
            for (size_t e = 0; e < length[r]; e++)
                index[filled++] = offset[r] + e;
    }
    H5Ssel_iter_close(iterator);
    return index;
}

static void transfer_part(hid_t dataset, enum pattern pattern, enum pattern split, int dims_count,
                          hid_t list, int writing, int rewritten)
{
    hsize_t dims[MAX_RANK];
    shape(dims_count, dims);
    hid_t space = H5Screate_simple(dims_count, dims, NULL);
    hsize_t elements = select_part(space, split, dims_count, dims, rank, size);
    hid_t memory = H5Screate_simple(1, &elements, NULL);
    hsize_t *index = indices_of(space, elements);
    double *values = malloc(sizeof(double) * (size_t)(elements + 1));

    if (elements == 0)
        H5Sselect_none(memory);
    for (hsize_t i = 0; i < elements; i++) {
        double want = expected(pattern, dims_count, dims, index[i], rewritten);
        if (writing && pattern == OVERWRITE)
            want = want < 0 ? -want : want; /* the second write turns a part negative */
        values[i] = writing ? want : 1e300;
    }
    if (writing)
        check(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, list, values) >= 0, "H5Dwrite");
    else {
        check(H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, list, values) >= 0, "H5Dread");
        for (hsize_t i = 0; i < elements; i++) {
            double want = expected(pattern, dims_count, dims, index[i], rewritten);
            if (values[i] != want && failures++ < 5)
                fprintf(stderr,
                        "exchange: rank %d of %d: %s, %d dimensions, split %s, element %llu: "
                        "%.17g, not %.17g\n",
                        rank, size, pattern_name[pattern], dims_count, pattern_name[split],
                        (unsigned long long)index[i], values[i], want);
        }
    }
    free(values);
    free(index);
    H5Sclose(memory);
    H5Sclose(space);
}

/* Everybody has written; after a barrier the last process turns a quarter of it negative. */
static void overwrite_part(hid_t dataset, int dims_count)
{
    hsize_t dims[MAX_RANK], start[MAX_RANK] = {0}, count[MAX_RANK];
    shape(dims_count, dims);
    memcpy(count, dims, sizeof count);
    start[0] = dims[0] / 4;
    count[0] = dims[0] / 2 - dims[0] / 4;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        hid_t space = H5Screate_simple(dims_count, dims, NULL);
        hsize_t row = volume(dims_count, dims) / dims[0], elements = count[0] * row;
        hid_t memory = H5Screate_simple(1, &elements, NULL);
        double *values = malloc(sizeof(double) * (size_t)elements);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
        for (hsize_t i = 0; i < elements; i++)
            values[i] = expected(OVERWRITE, dims_count, dims, start[0] * row + i, 0);
        check(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, values) >= 0,
              "overwriting H5Dwrite");
        free(values);
        H5Sclose(memory);
        H5Sclose(space);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static hid_t transfer_list(int number)
{
    hid_t list = H5Pcreate(H5P_DATASET_XFER);

    H5Pset_dxpl_mpio(list, number % 2 ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    return list;
}

/* Contiguous or chunked, in the memory's type or one that must be converted. */
static hid_t create_dataset(hid_t file, const char *name, int dims_count, int number)
{
    static const double fill = FILL;
    hsize_t dims[MAX_RANK], chunk[MAX_RANK];
    shape(dims_count, dims);
    hid_t space = H5Screate_simple(dims_count, dims, NULL), list = H5Pcreate(H5P_DATASET_CREATE);

    for (int d = 0; d < dims_count; d++)
        chunk[d] = dims[d] / 2 + 1;
    H5Pset_fill_value(list, H5T_NATIVE_DOUBLE, &fill);
    if (number % 3 == 1)
        H5Pset_chunk(list, dims_count, chunk);
    hid_t type = number % 4 == 2 ? H5T_IEEE_F64BE : H5T_NATIVE_DOUBLE;
    hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    check(dataset >= 0, "H5Dcreate");
    H5Pclose(list);
    H5Sclose(space);
    return dataset;
}

static void run_file(hid_t file, const char *command, int rewritten)
{
    int writing = strcmp(command, "write") == 0, number = 0;

    for (int dims_count = 1; dims_count <= MAX_RANK; dims_count++)
        for (int pattern = 0; pattern < PATTERNS; pattern++, number++) {
            char name[64];
            snprintf(name, sizeof name, "%s_%dd", pattern_name[pattern], dims_count);
            hid_t list = transfer_list(number);
            hid_t dataset = writing ? create_dataset(file, name, dims_count, number)
                                    : H5Dopen2(file, name, H5P_DEFAULT);
            check(dataset >= 0, "opening a dataset");
            if (writing) {
                transfer_part(dataset, pattern, pattern == OVERWRITE ? BLOCK : pattern, dims_count,
                              list, 1, 0);
                if (pattern == OVERWRITE)
                    overwrite_part(dataset, dims_count);
                MPI_Barrier(MPI_COMM_WORLD); /* what another process has written can be read before
                                                the close */
                transfer_part(dataset, pattern, LAST_AXIS, dims_count, list, 0, 0);
                MPI_Barrier(MPI_COMM_WORLD);
            } else
                for (int split = 0; split < PATTERNS; split++)
                    if (split != OVERWRITE && split != HALF)
                        transfer_part(dataset, pattern, split, dims_count, list, 0, rewritten);
            H5Dclose(dataset);
            H5Pclose(list);
        }
}

/* Reopens the file and adds 0.5 to row 1 of every dataset, one process a dataset in turn. */
static void rewrite_file(hid_t file)
{
    int number = 0;

    for (int dims_count = 1; dims_count <= MAX_RANK; dims_count++)
        for (int pattern = 0; pattern < PATTERNS; pattern++, number++) {
            char name[64];
            hsize_t dims[MAX_RANK], start[MAX_RANK] = {1}, count[MAX_RANK];
            snprintf(name, sizeof name, "%s_%dd", pattern_name[pattern], dims_count);
            hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
            check(dataset >= 0, "opening a dataset");
            if (number % size == rank) {
                shape(dims_count, dims);
                hsize_t row = volume(dims_count, dims) / dims[0];
                memcpy(count, dims, sizeof count);
                count[0] = 1;
                hid_t space = H5Screate_simple(dims_count, dims, NULL),
                      memory = H5Screate_simple(1, &row, NULL);
                double *values = malloc(sizeof(double) * (size_t)row);
                H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
                for (hsize_t i = 0; i < row; i++)
                    values[i] = expected(pattern, dims_count, dims, row + i, 1);
                check(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, values) >= 0,
                      "H5Dwrite");
                free(values);
                H5Sclose(memory);
                H5Sclose(space);
            }
            H5Dclose(dataset);
        }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3) {
        fprintf(stderr, "usage: exchange write|read|read-rewritten|rewrite FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), file;
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    if (strcmp(argv[1], "write") == 0)
        file = H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    else
        file = H5Fopen(argv[2], strcmp(argv[1], "rewrite") == 0 ? H5F_ACC_RDWR : H5F_ACC_RDONLY,
                       access);
    check(file >= 0, "opening the file");
    if (strcmp(argv[1], "rewrite") == 0)
        rewrite_file(file);
    else
        run_file(file, argv[1], strcmp(argv[1], "read-rewritten") == 0);
    H5Pclose(access);
    check(H5Fclose(file) >= 0, "H5Fclose");
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("exchange: %s by %d: %d wrong values\n", argv[1], size, failures);
    MPI_Finalize();
    return failures != 0;
}
