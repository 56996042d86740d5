/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain HDF5 program that changes a file in rounds, each an open of its own, and one that shows
 * all that is in it. The same rounds must give the same file, by whatever way they were made.
 *
 *   rounds make F [USERBLOCK [latest]]    a file with datasets of all layouts
 *   rounds step F N                       round N: overwrites, grows, shrinks, deletes, creates
 *   rounds show F                         prints every value and what is asked of the storage
 */
#include "scenario.h"

#include <stdint.h>
#include <string.h>

#define ROWS  40
#define COLS  30
#define CHUNK 7

static hid_t file;

/* ---- pieces of rounds ---- */

static hid_t make(const char *name, hid_t type, int rank, const hsize_t *dims, const hsize_t *most,
                  hid_t dcpl)
{
    hid_t space = H5Screate_simple(rank, dims, most), dataset;
    MUST(dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT));
    H5Sclose(space);
    return dataset;
}

/* Writes value + i into a box. */
static void put(hid_t dataset, int rank, const hsize_t *start, const hsize_t *count, int value)
{
    hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(rank, count, NULL);
    hsize_t elements = 1;
    for (int d = 0; d < rank; d++)
        elements *= count[d];
    int *values = malloc(elements * sizeof(*values));
    for (hsize_t i = 0; i < elements; i++)
        values[i] = value + (int)i;
    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
    /* What was written reads back at once, from among what was there before. */
    int *back = calloc(elements, sizeof(*back));
    MUST(H5Dread(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, back));
    CHECK(memcmp(values, back, elements * sizeof(*values)) == 0);
    free(values);
    free(back);
    H5Sclose(memory);
    H5Sclose(space);
}

static void put_named(const char *name, int rank, const hsize_t *start, const hsize_t *count,
                      int value)
{
    hid_t dataset;
    MUST(dataset = H5Dopen2(file, name, H5P_DEFAULT));
    put(dataset, rank, start, count, value);
    H5Dclose(dataset);
}

static hid_t chunked(int filters, int fill)
{
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk[2] = {CHUNK, CHUNK};
    MUST(H5Pset_chunk(dcpl, 2, chunk));
    if (filters)
        MUST(H5Pset_deflate(dcpl, 4));
    MUST(H5Pset_fill_value(dcpl, H5T_NATIVE_INT, &fill));
    return dcpl;
}

static void put_text(const char *name, int step)
{
    hid_t type = H5Tcopy(H5T_C_S1), dataset;
    char text[3][96];
    const char *texts[3];
    const hsize_t dims[1] = {3};
    MUST(H5Tset_size(type, H5T_VARIABLE));
    for (int i = 0; i < 3; i++) {
        snprintf(text[i], sizeof(text[i]), "text %d of step %d%.*s", i, step, step * 7 % 40,
                 "........................................");
        texts[i] = text[i];
    }
    if (H5Lexists(file, name, H5P_DEFAULT) > 0)
        dataset = H5Dopen2(file, name, H5P_DEFAULT);
    else
        dataset = make(name, type, 1, dims, NULL, H5P_DEFAULT);
    MUST(dataset);
    MUST(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts));
    H5Dclose(dataset);
    H5Tclose(type);
}

static void put_attribute(const char *name, int value)
{
    hid_t space = H5Screate(H5S_SCALAR), attribute;
    if (H5Aexists(file, name) > 0)
        attribute = H5Aopen(file, name, H5P_DEFAULT);
    else
        attribute = H5Acreate2(file, name, H5T_STD_I32BE, space, H5P_DEFAULT, H5P_DEFAULT);
    MUST(attribute);
    MUST(H5Awrite(attribute, H5T_NATIVE_INT, &value));
    H5Aclose(attribute);
    H5Sclose(space);
}

/* ---- the file ---- */

static void make_file(const char *path, hsize_t user_block, int latest)
{
    const hsize_t dims[2] = {ROWS, COLS}, most[2] = {H5S_UNLIMITED, COLS}, zero[2] = {0, 0};
    const hsize_t few[1] = {20}, zero1[1] = {0}, part[2] = {10, 5};
    hid_t fcpl = H5Pcreate(H5P_FILE_CREATE), fapl = H5Pcreate(H5P_FILE_ACCESS), dataset, dcpl;
    MUST(H5Pset_userblock(fcpl, user_block));
    if (latest)
        MUST(H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
    MUST(file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl));
    H5Pclose(fcpl);
    H5Pclose(fapl);
    MUST(H5Gclose(H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));

    dataset = make("plain", H5T_STD_I32LE, 2, dims, NULL, H5P_DEFAULT);
    put(dataset, 2, zero, dims, 1000);
    H5Dclose(dataset);
    for (int filters = 0; filters < 2; filters++) {
        dcpl = chunked(filters, -3);
        dataset = make(filters ? "group/packed" : "chunks", H5T_STD_I32BE, 2, dims, most, dcpl);
        put(dataset, 2, zero, part, 50);
        H5Dclose(dataset);
        H5Pclose(dcpl);
    }
    dcpl = H5Pcreate(H5P_DATASET_CREATE);
    MUST(H5Pset_layout(dcpl, H5D_COMPACT));
    dataset = make("group/compact", H5T_STD_I16LE, 1, few, NULL, dcpl);
    put(dataset, 1, zero1, few, 7);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    /* Space that is never filled: what was written into it must stay. */
    dcpl = H5Pcreate(H5P_DATASET_CREATE);
    MUST(H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER));
    dataset = make("unfilled", H5T_STD_I32LE, 2, dims, NULL, dcpl);
    put(dataset, 2, zero, dims, 4000);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    dataset = make("empty", H5T_STD_I32LE, 2, dims, NULL, H5P_DEFAULT);
    H5Dclose(dataset);
    put_text("text", 0);
    put_attribute("step", 0);
    MUST(H5Fclose(file));
}

static void resize(const char *name, hsize_t rows)
{
    const hsize_t dims[2] = {rows, COLS};
    hid_t dataset;
    MUST(dataset = H5Dopen2(file, name, H5P_DEFAULT));
    MUST(H5Dset_extent(dataset, dims));
    H5Dclose(dataset);
}

static void create_and_delete(int step)
{
    const hsize_t dims[2] = {(hsize_t)(CHUNK + step), 9}, zero[2] = {0, 0};
    char name[64];
    snprintf(name, sizeof(name), "group/new%d", step);
    hid_t dcpl = chunked(step % 2, step);
    hid_t dataset = make(name, H5T_STD_I32LE, 2, dims, NULL, dcpl);
    put(dataset, 2, zero, dims, 100 * step);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    if (step > 2) {
        snprintf(name, sizeof(name), "group/new%d", step - 2);
        MUST(H5Ldelete(file, name, H5P_DEFAULT));
    }
    if (step == 3)
        MUST(H5Ocopy(file, "plain", file, "group/copy", H5P_DEFAULT, H5P_DEFAULT));
    if (step == 4) {
        MUST(H5Ldelete(file, "plain", H5P_DEFAULT));
        dataset = make("plain", H5T_STD_I32BE, 2, (const hsize_t[]){ROWS, COLS}, NULL, H5P_DEFAULT);
        put(dataset, 2, zero, (const hsize_t[]){ROWS, COLS}, 9000);
        H5Dclose(dataset);
    }
}

static void do_step(const char *path, int step)
{
    const hsize_t at[2] = {(hsize_t)(3 * step % 20), (hsize_t)(5 * step % 20)}, box[2] = {4, 6};
    const hsize_t few[1] = {5}, from[1] = {(hsize_t)step};
    const hsize_t rows = (hsize_t)(ROWS + (step % 3 == 2 ? -13 : 6 * step));
    MUST(file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT));
    put_named("plain", 2, at, box, 10000 * step);
    put_named("unfilled", 2, at, box, -10000 * step);
    put_named("group/compact", 1, from, few, 300 * step);
    for (int filters = 0; filters < 2; filters++) {
        const char *name = filters ? "group/packed" : "chunks";
        const hsize_t end[2] = {rows - 2, 3}, few_rows[2] = {2, 20};
        put_named(name, 2, at, box, 20000 * step);
        resize(name, rows);
        put_named(name, 2, end, few_rows, 30000 * step);
    }
    if (step == 5)
        put_named("empty", 2, at, box, 5);
    create_and_delete(step);
    put_text("text", step);
    put_attribute("step", step);
    MUST(H5Fclose(file));
}

/* ---- showing ---- */

static void show_values(hid_t dataset, hid_t type)
{
    hid_t space = H5Dget_space(dataset);
    hssize_t elements = H5Sget_simple_extent_npoints(space);
    if (H5Tis_variable_str(type) > 0) {
        char **texts = calloc((size_t)elements, sizeof(*texts));
        MUST(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts));
        for (hssize_t i = 0; i < elements; i++)
            printf("  %s\n", texts[i] ? texts[i] : "-");
        H5Treclaim(type, space, H5P_DEFAULT, texts);
        free(texts);
    } else {
        int *values = malloc((size_t)elements * sizeof(*values));
        memset(values, 0x5a, (size_t)elements * sizeof(*values));
        MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
        for (hssize_t i = 0; i < elements; i++)
            printf("%d%s", values[i], (i + 1) % 30 && i + 1 < elements ? " " : "\n");
        free(values);
    }
    H5Sclose(space);
}

static void show_storage(hid_t dataset)
{
    hid_t dcpl = H5Dget_create_plist(dataset);
    H5D_space_status_t status;
    hsize_t chunks = 0;
    MUST(H5Dget_space_status(dataset, &status));
    printf("layout %d status %d", (int)H5Pget_layout(dcpl), (int)status);
    if (H5Pget_nfilters(dcpl) == 0)
        printf(" bytes %llu", (unsigned long long)H5Dget_storage_size(dataset));
    if (H5Pget_layout(dcpl) == H5D_CHUNKED) {
        MUST(H5Dget_num_chunks(dataset, H5S_ALL, &chunks));
        printf(" chunks %llu", (unsigned long long)chunks);
    }
    putchar('\n');
    H5Pclose(dcpl);
}

static herr_t show_object(hid_t root, const char *name, const H5O_info2_t *info, void *unused)
{
    (void)unused;
    printf("%s: %d\n", name, (int)info->type);
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    hid_t dataset, type;
    MUST(dataset = H5Dopen2(root, name, H5P_DEFAULT));
    MUST(type = H5Dget_type(dataset));
    show_storage(dataset);
    show_values(dataset, type);
    H5Tclose(type);
    H5Dclose(dataset);
    return 0;
}

static void show_file(const char *path)
{
    int step = -1;
    hid_t attribute;
    MUST(file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
    MUST(attribute = H5Aopen(file, "step", H5P_DEFAULT));
    MUST(H5Aread(attribute, H5T_NATIVE_INT, &step));
    H5Aclose(attribute);
    printf("step %d\n", step);
    MUST(H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_INC, show_object, NULL, H5O_INFO_BASIC));
    MUST(H5Fclose(file));
}

int main(int argc, char **argv)
{
    scenario = argc > 1 ? argv[1] : "";
    if (argc > 2 && strcmp(argv[1], "make") == 0)
        make_file(argv[2], argc > 3 ? strtoull(argv[3], NULL, 10) : 0, argc > 4);
    else if (argc > 3 && strcmp(argv[1], "step") == 0)
        do_step(argv[2], atoi(argv[3]));
    else if (argc > 2 && strcmp(argv[1], "show") == 0)
        show_file(argv[2]);
    else
        return 2;
    return failures > 0;
}
