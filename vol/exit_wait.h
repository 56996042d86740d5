/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exit of a writer in a batch step. A daemon that a program of the step has started ends with
 * the step, so the process that published (rank 0 of a group) waits until its files are on disk:
 * while it waits the step goes on. Progress and the end go to standard error.
 */
#ifndef MKT_VOL_EXIT_WAIT_H
#define MKT_VOL_EXIT_WAIT_H

#include "core/client/client.h"

/* This process has published a version of a file with that rule. */
void mkt_vol_exit_wait_note(const struct mkt_rule *rule);
/* Where it has to: waits. Not longer than the daemon lives, or than the rules bear failing saves.
 */
void mkt_vol_exit_wait(struct mkt_client *client);

#endif
