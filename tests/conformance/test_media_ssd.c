/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conformance/record_suite.h"

#include <stdio.h>
#include <unistd.h>

static const struct record_medium ssd = {
    .open = mkt_ssd_open,
    .close = mkt_ssd_close,
    .destroy = mkt_ssd_destroy,
    .reserve = mkt_ssd_reserve,
    .free = mkt_ssd_free,
    .write = mkt_ssd_write,
    .read = mkt_ssd_read,
    .tidy = mkt_ssd_tidy,
    .is_known = mkt_ssd_is_known,
    .each = mkt_ssd_each,
    .usage = mkt_ssd_usage,
};

int main(void)
{
    const struct mkt_ssd_options usual = {0}, narrow = {.queue_depth = 1, .queues = 1},
                                 plain = {.without_uring = true}, cached = {.without_direct = true};
    int failed = record_suite_run("ssd, bare", &ssd, NULL, &usual);

    failed += record_suite_run("ssd, one request at a time", &ssd, NULL, &narrow);
    failed += record_suite_run("ssd, without io_uring", &ssd, NULL, &plain);
    failed += record_suite_run("ssd, through the page cache", &ssd, NULL, &cached);
    if (access("/dev/shm", W_OK) == 0)
        failed += record_suite_run("ssd, on tmpfs", &ssd, "/dev/shm", &usual);
    else
        printf("SKIPPED: no /dev/shm to write to\n");
    checking_records_wrap(&ssd);
    failed += record_suite_run("ssd, checked", &checking_records, NULL, &usual);
    if (checking_records_calls() == 0 || checking_records_open() != 0) {
        fprintf(stderr, "the wrapper saw %llu calls, and %d media stay open\n",
                (unsigned long long)checking_records_calls(), checking_records_open());
        failed++;
    }
    return failed;
}
