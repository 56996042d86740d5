/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One piece into its dataset. Boxes and slabs go straight from the market's memory. A piece that
 * covers only part of its box (masked or a list) is laid over what the file has there already; a
 * sparse list is written element by element.
 */
#include "vol/save/rawdata.h"

#include <stdlib.h>
#include <string.h>

#include "transport/engine.h"

#define LIST_SPARSE  16           /* elements of the box for one of the list */
#define LIST_BOX_MAX (256u << 20) /* bytes */
#define LIST_BATCH   65536        /* elements of one write */
#define STRIP_BYTES  (8u << 20)

static enum mkt_status write_failed(struct mkt_raw_dataset *dataset)
{
    return mkt_raw_dataset_failed("writing", dataset->id, dataset->error);
}

/* The elements of a slab in the dataset's space; H5S_ALL for a scalar. */
static hid_t file_space(const struct mkt_raw_dataset *dataset, const struct mkt_slab *slab)
{
    hsize_t start[MKT_MAX_RANK], stride[MKT_MAX_RANK], count[MKT_MAX_RANK], block[MKT_MAX_RANK];
    if (slab->rank == 0)
        return H5S_ALL;
    for (uint32_t d = 0; d < slab->rank; d++) {
        start[d] = slab->dim[d].start;
        count[d] = slab->dim[d].count;
        block[d] = slab->dim[d].block;
        stride[d] = count[d] > 1 ? slab->dim[d].stride : block[d];
    }
    hid_t space = H5Dget_space(dataset->id);
    if (space >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, block) < 0) {
        H5Sclose(space);
        space = H5I_INVALID_HID;
    }
    return space;
}

/* The same elements packed. */
static hid_t packed_space(const struct mkt_slab *slab)
{
    hsize_t dims[MKT_MAX_RANK];
    if (slab->rank == 0)
        return H5S_ALL;
    for (uint32_t d = 0; d < slab->rank; d++)
        dims[d] = mkt_dim_elements(&slab->dim[d]);
    return H5Screate_simple((int)slab->rank, dims, NULL);
}

static void close_space(hid_t space)
{
    if (space > 0 && space != H5S_ALL)
        H5Sclose(space);
}

/* Moves the packed elements of a slab between memory and file. Only one of the buffers is given. */
static enum mkt_status transfer(struct mkt_raw_dataset *dataset, const struct mkt_slab *slab,
                                const void *from, void *to)
{
    herr_t result = -1;
    hid_t file = file_space(dataset, slab), memory = packed_space(slab);
    if (file >= 0 && memory >= 0 && from)
        result = H5Dwrite(dataset->id, dataset->type, memory, file, H5P_DEFAULT, from);
    else if (file >= 0 && memory >= 0)
        result = H5Dread(dataset->id, dataset->type, memory, file, H5P_DEFAULT, to);
    enum mkt_status status = result < 0 ? write_failed(dataset) : MKT_OK;
    close_space(file);
    close_space(memory);
    return status;
}

struct overlay {
    void *memory;
    const void *piece;
};

static void overlay_move(void *context, const struct mkt_move *move)
{
    struct overlay *overlay = context;
    mkt_engine_shm.move(move, MKT_GET, overlay->memory, (void *)(uintptr_t)overlay->piece);
}

/* Reads the box, lays the piece over it and writes it. */
static enum mkt_status write_over_box(struct mkt_raw_dataset *dataset,
                                      const struct mkt_piece *piece, const void *data,
                                      const void *table)
{
    const struct mkt_slab *box = &piece->slab;
    uint32_t element_bytes = dataset->array.element_bytes;
    struct mkt_layout layout;
    struct overlay overlay = {.piece = data};
    char name[MKT_RAW_NAME_BYTES];
    /* Zeros, since HDF5 leaves the buffer alone where nothing is allocated and no fill value is
     * set. */
    overlay.memory = calloc(mkt_slab_elements(box), element_bytes);
    if (!overlay.memory)
        return mkt_error_set(dataset->error, MKT_NO_MEMORY, "out of memory at dataset %s",
                             mkt_raw_name(dataset->id, name));
    enum mkt_status status = transfer(dataset, box, NULL, overlay.memory);
    if (status == MKT_OK) {
        mkt_layout_packed(&layout, box, element_bytes, 0);
        mkt_plan_piece(box, &layout, piece, table, element_bytes, overlay_move, &overlay);
        status = transfer(dataset, box, overlay.memory, NULL);
    }
    free(overlay.memory);
    return status;
}

/* The coordinates of the element with packed index `at` in the box. */
static void locate(const struct mkt_slab *box, uint64_t at, hsize_t *coordinates_out)
{
    for (uint32_t d = box->rank; d-- > 0;) {
        uint64_t elements = mkt_dim_elements(&box->dim[d]);
        coordinates_out[d] = box->dim[d].start + at % elements;
        at /= elements;
    }
}

static enum mkt_status write_elements(struct mkt_raw_dataset *dataset, size_t count,
                                      const hsize_t *coordinates, const void *data)
{
    herr_t result = -1;
    hsize_t dims = count;
    hid_t file = H5Dget_space(dataset->id), memory = H5Screate_simple(1, &dims, NULL);
    if (file >= 0 && memory >= 0 &&
        H5Sselect_elements(file, H5S_SELECT_SET, count, coordinates) >= 0)
        result = H5Dwrite(dataset->id, dataset->type, memory, file, H5P_DEFAULT, data);
    enum mkt_status status = result < 0 ? write_failed(dataset) : MKT_OK;
    close_space(file);
    close_space(memory);
    return status;
}

/* Element by element, in batches; the data lies in the order of the table. */
static enum mkt_status write_list(struct mkt_raw_dataset *dataset, const struct mkt_piece *piece,
                                  const uint8_t *data, const uint64_t *table)
{
    uint32_t rank = dataset->array.rank;
    uint64_t entries = piece->table.length / (2 * sizeof(uint64_t));
    hsize_t *coordinates = malloc(LIST_BATCH * rank * sizeof(hsize_t));
    enum mkt_status status = MKT_OK;
    char name[MKT_RAW_NAME_BYTES];
    size_t count = 0;
    if (!coordinates)
        return mkt_error_set(dataset->error, MKT_NO_MEMORY, "out of memory at dataset %s",
                             mkt_raw_name(dataset->id, name));
    for (uint64_t entry = 0; entry < entries && status == MKT_OK; entry++) {
        for (uint64_t i = 0; i < table[2 * entry + 1] && status == MKT_OK; i++) {
            locate(&piece->slab, table[2 * entry] + i, coordinates + count++ * rank);
            if (count < LIST_BATCH)
                continue;
            status = write_elements(dataset, count, coordinates, data);
            data += count * dataset->array.element_bytes;
            count = 0;
        }
    }
    if (count && status == MKT_OK)
        status = write_elements(dataset, count, coordinates, data);
    free(coordinates);
    return status;
}

static bool list_is_sparse(const struct mkt_raw_dataset *dataset, const struct mkt_piece *piece)
{
    uint64_t box = mkt_slab_elements(&piece->slab);
    uint64_t listed = piece->data.length / dataset->array.element_bytes;
    return box / LIST_SPARSE > listed || box > LIST_BOX_MAX / dataset->array.element_bytes;
}

static enum mkt_status moved(const struct mkt_raw_dataset *dataset, uint64_t bytes)
{
    const struct mkt_raw_source *source = dataset->source;

    return source->moved ? source->moved(source->context, bytes, dataset->error) : MKT_OK;
}

/* A large box in strips along its slowest axis, so that whoever waits for us needn't wait long. Not
 * where there are chunks: a strip may end in the middle of one. */
static enum mkt_status write_box(struct mkt_raw_dataset *dataset, const struct mkt_slab *box,
                                 const uint8_t *data)
{
    uint64_t bytes = mkt_slab_elements(box) * dataset->array.element_bytes;
    enum mkt_status status = MKT_OK;
    uint32_t axis = 0;

    while (axis < box->rank && mkt_dim_elements(&box->dim[axis]) == 1)
        axis++;
    if (bytes <= STRIP_BYTES || dataset->chunked || axis == box->rank) {
        status = transfer(dataset, box, data, NULL);
        return status == MKT_OK ? moved(dataset, bytes) : status;
    }
    uint64_t length = mkt_dim_elements(&box->dim[axis]), row_bytes = bytes / length;
    uint64_t rows = row_bytes < STRIP_BYTES ? STRIP_BYTES / row_bytes : 1;
    for (uint64_t at = 0; status == MKT_OK && at < length; at += rows) {
        struct mkt_slab strip = *box;
        strip.dim[axis].start += at;
        strip.dim[axis].count = 1;
        strip.dim[axis].block = length - at < rows ? length - at : rows;
        status = transfer(dataset, &strip, data + at * row_bytes, NULL);
        if (status == MKT_OK)
            status = moved(dataset, strip.dim[axis].block * row_bytes);
    }
    return status;
}

static enum mkt_status write_mapped(struct mkt_raw_dataset *dataset, const struct mkt_piece *piece,
                                    const void *data, const void *table)
{
    char name[MKT_RAW_NAME_BYTES];
    if (piece->form == MKT_PIECE_SLAB)
        return transfer(dataset, &piece->slab, data, NULL);
    if (!mkt_piece_table_is_valid(piece, table, dataset->array.element_bytes))
        return mkt_error_set(dataset->error, MKT_CORRUPT, "a piece of dataset %s is corrupt",
                             mkt_raw_name(dataset->id, name));
    if (piece->form == MKT_PIECE_LIST && list_is_sparse(dataset, piece))
        return write_list(dataset, piece, data, table);
    return write_over_box(dataset, piece, data, table);
}

static enum mkt_status write_at_hand(struct mkt_raw_dataset *dataset, const struct mkt_piece *piece,
                                     const void *data)
{
    void *table = NULL;
    enum mkt_status status = MKT_OK;
    if (piece->form == MKT_PIECE_BOX)
        return write_box(dataset, &piece->slab, data);
    if (piece->table.length)
        status =
            mkt_client_map(dataset->source->client, &piece->table, false, &table, dataset->error);
    if (status == MKT_OK)
        status = write_mapped(dataset, piece, data, table);
    return status == MKT_OK ? moved(dataset, piece->data.length) : status;
}

enum mkt_status mkt_raw_piece(struct mkt_raw_dataset *dataset, const struct mkt_piece *piece)
{
    struct mkt_client *client = dataset->source->client;
    const struct mkt_piece_source source = {.file = dataset->source->file,
                                            .identity = dataset->array.identity};
    struct mkt_piece_data data;
    enum mkt_status status = moved(dataset, 0);
    if (status == MKT_OK)
        status = mkt_client_piece_get(client, &source, piece, NULL, &data, dataset->error);
    if (status != MKT_OK)
        return status;
    status = write_at_hand(dataset, piece, data.base);
    mkt_client_piece_put(client, &data);
    return status;
}
