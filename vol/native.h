/* SPDX-License-Identifier: BSD-3-Clause */
/* What is asked of native itself. Its transfers are of a market file, in memory, so never
 * collective. */
#ifndef MKT_VOL_NATIVE_H
#define MKT_VOL_NATIVE_H

#include "vol/vol.h"

/* Closes a native object; a failure is left on the error stack. */
void mkt_vol_native_close(void *under, H5I_type_t type);
/* Type, space or creation list of a dataset, the caller's to close; negative on failure. */
hid_t mkt_vol_native_get(const struct mkt_vol_object *dataset, H5VL_dataset_get_t what);
/* Bytes of raw data that native itself has of a dataset: those of a file that was brought into
 * memory; 0: none, or they can't be asked. */
hsize_t mkt_vol_native_bytes(const struct mkt_vol_object *dataset);
/* An optional operation of native's about its dataset (H5VL_NATIVE_DATASET_...). */
herr_t mkt_vol_native_ask(const struct mkt_vol_object *dataset, int operation, void *args);
herr_t mkt_vol_native_read(struct mkt_vol_object *dataset, hid_t mem_type, hid_t mem_space,
                           hid_t file_space, hid_t dxpl, void *buffer);
herr_t mkt_vol_native_write(struct mkt_vol_object *dataset, hid_t mem_type, hid_t mem_space,
                            hid_t file_space, hid_t dxpl, const void *buffer);

#endif
