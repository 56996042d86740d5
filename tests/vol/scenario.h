/* SPDX-License-Identifier: BSD-3-Clause */
/* What the plain HDF5 programs here check with. Each is one source file; they know nothing of the
 * market. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

static const char *scenario = ""; /* the one that runs, for messages */
static int failures;

/* A wrong value: counted, the program goes on. */
#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "%s: %s: line %d: %s\n", __FILE__, scenario, __LINE__, #condition); \
            failures++;                                                                         \
        }                                                                                       \
    } while (0)

/* A call that may not fail: the program ends. */
#define MUST(call)                                                                                \
    do {                                                                                          \
        if ((call) < 0) {                                                                         \
            fprintf(stderr, "%s: %s: line %d: %s failed\n", __FILE__, scenario, __LINE__, #call); \
            failures++;                                                                           \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#endif
