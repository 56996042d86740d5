/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model of what is written. Each value is written once in a schedule and names its cell. Ranks
 * that write the same cell leave as many candidates as there are writers; a cell that nobody wrote
 * keeps what was there, or nothing.
 */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

struct image {
    uint64_t magic, path, attempt, round;
    uint64_t filler[];
};
#define IMAGE_MAGIC 0x696d616765000001u

uint64_t content_value(const struct attempt *attempt, unsigned array, unsigned cell)
{
    return attempt->id << 48 | ++world.last_value << 16 | array << 8 | cell;
}

struct attempt *content_attempt(unsigned path, unsigned size, bool hostile)
{
    struct attempt *attempt = calloc(1, sizeof(*attempt));

    attempt->id = world.attempts ? world.attempts->id + 1 : 1;
    attempt->path = path;
    attempt->size = size;
    attempt->hostile = hostile;
    attempt->next = world.attempts;
    world.attempts = attempt;
    return attempt;
}

void content_free(void)
{
    while (world.attempts) {
        struct attempt *next = world.attempts->next;

        free(world.attempts);
        world.attempts = next;
    }
    free(world.version);
    world.version = NULL;
    world.versions = 0;
}

void content_wrote(struct attempt *attempt, unsigned rank, unsigned array, unsigned cell,
                   uint64_t value)
{
    attempt->now.value[array][cell][rank] = value;
    attempt->complete[array][cell] &= (uint8_t) ~(1u << rank);
}

void content_find_done(const struct attempt *attempt, unsigned rank, unsigned array, unsigned cell,
                       uint64_t beaten_out[MAX_RANKS])
{
    for (unsigned r = 0; r < MAX_RANKS; r++)
        beaten_out[r] = r != rank && attempt->complete[array][cell] >> r & 1
                            ? attempt->now.value[array][cell][r]
                            : 0;
}

void content_done(struct attempt *attempt, unsigned rank, unsigned array, unsigned cell,
                  const uint64_t beaten[MAX_RANKS])
{
    attempt->complete[array][cell] |= (uint8_t)(1u << rank);
    for (unsigned r = 0; r < MAX_RANKS; r++) {
        if (beaten[r] && attempt->now.value[array][cell][r] == beaten[r])
            attempt->now.value[array][cell][r] = 0;
    }
}

void content_commit(struct attempt *attempt, unsigned rank, unsigned at, const struct job *job)
{
    struct round *round = &attempt->round[at];
    bool last = at + 1 == job->rounds;

    for (unsigned a = 0; a < ARRAYS; a++) {
        round->listed[a] = !(job->drops_array && last && a == ARRAYS - 1);
        for (unsigned c = 0; c < CELLS; c++)
            round->cells.value[a][c][rank] = attempt->now.value[a][c][rank];
    }
    round->committed |= 1u << rank;
    round->unchanged = job->unchanged;
    if (job->lazy_rank == 0 && attempt->has_base) {
        /* Rank 0 changed nothing: arrays and image of the base. */
        for (unsigned a = 0; a < ARRAYS; a++)
            round->listed[a] = attempt->base_image->round[attempt->base_image_round].listed[a];
        round->image_attempt = attempt->base_image;
        round->image_round = attempt->base_image_round;
    } else {
        round->image_attempt = attempt;
        round->image_round = at;
    }
}

static const struct known_version *find_version(const uint8_t object[MKT_ID_BYTES], uint64_t number)
{
    for (unsigned i = 0; i < world.versions; i++) {
        if (world.version[i].number == number &&
            memcmp(world.version[i].object, object, MKT_ID_BYTES) == 0)
            return &world.version[i];
    }
    return NULL;
}

unsigned content_order(const uint8_t object[MKT_ID_BYTES], uint64_t number)
{
    const struct known_version *known = find_version(object, number);

    return known ? (unsigned)(known - world.version) + 1 : 0;
}

void content_published(const uint8_t object[MKT_ID_BYTES], uint64_t number, struct attempt *attempt,
                       unsigned round)
{
    const struct known_version *known;
    struct known_version *more;

    if (attempt->round[round].unchanged) {
        SIM_CHECK(attempt->hostile || number == attempt->base_number,
                  "an unchanged file was answered with version %d, not %d", (int)number,
                  (int)attempt->base_number);
        return;
    }
    if (number == 0)
        return;
    known = find_version(object, number);
    SIM_CHECK(!known || (known->attempt == attempt && known->round == round),
              "version %d of '%s' was published twice", (int)number,
              world.path[attempt->path].name);
    if (known)
        return;
    SIM_CHECK(!attempt->failed || attempt->hostile,
              "version %d of '%s' was published though a rank failed", (int)number,
              world.path[attempt->path].name);
    SIM_CHECK(attempt->hostile || attempt->round[round].committed == (1u << attempt->size) - 1,
              "version %d of '%s' was published before all ranks had committed", (int)number,
              world.path[attempt->path].name);
    for (unsigned i = 0; i < world.versions; i++) {
        SIM_CHECK(world.version[i].number < number ||
                      memcmp(world.version[i].object, object, MKT_ID_BYTES) != 0,
                  "version %d of '%s' came after version %d", (int)number,
                  world.path[attempt->path].name, (int)world.version[i].number);
    }
    more = realloc(world.version, (world.versions + 1) * sizeof(*more));
    world.version = more;
    more[world.versions] =
        (struct known_version){.number = number, .attempt = attempt, .round = round};
    memcpy(more[world.versions++].object, object, MKT_ID_BYTES);
    world.publishes++;
}

/* Candidates of a cell in a version; how many. */
static unsigned candidates(const struct attempt *attempt, const struct cells *cells, unsigned a,
                           unsigned c, uint64_t out[MAX_RANKS])
{
    const struct cells *from[2] = {cells, attempt->has_base ? &attempt->base : NULL};
    unsigned count = 0;

    for (int i = 0; i < 2 && count == 0 && from[i]; i++) {
        for (unsigned r = 0; r < MAX_RANKS; r++) {
            if (from[i]->value[a][c][r])
                out[count++] = from[i]->value[a][c][r];
        }
    }
    return count;
}

void content_based_on(struct attempt *attempt, const struct mkt_msg_opened *opened)
{
    const struct known_version *known = find_version(opened->object, opened->version);

    if (attempt->has_base)
        return;
    SIM_CHECK(known || world.has_hostile, "opened version %d, which nobody published",
              (int)opened->version);
    attempt->hostile |= !known;
    if (!known)
        return;
    const struct attempt *base = known->attempt;
    const struct round *round = &base->round[known->round];
    attempt->hostile |= base->hostile;
    for (unsigned a = 0; a < ARRAYS; a++) {
        for (unsigned c = 0; c < CELLS && round->listed[a]; c++)
            candidates(base, &round->cells, a, c, attempt->base.value[a][c]);
    }
    attempt->base_number = opened->version;
    attempt->base_image = round->image_attempt;
    attempt->base_image_round = round->image_round;
    attempt->has_base = true;
}

void content_write_image(void *bytes, const struct attempt *attempt, unsigned round)
{
    struct image *image = bytes;

    image->magic = IMAGE_MAGIC;
    image->path = attempt->path;
    image->attempt = attempt->id;
    image->round = round;
    for (unsigned i = 0; i < (IMAGE_BYTES - sizeof(*image)) / 8; i++)
        image->filler[i] = attempt->id << 32 | round << 16 | i;
}

static void check_image(const struct mkt_extent *extent, const struct attempt *attempt,
                        unsigned round)
{
    uint8_t expected[IMAGE_BYTES];

    SIM_CHECK(extent->length == IMAGE_BYTES, "an image of %d bytes", (int)extent->length);
    content_write_image(expected, attempt, round);
    SIM_CHECK(memcmp(expected, world_bytes(extent), IMAGE_BYTES) == 0,
              "the image of '%s' is not that of attempt %d, round %u",
              world.path[attempt->path].name, (int)attempt->id, round);
}

/* ---- what an index says ---- */

struct seen {
    const struct mkt_msg_opened *version; /* NULL: nothing of it can be in the tier */
    uint64_t identity;
    uint64_t value[CELLS];
    uint64_t last_stamp;
};

/* Where its index says, or, of what it says to be in the tier, where that is now. */
static const uint8_t *bytes_of(const struct seen *seen, const struct mkt_piece *piece)
{
    struct mkt_extent place = piece->data;

    if (mkt_extent_is_cold(&place))
        SIM_CHECK(seen->version && mkt_market_find_piece(world.market, seen->version->object,
                                                         seen->version->version, seen->identity,
                                                         piece->stamp, &place),
                  "a version has no piece that its index has");
    return world_piece(&place);
}

/* Coordinate of packed element i. */
static uint64_t coordinate(const struct mkt_slab *slab, uint64_t i)
{
    const struct mkt_dim *dim = &slab->dim[0];

    return dim->start + i / dim->block * dim->stride + i % dim->block;
}

static enum mkt_status see_piece(void *context, const struct mkt_piece *piece)
{
    struct seen *seen = context;
    const uint8_t *data = bytes_of(seen, piece);
    const uint8_t *bits = piece->form == MKT_PIECE_MASKED ? world_bytes(&piece->table) : NULL;
    uint64_t elements = mkt_slab_elements(&piece->slab);

    SIM_CHECK(piece->stamp > seen->last_stamp,
              "pieces of an index are not in the order of their stamps");
    seen->last_stamp = piece->stamp;
    for (uint64_t i = 0; i < elements; i++) {
        uint64_t at = coordinate(&piece->slab, i);

        SIM_CHECK(at < CELLS || world.has_hostile, "a piece lies outside of its array");
        if (at >= CELLS)
            return MKT_OK;
        if (!bits || bits[i / 8] >> (i % 8) & 1)
            memcpy(&seen->value[at], data + i * CELL_BYTES, CELL_BYTES);
    }
    return MKT_OK;
}

static void see_array(const struct mkt_index_view *view, uint32_t position,
                      const struct mkt_msg_opened *version, struct seen *seen)
{
    struct mkt_slab all;
    struct mkt_array array;
    const uint64_t start = 0, count = CELLS;

    SIM_CHECK(mkt_index_view_array(view, position, &array) == MKT_OK, "an index can't be read");
    *seen = (struct seen){.version = version, .identity = array.identity};
    mkt_slab_box(&all, 1, &start, &count);
    SIM_CHECK(mkt_index_view_query(view, position, &all, see_piece, seen) == MKT_OK,
              "an index can't be searched");
}

static void check_cells(const struct attempt *attempt, const struct round *round, unsigned array,
                        const struct seen *seen)
{
    for (unsigned c = 0; c < CELLS; c++) {
        uint64_t wanted[MAX_RANKS];
        unsigned count = candidates(attempt, &round->cells, array, c, wanted), i = 0;

        while (i < count && wanted[i] != seen->value[c])
            i++;
        SIM_CHECK(i < count || (count == 0 && seen->value[c] == 0),
                  "'%s', attempt %d: element %u of array %u is %llx, not %llx (the first of %u "
                  "candidates)",
                  world.path[attempt->path].name, (int)attempt->id, c, array,
                  (unsigned long long)seen->value[c], (unsigned long long)(count ? wanted[0] : 0),
                  count);
    }
}

void content_check(const struct mkt_msg_opened *opened)
{
    const struct known_version *known = find_version(opened->object, opened->version);
    struct mkt_index_view view;
    uint32_t position;

    SIM_CHECK(known || world.has_hostile, "opened version %d, which nobody published",
              (int)opened->version);
    SIM_CHECK(mkt_index_view_open(&view, world_bytes(&opened->index), opened->index.length) ==
                  MKT_OK,
              "an index is damaged");
    world.reads++;
    if (!known)
        return;
    const struct attempt *attempt = known->attempt;
    const struct round *round = &attempt->round[known->round];
    if (attempt->hostile)
        return;
    check_image(&opened->image, round->image_attempt, round->image_round);
    for (unsigned a = 0; a < ARRAYS; a++) {
        struct seen seen;
        enum mkt_status status = mkt_index_view_find_identity(&view, a + 1, &position);

        SIM_CHECK((status == MKT_OK) == round->listed[a], "array %u is listed and is not", a);
        if (status != MKT_OK)
            continue;
        see_array(&view, position, opened, &seen);
        check_cells(attempt, round, a, &seen);
    }
}

struct cold {
    unsigned skip;
    bool found;
    struct mkt_piece *piece;
};

static enum mkt_status see_cold(void *context, const struct mkt_piece *piece)
{
    struct cold *cold = context;

    if (!mkt_extent_is_cold(&piece->data) || (cold->found && cold->skip-- == 0))
        return MKT_OK;
    cold->found = true;
    *cold->piece = *piece;
    return MKT_OK;
}

bool content_cold(const struct mkt_msg_opened *opened, uint64_t *identity_out,
                  struct mkt_piece *piece_out)
{
    const uint64_t start = 0, count = CELLS;
    struct mkt_index_view view;
    struct mkt_slab all;
    struct mkt_array array;

    SIM_CHECK(mkt_index_view_open(&view, world_bytes(&opened->index), opened->index.length) ==
                  MKT_OK,
              "an index is damaged");
    mkt_slab_box(&all, 1, &start, &count);
    for (uint32_t at = 0; at < view.arrays; at++) {
        struct cold cold = {.skip = (unsigned)chance(0, 3), .piece = piece_out};

        SIM_CHECK(mkt_index_view_query(&view, at, &all, see_cold, &cold) == MKT_OK &&
                      mkt_index_view_array(&view, at, &array) == MKT_OK,
                  "an index can't be searched");
        *identity_out = array.identity;
        if (cold.found)
            return true;
    }
    return false;
}

void content_check_lookup(const struct mkt_extent *extent, const struct attempt *attempt,
                          unsigned rank, unsigned array)
{
    struct mkt_index_view view;
    struct seen seen = {0};
    uint32_t position;

    SIM_CHECK(mkt_index_view_open(&view, world_bytes(extent), extent->length) == MKT_OK,
              "the index of a lookup is damaged");
    if (mkt_index_view_find_identity(&view, array + 1, &position) == MKT_OK)
        see_array(&view, position, NULL, &seen);
    for (unsigned c = 0; c < CELLS && !attempt->hostile; c++) {
        uint64_t own = attempt->now.value[array][c][rank], value = seen.value[c];
        SIM_CHECK(own == 0 || value != 0, "a rank does not see what it wrote into element %u", c);
        SIM_CHECK(value == 0 ||
                      (value >> 48 == attempt->id && (value & 0xffff) == (array << 8 | c)),
                  "element %u of an unpublished array is %llx, which no rank wrote there", c,
                  (unsigned long long)value);
    }
}
