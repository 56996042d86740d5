/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/archiver.h"
#include "core/base/clock.h"

#include "core/daemon/daemon.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME           "h5market-archiver"
#define PROGRAM        "lib/h5market/" NAME
#define PAUSE_FIRST_MS 100u /* before it is started again; twice as long each time, up to */
#define PAUSE_LAST_MS  30000u
#define STEADY_MS      60000u /* it ran so long: the next pause is short again */

struct mkt_archivers {
    struct mkt_daemon *daemon;
    char program[PATH_MAX];
    bool installed, running, stopping, wanted;
    uv_process_t process;
    uv_timer_t pause;
    bool pausing;
    uint64_t started_ms;
    uint32_t failures; /* in a row */
};

/* The folder above bin/, where this program is. */
static bool find_program(char *program, size_t capacity)
{
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);

    if (length <= 0)
        return false;
    own[length] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(own, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    int written = snprintf(program, capacity, "%s/" PROGRAM, own);
    return written > 0 && (size_t)written < capacity && access(program, X_OK) == 0;
}

struct mkt_archivers *mkt_archivers_create(struct mkt_daemon *daemon)
{
    struct mkt_archivers *archivers = calloc(1, sizeof(*archivers));

    if (!archivers)
        return NULL;
    archivers->daemon = daemon;
    archivers->installed = find_program(archivers->program, sizeof(archivers->program));
    uv_timer_init(&daemon->loop, &archivers->pause);
    archivers->pause.data = archivers;
    return archivers;
}

bool mkt_archivers_installed(const struct mkt_archivers *archivers)
{
    return archivers->installed;
}

static void settle(struct mkt_archivers *archivers)
{
    if (archivers->wanted)
        mkt_archivers_settle(archivers, 1);
}

static void on_pause_over(uv_timer_t *timer)
{
    struct mkt_archivers *archivers = timer->data;

    archivers->pausing = false;
    settle(archivers);
}

static void start_pause(struct mkt_archivers *archivers)
{
    uint32_t pause_ms = PAUSE_FIRST_MS << (archivers->failures < 9 ? archivers->failures : 9);

    archivers->failures++;
    archivers->pausing = true;
    uv_timer_start(&archivers->pause, on_pause_over,
                   pause_ms < PAUSE_LAST_MS ? pause_ms : PAUSE_LAST_MS, 0);
}

static void on_closed(uv_handle_t *handle)
{
    struct mkt_archivers *archivers = handle->data;

    archivers->running = false;
    if (!archivers->stopping && !archivers->pausing)
        settle(archivers);
}

static void on_exit_of(uv_process_t *process, int64_t status, int signal)
{
    struct mkt_archivers *archivers = process->data;
    bool failed = status != 0 || signal != 0;

    if (mkt_now_ms() - archivers->started_ms >= STEADY_MS || !failed)
        archivers->failures = 0;
    if (failed && !archivers->stopping) {
        mkt_log_warning("archiver", "h5market-archiver ended by %s %d; it is started again",
                        signal ? "signal" : "status", signal ? signal : (int)status);
        start_pause(archivers);
    }
    uv_close((uv_handle_t *)process, on_closed);
}

static void start(struct mkt_archivers *archivers)
{
    char level[16];
    char *arguments[] = {archivers->program, archivers->daemon->folder.path, level, NULL};
    /* Standard error is the log, or where it goes. */
    uv_stdio_container_t streams[] = {{.flags = UV_IGNORE},
                                      {.flags = UV_IGNORE},
                                      {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO}};
    uv_process_options_t options = {.exit_cb = on_exit_of,
                                    .file = archivers->program,
                                    .args = arguments,
                                    .stdio_count = sizeof(streams) / sizeof(streams[0]),
                                    .stdio = streams,
                                    .flags = UV_PROCESS_DETACHED};

    snprintf(level, sizeof(level), "%d", (int)mkt_log_level());
    int failed = uv_spawn(&archivers->daemon->loop, &archivers->process, &options);
    archivers->process.data = archivers;
    archivers->running = true;
    archivers->started_ms = mkt_now_ms();
    if (!failed)
        return;
    mkt_log_error("archiver", "can't start %s: %s", archivers->program, uv_strerror(failed));
    start_pause(archivers);
    uv_close((uv_handle_t *)&archivers->process, on_closed);
}

/* One that a worker before this one started goes on, or is about to. When its process has ended,
 * this is asked again. */
static bool has_former(const struct mkt_archivers *archivers)
{
    const struct mkt_daemon *daemon = archivers->daemon;
    const struct mkt_connection *connection, *next;
    uint64_t processed;

    if (!daemon->keeper || daemon->keeper->journal.state->restarts == 0)
        return false;
    HASH_ITER (by_session, daemon->connections, connection, next) {
        if (strcmp(connection->program, NAME) == 0 &&
            mkt_market_session_resume(daemon->market, connection->session, &processed) == MKT_OK)
            return true;
    }
    return false;
}

void mkt_archivers_settle(struct mkt_archivers *archivers, uint64_t unsaved)
{
    archivers->wanted = unsaved > 0;
    if (archivers->wanted && archivers->installed && !archivers->running && !archivers->pausing &&
        !archivers->stopping && !has_former(archivers))
        start(archivers);
}

void mkt_archivers_stop(struct mkt_archivers *archivers)
{
    archivers->stopping = true;
    if (archivers->running && !uv_is_closing((uv_handle_t *)&archivers->process))
        uv_process_kill(&archivers->process, SIGKILL);
    if (!uv_is_closing((uv_handle_t *)&archivers->pause))
        uv_close((uv_handle_t *)&archivers->pause, NULL);
}

void mkt_archivers_destroy(struct mkt_archivers *archivers)
{
    free(archivers);
}
