/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The SSD medium, `ssd FOLDER RECORD_BYTES RECORDS DEPTH SHIFT`: writes records from memory that
 * starts SHIFT bytes beside a block, reads them whole, reads 3 % of each in 64 strided parts, frees
 * all, and writes anew into the files that are there. A line each: its name and bytes a second.
 * Then the checksum's rate and memcpy's.
 */
#include "media/ssd.h"
#include "transport/crc32c.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PARTS       64
#define PART_SHARE  0.03
#define RECORDS_MAX 1024
#define BLOCK       4096u

static struct mkt_ssd *ssd;
static struct mkt_ssd_record records[RECORDS_MAX];
static uint64_t bytes, count;

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void check(enum mkt_status status, const struct mkt_error *error)
{
    if (status == MKT_OK)
        return;
    fprintf(stderr, "ssd: %s: %s\n", mkt_status_name(status), error->text);
    exit(1);
}

static void report(const char *name, double start, double moved)
{
    printf("%s %.0f\n", name, moved / (now() - start));
}

/* Each record differs from the others and from what lies in the memory it is read into. */
static void stamp(uint8_t *memory, uint64_t record)
{
    for (uint64_t at = 0; at + sizeof(record) <= bytes; at += BLOCK)
        memcpy(memory + at, &record, sizeof(record));
}

static void check_stamps(const uint8_t *memory, uint64_t record)
{
    uint64_t found;

    for (uint64_t at = 0; at + sizeof(record) <= bytes; at += BLOCK) {
        memcpy(&found, memory + at, sizeof(found));
        if (found != record) {
            fprintf(stderr, "ssd: wrong bytes in record %llu\n", (unsigned long long)record);
            exit(1);
        }
    }
}

/* Only the writes count, not the stamps. */
static void write_all(const char *name, uint8_t *memory)
{
    struct mkt_error error = {0};
    double seconds = 0;

    for (uint64_t i = 0; i < count; i++) {
        check(mkt_ssd_reserve(ssd, bytes, &records[i]), &error);
        stamp(memory, i);
        double start = now();
        check(mkt_ssd_write(ssd, &records[i], memory, &error), &error);
        seconds += now() - start;
    }
    printf("%s %.0f\n", name, (double)(bytes * count) / seconds);
}

static void read_all(uint8_t *memory)
{
    struct mkt_file_range all = {0, bytes};
    struct mkt_error error = {0};
    double seconds = 0;

    for (uint64_t i = 0; i < count; i++) {
        stamp(memory, UINT64_MAX);
        double start = now();
        check(mkt_ssd_read(ssd, &records[i], &all, 1, memory, &error), &error);
        seconds += now() - start;
        check_stamps(memory, i);
    }
    printf("read %.0f\n", (double)(bytes * count) / seconds);
}

/* Bytes of the whole record a second: how much faster than reading all of it. */
static void read_parts(uint8_t *memory)
{
    struct mkt_file_range ranges[PARTS];
    struct mkt_error error = {0};

    for (uint64_t i = 0; i < PARTS; i++)
        ranges[i] = (struct mkt_file_range){bytes / PARTS * i,
                                            (uint64_t)((double)bytes / PARTS * PART_SHARE)};
    double start = now();
    for (uint64_t i = 0; i < count; i++)
        check(mkt_ssd_read(ssd, &records[i], ranges, PARTS, memory, &error), &error);
    report("part", start, (double)(bytes * count));
}

static void sum_and_copy(uint8_t *from, uint8_t *to)
{
    uint32_t sum = 0;
    double start = now();

    for (uint64_t at = 0; at + BLOCK <= bytes; at += BLOCK)
        sum ^= mkt_crc32c(0, from + at, BLOCK);
    report("crc32c", start, (double)bytes);
    start = now();
    memcpy(to, from, bytes);
    report("memcpy", start, (double)bytes);
    start = now();
    for (uint64_t i = 0; i < bytes >> 16; i++)
        sum ^= mkt_crc32c(sum, from, 1 << 16);
    report("crc32c-in-cache", start, (double)(bytes >> 16 << 16));
    if (sum == 0) /* so that no sum is left out */
        printf("sum 0\n");
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: %s FOLDER RECORD_BYTES RECORDS DEPTH SHIFT\n", argv[0]);
        return 2;
    }
    const char *const folders[] = {argv[1]};
    struct mkt_error error = {0};
    struct mkt_ssd_usage usage;
    uint64_t shift = strtoull(argv[5], NULL, 10);
    bytes = strtoull(argv[2], NULL, 10);
    count = strtoull(argv[3], NULL, 10);
    struct mkt_ssd_options options = {
        .folders = folders,
        .folders_count = 1,
        .limit_bytes = 4 * bytes * (count + 1) + MKT_SSD_SEGMENT_BYTES,
        .queue_depth = (unsigned)strtoul(argv[4], NULL, 10),
    };
    uint8_t *from = aligned_alloc(BLOCK, (bytes + shift + BLOCK) / BLOCK * BLOCK);
    uint8_t *to = aligned_alloc(BLOCK, (bytes + shift + BLOCK) / BLOCK * BLOCK);
    if (from == NULL || to == NULL || count > RECORDS_MAX || shift > BLOCK) {
        fprintf(stderr, "%s: no memory, or more than %d records\n", argv[0], RECORDS_MAX);
        return 1;
    }
    memset(from, 0x5a, bytes + shift);
    memset(to, 0xa5, bytes + shift);
    check(mkt_ssd_open(&options, &ssd, &error), &error);
    mkt_ssd_usage(ssd, &usage);
    write_all("write", from + shift);
    read_all(to + shift);
    read_parts(to + shift);
    for (uint64_t i = 0; i < count; i++)
        check(mkt_ssd_free(ssd, &records[i]), &error);
    write_all("rewrite", from + shift);
    sum_and_copy(from, to);
    printf("direct %d\nuring %d\n", usage.uses_direct, usage.uses_uring);
    mkt_ssd_destroy(ssd);
    free(from);
    free(to);
    return 0;
}
