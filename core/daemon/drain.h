/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's end without loss: on the first SIGTERM it goes on until what is owed is on disk, and
 * says how far it is; on the second it ends at once. And what would be lost, or was. Loop thread.
 */
#ifndef MKT_DAEMON_DRAIN_H
#define MKT_DAEMON_DRAIN_H

#include "core/daemon/daemon.h"

/* What is nowhere but in memory. */
struct mkt_loss {
    uint64_t versions; /* that nobody is going to save */
    uint32_t files;    /* with such */
    uint32_t unsaved;  /* files whose newest version is to be saved, and isn't yet */
    uint32_t writers;  /* files being written */
    bool partly;       /* of some of the versions, datasets are on disk */
    uint64_t bytes;    /* of all these files */
    char path[256];    /* of the first in the order of the above */
};
void mkt_loss_count(const struct mkt_daemon *daemon, struct mkt_loss *loss_out);
bool mkt_loss_any(const struct mkt_loss *loss);
/* Why the daemon doesn't end without being told to lose it. */
const char *mkt_loss_text(const struct mkt_loss *loss, char *text, size_t capacity);
/* At the end: names what is lost. */
void mkt_loss_log(const struct mkt_daemon *daemon);

/* A signal asks the daemon to end. */
void mkt_drain_signal(struct mkt_daemon *daemon, const char *name);
/* A former worker was told to end and died over it: this one goes on. */
void mkt_drain_resume(struct mkt_daemon *daemon);
/* After each step: ends the daemon when all is saved. */
void mkt_drain_settle(struct mkt_daemon *daemon, const struct mkt_market_usage *usage);
/* Once a second: progress, and its end where nothing moves. */
void mkt_drain_tick(struct mkt_daemon *daemon, uint64_t now_ms);

#endif
