/* SPDX-License-Identifier: BSD-3-Clause */
/* Real files that are brought into memory, message by message. */
#include "tests/unit/market_shell.h"

#define FILE_BYTES 1000u

static struct mkt_msg file_msg(enum mkt_intent intent, uint64_t size)
{
    struct mkt_msg msg = open_msg("real.h5", intent);

    msg.open.mode = MKT_MODE_BOTH;
    msg.open.name.file.dev = 1;
    msg.open.name.file.ino = 77;
    msg.open.name.file.size = size;
    msg.open.name.file.mtime_ns = 5;
    return msg;
}

static struct mkt_msg load_msg(uint64_t size)
{
    return file_msg(MKT_INTENT_LOAD, size);
}

static struct mkt_msg_opened may_load(uint64_t session, uint64_t size)
{
    struct reply reply = take(session, MKT_MSG_OPENED);

    assert_int_equal(reply.msg.opened.source, MKT_SOURCE_EMPTY);
    assert_true(reply.msg.opened.scratch.length >= size);
    assert_true(reply.populate.length >= size); /* its pages are there when the answer is */
    return reply.msg.opened;
}

static void source_is(uint64_t session, enum mkt_source source)
{
    assert_int_equal(opened(session).source, source);
}

static struct mkt_msg loaded_msg(const struct mkt_msg_opened *file, uint64_t size)
{
    struct mkt_msg msg = {.type = MKT_MSG_COMMIT};

    msg.commit.file = file->file;
    msg.commit.image = file->scratch;
    msg.commit.image.length = size;
    return msg;
}

static void load(uint64_t session, uint64_t size)
{
    say(session, load_msg(size));
    struct mkt_msg_opened file = may_load(session, size);
    say(session, loaded_msg(&file, size));
    take(session, MKT_MSG_COMMITTED);
}

static void close_file(uint64_t session, uint64_t file)
{
    say(session, (struct mkt_msg){.type = MKT_MSG_CLOSE, .file = {.file = file}});
}

static void give_back(uint64_t session, const struct mkt_extent *extent)
{
    say(session, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, extent}});
}

static uint64_t unsaved(void)
{
    struct mkt_market_usage usage;

    mkt_market_usage(shell.market, &usage);
    return usage.unsaved_versions;
}

static void test_load_gives_readers_a_version_that_owes_nothing(void **state)
{
    (void)state;
    load(1, FILE_BYTES);
    assert_int_equal(unsaved(), 0);
    say(2, load_msg(FILE_BYTES));
    source_is(2, MKT_SOURCE_VERSION);
    say(2, file_msg(MKT_INTENT_READ, FILE_BYTES));
    struct mkt_msg_opened read = opened(2);
    assert_int_equal(read.source, MKT_SOURCE_VERSION);
    assert_int_equal(read.image.length, FILE_BYTES);
    close_file(2, read.file);
    say(2, file_msg(MKT_INTENT_PROBE, FILE_BYTES));
    source_is(2, MKT_SOURCE_VERSION);
    /* Another file stands there now: the version goes, and that one may be loaded. */
    load(2, FILE_BYTES + 1);
    say(3, file_msg(MKT_INTENT_READ, FILE_BYTES + 1));
    assert_int_equal(opened(3).image.length, FILE_BYTES + 1);
}

static void test_load_by_two_is_done_by_one(void **state)
{
    (void)state;
    say(1, load_msg(FILE_BYTES));
    struct mkt_msg_opened first = may_load(1, FILE_BYTES);
    say(2, load_msg(FILE_BYTES));
    say(3, load_msg(FILE_BYTES));
    assert_int_equal(shell.replies, 0);
    /* The first fails: the second does it, the third gets what that brought. */
    close_file(1, first.file);
    give_back(1, &first.scratch);
    struct mkt_msg_opened second = may_load(2, FILE_BYTES);
    assert_int_equal(shell.replies, 0);
    say(2, loaded_msg(&second, FILE_BYTES));
    take(2, MKT_MSG_COMMITTED);
    source_is(3, MKT_SOURCE_VERSION);
}

static void test_load_that_takes_long_keeps_nobody(void **state)
{
    (void)state;
    say(1, load_msg(FILE_BYTES));
    may_load(1, FILE_BYTES);
    say(2, file_msg(MKT_INTENT_READ, FILE_BYTES));
    source_is(2, MKT_SOURCE_NATIVE);
    say(2, file_msg(MKT_INTENT_PROBE, FILE_BYTES));
    source_is(2, MKT_SOURCE_NATIVE);
    say(2, load_msg(FILE_BYTES));
    pass(default_limits.commit_timeout_ms - 1);
    assert_int_equal(shell.replies, 0);
    pass(1);
    source_is(2, MKT_SOURCE_NATIVE);
}

static void test_load_gives_way_to_a_writer(void **state)
{
    uint64_t before = used();

    (void)state;
    say(1, load_msg(FILE_BYTES));
    struct mkt_msg_opened file = may_load(1, FILE_BYTES);
    say(2, file_msg(MKT_INTENT_CREATE, FILE_BYTES));
    struct mkt_msg_opened created = opened(2);
    assert_int_equal(created.source, MKT_SOURCE_EMPTY);
    say(1, loaded_msg(&file, FILE_BYTES));
    take_error(1, MKT_POISONED, "opened for writing");
    close_file(2, created.file);
    give_back(2, &created.scratch);
    assert_int_equal(used(), before);
}

static void test_load_without_room_is_native(void **state)
{
    (void)state;
    say(1, load_msg(default_limits.arena_bytes + 1));
    source_is(1, MKT_SOURCE_NATIVE);
    say(1, load_msg(0));
    source_is(1, MKT_SOURCE_NATIVE);
    assert_int_equal(used(), 0);
    /* What is loaded gives way to what is written. */
    load(1, default_limits.arena_bytes);
    granted(2, default_limits.arena_bytes);
    granted(2, default_limits.arena_bytes);
    say(3, file_msg(MKT_INTENT_READ, default_limits.arena_bytes));
    source_is(3, MKT_SOURCE_NATIVE);
    say(3, load_msg(FILE_BYTES));
    source_is(3, MKT_SOURCE_NATIVE);
}

static void test_loaded_file_is_written_in_memory_if_a_copy_fits(void **state)
{
    uint64_t most = default_limits.memory_bytes / MKT_LOAD_PART_TO_WRITE;
    struct mkt_msg open = file_msg(MKT_INTENT_READ_WRITE, most);

    (void)state;
    load(1, most);
    open.open.read_only = true;
    say(1, open);
    take_error(1, MKT_DENIED, "real.h5");
    open.open.read_only = false;
    say(1, open);
    struct mkt_msg_opened file = opened(1);
    assert_int_equal(file.source, MKT_SOURCE_VERSION);
    close_file(1, file.file);
    give_back(1, &file.scratch);
    /* Two ranks would need two. */
    say(1, in_group(open, 9, 0, 2));
    say(2, in_group(open, 9, 1, 2));
    source_is(1, MKT_SOURCE_NATIVE);
    source_is(2, MKT_SOURCE_NATIVE);
    assert_int_equal(used(), 0);
}

static void test_group_waits_for_the_rank_that_loads(void **state)
{
    struct mkt_msg open = file_msg(MKT_INTENT_READ, FILE_BYTES), first = load_msg(FILE_BYTES);

    (void)state;
    first.open.token[0] = 9;
    say(2, in_group(open, 9, 1, 2));
    say(1, first);
    struct mkt_msg_opened file = may_load(1, FILE_BYTES);
    for (int i = 0; i < 5; i++)
        pass(default_limits.join_timeout_ms);
    assert_int_equal(shell.replies, 0);
    say(1, loaded_msg(&file, FILE_BYTES));
    take(1, MKT_MSG_COMMITTED);
    say(1, in_group(open, 9, 0, 2));
    source_is(1, MKT_SOURCE_VERSION);
    source_is(2, MKT_SOURCE_VERSION);
    /* But not for one that doesn't come. */
    say(2, in_group(open, 8, 1, 2));
    pass(default_limits.join_timeout_ms);
    take_error(2, MKT_TIMED_OUT, "rank 0");
}

static void test_loader_that_dies_leaves_nothing(void **state)
{
    (void)state;
    say(1, load_msg(FILE_BYTES));
    may_load(1, FILE_BYTES);
    say(2, load_msg(FILE_BYTES));
    mkt_market_session_end(shell.market, 1, shell.now);
    audit();
    may_load(2, FILE_BYTES);
    mkt_market_session_end(shell.market, 2, shell.now);
    mkt_market_session_reclaim(shell.market, 1, shell.now);
    mkt_market_session_reclaim(shell.market, 2, shell.now);
    audit();
    assert_int_equal(used(), 0);
}

static void test_removed_file_takes_what_was_loaded_along(void **state)
{
    struct mkt_msg open = file_msg(MKT_INTENT_READ, FILE_BYTES);
    uint8_t object[MKT_ID_BYTES];

    (void)state;
    load(1, FILE_BYTES);
    assert_true(mkt_market_resolve(shell.market, &open.open.name, object));
    assert_true(mkt_market_stub_removed(shell.market, object, false, shell.now));
    audit();
    assert_false(mkt_market_resolve(shell.market, &open.open.name, object));
    assert_int_equal(used(), 0);
    assert_int_equal(shell.dropped_stubs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_load_gives_readers_a_version_that_owes_nothing),
        TEST(test_load_by_two_is_done_by_one),
        TEST(test_load_that_takes_long_keeps_nobody),
        TEST(test_load_gives_way_to_a_writer),
        TEST(test_load_without_room_is_native),
        TEST(test_loaded_file_is_written_in_memory_if_a_copy_fits),
        TEST(test_group_waits_for_the_rank_that_loads),
        TEST(test_loader_that_dies_leaves_nothing),
        TEST(test_removed_file_takes_what_was_loaded_along),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
