/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/doctor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    bool report;
    const char *folder;
    char **command;
};

static bool is_folder(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'r':
        options->report = true;
        return 0;
    case ARGP_KEY_ARG:
        if (!state->quoted && !options->folder && is_folder(argument)) {
            options->folder = argument;
            return 0;
        }
        options->command = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"report", 'r', 0, 0, "Then print all that a bug report needs", 0}, {0}};
static const struct argp argp = {
    argp_options,
    parse,
    "[FOLDER] [[--] CMD [ARGUMENT...]]",
    "Finds out why programs don't use the market, and says the remedy."
    "\v"
    "FOLDER is searched for entries whose data is lost (default: the working folder, without the "
    "folders in it). CMD is a program, or a command line such as `mpiexec -n 4 ./sim`: it is not "
    "run, but its files are "
    "read to see which HDF5 it would use. To see whether HDF5 takes the connector, a small program "
    "is run that writes and "
    "reads a file in a temporary folder: where HDF5 can't load a connector it reports that once "
    "and then silently uses "
    "ordinary files. Exit status 1 if a problem was found; warnings don't count.",
    NULL,
    NULL,
    NULL};

void mkt_doctor_say(struct mkt_doctor *doctor, enum mkt_verdict verdict, const char *remedy,
                    const char *format, ...)
{
    static const char *const words[] = {"ok", "hint", "warning", "problem"};
    static const char *const colours[] = {"\033[32m", "\033[36m", "\033[33m", "\033[1;31m"};
    va_list arguments;
    doctor->warnings += verdict == MKT_WARNING;
    doctor->problems += verdict == MKT_PROBLEM;
    printf("%s%-9s%s", doctor->colour ? colours[verdict] : "", words[verdict],
           doctor->colour ? "\033[0m" : "");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    if (remedy)
        printf("%9sremedy: %s\n", "", remedy);
    fflush(stdout); /* before the next check waits */
}

int mkt_cli_doctor(int argc, char **argv)
{
    struct options options = {0};
    struct mkt_doctor doctor = {.colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR")};
    mkt_cli_parse(&argp, ARGP_IN_ORDER, argc, argv, &options);
    doctor.folder = options.folder ? options.folder : ".";
    doctor.folder_given = options.folder != NULL;
    doctor.programs = options.command;

    mkt_doctor_installation(&doctor);
    mkt_doctor_environment(&doctor);
    mkt_doctor_market(&doctor);
    mkt_doctor_probe(&doctor);
    mkt_doctor_program(&doctor);
    mkt_doctor_stubs(&doctor);
    printf("\n%u problem%s, %u warning%s\n", doctor.problems, doctor.problems == 1 ? "" : "s",
           doctor.warnings, doctor.warnings == 1 ? "" : "s");
    if (options.report)
        mkt_doctor_report(&doctor);
    mkt_client_destroy(doctor.client);
    return doctor.problems ? MKT_CLI_FAILED : MKT_CLI_OK;
}
