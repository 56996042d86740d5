/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client against a real daemon, in one market: what one handle publishes another reads.
 */
#include "core/client/client.h"
#include "core/client/stub_layout.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char daemon_path[4096];

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct mkt_client *connect_client(uint32_t silence_ms)
{
    struct mkt_client_options options = {
        .daemon_path = daemon_path, .connect_timeout_ms = 30000, .silence_ms = silence_ms};
    struct mkt_client *client = NULL;
    struct mkt_error error;
    if (mkt_client_connect(&options, &client, &error) != MKT_OK)
        fail_msg("%s", error.text);
    return client;
}

#define assert_ok(call)                                                               \
    do {                                                                              \
        if ((call) != MKT_OK)                                                         \
            fail_msg("%s: %s: %s", #call, mkt_status_name(error.status), error.text); \
    } while (0)

static uint64_t open_file(struct mkt_client *client, const char *path, enum mkt_intent intent,
                          int64_t wait_ms, struct mkt_opened *opened_out)
{
    struct mkt_open request = {.path = path, .intent = intent, .size = 1, .wait_ms = wait_ms};
    struct mkt_error error;
    assert_ok(mkt_client_open(client, &request, opened_out, &error));
    return opened_out->file;
}

/* Writes one array of `count` doubles first, first + 1, ... as one piece. */
static void add_array(struct mkt_client *client, uint64_t file, const struct mkt_array *array,
                      double first)
{
    struct mkt_error error;
    struct mkt_piece piece = {.form = MKT_PIECE_BOX};
    uint64_t start = 0, count = array->dims[0];
    void *address;
    assert_ok(mkt_client_reserve(client, count * sizeof(double), &piece.data, &address, &error));
    for (uint64_t i = 0; i < count; i++)
        ((double *)address)[i] = first + (double)i;
    mkt_slab_box(&piece.slab, 1, &start, &count);
    assert_ok(mkt_client_add(client, file, array, &piece, 1, false, NULL, &error));
}

static struct mkt_array make_array(uint64_t identity, uint64_t count)
{
    struct mkt_array array = {
        .identity = identity, .element_bytes = sizeof(double), .rank = 1, .dims = {count}};
    memcpy(array.token, &identity, sizeof(identity));
    return array;
}

static uint64_t commit_file(struct mkt_client *client, uint64_t file,
                            const struct mkt_array *arrays, uint32_t count, const char *image)
{
    struct mkt_error error;
    uint64_t version = 0;
    struct mkt_commit commit = {.file = file,
                                .hash = 1,
                                .image = image,
                                .image_bytes = strlen(image) + 1,
                                .arrays = arrays,
                                .arrays_count = count};
    assert_ok(mkt_client_commit(client, &commit, &version, &error));
    return version;
}

static uint64_t write_file(struct mkt_client *client, const char *path, uint64_t count,
                           double first, const char *image)
{
    struct mkt_opened opened;
    struct mkt_array array = make_array(1, count);
    uint64_t file = open_file(client, path, MKT_INTENT_CREATE, 0, &opened);
    assert_int_equal(opened.source, MKT_SOURCE_EMPTY);
    assert_true(file != 0);
    add_array(client, file, &array, first);
    return commit_file(client, file, &array, 1, image);
}

struct check {
    struct mkt_client *client;
    double first;
    uint64_t elements;
};

static enum mkt_status check_piece(void *context, const struct mkt_piece *piece)
{
    struct check *check = context;
    struct mkt_error error;
    void *address;
    assert_ok(mkt_client_map(check->client, &piece->data, false, &address, &error));
    for (uint64_t i = 0; i < piece->data.length / sizeof(double); i++)
        assert_true(((double *)address)[i] ==
                    check->first + (double)(piece->slab.dim[0].start + i));
    check->elements += piece->data.length / sizeof(double);
    return MKT_OK;
}

static void check_index(struct mkt_client *client, const void *index, uint64_t bytes, double first,
                        uint64_t count)
{
    struct mkt_index_view view;
    struct mkt_slab all;
    uint64_t start = 0;
    uint32_t position;
    struct check check = {.client = client, .first = first};
    assert_int_equal(mkt_index_view_open(&view, index, bytes), MKT_OK);
    assert_int_equal(mkt_index_view_find_identity(&view, 1, &position), MKT_OK);
    mkt_slab_box(&all, 1, &start, &count);
    assert_int_equal(mkt_index_view_query(&view, position, &all, check_piece, &check), MKT_OK);
    assert_true(check.elements == count);
}

static void check_opened(struct mkt_client *client, const struct mkt_opened *opened, double first,
                         uint64_t count, const char *image)
{
    assert_int_equal(opened->source, MKT_SOURCE_VERSION);
    assert_true(opened->image_bytes == strlen(image) + 1);
    assert_string_equal(opened->image, image);
    check_index(client, opened->index, opened->index_bytes, first, count);
}

/* ---- hand-over ---- */

static void test_client_reader_gets_what_writer_published(void **state)
{
    (void)state;
    struct mkt_client *writer = connect_client(0), *reader = connect_client(0);
    struct mkt_opened opened;
    assert_memory_equal(mkt_client_daemon_id(writer), mkt_client_daemon_id(reader), MKT_ID_BYTES);
    assert_true(write_file(writer, "small.h5", 100, 0.5, "image of small") == 1);
    assert_true(write_file(writer, "large.h5", 3 << 20, 7, "image of large") == 1);
    uint64_t file = open_file(reader, "small.h5", MKT_INTENT_READ, 0, &opened);
    check_opened(reader, &opened, 0.5, 100, "image of small");
    mkt_client_close(reader, file);
    file = open_file(reader, "./large.h5", MKT_INTENT_READ, 0, &opened);
    check_opened(reader, &opened, 7, 3 << 20, "image of large");
    mkt_client_close(reader, file);
    mkt_client_destroy(reader);
    mkt_client_destroy(writer);
}

static void test_client_new_version_replaces_and_old_reader_keeps_its_own(void **state)
{
    (void)state;
    struct mkt_client *writer = connect_client(0), *reader = connect_client(0);
    struct mkt_opened before, after;
    assert_true(write_file(writer, "twice.h5", 50, 1, "first") == 1);
    uint64_t old_file = open_file(reader, "twice.h5", MKT_INTENT_READ, 0, &before);
    assert_true(write_file(writer, "twice.h5", 60, 1000, "second") == 2);
    uint64_t new_file = open_file(reader, "twice.h5", MKT_INTENT_READ, 0, &after);
    check_opened(reader, &before, 1, 50, "first");
    check_opened(reader, &after, 1000, 60, "second");
    assert_true(after.version == 2);
    mkt_client_close(reader, old_file);
    mkt_client_close(reader, new_file);
    mkt_client_destroy(reader);
    mkt_client_destroy(writer);
}

/* Create 1, write 0, close 1; open 1, close 0; and one for each arena and direction, once. */
static void test_client_small_file_takes_three_round_trips(void **state)
{
    (void)state;
    struct mkt_client *writer = connect_client(0), *reader = connect_client(0);
    struct mkt_opened opened;
    char path[64];
    write_file(writer, "trips.h5", 512, 0, "x");
    mkt_client_close(reader, open_file(reader, "trips.h5", MKT_INTENT_READ, 0, &opened));
    for (int i = 0; i < 10; i++) {
        struct mkt_array array = make_array(1, 512);
        snprintf(path, sizeof(path), "trips-%d.h5", i);
        uint64_t trips = mkt_client_round_trips(writer);
        uint64_t file = open_file(writer, path, MKT_INTENT_CREATE, 0, &opened);
        assert_true(mkt_client_round_trips(writer) - trips == 1);
        add_array(writer, file, &array, i);
        assert_true(mkt_client_round_trips(writer) - trips == 1);
        commit_file(writer, file, &array, 1, "image");
        assert_true(mkt_client_round_trips(writer) - trips == 2);
        trips = mkt_client_round_trips(reader);
        file = open_file(reader, path, MKT_INTENT_READ, 0, &opened);
        check_opened(reader, &opened, i, 512, "image");
        mkt_client_close(reader, file);
        assert_true(mkt_client_round_trips(reader) - trips == 1);
    }
    mkt_client_destroy(reader);
    mkt_client_destroy(writer);
}

/* Pages that are entered for writing aren't entered once more; what wasn't written here is mapped
 * read-only. */
static void test_client_reads_what_it_wrote_where_it_wrote_it(void **state)
{
    (void)state;
    struct mkt_client *writer = connect_client(0), *reader = connect_client(0);
    struct mkt_error error;
    struct mkt_extent extent, beyond;
    void *written, *source;
    assert_ok(mkt_client_reserve(writer, 8 << 20, &extent, &written, &error));
    memset(written, 7, extent.length);
    uint64_t trips = mkt_client_round_trips(writer);
    assert_ok(mkt_client_map_source(writer, &extent, &source, &error));
    assert_ptr_equal(source, written);
    assert_true(mkt_client_round_trips(writer) == trips);
    /* One granule more isn't written here. */
    beyond = extent;
    beyond.length += 4096;
    assert_ok(mkt_client_map_source(writer, &beyond, &source, &error));
    assert_ptr_not_equal(source, written);
    assert_memory_equal(source, written, extent.length);
    assert_ok(mkt_client_map_source(reader, &extent, &source, &error));
    assert_ptr_not_equal(source, written);
    assert_memory_equal(source, written, extent.length);
    mkt_client_unreserve(writer, &extent);
    mkt_client_destroy(writer);
    mkt_client_destroy(reader);
}

static void test_client_many_arrays_and_pieces_cross_several_messages(void **state)
{
    (void)state;
    enum {
        ARRAYS = 6000,
        PIECES = 20000
    };
    struct mkt_client *writer = connect_client(0), *reader = connect_client(0);
    struct mkt_opened opened;
    struct mkt_error error;
    struct mkt_array *arrays = calloc(ARRAYS, sizeof(*arrays));
    struct mkt_piece *pieces = calloc(PIECES, sizeof(*pieces));
    uint64_t file = open_file(writer, "many.h5", MKT_INTENT_CREATE, 0, &opened);
    arrays[0] = make_array(1, PIECES);
    for (int i = 1; i < ARRAYS; i++) {
        arrays[i] = (struct mkt_array){
            .identity = (uint64_t)i + 1, .element_bytes = 1, .rank = MKT_MAX_RANK};
        memcpy(arrays[i].token, &arrays[i].identity, sizeof(uint64_t));
        for (int d = 0; d < MKT_MAX_RANK; d++)
            arrays[i].dims[d] = 1;
    }
    for (int i = 0; i < PIECES; i++) {
        uint64_t start = (uint64_t)i, count = 1;
        void *address;
        pieces[i].form = MKT_PIECE_BOX;
        mkt_slab_box(&pieces[i].slab, 1, &start, &count);
        assert_ok(mkt_client_reserve(writer, sizeof(double), &pieces[i].data, &address, &error));
        *(double *)address = 5 + i;
    }
    assert_ok(mkt_client_add(writer, file, &arrays[0], pieces, PIECES, false, NULL, &error));
    commit_file(writer, file, arrays, ARRAYS, "image");
    file = open_file(reader, "many.h5", MKT_INTENT_READ, 0, &opened);
    check_index(reader, opened.index, opened.index_bytes, 5, PIECES);
    struct mkt_index_view view;
    assert_int_equal(mkt_index_view_open(&view, opened.index, opened.index_bytes), MKT_OK);
    assert_int_equal(view.arrays, ARRAYS);
    mkt_client_close(reader, file);
    mkt_client_destroy(reader);
    mkt_client_destroy(writer);
    free(arrays);
    free(pieces);
}

/* ---- names ---- */

static void test_client_create_leaves_stub_that_names_object(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_opened opened;
    struct stat info;
    struct mkt_stub_disk stub;
    mode_t before = umask(027);
    write_file(client, "stub.h5", 4, 0, "i");
    umask(before);
    assert_int_equal(stat("stub.h5", &info), 0);
    assert_int_equal(info.st_size, MKT_STUB_BYTES);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(mkt_path_kind("stub.h5"), MKT_PATH_STUB);
    int fd = open("stub.h5", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, &stub, sizeof(stub)), MKT_STUB_BYTES);
    close(fd);
    open_file(client, "stub.h5", MKT_INTENT_READ, 0, &opened);
    assert_memory_equal(stub.object, opened.object, MKT_ID_BYTES);
    mkt_client_destroy(client);
}

static void test_client_moved_stub_and_links_lead_to_object(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_opened opened;
    assert_int_equal(mkdir("folder", 0777), 0);
    write_file(client, "moved.h5", 30, 3, "moved");
    assert_int_equal(rename("moved.h5", "folder/new name.h5"), 0);
    assert_int_equal(symlink("folder/new name.h5", "link1"), 0);
    assert_int_equal(symlink("link1", "link2"), 0);
    open_file(client, "link2", MKT_INTENT_READ, 0, &opened);
    check_opened(client, &opened, 3, 30, "moved");
    /* A create goes through a link to where it points, as native's does. */
    assert_int_equal(symlink("folder/target.h5", "dangling"), 0);
    write_file(client, "dangling", 31, 4, "target");
    assert_int_equal(mkt_path_kind("folder/target.h5"), MKT_PATH_STUB);
    open_file(client, "folder/../folder/target.h5", MKT_INTENT_READ, 0, &opened);
    check_opened(client, &opened, 4, 31, "target");
    mkt_client_destroy(client);
}

static void test_client_copied_stub_becomes_object_of_its_own_at_create(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_opened opened;
    write_file(client, "original.h5", 10, 1, "original");
    assert_int_equal(system("cp original.h5 copy.h5"), 0);
    write_file(client, "copy.h5", 11, 2, "copy");
    open_file(client, "original.h5", MKT_INTENT_READ, 0, &opened);
    check_opened(client, &opened, 1, 10, "original");
    open_file(client, "copy.h5", MKT_INTENT_READ, 0, &opened);
    check_opened(client, &opened, 2, 11, "copy");
    mkt_client_destroy(client);
}

static void write_real_file(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("not a stub", file);
    fclose(file);
}

static void test_client_real_file_is_native(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_opened opened;
    struct mkt_error error;
    write_real_file("real.h5");
    open_file(client, "real.h5", MKT_INTENT_READ, 0, &opened);
    assert_int_equal(opened.source, MKT_SOURCE_NATIVE);
    open_file(client, "real.h5", MKT_INTENT_READ_WRITE, 0, &opened);
    assert_int_equal(opened.source, MKT_SOURCE_NATIVE);
    /* Native refuses these, each in its way. */
    open_file(client, "real.h5", MKT_INTENT_CREATE_EXCL, 0, &opened);
    assert_int_equal(opened.source, MKT_SOURCE_NATIVE);
    open_file(client, "no such folder/x.h5", MKT_INTENT_CREATE, 0, &opened);
    assert_int_equal(opened.source, MKT_SOURCE_NATIVE);
    open_file(client, ".", MKT_INTENT_CREATE, 0, &opened);
    assert_int_equal(opened.source, MKT_SOURCE_NATIVE);
    struct mkt_open request = {.path = "nothing.h5", .intent = MKT_INTENT_READ, .size = 1};
    assert_int_equal(mkt_client_open(client, &request, &opened, &error), MKT_NOT_FOUND);
    request.intent = MKT_INTENT_PROBE;
    assert_int_equal(mkt_client_open(client, &request, &opened, &error), MKT_NOT_FOUND);
    /* A create over a file leaves the file, and readers get the version. */
    write_file(client, "real.h5", 20, 9, "over");
    assert_int_equal(mkt_path_kind("real.h5"), MKT_PATH_FILE);
    open_file(client, "real.h5", MKT_INTENT_READ, 0, &opened);
    check_opened(client, &opened, 9, 20, "over");
    mkt_client_destroy(client);
}

/* Memory needs no right to write to the folder: such a file goes by its place. */
static void test_client_create_in_folder_without_write_permission_needs_no_stub(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can lose the right for a moment */
    struct mkt_client *writer = connect_client(0), *reader = connect_client(0);
    struct mkt_opened opened;
    assert_int_equal(chmod("..", 0711), 0);
    assert_int_equal(chmod(".", 0711), 0);
    assert_int_equal(mkdir("read only", 0755), 0);
    setfsuid(12345);
    uint64_t version = write_file(writer, "read only/a.h5", 33, 6, "no stub");
    setfsuid(0);
    assert_true(version == 1);
    assert_int_equal(mkt_path_kind("read only/a.h5"), MKT_PATH_NONE);
    open_file(reader, "read only/a.h5", MKT_INTENT_READ, 0, &opened);
    check_opened(reader, &opened, 6, 33, "no stub");
    mkt_client_destroy(reader);
    mkt_client_destroy(writer);
}

static void test_client_exclusive_create_fails_if_version_is_there(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_opened opened;
    struct mkt_error error;
    struct mkt_open request = {.path = "excl.h5", .intent = MKT_INTENT_CREATE_EXCL, .size = 1};
    write_file(client, "excl.h5", 4, 0, "i");
    /* Native refuses it, as it does where any file stands; nothing is withdrawn. */
    assert_int_equal(mkt_client_open(client, &request, &opened, &error), MKT_OK);
    assert_int_equal(opened.source, MKT_SOURCE_NATIVE);
    assert_int_equal(mkt_path_kind("excl.h5"), MKT_PATH_STUB);
    open_file(client, "excl.h5", MKT_INTENT_READ, 0, &opened);
    check_opened(client, &opened, 4, 0, "i");
    mkt_client_destroy(client);
}

static void test_client_withdraw_removes_versions_and_stub(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_error error;
    uint64_t versions = 0;
    write_file(client, "gone.h5", 4, 0, "i");
    assert_ok(mkt_client_withdraw(client, "gone.h5", &versions, &error));
    assert_true(versions == 1);
    assert_int_equal(mkt_path_kind("gone.h5"), MKT_PATH_NONE);
    assert_int_equal(mkt_client_withdraw(client, "gone.h5", &versions, &error), MKT_NOT_FOUND);
    mkt_client_destroy(client);
}

static void test_client_second_writer_is_refused_and_told_who(void **state)
{
    (void)state;
    struct mkt_client *first = connect_client(0), *second = connect_client(0);
    struct mkt_opened opened;
    struct mkt_error error;
    struct mkt_open request = {.path = "busy.h5", .intent = MKT_INTENT_CREATE, .size = 1};
    uint64_t file = open_file(first, "busy.h5", MKT_INTENT_CREATE, 0, &opened);
    assert_int_equal(mkt_client_open(second, &request, &opened, &error), MKT_BUSY);
    assert_non_null(strstr(error.text, "test_client"));
    /* The refused one leaves the other's stub. */
    assert_int_equal(mkt_path_kind("busy.h5"), MKT_PATH_STUB);
    mkt_client_close(first, file);
    mkt_client_destroy(second);
    mkt_client_destroy(first);
}

/* ---- waiting ---- */

struct later {
    const char *path;
    long delay_ms;
    bool real_file;
};

static void *write_later(void *context)
{
    struct later *later = context;
    pause_ms(later->delay_ms);
    if (later->real_file) {
        write_real_file(later->path);
        return NULL;
    }
    struct mkt_client *client = connect_client(0);
    write_file(client, later->path, 100, 2, "later");
    mkt_client_destroy(client);
    return NULL;
}

static double cpu_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void test_client_reader_waits_for_later_writer_without_cpu(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_opened opened;
    struct later later = {.path = "later.h5", .delay_ms = 3000};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_later, &later), 0);
    double cpu = cpu_s(), start = now_s();
    open_file(client, "later.h5", MKT_INTENT_READ, 30000, &opened);
    double waited = now_s() - start;
    cpu = cpu_s() - cpu;
    assert_int_equal(pthread_join(thread, NULL), 0);
    check_opened(client, &opened, 2, 100, "later");
    assert_true(waited > 2.5 && waited < 20);
    if (cpu > 0.1)
        fail_msg("%.3f s of CPU in a wait of %.1f s", cpu, waited);
    mkt_client_destroy(client);
}

static void test_client_real_file_that_appears_ends_wait(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_opened opened;
    struct later later = {.path = "native later.h5", .delay_ms = 500, .real_file = true};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_later, &later), 0);
    double start = now_s();
    open_file(client, later.path, MKT_INTENT_READ, 30000, &opened);
    assert_true(now_s() - start < 10);
    assert_int_equal(opened.source, MKT_SOURCE_NATIVE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    mkt_client_destroy(client);
}

static void test_client_wait_ends_at_its_time_and_says_so(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_opened opened;
    struct mkt_error error;
    struct mkt_open request = {
        .path = "never.h5", .intent = MKT_INTENT_READ, .size = 1, .wait_ms = 700};
    double start = now_s();
    assert_int_equal(mkt_client_open(client, &request, &opened, &error), MKT_TIMED_OUT);
    double waited = now_s() - start;
    assert_true(waited > 0.6 && waited < 5);
    assert_non_null(strstr(error.text, "never.h5"));
    assert_non_null(strstr(error.text, "0.7"));
    mkt_client_destroy(client);
}

static bool interrupt_third(void *context)
{
    return ++*(int *)context == 3;
}

static void test_client_interrupt_ends_wait_and_handle_stays_usable(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_opened opened;
    struct mkt_error error;
    int calls = 0;
    struct mkt_open request = {.path = "never.h5",
                               .intent = MKT_INTENT_READ,
                               .size = 1,
                               .wait_ms = 20000,
                               .interrupted = interrupt_third,
                               .context = &calls};
    double start = now_s();
    assert_int_equal(mkt_client_open(client, &request, &opened, &error), MKT_CANCELLED);
    assert_true(now_s() - start < 5);
    assert_int_equal(calls, 3);
    write_file(client, "after interrupt.h5", 4, 0, "i");
    mkt_client_destroy(client);
}

static void test_client_after_start_skips_older_version(void **state)
{
    (void)state;
    struct mkt_client *writer = connect_client(0);
    struct mkt_opened opened;
    struct mkt_error error;
    write_file(writer, "older.h5", 4, 0, "old");
    pause_ms(50);
    struct mkt_client *reader = connect_client(0);
    struct mkt_open request = {
        .path = "older.h5", .intent = MKT_INTENT_READ, .size = 1, .after_start = true};
    assert_int_equal(mkt_client_open(reader, &request, &opened, &error), MKT_NOT_FOUND);
    write_file(writer, "older.h5", 5, 0, "new");
    assert_ok(mkt_client_open(reader, &request, &opened, &error));
    check_opened(reader, &opened, 0, 5, "new");
    mkt_client_destroy(reader);
    mkt_client_destroy(writer);
}

/* ---- groups ---- */

struct rank {
    uint32_t rank;
    const char *path;
    pthread_barrier_t *barrier;
    uint64_t version;
};

static void *run_rank(void *context)
{
    struct rank *rank = context;
    struct mkt_client *client = connect_client(0);
    struct mkt_error error;
    struct mkt_opened opened;
    struct mkt_array array = make_array(1, 200);
    struct mkt_open request = {.path = rank->rank == 0 ? rank->path : NULL,
                               .intent = MKT_INTENT_CREATE,
                               .token = "one group",
                               .rank = rank->rank,
                               .size = 2};
    assert_ok(mkt_client_open(client, &request, &opened, &error));
    struct mkt_piece piece = {.form = MKT_PIECE_BOX};
    uint64_t start = 100 * rank->rank, count = 100, stamp = 0;
    void *address;
    assert_ok(mkt_client_reserve(client, count * sizeof(double), &piece.data, &address, &error));
    for (uint64_t i = 0; i < count; i++)
        ((double *)address)[i] = (double)(start + i);
    mkt_slab_box(&piece.slab, 1, &start, &count);
    assert_ok(mkt_client_add(client, opened.file, &array, &piece, 1, true, &stamp, &error));
    assert_true(stamp != 0);
    pthread_barrier_wait(rank->barrier);
    /* Each sees the other's piece before anything is published, and nobody wrote over its own. */
    struct mkt_extent extent;
    const void *index;
    bool superseded = true;
    assert_ok(mkt_client_lookup(client, opened.file, 1, &extent, &index, &error));
    check_index(client, index, extent.length, 0, 200);
    mkt_client_unreserve(client, &extent);
    assert_ok(mkt_client_touch(client, opened.file, 1, stamp, &superseded, &error));
    assert_false(superseded);
    struct mkt_commit commit = {.file = opened.file, .hash = 99};
    if (rank->rank == 0) {
        commit.image = "group";
        commit.image_bytes = 6;
        commit.arrays = &array;
        commit.arrays_count = 1;
    }
    assert_ok(mkt_client_commit(client, &commit, &rank->version, &error));
    mkt_client_destroy(client);
    return NULL;
}

static void test_client_group_of_two_publishes_one_version(void **state)
{
    (void)state;
    pthread_barrier_t barrier;
    pthread_t thread;
    struct mkt_opened opened;
    pthread_barrier_init(&barrier, NULL, 2);
    struct rank ranks[2] = {{.rank = 0, .path = "group.h5", .barrier = &barrier},
                            {.rank = 1, .barrier = &barrier}};
    assert_int_equal(pthread_create(&thread, NULL, run_rank, &ranks[1]), 0);
    run_rank(&ranks[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&barrier);
    assert_true(ranks[0].version == 1 && ranks[1].version == 1);
    struct mkt_client *reader = connect_client(0);
    open_file(reader, "group.h5", MKT_INTENT_READ, 0, &opened);
    check_opened(reader, &opened, 0, 200, "group");
    mkt_client_destroy(reader);
}

static void test_client_failed_rank_poisons_version(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_opened opened;
    struct mkt_error error;
    uint64_t version = 0;
    write_file(client, "poison.h5", 4, 0, "good");
    uint64_t file = open_file(client, "poison.h5", MKT_INTENT_CREATE, 0, &opened);
    struct mkt_commit commit = {.file = file, .failure = "the disk of the application is full"};
    assert_int_not_equal(mkt_client_commit(client, &commit, &version, &error), MKT_OK);
    assert_non_null(strstr(error.text, "disk of the application"));
    open_file(client, "poison.h5", MKT_INTENT_READ, 0, &opened);
    check_opened(client, &opened, 0, 4, "good");
    mkt_client_destroy(client);
}

/* ---- handles ---- */

static void test_client_forked_child_cannot_use_handle(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_opened opened;
    uint64_t file = open_file(client, "forked.h5", MKT_INTENT_CREATE, 0, &opened);
    pid_t child = fork();
    if (child == 0) {
        struct mkt_open request = {.path = "forked.h5", .intent = MKT_INTENT_READ, .size = 1};
        struct mkt_error error;
        bool refused = mkt_client_open(client, &request, &opened, &error) == MKT_INVALID;
        mkt_client_close(client, file);
        mkt_client_destroy(client);
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct mkt_array array = make_array(1, 8);
    add_array(client, file, &array, 1);
    assert_true(commit_file(client, file, &array, 1, "parent") == 1);
    mkt_client_destroy(client);
}

static void test_client_unused_grants_go_back(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_error error;
    char *before, *after;
    struct mkt_extent extents[8];
    void *address;
    write_file(client, "grants.h5", 4, 0, "i");
    assert_ok(mkt_client_query(client, MKT_QUERY_STATUS, NULL, &before, &error));
    assert_int_equal(before[0], '{');
    for (int i = 0; i < 8; i++)
        assert_ok(mkt_client_reserve(client, 1 << 20, &extents[i], &address, &error));
    for (int i = 0; i < 8; i++)
        mkt_client_unreserve(client, &extents[i]);
    assert_ok(mkt_client_query(client, MKT_QUERY_STATUS, NULL, &after, &error));
    const char *a = strstr(before, "granted"), *b = strstr(after, "granted");
    assert_true(a != NULL && b != NULL);
    assert_int_equal(strcspn(a, ",}"), strcspn(b, ",}"));
    assert_memory_equal(a, b, strcspn(a, ",}"));
    free(before);
    free(after);
    mkt_client_destroy(client);
}

static int prepare(void **state)
{
    (void)state;
    const char *build = getenv("MKT_BUILD_DIR");
    if (build == NULL || getenv("H5MARKET_DIR") == NULL) {
        fprintf(stderr, "MKT_BUILD_DIR and H5MARKET_DIR must be set\n");
        return -1;
    }
    snprintf(daemon_path, sizeof(daemon_path), "%s/bin/h5marketd", build);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(0);
    struct mkt_error error;
    enum mkt_status refused = mkt_client_stop(client, false, &error);
    enum mkt_status status = mkt_client_stop(client, true, &error);
    if (status != MKT_OK)
        fprintf(stderr, "%s\n", error.text);
    mkt_client_destroy(client);
    return refused == MKT_BUSY && status == MKT_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_reader_gets_what_writer_published),
        cmocka_unit_test(test_client_new_version_replaces_and_old_reader_keeps_its_own),
        cmocka_unit_test(test_client_small_file_takes_three_round_trips),
        cmocka_unit_test(test_client_reads_what_it_wrote_where_it_wrote_it),
        cmocka_unit_test(test_client_many_arrays_and_pieces_cross_several_messages),
        cmocka_unit_test(test_client_create_leaves_stub_that_names_object),
        cmocka_unit_test(test_client_moved_stub_and_links_lead_to_object),
        cmocka_unit_test(test_client_copied_stub_becomes_object_of_its_own_at_create),
        cmocka_unit_test(test_client_real_file_is_native),
        cmocka_unit_test(test_client_create_in_folder_without_write_permission_needs_no_stub),
        cmocka_unit_test(test_client_exclusive_create_fails_if_version_is_there),
        cmocka_unit_test(test_client_withdraw_removes_versions_and_stub),
        cmocka_unit_test(test_client_second_writer_is_refused_and_told_who),
        cmocka_unit_test(test_client_reader_waits_for_later_writer_without_cpu),
        cmocka_unit_test(test_client_real_file_that_appears_ends_wait),
        cmocka_unit_test(test_client_wait_ends_at_its_time_and_says_so),
        cmocka_unit_test(test_client_interrupt_ends_wait_and_handle_stays_usable),
        cmocka_unit_test(test_client_after_start_skips_older_version),
        cmocka_unit_test(test_client_group_of_two_publishes_one_version),
        cmocka_unit_test(test_client_failed_rank_poisons_version),
        cmocka_unit_test(test_client_forked_child_cannot_use_handle),
        cmocka_unit_test(test_client_unused_grants_go_back),
    };
    return cmocka_run_group_tests(tests, prepare, finish);
}
