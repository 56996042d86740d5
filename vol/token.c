/* SPDX-License-Identifier: BSD-3-Clause */
/* Tokens are native's: addresses in the image. */
#include "vol/callbacks.h"
#include "vol/object.h"

herr_t mkt_vol_token_cmp(void *object, const H5O_token_t *left, const H5O_token_t *right,
                         int *order_out)
{
    return mkt_vol_native()->token_cls.cmp(mkt_vol_under(object), left, right, order_out);
}

herr_t mkt_vol_token_to_str(void *object, H5I_type_t type, const H5O_token_t *token,
                            char **string_out)
{
    return mkt_vol_native()->token_cls.to_str(mkt_vol_under(object), type, token, string_out);
}

herr_t mkt_vol_token_from_str(void *object, H5I_type_t type, const char *string,
                              H5O_token_t *token_out)
{
    return mkt_vol_native()->token_cls.from_str(mkt_vol_under(object), type, string, token_out);
}
