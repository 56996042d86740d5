/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/cli.h"

#include <time.h>

#define GONE_WITHIN_MS 20000
#define LOOK_EVERY_MS  20

struct options {
    bool discard;
    struct mkt_cli_wait what;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'd':
        options->discard = true;
        return 0;
    case 't':
        options->what.timeout_ms = mkt_cli_parse_seconds(argument, state, "--timeout");
        return 0;
    default:
        return mkt_cli_parse_no_argument(key, state);
    }
}

static const struct argp_option argp_options[] = {
    {"discard", 'd', 0, 0, "Stop even though files are in memory only; they are lost", 0},
    {"timeout", 't', "S", 0, "Wait at most S seconds for files to be saved", 0},
    {0}};
static const struct argp argp = {argp_options,
                                 parse,
                                 NULL,
                                 "Stops the market's daemon and waits until it has ended."
                                 "\v"
                                 "Files of mode `both`, and those with `backup: true`, are saved "
                                 "first, with progress after 2 s; meanwhile no program opens a "
                                 "file for writing. While other files exist in memory only, or are "
                                 "being written, it refuses and says how many: `h5market save` or "
                                 "`h5market rm` them, or --discard, which waits for nothing. No "
                                 "daemon running is a success.",
                                 NULL,
                                 NULL,
                                 NULL};

/* A new connection is refused once the daemon has ended. */
static bool wait_until_gone(void)
{
    const struct timespec pause = {.tv_nsec = LOOK_EVERY_MS * 1000000L};
    for (int waited_ms = 0; waited_ms < GONE_WITHIN_MS; waited_ms += LOOK_EVERY_MS) {
        struct mkt_client_options options = {.connect_timeout_ms = 1000};
        struct mkt_client *client;
        struct mkt_error error;
        enum mkt_status status = mkt_client_connect(&options, &client, &error);
        if (status == MKT_NOT_FOUND)
            return true;
        if (status == MKT_OK)
            mkt_client_destroy(client);
        nanosleep(&pause, NULL);
    }
    return false;
}

static int stop(struct mkt_client *client, struct options *options)
{
    struct mkt_error error = {0};
    enum mkt_status status = options->discard ? MKT_OK : mkt_client_drain(client, &error);
    while (status == MKT_OK) {
        status = mkt_client_stop(client, options->discard, &error);
        if (status == MKT_OK)
            return MKT_CLI_OK;
        if (status != MKT_STALE)
            break;
        int result = mkt_cli_wait_until_safe(client, &options->what);
        if (result != MKT_CLI_OK) {
            mkt_cli_complain("not stopped; --discard gives up what isn't saved");
            return result;
        }
        status = MKT_OK;
    }
    mkt_cli_fail(&error);
    return MKT_CLI_FAILED;
}

int mkt_cli_stop(int argc, char **argv)
{
    struct options options = {.what = {.timeout_ms = UINT64_MAX, .failing_ms = MKT_CLI_FAILING_MS}};
    struct mkt_client *client;
    struct mkt_client_options connect = {0};
    struct mkt_error error = {0};
    mkt_cli_parse(&argp, 0, argc, argv, &options);
    enum mkt_status status = mkt_client_connect(&connect, &client, &error);
    if (status == MKT_NOT_FOUND) {
        puts("no market runs here for this user");
        return MKT_CLI_OK;
    }
    if (status != MKT_OK) {
        mkt_cli_fail(&error);
        return MKT_CLI_FAILED;
    }
    int result = stop(client, &options);
    mkt_client_destroy(client);
    if (result != MKT_CLI_OK)
        return result;
    if (!wait_until_gone()) {
        mkt_cli_complain("the daemon agreed to stop and still runs after %d s",
                         GONE_WITHIN_MS / 1000);
        return MKT_CLI_FAILED;
    }
    puts("stopped");
    return MKT_CLI_OK;
}
