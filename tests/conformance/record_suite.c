/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conformance/record_suite.h"
#include "tests/unit/ssd_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define KIB            ((uint64_t)1 << 10)
#define MIB            ((uint64_t)1 << 20)
#define SEGMENT_BYTES  MIB
#define LIMIT_BYTES    (16 * MIB)
#define POISON         0xd7
#define RECORDS_MAX    4096
#define BUFFER_BYTES   (5 * MIB)
#define CONTENTS_BYTES (3 * MIB)

static const struct record_medium *medium;
static struct mkt_ssd_options options; /* as the program wants them */
static const char *parent;
static char folder[256];
static uint8_t *buffer; /* aligned to a block */
static uint8_t *source;

/* ---- helpers ---- */

static struct mkt_ssd *open_medium(void)
{
    const char *const folders[] = {folder};
    struct mkt_ssd_options here = options;
    struct mkt_ssd *ssd = NULL;
    struct mkt_error error = {0};

    here.folders = folders;
    here.folders_count = 1;
    here.name = TEST_NAME;
    here.limit_bytes = LIMIT_BYTES;
    here.segment_bytes = SEGMENT_BYTES;
    if (medium->open(&here, &ssd, &error) != MKT_OK)
        fail_msg("%s", error.text);
    return ssd;
}

static struct mkt_ssd_usage usage_of(struct mkt_ssd *ssd)
{
    struct mkt_ssd_usage usage;

    medium->usage(ssd, &usage);
    return usage;
}

static enum mkt_status put(struct mkt_ssd *ssd, uint64_t bytes, uint64_t seed,
                           struct mkt_ssd_record *record_out)
{
    struct mkt_error error = {0};
    enum mkt_status status = medium->reserve(ssd, bytes, record_out);

    if (status != MKT_OK)
        return status;
    fill_pattern(source, bytes, seed);
    status = medium->write(ssd, record_out, source, &error);
    if (status != MKT_OK)
        fail_msg("%s: %s", mkt_status_name(status), error.text);
    return MKT_OK;
}

static void put_well(struct mkt_ssd *ssd, uint64_t bytes, uint64_t seed,
                     struct mkt_ssd_record *record_out)
{
    assert_int_equal(put(ssd, bytes, seed, record_out), MKT_OK);
}

static bool is_poison(const uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] != POISON)
            return false;
    return true;
}

/* The whole record into poisoned memory, `shift` bytes beside a block's start. */
static void check_whole(struct mkt_ssd *ssd, const struct mkt_ssd_record *record, uint64_t seed,
                        uint64_t shift)
{
    struct mkt_file_range all = {0, record->bytes};
    struct mkt_error error = {0};

    memset(buffer, POISON, shift + record->bytes + KIB);
    if (medium->read(ssd, record, &all, 1, buffer + shift, &error) != MKT_OK)
        fail_msg("%s", error.text);
    assert_true(is_pattern(buffer + shift, 0, record->bytes, seed));
    assert_true(is_poison(buffer, shift) && is_poison(buffer + shift + record->bytes, KIB));
}

static int set_up(void **state)
{
    (void)state;
    make_test_folder(parent, folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_test_folder(folder);
    return access(folder, F_OK) == 0; /* something stayed */
}

/* ---- bytes ---- */

static void test_records_of_any_size_and_place_round_trip(void **state)
{
    static const uint64_t sizes[] = {1,       63,          4095,    4096,          4097,
                                     8192,    65536,       262143,  262144,        262145,
                                     MIB - 1, 2 * MIB + 1, 3 * MIB, 524288 + 12345};
    static const uint64_t shifts[] = {0, 1, 64, 512, 4095};
    struct mkt_ssd *ssd = open_medium();

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t j = 0; j < sizeof(shifts) / sizeof(shifts[0]); j++) {
            struct mkt_ssd_record record;
            struct mkt_error error = {0};
            uint64_t seed = i * 10 + j;
            assert_int_equal(medium->reserve(ssd, sizes[i], &record), MKT_OK);
            fill_pattern(source + shifts[j], sizes[i], seed);
            if (medium->write(ssd, &record, source + shifts[j], &error) != MKT_OK)
                fail_msg("%s", error.text);
            check_whole(ssd, &record, seed, shifts[(j + i) % 5]);
            assert_int_equal(medium->free(ssd, &record), MKT_OK);
        }
    medium->close(ssd);
}

/* Ascending ranges of a record; returns how many. */
static unsigned draw_ranges(uint64_t *random, uint64_t bytes, struct mkt_file_range *ranges,
                            unsigned max)
{
    static const uint64_t scales[] = {1, 100, 4096, 40000, 300000};
    uint64_t at = random_in(random, 0, bytes), longest = scales[random_in(random, 0, 4)],
             widest = scales[random_in(random, 0, 4)];
    unsigned count = 0, wanted = (unsigned)random_in(random, 1, max);

    if (random_in(random, 0, 3) == 0)
        at -= at % 4096;
    while (count < wanted && at <= bytes) {
        uint64_t length = random_in(random, 0, longest);
        if (random_in(random, 0, 2) == 0)
            length = (length + 4095) / 4096 * 4096;
        if (length > bytes - at)
            length = bytes - at;
        ranges[count++] = (struct mkt_file_range){at, length};
        at += length + random_in(random, 0, widest);
    }
    return count;
}

static void check_ranges(const struct mkt_file_range *ranges, unsigned count, const uint8_t *to,
                         uint64_t seed)
{
    uint64_t end = 0;

    for (unsigned i = 0; i < count; i++) {
        uint64_t at = ranges[i].offset - ranges[0].offset;
        assert_true(is_poison(to + end, at - end));
        assert_true(is_pattern(to + at, ranges[i].offset, ranges[i].length, seed));
        end = at + ranges[i].length;
    }
    assert_true(is_poison(to + end, KIB));
}

static void test_records_ranges_land_at_their_distances(void **state)
{
    static const uint64_t sizes[] = {1, 4096, 5000, 300000, CONTENTS_BYTES};
    struct mkt_file_range ranges[64];
    struct mkt_ssd *ssd = open_medium();
    uint64_t random = 11;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct mkt_ssd_record record;
        put_well(ssd, sizes[i], i, &record);
        for (int round = 0; round < 60; round++) {
            unsigned count = draw_ranges(&random, sizes[i], ranges, 64);
            uint8_t *to =
                buffer + (round % 3 == 0 ? ranges[0].offset % 4096 : random_in(&random, 0, 4096));
            struct mkt_error error = {0};
            memset(buffer, POISON, sizes[i] + 16 * KIB);
            if (medium->read(ssd, &record, ranges, count, to, &error) != MKT_OK)
                fail_msg("%s", error.text);
            check_ranges(ranges, count, to, i);
        }
    }
    medium->close(ssd);
}

static void test_records_wrong_ranges_are_refused(void **state)
{
    static const struct mkt_file_range wrong[][2] = {
        {{0, 10001}, {10001, 0}},  {{10001, 0}, {10001, 0}}, {{UINT64_MAX, 2}, {0, 0}},
        {{1, UINT64_MAX}, {0, 0}}, {{100, 50}, {149, 1}},    {{100, 50}, {20, 10}},
    };
    struct mkt_ssd *ssd = open_medium();
    struct mkt_ssd_record record;

    (void)state;
    put_well(ssd, 10000, 1, &record);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        memset(buffer, POISON, 20000);
        assert_int_equal(medium->read(ssd, &record, wrong[i], 2, buffer, NULL), MKT_INVALID);
        assert_true(is_poison(buffer, 20000));
    }
    assert_int_equal(medium->read(ssd, &record, NULL, 0, buffer, NULL), MKT_OK);
    check_whole(ssd, &record, 1, 0);
    medium->close(ssd);
}

/* ---- life of a record ---- */

static void test_records_stale_handle_is_never_served(void **state)
{
    struct mkt_ssd *ssd = open_medium();
    struct mkt_ssd_record record, other, wrong;
    struct mkt_file_range one = {0, 1};

    (void)state;
    put_well(ssd, 5000, 1, &record);
    for (int i = 0; i < 4; i++) {
        wrong = record;
        wrong.place += i == 0;
        wrong.generation += i == 1;
        wrong.reserved += i == 2;
        wrong.bytes -= i == 3;
        assert_int_equal(medium->read(ssd, &wrong, &one, 1, buffer, NULL), MKT_STALE);
        assert_int_equal(medium->free(ssd, &wrong), MKT_STALE);
        assert_false(medium->is_known(ssd, &wrong));
    }
    assert_true(medium->is_known(ssd, &record));
    assert_int_equal(medium->free(ssd, &record), MKT_OK);
    assert_int_equal(medium->free(ssd, &record), MKT_STALE);
    for (int i = 0; i < 300; i++) { /* its place is used again, several times */
        put_well(ssd, 100000, 2, &other);
        assert_true(record.place != other.place || record.generation != other.generation);
        assert_int_equal(medium->read(ssd, &record, &one, 1, buffer, NULL), MKT_STALE);
        assert_int_equal(medium->write(ssd, &record, buffer, NULL), MKT_STALE);
        assert_int_equal(medium->free(ssd, &other), MKT_OK);
    }
    medium->close(ssd);
}

static void test_records_order_of_calls_is_kept(void **state)
{
    struct mkt_ssd *ssd = open_medium();
    struct mkt_ssd_record record = {0};
    struct mkt_file_range one = {0, 1};

    (void)state;
    assert_int_equal(medium->reserve(ssd, 0, &record), MKT_INVALID);
    assert_int_equal(medium->reserve(ssd, UINT64_MAX, &record), MKT_INVALID);
    assert_int_equal(medium->reserve(ssd, LIMIT_BYTES, &record), MKT_NO_SPACE);
    assert_int_equal(medium->reserve(ssd, 100, &record), MKT_OK);
    assert_int_equal(medium->read(ssd, &record, &one, 1, buffer, NULL), MKT_NOT_FOUND);
    assert_false(medium->is_known(ssd, &record));
    fill_pattern(source, 100, 3);
    assert_int_equal(medium->write(ssd, &record, source, NULL), MKT_OK);
    assert_int_equal(medium->write(ssd, &record, source, NULL), MKT_EXISTS);
    check_whole(ssd, &record, 3, 0);
    medium->close(ssd);
}

static void test_records_full_medium_takes_more_when_freed(void **state)
{
    static struct mkt_ssd_record records[RECORDS_MAX];
    struct mkt_ssd *ssd = open_medium();
    unsigned counts[3];

    (void)state;
    for (int round = 0; round < 3; round++) {
        unsigned count = 0;
        while (count < RECORDS_MAX && put(ssd, 200000, count, &records[count]) == MKT_OK)
            count++;
        counts[round] = count;
        assert_true(count >= 16 * 4 && usage_of(ssd).file_bytes <= LIMIT_BYTES);
        assert_int_equal(usage_of(ssd).records, count);
        for (unsigned i = 0; i < count; i += 7)
            check_whole(ssd, &records[i], i, 0);
        for (unsigned i = 0; i < count; i++)
            assert_int_equal(medium->free(ssd, &records[i]), MKT_OK);
        assert_int_equal(usage_of(ssd).records, 0);
        assert_int_equal(usage_of(ssd).live_bytes, 0);
    }
    assert_int_equal(counts[0], counts[1]);
    assert_int_equal(counts[0], counts[2]);
    medium->tidy(ssd);
    assert_true(usage_of(ssd).file_bytes < LIMIT_BYTES);
    /* A long one finds its space among what short ones left. */
    put_well(ssd, 3 * MIB, 1, &records[0]);
    check_whole(ssd, &records[0], 1, 0);
    medium->close(ssd);
}

struct model {
    struct mkt_ssd_record records[64];
    uint64_t seeds[64];
    unsigned count;
};

static void free_one(struct mkt_ssd *ssd, struct model *model, unsigned at)
{
    assert_int_equal(medium->free(ssd, &model->records[at]), MKT_OK);
    model->count--;
    model->records[at] = model->records[model->count];
    model->seeds[at] = model->seeds[model->count];
}

static void test_records_random_life_matches_a_model(void **state)
{
    struct mkt_ssd *ssd = open_medium();
    struct model model = {.count = 0};
    uint64_t random = 5;

    (void)state;
    for (uint64_t step = 0; step < 600; step++) {
        if (model.count == 64 || (model.count > 0 && random_in(&random, 0, 2) == 0))
            free_one(ssd, &model, (unsigned)random_in(&random, 0, model.count - 1));
        uint64_t bytes = random_in(&random, 1, step % 5 == 0 ? 600000 : 60000);
        if (put(ssd, bytes, step, &model.records[model.count]) == MKT_OK)
            model.seeds[model.count++] = step;
        unsigned at = (unsigned)random_in(&random, 0, model.count - 1);
        check_whole(ssd, &model.records[at], model.seeds[at], step % 4096);
        assert_int_equal(usage_of(ssd).records, model.count);
        if (step % 150 == 149) {
            medium->close(ssd);
            ssd = open_medium();
            assert_int_equal(usage_of(ssd).records >= model.count, 1);
            /* What was freed since may be there again, and is freed by who doesn't know it. */
            struct mkt_ssd_usage usage = usage_of(ssd);
            assert_true(usage.file_bytes <= LIMIT_BYTES + SEGMENT_BYTES);
            for (unsigned i = 0; i < model.count; i++)
                check_whole(ssd, &model.records[i], model.seeds[i], i);
            medium->destroy(ssd);
            ssd = open_medium();
            model.count = 0;
        }
    }
    medium->close(ssd);
}

/* ---- after a restart ---- */

struct list {
    struct mkt_ssd_record records[RECORDS_MAX];
    unsigned count;
};

static void collect(void *context, const struct mkt_ssd_record *record)
{
    struct list *list = context;

    assert_true(list->count < RECORDS_MAX);
    list->records[list->count++] = *record;
}

static bool is_listed(const struct list *list, const struct mkt_ssd_record *record)
{
    for (unsigned i = 0; i < list->count; i++)
        if (memcmp(&list->records[i], record, sizeof(*record)) == 0)
            return true;
    return false;
}

static void test_records_outlive_the_medium(void **state)
{
    static struct list list;
    struct mkt_ssd *ssd = open_medium();
    struct mkt_ssd_record records[40], unwritten, late;

    (void)state;
    for (unsigned i = 0; i < 40; i++)
        put_well(ssd, 1 + i * 7919, i, &records[i]);
    assert_int_equal(medium->reserve(ssd, 9000, &unwritten), MKT_OK);
    for (unsigned round = 0; round < 3; round++) {
        medium->close(ssd);
        ssd = open_medium();
        list.count = 0;
        assert_int_equal(medium->each(ssd, collect, &list), MKT_OK);
        assert_int_equal(list.count, 40 + round);
        for (unsigned i = 0; i < 40; i++) {
            assert_true(medium->is_known(ssd, &records[i]) && is_listed(&list, &records[i]));
            check_whole(ssd, &records[i], i, i);
        }
        assert_false(medium->is_known(ssd, &unwritten));
        put_well(ssd, 50000, round, &late);
        assert_false(is_listed(&list, &late));
    }
    for (unsigned i = 0; i < list.count; i++)
        assert_int_equal(medium->free(ssd, &list.records[i]), MKT_OK);
    assert_int_equal(medium->free(ssd, &late), MKT_OK);
    assert_int_equal(usage_of(ssd).records, 0);
    medium->close(ssd);
    ssd = open_medium();
    assert_int_equal(usage_of(ssd).segments, 0);
    for (unsigned i = 0; i < 40; i++)
        assert_false(medium->is_known(ssd, &records[i]));
    medium->close(ssd);
}

static void test_records_handle_of_a_former_life_is_stale(void **state)
{
    struct mkt_ssd *ssd = open_medium();
    struct mkt_ssd_record old, new;
    struct mkt_file_range one = {0, 1};

    (void)state;
    put_well(ssd, 5000, 1, &old);
    assert_int_equal(medium->free(ssd, &old), MKT_OK);
    medium->close(ssd); /* no file stays */
    ssd = open_medium();
    put_well(ssd, 5000, 2, &new);
    assert_int_equal(medium->read(ssd, &old, &one, 1, buffer, NULL), MKT_STALE);
    check_whole(ssd, &new, 2, 0);
    medium->close(ssd);
}

/* What the files take of the disk. */
static uint64_t disk_bytes(void)
{
    char path[PATH_MAX];
    uint64_t bytes = 0;
    struct dirent *entry;
    struct stat facts;

    snprintf(path, sizeof(path), "%s/%s", folder, TEST_NAME);
    DIR *list = opendir(path);
    assert_non_null(list);
    while ((entry = readdir(list)) != NULL)
        if (strncmp(entry->d_name, "segment-", 8) == 0 &&
            fstatat(dirfd(list), entry->d_name, &facts, 0) == 0)
            bytes += (uint64_t)facts.st_blocks * 512;
    closedir(list);
    return bytes;
}

#define MANY 600

/* Of each segment one record stays: the room of the others serves for new ones. */
static void test_records_freed_room_comes_back_beside_records_that_stay(void **state)
{
    static struct mkt_ssd_record records[MANY], again[MANY];
    static struct list list;
    struct mkt_ssd *ssd = open_medium();
    unsigned count = 0, more = 0, stay = 0, seeds[MANY];

    (void)state;
    while (count < MANY && put(ssd, 120000, count, &records[count]) == MKT_OK)
        count++;
    assert_in_range(count, 20, MANY - 1);
    uint64_t full = disk_bytes(), last = 0;
    for (unsigned i = 0; i < count; i++) {
        bool stays = records[i].place >> 32 != last;
        last = records[i].place >> 32;
        if (!stays)
            assert_int_equal(medium->free(ssd, &records[i]), MKT_OK);
        seeds[stay] = i;
        stay += stays;
    }
    for (unsigned i = 0; i < stay; i++)
        records[i] = records[seeds[i]];
    medium->tidy(ssd);
    assert_int_equal(usage_of(ssd).dead_bytes, 0);
    assert_true(usage_of(ssd).file_bytes < LIMIT_BYTES / 4 && disk_bytes() < full / 4);

    while (more < MANY && put(ssd, 120000, MANY + more, &again[more]) == MKT_OK)
        more++;
    assert_in_range(more, (count - stay) * 3 / 4, count - stay);
    for (int life = 0; life < 2; life++) { /* the next one passes over the holes */
        list.count = 0;
        assert_int_equal(medium->each(ssd, collect, &list), MKT_OK);
        assert_int_equal(list.count, stay + more);
        for (unsigned i = 0; i < stay; i++)
            check_whole(ssd, &records[i], seeds[i], 0);
        for (unsigned i = 0; i < more; i++)
            check_whole(ssd, &again[i], MANY + i, 0);
        medium->close(ssd);
        ssd = open_medium();
    }
    medium->close(ssd);
}

/* ---- the folder ---- */

static void test_records_folder_has_one_holder(void **state)
{
    const char *const folders[] = {folder};
    struct mkt_ssd_options here = {
        .folders = folders, .folders_count = 1, .name = TEST_NAME, .limit_bytes = LIMIT_BYTES};
    struct mkt_ssd *ssd = open_medium(), *second = NULL;
    struct mkt_error error = {0};
    char pid[24];

    (void)state;
    assert_int_equal(medium->open(&here, &second, &error), MKT_BUSY);
    assert_null(second);
    snprintf(pid, sizeof(pid), "process %d ", (int)getpid());
    assert_non_null(strstr(error.text, pid));
    assert_non_null(strstr(error.text, folder));
    medium->close(ssd);
    medium->close(open_medium());
}

static void make_file(const char *name)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/" TEST_NAME "/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0 && write(fd, "mine", 4) == 4);
    close(fd);
}

static void test_records_foreign_files_stay(void **state)
{
    static const char *const names[] = {
        "notes",           "segment-", "segment-1", "segment-0000000G", "segment-00000001.old",
        "SEGMENT-00000001"};
    struct mkt_ssd_record record;
    struct mkt_ssd *ssd = open_medium();
    char path[600];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        make_file(names[i]);
    snprintf(path, sizeof(path), "%s/" TEST_NAME "/segment-000000ff", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    put_well(ssd, 5000, 1, &record);
    medium->close(ssd);
    ssd = open_medium();
    check_whole(ssd, &record, 1, 0);
    medium->destroy(ssd);
    char left[8][32];
    assert_int_equal(list_segments(folder, left, 8), 5); /* the four files, and the folder */
    assert_int_equal(rmdir(path), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/" TEST_NAME "/%s", folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
}

static void test_records_files_are_closed_to_others(void **state)
{
    struct mkt_ssd *ssd = open_medium();
    struct mkt_ssd_record record;
    struct stat facts;
    char path[600], names[4][32];

    (void)state;
    put_well(ssd, 5000, 1, &record);
    snprintf(path, sizeof(path), "%s/" TEST_NAME, folder);
    assert_true(stat(path, &facts) == 0 && (facts.st_mode & 0777) == 0700);
    assert_int_equal(list_segments(folder, names, 4), 1);
    snprintf(path, sizeof(path), "%s/" TEST_NAME "/%s", folder, names[0]);
    assert_true(stat(path, &facts) == 0 && (facts.st_mode & 0777) == 0600);
    medium->destroy(ssd);
    snprintf(path, sizeof(path), "%s/" TEST_NAME, folder);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_records_several_folders_take_turns(void **state)
{
    char other[256];
    const char *const folders[] = {folder, other};
    struct mkt_ssd_options here = options;
    struct mkt_ssd_record records[8];
    struct mkt_ssd *ssd = NULL;
    char names[16][32];

    (void)state;
    make_test_folder(parent, other);
    here.folders = folders;
    here.folders_count = 2;
    here.name = TEST_NAME;
    here.limit_bytes = LIMIT_BYTES;
    here.segment_bytes = SEGMENT_BYTES;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(medium->open(&here, &ssd, NULL), MKT_OK);
        for (unsigned i = 0; i < 8 && round == 0; i++)
            put_well(ssd, 900000, i, &records[i]);
        for (unsigned i = 0; i < 8; i++)
            check_whole(ssd, &records[i], i, 0);
        assert_int_equal(list_segments(folder, names, 16), 4);
        assert_int_equal(list_segments(other, names, 16), 4);
        if (round == 0)
            medium->close(ssd);
    }
    medium->destroy(ssd);
    remove_test_folder(other);
}

/* ---- threads: one owner, and four that write and read what it reserves and frees ---- */

#define JOBS   64
#define ENOUGH 200

enum job_state {
    JOB_NONE,
    JOB_RESERVED,
    JOB_WRITTEN,
    JOB_FREED
};

struct job {
    struct mkt_ssd_record record;
    uint64_t seed;
    int state; /* atomic: the owner makes reserved and freed, a worker written */
};

static struct {
    struct mkt_ssd *ssd;
    struct job jobs[JOBS];
    int stop, bad;
    uint64_t reads, writes;
} shared;

static void write_job(struct job *job, uint8_t *bytes)
{
    fill_pattern(bytes, job->record.bytes, job->seed);
    if (medium->write(shared.ssd, &job->record, bytes, NULL) != MKT_OK)
        __atomic_fetch_add(&shared.bad, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&shared.writes, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&job->state, JOB_WRITTEN, __ATOMIC_RELEASE);
}

/* The owner may free it at any time: then the answer is stale, or still right. */
static void read_job(struct job *job, uint8_t *bytes, uint64_t *random)
{
    struct mkt_ssd_record record = job->record;
    uint64_t seed = job->seed, from = random_in(random, 0, record.bytes - 1);
    struct mkt_file_range range = {from, random_in(random, 1, record.bytes - from)};

    enum mkt_status status = medium->read(shared.ssd, &record, &range, 1, bytes, NULL);
    if (status != MKT_STALE && (status != MKT_OK || !is_pattern(bytes, from, range.length, seed)))
        __atomic_fetch_add(&shared.bad, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&shared.reads, status == MKT_OK, __ATOMIC_RELAXED);
}

/* Each worker writes the jobs of its own, and reads those: nobody else changes them but the owner,
 * after it took the state back. */
static void *work(void *argument)
{
    uint64_t number = (uint64_t)(uintptr_t)argument, random = number + 1;
    uint8_t *bytes = aligned_alloc(4096, 512 * KIB);

    while (!__atomic_load_n(&shared.stop, __ATOMIC_ACQUIRE) && bytes != NULL) {
        struct job *job = &shared.jobs[random_in(&random, 0, JOBS / 4 - 1) * 4 + number];
        int is = __atomic_load_n(&job->state, __ATOMIC_ACQUIRE);
        if (is == JOB_RESERVED)
            write_job(job, bytes);
        else if (is == JOB_WRITTEN || is == JOB_FREED)
            read_job(job, bytes, &random);
        if (is == JOB_FREED)
            __atomic_store_n(&job->state, JOB_NONE, __ATOMIC_RELEASE);
    }
    free(bytes);
    return NULL;
}

/* Until enough has happened, or for so many steps. */
static void own(uint64_t steps)
{
    uint64_t random = 77;

    for (uint64_t step = 0; step < steps; step++) {
        if (__atomic_load_n(&shared.bad, __ATOMIC_RELAXED) > 0 ||
            (__atomic_load_n(&shared.reads, __ATOMIC_RELAXED) > ENOUGH &&
             __atomic_load_n(&shared.writes, __ATOMIC_RELAXED) > ENOUGH))
            return;
        struct job *job = &shared.jobs[random_in(&random, 0, JOBS - 1)];
        int is = __atomic_load_n(&job->state, __ATOMIC_ACQUIRE);
        if (is == JOB_NONE) {
            uint64_t bytes = random_in(&random, 1, step % 4 == 0 ? 400 * KIB : 20000);
            if (medium->reserve(shared.ssd, bytes, &job->record) != MKT_OK)
                continue;
            job->seed = step;
            __atomic_store_n(&job->state, JOB_RESERVED, __ATOMIC_RELEASE);
        } else if (is == JOB_WRITTEN && random_in(&random, 0, 1) == 0) {
            assert_int_equal(medium->free(shared.ssd, &job->record), MKT_OK);
            __atomic_store_n(&job->state, JOB_FREED, __ATOMIC_RELEASE);
        }
        usleep(100);
    }
}

static void test_records_threads_write_and_read_beside_the_owner(void **state)
{
    pthread_t threads[4];

    (void)state;
    memset(&shared, 0, sizeof(shared));
    shared.ssd = open_medium();
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    own(200000);
    __atomic_store_n(&shared.stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.bad, 0);
    assert_true(shared.reads > ENOUGH && shared.writes > ENOUGH);
    for (int i = 0; i < JOBS; i++)
        if (shared.jobs[i].state == JOB_RESERVED || shared.jobs[i].state == JOB_WRITTEN)
            assert_int_equal(medium->free(shared.ssd, &shared.jobs[i].record), MKT_OK);
    assert_int_equal(usage_of(shared.ssd).records, 0);
    assert_int_equal(usage_of(shared.ssd).live_bytes, 0);
    medium->close(shared.ssd);
}

static struct mkt_ssd_record contended;

static void *read_until_stale(void *argument)
{
    uint8_t *bytes = aligned_alloc(4096, MIB);
    struct mkt_file_range all = {0, contended.bytes};
    enum mkt_status status;

    (void)argument;
    while ((status = medium->read(shared.ssd, &contended, &all, 1, bytes, NULL)) == MKT_OK)
        if (!is_pattern(bytes, 0, 4096, 9))
            __atomic_fetch_add(&shared.bad, 1, __ATOMIC_RELAXED);
    if (status != MKT_STALE)
        __atomic_fetch_add(&shared.bad, 1, __ATOMIC_RELAXED);
    free(bytes);
    return NULL;
}

static void test_records_freed_while_read_is_right_or_stale(void **state)
{
    pthread_t threads[4];
    struct mkt_ssd_record next;

    (void)state;
    memset(&shared, 0, sizeof(shared));
    shared.ssd = open_medium();
    for (int round = 0; round < 5; round++) {
        put_well(shared.ssd, 900000, 9, &contended);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_until_stale, NULL), 0);
        usleep(5000);
        assert_int_equal(medium->free(shared.ssd, &contended), MKT_OK);
        put_well(shared.ssd, 900000, 10, &next); /* into the place that comes free, if it can */
        assert_int_equal(medium->free(shared.ssd, &next), MKT_OK);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(shared.bad, 0);
        assert_int_equal(usage_of(shared.ssd).records, 0);
    }
    medium->close(shared.ssd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int record_suite_run(const char *name, const struct record_medium *ops, const char *in,
                     const struct mkt_ssd_options *wanted)
{
    const struct CMUnitTest tests[] = {
        TEST(test_records_of_any_size_and_place_round_trip),
        TEST(test_records_ranges_land_at_their_distances),
        TEST(test_records_wrong_ranges_are_refused),
        TEST(test_records_stale_handle_is_never_served),
        TEST(test_records_order_of_calls_is_kept),
        TEST(test_records_full_medium_takes_more_when_freed),
        TEST(test_records_random_life_matches_a_model),
        TEST(test_records_outlive_the_medium),
        TEST(test_records_handle_of_a_former_life_is_stale),
        TEST(test_records_freed_room_comes_back_beside_records_that_stay),
        TEST(test_records_folder_has_one_holder),
        TEST(test_records_foreign_files_stay),
        TEST(test_records_files_are_closed_to_others),
        TEST(test_records_several_folders_take_turns),
        TEST(test_records_threads_write_and_read_beside_the_owner),
        TEST(test_records_freed_while_read_is_right_or_stale),
    };

    medium = ops;
    parent = in;
    options = *wanted;
    buffer = aligned_alloc(4096, BUFFER_BYTES);
    source = aligned_alloc(4096, BUFFER_BYTES);
    if (buffer == NULL || source == NULL)
        return 1;
    int failed = _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL);
    free(buffer);
    free(source);
    return failed;
}
