/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon: the market's shell. One thread runs the loop and owns all of this; the loop's workers
 * only bring pages in and look at stubs.
 *
 *   shell.c   messages in, the market's answers out        pages.c   which free memory stays
 * populated hello.c   the handshake and the rules                  stubs.c   the files that stand
 * for objects query.c   STATUS, LIST, STAT                           daemon.c  start, timers, end
 */
#ifndef MKT_DAEMON_DAEMON_H
#define MKT_DAEMON_DAEMON_H

#include "core/base/progress.h"
#include "core/config/config.h"
#include "core/daemon/arenas.h"
#include "core/daemon/connection.h"
#include "core/daemon/folder.h"
#include "core/daemon/keeper.h"
#include "core/daemon/memory.h"
#include "core/daemon/nodes.h"
#include "core/daemon/vigil.h"
#include "core/market/market.h"

struct mkt_rules_cache;
struct mkt_stubs;
struct mkt_pages;
struct mkt_archivers;
struct mkt_moves;

struct mkt_daemon {
    uv_loop_t loop;
    uint8_t id[MKT_ID_BYTES]; /* of this life */
    struct mkt_config config; /* in force */
    char config_path[PATH_MAX];
    struct mkt_memory memory;
    struct mkt_nodes nodes;
    struct mkt_market_limits limits; /* in force */
    struct mkt_folder folder;
    struct mkt_keeper *keeper; /* NULL: there never was one */

    struct mkt_market *market;
    struct mkt_arenas arenas;
    struct mkt_stubs *stubs;
    struct mkt_pages *pages;
    struct mkt_archivers *archivers;
    struct mkt_moves *moves; /* NULL: there is none */
    struct mkt_rules_cache *rules;

    int listen_fd,
        spare_fd; /* the spare one makes room to refuse a connection when descriptors run out */
    uv_poll_t listener;
    uv_poll_t keeper_end; /* of its socket; in use while has_keeper */
    bool has_keeper;
    uv_timer_t deadline, second; /* the market's next deadline; housekeeping */
    uv_signal_t terminate, interrupt;
    struct mkt_vigil vigil;
    struct mkt_connection *connections; /* open ones and those whose process still lives */
    uint32_t connections_count, open_count, connections_max;
    const char *connections_max_by; /* what to raise for more of them */
    uint64_t last_session;
    uint64_t last_writer;               /* session that committed last */
    uint64_t started_ms, idle_since_ms; /* idle_since 0: not idle */
    uint32_t lost_seconds;              /* for so long its folder isn't there */
    uint64_t refused_ms;                /* when a connection was last refused and the log said so */
    uint64_t publishes;                 /* seen so far */
    struct {
        bool on;                      /* it saves what is owed, then ends */
        const char *reason;           /* the signal */
        struct mkt_progress progress; /* what was unsaved then, and at the last look */
        uint64_t moved_ms;
    } drain;
    bool on_demand; /* a program that needed it has started it */
    bool stopping;
    char stop_reason[128];
};

struct mkt_daemon_options {
    const struct mkt_medium *medium;
    const struct mkt_config *config; /* what the file said; borrowed for the call */
    const char *config_path;         /* NULL: none */
    bool on_demand;                  /* a program that needed it starts it */
    struct mkt_folder *folder;       /* locked; taken over */
    struct mkt_keeper *keeper;       /* may be NULL; taken over */
};

/* Builds everything, goes on with what a former worker left, and listens. On failure nothing is
 * left but folder and keeper, which stay the caller's. */
enum mkt_status mkt_daemon_create(const struct mkt_daemon_options *options,
                                  struct mkt_daemon **daemon_out, struct mkt_error *error);
/* Runs until it is told to stop, or has been idle for long enough. */
void mkt_daemon_run(struct mkt_daemon *daemon);
/* Ends what is left, removes socket, pid file and lock. NULL is allowed. */
void mkt_daemon_destroy(struct mkt_daemon *daemon);
/* From the loop: mkt_daemon_run returns soon. */
void mkt_daemon_stop(struct mkt_daemon *daemon, const char *reason);

/* ---- shell.c ---- */
extern const struct mkt_market_ops mkt_shell_ops;                /* context: struct mkt_daemon */
extern const struct mkt_connection_ops mkt_shell_connection_ops; /* the same */
/* After every call into the market: sets the next deadline, tells pages.c of publishes. */
void mkt_shell_settle(struct mkt_daemon *daemon);
struct mkt_connection *mkt_shell_find(struct mkt_daemon *daemon, uint64_t session);

/* ---- revive.c ---- */
/* Makes the market again from the keeper's journal. MKT_CORRUPT, MKT_NO_MEMORY. */
enum mkt_status mkt_daemon_revive(struct mkt_daemon *daemon, struct mkt_error *error);
/* What a client must know to go on with a session. */
void mkt_session_secret(const struct mkt_daemon *daemon, uint64_t session,
                        uint8_t secret_out[MKT_ID_BYTES]);

/* ---- hello.c ---- */
struct mkt_rules_cache *mkt_rules_cache_create(void); /* NULL: out of memory */
void mkt_rules_cache_destroy(struct mkt_rules_cache *cache);
void mkt_hello_handle(struct mkt_daemon *daemon, struct mkt_connection *connection,
                      const struct mkt_msg *message);

/* ---- query.c ---- */
void mkt_query_handle(struct mkt_daemon *daemon, struct mkt_connection *connection,
                      const struct mkt_msg *message);

#endif
