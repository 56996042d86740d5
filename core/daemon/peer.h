/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is at the other end of a connected Unix socket. Nothing here rests on pids, which differ
 * between namespaces. */
#ifndef MKT_DAEMON_PEER_H
#define MKT_DAEMON_PEER_H

#include "core/base/status.h"

/* MKT_DENIED: another user, or one that has no name here. */
enum mkt_status mkt_peer_check(int fd, struct mkt_error *error);

/* A pidfd of the process that connected; -1 if there is none to be had. */
int mkt_peer_open_process(int fd);

/* The uid that stands for users without a name in this namespace. */
unsigned mkt_peer_overflow_uid(void);

#endif
