/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/daemon/archiver.h"
#include "core/daemon/daemon.h"
#include "core/daemon/drain.h"
#include "core/daemon/moves.h"
#include "core/daemon/pages.h"
#include "core/daemon/stubs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what the market asks for ---- */

struct mkt_connection *mkt_shell_find(struct mkt_daemon *daemon, uint64_t session)
{
    struct mkt_connection *connection;

    HASH_FIND(by_session, daemon->connections, &session, sizeof(session), connection);
    return connection;
}

/* A reply that waits until its pages are in memory. */
struct held_reply {
    struct mkt_daemon *daemon;
    struct mkt_connection *connection;
    struct mkt_extent extent;
    void *frame;
    size_t bytes;
};

/* There was no memory under the extent, so the client must not get it. */
static void send_without_pages(struct held_reply *held, enum mkt_status status)
{
    struct mkt_frame_wire head;

    memcpy(&head, held->frame, sizeof(head));
    mkt_log_error("pages", "no memory for %" PRIu64 " bytes: %s", held->extent.length,
                  mkt_status_text(status));
    mkt_market_no_pages(held->daemon->market, held->connection->session, head.request,
                        &held->extent, mkt_now_ms());
    free(held->frame);
}

static void on_populated(void *context, enum mkt_status status)
{
    struct held_reply *held = context;
    struct mkt_daemon *daemon = held->daemon;

    if (held->connection->closed)
        free(held->frame);
    else if (status != MKT_OK)
        send_without_pages(held, status);
    else
        mkt_connection_send(held->connection, held->frame, held->bytes, -1);
    mkt_connection_drop(held->connection);
    free(held);
    mkt_shell_settle(daemon);
}

/* Sends the reply when the extent's pages are in. False: it couldn't be held. */
static bool hold_reply(struct mkt_daemon *daemon, struct mkt_connection *connection,
                       const struct mkt_msg *message, const struct mkt_extent *extent)
{
    struct held_reply *held = calloc(1, sizeof(*held));

    if (!held)
        return false;
    *held = (struct held_reply){.daemon = daemon, .connection = connection, .extent = *extent};
    if (mkt_msg_size(message, &held->bytes) != MKT_OK || !(held->frame = malloc(held->bytes)))
        goto err_held;
    if (mkt_msg_encode(message, false, held->frame, held->bytes, &held->bytes) != MKT_OK)
        goto err_frame;
    if (mkt_pages_populate(daemon->pages, extent, on_populated, held) != MKT_OK)
        goto err_frame;
    mkt_connection_hold(connection);
    return true;

err_frame:
    free(held->frame);
err_held:
    free(held);
    return false;
}

/* A file goes where its stub is now, or the file that it is to replace. */
static void send_order(struct mkt_daemon *daemon, struct mkt_connection *connection,
                       const struct mkt_msg *message)
{
    struct mkt_msg order = *message;
    const char *former = NULL;
    char path[PATH_MAX];

    if ((order.save_order.has_stub || order.save_order.file.ino != 0) &&
        mkt_stubs_order(daemon->stubs, order.save_order.object, path, sizeof(path), &former))
        order.save_order.path = (struct mkt_bytes){path, (uint32_t)strlen(path)};
    if (former)
        order.save_order.former_path = (struct mkt_bytes){former, (uint32_t)strlen(former)};
    mkt_fault_point("daemon.before-order");
    mkt_connection_send_message(connection, &order, -1);
}

static void op_send(void *context, uint64_t session, const struct mkt_msg *message,
                    const struct mkt_extent *populate)
{
    struct mkt_daemon *daemon = context;
    struct mkt_connection *connection = mkt_shell_find(daemon, session);

    if (!connection || connection->closed)
        return;
    if (populate && populate->length > 0) {
        mkt_pages_note_grant(daemon->pages, populate);
        if (!mkt_arenas_is_populated(&daemon->arenas, populate)) {
            if (!hold_reply(daemon, connection, message, populate))
                mkt_connection_doom(connection, "out of memory");
            return;
        }
    }
    if (message->type == MKT_MSG_SAVE_ORDER)
        send_order(daemon, connection, message);
    else
        mkt_connection_send_message(connection, message, -1);
}

static void op_write(void *context, const struct mkt_extent *extent, const void *bytes)
{
    struct mkt_daemon *daemon = context;
    void *address = mkt_arenas_address(&daemon->arenas, extent);
    enum mkt_status status;

    if (!address) {
        mkt_log_error("market", "an index was to go outside of the arenas");
        abort();
    }
    status = mkt_arenas_populate(&daemon->arenas, extent);
    if (status != MKT_OK)
        mkt_log_error("pages", "no memory for an index of %" PRIu64 " bytes: %s", extent->length,
                      mkt_status_text(status));
    memcpy(address, bytes, extent->length);
}

static enum mkt_status op_grow(void *context, uint32_t arena, uint32_t node, uint64_t size_bytes,
                               struct mkt_error *error)
{
    struct mkt_daemon *daemon = context;
    enum mkt_status status = mkt_arenas_grow(&daemon->arenas, arena, node, size_bytes, error);
    char size[32], where[32] = "";

    if (status != MKT_OK)
        mkt_log_error("pages", "no new arena: %s", error->text);
    else {
        if (node != MKT_NO_NODE)
            snprintf(where, sizeof(where), " for node %u", node);
        mkt_log_info("pages", "arena %u of %s%s", arena,
                     mkt_config_show_size(size_bytes, size, sizeof(size)), where);
    }
    return status;
}

static void op_drop_stub(void *context, const uint8_t object[MKT_ID_BYTES])
{
    struct mkt_daemon *daemon = context;

    mkt_stubs_drop(daemon->stubs, object, true);
}

static void op_move_out(void *context, uint64_t move, const struct mkt_extent *memory)
{
    mkt_moves_out(((struct mkt_daemon *)context)->moves, move, memory);
}

static void op_move_in(void *context, uint64_t move, const struct mkt_market_reading *reading)
{
    mkt_moves_in(((struct mkt_daemon *)context)->moves, move, reading);
}

static void op_drop_cold(void *context, const struct mkt_extent *cold)
{
    mkt_moves_drop_cold(((struct mkt_daemon *)context)->moves, cold);
}

static void op_refuse(void *context, uint64_t session, const char *why)
{
    struct mkt_connection *connection = mkt_shell_find(context, session);

    if (!connection || connection->closed)
        return;
    mkt_connection_send_error(connection, 0, MKT_PROTOCOL, why);
    mkt_connection_doom(connection, why);
}

static void *op_reserve(void *context)
{
    struct mkt_daemon *daemon = context;

    return daemon->keeper ? mkt_journal_reserve(&daemon->keeper->journal) : NULL;
}

static void op_append(void *context, size_t bytes)
{
    struct mkt_daemon *daemon = context;

    mkt_journal_append(&daemon->keeper->journal, bytes);
}

static void op_done(void *context)
{
    struct mkt_daemon *daemon = context;

    if (daemon->keeper)
        mkt_journal_done(&daemon->keeper->journal);
}

const struct mkt_market_ops mkt_shell_ops = {
    .send = op_send,
    .write = op_write,
    .grow = op_grow,
    .freed = NULL, /* pages.c asks when it wants to know */
    .drop_stub = op_drop_stub,
    .move_out = op_move_out,
    .move_in = op_move_in,
    .drop_cold = op_drop_cold,
    .refuse = op_refuse,
    .reserve = op_reserve,
    .append = op_append,
    .done = op_done,
};

/* ---- what clients ask for ---- */

static void refuse(struct mkt_connection *connection, uint64_t request, const char *why)
{
    mkt_connection_send_error(connection, request, MKT_PROTOCOL, why);
    mkt_connection_doom(connection, why);
}

static void handle_map(struct mkt_daemon *daemon, struct mkt_connection *connection,
                       const struct mkt_msg *message)
{
    struct mkt_msg reply = {.type = MKT_MSG_MAPPED, .request = message->request};
    int fd = mkt_arenas_fd(&daemon->arenas, message->map.arena, &reply.mapped.size_bytes);

    if (fd < 0) {
        mkt_connection_send_error(connection, message->request, MKT_NOT_FOUND,
                                  "there is no such arena");
        return;
    }
    reply.mapped.arena = message->map.arena;
    mkt_connection_send_message(connection, &reply, fd);
}

static void handle_stop(struct mkt_daemon *daemon, struct mkt_connection *connection,
                        const struct mkt_msg *message)
{
    struct mkt_msg reply = {.type = MKT_MSG_STOPPED, .request = message->request};
    struct mkt_loss loss;
    char text[MKT_ERROR_TEXT_BYTES];

    mkt_loss_count(daemon, &loss);
    if (mkt_loss_any(&loss) && !message->stop.discard) {
        mkt_connection_send_error(connection, message->request,
                                  loss.versions + loss.writers > 0 ? MKT_BUSY : MKT_STALE,
                                  mkt_loss_text(&loss, text, sizeof(text)));
        return;
    }
    if (mkt_loss_any(&loss)) {
        mkt_log_warning("daemon", "%s discards what isn't on disk", connection->program);
        mkt_stubs_drop_all(daemon->stubs);
    }
    /* Nobody finds this daemon any more when the client learns that it ends. */
    mkt_daemon_stop(daemon, "a client asked for it");
    mkt_connection_send_message(connection, &reply, -1);
}

/* A file on disk that an object is known by: its removal is noticed as that of a stub is. */
static void watch_file(struct mkt_daemon *daemon, const struct mkt_name *name, int *fd)
{
    uint8_t object[MKT_ID_BYTES];

    if (!mkt_market_resolve(daemon->market, name, object))
        return;
    mkt_stubs_keep(daemon->stubs, object, *fd);
    *fd = -1;
}

/* The stub's descriptor rides on a create, a file's on a load. */
static void handle_open(struct mkt_daemon *daemon, struct mkt_connection *connection,
                        const struct mkt_msg *message, int *fd)
{
    const struct mkt_msg_open *open = &message->open;

    if (open->rank == 0 && open->mode == MKT_MODE_BOTH &&
        (open->intent == MKT_INTENT_CREATE || open->intent == MKT_INTENT_CREATE_EXCL) &&
        !mkt_archivers_installed(daemon->archivers)) {
        mkt_connection_send_error(
            connection, message->request, MKT_UNSUPPORTED,
            "mode `both` needs h5market-archiver, which isn't installed beside "
            "h5marketd: build H5Market with an HDF5 to link (HDF5_ROOT), or say "
            "`mode: memory` or `mode: file`");
        return;
    }

    /* Before it reaches the market, so that other ranks go on waiting while this one asks again. */
    if (*fd >= 0 && open->has_stub && open->rank == 0 &&
        mkt_stubs_was_dropped(daemon->stubs, open->name.object)) {
        mkt_connection_send_error(connection, message->request, MKT_NOT_FOUND,
                                  "the file was removed just then, since its last writer went "
                                  "without publishing it; create it again");
        return;
    }
    if (*fd >= 0 && open->has_stub && open->rank == 0) {
        mkt_stubs_keep(daemon->stubs, open->name.object, *fd);
        *fd = -1;
    }
    mkt_market_message(daemon->market, connection->session, message, mkt_now_ms());
    if (*fd >= 0 && !open->has_stub && open->rank == 0)
        watch_file(daemon, &open->name, fd);
}

static void log_failed_save(const struct mkt_daemon *daemon, const struct mkt_msg_save_done *done)
{
    if (done->status == MKT_OK)
        return;
    /* Nobody wants it any more. */
    if (done->status == MKT_CANCELLED || mkt_market_was_withdrawn(daemon->market, done->object))
        mkt_log_debug("archiver", "given up: %.*s", (int)done->text.length,
                      done->text.length > 0 ? (const char *)done->text.data : "");
    else
        mkt_log_warning("archiver", "not saved, and tried again: %.*s", (int)done->text.length,
                        done->text.length > 0 ? (const char *)done->text.data : "");
}

/* The descriptor of the file that was written rides on it. */
static void handle_save_done(struct mkt_daemon *daemon, struct mkt_connection *connection,
                             const struct mkt_msg *message, int *fd)
{
    const struct mkt_msg_save_done *done = &message->save_done;
    struct mkt_name name = {.leaf = {"", 0}, .path = {"", 0}};

    log_failed_save(daemon, done);
    mkt_stubs_order_ended(daemon->stubs, done->object);
    mkt_fault_point("daemon.save-done");
    mkt_market_message(daemon->market, connection->session, message, mkt_now_ms());
    mkt_fault_point("daemon.save-noted");
    memcpy(name.object, done->object, MKT_ID_BYTES);
    if (*fd >= 0 && done->status == MKT_OK)
        watch_file(daemon, &name, fd);
}

static void handle_greeted(struct mkt_daemon *daemon, struct mkt_connection *connection,
                           const struct mkt_msg *message, int *fd)
{
    switch (message->type) {
    case MKT_MSG_OPEN:
        handle_open(daemon, connection, message, fd);
        break;
    case MKT_MSG_COMMIT:
        daemon->last_writer = connection->session;
        /* fall through */
    case MKT_MSG_CANCEL:
    case MKT_MSG_GRANT:
    case MKT_MSG_RELEASE:
    case MKT_MSG_ADD:
    case MKT_MSG_TOUCH:
    case MKT_MSG_LOOKUP:
    case MKT_MSG_FETCH:
    case MKT_MSG_CLOSE:
    case MKT_MSG_WITHDRAW:
    case MKT_MSG_SAVE_NEXT:
    case MKT_MSG_SAVE_PLACE:
    case MKT_MSG_SAVE_YIELD:
    case MKT_MSG_SAVE_WAIT:
    case MKT_MSG_DRAIN:
    case MKT_MSG_END:
        mkt_market_message(daemon->market, connection->session, message, mkt_now_ms());
        break;
    case MKT_MSG_SAVE_DONE:
        handle_save_done(daemon, connection, message, fd);
        break;
    case MKT_MSG_MAP:
        handle_map(daemon, connection, message);
        break;
    case MKT_MSG_QUERY:
        mkt_query_handle(daemon, connection, message);
        break;
    case MKT_MSG_MAILBOX:
        mkt_connection_set_mailbox(connection, *fd);
        break;
    case MKT_MSG_STOP:
        handle_stop(daemon, connection, message);
        break;
    default:
        refuse(connection, message->request, "a message that no client sends here");
    }
}

/* The number of a CANCEL is another request's, that of a MAILBOX the new stream's. */
static bool is_in_order(struct mkt_connection *connection, const struct mkt_msg *message)
{
    if (message->request == 0 || message->type == MKT_MSG_CANCEL ||
        message->type == MKT_MSG_MAILBOX)
        return true;
    if (message->request <= connection->last_request)
        return false;
    connection->last_request = message->request;
    return true;
}

static void on_frame(void *context, struct mkt_connection *connection,
                     const struct mkt_frame_wire *head, const void *payload, int fd)
{
    struct mkt_daemon *daemon = context;
    struct mkt_msg message;

    if (mkt_msg_decode(head, payload, &message) != MKT_OK)
        refuse(connection, head->request, "a message that can't be read");
    else if (connection->greeted && !is_in_order(connection, &message))
        refuse(connection, message.request, "a message that comes out of order");
    else if (connection->greeted)
        handle_greeted(daemon, connection, &message, &fd);
    else if (message.type == MKT_MSG_HELLO)
        mkt_hello_handle(daemon, connection, &message);
    else
        refuse(connection, message.request, "the first message must be HELLO");
    if (fd >= 0)
        close(fd);
    mkt_shell_settle(daemon);
    mkt_vigil_note_message(&daemon->vigil, connection);
}

static void on_closed(void *context, struct mkt_connection *connection, const char *why)
{
    struct mkt_daemon *daemon = context;

    daemon->open_count--;
    mkt_vigil_forget(&daemon->vigil, connection);
    mkt_log_debug("connection", "%" PRIu64 " (%s) closed: %s", connection->session,
                  connection->program, why);
    if (connection->greeted)
        mkt_market_session_end(daemon->market, connection->session, mkt_now_ms());
    connection->is_bare = mkt_market_session_is_bare(daemon->market, connection->session);
    mkt_shell_settle(daemon);
}

static void on_gone(void *context, struct mkt_connection *connection)
{
    struct mkt_daemon *daemon = context;

    if (connection->greeted)
        mkt_market_session_reclaim(daemon->market, connection->session, mkt_now_ms());
    if (connection->greeted)
        mkt_keeper_forget(daemon->keeper, mkt_kept_key(MKT_KEPT_PROCESS, connection->session));
    HASH_DELETE(by_session, daemon->connections, connection);
    daemon->connections_count--;
    mkt_shell_settle(daemon);
}

const struct mkt_connection_ops mkt_shell_connection_ops = {
    .frame = on_frame,
    .closed = on_closed,
    .gone = on_gone,
};

/* ---- after each step ---- */

static void on_deadline(uv_timer_t *timer)
{
    struct mkt_daemon *daemon = timer->data;

    mkt_market_tick(daemon->market, mkt_now_ms());
    mkt_shell_settle(daemon);
}

static void set_deadline(struct mkt_daemon *daemon)
{
    uint64_t next_ms = mkt_market_next_deadline(daemon->market);
    uint64_t now_ms = mkt_now_ms();

    if (next_ms == UINT64_MAX) {
        uv_timer_stop(&daemon->deadline);
        return;
    }
    uv_update_time(&daemon->loop);
    uv_timer_start(&daemon->deadline, on_deadline, next_ms > now_ms ? next_ms - now_ms : 0, 0);
}

void mkt_shell_settle(struct mkt_daemon *daemon)
{
    struct mkt_market_usage usage;

    mkt_market_usage(daemon->market, &usage);
    if (usage.publishes != daemon->publishes) {
        daemon->publishes = usage.publishes;
        mkt_pages_note_publish(daemon->pages, mkt_now_ms());
    }
    mkt_pages_settle(daemon->pages);
    if (daemon->keeper && mkt_journal_is_long(&daemon->keeper->journal))
        mkt_journal_begin_anew(&daemon->keeper->journal, daemon->market);
    mkt_archivers_settle(daemon->archivers, usage.unsaved_versions);
    mkt_drain_settle(daemon, &usage);
    if (!daemon->stopping)
        set_deadline(daemon);
}
