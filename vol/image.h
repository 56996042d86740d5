/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What native works in instead of a file: an image in memory, through a file driver of our own. A
 * reader is lent the version's image, read-only; at the real last close a writer's stays ours:
 * there is no copy on the way in or out. For an image the driver touches no file system, and it
 * tells files apart by their images, whatever their names.
 */
#ifndef MKT_VOL_IMAGE_H
#define MKT_VOL_IMAGE_H

#include "vol/vol.h"

struct mkt_vol_image;

/* `lent` must stay readable until the image is destroyed; NULL: an empty file. Writable: native
 * works on a private copy. `released` is called once, when native has closed the file. NULL: out
 * of memory. */
struct mkt_vol_image *mkt_vol_image_create(const void *lent, size_t lent_bytes, bool writable,
                                           void (*released)(void *context), void *context);
/* What native has open still ends when it closes it. */
void mkt_vol_image_destroy(struct mkt_vol_image *image);
/* Ends the driver, and frees the memory that is kept for the next image. */
void mkt_vol_image_forget(void);

/* Gives a file access list the driver; `degree` (weak or semi) is what a list means that names
 * none. */
herr_t mkt_vol_image_set_driver(hid_t fapl, H5F_close_degree_t degree);
/* What the driver opens from now on, whatever the name. NULL: what is on disk under the name, all
 * of it, for a look (HDF5 does so with the sources of a virtual dataset). */
void mkt_vol_image_offer(struct mkt_vol_image *image);
/* Has native open a writable image that is no file of the market: what was lent, else a new file.
 * `fapl` gets native and the driver. Negative on failure. */
hid_t mkt_vol_image_open_alone(struct mkt_vol_image *image, hid_t fapl);
/* Native opened it. (It also opens for a look, and drops it at once: that is no release.) */
void mkt_vol_image_opened(struct mkt_vol_image *image);

/* The bytes up to the end of the file that its superblock states, zeros where native wrote none.
 * NULL: out of memory, or nothing that is an HDF5 file. Valid until destroy. */
const void *mkt_vol_image_content(struct mkt_vol_image *image, size_t *bytes_out);
/* A copy of the content of a file that native has just flushed and keeps open, as if it were
 * closed; malloc'ed, the caller's. NULL as above. */
void *mkt_vol_image_copy_flushed(struct mkt_vol_image *image, size_t *bytes_out);
/* True if the content differs from what was lent. */
bool mkt_vol_image_changed(struct mkt_vol_image *image);

#endif
