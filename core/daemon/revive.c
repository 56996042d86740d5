/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker that follows one that died: takes over what the keeper holds, makes the market again
 * from the journal, and waits for the clients to connect anew.
 */
#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/daemon/daemon.h"
#include "core/daemon/stubs.h"

#include <inttypes.h>
#include <string.h>

#define GRACE_MS 30000u /* for a client whose process can't be watched */

void mkt_session_secret(const struct mkt_daemon *daemon, uint64_t session,
                        uint8_t secret_out[MKT_ID_BYTES])
{
    uint64_t parts[2] = {0};

    if (daemon->keeper) {
        const struct mkt_journal_state_shm *state = daemon->keeper->journal.state;
        for (int i = 0; i < 2; i++)
            parts[i] = mkt_hash64(&session, sizeof(session), state->secret[i]);
    }
    memcpy(secret_out, parts, MKT_ID_BYTES);
}

struct reading {
    struct mkt_journal *journal;
    uint64_t end; /* the record that is not read any more */
};

static bool next_record(void *context, const void **bytes_out, size_t *length_out)
{
    struct reading *reading = context;

    return reading->journal->sequence < reading->end &&
           mkt_journal_next(reading->journal, bytes_out, length_out);
}

/* How far the journal goes. The last call may be what killed the worker half-way: if it has done so
 * twice, it is left out. */
static uint64_t find_end(struct mkt_journal *journal, bool *is_done_out)
{
    struct mkt_journal_state_shm *state = journal->state;
    const void *bytes;
    size_t length;

    while (mkt_journal_next(journal, &bytes, &length))
        ;
    uint64_t end = journal->sequence;
    *is_done_out = state->done >= end;
    if (!*is_done_out && state->trying == end - 1) {
        mkt_log_error("keeper", "the last message killed two workers: it is left out");
        *is_done_out = true;
        end--;
    }
    state->trying = *is_done_out ? 0 : end - 1;
    return end;
}

static enum mkt_status replay(struct mkt_daemon *daemon, struct mkt_error *error)
{
    struct mkt_journal *journal = &daemon->keeper->journal;
    struct reading reading = {.journal = journal};
    const void *dump;
    size_t bytes;
    bool is_done = true;
    enum mkt_status status = mkt_journal_rewind(journal, &dump, &bytes, error);

    if (status == MKT_OK) {
        reading.end = find_end(journal, &is_done);
        status = mkt_journal_rewind(journal, &dump, &bytes, error);
    }
    if (status == MKT_OK && dump)
        status = mkt_market_restore(daemon->market, dump, bytes, error);
    if (status == MKT_OK)
        status = mkt_market_replay(daemon->market, next_record, &reading, is_done, error);
    if (status == MKT_OK)
        status = mkt_market_audit(daemon->market, error);
    journal->state->trying = 0;
    mkt_journal_done(journal);
    return status;
}

static enum mkt_status add_absent(struct mkt_daemon *daemon, const struct mkt_session_info *info,
                                  struct mkt_error *error)
{
    struct mkt_connection *connection;
    int pidfd = mkt_keeper_take(daemon->keeper, mkt_kept_key(MKT_KEPT_PROCESS, info->session));
    enum mkt_status status =
        mkt_connection_create_absent(&daemon->loop, pidfd, info->ended ? 0 : GRACE_MS,
                                     &mkt_shell_connection_ops, daemon, &connection, error);

    if (status != MKT_OK)
        return status;
    connection->session = info->session;
    connection->pid = info->pid;
    snprintf(connection->program, sizeof(connection->program), "%s", info->program);
    HASH_ADD(by_session, daemon->connections, session, sizeof(connection->session), connection);
    daemon->connections_count++;
    return MKT_OK;
}

struct adding {
    struct mkt_daemon *daemon;
    struct mkt_error *error;
    enum mkt_status status;
};

static void add_session(void *context, const struct mkt_session_info *info)
{
    struct adding *adding = context;

    if (adding->status == MKT_OK)
        adding->status = add_absent(adding->daemon, info, adding->error);
}

static void log_revival(const struct mkt_daemon *daemon, uint64_t begun_ms)
{
    struct mkt_market_usage usage;

    mkt_market_usage(daemon->market, &usage);
    mkt_log_warning("keeper",
                    "a worker ended (%s) and this one goes on: %" PRIu64 " records read in %" PRIu64
                    " ms, %u version(s) of %u file(s), %u open, %u programs to come back",
                    daemon->keeper->journal.state->reason, daemon->keeper->journal.records,
                    mkt_now_ms() - begun_ms, usage.versions, usage.objects, usage.groups,
                    usage.sessions);
}

enum mkt_status mkt_daemon_revive(struct mkt_daemon *daemon, struct mkt_error *error)
{
    struct adding adding = {.daemon = daemon, .error = error};
    struct mkt_journal_state_shm *state = daemon->keeper->journal.state;
    struct mkt_market_usage usage;
    uint64_t begun_ms = mkt_now_ms();

    memcpy(daemon->id, state->daemon, MKT_ID_BYTES);
    daemon->started_ms = state->started_ms;
    daemon->last_session = state->last_session;
    mkt_stubs_revive(daemon->stubs);
    enum mkt_status status = replay(daemon, error);
    if (status != MKT_OK)
        return status;
    mkt_stubs_drop_withdrawn(daemon->stubs);
    mkt_market_each_session(daemon->market, add_session, &adding);
    mkt_market_usage(daemon->market, &usage);
    daemon->publishes = usage.publishes;
    if (adding.status == MKT_OK)
        log_revival(daemon, begun_ms);
    return adding.status;
}
