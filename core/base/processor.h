/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MKT_BASE_PROCESSOR_H
#define MKT_BASE_PROCESSOR_H

/* The calling thread goes on on another of the processors that it may use. If there is none it
 * stays. */
void mkt_processor_leave(void);

#endif
