/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The application's transfer list may ask for collective I/O, which fails over memory, so native
 * gets a copy. HDF5 remembers the list of a transfer in its call context and writes to it when the
 * outer call returns; hence native is called in a context of its own, which ends before the copy
 * does.
 */
#include "vol/native.h"

#include "vol/error.h"

static herr_t transfer(struct mkt_vol_object *dataset, hid_t mem_type, hid_t mem_space,
                       hid_t file_space, hid_t dxpl, void *read_to, const void *write_from)
{
    herr_t result = -1;
    void *context;
    bool owned;

    hid_t list = mkt_vol_independent_list(dxpl, &owned);
    if (list < 0)
        return -1;
    if (mkt_vol_call_context_open(&context) < 0)
        goto done;
    if (read_to)
        result = mkt_vol_native()->dataset_cls.read(1, &dataset->under, &mem_type, &mem_space,
                                                    &file_space, list, &read_to, NULL);
    else
        result = mkt_vol_native()->dataset_cls.write(1, &dataset->under, &mem_type, &mem_space,
                                                     &file_space, list, &write_from, NULL);
    mkt_vol_call_context_close(context);
done:
    if (owned)
        mkt_vol_close_keeping_errors(list);
    return result;
}

herr_t mkt_vol_native_read(struct mkt_vol_object *dataset, hid_t mem_type, hid_t mem_space,
                           hid_t file_space, hid_t dxpl, void *buffer)
{
    return transfer(dataset, mem_type, mem_space, file_space, dxpl, buffer, NULL);
}

herr_t mkt_vol_native_write(struct mkt_vol_object *dataset, hid_t mem_type, hid_t mem_space,
                            hid_t file_space, hid_t dxpl, const void *buffer)
{
    return transfer(dataset, mem_type, mem_space, file_space, dxpl, NULL, buffer);
}

void mkt_vol_native_close(void *under, H5I_type_t type)
{
    switch (type) {
    case H5I_FILE:
        mkt_vol_native()->file_cls.close(under, H5P_DATASET_XFER_DEFAULT, NULL);
        break;
    case H5I_GROUP:
        mkt_vol_native()->group_cls.close(under, H5P_DATASET_XFER_DEFAULT, NULL);
        break;
    case H5I_DATASET:
        mkt_vol_native()->dataset_cls.close(under, H5P_DATASET_XFER_DEFAULT, NULL);
        break;
    case H5I_DATATYPE:
        mkt_vol_native()->datatype_cls.close(under, H5P_DATASET_XFER_DEFAULT, NULL);
        break;
    case H5I_ATTR:
        mkt_vol_native()->attr_cls.close(under, H5P_DATASET_XFER_DEFAULT, NULL);
        break;
    default:
        break;
    }
}

hid_t mkt_vol_native_get(const struct mkt_vol_object *dataset, H5VL_dataset_get_t what)
{
    H5VL_dataset_get_args_t args = {.op_type = what};

    if (mkt_vol_native()->dataset_cls.get(dataset->under, &args, H5P_DATASET_XFER_DEFAULT, NULL) <
        0)
        return H5I_INVALID_HID;
    return what == H5VL_DATASET_GET_TYPE    ? args.args.get_type.type_id
           : what == H5VL_DATASET_GET_SPACE ? args.args.get_space.space_id
                                            : args.args.get_dcpl.dcpl_id;
}

hsize_t mkt_vol_native_bytes(const struct mkt_vol_object *dataset)
{
    hsize_t bytes = 0;
    H5VL_dataset_get_args_t args = {.op_type = H5VL_DATASET_GET_STORAGE_SIZE,
                                    .args.get_storage_size = {.storage_size = &bytes}};

    return mkt_vol_native()->dataset_cls.get(dataset->under, &args, H5P_DATASET_XFER_DEFAULT,
                                             NULL) < 0
               ? 0
               : bytes;
}

herr_t mkt_vol_native_ask(const struct mkt_vol_object *dataset, int operation, void *args)
{
    H5VL_optional_args_t call = {.op_type = operation, .args = args};

    return mkt_vol_native()->dataset_cls.optional(dataset->under, &call, H5P_DATASET_XFER_DEFAULT,
                                                  NULL);
}
