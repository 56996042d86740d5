/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What becomes of the process that was started as h5marketd: a service that has nothing of its
 * starter. Start-up only, while there is one thread.
 */
#ifndef MKT_DAEMON_PROCESS_H
#define MKT_DAEMON_PROCESS_H

#include "core/base/status.h"

/* Closes every descriptor but the three standard ones, and opens those that are missing. */
void mkt_process_close_inherited(void);

/* Starts the program over with a clean environment, if this one holds more than the daemon and its
 * libraries read. */
void mkt_process_clean_environment(char **arguments);

/* How the child's start went. */
enum mkt_start {
    MKT_START_READY,
    MKT_START_BUSY,
    MKT_START_FAILED
};

/* Forks. In the child, detached (own session, no terminal, "/" as folder, umask 077, all CPUs,
 * default priority and signals, soft limits at their hard ones), it returns the descriptor to
 * report on. In the parent it returns -1 with the child's report; `text` gets what the child said.
 */
int mkt_process_detach(enum mkt_start *start_out, char *text, size_t capacity);
/* The same without a fork, for a daemon in the foreground: it stays in its session and folder. */
void mkt_process_settle(void);
/* The child's report; closes the descriptor. -1: nobody to report to. */
void mkt_process_report(int fd, enum mkt_start start, const char *text);

#endif
