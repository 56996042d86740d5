/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stubs: the small files that stand for objects. A descriptor of each is held, so that it can
 * be found again wherever it was moved; once a second a worker looks which ones were removed. File
 * systems may hang, so nothing here touches one in the loop's thread. Loop thread only.
 */
#ifndef MKT_DAEMON_STUBS_H
#define MKT_DAEMON_STUBS_H

#include "core/daemon/daemon.h"

struct mkt_stubs *mkt_stubs_create(struct mkt_daemon *daemon); /* NULL: out of memory */
/* Waits for nothing: a scan that hangs is left to itself. */
void mkt_stubs_destroy(struct mkt_stubs *stubs);

/* Keeps (and owns) the descriptor of an object's stub, in place of an earlier one; or that of the
 * file on disk that it is known by, opened with O_PATH: its removal is noticed as well, and it is
 * never removed from here. */
void mkt_stubs_keep(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES], int fd);
/* True if the object's stub is being removed, or was removed lately, from here: who found it just
 * before must look at the path again, or what it creates goes with that stub. */
bool mkt_stubs_was_dropped(const struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES]);
/* Goes on with those that the keeper holds. */
void mkt_stubs_revive(struct mkt_stubs *stubs);
/* Removes those whose object was withdrawn: the worker before may not have come to it. */
void mkt_stubs_drop_withdrawn(struct mkt_stubs *stubs);
/* The object is gone: forgets its stub, and removes the file where it still stands if `unlink`. */
void mkt_stubs_drop(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES], bool unlink);
/* Removes all at once, waiting for it: what is discarded at the daemon's end. */
void mkt_stubs_drop_all(struct mkt_stubs *stubs);

/* Once a second: looks after the stubs, and forgets those whose object never came to be. */
void mkt_stubs_scan(struct mkt_stubs *stubs);
uint32_t mkt_stubs_count(const struct mkt_stubs *stubs);

/* A file is ordered for where the stub is now; false: not known. *former_out is where one was
 * ordered for that no attempt has ended since; NULL: nowhere. Valid until the next call. */
bool mkt_stubs_order(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES], char *path_out,
                     size_t capacity, const char **former_out);
/* The attempt ended. */
void mkt_stubs_order_ended(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES]);

#endif
