/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For programs with HDF5 that `h5market` starts for its user (h5market-save, h5market-plan): exit
 * statuses, and a version opened by its file's name. Messages go to standard error, after the
 * program's name as it was invoked. One thread.
 */
#ifndef MKT_VOL_SAVE_OPENED_H
#define MKT_VOL_SAVE_OPENED_H

#include <hdf5.h>

#include "core/client/client.h"
#include <argp.h>

/* Those of `h5market`. */
enum mkt_exit {
    MKT_EXIT_OK = 0,
    MKT_EXIT_FAILED = 1,
    MKT_EXIT_WRONG_USAGE = 2,
    MKT_EXIT_NOT_IN_MARKET = 3,
    MKT_EXIT_NO_DAEMON = 4
};

/* Before anything of HDF5: what its environment says about connectors is for other programs. */
void mkt_opened_be_native(void);
/* An access list for native HDF5 files, to be completed by a driver; as lenient as HDF5 can be, for
 * what its writer could make must be readable. */
hid_t mkt_opened_access_list(void);

/* The argument of --version; ends with a usage error. */
uint64_t mkt_opened_parse_version(const char *argument, struct argp_state *state);
/* What argp asks a program of two arguments, its options aside; `names` are they, for messages. */
error_t mkt_opened_parse_two(int key, char *argument, struct argp_state *state, const char *names,
                             const char **first_out, const char **second_out);
/* Prints an error. Returns MKT_EXIT_FAILED. */
int mkt_opened_complain(const struct mkt_error *error);

struct mkt_wanted {
    const char *file;
    uint64_t version;                   /* 0: the newest */
    bool (*interrupted)(void *context); /* may be NULL */
};
/* Opens it to read; on failure says why and returns the exit status, else MKT_EXIT_OK. The caller
 * calls mkt_client_close. */
int mkt_opened_find(struct mkt_client *client, const struct mkt_wanted *wanted,
                    struct mkt_opened *opened_out);

#endif
