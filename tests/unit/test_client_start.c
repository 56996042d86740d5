/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting a daemon, and what becomes of clients when it stops or dies. Each test has a folder of
 * its own.
 */
#include "core/client/client.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char daemon_path[4096], folder[1024];

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static enum mkt_status try_connect(const char *daemon, uint32_t timeout_ms,
                                   struct mkt_client **client_out, struct mkt_error *error)
{
    struct mkt_client_options options = {.directory = folder,
                                         .daemon_path = daemon,
                                         .connect_timeout_ms = timeout_ms,
                                         .silence_ms = 1000};
    return mkt_client_connect(&options, client_out, error);
}

static struct mkt_client *connect_client(void)
{
    struct mkt_client *client = NULL;
    struct mkt_error error;
    if (try_connect(daemon_path, 30000, &client, &error) != MKT_OK)
        fail_msg("%s", error.text);
    return client;
}

static pid_t read_pid(const char *name)
{
    char path[1100];
    int pid = 0;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    assert_true(pid > 1);
    return pid;
}

/* The keeper first, who would start another worker. */
static void kill_daemon(void)
{
    pid_t keeper = read_pid("daemon.pid"), worker = read_pid("worker.pid");
    assert_int_equal(kill(keeper, SIGKILL), 0);
    assert_int_equal(kill(worker, SIGKILL), 0);
}

/* Ends the daemon and waits until it has left the folder. */
static void stop_daemon(struct mkt_client *client)
{
    struct mkt_error error;
    char path[1100];
    snprintf(path, sizeof(path), "%s/daemon.pid", folder);
    if (mkt_client_stop(client, true, &error) != MKT_OK)
        fail_msg("%s", error.text);
    mkt_client_destroy(client);
    for (int tries = 0; access(path, F_OK) == 0; tries++) {
        assert_true(tries < 500);
        pause_ms(20);
    }
}

static const char *make_program(const char *text)
{
    static char path[1100];
    snprintf(path, sizeof(path), "%s/program", folder);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, 0700), 0);
    return path;
}

static char *read_file(const char *name)
{
    static char text[65536];
    char path[1100];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* ---- starting ---- */

static void run_child(int go, int report)
{
    struct mkt_client *client = NULL;
    struct mkt_error error;
    char byte;
    /* All wait until the parent closes the pipe. */
    while (read(go, &byte, 1) > 0)
        ;
    enum mkt_status status = try_connect(daemon_path, 30000, &client, &error);
    if (status != MKT_OK) {
        fprintf(stderr, "%s\n", error.text);
        _exit(1);
    }
    bool written = write(report, mkt_client_daemon_id(client), MKT_ID_BYTES) == MKT_ID_BYTES;
    mkt_client_destroy(client);
    _exit(written ? 0 : 1);
}

static void test_start_many_processes_at_once_get_one_daemon(void **state)
{
    (void)state;
    enum {
        PROCESSES = 64
    };
    int go[2], report[2];
    pid_t children[PROCESSES];
    uint8_t first[MKT_ID_BYTES], id[MKT_ID_BYTES];
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            close(go[1]);
            run_child(go[0], report[1]);
        }
    }
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(read(report[0], first, sizeof(first)), MKT_ID_BYTES);
    for (int i = 1; i < PROCESSES; i++) {
        assert_int_equal(read(report[0], id, sizeof(id)), MKT_ID_BYTES);
        assert_memory_equal(id, first, MKT_ID_BYTES);
    }
    close(report[0]);
    close(report[1]);
    struct mkt_client *client = connect_client();
    assert_memory_equal(mkt_client_daemon_id(client), first, MKT_ID_BYTES);
    stop_daemon(client);
}

/* What a daemon is given by its starter: nothing but what it needs. */
static void test_start_hands_nothing_down(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    sigset_t blocked, before;
    const char *program =
        make_program("#!/bin/sh\n"
                     "{ env; pwd; echo; } > \"$H5MARKET_DIR/out\"\n"
                     "ls -l /proc/self/fd | grep -v ' /proc/' >> \"$H5MARKET_DIR/out\"\n"
                     "grep -E 'Sig(Blk|Ign)' /proc/self/status >> \"$H5MARKET_DIR/out\"\n"
                     "cut -d' ' -f6 /proc/self/stat > \"$H5MARKET_DIR/session\"\n"
                     "exit 3\n");
    int leak = open("/dev/zero", O_RDONLY); /* on purpose without O_CLOEXEC */
    sigfillset(&blocked);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    signal(SIGUSR1, SIG_IGN);
    setenv("MKT_TEST_SECRET", "1", 1);
    setenv("LD_LIBRARY_PATH", "/nowhere", 1);
    setenv("H5MARKET_SOMETHING", "1", 1);
    enum mkt_status status = try_connect(program, 10000, &client, &error);
    unsetenv("MKT_TEST_SECRET");
    unsetenv("LD_LIBRARY_PATH");
    unsetenv("H5MARKET_SOMETHING");
    signal(SIGUSR1, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(leak);
    assert_int_equal(status, MKT_IO_ERROR);
    assert_non_null(strstr(error.text, "exit status 3"));
    const char *out = read_file("out");
    assert_null(strstr(out, "MKT_TEST_SECRET"));
    assert_null(strstr(out, "LD_LIBRARY_PATH"));
    assert_null(strstr(out, "/dev/zero"));
    assert_non_null(strstr(out, "H5MARKET_SOMETHING=1"));
    assert_non_null(strstr(out, folder));
    assert_non_null(strstr(out, "PATH="));
    assert_non_null(strstr(out, "\n/\n"));
    assert_non_null(strstr(out, "SigBlk:\t0000000000000000"));
    /* Signals 32 and 33 are the C library's own. */
    const char *ignored = strstr(out, "SigIgn:\t");
    assert_non_null(ignored);
    assert_true((strtoull(ignored + 8, NULL, 16) & ~0x180000000ull) == 0);
    assert_int_not_equal(atoi(read_file("session")), (int)getsid(0));
}

static void test_start_of_missing_program_says_so(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    assert_int_equal(try_connect("/no/such/h5marketd", 5000, &client, &error), MKT_NOT_FOUND);
    assert_non_null(strstr(error.text, "/no/such/h5marketd"));
}

static void test_start_failure_quotes_log(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    const char *program =
        make_program("#!/bin/sh\necho one > $H5MARKET_DIR/h5marketd.log\n"
                     "echo 'no memory for the keeper' >> $H5MARKET_DIR/h5marketd.log\nexit 1\n");
    assert_int_equal(try_connect(program, 5000, &client, &error), MKT_IO_ERROR);
    assert_non_null(strstr(error.text, "no memory for the keeper"));
    assert_null(strstr(error.text, "one\n"));
}

static void test_start_that_hangs_times_out_and_leaves_no_child(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    const char *program = make_program("#!/bin/sh\nexec sleep 100\n");
    double start = now_s();
    assert_int_equal(try_connect(program, 700, &client, &error), MKT_TIMED_OUT);
    assert_true(now_s() - start < 5);
    assert_non_null(strstr(error.text, "h5marketd.log"));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void reap_all(int signal)
{
    (void)signal;
    int kept = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    errno = kept;
}

/* A program that collects all children by itself takes ours away from us. */
static void test_start_works_in_program_that_reaps_all_children(void **state)
{
    (void)state;
    signal(SIGCHLD, reap_all);
    struct mkt_client *client = connect_client();
    signal(SIGCHLD, SIG_IGN);
    stop_daemon(client);
    client = connect_client();
    signal(SIGCHLD, SIG_DFL);
    stop_daemon(client);
}

/* ---- configuration ---- */

static void write_config(const char *text, char *path_out, size_t capacity)
{
    snprintf(path_out, capacity, "%s/my.yaml", folder);
    FILE *file = fopen(path_out, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_start_missing_configuration_is_invalid(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    struct mkt_client_options options = {
        .directory = folder, .daemon_path = daemon_path, .config_path = "/no/such.yaml"};
    assert_int_equal(mkt_client_connect(&options, &client, &error), MKT_INVALID);
    assert_non_null(strstr(error.text, "/no/such.yaml"));
}

static void test_start_bad_configuration_names_file_and_line(void **state)
{
    (void)state;
    struct mkt_client *daemon = connect_client(), *client;
    struct mkt_error error;
    char path[1100];
    write_config("# first\nno_such_key: 3\n", path, sizeof(path));
    struct mkt_client_options options = {
        .directory = folder, .daemon_path = daemon_path, .config_path = path};
    assert_int_equal(mkt_client_connect(&options, &client, &error), MKT_INVALID);
    assert_non_null(strstr(error.text, "my.yaml"));
    assert_non_null(strstr(error.text, "no_such_key"));
    stop_daemon(daemon);
    /* The same if it is the one that starts the daemon. */
    assert_int_not_equal(mkt_client_connect(&options, &client, &error), MKT_OK);
    assert_non_null(strstr(error.text, "my.yaml"));
}

/* ---- the daemon stops or dies ---- */

static uint64_t write_file(struct mkt_client *client, const char *path)
{
    struct mkt_opened opened;
    struct mkt_error error;
    uint64_t version = 0;
    struct mkt_open request = {.path = path, .intent = MKT_INTENT_CREATE, .size = 1};
    if (mkt_client_open(client, &request, &opened, &error) != MKT_OK)
        fail_msg("%s", error.text);
    struct mkt_commit commit = {.file = opened.file, .image = "image", .image_bytes = 6};
    if (mkt_client_commit(client, &commit, &version, &error) != MKT_OK)
        fail_msg("%s", error.text);
    return version;
}

static void test_start_stopped_daemon_times_out(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client(), *late;
    struct mkt_error error;
    struct mkt_opened opened;
    pid_t pid = read_pid("worker.pid");
    assert_int_equal(kill(pid, SIGSTOP), 0);
    struct mkt_open request = {
        .path = "stopped.h5", .intent = MKT_INTENT_READ, .size = 1, .wait_ms = 60000};
    double start = now_s();
    enum mkt_status status = mkt_client_open(client, &request, &opened, &error);
    double waited = now_s() - start;
    enum mkt_status late_status = try_connect(daemon_path, 1500, &late, &error);
    kill(pid, SIGCONT);
    assert_int_equal(status, MKT_TIMED_OUT);
    assert_true(waited > 0.9 && waited < 5);
    assert_int_equal(late_status, MKT_TIMED_OUT);
    assert_non_null(strstr(error.text, "h5marketd.log"));
    mkt_client_destroy(client);
    stop_daemon(connect_client());
}

static void test_start_killed_daemon_ends_waits_and_next_client_starts_another(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client();
    struct mkt_error error;
    struct mkt_opened opened;
    uint8_t id[MKT_ID_BYTES];
    pid_t killer;
    memcpy(id, mkt_client_daemon_id(client), MKT_ID_BYTES);
    write_file(client, "killed.h5");
    killer = fork();
    if (killer == 0) {
        pause_ms(300);
        kill_daemon();
        _exit(0);
    }
    struct mkt_open request = {
        .path = "never.h5", .intent = MKT_INTENT_READ, .size = 1, .wait_ms = 60000};
    double start = now_s();
    assert_int_equal(mkt_client_open(client, &request, &opened, &error), MKT_PEER_DOWN);
    assert_true(now_s() - start < 5);
    assert_non_null(strstr(error.text, "h5marketd.log"));
    waitpid(killer, NULL, 0);
    assert_true(mkt_client_is_down(client));
    mkt_client_destroy(client);

    /* Its socket is still there; nobody listens. */
    struct mkt_client *none;
    assert_int_equal(try_connect(NULL, 1000, &none, &error), MKT_NOT_FOUND);
    /* Without a daemon the stub leads nowhere, and says so. */
    request = (struct mkt_open){.path = "killed.h5", .intent = MKT_INTENT_READ, .size = 1};
    assert_int_equal(mkt_path_kind("killed.h5"), MKT_PATH_STUB);
    assert_int_equal(mkt_client_open(NULL, &request, &opened, &error), MKT_NOT_FOUND);
    assert_non_null(strstr(error.text, "is a stub"));

    client = connect_client();
    assert_memory_not_equal(id, mkt_client_daemon_id(client), MKT_ID_BYTES);
    assert_int_equal(mkt_client_open(client, &request, &opened, &error), MKT_NOT_FOUND);
    assert_non_null(strstr(error.text, "left-over stub"));
    /* Writing it anew takes the stub over. */
    assert_true(write_file(client, "killed.h5") > 0);
    assert_int_equal(mkt_client_open(client, &request, &opened, &error), MKT_OK);
    assert_string_equal(opened.image, "image");
    stop_daemon(client);
}

static void test_start_left_over_stub_can_be_withdrawn(void **state)
{
    (void)state;
    struct mkt_client *client = connect_client();
    struct mkt_error error;
    uint64_t versions = 7;
    write_file(client, "left.h5");
    pid_t pid = read_pid("worker.pid");
    kill_daemon();
    while (kill(pid, 0) == 0)
        pause_ms(10);
    mkt_client_destroy(client);
    client = connect_client();
    assert_int_equal(mkt_path_kind("left.h5"), MKT_PATH_STUB);
    if (mkt_client_withdraw(client, "left.h5", &versions, &error) != MKT_OK)
        fail_msg("%s", error.text);
    assert_true(versions == 0);
    assert_int_equal(mkt_path_kind("left.h5"), MKT_PATH_NONE);
    stop_daemon(client);
}

static void test_start_stub_of_other_market_is_told_and_taken_over(void **state)
{
    (void)state;
    char other[1024];
    struct mkt_error error;
    struct mkt_opened opened;
    struct mkt_open request = {.path = "other.h5", .intent = MKT_INTENT_READ, .size = 1};
    struct mkt_client *client = connect_client();
    write_file(client, "other.h5");
    strcpy(other, folder);
    snprintf(folder, sizeof(folder), "%.1000s-b", other);
    struct mkt_client *second = connect_client();
    assert_int_equal(mkt_client_open(second, &request, &opened, &error), MKT_NOT_FOUND);
    assert_non_null(strstr(error.text, "another market"));
    write_file(second, "other.h5");
    assert_int_equal(mkt_client_open(second, &request, &opened, &error), MKT_OK);
    stop_daemon(second);
    strcpy(folder, other);
    stop_daemon(client);
}

/* ---- folders ---- */

static void test_start_default_folder_differs_between_batch_jobs(void **state)
{
    (void)state;
    struct mkt_error error;
    char plain[256], job1[256], job2[256], market[1024];
    strcpy(market, getenv("H5MARKET_DIR"));
    unsetenv("H5MARKET_DIR");
    assert_int_equal(mkt_client_directory(NULL, false, plain, sizeof(plain), &error), MKT_OK);
    setenv("SLURM_JOB_ID", "1", 1);
    assert_int_equal(mkt_client_directory(NULL, false, job1, sizeof(job1), &error), MKT_OK);
    setenv("SLURM_JOB_ID", "2", 1);
    assert_int_equal(mkt_client_directory(NULL, false, job2, sizeof(job2), &error), MKT_OK);
    unsetenv("SLURM_JOB_ID");
    setenv("H5MARKET_DIR", market, 1);
    assert_string_not_equal(plain, job1);
    assert_string_not_equal(job1, job2);
    assert_int_equal(strncmp(plain, "/tmp/h5market-", 14), 0);
    assert_int_equal(mkt_client_directory(NULL, false, plain, sizeof(plain), &error), MKT_OK);
    assert_string_equal(plain, market);
}

static int prepare(void **state)
{
    (void)state;
    static int number;
    snprintf(folder, sizeof(folder), "%s/%d", getenv("H5MARKET_DIR"), number++);
    return mkdir(folder, 0700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_start_many_processes_at_once_get_one_daemon, prepare),
        cmocka_unit_test_setup(test_start_hands_nothing_down, prepare),
        cmocka_unit_test_setup(test_start_of_missing_program_says_so, prepare),
        cmocka_unit_test_setup(test_start_failure_quotes_log, prepare),
        cmocka_unit_test_setup(test_start_that_hangs_times_out_and_leaves_no_child, prepare),
        cmocka_unit_test_setup(test_start_works_in_program_that_reaps_all_children, prepare),
        cmocka_unit_test_setup(test_start_missing_configuration_is_invalid, prepare),
        cmocka_unit_test_setup(test_start_bad_configuration_names_file_and_line, prepare),
        cmocka_unit_test_setup(test_start_stopped_daemon_times_out, prepare),
        cmocka_unit_test_setup(test_start_killed_daemon_ends_waits_and_next_client_starts_another,
                               prepare),
        cmocka_unit_test_setup(test_start_left_over_stub_can_be_withdrawn, prepare),
        cmocka_unit_test_setup(test_start_stub_of_other_market_is_told_and_taken_over, prepare),
        cmocka_unit_test_setup(test_start_default_folder_differs_between_batch_jobs, prepare),
    };
    const char *build = getenv("MKT_BUILD_DIR");
    if (build == NULL || getenv("H5MARKET_DIR") == NULL) {
        fprintf(stderr, "MKT_BUILD_DIR and H5MARKET_DIR must be set\n");
        return 1;
    }
    snprintf(daemon_path, sizeof(daemon_path), "%s/bin/h5marketd", build);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
