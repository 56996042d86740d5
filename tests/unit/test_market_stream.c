/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: named readers, queues and ends, message by message. */
#include "tests/unit/market_shell.h"

#define GRACE_MS 10000u

static int setup_streams(void **state)
{
    struct mkt_market_limits limits = default_limits;

    (void)state;
    limits.max_readers = 3;
    limits.reader_grace_ms = GRACE_MS;
    start(&limits);
    return 0;
}

/* ---- what programs do ---- */

static struct mkt_msg write_msg(const char *leaf, const char *set, uint32_t queue)
{
    struct mkt_msg msg = open_msg(leaf, MKT_INTENT_CREATE);

    msg.open.set = text(set);
    msg.open.stream.consumed = queue > 0;
    msg.open.stream.queue = queue;
    msg.open.stream.queue_timeout_ms = 60000;
    return msg;
}

static void commit(uint64_t session, const struct mkt_msg_opened *file)
{
    struct mkt_msg msg = {.type = MKT_MSG_COMMIT};

    msg.commit.file = file->file;
    msg.commit.image = file->scratch;
    say(session, msg);
}

static uint64_t write_version(uint64_t session, struct mkt_msg msg)
{
    say(session, msg);
    struct mkt_msg_opened file = opened(session);
    commit(session, &file);
    return take(session, MKT_MSG_COMMITTED).msg.version.version;
}

static void write_versions(uint64_t session, struct mkt_msg msg, unsigned count)
{
    while (count-- > 0)
        write_version(session, msg);
}

static struct mkt_msg read_msg(const char *leaf, enum mkt_deliver deliver, const char *reader)
{
    struct mkt_msg msg = open_msg(leaf, MKT_INTENT_READ);

    msg.open.stream.deliver = deliver;
    msg.open.stream.reader = text(reader);
    msg.open.writer_timeout_ms = 300;
    return msg;
}

static void close_file(uint64_t session, uint64_t file)
{
    say(session, (struct mkt_msg){.type = MKT_MSG_CLOSE, .file = {.file = file}});
}

/* Opens, is given that version, and closes it. */
static void reads(uint64_t session, struct mkt_msg msg, uint64_t version)
{
    say(session, msg);
    struct mkt_msg_opened file = opened(session);
    assert_int_equal(file.version, version);
    close_file(session, file.file);
}

static void has_no_answer(uint64_t session)
{
    for (unsigned i = 0; i < shell.replies; i++)
        assert_int_not_equal(shell.reply[i].session, session);
}

/* A writer that waited for a place in the queue is to ask again. */
static void has_place(uint64_t session)
{
    assert_string_equal(take_error(session, MKT_STALE, "").text, "");
}

static unsigned versions(void)
{
    struct mkt_market_usage usage;

    mkt_market_usage(shell.market, &usage);
    return usage.versions;
}

static void end_session(uint64_t session)
{
    mkt_market_session_end(shell.market, session, shell.now);
    mkt_market_session_reclaim(shell.market, session, shell.now);
    audit();
}

static struct mkt_msg end_msg(const char *pattern)
{
    struct mkt_msg msg = {.type = MKT_MSG_END};

    msg.end.pattern = text(pattern);
    msg.end.name = open_msg("out.h5", MKT_INTENT_READ).open.name;
    return msg;
}

/* ---- what a reader gets ---- */

static void test_next_gives_each_version_once_in_order(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 5);
    struct mkt_msg a = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write_versions(1, write, 3);
    reads(2, a, 1);
    reads(2, a, 2);
    reads(2, a, 3);
    say(2, a);
    has_no_answer(2);
    write_version(1, write);
    assert_int_equal(opened(2).version, 4);
}

static void test_reader_that_has_had_all_times_out(void **state)
{
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write_version(1, write_msg("out.h5", "", 0));
    reads(2, next, 1);
    say(2, next);
    pass(299);
    has_no_answer(2);
    pass(1);
    take_error(2, MKT_TIMED_OUT, "no further version of 'out.h5' within 0.3 s");
}

static void test_latest_is_as_without_a_stream(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 0);

    (void)state;
    write_versions(1, write, 3);
    reads(2, read_msg("out.h5", MKT_DELIVER_LATEST, ""), 3);
    reads(2, read_msg("out.h5", MKT_DELIVER_LATEST, ""), 3);
    assert_int_equal(versions(), 1);
}

static void test_position_outlives_the_readers_process(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 5);

    (void)state;
    write_versions(1, write, 3);
    reads(2, read_msg("out.h5", MKT_DELIVER_NEXT, "a"), 1);
    end_session(2);
    reads(3, read_msg("out.h5", MKT_DELIVER_NEXT, "a"), 2);
    reads(4, read_msg("out.h5", MKT_DELIVER_NEXT, "b"), 3); /* `readers: 1`: 1 and 2 have gone */
}

/* What it had open when it died wasn't read. */
static void test_version_of_a_dead_reader_is_delivered_again(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 5);

    (void)state;
    write_versions(1, write, 3);
    say(2, read_msg("out.h5", MKT_DELIVER_NEXT, "a"));
    assert_int_equal(opened(2).version, 1);
    reads(3, read_msg("out.h5", MKT_DELIVER_NEXT, "a"), 2); /* they share the work */
    end_session(2);
    reads(3, read_msg("out.h5", MKT_DELIVER_NEXT, "a"), 1);
    reads(3, read_msg("out.h5", MKT_DELIVER_NEXT, "a"), 3);
}

static void test_versions_gone_before_are_counted_and_said_once(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "", 0);
    struct mkt_msg a = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write_versions(1, write, 3);
    say(2, a);
    struct mkt_msg_opened file = opened(2);
    assert_int_equal(file.version, 3);
    assert_int_equal(file.skipped, 2);
    close_file(2, file.file);
    write_versions(1, write, 4); /* nobody keeps them for `next` */
    say(2, a);
    file = opened(2);
    assert_int_equal(file.version, 7);
    assert_int_equal(file.skipped, 3);
    close_file(2, file.file);
    write_version(1, write);
    say(2, a);
    assert_int_equal(opened(2).skipped, 0);
}

/* Without any rule of the writer's. */
static void test_all_keeps_what_its_reader_has_not_had(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "", 0);
    struct mkt_msg all = read_msg("out.h5", MKT_DELIVER_ALL, "a");

    (void)state;
    write_version(1, write);
    reads(2, all, 1);
    write_versions(1, write, 4);
    assert_int_equal(versions(), 4);
    reads(2, all, 2);
    assert_int_equal(versions(), 3);
    reads(2, all, 3);
    reads(2, all, 4);
    reads(2, all, 5);
    assert_int_equal(versions(), 1);
}

static void test_all_keeps_nothing_for_a_reader_that_has_gone(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "", 0);
    struct mkt_msg all = read_msg("out.h5", MKT_DELIVER_ALL, "a");

    (void)state;
    write_version(1, write);
    reads(2, all, 1);
    end_session(2);
    write_versions(1, write, 3);
    assert_int_equal(versions(), 3);
    pass(GRACE_MS - 1);
    assert_int_equal(versions(), 3);
    pass(1);
    assert_int_equal(versions(), 1);
    say(3, all);
    struct mkt_msg_opened file = opened(3);
    assert_int_equal(file.version, 4);
    assert_int_equal(file.skipped, 2);
}

static void test_every_gives_the_first_and_each_nth_after_it(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 20);
    struct mkt_msg every = read_msg("out.h5", MKT_DELIVER_EVERY, "a");

    (void)state;
    every.open.stream.every = 3;
    write.open.stream.readers = 2; /* another one may still come: they stay */
    write_versions(1, write, 8);
    reads(2, every, 1);
    reads(2, every, 4);
    reads(2, every, 7);
    say(2, every);
    has_no_answer(2);
    write_versions(1, write, 2);
    assert_int_equal(opened(2).version, 10);
}

static void test_ranks_of_a_group_get_the_same_version(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 5);
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write_versions(1, write, 2);
    for (uint8_t round = 1; round <= 2; round++) {
        for (uint32_t rank = 0; rank < 3; rank++)
            say(2 + rank, in_group(next, round, rank, 3));
        for (uint32_t rank = 0; rank < 3; rank++) {
            struct mkt_msg_opened file = opened(2 + rank);
            assert_int_equal(file.version, round);
            close_file(2 + rank, file.file);
        }
    }
}

/* The open failed after all, on its way to the program. */
static void test_version_that_its_program_never_got_is_delivered_again(void **state)
{
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");
    struct mkt_msg unread = {.type = MKT_MSG_CLOSE, .file = {.unread = true}};

    (void)state;
    write_versions(1, write_msg("out.h5", "out.h5", 5), 2);
    say(2, next);
    unread.file.file = opened(2).file;
    say(2, unread);
    reads(2, next, 1);
    reads(2, next, 2);
}

/* Read is what all ranks have closed. */
static void test_group_that_loses_a_rank_has_not_read(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 5);
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write_versions(1, write, 2);
    say(2, in_group(next, 1, 0, 2));
    say(3, in_group(next, 1, 1, 2));
    close_file(2, opened(2).file);
    opened(3);
    end_session(3);
    reads(2, next, 1);
}

static void test_too_many_readers_are_refused_by_name(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    struct mkt_msg write = write_msg("out.h5", "out.h5", 5);

    (void)state;
    write_version(1, write);
    for (unsigned i = 0; i < 3; i++) {
        say(2, read_msg("out.h5", MKT_DELIVER_ALL, names[i]));
        opened(2);
    }
    say(3, read_msg("out.h5", MKT_DELIVER_ALL, "d"));
    take_error(3, MKT_NO_SPACE, "max_readers");
}

/* ---- the queue ---- */

static void test_consumed_versions_go_but_for_the_newest(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 5);
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write_versions(1, write, 3);
    assert_int_equal(versions(), 3);
    for (uint64_t version = 1; version <= 3; version++)
        reads(2, next, version);
    assert_int_equal(versions(), 1);
}

static void test_full_queue_lets_the_writer_wait_until_a_version_is_read(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 2);
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write_versions(1, write, 2);
    say(1, write);
    has_no_answer(1);
    say(2, next);
    has_no_answer(1); /* open isn't read */
    close_file(2, opened(2).file);
    has_place(1);
    write_version(1, write);
}

static void test_full_queue_fails_the_writer_at_its_deadline(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 1);

    (void)state;
    write.open.stream.queue_timeout_ms = 5000;
    write.open.stream.patience_ms = 2000;
    write_version(1, write);
    say(1, write);
    pass(1999);
    has_no_answer(1);
    pass(1);
    take_error(1, MKT_STALE, "waits for a reader that hasn't come yet");
    write.open.stream.queue_timeout_ms = 3000;
    write.open.stream.patience_ms = 30000;
    reads(2, read_msg("out.h5", MKT_DELIVER_NEXT, "late"), 1);
    write_version(1, write);
    say(1, write);
    pass(3000);
    take_error(1, MKT_TIMED_OUT, "waits for reader 'late' (prog, pid 102)");
}

static void test_queue_of_a_set_counts_all_its_files(void **state)
{
    (void)state;
    write_version(1, write_msg("plt1.h5", "plt*.h5", 2));
    write_version(1, write_msg("plt2.h5", "plt*.h5", 2));
    say(1, write_msg("plt3.h5", "plt*.h5", 2));
    has_no_answer(1);
    say(3, write_msg("other.h5", "other*", 2)); /* another stream */
    opened(3);
    reads(2, read_msg("plt2.h5", MKT_DELIVER_LATEST, "a"), 1);
    has_place(1);
    write_version(1, write_msg("plt3.h5", "plt*.h5", 2));
    reads(2, read_msg("plt1.h5", MKT_DELIVER_LATEST, "a"), 1);
    say(2, read_msg("plt1.h5", MKT_DELIVER_LATEST, "a"));
    take_error(2, MKT_NOT_FOUND, ""); /* read, and gone */
}

static void test_queue_does_not_wait_for_a_reader_that_has_gone(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 2);

    (void)state;
    write_version(1, write);
    reads(2, read_msg("out.h5", MKT_DELIVER_NEXT, "a"), 1);
    write_versions(1, write, 2);
    say(1, write);
    end_session(2);
    has_no_answer(1); /* it may come again */
    pass(GRACE_MS);
    has_place(1);
    write_versions(1, write, 3);
    assert_int_equal(versions(), 2); /* as many as the queue takes, for when it comes */
    say(3, read_msg("out.h5", MKT_DELIVER_NEXT, "a"));
    struct mkt_msg_opened file = opened(3);
    assert_int_equal(file.version, 5);
    assert_int_equal(file.skipped, 3);
}

static void test_queue_waits_for_as_many_readers_as_are_wanted(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 1);

    (void)state;
    write.open.stream.readers = 2;
    write_version(1, write);
    reads(2, read_msg("out.h5", MKT_DELIVER_NEXT, "a"), 1);
    say(1, write);
    has_no_answer(1);
    reads(3, read_msg("out.h5", MKT_DELIVER_NEXT, "b"), 1);
    has_place(1);
}

/* ---- the end ---- */

static void test_end_is_told_once_all_was_read(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 5);
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write_versions(1, write, 2);
    say(3, end_msg("out.h5"));
    take(3, MKT_MSG_ENDED);
    reads(2, next, 1);
    reads(2, next, 2);
    say(2, next);
    take_error(2, MKT_END, "end of stream");
    write_version(1, write);
    reads(2, next, 3); /* it began anew */
    say(2, next);
    has_no_answer(2);
}

static void test_end_wakes_who_waits(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "", 0);
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write_version(1, write);
    reads(2, next, 1);
    say(2, next);
    has_no_answer(2);
    say(3, end_msg(""));
    take(3, MKT_MSG_ENDED);
    take_error(2, MKT_END, "end of stream");
}

static void test_end_by_count(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 5);
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write.open.stream.end_after = 2;
    write_versions(1, write, 2);
    reads(2, next, 1);
    reads(2, next, 2);
    say(2, next);
    take_error(2, MKT_END, "end of stream");
}

static void test_end_at_the_last_writers_exit(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 5);
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write.open.stream.end_after = MKT_END_AT_EXIT;
    write_version(1, write);
    write_version(3, write);
    reads(2, next, 1);
    reads(2, next, 2);
    end_session(1);
    say(2, next);
    has_no_answer(2);
    end_session(3);
    take_error(2, MKT_END, "end of stream");
}

/* A file of the set that never came. */
static void test_end_of_a_set_counts_for_all_its_paths(void **state)
{
    struct mkt_msg read = read_msg("plt2.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write_version(1, write_msg("plt1.h5", "plt*.h5", 5));
    read.open.wait_ms = 60000;
    say(2, read);
    has_no_answer(2);
    say(3, end_msg("plt*.h5"));
    take(3, MKT_MSG_ENDED);
    take_error(2, MKT_END, "end of stream");
}

static void test_end_of_nothing_is_an_error(void **state)
{
    (void)state;
    say(3, end_msg("nothing*"));
    take_error(3, MKT_NOT_FOUND, "nothing");
}

static void test_writer_that_has_it_open_is_waited_for_after_an_end(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 5);
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    write_version(1, write);
    say(1, write);
    struct mkt_msg_opened file = opened(1);
    say(3, end_msg("out.h5"));
    take(3, MKT_MSG_ENDED);
    reads(2, next, 1);
    say(2, next);
    has_no_answer(2);
    commit(1, &file);
    take(1, MKT_MSG_COMMITTED);
    close_file(2, opened(2).file);
    say(2, next);
    take_error(2, MKT_END, "end of stream");
}

/* A rule says that the path is a stream: what stands on disk from before isn't of it. */
static void test_old_file_on_disk_is_not_of_the_stream(void **state)
{
    struct mkt_msg next = read_msg("out.h5", MKT_DELIVER_NEXT, "a");

    (void)state;
    next.open.name.file.ino = 99;
    say(2, next);
    assert_int_equal(opened(2).source, MKT_SOURCE_NATIVE); /* for all its files: as ever */
    next.open.stream.only = true;
    next.open.wait_ms = 100;
    say(2, next);
    has_no_answer(2);
    pass(100);
    take_error(2, MKT_TIMED_OUT, "");
}

/* What an observer without a name opens isn't counted. */
static void test_unnamed_reader_consumes_nothing(void **state)
{
    struct mkt_msg write = write_msg("out.h5", "out.h5", 1);

    (void)state;
    write_version(1, write);
    reads(2, open_msg("out.h5", MKT_INTENT_READ), 1);
    say(1, write);
    has_no_answer(1);
}

#define STREAM_TEST(name) cmocka_unit_test_setup_teardown(name, setup_streams, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STREAM_TEST(test_next_gives_each_version_once_in_order),
        STREAM_TEST(test_reader_that_has_had_all_times_out),
        STREAM_TEST(test_latest_is_as_without_a_stream),
        STREAM_TEST(test_position_outlives_the_readers_process),
        STREAM_TEST(test_version_of_a_dead_reader_is_delivered_again),
        STREAM_TEST(test_versions_gone_before_are_counted_and_said_once),
        STREAM_TEST(test_all_keeps_what_its_reader_has_not_had),
        STREAM_TEST(test_all_keeps_nothing_for_a_reader_that_has_gone),
        STREAM_TEST(test_every_gives_the_first_and_each_nth_after_it),
        STREAM_TEST(test_ranks_of_a_group_get_the_same_version),
        STREAM_TEST(test_version_that_its_program_never_got_is_delivered_again),
        STREAM_TEST(test_group_that_loses_a_rank_has_not_read),
        STREAM_TEST(test_too_many_readers_are_refused_by_name),
        STREAM_TEST(test_consumed_versions_go_but_for_the_newest),
        STREAM_TEST(test_full_queue_lets_the_writer_wait_until_a_version_is_read),
        STREAM_TEST(test_full_queue_fails_the_writer_at_its_deadline),
        STREAM_TEST(test_queue_of_a_set_counts_all_its_files),
        STREAM_TEST(test_queue_does_not_wait_for_a_reader_that_has_gone),
        STREAM_TEST(test_queue_waits_for_as_many_readers_as_are_wanted),
        STREAM_TEST(test_end_is_told_once_all_was_read),
        STREAM_TEST(test_end_wakes_who_waits),
        STREAM_TEST(test_end_by_count),
        STREAM_TEST(test_end_at_the_last_writers_exit),
        STREAM_TEST(test_end_of_a_set_counts_for_all_its_paths),
        STREAM_TEST(test_end_of_nothing_is_an_error),
        STREAM_TEST(test_writer_that_has_it_open_is_waited_for_after_an_end),
        STREAM_TEST(test_old_file_on_disk_is_not_of_the_stream),
        STREAM_TEST(test_unnamed_reader_consumes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
