/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The market: objects, versions, arrays, pieces, who writes and who reads them, and who owns which
 * bytes. A pure state machine: no socket, clock, file, thread, randomness or HDF5. A message goes
 * in, state changes and answers come out through the operations table. The daemon is its shell; so
 * is the simulator. What a journal has to hold is the sequence of calls made here.
 *
 * Life of a version:
 *   OPEN(create) by all ranks -> group "writing" -> ADD* -> COMMIT by all ranks -> published ->
 * (replaced | withdrawn)
 *     -> retired: no new reader -> last reader gone -> its bytes are free
 *   a failure, a dead rank, or a mismatch -> poisoned: every COMMIT fails, bytes are free, the
 * former version stays
 *
 * Ownership of bytes: each range of an arena is free, or granted to one session, or part of one
 * group's or version's piece, image or index (pieces may be shared by versions of one object).
 * mkt_market_audit() proves it.
 *
 * ADD and COMMIT take the bytes they name out of the session's grants, also when they fail; only a
 * refused session keeps them until it is reclaimed. What a process could still touch is not used
 * again: all that a session held when its connection ended (grants, pieces, what it reads) stays
 * until it is reclaimed.
 *
 * PROBE answers OPENED with source VERSION (version 0: only a writer so far) or NATIVE, else
 * MKT_NOT_FOUND. LOOKUP gives all pieces that the group has added since it opened the file, those
 * that a flush published, too.
 *
 * COMMITTED with version 0: nothing is published, because nothing was written or the object was
 * withdrawn meanwhile.
 *
 * One thread owns a market. Times are milliseconds of a clock that never goes back.
 */
#ifndef MKT_MARKET_MARKET_H
#define MKT_MARKET_MARKET_H

#include "core/geometry/cost.h"
#include "core/wire/messages.h"

struct mkt_market;

/* A session or an arena of no NUMA node in particular. */
#define MKT_NO_NODE UINT32_MAX

#define MKT_BACKGROUND_YIELDS 0
#define MKT_BACKGROUND_FREE   UINT64_MAX /* no limit, and no yielding */

struct mkt_market_limits {
    uint64_t memory_bytes;    /* what all grants and versions may use together */
    uint64_t arena_bytes;     /* size of an arena; a larger request is refused (clients split) */
    uint64_t scratch_bytes;   /* first grant of a writer, 0: none */
    uint32_t nodes;           /* NUMA nodes that sessions may be near to; at most 1: no matter */
    uint32_t full_timeout_ms; /* a GRANT waits so long for memory */
    uint32_t join_timeout_ms; /* ranks of a group wait so long for the others' OPEN */
    uint32_t
        commit_timeout_ms; /* ... for the others' COMMIT, counted from the group's last message */
    uint32_t max_objects, max_groups, max_waiting; /* bounds of the tables */
    const char *max_objects_by;            /* what to raise for more objects; NULL: `max_objects` */
    uint32_t max_pieces;                   /* of one version */
    uint32_t max_readers, reader_grace_ms; /* named readers of a stream; see stream.c */
    /* The tier below memory. */
    uint64_t tier_bytes;                      /* what it may hold; 0: there is none */
    uint64_t tier_least_bytes;                /* smaller pieces stay in memory */
    uint64_t tier_high_bytes, tier_low_bytes; /* memory in use: above the one pieces move out, until
                                                 below the other */
    uint32_t promote_after; /* so many reads of a piece bring it back into memory; 0: none does */
    struct mkt_speeds tier_speeds;
    uint64_t background_rate; /* bytes a second that archivers move; MKT_BACKGROUND_YIELDS: all
                                 that they can while no program reads or writes, else none */
};

/* A move into memory: the bytes of `cold` from `from` on have their place in `memory`; those of the
 * spans are wanted. The structure lives during the call. */
struct mkt_market_reading {
    struct mkt_extent cold, memory;
    uint64_t from;
    uint32_t count;
    const struct mkt_span *spans;
};

/* Called from within the functions below; must not call back into the market. */
struct mkt_market_ops {
    /* Sends a reply. If populate->length > 0 the range's pages must be in memory before the message
     * leaves. Strings and lists of msg live only during the call. */
    void (*send)(void *context, uint64_t session, const struct mkt_msg *msg,
                 const struct mkt_extent *populate);
    /* Puts bytes into an extent (an index); they must be there before any later send. */
    void (*write)(void *context, const struct mkt_extent *extent, const void *bytes);
    /* Makes arena `arena` (ids count from 1) of arena_bytes, best of memory of `node` (or
     * MKT_NO_NODE). A failure's cause and remedy go into `error`, and from there to who asked for
     * the bytes. */
    enum mkt_status (*grow)(void *context, uint32_t arena, uint32_t node, uint64_t size_bytes,
                            struct mkt_error *error);
    /* A range became free. May be NULL. */
    void (*freed)(void *context, const struct mkt_extent *extent);
    /* The object is gone for good (withdrawn, or beyond `keep`): its stub, if it still stands, goes
     * too. */
    void (*drop_stub)(void *context, const uint8_t object[MKT_ID_BYTES]);
    /* Copies a piece into the tier, or spans of one from there into memory (where the first span
     * starts at `from`'s distance); mkt_market_moved says how that ended. May be called again for a
     * move, after a restart. NULL where there is no tier. */
    void (*move_out)(void *context, uint64_t move, const struct mkt_extent *memory);
    void (*move_in)(void *context, uint64_t move, const struct mkt_market_reading *reading);
    /* What lies there isn't needed any more. */
    void (*drop_cold)(void *context, const struct mkt_extent *cold);
    /* The session broke the protocol: close its connection (then call session_end). */
    void (*refuse)(void *context, uint64_t session, const char *why);
    /* A journal. Before a call changes anything it is written down: into the place that reserve
     * gives (at least MKT_CALL_MAX_BYTES; NULL: it can't be kept), then append says how long it
     * became (0: it can't be written). What append returned for is safe, so nothing of a call
     * leaves before. NULL: no journal. */
    void *(*reserve)(void *context);
    void (*append)(void *context, size_t bytes);
    /* The call that was written down last has had all its effects. */
    void (*done)(void *context);
};
#define MKT_CALL_MAX_BYTES (MKT_FRAME_MAX_BYTES + 256u)

struct mkt_market *mkt_market_create(const struct mkt_market_limits *limits,
                                     const struct mkt_market_ops *ops, void *context);
void mkt_market_destroy(struct mkt_market *market);

/* A client connected and said who it is. `session` is never reused. What is granted to it comes
 * from arenas of `node` (or MKT_NO_NODE) where that can be had at once, else from others. */
enum mkt_status mkt_market_session_begin(struct mkt_market *market, uint64_t session,
                                         const char *program, uint32_t pid, uint32_t node);
/* Its connection is gone: its groups are poisoned or closed, its waits end; its grants stay
 * untouched ... */
void mkt_market_session_end(struct mkt_market *market, uint64_t session, uint64_t now_ms);
/* ... until its process is known to be dead and can't write any more. Also after session_end only.
 */
void mkt_market_session_reclaim(struct mkt_market *market, uint64_t session, uint64_t now_ms);
/* After session_end: true if its process can touch nothing any more, so that it may be reclaimed
 * while the process lives. */
bool mkt_market_session_is_bare(const struct mkt_market *market, uint64_t session);

/* One message of a session: OPEN, CANCEL, GRANT, RELEASE, ADD, TOUCH, LOOKUP, COMMIT, CLOSE,
 * WITHDRAW, END. */
void mkt_market_message(struct mkt_market *market, uint64_t session, const struct mkt_msg *msg,
                        uint64_t now_ms);

/* There was no memory under the extent that the answer to this request hands out, so the client
 * must not get it: an open goes on without its first grant, a grant fails. */
void mkt_market_no_pages(struct mkt_market *market, uint64_t session, uint64_t request,
                         const struct mkt_extent *extent, uint64_t now_ms);

/* A move ended: MKT_OK (of one out of memory: where the piece lies now), or why it failed. */
void mkt_market_moved(struct mkt_market *market, uint64_t move, enum mkt_status status,
                      const struct mkt_extent *cold, uint64_t now_ms);
/* Why the last move out failed, for messages to users; NULL: it didn't. */
void mkt_market_note_tier(struct mkt_market *market, const char *failure);
/* After a restart: asks again for what was under way. */
void mkt_market_move_again(struct mkt_market *market);
/* Where a piece of a version is now: in memory if it is there. False: there is no such piece. */
bool mkt_market_find_piece(const struct mkt_market *market, const uint8_t object[MKT_ID_BYTES],
                           uint64_t version, uint64_t identity, uint64_t stamp,
                           struct mkt_extent *place_out);
/* Everything that lies in the tier, some of it more than once. */
typedef void (*mkt_cold_fn)(void *context, const struct mkt_extent *cold);
void mkt_market_each_cold(const struct mkt_market *market, mkt_cold_fn fn, void *context);

/* A session whose client connected anew: sends its last answer again, since it may have been lost
 * on the way. What the client asked up to *processed_out (0: nothing) has been handled and must not
 * be asked again. MKT_NOT_FOUND: there is no such session, or it has ended. */
enum mkt_status mkt_market_session_resume(struct mkt_market *market, uint64_t session,
                                          uint64_t *processed_out);
void mkt_market_answer_again(struct mkt_market *market, uint64_t session);

/* Ends what is past its deadline; the time of the next one, UINT64_MAX if there is none. */
void mkt_market_tick(struct mkt_market *market, uint64_t now_ms);
uint64_t mkt_market_next_deadline(const struct mkt_market *market);
/* From when on work in the background disturbs no program, as far as one can tell. Each request of
 * a program puts it off. */
uint64_t mkt_market_quiet_ms(const struct mkt_market *market);

/* The stub of this object, or the file on disk that it is known by, was removed: its versions are
 * withdrawn; but where something else has `replaced` it, a version that is still to be saved stays.
 * False: nothing was done, since the object's own file may be taking its place; look again later.
 */
bool mkt_market_stub_removed(struct mkt_market *market, const uint8_t object[MKT_ID_BYTES],
                             bool replaced, uint64_t now_ms);

/* What an observer may ask. Nothing here changes state; strings live until the next change. */
struct mkt_market_usage {
    uint64_t limit_bytes, used_bytes, granted_bytes,
        published_bytes; /* used = all that isn't free */
    uint64_t live_bytes; /* of versions a reader can open or has open: data + images */
    uint32_t arenas, sessions, objects, versions, groups, waiting_opens, waiting_grants;
    uint64_t unsaved_versions, unsaved_bytes;         /* mode BOTH: not on disk yet */
    uint64_t evictable_versions;                      /* on disk, so that they may be given up */
    uint64_t saved_versions, saved_bytes, yielded_ms; /* since the start; yielded: archivers waited
                                                         for programs, or for their rate */
    uint64_t publishes, withdrawals, requests, replies; /* requests: one-way messages, too */
    uint64_t added_bytes, read_opens; /* since the start: data of pieces; versions opened to read */
    uint64_t tier_limit_bytes, tier_bytes; /* what lies in the tier */
    uint64_t moved_out_bytes, moved_in_bytes,
        fetches;              /* since the start; of these, reads of a part */
    uint32_t moves;           /* under way */
    const char *tier_failure; /* the market's; what mkt_market_note_tier said, "" for nothing */
};
/* Costs the same however much there is: it is asked after each message. */
void mkt_market_usage(const struct mkt_market *market, struct mkt_market_usage *usage_out);

/* Where a version is, beside in memory. */
enum mkt_saving {
    MKT_SAVING_NONE, /* nowhere: it is of mode memory, or a newer one is on disk */
    MKT_SAVING_UNSAVED,
    MKT_SAVING_RUNNING,
    MKT_SAVING_FAILING, /* tried in vain, and tried again */
    MKT_SAVING_SAVED
};
struct mkt_saving_info {
    enum mkt_saving state;
    uint32_t tries;      /* failed ones */
    uint64_t retry_ms;   /* FAILING: when it is tried again */
    const char *failure; /* why the last try failed; NULL: it didn't */
};

struct mkt_object_info {
    uint8_t object[MKT_ID_BYTES];
    const char *path;
    uint64_t newest_version; /* 0: none yet */
    uint32_t versions, readers;
    uint64_t bytes, tier_bytes; /* of all; of these, what isn't in memory */
    bool has_writer, has_stub;
    const char *writer_program;
    uint32_t writer_pid, writer_ranks;
    uint64_t file_dev, file_ino;
    uint32_t mode, durability, priority; /* as its last writer's rule said */
    bool backup;
    struct mkt_saving_info saving; /* of the newest version */
    bool keeps_some;               /* ... whose file on disk lacks datasets of mode memory */
};
struct mkt_version_info {
    uint64_t version, published_ms, data_bytes, image_bytes, index_bytes, pieces;
    uint64_t tier_bytes; /* of the data: what isn't in memory */
    uint32_t arrays, readers;
    bool newest; /* the one that readers get */
    bool hidden; /* from readers, by `publish: close N` */
    struct mkt_saving_info saving;
};
typedef void (*mkt_object_fn)(void *context, const struct mkt_object_info *info);
typedef void (*mkt_version_fn)(void *context, const struct mkt_version_info *info);
void mkt_market_each_object(const struct mkt_market *market, mkt_object_fn fn, void *context);
void mkt_market_each_version(const struct mkt_market *market, const uint8_t object[MKT_ID_BYTES],
                             mkt_version_fn fn, void *context);
/* The object that a name stands for now; false: none. */
bool mkt_market_resolve(const struct mkt_market *market, const struct mkt_name *name,
                        uint8_t object_out[MKT_ID_BYTES]);

/* Who waits for whom or for what, now. */
enum mkt_wait_kind {
    MKT_WAIT_MEMORY, /* to write */
    MKT_WAIT_FETCH,  /* for memory, to read what lies in the tier */
    MKT_WAIT_OPEN    /* for a version */
};
struct mkt_wait_info {
    enum mkt_wait_kind kind;
    const char *program;
    uint32_t pid;
    uint64_t waited_ms, bytes;   /* bytes: 0 for an open */
    const char *path, *waits_on; /* of an open; waits_on: its writer, empty if there is none */
};
typedef void (*mkt_wait_fn)(void *context, const struct mkt_wait_info *info);
void mkt_market_each_wait(const struct mkt_market *market, uint64_t now_ms, mkt_wait_fn fn,
                          void *context);
/* The stream that an object is of. */
struct mkt_stream_info {
    const char *pattern;                        /* NULL: its own */
    uint32_t readers, queue, unread, end_after; /* as the rule says; unread: of the queue */
    uint64_t published;
    bool consumed, ended;
};
struct mkt_reader_info {
    const char *name, *program;
    uint32_t pid, deliver, every;
    bool is_here, is_gone;
    uint64_t delivered, skipped, last; /* last: the number of the version it got last */
    uint64_t unread;                   /* versions of this object that it has still to read */
};
typedef void (*mkt_reader_fn)(void *context, const struct mkt_reader_info *info);
/* False: it is of none. */
bool mkt_market_stream(const struct mkt_market *market, const uint8_t object[MKT_ID_BYTES],
                       struct mkt_stream_info *info_out);
void mkt_market_each_reader(const struct mkt_market *market, const uint8_t object[MKT_ID_BYTES],
                            mkt_reader_fn fn, void *context);

struct mkt_session_info {
    uint64_t session;
    const char *program;
    uint32_t pid;
    bool ended;
};
typedef void (*mkt_session_fn)(void *context, const struct mkt_session_info *info);
void mkt_market_each_session(const struct mkt_market *market, mkt_session_fn fn, void *context);

struct mkt_arena_info {
    uint32_t arena, node;
    uint64_t used_bytes; /* what isn't free */
};
typedef void (*mkt_arena_fn)(void *context, const struct mkt_arena_info *info);
void mkt_market_each_arena(const struct mkt_market *market, mkt_arena_fn fn, void *context);

/* True if such an object was there not too long ago, and went. */
bool mkt_market_was_withdrawn(const struct mkt_market *market, const uint8_t object[MKT_ID_BYTES]);

/* Calls fn for each free range of each arena, arena by arena in address order: what the owner of
 * the pages may give back. */
typedef void (*mkt_market_free_fn)(void *context, const struct mkt_extent *extent);
void mkt_market_each_free(const struct mkt_market *market, mkt_market_free_fn fn, void *context);

/* ---- a journal's other end ---- */
/* The whole state as bytes, for another process of this very program: a journal may begin here.
 * MKT_NO_SPACE: more than `capacity`. */
enum mkt_status mkt_market_dump(struct mkt_market *market, void *bytes, size_t capacity,
                                size_t *length_out);
/* The same state, on a market just created with the same limits. Uses the operation `grow`.
 * MKT_CORRUPT, also if memory is short: then the market is of no use, and what it holds isn't
 * given back. */
enum mkt_status mkt_market_restore(struct mkt_market *market, const void *bytes, size_t length,
                                   struct mkt_error *error_out);
/* The next record, true; or false: that was the last. The bytes live as long as the replay. */
typedef bool (*mkt_record_fn)(void *context, const void **bytes_out, size_t *length_out);
/* Makes the calls of a journal again, on a market as it was when the journal began. Of the
 * operations only `grow` is used, for arenas that came to be; but if the last call isn't `is_done`,
 * whoever made it died half-way, and it has all its effects again, though no answer leaves.
 * MKT_CORRUPT: a record that is none. */
enum mkt_status mkt_market_replay(struct mkt_market *market, mkt_record_fn next, void *context,
                                  bool is_done, struct mkt_error *error_out);

/* Checks every invariant (each byte owned once, counts right, no dead reference). MKT_OK or
 * MKT_CORRUPT with text. For tests. */
enum mkt_status mkt_market_audit(const struct mkt_market *market, struct mkt_error *error_out);

#endif
