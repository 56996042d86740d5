/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults that random programs (../differential) found, each a scenario, each in a file of its own.
 */
#include "scenario.h"

#include <string.h>

#define N 40

static hid_t dataset_of(hid_t file, const char *name, hid_t type)
{
    hsize_t n = N;
    hid_t space = H5Screate_simple(1, &n, NULL), dataset;

    MUST(dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
    return dataset;
}

/* Of several datasets in a call, one with a type that can't be converted: none is written. */
static void all_or_none(const char *path)
{
    hid_t file, datasets[2], types[2] = {H5T_NATIVE_INT, H5T_NATIVE_INT},
                             spaces[2] = {H5S_ALL, H5S_ALL};
    int values[N], read[N], kept = 0;
    const void *buffers[2] = {values, values};
    herr_t result;

    for (int i = 0; i < N; i++)
        values[i] = i;
    MUST(file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    datasets[0] = dataset_of(file, "numbers", H5T_NATIVE_INT);
    datasets[1] = dataset_of(file, "text", H5T_C_S1);
    MUST(H5Dwrite(datasets[0], H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < N; i++)
        values[i] = -1;
    H5E_BEGIN_TRY
    {
        result = H5Dwrite_multi(2, datasets, types, spaces, spaces, H5P_DEFAULT, buffers);
    }
    H5E_END_TRY
    CHECK(result < 0);
    MUST(H5Dread(datasets[0], H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, read));
    for (int i = 0; i < N; i++)
        kept += read[i] == i;
    CHECK(kept == N);
    H5Dclose(datasets[0]);
    H5Dclose(datasets[1]);
    MUST(H5Fclose(file));
}

/* A copy or a link into a file opened for reading fails; the process goes on and the file stays.
 * Native fails to close such a file. */
static void change_readonly(const char *path)
{
    hid_t file;
    herr_t result, link;
    int values[N] = {7}, read[N] = {0};

    MUST(file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    hid_t dataset = dataset_of(file, "a", H5T_NATIVE_INT);
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    H5Dclose(dataset);
    MUST(H5Fclose(file));
    for (int again = 0; again < 2; again++) {
        MUST(file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
        H5E_BEGIN_TRY
        {
            result = H5Ocopy(file, "a", file, "b", H5P_DEFAULT, H5P_DEFAULT);
            link = H5Lcreate_soft("a", file, "c", H5P_DEFAULT, H5P_DEFAULT);
        }
        H5E_END_TRY
        CHECK(result < 0 && link < 0);
        MUST(dataset = H5Dopen2(file, "a", H5P_DEFAULT));
        MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, read));
        CHECK(read[0] == 7);
        H5Dclose(dataset);
        H5E_BEGIN_TRY
        {
            if (H5Fclose(file) < 0)
                H5Fclose(file);
        }
        H5E_END_TRY
    }
}

/* An external link that leads to itself ends with an error, not with the stack. */
static void external_loop(const char *path)
{
    hid_t file, object;

    MUST(file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Lcreate_external(path, "loop", file, "loop", H5P_DEFAULT, H5P_DEFAULT));
    H5E_BEGIN_TRY
    {
        object = H5Oopen(file, "loop", H5P_DEFAULT);
    }
    H5E_END_TRY
    CHECK(object < 0);
    MUST(H5Fclose(file));
}

/* An external link into its own file is followed while native holds the group, and leaves the file
 * as fit to be flushed and closed as it was. */
static void external_to_itself(const char *path)
{
    hid_t file, again, group, dataset;

    MUST(file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    MUST(again = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT));
    MUST(group = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    dataset = dataset_of(file, "data", H5T_NATIVE_INT);
    MUST(H5Lcreate_external(path, "/", group, "up", H5P_DEFAULT, H5P_DEFAULT));
    H5Dclose(dataset);
    for (int i = 0; i < 3; i++) {
        MUST(dataset = H5Dopen2(file, "group/up/data", H5P_DEFAULT));
        H5Dclose(dataset);
        dataset = dataset_of(file,
                             i == 0   ? "group/up/a"
                             : i == 1 ? "b"
                                      : "group/up/group/c",
                             H5T_NATIVE_INT);
        H5Dclose(dataset);
    }
    MUST(H5Lcreate_external(path, "missing", group, "nowhere", H5P_DEFAULT, H5P_DEFAULT));
    H5Ldelete(group, "up", H5P_DEFAULT);
    H5Gclose(group);
    hid_t list = H5Pcreate(H5P_OBJECT_COPY);
    MUST(H5Pset_copy_object(list, H5O_COPY_EXPAND_EXT_LINK_FLAG));
    MUST(H5Ocopy(file, "group", file, "copy", list, H5P_DEFAULT));
    H5Pclose(list);
    MUST(H5Fflush(file, H5F_SCOPE_GLOBAL));
    MUST(H5Fclose(again));
    MUST(H5Fclose(file));
    MUST(file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
    CHECK(H5Lexists(file, "a", H5P_DEFAULT) > 0 && H5Lexists(file, "group/c", H5P_DEFAULT) > 0);
    MUST(H5Fclose(file));
}

static const struct {
    const char *name;
    void (*run)(const char *path);
} scenarios[] = {
    {"all_or_none", all_or_none},
    {"change_readonly", change_readonly},
    {"external_loop", external_loop},
    {"external_to_itself", external_to_itself},
};

int main(void)
{
    for (size_t s = 0; s < sizeof scenarios / sizeof *scenarios; s++) {
        char path[64];
        scenario = scenarios[s].name;
        snprintf(path, sizeof path, "%s.h5", scenario);
        scenarios[s].run(path);
    }
    printf("found: %d failures\n", failures);
    return failures != 0;
}
