/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random messages of every type, for round trips. Lists point into the sample's own storage.
 */
#ifndef MKT_TESTS_MESSAGE_SAMPLES_H
#define MKT_TESTS_MESSAGE_SAMPLES_H

#include "core/geometry/piece_layout.h"
#include "core/wire/messages.h"
#include "tests/unit/random.h"
#include <string.h>

struct message_sample {
    struct mkt_msg msg;
    bool has_fd;
    uint8_t text[16][64];
    unsigned texts;
    struct mkt_extent extents[8];
    uint64_t records[512];
};

static inline uint64_t random_below(uint64_t *state, uint64_t end)
{
    return random_next(state) % end;
}

static inline void sample_fill(uint64_t *state, void *field, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)field)[i] = (uint8_t)random_next(state);
}

static inline struct mkt_bytes sample_text(uint64_t *state, struct message_sample *sample)
{
    uint8_t *text = sample->text[sample->texts++];
    uint32_t length = (uint32_t)random_below(state, 64);
    sample_fill(state, text, length);
    return (struct mkt_bytes){length > 0 ? text : NULL, length};
}

static inline void sample_name(uint64_t *state, struct message_sample *sample,
                               struct mkt_name *name)
{
    sample_fill(state, name, sizeof(*name));
    name->leaf = sample_text(state, sample);
    name->path = sample_text(state, sample);
}

static inline void sample_array(uint64_t *state, struct mkt_array *array)
{
    memset(array, 0, sizeof(*array));
    array->identity = random_next(state);
    sample_fill(state, array->token, sizeof(array->token));
    array->element_bytes = (uint32_t)random_next(state);
    array->flags = (uint32_t)random_next(state);
    array->rank = (uint32_t)random_below(state, MKT_MAX_RANK + 1);
    sample_fill(state, array->dims, array->rank * sizeof(array->dims[0]));
}

static inline void sample_open(uint64_t *state, struct message_sample *sample)
{
    struct mkt_msg_open *open = &sample->msg.open;
    sample_fill(state, open, sizeof(*open));
    open->stream.on_full = (uint32_t)random_below(state, MKT_FULL_FILE + 1);
    open->intent = (uint32_t)random_below(state, MKT_INTENT_LOAD + 1);
    open->mode = (uint32_t)random_below(state, MKT_MODE_BOTH + 1);
    open->has_stub = random_below(state, 2) == 1;
    open->durability = (uint32_t)random_below(state, MKT_DURABILITY_NONE + 1);
    open->backup = random_below(state, 2) == 1;
    open->pin = random_below(state, 2) == 1;
    open->read_only = random_below(state, 2) == 1;
    open->set = sample_text(state, sample);
    open->stream.consumed = random_below(state, 2) == 1;
    open->stream.only = random_below(state, 2) == 1;
    open->stream.deliver = (uint32_t)random_below(state, MKT_DELIVER_EVERY + 1);
    open->stream.reader = sample_text(state, sample);
    sample_name(state, sample, &open->name);
    sample->has_fd = random_below(state, 2) == 1;
}

static inline void sample_add(uint64_t *state, struct message_sample *sample)
{
    struct mkt_msg_add *add = &sample->msg.add;
    add->file = random_next(state);
    add->acknowledge = random_below(state, 2) == 1;
    sample_array(state, &add->array);
    add->count = (uint32_t)random_below(state, 8);
    add->records = (struct mkt_bytes){sample->records,
                                      add->count * (uint32_t)sizeof(struct mkt_piece_record_wire)};
    sample_fill(state, sample->records, add->records.length);
}

static inline void sample_commit(uint64_t *state, struct message_sample *sample)
{
    struct mkt_msg_commit *commit = &sample->msg.commit;
    uint8_t *at = (uint8_t *)sample->records;
    sample_fill(state, commit, sizeof(*commit));
    commit->unchanged = random_below(state, 2) == 1;
    commit->more = random_below(state, 2) == 1;
    commit->keep_open = random_below(state, 2) == 1;
    commit->failure = sample_text(state, sample);
    commit->count = (uint32_t)random_below(state, 8);
    for (uint32_t i = 0; i < commit->count; i++) {
        struct mkt_array array;
        sample_array(state, &array);
        mkt_array_record_encode(&array, at);
        at += mkt_array_record_bytes(&array);
    }
    commit->arrays =
        (struct mkt_bytes){sample->records, (uint32_t)(at - (uint8_t *)sample->records)};
}

static inline void sample_hello(uint64_t *state, struct message_sample *sample)
{
    struct mkt_msg_hello *hello = &sample->msg.hello;
    hello->protocol = MKT_PROTOCOL_VERSION;
    hello->pid = (uint32_t)random_next(state);
    hello->cpu = (uint32_t)random_next(state);
    hello->program = sample_text(state, sample);
    hello->host = sample_text(state, sample);
    hello->config_path = sample_text(state, sample);
    hello->config = sample_text(state, sample);
    hello->session = random_next(state);
    sample_fill(state, hello->secret, sizeof(hello->secret));
}

static inline void sample_welcome(uint64_t *state, struct message_sample *sample)
{
    struct mkt_msg_welcome *welcome = &sample->msg.welcome;
    sample_fill(state, welcome, sizeof(*welcome));
    welcome->protocol = MKT_PROTOCOL_VERSION;
    welcome->default_mode = MKT_MODE_MEMORY + (uint32_t)random_below(state, 3);
    welcome->rules = sample_text(state, sample);
    sample->msg.welcome.on_demand = random_below(state, 2) == 1;
}

/* The rest, whose fields are numbers of any value but few. */
static inline void sample_small(uint64_t *state, struct message_sample *sample)
{
    struct mkt_msg *msg = &sample->msg;
    sample_fill(state, &msg->opened, sizeof(msg->opened));
    switch (msg->type) {
    case MKT_MSG_ERROR:
        msg->error.status = 1 + (uint32_t)random_below(state, MKT_STATUS_COUNT - 1);
        msg->error.text = sample_text(state, sample);
        break;
    case MKT_MSG_OPENED:
        msg->opened.source = MKT_SOURCE_NATIVE + (uint32_t)random_below(state, 3);
        msg->opened.notice = sample_text(state, sample);
        break;
    case MKT_MSG_CLOSE:
        msg->file.unread = random_below(state, 2) == 1;
        break;
    case MKT_MSG_RELEASE:
        msg->release.count = (uint32_t)random_below(state, 9);
        sample_fill(state, sample->extents, sizeof(sample->extents));
        msg->release.extents = msg->release.count > 0 ? sample->extents : NULL;
        break;
    case MKT_MSG_FETCH:
        msg->fetch.count = 1 + (uint32_t)random_below(state, 8);
        sample_fill(state, sample->records, msg->fetch.count * sizeof(struct mkt_span));
        msg->fetch.spans = (const struct mkt_span *)sample->records;
        break;
    case MKT_MSG_WAITING:
        msg->waiting.text = sample_text(state, sample);
        break;
    case MKT_MSG_FETCHED:
        sample_fill(state, &msg->fetched, sizeof(msg->fetched));
        msg->fetched.owned = random_below(state, 2) == 1;
        break;
    case MKT_MSG_MAPPED:
        sample->has_fd = random_below(state, 2) == 1;
        break;
    case MKT_MSG_TOUCHED:
        msg->touched.superseded = random_below(state, 2) == 1;
        break;
    case MKT_MSG_WITHDRAW:
        sample_name(state, sample, &msg->withdraw.name);
        break;
    case MKT_MSG_END:
        msg->end.pattern = sample_text(state, sample);
        sample_name(state, sample, &msg->end.name);
        break;
    case MKT_MSG_QUERY:
        msg->query.what = MKT_QUERY_STATUS + (uint32_t)random_below(state, 3);
        sample_name(state, sample, &msg->query.name);
        break;
    case MKT_MSG_ANSWER:
        msg->answer.json = sample_text(state, sample);
        break;
    case MKT_MSG_STOP:
        msg->stop.discard = random_below(state, 2) == 1;
        break;
    case MKT_MSG_SAVE_ORDER:
        sample_fill(state, &msg->save_order, sizeof(msg->save_order));
        msg->save_order.has_stub = random_below(state, 2) == 1;
        msg->save_order.path = sample_text(state, sample);
        msg->save_order.former_path = sample_text(state, sample);
        break;
    case MKT_MSG_SAVE_DONE:
        sample_fill(state, &msg->save_done, sizeof(msg->save_done));
        msg->save_done.status = (uint32_t)random_below(state, MKT_STATUS_COUNT);
        msg->save_done.text = sample_text(state, sample);
        break;
    case MKT_MSG_SAVE_WAIT:
        msg->save_wait.all = random_below(state, 2) == 1;
        msg->save_wait.own = random_below(state, 2) == 1;
        sample_name(state, sample, &msg->save_wait.name);
        break;
    case MKT_MSG_SAVE_STATE:
        sample_fill(state, &msg->save_state, sizeof(msg->save_state));
        msg->save_state.text = sample_text(state, sample);
        break;
    default:
        break;
    }
}

static inline void sample_message(uint64_t *state, enum mkt_msg_type type,
                                  struct message_sample *sample)
{
    memset(sample, 0, sizeof(*sample));
    sample->msg.type = type;
    sample->msg.request = random_next(state);
    switch (type) {
    case MKT_MSG_HELLO:
        sample_hello(state, sample);
        break;
    case MKT_MSG_WELCOME:
        sample_welcome(state, sample);
        break;
    case MKT_MSG_OPEN:
        sample_open(state, sample);
        break;
    case MKT_MSG_ADD:
        sample_add(state, sample);
        break;
    case MKT_MSG_COMMIT:
        sample_commit(state, sample);
        break;
    default:
        sample_small(state, sample);
    }
}

#endif
