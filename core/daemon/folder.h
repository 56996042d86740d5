/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The market's folder: who owns it (a lock held for life), the socket's place, the pid file and the
 * log. Paths go through the folder's descriptor, so a long name or a folder moved aside is no
 * matter. Loop thread only.
 *
 *   daemon.lock     held by flock while the daemon lives; the one test of "is there a daemon"
 *   socket          what clients connect to
 *   daemon.pid      for people: the keeper's process, or the daemon's if there is no keeper
 *   worker.pid      for people: the daemon's process beside its keeper
 *   h5marketd.log   and h5marketd.log.1, the part before it
 */
#ifndef MKT_DAEMON_FOLDER_H
#define MKT_DAEMON_FOLDER_H

#include "core/base/log.h"
#include <limits.h>
#include <sys/un.h>

#define MKT_FOLDER_SOCKET     "socket"
#define MKT_FOLDER_HIDDEN     "socket.ending"
#define MKT_FOLDER_LOCK       "daemon.lock"
#define MKT_FOLDER_PID        "daemon.pid"
#define MKT_FOLDER_WORKER     "worker.pid"
#define MKT_FOLDER_LOG        "h5marketd.log"
#define MKT_FOLDER_LOG_BEFORE "h5marketd.log.1"
#define MKT_FOLDER_LOG_BYTES  (16 << 20)

struct mkt_folder {
    char path[PATH_MAX];
    int fd, lock_fd;
};

/* Opens a folder that exists and is ours alone. */
enum mkt_status mkt_folder_open(const char *path, struct mkt_folder *folder_out,
                                struct mkt_error *error);
/* Lets the folder go. A lock that is held is left with its file; see mkt_folder_leave. */
void mkt_folder_close(struct mkt_folder *folder);

/* Takes the lock without waiting. MKT_BUSY: another daemon has it. */
enum mkt_status mkt_folder_lock(struct mkt_folder *folder, struct mkt_error *error);
/* A listening socket in place of what a dead daemon left; the lock must be held. */
enum mkt_status mkt_folder_listen(struct mkt_folder *folder, int *fd_out, struct mkt_error *error);
/* `name`: one of the two pid files. */
enum mkt_status mkt_folder_write_pid(struct mkt_folder *folder, const char *name, int pid,
                                     struct mkt_error *error);
/* Nobody can connect while the socket is hidden; who did before waits in its queue. */
void mkt_folder_hide_socket(struct mkt_folder *folder);
void mkt_folder_show_socket(struct mkt_folder *folder);
/* Removes the socket, hidden or not. */
void mkt_folder_unlisten(struct mkt_folder *folder);
/* Removes the pid files and the lock file and lets the lock go. */
void mkt_folder_leave(struct mkt_folder *folder);

/* True if a daemon listens in the folder. *pid_out: from its pid file, 0 if unknown. */
bool mkt_folder_has_listener(const struct mkt_folder *folder, int *pid_out);

/* True if the folder was removed, or another one stands in its place: nobody finds this daemon. */
bool mkt_folder_is_lost(const struct mkt_folder *folder);

/* The log goes to the folder; standard error follows it, for what libraries say. */
enum mkt_status mkt_folder_open_log(const struct mkt_folder *folder, enum mkt_log_level level,
                                    struct mkt_error *error);
/* Sets a log that has become long aside. */
void mkt_folder_rotate_log(const struct mkt_folder *folder);

#endif
