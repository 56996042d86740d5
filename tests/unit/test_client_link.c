/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client against a daemon that does all the wrong things: nothing may hang, crash or pass for
 * an answer.
 */
#include "core/client/client.h"
#include "core/wire/mailbox.h"
#include "tests/unit/fake_daemon.h"
#include "tests/unit/random.h"
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include <cmocka.h>

#define SILENCE_MS 400

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static enum mkt_status try_connect(struct fake_daemon *fake, struct mkt_client **client_out,
                                   struct mkt_error *error)
{
    struct mkt_client_options options = {
        .directory = fake->directory, .connect_timeout_ms = 1000, .silence_ms = SILENCE_MS};
    return mkt_client_connect(&options, client_out, error);
}

static struct mkt_client *connect_client(struct fake_daemon *fake)
{
    struct mkt_client *client = NULL;
    struct mkt_error error;
    if (try_connect(fake, &client, &error) != MKT_OK)
        fail_msg("%s", error.text);
    return client;
}

/* One request that wants an answer. */
static enum mkt_status ask(struct mkt_client *client, struct mkt_error *error)
{
    bool superseded;
    memset(error, 0, sizeof(*error));
    return mkt_client_touch(client, 1, 2, 3, &superseded, error);
}

static void wait_for_client_to_go(struct fake_daemon *fake)
{
    char byte;
    while (recv(fake->fd, &byte, 1, 0) > 0)
        ;
}

/* ---- the handshake ---- */

static void script_close(struct fake_daemon *fake)
{
    (void)fake;
}

static void test_link_nobody_listens_is_not_found(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    struct mkt_client_options options = {.directory = "/tmp/mkt-no-such-folder"};
    assert_int_equal(mkt_client_connect(&options, &client, &error), MKT_NOT_FOUND);
    /* A socket that a dead daemon left. */
    struct fake_daemon *fake = fake_start(false, script_close, NULL);
    shutdown(fake->listen_fd, SHUT_RDWR);
    pthread_join(fake->thread, NULL);
    close(fake->listen_fd);
    assert_int_equal(try_connect(fake, &client, &error), MKT_NOT_FOUND);
    assert_non_null(strstr(error.text, fake->directory));
    char path[160];
    snprintf(path, sizeof(path), "%s/socket", fake->directory);
    unlink(path);
    rmdir(fake->directory);
    free(fake);
}

static void test_link_folder_open_to_others_is_denied(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    char link[160];
    struct fake_daemon *fake = fake_start(true, wait_for_client_to_go, NULL);
    assert_int_equal(chmod(fake->directory, 0750), 0);
    assert_int_equal(try_connect(fake, &client, &error), MKT_DENIED);
    assert_non_null(strstr(error.text, "chmod 700"));
    assert_int_equal(chmod(fake->directory, 0700), 0);
    snprintf(link, sizeof(link), "%s.link", fake->directory);
    assert_int_equal(symlink(fake->directory, link), 0);
    struct mkt_client_options options = {.directory = link};
    assert_int_equal(mkt_client_connect(&options, &client, &error), MKT_DENIED);
    unlink(link);
    fake_stop(fake);
}

static void test_link_folder_of_other_user_is_denied(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    if (geteuid() != 0)
        skip(); /* only root can give a folder away */
    struct fake_daemon *fake = fake_start(true, wait_for_client_to_go, NULL);
    assert_int_equal(chown(fake->directory, 12345, 0), 0);
    assert_int_equal(try_connect(fake, &client, &error), MKT_DENIED);
    assert_non_null(strstr(error.text, "12345"));
    assert_int_equal(chown(fake->directory, 0, 0), 0);
    fake_stop(fake);
}

/* A socket's credentials are those of the thread that began to listen. */
static void *listen_as_other_user(void *context)
{
    struct fake_daemon *fake = context;
    fake_require(syscall(SYS_setresuid, 12345, 12345, 12345) == 0, "setresuid");
    fake_require(listen(fake->listen_fd, 16) == 0, "listen");
    return NULL;
}

static void test_link_daemon_of_other_user_is_denied(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    pthread_t thread;
    if (geteuid() != 0)
        skip(); /* only root can become somebody else */
    struct fake_daemon *fake = fake_start(true, wait_for_client_to_go, NULL);
    assert_int_equal(pthread_create(&thread, NULL, listen_as_other_user, fake), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(try_connect(fake, &client, &error), MKT_DENIED);
    assert_non_null(strstr(error.text, "12345"));
    fake_stop(fake);
}

static void test_link_daemon_that_drops_every_connection_ends_in_time(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    struct fake_daemon *fake = fake_start(false, script_close, NULL);
    double start = now_s();
    assert_int_equal(try_connect(fake, &client, &error), MKT_PEER_DOWN);
    assert_true(now_s() - start < 5);
    assert_true(fake->connections > 3); /* it may have been about to leave */
    fake_stop(fake);
}

static void test_link_silent_daemon_times_out_at_connect(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    struct fake_daemon *fake = fake_start(false, wait_for_client_to_go, NULL);
    double start = now_s();
    assert_int_equal(try_connect(fake, &client, &error), MKT_TIMED_OUT);
    double waited = now_s() - start;
    assert_true(waited > 0.3 && waited < 5);
    assert_non_null(strstr(error.text, "h5marketd.log"));
    fake_stop(fake);
}

static void script_other_version(struct fake_daemon *fake)
{
    struct mkt_msg msg;
    if (!fake_receive(fake, &msg))
        return;
    struct mkt_msg reply = {
        .type = MKT_MSG_WELCOME, .request = msg.request, .welcome = {.protocol = 99}};
    fake_send(fake, &reply, -1);
    wait_for_client_to_go(fake);
}

static void test_link_other_protocol_version_is_told_with_remedy(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    struct fake_daemon *fake = fake_start(false, script_other_version, NULL);
    assert_int_equal(try_connect(fake, &client, &error), MKT_PROTOCOL);
    assert_non_null(strstr(error.text, "99"));
    assert_non_null(strstr(error.text, "h5market stop"));
    fake_stop(fake);
}

static void script_refuse_hello(struct fake_daemon *fake)
{
    struct mkt_msg msg;
    if (fake_receive(fake, &msg))
        fake_send_error(fake, msg.request, MKT_INVALID, "my.yaml:3: unknown key 'kep'");
}

static void test_link_error_to_hello_comes_through(void **state)
{
    (void)state;
    struct mkt_client *client;
    struct mkt_error error;
    struct fake_daemon *fake = fake_start(false, script_refuse_hello, NULL);
    assert_int_equal(try_connect(fake, &client, &error), MKT_INVALID);
    assert_string_equal(error.text, "my.yaml:3: unknown key 'kep'");
    fake_stop(fake);
}

static void test_link_folder_with_long_path_works(void **state)
{
    (void)state;
    struct mkt_error error;
    struct mkt_client *client = NULL;
    char path[512], socket_path[600];
    struct fake_daemon *fake = fake_start(true, wait_for_client_to_go, NULL);
    snprintf(path, sizeof(path), "%s/%0150d", fake->directory, 0);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(socket_path, sizeof(socket_path), "%s/socket", path);
    char here[160];
    snprintf(here, sizeof(here), "%s/socket", fake->directory);
    assert_int_equal(link(here, socket_path), 0);
    struct mkt_client_options options = {.directory = path};
    if (mkt_client_connect(&options, &client, &error) != MKT_OK)
        fail_msg("%s", error.text);
    mkt_client_destroy(client);
    unlink(socket_path);
    rmdir(path);
    fake_stop(fake);
}

/* ---- answers ---- */

struct answer {
    const void *bytes;
    size_t length;
    bool request_in_head; /* write the request's number into the frame head */
    bool stay;            /* keep the connection open */
};

static void script_answer(struct fake_daemon *fake)
{
    struct answer *answer = fake->context;
    struct mkt_msg msg;
    uint8_t copy[4096];
    if (!fake_expect(fake, MKT_MSG_TOUCH, &msg))
        return;
    memcpy(copy, answer->bytes, answer->length);
    if (answer->request_in_head)
        memcpy(copy + offsetof(struct mkt_frame_wire, request), &msg.request, sizeof(msg.request));
    fake_send_bytes(fake, copy, answer->length);
    if (answer->stay)
        wait_for_client_to_go(fake);
}

/* The status of one request that is answered so; afterwards the handle must be down and say so at
 * once. */
static enum mkt_status ask_and_get(const void *bytes, size_t length, bool request_in_head,
                                   bool stay, struct mkt_error *error)
{
    struct answer answer = {bytes, length, request_in_head, stay};
    struct fake_daemon *fake = fake_start(true, script_answer, &answer);
    struct mkt_client *client = connect_client(fake);
    struct mkt_error again;
    double start = now_s();
    enum mkt_status status = ask(client, error);
    assert_true(now_s() - start < 5);
    if (status != MKT_OK) {
        assert_true(mkt_client_is_down(client));
        assert_int_equal(ask(client, &again), MKT_PEER_DOWN);
        assert_non_null(strstr(again.text, "h5marketd.log"));
    }
    mkt_client_destroy(client);
    fake_stop(fake);
    return status;
}

static size_t touched_frame(void *frame, size_t capacity)
{
    struct mkt_msg msg = {.type = MKT_MSG_TOUCHED, .request = 1, .touched = {.superseded = true}};
    return fake_encode(&msg, false, frame, capacity);
}

static void test_link_good_answer_is_taken(void **state)
{
    (void)state;
    uint64_t frame[8];
    struct mkt_error error;
    size_t bytes = touched_frame(frame, sizeof(frame));
    assert_int_equal(ask_and_get(frame, bytes, true, true, &error), MKT_OK);
}

static void test_link_end_of_stream_at_every_byte_is_peer_down(void **state)
{
    (void)state;
    uint64_t frame[8];
    struct mkt_error error;
    size_t bytes = touched_frame(frame, sizeof(frame));
    for (size_t cut = 0; cut < bytes; cut++) {
        assert_int_equal(
            ask_and_get(frame, cut, cut >= sizeof(struct mkt_frame_wire), false, &error),
            MKT_PEER_DOWN);
        assert_non_null(strstr(error.text, "h5marketd.log"));
    }
}

static void test_link_half_frame_then_silence_times_out(void **state)
{
    (void)state;
    uint64_t frame[8];
    struct mkt_error error;
    size_t bytes = touched_frame(frame, sizeof(frame));
    assert_int_equal(ask_and_get(frame, bytes - 1, true, true, &error), MKT_TIMED_OUT);
    assert_int_equal(ask_and_get(frame, 10, false, true, &error), MKT_TIMED_OUT);
    assert_int_equal(ask_and_get(frame, 0, false, true, &error), MKT_TIMED_OUT);
    assert_non_null(strstr(error.text, "is it stopped?"));
}

static void test_link_garbage_is_protocol(void **state)
{
    (void)state;
    uint64_t random = 8, garbage[64];
    struct mkt_error error;
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < 64; i++)
            garbage[i] = random_next(&random);
        assert_int_equal(ask_and_get(garbage, sizeof(garbage), false, true, &error), MKT_PROTOCOL);
    }
}

static void test_link_huge_frame_is_protocol(void **state)
{
    (void)state;
    struct mkt_error error;
    struct mkt_frame_wire head = {
        .magic = MKT_FRAME_MAGIC, .bytes = UINT32_MAX, .type = MKT_MSG_TOUCHED};
    assert_int_equal(ask_and_get(&head, sizeof(head), true, true, &error), MKT_PROTOCOL);
    head.bytes = MKT_FRAME_MAX_BYTES;
    assert_int_equal(ask_and_get(&head, sizeof(head), true, true, &error), MKT_PROTOCOL);
}

static void test_link_wrong_type_number_or_descriptor_is_protocol(void **state)
{
    (void)state;
    uint64_t frame[64];
    struct mkt_error error;
    struct mkt_msg msg = {.type = MKT_MSG_ADDED};
    size_t bytes = fake_encode(&msg, false, frame, sizeof(frame));
    assert_int_equal(ask_and_get(frame, bytes, true, true, &error), MKT_PROTOCOL);
    /* A request instead of an answer. */
    msg = (struct mkt_msg){.type = MKT_MSG_TOUCH};
    bytes = fake_encode(&msg, false, frame, sizeof(frame));
    assert_int_equal(ask_and_get(frame, bytes, true, true, &error), MKT_PROTOCOL);
    /* An answer to what was never asked. */
    msg = (struct mkt_msg){.type = MKT_MSG_TOUCHED, .request = 1000};
    bytes = fake_encode(&msg, false, frame, sizeof(frame));
    assert_int_equal(ask_and_get(frame, bytes, false, true, &error), MKT_PROTOCOL);
    /* A descriptor is announced and none comes. */
    msg = (struct mkt_msg){.type = MKT_MSG_MAPPED, .mapped = {.arena = 1, .size_bytes = 4096}};
    bytes = fake_encode(&msg, true, frame, sizeof(frame));
    assert_int_equal(ask_and_get(frame, bytes, true, true, &error), MKT_PROTOCOL);
}

static void test_link_answer_to_earlier_request_is_dropped(void **state)
{
    (void)state;
    uint64_t frame[16];
    struct mkt_error error;
    struct mkt_msg msg = {.type = MKT_MSG_TOUCHED, .request = 1};
    size_t bytes = fake_encode(&msg, false, frame, sizeof(frame));
    /* Number 1 was the HELLO. Nothing else comes, so it must be silence that ends the wait. */
    assert_int_equal(ask_and_get(frame, bytes, false, true, &error), MKT_TIMED_OUT);
}

static void script_drip(struct fake_daemon *fake)
{
    struct mkt_msg msg, reply = {.type = MKT_MSG_TOUCHED};
    uint64_t frame[8];
    if (!fake_expect(fake, MKT_MSG_TOUCH, &msg))
        return;
    reply.request = msg.request;
    size_t bytes = fake_encode(&reply, false, frame, sizeof(frame));
    for (size_t i = 0; i < bytes; i++) {
        fake_send_bytes(fake, (uint8_t *)frame + i, 1);
        poll(NULL, 0, 40);
    }
    wait_for_client_to_go(fake);
}

static void test_link_slow_bytes_are_not_silence(void **state)
{
    (void)state;
    struct mkt_error error;
    struct fake_daemon *fake = fake_start(true, script_drip, NULL);
    struct mkt_client *client = connect_client(fake);
    double start = now_s();
    assert_int_equal(ask(client, &error), MKT_OK);
    assert_true(now_s() - start > SILENCE_MS / 1000.0);
    mkt_client_destroy(client);
    fake_stop(fake);
}

static void script_error(struct fake_daemon *fake)
{
    struct mkt_msg msg;
    while (fake_expect(fake, MKT_MSG_TOUCH, &msg))
        fake_send_error(fake, msg.request, MKT_POISONED, "rank 3 died");
}

static void test_link_error_answer_leaves_connection_usable(void **state)
{
    (void)state;
    struct mkt_error error;
    struct fake_daemon *fake = fake_start(true, script_error, NULL);
    struct mkt_client *client = connect_client(fake);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(client, &error), MKT_POISONED);
        assert_string_equal(error.text, "rank 3 died");
        assert_false(mkt_client_is_down(client));
    }
    mkt_client_destroy(client);
    fake_stop(fake);
}

static void script_say_why(struct fake_daemon *fake)
{
    struct mkt_msg msg;
    if (fake_expect(fake, MKT_MSG_TOUCH, &msg))
        fake_send_error(fake, 0, MKT_PROTOCOL, "it sent nonsense");
}

static void test_link_daemon_that_ends_it_says_why(void **state)
{
    (void)state;
    struct mkt_error error;
    struct fake_daemon *fake = fake_start(true, script_say_why, NULL);
    struct mkt_client *client = connect_client(fake);
    assert_int_equal(ask(client, &error), MKT_PEER_DOWN);
    assert_non_null(strstr(error.text, "it sent nonsense"));
    mkt_client_destroy(client);
    fake_stop(fake);
}

/* ---- descriptors and memory ---- */

static void script_map(struct fake_daemon *fake)
{
    struct mkt_msg *answer = fake->context, msg;
    int fd = memfd_create("arena", MFD_CLOEXEC);
    fake_require(fd >= 0 && ftruncate(fd, 1 << 20) == 0, "memfd");
    while (fake_expect(fake, MKT_MSG_MAP, &msg)) {
        answer->request = msg.request;
        fake_send(fake, answer, fd);
    }
    close(fd);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static enum mkt_status map_with(const struct mkt_msg_mapped *mapped, uint64_t offset,
                                uint64_t length, struct mkt_error *error)
{
    struct mkt_msg answer = {.type = MKT_MSG_MAPPED, .mapped = *mapped};
    struct mkt_extent extent = {.arena = 7, .offset = offset, .length = length};
    struct fake_daemon *fake = fake_start(true, script_map, &answer);
    struct mkt_client *client = connect_client(fake);
    void *address = NULL, *again = NULL;
    unsigned before = open_descriptors();
    enum mkt_status status = mkt_client_map(client, &extent, false, &address, error);
    if (status == MKT_OK) {
        uint64_t trips = mkt_client_round_trips(client);
        assert_int_equal(mkt_client_map(client, &extent, false, &again, error), MKT_OK);
        assert_ptr_equal(address, again);
        assert_true(mkt_client_round_trips(client) == trips);
        /* The script's own memfd may have come or gone meanwhile. */
        assert_true(open_descriptors() <= before + 1);
    }
    mkt_client_destroy(client);
    fake_stop(fake);
    return status;
}

static void test_link_arena_is_mapped_once_and_checked(void **state)
{
    (void)state;
    struct mkt_error error;
    struct mkt_msg_mapped good = {.arena = 7, .size_bytes = 1 << 20};
    assert_int_equal(map_with(&good, 0, 1 << 20, &error), MKT_OK);
    assert_int_equal(map_with(&good, (1 << 20) - 1, 1, &error), MKT_OK);
    assert_int_equal(map_with(&good, 0, (1 << 20) + 1, &error), MKT_PROTOCOL);
    assert_int_equal(map_with(&good, 1 << 20, 1, &error), MKT_PROTOCOL);
    assert_int_equal(map_with(&good, UINT64_MAX, 2, &error), MKT_PROTOCOL);
    assert_int_equal(map_with(&good, 2, UINT64_MAX, &error), MKT_PROTOCOL);
    assert_int_equal(map_with(&good, 0, 0, &error), MKT_INVALID);
    /* Larger than its file: a touch would be SIGBUS. */
    struct mkt_msg_mapped larger = {.arena = 7, .size_bytes = (1 << 20) + 4096};
    assert_int_equal(map_with(&larger, 0, 1, &error), MKT_PROTOCOL);
    struct mkt_msg_mapped other = {.arena = 8, .size_bytes = 1 << 20};
    assert_int_equal(map_with(&other, 0, 1, &error), MKT_PROTOCOL);
    struct mkt_msg_mapped empty = {.arena = 7};
    assert_int_equal(map_with(&empty, 0, 1, &error), MKT_PROTOCOL);
}

/* ---- waits ---- */

static void script_live_but_slow(struct fake_daemon *fake)
{
    struct mkt_msg msg, open = {0};
    unsigned pings = 0;
    while (fake_receive(fake, &msg)) {
        if (msg.type == MKT_MSG_OPEN)
            open.request = msg.request;
        if (msg.type != MKT_MSG_QUERY)
            continue;
        struct mkt_msg answer = {.type = MKT_MSG_ANSWER,
                                 .request = msg.request,
                                 .answer = {.parts = 1, .json = {"{}", 2}}};
        fake_send(fake, &answer, -1);
        if (++pings == 10)
            fake_send_error(fake, open.request, MKT_TIMED_OUT, "nobody wrote it");
    }
}

static void test_link_long_wait_goes_on_while_daemon_lives(void **state)
{
    (void)state;
    struct mkt_error error;
    struct mkt_opened opened;
    struct fake_daemon *fake = fake_start(true, script_live_but_slow, NULL);
    struct mkt_client *client = connect_client(fake);
    struct mkt_open request = {
        .path = "/tmp/mkt-nothing.h5", .intent = MKT_INTENT_READ, .size = 1, .wait_ms = 60000};
    double start = now_s();
    assert_int_equal(mkt_client_open(client, &request, &opened, &error), MKT_TIMED_OUT);
    assert_string_equal(error.text, "nobody wrote it");
    assert_true(now_s() - start > 2 * SILENCE_MS / 1000.0);
    assert_false(mkt_client_is_down(client));
    mkt_client_destroy(client);
    fake_stop(fake);
}

static void test_link_long_wait_ends_when_daemon_falls_silent(void **state)
{
    (void)state;
    struct mkt_error error;
    struct mkt_opened opened;
    struct fake_daemon *fake = fake_start(true, wait_for_client_to_go, NULL);
    struct mkt_client *client = connect_client(fake);
    struct mkt_open request = {
        .path = "/tmp/mkt-nothing.h5", .intent = MKT_INTENT_READ, .size = 1, .wait_ms = 60000};
    double start = now_s();
    assert_int_equal(mkt_client_open(client, &request, &opened, &error), MKT_TIMED_OUT);
    assert_true(now_s() - start < 5);
    assert_true(mkt_client_is_down(client));
    mkt_client_destroy(client);
    fake_stop(fake);
}

static void script_never_read(struct fake_daemon *fake)
{
    struct pollfd poll_fd = {.fd = fake->fd, .events = POLLRDHUP};
    poll(&poll_fd, 1, 10000);
}

static void test_link_full_socket_times_out(void **state)
{
    (void)state;
    struct mkt_error error;
    struct mkt_piece piece = {.form = MKT_PIECE_BOX, .data = {.arena = 1, .length = 8}};
    struct mkt_array array = {.identity = 1, .element_bytes = 8};
    enum mkt_status status = MKT_OK;
    struct fake_daemon *fake = fake_start(true, script_never_read, NULL);
    struct mkt_client *client = connect_client(fake);
    double start = now_s();
    for (int i = 0; i < 1000000 && status == MKT_OK; i++)
        status = mkt_client_add(client, 1, &array, &piece, 1, false, NULL, &error);
    assert_int_equal(status, MKT_TIMED_OUT);
    assert_true(now_s() - start < 10);
    mkt_client_destroy(client);
    fake_stop(fake);
}

static void script_cancelled_too_late(struct fake_daemon *fake)
{
    struct mkt_msg msg;
    if (!fake_expect(fake, MKT_MSG_CANCEL, &msg))
        return;
    /* The answer was under way when the CANCEL came. */
    struct mkt_msg opened = {.type = MKT_MSG_OPENED,
                             .request = msg.request,
                             .opened = {.file = 5, .source = MKT_SOURCE_EMPTY}};
    fake_send(fake, &opened, -1);
    if (fake_expect(fake, MKT_MSG_CLOSE, &msg))
        *(uint64_t *)fake->context = msg.file.file;
    wait_for_client_to_go(fake);
}

static bool always(void *context)
{
    (void)context;
    return true;
}

static void test_link_answer_that_crosses_cancel_is_taken(void **state)
{
    (void)state;
    struct mkt_error error;
    struct mkt_opened opened;
    uint64_t closed = 0;
    struct fake_daemon *fake = fake_start(true, script_cancelled_too_late, &closed);
    struct mkt_client *client = connect_client(fake);
    struct mkt_open request = {.path = "/tmp/mkt-nothing.h5",
                               .intent = MKT_INTENT_READ,
                               .size = 1,
                               .wait_ms = 60000,
                               .interrupted = always};
    assert_int_equal(mkt_client_open(client, &request, &opened, &error), MKT_OK);
    mkt_client_close(client, opened.file);
    mkt_client_destroy(client);
    fake_stop(fake);
    assert_true(closed == 5);
}

/* ---- the program around us ---- */

static void test_link_program_that_closes_all_descriptors_loses_it_cleanly(void **state)
{
    (void)state;
    struct mkt_error error;
    char path[] = "/tmp/mkt-file.XXXXXX";
    int before[64], count = 0;
    struct fake_daemon *fake = fake_start(true, script_error, NULL);
    for (int fd = 3; fd < 64; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            before[count++] = fd;
    struct mkt_client *client = connect_client(fake);
    int file = mkstemp(path);
    /* The socket's number becomes the program's own file. */
    for (int fd = 3; fd < 64; fd++) {
        bool was_there = fd == file || fd == fake->fd;
        for (int i = 0; i < count; i++)
            was_there = was_there || before[i] == fd;
        if (!was_there && fcntl(fd, F_GETFD) >= 0)
            dup2(file, fd);
    }
    assert_int_equal(ask(client, &error), MKT_PEER_DOWN);
    assert_non_null(strstr(error.text, "closed the descriptor"));
    mkt_client_destroy(client);
    struct stat info;
    assert_int_equal(fstat(file, &info), 0);
    assert_int_equal(info.st_size, 0);
    close(file);
    unlink(path);
    fake_stop(fake);
}

/* ---- the mailbox ---- */

/* The one that the client sends once it is welcome. */
static struct mkt_mailbox *receive_mailbox(struct fake_daemon *fake)
{
    struct mkt_frame_wire head;
    struct iovec part = {&head, sizeof(head)};
    union mkt_descriptor_room room;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof(room.bytes)};
    fake_require(recvmsg(fake->fd, &message, MSG_WAITALL) == sizeof(head), "a mailbox");
    fake_require(head.type == MKT_MSG_MAILBOX && head.bytes == 0 && CMSG_FIRSTHDR(&message) != NULL,
                 "its descriptor");
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    struct mkt_mailbox *box = mkt_mailbox_map(fd);
    close(fd);
    fake_require(box != NULL, "a mailbox that can be mapped");
    return box;
}

/* What a script does for each request after the first, and what it saw. */
struct mail {
    bool blinks;       /* it stops looking after each */
    int delay_ms;      /* before the answer */
    unsigned taken;    /* by mail */
    unsigned received; /* by the socket */
};

static bool is_gone(struct fake_daemon *fake)
{
    char byte;
    return recv(fake->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

static bool has_bytes(struct fake_daemon *fake)
{
    char byte;
    return recv(fake->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

/* Answers by mail where the client looks. */
static void answer_touch(struct fake_daemon *fake, struct mkt_mailbox *box, uint64_t request)
{
    struct mkt_msg reply = {
        .type = MKT_MSG_TOUCHED, .request = request, .touched = {.superseded = true}};
    uint64_t frame[16];
    size_t bytes = fake_encode(&reply, false, frame, sizeof(frame));
    if (!mkt_mail_post(&box->replies, frame, bytes))
        fake_send_bytes(fake, frame, bytes);
}

static void script_mail(struct fake_daemon *fake)
{
    struct mail *mail = fake->context;
    struct mkt_mailbox *box = receive_mailbox(fake);
    static uint8_t frame[MKT_MAIL_BYTES];
    struct mkt_frame_wire head = {0};
    struct mkt_msg msg;
    mkt_mail_look(&box->requests, true);
    while (!is_gone(fake)) {
        bool by_mail = mkt_mail_take(&box->requests, frame) > 0;
        if (!by_mail && !has_bytes(fake))
            continue;
        if (by_mail)
            memcpy(&head, frame, sizeof(head));
        else if (fake_receive(fake, &msg))
            head.request = msg.request;
        mail->taken += by_mail;
        mail->received += !by_mail;
        if (mail->delay_ms > 0)
            poll(NULL, 0, mail->delay_ms);
        if (mail->blinks)
            mkt_mail_look(&box->requests, !by_mail);
        answer_touch(fake, box, head.request);
    }
    mkt_mailbox_unmap(box);
}

static void ask_often(struct mail *mail, int times)
{
    struct mkt_error error;
    struct fake_daemon *fake = fake_start(true, script_mail, mail);
    struct mkt_client *client = connect_client(fake);
    for (int i = 0; i < times; i++)
        assert_int_equal(ask(client, &error), MKT_OK);
    mkt_client_destroy(client);
    fake_stop(fake);
}

/* The first one follows the mailbox itself, which no answer has shown to be there. */
static void test_link_mail_is_used_while_the_daemon_looks(void **state)
{
    (void)state;
    struct mail mail = {0};
    ask_often(&mail, 1000);
    assert_int_equal(mail.taken, 999);
    assert_int_equal(mail.received, 1);
}

static void test_link_goes_by_the_socket_when_it_does_not(void **state)
{
    (void)state;
    struct mail mail = {.blinks = true};
    ask_often(&mail, 100);
    assert_int_equal(mail.taken, 50);
    assert_int_equal(mail.received, 50);
}

static void test_link_that_sleeps_is_answered(void **state)
{
    (void)state;
    struct mail mail = {.delay_ms = 20};
    ask_often(&mail, 20);
    assert_int_equal(mail.taken, 19);
}

/* An answer by mail to the first request, which is `length` bytes of `bytes`, or a good one. */
struct letter {
    const void *bytes;
    size_t length;
    bool leaves; /* and then the daemon goes */
};

static void script_letter(struct fake_daemon *fake)
{
    struct letter *letter = fake->context;
    struct mkt_mailbox *box = receive_mailbox(fake);
    struct mkt_msg msg;
    if (fake_expect(fake, MKT_MSG_TOUCH, &msg)) {
        if (letter->bytes == NULL)
            answer_touch(fake, box, msg.request);
        else if (!mkt_mail_post(&box->replies, letter->bytes, letter->length))
            fake_send_bytes(fake, letter->bytes, letter->length); /* it sleeps already */
        if (!letter->leaves)
            wait_for_client_to_go(fake);
    }
    mkt_mailbox_unmap(box);
}

static enum mkt_status ask_by_mail(struct letter letter, struct mkt_error *error)
{
    struct fake_daemon *fake = fake_start(true, script_letter, &letter);
    struct mkt_client *client = connect_client(fake);
    struct mkt_error again;
    enum mkt_status status = ask(client, error);
    if (status != MKT_OK || letter.leaves)
        assert_int_equal(ask(client, &again), MKT_PEER_DOWN);
    mkt_client_destroy(client);
    fake_stop(fake);
    return status;
}

static void test_link_mail_of_a_daemon_that_went_counts(void **state)
{
    (void)state;
    struct mkt_error error;
    for (int i = 0; i < 200; i++)
        assert_int_equal(ask_by_mail((struct letter){.leaves = true}, &error), MKT_OK);
}

static void test_link_mail_is_not_trusted(void **state)
{
    (void)state;
    struct mkt_error error;
    uint64_t random = 8, garbage[MKT_MAIL_BYTES / 8];
    for (size_t i = 0; i < MKT_MAIL_BYTES / 8; i++)
        garbage[i] = random_next(&random);
    assert_int_equal(ask_by_mail((struct letter){garbage, sizeof(garbage), false}, &error),
                     MKT_PROTOCOL);
    assert_int_equal(ask_by_mail((struct letter){garbage, 100, false}, &error), MKT_PROTOCOL);
    /* A part of a frame, whose rest never comes. */
    size_t bytes = touched_frame(garbage, sizeof(garbage));
    assert_int_equal(ask_by_mail((struct letter){garbage, bytes - 1, false}, &error),
                     MKT_TIMED_OUT);
    assert_int_equal(ask_by_mail((struct letter){garbage, 3, false}, &error), MKT_TIMED_OUT);
    /* No descriptor comes by mail. */
    struct mkt_msg msg = {.type = MKT_MSG_MAPPED, .mapped = {.arena = 1, .size_bytes = 4096}};
    bytes = fake_encode(&msg, true, garbage, sizeof(garbage));
    assert_int_equal(ask_by_mail((struct letter){garbage, bytes, false}, &error), MKT_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link_nobody_listens_is_not_found),
        cmocka_unit_test(test_link_folder_open_to_others_is_denied),
        cmocka_unit_test(test_link_folder_of_other_user_is_denied),
        cmocka_unit_test(test_link_daemon_of_other_user_is_denied),
        cmocka_unit_test(test_link_daemon_that_drops_every_connection_ends_in_time),
        cmocka_unit_test(test_link_silent_daemon_times_out_at_connect),
        cmocka_unit_test(test_link_other_protocol_version_is_told_with_remedy),
        cmocka_unit_test(test_link_error_to_hello_comes_through),
        cmocka_unit_test(test_link_folder_with_long_path_works),
        cmocka_unit_test(test_link_good_answer_is_taken),
        cmocka_unit_test(test_link_end_of_stream_at_every_byte_is_peer_down),
        cmocka_unit_test(test_link_half_frame_then_silence_times_out),
        cmocka_unit_test(test_link_garbage_is_protocol),
        cmocka_unit_test(test_link_huge_frame_is_protocol),
        cmocka_unit_test(test_link_wrong_type_number_or_descriptor_is_protocol),
        cmocka_unit_test(test_link_answer_to_earlier_request_is_dropped),
        cmocka_unit_test(test_link_slow_bytes_are_not_silence),
        cmocka_unit_test(test_link_error_answer_leaves_connection_usable),
        cmocka_unit_test(test_link_daemon_that_ends_it_says_why),
        cmocka_unit_test(test_link_arena_is_mapped_once_and_checked),
        cmocka_unit_test(test_link_long_wait_goes_on_while_daemon_lives),
        cmocka_unit_test(test_link_long_wait_ends_when_daemon_falls_silent),
        cmocka_unit_test(test_link_full_socket_times_out),
        cmocka_unit_test(test_link_answer_that_crosses_cancel_is_taken),
        cmocka_unit_test(test_link_program_that_closes_all_descriptors_loses_it_cleanly),
        cmocka_unit_test(test_link_mail_is_used_while_the_daemon_looks),
        cmocka_unit_test(test_link_goes_by_the_socket_when_it_does_not),
        cmocka_unit_test(test_link_that_sleeps_is_answered),
        cmocka_unit_test(test_link_mail_of_a_daemon_that_went_counts),
        cmocka_unit_test(test_link_mail_is_not_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
