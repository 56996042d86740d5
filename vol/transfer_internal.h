/* SPDX-License-Identifier: BSD-3-Clause */
/* The insides of a transfer, shared by transfer.c (set-up and conversion), overlay.c (what a read
 * gets together) and scatter.c (writes that are no hyperslab). */
#ifndef MKT_VOL_TRANSFER_INTERNAL_H
#define MKT_VOL_TRANSFER_INTERNAL_H

#include "transport/engine.h"
#include "vol/selection.h"
#include "vol/transfer.h"

#define MKT_VOL_STRIP_BYTES (1u << 20) /* converted at a time; stays in the processor's cache */

struct mkt_vol_io {
    const struct mkt_vol_transfer *transfer;
    struct mkt_client *client;
    uint32_t file_bytes, mem_bytes; /* of one element */
    bool convert;
    bool transform;  /* the transfer list has one */
    bool background; /* the conversion keeps what stands at its target (parts of a compound) */
    bool blank;      /* that is zeros everywhere: unwritten.h */
    struct mkt_vol_selection file, memory;
    struct mkt_layout layout;
    bool direct; /* layout holds: no conversion, no cursor */
    struct mkt_vol_sources sources;
};

/* ---- overlay.c ---- */
/* The elements of `want` in the file's type, packed in its order: pieces over the native dataset.
 */
herr_t mkt_vol_overlay_slab(struct mkt_vol_io *io, const struct mkt_slab *want, void *packed_out);
/* The same for the transfer's whole file selection, if it is no hyperslab. */
herr_t mkt_vol_overlay_runs(struct mkt_vol_io *io, void *packed_out);
/* Straight into the application's memory (io->direct). */
herr_t mkt_vol_overlay_direct(struct mkt_vol_io *io, void *buffer);

/* ---- scatter.c ---- */
/* Writes the transfer's irregular file selection from a packed buffer in the file's type, in the
 * selection's order. */
herr_t mkt_vol_scatter_write(struct mkt_vol_io *io, const void *packed);

#endif
