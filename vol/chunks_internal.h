/* SPDX-License-Identifier: BSD-3-Clause */
/* A look at a dataset's storage, shared by chunks.c (what is asked of it) and chunk_keep.c. */
#ifndef MKT_VOL_CHUNKS_INTERNAL_H
#define MKT_VOL_CHUNKS_INTERNAL_H

#include "vol/arrays.h"
#include "vol/twin.h"

struct mkt_vol_store {
    struct mkt_vol_object *object;
    struct mkt_vol_array *array;
    const struct mkt_array *meta;
    hid_t type, dcpl;
    struct mkt_vol_sources sources;
    bool written; /* a piece may be there */
    H5D_alloc_time_t alloc_time;

    bool chunked;
    uint64_t chunk[MKT_MAX_RANK];  /* elements */
    uint64_t chunks[MKT_MAX_RANK]; /* along each dimension */
    uint64_t total, chunk_bytes;
    uint32_t axis[MKT_MAX_RANK]; /* native's order of chunks, the slowest first */
    int filters;
    hsize_t native_chunks; /* that the dataset in the image has */

    struct mkt_vol_twin twin;
    uint64_t twin_dims[MKT_MAX_RANK]; /* of its dataset */
    uint32_t twin_mask;               /* filters left out of it */
    void *values;                     /* of one chunk, less what is outside of the extent */
};

herr_t mkt_vol_store_open(struct mkt_vol_store *store, struct mkt_vol_object *object,
                          struct mkt_vol_array *array);
void mkt_vol_store_close(struct mkt_vol_store *store);
/* What of the extent lies in a chunk (elements). */
void mkt_vol_store_box(const struct mkt_vol_store *store, const uint64_t *scaled,
                       struct mkt_slab *box_out);
/* Whether any element of the box was written. */
herr_t mkt_vol_store_is_written(struct mkt_vol_store *store, const struct mkt_slab *box,
                                bool *written_out);
herr_t mkt_vol_store_is_allocated(struct mkt_vol_store *store, const uint64_t *scaled,
                                  bool *allocated_out);
/* Between the dataset's box and store->values, in the dataset's type. */
herr_t mkt_vol_store_move(struct mkt_vol_store *store, const struct mkt_slab *box, bool writing);

#endif
