/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw data of a market file that native reads or writes: in memory, so never collectively. */
#ifndef MKT_VOL_NATIVE_H
#define MKT_VOL_NATIVE_H

#include "vol/vol.h"

herr_t mkt_vol_native_read(struct mkt_vol_object *dataset, hid_t mem_type, hid_t mem_space,
                           hid_t file_space, hid_t dxpl, void *buffer);
herr_t mkt_vol_native_write(struct mkt_vol_object *dataset, hid_t mem_type, hid_t mem_space,
                            hid_t file_space, hid_t dxpl, const void *buffer);

#endif
