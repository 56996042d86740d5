/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The redirected raw data of a file's datasets: which arrays there are, and the pieces that this
 * process wrote and nobody has published yet. An array outlives its dataset's handles and ends with
 * the file.
 */
#ifndef MKT_VOL_ARRAYS_H
#define MKT_VOL_ARRAYS_H

#include "vol/vol.h"

/* A piece of this process. In a group of one it stays here until the commit and may change in
 * place; in a larger group the market knows it from the first write on (stamp > 0). */
struct mkt_vol_piece;

struct mkt_vol_array;

/* The array of a dataset that the image names by `token`; NULL: none (its data is the native
 * dataset's alone). */
struct mkt_vol_array *mkt_vol_array_find(struct mkt_vol_arrays *arrays,
                                         const uint8_t token[MKT_TOKEN_BYTES]);
/* A dataset that was just created (`created`: takes the next ordinal, so all ranks must), or found
 * in an image without an array. NULL: out of memory. An older array under the same token is dead.
 */
struct mkt_vol_array *mkt_vol_array_create(struct mkt_vol_arrays *arrays,
                                           const uint8_t token[MKT_TOKEN_BYTES],
                                           uint32_t element_bytes, uint32_t rank,
                                           const uint64_t *dims, uint32_t flags, bool created);
/* The one that lives after `*array` (NULL: the first); of those that a version has, too.
 * MKT_NOT_FOUND: none. MKT_CORRUPT: the version's index is. MKT_NO_MEMORY. */
enum mkt_status mkt_vol_arrays_next(struct mkt_vol_arrays *arrays, struct mkt_vol_array **array);
const struct mkt_array *mkt_vol_array_meta(const struct mkt_vol_array *array);
/* In mkt_array.flags, beside MKT_ARRAY_MEMORY_ONLY: the allocation time that native would have had.
 */
#define MKT_VOL_ARRAY_ALLOC_TIME 0x3u
/* ... and that it had space when a new extent left nothing of what was written. */
#define MKT_VOL_ARRAY_HAD_SPACE 0x4u
H5D_alloc_time_t mkt_vol_array_alloc_time(const struct mkt_vol_array *array);
/* ... and the number of the file's type, if it is one of HDF5's own (own_types.h). */
#define MKT_VOL_ARRAY_OWN_TYPE(number) ((uint32_t)(number) << 8)
#define MKT_VOL_ARRAY_OWN_TYPES        MKT_VOL_ARRAY_OWN_TYPE(0xff)
/* True if the elements are of this type, as far as ids alone tell. */
bool mkt_vol_array_has_type(const struct mkt_vol_array *array, hid_t type);
/* Changes with each write of this process and each new extent. */
uint64_t mkt_vol_array_generation(const struct mkt_vol_array *array);
/* chunk_masks.c: a direct chunk write left these filters out; and whether it did for just these
 * values of the chunk. */
void mkt_vol_array_note_mask(struct mkt_vol_array *array, uint64_t offset_hash,
                             uint64_t values_hash, uint32_t filter_mask);
uint32_t mkt_vol_array_mask(const struct mkt_vol_array *array, uint64_t offset_hash,
                            uint64_t values_hash);
struct mkt_vol_file *mkt_vol_array_file(const struct mkt_vol_array *array);

/* The extent changed. Growing costs nothing. Shrinking cuts the pieces, so that growing again shows
 * fill values. */
herr_t mkt_vol_array_resize(struct mkt_vol_array *array, const uint64_t *dims);
/* The object that the array belongs to was removed from the file. */
void mkt_vol_array_kill(struct mkt_vol_array *array);

/* ---- writing ---- */
/* Where the elements of a slab go: at `data`, lying as `geometry` says (a box or slab that holds
 * them). */
struct mkt_vol_place {
    struct mkt_vol_array *array;
    struct mkt_vol_piece *piece;
    struct mkt_slab slab;
    struct mkt_piece geometry;
    void *data, *table;
    enum {
        MKT_VOL_PLACE_NEW,
        MKT_VOL_PLACE_OVERWRITE,
        MKT_VOL_PLACE_TILE,
        MKT_VOL_PLACE_EXTEND
    } kind;
    uint32_t axis; /* EXTEND */
};
/* Finds or makes the place for a slab. packed: the geometry must be the slab itself. Waits for
 * memory. mkt_vol_array_written ends it, mkt_vol_array_dropped takes it back. */
enum mkt_status mkt_vol_array_place(struct mkt_vol_array *array, const struct mkt_slab *slab,
                                    bool packed, struct mkt_vol_place *place_out,
                                    struct mkt_error *error);
/* The same for a MASKED or LIST piece (form, slab and the lengths of data and table are set),
 * always new. */
enum mkt_status mkt_vol_array_place_table(struct mkt_vol_array *array,
                                          const struct mkt_piece *piece,
                                          struct mkt_vol_place *place_out, struct mkt_error *error);
/* The bytes are there. In a group of more than one the others can see them when this returns. */
enum mkt_status mkt_vol_array_written(struct mkt_vol_place *place, struct mkt_error *error);
void mkt_vol_array_dropped(struct mkt_vol_place *place);

/* ---- reading ---- */
/* Everything that covers the array now: the version's pieces, then the group's or this process's
 * own. */
struct mkt_vol_sources {
    struct mkt_vol_array *array;
    bool has_base, has_group;
    struct mkt_index_view group;
    uint32_t base_position;
    struct mkt_extent group_extent;
};
enum mkt_status mkt_vol_sources_open(struct mkt_vol_sources *sources, struct mkt_vol_array *array,
                                     struct mkt_error *error);
void mkt_vol_sources_close(struct mkt_vol_sources *sources);
/* True if no piece can be there at all. */
bool mkt_vol_sources_empty(const struct mkt_vol_sources *sources);
/* True if native would have no space for the array yet. */
bool mkt_vol_sources_unallocated(const struct mkt_vol_sources *sources);
/* True if it is known that no two pieces overlap. */
bool mkt_vol_sources_disjoint(const struct mkt_vol_sources *sources);
/* The pieces that meet the bounding box of `want`, the later wins. */
enum mkt_status mkt_vol_sources_query(const struct mkt_vol_sources *sources,
                                      const struct mkt_slab *want, mkt_piece_fn fn, void *context);

#endif
