/* SPDX-License-Identifier: BSD-3-Clause */
/* The selection that a transfer list carries (H5Pset_dataset_io_hyperslab_selection, H5S_PLIST). */
#ifndef MKT_VOL_LIST_SELECTION_H
#define MKT_VOL_LIST_SELECTION_H

#include "vol/vol.h"

/* As a dataspace of the dataset's extent, the caller's to close; negative on failure. */
hid_t mkt_vol_list_selection(hid_t dxpl, uint32_t rank, const uint64_t *dims);

#endif
