/* SPDX-License-Identifier: BSD-3-Clause */
#include "work.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct argp_option options[] = {
    {"board", 'b', "FILE", 0, "turn board, made by run", 0},
    {"folder", 'f', "DIR", 0, "where the files go", 0},
    {"shape", 's', "SHAPE", 0, "field, files or tree", 0},
    {"dims", 'd', "N,N,...", 0, "extents of one dataset", 0},
    {"axis", 'a', "AXIS", 0, "axis along which the ranks share a dataset", 0},
    {"files", 'n', "N", 0, "files a step (shape files)", 0},
    {"groups", 'g', "N", 0, "groups in the file (shape tree)", 0},
    {"collective", 'c', NULL, 0, "collective instead of independent transfers", 0},
    {"same-path", 'p', NULL, 0, "create the same path again in each step", 0},
    {0}};

static int parse_shape(struct work *work, const char *text)
{
    static const char *const names[] = {"field", "files", "tree"};

    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            work->shape = (enum work_shape)i;
            return 0;
        }
    return -1;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct work *work = state->input;

    switch (key) {
    case 'b':
        work->board_path = argument;
        return 0;
    case 'f':
        work->folder = argument;
        return 0;
    case 's':
        if (parse_shape(work, argument) < 0)
            argp_error(state, "unknown shape %s", argument);
        return 0;
    case 'd':
        if (block_parse(&work->whole, argument) < 0)
            argp_error(state, "malformed extents %s", argument);
        return 0;
    case 'a':
        work->axis = atoi(argument);
        return 0;
    case 'n':
        work->files = atoi(argument);
        return 0;
    case 'g':
        work->groups = atoi(argument);
        return 0;
    case 'c':
        work->collective = true;
        return 0;
    case 'p':
        work->same_path = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void give_up(struct work *work, const char *what)
{
    fprintf(stderr, "bench: rank %d: %s\n", work->launch.rank, what);
    board_fail(work->board);
    launch_abort();
}

hid_t work_check(struct work *work, hid_t id_or_status, const char *what)
{
    if (id_or_status < 0)
        give_up(work, what);
    return id_or_status;
}

int work_datasets(const struct work *work)
{
    switch (work->shape) {
    case WORK_FILES:
        return work->files;
    case WORK_TREE:
        return work->groups * WORK_GROUP_DATASETS;
    default:
        return 1;
    }
}

double *work_values(const struct work *work, int dataset)
{
    return work->values + (uint64_t)dataset * block_elements(&work->mine);
}

double work_attribute(int step, int group, int attribute)
{
    return 1000.0 * group + attribute + 0.001 * step;
}

void work_path(const struct work *work, int step, int file, char path_out[WORK_PATH_MAX])
{
    if (work->same_path)
        snprintf(path_out, WORK_PATH_MAX, "%s/same-%03d.h5", work->folder, file);
    else
        snprintf(path_out, WORK_PATH_MAX, "%s/step-%04d-%03d.h5", work->folder, step, file);
}

static void check_options(struct work *work)
{
    if (work->board_path == NULL || work->folder == NULL || work->whole.ndims == 0)
        give_up(work, "--board, --folder and --dims are needed");
    if (work->axis < 0 || work->axis >= work->whole.ndims)
        give_up(work, "--axis is not an axis of --dims");
    if (work->files < 1 || work->groups < 1)
        give_up(work, "--files and --groups are at least 1");
    if (work->shape == WORK_TREE && work->launch.size != 1)
        give_up(work, "a tree is the work of one rank");
}

static void allocate(struct work *work)
{
    size_t bytes = (size_t)work_datasets(work) * block_elements(&work->mine) * sizeof(double);

    work->values = malloc(bytes);
    if (work->values == NULL)
        give_up(work, "no memory for the values");
    memset(work->values, 0xa5, bytes);
}

void work_init(struct work *work, int *argc, char ***argv)
{
    const struct argp argp = {.options = options, .parser = parse_option};

    *work = (struct work){.files = 1, .groups = WORK_GROUPS};
    work->launch = launch_init(argc, argv);
    argp_parse(&argp, *argc, *argv, 0, NULL, work);
    check_options(work);
    work->board = board_open(work->board_path);
    if (work->board == NULL)
        launch_abort();
    work->mine = block_share(&work->whole, work->axis, work->launch.rank, work->launch.size);
    work->fapl = CHECK(work, launch_create_fapl());
    work->dxpl = CHECK(work, launch_create_dxpl(work->collective));
    allocate(work);
}

void work_fini(struct work *work)
{
    board_linger(work->board);
    free(work->values);
    H5Pclose(work->dxpl);
    H5Pclose(work->fapl);
    launch_fini();
}
