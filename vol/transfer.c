/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/fault.h"
#include "vol/error.h"
#include "vol/file_state.h"
#include "vol/native.h"
#include "vol/transfer_internal.h"
#include "vol/transform.h"
#include "vol/unwritten.h"

#define PIECE_MAX_BYTES (UINT64_C(64) << 20) /* a larger box is split along its slowest axis */

/* ---- set-up ---- */

static bool is_extent_of(const struct mkt_vol_selection *selection, const struct mkt_array *meta)
{
    return selection->rank == meta->rank &&
           memcmp(selection->dims, meta->dims, meta->rank * sizeof(meta->dims[0])) == 0;
}

static bool is_chunked(const struct mkt_vol_object *dataset)
{
    hid_t list = mkt_vol_native_get(dataset, H5VL_DATASET_GET_DCPL);
    bool chunked = list < 0 || H5Pget_layout(list) == H5D_CHUNKED;

    if (list >= 0)
        H5Pclose(list);
    return chunked;
}

/* A file dataspace of another extent than the dataset's: where there are no chunks, HDF5 goes by
 * the offsets of the elements in the dataspace given. */
static herr_t select_by_offset(struct mkt_vol_io *io, struct mkt_vol_transfer *transfer,
                               const struct mkt_array *meta)
{
    hid_t space = mkt_vol_selection_by_offset(&io->file, meta->rank, meta->dims);

    if (space < 0)
        return -1;
    if (transfer->mem_space == H5S_ALL)
        transfer->mem_space = transfer->file_space;
    transfer->file_space = space;
    transfer->owns_space = true;
    return mkt_vol_selection_read(&io->file, space);
}

static herr_t read_selections(struct mkt_vol_io *io, struct mkt_vol_transfer *transfer)
{
    const struct mkt_array *meta = mkt_vol_array_meta(transfer->array);

    if (transfer->file_space == H5S_ALL)
        mkt_vol_selection_whole(&io->file, meta->rank, meta->dims);
    else if (mkt_vol_selection_read(&io->file, transfer->file_space) < 0)
        return -1;

    if (transfer->mem_space == H5S_ALL)
        io->memory = io->file;
    else if (transfer->mem_space == H5S_BLOCK)
        mkt_vol_selection_whole(&io->memory, 1, &io->file.elements);
    else if (mkt_vol_selection_read(&io->memory, transfer->mem_space) < 0)
        return -1;

    if (io->file.elements != io->memory.elements)
        return mkt_vol_fail(H5E_DATASET, H5E_BADVALUE,
                            "src and dest dataspaces have different number of elements selected");
    if (io->file.elements == 0)
        return 0;
    if (!is_extent_of(&io->file, meta) && !is_chunked(transfer->dataset) &&
        select_by_offset(io, transfer, meta) < 0)
        return -1;
    if (io->file.rank != meta->rank)
        return mkt_vol_fail(H5E_DATASET, H5E_BADVALUE,
                            "the file dataspace has rank %u, the dataset %u", io->file.rank,
                            meta->rank);
    for (uint32_t d = 0; d < meta->rank; d++)
        if (mkt_dim_end(&io->file.slab.dim[d]) > meta->dims[d])
            return mkt_vol_fail(H5E_DATASET, H5E_BADRANGE,
                                "file selection+offset not within extent");
    return 0;
}

static bool can_convert(hid_t from, hid_t to)
{
    struct mkt_vol_silence silence;
    H5T_cdata_t *path;

    mkt_vol_silence_begin(&silence);
    bool can = H5Tfind(from, to, &path) != NULL;
    mkt_vol_silence_end(&silence);
    return can;
}

static herr_t read_types(struct mkt_vol_io *io, bool writing)
{
    const struct mkt_vol_transfer *transfer = io->transfer;

    io->file_bytes = mkt_vol_array_meta(transfer->array)->element_bytes;
    io->convert = false;
    io->mem_bytes = io->file_bytes;
    if (transfer->mem_type == transfer->file_type)
        return 0;
    if (H5Iget_type(transfer->mem_type) != H5I_DATATYPE)
        return mkt_vol_fail(H5E_ARGS, H5E_BADTYPE, "not a datatype");
    io->mem_bytes = (uint32_t)H5Tget_size(transfer->mem_type);
    htri_t equal = H5Tequal(transfer->mem_type, transfer->file_type);
    if (equal < 0 || io->mem_bytes == 0)
        return -1;
    io->convert = !equal;
    if (!io->convert)
        return 0;
    if (H5Tdetect_class(transfer->file_type, H5T_REFERENCE) > 0)
        return mkt_vol_fail(H5E_DATASET, H5E_UNSUPPORTED,
                            "%s: object references that several processes wrote can be read and "
                            "written in the market "
                            "as H5T_STD_REF_OBJ only",
                            transfer->dataset->file->path);
    hid_t from = writing ? transfer->mem_type : transfer->file_type;
    hid_t to = writing ? transfer->file_type : transfer->mem_type;
    if (!can_convert(from, to))
        return mkt_vol_fail(H5E_DATASET, H5E_UNSUPPORTED,
                            "unable to convert between src and dest datatypes");
    io->background = H5Tdetect_class(to, H5T_COMPOUND) > 0;
    return 0;
}

static herr_t io_begin(struct mkt_vol_io *io, struct mkt_vol_transfer *transfer, bool writing)
{
    io->transfer = transfer;
    io->client = transfer->dataset->file->client;
    io->convert = io->background = io->blank = io->direct = false;
    if (mkt_vol_file_refuse_in_child(transfer->dataset->file, H5E_DATASET) < 0 ||
        read_selections(io, transfer) < 0 || read_types(io, writing) < 0)
        return -1;
    io->transform = io->file.elements > 0 && mkt_vol_transform_wanted(transfer->dxpl);
    if (io->file.elements > 0 && !io->convert && !io->transform)
        io->direct = mkt_vol_selection_layout(&io->file, &io->memory, io->file_bytes, &io->layout);
    return 0;
}

/* ---- between the application's memory and a packed buffer ---- */

/* Copies the next `elements` of the memory selection; `packed` in the memory's type. */
static herr_t walk_memory(struct mkt_vol_runs *runs, uint32_t bytes, void *memory, void *packed,
                          uint64_t elements, enum mkt_direction direction)
{
    uint64_t offset, length;

    for (uint8_t *at = packed; elements > 0; elements -= length, at += length * bytes) {
        if (mkt_vol_runs_next(runs, elements, &offset, &length) < 0 || length == 0)
            return -1;
        uint8_t *place = (uint8_t *)memory + offset * bytes;
        memcpy(direction == MKT_GET ? place : at, direction == MKT_GET ? at : place,
               length * bytes);
    }
    return 0;
}

/* Buffers for one strip: elements before and after conversion, and what the conversion keeps. */
struct strip {
    struct mkt_vol_io *io;
    uint64_t elements; /* at most, at a time */
    uint8_t *values, *background;
    struct mkt_vol_runs runs, background_runs; /* where in memory it is */
    uint8_t *memory;                           /* the application's buffer */
    uint8_t *target;                           /* writing: the piece's next byte */
};

static herr_t strip_open(struct strip *strip, struct mkt_vol_io *io, const void *memory)
{
    uint32_t bytes = io->file_bytes > io->mem_bytes ? io->file_bytes : io->mem_bytes;

    memset(strip, 0, offsetof(struct strip, runs));
    strip->io = io;
    strip->memory = (uint8_t *)memory; /* written to by reads only */
    strip->runs.iterator = strip->background_runs.iterator = H5I_INVALID_HID;
    /* What is no hyperslab is converted at once. */
    strip->elements =
        io->file.regular && bytes < MKT_VOL_STRIP_BYTES ? MKT_VOL_STRIP_BYTES / bytes : 1;
    if (!io->file.regular || strip->elements > io->file.elements)
        strip->elements = io->file.elements;
    strip->values = malloc(strip->elements * bytes);
    if (io->background)
        strip->background = malloc(strip->elements * bytes);
    if (!strip->values || (io->background && !strip->background))
        return mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC,
                            "no memory to convert %llu elements of %u bytes",
                            (unsigned long long)strip->elements, bytes);
    if (mkt_vol_runs_open(&strip->runs, &io->memory) < 0)
        return -1;
    return io->background ? mkt_vol_runs_open(&strip->background_runs, &io->memory) : 0;
}

static void strip_close(struct strip *strip)
{
    mkt_vol_runs_close(&strip->runs);
    mkt_vol_runs_close(&strip->background_runs);
    free(strip->values);
    free(strip->background);
}

static herr_t strip_convert(struct strip *strip, hid_t from, hid_t to, uint64_t elements)
{
    struct mkt_vol_silence silence;

    mkt_vol_silence_begin(&silence);
    herr_t result =
        H5Tconvert(from, to, elements, strip->values, strip->background, strip->io->transfer->dxpl);
    mkt_vol_silence_end(&silence);
    return result;
}

/* ---- writing ---- */

static herr_t write_failed(const struct mkt_vol_io *io, const struct mkt_error *error)
{
    struct mkt_vol_file *file = io->transfer->dataset->file;

    mkt_vol_file_poison(file, "a write failed: %s", error->text);
    return mkt_vol_fail(H5E_DATASET, H5E_WRITEERROR, "%s: cannot write a dataset to the market: %s",
                        file->path, error->text);
}

struct put {
    struct mkt_vol_io *io;
    void *memory, *piece;
};

static void move_put(void *context, const struct mkt_move *move)
{
    const struct put *put = context;

    mkt_engine_shm.move(move, MKT_PUT, put->memory, put->piece);
}

static herr_t put_direct(void *context, const struct mkt_slab *part)
{
    struct put *put = context;
    struct mkt_vol_io *io = put->io;
    struct mkt_vol_place place;
    struct mkt_error error;

    if (mkt_vol_array_place(io->transfer->array, part, false, &place, &error) != MKT_OK)
        return write_failed(io, &error);
    put->piece = place.data;
    mkt_plan_piece(&io->file.slab, &io->layout, &place.geometry, NULL, io->file_bytes, move_put,
                   put);
    mkt_fault_point("vol.write-copied");
    return mkt_vol_array_written(&place, &error) == MKT_OK ? 0 : write_failed(io, &error);
}

/* What a partial write of compounds leaves alone. */
static herr_t strip_keep(struct strip *strip, const struct mkt_slab *part, uint64_t elements)
{
    struct mkt_vol_io *io = strip->io;

    if (io->blank) {
        memset(strip->background, 0, elements * io->file_bytes);
        return 0;
    }
    return part ? mkt_vol_overlay_slab(io, part, strip->background)
                : mkt_vol_overlay_runs(io, strip->background);
}

/* The next elements of memory, converted, in strip->values. */
static herr_t strip_gather(struct strip *strip, const struct mkt_slab *part, uint64_t elements)
{
    struct mkt_vol_io *io = strip->io;
    const struct mkt_vol_transfer *transfer = io->transfer;

    if (walk_memory(&strip->runs, io->mem_bytes, strip->memory, strip->values, elements, MKT_PUT) <
        0)
        return -1;
    if (io->transform &&
        mkt_vol_transform_apply(transfer->dxpl, transfer->mem_type, elements, strip->values) < 0)
        return -1;
    if (!io->convert)
        return 0;
    if (io->background && strip_keep(strip, part, elements) < 0)
        return -1;
    return strip_convert(strip, transfer->mem_type, transfer->file_type, elements);
}

static herr_t put_strip(void *context, const struct mkt_slab *part)
{
    struct strip *strip = context;
    struct mkt_vol_io *io = strip->io;
    uint64_t elements = mkt_slab_elements(part);

    if (!io->convert && !io->transform) {
        if (walk_memory(&strip->runs, io->mem_bytes, strip->memory, strip->target, elements,
                        MKT_PUT) < 0)
            return -1;
    } else {
        if (strip_gather(strip, part, elements) < 0)
            return -1;
        memcpy(strip->target, strip->values, elements * io->file_bytes);
    }
    strip->target += elements * io->file_bytes;
    return 0;
}

static herr_t put_converted(void *context, const struct mkt_slab *part)
{
    struct strip *strip = context;
    struct mkt_vol_place place;
    struct mkt_error error;

    if (mkt_vol_array_place(strip->io->transfer->array, part, true, &place, &error) != MKT_OK)
        return write_failed(strip->io, &error);
    strip->target = place.data;
    if (mkt_vol_slab_split(part, strip->elements, put_strip, strip) < 0) {
        mkt_vol_array_dropped(&place);
        return -1;
    }
    return mkt_vol_array_written(&place, &error) == MKT_OK ? 0 : write_failed(strip->io, &error);
}

static herr_t write_strips(struct mkt_vol_io *io, const void *buffer)
{
    struct strip strip;
    herr_t result = strip_open(&strip, io, buffer);

    if (result >= 0 && io->file.regular)
        result = mkt_vol_slab_split(&io->file.slab, PIECE_MAX_BYTES / io->file_bytes, put_converted,
                                    &strip);
    else if (result >= 0) {
        result = strip_gather(&strip, NULL, io->file.elements);
        if (result >= 0)
            result = mkt_vol_scatter_write(io, strip.values);
    }
    strip_close(&strip);
    return result;
}

herr_t mkt_vol_transfer_check_write(struct mkt_vol_transfer *transfer)
{
    struct mkt_vol_io io;

    return io_begin(&io, transfer, true);
}

herr_t mkt_vol_transfer_write(struct mkt_vol_transfer *transfer, const void *buffer)
{
    struct mkt_vol_io io;
    struct mkt_error error;
    herr_t result;

    if (io_begin(&io, transfer, true) < 0)
        return -1;
    if (io.file.elements == 0)
        return 0;
    if (!buffer)
        return mkt_vol_fail(H5E_ARGS, H5E_BADVALUE, "no input buffer");
    if (io.direct) {
        struct put put = {.io = &io, .memory = (void *)buffer};
        return mkt_vol_slab_split(&io.file.slab, PIECE_MAX_BYTES / io.file_bytes, put_direct, &put);
    }
    if (!io.background)
        return write_strips(&io, buffer);
    if (mkt_vol_sources_open(&io.sources, transfer->array, &error) != MKT_OK)
        return write_failed(&io, &error);
    io.blank = mkt_vol_unwritten_stays_zeros(transfer->dataset, &io.sources, io.file.elements);
    result = write_strips(&io, buffer);
    mkt_vol_sources_close(&io.sources);
    return result;
}

/* ---- reading ---- */

static herr_t strip_deliver(struct strip *strip, uint64_t elements)
{
    struct mkt_vol_io *io = strip->io;
    const struct mkt_vol_transfer *transfer = io->transfer;

    if (io->background && walk_memory(&strip->background_runs, io->mem_bytes, strip->memory,
                                      strip->background, elements, MKT_PUT) < 0)
        return -1;
    if (io->convert && strip_convert(strip, transfer->file_type, transfer->mem_type, elements) < 0)
        return -1;
    if (io->transform &&
        mkt_vol_transform_apply(transfer->dxpl, transfer->mem_type, elements, strip->values) < 0)
        return -1;
    return walk_memory(&strip->runs, io->mem_bytes, strip->memory, strip->values, elements,
                       MKT_GET);
}

static herr_t get_strip(void *context, const struct mkt_slab *part)
{
    struct strip *strip = context;

    if (mkt_vol_overlay_slab(strip->io, part, strip->values) < 0)
        return -1;
    return strip_deliver(strip, mkt_slab_elements(part));
}

static herr_t read_strips(struct mkt_vol_io *io, void *buffer)
{
    struct strip strip;
    herr_t result = strip_open(&strip, io, buffer);

    if (result >= 0 && io->file.regular)
        result = mkt_vol_slab_split(&io->file.slab, strip.elements, get_strip, &strip);
    else if (result >= 0) {
        result = mkt_vol_overlay_runs(io, strip.values);
        if (result >= 0)
            result = strip_deliver(&strip, io->file.elements);
    }
    strip_close(&strip);
    return result;
}

herr_t mkt_vol_transfer_read(struct mkt_vol_transfer *transfer, void *buffer)
{
    struct mkt_vol_object *dataset = transfer->dataset;
    struct mkt_vol_io io;
    struct mkt_error error;
    herr_t result;

    if (io_begin(&io, transfer, false) < 0)
        return -1;
    if (io.file.elements == 0)
        return 0;
    if (!buffer)
        return mkt_vol_fail(H5E_ARGS, H5E_BADVALUE, "no output buffer");
    if (mkt_vol_sources_open(&io.sources, transfer->array, &error) != MKT_OK)
        return mkt_vol_fail(H5E_DATASET, H5E_READERROR,
                            "%s: cannot read a dataset from the market: %s", dataset->file->path,
                            error.text);
    /* Where there is no space native does it all: fill values aren't converted then. */
    if (io.direct || mkt_vol_sources_unallocated(&io.sources))
        result = mkt_vol_overlay_direct(&io, buffer);
    else
        result = read_strips(&io, buffer);
    mkt_vol_sources_close(&io.sources);
    return result;
}
