/* SPDX-License-Identifier: BSD-3-Clause */
/* `h5market wait`, and the same wait for `stop`: until what is in memory is safe on disk. */
#include "core/base/clock.h"
#include "core/base/progress.h"
#include "core/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TERMINAL_MS 500u  /* between two looks where a line changes on a terminal */
#define LOOK_MS     1000u /* a failing save is told soon, and a timeout kept */
#define REASONS_MAX 32u

/* ---- what is waited for ---- */

struct wait {
    struct mkt_client *client;
    const struct mkt_cli_wait *what;
    struct mkt_progress progress;
    uint64_t moved_ms;
    char *told[REASONS_MAX]; /* failures that were printed */
    unsigned told_count;
};

/* An ordinary file at the path is what saving ends with, also when the market has let it go. */
static enum mkt_status look_at(struct mkt_client *client, const char *file, uint32_t wait_ms,
                               struct mkt_save_state *state, struct mkt_error *error)
{
    enum mkt_status status = mkt_client_save_wait(client, file, wait_ms, state, error);
    if (status != MKT_NOT_FOUND || !file || mkt_path_kind(file) != MKT_PATH_FILE)
        return status;
    *state = (struct mkt_save_state){.files = 0};
    return MKT_OK;
}

/* The state of all that is waited for; *first_out is the first file that isn't saved. */
static enum mkt_status look(struct wait *wait, struct mkt_save_state *sum_out,
                            const char **first_out, struct mkt_error *error)
{
    const struct mkt_cli_wait *what = wait->what;
    struct mkt_save_state sum = {.files = 0};
    *first_out = NULL;
    if (what->count == 0)
        return look_at(wait->client, NULL, 0, sum_out, error);
    for (int i = 0; i < what->count; i++) {
        struct mkt_save_state state;
        enum mkt_status status = look_at(wait->client, what->files[i], 0, &state, error);
        if (status != MKT_OK)
            return status;
        if (state.files > 0 && !*first_out)
            *first_out = what->files[i];
        sum.files += state.files;
        sum.bytes += state.bytes;
        sum.failing += state.failing;
    }
    *sum_out = sum;
    return MKT_OK;
}

/* ---- what is said ---- */

static void show_progress(struct wait *wait, const struct mkt_save_state *state, uint64_t now)
{
    char left[MKT_CLI_SHOWN_BYTES], rate[MKT_CLI_SHOWN_BYTES];
    bool terminal = wait->progress.terminal;
    if (!mkt_progress_is_due(&wait->progress, now, false))
        return;
    fprintf(stderr, "%s%s: %" PRIu64 " file%s to be saved, %s left, %s/s%s%s", terminal ? "\r" : "",
            program_invocation_name, state->files, state->files == 1 ? "" : "s",
            mkt_cli_show_size(state->bytes, left),
            mkt_cli_show_size(mkt_progress_rate(&wait->progress, now), rate),
            state->failing ? ", some fail" : "", terminal ? "\033[K" : "\n");
}

static bool is_new(struct wait *wait, const char *failure)
{
    for (unsigned i = 0; i < wait->told_count; i++)
        if (strcmp(wait->told[i], failure) == 0)
            return false;
    if (wait->told_count < REASONS_MAX)
        wait->told[wait->told_count++] = mkt_cli_copy(failure);
    return true;
}

/* Failures of which file: of all, or of those named. */
static bool is_waited_for(const struct wait *wait, const json_t *object)
{
    char path[4096];
    for (int i = 0; i < wait->what->count; i++) {
        if (realpath(wait->what->files[i], path) &&
            strcmp(path, mkt_cli_string(object, "path")) == 0)
            return true;
    }
    return wait->what->count == 0;
}

/* One line for each failing file, at first and when its reason changes; `all`: for each. */
static void name_failing(struct wait *wait, bool all)
{
    json_t *answer = NULL, *object;
    size_t i;
    if (mkt_cli_query(wait->client, MKT_QUERY_LIST, NULL, &answer) != MKT_CLI_OK)
        return;
    for (i = 0; (object = json_array_get(json_object_get(answer, "objects"), i)); i++) {
        const json_t *saving = json_object_get(object, "saving");
        const char *failure = mkt_cli_string(saving, "failure");
        if (!failure[0] || !is_waited_for(wait, object))
            continue;
        char *line = mkt_cli_format("%s isn't saved: %s", mkt_cli_string(object, "path"), failure);
        if (is_new(wait, line) || all) {
            mkt_progress_end_line(&wait->progress);
            mkt_cli_complain("%s", line);
        }
        free(line);
    }
    json_decref(answer);
}

/* ---- the wait ---- */

static uint64_t time_left_ms(const struct wait *wait, uint64_t now)
{
    uint64_t end_ms = wait->progress.began_ms + wait->what->timeout_ms;
    if (wait->what->timeout_ms == UINT64_MAX)
        return UINT64_MAX;
    return now < end_ms ? end_ms - now : 0;
}

static bool has_failed(const struct wait *wait, const struct mkt_save_state *state, uint64_t now)
{
    return state->failing == state->files && now - wait->moved_ms >= wait->what->failing_ms;
}

static int give_up(struct wait *wait, const struct mkt_save_state *state, int result)
{
    char left[MKT_CLI_SHOWN_BYTES];
    mkt_progress_end_line(&wait->progress);
    name_failing(wait, true);
    mkt_cli_complain("%" PRIu64 " file%s (%s) %s not safe on disk %s; the data is still in memory",
                     state->files, state->files == 1 ? "" : "s",
                     mkt_cli_show_size(state->bytes, left), state->files == 1 ? "is" : "are",
                     result == MKT_CLI_TIMED_OUT ? "in that time" : "and can't be saved");
    return result;
}

/* Sleeps in the daemon, until the first file is safe or it is time to look again. */
static enum mkt_status doze(struct wait *wait, const char *first, uint64_t left_ms,
                            struct mkt_error *error)
{
    struct mkt_save_state state;
    uint64_t slice_ms = wait->progress.terminal && wait->progress.shown ? TERMINAL_MS : LOOK_MS;
    if (left_ms < slice_ms)
        slice_ms = left_ms;
    return look_at(wait->client, first, (uint32_t)slice_ms, &state, error);
}

static int wait_until_safe(struct wait *wait)
{
    struct mkt_save_state state;
    struct mkt_error error = {0};
    const char *first;
    for (;;) {
        if (look(wait, &state, &first, &error) != MKT_OK)
            break;
        uint64_t now = mkt_now_ms();
        if (mkt_progress_note(&wait->progress, state.bytes) || state.failing < state.files)
            wait->moved_ms = now;
        if (state.files == 0)
            return MKT_CLI_OK;
        if (state.failing > 0)
            name_failing(wait, false);
        if (has_failed(wait, &state, now))
            return give_up(wait, &state, MKT_CLI_FAILED);
        if (time_left_ms(wait, now) == 0)
            return give_up(wait, &state, MKT_CLI_TIMED_OUT);
        show_progress(wait, &state, now);
        if (doze(wait, first, time_left_ms(wait, now), &error) != MKT_OK)
            break;
    }
    mkt_progress_end_line(&wait->progress);
    return mkt_cli_fail(&error);
}

int mkt_cli_wait_until_safe(struct mkt_client *client, const struct mkt_cli_wait *what)
{
    struct wait wait = {.client = client,
                        .what = what,
                        .progress = {.began_ms = mkt_now_ms(), .terminal = isatty(STDERR_FILENO)}};
    int result = wait_until_safe(&wait);
    mkt_progress_end_line(&wait.progress);
    for (unsigned i = 0; i < wait.told_count; i++)
        free(wait.told[i]);
    return result;
}

/* ---- the command ---- */

struct options {
    bool all;
    struct mkt_cli_wait what;
};

uint64_t mkt_cli_parse_seconds(const char *text, struct argp_state *state, const char *option)
{
    char *end;
    errno = 0;
    double seconds = strtod(text, &end);
    if (end == text || *end || errno || !(seconds >= 0 && seconds <= 1e9))
        argp_error(state, "%s takes seconds, not '%s'", option, text);
    return (uint64_t)(seconds * 1000);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'a':
        options->all = true;
        return 0;
    case 't':
        options->what.timeout_ms = mkt_cli_parse_seconds(argument, state, "--timeout");
        return 0;
    case 'f':
        options->what.failing_ms = mkt_cli_parse_seconds(argument, state, "--failing");
        return 0;
    case ARGP_KEY_ARGS:
        options->what.files = state->argv + state->next;
        options->what.count = state->argc - state->next;
        return 0;
    case ARGP_KEY_END:
        if (options->all == (options->what.count > 0))
            argp_error(state, "either FILEs or --all");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"all", 'a', 0, 0, "Wait for all files of the market", 0},
    {"timeout", 't', "S", 0, "Wait at most S seconds (default: as long as it takes)", 0},
    {"failing", 'f', "S", 0,
     "Give up when all that is left has failed to be saved for S seconds (default: 60)", 0},
    {0}};
static const struct argp argp = {
    argp_options,
    parse,
    "FILE...\n--all",
    "Waits until files of mode `both` are safe on disk."
    "\v"
    "What counts is what is published when the command looks: a file that is open for writing is "
    "waited for with its last published version. After 2 s it shows the progress; a save that "
    "fails "
    "is named with its reason.\n\n"
    "Exit status: 0 all is on disk; 1 something can't be saved, or is of mode `memory`, which "
    "isn't "
    "saved by itself; 2 wrong usage; 3 the market has nothing under that name, nor is there a "
    "file; "
    "4 no market runs here; 5 the time was up.",
    NULL,
    NULL,
    NULL};

/* What is of mode memory never becomes safe by itself. */
static int check_modes(struct mkt_client *client, const struct mkt_cli_wait *what)
{
    for (int i = 0; i < what->count; i++) {
        struct mkt_error error = {0};
        char *text = NULL;
        if (mkt_client_query(client, MKT_QUERY_STAT, what->files[i], &text, &error) != MKT_OK)
            continue; /* the wait says what there is to say */
        json_t *object = json_loads(text, 0, NULL);
        const json_t *saving = json_object_get(object, "saving");
        bool never =
            json_is_object(saving) && strcmp(mkt_cli_string(saving, "state"), "memory") == 0;
        json_decref(object);
        free(text);
        if (never) {
            mkt_cli_complain("%s is in memory only (`mode: memory`) and isn't saved by itself: "
                             "`h5market save` writes it to disk",
                             what->files[i]);
            return MKT_CLI_FAILED;
        }
    }
    return MKT_CLI_OK;
}

/* Without a market, a file that is one is safe. */
static bool are_ordinary(const struct mkt_cli_wait *what)
{
    for (int i = 0; i < what->count; i++)
        if (mkt_path_kind(what->files[i]) != MKT_PATH_FILE)
            return false;
    return what->count > 0;
}

int mkt_cli_wait(int argc, char **argv)
{
    struct options options = {.what = {.timeout_ms = UINT64_MAX, .failing_ms = MKT_CLI_FAILING_MS}};
    struct mkt_client *client;
    mkt_cli_parse(&argp, 0, argc, argv, &options);
    if (are_ordinary(&options.what) && !mkt_cli_is_running())
        return MKT_CLI_OK;
    int result = mkt_cli_connect(false, NULL, &client);
    if (result != MKT_CLI_OK)
        return result;
    result = check_modes(client, &options.what);
    if (result == MKT_CLI_OK)
        result = mkt_cli_wait_until_safe(client, &options.what);
    mkt_client_destroy(client);
    return result;
}
