/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/selection.h"

#include <string.h>

#include "vol/error.h"

static uint64_t elements_in(uint32_t rank, const uint64_t *dims)
{
    uint64_t elements = 1;

    for (uint32_t d = 0; d < rank; d++)
        elements *= dims[d];
    return elements;
}

static bool is_whole(const struct mkt_vol_selection *selection)
{
    for (uint32_t d = 0; d < selection->rank; d++) {
        const struct mkt_dim *dim = &selection->slab.dim[d];

        if (dim->start != 0 || dim->count != 1 || dim->block != selection->dims[d])
            return false;
    }
    return true;
}

/* Of a valid one. */
static herr_t read_regular(struct mkt_vol_selection *selection, hid_t space)
{
    hsize_t start[MKT_MAX_RANK], stride[MKT_MAX_RANK], count[MKT_MAX_RANK], block[MKT_MAX_RANK];
    hsize_t low[MKT_MAX_RANK], high[MKT_MAX_RANK];

    if (H5Sget_regular_hyperslab(space, start, stride, count, block) < 0)
        return -1;
    selection->slab.rank = selection->rank;
    for (uint32_t d = 0; d < selection->rank; d++)
        selection->slab.dim[d] = (struct mkt_dim){start[d], stride[d], count[d], block[d]};
    /* HDF5 1.14 joins some unions into a slab of fewer elements than it counts. */
    if (mkt_slab_elements(&selection->slab) != selection->elements)
        return mkt_vol_fail(
            H5E_DATASPACE, H5E_BADSELECT,
            "HDF5 describes the union of hyperslabs wrongly; select it in another way");
    mkt_slab_normalise(&selection->slab);
    selection->regular = true;
    if (is_whole(selection))
        return 0;
    /* The bounds include the selection's offset (H5Soffset_simple), the hyperslab doesn't. (Of a
     * valid selection of everything there is none.) */
    if (H5Sget_select_bounds(space, low, high) < 0)
        return -1;
    for (uint32_t d = 0; d < selection->rank; d++)
        selection->slab.dim[d].start = low[d];
    return 0;
}

static herr_t read_bounds(struct mkt_vol_selection *selection, hid_t space)
{
    hsize_t low[MKT_MAX_RANK], high[MKT_MAX_RANK];
    uint64_t start[MKT_MAX_RANK], count[MKT_MAX_RANK];

    if (H5Sget_select_bounds(space, low, high) < 0)
        return -1;
    for (uint32_t d = 0; d < selection->rank; d++) {
        start[d] = low[d];
        count[d] = high[d] - low[d] + 1;
    }
    mkt_slab_box(&selection->slab, selection->rank, start, count);
    return 0;
}

/* Of a point list HDF5's own bounds may be too wide: they stay when points go. */
static herr_t read_point_bounds(struct mkt_vol_selection *selection)
{
    uint64_t low[MKT_MAX_RANK], high[MKT_MAX_RANK], count[MKT_MAX_RANK], offset, length;
    const uint64_t extent = elements_in(selection->rank, selection->dims);
    struct mkt_vol_runs runs;

    for (uint32_t d = 0; d < selection->rank; d++) {
        low[d] = UINT64_MAX;
        high[d] = 0;
    }
    herr_t result = mkt_vol_runs_open(&runs, selection);
    while (result >= 0) {
        result = mkt_vol_runs_next(&runs, 1, &offset, &length);
        if (result < 0 || length == 0)
            break;
        /* HDF5 1.14 calls a point valid that is one beyond: it is the next row's first, and of the
         * last row nothing. */
        if (offset >= extent) {
            result =
                mkt_vol_fail(H5E_DATASPACE, H5E_BADRANGE, "selection + offset not within extent");
            break;
        }
        for (uint32_t d = selection->rank; d-- > 0; offset /= selection->dims[d]) {
            uint64_t at = offset % selection->dims[d];

            low[d] = at < low[d] ? at : low[d];
            high[d] = at > high[d] ? at : high[d];
        }
    }
    mkt_vol_runs_close(&runs);
    if (result < 0)
        return -1;
    for (uint32_t d = 0; d < selection->rank; d++)
        count[d] = high[d] - low[d] + 1;
    mkt_slab_box(&selection->slab, selection->rank, low, count);
    return 0;
}

void mkt_vol_selection_whole(struct mkt_vol_selection *selection_out, uint32_t rank,
                             const uint64_t *dims)
{
    static const uint64_t origin[MKT_MAX_RANK];

    memset(selection_out, 0, sizeof *selection_out);
    selection_out->space = H5I_INVALID_HID;
    selection_out->rank = rank;
    selection_out->elements = elements_in(rank, dims);
    memcpy(selection_out->dims, dims, rank * sizeof *dims);
    selection_out->regular = true;
    if (selection_out->elements > 0)
        mkt_slab_box(&selection_out->slab, rank, origin, dims);
}

herr_t mkt_vol_selection_read(struct mkt_vol_selection *selection_out, hid_t space)
{
    hsize_t dims[MKT_MAX_RANK];
    uint64_t extent[MKT_MAX_RANK];

    memset(selection_out, 0, sizeof *selection_out);
    selection_out->space = space;
    if (H5Iget_type(space) != H5I_DATASPACE)
        return mkt_vol_fail(H5E_ARGS, H5E_BADTYPE, "not a dataspace");
    int rank = H5Sget_simple_extent_dims(space, dims, NULL);
    H5S_class_t class = rank == 0 ? H5Sget_simple_extent_type(space) : H5S_SIMPLE;
    if (class == H5S_NULL)
        return 0;
    if (rank < 0 || (class == H5S_SIMPLE && rank == 0))
        return mkt_vol_fail(H5E_DATASPACE, H5E_BADVALUE, "the dataspace given has no extent");
    for (int d = 0; d < rank; d++)
        extent[d] = dims[d];
    H5S_sel_type type = H5Sget_select_type(space);
    if (type == H5S_SEL_ALL && elements_in((uint32_t)rank, extent) > 0) {
        mkt_vol_selection_whole(selection_out, (uint32_t)rank, extent);
        selection_out->space = space;
        return 0;
    }
    hssize_t points = H5Sget_select_npoints(space);
    if (points < 0)
        return -1;
    if (points > 0 && H5Sselect_valid(space) <= 0)
        return mkt_vol_fail(H5E_DATASPACE, H5E_BADRANGE, "selection + offset not within extent");
    selection_out->rank = (uint32_t)rank;
    selection_out->elements = (uint64_t)points;
    memcpy(selection_out->dims, extent, (size_t)rank * sizeof *extent);
    if (points == 0)
        return 0;
    if (type == H5S_SEL_HYPERSLABS && H5Sis_regular_hyperslab(space) > 0)
        return read_regular(selection_out, space);
    return type == H5S_SEL_POINTS ? read_point_bounds(selection_out)
                                  : read_bounds(selection_out, space);
}

/* True if the slab is one run of the extent; *first_out gets its offset in elements. */
static bool contiguous(const struct mkt_vol_selection *selection, uint64_t *first_out)
{
    const struct mkt_slab *slab = &selection->slab;
    bool inner_full = true;
    uint64_t pitch = 1;

    *first_out = 0;
    for (uint32_t d = slab->rank; d-- > 0;) {
        const struct mkt_dim *dim = &slab->dim[d];
        uint64_t elements = mkt_dim_elements(dim);

        if (dim->count > 1 || (!inner_full && elements > 1))
            return false;
        inner_full = inner_full && elements == selection->dims[d];
        *first_out += dim->start * pitch;
        pitch *= selection->dims[d];
    }
    return true;
}

bool mkt_vol_selection_layout(const struct mkt_vol_selection *file,
                              const struct mkt_vol_selection *memory, uint32_t element_bytes,
                              struct mkt_layout *layout_out)
{
    uint64_t pitch[MKT_MAX_RANK], next_pitch = element_bytes;

    if (!file->regular || !memory->regular)
        return false;
    uint64_t first;
    if (contiguous(memory, &first)) {
        mkt_layout_packed(layout_out, &file->slab, element_bytes, first * element_bytes);
        return true;
    }

    /* One shape but for dimensions of one element: the axes correspond. */
    for (uint32_t d = memory->rank; d-- > 0;) {
        pitch[d] = next_pitch;
        next_pitch *= memory->dims[d];
    }
    uint32_t m = 0;
    layout_out->base_bytes = 0;
    for (uint32_t f = 0; f <= file->rank; f++) {
        uint64_t elements = f < file->rank ? mkt_dim_elements(&file->slab.dim[f]) : 1;

        if (f < file->rank && elements == 1) {
            layout_out->dim[f] = (struct mkt_layout_dim){0, 1, 1, 0};
            continue;
        }
        for (; m < memory->rank && mkt_dim_elements(&memory->slab.dim[m]) == 1; m++)
            layout_out->base_bytes += memory->slab.dim[m].start * pitch[m];
        if (f == file->rank)
            break;
        if (m == memory->rank || mkt_dim_elements(&memory->slab.dim[m]) != elements)
            return false;
        const struct mkt_dim *dim = &memory->slab.dim[m];
        layout_out->dim[f] = (struct mkt_layout_dim){dim->start, dim->stride, dim->block, pitch[m]};
        m++;
    }
    return m == memory->rank;
}

/* Cuts `slab` along dimension d, `step` elements at a time (a multiple of the block, or one block
 * at the most). */
static herr_t split_along(const struct mkt_slab *slab, uint32_t d, uint64_t step,
                          uint64_t max_elements, mkt_vol_slab_fn fn, void *context)
{
    const struct mkt_dim *dim = &slab->dim[d];
    uint64_t elements = mkt_dim_elements(dim);

    for (uint64_t at = 0; at < elements;) {
        struct mkt_slab part = *slab;
        uint64_t in_block = at % dim->block, length = step;

        if (length > elements - at)
            length = elements - at;
        if (length < dim->block || in_block > 0) { /* inside one block */
            if (length > dim->block - in_block)
                length = dim->block - in_block;
            part.dim[d].count = 1;
            part.dim[d].block = length;
        } else {
            length -= length % dim->block;
            part.dim[d].count = length / dim->block;
        }
        part.dim[d].start = dim->start + at / dim->block * dim->stride + in_block;
        at += length;
        mkt_slab_normalise(&part);
        herr_t result = mkt_vol_slab_split(&part, max_elements, fn, context);
        if (result < 0)
            return result;
    }
    return 0;
}

herr_t mkt_vol_slab_split(const struct mkt_slab *slab, uint64_t max_elements, mkt_vol_slab_fn fn,
                          void *context)
{
    uint64_t inner = mkt_slab_elements(slab);

    if (inner <= max_elements)
        return fn(context, slab);
    for (uint32_t d = 0; d < slab->rank; d++) {
        uint64_t elements = mkt_dim_elements(&slab->dim[d]);

        inner /= elements;
        if (elements > 1)
            return split_along(slab, d, inner < max_elements ? max_elements / inner : 1,
                               max_elements, fn, context);
    }
    return fn(context, slab);
}

herr_t mkt_vol_runs_open(struct mkt_vol_runs *runs, const struct mkt_vol_selection *selection)
{
    uint64_t first;

    runs->iterator = H5I_INVALID_HID;
    runs->left = selection->elements;
    runs->count = runs->at = 0;
    if (selection->elements == 0)
        return 0;
    if (selection->regular && contiguous(selection, &first)) {
        runs->offset[0] = first;
        return 0;
    }
    runs->iterator = H5Ssel_iter_create(selection->space, 1, 0);
    return runs->iterator < 0
               ? mkt_vol_fail(H5E_DATASPACE, H5E_CANTCREATE, "cannot walk over the selection")
               : 0;
}

herr_t mkt_vol_runs_next(struct mkt_vol_runs *runs, uint64_t most, uint64_t *offset_out,
                         uint64_t *elements_out)
{
    *elements_out = 0;
    if (runs->left == 0)
        return 0;
    if (runs->iterator < 0) {
        *elements_out = most < runs->left ? most : runs->left;
        *offset_out = runs->offset[0];
        runs->offset[0] += *elements_out;
        runs->left -= *elements_out;
        return 0;
    }
    if (runs->at == runs->count) {
        size_t elements;

        runs->at = 0;
        if (H5Ssel_iter_get_seq_list(runs->iterator, MKT_VOL_RUNS_AT_ONCE, SIZE_MAX, &runs->count,
                                     &elements, runs->offset, runs->length) < 0 ||
            runs->count == 0)
            return mkt_vol_fail(H5E_DATASPACE, H5E_CANTNEXT, "the selection ended early");
    }
    uint64_t length = runs->length[runs->at];
    if (length > most)
        length = most;
    *offset_out = runs->offset[runs->at];
    *elements_out = length;
    runs->offset[runs->at] += length;
    runs->length[runs->at] -= length;
    if (runs->length[runs->at] == 0)
        runs->at++;
    runs->left -= length;
    return 0;
}

void mkt_vol_runs_close(struct mkt_vol_runs *runs)
{
    if (runs->iterator >= 0)
        H5Ssel_iter_close(runs->iterator);
    runs->iterator = H5I_INVALID_HID;
}

/* ---- by offset ---- */

#define OFFSET_BOXES_MAX  4096 /* HDF5 compares each with all others; more are listed as points */
#define OFFSET_POINTS_MAX (UINT64_C(1) << 24)

/* The first box of a run of elements of an array: as many of its last axes as the run fills.
 * Returns its elements. */
static uint64_t first_box(uint32_t rank, const uint64_t *dims, uint64_t offset, uint64_t length,
                          hsize_t *start, hsize_t *count)
{
    uint64_t rest = offset, step = 1;
    uint32_t axis = rank - 1;

    for (uint32_t d = rank; d-- > 0; rest /= dims[d]) {
        start[d] = rest % dims[d];
        count[d] = 1;
    }
    for (; axis > 0 && start[axis] == 0 && length / step >= dims[axis]; step *= dims[axis--])
        count[axis] = dims[axis];
    count[axis] = length / step;
    if (count[axis] > dims[axis] - start[axis])
        count[axis] = dims[axis] - start[axis];
    return count[axis] * step;
}

/* MKT_NO_SPACE: more boxes than HDF5 should compare. MKT_INVALID: beyond the extent, or HDF5 has an
 * entry on the error stack. */
static enum mkt_status select_runs(hid_t space, uint32_t rank, const uint64_t *dims,
                                   struct mkt_vol_runs *runs, bool points)
{
    H5S_seloper_t each = H5S_SELECT_SET;
    const uint64_t extent = elements_in(rank, dims);
    uint64_t offset, length;
    unsigned boxes = 0;

    for (;;) {
        if (mkt_vol_runs_next(runs, points ? 1 : UINT64_MAX, &offset, &length) < 0)
            return MKT_INVALID;
        if (length == 0)
            return MKT_OK;
        if (offset >= extent || length > extent - offset) {
            mkt_vol_fail(H5E_DATASPACE, H5E_BADRANGE, "selection + offset not within extent");
            return MKT_INVALID;
        }
        while (rank > 0 && length > 0) {
            hsize_t start[MKT_MAX_RANK], count[MKT_MAX_RANK];
            uint64_t done = first_box(rank, dims, offset, length, start, count);
            if (!points && boxes++ == OFFSET_BOXES_MAX)
                return MKT_NO_SPACE;
            if ((points ? H5Sselect_elements(space, each, 1, start)
                        : H5Sselect_hyperslab(space, each, start, NULL, count, NULL)) < 0)
                return MKT_INVALID;
            each = points ? H5S_SELECT_APPEND : H5S_SELECT_OR;
            offset += done;
            length -= done;
        }
    }
}

hid_t mkt_vol_selection_by_offset(const struct mkt_vol_selection *from, uint32_t rank,
                                  const uint64_t *dims)
{
    bool points = H5Sget_select_type(from->space) == H5S_SEL_POINTS;
    hid_t space = rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple((int)rank, dims, NULL);
    enum mkt_status status = MKT_INVALID;
    struct mkt_vol_runs runs;

    while (space >= 0 && mkt_vol_runs_open(&runs, from) >= 0) {
        status = select_runs(space, rank, dims, &runs, points);
        mkt_vol_runs_close(&runs);
        if (status != MKT_NO_SPACE || from->elements > OFFSET_POINTS_MAX)
            break;
        points = true;
    }
    if (status == MKT_NO_SPACE)
        mkt_vol_fail(H5E_DATASPACE, H5E_UNSUPPORTED,
                     "the file dataspace's extent isn't the dataset's, and it selects more than %d "
                     "separate runs of more than %llu elements",
                     OFFSET_BOXES_MAX, (unsigned long long)OFFSET_POINTS_MAX);
    if (status == MKT_OK && H5Sget_select_npoints(space) != (hssize_t)from->elements) {
        mkt_vol_fail(H5E_DATASPACE, H5E_UNSUPPORTED,
                     "the file dataspace's extent isn't the dataset's, and it selects an element "
                     "of it more than once");
        status = MKT_INVALID;
    }
    if (status == MKT_OK)
        return space;
    if (space >= 0)
        mkt_vol_close_keeping_errors(space);
    return H5I_INVALID_HID;
}
