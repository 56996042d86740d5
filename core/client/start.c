/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/client/start.h"
#include "core/base/clock.h"
#include "core/client/directory.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define RETRY_MS   20
#define RESPAWN_MS 500

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- what the daemon gets from us ---- */

/* Variables that pass on: where things are, and what addresses H5Market or a sanitizer's run-time
 * library. */
static bool is_passed_on(const char *variable)
{
    static const char *const prefixes[] = {
        "PATH=",         "HOME=",          "LANG=",         "XDG_",          "H5MARKET_",
        "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS=", "LSAN_OPTIONS=", "HWLOC_XMLFILE="};
    if (strncmp(variable, "H5MARKET_DIR=", 13) == 0 ||
        strncmp(variable, "H5MARKET_CONFIG=", 16) == 0)
        return false; /* these are set anew */
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* One block: the pointers, then the two texts of our own. */
static char **daemon_environment(const struct mkt_start *start)
{
    size_t count = 0;
    while (environ != NULL && environ[count] != NULL)
        count++;
    const char *config = start->config_path != NULL ? start->config_path : "";
    size_t directory_bytes = strlen(start->directory) + sizeof("H5MARKET_DIR=");
    size_t config_bytes = strlen(config) + sizeof("H5MARKET_CONFIG=");
    char **list = malloc((count + 3) * sizeof(*list) + directory_bytes + config_bytes);
    if (list == NULL)
        return NULL;
    char *text = (char *)(list + count + 3);
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (is_passed_on(environ[i]))
            list[used++] = environ[i];
    list[used++] = text;
    snprintf(text, directory_bytes, "H5MARKET_DIR=%s", start->directory);
    if (config[0] != '\0') {
        list[used++] = text + directory_bytes;
        snprintf(text + directory_bytes, config_bytes, "H5MARKET_CONFIG=%s", config);
    }
    list[used] = NULL;
    return list;
}

static int prepare_files(posix_spawn_file_actions_t *files)
{
    int failed = posix_spawn_file_actions_addchdir_np(files, "/");
    if (!failed)
        failed = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
    for (int fd = 1; fd <= 2 && !failed; fd++)
        failed = posix_spawn_file_actions_addopen(files, fd, "/dev/null", O_WRONLY, 0);
    if (!failed)
        failed = posix_spawn_file_actions_addclosefrom_np(files, 3);
    return failed;
}

static int prepare_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int failed = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                          POSIX_SPAWN_SETSIGDEF);
    if (!failed)
        failed = posix_spawnattr_setsigmask(attributes, &none);
    if (!failed)
        failed = posix_spawnattr_setsigdefault(attributes, &all);
    return failed;
}

/* posix_spawn, never fork: a copy of an MPI process is not safe to run in. Returns an errno value.
 */
static int spawn_daemon(const struct mkt_start *start, pid_t *pid_out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    char *arguments[] = {(char *)start->daemon_path, start->on_demand ? "--on-demand" : NULL, NULL};
    char **environment = daemon_environment(start);
    if (environment == NULL)
        return ENOMEM;
    int failed = posix_spawn_file_actions_init(&files);
    if (failed)
        goto err_environment;
    failed = posix_spawnattr_init(&attributes);
    if (failed)
        goto err_files;
    failed = prepare_files(&files);
    if (!failed)
        failed = prepare_attributes(&attributes);
    if (!failed)
        failed =
            posix_spawn(pid_out, start->daemon_path, &files, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
err_files:
    posix_spawn_file_actions_destroy(&files);
err_environment:
    free(environment);
    return failed;
}

/* ---- waiting for it ---- */

static void wait_for_exit(pid_t pid, uint64_t deadline_ms)
{
    uint64_t now_ms = mkt_now_ms();
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) {
        pause_ms(RETRY_MS);
        return;
    }
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    poll(&poll_fd, 1, deadline_ms > now_ms ? (int)(deadline_ms - now_ms) : 0);
    close(fd);
}

/* Waits for the process that we spawned, which ends once its child listens. Its exit status, or -1:
 * unknown (the program reaps all children itself), or -2: still running at the deadline. */
static int reap(pid_t pid, uint64_t deadline_ms)
{
    for (;;) {
        int status;
        pid_t done = waitpid(pid, &status, WNOHANG);
        if (done == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (done < 0 && errno != EINTR)
            return -1;
        if (mkt_now_ms() >= deadline_ms) {
            /* It hangs: end it, so that no zombie is left. A daemon that it may have started lives
             * on. */
            kill(pid, SIGKILL);
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
            return -2;
        }
        wait_for_exit(pid, deadline_ms);
    }
}

/* The last line of the daemon's log, which says why it didn't start. */
static void last_log_line(const char *directory, char *line_out, size_t capacity)
{
    char path[4352], tail[1024];
    line_out[0] = '\0';
    snprintf(path, sizeof(path), "%s/" MKT_LOG_NAME, directory);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > (off_t)sizeof(tail) - 1 ? size - (off_t)sizeof(tail) + 1 : 0;
    ssize_t bytes = size > 0 ? pread(fd, tail, sizeof(tail) - 1, from) : 0;
    close(fd);
    while (bytes > 0 && tail[bytes - 1] == '\n')
        bytes--;
    if (bytes <= 0)
        return;
    tail[bytes] = '\0';
    const char *line = strrchr(tail, '\n');
    snprintf(line_out, capacity, "%.500s", line != NULL ? line + 1 : tail);
}

static enum mkt_status spawn_and_wait(const struct mkt_start *start, struct mkt_error *error)
{
    pid_t pid;
    int failed = spawn_daemon(start, &pid);
    if (failed)
        return mkt_error_set(error, mkt_status_from_errno(failed),
                             "can't start the market daemon %s: %s", start->daemon_path,
                             strerror(failed));
    int code = reap(pid, start->deadline_ms);
    if (code == 0 || code == -1)
        return MKT_OK;
    if (code == -2)
        return mkt_error_set(error, MKT_TIMED_OUT,
                             "the market daemon %s doesn't come up; see %s/" MKT_LOG_NAME,
                             start->daemon_path, start->directory);
    char line[512];
    last_log_line(start->directory, line, sizeof(line));
    return mkt_error_set(
        error, MKT_IO_ERROR,
        "the market daemon %s didn't start (exit status %d); %s/" MKT_LOG_NAME " says: %s",
        start->daemon_path, code, start->directory, line[0] != '\0' ? line : "nothing");
}

/* Connects until `until_ms`; MKT_NOT_FOUND then. */
static enum mkt_status connect_until(const struct mkt_start *start, struct mkt_link *link,
                                     uint64_t until_ms, struct mkt_error *error)
{
    for (;;) {
        enum mkt_status status = mkt_link_open(link, start->directory, start->deadline_ms, error);
        if (status != MKT_NOT_FOUND || mkt_now_ms() >= until_ms)
            return status;
        pause_ms(RETRY_MS);
    }
}

/* Under the lock: whoever had it before may have started one. A daemon that is just leaving may
 * stand in the way of ours: try again. */
static enum mkt_status start_locked(const struct mkt_start *start, struct mkt_link *link,
                                    struct mkt_error *error)
{
    enum mkt_status status = connect_until(start, link, 0, error);
    while (status == MKT_NOT_FOUND) {
        status = spawn_and_wait(start, error);
        if (status != MKT_OK)
            return status;
        status = connect_until(start, link, mkt_now_ms() + RESPAWN_MS, error);
        if (status == MKT_NOT_FOUND && mkt_now_ms() >= start->deadline_ms)
            return mkt_error_set(error, MKT_TIMED_OUT,
                                 "the market daemon %s doesn't listen; see %s/" MKT_LOG_NAME,
                                 start->daemon_path, start->directory);
    }
    return status;
}

static enum mkt_status open_lock(const char *directory, int *fd_out, struct mkt_error *error)
{
    int folder;
    enum mkt_status status = mkt_directory_open(directory, &folder, error);
    if (status != MKT_OK)
        return status;
    int fd = openat(folder, MKT_LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int reason = errno;
    close(folder);
    if (fd < 0)
        return mkt_error_set(error, mkt_status_from_errno(reason), "can't open %s/%s: %s",
                             directory, MKT_LOCK_NAME, strerror(reason));
    *fd_out = fd;
    return MKT_OK;
}

enum mkt_status mkt_start_or_connect(const struct mkt_start *start, struct mkt_link *link,
                                     struct mkt_error *error)
{
    int lock = -1;
    enum mkt_status status = open_lock(start->directory, &lock, error);
    if (status != MKT_OK)
        return status;
    while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        /* Somebody starts one: it may be there already. */
        status = mkt_link_open(link, start->directory, start->deadline_ms, error);
        if (status != MKT_NOT_FOUND)
            goto out;
        if (mkt_now_ms() >= start->deadline_ms) {
            status = mkt_error_set(error, MKT_TIMED_OUT,
                                   "another process starts a market daemon in %s and doesn't get "
                                   "done; see %s/" MKT_LOG_NAME,
                                   start->directory, start->directory);
            goto out;
        }
        pause_ms(RETRY_MS);
    }
    status = start_locked(start, link, error);
out:
    close(lock);
    return status;
}
