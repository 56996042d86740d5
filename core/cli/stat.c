/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
    bool json;
    const char *file;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'j':
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->file)
            argp_error(state, "one FILE only");
        options->file = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"json", 'j', 0, 0, "Print what the daemon says, for programs", 0}, {0}};
static const struct argp argp = {
    argp_options,
    parse,
    "[FILE]",
    "Shows one file of the market: its versions with their sizes, pieces, readers and ages, and "
    "who writes it. Without "
    "FILE, the market itself."
    "\v"
    "DATA is raw data of datasets, IMAGE the rest of the HDF5 file, INDEX what finds the pieces. "
    "The "
    "newest version is marked with *. Of a stream the named readers stand below: VERSION is what "
    "one got last, UNREAD how many versions of this file it has still to read, SKIPPED what went "
    "before it came; who is `gone` isn't waited for. MEMORY of a file counts what versions share "
    "once. STATE: "
    "`saved` on disk, `saving`, `unsaved` and to be saved, `failing` to be saved, or in `memory` "
    "only.",
    NULL,
    NULL,
    NULL};

/* ---- a file ---- */

static void print_versions(const json_t *versions)
{
    static const char *const headings[] = {">VERSION", ">AGE",    ">DATA",    ">IMAGE", ">INDEX",
                                           ">ARRAYS",  ">PIECES", ">READERS", "STATE"};
    static const char *const counts[] = {"arrays", "pieces", "readers"};
    static const char *const sizes[] = {"data_bytes", "image_bytes", "index_bytes"};
    struct mkt_cli_table *table = mkt_cli_table_create(9, headings);
    const json_t *version;
    size_t row;
    for (row = 0; (version = json_array_get(versions, row)); row++) {
        char text[8][MKT_CLI_SHOWN_BYTES];
        const char *cells[9];
        snprintf(text[0], sizeof(text[0]), "%s%" PRIu64,
                 json_is_true(json_object_get(version, "newest")) ? "*" : "",
                 mkt_cli_number(version, "version"));
        mkt_cli_show_age(mkt_cli_number(version, "age_s") * 1000, text[1]);
        for (int i = 0; i < 3; i++) {
            mkt_cli_show_size(mkt_cli_number(version, sizes[i]), text[2 + i]);
            snprintf(text[5 + i], sizeof(text[5 + i]), "%" PRIu64,
                     mkt_cli_number(version, counts[i]));
        }
        for (int i = 0; i < 8; i++)
            cells[i] = text[i];
        cells[8] = mkt_cli_string(json_object_get(version, "saving"), "state");
        mkt_cli_table_add(table, cells);
    }
    if (json_array_size(versions))
        mkt_cli_table_print(table, stdout);
    mkt_cli_table_destroy(table);
}

static void print_readers(const json_t *readers)
{
    static const char *const headings[] = {"READER",   "PROGRAM", ">PROCESS", "STATE",   "DELIVER",
                                           ">VERSION", ">UNREAD", ">HAD",     ">SKIPPED"};
    static const char *const counts[] = {"last_version", "unread", "delivered", "skipped"};
    struct mkt_cli_table *table = mkt_cli_table_create(9, headings);
    const json_t *reader;
    for (size_t row = 0; (reader = json_array_get(readers, row)); row++) {
        char text[4][24], pid[24], deliver[32];
        const char *cells[9] = {mkt_cli_string(reader, "name"), mkt_cli_string(reader, "program"),
                                pid, mkt_cli_string(reader, "state"), deliver};
        uint64_t every = mkt_cli_number(reader, "every");
        snprintf(pid, sizeof(pid), "%" PRIu64, mkt_cli_number(reader, "pid"));
        snprintf(deliver, sizeof(deliver), "%s", mkt_cli_string(reader, "deliver"));
        if (strcmp(deliver, "every") == 0)
            snprintf(deliver, sizeof(deliver), "every %" PRIu64, every);
        for (int i = 0; i < 4; i++) {
            snprintf(text[i], sizeof(text[i]), "%" PRIu64, mkt_cli_number(reader, counts[i]));
            cells[5 + i] = text[i];
        }
        mkt_cli_table_add(table, cells);
    }
    if (json_array_size(readers))
        mkt_cli_table_print(table, stdout);
    mkt_cli_table_destroy(table);
}

/* "plt*, queue 2 of 3 unread, 2 readers wanted, ended" */
static void print_stream(const json_t *object)
{
    const json_t *stream = json_object_get(object, "stream");
    uint64_t queue = mkt_cli_number(stream, "queue"), wanted = mkt_cli_number(stream, "readers");
    const char *pattern = mkt_cli_string(stream, "pattern");
    if (!json_is_object(stream))
        return;
    printf("stream   %s%s%" PRIu64 " unread", pattern, pattern[0] ? ", " : "",
           mkt_cli_number(stream, "unread"));
    if (queue > 0)
        printf(" (queue %" PRIu64 ")", queue);
    if (json_is_true(json_object_get(stream, "until_consumed")))
        printf(", until %" PRIu64 " reader%s read it", wanted > 0 ? wanted : 1,
               wanted > 1 ? "s have" : " has");
    puts(json_is_true(json_object_get(stream, "ended")) ? ", ended" : "");
    print_readers(json_object_get(object, "named_readers"));
}

static void print_file(const json_t *object)
{
    char size[MKT_CLI_SHOWN_BYTES];
    const json_t *writer = json_object_get(object, "writer");
    uint64_t tier = mkt_cli_number(object, "tier_bytes");
    printf("path     %s\nobject   %s\nmemory   %s\n", mkt_cli_string(object, "path"),
           mkt_cli_string(object, "object"),
           mkt_cli_show_size(mkt_cli_number(object, "bytes") - tier, size));
    if (tier > 0)
        printf("below    %s\n", mkt_cli_show_size(tier, size));
    printf("readers  %" PRIu64 "\n", mkt_cli_number(object, "readers"));
    if (json_is_object(writer))
        printf("writer   %s, process %" PRIu64 ", %" PRIu64 " rank%s\n",
               mkt_cli_string(writer, "program"), mkt_cli_number(writer, "pid"),
               mkt_cli_number(writer, "ranks"), mkt_cli_number(writer, "ranks") == 1 ? "" : "s");
    else
        puts("writer   none");
    printf("mode     %s%s%s%s\n", mkt_cli_string(object, "mode"),
           mkt_cli_string(object, "durability")[0] ? ", durability " : "",
           mkt_cli_string(object, "durability"),
           json_is_true(json_object_get(object, "backup")) ? ", backup" : "");
    if (mkt_cli_number(object, "newest_version") == 0)
        puts("no version is published yet: it appears when the writer closes the file");
    print_versions(json_object_get(object, "all_versions"));
    print_stream(object);
    mkt_cli_print_failure(json_object_get(object, "saving"), mkt_cli_string(object, "path"));
}

/* ---- the market ---- */

static void print_keeper(const json_t *status)
{
    char text[MKT_CLI_SHOWN_BYTES];
    uint64_t restarts = mkt_cli_number(status, "restarts");

    printf("%-16s", "keeper");
    if (json_is_true(json_object_get(status, "has_keeper")))
        printf("yes");
    else
        printf("no keeper: if this process ends, what is in memory is lost");
    if (restarts > 0)
        printf(", %" PRIu64 " restart%s, the last after %s, %s ago", restarts,
               restarts == 1 ? "" : "s", mkt_cli_string(status, "restart_reason"),
               mkt_cli_show_age(mkt_cli_number(status, "restarted_s") * 1000, text));
    putchar('\n');
}

static void print_saves(const json_t *status)
{
    char size[MKT_CLI_SHOWN_BYTES], time[MKT_CLI_SHOWN_BYTES];

    printf("%-16s%" PRIu64 " (%s), paused for programs %s in all\n", "saved so far",
           mkt_cli_number(status, "saved_versions"),
           mkt_cli_show_size(mkt_cli_number(status, "saved_bytes"), size),
           mkt_cli_show_age(mkt_cli_number(status, "yielded_ms"), time));
}

static void print_tier(const json_t *tier)
{
    char text[2][MKT_CLI_SHOWN_BYTES];

    if (!json_is_object(tier))
        return;
    printf("%-16s%-14s %s of %s in %s, %s, %s%s%s\n", "below memory", "used",
           mkt_cli_show_size(mkt_cli_number(tier, "used_bytes"), text[0]),
           mkt_cli_show_size(mkt_cli_number(tier, "limit_bytes"), text[1]),
           mkt_cli_string(tier, "folders"),
           json_is_true(json_object_get(tier, "uses_direct")) ? "O_DIRECT"
                                                              : "through the page cache",
           json_is_true(json_object_get(tier, "uses_uring")) ? "io_uring" : "pread and pwrite",
           mkt_cli_string(tier, "why_not")[0] ? ": " : "", mkt_cli_string(tier, "why_not"));
    printf("%-16s%-14s %s out, %s back, in %" PRIu64 " reads\n", "", "moved",
           mkt_cli_show_size(mkt_cli_number(tier, "moved_out_bytes"), text[0]),
           mkt_cli_show_size(mkt_cli_number(tier, "moved_in_bytes"), text[1]),
           mkt_cli_number(tier, "reads"));
    if (json_is_string(json_object_get(tier, "failure")))
        printf("%-16smoving out fails: %s\n", "", mkt_cli_string(tier, "failure"));
}

static void print_nodes(const json_t *memory)
{
    const json_t *nodes = json_object_get(memory, "nodes"), *node;
    char text[3][MKT_CLI_SHOWN_BYTES], name[MKT_CLI_SHOWN_BYTES];

    for (size_t i = 0; (node = json_array_get(nodes, i)); i++) {
        bool is_one = json_is_integer(json_object_get(node, "node"));

        snprintf(name, sizeof(name), is_one ? "node %" PRIu64 : "no node",
                 mkt_cli_number(node, "node"));
        printf("%-16s%-14s %s used, %s resident", i == 0 ? "NUMA" : "", name,
               mkt_cli_show_size(mkt_cli_number(node, "used_bytes"), text[0]),
               mkt_cli_show_size(mkt_cli_number(node, "resident_bytes"), text[1]));
        if (is_one)
            printf(", the node has %s%s",
                   mkt_cli_show_size(mkt_cli_number(node, "memory_bytes"), text[2]),
                   json_is_true(json_object_get(node, "is_bound"))
                       ? ""
                       : "; not bound to it, see the log");
        putchar('\n');
    }
    if (json_is_string(json_object_get(memory, "no_nodes")))
        printf("%-16s%s\n", "NUMA", mkt_cli_string(memory, "no_nodes"));
}

static void print_market(const json_t *status)
{
    static const struct {
        const char *key, *label;
    } sizes[] = {{"limit_bytes", "limit"},
                 {"used_bytes", "used"},
                 {"live_bytes", "versions"},
                 {"granted_bytes", "being written"},
                 {"resident_bytes", "resident"}};
    static const char *const counts[] = {"objects",  "versions",      "unsaved_versions", "groups",
                                         "sessions", "waiting_opens", "waiting_grants"};
    static const char *const labels[] = {"files",         "versions",  "to be saved",
                                         "files open",    "processes", "waiting opens",
                                         "waiting writes"};
    char text[MKT_CLI_SHOWN_BYTES];
    const json_t *memory = json_object_get(status, "memory");
    printf("%-16s%s, process %" PRIu64 " on %s, up %s\n", "h5marketd",
           mkt_cli_string(status, "version"), mkt_cli_number(status, "pid"),
           mkt_cli_string(status, "host"),
           mkt_cli_show_age(mkt_cli_number(status, "uptime_s") * 1000, text));
    print_keeper(status);
    printf("%-16s%s\n%-16s%s\n%-16s%s\n", "folder", mkt_cli_string(status, "directory"), "log",
           mkt_cli_string(status, "log"), "configuration",
           json_is_string(json_object_get(status, "config")) ? mkt_cli_string(status, "config")
                                                             : "none, all defaults");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        printf("%-16s%-14s %s", i == 0 ? "memory" : "", sizes[i].label,
               mkt_cli_show_size(mkt_cli_number(memory, sizes[i].key), text));
        if (i == 0)
            printf(", of %s (%s)", mkt_cli_show_size(mkt_cli_number(memory, "of_bytes"), text),
                   mkt_cli_string(memory, "source"));
        putchar('\n');
    }
    print_nodes(memory);
    print_tier(json_object_get(status, "tier"));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        printf("%-16s%" PRIu64 "\n", labels[i], mkt_cli_number(status, counts[i]));
    print_saves(status);
}

static int explain_missing(const char *file)
{
    switch (mkt_path_kind(file)) {
    case MKT_PATH_STUB:
        mkt_cli_complain(
            "%s is the entry of a file that this market doesn't hold; `h5market doctor` says why",
            file);
        break;
    case MKT_PATH_FILE:
        mkt_cli_complain("%s is an ordinary file, not in the market", file);
        break;
    case MKT_PATH_NONE:
        mkt_cli_complain("%s: not in the market; `h5market ls` lists what is", file);
        break;
    }
    return MKT_CLI_NOT_IN_MARKET;
}

static int show(struct mkt_client *client, const struct options *options)
{
    struct mkt_error error = {0};
    char *text = NULL;
    enum mkt_query what = options->file ? MKT_QUERY_STAT : MKT_QUERY_STATUS;
    json_t *answer = NULL;
    if (options->file &&
        mkt_client_query(client, what, options->file, &text, &error) == MKT_NOT_FOUND)
        return explain_missing(options->file);
    free(text);
    int result = mkt_cli_query(client, what, options->file, &answer);
    if (result != MKT_CLI_OK)
        return result;
    if (options->json)
        mkt_cli_print_json(answer);
    else if (options->file)
        print_file(answer);
    else
        print_market(answer);
    json_decref(answer);
    return MKT_CLI_OK;
}

int mkt_cli_stat(int argc, char **argv)
{
    struct options options = {0};
    struct mkt_client *client;
    mkt_cli_parse(&argp, 0, argc, argv, &options);
    int result = mkt_cli_connect(false, NULL, &client);
    if (result != MKT_CLI_OK)
        return result;
    result = show(client, &options);
    mkt_client_destroy(client);
    return result;
}
