/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator: one market, scripted processes, a network that delays and reorders between
 * sessions, files, bytes and time, all in one process and out of one seed. What a process writes is
 * unique, and a model remembers it, so that a reader knows whether it sees one whole version and
 * nothing else.
 */
#ifndef MKT_TESTS_SIM_H
#define MKT_TESTS_SIM_H

#include "core/market/market.h"
#include "tests/unit/random.h"

#include <setjmp.h>

enum {
    PATHS = 5,
    ARRAYS = 2,
    CELLS = 32,
    CELL_BYTES = 8,
    MAX_RANKS = 3,
    MAX_ROUNDS = 3,
    MAX_PROCESSES = 32,
    MAX_PROGRAMS = 14,
    STREAM_READERS = 3,
    MAX_JOBS = 8,
    MAX_ARENAS = 64,
    MAX_EXTENTS = 64,
    MAX_OWN_PIECES = 24,
    IMAGE_BYTES = 192,
};

/* ---- content.c: what was written, and what a version must hold ---- */

struct cells {
    uint64_t value[ARRAYS][CELLS][MAX_RANKS]; /* candidates for the last word; 0: none */
};

/* What the ranks had written when they committed. */
struct round {
    struct cells cells; /* by rank */
    bool listed[ARRAYS];
    unsigned committed;            /* bit r: rank r has sent its COMMIT */
    bool unchanged;                /* of all ranks */
    struct attempt *image_attempt; /* whose image it has */
    unsigned image_round;
};

/* One file open for writing by one program. */
struct attempt {
    uint64_t id;
    unsigned path, size;
    bool has_base, hostile, failed;
    struct cells base; /* READ_WRITE: candidates that were there before */
    struct attempt *base_image;
    unsigned base_image_round;
    uint64_t base_number;
    struct cells now;                /* by rank */
    uint8_t complete[ARRAYS][CELLS]; /* bit r: rank r knows that its last write there is done */
    struct round round[MAX_ROUNDS];
    struct attempt *next;
};

struct known_version {
    uint8_t object[MKT_ID_BYTES];
    uint64_t number;
    struct attempt *attempt;
    unsigned round;
};

/* ---- world.c ---- */

struct frame {
    struct frame *next;
    size_t bytes;
    _Alignas(8) uint8_t data[];
};
struct queue {
    struct frame *head, **tail;
    unsigned count;
};

/* A regular file; content: which version of the market's it is, from 1; 0: somebody's own. */
struct file {
    bool exists, is_stub, is_safe;
    uint64_t ino, mtime;
    uint8_t stub[MKT_ID_BYTES];
    unsigned content; /* its place in the order of publication */
};

/* What stands at a path. */
struct path {
    char name[32];
    bool uses_stub, has_stub, has_file;
    uint8_t stub[MKT_ID_BYTES];
    uint64_t mtime, ino;
    unsigned content; /* of the file, as in struct file */
    bool is_safe;     /* and it is on disk for good */
    struct file temporary;
    const struct process *saver; /* who has that locked */
    unsigned last_saved; /* content of the newest file that stood there, while nobody meddled */
    unsigned owed;       /* the newest version that has to become a file, as content; 0: none */
    /* The newest version that a client knows of, as long as nothing happened that takes versions
     * away. */
    uint8_t object[MKT_ID_BYTES];
    uint64_t committed;
};

enum job_kind {
    JOB_WRITE,
    JOB_READ,
    JOB_HOG,
    JOB_WITHDRAW,
    JOB_PROBE,
    JOB_REMOVE,
    JOB_END,
    JOB_ARCHIVE
};
struct job {
    enum job_kind kind;
    unsigned path;
    enum mkt_intent intent;
    enum mkt_mode mode;
    uint32_t wait_ms, writer_timeout_ms, keep, publish_close, durability;
    uint64_t version;
    bool after_now;
    struct mkt_stream_rule stream;
    bool by_pattern;         /* END */
    uint64_t queue_until_ms; /* WRITE: 0: it hasn't asked yet */
    unsigned rounds, operations;
    bool unchanged, drops_array, closes, disagrees;
    int failing_rank, lazy_rank; /* -1: none; lazy: unchanged on rank 0 only */
    /* While it runs. */
    bool started, answered, answer_failed;
    uint8_t token[MKT_ID_BYTES];
    uint8_t stub[MKT_ID_BYTES];
    struct mkt_name name;
    struct mkt_msg_opened answer;
    struct attempt *attempt;
};

struct program {
    unsigned size, jobs;
    unsigned reader; /* of a stream: its name, from 1 */
    bool hostile, is_archiver;
    struct process *rank[MAX_RANKS];
    struct job job[MAX_JOBS];
};

enum phase {
    PHASE_START,
    PHASE_OPENING,
    PHASE_OPEN,
    PHASE_COMMITTING,
    PHASE_FINISHED
};

struct own_piece {
    enum mkt_piece_form form;
    unsigned array, start, count, stride; /* count elements; BOX and MASKED: stride 1 */
    uint32_t mask;                        /* MASKED: what was written */
    uint64_t stamp;                       /* 0: not acknowledged yet */
    uint64_t last[CELLS];                 /* what it holds, by element */
    uint64_t beaten[CELLS][MAX_RANKS];    /* others' writes that were done before this one began */
    struct mkt_extent data, table;
    bool again; /* overtaken after it was written again: has to be added anew */
};

/* archiver.c */
enum archive_step {
    ARCHIVE_IDLE,
    ARCHIVE_OPEN,
    ARCHIVE_FILL,
    ARCHIVE_PLACE,
    ARCHIVE_EXCHANGE,
    ARCHIVE_LOOK,
    ARCHIVE_SYNC,
    ARCHIVE_DONE
};
struct archive {
    enum archive_step step;
    struct mkt_msg_save_order order;
    struct path *path;
    unsigned content;
    enum mkt_status outcome;
    struct mkt_file_identity file; /* that is there */
    uint64_t expected;             /* ino; 0: nothing */
    unsigned found_nothing;        /* in a row */
};

struct process {
    unsigned number, rank;
    uint64_t session;
    uint32_t node;
    struct program *program;
    bool exists;           /* the session began */
    bool alive;            /* the program runs */
    bool connected;        /* as it sees it */
    bool ended, reclaimed; /* as the market was told */
    bool refused;
    struct queue to_market, to_client;
    uint64_t fill; /* the word that fills what is granted to it */

    unsigned job;
    enum phase phase;
    unsigned round, operations, checks;
    uint64_t file;
    struct mkt_msg_opened opened;

    /* The one request that it waits for. */
    uint64_t request;
    enum mkt_msg_type waits_for; /* 0: nothing */
    bool delivered, cancelled;
    bool was_answered; /* at a restart: the answer was on its way */
    uint64_t delivered_ms, limit_ms;
    bool out_of_memory;
    uint64_t known_version; /* READ: committed before the open was sent */
    uint64_t published;     /* COMMITTED says so, and nothing took it away since */

    struct mkt_extent free[MAX_EXTENTS];
    unsigned free_count;
    struct own_piece piece[MAX_OWN_PIECES];
    unsigned pieces;
    unsigned unacknowledged;  /* the last so many pieces await their stamps */
    unsigned touched;         /* piece that a TOUCH is about */
    bool held;                /* HOG */
    struct mkt_piece fetched; /* a FETCH is about it: these parts */
    uint64_t fetched_of;      /* the array's identity */
    struct mkt_span span[3];
    unsigned spans;
    unsigned looked_up;
    struct archive archive;
};

struct world {
    uint64_t seed, random;
    uint64_t node_random; /* nodes are drawn apart: a schedule is the same wherever they are */
    bool trace, audit_always;
    jmp_buf failed;
    char failure[2048];

    struct mkt_market *market;
    struct mkt_market_limits limits;
    uint64_t now;
    uint64_t steps;
    uint8_t *arena[MAX_ARENAS];
    uint32_t arena_node[MAX_ARENAS];
    unsigned arenas, most_arenas; /* more are refused; 0: none is */

    struct path path[PATHS];
    struct program program[MAX_PROGRAMS];
    unsigned programs;
    struct process process[MAX_PROCESSES];
    unsigned processes;
    uint64_t last_value, last_request, last_token;

    struct attempt *attempts;
    struct known_version *version;
    unsigned versions;
    uint8_t removed[16][MKT_ID_BYTES]; /* stubs whose removal the market hasn't heard of */
    unsigned removals;
    uint8_t removed_path[16];
    uint64_t last_ino, saves;
    unsigned archivers;
    unsigned tier_pace; /* moves end the later, the higher it is */
    bool meddled;       /* somebody withdrew, removed or replaced a file */
    bool archivers_end; /* no new ones, and none fails */

    bool short_of_memory; /* allocations fail in this schedule */
    bool keeps_sets, has_hostile, hides_versions;
    bool is_apart;           /* what a market asks for now is no affair of the world's */
    bool answers_again;      /* a client that is connected anew may have had its answer */
    unsigned restart_rarity; /* 0: never */
    unsigned deaths_left;    /* in the middle of a call: each costs memory, which nobody frees */
    uint64_t stream_reads, stream_ends, stream_waits;
    uint64_t kills, publishes, reads, errors, restarts, deaths, moves, fetches, far_grants;
};

extern struct world world;

void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define SIM_CHECK(condition, ...)  \
    do {                           \
        if (!(condition))          \
            sim_fail(__VA_ARGS__); \
    } while (0)

uint64_t chance(uint64_t low, uint64_t high); /* low .. high */
bool one_in(unsigned n);

void world_begin(uint64_t seed, bool short_of_memory);
void world_end(void);
void *world_bytes(const struct mkt_extent *extent);
/* Wherever it is. */
const void *world_piece(const struct mkt_extent *extent);
void world_audit(void);
extern const struct mkt_market_ops *const world_operations;
/* Every client is connected anew: what was on its way to it is lost, its last answer comes again.
 */
void world_reconnect(void);
void world_deliver_to_market(struct process *process);
void world_tick(uint64_t now_ms);
void world_session_begin(struct process *process);
void world_session_end(struct process *process);
void world_session_reclaim(struct process *process);
void world_stub_removed(unsigned at);
void world_disturb(unsigned path);
void world_send(struct process *process, const struct mkt_msg *msg);
struct frame *queue_take(struct queue *queue);
void queue_clear(struct queue *queue);

uint64_t content_value(const struct attempt *attempt, unsigned array, unsigned cell);
struct attempt *content_attempt(unsigned path, unsigned size, bool hostile);
void content_wrote(struct attempt *attempt, unsigned rank, unsigned array, unsigned cell,
                   uint64_t value);
/* The others' writes of a cell that are done: whoever begins to write now has the later word. */
void content_find_done(const struct attempt *attempt, unsigned rank, unsigned array, unsigned cell,
                       uint64_t beaten_out[MAX_RANKS]);
/* The rank's write is done, too. */
void content_done(struct attempt *attempt, unsigned rank, unsigned array, unsigned cell,
                  const uint64_t beaten[MAX_RANKS]);
void content_commit(struct attempt *attempt, unsigned rank, unsigned round, const struct job *job);
void content_based_on(struct attempt *attempt, const struct mkt_msg_opened *opened);
void content_published(const uint8_t object[MKT_ID_BYTES], uint64_t number, struct attempt *attempt,
                       unsigned round);
void content_write_image(void *bytes, const struct attempt *attempt, unsigned round);
/* A version is whole, and nothing but itself. */
void content_check(const struct mkt_msg_opened *opened);
/* The place of a version in the order of publication, from 1; 0: nobody published it. */
unsigned content_order(const uint8_t object[MKT_ID_BYTES], uint64_t number);
/* A piece of the version that lies in the tier. False: none does. */
bool content_cold(const struct mkt_msg_opened *opened, uint64_t *identity_out,
                  struct mkt_piece *piece_out);
/* What is there of an unpublished array: this rank's writes must be. */
void content_check_lookup(const struct mkt_extent *extent, const struct attempt *attempt,
                          unsigned rank, unsigned array);
void content_free(void);

/* ---- process.c ---- */
bool process_can_act(const struct process *process);
void process_act(struct process *process);
void process_receive(struct process *process);
void process_kill(struct process *process);
void process_cut(struct process *process);
bool process_is_done(const struct process *process);

/* ---- archiver.c ---- */
void archiver_act(struct process *process);
void archiver_receive(struct process *process, const struct mkt_msg *msg);
/* It died: another one comes. */
void archiver_reborn(struct process *process);
/* A version was published that has to become a file, or one that doesn't. */
void archive_owe(struct path *path, unsigned content, bool owed);
/* At the end: saves what can be, then looks whether what is owed is there, or in memory. */
void archive_rest(struct process *process);
/* Somebody changed, replaced or removed the file at the path. */
void archive_meddled(struct path *path);

/* ---- stream.c ---- */
/* The rule of a schedule's stream. */
struct stream_setup {
    unsigned path;
    struct mkt_stream_rule rule;
    uint32_t keep;
};
void stream_begin(void);
void stream_set_up(struct stream_setup *setup);
/* Role 0: a writer; else a reader. */
void stream_make(struct program *program, const struct stream_setup *setup, unsigned role);
/* An answer leaves; a CLOSE, or the end of a session, has reached the market. */
void stream_delivered(const struct process *process, const struct mkt_msg_opened *opened);
void stream_closed(const struct process *process, uint64_t file);
void stream_session_ended(const struct process *process);
void stream_check_end(const struct process *process);
void stream_check_waits(void);

/* ---- program.c ---- */
void programs_make(void);

/* ---- restart.c ---- */
void restart_begin(bool on);
void *restart_reserve(void *context);
void restart_append(void *context, size_t bytes);
void restart_done(void *context);
void restart_compact(void);
void restart_market(void);
/* Around a call of the market: it may end in the middle of it, at any operation. */
void restart_enter(void);
void restart_leave(void);
void restart_operation(void);
/* Makes a step; if the market dies in it, another goes on. */
void restart_step(void (*step)(void));

/* ---- tier.c ---- */
/* Some markets have one. */
void tier_begin(struct mkt_market_limits *limits);
void tier_end(void);
void tier_move_out(void *context, uint64_t move, const struct mkt_extent *memory);
void tier_move_in(void *context, uint64_t move, const struct mkt_market_reading *reading);
void tier_drop_cold(void *context, const struct mkt_extent *cold);
/* A move ends. */
bool tier_can_act(void);
void tier_act(void);
/* Moves are lost with the market that asked for them. */
void tier_restart(void);
/* What lies in the tier. */
const void *tier_bytes(const struct mkt_extent *cold);
bool tier_is_empty(void);

/* ---- memory.c: allocations that fail inside the market ---- */
void memory_arm(uint64_t one_in_n, uint64_t seed);
void memory_enter(void);
void memory_leave(void);
uint64_t memory_failures(void); /* since the last call */

/* ---- schedule.c ---- */
/* Runs one schedule. False: world.failure says why. */
bool schedule_run(uint64_t seed, bool trace, bool short_of_memory);

#endif
