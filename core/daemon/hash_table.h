/* SPDX-License-Identifier: BSD-3-Clause */
/* uthash, with a failed allocation as an answer and not as an end. */
#ifndef MKT_DAEMON_HASH_TABLE_H
#define MKT_DAEMON_HASH_TABLE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
