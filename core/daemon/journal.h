/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The journal's memory, shared by the keeper and its workers: what outlives a worker. An append is
 * a copy into shared memory, without a call of the kernel. A record counts when it is whole: a
 * worker that died while it wrote one leaves none. One worker at a time writes; the keeper only
 * reads `state`.
 *
 * There are two places. In the one in use lie a dump of the market (none at the very beginning) and
 * the records since; when these have become long, a dump is written into the other place, and that
 * is the one in use from then on. So the pages are the same ones all the time.
 */
#ifndef MKT_DAEMON_JOURNAL_H
#define MKT_DAEMON_JOURNAL_H

#include "core/market/market.h"

/* Where a market's life can be read from. */
struct mkt_journal_place_shm {
    uint64_t dump_bytes, dump_checksum; /* 0: no dump */
    uint64_t first;                     /* the sequence of the first record behind it */
};

/* What a worker tells the next one, and the keeper. */
struct mkt_journal_state_shm {
    uint8_t daemon[MKT_ID_BYTES]; /* of this life: the workers of one keeper are one daemon */
    uint64_t secret[2];           /* from which sessions' secrets are made */
    struct mkt_market_limits limits;
    uint64_t started_ms;
    uint64_t last_session; /* given out */
    uint32_t is_serving;   /* a worker was ready */
    uint32_t is_broken;    /* something could not be written down: no worker can follow */
    uint32_t restarts;
    uint32_t is_draining; /* it was told to end, and saves what is owed first */
    uint32_t in_use;      /* which place */
    uint32_t reserved;
    uint64_t restarted_ms; /* the last time */
    char reason[120];      /* why a worker ended, the last time */
    uint64_t done;         /* the call of the record before this one has had all its effects */
    uint64_t dumps;        /* so far */
    uint64_t trying;       /* the record that a replay makes now and has to come back from */
    struct mkt_journal_place_shm place[2];
};

struct mkt_journal {
    struct mkt_journal_state_shm *state;
    uint8_t *bytes[2];
    size_t capacity; /* of each place, of address space; pages come with use */
    size_t limit;    /* records of so many bytes, or as many as the dump has: a new dump */
    size_t end;      /* of the last record */
    size_t populated[2];
    uint64_t sequence; /* of the next record */
    uint64_t records;  /* read or written since the dump */
};

/* Maps an empty journal. MKT_NO_MEMORY. */
enum mkt_status mkt_journal_create(struct mkt_journal *journal_out, struct mkt_error *error);

/* ---- writing ---- */
/* Room for a record of MKT_CALL_MAX_BYTES, 8-aligned; NULL: there is none, and the journal is
 * broken. */
void *mkt_journal_reserve(struct mkt_journal *journal);
/* The room holds a record now. 0: it doesn't, and the journal is broken. */
void mkt_journal_append(struct mkt_journal *journal, size_t bytes);
/* The call that was appended last has had all its effects. */
static inline void mkt_journal_done(struct mkt_journal *journal)
{
    __atomic_store_n(&journal->state->done, journal->sequence, __ATOMIC_RELEASE);
}
/* True if it is time for a new dump. */
static inline bool mkt_journal_is_long(const struct mkt_journal *journal)
{
    size_t dump = journal->state->place[journal->state->in_use].dump_bytes;

    return journal->end - dump > (dump > journal->limit ? dump : journal->limit);
}
/* Begins anew with a dump. Between two calls of the market. */
void mkt_journal_begin_anew(struct mkt_journal *journal, struct mkt_market *market);
/* Once a second: brings in the pages that the next records will fill. */
void mkt_journal_populate(struct mkt_journal *journal);

/* ---- reading, from the beginning ---- */
/* The dump; NULL: none, the market began empty. MKT_CORRUPT. Then come the records. */
enum mkt_status mkt_journal_rewind(struct mkt_journal *journal, const void **dump_out,
                                   size_t *bytes_out, struct mkt_error *error);
/* The next whole one. False: there is no more, and the next append goes here. */
bool mkt_journal_next(struct mkt_journal *journal, const void **bytes_out, size_t *length_out);

#endif
