/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies past the caches, for moves larger than these: a plain store first reads the line that it
 * is to overwrite, which costs a third of the memory's bandwidth, and drives everything else out.
 * Internal to transport. Any thread.
 */
#ifndef MKT_TRANSPORT_NONTEMPORAL_H
#define MKT_TRANSPORT_NONTEMPORAL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

#define MKT_NONTEMPORAL_AVAILABLE 1
#define MKT_NONTEMPORAL_LINE      64
#define MKT_NONTEMPORAL_AHEAD     1024 /* bytes that the prefetch runs ahead */
#define MKT_NONTEMPORAL_PAGE      4096 /* where the processor's own prefetch ends */

static inline void mkt_nontemporal_line(char *to, const char *from)
{
    __m128i a = _mm_loadu_si128((const __m128i *)from),
            b = _mm_loadu_si128((const __m128i *)(from + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(from + 32)),
            d = _mm_loadu_si128((const __m128i *)(from + 48));

    _mm_stream_si128((__m128i *)to, a);
    _mm_stream_si128((__m128i *)(to + 16), b);
    _mm_stream_si128((__m128i *)(to + 32), c);
    _mm_stream_si128((__m128i *)(to + 48), d);
}

/* Two pages in turns: while one waits for its address or its line, the other goes on. */
static inline void mkt_nontemporal_two_pages(char *to, const char *from)
{
    for (size_t at = 0; at < MKT_NONTEMPORAL_PAGE; at += MKT_NONTEMPORAL_LINE) {
        _mm_prefetch(from + 2 * MKT_NONTEMPORAL_PAGE + at, _MM_HINT_T0);
        mkt_nontemporal_line(to + at, from + at);
        _mm_prefetch(from + 3 * MKT_NONTEMPORAL_PAGE + at, _MM_HINT_T0);
        mkt_nontemporal_line(to + MKT_NONTEMPORAL_PAGE + at, from + MKT_NONTEMPORAL_PAGE + at);
    }
}

/* `next` is where the source goes on after this run: the processor's own prefetch does not guess a
 * stride. */
static inline void mkt_nontemporal_copy(char *to, const char *from, size_t length, const char *next)
{
    size_t head = -(uintptr_t)to % MKT_NONTEMPORAL_LINE;

    if (head > length)
        head = length;
    memcpy(to, from, head);
    to += head;
    from += head;
    length -= head;
    for (; length >= 4 * MKT_NONTEMPORAL_PAGE; length -= 2 * MKT_NONTEMPORAL_PAGE) {
        mkt_nontemporal_two_pages(to, from);
        to += 2 * MKT_NONTEMPORAL_PAGE;
        from += 2 * MKT_NONTEMPORAL_PAGE;
    }
    for (; length >= MKT_NONTEMPORAL_AHEAD + MKT_NONTEMPORAL_LINE; length -= MKT_NONTEMPORAL_LINE) {
        _mm_prefetch(from + MKT_NONTEMPORAL_AHEAD, _MM_HINT_T0);
        mkt_nontemporal_line(to, from);
        to += MKT_NONTEMPORAL_LINE;
        from += MKT_NONTEMPORAL_LINE;
    }
    for (; length >= MKT_NONTEMPORAL_LINE; length -= MKT_NONTEMPORAL_LINE) {
        _mm_prefetch(next, _MM_HINT_T0);
        mkt_nontemporal_line(to, from);
        to += MKT_NONTEMPORAL_LINE;
        from += MKT_NONTEMPORAL_LINE;
        next += MKT_NONTEMPORAL_LINE;
    }
    memcpy(to, from, length);
}

/* Makes streamed bytes visible before whatever this thread stores next. */
static inline void mkt_nontemporal_fence(void)
{
    _mm_sfence();
}

#else

#define MKT_NONTEMPORAL_AVAILABLE 0

static inline void mkt_nontemporal_copy(char *to, const char *from, size_t length, const char *next)
{
    (void)next;
    memcpy(to, from, length);
}

static inline void mkt_nontemporal_fence(void)
{
}

#endif

#endif
