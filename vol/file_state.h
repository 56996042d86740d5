/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of the market that are open in this process, and when each ends.
 *
 *   open ---- the last object of ours begins to close -----> prepared   (the arrays are listed,
 * native is still whole) prepared - another object of the file is born, changes -> open       (a
 * mount kept native open; listed again later) prepared - native lets go of the image
 * ----------------> released   (inside native's close) released - that close is done
 * -------------------------> published  (the commit; reported by that close)
 *
 * `references` of a file counts wrappers of all kinds; `live` those that HDF5 will close, less
 * those being closed.
 */
#ifndef MKT_VOL_FILE_STATE_H
#define MKT_VOL_FILE_STATE_H

#include <sys/types.h>

#include "core/base/process_number.h"
#include "vol/image.h"
#include "vol/ranks.h"
#include "vol/vol.h"

enum mkt_vol_driver {
    MKT_VOL_DRIVER_OTHER,
    MKT_VOL_DRIVER_SEC2,
    MKT_VOL_DRIVER_MPIO
};

struct mkt_vol_file_state {
    struct mkt_vol_file *file;
    struct mkt_vol_file_state *next;
    char *name;      /* the internal one, by which native's objects tell their file */
    uint64_t serial; /* at its end */
    enum mkt_vol_driver driver;
    struct mkt_vol_group group;
    bool created, entered;
    bool released, settled;
    struct mkt_file_identity
        stand; /* what stood at the path when it was opened, for a second open of it */
    uint8_t object[MKT_ID_BYTES]; /* the market's, for the same once its file takes that place */
    bool may_be_replaced;         /* the archiver puts files there (mode BOTH), or brought it in */
    uint64_t owner;               /* a forked child neither publishes nor releases */
    unsigned live;
    bool prepared;
    enum mkt_status prepare_status;
    struct mkt_array *arrays; /* malloc'ed */
    uint32_t arrays_count;
    uint64_t hash;
    bool publish_at_flush;
    struct mkt_rule rule; /* in force; its texts are the client's */
    bool collective_metadata_ops, collective_metadata_write; /* as set; memory needs neither */
    int disk_fd; /* for H5Fget_vfd_handle; -1: not asked for */
    bool atomic; /* as set by H5Fset_mpi_atomicity: every write is seen at once here anyway */
};

/* False in a child that was forked since. */
static inline bool mkt_vol_file_is_own(const struct mkt_vol_file_state *state)
{
    return state->owner == mkt_process_number();
}
/* Negative in such a child, with an entry of that major number on the error stack: the parent's
 * pieces aren't its to change, nor can it keep them from being given up. */
herr_t mkt_vol_file_refuse_in_child(const struct mkt_vol_file *file, hid_t major);

void mkt_vol_file_get_reference(struct mkt_vol_file *file);
void mkt_vol_file_put_reference(struct mkt_vol_file *file);
/* An object of the file begins to close, or turns out to be native's own / didn't close after all.
 */
void mkt_vol_file_object_gone(struct mkt_vol_file *file);
void mkt_vol_file_object_back(struct mkt_vol_file *file);
/* If this was the last object: lists the arrays. */
void mkt_vol_file_prepare(struct mkt_vol_object *object);
/* Native's close of the object failed. What it has let go of all the same may be half written, and
 * isn't published then. True if that was the object's own file: there is nothing left to close. */
bool mkt_vol_files_fail_released(const struct mkt_vol_object *object);
/* Publishes what native has let go of; negative, with an entry on the error stack, if that failed.
 */
herr_t mkt_vol_files_settle(void);
/* Something was unlinked; in which of the open files isn't known (mounts, soft links): all look. */
void mkt_vol_files_note_unlink(void);
/* True if any file of the market is open here. */
bool mkt_vol_files_any(void);

/* ---- file_table.c, for file.c ---- */
/* A file of the market: takes over client handle and all it is given on success. NULL: out of
 * memory. */
struct mkt_vol_file *mkt_vol_file_create_state(const char *path, enum mkt_vol_driver driver);
/* Enters it into the table once native has it open. `stand`: what is at its path, if known. */
void mkt_vol_file_enter(struct mkt_vol_file *file, const struct mkt_file_identity *stand);
/* The file at the path that this process has open (what its parent opened before a fork is the
 * parent's), by what stands there. NULL: none. */
struct mkt_vol_file *mkt_vol_file_find(const char *path, enum mkt_vol_driver driver);
/* The one that stands for all files passed through. */
struct mkt_vol_file *mkt_vol_file_passed_through(void);
/* Called by the image when native has closed the file. */
void mkt_vol_file_released(void *file);
/* A flush of a file whose rule says `publish: flush`. */
herr_t mkt_vol_file_publish_flushed(struct mkt_vol_object *object);

#endif
