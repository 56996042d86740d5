/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every medium whose arenas are mapped and handed on as descriptors must do. A new medium adds
 * a program of a few lines that calls this with its table, bare and wrapped.
 */
#ifndef MKT_TESTS_CONFORMANCE_MEDIA_SUITE_H
#define MKT_TESTS_CONFORMANCE_MEDIA_SUITE_H

#include "core/base/status.h"
#include <stdbool.h>
#include <stdint.h>

/* The arena functions of a medium; `arena` is its own type. */
struct media_ops {
    const char *name;
    enum mkt_status (*create)(uint64_t size_bytes, void **arena_out, struct mkt_error *error_out);
    void (*destroy)(void *arena);
    int (*fd)(const void *arena);
    void *(*base)(const void *arena);
    bool (*is_populated)(const void *arena, uint64_t offset, uint64_t length);
    enum mkt_status (*populate)(void *arena, uint64_t offset, uint64_t length);
    enum mkt_status (*punch)(void *arena, uint64_t offset, uint64_t length);
    uint64_t (*resident_bytes)(const void *arena);
};

/* Runs the suite under `name`; returns the number of failed tests. */
int media_suite_run(const char *name, const struct media_ops *media);

/* A wrapper that counts open arenas and, around each populate and punch, checks that bytes outside
 * the range stay as they are and that the descriptor and the mapping show the same. One arena at a
 * time in the checks. */
extern const struct media_ops checking_media;
void checking_media_wrap(const struct media_ops *media);
uint64_t checking_media_calls(void);
int checking_media_open_arenas(void);

#endif
