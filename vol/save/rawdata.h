/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw data from the market into the datasets of a native HDF5 file: an image without raw data goes
 * in, a whole file comes out. Shared by h5market-save (the file is on disk) and the connector (it
 * is in memory, for H5Fget_file_image). One thread; blocks as HDF5's writes do. HDF5 must not print
 * errors by itself meanwhile.
 */
#ifndef MKT_VOL_SAVE_RAWDATA_H
#define MKT_VOL_SAVE_RAWDATA_H

#include <hdf5.h>

#include "core/client/client.h"

#define MKT_RAW_MARK "H5MARKET_in_memory_only"

struct mkt_raw_array {
    struct mkt_array meta;
    bool any;          /* there may be pieces of it */
    uint64_t position; /* the source's own */
    void *own;         /* the source's own */
};

/* Where arrays and their pieces come from. */
struct mkt_raw_source {
    void *context;
    struct mkt_client *client;
    uint64_t file;           /* as in struct mkt_piece_source */
    bool leaves_memory_only; /* arrays with MKT_ARRAY_MEMORY_ONLY keep their fill values, and get an
                                attribute that says so */
    /* The array after `*array`, which has been zeros before the first. MKT_NOT_FOUND: no more. All
     * other raw data is in the file already. */
    enum mkt_status (*next)(void *context, struct mkt_raw_array *array);
    /* Its pieces that meet `want`, the later wins. */
    enum mkt_status (*query)(void *context, const struct mkt_raw_array *array,
                             const struct mkt_slab *want, mkt_piece_fn fn, void *fn_context,
                             struct mkt_error *error);
    /* Before a piece (0 bytes) and after it or each strip of a large one; what isn't MKT_OK ends it
     * all. NULL: not wanted. */
    enum mkt_status (*moved)(void *context, uint64_t bytes, struct mkt_error *error);
};

/* Chunks that more than one piece touches stay in the cache until they are whole: for the list that
 * the file is opened with. */
herr_t mkt_raw_list(hid_t fapl);
/* Writes all raw data of the datasets that the arrays name by their tokens, by whatever links they
 * are reached; `name` is the file's for messages. *found_out: arrays that have a dataset in the
 * file. The failures of the source and of HDF5 (MKT_IO_ERROR, MKT_NO_SPACE), MKT_CORRUPT for a
 * dataset that isn't what the source says. */
enum mkt_status mkt_raw_write(hid_t file, const char *name, const struct mkt_raw_source *source,
                              uint64_t *found_out, struct mkt_error *error);
/* Sets the error from HDF5's error stack, naming the object. */
enum mkt_status mkt_raw_failed(const char *what, const char *name, struct mkt_error *error);
enum mkt_status mkt_raw_dataset_failed(const char *what, hid_t dataset, struct mkt_error *error);
/* A path of the dataset, for people; it is searched for. */
#define MKT_RAW_NAME_BYTES 256
const char *mkt_raw_name(hid_t dataset, char name[MKT_RAW_NAME_BYTES]);

/* True if a dataset of this space and size of elements is what the index says it is. */
bool mkt_raw_fits(hid_t space, const struct mkt_array *array, size_t type_bytes);

/* ---- piece.c ---- */
struct mkt_raw_dataset {
    hid_t id, type; /* the file's own type: bytes go as they are */
    bool chunked;
    struct mkt_array array;
    const struct mkt_raw_source *source;
    struct mkt_error *error;
};
/* Writes one piece into its dataset. */
enum mkt_status mkt_raw_piece(struct mkt_raw_dataset *dataset, const struct mkt_piece *piece);

#endif
