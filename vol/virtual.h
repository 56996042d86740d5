/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Virtual datasets. Native opens their sources itself, past the connector, and takes one that is in
 * the market for missing: fill values, and success. So where a source may be in the market (always
 * for a virtual dataset that is there itself, else where a stub stands for a source) the mapping is
 * resolved here and the sources are opened through the connector. Mappings are fixed: printf-style
 * and unlimited ones are refused. As natively, a source that is missing reads as fill values, and
 * parallel files are refused.
 */
#ifndef MKT_VOL_VIRTUAL_H
#define MKT_VOL_VIRTUAL_H

#include "vol/vol.h"

/* True for a virtual dataset of a file passed through, if a source of it is in the market. */
bool mkt_vol_virtual_concerns(struct mkt_vol_object *dataset);
herr_t mkt_vol_virtual_read(struct mkt_vol_object *dataset, hid_t mem_type, hid_t mem_space,
                            hid_t file_space, hid_t dxpl, void *buffer);
herr_t mkt_vol_virtual_write(struct mkt_vol_object *dataset, hid_t mem_type, hid_t mem_space,
                             hid_t file_space, hid_t dxpl, const void *buffer);

#endif
