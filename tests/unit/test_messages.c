/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/message_samples.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 400

/* Encodes a sample into a block of exactly its size, so that a sanitizer sees every byte too many.
 */
static uint8_t *encode(const struct message_sample *sample, size_t *bytes_out)
{
    size_t bytes = 0, written = 0;
    assert_int_equal(mkt_msg_size(&sample->msg, &bytes), MKT_OK);
    uint8_t *frame = malloc(bytes);
    assert_non_null(frame);
    memset(frame, 0xa5, bytes);
    assert_int_equal(mkt_msg_encode(&sample->msg, sample->has_fd, frame, bytes, &written), MKT_OK);
    assert_int_equal(written, bytes);
    *bytes_out = bytes;
    return frame;
}

/* Decodes from a block of exactly the payload's size. */
static enum mkt_status decode(const uint8_t *frame, size_t bytes, struct mkt_msg *msg_out,
                              uint8_t **payload_out)
{
    struct mkt_frame_wire head = {0};
    memcpy(&head, frame, sizeof(head));
    uint8_t *payload = malloc(bytes - sizeof(head) + 1);
    assert_non_null(payload);
    memcpy(payload, frame + sizeof(head), bytes - sizeof(head));
    *payload_out = payload;
    head.bytes = (uint32_t)(bytes - sizeof(head));
    return mkt_msg_decode(&head, payload, msg_out);
}

static void assert_encodes_to(const struct mkt_msg *msg, bool has_fd, const uint8_t *frame,
                              size_t bytes)
{
    size_t written = 0;
    uint8_t *again = malloc(bytes);
    assert_non_null(again);
    assert_int_equal(mkt_msg_encode(msg, has_fd, again, bytes, &written), MKT_OK);
    assert_int_equal(written, bytes);
    assert_memory_equal(again, frame, bytes);
    free(again);
}

static void test_messages_random_round_trip_gives_same_bytes(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct message_sample *sample = malloc(sizeof(*sample));
    for (int round = 0; round < ROUNDS; round++) {
        for (int type = MKT_MSG_HELLO; type < MKT_MSG_TYPE_END; type++) {
            struct mkt_msg msg;
            uint8_t *payload;
            size_t bytes;
            sample_message(&random, type, sample);
            uint8_t *frame = encode(sample, &bytes);
            assert_int_equal(bytes % 8, 0);
            assert_int_equal(decode(frame, bytes, &msg, &payload), MKT_OK);
            assert_int_equal(msg.type, type);
            assert_true(msg.request == sample->msg.request);
            assert_encodes_to(&msg, sample->has_fd, frame, bytes);
            free(payload);
            free(frame);
        }
    }
    free(sample);
}

static void test_messages_cut_frame_is_refused(void **state)
{
    (void)state;
    uint64_t random = 2;
    struct message_sample *sample = malloc(sizeof(*sample));
    for (int type = MKT_MSG_HELLO; type < MKT_MSG_TYPE_END; type++) {
        size_t bytes;
        sample_message(&random, type, sample);
        uint8_t *frame = encode(sample, &bytes);
        for (size_t cut = sizeof(struct mkt_frame_wire); cut < bytes; cut++) {
            struct mkt_msg msg;
            uint8_t *payload;
            assert_int_equal(decode(frame, cut, &msg, &payload), MKT_PROTOCOL);
            free(payload);
        }
        free(frame);
    }
    free(sample);
}

static void test_messages_longer_frame_is_refused(void **state)
{
    (void)state;
    uint64_t random = 3;
    struct message_sample *sample = malloc(sizeof(*sample));
    for (int type = MKT_MSG_HELLO; type < MKT_MSG_TYPE_END; type++) {
        size_t bytes;
        sample_message(&random, type, sample);
        uint8_t *frame = encode(sample, &bytes);
        uint8_t *longer = calloc(1, bytes + 8);
        memcpy(longer, frame, bytes);
        for (size_t more = 1; more <= 8; more++) {
            struct mkt_msg msg;
            uint8_t *payload;
            assert_int_equal(decode(longer, bytes + more, &msg, &payload), MKT_PROTOCOL);
            free(payload);
        }
        free(longer);
        free(frame);
    }
    free(sample);
}

static bool is_foreign_greeting(const struct mkt_msg *msg)
{
    return (msg->type == MKT_MSG_HELLO && msg->hello.protocol != MKT_PROTOCOL_VERSION) ||
           (msg->type == MKT_MSG_WELCOME && msg->welcome.protocol != MKT_PROTOCOL_VERSION);
}

/* A changed byte makes another message or none, never one with two encodings. */
static void test_messages_changed_byte_is_refused_or_is_another_message(void **state)
{
    (void)state;
    uint64_t random = 4;
    unsigned refused = 0, accepted = 0;
    struct message_sample *sample = malloc(sizeof(*sample));
    for (int round = 0; round < 40; round++) {
        for (int type = MKT_MSG_HELLO; type < MKT_MSG_TYPE_END; type++) {
            size_t bytes;
            sample_message(&random, type, sample);
            uint8_t *frame = encode(sample, &bytes);
            for (size_t at = sizeof(struct mkt_frame_wire); at < bytes; at++) {
                struct mkt_msg msg;
                uint8_t *payload, kept = frame[at];
                frame[at] = (uint8_t)(kept ^ (1 + random_below(&random, 255)));
                if (decode(frame, bytes, &msg, &payload) != MKT_OK) {
                    refused++;
                } else if (!is_foreign_greeting(&msg)) {
                    accepted++;
                    assert_encodes_to(&msg, sample->has_fd, frame, bytes);
                }
                frame[at] = kept;
                free(payload);
            }
            free(frame);
        }
    }
    free(sample);
    assert_true(refused > 1000);
    assert_true(accepted > 1000);
}

static void test_messages_every_field_of_open_comes_back(void **state)
{
    (void)state;
    size_t bytes;
    struct mkt_msg msg;
    uint8_t *payload;
    struct message_sample sample = {
        .msg = {.type = MKT_MSG_OPEN,
                .request = 77,
                .open = {.token = "0123456789abcde",
                         .rank = 3,
                         .size = 9,
                         .intent = MKT_INTENT_CREATE_EXCL,
                         .mode = MKT_MODE_BOTH,
                         .wait_ms = 11,
                         .writer_timeout_ms = 12,
                         .version = 13,
                         .after_ms = 14,
                         .keep = 15,
                         .publish_close = 2,
                         .has_stub = true,
                         .set = {"plt*", 4},
                         .name = {.object = "fedcba987654321",
                                  .parent_dev = 21,
                                  .parent_ino = 22,
                                  .leaf = {"a.h5", 4},
                                  .path = {"/tmp/a.h5", 9},
                                  .file = {.dev = 23, .ino = 24, .size = 25, .mtime_ns = 26}}}},
        .has_fd = true};
    uint8_t *frame = encode(&sample, &bytes);
    assert_int_equal(decode(frame, bytes, &msg, &payload), MKT_OK);
    const struct mkt_msg_open *a = &sample.msg.open, *b = &msg.open;
    assert_memory_equal(a->token, b->token, MKT_ID_BYTES);
    assert_true(a->rank == b->rank && a->size == b->size && a->intent == b->intent);
    assert_true(a->mode == b->mode && a->wait_ms == b->wait_ms && a->keep == b->keep);
    assert_true(a->writer_timeout_ms == b->writer_timeout_ms && a->version == b->version);
    assert_true(a->after_ms == b->after_ms && b->has_stub);
    assert_int_equal(b->set.length, 4);
    assert_memory_equal(b->set.data, "plt*", 4);
    assert_memory_equal(a->name.object, b->name.object, MKT_ID_BYTES);
    assert_true(a->name.parent_dev == b->name.parent_dev &&
                a->name.parent_ino == b->name.parent_ino);
    assert_int_equal(b->name.leaf.length, 4);
    assert_memory_equal(b->name.leaf.data, "a.h5", 4);
    assert_int_equal(b->name.path.length, 9);
    assert_memory_equal(b->name.path.data, "/tmp/a.h5", 9);
    assert_true(a->name.file.dev == b->name.file.dev && a->name.file.ino == b->name.file.ino);
    assert_true(a->name.file.size == b->name.file.size &&
                a->name.file.mtime_ns == b->name.file.mtime_ns);
    free(payload);
    free(frame);
}

static void test_messages_greeting_of_other_version_gives_its_version(void **state)
{
    (void)state;
    /* Another version's HELLO may be of any length and shape after its first field. */
    uint8_t payload[] = {9, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3};
    for (int type = MKT_MSG_HELLO; type <= MKT_MSG_WELCOME; type++) {
        struct mkt_msg msg;
        struct mkt_frame_wire head = {
            .magic = MKT_FRAME_MAGIC, .type = (uint16_t)type, .request = 1};
        head.bytes = 3;
        assert_int_equal(mkt_msg_decode(&head, payload, &msg), MKT_PROTOCOL);
        head.bytes = sizeof(payload);
        assert_int_equal(mkt_msg_decode(&head, payload, &msg), MKT_OK);
        assert_int_equal(type == MKT_MSG_HELLO ? msg.hello.protocol : msg.welcome.protocol, 9);
        assert_int_equal(type == MKT_MSG_HELLO ? msg.hello.config.length : msg.welcome.rules.length,
                         0);
    }
}

static void test_messages_bad_head_is_refused(void **state)
{
    (void)state;
    const struct mkt_frame_wire good = {.magic = MKT_FRAME_MAGIC, .type = MKT_MSG_CANCEL};
    struct mkt_frame_wire head = good;
    assert_int_equal(mkt_frame_check(&head), MKT_OK);
    head.magic ^= 1;
    assert_int_equal(mkt_frame_check(&head), MKT_PROTOCOL);
    head = good;
    head.type = 0;
    assert_int_equal(mkt_frame_check(&head), MKT_PROTOCOL);
    head.type = MKT_MSG_TYPE_END;
    assert_int_equal(mkt_frame_check(&head), MKT_PROTOCOL);
    head = good;
    head.bytes = MKT_FRAME_MAX_BYTES;
    assert_int_equal(mkt_frame_check(&head), MKT_PROTOCOL);
    head = good;
    head.has_fd = 1; /* no descriptor rides on a CANCEL */
    assert_int_equal(mkt_frame_check(&head), MKT_PROTOCOL);
    head.type = MKT_MSG_MAPPED;
    assert_int_equal(mkt_frame_check(&head), MKT_OK);
    head.has_fd = 2;
    assert_int_equal(mkt_frame_check(&head), MKT_PROTOCOL);
    head = good;
    head.reserved = 1;
    assert_int_equal(mkt_frame_check(&head), MKT_PROTOCOL);
}

static void test_messages_too_large_is_refused(void **state)
{
    (void)state;
    size_t bytes;
    void *text = calloc(1, MKT_FRAME_MAX_BYTES);
    uint8_t *frame = malloc(2 * MKT_FRAME_MAX_BYTES);
    struct mkt_msg msg = {.type = MKT_MSG_ANSWER, .answer = {.json = {text, MKT_FRAME_MAX_BYTES}}};
    assert_int_equal(mkt_msg_size(&msg, &bytes), MKT_INVALID);
    assert_int_equal(mkt_msg_encode(&msg, false, frame, 2 * MKT_FRAME_MAX_BYTES, &bytes),
                     MKT_INVALID);
    msg.answer.json.length = MKT_FRAME_MAX_BYTES - 64;
    assert_int_equal(mkt_msg_size(&msg, &bytes), MKT_OK);
    assert_true(bytes <= MKT_FRAME_MAX_BYTES);
    assert_int_equal(mkt_msg_encode(&msg, false, frame, bytes - 1, &bytes), MKT_INVALID);
    free(frame);
    free(text);
}

static void test_array_records_random_round_trip(void **state)
{
    (void)state;
    uint64_t random = 5;
    struct mkt_array arrays[50], array;
    uint8_t *list = malloc(50 * (40 + 8 * MKT_MAX_RANK));
    uint32_t bytes = 0, offset = 0;
    for (int i = 0; i < 50; i++) {
        sample_array(&random, &arrays[i]);
        mkt_array_record_encode(&arrays[i], list + bytes);
        bytes += (uint32_t)mkt_array_record_bytes(&arrays[i]);
    }
    for (int i = 0; i < 50; i++) {
        assert_int_equal(mkt_array_record_decode((struct mkt_bytes){list, bytes}, &offset, &array),
                         MKT_OK);
        assert_memory_equal(&array, &arrays[i], sizeof(array));
    }
    assert_int_equal(offset, bytes);
    assert_int_equal(mkt_array_record_decode((struct mkt_bytes){list, bytes}, &offset, &array),
                     MKT_PROTOCOL);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_random_round_trip_gives_same_bytes),
        cmocka_unit_test(test_messages_cut_frame_is_refused),
        cmocka_unit_test(test_messages_longer_frame_is_refused),
        cmocka_unit_test(test_messages_changed_byte_is_refused_or_is_another_message),
        cmocka_unit_test(test_messages_every_field_of_open_comes_back),
        cmocka_unit_test(test_messages_greeting_of_other_version_gives_its_version),
        cmocka_unit_test(test_messages_bad_head_is_refused),
        cmocka_unit_test(test_messages_too_large_is_refused),
        cmocka_unit_test(test_array_records_random_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
