/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault points: places in the code where a test has a process die, stop, pause or fail. Only in
 * builds with -DMKT_FAULTS=ON; elsewhere a point is nothing at all, and the variables are ignored.
 *
 * H5MARKET_FAULT=NAME:ACTION[:COUNT],... acts at the COUNT-th pass (1 by default) of the point
 * NAME:
 * - kill: the process kills itself (SIGKILL);
 * - stop: it stops itself (SIGSTOP); whoever waits for that may look, then go on or kill;
 * - sleep=MS: the thread sleeps;
 * - error=STATUS: the point returns that status, by its name in status.h (IO_ERROR, NO_SPACE).
 *
 * H5MARKET_FAULT_ONCE=PREFIX: of all processes only the first that gets to a NAME acts there: it
 * creates the file PREFIX.NAME and writes its process id into it. So a successor of a killed
 * process isn't killed, too, and a test knows that it happened, and to whom.
 *
 * H5MARKET_FAULT_TRACE=FILE: each pass appends a line "NAME COUNT" to FILE. So a run without a
 * fault tells a test all the places where the next runs can die.
 *
 * Names are COMPONENT.PLACE ("client.commit-sent"), so that one variable serves programs and the
 * daemon that they start. The variables are read at a process's first point; passes are counted in
 * each process by itself, all its threads together. Any thread. A wrong variable is an error in the
 * log, and no fault: a test must see that what it asked for happened.
 */
#ifndef MKT_BASE_FAULT_H
#define MKT_BASE_FAULT_H

#include "core/base/status.h"

#if MKT_FAULTS

/* Beside the real check: `if (status == MKT_OK) status = mkt_fault_point("...")`. The result counts
 * only where the place can fail. */
enum mkt_status mkt_fault_point(const char *name);

#else

static inline enum mkt_status mkt_fault_point(const char *name)
{
    (void)name;
    return MKT_OK;
}

#endif
#endif
