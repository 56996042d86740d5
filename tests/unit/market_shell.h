/* SPDX-License-Identifier: BSD-3-Clause */
/* A market in a test's hand: it says messages, takes answers, moves the clock, and audits after
 * every step. */
#ifndef MKT_TESTS_UNIT_MARKET_SHELL_H
#define MKT_TESTS_UNIT_MARKET_SHELL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/market/market.h"

#define ARENA    (1u << 20)
#define ARENAS   8
#define REPLIES  64
#define SESSIONS 6

/* The shell: keeps what the market said until a test takes it. */
struct reply {
    uint64_t session;
    struct mkt_msg msg;
    struct mkt_extent populate;
    char text[MKT_ERROR_TEXT_BYTES];
};
static struct {
    struct mkt_market *market;
    struct mkt_market_limits limits;
    uint8_t *arena[ARENAS];
    uint32_t arena_node[ARENAS];
    struct reply reply[REPLIES];
    unsigned replies, dropped_stubs, refused;
    uint8_t last_dropped[MKT_ID_BYTES];
    uint64_t now;
    enum mkt_status no_arena; /* what the next request for an arena ends with */
} shell;

static inline void on_send(void *context, uint64_t session, const struct mkt_msg *msg,
                           const struct mkt_extent *populate)
{
    struct reply *reply = &shell.reply[shell.replies++];

    (void)context;
    assert_true(shell.replies <= REPLIES);
    *reply = (struct reply){.session = session, .msg = *msg, .populate = *populate};
    if (msg->type == MKT_MSG_ERROR)
        snprintf(reply->text, sizeof(reply->text), "%.*s", (int)msg->error.text.length,
                 (const char *)msg->error.text.data);
    if (msg->type == MKT_MSG_OPENED && msg->opened.notice.length > 0)
        snprintf(reply->text, sizeof(reply->text), "%.*s", (int)msg->opened.notice.length,
                 (const char *)msg->opened.notice.data);
}

static inline void on_write(void *context, const struct mkt_extent *extent, const void *bytes)
{
    (void)context;
    memcpy(shell.arena[extent->arena - 1] + extent->offset, bytes, extent->length);
}

static inline enum mkt_status on_grow(void *context, uint32_t arena, uint32_t node,
                                      uint64_t size_bytes, struct mkt_error *error)
{
    (void)context;
    if (shell.no_arena)
        return mkt_error_set(error, shell.no_arena, "mapping it: out of it (a knob)");
    assert_true(arena >= 1 && arena <= ARENAS);
    mkt_error_set(error, MKT_NO_MEMORY, "on the way to a failure"); /* means nothing */
    shell.arena[arena - 1] = calloc(1, size_bytes);
    shell.arena_node[arena - 1] = node;
    return MKT_OK;
}

static inline void on_drop_stub(void *context, const uint8_t object[MKT_ID_BYTES])
{
    (void)context;
    shell.dropped_stubs++;
    memcpy(shell.last_dropped, object, MKT_ID_BYTES);
}

static inline void on_refuse(void *context, uint64_t session, const char *why)
{
    (void)context;
    (void)session;
    assert_non_null(why);
    shell.refused++;
}

static const struct mkt_market_limits default_limits = {.memory_bytes = 2 * ARENA,
                                                        .arena_bytes = ARENA,
                                                        .scratch_bytes = 4096,
                                                        .full_timeout_ms = 1000,
                                                        .join_timeout_ms = 500,
                                                        .commit_timeout_ms = 2000,
                                                        .max_objects = 16,
                                                        .max_groups = 32,
                                                        .max_waiting = 8,
                                                        .max_pieces = 100};

static inline void start(const struct mkt_market_limits *limits)
{
    static const struct mkt_market_ops ops = {.send = on_send,
                                              .write = on_write,
                                              .grow = on_grow,
                                              .drop_stub = on_drop_stub,
                                              .refuse = on_refuse};

    memset(&shell, 0, sizeof(shell));
    shell.now = 10000;
    shell.limits = *limits;
    shell.market = mkt_market_create(limits, &ops, NULL);
    assert_non_null(shell.market);
    for (unsigned s = 1; s <= SESSIONS; s++)
        assert_int_equal(mkt_market_session_begin(shell.market, s, "prog", 100 + s, MKT_NO_NODE),
                         MKT_OK);
}

static inline int setup(void **state)
{
    (void)state;
    start(&default_limits);
    return 0;
}

static inline void ignore_drop_stub(void *context, const uint8_t object[MKT_ID_BYTES])
{
    (void)context;
    (void)object;
}

static inline enum mkt_status grow_again(void *context, uint32_t arena, uint32_t node,
                                         uint64_t size_bytes, struct mkt_error *error)
{
    (void)context;
    (void)size_bytes;
    (void)error;
    assert_true(arena >= 1 && arena <= ARENAS && shell.arena[arena - 1]);
    assert_int_equal(node, shell.arena_node[arena - 1]);
    return MKT_OK;
}

/* A market restored from a dump is the same to the byte. */
static inline void dump_and_restore(void)
{
    enum {
        ROOM = 4 << 20
    };
    static const struct mkt_market_ops ops = {
        .send = on_send, .grow = grow_again, .drop_stub = ignore_drop_stub};
    struct mkt_market *again = mkt_market_create(&shell.limits, &ops, NULL);
    uint8_t *one = malloc(ROOM), *other = malloc(ROOM);
    struct mkt_error error;
    size_t bytes, other_bytes;

    assert_true(again && one && other);
    assert_int_equal(mkt_market_dump(shell.market, one, ROOM, &bytes), MKT_OK);
    if (mkt_market_restore(again, one, bytes, &error) != MKT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(mkt_market_dump(again, other, ROOM, &other_bytes), MKT_OK);
    assert_int_equal(bytes, other_bytes);
    assert_memory_equal(one, other, bytes);
    assert_int_equal(mkt_market_audit(again, &error), MKT_OK);
    mkt_market_destroy(again);
    free(one);
    free(other);
}

static inline void audit(void)
{
    dump_and_restore();

    struct mkt_error error = {0};

    if (mkt_market_audit(shell.market, &error) != MKT_OK)
        fail_msg("audit: %s", error.text);
}

static inline int teardown(void **state)
{
    (void)state;
    audit();
    mkt_market_destroy(shell.market);
    for (unsigned a = 0; a < ARENAS; a++)
        free(shell.arena[a]);
    return 0;
}

static inline void say(uint64_t session, struct mkt_msg msg)
{
    static uint64_t request;

    if (msg.request == 0)
        msg.request = 1000000 + ++request;
    mkt_market_message(shell.market, session, &msg, shell.now);
    audit();
}

static inline void pass(uint64_t ms)
{
    shell.now += ms;
    mkt_market_tick(shell.market, shell.now);
    audit();
}

/* The oldest reply to the session, taken out; fails if there is none or of another type. */
static inline struct reply take(uint64_t session, enum mkt_msg_type type)
{
    for (unsigned i = 0; i < shell.replies; i++) {
        struct reply reply = shell.reply[i];

        if (reply.session != session)
            continue;
        if (reply.msg.type != type)
            fail_msg("session %d got type %d (%s), not %d", (int)session, reply.msg.type,
                     reply.text, type);
        memmove(&shell.reply[i], &shell.reply[i + 1], (shell.replies - i - 1) * sizeof(reply));
        shell.replies--;
        return reply;
    }
    fail_msg("session %d got no reply", (int)session);
    return (struct reply){0};
}

static inline struct reply take_error(uint64_t session, enum mkt_status status, const char *part)
{
    struct reply reply = take(session, MKT_MSG_ERROR);

    if (reply.msg.error.status != status)
        fail_msg("%s: %s", mkt_status_name(reply.msg.error.status), reply.text);
    if (!strstr(reply.text, part))
        fail_msg("'%s' is not in '%s'", part, reply.text);
    return reply;
}

static inline uint64_t used(void)
{
    struct mkt_market_usage usage;

    mkt_market_usage(shell.market, &usage);
    return usage.used_bytes;
}

/* ---- requests ---- */

static inline struct mkt_bytes text(const char *string)
{
    return (struct mkt_bytes){string, (uint32_t)strlen(string)};
}

static inline struct mkt_msg open_msg(const char *leaf, enum mkt_intent intent)
{
    struct mkt_msg msg = {.type = MKT_MSG_OPEN};

    msg.open.size = 1;
    msg.open.intent = intent;
    msg.open.mode = MKT_MODE_MEMORY;
    msg.open.name.parent_dev = 1;
    msg.open.name.parent_ino = 2;
    msg.open.name.leaf = text(leaf);
    msg.open.name.path = text(leaf);
    return msg;
}

static inline struct mkt_msg stub_msg(const char *leaf, enum mkt_intent intent, uint8_t id)
{
    struct mkt_msg msg = open_msg(leaf, intent);

    msg.open.has_stub = true;
    msg.open.name.object[0] = id;
    return msg;
}

static inline struct mkt_msg in_group(struct mkt_msg msg, uint8_t token, uint32_t rank,
                                      uint32_t size)
{
    msg.open.token[0] = token;
    msg.open.rank = rank;
    msg.open.size = size;
    return msg;
}

static inline struct mkt_msg_opened opened(uint64_t session)
{
    return take(session, MKT_MSG_OPENED).msg.opened;
}

static inline struct mkt_extent granted(uint64_t session, uint64_t bytes)
{
    say(session, (struct mkt_msg){.type = MKT_MSG_GRANT, .grant = {bytes, 0}});
    return take(session, MKT_MSG_GRANTED).msg.extent.extent;
}

#endif
