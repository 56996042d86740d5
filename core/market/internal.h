/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared inside core/market only: the tables and the seams between its files.
 *
 * Who owns what. A session owns its grants. A writer group owns the pieces that its ranks added,
 * until every rank is done with the group, even when it is poisoned long before: a rank that hasn't
 * heard yet may still write into its own pieces and read the others'. A version holds references on
 * its pieces and on its image, and owns its index. Sessions that ended but whose process may still
 * live keep all that it could touch.
 */
#ifndef MKT_MARKET_INTERNAL_H
#define MKT_MARKET_INTERNAL_H

#include "core/market/market.h"
#include "media/space.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

enum {
    MKT_MAX_SESSIONS = 65536,
    MKT_MAX_RANKS = 65536,  /* of one group on this node */
    MKT_MAX_RANGES = 65536, /* separate ranges granted to one session */
    MKT_WITHDRAWN_REMEMBERED = 1024,
    MKT_FAILED_JOINS_REMEMBERED = 64,
    MKT_REPLACED_REMEMBERED = 64,
    MKT_MOVES_AT_ONCE = 8, /* out of memory; twice as many in all */
    MKT_DEFERRED_RANGES = 256,
    MKT_WAITING_BUCKETS = 4096, /* of opens that wait, by what for */
    MKT_REPLAY_GROWN = 256,     /* new arenas in one call */
    MKT_STUB_RACE_MS = 5000,    /* see open.c */
    MKT_PATH_TEXT_BYTES = 400   /* of a path in a text; its end counts */
};

/* ---- ranges.c: a set of byte ranges, in whole granules ---- */

struct range {
    uint32_t arena;
    uint64_t offset, length;
};
struct ranges {
    struct range *item; /* sorted, disjoint, neighbours merged */
    uint32_t count, capacity;
    uint64_t bytes;
};

void mkt_ranges_fini(struct ranges *ranges);
/* MKT_NO_MEMORY, or MKT_NO_SPACE if there would be more than MKT_MAX_RANGES. */
enum mkt_status mkt_ranges_put(struct ranges *ranges, const struct mkt_extent *extent);
/* Takes out what must be inside one range. MKT_PROTOCOL if it isn't, MKT_NO_MEMORY. */
enum mkt_status mkt_ranges_take(struct ranges *ranges, const struct mkt_extent *extent);

/* ---- heap.c: what comes first of many; a place in it is found in the logarithm of their number
 * ---- */

struct ranked {
    uint64_t key, tie; /* the lowest first; no two are the same in both */
    uint32_t place;    /* in the heap, from 1 on; 0: not in it */
};
struct heap {
    struct ranked **item;
    uint32_t count, capacity;
};

/* Room for so many, so that to put one in can't fail. MKT_NO_MEMORY. */
enum mkt_status mkt_heap_reserve(struct heap *heap, uint32_t count);
/* Also one that is in it and has another key now. */
void mkt_heap_put(struct heap *heap, struct ranked *ranked);
void mkt_heap_take(struct heap *heap, struct ranked *ranked);
struct ranked *mkt_heap_first(const struct heap *heap);
void mkt_heap_fini(struct heap *heap);

/* ---- sessions ---- */

struct group;
struct object;

/*
 * ABSENT -OPEN-> WAITING -OPENED-> ACTIVE <-(keep_open)- COMMITTING <-COMMIT- ACTIVE
 *   any but ABSENT -session_end-> GONE -session_reclaim-> DONE;   ACTIVE, COMMITTING -last answer
 * or CLOSE-> DONE
 */
enum member_state {
    MEMBER_ABSENT,
    MEMBER_WAITING,
    MEMBER_ACTIVE,
    MEMBER_COMMITTING,
    MEMBER_GONE,
    MEMBER_DONE
};

struct member {
    struct group *group;
    struct session *session; /* NULL when ABSENT or DONE */
    uint32_t rank;
    enum member_state state;
    uint64_t request;      /* WAITING, COMMITTING: what is to be answered */
    uint64_t commit_stamp; /* COMMITTING: pieces from this stamp on came after the COMMIT */
    uint64_t hash;
    bool unchanged, keep_open;
    struct member *prev, *next; /* of the session */
};

struct session {
    uint64_t id;
    char program[64];
    uint32_t pid, node;
    bool ended, refused;
    bool drains;           /* see mkt_save_drain */
    bool yields;           /* it has said SAVE_YIELD: what it does is background */
    uint64_t last_request; /* the highest that was handled; not of a CANCEL, which names another */
    /* The last answer, as a frame, for a client that has to connect anew. */
    uint8_t *reply;
    uint32_t reply_bytes, reply_capacity;
    struct ranges grants; /* changed by mkt_session_grant and mkt_session_take only */
    struct member *members;
    struct grant_wait *grant_waits;
    struct move *fetches;        /* that it waits for */
    uint32_t save_waits, saving; /* its own; versions that it is saving */
    struct attendance *attendances;
    UT_hash_handle hh;
};

/* ---- streams: see stream.c ---- */

/*
 * A name under which programs read a stream. Its place in the stream's list is its bit in a
 * version's `had` and `read`.
 *   (new) -a session comes-> HERE -the last one ends-> LEAVING -the grace is over-> GONE
 *   LEAVING, GONE -a session comes-> HERE
 */
enum reader_state {
    READER_HERE,
    READER_LEAVING,
    READER_GONE /* nothing waits for it, and nothing is kept for it */
};
struct reader {
    char name[MKT_READER_NAME_BYTES];
    char program[64]; /* of who came last under the name */
    uint32_t pid;
    uint32_t deliver, every;
    enum reader_state state;
    uint32_t sessions; /* that have come and are there */
    bool told;         /* of the stream's end, since it began or began anew */
    bool is_early;     /* it came after it was told: for what begins anew */
    uint64_t left_ms;  /* LEAVING, GONE: since when */
    uint64_t delivered, skipped, untold, last;
};

struct stream {
    char *key;         /* a rule's pattern; or, for the stream of one object, made of its id */
    bool is_patterned; /* the former */
    bool consumed, ended;
    uint32_t keep, readers_wanted, queue, end_after;
    uint64_t published;       /* since it began, or began anew after an end */
    uint32_t writers;         /* sessions that have written it and are there */
    uint32_t count, capacity; /* named readers */
    uint32_t references;      /* objects', versions', attendances' */
    struct reader *reader;
    struct version *versions; /* in order of publication */
    uint32_t versions_count;
    uint64_t dumped;
    UT_hash_handle hh;
};

/* A session takes part in a stream. */
struct attendance {
    struct stream *stream;
    int32_t reader; /* its place; -1: it writes */
    struct attendance *prev, *next;
};

/* ---- objects and versions ---- */

/* A name, its strings owned. */
struct owned_name {
    uint8_t object[MKT_ID_BYTES];
    struct mkt_file_identity file;
    uint8_t *place; /* folder's device and inode, then the leaf */
    uint32_t place_bytes;
    char *path; /* NUL-terminated */
};

struct held_piece {
    uint32_t references; /* the group's, and one a version */
    uint32_t versions;   /* of these, versions */
    uint32_t rank;       /* of the group, who added it */
    uint32_t element_bytes;
    bool published : 1; /* in a version of its group: its bytes never change any more */
    bool is_copy : 1;   /* in memory and in the tier, and in the market's list of these */
    uint8_t reads;      /* from the tier */
    uint16_t moves;     /* of the references: moves that aren't over */
    uint32_t record_bytes;
    uint64_t stamp;
    struct mkt_extent data, cold,
        table; /* data: in memory, cold: in the tier; length 0: not there */
    struct held_piece *copy_prev, *copy_next;
    uint64_t dumped;  /* see dump.c, also below */
    uint8_t record[]; /* encoded, with its stamp */
};

struct held_image {
    uint32_t references;
    struct mkt_extent extent;
    uint64_t dumped;
};

struct version_array {
    struct mkt_array info;
    struct held_piece *
        *piece; /* in the order in which the later wins; part of the version's one list */
    uint32_t count;
};

/* What `keep` counts over: all versions of the objects whose rule has this pattern. */
struct set {
    char *pattern;
    uint32_t keep, references;
    struct version *versions; /* in order of publication */
    uint32_t count;
    UT_hash_handle hh;
};

/*
 * NONE: memory only.   PENDING <-failure, its saver's end- RUNNING -SAVE_PLACE-> PLACING -> SAVED
 *                      PENDING -SAVE_ORDER-> RUNNING
 */
enum save_state {
    SAVE_NONE,
    SAVE_PENDING,
    SAVE_RUNNING,
    SAVE_PLACING, /* its file may be at its place already */
    SAVE_SAVED
};

struct save {
    enum save_state state;
    uint32_t durability, priority;
    uint32_t tries, deaths; /* attempts that failed; whose saver ended meanwhile */
    uint64_t retry_ms;      /* PENDING: not before */
    struct session *saver;  /* RUNNING, PLACING */
    bool held; /* pinned since it is PENDING although retired: its file may be at its place */
    struct mkt_file_identity placed; /* of what PLACING puts there */
    struct group *closers;           /* whose ranks' COMMITs are answered when it is saved; list */
};

struct version {
    struct object *object; /* referenced */
    uint64_t number, published_ms;
    struct version_array *array;
    uint32_t arrays;
    struct held_piece **piece;
    uint64_t pieces, data_bytes;
    uint64_t last_identity;   /* the highest of its arrays */
    struct held_image *image; /* NULL: none */
    struct mkt_extent index;
    uint32_t pins, readers; /* groups that need its bytes; of these, readers */
    uint32_t closes;        /* writers' closes since the create, its own included */
    bool loaded;            /* it is what was on disk: it need not be saved */
    bool hidden;            /* `publish: close N`: for writers only, until the Nth close */
    bool retired;
    bool keeps_some;   /* what is on disk of it lacks arrays of mode memory: see save.c */
    bool index_is_old; /* pieces have moved since it was written: see tier.c, also below */
    bool is_main;
    uint8_t heat;
    struct ranked turn; /* in its queue, while it may have something to give */
    uint64_t
        stays; /* of its pieces the first so many are not in memory, or too small to leave it */
    struct save save;
    struct version *save_prev, *save_next; /* of the unsaved, or of the saved; see save.c */
    struct set *set;
    struct stream *stream; /* referenced; NULL: in none, or retired */
    uint64_t step;         /* of those of the object that readers saw, from 1 */
    uint64_t had, read;    /* by which named readers; had: open, or read */
    struct version *stream_prev, *stream_next;
    struct version *prev, *next;         /* of the object, ascending, not retired */
    struct version *set_prev, *set_next; /* of the set, not retired */
    struct version *all_prev, *all_next; /* of the market */
    uint64_t dumped;
};

struct object {
    uint8_t id[MKT_ID_BYTES];
    bool has_stub;
    bool gone;              /* out of the tables: withdrawn */
    struct owned_name name; /* of its last create; file_*: the real file that it knows */
    struct version *versions;
    uint32_t count;
    uint64_t last_version;
    struct group *writer;
    uint32_t keep;
    uint32_t mode, durability, priority; /* as its last writer's rule said */
    bool backup;
    bool pin;                /* it stays in memory */
    bool by_stub;            /* in which table of places it is */
    char *save_failure;      /* why its last save failed; NULL: it didn't */
    bool save_told;          /* a program has been told of it */
    uint64_t writer_session; /* rank 0's of its last writers */
    struct set *set;
    struct stream *stream; /* referenced; NULL: nobody takes it for one */
    uint64_t steps;        /* versions that readers saw */
    uint32_t references;   /* the tables', versions', writer groups' */
    uint64_t dumped;
    UT_hash_handle hh, hh_file, hh_place;
};

struct withdrawn {
    uint8_t id[MKT_ID_BYTES];
    uint64_t last_version;
    char why[128];
};

/* A file that an archiver replaced by its successor: who looked at the path just before means the
 * same object. */
struct replaced {
    struct mkt_file_identity file; /* ino 0: no entry */
    uint8_t object[MKT_ID_BYTES];
};

/* ---- groups ---- */

/* JOINING (ranks come) -> WAITING (a reader waits for a version) -> READING | WRITING -> all
 * members DONE */
enum group_state {
    GROUP_JOINING,
    GROUP_WAITING,
    GROUP_READING,
    GROUP_WRITING
};

struct group_array {
    uint64_t identity;
    struct mkt_array info; /* of the last ADD */
    struct held_piece **piece;
    uint32_t count, capacity;
    /* Who wrote last, its last stamp, and the last of everybody else. */
    uint32_t last_rank;
    uint64_t last_stamp, other_stamp;
    uint64_t listed_in; /* the newest version of the group that has it */
    UT_hash_handle hh;
};

struct group {
    uint64_t file;
    enum group_state state;
    uint32_t size, present, left, committed; /* ranks: come, not DONE, COMMITTING */
    struct member *member;
    uint8_t token[MKT_ID_BYTES];
    bool in_tokens, timed, doomed;
    uint32_t bucket; /* WAITING: of market->waiting, from 1 on; else 0 */

    /* What rank 0 asked. */
    uint32_t intent, mode, wait_ms, writer_timeout_ms, keep, publish_close;
    uint32_t durability, priority;
    uint64_t version, after_ms;
    bool has_stub, has_name, backup, pin, read_only;
    struct owned_name name;
    char *set;
    struct mkt_stream_rule stream; /* without its `reader`: */
    char reader[MKT_READER_NAME_BYTES];
    int32_t reader_place;   /* in the stream of the object; -1: none */
    uint32_t closed;        /* READING: ranks that closed it */
    uint32_t stream_looked; /* see mkt_stream_serve */

    uint64_t started_ms, last_ms;
    struct ranked deadline; /* key: ms; while it is timed */
    char waits_on[96];      /* the writer, for texts; empty: nobody */

    struct object *object; /* READING, WRITING: referenced */
    struct version
        *version_open; /* READING: what is read; WRITING: what it started from, or NULL; pinned */
    uint64_t version_number; /* WRITING: the newest that it knows */
    bool poisoned;
    char cause[512];
    struct group_array *arrays;
    uint32_t pieces;
    bool published;         /* for the last time: what is left are ranks to be answered */
    struct version *awaits; /* its file has to be safe before the COMMITs are answered */
    struct group *await_prev, *await_next; /* of those that await it */
    struct ranges spoilt;                  /* added after the poisoning */
    struct mkt_array *listed;
    uint32_t listed_count, listed_capacity;
    struct held_image *image;

    UT_hash_handle hh, hh_token;
    struct group *prev, *next;           /* of its bucket */
    struct group *load_prev, *load_next; /* of those that bring a file in */
    struct group *doomed_next;
};

struct grant_wait {
    struct session *session;
    uint64_t request, bytes, align, started_ms, deadline_ms;
    uint64_t told_ms; /* when its program was told on whom it waits; 0: not yet */
    struct grant_wait *prev, *next, *session_prev, *session_next;
};

/* A piece on its way into the tier, or back. See tier.c. */
struct move {
    uint64_t id;
    bool in, begun;           /* not begun: a reader's that waits for memory */
    bool keeps;               /* IN: the piece stays in memory afterwards */
    struct held_piece *piece; /* referenced */
    struct object *object;    /* of whose versions; referenced */
    struct version *version;  /* OUT: whose it is; NULL once that has gone */
    struct mkt_extent memory; /* OUT: the piece's own; IN: what is read goes there, the move's */
    uint64_t from, length;    /* IN: of the piece's data */
    uint32_t spans;
    struct mkt_span *span;   /* IN: what is wanted of it */
    struct session *session; /* IN: who waits for it; NULL: nobody any more */
    uint64_t file;           /* IN: open by the session; 0: what it saves */
    uint64_t request, started_ms, deadline_ms, told_ms;
    struct move *prev, *next, *session_prev, *session_next;
};

/* An archiver that has nothing to do or yields, or a program that waits for files to be safe. */
struct save_wait {
    struct session *session;
    uint64_t request, started_ms, deadline_ms;
    bool is_archiver, yields;
    bool own;              /* only what the session wrote */
    uint64_t seen;         /* of market->save_turn, when it was last looked at */
    struct object *object; /* referenced; NULL: all */
    struct save_wait *prev, *next;
};

struct failed_join {
    uint8_t token[MKT_ID_BYTES];
    enum mkt_status status;
    char text[256];
};

/* Where a replay is; see journal.c. */
struct replay {
    mkt_record_fn next;
    void *context;
    bool is_done;      /* the last call */
    const void *bytes; /* of the call after the one in hand; NULL: there is none */
    size_t length;
    const void *grown[MKT_REPLAY_GROWN]; /* outcomes of the call in hand: records */
    unsigned grown_count, grown_used;
};

struct arena {
    struct mkt_space *space;
    uint32_t node; /* whose memory it is best of; MKT_NO_NODE: any */
};

struct mkt_market {
    struct mkt_market_limits limits;
    struct mkt_market_ops ops;
    void *context;

    struct arena *arena; /* number i + 1 at [i] */
    uint32_t arenas, max_arenas;
    char use_text[800]; /* see grant.c */
    uint64_t use_ms;
    struct mkt_error no_arena; /* why the last attempt to make one failed; MKT_OK: it didn't */
    uint64_t no_arena_ms;      /* ... and when */
    uint64_t used_bytes, granted_bytes;   /* granted: of used, to sessions */
    uint64_t live_bytes, published_bytes; /* of versions: data and images; the same with indexes, in
                                             whole granules */
    struct range deferred[MKT_DEFERRED_RANGES]; /* free, but their arena had no memory to know it */
    uint32_t deferred_count;
    uint64_t lost_bytes; /* more of these than fit */

    uint64_t last_file, last_stamp, last_object;
    struct session *sessions;
    struct object *objects, *objects_by_file;
    struct object *objects_by_place, *stubs_by_place; /* without a stub, with one */
    struct set *sets;
    struct group *groups, *groups_by_token;
    struct heap timed;      /* groups with a deadline */
    struct group **waiting; /* WAITING, by what they wait for: MKT_WAITING_BUCKETS lists */
    struct group *loads;
    uint32_t waiting_opens;    /* groups JOINING or WAITING */
    uint32_t background_files; /* groups READING or WRITING whose rank 0 yields */
    struct group *doomed;
    struct grant_wait *grant_waits;
    uint32_t waiting_grants;
    uint64_t tell_ms; /* when those who wait for memory are told why, if anybody waits */
    struct version *versions;
    uint32_t versions_count, versions_retired; /* the latter: ever */
    struct version *unsaved;  /* PENDING, RUNNING, PLACING, in order of publication */
    struct version *saved;    /* SAVED and not retired, the first to be given up first */
    uint64_t evictable_count; /* of saved */
    uint64_t unsaved_count, unsaved_bytes;
    uint32_t awaited; /* closes that wait for an unsaved version */
    uint64_t saves, saved_bytes, yielded_ms;
    uint64_t foreground_ms;   /* when a program last asked for something */
    uint64_t rate_allowed_ms; /* a limited rate: when archivers may go on */
    struct save_wait *save_waits;
    uint32_t save_waits_count;
    uint64_t save_turn;         /* rises when less may be left to be saved */
    uint32_t drains;            /* sessions that said DRAIN */
    bool has_save_news;         /* a failure may be there of which no program was told */
    struct move *moves;         /* under way */
    struct move *waiting_moves; /* reads that wait for memory, in the order in which they came */
    uint64_t waiting_move_bytes;
    uint32_t moves_begun;
    struct heap small_queue, main_queue; /* of versions, see tier.c */
    uint64_t small_bytes;                /* of all versions that aren't main */
    struct held_piece *copies;           /* in memory and in the tier, the longest first */
    bool empties;                        /* above the high mark, and not yet below the low one */
    uint64_t leaving_bytes;              /* on their way out */
    uint64_t largest_cold_bytes;         /* of the pieces that ever lay there */
    char tier_failure[512];              /* why the last move out failed; "": it didn't */
    uint64_t tier_bytes, tier_pause_ms, last_move, last_turn;
    uint64_t moved_out_bytes, moved_in_bytes, fetches;
    uint64_t now_ms;           /* of the call in hand */
    uint64_t next_deadline_ms; /* not later than the true one */

    struct withdrawn withdrawn[MKT_WITHDRAWN_REMEMBERED];
    uint32_t
        withdrawn_mark[MKT_WITHDRAWN_REMEMBERED]; /* of each id, to search quickly; 0: no entry */
    uint32_t withdrawn_next;
    struct failed_join failed_join[MKT_FAILED_JOINS_REMEMBERED];
    uint32_t failed_join_next;
    struct replaced replaced[MKT_REPLACED_REMEMBERED];
    uint32_t replaced_next;
    uint64_t publishes, withdrawals, requests, replies, added_bytes, read_opens;
    struct stream *streams;
    uint32_t leaving_readers; /* LEAVING */
    bool has_stream_news;     /* who waits for a version, or for a place in a queue, looks again */
    uint32_t stream_looks;
    uint32_t stream_waits; /* groups that wait on streams */
    struct replay *replay; /* NULL but in mkt_market_replay */
    uint32_t dumps;
};

/* uthash leaves hh.tbl NULL where memory was short. */
#define MKT_TABLE_ADDED(element, handle) ((element)->handle.tbl != NULL)

/* ---- market.c ---- */
void mkt_reply(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
               const struct mkt_extent *populate);
void mkt_reply_error(struct mkt_market *market, struct session *session, uint64_t request,
                     enum mkt_status status, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void mkt_refuse(struct mkt_market *market, struct session *session, const char *why);
/* What every entry does at its end: ended groups go, and their bytes serve who waits. */
void mkt_settle(struct mkt_market *market);
void mkt_note_deadline(struct mkt_market *market, uint64_t deadline_ms);
const char *mkt_path_text(const char *path);
/* "12.5 GiB" */
const char *mkt_size_text(uint64_t bytes, char buffer[32]);

/* ---- journal.c: each entry is written down here before it changes anything ---- */
void mkt_record_session_begin(struct mkt_market *market, uint64_t session, const char *program,
                              uint32_t pid, uint32_t node);
void mkt_record_session_end(struct mkt_market *market, uint64_t session, uint64_t now_ms);
void mkt_record_session_reclaim(struct mkt_market *market, uint64_t session, uint64_t now_ms);
void mkt_record_message(struct mkt_market *market, uint64_t session, const struct mkt_msg *msg,
                        uint64_t now_ms);
void mkt_record_tick(struct mkt_market *market, uint64_t now_ms);
void mkt_record_stub_removed(struct mkt_market *market, const uint8_t object[MKT_ID_BYTES],
                             bool replaced, uint64_t now_ms);
void mkt_record_no_pages(struct mkt_market *market, uint64_t session, uint64_t request,
                         const struct mkt_extent *extent, uint64_t now_ms);
void mkt_record_moved(struct mkt_market *market, uint64_t move, enum mkt_status status,
                      const struct mkt_extent *cold, uint64_t now_ms);
/* ... and has had all its effects. */
void mkt_record_done(struct mkt_market *market);
/* The operations, as far as they are for a replay to do. */
enum mkt_status mkt_op_grow(struct mkt_market *market, uint32_t arena, uint32_t node,
                            uint64_t size_bytes, struct mkt_error *error);
void mkt_op_send(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                 const struct mkt_extent *populate);
void mkt_op_write(struct mkt_market *market, const struct mkt_extent *extent, const void *bytes);
void mkt_op_freed(struct mkt_market *market, const struct mkt_extent *extent);
void mkt_op_drop_stub(struct mkt_market *market, const uint8_t object[MKT_ID_BYTES]);
void mkt_op_move(struct mkt_market *market, const struct move *move);
void mkt_op_drop_cold(struct mkt_market *market, const struct mkt_extent *cold);
void mkt_op_refuse(struct mkt_market *market, struct session *session, const char *why);

/* ---- session.c ---- */
void mkt_session_free(struct session *session);
/* Keeps an answer for a client that has to connect anew. */
void mkt_session_remember(struct session *session, const struct mkt_msg *msg);
struct session *mkt_session_find(const struct mkt_market *market, uint64_t id);
/* Bytes become a session's, or are taken from it: as mkt_ranges_put, mkt_ranges_take. */
enum mkt_status mkt_session_grant(struct mkt_market *market, struct session *session,
                                  const struct mkt_extent *extent);
enum mkt_status mkt_session_take(struct mkt_market *market, struct session *session,
                                 const struct mkt_extent *extent);
/* A session's own request to give bytes up. False: refused. */
bool mkt_session_give(struct mkt_market *market, struct session *session,
                      const struct mkt_extent *extent);

/* ---- grant.c: arenas and waits for their bytes ---- */
/* Who writes leaves room for reads from the tier; an index may use a little more than the limit. */
enum bytes_use {
    BYTES_GRANT,
    BYTES_READ,
    BYTES_INDEX
};
/* Of `node` where that can be had, else of another. MKT_NO_SPACE, MKT_NO_MEMORY. */
enum mkt_status mkt_bytes_alloc(struct mkt_market *market, uint64_t bytes, uint64_t align,
                                enum bytes_use use, uint32_t node, struct mkt_extent *extent_out);
/* The node whose arena it lies in. */
uint32_t mkt_bytes_node(const struct mkt_market *market, const struct mkt_extent *extent);
/* What to say of its failure: cause and remedy where it is known. */
const char *mkt_bytes_why(const struct mkt_market *market, enum mkt_status status);
void mkt_bytes_free(struct mkt_market *market, const struct mkt_extent *extent);
/* Nobody's any more, but not safe to use again, and no memory to say so: gone for the market's
 * life. */
void mkt_bytes_lose(struct mkt_market *market, const struct mkt_extent *extent);
void mkt_bytes_free_ranges(struct mkt_market *market, struct ranges *ranges);
void mkt_bytes_retry_deferred(struct mkt_market *market);
/* Grants at once, without a wait, or nothing: length 0. */
void mkt_grant_scratch(struct mkt_market *market, struct session *session,
                       struct mkt_extent *extent_out);
/* The same for a given number; what is on disk as well gives way. False: there is no room. */
bool mkt_grant_at_once(struct mkt_market *market, struct session *session, uint64_t bytes,
                       struct mkt_extent *extent_out);
void mkt_grant_request(struct mkt_market *market, struct session *session,
                       const struct mkt_msg *msg, uint64_t now_ms);
bool mkt_grant_cancel(struct mkt_market *market, struct session *session, uint64_t request);
void mkt_grant_forget(struct mkt_market *market, struct session *session);
void mkt_grant_serve(struct mkt_market *market);
/* Next to nothing is left, here and below, and nothing gives way. */
bool mkt_grant_is_short(const struct mkt_market *market);
/* Somebody waits for memory, and is to be told why. */
void mkt_grant_note_wait(struct mkt_market *market);
void mkt_grant_tick(struct mkt_market *market, uint64_t now_ms);

/* ---- object.c ---- */
enum mkt_status mkt_owned_name_init(struct owned_name *name, const struct mkt_name *from);
void mkt_owned_name_fini(struct owned_name *name);
bool mkt_id_is_zero(const uint8_t id[MKT_ID_BYTES]);
struct object *mkt_object_by_id(const struct mkt_market *market, const uint8_t id[MKT_ID_BYTES]);
/* What has no stub and was last known there, also if the file that it was written over has gone. */
struct object *mkt_object_by_place(const struct mkt_market *market, const struct owned_name *name);
struct object *mkt_object_by_name(const struct mkt_market *market, const struct owned_name *name,
                                  bool *file_differs_out);
/* The same for a name that a client found out; where an archiver has put another file at the path
 * since then, the name becomes that file's. */
struct object *mkt_object_by_client_name(const struct mkt_market *market, struct owned_name *name,
                                         bool *file_differs_out);
enum mkt_status mkt_object_create(struct mkt_market *market, const struct owned_name *name,
                                  bool has_stub, struct object **object_out);
/* A writer starts on an object that is there: the name it was found by is the one it has now. */
enum mkt_status mkt_object_rename(struct mkt_market *market, struct object *object,
                                  const struct owned_name *name, bool has_stub);
/* The youngest whose stub was put there. */
struct object *mkt_object_by_stub_place(const struct mkt_market *market,
                                        const struct owned_name *name);
/* Enters one that was read from a dump. False: out of memory. */
bool mkt_object_revive(struct mkt_market *market, struct object *object, bool by_file,
                       bool by_place);
void mkt_object_get(struct object *object);
void mkt_object_put(struct mkt_market *market, struct object *object);
enum mkt_status mkt_object_set_retention(struct mkt_market *market, struct object *object,
                                         const char *pattern, uint32_t keep);
void mkt_set_put(struct mkt_market *market, struct set *set);
/* The object is known by this real file from now on, and has no stub any more. */
void mkt_object_set_file(struct mkt_market *market, struct object *object,
                         const struct mkt_file_identity *file);
/* Something else is where its stub was: from now on it goes by its place. */
void mkt_object_lose_stub(struct mkt_market *market, struct object *object);
/* Takes it out of the tables if it has neither version nor writer. */
void mkt_object_settle(struct mkt_market *market, struct object *object, const char *why);
/* All versions retire, and it goes, whoever writes it. Returns how many versions. */
uint32_t mkt_object_withdraw(struct mkt_market *market, struct object *object, bool stub_is_gone,
                             const char *why);
void mkt_object_retire_all(struct mkt_market *market, struct object *object);
const struct withdrawn *mkt_withdrawn_find(const struct mkt_market *market,
                                           const uint8_t id[MKT_ID_BYTES]);

/* ---- version.c ---- */
struct held_piece *mkt_piece_hold(const struct mkt_piece *piece, uint32_t element_bytes,
                                  uint32_t rank);
void mkt_piece_drop(struct mkt_market *market, struct held_piece *piece);
/* The one with the stamp, of `count` in the order of their stamps; or NULL. at_out: where it is or
 * would be; it may be NULL. */
struct held_piece *mkt_piece_by_stamp(struct held_piece *const *pieces, uint32_t count,
                                      uint64_t stamp, uint32_t *at_out);
/* Data and table, wherever they are. */
static inline uint64_t mkt_piece_bytes(const struct held_piece *piece)
{
    return (piece->data.length > 0 ? piece->data.length : piece->cold.length) + piece->table.length;
}
void mkt_piece_stamp(struct held_piece *piece, uint64_t stamp);
enum mkt_status mkt_piece_parse(const struct held_piece *held, struct mkt_piece *piece_out);
void mkt_image_drop(struct mkt_market *market, struct held_image *image);
/* Builds the next version of the group's object from what its ranks committed; nothing is visible
 * yet. */
enum mkt_status mkt_version_build(struct mkt_market *market, struct group *group,
                                  struct version **version_out, struct mkt_error *error);
/* Retires what is beyond the set's `keep`, but for what is still to be saved. */
void mkt_set_apply(struct mkt_market *market, struct set *set);
/* Retires what retention doesn't keep any more of the object, or of its set. True: some was. */
bool mkt_version_retain(struct mkt_market *market, struct object *object);
/* Makes it the newest, and applies retention. */
void mkt_version_publish(struct mkt_market *market, struct version *version, uint64_t now_ms);
void mkt_version_retire(struct mkt_market *market, struct version *version);
void mkt_version_pin(struct version *version, bool reader);
void mkt_version_unpin(struct mkt_market *market, struct version *version, bool reader);
struct version *mkt_version_newest(const struct object *object);
/* Makes its index say where its pieces are now; nobody may have it open. MKT_NO_MEMORY. */
enum mkt_status mkt_version_refresh(struct mkt_market *market, struct version *version);
const struct version_array *mkt_version_array(const struct version *version, uint64_t identity,
                                              uint32_t position);
/* A piece or image comes into what versions have in memory, or leaves it. */
void mkt_version_account(struct mkt_market *market, const struct mkt_extent *extent, bool in);
/* The newest that readers may see. */
struct version *mkt_version_visible(const struct object *object);
/* A close that changed nothing counts, too. */
void mkt_version_close(struct mkt_market *market, struct version *version, uint32_t publish_close,
                       uint64_t now_ms);

/* ---- open.c ---- */
void mkt_open_request(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                      uint64_t now_ms);
/* The group's open waits for what its name says now; or no longer. */
void mkt_open_note_waiting(struct mkt_market *market, struct group *group);
void mkt_open_note_no_waiting(struct mkt_market *market, struct group *group);
/* Something about the object changed: whoever waits for it looks again. */
void mkt_open_wake(struct mkt_market *market, struct object *object, uint64_t now_ms);
void mkt_open_fail(struct mkt_market *market, struct group *group, enum mkt_status status,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
void mkt_open_tick(struct mkt_market *market, struct group *group, uint64_t now_ms);

/* Who waits for another version of a stream, or for a place in its queue, looks again. */
void mkt_open_look_again(struct mkt_market *market, struct group *group);

/* ---- stream.c ---- */
/* The stream that the group's name is of, though the object may not be there; or NULL. */
struct stream *mkt_stream_find(const struct mkt_market *market, const struct group *group,
                               const struct object *object);
/* A group begins to write the object: what its rule says holds from now on, and a stream that
 * ended begins anew. MKT_NO_MEMORY, MKT_NO_SPACE. */
enum mkt_status mkt_stream_write(struct mkt_market *market, struct group *group,
                                 struct object *object);
/* False: the group may write. Else whom it waits for. */
#define MKT_STREAM_TEXT_BYTES 400
bool mkt_stream_is_full(const struct mkt_market *market, const struct group *group,
                        const struct object *object, char text[MKT_STREAM_TEXT_BYTES]);
/* The group reads under its name from now on; object NULL: it isn't there yet. MKT_NO_MEMORY,
 * MKT_NO_SPACE: with the text of the cause. */
enum mkt_status mkt_stream_join(struct mkt_market *market, struct group *group,
                                struct object *object, struct mkt_error *error);
/* What the group's reader is to get of the object now; or NULL. */
struct version *mkt_stream_pick(const struct group *group, const struct object *object);
/* It gets that. Returns how many versions it missed of which it wasn't told. */
uint64_t mkt_stream_deliver(const struct group *group, struct version *version);
/* The end of a reading group: its version is read if all its ranks closed it. */
void mkt_stream_leave(struct mkt_market *market, struct group *group);
/* Nothing more is to come, and the reader was there before that was so, or comes for the first
 * time: a program that starts after another one of its name was told waits for what begins anew. */
bool mkt_stream_is_over(const struct mkt_market *market, const struct group *reader,
                        const struct object *object);
/* The reader is told so. */
void mkt_stream_note_told(const struct mkt_market *market, const struct group *group,
                          const struct object *object);
/* Readers see the version from now on; or, it retires. */
void mkt_stream_enter(struct mkt_market *market, struct version *version);
void mkt_stream_retire(struct mkt_market *market, struct version *version);
/* It may not be dropped, for a reader. */
bool mkt_stream_holds(const struct version *version);
/* Retires what the stream needs no more. */
void mkt_stream_apply(struct mkt_market *market, struct stream *stream);
/* `on_full: drop-oldest`. False: there is none that may go. */
bool mkt_stream_drop_oldest(struct mkt_market *market, const struct stream *stream);
void mkt_stream_put(struct mkt_market *market, struct stream *stream);
/* The session ends. */
void mkt_stream_forget(struct mkt_market *market, struct session *session);
void mkt_stream_end(struct mkt_market *market, struct session *session, const struct mkt_msg *msg);
/* If the group waits, it is for a stream: for another version, or for a place in its queue. */
bool mkt_stream_is_asked(const struct group *group);
/* Those that wait look again, if anything happened. True: something did. */
bool mkt_stream_serve(struct mkt_market *market);
void mkt_stream_tick(struct mkt_market *market, uint64_t now_ms);
void mkt_stream_note_deadlines(struct mkt_market *market);
/* At the market's end: also what is remembered of ended ones. */
void mkt_stream_drop_all(struct mkt_market *market);

/* ---- group.c ---- */
struct group *mkt_group_create(struct mkt_market *market, uint32_t size);
void mkt_group_set_deadline(struct mkt_market *market, struct group *group, uint64_t deadline_ms);
void mkt_group_clear_deadline(struct mkt_market *market, struct group *group);
void mkt_member_join(struct member *member, struct session *session, uint64_t request);
void mkt_member_done(struct mkt_market *market, struct member *member);
struct member *mkt_member_find(struct mkt_market *market, struct session *session, uint64_t file);
/* Has a file open, but as one that yields. */
bool mkt_group_is_background(const struct group *group);
/* "rank 3 (simulation, pid 77)" */
const char *mkt_member_text(const struct member *member, char buffer[128]);
void mkt_group_poison(struct mkt_market *market, struct group *group, uint64_t now_ms,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
void mkt_group_add(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                   uint64_t now_ms);
void mkt_group_touch(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                     uint64_t now_ms);
void mkt_group_lookup(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                      uint64_t now_ms);
void mkt_group_close(struct mkt_market *market, struct session *session, const struct mkt_msg *msg,
                     uint64_t now_ms);
void mkt_group_array_free(struct mkt_market *market, struct group *group,
                          struct group_array *array);
/* Frees the groups that all their members have left. */
void mkt_group_reap(struct mkt_market *market);

/* ---- save.c ---- */
/* A version of mode BOTH became visible. */
void mkt_save_begin(struct mkt_market *market, struct version *version);
/* It retires: unless its save has begun, it won't be saved any more. */
void mkt_save_give_up(struct mkt_market *market, struct version *version);
/* At the market's end: what is held although it is retired. */
void mkt_save_drop_held(struct mkt_market *market);
/* It must not go before it is saved. */
bool mkt_save_is_owed(const struct version *version);
/* Gives up a saved version that nobody reads, for its memory. False: there is none. */
bool mkt_save_evict(struct mkt_market *market);
void mkt_save_next(struct mkt_market *market, struct session *session, const struct mkt_msg *msg);
void mkt_save_yield(struct mkt_market *market, struct session *session, const struct mkt_msg *msg);
void mkt_save_place(struct mkt_market *market, struct session *session, const struct mkt_msg *msg);
void mkt_save_done(struct mkt_market *market, struct session *session, const struct mkt_msg *msg);
void mkt_save_wait(struct mkt_market *market, struct session *session, const struct mkt_msg *msg);
/* While the session is there nobody opens a file for writing; what has `backup` is saved as well,
 * and first. What failed is tried at once. */
void mkt_save_drain(struct mkt_market *market, struct session *session, const struct mkt_msg *msg);
/* What a session that opens `object` (NULL: nothing in particular) should hear of saves that failed
 * since it was last told; "": nothing. */
#define MKT_SAVE_NOTICE_BYTES 900
const char *mkt_save_notice(struct mkt_market *market, const struct session *session,
                            const struct object *object, char text[MKT_SAVE_NOTICE_BYTES]);
bool mkt_save_cancel(struct mkt_market *market, struct session *session, uint64_t request);
/* True while a file of it may be on its way to its place. */
bool mkt_save_is_placing(const struct mkt_market *market, const struct object *object);
/* The object whose file the name's may be, if that was put there and isn't reported yet; or NULL.
 */
struct object *mkt_save_find_placing(const struct mkt_market *market,
                                     const struct owned_name *name);
/* Its waits end, and what it was saving is to be saved by another. */
void mkt_save_forget(struct mkt_market *market, struct session *session);
/* Orders for archivers that wait, answers for who waits for them. */
void mkt_save_serve(struct mkt_market *market);
void mkt_save_tick(struct mkt_market *market);

/* ---- tier.c ---- */
/* So that so many versions may enter. MKT_NO_MEMORY. */
enum mkt_status mkt_tier_make_room(struct mkt_market *market, uint32_t versions);
void mkt_tier_enter(struct mkt_market *market, struct version *version);
void mkt_tier_leave(struct mkt_market *market, struct version *version);
/* The version, or one of the object, may have something to give now. */
void mkt_tier_wake(struct mkt_market *market, struct version *version);
void mkt_tier_wake_all(struct mkt_market *market, const struct object *object);
void mkt_tier_note_read(struct version *version);
void mkt_tier_fetch(struct mkt_market *market, struct session *session, const struct mkt_msg *msg);
bool mkt_tier_cancel(struct mkt_market *market, struct session *session, uint64_t request);
/* Starts moves: reads that waited for memory, and what is to leave it. */
void mkt_tier_serve(struct mkt_market *market);
/* Memory that writers don't get, so that whoever reads what lies there makes progress. */
uint64_t mkt_tier_reserve(const struct mkt_market *market);
/* So much more doesn't go into the tier, or there is none. */
bool mkt_tier_is_full(const struct mkt_market *market, uint64_t bytes);
void mkt_tier_tick(struct mkt_market *market);
void mkt_tier_forget(struct mkt_market *market, struct session *session);
void mkt_tier_forget_version(struct mkt_market *market, const struct version *version);
/* Some of it may leave memory now. For the audit. */
bool mkt_tier_may_give(const struct mkt_market *market, const struct version *version);
/* The piece's copy in the tier goes. */
void mkt_tier_drop(struct mkt_market *market, struct held_piece *piece);
void mkt_tier_destroy(struct mkt_market *market);

/* ---- commit.c ---- */
/* Its file is still to come. */
bool mkt_save_is_unsaved(const struct version *version);
/* The group's COMMITs are answered when the version is safe. */
void mkt_save_await(struct mkt_market *market, struct version *version, struct group *group);
void mkt_save_await_no_more(struct mkt_market *market, struct group *group);
/* Answers the COMMITs of a group that waited for its file: MKT_OK, or why it isn't safe. */
void mkt_commit_saved(struct mkt_market *market, struct group *group, enum mkt_status status,
                      const char *why);
void mkt_commit_request(struct mkt_market *market, struct session *session,
                        const struct mkt_msg *msg, uint64_t now_ms);
void mkt_commit_tick(struct mkt_market *market, struct group *group, uint64_t now_ms);

#endif
