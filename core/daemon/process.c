/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_TIMEOUT_MS 30000
#define CPUS_MAX         16384

void mkt_process_close_inherited(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0)
        return;
    struct rlimit limit = {.rlim_cur = 65536};
    getrlimit(RLIMIT_NOFILE, &limit);
    for (fd = 3; fd < (int)limit.rlim_cur && fd < 1 << 20; fd++)
        close(fd);
}

/* What the daemon and its libraries read. */
static bool is_wanted(const char *variable)
{
    static const char *const wanted[] = {
        "PATH=",         "HOME=",          "USER=",         "LOGNAME=",         "TZ=",
        "LANG=",         "TMPDIR=",        "H5MARKET_",     "SLURM_JOB_",       "PBS_JOBID=",
        "LSB_JOBID=",    "FLUX_JOB_ID=",   "XDG_RUNTIME_",  "LD_LIBRARY_PATH=", "HDF5_PLUGIN_PATH=",
        "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS=", "LSAN_OPTIONS=",    "HWLOC_XMLFILE=",
    };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (strncmp(variable, wanted[i], strlen(wanted[i])) == 0)
            return true;
    return false;
}

void mkt_process_clean_environment(char **arguments)
{
    size_t count = 0, kept = 0;

    while (environ[count])
        count++;
    char **clean = calloc(count + 1, sizeof(*clean));
    if (!clean)
        return;
    for (size_t i = 0; i < count; i++)
        if (is_wanted(environ[i]))
            clean[kept++] = environ[i];
    if (kept < count)
        execve("/proc/self/exe", arguments, clean);
    free(clean); /* clean already; or no /proc, and the environment stays as it is */
}

static void take_all_cpus(void)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);

    if (!set)
        return;
    memset(set, 0xff, bytes);
    sched_setaffinity(0, bytes, set);
    CPU_FREE(set);
}

static void raise_limits(void)
{
    static const int resources[] = {RLIMIT_NOFILE,  RLIMIT_AS,    RLIMIT_DATA, RLIMIT_FSIZE,
                                    RLIMIT_MEMLOCK, RLIMIT_NPROC, RLIMIT_CPU};

    for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++) {
        struct rlimit limit;
        if (getrlimit(resources[i], &limit) == 0 && limit.rlim_cur != limit.rlim_max) {
            limit.rlim_cur = limit.rlim_max;
            setrlimit(resources[i], &limit);
        }
    }
}

/* Of what a starter set, only "ignored" outlives an exec; handlers are a sanitizer's own. */
static void reset_signals(void)
{
    struct sigaction now;
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            signal(number, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void mkt_process_settle(void)
{
    struct sched_param priority = {.sched_priority = 0};

    umask(077);
    reset_signals();
    raise_limits();
    sched_setscheduler(0, SCHED_OTHER, &priority);
    setpriority(PRIO_PROCESS, 0, 0);
    syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
    take_all_cpus();
}

static void detach(void)
{
    int null;

    setsid();
    mkt_process_settle();
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_NAME, "h5marketd");
    if (chdir("/") != 0)
        return; /* can't be */
    null = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        close(null);
    }
}

/* Reads the report: a byte, then text up to the end. A child that dies before says nothing. */
static enum mkt_start read_report(int fd, char *text, size_t capacity)
{
    char report[1024];
    size_t length = 0;
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    while (length < sizeof(report) - 1) {
        if (poll(&poller, 1, START_TIMEOUT_MS) == 0) {
            snprintf(text, capacity, "the daemon did not start within %d s",
                     START_TIMEOUT_MS / 1000);
            return MKT_START_FAILED;
        }
        ssize_t n = read(fd, report + length, sizeof(report) - 1 - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        length += (size_t)n;
    }
    report[length] = '\0';
    snprintf(text, capacity, "%s", length > 0 ? report + 1 : "the daemon died at its start");
    return length > 0 && report[0] < MKT_START_FAILED ? (enum mkt_start)report[0]
                                                      : MKT_START_FAILED;
}

int mkt_process_detach(enum mkt_start *start_out, char *text, size_t capacity)
{
    int ends[2];
    pid_t child;

    *start_out = MKT_START_FAILED;
    if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0) {
        snprintf(text, capacity, "cannot start: %s", strerror(errno));
        return -1;
    }
    if (child == 0) {
        close(ends[0]);
        detach();
        return ends[1];
    }
    close(ends[1]);
    *start_out = read_report(ends[0], text, capacity);
    close(ends[0]);
    if (*start_out != MKT_START_READY) {
        kill(child, SIGKILL); /* one that said why it can't, or says nothing */
        waitpid(child, NULL, 0);
    }
    return -1;
}

void mkt_process_report(int fd, enum mkt_start start, const char *text)
{
    char report[1024];

    if (fd < 0)
        return;
    report[0] = (char)start;
    size_t length = strlen(text);
    if (length > sizeof(report) - 2)
        length = sizeof(report) - 2;
    memcpy(report + 1, text, length);
    ssize_t n = write(fd, report, length + 1);
    (void)n; /* a parent that is gone needs no report */
    close(fd);
}
