/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A real file into memory: its bytes become the image of a version that needs no saving. Read in
 * strips straight into the market's memory, under the lock that HDF5 would take, and only published
 * if the file is then still what it was before.
 */
#include "core/client/load.h"
#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/client/internal.h"
#include "core/client/superblock.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define STRIP_BYTES (8u << 20)
#define HEAD_BYTES  (64u << 10) /* a superblock behind a larger user block isn't looked for */
#define SETTLE_NS   20000000    /* two writes in one tick of the clock of files have one time */
#define MAX_TRIES   3

struct loading {
    struct mkt_client *client;
    const struct mkt_load *load;
    const struct mkt_place *place;
    int fd;
    struct mkt_extent extent; /* granted */
    uint64_t file;            /* the market's handle; 0: none */
};

/* ---- the file ---- */

static enum mkt_status failed(const struct loading *loading, const char *what,
                              struct mkt_error *error)
{
    int reason = errno;
    return mkt_error_set(error, mkt_status_from_errno(reason), "can't %s %.400s: %s", what,
                         loading->place->path, strerror(reason));
}

static bool is_as_before(const struct loading *loading)
{
    struct mkt_file_identity now;
    uint32_t mode;
    return mkt_file_look_fd(loading->fd, &now, &mode) == 0 &&
           mkt_file_unchanged(&now, &loading->place->file);
}

static enum mkt_status changed(const struct loading *loading, struct mkt_error *error)
{
    return mkt_error_set(error, MKT_STALE, "%.400s changes while it is read", loading->place->path);
}

static bool locks_are_wanted(void)
{
    const char *wanted = getenv("HDF5_USE_FILE_LOCKING");
    return wanted == NULL || (strcasecmp(wanted, "FALSE") != 0 && strcmp(wanted, "0") != 0);
}

/* A file system without locks is no hindrance. */
static enum mkt_status lock(const struct loading *loading, struct mkt_error *error)
{
    if (locks_are_wanted() && flock(loading->fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return mkt_error_set(error, MKT_BUSY, "%.400s is being written by another program",
                             loading->place->path);
    return MKT_OK;
}

/* A write that follows shows in the file's time. */
static void let_settle(const struct mkt_place *place)
{
    if (mkt_wall_ns() < place->file.mtime_ns + SETTLE_NS)
        nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL);
}

static enum mkt_status read_superblock(const struct loading *loading, struct mkt_error *error)
{
    struct mkt_superblock superblock;
    uint8_t *head = malloc(HEAD_BYTES);
    if (head == NULL)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    ssize_t bytes = pread(loading->fd, head, HEAD_BYTES, 0);
    bool is_hdf5 = bytes > 0 && mkt_superblock_read(head, (size_t)bytes, &superblock);
    free(head);
    if (bytes < 0)
        return failed(loading, "read", error);
    if (!is_hdf5)
        return mkt_error_set(error, MKT_UNSUPPORTED, "%.400s is no HDF5 file",
                             loading->place->path);
    if (superblock.open_for_writing)
        return mkt_error_set(error, MKT_BUSY,
                             "%.400s was not closed by its writer: it is being written, or its "
                             "writer died",
                             loading->place->path);
    if (superblock.end_of_file > loading->place->file.size)
        return mkt_error_set(error, MKT_CORRUPT, "%.400s is truncated", loading->place->path);
    return MKT_OK;
}

static enum mkt_status open_file(struct loading *loading, struct mkt_error *error)
{
    loading->fd = open(loading->place->real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (loading->fd < 0)
        return failed(loading, "open", error);
    enum mkt_status status = lock(loading, error);
    if (status != MKT_OK)
        return status;
    let_settle(loading->place);
    return is_as_before(loading) ? read_superblock(loading, error) : changed(loading, error);
}

int mkt_place_watch(const struct mkt_place *place)
{
    struct mkt_file_identity now;
    uint32_t mode;
    int fd = open(place->real, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && mkt_file_look_fd(fd, &now, &mode) == 0 && mkt_file_same(&now, &place->file))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- the market ---- */

static bool tick(void *context)
{
    const struct mkt_load *load = ((const struct loading *)context)->load;
    return load->interrupted != NULL && load->interrupted(load->context);
}

static enum mkt_status take_answer(struct loading *loading, const struct mkt_msg_opened *opened,
                                   struct mkt_error *error)
{
    const struct mkt_place *place = loading->place;
    if (opened->source == MKT_SOURCE_VERSION)
        return mkt_error_set(error, MKT_EXISTS, "%.400s is in memory already", place->path);
    loading->file = opened->file;
    loading->extent = opened->scratch;
    if (opened->source == MKT_SOURCE_EMPTY && opened->scratch.length >= place->file.size) {
        loading->extent.length = place->file.size;
        return mkt_client_file_enter(loading->client, opened->file, true, error);
    }
    return mkt_error_set(error, MKT_NO_SPACE,
                         "there is no room for the %.1f MiB of %.400s beside what is in memory; "
                         "raise `memory` in h5market.yaml",
                         (double)place->file.size / (1 << 20), place->path);
}

static enum mkt_status ask(struct loading *loading, struct mkt_error *error)
{
    struct mkt_link *link = &loading->client->link;
    struct mkt_rule rule;
    struct mkt_wait wait = {
        .deadline_ms = UINT64_MAX, .ping = true, .tick = tick, .context = loading};
    struct mkt_msg reply, request = {.type = MKT_MSG_OPEN, .open = {.size = 1}};
    mkt_client_rule(loading->client, loading->place->path, &rule);
    request.open.intent = MKT_INTENT_LOAD;
    request.open.mode = rule.mode;
    memcpy(request.open.token, loading->load->token, MKT_ID_BYTES);
    mkt_place_name(loading->place, &request.open.name);
    int watch = mkt_place_watch(loading->place);
    enum mkt_status status =
        mkt_link_request(link, &request, watch, MKT_MSG_OPENED, &wait, &reply, NULL, error);
    if (status == MKT_CANCELLED && !link->lost)
        status = mkt_link_cancel(link, request.request, MKT_MSG_OPENED, &reply, error);
    if (watch >= 0)
        close(watch);
    return status == MKT_OK ? take_answer(loading, &reply.opened, error) : status;
}

static enum mkt_status read_strip(const struct loading *loading, uint8_t *to, uint64_t from,
                                  size_t bytes, struct mkt_error *error)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(loading->fd, to + done, bytes - done, (off_t)(from + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return failed(loading, "read", error);
        if (got == 0)
            return changed(loading, error);
        done += (size_t)got;
    }
    return MKT_OK;
}

static enum mkt_status read_file(const struct loading *loading, struct mkt_error *error)
{
    const struct mkt_load *load = loading->load;
    uint64_t size = loading->place->file.size;
    void *address;
    enum mkt_status status =
        mkt_client_map(loading->client, &loading->extent, true, &address, error);
    for (uint64_t at = 0; status == MKT_OK && at < size;) {
        size_t strip = size - at < STRIP_BYTES ? (size_t)(size - at) : STRIP_BYTES;
        if (at > 0 && load->interrupted != NULL && load->interrupted(load->context))
            return mkt_error_set(error, MKT_CANCELLED, "interrupted; nothing was loaded");
        status = read_strip(loading, (uint8_t *)address + at, at, strip, error);
        at += strip;
        if (status == MKT_OK && load->yields)
            status = mkt_client_save_yield(loading->client, strip, error);
        if (status == MKT_OK && load->progress != NULL)
            load->progress(load->context, at, size);
    }
    mkt_fault_point("client.load-read");
    if (status == MKT_OK && !is_as_before(loading))
        status = changed(loading, error);
    return status;
}

static enum mkt_status publish(struct loading *loading, struct mkt_error *error)
{
    struct mkt_client *client = loading->client;
    struct mkt_wait wait = {.deadline_ms = UINT64_MAX, .ping = true};
    struct mkt_msg reply, request = {.type = MKT_MSG_COMMIT, .commit = {.file = loading->file}};
    request.commit.image = loading->extent;
    enum mkt_status status = mkt_link_request(&client->link, &request, -1, MKT_MSG_COMMITTED, &wait,
                                              &reply, NULL, error);
    mkt_client_file_leave(client, loading->file);
    return status;
}

static void give_up(const struct loading *loading)
{
    mkt_client_close(loading->client, loading->file);
    mkt_client_unreserve(loading->client, &loading->extent);
}

static enum mkt_status transfer(struct loading *loading, struct mkt_error *error)
{
    enum mkt_status status = open_file(loading, error);
    if (status == MKT_OK)
        status = ask(loading, error);
    mkt_fault_point("client.load-asked");
    if (status == MKT_OK)
        status = read_file(loading, error);
    if (status == MKT_OK)
        status = publish(loading, error); /* takes the bytes, also when it fails */
    else if (loading->file != 0)
        give_up(loading);
    mkt_fault_point("client.load-published");
    return status;
}

enum mkt_status mkt_load_place(struct mkt_client *client, const struct mkt_load *load,
                               const struct mkt_place *place, struct mkt_error *error)
{
    struct loading loading = {.client = client, .load = load, .place = place, .fd = -1};
    uint64_t ranks = load->to_write_by;
    enum mkt_status status = mkt_client_check(client, error);
    if (status != MKT_OK)
        return status;
    if (ranks > 0 && place->file.size > client->memory_bytes / MKT_LOAD_PART_TO_WRITE / ranks)
        return mkt_error_set(error, MKT_NO_SPACE,
                             "%.400s has %.1f MiB, and each process that writes it would need that "
                             "much; files up to a quarter of the market's memory are taken",
                             place->path, (double)place->file.size / (1 << 20));
    status = transfer(&loading, error);
    if (loading.fd >= 0)
        close(loading.fd);
    return status;
}

static enum mkt_status load_once(struct mkt_client *client, const struct mkt_load *load,
                                 uint64_t *bytes_out, struct mkt_error *error)
{
    struct mkt_place place;
    enum mkt_status status = mkt_place_init(&place, load->path, error);
    if (status != MKT_OK)
        return status;
    *bytes_out = place.file.size;
    if (place.kind == MKT_PLACE_FILE)
        status = mkt_load_place(client, load, &place, error);
    else if (place.kind == MKT_PLACE_STUB)
        status = mkt_error_set(error, MKT_EXISTS, "%.400s stands for a file in memory", place.path);
    else
        status = mkt_error_set(error, MKT_NOT_FOUND, "%.400s: no such file", place.path);
    mkt_place_fini(&place);
    return status;
}

enum mkt_status mkt_client_load(struct mkt_client *client, const struct mkt_load *load,
                                uint64_t *bytes_out, struct mkt_error *error)
{
    enum mkt_status status = MKT_STALE;
    for (int tries = 0; tries < MAX_TRIES && status == MKT_STALE; tries++)
        status = load_once(client, load, bytes_out, error);
    return status;
}

enum mkt_status mkt_client_is_complete(const char *path, struct mkt_error *error)
{
    struct mkt_place place;
    enum mkt_status status = mkt_place_init(&place, path, error);
    if (status != MKT_OK)
        return status;
    struct loading loading = {.place = &place, .fd = -1};
    if (place.kind == MKT_PLACE_FILE)
        status = open_file(&loading, error);
    else
        status = mkt_error_set(error, MKT_NOT_FOUND, "%.400s: no ordinary file", place.path);
    if (loading.fd >= 0)
        close(loading.fd);
    mkt_place_fini(&place);
    return status;
}
