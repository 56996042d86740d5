/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of the SSD medium: folders that come and go, and bytes that tell where they belong. */
#ifndef MKT_TESTS_UNIT_SSD_FOLDER_H
#define MKT_TESTS_UNIT_SSD_FOLDER_H

#include "tests/unit/random.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEST_NAME "records" /* of the medium's folder inside the test's */

/* A new folder in the current one (a disk, where ctest runs) or in `parent`. */
static inline void make_test_folder(const char *parent, char path[256])
{
    snprintf(path, 256, "%s/ssd-XXXXXX", parent != NULL ? parent : ".");
    if (mkdtemp(path) == NULL) {
        perror(path);
        abort();
    }
}

/* Of one level below, as the medium makes it. */
static inline void remove_test_folder(const char *path)
{
    char inner[600];
    struct dirent *entry;

    snprintf(inner, sizeof(inner), "%s/" TEST_NAME, path);
    DIR *list = opendir(inner);
    while (list != NULL && (entry = readdir(list)) != NULL)
        unlinkat(dirfd(list), entry->d_name, 0);
    if (list != NULL)
        closedir(list);
    rmdir(inner);
    rmdir(path);
}

/* The names of the segment files, in no order; returns how many. */
static inline unsigned list_segments(const char *path, char names[][32], unsigned max)
{
    char inner[600];
    struct dirent *entry;
    unsigned count = 0;

    snprintf(inner, sizeof(inner), "%s/" TEST_NAME, path);
    DIR *list = opendir(inner);
    while (list != NULL && count < max && (entry = readdir(list)) != NULL)
        if (strncmp(entry->d_name, "segment-", 8) == 0)
            snprintf(names[count++], 32, "%.31s", entry->d_name);
    if (list != NULL)
        closedir(list);
    return count;
}

static inline uint64_t pattern_word(uint64_t seed, uint64_t number)
{
    uint64_t word = seed * 0x9e3779b97f4a7c15u + number;

    return random_next(&word);
}

static inline uint8_t pattern_byte(uint64_t seed, uint64_t at)
{
    return (uint8_t)(pattern_word(seed, at / 8) >> at % 8 * 8);
}

static inline void fill_pattern(uint8_t *bytes, uint64_t count, uint64_t seed)
{
    for (uint64_t at = 0; at < count; at += 8) {
        uint64_t word = pattern_word(seed, at / 8);
        memcpy(bytes + at, &word, count - at < 8 ? count - at : 8);
    }
}

/* True if `bytes` are those from `from` on of the pattern. */
static inline bool is_pattern(const uint8_t *bytes, uint64_t from, uint64_t count, uint64_t seed)
{
    uint64_t at = 0;

    for (; at < count && (from + at) % 8 != 0; at++)
        if (bytes[at] != pattern_byte(seed, from + at))
            return false;
    for (; count - at >= 8; at += 8) {
        uint64_t word = pattern_word(seed, (from + at) / 8);
        if (memcmp(bytes + at, &word, 8) != 0)
            return false;
    }
    for (; at < count; at++)
        if (bytes[at] != pattern_byte(seed, from + at))
            return false;
    return true;
}

#endif
