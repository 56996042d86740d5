/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/journal.h"

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/market/market.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

#define RECORD_MAGIC   UINT32_C(0x4c4e524a) /* "JRNL" */
#define CAPACITY_BYTES ((size_t)256 << 20)
#define AHEAD_BYTES    ((size_t)256 << 10)

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

enum mkt_status mkt_journal_create(struct mkt_journal *journal_out, struct mkt_error *error)
{
    struct mkt_journal journal = {.capacity = CAPACITY_BYTES, .sequence = 1};

    journal.state = mmap(NULL, sizeof(*journal.state), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    journal.bytes = mmap(NULL, journal.capacity, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (journal.state == MAP_FAILED || journal.bytes == MAP_FAILED ||
        getrandom(journal.state->daemon, MKT_ID_BYTES, 0) != MKT_ID_BYTES ||
        getrandom(journal.state->secret, sizeof(journal.state->secret), 0) !=
            sizeof(journal.state->secret))
        return mkt_error_set(error, MKT_NO_MEMORY, "no memory for a journal: %s", strerror(errno));
    madvise(journal.bytes, journal.capacity, MADV_DONTDUMP);
    *journal_out = journal;
    return MKT_OK;
}

void mkt_journal_rewind(struct mkt_journal *journal)
{
    journal->end = 0;
    journal->sequence = 1;
    journal->records = 0;
}

bool mkt_journal_next(struct mkt_journal *journal, const void **bytes_out, size_t *length_out)
{
    struct record_shm head;
    const uint8_t *at = journal->bytes + journal->end;

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

void *mkt_journal_reserve(struct mkt_journal *journal)
{
    if (journal->state->is_broken)
        return NULL;
    if (journal->capacity - journal->end < sizeof(struct record_shm) + MKT_CALL_MAX_BYTES) {
        mkt_journal_append(journal, 0);
        return NULL;
    }
    return journal->bytes + journal->end + sizeof(struct record_shm);
}

void mkt_journal_append(struct mkt_journal *journal, size_t bytes)
{
    struct record_shm *head = (struct record_shm *)(journal->bytes + journal->end);

    if (bytes == 0) {
        journal->state->is_broken = 1;
        mkt_log_error("journal", "it is full, or a message can't be written down: from now on the "
                                 "end of this process is the end of what is in memory");
        return;
    }
    head->magic = RECORD_MAGIC;
    head->bytes = (uint32_t)bytes;
    head->checksum = mkt_hash64(head + 1, bytes, journal->sequence);
    __atomic_store_n(&head->sequence, journal->sequence, __ATOMIC_RELEASE);
    journal->end += sizeof(*head) + padded(bytes);
    journal->sequence++;
    journal->records++;
}

void mkt_journal_populate(struct mkt_journal *journal)
{
    size_t wanted = (journal->end + AHEAD_BYTES) & ~(AHEAD_BYTES - 1);

    if (wanted + AHEAD_BYTES <= journal->capacity)
        wanted += AHEAD_BYTES;
    if (wanted <= journal->populated)
        return;
    /* Failure: each page comes with its first record. */
    madvise(journal->bytes + journal->populated, wanted - journal->populated, MADV_POPULATE_WRITE);
    journal->populated = wanted;
}
