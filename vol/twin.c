/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/twin.h"

#include "vol/error.h"
#include "vol/image.h"

static hid_t create_file(hid_t fapl, struct mkt_vol_image *image)
{
    hid_t file = H5I_INVALID_HID;
    void *context;

    if (!image || mkt_vol_call_context_open(&context) < 0)
        return file;
    file = mkt_vol_image_open_alone(image, fapl);
    mkt_vol_call_context_close(context);
    return file;
}

herr_t mkt_vol_twin_open(struct mkt_vol_twin *twin)
{
    struct mkt_vol_silence silence;

    *twin = MKT_VOL_TWIN_NONE;
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    if (fapl < 0)
        return -1;
    mkt_vol_silence_begin(&silence);
    twin->image = mkt_vol_image_create(NULL, 0, true, NULL, NULL);
    twin->file = create_file(fapl, twin->image);
    mkt_vol_silence_end(&silence);
    mkt_vol_close_keeping_errors(fapl);
    if (twin->file >= 0)
        return 0;
    mkt_vol_twin_close(twin);
    return mkt_vol_fail(H5E_DATASET, H5E_CANTINIT,
                        "cannot make a native dataset in memory to work with");
}

static void drop_dataset(struct mkt_vol_twin *twin)
{
    void *context;

    if (twin->dataset && mkt_vol_call_context_open(&context) >= 0) {
        mkt_vol_native()->dataset_cls.close(twin->dataset, H5P_DATASET_XFER_DEFAULT, NULL);
        mkt_vol_call_context_close(context);
    }
    twin->dataset = NULL;
    if (twin->type >= 0)
        mkt_vol_close_keeping_errors(twin->type);
    if (twin->space >= 0)
        mkt_vol_close_keeping_errors(twin->space);
    twin->type = twin->space = H5I_INVALID_HID;
}

void mkt_vol_twin_close(struct mkt_vol_twin *twin)
{
    void *context;

    drop_dataset(twin);
    if (twin->file >= 0 && mkt_vol_call_context_open(&context) >= 0) {
        mkt_vol_close_keeping_errors(twin->file);
        mkt_vol_call_context_close(context);
    }
    twin->file = H5I_INVALID_HID;
    mkt_vol_image_destroy(twin->image);
    twin->image = NULL;
}

static hid_t make_space(uint32_t rank, const uint64_t *dims, bool limited)
{
    hsize_t now[MKT_MAX_RANK], most[MKT_MAX_RANK];

    if (rank == 0)
        return H5Screate(H5S_SCALAR);
    for (uint32_t d = 0; d < rank; d++) {
        now[d] = dims[d];
        most[d] = H5S_UNLIMITED;
    }
    return H5Screate_simple((int)rank, now, limited ? NULL : most);
}

herr_t mkt_vol_twin_make(struct mkt_vol_twin *twin, hid_t type, uint32_t rank, const uint64_t *dims,
                         hid_t dcpl)
{
    H5VL_loc_params_t self = {.type = H5VL_OBJECT_BY_SELF, .obj_type = H5I_FILE};
    void *context;

    drop_dataset(twin);
    twin->type = H5Tcopy(type);
    twin->space = make_space(rank, dims, H5Pget_layout(dcpl) != H5D_CHUNKED);
    if (twin->type < 0 || twin->space < 0 || mkt_vol_call_context_open(&context) < 0)
        return -1;
    twin->dataset = mkt_vol_native()->dataset_cls.create(
        H5VLobject(twin->file), &self, NULL, H5P_LINK_CREATE_DEFAULT, twin->type, twin->space, dcpl,
        H5P_DATASET_ACCESS_DEFAULT, H5P_DATASET_XFER_DEFAULT, NULL);
    mkt_vol_call_context_close(context);
    return twin->dataset ? 0 : -1;
}

herr_t mkt_vol_twin_write(struct mkt_vol_twin *twin, hid_t dxpl, const void *values)
{
    hid_t all = H5S_ALL;
    void *context;

    if (mkt_vol_call_context_open(&context) < 0)
        return -1;
    herr_t result = mkt_vol_native()->dataset_cls.write(1, &twin->dataset, &twin->type, &all, &all,
                                                        dxpl, &values, NULL);
    mkt_vol_call_context_close(context);
    return result;
}

herr_t mkt_vol_twin_read(struct mkt_vol_twin *twin, hid_t dxpl, void *values_out)
{
    hid_t all = H5S_ALL;
    void *context;

    if (mkt_vol_call_context_open(&context) < 0)
        return -1;
    herr_t result = mkt_vol_native()->dataset_cls.read(1, &twin->dataset, &twin->type, &all, &all,
                                                       dxpl, &values_out, NULL);
    mkt_vol_call_context_close(context);
    return result;
}

herr_t mkt_vol_twin_ask(struct mkt_vol_twin *twin, int operation, void *args)
{
    H5VL_optional_args_t call = {.op_type = operation, .args = args};
    void *context;

    if (mkt_vol_call_context_open(&context) < 0)
        return -1;
    herr_t result = mkt_vol_native()->dataset_cls.optional(twin->dataset, &call,
                                                           H5P_DATASET_XFER_DEFAULT, NULL);
    mkt_vol_call_context_close(context);
    return result;
}
