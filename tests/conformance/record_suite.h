/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every medium of records must do. A program of a few lines calls this with the medium's
 * functions, bare and wrapped, and with each way in which it can be opened.
 */
#ifndef MKT_TESTS_CONFORMANCE_RECORD_SUITE_H
#define MKT_TESTS_CONFORMANCE_RECORD_SUITE_H

#include "media/ssd.h"

struct record_medium {
    enum mkt_status (*open)(const struct mkt_ssd_options *options, struct mkt_ssd **ssd_out,
                            struct mkt_error *error);
    void (*close)(struct mkt_ssd *ssd);
    void (*destroy)(struct mkt_ssd *ssd);
    enum mkt_status (*reserve)(struct mkt_ssd *ssd, uint64_t bytes,
                               struct mkt_ssd_record *record_out);
    enum mkt_status (*free)(struct mkt_ssd *ssd, const struct mkt_ssd_record *record);
    enum mkt_status (*write)(struct mkt_ssd *ssd, const struct mkt_ssd_record *record,
                             const void *bytes, struct mkt_error *error);
    enum mkt_status (*read)(struct mkt_ssd *ssd, const struct mkt_ssd_record *record,
                            const struct mkt_file_range *ranges, unsigned count, void *to,
                            struct mkt_error *error);
    void (*tidy)(struct mkt_ssd *ssd);
    bool (*is_known)(struct mkt_ssd *ssd, const struct mkt_ssd_record *record);
    enum mkt_status (*each)(struct mkt_ssd *ssd, mkt_ssd_record_fn fn, void *context);
    void (*usage)(struct mkt_ssd *ssd, struct mkt_ssd_usage *usage_out);
};

/* Runs the suite under `name` in a new folder inside `parent` (NULL: the current one), with what
 * `options` say of rings and queues; returns the number of failed tests. */
int record_suite_run(const char *name, const struct record_medium *medium, const char *parent,
                     const struct mkt_ssd_options *options);

/* A wrapper that has reads land between guards and looks whether other bytes change, and whether a
 * write leaves its source alone; MKT_CORRUPT if not. Counts what is open. */
extern const struct record_medium checking_records;
void checking_records_wrap(const struct record_medium *medium);
uint64_t checking_records_calls(void);
int checking_records_open(void);

#endif
