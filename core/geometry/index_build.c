/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/hash.h"
#include "core/geometry/cut.h"
#include "core/geometry/index_sums.h"
#include "core/geometry/rtree.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* An array and where its pieces stand in the builder's tables. */
struct built_array {
    struct mkt_array about;
    uint64_t first_piece, pieces;
};

struct mkt_index_builder {
    struct built_array *arrays;
    uint64_t array_count, array_capacity;
    uint8_t *records; /* encoded, one after another */
    uint64_t record_bytes, record_capacity;
    uint64_t *offsets; /* of each piece in records */
    uint64_t piece_count, piece_capacity;
};

/* Room for `more` elements of `size` bytes behind `count`. */
static bool reserve(void **table, uint64_t *capacity, uint64_t count, uint64_t more, size_t size)
{
    uint64_t needed = count + more, grown = *capacity * 2 > needed ? *capacity * 2 : needed + 16;

    if (needed <= *capacity)
        return true;
    void *bigger = realloc(*table, grown * size);
    if (!bigger)
        return false;
    *table = bigger;
    *capacity = grown;
    return true;
}

struct mkt_index_builder *mkt_index_builder_create(void)
{
    return calloc(1, sizeof(struct mkt_index_builder));
}

void mkt_index_builder_destroy(struct mkt_index_builder *builder)
{
    if (!builder)
        return;
    free(builder->arrays);
    free(builder->records);
    free(builder->offsets);
    free(builder);
}

enum mkt_status mkt_index_builder_add_array(struct mkt_index_builder *builder,
                                            const struct mkt_array *array)
{
    if (array->rank > MKT_MAX_RANK || array->element_bytes == 0 ||
        builder->array_count == UINT32_MAX)
        return MKT_INVALID;
    if (!reserve((void **)&builder->arrays, &builder->array_capacity, builder->array_count, 1,
                 sizeof(*builder->arrays)))
        return MKT_NO_MEMORY;
    builder->arrays[builder->array_count++] = (struct built_array){*array, builder->piece_count, 0};
    return MKT_OK;
}

enum mkt_status mkt_index_builder_add_piece(struct mkt_index_builder *builder,
                                            const struct mkt_piece *piece)
{
    struct built_array *array =
        builder->array_count ? &builder->arrays[builder->array_count - 1] : NULL;

    struct mkt_piece check;
    uint32_t used;

    if (!array || piece->slab.rank != array->about.rank || array->pieces == UINT32_MAX)
        return MKT_INVALID;
    uint32_t bytes = mkt_piece_record_bytes(piece);
    if (!reserve((void **)&builder->records, &builder->record_capacity, builder->record_bytes,
                 bytes, 1) ||
        !reserve((void **)&builder->offsets, &builder->piece_capacity, builder->piece_count, 1,
                 sizeof(*builder->offsets)))
        return MKT_NO_MEMORY;
    mkt_piece_encode(piece, builder->records + builder->record_bytes);
    if (mkt_piece_decode(builder->records + builder->record_bytes, bytes,
                         array->about.element_bytes, &check, &used) != MKT_OK)
        return MKT_INVALID; /* sizes that contradict one another */
    builder->offsets[builder->piece_count++] = builder->record_bytes;
    builder->record_bytes += bytes;
    array->pieces++;
    return MKT_OK;
}

/* Orders. */

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* A token's place in the order of memcmp, and what tells arrays without one apart. */
struct token_key {
    uint64_t high, low, identity;
    uint64_t position; /* of the array */
};

static int compare_tokens(const void *a, const void *b)
{
    const struct token_key *x = a, *y = b;

    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return compare_u64(x->identity, y->identity);
}

struct identity_key {
    uint64_t identity;
    uint32_t position;
};

static int compare_identities(const void *a, const void *b)
{
    return compare_u64(((const struct identity_key *)a)->identity,
                       ((const struct identity_key *)b)->identity);
}

/* The bytes of the index in the making. */

static uint64_t align8(uint64_t value)
{
    return (value + 7) & ~(uint64_t)7;
}

static uint64_t end_of_records(const struct mkt_index_builder *builder,
                               const struct built_array *array)
{
    uint64_t next = array->first_piece + array->pieces;

    return next < builder->piece_count ? builder->offsets[next] : builder->record_bytes;
}

static uint64_t start_of_records(const struct mkt_index_builder *builder,
                                 const struct built_array *array)
{
    return array->pieces ? builder->offsets[array->first_piece] : 0;
}

/* Fills in the places of an array's parts from `at` on; returns the end. */
static uint64_t place_array(const struct mkt_index_builder *builder,
                            const struct built_array *array, uint64_t at,
                            struct mkt_index_array_disk *entry)
{
    memset(entry, 0, sizeof(*entry));
    memcpy(entry->token, array->about.token, MKT_TOKEN_BYTES);
    entry->identity = array->about.identity;
    entry->element_bytes = array->about.element_bytes;
    entry->flags = array->about.flags;
    entry->rank = array->about.rank;
    entry->pieces = array->pieces;
    entry->records_offset = at;
    if (array->pieces)
        entry->records_bytes = end_of_records(builder, array) - start_of_records(builder, array);
    at += entry->records_bytes;
    if (array->pieces > MKT_INDEX_SCAN_MAX) {
        entry->record_offsets_offset = at;
        at = align8(at + array->pieces * sizeof(uint32_t));
        entry->order_offset = at;
        at = align8(at + array->pieces * sizeof(uint32_t));
        entry->nodes_offset = at;
        at += mkt_rtree_nodes(array->pieces) * array->about.rank * sizeof(struct mkt_interval);
    }
    return at;
}

/* The records of one array, for the tree. */
struct piece_table {
    const uint8_t *records;
    const uint64_t *offsets;
    uint64_t origin; /* what the first offset is */
    uint32_t element_bytes;
};

/* Checked when it was added. */
static void read_piece(const struct piece_table *table, uint32_t at, struct mkt_piece *piece_out)
{
    uint32_t used;
    enum mkt_status status =
        mkt_piece_decode(table->records + table->offsets[at], MKT_PIECE_RECORD_MAX_BYTES,
                         table->element_bytes, piece_out, &used);

    assert(status == MKT_OK);
    (void)status;
}

static bool pieces_are_disjoint(const void *context, uint32_t a, uint32_t b)
{
    struct mkt_piece x, y;

    read_piece(context, a, &x);
    read_piece(context, b, &y);
    for (uint32_t d = 0; d < x.slab.rank; d++)
        if (mkt_dim_surely_disjoint(&x.slab.dim[d], &y.slab.dim[d]))
            return true;
    return false;
}

static void read_boxes(const struct piece_table *table, const struct mkt_rtree_input *input,
                       struct mkt_interval *boxes)
{
    for (uint32_t i = 0; i < input->pieces; i++) {
        struct mkt_piece piece;

        read_piece(table, i, &piece);
        for (uint32_t d = 0; d < input->rank; d++)
            boxes[(size_t)i * input->rank + d] =
                (struct mkt_interval){piece.slab.dim[d].start, mkt_dim_end(&piece.slab.dim[d])};
    }
}

static enum mkt_status fill_tree(const struct piece_table *table,
                                 const struct mkt_rtree_input *input,
                                 struct mkt_index_array_disk *entry, uint8_t *bytes)
{
    uint32_t *offsets = (uint32_t *)(bytes + entry->record_offsets_offset);
    uint32_t *order = (uint32_t *)(bytes + entry->order_offset);
    struct mkt_interval *nodes = (struct mkt_interval *)(bytes + entry->nodes_offset);

    if (entry->records_bytes / 8 > UINT32_MAX)
        return MKT_UNSUPPORTED;
    for (uint32_t i = 0; i < input->pieces; i++)
        offsets[i] = (uint32_t)((table->offsets[i] - table->origin) / 8);
    enum mkt_status status = mkt_rtree_build(input, order, nodes);
    if (status == MKT_OK && mkt_rtree_pieces_are_disjoint(input, order, nodes))
        entry->index_flags |= MKT_INDEX_ARRAY_DISJOINT;
    return status;
}

static enum mkt_status fill_array(const struct mkt_index_builder *builder,
                                  const struct built_array *array,
                                  struct mkt_index_array_disk *entry, uint8_t *bytes)
{
    const struct piece_table table = {builder->records, builder->offsets + array->first_piece,
                                      start_of_records(builder, array), array->about.element_bytes};
    struct mkt_rtree_input input = {array->about.rank, (uint32_t)array->pieces, NULL,
                                    pieces_are_disjoint, &table};
    enum mkt_status status = MKT_OK;

    memcpy(bytes + entry->dims_offset, array->about.dims, array->about.rank * sizeof(uint64_t));
    if (array->pieces == 0) {
        entry->index_flags |= MKT_INDEX_ARRAY_DISJOINT;
        return MKT_OK;
    }
    memcpy(bytes + entry->records_offset, builder->records + table.origin, entry->records_bytes);
    struct mkt_interval *boxes = malloc((array->pieces * array->about.rank + 1) * sizeof(*boxes));
    if (!boxes)
        return MKT_NO_MEMORY;
    input.boxes = boxes;
    read_boxes(&table, &input, boxes);
    if (array->pieces > MKT_INDEX_SCAN_MAX)
        status = fill_tree(&table, &input, entry, bytes);
    else if (mkt_rtree_pieces_are_disjoint(&input, NULL, NULL))
        entry->index_flags |= MKT_INDEX_ARRAY_DISJOINT;
    free(boxes);
    return status;
}

static enum mkt_status fill_identities(const struct mkt_index_builder *builder, uint32_t *positions)
{
    struct identity_key *keys = malloc((builder->array_count + 1) * sizeof(*keys));
    enum mkt_status status = MKT_OK;

    if (!keys)
        return MKT_NO_MEMORY;
    for (uint64_t i = 0; i < builder->array_count; i++)
        keys[i] = (struct identity_key){builder->arrays[i].about.identity, (uint32_t)i};
    qsort(keys, builder->array_count, sizeof(*keys), compare_identities);
    for (uint64_t i = 0; i < builder->array_count; i++) {
        if (i > 0 && keys[i].identity == keys[i - 1].identity)
            status = MKT_EXISTS;
        positions[i] = keys[i].position;
    }
    free(keys);
    return status;
}

static void seal_header(struct mkt_index_header_disk *header)
{
    const size_t covered = offsetof(struct mkt_index_header_disk, version);

    header->root = mkt_index_sums_fill((uint8_t *)header + header->pieces_offset,
                                       header->sums_offset - header->pieces_offset);
    header->checksum =
        mkt_hash64((const uint8_t *)header + covered, header->pieces_offset - covered, 0);
}

/* Where everything goes. */
static void place_parts(const struct mkt_index_builder *builder,
                        struct mkt_index_array_disk *entries, struct mkt_index_header_disk *header)
{
    const uint64_t count = builder->array_count;

    memcpy(header->magic, MKT_INDEX_MAGIC, sizeof(header->magic));
    header->arrays_offset = sizeof(*header);
    header->identities_offset = header->arrays_offset + count * sizeof(*entries);
    uint64_t dims = align8(header->identities_offset + count * sizeof(uint32_t)), at = dims;
    for (uint64_t i = 0; i < count; i++)
        at += builder->arrays[i].about.rank * sizeof(uint64_t);
    header->pieces_offset = at;
    for (uint64_t i = 0; i < count; i++) {
        at = place_array(builder, &builder->arrays[i], at, &entries[i]);
        entries[i].dims_offset = dims;
        dims += builder->arrays[i].about.rank * sizeof(uint64_t);
    }
    header->sums_offset = at;
    header->total_bytes = at + mkt_index_sums_bytes(at - header->pieces_offset);
}

/* By their tokens. Keys are sorted, and the arrays, which are large, moved once. */
static enum mkt_status sort_arrays(struct mkt_index_builder *builder)
{
    const uint64_t count = builder->array_count;
    struct token_key *keys = malloc((count + 1) * sizeof(*keys));
    struct built_array *sorted = malloc((count + 1) * sizeof(*sorted));

    if (!keys || !sorted) {
        free(keys);
        free(sorted);
        return MKT_NO_MEMORY;
    }
    _Static_assert(MKT_TOKEN_BYTES == 2 * sizeof(uint64_t), "a token is two words");
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word[2];
        memcpy(word, builder->arrays[i].about.token, sizeof(word));
        keys[i] = (struct token_key){be64toh(word[0]), be64toh(word[1]),
                                     builder->arrays[i].about.identity, i};
    }
    qsort(keys, count, sizeof(*keys), compare_tokens);
    for (uint64_t i = 0; i < count; i++)
        sorted[i] = builder->arrays[keys[i].position];
    free(keys);
    free(builder->arrays);
    builder->arrays = sorted;
    builder->array_capacity = count + 1;
    return MKT_OK;
}

enum mkt_status mkt_index_builder_finish(struct mkt_index_builder *builder, void **bytes_out,
                                         uint64_t *length_out)
{
    struct mkt_index_header_disk header = {.version = MKT_INDEX_VERSION,
                                           .arrays = (uint32_t)builder->array_count};
    const uint64_t count = builder->array_count;
    struct mkt_index_array_disk *entries = malloc((count + 1) * sizeof(*entries));

    if (!entries)
        return MKT_NO_MEMORY;
    /* From here on no pieces may follow: the arrays change places. */
    enum mkt_status status = sort_arrays(builder);
    if (status != MKT_OK)
        goto err_free_entries;
    place_parts(builder, entries, &header);
    uint8_t *bytes = calloc(1, header.total_bytes);
    status = MKT_NO_MEMORY;
    if (!bytes)
        goto err_free_entries;
    memcpy(bytes, &header, sizeof(header));
    status = fill_identities(builder, (uint32_t *)(bytes + header.identities_offset));
    for (uint64_t i = 0; i < count && status == MKT_OK; i++)
        status = fill_array(builder, &builder->arrays[i], &entries[i], bytes);
    if (status != MKT_OK)
        goto err_free_bytes;
    if (count > 0)
        memcpy(bytes + header.arrays_offset, entries, count * sizeof(*entries));
    free(entries);
    seal_header((struct mkt_index_header_disk *)bytes);
    *bytes_out = bytes;
    *length_out = header.total_bytes;
    return MKT_OK;

err_free_bytes:
    free(bytes);
err_free_entries:
    free(entries);
    return status;
}
