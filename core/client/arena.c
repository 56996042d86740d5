/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/client/arena.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

static uint64_t page_bytes(void)
{
    static uint64_t bytes;
    if (bytes == 0)
        bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    return bytes;
}

void mkt_mapped_arenas_fini(struct mkt_mapped_arenas *arenas)
{
    for (uint32_t i = 0; i < arenas->count; i++) {
        struct mkt_mapped_arena *arena = &arenas->list[i];
        for (int view = 0; view < 2; view++) {
            if (arena->views[view].base != NULL)
                munmap(arena->views[view].base, arena->size_bytes);
            free(arena->views[view].entered);
        }
    }
    free(arenas->list);
    *arenas = (struct mkt_mapped_arenas){0};
}

static struct mkt_mapped_arena *find_arena(const struct mkt_mapped_arenas *arenas, uint32_t id)
{
    for (uint32_t i = 0; i < arenas->count; i++)
        if (arenas->list[i].id == id)
            return &arenas->list[i];
    return NULL;
}

static enum mkt_status map_view(struct mkt_arena_view *view, int fd, uint64_t size_bytes,
                                bool writable, struct mkt_error *error)
{
    uint64_t pages = (size_bytes + page_bytes() - 1) / page_bytes();
    uint64_t *entered = calloc((pages + 63) / 64, sizeof(*entered));
    if (entered == NULL)
        return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
    void *base = mmap(NULL, size_bytes, PROT_READ | (writable ? PROT_WRITE : 0),
                      MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
        int reason = errno;
        free(entered);
        return mkt_error_set(error, mkt_status_from_errno(reason),
                             "can't map %llu bytes of the market's memory: %s (ulimit -v?)",
                             (unsigned long long)size_bytes, strerror(reason));
    }
    madvise(base, size_bytes, MADV_HUGEPAGE);
    madvise(base, size_bytes, MADV_DONTDUMP);
    *view = (struct mkt_arena_view){.base = base, .entered = entered};
    return MKT_OK;
}

/* The arena's table entry, made if need be. */
static enum mkt_status enter_arena(struct mkt_mapped_arenas *arenas, uint32_t id,
                                   uint64_t size_bytes, struct mkt_mapped_arena **arena_out,
                                   struct mkt_error *error)
{
    struct mkt_mapped_arena *arena = find_arena(arenas, id);
    if (arena == NULL) {
        struct mkt_mapped_arena *list =
            realloc(arenas->list, (arenas->count + 1) * sizeof(*arenas->list));
        if (list == NULL)
            return mkt_error_set(error, MKT_NO_MEMORY, "out of memory");
        arenas->list = list;
        arena = &list[arenas->count++];
        *arena = (struct mkt_mapped_arena){.id = id, .size_bytes = size_bytes};
    }
    *arena_out = arena;
    return MKT_OK;
}

static enum mkt_status fetch_view(struct mkt_mapped_arenas *arenas, struct mkt_link *link,
                                  uint32_t id, bool writable, struct mkt_mapped_arena **arena_out,
                                  struct mkt_error *error)
{
    int fd = -1;
    struct stat info;
    struct mkt_msg reply, request = {.type = MKT_MSG_MAP, .map = {.arena = id}};
    enum mkt_status status =
        mkt_link_request(link, &request, -1, MKT_MSG_MAPPED, &MKT_WAIT_REPLY, &reply, &fd, error);
    if (status != MKT_OK)
        return status;
    uint64_t size_bytes = reply.mapped.size_bytes;
    /* A mapping longer than its file would end in SIGBUS. */
    if (fd < 0 || reply.mapped.arena != id || size_bytes == 0 || fstat(fd, &info) != 0 ||
        (uint64_t)info.st_size < size_bytes) {
        if (fd >= 0)
            close(fd);
        return mkt_link_lose(link, error, MKT_PROTOCOL,
                             "the market daemon's answer about arena %u makes no sense", id);
    }
    status = enter_arena(arenas, id, size_bytes, arena_out, error);
    if (status == MKT_OK && (*arena_out)->size_bytes != size_bytes)
        status =
            mkt_link_lose(link, error, MKT_PROTOCOL, "arena %u has another size than before", id);
    if (status == MKT_OK)
        status = map_view(&(*arena_out)->views[writable], fd, size_bytes, writable, error);
    /* The mapping holds the memory; a program that closes all descriptors can't hurt us. */
    close(fd);
    return status;
}

/* Enters the pages of a range that were not entered before, a run of them in one call. */
static void enter_pages(const struct mkt_arena_view *view, uint64_t offset, uint64_t length,
                        bool writable)
{
    uint64_t page = offset / page_bytes(), end = (offset + length - 1) / page_bytes() + 1;
    while (page < end) {
        uint64_t word = view->entered[page / 64] >> (page % 64);
        if (word & 1) {
            /* Skip what is entered, up to the end of the word. */
            page += ~word != 0 ? (uint64_t)__builtin_ctzll(~word) : 64 - page % 64;
            continue;
        }
        uint64_t first = page;
        while (page < end && !(view->entered[page / 64] >> (page % 64) & 1)) {
            view->entered[page / 64] |= 1ull << (page % 64);
            page++;
        }
        /* A single page costs no less by a call than by its fault. Failure: the faults do it. */
        if (page - first > 1)
            madvise(view->base + first * page_bytes(), (page - first) * page_bytes(),
                    writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    }
}

enum mkt_status mkt_mapped_arenas_map(struct mkt_mapped_arenas *arenas, struct mkt_link *link,
                                      const struct mkt_extent *extent, bool writable,
                                      void **address_out, struct mkt_error *error)
{
    if (extent->arena == 0 || extent->length == 0)
        return mkt_error_set(error, MKT_INVALID, "an empty extent can't be mapped");
    struct mkt_mapped_arena *arena = find_arena(arenas, extent->arena);
    if (arena == NULL || arena->views[writable].base == NULL) {
        enum mkt_status status = fetch_view(arenas, link, extent->arena, writable, &arena, error);
        if (status != MKT_OK)
            return status;
    }
    if (extent->offset > arena->size_bytes || extent->length > arena->size_bytes - extent->offset)
        return mkt_error_set(
            error, MKT_PROTOCOL, "an extent of %llu bytes at %llu lies outside arena %u",
            (unsigned long long)extent->length, (unsigned long long)extent->offset, extent->arena);
    enter_pages(&arena->views[writable], extent->offset, extent->length, writable);
    *address_out = arena->views[writable].base + extent->offset;
    return MKT_OK;
}

static bool is_entered(const struct mkt_arena_view *view, uint64_t offset, uint64_t length)
{
    uint64_t page = offset / page_bytes(), end = (offset + length - 1) / page_bytes() + 1;
    while (page < end) {
        uint64_t word = ~view->entered[page / 64] >> (page % 64);
        uint64_t next = word != 0 ? page + (uint64_t)__builtin_ctzll(word) : page - page % 64 + 64;
        if (word != 0 && next < end)
            return false;
        page = next;
    }
    return true;
}

void *mkt_mapped_arenas_written(const struct mkt_mapped_arenas *arenas,
                                const struct mkt_extent *extent)
{
    const struct mkt_mapped_arena *arena = find_arena(arenas, extent->arena);
    if (arena == NULL || arena->views[true].base == NULL || extent->length == 0 ||
        extent->offset > arena->size_bytes || extent->length > arena->size_bytes - extent->offset ||
        !is_entered(&arena->views[true], extent->offset, extent->length))
        return NULL;
    return arena->views[true].base + extent->offset;
}
