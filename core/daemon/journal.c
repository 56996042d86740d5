/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/journal.h"

#include "core/base/fault.h"
#include "core/base/hash.h"
#include "core/base/log.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

#define RECORD_MAGIC UINT32_C(0x4c4e524a) /* "JRNL" */
#define PLACE_BYTES  ((size_t)8 << 30)    /* of address space; less where that is short */
#define PLACE_LEAST  ((size_t)64 << 20)
#define LIMIT_BYTES  ((size_t)4 << 20)
#define AHEAD_BYTES  ((size_t)256 << 10)
#define KEPT_BYTES   ((size_t)16 << 20) /* pages of a place that isn't in use */

/* Before each record. What was there before has another sequence. */
struct record_shm {
    uint64_t sequence; /* written last */
    uint64_t checksum; /* of the payload, seeded with the sequence */
    uint32_t magic, bytes;
};
_Static_assert(sizeof(struct record_shm) == 24, "a record's head");

static size_t padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

static uint8_t *place_in_use(const struct mkt_journal *journal)
{
    return journal->bytes[journal->state->in_use];
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory != MAP_FAILED ? memory : NULL;
}

/* Both places in one piece of address space. */
static bool map_places(struct mkt_journal *journal)
{
    for (size_t bytes = PLACE_BYTES; bytes >= PLACE_LEAST; bytes /= 2) {
        uint8_t *memory = map(2 * bytes);
        if (!memory)
            continue;
        madvise(memory, 2 * bytes, MADV_DONTDUMP);
        journal->capacity = bytes;
        journal->bytes[0] = memory;
        journal->bytes[1] = memory + bytes;
        return true;
    }
    return false;
}

enum mkt_status mkt_journal_create(struct mkt_journal *journal_out, struct mkt_error *error)
{
    struct mkt_journal journal = {.sequence = 1, .limit = LIMIT_BYTES};
    struct mkt_journal_state_shm *state = map(sizeof(*state));

    journal.state = state;
    if (!state || !map_places(&journal) ||
        getrandom(state->daemon, MKT_ID_BYTES, 0) != MKT_ID_BYTES ||
        getrandom(state->secret, sizeof(state->secret), 0) != sizeof(state->secret))
        return mkt_error_set(error, MKT_NO_MEMORY, "no memory for a journal: %s", strerror(errno));
    state->place[0].first = 1;
    *journal_out = journal;
    return MKT_OK;
}

/* ---- writing ---- */

static void set_broken(struct mkt_journal *journal)
{
    if (journal->state->is_broken)
        return;
    journal->state->is_broken = 1;
    mkt_log_error("journal", "it is full, or a message can't be written down: from now on the end "
                             "of this process is the end of what is in memory");
}

void *mkt_journal_reserve(struct mkt_journal *journal)
{
    if (journal->capacity - journal->end < sizeof(struct record_shm) + MKT_CALL_MAX_BYTES)
        set_broken(journal);
    if (journal->state->is_broken)
        return NULL;
    return place_in_use(journal) + journal->end + sizeof(struct record_shm);
}

void mkt_journal_append(struct mkt_journal *journal, size_t bytes)
{
    struct record_shm *head = (struct record_shm *)(place_in_use(journal) + journal->end);

    if (bytes == 0) {
        set_broken(journal);
        return;
    }
    head->magic = RECORD_MAGIC;
    head->bytes = (uint32_t)bytes;
    (void)mkt_fault_point("journal.half-written");
    head->checksum = mkt_hash64(head + 1, bytes, journal->sequence);
    __atomic_store_n(&head->sequence, journal->sequence, __ATOMIC_RELEASE);
    journal->end += sizeof(*head) + padded(bytes);
    journal->sequence++;
    journal->records++;
    (void)mkt_fault_point("journal.appended");
}

void mkt_journal_begin_anew(struct mkt_journal *journal, struct mkt_market *market)
{
    struct mkt_journal_state_shm *state = journal->state;
    uint32_t other = 1 - state->in_use;
    size_t bytes, room = journal->capacity - PLACE_LEAST / 2, used = journal->end;

    if (state->is_broken)
        return;
    if (mkt_market_dump(market, journal->bytes[other], room, &bytes) != MKT_OK) {
        mkt_log_error("journal", "what is in the market doesn't fit into %zu bytes", room);
        set_broken(journal);
        return;
    }
    (void)mkt_fault_point("journal.dumped");
    state->place[other] = (struct mkt_journal_place_shm){
        .dump_bytes = bytes,
        .dump_checksum = mkt_hash64(journal->bytes[other], bytes, journal->sequence),
        .first = journal->sequence};
    __atomic_store_n(&state->in_use, other, __ATOMIC_RELEASE);
    state->dumps++;
    journal->end = padded(bytes);
    journal->records = 0;
    (void)mkt_fault_point("journal.began-anew");
    if (used <= KEPT_BYTES)
        return;
    madvise(journal->bytes[1 - other] + KEPT_BYTES, journal->capacity - KEPT_BYTES, MADV_REMOVE);
    journal->populated[1 - other] = 0;
}

void mkt_journal_populate(struct mkt_journal *journal)
{
    uint32_t place = journal->state->in_use;
    size_t wanted = (journal->end + 2 * AHEAD_BYTES) & ~(AHEAD_BYTES - 1);

    if (wanted <= journal->populated[place] || wanted > journal->capacity)
        return;
    /* Failure: each page comes with its first record. */
    madvise(journal->bytes[place] + journal->populated[place], wanted - journal->populated[place],
            MADV_POPULATE_WRITE);
    journal->populated[place] = wanted;
}

/* ---- reading ---- */

enum mkt_status mkt_journal_rewind(struct mkt_journal *journal, const void **dump_out,
                                   size_t *bytes_out, struct mkt_error *error)
{
    const struct mkt_journal_place_shm *place = &journal->state->place[journal->state->in_use];

    if (place->dump_bytes > journal->capacity)
        return mkt_error_set(error, MKT_CORRUPT, "the journal can't be read");
    *bytes_out = place->dump_bytes;
    *dump_out = place->dump_bytes > 0 ? place_in_use(journal) : NULL;
    if (*dump_out && mkt_hash64(*dump_out, place->dump_bytes, place->first) != place->dump_checksum)
        return mkt_error_set(error, MKT_CORRUPT, "the journal's beginning can't be read");
    journal->end = padded(place->dump_bytes);
    journal->sequence = place->first;
    journal->records = 0;
    return MKT_OK;
}

bool mkt_journal_next(struct mkt_journal *journal, const void **bytes_out, size_t *length_out)
{
    struct record_shm head;
    const uint8_t *at = place_in_use(journal) + journal->end;

    if (journal->capacity - journal->end < sizeof(head))
        return false;
    memcpy(&head, at, sizeof(head));
    if (head.sequence != journal->sequence || head.magic != RECORD_MAGIC ||
        head.bytes > MKT_CALL_MAX_BYTES ||
        head.bytes > journal->capacity - journal->end - sizeof(head) ||
        mkt_hash64(at + sizeof(head), head.bytes, head.sequence) != head.checksum)
        return false;
    *bytes_out = at + sizeof(head);
    *length_out = head.bytes;
    journal->end += sizeof(head) + padded(head.bytes);
    journal->sequence++;
    journal->records++;
    return true;
}
