/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reached write|check FILE: datasets that a walk along links doesn't find, or finds too often: with
 * hard links, kept by their reference count alone, beside a link that HDF5 can't read; and those
 * that are in no file any more: never linked, or unlinked while they are open.
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS 1000

static void check(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "reached: %s failed\n", what);
    exit(1);
}

static hid_t write_dataset(hid_t group, const char *name, int first)
{
    const hsize_t dims[1] = {ELEMENTS}, chunk[1] = {300};
    int data[ELEMENTS];
    hid_t space = H5Screate_simple(1, dims, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);

    if (first % 2)
        H5Pset_chunk(dcpl, 1, chunk);
    for (int i = 0; i < ELEMENTS; i++)
        data[i] = first + i;
    hid_t id = name ? H5Dcreate2(group, name, H5T_NATIVE_INT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT)
                    : H5Dcreate_anon(group, H5T_NATIVE_INT, space, dcpl, H5P_DEFAULT);
    check(id >= 0 && H5Dwrite(id, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0,
          name ? name : "a dataset without a name");
    H5Pclose(dcpl);
    H5Sclose(space);
    return id;
}

static void check_dataset(hid_t id, int first, const char *what)
{
    int data[ELEMENTS];

    memset(data, 0x55, sizeof(data));
    check(id >= 0 && H5Dread(id, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, what);
    for (int i = 0; i < ELEMENTS; i++)
        check(data[i] == first + i, what);
    H5Dclose(id);
}

/* Its only link goes, and a reference leads to it. */
static void keep_by_count(hid_t file)
{
    hobj_ref_t reference;
    hid_t scalar = H5Screate(H5S_SCALAR), id = write_dataset(file, "counted", 30);

    check(H5Rcreate(&reference, file, "counted", H5R_OBJECT, -1) >= 0 &&
              H5Oincr_refcount(id) >= 0 && H5Ldelete(file, "counted", H5P_DEFAULT) >= 0,
          "a dataset without a link");
    H5Dclose(id);
    id = H5Acreate2(file, "reference", H5T_STD_REF_OBJ, scalar, H5P_DEFAULT, H5P_DEFAULT);
    check(H5Awrite(id, H5T_STD_REF_OBJ, &reference) >= 0, "a reference");
    H5Aclose(id);
    H5Sclose(scalar);
}

static void write_file(const char *path)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    check(file >= 0, path);
    hid_t group = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    H5Dclose(write_dataset(group, "d", 10));
    H5Dclose(write_dataset(group, "chunked", 21));
    check(H5Lcreate_hard(group, "d", file, "hard", H5P_DEFAULT, H5P_DEFAULT) >= 0 &&
              H5Lcreate_hard(file, "group", group, "circle", H5P_DEFAULT, H5P_DEFAULT) >= 0 &&
              H5Lcreate_ud(group, "unreadable", H5L_TYPE_EXTERNAL, "\x7f?", 3, H5P_DEFAULT,
                           H5P_DEFAULT) >= 0,
          "links");
    keep_by_count(file);
    hid_t open = write_dataset(file, "unlinked", 40);
    check(H5Ldelete(file, "unlinked", H5P_DEFAULT) >= 0, "H5Ldelete");
    H5Dclose(write_dataset(file, NULL, 50));
    hid_t nameless = write_dataset(file, NULL, 61);
    check(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
    H5Dclose(write_dataset(file, "last", 70));
    H5Dclose(nameless);
    H5Dclose(open);
    H5Gclose(group);
    check(H5Fclose(file) >= 0, "H5Fclose");
}

static void check_file(const char *path)
{
    hobj_ref_t reference;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    check(file >= 0, path);

    check_dataset(H5Dopen2(file, "group/d", H5P_DEFAULT), 10, "group/d");
    check_dataset(H5Dopen2(file, "group/chunked", H5P_DEFAULT), 21, "group/chunked");
    check_dataset(H5Dopen2(file, "hard", H5P_DEFAULT), 10, "hard");
    check_dataset(H5Dopen2(file, "last", H5P_DEFAULT), 70, "last");
    check(H5Lexists(file, "unlinked", H5P_DEFAULT) == 0, "unlinked");
    hid_t id = H5Aopen(file, "reference", H5P_DEFAULT);
    check(id >= 0 && H5Aread(id, H5T_STD_REF_OBJ, &reference) >= 0, "the reference");
    H5Aclose(id);
    check_dataset(H5Rdereference2(file, H5P_DEFAULT, H5R_OBJECT, &reference), 30, "the counted");
    check(H5Fclose(file) >= 0, "H5Fclose");
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    if (strcmp(argv[1], "write") == 0)
        write_file(argv[2]);
    else
        check_file(argv[2]);
    return 0;
}
