/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A way for small frames beside the socket: a page of shared memory for each direction, for as long
 * as the one who reads it is awake and looking. A frame costs two copies there instead of two calls
 * of the kernel. The socket stays the connection: it carries what is large, what has a descriptor
 * and what nobody looks out for, and its end is the end of both.
 *
 *           EMPTY ── post ──▶ FULL ── take ──▶ TAKING ──▶ EMPTY
 *                              │
 *                              └── the reader has stopped looking: post takes it back
 *
 * A poster writes FULL and then asks whether the reader looks; a reader says that it doesn't and
 * then looks once more. So a posted frame is taken by one of the two, and no third call is needed.
 * A slot has one poster and one reader; each copies what it takes before it trusts it.
 *
 * The client makes the mailbox and sends its descriptor once it is welcome. It is sealed, so that
 * neither side can take the memory from under the other.
 */
#ifndef MKT_WIRE_MAILBOX_H
#define MKT_WIRE_MAILBOX_H

#include "core/base/status.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MKT_MAIL_BYTES (8192u - 64u) /* the longest post: whole frames, one or several */

struct mkt_mail_slot {
    _Atomic uint32_t state, looks; /* looks: the reader polls */
    uint32_t bytes;
    _Atomic uint32_t sent_from; /* the poster's processor, from 1, at its last frame; 0: not told */
    uint8_t reserved[48];
    uint8_t post[MKT_MAIL_BYTES];
};

struct mkt_mailbox {
    struct mkt_mail_slot requests, replies;
};
_Static_assert(sizeof(struct mkt_mailbox) == 16384, "the layout is shared by two programs");

/* A new one and its descriptor, which is the caller's. NULL: not to be had. */
struct mkt_mailbox *mkt_mailbox_create(int *fd_out);
/* Another process's. NULL: the descriptor isn't one of a sealed mailbox. It stays the caller's. */
struct mkt_mailbox *mkt_mailbox_map(int fd);
/* NULL does nothing. */
void mkt_mailbox_unmap(struct mkt_mailbox *box);

/* Puts bytes into the slot. False: they don't fit, the post before is still there, or nobody looks.
 */
bool mkt_mail_post(struct mkt_mail_slot *slot, const void *bytes, size_t length);

/* Something is there; costs one load. (Ordered, since the last look follows mkt_mail_look.) */
static inline bool mkt_mail_waits(struct mkt_mail_slot *slot)
{
    return atomic_load(&slot->state) != 0;
}

/* Copies a post out (capacity: at least MKT_MAIL_BYTES). Its length; 0: there is none. */
size_t mkt_mail_take(struct mkt_mail_slot *slot, void *bytes_out);

/* The reader begins to look, or stops: then it has to take once more. */
static inline void mkt_mail_look(struct mkt_mail_slot *slot, bool looks)
{
    atomic_store(&slot->looks, looks);
}

/* Before a frame leaves, by whatever way; and whether that was on this very processor. */
static inline void mkt_mail_tell_processor(struct mkt_mail_slot *slot)
{
    atomic_store_explicit(&slot->sent_from, (uint32_t)sched_getcpu() + 1, memory_order_relaxed);
}

static inline bool mkt_mail_is_from_here(struct mkt_mail_slot *slot)
{
    return atomic_load_explicit(&slot->sent_from, memory_order_relaxed) ==
           (uint32_t)sched_getcpu() + 1;
}

/* Between two looks; leaves the core to the thread beside this one. */
static inline void mkt_mail_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
