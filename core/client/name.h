/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands at a path, and stubs. Internal to core/client.
 */
#ifndef MKT_CLIENT_NAME_H
#define MKT_CLIENT_NAME_H

#include "core/client/stub_layout.h"
#include <sys/stat.h>
#include <sys/types.h>

enum mkt_place_kind {
    MKT_PLACE_NONE, /* the folder is there, nothing in it has this name */
    MKT_PLACE_STUB,
    MKT_PLACE_FILE,   /* a regular file that isn't a stub, or that we may not read */
    MKT_PLACE_FOREIGN /* no folder, no permission, not a regular file: native's to refuse */
};

struct mkt_place {
    enum mkt_place_kind kind;
    char *path; /* absolute, as the application sees it */
    char *real; /* for system calls: links followed, even to a name that isn't there yet */
    const char *leaf;
    dev_t parent_dev;
    ino_t parent_ino;
    struct mkt_file_identity file; /* STUB and FILE: what stands there */
    struct mkt_stub_disk stub;     /* STUB */
};

/* The path from the root, tidied but not resolved; malloc'ed. NULL: out of memory, or the current
 * folder has gone. */
char *mkt_path_absolute(const char *path);

/* MKT_NO_MEMORY. */
enum mkt_status mkt_place_init(struct mkt_place *place_out, const char *path,
                               struct mkt_error *error);
void mkt_place_fini(struct mkt_place *place);
/* True if both name the same thing: the same file or stub, or the same name in the same folder. */
bool mkt_place_equal(const struct mkt_place *a, const struct mkt_place *b);
/* The name for messages; it points into the place. */
void mkt_place_name(const struct mkt_place *place, struct mkt_name *name_out);

/* Makes sure that a stub of this market stands at a place where no file stands: makes one, takes
 * the one that is there, or rewrites one of another market. The place is brought up to date,
 * *fd_out is the stub's, *made_out tells whether it is new. MKT_EXISTS: something else stands there
 * now. */
enum mkt_status mkt_stub_ensure(struct mkt_place *place, const uint8_t market[MKT_ID_BYTES],
                                const char *host, int *fd_out, bool *made_out,
                                struct mkt_error *error);
/* Removes the stub if it still is this one. */
void mkt_stub_remove(const struct mkt_place *place);
/* Why a stub leads nowhere, and the remedy. market NULL: no daemon runs. */
void mkt_stub_explain(const struct mkt_place *place, const uint8_t *market, const char *host,
                      struct mkt_error *error);

#endif
