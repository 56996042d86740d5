/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a frame, a list of array records and a set of rules: nothing may be read or written
 * outside, and what is accepted must encode to the bytes it came from. Build with libFuzzer
 * (MKT_FUZZ), or with fuzz_runner.c.
 */
#include "core/wire/messages.h"
#include "core/wire/rules.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

static bool is_foreign_greeting(const struct mkt_msg *msg)
{
    return (msg->type == MKT_MSG_HELLO && msg->hello.protocol != MKT_PROTOCOL_VERSION) ||
           (msg->type == MKT_MSG_WELCOME && msg->welcome.protocol != MKT_PROTOCOL_VERSION);
}

static volatile uint8_t sum;

static void read_all(struct mkt_bytes bytes)
{
    for (uint32_t i = 0; i < bytes.length; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)bytes.data)[i]);
}

/* Every byte that a message points to is really there. */
static void read_lists(const struct mkt_msg *msg)
{
    switch (msg->type) {
    case MKT_MSG_HELLO:
        read_all(msg->hello.program);
        read_all(msg->hello.host);
        read_all(msg->hello.config_path);
        read_all(msg->hello.config);
        break;
    case MKT_MSG_OPEN:
        read_all(msg->open.set);
        read_all(msg->open.name.leaf);
        read_all(msg->open.name.path);
        break;
    case MKT_MSG_ADD:
        require(msg->add.array.rank <= MKT_MAX_RANK);
        read_all(msg->add.records);
        break;
    case MKT_MSG_COMMIT:
        read_all(msg->commit.failure);
        read_all(msg->commit.arrays);
        break;
    case MKT_MSG_RELEASE:
        read_all((struct mkt_bytes){msg->release.extents,
                                    msg->release.count * (uint32_t)sizeof(struct mkt_extent)});
        break;
    default:
        break;
    }
}

static void try_frame(const uint8_t *data, size_t size)
{
    struct mkt_frame_wire head = {0};
    struct mkt_msg msg;
    size_t bytes, again_bytes;
    if (size < sizeof(head))
        return;
    memcpy(&head, data, sizeof(head));
    /* So that not every input has to guess its own length and the magic. */
    head.bytes = (uint32_t)(size - sizeof(head));
    head.magic = MKT_FRAME_MAGIC;
    head.reserved = 0;
    if (mkt_frame_check(&head) != MKT_OK ||
        mkt_msg_decode(&head, data + sizeof(head), &msg) != MKT_OK)
        return;
    read_lists(&msg);
    if (is_foreign_greeting(&msg))
        return;
    require(mkt_msg_size(&msg, &bytes) == MKT_OK && bytes == size);
    uint8_t *again = malloc(size);
    require(again != NULL);
    require(mkt_msg_encode(&msg, head.has_fd, again, size, &again_bytes) == MKT_OK);
    require(again_bytes == size && memcmp(again, &head, sizeof(head)) == 0);
    require(memcmp(again + sizeof(head), data + sizeof(head), size - sizeof(head)) == 0);
    free(again);
}

static void try_arrays(const uint8_t *data, size_t size)
{
    struct mkt_bytes list = {data, (uint32_t)size};
    struct mkt_array array;
    uint32_t offset = 0, before = 0;
    while (mkt_array_record_decode(list, &offset, &array) == MKT_OK) {
        require(offset > before && offset <= size);
        require(mkt_array_record_bytes(&array) == offset - before);
        before = offset;
    }
}

static void try_rules(const uint8_t *data, size_t size)
{
    struct mkt_rule *rules;
    uint32_t count;
    if (mkt_rules_decode((struct mkt_bytes){data, (uint32_t)size}, &rules, &count) != MKT_OK)
        return;
    (void)mkt_rules_match(rules, count, "/tmp/some/file.h5");
    free(rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Aligned as in a receive buffer, and of exactly this size. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    require(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    try_frame(copy, size);
    try_arrays(copy, size);
    try_rules(copy, size);
    free(copy);
    return 0;
}
