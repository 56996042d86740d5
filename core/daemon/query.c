/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * STATUS, LIST and STAT as JSON. What programs may rely on:
 *   STATUS {"version","protocol","daemon","host","pid","uid","directory","config","log","uptime_s",
 *            "memory":{"limit_bytes","of_bytes","source","used_bytes","granted_bytes","published_bytes","live_bytes",
 *            "resident_bytes","arena_bytes","arenas","no_nodes":null|why,
 *            "nodes":[{"node":null|number,"memory_bytes","cpus","is_bound","arenas","used_bytes","resident_bytes"}]},
 *            "tier":null|{"folders","limit_bytes","used_bytes","file_bytes","high_bytes","low_bytes","uses_direct",
 *            "uses_uring","why_not","failure":null|text,"moves","moved_out_bytes","moved_in_bytes","reads",
 *            "bytes_per_s","latency_ns","queue_depth","promote_after"},
 *            "waits":[{"for":"memory"|"read"|"version","program","pid","waited_ms","bytes","path","waits_on"}],
 *            "sessions","objects","versions","groups","waiting_opens",
 *            "waiting_grants","unsaved_versions","unsaved_bytes","saved_versions","saved_bytes","yielded_ms","publishes","withdrawals","requests","replies","written_bytes","read_opens","stubs","limits":{...}}
 *   LIST
 * {"objects":[{"object","path","newest_version","versions","readers","bytes","tier_bytes","has_stub",
 *            "writer":null|{"program","pid","ranks"},"mode","durability","priority","backup","keeps_datasets",
 *            "saving":null|SAVING}]}
 *   STAT    one such object, with
 * "all_versions":[{"version","newest","hidden","age_s","age_ms","published_unix","data_bytes","tier_bytes","image_bytes",
 *            "index_bytes","pieces","arrays","readers","saving":SAVING}]
 *            "stream":null|{"pattern":null|text,"until_consumed","readers","queue","unread","published",
 *            "ended"},"named_readers":[{"name","program","pid","state":"here"|"leaving"|"gone",
 *            "deliver":"latest"|"next"|"all"|"every","every","delivered","skipped","last_version",
 *            "unread"}]. A reader's `unread`: versions of this file; the stream's: all that its
 * queue counts SAVING
 * {"state":"memory"|"unsaved"|"saving"|"failing"|"saved","tries","retry_s":null|seconds,
 *            "failure":null|text}; of an object: of its newest version, null if there is none.
 *            "memory" is in memory only, and not to be saved
 */
#include "core/base/clock.h"
#include "core/daemon/daemon.h"
#include "core/daemon/moves.h"
#include "core/daemon/stubs.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define PART_BYTES (512u << 10)

/* A JSON string of any bytes: what isn't UTF-8 is shown as '?'. */
static json_t *text_json(const char *text)
{
    json_t *json = json_string(text);
    char *copy;

    if (json)
        return json;
    copy = strdup(text ? text : "");
    for (char *at = copy; at && *at; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    json = json_string(copy ? copy : "");
    free(copy);
    return json;
}

static json_t *number_json(uint64_t number)
{
    return json_integer((json_int_t)number);
}

static json_t *id_json(const uint8_t id[MKT_ID_BYTES])
{
    char text[2 * MKT_ID_BYTES + 1];

    for (int i = 0; i < MKT_ID_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
    return json_string(text);
}

/* What the arenas of one node hold. */
struct node_sum {
    const struct mkt_daemon *daemon;
    uint32_t node, arenas;
    uint64_t used_bytes, resident_bytes;
    bool is_bound;
};

static void add_arena(void *context, const struct mkt_arena_info *info)
{
    struct node_sum *sum = context;
    const struct mkt_arenas *arenas = &sum->daemon->arenas;

    if (info->node != sum->node)
        return;
    sum->arenas++;
    sum->used_bytes += info->used_bytes;
    sum->resident_bytes += mkt_arenas_resident_bytes_of(arenas, info->arena);
    sum->is_bound &= arenas->list[info->arena - 1].is_bound;
}

static struct node_sum sum_node(const struct mkt_daemon *daemon, uint32_t node)
{
    struct node_sum sum = {.daemon = daemon, .node = node, .is_bound = true};

    mkt_market_each_arena(daemon->market, add_arena, &sum);
    return sum;
}

static json_t *node_json(const struct node_sum *sum, const struct mkt_node *node)
{
    json_t *json = json_object();

    json_object_set_new(json, "node", node ? number_json(node->number) : json_null());
    json_object_set_new(json, "memory_bytes", number_json(node ? node->memory_bytes : 0));
    json_object_set_new(json, "cpus", number_json(node ? node->cpus : 0));
    json_object_set_new(json, "is_bound", json_boolean(sum->is_bound));
    json_object_set_new(json, "arenas", number_json(sum->arenas));
    json_object_set_new(json, "used_bytes", number_json(sum->used_bytes));
    json_object_set_new(json, "resident_bytes", number_json(sum->resident_bytes));
    return json;
}

/* Empty where it is no matter. What lies in arenas of no node (null) comes last, if there are. */
static json_t *nodes_json(const struct mkt_daemon *daemon)
{
    json_t *json = json_array();
    struct node_sum none = sum_node(daemon, MKT_NO_NODE);

    for (uint32_t i = 0; i < daemon->nodes.count; i++) {
        struct node_sum sum = sum_node(daemon, daemon->nodes.node[i].number);
        json_array_append_new(json, node_json(&sum, &daemon->nodes.node[i]));
    }
    if (daemon->nodes.count > 0 && none.arenas > 0)
        json_array_append_new(json, node_json(&none, NULL));
    return json;
}

static json_t *memory_json(const struct mkt_daemon *daemon, const struct mkt_market_usage *usage)
{
    json_t *json = json_object();

    json_object_set_new(json, "limit_bytes", number_json(daemon->limits.memory_bytes));
    json_object_set_new(json, "of_bytes", number_json(daemon->memory.total_bytes));
    json_object_set_new(json, "source", text_json(mkt_memory_source(&daemon->memory)));
    json_object_set_new(json, "used_bytes", number_json(usage->used_bytes));
    json_object_set_new(json, "granted_bytes", number_json(usage->granted_bytes));
    json_object_set_new(json, "published_bytes", number_json(usage->published_bytes));
    json_object_set_new(json, "live_bytes", number_json(usage->live_bytes));
    json_object_set_new(json, "resident_bytes",
                        number_json(mkt_arenas_resident_bytes(&daemon->arenas)));
    json_object_set_new(json, "arena_bytes", number_json(daemon->limits.arena_bytes));
    json_object_set_new(json, "arenas", number_json(usage->arenas));
    json_object_set_new(json, "nodes", nodes_json(daemon));
    json_object_set_new(json, "no_nodes",
                        daemon->nodes.count > 0 ? json_null() : text_json(daemon->nodes.why_none));
    return json;
}

static json_t *tier_json(const struct mkt_daemon *daemon, const struct mkt_market_usage *usage)
{
    const struct mkt_speeds *speeds = &daemon->limits.tier_speeds;
    struct mkt_ssd_usage files;
    json_t *json = json_object();

    mkt_moves_usage(daemon->moves, &files);
    json_object_set_new(json, "folders", text_json(daemon->config.ssd));
    json_object_set_new(json, "limit_bytes", number_json(usage->tier_limit_bytes));
    json_object_set_new(json, "used_bytes", number_json(usage->tier_bytes));
    json_object_set_new(json, "file_bytes", number_json(files.file_bytes));
    json_object_set_new(json, "high_bytes", number_json(daemon->limits.tier_high_bytes));
    json_object_set_new(json, "low_bytes", number_json(daemon->limits.tier_low_bytes));
    json_object_set_new(json, "uses_direct", json_boolean(files.uses_direct));
    json_object_set_new(json, "uses_uring", json_boolean(files.uses_uring));
    json_object_set_new(json, "why_not", text_json(files.why_not));
    json_object_set_new(json, "failure",
                        usage->tier_failure[0] ? text_json(usage->tier_failure) : json_null());
    json_object_set_new(json, "moves", number_json(usage->moves));
    json_object_set_new(json, "moved_out_bytes", number_json(usage->moved_out_bytes));
    json_object_set_new(json, "moved_in_bytes", number_json(usage->moved_in_bytes));
    json_object_set_new(json, "reads", number_json(usage->fetches));
    json_object_set_new(json, "bytes_per_s", number_json(speeds->bytes_per_s));
    json_object_set_new(json, "latency_ns", number_json(speeds->latency_ns));
    json_object_set_new(json, "queue_depth", number_json(speeds->queue_depth));
    json_object_set_new(json, "promote_after", number_json(daemon->limits.promote_after));
    return json;
}

static void add_wait(void *context, const struct mkt_wait_info *info)
{
    static const char *const kinds[] = {
        [MKT_WAIT_MEMORY] = "memory", [MKT_WAIT_FETCH] = "read", [MKT_WAIT_OPEN] = "version"};
    json_t *json = json_object();

    json_object_set_new(json, "for", json_string(kinds[info->kind]));
    json_object_set_new(json, "program", text_json(info->program));
    json_object_set_new(json, "pid", number_json(info->pid));
    json_object_set_new(json, "waited_ms", number_json(info->waited_ms));
    json_object_set_new(json, "bytes", number_json(info->bytes));
    json_object_set_new(json, "path", text_json(info->path));
    json_object_set_new(json, "waits_on", text_json(info->waits_on));
    json_array_append_new(context, json);
}

static json_t *waits_json(const struct mkt_daemon *daemon)
{
    json_t *json = json_array();

    mkt_market_each_wait(daemon->market, mkt_now_ms(), add_wait, json);
    return json;
}

static json_t *limits_json(const struct mkt_daemon *daemon)
{
    json_t *json = json_object();

    json_object_set_new(json, "full_timeout_ms", number_json(daemon->limits.full_timeout_ms));
    json_object_set_new(json, "writer_timeout_ms", number_json(daemon->config.writer_timeout_ms));
    json_object_set_new(json, "join_timeout_ms", number_json(daemon->limits.join_timeout_ms));
    json_object_set_new(json, "commit_timeout_ms", number_json(daemon->limits.commit_timeout_ms));
    json_object_set_new(json, "idle_exit_ms",
                        daemon->config.idle_exit_ms == MKT_CONFIG_NEVER
                            ? json_null()
                            : number_json(daemon->config.idle_exit_ms));
    json_object_set_new(json, "idle_trim_ms", number_json(daemon->config.idle_trim_ms));
    json_object_set_new(json, "scratch_bytes", number_json(daemon->limits.scratch_bytes));
    json_object_set_new(json, "max_objects", number_json(daemon->limits.max_objects));
    json_object_set_new(json, "max_writers", number_json(daemon->limits.max_groups));
    json_object_set_new(json, "max_waiting", number_json(daemon->limits.max_waiting));
    json_object_set_new(json, "max_pieces", number_json(daemon->limits.max_pieces));
    json_object_set_new(json, "max_connections", number_json(daemon->connections_max));
    return json;
}

static void add_counts(json_t *json, const struct mkt_daemon *daemon,
                       const struct mkt_market_usage *usage)
{
    json_object_set_new(json, "sessions", number_json(usage->sessions));
    json_object_set_new(json, "connections", number_json(daemon->open_count));
    json_object_set_new(json, "objects", number_json(usage->objects));
    json_object_set_new(json, "versions", number_json(usage->versions));
    json_object_set_new(json, "groups", number_json(usage->groups));
    json_object_set_new(json, "waiting_opens", number_json(usage->waiting_opens));
    json_object_set_new(json, "waiting_grants", number_json(usage->waiting_grants));
    json_object_set_new(json, "unsaved_versions", number_json(usage->unsaved_versions));
    json_object_set_new(json, "unsaved_bytes", number_json(usage->unsaved_bytes));
    json_object_set_new(json, "saved_versions", number_json(usage->saved_versions));
    json_object_set_new(json, "saved_bytes", number_json(usage->saved_bytes));
    json_object_set_new(json, "yielded_ms", number_json(usage->yielded_ms));
    json_object_set_new(json, "publishes", number_json(usage->publishes));
    json_object_set_new(json, "withdrawals", number_json(usage->withdrawals));
    json_object_set_new(json, "requests", number_json(usage->requests));
    json_object_set_new(json, "replies", number_json(usage->replies));
    json_object_set_new(json, "written_bytes", number_json(usage->added_bytes));
    json_object_set_new(json, "read_opens", number_json(usage->read_opens));
    json_object_set_new(json, "stubs", number_json(mkt_stubs_count(daemon->stubs)));
}

static json_t *journal_json(const struct mkt_journal *journal)
{
    json_t *json = json_object();

    json_object_set_new(json, "bytes", number_json(journal->end));
    json_object_set_new(json, "records", number_json(journal->records));
    json_object_set_new(json, "dumps", number_json(journal->state->dumps));
    return json;
}

static void add_keeper(json_t *json, const struct mkt_daemon *daemon)
{
    const struct mkt_journal_state_shm *state =
        daemon->keeper ? daemon->keeper->journal.state : NULL;
    bool is_kept = state && daemon->keeper->fd >= 0 && !state->is_broken;

    json_object_set_new(json, "has_keeper", json_boolean(is_kept));
    json_object_set_new(json, "restarts", number_json(state ? state->restarts : 0));
    if (state)
        json_object_set_new(json, "journal", journal_json(&daemon->keeper->journal));
    if (!state || state->restarts == 0)
        return;
    json_object_set_new(json, "restarted_s",
                        number_json((mkt_now_ms() - state->restarted_ms) / 1000));
    json_object_set_new(json, "restart_reason", text_json(state->reason));
}

static json_t *status_json(const struct mkt_daemon *daemon)
{
    struct mkt_market_usage usage;
    struct utsname host;
    char log[PATH_MAX + 32];
    json_t *json = json_object();

    mkt_market_usage(daemon->market, &usage);
    uname(&host);
    snprintf(log, sizeof(log), "%s/" MKT_FOLDER_LOG, daemon->folder.path);
    json_object_set_new(json, "version", json_string(MKT_DAEMON_VERSION));
    json_object_set_new(json, "protocol", number_json(MKT_PROTOCOL_VERSION));
    json_object_set_new(json, "daemon", id_json(daemon->id));
    json_object_set_new(json, "host", text_json(host.nodename));
    json_object_set_new(json, "pid", number_json((uint64_t)getpid()));
    json_object_set_new(json, "uid", number_json(geteuid()));
    json_object_set_new(json, "directory", text_json(daemon->folder.path));
    json_object_set_new(json, "config",
                        daemon->config_path[0] ? text_json(daemon->config_path) : json_null());
    json_object_set_new(json, "log", text_json(log));
    json_object_set_new(json, "uptime_s", number_json((mkt_now_ms() - daemon->started_ms) / 1000));
    add_keeper(json, daemon);
    json_object_set_new(json, "memory", memory_json(daemon, &usage));
    json_object_set_new(json, "tier", daemon->moves ? tier_json(daemon, &usage) : json_null());
    json_object_set_new(json, "waits", waits_json(daemon));
    add_counts(json, daemon, &usage);
    json_object_set_new(json, "limits", limits_json(daemon));
    return json;
}

static json_t *saving_json(const struct mkt_saving_info *saving)
{
    static const char *const states[] = {[MKT_SAVING_NONE] = "memory",
                                         [MKT_SAVING_UNSAVED] = "unsaved",
                                         [MKT_SAVING_RUNNING] = "saving",
                                         [MKT_SAVING_FAILING] = "failing",
                                         [MKT_SAVING_SAVED] = "saved"};
    uint64_t now_ms = mkt_now_ms();
    uint64_t left_ms = saving->retry_ms > now_ms ? saving->retry_ms - now_ms : 0;
    json_t *json = json_object();

    json_object_set_new(json, "state", json_string(states[saving->state]));
    json_object_set_new(json, "tries", number_json(saving->tries));
    json_object_set_new(json, "retry_s",
                        saving->state == MKT_SAVING_FAILING ? number_json((left_ms + 999) / 1000)
                                                            : json_null());
    json_object_set_new(json, "failure",
                        saving->failure ? text_json(saving->failure) : json_null());
    return json;
}

static const char *mode_word(uint32_t mode)
{
    return mode == MKT_MODE_BOTH ? "both" : mode == MKT_MODE_FILE ? "file" : "memory";
}

static const char *durability_word(uint32_t durability)
{
    return durability == MKT_DURABILITY_CLOSE  ? "close"
           : durability == MKT_DURABILITY_NONE ? "none"
                                               : "async";
}

static json_t *object_json(const struct mkt_object_info *info)
{
    json_t *json = json_object(), *writer = json_null();

    json_object_set_new(json, "object", id_json(info->object));
    json_object_set_new(json, "path", text_json(info->path));
    json_object_set_new(json, "newest_version", number_json(info->newest_version));
    json_object_set_new(json, "versions", number_json(info->versions));
    json_object_set_new(json, "readers", number_json(info->readers));
    json_object_set_new(json, "bytes", number_json(info->bytes));
    json_object_set_new(json, "tier_bytes", number_json(info->tier_bytes));
    json_object_set_new(json, "has_stub", json_boolean(info->has_stub));
    if (info->has_writer) {
        writer = json_object();
        json_object_set_new(writer, "program", text_json(info->writer_program));
        json_object_set_new(writer, "pid", number_json(info->writer_pid));
        json_object_set_new(writer, "ranks", number_json(info->writer_ranks));
    }
    json_object_set_new(json, "writer", writer);
    json_object_set_new(json, "mode", json_string(mode_word(info->mode)));
    json_object_set_new(json, "durability",
                        info->mode == MKT_MODE_BOTH ? json_string(durability_word(info->durability))
                                                    : json_null());
    json_object_set_new(json, "priority", number_json(info->priority));
    json_object_set_new(json, "backup", json_boolean(info->backup));
    json_object_set_new(json, "keeps_datasets", json_boolean(info->keeps_some));
    json_object_set_new(json, "saving",
                        info->newest_version ? saving_json(&info->saving) : json_null());
    return json;
}

static void add_object(void *context, const struct mkt_object_info *info)
{
    json_array_append_new(context, object_json(info));
}

static json_t *list_json(const struct mkt_daemon *daemon)
{
    json_t *json = json_object(), *objects = json_array();

    mkt_market_each_object(daemon->market, add_object, objects);
    json_object_set_new(json, "objects", objects);
    return json;
}

static void add_version(void *context, const struct mkt_version_info *info)
{
    json_t *json = json_object();
    uint64_t now_ms = mkt_now_ms();
    uint64_t age_ms = now_ms > info->published_ms ? now_ms - info->published_ms : 0;
    uint64_t age_s = age_ms / 1000;

    json_object_set_new(json, "version", number_json(info->version));
    json_object_set_new(json, "newest", json_boolean(info->newest));
    json_object_set_new(json, "hidden", json_boolean(info->hidden));
    json_object_set_new(json, "age_s", number_json(age_s));
    json_object_set_new(json, "age_ms", number_json(age_ms));
    json_object_set_new(json, "published_unix", number_json((uint64_t)time(NULL) - age_s));
    json_object_set_new(json, "data_bytes", number_json(info->data_bytes));
    json_object_set_new(json, "tier_bytes", number_json(info->tier_bytes));
    json_object_set_new(json, "image_bytes", number_json(info->image_bytes));
    json_object_set_new(json, "index_bytes", number_json(info->index_bytes));
    json_object_set_new(json, "pieces", number_json(info->pieces));
    json_object_set_new(json, "arrays", number_json(info->arrays));
    json_object_set_new(json, "readers", number_json(info->readers));
    json_object_set_new(json, "saving", saving_json(&info->saving));
    json_array_append_new(context, json);
}

struct wanted {
    uint8_t object[MKT_ID_BYTES];
    json_t *json;
};

static void take_wanted(void *context, const struct mkt_object_info *info)
{
    struct wanted *wanted = context;

    if (!wanted->json && memcmp(info->object, wanted->object, MKT_ID_BYTES) == 0)
        wanted->json = object_json(info);
}

static json_t *stream_json(const struct mkt_stream_info *info)
{
    json_t *json = json_object();

    json_object_set_new(json, "pattern", info->pattern ? text_json(info->pattern) : json_null());
    json_object_set_new(json, "until_consumed", json_boolean(info->consumed));
    json_object_set_new(json, "readers", number_json(info->readers));
    json_object_set_new(json, "queue", number_json(info->queue));
    json_object_set_new(json, "unread", number_json(info->unread));
    json_object_set_new(json, "published", number_json(info->published));
    json_object_set_new(json, "ended", json_boolean(info->ended));
    return json;
}

static void add_reader(void *context, const struct mkt_reader_info *info)
{
    static const char *const delivers[] = {"", "latest", "next", "all", "every"};
    json_t *json = json_object();

    json_object_set_new(json, "name", text_json(info->name));
    json_object_set_new(json, "program", text_json(info->program));
    json_object_set_new(json, "pid", number_json(info->pid));
    json_object_set_new(json, "state",
                        json_string(info->is_gone   ? "gone"
                                    : info->is_here ? "here"
                                                    : "leaving"));
    json_object_set_new(json, "deliver", json_string(delivers[info->deliver]));
    json_object_set_new(json, "every", number_json(info->every));
    json_object_set_new(json, "delivered", number_json(info->delivered));
    json_object_set_new(json, "skipped", number_json(info->skipped));
    json_object_set_new(json, "last_version", number_json(info->last));
    json_object_set_new(json, "unread", number_json(info->unread));
    json_array_append_new(context, json);
}

static void add_stream(json_t *json, const struct mkt_daemon *daemon,
                       const uint8_t object[MKT_ID_BYTES])
{
    struct mkt_stream_info info;
    json_t *readers = json_array();
    bool is_there = mkt_market_stream(daemon->market, object, &info);

    json_object_set_new(json, "stream", is_there ? stream_json(&info) : json_null());
    mkt_market_each_reader(daemon->market, object, add_reader, readers);
    json_object_set_new(json, "named_readers", readers);
}

/* NULL: the market has nothing under that name. */
static json_t *stat_json(const struct mkt_daemon *daemon, const struct mkt_name *name)
{
    struct wanted wanted = {.json = NULL};

    if (!mkt_market_resolve(daemon->market, name, wanted.object))
        return NULL;
    mkt_market_each_object(daemon->market, take_wanted, &wanted);
    if (wanted.json) {
        json_t *versions = json_array();
        mkt_market_each_version(daemon->market, wanted.object, add_version, versions);
        json_object_set_new(wanted.json, "all_versions", versions);
        add_stream(wanted.json, daemon, wanted.object);
    }
    return wanted.json;
}

static json_t *make_json(const struct mkt_daemon *daemon, const struct mkt_msg_query *query)
{
    switch (query->what) {
    case MKT_QUERY_STATUS:
        return status_json(daemon);
    case MKT_QUERY_LIST:
        return list_json(daemon);
    case MKT_QUERY_STAT:
        return stat_json(daemon, &query->name);
    default:
        return NULL;
    }
}

/* Makes the answer, which the connection keeps for its later parts. */
static bool make_answer(struct mkt_daemon *daemon, struct mkt_connection *connection,
                        const struct mkt_msg *message)
{
    json_t *json = make_json(daemon, &message->query);

    free(connection->answer);
    connection->answer = NULL;
    if (!json) {
        bool is_stat = message->query.what == MKT_QUERY_STAT;
        mkt_connection_send_error(
            connection, message->request, is_stat ? MKT_NOT_FOUND : MKT_INVALID,
            is_stat ? "the market has nothing under this name" : "an unknown question");
        return false;
    }
    connection->answer = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (!connection->answer) {
        mkt_connection_send_error(connection, message->request, MKT_NO_MEMORY, "out of memory");
        return false;
    }
    connection->answer_bytes = strlen(connection->answer);
    return true;
}

void mkt_query_handle(struct mkt_daemon *daemon, struct mkt_connection *connection,
                      const struct mkt_msg *message)
{
    struct mkt_msg reply = {.type = MKT_MSG_ANSWER, .request = message->request};
    uint32_t part = message->query.part;

    if (part == 0 && !make_answer(daemon, connection, message))
        return;
    uint32_t parts = (uint32_t)(connection->answer_bytes / PART_BYTES) + 1;
    if (!connection->answer || part >= parts) {
        mkt_connection_send_error(connection, message->request, MKT_INVALID,
                                  "there is no such part of the answer");
        return;
    }
    size_t offset = (size_t)part * PART_BYTES, rest = connection->answer_bytes - offset;
    reply.answer.part = part;
    reply.answer.parts = parts;
    reply.answer.json.data = connection->answer + offset;
    reply.answer.json.length = (uint32_t)(rest < PART_BYTES ? rest : PART_BYTES);
    mkt_connection_send_message(connection, &reply, -1);
    if (part + 1 == parts) {
        free(connection->answer);
        connection->answer = NULL;
    }
}
