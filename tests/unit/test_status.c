/* SPDX-License-Identifier: BSD-3-Clause */
/* The status table, errors, and the log that tells people about them. */
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/status.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_status_names_and_texts_are_the_tables(void **state)
{
    (void)state;
    assert_string_equal(mkt_status_name(MKT_OK), "OK");
    assert_string_equal(mkt_status_name(MKT_POISONED), "POISONED");
    assert_string_equal(mkt_status_text(MKT_NO_SPACE), "no space left in the market");
    assert_string_equal(mkt_status_name(MKT_STATUS_COUNT), "UNKNOWN");
    assert_string_equal(mkt_status_name((enum mkt_status) - 1), "UNKNOWN");
    assert_non_null(mkt_status_text((enum mkt_status)12345));
}

/* The numbers are wire format. */
static void test_status_numbers_are_fixed(void **state)
{
    (void)state;
    assert_int_equal(MKT_OK, 0);
    assert_int_equal(MKT_NOT_FOUND, 1);
    assert_int_equal(MKT_STALE, 6);
    assert_int_equal(MKT_INVALID, 13);
    assert_int_equal(MKT_POISONED, 16);
}

static void test_status_from_errno_keeps_the_difference(void **state)
{
    (void)state;
    assert_int_equal(mkt_status_from_errno(0), MKT_OK);
    assert_int_equal(mkt_status_from_errno(ENOENT), MKT_NOT_FOUND);
    assert_int_equal(mkt_status_from_errno(ENOMEM), MKT_NO_MEMORY);
    assert_int_equal(mkt_status_from_errno(ENOSPC), MKT_NO_SPACE);
    assert_int_equal(mkt_status_from_errno(ECONNRESET), MKT_PEER_DOWN);
    assert_int_equal(mkt_status_from_errno(EACCES), MKT_DENIED);
    assert_int_equal(mkt_status_from_errno(ETIMEDOUT), MKT_TIMED_OUT);
    assert_int_equal(mkt_status_from_errno(99999), MKT_IO_ERROR);
}

static void test_error_set_fills_and_returns(void **state)
{
    struct mkt_error error = {MKT_OK, ""};
    char longer[2 * MKT_ERROR_TEXT_BYTES];

    (void)state;
    assert_int_equal(mkt_error_set(&error, MKT_BUSY, "%s is held by %d", "a.h5", 7), MKT_BUSY);
    assert_int_equal(error.status, MKT_BUSY);
    assert_string_equal(error.text, "a.h5 is held by 7");
    assert_int_equal(mkt_error_set(NULL, MKT_STALE, "unheard"), MKT_STALE);
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    mkt_error_set(&error, MKT_INVALID, "%s", longer);
    assert_int_equal(strlen(error.text), MKT_ERROR_TEXT_BYTES - 1);
}

/* The log. */

static char *log_path;

static int set_up_log(void **state)
{
    static char path[64];
    snprintf(path, sizeof(path), "/tmp/h5market-test-XXXXXX");
    int fd = mkstemp(path);

    (void)state;
    log_path = path;
    return fd < 0 ? -1 : close(fd);
}

static int tear_down_log(void **state)
{
    (void)state;
    mkt_log_close();
    return unlink(log_path);
}

static size_t read_log(char *text, size_t capacity)
{
    FILE *file = fopen(log_path, "r");
    size_t n;

    assert_non_null(file);
    n = fread(text, 1, capacity - 1, file);
    text[n] = 0;
    fclose(file);
    return n;
}

static void test_log_file_has_time_level_component(void **state)
{
    char text[8192], *line;

    (void)state;
    assert_int_equal(mkt_log_open_file(log_path, MKT_LOG_INFO), MKT_OK);
    errno = 77;
    mkt_log_info("market", "version %d of %s", 3, "a\nb");
    assert_int_equal(errno, 77);
    mkt_log_debug("market", "dropped");
    mkt_log_set_level(MKT_LOG_DEBUG);
    mkt_log_debug("daemon", "kept");
    mkt_log_close();
    read_log(text, sizeof(text));
    assert_int_equal(strspn(text, "0123456789T:.-Z"), 24); /* 2026-01-31T12:34:56.789Z */
    assert_non_null(strstr(text, " info    market: version 3 of a?b\n"));
    assert_null(strstr(text, "dropped"));
    line = strchr(text, '\n') + 1;
    assert_non_null(strstr(line, " debug   daemon: kept\n"));
    assert_int_equal(strchr(line, '\n')[1], 0);
}

static void test_log_long_line_is_cut(void **state)
{
    char text[8192], longer[3 * MKT_LOG_LINE_BYTES];

    (void)state;
    memset(longer, 'y', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    assert_int_equal(mkt_log_open_file(log_path, MKT_LOG_INFO), MKT_OK);
    mkt_log_error("x", "%s", longer);
    mkt_log_close();
    size_t length = read_log(text, sizeof(text));
    assert_true(length > 0 && length <= MKT_LOG_LINE_BYTES);
    assert_string_equal(text + length - 5, "y...\n");
}

/* In a user's program: one line, no time, warnings and worse only. */
static void test_log_guest_style_is_one_plain_line(void **state)
{
    char text[1024];
    int kept = dup(STDERR_FILENO);

    (void)state;
    assert_int_equal(mkt_log_level(), MKT_LOG_WARNING);
    fflush(stderr);
    assert_non_null(freopen(log_path, "w", stderr));
    mkt_log_warning("vol", "the market at %s is full", "/x");
    mkt_log_info("vol", "dropped");
    dup2(kept, STDERR_FILENO);
    close(kept);
    read_log(text, sizeof(text));
    assert_string_equal(text, "h5market: the market at /x is full\n");
}

static void test_log_unopenable_file_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(mkt_log_open_file("/nonexistent/folder/log", MKT_LOG_INFO), MKT_NOT_FOUND);
    assert_int_equal(mkt_log_level(), MKT_LOG_WARNING);
}

static void test_log_level_names(void **state)
{
    enum mkt_log_level level = MKT_LOG_ERROR;

    (void)state;
    assert_int_equal(mkt_log_level_parse("debug", &level), MKT_OK);
    assert_int_equal(level, MKT_LOG_DEBUG);
    assert_int_equal(mkt_log_level_parse("chatty", &level), MKT_INVALID);
    assert_int_equal(level, MKT_LOG_DEBUG);
}

/* The value stands in published indexes: another hash would be another format. */
static void test_hash_value_is_fixed(void **state)
{
    (void)state;
    assert_true(mkt_hash64("", 0, 0) == 0x2d06800538d394c2u);
    assert_true(mkt_hash64("market", 6, 0) != mkt_hash64("market", 6, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_names_and_texts_are_the_tables),
        cmocka_unit_test(test_status_numbers_are_fixed),
        cmocka_unit_test(test_status_from_errno_keeps_the_difference),
        cmocka_unit_test(test_error_set_fills_and_returns),
        cmocka_unit_test_setup_teardown(test_log_file_has_time_level_component, set_up_log,
                                        tear_down_log),
        cmocka_unit_test_setup_teardown(test_log_long_line_is_cut, set_up_log, tear_down_log),
        cmocka_unit_test_setup_teardown(test_log_guest_style_is_one_plain_line, set_up_log,
                                        tear_down_log),
        cmocka_unit_test(test_log_unopenable_file_is_an_error),
        cmocka_unit_test(test_log_level_names),
        cmocka_unit_test(test_hash_value_is_fixed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
