/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/collective.h"

#include "vol/error.h"
#include "vol/file_state.h"
#include "vol/native.h"
#include "vol/transform.h"

#if MKT_VOL_MPI

static bool is_collective(hid_t dxpl)
{
    H5FD_mpio_xfer_t mode = H5FD_MPIO_INDEPENDENT;

    return H5Pget_dxpl_mpio(dxpl, &mode) >= 0 && mode == H5FD_MPIO_COLLECTIVE;
}

/* Filtered chunks don't go by selection I/O, which alone can convert and be collective. */
static void note_filtered(struct mkt_vol_collective *call, const struct mkt_vol_object *dataset,
                          hid_t mem_type, hid_t dxpl)
{
    hid_t type = mkt_vol_native_get(dataset, H5VL_DATASET_GET_TYPE);

    call->filtered = true;
    if (type >= 0 && H5Tequal(type, mem_type) == 0)
        call->cause |= H5D_MPIO_DATATYPE_CONVERSION | H5D_MPIO_NO_SELECTION_IO;
    if (mkt_vol_transform_wanted(dxpl))
        call->cause |= H5D_MPIO_DATA_TRANSFORMS | H5D_MPIO_NO_SELECTION_IO;
    if (type >= 0)
        mkt_vol_close_keeping_errors(type);
}

static void note_layout(struct mkt_vol_collective *call, const struct mkt_vol_object *dataset,
                        hid_t mem_type, hid_t dxpl)
{
    hid_t dcpl = mkt_vol_native_get(dataset, H5VL_DATASET_GET_DCPL);

    switch (dcpl >= 0 ? H5Pget_layout(dcpl) : H5D_LAYOUT_ERROR) {
    case H5D_CONTIGUOUS:
        call->io_mode |= H5D_MPIO_CONTIGUOUS_COLLECTIVE;
        break;
    case H5D_CHUNKED:
        call->io_mode |= H5D_MPIO_CHUNK_COLLECTIVE;
        if (H5Pget_nfilters(dcpl) > 0)
            note_filtered(call, dataset, mem_type, dxpl);
        break;
    default:
        call->cause |= H5D_MPIO_NOT_CONTIGUOUS_OR_CHUNKED_DATASET;
        break;
    }
    if (dcpl >= 0)
        mkt_vol_close_keeping_errors(dcpl);
}

void mkt_vol_collective_note(struct mkt_vol_collective *call, const struct mkt_vol_object *dataset,
                             hid_t mem_type, hid_t dxpl)
{
    if (dxpl == H5P_DEFAULT || dxpl == H5P_DATASET_XFER_DEFAULT ||
        dataset->file->state->driver != MKT_VOL_DRIVER_MPIO)
        return;
    if (!call->wanted)
        call->collective = is_collective(dxpl);
    call->wanted = true;
    if (call->collective)
        note_layout(call, dataset, mem_type, dxpl);
    else
        call->cause |= H5D_MPIO_SET_INDEPENDENT;
}

/* The properties that H5Pget_mpio_... read have no functions to set them. */
static void set(hid_t dxpl, const char *name, unsigned value)
{
    H5E_BEGIN_TRY
    {
        H5Pset(dxpl, name, &value);
    }
    H5E_END_TRY
}

void mkt_vol_collective_report(const struct mkt_vol_collective *call, hid_t dxpl)
{
    unsigned chunk_mode = H5D_MPIO_NO_CHUNK_OPTIMIZATION;
    H5FD_mpio_chunk_opt_t chunk_opt = H5FD_MPIO_CHUNK_DEFAULT;

    if (!call->wanted)
        return;
    /* "Link chunk" is also what native says of selection I/O. */
    if (call->cause == 0)
        chunk_mode = H5D_MPIO_LINK_CHUNK;
    if (call->cause == 0 && call->filtered &&
        H5Pget(dxpl, "mpio_chunk_opt_hard", &chunk_opt) >= 0 &&
        chunk_opt == H5FD_MPIO_CHUNK_MULTI_IO)
        chunk_mode = H5D_MPIO_MULTI_CHUNK;
    set(dxpl, "actual_io_mode", call->cause ? H5D_MPIO_NO_COLLECTIVE : call->io_mode);
    set(dxpl, "actual_chunk_opt_mode", chunk_mode);
    set(dxpl, "local_no_collective_cause", call->cause);
    set(dxpl, "global_no_collective_cause", call->cause);
}

#else

void mkt_vol_collective_note(struct mkt_vol_collective *call, const struct mkt_vol_object *dataset,
                             hid_t mem_type, hid_t dxpl)
{
    (void)call;
    (void)dataset;
    (void)mem_type;
    (void)dxpl;
}

void mkt_vol_collective_report(const struct mkt_vol_collective *call, hid_t dxpl)
{
    (void)call;
    (void)dxpl;
}

#endif
