/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A live view of the market: looks at it each second. On a terminal it has a screen, and waits for
 * a market that has gone; elsewhere it prints one look after the other.
 */
#include "core/cli/top.h"
#include "core/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_MS       1000u
#define INTERVAL_MIN_MS   50u
#define FILES             20u   /* where no screen limits them */
#define SCREEN_SILENCE_MS 5000u /* then the daemon counts as gone, and is looked for again */

struct options {
    bool json, once;
    uint64_t interval_ms;
    unsigned files;
};

struct top {
    struct options options;
    bool screen;
    struct mkt_client *client; /* NULL: it has gone */
    struct mkt_top_sample before, now;
    char gone[64];                  /* since when */
    char why[MKT_ERROR_TEXT_BYTES]; /* it can't be reached, though one runs; empty: none does */
};

static unsigned parse_count(const char *text, struct argp_state *state)
{
    char *end;
    errno = 0;
    unsigned long count = strtoul(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || count > 1000000)
        argp_error(state, "--files takes a number, not '%s'", text);
    return (unsigned)count;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'j':
        options->json = true;
        return 0;
    case 'o':
        options->once = true;
        return 0;
    case 'd':
        options->interval_ms = mkt_cli_parse_seconds(argument, state, "--delay");
        if (options->interval_ms < INTERVAL_MIN_MS)
            argp_error(state, "--delay takes at least 0.05 seconds");
        return 0;
    case 'n':
        options->files = parse_count(argument, state);
        return 0;
    default:
        return mkt_cli_parse_no_argument(key, state);
    }
}

static const struct argp_option argp_options[] = {
    {"delay", 'd', "SECONDS", 0, "Time from one look to the next, and of --once (default: 1)", 0},
    {"once", 'o', 0, 0, "Look for the time of one --delay, print, and end", 0},
    {"files", 'n', "N", 0, "At most N files (default: what the screen holds, else 20)", 0},
    {"json", 'j', 0, 0, "For programs: a line of JSON for each look (with --once: indented)", 0},
    {0}};
static const struct argp argp = {
    argp_options,
    parse,
    NULL,
    "Shows what the market does: memory and the tier below it, rates, what is to be saved, who "
    "waits for what, and the files, first those that are written or read."
    "\v"
    "On a terminal it draws a screen: q or Ctrl-C ends it, the space bar looks at once, and where "
    "the market ends it waits for the next. Elsewhere it prints one look after the other, and ends "
    "with status 4 when the market does.\n\n"
    "Rates are those since the former look. WRITTEN counts data when its program hands it to the "
    "market, at the latest when it closes the file; READS are opens for reading, and reads of what "
    "lies below memory (reads from memory don't pass the daemon). NEW: versions published since "
    "the former look. ON is who has what is waited for.",
    NULL,
    NULL,
    NULL};

/* ---- looking ---- */

static void sample_fini(struct mkt_top_sample *sample)
{
    json_decref(sample->status);
    json_decref(sample->list);
    *sample = (struct mkt_top_sample){.status = NULL};
}

static json_t *ask(struct mkt_client *client, enum mkt_query what, struct mkt_error *error)
{
    json_error_t json_error;
    char *text = NULL;
    if (mkt_client_query(client, what, NULL, &text, error) != MKT_OK)
        return NULL;
    json_t *answer = json_loads(text, 0, &json_error);
    free(text);
    if (!answer)
        mkt_error_set(error, MKT_PROTOCOL, "the daemon's answer can't be read (%s)",
                      json_error.text);
    return answer;
}

/* Another daemon's numbers have nothing to do with the former's. */
static bool is_another(const struct mkt_top_sample *before, const struct mkt_top_sample *now)
{
    return before->status && strcmp(mkt_cli_string(before->status, "daemon"),
                                    mkt_cli_string(now->status, "daemon")) != 0;
}

static bool look(struct top *top, struct mkt_error *error)
{
    struct mkt_top_sample sample = {.status = ask(top->client, MKT_QUERY_STATUS, error)};
    sample.time_ns = mkt_now_ns();
    sample.list = sample.status ? ask(top->client, MKT_QUERY_LIST, error) : NULL;
    if (!sample.list) {
        sample_fini(&sample);
        return false;
    }
    sample_fini(&top->before);
    top->before = top->now;
    top->now = sample;
    if (is_another(&top->before, &top->now))
        sample_fini(&top->before);
    return true;
}

/* ---- a market that goes ---- */

static void note_gone(struct top *top)
{
    time_t now = time(NULL);
    struct tm parts;
    mkt_client_destroy(top->client);
    top->client = NULL;
    sample_fini(&top->before);
    sample_fini(&top->now);
    localtime_r(&now, &parts);
    strftime(top->gone, sizeof(top->gone), "%H:%M:%S", &parts);
}

static void look_for_another(struct top *top)
{
    const struct mkt_client_options options = {.silence_ms = SCREEN_SILENCE_MS,
                                               .connect_timeout_ms = SCREEN_SILENCE_MS};
    struct mkt_error error;
    enum mkt_status status = mkt_client_connect(&options, &top->client, &error);
    top->why[0] = '\0';
    if (status == MKT_OK)
        return;
    top->client = NULL;
    if (status != MKT_NOT_FOUND)
        snprintf(top->why, sizeof(top->why), "%s", error.text);
}

/* ---- showing ---- */

static void draw(const struct top *top)
{
    struct mkt_top_view view = {.files = top->options.files ? top->options.files : UINT32_MAX,
                                .interval_s = (double)top->options.interval_ms / 1000};
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return;
    mkt_top_screen_size(&view.width, &view.height);
    if (top->now.status)
        mkt_top_print(out, &top->before, &top->now, &view);
    else
        fprintf(out,
                "h5market top: since %s no market %s here for this user\n%s\n\n"
                "It goes on as soon as one does; q ends it.\n",
                top->gone, top->why[0] ? "answers" : "runs", top->why);
    if (fclose(out) == 0)
        mkt_top_screen_draw(text);
    free(text);
}

static void print_json(const struct top *top, unsigned files)
{
    json_t *json = mkt_top_json(&top->before, &top->now, files);
    if (top->options.once) {
        mkt_cli_print_json(json);
    } else {
        json_dumpf(json, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
        putchar('\n');
    }
    json_decref(json);
}

static void print(const struct top *top)
{
    const struct mkt_top_view view = {.files = top->options.files ? top->options.files : FILES};
    if (top->options.json) {
        print_json(top, top->options.files ? top->options.files : UINT32_MAX);
    } else {
        mkt_top_print(stdout, &top->before, &top->now, &view);
        if (!top->options.once)
            putchar('\n');
    }
    fflush(stdout);
}

/* ---- the two ways to run ---- */

static int run_on_screen(struct top *top)
{
    struct mkt_error error;
    enum mkt_top_event event = MKT_TOP_TIME;
    note_gone(top); /* connects anew, with a screen's patience */
    mkt_top_screen_enter();
    while (event != MKT_TOP_QUIT) {
        uint64_t began = mkt_now_ns();
        if (!top->client)
            look_for_another(top);
        if (top->client && !look(top, &error))
            note_gone(top);
        do {
            draw(top);
            event = mkt_top_screen_wait(began + top->options.interval_ms * 1000000);
        } while (event == MKT_TOP_RESIZE);
    }
    mkt_top_screen_leave();
    return MKT_CLI_OK;
}

static void pause_until(uint64_t time_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(time_ns / 1000000000),
                                   .tv_nsec = (long)(time_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

static int run_in_pipe(struct top *top)
{
    struct mkt_error error = {0};
    for (;;) {
        uint64_t began = mkt_now_ns();
        if (!look(top, &error)) {
            mkt_cli_complain("the market has gone: %s", error.text);
            return MKT_CLI_NO_DAEMON;
        }
        if (top->before.status) {
            print(top);
            if (ferror(stdout))
                return MKT_CLI_FAILED;
            if (top->options.once)
                return MKT_CLI_OK;
        }
        pause_until(began + top->options.interval_ms * 1000000);
    }
}

int mkt_cli_top(int argc, char **argv)
{
    struct top top = {.options = {.interval_ms = INTERVAL_MS}};
    mkt_cli_parse(&argp, 0, argc, argv, &top.options);
    int result = mkt_cli_connect(false, NULL, &top.client);
    if (result != MKT_CLI_OK)
        return result;
    top.screen = !top.options.json && !top.options.once && mkt_top_screen_is_there();
    result = top.screen ? run_on_screen(&top) : run_in_pipe(&top);
    sample_fini(&top.before);
    sample_fini(&top.now);
    mkt_client_destroy(top.client);
    return result;
}
