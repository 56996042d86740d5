/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A native dataset in memory, of no file that anybody sees: what depends on filters, layout or
 * transfer list HDF5 answers itself about the data that it is given here. It lives no longer than a
 * call, since the application's object counts would show it.
 */
#ifndef MKT_VOL_TWIN_H
#define MKT_VOL_TWIN_H

#include "vol/vol.h"

struct mkt_vol_twin {
    hid_t file;
    struct mkt_vol_image *image; /* the file's memory */
    void *dataset;               /* native's own */
    hid_t type, space;           /* of the dataset; the type is transient */
};
#define MKT_VOL_TWIN_NONE   \
    ((struct mkt_vol_twin){ \
        .file = H5I_INVALID_HID, .type = H5I_INVALID_HID, .space = H5I_INVALID_HID})

/* Makes the file. */
herr_t mkt_vol_twin_open(struct mkt_vol_twin *twin);
void mkt_vol_twin_close(struct mkt_vol_twin *twin);
/* Makes the dataset, in place of a former one. dims of rank elements; no dimension has a limit if
 * dcpl says chunked. */
herr_t mkt_vol_twin_make(struct mkt_vol_twin *twin, hid_t type, uint32_t rank, const uint64_t *dims,
                         hid_t dcpl);
/* All of the dataset, packed, in its own type. */
herr_t mkt_vol_twin_write(struct mkt_vol_twin *twin, hid_t dxpl, const void *values);
herr_t mkt_vol_twin_read(struct mkt_vol_twin *twin, hid_t dxpl, void *values_out);
/* H5D's optional operations of native (H5VL_NATIVE_DATASET_...); args as this version of HDF5 has
 * them. */
herr_t mkt_vol_twin_ask(struct mkt_vol_twin *twin, int operation, void *args);

#endif
