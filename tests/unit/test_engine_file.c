/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine of files where the kernel does less than it was asked for: short moves, interruptions,
 * no room, no io_uring. The linker sends the calls here (--wrap). And how much it reads.
 */
#include "tests/unit/ssd_folder.h"
#include "transport/engine_file.h"

#include <errno.h>
#include <liburing.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BLOCK  4096u
#define BLOCKS 700u
#define BYTES  (BLOCKS * BLOCK - 1000u) /* the last block isn't full */
#define POISON 0xd7

static struct {
    uint64_t random;
    int trouble;   /* of ten calls so many are interrupted, find no room or fall short */
    int result;    /* below 0: what every plain call answers */
    bool at_end;   /* plain reads find the file's end */
    bool no_enter; /* the ring takes nothing */
    int no_ring;   /* an errno value: there is no ring */
    uint64_t plain_bytes, plain_calls, ring_results;
} kernel;

ssize_t __real_pread(int fd, void *bytes, size_t count, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t count, off_t offset);
ssize_t __real_pwrite(int fd, const void *bytes, size_t count, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t offset);
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __real_io_uring_wait_cqe_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                                     struct __kernel_timespec *wait);
int __wrap_io_uring_wait_cqe_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                                     struct __kernel_timespec *wait);
int __real_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);

static bool is_trouble(void)
{
    return (int)random_in(&kernel.random, 0, 9) < kernel.trouble;
}

/* What a call answers instead of moving `count` bytes. */
static int64_t spoil(int64_t count)
{
    switch (random_in(&kernel.random, 0, 2)) {
    case 0:
        return -EINTR;
    case 1:
        return -EAGAIN;
    default:
        return count > (int64_t)BLOCK ? (int64_t)random_in(&kernel.random, BLOCK, (uint64_t)count)
                                      : count;
    }
}

/* True: `*count` is what to move, otherwise what to answer. */
static bool ask_plain(int64_t *count)
{
    kernel.plain_calls++;
    if (kernel.result < 0) {
        *count = kernel.result;
        return false;
    }
    int64_t moved = is_trouble() ? spoil(*count) : *count;
    *count = moved;
    return moved > 0;
}

static ssize_t answer(int64_t result)
{
    if (result >= 0)
        return (ssize_t)result;
    errno = (int)-result;
    return -1;
}

ssize_t __wrap_pread(int fd, void *bytes, size_t count, off_t offset)
{
    int64_t moved = (int64_t)count;

    if (kernel.at_end)
        return 0;
    if (!ask_plain(&moved))
        return answer(moved);
    kernel.plain_bytes += (uint64_t)moved;
    return __real_pread(fd, bytes, (size_t)moved, offset);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    int64_t moved = (int64_t)count;

    return ask_plain(&moved) ? __real_pwrite(fd, bytes, (size_t)moved, offset) : answer(moved);
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
    if (kernel.no_enter)
        return -ENOMEM;
    if (is_trouble())
        return random_in(&kernel.random, 0, 1) == 0 ? -EAGAIN : -EBUSY;
    return __real_io_uring_submit(ring);
}

int __wrap_io_uring_wait_cqe_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                                     struct __kernel_timespec *wait)
{
    if (is_trouble())
        return random_in(&kernel.random, 0, 1) == 0 ? -EINTR : -EAGAIN;
    int result = __real_io_uring_wait_cqe_timeout(ring, cqe, wait);
    if (result == 0 && *cqe != NULL && (*cqe)->res > 0 && is_trouble())
        (*cqe)->res = (int)spoil((*cqe)->res);
    kernel.ring_results += result == 0;
    return result;
}

int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
    return kernel.no_ring != 0 ? -kernel.no_ring : __real_io_uring_queue_init(entries, ring, flags);
}

/* ---- helpers ---- */

static char folder[256];
static uint8_t *source, *target;
static uint32_t crcs[BLOCKS];

static struct mkt_file open_file(bool direct)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/file", folder);
    int fd = open(path, O_RDWR | O_CREAT | (direct ? O_DIRECT : 0), 0600);
    struct mkt_file file = {fd, direct, direct ? BLOCK : 1, "file"};
    return file;
}

static struct mkt_file_engine *make_engine(bool without_uring)
{
    struct mkt_file_engine_options options = {.queue_depth = 4, .without_uring = without_uring};
    struct mkt_file_engine *engine = NULL;

    assert_int_equal(mkt_file_engine_create(&options, &engine, NULL), MKT_OK);
    return engine;
}

static enum mkt_status read_all(struct mkt_file_engine *engine, const struct mkt_file *file,
                                struct mkt_error *error)
{
    struct mkt_file_source from = {file, BLOCK, crcs};
    struct mkt_file_range all = {0, BYTES};

    memset(target, POISON, BYTES + BLOCK);
    return mkt_file_read(engine, &from, &all, 1, target, error);
}

/* What is left of the last block holds nothing of what the buffer held before. */
static void check_filling(void)
{
    static const uint8_t zeros[BLOCKS * BLOCK - BYTES];
    uint8_t filling[sizeof(zeros)];
    char path[300];

    snprintf(path, sizeof(path), "%s/file", folder);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(__real_pread(fd, filling, sizeof(filling), BLOCK + BYTES), sizeof(filling));
    assert_memory_equal(filling, zeros, sizeof(filling));
    close(fd);
}

static void write_and_read(struct mkt_file_engine *engine, const struct mkt_file *file)
{
    struct mkt_error error = {0};

    for (uint64_t seed = 1; seed < 6; seed++) {
        uint64_t shift = seed % 2 * 64;
        fill_pattern(source + shift, BYTES, seed);
        if (mkt_file_write(engine, file, BLOCK, source + shift, BYTES, crcs, &error) != MKT_OK)
            fail_msg("%s", error.text);
        if (read_all(engine, file, &error) != MKT_OK)
            fail_msg("%s", error.text);
        assert_true(is_pattern(target, 0, BYTES, seed));
        check_filling();
        for (unsigned i = 0; i < BLOCK; i++)
            assert_int_equal(target[BYTES + i], POISON);
    }
}

static int set_up(void **state)
{
    (void)state;
    memset(&kernel, 0, sizeof(kernel));
    make_test_folder(NULL, folder);
    return 0;
}

static int tear_down(void **state)
{
    char path[300];

    (void)state;
    snprintf(path, sizeof(path), "%s/file", folder);
    unlink(path);
    return rmdir(folder);
}

/* ---- tests ---- */

static void test_engine_file_plain_calls_in_trouble_move_all(void **state)
{
    struct mkt_file_engine *engine = make_engine(true);
    struct mkt_file file = open_file(false);

    (void)state;
    kernel.trouble = 5;
    write_and_read(engine, &file);
    assert_true(kernel.plain_calls > 50 && kernel.ring_results == 0);
    close(file.fd);
    mkt_file_engine_destroy(engine);
}

static void test_engine_file_ring_in_trouble_moves_all(void **state)
{
    struct mkt_file_engine *engine = make_engine(false);
    struct mkt_file file = open_file(true);

    (void)state;
    if (file.fd < 0 || mkt_file_engine_why_no_uring(engine) != NULL) {
        printf("SKIPPED: no O_DIRECT or no io_uring here\n");
        mkt_file_engine_destroy(engine);
        skip();
    }
    kernel.trouble = 3;
    write_and_read(engine, &file);
    assert_true(kernel.ring_results > 50 && kernel.plain_calls == 0);
    kernel.trouble = 0;
    kernel.no_enter = true; /* it goes on with plain calls, also within a call */
    write_and_read(engine, &file);
    assert_true(kernel.plain_calls > 0);
    kernel.no_enter = false;
    uint64_t before = kernel.ring_results;
    write_and_read(engine, &file);
    assert_true(kernel.ring_results > before);
    close(file.fd);
    mkt_file_engine_destroy(engine);
}

static void test_engine_file_without_a_ring_says_why_and_works(void **state)
{
    static const int reasons[] = {EPERM, ENOSYS, ENOMEM};

    (void)state;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        kernel.no_ring = reasons[i];
        struct mkt_file_engine *engine = make_engine(false);
        struct mkt_file file = open_file(false);
        assert_non_null(strstr(mkt_file_engine_why_no_uring(engine), strerror(reasons[i])));
        write_and_read(engine, &file);
        close(file.fd);
        mkt_file_engine_destroy(engine);
    }
}

static void test_engine_file_failures_are_told_apart(void **state)
{
    static const struct {
        int result;
        enum mkt_status status;
    } cases[] = {{-EIO, MKT_IO_ERROR},
                 {-ENOSPC, MKT_NO_SPACE},
                 {-EDQUOT, MKT_NO_SPACE},
                 {-ENOMEM, MKT_NO_MEMORY},
                 {-EBADF, MKT_IO_ERROR}};
    struct mkt_file_engine *engine = make_engine(true);
    struct mkt_file file = open_file(false);

    (void)state;
    write_and_read(engine, &file);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mkt_error error = {0};
        kernel.result = cases[i].result;
        assert_int_equal(mkt_file_write(engine, &file, BLOCK, source, BYTES, NULL, &error),
                         cases[i].status);
        assert_non_null(strstr(error.text, "write file"));
        assert_int_equal(read_all(engine, &file, &error), cases[i].status);
        assert_non_null(strstr(error.text, strerror(-cases[i].result)));
    }
    kernel.result = 0;
    kernel.at_end = true;
    assert_int_equal(read_all(engine, &file, NULL), MKT_CORRUPT);
    kernel.at_end = false;
    write_and_read(engine, &file); /* nothing stayed behind */
    close(file.fd);
    mkt_file_engine_destroy(engine);
}

static void test_engine_file_wrong_checksum_is_corrupt(void **state)
{
    struct mkt_file_engine *engine = make_engine(true);
    struct mkt_file file = open_file(false);
    struct mkt_file_source from = {&file, BLOCK, crcs};
    struct mkt_file_range first = {0, BLOCK}, second = {BLOCK, 1};

    (void)state;
    write_and_read(engine, &file);
    crcs[1] ^= 1;
    assert_int_equal(mkt_file_read(engine, &from, &first, 1, target, NULL), MKT_OK);
    assert_int_equal(mkt_file_read(engine, &from, &second, 1, target, NULL), MKT_CORRUPT);
    from.crcs = NULL;
    assert_int_equal(mkt_file_read(engine, &from, &second, 1, target, NULL), MKT_OK);
    close(file.fd);
    mkt_file_engine_destroy(engine);
}

static void test_engine_file_reads_what_it_needs(void **state)
{
    struct mkt_file_engine *engine = make_engine(true);
    struct mkt_file file = open_file(false);
    struct mkt_file_source from = {&file, BLOCK, crcs};
    struct mkt_file_range far[20], near[20];

    (void)state;
    write_and_read(engine, &file);
    for (uint64_t i = 0; i < 20; i++) {
        far[i] = (struct mkt_file_range){i * 30 * BLOCK + 100, 1000};
        near[i] = (struct mkt_file_range){i * 3 * BLOCK + 100, 1000};
    }
    kernel.plain_bytes = kernel.plain_calls = 0;
    assert_int_equal(mkt_file_read(engine, &from, far, 20, target, NULL), MKT_OK);
    assert_int_equal(kernel.plain_bytes, 20 * BLOCK); /* a block each */
    assert_int_equal(kernel.plain_calls, 20);
    kernel.plain_bytes = kernel.plain_calls = 0;
    assert_int_equal(mkt_file_read(engine, &from, near, 20, target, NULL), MKT_OK);
    assert_int_equal(kernel.plain_calls, 1); /* the gaps are read, too */
    assert_int_equal(kernel.plain_bytes, (19 * 3 + 1) * BLOCK);
    close(file.fd);
    mkt_file_engine_destroy(engine);
}

static void test_engine_file_bounds_are_refused(void **state)
{
    struct mkt_file_engine_options deep = {.queue_depth = MKT_FILE_DEPTH_MAX + 1},
                                   many = {.queues = MKT_FILE_QUEUES_MAX + 1};
    struct mkt_file_engine *engine = NULL;

    (void)state;
    assert_int_equal(mkt_file_engine_create(&deep, &engine, NULL), MKT_INVALID);
    assert_int_equal(mkt_file_engine_create(&many, &engine, NULL), MKT_INVALID);
    assert_null(engine);
    mkt_file_engine_destroy(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_engine_file_plain_calls_in_trouble_move_all),
        TEST(test_engine_file_ring_in_trouble_moves_all),
        TEST(test_engine_file_without_a_ring_says_why_and_works),
        TEST(test_engine_file_failures_are_told_apart),
        TEST(test_engine_file_wrong_checksum_is_corrupt),
        TEST(test_engine_file_reads_what_it_needs),
        TEST(test_engine_file_bounds_are_refused),
    };

    source = aligned_alloc(BLOCK, BYTES + 1000 + BLOCK);
    target = aligned_alloc(BLOCK, BYTES + 1000 + BLOCK);
    if (source == NULL || target == NULL)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(source);
    free(target);
    return failed;
}
