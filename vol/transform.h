/* SPDX-License-Identifier: BSD-3-Clause */
/* Data transforms of a transfer list (H5Pset_data_transform): HDF5 evaluates them, on elements in
 * the memory's type. */
#ifndef MKT_VOL_TRANSFORM_H
#define MKT_VOL_TRANSFORM_H

#include "vol/vol.h"

bool mkt_vol_transform_wanted(hid_t dxpl);
/* Packed elements, in place. */
herr_t mkt_vol_transform_apply(hid_t dxpl, hid_t type, uint64_t elements, void *values);

#endif
