/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the commands of `h5market` share. A command is a function that gets its own argv (argv[0] is
 * "h5market NAME", for messages) and returns an exit status. One thread.
 */
#ifndef MKT_CLI_CLI_H
#define MKT_CLI_CLI_H

#include "core/client/client.h"
#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses; README and `h5market help` name them. */
enum mkt_cli_exit {
    MKT_CLI_OK = 0,
    MKT_CLI_FAILED = 1,        /* for `doctor`: a problem was found */
    MKT_CLI_USAGE = 2,         /* wrong options or arguments */
    MKT_CLI_NOT_IN_MARKET = 3, /* the market has nothing under that name */
    MKT_CLI_NO_DAEMON = 4,     /* no market runs here for this user */
    MKT_CLI_TIMED_OUT = 5      /* `wait`: the time was up */
};

struct mkt_cli_command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};

int mkt_cli_ls(int argc, char **argv);
int mkt_cli_stat(int argc, char **argv);
int mkt_cli_top(int argc, char **argv);
int mkt_cli_end(int argc, char **argv);
int mkt_cli_rm(int argc, char **argv);
int mkt_cli_load(int argc, char **argv);
int mkt_cli_save(int argc, char **argv);
int mkt_cli_plan(int argc, char **argv);
int mkt_cli_config(int argc, char **argv);
int mkt_cli_wait(int argc, char **argv);
int mkt_cli_start(int argc, char **argv);
int mkt_cli_stop(int argc, char **argv);
int mkt_cli_run(int argc, char **argv);
int mkt_cli_doctor(int argc, char **argv);
int mkt_cli_version(int argc, char **argv);

/* Prints "h5market NAME: text" to standard error. */
void mkt_cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for an error of the client, and the exit status that stands for it. */
int mkt_cli_fail(const struct mkt_error *error);

/* Where this installation (or build tree) is: the folder above bin/. */
const char *mkt_cli_prefix(void);
/* A path in it; false if it doesn't fit or nothing is there. path_out is set in the second case. */
bool mkt_cli_installed(const char *below, char *path_out, size_t capacity);

/* Becomes a program of lib/h5market/, which has HDF5; returns only if that fails, with the exit
 * status. */
int mkt_cli_become(const char *program, char **argv);

/* Connects to the daemon that runs; `start`: or to one that it starts. On failure complains and
 * returns the exit status, else MKT_CLI_OK. */
int mkt_cli_connect(bool start, const char *config_path, struct mkt_client **client_out);

/* True if a market runs here for this user. */
bool mkt_cli_is_running(void);

/* ---- wait.c ---- */
struct mkt_cli_wait {
    char **files; /* count 0: all that the market has to save */
    int count;
    uint64_t timeout_ms; /* UINT64_MAX: none */
    uint64_t failing_ms; /* gives up when all that is left has failed for so long */
};
#define MKT_CLI_FAILING_MS 60000u
/* An option's value in milliseconds; ends with a usage error. */
uint64_t mkt_cli_parse_seconds(const char *text, struct argp_state *state, const char *option);
/* Waits until they are safe on disk, with progress on standard error; names what can't be saved.
 * MKT_CLI_OK, MKT_CLI_FAILED, MKT_CLI_NOT_IN_MARKET, MKT_CLI_TIMED_OUT. */
int mkt_cli_wait_until_safe(struct mkt_client *client, const struct mkt_cli_wait *what);

/* Asks and parses; complains on failure. *answer_out is the caller's to json_decref. */
int mkt_cli_query(struct mkt_client *client, enum mkt_query what, const char *path,
                  json_t **answer_out);
/* A member as a number or a string; 0 and "" where it is absent. */
uint64_t mkt_cli_number(const json_t *object, const char *key);
const char *mkt_cli_string(const json_t *object, const char *key);
/* Why a save fails and when it is tried again, as a line; nothing if it doesn't. */
void mkt_cli_print_failure(const json_t *saving, const char *what);
/* Prints a value for --json: sorted as the daemon sent it, indented, a newline at the end. */
void mkt_cli_print_json(const json_t *value);

/* "1.25 GiB", "40 KiB"; "12 s", "3 min", "2.5 h", "4 d". Return `text`. */
#define MKT_CLI_SHOWN_BYTES 32
const char *mkt_cli_show_size(uint64_t bytes, char text[MKT_CLI_SHOWN_BYTES]);
const char *mkt_cli_show_age(uint64_t ms, char text[MKT_CLI_SHOWN_BYTES]);

/* ---- table.c: rows of text under headings, columns aligned ---- */
struct mkt_cli_table;
/* One word a column; a leading '>' aligns it to the right. */
struct mkt_cli_table *mkt_cli_table_create(unsigned columns, const char *const headings[]);
/* Cells are copied. */
void mkt_cli_table_add(struct mkt_cli_table *table, const char *const cells[]);
void mkt_cli_table_print(const struct mkt_cli_table *table, FILE *out);
void mkt_cli_table_destroy(struct mkt_cli_table *table);

/* Parses options with argp; usage errors exit with MKT_CLI_USAGE. */
void mkt_cli_parse(const struct argp *argp, unsigned flags, int argc, char **argv, void *input);
/* What argp asks a command that takes no arguments, its options aside. */
error_t mkt_cli_parse_no_argument(int key, struct argp_state *state);
/* What argp asks a command of one or more FILEs. */
struct mkt_cli_files {
    const char *what; /* for messages; NULL: "FILE" */
    char **list;
    int count;
};
error_t mkt_cli_parse_files(int key, struct argp_state *state, struct mkt_cli_files *files);
/* Memory for the command's own small things: never NULL (ends the program with a message). */
void *mkt_cli_alloc(size_t bytes);
char *mkt_cli_copy(const char *text);
char *mkt_cli_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
