/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes of point lists and irregular hyperslabs become one piece: the bounding box if every
 * element of it is written, the box with a bitmap if that is smaller than a list, else a list of
 * runs.
 */
#include <stdlib.h>
#include <string.h>

#include "vol/mask.h"
#include "vol/transfer_internal.h"

/* Elements that lie together both in the bounding box (packed index) and in the packed buffer. */
struct run {
    uint64_t offset, length, from;
};

struct runs {
    struct run *run;
    uint64_t count, capacity;
};

static bool runs_append(struct runs *runs, uint64_t offset, uint64_t length, uint64_t from)
{
    struct run *last = runs->count > 0 ? &runs->run[runs->count - 1] : NULL;

    if (last && last->offset + last->length == offset && last->from + last->length == from) {
        last->length += length;
        return true;
    }
    if (runs->count == runs->capacity) {
        uint64_t capacity = runs->capacity ? 2 * runs->capacity : 64;
        struct run *grown = realloc(runs->run, capacity * sizeof *grown);

        if (!grown)
            return false;
        runs->run = grown;
        runs->capacity = capacity;
    }
    runs->run[runs->count++] = (struct run){offset, length, from};
    return true;
}

/* The packed index in the bounding box of an element of the extent, and how many follow it in the
 * same row of both. */
static uint64_t index_in_box(const struct mkt_vol_selection *file, uint64_t offset,
                             uint64_t *row_left_out)
{
    uint64_t index = 0, pitch = 1;

    *row_left_out = 1;
    for (uint32_t d = file->rank; d-- > 0;) {
        uint64_t at = offset % file->dims[d];
        const struct mkt_dim *dim = &file->slab.dim[d];

        if (d + 1 == file->rank)
            *row_left_out = file->dims[d] - at;
        index += (at - dim->start) * pitch;
        pitch *= mkt_dim_elements(dim);
        offset /= file->dims[d];
    }
    return index;
}

static herr_t collect(struct mkt_vol_io *io, struct runs *runs)
{
    struct mkt_vol_runs walk;
    uint64_t offset, length, from = 0;
    herr_t result = mkt_vol_runs_open(&walk, &io->file);

    while (result >= 0) {
        result = mkt_vol_runs_next(&walk, UINT64_MAX, &offset, &length);
        if (result < 0 || length == 0)
            break;
        for (uint64_t done = 0, step; done < length && result >= 0; done += step) {
            uint64_t index = index_in_box(&io->file, offset + done, &step);

            if (step > length - done)
                step = length - done;
            if (!runs_append(runs, index, step, from))
                result = mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC,
                                      "no memory for the runs of a selection");
            from += step;
        }
    }
    mkt_vol_runs_close(&walk);
    return result;
}

static int by_place(const void *left, const void *right)
{
    const struct run *a = left, *b = right;

    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

/* Sorts by place. A point named twice keeps its later value: then the runs are cut to single
 * elements first. */
static bool sort_runs(struct runs *runs)
{
    bool sorted = true, twice = false;

    for (uint64_t i = 1; i < runs->count; i++)
        sorted = sorted && runs->run[i - 1].offset + runs->run[i - 1].length <= runs->run[i].offset;
    if (sorted)
        return true;
    qsort(runs->run, runs->count, sizeof *runs->run, by_place);
    for (uint64_t i = 1; i < runs->count; i++)
        twice = twice || runs->run[i - 1].offset + runs->run[i - 1].length > runs->run[i].offset;
    if (!twice)
        return true;

    struct runs single = {0};
    for (uint64_t i = 0; i < runs->count; i++)
        for (uint64_t e = 0; e < runs->run[i].length; e++) {
            if (single.count == single.capacity) {
                single.capacity = single.capacity ? 2 * single.capacity : 2 * runs->count;
                struct run *grown = realloc(single.run, single.capacity * sizeof *grown);
                if (!grown) {
                    free(single.run);
                    return false;
                }
                single.run = grown;
            }
            single.run[single.count++] =
                (struct run){runs->run[i].offset + e, 1, runs->run[i].from + e};
        }
    qsort(single.run, single.count, sizeof *single.run, by_place);
    uint64_t kept = 0;
    for (uint64_t i = 0; i < single.count; i++)
        if (i + 1 == single.count || single.run[i].offset != single.run[i + 1].offset)
            single.run[kept++] = single.run[i];
    free(runs->run);
    *runs = single;
    runs->count = kept;
    return true;
}

static void copy_runs(const struct mkt_vol_io *io, const struct runs *runs, const uint8_t *packed,
                      uint8_t *data, bool boxed)
{
    uint64_t bytes = io->file_bytes, at = 0;

    for (uint64_t i = 0; i < runs->count; i++) {
        const struct run *run = &runs->run[i];

        memcpy(data + (boxed ? run->offset : at) * bytes, packed + run->from * bytes,
               run->length * bytes);
        at += run->length;
    }
}

static void fill_mask(uint8_t *mask, uint64_t mask_bytes, const struct runs *runs)
{
    memset(mask, 0, mask_bytes);
    for (uint64_t i = 0; i < runs->count; i++)
        for (uint64_t e = runs->run[i].offset; e < runs->run[i].offset + runs->run[i].length; e++)
            mask[e / 8] |= (uint8_t)(1u << e % 8);
}

static void fill_list(uint64_t *list, const struct runs *runs)
{
    for (uint64_t i = 0; i < runs->count; i++) {
        list[2 * i] = runs->run[i].offset;
        list[2 * i + 1] = runs->run[i].length;
    }
}

static enum mkt_status write_runs(struct mkt_vol_io *io, const struct runs *runs, uint64_t written,
                                  const void *packed, struct mkt_error *error)
{
    struct mkt_vol_array *array = io->transfer->array;
    uint64_t box = mkt_slab_elements(&io->file.slab);
    uint64_t masked_bytes = box * io->file_bytes + mkt_vol_mask_bytes(box);
    uint64_t list_bytes = written * io->file_bytes + runs->count * 16;
    bool masked = masked_bytes <= list_bytes;
    struct mkt_piece wanted = {.form = masked ? MKT_PIECE_MASKED : MKT_PIECE_LIST,
                               .slab = io->file.slab};
    struct mkt_vol_place place;
    enum mkt_status status;

    if (box == written) {
        status = mkt_vol_array_place(array, &io->file.slab, true, &place, error);
        if (status != MKT_OK)
            return status;
        copy_runs(io, runs, packed, place.data, true);
        return mkt_vol_array_written(&place, error);
    }
    wanted.data.length = (masked ? box : written) * io->file_bytes;
    wanted.table.length = masked ? mkt_vol_mask_bytes(box) : runs->count * 16;
    status = mkt_vol_array_place_table(array, &wanted, &place, error);
    if (status != MKT_OK)
        return status;
    copy_runs(io, runs, packed, place.data, masked);
    if (masked)
        fill_mask(place.table, wanted.table.length, runs);
    else
        fill_list(place.table, runs);
    return mkt_vol_array_written(&place, error);
}

herr_t mkt_vol_scatter_write(struct mkt_vol_io *io, const void *packed)
{
    struct mkt_vol_file *file = io->transfer->dataset->file;
    struct runs runs = {0};
    struct mkt_error error = {0};
    uint64_t written = 0;
    herr_t result = collect(io, &runs);

    if (result >= 0 && !sort_runs(&runs))
        result = mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC,
                              "no memory to sort the points of a selection");
    if (result >= 0) {
        for (uint64_t i = 0; i < runs.count; i++)
            written += runs.run[i].length;
        if (write_runs(io, &runs, written, packed, &error) != MKT_OK) {
            mkt_vol_file_poison(file, "a write failed: %s", error.text);
            result = mkt_vol_fail(H5E_DATASET, H5E_WRITEERROR,
                                  "%s: cannot write a dataset to the market: %s", file->path,
                                  error.text);
        }
    }
    free(runs.run);
    return result;
}
