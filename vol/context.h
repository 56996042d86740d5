/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the process has once: native's id and the connection to the market, made at first need. A
 * forked child leaves its parent's connection alone and makes its own.
 */
#ifndef MKT_VOL_CONTEXT_H
#define MKT_VOL_CONTEXT_H

#include "vol/info.h"
#include "vol/vol.h"

herr_t mkt_vol_context_init(void);
void mkt_vol_context_fini(void);

/* The process's client. `info` may be NULL; its configuration counts for the first connection.
 * `start`: start a daemon if there is none. The failures of mkt_client_connect; MKT_NOT_FOUND: no
 * market here. */
enum mkt_status mkt_vol_context_client(const struct mkt_vol_info *info, bool start,
                                       struct mkt_client **client_out, struct mkt_error *error);
/* A connection of its own for an open that waits without HDF5's lock, while other threads use the
 * process's. It goes with the file that it opens, and is given back with that. MKT_BUSY: there are
 * as many as there may be. */
enum mkt_status mkt_vol_context_take_waiter(struct mkt_client **client_out,
                                            struct mkt_error *error);
/* Nothing for a client that isn't one. */
void mkt_vol_context_put_waiter(struct mkt_client *client);
/* True if a configuration was named, so that rules may hold that only the daemon can tell. */
bool mkt_vol_context_configured(const struct mkt_vol_info *info);

/* HDF5's POST_OPEN has native keep an object of the file for itself: `wrapped` (internal, see
 * vol.h), or, in a file whose connector HDF5 takes to be native's, `bare`. */
enum mkt_vol_post_open {
    MKT_VOL_POST_OPEN_NONE,
    MKT_VOL_POST_OPEN_WRAPPED,
    MKT_VOL_POST_OPEN_BARE
};
void mkt_vol_context_set_post_open(enum mkt_vol_post_open kind);
enum mkt_vol_post_open mkt_vol_context_post_open(void);

/* True if this connector is the process's default; else a question may come from HDF5's search of
 * connectors. */
bool mkt_vol_context_is_default(void);

/* Where native can't open a path, HDF5 asks all connectors whether it is accessible to them and
 * opens it through the first that says yes. The path we last said yes to; asking clears it. */
void mkt_vol_context_set_accessible(const char *path);
bool mkt_vol_context_take_accessible(const char *path);

#endif
