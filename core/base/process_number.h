/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MKT_BASE_PROCESS_NUMBER_H
#define MKT_BASE_PROCESS_NUMBER_H

#include <stdint.h>

/* Tells a process from those it was forked from, and from those that it forks, without a call of
 * the kernel; a pid may be the same in a child's namespace. Never 0. */
uint64_t mkt_process_number(void);

#endif
