/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory as a descriptor. Pure; any thread. */
#ifndef MKT_BASE_MEMFD_H
#define MKT_BASE_MEMFD_H

#include <stdint.h>

/* A file in memory, sealed at this size, so that nobody who has it can take pages from under
 * another's mapping, and not executable where the kernel knows that. -1: errno says why. */
int mkt_memfd_create(const char *name, uint64_t size_bytes);

#endif
