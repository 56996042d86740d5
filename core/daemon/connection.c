/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/connection.h"
#include "core/base/fault.h"
#include "core/base/log.h"
#include "core/daemon/peer.h"
#include "core/wire/descriptor.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IN_FIRST_BYTES 4096u
#define IN_KEPT_BYTES  (64u << 10) /* of a buffer that is empty */

/* A frame on its way out. */
struct mkt_output {
    struct mkt_output *next;
    uint8_t *frame;
    size_t bytes, sent;
    int fd;
};

static void watch(struct mkt_connection *connection);

static void destroy(struct mkt_connection *connection)
{
    if (connection->handles > 0 || connection->references > 0)
        return;
    mkt_mailbox_unmap(connection->mailbox);
    free(connection->in);
    free(connection->answer);
    free(connection);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct mkt_connection *connection = handle->data;

    connection->handles--;
    destroy(connection);
}

void mkt_connection_hold(struct mkt_connection *connection)
{
    connection->references++;
}

void mkt_connection_drop(struct mkt_connection *connection)
{
    connection->references--;
    if (connection->closed && connection->dead)
        destroy(connection);
}

static void on_doomed(uv_timer_t *timer)
{
    mkt_connection_close(timer->data);
}

/* The timer that waited for the HELLO closes it as soon as the call in hand is over. */
void mkt_connection_doom(struct mkt_connection *connection, const char *why)
{
    if (connection->doomed)
        return;
    connection->doomed = true;
    snprintf(connection->why, sizeof(connection->why), "%s", why);
    if (connection->handles > 0 && !connection->closed)
        uv_timer_start(&connection->timer, on_doomed, 0, 0);
}

/* ---- output ---- */

static void free_output(struct mkt_connection *connection)
{
    struct mkt_output *output = connection->out_first;

    connection->out_first = output->next;
    if (!connection->out_first)
        connection->out_last = &connection->out_first;
    connection->out_bytes -= output->bytes;
    free(output->frame);
    free(output);
}

/* Sends a part of the first frame. False: the socket takes no more, or is broken (doomed then). */
static bool send_some(struct mkt_connection *connection)
{
    struct mkt_output *output = connection->out_first;
    struct iovec part = {.iov_base = output->frame + output->sent,
                         .iov_len = output->bytes - output->sent};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union mkt_descriptor_room room;

    if (output->fd >= 0 && output->sent == 0)
        mkt_descriptor_attach(&message, &room, output->fd);
    ssize_t n = sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            mkt_connection_doom(connection, strerror(errno));
        return errno == EINTR;
    }
    output->sent += (size_t)n;
    if (output->sent == output->bytes)
        free_output(connection);
    return true;
}

static void flush(struct mkt_connection *connection)
{
    while (connection->out_first && !connection->closed && send_some(connection))
        ;
}

void mkt_connection_send(struct mkt_connection *connection, void *frame, size_t bytes, int fd)
{
    struct mkt_output *output = NULL;

    if (connection->closed || connection->doomed)
        goto out_free;
    (void)mkt_fault_point("daemon.before-reply");
    if (fd < 0 && !connection->out_first && connection->mailbox &&
        mkt_mail_post(&connection->mailbox->replies, frame, bytes))
        goto out_free;
    if (connection->out_bytes + bytes > MKT_CONNECTION_OUT_BYTES) {
        mkt_connection_doom(connection, "it doesn't read its replies");
        goto out_free;
    }
    output = malloc(sizeof(*output));
    if (!output) {
        mkt_connection_doom(connection, "out of memory");
        goto out_free;
    }
    *output = (struct mkt_output){.frame = frame, .bytes = bytes, .fd = fd};
    *connection->out_last = output;
    connection->out_last = &output->next;
    connection->out_bytes += bytes;
    flush(connection);
    if (connection->out_first)
        watch(connection);
    return;

out_free:
    free(frame);
}

void mkt_connection_send_message(struct mkt_connection *connection, const struct mkt_msg *message,
                                 int fd)
{
    size_t bytes;
    void *frame = NULL;

    if (mkt_msg_size(message, &bytes) == MKT_OK)
        frame = malloc(bytes);
    if (!frame || mkt_msg_encode(message, fd >= 0, frame, bytes, &bytes) != MKT_OK) {
        free(frame);
        mkt_connection_doom(connection, "a reply to it can't be encoded");
        return;
    }
    mkt_connection_send(connection, frame, bytes, fd);
}

void mkt_connection_send_error(struct mkt_connection *connection, uint64_t request,
                               enum mkt_status status, const char *text)
{
    struct mkt_msg message = {.type = MKT_MSG_ERROR, .request = request};

    message.error.status = (uint32_t)status;
    message.error.text = (struct mkt_bytes){.data = text, .length = (uint32_t)strlen(text)};
    mkt_connection_send_message(connection, &message, -1);
}

/* ---- input ---- */

/* A buffer of so many bytes, or for a whole frame where its length is known. */
static bool make_room(struct mkt_connection *connection, size_t wanted)
{
    if (connection->in_bytes >= sizeof(struct mkt_frame_wire)) {
        struct mkt_frame_wire head;
        memcpy(&head, connection->in, sizeof(head));
        if (sizeof(head) + head.bytes > wanted)
            wanted = sizeof(head) + head.bytes;
    }
    if (wanted <= connection->in_capacity)
        return true;
    uint8_t *grown = realloc(connection->in, wanted);
    if (!grown) {
        mkt_connection_doom(connection, "out of memory");
        return false;
    }
    connection->in = grown;
    connection->in_capacity = wanted;
    return true;
}

static void keep_descriptors(struct mkt_connection *connection, struct msghdr *message)
{
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(fd));
            if (connection->fds_count < MKT_CONNECTION_FDS)
                connection->fds[connection->fds_count++] = fd;
            else {
                close(fd);
                mkt_connection_doom(connection, "it sends descriptors that belong to no message");
            }
        }
    }
    if (message->msg_flags & MSG_CTRUNC) {
        mkt_connection_send_error(connection, 0, MKT_NO_SPACE,
                                  "the daemon can't receive a descriptor, it may have none left "
                                  "(see its limit of open files)");
        mkt_connection_doom(connection,
                            "its descriptors can't be received (see the limit of open files)");
    }
}

/* Receives once. The number of bytes, 0 at the end, -1 for "later". */
static ssize_t receive(struct mkt_connection *connection)
{
    struct iovec part = {.iov_base = connection->in + connection->in_bytes,
                         .iov_len = connection->in_capacity - connection->in_bytes};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * MKT_CONNECTION_FDS)];
    } control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control.room)};
    ssize_t n;

    do
        n = recvmsg(connection->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? -1 : 0; /* a reset is an end */
    keep_descriptors(connection, &message);
    connection->in_bytes += (size_t)n;
    return n;
}

static int claim_descriptor(struct mkt_connection *connection)
{
    int fd = connection->fds[0];

    connection->fds_count--;
    memmove(connection->fds, connection->fds + 1, connection->fds_count * sizeof(int));
    return fd;
}

/* Hands the first frame on. The bytes it took, 0 if it isn't whole yet. */
static size_t take_frame(struct mkt_connection *connection, const uint8_t *bytes, size_t length)
{
    struct mkt_frame_wire head;
    int fd = -1;

    if (length < sizeof(head))
        return 0;
    memcpy(&head, bytes, sizeof(head));
    if (mkt_frame_check(&head) != MKT_OK) {
        mkt_connection_doom(connection, "it doesn't speak the protocol");
        return 0;
    }
    if (length - sizeof(head) < head.bytes)
        return 0;
    if (head.has_fd) {
        if (connection->fds_count == 0) {
            mkt_connection_doom(connection, "a message lacks its descriptor");
            return 0;
        }
        fd = claim_descriptor(connection);
    }
    connection->ops->frame(connection->context, connection, &head, bytes + sizeof(head), fd);
    return sizeof(head) + head.bytes;
}

/* Hands whole frames on. The bytes they took. */
static size_t take_whole(struct mkt_connection *connection, const uint8_t *bytes, size_t length)
{
    size_t at = 0;

    while (!connection->doomed) {
        size_t taken = take_frame(connection, bytes + at, length - at);
        if (taken == 0)
            break;
        at += taken;
    }
    return at;
}

static void take_frames(struct mkt_connection *connection)
{
    size_t at = take_whole(connection, connection->in, connection->in_bytes);

    connection->in_bytes -= at;
    memmove(connection->in, connection->in + at, connection->in_bytes);
    if (connection->in_bytes == 0 && connection->in_capacity > IN_KEPT_BYTES) {
        free(connection->in);
        connection->in = NULL;
        connection->in_capacity = 0;
    }
}

/* Mail is older than any frame that isn't handled yet, also if it is here already: it was posted
 * when all that had gone into the socket was answered. False: there is none. */
static bool take_mail(struct mkt_connection *connection)
{
    static uint64_t mail[MKT_MAIL_BYTES / sizeof(uint64_t)]; /* the loop's thread alone is here */

    if (!connection->mailbox || connection->doomed ||
        !mkt_mail_waits(&connection->mailbox->requests))
        return false;
    size_t bytes = mkt_mail_take(&connection->mailbox->requests, mail);
    if (take_whole(connection, (const uint8_t *)mail, bytes) < bytes && !connection->doomed)
        mkt_connection_doom(connection, "its mail isn't whole");
    return bytes > 0;
}

/* Reads until there is no more or the budget is used up. Less than there was room for is taken for
 * all there is, unless it has to be certain. */
static void read_some(struct mkt_connection *connection, size_t budget)
{
    while (!connection->doomed && make_room(connection, IN_FIRST_BYTES)) {
        size_t room = connection->in_capacity - connection->in_bytes;
        ssize_t n = receive(connection);
        take_mail(connection);
        if (n == 0)
            mkt_connection_doom(connection, "end of file");
        if (n <= 0)
            break;
        take_frames(connection);
        if ((size_t)n >= budget || ((size_t)n < room && budget != SIZE_MAX))
            break;
        budget -= budget == SIZE_MAX ? 0 : (size_t)n;
    }
}

/* ---- life ---- */

static void go_on(struct mkt_connection *connection)
{
    if (connection->doomed)
        mkt_connection_close(connection);
    else
        watch(connection);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct mkt_connection *connection = poll->data;

    if (status < 0)
        mkt_connection_doom(connection, uv_strerror(status));
    if (events & UV_WRITABLE)
        flush(connection);
    if (events & (UV_READABLE | UV_DISCONNECT))
        read_some(connection, MKT_CONNECTION_READ_BYTES);
    go_on(connection);
}

static void watch(struct mkt_connection *connection)
{
    int events = 0;

    if (connection->closed || connection->handles == 0)
        return;
    if (connection->out_bytes <= MKT_CONNECTION_OUT_PAUSE)
        events |= UV_READABLE;
    if (connection->out_first)
        events |= UV_WRITABLE;
    if (events == connection->events)
        return; /* to say it again would cost a call of the kernel */
    connection->events = events;
    uv_poll_start(&connection->poll, events, on_ready);
}

void mkt_connection_set_mailbox(struct mkt_connection *connection, int fd)
{
    if (fd >= 0 && !connection->mailbox)
        connection->mailbox = mkt_mailbox_map(fd);
}

bool mkt_connection_look(struct mkt_connection *connection, bool looks)
{
    if (!connection->mailbox || connection->closed)
        return false;
    mkt_mail_look(&connection->mailbox->requests, looks);
    return true;
}

bool mkt_connection_is_from_here(const struct mkt_connection *connection)
{
    return connection->mailbox && mkt_mail_is_from_here(&connection->mailbox->requests);
}

bool mkt_connection_take_mail(struct mkt_connection *connection)
{
    if (connection->closed || !take_mail(connection))
        return false;
    go_on(connection);
    return true;
}

void mkt_connection_dismiss(struct mkt_connection *connection)
{
    connection->dead = true;
    if (connection->is_absent)
        uv_close((uv_handle_t *)&connection->timer, on_handle_closed);
    if (connection->pidfd >= 0) {
        uv_close((uv_handle_t *)&connection->death, on_handle_closed);
        close(connection->pidfd);
    }
    destroy(connection);
}

static void end(struct mkt_connection *connection)
{
    connection->dead = true;
    connection->ops->gone(connection->context, connection);
    mkt_connection_dismiss(connection);
}

/* What a dead client sent before it died still counts. */
static void on_death(uv_poll_t *poll, int status, int events)
{
    struct mkt_connection *connection = poll->data;

    (void)status;
    (void)events;
    uv_poll_stop(poll);
    connection->dead = true;
    if (!connection->closed) {
        read_some(connection, SIZE_MAX);
        mkt_connection_doom(connection, "its process has ended");
        mkt_connection_close(connection);
    } else
        end(connection);
}

static void on_hello_timeout(uv_timer_t *timer)
{
    struct mkt_connection *connection = timer->data;

    if (connection->greeted)
        return;
    mkt_connection_doom(connection, "it didn't say who it is");
    mkt_connection_close(connection);
}

void mkt_connection_close(struct mkt_connection *connection)
{
    if (connection->closed)
        return;
    flush(connection);
    connection->closed = true;
    while (connection->out_first)
        free_output(connection);
    while (connection->fds_count > 0)
        close(connection->fds[--connection->fds_count]);
    uv_close((uv_handle_t *)&connection->poll, on_handle_closed);
    uv_close((uv_handle_t *)&connection->timer, on_handle_closed);
    close(connection->fd);
    connection->ops->closed(connection->context, connection, connection->why);
    if (connection->dead || connection->is_bare || connection->pidfd < 0)
        end(connection);
}

void mkt_connection_abandon(struct mkt_connection *connection)
{
    mkt_connection_doom(connection, "the daemon ends");
    if (connection->closed)
        end(connection);
    else {
        connection->dead = true;
        mkt_connection_close(connection);
    }
}

static void add_handle(struct mkt_connection *connection, uv_handle_t *handle)
{
    handle->data = connection;
    connection->handles++;
}

/* Watches the process behind the pidfd, which is closed if that can't be. */
static void watch_process(uv_loop_t *loop, struct mkt_connection *connection)
{
    if (connection->pidfd >= 0 && uv_poll_init(loop, &connection->death, connection->pidfd) != 0) {
        close(connection->pidfd);
        connection->pidfd = -1;
    }
    if (connection->pidfd >= 0) {
        add_handle(connection, (uv_handle_t *)&connection->death);
        uv_poll_start(&connection->death, UV_READABLE, on_death);
    }
}

static void on_grace_over(uv_timer_t *timer)
{
    end(timer->data);
}

enum mkt_status mkt_connection_create_absent(uv_loop_t *loop, int pidfd, uint32_t grace_ms,
                                             const struct mkt_connection_ops *ops, void *context,
                                             struct mkt_connection **connection_out,
                                             struct mkt_error *error)
{
    struct mkt_connection *connection = calloc(1, sizeof(*connection));

    if (!connection) {
        if (pidfd >= 0)
            close(pidfd);
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    }
    *connection = (struct mkt_connection){.ops = ops,
                                          .context = context,
                                          .fd = -1,
                                          .pidfd = pidfd,
                                          .closed = true,
                                          .is_absent = true,
                                          .greeted = true};
    connection->out_last = &connection->out_first;
    uv_timer_init(loop, &connection->timer);
    add_handle(connection, (uv_handle_t *)&connection->timer);
    watch_process(loop, connection);
    if (connection->pidfd < 0)
        uv_timer_start(&connection->timer, on_grace_over, grace_ms, 0);
    *connection_out = connection;
    return MKT_OK;
}

enum mkt_status mkt_connection_create(uv_loop_t *loop, int fd, const struct mkt_connection_ops *ops,
                                      void *context, struct mkt_connection **connection_out,
                                      struct mkt_error *error)
{
    struct mkt_connection *connection = calloc(1, sizeof(*connection));
    enum mkt_status status;

    if (!connection) {
        close(fd);
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    }
    connection->ops = ops;
    connection->context = context;
    connection->fd = fd;
    connection->out_last = &connection->out_first;
    status = mkt_peer_check(fd, error);
    if (status != MKT_OK)
        goto err_refused;
    if (uv_poll_init(loop, &connection->poll, fd) != 0) {
        status = mkt_error_set(error, MKT_NO_MEMORY, "the connection can't be watched");
        goto err_socket;
    }
    add_handle(connection, (uv_handle_t *)&connection->poll);
    uv_timer_init(loop, &connection->timer);
    add_handle(connection, (uv_handle_t *)&connection->timer);
    connection->pidfd = mkt_peer_open_process(fd);
    watch_process(loop, connection);
    uv_timer_start(&connection->timer, on_hello_timeout, MKT_CONNECTION_HELLO_MS, 0);
    watch(connection);
    *connection_out = connection;
    return MKT_OK;

err_refused:
    mkt_connection_send_error(connection, 0, status, error ? error->text : "");
    while (connection->out_first)
        free_output(connection);
err_socket:
    close(fd);
    free(connection);
    return status;
}
