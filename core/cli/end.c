/* SPDX-License-Identifier: BSD-3-Clause */
/* `h5market end`: a stream has no more versions. */
#include "core/cli/cli.h"

#include <inttypes.h>
#include <string.h>

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
    "PATTERN|FILE...",
    "Says that no more versions of these streams will come."
    "\v"
    "A reader with `deliver` next, all or every that has had all versions is told so by its next "
    "open, which fails with \"end of stream\", instead of waiting. FILE is for its whole stream: "
    "all files of the rule, if its writer's rule makes them one. A PATTERN (with * or ?) is as in "
    "a "
    "rule's `match`. Who writes such a file afterwards begins the stream anew.",
    NULL,
    NULL,
    NULL};

static int end(struct mkt_client *client, const char *name, bool quiet)
{
    struct mkt_error error = {0};
    bool is_pattern = strpbrk(name, "*?") && mkt_path_kind(name) == MKT_PATH_NONE;
    uint64_t streams = 0;
    enum mkt_status status = mkt_client_end(client, is_pattern ? NULL : name,
                                            is_pattern ? name : NULL, &streams, &error);
    if (status == MKT_NOT_FOUND) {
        mkt_cli_complain("%s: the market holds nothing of that stream; `h5market ls` lists what is "
                         "there",
                         name);
        return MKT_CLI_NOT_IN_MARKET;
    }
    if (status != MKT_OK)
        return mkt_cli_fail(&error);
    if (!quiet)
        printf("%s: no more versions will come\n", name);
    return MKT_CLI_OK;
}

int mkt_cli_end(int argc, char **argv)
{
    struct options options = {.files = {.what = "PATTERN or FILE"}};
    struct mkt_client *client;
    mkt_cli_parse(&argp, 0, argc, argv, &options);
    int result = mkt_cli_connect(false, NULL, &client);
    if (result != MKT_CLI_OK)
        return result;
    for (int i = 0; i < options.files.count; i++) {
        int one = end(client, options.files.list[i], options.quiet);
        result = result ? result : one;
    }
    mkt_client_destroy(client);
    return result;
}
