/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain HDF5 program: what is in members and elements that nobody wrote. Each case has a file of
 * its own, since native shows what file space held before where it doesn't fill.
 *
 *   unwritten write|read FOLDER
 */
#include "scenario.h"

#include <string.h>

#define N 40

struct pair {
    int left, right;
};

struct how {
    const char *name;
    H5D_layout_t layout;
    H5D_alloc_time_t alloc;
    H5D_fill_time_t fill_time;
    int fill; /* 0: the default, 1: a value, -1: undefined */
    int deflate;
    hsize_t count; /* elements written, from the first on; chunks hold 10 */
    int right;     /* read in the member that wasn't written, where something was written ... */
    int rest;      /* ... and in both members, where nothing was */
};

#define FILL_LEFT  7
#define FILL_RIGHT 77

static const struct how hows[] = {
    {"contiguous_whole", H5D_CONTIGUOUS, H5D_ALLOC_TIME_LATE, H5D_FILL_TIME_IFSET, 1, 0, N, 0, 0},
    {"contiguous_part", H5D_CONTIGUOUS, H5D_ALLOC_TIME_LATE, H5D_FILL_TIME_IFSET, 1, 0, 15, 77, 1},
    {"contiguous_alloc", H5D_CONTIGUOUS, H5D_ALLOC_TIME_LATE, H5D_FILL_TIME_ALLOC, 1, 0, N, 0, 0},
    {"contiguous_early", H5D_CONTIGUOUS, H5D_ALLOC_TIME_EARLY, H5D_FILL_TIME_IFSET, 1, 0, N, 77, 0},
    {"contiguous_never", H5D_CONTIGUOUS, H5D_ALLOC_TIME_LATE, H5D_FILL_TIME_NEVER, 1, 0, 15, 0, 0},
    {"contiguous_undefined", H5D_CONTIGUOUS, H5D_ALLOC_TIME_LATE, H5D_FILL_TIME_IFSET, -1, 0, 15, 0,
     0},
    {"contiguous_default", H5D_CONTIGUOUS, H5D_ALLOC_TIME_LATE, H5D_FILL_TIME_IFSET, 0, 0, 15, 0,
     0},
    {"compact_whole", H5D_COMPACT, H5D_ALLOC_TIME_EARLY, H5D_FILL_TIME_IFSET, 1, 0, N, 77, 0},
    {"chunked_whole", H5D_CHUNKED, H5D_ALLOC_TIME_INCR, H5D_FILL_TIME_IFSET, 1, 0, N, 77, 0},
    {"chunked_part", H5D_CHUNKED, H5D_ALLOC_TIME_INCR, H5D_FILL_TIME_IFSET, 1, 0, 15, 77, 1},
    {"chunked_never", H5D_CHUNKED, H5D_ALLOC_TIME_INCR, H5D_FILL_TIME_NEVER, 1, 0, N, 0, 0},
    {"chunked_undefined", H5D_CHUNKED, H5D_ALLOC_TIME_INCR, H5D_FILL_TIME_IFSET, -1, 0, N, 0, 0},
    {"chunked_late_whole", H5D_CHUNKED, H5D_ALLOC_TIME_LATE, H5D_FILL_TIME_IFSET, 1, 0, N, 0, 0},
    {"chunked_late_part", H5D_CHUNKED, H5D_ALLOC_TIME_LATE, H5D_FILL_TIME_IFSET, 1, 0, 15, 77, 1},
    {"chunked_late_deflate", H5D_CHUNKED, H5D_ALLOC_TIME_LATE, H5D_FILL_TIME_IFSET, 1, 1, N, 77, 0},
    {"chunked_early", H5D_CHUNKED, H5D_ALLOC_TIME_EARLY, H5D_FILL_TIME_IFSET, 1, 0, N, 77, 0},
};
#define HOWS (sizeof hows / sizeof *hows)

static hid_t pair_type(void)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(struct pair));

    H5Tinsert(type, "left", HOFFSET(struct pair, left), H5T_NATIVE_INT);
    H5Tinsert(type, "right", HOFFSET(struct pair, right), H5T_NATIVE_INT);
    return type;
}

static hid_t list_of(const struct how *how, hid_t type)
{
    const struct pair fill = {FILL_LEFT, FILL_RIGHT};
    const hsize_t chunk = 10;
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);

    if (how->layout == H5D_CHUNKED)
        H5Pset_chunk(list, 1, &chunk);
    else
        H5Pset_layout(list, how->layout);
    if (how->deflate)
        H5Pset_deflate(list, 1);
    if (how->fill)
        H5Pset_fill_value(list, type, how->fill > 0 ? &fill : NULL);
    H5Pset_fill_time(list, how->fill_time);
    H5Pset_alloc_time(list, how->alloc);
    return list;
}

static hid_t select_first(hid_t space, hsize_t count)
{
    const hsize_t start = 0;

    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL));
    return H5Screate_simple(1, &count, NULL);
}

/* The other member is left out. */
static void write_left(hid_t dataset, hsize_t count)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(int)), space = H5Dget_space(dataset);
    hid_t memory = select_first(space, count);
    int values[N];

    H5Tinsert(type, "left", 0, H5T_NATIVE_INT);
    for (int i = 0; i < N; i++)
        values[i] = 1000 + i;
    MUST(H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, values));
    H5Sclose(memory);
    H5Sclose(space);
    H5Tclose(type);
}

static void verify(hid_t file, const struct how *how)
{
    struct pair pairs[N];
    long long again[N][2];
    hid_t type = pair_type(), wide = H5Tcreate(H5T_COMPOUND, sizeof again[0]), dataset;
    int wrong = 0, wrong_converted = 0;

    scenario = how->name;
    H5Tinsert(wide, "right", 0, H5T_NATIVE_LLONG);
    H5Tinsert(wide, "left", 8, H5T_NATIVE_LLONG);
    memset(pairs, 0x5a, sizeof pairs);
    memset(again, 0x5a, sizeof again);
    MUST(dataset = H5Dopen2(file, "d", H5P_DEFAULT));
    MUST(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, pairs));
    MUST(H5Dread(dataset, wide, H5S_ALL, H5S_ALL, H5P_DEFAULT, again));
    for (int i = 0; i < N; i++) {
        int written = i < (int)how->count;
        int left = written ? 1000 + i : how->rest ? FILL_LEFT : 0;
        int right = written ? how->right : how->rest ? FILL_RIGHT : 0;

        wrong += pairs[i].left != left || pairs[i].right != right;
        wrong_converted += again[i][1] != left || again[i][0] != right;
    }
    CHECK(wrong == 0);
    CHECK(wrong_converted == 0);
    H5Dclose(dataset);
    H5Tclose(wide);
    H5Tclose(type);
}

static hid_t open_of(const struct how *how, const char *folder, int create)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s.h5", folder, how->name);
    return create ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)
                  : H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
}

static void write_one(const struct how *how, const char *folder)
{
    const hsize_t dims = N;
    hid_t file, type = pair_type(), list = list_of(how, type), dataset;
    hid_t space = H5Screate_simple(1, &dims, NULL);

    scenario = how->name;
    MUST(file = open_of(how, folder, 1));
    MUST(dataset = H5Dcreate2(file, "d", type, space, H5P_DEFAULT, list, H5P_DEFAULT));
    write_left(dataset, how->count);
    verify(file, how);
    H5Dclose(dataset);
    MUST(H5Fclose(file));
    H5Sclose(space);
    H5Pclose(list);
    H5Tclose(type);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    for (size_t i = 0; i < HOWS; i++) {
        hid_t file;

        if (strcmp(argv[1], "write") == 0)
            write_one(&hows[i], argv[2]);
        MUST(file = open_of(&hows[i], argv[2], 0));
        verify(file, &hows[i]);
        MUST(H5Fclose(file));
    }
    return failures ? 1 : 0;
}
