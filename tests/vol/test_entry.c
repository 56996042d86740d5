/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls HDF5 by whatever way it is loaded; links none. Its file gets one group.
 *   entry write FILE             through the libhdf5 of $MKT_LIBHDF5, visible to all
 *   entry private LIBRARY FILE   through a libhdf5 that only this program sees
 *   entry both LIBRARY FILE      the same, after the other one became visible to all
 *   entry ask PLUGIN             asks the plugin itself, without any HDF5
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t hid_t;
#define ACC_TRUNC 2u

static void *load(const char *path, int flags)
{
    void *library = dlopen(path, RTLD_NOW | flags);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return library;
}

static int write_file(void *library, const char *path)
{
    int (*open_library)(void) = NULL;
    hid_t (*create)(const char *, unsigned, hid_t, hid_t) = NULL;
    hid_t (*create_group)(hid_t, const char *, hid_t, hid_t, hid_t) = NULL;
    int (*close_group)(hid_t) = NULL, (*close_file)(hid_t) = NULL;
    *(void **)&open_library = dlsym(library, "H5open");
    *(void **)&create = dlsym(library, "H5Fcreate");
    *(void **)&create_group = dlsym(library, "H5Gcreate2");
    *(void **)&close_group = dlsym(library, "H5Gclose");
    *(void **)&close_file = dlsym(library, "H5Fclose");
    if (open_library() < 0)
        return 1;
    hid_t file = create(path, ACC_TRUNC, 0, 0);
    hid_t group = file < 0 ? -1 : create_group(file, "g", 0, 0, 0);
    return group < 0 || close_group(group) < 0 || close_file(file) < 0;
}

static int ask(const char *path)
{
    const void *(*get)(void) = NULL;
    *(void **)&get = dlsym(load(path, RTLD_LOCAL), "H5PLget_plugin_info");
    return get() != NULL || get() != NULL;
}

int main(int count, char **arguments)
{
    const char *what = count > 2 ? arguments[1] : "";
    const char *own = getenv("MKT_LIBHDF5");
    if (strcmp(what, "ask") == 0)
        return ask(arguments[2]);
    if (strcmp(what, "write") == 0 && own)
        return write_file(load(own, RTLD_GLOBAL), arguments[2]);
    if (count < 4 || !own)
        return 2;
    bool both = strcmp(what, "both") == 0;
    if (both)
        load(own, RTLD_GLOBAL);
    /* Bound deeply, or the one that all see would take over the other's calls. */
    return write_file(load(arguments[2], RTLD_LOCAL | (both ? RTLD_DEEPBIND : 0)), arguments[3]);
}
