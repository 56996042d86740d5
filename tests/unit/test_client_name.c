/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands at a path, without a daemon. Runs in a folder of its own.
 */
#include "core/client/client.h"
#include "core/client/name.h"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const uint8_t market[MKT_ID_BYTES] = "market number 1",
                     other_market[MKT_ID_BYTES] = "market number 2";

static struct mkt_place look_at(const char *path)
{
    struct mkt_place place;
    struct mkt_error error;
    assert_int_equal(mkt_place_init(&place, path, &error), MKT_OK);
    return place;
}

static enum mkt_place_kind kind_of(const char *path)
{
    struct mkt_place place = look_at(path);
    enum mkt_place_kind kind = place.kind;
    mkt_place_fini(&place);
    return kind;
}

static void write_bytes(const char *path, const void *bytes, size_t length)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), (int)length);
    close(fd);
}

static void make_stub(const char *path, const uint8_t *whose, uint8_t object_out[MKT_ID_BYTES])
{
    struct mkt_error error;
    int fd = -1;
    bool made;
    struct mkt_place place = look_at(path);
    if (mkt_stub_ensure(&place, whose, "this host", &fd, &made, &error) != MKT_OK)
        fail_msg("%s", error.text);
    close(fd);
    assert_int_equal(place.kind, MKT_PLACE_STUB);
    memcpy(object_out, place.stub.object, MKT_ID_BYTES);
    mkt_place_fini(&place);
}

static void test_name_path_is_made_absolute_and_tidy(void **state)
{
    (void)state;
    char here[PATH_MAX], expected[PATH_MAX + 64];
    assert_non_null(getcwd(here, sizeof(here)));
    static const char *const cases[][2] = {{"a.h5", "/a.h5"},          {"./a.h5", "/a.h5"},
                                           {"x/.//./a.h5", "/x/a.h5"}, {"../a.h5", "/../a.h5"},
                                           {"x/.h5", "/x/.h5"},        {"x/..a", "/x/..a"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *path = mkt_path_absolute(cases[i][0]);
        snprintf(expected, sizeof(expected), "%s%s", here, cases[i][1]);
        assert_string_equal(path, expected);
        free(path);
    }
    char *path = mkt_path_absolute("//tmp/./a");
    assert_string_equal(path, "/tmp/a");
    free(path);
}

static void test_name_kinds_of_places(void **state)
{
    (void)state;
    uint8_t object[MKT_ID_BYTES];
    assert_int_equal(mkdir("folder", 0777), 0);
    assert_int_equal(mkfifo("fifo", 0666), 0);
    write_bytes("file", "0123456789", 10);
    make_stub("stub", market, object);
    assert_int_equal(kind_of("nothing"), MKT_PLACE_NONE);
    assert_int_equal(kind_of("file"), MKT_PLACE_FILE);
    assert_int_equal(kind_of("stub"), MKT_PLACE_STUB);
    assert_int_equal(kind_of("folder"), MKT_PLACE_FOREIGN);
    assert_int_equal(kind_of("folder/"), MKT_PLACE_FOREIGN);
    assert_int_equal(kind_of("fifo"), MKT_PLACE_FOREIGN); /* and doesn't hang */
    assert_int_equal(kind_of("no folder/x"), MKT_PLACE_FOREIGN);
    assert_int_equal(kind_of("file/x"), MKT_PLACE_FOREIGN);
    assert_int_equal(kind_of(""), MKT_PLACE_FOREIGN);
    assert_int_equal(kind_of("."), MKT_PLACE_FOREIGN);
    assert_int_equal(kind_of("folder/.."), MKT_PLACE_FOREIGN);
    assert_int_equal(kind_of("/dev/null"), MKT_PLACE_FOREIGN);
    assert_int_equal(mkt_path_kind("nothing"), MKT_PATH_NONE);
    assert_int_equal(mkt_path_kind("no folder/x"), MKT_PATH_NONE);
    assert_int_equal(mkt_path_kind("file"), MKT_PATH_FILE);
    assert_int_equal(mkt_path_kind("folder"), MKT_PATH_FILE);
    assert_int_equal(mkt_path_kind("stub"), MKT_PATH_STUB);
}

static void test_name_links_lead_to_what_they_mean(void **state)
{
    (void)state;
    uint8_t object[MKT_ID_BYTES];
    char target[PATH_MAX + 32];
    make_stub("linked stub", market, object);
    assert_int_equal(symlink("linked stub", "l1"), 0);
    assert_int_equal(getcwd(target, PATH_MAX) != NULL, true);
    strcat(target, "/l1");
    assert_int_equal(symlink(target, "l2"), 0);
    struct mkt_place place = look_at("l2");
    assert_int_equal(place.kind, MKT_PLACE_STUB);
    assert_string_equal(place.leaf, "linked stub");
    assert_memory_equal(place.stub.object, object, MKT_ID_BYTES);
    mkt_place_fini(&place);
    /* A name that isn't there yet is the one at the end of the link. */
    assert_int_equal(mkdir("far", 0777), 0);
    assert_int_equal(symlink("far/new", "dangling"), 0);
    place = look_at("dangling");
    struct mkt_place direct = look_at("far/../far/new");
    assert_int_equal(place.kind, MKT_PLACE_NONE);
    assert_true(mkt_place_equal(&place, &direct));
    mkt_place_fini(&place);
    mkt_place_fini(&direct);
    assert_int_equal(symlink("loop2", "loop1"), 0);
    assert_int_equal(symlink("loop1", "loop2"), 0);
    assert_int_equal(kind_of("loop1"), MKT_PLACE_FOREIGN);
}

static void test_name_same_object_by_any_path_and_different_by_name(void **state)
{
    (void)state;
    assert_int_equal(mkdir("one", 0777), 0);
    struct mkt_place a = look_at("one/x"), b = look_at("./one//x"), c = look_at("one/y"),
                     d = look_at("x");
    assert_true(mkt_place_equal(&a, &b));
    assert_false(mkt_place_equal(&a, &c));
    assert_false(mkt_place_equal(&a, &d));
    mkt_place_fini(&a);
    mkt_place_fini(&b);
    mkt_place_fini(&c);
    mkt_place_fini(&d);
}

static void test_name_long_paths(void **state)
{
    (void)state;
    char component[NAME_MAX + 1], path[PATH_MAX];
    memset(component, 'd', NAME_MAX);
    component[NAME_MAX] = '\0';
    /* Down to where the absolute path is longer than the kernel takes; relative ones still work. */
    int home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int depth = 0; depth < 18; depth++) {
        assert_int_equal(mkdir(component, 0777), 0);
        assert_int_equal(chdir(component), 0);
    }
    struct mkt_place place = look_at("a.h5");
    assert_int_equal(place.kind, MKT_PLACE_NONE);
    assert_true(strlen(place.path) > 18 * NAME_MAX);
    struct mkt_name name;
    mkt_place_name(&place, &name);
    assert_int_equal(name.leaf.length, 4);
    struct mkt_msg msg = {.type = MKT_MSG_OPEN, .open = {.name = name}};
    size_t bytes;
    assert_int_equal(mkt_msg_size(&msg, &bytes), MKT_OK);
    mkt_place_fini(&place);
    assert_int_equal(fchdir(home), 0);
    /* The longest that one call takes, and one more. */
    memset(path, '/', sizeof(path));
    memcpy(path + PATH_MAX - 5, "a.h5", 5);
    memcpy(path, ".", 1);
    assert_int_equal(kind_of(path), MKT_PLACE_NONE);
    char longer[PATH_MAX + 2];
    memset(longer, '/', sizeof(longer));
    longer[0] = '.';
    memcpy(longer + PATH_MAX - 4, "a.h5", 5);
    assert_int_equal(kind_of(longer), MKT_PLACE_FOREIGN);
    for (int depth = 0; depth < 18; depth++)
        assert_int_equal(chdir(component), 0);
    for (int depth = 0; depth < 18; depth++) {
        assert_int_equal(chdir(".."), 0);
        assert_int_equal(rmdir(component), 0);
    }
    close(home);
}

static void test_name_utf8_leaf_is_kept(void **state)
{
    (void)state;
    struct mkt_place place = look_at("Überschallströmung β=3 🚀.h5");
    struct mkt_name name;
    mkt_place_name(&place, &name);
    assert_int_equal(name.leaf.length, strlen("Überschallströmung β=3 🚀.h5"));
    assert_memory_equal(name.leaf.data, "Überschallströmung β=3 🚀.h5", name.leaf.length);
    mkt_place_fini(&place);
}

/* ---- stubs ---- */

static void test_stub_damaged_or_other_size_is_a_file(void **state)
{
    (void)state;
    uint8_t object[MKT_ID_BYTES], bytes[MKT_STUB_BYTES + 1] = {0};
    make_stub("good", market, object);
    int fd = open("good", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, bytes, MKT_STUB_BYTES), MKT_STUB_BYTES);
    close(fd);
    write_bytes("longer", bytes, MKT_STUB_BYTES + 1);
    assert_int_equal(kind_of("longer"), MKT_PLACE_FILE);
    write_bytes("shorter", bytes, MKT_STUB_BYTES - 1);
    assert_int_equal(kind_of("shorter"), MKT_PLACE_FILE);
    write_bytes("same", bytes, MKT_STUB_BYTES);
    assert_int_equal(kind_of("same"), MKT_PLACE_STUB);
    static const size_t places[] = {0, 256, offsetof(struct mkt_stub_disk, version)};
    for (size_t i = 0; i < 3; i++) {
        bytes[places[i]] ^= 1;
        write_bytes("damaged", bytes, MKT_STUB_BYTES);
        assert_int_equal(kind_of("damaged"), MKT_PLACE_FILE);
        bytes[places[i]] ^= 1;
    }
    memset(bytes + offsetof(struct mkt_stub_disk, host), 'x', 64);
    write_bytes("damaged", bytes, MKT_STUB_BYTES);
    assert_int_equal(kind_of("damaged"), MKT_PLACE_FILE);
}

static void test_stub_begins_as_hdf5_with_impossible_superblock(void **state)
{
    (void)state;
    uint8_t object[MKT_ID_BYTES], bytes[MKT_STUB_BYTES];
    make_stub("hdf5-like", market, object);
    int fd = open("hdf5-like", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, bytes, sizeof(bytes)), MKT_STUB_BYTES);
    close(fd);
    assert_memory_equal(bytes, "\211HDF\r\n\032\n", 8);
    assert_int_equal(bytes[8], 255);
    for (int i = 9; i < 256; i++)
        assert_int_equal(bytes[i], 0);
}

static void test_stub_of_ours_is_kept_and_of_others_rewritten(void **state)
{
    (void)state;
    uint8_t first[MKT_ID_BYTES], again[MKT_ID_BYTES], other[MKT_ID_BYTES];
    struct stat before, after;
    make_stub("kept", market, first);
    make_stub("kept", market, again);
    assert_memory_equal(first, again, MKT_ID_BYTES);
    assert_int_equal(stat("kept", &before), 0);
    make_stub("kept", other_market, other);
    assert_memory_not_equal(first, other, MKT_ID_BYTES);
    assert_int_equal(stat("kept", &after), 0);
    assert_true(before.st_ino == after.st_ino);
}

static void test_stub_remove_spares_what_took_its_place(void **state)
{
    (void)state;
    uint8_t object[MKT_ID_BYTES];
    make_stub("removed", market, object);
    struct mkt_place place = look_at("removed");
    unlink("removed");
    write_bytes("removed", "a real file", 11);
    mkt_stub_remove(&place);
    assert_int_equal(kind_of("removed"), MKT_PLACE_FILE);
    mkt_place_fini(&place);
    unlink("removed");
    make_stub("removed", market, object);
    place = look_at("removed");
    mkt_stub_remove(&place);
    assert_int_equal(kind_of("removed"), MKT_PLACE_NONE);
    mkt_place_fini(&place);
}

static void *write_a_little_later(void *context)
{
    struct mkt_stub_disk *stub = context;
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    write_bytes("in the making", stub, sizeof(*stub));
    return NULL;
}

/* Who looks between a stub's creation and its first byte sees the stub. */
static void test_stub_in_the_making_is_waited_for(void **state)
{
    (void)state;
    struct mkt_stub_disk stub;
    pthread_t thread;
    mkt_stub_init(&stub, market, other_market, "host");
    write_bytes("in the making", "", 0);
    assert_int_equal(pthread_create(&thread, NULL, write_a_little_later, &stub), 0);
    assert_int_equal(kind_of("in the making"), MKT_PLACE_STUB);
    assert_int_equal(pthread_join(thread, NULL), 0);
    write_bytes("stays empty", "", 0);
    assert_int_equal(kind_of("stays empty"), MKT_PLACE_FILE);
}

static void *make_same_stub(void *context)
{
    make_stub("contested", market, context);
    return NULL;
}

static void test_stub_made_by_several_at_once_is_one(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        pthread_t thread;
        uint8_t ours[MKT_ID_BYTES], theirs[MKT_ID_BYTES];
        struct mkt_error error;
        struct mkt_place place = look_at("contested");
        int fd = -1;
        bool made = false;
        assert_int_equal(pthread_create(&thread, NULL, make_same_stub, theirs), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        /* We looked before the other made it. */
        assert_int_equal(mkt_stub_ensure(&place, market, "host", &fd, &made, &error), MKT_EXISTS);
        mkt_place_fini(&place);
        make_stub("contested", market, ours);
        assert_memory_equal(ours, theirs, MKT_ID_BYTES);
        unlink("contested");
    }
}

static void test_stub_text_tells_whose_it_is(void **state)
{
    (void)state;
    uint8_t object[MKT_ID_BYTES];
    struct mkt_error error;
    make_stub("told", market, object);
    struct mkt_place place = look_at("told");
    mkt_stub_explain(&place, market, "this host", &error);
    assert_int_equal(error.status, MKT_NOT_FOUND);
    assert_non_null(strstr(error.text, "left-over stub"));
    mkt_stub_explain(&place, NULL, "this host", &error);
    assert_non_null(strstr(error.text, "another market of this host")); /* of no folder of ours */
    mkt_stub_explain(&place, other_market, "this host", &error);
    assert_non_null(strstr(error.text, "another market of this host"));
    mkt_stub_explain(&place, market, "that host", &error);
    assert_non_null(strstr(error.text, "on host this host"));
    mkt_place_fini(&place);
}

/* ---- what changes while it is looked at ---- */

#define CHANGES 4000

static bool changes_are_over;

/* A stub and a file take each other's place, the way a saved file takes its stub's. */
static void *change(void *context)
{
    (void)context;
    for (int i = 0; i < CHANGES; i++)
        renameat2(AT_FDCWD, "other", AT_FDCWD, "changing", RENAME_EXCHANGE);
    __atomic_store_n(&changes_are_over, true, __ATOMIC_RELEASE);
    return NULL;
}

static void test_name_of_what_changes_is_of_one_file(void **state)
{
    uint8_t object[MKT_ID_BYTES];
    pthread_t changer;
    (void)state;
    make_stub("changing", market, object);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* another time of birth */
    write_bytes("other", "a file of its own", 17);
    struct mkt_place stub = look_at("changing"), file = look_at("other");
    assert_int_equal(stub.kind, MKT_PLACE_STUB);
    assert_int_equal(file.kind, MKT_PLACE_FILE);
    assert_int_equal(pthread_create(&changer, NULL, change, NULL), 0);
    while (!__atomic_load_n(&changes_are_over, __ATOMIC_ACQUIRE)) {
        struct mkt_place place = look_at("changing");
        if (place.kind == MKT_PLACE_STUB)
            assert_memory_equal(place.stub.object, object, MKT_ID_BYTES);
        else
            assert_int_equal(place.kind, MKT_PLACE_FILE);
        const struct mkt_place *seen = place.kind == MKT_PLACE_STUB ? &stub : &file;
        assert_true(mkt_file_unchanged(&place.file, &seen->file));
        mkt_place_fini(&place);
    }
    pthread_join(changer, NULL);
    mkt_place_fini(&stub);
    mkt_place_fini(&file);
}

static int prepare(void **state)
{
    char folder[] = "/tmp/mkt-name.XXXXXX";
    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        return -1;
    *state = strdup(folder);
    return 0;
}

static int finish(void **state)
{
    char command[256];
    snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
    free(*state);
    return chdir("/") != 0 || system(command) != 0 ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name_path_is_made_absolute_and_tidy),
        cmocka_unit_test(test_name_kinds_of_places),
        cmocka_unit_test(test_name_links_lead_to_what_they_mean),
        cmocka_unit_test(test_name_same_object_by_any_path_and_different_by_name),
        cmocka_unit_test(test_name_long_paths),
        cmocka_unit_test(test_name_utf8_leaf_is_kept),
        cmocka_unit_test(test_stub_damaged_or_other_size_is_a_file),
        cmocka_unit_test(test_stub_begins_as_hdf5_with_impossible_superblock),
        cmocka_unit_test(test_stub_of_ours_is_kept_and_of_others_rewritten),
        cmocka_unit_test(test_stub_remove_spares_what_took_its_place),
        cmocka_unit_test(test_stub_in_the_making_is_waited_for),
        cmocka_unit_test(test_stub_made_by_several_at_once_is_one),
        cmocka_unit_test(test_stub_text_tells_whose_it_is),
        cmocka_unit_test(test_name_of_what_changes_is_of_one_file),
    };
    return cmocka_run_group_tests(tests, prepare, finish);
}
