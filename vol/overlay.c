/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A read: what pieces hold lies over what the native dataset holds. Native is asked only where the
 * pieces are not known to cover everything that is wanted.
 */
#include <stddef.h>
#include <string.h>

#include "core/base/fault.h"
#include "vol/error.h"
#include "vol/native.h"
#include "vol/transfer_internal.h"
#include "vol/unwritten.h"

/* ---- do the pieces cover the want? ---- */

/* Sets *covered_out and, in *skip_out, how many pieces need not be copied since a later one holds
 * everything. */
static enum mkt_status covered(struct mkt_vol_io *io, const struct mkt_slab *want,
                               bool *covered_out, uint32_t *skip_out)
{
    struct mkt_cover cover;
    mkt_cover_begin(&cover, io->client, want, io->file_bytes);

    enum mkt_status status = mkt_vol_sources_query(&io->sources, want, mkt_cover_piece, &cover);
    bool disjoint = mkt_cover_is_open(&cover) && mkt_vol_sources_disjoint(&io->sources);
    *covered_out = mkt_cover_holds_all(&cover, disjoint);
    *skip_out = mkt_cover_hidden(&cover);
    return status;
}

/* ---- copying ---- */

struct copy {
    struct mkt_vol_io *io;
    const struct mkt_slab *want;
    const struct mkt_layout *layout;
    void *memory;
    const void *piece;
    uint32_t skip;
    struct mkt_error error;
};

static void move_get(void *context, const struct mkt_move *move)
{
    const struct copy *copy = context;

    mkt_engine_shm.move(move, MKT_GET, copy->memory, (void *)(uintptr_t)copy->piece);
}

/* In memory, or read into it: as much as the copy needs. */
static enum mkt_status get_piece(struct copy *copy, const struct mkt_piece *piece,
                                 const void *table, struct mkt_piece_data *data_out)
{
    const struct mkt_vol_io *io = copy->io;
    const struct mkt_piece_source source = {.file = io->transfer->dataset->file->handle,
                                            .identity =
                                                mkt_vol_array_meta(io->transfer->array)->identity};
    struct mkt_spans wanted = {0};

    if (mkt_extent_is_cold(&piece->data) &&
        mkt_plan_piece(copy->want, copy->layout, piece, table, io->file_bytes, mkt_spans_add,
                       &wanted) == 0) {
        *data_out = (struct mkt_piece_data){.base = NULL}; /* only its bounds meet the want */
        return MKT_OK;
    }
    enum mkt_status status =
        mkt_client_piece_get(io->client, &source, piece, &wanted, data_out, &copy->error);
    mkt_spans_fini(&wanted);
    return status;
}

static enum mkt_status copy_piece(void *context, const struct mkt_piece *piece)
{
    struct copy *copy = context;
    struct mkt_piece_data data;
    const void *table;

    if (copy->skip > 0) {
        copy->skip--;
        return MKT_OK;
    }
    if (piece->slab.rank != copy->want->rank)
        return MKT_CORRUPT;
    enum mkt_status status =
        mkt_client_piece_table(copy->io->client, piece, copy->io->file_bytes, &table);
    if (status == MKT_OK)
        status = get_piece(copy, piece, table, &data);
    mkt_fault_point("vol.read-mapped");
    if (status != MKT_OK)
        return status;
    copy->piece = data.base;
    mkt_plan_piece(copy->want, copy->layout, piece, table, copy->io->file_bytes, move_get, copy);
    mkt_client_piece_put(copy->io->client, &data);
    return MKT_OK;
}

static herr_t fail(const struct mkt_vol_io *io, enum mkt_status status,
                   const struct mkt_error *error)
{
    return mkt_vol_fail(H5E_DATASET, H5E_READERROR,
                        "%s: cannot read a dataset from the market: %s%s%s",
                        io->transfer->dataset->file->path, mkt_status_text(status),
                        error->text[0] ? ": " : "", error->text);
}

static herr_t copy_pieces(struct mkt_vol_io *io, const struct mkt_slab *want,
                          const struct mkt_layout *layout, uint32_t skip, void *memory)
{
    struct copy copy; /* as large, for its error's text */
    memset(&copy, 0, offsetof(struct copy, error));
    copy.io = io;
    copy.want = want;
    copy.layout = layout;
    copy.memory = memory;
    copy.skip = skip;
    copy.error.text[0] = '\0';

    enum mkt_status status = mkt_vol_sources_query(&io->sources, want, copy_piece, &copy);
    return status == MKT_OK ? 0 : fail(io, status, &copy.error);
}

/* ---- what lies under the pieces ---- */

static herr_t native_read_packed(struct mkt_vol_io *io, hid_t file_space, uint64_t elements,
                                 void *packed_out)
{
    const struct mkt_vol_transfer *transfer = io->transfer;
    hsize_t length = elements;

    if (mkt_vol_unwritten_is_zeros(transfer->dataset, &io->sources)) {
        memset(packed_out, 0, elements * io->file_bytes);
        return 0;
    }
    hid_t memory = H5Screate_simple(1, &length, NULL);
    if (memory < 0)
        return -1;
    /* The transfer list's transform comes later, with the rest. */
    herr_t result = mkt_vol_native_read(transfer->dataset, transfer->file_type, memory, file_space,
                                        H5P_DATASET_XFER_DEFAULT, packed_out);
    H5Sclose(memory);
    return result;
}

static hid_t space_of_slab(const struct mkt_vol_io *io, const struct mkt_slab *slab)
{
    hsize_t dims[MKT_MAX_RANK], start[MKT_MAX_RANK], stride[MKT_MAX_RANK], count[MKT_MAX_RANK],
        block[MKT_MAX_RANK];
    const struct mkt_array *meta = mkt_vol_array_meta(io->transfer->array);

    if (slab->rank == 0)
        return H5Screate(H5S_SCALAR);
    for (uint32_t d = 0; d < slab->rank; d++) {
        dims[d] = meta->dims[d];
        start[d] = slab->dim[d].start;
        stride[d] = slab->dim[d].stride;
        count[d] = slab->dim[d].count;
        block[d] = slab->dim[d].block;
    }
    hid_t space = H5Screate_simple((int)slab->rank, dims, NULL);
    if (space >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, block) < 0) {
        H5Sclose(space);
        space = H5I_INVALID_HID;
    }
    return space;
}

/* The application's whole selection. */
static herr_t native_read_direct(struct mkt_vol_io *io, void *buffer)
{
    const struct mkt_vol_transfer *transfer = io->transfer;

    if (!mkt_vol_unwritten_is_zeros(transfer->dataset, &io->sources))
        return mkt_vol_native_read(transfer->dataset, transfer->mem_type, transfer->mem_space,
                                   transfer->file_space, transfer->dxpl, buffer);
    if (transfer->mem_space > H5S_PLIST)
        return H5Dfill(NULL, transfer->mem_type, buffer, transfer->mem_type, transfer->mem_space);
    /* As in the file, or one behind the other. */
    hsize_t length = io->file.elements;
    hid_t space = transfer->mem_space == H5S_BLOCK   ? H5Screate_simple(1, &length, NULL)
                  : transfer->file_space > H5S_PLIST ? H5Scopy(transfer->file_space)
                                                     : space_of_slab(io, &io->file.slab);
    if (space < 0)
        return -1;
    herr_t result = H5Dfill(NULL, transfer->mem_type, buffer, transfer->mem_type, space);
    mkt_vol_close_keeping_errors(space);
    return result;
}

/* ---- the three ways to read ---- */

herr_t mkt_vol_overlay_direct(struct mkt_vol_io *io, void *buffer)
{
    bool all;
    uint32_t skip;

    enum mkt_status status = covered(io, &io->file.slab, &all, &skip);
    if (status != MKT_OK)
        return fail(io, status, &(struct mkt_error){0});
    if (!all && native_read_direct(io, buffer) < 0)
        return -1;
    return copy_pieces(io, &io->file.slab, &io->layout, skip, buffer);
}

herr_t mkt_vol_overlay_slab(struct mkt_vol_io *io, const struct mkt_slab *want, void *packed_out)
{
    struct mkt_layout packed;
    bool all;
    uint32_t skip;

    enum mkt_status status = covered(io, want, &all, &skip);
    if (status != MKT_OK)
        return fail(io, status, &(struct mkt_error){0});
    if (!all) {
        hid_t space = space_of_slab(io, want);
        if (space < 0)
            return -1;
        herr_t result = native_read_packed(io, space, mkt_slab_elements(want), packed_out);
        H5Sclose(space);
        if (result < 0)
            return -1;
    }
    mkt_layout_packed(&packed, want, io->file_bytes, 0);
    return copy_pieces(io, want, &packed, skip, packed_out);
}

/* A run of a row-major extent, cut at the ends of rows, as a box. Returns its elements. */
static uint64_t row_of(const struct mkt_vol_selection *file, uint64_t offset, uint64_t most,
                       struct mkt_slab *row_out)
{
    uint64_t length = 1;

    row_out->rank = file->rank;
    for (uint32_t d = file->rank; d-- > 0;) {
        uint64_t at = offset % file->dims[d];

        if (d + 1 == file->rank)
            length = file->dims[d] - at < most ? file->dims[d] - at : most;
        uint64_t block = d + 1 == file->rank ? length : 1;
        row_out->dim[d] = (struct mkt_dim){at, block, 1, block};
        offset /= file->dims[d];
    }
    return length;
}

static herr_t copy_runs(struct mkt_vol_io *io, uint8_t *packed)
{
    struct mkt_vol_runs runs;
    struct mkt_layout layout;
    struct mkt_slab row;
    uint64_t offset, length;
    herr_t result = mkt_vol_runs_open(&runs, &io->file);

    while (result >= 0) {
        result = mkt_vol_runs_next(&runs, UINT64_MAX, &offset, &length);
        if (result < 0 || length == 0)
            break;
        for (uint64_t done = 0; done < length && result >= 0;) {
            uint64_t step = row_of(&io->file, offset + done, length - done, &row);

            mkt_layout_packed(&layout, &row, io->file_bytes, 0);
            result = copy_pieces(io, &row, &layout, 0, packed);
            packed += step * io->file_bytes;
            done += step;
        }
    }
    mkt_vol_runs_close(&runs);
    return result;
}

herr_t mkt_vol_overlay_runs(struct mkt_vol_io *io, void *packed_out)
{
    bool all;
    uint32_t skip;

    /* One piece that holds the bounding box holds every run; short of that native fills in first.
     */
    enum mkt_status status = covered(io, &io->file.slab, &all, &skip);
    if (status != MKT_OK)
        return fail(io, status, &(struct mkt_error){0});
    if (!all && native_read_packed(io, io->file.space, io->file.elements, packed_out) < 0)
        return -1;
    return copy_runs(io, packed_out);
}
