/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * h5market-save: a version in the market becomes an HDF5 file on disk. `h5market save` runs it.
 * Exit statuses are those of `h5market`.
 */
#include "vol/save/save.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_WRONG_USAGE = 2,
    EXIT_NOT_IN_MARKET = 3,
    EXIT_NO_DAEMON = 4
};

struct options {
    const char *file, *path;
    uint64_t version;
    bool force;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted = number;
}

bool mkt_save_is_interrupted(void)
{
    return interrupted != 0;
}

static bool poll_interrupt(void *context)
{
    (void)context;
    return mkt_save_is_interrupted();
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    char *end;
    switch (key) {
    case 'f':
        options->force = true;
        return 0;
    case 'n':
        errno = 0;
        options->version = strtoull(argument, &end, 10);
        if (errno || end == argument || *end || argument[0] == '-' || options->version == 0)
            argp_error(state, "--version takes a number from 1 on, not '%s'", argument);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "too many arguments");
        *(state->arg_num ? &options->path : &options->file) = argument;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 2)
            argp_error(state, "FILE and PATH are needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"force", 'f', 0, 0, "Replace what stands at PATH", 0},
    {"version", 'n', "N", 0, "An older version that is kept; default the newest", 0},
    {0}};
static const struct argp argp = {
    argp_options,
    parse,
    "FILE PATH",
    "Writes FILE of the market to PATH, an HDF5 file that any program reads. PATH may be a folder."
    "\v"
    "The file appears at PATH whole or not at all. Nothing that stands there is replaced without "
    "--force, the entry of FILE itself included: with --force the file on disk then takes the "
    "place of "
    "what is in memory.",
    NULL,
    NULL,
    NULL};

static int complain(const struct mkt_error *error)
{
    fprintf(stderr, "%s: %s\n", program_invocation_name,
            error->text[0] ? error->text : mkt_status_text(error->status));
    return EXIT_FAILED;
}

/* Copies an opened version to the target. */
static enum mkt_status copy(struct mkt_client *client, const struct mkt_opened *opened,
                            struct mkt_save_target *target, struct mkt_save_progress *progress,
                            struct mkt_error *error)
{
    enum mkt_status status = mkt_save_version(target, client, opened, progress, error);
    if (status == MKT_OK && mkt_save_is_interrupted())
        status = mkt_error_set(error, MKT_CANCELLED, "interrupted; nothing was written");
    if (status == MKT_OK)
        status = mkt_save_target_finish(target, error);
    if (status == MKT_OK && target->is_stub) /* else the daemon finds that out within a second */
        (void)!mkt_client_withdraw_replaced(client, target->path, target->object, error);
    return status;
}

static int save_opened(struct mkt_client *client, const struct mkt_opened *opened,
                       const struct options *options)
{
    struct mkt_error error = {0};
    struct mkt_save_target target;
    struct mkt_save_progress progress = {.name = program_invocation_name,
                                         .lines.terminal = isatty(STDERR_FILENO)};
    enum mkt_status status =
        mkt_save_target_open(&target, options->path, options->file, options->force, &error);
    if (status == MKT_OK)
        status = copy(client, opened, &target, &progress, &error);
    if (status != MKT_OK)
        mkt_progress_end_line(&progress.lines);
    mkt_save_target_close(&target);
    if (status != MKT_OK)
        return complain(&error);
    printf("%s, version %" PRIu64 ": %.3f MiB saved to %s\n", options->file, opened->version,
           (double)(progress.total_bytes + opened->image_bytes) / (1 << 20), target.path);
    return EXIT_OK;
}

/* True if the market has the file at all. */
static bool is_known(struct mkt_client *client, const char *file)
{
    struct mkt_error error;
    char *json = NULL;
    bool known = mkt_client_query(client, MKT_QUERY_STAT, file, &json, &error) == MKT_OK;
    free(json);
    return known;
}

static int explain_missing(struct mkt_client *client, const struct options *options,
                           const struct mkt_error *error)
{
    enum mkt_path_kind kind = mkt_path_kind(options->file);
    const char *text = "not in the market; `h5market ls` lists what is";
    if (options->version && is_known(client, options->file)) {
        fprintf(stderr, "%s: %s has no version %" PRIu64 "; `h5market stat` lists those it has\n",
                program_invocation_name, options->file, options->version);
        return EXIT_NOT_IN_MARKET;
    }
    if (kind == MKT_PATH_FILE)
        text = "an ordinary file and not in the market; copy it";
    else if (error->text[0] && kind == MKT_PATH_STUB)
        text = error->text;
    fprintf(stderr, "%s: %s: %s\n", program_invocation_name, options->file, text);
    return EXIT_NOT_IN_MARKET;
}

static int save(struct mkt_client *client, const struct options *options)
{
    struct mkt_error error = {0};
    struct mkt_opened opened;
    struct mkt_open request = {.path = options->file,
                               .intent = MKT_INTENT_READ,
                               .size = 1,
                               .version = options->version,
                               .interrupted = poll_interrupt};
    enum mkt_status status = mkt_client_open(client, &request, &opened, &error);
    if (status == MKT_NOT_FOUND || (status == MKT_OK && opened.source != MKT_SOURCE_VERSION))
        return explain_missing(client, options, &error);
    if (status != MKT_OK)
        return complain(&error);
    int result = save_opened(client, &opened, options);
    mkt_client_close(client, opened.file);
    return result;
}

int main(int argc, char **argv)
{
    static char name[] = "h5market save";
    struct options options = {0};
    struct mkt_client_options client_options = {0};
    struct mkt_client *client;
    struct mkt_error error = {0};

    argv[0] = program_invocation_name = name;
    argp_err_exit_status = EXIT_WRONG_USAGE;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    /* This program is native HDF5's whatever its environment says. */
    unsetenv("HDF5_VOL_CONNECTOR");
    unsetenv("HDF5_DRIVER");
    unsetenv("HDF5_USE_FILE_LOCKING"); /* the lock is ours already */
    struct sigaction action = {.sa_handler = on_signal};
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &action, NULL);

    enum mkt_status status = mkt_client_connect(&client_options, &client, &error);
    if (status == MKT_NOT_FOUND) {
        fprintf(stderr, "%s: no market runs here for this user\n", program_invocation_name);
        return EXIT_NO_DAEMON;
    }
    if (status != MKT_OK)
        return complain(&error);
    int result = save(client, &options);
    mkt_client_destroy(client);
    return result;
}
