/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process's way to its market: connects to the daemon of this node, user and job (starts one
 * where asked), keeps the arenas mapped, and turns calls into messages. Used by the plugin, so:
 * libc only, no thread, no signal handler, nothing printed but through core/base/log.h.
 *
 * Every call that talks to the daemon blocks until its answer, at most until its deadline, and
 * fills `error` with cause and remedy. After a lost connection every call fails with MKT_PEER_DOWN;
 * the handle can only be destroyed. A forked child must not use its parent's handle: calls answer
 * MKT_INVALID there and destroy only frees. Not thread-safe: the caller serialises (HDF5's global
 * lock does).
 */
#ifndef MKT_CLIENT_CLIENT_H
#define MKT_CLIENT_CLIENT_H

#include "core/geometry/plan.h"
#include "core/wire/messages.h"
#include "core/wire/rules.h"
#include <sys/types.h>

struct mkt_client;

struct mkt_client_options {
    const char *directory;   /* NULL: $H5MARKET_DIR, else the default folder of this user, boot and
                                batch job */
    const char *daemon_path; /* the h5marketd to start; NULL: never start one */
    bool
        on_demand; /* a daemon that is started is this program's, and may end with its batch step */
    const char *config_path;     /* h5market.yaml; NULL: $H5MARKET_CONFIG, else none */
    uint32_t connect_timeout_ms; /* 0: 10 s */
    uint64_t started_ms;         /* what counts as its start, of mkt_client_started_ms; 0: now */
    uint32_t silence_ms; /* a daemon that says nothing for so long counts as lost; 0: 60 s */
};

/* MKT_NOT_FOUND: no daemon and none to start. MKT_DENIED: another user's. MKT_PROTOCOL: another
 * version. MKT_INVALID: bad configuration (text names file and line). MKT_TIMED_OUT. MKT_IO_ERROR:
 * the log of the daemon that didn't start is named. */
enum mkt_status mkt_client_connect(const struct mkt_client_options *options,
                                   struct mkt_client **client_out, struct mkt_error *error);
void mkt_client_destroy(struct mkt_client *client);

/* True in a forked child: it can't use its parent's. */
bool mkt_client_is_inherited(const struct mkt_client *client);
/* True once the connection is lost; looks whether the daemon has gone meanwhile. */
bool mkt_client_is_down(struct mkt_client *client);
const uint8_t *mkt_client_daemon_id(const struct mkt_client *client); /* MKT_ID_BYTES */
/* The rule in force for a path, all defaults filled in. */
void mkt_client_rule(const struct mkt_client *client, const char *path, struct mkt_rule *rule_out);
/* What `after_start` counts from. */
uint64_t mkt_client_started_ms(const struct mkt_client *client);
/* True if its daemon was started with `on_demand`. */
bool mkt_client_is_on_demand(const struct mkt_client *client);
/* Round trips made so far. */
uint64_t mkt_client_round_trips(const struct mkt_client *client);

/* The folder of the socket, whether or not it exists. Creates it (0700) if `create`. MKT_DENIED if
 * it is someone else's or open to others. */
enum mkt_status mkt_client_directory(const char *wanted, bool create, char *path_out,
                                     size_t capacity, struct mkt_error *error);

/* ---- opening ---- */
struct mkt_open {
    const char *path; /* rank 0; NULL on the other ranks */
    enum mkt_intent intent;
    uint8_t token[MKT_ID_BYTES]; /* of the group; ignored for size 1 */
    uint32_t rank, size;
    int64_t wait_ms;  /* -1: by rule */
    uint64_t version; /* 0: newest */
    uint32_t deliver; /* enum mkt_deliver; 0: by rule */
    uint32_t every;
    const char *reader; /* its name in a stream; NULL: by rule */
    bool is_reader;     /* it counts as a reader of a stream: a program that reads HDF5 */
    bool as_on_disk;    /* a file on disk isn't brought into memory for this */
    bool after_start;   /* only versions published after this client connected */
    /* Called every 50 to 250 ms while it waits; true ends the wait with MKT_CANCELLED (the
     * library's global lock, Ctrl-C). May be NULL. */
    bool (*interrupted)(void *context);
    /* Called once the daemon has been asked, before its answer is looked for: what can be done
     * meanwhile. It may be called again, if the daemon has to be asked anew. May be NULL. */
    void (*meanwhile)(void *context);
    void *context; /* of both */
};
struct mkt_opened {
    enum mkt_source source;
    uint64_t file, version;
    uint8_t object[MKT_ID_BYTES];
    const void *image; /* VERSION: mapped read-only until mkt_client_close */
    uint64_t image_bytes;
    const void *index;
    uint64_t index_bytes;
    struct mkt_file_identity stand; /* rank 0's: what stands at the path now */
};
/* Resolves the path (stub, real file, place), leaves the stub for a create, asks, waits.
 * MKT_END: a stream's reader has had all, and no more will come.
 * MKT_NOT_FOUND: nothing there (the caller lets native fail as it fails, or for a left-over stub
 * reports `error`); MKT_BUSY names the holder; MKT_EXISTS; MKT_TIMED_OUT; MKT_CANCELLED. What
 * native refuses for reasons of its own (no such folder, no permission, not a file) is answered by
 * MKT_SOURCE_NATIVE. `client` may be NULL for a reader without a daemon: a real file gives NATIVE,
 * all else MKT_NOT_FOUND. */
enum mkt_status mkt_client_open(struct mkt_client *client, const struct mkt_open *request,
                                struct mkt_opened *opened_out, struct mkt_error *error);

/* ---- real files into memory ---- */
struct mkt_load {
    const char *path;
    uint8_t token[MKT_ID_BYTES]; /* of the group whose open waits for it; zeros: none does */
    uint32_t to_write_by;        /* ranks that will write it; 0: it is for readers */
    bool yields;                 /* nobody waits for it: it pauses while programs read or write */
    /* Both may be NULL. Called between strips; interrupted while waiting, too: true ends it. */
    void (*progress)(void *context, uint64_t done, uint64_t total);
    bool (*interrupted)(void *context);
    void *context; /* of both */
};
/* Brings the file at the path into memory, where all readers find it. MKT_EXISTS: it is there, or
 * its entry stands there. MKT_NO_SPACE: no room. MKT_BUSY: a program has it open for writing.
 * MKT_UNSUPPORTED: no HDF5 file. MKT_CORRUPT, MKT_NOT_FOUND, MKT_STALE: it keeps changing.
 * MKT_CANCELLED. After any of these the file on disk is to be used as it is. */
enum mkt_status mkt_client_load(struct mkt_client *client, const struct mkt_load *load,
                                uint64_t *bytes_out, struct mkt_error *error);
/* MKT_OK if a whole HDF5 file stands at the path that nobody writes, else as mkt_client_load. */
enum mkt_status mkt_client_is_complete(const char *path, struct mkt_error *error);

/* A reader is done, or a writer goes without publishing. */
void mkt_client_close(struct mkt_client *client, uint64_t file);
/* The same for one that the program never got: a stream delivers it again. */
void mkt_client_close_unread(struct mkt_client *client, uint64_t file);
/* A writer's last close on this rank. `failure` not NULL poisons the version with that text. Rank 0
 * gives the image (copied into the market) and the arrays that live. *version_out: the published
 * one. Waits for the whole group. */
struct mkt_commit {
    uint64_t file, hash;
    bool unchanged, keep_open;
    const char *failure;
    const void *image;
    uint64_t image_bytes;
    const struct mkt_array *arrays;
    uint32_t arrays_count;
};
enum mkt_status mkt_client_commit(struct mkt_client *client, const struct mkt_commit *commit,
                                  uint64_t *version_out, struct mkt_error *error);
/* Withdraws what the path names and removes its stub. MKT_NOT_FOUND: the market has nothing there.
 */
enum mkt_status mkt_client_withdraw(struct mkt_client *client, const char *path,
                                    uint64_t *versions_out, struct mkt_error *error);
/* Withdraws what is known by the file at the path, or by the place if nothing stands there, without
 * waiting for the answer: native changes that file now, so a failure leaves what the market finds
 * out by itself. */
void mkt_client_withdraw_unheard(struct mkt_client *client, const char *path);
/* Withdraws an object whose stub at `path` has just been replaced. MKT_NOT_FOUND: the daemon knew
 * already, or it was another market's. */
enum mkt_status mkt_client_withdraw_replaced(struct mkt_client *client, const char *path,
                                             const uint8_t object[MKT_ID_BYTES],
                                             struct mkt_error *error);

/* The stream of the file at the path, or of the files that a pattern matches (`path` NULL), has no
 * more versions. *streams_out: how many files and patterns that was. MKT_NOT_FOUND: none. */
enum mkt_status mkt_client_end(struct mkt_client *client, const char *path, const char *pattern,
                               uint64_t *streams_out, struct mkt_error *error);

/* ---- files on disk of what is in memory (mode BOTH) ---- */
struct mkt_save_state {
    uint64_t files, bytes, failing;  /* not saved yet; of these, whose last attempt failed */
    char text[MKT_ERROR_TEXT_BYTES]; /* why the first of them */
};
/* Waits until the path's file is safe (NULL: all are), at most wait_ms; *state_out is what is still
 * to be saved then. MKT_NOT_FOUND: the market has nothing there. */
enum mkt_status mkt_client_save_wait(struct mkt_client *client, const char *path, uint32_t wait_ms,
                                     struct mkt_save_state *state_out, struct mkt_error *error);

/* The same for what this client wrote itself. */
enum mkt_status mkt_client_save_wait_own(struct mkt_client *client, uint32_t wait_ms,
                                         struct mkt_save_state *state_out, struct mkt_error *error);

/* For an archiver: one version that is to become a file. */
struct mkt_save_order {
    uint8_t object[MKT_ID_BYTES];
    uint64_t version;
    const void *image, *index; /* mapped until mkt_client_save_done */
    uint64_t image_bytes, index_bytes;
    char *path;   /* malloc'ed; where the file goes */
    char *former; /* malloc'ed; where it went in an attempt that didn't end; NULL: nowhere else */
    bool has_stub;
    struct mkt_file_identity file, placed; /* as in MKT_MSG_SAVE_ORDER */
};
void mkt_save_order_fini(struct mkt_save_order *order);
/* Waits for an order; MKT_TIMED_OUT: none came in wait_ms. The caller calls mkt_save_order_fini. */
enum mkt_status mkt_client_save_next(struct mkt_client *client, uint32_t wait_ms,
                                     struct mkt_save_order *order_out, struct mkt_error *error);
/* So many bytes were moved since the last time: waits while programs read or write. */
enum mkt_status mkt_client_save_yield(struct mkt_client *client, uint64_t bytes,
                                      struct mkt_error *error);
/* May the file `file`, which is whole and on disk, go to its place? MKT_CANCELLED: nobody wants it
 * any more. */
enum mkt_status mkt_client_save_place(struct mkt_client *client, const struct mkt_save_order *order,
                                      const struct mkt_file_identity *file,
                                      struct mkt_error *error);
/* Ends an order: MKT_OK and the file that stands there now, or why there is none. written: open
 * on the file, which may have been moved since it came to its path; -1: it is looked for there. */
enum mkt_status mkt_client_save_done(struct mkt_client *client, const struct mkt_save_order *order,
                                     const struct mkt_error *outcome,
                                     const struct mkt_file_identity *file, int written,
                                     struct mkt_error *error);

/* What stands at a path, without a daemon. */
enum mkt_path_kind {
    MKT_PATH_NONE,
    MKT_PATH_STUB,
    MKT_PATH_FILE
};
enum mkt_path_kind mkt_path_kind(const char *path);
/* The object that the stub at a path stands for; false if no stub is there. */
bool mkt_path_object(const char *path, uint8_t object_out[MKT_ID_BYTES]);

/* ---- bytes ---- */
/* Reserves `bytes` to write into; small requests come from what was granted before. Waits while the
 * market is full. */
enum mkt_status mkt_client_reserve(struct mkt_client *client, uint64_t bytes,
                                   struct mkt_extent *extent_out, void **address_out,
                                   struct mkt_error *error);
/* Gives back what was reserved and not added. */
void mkt_client_unreserve(struct mkt_client *client, const struct mkt_extent *extent);
/* Where an extent is mapped here; pages of the range are entered into this process's tables in one
 * call. */
enum mkt_status mkt_client_map(struct mkt_client *client, const struct mkt_extent *extent,
                               bool writable, void **address_out, struct mkt_error *error);

/* Where the bytes of an extent can be read: where this process wrote, as it is mapped for that, so
 * that its pages aren't entered once more (and taken out at its end); else as by mkt_client_map. */
enum mkt_status mkt_client_map_source(struct mkt_client *client, const struct mkt_extent *extent,
                                      void **address_out, struct mkt_error *error);

/* ---- pieces of a version, wherever they are ---- */
/* Which parts of a piece's data are wanted; starts as zeros. */
struct mkt_spans {
    struct mkt_span *item;
    uint32_t count, capacity;
    bool failed; /* out of memory: all is wanted */
};
/* A mkt_move_fn: what the move reads of its piece. `context` is the struct mkt_spans. */
void mkt_spans_add(void *context, const struct mkt_move *move);
/* Sorted, disjoint, and no more than are asked for at once: the closest become one. */
void mkt_spans_tidy(struct mkt_spans *spans);
void mkt_spans_fini(struct mkt_spans *spans);

struct mkt_piece_source { /* as the index says */
    uint64_t file;        /* open here; 0: the version that this archiver saves */
    uint64_t identity;    /* of the array */
};
struct mkt_piece_data {
    const void *base; /* where byte 0 of the data is, or would be: only what was wanted is there */
    struct mkt_extent fetched; /* to be given back; length 0: nothing */
};
/* Makes the data readable until mkt_client_piece_put: maps it, or has it read from its tier, and
 * then only what is wanted (NULL: all). Waits for memory and for the disk. MKT_NO_SPACE,
 * MKT_IO_ERROR, MKT_CORRUPT, MKT_STALE. */
enum mkt_status mkt_client_piece_get(struct mkt_client *client,
                                     const struct mkt_piece_source *source,
                                     const struct mkt_piece *piece, struct mkt_spans *wanted,
                                     struct mkt_piece_data *data_out, struct mkt_error *error);
void mkt_client_piece_put(struct mkt_client *client, const struct mkt_piece_data *data);

/* A piece's table mapped and checked; NULL for a form without one. */
enum mkt_status mkt_client_piece_table(struct mkt_client *client, const struct mkt_piece *piece,
                                       uint32_t element_bytes, const void **table_out);

/* ---- do the pieces of an array hold all that is wanted of it? ---- */
#define MKT_COVER_SEEN 8 /* pieces compared with each other to tell whether they overlap */
struct mkt_cover {
    struct mkt_client *client;
    const struct mkt_slab *want;
    uint32_t element_bytes;
    uint32_t hits;
    bool overlap;   /* two pieces may share elements */
    uint32_t whole; /* 1 + ordinal of the last box that holds all of the want; what came before
                       doesn't count */
    uint64_t moved; /* elements, sum over the pieces that don't hold all */
    struct mkt_slab seen[MKT_COVER_SEEN];
};
void mkt_cover_begin(struct mkt_cover *cover, struct mkt_client *client,
                     const struct mkt_slab *want, uint32_t element_bytes);
/* A mkt_piece_fn, for each piece that meets the want, the later after the earlier. */
enum mkt_status mkt_cover_piece(void *context, const struct mkt_piece *piece);
/* True if there were more pieces than were compared, so that the index has to say whether all of
 * the array's are disjoint: the argument of the following, else ignored. */
bool mkt_cover_is_open(const struct mkt_cover *cover);
/* False: they may share elements. */
bool mkt_cover_is_disjoint(const struct mkt_cover *cover, bool disjoint);
/* False: not known to. */
bool mkt_cover_holds_all(const struct mkt_cover *cover, bool disjoint);
/* The first so many pieces need not be copied, since a later one holds everything. */
uint32_t mkt_cover_hidden(const struct mkt_cover *cover);

/* ---- pieces of an unpublished file ---- */
/* acknowledge: blocks until the group can see them; piece i got *first_stamp_out + i, or, if there
 * were more pieces than a message holds and another rank's came between, *first_stamp_out is 0.
 * Else they are queued, go out in batches, and *first_stamp_out (may be NULL) is 0. */
enum mkt_status mkt_client_add(struct mkt_client *client, uint64_t file,
                               const struct mkt_array *array, const struct mkt_piece *pieces,
                               uint32_t count, bool acknowledge, uint64_t *first_stamp_out,
                               struct mkt_error *error);
/* What is queued leaves now if that costs little, so that the daemon works on it meanwhile. What
 * fails shows at the next call. */
void mkt_client_push(struct mkt_client *client);
enum mkt_status mkt_client_touch(struct mkt_client *client, uint64_t file, uint64_t identity,
                                 uint64_t stamp, bool *superseded_out, struct mkt_error *error);
/* The group's pieces of one array; *index_out stays valid until mkt_client_unreserve(extent). */
enum mkt_status mkt_client_lookup(struct mkt_client *client, uint64_t file, uint64_t identity,
                                  struct mkt_extent *extent_out, const void **index_out,
                                  struct mkt_error *error);

/* ---- for the command line ---- */
/* *json_out is malloc'ed, NUL-terminated. path may be NULL for STATUS and LIST. */
enum mkt_status mkt_client_query(struct mkt_client *client, enum mkt_query what, const char *path,
                                 char **json_out, struct mkt_error *error);
/* The market is to end: until this client goes nobody opens a file for writing, and what is owed is
 * saved, first what has `backup`. */
enum mkt_status mkt_client_drain(struct mkt_client *client, struct mkt_error *error);
/* Ends the daemon. MKT_STALE: not everything is saved yet; MKT_BUSY: something would be lost. */
enum mkt_status mkt_client_stop(struct mkt_client *client, bool discard, struct mkt_error *error);

#endif
