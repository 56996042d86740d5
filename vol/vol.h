/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared inside vol/ only: the connector's own objects and the seams between its files.
 * Every object that HDF5 holds for us is a struct mkt_vol_object around an object of the native
 * connector. Raw data of datasets in market files is all that leaves native's way (dataset.c,
 * transfer.c); the rest is passed through. Threads: HDF5's global lock is held in every callback;
 * nothing here is called otherwise.
 */
#ifndef MKT_VOL_VOL_H
#define MKT_VOL_VOL_H

#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

#include "core/client/client.h"
#include "core/geometry/index.h"
#include "vol/compat.h" /* neutralises H5check_version in macros; differences between HDF5 1.14 and 2.x */

#define MKT_VOL_NAME  "market"
#define MKT_VOL_VALUE 12870 /* H5VL_class_value_t, unregistered range is 256.. */

/* Zeroed memory for what comes by the thousand: glibc's malloc has a cache that its calloc goes
 * past, which is to be felt among all that native allocates. NULL: none left. */
static inline void *mkt_vol_alloc(size_t bytes)
{
    void *memory = malloc(bytes);

    return memory ? memset(memory, 0, bytes) : NULL;
}

struct mkt_vol_arrays; /* arrays.c */

/* One logical file of the market open in this process; every H5Fopen of it shares this. Reference
 * counted: each wrapped object in it holds one. The last native close publishes (file.c). */
struct mkt_vol_file {
    unsigned references;
    char *path;     /* what the application opened */
    bool in_market; /* false: passed through to native, nothing below counts */
    bool writable;
    struct mkt_client *client;
    uint64_t handle;     /* mkt_opened.file */
    uint32_t rank, size; /* the group */
    uint64_t version;    /* read, or the base of a READ_WRITE */
    struct mkt_vol_arrays *arrays;
    char *failure;                    /* set once by mkt_vol_file_poison: the close reports it */
    struct mkt_vol_image *image;      /* image.c: what native works in */
    struct mkt_vol_file_state *state; /* file_state.h */
};

/* The first failure that makes the version unusable (no space, lost daemon, ...). A wrong argument
 * doesn't. */
void mkt_vol_file_poison(struct mkt_vol_file *file, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define MKT_VOL_OBJECT_MARK UINT64_C(0x746b72616d6c6f76)

struct mkt_vol_array; /* arrays.c: the redirected raw data of one dataset, lives as long as its file
                       */

struct mkt_vol_object {
    uint64_t mark; /* MKT_VOL_OBJECT_MARK: HDF5 2.x's tools hand in native objects, too */
    void *under;   /* the native connector's object */
    H5I_type_t type;
    struct mkt_vol_file
        *file; /* referenced; NULL for objects without a file (a transient named type ...) */
    struct mkt_vol_dataset *dataset; /* type H5I_DATASET in a market file: dataset.c's, else NULL */
    bool internal;                   /* native's own: freed by an unwrap, never closed */
    bool closing;
    bool not_virtual;     /* a dataset of a file passed through, looked at */
    bool looked_behind;   /* a virtual one there: links and sources of its sources, too */
    bool found_by_search; /* HDF5 tried native first and keeps it as the file's connector */
};

/* The native connector's id, from initialize to terminate. */
hid_t mkt_vol_native_id(void);
/* Its class: native's callbacks are called as HDF5 calls them. Their errors are on the
 * application's stack then, and its own call prints them once, where each of the H5VL... calls
 * would, too. */
const H5VL_class_t *mkt_vol_native(void);
/* The file that a native object is in (mounts and external links lead into others): a market file
 * that is open here, else the one that stands for all files passed through. Never NULL; takes no
 * reference. */
struct mkt_vol_file *mkt_vol_file_of(void *under, H5I_type_t type);
/* Around native's close of an object, in every close callback:
 *     if (!mkt_vol_object_closing(object))
 *         return 0;       (a second close, after one that failed to publish; the wrapper is freed)
 *     return mkt_vol_object_closed(object, native->..._cls.close(object->under, ...));
 * `closing` has the arrays of a file written down before its last object goes. `closed` publishes
 * what native gave up, frees the wrapper and returns 0; if that fails, or native gave up what it
 * couldn't finish, it reports the failure and leaves the wrapper, without `under`, for HDF5's
 * second close. */
bool mkt_vol_object_closing(struct mkt_vol_object *object);
herr_t mkt_vol_object_closed(struct mkt_vol_object *object, herr_t native_result);
/* Negative, with native's reason, for the flush of a single object in a file of the mpio driver. */
herr_t mkt_vol_object_may_flush(const struct mkt_vol_object *object);
/* A list like `dxpl` for native calls over memory: a collective one becomes independent.
 * *owned_out: close it afterwards. Negative on failure. */
hid_t mkt_vol_independent_list(hid_t dxpl, bool *owned_out);

/* Wraps a native object; on failure returns NULL and leaves `under` alone. Takes a reference on
 * the file. */
struct mkt_vol_object *mkt_vol_object_wrap(void *under, H5I_type_t type, struct mkt_vol_file *file);
/* Drops the wrapper and its references, not `under`. The last reference to a file's struct ends it.
 */
void mkt_vol_object_free(struct mkt_vol_object *object);

/* ---- dataset.c: the dataset callbacks of the class ---- */
void *mkt_vol_dataset_create(void *object, const H5VL_loc_params_t *loc, const char *name,
                             hid_t lcpl, hid_t type, hid_t space, hid_t dcpl, hid_t dapl,
                             hid_t dxpl, void **request);
void *mkt_vol_dataset_open(void *object, const H5VL_loc_params_t *loc, const char *name, hid_t dapl,
                           hid_t dxpl, void **request);
herr_t mkt_vol_dataset_read(size_t count, void *dataset[], hid_t mem_type[], hid_t mem_space[],
                            hid_t file_space[], hid_t dxpl, void *buffer[], void **request);
herr_t mkt_vol_dataset_write(size_t count, void *dataset[], hid_t mem_type[], hid_t mem_space[],
                             hid_t file_space[], hid_t dxpl, const void *buffer[], void **request);
herr_t mkt_vol_dataset_get(void *dataset, H5VL_dataset_get_args_t *args, hid_t dxpl,
                           void **request);
herr_t mkt_vol_dataset_specific(void *dataset, H5VL_dataset_specific_args_t *args, hid_t dxpl,
                                void **request);
herr_t mkt_vol_dataset_optional(void *dataset, H5VL_optional_args_t *args, hid_t dxpl,
                                void **request);
herr_t mkt_vol_dataset_close(void *dataset, hid_t dxpl, void **request);
/* object_open and wrap_object give birth to datasets as well: attaches the array to a wrapped
 * dataset of a market file. */
herr_t mkt_vol_dataset_attach(struct mkt_vol_object *dataset);
/* Undoes an attach when HDF5 takes a dataset back without closing it (unwrap_object). Frees
 * dataset->dataset; NULL is allowed. */
void mkt_vol_dataset_detach(struct mkt_vol_object *dataset);

/* ---- arrays.c: what of the file is redirected ---- */
struct mkt_vol_arrays *mkt_vol_arrays_create(struct mkt_vol_file *file, const void *index,
                                             uint64_t index_bytes); /* index NULL: a new file */
void mkt_vol_arrays_destroy(struct mkt_vol_arrays *arrays);
/* True once anything was written, created, extended or deleted. */
bool mkt_vol_arrays_changed(const struct mkt_vol_arrays *arrays);
/* Something was unlinked: there is a change to publish (what it ended: unlink.h). */
void mkt_vol_arrays_note_unlink(struct mkt_vol_arrays *arrays);
/* For the commit: the arrays that live (malloc'ed, the caller's) and the group's hash. */
enum mkt_status mkt_vol_arrays_list(struct mkt_vol_arrays *arrays, struct mkt_array **list_out,
                                    uint32_t *count_out, uint64_t *hash_out);
/* H5Ocopy of `source` made native object(s): raw data follows (called by the object callbacks after
 * native's copy). */
herr_t mkt_vol_arrays_copied(struct mkt_vol_object *source_location, const char *source_name,
                             struct mkt_vol_object *target_location, const char *target_name);

/* ---- error.c: HDF5's error stack ---- */
/* Pushes one entry of class "H5Market" with our text; returns -1 so that a caller can `return
 * mkt_vol_fail(...)`. */
herr_t mkt_vol_fail(hid_t major, hid_t minor, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
herr_t mkt_vol_fail_status(const struct mkt_error *error);

#endif
