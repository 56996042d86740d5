/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the libhdf5 that called the plugin, and what it is. Nothing of HDF5 or MPI is linked: all
 * is asked by symbol name. Loads nothing; promotes the library that it found to the global scope,
 * so that the connector's undefined symbols bind to it.
 */
#ifndef MKT_VOL_ENTRY_CALLER_H
#define MKT_VOL_ENTRY_CALLER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct mkt_caller {
    const void *base;    /* where the library (or the program it is linked into) is loaded */
    char path[PATH_MAX]; /* empty: the program itself */
    unsigned version[3];
    const char *flavour; /* "serial", "openmpi", "mpich" */
};

/* `address`: code of the caller. False: no connector can serve it, with cause and remedy in
 * `reason`; base is set where it is known, else NULL. */
bool mkt_caller_find(const void *address, struct mkt_caller *caller_out, char *reason,
                     size_t capacity);

#endif
