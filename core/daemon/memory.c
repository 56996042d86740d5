/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opens <root><path>/<name>. */
static FILE *open_under(const char *root, const char *path, const char *name)
{
    char full[2 * PATH_MAX + 64];

    snprintf(full, sizeof(full), "%s%s%s%s", root, path, *name ? "/" : "", name);
    return fopen(full, "re");
}

/* A file that holds one number. False if there is none ("max", absent). */
static bool read_number(const char *root, const char *path, const char *name, uint64_t *number_out)
{
    FILE *file = open_under(root, path, name);
    int found;

    if (!file)
        return false;
    found = fscanf(file, "%" SCNu64, number_out);
    fclose(file);
    return found == 1;
}

/* A "key value" line's number; 0 if there is none. */
static uint64_t read_entry(const char *root, const char *path, const char *name, const char *key)
{
    FILE *file = open_under(root, path, name);
    char line[256];
    uint64_t value = 0;
    size_t length = strlen(key);

    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == ':')) {
            value = strtoull(line + length + 1, NULL, 10);
            break;
        }
    fclose(file);
    return value;
}

/* A hierarchy: where it is mounted, and which of its groups the mount shows. */
struct hierarchy {
    char mount[PATH_MAX], shown[PATH_MAX];
};

/* "memory" as one of the comma-separated words. */
static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = words; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

static bool find_hierarchy(const char *root, bool is_v1, struct hierarchy *hierarchy)
{
    FILE *file = open_under(root, "/proc/self/mountinfo", "");
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;

    if (!file)
        return false;
    while (!found && getline(&line, &capacity, file) > 0) {
        char type[32], options[512];
        const char *rest = strstr(line, " - ");
        if (!rest ||
            sscanf(line, "%*s %*s %*s %4095s %4095s", hierarchy->shown, hierarchy->mount) != 2 ||
            sscanf(rest, " - %31s %*s %511s", type, options) != 2)
            continue;
        found = is_v1 ? strcmp(type, "cgroup") == 0 && has_word(options, "memory")
                      : strcmp(type, "cgroup2") == 0;
    }
    free(line);
    fclose(file);
    return found;
}

/* The group of this process in the hierarchy. */
static bool find_own_group(const char *root, bool is_v1, char path[PATH_MAX])
{
    FILE *file = open_under(root, "/proc/self/cgroup", "");
    char line[PATH_MAX + 256];
    bool found = false;

    if (!file)
        return false;
    while (!found && fgets(line, sizeof(line), file)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        found = is_v1 ? has_word(controllers + 1, "memory") : controllers[1] == '\0';
        if (found)
            snprintf(path, PATH_MAX, "%s", group);
    }
    fclose(file);
    return found;
}

static void tighten(struct mkt_memory *memory, const char *folder, const char *name, bool is_v1)
{
    uint64_t limit;

    if (!read_number(memory->root, folder, name, &limit) || limit >= memory->total_bytes)
        return;
    memory->total_bytes = limit;
    memory->is_v1 = is_v1;
    snprintf(memory->group, sizeof(memory->group), "%s", folder);
}

/* Walks from the own group up to the mount. A group that the mount doesn't show (a container that
 * sees its host's paths) counts as the mount's top. */
static void walk_up(struct mkt_memory *memory, bool is_v1)
{
    struct hierarchy hierarchy;
    char group[PATH_MAX], folder[2 * PATH_MAX];
    const char *below;
    size_t shown;

    if (!find_hierarchy(memory->root, is_v1, &hierarchy) ||
        !find_own_group(memory->root, is_v1, group))
        return;
    shown = strcmp(hierarchy.shown, "/") == 0 ? 0 : strlen(hierarchy.shown);
    below = strncmp(group, hierarchy.shown, shown) == 0 ? group + shown : "";
    if (strstr(below, "/.."))
        below = "";
    snprintf(folder, sizeof(folder), "%s%s", hierarchy.mount, below);
    for (size_t mount = strlen(hierarchy.mount); strlen(folder) >= mount && folder[0];) {
        if (is_v1)
            tighten(memory, folder, "memory.limit_in_bytes", true);
        else {
            tighten(memory, folder, "memory.max", false);
            tighten(memory, folder, "memory.high", false);
        }
        char *slash = strrchr(folder, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
}

void mkt_memory_find(const char *root, struct mkt_memory *memory_out)
{
    struct mkt_memory *memory = memory_out;

    memset(memory, 0, sizeof(*memory));
    snprintf(memory->root, sizeof(memory->root), "%s", root);
    memory->total_bytes = read_entry(root, "/proc/meminfo", "", "MemTotal") << 10;
    if (memory->total_bytes == 0)
        memory->total_bytes = UINT64_C(1) << 30; /* no /proc: be modest */
    walk_up(memory, true);
    walk_up(memory, false);
}

bool mkt_memory_is_tight(const struct mkt_memory *memory)
{
    const char *root = memory->root, *group = memory->group;
    uint64_t used, cache;

    if (!*group)
        return read_entry(root, "/proc/meminfo", "", "MemAvailable") << 10 <
               memory->total_bytes / 20;
    if (!read_number(root, group, memory->is_v1 ? "memory.usage_in_bytes" : "memory.current",
                     &used))
        return false;
    if (used < memory->total_bytes - memory->total_bytes / 20)
        return false;
    cache = read_entry(root, group, "memory.stat",
                       memory->is_v1 ? "total_inactive_file" : "inactive_file");
    return used - (cache < used ? cache : used) > memory->total_bytes - memory->total_bytes / 20;
}

const char *mkt_memory_source(const struct mkt_memory *memory)
{
    return *memory->group ? memory->group : "the node's memory";
}
