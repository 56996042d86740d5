/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/unwritten.h"

#include "vol/error.h"
#include "vol/native.h"

/* Of a creation list. */
struct traits {
    H5D_layout_t layout;
    H5D_fill_time_t fill_time;
    H5D_fill_value_t fill;
    int filters;
};

static bool traits_read(const struct mkt_vol_object *dataset, struct traits *traits_out)
{
    hid_t dcpl = mkt_vol_native_get(dataset, H5VL_DATASET_GET_DCPL);

    if (dcpl < 0)
        return false;
    traits_out->layout = H5Pget_layout(dcpl);
    traits_out->filters = H5Pget_nfilters(dcpl);
    bool known = H5Pget_fill_time(dcpl, &traits_out->fill_time) >= 0 &&
                 H5Pfill_value_defined(dcpl, &traits_out->fill) >= 0;
    mkt_vol_close_keeping_errors(dcpl);
    return known;
}

/* The space of a file that was brought into memory is native's, with what stands in it. */
static bool has_native_space(const struct mkt_vol_object *dataset, const struct traits *traits)
{
    return traits->layout != H5D_COMPACT && mkt_vol_native_bytes(dataset) > 0;
}

bool mkt_vol_unwritten_is_zeros(const struct mkt_vol_object *dataset,
                                const struct mkt_vol_sources *sources)
{
    struct traits traits;

    if (mkt_vol_sources_unallocated(sources))
        return false;
    return traits_read(dataset, &traits) &&
           (traits.fill_time == H5D_FILL_TIME_NEVER || traits.fill == H5D_FILL_VALUE_UNDEFINED) &&
           !has_native_space(dataset, &traits);
}

static uint64_t elements_of(const struct mkt_array *meta)
{
    uint64_t elements = 1;

    for (uint32_t d = 0; d < meta->rank; d++)
        elements *= meta->dims[d];
    return elements;
}

bool mkt_vol_unwritten_stays_zeros(const struct mkt_vol_object *dataset,
                                   const struct mkt_vol_sources *sources, uint64_t elements)
{
    struct traits traits;

    if (!mkt_vol_sources_unallocated(sources) ||
        elements != elements_of(mkt_vol_array_meta(sources->array)) ||
        !traits_read(dataset, &traits))
        return false;
    if (has_native_space(dataset, &traits))
        return false;
    /* Chunks made one by one are filled first, and so are filtered ones. */
    return traits.layout == H5D_CONTIGUOUS ||
           (traits.layout == H5D_CHUNKED && traits.filters == 0 &&
            mkt_vol_array_alloc_time(sources->array) == H5D_ALLOC_TIME_LATE);
}
