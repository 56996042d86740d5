/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/stubs.h"
#include "core/base/clock.h"

#include "core/client/stub_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

/* A stub whose object isn't there after this time never had one: its open was refused. */
#define ORPHAN_MS 300000u
/* Stubs that were removed are remembered by the first byte of their object, a random number: in
 * each set the last ones, of all some thousand. Each open asks. */
#define DROPPED_SETS   256u
#define DROPPED_IN_SET 16u

/* A descriptor, shared by the table and a scan. */
struct held_file {
    int fd;
    unsigned references;
    struct timespec mtime; /* when it was last seen to be its object's; a scan's */
    /* What stood in its place and was no file of this market; a scan's. */
    struct mkt_file_identity foreign;
    uint8_t object[MKT_ID_BYTES];
};

struct stub {
    UT_hash_handle hh;
    uint8_t object[MKT_ID_BYTES];
    struct held_file *file;
    uint64_t since_ms;
    char *ordered; /* where a file is being saved in its place; NULL: nowhere */
};

struct dropped {
    uint8_t objects[DROPPED_IN_SET][MKT_ID_BYTES];
    unsigned next;
};

struct mkt_stubs {
    struct mkt_daemon *daemon;
    struct stub *table;
    bool scanning;
    struct removal *removals; /* under way */
    struct dropped dropped[DROPPED_SETS];
};

/* A look at all stubs, in a worker. The table may change meanwhile. */
struct scan {
    uv_work_t work;
    struct mkt_stubs *stubs;
    size_t count;
    struct look {
        uint8_t object[MKT_ID_BYTES];
        struct held_file *file;
        bool removed, replaced; /* replaced: something of somebody else is there */
    } looks[];
};

/* The removal of one file, in a worker. */
struct removal {
    uv_work_t work;
    struct mkt_stubs *stubs;
    struct held_file *file;
    bool removed;
    struct removal *prev, *next;
};

struct mkt_stubs *mkt_stubs_create(struct mkt_daemon *daemon)
{
    struct mkt_stubs *stubs = calloc(1, sizeof(*stubs));

    if (stubs)
        stubs->daemon = daemon;
    return stubs;
}

static struct stub *find(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES])
{
    struct stub *stub;

    HASH_FIND(hh, stubs->table, object, MKT_ID_BYTES, stub);
    return stub;
}

static void put_file(struct held_file *file)
{
    if (--file->references > 0)
        return;
    close(file->fd);
    free(file);
}

static void take_out(struct mkt_stubs *stubs, struct stub *stub)
{
    HASH_DEL(stubs->table, stub);
    put_file(stub->file);
    free(stub->ordered);
    free(stub);
}

static void forget(struct mkt_stubs *stubs, struct stub *stub)
{
    mkt_keeper_forget(stubs->daemon->keeper, mkt_kept_key_of_object(stub->object));
    take_out(stubs, stub);
}

void mkt_stubs_destroy(struct mkt_stubs *stubs)
{
    struct stub *stub, *next;

    if (!stubs)
        return;
    HASH_ITER (hh, stubs->table, stub, next)
        take_out(stubs, stub);
    free(stubs);
}

uint32_t mkt_stubs_count(const struct mkt_stubs *stubs)
{
    return HASH_COUNT(stubs->table);
}

static bool add(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES], struct held_file *file)
{
    struct stub *stub = malloc(sizeof(*stub));
    unsigned before = HASH_COUNT(stubs->table);

    if (!stub)
        return false;
    *stub = (struct stub){.file = file, .since_ms = mkt_now_ms()};
    memcpy(stub->object, object, MKT_ID_BYTES);
    HASH_ADD(hh, stubs->table, object, MKT_ID_BYTES, stub);
    if (HASH_COUNT(stubs->table) > before)
        return true;
    free(stub->ordered);
    free(stub);
    return false;
}

/* False: out of memory, and the descriptor is closed. */
static bool enter(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES], int fd)
{
    struct stub *stub = find(stubs, object);
    struct held_file *file = malloc(sizeof(*file));

    if (file) {
        *file = (struct held_file){.fd = fd, .references = 1};
        memcpy(file->object, object, MKT_ID_BYTES);
    }
    if (stub)
        take_out(stubs, stub);
    if (file && add(stubs, object, file))
        return true;
    mkt_log_warning("stubs", "out of memory: one stub isn't watched");
    free(file);
    close(fd);
    return false;
}

void mkt_stubs_keep(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES], int fd)
{
    if (enter(stubs, object, fd))
        mkt_keeper_keep(stubs->daemon->keeper, mkt_kept_key_of_object(object), fd);
}

void mkt_stubs_revive(struct mkt_stubs *stubs)
{
    struct mkt_kept_key key;
    int fd;

    while ((fd = mkt_keeper_take_any(stubs->daemon->keeper, MKT_KEPT_STUB, &key)) >= 0)
        (void)!enter(stubs, key.id, fd);
}

/* False once another market has taken the stub over for an object of its own. */
static bool is_still_ours(const struct held_file *file)
{
    struct mkt_stub_disk stub;

    return pread(file->fd, &stub, sizeof(stub), 0) != (ssize_t)sizeof(stub) ||
           !mkt_stub_is_valid(&stub) || memcmp(stub.object, file->object, MKT_ID_BYTES) == 0;
}

/* Certainly: also files that replaced their stubs are watched, and those must never be removed. */
static bool is_our_stub(const struct held_file *file)
{
    struct mkt_stub_disk stub;

    return pread(file->fd, &stub, sizeof(stub), 0) == (ssize_t)sizeof(stub) &&
           mkt_stub_is_valid(&stub) && memcmp(stub.object, file->object, MKT_ID_BYTES) == 0;
}

/* The kernel says of a removed file where it was, and that it is deleted. */
static void cut_deleted(int fd, char *path, size_t length)
{
    static const char mark[] = " (deleted)";
    const size_t bytes = sizeof(mark) - 1;
    struct stat info;

    if (length > bytes && strcmp(path + length - bytes, mark) == 0 && fstat(fd, &info) == 0 &&
        info.st_nlink == 0)
        path[length - bytes] = '\0';
}

/* Where the file of a descriptor is now, as far as the kernel tells. */
static bool path_of(int fd, char *path_out, size_t capacity)
{
    char link[64];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path_out, capacity - 1);
    if (length <= 0 || path_out[0] != '/')
        return false;
    path_out[length] = '\0';
    cut_deleted(fd, path_out, (size_t)length);
    return true;
}

/* Removes the stub behind a descriptor where its name still leads to it. True if it did. */
static bool remove_file(const struct held_file *file)
{
    char path[PATH_MAX];

    return is_our_stub(file) && path_of(file->fd, path, sizeof(path)) &&
           mkt_file_remove(file->fd, path);
}

static void note_dropped(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES])
{
    struct dropped *set = &stubs->dropped[object[0]];

    memcpy(set->objects[set->next++ % DROPPED_IN_SET], object, MKT_ID_BYTES);
}

static void removal_work(uv_work_t *work)
{
    struct removal *removal = work->data;

    removal->removed = remove_file(removal->file);
}

static void removal_done(uv_work_t *work, int status)
{
    struct removal *removal = work->data;
    struct mkt_stubs *stubs = removal->stubs;

    (void)status;
    DL_DELETE(stubs->removals, removal);
    if (removal->removed)
        note_dropped(stubs, removal->file->object);
    put_file(removal->file);
    free(removal);
}

bool mkt_stubs_was_dropped(const struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES])
{
    const struct removal *removal;

    DL_FOREACH (stubs->removals, removal) {
        if (memcmp(removal->file->object, object, MKT_ID_BYTES) == 0)
            return true;
    }
    for (unsigned i = 0; i < DROPPED_IN_SET; i++) {
        if (memcmp(stubs->dropped[object[0]].objects[i], object, MKT_ID_BYTES) == 0)
            return true;
    }
    return false;
}

bool mkt_stubs_order(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES], char *path_out,
                     size_t capacity, const char **former_out)
{
    struct stub *stub = find(stubs, object);

    if (!stub || !path_of(stub->file->fd, path_out, capacity))
        return false;
    *former_out = stub->ordered && strcmp(stub->ordered, path_out) != 0 ? stub->ordered : NULL;
    if (!stub->ordered)
        stub->ordered = strdup(path_out);
    return true;
}

void mkt_stubs_order_ended(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES])
{
    struct stub *stub = find(stubs, object);

    if (!stub)
        return;
    free(stub->ordered);
    stub->ordered = NULL;
}

void mkt_stubs_drop(struct mkt_stubs *stubs, const uint8_t object[MKT_ID_BYTES], bool unlink)
{
    struct stub *stub = find(stubs, object);
    struct removal *removal;

    if (!stub)
        return;
    removal = unlink ? calloc(1, sizeof(*removal)) : NULL;
    if (removal) {
        removal->work.data = removal;
        removal->stubs = stubs;
        removal->file = stub->file;
        if (uv_queue_work(&stubs->daemon->loop, &removal->work, removal_work, removal_done) == 0) {
            DL_APPEND(stubs->removals, removal);
            mkt_keeper_forget(stubs->daemon->keeper, mkt_kept_key_of_object(object));
            HASH_DEL(stubs->table, stub);
            free(stub->ordered);
            free(stub);
            return;
        }
        free(removal);
    }
    forget(stubs, stub);
}

void mkt_stubs_drop_all(struct mkt_stubs *stubs)
{
    struct stub *stub, *next;

    HASH_ITER (hh, stubs->table, stub, next) {
        remove_file(stub->file);
        forget(stubs, stub);
    }
}

static bool is_removed(struct held_file *file)
{
    struct stat facts;

    if (fstat(file->fd, &facts) != 0)
        return errno == ESTALE || errno == ENOENT;
    if (facts.st_nlink == 0)
        return true;
    if (facts.st_mtim.tv_sec == file->mtime.tv_sec && facts.st_mtim.tv_nsec == file->mtime.tv_nsec)
        return false;
    file->mtime = facts.st_mtim;
    return !is_still_ours(file);
}

static bool is_stub(const char *path)
{
    struct mkt_stub_disk stub;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return false;
    bool is =
        pread(fd, &stub, sizeof(stub), 0) == (ssize_t)sizeof(stub) && mkt_stub_is_valid(&stub);
    close(fd);
    return is;
}

/* True if what stands at `path` came through the market: an entry, or a file that took its place.
 */
static bool is_market_file(const struct scan *scan, const char *path,
                           const struct mkt_file_identity *there, uint32_t mode)
{
    struct stat held;

    for (size_t i = 0; i < scan->count; i++)
        if (fstat(scan->looks[i].file->fd, &held) == 0 && held.st_dev == there->dev &&
            held.st_ino == there->ino)
            return true;
    return S_ISREG(mode) && is_stub(path);
}

/*
 * A program that removes a file and writes it anew means the former to go, one that renames another
 * over it, too. A file that is just taking its entry's place isn't known yet: what is somebody
 * else's is there at the next look, too.
 */
static void look_at_place(const struct scan *scan, struct look *look)
{
    struct held_file *file = look->file;
    char path[PATH_MAX];
    struct mkt_file_identity there;
    struct stat held;
    uint32_t mode;

    if (!path_of(file->fd, path, sizeof(path)) || mkt_file_look(path, &there, &mode) != 0)
        return;
    look->replaced = true;
    if (fstat(file->fd, &held) != 0 || held.st_nlink > 0)
        return;
    if (is_market_file(scan, path, &there, mode))
        look->replaced = false;
    else if (!mkt_file_same(&there, &file->foreign)) {
        file->foreign = there;
        look->removed = false;
    }
}

static void scan_work(uv_work_t *work)
{
    struct scan *scan = work->data;

    for (size_t i = 0; i < scan->count; i++) {
        struct look *look = &scan->looks[i];

        look->replaced = false;
        look->removed = is_removed(look->file);
        if (look->removed)
            look_at_place(scan, look);
    }
}

static void scan_done(uv_work_t *work, int status)
{
    struct scan *scan = work->data;
    struct mkt_stubs *stubs = scan->stubs;
    uint64_t now_ms = mkt_now_ms();

    stubs->scanning = false;
    for (size_t i = 0; i < scan->count; i++) {
        struct look *look = &scan->looks[i];
        struct stub *stub = find(stubs, look->object);
        if (status == 0 && look->removed && stub && stub->file == look->file &&
            mkt_market_stub_removed(stubs->daemon->market, look->object, look->replaced, now_ms) &&
            find(stubs, look->object) == stub)
            forget(stubs, stub);
        put_file(look->file);
    }
    free(scan);
    mkt_shell_settle(stubs->daemon);
}

/* True if the object that the stub stands for is in the market. */
static bool has_object(struct mkt_stubs *stubs, const struct stub *stub)
{
    struct mkt_name name = {.parent_dev = 0};
    uint8_t object[MKT_ID_BYTES];

    memcpy(name.object, stub->object, MKT_ID_BYTES);
    name.leaf = name.path = (struct mkt_bytes){.data = "", .length = 0};
    return mkt_market_resolve(stubs->daemon->market, &name, object);
}

static void forget_orphans(struct mkt_stubs *stubs)
{
    struct stub *stub, *next;
    uint64_t now_ms = mkt_now_ms();

    HASH_ITER (hh, stubs->table, stub, next)
        if (now_ms - stub->since_ms > ORPHAN_MS && !has_object(stubs, stub))
            forget(stubs, stub);
}

void mkt_stubs_drop_withdrawn(struct mkt_stubs *stubs)
{
    struct stub *stub, *next;

    HASH_ITER (hh, stubs->table, stub, next)
        if (!has_object(stubs, stub) &&
            mkt_market_was_withdrawn(stubs->daemon->market, stub->object))
            mkt_stubs_drop(stubs, stub->object, true);
}

void mkt_stubs_scan(struct mkt_stubs *stubs)
{
    struct stub *stub, *next;
    struct scan *scan;

    if (stubs->scanning)
        return; /* a file system that hangs */
    forget_orphans(stubs);
    size_t count = HASH_COUNT(stubs->table);
    scan = count > 0 ? malloc(sizeof(*scan) + count * sizeof(scan->looks[0])) : NULL;
    if (!scan)
        return;
    scan->work.data = scan;
    scan->stubs = stubs;
    scan->count = 0;
    HASH_ITER (hh, stubs->table, stub, next) {
        struct look *look = &scan->looks[scan->count++];
        memcpy(look->object, stub->object, MKT_ID_BYTES);
        look->removed = false;
        look->file = stub->file;
        look->file->references++;
    }
    stubs->scanning = uv_queue_work(&stubs->daemon->loop, &scan->work, scan_work, scan_done) == 0;
    if (!stubs->scanning) {
        while (scan->count > 0)
            put_file(scan->looks[--scan->count].file);
        free(scan);
    }
}
