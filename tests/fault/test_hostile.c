/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes that no client of ours would send: each closes that connection only, the daemon lives, and
 * a good client that was connected before goes on. The daemon ($MARKET_DAEMON) is started by the
 * good client.
 */
#include "core/client/client.h"
#include "core/wire/descriptor.h"
#include "core/wire/mailbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct mkt_client *good;
static uint64_t seed;

static uint64_t next_random(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return seed >> 16;
}

static int connect_raw(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", getenv("H5MARKET_DIR"));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Sends what the peer takes; it may close in between. */
static void send_bytes(int fd, const void *bytes, size_t length)
{
    (void)!send(fd, bytes, length, MSG_NOSIGNAL);
}

static void send_message(int fd, const struct mkt_msg *message)
{
    static uint8_t frame[MKT_FRAME_MAX_BYTES];
    size_t bytes;

    assert_int_equal(mkt_msg_encode(message, false, frame, sizeof(frame), &bytes), MKT_OK);
    send_bytes(fd, frame, bytes);
}

static void send_head(int fd, uint16_t type, uint32_t bytes, uint16_t has_fd)
{
    struct mkt_frame_wire head = {
        .magic = MKT_FRAME_MAGIC, .type = type, .bytes = bytes, .has_fd = has_fd, .request = 7};

    send_bytes(fd, &head, sizeof(head));
}

static void say_hello(int fd)
{
    struct mkt_msg message = {.type = MKT_MSG_HELLO, .request = 1};

    message.hello.protocol = MKT_PROTOCOL_VERSION;
    message.hello.program = (struct mkt_bytes){"hostile", 7};
    send_message(fd, &message);
}

/* Reads until the peer closes; what the last ERROR said, if there was one. False: it didn't close
 * in time. */
static bool is_closed(int fd, int within_ms, char *text, size_t capacity)
{
    static uint8_t bytes[1 << 20];
    size_t length = 0;
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    text[0] = '\0';
    for (;;) {
        if (poll(&poller, 1, within_ms) == 0)
            return false;
        ssize_t n = read(fd, bytes + length, sizeof(bytes) - length);
        if (n <= 0)
            break;
        length += (size_t)n;
    }
    for (size_t at = 0; length - at >= sizeof(struct mkt_frame_wire);) {
        struct mkt_frame_wire head;
        struct mkt_msg message;
        memcpy(&head, bytes + at, sizeof(head));
        assert_int_equal(mkt_frame_check(&head), MKT_OK);
        if (length - at - sizeof(head) < head.bytes)
            break;
        assert_int_equal(mkt_msg_decode(&head, bytes + at + sizeof(head), &message), MKT_OK);
        if (message.type == MKT_MSG_ERROR)
            snprintf(text, capacity, "%.*s", (int)message.error.text.length,
                     (const char *)message.error.text.data);
        at += sizeof(head) + head.bytes;
    }
    return true;
}

static void assert_closed(int fd)
{
    char text[1024];

    assert_true(is_closed(fd, 5000, text, sizeof(text)));
    close(fd);
}

static void assert_closed_saying(int fd, const char *wanted)
{
    char text[1024];

    assert_true(is_closed(fd, 5000, text, sizeof(text)));
    if (!strstr(text, wanted))
        fail_msg("it says '%s' and not '%s'", text, wanted);
    close(fd);
}

static void assert_good_goes_on(void)
{
    struct mkt_error error;
    char *json;

    if (mkt_client_query(good, MKT_QUERY_STATUS, NULL, &json, &error) != MKT_OK)
        fail_msg("the good client: %s", error.text);
    free(json);
}

static void test_garbage_closes_that_connection_only(void **state)
{
    uint8_t bytes[4096];

    (void)state;
    for (int round = 0; round < 200; round++) {
        int fd = connect_raw();
        size_t length = 1 + next_random() % sizeof(bytes);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (uint8_t)next_random();
        send_bytes(fd, bytes, length);
        shutdown(fd, SHUT_WR);
        assert_closed(fd);
        if (round % 20 == 0)
            assert_good_goes_on();
    }
}

static void test_garbage_payloads_after_hello_close(void **state)
{
    uint8_t bytes[512];

    (void)state;
    for (int round = 0; round < 600; round++) {
        int fd = connect_raw();
        uint32_t length = (uint32_t)(next_random() % sizeof(bytes));
        say_hello(fd);
        for (size_t i = 0; i < length; i++)
            bytes[i] = next_random() % 3 ? 0 : (uint8_t)next_random();
        uint16_t type = (uint16_t)(1 + next_random() % (MKT_MSG_TYPE_END - 1));
        send_head(fd, type == MKT_MSG_STOP ? MKT_MSG_ADD : type, length,
                  0); /* a STOP would be obeyed */
        send_bytes(fd, bytes, length);
        shutdown(fd, SHUT_WR);
        assert_closed(fd);
        if (round % 50 == 0)
            assert_good_goes_on();
    }
}

static void test_half_a_frame_then_end_closes(void **state)
{
    (void)state;
    for (uint32_t cut = 1; cut < 64; cut += 7) {
        int fd = connect_raw();
        uint8_t frame[4096];
        struct mkt_msg message = {.type = MKT_MSG_HELLO, .request = 1};
        size_t bytes;
        message.hello.protocol = MKT_PROTOCOL_VERSION;
        assert_int_equal(mkt_msg_encode(&message, false, frame, sizeof(frame), &bytes), MKT_OK);
        send_bytes(fd, frame, cut < bytes ? cut : bytes - 1);
        shutdown(fd, SHUT_WR);
        assert_closed(fd);
    }
    assert_good_goes_on();
}

static void test_a_frame_byte_by_byte_is_understood(void **state)
{
    uint8_t frame[4096];
    struct mkt_msg message = {.type = MKT_MSG_HELLO, .request = 1};
    struct mkt_frame_wire head;
    size_t bytes;
    int fd = connect_raw();

    (void)state;
    message.hello.protocol = MKT_PROTOCOL_VERSION;
    assert_int_equal(mkt_msg_encode(&message, false, frame, sizeof(frame), &bytes), MKT_OK);
    for (size_t i = 0; i < bytes; i++)
        send_bytes(fd, frame + i, 1);
    assert_int_equal(recv(fd, &head, sizeof(head), MSG_WAITALL), sizeof(head));
    assert_int_equal(head.type, MKT_MSG_WELCOME);
    close(fd);
}

static void test_oversize_closes_without_being_read(void **state)
{
    int fd = connect_raw();

    (void)state;
    send_head(fd, MKT_MSG_HELLO, MKT_FRAME_MAX_BYTES + 1, 0);
    assert_closed(fd);
    fd = connect_raw();
    say_hello(fd);
    send_head(fd, MKT_MSG_ADD, UINT32_MAX, 0);
    assert_closed(fd);
    assert_good_goes_on();
}

static void test_wrong_order_closes_with_a_reason(void **state)
{
    struct mkt_msg map = {.type = MKT_MSG_MAP, .request = 2, .map = {.arena = 1}};
    struct mkt_msg stopped = {.type = MKT_MSG_STOPPED, .request = 3};
    int fd = connect_raw();

    (void)state;
    send_message(fd, &map);
    assert_closed_saying(fd, "HELLO");
    fd = connect_raw();
    say_hello(fd);
    say_hello(fd);
    assert_closed_saying(fd, "no client sends");
    fd = connect_raw();
    say_hello(fd);
    send_message(fd, &stopped);
    assert_closed_saying(fd, "no client sends");
    assert_good_goes_on();
}

static void test_another_protocol_gets_the_remedy(void **state)
{
    struct mkt_msg message = {.type = MKT_MSG_HELLO, .request = 1};
    int fd = connect_raw();

    (void)state;
    message.hello.protocol = MKT_PROTOCOL_VERSION + 1;
    send_message(fd, &message);
    assert_closed_saying(fd, "h5market stop");
    assert_good_goes_on();
}

static void ask_for_session(uint64_t session, const uint8_t secret[MKT_ID_BYTES])
{
    struct mkt_msg message = {.type = MKT_MSG_HELLO, .request = 1};
    int fd = connect_raw();

    message.hello.protocol = MKT_PROTOCOL_VERSION;
    message.hello.session = session;
    memcpy(message.hello.secret, secret, MKT_ID_BYTES);
    send_message(fd, &message);
    assert_closed_saying(fd, "is gone");
}

/* Not without its secret, not while it is connected, and not when it has ended. */
static void test_a_session_is_not_to_be_had(void **state)
{
    static const uint8_t guess[MKT_ID_BYTES] = {1};
    uint8_t payload[4096];
    struct mkt_frame_wire head;
    struct mkt_msg welcome;
    int fd = connect_raw();

    (void)state;
    say_hello(fd);
    assert_int_equal(recv(fd, &head, sizeof(head), MSG_WAITALL), sizeof(head));
    assert_true(head.bytes <= sizeof(payload));
    assert_int_equal(recv(fd, payload, head.bytes, MSG_WAITALL), head.bytes);
    assert_int_equal(mkt_msg_decode(&head, payload, &welcome), MKT_OK);
    assert_int_equal(welcome.type, MKT_MSG_WELCOME);
    assert_true(welcome.welcome.session > 0);
    ask_for_session(welcome.welcome.session, guess);
    ask_for_session(UINT64_MAX, welcome.welcome.secret);
    ask_for_session(welcome.welcome.session, welcome.welcome.secret);
    close(fd);
    ask_for_session(welcome.welcome.session, welcome.welcome.secret);
    assert_good_goes_on();
}

static void test_a_wrong_configuration_is_named_with_its_line(void **state)
{
    struct mkt_msg message = {.type = MKT_MSG_HELLO, .request = 1};
    static const char text[] = "files:\n- match: a\n  kep: 3\n";
    int fd = connect_raw();

    (void)state;
    message.hello.protocol = MKT_PROTOCOL_VERSION;
    message.hello.config_path = (struct mkt_bytes){"/home/me/h5market.yaml", 22};
    message.hello.config = (struct mkt_bytes){text, sizeof(text) - 1};
    send_message(fd, &message);
    assert_closed_saying(fd, "/home/me/h5market.yaml:3: unknown key 'kep' (did you mean 'keep'?)");
    assert_good_goes_on();
}

static void send_with_descriptors(int fd, const void *bytes, size_t length, int count)
{
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = length};
    char room[CMSG_SPACE(sizeof(int) * 8)] = {0};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room,
                             .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    for (int i = 0; i < count; i++)
        memcpy(CMSG_DATA(head) + (size_t)i * sizeof(int), &fd, sizeof(int));
    (void)!sendmsg(fd, &message, MSG_NOSIGNAL);
}

static void test_descriptors_without_a_message_close(void **state)
{
    int fd = connect_raw();

    (void)state;
    say_hello(fd);
    send_with_descriptors(fd, "x", 1, 8);
    shutdown(fd, SHUT_WR);
    assert_closed(fd);
    fd = connect_raw();
    say_hello(fd);
    send_head(fd, MKT_MSG_OPEN, 0, 1);
    assert_closed(fd);
    assert_good_goes_on();
}

static void test_extents_of_nobody_close(void **state)
{
    struct mkt_extent extent = {.arena = 1, .offset = 4096, .length = 1 << 20};
    struct mkt_msg message = {.type = MKT_MSG_RELEASE};
    int fd = connect_raw();

    (void)state;
    message.release.count = 1;
    message.release.extents = &extent;
    say_hello(fd);
    send_message(fd, &message);
    shutdown(fd, SHUT_WR);
    assert_closed(fd);
    assert_good_goes_on();
}

/* A client that asks and never reads its answers is cut off, or held back; others don't notice. */
static void test_who_never_reads_is_bounded(void **state)
{
    struct mkt_msg message = {.type = MKT_MSG_QUERY, .query = {.what = MKT_QUERY_STATUS}};
    static uint8_t frame[4096];
    size_t bytes;
    int fd = connect_raw();

    (void)state;
    say_hello(fd);
    assert_int_equal(mkt_msg_encode(&message, false, frame, sizeof(frame), &bytes), MKT_OK);
    int sent = 0;
    for (; sent < 200000; sent++)
        if (send(fd, frame, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            struct pollfd poller = {.fd = fd, .events = POLLOUT};
            if (poll(&poller, 1, 300) == 0)
                break;
        }
    assert_true(sent < 200000);
    assert_good_goes_on();
    close(fd);
    assert_good_goes_on();
}

/* One process that comes and goes more often than there may be connections. */
static void test_a_program_that_reconnects_uses_nothing_up(void **state)
{
    struct mkt_frame_wire head;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        int fd = connect_raw();
        say_hello(fd);
        assert_int_equal(recv(fd, &head, sizeof(head), MSG_WAITALL), sizeof(head));
        assert_int_equal(head.type, MKT_MSG_WELCOME);
        close(fd);
    }
    assert_good_goes_on();
}

static void test_who_says_nothing_is_closed(void **state)
{
    char text[64];
    int fd = connect_raw();

    (void)state;
    assert_true(is_closed(fd, 15000, text, sizeof(text)));
    close(fd);
    assert_good_goes_on();
}

static int start(void **state)
{
    struct mkt_client_options options = {.daemon_path = getenv("MARKET_DAEMON")};
    struct mkt_error error;

    (void)state;
    if (mkt_client_connect(&options, &good, &error) == MKT_OK)
        return 0;
    fprintf(stderr, "%s\n", error.text);
    return 1;
}

static int stop(void **state)
{
    struct mkt_error error;

    (void)state;
    enum mkt_status status = mkt_client_stop(good, true, &error);
    mkt_client_destroy(good);
    return status != MKT_OK;
}

/* ---- mailboxes ---- */

/* A client that is welcome and has sent this descriptor as its mailbox's. */
static int connect_with_mailbox(int mailbox_fd)
{
    const struct mkt_frame_wire head = {
        .magic = MKT_FRAME_MAGIC, .type = MKT_MSG_MAILBOX, .has_fd = 1, .request = 2};
    struct iovec part = {.iov_base = (void *)&head, .iov_len = sizeof(head)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union mkt_descriptor_room room;
    int fd = connect_raw();

    say_hello(fd);
    mkt_descriptor_attach(&message, &room, mailbox_fd);
    assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), sizeof(head));
    return fd;
}

static size_t encode_query(uint8_t *frame, size_t capacity, uint64_t request)
{
    struct mkt_msg query = {
        .type = MKT_MSG_QUERY, .request = request, .query = {.what = MKT_QUERY_STATUS}};
    size_t bytes = 0;

    assert_int_equal(mkt_msg_encode(&query, false, frame, capacity, &bytes), MKT_OK);
    return bytes;
}

static void read_reply(int fd)
{
    static uint8_t payload[1 << 20];
    struct mkt_frame_wire head;

    assert_int_equal(recv(fd, &head, sizeof(head), MSG_WAITALL), sizeof(head));
    assert_true(head.bytes <= sizeof(payload));
    assert_int_equal(recv(fd, payload, head.bytes, MSG_WAITALL), head.bytes);
}

/* Asks one thing after the other until the daemon looks for the next in the mailbox; false: its
 * processor is too busy for that. */
static bool make_it_look(int fd, struct mkt_mailbox *box)
{
    uint8_t frame[4096];

    read_reply(fd); /* WELCOME */
    for (uint64_t request = 3; request < 20000; request++) {
        size_t bytes = encode_query(frame, sizeof(frame), request);
        if (box->requests.looks)
            return true;
        send_bytes(fd, frame, bytes);
        read_reply(fd);
    }
    return false;
}

/* The slot as it would be after a post, whatever it says. */
static void force_post(struct mkt_mailbox *box, const void *bytes, size_t length, uint32_t claimed)
{
    memcpy(box->requests.post, bytes, length);
    box->requests.bytes = claimed;
    atomic_store(&box->requests.state, 1);
}

static void test_what_is_no_mailbox_is_left_alone(void **state)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC),
        loose = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint8_t frame[4096];
    int fds[] = {null, loose};

    (void)state;
    assert_int_equal(ftruncate(loose, sizeof(struct mkt_mailbox)), 0);
    for (int i = 0; i < 2; i++) {
        int fd = connect_with_mailbox(fds[i]);
        read_reply(fd);
        send_bytes(fd, frame, encode_query(frame, sizeof(frame), 3));
        read_reply(fd);
        close(fd);
        close(fds[i]);
    }
    assert_good_goes_on();
}

static void test_garbage_in_a_mailbox_closes(void **state)
{
    uint8_t garbage[MKT_MAIL_BYTES];
    unsigned looked = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(garbage); i++)
        garbage[i] = (uint8_t)next_random();
    for (int round = 0; round < 20; round++) {
        int mailbox_fd;
        struct mkt_mailbox *box = mkt_mailbox_create(&mailbox_fd);
        int fd = connect_with_mailbox(mailbox_fd);
        close(mailbox_fd);
        if (make_it_look(fd, box)) {
            looked++;
            force_post(box, garbage, sizeof(garbage), round % 2 ? UINT32_MAX : 1000);
            if (round % 4 == 0) /* it may have stopped to look */
                send_bytes(fd, garbage, 100);
            else
                shutdown(fd, SHUT_WR);
            assert_closed(fd);
        } else
            close(fd);
        mkt_mailbox_unmap(box);
    }
    assert_true(looked > 0);
    assert_good_goes_on();
}

/* Its owner writes while the daemon reads. */
static void test_a_mailbox_that_changes_harms_nobody(void **state)
{
    int mailbox_fd;
    struct mkt_mailbox *box = mkt_mailbox_create(&mailbox_fd);
    int fd = connect_with_mailbox(mailbox_fd);
    uint8_t frame[4096];
    size_t bytes = encode_query(frame, sizeof(frame), UINT64_C(1) << 40);

    (void)state;
    close(mailbox_fd);
    if (make_it_look(fd, box))
        for (int i = 0; i < 20000; i++) {
            force_post(box, frame, bytes, (uint32_t)(next_random() % (2 * bytes)));
            box->requests.post[next_random() % bytes] = (uint8_t)next_random();
            atomic_store(&box->replies.state, (uint32_t)next_random() % 4);
            atomic_store(&box->replies.looks, (uint32_t)next_random() % 2);
        }
    shutdown(fd, SHUT_RDWR);
    close(fd);
    mkt_mailbox_unmap(box);
    assert_good_goes_on();
}

/* Of the daemon's worker, so far, in clock ticks. */
static unsigned long processor_time(void)
{
    char path[4200];
    unsigned long user, system;
    int pid;

    snprintf(path, sizeof(path), "%s/worker.pid", getenv("H5MARKET_DIR"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file,
                            "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user, &system),
                     2);
    fclose(file);
    return user + system;
}

/* A post that is never whole: there is nothing to stay awake for. */
static void test_a_mailbox_half_taken_keeps_nobody_awake(void **state)
{
    int mailbox_fd;
    struct mkt_mailbox *box = mkt_mailbox_create(&mailbox_fd);
    int fd = connect_with_mailbox(mailbox_fd);

    (void)state;
    close(mailbox_fd);
    if (make_it_look(fd, box)) {
        atomic_store(&box->requests.state, 2);
        poll(NULL, 0, 100);
        unsigned long before = processor_time();
        poll(NULL, 0, 1000);
        assert_true(processor_time() - before < (unsigned long)sysconf(_SC_CLK_TCK) / 4);
    }
    close(fd);
    mkt_mailbox_unmap(box);
    assert_good_goes_on();
}

/* Numbers that fall are lost order: nothing of such a client may count. */
static void test_requests_out_of_order_close(void **state)
{
    uint8_t frame[4096];
    int fd = connect_raw();

    (void)state;
    say_hello(fd);
    read_reply(fd);
    send_bytes(fd, frame, encode_query(frame, sizeof(frame), 7));
    read_reply(fd);
    send_bytes(fd, frame, encode_query(frame, sizeof(frame), 6));
    assert_closed_saying(fd, "out of order");
    assert_good_goes_on();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage_closes_that_connection_only),
        cmocka_unit_test(test_garbage_payloads_after_hello_close),
        cmocka_unit_test(test_half_a_frame_then_end_closes),
        cmocka_unit_test(test_a_frame_byte_by_byte_is_understood),
        cmocka_unit_test(test_oversize_closes_without_being_read),
        cmocka_unit_test(test_wrong_order_closes_with_a_reason),
        cmocka_unit_test(test_another_protocol_gets_the_remedy),
        cmocka_unit_test(test_a_session_is_not_to_be_had),
        cmocka_unit_test(test_a_wrong_configuration_is_named_with_its_line),
        cmocka_unit_test(test_descriptors_without_a_message_close),
        cmocka_unit_test(test_extents_of_nobody_close),
        cmocka_unit_test(test_who_never_reads_is_bounded),
        cmocka_unit_test(test_a_program_that_reconnects_uses_nothing_up),
        cmocka_unit_test(test_who_says_nothing_is_closed),
        cmocka_unit_test(test_what_is_no_mailbox_is_left_alone),
        cmocka_unit_test(test_garbage_in_a_mailbox_closes),
        cmocka_unit_test(test_a_mailbox_that_changes_harms_nobody),
        cmocka_unit_test(test_a_mailbox_half_taken_keeps_nobody_awake),
        cmocka_unit_test(test_requests_out_of_order_close),
    };

    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    return cmocka_run_group_tests(tests, start, stop);
}
