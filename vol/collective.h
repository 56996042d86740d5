/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a transfer list says after a transfer about how it went by MPI-IO
 * (H5Pget_mpio_actual_io_mode, ..._chunk_opt_mode, ..._no_collective_cause). Nothing in the market
 * has to be collective, so the answer is what native says of the same call: programs check that
 * their transfers were what they asked for. Each rank answers of itself: no message is sent for the
 * global cause.
 */
#ifndef MKT_VOL_COLLECTIVE_H
#define MKT_VOL_COLLECTIVE_H

#include "vol/vol.h"

/* Gathered over the datasets of one call. */
struct mkt_vol_collective {
    bool wanted; /* a file of the mpio driver, and a list to answer in */
    bool collective;
    unsigned io_mode, cause;
    bool filtered;
};

/* A dataset of a market file takes part. */
void mkt_vol_collective_note(struct mkt_vol_collective *call, const struct mkt_vol_object *dataset,
                             hid_t mem_type, hid_t dxpl);
/* The call succeeded. */
void mkt_vol_collective_report(const struct mkt_vol_collective *call, hid_t dxpl);

#endif
