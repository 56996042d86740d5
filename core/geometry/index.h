/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index of a version: for each array its pieces under a packed R-tree, as one block of bytes
 * that readers use in place from shared memory. The builder is the market's, the view the readers'.
 * Layout: index_layout.h. A view is immutable and may be used by any thread.
 */
#ifndef MKT_GEOMETRY_INDEX_H
#define MKT_GEOMETRY_INDEX_H

#include "core/geometry/piece_layout.h"

#define MKT_TOKEN_BYTES 16 /* H5O_MAX_TOKEN_SIZE; opaque here */

struct mkt_array {
    uint64_t identity;              /* ordinal in the file's life; never reused in it */
    uint8_t token[MKT_TOKEN_BYTES]; /* how the image names the array; zeros while unknown */
    uint32_t element_bytes;
    uint32_t flags; /* MKT_ARRAY_*; the other bits are the client's own, opaque to the market */
    uint32_t rank;
    uint64_t dims[MKT_MAX_RANK]; /* current extent, elements */
};

/* In mkt_array.flags: a file on disk of the version doesn't get its elements (mode memory). */
#define MKT_ARRAY_MEMORY_ONLY 0x80000000u

/* True if each identity is greater than the one before, as clients list arrays. */
static inline bool mkt_arrays_rise(const struct mkt_array *list, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (list[i].identity <= list[i - 1].identity)
            return false;
    return true;
}

struct mkt_index_builder;
struct mkt_index_builder *mkt_index_builder_create(void); /* NULL: out of memory */
void mkt_index_builder_destroy(struct mkt_index_builder *builder);
/* Pieces follow their array, in the order in which the later wins. MKT_INVALID (bad rank, or sizes
 * that contradict one another), MKT_NO_MEMORY. */
enum mkt_status mkt_index_builder_add_array(struct mkt_index_builder *builder,
                                            const struct mkt_array *array);
enum mkt_status mkt_index_builder_add_piece(struct mkt_index_builder *builder,
                                            const struct mkt_piece *piece);
/* Ends the build: only destroy may follow. *bytes_out is malloc'ed and the caller's. MKT_EXISTS (an
 * identity twice), MKT_NO_MEMORY. */
enum mkt_status mkt_index_builder_finish(struct mkt_index_builder *builder, void **bytes_out,
                                         uint64_t *length_out);

/* What queries have checked of an index: blocks of its pieces, and of the table of their sums. */
#define MKT_INDEX_KNOWN 64
struct mkt_index_known {
    uint64_t block[2][MKT_INDEX_KNOWN]; /* number + 1 */
};
struct mkt_index_view {
    const uint8_t *bytes;
    uint64_t length;
    uint32_t arrays;
    uint64_t pieces_offset, pieces_bytes, root; /* see index_layout.h */
    /* Set by who has the view for long, zeroed, so that a query doesn't check again what one before
     * it did; for one thread at a time. NULL: each query checks all that it looks at. */
    struct mkt_index_known *known;
};
/* Checks header, bounds and what is known of the arrays, by checksum. Pieces are checked when a
 * query looks at them: an index that is torn, or isn't that of the header any more, gives
 * MKT_CORRUPT. MKT_OK or MKT_CORRUPT. */
enum mkt_status mkt_index_view_open(struct mkt_index_view *view_out, const void *bytes,
                                    uint64_t length);
/* Array by position (0 .. arrays-1), by token, by identity. Of several arrays of one token the one
 * of the highest identity is found, by a token of zeros none. MKT_NOT_FOUND, MKT_CORRUPT. */
enum mkt_status mkt_index_view_array(const struct mkt_index_view *view, uint32_t position,
                                     struct mkt_array *array_out);
enum mkt_status mkt_index_view_find_token(const struct mkt_index_view *view,
                                          const uint8_t token[MKT_TOKEN_BYTES],
                                          uint32_t *position_out);
enum mkt_status mkt_index_view_find_identity(const struct mkt_index_view *view, uint64_t identity,
                                             uint32_t *position_out);
uint64_t mkt_index_view_pieces(const struct mkt_index_view *view, uint32_t position);
/* True if no two pieces of the array overlap, so that the sum of moved elements tells full cover.
 * False also where that is too costly to tell; masked and listed pieces count as their boxes. */
bool mkt_index_view_disjoint(const struct mkt_index_view *view, uint32_t position);

/* Calls fn for every piece whose bounding box meets that of `want`, in the order in which the later
 * wins. A status other than MKT_OK from fn ends the query and is returned. MKT_CORRUPT,
 * MKT_NO_MEMORY, MKT_INVALID (another rank). */
typedef enum mkt_status (*mkt_piece_fn)(void *context, const struct mkt_piece *piece);
enum mkt_status mkt_index_view_query(const struct mkt_index_view *view, uint32_t position,
                                     const struct mkt_slab *want, mkt_piece_fn fn, void *context);

#endif
