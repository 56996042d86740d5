/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conformance/media_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
    const struct mkt_medium *media;
    uint64_t calls;
    int open_arenas;
} checker;

void checking_media_wrap(const struct mkt_medium *media)
{
    checker.media = media;
    checker.calls = 0;
    checker.open_arenas = 0;
}

uint64_t checking_media_calls(void)
{
    return __atomic_load_n(&checker.calls, __ATOMIC_RELAXED);
}

int checking_media_open_arenas(void)
{
    return checker.open_arenas;
}

static enum mkt_status checked_create(uint64_t size_bytes, void **arena_out,
                                      struct mkt_error *error_out)
{
    enum mkt_status status = checker.media->create(size_bytes, arena_out, error_out);

    checker.open_arenas += status == MKT_OK;
    return status;
}

static void checked_destroy(void *arena)
{
    checker.open_arenas -= arena != NULL;
    checker.media->destroy(arena);
}

static int checked_fd(const void *arena)
{
    int fd = checker.media->fd(arena);

    assert_true(fd >= 0);
    return fd;
}

static void *checked_base(const void *arena)
{
    void *base = checker.media->base(arena);

    assert_non_null(base);
    assert_int_equal((uintptr_t)base % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    return base;
}

static bool checked_is_populated(const void *arena, uint64_t offset, uint64_t length)
{
    return checker.media->is_populated(arena, offset, length);
}

static uint64_t size_of(const void *arena)
{
    struct stat about;

    return fstat(checker.media->fd(arena), &about) == 0 ? (uint64_t)about.st_size : 0;
}

/* One byte of the file, read past the mapping. Threads other than the test's must not assert: -1
 * tells. */
static int peek(const void *arena, uint64_t offset)
{
    uint8_t byte;

    return pread(checker.media->fd(arena), &byte, 1, (off_t)offset) == 1 ? byte : -1;
}

struct neighbours {
    uint64_t before_at, after_at;
    int before, after;
};

static struct neighbours look(const void *arena, uint64_t offset, uint64_t length)
{
    uint64_t size = size_of(arena), end = offset + length;
    struct neighbours n = {offset > 0 && offset <= size ? offset - 1 : 0,
                           end < size && end >= offset ? end : 0, 0, 0};

    n.before = peek(arena, n.before_at);
    n.after = peek(arena, n.after_at);
    return n;
}

/* Only a byte next to the range tells: a test of neighbours that another thread works on would not.
 */
static enum mkt_status surrounded(enum mkt_status (*call)(void *, uint64_t, uint64_t), void *arena,
                                  uint64_t offset, uint64_t length)
{
    struct neighbours before = look(arena, offset, length);
    enum mkt_status status = call(arena, offset, length);
    struct neighbours after = look(arena, offset, length);

    __atomic_fetch_add(&checker.calls, 1, __ATOMIC_RELAXED);
    bool inside = offset <= size_of(arena) && length <= size_of(arena) - offset;
    if ((offset > 0 && before.before != after.before) ||
        (before.after_at > 0 && before.after != after.after))
        return MKT_CORRUPT;
    if (!inside && status == MKT_OK)
        return MKT_CORRUPT;
    return status;
}

static enum mkt_status checked_populate(void *arena, uint64_t offset, uint64_t length)
{
    return surrounded(checker.media->populate, arena, offset, length);
}

static enum mkt_status checked_punch(void *arena, uint64_t offset, uint64_t length)
{
    return surrounded(checker.media->punch, arena, offset, length);
}

static enum mkt_status checked_bind(void *arena, uint32_t node, struct mkt_error *error_out)
{
    return checker.media->bind(arena, node, error_out);
}

static uint64_t checked_resident_bytes(const void *arena)
{
    uint64_t bytes = checker.media->resident_bytes(arena);

    assert_true(bytes <= size_of(arena));
    return bytes;
}

const struct mkt_medium checking_media = {
    .name = "checking",
    .create = checked_create,
    .destroy = checked_destroy,
    .fd = checked_fd,
    .base = checked_base,
    .is_populated = checked_is_populated,
    .populate = checked_populate,
    .punch = checked_punch,
    .bind = checked_bind,
    .resident_bytes = checked_resident_bytes,
};
