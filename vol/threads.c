/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/threads.h"

#include <time.h>

#include "core/base/process_number.h"
#include "vol/compat.h"

#define NAP_FIRST_NS 20000
#define NAP_MOST_NS  1000000
#define END_NAPS     10000 /* of the longest: what the library's end waits for sleeping threads */

/* Only in thread-safe libraries. */
herr_t H5TSmutex_acquire(unsigned count, bool *acquired) __attribute__((weak));
herr_t H5TSmutex_release(unsigned *count) __attribute__((weak));

static struct {
    bool threadsafe, ends;
    bool noted;     /* that the library tells us when it closes */
    uint64_t owner; /* of the sleeping threads: a forked child has none of them */
    unsigned sleeping;
    unsigned held; /* calls of the thread that has the lock, in which it is kept */
} threads;

static void nap(long *ns)
{
    nanosleep(&(struct timespec){.tv_nsec = *ns}, NULL);
    *ns = 2 * *ns < NAP_MOST_NS ? 2 * *ns : NAP_MOST_NS;
}

/* HDF5 only offers to try. */
static void take(unsigned count)
{
    bool acquired = false;
    long ns = NAP_FIRST_NS;
    while (H5TSmutex_acquire(count, &acquired) < 0 || !acquired)
        nap(&ns);
}

/* Runs first when the library closes, which is still whole then: those who wait come back now, not
 * into what is left of it. */
static void library_closes(void *context)
{
    unsigned count = 0;
    long ns = NAP_MOST_NS;
    (void)context;
    __atomic_store_n(&threads.ends, true, __ATOMIC_RELEASE);
    for (int naps = 0; mkt_vol_threads_wait() && naps < END_NAPS; naps++) {
        if (H5TSmutex_release(&count) < 0)
            return;
        nap(&ns);
        take(count);
    }
}

bool mkt_vol_threads_may_release(void)
{
    return threads.threadsafe && threads.held == 0 && !threads.ends;
}

bool mkt_vol_threads_release(void)
{
    unsigned count = 0;
    if (!mkt_vol_threads_may_release() || (!threads.noted && H5atclose(library_closes, NULL) < 0))
        return false;
    threads.noted = true;
    if (threads.owner != mkt_process_number())
        threads.sleeping = 0;
    threads.owner = mkt_process_number();
    threads.sleeping++;
    if (H5TSmutex_release(&count) >= 0 && count == 1)
        return true;
    /* A call inside another, which not we made. */
    if (count > 0)
        take(count);
    threads.sleeping--;
    return false;
}

void mkt_vol_threads_acquire(void)
{
    take(1);
    threads.sleeping--;
}

void mkt_vol_threads_init(void)
{
    hbool_t threadsafe = false;
    threads.ends = threads.noted = false; /* nobody sleeps: the end has waited */
    threads.threadsafe = H5TSmutex_acquire && H5TSmutex_release &&
                         H5is_library_threadsafe(&threadsafe) >= 0 && threadsafe;
}

void mkt_vol_threads_hold(void)
{
    threads.held++;
}

void mkt_vol_threads_unhold(void)
{
    threads.held--;
}

bool mkt_vol_threads_wait(void)
{
    return threads.sleeping > 0 && threads.owner == mkt_process_number();
}

bool mkt_vol_threads_end(void)
{
    return __atomic_load_n(&threads.ends, __ATOMIC_ACQUIRE);
}
