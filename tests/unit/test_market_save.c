/* SPDX-License-Identifier: BSD-3-Clause */
/* Saving, the drain before the market's end, and who hears of what fails, message by message. */
#include "tests/unit/market_shell.h"

enum {
    WRITER = 1,
    OTHER = 2,
    ARCHIVER = 5,
    ENDER = 6
};

static struct mkt_msg create(const char *leaf, uint8_t id, enum mkt_mode mode, bool backup)
{
    struct mkt_msg msg = stub_msg(leaf, MKT_INTENT_CREATE, id);

    msg.open.mode = mode;
    msg.open.backup = backup;
    return msg;
}

static struct mkt_msg with_priority(struct mkt_msg msg, uint32_t priority)
{
    msg.open.priority = priority;
    return msg;
}

/* Writes a version of an image alone; returns the notice that came with the open. */
static const char *put(uint64_t session, struct mkt_msg open)
{
    static char notice[MKT_ERROR_TEXT_BYTES];

    say(session, open);
    struct reply reply = take(session, MKT_MSG_OPENED);
    struct mkt_msg commit = {.type = MKT_MSG_COMMIT};
    memcpy(notice, reply.text, sizeof(notice));
    commit.commit.file = reply.msg.opened.file;
    commit.commit.image = granted(session, 128);
    say(session, commit);
    take(session, MKT_MSG_COMMITTED);
    say(session,
        (struct mkt_msg){.type = MKT_MSG_RELEASE, .release = {1, &reply.msg.opened.scratch}});
    return notice;
}

static struct mkt_msg_save_order ordered(uint8_t id)
{
    pass(50); /* programs rename and remove what they have just closed */
    say(ARCHIVER, (struct mkt_msg){.type = MKT_MSG_SAVE_NEXT, .save_next = {.wait_ms = 100}});
    struct mkt_msg_save_order order = take(ARCHIVER, MKT_MSG_SAVE_ORDER).msg.save_order;
    assert_int_equal(order.object[0], id);
    return order;
}

static void done(const struct mkt_msg_save_order *order, enum mkt_status status, const char *why)
{
    struct mkt_msg msg = {.type = MKT_MSG_SAVE_DONE};

    msg.save_done.version = order->version;
    memcpy(msg.save_done.object, order->object, MKT_ID_BYTES);
    msg.save_done.status = status;
    msg.save_done.text = text(why);
    if (status == MKT_OK)
        msg.save_done.file =
            (struct mkt_file_identity){.dev = 1, .ino = 100 + order->object[0], .size = 5};
    say(ARCHIVER, msg);
    take(ARCHIVER, MKT_MSG_SAVE_NOTED);
}

static void saved(uint8_t id)
{
    struct mkt_msg_save_order order = ordered(id);

    done(&order, MKT_OK, "");
}

static void nothing_to_save(void)
{
    say(ARCHIVER, (struct mkt_msg){.type = MKT_MSG_SAVE_NEXT, .save_next = {.wait_ms = 1}});
    pass(2);
    take_error(ARCHIVER, MKT_TIMED_OUT, "nothing is to be saved");
}

/* ---- tests ---- */

static void test_drain_saves_backups_first_and_lets_nobody_write(void **state)
{
    (void)state;
    put(WRITER, with_priority(create("both", 1, MKT_MODE_BOTH, false), 9));
    put(WRITER, create("memory", 2, MKT_MODE_MEMORY, false));
    put(WRITER, create("late backup", 3, MKT_MODE_BOTH, true));
    put(WRITER, with_priority(create("memory with backup", 4, MKT_MODE_MEMORY, true), 2));
    say(ENDER, (struct mkt_msg){.type = MKT_MSG_DRAIN});
    take(ENDER, MKT_MSG_DRAINING);
    say(WRITER, create("new", 5, MKT_MODE_BOTH, false));
    take_error(WRITER, MKT_BUSY, "'new' was not opened for writing: the market is ending");
    say(WRITER, stub_msg("both", MKT_INTENT_READ_WRITE, 1));
    take_error(WRITER, MKT_BUSY, "the market is ending");
    saved(4);
    saved(3);
    saved(1);
    nothing_to_save();
    say(OTHER, stub_msg("memory", MKT_INTENT_READ, 2));
    assert_int_equal(opened(OTHER).source, MKT_SOURCE_VERSION);
}

static void test_drain_ends_with_its_session(void **state)
{
    (void)state;
    say(ENDER, (struct mkt_msg){.type = MKT_MSG_DRAIN});
    say(ENDER, (struct mkt_msg){.type = MKT_MSG_DRAIN}); /* twice counts once */
    mkt_market_session_end(shell.market, ENDER, shell.now);
    audit();
    put(WRITER, create("memory", 1, MKT_MODE_MEMORY, true));
    nothing_to_save();
}

static void test_drain_saves_what_is_closed_meanwhile(void **state)
{
    struct mkt_msg commit = {.type = MKT_MSG_COMMIT};

    (void)state;
    say(WRITER, create("memory", 1, MKT_MODE_MEMORY, true));
    commit.commit.file = opened(WRITER).file;
    commit.commit.image = granted(WRITER, 128);
    say(ENDER, (struct mkt_msg){.type = MKT_MSG_DRAIN});
    say(WRITER, commit);
    take(WRITER, MKT_MSG_COMMITTED);
    saved(1);
}

static void test_drain_tries_at_once_what_failed(void **state)
{
    (void)state;
    put(WRITER, create("a", 1, MKT_MODE_BOTH, false));
    struct mkt_msg_save_order order = ordered(1);
    done(&order, MKT_NO_SPACE, "the disk is full");
    nothing_to_save();
    say(ENDER, (struct mkt_msg){.type = MKT_MSG_DRAIN});
    saved(1);
}

static void test_notice_goes_once_to_writer_and_successor(void **state)
{
    (void)state;
    assert_string_equal(put(WRITER, create("a", 1, MKT_MODE_BOTH, false)), "");
    struct mkt_msg_save_order order = ordered(1);
    done(&order, MKT_NO_SPACE, "the disk is full");
    assert_string_equal(put(OTHER, create("b", 2, MKT_MODE_MEMORY, false)), "");
    assert_string_equal(put(WRITER, create("c", 3, MKT_MODE_MEMORY, false)),
                        "'a' is not on disk yet, it stays in memory: the disk is full");
    assert_string_equal(put(WRITER, create("d", 4, MKT_MODE_MEMORY, false)), "");
    pass(2000);
    order = ordered(1);
    done(&order, MKT_NO_SPACE, "the disk is full"); /* nothing new */
    assert_string_equal(put(WRITER, create("c", 3, MKT_MODE_MEMORY, false)), "");
    pass(4000);
    order = ordered(1);
    done(&order, MKT_DENIED, "no permission");
    assert_string_equal(put(OTHER, create("a", 1, MKT_MODE_BOTH, false)),
                        "'a' is not on disk yet, it stays in memory: no permission");
    assert_string_equal(put(WRITER, create("d", 4, MKT_MODE_MEMORY, false)), "");
}

static void test_wait_for_own_files_ends_with_them(void **state)
{
    struct mkt_msg wait = {.type = MKT_MSG_SAVE_WAIT, .save_wait = {.own = true, .wait_ms = 1000}};

    (void)state;
    put(WRITER, create("a", 1, MKT_MODE_BOTH, false));
    put(OTHER, create("b", 2, MKT_MODE_BOTH, false));
    say(WRITER, wait);
    say(ENDER, wait); /* it wrote nothing */
    assert_int_equal(take(ENDER, MKT_MSG_SAVE_STATE).msg.save_state.files, 0);
    saved(1);
    assert_int_equal(take(WRITER, MKT_MSG_SAVE_STATE).msg.save_state.files, 0);
    say(OTHER, wait);
    pass(1001);
    assert_int_equal(take(OTHER, MKT_MSG_SAVE_STATE).msg.save_state.files, 1);
}

static void test_failed_version_with_a_successor_is_not_tried_again(void **state)
{
    struct mkt_msg open = create("a", 1, MKT_MODE_BOTH, false);

    (void)state;
    open.open.keep = 2;
    open.open.set = text("a");
    put(WRITER, open);
    struct mkt_msg_save_order order = ordered(1);
    done(&order, MKT_NO_SPACE, "the disk is full");
    put(WRITER, open);
    order = ordered(1);
    assert_int_equal(order.version, 2);
    done(&order, MKT_OK, "");
    pass(2000);
    nothing_to_save();
}

#define SAVE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SAVE_TEST(test_drain_saves_backups_first_and_lets_nobody_write),
        SAVE_TEST(test_drain_ends_with_its_session),
        SAVE_TEST(test_drain_saves_what_is_closed_meanwhile),
        SAVE_TEST(test_drain_tries_at_once_what_failed),
        SAVE_TEST(test_notice_goes_once_to_writer_and_successor),
        SAVE_TEST(test_wait_for_own_files_ends_with_them),
        SAVE_TEST(test_failed_version_with_a_successor_is_not_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
