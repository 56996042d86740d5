/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain HDF5 program: what fails prints once, whatever calls HDF5 makes inside; and who may not
 * write is told so.
 */
#include "scenario.h"

#include <string.h>

static int printed;

static herr_t count(hid_t stack, void *context)
{
    (void)stack;
    (void)context;
    printed++;
    return 0;
}

static herr_t find_text(unsigned n, const H5E_error2_t *entry, void *context)
{
    (void)n;
    const char **wanted = context;
    if (*wanted && entry->desc && strstr(entry->desc, *wanted))
        *wanted = NULL;
    return 0;
}

static int stack_says(const char *text)
{
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_text, &text);
    return text == NULL;
}

/* A call that fails, and prints once. */
#define FAILS_ONCE(call)                                                            \
    do {                                                                            \
        printed = 0;                                                                \
        CHECK((call) < 0);                                                          \
        if (printed != 1) {                                                         \
            fprintf(stderr, "line %d: %s: printed %d\n", __LINE__, #call, printed); \
            failures++;                                                             \
        }                                                                           \
    } while (0)

static hid_t make(const char *path)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space, dataset,
          attribute;
    const hsize_t dims = 4;

    MUST(file);
    space = H5Screate_simple(1, &dims, NULL);
    MUST(dataset =
             H5Dcreate2(file, "d", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    MUST(attribute = H5Acreate2(dataset, "a", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT));
    H5Aclose(attribute);
    H5Dclose(dataset);
    H5Gclose(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
    return file;
}

static void objects(hid_t file)
{
    hid_t space = H5Screate(H5S_SCALAR), type = H5Tcopy(H5T_NATIVE_INT);
    H5O_info2_t info;
    H5L_info2_t link;
    H5G_info_t group;
    char text[8];

    FAILS_ONCE(H5Dopen2(file, "none", H5P_DEFAULT));
    FAILS_ONCE(H5Dopen2(file, "g", H5P_DEFAULT));
    FAILS_ONCE(H5Gopen2(file, "none", H5P_DEFAULT));
    FAILS_ONCE(H5Topen2(file, "none", H5P_DEFAULT));
    FAILS_ONCE(H5Oopen(file, "none", H5P_DEFAULT));
    FAILS_ONCE(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    FAILS_ONCE(H5Dcreate2(file, "d", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    FAILS_ONCE(H5Dcreate2(file, "e", space, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    FAILS_ONCE(H5Dcreate2(file, "e", type, type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    FAILS_ONCE(H5Tcommit2(file, "d", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    FAILS_ONCE(H5Oget_info_by_name3(file, "none", &info, H5O_INFO_BASIC, H5P_DEFAULT));
    FAILS_ONCE(H5Ocopy(file, "none", file, "copy", H5P_DEFAULT, H5P_DEFAULT));
    FAILS_ONCE(H5Lget_info2(file, "none", &link, H5P_DEFAULT));
    FAILS_ONCE(H5Ldelete(file, "none", H5P_DEFAULT));
    CHECK(!stack_says("name doesn't exist")); /* the look before the deletion leaves nothing */
    FAILS_ONCE(H5Lcreate_soft("d", file, "g", H5P_DEFAULT, H5P_DEFAULT));
    FAILS_ONCE(H5Lcreate_hard(file, "none", file, "l", H5P_DEFAULT, H5P_DEFAULT));
    FAILS_ONCE(H5Lmove(file, "none", file, "l", H5P_DEFAULT, H5P_DEFAULT));
    FAILS_ONCE(H5Lget_val(file, "none", text, sizeof(text), H5P_DEFAULT));
    FAILS_ONCE(H5Gget_info_by_name(file, "none", &group, H5P_DEFAULT));
    FAILS_ONCE(H5Fmount(file, "none", file, H5P_DEFAULT));
    H5Tclose(type);
    H5Sclose(space);
}

static void data(hid_t file)
{
    const hsize_t more = 8;
    hid_t dataset = H5Dopen2(file, "d", H5P_DEFAULT), opaque = H5Tcreate(H5T_OPAQUE, 4);
    hid_t space = H5Screate_simple(1, &more, NULL), scalar = H5Screate(H5S_SCALAR);
    hid_t beyond = H5Dget_space(dataset);
    const hsize_t end = 4, start = 0;
    hsize_t size = 0;
    int values[8] = {0};

    MUST(H5Sselect_elements(beyond, H5S_SELECT_SET, 1, &end));

    FAILS_ONCE(H5Dread(dataset, opaque, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    FAILS_ONCE(H5Dwrite(dataset, opaque, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    FAILS_ONCE(H5Dwrite(dataset, H5T_NATIVE_INT, space, H5S_ALL, H5P_DEFAULT, values));
    FAILS_ONCE(H5Dread(dataset, space, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    FAILS_ONCE(H5Dwrite(dataset, space, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    FAILS_ONCE(H5Dread(dataset, H5T_NATIVE_INT, dataset, H5S_ALL, H5P_DEFAULT, values));
    FAILS_ONCE(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, dataset, H5P_DEFAULT, values));
    FAILS_ONCE(H5Dwrite(dataset, H5T_NATIVE_INT, scalar, beyond, H5P_DEFAULT, values));
    FAILS_ONCE(H5Dread(dataset, H5T_NATIVE_INT, scalar, beyond, H5P_DEFAULT, values));
    FAILS_ONCE(H5Dset_extent(dataset, &more));
    FAILS_ONCE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &start, sizeof(values), values));
    FAILS_ONCE(H5Dget_chunk_storage_size(dataset, &start, &size));
    FAILS_ONCE(H5Aopen(dataset, "none", H5P_DEFAULT));
    FAILS_ONCE(H5Adelete(dataset, "none"));
    FAILS_ONCE(H5Arename(dataset, "none", "b"));
    FAILS_ONCE(H5Acreate2(dataset, "a", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT));
    hid_t attribute = H5Aopen(dataset, "a", H5P_DEFAULT);
    MUST(H5Awrite(attribute, H5T_NATIVE_INT, values));
    FAILS_ONCE(H5Aread(attribute, opaque, values));
    FAILS_ONCE(H5Awrite(attribute, opaque, values));
    H5Aclose(attribute);
    H5Sclose(beyond);
    H5Sclose(scalar);
    H5Sclose(space);
    H5Tclose(opaque);
    H5Dclose(dataset);
}

/* What an application's own function gets wrong prints. */
static herr_t look(hid_t group, const char *name, const H5L_info2_t *info, void *context)
{
    (void)name;
    (void)info;
    (void)context;
    H5Dopen2(group, "none", H5P_DEFAULT);
    return 1;
}

static herr_t visit(hid_t object, const char *name, const H5O_info2_t *info, void *context)
{
    return look(object, name, (const H5L_info2_t *)info, context);
}

static herr_t look_at_attribute(hid_t object, const char *name, const H5A_info_t *info,
                                void *context)
{
    return look(object, name, (const H5L_info2_t *)info, context);
}

static herr_t fail_there(hid_t group, const char *name, const H5L_info2_t *info, void *context)
{
    look(group, name, info, context);
    return -1;
}

static void own_functions(hid_t file)
{
    hid_t dataset = H5Dopen2(file, "d", H5P_DEFAULT);

    printed = 0;
    CHECK(H5Literate2(file, H5_INDEX_NAME, H5_ITER_INC, NULL, look, NULL) == 1);
    CHECK(H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_INC, visit, NULL, H5O_INFO_BASIC) == 1);
    CHECK(H5Aiterate2(dataset, H5_INDEX_NAME, H5_ITER_INC, NULL, look_at_attribute, NULL) == 1);
    CHECK(printed == 3);
    printed = 0;
    CHECK(H5Literate2(file, H5_INDEX_NAME, H5_ITER_INC, NULL, fail_there, NULL) < 0);
    CHECK(printed == 2);
    FAILS_ONCE(H5Literate_by_name2(file, "none", H5_INDEX_NAME, H5_ITER_INC, NULL, look, NULL,
                                   H5P_DEFAULT));
    FAILS_ONCE(H5Ovisit_by_name3(file, "none", H5_INDEX_NAME, H5_ITER_INC, visit, NULL,
                                 H5O_INFO_BASIC, H5P_DEFAULT));
    H5Dclose(dataset);
}

static void refused_links(hid_t file)
{
    FAILS_ONCE(H5Lcreate_soft("d", file, "l", H5P_DEFAULT, H5P_DEFAULT));
    CHECK(stack_says("no write intent on file"));
    FAILS_ONCE(H5Gcreate2(file, "h", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    CHECK(stack_says("no write intent on file"));
    FAILS_ONCE(H5Lmove(file, "d", file, "g/d", H5P_DEFAULT, H5P_DEFAULT));
    CHECK(stack_says("no write intent on file"));
    FAILS_ONCE(H5Ldelete(file, "g", H5P_DEFAULT));
    CHECK(stack_says("no write intent on file"));
    FAILS_ONCE(H5Ocopy(file, "d", file, "g/copy", H5P_DEFAULT, H5P_DEFAULT));
    CHECK(stack_says("no write intent on file"));
}

/* By its id a mounted file's root is that of the file it is mounted in. */
static void mounted_readers(void)
{
    hid_t file, parent;

    MUST(file = H5Fopen("e.h5", H5F_ACC_RDONLY, H5P_DEFAULT));
    parent = make("parent.h5");
    MUST(H5Fmount(parent, "g", file, H5P_DEFAULT));
    CHECK(H5Lcreate_soft("d", file, "l", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    CHECK(H5Ocopy(file, "d", file, "copy", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    CHECK(H5Ldelete(file, "d", H5P_DEFAULT) >= 0);
    MUST(H5Funmount(parent, "g"));
    CHECK(H5Lexists(parent, "l", H5P_DEFAULT) > 0 && H5Lexists(file, "l", H5P_DEFAULT) == 0);
    CHECK(H5Lexists(parent, "copy", H5P_DEFAULT) > 0 && H5Lexists(parent, "d", H5P_DEFAULT) == 0);
    MUST(H5Fclose(parent));
    MUST(H5Fclose(file));
}

static void readers(void)
{
    hid_t file, other, dataset;
    int values[4] = {0};

    MUST(file = H5Fopen("e.h5", H5F_ACC_RDONLY, H5P_DEFAULT));
    MUST(dataset = H5Dopen2(file, "d", H5P_DEFAULT));
    FAILS_ONCE(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    CHECK(stack_says("no write intent on file"));
    /* What is mounted there may be written to. */
    other = make("mounted.h5");
    MUST(H5Fmount(file, "g", other, H5P_DEFAULT));
    CHECK(H5Lcreate_soft("/g/d", file, "g/l", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    CHECK(H5Lexists(file, "g/l", H5P_DEFAULT) > 0);
    MUST(H5Funmount(file, "g"));
    CHECK(H5Lexists(other, "l", H5P_DEFAULT) > 0);
    if (getenv("HDF5_VOL_CONNECTOR")) { /* native fails halfway, and then can't close the file */
        refused_links(file);
        MUST(H5Fmount(file, "g", other, H5P_DEFAULT));
        FAILS_ONCE(H5Ocopy(file, "d", file, "g/copy", H5P_DEFAULT, H5P_DEFAULT));
        MUST(H5Funmount(file, "g"));
    }
    MUST(H5Fclose(other));
    H5Dclose(dataset);
    MUST(H5Fclose(file));
}

/* Links that lead nowhere, and to no object of another file. */
static void external_links(void)
{
    MUST(H5Fclose(make("o.h5")));
    hid_t file = H5Fcreate("l.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    MUST(file);
    MUST(H5Lcreate_external("o.h5", "none", file, "out", H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Lcreate_external("none.h5", "d", file, "away", H5P_DEFAULT, H5P_DEFAULT));
    FAILS_ONCE(H5Dopen2(file, "out", H5P_DEFAULT));
    FAILS_ONCE(H5Oopen(file, "out/more", H5P_DEFAULT));
    FAILS_ONCE(H5Gopen2(file, "away", H5P_DEFAULT));
    MUST(H5Fclose(file));
}

int main(void)
{
    MUST(H5Eset_auto2(H5E_DEFAULT, count, NULL));
    hid_t file = make("e.h5");
    scenario = "objects";
    objects(file);
    scenario = "data";
    data(file);
    scenario = "own functions";
    own_functions(file);
    MUST(H5Fclose(file));
    scenario = "readers";
    readers();
    scenario = "mounted readers";
    mounted_readers();
    scenario = "external links";
    external_links();
    FAILS_ONCE(H5Fopen("none.h5", H5F_ACC_RDONLY, H5P_DEFAULT));
    FAILS_ONCE(H5Fcreate("e.h5", H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    return failures ? 1 : 0;
}
