/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a user writes behind the connector's name: `HDF5_VOL_CONNECTOR="market wait=60"`. Words,
 * separated by blanks:
 * - wait=SECONDS: a reader waits that long for a first version (else by rule)
 * - version=N: a reader opens version N, not the newest
 * - after=start: a reader skips versions that are older than its connection
 * - deliver=WHICH: which version a stream's reader gets: latest, next, all, every:N (else by rule)
 * - reader=NAME: its name there (else by rule, else its program's); none: it isn't counted
 * - config=PATH: h5market.yaml (else H5MARKET_CONFIG)
 * HDF5 also opens files with no info at all (NULL): all by default.
 */
#ifndef MKT_VOL_INFO_H
#define MKT_VOL_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mkt_vol_info {
    int64_t wait_ms;  /* -1: by rule */
    uint64_t version; /* 0: the newest */
    bool after_start;
    uint32_t deliver, every; /* enum mkt_deliver, 0: by rule; of every:N */
    char *reader;            /* malloc'ed; NULL: not given */
    char *config;            /* malloc'ed; NULL: not given */
    char *wrong; /* malloc'ed: why the string isn't understood, so no file can be opened */
};

/* False with a reason for a string that isn't understood. */
bool mkt_vol_info_parse(const char *string, struct mkt_vol_info *info_out, char *reason,
                        size_t capacity);

#endif
