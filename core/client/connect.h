/* SPDX-License-Identifier: BSD-3-Clause */
/* Reaching the daemon of a folder, and who it is. Internal to core/client. */
#ifndef MKT_CLIENT_CONNECT_H
#define MKT_CLIENT_CONNECT_H

#include "core/base/status.h"
#include <stdint.h>

/* A connected socket (non-blocking, closed on exec), whose other end runs as this user.
 * MKT_NOT_FOUND: nobody listens. MKT_DENIED. MKT_TIMED_OUT: it takes no connection. */
enum mkt_status mkt_connect(const char *directory, uint64_t deadline_ms, int *fd_out,
                            struct mkt_error *error);

#endif
