/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages between a client and its daemon, decoded. messages.c turns them into frames and
 * back, with every length checked: a frame comes from another process and is not trusted. Strings
 * and record lists of a decoded message point into the frame's bytes and live as long as these.
 * Pure; any thread.
 *
 * A request carries a number chosen by the client; its reply carries the same. One-way messages
 * have no reply. A failed request is answered by MKT_MSG_ERROR.
 *
 * The frame head, ERROR and the first field of HELLO and WELCOME (the protocol version) are the
 * same in every version. Of a HELLO or WELCOME of another version only `protocol` is decoded; the
 * other fields are empty.
 *
 * Replies, by request:
 * - HELLO: WELCOME; once, first
 * - OPEN: OPENED; may wait
 * - GRANT: GRANTED; may wait
 * - ADD: ADDED, or none without `acknowledge`
 * - LOOKUP: FOUND
 * - COMMIT: COMMITTED; waits for the whole group
 * - MAP: MAPPED, with a descriptor
 * - QUERY: ANSWER
 * - TOUCH: TOUCHED
 * - WITHDRAW: WITHDRAWN
 * - STOP: STOPPED
 * - SAVE_NEXT: SAVE_ORDER; may wait
 * - SAVE_PLACE: SAVE_PLACED
 * - SAVE_DONE: SAVE_NOTED
 * - SAVE_WAIT: SAVE_STATE; may wait
 * - SAVE_YIELD: SAVE_GO; may wait
 * - DRAIN: DRAINING
 * - FETCH: FETCHED; may wait
 * - END: ENDED
 * - MAILBOX, with the descriptor of one (mailbox.h), RELEASE, CLOSE, CANCEL: none
 * A GRANT or FETCH that waits long gets WAITING now and then, which is no answer.
 */
#ifndef MKT_WIRE_MESSAGES_H
#define MKT_WIRE_MESSAGES_H

#include "core/base/extent.h"
#include "core/base/file_identity.h"
#include "core/base/status.h"
#include "core/geometry/index.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MKT_FETCH_MAX_SPANS  4096
#define MKT_PROTOCOL_VERSION 5
#define MKT_ID_BYTES         16

/* Every frame starts with this head; `bytes` counts what follows it. At most one descriptor rides
 * on a frame. */
struct mkt_frame_wire {
    uint32_t magic; /* MKT_FRAME_MAGIC */
    uint32_t bytes;
    uint16_t type;
    uint16_t has_fd;
    uint32_t reserved;
    uint64_t request;
};
_Static_assert(sizeof(struct mkt_frame_wire) == 24, "frame head");
#define MKT_FRAME_MAGIC     0x544b4d48u /* "HMKT" */
#define MKT_FRAME_MAX_BYTES (1u << 20)

enum mkt_msg_type {
    MKT_MSG_HELLO = 1,
    MKT_MSG_WELCOME,
    MKT_MSG_ERROR,
    MKT_MSG_OPEN,
    MKT_MSG_OPENED,
    MKT_MSG_CANCEL,
    MKT_MSG_GRANT,
    MKT_MSG_GRANTED,
    MKT_MSG_RELEASE,
    MKT_MSG_MAP,
    MKT_MSG_MAPPED,
    MKT_MSG_ADD,
    MKT_MSG_ADDED,
    MKT_MSG_TOUCH,
    MKT_MSG_TOUCHED,
    MKT_MSG_LOOKUP,
    MKT_MSG_FOUND,
    MKT_MSG_COMMIT,
    MKT_MSG_COMMITTED,
    MKT_MSG_CLOSE,
    MKT_MSG_WITHDRAW,
    MKT_MSG_WITHDRAWN,
    MKT_MSG_QUERY,
    MKT_MSG_ANSWER,
    MKT_MSG_STOP,
    MKT_MSG_STOPPED,
    MKT_MSG_SAVE_NEXT,
    MKT_MSG_SAVE_ORDER,
    MKT_MSG_SAVE_PLACE,
    MKT_MSG_SAVE_PLACED,
    MKT_MSG_SAVE_DONE,
    MKT_MSG_SAVE_NOTED,
    MKT_MSG_SAVE_WAIT,
    MKT_MSG_SAVE_STATE,
    MKT_MSG_SAVE_YIELD,
    MKT_MSG_SAVE_GO,
    MKT_MSG_DRAIN,
    MKT_MSG_DRAINING,
    MKT_MSG_FETCH,
    MKT_MSG_FETCHED,
    MKT_MSG_WAITING,
    MKT_MSG_END,
    MKT_MSG_ENDED,
    MKT_MSG_MAILBOX,
    MKT_MSG_TYPE_END
};

struct mkt_bytes {
    const void *data;
    uint32_t length;
};

/* What a client found at a path. Resolution order: the stub's object, else the real file, else the
 * place. */
struct mkt_name {
    uint8_t object[MKT_ID_BYTES];    /* the stub at the path names it; zeros: no stub */
    uint64_t parent_dev, parent_ino; /* the folder */
    struct mkt_bytes leaf;           /* the name in it */
    struct mkt_bytes path;           /* absolute, as the client sees it; for people */
    struct mkt_file_identity file;   /* the real file at the path */
};

enum mkt_intent {
    MKT_INTENT_READ = 1,
    MKT_INTENT_READ_WRITE,
    MKT_INTENT_CREATE,      /* replaces what is there */
    MKT_INTENT_CREATE_EXCL, /* fails with MKT_EXISTS if a version or writer is there */
    MKT_INTENT_PROBE,       /* answers at once: is there something to open? nothing is pinned */
    MKT_INTENT_LOAD /* brings a real file in: OPENED says VERSION (there is one, or a writer),
                       NATIVE (no room), or EMPTY with `scratch` for its bytes, which are
                       committed as an image without arrays. By one process; a `token` says
                       which group waits for it. The file's descriptor rides along. */
};

/* Who writes a file that is in memory as it was on disk works on a copy of it: that may be one such
 * part of the market for all ranks of a group together. */
#define MKT_LOAD_PART_TO_WRITE 4

enum mkt_mode {
    MKT_MODE_MEMORY = 1,
    MKT_MODE_FILE,
    MKT_MODE_BOTH
};

/* When a writer's close returns, and what is owed to its version (mode BOTH). */
enum mkt_durability {
    MKT_DURABILITY_ASYNC = 1, /* at once; the version stays in memory until its file is safe */
    MKT_DURABILITY_CLOSE,     /* when the file is safe */
    MKT_DURABILITY_NONE       /* at once; the version may be replaced before it is saved */
};

/* Which version an open for reading gets. */
enum mkt_deliver {
    MKT_DELIVER_LATEST = 1,
    MKT_DELIVER_NEXT, /* the oldest that the named reader hasn't had */
    MKT_DELIVER_ALL,  /* the same, and what it hasn't had may not go */
    MKT_DELIVER_EVERY /* of the path's versions the first, and each nth after it */
};
#define MKT_READER_NAME_BYTES  64     /* of a named reader, with its NUL */
#define MKT_READER_NONE        "none" /* the name of those that aren't counted */
#define MKT_STREAM_READERS_MAX 64
#define MKT_END_AT_EXIT        UINT32_MAX /* `end: exit` */

/* What becomes of a writer where memory is full, and the tier below it. */
enum mkt_on_full {
    MKT_FULL_WAIT = 1,
    MKT_FULL_FAIL, /* its write fails at once */
    MKT_FULL_DROP, /* the oldest version of what the same rule is for goes, read or not */
    MKT_FULL_FILE  /* what it creates then is an ordinary file */
};

/* What a rule says of a stream. To a writer: all but the last four. */
struct mkt_stream_rule {
    bool consumed;             /* a version stays until `readers` named readers have read it */
    uint32_t readers;          /* 0 = 1 */
    uint32_t queue;            /* a writer's open waits while so many are unread; 0: it doesn't */
    uint32_t queue_timeout_ms; /* it fails then ... */
    uint32_t patience_ms; /* ... and is told before (MKT_STALE) whom it waits for, to ask again; so
                             it is, without a text, when there is a place */
    uint32_t end_after;   /* the stream ends after so many versions; MKT_END_AT_EXIT; 0: neither */
    uint32_t on_full;     /* enum mkt_on_full; 0 = WAIT */
    /* To a reader. */
    uint32_t deliver;        /* enum mkt_deliver; 0: it isn't counted as one */
    uint32_t every;          /* EVERY */
    bool only;               /* a file on disk that the market doesn't know isn't of the stream */
    struct mkt_bytes reader; /* its name; empty: its program's */
};

struct mkt_msg_hello {
    uint32_t protocol;
    uint32_t pid; /* as the client sees itself; for people */
    uint32_t cpu; /* that it runs on, as the kernel numbers them; UINT32_MAX: it can't tell */
    struct mkt_bytes program;
    struct mkt_bytes host;
    struct mkt_bytes config_path; /* for messages about the text */
    struct mkt_bytes config;      /* the text of the client's h5market.yaml; empty: none */
    /* A session that goes on after its connection was lost, with the secret that its WELCOME told;
     * 0: a new one. Configuration and program don't count then. */
    uint64_t session;
    uint8_t secret[MKT_ID_BYTES];
};

struct mkt_msg_welcome {
    uint8_t daemon[MKT_ID_BYTES]; /* one per life of a daemon */
    uint32_t protocol;
    uint32_t default_mode;
    uint32_t writer_timeout_ms, full_timeout_ms;
    bool on_demand; /* the daemon was started by a program that needed one */
    uint64_t memory_limit_bytes;
    struct mkt_bytes rules; /* see core/wire/rules.h; empty if the session goes on */
    uint64_t session;
    uint8_t secret[MKT_ID_BYTES];
    /* If the session goes on: of its messages up to this request number those for the market have
     * been handled, and must not be sent again (a CANCEL may be). */
    uint64_t processed;
};

struct mkt_msg_error {
    uint32_t status; /* enum mkt_status, never MKT_OK */
    struct mkt_bytes text;
};

struct mkt_msg_open {
    uint8_t token[MKT_ID_BYTES]; /* the group's; every rank sends the same */
    uint32_t rank, size; /* only rank 0's name, intent, mode, wait, version and keep count */
    uint32_t intent, mode;
    uint32_t wait_ms; /* READ: how long to wait for a first version if nobody writes one */
    uint32_t writer_timeout_ms; /* READ: how long to wait while a writer has it open */
    uint64_t version;           /* READ: 0 = newest */
    uint64_t after_ms; /* READ: skip versions published before this (daemon's clock, 0: none) */
    uint32_t keep; /* CREATE, READ_WRITE: versions kept in the set; 0 = the default (1 a path) */
    uint32_t publish_close; /* CREATE, READ_WRITE: versions appear from the Nth close after the
                               create on; 0 = 1 */
    uint32_t durability;    /* CREATE, READ_WRITE, mode BOTH: enum mkt_durability; 0 = ASYNC */
    uint32_t priority;      /* CREATE, READ_WRITE: of its saves, the highest first */
    bool backup;            /* CREATE, READ_WRITE: saved at the market's end, whatever its mode */
    bool pin;               /* CREATE, READ_WRITE: it stays in memory */
    bool read_only;         /* READ_WRITE: the file on disk may not be written by this user */
    bool has_stub; /* name.object is the object of a stub that stands there; its descriptor rides
                      along at create */
    struct mkt_bytes set;          /* the rule's pattern that `keep` counts over */
    struct mkt_stream_rule stream; /* READ, CREATE, READ_WRITE */
    struct mkt_name name;
};

enum mkt_source {
    MKT_SOURCE_NATIVE = 1, /* the market has nothing to do with it: open the real path */
    MKT_SOURCE_EMPTY,      /* a new file */
    MKT_SOURCE_VERSION     /* image and index of the version */
};

struct mkt_msg_opened {
    uint64_t file; /* handle for ADD, LOOKUP, COMMIT, CLOSE; the same on all ranks; 0 for NATIVE and
                      PROBE */
    uint32_t source; /* enum mkt_source */
    uint64_t version;
    uint8_t object[MKT_ID_BYTES];
    struct mkt_extent image, index;
    struct mkt_extent scratch; /* writers: a first grant; length 0: none */
    struct mkt_bytes notice;   /* rank 0: what its user should know, once: a file of it, or this
                                  one, couldn't be saved */
    uint64_t skipped; /* versions that went before the named reader came; not told before */
};

struct mkt_msg_grant {
    uint64_t bytes, align;
};
struct mkt_msg_extent { /* GRANTED, FOUND */
    struct mkt_extent extent;
};
struct mkt_msg_release {
    uint32_t count;
    const struct mkt_extent *extents; /* may be unaligned in the frame: copy out */
};
struct mkt_msg_map {
    uint32_t arena;
};
struct mkt_msg_mapped {
    uint32_t arena;
    uint64_t size_bytes;
};

struct mkt_msg_add {
    uint64_t file;
    bool acknowledge;
    struct mkt_array array; /* token and flags count at COMMIT only */
    uint32_t count;
    struct mkt_bytes
        records; /* count piece records (piece_layout.h), in the order in which the later wins */
};
struct mkt_msg_added {
    uint64_t first_stamp; /* record i got first_stamp + i */
};
struct mkt_msg_touch { /* the piece with this stamp was written again in place: is it still the last
                          word on its box? */
    uint64_t file, identity, stamp;
};
struct mkt_msg_touched {
    bool superseded; /* another rank wrote into its bounding box since: write what you wrote as a
                        new piece */
};
struct mkt_msg_lookup { /* unpublished pieces of the group; the reply's extent holds an index of one
                           array, the client's to RELEASE */
    uint64_t file, identity;
};
struct mkt_msg_commit {
    uint64_t file;
    uint64_t hash;  /* of (identity, token, extents) of all arrays; the same on all ranks or the
                       close fails */
    bool unchanged; /* nothing to publish on this rank */
    bool more;      /* arrays continue in another COMMIT (no reply to this one) */
    bool keep_open; /* publish at a flush: the group goes on */
    struct mkt_bytes failure; /* not empty: this rank failed; the version is poisoned */
    struct mkt_extent image;  /* rank 0, in the last part */
    uint32_t count;
    struct mkt_bytes arrays; /* rank 0: count array records (messages.c packs struct mkt_array) :
                                all that live */
};
struct mkt_msg_version { /* COMMITTED */
    uint64_t version;
};
struct mkt_msg_file { /* CLOSE: a reader is done, or a writer goes without publishing */
    uint64_t file;
    bool unread; /* the program never got it: to a stream's reader it is to be delivered again */
};
struct mkt_msg_withdraw {
    struct mkt_name name;
};
struct mkt_msg_count { /* WITHDRAWN, ENDED */
    uint64_t versions;
};
struct mkt_msg_query {
    uint32_t what; /* enum mkt_query */
    uint32_t part; /* 0 first; the ANSWER says how many there are */
    struct mkt_name name;
};
enum mkt_query {
    MKT_QUERY_STATUS = 1,
    MKT_QUERY_LIST,
    MKT_QUERY_STAT
};
struct mkt_msg_answer {
    uint32_t part, parts;
    struct mkt_bytes json;
};
/* ---- saving, for the archiver: versions of mode BOTH become files ---- */
struct mkt_msg_save_next { /* waits for something to save; MKT_TIMED_OUT: nothing came */
    uint32_t wait_ms;
};
struct mkt_msg_save_order { /* the version is pinned until SAVE_DONE or the end of the session */
    uint8_t object[MKT_ID_BYTES];
    uint64_t version;
    struct mkt_extent image, index;
    struct mkt_bytes path; /* where the file goes: that of the stub, if it has one, of the moment */
    struct mkt_bytes former_path; /* where it was to go when an attempt that didn't end began;
                                     empty: at the same */
    bool has_stub;
    struct mkt_file_identity file;   /* what it is written over */
    struct mkt_file_identity placed; /* dev and ino of the file that an attempt which didn't end was
                                        about to put there */
};
struct mkt_msg_save_yield { /* so much was moved since the last one; SAVE_GO: go on */
    uint64_t bytes;
};
struct mkt_msg_save_place { /* the file is whole: may it go to its place? SAVE_PLACED: it may */
    uint8_t object[MKT_ID_BYTES];
    uint64_t version;
    struct mkt_file_identity file;
};
struct mkt_msg_save_done { /* answered by SAVE_NOTED */
    uint8_t object[MKT_ID_BYTES];
    uint64_t version;
    uint32_t status;               /* enum mkt_status; MKT_OK: it is on disk */
    struct mkt_bytes text;         /* why not */
    struct mkt_file_identity file; /* that stands there now; if it failed: what of it is there all
                                      the same, ino 0 for nothing */
};
struct mkt_msg_save_wait { /* answered when nothing is unsaved, or at the time */
    bool all;              /* what all programs wrote */
    bool own;              /* else what the session itself wrote; else the name's object */
    uint32_t wait_ms;
    struct mkt_name name;
};
struct mkt_msg_save_state {
    uint64_t files, bytes; /* not saved yet */
    uint64_t failing;      /* of these, those whose last attempt failed */
    struct mkt_bytes text; /* why the first of them */
};

/* DRAIN (no fields; answered by DRAINING): the market is to end. No open for writing succeeds any
 * more, and what has `backup` is saved, too, before all else. It ends with its session. */

/* ---- pieces that lie in a tier (their extent is cold) ---- */
struct mkt_msg_fetch {
    uint64_t file;            /* open here; 0: the version that this archiver saves */
    uint64_t identity, stamp; /* of the array and the piece, as the version's index says */
    uint32_t count;
    const struct mkt_span *spans; /* of the piece's data, ascending, disjoint; may be unaligned in
                                     the frame: copy out */
};
struct mkt_msg_fetched {
    struct mkt_extent extent; /* holds the piece's data from `from` on, what was asked for of it */
    uint64_t from;
    bool owned; /* the client's to RELEASE; else the piece's own place in memory */
};

struct mkt_msg_waiting { /* of the request: how long by now, for what, and on whom */
    struct mkt_bytes text;
};

struct mkt_msg_end { /* the streams of these objects have no more versions. MKT_NOT_FOUND: none */
    struct mkt_name name;
    struct mkt_bytes pattern; /* as in a rule; empty: the name's */
};

struct mkt_msg_stop { /* MKT_STALE: not everything is saved yet; MKT_BUSY: something would be lost
                       */
    bool discard;     /* also when versions exist only in memory */
};

struct mkt_msg {
    enum mkt_msg_type type;
    uint64_t request;
    union {
        struct mkt_msg_hello hello;
        struct mkt_msg_welcome welcome;
        struct mkt_msg_error error;
        struct mkt_msg_open open;
        struct mkt_msg_opened opened;
        struct mkt_msg_grant grant;
        struct mkt_msg_extent extent;
        struct mkt_msg_release release;
        struct mkt_msg_map map;
        struct mkt_msg_mapped mapped;
        struct mkt_msg_add add;
        struct mkt_msg_added added;
        struct mkt_msg_touch touch;
        struct mkt_msg_touched touched;
        struct mkt_msg_lookup lookup;
        struct mkt_msg_commit commit;
        struct mkt_msg_version version;
        struct mkt_msg_file file;
        struct mkt_msg_withdraw withdraw;
        struct mkt_msg_count count;
        struct mkt_msg_query query;
        struct mkt_msg_answer answer;
        struct mkt_msg_stop stop;
        struct mkt_msg_save_next save_next;
        struct mkt_msg_save_order save_order;
        struct mkt_msg_save_place save_place;
        struct mkt_msg_save_yield save_yield;
        struct mkt_msg_save_done save_done;
        struct mkt_msg_save_wait save_wait;
        struct mkt_msg_save_state save_state;
        struct mkt_msg_fetch fetch;
        struct mkt_msg_fetched fetched;
        struct mkt_msg_waiting waiting;
        struct mkt_msg_end end;
    };
};

/* Bytes of the frame (head included). MKT_INVALID if it would pass MKT_FRAME_MAX_BYTES. */
enum mkt_status mkt_msg_size(const struct mkt_msg *msg, size_t *bytes_out);
/* Writes the frame. MKT_INVALID if it doesn't fit in `capacity`. */
enum mkt_status mkt_msg_encode(const struct mkt_msg *msg, bool has_fd, void *frame_out,
                               size_t capacity, size_t *bytes_out);
/* Checks a frame head before its payload is read. MKT_PROTOCOL. */
enum mkt_status mkt_frame_check(const struct mkt_frame_wire *head);
/* Decodes the payload (head->bytes bytes). MKT_PROTOCOL on anything that isn't exactly a message of
 * that type. */
enum mkt_status mkt_msg_decode(const struct mkt_frame_wire *head, const void *payload,
                               struct mkt_msg *msg_out);

/* Array records of COMMIT: packs into / reads from a byte list. `offset` advances. */
size_t mkt_array_record_bytes(const struct mkt_array *array);
void mkt_array_record_encode(const struct mkt_array *array, void *out);
enum mkt_status mkt_array_record_decode(struct mkt_bytes records, uint32_t *offset,
                                        struct mkt_array *array_out);

#endif
