// SPDX-License-Identifier: BSD-3-Clause
//
// Reads the time series of `simulation` with parallel HDF5, one file after the other, and verifies
// every value and attribute.
//
//   mpirun -n 3 analysis --dir DIR [--steps N] [--prefix P] [--independent]
//
// The fields are split on axis 2, the particles evenly: neither is how they were written.
#include "fields.h"

#include <math.h>
#include <string.h>

static struct {
    const char *dir, *prefix;
    int steps, independent;
} opt = {"", "step", 4, 0};

static int rank, size;
static hid_t transfer; // collective or independent
static long long mismatches;

static hsize_t dims[3], start[3], count[3], cells; // the grid and this rank's part of it
static double *field[NFIELDS];
static hsize_t nparticles, first_particle, total_particles;
static struct particle *particles;
static double *coord[3];

static void usage(void)
{
    if (rank == 0)
        fprintf(stderr, "usage: analysis --dir DIR [--steps N] [--prefix P] [--independent]\n");
    MPI_Finalize();
    exit(2);
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int left = argc - 1 - i;
        if (!strcmp(argv[i], "--dir") && left >= 1)
            opt.dir = argv[++i];
        else if (!strcmp(argv[i], "--prefix") && left >= 1)
            opt.prefix = argv[++i];
        else if (!strcmp(argv[i], "--steps") && left >= 1)
            opt.steps = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--independent"))
            opt.independent = 1;
        else
            usage();
    }
    if (!*opt.dir || opt.steps < 1)
        usage();
}

static void expect(int right, const char *what)
{
    if (!right && mismatches++ < 5)
        fprintf(stderr, "analysis: rank %d: wrong %s\n", rank, what);
}

static void read_attribute(hid_t object, const char *name, hid_t type, void *value)
{
    hid_t attr = CHECK(H5Aopen(object, name, H5P_DEFAULT));
    CHECK(H5Aread(attr, type, value));
    CHECK(H5Aclose(attr));
}

static void expect_string(hid_t object, const char *name, const char *value)
{
    char found[32] = "";
    hid_t type = CHECK(H5Tcopy(H5T_C_S1));
    CHECK(H5Tset_size(type, sizeof found));
    read_attribute(object, name, type, found);
    CHECK(H5Tclose(type));
    expect(!strcmp(found, value), name);
}

// Buffers are allocated, and touched, when the first file tells the size of the grid.
static void allocate(void)
{
    split(dims[2], rank, size, &start[2], &count[2]);
    count[0] = dims[0];
    count[1] = dims[1];
    cells = count[0] * count[1] * count[2];
    for (int f = 0; f < NFIELDS; f++) {
        field[f] = malloc((cells + 1) * sizeof *field[f]);
        memset(field[f], 0xff, (cells + 1) * sizeof *field[f]);
    }
    for (int d = 0; d < 3; d++)
        coord[d] = malloc(dims[d] * sizeof *coord[d]);
}

static void read_fields(hid_t file)
{
    hid_t group = CHECK(H5Gopen2(file, "fields", H5P_DEFAULT));
    hsize_t found[3];
    read_attribute(group, "dims", H5T_NATIVE_HSIZE, found);
    if (!cells && !dims[0]) {
        memcpy(dims, found, sizeof dims);
        allocate();
    }
    expect(!memcmp(found, dims, sizeof dims), "dims");

    hid_t memspace = CHECK(H5Screate_simple(3, count, NULL));
    if (!cells)
        CHECK(H5Sselect_none(memspace));
    for (int f = 0; f < NFIELDS; f++) {
        hid_t dset = CHECK(H5Dopen2(group, field_name[f], H5P_DEFAULT));
        hid_t filespace = CHECK(H5Dget_space(dset));
        if (cells)
            CHECK(H5Sselect_hyperslab(filespace, H5S_SELECT_SET, start, NULL, count, NULL));
        else
            CHECK(H5Sselect_none(filespace));
        CHECK(H5Dread(dset, H5T_NATIVE_DOUBLE, memspace, filespace, transfer, field[f]));
        expect_string(dset, "units", field_units[f]);
        CHECK(H5Sclose(filespace));
        CHECK(H5Dclose(dset));
    }
    CHECK(H5Sclose(memspace));
    CHECK(H5Gclose(group));
}

static void read_particles(hid_t file)
{
    static hsize_t room;
    hsize_t announced;
    hid_t group = CHECK(H5Gopen2(file, "particles", H5P_DEFAULT));
    read_attribute(group, "count", H5T_NATIVE_HSIZE, &announced);
    hid_t dset = CHECK(H5Dopen2(group, "table", H5P_DEFAULT));
    hid_t filespace = CHECK(H5Dget_space(dset));
    CHECK(H5Sget_simple_extent_dims(filespace, &total_particles, NULL));
    expect(announced == total_particles, "count of particles");
    expect_string(dset, "units", "cm, g");

    split(total_particles, rank, size, &first_particle, &nparticles);
    if (nparticles > room) {
        room = nparticles;
        free(particles);
        particles = malloc(room * sizeof *particles);
    }
    hid_t type = CHECK(particle_type());
    hid_t memspace = CHECK(H5Screate_simple(1, &nparticles, NULL));
    CHECK(H5Sselect_hyperslab(filespace, H5S_SELECT_SET, &first_particle, NULL, &nparticles, NULL));
    CHECK(H5Dread(dset, type, memspace, filespace, transfer, particles));
    CHECK(H5Sclose(memspace));
    CHECK(H5Tclose(type));
    CHECK(H5Sclose(filespace));
    CHECK(H5Dclose(dset));
    CHECK(H5Gclose(group));
}

static void read_mesh(hid_t file)
{
    double spacing[3];
    hid_t group = CHECK(H5Gopen2(file, "mesh", H5P_DEFAULT));
    read_attribute(group, "spacing", H5T_NATIVE_DOUBLE, spacing);
    expect(!memcmp(spacing, mesh_spacing, sizeof spacing), "spacing");
    expect_string(group, "units", "cm");
    for (int d = 0; d < 3; d++) {
        hid_t dset = CHECK(H5Dopen2(group, mesh_name[d], H5P_DEFAULT));
        CHECK(H5Dread(dset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, transfer, coord[d]));
        CHECK(H5Dclose(dset));
    }
    CHECK(H5Gclose(group));
}

static void read_step(int step, hid_t file)
{
    int found_step;
    double time;
    read_attribute(file, "step", H5T_NATIVE_INT, &found_step);
    read_attribute(file, "time", H5T_NATIVE_DOUBLE, &time);
    expect(found_step == step, "step");
    expect(time == time_of_step(step), "time");
    read_fields(file);
    read_particles(file);
    read_mesh(file);
}

static void verify(int step)
{
    for (int f = 0; f < NFIELDS; f++)
        for (hsize_t at = 0, i = 0; i < count[0]; i++)
            for (hsize_t j = 0; j < count[1]; j++)
                for (hsize_t k = start[2]; k < start[2] + count[2]; k++, at++)
                    expect(field[f][at] == field_value(f, step, (i * dims[1] + j) * dims[2] + k),
                           field_name[f]);

    for (hsize_t i = 0; i < nparticles; i++) {
        struct particle p = particle_value(step, first_particle + i);
        expect(particles[i].id == p.id && particles[i].mass == p.mass &&
                   !memcmp(particles[i].pos, p.pos, sizeof p.pos),
               "particle");
    }
    for (int d = 0; d < 3; d++)
        for (hsize_t i = 0; i < dims[d]; i++)
            expect(coord[d][i] == i * mesh_spacing[d], mesh_name[d]);

    // Old values must not pass for new ones.
    for (int f = 0; f < NFIELDS; f++)
        memset(field[f], 0xff, cells * sizeof *field[f]);
    memset(particles, 0xff, nparticles * sizeof *particles);
}

static void report(int step)
{
    double sum[2] = {0, 0}, all[2], hottest = -INFINITY, max;
    for (hsize_t i = 0; i < cells; i++) {
        sum[0] += field[0][i];
        hottest = fmax(hottest, field[2][i]);
    }
    for (hsize_t i = 0; i < nparticles; i++)
        sum[1] += particles[i].mass;
    MPI_Reduce(sum, all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&hottest, &max, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("analysis: step %d: mean density %.6f, highest temperature %.6f, %llu particles of "
               "mass %.3f\n",
               step, all[0] / ((double)dims[0] * dims[1] * dims[2]), max,
               (unsigned long long)total_particles, all[1]);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    parse(argc, argv);

    hid_t access = CHECK(H5Pcreate(H5P_FILE_ACCESS));
    CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    transfer = CHECK(H5Pcreate(H5P_DATASET_XFER));
    CHECK(
        H5Pset_dxpl_mpio(transfer, opt.independent ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE));

    double seconds[2] = {0, 0}, bytes = 0; // in H5Fopen; from there to the end of H5Fclose
    for (int step = 0; step < opt.steps; step++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s_%04d.h5", opt.dir, opt.prefix, step);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        hid_t file = CHECK(H5Fopen(path, H5F_ACC_RDONLY, access));
        double opened = MPI_Wtime();
        read_step(step, file);
        CHECK(H5Fclose(file));
        double end = MPI_Wtime();
        seconds[0] += opened - begin;
        seconds[1] += end - opened;
        bytes += NFIELDS * cells * sizeof(double) + nparticles * sizeof(struct particle);
        report(step);
        verify(step);
    }

    double slowest[2], all;
    long long wrong;
    MPI_Reduce(seconds, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&bytes, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&mismatches, &wrong, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("analysis: %lld mismatches, open_seconds=%.6f io_seconds=%.6f bytes=%.0f\n", wrong,
               slowest[0], slowest[1], all);

    CHECK(H5Pclose(transfer));
    CHECK(H5Pclose(access));
    for (int f = 0; f < NFIELDS; f++)
        free(field[f]);
    for (int d = 0; d < 3; d++)
        free(coord[d]);
    free(particles);
    MPI_Finalize();
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
