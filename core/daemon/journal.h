/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The journal's memory, shared by the keeper and its workers: what outlives a worker. An append is
 * a copy into shared memory, without a call of the kernel. A record counts when it is whole: a
 * worker that died while it wrote one leaves none. One worker at a time writes; the keeper only
 * reads `state`.
 */
#ifndef MKT_DAEMON_JOURNAL_H
#define MKT_DAEMON_JOURNAL_H

#include "core/base/status.h"
#include "core/wire/messages.h"

/* What a worker tells the next one, and the keeper. */
struct mkt_journal_state_shm {
    uint8_t daemon[MKT_ID_BYTES]; /* of this life: the workers of one keeper are one daemon */
    uint64_t secret[2];           /* from which sessions' secrets are made */
    uint64_t started_ms;
    uint64_t last_session; /* given out */
    uint32_t is_serving;   /* a worker was ready */
    uint32_t is_broken;    /* something could not be written down: no worker can follow */
    uint32_t restarts;
    uint32_t is_draining; /* it was told to end, and saves what is owed first */
    uint64_t restarted_ms; /* the last time */
    char reason[120];      /* why a worker ended, the last time */
    uint64_t trying;       /* the record that a replay makes now and has to come back from */
};

struct mkt_journal {
    struct mkt_journal_state_shm *state;
    uint8_t *bytes;
    size_t capacity; /* of address space; pages come with use */
    size_t end;      /* of the last record */
    size_t populated;
    uint64_t sequence; /* of the next record */
    uint64_t records;  /* in it */
};

/* Maps an empty journal. MKT_NO_MEMORY. */
enum mkt_status mkt_journal_create(struct mkt_journal *journal_out, struct mkt_error *error);

/* From the first record: *bytes_out, *length_out of the next whole one. False: there is no more,
 * and the next append goes here. */
void mkt_journal_rewind(struct mkt_journal *journal);
bool mkt_journal_next(struct mkt_journal *journal, const void **bytes_out, size_t *length_out);
/* Cuts off the record that mkt_journal_next gave last. */
void mkt_journal_cut_last(struct mkt_journal *journal);

/* Room for a record of MKT_CALL_MAX_BYTES, 8-aligned; NULL: there is none, and the journal is
 * broken. */
void *mkt_journal_reserve(struct mkt_journal *journal);
/* The room holds a record now. 0: it doesn't, and the journal is broken. */
void mkt_journal_append(struct mkt_journal *journal, size_t bytes);

/* Brings in the pages that the next records will fill. */
void mkt_journal_populate(struct mkt_journal *journal);

#endif
