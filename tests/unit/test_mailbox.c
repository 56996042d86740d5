/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mailboxes: no post is lost or comes twice, whenever its reader stops looking; nothing is trusted
 * of the other side, or of a descriptor.
 */
#include "core/base/memfd.h"
#include "core/wire/mailbox.h"
#include "tests/unit/random.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static uint8_t bytes[MKT_MAIL_BYTES + 1], taken[MKT_MAIL_BYTES];

static struct mkt_mailbox *make(void)
{
    int fd;
    struct mkt_mailbox *box = mkt_mailbox_create(&fd);
    assert_non_null(box);
    assert_true(fd >= 0);
    close(fd);
    return box;
}

static void test_mailbox_has_every_length_up_to_its_own(void **state)
{
    (void)state;
    struct mkt_mailbox *box = make();
    mkt_mail_look(&box->requests, true);
    for (size_t length = 1; length <= MKT_MAIL_BYTES; length += length < 100 ? 1 : 97) {
        memset(bytes, (int)(length % 251 + 1), length);
        assert_true(mkt_mail_post(&box->requests, bytes, length));
        assert_true(mkt_mail_waits(&box->requests));
        assert_int_equal(mkt_mail_take(&box->requests, taken), length);
        assert_memory_equal(taken, bytes, length);
        assert_false(mkt_mail_waits(&box->requests));
        assert_int_equal(mkt_mail_take(&box->requests, taken), 0);
    }
    assert_true(mkt_mail_post(&box->requests, bytes, MKT_MAIL_BYTES));
    assert_int_equal(mkt_mail_take(&box->requests, taken), MKT_MAIL_BYTES);
    assert_false(mkt_mail_post(&box->requests, bytes, MKT_MAIL_BYTES + 1));
    mkt_mailbox_unmap(box);
}

static void test_mailbox_takes_nothing_that_nobody_looks_for(void **state)
{
    (void)state;
    struct mkt_mailbox *box = make();
    assert_false(mkt_mail_post(&box->requests, bytes, 10));
    assert_false(mkt_mail_post(&box->replies, bytes, 10));
    mkt_mail_look(&box->requests, true);
    assert_false(mkt_mail_post(&box->replies, bytes, 10));
    assert_true(mkt_mail_post(&box->requests, bytes, 10));
    assert_false(mkt_mail_post(&box->requests, bytes, 10)); /* one is there */
    mkt_mail_look(&box->requests, false);
    assert_int_equal(mkt_mail_take(&box->requests, taken), 10);
    assert_false(mkt_mail_post(&box->requests, bytes, 10));
    assert_false(mkt_mail_waits(&box->requests));
    mkt_mailbox_unmap(box);
    mkt_mailbox_unmap(NULL);
}

static void test_mailbox_length_of_the_other_side_is_bounded(void **state)
{
    (void)state;
    struct mkt_mailbox *box = make();
    mkt_mail_look(&box->requests, true);
    assert_true(mkt_mail_post(&box->requests, bytes, 10));
    box->requests.bytes = UINT32_MAX;
    assert_int_equal(mkt_mail_take(&box->requests, taken), MKT_MAIL_BYTES);
    box->requests.state = 77;
    assert_int_equal(mkt_mail_take(&box->requests, taken), 0);
    mkt_mailbox_unmap(box);
}

static void test_mailbox_is_shared_by_its_descriptor(void **state)
{
    (void)state;
    int fd;
    struct mkt_mailbox *box = mkt_mailbox_create(&fd), *other = mkt_mailbox_map(fd);
    assert_non_null(box);
    assert_non_null(other);
    assert_int_equal(ftruncate(fd, 0), -1); /* sealed */
    close(fd);
    mkt_mail_look(&other->requests, true);
    memset(bytes, 5, 100);
    assert_true(mkt_mail_post(&box->requests, bytes, 100));
    assert_int_equal(mkt_mail_take(&other->requests, taken), 100);
    assert_memory_equal(taken, bytes, 100);
    mkt_mailbox_unmap(box);
    mkt_mailbox_unmap(other);
}

static void test_mailbox_is_no_other_descriptor(void **state)
{
    (void)state;
    int pipes[2], small = mkt_memfd_create("small", sizeof(struct mkt_mailbox) - 4096),
                  large = mkt_memfd_create("large", sizeof(struct mkt_mailbox) + 4096),
                  loose = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                  null = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(ftruncate(loose, sizeof(struct mkt_mailbox)), 0);
    assert_true(small >= 0 && large >= 0 && null >= 0);
    int fds[] = {small, large, loose, null, pipes[0], pipes[1]};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        assert_null(mkt_mailbox_map(fds[i]));
        close(fds[i]);
    }
    assert_null(mkt_mailbox_map(-1));
}

/* ---- two threads ---- */

#define POSTS 200000u

/* What isn't posted goes into a pipe, as it would into the socket. */
struct poster {
    struct mkt_mailbox *box;
    int pipe;
    unsigned posted;
};

static void *post_all(void *context)
{
    struct poster *poster = context;
    uint64_t random = 11;
    for (uint32_t i = 0; i < POSTS; i++) {
        uint32_t message[2] = {i, ~i};
        if (mkt_mail_post(&poster->box->requests, message, sizeof(message)))
            poster->posted++;
        else if (write(poster->pipe, message, sizeof(message)) != sizeof(message))
            abort();
        for (uint64_t pauses = random_next(&random) % 50; pauses > 0; pauses--)
            mkt_mail_pause();
    }
    return NULL;
}

static void note(uint8_t *seen, const uint32_t message[2])
{
    assert_int_equal(message[0], ~message[1]);
    assert_true(message[0] < POSTS);
    assert_int_equal(seen[message[0]]++, 0);
}

/* Looks for a while, stops, and sleeps until something is in the pipe, as a daemon does. */
static void test_mailbox_loses_nothing_between_looking_and_sleeping(void **state)
{
    (void)state;
    struct poster poster = {.box = make()};
    uint8_t *seen = calloc(POSTS, 1);
    uint32_t message[2], got = 0;
    uint64_t random = 3;
    int ends[2];
    pthread_t thread;
    assert_non_null(seen);
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    poster.pipe = ends[1];
    struct pollfd wait = {.fd = ends[0], .events = POLLIN};
    /* The first is posted and the second isn't, however the threads are scheduled: both ways are
     * taken. */
    mkt_mail_look(&poster.box->requests, true);
    assert_int_equal(pthread_create(&thread, NULL, post_all, &poster), 0);
    assert_int_equal(poll(&wait, 1, 10000), 1);
    while (got < POSTS) {
        mkt_mail_look(&poster.box->requests, true);
        for (uint64_t looks = random_next(&random) % 200; looks > 0; looks--) {
            if (mkt_mail_take(&poster.box->requests, taken) == sizeof(message)) {
                memcpy(message, taken, sizeof(message));
                note(seen, message);
                got++;
            }
        }
        mkt_mail_look(&poster.box->requests, false);
        if (mkt_mail_take(&poster.box->requests, taken) == sizeof(message)) {
            memcpy(message, taken, sizeof(message));
            note(seen, message);
            got++;
        }
        if (got < POSTS && random_next(&random) % 4 == 0)
            assert_int_equal(poll(&wait, 1, 10000), 1); /* else a post was lost */
        while (read(ends[0], message, sizeof(message)) == sizeof(message)) {
            note(seen, message);
            got++;
        }
    }
    pthread_join(thread, NULL);
    for (uint32_t i = 0; i < POSTS; i++)
        assert_int_equal(seen[i], 1);
    assert_true(poster.posted > 0 && poster.posted < POSTS);
    free(seen);
    close(ends[0]);
    close(ends[1]);
    mkt_mailbox_unmap(poster.box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mailbox_has_every_length_up_to_its_own),
        cmocka_unit_test(test_mailbox_takes_nothing_that_nobody_looks_for),
        cmocka_unit_test(test_mailbox_length_of_the_other_side_is_bounded),
        cmocka_unit_test(test_mailbox_is_shared_by_its_descriptor),
        cmocka_unit_test(test_mailbox_is_no_other_descriptor),
        cmocka_unit_test(test_mailbox_loses_nothing_between_looking_and_sleeping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
