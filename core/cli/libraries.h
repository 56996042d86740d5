/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which libraries the dynamic linker would load for a program: the linker's search over rpath,
 * LD_LIBRARY_PATH, runpath, its cache and the system's folders, done on the files. What a program
 * loads by itself later (dlopen, Python's modules) is not seen.
 */
#ifndef MKT_CLI_LIBRARIES_H
#define MKT_CLI_LIBRARIES_H

#include "core/cli/elf.h"

struct mkt_library {
    char *name; /* as the one that needs it calls it; the program: its path */
    char *path; /* NULL: not found */
    struct mkt_elf elf;
    unsigned parent; /* which one needs it */
};

struct mkt_libraries {
    struct mkt_library *item; /* item[0] is the program */
    unsigned count, capacity;
};

/* The status of reading the program; libraries that are missing are in the list without a path. */
enum mkt_status mkt_libraries_collect(const char *program, struct mkt_libraries *libraries_out);
void mkt_libraries_fini(struct mkt_libraries *libraries);
/* True if one of them (by the start of its name) is needed. */
bool mkt_libraries_have(const struct mkt_libraries *libraries, const char *name_start);

#endif
