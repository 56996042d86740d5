/* SPDX-License-Identifier: BSD-3-Clause */
/* Versions that become files, message by message. The order of things that nobody foresees is
 * tests/sim's. */
#include "tests/unit/market_shell.h"

static const struct mkt_file_identity new_file = {.dev = 1, .ino = 500, .size = 900, .mtime_ns = 8};

static struct mkt_msg both_msg(enum mkt_intent intent, uint32_t durability)
{
    struct mkt_msg msg = stub_msg("a.h5", intent, 9);

    msg.open.mode = MKT_MODE_BOTH;
    msg.open.durability = durability;
    return msg;
}

/* Writes a version of an image alone; its answer is not taken. */
static void write_version(uint64_t session, struct mkt_msg open)
{
    struct mkt_msg commit = {.type = MKT_MSG_COMMIT};

    say(session, open);
    struct mkt_msg_opened file = opened(session);
    commit.commit.file = file.file;
    commit.commit.hash = 7;
    commit.commit.image = granted(session, 128);
    say(session, commit);
    if (file.scratch.length > 0)
        say(session, (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &file.scratch}});
}

static struct mkt_msg_save_order order(uint64_t session)
{
    pass(50); /* programs rename and remove what they have just closed */
    say(session, (struct mkt_msg){.type = MKT_MSG_SAVE_NEXT, .save_next = {.wait_ms = 100}});
    return take(session, MKT_MSG_SAVE_ORDER).msg.save_order;
}

static void place_file(uint64_t session, const struct mkt_msg_save_order *order,
                       struct mkt_file_identity file)
{
    struct mkt_msg msg = {.type = MKT_MSG_SAVE_PLACE};

    memcpy(msg.save_place.object, order->object, MKT_ID_BYTES);
    msg.save_place.version = order->version;
    msg.save_place.file = file;
    say(session, msg);
    take(session, MKT_MSG_SAVE_PLACED);
}

static void place(uint64_t session, const struct mkt_msg_save_order *order)
{
    place_file(session, order, new_file);
}

static void done(uint64_t session, const struct mkt_msg_save_order *order, enum mkt_status status,
                 struct mkt_file_identity file)
{
    struct mkt_msg msg = {.type = MKT_MSG_SAVE_DONE};

    memcpy(msg.save_done.object, order->object, MKT_ID_BYTES);
    msg.save_done.version = order->version;
    msg.save_done.status = status;
    msg.save_done.file = file;
    if (status != MKT_OK)
        msg.save_done.text = text("no room");
    say(session, msg);
}

static uint64_t unsaved(void)
{
    struct mkt_market_usage usage;

    mkt_market_usage(shell.market, &usage);
    return usage.unsaved_versions;
}

static void test_close_waits_for_its_file(void **state)
{
    (void)state;
    write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_CLOSE));
    assert_int_equal(shell.replies, 0);
    struct mkt_msg_save_order first = order(3);
    place(3, &first);
    assert_int_equal(shell.replies, 0);
    done(3, &first, MKT_OK, new_file);
    assert_int_equal(take(1, MKT_MSG_COMMITTED).msg.version.version, 1);
    take(3, MKT_MSG_SAVE_NOTED);
    assert_int_equal(unsaved(), 0);
    assert_int_equal(shell.dropped_stubs, 1);
}

static void test_what_was_just_closed_is_not_saved_yet(void **state)
{
    struct mkt_msg next = {.type = MKT_MSG_SAVE_NEXT, .save_next = {.wait_ms = 100}};

    (void)state;
    write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_ASYNC));
    take(1, MKT_MSG_COMMITTED);
    say(3, next);
    assert_int_equal(shell.replies, 0);
    assert_int_equal(mkt_market_next_deadline(shell.market), shell.now + 50);
    pass(49);
    assert_int_equal(shell.replies, 0);
    pass(1);
    assert_int_equal(take(3, MKT_MSG_SAVE_ORDER).msg.save_order.version, 1);
}

static void test_what_is_waited_for_is_saved_at_once(void **state)
{
    struct mkt_msg next = {.type = MKT_MSG_SAVE_NEXT, .save_next = {.wait_ms = 100}};
    struct mkt_msg wait = {.type = MKT_MSG_SAVE_WAIT, .save_wait = {.all = true, .wait_ms = 1000}};

    (void)state;
    write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_ASYNC));
    take(1, MKT_MSG_COMMITTED);
    say(3, next);
    assert_int_equal(shell.replies, 0);
    say(2, wait);
    assert_int_equal(take(3, MKT_MSG_SAVE_ORDER).msg.save_order.version, 1);
}

static void test_close_waits_for_the_file_of_its_successor(void **state)
{
    (void)state;
    write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_CLOSE));
    write_version(2, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_ASYNC));
    assert_int_equal(take(2, MKT_MSG_COMMITTED).msg.version.version, 2);
    assert_int_equal(shell.replies, 0);
    struct mkt_msg_save_order second = order(3);
    assert_int_equal(second.version, 2);
    done(3, &second, MKT_OK, new_file);
    take(1, MKT_MSG_COMMITTED);
}

static void test_close_fails_if_its_file_can_not_be_written(void **state)
{
    (void)state;
    write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_CLOSE));
    struct mkt_msg_save_order first = order(3);
    done(3, &first, MKT_NO_SPACE, (struct mkt_file_identity){.ino = 0});
    take_error(1, MKT_NO_SPACE, "no room");
    assert_int_equal(unsaved(), 1);
}

static void test_placed_file_is_looked_after_before_its_successor(void **state)
{
    (void)state;
    write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_ASYNC));
    struct mkt_msg_save_order first = order(3);
    place(3, &first);
    write_version(2, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_ASYNC));
    mkt_market_session_reclaim(shell.market, 3, shell.now);
    audit();
    struct mkt_msg_save_order again = order(4);
    assert_int_equal(again.version, 1);
    assert_int_equal(again.placed.ino, new_file.ino);
    done(4, &again, MKT_OK, new_file);
    take(4, MKT_MSG_SAVE_NOTED);
    struct mkt_msg_save_order second = order(4);
    assert_int_equal(second.version, 2);
    assert_false(second.has_stub);
    assert_int_equal(second.file.ino, new_file.ino);
    assert_int_equal(second.placed.ino, 0);
}

static void test_file_that_is_not_safe_yet_is_known_at_the_next_attempt(void **state)
{
    (void)state;
    write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_ASYNC));
    struct mkt_msg_save_order first = order(3);
    place(3, &first);
    done(3, &first, MKT_IO_ERROR, new_file);
    take(3, MKT_MSG_SAVE_NOTED);
    pass(1000);
    assert_int_equal(order(3).placed.ino, new_file.ino);
}

static void test_placed_file_leads_to_its_object(void **state)
{
    struct mkt_msg read = open_msg("a.h5", MKT_INTENT_READ);

    (void)state;
    write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_ASYNC));
    struct mkt_msg_save_order first = order(3);
    place(3, &first);
    read.open.name.file.dev = new_file.dev;
    read.open.name.file.ino = new_file.ino;
    say(2, read);
    take(1, MKT_MSG_COMMITTED);
    assert_int_equal(opened(2).source, MKT_SOURCE_VERSION);
}

/* The file of what was withdrawn gets there, for a moment, over the stub of what came after it. */
static void test_placed_file_of_what_was_withdrawn_leads_to_what_is_there_now(void **state)
{
    struct mkt_msg withdraw = {.type = MKT_MSG_WITHDRAW};
    struct mkt_msg read = open_msg("a.h5", MKT_INTENT_READ);

    (void)state;
    write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_NONE));
    take(1, MKT_MSG_COMMITTED);
    struct mkt_msg_save_order first = order(3);
    place(3, &first);
    withdraw.withdraw.name = both_msg(MKT_INTENT_READ, 0).open.name;
    say(1, withdraw);
    take(1, MKT_MSG_WITHDRAWN);
    read.open.name.file = new_file;
    say(2, read);
    assert_int_equal(opened(2).source, MKT_SOURCE_NATIVE);
    struct mkt_msg anew = stub_msg("a.h5", MKT_INTENT_CREATE, 10);
    write_version(1, anew);
    take(1, MKT_MSG_COMMITTED);
    say(2, read);
    struct mkt_msg_opened found = opened(2);
    assert_int_equal(found.source, MKT_SOURCE_VERSION);
    assert_int_equal(found.object[0], 10);
}

/* The inode of the file that a client saw is free after the next save, and used by the one after.
 */
static void test_file_seen_before_two_saves_leads_to_its_object(void **state)
{
    struct mkt_file_identity file = new_file;
    struct mkt_msg append = both_msg(MKT_INTENT_READ_WRITE, MKT_DURABILITY_ASYNC);

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_ASYNC));
        take(1, MKT_MSG_COMMITTED);
        struct mkt_msg_save_order saved = order(3);
        file.ino = new_file.ino + i % 2;
        file.birth_ns = 10 + i;
        place_file(3, &saved, file);
        done(3, &saved, MKT_OK, file);
        take(3, MKT_MSG_SAVE_NOTED);
    }
    memset(append.open.name.object, 0, MKT_ID_BYTES);
    append.open.name.file = new_file;
    append.open.name.file.birth_ns = 10;
    say(2, append);
    struct mkt_msg_opened found = opened(2);
    assert_int_equal(found.source, MKT_SOURCE_VERSION);
    assert_int_equal(found.version, 3);
}

static void test_unsaved_version_stays_when_something_else_replaced_its_stub(void **state)
{
    uint8_t object[MKT_ID_BYTES] = {9};

    (void)state;
    write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_ASYNC));
    assert_true(mkt_market_stub_removed(shell.market, object, true, shell.now));
    audit();
    assert_int_equal(unsaved(), 1);
    assert_false(order(3).has_stub);
}

static void test_saver_that_dies_again_and_again_is_put_off(void **state)
{
    struct mkt_msg other = both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_ASYNC);

    (void)state;
    other.open.name.object[0] = 10;
    other.open.name.leaf = other.open.name.path = text("b.h5");
    write_version(1, both_msg(MKT_INTENT_CREATE, MKT_DURABILITY_ASYNC));
    write_version(2, other);
    assert_int_equal(order(3).object[0], 9);
    mkt_market_session_reclaim(shell.market, 3, shell.now);
    assert_int_equal(order(4).object[0], 9); /* once may be chance */
    mkt_market_session_reclaim(shell.market, 4, shell.now);
    assert_int_equal(order(5).object[0], 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_close_waits_for_its_file),
        TEST(test_what_was_just_closed_is_not_saved_yet),
        TEST(test_what_is_waited_for_is_saved_at_once),
        TEST(test_close_waits_for_the_file_of_its_successor),
        TEST(test_close_fails_if_its_file_can_not_be_written),
        TEST(test_placed_file_is_looked_after_before_its_successor),
        TEST(test_file_that_is_not_safe_yet_is_known_at_the_next_attempt),
        TEST(test_placed_file_leads_to_its_object),
        TEST(test_placed_file_of_what_was_withdrawn_leads_to_what_is_there_now),
        TEST(test_file_seen_before_two_saves_leads_to_its_object),
        TEST(test_unsaved_version_stays_when_something_else_replaced_its_stub),
        TEST(test_saver_that_dies_again_and_again_is_put_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
