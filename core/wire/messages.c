/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/wire/codec.h"
#include <string.h>

static void walk_identity(struct mkt_codec *codec, struct mkt_file_identity *file)
{
    mkt_codec_u64(codec, &file->dev);
    mkt_codec_u64(codec, &file->ino);
    mkt_codec_u64(codec, &file->size);
    mkt_codec_u64(codec, &file->mtime_ns);
    mkt_codec_u64(codec, &file->birth_ns);
}

static void walk_name(struct mkt_codec *codec, struct mkt_name *name)
{
    mkt_codec_align(codec);
    mkt_codec_raw(codec, name->object, sizeof(name->object));
    mkt_codec_u64(codec, &name->parent_dev);
    mkt_codec_u64(codec, &name->parent_ino);
    mkt_codec_bytes(codec, &name->leaf);
    mkt_codec_bytes(codec, &name->path);
    walk_identity(codec, &name->file);
}

/* The version comes first in HELLO and WELCOME of every version; what follows it is known for our
 * own alone. */
static bool walk_protocol(struct mkt_codec *codec, uint32_t *protocol)
{
    mkt_codec_u32(codec, protocol);
    if (codec->failed || *protocol == MKT_PROTOCOL_VERSION)
        return true;
    if (codec->mode == MKT_CODEC_READ)
        codec->at = codec->end &= ~(size_t)7;
    return false;
}

static void walk_hello(struct mkt_codec *codec, struct mkt_msg_hello *hello)
{
    if (!walk_protocol(codec, &hello->protocol))
        return;
    mkt_codec_u32(codec, &hello->pid);
    mkt_codec_u32(codec, &hello->cpu);
    mkt_codec_bytes(codec, &hello->program);
    mkt_codec_bytes(codec, &hello->host);
    mkt_codec_bytes(codec, &hello->config_path);
    mkt_codec_bytes(codec, &hello->config);
    mkt_codec_u64(codec, &hello->session);
    mkt_codec_raw(codec, hello->secret, sizeof(hello->secret));
}

static void walk_welcome(struct mkt_codec *codec, struct mkt_msg_welcome *welcome)
{
    if (!walk_protocol(codec, &welcome->protocol))
        return;
    mkt_codec_range(codec, &welcome->default_mode, MKT_MODE_MEMORY, MKT_MODE_BOTH);
    mkt_codec_raw(codec, welcome->daemon, sizeof(welcome->daemon));
    mkt_codec_u32(codec, &welcome->writer_timeout_ms);
    mkt_codec_u32(codec, &welcome->full_timeout_ms);
    mkt_codec_bool(codec, &welcome->on_demand);
    mkt_codec_u64(codec, &welcome->memory_limit_bytes);
    mkt_codec_bytes(codec, &welcome->rules);
    mkt_codec_u64(codec, &welcome->session);
    mkt_codec_raw(codec, welcome->secret, sizeof(welcome->secret));
    mkt_codec_u64(codec, &welcome->processed);
}

/* The layout of this one is the same in every protocol version: a mismatch is told by it. */
static void walk_error(struct mkt_codec *codec, struct mkt_msg_error *error)
{
    mkt_codec_range(codec, &error->status, MKT_OK + 1, MKT_STATUS_COUNT - 1);
    mkt_codec_bytes(codec, &error->text);
}

static void walk_stream_rule(struct mkt_codec *codec, struct mkt_stream_rule *stream)
{
    mkt_codec_bool(codec, &stream->consumed);
    mkt_codec_u32(codec, &stream->readers);
    mkt_codec_u32(codec, &stream->queue);
    mkt_codec_u32(codec, &stream->queue_timeout_ms);
    mkt_codec_u32(codec, &stream->patience_ms);
    mkt_codec_u32(codec, &stream->end_after);
    mkt_codec_range(codec, &stream->on_full, 0, MKT_FULL_FILE);
    mkt_codec_range(codec, &stream->deliver, 0, MKT_DELIVER_EVERY);
    mkt_codec_u32(codec, &stream->every);
    mkt_codec_bool(codec, &stream->only);
    mkt_codec_bytes(codec, &stream->reader);
}

static void walk_open(struct mkt_codec *codec, struct mkt_msg_open *open)
{
    mkt_codec_raw(codec, open->token, sizeof(open->token));
    mkt_codec_u32(codec, &open->rank);
    mkt_codec_u32(codec, &open->size);
    /* Ranks other than 0 may leave these out. */
    mkt_codec_range(codec, &open->intent, 0, MKT_INTENT_LOAD);
    mkt_codec_range(codec, &open->mode, 0, MKT_MODE_BOTH);
    mkt_codec_u32(codec, &open->wait_ms);
    mkt_codec_u32(codec, &open->writer_timeout_ms);
    mkt_codec_u64(codec, &open->version);
    mkt_codec_u64(codec, &open->after_ms);
    mkt_codec_u32(codec, &open->keep);
    mkt_codec_u32(codec, &open->publish_close);
    mkt_codec_range(codec, &open->durability, 0, MKT_DURABILITY_NONE);
    mkt_codec_u32(codec, &open->priority);
    mkt_codec_bool(codec, &open->backup);
    mkt_codec_bool(codec, &open->pin);
    mkt_codec_bool(codec, &open->read_only);
    mkt_codec_bool(codec, &open->has_stub);
    mkt_codec_bytes(codec, &open->set);
    walk_stream_rule(codec, &open->stream);
    walk_name(codec, &open->name);
}

static void walk_opened(struct mkt_codec *codec, struct mkt_msg_opened *opened)
{
    mkt_codec_u64(codec, &opened->file);
    mkt_codec_u64(codec, &opened->version);
    mkt_codec_raw(codec, opened->object, sizeof(opened->object));
    mkt_codec_extent(codec, &opened->image);
    mkt_codec_extent(codec, &opened->index);
    mkt_codec_extent(codec, &opened->scratch);
    mkt_codec_range(codec, &opened->source, MKT_SOURCE_NATIVE, MKT_SOURCE_VERSION);
    mkt_codec_bytes(codec, &opened->notice);
    mkt_codec_u64(codec, &opened->skipped);
}

static void walk_release(struct mkt_codec *codec, struct mkt_msg_release *release)
{
    const void *list = release->extents;
    mkt_codec_u32(codec, &release->count);
    mkt_codec_list(codec, &list, (size_t)release->count * sizeof(struct mkt_extent));
    release->extents = list;
}

static void walk_fetch(struct mkt_codec *codec, struct mkt_msg_fetch *fetch)
{
    const void *list = fetch->spans;
    mkt_codec_u64(codec, &fetch->file);
    mkt_codec_u64(codec, &fetch->identity);
    mkt_codec_u64(codec, &fetch->stamp);
    mkt_codec_range(codec, &fetch->count, 1, MKT_FETCH_MAX_SPANS);
    mkt_codec_list(codec, &list, (size_t)fetch->count * sizeof(struct mkt_span));
    fetch->spans = list;
}

static void walk_fetched(struct mkt_codec *codec, struct mkt_msg_fetched *fetched)
{
    mkt_codec_extent(codec, &fetched->extent);
    mkt_codec_u64(codec, &fetched->from);
    mkt_codec_bool(codec, &fetched->owned);
}

static void walk_add(struct mkt_codec *codec, struct mkt_msg_add *add)
{
    mkt_codec_u64(codec, &add->file);
    mkt_codec_array(codec, &add->array);
    mkt_codec_bool(codec, &add->acknowledge);
    mkt_codec_u32(codec, &add->count);
    mkt_codec_bytes(codec, &add->records);
    if (add->count > add->records.length / sizeof(struct mkt_piece_record_wire))
        codec->failed = true;
}

static bool are_array_records(struct mkt_bytes records, uint32_t count)
{
    struct mkt_array array;
    uint32_t offset = 0;
    for (uint32_t i = 0; i < count; i++)
        if (mkt_array_record_decode(records, &offset, &array) != MKT_OK)
            return false;
    return offset == records.length;
}

static void walk_commit(struct mkt_codec *codec, struct mkt_msg_commit *commit)
{
    mkt_codec_u64(codec, &commit->file);
    mkt_codec_u64(codec, &commit->hash);
    mkt_codec_extent(codec, &commit->image);
    mkt_codec_bool(codec, &commit->unchanged);
    mkt_codec_bool(codec, &commit->more);
    mkt_codec_bool(codec, &commit->keep_open);
    mkt_codec_bytes(codec, &commit->failure);
    mkt_codec_u32(codec, &commit->count);
    mkt_codec_bytes(codec, &commit->arrays);
    if (!codec->failed && codec->mode == MKT_CODEC_READ &&
        !are_array_records(commit->arrays, commit->count))
        codec->failed = true;
}

static void walk_query(struct mkt_codec *codec, struct mkt_msg_query *query)
{
    mkt_codec_range(codec, &query->what, MKT_QUERY_STATUS, MKT_QUERY_STAT);
    mkt_codec_u32(codec, &query->part);
    walk_name(codec, &query->name);
}

static void walk_answer(struct mkt_codec *codec, struct mkt_msg_answer *answer)
{
    mkt_codec_u32(codec, &answer->part);
    mkt_codec_u32(codec, &answer->parts);
    mkt_codec_bytes(codec, &answer->json);
}

static void walk_save_order(struct mkt_codec *codec, struct mkt_msg_save_order *order)
{
    mkt_codec_raw(codec, order->object, sizeof(order->object));
    mkt_codec_u64(codec, &order->version);
    mkt_codec_extent(codec, &order->image);
    mkt_codec_extent(codec, &order->index);
    walk_identity(codec, &order->file);
    walk_identity(codec, &order->placed);
    mkt_codec_bool(codec, &order->has_stub);
    mkt_codec_bytes(codec, &order->path);
    mkt_codec_bytes(codec, &order->former_path);
}

static void walk_save_done(struct mkt_codec *codec, struct mkt_msg_save_done *done)
{
    mkt_codec_raw(codec, done->object, sizeof(done->object));
    mkt_codec_u64(codec, &done->version);
    walk_identity(codec, &done->file);
    mkt_codec_range(codec, &done->status, MKT_OK, MKT_STATUS_COUNT - 1);
    mkt_codec_bytes(codec, &done->text);
}

static void walk_save_state(struct mkt_codec *codec, struct mkt_msg_save_state *state)
{
    mkt_codec_u64(codec, &state->files);
    mkt_codec_u64(codec, &state->bytes);
    mkt_codec_u64(codec, &state->failing);
    mkt_codec_bytes(codec, &state->text);
}

/* The requests that a client sends. */
static void walk_request(struct mkt_codec *codec, struct mkt_msg *msg)
{
    switch (msg->type) {
    case MKT_MSG_HELLO:
        walk_hello(codec, &msg->hello);
        break;
    case MKT_MSG_OPEN:
        walk_open(codec, &msg->open);
        break;
    case MKT_MSG_GRANT:
        mkt_codec_u64(codec, &msg->grant.bytes);
        mkt_codec_u64(codec, &msg->grant.align);
        break;
    case MKT_MSG_FETCH:
        walk_fetch(codec, &msg->fetch);
        break;
    case MKT_MSG_WAITING:
        mkt_codec_bytes(codec, &msg->waiting.text);
        break;
    case MKT_MSG_FETCHED:
        walk_fetched(codec, &msg->fetched);
        break;
    case MKT_MSG_RELEASE:
        walk_release(codec, &msg->release);
        break;
    case MKT_MSG_MAP:
        mkt_codec_u32(codec, &msg->map.arena);
        break;
    case MKT_MSG_ADD:
        walk_add(codec, &msg->add);
        break;
    case MKT_MSG_TOUCH:
        mkt_codec_u64(codec, &msg->touch.file);
        mkt_codec_u64(codec, &msg->touch.identity);
        mkt_codec_u64(codec, &msg->touch.stamp);
        break;
    case MKT_MSG_LOOKUP:
        mkt_codec_u64(codec, &msg->lookup.file);
        mkt_codec_u64(codec, &msg->lookup.identity);
        break;
    case MKT_MSG_COMMIT:
        walk_commit(codec, &msg->commit);
        break;
    case MKT_MSG_CLOSE:
        mkt_codec_u64(codec, &msg->file.file);
        mkt_codec_bool(codec, &msg->file.unread);
        break;
    case MKT_MSG_WITHDRAW:
        walk_name(codec, &msg->withdraw.name);
        break;
    case MKT_MSG_QUERY:
        walk_query(codec, &msg->query);
        break;
    case MKT_MSG_STOP:
        mkt_codec_bool(codec, &msg->stop.discard);
        break;
    case MKT_MSG_SAVE_NEXT:
        mkt_codec_u32(codec, &msg->save_next.wait_ms);
        break;
    case MKT_MSG_SAVE_PLACE:
        mkt_codec_raw(codec, msg->save_place.object, sizeof(msg->save_place.object));
        mkt_codec_u64(codec, &msg->save_place.version);
        walk_identity(codec, &msg->save_place.file);
        break;
    case MKT_MSG_SAVE_YIELD:
        mkt_codec_u64(codec, &msg->save_yield.bytes);
        break;
    case MKT_MSG_SAVE_DONE:
        walk_save_done(codec, &msg->save_done);
        break;
    case MKT_MSG_SAVE_WAIT:
        mkt_codec_u32(codec, &msg->save_wait.wait_ms);
        mkt_codec_bool(codec, &msg->save_wait.all);
        mkt_codec_bool(codec, &msg->save_wait.own);
        walk_name(codec, &msg->save_wait.name);
        break;
    case MKT_MSG_END:
        mkt_codec_bytes(codec, &msg->end.pattern);
        walk_name(codec, &msg->end.name);
        break;
    default:
        codec->failed = true;
    }
}

static void walk_payload(struct mkt_codec *codec, struct mkt_msg *msg)
{
    switch (msg->type) {
    case MKT_MSG_WELCOME:
        walk_welcome(codec, &msg->welcome);
        break;
    case MKT_MSG_ERROR:
        walk_error(codec, &msg->error);
        break;
    case MKT_MSG_OPENED:
        walk_opened(codec, &msg->opened);
        break;
    case MKT_MSG_GRANTED:
    case MKT_MSG_FOUND:
        mkt_codec_extent(codec, &msg->extent.extent);
        break;
    case MKT_MSG_MAPPED:
        mkt_codec_u64(codec, &msg->mapped.size_bytes);
        mkt_codec_u32(codec, &msg->mapped.arena);
        break;
    case MKT_MSG_ADDED:
        mkt_codec_u64(codec, &msg->added.first_stamp);
        break;
    case MKT_MSG_TOUCHED:
        mkt_codec_bool(codec, &msg->touched.superseded);
        break;
    case MKT_MSG_COMMITTED:
        mkt_codec_u64(codec, &msg->version.version);
        break;
    case MKT_MSG_WITHDRAWN:
    case MKT_MSG_ENDED:
        mkt_codec_u64(codec, &msg->count.versions);
        break;
    case MKT_MSG_ANSWER:
        walk_answer(codec, &msg->answer);
        break;
    case MKT_MSG_SAVE_ORDER:
        walk_save_order(codec, &msg->save_order);
        break;
    case MKT_MSG_SAVE_STATE:
        walk_save_state(codec, &msg->save_state);
        break;
    case MKT_MSG_CANCEL:
    case MKT_MSG_MAILBOX:
    case MKT_MSG_STOPPED:
    case MKT_MSG_SAVE_PLACED:
    case MKT_MSG_SAVE_NOTED:
    case MKT_MSG_SAVE_GO:
    case MKT_MSG_DRAIN:
    case MKT_MSG_DRAINING:
        break;
    default:
        walk_request(codec, msg);
    }
    mkt_codec_align(codec);
}

static bool may_carry_fd(uint16_t type)
{
    return type == MKT_MSG_MAILBOX || type == MKT_MSG_MAPPED || type == MKT_MSG_OPEN ||
           type == MKT_MSG_SAVE_DONE;
}

enum mkt_status mkt_msg_size(const struct mkt_msg *msg, size_t *bytes_out)
{
    struct mkt_msg copy = *msg;
    struct mkt_codec codec = {.mode = MKT_CODEC_MEASURE};
    walk_payload(&codec, &copy);
    if (codec.failed || codec.at > MKT_FRAME_MAX_BYTES - sizeof(struct mkt_frame_wire))
        return MKT_INVALID;
    *bytes_out = sizeof(struct mkt_frame_wire) + codec.at;
    return MKT_OK;
}

enum mkt_status mkt_msg_encode(const struct mkt_msg *msg, bool has_fd, void *frame_out,
                               size_t capacity, size_t *bytes_out)
{
    struct mkt_msg copy = *msg;
    struct mkt_frame_wire head = {.magic = MKT_FRAME_MAGIC,
                                  .type = (uint16_t)msg->type,
                                  .has_fd = has_fd,
                                  .request = msg->request};
    if (capacity > MKT_FRAME_MAX_BYTES)
        capacity = MKT_FRAME_MAX_BYTES;
    if (capacity < sizeof(head) || (has_fd && !may_carry_fd(head.type)))
        return MKT_INVALID;
    struct mkt_codec codec = {.mode = MKT_CODEC_WRITE,
                              .out = (uint8_t *)frame_out + sizeof(head),
                              .end = capacity - sizeof(head)};
    walk_payload(&codec, &copy);
    if (codec.failed)
        return MKT_INVALID;
    head.bytes = (uint32_t)codec.at;
    memcpy(frame_out, &head, sizeof(head));
    *bytes_out = sizeof(head) + codec.at;
    return MKT_OK;
}

enum mkt_status mkt_frame_check(const struct mkt_frame_wire *head)
{
    if (head->magic != MKT_FRAME_MAGIC || head->reserved != 0)
        return MKT_PROTOCOL;
    if (head->bytes > MKT_FRAME_MAX_BYTES - sizeof(*head))
        return MKT_PROTOCOL;
    if (head->type < MKT_MSG_HELLO || head->type >= MKT_MSG_TYPE_END)
        return MKT_PROTOCOL;
    if (head->has_fd > 1 || (head->has_fd == 1 && !may_carry_fd(head->type)))
        return MKT_PROTOCOL;
    return MKT_OK;
}

enum mkt_status mkt_msg_decode(const struct mkt_frame_wire *head, const void *payload,
                               struct mkt_msg *msg_out)
{
    if (mkt_frame_check(head) != MKT_OK)
        return MKT_PROTOCOL;
    struct mkt_msg msg;
    memset(&msg, 0, sizeof(msg));
    msg.type = head->type;
    msg.request = head->request;
    struct mkt_codec codec = {.mode = MKT_CODEC_READ, .in = payload, .end = head->bytes};
    walk_payload(&codec, &msg);
    if (codec.failed || codec.at != codec.end)
        return MKT_PROTOCOL;
    *msg_out = msg;
    return MKT_OK;
}

size_t mkt_array_record_bytes(const struct mkt_array *array)
{
    struct mkt_array copy = *array;
    struct mkt_codec codec = {.mode = MKT_CODEC_MEASURE};
    mkt_codec_array(&codec, &copy);
    return codec.at;
}

void mkt_array_record_encode(const struct mkt_array *array, void *out)
{
    struct mkt_array copy = *array;
    struct mkt_codec codec = {.mode = MKT_CODEC_WRITE, .out = out, .end = SIZE_MAX};
    mkt_codec_array(&codec, &copy);
}

enum mkt_status mkt_array_record_decode(struct mkt_bytes records, uint32_t *offset,
                                        struct mkt_array *array_out)
{
    struct mkt_array array;
    memset(&array, 0, sizeof(array));
    if (*offset > records.length || *offset % 8 != 0)
        return MKT_PROTOCOL;
    struct mkt_codec codec = {
        .mode = MKT_CODEC_READ, .in = records.data, .at = *offset, .end = records.length};
    mkt_codec_array(&codec, &array);
    if (codec.failed)
        return MKT_PROTOCOL;
    *offset = (uint32_t)codec.at;
    *array_out = array;
    return MKT_OK;
}
