// SPDX-License-Identifier: BSD-3-Clause
//
// A pretend simulation: every step writes one file with parallel HDF5.
//
//   mpirun -n 2 simulation --dir DIR [--steps N] [--dims NX NY NZ] [--particles N] [--prefix P]
//                          [--sleep-ms MS] [--independent]
//
// The fields are split by blocks on axis 0. Each rank has another number of particles.
#include "fields.h"

#include <string.h>
#include <unistd.h>

static struct {
    const char *dir, *prefix;
    int steps, sleep_ms, independent;
    hsize_t dims[3], particles;
} opt = {"", "step", 4, 0, 0, {32, 32, 32}, 1000};

static int rank, size;
static hid_t transfer;                    // collective or independent
static hsize_t start[3], count[3], cells; // this rank's block
static double *field[NFIELDS];
static struct particle *particles;
static hsize_t nparticles;

static void usage(void)
{
    if (rank == 0)
        fprintf(stderr, "usage: simulation --dir DIR [--steps N] [--dims NX NY NZ] [--particles N]"
                        " [--prefix P] [--sleep-ms MS] [--independent]\n");
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
        else if (!strcmp(argv[i], "--particles") && left >= 1)
            opt.particles = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--sleep-ms") && left >= 1)
            opt.sleep_ms = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--independent"))
            opt.independent = 1;
        else if (!strcmp(argv[i], "--dims") && left >= 3)
            for (int d = 0; d < 3; d++)
                opt.dims[d] = strtoull(argv[++i], NULL, 10);
        else
            usage();
    }
    if (!*opt.dir || opt.steps < 1 || !opt.dims[0] || !opt.dims[1] || !opt.dims[2])
        usage();
}

static void compute(int step)
{
    usleep(1000 * opt.sleep_ms);
    hsize_t first = start[0] * opt.dims[1] * opt.dims[2];
    for (int f = 0; f < NFIELDS; f++)
        for (hsize_t i = 0; i < cells; i++)
            field[f][i] = field_value(f, step, first + i);

    // Particles move between the ranks, so their numbers change; they are numbered through all
    // ranks.
    nparticles = opt.particles + 10 * rank + step;
    unsigned long long mine = nparticles, before = 0;
    MPI_Exscan(&mine, &before, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (hsize_t i = 0; i < nparticles; i++)
        particles[i] = particle_value(step, before + i);
}

static void write_attribute(hid_t object, const char *name, hid_t type, hsize_t n,
                            const void *value)
{
    hid_t space = CHECK(n == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &n, NULL));
    hid_t attr = CHECK(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
    CHECK(H5Awrite(attr, type, value));
    CHECK(H5Aclose(attr));
    CHECK(H5Sclose(space));
}

static void write_string(hid_t object, const char *name, const char *value)
{
    hid_t type = CHECK(H5Tcopy(H5T_C_S1));
    CHECK(H5Tset_size(type, strlen(value) + 1));
    write_attribute(object, name, type, 1, value);
    CHECK(H5Tclose(type));
}

static void write_fields(hid_t file)
{
    hid_t group = CHECK(H5Gcreate2(file, "fields", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    write_attribute(group, "dims", H5T_NATIVE_HSIZE, 3, opt.dims);

    hid_t filespace = CHECK(H5Screate_simple(3, opt.dims, NULL));
    hid_t memspace = CHECK(H5Screate_simple(3, count, NULL));
    if (cells) {
        CHECK(H5Sselect_hyperslab(filespace, H5S_SELECT_SET, start, NULL, count, NULL));
    } else {
        CHECK(H5Sselect_none(filespace));
        CHECK(H5Sselect_none(memspace));
    }
    for (int f = 0; f < NFIELDS; f++) {
        hid_t create = CHECK(H5Pcreate(H5P_DATASET_CREATE));
        if (f == 1) { // pressure is chunked; the chunks don't end where the blocks of the ranks do
            hsize_t chunk[3];
            for (int d = 0; d < 3; d++)
                chunk[d] = (opt.dims[d] + 2) / 3;
            CHECK(H5Pset_chunk(create, 3, chunk));
        }
        hid_t dset = CHECK(H5Dcreate2(group, field_name[f], H5T_NATIVE_DOUBLE, filespace,
                                      H5P_DEFAULT, create, H5P_DEFAULT));
        CHECK(H5Dwrite(dset, H5T_NATIVE_DOUBLE, memspace, filespace, transfer, field[f]));
        write_string(dset, "units", field_units[f]);
        CHECK(H5Dclose(dset));
        CHECK(H5Pclose(create));
    }
    CHECK(H5Sclose(memspace));
    CHECK(H5Sclose(filespace));
    CHECK(H5Gclose(group));
}

static void write_particles(hid_t file)
{
    unsigned long long mine = nparticles, before = 0, all;
    MPI_Exscan(&mine, &before, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    hsize_t total = all, offset = before;

    hid_t group = CHECK(H5Gcreate2(file, "particles", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    write_attribute(group, "count", H5T_NATIVE_HSIZE, 1, &total);

    hid_t type = CHECK(particle_type());
    hid_t filespace = CHECK(H5Screate_simple(1, &total, NULL));
    hid_t memspace = CHECK(H5Screate_simple(1, &nparticles, NULL));
    CHECK(H5Sselect_hyperslab(filespace, H5S_SELECT_SET, &offset, NULL, &nparticles, NULL));
    hid_t dset =
        CHECK(H5Dcreate2(group, "table", type, filespace, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    CHECK(H5Dwrite(dset, type, memspace, filespace, transfer, particles));
    write_string(dset, "units", "cm, g");
    CHECK(H5Dclose(dset));
    CHECK(H5Sclose(memspace));
    CHECK(H5Sclose(filespace));
    CHECK(H5Tclose(type));
    CHECK(H5Gclose(group));
}

// The coordinates are small: rank 0 writes them, the others take part with an empty selection.
static void write_mesh(hid_t file)
{
    hid_t group = CHECK(H5Gcreate2(file, "mesh", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    write_attribute(group, "spacing", H5T_NATIVE_DOUBLE, 3, mesh_spacing);
    write_string(group, "units", "cm");
    for (int d = 0; d < 3; d++) {
        double *coord = malloc(opt.dims[d] * sizeof *coord);
        for (hsize_t i = 0; i < opt.dims[d]; i++)
            coord[i] = i * mesh_spacing[d];
        hid_t space = CHECK(H5Screate_simple(1, &opt.dims[d], NULL));
        hid_t dset = CHECK(H5Dcreate2(group, mesh_name[d], H5T_NATIVE_DOUBLE, space, H5P_DEFAULT,
                                      H5P_DEFAULT, H5P_DEFAULT));
        if (rank != 0)
            CHECK(H5Sselect_none(space));
        CHECK(H5Dwrite(dset, H5T_NATIVE_DOUBLE, space, space, transfer, coord));
        CHECK(H5Dclose(dset));
        CHECK(H5Sclose(space));
        free(coord);
    }
    CHECK(H5Gclose(group));
}

static void write_step(int step, hid_t access)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s_%04d.h5", opt.dir, opt.prefix, step);
    double time = time_of_step(step);

    hid_t file = CHECK(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    write_attribute(file, "step", H5T_NATIVE_INT, 1, &step);
    write_attribute(file, "time", H5T_NATIVE_DOUBLE, 1, &time);
    write_fields(file);
    write_particles(file);
    write_mesh(file);
    CHECK(H5Fclose(file));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    parse(argc, argv);

    memcpy(count, opt.dims, sizeof count);
    split(opt.dims[0], rank, size, &start[0], &count[0]);
    cells = count[0] * count[1] * count[2];
    for (int f = 0; f < NFIELDS; f++)
        field[f] = malloc((cells + 1) * sizeof *field[f]);
    particles = malloc((opt.particles + 10 * rank + opt.steps) * sizeof *particles);

    hid_t access = CHECK(H5Pcreate(H5P_FILE_ACCESS));
    CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    transfer = CHECK(H5Pcreate(H5P_DATASET_XFER));
    CHECK(
        H5Pset_dxpl_mpio(transfer, opt.independent ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE));

    double io_seconds = 0, bytes = 0;
    for (int step = 0; step < opt.steps; step++) {
        compute(step);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        write_step(step, access);
        double end = MPI_Wtime();
        if (rank == 0) {
            printf("simulation: wrote step %d in %.3f s\n", step, end - begin);
            fflush(stdout);
        }
        io_seconds += end - begin;
        bytes += NFIELDS * cells * sizeof(double) + nparticles * sizeof(struct particle);
    }

    double slowest, all;
    MPI_Reduce(&io_seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&bytes, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("simulation: io_seconds=%.6f bytes=%.0f\n", slowest, all);

    CHECK(H5Pclose(transfer));
    CHECK(H5Pclose(access));
    for (int f = 0; f < NFIELDS; f++)
        free(field[f]);
    free(particles);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
