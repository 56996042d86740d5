/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain HDF5 program with two files open for writing: the large one is closed, which takes a long
 * message, and at once the small one is written and closed, which takes short ones. What the small
 * one holds must be there whenever it is opened again.
 *
 *   two_files FOLDER ROUNDS DATASETS
 */
#include "scenario.h"

#define ELEMENTS 8
#define SMALL    4

static hid_t space;

static void name_of(char name[16], char letter, int k)
{
    snprintf(name, 16, "%c%d", letter, k);
}

static hid_t make(hid_t file, char letter, int k)
{
    char name[16];
    hid_t dataset;

    name_of(name, letter, k);
    MUST(dataset =
             H5Dcreate2(file, name, H5T_NATIVE_LONG, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    return dataset;
}

static void write_both(const char *large_path, const char *small_path, int datasets,
                       const long *values)
{
    hid_t large, small, dataset, opened[SMALL];

    MUST(large = H5Fcreate(large_path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    MUST(small = H5Fcreate(small_path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    for (int k = 0; k < SMALL; k++)
        opened[k] = make(small, 's', k);
    for (int k = 0; k < datasets; k++) {
        dataset = make(large, 'l', k);
        MUST(H5Dwrite(dataset, H5T_NATIVE_LONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
        H5Dclose(dataset);
    }
    MUST(H5Fflush(small, H5F_SCOPE_LOCAL)); /* what is left of its close is short */
    MUST(H5Fclose(large));
    for (int k = 0; k < SMALL; k++) {
        MUST(H5Dwrite(opened[k], H5T_NATIVE_LONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
        H5Dclose(opened[k]);
    }
    MUST(H5Fclose(small));
}

static void read_small(const char *path, const long *values)
{
    hid_t file, dataset;

    MUST(file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
    for (int k = 0; k < SMALL; k++) {
        char name[16];
        long got[ELEMENTS] = {0};

        name_of(name, 's', k);
        MUST(dataset = H5Dopen2(file, name, H5P_DEFAULT));
        MUST(H5Dread(dataset, H5T_NATIVE_LONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, got));
        for (int i = 0; i < ELEMENTS; i++)
            CHECK(got[i] == values[i]);
        H5Dclose(dataset);
    }
    MUST(H5Fclose(file));
}

int main(int argc, char **argv)
{
    char large[4096], small[4096];
    hsize_t elements = ELEMENTS;

    if (argc != 4)
        return 2;
    snprintf(large, sizeof large, "%s/large.h5", argv[1]);
    snprintf(small, sizeof small, "%s/small.h5", argv[1]);
    space = H5Screate_simple(1, &elements, NULL);
    scenario = "two files";
    for (int round = 1; round <= atoi(argv[2]); round++) {
        long values[ELEMENTS];

        for (int i = 0; i < ELEMENTS; i++)
            values[i] = 10L * round + i;
        write_both(large, small, atoi(argv[3]), values);
        read_small(small, values);
    }
    printf("two_files: %d failures\n", failures);
    return failures != 0;
}
