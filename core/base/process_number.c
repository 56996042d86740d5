/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/process_number.h"
#include "core/base/clock.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* In a page that the kernel empties in a forked child. */
static _Atomic(uint64_t) *_Atomic known;
static atomic_bool has_none;

static _Atomic(uint64_t) *make_page(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    _Atomic(uint64_t) *made, *before = NULL;
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && madvise(page, bytes, MADV_WIPEONFORK) != 0) {
        munmap(page, bytes);
        page = MAP_FAILED;
    }
    if (page == MAP_FAILED) {
        atomic_store(&has_none, true);
        return NULL;
    }
    made = page;
    if (atomic_compare_exchange_strong(&known, &before, made))
        return made;
    munmap(page, bytes);
    return before;
}

uint64_t mkt_process_number(void)
{
    _Atomic(uint64_t) *number = atomic_load_explicit(&known, memory_order_acquire);
    if (number == NULL && !atomic_load_explicit(&has_none, memory_order_relaxed))
        number = make_page();
    if (number == NULL)
        return (uint64_t)getpid();
    uint64_t own = atomic_load_explicit(number, memory_order_relaxed), fresh;
    if (own != 0)
        return own;
    fresh = mkt_now_ns();
    return atomic_compare_exchange_strong(number, &own, fresh) ? fresh : own;
}
