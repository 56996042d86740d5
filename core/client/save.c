/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an archiver asks, and who waits for it.
 */
#include "core/client/internal.h"
#include "core/client/name.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum mkt_status request_with(struct mkt_client *client, struct mkt_msg *msg, int fd,
                                    enum mkt_msg_type expected, struct mkt_msg *reply_out,
                                    struct mkt_error *error)
{
    const struct mkt_wait wait = {.deadline_ms = UINT64_MAX, .ping = true};
    enum mkt_status status = mkt_client_check(client, error);
    if (status != MKT_OK)
        return status;
    return mkt_link_request(&client->link, msg, fd, expected, &wait, reply_out, NULL, error);
}

static enum mkt_status request(struct mkt_client *client, struct mkt_msg *msg,
                               enum mkt_msg_type expected, struct mkt_msg *reply_out,
                               struct mkt_error *error)
{
    return request_with(client, msg, -1, expected, reply_out, error);
}

static enum mkt_status wait_for_state(struct mkt_client *client, struct mkt_msg *msg,
                                      struct mkt_save_state *state_out, struct mkt_error *error)
{
    struct mkt_msg reply;
    enum mkt_status status = request(client, msg, MKT_MSG_SAVE_STATE, &reply, error);
    if (status != MKT_OK)
        return status;
    const struct mkt_msg_save_state *state = &reply.save_state;
    state_out->files = state->files;
    state_out->bytes = state->bytes;
    state_out->failing = state->failing;
    snprintf(state_out->text, sizeof(state_out->text), "%.*s", (int)state->text.length,
             state->text.length > 0 ? (const char *)state->text.data : "");
    return MKT_OK;
}

enum mkt_status mkt_client_save_wait(struct mkt_client *client, const char *path, uint32_t wait_ms,
                                     struct mkt_save_state *state_out, struct mkt_error *error)
{
    struct mkt_msg msg = {.type = MKT_MSG_SAVE_WAIT,
                          .save_wait = {.all = path == NULL, .wait_ms = wait_ms}};
    struct mkt_place place = {0};
    enum mkt_status status = path != NULL ? mkt_place_init(&place, path, error) : MKT_OK;
    if (status != MKT_OK)
        return status;
    if (path != NULL)
        mkt_place_name(&place, &msg.save_wait.name);
    status = wait_for_state(client, &msg, state_out, error);
    mkt_place_fini(&place);
    return status;
}

enum mkt_status mkt_client_save_wait_own(struct mkt_client *client, uint32_t wait_ms,
                                         struct mkt_save_state *state_out, struct mkt_error *error)
{
    struct mkt_msg msg = {.type = MKT_MSG_SAVE_WAIT,
                          .save_wait = {.own = true, .wait_ms = wait_ms}};
    return wait_for_state(client, &msg, state_out, error);
}

static enum mkt_status map_order(struct mkt_client *client, const struct mkt_msg_save_order *from,
                                 struct mkt_save_order *order, struct mkt_error *error)
{
    void *image = NULL, *index = NULL;
    enum mkt_status status = MKT_OK;
    if (from->image.length > 0)
        status = mkt_client_map(client, &from->image, false, &image, error);
    if (status == MKT_OK && from->index.length > 0)
        status = mkt_client_map(client, &from->index, false, &index, error);
    order->image = image;
    order->image_bytes = from->image.length;
    order->index = index;
    order->index_bytes = from->index.length;
    return status;
}

void mkt_save_order_fini(struct mkt_save_order *order)
{
    free(order->path);
    free(order->former);
    order->path = order->former = NULL;
}

enum mkt_status mkt_client_save_next(struct mkt_client *client, uint32_t wait_ms,
                                     struct mkt_save_order *order_out, struct mkt_error *error)
{
    struct mkt_msg reply, msg = {.type = MKT_MSG_SAVE_NEXT, .save_next = {.wait_ms = wait_ms}};
    enum mkt_status status = request(client, &msg, MKT_MSG_SAVE_ORDER, &reply, error);
    if (status != MKT_OK)
        return status;
    const struct mkt_msg_save_order from = reply.save_order;
    struct mkt_save_order order = {.version = from.version,
                                   .has_stub = from.has_stub,
                                   .file = from.file,
                                   .placed = from.placed};
    memcpy(order.object, from.object, MKT_ID_BYTES);
    order.path = strndup(from.path.length > 0 ? from.path.data : "", from.path.length);
    if (from.former_path.length > 0)
        order.former = strndup(from.former_path.data, from.former_path.length);
    if (order.path == NULL || (order.former == NULL && from.former_path.length > 0)) {
        mkt_save_order_fini(&order);
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory for an order");
    }
    status = map_order(client, &from, &order, error); /* overwrites what `reply` points to */
    if (status != MKT_OK) {
        mkt_save_order_fini(&order);
        return status;
    }
    *order_out = order;
    return MKT_OK;
}

enum mkt_status mkt_client_save_yield(struct mkt_client *client, uint64_t bytes,
                                      struct mkt_error *error)
{
    struct mkt_msg reply, msg = {.type = MKT_MSG_SAVE_YIELD, .save_yield = {.bytes = bytes}};
    return request(client, &msg, MKT_MSG_SAVE_GO, &reply, error);
}

enum mkt_status mkt_client_save_place(struct mkt_client *client, const struct mkt_save_order *order,
                                      const struct mkt_file_identity *file, struct mkt_error *error)
{
    struct mkt_msg reply, msg = {.type = MKT_MSG_SAVE_PLACE,
                                 .save_place = {.version = order->version, .file = *file}};
    memcpy(msg.save_place.object, order->object, MKT_ID_BYTES);
    return request(client, &msg, MKT_MSG_SAVE_PLACED, &reply, error);
}

/* A descriptor of the file that was written, for the daemon to see when it is removed; -1: none.
 * `written`: the file's own, if it is known. */
static int watch(const char *path, int written, const struct mkt_file_identity *file)
{
    struct stat info;
    char own[32];
    snprintf(own, sizeof(own), "/proc/self/fd/%d", written);
    int fd = open(written >= 0 ? own : path, O_PATH | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &info) == 0 && info.st_dev == file->dev && info.st_ino == file->ino))
        return fd;
    close(fd);
    return -1;
}

enum mkt_status mkt_client_save_done(struct mkt_client *client, const struct mkt_save_order *order,
                                     const struct mkt_error *outcome,
                                     const struct mkt_file_identity *file, int written,
                                     struct mkt_error *error)
{
    struct mkt_msg reply,
        msg = {.type = MKT_MSG_SAVE_DONE,
               .save_done = {.version = order->version, .status = outcome->status, .file = *file}};
    memcpy(msg.save_done.object, order->object, MKT_ID_BYTES);
    if (outcome->status != MKT_OK)
        msg.save_done.text = (struct mkt_bytes){
            outcome->text, (uint32_t)strnlen(outcome->text, sizeof(outcome->text))};
    int fd = outcome->status == MKT_OK ? watch(order->path, written, file) : -1;
    enum mkt_status status = request_with(client, &msg, fd, MKT_MSG_SAVE_NOTED, &reply, error);
    if (fd >= 0)
        close(fd);
    return status;
}
