/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/hash.h"
#include "core/daemon/archiver.h"
#include "core/daemon/daemon.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_ENTRIES 16

/* What one client's configuration came to; parsing the same text again gives the same. */
struct entry {
    uint64_t hash, used; /* used: when last, 0: an empty place */
    char *text;          /* path, NUL, configuration */
    size_t text_bytes;
    void *rules; /* encoded */
    uint32_t rules_bytes, writer_timeout_ms;
};

struct mkt_rules_cache {
    uint64_t uses;
    struct entry entries[CACHE_ENTRIES];
};

struct mkt_rules_cache *mkt_rules_cache_create(void)
{
    return calloc(1, sizeof(struct mkt_rules_cache));
}

static void clear(struct entry *entry)
{
    free(entry->text);
    free(entry->rules);
    *entry = (struct entry){.used = 0};
}

void mkt_rules_cache_destroy(struct mkt_rules_cache *cache)
{
    for (int i = 0; cache && i < CACHE_ENTRIES; i++)
        clear(&cache->entries[i]);
    free(cache);
}

/* The path for messages and the text, as one key. */
static char *make_key(const struct mkt_msg_hello *hello, size_t *bytes_out)
{
    size_t bytes = (size_t)hello->config_path.length + 1 + hello->config.length;
    char *key = malloc(bytes);

    if (!key)
        return NULL;
    memcpy(key, hello->config_path.data, hello->config_path.length);
    key[hello->config_path.length] = '\0';
    memcpy(key + hello->config_path.length + 1, hello->config.data, hello->config.length);
    *bytes_out = bytes;
    return key;
}

static struct entry *find(struct mkt_rules_cache *cache, uint64_t hash, const char *key,
                          size_t bytes)
{
    for (int i = 0; i < CACHE_ENTRIES; i++) {
        struct entry *entry = &cache->entries[i];
        if (entry->used && entry->hash == hash && entry->text_bytes == bytes &&
            memcmp(entry->text, key, bytes) == 0)
            return entry;
    }
    return NULL;
}

static struct entry *oldest(struct mkt_rules_cache *cache)
{
    struct entry *oldest = &cache->entries[0];

    for (int i = 1; i < CACHE_ENTRIES; i++)
        if (cache->entries[i].used < oldest->used)
            oldest = &cache->entries[i];
    return oldest;
}

/* Parses and fills the entry, whose text is set. */
static enum mkt_status parse(const struct mkt_config *base, struct entry *entry,
                             struct mkt_error *error)
{
    const char *path = entry->text[0] ? entry->text : "h5market.yaml";
    size_t skipped = strlen(entry->text) + 1;
    struct mkt_config config;
    enum mkt_status status = mkt_config_parse(entry->text + skipped, entry->text_bytes - skipped,
                                              path, base, &config, error);

    if (status != MKT_OK)
        return status;
    entry->writer_timeout_ms = config.writer_timeout_ms;
    status = mkt_rules_encode(config.rules, config.rules_count, &entry->rules, &entry->rules_bytes);
    if (status != MKT_OK)
        mkt_error_set(error, status, "%.400s: its rules are too long together", path);
    mkt_config_fini(&config);
    return status;
}

/* The entry of the client's configuration; it stays until another client says HELLO. */
static enum mkt_status get_rules(struct mkt_daemon *daemon, const struct mkt_msg_hello *hello,
                                 const struct entry **entry_out, struct mkt_error *error)
{
    struct mkt_rules_cache *cache = daemon->rules;
    size_t bytes = 0;
    char *key = make_key(hello, &bytes);
    struct entry *entry;

    if (!key)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    uint64_t hash = mkt_hash64(key, bytes, 0);
    entry = find(cache, hash, key, bytes);
    if (entry)
        free(key);
    else {
        entry = oldest(cache);
        clear(entry);
        *entry = (struct entry){.hash = hash, .text = key, .text_bytes = bytes};
        enum mkt_status status = parse(&daemon->config, entry, error);
        if (status != MKT_OK) {
            clear(entry);
            return status;
        }
    }
    entry->used = ++cache->uses;
    *entry_out = entry;
    return MKT_OK;
}

static void copy_text(struct mkt_bytes bytes, char *text, size_t capacity)
{
    size_t length = bytes.length < capacity - 1 ? bytes.length : capacity - 1;

    memcpy(text, bytes.data, length);
    text[length] = '\0';
}

static void fail(struct mkt_connection *connection, const struct mkt_msg *message,
                 enum mkt_status status, const char *text)
{
    mkt_connection_send_error(connection, message->request, status, text);
    mkt_connection_doom(connection, text);
}

static void welcome(struct mkt_daemon *daemon, struct mkt_connection *connection,
                    const struct mkt_msg *message, const struct entry *entry, uint64_t processed)
{
    struct mkt_msg reply = {.type = MKT_MSG_WELCOME, .request = message->request};

    memcpy(reply.welcome.daemon, daemon->id, MKT_ID_BYTES);
    reply.welcome.protocol = MKT_PROTOCOL_VERSION;
    /* Nothing is lost by default; without the program that writes files there is no `both`. */
    reply.welcome.default_mode =
        mkt_archivers_installed(daemon->archivers) ? MKT_MODE_BOTH : MKT_MODE_MEMORY;
    reply.welcome.writer_timeout_ms = entry->writer_timeout_ms;
    reply.welcome.full_timeout_ms = daemon->limits.full_timeout_ms;
    reply.welcome.on_demand = daemon->on_demand;
    reply.welcome.memory_limit_bytes = daemon->limits.memory_bytes;
    reply.welcome.rules = (struct mkt_bytes){.data = entry->rules, .length = entry->rules_bytes};
    reply.welcome.session = connection->session;
    mkt_session_secret(daemon, connection->session, reply.welcome.secret);
    reply.welcome.processed = processed;
    mkt_connection_send_message(connection, &reply, -1);
}

/* ---- a session that goes on ---- */

/* The connection takes the place of the absent one. */
static void take_place(struct mkt_daemon *daemon, struct mkt_connection *connection,
                       struct mkt_connection *absent)
{
    HASH_DELETE(by_session, daemon->connections, absent);
    HASH_DELETE(by_session, daemon->connections, connection);
    daemon->connections_count--;
    connection->session = absent->session;
    connection->pid = absent->pid;
    memcpy(connection->program, absent->program, sizeof(connection->program));
    connection->greeted = true;
    HASH_ADD(by_session, daemon->connections, session, sizeof(connection->session), connection);
    mkt_connection_dismiss(absent);
}

static void resume(struct mkt_daemon *daemon, struct mkt_connection *connection,
                   const struct mkt_msg *message)
{
    static const struct entry no_rules;
    const struct mkt_msg_hello *hello = &message->hello;
    struct mkt_connection *absent = mkt_shell_find(daemon, hello->session);
    uint8_t secret[MKT_ID_BYTES];
    uint64_t processed;

    mkt_session_secret(daemon, hello->session, secret);
    if (!daemon->keeper || memcmp(secret, hello->secret, MKT_ID_BYTES) != 0 || !absent ||
        !absent->is_absent ||
        mkt_market_session_resume(daemon->market, hello->session, &processed) != MKT_OK) {
        fail(connection, message, MKT_NOT_FOUND,
             "the market daemon that this program was connected to is gone, and what it held, too");
        return;
    }
    take_place(daemon, connection, absent);
    mkt_log_info("connection", "%" PRIu64 " is %s (pid %u there) again", connection->session,
                 connection->program, connection->pid);
    welcome(daemon, connection, message, &no_rules, processed);
    mkt_market_answer_again(daemon->market, connection->session);
}

void mkt_hello_handle(struct mkt_daemon *daemon, struct mkt_connection *connection,
                      const struct mkt_msg *message)
{
    const struct mkt_msg_hello *hello = &message->hello;
    const struct entry *entry = NULL;
    struct mkt_error error;
    enum mkt_status status;

    if (hello->protocol != MKT_PROTOCOL_VERSION) {
        mkt_error_set(&error, MKT_PROTOCOL,
                      "the daemon in %.400s is h5market " MKT_DAEMON_VERSION
                      " (protocol %d) and this program's plugin "
                      "speaks protocol %" PRIu32
                      ": use one installation for both, and stop the daemon (h5market stop)",
                      daemon->folder.path, MKT_PROTOCOL_VERSION, hello->protocol);
        fail(connection, message, MKT_PROTOCOL, error.text);
        return;
    }
    if (hello->session != 0) {
        resume(daemon, connection, message);
        return;
    }
    copy_text(hello->program, connection->program, sizeof(connection->program));
    connection->pid = hello->pid;
    status = get_rules(daemon, hello, &entry, &error);
    if (status != MKT_OK) {
        fail(connection, message, status, error.text);
        return;
    }
    uint32_t node = mkt_nodes_of_cpu(&daemon->nodes, hello->cpu);
    status = mkt_market_session_begin(daemon->market, connection->session, connection->program,
                                      connection->pid, node);
    if (status != MKT_OK) {
        fail(connection, message, status, "the daemon can't take another program");
        return;
    }
    connection->greeted = true;
    if (connection->pidfd >= 0)
        mkt_keeper_keep(daemon->keeper, mkt_kept_key(MKT_KEPT_PROCESS, connection->session),
                        connection->pidfd);
    mkt_log_debug("connection", "%" PRIu64 " is %s (pid %u there) on processor %u",
                  connection->session, connection->program, connection->pid, hello->cpu);
    welcome(daemon, connection, message, entry, 0);
}
