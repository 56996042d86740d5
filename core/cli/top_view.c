/* SPDX-License-Identifier: BSD-3-Clause */
/* What `h5market top` shows of two looks at the market. Prints, and keeps nothing. */
#include "core/cli/top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BAR_CELLS   32
#define WRITER_MAX  16 /* characters; the path has the rest of the line */
#define PATH_MIN    16
#define OTHER_CELLS 46 /* of a file's line: all but writer and path */
#define WAIT_CELLS  60 /* of the line of one that waits: all but the path */
#define WAITS_SHARE 3  /* of the screen's lines, so much of a part is for who waits */

/* ---- numbers ---- */

enum rate {
    RATE_WRITTEN,
    RATE_PUBLISHES,
    RATE_OPENS,
    RATE_OUT,
    RATE_IN,
    RATE_FETCHES,
    RATE_SAVES,
    RATE_SAVED,
    RATES
};

static const struct {
    const char *part, *key; /* of STATUS */
    const char *name;       /* in JSON, for a second */
} counters[RATES] = {[RATE_WRITTEN] = {NULL, "written_bytes", "written_bytes"},
                     [RATE_PUBLISHES] = {NULL, "publishes", "publishes"},
                     [RATE_OPENS] = {NULL, "read_opens", "read_opens"},
                     [RATE_OUT] = {"tier", "moved_out_bytes", "moved_out_bytes"},
                     [RATE_IN] = {"tier", "moved_in_bytes", "moved_in_bytes"},
                     [RATE_FETCHES] = {"tier", "reads", "tier_reads"},
                     [RATE_SAVES] = {NULL, "saved_versions", "saved_versions"},
                     [RATE_SAVED] = {NULL, "saved_bytes", "saved_bytes"}};

static uint64_t counter(const json_t *status, enum rate rate)
{
    const json_t *part =
        counters[rate].part ? json_object_get(status, counters[rate].part) : status;
    return mkt_cli_number(part, counters[rate].key);
}

static double seconds_between(const struct mkt_top_sample *before, const struct mkt_top_sample *now)
{
    return before->status ? (double)(now->time_ns - before->time_ns) / 1e9 : 0;
}

/* A second; below 0: not known. */
static double rate_of(const struct mkt_top_sample *before, const struct mkt_top_sample *now,
                      enum rate rate)
{
    double seconds = seconds_between(before, now);
    if (!(seconds > 0))
        return -1;
    uint64_t was = counter(before->status, rate), is = counter(now->status, rate);
    return is > was ? (double)(is - was) / seconds : 0;
}

static const char *show_bytes_a_second(double rate, char text[MKT_CLI_SHOWN_BYTES])
{
    char size[MKT_CLI_SHOWN_BYTES];
    if (rate < 0)
        return "-";
    snprintf(text, MKT_CLI_SHOWN_BYTES, "%.20s/s", mkt_cli_show_size((uint64_t)rate, size));
    return text;
}

static const char *show_times_a_second(double rate, char text[MKT_CLI_SHOWN_BYTES])
{
    if (rate < 0)
        return "-";
    snprintf(text, MKT_CLI_SHOWN_BYTES, "%.*f/s", rate < 100 && rate > 0 ? 1 : 0, rate);
    return text;
}

/* ---- the heading ---- */

static void print_title(FILE *out, const json_t *status, const struct mkt_top_view *view)
{
    char up[MKT_CLI_SHOWN_BYTES], clock[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    localtime_r(&now, &parts);
    strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
    fprintf(out, "h5marketd %" PRIu64 " on %s, up %s; connections: %" PRIu64 "; %s",
            mkt_cli_number(status, "pid"), mkt_cli_string(status, "host"),
            mkt_cli_show_age(mkt_cli_number(status, "uptime_s") * 1000, up),
            mkt_cli_number(status, "connections"), clock);
    if (view->interval_s > 0)
        fprintf(out, ", each %g s", view->interval_s);
    fputs("\n", out);
}

static void print_bar(FILE *out, const char *label, uint64_t used, uint64_t limit)
{
    char text[2][MKT_CLI_SHOWN_BYTES];
    double share = limit > 0 ? (double)used / (double)limit : 0;
    unsigned cells = share >= 1 ? BAR_CELLS : (unsigned)(share * BAR_CELLS + 0.5);
    if (cells == 0 && used > 0)
        cells = 1; /* a little isn't nothing */
    fprintf(out, "%-8s[", label);
    for (unsigned cell = 0; cell < BAR_CELLS; cell++)
        fputc(cell < cells ? '#' : '.', out);
    fprintf(out, "] %s of %s (%.0f %%)\n", mkt_cli_show_size(used, text[0]),
            mkt_cli_show_size(limit, text[1]), share * 100);
}

static void print_rates(FILE *out, const struct mkt_top_sample *before,
                        const struct mkt_top_sample *now)
{
    char text[3][MKT_CLI_SHOWN_BYTES];
    fprintf(out, "%-8swritten %s, versions %s, opened to read %s\n", "rates",
            show_bytes_a_second(rate_of(before, now, RATE_WRITTEN), text[0]),
            show_times_a_second(rate_of(before, now, RATE_PUBLISHES), text[1]),
            show_times_a_second(rate_of(before, now, RATE_OPENS), text[2]));
    if (!json_is_object(json_object_get(now->status, "tier")))
        return;
    fprintf(out, "%-8smoved below %s, back %s, reads from there %s\n", "",
            show_bytes_a_second(rate_of(before, now, RATE_OUT), text[0]),
            show_bytes_a_second(rate_of(before, now, RATE_IN), text[1]),
            show_times_a_second(rate_of(before, now, RATE_FETCHES), text[2]));
}

static size_t count_failing(const json_t *list)
{
    json_t *object;
    size_t i, failing = 0;
    for (i = 0; (object = json_array_get(json_object_get(list, "objects"), i)); i++) {
        const json_t *saving = json_object_get(object, "saving");
        failing += strcmp(mkt_cli_string(saving, "state"), "failing") == 0;
    }
    return failing;
}

static void print_queue(FILE *out, const struct mkt_top_sample *before,
                        const struct mkt_top_sample *now)
{
    char text[3][MKT_CLI_SHOWN_BYTES];
    size_t failing = count_failing(now->list);
    fprintf(out, "%-8s%" PRIu64 " version%s to be saved, %s", "to disk",
            mkt_cli_number(now->status, "unsaved_versions"),
            mkt_cli_number(now->status, "unsaved_versions") == 1 ? "" : "s",
            mkt_cli_show_size(mkt_cli_number(now->status, "unsaved_bytes"), text[0]));
    if (failing > 0)
        fprintf(out, ", %zu FAILING (`h5market ls` says why)", failing);
    fprintf(out, "; saved %s, %s\n", show_times_a_second(rate_of(before, now, RATE_SAVES), text[1]),
            show_bytes_a_second(rate_of(before, now, RATE_SAVED), text[2]));
}

/* ---- paths ---- */

/* The end of a path, which tells most; `width` 0: all of it. The caller frees it. */
static char *shorten(const char *path, unsigned width)
{
    size_t characters = 0;
    for (const char *at = path; *at; at++)
        characters += ((unsigned char)*at & 0xc0) != 0x80;
    if (width == 0 || characters <= width)
        return mkt_cli_copy(path);
    for (characters -= width > 3 ? width - 3 : 0; characters > 0; characters--) {
        path++;
        while (((unsigned char)*path & 0xc0) == 0x80)
            path++;
    }
    return mkt_cli_format("...%s", path);
}

static unsigned rest_of_line(const struct mkt_top_view *view, unsigned others)
{
    if (view->width == 0)
        return 0;
    return view->width > others + PATH_MIN ? view->width - others : PATH_MIN;
}

/* ---- who waits ---- */

/* What for; the caller frees it. */
static char *describe_wait(const json_t *wait, const struct mkt_top_view *view)
{
    char size[MKT_CLI_SHOWN_BYTES];
    const char *kind = mkt_cli_string(wait, "for");
    mkt_cli_show_size(mkt_cli_number(wait, "bytes"), size);
    if (strcmp(kind, "memory") == 0)
        return mkt_cli_format("%s of memory to write", size);
    if (strcmp(kind, "read") == 0)
        return mkt_cli_format("%s of memory to read from below", size);
    char *path = shorten(mkt_cli_string(wait, "path"), rest_of_line(view, WAIT_CELLS));
    char *text = mkt_cli_format("%s of %s", kind, path);
    free(path);
    return text;
}

static const char *describe_holder(const json_t *wait)
{
    const char *holder = mkt_cli_string(wait, "waits_on"), *kind = mkt_cli_string(wait, "for");
    if (holder[0])
        return holder;
    bool for_memory = strcmp(kind, "memory") == 0 || strcmp(kind, "read") == 0;
    return for_memory ? "memory to come free" : "nobody yet";
}

/* At most so many lines with the heading; returns how many it took. */
static unsigned print_waits(FILE *out, const json_t *status, const struct mkt_top_view *view)
{
    static const char *const headings[] = {"WAITS", ">PID", ">SINCE", "FOR", "ON"};
    json_t *waits = json_object_get(status, "waits"), *wait;
    size_t i, count = json_array_size(waits), shown = count;
    if (view->height > 0 && shown > view->height / WAITS_SHARE)
        shown = view->height / WAITS_SHARE;
    if (count == 0)
        return 0;
    struct mkt_cli_table *table = mkt_cli_table_create(5, headings);
    for (i = 0; (wait = json_array_get(waits, i)); i++) {
        char since[MKT_CLI_SHOWN_BYTES], pid[24];
        char *what = i < shown ? describe_wait(wait, view) : NULL;
        if (!what)
            break;
        snprintf(pid, sizeof(pid), "%" PRIu64, mkt_cli_number(wait, "pid"));
        const char *const cells[] = {mkt_cli_string(wait, "program"), pid,
                                     mkt_cli_show_age(mkt_cli_number(wait, "waited_ms"), since),
                                     what, describe_holder(wait)};
        mkt_cli_table_add(table, cells);
        free(what);
    }
    fputs("\n", out);
    mkt_cli_table_print(table, out);
    mkt_cli_table_destroy(table);
    if (shown < count)
        fprintf(out, "and %zu more\n", count - shown);
    return (unsigned)shown + 2 + (shown < count);
}

/* ---- files ---- */

struct file {
    const json_t *object;
    uint64_t published, bytes; /* since the former look; in all */
    unsigned activity;
    char writer[WRITER_MAX + 24];
};

/* By object id: a market may have many. */
static json_t *index_objects(const json_t *list)
{
    json_t *index = json_object(), *object;
    size_t i;
    for (i = 0; (object = json_array_get(json_object_get(list, "objects"), i)); i++) {
        json_object_set(index, mkt_cli_string(object, "object"), object);
    }
    return index;
}

/* What was published is more active than what is open. */
static void describe_file(struct file *file, const json_t *object, const json_t *former)
{
    uint64_t version = mkt_cli_number(object, "newest_version");
    uint64_t former_version =
        mkt_cli_number(json_object_get(former, mkt_cli_string(object, "object")), "newest_version");
    const json_t *held = json_object_get(object, "writer");
    *file = (struct file){.object = object, .bytes = mkt_cli_number(object, "bytes")};
    strcpy(file->writer, "-");
    if (json_is_object(held))
        snprintf(file->writer, sizeof(file->writer), "%.*s (%" PRIu64 ")", WRITER_MAX,
                 mkt_cli_string(held, "program"), mkt_cli_number(held, "ranks"));
    if (former && version > former_version)
        file->published = version - former_version;
    file->activity = (file->published > 0) * 4u + json_is_object(held) * 2u +
                     (mkt_cli_number(object, "readers") > 0);
}

static int by_activity(const void *left, const void *right)
{
    const struct file *a = left, *b = right;
    if (a->activity != b->activity)
        return a->activity < b->activity ? 1 : -1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return strcmp(mkt_cli_string(a->object, "path"), mkt_cli_string(b->object, "path"));
}

/* All files, first the most active, then the largest; the caller frees them. */
static struct file *sort_files(const struct mkt_top_sample *before,
                               const struct mkt_top_sample *now, size_t *count_out)
{
    json_t *objects = json_object_get(now->list, "objects"), *object;
    size_t i, count = json_array_size(objects);
    struct file *files = mkt_cli_alloc(count * sizeof(*files));
    json_t *former = before->list ? index_objects(before->list) : NULL;
    for (i = 0; (object = json_array_get(objects, i)); i++)
        describe_file(&files[i], object, former);
    json_decref(former);
    if (count > 1)
        qsort(files, count, sizeof(*files), by_activity);
    *count_out = count;
    return files;
}

static void add_file(struct mkt_cli_table *table, const struct file *file, unsigned path_width)
{
    char memory[MKT_CLI_SHOWN_BYTES], below[MKT_CLI_SHOWN_BYTES], readers[24], published[24] = "-";
    uint64_t tier = mkt_cli_number(file->object, "tier_bytes");
    const char *state = mkt_cli_string(json_object_get(file->object, "saving"), "state");
    char *path = shorten(mkt_cli_string(file->object, "path"), path_width);
    snprintf(readers, sizeof(readers), "%" PRIu64, mkt_cli_number(file->object, "readers"));
    if (file->published > 0)
        snprintf(published, sizeof(published), "+%" PRIu64, file->published);
    const char *const cells[] = {mkt_cli_show_size(file->bytes - tier, memory),
                                 mkt_cli_show_size(tier, below),
                                 published,
                                 readers,
                                 file->writer,
                                 state[0] ? state : "-",
                                 path};
    mkt_cli_table_add(table, cells);
    free(path);
}

static unsigned widest_writer(const struct file *files, size_t count)
{
    size_t widest = strlen("WRITER");
    for (size_t i = 0; i < count; i++)
        widest = strlen(files[i].writer) > widest ? strlen(files[i].writer) : widest;
    return (unsigned)widest;
}

static void print_files(FILE *out, const struct mkt_top_sample *before,
                        const struct mkt_top_sample *now, const struct mkt_top_view *view,
                        size_t most)
{
    static const char *const headings[] = {">MEMORY", ">BELOW", ">NEW", ">READERS",
                                           "WRITER",  "STATE",  "PATH"};
    size_t count, shown;
    struct file *files = sort_files(before, now, &count);
    struct mkt_cli_table *table = mkt_cli_table_create(7, headings);
    shown = count < most ? count : most;
    unsigned path_width = rest_of_line(view, OTHER_CELLS + widest_writer(files, shown));
    for (size_t i = 0; i < shown; i++)
        add_file(table, &files[i], path_width);
    fputs("\n", out);
    if (shown > 0)
        mkt_cli_table_print(table, out);
    if (shown == 0 || shown < count)
        fprintf(out, "%zu %sfile%s\n", count - shown, shown > 0 ? "more " : "",
                count - shown == 1 ? "" : "s");
    mkt_cli_table_destroy(table);
    free(files);
}

/* ---- the whole ---- */

void mkt_top_print(FILE *out, const struct mkt_top_sample *before, const struct mkt_top_sample *now,
                   const struct mkt_top_view *view)
{
    const json_t *memory = json_object_get(now->status, "memory");
    const json_t *tier = json_object_get(now->status, "tier");
    size_t most = view->files;
    print_title(out, now->status, view);
    print_bar(out, "memory", mkt_cli_number(memory, "used_bytes"),
              mkt_cli_number(memory, "limit_bytes"));
    if (json_is_object(tier))
        print_bar(out, "below", mkt_cli_number(tier, "used_bytes"),
                  mkt_cli_number(tier, "limit_bytes"));
    print_rates(out, before, now);
    print_queue(out, before, now);
    unsigned lines = print_waits(out, now->status, view) + (json_is_object(tier) ? 9 : 7);
    if (view->height > 0) {
        size_t rest = view->height > lines + 1 ? view->height - lines - 1 : 1;
        most = most < rest ? most : rest;
    }
    print_files(out, before, now, view, most);
}

json_t *mkt_top_json(const struct mkt_top_sample *before, const struct mkt_top_sample *now,
                     unsigned files)
{
    json_t *json = json_object(), *rates = json_object(), *objects = json_array();
    size_t count;
    struct file *sorted = sort_files(before, now, &count);
    for (enum rate rate = 0; rate < RATES; rate++)
        json_object_set_new(rates, counters[rate].name, json_real(rate_of(before, now, rate)));
    for (size_t i = 0; i < count && i < files; i++) {
        json_t *object = json_copy((json_t *)(uintptr_t)sorted[i].object);
        json_object_set_new(object, "new_versions", json_integer((json_int_t)sorted[i].published));
        json_array_append_new(objects, object);
    }
    json_object_set_new(json, "interval_s", json_real(seconds_between(before, now)));
    json_object_set_new(json, "rates", rates);
    json_object_set(json, "market", now->status);
    json_object_set_new(json, "objects", objects);
    free(sorted);
    return json;
}
