/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/fault.h"

#include "core/base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAULTS_MAX 16
#define POINTS_MAX 256
#define NAME_BYTES 64

enum action {
    ACTION_KILL,
    ACTION_STOP,
    ACTION_SLEEP,
    ACTION_ERROR
};

struct fault {
    char point[NAME_BYTES];
    enum action action;
    unsigned long count, sleep_ms;
    enum mkt_status status;
};

/* A point that was passed. Slots are claimed in order and never given back. */
struct passed {
    const char *name; /* set last, once */
    unsigned long count;
};

/* Written while `state` is READING, read-only after; counts are atomic. */
static struct {
    enum {
        UNREAD,
        READING,
        OFF,
        ON
    } state;
    struct fault faults[FAULTS_MAX];
    unsigned faults_count;
    int trace_fd;
    const char *once; /* NULL: as often as said */
    struct passed points[POINTS_MAX];
} facility = {.trace_fd = -1};

/* ---- the variables ---- */

static bool parse_number(const char *text, unsigned long *number_out)
{
    char *end;
    errno = 0;
    *number_out = strtoul(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static bool parse_status(const char *name, enum mkt_status *status_out)
{
    for (int i = MKT_OK + 1; i < MKT_STATUS_COUNT; i++)
        if (strcmp(name, mkt_status_name((enum mkt_status)i)) == 0) {
            *status_out = (enum mkt_status)i;
            return true;
        }
    return false;
}

static bool parse_action(const char *text, struct fault *fault)
{
    if (strcmp(text, "kill") == 0) {
        fault->action = ACTION_KILL;
        return true;
    }
    if (strcmp(text, "stop") == 0) {
        fault->action = ACTION_STOP;
        return true;
    }
    if (strncmp(text, "sleep=", 6) == 0) {
        fault->action = ACTION_SLEEP;
        return parse_number(text + 6, &fault->sleep_ms);
    }
    fault->action = ACTION_ERROR;
    return strncmp(text, "error=", 6) == 0 && parse_status(text + 6, &fault->status);
}

/* `text` is cut up. */
static bool parse_fault(char *text, struct fault *fault)
{
    char *rest = NULL;
    const char *point = strtok_r(text, ":", &rest), *action = strtok_r(NULL, ":", &rest),
               *count = strtok_r(NULL, ":", &rest);
    fault->count = 1;
    if (point == NULL || action == NULL || strlen(point) >= NAME_BYTES || *rest != '\0')
        return false;
    memcpy(fault->point, point, strlen(point) + 1);
    return parse_action(action, fault) &&
           (count == NULL || (parse_number(count, &fault->count) && fault->count > 0));
}

static void read_faults(const char *value)
{
    char *copy = strdup(value), *rest = NULL;
    for (char *item = copy ? strtok_r(copy, ",", &rest) : NULL; item != NULL;
         item = strtok_r(NULL, ",", &rest)) {
        if (facility.faults_count == FAULTS_MAX ||
            !parse_fault(item, &facility.faults[facility.faults_count])) {
            mkt_log_error("fault",
                          "H5MARKET_FAULT=%s is no list of at most %d NAME:ACTION[:COUNT] "
                          "(kill, stop, sleep=MS, error=STATUS); none is in force",
                          value, FAULTS_MAX);
            facility.faults_count = 0;
            break;
        }
        facility.faults_count++;
    }
    free(copy);
}

static void read_variables(void)
{
    const char *faults = getenv("H5MARKET_FAULT"), *trace = getenv("H5MARKET_FAULT_TRACE");
    if (faults != NULL && faults[0] != '\0')
        read_faults(faults);
    facility.once = getenv("H5MARKET_FAULT_ONCE");
    if (facility.once != NULL)
        facility.once = strdup(facility.once); /* the program may change its environment */
    if (trace != NULL && trace[0] != '\0') {
        facility.trace_fd = open(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (facility.trace_fd < 0)
            mkt_log_error("fault", "H5MARKET_FAULT_TRACE: can't open %s: %s", trace,
                          strerror(errno));
    }
}

/* True if there is anything to do at points. */
static bool is_on(void)
{
    int state = __atomic_load_n((int *)&facility.state, __ATOMIC_ACQUIRE), unread = UNREAD;
    if (state == UNREAD && __atomic_compare_exchange_n((int *)&facility.state, &unread, READING,
                                                       false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        read_variables();
        state = facility.faults_count > 0 || facility.trace_fd >= 0 ? ON : OFF;
        __atomic_store_n((int *)&facility.state, state, __ATOMIC_RELEASE);
    }
    while (state == UNREAD || state == READING) {
        sched_yield();
        state = __atomic_load_n((int *)&facility.state, __ATOMIC_ACQUIRE);
    }
    return state == ON;
}

/* ---- at a point ---- */

/* Which pass this is; 0 where there are more points than a test could mean. */
static unsigned long count_pass(const char *name)
{
    for (unsigned i = 0; i < POINTS_MAX; i++) {
        struct passed *point = &facility.points[i];
        const char *known = NULL;
        if (__atomic_compare_exchange_n(&point->name, &known, name, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE) ||
            strcmp(known, name) == 0)
            return __atomic_add_fetch(&point->count, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

static void trace(const char *name, unsigned long count)
{
    char line[NAME_BYTES + 32];
    int length = snprintf(line, sizeof(line), "%.*s %lu\n", NAME_BYTES, name, count);
    if (write(facility.trace_fd, line, (size_t)length) != length)
        mkt_log_error("fault", "H5MARKET_FAULT_TRACE: can't write: %s", strerror(errno));
}

static void sleep_ms(unsigned long ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* False: another process has acted here. */
static bool take_turn(const char *name)
{
    char path[PATH_MAX], pid[24];
    if (facility.once == NULL)
        return true;
    int length = snprintf(path, sizeof(path), "%s.%s", facility.once, name);
    if (length < 0 || (size_t)length >= sizeof(path))
        return false;
    length = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    if (write(fd, pid, (size_t)length) != length)
        mkt_log_error("fault", "H5MARKET_FAULT_ONCE: can't write: %s", strerror(errno));
    close(fd);
    return true;
}

static enum mkt_status act(const struct fault *fault)
{
    switch (fault->action) {
    case ACTION_KILL:
        kill(getpid(), SIGKILL);
        for (;;)
            pause(); /* the signal may take another thread first */
    case ACTION_STOP:
        kill(getpid(), SIGSTOP);
        return MKT_OK;
    case ACTION_SLEEP:
        sleep_ms(fault->sleep_ms);
        return MKT_OK;
    case ACTION_ERROR:
        break;
    }
    return fault->status;
}

enum mkt_status mkt_fault_point(const char *name)
{
    enum mkt_status status = MKT_OK;
    int kept_errno = errno;
    unsigned long count = is_on() ? count_pass(name) : 0;
    if (count > 0 && facility.trace_fd >= 0)
        trace(name, count);
    for (unsigned i = 0; status == MKT_OK && count > 0 && i < facility.faults_count; i++)
        if (facility.faults[i].count == count && strcmp(facility.faults[i].point, name) == 0 &&
            take_turn(name))
            status = act(&facility.faults[i]);
    errno = kept_errno;
    return status;
}
