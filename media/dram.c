/* SPDX-License-Identifier: BSD-3-Clause */
#include "media/medium.h"

#include "core/base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

#define NODES_MAX  1024u                /* of a kernel */
#define STEP_BYTES ((uint64_t)32 << 20) /* populated in one call, then recorded */

struct arena {
    int fd;
    char *base;
    uint64_t size, page;
    /* Bit p says that page p is in memory. A page belongs to one range, hence to one thread at a
     * time, but the words are shared: atomic. */
    uint64_t *populated;
};

/* What a process's limits have to do with a failure. */
static const char *remedy(int reason)
{
    switch (reason) {
    case EMFILE:
        return " (the daemon's limit of open files, `ulimit -Hn`: raise it where it is started)";
    case ENOMEM:
        return " (its limit of address space, `ulimit -Hv`? raise it where the daemon is started, "
               "or "
               "lower `arena` in h5market.yaml)";
    default:
        return "";
    }
}

/* The arena of a descriptor, which is closed on failure; `size` is a whole number of pages. */
static enum mkt_status make(int fd, uint64_t size, void **arena_out, struct mkt_error *error_out)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct arena *arena = calloc(1, sizeof(*arena));
    enum mkt_status status = mkt_error_set(error_out, MKT_NO_MEMORY, "no memory for an arena");

    if (!arena)
        goto err_close_fd;
    arena->fd = fd;
    arena->size = size;
    arena->page = page;
    arena->populated = calloc((size / page + 63) / 64, sizeof(uint64_t));
    if (!arena->populated)
        goto err_free_arena;
    arena->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (arena->base == MAP_FAILED) {
        int reason = errno;
        status = mkt_error_set(error_out, mkt_status_from_errno(reason),
                               "mapping an arena of %llu bytes: %s%s", (unsigned long long)size,
                               strerror(reason), remedy(reason));
        goto err_free_map;
    }
    madvise(arena->base, size, MADV_HUGEPAGE); /* a wish: kernels without it serve small pages */
    madvise(arena->base, size, MADV_DONTDUMP);
    *arena_out = arena;
    return MKT_OK;

err_free_map:
    free(arena->populated);
err_free_arena:
    free(arena);
err_close_fd:
    close(fd);
    return status;
}

static enum mkt_status create(uint64_t size_bytes, void **arena_out, struct mkt_error *error_out)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size = (size_bytes + page - 1) & ~(page - 1);

    if (size_bytes == 0 || size < size_bytes || size > INT64_MAX)
        return mkt_error_set(error_out, MKT_INVALID, "an arena of %llu bytes",
                             (unsigned long long)size_bytes);
    int fd = mkt_memfd_create("h5market-arena", size);
    if (fd < 0) {
        int reason = errno;
        return mkt_error_set(error_out, mkt_status_from_errno(reason), "memfd of %llu bytes: %s%s",
                             (unsigned long long)size, strerror(reason), remedy(reason));
    }
    return make(fd, size, arena_out, error_out);
}

static void mark(struct arena *arena, uint64_t first, uint64_t end, bool populated);

/* Which pages there are: those between holes. */
static void find_pages(struct arena *arena)
{
    off_t at = 0;

    while ((at = lseek(arena->fd, at, SEEK_DATA)) >= 0) {
        off_t hole = lseek(arena->fd, at, SEEK_HOLE);
        if (hole < 0)
            return;
        mark(arena, ((uint64_t)at + arena->page - 1) / arena->page, (uint64_t)hole / arena->page,
             true);
        at = hole;
    }
}

static enum mkt_status adopt(int fd, uint64_t size_bytes, void **arena_out,
                             struct mkt_error *error_out)
{
    struct stat about;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size = (size_bytes + page - 1) & ~(page - 1);

    if (fstat(fd, &about) != 0 || (uint64_t)about.st_size != size || size == 0) {
        close(fd);
        return mkt_error_set(error_out, MKT_CORRUPT, "an arena of %llu bytes has another size",
                             (unsigned long long)size_bytes);
    }
    enum mkt_status status = make(fd, size, arena_out, error_out);
    if (status == MKT_OK)
        find_pages(*arena_out);
    return status;
}

static void destroy(void *of)
{
    struct arena *arena = of;

    if (!arena)
        return;
    munmap(arena->base, arena->size);
    close(arena->fd);
    free(arena->populated);
    free(arena);
}

static int fd(const void *arena)
{
    return ((const struct arena *)arena)->fd;
}

static void *base(const void *arena)
{
    return ((const struct arena *)arena)->base;
}

static bool range_is_inside(const struct arena *arena, uint64_t offset, uint64_t length)
{
    return offset <= arena->size && length <= arena->size - offset;
}

/* Bits of word `word` that stand for pages first .. end-1. */
static uint64_t word_mask(uint64_t word, uint64_t first, uint64_t end)
{
    uint64_t mask = ~(uint64_t)0;

    if (first > word * 64)
        mask &= ~(uint64_t)0 << (first - word * 64);
    if (end < word * 64 + 64)
        mask &= ~(~(uint64_t)0 << (end - word * 64));
    return mask;
}

static void mark(struct arena *arena, uint64_t first, uint64_t end, bool populated)
{
    for (uint64_t word = first / 64; word * 64 < end; word++) {
        uint64_t mask = word_mask(word, first, end);

        if (populated)
            __atomic_fetch_or(&arena->populated[word], mask, __ATOMIC_RELEASE);
        else
            __atomic_fetch_and(&arena->populated[word], ~mask, __ATOMIC_RELEASE);
    }
}

/* The first page in first .. end-1 whose bit equals `populated`, or end. */
static uint64_t find_page(const struct arena *arena, uint64_t first, uint64_t end, bool populated)
{
    for (uint64_t word = first / 64; word * 64 < end; word++) {
        uint64_t bits = __atomic_load_n(&arena->populated[word], __ATOMIC_ACQUIRE);

        bits = (populated ? bits : ~bits) & word_mask(word, first, end);
        if (bits != 0)
            return word * 64 + (uint64_t)__builtin_ctzll(bits);
    }
    return end;
}

static bool is_populated(const void *of, uint64_t offset, uint64_t length)
{
    const struct arena *arena = of;

    if (!range_is_inside(arena, offset, length))
        return false;
    if (length == 0)
        return true;
    uint64_t end = (offset + length + arena->page - 1) / arena->page;
    return find_page(arena, offset / arena->page, end, false) == end;
}

/* fallocate charges pages but leaves them to be cleared by whoever touches them first. */
static enum mkt_status allocate_and_touch(struct arena *arena, uint64_t offset, uint64_t length)
{
    while (fallocate(arena->fd, 0, (off_t)offset, (off_t)length) != 0)
        if (errno != EINTR)
            return errno == ENOSPC ? MKT_NO_MEMORY : mkt_status_from_errno(errno);
    for (uint64_t at = offset; at < offset + length; at += arena->page)
        (void)*(volatile char *)(arena->base + at);
    return MKT_OK;
}

/* Whole pages. */
static enum mkt_status bring_in(struct arena *arena, uint64_t offset, uint64_t length)
{
    while (madvise(arena->base + offset, length, MADV_POPULATE_WRITE) != 0) {
        if (errno == EINVAL || errno == ENOSYS)
            return allocate_and_touch(arena, offset, length);
        if (errno != EINTR && errno != EAGAIN)
            return MKT_NO_MEMORY; /* ENOMEM, or EFAULT where a page's fault failed */
    }
    return MKT_OK;
}

static enum mkt_status populate(void *of, uint64_t offset, uint64_t length)
{
    struct arena *arena = of;

    if (!range_is_inside(arena, offset, length))
        return MKT_INVALID;
    if (length == 0)
        return MKT_OK;
    uint64_t page = arena->page, end = (offset + length + page - 1) / page;
    uint64_t first = find_page(arena, offset / page, end, false);
    while (first < end) {
        uint64_t stop = find_page(arena, first, end, true);

        if ((stop - first) * page > STEP_BYTES)
            stop = first + STEP_BYTES / page;
        enum mkt_status status = bring_in(arena, first * page, (stop - first) * page);
        if (status != MKT_OK)
            return status;
        mark(arena, first, stop, true);
        first = find_page(arena, stop, end, false);
    }
    return MKT_OK;
}

static enum mkt_status punch(void *of, uint64_t offset, uint64_t length)
{
    struct arena *arena = of;

    if (!range_is_inside(arena, offset, length))
        return MKT_INVALID;
    uint64_t page = arena->page, first = (offset + page - 1) / page, end = (offset + length) / page;
    if (first >= end)
        return MKT_OK;
    mark(arena, first, end, false);
    while (fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(first * page),
                     (off_t)((end - first) * page)) != 0)
        if (errno != EINTR)
            return mkt_status_from_errno(errno);
    return MKT_OK;
}

/* The policy is the file's, not the mapping's or the thread's: it holds for the pages that any
 * process's access brings in, and one call is enough. Preferred: a full node is no failure, the
 * next one serves. */
static enum mkt_status bind_to(void *of, uint32_t node, struct mkt_error *error_out)
{
    const struct arena *arena = of;
    unsigned long nodes[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
    const unsigned bits = 8 * sizeof(nodes[0]);

    if (node >= NODES_MAX)
        return mkt_error_set(error_out, MKT_INVALID, "there is no NUMA node %u", node);
    nodes[node / bits] |= 1UL << node % bits;
    if (syscall(SYS_mbind, arena->base, arena->size, MPOL_PREFERRED, nodes, NODES_MAX + 1UL, 0UL) ==
        0)
        return MKT_OK;
    int reason = errno;
    return mkt_error_set(error_out, mkt_status_from_errno(reason), "NUMA node %u: %s%s", node,
                         strerror(reason),
                         reason == EINVAL  ? " (no such node, or not in this process's cpuset)"
                         : reason == EPERM ? " (a container's seccomp profile forbids mbind)"
                                           : "");
}

static uint64_t resident_bytes(const void *arena)
{
    struct stat about;

    return fstat(fd(arena), &about) == 0 ? (uint64_t)about.st_blocks * 512 : 0;
}

const struct mkt_medium mkt_medium_dram = {
    .name = "dram",
    .create = create,
    .adopt = adopt,
    .destroy = destroy,
    .fd = fd,
    .base = base,
    .is_populated = is_populated,
    .populate = populate,
    .punch = punch,
    .bind = bind_to,
    .resident_bytes = resident_bytes,
};
