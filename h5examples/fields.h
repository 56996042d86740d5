// SPDX-License-Identifier: BSD-3-Clause
//
// What the example time series holds: the values as a function of the step and the global index, so
// that a reader can verify every one of them, and the two helpers that both C programs use.
//
// All values are sums of small multiples of powers of two. They are exact in binary64, so C,
// Fortran and NumPy agree to the last bit.
#ifndef FIELDS_H
#define FIELDS_H

#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NFIELDS 3
static const char *const field_name[NFIELDS] = {"density", "pressure", "temperature"};
static const char *const field_units[NFIELDS] = {"g/cm3", "dyn/cm2", "K"};

static const char *const mesh_name[3] = {"x", "y", "z"};
static const double mesh_spacing[3] = {0.5, 0.25, 0.125};

struct particle {
    int64_t id;
    double pos[3];
    float mass;
};

// The value of a field in the cell with the row-major index `cell` of the whole grid.
static inline double field_value(int field, int step, hsize_t cell)
{
    return 1000.0 * (field + 1) + step + (double)cell / 1048576.0;
}

static inline double time_of_step(int step)
{
    return 0.25 * step;
}

static inline struct particle particle_value(int step, hsize_t index)
{
    struct particle p = {.id = 1000000000LL * step + (int64_t)index,
                         .mass = 1.0f + (index % 1024) / 1024.0f};
    for (int d = 0; d < 3; d++)
        p.pos[d] = step + (d + 1) * (double)index / 1024.0;
    return p;
}

static inline hid_t particle_type(void)
{
    hsize_t three = 3;
    hid_t vector = H5Tarray_create2(H5T_NATIVE_DOUBLE, 1, &three);
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(struct particle));
    H5Tinsert(type, "id", HOFFSET(struct particle, id), H5T_NATIVE_INT64);
    H5Tinsert(type, "pos", HOFFSET(struct particle, pos), vector);
    H5Tinsert(type, "mass", HOFFSET(struct particle, mass), H5T_NATIVE_FLOAT);
    H5Tclose(vector);
    return type;
}

// The part [*start, *start + *count) of n elements that is this rank's; the first ranks get one
// more.
static inline void split(hsize_t n, int rank, int size, hsize_t *start, hsize_t *count)
{
    hsize_t each = n / size, rest = n % size, r = rank;
    *start = r * each + (r < rest ? r : rest);
    *count = each + (r < rest);
}

// Passes a result of HDF5 or MPI on; a failure ends the program. HDF5 has printed its error stack.
#define CHECK(call) check((int64_t)(call), #call, __FILE__, __LINE__)
static inline int64_t check(int64_t result, const char *call, const char *file, int line)
{
    if (result < 0) {
        fprintf(stderr, "%s:%d: failed: %s\n", file, line, call);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    return result;
}

#endif
