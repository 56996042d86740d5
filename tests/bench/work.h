/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What writer and reader have in common: the command line, the shapes of work and the names in the
 * files.
 *
 *   field   one file a step with one n-dimensional dataset, split over the ranks along one axis
 *   files   many files a step, each with one such dataset
 *   tree    one file a step with groups of small datasets and attributes; one rank
 */
#ifndef BENCH_WORK_H
#define BENCH_WORK_H

#include <stdbool.h>
#include <stddef.h>

#include "block.h"
#include "board.h"
#include "launch.h"

#define WORK_GROUPS           200
#define WORK_GROUP_DATASETS   5
#define WORK_GROUP_ATTRIBUTES 10
#define WORK_PATH_MAX         4096
#define WORK_SAMPLE_STRIDE    4099

enum work_shape {
    WORK_FIELD,
    WORK_FILES,
    WORK_TREE
};

struct work {
    struct launch launch;
    struct board_shm *board;
    const char *board_path;
    const char *folder;
    enum work_shape shape;
    struct block whole; /* one dataset; for a tree one of the small ones */
    struct block mine;
    int axis;
    int files;  /* a step */
    int groups; /* of a tree */
    bool collective;
    bool same_path;
    hid_t fapl;
    hid_t dxpl;
    double *values; /* all that this rank writes or reads in a step, one dataset after the other */
};

/* Starts MPI, reads the command line, makes property lists and touches the memory. Ends the program
 * on errors. */
void work_init(struct work *work, int *argc, char ***argv);
void work_fini(struct work *work);

/* The path of file number `file` of `step`. */
void work_path(const struct work *work, int step, int file, char path_out[WORK_PATH_MAX]);

/* How many datasets of the size of `mine` a step has. */
int work_datasets(const struct work *work);

double *work_values(const struct work *work, int dataset);

/* Value of attribute `attribute` of group `group`. */
double work_attribute(int step, int group, int attribute);

/* Gives up with a message if `id_or_status` is negative; returns it. */
hid_t work_check(struct work *work, hid_t id_or_status, const char *what);

#define CHECK(work, call) work_check((work), (call), #call)

#endif
