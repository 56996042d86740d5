/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the command line asks: state, withdrawal, the end.
 */
#include "core/client/internal.h"
#include "core/client/name.h"
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 65536u

static enum mkt_status append(char **text, size_t *length, struct mkt_bytes part,
                              struct mkt_error *error)
{
    char *larger = realloc(*text, *length + part.length + 1);
    if (larger == NULL)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory for an answer");
    if (part.length > 0)
        memcpy(larger + *length, part.data, part.length);
    *length += part.length;
    larger[*length] = '\0';
    *text = larger;
    return MKT_OK;
}

static enum mkt_status query_parts(struct mkt_client *client, struct mkt_msg *request, char **text,
                                   struct mkt_error *error)
{
    size_t length = 0;
    uint32_t parts = 1;
    for (uint32_t part = 0; part < parts; part++) {
        struct mkt_msg reply;
        request->request = 0;
        request->query.part = part;
        enum mkt_status status = mkt_link_request(&client->link, request, -1, MKT_MSG_ANSWER,
                                                  &MKT_WAIT_REPLY, &reply, NULL, error);
        if (status != MKT_OK)
            return status;
        if (reply.answer.part != part || reply.answer.parts > PARTS_MAX)
            return mkt_link_lose(&client->link, error, MKT_PROTOCOL,
                                 "the market daemon sent another part of its answer than "
                                 "was asked for");
        parts = reply.answer.parts;
        status = append(text, &length, reply.answer.json, error);
        if (status != MKT_OK)
            return status;
    }
    return MKT_OK;
}

/* Where the path leads, for a request; NULL: an empty place. */
static enum mkt_status find_place(struct mkt_client *client, const char *path,
                                  struct mkt_place *place_out, struct mkt_error *error)
{
    *place_out = (struct mkt_place){0};
    enum mkt_status status = mkt_client_check(client, error);
    return status == MKT_OK && path != NULL ? mkt_place_init(place_out, path, error) : status;
}

enum mkt_status mkt_client_query(struct mkt_client *client, enum mkt_query what, const char *path,
                                 char **json_out, struct mkt_error *error)
{
    struct mkt_msg request = {.type = MKT_MSG_QUERY, .query = {.what = what}};
    struct mkt_place place;
    char *text = NULL;
    enum mkt_status status = find_place(client, path, &place, error);
    if (status != MKT_OK)
        return status;
    if (path != NULL)
        mkt_place_name(&place, &request.query.name);
    status = query_parts(client, &request, &text, error);
    mkt_place_fini(&place);
    if (status != MKT_OK) {
        free(text);
        return status;
    }
    *json_out = text;
    return MKT_OK;
}

/* What the place names goes, or, where it isn't NULL, the object. */
static enum mkt_status request_withdrawal(struct mkt_client *client, const struct mkt_place *place,
                                          const uint8_t *object, uint64_t *versions_out,
                                          struct mkt_error *error)
{
    struct mkt_msg reply, request = {.type = MKT_MSG_WITHDRAW};
    mkt_place_name(place, &request.withdraw.name);
    if (object != NULL)
        memcpy(request.withdraw.name.object, object, MKT_ID_BYTES);
    enum mkt_status status = mkt_link_request(&client->link, &request, -1, MKT_MSG_WITHDRAWN,
                                              &MKT_WAIT_REPLY, &reply, NULL, error);
    if (status == MKT_OK)
        *versions_out = reply.count.versions;
    return status;
}

enum mkt_status mkt_client_withdraw(struct mkt_client *client, const char *path,
                                    uint64_t *versions_out, struct mkt_error *error)
{
    struct mkt_place place;
    uint64_t versions = 0;
    enum mkt_status status = find_place(client, path, &place, error);
    if (status != MKT_OK)
        return status;
    status = request_withdrawal(client, &place, NULL, &versions, error);
    bool is_stub = place.kind == MKT_PLACE_STUB;
    bool is_ours = is_stub && memcmp(place.stub.market, client->market, MKT_ID_BYTES) == 0;
    if (status == MKT_NOT_FOUND && is_ours)
        status = MKT_OK; /* left over from an earlier daemon: the stub is all there is */
    else if (status == MKT_NOT_FOUND && is_stub)
        mkt_stub_explain(&place, client->market, client->host, error);
    if (status == MKT_OK && is_stub)
        mkt_stub_remove(&place);
    mkt_place_fini(&place);
    if (status == MKT_OK && versions_out != NULL)
        *versions_out = versions;
    return status;
}

enum mkt_status mkt_client_withdraw_replaced(struct mkt_client *client, const char *path,
                                             const uint8_t object[MKT_ID_BYTES],
                                             struct mkt_error *error)
{
    struct mkt_place place;
    uint64_t versions;
    enum mkt_status status = find_place(client, path, &place, error);
    if (status != MKT_OK)
        return status;
    status = request_withdrawal(client, &place, object, &versions, error);
    mkt_place_fini(&place);
    return status;
}

/* Its answer is dropped when it comes, before the next one that is waited for. */
void mkt_client_withdraw_unheard(struct mkt_client *client, const char *path)
{
    struct mkt_msg request = {.type = MKT_MSG_WITHDRAW};
    struct mkt_place place;
    struct mkt_error error;
    if (find_place(client, path, &place, &error) != MKT_OK)
        return;
    mkt_place_name(&place, &request.withdraw.name);
    if (mkt_link_queue(&client->link, &request, &error) == MKT_OK)
        (void)!mkt_link_flush(&client->link, &error);
    mkt_place_fini(&place);
}

enum mkt_status mkt_client_end(struct mkt_client *client, const char *path, const char *pattern,
                               uint64_t *streams_out, struct mkt_error *error)
{
    struct mkt_msg reply, request = {.type = MKT_MSG_END};
    struct mkt_place place;
    enum mkt_status status = find_place(client, path, &place, error);
    if (status != MKT_OK)
        return status;
    if (path != NULL)
        mkt_place_name(&place, &request.end.name);
    else
        request.end.pattern = (struct mkt_bytes){pattern, (uint32_t)strlen(pattern)};
    status = mkt_link_request(&client->link, &request, -1, MKT_MSG_ENDED, &MKT_WAIT_REPLY, &reply,
                              NULL, error);
    mkt_place_fini(&place);
    if (status == MKT_OK)
        *streams_out = reply.count.versions;
    return status;
}

enum mkt_status mkt_client_drain(struct mkt_client *client, struct mkt_error *error)
{
    struct mkt_msg reply, request = {.type = MKT_MSG_DRAIN};
    enum mkt_status status = mkt_client_check(client, error);
    if (status != MKT_OK)
        return status;
    return mkt_link_request(&client->link, &request, -1, MKT_MSG_DRAINING, &MKT_WAIT_REPLY, &reply,
                            NULL, error);
}

enum mkt_status mkt_client_stop(struct mkt_client *client, bool discard, struct mkt_error *error)
{
    struct mkt_msg reply, request = {.type = MKT_MSG_STOP, .stop = {.discard = discard}};
    enum mkt_status status = mkt_client_check(client, error);
    if (status != MKT_OK)
        return status;
    return mkt_link_request(&client->link, &request, -1, MKT_MSG_STOPPED, &MKT_WAIT_REPLY, &reply,
                            NULL, error);
}
