/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What native would have stored of a redirected dataset by now: sizes, chunks, filtered bytes. The
 * data rests unfiltered in the market, so filters run when somebody asks (twin.h).
 *
 * A chunk counts as allocated as native allocates: with H5D_ALLOC_TIME_EARLY all are, with LATE all
 * once something was written, else those that hold a written element. HDF5 says HADDR_UNDEF of a
 * chunk that isn't there, so chunks that are there need addresses, though they lie in no file: they
 * start at MKT_VOL_CHUNK_ADDRESS, past the end of any file, where a read finds nothing.
 */
#ifndef MKT_VOL_CHUNKS_H
#define MKT_VOL_CHUNKS_H

#include "vol/arrays.h"

#define MKT_VOL_CHUNK_ADDRESS (UINT64_C(1) << 62)

/* The chunks found at the last question, of one dataset handle; NULL: none yet. */
struct mkt_vol_stored;
void mkt_vol_stored_destroy(struct mkt_vol_stored *stored);

/* `object` is a dataset with this array; `kept` its place for what was found. */
herr_t mkt_vol_stored_size(struct mkt_vol_object *object, struct mkt_vol_array *array,
                           struct mkt_vol_stored **kept, uint64_t *bytes_out);
herr_t mkt_vol_stored_status(struct mkt_vol_object *object, struct mkt_vol_array *array,
                             struct mkt_vol_stored **kept, H5D_space_status_t *status_out);
/* The optional operations about chunks. False: it is none of them. Else *result_out is what the
 * callback returns. */
bool mkt_vol_chunks_optional(struct mkt_vol_object *object, struct mkt_vol_array *array,
                             struct mkt_vol_stored **kept, H5VL_optional_args_t *args,
                             herr_t *result_out);

/* When a dataset shrinks, a chunk across the new edge keeps its space though all that was written
 * to it lay beyond. Before: *kept_out, those chunks (NULL: none), of a file that one process
 * writes; `dims`: the extent to come. After: has them written, and frees `kept`. */
struct mkt_vol_kept;
herr_t mkt_vol_stored_before_resize(struct mkt_vol_object *object, struct mkt_vol_array *array,
                                    const uint64_t *dims, struct mkt_vol_kept **kept_out);
herr_t mkt_vol_stored_after_resize(struct mkt_vol_object *object, struct mkt_vol_array *array,
                                   struct mkt_vol_kept *kept);

#endif
