/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening: what stands at the path decides what is asked for. While a reader waits, the path is
 * looked at again and again: what appears there (a stub, a real file) is asked for instead.
 */
#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/base/log.h"
#include "core/client/internal.h"
#include "core/client/load.h"
#include "core/client/name.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OPEN_MARGIN_MS 120000u /* beyond the daemon's own deadlines */
#define STUB_TRIES     16
/* A writer that waits for a place in a queue says so after the first, then after each next. */
#define PATIENCE_FIRST_MS 2000u
#define PATIENCE_NEXT_MS  30000u
#define STUB_WAIT_MS      10000u /* the daemon removes the stub that stood there */
/* A larger file is brought in for a writer by `stage_in` only. */
#define UNASKED_BYTES (64u << 20)

struct opening {
    struct mkt_client *client;
    const struct mkt_open *request;
    struct mkt_place place; /* rank 0's */
    struct mkt_rule rule;
    int stub_fd;
    bool made_stub, changed, interrupted;
    uint8_t
        own_stub[MKT_ID_BYTES]; /* made_stub: its object, for when the open is asked for again */
    bool queued;                /* it has said that it waits */
    uint64_t started_ms;
};

static bool creates(const struct mkt_open *request)
{
    return request->intent == MKT_INTENT_CREATE || request->intent == MKT_INTENT_CREATE_EXCL;
}

static bool writes(const struct mkt_open *request)
{
    return creates(request) || request->intent == MKT_INTENT_READ_WRITE;
}

/* Without a daemon there is what is on disk. */
static enum mkt_status open_without_daemon(const struct mkt_open *request,
                                           struct mkt_opened *opened_out, struct mkt_error *error)
{
    struct mkt_place place;
    char host[64];
    if (creates(request) || request->path == NULL)
        return mkt_error_set(error, MKT_INVALID, "a writer needs a market daemon");
    enum mkt_status status = mkt_place_init(&place, request->path, error);
    if (status != MKT_OK)
        return status;
    mkt_client_host(host, sizeof(host));
    if (place.kind == MKT_PLACE_STUB) {
        mkt_stub_explain(&place, NULL, host, error);
        status = MKT_NOT_FOUND;
    } else if (place.kind == MKT_PLACE_NONE) {
        status = mkt_error_set(error, MKT_NOT_FOUND,
                               "%.400s: no such file, and no market daemon runs", place.path);
    } else {
        *opened_out = (struct mkt_opened){.source = MKT_SOURCE_NATIVE};
    }
    mkt_place_fini(&place);
    return status;
}

/* ---- what rank 0 prepares ---- */

/* What stands there is the stub that this open has made. */
static bool is_own_stub(const struct opening *opening)
{
    const struct mkt_place *place = &opening->place;
    return opening->made_stub && place->kind == MKT_PLACE_STUB &&
           memcmp(place->stub.object, opening->own_stub, MKT_ID_BYTES) == 0;
}

static enum mkt_status ensure_stub(struct opening *opening, struct mkt_error *error)
{
    struct mkt_client *client = opening->client;
    bool made = false;
    enum mkt_status status = mkt_stub_ensure(&opening->place, client->market, client->host,
                                             &opening->stub_fd, &made, error);
    if (made) {
        opening->made_stub = true;
        memcpy(opening->own_stub, opening->place.stub.object, MKT_ID_BYTES);
    }
    return status;
}

/* The stub of a new file. What stands in its way is left to native to refuse, on all ranks alike:
 * mode FILE. A folder that may not be written to is no hindrance to a file in memory: it goes by
 * its place. */
static enum mkt_status prepare_create(struct opening *opening, struct mkt_error *error)
{
    struct mkt_place *place = &opening->place;
    enum mkt_status status = MKT_OK;
    bool exclusive = opening->request->intent == MKT_INTENT_CREATE_EXCL;
    for (int tries = 0; tries < STUB_TRIES; tries++) {
        bool is_file = place->kind == MKT_PLACE_FILE;
        bool closed = is_file && faccessat(AT_FDCWD, place->real, R_OK | W_OK, AT_EACCESS) != 0;
        bool gone = closed && errno == ENOENT;
        /* A stub whose data is lost is in the way of an exclusive create as any file is. */
        if (place->kind == MKT_PLACE_FOREIGN ||
            (place->kind != MKT_PLACE_NONE && exclusive && !is_own_stub(opening)) ||
            (closed && !gone))
            opening->rule.mode = MKT_MODE_FILE;
        if (opening->rule.mode == MKT_MODE_FILE || (is_file && !gone))
            return MKT_OK;
        if (!gone)
            status = ensure_stub(opening, error);
        if (!gone && status != MKT_EXISTS && status != MKT_NOT_FOUND)
            break;
        /* Somebody else was there between the two looks. */
        struct mkt_place again;
        status = mkt_place_init(&again, place->path, error);
        if (status != MKT_OK)
            return status;
        mkt_place_fini(place);
        *place = again;
    }
    if (status != MKT_OK && !(status == MKT_DENIED && place->kind == MKT_PLACE_NONE &&
                              opening->rule.mode == MKT_MODE_MEMORY))
        opening->rule.mode = MKT_MODE_FILE;
    return MKT_OK;
}

static enum mkt_status prepare(struct opening *opening, struct mkt_error *error)
{
    enum mkt_status status = mkt_place_init(&opening->place, opening->request->path, error);
    if (status != MKT_OK)
        return status;
    mkt_client_rule(opening->client, opening->place.path, &opening->rule);
    return creates(opening->request) ? prepare_create(opening, error) : MKT_OK;
}

/* ---- files on disk ---- */

/* A stub is left to its daemon; a file that may not be written isn't to be replaced either. */
static bool is_read_only(const struct opening *opening)
{
    return opening->request->intent == MKT_INTENT_READ_WRITE &&
           opening->place.kind == MKT_PLACE_FILE &&
           faccessat(AT_FDCWD, opening->place.real, W_OK, AT_EACCESS) != 0 && errno != ENOENT;
}

static bool wants_load(const struct opening *opening)
{
    const struct mkt_open *request = opening->request;
    const struct mkt_rule *rule = &opening->rule;
    if (opening->place.kind != MKT_PLACE_FILE || request->as_on_disk)
        return false;
    /* To write a little into a large file is quicker on disk, unless somebody says otherwise. */
    if (request->intent == MKT_INTENT_READ_WRITE)
        return rule->mode == MKT_MODE_BOTH && !is_read_only(opening) &&
               (rule->stage_in || opening->place.file.size <= UNASKED_BYTES);
    return request->intent == MKT_INTENT_READ && rule->stage_in && rule->mode != MKT_MODE_FILE &&
           request->version == 0 && !request->after_start;
}

/* Brings the file in, if it can be. What it isn't brought in for is native's to open, or to refuse.
 */
static enum mkt_status load_first(struct opening *opening, struct mkt_error *error)
{
    const struct mkt_open *request = opening->request;
    struct mkt_load load = {
        .path = request->path, .interrupted = request->interrupted, .context = request->context};
    if (request->size > 1)
        memcpy(load.token, request->token, MKT_ID_BYTES);
    if (request->intent == MKT_INTENT_READ_WRITE)
        load.to_write_by = request->size > 0 ? request->size : 1;
    enum mkt_status status = mkt_load_place(opening->client, &load, &opening->place, error);
    if (status == MKT_CANCELLED || status == MKT_PEER_DOWN || status == MKT_PROTOCOL)
        return status;
    if (status == MKT_NO_SPACE)
        mkt_log_warning("client", "%s; it is opened as a file on disk", error->text);
    return MKT_OK;
}

static void unprepare(struct opening *opening, bool drop_stub)
{
    if (opening->stub_fd >= 0)
        close(opening->stub_fd);
    opening->stub_fd = -1;
    if (drop_stub)
        mkt_stub_remove(&opening->place);
    if (opening->place.path != NULL)
        mkt_place_fini(&opening->place);
}

static uint32_t clamp_ms(uint64_t ms)
{
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* What a reader asked for itself counts before the rule. */
static void fill_reader(const struct opening *opening, struct mkt_stream_rule *stream)
{
    const struct mkt_open *request = opening->request;
    const struct mkt_rule *rule = &opening->rule;
    const char *reader = request->reader != NULL ? request->reader : rule->reader;
    if (!request->is_reader || (reader != NULL && strcmp(reader, MKT_READER_NONE) == 0))
        return;
    stream->deliver = request->deliver != 0 ? request->deliver : rule->deliver;
    stream->every = request->deliver != 0 ? request->every : rule->every;
    if (stream->deliver == 0)
        stream->deliver = MKT_DELIVER_LATEST;
    stream->only = request->deliver == 0 && stream->deliver > MKT_DELIVER_LATEST;
    if (reader != NULL)
        stream->reader = (struct mkt_bytes){reader, (uint32_t)strlen(reader)};
}

static void fill_stream(const struct opening *opening, struct mkt_stream_rule *stream)
{
    const struct mkt_rule *rule = &opening->rule;
    uint64_t waited_ms = mkt_now_ms() - opening->started_ms;
    uint64_t end_ms =
        rule->queue_timeout_ms > 0 ? rule->queue_timeout_ms : opening->client->full_timeout_ms;
    if (opening->request->intent == MKT_INTENT_READ)
        fill_reader(opening, stream);
    if (!writes(opening->request))
        return;
    stream->consumed = rule->consumed != 0;
    stream->readers = rule->readers;
    stream->queue = rule->queue;
    stream->end_after = rule->end_after;
    stream->on_full = rule->on_full;
    stream->queue_timeout_ms = end_ms > waited_ms ? (uint32_t)(end_ms - waited_ms) : 0;
    stream->patience_ms = opening->queued ? PATIENCE_NEXT_MS : PATIENCE_FIRST_MS;
}

static void fill_open(const struct opening *opening, struct mkt_msg_open *open)
{
    const struct mkt_open *request = opening->request;
    const struct mkt_rule *rule = &opening->rule;
    uint64_t wait_ms = request->wait_ms < 0 ? rule->wait_ms : (uint64_t)request->wait_ms;
    uint64_t waited_ms = mkt_now_ms() - opening->started_ms;
    open->rank = request->rank;
    open->size = request->size > 0 ? request->size : 1;
    if (open->size > 1)
        memcpy(open->token, request->token, MKT_ID_BYTES);
    open->intent = request->intent;
    if (request->rank != 0)
        return;
    open->mode = rule->mode;
    open->wait_ms = wait_ms > waited_ms ? clamp_ms(wait_ms - waited_ms) : 0;
    open->writer_timeout_ms = rule->writer_timeout_ms;
    open->version = request->version;
    /* A clock that starts at 0 still has a time before which nothing is skipped. */
    if (request->after_start)
        open->after_ms = opening->client->started_ms > 0 ? opening->client->started_ms : 1;
    open->keep = rule->keep;
    open->publish_close = rule->publish == MKT_PUBLISH_CLOSE ? rule->publish_close : 0;
    open->durability = rule->durability;
    open->priority = rule->priority;
    open->backup = rule->backup != 0;
    open->pin = rule->pin != 0;
    open->set = (struct mkt_bytes){rule->pattern, (uint32_t)strlen(rule->pattern)};
    fill_stream(opening, &open->stream);
    open->read_only = is_read_only(opening);
    open->has_stub = opening->place.kind == MKT_PLACE_STUB;
    mkt_place_name(&opening->place, &open->name);
}

/* ---- waiting ---- */

static bool tick(void *context)
{
    struct opening *opening = context;
    const struct mkt_open *request = opening->request;
    struct mkt_place now;
    struct mkt_error error;
    opening->interrupted = request->interrupted != NULL && request->interrupted(request->context);
    if (opening->interrupted)
        return true;
    /* A group is asked for once: its other ranks wait under the same token. */
    if (request->rank != 0 || request->size > 1 || writes(request) ||
        mkt_place_init(&now, opening->place.path, &error) != MKT_OK)
        return false;
    opening->changed = !mkt_place_equal(&now, &opening->place);
    mkt_place_fini(&now);
    return opening->changed;
}

static void meanwhile(void *context)
{
    const struct mkt_open *request = ((struct opening *)context)->request;
    mkt_fault_point("client.open-sent");
    if (request->meanwhile != NULL)
        request->meanwhile(request->context);
}

static enum mkt_status ask(struct opening *opening, struct mkt_msg *reply_out,
                           struct mkt_error *error)
{
    struct mkt_link *link = &opening->client->link;
    struct mkt_msg request = {.type = MKT_MSG_OPEN};
    struct mkt_wait wait = {.deadline_ms = UINT64_MAX,
                            .ping = true,
                            .tick = tick,
                            .meanwhile = meanwhile,
                            .context = opening};
    fill_open(opening, &request.open);
    if (opening->request->rank == 0)
        wait.deadline_ms = mkt_now_ms() + request.open.wait_ms + request.open.writer_timeout_ms +
                           request.open.stream.patience_ms + OPEN_MARGIN_MS;
    opening->changed = opening->interrupted = false;
    enum mkt_status status = mkt_link_request(link, &request, opening->stub_fd, MKT_MSG_OPENED,
                                              &wait, reply_out, NULL, error);
    if (status != MKT_CANCELLED || !(opening->changed || opening->interrupted))
        return status;
    status = mkt_link_cancel(link, request.request, MKT_MSG_OPENED, reply_out, error);
    if (status == MKT_OK || link->lost)
        opening->changed = false; /* the answer was under way, or there is nobody to ask again */
    return status;
}

static enum mkt_status take_opened(struct opening *opening, const struct mkt_msg_opened *reply,
                                   struct mkt_opened *opened_out, struct mkt_error *error)
{
    struct mkt_client *client = opening->client;
    struct mkt_opened opened = {
        .source = reply->source, .file = reply->file, .version = reply->version};
    memcpy(opened.object, reply->object, MKT_ID_BYTES);
    if (reply->notice.length > 0)
        mkt_log_warning("save", "%.*s", (int)reply->notice.length,
                        (const char *)reply->notice.data);
    const struct mkt_place *place = &opening->place;
    if (reply->skipped > 0 && opening->request->rank == 0)
        mkt_log_warning("stream",
                        "%.400s: %" PRIu64 " version%s left the stream before this reader came for "
                        "%s",
                        place->path, reply->skipped, reply->skipped == 1 ? "" : "s",
                        reply->skipped == 1 ? "it" : "them");
    if (place->kind == MKT_PLACE_STUB || place->kind == MKT_PLACE_FILE)
        opened.stand = place->file;
    if (reply->scratch.length > 0)
        mkt_pool_add(client, &reply->scratch);
    if (reply->file == 0) {
        *opened_out = opened;
        return MKT_OK;
    }
    enum mkt_status status =
        mkt_client_file_enter(client, reply->file, writes(opening->request), error);
    void *image = NULL, *index = NULL;
    if (status == MKT_OK && reply->image.length > 0)
        status = mkt_client_map(client, &reply->image, false, &image, error);
    if (status == MKT_OK && reply->index.length > 0)
        status = mkt_client_map(client, &reply->index, false, &index, error);
    if (status != MKT_OK) {
        mkt_client_close_unread(client, reply->file);
        return status;
    }
    opened.image = image;
    opened.image_bytes = reply->image.length;
    opened.index = index;
    opened.index_bytes = reply->index.length;
    *opened_out = opened;
    return MKT_OK;
}

static bool is_of(const struct mkt_stub_disk *stub, const struct mkt_client *client)
{
    return memcmp(stub->market, client->market, MKT_ID_BYTES) == 0 &&
           strcmp(stub->host, client->host) == 0;
}

/* The daemon has told whom a writer waits for, or, without a text, that there is a place. It is
 * asked again, since what stands at the path may have changed. */
static void note_queue(struct opening *opening, const struct mkt_error *error)
{
    uint64_t waited_ms = mkt_now_ms() - opening->started_ms;
    if (error->text[0] == '\0')
        return;
    if (opening->request->rank == 0)
        mkt_log_warning("stream", "waiting since %" PRIu64 " s: %s", waited_ms / 1000, error->text);
    opening->queued = true;
}

/* The stub that we made may have become another writer's, who found it before we asked. */
static bool is_nobodys(const struct opening *opening)
{
    struct mkt_client *client = opening->client;
    const struct mkt_open probe = {
        .path = opening->place.path, .intent = MKT_INTENT_PROBE, .size = 1};
    struct mkt_opened opened;
    struct mkt_error error;
    enum mkt_status status = mkt_client_open(client, &probe, &opened, &error);
    return status == MKT_NOT_FOUND || client->link.lost ||
           (status == MKT_OK && opened.source == MKT_SOURCE_NATIVE);
}

/* One attempt. MKT_STALE: what stands at the path changed while we waited, the daemon has just
 * removed the stub that we found, or a writer still has no place in a queue. */
static enum mkt_status attempt(struct opening *opening, struct mkt_opened *opened_out,
                               struct mkt_error *error)
{
    struct mkt_msg reply;
    bool is_first = opening->request->rank == 0;
    enum mkt_status status = is_first ? prepare(opening, error) : MKT_OK;
    mkt_fault_point("client.open-prepared");
    if (status == MKT_OK && is_first && wants_load(opening))
        status = load_first(opening, error);
    if (status == MKT_OK && is_first && creates(opening->request) &&
        opening->place.kind == MKT_PLACE_FILE && opening->rule.mode == MKT_MODE_BOTH)
        opening->stub_fd = mkt_place_watch(&opening->place);
    if (status == MKT_OK) {
        status = ask(opening, &reply, error);
        if (status == MKT_STALE)
            note_queue(opening, error);
        else if (status == MKT_NOT_FOUND && creates(opening->request))
            status = MKT_STALE; /* the stub that we found has just been removed */
    }
    mkt_fault_point("client.open-answered");
    if (status == MKT_OK)
        status = take_opened(opening, &reply.opened, opened_out, error);
    /* A stub of our own market's: the daemon has said it better. */
    if (status == MKT_NOT_FOUND && is_first && opening->place.kind == MKT_PLACE_STUB &&
        !creates(opening->request) && !is_of(&opening->place.stub, opening->client))
        mkt_stub_explain(&opening->place, opening->client->market, opening->client->host, error);
    if (opening->changed)
        status = MKT_STALE;
    /* Native makes the file itself, or refuses to. */
    bool native = status == MKT_OK && opened_out->source == MKT_SOURCE_NATIVE;
    bool stub = is_first && creates(opening->request) && opening->place.kind == MKT_PLACE_STUB;
    if (native && stub && opening->rule.mode != MKT_MODE_FILE &&
        opening->rule.on_full == MKT_FULL_FILE)
        mkt_log_warning("memory",
                        "memory is full: %.400s becomes an ordinary file (`on_full: file`)",
                        opening->place.path);
    bool replaces = native && opening->request->intent != MKT_INTENT_CREATE_EXCL;
    /* While a writer waits for a place in a queue its stub stays: readers may wait for it. */
    bool refused = stub && status != MKT_OK && status != MKT_STALE && is_own_stub(opening);
    unprepare(opening, (stub && replaces) || (refused && is_nobodys(opening)));
    return status;
}

enum mkt_status mkt_client_open(struct mkt_client *client, const struct mkt_open *request,
                                struct mkt_opened *opened_out, struct mkt_error *error)
{
    if (client == NULL)
        return open_without_daemon(request, opened_out, error);
    enum mkt_status status = mkt_client_check(client, error);
    if (status != MKT_OK)
        return status;
    if (request->rank == 0 && request->path == NULL)
        return mkt_error_set(error, MKT_INVALID, "rank 0 must name the file");
    struct opening opening = {.client = client, .request = request, .stub_fd = -1};
    opening.started_ms = mkt_now_ms();
    do {
        status = attempt(&opening, opened_out, error);
        if (status == MKT_STALE && !opening.changed)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    } while (status == MKT_STALE && (opening.changed || opening.queued ||
                                     mkt_now_ms() < opening.started_ms + STUB_WAIT_MS));
    return status;
}
