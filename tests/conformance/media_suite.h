/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every medium whose arenas are mapped and handed on as descriptors must do. A new medium adds
 * a program of a few lines that calls this with its table, bare and wrapped.
 */
#ifndef MKT_TESTS_CONFORMANCE_MEDIA_SUITE_H
#define MKT_TESTS_CONFORMANCE_MEDIA_SUITE_H

#include "media/medium.h"
#include <stdbool.h>
#include <stdint.h>

/* Runs the suite under `name`; returns the number of failed tests. */
int media_suite_run(const char *name, const struct mkt_medium *media);

/* A wrapper that counts open arenas and, around each populate and punch, checks that bytes outside
 * the range stay as they are and that the descriptor and the mapping show the same. One arena at a
 * time in the checks. */
extern const struct mkt_medium checking_media;
void checking_media_wrap(const struct mkt_medium *media);
uint64_t checking_media_calls(void);
int checking_media_open_arenas(void);

#endif
