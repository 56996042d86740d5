/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/transform.h"

#include "vol/error.h"
#include "vol/twin.h"

bool mkt_vol_transform_wanted(hid_t dxpl)
{
    ssize_t length = 0;

    if (dxpl == H5P_DEFAULT || dxpl == H5P_DATASET_XFER_DEFAULT)
        return false;
    H5E_BEGIN_TRY
    {
        length = H5Pget_data_transform(dxpl, NULL, 0);
    }
    H5E_END_TRY
    if (length <= 0)
        H5Eclear2(H5E_DEFAULT); /* to have none counts as an error there */
    return length > 0;
}

/* Written with the transform, read without. */
herr_t mkt_vol_transform_apply(hid_t dxpl, hid_t type, uint64_t elements, void *values)
{
    struct mkt_vol_twin twin = MKT_VOL_TWIN_NONE;
    bool owned = false;

    hid_t list = mkt_vol_independent_list(dxpl, &owned);
    herr_t result = list < 0 ? -1 : mkt_vol_twin_open(&twin);
    if (result >= 0)
        result = mkt_vol_twin_make(&twin, type, 1, &elements, H5P_DATASET_CREATE_DEFAULT);
    if (result >= 0)
        result = mkt_vol_twin_write(&twin, list, values);
    if (result >= 0)
        result = mkt_vol_twin_read(&twin, H5P_DATASET_XFER_DEFAULT, values);
    mkt_vol_twin_close(&twin);
    if (owned)
        mkt_vol_close_keeping_errors(list);
    return result;
}
