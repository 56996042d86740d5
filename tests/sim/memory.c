/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The linker sends malloc and its kin here (--wrap). Inside the market, and only there, some fail.
 */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *string);
char *__wrap_strndup(const char *string, size_t length);

static uint64_t one_in_n, state, failures;
static int inside;

void memory_arm(uint64_t n, uint64_t seed)
{
    one_in_n = n;
    state = seed;
    inside = 0;
}

void memory_enter(void)
{
    inside++;
}

void memory_leave(void)
{
    inside--;
}

uint64_t memory_failures(void)
{
    uint64_t count = failures;

    failures = 0;
    return count;
}

static bool fails(void)
{
    if (one_in_n == 0 || inside <= 0 || random_next(&state) % one_in_n != 0)
        return false;
    failures++;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strndup(const char *string, size_t length)
{
    size_t bytes = strnlen(string, length);
    char *copy = __wrap_malloc(bytes + 1);

    if (!copy)
        return NULL;
    memcpy(copy, string, bytes);
    copy[bytes] = '\0';
    return copy;
}

char *__wrap_strdup(const char *string)
{
    return __wrap_strndup(string, strlen(string));
}
