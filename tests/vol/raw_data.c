/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain serial HDF5 program: each scenario writes something and says what must be read back. Run
 * as
 *
 *   raw_data write FILE     writes, verifies before the close, reopens and verifies again
 *   raw_data read FILE [BUT]   verifies in another process, all scenarios but one
 */
#include "scenario.h"

#include <stdbool.h>
#include <string.h>

static hid_t dataset_new(hid_t file, hid_t type, int rank, const hsize_t *dims, const hsize_t *max,
                         const hsize_t *chunk, const void *fill)
{
    hid_t space = H5Screate_simple(rank, dims, max), list = H5Pcreate(H5P_DATASET_CREATE), dataset;

    if (chunk)
        H5Pset_chunk(list, rank, chunk);
    if (fill)
        H5Pset_fill_value(list, type, fill);
    MUST(dataset = H5Dcreate2(file, scenario, type, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Pclose(list);
    H5Sclose(space);
    return dataset;
}

static void put_box(hid_t dataset, hid_t type, const hsize_t *start, const hsize_t *count,
                    const void *values)
{
    hid_t space = H5Dget_space(dataset);
    int rank = H5Sget_simple_extent_ndims(space);
    hid_t memory = H5Screate_simple(rank, count, NULL);

    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
    MUST(H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, values));
    H5Sclose(memory);
    H5Sclose(space);
}

/* ---- conversions: the file's type is not the memory's ---- */

static void conversion_write(hid_t file)
{
    hsize_t dims[2] = {300, 1000};
    int *values = malloc(sizeof(int) * 300 * 1000);
    hid_t dataset = dataset_new(file, H5T_STD_I16BE, 2, dims, NULL, NULL, NULL);

    for (int i = 0; i < 300 * 1000; i++)
        values[i] = i % 30000 - 15000;
    values[7] = 1000000; /* clipped */
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    H5Dclose(dataset);
    free(values);
}

static void conversion_verify(hid_t file)
{
    hsize_t start[2] = {100, 3}, count[2] = {150, 700}, stride[2] = {1, 1},
            memory_dims[2] = {160, 1500};
    hsize_t memory_start[2] = {5, 1}, memory_stride[2] = {1, 2};
    double *values = malloc(sizeof(double) * 160 * 1500);
    hid_t dataset, space, memory;

    MUST(dataset = H5Dopen2(file, scenario, H5P_DEFAULT));
    space = H5Dget_space(dataset);
    memory = H5Screate_simple(2, memory_dims, NULL);
    for (int i = 0; i < 160 * 1500; i++)
        values[i] = 0.25;
    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
    MUST(H5Sselect_hyperslab(memory, H5S_SELECT_SET, memory_start, memory_stride, count, NULL));
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, values));
    int wrong = 0;
    for (int y = 0; y < 160; y++)
        for (int x = 0; x < 1500; x++) {
            int fy = y - 5, fx = (x - 1) / 2;
            int inside = fy >= 0 && fy < 150 && x >= 1 && (x - 1) % 2 == 0 && fx < 700;
            int i = (fy + 100) * 1000 + fx + 3;
            wrong += values[y * 1500 + x] != (inside ? i % 30000 - 15000 : 0.25);
        }
    CHECK(wrong == 0);
    short first[8] = {0};
    hsize_t zero[2] = {0, 0}, eight[2] = {1, 8};
    hid_t line = H5Screate_simple(2, eight, NULL);
    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, zero, NULL, eight, NULL));
    MUST(H5Dread(dataset, H5T_NATIVE_SHORT, line, space, H5P_DEFAULT, first));
    CHECK(first[0] == -15000 && first[6] == -14994 && first[7] == 32767);
    H5Sclose(line);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(dataset);
    free(values);
}

/* ---- compounds: one member at a time ---- */

struct particle {
    long long id;
    double position[3];
    float mass;
};

static hid_t particle_type(void)
{
    hsize_t three = 3;
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(struct particle)),
          array = H5Tarray_create2(H5T_NATIVE_DOUBLE, 1, &three);

    H5Tinsert(type, "id", HOFFSET(struct particle, id), H5T_NATIVE_LLONG);
    H5Tinsert(type, "position", HOFFSET(struct particle, position), array);
    H5Tinsert(type, "mass", HOFFSET(struct particle, mass), H5T_NATIVE_FLOAT);
    H5Tclose(array);
    return type;
}

static hid_t mass_type(void)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(double));

    H5Tinsert(type, "mass", 0, H5T_NATIVE_DOUBLE);
    return type;
}

static void compound_write(hid_t file)
{
    hsize_t n = 50000;
    struct particle *values = calloc(n, sizeof *values);
    double *mass = malloc(sizeof(double) * n);
    hid_t type = particle_type(), member = mass_type(),
          dataset = dataset_new(file, type, 1, &n, NULL, NULL, NULL);

    for (hsize_t i = 0; i < n; i++) {
        values[i] = (struct particle){(long long)i, {i + 0.1, i + 0.2, i + 0.3}, -1};
        mass[i] = i * 0.5;
    }
    MUST(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    MUST(H5Dwrite(dataset, member, H5S_ALL, H5S_ALL, H5P_DEFAULT, mass));
    H5Dclose(dataset);
    H5Tclose(member);
    H5Tclose(type);
    free(mass);
    free(values);
}

static void compound_verify(hid_t file)
{
    hsize_t n = 50000;
    struct particle *values = calloc(n, sizeof *values);
    hid_t type = particle_type(), member = H5Tcreate(H5T_COMPOUND, sizeof *values), dataset;
    int wrong = 0;

    MUST(dataset = H5Dopen2(file, scenario, H5P_DEFAULT));
    MUST(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (hsize_t i = 0; i < n; i++)
        wrong += values[i].id != (long long)i || values[i].position[2] != i + 0.3 ||
                 values[i].mass != (float)(i * 0.5);
    CHECK(wrong == 0);
    /* Only one member is wanted: the others in memory stay. */
    H5Tinsert(member, "mass", HOFFSET(struct particle, mass), H5T_NATIVE_FLOAT);
    for (hsize_t i = 0; i < n; i++)
        values[i] = (struct particle){-7, {-7, -7, -7}, -7};
    MUST(H5Dread(dataset, member, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (hsize_t i = 0; i < n; i++)
        wrong +=
            values[i].id != -7 || values[i].position[0] != -7 || values[i].mass != (float)(i * 0.5);
    CHECK(wrong == 0);
    H5Dclose(dataset);
    H5Tclose(member);
    H5Tclose(type);
    free(values);
}

/* ---- one member, where many elements were written before one by one ---- */

static void members_write(hid_t file)
{
    const hsize_t n = 20000, second = 3, stride = 100, count = 150;
    const struct particle fill = {77, {7, 7, 7}, 7};
    struct particle value;
    double *mass = malloc(sizeof(double) * count);
    hid_t type = particle_type(), member = mass_type(), space, memory;
    hid_t dataset = dataset_new(file, type, 1, &n, NULL, NULL, &fill);

    for (hsize_t i = 0; i < 70; i++) {
        hsize_t start = 200 * i, one = 1;
        value = (struct particle){(long long)i, {0.5, 1.5, 2.5}, -1};
        put_box(dataset, type, &start, &one, &value);
    }
    for (hsize_t i = 0; i < count; i++)
        mass[i] = 1000 + i;
    space = H5Dget_space(dataset);
    memory = H5Screate_simple(1, &count, NULL);
    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, &second, &stride, &count, NULL));
    MUST(H5Dwrite(dataset, member, memory, space, H5P_DEFAULT, mass));
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Tclose(member);
    H5Tclose(type);
    free(mass);
}

static void members_verify(hid_t file)
{
    const size_t n = 20000;
    struct particle *values = malloc(n * sizeof *values);
    hid_t type = particle_type(), dataset;
    int wrong = 0;

    memset(values, 0x5a, n * sizeof *values);
    MUST(dataset = H5Dopen2(file, scenario, H5P_DEFAULT));
    MUST(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (size_t i = 0; i < n; i++) {
        int whole = i % 200 == 0 && i < 14000, mass = i % 100 == 3 && i < 15000;
        wrong += values[i].id != (whole ? (long long)i / 200 : 77);
        wrong += values[i].position[1] != (whole ? 1.5 : 7);
        wrong += values[i].mass != (float)(whole ? -1 : mass ? 1000 + (double)(i / 100) : 7);
    }
    CHECK(wrong == 0);
    H5Dclose(dataset);
    H5Tclose(type);
    free(values);
}

/* ---- records appended, a chunked dataset that grows, shrinks and grows again ---- */

static void growing_write(hid_t file)
{
    hsize_t dims[2] = {0, 7}, max[2] = {H5S_UNLIMITED, 7}, chunk[2] = {16, 7};
    int fill = -3, row[7];
    hid_t dataset = dataset_new(file, H5T_NATIVE_INT, 2, dims, max, chunk, &fill);

    for (int r = 0; r < 200; r++) {
        hsize_t start[2] = {(hsize_t)r, 0}, count[2] = {1, 7};
        for (int x = 0; x < 7; x++)
            row[x] = r * 7 + x;
        dims[0] = (hsize_t)r + 1;
        MUST(H5Dset_extent(dataset, dims));
        put_box(dataset, H5T_NATIVE_INT, start, count, row);
    }
    dims[0] = 150;
    dims[1] = 5;
    MUST(H5Dset_extent(dataset, dims));
    dims[0] = 170;
    dims[1] = 7;
    MUST(H5Dset_extent(dataset, dims));
    H5Dclose(dataset);
}

static void growing_verify(hid_t file)
{
    static int values[170][7];
    hsize_t dims[2];
    hid_t dataset, space;
    int wrong = 0;

    MUST(dataset = H5Dopen2(file, scenario, H5P_DEFAULT));
    space = H5Dget_space(dataset);
    H5Sget_simple_extent_dims(space, dims, NULL);
    CHECK(dims[0] == 170 && dims[1] == 7);
    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int r = 0; r < 170; r++)
        for (int x = 0; x < 7; x++)
            wrong += values[r][x] != (r < 150 && x < 5 ? r * 7 + x : -3);
    CHECK(wrong == 0);
    H5Sclose(space);
    H5Dclose(dataset);
}

/* ---- many small writes, some again and again, over one another ---- */

static void small_write(hid_t file)
{
    hsize_t dims[2] = {64, 64}, start[2], count[2] = {1, 1};
    hid_t dataset = dataset_new(file, H5T_NATIVE_DOUBLE, 2, dims, NULL, NULL, NULL);

    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < 64 * 64; i++) {
            double value = i + 0.001 * pass;
            start[0] = (hsize_t)i / 64;
            start[1] = (hsize_t)i % 64;
            put_box(dataset, H5T_NATIVE_DOUBLE, start, count, &value);
        }
    double block[64];
    for (int x = 0; x < 64; x++)
        block[x] = -x;
    hsize_t row[2] = {10, 0}, whole[2] = {1, 64}, one[2] = {10, 5};
    put_box(dataset, H5T_NATIVE_DOUBLE, row, whole, block);
    double last = 77;
    put_box(dataset, H5T_NATIVE_DOUBLE, one, count, &last);
    block[6] = 88;
    put_box(dataset, H5T_NATIVE_DOUBLE, row, whole, block);
    H5Dclose(dataset);
}

static void small_verify(hid_t file)
{
    static double values[64][64];
    hid_t dataset;
    int wrong = 0;

    MUST(dataset = H5Dopen2(file, scenario, H5P_DEFAULT));
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < 64 * 64; i++) {
        double want = i / 64 == 10 ? (i % 64 == 6 ? 88 : -(i % 64)) : i + 0.001 * 2;
        wrong += values[i / 64][i % 64] != want;
    }
    CHECK(wrong == 0);
    H5Dclose(dataset);
}

/* ---- points, some named twice, and what nobody wrote ---- */

static void points_write(hid_t file)
{
    hsize_t dims[3] = {10, 20, 30}, coords[501][3], n = 501;
    double fill = 0.5, values[501];
    hid_t dataset = dataset_new(file, H5T_NATIVE_DOUBLE, 3, dims, NULL, NULL, &fill),
          space = H5Dget_space(dataset);
    hid_t memory = H5Screate_simple(1, &n, NULL);

    for (int i = 0; i < 501; i++) {
        hsize_t at =
            (hsize_t)(i == 500 ? 3 : 7 * i) * 11 % 6000; /* the last names the fourth's place */
        if (i == 500)
            at = 7 * 3 * 11 % 6000;
        coords[i][0] = at / 600;
        coords[i][1] = at / 30 % 20;
        coords[i][2] = at % 30;
        values[i] = 1000 + i;
    }
    MUST(H5Sselect_elements(space, H5S_SELECT_SET, 501, &coords[0][0]));
    MUST(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, values));
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(dataset);
}

static void points_verify(hid_t file)
{
    static double values[6000], want[6000];
    hid_t dataset;
    int wrong = 0;

    for (int i = 0; i < 6000; i++)
        want[i] = 0.5;
    for (int i = 0; i < 500; i++)
        want[7 * i * 11 % 6000] = 1000 + i;
    want[7 * 3 * 11 % 6000] = 1500;
    MUST(dataset = H5Dopen2(file, scenario, H5P_DEFAULT));
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < 6000; i++)
        wrong += values[i] != want[i];
    CHECK(wrong == 0);
    H5Dclose(dataset);
}

/* ---- a file dataspace whose extent isn't the dataset's: the offsets in it count ---- */

#define PLACES 600 /* elements of the dataset */

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245 + 12345;
    return (*seed >> 8) % below;
}

/* A dataspace of at most PLACES elements, and the offsets that it selects. */
static hid_t other_space(unsigned *seed, hsize_t *offsets, hsize_t *count_out)
{
    hsize_t dims[3], start[3], stride[3], count[3], coords[40][3];
    unsigned rank = draw(seed, 4), left = PLACES;
    hsize_t elements = 1;
    hid_t space;

    if (rank == 0) {
        offsets[0] = 0;
        *count_out = 1;
        return H5Screate(H5S_SCALAR);
    }
    for (unsigned d = 0; d < rank; left /= (unsigned)dims[d++]) {
        dims[d] = 1 + draw(seed, d + 1 < rank && left > 12 ? 12 : left);
        stride[d] = 1 + draw(seed, 3);
        start[d] = draw(seed, (unsigned)dims[d]);
        count[d] = 1 + draw(seed, (unsigned)((dims[d] - 1 - start[d]) / stride[d] + 1));
        elements *= count[d];
    }
    MUST(space = H5Screate_simple((int)rank, dims, NULL));
    bool points = elements <= 40 && draw(seed, 2);
    for (hsize_t i = 0; i < elements; i++) {
        hsize_t rest = points ? elements - 1 - i : i, at[3];
        for (unsigned d = rank; d-- > 0; rest /= count[d])
            at[d] = start[d] + rest % count[d] * stride[d];
        offsets[i] = 0;
        for (unsigned d = 0; d < rank; d++) {
            offsets[i] = offsets[i] * dims[d] + at[d];
            if (points)
                ((hsize_t *)coords)[i * rank + d] = at[d];
        }
    }
    if (points)
        MUST(H5Sselect_elements(space, H5S_SELECT_SET, elements, (hsize_t *)coords));
    else
        MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
    *count_out = elements;
    return space;
}

/* Writes selections or, of a dataset that has what was written, reads each of them. The model gets
 * what must stand there, which is known after the first of two passes. */
static void other_extents(hid_t dataset, bool write, int *model)
{
    static int values[PLACES];
    hsize_t offsets[PLACES], count;

    memset(model, 0, PLACES * sizeof(*model));
    for (int pass = 0; pass < (write ? 1 : 2); pass++) {
        unsigned seed = 7;
        for (int round = 0; round < 60; round++) {
            hid_t space = other_space(&seed, offsets, &count);
            bool by_offset = draw(&seed, 2); /* in memory, too */
            hid_t memory = by_offset ? H5S_ALL : H5Screate_simple(1, &count, NULL);
            int wrong = 0;
            for (hsize_t i = 0; pass == 0 && i < count; i++)
                model[offsets[i]] = values[by_offset ? offsets[i] : i] = 1000 * round + (int)i;
            if (write)
                MUST(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
            if (pass == 1)
                MUST(H5Dread(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
            for (hsize_t i = 0; pass == 1 && i < count; i++)
                wrong += values[by_offset ? offsets[i] : i] != model[offsets[i]];
            CHECK(wrong == 0);
            if (!by_offset)
                H5Sclose(memory);
            H5Sclose(space);
        }
    }
}

static void other_extents_write(hid_t file)
{
    hsize_t dims[2] = {20, 30};
    hid_t dataset = dataset_new(file, H5T_STD_I32LE, 2, dims, NULL, NULL, NULL);
    int model[PLACES];

    other_extents(dataset, true, model);
    H5Dclose(dataset);
}

static void other_extents_verify(hid_t file)
{
    int model[PLACES], values[PLACES];
    hid_t dataset;

    MUST(dataset = H5Dopen2(file, scenario, H5P_DEFAULT));
    other_extents(dataset, false, model);
    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    CHECK(memcmp(values, model, sizeof(model)) == 0);
    H5Dclose(dataset);
}

/* ---- HDF5's own number types, by every id that they have ---- */

#define NUMBERS 6
#define TYPES   46

/* Filled at run time: the ids are variables. */
static void number_types(hid_t ids[TYPES])
{
    const hid_t all[] = {
        H5T_NATIVE_SCHAR,      H5T_NATIVE_UCHAR,       H5T_NATIVE_SHORT,  H5T_NATIVE_USHORT,
        H5T_NATIVE_INT,        H5T_NATIVE_UINT,        H5T_NATIVE_LONG,   H5T_NATIVE_ULONG,
        H5T_NATIVE_LLONG,      H5T_NATIVE_ULLONG,      H5T_NATIVE_FLOAT,  H5T_NATIVE_DOUBLE,
        H5T_NATIVE_INT8,       H5T_NATIVE_UINT8,       H5T_NATIVE_INT16,  H5T_NATIVE_UINT16,
        H5T_NATIVE_INT32,      H5T_NATIVE_UINT32,      H5T_NATIVE_INT64,  H5T_NATIVE_UINT64,
        H5T_STD_I8LE,          H5T_STD_U8LE,           H5T_STD_I16LE,     H5T_STD_U16LE,
        H5T_STD_I32LE,         H5T_STD_U32LE,          H5T_STD_I64LE,     H5T_STD_U64LE,
        H5T_STD_I8BE,          H5T_STD_U8BE,           H5T_STD_I16BE,     H5T_STD_U16BE,
        H5T_STD_I32BE,         H5T_STD_U32BE,          H5T_STD_I64BE,     H5T_STD_U64BE,
        H5T_IEEE_F32LE,        H5T_IEEE_F64LE,         H5T_IEEE_F32BE,    H5T_IEEE_F64BE,
        H5T_NATIVE_HADDR,      H5T_NATIVE_HSIZE,       H5T_NATIVE_HSSIZE, H5T_NATIVE_B8,
        H5T_NATIVE_INT_FAST16, H5T_NATIVE_UINT_LEAST32};

    _Static_assert(sizeof all / sizeof *all == TYPES, "all ids");
    memcpy(ids, all, sizeof all);
}

/* The numbers 1 to 6 as elements of that type, made by HDF5 itself. */
static void numbers_as(hid_t type, void *elements)
{
    signed char numbers[8 * NUMBERS] = {1, 2, 3, 4, 5, 6};

    if (H5Tget_class(type) == H5T_BITFIELD) {
        memcpy(elements, numbers, NUMBERS);
        return;
    }
    MUST(H5Tconvert(H5T_NATIVE_SCHAR, type, NUMBERS, numbers, NULL, H5P_DEFAULT));
    memcpy(elements, numbers, NUMBERS * H5Tget_size(type));
}

static void own_types_write(hid_t file)
{
    hid_t ids[TYPES], group, space, dataset;
    hsize_t six = NUMBERS;
    char name[16];
    long long elements[NUMBERS];

    MUST(group = H5Gcreate2(file, scenario, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    space = H5Screate_simple(1, &six, NULL);
    number_types(ids);
    for (int t = TYPES; t-- > 0;) {
        snprintf(name, sizeof name, "%d", t);
        MUST(dataset =
                 H5Dcreate2(group, name, ids[t], space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        numbers_as(ids[t], elements);
        MUST(H5Dwrite(dataset, ids[t], H5S_ALL, H5S_ALL, H5P_DEFAULT, elements));
        H5Dclose(dataset);
    }
    H5Sclose(space);
    H5Gclose(group);
}

/* Each dataset as each type. */
static void own_types_verify(hid_t file)
{
    hid_t ids[TYPES], group, dataset, copy;
    char name[16];
    long long expected[NUMBERS], got[NUMBERS];

    number_types(ids);
    MUST(group = H5Gopen2(file, scenario, H5P_DEFAULT));
    for (int t = 0; t < TYPES; t++) {
        snprintf(name, sizeof name, "%d", t);
        MUST(dataset = H5Dopen2(group, name, H5P_DEFAULT));
        for (int m = 0; m < TYPES; m++) {
            if ((H5Tget_class(ids[t]) == H5T_BITFIELD) != (H5Tget_class(ids[m]) == H5T_BITFIELD))
                continue;
            numbers_as(ids[m], expected);
            memset(got, 0, sizeof got);
            MUST(H5Dread(dataset, ids[m], H5S_ALL, H5S_ALL, H5P_DEFAULT, got));
            CHECK(memcmp(got, expected, NUMBERS * H5Tget_size(ids[m])) == 0);
        }
        copy = H5Tcopy(ids[t]);
        numbers_as(ids[t], expected);
        memset(got, 0, sizeof got);
        MUST(H5Dread(dataset, copy, H5S_ALL, H5S_ALL, H5P_DEFAULT, got));
        CHECK(memcmp(got, expected, NUMBERS * H5Tget_size(ids[t])) == 0);
        H5Tclose(copy);
        H5Dclose(dataset);
    }
    H5Gclose(group);
}

/* ---- hyperslabs that select everything ---- */

#define SIDE 12

/* In several ways; the last have an offset that leads out of the extent. */
static void whole_selections(hid_t dataset, bool write, int *values)
{
    const hsize_t start[2] = {0, 0}, dims[2] = {SIDE, SIDE}, unit[2] = {1, 1};
    const hsize_t thirds[2] = {4, 3}, counts[2] = {3, 4}, half[2] = {SIDE / 2, SIDE};
    const hsize_t lower[2] = {SIDE / 2, 0};
    const hssize_t out[2] = {1, 0}, back[2] = {0, -1};

    for (int way = 0; way < 7; way++) {
        hid_t space = H5Screate_simple(2, dims, NULL);

        switch (way) {
        case 1:
            MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, unit, dims, unit));
            break;
        case 2:
            MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, thirds, counts, thirds));
            break;
        case 3:
            MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, lower, NULL, half, NULL));
            MUST(H5Sselect_hyperslab(space, H5S_SELECT_OR, start, NULL, half, NULL));
            break;
        case 4: /* half of it, moved to the other half */
            MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, half, NULL));
            MUST(H5Soffset_simple(space, (const hssize_t[]){SIDE / 2, 0}));
            break;
        case 5:
        case 6:
            MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, dims, NULL));
            MUST(H5Soffset_simple(space, way == 5 ? out : back));
            break;
        default:
            MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, dims, NULL));
        }
        int places = way == 4 ? SIDE * SIDE / 2 : SIDE * SIDE, got[SIDE * SIDE];
        hid_t memory = H5Screate_simple(1, &(hsize_t){(hsize_t)places}, NULL);
        int first = way == 4 ? SIDE * SIDE / 2 : 0;
        herr_t result;
        H5E_BEGIN_TRY
        {
            result = write ? H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT,
                                      values + first)
                           : H5Dread(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, got);
        }
        H5E_END_TRY
        CHECK((result >= 0) == (way < 5));
        if (!write && way < 5)
            CHECK(memcmp(got, values + first, (size_t)places * sizeof(int)) == 0);
        H5Sclose(memory);
        H5Sclose(space);
    }
}

static void whole_write(hid_t file)
{
    hsize_t dims[2] = {SIDE, SIDE};
    int values[SIDE * SIDE];
    hid_t dataset = dataset_new(file, H5T_STD_I32LE, 2, dims, NULL, NULL, NULL);

    for (int i = 0; i < SIDE * SIDE; i++)
        values[i] = 7 * i + 1;
    whole_selections(dataset, true, values);
    H5Dclose(dataset);
}

static void whole_verify(hid_t file)
{
    int values[SIDE * SIDE];
    hid_t dataset;

    MUST(dataset = H5Dopen2(file, scenario, H5P_DEFAULT));
    for (int i = 0; i < SIDE * SIDE; i++)
        values[i] = 7 * i + 1;
    whole_selections(dataset, false, values);
    H5Dclose(dataset);
}

/* ---- scalars, strings, object references, variable-length data, compact and null datasets ---- */

static void kinds_write(hid_t file)
{
    hid_t group, space = H5Screate(H5S_SCALAR), null = H5Screate(H5S_NULL),
                 type = H5Tcopy(H5T_C_S1), dataset;
    hid_t list = H5Pcreate(H5P_DATASET_CREATE), text = H5Tcopy(H5T_C_S1);
    hsize_t four = 4;
    hid_t line = H5Screate_simple(1, &four, NULL);
    double pi = 3.14159;
    const char *words[4] = {"in", "memory", "", "data"};
    int numbers[4] = {1, 2, 3, 4};
    hobj_ref_t reference;

    MUST(group = H5Gcreate2(file, scenario, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    MUST(dataset = H5Dcreate2(group, "scalar", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT,
                              H5P_DEFAULT));
    MUST(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &pi));
    H5Dclose(dataset);
    MUST(dataset = H5Dcreate2(group, "null", H5T_NATIVE_DOUBLE, null, H5P_DEFAULT, H5P_DEFAULT,
                              H5P_DEFAULT));
    MUST(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &pi));
    H5Dclose(dataset);
    H5Tset_size(type, 12);
    MUST(dataset = H5Dcreate2(group, "string", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, "hello world"));
    H5Dclose(dataset);
    H5Tset_size(text, H5T_VARIABLE);
    MUST(dataset = H5Dcreate2(group, "words", text, line, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Dwrite(dataset, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, words));
    H5Dclose(dataset);
    H5Pset_layout(list, H5D_COMPACT);
    MUST(dataset =
             H5Dcreate2(group, "compact", H5T_NATIVE_INT, line, H5P_DEFAULT, list, H5P_DEFAULT));
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers));
    H5Dclose(dataset);
    MUST(H5Rcreate(&reference, group, "compact", H5R_OBJECT, -1));
    MUST(dataset = H5Dcreate2(group, "reference", H5T_STD_REF_OBJ, space, H5P_DEFAULT, H5P_DEFAULT,
                              H5P_DEFAULT));
    MUST(H5Dwrite(dataset, H5T_STD_REF_OBJ, H5S_ALL, H5S_ALL, H5P_DEFAULT, &reference));
    H5Dclose(dataset);
    H5Pclose(list);
    H5Tclose(text);
    H5Tclose(type);
    H5Sclose(line);
    H5Sclose(null);
    H5Sclose(space);
    H5Gclose(group);
}

static void kinds_verify(hid_t file)
{
    hid_t group, dataset, type = H5Tcopy(H5T_C_S1), text = H5Tcopy(H5T_C_S1), space;
    double value = 0;
    char string[12] = "", *words[4];
    int numbers[4] = {0};
    hobj_ref_t reference;

    MUST(group = H5Gopen2(file, scenario, H5P_DEFAULT));
    MUST(dataset = H5Dopen2(group, "scalar", H5P_DEFAULT));
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value));
    CHECK(value == 3.14159);
    H5Dclose(dataset);
    value = 9;
    MUST(dataset = H5Dopen2(group, "null", H5P_DEFAULT));
    MUST(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value));
    CHECK(value == 9);
    H5Dclose(dataset);
    H5Tset_size(type, 12);
    MUST(dataset = H5Dopen2(group, "string", H5P_DEFAULT));
    MUST(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, string));
    CHECK(strcmp(string, "hello world") == 0);
    H5Dclose(dataset);
    H5Tset_size(text, H5T_VARIABLE);
    MUST(dataset = H5Dopen2(group, "words", H5P_DEFAULT));
    MUST(H5Dread(dataset, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, words));
    CHECK(strcmp(words[1], "memory") == 0 && strcmp(words[3], "data") == 0);
    space = H5Dget_space(dataset);
    H5Treclaim(text, space, H5P_DEFAULT, words);
    H5Sclose(space);
    H5Dclose(dataset);
    MUST(dataset = H5Dopen2(group, "reference", H5P_DEFAULT));
    MUST(H5Dread(dataset, H5T_STD_REF_OBJ, H5S_ALL, H5S_ALL, H5P_DEFAULT, &reference));
    hid_t target = H5Rdereference2(dataset, H5P_DEFAULT, H5R_OBJECT, &reference);
    MUST(target);
    MUST(H5Dread(target, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers));
    CHECK(numbers[0] == 1 && numbers[3] == 4);
    H5Dclose(target);
    H5Dclose(dataset);
    H5Tclose(text);
    H5Tclose(type);
    H5Gclose(group);
}

/* ---- copied, deleted, created again under the same name ---- */

static hid_t int_dataset(hid_t group, const char *name, int base)
{
    hsize_t n = 100;
    int values[100];
    hid_t space = H5Screate_simple(1, &n, NULL), dataset;

    for (int i = 0; i < 100; i++)
        values[i] = base + i;
    MUST(dataset =
             H5Dcreate2(group, name, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    H5Sclose(space);
    return dataset;
}

static int int_dataset_holds(hid_t group, const char *name, int base)
{
    int values[100] = {0}, right = 0;
    hid_t dataset = H5Dopen2(group, name, H5P_DEFAULT);

    MUST(dataset);
    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < 100; i++)
        right += values[i] == base + i;
    H5Dclose(dataset);
    return right == 100;
}

static void copies_write(hid_t file)
{
    hid_t group, inner;
    int values[100];

    MUST(group = H5Gcreate2(file, scenario, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    MUST(inner = H5Gcreate2(group, "inner", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Dclose(int_dataset(inner, "a", 1000));
    H5Dclose(int_dataset(inner, "b", 2000));
    MUST(H5Ocopy(group, "inner", group, "copied", H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Ocopy(inner, "a", group, "single", H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Ldelete(inner, "a", H5P_DEFAULT));
    H5Dclose(int_dataset(inner, "a", 3000));
    hid_t open = int_dataset(inner, "gone", 4000);
    MUST(H5Ldelete(inner, "gone", H5P_DEFAULT));
    MUST(H5Dread(open, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    CHECK(values[99] == 4099); /* unlinked, but open */
    H5Dclose(open);
    MUST(H5Gcreate2(group, "whole", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Dclose(int_dataset(group, "whole/x", 5000));
    MUST(H5Ldelete(group, "whole", H5P_DEFAULT));
    H5Dclose(int_dataset(group, "after", 6000));
    MUST(H5Lmove(group, "after", inner, "moved", H5P_DEFAULT, H5P_DEFAULT));
    H5Gclose(inner);
    H5Gclose(group);
}

static void copies_verify(hid_t file)
{
    hid_t group;

    MUST(group = H5Gopen2(file, scenario, H5P_DEFAULT));
    CHECK(int_dataset_holds(group, "inner/a", 3000));
    CHECK(int_dataset_holds(group, "inner/b", 2000));
    CHECK(int_dataset_holds(group, "copied/a", 1000));
    CHECK(int_dataset_holds(group, "copied/b", 2000));
    CHECK(int_dataset_holds(group, "single", 1000));
    CHECK(int_dataset_holds(group, "inner/moved", 6000));
    CHECK(H5Lexists(group, "inner/gone", H5P_DEFAULT) == 0);
    H5Gclose(group);
}

/* ---- what creation lists and storage queries answer ---- */

/* Fill values are converted where there is space or ever was some: an empty string of one kind
 * reads as one of another. */
static hid_t text_type(size_t bytes, H5T_str_t pad)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, bytes);
    H5Tset_strpad(type, pad);
    return type;
}

static void texts_write(hid_t group)
{
    const hsize_t n = 10, most = H5S_UNLIMITED, chunk = 13, none = 0, some = 18, many = 2000;
    char values[10][6] = {"abc"};
    hid_t type = text_type(6, H5T_STR_NULLTERM), list = H5Pcreate(H5P_DATASET_CREATE), dataset;
    hid_t space = H5Screate_simple(1, &n, &most), large = H5Screate_simple(1, &many, NULL);

    H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY);
    H5Dclose(H5Dcreate2(group, "early texts", type, large, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Pset_alloc_time(list, H5D_ALLOC_TIME_INCR);
    H5Pset_chunk(list, 1, &chunk);
    H5Dclose(H5Dcreate2(group, "no texts", type, space, H5P_DEFAULT, list, H5P_DEFAULT));
    MUST(dataset = H5Dcreate2(group, "texts", type, space, H5P_DEFAULT, list, H5P_DEFAULT));
    MUST(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    MUST(H5Dset_extent(dataset, &none));
    MUST(H5Dset_extent(dataset, &some));
    H5Dclose(dataset);
    H5Sclose(large);
    H5Sclose(space);
    H5Pclose(list);
    H5Tclose(type);
}

static void text_verify(hid_t group, const char *name, hsize_t elements, char expected)
{
    static char values[2000][9];
    hid_t type = text_type(9, H5T_STR_SPACEPAD), dataset = H5Dopen2(group, name, H5P_DEFAULT);
    int wrong = 0;

    memset(values, 0x5a, sizeof values);
    MUST(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (hsize_t i = 0; i < elements; i++)
        for (int b = 0; b < 9; b++)
            wrong += values[i][b] != expected;
    CHECK(wrong == 0);
    H5Dclose(dataset);
    H5Tclose(type);
}

static void answers_write(hid_t file)
{
    hsize_t n = 1000, chunk = 100;
    hid_t group, space = H5Screate_simple(1, &n, NULL), list = H5Pcreate(H5P_DATASET_CREATE),
                 dataset;
    static int values[1000];

    MUST(group = H5Gcreate2(file, scenario, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    texts_write(group);
    H5Pset_chunk(list, 1, &chunk);
    H5Pset_deflate(list, 3);
    H5Pset_alloc_time(list, H5D_ALLOC_TIME_INCR);
    MUST(dataset =
             H5Dcreate2(group, "filtered", H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT));
    CHECK(H5Dget_storage_size(dataset) == 0);
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    H5Dclose(dataset);
    H5Pclose(list);
    list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY);
    MUST(dataset =
             H5Dcreate2(group, "early", H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Dclose(dataset);
    H5Pclose(list);
    H5Sclose(space);
    H5Gclose(group);
}

static void answers_verify(hid_t file)
{
    hid_t group, dataset, list;
    H5D_alloc_time_t time;
    H5D_space_status_t status;

    MUST(group = H5Gopen2(file, scenario, H5P_DEFAULT));
    text_verify(group, "early texts", 2000, ' ');
    text_verify(group, "no texts", 10, '\0');
    text_verify(group, "texts", 18, ' ');
    MUST(dataset = H5Dopen2(group, "filtered", H5P_DEFAULT));
    MUST(list = H5Dget_create_plist(dataset));
    CHECK(H5Pget_alloc_time(list, &time) >= 0 && time == H5D_ALLOC_TIME_INCR);
    CHECK(H5Pget_nfilters(list) == 1 && H5Pget_layout(list) == H5D_CHUNKED);
    CHECK(H5Dget_storage_size(dataset) > 0);
    H5Pclose(list);
    H5Dclose(dataset);
    MUST(dataset = H5Dopen2(group, "early", H5P_DEFAULT));
    MUST(list = H5Dget_create_plist(dataset));
    CHECK(H5Pget_alloc_time(list, &time) >= 0 && time == H5D_ALLOC_TIME_EARLY);
    CHECK(H5Dget_storage_size(dataset) == 4000);
    CHECK(H5Dget_space_status(dataset, &status) >= 0 && status == H5D_SPACE_STATUS_ALLOCATED);
    H5Pclose(list);
    H5Dclose(dataset);
    H5Gclose(group);
}

static const struct {
    const char *name;
    void (*write)(hid_t file), (*verify)(hid_t file);
} scenarios[] = {
    {"conversion", conversion_write, conversion_verify},
    {"compound", compound_write, compound_verify},
    {"growing", growing_write, growing_verify},
    {"small", small_write, small_verify},
    {"points", points_write, points_verify},
    {"other_extents", other_extents_write, other_extents_verify},
    {"own_types", own_types_write, own_types_verify},
    {"whole", whole_write, whole_verify},
    {"kinds", kinds_write, kinds_verify},
    {"copies", copies_write, copies_verify},
    {"members", members_write, members_verify},
    {"answers", answers_write, answers_verify},
};
#define SCENARIOS (sizeof scenarios / sizeof *scenarios)

static void verify_all(hid_t file, const char *but)
{
    for (size_t s = 0; s < SCENARIOS; s++) {
        scenario = scenarios[s].name;
        if (!but || strcmp(but, scenario) != 0)
            scenarios[s].verify(file);
    }
}

int main(int argc, char **argv)
{
    hid_t file;

    if (argc < 3)
        return 2;
    scenario = "file";
    if (strcmp(argv[1], "write") == 0) {
        MUST(file = H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
        for (size_t s = 0; s < SCENARIOS; s++) {
            scenario = scenarios[s].name;
            scenarios[s].write(file);
        }
        verify_all(file, NULL);
        scenario = "file";
        MUST(H5Fclose(file));
    }
    MUST(file = H5Fopen(argv[2], H5F_ACC_RDONLY, H5P_DEFAULT));
    verify_all(file, argv[3]);
    MUST(H5Fclose(file));
    printf("raw_data: %s: %d failures\n", argv[1], failures);
    return failures != 0;
}
