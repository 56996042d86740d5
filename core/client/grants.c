/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes to write into. Small reservations are cut from a pool of grants, without a message; large
 * ones are granted one by one. What is granted stays this process's until it is added to a file,
 * committed or released.
 */
#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/base/log.h"
#include "core/client/internal.h"
#include <stdlib.h>
#include <string.h>

#define SMALL_BYTES     (256u << 10) /* up to here from the pool */
#define CHUNK_BYTES     (1u << 20)   /* what the pool asks for */
#define CHUNK_SHARE     64u          /* but no more than this part of the market */
#define POOL_MAX_BYTES  (4u << 20)   /* more isn't kept */
#define LARGE_ALIGN     4096u
#define GRANT_MARGIN_MS 30000u /* beyond the daemon's own time-out */

void mkt_pool_fini(struct mkt_pool *pool)
{
    free(pool->list);
    *pool = (struct mkt_pool){0};
}

/* One-way, so it waits for the next message. */
static void queue_release(struct mkt_client *client, const struct mkt_extent *extents,
                          uint32_t count)
{
    struct mkt_msg msg = {.type = MKT_MSG_RELEASE, .release = {.count = count, .extents = extents}};
    struct mkt_error error;
    /* Out of memory here: the daemon takes the bytes back when this process ends. */
    (void)!mkt_link_queue(&client->link, &msg, &error);
}

void mkt_pool_add(struct mkt_client *client, const struct mkt_extent *grant)
{
    struct mkt_pool *pool = &client->pool;
    if (grant->length < MKT_EXTENT_GRANULE)
        return;
    if (pool->free_bytes + grant->length > POOL_MAX_BYTES) {
        queue_release(client, grant, 1);
        return;
    }
    if (pool->count == pool->capacity) {
        uint32_t capacity = pool->capacity > 0 ? 2 * pool->capacity : 8;
        struct mkt_extent *list = realloc(pool->list, capacity * sizeof(*list));
        if (list == NULL) {
            queue_release(client, grant, 1);
            return;
        }
        pool->list = list;
        pool->capacity = capacity;
    }
    pool->list[pool->count++] = *grant;
    pool->free_bytes += grant->length;
}

void mkt_pool_release(struct mkt_client *client)
{
    struct mkt_pool *pool = &client->pool;
    if (pool->count > 0)
        queue_release(client, pool->list, pool->count);
    pool->count = 0;
    pool->free_bytes = 0;
}

/* Cuts a reservation from the pool. MKT_NO_SPACE: no rest is large enough. */
static enum mkt_status pool_cut(struct mkt_pool *pool, uint64_t bytes,
                                struct mkt_extent *extent_out)
{
    uint64_t taken = mkt_round_granule(bytes);
    for (uint32_t i = pool->count; i-- > 0;) {
        struct mkt_extent *rest = &pool->list[i];
        if (rest->length < taken)
            continue;
        *extent_out = *rest;
        extent_out->length = bytes;
        rest->offset += taken;
        rest->length -= taken;
        pool->free_bytes -= taken;
        if (rest->length == 0)
            pool->list[i] = pool->list[--pool->count];
        return MKT_OK;
    }
    return MKT_NO_SPACE;
}

/* Puts back what was cut off last. */
static bool pool_uncut(struct mkt_pool *pool, const struct mkt_extent *extent)
{
    uint64_t taken = mkt_round_granule(extent->length);
    for (uint32_t i = 0; i < pool->count; i++) {
        struct mkt_extent *rest = &pool->list[i];
        if (rest->arena != extent->arena || rest->offset != extent->offset + taken)
            continue;
        rest->offset -= taken;
        rest->length += taken;
        pool->free_bytes += taken;
        return true;
    }
    return false;
}

void mkt_client_told(void *context, const struct mkt_bytes *text)
{
    (void)context;
    mkt_log_warning("memory", "%.*s", (int)text->length, (const char *)text->data);
}

static enum mkt_status ask_grant(struct mkt_client *client, uint64_t bytes, uint64_t align,
                                 struct mkt_extent *extent_out, struct mkt_error *error)
{
    struct mkt_wait wait = {.deadline_ms = mkt_now_ms() + client->full_timeout_ms + GRANT_MARGIN_MS,
                            .ping = true,
                            .told = mkt_client_told};
    struct mkt_msg reply,
        request = {.type = MKT_MSG_GRANT, .grant = {.bytes = bytes, .align = align}};
    enum mkt_status status =
        mkt_link_request(&client->link, &request, -1, MKT_MSG_GRANTED, &wait, &reply, NULL, error);
    if (status != MKT_OK)
        return status;
    struct mkt_extent extent = reply.extent.extent;
    if (extent.arena == 0 || extent.length < bytes || extent.offset % MKT_EXTENT_GRANULE != 0)
        return mkt_link_lose(&client->link, error, MKT_PROTOCOL,
                             "the market daemon granted something else than was asked for");
    *extent_out = extent;
    return MKT_OK;
}

static enum mkt_status reserve_small(struct mkt_client *client, uint64_t bytes,
                                     struct mkt_extent *extent_out, struct mkt_error *error)
{
    struct mkt_extent grant;
    if (pool_cut(&client->pool, bytes, extent_out) == MKT_OK)
        return MKT_OK;
    uint64_t chunk = client->memory_bytes / CHUNK_SHARE;
    if (chunk > CHUNK_BYTES)
        chunk = CHUNK_BYTES;
    if (chunk < bytes)
        chunk = bytes;
    enum mkt_status status =
        ask_grant(client, mkt_round_granule(chunk), MKT_EXTENT_GRANULE, &grant, error);
    if (status != MKT_OK)
        return status;
    *extent_out = grant;
    extent_out->length = bytes;
    grant.offset += mkt_round_granule(bytes);
    grant.length -= mkt_round_granule(bytes);
    mkt_pool_add(client, &grant);
    return MKT_OK;
}

enum mkt_status mkt_client_reserve(struct mkt_client *client, uint64_t bytes,
                                   struct mkt_extent *extent_out, void **address_out,
                                   struct mkt_error *error)
{
    struct mkt_extent extent;
    enum mkt_status status = mkt_client_check(client, error);
    if (status != MKT_OK)
        return status;
    if (bytes == 0)
        return mkt_error_set(error, MKT_INVALID, "no bytes were asked for");
    status = mkt_fault_point("client.reserve");
    if (status != MKT_OK)
        return mkt_error_set(error, status, "a test has this fail");
    if (bytes <= SMALL_BYTES) {
        status = reserve_small(client, bytes, &extent, error);
    } else {
        status = ask_grant(client, bytes, LARGE_ALIGN, &extent, error);
        extent.length = bytes;
    }
    if (status != MKT_OK)
        return status;
    status =
        mkt_mapped_arenas_map(&client->arenas, &client->link, &extent, true, address_out, error);
    if (status != MKT_OK) {
        mkt_client_unreserve(client, &extent);
        return status;
    }
    *extent_out = extent;
    mkt_fault_point("client.reserved");
    return MKT_OK;
}

void mkt_client_unreserve(struct mkt_client *client, const struct mkt_extent *extent)
{
    struct mkt_error error;
    if (mkt_client_check(client, &error) != MKT_OK || extent->arena == 0 || extent->length == 0 ||
        pool_uncut(&client->pool, extent))
        return;
    queue_release(client, extent, 1);
    /* Others may wait for just these bytes. A failure marks the connection lost. */
    (void)!mkt_link_flush(&client->link, &error);
}

enum mkt_status mkt_client_map(struct mkt_client *client, const struct mkt_extent *extent,
                               bool writable, void **address_out, struct mkt_error *error)
{
    enum mkt_status status = mkt_client_check(client, error);
    if (status != MKT_OK)
        return status;
    return mkt_mapped_arenas_map(&client->arenas, &client->link, extent, writable, address_out,
                                 error);
}

enum mkt_status mkt_client_map_source(struct mkt_client *client, const struct mkt_extent *extent,
                                      void **address_out, struct mkt_error *error)
{
    enum mkt_status status = mkt_client_check(client, error);
    if (status != MKT_OK)
        return status;
    void *address = mkt_mapped_arenas_written(&client->arenas, extent);
    if (address == NULL)
        status =
            mkt_mapped_arenas_map(&client->arenas, &client->link, extent, false, &address, error);
    if (status == MKT_OK)
        *address_out = address;
    return status;
}
