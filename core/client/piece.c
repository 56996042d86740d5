/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A piece's data at hand: where it is in memory it is mapped, where it lies in a tier the daemon
 * reads what is wanted of it into memory first.
 */
#include "core/base/fault.h"
#include "core/client/internal.h"
#include <stdlib.h>
#include <string.h>

/* Parts this close are read in one go: a read of so much more costs less than another one. */
#define GAP_BYTES 4096

/* ---- spans ---- */

void mkt_spans_fini(struct mkt_spans *spans)
{
    free(spans->item);
    *spans = (struct mkt_spans){0};
}

static void add(struct mkt_spans *spans, uint64_t offset, uint64_t length)
{
    struct mkt_span *last = spans->count > 0 ? &spans->item[spans->count - 1] : NULL;
    if (last != NULL && offset >= last->offset &&
        offset <= last->offset + last->length + GAP_BYTES) {
        uint64_t end = offset + length;
        if (end > last->offset + last->length)
            last->length = end - last->offset;
        return;
    }
    if (spans->count == spans->capacity) {
        uint32_t capacity = spans->capacity > 0 ? 2 * spans->capacity : 64;
        struct mkt_span *larger = realloc(spans->item, capacity * sizeof(*larger));
        if (larger == NULL) {
            spans->failed = true;
            return;
        }
        spans->item = larger;
        spans->capacity = capacity;
    }
    spans->item[spans->count++] = (struct mkt_span){offset, length};
}

/* Loops from `loop` on; those inside of it make a run of `length` bytes. */
static void add_loops(struct mkt_spans *spans, const struct mkt_move *move, uint32_t loop,
                      uint32_t loops, uint64_t offset, uint64_t length)
{
    if (loop == loops) {
        add(spans, offset, length);
        return;
    }
    for (uint64_t i = 0; i < move->loop[loop].count && !spans->failed; i++)
        add_loops(spans, move, loop + 1, loops, offset + i * move->loop[loop].piece_step, length);
}

void mkt_spans_add(void *context, const struct mkt_move *move)
{
    struct mkt_spans *spans = context;
    uint64_t length = move->bytes;
    uint32_t loops = move->loops;
    /* Inner loops whose steps leave small gaps are one run. */
    while (loops > 0 && move->loop[loops - 1].piece_step <= length + GAP_BYTES) {
        length += (move->loop[loops - 1].count - 1) * move->loop[loops - 1].piece_step;
        loops--;
    }
    add_loops(spans, move, 0, loops, move->piece, length);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = ((const struct mkt_span *)a)->offset, y = ((const struct mkt_span *)b)->offset;
    return x < y ? -1 : x > y;
}

void mkt_spans_tidy(struct mkt_spans *spans)
{
    uint64_t gap = GAP_BYTES;
    if (spans->count == 0)
        return;
    qsort(spans->item, spans->count, sizeof(*spans->item), compare);
    do {
        uint32_t kept = 0;
        for (uint32_t i = 1; i < spans->count; i++) {
            struct mkt_span *last = &spans->item[kept];
            const struct mkt_span *next = &spans->item[i];
            uint64_t end = next->offset + next->length;
            if (next->offset > last->offset + last->length + gap)
                spans->item[++kept] = *next;
            else if (end > last->offset + last->length)
                last->length = end - last->offset;
        }
        spans->count = kept + 1;
        gap *= 4;
    } while (spans->count > MKT_FETCH_MAX_SPANS);
}

/* ---- pieces ---- */

static enum mkt_status ask(struct mkt_client *client, const struct mkt_piece_source *source,
                           const struct mkt_piece *piece, const struct mkt_span *spans,
                           uint32_t count, struct mkt_msg_fetched *fetched_out,
                           struct mkt_error *error)
{
    struct mkt_wait wait = {.deadline_ms = UINT64_MAX, .ping = true, .told = mkt_client_told};
    struct mkt_msg reply, request = {.type = MKT_MSG_FETCH,
                                     .fetch = {.file = source->file,
                                               .identity = source->identity,
                                               .stamp = piece->stamp,
                                               .count = count,
                                               .spans = spans}};
    enum mkt_status status = mkt_client_check(client, error);
    if (status == MKT_OK)
        status = mkt_link_request(&client->link, &request, -1, MKT_MSG_FETCHED, &wait, &reply, NULL,
                                  error);
    if (status == MKT_OK)
        *fetched_out = reply.fetched;
    mkt_fault_point("client.fetched");
    return status;
}

static enum mkt_status fetch(struct mkt_client *client, const struct mkt_piece_source *source,
                             const struct mkt_piece *piece, const struct mkt_span *spans,
                             uint32_t count, struct mkt_piece_data *data_out,
                             struct mkt_error *error)
{
    struct mkt_msg_fetched fetched;
    void *address;
    enum mkt_status status = ask(client, source, piece, spans, count, &fetched, error);
    if (status != MKT_OK)
        return status;
    status = mkt_client_map(client, &fetched.extent, false, &address, error);
    if (status != MKT_OK) {
        if (fetched.owned)
            mkt_client_unreserve(client, &fetched.extent);
        return status;
    }
    *data_out = (struct mkt_piece_data){.base = (uint8_t *)address - fetched.from};
    if (fetched.owned)
        data_out->fetched = fetched.extent;
    return MKT_OK;
}

enum mkt_status mkt_client_piece_get(struct mkt_client *client,
                                     const struct mkt_piece_source *source,
                                     const struct mkt_piece *piece, struct mkt_spans *wanted,
                                     struct mkt_piece_data *data_out, struct mkt_error *error)
{
    void *address;
    if (mkt_extent_is_cold(&piece->data)) {
        const struct mkt_span whole = {0, piece->data.length};
        if (wanted == NULL || wanted->failed || wanted->count == 0)
            return fetch(client, source, piece, &whole, 1, data_out, error);
        mkt_spans_tidy(wanted);
        return fetch(client, source, piece, wanted->item, wanted->count, data_out, error);
    }
    enum mkt_status status = mkt_client_map_source(client, &piece->data, &address, error);
    if (status == MKT_OK)
        *data_out = (struct mkt_piece_data){.base = address};
    return status;
}

void mkt_client_piece_put(struct mkt_client *client, const struct mkt_piece_data *data)
{
    if (data->fetched.length > 0)
        mkt_client_unreserve(client, &data->fetched);
}
