/* SPDX-License-Identifier: BSD-3-Clause */
/* `h5market COMMAND ...`: finds the command in the table and runs it. */
#include "core/cli/cli.h"

#include <stdlib.h>
#include <string.h>

static int help(int argc, char **argv);

static const struct mkt_cli_command commands[] = {
    {"ls", "list the files in the market", mkt_cli_ls},
    {"stat", "show one file: versions, pieces, readers, writer", mkt_cli_stat},
    {"top", "watch what the market does: memory, rates, who waits, files", mkt_cli_top},
    {"end", "say that no more versions of a stream will come", mkt_cli_end},
    {"rm", "withdraw files from the market", mkt_cli_rm},
    {"load", "bring HDF5 files on disk into memory", mkt_cli_load},
    {"save", "write a file of the market to disk as an HDF5 file", mkt_cli_save},
    {"plan", "show what reading a part of a dataset would cost", mkt_cli_plan},
    {"wait", "wait until files are safe on disk", mkt_cli_wait},
    {"start", "start the market's daemon on this node", mkt_cli_start},
    {"stop", "stop it", mkt_cli_stop},
    {"config", "check a configuration, and say which rule is for a file", mkt_cli_config},
    {"run", "run a program with the market as its HDF5 connector", mkt_cli_run},
    {"doctor", "find out why something does not work", mkt_cli_doctor},
    {"version", "show the version and the HDF5 flavours it serves", mkt_cli_version},
    {"help", "show this, or the options of a command", help},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *out)
{
    fputs("usage: h5market COMMAND [OPTION...] [ARGUMENT...]\n\n"
          "HDF5 programs of one user on one node hand their files over through memory.\n\n",
          out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-9s%s\n", commands[i].name, commands[i].summary);
    fputs("\n`h5market COMMAND --help` shows a command's options.\n\n"
          "Environment: H5MARKET_DIR is the market's folder (default: one for each user, boot and "
          "batch\n"
          "job); H5MARKET_CONFIG is an h5market.yaml.\n\n"
          "Exit status: 0 success; 1 it failed (doctor: a problem was found); 2 wrong usage;\n"
          "3 the market has nothing under that name; 4 no market runs here (for\n"
          "`stop` that is a success); 5 the time was up (`wait`).\n",
          out);
}

static const struct mkt_cli_command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int run(const struct mkt_cli_command *command, int argc, char **argv)
{
    argv[0] = mkt_cli_format("h5market %s", command->name);
    program_invocation_name = argv[0];
    int status = command->run(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        mkt_cli_complain("can't write to standard output");
        status = status ? status : MKT_CLI_FAILED;
    }
    program_invocation_name = "h5market";
    free(argv[0]);
    return status;
}

static int help(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-' || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return MKT_CLI_OK;
    }
    const struct mkt_cli_command *command = find(argv[1]);
    if (!command) {
        mkt_cli_complain("no command '%s'; `h5market help` lists them", argv[1]);
        return MKT_CLI_USAGE;
    }
    char name[64], option[] = "--help";
    snprintf(name, sizeof(name), "h5market %s", command->name);
    char *arguments[] = {name, option, NULL};
    return command->run(2, arguments);
}

int main(int argc, char **argv)
{
    argp_err_exit_status = MKT_CLI_USAGE;
    if (argc < 2) {
        print_help(stderr);
        return MKT_CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "-?") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    const struct mkt_cli_command *command = find(name);
    if (!command) {
        fprintf(stderr, "h5market: no command '%s'; `h5market help` lists them\n", name);
        return MKT_CLI_USAGE;
    }
    return run(command, argc - 1, argv + 1);
}
