/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that writes files, h5market-archiver: started when something is to be saved, started
 * again when it dies. It talks to the market like any other client. Loop thread only.
 */
#ifndef MKT_DAEMON_ARCHIVER_H
#define MKT_DAEMON_ARCHIVER_H

#include <stdbool.h>
#include <stdint.h>

struct mkt_archivers;
struct mkt_daemon;

/* NULL: out of memory. */
struct mkt_archivers *mkt_archivers_create(struct mkt_daemon *daemon);
/* True if the program is installed beside this one. */
bool mkt_archivers_installed(const struct mkt_archivers *archivers);
/* After each step: starts the program if so many versions are unsaved and none runs. */
void mkt_archivers_settle(struct mkt_archivers *archivers, uint64_t unsaved);
/* Ends it, whatever it does; its handles close with the loop's next turns. */
void mkt_archivers_stop(struct mkt_archivers *archivers);
/* When the loop has ended. NULL is allowed. */
void mkt_archivers_destroy(struct mkt_archivers *archivers);

#endif
