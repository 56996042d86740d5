/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The benchmark's reader: an ordinary HDF5 program. Timed: from before H5Fopen until after
 * H5Fclose. What it read is looked at afterwards: every value in the warm-up steps, samples in the
 * others.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

static double attributes[WORK_GROUPS * WORK_GROUP_ATTRIBUTES];

static void read_block(struct work *work, hid_t parent, const char *name, double *values)
{
    const struct block *mine = &work->mine;
    hid_t dataset = CHECK(work, H5Dopen2(parent, name, H5P_DEFAULT));
    hid_t filespace = CHECK(work, H5Dget_space(dataset));
    hid_t memspace = CHECK(work, H5Screate_simple(mine->ndims, mine->count, NULL));

    CHECK(work,
          H5Sselect_hyperslab(filespace, H5S_SELECT_SET, mine->start, NULL, mine->count, NULL));
    CHECK(work, H5Dread(dataset, H5T_NATIVE_DOUBLE, memspace, filespace, work->dxpl, values));
    CHECK(work, H5Sclose(memspace));
    CHECK(work, H5Sclose(filespace));
    CHECK(work, H5Dclose(dataset));
}

static void read_field(struct work *work, int step, int number)
{
    char path[WORK_PATH_MAX];
    hid_t file;

    work_path(work, step, number, path);
    file = CHECK(work, H5Fopen(path, H5F_ACC_RDONLY, work->fapl));
    read_block(work, file, "field", work_values(work, number));
    CHECK(work, H5Fclose(file));
}

static void read_attributes(struct work *work, hid_t group, int number)
{
    for (int i = 0; i < WORK_GROUP_ATTRIBUTES; i++) {
        char name[32];
        hid_t attribute;

        snprintf(name, sizeof name, "attribute-%d", i);
        attribute = CHECK(work, H5Aopen(group, name, H5P_DEFAULT));
        CHECK(work, H5Aread(attribute, H5T_NATIVE_DOUBLE,
                            &attributes[number * WORK_GROUP_ATTRIBUTES + i]));
        CHECK(work, H5Aclose(attribute));
    }
}

static void read_tree(struct work *work, int step)
{
    char path[WORK_PATH_MAX];
    hid_t file;

    work_path(work, step, 0, path);
    file = CHECK(work, H5Fopen(path, H5F_ACC_RDONLY, work->fapl));
    for (int g = 0; g < work->groups; g++) {
        char name[32];
        hid_t group;

        snprintf(name, sizeof name, "group-%03d", g);
        group = CHECK(work, H5Gopen2(file, name, H5P_DEFAULT));
        for (int d = 0; d < WORK_GROUP_DATASETS; d++) {
            snprintf(name, sizeof name, "dataset-%d", d);
            read_block(work, group, name, work_values(work, g * WORK_GROUP_DATASETS + d));
        }
        read_attributes(work, group, g);
        CHECK(work, H5Gclose(group));
    }
    CHECK(work, H5Fclose(file));
}

static void read_step(struct work *work, int step)
{
    double start = board_clock();

    if (work->shape == WORK_TREE)
        read_tree(work, step);
    else
        for (int f = 0; f < work->files; f++)
            read_field(work, step, f);
    work->board->seconds[step][work->board->writers + work->launch.rank] = board_clock() - start;
}

/* The values of the step before are still in the buffer, so a read that does nothing is found out.
 */
static void verify_step(struct work *work, int step)
{
    uint64_t stride = step < (int)work->board->warm_up_steps ? 1 : WORK_SAMPLE_STRIDE;
    uint64_t wrong = 0;

    for (int d = 0; d < work_datasets(work); d++)
        wrong += block_count_wrong(&work->mine, work_values(work, d), step, d, stride);
    if (work->shape == WORK_TREE)
        for (int i = 0; i < work->groups * WORK_GROUP_ATTRIBUTES; i++)
            wrong += attributes[i] !=
                     work_attribute(step, i / WORK_GROUP_ATTRIBUTES, i % WORK_GROUP_ATTRIBUTES);
    if (wrong == 0)
        return;
    fprintf(stderr, "bench: reader rank %d: step %d: %" PRIu64 " wrong values\n", work->launch.rank,
            step, wrong);
    board_fail(work->board);
    launch_abort();
}

int main(int argc, char **argv)
{
    struct work work;

    work_init(&work, &argc, &argv);
    if (work.groups > WORK_GROUPS) {
        fprintf(stderr, "bench: at most %d groups\n", WORK_GROUPS);
        launch_abort();
    }
    board_join(work.board, (int)work.board->writers + work.launch.rank);
    for (int step = 0; step < (int)work.board->steps; step++) {
        board_wait(work.board, step, BOARD_PREPARE);
        board_pass(work.board, BOARD_PREPARE);
        board_wait(work.board, step, BOARD_READ);
        read_step(&work, step);
        verify_step(&work, step);
        board_pass(work.board, BOARD_READ);
    }
    work_fini(&work);
    return 0;
}
