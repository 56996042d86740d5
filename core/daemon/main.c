/* SPDX-License-Identifier: BSD-3-Clause */
/* h5marketd: the composition root. Names the media, reads the arguments, becomes a service. */
#include "core/base/clock.h"
#include "core/client/client.h"
#include "core/daemon/daemon.h"
#include "core/daemon/peer.h"
#include "core/daemon/process.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CONFIG_BYTES_MAX (1 << 20)
#define BUSY_TIMEOUT_MS  15000u

/* The media that this daemon has; the first takes the data. */
static const struct mkt_medium *const media[] = {&mkt_medium_dram};

struct settings {
    bool is_foreground, on_demand;
    const char *config_path, *directory;
    struct mkt_config config;
};

const char *argp_program_version = "h5marketd " MKT_DAEMON_VERSION;

static const struct argp_option options[] = {
    {"foreground", 'f', NULL, 0, "Stay in the foreground, and log to standard error", 0},
    {"config", 'c', "FILE", 0, "Read resources from FILE (default: $H5MARKET_CONFIG, else none)",
     0},
    {"directory", 'd', "DIRECTORY", 0,
     "The market's folder (default: $H5MARKET_DIR, else one of this user, boot and batch job)", 0},
    {"on-demand", 'D', NULL, OPTION_HIDDEN, "Started by a program that needs one", 0},
    {0},
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct settings *settings = state->input;

    switch (key) {
    case 'f':
        settings->is_foreground = true;
        return 0;
    case 'c':
        settings->config_path = argument;
        return 0;
    case 'D':
        settings->on_demand = true;
        return 0;
    case 'd':
        settings->directory = argument;
        return 0;
    case ARGP_KEY_ARG:
        argp_usage(state);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse_option,
    .doc = "The market daemon: holds in memory what HDF5 programs of this user on this node hand "
           "to each other. Programs "
           "start it when they need it; it ends by itself when it holds nothing.",
};

static void sleep_ms(uint32_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

static enum mkt_status read_file(const char *path, char **text_out, size_t *length_out,
                                 struct mkt_error *error)
{
    FILE *file = fopen(path, "re");
    char *text = malloc(CONFIG_BYTES_MAX + 1);
    size_t length = 0;
    enum mkt_status status = MKT_OK;

    if (!text)
        status = mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    else if (!file)
        status = mkt_error_set(error, mkt_status_from_errno(errno),
                               "cannot read the configuration %.400s: %s", path, strerror(errno));
    else {
        length = fread(text, 1, CONFIG_BYTES_MAX + 1, file);
        if (ferror(file))
            status =
                mkt_error_set(error, MKT_IO_ERROR, "cannot read the configuration %.400s", path);
        else if (length > CONFIG_BYTES_MAX)
            status = mkt_error_set(error, MKT_INVALID, "%.400s: longer than 1 MiB", path);
    }
    if (file)
        fclose(file);
    if (status != MKT_OK)
        free(text);
    else {
        *text_out = text;
        *length_out = length;
    }
    return status;
}

static enum mkt_status read_config(struct settings *settings, struct mkt_error *error)
{
    char *text;
    size_t length;
    enum mkt_status status;

    if (!settings->config_path)
        settings->config_path = getenv("H5MARKET_CONFIG");
    if (!settings->config_path || !settings->config_path[0]) {
        settings->config_path = NULL;
        mkt_config_init(&settings->config);
        return MKT_OK;
    }
    status = read_file(settings->config_path, &text, &length, error);
    if (status != MKT_OK)
        return status;
    status = mkt_config_parse(text, length, settings->config_path, NULL, &settings->config, error);
    free(text);
    return status;
}

static enum mkt_status open_folder(const struct settings *settings, struct mkt_folder *folder_out,
                                   struct mkt_error *error)
{
    char path[PATH_MAX];
    enum mkt_status status;

    if (geteuid() == mkt_peer_overflow_uid())
        return mkt_error_set(
            error, MKT_DENIED,
            "user %u stands for everybody without a name here: there is no telling "
            "its processes from others'",
            (unsigned)geteuid());
    status = mkt_client_directory(settings->directory, true, path, sizeof(path), error);
    if (status != MKT_OK)
        return status;
    return mkt_folder_open(path, folder_out, error);
}

/* Creates the daemon, beside a keeper, reports on its start, and runs it to its end. Returns in
 * both; the exit status. */
static int serve(const struct settings *settings, struct mkt_folder *folder, int report_fd)
{
    struct mkt_daemon_options daemon_options = {.medium = media[0],
                                                .config = &settings->config,
                                                .config_path = settings->config_path,
                                                .on_demand = settings->on_demand,
                                                .folder = folder};
    struct mkt_daemon *daemon;
    struct mkt_error error;
    int exit_status;
    enum mkt_status status = mkt_folder_lock(folder, &error);

    if (status != MKT_OK) {
        mkt_process_report(report_fd, status == MKT_BUSY ? MKT_START_BUSY : MKT_START_FAILED,
                           error.text);
        if (report_fd < 0 && status != MKT_BUSY)
            fprintf(stderr, "h5marketd: %s\n", error.text);
        return status == MKT_BUSY ? -1 : 1;
    }
    if (settings->is_foreground)
        mkt_log_open(STDERR_FILENO, (enum mkt_log_level)settings->config.log_level);
    else
        status =
            mkt_folder_open_log(folder, (enum mkt_log_level)settings->config.log_level, &error);
    if (status == MKT_OK && !mkt_keeper_split(folder, settings->is_foreground, &report_fd,
                                              &daemon_options.keeper, &exit_status))
        return exit_status;
    if (status == MKT_OK)
        status = mkt_daemon_create(&daemon_options, &daemon, &error);
    if (status != MKT_OK) {
        mkt_log_error("daemon", "%s", error.text);
        if (!daemon_options.keeper || daemon_options.keeper->journal.state->restarts == 0)
            mkt_folder_leave(folder);
        mkt_process_report(report_fd, MKT_START_FAILED, error.text);
        return 1;
    }
    mkt_process_report(report_fd, MKT_START_READY, "");
    mkt_daemon_run(daemon);
    mkt_daemon_destroy(daemon);
    mkt_log_close();
    return 0;
}

/* One try. -1: another daemon holds the folder. */
static int try_start(const struct settings *settings, struct mkt_folder *folder)
{
    enum mkt_start start;
    char text[1024];
    int report_fd;

    if (settings->is_foreground) {
        mkt_process_settle();
        return serve(settings, folder, -1);
    }
    report_fd = mkt_process_detach(&start, text, sizeof(text));
    if (report_fd >= 0)
        exit(serve(settings, folder, report_fd) != 0);
    if (start == MKT_START_FAILED)
        fprintf(stderr, "h5marketd: %s\n", text);
    return start == MKT_START_READY ? 0 : start == MKT_START_BUSY ? -1 : 1;
}

/* Who holds the lock may not listen yet, or may be about to leave. */
static int start_or_find(const struct settings *settings, struct mkt_folder *folder)
{
    uint64_t end_ms = mkt_now_ms() + BUSY_TIMEOUT_MS;
    uint32_t pause_ms = 5;
    int status, pid;

    while ((status = try_start(settings, folder)) == -1) {
        if (mkt_folder_has_listener(folder, &pid)) {
            printf("h5marketd: process %d already serves %s\n", pid, folder->path);
            return 0;
        }
        if (mkt_now_ms() > end_ms) {
            fprintf(stderr, "h5marketd: process %d holds %s and doesn't answer\n", pid,
                    folder->path);
            return 1;
        }
        sleep_ms(pause_ms);
        pause_ms = pause_ms < 100 ? 2 * pause_ms : 200;
    }
    return status;
}

/* Who starts a daemon in the background reads its log, not its standard error. */
static int fail(const struct mkt_folder *folder, const struct mkt_error *error)
{
    fprintf(stderr, "h5marketd: %s\n", error->text);
    if (folder && mkt_folder_open_log(folder, MKT_LOG_INFO, NULL) == MKT_OK)
        mkt_log_error("daemon", "%s", error->text);
    return 1;
}

int main(int argc, char **argv)
{
    struct settings settings = {.is_foreground = false};
    struct mkt_folder folder;
    struct mkt_error error;

    mkt_process_close_inherited();
    argp_parse(&argp, argc, argv, 0, NULL, &settings);
    if (!settings.is_foreground)
        mkt_process_clean_environment(argv);
    if (open_folder(&settings, &folder, &error) != MKT_OK)
        return fail(NULL, &error);
    if (read_config(&settings, &error) != MKT_OK)
        return fail(settings.is_foreground ? NULL : &folder, &error);
    int status = start_or_find(&settings, &folder);
    mkt_config_fini(&settings.config);
    return status;
}
