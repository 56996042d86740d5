/* SPDX-License-Identifier: BSD-3-Clause */
/* Fault points: each case in a child of its own, since the variables are read once. */
#include "core/base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PASSES 3

/* Passes "a.b" and "a.c" by turns; exits with the number of passes of "a.b" that succeeded. */
static void pass_points(void)
{
    int good = 0;
    for (int i = 0; i < PASSES; i++) {
        errno = EDOM;
        good += mkt_fault_point("a.b") == MKT_OK;
        if (errno != EDOM)
            _exit(50);
        if (mkt_fault_point("a.c") == MKT_NO_SPACE)
            _exit(40 + i);
    }
    _exit(good);
}

/* Waits for a child that passes the points under the variable; the status is waitpid's. */
static int run_child(const char *fault, const char *trace, int options)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        setenv("H5MARKET_FAULT", fault, 1);
        if (trace != NULL)
            setenv("H5MARKET_FAULT_TRACE", trace, 1);
        pass_points();
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, options), child);
    if (WIFSTOPPED(status)) {
        int last = 0;
        assert_int_equal(kill(child, SIGCONT), 0);
        assert_int_equal(waitpid(child, &last, 0), child);
        assert_true(WIFEXITED(last) && WEXITSTATUS(last) == PASSES);
    }
    return status;
}

static void test_fault_kill_ends_the_process_at_the_wanted_pass(void **state)
{
    int status = run_child("a.c:error=NO_SPACE:2,a.b:kill:3", NULL, 0);
    (void)state;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 41); /* the earlier one came first */
    status = run_child("a.c:error=NO_SPACE:3,a.b:kill:2", NULL, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    status = run_child("a.b:kill:4", NULL, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == PASSES);
}

static void test_fault_error_is_returned_once(void **state)
{
    int status = run_child("a.b:error=IO_ERROR", NULL, 0);
    (void)state;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == PASSES - 1);
}

static void test_fault_stop_stops_and_can_go_on(void **state)
{
    int status = run_child("a.b:stop:2", NULL, WUNTRACED);
    (void)state;
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
}

static void test_fault_sleep_sleeps(void **state)
{
    struct timespec before, after;
    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &before);
    int status = run_child("a.b:sleep=200:1", NULL, 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == PASSES);
    long ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    assert_true(ms >= 200);
}

static void test_fault_wrong_variable_faults_nothing(void **state)
{
    (void)state;
    static const char *const wrong[] = {"nonsense",          "a.b",        "a.b:die",
                                        "a.b:error=NOTHING", "a.b:kill:0", "a.b:kill:1:2",
                                        "a.b:sleep=",        "a.b:kill:x", "a.b:error=OK"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int status = run_child(wrong[i], NULL, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == PASSES);
    }
}

static void test_fault_trace_names_each_pass(void **state)
{
    char path[] = "/tmp/mkt-fault-XXXXXX", text[256] = "";
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    int status = run_child("a.b:kill:3", path, 0);
    assert_true(WIFSIGNALED(status));
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    assert_string_equal(text, "a.b 1\na.c 1\na.b 2\na.c 2\na.b 3\n");
    close(fd);
    unlink(path);
}

static void test_fault_once_acts_in_one_process(void **state)
{
    char folder[] = "/tmp/mkt-fault-XXXXXX", prefix[64], path[64], text[32] = "";
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(prefix, sizeof(prefix), "%s/once", folder);
    snprintf(path, sizeof(path), "%s/once.a.b", folder);
    setenv("H5MARKET_FAULT_ONCE", prefix, 1);
    int first = run_child("a.b:kill:2", NULL, 0), second = run_child("a.b:kill:2", NULL, 0);
    unsetenv("H5MARKET_FAULT_ONCE");
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && atoi(text) > 0);
    close(fd);
    unlink(path);
    rmdir(folder);
    assert_true(WIFSIGNALED(first) && WTERMSIG(first) == SIGKILL);
    assert_true(WIFEXITED(second) && WEXITSTATUS(second) == PASSES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fault_kill_ends_the_process_at_the_wanted_pass),
        cmocka_unit_test(test_fault_error_is_returned_once),
        cmocka_unit_test(test_fault_stop_stops_and_can_go_on),
        cmocka_unit_test(test_fault_sleep_sleeps),
        cmocka_unit_test(test_fault_wrong_variable_faults_nothing),
        cmocka_unit_test(test_fault_trace_names_each_pass),
        cmocka_unit_test(test_fault_once_acts_in_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
