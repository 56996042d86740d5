/* SPDX-License-Identifier: BSD-3-Clause */
/* Real files into memory, ahead of their readers. */
#include "core/base/clock.h"
#include "core/base/progress.h"
#include "core/cli/cli.h"

#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct options {
    bool quiet, latest;
    struct mkt_cli_files files;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted = number;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    (void)argument;
    switch (key) {
    case 'q':
        options->quiet = true;
        return 0;
    case 'l':
        options->latest = true;
        return 0;
    default:
        return mkt_cli_parse_files(key, state, &options->files);
    }
}

static const struct argp_option argp_options[] = {
    {"latest", 'l', 0, 0,
     "The arguments are patterns: of all files that match, the newest complete one. Prints its "
     "path",
     0},
    {"quiet", 'q', 0, 0, "Say nothing on success but the path of --latest", 0},
    {0}};
static const struct argp argp = {
    argp_options,
    parse,
    "FILE...\n--latest PATTERN...",
    "Brings HDF5 files on disk into memory, where their readers find them. A market is started if "
    "none runs."
    "\v"
    "The files stay as they are, and what is in memory of them goes when the memory is needed. A "
    "file that changes on disk is read from there again.\n"
    "With --latest files that are being written, were left by a writer that died, or are truncated "
    "don't count, and files in memory do: what is printed can be gone on from. Quote the pattern.",
    NULL,
    NULL,
    NULL};

/* ---- one file ---- */

struct progress {
    const char *file;
    bool quiet;
    struct mkt_progress lines;
};

static void show(void *context, uint64_t done, uint64_t total)
{
    struct progress *progress = context;
    bool last = done == total, terminal = progress->lines.terminal;
    if (progress->quiet || !mkt_progress_is_due(&progress->lines, mkt_now_ms(), last))
        return;
    fprintf(stderr, "%s%s: %s: %.2f of %.2f GiB%s", terminal ? "\r" : "", program_invocation_name,
            progress->file, (double)done / (1 << 30), (double)total / (1 << 30),
            terminal && !last ? "" : "\n");
}

static bool poll_interrupt(void *context)
{
    (void)context;
    return interrupted != 0;
}

static enum mkt_status load_one(struct mkt_client *client, const char *file, bool quiet,
                                uint64_t *bytes_out, struct mkt_error *error)
{
    struct progress progress = {
        .file = file,
        .quiet = quiet,
        .lines = {.began_ms = mkt_now_ms(), .terminal = isatty(STDERR_FILENO)}};
    const struct mkt_load load = {.path = file,
                                  .yields = true,
                                  .progress = show,
                                  .interrupted = poll_interrupt,
                                  .context = &progress};
    enum mkt_status status = mkt_client_load(client, &load, bytes_out, error);
    if (status != MKT_OK)
        mkt_progress_end_line(&progress.lines);
    return status;
}

/* True if the market has a version of what stands at the path. */
static bool is_in_memory(struct mkt_client *client, const char *file)
{
    struct mkt_open probe = {.path = file, .intent = MKT_INTENT_PROBE, .size = 1};
    struct mkt_opened opened = {0};
    struct mkt_error error;
    return mkt_client_open(client, &probe, &opened, &error) == MKT_OK &&
           opened.source == MKT_SOURCE_VERSION && opened.version > 0;
}

static int load_file(struct mkt_client *client, const char *file, bool quiet)
{
    struct mkt_error error = {0};
    char size[MKT_CLI_SHOWN_BYTES];
    uint64_t bytes = 0;
    enum mkt_status status = load_one(client, file, quiet, &bytes, &error);
    if (status == MKT_EXISTS && !is_in_memory(client, file)) {
        mkt_cli_complain("%s is the entry of a file that this market has no version of; `h5market "
                         "doctor` says why",
                         file);
        return MKT_CLI_NOT_IN_MARKET;
    }
    if (status != MKT_OK && status != MKT_EXISTS) {
        mkt_cli_fail(&error);
        return MKT_CLI_FAILED;
    }
    if (!quiet && status == MKT_EXISTS)
        printf("%s: in memory already\n", file);
    else if (!quiet)
        printf("%s: %s\n", file, mkt_cli_show_size(bytes, size));
    return MKT_CLI_OK;
}

/* ---- the newest ---- */

struct candidate {
    const char *path;
    int64_t time_ns;
};

static int newest_first(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? 1 : -1;
    return -strcmp(a->path, b->path); /* of one time: the last by name, as steps are numbered */
}

/* When what stands for the path in memory was published; 0: nothing does. */
static int64_t published_ns(struct mkt_client *client, const char *path)
{
    struct mkt_error error;
    int64_t time_ns = 0;
    char *text = NULL;
    if (mkt_client_query(client, MKT_QUERY_STAT, path, &text, &error) != MKT_OK)
        return 0;
    json_t *object = json_loads(text, 0, NULL);
    const json_t *versions = json_object_get(object, "all_versions");
    for (size_t i = 0; i < json_array_size(versions); i++) {
        const json_t *version = json_array_get(versions, i);
        if (json_is_true(json_object_get(version, "newest")))
            time_ns = (int64_t)mkt_wall_ns() - (int64_t)mkt_cli_number(version, "age_ms") * 1000000;
    }
    json_decref(object);
    free(text);
    return time_ns;
}

/* An entry is older than its version, a file that was saved younger, one that was loaded older. */
static void correct_time(struct mkt_client *client, struct candidate *candidate)
{
    int64_t time_ns = published_ns(client, candidate->path);
    bool is_entry = mkt_path_kind(candidate->path) == MKT_PATH_STUB;
    if (time_ns != 0 && (is_entry || time_ns < candidate->time_ns))
        candidate->time_ns = time_ns;
}

static bool is_complete(struct mkt_client *client, const char *path, const char **why_out)
{
    static struct mkt_error error;
    if (is_in_memory(client, path))
        return true;
    bool complete = mkt_client_is_complete(path, &error) == MKT_OK;
    *why_out = error.text;
    return complete;
}

static int load_newest(struct mkt_client *client, struct candidate *list, size_t count, bool quiet)
{
    struct mkt_error error = {0};
    const char *why = "";
    uint64_t bytes;
    for (size_t i = 0; i < count; i++)
        correct_time(client, &list[i]);
    qsort(list, count, sizeof(*list), newest_first);
    for (size_t i = 0; i < count && !interrupted; i++) {
        if (!is_complete(client, list[i].path, &why)) {
            mkt_cli_complain("passed over: %s", why);
            continue;
        }
        enum mkt_status status = load_one(client, list[i].path, quiet, &bytes, &error);
        if (status == MKT_CANCELLED)
            return mkt_cli_fail(&error);
        if (status != MKT_OK && status != MKT_EXISTS)
            mkt_cli_complain("%s; it can be read from disk", error.text);
        puts(list[i].path);
        return MKT_CLI_OK;
    }
    mkt_cli_complain("no complete file matches");
    return MKT_CLI_FAILED;
}

static int load_latest(struct mkt_client *client, const struct options *options)
{
    glob_t found = {0};
    for (int i = 0; i < options->files.count; i++)
        (void)glob(options->files.list[i], i > 0 ? GLOB_APPEND : 0, NULL, &found);
    struct candidate *list = mkt_cli_alloc((found.gl_pathc + 1) * sizeof(*list));
    size_t count = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat info;
        if (stat(found.gl_pathv[i], &info) == 0 && S_ISREG(info.st_mode))
            list[count++] =
                (struct candidate){found.gl_pathv[i], (int64_t)mkt_timespec_ns(&info.st_mtim)};
    }
    int result = load_newest(client, list, count, options->quiet);
    free(list);
    globfree(&found);
    return result;
}

int mkt_cli_load(int argc, char **argv)
{
    struct options options = {0};
    struct mkt_client *client;
    mkt_cli_parse(&argp, 0, argc, argv, &options);
    int result = mkt_cli_connect(true, NULL, &client);
    if (result != MKT_CLI_OK)
        return result;
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (options.latest) {
        result = load_latest(client, &options);
    } else {
        for (int i = 0; i < options.files.count && !interrupted; i++) {
            int one = load_file(client, options.files.list[i], options.quiet);
            result = result ? result : one;
        }
    }
    mkt_client_destroy(client);
    return result;
}
