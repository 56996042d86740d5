/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/compat.h"

herr_t H5VLstart_lib_state(void) __attribute__((weak));
herr_t H5VLfinish_lib_state(void) __attribute__((weak));
herr_t H5VLopen_lib_context(void **context) __attribute__((weak));
herr_t H5VLclose_lib_context(void *context) __attribute__((weak));

herr_t mkt_vol_call_context_open(void **context_out)
{
    *context_out = NULL;
    if (H5VLopen_lib_context)
        return H5VLopen_lib_context(context_out);
    return H5VLstart_lib_state ? H5VLstart_lib_state() : -1;
}

void mkt_vol_call_context_close(void *context)
{
    if (H5VLclose_lib_context)
        H5VLclose_lib_context(context);
    else if (H5VLfinish_lib_state)
        H5VLfinish_lib_state();
}
