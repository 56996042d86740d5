/* SPDX-License-Identifier: BSD-3-Clause */
/* What we can do is what native can do, less what would promise threads or asynchrony. */
#include "vol/callbacks.h"
#include "vol/object.h"

/* The terminal connector is native's own class: HDF5 allows its deprecated calls only over that. */
herr_t mkt_vol_introspect_class(void *object, H5VL_get_conn_lvl_t level,
                                const H5VL_class_t **class_out)
{
    if (level == H5VL_GET_CONN_LVL_CURR) {
        *class_out = mkt_vol_class();
        return 0;
    }
    return mkt_vol_native()->introspect_cls.get_conn_cls(mkt_vol_under(object), level, class_out);
}

herr_t mkt_vol_introspect_capabilities(const void *info, uint64_t *flags_out)
{
    (void)info;
    if (mkt_vol_native()->introspect_cls.get_cap_flags(NULL, flags_out) < 0)
        return -1;
    *flags_out &= ~(uint64_t)(H5VL_CAP_FLAG_THREADSAFE | H5VL_CAP_FLAG_ASYNC);
    return 0;
}

herr_t mkt_vol_introspect_optional(void *object, H5VL_subclass_t subclass, int operation,
                                   uint64_t *flags_out)
{
    return mkt_vol_native()->introspect_cls.opt_query(mkt_vol_under(object), subclass, operation,
                                                      flags_out);
}
