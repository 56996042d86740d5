/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/client/name.h"
#include "core/client/client.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINKS      40 /* as the kernel */
#define NEW_FILE_TRIES 10 /* of a millisecond */

/* ---- texts ---- */

/* Takes out "//" and "/./"; ".." stays, since links may be about. */
static void tidy_path(char *path)
{
    char *to = path;
    for (const char *from = path; *from != '\0';) {
        if (from[0] == '/' && from[1] == '/')
            from++;
        else if (from[0] == '/' && from[1] == '.' && from[2] == '/')
            from += 2;
        else
            *to++ = *from++;
    }
    *to = '\0';
}

/* The first bytes of one text before another. */
static char *prefix(const char *folder, size_t folder_length, const char *name)
{
    size_t length = strlen(name);
    char *path = malloc(folder_length + length + 1);
    if (path == NULL)
        return NULL;
    memcpy(path, folder, folder_length);
    memcpy(path + folder_length, name, length + 1);
    return path;
}

static char *join(const char *folder, const char *name)
{
    size_t length = strlen(folder);
    char *path = prefix(folder, length + (length > 0), name);
    if (path != NULL && length > 0)
        path[length] = '/'; /* where the end of `folder` was */
    return path;
}

char *mkt_path_absolute(const char *path)
{
    char short_folder[PATH_MAX], *long_folder = NULL;
    const char *folder = "";
    if (path[0] != '/') {
        folder = getcwd(short_folder, sizeof(short_folder));
        if (folder == NULL)
            folder = long_folder = getcwd(NULL, 0);
    }
    char *whole = join(folder != NULL ? folder : "", path);
    free(long_folder);
    if (whole != NULL)
        tidy_path(whole);
    return whole;
}

/* The part up to and with the last slash; 0: none. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

/* ---- resolving ---- */

/* Replaces *path by what the link there points to. Returns 0, or an errno value. */
static int follow_link(char **path)
{
    char target[PATH_MAX];
    ssize_t length = readlink(*path, target, sizeof(target));
    if (length < 0)
        return errno;
    if ((size_t)length >= sizeof(target))
        return ENAMETOOLONG;
    target[length] = '\0';
    char *next = prefix(*path, target[0] == '/' ? 0 : folder_length(*path), target);
    if (next == NULL)
        return ENOMEM;
    free(*path);
    *path = next;
    return 0;
}

/* Follows links at the last component; the rest is the kernel's. Returns 0 or an errno value;
 * ENOENT: nothing has this name. */
static int follow_links(char **path, struct stat *info_out)
{
    for (int links = 0; links < MAX_LINKS; links++) {
        if (lstat(*path, info_out) != 0)
            return errno;
        if (!S_ISLNK(info_out->st_mode))
            return 0;
        int failed = follow_link(path);
        if (failed)
            return failed;
    }
    return ELOOP;
}

static bool stat_folder(struct mkt_place *place)
{
    struct stat info;
    size_t length = folder_length(place->real);
    char *folder = length > 0 ? strndup(place->real, length) : strdup(".");
    bool found = folder != NULL && stat(folder, &info) == 0 && S_ISDIR(info.st_mode);
    free(folder);
    if (!found)
        return false;
    place->leaf = place->real + length;
    place->parent_dev = info.st_dev;
    place->parent_ino = info.st_ino;
    return place->leaf[0] != '\0' && strcmp(place->leaf, ".") != 0 &&
           strcmp(place->leaf, "..") != 0;
}

/* Reads a stub's bytes through a descriptor; false: it isn't one. */
static bool read_stub(int fd, struct mkt_stub_disk *stub_out)
{
    struct mkt_stub_disk stub;
    if (pread(fd, &stub, sizeof(stub), 0) != (ssize_t)sizeof(stub) || !mkt_stub_is_valid(&stub))
        return false;
    *stub_out = stub;
    return true;
}

static bool look_for_stub(struct mkt_place *place)
{
    struct stat info;
    if (place->size != MKT_STUB_BYTES)
        return false;
    int fd = open(place->real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return false;
    /* What was opened must be what was looked at; a stub that isn't a copy tells its own inode. */
    bool is_stub = read_stub(fd, &place->stub) &&
                   (place->stub.inode == place->ino ||
                    (fstat(fd, &info) == 0 && info.st_dev == place->dev &&
                     info.st_ino == place->ino && info.st_size == MKT_STUB_BYTES));
    close(fd);
    return is_stub;
}

/* True if the file is empty and so new that it may become a stub at once. */
static bool is_just_made(const struct stat *info)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return S_ISREG(info->st_mode) && info->st_size == 0 && info->st_mtim.tv_sec + 1 >= now.tv_sec;
}

uint64_t mkt_mtime_ns(const struct stat *info)
{
    return (uint64_t)info->st_mtim.tv_sec * 1000000000u + (uint64_t)info->st_mtim.tv_nsec;
}

static uint64_t birth_ns(const char *path)
{
    struct statx info;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &info) != 0 ||
        !(info.stx_mask & STATX_BTIME))
        return 0;
    return (uint64_t)info.stx_btime.tv_sec * 1000000000u + info.stx_btime.tv_nsec;
}

static void look(struct mkt_place *place)
{
    struct stat info;
    place->kind = MKT_PLACE_FOREIGN;
    int failed = follow_links(&place->real, &info);
    if ((failed && failed != ENOENT) || !stat_folder(place))
        return;
    if (failed) {
        place->kind = MKT_PLACE_NONE;
        return;
    }
    for (int tries = 0; tries < NEW_FILE_TRIES && is_just_made(&info); tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (lstat(place->real, &info) != 0) {
            place->kind = MKT_PLACE_NONE;
            return;
        }
    }
    if (!S_ISREG(info.st_mode))
        return;
    place->dev = info.st_dev;
    place->ino = info.st_ino;
    place->size = (uint64_t)info.st_size;
    place->mtime_ns = mkt_mtime_ns(&info);
    place->kind = look_for_stub(place) ? MKT_PLACE_STUB : MKT_PLACE_FILE;
    if (place->kind == MKT_PLACE_FILE)
        place->birth_ns = birth_ns(place->real);
}

enum mkt_status mkt_place_init(struct mkt_place *place_out, const char *path,
                               struct mkt_error *error)
{
    struct mkt_place place = {.kind = MKT_PLACE_FOREIGN};
    place.real = strdup(path);
    place.path = mkt_path_absolute(path);
    if (place.real == NULL || place.path == NULL) {
        mkt_place_fini(&place);
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory for the path %.200s", path);
    }
    look(&place);
    *place_out = place;
    return MKT_OK;
}

void mkt_place_fini(struct mkt_place *place)
{
    free(place->path);
    free(place->real);
    *place = (struct mkt_place){0};
}

bool mkt_place_equal(const struct mkt_place *a, const struct mkt_place *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case MKT_PLACE_STUB:
        return memcmp(a->stub.object, b->stub.object, MKT_ID_BYTES) == 0 && a->ino == b->ino;
    case MKT_PLACE_FILE:
        return a->dev == b->dev && a->ino == b->ino;
    case MKT_PLACE_NONE:
        return a->parent_dev == b->parent_dev && a->parent_ino == b->parent_ino &&
               strcmp(a->leaf, b->leaf) == 0;
    default:
        return true;
    }
}

static struct mkt_bytes text_bytes(const char *text)
{
    return (struct mkt_bytes){text, text != NULL ? (uint32_t)strlen(text) : 0};
}

void mkt_place_name(const struct mkt_place *place, struct mkt_name *name_out)
{
    struct mkt_name name = {.path = text_bytes(place->path)};
    if (place->kind != MKT_PLACE_FOREIGN) {
        name.parent_dev = place->parent_dev;
        name.parent_ino = place->parent_ino;
        name.leaf = text_bytes(place->leaf);
    }
    if (place->kind == MKT_PLACE_STUB)
        memcpy(name.object, place->stub.object, MKT_ID_BYTES);
    if (place->kind == MKT_PLACE_FILE) {
        name.file_dev = place->dev;
        name.file_ino = place->ino;
        name.file_size = place->size;
        name.file_mtime_ns = place->mtime_ns;
        name.file_birth_ns = place->birth_ns;
    }
    *name_out = name;
}

enum mkt_path_kind mkt_path_kind(const char *path)
{
    struct mkt_place place;
    struct mkt_error error;
    struct stat info;
    if (mkt_place_init(&place, path, &error) != MKT_OK)
        return MKT_PATH_NONE;
    enum mkt_path_kind kind = MKT_PATH_NONE;
    if (place.kind == MKT_PLACE_STUB)
        kind = MKT_PATH_STUB;
    else if (place.kind == MKT_PLACE_FILE ||
             (place.kind == MKT_PLACE_FOREIGN && stat(path, &info) == 0))
        kind = MKT_PATH_FILE;
    mkt_place_fini(&place);
    return kind;
}

bool mkt_path_object(const char *path, uint8_t object_out[MKT_ID_BYTES])
{
    struct mkt_place place;
    struct mkt_error error;
    if (mkt_place_init(&place, path, &error) != MKT_OK)
        return false;
    bool is_stub = place.kind == MKT_PLACE_STUB;
    if (is_stub)
        memcpy(object_out, place.stub.object, MKT_ID_BYTES);
    mkt_place_fini(&place);
    return is_stub;
}
