/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/cli.h"

#include <time.h>

#define GONE_WITHIN_MS 20000
#define LOOK_EVERY_MS  20

static error_t parse(int key, char *argument, struct argp_state *state)
{
    bool *discard = state->input;
    (void)argument;
    if (key != 'd')
        return mkt_cli_parse_no_argument(key, state);
    *discard = true;
    return 0;
}

static const struct argp_option argp_options[] = {
    {"discard", 'd', 0, 0, "Stop even though files are in memory only; they are lost", 0}, {0}};
static const struct argp argp = {argp_options,
                                 parse,
                                 NULL,
                                 "Stops the market's daemon and waits until it has ended."
                                 "\v"
                                 "While files exist in memory only it refuses, and says how many: "
                                 "`h5market save` or `h5market rm` "
                                 "them, or --discard. No daemon running is a success.",
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

int mkt_cli_stop(int argc, char **argv)
{
    bool discard = false;
    struct mkt_client *client;
    struct mkt_client_options options = {0};
    struct mkt_error error = {0};
    mkt_cli_parse(&argp, 0, argc, argv, &discard);
    enum mkt_status status = mkt_client_connect(&options, &client, &error);
    if (status == MKT_NOT_FOUND) {
        puts("no market runs here for this user");
        return MKT_CLI_OK;
    }
    if (status != MKT_OK) {
        mkt_cli_fail(&error);
        return MKT_CLI_FAILED;
    }
    status = mkt_client_stop(client, discard, &error);
    mkt_client_destroy(client);
    if (status != MKT_OK) {
        mkt_cli_fail(&error);
        return MKT_CLI_FAILED;
    }
    if (!wait_until_gone()) {
        mkt_cli_complain("the daemon agreed to stop and still runs after %d s",
                         GONE_WITHIN_MS / 1000);
        return MKT_CLI_FAILED;
    }
    puts("stopped");
    return MKT_CLI_OK;
}
