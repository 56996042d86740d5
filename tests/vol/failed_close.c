/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain HDF5 program whose last close fails, since memory for the metadata can't be had (a fault
 * point sees to it).
 *
 *   failed_close create|edit|edit-late|count FILE
 *     edit       opens the file and adds groups
 *     edit-late  closes the file first, and then a group that keeps it open
 *     count      prints how many objects the file has in its root group; nothing fails
 */
#include "scenario.h"

#include <string.h>

#define GROUPS 1500 /* more metadata than a file's first memory holds, less than HDF5's cache */

struct said {
    int unpublished, native;
};

static herr_t note(unsigned n, const H5E_error2_t *error, void *context)
{
    struct said *said = context;

    (void)n;
    if (error->desc && strstr(error->desc, "was not published"))
        said->unpublished++;
    if (error->func_name && strncmp(error->func_name, "H5F", 3) == 0)
        said->native++;
    return 0;
}

static int count(const char *path)
{
    H5G_info_t info;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);

    if (file < 0 || H5Gget_info(file, &info) < 0 || H5Fclose(file) < 0)
        return 1;
    printf("%d\n", (int)info.nlinks);
    return 0;
}

int main(int argc, char **argv)
{
    struct said said = {0};
    hid_t file, group = H5I_INVALID_HID;
    char name[32];
    herr_t result;

    if (argc != 3)
        return 2;
    if (strcmp(argv[1], "count") == 0)
        return count(argv[2]);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (strcmp(argv[1], "create") == 0)
        MUST(file = H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    else
        MUST(file = H5Fopen(argv[2], H5F_ACC_RDWR, H5P_DEFAULT));
    for (int i = 0; i < GROUPS; i++) {
        snprintf(name, sizeof name, "added-%d", i);
        if (group >= 0)
            MUST(H5Gclose(group));
        MUST(group = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
    if (strcmp(argv[1], "edit-late") == 0) {
        MUST(H5Fclose(file));
        result = H5Gclose(group);
    } else {
        MUST(H5Gclose(group));
        result = H5Fclose(file);
    }
    CHECK(result < 0);
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, note, &said);
    CHECK(said.unpublished > 0 && said.native > 0);
    /* A second close, as after any that failed, and the library's end: no worse. */
    if (strcmp(argv[1], "edit-late") == 0)
        H5Gclose(group);
    else {
        CHECK(H5Fget_obj_count(file, H5F_OBJ_ALL | H5F_OBJ_LOCAL) == 0);
        CHECK(H5Fclose(file) >= 0);
    }
    H5close();
    return failures ? 1 : 0;
}
