/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an executable or library says about itself, read from the file without running it: what it
 * needs, where it looks, and whether HDF5 is inside. Files are not trusted: every offset is
 * checked. Pure but for the file; any thread.
 */
#ifndef MKT_CLI_ELF_H
#define MKT_CLI_ELF_H

#include "core/base/status.h"
#include <stdbool.h>
#include <stdint.h>

#define MKT_ELF_MAX_NEEDED 256

struct mkt_elf {
    bool is_elf;                      /* and for this kind of machine; else the rest is empty */
    bool is_foreign;                  /* ELF for another kind of machine */
    bool is_dynamic;                  /* loaded by the dynamic linker */
    char *needed[MKT_ELF_MAX_NEEDED]; /* malloc'ed */
    unsigned needed_count;
    char *rpath, *runpath; /* malloc'ed or NULL */
    bool exports_hdf5;     /* others can use the HDF5 in it: a shared libhdf5, or a program with
                              -rdynamic */
    bool contains_hdf5;    /* HDF5's code is in it */
    bool parallel;         /* ... with MPI; known only if it exports HDF5 */
    char hdf5_version[24]; /* of that code; empty if unknown */
    char interpreter[256]; /* of a script, the program of its first line; else empty */
};

/* MKT_OK also for what is no ELF file. Else the status of errno. */
enum mkt_status mkt_elf_read(const char *path, struct mkt_elf *elf_out);
void mkt_elf_fini(struct mkt_elf *elf);

#endif
