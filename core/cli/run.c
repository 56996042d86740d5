/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a command with the environment that makes HDF5 use the market. Everything else about the
 * command stays: this process becomes it.
 */
#include "core/cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOT_EXECUTABLE  126
#define NO_SUCH_PROGRAM 127

struct options {
    const char *wait, *config, *version, *after;
    char **command;
};

static bool is_seconds(const char *text)
{
    char *end;
    double seconds = strtod(text, &end);
    return end != text && !*end && seconds >= 0 && seconds <= 1e9;
}

static bool is_version(const char *text)
{
    return strspn(text, "0123456789") == strlen(text) && strlen(text) < 19 &&
           strtoull(text, NULL, 10) > 0;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'w':
        if (!is_seconds(argument))
            argp_error(state, "--wait takes seconds, not '%s'", argument);
        options->wait = argument;
        return 0;
    case 'c':
        options->config = argument;
        return 0;
    case 'n':
        if (!is_version(argument))
            argp_error(state, "--version takes a number from 1 on, not '%s'", argument);
        options->version = argument;
        return 0;
    case 'a':
        options->after = "start";
        return 0;
    case ARGP_KEY_ARG: /* the command begins: the rest is its own */
        options->command = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no CMD given");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"wait", 'w', "S", 0,
     "An open for reading waits S seconds for a file that nobody has written yet", 0},
    {"config", 'c', "F", 0, "Rules and resources: an h5market.yaml", 0},
    {"version", 'n', "N", 0, "Read version N of a file instead of the newest", 0},
    {"after-start", 'a', 0, 0, "Read only what is published after the program started", 0},
    {0}};
static const struct argp argp = {
    argp_options,
    parse,
    "[--] CMD [ARGUMENT...]",
    "Runs CMD with HDF5_PLUGIN_PATH and HDF5_VOL_CONNECTOR set to the market."
    "\v"
    "The same as\n"
    "  export HDF5_PLUGIN_PATH=<prefix>/lib/hdf5/plugin HDF5_VOL_CONNECTOR=\"market wait=S\"\n"
    "before CMD, with --config as H5MARKET_CONFIG. A launcher such as mpiexec passes these on to "
    "its "
    "ranks. The exit status is CMD's; 126 and 127 if it can't be run.",
    NULL,
    NULL,
    NULL};

static void set(const char *name, const char *value)
{
    if (setenv(name, value, 1) != 0) {
        mkt_cli_complain("out of memory");
        exit(MKT_CLI_FAILED);
    }
}

/* Our folder before those that are there. */
static void set_plugin_path(const char *folder)
{
    const char *before = getenv("HDF5_PLUGIN_PATH");
    if (!before || !before[0]) {
        set("HDF5_PLUGIN_PATH", folder);
        return;
    }
    size_t length = strlen(folder);
    if (strncmp(before, folder, length) == 0 && (before[length] == ':' || !before[length]))
        return;
    char *joined = mkt_cli_format("%s:%s", folder, before);
    set("HDF5_PLUGIN_PATH", joined);
    free(joined);
}

static void set_connector(const struct options *options)
{
    char *value = mkt_cli_format(
        "market%s%s%s%s%s%s", options->wait ? " wait=" : "", options->wait ? options->wait : "",
        options->version ? " version=" : "", options->version ? options->version : "",
        options->after ? " after=" : "", options->after ? options->after : "");
    set("HDF5_VOL_CONNECTOR", value);
    free(value);
}

static bool set_config(const char *config)
{
    char absolute[PATH_MAX];
    if (!config)
        return true;
    if (!realpath(config, absolute) || access(absolute, R_OK) != 0) {
        mkt_cli_complain("can't read the configuration %s: %s", config, strerror(errno));
        return false;
    }
    set("H5MARKET_CONFIG", absolute);
    return true;
}

int mkt_cli_run(int argc, char **argv)
{
    struct options options = {0};
    char folder[PATH_MAX], plugin[PATH_MAX];
    mkt_cli_parse(&argp, ARGP_IN_ORDER, argc, argv, &options);
    mkt_cli_installed("lib/hdf5/plugin", folder, sizeof(folder));
    if (!mkt_cli_installed("lib/hdf5/plugin/libhdf5_vol_market.so", plugin, sizeof(plugin))) {
        mkt_cli_complain("%s is missing, and HDF5 would go on without the market; install H5Market "
                         "again",
                         plugin);
        return MKT_CLI_FAILED;
    }
    set_plugin_path(folder);
    set_connector(&options);
    if (!set_config(options.config))
        return MKT_CLI_FAILED;
    fflush(NULL);
    execvp(options.command[0], options.command);
    int reason = errno;
    mkt_cli_complain("can't run %s: %s", options.command[0], strerror(reason));
    return reason == ENOENT ? NO_SUCH_PROGRAM : NOT_EXECUTABLE;
}
