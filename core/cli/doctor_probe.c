/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does HDF5 take the connector? Only a program that uses HDF5 can tell: where HDF5 can't load one,
 * the first call fails and all others silently use ordinary files. So a small one of each flavour
 * runs as a child, in the user's environment, with a temporary folder, and in a market of its own
 * where none runs.
 */
#include "core/base/clock.h"
#include "core/cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROBE_MS     30000
#define OUTPUT_BYTES 65536

extern char **environ;

struct probe {
    char output[OUTPUT_BYTES];
    int status; /* of waitpid; -1: it did not end in time */
};

/* ---- running one ---- */

/* Reads until the end or the deadline. */
static bool drain(int fd, char *text, uint64_t deadline_ms)
{
    size_t used = 0;
    for (;;) {
        uint64_t now = mkt_now_ms();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (now >= deadline_ms || poll(&wait, 1, (int)(deadline_ms - now)) == 0)
            return false;
        char rest[512];
        bool full = used + 1 >= OUTPUT_BYTES;
        ssize_t got =
            full ? read(fd, rest, sizeof(rest)) : read(fd, text + used, OUTPUT_BYTES - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        if (!full)
            used += (size_t)got;
        text[used] = '\0';
    }
}

/* The child gets the signals that this process holds back meanwhile. */
static bool spawn(const char *program, const char *file, int fd, pid_t *pid_out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, broken_pipe;
    char *arguments[] = {(char *)program, (char *)file, NULL};
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, fd, STDERR_FILENO);
    sigemptyset(&none);
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &broken_pipe);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int failed = posix_spawn(pid_out, program, &files, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return failed == 0;
}

static bool run(const char *program, const char *file, struct probe *probe)
{
    int ends[2];
    pid_t pid;
    memset(probe, 0, sizeof(*probe));
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    bool started = spawn(program, file, ends[1], &pid);
    close(ends[1]);
    if (started && !drain(ends[0], probe->output, mkt_now_ms() + PROBE_MS)) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        probe->status = -1;
    } else if (started) {
        while (waitpid(pid, &probe->status, 0) < 0 && errno == EINTR)
            continue;
    }
    close(ends[0]);
    return started;
}

/* ---- reading its answers ---- */

/* The value of a "name=value" line; "" if there is none. */
static const char *value_of(const struct probe *probe, const char *name, char value_out[128])
{
    size_t length = strlen(name);
    value_out[0] = '\0';
    for (const char *line = probe->output; line && *line;) {
        if (strncmp(line, name, length) == 0 && line[length] == '=')
            snprintf(value_out, 128, "%.*s", (int)strcspn(line + length + 1, "\n"),
                     line + length + 1);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return value_out;
}

static bool is(const struct probe *probe, const char *name, const char *wanted)
{
    char value[128];
    return strcmp(value_of(probe, name, value), wanted) == 0;
}

/* Why, as the program said: our own line if there is one, else the last cause on HDF5's error
 * stack. */
static void find_reason(const struct probe *probe, char *reason_out, size_t capacity)
{
    const char *line = strstr(probe->output, "h5market: ");
    snprintf(reason_out, capacity, "no reason given");
    if (line) {
        line += strlen("h5market: ");
        snprintf(reason_out, capacity, "%.*s", (int)strcspn(line, "\n"), line);
        return;
    }
    for (line = probe->output; (line = strstr(line, "(): ")); line += 4)
        snprintf(reason_out, capacity, "%.*s", (int)strcspn(line + 4, "\n"), line + 4);
}

static void judge(struct mkt_doctor *doctor, const char *flavour, const struct probe *probe)
{
    char hdf5[128], connector[128], reason[2048];
    value_of(probe, "hdf5", hdf5);
    value_of(probe, "connector", connector);
    find_reason(probe, reason, sizeof(reason));
    if (probe->status == -1)
        mkt_doctor_say(doctor, MKT_PROBLEM,
                       "look at the daemon's log; `h5market doctor --report` shows its end",
                       "HDF5 %s (%s): a small program hung for %d s", hdf5, flavour,
                       PROBE_MS / 1000);
    else if (WIFSIGNALED(probe->status))
        mkt_doctor_say(doctor, MKT_PROBLEM, "report this: `h5market doctor --report`",
                       "HDF5 %s (%s): a small program ended by signal %d (%s)", hdf5, flavour,
                       WTERMSIG(probe->status), strsignal(WTERMSIG(probe->status)));
    else if (!hdf5[0] && !connector[0])
        mkt_doctor_say(doctor, MKT_WARNING,
                       "is that HDF5 (or its MPI) still installed? `ldd` on the probe shows it",
                       "lib/h5market/h5market-probe-%s doesn't run: %.*s", flavour,
                       (int)strcspn(probe->output, "\n"), probe->output);
    else if (connector[0] && strcmp(connector, "market") != 0)
        mkt_doctor_say(doctor, MKT_PROBLEM,
                       "the cause is above or in this line; programs print it once as an HDF5 "
                       "error and then go on "
                       "without the market",
                       "HDF5 %s (%s) silently falls back to ordinary files (connector `%s`): %s",
                       hdf5, flavour, connector, reason);
    else if (!is(probe, "write", "ok") || !is(probe, "read", "ok"))
        mkt_doctor_say(doctor, MKT_PROBLEM, "as the message says; else `h5market doctor --report`",
                       "HDF5 %s (%s) goes to the market, but can't %s: %s", hdf5, flavour,
                       is(probe, "write", "ok") ? "read back" : "write", reason);
    else
        mkt_doctor_say(doctor, MKT_FINE, NULL,
                       "HDF5 %s (%s) takes the connector: wrote and read a file%s", hdf5, flavour,
                       is(probe, "on_disk", "stub") ? " in memory"
                       : getenv("HDF5_DRIVER")      ? " of the driver in HDF5_DRIVER"
                                               : ", an ordinary one by your rules (mode: file)");
}

/* ---- all of them ---- */

/* What a user would set where the user has set nothing that leads anywhere. */
static void complete_environment(const struct mkt_doctor *doctor)
{
    char folder[PATH_MAX];
    const char *connector = getenv("HDF5_VOL_CONNECTOR");
    if (!connector || !connector[0])
        setenv("HDF5_VOL_CONNECTOR", "market", 1);
    const char *list = getenv("HDF5_PLUGIN_PATH");
    if (!doctor->user_plugin_usable && (!list || !list[0])) {
        mkt_cli_installed("lib/hdf5/plugin", folder, sizeof(folder));
        setenv("HDF5_PLUGIN_PATH", folder, 1);
    }
}

static void run_all(struct mkt_doctor *doctor, const char *folder)
{
    static struct probe probe; /* large */
    glob_t found;
    char *pattern = mkt_cli_format("%s/lib/h5market/h5market-probe-*", mkt_cli_prefix());
    char *file = mkt_cli_format("%s/h5market-probe.h5", folder);
    if (glob(pattern, 0, NULL, &found) != 0)
        mkt_doctor_say(
            doctor, MKT_WARNING, "build H5Market again with HDF5_ROOT set",
            "no probe in %s/lib/h5market, so it isn't known whether HDF5 takes the connector",
            mkt_cli_prefix());
    else {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            const char *flavour = strrchr(found.gl_pathv[i], '/') + strlen("/h5market-probe-");
            if (run(found.gl_pathv[i], file, &probe))
                judge(doctor, flavour, &probe);
            unlink(file);
        }
        globfree(&found);
    }
    free(pattern);
    free(file);
}

/* Ends the daemon that the probes started in the market that was made for them. */
static void stop_own_market(void)
{
    struct mkt_client_options options = {0};
    struct mkt_client *client;
    struct mkt_error error;
    if (mkt_client_connect(&options, &client, &error) != MKT_OK)
        return;
    mkt_client_stop(client, true, &error);
    mkt_client_destroy(client);
    for (int tries = 0; tries < 250; tries++) {
        const struct timespec pause = {.tv_nsec = 20000000};
        if (mkt_client_connect(&options, &client, &error) == MKT_NOT_FOUND)
            return;
        mkt_client_destroy(client);
        nanosleep(&pause, NULL);
    }
}

static void remove_folder(const char *folder)
{
    char *pattern = mkt_cli_format("%s/*", folder);
    glob_t found;
    if (glob(pattern, GLOB_PERIOD, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
        globfree(&found);
    }
    free(pattern);
    rmdir(folder);
}

/* A probe in a folder of its own, and in a market of its own where no daemon runs. */
static void probe_in(struct mkt_doctor *doctor, const char *folder)
{
    static const char *const names[] = {"HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PATH", "H5MARKET_DIR"};
    char *saved[3], *market = mkt_cli_format("%s/market", folder);
    for (int i = 0; i < 3; i++)
        saved[i] = getenv(names[i]) ? mkt_cli_copy(getenv(names[i])) : NULL;
    complete_environment(doctor);
    if (!doctor->client)
        setenv("H5MARKET_DIR", market, 1);
    run_all(doctor, folder);
    if (!doctor->client) {
        stop_own_market();
        remove_folder(market);
    }
    for (int i = 0; i < 3; i++) {
        if (saved[i])
            setenv(names[i], saved[i], 1);
        else
            unsetenv(names[i]);
        free(saved[i]);
    }
    free(market);
}

void mkt_doctor_probe(struct mkt_doctor *doctor)
{
    static const int held_back[] = {SIGINT, SIGTERM, SIGHUP};
    const char *base = getenv("TMPDIR");
    char folder[PATH_MAX];
    sigset_t signals, former;
    if (!doctor->has_plugin || doctor->daemon_unknown)
        return;
    snprintf(folder, sizeof(folder), "%s/h5market-doctor.XXXXXX", base && base[0] ? base : "/tmp");
    /* Whatever ends this command, it tidies up first. */
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(held_back) / sizeof(held_back[0]); i++)
        sigaddset(&signals, held_back[i]);
    sigprocmask(SIG_BLOCK, &signals, &former);
    signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(folder)) {
        probe_in(doctor, folder);
        remove_folder(folder);
    } else {
        mkt_doctor_say(doctor, MKT_WARNING, "set TMPDIR to a folder that can be written to",
                       "can't make a temporary folder %s: %s", folder, strerror(errno));
    }
    sigprocmask(SIG_SETMASK, &former, NULL);
}
