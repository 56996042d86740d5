/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conformance/record_suite.h"

#include "core/base/hash.h"
#include <stdlib.h>
#include <string.h>

#define GUARD_BYTES 8192
#define GUARD       0x5c

static struct {
    const struct record_medium *medium;
    uint64_t calls;
    int open;
} checker;

void checking_records_wrap(const struct record_medium *medium)
{
    checker.medium = medium;
    checker.calls = 0;
    checker.open = 0;
}

uint64_t checking_records_calls(void)
{
    return __atomic_load_n(&checker.calls, __ATOMIC_RELAXED);
}

int checking_records_open(void)
{
    return checker.open;
}

static enum mkt_status checked_open(const struct mkt_ssd_options *options, struct mkt_ssd **ssd_out,
                                    struct mkt_error *error)
{
    enum mkt_status status = checker.medium->open(options, ssd_out, error);

    checker.open += status == MKT_OK;
    return status;
}

static void checked_close(struct mkt_ssd *ssd)
{
    checker.open -= ssd != NULL;
    checker.medium->close(ssd);
}

static void checked_destroy(struct mkt_ssd *ssd)
{
    checker.open -= ssd != NULL;
    checker.medium->destroy(ssd);
}

static enum mkt_status checked_reserve(struct mkt_ssd *ssd, uint64_t bytes,
                                       struct mkt_ssd_record *record_out)
{
    struct mkt_ssd_record before = *record_out;
    enum mkt_status status = checker.medium->reserve(ssd, bytes, record_out);

    if (status != MKT_OK && memcmp(&before, record_out, sizeof(before)) != 0)
        return MKT_CORRUPT;
    if (status == MKT_OK && (record_out->bytes != bytes || record_out->place == 0))
        return MKT_CORRUPT;
    return status;
}

static enum mkt_status checked_free(struct mkt_ssd *ssd, const struct mkt_ssd_record *record)
{
    return checker.medium->free(ssd, record);
}

static enum mkt_status checked_write(struct mkt_ssd *ssd, const struct mkt_ssd_record *record,
                                     const void *bytes, struct mkt_error *error)
{
    uint64_t before = mkt_hash64(bytes, record->bytes, 0);
    enum mkt_status status = checker.medium->write(ssd, record, bytes, error);

    __atomic_fetch_add(&checker.calls, 1, __ATOMIC_RELAXED);
    return mkt_hash64(bytes, record->bytes, 0) == before ? status : MKT_CORRUPT;
}

static bool is_guard(const uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] != GUARD)
            return false;
    return true;
}

/* Copies the ranges to their targets; false if something between them isn't as it was. */
static bool hand_out(const uint8_t *from, const struct mkt_file_range *ranges, unsigned count,
                     uint8_t *to)
{
    uint64_t end = 0;

    for (unsigned i = 0; i < count; i++) {
        uint64_t at = ranges[i].offset - ranges[0].offset;
        if (!is_guard(from + end, at - end))
            return false;
        memcpy(to + at, from + at, ranges[i].length);
        end = at + ranges[i].length;
    }
    return is_guard(from + end, GUARD_BYTES);
}

/* Lands at the same place within a block, since that decides how it is read. */
static enum mkt_status checked_read(struct mkt_ssd *ssd, const struct mkt_ssd_record *record,
                                    const struct mkt_file_range *ranges, unsigned count, void *to,
                                    struct mkt_error *error)
{
    uint64_t span = record->bytes + 3 * GUARD_BYTES;
    uint8_t *buffer = aligned_alloc(4096, (span + 4095) / 4096 * 4096);

    if (buffer == NULL)
        return MKT_NO_MEMORY;
    memset(buffer, GUARD, span);
    uint8_t *inner = buffer + GUARD_BYTES + (uintptr_t)to % 4096;
    enum mkt_status status = checker.medium->read(ssd, record, ranges, count, inner, error);
    __atomic_fetch_add(&checker.calls, 1, __ATOMIC_RELAXED);
    bool good = is_guard(buffer, (uint64_t)(inner - buffer));
    if (good && status == MKT_OK)
        good = hand_out(inner, ranges, count, to);
    free(buffer);
    return good ? status : MKT_CORRUPT;
}

static void checked_tidy(struct mkt_ssd *ssd)
{
    checker.medium->tidy(ssd);
}

static bool checked_is_known(struct mkt_ssd *ssd, const struct mkt_ssd_record *record)
{
    return checker.medium->is_known(ssd, record);
}

static enum mkt_status checked_each(struct mkt_ssd *ssd, mkt_ssd_record_fn fn, void *context)
{
    return checker.medium->each(ssd, fn, context);
}

/* Sums that don't fit are shown as a number of records that no test expects. */
static void checked_usage(struct mkt_ssd *ssd, struct mkt_ssd_usage *usage_out)
{
    checker.medium->usage(ssd, usage_out);
    if (usage_out->live_bytes + usage_out->dead_bytes > usage_out->file_bytes)
        usage_out->records = UINT64_MAX;
}

const struct record_medium checking_records = {
    .open = checked_open,
    .close = checked_close,
    .destroy = checked_destroy,
    .reserve = checked_reserve,
    .free = checked_free,
    .write = checked_write,
    .read = checked_read,
    .tidy = checked_tidy,
    .is_known = checked_is_known,
    .each = checked_each,
    .usage = checked_usage,
};
