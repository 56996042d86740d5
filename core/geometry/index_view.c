/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/hash.h"
#include "core/geometry/index_sums.h"
#include "core/geometry/rtree.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LEVELS  10 /* 16^9 pieces exceed the u32 that counts them */
#define HITS_INLINE 256

/* Parts are found and their bounds checked anew at each call: the bytes are shared, so nothing but
 * a checksum rests on an earlier look. */

static bool part_fits(const struct mkt_index_view *view, uint64_t offset, uint64_t count,
                      uint64_t size)
{
    uint64_t bytes;

    return !__builtin_mul_overflow(count, size, &bytes) && offset <= view->length &&
           bytes <= view->length - offset;
}

static bool load_header(const struct mkt_index_view *view, struct mkt_index_header_disk *header)
{
    if (view->length < sizeof(*header))
        return false;
    memcpy(header, view->bytes, sizeof(*header));
    return memcmp(header->magic, MKT_INDEX_MAGIC, sizeof(header->magic)) == 0 &&
           header->version == MKT_INDEX_VERSION && header->total_bytes <= view->length &&
           header->total_bytes >= sizeof(*header) &&
           part_fits(view, header->arrays_offset, header->arrays,
                     sizeof(struct mkt_index_array_disk)) &&
           part_fits(view, header->identities_offset, header->arrays, sizeof(uint32_t)) &&
           header->pieces_offset >= sizeof(*header) &&
           header->pieces_offset <= header->sums_offset &&
           part_fits(view, header->sums_offset,
                     mkt_index_sums_bytes(header->sums_offset - header->pieces_offset), 1);
}

enum mkt_status mkt_index_view_open(struct mkt_index_view *view_out, const void *bytes,
                                    uint64_t length)
{
    struct mkt_index_view view = {.bytes = bytes, .length = length};
    struct mkt_index_header_disk header;
    const size_t covered = offsetof(struct mkt_index_header_disk, version);

    if (!load_header(&view, &header))
        return MKT_CORRUPT;
    if (mkt_hash64(view.bytes + covered, header.pieces_offset - covered, 0) != header.checksum)
        return MKT_CORRUPT;
    view.length = header.total_bytes;
    view.arrays = header.arrays;
    view.pieces_offset = header.pieces_offset;
    view.pieces_bytes = header.sums_offset - header.pieces_offset;
    view.root = header.root;
    *view_out = view;
    return load_header(&view, &header) ? MKT_OK
                                       : MKT_CORRUPT; /* the parts end inside the total, too */
}

static bool tree_fits(const struct mkt_index_view *view, const struct mkt_index_array_disk *entry)
{
    return part_fits(view, entry->record_offsets_offset, entry->pieces, sizeof(uint32_t)) &&
           part_fits(view, entry->order_offset, entry->pieces, sizeof(uint32_t)) &&
           part_fits(view, entry->nodes_offset, mkt_rtree_nodes(entry->pieces),
                     entry->rank * sizeof(struct mkt_interval));
}

static enum mkt_status load_entry(const struct mkt_index_view *view, uint32_t position,
                                  struct mkt_index_array_disk *entry)
{
    struct mkt_index_header_disk header;

    if (!load_header(view, &header))
        return MKT_CORRUPT;
    if (position >= header.arrays)
        return MKT_NOT_FOUND;
    memcpy(entry, view->bytes + header.arrays_offset + position * sizeof(*entry), sizeof(*entry));
    if (entry->rank > MKT_MAX_RANK || entry->element_bytes == 0 || entry->pieces > UINT32_MAX ||
        !part_fits(view, entry->dims_offset, entry->rank, sizeof(uint64_t)) ||
        !part_fits(view, entry->records_offset, entry->records_bytes, 1))
        return MKT_CORRUPT;
    if (entry->pieces > MKT_INDEX_SCAN_MAX && !tree_fits(view, entry))
        return MKT_CORRUPT;
    return MKT_OK;
}

enum mkt_status mkt_index_view_array(const struct mkt_index_view *view, uint32_t position,
                                     struct mkt_array *array_out)
{
    struct mkt_index_array_disk entry;
    enum mkt_status status = load_entry(view, position, &entry);

    if (status != MKT_OK)
        return status;
    array_out->identity = entry.identity;
    memcpy(array_out->token, entry.token, MKT_TOKEN_BYTES);
    array_out->element_bytes = entry.element_bytes;
    array_out->flags = entry.flags;
    array_out->rank = entry.rank;
    memcpy(array_out->dims, view->bytes + entry.dims_offset, entry.rank * sizeof(uint64_t));
    return MKT_OK;
}

/* The token of one array; `header` has been checked. */
static const uint8_t *token_at(const struct mkt_index_view *view,
                               const struct mkt_index_header_disk *header, uint32_t position)
{
    return view->bytes + header->arrays_offset + position * sizeof(struct mkt_index_array_disk) +
           offsetof(struct mkt_index_array_disk, token);
}

enum mkt_status mkt_index_view_find_token(const struct mkt_index_view *view,
                                          const uint8_t token[MKT_TOKEN_BYTES],
                                          uint32_t *position_out)
{
    static const uint8_t unknown[MKT_TOKEN_BYTES];
    struct mkt_index_header_disk header;
    uint32_t low = 0;

    if (memcmp(token, unknown, MKT_TOKEN_BYTES) == 0)
        return MKT_NOT_FOUND;
    if (!load_header(view, &header))
        return MKT_CORRUPT;
    /* The last entry that is not above the token: of several with the same, the youngest. */
    for (uint32_t high = header.arrays; low < high;) {
        uint32_t middle = low + (high - low) / 2;

        if (memcmp(token_at(view, &header, middle), token, MKT_TOKEN_BYTES) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || memcmp(token_at(view, &header, low - 1), token, MKT_TOKEN_BYTES) != 0)
        return MKT_NOT_FOUND;
    *position_out = low - 1;
    return MKT_OK;
}

enum mkt_status mkt_index_view_find_identity(const struct mkt_index_view *view, uint64_t identity,
                                             uint32_t *position_out)
{
    uint32_t low = 0, high = view->arrays;
    struct mkt_index_header_disk header;

    if (!load_header(view, &header))
        return MKT_CORRUPT;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, position;
        struct mkt_index_array_disk entry;

        memcpy(&position, view->bytes + header.identities_offset + middle * sizeof(position),
               sizeof(position));
        if (load_entry(view, position, &entry) != MKT_OK)
            return MKT_CORRUPT;
        if (entry.identity == identity) {
            *position_out = position;
            return MKT_OK;
        }
        if (entry.identity < identity)
            low = middle + 1;
        else
            high = middle;
    }
    return MKT_NOT_FOUND;
}

uint64_t mkt_index_view_pieces(const struct mkt_index_view *view, uint32_t position)
{
    struct mkt_index_array_disk entry;

    return load_entry(view, position, &entry) == MKT_OK ? entry.pieces : 0;
}

bool mkt_index_view_disjoint(const struct mkt_index_view *view, uint32_t position)
{
    struct mkt_index_array_disk entry;

    return load_entry(view, position, &entry) == MKT_OK &&
           (entry.index_flags & MKT_INDEX_ARRAY_DISJOINT) != 0;
}

/* Queries. */

struct query {
    const struct mkt_index_view *view;
    struct mkt_index_sums sums;
    struct mkt_index_array_disk entry;
    const struct mkt_slab *want;
    struct mkt_interval bounds[MKT_MAX_RANK]; /* of the want */
    const uint8_t *level[MAX_LEVELS];
    uint64_t level_nodes[MAX_LEVELS];
    uint32_t levels;
    uint32_t *hits; /* inline_hits, or on the heap */
    uint64_t hit_count, hit_capacity;
    uint32_t inline_hits[HITS_INLINE];
};

static bool is_sound(struct query *query, uint64_t offset, uint64_t length)
{
    return mkt_index_sums_check(&query->sums, offset, length);
}

/* The record at an offset that leaves room for its head. */
static bool record_is_sound(struct query *query, uint64_t offset)
{
    const struct mkt_index_array_disk *entry = &query->entry;
    struct mkt_piece_record_wire head;

    if (!is_sound(query, entry->records_offset + offset, sizeof(head)))
        return false;
    memcpy(&head, query->view->bytes + entry->records_offset + offset, sizeof(head));
    return is_sound(query, entry->records_offset + offset, head.record_bytes);
}

static enum mkt_status decode_at(struct query *query, uint64_t offset, struct mkt_piece *piece,
                                 uint32_t *used)
{
    const struct mkt_index_array_disk *entry = &query->entry;

    if (offset >= entry->records_bytes || !record_is_sound(query, offset) ||
        mkt_piece_decode(query->view->bytes + entry->records_offset + offset,
                         entry->records_bytes - offset, entry->element_bytes, piece,
                         used) != MKT_OK ||
        piece->slab.rank != entry->rank)
        return MKT_CORRUPT;
    return MKT_OK;
}

/* All records in their order. */
static enum mkt_status scan(struct query *query, mkt_piece_fn fn, void *context)
{
    uint64_t offset = 0;

    for (uint64_t i = 0; i < query->entry.pieces; i++) {
        struct mkt_piece piece;
        uint32_t used;
        enum mkt_status status = decode_at(query, offset, &piece, &used);

        if (status == MKT_OK && mkt_slab_bounds_meet(&piece.slab, query->want))
            status = fn(context, &piece);
        if (status != MKT_OK)
            return status;
        offset += used;
    }
    return MKT_OK;
}

static enum mkt_status decode_piece(struct query *query, uint32_t at, struct mkt_piece *piece)
{
    uint64_t place = query->entry.record_offsets_offset + (uint64_t)at * sizeof(uint32_t);
    uint32_t offset, used;

    if (at >= query->entry.pieces || !is_sound(query, place, sizeof(offset)))
        return MKT_CORRUPT;
    memcpy(&offset, query->view->bytes + place, sizeof(offset));
    return decode_at(query, (uint64_t)offset * 8, piece, &used);
}

static enum mkt_status add_hit(struct query *query, uint32_t at)
{
    if (query->hit_count == query->hit_capacity) {
        uint64_t capacity = query->hit_capacity * 4;
        uint32_t *hits = malloc(capacity * sizeof(*hits));

        if (!hits)
            return MKT_NO_MEMORY;
        memcpy(hits, query->hits, query->hit_count * sizeof(*hits));
        if (query->hits != query->inline_hits)
            free(query->hits);
        query->hits = hits;
        query->hit_capacity = capacity;
    }
    query->hits[query->hit_count++] = at;
    return MKT_OK;
}

static enum mkt_status visit_leaf(struct query *query, uint64_t leaf)
{
    uint64_t end = (leaf + 1) * MKT_INDEX_FANOUT;

    if (end > query->entry.pieces)
        end = query->entry.pieces;
    if (!is_sound(query, query->entry.order_offset + leaf * MKT_INDEX_FANOUT * sizeof(uint32_t),
                  (end - leaf * MKT_INDEX_FANOUT) * sizeof(uint32_t)))
        return MKT_CORRUPT;
    for (uint64_t i = leaf * MKT_INDEX_FANOUT; i < end; i++) {
        struct mkt_piece piece;
        uint32_t at;

        memcpy(&at, query->view->bytes + query->entry.order_offset + i * sizeof(at), sizeof(at));
        enum mkt_status status = decode_piece(query, at, &piece);
        if (status == MKT_OK && mkt_slab_bounds_meet(&piece.slab, query->want))
            status = add_hit(query, at);
        if (status != MKT_OK)
            return status;
    }
    return MKT_OK;
}

static bool box_is_sound(struct query *query, uint32_t level, uint64_t node)
{
    const uint64_t bytes = query->entry.rank * sizeof(struct mkt_interval);

    return is_sound(query, (uint64_t)(query->level[level] - query->view->bytes) + node * bytes,
                    bytes);
}

static bool node_meets(const struct query *query, uint32_t level, uint64_t node)
{
    const uint32_t rank = query->entry.rank;
    const uint8_t *box = query->level[level] + node * rank * sizeof(struct mkt_interval);

    for (uint32_t d = 0; d < rank; d++) {
        struct mkt_interval side;

        memcpy(&side, box + d * sizeof(side), sizeof(side));
        if (side.low >= query->bounds[d].end || query->bounds[d].low >= side.end)
            return false;
    }
    return true;
}

/* Depth: query->levels. */
static enum mkt_status visit(struct query *query, uint32_t level, uint64_t node)
{
    if (!box_is_sound(query, level, node))
        return MKT_CORRUPT;
    if (!node_meets(query, level, node))
        return MKT_OK;
    if (level == 0)
        return visit_leaf(query, node);
    uint64_t end = (node + 1) * MKT_INDEX_FANOUT;
    if (end > query->level_nodes[level - 1])
        end = query->level_nodes[level - 1];
    for (uint64_t child = node * MKT_INDEX_FANOUT; child < end; child++) {
        enum mkt_status status = visit(query, level - 1, child);

        if (status != MKT_OK)
            return status;
    }
    return MKT_OK;
}

static void find_levels(struct query *query)
{
    const uint8_t *nodes = query->view->bytes + query->entry.nodes_offset;
    uint64_t count = query->entry.pieces;

    query->levels = 0;
    do {
        count = mkt_index_level_nodes(count);
        query->level[query->levels] = nodes;
        query->level_nodes[query->levels++] = count;
        nodes += count * query->entry.rank * sizeof(struct mkt_interval);
    } while (count > 1);
}

/* True if the want covers the root's box: then every piece is a hit, and a scan finds them in
 * order. */
static bool wants_all(const struct query *query)
{
    for (uint32_t d = 0; d < query->entry.rank; d++) {
        struct mkt_interval side;

        memcpy(&side, query->level[query->levels - 1] + d * sizeof(side), sizeof(side));
        if (query->bounds[d].low > side.low || query->bounds[d].end < side.end)
            return false;
    }
    return true;
}

static int compare_hits(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static enum mkt_status call_hits(struct query *query, mkt_piece_fn fn, void *context)
{
    qsort(query->hits, query->hit_count, sizeof(*query->hits), compare_hits);
    for (uint64_t i = 0; i < query->hit_count; i++) {
        struct mkt_piece piece;
        enum mkt_status status = decode_piece(query, query->hits[i], &piece);

        if (status == MKT_OK)
            status = fn(context, &piece);
        if (status != MKT_OK)
            return status;
    }
    return MKT_OK;
}

enum mkt_status mkt_index_view_query(const struct mkt_index_view *view, uint32_t position,
                                     const struct mkt_slab *want, mkt_piece_fn fn, void *context)
{
    struct query query;
    enum mkt_status status = load_entry(view, position, &query.entry);

    if (status != MKT_OK)
        return status;
    if (want->rank != query.entry.rank)
        return MKT_INVALID;
    query.view = view;
    query.want = want;
    mkt_index_sums_init(&query.sums, view);
    if (query.entry.pieces <= MKT_INDEX_SCAN_MAX)
        return scan(&query, fn, context);
    for (uint32_t d = 0; d < want->rank; d++)
        query.bounds[d] = (struct mkt_interval){want->dim[d].start, mkt_dim_end(&want->dim[d])};
    find_levels(&query);
    if (!box_is_sound(&query, query.levels - 1, 0))
        return MKT_CORRUPT;
    if (wants_all(&query))
        return scan(&query, fn, context);
    query.hits = query.inline_hits;
    query.hit_count = 0;
    query.hit_capacity = HITS_INLINE;
    status = visit(&query, query.levels - 1, 0);
    if (status == MKT_OK)
        status = call_hits(&query, fn, context);
    if (query.hits != query.inline_hits)
        free(query.hits);
    return status;
}
