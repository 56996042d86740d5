/* SPDX-License-Identifier: BSD-3-Clause */
/* Tokens are native's: addresses in the image. */
#include "vol/callbacks.h"
#include "vol/object.h"

herr_t mkt_vol_token_cmp(void *object, const H5O_token_t *left, const H5O_token_t *right,
                         int *order_out)
{
    return H5VLtoken_cmp(mkt_vol_under(object), mkt_vol_native_id(), left, right, order_out);
}

herr_t mkt_vol_token_to_str(void *object, H5I_type_t type, const H5O_token_t *token,
                            char **string_out)
{
    return H5VLtoken_to_str(mkt_vol_under(object), type, mkt_vol_native_id(), token, string_out);
}

herr_t mkt_vol_token_from_str(void *object, H5I_type_t type, const char *string,
                              H5O_token_t *token_out)
{
    return H5VLtoken_from_str(mkt_vol_under(object), type, mkt_vol_native_id(), string, token_out);
}
