/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * market_probe: a client without HDF5, for scripts that test the daemon. The market's folder is
 * $H5MARKET_DIR, the daemon to start $MARKET_DAEMON (unset: never start one).
 *
 *   id                           connects, prints the daemon's id
 *   hold                         the same, and stays connected until its standard input ends
 *   write PATH MIB [STEPS [MS]]  writes STEPS versions of PATH, MS apart
 *   write-and-stay PATH MIB      writes one and stays until its standard input ends
 *   write-half PATH MIB          writes one but doesn't close it, and stays
 *   read PATH MIB                reads the newest version and checks every element
 *   read-and-stay PATH MIB       opens it, stays, then reads and checks
 *   status KEY[.KEY]             prints one entry of the daemon's state
 *   saved PATH MS                waits until its file is on disk (PATH "": all); prints how many
 * are not, and why
 *   rm PATH                      withdraws
 *   stop [discard]
 *   fault-points                 0 if fault points do something in this build
 */
#include "core/client/client.h"
#include "core/geometry/piece_layout.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct mkt_client *client;
static struct mkt_error error;

static int fail(const char *what)
{
    fprintf(stderr, "market_probe: %s: %s: %s\n", what, mkt_status_name(error.status), error.text);
    return 1;
}

static void connect_or_exit(void)
{
    struct mkt_client_options options = {.daemon_path = getenv("MARKET_DAEMON")};

    if (mkt_client_connect(&options, &client, &error) != MKT_OK)
        exit(fail("connect"));
}

static void print_id(void)
{
    for (int i = 0; i < MKT_ID_BYTES; i++)
        printf("%02x", mkt_client_daemon_id(client)[i]);
    printf("\n");
    fflush(stdout);
}

static void stay(void)
{
    char byte;

    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
}

static uint64_t element(uint64_t version, uint64_t i)
{
    return version * UINT64_C(0x9e3779b97f4a7c15) + i;
}

static struct mkt_array make_array(uint64_t elements)
{
    struct mkt_array array = {.identity = 1, .element_bytes = 8, .rank = 1, .dims = {elements}};

    memset(array.token, 1, sizeof(array.token));
    return array;
}

/* Creates the file and adds its data. */
static int add_data(const char *path, uint64_t elements, uint64_t *file_out)
{
    struct mkt_open request = {.path = path, .intent = MKT_INTENT_CREATE, .size = 1, .wait_ms = -1};
    struct mkt_array array = make_array(elements);
    struct mkt_piece piece = {.form = MKT_PIECE_BOX};
    struct mkt_opened opened;
    uint64_t stamp, *data;
    void *address;

    if (mkt_client_open(client, &request, &opened, &error) != MKT_OK)
        return fail("create");
    if (mkt_client_reserve(client, elements * 8, &piece.data, &address, &error) != MKT_OK)
        return fail("reserve");
    data = address;
    for (uint64_t i = 0; i < elements; i++)
        data[i] = element(elements, i);
    mkt_slab_box(&piece.slab, 1, &(uint64_t){0}, &elements);
    if (mkt_client_add(client, opened.file, &array, &piece, 1, true, &stamp, &error) != MKT_OK)
        return fail("add");
    *file_out = opened.file;
    return 0;
}

static int write_version(const char *path, uint64_t elements)
{
    struct mkt_array array = make_array(elements);
    struct mkt_commit commit = {
        .image = "an image", .image_bytes = 8, .arrays = &array, .arrays_count = 1};
    uint64_t version = 0;

    if (add_data(path, elements, &commit.file))
        return 1;
    if (mkt_client_commit(client, &commit, &version, &error) != MKT_OK)
        return fail("commit");
    printf("version %" PRIu64 "\n", version);
    fflush(stdout);
    return 0;
}

static int write_half(const char *path, uint64_t elements)
{
    uint64_t file;

    if (add_data(path, elements, &file))
        return 1;
    printf("half\n");
    fflush(stdout);
    stay();
    return 0;
}

static enum mkt_status check_piece(void *context, const struct mkt_piece *piece)
{
    uint64_t elements = *(uint64_t *)context;
    void *address;

    if (piece->data.length != elements * 8)
        return mkt_error_set(&error, MKT_CORRUPT, "a piece of %" PRIu64 " bytes",
                             piece->data.length);
    if (mkt_client_map(client, &piece->data, false, &address, &error) != MKT_OK)
        return error.status;
    for (uint64_t i = 0; i < elements; i++)
        if (((const uint64_t *)address)[i] != element(elements, i))
            return mkt_error_set(&error, MKT_CORRUPT, "element %" PRIu64 " is wrong", i);
    return MKT_OK;
}

static int read_version(const char *path, uint64_t elements, bool stays)
{
    struct mkt_open request = {.path = path, .intent = MKT_INTENT_READ, .size = 1, .wait_ms = 0};
    struct mkt_opened opened;
    struct mkt_index_view view;
    struct mkt_slab all;

    if (mkt_client_open(client, &request, &opened, &error) != MKT_OK)
        return fail("open");
    if (opened.source != MKT_SOURCE_VERSION || opened.image_bytes != 8 ||
        memcmp(opened.image, "an image", 8) != 0 ||
        mkt_index_view_open(&view, opened.index, opened.index_bytes) != MKT_OK) {
        mkt_error_set(&error, MKT_CORRUPT, "source %d", (int)opened.source);
        return fail("open");
    }
    printf("version %" PRIu64 "\n", opened.version);
    fflush(stdout);
    if (stays)
        stay();
    mkt_slab_box(&all, 1, &(uint64_t){0}, &elements);
    if (mkt_index_view_query(&view, 0, &all, check_piece, &elements) != MKT_OK)
        return fail("read");
    mkt_client_close(client, opened.file);
    return 0;
}

static int print_status(char *keys)
{
    char *text;

    if (mkt_client_query(client, MKT_QUERY_STATUS, NULL, &text, &error) != MKT_OK)
        return fail("status");
    json_t *json = json_loads(text, 0, NULL), *at = json;
    for (char *key = strtok(keys, "."); key; key = strtok(NULL, "."))
        at = json_object_get(at, key);
    if (!at)
        return fail("no such entry");
    char *shown = json_dumps(at, JSON_ENCODE_ANY);
    printf("%s\n", shown);
    free(shown);
    json_decref(json);
    free(text);
    return 0;
}

/* Waits until nothing, or the file, is to be saved; prints how many files are, and why not. */
static int wait_saved(const char *path, const char *wait_ms)
{
    struct mkt_save_state state;

    if (mkt_client_save_wait(client, path[0] ? path : NULL, (uint32_t)atoi(wait_ms), &state,
                             &error) != MKT_OK)
        return fail("saved");
    printf("%" PRIu64 " %" PRIu64 " %s\n", state.files, state.failing, state.text);
    return state.files > 0;
}

static int write_steps(int argc, char **argv)
{
    int steps = argc > 4 ? atoi(argv[4]) : 1;
    long pause_ms = argc > 5 ? atol(argv[5]) : 0;

    for (int i = 0; i < steps; i++) {
        if (i > 0)
            nanosleep(&(struct timespec){pause_ms / 1000, pause_ms % 1000 * 1000000}, NULL);
        if (write_version(argv[2], strtoull(argv[3], NULL, 10) << 17))
            return 1;
    }
    return 0;
}

static int run(int argc, char **argv)
{
    uint64_t versions;

    if (strcmp(argv[1], "id") == 0 || strcmp(argv[1], "hold") == 0) {
        print_id();
        if (strcmp(argv[1], "hold") == 0)
            stay();
        return 0;
    }
    if (strcmp(argv[1], "stop") == 0)
        return mkt_client_stop(client, argc > 2, &error) == MKT_OK ? 0 : fail("stop");
    if (argc > 2 && strcmp(argv[1], "status") == 0)
        return print_status(argv[2]);
    if (argc > 3 && strcmp(argv[1], "saved") == 0)
        return wait_saved(argv[2], argv[3]);
    if (argc > 2 && strcmp(argv[1], "rm") == 0)
        return mkt_client_withdraw(client, argv[2], &versions, &error) == MKT_OK ? 0 : fail("rm");
    if (argc > 3 && strncmp(argv[1], "read", 4) == 0)
        return read_version(argv[2], strtoull(argv[3], NULL, 10) << 17, argv[1][4]);
    if (argc > 3 && strcmp(argv[1], "write-half") == 0)
        return write_half(argv[2], strtoull(argv[3], NULL, 10) << 17);
    if (argc > 3 && strcmp(argv[1], "write") == 0)
        return write_steps(argc, argv);
    if (argc > 3 && strcmp(argv[1], "write-and-stay") == 0) {
        int status = write_steps(4, argv);
        stay();
        return status;
    }
    return 2;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "fault-points") == 0)
        return MKT_FAULTS ? 0 : 1;
    connect_or_exit();
    int status = run(argc, argv);
    mkt_client_destroy(client);
    return status;
}
