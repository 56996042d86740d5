/* SPDX-License-Identifier: BSD-3-Clause */
/* Life of the error class; the functions that push entries are in vol.h. */
#ifndef MKT_VOL_ERROR_H
#define MKT_VOL_ERROR_H

#include "vol/vol.h"

void mkt_vol_error_init(void);
void mkt_vol_error_fini(void);

/* HDF5 prints the error stack when a nested call fails, and again when the application's does.
 * Between these two it prints nothing. */
struct mkt_vol_silence {
    H5E_auto2_t function;
    void *data;
    bool active;
};
void mkt_vol_silence_begin(struct mkt_vol_silence *silence);
void mkt_vol_silence_end(const struct mkt_vol_silence *silence);

/* Closes a list, type or dataspace and keeps what is on the error stack (most calls of HDF5 clear
 * it). */
void mkt_vol_close_keeping_errors(hid_t id);

#endif
