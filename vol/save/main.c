/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * h5market-save: a version in the market becomes an HDF5 file on disk. `h5market save` runs it.
 * Exit statuses are those of `h5market`.
 */
#include "vol/save/opened.h"
#include "vol/save/save.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    switch (key) {
    case 'f':
        options->force = true;
        return 0;
    case 'n':
        options->version = mkt_opened_parse_version(argument, state);
        return 0;
    default:
        return mkt_opened_parse_two(key, argument, state, "FILE and PATH", &options->file,
                                    &options->path);
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
        return mkt_opened_complain(&error);
    printf("%s, version %" PRIu64 ": %.3f MiB saved to %s\n", options->file, opened->version,
           (double)(progress.total_bytes + opened->image_bytes) / (1 << 20), target.path);
    return MKT_EXIT_OK;
}

static int save(struct mkt_client *client, const struct options *options)
{
    struct mkt_opened opened;
    const struct mkt_wanted wanted = {
        .file = options->file, .version = options->version, .interrupted = poll_interrupt};
    int result = mkt_opened_find(client, &wanted, &opened);
    if (result != MKT_EXIT_OK)
        return result;
    result = save_opened(client, &opened, options);
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
    argp_err_exit_status = MKT_EXIT_WRONG_USAGE;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    mkt_opened_be_native();
    struct sigaction action = {.sa_handler = on_signal};
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &action, NULL);

    enum mkt_status status = mkt_client_connect(&client_options, &client, &error);
    if (status == MKT_NOT_FOUND) {
        fprintf(stderr, "%s: no market runs here for this user\n", program_invocation_name);
        return MKT_EXIT_NO_DAEMON;
    }
    if (status != MKT_OK)
        return mkt_opened_complain(&error);
    int result = save(client, &options);
    mkt_client_destroy(client);
    return result;
}
