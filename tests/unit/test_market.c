/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the market answers, message by message. The order of things that nobody foresees is
 * tests/sim's.
 */
#include "tests/unit/market_shell.h"

static const struct mkt_array array1 = {.identity = 1, .element_bytes = 8, .rank = 1, .dims = {64}};

/* A piece of 8 elements of array 1 from `from` on. */
static void add(uint64_t session, uint64_t file, uint64_t from, struct mkt_extent data,
                bool acknowledge)
{
    uint8_t record[MKT_PIECE_RECORD_MAX_BYTES];
    struct mkt_piece piece = {.form = MKT_PIECE_BOX, .data = data};
    const uint64_t count = 8;
    struct mkt_msg msg = {.type = MKT_MSG_ADD};

    piece.data.length = 64;
    mkt_slab_box(&piece.slab, 1, &from, &count);
    mkt_piece_encode(&piece, record);
    msg.add.file = file;
    msg.add.acknowledge = acknowledge;
    msg.add.array = array1;
    msg.add.count = 1;
    msg.add.records = (struct mkt_bytes){record, mkt_piece_record_bytes(&piece)};
    say(session, msg);
}

static struct mkt_msg commit_msg(uint64_t file, struct mkt_extent image)
{
    struct mkt_msg msg = {.type = MKT_MSG_COMMIT};
    static uint8_t record[512];

    mkt_array_record_encode(&array1, record);
    msg.commit.file = file;
    msg.commit.hash = 7;
    msg.commit.image = image;
    msg.commit.count = 1;
    msg.commit.arrays = (struct mkt_bytes){record, (uint32_t)mkt_array_record_bytes(&array1)};
    return msg;
}

/* Writes one version by one process. */
static uint64_t publish(uint64_t session, struct mkt_msg open)
{
    say(session, open);
    struct mkt_msg_opened file = opened(session);
    add(session, file.file, 0, granted(session, 64), false);
    say(session, commit_msg(file.file, granted(session, 128)));
    if (file.scratch.length > 0)
        say(session, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &file.scratch}});
    return take(session, MKT_MSG_COMMITTED).msg.version.version;
}

static void close_file(uint64_t session, uint64_t file)
{
    say(session, (struct mkt_msg){.type = MKT_MSG_CLOSE, .file = {.file = file}});
}

/* ---- tests ---- */

static void test_version_published_is_read(void **state)
{
    struct mkt_index_view view;

    (void)state;
    assert_int_equal(publish(1, open_msg("a.h5", MKT_INTENT_CREATE)), 1);
    say(2, open_msg("a.h5", MKT_INTENT_READ));
    struct mkt_msg_opened read = opened(2);
    assert_int_equal(read.source, MKT_SOURCE_VERSION);
    assert_int_equal(read.version, 1);
    assert_int_equal(read.image.length, 128);
    assert_int_equal(mkt_index_view_open(&view,
                                         shell.arena[read.index.arena - 1] + read.index.offset,
                                         read.index.length),
                     MKT_OK);
    assert_int_equal(view.arrays, 1);
    assert_int_equal(mkt_index_view_pieces(&view, 0), 1);
    close_file(2, read.file);
    say(1, (struct mkt_msg){.type = MKT_MSG_WITHDRAW, .withdraw = {open_msg("a.h5", 1).open.name}});
    assert_int_equal(take(1, MKT_MSG_WITHDRAWN).msg.count.versions, 1);
    assert_int_equal(used(), 0);
    assert_int_equal(shell.dropped_stubs, 0);
}

static struct mkt_msg_opened open_ok(uint64_t session, struct mkt_msg msg)
{
    say(session, msg);
    return opened(session);
}

static void withdraw(uint64_t session, struct mkt_msg name)
{
    struct mkt_msg msg = {.type = MKT_MSG_WITHDRAW};

    msg.withdraw.name = name.open.name;
    say(session, msg);
}

/* A commit with an image, as rank 0 sends it. */
static void commit(uint64_t session, uint64_t file)
{
    say(session, commit_msg(file, granted(session, 128)));
}

static void commit_without_image(uint64_t session, uint64_t file)
{
    struct mkt_msg msg = commit_msg(file, (struct mkt_extent){0});

    msg.commit.count = 0;
    msg.commit.arrays.length = 0;
    say(session, msg);
}

static uint64_t committed(uint64_t session)
{
    return take(session, MKT_MSG_COMMITTED).msg.version.version;
}

static struct mkt_msg waiting(struct mkt_msg msg, uint32_t wait_ms, uint32_t writer_timeout_ms)
{
    msg.open.wait_ms = wait_ms;
    msg.open.writer_timeout_ms = writer_timeout_ms;
    return msg;
}

static struct mkt_msg kept(struct mkt_msg msg, uint32_t keep, const char *set)
{
    msg.open.keep = keep;
    msg.open.set = text(set);
    return msg;
}

static struct mkt_msg version_of(struct mkt_msg msg, uint64_t version)
{
    msg.open.version = version;
    return msg;
}

static struct mkt_msg file_msg(enum mkt_intent intent, uint64_t size)
{
    struct mkt_msg msg = open_msg("real.h5", intent);

    msg.open.name.file.dev = 1;
    msg.open.name.file.ino = 77;
    msg.open.name.file.size = size;
    msg.open.name.file.mtime_ns = 5;
    return msg;
}

/* Both ranks of a group have it open for writing. */
static uint64_t open_pair(const char *leaf, uint8_t token)
{
    say(1, in_group(open_msg(leaf, MKT_INTENT_CREATE), token, 0, 2));
    say(2, in_group(open_msg("", MKT_INTENT_CREATE), token, 1, 2));
    struct mkt_msg_opened a = opened(1), b = opened(2);
    assert_true(a.file == b.file && a.file != 0);
    assert_true(a.scratch.length > 0 && b.scratch.length > 0);
    assert_int_not_equal(a.scratch.offset, b.scratch.offset);
    say(1, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &a.scratch}});
    say(2, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &b.scratch}});
    return a.file;
}

static void end(uint64_t session)
{
    mkt_market_session_end(shell.market, session, shell.now);
    audit();
}

static void reclaim(uint64_t session)
{
    mkt_market_session_reclaim(shell.market, session, shell.now);
    audit();
}

/* ---- who may open what ---- */

static void test_open_written_by_another_is_busy(void **state)
{
    (void)state;
    open_ok(1, open_msg("a.h5", MKT_INTENT_CREATE));
    say(2, open_msg("a.h5", MKT_INTENT_CREATE));
    take_error(2, MKT_BUSY, "'a.h5' is open for writing in prog (pid 101)");
    say(2, open_msg("a.h5", MKT_INTENT_READ_WRITE));
    take_error(2, MKT_BUSY, "pid 101");
    say(2, open_msg("a.h5", MKT_INTENT_CREATE_EXCL));
    take_error(2, MKT_EXISTS, "a.h5");
}

static void test_open_nothing_there_is_not_found_at_once(void **state)
{
    (void)state;
    say(1, open_msg("a.h5", MKT_INTENT_READ));
    take_error(1, MKT_NOT_FOUND, "a.h5");
    say(1, open_msg("a.h5", MKT_INTENT_READ_WRITE));
    take_error(1, MKT_NOT_FOUND, "a.h5");
    say(1, stub_msg("a.h5", MKT_INTENT_READ, 9));
    take_error(1, MKT_NOT_FOUND, "left-over stub");
}

static void test_open_exclusive_with_version_exists(void **state)
{
    (void)state;
    publish(1, open_msg("a.h5", MKT_INTENT_CREATE_EXCL));
    say(2, open_msg("a.h5", MKT_INTENT_CREATE_EXCL));
    take_error(2, MKT_EXISTS, "a.h5");
}

static void test_open_own_unpublished_file_does_not_wait(void **state)
{
    (void)state;
    open_ok(1, open_msg("a.h5", MKT_INTENT_CREATE));
    say(1, waiting(open_msg("a.h5", MKT_INTENT_READ), 1000, 1000));
    take_error(1, MKT_BUSY, "this same program");
}

static void test_open_real_file_is_native_until_known(void **state)
{
    (void)state;
    assert_int_equal(open_ok(1, file_msg(MKT_INTENT_READ, 10)).source, MKT_SOURCE_NATIVE);
    assert_int_equal(open_ok(1, file_msg(MKT_INTENT_READ_WRITE, 10)).source, MKT_SOURCE_NATIVE);
    say(1, file_msg(MKT_INTENT_CREATE_EXCL, 10));
    take_error(1, MKT_EXISTS, "real.h5");
    publish(1, file_msg(MKT_INTENT_CREATE, 10));
    struct mkt_msg_opened read = open_ok(2, file_msg(MKT_INTENT_READ, 10));
    assert_int_equal(read.source, MKT_SOURCE_VERSION);
    close_file(2, read.file);
    /* Another file stands there: it wins, for good. */
    assert_int_equal(open_ok(2, file_msg(MKT_INTENT_READ, 11)).source, MKT_SOURCE_NATIVE);
    assert_int_equal(used(), 0);
    assert_int_equal(open_ok(2, file_msg(MKT_INTENT_READ, 10)).source, MKT_SOURCE_NATIVE);
}

static void test_open_in_file_mode_withdraws(void **state)
{
    struct mkt_msg msg = stub_msg("a.h5", MKT_INTENT_CREATE, 3);

    (void)state;
    publish(1, msg);
    msg.open.mode = MKT_MODE_FILE;
    assert_int_equal(open_ok(2, msg).source, MKT_SOURCE_NATIVE);
    assert_int_equal(used(), 0);
    assert_int_equal(shell.dropped_stubs, 1);
}

static void test_probe_answers_and_pins_nothing(void **state)
{
    struct mkt_msg_opened probe;

    (void)state;
    say(1, open_msg("a.h5", MKT_INTENT_PROBE));
    take_error(1, MKT_NOT_FOUND, "a.h5");
    assert_int_equal(open_ok(1, file_msg(MKT_INTENT_PROBE, 1)).source, MKT_SOURCE_NATIVE);
    uint64_t file = open_ok(1, open_msg("a.h5", MKT_INTENT_CREATE)).file;
    probe = open_ok(2, open_msg("a.h5", MKT_INTENT_PROBE));
    assert_true(probe.source == MKT_SOURCE_VERSION && probe.version == 0 && probe.file == 0);
    commit(1, file);
    committed(1);
    probe = open_ok(2, open_msg("a.h5", MKT_INTENT_PROBE));
    assert_true(probe.source == MKT_SOURCE_VERSION && probe.version == 1 && probe.file == 0);
}

/* ---- groups ---- */

static void test_group_publishes_when_all_have_committed(void **state)
{
    (void)state;
    uint64_t file = open_pair("a.h5", 1);
    add(1, file, 0, granted(1, 64), true);
    take(1, MKT_MSG_ADDED);
    add(2, file, 8, granted(2, 64), true);
    take(2, MKT_MSG_ADDED);
    commit(1, file);
    assert_int_equal(shell.replies, 0);
    say(3, waiting(open_msg("a.h5", MKT_INTENT_READ), 0, 100));
    assert_int_equal(shell.replies, 0);
    commit_without_image(2, file);
    assert_int_equal(committed(1), 1);
    assert_int_equal(committed(2), 1);
    assert_int_equal(opened(3).version, 1);
}

/* Who waits for a file keeps nobody from the background's work; who has one open does, longer. */
static void test_market_is_quiet_some_time_after_the_last_request(void **state)
{
    struct mkt_msg commit = {.type = MKT_MSG_COMMIT};

    (void)state;
    say(2, waiting(open_msg("b.h5", MKT_INTENT_READ), 0, 5000));
    assert_int_equal(mkt_market_quiet_ms(shell.market), shell.now + 20);
    say(1, open_msg("a.h5", MKT_INTENT_CREATE));
    commit.commit.file = opened(1).file;
    assert_int_equal(mkt_market_quiet_ms(shell.market), shell.now + 1000);
    commit.commit.image = granted(1, 128);
    pass(300);
    assert_int_equal(mkt_market_quiet_ms(shell.market), shell.now + 700);
    say(1, commit);
    take(1, MKT_MSG_COMMITTED);
    assert_int_equal(mkt_market_quiet_ms(shell.market), shell.now + 20);
}

static void test_group_rank_that_never_comes_is_named(void **state)
{
    (void)state;
    say(1, in_group(open_msg("a.h5", MKT_INTENT_CREATE), 1, 0, 3));
    say(2, in_group(open_msg("", MKT_INTENT_CREATE), 1, 2, 3));
    pass(499);
    assert_int_equal(shell.replies, 0);
    assert_int_equal(mkt_market_next_deadline(shell.market), shell.now + 1);
    pass(1);
    take_error(1, MKT_TIMED_OUT, "rank 1 did not come within 0.5 s");
    take_error(2, MKT_TIMED_OUT, "2 of 3 ranks");
    /* Who comes late is told at once. */
    say(3, in_group(open_msg("", MKT_INTENT_CREATE), 1, 1, 3));
    take_error(3, MKT_TIMED_OUT, "rank 1");
}

static void test_group_of_one_rank_twice_fails_for_all(void **state)
{
    (void)state;
    say(1, in_group(open_msg("a.h5", MKT_INTENT_CREATE), 1, 0, 3));
    say(2, in_group(open_msg("", MKT_INTENT_CREATE), 1, 0, 3));
    take_error(1, MKT_INVALID, "same rank");
    take_error(2, MKT_INVALID, "same rank");
    say(1, in_group(open_msg("a.h5", MKT_INTENT_CREATE), 2, 0, 3));
    say(1, in_group(open_msg("", MKT_INTENT_CREATE), 2, 1, 3));
    take_error(1, MKT_INVALID, "two ranks");
    take_error(1, MKT_INVALID, "two ranks");
    say(1, in_group(open_msg("a.h5", MKT_INTENT_CREATE), 3, 0, 3));
    say(2, in_group(open_msg("", MKT_INTENT_CREATE), 3, 1, 2));
    take_error(1, MKT_INVALID, "disagree");
    take_error(2, MKT_INVALID, "disagree");
}

static void test_group_that_disagrees_publishes_nothing(void **state)
{
    struct mkt_msg other;

    (void)state;
    publish(3, open_msg("a.h5", MKT_INTENT_CREATE));
    uint64_t before = used(), file = open_pair("a.h5", 1);
    add(2, file, 0, granted(2, 64), true);
    take(2, MKT_MSG_ADDED);
    commit(1, file);
    other = commit_msg(file, (struct mkt_extent){0});
    other.commit.hash = 8;
    say(2, other);
    take_error(1, MKT_POISONED, "disagree about the datasets");
    take_error(2, MKT_POISONED, "must be collective");
    assert_int_equal(used(), before);
    assert_int_equal(open_ok(3, open_msg("a.h5", MKT_INTENT_READ)).version, 1);
}

static void test_group_flush_and_close_together_fails(void **state)
{
    struct mkt_msg flush;

    (void)state;
    uint64_t file = open_pair("a.h5", 1);
    flush = commit_msg(file, granted(1, 128));
    flush.commit.keep_open = true;
    say(1, flush);
    commit_without_image(2, file);
    take_error(1, MKT_POISONED, "closes it, rank 0 flushes it");
    take_error(2, MKT_POISONED, "rank 1 closes it");
}

static void test_group_with_a_dead_rank_fails_and_keeps_its_bytes_until_reclaim(void **state)
{
    (void)state;
    publish(3, open_msg("a.h5", MKT_INTENT_CREATE));
    uint64_t before = used(), file = open_pair("a.h5", 1);
    granted(2, 128);
    add(2, file, 0, granted(2, 64), true);
    take(2, MKT_MSG_ADDED);
    commit(1, file);
    end(2);
    take_error(1, MKT_POISONED, "rank 1 (prog, pid 102) ended before");
    /* The former version stays, and the next writer may come. */
    assert_int_equal(open_ok(3, open_msg("a.h5", MKT_INTENT_READ)).version, 1);
    assert_int_equal(used(), before + 128 + 64 + 128); /* granted, added, and rank 0's image */
    reclaim(2);
    assert_int_equal(used(), before);
    assert_int_equal(publish(1, open_msg("a.h5", MKT_INTENT_CREATE)), 2);
}

static void test_group_failure_reaches_every_rank(void **state)
{
    struct mkt_msg failed;

    (void)state;
    uint64_t file = open_pair("a.h5", 1);
    failed = commit_msg(file, (struct mkt_extent){0});
    failed.commit.failure = text("the disk burns");
    say(2, failed);
    take_error(2, MKT_POISONED, "rank 1 (prog, pid 102) failed: the disk burns");
    add(1, file, 0, granted(1, 64), true);
    take_error(1, MKT_POISONED, "the disk burns");
    assert_int_equal(used(), 0);
    commit(1, file);
    take_error(1, MKT_POISONED, "the disk burns");
    assert_int_equal(used(), 0);
    assert_int_equal(shell.refused, 0);
}

static void test_group_unanswered_piece_of_a_spoilt_file_is_not_used_again(void **state)
{
    struct mkt_market_limits limits = default_limits;

    (void)state;
    mkt_market_destroy(shell.market);
    limits.max_pieces = 1;
    start(&limits);
    uint64_t file = open_ok(1, open_msg("a.h5", MKT_INTENT_CREATE)).file, scratch = used();
    add(1, file, 0, granted(1, 64), false);
    add(1, file, 8, granted(1, 64), false);
    add(1, file, 16, granted(1, 64), false);
    assert_int_equal(used(), scratch + 3 * 64);
    commit(1, file);
    take_error(1, MKT_POISONED, "`max_pieces`");
    assert_int_equal(used(), scratch);
}

static void test_group_silence_ends_the_wait_for_its_commits(void **state)
{
    (void)state;
    uint64_t file = open_pair("a.h5", 1);
    commit(1, file);
    pass(1500);
    add(2, file, 0, granted(2, 64), true);
    take(2, MKT_MSG_ADDED);
    pass(1500); /* a sign of life has come in the meantime */
    assert_int_equal(shell.replies, 0);
    pass(500);
    take_error(1, MKT_POISONED, "rank 1 did not close it within 2.0 s");
    commit_without_image(2, file);
    take_error(2, MKT_POISONED, "rank 1 did not close it");
    assert_int_equal(used(), 0);
}

static void test_group_close_without_commit_poisons(void **state)
{
    (void)state;
    uint64_t file = open_pair("a.h5", 1);
    commit(1, file);
    close_file(2, file);
    take_error(1, MKT_POISONED, "rank 1 (prog, pid 102) closed it without publishing");
    assert_int_equal(used(), 0);
}

/* ---- waits of readers ---- */

static void test_reader_waits_for_the_writer(void **state)
{
    (void)state;
    uint64_t file = open_ok(1, open_msg("a.h5", MKT_INTENT_CREATE)).file;
    say(2, waiting(open_msg("a.h5", MKT_INTENT_READ), 0, 300));
    say(3, waiting(open_msg("a.h5", MKT_INTENT_READ), 0, 5000));
    pass(300);
    take_error(2, MKT_TIMED_OUT, "waited for prog (pid 101) to close it; raise `writer_timeout`");
    assert_int_equal(shell.replies, 0);
    commit(1, file);
    committed(1);
    assert_int_equal(opened(3).version, 1);
}

static void test_reader_of_a_lost_writer_fails_at_once(void **state)
{
    (void)state;
    open_ok(1, open_msg("a.h5", MKT_INTENT_CREATE));
    say(2, waiting(open_msg("a.h5", MKT_INTENT_READ), 0, 5000));
    say(3, waiting(open_msg("a.h5", MKT_INTENT_READ), 700, 5000));
    pass(10);
    end(1);
    take_error(2, MKT_NOT_FOUND, "prog (pid 101) went without publishing it");
    pass(689);
    assert_int_equal(shell.replies, 0);
    pass(1);
    take_error(3, MKT_TIMED_OUT, "a.h5");
}

static void test_reader_may_start_first(void **state)
{
    (void)state;
    say(2, waiting(open_msg("a.h5", MKT_INTENT_READ), 1000, 0));
    say(3, waiting(open_msg("b.h5", MKT_INTENT_READ), 1000, 0));
    pass(500);
    publish(1, stub_msg("a.h5", MKT_INTENT_CREATE, 4)); /* the stub came after it had looked */
    assert_int_equal(opened(2).object[0], 4);
    pass(500);
    take_error(3, MKT_TIMED_OUT, "start its writer, or raise `wait`");
}

static void test_reader_that_looked_just_before_the_stub_came_finds_it(void **state)
{
    (void)state;
    publish(1, stub_msg("a.h5", MKT_INTENT_CREATE, 4));
    assert_int_equal(open_ok(2, waiting(open_msg("a.h5", MKT_INTENT_READ), 1000, 0)).version, 1);
    pass(6000); /* by now it would have seen it: the stub was moved, and nothing is there */
    say(2, waiting(open_msg("a.h5", MKT_INTENT_READ), 1000, 0));
    assert_int_equal(shell.replies, 0);
}

static void test_reader_keeps_what_it_opened(void **state)
{
    (void)state;
    publish(1, open_msg("a.h5", MKT_INTENT_CREATE));
    uint64_t one = used(), file = open_ok(2, open_msg("a.h5", MKT_INTENT_READ)).file;
    publish(1, open_msg("a.h5", MKT_INTENT_CREATE));
    assert_int_equal(used(), 2 * one);
    close_file(2, file);
    assert_int_equal(used(), one);
    file = open_ok(2, open_msg("a.h5", MKT_INTENT_READ)).file;
    withdraw(1, open_msg("a.h5", MKT_INTENT_READ));
    assert_int_equal(take(1, MKT_MSG_WITHDRAWN).msg.count.versions, 1);
    end(2); /* its process may still read */
    assert_int_equal(used(), one);
    reclaim(2);
    assert_int_equal(used(), 0);
}

static void test_reader_group_pins_until_the_last_rank_closes(void **state)
{
    (void)state;
    publish(1, open_msg("a.h5", MKT_INTENT_CREATE));
    say(3, in_group(open_msg("a.h5", MKT_INTENT_READ), 1, 1, 2));
    say(2, in_group(open_msg("a.h5", MKT_INTENT_READ), 1, 0, 2));
    uint64_t file = opened(2).file;
    assert_int_equal(opened(3).file, file);
    withdraw(1, open_msg("a.h5", MKT_INTENT_READ));
    take(1, MKT_MSG_WITHDRAWN);
    close_file(2, file);
    assert_true(used() > 0);
    close_file(2, file); /* again: nothing */
    assert_true(used() > 0);
    close_file(3, file);
    assert_int_equal(used(), 0);
}

static void test_reader_asks_for_a_version(void **state)
{
    (void)state;
    publish(1, kept(open_msg("a.h5", MKT_INTENT_CREATE), 2, ""));
    publish(1, kept(open_msg("a.h5", MKT_INTENT_CREATE), 2, ""));
    publish(1, kept(open_msg("a.h5", MKT_INTENT_CREATE), 2, ""));
    assert_int_equal(open_ok(2, version_of(open_msg("a.h5", MKT_INTENT_READ), 2)).version, 2);
    say(2, waiting(version_of(open_msg("a.h5", MKT_INTENT_READ), 1), 1000, 0));
    take_error(2, MKT_NOT_FOUND, "version 1 of 'a.h5' is not there; the newest is 3");
    say(2, waiting(version_of(open_msg("a.h5", MKT_INTENT_READ), 4), 1000, 0));
    assert_int_equal(shell.replies, 0);
    publish(1, open_msg("a.h5", MKT_INTENT_CREATE));
    assert_int_equal(opened(2).version, 4);
}

static void test_reader_skips_versions_older_than_it(void **state)
{
    struct mkt_msg msg = waiting(open_msg("a.h5", MKT_INTENT_READ), 1000, 0);

    (void)state;
    publish(1, open_msg("a.h5", MKT_INTENT_CREATE));
    pass(5);
    msg.open.after_ms = shell.now;
    say(2, msg);
    assert_int_equal(shell.replies, 0);
    publish(1, open_msg("a.h5", MKT_INTENT_CREATE));
    assert_int_equal(opened(2).version, 2);
}

/* ---- pieces before the publish ---- */

static bool touch(uint64_t session, uint64_t file, uint64_t stamp)
{
    struct mkt_msg msg = {.type = MKT_MSG_TOUCH};

    msg.touch.file = file;
    msg.touch.identity = 1;
    msg.touch.stamp = stamp;
    say(session, msg);
    return take(session, MKT_MSG_TOUCHED).msg.touched.superseded;
}

static void test_touch_is_overtaken_by_another_rank_in_the_same_place_only(void **state)
{
    (void)state;
    uint64_t file = open_pair("a.h5", 1), stamp;
    add(1, file, 0, granted(1, 64), true);
    stamp = take(1, MKT_MSG_ADDED).msg.added.first_stamp;
    assert_false(touch(1, file, stamp));
    add(1, file, 4, granted(1, 64), true); /* its own */
    take(1, MKT_MSG_ADDED);
    assert_false(touch(1, file, stamp));
    add(2, file, 16, granted(2, 64), true); /* elsewhere */
    take(2, MKT_MSG_ADDED);
    assert_false(touch(1, file, stamp));
    add(2, file, 7, granted(2, 64), true);
    uint64_t later = take(2, MKT_MSG_ADDED).msg.added.first_stamp;
    assert_true(later > stamp);
    assert_true(touch(1, file, stamp));
    assert_false(touch(2, file, later));
    assert_true(touch(2, file, stamp)); /* not its piece */
}

static uint64_t look_up(uint64_t session, uint64_t file, uint64_t identity, uint32_t *arrays_out)
{
    struct mkt_msg msg = {.type = MKT_MSG_LOOKUP};
    struct mkt_index_view view;

    msg.lookup.file = file;
    msg.lookup.identity = identity;
    say(session, msg);
    struct mkt_extent found = take(session, MKT_MSG_FOUND).msg.extent.extent;
    assert_int_equal(
        mkt_index_view_open(&view, shell.arena[found.arena - 1] + found.offset, found.length),
        MKT_OK);
    *arrays_out = view.arrays;
    uint64_t pieces = view.arrays ? mkt_index_view_pieces(&view, 0) : 0;
    say(session, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &found}});
    return pieces;
}

static void test_lookup_sees_all_ranks(void **state)
{
    uint32_t arrays;

    (void)state;
    uint64_t file = open_pair("a.h5", 1);
    assert_int_equal(look_up(1, file, 1, &arrays), 0);
    assert_int_equal(arrays, 0);
    add(1, file, 0, granted(1, 64), true);
    take(1, MKT_MSG_ADDED);
    assert_int_equal(look_up(2, file, 1, &arrays), 1);
    assert_int_equal(look_up(2, file, 2, &arrays), 0);
    assert_int_equal(arrays, 0);
    assert_int_equal(used(), 64);
}

static uint64_t pieces_in(uint64_t version)
{
    struct mkt_index_view view;
    struct mkt_msg_opened read = open_ok(4, version_of(open_msg("a.h5", MKT_INTENT_READ), version));

    assert_int_equal(mkt_index_view_open(&view,
                                         shell.arena[read.index.arena - 1] + read.index.offset,
                                         read.index.length),
                     MKT_OK);
    close_file(4, read.file);
    return mkt_index_view_pieces(&view, 0);
}

static void test_flush_publishes_and_goes_on(void **state)
{
    struct mkt_msg flush;
    uint32_t arrays;

    (void)state;
    uint64_t file = open_pair("a.h5", 1);
    add(1, file, 0, granted(1, 64), true);
    uint64_t stamp = take(1, MKT_MSG_ADDED).msg.added.first_stamp;
    flush = commit_msg(file, granted(1, 128));
    flush.commit.keep_open = true;
    say(1, flush);
    /* Another thread of rank 0 writes on: not part of this version, and still its own to change. */
    add(1, file, 8, granted(1, 64), true);
    uint64_t late = take(1, MKT_MSG_ADDED).msg.added.first_stamp;
    flush = commit_msg(file, (struct mkt_extent){0});
    flush.commit.count = 0;
    flush.commit.arrays.length = 0;
    flush.commit.keep_open = true;
    say(2, flush);
    assert_int_equal(committed(1), 1);
    assert_int_equal(committed(2), 1);
    assert_int_equal(pieces_in(1), 1);
    assert_true(touch(1, file, stamp)); /* published: never changes */
    assert_false(touch(1, file, late));
    assert_int_equal(look_up(2, file, 1, &arrays), 2);
    say(3, open_msg("a.h5", MKT_INTENT_CREATE));
    take_error(3, MKT_BUSY, "a parallel program");
    commit(1, file);
    commit_without_image(2, file);
    assert_int_equal(committed(1), 2);
    assert_int_equal(committed(2), 2);
    assert_int_equal(pieces_in(2), 2);
}

static void test_flush_drops_arrays_that_no_longer_live(void **state)
{
    struct mkt_msg flush;
    static uint8_t record[512];
    struct mkt_array other = array1;

    (void)state;
    uint64_t file = open_ok(1, open_msg("a.h5", MKT_INTENT_CREATE)).file;
    add(1, file, 0, granted(1, 64), true);
    take(1, MKT_MSG_ADDED);
    other.identity = 2;
    mkt_array_record_encode(&other, record);
    flush = commit_msg(file, granted(1, 128));
    flush.commit.keep_open = true;
    flush.commit.arrays.data = record;
    uint64_t before = used();
    say(1, flush);
    assert_int_equal(committed(1), 1);
    struct mkt_msg_opened read = open_ok(2, open_msg("a.h5", MKT_INTENT_READ));
    assert_int_equal(used(), before - 64 + (read.index.length + 63) / 64 * 64);
}

/* ---- READ_WRITE ---- */

static void test_read_write_shares_the_pieces_it_keeps(void **state)
{
    (void)state;
    publish(1, open_msg("a.h5", MKT_INTENT_CREATE));
    struct mkt_msg_opened file = open_ok(1, open_msg("a.h5", MKT_INTENT_READ_WRITE));
    assert_true(file.source == MKT_SOURCE_VERSION && file.version == 1);
    add(1, file.file, 8, granted(1, 64), false);
    commit(1, file.file);
    assert_int_equal(committed(1), 2);
    assert_int_equal(pieces_in(0), 2);
    withdraw(1, open_msg("a.h5", MKT_INTENT_READ));
    take(1, MKT_MSG_WITHDRAWN);
    say(1, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &file.scratch}});
    assert_int_equal(used(), 0);
}

static void test_read_write_without_changes_publishes_nothing(void **state)
{
    struct mkt_msg msg;

    (void)state;
    publish(1, open_msg("a.h5", MKT_INTENT_CREATE));
    struct mkt_msg_opened file = open_ok(1, open_msg("a.h5", MKT_INTENT_READ_WRITE));
    msg = commit_msg(file.file, (struct mkt_extent){0});
    msg.commit.unchanged = true;
    say(1, msg);
    assert_int_equal(committed(1), 1);
    say(2, open_msg("a.h5", MKT_INTENT_CREATE)); /* the writer is gone */
    opened(2);
}

static void test_read_write_with_data_of_another_rank_keeps_the_image(void **state)
{
    struct mkt_msg msg;

    (void)state;
    publish(3, open_msg("a.h5", MKT_INTENT_CREATE));
    struct mkt_msg_opened base = open_ok(3, open_msg("a.h5", MKT_INTENT_READ));
    close_file(3, base.file);
    say(1, in_group(open_msg("a.h5", MKT_INTENT_READ_WRITE), 1, 0, 2));
    say(2, in_group(open_msg("", MKT_INTENT_READ_WRITE), 1, 1, 2));
    uint64_t file = opened(1).file;
    opened(2);
    add(2, file, 8, granted(2, 64), true);
    take(2, MKT_MSG_ADDED);
    msg = commit_msg(file, (struct mkt_extent){0});
    msg.commit.unchanged = true;
    msg.commit.count = 0;
    msg.commit.arrays.length = 0;
    say(1, msg);
    msg.commit.unchanged = false;
    say(2, msg);
    assert_int_equal(committed(1), 2);
    assert_int_equal(committed(2), 2);
    assert_int_equal(pieces_in(2), 2);
    struct mkt_msg_opened read = open_ok(3, open_msg("a.h5", MKT_INTENT_READ));
    assert_memory_equal(&read.image, &base.image, sizeof(base.image));
}

/* ---- retention ---- */

static void test_keep_counts_over_a_set(void **state)
{
    const char *const leaf[] = {"plt1", "plt2", "plt3", "plt4"};

    (void)state;
    for (uint8_t i = 0; i < 4; i++)
        publish(1, kept(stub_msg(leaf[i], MKT_INTENT_CREATE, i + 1), 3, "plt*"));
    assert_int_equal(shell.dropped_stubs, 1);
    assert_int_equal(shell.last_dropped[0], 1);
    say(2, stub_msg("plt1", MKT_INTENT_READ, 1));
    take_error(2, MKT_NOT_FOUND, "beyond `keep: 3` of 'plt*'");
    assert_int_equal(open_ok(2, stub_msg("plt2", MKT_INTENT_READ, 2)).version, 1);
    /* A second version of one of them counts like any other; numbers go on. */
    assert_int_equal(publish(1, kept(stub_msg("plt1", MKT_INTENT_CREATE, 1), 3, "plt*")), 2);
    assert_int_equal(shell.last_dropped[0], 2);
    assert_int_equal(publish(1, kept(stub_msg("plt1", MKT_INTENT_CREATE, 1), 3, "plt*")), 3);
    assert_int_equal(open_ok(3, version_of(stub_msg("plt1", MKT_INTENT_READ, 1), 2)).version, 2);
}

static struct mkt_msg later(struct mkt_msg msg)
{
    msg.open.publish_close = 2;
    return msg;
}

static void test_version_of_a_first_close_is_for_writers(void **state)
{
    (void)state;
    assert_int_equal(publish(1, open_msg("a.h5", MKT_INTENT_CREATE)), 1);
    assert_int_equal(publish(1, later(open_msg("a.h5", MKT_INTENT_CREATE))), 2);
    assert_int_equal(open_ok(2, open_msg("a.h5", MKT_INTENT_READ)).version, 1);
    say(2, version_of(open_msg("a.h5", MKT_INTENT_READ), 2));
    take_error(2, MKT_NOT_FOUND, "version 2");
    say(3, waiting(open_msg("b.h5", MKT_INTENT_READ), 0, 50));
    take_error(3, MKT_NOT_FOUND, "b.h5");
    publish(1, later(open_msg("b.h5", MKT_INTENT_CREATE)));
    say(3, waiting(open_msg("b.h5", MKT_INTENT_READ), 0, 50)); /* begun: as if it were written */
    assert_int_equal(open_ok(1, later(open_msg("a.h5", MKT_INTENT_READ_WRITE))).version, 2);
}

static void test_withdrawn_while_written_leaves_nothing(void **state)
{
    (void)state;
    struct mkt_msg_opened file = open_ok(1, stub_msg("a.h5", MKT_INTENT_CREATE, 5));
    say(2, waiting(stub_msg("a.h5", MKT_INTENT_READ, 5), 0, 5000));
    add(1, file.file, 0, granted(1, 64), false);
    uint8_t object[MKT_ID_BYTES] = {5};
    mkt_market_stub_removed(shell.market, object, false, shell.now);
    audit();
    take_error(2, MKT_NOT_FOUND, "withdrawn: its file was removed");
    commit(1, file.file);
    assert_int_equal(committed(1), 0);
    say(1, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &file.scratch}});
    assert_int_equal(used(), 0);
    assert_int_equal(shell.dropped_stubs, 0);
    withdraw(1, open_msg("a.h5", MKT_INTENT_READ));
    take_error(1, MKT_NOT_FOUND, "holds nothing for 'a.h5'");
}

/* ---- memory ---- */

static void grant(uint64_t session, uint64_t bytes, uint64_t request)
{
    say(session, (struct mkt_msg){.type = MKT_MSG_GRANT, .request = request, .grant = {bytes, 0}});
}

static void test_grant_waits_in_line_for_memory(void **state)
{
    (void)state;
    struct mkt_extent first = granted(1, ARENA), second = granted(1, ARENA);
    assert_true(first.arena != second.arena);
    grant(2, ARENA, 0);
    grant(3, 64, 0);
    assert_int_equal(shell.replies, 0);
    struct mkt_extent part = first;
    part.length = 4096;
    say(1, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &part}});
    assert_int_equal(shell.replies, 0); /* the small one stays behind the large one */
    first.offset += 4096;
    first.length -= 4096;
    say(1, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &first}});
    struct reply reply = take(2, MKT_MSG_GRANTED);
    assert_memory_equal(&reply.populate, &reply.msg.extent.extent, sizeof(struct mkt_extent));
    pass(1000);
    take_error(3, MKT_NO_SPACE,
               "limit 2.0 MiB (`memory` in h5market.yaml); in use: 2.0 MiB, of which published 0 "
               "bytes and "
               "granted to programs 2.0 MiB");
}

static void test_grant_that_never_fits_fails_at_once(void **state)
{
    (void)state;
    grant(1, ARENA + 1, 0);
    take_error(1, MKT_NO_SPACE, "the largest piece is 1.0 MiB");
    grant(1, UINT64_MAX, 0);
    take_error(1, MKT_NO_SPACE, "the whole market is 2.0 MiB");
    grant(1, 0, 0);
    take_error(1, MKT_INVALID, "0 bytes");
}

static void test_grant_text_names_the_largest(void **state)
{
    (void)state;
    publish(1, open_msg("big.h5", MKT_INTENT_CREATE));
    granted(1, ARENA);
    grant(2, ARENA, 0);
    pass(1000);
    take_error(2, MKT_NO_SPACE, "largest: 'big.h5'");
}

static void test_grants_of_the_dead_wait_for_reclaim(void **state)
{
    (void)state;
    granted(1, ARENA);
    granted(2, ARENA);
    grant(3, ARENA, 0);
    end(1);
    assert_int_equal(shell.replies, 0);
    reclaim(1);
    take(3, MKT_MSG_GRANTED);
}

static void test_cancel_ends_each_kind_of_wait(void **state)
{
    (void)state;
    struct mkt_msg open = waiting(open_msg("a.h5", MKT_INTENT_READ), 1000, 0);
    open.request = 71;
    say(1, open);
    say(1, (struct mkt_msg){.type = MKT_MSG_CANCEL, .request = 70});
    assert_int_equal(shell.replies, 0);
    say(1, (struct mkt_msg){.type = MKT_MSG_CANCEL, .request = 71});
    take_error(1, MKT_CANCELLED, "a.h5");

    uint64_t file = open_pair("b.h5", 1);
    struct mkt_msg close = commit_msg(file, granted(1, 128));
    close.request = 72;
    say(1, close);
    say(1, (struct mkt_msg){.type = MKT_MSG_CANCEL, .request = 72});
    take_error(1, MKT_CANCELLED, "b.h5");
    commit_without_image(2, file);
    take_error(2, MKT_POISONED, "gave up waiting");

    granted(1, ARENA);
    granted(1, ARENA);
    grant(1, 64, 73);
    say(1, (struct mkt_msg){.type = MKT_MSG_CANCEL, .request = 73});
    take_error(1, MKT_CANCELLED, "memory");
}

/* ---- bounds and bad input ---- */

static void test_bounds_are_named(void **state)
{
    struct mkt_market_limits limits = default_limits;

    teardown(state);
    limits.max_objects = 1;
    limits.max_groups = 2;
    limits.max_waiting = 1;
    start(&limits);
    publish(1, open_msg("a.h5", MKT_INTENT_CREATE));
    say(1, open_msg("b.h5", MKT_INTENT_CREATE));
    take_error(1, MKT_NO_SPACE, "`max_objects`");
    teardown(state);
    limits.max_objects_by = "another bound";
    start(&limits);
    publish(1, open_msg("a.h5", MKT_INTENT_CREATE));
    say(1, open_msg("b.h5", MKT_INTENT_CREATE));
    take_error(1, MKT_NO_SPACE, "another bound");
    say(2, waiting(open_msg("b.h5", MKT_INTENT_READ), 1000, 0));
    say(3, waiting(open_msg("b.h5", MKT_INTENT_READ), 1000, 0));
    take_error(3, MKT_NO_SPACE, "`max_waiting`");
    pass(1000);
    take_error(2, MKT_TIMED_OUT, "b.h5");
    open_ok(1, open_msg("a.h5", MKT_INTENT_READ));
    open_ok(2, open_msg("a.h5", MKT_INTENT_READ));
    say(3, open_msg("a.h5", MKT_INTENT_READ));
    take_error(3, MKT_NO_SPACE, "`max_writers`");
}

static void test_no_arena_says_why(void **state)
{
    (void)state;
    granted(1, ARENA);
    shell.no_arena = MKT_NO_MEMORY;
    grant(2, ARENA, 74);
    take_error(2, MKT_NO_MEMORY, "mapping it: out of it (a knob)");
    shell.no_arena = MKT_NO_SPACE; /* something may come free meanwhile */
    grant(2, ARENA, 75);
    pass(1000);
    take_error(2, MKT_NO_SPACE, "no more memory was to be had: mapping it");
    shell.no_arena = MKT_OK;
    granted(2, ARENA);
    grant(2, ARENA, 76);
    pass(1000);
    struct reply reply = take_error(2, MKT_NO_SPACE, "the market is full");
    assert_null(strstr(reply.text, "no more memory"));
}

static void test_foreign_bytes_are_refused(void **state)
{
    (void)state;
    struct mkt_extent mine = granted(1, 64), others = granted(2, 64);
    uint64_t file = open_ok(1, open_msg("a.h5", MKT_INTENT_CREATE)).file;
    add(1, file, 0, others, true);
    assert_int_equal(shell.refused, 1);
    say(1, (struct mkt_msg){.type = MKT_MSG_RELEASE,
                            .release = {1, &mine}}); /* it is not heard any more */
    assert_int_equal(shell.replies, 0);
    end(1);
    reclaim(1);
    assert_int_equal(used(), 64);
    say(2, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &mine}});
    assert_int_equal(shell.refused, 2);
    file = open_ok(3, open_msg("a.h5", MKT_INTENT_CREATE)).file;
    say(3, commit_msg(file, others));
    assert_int_equal(shell.refused, 3);
    struct mkt_extent odd = granted(4, 128);
    odd.offset += 8;
    odd.length = 64;
    say(4, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &odd}});
    assert_int_equal(shell.refused, 4);
}

static void test_piece_that_does_not_fit_its_array_is_refused(void **state)
{
    struct mkt_msg msg;

    (void)state;
    uint64_t file = open_ok(1, open_msg("a.h5", MKT_INTENT_CREATE)).file;
    add(1, file, 0, granted(1, 64), true);
    take(1, MKT_MSG_ADDED);
    msg = (struct mkt_msg){.type = MKT_MSG_ADD};
    msg.add.file = file;
    msg.add.array = array1;
    msg.add.array.element_bytes = 4;
    msg.add.count = 1;
    say(1, msg);
    assert_int_equal(shell.refused, 1);
}

static void test_array_listed_twice_is_not_published(void **state)
{
    static uint8_t records[1024];
    struct mkt_msg msg;
    uint32_t bytes = (uint32_t)mkt_array_record_bytes(&array1);

    (void)state;
    uint64_t file = open_ok(1, open_msg("a.h5", MKT_INTENT_CREATE)).file;
    mkt_array_record_encode(&array1, records);
    mkt_array_record_encode(&array1, records + bytes);
    msg = commit_msg(file, granted(1, 128));
    msg.commit.count = 2;
    msg.commit.arrays = (struct mkt_bytes){records, 2 * bytes};
    say(1, msg);
    take_error(1, MKT_POISONED, "array 1 is listed twice");
}

static void test_destroy_frees_what_is_in_use(void **state)
{
    (void)state;
    publish(1, kept(stub_msg("a.h5", MKT_INTENT_CREATE, 1), 2, "*"));
    open_ok(2, stub_msg("a.h5", MKT_INTENT_READ, 1));
    open_pair("b.h5", 1);
    say(3, waiting(open_msg("c.h5", MKT_INTENT_READ), 1000, 0));
    say(4, in_group(open_msg("d.h5", MKT_INTENT_READ), 2, 0, 2));
    granted(5, ARENA);
    grant(5, ARENA, 0);
    /* teardown destroys it; the sanitizer sees what is left */
}

#define MARKET_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MARKET_TEST(test_version_published_is_read),
        MARKET_TEST(test_open_written_by_another_is_busy),
        MARKET_TEST(test_open_nothing_there_is_not_found_at_once),
        MARKET_TEST(test_open_exclusive_with_version_exists),
        MARKET_TEST(test_open_own_unpublished_file_does_not_wait),
        MARKET_TEST(test_open_real_file_is_native_until_known),
        MARKET_TEST(test_open_in_file_mode_withdraws),
        MARKET_TEST(test_probe_answers_and_pins_nothing),
        MARKET_TEST(test_group_publishes_when_all_have_committed),
        MARKET_TEST(test_market_is_quiet_some_time_after_the_last_request),
        MARKET_TEST(test_group_rank_that_never_comes_is_named),
        MARKET_TEST(test_group_of_one_rank_twice_fails_for_all),
        MARKET_TEST(test_group_that_disagrees_publishes_nothing),
        MARKET_TEST(test_group_flush_and_close_together_fails),
        MARKET_TEST(test_group_with_a_dead_rank_fails_and_keeps_its_bytes_until_reclaim),
        MARKET_TEST(test_group_failure_reaches_every_rank),
        MARKET_TEST(test_group_unanswered_piece_of_a_spoilt_file_is_not_used_again),
        MARKET_TEST(test_group_silence_ends_the_wait_for_its_commits),
        MARKET_TEST(test_group_close_without_commit_poisons),
        MARKET_TEST(test_reader_waits_for_the_writer),
        MARKET_TEST(test_reader_of_a_lost_writer_fails_at_once),
        MARKET_TEST(test_reader_may_start_first),
        MARKET_TEST(test_reader_that_looked_just_before_the_stub_came_finds_it),
        MARKET_TEST(test_reader_keeps_what_it_opened),
        MARKET_TEST(test_reader_group_pins_until_the_last_rank_closes),
        MARKET_TEST(test_reader_asks_for_a_version),
        MARKET_TEST(test_reader_skips_versions_older_than_it),
        MARKET_TEST(test_touch_is_overtaken_by_another_rank_in_the_same_place_only),
        MARKET_TEST(test_lookup_sees_all_ranks),
        MARKET_TEST(test_flush_publishes_and_goes_on),
        MARKET_TEST(test_flush_drops_arrays_that_no_longer_live),
        MARKET_TEST(test_read_write_shares_the_pieces_it_keeps),
        MARKET_TEST(test_read_write_without_changes_publishes_nothing),
        MARKET_TEST(test_read_write_with_data_of_another_rank_keeps_the_image),
        MARKET_TEST(test_keep_counts_over_a_set),
        MARKET_TEST(test_version_of_a_first_close_is_for_writers),
        MARKET_TEST(test_withdrawn_while_written_leaves_nothing),
        MARKET_TEST(test_grant_waits_in_line_for_memory),
        MARKET_TEST(test_grant_that_never_fits_fails_at_once),
        MARKET_TEST(test_grant_text_names_the_largest),
        MARKET_TEST(test_grants_of_the_dead_wait_for_reclaim),
        MARKET_TEST(test_cancel_ends_each_kind_of_wait),
        MARKET_TEST(test_bounds_are_named),
        MARKET_TEST(test_no_arena_says_why),
        MARKET_TEST(test_foreign_bytes_are_refused),
        MARKET_TEST(test_piece_that_does_not_fit_its_array_is_refused),
        MARKET_TEST(test_array_listed_twice_is_not_published),
        MARKET_TEST(test_destroy_frees_what_is_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
