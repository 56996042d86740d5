/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static error_t parse(int key, char *argument, struct argp_state *state)
{
    const char **config = state->input;
    if (key != 'c')
        return mkt_cli_parse_no_argument(key, state);
    *config = argument;
    return 0;
}

static const struct argp_option argp_options[] = {
    {"config", 'c', "F", 0, "The daemon's resources: an h5market.yaml (default: $H5MARKET_CONFIG)",
     0},
    {0}};
static const struct argp argp = {
    argp_options,
    parse,
    NULL,
    "Starts the market's daemon on this node, unless it runs, and says where it is."
    "\v"
    "Programs start one by themselves. In a batch job do it first: the daemon then belongs to the "
    "job "
    "and not to the step that wrote first, with which the batch system would end it.",
    NULL,
    NULL,
    NULL};

static void print_status(const json_t *status, bool ran)
{
    char limit[MKT_CLI_SHOWN_BYTES];
    const json_t *memory = json_object_get(status, "memory");
    printf("market daemon %s: process %" PRIu64 ", at most %s of memory\nfolder %s\nlog    %s\n",
           ran ? "runs already" : "started", mkt_cli_number(status, "pid"),
           mkt_cli_show_size(mkt_cli_number(memory, "limit_bytes"), limit),
           mkt_cli_string(status, "directory"), mkt_cli_string(status, "log"));
}

bool mkt_cli_is_running(void)
{
    struct mkt_client_options options = {0};
    struct mkt_client *client;
    struct mkt_error error;
    if (mkt_client_connect(&options, &client, &error) != MKT_OK)
        return false;
    mkt_client_destroy(client);
    return true;
}

/* Resources are in force since the daemon's start: a second `start` can't change them. */
static void warn_of_other_config(const json_t *status, const char *config)
{
    char absolute[PATH_MAX];
    if (!config || !realpath(config, absolute) ||
        strcmp(absolute, mkt_cli_string(status, "config")) == 0)
        return;
    const char *used = mkt_cli_string(status, "config");
    mkt_cli_complain(
        "it was started with %s%s, whose resources stay in force; `h5market stop` first "
        "to change them",
        used[0] ? "the configuration " : "no configuration", used);
}

int mkt_cli_start(int argc, char **argv)
{
    const char *config = NULL;
    struct mkt_client *client;
    json_t *status = NULL;
    mkt_cli_parse(&argp, 0, argc, argv, &config);
    if (config && access(config, R_OK) != 0) {
        mkt_cli_complain("can't read the configuration %s: %s", config, strerror(errno));
        return MKT_CLI_FAILED;
    }
    bool ran = mkt_cli_is_running();
    int result = mkt_cli_connect(true, config, &client);
    if (result != MKT_CLI_OK)
        return result;
    result = mkt_cli_query(client, MKT_QUERY_STATUS, NULL, &status);
    if (result == MKT_CLI_OK) {
        print_status(status, ran);
        if (ran)
            warn_of_other_config(status, config);
    }
    json_decref(status);
    mkt_client_destroy(client);
    return result;
}
