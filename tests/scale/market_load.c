/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A real market under many processes: writers and readers without HDF5, each a client of its own,
 * more data than memory holds, and a killer among them. Every reader checks that it gets a version
 * no older than what was published before it asked, whole, word by word. No call may take longer
 * than its deadline. When all have gone, the daemon must have given everything back.
 *
 * market_load [-w writers] [-r readers] [-v versions] [-k kills] [-s seed] [-t seconds] [-e]
 *
 * -e: no file has a version in the beginning, so that stubs are made by writers that others
 * disturb. A maker that is stopped or killed while its stub is still empty looks like a real file
 * that is empty to others, whose version then no path may lead to: what is left may not be 0.
 */
#include "core/base/clock.h"
#include "core/client/client.h"
#include "tests/unit/random.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PATHS = 1500,
    MAX_PIECES = 4,
    PIECE_WORDS = 8192, /* at most */
    ARRAY_WORDS = MAX_PIECES * PIECE_WORDS,
    OPEN_MS = 500,
    FULL_MS = 10000,  /* `full_timeout` of the script's configuration */
    SLACK_MS = 10000, /* of a machine whose processors have so many processes to run */
    END_MS = 15000
};

struct slot {
    pid_t pid;
    bool is_writer;
    uint32_t lives;
    _Atomic uint64_t deadline_ms; /* of the call that it is in; 0: in none */
    const char *call;
};

/* What all processes share. */
struct board {
    _Atomic uint64_t attempts, published, read, fetched, bytes, refused;
    _Atomic bool ends, failed;
    _Atomic uint64_t newest[PATHS]; /* versions */
    char failure[600];
};

static struct {
    uint32_t writers, readers;
    uint64_t versions, kills, seed, seconds;
    bool empty;
} options = {.writers = 128, .readers = 128, .versions = 10000, .kills = 150, .seconds = 45};

static struct board *board;
static struct slot *slots;
static struct slot *own; /* this process's */
static struct mkt_client *client;
static struct mkt_error error;
static uint64_t randomness;

static void fail(const char *what)
{
    bool first = !atomic_exchange(&board->failed, true);

    if (first)
        snprintf(board->failure, sizeof(board->failure), "process %d, %s: %s: %.400s",
                 (int)getpid(), what, mkt_status_name(error.status), error.text);
    exit(1);
}

static void enter(const char *call, uint64_t may_take_ms)
{
    own->call = call;
    atomic_store(&own->deadline_ms, mkt_now_ms() + may_take_ms + SLACK_MS);
}

static void leave(void)
{
    atomic_store(&own->deadline_ms, 0);
}

static void connect_or_fail(void)
{
    const struct mkt_client_options to = {.daemon_path = getenv("MARKET_DAEMON")};

    enter("connect", 10000);
    if (mkt_client_connect(&to, &client, &error) != MKT_OK)
        fail("connect");
    leave();
}

static void path_of(unsigned at, char path[32])
{
    snprintf(path, 32, "step%04u.h5", at);
}

/* ---- contents ---- */

struct image {
    uint64_t attempt, pieces;
};

static uint64_t word(uint64_t attempt, uint64_t at)
{
    return attempt * UINT64_C(0x9e3779b97f4a7c15) ^ at;
}

static const struct mkt_array dataset = {.identity = 1,
                                         .token = {1},
                                         .element_bytes = sizeof(uint64_t),
                                         .rank = 1,
                                         .dims = {ARRAY_WORDS}};

/* ---- a writer ---- */

/* False: the market is full, or the file was poisoned: the caller goes without publishing. */
static bool add_piece(uint64_t file, uint64_t attempt, uint64_t at)
{
    const uint64_t start = at * PIECE_WORDS, words = random_in(&randomness, 1, PIECE_WORDS);
    struct mkt_piece piece = {.form = MKT_PIECE_BOX};
    void *address;

    enter("reserve", FULL_MS);
    enum mkt_status status =
        mkt_client_reserve(client, words * sizeof(uint64_t), &piece.data, &address, &error);
    leave();
    if (status == MKT_NO_SPACE)
        return false;
    if (status != MKT_OK)
        fail("reserve");
    for (uint64_t i = 0; i < words; i++)
        ((uint64_t *)address)[i] = word(attempt, start + i);
    mkt_slab_box(&piece.slab, 1, &start, &words);
    enter("add", 0);
    status = mkt_client_add(client, file, &dataset, &piece, 1, false, NULL, &error);
    leave();
    if (status != MKT_OK)
        fail("add");
    return true;
}

static void note_published(unsigned at, uint64_t version)
{
    uint64_t before = atomic_load(&board->newest[at]);

    while (before < version && !atomic_compare_exchange_weak(&board->newest[at], &before, version))
        ;
    atomic_fetch_add(&board->published, 1);
}

static void write_one(unsigned at)
{
    char path[32];
    const struct mkt_open create = {
        .path = path, .intent = MKT_INTENT_CREATE, .size = 1, .wait_ms = 0};
    struct image image = {atomic_fetch_add(&board->attempts, 1) + 1,
                          random_in(&randomness, 1, MAX_PIECES)};
    struct mkt_commit commit = {
        .image = &image, .image_bytes = sizeof(image), .arrays = &dataset, .arrays_count = 1};
    struct mkt_opened opened;
    uint64_t version = 0;

    path_of(at, path);
    enter("create", 0);
    enum mkt_status status = mkt_client_open(client, &create, &opened, &error);
    leave();
    if (status == MKT_BUSY)
        return;
    if (status != MKT_OK || opened.source != MKT_SOURCE_EMPTY)
        fail("create");
    for (uint64_t p = 0; p < image.pieces; p++) {
        if (add_piece(opened.file, image.attempt, p))
            continue;
        atomic_fetch_add(&board->refused, 1);
        mkt_client_close(client, opened.file);
        return;
    }
    commit.file = opened.file;
    enter("commit", FULL_MS);
    status = mkt_client_commit(client, &commit, &version, &error);
    leave();
    if (status == MKT_NO_SPACE || status == MKT_POISONED)
        atomic_fetch_add(&board->refused, 1);
    else if (status != MKT_OK || version == 0)
        fail("commit");
    else
        note_published(at, version);
}

/* ---- a reader ---- */

struct reading {
    uint64_t file;
    struct image image;
    uint64_t pieces;
};

static enum mkt_status check_piece(void *context, const struct mkt_piece *piece)
{
    struct reading *reading = context;
    const struct mkt_piece_source source = {reading->file, dataset.identity};
    const uint64_t start = piece->slab.dim[0].start, words = piece->data.length / sizeof(uint64_t);
    struct mkt_piece_data data;

    enter("read", FULL_MS);
    enum mkt_status status = mkt_client_piece_get(client, &source, piece, NULL, &data, &error);
    leave();
    if (status == MKT_NO_SPACE) /* to read it from the tier */
        return status;
    if (status != MKT_OK)
        fail("read");
    for (uint64_t i = 0; i < words; i++) {
        if (((const uint64_t *)data.base)[i] == word(reading->image.attempt, start + i))
            continue;
        mkt_error_set(&error, MKT_CORRUPT, "word %llu of attempt %llu is wrong",
                      (unsigned long long)(start + i), (unsigned long long)reading->image.attempt);
        fail("read");
    }
    atomic_fetch_add(&board->bytes, piece->data.length);
    atomic_fetch_add(&board->fetched, mkt_extent_is_cold(&piece->data));
    mkt_client_piece_put(client, &data);
    reading->pieces++;
    return MKT_OK;
}

static void check_version(const struct mkt_opened *opened, uint64_t known)
{
    struct reading reading = {.file = opened->file};
    const uint64_t zero = 0, all = ARRAY_WORDS;
    struct mkt_index_view view;
    struct mkt_slab want;

    if (opened->source != MKT_SOURCE_VERSION || opened->version < known ||
        opened->image_bytes != sizeof(reading.image)) {
        mkt_error_set(&error, MKT_STALE, "version %llu from %d, where %llu was published",
                      (unsigned long long)opened->version, (int)opened->source,
                      (unsigned long long)known);
        fail("open to read");
    }
    memcpy(&reading.image, opened->image, sizeof(reading.image));
    mkt_slab_box(&want, 1, &zero, &all);
    error = (struct mkt_error){.status = MKT_CORRUPT, .text = "its index"};
    if (mkt_index_view_open(&view, opened->index, opened->index_bytes) != MKT_OK)
        fail("open to read");
    enum mkt_status status = mkt_index_view_query(&view, 0, &want, check_piece, &reading);
    if (status == MKT_NO_SPACE)
        atomic_fetch_add(&board->refused, 1);
    else if (status != MKT_OK || reading.pieces != reading.image.pieces)
        fail("read all pieces");
    else
        atomic_fetch_add(&board->read, 1);
}

static void read_one(unsigned at)
{
    char path[32];
    const struct mkt_open request = {
        .path = path, .intent = MKT_INTENT_READ, .size = 1, .wait_ms = OPEN_MS};
    const uint64_t known = atomic_load(&board->newest[at]);
    struct mkt_opened opened;

    path_of(at, path);
    /* While a writer has it open, a reader without a version waits for that. */
    enter("open", known > 0 ? 0 : 30000);
    enum mkt_status status = mkt_client_open(client, &request, &opened, &error);
    leave();
    if (known == 0 && (status == MKT_NOT_FOUND || status == MKT_TIMED_OUT))
        return;
    if (status != MKT_OK)
        fail("open to read");
    /* A stub that its writer, stopped just then, hasn't filled yet. */
    if (known == 0 && opened.source == MKT_SOURCE_NATIVE)
        return;
    check_version(&opened, known);
    mkt_client_close(client, opened.file);
}

/* ---- processes ---- */

static void live(void)
{
    randomness = options.seed + (uint64_t)(own - slots) * 1000003u + own->lives * 7919u;
    connect_or_fail();
    while (!atomic_load(&board->ends)) {
        unsigned at = (unsigned)random_in(&randomness, 0, PATHS - 1);

        if (own->is_writer)
            write_one(at);
        else
            read_one(at);
        /* Not all time for those who happen to run. */
        usleep((useconds_t)random_in(&randomness, 0, 20000));
    }
    mkt_client_destroy(client);
    exit(0);
}

static void start(struct slot *slot)
{
    slot->lives++;
    atomic_store(&slot->deadline_ms, 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        mkt_error_set(&error, MKT_NO_MEMORY, "fork: %s", strerror(errno));
        fail("start");
    }
    if (pid == 0) {
        own = slot;
        live();
    }
    slot->pid = pid; /* shared: the child's to read only */
}

static void kill_one(uint32_t count)
{
    struct slot *slot = &slots[random_in(&randomness, 0, count - 1)];

    kill(slot->pid, SIGKILL);
    waitpid(slot->pid, NULL, 0);
    start(slot);
}

/* Looks whether somebody failed or is late. */
static void look(uint32_t count)
{
    const uint64_t now_ms = mkt_now_ms();

    for (uint32_t i = 0; i < count; i++) {
        uint64_t deadline_ms = atomic_load(&slots[i].deadline_ms);

        if (deadline_ms == 0 || now_ms <= deadline_ms)
            continue;
        mkt_error_set(&error, MKT_TIMED_OUT, "process %d is %llu ms past its deadline in '%s'",
                      (int)slots[i].pid, (unsigned long long)(now_ms - deadline_ms),
                      slots[i].call ? slots[i].call : "?");
        fail("a wait");
    }
    if (atomic_load(&board->failed))
        exit(1);
}

static void run(uint32_t count)
{
    const uint64_t end_ms = mkt_now_ms() + options.seconds * 1000;
    uint64_t killed = 0;

    for (uint32_t i = 0; i < count; i++) {
        slots[i].is_writer = i < options.writers;
        start(&slots[i]);
    }
    while (atomic_load(&board->published) < options.versions && mkt_now_ms() < end_ms) {
        usleep(20000);
        look(count);
        if (killed * options.versions < atomic_load(&board->published) * options.kills) {
            kill_one(count);
            killed++;
        }
    }
    printf("%llu processes killed\n", (unsigned long long)killed);
}

static void wait_for_all(uint32_t count)
{
    const uint64_t end_ms = mkt_now_ms() + END_MS + FULL_MS + 30000;

    atomic_store(&board->ends, true);
    for (uint32_t i = 0; i < count; i++) {
        int status = 0;

        while (waitpid(slots[i].pid, &status, WNOHANG) == 0) {
            look(count);
            error = (struct mkt_error){.status = MKT_TIMED_OUT, .text = "a process does not end"};
            if (mkt_now_ms() > end_ms)
                fail("the end");
            usleep(5000);
        }
        if (status != 0 && !atomic_load(&board->failed)) {
            mkt_error_set(&error, MKT_CORRUPT, "a process ended with %d", status);
            fail("the end");
        }
    }
    look(count);
}

/* ---- what the daemon has in the end ---- */

static uint64_t number_of(const char *group, const char *key)
{
    char *text;

    if (mkt_client_query(client, MKT_QUERY_STATUS, NULL, &text, &error) != MKT_OK)
        fail("status");
    json_t *json = json_loads(text, 0, NULL);
    json_t *at = group ? json_object_get(json, group) : json;
    uint64_t number = (uint64_t)json_integer_value(json_object_get(at, key));
    json_decref(json);
    free(text);
    return number;
}

/* Waits until the number is what it should be: processes' deaths are noticed a little later. */
static void expect(const char *group, const char *key, uint64_t wanted)
{
    const uint64_t end_ms = mkt_now_ms() + END_MS;
    uint64_t number;

    while ((number = number_of(group, key)) != wanted && mkt_now_ms() < end_ms)
        usleep(20000);
    if (number == wanted)
        return;
    char *list = NULL;
    (void)mkt_client_query(client, MKT_QUERY_LIST, NULL, &list, &error);
    fprintf(stderr, "the market holds %.4000s\n", list ? list : "?");
    mkt_error_set(&error, MKT_CORRUPT, "%s.%s is %llu, not %llu", group ? group : "", key,
                  (unsigned long long)number, (unsigned long long)wanted);
    fail("what is left");
}

static uint64_t worker_number(const char *file, const char *key)
{
    char path[400], line[256];
    unsigned long pid = 0;
    uint64_t number = 0;

    snprintf(path, sizeof(path), "%.300s/worker.pid", getenv("H5MARKET_DIR"));
    FILE *stream = fopen(path, "r");
    if (!stream || fscanf(stream, "%lu", &pid) != 1)
        fail("the daemon's pid");
    fclose(stream);
    snprintf(path, sizeof(path), "/proc/%lu/%s", pid, file);
    stream = fopen(path, "r");
    while (stream && fgets(line, sizeof(line), stream)) {
        if (strncmp(line, key, strlen(key)) == 0)
            number = strtoull(line + strlen(key), NULL, 10);
    }
    if (stream)
        fclose(stream);
    return number;
}

static uint64_t worker_descriptors(void)
{
    char command[400];
    unsigned long count = 0;

    snprintf(command, sizeof(command), "ls /proc/$(cat %.300s/worker.pid)/fd | wc -l",
             getenv("H5MARKET_DIR"));
    FILE *stream = popen(command, "r");
    if (!stream || fscanf(stream, "%lu", &count) != 1)
        fail("the daemon's descriptors");
    pclose(stream);
    return count;
}

static void withdraw_all(void)
{
    for (unsigned at = 0; at < PATHS; at++) {
        char path[32];
        uint64_t versions;

        path_of(at, path);
        enum mkt_status status = mkt_client_withdraw(client, path, &versions, &error);
        if (status != MKT_OK && (status != MKT_NOT_FOUND || atomic_load(&board->newest[at]) > 0))
            fail("rm");
        /* Of a writer that was killed while it made the stub an empty file may be there. */
        if (mkt_path_kind(path) == MKT_PATH_STUB) {
            mkt_error_set(&error, MKT_EXISTS, "the stub of %s is left", path);
            fail("rm");
        }
    }
}

static void check_what_is_left(uint64_t descriptors_before, uint64_t anonymous_kb_before)
{
    expect(NULL, "groups", 0);
    expect(NULL, "sessions", 1);
    expect("memory", "granted_bytes", 0);
    expect("tier", "moves", 0);
    expect("memory", "used_bytes", number_of("memory", "published_bytes"));
    printf("%llu MiB moved out, %llu MiB in\n",
           (unsigned long long)number_of("tier", "moved_out_bytes") >> 20,
           (unsigned long long)number_of("tier", "moved_in_bytes") >> 20);
    error = (struct mkt_error){.status = MKT_CORRUPT, .text = "the tier was not used"};
    if (number_of("tier", "moved_out_bytes") == 0 || atomic_load(&board->fetched) == 0)
        fail("the tier");
    withdraw_all();
    expect("memory", "used_bytes", 0);
    expect(NULL, "objects", 0);
    expect("tier", "used_bytes", 0);
    /* An arena stays, with its descriptor, and a segment of the tier; stubs go by and by. */
    const uint64_t end_ms = mkt_now_ms() + END_MS, arenas = number_of("memory", "arenas"),
                   most = descriptors_before + arenas + 4;
    uint64_t descriptors;
    while ((descriptors = worker_descriptors()) > most && mkt_now_ms() < end_ms)
        usleep(100000);
    uint64_t anonymous_kb = worker_number("status", "RssAnon:");
    printf("the daemon: %llu descriptors (%llu before, %llu arenas), %llu KiB of its own memory "
           "(%llu before)\n",
           (unsigned long long)descriptors, (unsigned long long)descriptors_before,
           (unsigned long long)arenas, (unsigned long long)anonymous_kb,
           (unsigned long long)anonymous_kb_before);
    mkt_error_set(&error, MKT_CORRUPT, "%llu descriptors, %llu KiB",
                  (unsigned long long)descriptors, (unsigned long long)anonymous_kb);
    /* What the allocator keeps of the connections' memory is about 30 MiB, however many versions
     * there were. */
    if (descriptors > most || anonymous_kb > anonymous_kb_before + (48 << 10))
        fail("the daemon");
}

static void parse(int argc, char **argv)
{
    int option;

    options.seed = mkt_wall_ns();
    while ((option = getopt(argc, argv, "ew:r:v:k:s:t:")) != -1) {
        uint64_t number = optarg ? strtoull(optarg, NULL, 0) : 0;

        switch (option) {
        case 'w':
            options.writers = (uint32_t)number;
            break;
        case 'r':
            options.readers = (uint32_t)number;
            break;
        case 'v':
            options.versions = number;
            break;
        case 'k':
            options.kills = number;
            break;
        case 's':
            options.seed = number;
            break;
        case 't':
            options.seconds = number;
            break;
        case 'e':
            options.empty = true;
            break;
        default:
            exit(2);
        }
    }
}

static void report(uint64_t started_ms)
{
    printf("%.1f s: %llu versions published, %llu read, %llu MiB verified, %llu pieces read from "
           "the tier, %llu calls refused in full memory\n",
           (double)(mkt_now_ms() - started_ms) / 1000,
           (unsigned long long)atomic_load(&board->published),
           (unsigned long long)atomic_load(&board->read),
           (unsigned long long)atomic_load(&board->bytes) >> 20,
           (unsigned long long)atomic_load(&board->fetched),
           (unsigned long long)atomic_load(&board->refused));
}

static void say_failure(void)
{
    if (board->failed && getpid() == (pid_t)slots[options.writers + options.readers].pid)
        fprintf(stderr, "market_load: %s\n", board->failure);
}

static void *share(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return memory;
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    const uint32_t count = options.writers + options.readers;
    const uint64_t started_ms = mkt_now_ms();

    board = share(sizeof(*board));
    slots = share((count + 1) * sizeof(*slots));
    own = &slots[count];
    own->pid = getpid();
    randomness = options.seed;
    printf("seed %llu\n", (unsigned long long)options.seed);
    atexit(say_failure);
    connect_or_fail();
    uint64_t descriptors = worker_descriptors(), anonymous = worker_number("status", "RssAnon:");
    for (unsigned at = 0; !options.empty && at < PATHS; at++)
        write_one(at);
    mkt_client_destroy(client);
    run(count);
    wait_for_all(count);
    report(started_ms);
    connect_or_fail();
    check_what_is_left(descriptors, anonymous);
    mkt_client_destroy(client);
    error = (struct mkt_error){.status = MKT_TIMED_OUT, .text = "too few versions in the time"};
    if (atomic_load(&board->published) < options.versions)
        fail("the goal");
    return 0;
}
