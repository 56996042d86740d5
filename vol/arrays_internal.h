/* SPDX-License-Identifier: BSD-3-Clause */
/* The insides of arrays, shared by arrays.c (which arrays there are), pieces.c, place.c and
 * sources.c (the pieces of one, writing them, reading them) and resize.c (cutting one). */
#ifndef MKT_VOL_ARRAYS_INTERNAL_H
#define MKT_VOL_ARRAYS_INTERNAL_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "vol/arrays.h"

struct mkt_vol_piece {
    UT_hash_handle by_slab; /* of BOX and SLAB; the key is the record's dims */
    void *data, *table;     /* where the extents are mapped */
    uint64_t data_capacity; /* reserved bytes, >= the record's data.length */
    bool hashed;
    bool listed;                          /* to be found by its slab without a table */
    bool is_tile;                         /* MASKED, still written into: hashed in by_tile */
    bool written;                         /* false between place and written */
    bool settled;                         /* published: never changes again */
    struct mkt_piece_record_wire *record; /* behind this structure */
};

struct mkt_vol_array {
    UT_hash_handle by_token;
    struct mkt_vol_array *next; /* in the order of identities */
    struct mkt_vol_arrays *owner;
    struct mkt_array meta;
    bool dead;
    bool in_base;
    uint32_t base_position;

    struct mkt_vol_piece **piece; /* in the order in which the later wins */
    uint32_t pieces, capacity;
    struct mkt_vol_piece *by_slab, *by_tile;
    uint32_t small_pieces;
    uint64_t generation;
    struct mkt_vol_chunk_mask *masks;

    /* An index over the first `indexed` pieces, rebuilt when the rest has grown long. */
    void *index_bytes;
    struct mkt_index_view index;
    uint32_t indexed;
};

struct mkt_vol_array_block;

struct mkt_vol_arrays {
    struct mkt_vol_file *file;
    struct mkt_vol_array *by_token; /* those that live */
    struct mkt_vol_array *first, **last;
    struct mkt_vol_array_block *blocks;
    struct mkt_index_view base;
    struct mkt_index_known base_known;
    bool has_base;
    uint64_t next_identity;
    bool changed;
};

/* A record with room for the piece's slab, in front of nothing; not yet in the array. NULL: out of
 * memory. */
struct mkt_vol_piece *mkt_vol_piece_create(const struct mkt_piece *piece);
/* Gives its bytes back and frees it. */
void mkt_vol_piece_destroy(struct mkt_vol_array *array, struct mkt_vol_piece *piece);
/* Appends to the array's pieces. MKT_NO_MEMORY. */
enum mkt_status mkt_vol_piece_append(struct mkt_vol_array *array, struct mkt_vol_piece *piece);
/* Not to be found by its slab any more. */
void mkt_vol_piece_unhash(struct mkt_vol_array *array, struct mkt_vol_piece *piece);
/* What is written from now on must lie over the tiles: no further write goes into them. */
void mkt_vol_array_seal(struct mkt_vol_array *array);
/* Before it goes to the market for good: gives back what it reserved beyond its data. */
void mkt_vol_piece_settle(struct mkt_vol_array *array, struct mkt_vol_piece *piece);
/* The record parsed. */
void mkt_vol_piece_parse(const struct mkt_vol_array *array, const struct mkt_vol_piece *piece,
                         struct mkt_piece *piece_out);
/* Forgets the index over the pieces (they were reordered or cut). */
void mkt_vol_array_forget_index(struct mkt_vol_array *array);
void mkt_vol_array_forget_masks(struct mkt_vol_array *array);
/* Ends what it holds; the structure is the block's. */
void mkt_vol_array_fini(struct mkt_vol_array *array);

#endif
