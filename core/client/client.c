/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/client/client.h"
#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/base/process_number.h"
#include "core/client/directory.h"
#include "core/client/internal.h"
#include "core/client/name.h"
#include "core/client/start.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_TIMEOUT_MS 10000u
#define SILENCE_MS         60000u
#define CONFIG_MAX_BYTES   (256u << 10)
#define RETRY_MS           20

void mkt_client_host(char *host_out, size_t capacity)
{
    if (gethostname(host_out, capacity) != 0)
        snprintf(host_out, capacity, "?");
    host_out[capacity - 1] = '\0';
}

/* ---- the configuration's text ---- */

struct config {
    const char *path; /* NULL: none */
    char *absolute;   /* for the daemon, which lives elsewhere */
    char *text;
    uint32_t bytes;
};

static void config_fini(struct config *config)
{
    free(config->absolute);
    free(config->text);
}

static enum mkt_status config_read(struct config *config, int fd, struct mkt_error *error)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > CONFIG_MAX_BYTES)
        return mkt_error_set(error, MKT_INVALID,
                             "the configuration %.400s is no file of at most %u bytes",
                             config->path, CONFIG_MAX_BYTES);
    config->text = malloc((size_t)info.st_size + 1);
    config->absolute = realpath(config->path, NULL);
    if (config->text == NULL || config->absolute == NULL)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory for the configuration %.400s",
                             config->path);
    ssize_t bytes = pread(fd, config->text, (size_t)info.st_size, 0);
    if (bytes < 0)
        return mkt_error_set(error, MKT_INVALID, "can't read the configuration %.400s: %s",
                             config->path, strerror(errno));
    config->bytes = (uint32_t)bytes;
    return MKT_OK;
}

static enum mkt_status config_init(struct config *config, const char *wanted,
                                   struct mkt_error *error)
{
    *config = (struct config){.path = wanted};
    if (wanted == NULL || wanted[0] == '\0')
        config->path = getenv("H5MARKET_CONFIG");
    if (config->path == NULL || config->path[0] == '\0') {
        config->path = NULL;
        return MKT_OK;
    }
    int fd = open(config->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return mkt_error_set(error, MKT_INVALID, "can't open the configuration %.400s: %s",
                             config->path, strerror(errno));
    enum mkt_status status = config_read(config, fd, error);
    close(fd);
    if (status != MKT_OK)
        config_fini(config);
    return status;
}

/* ---- the handshake ---- */

static struct mkt_bytes text_bytes(const char *text)
{
    return (struct mkt_bytes){text, text != NULL ? (uint32_t)strlen(text) : 0};
}

static enum mkt_status take_welcome(struct mkt_client *client,
                                    const struct mkt_msg_welcome *welcome, struct mkt_error *error)
{
    if (welcome->protocol != MKT_PROTOCOL_VERSION)
        return mkt_link_lose(&client->link, error, MKT_PROTOCOL,
                             "the market daemon in %.300s speaks protocol version %u, this "
                             "plugin %u: both must be of one H5Market; stop the daemon "
                             "(h5market stop) or set HDF5_PLUGIN_PATH to its plugin",
                             client->directory, welcome->protocol, MKT_PROTOCOL_VERSION);
    enum mkt_status status = mkt_rules_decode(welcome->rules, &client->rules, &client->rules_count);
    if (status != MKT_OK)
        return mkt_link_lose(&client->link, error, status,
                             "the market daemon's rules can't be read");
    client->link.session = welcome->session;
    memcpy(client->link.secret, welcome->secret, MKT_ID_BYTES);
    memcpy(client->daemon, welcome->daemon, MKT_ID_BYTES);
    client->full_timeout_ms = welcome->full_timeout_ms;
    client->on_demand = welcome->on_demand;
    client->memory_bytes = welcome->memory_limit_bytes;
    client->defaults = (struct mkt_rule){.pattern = "",
                                         .mode = welcome->default_mode,
                                         .writer_timeout_ms = welcome->writer_timeout_ms,
                                         .publish = MKT_PUBLISH_CLOSE,
                                         .publish_close = 1,
                                         .exit_wait_ms = MKT_EXIT_WAIT_MS};
    return MKT_OK;
}

static enum mkt_status say_hello(struct mkt_client *client, const struct config *config,
                                 uint64_t deadline_ms, struct mkt_error *error)
{
    struct mkt_wait wait = {.deadline_ms = deadline_ms};
    struct mkt_msg reply, hello = {.type = MKT_MSG_HELLO,
                                   .hello = {.protocol = MKT_PROTOCOL_VERSION,
                                             .pid = (uint32_t)getpid(),
                                             .cpu = (uint32_t)sched_getcpu(),
                                             .program = text_bytes(program_invocation_short_name),
                                             .host = text_bytes(client->host),
                                             .config_path = text_bytes(config->absolute),
                                             .config = {config->text, config->bytes}}};
    enum mkt_status status = mkt_link_greet(&client->link, &hello, &wait, &reply, error);
    if (status != MKT_OK)
        return status;
    return take_welcome(client, &reply.welcome, error);
}

static enum mkt_status reach_daemon(struct mkt_client *client,
                                    const struct mkt_client_options *options,
                                    const struct config *config, uint64_t deadline_ms,
                                    struct mkt_error *error)
{
    struct mkt_start start = {.directory = client->directory,
                              .daemon_path = options->daemon_path,
                              .config_path = config->absolute,
                              .on_demand = options->on_demand,
                              .deadline_ms = deadline_ms};
    enum mkt_status status = mkt_link_open(&client->link, client->directory, deadline_ms, error);
    if (status == MKT_NOT_FOUND && options->daemon_path != NULL)
        status = mkt_start_or_connect(&start, &client->link, error);
    return status;
}

/* A daemon that is just leaving may take a connection and drop it: look again. */
static enum mkt_status reach_and_greet(struct mkt_client *client,
                                       const struct mkt_client_options *options,
                                       const struct config *config, struct mkt_error *error)
{
    uint32_t timeout_ms =
        options->connect_timeout_ms > 0 ? options->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    uint64_t deadline_ms = mkt_now_ms() + timeout_ms;
    struct mkt_error before = {.status = MKT_OK};
    for (;;) {
        client->link.silence_ms = options->silence_ms > 0 ? options->silence_ms : SILENCE_MS;
        enum mkt_status status = reach_daemon(client, options, config, deadline_ms, error);
        if (status == MKT_OK)
            status = say_hello(client, config, deadline_ms, error);
        if (status == MKT_OK)
            return MKT_OK;
        mkt_link_close(&client->link);
        if (status == MKT_TIMED_OUT && before.status == MKT_PEER_DOWN)
            return mkt_error_set(error, MKT_PEER_DOWN, "%s", before.text);
        if (status != MKT_PEER_DOWN || mkt_now_ms() >= deadline_ms)
            return status;
        if (error != NULL)
            before = *error; /* why it turned us away: says more than that time is up */
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000}, NULL);
    }
}

enum mkt_status mkt_client_connect(const struct mkt_client_options *options,
                                   struct mkt_client **client_out, struct mkt_error *error)
{
    char directory[PATH_MAX];
    struct config config;
    enum mkt_status status = mkt_client_directory(options->directory, options->daemon_path != NULL,
                                                  directory, sizeof(directory), error);
    if (status == MKT_OK)
        status = config_init(&config, options->config_path, error);
    if (status != MKT_OK)
        return status;
    struct mkt_client *client = calloc(1, sizeof(*client));
    if (client != NULL)
        client->directory = strdup(directory);
    if (client == NULL || client->directory == NULL) {
        status = mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
        goto out;
    }
    client->process = mkt_process_number();
    client->started_ms = options->started_ms > 0 ? options->started_ms : mkt_now_ms();
    client->link = (struct mkt_link){.fd = -1, .lost = true};
    mkt_client_host(client->host, sizeof(client->host));
    status = reach_and_greet(client, options, &config, error);
    if (status == MKT_OK)
        status = mkt_directory_market_id(directory, client->market, error);
out:
    config_fini(&config);
    if (status != MKT_OK) {
        mkt_client_destroy(client);
        return status;
    }
    *client_out = client;
    return MKT_OK;
}

void mkt_client_destroy(struct mkt_client *client)
{
    if (client == NULL)
        return;
    struct mkt_error error;
    if (!mkt_client_is_inherited(client) && !mkt_client_is_down(client))
        (void)!mkt_link_flush(&client->link, &error);
    mkt_link_close(&client->link);
    mkt_mapped_arenas_fini(&client->arenas);
    mkt_pool_fini(&client->pool);
    free(client->files);
    free(client->rules);
    free(client->directory);
    free(client);
}

/* ---- what is asked of a handle ---- */

bool mkt_client_is_inherited(const struct mkt_client *client)
{
    return client->process != mkt_process_number();
}

enum mkt_status mkt_client_check(struct mkt_client *client, struct mkt_error *error)
{
    if (mkt_client_is_inherited(client))
        return mkt_error_set(error, MKT_INVALID,
                             "a forked child can't use its parent's connection to the market; "
                             "open the file in the child");
    if (client->link.lost)
        return mkt_error_set(error, MKT_PEER_DOWN,
                             "the connection to the market daemon was lost; its log is "
                             "%s/" MKT_LOG_NAME,
                             client->directory);
    return MKT_OK;
}

bool mkt_client_is_down(struct mkt_client *client)
{
    struct pollfd socket = {.fd = client->link.fd, .events = POLLRDHUP};
    if (mkt_link_check(&client->link, NULL) == MKT_OK && poll(&socket, 1, 0) == 1 &&
        (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)))
        (void)!mkt_link_resume(&client->link, NULL);
    return client->link.lost;
}

const uint8_t *mkt_client_daemon_id(const struct mkt_client *client)
{
    return client->daemon;
}

uint64_t mkt_client_started_ms(const struct mkt_client *client)
{
    return client->started_ms;
}

bool mkt_client_is_on_demand(const struct mkt_client *client)
{
    return client->on_demand;
}

uint64_t mkt_client_round_trips(const struct mkt_client *client)
{
    return client->link.round_trips;
}

void mkt_client_rule(const struct mkt_client *client, const char *path, struct mkt_rule *rule_out)
{
    struct mkt_rule rule = client->defaults;
    char *absolute = path[0] == '/' || client->rules_count == 0 ? NULL : mkt_path_absolute(path);
    const struct mkt_rule *found =
        mkt_rules_match(client->rules, client->rules_count, absolute != NULL ? absolute : path);
    free(absolute);
    mkt_rule_apply(&rule, found);
    *rule_out = rule;
}

/* ---- files ---- */

enum mkt_status mkt_client_file_enter(struct mkt_client *client, uint64_t file, bool writable,
                                      struct mkt_error *error)
{
    if (client->files_count == client->files_capacity) {
        uint32_t capacity = client->files_capacity > 0 ? 2 * client->files_capacity : 8;
        struct mkt_client_file *files = realloc(client->files, capacity * sizeof(*files));
        if (files == NULL)
            return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
        client->files = files;
        client->files_capacity = capacity;
    }
    client->files[client->files_count++] =
        (struct mkt_client_file){.file = file, .writable = writable};
    return MKT_OK;
}

void mkt_client_file_leave(struct mkt_client *client, uint64_t file)
{
    for (uint32_t i = 0; i < client->files_count; i++) {
        if (client->files[i].file == file) {
            client->files[i] = client->files[--client->files_count];
            return;
        }
    }
}

bool mkt_client_file_is_last_writer(const struct mkt_client *client, uint64_t file)
{
    bool is_writer = false;
    for (uint32_t i = 0; i < client->files_count; i++) {
        if (client->files[i].writable && client->files[i].file != file)
            return false;
        is_writer = is_writer || client->files[i].file == file;
    }
    return is_writer;
}

static void close_file(struct mkt_client *client, uint64_t file, bool unread)
{
    struct mkt_error error;
    struct mkt_msg msg = {.type = MKT_MSG_CLOSE, .file = {.file = file, .unread = unread}};
    if (file == 0 || mkt_client_check(client, &error) != MKT_OK)
        return;
    /* A failure marks the connection lost, and then the daemon closes the file by itself. */
    enum mkt_status status = mkt_link_queue(&client->link, &msg, &error);
    if (mkt_client_file_is_last_writer(client, file))
        mkt_pool_release(client);
    mkt_client_file_leave(client, file);
    mkt_fault_point("client.close-queued");
    if (status == MKT_OK)
        (void)!mkt_link_flush(&client->link, &error);
    mkt_fault_point("client.close-sent");
}

void mkt_client_close(struct mkt_client *client, uint64_t file)
{
    close_file(client, file, false);
}

void mkt_client_close_unread(struct mkt_client *client, uint64_t file)
{
    close_file(client, file, true);
}
