/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What differs between the MPI and the serial build of the writer and the reader: start-up and
 * property lists. Compiled once with BENCH_MPI (mpio driver over MPI_COMM_WORLD) and once without
 * (default driver, one process).
 */
#ifndef BENCH_LAUNCH_H
#define BENCH_LAUNCH_H

#include <hdf5.h>
#include <stdbool.h>

struct launch {
    int rank;
    int size;
};

struct launch launch_init(int *argc, char ***argv);
void launch_fini(void);

/* Ends all ranks of this program. */
void launch_abort(void) __attribute__((noreturn));

/* Property lists that the caller closes; negative on failure. */
hid_t launch_create_fapl(void);
hid_t launch_create_dxpl(bool collective);

#endif
