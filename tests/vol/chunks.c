/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What HDF5 answers about storage, written down: sizes, space status, chunks, filtered bytes. The
 * answers of a run through the market must be those of a native run.
 *
 *   chunks write FILE earliest|latest   writes the datasets; prints the answers before the close
 *   chunks read FILE                    prints them in another process
 */
#include "scenario.h"

#include <stdint.h>
#include <string.h>

enum {
    ROWS = 21,
    COLUMNS = 34,
    RANK = 2
};

static uint64_t hash_of(const void *bytes, size_t length)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

/* ---- the answers ---- */

/* What an unfiltered chunk holds outside of the extent is anything. */
static void blank_outside(void *chunk, const hsize_t *offset, const hsize_t *dims)
{
    for (hsize_t y = 0; y < 5; y++)
        for (hsize_t x = 0; x < 8; x++)
            if (offset[0] + y >= dims[0] || offset[1] + x >= dims[1])
                ((uint32_t *)chunk)[y * 8 + x] = 0;
}

static void tell_direct(hid_t dataset, const hsize_t *offset, const hsize_t *dims)
{
    static _Alignas(8) uint8_t bytes[1 << 20];
    hsize_t size = 0;
    uint32_t mask = 77;
    herr_t known;

    H5E_BEGIN_TRY
    {
        known = H5Dget_chunk_storage_size(dataset, offset, &size);
    }
    H5E_END_TRY
    if (known < 0) {
        printf(" no size\n");
        return;
    }
    memset(bytes, 0xee, sizeof bytes);
    MUST(H5Dread_chunk(dataset, H5P_DEFAULT, offset, &mask, bytes));
    if (size == 5 * 8 * sizeof(uint32_t))
        blank_outside(bytes, offset, dims);
    printf(" stored %llu, mask %u, bytes %016llx\n", (unsigned long long)size, mask,
           (unsigned long long)hash_of(bytes, size));
}

static int tell_one(const hsize_t *offset, unsigned mask, haddr_t address, hsize_t size, void *seen)
{
    printf("  chunk (%llu, %llu): mask %u, %llu bytes, %s\n", (unsigned long long)offset[0],
           (unsigned long long)offset[1], mask, (unsigned long long)size,
           address == HADDR_UNDEF ? "nowhere" : "somewhere");
    return ++*(int *)seen == 5 ? 7 : 0;
}

static void tell_chunks(hid_t dataset, hid_t list)
{
    hsize_t count = 99, chunk[RANK], dims[RANK];
    H5D_chunk_index_t index = H5D_CHUNK_IDX_NTYPES;
    hid_t space = H5Dget_space(dataset);
    int seen = 0;

    H5Pget_chunk(list, RANK, chunk);
    H5Sget_simple_extent_dims(space, dims, NULL);
    MUST(H5Dget_chunk_index_type(dataset, &index));
    MUST(H5Dget_num_chunks(dataset, space, &count));
    printf("  %llu chunks, index %d\n", (unsigned long long)count, (int)index);
    for (hsize_t i = 0; i < count; i++) {
        hsize_t offset[RANK], size = 99;
        unsigned mask = 99;
        haddr_t address = HADDR_UNDEF;

        MUST(H5Dget_chunk_info(dataset, space, i, offset, &mask, &address, &size));
        printf("  %llu: (%llu, %llu) mask %u, %llu bytes, %s;", (unsigned long long)i,
               (unsigned long long)offset[0], (unsigned long long)offset[1], mask,
               (unsigned long long)size, address == HADDR_UNDEF ? "nowhere" : "somewhere");
        tell_direct(dataset, offset, dims);
    }
    for (hsize_t y = 0; y < dims[0] + chunk[0]; y += chunk[0])
        for (hsize_t x = 0; x < dims[1]; x += chunk[1]) {
            hsize_t offset[RANK] = {y + 1, x + 2}, size = 99;
            unsigned mask = 99;
            haddr_t address = 99;

            if (offset[1] >= dims[1])
                continue;
            MUST(H5Dget_chunk_info_by_coord(dataset, offset, &mask, &address, &size));
            printf("  at (%llu, %llu): mask %u, %llu bytes, %s\n", (unsigned long long)y,
                   (unsigned long long)x, mask, (unsigned long long)size,
                   address == HADDR_UNDEF ? "nowhere" : "somewhere");
        }
    printf("  the walk says %d\n", H5Dchunk_iter(dataset, H5P_DEFAULT, tell_one, &seen));
    H5Sclose(space);
}

static void tell(hid_t file, const char *name)
{
    static int values[4 * ROWS * COLUMNS];
    H5D_space_status_t status;
    hid_t dataset, list, space;

    MUST(dataset = H5Dopen2(file, name, H5P_DEFAULT));
    list = H5Dget_create_plist(dataset);
    space = H5Dget_space(dataset);
    MUST(H5Dget_space_status(dataset, &status));
    printf("%s: %llu bytes, status %d\n", name, (unsigned long long)H5Dget_storage_size(dataset),
           (int)status);
    if (H5Pget_layout(list) == H5D_CHUNKED)
        tell_chunks(dataset, list);
    memset(values, 0, sizeof values);
    MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    printf("  values %016llx\n", (unsigned long long)hash_of(values, sizeof values));
    H5Sclose(space);
    H5Pclose(list);
    H5Dclose(dataset);
}

/* ---- the datasets ---- */

struct shape {
    const char *name;
    bool chunked, unlimited[RANK];
    int deflate; /* level + 1 */
    bool shuffle, fletcher, edges_unfiltered;
    H5D_alloc_time_t time; /* DEFAULT: the layout's own */
};

static hid_t create(hid_t file, const struct shape *shape)
{
    hsize_t dims[RANK] = {ROWS, COLUMNS}, chunk[RANK] = {5, 8}, most[RANK];
    int fill = -5;
    hid_t list = H5Pcreate(H5P_DATASET_CREATE), dataset;

    for (int d = 0; d < RANK; d++)
        most[d] = shape->unlimited[d] ? H5S_UNLIMITED : dims[d];
    if (shape->chunked)
        MUST(H5Pset_chunk(list, RANK, chunk));
    if (shape->edges_unfiltered)
        MUST(H5Pset_chunk_opts(list, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS));
    if (shape->shuffle)
        MUST(H5Pset_shuffle(list));
    if (shape->deflate)
        MUST(H5Pset_deflate(list, (unsigned)shape->deflate - 1));
    if (shape->fletcher)
        MUST(H5Pset_fletcher32(list));
    if (shape->time != H5D_ALLOC_TIME_DEFAULT)
        MUST(H5Pset_alloc_time(list, shape->time));
    MUST(H5Pset_fill_value(list, H5T_NATIVE_INT, &fill));
    hid_t space = H5Screate_simple(RANK, dims, most);
    MUST(dataset =
             H5Dcreate2(file, shape->name, H5T_STD_I32BE, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(list);
    return dataset;
}

static int values[ROWS * COLUMNS];

static void put(hid_t dataset, hid_t space)
{
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, space, space, H5P_DEFAULT, values));
}

static hid_t box(hsize_t y, hsize_t x, hsize_t rows, hsize_t columns)
{
    hsize_t dims[RANK] = {ROWS, COLUMNS}, start[RANK] = {y, x}, count[RANK] = {rows, columns};
    hid_t space = H5Screate_simple(RANK, dims, NULL);

    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
    return space;
}

/* A box, every ninth column of one row, and two points. */
static void put_parts(hid_t dataset)
{
    hsize_t start[RANK] = {12, 0}, stride[RANK] = {1, 18}, count[RANK] = {1, 2};
    hsize_t points[2][RANK] = {{20, 33}, {0, 33}};
    hid_t space = box(4, 7, 3, 4);

    put(dataset, space);
    MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
    put(dataset, space);
    MUST(H5Sselect_elements(space, H5S_SELECT_SET, 2, &points[0][0]));
    put(dataset, space);
    H5Sclose(space);
}

static const struct shape shapes[] = {
    {.name = "contiguous"},
    {.name = "contiguous early", .time = H5D_ALLOC_TIME_EARLY},
    {.name = "chunked", .chunked = true},
    {.name = "chunked early", .chunked = true, .time = H5D_ALLOC_TIME_EARLY},
    {.name = "chunked late", .chunked = true, .time = H5D_ALLOC_TIME_LATE},
    {.name = "rows grow", .chunked = true, .unlimited = {true, false}},
    {.name = "columns grow", .chunked = true, .unlimited = {false, true}},
    {.name = "both grow", .chunked = true, .unlimited = {true, true}},
    {.name = "deflate", .chunked = true, .deflate = 7},
    {.name = "deflate early", .chunked = true, .deflate = 7, .time = H5D_ALLOC_TIME_EARLY},
    {.name = "all filters", .chunked = true, .deflate = 10, .shuffle = true, .fletcher = true},
    {.name = "edges unfiltered",
     .chunked = true,
     .unlimited = {true, true},
     .deflate = 7,
     .edges_unfiltered = true},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

/* Each shape three times: untouched, written in parts, written whole. */
static void shapes_write(hid_t file, bool latest)
{
    for (size_t i = 0; i < SHAPES; i++)
        for (int amount = 0; amount < 3; amount++) {
            struct shape shape = shapes[i];
            char name[64];

            /* Native walks over an extensible array with the unlimited axis behind another one, and
             * names offsets that aren't any chunk's. */
            if (latest && shape.unlimited[1] && !shape.unlimited[0])
                continue;
            snprintf(name, sizeof name, "%s, %s", shapes[i].name,
                     amount == 0   ? "empty"
                     : amount == 1 ? "parts"
                                   : "whole");
            shape.name = name;
            hid_t dataset = create(file, &shape);
            if (amount == 1)
                put_parts(dataset);
            if (amount == 2)
                put(dataset, H5S_ALL);
            if (amount > 0 && shape.unlimited[0]) {
                hsize_t more[RANK] = {ROWS + 3, COLUMNS}, less[RANK] = {ROWS - 6, COLUMNS};

                MUST(H5Dset_extent(dataset, amount == 1 ? more : less));
            }
            H5Dclose(dataset);
        }
}

/* What was written to the chunks across the new edge lay beyond it: they keep their space. */
static void cut(hid_t file)
{
    static const struct shape cuts[] = {
        {.name = "cut", .chunked = true, .unlimited = {true, true}},
        {.name = "cut deflate", .chunked = true, .unlimited = {true, true}, .deflate = 7},
        {.name = "cut late",
         .chunked = true,
         .unlimited = {true, true},
         .time = H5D_ALLOC_TIME_LATE},
    };
    const hsize_t less[RANK] = {17, 27}, row[RANK] = {1, 27}, again[RANK] = {9, 27};

    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        hid_t dataset = create(file, &cuts[i]), space = box(18, 2, 2, 20), other = box(1, 28, 9, 3);

        put(dataset, space);
        put(dataset, other);
        MUST(H5Dset_extent(dataset, less));
        if (i == 0) {
            MUST(H5Dset_extent(dataset, row));
            MUST(H5Dset_extent(dataset, again));
        }
        H5Sclose(space);
        H5Sclose(other);
        H5Dclose(dataset);
    }
}

/* Space for no elements. */
static void nothing(hid_t file)
{
    static const H5D_layout_t layouts[] = {H5D_CONTIGUOUS, H5D_COMPACT};
    const hsize_t dims[RANK] = {0, COLUMNS};

    for (int i = 0; i < 2; i++) {
        hid_t list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(RANK, dims, NULL);
        hid_t dataset;

        MUST(H5Pset_layout(list, layouts[i]));
        MUST(H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY));
        MUST(dataset = H5Dcreate2(file, i ? "nothing, compact" : "nothing, early", H5T_STD_I32BE,
                                  space, H5P_DEFAULT, list, H5P_DEFAULT));
        H5Dclose(dataset);
        H5Sclose(space);
        H5Pclose(list);
    }
}

static herr_t tell_link(hid_t group, const char *name, const H5L_info2_t *info, void *skip)
{
    (void)info;
    if (!skip || strcmp(name, skip) != 0)
        tell(group, name);
    return 0;
}

/* ---- direct writes ---- */

#define MASKED "direct, filters left out"

/* Chunks of one dataset go into another as they are. */
static void copy_directly(hid_t file)
{
    static const struct shape shape = {
        .name = "direct copy", .chunked = true, .deflate = 10, .shuffle = true, .fletcher = true};
    static uint8_t bytes[1 << 16];
    hid_t source, target = create(file, &shape);

    MUST(source = H5Dopen2(file, "all filters, whole", H5P_DEFAULT));
    for (hsize_t y = 5; y < ROWS; y += 5)
        for (hsize_t x = 0; x < COLUMNS; x += 8) {
            hsize_t offset[RANK] = {y, x}, size;
            uint32_t mask;

            MUST(H5Dget_chunk_storage_size(source, offset, &size));
            MUST(H5Dread_chunk(source, H5P_DEFAULT, offset, &mask, bytes));
            MUST(H5Dwrite_chunk(target, H5P_DEFAULT, mask, offset, size, bytes));
        }
    H5Dclose(source);
    H5Dclose(target);
}

static void write_masked(hid_t file)
{
    static const struct shape shape = {
        .name = MASKED, .chunked = true, .deflate = 7, .shuffle = true};
    hsize_t first[RANK] = {0, 0}, second[RANK] = {5, 8}, third[RANK] = {10, 16};
    uint32_t chunk[5 * 8];
    hid_t dataset = create(file, &shape), space;

    for (uint32_t i = 0; i < 40; i++)
        chunk[i] = i << 24;
    /* Neither filter; then one is written again by native's way. */
    MUST(H5Dwrite_chunk(dataset, H5P_DEFAULT, 3, first, sizeof chunk, chunk));
    MUST(H5Dwrite_chunk(dataset, H5P_DEFAULT, 3, second, sizeof chunk, chunk));
    MUST(H5Dwrite_chunk(dataset, H5P_DEFAULT, 3, third, sizeof chunk, chunk));
    space = box(10, 16, 5, 8);
    put(dataset, space);
    H5Sclose(space);
    hsize_t crooked[RANK] = {1, 8}, outside[RANK] = {ROWS + 4, 0};
    H5E_BEGIN_TRY
    {
        printf("crooked %d, outside %d\n",
               H5Dwrite_chunk(dataset, H5P_DEFAULT, 3, crooked, sizeof chunk, chunk),
               H5Dwrite_chunk(dataset, H5P_DEFAULT, 3, outside, sizeof chunk, chunk));
    }
    H5E_END_TRY
    H5Dclose(dataset);
}

/* ---- what is asked of a dataset that isn't chunked, or of a chunk that isn't there ---- */

static void tell_refusals(hid_t file)
{
    hsize_t count = 0, size = 9, origin[RANK] = {0, 0};
    uint32_t mask = 9;
    char byte[1 << 12];
    hid_t plain, chunked, empty;
    herr_t answers[5];

    MUST(plain = H5Dopen2(file, "contiguous, whole", H5P_DEFAULT));
    MUST(chunked = H5Dopen2(file, "deflate, parts", H5P_DEFAULT));
    MUST(empty = H5Dopen2(file, "deflate, empty", H5P_DEFAULT));
    H5E_BEGIN_TRY
    {
        answers[0] = H5Dget_num_chunks(plain, H5S_ALL, &count);
        answers[1] = H5Dread_chunk(chunked, H5P_DEFAULT, origin, &mask, byte);
        origin[0] = 15;
        answers[2] = H5Dget_chunk_storage_size(chunked, origin, &size);
        answers[3] = H5Dread_chunk(chunked, H5P_DEFAULT, origin, &mask, byte);
        answers[4] = H5Dget_chunk_storage_size(empty, origin, &size);
    }
    H5E_END_TRY
    printf("refusals %d %d %d %d %d\n", answers[0], answers[1], answers[2], answers[3], answers[4]);
    H5Dclose(plain);
    H5Dclose(chunked);
    H5Dclose(empty);
}

int main(int argc, char **argv)
{
    hid_t file, list = H5Pcreate(H5P_FILE_ACCESS);

    if (argc < 3)
        return 2;
    bool writing = strcmp(argv[1], "write") == 0;
    bool latest = argc > 3 && strcmp(argv[3], "latest") == 0;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        values[i] = i * i % 1000 / 50;
    if (writing && latest)
        MUST(H5Pset_libver_bounds(list, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
    if (writing) {
        MUST(file = H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, list));
        shapes_write(file, latest);
        copy_directly(file);
        write_masked(file);
        cut(file);
        nothing(file);
    } else {
        MUST(file = H5Fopen(argv[2], H5F_ACC_RDONLY, list));
    }
    tell_refusals(file);
    /* In another process the market filters such chunks like all others. */
    MUST(H5Literate2(file, H5_INDEX_NAME, H5_ITER_INC, NULL, tell_link, writing ? NULL : MASKED));
    if (!writing) {
        static int back[ROWS * COLUMNS];
        hid_t dataset = H5Dopen2(file, MASKED, H5P_DEFAULT);

        MUST(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, back));
        printf("masked values %016llx\n", (unsigned long long)hash_of(back, sizeof back));
        H5Dclose(dataset);
    }
    printf("open objects %d\n", (int)H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL));
    H5Pclose(list);
    MUST(H5Fclose(file));
    return 0;
}
