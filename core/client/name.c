/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/client/name.h"
#include "core/base/clock.h"
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
#define CHANGE_TRIES   100

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
static int follow_links(struct mkt_place *place, uint32_t *mode_out)
{
    for (int links = 0; links < MAX_LINKS; links++) {
        int failed = mkt_file_look(place->real, &place->file, mode_out);
        if (failed || !S_ISLNK(*mode_out))
            return failed;
        failed = follow_link(&place->real);
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

enum glance {
    GLANCE_STUB,
    GLANCE_FILE,
    GLANCE_GONE /* what was looked at isn't there any more */
};

/* Stub or not, by its bytes. What was opened must be what was looked at: a file of its own may take
 * a stub's place at any time. A stub that isn't a copy tells its own inode, which saves a look. */
static enum glance look_into(struct mkt_place *place)
{
    struct mkt_file_identity opened;
    uint32_t mode;
    if (place->file.size != MKT_STUB_BYTES)
        return GLANCE_FILE;
    int fd = open(place->real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT || errno == ELOOP ? GLANCE_GONE : GLANCE_FILE;
    bool is_stub = read_stub(fd, &place->stub);
    enum glance glance = is_stub ? GLANCE_STUB : GLANCE_FILE;
    if (!(is_stub && place->stub.inode == place->file.ino) &&
        (mkt_file_look_fd(fd, &opened, &mode) != 0 || !mkt_file_same(&opened, &place->file)))
        glance = GLANCE_GONE;
    close(fd);
    return glance;
}

/* True if the file is empty and so new that it may become a stub at once. */
static bool is_just_made(const struct mkt_file_identity *file, uint32_t mode)
{
    return S_ISREG(mode) && file->size == 0 &&
           file->mtime_ns / 1000000000u + 1 >= mkt_wall_ns() / 1000000000u;
}

/* One look; false: what is there changed meanwhile. */
static bool look_once(struct mkt_place *place)
{
    uint32_t mode;
    place->kind = MKT_PLACE_FOREIGN;
    int failed = follow_links(place, &mode);
    if ((failed && failed != ENOENT) || !stat_folder(place))
        return true;
    for (int tries = 0; !failed && tries < NEW_FILE_TRIES && is_just_made(&place->file, mode);
         tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        failed = mkt_file_look(place->real, &place->file, &mode);
    }
    if (failed)
        place->kind = MKT_PLACE_NONE;
    if (failed || !S_ISREG(mode))
        return true;
    enum glance glance = look_into(place);
    place->kind = glance == GLANCE_STUB ? MKT_PLACE_STUB : MKT_PLACE_FILE;
    return glance != GLANCE_GONE;
}

/* A place that goes on changing is native's to open, or to refuse. */
static void look(struct mkt_place *place)
{
    for (int tries = 0; tries < CHANGE_TRIES; tries++) {
        if (look_once(place))
            return;
    }
    place->kind = MKT_PLACE_FOREIGN;
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
        return memcmp(a->stub.object, b->stub.object, MKT_ID_BYTES) == 0 &&
               a->file.ino == b->file.ino;
    case MKT_PLACE_FILE:
        return mkt_file_same(&a->file, &b->file);
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
    if (place->kind == MKT_PLACE_FILE)
        name.file = place->file;
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
