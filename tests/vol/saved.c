/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * saved FOLDER: writes one file for each way to make files and datasets, in the folder. A test runs
 * it natively and over the market, whose files are saved then, and compares.
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS    60
#define COLUMNS 50

static const char *folder;

static void check(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "saved: %s failed\n", what);
    exit(1);
}

static hid_t create(const char *name, hid_t fcpl, hid_t fapl)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s.h5", folder, name);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    check(file >= 0, path);
    return file;
}

static void fill(int *data, int base)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        data[i] = base + i % 1000;
}

/* Writes `rows` rows; 0: nothing. */
static void write_rows(hid_t dataset, hsize_t rows)
{
    static int data[ROWS * COLUMNS];
    hsize_t start[2] = {0, 0}, count[2] = {rows, COLUMNS};

    if (rows == 0)
        return;
    fill(data, 7);
    hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(2, count, NULL);
    check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
              H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, data) >= 0,
          "a write");
    H5Sclose(memory);
    H5Sclose(space);
}

/* A dataset of ROWS x COLUMNS with the list, of which `rows` are written. Closes the list. */
static void dataset(hid_t file, const char *name, hid_t dcpl, hsize_t rows)
{
    const hsize_t dims[2] = {ROWS, COLUMNS};
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t id = H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);

    check(id >= 0, name);
    write_rows(id, rows);
    H5Dclose(id);
    H5Sclose(space);
    H5Pclose(dcpl);
}

static hid_t chunked(hsize_t rows, hsize_t columns)
{
    const hsize_t chunk[2] = {rows, columns};
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    check(H5Pset_chunk(dcpl, 2, chunk) >= 0, "H5Pset_chunk");
    return dcpl;
}

/* Every layout with every time of allocation and of fill values; all, some and nothing written. */
static void allocation(hid_t file)
{
    static const H5D_alloc_time_t times[] = {H5D_ALLOC_TIME_DEFAULT, H5D_ALLOC_TIME_EARLY,
                                             H5D_ALLOC_TIME_LATE, H5D_ALLOC_TIME_INCR};
    static const H5D_fill_time_t fills[] = {H5D_FILL_TIME_IFSET, H5D_FILL_TIME_ALLOC,
                                            H5D_FILL_TIME_NEVER};
    static const hsize_t written[] = {0, 20, ROWS};
    const int value = -3;

    for (int layout = 0; layout < 2; layout++)
        for (int t = 0; t < 4; t++)
            for (int f = 0; f < 3; f++)
                for (int w = 0; w < 3; w++) {
                    hid_t dcpl = layout ? chunked(16, 25) : H5Pcreate(H5P_DATASET_CREATE);
                    char name[64];

                    /* What is never filled is undefined where it isn't written. */
                    if ((!layout && times[t] == H5D_ALLOC_TIME_INCR) ||
                        (fills[f] == H5D_FILL_TIME_NEVER && written[w] < ROWS)) {
                        H5Pclose(dcpl);
                        continue;
                    }
                    snprintf(name, sizeof(name), "%s %d %d %d", layout ? "chunked" : "contiguous",
                             t, f, w);
                    check(H5Pset_alloc_time(dcpl, times[t]) >= 0 &&
                              H5Pset_fill_time(dcpl, fills[f]) >= 0 &&
                              (w == 1 || H5Pset_fill_value(dcpl, H5T_NATIVE_INT, &value) >= 0),
                          "a list");
                    dataset(file, name, dcpl, written[w]);
                }
}

static void compact(hid_t file)
{
    const hsize_t dims[1] = {100};
    int data[100] = {1, 2, 3};
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, dims, NULL);

    H5Pset_layout(dcpl, H5D_COMPACT);
    for (int written = 0; written < 2; written++) {
        hid_t id = H5Dcreate2(file, written ? "compact" : "compact unwritten", H5T_STD_I32BE, space,
                              H5P_DEFAULT, dcpl, H5P_DEFAULT);
        if (written)
            check(H5Dwrite(id, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0,
                  "compact");
        H5Dclose(id);
    }
    H5Sclose(space);
    H5Pclose(dcpl);
}

static void filters(hid_t file)
{
    for (int filter = 0; filter < 7; filter++)
        for (int early = 0; early < 2; early++) {
            static const char *const names[] = {"gzip", "shuffle",      "fletcher32", "scaleoffset",
                                                "nbit", "shuffle gzip", "all"};
            hid_t dcpl = chunked(16, 25);
            char name[64];

            snprintf(name, sizeof(name), "%s%s", names[filter], early ? " early" : "");
            if (filter == 3)
                H5Pset_scaleoffset(dcpl, H5Z_SO_INT, 0);
            if (filter == 4)
                H5Pset_nbit(dcpl);
            if (filter == 1 || filter >= 5)
                H5Pset_shuffle(dcpl);
            if (filter == 0 || filter >= 5)
                H5Pset_deflate(dcpl, 6);
            if (filter == 2 || filter == 6)
                H5Pset_fletcher32(dcpl);
            if (early)
                H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_EARLY);
            dataset(file, name, dcpl, early ? 20 : ROWS);
        }
}

/* Grown step by step, as time series are; and one that is shrunk again. */
static void growing(hid_t file)
{
    for (int kind = 0; kind < 4; kind++) {
        const hsize_t limits[2] = {H5S_UNLIMITED, kind == 1 ? H5S_UNLIMITED : COLUMNS};
        hsize_t dims[2] = {0, COLUMNS};
        hid_t dcpl = chunked(16, 25), space = H5Screate_simple(2, dims, limits);
        char name[24];

        if (kind == 2)
            H5Pset_deflate(dcpl, 4);
        if (kind == 3)
            H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_EARLY);
        snprintf(name, sizeof(name), "growing %d", kind);
        hid_t id = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
        for (dims[0] = 10; dims[0] <= ROWS; dims[0] += 10) {
            check(H5Dset_extent(id, dims) >= 0, "H5Dset_extent");
            write_rows(id, dims[0]);
        }
        dims[0] = 33;
        if (kind == 1)
            check(H5Dset_extent(id, dims) >= 0, "H5Dset_extent");
        H5Dclose(id);
        H5Sclose(space);
        H5Pclose(dcpl);
    }
}

static void empty(hid_t file)
{
    const hsize_t none[1] = {0};
    hid_t spaces[3] = {H5Screate(H5S_NULL), H5Screate(H5S_SCALAR), H5Screate_simple(1, none, NULL)};

    for (int i = 0; i < 3; i++) {
        char name[24];
        snprintf(name, sizeof(name), "empty %d", i);
        H5Dclose(H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, spaces[i], H5P_DEFAULT, H5P_DEFAULT,
                            H5P_DEFAULT));
        H5Sclose(spaces[i]);
    }
}

static void attributes(hid_t object)
{
    static double large[7000];
    const hsize_t few[1] = {4}, many[1] = {7000};
    hid_t small_space = H5Screate_simple(1, few, NULL),
          large_space = H5Screate_simple(1, many, NULL);

    for (int i = 0; i < 20; i++) {
        char name[24];
        snprintf(name, sizeof(name), "a%d", i);
        hid_t id =
            H5Acreate2(object, name, H5T_NATIVE_DOUBLE, small_space, H5P_DEFAULT, H5P_DEFAULT);
        check(H5Awrite(id, H5T_NATIVE_DOUBLE, large) >= 0, "an attribute");
        H5Aclose(id);
    }
    hid_t id =
        H5Acreate2(object, "large", H5T_NATIVE_DOUBLE, large_space, H5P_DEFAULT, H5P_DEFAULT);
    check(id < 0 || H5Awrite(id, H5T_NATIVE_DOUBLE, large) >= 0, "a large attribute");
    if (id >= 0)
        H5Aclose(id);
    H5Sclose(small_space);
    H5Sclose(large_space);
}

/* Links of all kinds, a committed type, references, and what only native keeps: strings. */
static void objects(hid_t file)
{
    const hsize_t two[1] = {2};
    hobj_ref_t references[2];
    const char *strings[2] = {"one", "another one"};
    hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE), space = H5Screate_simple(1, two, NULL);
    hid_t type = H5Tcreate(H5T_COMPOUND, 12), text = H5Tcopy(H5T_C_S1);

    H5Pset_link_creation_order(gcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5Pset_attr_creation_order(gcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    hid_t group = H5Gcreate2(file, "ordered", H5P_DEFAULT, gcpl, H5P_DEFAULT);
    for (int i = 20; i > 0; i--) {
        char name[24];
        snprintf(name, sizeof(name), "d%d", i * 37 % 20);
        dataset(group, name, H5Pcreate(H5P_DATASET_CREATE), ROWS);
    }
    attributes(group);
    H5Tinsert(type, "x", 0, H5T_STD_I32BE);
    H5Tinsert(type, "y", 4, H5T_IEEE_F64LE);
    H5Tcommit2(file, "type", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t id = H5Dcreate2(file, "of type", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    check(H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, "abcdefghijklmnopqrstuvwxyz") >= 0,
          "a compound");
    H5Dclose(id);
    H5Tset_size(text, H5T_VARIABLE);
    id = H5Dcreate2(file, "strings", text, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    check(H5Dwrite(id, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, strings) >= 0, "strings");
    H5Dclose(id);
    H5Rcreate(&references[0], file, "ordered", H5R_OBJECT, -1);
    H5Rcreate(&references[1], file, "of type", H5R_OBJECT, -1);
    id = H5Dcreate2(file, "references", H5T_STD_REF_OBJ, space, H5P_DEFAULT, H5P_DEFAULT,
                    H5P_DEFAULT);
    check(H5Dwrite(id, H5T_STD_REF_OBJ, H5S_ALL, H5S_ALL, H5P_DEFAULT, references) >= 0,
          "references");
    H5Dclose(id);
    check(H5Lcreate_soft("/ordered/d3", file, "soft", H5P_DEFAULT, H5P_DEFAULT) >= 0 &&
              H5Lcreate_soft("/nowhere", file, "dangling", H5P_DEFAULT, H5P_DEFAULT) >= 0 &&
              H5Lcreate_external("elsewhere.h5", "/a", file, "external", H5P_DEFAULT,
                                 H5P_DEFAULT) >= 0 &&
              H5Lcreate_hard(file, "of type", file, "hard", H5P_DEFAULT, H5P_DEFAULT) >= 0,
          "links");
    H5Gclose(group);
    H5Tclose(type);
    H5Tclose(text);
    H5Sclose(space);
    H5Pclose(gcpl);
}

static void all(const char *name, hid_t fcpl, hid_t fapl)
{
    hid_t file = create(name, fcpl, fapl);

    allocation(file);
    compact(file);
    filters(file);
    growing(file);
    empty(file);
    objects(file);
    H5Fclose(file);
    H5Pclose(fcpl);
    H5Pclose(fapl);
}

static hid_t latest(void)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);

    H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    return fapl;
}

static void strategy(const char *name, H5F_fspace_strategy_t strategy, hid_t fapl)
{
    hid_t fcpl = H5Pcreate(H5P_FILE_CREATE);

    check(H5Pset_file_space_strategy(fcpl, strategy, true, 1) >= 0, "a strategy");
    all(name, fcpl, fapl);
}

int main(int argc, char **argv)
{
    hid_t fcpl = H5Pcreate(H5P_FILE_CREATE);

    if (argc != 2)
        return 2;
    folder = argv[1];
    all("default", H5Pcreate(H5P_FILE_CREATE), H5Pcreate(H5P_FILE_ACCESS));
    all("latest", H5Pcreate(H5P_FILE_CREATE), latest());
    H5Pset_userblock(fcpl, 1024);
    all("userblock", fcpl, H5Pcreate(H5P_FILE_ACCESS));
    fcpl = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_link_creation_order(fcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5Pset_sym_k(fcpl, 8, 8);
    H5Pset_shared_mesg_nindexes(fcpl, 1);
    H5Pset_shared_mesg_index(fcpl, 0, H5O_SHMESG_DTYPE_FLAG | H5O_SHMESG_FILL_FLAG, 40);
    all("shared", fcpl, latest());
    strategy("pages", H5F_FSPACE_STRATEGY_PAGE, H5Pcreate(H5P_FILE_ACCESS));
    strategy("aggregate", H5F_FSPACE_STRATEGY_FSM_AGGR, latest());
    strategy("none", H5F_FSPACE_STRATEGY_NONE, H5Pcreate(H5P_FILE_ACCESS));
    return 0;
}
