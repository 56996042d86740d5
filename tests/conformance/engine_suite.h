/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every engine must do, whichever places it serves. A new engine adds a program of a few lines
 * that calls this with its table, bare and wrapped.
 */
#ifndef MKT_TESTS_CONFORMANCE_ENGINE_SUITE_H
#define MKT_TESTS_CONFORMANCE_ENGINE_SUITE_H

#include "transport/engine.h"

/* Runs the suite under `name`; returns the number of failed tests. */
int engine_suite_run(const char *name, const struct mkt_engine_ops *engine);

/* A wrapper that checks each move before and after the engine runs it: that it lies in the two
 * regions told, that the source stays as it was, and that no byte of the target changes but those
 * that the move names. Single-threaded. */
extern const struct mkt_engine_ops checking_engine;
void checking_engine_wrap(const struct mkt_engine_ops *engine);
void checking_engine_set_regions(uint64_t memory_bytes, uint64_t piece_bytes);
uint64_t checking_engine_moves(void);

#endif
