/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an ordinary program learns about its files: the same from native and through the market. Run
 * with and without HDF5_VOL_CONNECTOR=market, in an empty folder.
 */
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failures;
static int in_market;

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #condition); \
            failures++;                                                     \
        }                                                                   \
    } while (0)

#define QUIET(statement) \
    H5E_BEGIN_TRY        \
    {                    \
        statement;       \
    }                    \
    H5E_END_TRY

static hid_t make(const char *path, hid_t fcpl, hid_t fapl)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    CHECK(file >= 0);
    return file;
}

static void put(hid_t location, const char *name, int value)
{
    hsize_t dims = 10;
    int values[10];
    for (int i = 0; i < 10; i++)
        values[i] = value + i;
    hid_t space = H5Screate_simple(1, &dims, NULL);
    hid_t dataset =
        H5Dcreate2(location, name, H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(dataset >= 0);
    CHECK(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    CHECK(H5Dclose(dataset) >= 0);
    H5Sclose(space);
}

static int has(hid_t location, const char *name, int value)
{
    int values[10];
    memset(values, 0x5a, sizeof(values));
    hid_t dataset = H5Dopen2(location, name, H5P_DEFAULT);
    if (dataset < 0)
        return 0;
    int good = H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
    for (int i = 0; good && i < 10; i++)
        good = values[i] == value + i;
    H5Dclose(dataset);
    return good;
}

static void test_names_and_lists(void)
{
    hid_t fcpl = H5Pcreate(H5P_FILE_CREATE), fapl = H5Pcreate(H5P_FILE_ACCESS);
    char name[64];
    unsigned intent = 99;
    hsize_t block = 0, size = 0;
    H5F_libver_t low, high;
    H5Pset_userblock(fcpl, 1024);
    H5Pset_link_creation_order(fcpl, H5P_CRT_ORDER_TRACKED);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_LATEST);
    hid_t file = make("names.h5", fcpl, fapl);
    put(file, "d", 1);
    CHECK(H5Fget_name(file, name, sizeof(name)) == 8 && strcmp(name, "names.h5") == 0);
    CHECK(H5Fget_name(file, name, 6) == 8 && strcmp(name, "names") == 0);
    hid_t dataset = H5Dopen2(file, "d", H5P_DEFAULT);
    CHECK(H5Fget_name(dataset, name, sizeof(name)) == 8 && strcmp(name, "names.h5") == 0);
    CHECK(H5Fget_intent(file, &intent) >= 0 && intent == H5F_ACC_RDWR);
    hid_t got = H5Fget_create_plist(file);
    CHECK(H5Pget_userblock(got, &block) >= 0 && block == 1024);
    H5Pclose(got);
    got = H5Fget_access_plist(file);
    CHECK(H5Pget_driver(got) == H5FD_SEC2);
    CHECK(H5Pget_libver_bounds(got, &low, &high) >= 0 && low == H5F_LIBVER_V110);
    hid_t again = H5Fopen("names.h5", H5F_ACC_RDWR, got); /* with what it answered */
    CHECK(again >= 0 && has(again, "d", 1));
    H5Fclose(again);
    H5Pclose(got);
    CHECK(H5Fget_filesize(file, &size) >= 0 && size >= 1024);
    H5Dclose(dataset);
    CHECK(H5Fclose(file) >= 0);
    file = H5Fopen("names.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(H5Fget_intent(file, &intent) >= 0 && intent == H5F_ACC_RDONLY);
    got = H5Fget_create_plist(file);
    CHECK(H5Pget_userblock(got, &block) >= 0 && block == 1024);
    H5Pclose(got);
    CHECK(has(file, "d", 1));
    H5Fclose(file);
    H5Pclose(fcpl);
    H5Pclose(fapl);
}

static void test_existence(void)
{
    QUIET(CHECK(H5Fis_accessible("none.h5", H5P_DEFAULT) <= 0));
    hid_t file = make("there.h5", H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Fis_accessible("there.h5", H5P_DEFAULT) > 0);
    put(file, "d", 1);
    H5Fclose(file);
    CHECK(H5Fis_accessible("there.h5", H5P_DEFAULT) > 0);
    errno = 0;
    QUIET(CHECK(H5Fcreate("there.h5", H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT) < 0));
    CHECK(errno == EEXIST);
    CHECK(H5Fdelete("there.h5", H5P_DEFAULT) >= 0);
    CHECK(access("there.h5", F_OK) != 0);
    errno = 0;
    QUIET(CHECK(H5Fopen("there.h5", H5F_ACC_RDONLY, H5P_DEFAULT) < 0));
    CHECK(errno == ENOENT);
    QUIET(CHECK(H5Fis_accessible("there.h5", H5P_DEFAULT) <= 0));
    QUIET(CHECK(H5Fdelete("there.h5", H5P_DEFAULT) < 0));
}

/* As with any removed file: who has it open keeps it. */
static void test_delete_of_an_open_file(void)
{
    hid_t file = make("gone.h5", H5P_DEFAULT, H5P_DEFAULT), again;
    put(file, "d", 1);
    CHECK(H5Fdelete("gone.h5", H5P_DEFAULT) >= 0);
    CHECK(access("gone.h5", F_OK) != 0);
    QUIET(CHECK(H5Fis_accessible("gone.h5", H5P_DEFAULT) <= 0));
    CHECK(has(file, "d", 1));
    put(file, "e", 2);
    CHECK(has(file, "e", 2));
    /* Another one in its place. */
    again = make("gone.h5", H5P_DEFAULT, H5P_DEFAULT);
    put(again, "d", 3);
    CHECK(has(file, "d", 1));
    CHECK(H5Fclose(file) >= 0);
    CHECK(has(again, "d", 3));
    CHECK(H5Fclose(again) >= 0);
    file = H5Fopen("gone.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(file >= 0 && has(file, "d", 3) && H5Lexists(file, "e", H5P_DEFAULT) == 0);
    /* A reader, too. */
    CHECK(H5Fdelete("gone.h5", H5P_DEFAULT) >= 0);
    CHECK(has(file, "d", 3));
    CHECK(H5Fclose(file) >= 0);
    QUIET(CHECK(H5Fopen("gone.h5", H5F_ACC_RDONLY, H5P_DEFAULT) < 0));
}

/* A program syncs a file, or asks for its status, by the descriptor of its driver. */
static void test_descriptor(void)
{
    struct stat by_path, by_descriptor;
    int *descriptor = NULL, *other = NULL;
    hid_t file = make("descriptor.h5", H5P_DEFAULT, H5P_DEFAULT);
    put(file, "d", 1);
    CHECK(H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&descriptor) >= 0);
    CHECK(descriptor && fsync(*descriptor) == 0);
    CHECK(stat("descriptor.h5", &by_path) == 0 && fstat(*descriptor, &by_descriptor) == 0);
    CHECK(by_path.st_ino == by_descriptor.st_ino && by_path.st_dev == by_descriptor.st_dev);
    CHECK(H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&other) >= 0 && other == descriptor);
    if (in_market) /* it would be lost */
        CHECK(write(*descriptor, "x", 1) < 0);
    int number = *descriptor;
    CHECK(H5Fclose(file) >= 0);
    CHECK(fcntl(number, F_GETFD) < 0);
    file = H5Fopen("descriptor.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(has(file, "d", 1));
    CHECK(H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&descriptor) >= 0 &&
          fsync(*descriptor) == 0);
    CHECK(H5Fclose(file) >= 0);
}

static void test_close_degrees(void)
{
    static const H5F_close_degree_t degrees[] = {H5F_CLOSE_WEAK, H5F_CLOSE_SEMI, H5F_CLOSE_STRONG};
    for (int i = 0; i < 3; i++) {
        hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
        H5Pset_fclose_degree(fapl, degrees[i]);
        hid_t file = make("degree.h5", H5P_DEFAULT, fapl);
        put(file, "d", i);
        hid_t dataset = H5Dopen2(file, "d", H5P_DEFAULT);
        hid_t group = H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(H5Fget_obj_count(file, H5F_OBJ_ALL) == 3);
        herr_t closed;
        QUIET(closed = H5Fclose(file));
        CHECK(degrees[i] == H5F_CLOSE_SEMI ? closed < 0 : closed >= 0);
        if (degrees[i] != H5F_CLOSE_STRONG) {
            CHECK(H5Gclose(group) >= 0);
            CHECK(H5Dclose(dataset) >= 0);
        }
        if (degrees[i] == H5F_CLOSE_SEMI)
            CHECK(H5Fclose(file) >= 0);
        file = H5Fopen("degree.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
        CHECK(file >= 0 && has(file, "d", i) && H5Lexists(file, "g", H5P_DEFAULT) > 0);
        H5Fclose(file);
        H5Pclose(fapl);
    }
}

static void test_reopen_and_equality(void)
{
    hid_t file = make("same.h5", H5P_DEFAULT, H5P_DEFAULT);
    hid_t other = make("other.h5", H5P_DEFAULT, H5P_DEFAULT);
    hid_t again = H5Freopen(file);
    unsigned long first = 0, second = 1, third = 0;
    CHECK(again >= 0);
    put(again, "d", 5);
    CHECK(has(file, "d", 5));
    CHECK(H5Fget_fileno(file, &first) >= 0 && H5Fget_fileno(again, &second) >= 0 &&
          first == second);
    CHECK(H5Fget_fileno(other, &third) >= 0 && third != first);
    H5Fclose(file);
    CHECK(has(again, "d", 5));
    H5Fclose(again);
    H5Fclose(other);
    file = H5Fopen("same.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(has(file, "d", 5));
    H5Fclose(file);
}

/* A mounted file stays open through its parent, and is published when the mount ends. */
static void test_mounts(void)
{
    hid_t child = make("child.h5", H5P_DEFAULT, H5P_DEFAULT);
    hid_t parent = make("parent.h5", H5P_DEFAULT, H5P_DEFAULT);
    hid_t group = H5Gcreate2(parent, "m", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
    CHECK(H5Fmount(parent, "m", child, H5P_DEFAULT) >= 0);
    CHECK(H5Fclose(child) >= 0);
    put(parent, "m/in_child", 3);
    put(parent, "in_parent", 4);
    CHECK(has(parent, "m/in_child", 3));
    CHECK(H5Funmount(parent, "m") >= 0);
    CHECK(H5Fclose(parent) >= 0);
    child = H5Fopen("child.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(child >= 0 && has(child, "in_child", 3));
    H5Fclose(child);
    parent = H5Fopen("parent.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(has(parent, "in_parent", 4));
    QUIET(CHECK(!has(parent, "m/in_child", 3)));
    H5Fclose(parent);
}

static void test_external_links(void)
{
    mkdir("sub", 0777);
    hid_t file = make("sub/target.h5", H5P_DEFAULT, H5P_DEFAULT);
    put(file, "d", 8);
    H5Fclose(file);
    file = make("sub/source.h5", H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Lcreate_external("target.h5", "/d", file, "link", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    CHECK(H5Lcreate_external("nowhere.h5", "/d", file, "dangling", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5L_info2_t info;
    CHECK(H5Lget_info2(file, "link", &info, H5P_DEFAULT) >= 0 && info.type == H5L_TYPE_EXTERNAL);
    char value[64];
    const char *target = NULL, *object = NULL;
    unsigned flags;
    CHECK(info.u.val_size <= sizeof(value) &&
          H5Lget_val(file, "link", value, sizeof(value), H5P_DEFAULT) >= 0);
    CHECK(H5Lunpack_elink_val(value, info.u.val_size, &flags, &target, &object) >= 0);
    CHECK(target && strcmp(target, "target.h5") == 0 && strcmp(object, "/d") == 0);
    CHECK(has(file, "link", 8)); /* beside the source, not in the current folder */
    QUIET(CHECK(!has(file, "dangling", 8)));
    H5Fclose(file);
    /* Written through the link, published by the target's own end. */
    file = H5Fopen("sub/source.h5", H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t dataset = H5Dopen2(file, "link", H5P_DEFAULT);
    int values[10] = {20, 21, 22, 23, 24, 25, 26, 27, 28, 29};
    CHECK(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(dataset);
    H5Fclose(file);
    file = H5Fopen("sub/target.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(has(file, "d", 20));
    H5Fclose(file);
}

/* Drivers that are private to the program go past the market. */
static void test_core_driver_stays_private(void)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(fapl, 4096, false);
    hid_t file = make("core.h5", H5P_DEFAULT, fapl);
    put(file, "d", 1);
    hid_t got = H5Fget_access_plist(file);
    CHECK(H5Pget_driver(got) == H5FD_CORE);
    H5Pclose(got);
    H5Fclose(file);
    QUIET(CHECK(H5Fopen("core.h5", H5F_ACC_RDONLY, H5P_DEFAULT) < 0));
    H5Pset_fapl_core(fapl, 4096, true);
    file = make("core.h5", H5P_DEFAULT, fapl);
    put(file, "d", 2);
    H5Fclose(file);
    struct stat status;
    CHECK(stat("core.h5", &status) == 0 && status.st_size > 512);
    H5Pclose(fapl);
}

static bool is_sec2(hid_t fapl)
{
    return H5Pget_driver(fapl) == H5FD_SEC2;
}

/* A list is the same after a call as before it, whether that succeeded or not, and all that it says
 * counts. */
static void test_lists_are_left_alone(void)
{
    H5F_libver_t low, high;
    hsize_t threshold, alignment;
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), before, file, got;
    H5Pset_libver_bounds(fapl, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    H5Pset_alignment(fapl, 100, 4096);
    before = H5Pcopy(fapl);
    file = make("list.h5", H5P_DEFAULT, fapl);
    CHECK(is_sec2(fapl));
    put(file, "d", 3);
    got = H5Fget_access_plist(file);
    CHECK(H5Pget_libver_bounds(got, &low, &high) >= 0 && low == H5F_LIBVER_V18);
    CHECK(H5Pget_alignment(got, &threshold, &alignment) >= 0 && threshold == 100 &&
          alignment == 4096);
    CHECK(is_sec2(got));
    H5Pclose(got);
    QUIET(CHECK(H5Fcreate("list.h5", H5F_ACC_TRUNC, H5P_DEFAULT, fapl) < 0));
    CHECK(is_sec2(fapl));
    H5Fclose(file);
    QUIET(CHECK(H5Fcreate("list.h5", H5F_ACC_EXCL, H5P_DEFAULT, fapl) < 0));
    QUIET(CHECK(H5Fopen("no-list.h5", H5F_ACC_RDONLY, fapl) < 0));
    CHECK(is_sec2(fapl));
    for (int i = 0; i < 3; i++) {
        file = H5Fopen("list.h5", H5F_ACC_RDONLY, fapl);
        CHECK(has(file, "d", 3) && is_sec2(fapl));
        H5Fclose(file);
    }
    CHECK(H5Pequal(fapl, before) > 0);
    H5Pclose(before);
    /* Chosen by its name, with a text of its own. */
    const char *const texts[] = {NULL, "", "a text"};
    for (int i = 0; i < 3; i++) {
        CHECK(H5Pset_driver_by_name(fapl, "sec2", texts[i]) >= 0);
        before = H5Pcopy(fapl);
        file = make("named-driver.h5", H5P_DEFAULT, fapl);
        put(file, "d", 4);
        H5Fclose(file);
        CHECK(is_sec2(fapl) && H5Pequal(fapl, before) > 0);
        H5Pclose(before);
    }
    H5Pclose(fapl);
}

static void test_swmr_goes_to_a_real_file(void)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    hid_t file = H5Fcreate("swmr.h5", H5F_ACC_TRUNC | H5F_ACC_SWMR_WRITE, H5P_DEFAULT, fapl);
    CHECK(file >= 0);
    H5Fclose(file);
    struct stat status;
    CHECK(stat("swmr.h5", &status) == 0 && status.st_size != 512);
    H5Pclose(fapl);
}

static herr_t find_cause(unsigned n, const H5E_error2_t *error, void *data)
{
    (void)n;
    int *found = data;
    if (error->desc && strstr(error->desc, "second.h5"))
        *found = 1;
    return 0;
}

/* What an error says reaches the program: the path, whoever refused. */
static void test_errors_name_the_file(void)
{
    int found = 0;
    hid_t file;
    QUIET(file = H5Fopen("second.h5", H5F_ACC_RDONLY, H5P_DEFAULT));
    CHECK(file < 0);
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, find_cause, &found);
    CHECK(found);
}

int main(void)
{
    const char *connector = getenv("HDF5_VOL_CONNECTOR");
    in_market = connector && strncmp(connector, "market", 6) == 0;
    test_names_and_lists();
    test_existence();
    test_delete_of_an_open_file();
    test_descriptor();
    test_close_degrees();
    test_reopen_and_equality();
    test_mounts();
    test_external_links();
    test_core_driver_stays_private();
    test_lists_are_left_alone();
    test_swmr_goes_to_a_real_file();
    test_errors_name_the_file();
    if (in_market) { /* or all of it ran on native */
        struct stat status;
        CHECK(stat("names.h5", &status) == 0 && status.st_size == 512);
    }
    return failures ? 1 : 0;
}
