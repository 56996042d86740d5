/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line; see README.md.
 *
 *   differential run --seeds A-B [--steps K] --dir D [--part i/n] [--skip list] [--values]
 * [--errors] differential dump --seeds A-B --dir D --out NAME [--into D2] [--values] differential
 * dump FILE...
 *
 * A seed's program runs in the folder D/SEED. HDF5 is first called in forked children, one for each
 * part of each program, so that each starts afresh.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "differential.h"

#define STEPS_MAX  1000
#define LIMIT_S    30 /* a part that takes longer hangs */
#define PATH_BYTES 4096

struct options {
    unsigned long long first, last;
    unsigned steps, part, parts; /* parts 0: by the seed */
    const char *dir, *into, *out;
    bool here; /* for a debugger: one part in this process itself */
    bool skip[STEPS_MAX];
};

/* ---- one program ---- */

static const struct {
    void (*run)(void);
    unsigned weight;
    bool needs_dataset;
} steps[] = {
    {step_create_dataset, 12, false},
    {step_write, 20, true},
    {step_read, 13, true},
    {step_multi, 4, true},
    {step_write_many, 3, true},
    {step_fill, 3, true},
    {step_extent, 9, true},
    {step_describe, 4, true},
    {step_open, 7, false},
    {step_create_group, 4, false},
    {step_commit, 2, false},
    {step_attribute, 9, false},
    {step_link, 4, false},
    {step_move, 3, false},
    {step_delete, 4, false},
    {step_copy, 6, false},
    {step_look, 4, false},
    {step_reference, 1, false},
    {step_flush, 2, false},
    {step_mount, 2, false},
    {step_close, 5, false},
    {step_dump, 1, false},
};
#define STEPS_WEIGHT 122

void step_close(void)
{
    static const enum kind kinds[] = {DATASETS, DATASETS, FILES, FILES, GROUPS, TYPES, ATTRIBUTES};
    enum kind kind = kinds[pick(7)];

    say("close");
    world_close_one(kind);
}

/* Programs that find nothing open to work on would be dull: these open or create it. */
static void run_step(void)
{
    unsigned at = pick(STEPS_WEIGHT), step = 0;

    if (chance(8)) {
        step_file(true);
        return;
    }
    if (!world_has(FILES)) {
        step_open_or_create_file();
        return;
    }
    for (; at >= steps[step].weight; step++)
        at -= steps[step].weight;
    if (!steps[step].needs_dataset || world_has(DATASETS))
        steps[step].run();
    else if (chance(40))
        step_open();
    else
        step_create_dataset();
}

static void run_part(const struct options *options, uint64_t seed, unsigned part, unsigned parts)
{
    unsigned first = options->steps * part / parts, last = options->steps * (part + 1) / parts;

    world_start(seed);
    for (unsigned step = first; step < last; step++) {
        if (options->skip[step])
            continue;
        random_start(seed, step);
        say("#%u ", step);
        if (step == 0)
            step_create_file();
        else
            run_step();
        world_sweep();
        say("\n");
        transcript_flush();
    }
    random_start(seed, STEPS_MAX + part);
    if (chance(25)) {
        say("#exit with all open");
        world_close_doubles();
        say("\n");
        transcript_flush();
        return;
    }
    say("#end");
    world_close_all();
    say("\n");
    transcript_flush();
}

static void child_start(const char *transcript)
{
    alarm(LIMIT_S);
    if (!transcript_open(transcript))
        exit(3);
    if (!transcript_options.errors)
        H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

/* ---- children ---- */

static void note_end(int status, const char *transcript)
{
    FILE *file;

    if ((WIFEXITED(status) && WEXITSTATUS(status) == 0) || !transcript)
        return;
    file = fopen(transcript, "a");
    if (!file)
        return;
    if (WIFSIGNALED(status))
        fprintf(file, "\n#KILLED by signal %d\n", WTERMSIG(status));
    else
        fprintf(file, "\n#EXIT %d\n", WEXITSTATUS(status));
    fclose(file);
}

static bool enter(const char *dir, unsigned long long seed, bool make)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof path, "%s/%llu", dir, seed);
    if (make && mkdir(path, 0777) < 0 && errno != EEXIST)
        return false;
    return chdir(path) == 0;
}

static int run_seed(const struct options *options, unsigned long long seed)
{
    unsigned parts = options->parts ? options->parts : 1 + (unsigned)(seed % 3);
    char transcript[PATH_BYTES];

    snprintf(transcript, sizeof transcript, "%s/%llu/transcript", options->dir, seed);
    for (unsigned part = 0; part < parts; part++) {
        if (options->parts && part != options->part)
            continue;
        int status;
        pid_t child = options->here ? 0 : fork();
        if (child == 0) {
            if (!enter(options->dir, seed, true))
                _exit(3);
            child_start(transcript);
            run_part(options, seed, part, parts);
            exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) < 0)
            return 1;
        note_end(status, transcript);
    }
    return 0;
}

static int dump_seed(const struct options *options, unsigned long long seed)
{
    static const char *names[] = {"a.h5", "b.h5", "c.h5"};
    char transcript[PATH_BYTES];
    int status;

    snprintf(transcript, sizeof transcript, "%s/%llu/%s",
             options->into ? options->into : options->dir, seed, options->out);
    pid_t child = fork();
    if (child == 0) {
        if (!enter(options->dir, seed, false))
            _exit(3);
        child_start(transcript);
        for (int n = 0; n < 3; n++)
            if (access(names[n], F_OK) == 0)
                dump_path(names[n]);
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return 1;
    note_end(status, transcript);
    return 0;
}

/* ---- the command line ---- */

static void parse_skip(struct options *options, const char *list)
{
    for (char *end; *list; list = *end ? end + 1 : end) {
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long step = first; step <= last && step < STEPS_MAX; step++)
            options->skip[step] = true;
        if (end == list)
            return;
    }
}

static bool parse(struct options *options, int argc, char **argv)
{
    static const struct option known[] = {
        {"seed", required_argument, NULL, 's'},  {"seeds", required_argument, NULL, 's'},
        {"steps", required_argument, NULL, 'k'}, {"dir", required_argument, NULL, 'd'},
        {"into", required_argument, NULL, 'i'},  {"out", required_argument, NULL, 'o'},
        {"part", required_argument, NULL, 'p'},  {"skip", required_argument, NULL, 'x'},
        {"values", no_argument, NULL, 'v'},      {"errors", no_argument, NULL, 'e'},
        {"here", no_argument, NULL, 'h'},        {0}};
    int option, fields;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (option) {
        case 's':
            fields = sscanf(optarg, "%llu-%llu", &options->first, &options->last);
            if (fields < 1)
                return false;
            if (fields == 1)
                options->last = options->first;
            break;
        case 'k':
            options->steps = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'd':
            options->dir = optarg;
            break;
        case 'i':
            options->into = optarg;
            break;
        case 'o':
            options->out = optarg;
            break;
        case 'p':
            if (sscanf(optarg, "%u/%u", &options->part, &options->parts) != 2)
                return false;
            break;
        case 'x':
            parse_skip(options, optarg);
            break;
        case 'v':
            transcript_options.values = true;
            break;
        case 'h':
            options->here = true;
            break;
        case 'e':
            transcript_options.errors = true;
            break;
        default:
            return false;
        }
    return options->steps <= STEPS_MAX;
}

/* Children change their folder. */
static const char *absolute(const char *path)
{
    const char *whole = path ? realpath(path, NULL) : NULL;

    return whole ? whole : path;
}

static int dump_files(char **path)
{
    child_start(NULL);
    for (; *path; path++)
        dump_path(*path);
    return 0;
}

int main(int argc, char **argv)
{
    static struct options options = {.steps = 60, .out = "dump"};
    const char *command = argc > 1 ? argv[1] : "";
    bool run = strcmp(command, "run") == 0, dump = strcmp(command, "dump") == 0;
    int failed = 0;

    if ((!run && !dump) || !parse(&options, argc - 1, argv + 1) || (run && !options.dir)) {
        fprintf(stderr, "usage: differential run --seeds A-B --dir D [--steps K] [--part i/n] "
                        "[--skip list] [--values] [--errors]\n"
                        "       differential dump --seeds A-B --dir D --out NAME [--into D]\n"
                        "       differential dump FILE...\n");
        return 2;
    }
    if (!options.dir)
        return dump_files(argv + 1 + optind);
    options.dir = absolute(options.dir);
    options.into = absolute(options.into);
    for (unsigned long long seed = options.first; seed <= options.last && !failed; seed++)
        failed = run ? run_seed(&options, seed) : dump_seed(&options, seed);
    return failed;
}
