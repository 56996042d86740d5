/* SPDX-License-Identifier: BSD-3-Clause */
/* The benchmark's writer: an ordinary HDF5 program. Timed: from before H5Fcreate until after
 * H5Fclose. */
#include <stdio.h>

#include "work.h"

static void write_block(struct work *work, hid_t parent, const char *name, const double *values)
{
    const struct block *mine = &work->mine;
    hid_t filespace = CHECK(work, H5Screate_simple(mine->ndims, mine->dims, NULL));
    hid_t memspace = CHECK(work, H5Screate_simple(mine->ndims, mine->count, NULL));
    hid_t dataset = CHECK(work, H5Dcreate2(parent, name, H5T_NATIVE_DOUBLE, filespace, H5P_DEFAULT,
                                           H5P_DEFAULT, H5P_DEFAULT));

    CHECK(work,
          H5Sselect_hyperslab(filespace, H5S_SELECT_SET, mine->start, NULL, mine->count, NULL));
    CHECK(work, H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memspace, filespace, work->dxpl, values));
    CHECK(work, H5Dclose(dataset));
    CHECK(work, H5Sclose(memspace));
    CHECK(work, H5Sclose(filespace));
}

static void write_field(struct work *work, int step, int number)
{
    char path[WORK_PATH_MAX];
    hid_t file;

    work_path(work, step, number, path);
    file = CHECK(work, H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, work->fapl));
    write_block(work, file, "field", work_values(work, number));
    CHECK(work, H5Fclose(file));
}

static void write_attributes(struct work *work, hid_t group, int step, int number)
{
    hid_t scalar = CHECK(work, H5Screate(H5S_SCALAR));

    for (int i = 0; i < WORK_GROUP_ATTRIBUTES; i++) {
        char name[32];
        double value = work_attribute(step, number, i);
        hid_t attribute;

        snprintf(name, sizeof name, "attribute-%d", i);
        attribute = CHECK(
            work, H5Acreate2(group, name, H5T_NATIVE_DOUBLE, scalar, H5P_DEFAULT, H5P_DEFAULT));
        CHECK(work, H5Awrite(attribute, H5T_NATIVE_DOUBLE, &value));
        CHECK(work, H5Aclose(attribute));
    }
    CHECK(work, H5Sclose(scalar));
}

static void write_tree(struct work *work, int step)
{
    char path[WORK_PATH_MAX];
    hid_t file;

    work_path(work, step, 0, path);
    file = CHECK(work, H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, work->fapl));
    for (int g = 0; g < work->groups; g++) {
        char name[32];
        hid_t group;

        snprintf(name, sizeof name, "group-%03d", g);
        group = CHECK(work, H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        for (int d = 0; d < WORK_GROUP_DATASETS; d++) {
            snprintf(name, sizeof name, "dataset-%d", d);
            write_block(work, group, name, work_values(work, g * WORK_GROUP_DATASETS + d));
        }
        write_attributes(work, group, step, g);
        CHECK(work, H5Gclose(group));
    }
    CHECK(work, H5Fclose(file));
}

/* New values for this step; the files of the former one, which the reader has read, go away. */
static void prepare(struct work *work, int step)
{
    for (int d = 0; d < work_datasets(work); d++)
        block_fill(&work->mine, work_values(work, d), step, d);
    if (work->launch.rank != 0 || step == 0 || work->same_path)
        return;
    for (int f = 0; f < work->files; f++) {
        char path[WORK_PATH_MAX];

        work_path(work, step - 1, f, path);
        CHECK(work, H5Fdelete(path, H5P_DEFAULT));
    }
}

static void write_step(struct work *work, int step)
{
    double start = board_clock();

    if (work->shape == WORK_TREE)
        write_tree(work, step);
    else
        for (int f = 0; f < work->files; f++)
            write_field(work, step, f);
    work->board->seconds[step][work->launch.rank] = board_clock() - start;
}

int main(int argc, char **argv)
{
    struct work work;

    work_init(&work, &argc, &argv);
    board_join(work.board, work.launch.rank);
    for (int step = 0; step < (int)work.board->steps; step++) {
        board_wait(work.board, step, BOARD_PREPARE);
        prepare(&work, step);
        board_pass(work.board, BOARD_PREPARE);
        board_wait(work.board, step, BOARD_WRITE);
        write_step(&work, step);
        board_pass(work.board, BOARD_WRITE);
    }
    work_fini(&work);
    return 0;
}
