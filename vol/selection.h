/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a dataspace selects, in the market's terms: a regular hyperslab where it is one, else runs
 * of elements in the selection's own order.
 */
#ifndef MKT_VOL_SELECTION_H
#define MKT_VOL_SELECTION_H

#include <hdf5.h>

#include "core/geometry/plan.h"
#include "core/geometry/slab.h"

struct mkt_vol_selection {
    hid_t space;   /* borrowed: the dataspace it was read from, H5I_INVALID_HID for a whole array */
    uint32_t rank; /* of the dataspace */
    uint64_t dims[MKT_MAX_RANK];
    uint64_t elements;    /* selected; 0: nothing else counts */
    bool regular;         /* slab holds the selection */
    struct mkt_slab slab; /* not regular: the bounding box */
};

/* The selection of a dataspace (not H5S_ALL and its kin). Negative, with an entry on the error
 * stack, if it is invalid or reaches past the dataspace's extent. */
herr_t mkt_vol_selection_read(struct mkt_vol_selection *selection_out, hid_t space);

/* All of an array of `dims` (elements). */
void mkt_vol_selection_whole(struct mkt_vol_selection *selection_out, uint32_t rank,
                             const uint64_t *dims);

/* What `from`, read from a dataspace, selects by its elements' offsets in its own extent, in an
 * array of other dims: a dataspace of those, in the same order, the caller's to close. Negative,
 * with an entry on the error stack, if an element is beyond, or it takes too many boxes. */
hid_t mkt_vol_selection_by_offset(const struct mkt_vol_selection *from, uint32_t rank,
                                  const uint64_t *dims);

/* How the elements that `file` selects lie in the memory that `memory` selects, if both are regular
 * and of one shape, or memory is contiguous. False: it takes a cursor. */
bool mkt_vol_selection_layout(const struct mkt_vol_selection *file,
                              const struct mkt_vol_selection *memory, uint32_t element_bytes,
                              struct mkt_layout *layout_out);

/* Cuts a slab into slabs of at most max_elements, in packed order, along the slowest axes. A
 * negative value from fn ends it and is returned. */
typedef herr_t (*mkt_vol_slab_fn)(void *context, const struct mkt_slab *part);
herr_t mkt_vol_slab_split(const struct mkt_slab *slab, uint64_t max_elements, mkt_vol_slab_fn fn,
                          void *context);

/* A walk over the runs of a selection in its own order; offsets and lengths in elements of the
 * row-major extent. */
#define MKT_VOL_RUNS_AT_ONCE 512
struct mkt_vol_runs {
    hid_t iterator;   /* H5I_INVALID_HID: one run of `left` elements at `offset` */
    uint64_t left;    /* elements not delivered yet */
    size_t count, at; /* in the arrays */
    hsize_t offset[MKT_VOL_RUNS_AT_ONCE];
    size_t length[MKT_VOL_RUNS_AT_ONCE];
};
herr_t mkt_vol_runs_open(struct mkt_vol_runs *runs, const struct mkt_vol_selection *selection);
/* The next run, at most `most` elements of it; elements_out 0: the end. */
herr_t mkt_vol_runs_next(struct mkt_vol_runs *runs, uint64_t most, uint64_t *offset_out,
                         uint64_t *elements_out);
void mkt_vol_runs_close(struct mkt_vol_runs *runs);

#endif
