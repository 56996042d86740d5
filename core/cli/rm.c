/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/cli.h"

#include <inttypes.h>

struct options {
    bool quiet;
    struct mkt_cli_files files;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    (void)argument;
    switch (key) {
    case 'q':
        options->quiet = true;
        return 0;
    default:
        return mkt_cli_parse_files(key, state, &options->files);
    }
}

static const struct argp_option argp_options[] = {{"quiet", 'q', 0, 0, "Say nothing on success", 0},
                                                  {0}};
static const struct argp argp = {
    argp_options,
    parse,
    "FILE...",
    "Withdraws files from the market, with all their versions, and removes their entries on disk."
    "\v"
    "Who has such a file open keeps what was opened; the memory comes free at the last close. "
    "Ordinary files are left alone. An entry whose data is lost (its market has ended) is removed "
    "too.",
    NULL,
    NULL,
    NULL};

static int withdraw(struct mkt_client *client, const char *file, bool quiet)
{
    struct mkt_error error = {0};
    uint64_t versions = 0;
    bool stub = mkt_path_kind(file) == MKT_PATH_STUB;
    enum mkt_status status = mkt_client_withdraw(client, file, &versions, &error);
    if (status == MKT_NOT_FOUND && !stub) {
        mkt_cli_complain(mkt_path_kind(file) == MKT_PATH_FILE
                             ? "%s: an ordinary file, not in the market; remove it with rm"
                             : "%s: not in the market; `h5market ls` lists what is",
                         file);
        return MKT_CLI_NOT_IN_MARKET;
    }
    if (status != MKT_OK)
        return mkt_cli_fail(&error);
    if (!quiet && versions == 0)
        printf("%s: left-over entry removed\n", file);
    else if (!quiet)
        printf("%s: withdrawn, %" PRIu64 " version%s\n", file, versions, versions == 1 ? "" : "s");
    return MKT_CLI_OK;
}

int mkt_cli_rm(int argc, char **argv)
{
    struct options options = {0};
    struct mkt_client *client;
    mkt_cli_parse(&argp, 0, argc, argv, &options);
    int result = mkt_cli_connect(false, NULL, &client);
    for (int i = 0; result == MKT_CLI_NO_DAEMON && i < options.files.count; i++)
        if (mkt_path_kind(options.files.list[i]) == MKT_PATH_STUB)
            mkt_cli_complain("%s is the entry of a file whose market has ended; remove it with rm",
                             options.files.list[i]);
    if (result != MKT_CLI_OK)
        return result;
    for (int i = 0; i < options.files.count; i++) {
        int one = withdraw(client, options.files.list[i], options.quiet);
        result = result ? result : one;
    }
    mkt_client_destroy(client);
    return result;
}
