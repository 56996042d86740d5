/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A daemon that follows a script, in a thread of the test: it takes one connection in a folder of
 * its own, says WELCOME if told so, and then does to the client whatever the script does.
 */
#ifndef MKT_TESTS_FAKE_DAEMON_H
#define MKT_TESTS_FAKE_DAEMON_H

#include "core/wire/descriptor.h"
#include "core/wire/messages.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct fake_daemon;
typedef void (*fake_script)(struct fake_daemon *fake);

struct fake_daemon {
    char directory[128];
    int listen_fd, fd;
    bool greet; /* answers the first message by a good WELCOME */
    fake_script script;
    void *context;
    pthread_t thread;
    unsigned connections;
    union {
        uint8_t frame[MKT_FRAME_MAX_BYTES];
        uint64_t align;
    };
};

static inline void fake_require(bool truth, const char *what)
{
    if (!truth) {
        perror(what);
        abort();
    }
}

/* Reads a whole frame; false: the client has gone. The message points into the frame. */
static inline bool fake_receive(struct fake_daemon *fake, struct mkt_msg *msg_out)
{
    struct mkt_frame_wire head = {0};
    size_t bytes = 0, wanted = sizeof(head);
    while (bytes < wanted) {
        ssize_t n = recv(fake->fd, fake->frame + bytes, wanted - bytes, 0);
        if (n <= 0)
            return false;
        bytes += (size_t)n;
        if (bytes == sizeof(head) && wanted == sizeof(head)) {
            memcpy(&head, fake->frame, sizeof(head));
            fake_require(mkt_frame_check(&head) == MKT_OK, "a client's frame head");
            wanted += head.bytes;
        }
    }
    fake_require(mkt_msg_decode(&head, fake->frame + sizeof(head), msg_out) == MKT_OK,
                 "a client's message");
    return true;
}

/* Receives until a message of this type; false: the client has gone. */
static inline bool fake_expect(struct fake_daemon *fake, enum mkt_msg_type type,
                               struct mkt_msg *msg_out)
{
    while (fake_receive(fake, msg_out))
        if (msg_out->type == type)
            return true;
    return false;
}

static inline size_t fake_encode(const struct mkt_msg *msg, bool has_fd, void *frame,
                                 size_t capacity)
{
    size_t bytes = 0;
    fake_require(mkt_msg_encode(msg, has_fd, frame, capacity, &bytes) == MKT_OK, "encode");
    return bytes;
}

static inline void fake_send_bytes(struct fake_daemon *fake, const void *bytes, size_t length)
{
    (void)!send(fake->fd, bytes, length, MSG_NOSIGNAL);
}

static inline void fake_send(struct fake_daemon *fake, const struct mkt_msg *msg, int fd)
{
    static __thread uint8_t frame[65536];
    struct iovec part = {frame, fake_encode(msg, fd >= 0, frame, sizeof(frame))};
    union mkt_descriptor_room room;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0)
        mkt_descriptor_attach(&message, &room, fd);
    (void)!sendmsg(fake->fd, &message, MSG_NOSIGNAL);
}

static inline struct mkt_msg fake_welcome(uint64_t request)
{
    return (struct mkt_msg){.type = MKT_MSG_WELCOME,
                            .request = request,
                            .welcome = {.protocol = MKT_PROTOCOL_VERSION,
                                        .default_mode = MKT_MODE_MEMORY,
                                        .writer_timeout_ms = 1000,
                                        .full_timeout_ms = 1000}};
}

static inline void fake_send_error(struct fake_daemon *fake, uint64_t request,
                                   enum mkt_status status, const char *text)
{
    struct mkt_msg msg = {.type = MKT_MSG_ERROR,
                          .request = request,
                          .error = {.status = status, .text = {text, (uint32_t)strlen(text)}}};
    fake_send(fake, &msg, -1);
}

/* Serves until the client goes or the script ends; a client may come again. */
static inline void *fake_run(void *context)
{
    struct fake_daemon *fake = context;
    struct mkt_msg msg;
    while ((fake->fd = accept(fake->listen_fd, NULL, NULL)) >= 0) {
        bool go_on = true;
        fake->connections++;
        if (fake->greet) {
            go_on = fake_receive(fake, &msg);
            msg = fake_welcome(msg.request);
            if (go_on)
                fake_send(fake, &msg, -1);
        }
        if (go_on)
            fake->script(fake);
        close(fake->fd);
    }
    return NULL;
}

static inline __attribute__((returns_nonnull)) struct fake_daemon *
fake_start(bool greet, fake_script script, void *context)
{
    struct fake_daemon *fake = calloc(1, sizeof(*fake));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (fake == NULL)
        abort();
    strcpy(fake->directory, "/tmp/mkt-fake.XXXXXX");
    fake_require(mkdtemp(fake->directory) != NULL, "mkdtemp");
    fake->greet = greet;
    fake->script = script;
    fake->context = context;
    fake->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/socket", fake->directory);
    fake_require(bind(fake->listen_fd, (struct sockaddr *)&address, sizeof(address)) == 0, "bind");
    fake_require(listen(fake->listen_fd, 16) == 0, "listen");
    fake_require(pthread_create(&fake->thread, NULL, fake_run, fake) == 0, "pthread_create");
    return fake;
}

/* The client must be gone. */
static inline void fake_stop(struct fake_daemon *fake)
{
    char path[160];
    shutdown(fake->listen_fd, SHUT_RDWR);
    pthread_join(fake->thread, NULL);
    close(fake->listen_fd);
    snprintf(path, sizeof(path), "%s/socket", fake->directory);
    unlink(path);
    rmdir(fake->directory);
    free(fake);
}

#endif
