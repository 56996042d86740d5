/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/keeper.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/daemon/hash_table.h"
#include "core/wire/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNHEARD_MAX 64   /* messages in the socket before the keeper is woken */
#define PATIENCE_MS 2000 /* for a keeper that doesn't read */

struct mkt_kept {
    UT_hash_handle hh;
    struct mkt_kept_key key;
    int fd;
};

/* From worker to keeper: with a descriptor it is kept, without it is forgotten. */
struct message {
    struct mkt_kept_key key;
};

struct mkt_kept_key mkt_kept_key(enum mkt_kept_kind kind, uint64_t number)
{
    struct mkt_kept_key key = {.kind = kind};

    memcpy(key.id, &number, sizeof(number));
    return key;
}

struct mkt_kept_key mkt_kept_key_of_object(const uint8_t object[MKT_ID_BYTES])
{
    struct mkt_kept_key key = {.kind = MKT_KEPT_STUB};

    memcpy(key.id, object, MKT_ID_BYTES);
    return key;
}

/* ---- the table, in both ---- */

static struct mkt_kept *find(struct mkt_keeper *keeper, const struct mkt_kept_key *key)
{
    struct mkt_kept *kept;

    HASH_FIND(hh, keeper->kept, key, sizeof(*key), kept);
    return kept;
}

/* Takes it out; the descriptor. */
static int take(struct mkt_keeper *keeper, struct mkt_kept *kept)
{
    int fd = kept->fd;

    HASH_DEL(keeper->kept, kept);
    free(kept);
    return fd;
}

static void put(struct mkt_keeper *keeper, const struct mkt_kept_key *key, int fd)
{
    struct mkt_kept *kept = find(keeper, key);
    unsigned before = HASH_COUNT(keeper->kept);

    if (kept) {
        close(kept->fd);
        kept->fd = fd;
        return;
    }
    kept = calloc(1, sizeof(*kept));
    if (kept) {
        *kept = (struct mkt_kept){.key = *key, .fd = fd};
        HASH_ADD(hh, keeper->kept, key, sizeof(kept->key), kept);
        if (HASH_COUNT(keeper->kept) > before)
            return;
    }
    free(kept);
    close(fd);
}

int mkt_keeper_take(struct mkt_keeper *keeper, struct mkt_kept_key key)
{
    struct mkt_kept *kept = keeper ? find(keeper, &key) : NULL;

    return kept ? take(keeper, kept) : -1;
}

int mkt_keeper_take_any(struct mkt_keeper *keeper, enum mkt_kept_kind kind,
                        struct mkt_kept_key *key_out)
{
    struct mkt_kept *kept, *next;

    if (!keeper)
        return -1;
    HASH_ITER (hh, keeper->kept, kept, next) {
        if (kept->key.kind != (uint32_t)kind)
            continue;
        *key_out = kept->key;
        return take(keeper, kept);
    }
    return -1;
}

static void forget_all(struct mkt_keeper *keeper)
{
    struct mkt_kept *kept, *next;

    HASH_ITER (hh, keeper->kept, kept, next)
        close(take(keeper, kept));
}

/* ---- the worker's side ---- */

void mkt_keeper_lose(struct mkt_keeper *keeper)
{
    if (!keeper || keeper->fd < 0)
        return;
    close(keeper->fd);
    keeper->fd = -1;
    mkt_log_warning("keeper", "the keeper is gone: from now on the end of this process is the end "
                              "of what is in memory");
}

static void ring(struct mkt_keeper *keeper)
{
    uint64_t one = 1;

    keeper->unheard = 0;
    (void)!write(keeper->bell, &one, sizeof(one));
}

/* The socket is full, which a keeper that is woken soon ends. */
static bool wait_for_room(struct mkt_keeper *keeper)
{
    struct pollfd room = {.fd = keeper->fd, .events = POLLOUT};

    ring(keeper);
    return poll(&room, 1, PATIENCE_MS) > 0 || errno == EINTR;
}

static void send_to_keeper(struct mkt_keeper *keeper, const struct mkt_kept_key *key, int fd)
{
    struct message text = {.key = *key};
    struct iovec part = {.iov_base = &text, .iov_len = sizeof(text)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union mkt_descriptor_room room;

    if (!keeper || keeper->fd < 0)
        return;
    if (fd >= 0)
        mkt_descriptor_attach(&message, &room, fd);
    if (++keeper->unheard >= UNHEARD_MAX)
        ring(keeper);
    while (sendmsg(keeper->fd, &message, MSG_NOSIGNAL) < 0) {
        if (errno == EINTR || (errno == EAGAIN && wait_for_room(keeper)))
            continue;
        mkt_log_warning("keeper", "it takes nothing: %s", strerror(errno));
        mkt_keeper_lose(keeper);
        return;
    }
}

void mkt_keeper_keep(struct mkt_keeper *keeper, struct mkt_kept_key key, int fd)
{
    send_to_keeper(keeper, &key, fd);
}

void mkt_keeper_forget(struct mkt_keeper *keeper, struct mkt_kept_key key)
{
    send_to_keeper(keeper, &key, -1);
}

void mkt_keeper_tick(struct mkt_keeper *keeper)
{
    if (!keeper)
        return;
    if (keeper->unheard > 0 && keeper->fd >= 0)
        ring(keeper);
    mkt_journal_populate(&keeper->journal);
}

void mkt_keeper_destroy(struct mkt_keeper *keeper)
{
    if (!keeper)
        return;
    forget_all(keeper);
    if (keeper->fd >= 0)
        close(keeper->fd);
    close(keeper->bell);
    free(keeper); /* the journal's memory goes with the process */
}

/* ---- the keeper's side ---- */

struct guard {
    struct mkt_keeper *keeper; /* fd: the keeper's end */
    struct mkt_folder *folder;
    bool is_foreground;
    uint64_t deaths_ms[MKT_KEEPER_RESTARTS]; /* the last ones, in a ring */
    unsigned deaths;
};

static volatile sig_atomic_t worker_pid, told_to_end;

static void pass_on(int number)
{
    int kept = errno;

    told_to_end = 1;
    if (worker_pid > 0)
        kill((pid_t)worker_pid, number);
    errno = kept;
}

/* Takes what a worker sent, as far as it has come. */
static void drain(struct mkt_keeper *keeper)
{
    for (;;) {
        struct message text;
        struct iovec part = {.iov_base = &text, .iov_len = sizeof(text)};
        union mkt_descriptor_room room;
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = room.bytes,
                                 .msg_controllen = sizeof(room.bytes)};
        ssize_t n = recvmsg(keeper->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof(text))
            return;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        if (head && head->cmsg_type == SCM_RIGHTS) {
            int fd;
            memcpy(&fd, CMSG_DATA(head), sizeof(int));
            put(keeper, &text.key, fd);
        } else {
            struct mkt_kept *kept = find(keeper, &text.key);
            if (kept)
                close(take(keeper, kept));
        }
    }
}

/* Until the worker has ended: its status. */
static int watch(struct mkt_keeper *keeper, pid_t worker)
{
    int status = 0;
    uint64_t rings;
    struct pollfd wakes[2] = {{.fd = keeper->fd, .events = 0}, /* its end is all that wakes */
                              {.fd = keeper->bell, .events = POLLIN}};

    do {
        if (poll(wakes, 2, -1) < 0)
            continue;
        if (wakes[1].revents && read(keeper->bell, &rings, sizeof(rings)) > 0)
            drain(keeper);
    } while (!(wakes[0].revents & (POLLHUP | POLLERR)));
    while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
        ;
    drain(keeper);
    return status;
}

/* The log of the folder may have been set aside since. */
static void open_log(const struct guard *guard)
{
    struct mkt_error error;

    if (!guard->is_foreground)
        (void)!mkt_folder_open_log(guard->folder, mkt_log_level(), &error);
}

static bool died_too_often(struct guard *guard)
{
    uint64_t now = mkt_now_ms(), *oldest = &guard->deaths_ms[guard->deaths++ % MKT_KEEPER_RESTARTS];
    bool often = guard->deaths > MKT_KEEPER_RESTARTS && now - *oldest < MKT_KEEPER_WITHIN_MS;

    *oldest = now;
    return often;
}

static void describe_end(int status, char *text, size_t capacity)
{
    if (WIFSIGNALED(status))
        snprintf(text, capacity, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, capacity, "exit status %d", WEXITSTATUS(status));
}

/* The worker died and may be followed by another. */
static bool prepare_restart(struct guard *guard, int status)
{
    struct mkt_journal_state_shm *state = guard->keeper->journal.state;
    const char *why = NULL;

    open_log(guard);
    describe_end(status, state->reason, sizeof(state->reason));
    if (state->is_broken)
        why = "its journal is incomplete";
    else if (died_too_often(guard))
        why = "it has died too often";
    if (why) {
        mkt_log_error("keeper",
                      "the worker ended by %s and isn't started again, because %s: what was in "
                      "memory is lost",
                      state->reason, why);
        return false;
    }
    state->restarts++;
    state->restarted_ms = mkt_now_ms();
    mkt_log_error("keeper", "the worker ended by %s: another goes on (restart %" PRIu32 ")",
                  state->reason, state->restarts);
    return true;
}

/* A pair of sockets for the next worker; *worker_fd_out is its end. */
static bool make_pair(struct mkt_keeper *keeper, int *worker_fd_out)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return false;
    keeper->fd = ends[0];
    *worker_fd_out = ends[1];
    return true;
}

static void set_signals(bool is_worker)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    struct sigaction action = {.sa_handler = is_worker ? SIG_DFL : pass_on};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaction(numbers[i], &action, NULL);
}

/* Forks with SIGTERM and SIGINT held back, so that none is lost. In the worker: 0. */
static pid_t start_worker(struct mkt_keeper *keeper)
{
    sigset_t held, before;
    int worker_fd;

    if (!make_pair(keeper, &worker_fd))
        return -1;
    sigemptyset(&held);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGINT);
    sigprocmask(SIG_BLOCK, &held, &before);
    worker_pid = 0;
    pid_t pid = fork();
    if (pid == 0) {
        set_signals(true);
        close(keeper->fd);
        keeper->fd = worker_fd;
        prctl(PR_SET_NAME, "h5marketd");
    } else {
        close(worker_fd);
        worker_pid = (sig_atomic_t)pid;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

/* What the worker would have tidied up. */
static int leave(struct guard *guard, int exit_status)
{
    if (!mkt_folder_is_lost(guard->folder)) { /* else it did, and another daemon may be there */
        mkt_folder_unlisten(guard->folder);
        mkt_folder_leave(guard->folder);
    }
    mkt_keeper_destroy(guard->keeper);
    return exit_status;
}

static bool guard_workers(struct guard *guard, int *report_fd, int *exit_status_out)
{
    struct mkt_keeper *keeper = guard->keeper;

    for (;;) {
        pid_t pid = start_worker(keeper);
        if (pid == 0)
            return true;
        if (*report_fd >= 0)
            close(*report_fd);
        *report_fd = -1;
        if (pid < 0) {
            mkt_log_error("keeper", "no worker can be started: %s", strerror(errno));
            *exit_status_out = leave(guard, 1);
            return false;
        }
        prctl(PR_SET_NAME, "h5market-keeper");
        int status = watch(keeper, pid);
        close(keeper->fd);
        bool is_end = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        const struct mkt_journal_state_shm *state = keeper->journal.state;
        if (is_end || !state->is_serving || (told_to_end && !state->is_draining) ||
            !prepare_restart(guard, status)) {
            *exit_status_out = leave(guard, is_end ? 0 : 1);
            return false;
        }
    }
}

bool mkt_keeper_split(struct mkt_folder *folder, bool is_foreground, int *report_fd,
                      struct mkt_keeper **keeper_out, int *exit_status_out)
{
    struct mkt_keeper *keeper = calloc(1, sizeof(*keeper));
    struct guard guard = {.keeper = keeper, .folder = folder, .is_foreground = is_foreground};
    struct mkt_error error;

    *keeper_out = NULL;
    if (!keeper)
        return true;
    keeper->fd = -1;
    keeper->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (keeper->bell < 0 || mkt_journal_create(&keeper->journal, &error) != MKT_OK) {
        mkt_log_warning("keeper", "there is none: %s",
                        keeper->bell < 0 ? strerror(errno) : error.text);
        if (keeper->bell >= 0)
            close(keeper->bell);
        free(keeper);
        return true;
    }
    set_signals(false);
    if (!guard_workers(&guard, report_fd, exit_status_out))
        return false;
    *keeper_out = keeper;
    return true;
}
