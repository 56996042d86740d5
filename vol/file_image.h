/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MKT_VOL_FILE_IMAGE_H
#define MKT_VOL_FILE_IMAGE_H

#include "vol/vol.h"

/* H5Fget_file_image of a market file: the bytes of an HDF5 file with all raw data, as of now.
 * args->buf NULL: their count alone. Takes memory for the whole file while it runs. */
herr_t mkt_vol_file_image_get(struct mkt_vol_object *object,
                              const H5VL_native_file_get_file_image_t *args, hid_t dxpl);

#endif
