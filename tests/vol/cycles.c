/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that lead to each other in circles, by external links and by the sources of virtual
 * datasets, and what a program meets on the way, written down: through the market as natively.
 *
 *   cycles write A B C    makes them, each with a link to the next, and walks while one is open
 *   cycles read A B C     walks from each, opened for reading
 *   cycles change A B C   changes all of them through one
 */
#include "scenario.h"

#include <string.h>

#define N 6

static const char *paths[3];

static const char *leaf(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* ---- making ---- */

static void put(hid_t location, const char *name, int value)
{
    const hsize_t dims = N;
    hid_t space = H5Screate_simple(1, &dims, NULL), dataset;
    int values[N];

    for (int i = 0; i < N; i++)
        values[i] = value + i;
    MUST(dataset = H5Dcreate2(location, name, H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT,
                              H5P_DEFAULT));
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    H5Dclose(dataset);
    H5Sclose(space);
}

/* Its first half is of one source, its second of another. */
static void put_virtual(hid_t file, const char *name, const char *first, const char *first_name,
                        const char *second, const char *second_name)
{
    const hsize_t dims = 2 * N, half = N, start[2] = {0, N};
    const hsize_t first_dims = strcmp(first_name, "v") == 0 ? 2 * N : N;
    const int fill = -1;
    hid_t list = H5Pcreate(H5P_DATASET_CREATE), whole = H5Screate_simple(1, &dims, NULL);
    hid_t source = H5Screate_simple(1, &half, NULL), dataset;
    hid_t first_source = H5Screate_simple(1, &first_dims, NULL);

    MUST(H5Sselect_hyperslab(first_source, H5S_SELECT_SET, &start[0], NULL, &half, NULL));
    H5Pset_fill_value(list, H5T_NATIVE_INT, &fill);
    MUST(H5Sselect_hyperslab(whole, H5S_SELECT_SET, &start[0], NULL, &half, NULL));
    MUST(H5Pset_virtual(list, whole, first, first_name, first_source));
    MUST(H5Sselect_hyperslab(whole, H5S_SELECT_SET, &start[1], NULL, &half, NULL));
    MUST(H5Pset_virtual(list, whole, second, second_name, source));
    H5Sselect_all(whole);
    MUST(dataset = H5Dcreate2(file, name, H5T_STD_I32LE, whole, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Dclose(dataset);
    H5Sclose(first_source);
    H5Sclose(source);
    H5Sclose(whole);
    H5Pclose(list);
}

static hid_t make(int i)
{
    const char *next = leaf(paths[(i + 1) % 3]), *after = leaf(paths[(i + 2) % 3]);
    hid_t file = H5Fcreate(paths[i], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);

    MUST(file);
    put(file, "d", 100 * (i + 1));
    H5Gclose(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Lcreate_external(next, "/", file, "next", H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Lcreate_external(next, "g/back", file, "round", H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Lcreate_external(after, "/g", file, "g/back", H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Lcreate_external(leaf(paths[i]), "self", file, "self", H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Lcreate_external(leaf(paths[i]), "d", file, "own", H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Lcreate_external(next, "endless", file, "endless", H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Lcreate_soft("next/next/d", file, "soft", H5P_DEFAULT, H5P_DEFAULT));
    put_virtual(file, "v", next, "d", after, "d");
    put_virtual(file, "vv", next, "v", ".", "d");          /* over a virtual one of the next */
    put_virtual(file, "vl", next, "next/d", next, "soft"); /* over links of the next */
    return file;
}

/* ---- walking ---- */

static void tell_data(hid_t dataset)
{
    int values[2 * N];
    hid_t space = H5Dget_space(dataset);
    hssize_t elements = H5Sget_simple_extent_npoints(space);

    memset(values, 0x5a, sizeof values);
    printf(" read %d:", H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (hssize_t i = 0; i < elements && i < 2 * N; i++)
        printf(" %d", values[i]);
    H5Sclose(space);
}

/* The object behind a path, and what it says of where it is. */
static void tell(hid_t location, const char *path)
{
    char name[256] = "", file_name[256] = "";
    unsigned intent = 99;
    H5G_info_t info;
    hid_t object;

    printf("  %s", path);
    H5E_BEGIN_TRY
    {
        object = H5Oopen(location, path, H5P_DEFAULT);
    }
    H5E_END_TRY
    if (object < 0) {
        printf(" fails\n");
        return;
    }
    hid_t file = H5Iget_file_id(object);
    H5Iget_name(object, name, sizeof name);
    H5Fget_name(object, file_name, sizeof file_name);
    H5Fget_intent(file, &intent);
    printf(" is %s in %s, intent %u, open %d", name, leaf(file_name), intent,
           (int)H5Fget_obj_count(file, H5F_OBJ_ALL | H5F_OBJ_LOCAL));
    if (H5Iget_type(object) == H5I_DATASET)
        tell_data(object);
    else if (H5Gget_info(object, &info) >= 0)
        printf(" %llu links", (unsigned long long)info.nlinks);
    printf("\n");
    H5Fclose(file);
    H5Oclose(object);
}

/* `next` so many times, and then a name. */
static void tell_far(hid_t file, unsigned times, const char *name)
{
    char path[256] = "";

    for (unsigned i = 0; i < times; i++)
        strcat(path, "next/");
    strcat(path, name);
    tell(file, path);
}

static void walk(hid_t file)
{
    static const char *names[] = {"d",
                                  "soft",
                                  "round",
                                  "round/back",
                                  "self",
                                  "own",
                                  "endless",
                                  "v",
                                  "vv",
                                  "vl",
                                  "next",
                                  "next/soft",
                                  "next/own",
                                  "next/v",
                                  "next/vv",
                                  "next/vl",
                                  "g/back/back/back/back"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        tell(file, names[i]);
    for (unsigned times = 2; times < 20; times++)
        tell_far(file, times, times % 2 ? "d" : "v");
}

static herr_t say_name(hid_t group, const char *name, const H5L_info2_t *info, void *context)
{
    (void)group;
    (void)context;
    printf(" %s:%d", name, (int)info->type);
    return 0;
}

static void walk_all(hid_t file)
{
    hid_t far;

    walk(file);
    printf("  all:");
    MUST(H5Lvisit2(file, H5_INDEX_NAME, H5_ITER_INC, say_name, NULL));
    MUST(far = H5Gopen2(file, "next/next", H5P_DEFAULT));
    printf("\n  far:");
    MUST(H5Literate2(far, H5_INDEX_NAME, H5_ITER_INC, NULL, say_name, NULL));
    printf("\n");
    H5Gclose(far);
}

/* What was reached through links stays when the file is closed that led there. */
static void outlive(void)
{
    hid_t file, group, dataset;

    MUST(file = H5Fopen(paths[0], H5F_ACC_RDONLY, H5P_DEFAULT));
    MUST(group = H5Gopen2(file, "next/next/next", H5P_DEFAULT));
    MUST(dataset = H5Dopen2(file, "next/soft", H5P_DEFAULT));
    MUST(H5Fclose(file));
    printf("outlive:");
    tell_data(dataset);
    printf("\n");
    tell(group, "next/d");
    H5Dclose(dataset);
    tell(group, "next/v");
    H5Gclose(group);
    printf("  open objects %d\n", (int)H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL));
}

/* ---- changing ---- */

static void overwrite(hid_t file, const char *path, int value)
{
    const hsize_t start = 2, count = 2;
    const int values[2] = {value, value + 1};
    hid_t dataset, space;

    MUST(dataset = H5Dopen2(file, path, H5P_DEFAULT));
    space = H5Dget_space(dataset);
    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL));
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_BLOCK, space, H5P_DEFAULT, values));
    H5Sclose(space);
    H5Dclose(dataset);
}

static void change(void)
{
    hid_t file, list = H5Pcreate(H5P_OBJECT_COPY);

    MUST(file = H5Fopen(paths[0], H5F_ACC_RDWR, H5P_DEFAULT));
    put(file, "next/new", 7000);
    put(file, "next/next/g/new", 8000);
    put(file, "next/next/next/newest", 9000);
    overwrite(file, "next/next/d", -50);
    overwrite(file, "soft", -60);
    overwrite(file, "next/next/next/d", -70);
    MUST(H5Lcreate_external(leaf(paths[2]), "g/new", file, "next/far", H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Ldelete(file, "next/next/own", H5P_DEFAULT));
    MUST(H5Ocopy(file, "next/next/d", file, "copied", H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Pset_copy_object(list, H5O_COPY_EXPAND_EXT_LINK_FLAG | H5O_COPY_SHALLOW_HIERARCHY_FLAG));
    MUST(H5Ocopy(file, "g", file, "expanded", list, H5P_DEFAULT));
    printf("changed:\n");
    walk(file);
    H5Pclose(list);
    MUST(H5Fclose(file));
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (int i = 0; i < 3; i++)
        paths[i] = argv[2 + i];
    if (strcmp(argv[1], "write") == 0) {
        MUST(H5Fclose(make(1)));
        MUST(H5Fclose(make(2)));
        hid_t file = make(0);
        printf("written:\n");
        walk_all(file);
        MUST(H5Fclose(file));
    } else if (strcmp(argv[1], "change") == 0) {
        change();
    } else {
        for (int i = 0; i < 3; i++) {
            hid_t file = H5Fopen(paths[i], H5F_ACC_RDONLY, H5P_DEFAULT);
            MUST(file);
            printf("%s:\n", leaf(paths[i]));
            walk_all(file);
            tell(file, "next/new");
            tell(file, "next/next/g/new");
            tell(file, "far");
            tell(file, "copied");
            tell(file, "expanded/back/d");
            MUST(H5Fclose(file));
        }
        outlive();
    }
    printf("open objects %d\n", (int)H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL));
    return failures ? 1 : 0;
}
