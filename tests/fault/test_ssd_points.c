/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The SSD medium dies at each of its fault points, one after the other, and is opened anew: what
 * was written is there and right, what was torn is gone. A first run without a fault tells which
 * points there are. The program that dies is this one, with an argument.
 */
#include "media/ssd.h"
#include "tests/unit/ssd_folder.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

#define KIB        ((uint64_t)1 << 10)
#define MIB        ((uint64_t)1 << 20)
#define STEPS      14
#define BYTES_MAX  (2 * MIB)
#define POINTS_MAX 600

extern char **environ;

static char folder[256], notes[300], trace[300];
static uint8_t *buffer;

/* What the dying program says of a record, before and after each step. */
enum note_kind {
    NOTE_RESERVED,
    NOTE_WRITTEN,
    NOTE_REFUSED, /* the write failed */
    NOTE_FREED
};

struct note {
    struct mkt_ssd_record record;
    uint64_t seed;
    enum note_kind kind;
};

static enum mkt_status open_medium(const char *path, bool without_direct, struct mkt_ssd **ssd_out)
{
    const char *const folders[] = {path};
    struct mkt_ssd_options options = {
        .folders = folders,
        .folders_count = 1,
        .name = TEST_NAME,
        .limit_bytes = 8 * MIB,
        .segment_bytes = 512 * KIB,
        .queue_depth = 4,
        .without_direct = without_direct,
    };

    return mkt_ssd_open(&options, ssd_out, NULL);
}

/* ---- the program that dies ---- */

static void write_note(int fd, const struct mkt_ssd_record *record, uint64_t seed,
                       enum note_kind kind)
{
    struct note note = {*record, seed, kind};

    if (write(fd, &note, sizeof(note)) != sizeof(note))
        _exit(3);
}

/* Writes records, frees most so that files are used again and removed, and closes. */
static int live(const char *path, const char *notes_path, bool without_direct)
{
    static const uint64_t sizes[STEPS] = {1,      5000, 200000, 262144, 100,   900000, 300000,
                                          400000, 4096, 450000, 10,     70000, 450000, 1200000};
    struct mkt_ssd_record records[STEPS];
    struct mkt_ssd *ssd;
    int fd = open(notes_path, O_WRONLY | O_CREAT | O_APPEND, 0600);

    if (fd < 0 || open_medium(path, without_direct, &ssd) != MKT_OK)
        return 2;
    for (unsigned i = 0; i < STEPS; i++) {
        if (mkt_ssd_reserve(ssd, sizes[i], &records[i]) != MKT_OK)
            return 4;
        write_note(fd, &records[i], i, NOTE_RESERVED);
        fill_pattern(buffer, sizes[i], i);
        enum mkt_status status = mkt_ssd_write(ssd, &records[i], buffer, NULL);
        write_note(fd, &records[i], i, status == MKT_OK ? NOTE_WRITTEN : NOTE_REFUSED);
        if (status == MKT_OK && i % 3 != 0) {
            mkt_ssd_free(ssd, &records[i]);
            write_note(fd, &records[i], i, NOTE_FREED);
        }
    }
    mkt_ssd_close(ssd);
    return 0;
}

/* Runs this program with a fault; returns waitpid's status. */
static int run_program(char *const arguments[], const char *fault)
{
    pid_t child;
    int status;

    setenv("H5MARKET_FAULT", fault, 1);
    int result = posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ);
    unsetenv("H5MARKET_FAULT");
    assert_int_equal(result, 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int run(const char *fault, bool without_direct)
{
    char *arguments[] = {
        "test_ssd_points", "live", folder, notes, without_direct ? "cached" : NULL, NULL};

    return run_program(arguments, fault);
}

/* Opens and closes it. */
static int open_once(const char *path)
{
    struct mkt_ssd *ssd = NULL;

    if (open_medium(path, false, &ssd) != MKT_OK)
        return 2;
    mkt_ssd_close(ssd);
    return 0;
}

/* ---- what must hold after it ---- */

struct expected {
    struct note notes[4 * STEPS];
    unsigned count, listed;
};

static void read_notes(struct expected *expected)
{
    int fd = open(notes, O_RDONLY);
    ssize_t bytes = fd >= 0 ? read(fd, expected->notes, sizeof(expected->notes)) : 0;

    if (fd >= 0)
        close(fd);
    expected->count = bytes > 0 ? (unsigned)((size_t)bytes / sizeof(struct note)) : 0;
    expected->listed = 0;
}

static const struct note *last_note(const struct expected *expected,
                                    const struct mkt_ssd_record *record)
{
    const struct note *found = NULL;

    for (unsigned i = 0; i < expected->count; i++)
        if (memcmp(&expected->notes[i].record, record, sizeof(*record)) == 0)
            found = &expected->notes[i];
    return found;
}

static struct mkt_ssd *reopened;

static void check_right(const struct mkt_ssd_record *record, uint64_t seed)
{
    struct mkt_file_range all = {0, record->bytes};

    memset(buffer, 0xd7, record->bytes);
    assert_int_equal(mkt_ssd_read(reopened, record, &all, 1, buffer, NULL), MKT_OK);
    assert_true(is_pattern(buffer, 0, record->bytes, seed));
}

/* Everything that shows up was reserved, and is whole. */
static void check_listed(void *context, const struct mkt_ssd_record *record)
{
    struct expected *expected = context;
    const struct note *note = last_note(expected, record);

    expected->listed++;
    assert_non_null(note);
    check_right(record, note->seed);
}

static void check_after(void)
{
    static struct expected expected;
    struct mkt_ssd_usage usage;

    read_notes(&expected);
    assert_int_equal(open_medium(folder, false, &reopened), MKT_OK);
    assert_int_equal(mkt_ssd_each(reopened, check_listed, &expected), MKT_OK);
    for (unsigned i = 0; i < expected.count; i++) {
        const struct note *note = last_note(&expected, &expected.notes[i].record);
        if (note != &expected.notes[i])
            continue;
        if (note->kind == NOTE_WRITTEN) {
            assert_true(mkt_ssd_is_known(reopened, &note->record));
            check_right(&note->record, note->seed);
        }
        mkt_ssd_free(reopened, &expected.notes[i].record);
    }
    mkt_ssd_usage(reopened, &usage);
    assert_int_equal(usage.records, 0);
    assert_int_equal(usage.live_bytes, 0);
    mkt_ssd_destroy(reopened);
    assert_int_equal(access(folder, F_OK), 0);
    char names[4][32];
    assert_int_equal(list_segments(folder, names, 4), 0);
    unlink(notes);
}

static int set_up(void **state)
{
    (void)state;
    make_test_folder(NULL, folder);
    snprintf(notes, sizeof(notes), "%s.notes", folder);
    snprintf(trace, sizeof(trace), "%s.trace", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(notes);
    unlink(trace);
    remove_test_folder(folder);
    return access(folder, F_OK) == 0;
}

/* The points that a run passes, as NAME:COUNT; returns how many. */
static unsigned find_points(bool without_direct, char points[][64])
{
    unsigned count = 0;
    char line[96];

    setenv("H5MARKET_FAULT_TRACE", trace, 1);
    int status = run("", without_direct);
    unsetenv("H5MARKET_FAULT_TRACE");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_after();
    FILE *file = fopen(trace, "r");
    assert_non_null(file);
    while (count < POINTS_MAX && fgets(line, sizeof(line), file) != NULL) {
        char name[64];
        unsigned long pass;
        assert_int_equal(sscanf(line, "%40s %lu", name, &pass), 2);
        snprintf(points[count++], 64, "%.40s:kill:%lu", name, pass);
    }
    fclose(file);
    unlink(trace);
    return count;
}

static bool has_point(char points[][64], unsigned count, const char *name)
{
    for (unsigned i = 0; i < count; i++)
        if (strncmp(points[i], name, strlen(name)) == 0 && points[i][strlen(name)] == ':')
            return true;
    return false;
}

static void die_everywhere(bool without_direct)
{
    static const char *const wanted[] = {
        "ssd.made",          "ssd.allocated",  "ssd.segment-headed", "ssd.before-data",
        "ssd.before-header", "ssd.written",    "ssd.renamed",        "ssd.before-removal",
        "ssd.removed",       "file.submitted", "ssd.before-epoch",   "ssd.epoch-written",
        "ssd.before-punch",  "ssd.punched"};
    static char points[POINTS_MAX][64];
    unsigned count = find_points(without_direct, points);

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (!has_point(points, count, wanted[i]))
            fail_msg("%s was never passed", wanted[i]);
    for (unsigned i = 0; i < count; i++) {
        int status = run(points[i], without_direct);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            fail_msg("%s killed nothing", points[i]);
        check_after();
    }
}

static void test_ssd_killed_at_each_point_keeps_what_was_written(void **state)
{
    (void)state;
    die_everywhere(false);
}

static void test_ssd_killed_with_page_cache_keeps_what_was_written(void **state)
{
    (void)state;
    die_everywhere(true);
}

/* Killed while it is opened after a death: nothing more is lost. */
static void test_ssd_killed_in_recovery_loses_nothing(void **state)
{
    static const char *const points[] = {"ssd.before-cut:kill:1", "ssd.cut:kill:1",
                                         "ssd.before-epoch:kill:1", "ssd.epoch-written:kill:1",
                                         "ssd.cut:kill:2"};

    (void)state;
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        int status = run("ssd.before-data:kill:11", false);
        assert_true(WIFSIGNALED(status));
        status = run(points[i], false);
        if (!WIFSIGNALED(status))
            fail_msg("%s killed nothing", points[i]);
        check_after();
    }
}

/* A device that fails: the write is refused, its space is free, the rest goes on. No room for a
 * segment is none for one as long: a shorter one is made. */
static void test_ssd_failed_write_frees_its_space(void **state)
{
    static const struct {
        const char *fault;
        unsigned refused;
    } cases[] = {{"file.written:error=IO_ERROR:1", 1},
                 {"file.written:error=IO_ERROR:5", 1},
                 {"file.written:error=NO_SPACE:12", 1},
                 {"ssd.allocated:error=NO_SPACE:1", 0},
                 {"ssd.allocated:error=NO_SPACE:3", 0}};
    static struct expected expected;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status = run(cases[i].fault, false);
        unsigned refused = 0, written = 0;
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        read_notes(&expected);
        for (unsigned j = 0; j < expected.count; j++) {
            refused += expected.notes[j].kind == NOTE_REFUSED;
            written += expected.notes[j].kind == NOTE_WRITTEN;
        }
        assert_int_equal(refused, cases[i].refused);
        assert_int_equal(written, STEPS - cases[i].refused);
        check_after();
    }
}

/* In a program of its own, since it reads a fault. */
static int read_with_error(const char *path)
{
    struct mkt_ssd_record record, other;
    struct mkt_file_range all = {0, 100000};
    struct mkt_error error = {0};
    struct mkt_ssd *ssd;

    if (open_medium(path, false, &ssd) != MKT_OK)
        return 2;
    fill_pattern(buffer, 100000, 1);
    if (mkt_ssd_reserve(ssd, 100000, &record) != MKT_OK ||
        mkt_ssd_reserve(ssd, 100000, &other) != MKT_OK ||
        mkt_ssd_write(ssd, &record, buffer, NULL) != MKT_OK ||
        mkt_ssd_write(ssd, &other, buffer, NULL) != MKT_OK)
        return 3;
    for (int i = 0; i < 2; i++)
        if (mkt_ssd_read(ssd, &record, &all, 1, buffer, &error) != MKT_IO_ERROR)
            return 4;
    if (mkt_ssd_is_known(ssd, &record) ||
        mkt_ssd_read(ssd, &other, &all, 1, buffer, NULL) != MKT_OK)
        return 5;
    if (!is_pattern(buffer, 0, 100000, 1) || mkt_ssd_free(ssd, &record) != MKT_OK)
        return 6;
    mkt_ssd_destroy(ssd);
    return 0;
}

static void test_ssd_failed_read_retires_its_record(void **state)
{
    char *arguments[] = {"test_ssd_points", "read", folder, NULL};

    (void)state;
    int status = run_program(arguments, "file.read:error=IO_ERROR:1");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A device that can't be read for a while: nothing is cut off or removed. */
static void test_ssd_unreadable_at_open_loses_nothing(void **state)
{
    char *arguments[] = {"test_ssd_points", "open", folder, NULL}, fault[64];

    (void)state;
    for (int pass = 1; pass < 9; pass++) {
        /* The fifth write comes after a record that is its segment's last. */
        int status =
            run(pass % 2 == 0 ? "ssd.before-data:kill:5" : "ssd.before-data:kill:12", false);
        assert_true(WIFSIGNALED(status));
        snprintf(fault, sizeof(fault), "ssd.scanned:error=IO_ERROR:%d", pass);
        status = run_program(arguments, fault);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        check_after();
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ssd_killed_at_each_point_keeps_what_was_written),
        TEST(test_ssd_killed_with_page_cache_keeps_what_was_written),
        TEST(test_ssd_killed_in_recovery_loses_nothing),
        TEST(test_ssd_failed_write_frees_its_space),
        TEST(test_ssd_failed_read_retires_its_record),
        TEST(test_ssd_unreadable_at_open_loses_nothing),
    };

    buffer = aligned_alloc(4096, BYTES_MAX);
    if (buffer == NULL)
        return 1;
    if (count >= 4 && strcmp(arguments[1], "live") == 0)
        return live(arguments[2], arguments[3], count > 4);
    if (count == 3 && strcmp(arguments[1], "read") == 0)
        return read_with_error(arguments[2]);
    if (count == 3 && strcmp(arguments[1], "open") == 0)
        return open_once(arguments[2]);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(buffer);
    return failed;
}
