/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw data of redirected datasets: one dataset, one selection, between the application's buffer and
 * pieces.
 */
#ifndef MKT_VOL_TRANSFER_H
#define MKT_VOL_TRANSFER_H

#include "vol/arrays.h"

/* One H5Dread or H5Dwrite of one dataset. */
struct mkt_vol_transfer {
    struct mkt_vol_object *dataset;
    struct mkt_vol_array *array;
    hid_t file_type;
    /* As the application gave them at first; file_space is H5S_ALL or a dataspace. */
    hid_t mem_type, mem_space, file_space, dxpl;
    bool owns_type;  /* file_type is for this call; else it is mem_type, which equals it */
    bool owns_space; /* file_space was made for this call */
};

/* All three put another file_space, and a mem_space, in the place of one whose extent isn't the
 * dataset's. This one: whether a write would find its selections and its conversion. */
herr_t mkt_vol_transfer_check_write(struct mkt_vol_transfer *transfer);
herr_t mkt_vol_transfer_write(struct mkt_vol_transfer *transfer, const void *buffer);
herr_t mkt_vol_transfer_read(struct mkt_vol_transfer *transfer, void *buffer);

#endif
