/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/daemon.h"
#include "core/base/clock.h"
#include "core/daemon/archiver.h"
#include "core/daemon/drain.h"
#include "core/daemon/moves.h"
#include "core/daemon/pages.h"
#include "core/daemon/stubs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND_MS         1000u
#define LOST_SECONDS      3
#define END_MS            3000u  /* for workers at the daemon's end */
#define REFUSALS_MS       10000u /* between two lines of the log */
#define ACCEPTS           64     /* in one turn of the loop */
#define ARENA_BYTES_MAX   (UINT64_C(64) << 30)
#define ARENA_BYTES_UNIT  (UINT64_C(2) << 20)
#define OTHER_DESCRIPTORS 64u
/* What bounds objects and connections where it is the tighter bound. */
#define FILES_LIMIT \
    "the daemon's limit of open files, `ulimit -Hn`: raise it where the daemon is started"

/* ---- limits ---- */

static uint64_t memory_limit(const struct mkt_config *config, const struct mkt_memory *memory)
{
    uint64_t bytes = config->memory_bytes;

    if (bytes == 0)
        bytes = memory->total_bytes / 100 * config->memory_percent;
    if (bytes > memory->total_bytes)
        bytes = memory->total_bytes;
    return bytes;
}

static uint64_t arena_size(const struct mkt_config *config, uint64_t memory_bytes)
{
    uint64_t bytes = config->arena_bytes;

    if (bytes == 0)
        bytes = memory_bytes < ARENA_BYTES_MAX ? memory_bytes : ARENA_BYTES_MAX;
    return (bytes + ARENA_BYTES_UNIT - 1) / ARENA_BYTES_UNIT * ARENA_BYTES_UNIT;
}

static void set_limits(struct mkt_daemon *daemon)
{
    const struct mkt_config *config = &daemon->config;
    struct mkt_market_limits *limits = &daemon->limits;
    struct rlimit files = {.rlim_cur = 1024};

    mkt_memory_find("", &daemon->memory);
    mkt_nodes_find(config->numa == MKT_NUMA_AUTO, &daemon->nodes);
    limits->memory_bytes = memory_limit(config, &daemon->memory);
    limits->arena_bytes = arena_size(config, limits->memory_bytes);
    limits->nodes = daemon->nodes.count > 1 ? daemon->nodes.count : 1;
    limits->scratch_bytes = config->scratch_bytes;
    limits->full_timeout_ms = config->full_timeout_ms;
    limits->join_timeout_ms = config->join_timeout_ms;
    limits->commit_timeout_ms = config->commit_timeout_ms;
    limits->max_objects = config->max_objects;
    limits->max_groups = config->max_writers;
    limits->max_waiting = config->max_waiting;
    limits->max_pieces = config->max_pieces;
    limits->background_rate = config->background_rate;
    limits->max_readers = config->max_readers;
    limits->reader_grace_ms = config->reader_grace_ms;
    /* Each connection takes two descriptors, each object's stub one: half of them for each. */
    getrlimit(RLIMIT_NOFILE, &files);
    uint64_t spare = files.rlim_cur > 2 * OTHER_DESCRIPTORS ? files.rlim_cur - OTHER_DESCRIPTORS
                                                            : OTHER_DESCRIPTORS;
    daemon->connections_max = config->max_connections;
    daemon->connections_max_by = "'max_connections'";
    if (daemon->connections_max > spare / 4) {
        daemon->connections_max = (uint32_t)(spare / 4);
        daemon->connections_max_by = FILES_LIMIT;
    }
    if (limits->max_objects > spare / 2) {
        limits->max_objects = (uint32_t)(spare / 2);
        limits->max_objects_by = FILES_LIMIT;
    }
}

static void log_start(const struct mkt_daemon *daemon)
{
    char memory[32], total[32], arena[32], idle[32], nodes[256];

    mkt_log_info("daemon", "h5marketd " MKT_DAEMON_VERSION ", protocol %d, process %d, in %s",
                 MKT_PROTOCOL_VERSION, (int)getpid(), daemon->folder.path);
    mkt_log_info("daemon", "configuration: %s",
                 daemon->config_path[0] ? daemon->config_path : "none, all defaults");
    mkt_log_info("daemon",
                 "memory %s (of %s: %s), arenas of %s, at most %u files, %u writers and %u "
                 "connections, idle exit after "
                 "%s",
                 mkt_config_show_size(daemon->limits.memory_bytes, memory, sizeof(memory)),
                 mkt_config_show_size(daemon->memory.total_bytes, total, sizeof(total)),
                 mkt_memory_source(&daemon->memory),
                 mkt_config_show_size(daemon->limits.arena_bytes, arena, sizeof(arena)),
                 daemon->limits.max_objects, daemon->limits.max_groups, daemon->connections_max,
                 mkt_config_show_duration(daemon->config.idle_exit_ms, idle, sizeof(idle)));
    mkt_log_info("daemon", "%s", mkt_nodes_text(&daemon->nodes, nodes, sizeof(nodes)));
    if (daemon->config.memory_bytes > daemon->limits.memory_bytes)
        mkt_log_warning("daemon", "'memory' asks for more than there is; %s is in force", memory);
}

/* ---- connections ---- */

static void turn_away(int fd, enum mkt_status status, const char *text)
{
    struct mkt_msg message = {.type = MKT_MSG_ERROR};
    char frame[1024];
    size_t bytes;

    message.error.status = (uint32_t)status;
    message.error.text = (struct mkt_bytes){.data = text, .length = (uint32_t)strlen(text)};
    if (mkt_msg_encode(&message, false, frame, sizeof(frame), &bytes) == MKT_OK)
        (void)!send(fd, frame, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

/* Who is refused tries again at once, many times. */
static void log_refusal(struct mkt_daemon *daemon, const char *why)
{
    uint64_t now_ms = mkt_now_ms();

    if (now_ms - daemon->refused_ms < REFUSALS_MS)
        return;
    daemon->refused_ms = now_ms;
    mkt_log_warning("connection", "refused: %s", why);
}

static void take_connection(struct mkt_daemon *daemon, int fd)
{
    struct mkt_connection *connection;
    struct mkt_error error;

    if (daemon->connections_count >= daemon->connections_max) {
        char why[256];
        snprintf(why, sizeof(why), "the daemon has %u connections, the most that it may (%s)",
                 daemon->connections_count, daemon->connections_max_by);
        log_refusal(daemon, why);
        turn_away(fd, MKT_NO_SPACE, why);
        return;
    }
    if (mkt_connection_create(&daemon->loop, fd, &mkt_shell_connection_ops, daemon, &connection,
                              &error) != MKT_OK) {
        mkt_log_warning("connection", "refused: %s", error.text);
        return;
    }
    connection->session = ++daemon->last_session;
    if (daemon->keeper)
        daemon->keeper->journal.state->last_session = daemon->last_session;
    HASH_ADD(by_session, daemon->connections, session, sizeof(connection->session), connection);
    daemon->connections_count++;
    daemon->open_count++;
}

/* Out of descriptors: the spare one is given up for as long as it takes to turn somebody away.
 * False if nobody was there: accept asks for a descriptor before it looks. */
static bool refuse_connection(struct mkt_daemon *daemon)
{
    if (daemon->spare_fd >= 0)
        close(daemon->spare_fd);
    int fd = accept4(daemon->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        turn_away(fd, MKT_NO_SPACE,
                  "the daemon has no file descriptors left (see the limit of open files)");
        log_refusal(daemon, "no file descriptors left");
    }
    daemon->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct mkt_daemon *daemon = poll->data;

    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4(daemon->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            take_connection(daemon, fd);
        else if (errno == EMFILE || errno == ENFILE) {
            if (!refuse_connection(daemon))
                break;
        } else if (errno != EINTR && errno != ECONNABORTED)
            break;
    }
}

/* ---- timers and signals ---- */

/* Somebody may be connecting just now: then the daemon stays. */
static void stop_if_alone(struct mkt_daemon *daemon)
{
    struct pollfd queue = {.fd = daemon->listen_fd, .events = POLLIN};

    mkt_folder_hide_socket(&daemon->folder);
    if (poll(&queue, 1, 0) == 0)
        mkt_daemon_stop(daemon, "it was idle ('idle_exit')");
    else
        mkt_folder_show_socket(&daemon->folder);
}

static void check_idle(struct mkt_daemon *daemon, uint64_t now_ms)
{
    struct mkt_market_usage usage;

    mkt_market_usage(daemon->market, &usage);
    /* What is on disk may be given up. */
    if (daemon->open_count > 0 || usage.versions > usage.evictable_versions || usage.groups > 0) {
        daemon->idle_since_ms = 0;
        return;
    }
    if (daemon->idle_since_ms == 0)
        daemon->idle_since_ms = now_ms;
    if (daemon->config.idle_exit_ms != MKT_CONFIG_NEVER &&
        now_ms - daemon->idle_since_ms >= daemon->config.idle_exit_ms)
        stop_if_alone(daemon);
}

/* A daemon that nobody can find any more ends when its last client has gone. */
static void check_folder(struct mkt_daemon *daemon)
{
    daemon->lost_seconds = mkt_folder_is_lost(&daemon->folder) ? daemon->lost_seconds + 1 : 0;
    if (daemon->lost_seconds >= LOST_SECONDS && daemon->open_count == 0)
        mkt_daemon_stop(daemon, "its folder was taken away");
}

static void on_second(uv_timer_t *timer)
{
    struct mkt_daemon *daemon = timer->data;
    uint64_t now_ms = mkt_now_ms();

    mkt_stubs_scan(daemon->stubs);
    mkt_pages_tick(daemon->pages, now_ms);
    mkt_moves_second(daemon->moves);
    mkt_keeper_tick(daemon->keeper);
    mkt_folder_rotate_log(&daemon->folder);
    check_idle(daemon, now_ms);
    check_folder(daemon);
    mkt_drain_tick(daemon, now_ms);
}

static void on_signal(uv_signal_t *signal, int number)
{
    mkt_drain_signal(signal->data, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

void mkt_daemon_stop(struct mkt_daemon *daemon, const char *reason)
{
    if (daemon->stopping)
        return;
    daemon->stopping = true;
    if (daemon->keeper)
        daemon->keeper->journal.state->is_serving = 0; /* whatever happens now, it is the end */
    snprintf(daemon->stop_reason, sizeof(daemon->stop_reason), "%s", reason);
    mkt_folder_unlisten(&daemon->folder);
    uv_stop(&daemon->loop);
}

void mkt_daemon_run(struct mkt_daemon *daemon)
{
    while (!daemon->stopping)
        uv_run(&daemon->loop, UV_RUN_DEFAULT);
}

/* ---- the keeper ---- */

static void write_pids(struct mkt_daemon *daemon, int keeper_pid)
{
    struct mkt_error error;

    if (mkt_folder_write_pid(&daemon->folder, MKT_FOLDER_PID, keeper_pid, &error) != MKT_OK ||
        mkt_folder_write_pid(&daemon->folder, MKT_FOLDER_WORKER, getpid(), &error) != MKT_OK)
        mkt_log_warning("daemon", "%s", error.text);
}

/* Nothing comes from it but its end. */
static void on_keeper_end(uv_poll_t *poll, int status, int events)
{
    struct mkt_daemon *daemon = poll->data;

    (void)status;
    (void)events;
    daemon->has_keeper = false;
    uv_close((uv_handle_t *)poll, NULL);
    mkt_keeper_lose(daemon->keeper);
    if (!daemon->stopping)
        write_pids(daemon, getpid());
}

static void watch_keeper(struct mkt_daemon *daemon)
{
    if (!daemon->keeper || daemon->keeper->fd < 0 ||
        uv_poll_init(&daemon->loop, &daemon->keeper_end, daemon->keeper->fd) != 0)
        return;
    daemon->keeper_end.data = daemon;
    daemon->has_keeper = true;
    uv_poll_start(&daemon->keeper_end, UV_READABLE | UV_DISCONNECT, on_keeper_end);
}

/* The socket of a former worker is still listening, and who connected since waits in it. */
static enum mkt_status listen_or_go_on(struct mkt_daemon *daemon, struct mkt_error *error)
{
    struct mkt_kept_key key = mkt_kept_key(MKT_KEPT_LISTENER, 0);

    daemon->listen_fd = mkt_keeper_take(daemon->keeper, key);
    if (daemon->listen_fd >= 0)
        return MKT_OK;
    enum mkt_status status = mkt_folder_listen(&daemon->folder, &daemon->listen_fd, error);
    if (status == MKT_OK)
        mkt_keeper_keep(daemon->keeper, key, daemon->listen_fd);
    return status;
}

/* ---- life ---- */

static void start_loop(struct mkt_daemon *daemon)
{
    uv_loop_t *loop = &daemon->loop;

    uv_timer_init(loop, &daemon->deadline);
    uv_timer_init(loop, &daemon->second);
    uv_signal_init(loop, &daemon->terminate);
    uv_signal_init(loop, &daemon->interrupt);
    mkt_vigil_init(&daemon->vigil, loop);
    daemon->deadline.data = daemon->second.data = daemon;
    daemon->terminate.data = daemon->interrupt.data = daemon;
    daemon->listener.data = daemon;
    uv_timer_start(&daemon->second, on_second, SECOND_MS, SECOND_MS);
    uv_signal_start(&daemon->terminate, on_signal, SIGTERM);
    uv_signal_start(&daemon->interrupt, on_signal, SIGINT);
    uv_poll_start(&daemon->listener, UV_READABLE, on_connection);
}

static void copy_options(struct mkt_daemon *daemon, const struct mkt_daemon_options *options)
{
    daemon->config = *options->config;
    daemon->config.rules = NULL; /* rules are the clients' own */
    daemon->config.rules_count = 0;
    if (options->config_path && !realpath(options->config_path, daemon->config_path))
        snprintf(daemon->config_path, sizeof(daemon->config_path), "%s", options->config_path);
    daemon->folder = *options->folder;
    daemon->on_demand = options->on_demand;
    daemon->keeper = options->keeper;
    daemon->listen_fd = -1;
    daemon->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    daemon->started_ms = mkt_now_ms();
}

/* The first worker begins, a later one goes on. */
static enum mkt_status begin_life(struct mkt_daemon *daemon, struct mkt_error *error)
{
    struct mkt_journal_state_shm *state = daemon->keeper ? daemon->keeper->journal.state : NULL;

    if (state && state->is_serving)
        return mkt_daemon_revive(daemon, error);
    if (state) {
        state->limits = daemon->limits;
        memcpy(daemon->id, state->daemon, MKT_ID_BYTES);
        state->started_ms = daemon->started_ms;
        mkt_keeper_tick(daemon->keeper);
    }
    return MKT_OK;
}

enum mkt_status mkt_daemon_create(const struct mkt_daemon_options *options,
                                  struct mkt_daemon **daemon_out, struct mkt_error *error)
{
    struct mkt_daemon *daemon = calloc(1, sizeof(*daemon));
    enum mkt_status status;

    if (!daemon)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    copy_options(daemon, options);
    set_limits(daemon);
    if (daemon->keeper && daemon->keeper->journal.state->is_serving)
        daemon->limits = daemon->keeper->journal.state->limits; /* a market has one set for life */
    if (daemon->keeper)
        daemon->keeper->journal.limit = daemon->config.journal_bytes;
    status = mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    if (getrandom(daemon->id, sizeof(daemon->id), 0) != sizeof(daemon->id) ||
        uv_loop_init(&daemon->loop) != 0)
        goto err_daemon;
    mkt_arenas_init(&daemon->arenas, options->medium, daemon->keeper);
    status = mkt_moves_open(daemon, &daemon->moves, error);
    if (status != MKT_OK)
        goto err_parts;
    status = mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    daemon->market = mkt_market_create(&daemon->limits, &mkt_shell_ops, daemon);
    daemon->rules = mkt_rules_cache_create();
    daemon->stubs = mkt_stubs_create(daemon);
    daemon->pages = mkt_pages_create(daemon);
    daemon->archivers = mkt_archivers_create(daemon);
    if (!daemon->market || !daemon->rules || !daemon->stubs || !daemon->pages || !daemon->archivers)
        goto err_parts;
    status = begin_life(daemon, error);
    if (status == MKT_OK)
        status = mkt_moves_go_on(daemon->moves, error);
    if (status != MKT_OK)
        goto err_parts;
    status = listen_or_go_on(daemon, error);
    if (status != MKT_OK)
        goto err_parts;
    status = mkt_folder_write_pid(&daemon->folder, MKT_FOLDER_PID,
                                  daemon->keeper ? getppid() : getpid(), error);
    if (status == MKT_OK)
        status = mkt_folder_write_pid(&daemon->folder, MKT_FOLDER_WORKER, getpid(), error);
    if (status != MKT_OK)
        goto err_listen;
    if (uv_poll_init(&daemon->loop, &daemon->listener, daemon->listen_fd) != 0) {
        status = mkt_error_set(error, MKT_IO_ERROR, "the socket can't be watched");
        goto err_listen;
    }
    start_loop(daemon);
    watch_keeper(daemon);
    log_start(daemon);
    if (daemon->keeper)
        daemon->keeper->journal.state->is_serving = 1;
    mkt_drain_resume(daemon);
    mkt_shell_settle(daemon);
    *daemon_out = daemon;
    return MKT_OK;

err_listen:
    mkt_folder_unlisten(&daemon->folder);
    close(daemon->listen_fd);
err_parts:
    if (daemon->pages)
        mkt_pages_stop(daemon->pages);
    if (daemon->archivers)
        mkt_archivers_stop(daemon->archivers);
    mkt_moves_stop(daemon->moves);
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
    mkt_archivers_destroy(daemon->archivers);
    mkt_pages_destroy(daemon->pages);
    mkt_stubs_destroy(daemon->stubs);
    mkt_rules_cache_destroy(daemon->rules);
    mkt_market_destroy(daemon->market);
    mkt_moves_destroy(daemon->moves);
    mkt_arenas_fini(&daemon->arenas);
    uv_loop_close(&daemon->loop);
err_daemon:
    mkt_nodes_fini(&daemon->nodes);
    if (daemon->spare_fd >= 0)
        close(daemon->spare_fd);
    free(daemon);
    return status;
}

static void on_end_timeout(uv_timer_t *timer)
{
    (void)timer; /* a wake-up for the loop below */
}

/* Runs what the closed handles and the workers still have to say, not for ever. False: a worker
 * hangs. */
static bool finish_loop(struct mkt_daemon *daemon)
{
    uint64_t end_ms = mkt_now_ms() + END_MS;
    uv_timer_t alarm;

    uv_timer_init(&daemon->loop, &alarm);
    uv_timer_start(&alarm, on_end_timeout, END_MS, 0);
    uv_unref((uv_handle_t *)&alarm);
    while (uv_run(&daemon->loop, UV_RUN_ONCE) != 0 && mkt_now_ms() < end_ms)
        ;
    bool is_done = uv_loop_alive(&daemon->loop) == 0;
    uv_close((uv_handle_t *)&alarm, NULL);
    while (is_done && uv_run(&daemon->loop, UV_RUN_DEFAULT) != 0)
        ;
    return is_done;
}

static void close_handles(struct mkt_daemon *daemon)
{
    uv_close((uv_handle_t *)&daemon->listener, NULL);
    uv_close((uv_handle_t *)&daemon->deadline, NULL);
    uv_close((uv_handle_t *)&daemon->second, NULL);
    uv_close((uv_handle_t *)&daemon->terminate, NULL);
    uv_close((uv_handle_t *)&daemon->interrupt, NULL);
    if (daemon->has_keeper)
        uv_close((uv_handle_t *)&daemon->keeper_end, NULL);
    mkt_vigil_close(&daemon->vigil);
    mkt_pages_stop(daemon->pages);
    mkt_archivers_stop(daemon->archivers);
    mkt_moves_stop(daemon->moves);
}

void mkt_daemon_destroy(struct mkt_daemon *daemon)
{
    struct mkt_connection *connection, *next;

    if (!daemon)
        return;
    daemon->stopping = true;
    mkt_folder_unlisten(&daemon->folder);
    close(daemon->listen_fd);
    mkt_log_info("daemon", "ends: %s", daemon->stop_reason);
    mkt_loss_log(daemon);
    HASH_ITER (by_session, daemon->connections, connection, next)
        mkt_connection_abandon(connection);
    close_handles(daemon);
    bool is_done = finish_loop(daemon);
    mkt_folder_leave(&daemon->folder);
    mkt_folder_close(&daemon->folder);
    if (!is_done) {
        mkt_log_warning("daemon",
                        "a file system or the node's memory doesn't answer: not waiting for it");
        _exit(0);
    }
    mkt_archivers_destroy(daemon->archivers);
    mkt_pages_destroy(daemon->pages);
    mkt_stubs_destroy(daemon->stubs);
    mkt_rules_cache_destroy(daemon->rules);
    mkt_market_destroy(daemon->market);
    mkt_moves_destroy(daemon->moves);
    mkt_arenas_fini(&daemon->arenas);
    uv_loop_close(&daemon->loop);
    close(daemon->spare_fd);
    mkt_nodes_fini(&daemon->nodes);
    mkt_keeper_destroy(daemon->keeper);
    free(daemon);
}
