/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes into a file: pieces while it is written, image and arrays when it is closed. One-way
 * messages are collected and leave with the next one that wants an answer, in one system call, or
 * when there is something else to do meanwhile.
 */
#include "core/base/fault.h"
#include "core/client/internal.h"
#include <stdlib.h>
#include <string.h>

#define QUEUE_MAX_BYTES   (64u << 10)  /* collected before they are sent without waiting for more */
#define LIST_MAX_BYTES    (768u << 10) /* of records in one message */
#define FAILURE_MAX_BYTES 1000u

/* ---- pieces ---- */

/* Encodes as many pieces as a message holds into a list; *taken_out tells how many. */
static enum mkt_status encode_pieces(const struct mkt_piece *pieces, uint32_t count,
                                     uint32_t *taken_out, struct mkt_bytes *list_out,
                                     struct mkt_error *error)
{
    uint32_t bytes = 0, taken = 0;
    while (taken < count && bytes < LIST_MAX_BYTES)
        bytes += mkt_piece_record_bytes(&pieces[taken++]);
    uint8_t *list = malloc(bytes > 0 ? bytes : 1);
    if (list == NULL)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory for %u piece records", taken);
    for (uint32_t i = 0, at = 0; i < taken; i++) {
        mkt_piece_encode(&pieces[i], list + at);
        at += mkt_piece_record_bytes(&pieces[i]);
    }
    *taken_out = taken;
    *list_out = (struct mkt_bytes){list, bytes};
    return MKT_OK;
}

static enum mkt_status add_acknowledged(struct mkt_client *client, struct mkt_msg *msg,
                                        uint64_t *stamp_out, struct mkt_error *error)
{
    struct mkt_msg reply;
    enum mkt_status status = mkt_link_request(&client->link, msg, -1, MKT_MSG_ADDED,
                                              &MKT_WAIT_REPLY, &reply, NULL, error);
    if (status == MKT_OK)
        *stamp_out = reply.added.first_stamp;
    return status;
}

static enum mkt_status add_queued(struct mkt_client *client, struct mkt_msg *msg,
                                  struct mkt_error *error)
{
    enum mkt_status status = mkt_link_queue(&client->link, msg, error);
    if (status == MKT_OK && mkt_link_unsent(&client->link) >= QUEUE_MAX_BYTES)
        status = mkt_link_flush(&client->link, error);
    return status;
}

enum mkt_status mkt_client_add(struct mkt_client *client, uint64_t file,
                               const struct mkt_array *array, const struct mkt_piece *pieces,
                               uint32_t count, bool acknowledge, uint64_t *first_stamp_out,
                               struct mkt_error *error)
{
    uint64_t first = 0, next = 0;
    enum mkt_status status = mkt_client_check(client, error);
    for (uint32_t done = 0; status == MKT_OK && done < count;) {
        struct mkt_msg msg = {.type = MKT_MSG_ADD, .add = {.file = file, .array = *array}};
        uint64_t stamp = 0;
        status =
            encode_pieces(pieces + done, count - done, &msg.add.count, &msg.add.records, error);
        if (status != MKT_OK)
            break;
        msg.add.acknowledge = acknowledge;
        status = acknowledge ? add_acknowledged(client, &msg, &stamp, error)
                             : add_queued(client, &msg, error);
        free((void *)msg.add.records.data);
        mkt_fault_point("client.added");
        if (done == 0)
            first = stamp;
        else if (stamp != next)
            first = 0;
        next = stamp + msg.add.count;
        done += msg.add.count;
    }
    if (status == MKT_OK && first_stamp_out != NULL)
        *first_stamp_out = acknowledge ? first : 0;
    return status;
}

void mkt_client_push(struct mkt_client *client)
{
    struct mkt_error error;
    if (mkt_client_check(client, &error) == MKT_OK)
        (void)!mkt_link_push(&client->link, &error);
}

enum mkt_status mkt_client_touch(struct mkt_client *client, uint64_t file, uint64_t identity,
                                 uint64_t stamp, bool *superseded_out, struct mkt_error *error)
{
    struct mkt_msg reply, request = {.type = MKT_MSG_TOUCH,
                                     .touch = {.file = file, .identity = identity, .stamp = stamp}};
    enum mkt_status status = mkt_client_check(client, error);
    if (status == MKT_OK)
        status = mkt_link_request(&client->link, &request, -1, MKT_MSG_TOUCHED, &MKT_WAIT_REPLY,
                                  &reply, NULL, error);
    if (status == MKT_OK)
        *superseded_out = reply.touched.superseded;
    return status;
}

enum mkt_status mkt_client_lookup(struct mkt_client *client, uint64_t file, uint64_t identity,
                                  struct mkt_extent *extent_out, const void **index_out,
                                  struct mkt_error *error)
{
    void *address = NULL;
    struct mkt_msg reply,
        request = {.type = MKT_MSG_LOOKUP, .lookup = {.file = file, .identity = identity}};
    enum mkt_status status = mkt_client_check(client, error);
    if (status == MKT_OK)
        status = mkt_link_request(&client->link, &request, -1, MKT_MSG_FOUND, &MKT_WAIT_REPLY,
                                  &reply, NULL, error);
    if (status != MKT_OK)
        return status;
    struct mkt_extent extent = reply.extent.extent;
    status = mkt_client_map(client, &extent, false, &address, error);
    if (status != MKT_OK) {
        mkt_client_unreserve(client, &extent);
        return status;
    }
    *extent_out = extent;
    *index_out = address;
    return MKT_OK;
}

/* ---- publishing ---- */

static enum mkt_status copy_image(struct mkt_client *client, const struct mkt_commit *commit,
                                  struct mkt_extent *image_out, struct mkt_error *error)
{
    void *address;
    *image_out = (struct mkt_extent){0};
    if (commit->image == NULL || commit->image_bytes == 0 || commit->unchanged ||
        commit->failure != NULL)
        return MKT_OK;
    enum mkt_status status =
        mkt_client_reserve(client, commit->image_bytes, image_out, &address, error);
    if (status == MKT_OK)
        memcpy(address, commit->image, commit->image_bytes);
    return status;
}

/* Packs arrays from *done on into one list; the rest needs another message. */
static enum mkt_status encode_arrays(const struct mkt_commit *commit, uint32_t *done,
                                     struct mkt_msg_commit *msg, struct mkt_error *error)
{
    uint32_t end = *done;
    size_t bytes = 0, at = 0;
    while (end < commit->arrays_count && bytes < LIST_MAX_BYTES)
        bytes += mkt_array_record_bytes(&commit->arrays[end++]);
    uint8_t *list = malloc(bytes > 0 ? bytes : 1);
    if (list == NULL)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory for %u array records",
                             end - *done);
    for (uint32_t i = *done; i < end; i++) {
        mkt_array_record_encode(&commit->arrays[i], list + at);
        at += mkt_array_record_bytes(&commit->arrays[i]);
    }
    msg->count = end - *done;
    msg->arrays = (struct mkt_bytes){list, (uint32_t)bytes};
    msg->more = end < commit->arrays_count;
    *done = end;
    return MKT_OK;
}

static void commit_sent(void *context)
{
    (void)context;
    mkt_fault_point("client.commit-sent");
}

static enum mkt_status send_commit(struct mkt_client *client, struct mkt_msg *msg,
                                   uint64_t *version_out, struct mkt_error *error)
{
    struct mkt_wait wait = {.deadline_ms = UINT64_MAX, .ping = true, .meanwhile = commit_sent};
    struct mkt_msg reply;
    if (msg->commit.more)
        return mkt_link_queue(&client->link, msg, error);
    if (!msg->commit.keep_open && mkt_client_file_is_last_writer(client, msg->commit.file))
        mkt_pool_release(client);
    enum mkt_status status =
        mkt_link_request(&client->link, msg, -1, MKT_MSG_COMMITTED, &wait, &reply, NULL, error);
    if (status == MKT_OK)
        *version_out = reply.version.version;
    mkt_fault_point("client.commit-answered");
    return status;
}

static enum mkt_status send_commits(struct mkt_client *client, const struct mkt_commit *commit,
                                    const struct mkt_extent *image, uint64_t *version_out,
                                    struct mkt_error *error)
{
    uint32_t done = 0;
    struct mkt_msg msg = {.commit = {.file = commit->file,
                                     .hash = commit->hash,
                                     .unchanged = commit->unchanged,
                                     .keep_open = commit->keep_open}};
    if (commit->failure != NULL) {
        size_t length = strnlen(commit->failure, FAILURE_MAX_BYTES);
        msg.commit.failure = (struct mkt_bytes){length > 0 ? commit->failure : "unknown",
                                                length > 0 ? (uint32_t)length : 7};
    }
    do {
        enum mkt_status status = encode_arrays(commit, &done, &msg.commit, error);
        if (status != MKT_OK)
            return status;
        msg.type = MKT_MSG_COMMIT;
        msg.request = 0;
        if (!msg.commit.more)
            msg.commit.image = *image;
        status = send_commit(client, &msg, version_out, error);
        free((void *)msg.commit.arrays.data);
        if (status != MKT_OK)
            return status;
    } while (msg.commit.more);
    return MKT_OK;
}

enum mkt_status mkt_client_commit(struct mkt_client *client, const struct mkt_commit *commit,
                                  uint64_t *version_out, struct mkt_error *error)
{
    struct mkt_extent image;
    struct mkt_error local;
    uint64_t version = 0;
    struct mkt_commit final = *commit;
    if (error == NULL)
        error = &local;
    enum mkt_status status = mkt_client_check(client, error);
    if (status != MKT_OK)
        return status;
    enum mkt_status failed = copy_image(client, commit, &image, error);
    mkt_fault_point("client.commit-image");
    struct mkt_error cause = *error;
    if (failed != MKT_OK) {
        /* The others must hear of it. */
        final.failure = cause.text;
        final.arrays_count = 0;
        image = (struct mkt_extent){0};
    }
    status = send_commits(client, &final, &image, &version, error);
    if (status != MKT_OK || !commit->keep_open)
        mkt_client_file_leave(client, commit->file);
    if (failed != MKT_OK) {
        *error = cause;
        return failed;
    }
    if (status == MKT_OK && version_out != NULL)
        *version_out = version;
    return status;
}
