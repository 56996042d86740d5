/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading, for what has looked at the path already. Internal to core/client. */
#ifndef MKT_CLIENT_LOAD_H
#define MKT_CLIENT_LOAD_H

#include "core/client/client.h"
#include "core/client/name.h"

/* As mkt_client_load, once, for a place of kind FILE. MKT_STALE: the file changed. */
enum mkt_status mkt_load_place(struct mkt_client *client, const struct mkt_load *load,
                               const struct mkt_place *place, struct mkt_error *error);
/* A descriptor by which a daemon sees when the file is removed, and that holds no lock; -1: none.
 */
int mkt_place_watch(const struct mkt_place *place);

#endif
