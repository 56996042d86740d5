/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/client/link.h"
#include "core/base/clock.h"
#include "core/client/connect.h"
#include "core/client/directory.h"
#include "core/wire/descriptor.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SLICE_FIRST_MS  100
#define SLICE_LATER_MS  250
#define SLICE_GROWS_MS  2000
#define SPIN_NS         120000u
#define SPIN_LOOKS      64 /* into the mailbox, for one into the socket */
#define IN_FIRST_BYTES  8192
#define OUT_FIRST_BYTES 4096
#define PUSHED_BYTES    4096       /* of frames that are worth a call of the kernel */
#define KEPT_MAX_BYTES  (1u << 20) /* of frames that may not have been handled */
#define RESUME_MS       30000u     /* to come back to a daemon */
#define RESUME_PAUSE_MS 20
#define RESENDS_MAX     3 /* of one request: it may be what the daemon dies of */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- opening and closing ---- */

/* A receive sleeps by itself, for a while, where MSG_DONTWAIT doesn't forbid it. */
static int sleep_in_receive(int fd)
{
    struct timeval slice = {.tv_usec = SLICE_FIRST_MS * 1000};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice)) != 0)
        return -1;
    return fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

enum mkt_status mkt_link_open(struct mkt_link *link, const char *directory, uint64_t deadline_ms,
                              struct mkt_error *error)
{
    uint32_t silence_ms = link->silence_ms;
    int fd = -1;
    struct stat info;
    enum mkt_status status = mkt_connect(directory, deadline_ms, &fd, error);
    if (status != MKT_OK)
        return status;
    char *copy = strdup(directory);
    if (copy == NULL || fstat(fd, &info) != 0 || sleep_in_receive(fd) != 0) {
        free(copy);
        close(fd);
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    }
    *link = (struct mkt_link){.fd = fd,
                              .dev = info.st_dev,
                              .ino = info.st_ino,
                              .silence_ms = silence_ms,
                              .heard_ms = mkt_now_ms(),
                              .next_request = 1,
                              .deadline_ms = UINT64_MAX,
                              .out_fd = -1,
                              .directory = copy};
    return MKT_OK;
}

static bool is_our_socket(const struct mkt_link *link)
{
    struct stat info;
    return fstat(link->fd, &info) == 0 && info.st_dev == link->dev && info.st_ino == link->ino;
}

void mkt_link_close(struct mkt_link *link)
{
    if (link->directory == NULL)
        return;
    if (is_our_socket(link))
        close(link->fd);
    for (unsigned i = 0; i < link->fd_count; i++)
        close(link->fds[i]);
    mkt_mailbox_unmap(link->mailbox);
    free(link->in);
    free(link->out);
    free(link->directory);
    *link = (struct mkt_link){.fd = -1, .lost = true, .out_fd = -1};
}

enum mkt_status mkt_link_lose(struct mkt_link *link, struct mkt_error *error,
                              enum mkt_status status, const char *format, ...)
{
    char text[MKT_ERROR_TEXT_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (!link->lost && is_our_socket(link))
        shutdown(link->fd, SHUT_RDWR);
    link->lost = true;
    return mkt_error_set(error, status, "%s; its log is %s/" MKT_LOG_NAME, text, link->directory);
}

static enum mkt_status check_not_lost(const struct mkt_link *link, struct mkt_error *error)
{
    if (!link->lost)
        return MKT_OK;
    return mkt_error_set(error, MKT_PEER_DOWN,
                         "the connection to the market daemon was lost before; its log is "
                         "%s/" MKT_LOG_NAME,
                         link->directory != NULL ? link->directory : "?");
}

/* Before a call uses the stream. */
static enum mkt_status begin(struct mkt_link *link, struct mkt_error *error)
{
    link->is_ours = false;
    return check_not_lost(link, error);
}

/* Before the socket is used; mail needs no look at it. */
static enum mkt_status check_socket(struct mkt_link *link, struct mkt_error *error)
{
    if (!link->is_ours && !is_our_socket(link))
        return mkt_link_lose(link, error, MKT_PEER_DOWN,
                             "the program closed the descriptor of the connection to the "
                             "market daemon");
    link->is_ours = true;
    return MKT_OK;
}

enum mkt_status mkt_link_check(struct mkt_link *link, struct mkt_error *error)
{
    enum mkt_status status = begin(link, error);
    return status == MKT_OK ? check_socket(link, error) : status;
}

/* ---- sending ---- */

static bool buffer_reserve(uint8_t **buffer, size_t *capacity, size_t bytes, size_t first)
{
    size_t wanted = *capacity > 0 ? *capacity : first;
    while (wanted < bytes)
        wanted *= 2;
    if (wanted == *capacity)
        return true;
    uint8_t *larger = realloc(*buffer, wanted);
    if (larger == NULL)
        return false;
    *buffer = larger;
    *capacity = wanted;
    return true;
}

static bool encode_at_end(struct mkt_link *link, const struct mkt_msg *msg, int fd,
                          size_t *bytes_out)
{
    return mkt_msg_encode(msg, fd >= 0, link->out + link->out_bytes,
                          link->out_capacity - link->out_bytes, bytes_out) == MKT_OK;
}

static enum mkt_status queue_frame(struct mkt_link *link, struct mkt_msg *msg, int fd,
                                   struct mkt_error *error)
{
    size_t bytes = 0;
    if (msg->request == 0)
        msg->request = link->next_request++;
    /* Most fit into what there is, and needn't be measured first. */
    if (!encode_at_end(link, msg, fd, &bytes)) {
        if (mkt_msg_size(msg, &bytes) != MKT_OK)
            return mkt_error_set(error, MKT_INVALID,
                                 "a message of type %d doesn't fit into a frame", (int)msg->type);
        if (!buffer_reserve(&link->out, &link->out_capacity, link->out_bytes + bytes,
                            OUT_FIRST_BYTES))
            return mkt_error_set(error, MKT_NO_MEMORY, "out of memory for a message of %zu bytes",
                                 bytes);
        if (!encode_at_end(link, msg, fd, &bytes))
            return mkt_error_set(error, MKT_INVALID, "a message of type %d can't be encoded",
                                 (int)msg->type);
    }
    if (fd >= 0) {
        link->out_fd = fd;
        link->out_fd_at = link->out_bytes;
    }
    link->out_bytes += bytes;
    return MKT_OK;
}

enum mkt_status mkt_link_queue(struct mkt_link *link, struct mkt_msg *msg, struct mkt_error *error)
{
    enum mkt_status status = check_not_lost(link, error);
    return status == MKT_OK ? queue_frame(link, msg, -1, error) : status;
}

/* Forgets the frames up to this number, which were handled. */
static void acknowledge(struct mkt_link *link, uint64_t number)
{
    size_t at = 0;
    struct mkt_frame_wire head;
    link->resends = 0;
    if (number > link->answered)
        link->answered = number;
    while (at < link->out_sent) {
        memcpy(&head, link->out + at, sizeof(head));
        if (head.request > number)
            break;
        at += sizeof(head) + head.bytes;
    }
    if (at == 0)
        return;
    if (link->out_fd_at < at)
        link->out_fd = -1;
    else
        link->out_fd_at -= at;
    link->out_bytes -= at;
    link->out_sent = link->out_sent > at ? link->out_sent - at : 0;
    memmove(link->out, link->out + at, link->out_bytes);
}

/* All of what waits, if the daemon looks out for it. */
static bool post_all(struct mkt_link *link)
{
    size_t bytes = link->out_bytes - link->out_sent;
    bool has_fd = link->out_fd >= 0 && link->out_fd_at >= link->out_sent;
    if (link->mailbox == NULL || bytes == 0 || has_fd || link->answered < link->in_socket ||
        !mkt_mail_post(&link->mailbox->requests, link->out + link->out_sent, bytes))
        return false;
    link->out_sent = link->out_bytes;
    return true;
}

/* A part of what waits; a descriptor rides on the first byte of its frame. */
static ssize_t send_some(struct mkt_link *link)
{
    size_t from = link->out_sent, end = link->out_bytes;
    int fd = -1;
    if (link->out_fd >= 0 && from < link->out_fd_at)
        end = link->out_fd_at;
    else if (link->out_fd >= 0 && from == link->out_fd_at)
        fd = link->out_fd;
    struct iovec part = {link->out + from, end - from};
    union mkt_descriptor_room room;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0)
        mkt_descriptor_attach(&message, &room, fd);
    return sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static enum mkt_status wait_for_room(struct mkt_link *link, uint64_t started_ms,
                                     struct mkt_error *error)
{
    struct pollfd poll_fd = {.fd = link->fd, .events = POLLOUT};
    poll(&poll_fd, 1, SLICE_LATER_MS);
    if (mkt_now_ms() - started_ms < link->silence_ms)
        return MKT_OK;
    return mkt_link_lose(link, error, MKT_TIMED_OUT,
                         "the market daemon took no message for %u s (is it stopped?)",
                         link->silence_ms / 1000);
}

/* ---- receiving ---- */

static void take_fds(struct mkt_link *link, struct msghdr *message)
{
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
         head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
            if (link->fd_count < MKT_LINK_FDS)
                link->fds[link->fd_count++] = fd;
            else
                close(fd); /* more than were announced: the frame that misses one says so */
        }
    }
}

/* Behind a part of a frame from the socket comes the rest of it first. */
static bool has_mail(const struct mkt_link *link)
{
    return link->mailbox != NULL && link->in_bytes == 0 && mkt_mail_waits(&link->mailbox->replies);
}

static bool take_mail(struct mkt_link *link)
{
    _Static_assert(IN_FIRST_BYTES >= MKT_MAIL_BYTES, "any mail fits into the buffer");
    if (!has_mail(link))
        return false;
    link->in_bytes = mkt_mail_take(&link->mailbox->replies, link->in);
    link->heard_ms = mkt_now_ms();
    return link->in_bytes > 0;
}

/* Before a sleep, and after it. True: there is mail, so there is nothing to sleep for. */
static bool stop_looking(struct mkt_link *link)
{
    if (link->mailbox != NULL)
        mkt_mail_look(&link->mailbox->replies, false);
    return has_mail(link);
}

static void look_again(struct mkt_link *link)
{
    if (link->mailbox != NULL)
        mkt_mail_look(&link->mailbox->replies, true);
}

static ssize_t receive_now(struct mkt_link *link, struct msghdr *message)
{
    return recvmsg(link->fd, message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
}

/* Looks for SPIN_NS, where that has paid off. */
static ssize_t receive_soon(struct mkt_link *link, struct msghdr *message)
{
    ssize_t bytes = -1;
    errno = EAGAIN;
    if (!mkt_spin_begin(&link->spin))
        return bytes;
    uint64_t end_ns = mkt_now_ns() + SPIN_NS;
    do {
        for (int i = 0; link->mailbox != NULL && i < SPIN_LOOKS && !has_mail(link); i++)
            mkt_mail_pause();
        bytes = has_mail(link) ? -1 : receive_now(link, message);
    } while (bytes < 0 && errno == EAGAIN && !has_mail(link) && mkt_now_ns() < end_ns);
    mkt_spin_end(&link->spin, bytes >= 0 || has_mail(link));
    return bytes;
}

/* recvmsg, which sleeps, but for mail: then there is nothing (EAGAIN). */
static ssize_t receive_or_sleep(struct mkt_link *link, struct msghdr *message)
{
    ssize_t bytes = receive_soon(link, message);
    if (bytes >= 0 || errno != EAGAIN || has_mail(link))
        return bytes;
    if (!stop_looking(link))
        bytes = recvmsg(link->fd, message, MSG_CMSG_CLOEXEC);
    else
        errno = EAGAIN;
    look_again(link);
    return bytes;
}

static enum mkt_status send_all(struct mkt_link *link, struct mkt_error *error);

/* MKT_STALE: there is a new one, and all that has to be is sent again. */
static enum mkt_status stream_ended(struct mkt_link *link, int reason, struct mkt_error *error)
{
    enum mkt_status status = MKT_PEER_DOWN;
    if (link->last_words)
        return MKT_PEER_DOWN;
    if (link->session == 0)
        return mkt_link_lose(link, error, MKT_PEER_DOWN, "the market daemon has gone%s%s",
                             reason ? ": " : "", reason ? strerror(reason) : "");
    status = mkt_link_resume(link, error);
    if (status == MKT_OK)
        status = send_all(link, error);
    return status == MKT_OK ? MKT_STALE : status;
}

/* Reads what there is, or, if it `sleeps`, what comes in SLICE_FIRST_MS. MKT_STALE: nothing. A
 * daemon that went may have left mail. */
static enum mkt_status receive_some(struct mkt_link *link, bool sleeps, struct mkt_error *error)
{
    union {
        char bytes[CMSG_SPACE(MKT_LINK_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {link->in + link->in_bytes, link->in_capacity - link->in_bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    if (take_mail(link))
        return MKT_OK;
    enum mkt_status status = check_socket(link, error);
    if (status != MKT_OK)
        return status;
    ssize_t bytes = sleeps ? receive_or_sleep(link, &message) : receive_now(link, &message);
    int reason = bytes < 0 ? errno : 0;
    if (bytes <= 0 && take_mail(link))
        return MKT_OK;
    if (reason == EINTR || reason == EAGAIN)
        return MKT_STALE;
    if (bytes <= 0)
        return stream_ended(link, reason, error);
    take_fds(link, &message);
    if (message.msg_flags & MSG_CTRUNC)
        return mkt_link_lose(link, error, MKT_PROTOCOL,
                             "a descriptor from the market daemon was cut off (too many "
                             "open files?)");
    link->in_bytes += (size_t)bytes;
    link->heard_ms = mkt_now_ms();
    return MKT_OK;
}

/* A whole frame at the start of the buffer? *bytes_out is its length, or what is needed to go on.
 */
static enum mkt_status frame_in_buffer(struct mkt_link *link, bool *whole_out, size_t *bytes_out,
                                       struct mkt_error *error)
{
    struct mkt_frame_wire head = {0};
    *whole_out = false;
    *bytes_out = sizeof(head);
    if (link->in_bytes < sizeof(head))
        return MKT_OK;
    memcpy(&head, link->in, sizeof(head));
    if (mkt_frame_check(&head) != MKT_OK)
        return mkt_link_lose(link, error, MKT_PROTOCOL,
                             "what came from the market daemon is no message (another "
                             "version of H5Market?)");
    *bytes_out = sizeof(head) + head.bytes;
    *whole_out = link->in_bytes >= *bytes_out;
    return MKT_OK;
}

static enum mkt_status decode_frame(struct mkt_link *link, struct mkt_msg *msg_out, int *fd_out,
                                    struct mkt_error *error)
{
    struct mkt_frame_wire head = {0};
    memcpy(&head, link->in, sizeof(head));
    link->in_used = sizeof(head) + head.bytes;
    if (mkt_msg_decode(&head, link->in + sizeof(head), msg_out) != MKT_OK)
        return mkt_link_lose(link, error, MKT_PROTOCOL,
                             "a message of type %u from the market daemon can't be read",
                             (unsigned)head.type);
    *fd_out = -1;
    if (!head.has_fd)
        return MKT_OK;
    if (link->fd_count == 0)
        return mkt_link_lose(link, error, MKT_PROTOCOL,
                             "a message from the market daemon lacks its descriptor");
    *fd_out = link->fds[0];
    link->fd_count--;
    memmove(link->fds, link->fds + 1, link->fd_count * sizeof(int));
    return MKT_OK;
}

/* The next frame, if one has come or, if it `sleeps`, comes soon. MKT_STALE: not yet. The frame
 * handed out before is dropped first. */
static enum mkt_status next_frame(struct mkt_link *link, bool sleeps, struct mkt_msg *msg_out,
                                  int *fd_out, struct mkt_error *error)
{
    if (link->in_used > 0) {
        link->in_bytes -= link->in_used;
        memmove(link->in, link->in + link->in_used, link->in_bytes);
        link->in_used = 0;
    }
    for (;;) {
        bool whole;
        size_t bytes;
        enum mkt_status status = frame_in_buffer(link, &whole, &bytes, error);
        if (status != MKT_OK)
            return status;
        if (whole)
            return decode_frame(link, msg_out, fd_out, error);
        if (!buffer_reserve(&link->in, &link->in_capacity, bytes, IN_FIRST_BYTES))
            return mkt_link_lose(link, error, MKT_NO_MEMORY, "out of memory");
        status = receive_some(link, sleeps, error);
        if (status != MKT_OK)
            return status;
    }
}

/* ---- sending, the rest ---- */

static enum mkt_status end_by_daemon(struct mkt_link *link, const struct mkt_msg *msg,
                                     struct mkt_error *error)
{
    return mkt_link_lose(link, error, MKT_PEER_DOWN, "the market daemon ends the connection: %.*s",
                         (int)msg->error.text.length, (const char *)msg->error.text.data);
}

/* The daemon doesn't read any more. Before it went it may have said why. MKT_OK: there is a new
 * stream. */
static enum mkt_status explain_broken(struct mkt_link *link, int reason, struct mkt_error *error)
{
    struct mkt_msg msg;
    int fd = -1;
    link->last_words = true;
    while (next_frame(link, false, &msg, &fd, NULL) == MKT_OK) {
        if (fd >= 0)
            close(fd);
        if (msg.type == MKT_MSG_ERROR && msg.request == 0)
            return end_by_daemon(link, &msg, error);
    }
    link->last_words = false;
    if (link->session != 0 && !link->lost)
        return mkt_link_resume(link, error);
    return mkt_link_lose(link, error, MKT_PEER_DOWN, "the market daemon has gone (%s)",
                         strerror(reason));
}

static enum mkt_status send_all(struct mkt_link *link, struct mkt_error *error)
{
    uint64_t progress_ms = mkt_now_ms();
    if (link->mailbox != NULL)
        mkt_mail_tell_processor(&link->mailbox->requests);
    if (post_all(link))
        return MKT_OK;
    enum mkt_status status = check_socket(link, error);
    if (status != MKT_OK)
        return status;
    while (link->out_sent < link->out_bytes) {
        ssize_t bytes = send_some(link);
        if (bytes > 0) {
            link->in_socket = link->next_request - 1;
            link->out_sent += (size_t)bytes;
            progress_ms = mkt_now_ms();
            continue;
        }
        if (bytes < 0 && errno == EINTR)
            continue;
        status = bytes < 0 && errno != EAGAIN && errno != ENOBUFS
                     ? explain_broken(link, errno, error)
                     : wait_for_room(link, progress_ms, error);
        if (status != MKT_OK)
            return status;
    }
    if (link->session == 0) {
        link->out_bytes = link->out_sent = 0;
        link->out_fd = -1;
    }
    return MKT_OK;
}

/* ---- a stream made anew ---- */

/* What is left to be sent when all up to `processed` is handled. */
static void keep_rest(struct mkt_link *link, uint64_t processed)
{
    struct mkt_frame_wire head;
    size_t kept = 0, fd_at = link->out_fd_at;
    bool has_fd = false;
    for (size_t at = 0, bytes; at < link->out_bytes; at += bytes) {
        memcpy(&head, link->out + at, sizeof(head));
        bytes = sizeof(head) + head.bytes;
        if (head.request <= processed && head.type != MKT_MSG_CANCEL)
            continue;
        if (link->out_fd >= 0 && at == link->out_fd_at) {
            has_fd = true;
            fd_at = kept;
        }
        memmove(link->out + kept, link->out + at, bytes);
        kept += bytes;
    }
    link->out_bytes = kept;
    link->out_sent = 0;
    link->out_fd_at = fd_at;
    if (!has_fd)
        link->out_fd = -1;
}

/* With what came behind the WELCOME: the last answer. */
static void take_input(struct mkt_link *link, struct mkt_link *from)
{
    uint8_t *own = link->in;
    size_t own_capacity = link->in_capacity;
    link->in = from->in;
    link->in_capacity = from->in_capacity;
    link->in_bytes = from->in_bytes;
    link->in_used = from->in_used;
    from->in = own;
    from->in_capacity = own_capacity;
    from->in_bytes = from->in_used = 0;
}

static void take_stream(struct mkt_link *link, struct mkt_link *from)
{
    if (is_our_socket(link))
        close(link->fd);
    while (link->fd_count > 0)
        close(link->fds[--link->fd_count]);
    link->fd = from->fd;
    link->dev = from->dev;
    link->ino = from->ino;
    link->heard_ms = mkt_now_ms();
    link->in_socket = 0; /* nothing of ours is in this one yet */
    mkt_mailbox_unmap(link->mailbox);
    link->mailbox = from->mailbox;
    from->mailbox = NULL;
    take_input(link, from);
    from->ino = 0; /* the socket isn't its any more */
    mkt_link_close(from);
}

/* One attempt. */
static enum mkt_status say_hello_again(struct mkt_link *link, uint64_t deadline_ms,
                                       struct mkt_error *error)
{
    struct mkt_wait wait = {.deadline_ms = deadline_ms};
    struct mkt_msg reply, hello = {.type = MKT_MSG_HELLO,
                                   .hello = {.protocol = MKT_PROTOCOL_VERSION,
                                             .pid = (uint32_t)getpid(),
                                             .session = link->session}};
    struct mkt_link fresh = {.silence_ms = link->silence_ms};
    memcpy(hello.hello.secret, link->secret, MKT_ID_BYTES);
    enum mkt_status status = mkt_link_open(&fresh, link->directory, deadline_ms, error);
    if (status != MKT_OK)
        return status;
    status = mkt_link_greet(&fresh, &hello, &wait, &reply, error);
    if (status == MKT_OK) {
        keep_rest(link, reply.welcome.processed);
        take_stream(link, &fresh);
    } else
        mkt_link_close(&fresh);
    return status;
}

enum mkt_status mkt_link_resume(struct mkt_link *link, struct mkt_error *error)
{
    uint64_t deadline_ms = earlier(mkt_now_ms() + RESUME_MS, link->deadline_ms);
    struct mkt_error why = {.status = MKT_PEER_DOWN};
    enum mkt_status status = MKT_PEER_DOWN;
    if (link->session == 0)
        return mkt_link_lose(link, error, MKT_PEER_DOWN, "the market daemon has gone");
    while (status == MKT_PEER_DOWN) {
        status = say_hello_again(link, deadline_ms, &why);
        if (status == MKT_PEER_DOWN && mkt_now_ms() >= deadline_ms)
            status = MKT_TIMED_OUT;
        if (status == MKT_PEER_DOWN)
            nanosleep(&(struct timespec){.tv_nsec = RESUME_PAUSE_MS * 1000000}, NULL);
    }
    if (status != MKT_OK)
        return mkt_link_lose(link, error, MKT_PEER_DOWN, "the market daemon has gone (%.300s)",
                             why.text);
    if (link->out_bytes > 0 && ++link->resends > RESENDS_MAX)
        return mkt_link_lose(link, error, MKT_PEER_DOWN,
                             "the market daemon died %d times over one request", RESENDS_MAX);
    return MKT_OK;
}

/* An answer to anything shows that all before it was handled. */
static enum mkt_status make_room(struct mkt_link *link, struct mkt_error *error)
{
    struct mkt_msg reply, ping = {.type = MKT_MSG_QUERY, .query = {.what = MKT_QUERY_STATUS}};
    return mkt_link_request(link, &ping, -1, MKT_MSG_ANSWER, &MKT_WAIT_REPLY, &reply, NULL, error);
}

enum mkt_status mkt_link_push(struct mkt_link *link, struct mkt_error *error)
{
    enum mkt_status status = MKT_OK;
    if (mkt_link_unsent(link) > 0)
        status = begin(link, error);
    if (status != MKT_OK || post_all(link) || mkt_link_unsent(link) < PUSHED_BYTES)
        return status;
    return send_all(link, error);
}

enum mkt_status mkt_link_flush(struct mkt_link *link, struct mkt_error *error)
{
    if (mkt_link_unsent(link) == 0)
        return MKT_OK;
    enum mkt_status status = begin(link, error);
    if (status == MKT_OK)
        status = send_all(link, error);
    return status == MKT_OK && link->out_bytes > KEPT_MAX_BYTES ? make_room(link, error) : status;
}

/* ---- waiting ---- */

struct waiting {
    const struct mkt_wait *wait;
    uint64_t started_ms, pinged_ms, ticked_ms;
};

static enum mkt_status check_deadlines(struct mkt_link *link, struct waiting *waiting,
                                       struct mkt_error *error)
{
    uint64_t now_ms = mkt_now_ms();
    uint64_t quiet_ms = now_ms > link->heard_ms ? now_ms - link->heard_ms : 0;
    if (now_ms >= waiting->wait->deadline_ms)
        return mkt_link_lose(link, error, MKT_TIMED_OUT,
                             "no answer from the market daemon in %.1f s",
                             (double)(now_ms - waiting->started_ms) / 1000);
    if (quiet_ms >= link->silence_ms)
        return mkt_link_lose(link, error, MKT_TIMED_OUT,
                             "the market daemon said nothing for %.1f s (is it stopped?)",
                             (double)quiet_ms / 1000);
    if (waiting->wait->ping && now_ms - waiting->pinged_ms >= link->silence_ms / 4) {
        struct mkt_msg ping = {.type = MKT_MSG_QUERY, .query = {.what = MKT_QUERY_STATUS}};
        waiting->pinged_ms = now_ms;
        enum mkt_status status = queue_frame(link, &ping, -1, error);
        return status == MKT_OK ? send_all(link, error) : status;
    }
    return MKT_OK;
}

/* How long to sleep until a deadline nears or it is time for a tick. */
static uint64_t sleep_ms(const struct mkt_link *link, const struct waiting *waiting)
{
    uint64_t now_ms = mkt_now_ms();
    uint64_t until_ms = earlier(waiting->wait->deadline_ms, link->heard_ms + link->silence_ms);
    if (waiting->wait->ping)
        until_ms = earlier(until_ms, waiting->pinged_ms + link->silence_ms / 4);
    if (waiting->wait->tick != NULL) {
        bool young = now_ms - waiting->started_ms < SLICE_GROWS_MS;
        until_ms = earlier(until_ms, now_ms + (young ? SLICE_FIRST_MS : SLICE_LATER_MS));
    }
    return until_ms > now_ms ? until_ms - now_ms : 0;
}

static enum mkt_status after_sleep(struct mkt_link *link, struct waiting *waiting,
                                   struct mkt_error *error)
{
    if (waiting->wait->tick != NULL && waiting->wait->tick(waiting->wait->context))
        return MKT_CANCELLED;
    return check_deadlines(link, waiting, error);
}

static enum mkt_status wait_for_bytes(struct mkt_link *link, struct waiting *waiting,
                                      struct mkt_error *error)
{
    uint64_t ms = sleep_ms(link, waiting);
    struct pollfd poll_fd = {.fd = link->fd, .events = POLLIN};
    int ready = stop_looking(link) ? 1 : poll(&poll_fd, 1, ms < INT_MAX ? (int)ms : INT_MAX);
    look_again(link);
    return ready > 0 ? MKT_OK : after_sleep(link, waiting, error);
}

/* Any frame with this number; those to earlier requests (a ping, a request given up) are dropped.
 */
static enum mkt_status await_number(struct mkt_link *link, uint64_t number,
                                    const struct mkt_wait *wait, struct mkt_msg *reply_out,
                                    int *fd_out, struct mkt_error *error)
{
    uint64_t now_ms = mkt_now_ms();
    struct waiting waiting = {.wait = wait, .started_ms = now_ms, .pinged_ms = now_ms};
    link->heard_ms = now_ms;
    link->deadline_ms = wait->deadline_ms;
    /* Most answers come at once: the first sleep is in the receive, which saves two calls. */
    bool sleeps = sleep_ms(link, &waiting) >= SLICE_FIRST_MS;
    for (;;) {
        int fd = -1;
        enum mkt_status status = next_frame(link, sleeps, reply_out, &fd, error);
        if (status == MKT_OK && reply_out->request > 0 && reply_out->request < link->next_request)
            acknowledge(link, reply_out->request);
        if (status == MKT_OK && reply_out->request == number &&
            reply_out->type != MKT_MSG_WAITING) {
            *fd_out = fd;
            return MKT_OK;
        }
        if (status == MKT_OK && reply_out->request == number && wait->told != NULL)
            wait->told(wait->context, &reply_out->waiting.text);
        if (status == MKT_OK) {
            if (fd >= 0)
                close(fd);
            if (reply_out->request == 0 && reply_out->type == MKT_MSG_ERROR)
                return end_by_daemon(link, reply_out, error);
            if (reply_out->request == 0 || reply_out->request >= link->next_request)
                return mkt_link_lose(link, error, MKT_PROTOCOL,
                                     "the market daemon answered what was never asked");
            continue;
        }
        if (status == MKT_STALE)
            status =
                sleeps ? after_sleep(link, &waiting, error) : wait_for_bytes(link, &waiting, error);
        if (status != MKT_OK)
            return status;
        sleeps = false;
    }
}

static enum mkt_status check_reply(struct mkt_link *link, struct mkt_msg *reply, int fd,
                                   enum mkt_msg_type expected, int *fd_out, struct mkt_error *error)
{
    if (fd >= 0 && (fd_out == NULL || reply->type != expected))
        close(fd);
    if (reply->type == expected) {
        if (fd_out != NULL)
            *fd_out = fd;
        return MKT_OK;
    }
    if (reply->type == MKT_MSG_ERROR)
        return mkt_error_set(
            error, (enum mkt_status)reply->error.status, "%.*s", (int)reply->error.text.length,
            reply->error.text.length > 0 ? (const char *)reply->error.text.data : "");
    return mkt_link_lose(link, error, MKT_PROTOCOL,
                         "the market daemon answered with a message of type %d, not %d",
                         (int)reply->type, (int)expected);
}

enum mkt_status mkt_link_request(struct mkt_link *link, struct mkt_msg *request, int fd,
                                 enum mkt_msg_type expected, const struct mkt_wait *wait,
                                 struct mkt_msg *reply_out, int *fd_out, struct mkt_error *error)
{
    int reply_fd = -1;
    enum mkt_status status = begin(link, error);
    if (status == MKT_OK)
        status = queue_frame(link, request, fd, error);
    if (status == MKT_OK)
        status = send_all(link, error);
    if (status != MKT_OK)
        return status;
    link->round_trips++;
    if (wait->meanwhile != NULL)
        wait->meanwhile(wait->context);
    status = await_number(link, request->request, wait, reply_out, &reply_fd, error);
    if (status != MKT_OK)
        return status;
    return check_reply(link, reply_out, reply_fd, expected, fd_out, error);
}

/* Without one all goes through the socket. */
static enum mkt_status send_mailbox(struct mkt_link *link, struct mkt_error *error)
{
    struct mkt_msg msg = {.type = MKT_MSG_MAILBOX};
    int fd;
    struct mkt_mailbox *mailbox = mkt_mailbox_create(&fd);
    if (mailbox == NULL)
        return MKT_OK;
    enum mkt_status status = queue_frame(link, &msg, fd, error);
    if (status == MKT_OK)
        status = send_all(link, error);
    close(fd);
    link->mailbox = mailbox;
    look_again(link);
    return status;
}

enum mkt_status mkt_link_greet(struct mkt_link *link, struct mkt_msg *hello,
                               const struct mkt_wait *wait, struct mkt_msg *reply_out,
                               struct mkt_error *error)
{
    enum mkt_status status =
        mkt_link_request(link, hello, -1, MKT_MSG_WELCOME, wait, reply_out, NULL, error);
    return status == MKT_OK && reply_out->welcome.protocol == MKT_PROTOCOL_VERSION
               ? send_mailbox(link, error)
               : status;
}

enum mkt_status mkt_link_cancel(struct mkt_link *link, uint64_t request, enum mkt_msg_type expected,
                                struct mkt_msg *reply_out, struct mkt_error *error)
{
    struct mkt_msg cancel = {.type = MKT_MSG_CANCEL, .request = request};
    int reply_fd = -1;
    enum mkt_status status = mkt_link_queue(link, &cancel, error);
    if (status == MKT_OK)
        status = mkt_link_flush(link, error);
    if (status == MKT_OK)
        status = await_number(link, request, &MKT_WAIT_REPLY, reply_out, &reply_fd, error);
    if (status != MKT_OK)
        return status;
    return check_reply(link, reply_out, reply_fd, expected, NULL, error);
}
