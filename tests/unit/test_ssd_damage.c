/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segment files that somebody or something has changed: what is left must be found, and right; what
 * was hit is gone or an error; nothing crashes. And folders that can't be used.
 */
#include "media/ssd.h"
#include "media/ssd_layout.h"
#include "tests/unit/ssd_folder.h"
#include "transport/crc32c.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <cmocka.h>

#define KIB         ((uint64_t)1 << 10)
#define MIB         ((uint64_t)1 << 20)
#define BLOCK       ((uint64_t)MKT_SSD_BLOCK_BYTES)
#define POISON      0xd7
#define RECORDS     12
#define FILES_MAX   16
#define BYTES_MAX   (4 * MIB)
#define SKIP_STATUS 77

static char folder[256];
static uint8_t *buffer;

/* What was written, and the files as they were then. */
static struct mkt_ssd_record records[RECORDS];
static struct {
    char name[32];
    uint8_t *bytes;
    uint64_t size;
} files[FILES_MAX];
static unsigned files_count;

/* ---- helpers ---- */

static enum mkt_status try_open(const char *path, struct mkt_ssd **ssd_out, struct mkt_error *error)
{
    const char *const folders[] = {path};
    struct mkt_ssd_options options = {
        .folders = folders,
        .folders_count = 1,
        .name = TEST_NAME,
        .limit_bytes = 64 * MIB,
        .segment_bytes = 512 * KIB,
    };

    return mkt_ssd_open(&options, ssd_out, error);
}

static struct mkt_ssd *open_medium(void)
{
    struct mkt_ssd *ssd = NULL;
    struct mkt_error error = {0};

    if (try_open(folder, &ssd, &error) != MKT_OK)
        fail_msg("%s", error.text);
    return ssd;
}

static enum mkt_status put(struct mkt_ssd *ssd, uint64_t bytes, uint64_t seed,
                           struct mkt_ssd_record *record_out, struct mkt_error *error)
{
    enum mkt_status status = mkt_ssd_reserve(ssd, bytes, record_out);

    if (status != MKT_OK)
        return status;
    fill_pattern(buffer, bytes, seed);
    return mkt_ssd_write(ssd, record_out, buffer, error);
}

/* OK only if the bytes are right: wrong ones fail the test. */
static enum mkt_status read_whole(struct mkt_ssd *ssd, const struct mkt_ssd_record *record,
                                  uint64_t seed)
{
    struct mkt_file_range all = {0, record->bytes};

    memset(buffer, POISON, record->bytes);
    enum mkt_status status = mkt_ssd_read(ssd, record, &all, 1, buffer, NULL);
    if (status == MKT_OK)
        assert_true(is_pattern(buffer, 0, record->bytes, seed));
    return status;
}

static void file_path(const char *name, char path[600])
{
    snprintf(path, 600, "%.250s/" TEST_NAME "/%.32s", folder, name);
}

static void keep_files(void)
{
    char names[FILES_MAX][32], path[600];

    files_count = list_segments(folder, names, FILES_MAX);
    for (unsigned i = 0; i < files_count; i++) {
        struct stat facts;
        file_path(names[i], path);
        int fd = open(path, O_RDONLY);
        assert_true(fd >= 0 && fstat(fd, &facts) == 0);
        memcpy(files[i].name, names[i], sizeof(files[i].name));
        files[i].size = (uint64_t)facts.st_size;
        files[i].bytes = malloc(files[i].size);
        assert_int_equal(read(fd, files[i].bytes, files[i].size), files[i].size);
        close(fd);
    }
}

static void restore_files(void)
{
    char names[FILES_MAX][32], path[600];
    unsigned count = list_segments(folder, names, FILES_MAX);

    for (unsigned i = 0; i < count; i++) {
        file_path(names[i], path);
        unlink(path);
    }
    for (unsigned i = 0; i < files_count; i++) {
        file_path(files[i].name, path);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, files[i].bytes, files[i].size), files[i].size);
        close(fd);
    }
}

static void change(const char *name, uint64_t at, uint8_t bits)
{
    uint8_t byte = 0;
    char path[600];

    file_path(name, path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, (off_t)at) == 1);
    byte ^= bits;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

/* The name of the file and the offset in it where a record starts. */
static uint64_t place_of(const struct mkt_ssd_record *record, char name[32])
{
    snprintf(name, 32, "segment-%08x", (unsigned)(record->place >> 32));
    return (record->place & UINT32_MAX) * BLOCK;
}

static uint64_t header_bytes(uint64_t bytes)
{
    uint64_t blocks = (bytes + BLOCK - 1) / BLOCK;

    return (sizeof(struct mkt_ssd_record_disk) + 4 * blocks + BLOCK - 1) / BLOCK * BLOCK;
}

static uint64_t end_of(const struct mkt_ssd_record *record)
{
    char name[32];

    return place_of(record, name) + header_bytes(record->bytes) +
           (record->bytes + BLOCK - 1) / BLOCK * BLOCK;
}

static int set_up(void **state)
{
    static const uint64_t sizes[RECORDS] = {1,    4096,  4097,  100000, 262144, 50000,
                                            5000, 70000, 60000, 9,      300001, 900000};

    (void)state;
    make_test_folder(NULL, folder);
    struct mkt_ssd *ssd = open_medium();
    for (unsigned i = 0; i < RECORDS; i++)
        assert_int_equal(put(ssd, sizes[i], i, &records[i], NULL), MKT_OK);
    mkt_ssd_close(ssd);
    keep_files();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < files_count; i++)
        free(files[i].bytes);
    remove_test_folder(folder);
    return 0;
}

/* ---- torn ends ---- */

static void check_cut(unsigned cut_record, uint64_t at)
{
    char cut_name[32], name[32], path[600];

    restore_files();
    place_of(&records[cut_record], cut_name);
    file_path(cut_name, path);
    assert_int_equal(truncate(path, (off_t)at), 0);
    struct mkt_ssd *ssd = open_medium();
    for (unsigned i = 0; i < RECORDS; i++) {
        place_of(&records[i], name);
        bool is_hit = strcmp(name, cut_name) == 0 && end_of(&records[i]) > at;
        assert_int_equal(mkt_ssd_is_known(ssd, &records[i]), !is_hit);
        assert_int_equal(read_whole(ssd, &records[i], i), is_hit ? MKT_STALE : MKT_OK);
    }
    mkt_ssd_close(ssd);
}

static void test_ssd_cut_file_keeps_what_is_before_the_cut(void **state)
{
    char name[32];

    (void)state;
    for (unsigned i = 0; i < RECORDS; i++) {
        uint64_t start = place_of(&records[i], name), data = start + header_bytes(records[i].bytes);
        const uint64_t places[] = {
            start,         start + 1, start + 47, start + 48, start + 100,
            start + BLOCK, data - 1,  data,       data + 1,   end_of(&records[i]) - 1};
        for (size_t j = 0; j < sizeof(places) / sizeof(places[0]); j++)
            check_cut(i, places[j]);
    }
    check_cut(0, 0);
    check_cut(0, 10);
}

/* ---- flipped bits ---- */

/* Flips a bit of record `hit`; the others must stay right. `is_known` and `status`: of the hit one.
 */
static void check_flip(unsigned hit, uint64_t at, bool is_known, enum mkt_status status)
{
    char name[32];

    restore_files();
    place_of(&records[hit], name);
    change(name, at, 0x10);
    struct mkt_ssd *ssd = open_medium();
    for (unsigned i = 0; i < RECORDS; i++) {
        assert_int_equal(mkt_ssd_is_known(ssd, &records[i]), i != hit || is_known);
        assert_int_equal(read_whole(ssd, &records[i], i), i == hit ? status : MKT_OK);
    }
    if (status == MKT_CORRUPT) { /* it stays retired, though its bytes are well again */
        change(name, at, 0x10);
        assert_int_equal(read_whole(ssd, &records[hit], hit), MKT_CORRUPT);
        assert_false(mkt_ssd_is_known(ssd, &records[hit]));
        assert_int_equal(mkt_ssd_free(ssd, &records[hit]), MKT_OK);
        assert_int_equal(read_whole(ssd, &records[hit], hit), MKT_STALE);
    }
    mkt_ssd_close(ssd);
}

static void test_ssd_flipped_bit_costs_its_record_alone(void **state)
{
    char name[32];

    (void)state;
    for (unsigned i = 0; i < RECORDS; i++) {
        uint64_t bytes = records[i].bytes, start = place_of(&records[i], name);
        uint64_t blocks = (bytes + BLOCK - 1) / BLOCK, data = start + header_bytes(bytes);
        uint64_t table = start + sizeof(struct mkt_ssd_record_disk);
        for (uint64_t at = start; at < table; at += 3)
            check_flip(i, at, false, MKT_STALE);
        check_flip(i, table, false, MKT_STALE);
        check_flip(i, table + 4 * blocks - 1, false, MKT_STALE);
        check_flip(i, data, true, MKT_CORRUPT);
        check_flip(i, data + bytes / 2, true, MKT_CORRUPT);
        check_flip(i, data + bytes - 1, true, MKT_CORRUPT);
        if (table + 4 * blocks < data)
            check_flip(i, table + 4 * blocks, true, MKT_OK); /* filling */
    }
}

static void test_ssd_damaged_block_spares_parts_beside_it(void **state)
{
    const unsigned hit = 4;
    struct mkt_file_range part = {0, 8192}, hit_part = {100000, 10};
    char name[32];

    (void)state;
    restore_files();
    uint64_t data = place_of(&records[hit], name) + header_bytes(records[hit].bytes);
    change(name, data + 100005, 1);
    struct mkt_ssd *ssd = open_medium();
    assert_int_equal(mkt_ssd_read(ssd, &records[hit], &part, 1, buffer, NULL), MKT_OK);
    assert_true(is_pattern(buffer, 0, part.length, hit));
    assert_int_equal(mkt_ssd_read(ssd, &records[hit], &hit_part, 1, buffer, NULL), MKT_CORRUPT);
    assert_int_equal(mkt_ssd_read(ssd, &records[hit], &part, 1, buffer, NULL), MKT_CORRUPT);
    mkt_ssd_close(ssd);
}

static void test_ssd_damaged_segment_header_costs_the_segment(void **state)
{
    char hit[32], name[32], path[600];

    (void)state;
    place_of(&records[0], hit);
    for (uint64_t at = 0; at < sizeof(struct mkt_ssd_segment_disk); at++) {
        restore_files();
        change(hit, at, 1);
        struct mkt_ssd *ssd = open_medium();
        for (unsigned i = 0; i < RECORDS; i++) {
            place_of(&records[i], name);
            assert_int_equal(read_whole(ssd, &records[i], i),
                             strcmp(name, hit) == 0 ? MKT_STALE : MKT_OK);
        }
        mkt_ssd_close(ssd);
        file_path(hit, path);
        assert_int_equal(access(path, F_OK), -1);
    }
}

static void test_ssd_segment_of_another_layout_is_left_alone(void **state)
{
    struct mkt_ssd_segment_disk header;
    char name[32], path[600];

    (void)state;
    place_of(&records[0], name);
    file_path(name, path);
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
    header.version++;
    header.crc = 0;
    header.crc = mkt_crc32c(0, &header, sizeof(header));
    assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
    close(fd);
    struct mkt_ssd *ssd = open_medium();
    assert_int_equal(read_whole(ssd, &records[0], 0), MKT_STALE);
    mkt_ssd_close(ssd);
    assert_int_equal(access(path, F_OK), 0);
}

/* ---- damage at random ---- */

static void overwrite(int fd, uint64_t *random, uint64_t size)
{
    uint64_t at = random_in(random, 0, size - 1);
    uint64_t length = random_in(random, 1, random_in(random, 0, 1) ? 16 : 20000);
    uint64_t from = random_in(random, 0, size / BLOCK) * BLOCK;
    int kind = (int)random_in(random, 0, 4);

    if (length > size - at)
        length = size - at;
    memset(buffer, kind == 0 ? 0 : 0xff, length);
    for (uint64_t i = 0; kind == 1 && i < length; i++)
        buffer[i] = (uint8_t)random_next(random);
    if (kind == 2) { /* blocks of another place: whole headers among them */
        at = at / BLOCK * BLOCK;
        length = random_in(random, 1, 8) * BLOCK;
        ssize_t count = pread(fd, buffer, length, (off_t)from);
        length = count > 0 ? (uint64_t)count : 0;
    }
    assert_int_equal(pwrite(fd, buffer, length, (off_t)at), length);
}

static void damage(uint64_t *random)
{
    for (uint64_t times = random_in(random, 1, 5); times > 0; times--) {
        unsigned which = (unsigned)random_in(random, 0, files_count - 1);
        char path[600], other[600];
        struct stat facts;
        file_path(files[which].name, path);
        int fd = open(path, O_RDWR);
        if (fd < 0 || fstat(fd, &facts) != 0 || facts.st_size == 0) {
            if (fd >= 0)
                close(fd);
            continue;
        }
        uint64_t size = (uint64_t)facts.st_size, kind = random_in(random, 0, 9);
        if (kind == 0)
            assert_int_equal(ftruncate(fd, (off_t)random_in(random, 0, size + 9999)), 0);
        else if (kind < 9)
            overwrite(fd, random, size);
        close(fd);
        if (kind == 9) {
            file_path(files[random_in(random, 0, files_count - 1)].name, other);
            assert_int_equal(rename(path, other), 0);
        }
    }
}

static void check_listed(void *context, const struct mkt_ssd_record *record)
{
    unsigned *listed = context;

    ++*listed;
    for (unsigned i = 0; i < RECORDS; i++)
        if (memcmp(&records[i], record, sizeof(*record)) == 0)
            return;
    fail_msg("a record appeared that was never written");
}

static void test_ssd_random_damage_never_gives_wrong_bytes(void **state)
{
    uint64_t random = 3, right = 0, corrupt = 0, gone = 0;

    (void)state;
    for (int round = 0; round < 250; round++) {
        unsigned listed = 0;
        struct mkt_ssd_record late;
        restore_files();
        damage(&random);
        struct mkt_ssd *ssd = open_medium();
        assert_int_equal(mkt_ssd_each(ssd, check_listed, &listed), MKT_OK);
        for (unsigned i = 0; i < RECORDS; i++) {
            enum mkt_status status = read_whole(ssd, &records[i], i);
            assert_true(status == MKT_OK || status == MKT_CORRUPT || status == MKT_STALE);
            right += status == MKT_OK;
            corrupt += status == MKT_CORRUPT;
            gone += status == MKT_STALE;
        }
        assert_int_equal(put(ssd, 30000, 99, &late, NULL), MKT_OK);
        assert_int_equal(read_whole(ssd, &late, 99), MKT_OK);
        mkt_ssd_close(ssd);
    }
    assert_true(right > 1000 && corrupt > 20 && gone > 20);
}

/* ---- what only looks like a record ---- */

static void test_ssd_header_in_users_data_is_no_record(void **state)
{
    char name[32], path[600];
    struct mkt_ssd_record copy;
    unsigned listed = 0;

    (void)state;
    /* A record holds a copy of the first segment, headers and all, at whole blocks; its own header
     * is damaged, so that the scan goes through it. */
    struct mkt_ssd *ssd = open_medium();
    place_of(&records[0], name);
    unsigned which = 0;
    while (strcmp(files[which].name, name) != 0)
        which++;
    assert_int_equal(mkt_ssd_reserve(ssd, files[which].size, &copy), MKT_OK);
    assert_int_equal(mkt_ssd_write(ssd, &copy, files[which].bytes, NULL), MKT_OK);
    mkt_ssd_close(ssd);
    uint64_t at = place_of(&copy, name);
    change(name, at, 1);
    ssd = open_medium();
    assert_int_equal(mkt_ssd_each(ssd, check_listed, &listed), MKT_OK);
    assert_int_equal(listed, RECORDS);
    mkt_ssd_close(ssd);
    file_path(name, path);
    assert_int_equal(access(path, F_OK), -1); /* nothing else was in it */
}

/* A record that holds the bytes of a segment file, from its start or (at_home) from where the data
 * comes to lie in its own segment; then its header is damaged. */
static void hide_record(struct mkt_ssd *ssd, const uint8_t *bytes, uint64_t size, bool at_home)
{
    struct mkt_ssd_record outer;
    char name[32];

    assert_int_equal(mkt_ssd_reserve(ssd, size, &outer), MKT_OK);
    uint64_t at = place_of(&outer, name);
    if (at_home)
        bytes += at + header_bytes(size);
    assert_int_equal(mkt_ssd_write(ssd, &outer, bytes, NULL), MKT_OK);
    mkt_ssd_close(ssd);
    change(name, at, 1);
}

static void test_ssd_copy_of_a_segment_inside_it_is_no_record(void **state)
{
    struct mkt_ssd_record inner;
    char name[32], path[600];
    unsigned listed = 0;

    (void)state;
    struct mkt_ssd *ssd = open_medium();
    assert_int_equal(put(ssd, 5000, 1, &inner, NULL), MKT_OK);
    place_of(&inner, name);
    file_path(name, path);
    int fd = open(path, O_RDONLY);
    uint8_t *bytes = calloc(1, 100000);
    assert_int_equal(read(fd, bytes, 40000), 40000);
    close(fd);
    hide_record(ssd, bytes, 60000, false); /* in the same segment, at another place */
    free(bytes);
    ssd = open_medium();
    assert_int_equal(mkt_ssd_free(ssd, &inner), MKT_OK);
    assert_int_equal(mkt_ssd_each(ssd, check_listed, &listed), MKT_OK);
    assert_int_equal(listed, RECORDS);
    mkt_ssd_close(ssd);
}

static void test_ssd_former_segment_at_its_old_place_is_no_record(void **state)
{
    struct mkt_ssd *ssd = open_medium();
    struct mkt_ssd_usage usage;
    char name[32];
    unsigned which = 0;

    (void)state;
    place_of(&records[0], name);
    while (strcmp(files[which].name, name) != 0)
        which++;
    mkt_ssd_destroy(ssd); /* ids start anew */
    ssd = open_medium();
    uint8_t *bytes = calloc(2, files[which].size);
    memcpy(bytes, files[which].bytes, files[which].size);
    hide_record(ssd, bytes, files[which].size - 20 * BLOCK, true);
    free(bytes);
    ssd = open_medium();
    mkt_ssd_usage(ssd, &usage);
    assert_int_equal(usage.records, 0);
    mkt_ssd_close(ssd);
}

static void test_ssd_reused_file_shows_none_of_its_former_records(void **state)
{
    struct mkt_ssd_record many[4], whole, last;
    unsigned listed = 0;

    (void)state;
    struct mkt_ssd *ssd = open_medium();
    for (int i = 0; i < 4; i++)
        assert_int_equal(put(ssd, 100000, (uint64_t)i, &many[i], NULL), MKT_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(mkt_ssd_free(ssd, &many[i]), MKT_OK);
    assert_int_equal(put(ssd, 450000, 1, &whole, NULL), MKT_OK); /* needs a whole segment */
    assert_int_equal(mkt_ssd_free(ssd, &whole), MKT_OK);
    assert_int_equal(put(ssd, 5000, 7, &last, NULL), MKT_OK);
    mkt_ssd_close(ssd);
    ssd = open_medium();
    for (int i = 0; i < 4; i++)
        assert_false(mkt_ssd_is_known(ssd, &many[i]));
    assert_int_equal(read_whole(ssd, &last, 7), MKT_OK);
    assert_int_equal(mkt_ssd_free(ssd, &last), MKT_OK);
    (void)mkt_ssd_free(ssd, &whole); /* of the file's last life; there where holes can't be */
    assert_int_equal(mkt_ssd_each(ssd, check_listed, &listed), MKT_OK);
    assert_int_equal(listed, RECORDS);
    mkt_ssd_close(ssd);
}

/* ---- while it is open ---- */

static void test_ssd_file_cut_while_open_is_corrupt(void **state)
{
    char name[32], path[600];

    (void)state;
    struct mkt_ssd *ssd = open_medium();
    uint64_t start = place_of(&records[3], name);
    file_path(name, path);
    assert_int_equal(truncate(path, (off_t)(start + 3 * BLOCK)), 0);
    assert_int_equal(read_whole(ssd, &records[3], 3), MKT_CORRUPT);
    assert_int_equal(read_whole(ssd, &records[0], 0), MKT_OK);
    mkt_ssd_close(ssd);
}

static void test_ssd_lost_lock_file_keeps_records(void **state)
{
    char path[600];
    struct mkt_ssd_record late;

    (void)state;
    file_path("lock", path);
    assert_int_equal(unlink(path), 0);
    struct mkt_ssd *ssd = open_medium();
    for (unsigned i = 0; i < RECORDS; i++)
        assert_int_equal(read_whole(ssd, &records[i], i), MKT_OK);
    assert_int_equal(put(ssd, 100, 1, &late, NULL), MKT_OK);
    for (unsigned i = 0; i < RECORDS; i++)
        assert_true(late.generation > records[i].generation);
    mkt_ssd_close(ssd);
}

/* ---- folders that can't be used ---- */

static void test_ssd_unusable_folder_is_named(void **state)
{
    struct mkt_error error = {0};
    struct mkt_ssd *ssd = NULL;
    char path[600];

    (void)state;
    snprintf(path, sizeof(path), "%s/none/none", folder);
    assert_int_equal(try_open(path, &ssd, &error), MKT_NOT_FOUND);
    assert_non_null(strstr(error.text, path));
    snprintf(path, sizeof(path), "%s/" TEST_NAME, folder);
    assert_int_equal(chmod(path, 0750), 0);
    assert_int_equal(try_open(folder, &ssd, &error), MKT_DENIED);
    assert_non_null(strstr(error.text, "chmod 0700"));
    assert_int_equal(chmod(path, 0700), 0);
    file_path(files[0].name, path);
    assert_int_equal(try_open(path, &ssd, &error), MKT_INVALID); /* a file */
    assert_null(ssd);
}

/* Runs `what` in a child with mounts of its own; false: that isn't allowed here. */
static bool run_with_mounts(int (*what)(void))
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
            _exit(SKIP_STATUS);
        _exit(what());
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIP_STATUS)
        return false;
    assert_int_equal(WEXITSTATUS(status), 0);
    return true;
}

/* The line that failed, or 0. */
static int use_small_disk(void)
{
    struct mkt_ssd *ssd = NULL;
    struct mkt_ssd_record kept[64], one;
    struct mkt_error error = {0};
    unsigned count = 0;
    enum mkt_status status = MKT_OK;

    if (mount("none", folder, "tmpfs", 0, "size=4m") != 0)
        return SKIP_STATUS;
    if (try_open(folder, &ssd, &error) != MKT_OK)
        return 1;
    while (count < 64 && (status = put(ssd, 200000, count, &kept[count], &error)) == MKT_OK)
        count++;
    if (status != MKT_NO_SPACE || strstr(error.text, folder) == NULL)
        return 2;
    if (count < 10) /* of 4 MiB, in segments of 512 KiB */
        return 3;
    for (unsigned i = 0; i < count; i++)
        if (read_whole(ssd, &kept[i], i) != MKT_OK)
            return 4;
    struct mkt_ssd_usage usage;
    mkt_ssd_usage(ssd, &usage);
    if (usage.records != count || usage.file_bytes > 4 * MIB)
        return 5;
    for (unsigned i = 0; i < count; i++)
        if (mkt_ssd_free(ssd, &kept[i]) != MKT_OK)
            return 6;
    /* What is kept for later goes when one long record needs it. */
    if (put(ssd, 3 * MIB, 1, &one, &error) != MKT_OK || read_whole(ssd, &one, 1) != MKT_OK)
        return 7;
    mkt_ssd_close(ssd);
    umount(folder);
    return 0;
}

static void test_ssd_full_disk_is_no_space_and_goes_on(void **state)
{
    (void)state;
    if (!run_with_mounts(use_small_disk))
        skip();
}

static int use_read_only_disk(void)
{
    struct mkt_ssd *ssd = NULL;
    struct mkt_error error = {0};

    if (mount("none", folder, "tmpfs", MS_RDONLY, "size=1m") != 0)
        return SKIP_STATUS;
    enum mkt_status status = try_open(folder, &ssd, &error);
    umount(folder);
    return status == MKT_DENIED && strstr(error.text, folder) != NULL ? 0 : 1;
}

static void test_ssd_read_only_folder_is_denied(void **state)
{
    (void)state;
    if (!run_with_mounts(use_read_only_disk))
        skip();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ssd_cut_file_keeps_what_is_before_the_cut),
        TEST(test_ssd_flipped_bit_costs_its_record_alone),
        TEST(test_ssd_damaged_block_spares_parts_beside_it),
        TEST(test_ssd_damaged_segment_header_costs_the_segment),
        TEST(test_ssd_segment_of_another_layout_is_left_alone),
        TEST(test_ssd_random_damage_never_gives_wrong_bytes),
        TEST(test_ssd_header_in_users_data_is_no_record),
        TEST(test_ssd_copy_of_a_segment_inside_it_is_no_record),
        TEST(test_ssd_former_segment_at_its_old_place_is_no_record),
        TEST(test_ssd_reused_file_shows_none_of_its_former_records),
        TEST(test_ssd_file_cut_while_open_is_corrupt),
        TEST(test_ssd_lost_lock_file_keeps_records),
        TEST(test_ssd_unusable_folder_is_named),
        TEST(test_ssd_full_disk_is_no_space_and_goes_on),
        TEST(test_ssd_read_only_folder_is_denied),
    };

    buffer = aligned_alloc(4096, BYTES_MAX);
    if (buffer == NULL)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(buffer);
    return failed;
}
