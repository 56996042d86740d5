/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/cli.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct options {
    bool json;
    char **patterns;
    int count;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    (void)argument;
    switch (key) {
    case 'j':
        options->json = true;
        return 0;
    case ARGP_KEY_ARGS:
        options->patterns = state->argv + state->next;
        options->count = state->argc - state->next;
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
    "[PATTERN...]",
    "Lists the files in the market."
    "\v"
    "A PATTERN without a slash is for a file's name, one with a slash "
    "for its path; a folder stands for "
    "all in it. `*` matches slashes too. WRITER is the program that "
    "has the file open for writing, with its "
    "number of processes. STATE is that of the newest version: "
    "`saved` on disk, `saving`, `unsaved` and to be saved, `failing` to "
    "be saved (why, and when it is tried again, stands below), or in "
    "`memory` only.",
    NULL,
    NULL,
    NULL};

/* A path as the daemon knows it; the caller frees it. */
static char *absolute_pattern(const char *pattern)
{
    char folder[PATH_MAX];
    if (pattern[0] == '/' || !realpath(".", folder))
        return mkt_cli_copy(pattern);
    while (pattern[0] == '.' && pattern[1] == '/')
        pattern += 2;
    return mkt_cli_format("%s/%s", folder, pattern);
}

static bool is_under(const char *folder, const char *path)
{
    char resolved[PATH_MAX];
    struct stat found;
    if (stat(folder, &found) != 0 || !S_ISDIR(found.st_mode) || !realpath(folder, resolved))
        return false;
    size_t length = strlen(resolved);
    return strncmp(path, resolved, length) == 0 && (length == 1 || path[length] == '/');
}

static bool matches(const char *pattern, const char *path)
{
    const char *leaf = strrchr(path, '/');
    if (is_under(pattern, path))
        return true;
    if (!strchr(pattern, '/'))
        return fnmatch(pattern, leaf ? leaf + 1 : path, 0) == 0;
    char *absolute = absolute_pattern(pattern);
    bool fits = fnmatch(absolute, path, 0) == 0;
    free(absolute);
    return fits;
}

static bool is_wanted(const struct options *options, const json_t *object)
{
    for (int i = 0; i < options->count; i++)
        if (matches(options->patterns[i], mkt_cli_string(object, "path")))
            return true;
    return options->count == 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(mkt_cli_string(*(json_t *const *)a, "path"),
                  mkt_cli_string(*(json_t *const *)b, "path"));
}

/* The objects wanted, by path. */
static json_t *choose(const struct options *options, const json_t *answer)
{
    json_t *objects = json_object_get(answer, "objects"), *chosen = json_array(), *object;
    size_t i, count = 0;
    json_t **list = mkt_cli_alloc(json_array_size(objects) * sizeof(*list));
    for (i = 0; (object = json_array_get(objects, i)); i++)
        if (is_wanted(options, object))
            list[count++] = object;
    qsort(list, count, sizeof(*list), by_path);
    for (i = 0; i < count; i++)
        json_array_append(chosen, list[i]);
    free(list);
    return chosen;
}

static void add_row(struct mkt_cli_table *table, const json_t *object)
{
    char size[MKT_CLI_SHOWN_BYTES], versions[24], readers[24], writer[128] = "-";
    const char *state = mkt_cli_string(json_object_get(object, "saving"), "state");
    const json_t *held = json_object_get(object, "writer");
    snprintf(versions, sizeof(versions), "%" PRIu64, mkt_cli_number(object, "versions"));
    snprintf(readers, sizeof(readers), "%" PRIu64, mkt_cli_number(object, "readers"));
    if (json_is_object(held))
        snprintf(writer, sizeof(writer), "%.90s (%" PRIu64 ")", mkt_cli_string(held, "program"),
                 mkt_cli_number(held, "ranks"));
    const char *const cells[] = {mkt_cli_show_size(mkt_cli_number(object, "bytes"), size),
                                 versions,
                                 readers,
                                 writer,
                                 state[0] ? state : "-",
                                 mkt_cli_string(object, "path")};
    mkt_cli_table_add(table, cells);
}

static void print_table(const json_t *objects, const json_t *status)
{
    static const char *const headings[] = {">SIZE",  ">VERSIONS", ">READERS",
                                           "WRITER", "STATE",     "PATH"};
    char used[MKT_CLI_SHOWN_BYTES], limit[MKT_CLI_SHOWN_BYTES];
    const json_t *memory = json_object_get(status, "memory"), *object;
    struct mkt_cli_table *table = mkt_cli_table_create(6, headings);
    size_t i;
    for (i = 0; (object = json_array_get(objects, i)); i++)
        add_row(table, object);
    if (json_array_size(objects))
        mkt_cli_table_print(table, stdout);
    mkt_cli_table_destroy(table);
    for (i = 0; (object = json_array_get(objects, i)); i++)
        mkt_cli_print_failure(json_object_get(object, "saving"), mkt_cli_string(object, "path"));
    printf("%zu file%s; the market uses %s of %s\n", json_array_size(objects),
           json_array_size(objects) == 1 ? "" : "s",
           mkt_cli_show_size(mkt_cli_number(memory, "used_bytes"), used),
           mkt_cli_show_size(mkt_cli_number(memory, "limit_bytes"), limit));
    if (mkt_cli_number(status, "unsaved_versions") > 0)
        printf("%" PRIu64 " to be saved, %s; `h5market wait` waits for them\n",
               mkt_cli_number(status, "unsaved_versions"),
               mkt_cli_show_size(mkt_cli_number(status, "unsaved_bytes"), used));
}

int mkt_cli_ls(int argc, char **argv)
{
    struct options options = {0};
    struct mkt_client *client;
    json_t *answer = NULL, *status = NULL;
    mkt_cli_parse(&argp, 0, argc, argv, &options);
    int result = mkt_cli_connect(false, NULL, &client);
    if (result != MKT_CLI_OK)
        return result;
    result = mkt_cli_query(client, MKT_QUERY_LIST, NULL, &answer);
    if (result == MKT_CLI_OK)
        result = mkt_cli_query(client, MKT_QUERY_STATUS, NULL, &status);
    if (result == MKT_CLI_OK) {
        json_t *objects = choose(&options, answer);
        if (options.json) {
            json_object_set(answer, "objects", objects);
            json_object_set(answer, "market", status);
            mkt_cli_print_json(answer);
        } else
            print_table(objects, status);
        json_decref(objects);
    }
    json_decref(answer);
    json_decref(status);
    mkt_client_destroy(client);
    return result;
}
