/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The yardstick of hand-written coupling: the first ranks of one MPI program hold an array split
 * along one axis, the others want it split along another, and nonblocking messages carry it over.
 * Prints a line a step: the seconds of the slowest rank, from a barrier until it has sent or
 * received everything.
 *
 * Two ways, of which `run` takes the faster:
 *   slabs  a box between two ranks goes in slabs of at most --chunk bytes along its slowest axis; a
 * slab that is contiguous at an end is sent from or received at its place, else packed or unpacked
 * in touched memory types  a box goes as one message with subarray types at both ends
 */
#include <argp.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "board.h"

struct slab {
    struct block box; /* in coordinates of the whole array */
    int peer;
    int tag;
    double *place; /* what MPI sends from or receives at */
    bool packed;
};

struct exchange {
    int rank;
    int writers;
    int readers;
    int writer_axis;
    int reader_axis;
    int steps;
    int warm_up_steps;
    uint64_t chunk_bytes;
    bool use_types;
    struct block whole;
    struct block mine;
    double *values;
    double *scratch;
    struct slab *slabs;
    MPI_Datatype *types;
    MPI_Request *requests;
    int slab_count;
};

static const struct argp_option options[] = {
    {"writers", 'w', "N", 0, "ranks that send", 0},
    {"dims", 'd', "N,N,...", 0, "extents of the array", 0},
    {"writer-axis", 'a', "AXIS", 0, "axis along which the senders share it", 0},
    {"reader-axis", 'r', "AXIS", 0, "axis along which the receivers share it", 0},
    {"chunk", 'c', "BYTES", 0, "largest message, 0 for no limit", 0},
    {"types", 't', NULL, 0, "subarray types instead of slabs", 0},
    {"steps", 'n', "N", 0, "steps with the warm-up", 0},
    {"warm-up", 'u', "N", 0, "steps in which every value is verified", 0},
    {0}};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct exchange *exchange = state->input;

    switch (key) {
    case 'w':
        exchange->writers = atoi(argument);
        return 0;
    case 'd':
        if (block_parse(&exchange->whole, argument) < 0)
            argp_error(state, "malformed extents %s", argument);
        return 0;
    case 'a':
        exchange->writer_axis = atoi(argument);
        return 0;
    case 'r':
        exchange->reader_axis = atoi(argument);
        return 0;
    case 'c':
        exchange->chunk_bytes = strtoull(argument, NULL, 10);
        return 0;
    case 't':
        exchange->use_types = true;
        return 0;
    case 'n':
        exchange->steps = atoi(argument);
        return 0;
    case 'u':
        exchange->warm_up_steps = atoi(argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void give_up(const char *what)
{
    fprintf(stderr, "messages: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = malloc(count * size + 1);

    if (memory == NULL)
        give_up("no memory");
    memset(memory, 0xa5, count * size + 1);
    return memory;
}

static bool is_writer(const struct exchange *exchange)
{
    return exchange->rank < exchange->writers;
}

static struct block share_of(const struct exchange *exchange, int rank)
{
    if (rank < exchange->writers)
        return block_share(&exchange->whole, exchange->writer_axis, rank, exchange->writers);
    return block_share(&exchange->whole, exchange->reader_axis, rank - exchange->writers,
                       exchange->readers);
}

/* Where `box` begins in this rank's buffer, in elements. */
static uint64_t local_offset(const struct block *mine, const struct block *box)
{
    uint64_t offset = 0;

    for (int d = 0; d < mine->ndims; d++)
        offset = offset * mine->count[d] + (box->start[d] - mine->start[d]);
    return offset;
}

/* Whether `box` is one run of this rank's buffer. */
static bool is_contiguous(const struct block *mine, const struct block *box)
{
    int d = mine->ndims - 1;

    while (d > 0 && box->count[d] == mine->count[d])
        d--;
    while (--d >= 0)
        if (box->count[d] != 1)
            return false;
    return true;
}

/* Copies `box` between its place in the values and dense memory. */
static void copy_box(const struct exchange *exchange, const struct block *box, double *dense,
                     bool pack)
{
    struct block row = *box;
    uint64_t length = box->count[box->ndims - 1];
    uint64_t rows = block_elements(box) / length;

    for (uint64_t r = 0; r < rows; r++) {
        uint64_t rest = r;
        double *place;

        for (int d = box->ndims - 2; d >= 0; d--) {
            row.start[d] = box->start[d] + rest % box->count[d];
            rest /= box->count[d];
        }
        place = exchange->values + local_offset(&exchange->mine, &row);
        if (pack)
            memcpy(dense + r * length, place, length * sizeof(double));
        else
            memcpy(place, dense + r * length, length * sizeof(double));
    }
}

/* Slabs of the box between this rank and `peer`; returns how many. */
static int cut(const struct exchange *exchange, int peer, struct slab *slabs_out)
{
    struct block theirs = share_of(exchange, peer);
    struct block box;
    uint64_t plane_bytes, planes, step;
    int count = 0;

    if (!block_intersect(&exchange->mine, &theirs, &box))
        return 0;
    plane_bytes = block_elements(&box) / box.count[0] * sizeof(double);
    planes = box.count[0];
    step = exchange->chunk_bytes == 0 ? planes : exchange->chunk_bytes / plane_bytes;
    if (step == 0)
        step = 1;
    for (uint64_t first = 0; first < planes; first += step, count++) {
        if (slabs_out == NULL)
            continue;
        slabs_out[count] = (struct slab){.box = box, .peer = peer, .tag = count};
        slabs_out[count].box.start[0] += first;
        slabs_out[count].box.count[0] = first + step < planes ? step : planes - first;
    }
    return count;
}

static int compare_slabs(const void *a, const void *b)
{
    const struct slab *left = a;
    const struct slab *right = b;

    return left->tag != right->tag ? left->tag - right->tag : left->peer - right->peer;
}

static void place_slabs(struct exchange *exchange)
{
    uint64_t scratch_elements = 0;

    for (int i = 0; i < exchange->slab_count; i++) {
        struct slab *slab = &exchange->slabs[i];

        slab->packed = !exchange->use_types && !is_contiguous(&exchange->mine, &slab->box);
        if (slab->packed)
            scratch_elements += block_elements(&slab->box);
    }
    exchange->scratch = allocate(scratch_elements, sizeof(double));
    scratch_elements = 0;
    for (int i = 0; i < exchange->slab_count; i++) {
        struct slab *slab = &exchange->slabs[i];

        if (slab->packed) {
            slab->place = exchange->scratch + scratch_elements;
            scratch_elements += block_elements(&slab->box);
        } else if (exchange->use_types) {
            slab->place = exchange->values;
        } else {
            slab->place = exchange->values + local_offset(&exchange->mine, &slab->box);
        }
    }
}

static MPI_Datatype subarray_type(const struct block *mine, const struct block *box)
{
    int sizes[BLOCK_DIMS_MAX], counts[BLOCK_DIMS_MAX], starts[BLOCK_DIMS_MAX];
    MPI_Datatype type;

    for (int d = 0; d < mine->ndims; d++) {
        sizes[d] = (int)mine->count[d];
        counts[d] = (int)box->count[d];
        starts[d] = (int)(box->start[d] - mine->start[d]);
    }
    MPI_Type_create_subarray(mine->ndims, sizes, counts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void plan(struct exchange *exchange)
{
    int first = is_writer(exchange) ? exchange->writers : 0;
    int last = is_writer(exchange) ? exchange->writers + exchange->readers : exchange->writers;
    int count = 0;

    for (int peer = first; peer < last; peer++)
        count += cut(exchange, peer, NULL);
    exchange->slabs = allocate((size_t)count, sizeof *exchange->slabs);
    exchange->requests = allocate((size_t)count, sizeof *exchange->requests);
    exchange->types = allocate((size_t)count, sizeof *exchange->types);
    for (int peer = first; peer < last; peer++)
        exchange->slab_count += cut(exchange, peer, exchange->slabs + exchange->slab_count);
    /* All peers get their first slab before anyone gets a second. */
    qsort(exchange->slabs, (size_t)count, sizeof *exchange->slabs, compare_slabs);
    place_slabs(exchange);
    for (int i = 0; i < count && exchange->use_types; i++)
        exchange->types[i] = subarray_type(&exchange->mine, &exchange->slabs[i].box);
}

static int message_count(const struct exchange *exchange, int i)
{
    return exchange->use_types ? 1 : (int)block_elements(&exchange->slabs[i].box);
}

static MPI_Datatype message_type(const struct exchange *exchange, int i)
{
    return exchange->use_types ? exchange->types[i] : MPI_DOUBLE;
}

static void send_all(struct exchange *exchange)
{
    for (int i = 0; i < exchange->slab_count; i++) {
        struct slab *slab = &exchange->slabs[i];
        int ready;

        if (slab->packed)
            copy_box(exchange, &slab->box, slab->place, true);
        MPI_Isend(slab->place, message_count(exchange, i), message_type(exchange, i), slab->peer,
                  slab->tag, MPI_COMM_WORLD, &exchange->requests[i]);
        if (slab->packed)
            MPI_Testall(i + 1, exchange->requests, &ready, MPI_STATUSES_IGNORE);
    }
    MPI_Waitall(exchange->slab_count, exchange->requests, MPI_STATUSES_IGNORE);
}

static void receive_all(struct exchange *exchange)
{
    for (int i = 0; i < exchange->slab_count; i++)
        MPI_Irecv(exchange->slabs[i].place, message_count(exchange, i), message_type(exchange, i),
                  exchange->slabs[i].peer, exchange->slabs[i].tag, MPI_COMM_WORLD,
                  &exchange->requests[i]);
    for (int n = 0; n < exchange->slab_count; n++) {
        int i;

        MPI_Waitany(exchange->slab_count, exchange->requests, &i, MPI_STATUS_IGNORE);
        if (exchange->slabs[i].packed)
            copy_box(exchange, &exchange->slabs[i].box, exchange->slabs[i].place, false);
    }
}

static void run_step(struct exchange *exchange, int step)
{
    uint64_t stride = step < exchange->warm_up_steps ? 1 : 4099;
    double seconds, slowest;

    if (is_writer(exchange))
        block_fill(&exchange->mine, exchange->values, step, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    seconds = board_clock();
    if (is_writer(exchange))
        send_all(exchange);
    else
        receive_all(exchange);
    seconds = board_clock() - seconds;
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (exchange->rank == 0)
        printf("%.9f\n", slowest);
    if (!is_writer(exchange) &&
        block_count_wrong(&exchange->mine, exchange->values, step, 0, stride) != 0)
        give_up("wrong values");
}

static void release(struct exchange *exchange)
{
    for (int i = 0; i < exchange->slab_count && exchange->use_types; i++)
        MPI_Type_free(&exchange->types[i]);
    free(exchange->types);
    free(exchange->requests);
    free(exchange->slabs);
    free(exchange->scratch);
    free(exchange->values);
}

int main(int argc, char **argv)
{
    struct exchange exchange = {.writers = 1, .steps = 3, .warm_up_steps = 1};
    const struct argp argp = {.options = options, .parser = parse_option};
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &exchange.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    argp_parse(&argp, argc, argv, 0, NULL, &exchange);
    exchange.readers = size - exchange.writers;
    if (exchange.readers < 1 || exchange.writers < 1 || exchange.whole.ndims == 0)
        give_up("--dims, --writers and more ranks than that are needed");
    exchange.mine = share_of(&exchange, exchange.rank);
    exchange.values = allocate(block_elements(&exchange.mine), sizeof(double));
    plan(&exchange);
    for (int step = 0; step < exchange.steps; step++)
        run_step(&exchange, step);
    release(&exchange);
    MPI_Finalize();
    return 0;
}
