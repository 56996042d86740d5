/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The folder of a market: one for each user, host boot and batch job. Holds the socket, the log and
 * the lock that starting takes. Internal to core/client.
 */
#ifndef MKT_CLIENT_DIRECTORY_H
#define MKT_CLIENT_DIRECTORY_H

#include "core/wire/messages.h"

#define MKT_SOCKET_NAME "socket"
#define MKT_LOG_NAME    "h5marketd.log"
#define MKT_LOCK_NAME   "start.lock"

/* Opens it for use with *at functions and checks that it is ours alone. MKT_NOT_FOUND, MKT_DENIED,
 * MKT_IO_ERROR. */
enum mkt_status mkt_directory_open(const char *directory, int *fd_out, struct mkt_error *error);

/* What stubs carry to say whose they are: equal for all processes of this market, kept over
 * restarts of its daemon. */
enum mkt_status mkt_directory_market_id(const char *directory, uint8_t market_out[MKT_ID_BYTES],
                                        struct mkt_error *error);

#endif
