/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/libraries.h"

#include "core/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LIBRARIES 1024

/* ---- the linker's cache: the layout of glibc's "new" format ---- */

#define CACHE_PATH  "/etc/ld.so.cache"
#define CACHE_MAGIC "glibc-ld.so.cache1.1"

struct cache_head_disk {
    char magic[20];
    uint32_t entries, strings_bytes;
    uint8_t flags, padding[3];
    uint32_t extension_offset;
    uint32_t unused[3];
};
_Static_assert(sizeof(struct cache_head_disk) == 48, "head of ld.so.cache");
struct cache_entry_disk {
    int32_t flags;
    uint32_t key, value; /* offsets of strings from the file's start */
    uint32_t os_version;
    uint64_t hwcap;
};
_Static_assert(sizeof(struct cache_entry_disk) == 24, "entry of ld.so.cache");

struct cache {
    const char *bytes;
    size_t length;
};

static struct cache open_cache(void)
{
    static struct cache cache;
    struct stat file;
    int fd = cache.bytes ? -1 : open(CACHE_PATH, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cache;
    if (fstat(fd, &file) == 0 && file.st_size > (off_t)sizeof(struct cache_head_disk)) {
        void *bytes = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED)
            cache = (struct cache){bytes, (size_t)file.st_size};
    }
    close(fd);
    return cache;
}

static const char *cache_string(const struct cache *cache, uint32_t offset)
{
    if (offset >= cache->length || !memchr(cache->bytes + offset, 0, cache->length - offset))
        return NULL;
    return cache->bytes + offset;
}

/* A file that can be loaded into a program of this machine. */
static bool is_loadable(const char *path)
{
    struct mkt_elf elf;
    if (access(path, R_OK) != 0)
        return false;
    bool loadable = mkt_elf_read(path, &elf) == MKT_OK && elf.is_elf;
    mkt_elf_fini(&elf);
    return loadable;
}

static bool find_in_cache(const char *name, char path_out[PATH_MAX])
{
    struct cache cache = open_cache();
    if (cache.length < sizeof(struct cache_head_disk))
        return false;
    const struct cache_head_disk *head = (const void *)cache.bytes;
    const struct cache_entry_disk *entries = (const void *)(head + 1);
    if (memcmp(head->magic, CACHE_MAGIC, sizeof(head->magic)) != 0 ||
        head->entries > (cache.length - sizeof(*head)) / sizeof(*entries))
        return false;
    for (uint32_t i = 0; i < head->entries; i++) {
        const char *key = cache_string(&cache, entries[i].key);
        const char *value = cache_string(&cache, entries[i].value);
        if (!key || !value || strcmp(key, name) != 0 || strlen(value) >= PATH_MAX)
            continue;
        strcpy(path_out, value);
        if (is_loadable(path_out))
            return true;
    }
    return false;
}

/* ---- folders ---- */

/* One folder of a list, with $ORIGIN (the folder of `owner`) filled in. False: it doesn't fit. */
static bool expand(const char *folder, size_t length, const char *owner, char out[PATH_MAX])
{
    static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};
    const char *slash = strrchr(owner, '/');
    for (int i = 0; i < 2; i++) {
        size_t mark = strlen(origins[i]);
        if (length >= mark && strncmp(folder, origins[i], mark) == 0) {
            int origin = slash ? (int)(slash - owner) : 1;
            int used = snprintf(out, PATH_MAX, "%.*s%.*s", origin, slash ? owner : ".",
                                (int)(length - mark), folder + mark);
            return used > 0 && used < PATH_MAX;
        }
    }
    int used = snprintf(out, PATH_MAX, "%.*s", (int)length, length ? folder : ".");
    return used > 0 && used < PATH_MAX;
}

/* Looks in a list of folders that colons separate. */
static bool find_in_list(const char *list, const char *owner, const char *name,
                         char path_out[PATH_MAX])
{
    char folder[PATH_MAX];
    while (list && *list) {
        size_t length = strcspn(list, ":;");
        if (expand(list, length, owner, folder) &&
            snprintf(path_out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && is_loadable(path_out))
            return true;
        list += length;
        list += *list != '\0';
    }
    return false;
}

/* DT_RPATH of the one that needs it and of all above, unless it has a DT_RUNPATH. */
static bool find_in_rpaths(const struct mkt_libraries *libraries, unsigned needs, const char *name,
                           char path_out[PATH_MAX])
{
    if (libraries->item[needs].elf.runpath)
        return false;
    for (unsigned i = needs;; i = libraries->item[i].parent) {
        const struct mkt_library *above = &libraries->item[i];
        if (!above->elf.runpath && find_in_list(above->elf.rpath, above->path, name, path_out))
            return true;
        if (i == 0)
            return false;
    }
}

static bool find_library(const struct mkt_libraries *libraries, unsigned needs, const char *name,
                         char path_out[PATH_MAX])
{
    static const char system_folders[] = "/lib64:/usr/lib64:/lib:/usr/lib";
    const struct mkt_library *item = &libraries->item[needs];
    if (strchr(name, '/')) {
        snprintf(path_out, PATH_MAX, "%s", name);
        return is_loadable(path_out);
    }
    return find_in_rpaths(libraries, needs, name, path_out) ||
           find_in_list(getenv("LD_LIBRARY_PATH"), item->path, name, path_out) ||
           find_in_list(item->elf.runpath, item->path, name, path_out) ||
           find_in_cache(name, path_out) ||
           find_in_list(system_folders, item->path, name, path_out);
}

/* ---- the walk ---- */

static struct mkt_library *append(struct mkt_libraries *libraries, const char *name,
                                  const char *path, unsigned parent)
{
    if (libraries->count == libraries->capacity) {
        unsigned capacity = libraries->capacity ? 2 * libraries->capacity : 16;
        struct mkt_library *grown = mkt_cli_alloc(capacity * sizeof(*grown));
        if (libraries->count)
            memcpy(grown, libraries->item, libraries->count * sizeof(*grown));
        free(libraries->item);
        libraries->item = grown;
        libraries->capacity = capacity;
    }
    struct mkt_library *item = &libraries->item[libraries->count++];
    item->name = mkt_cli_copy(name);
    item->path = path ? mkt_cli_copy(path) : NULL;
    item->parent = parent;
    return item;
}

static bool is_known(const struct mkt_libraries *libraries, const char *name)
{
    for (unsigned i = 1; i < libraries->count; i++)
        if (strcmp(libraries->item[i].name, name) == 0)
            return true;
    return false;
}

/* The same file under another name. */
static bool is_same_file(const struct mkt_libraries *libraries, const char *path)
{
    struct stat new_file, known;
    if (stat(path, &new_file) != 0)
        return false;
    for (unsigned i = 1; i < libraries->count; i++)
        if (libraries->item[i].path && stat(libraries->item[i].path, &known) == 0 &&
            known.st_ino == new_file.st_ino && known.st_dev == new_file.st_dev)
            return true;
    return false;
}

static void add_needed(struct mkt_libraries *libraries, unsigned needs)
{
    char path[PATH_MAX];
    for (unsigned i = 0; i < libraries->item[needs].elf.needed_count; i++) {
        const char *name = libraries->item[needs].elf.needed[i];
        if (!name || libraries->count == MAX_LIBRARIES || is_known(libraries, name))
            continue;
        bool found = find_library(libraries, needs, name, path);
        if (found && is_same_file(libraries, path))
            continue;
        struct mkt_library *item = append(libraries, name, found ? path : NULL, needs);
        if (found)
            mkt_elf_read(path, &item->elf);
    }
}

enum mkt_status mkt_libraries_collect(const char *program, struct mkt_libraries *libraries_out)
{
    memset(libraries_out, 0, sizeof(*libraries_out));
    struct mkt_library *item = append(libraries_out, program, program, 0);
    enum mkt_status status = mkt_elf_read(program, &item->elf);
    for (unsigned i = 0; status == MKT_OK && i < libraries_out->count; i++)
        add_needed(libraries_out, i);
    return status;
}

void mkt_libraries_fini(struct mkt_libraries *libraries)
{
    for (unsigned i = 0; i < libraries->count; i++) {
        free(libraries->item[i].name);
        free(libraries->item[i].path);
        mkt_elf_fini(&libraries->item[i].elf);
    }
    free(libraries->item);
    memset(libraries, 0, sizeof(*libraries));
}

bool mkt_libraries_have(const struct mkt_libraries *libraries, const char *name_start)
{
    for (unsigned i = 1; i < libraries->count; i++)
        if (strncmp(libraries->item[i].name, name_start, strlen(name_start)) == 0)
            return true;
    return false;
}
