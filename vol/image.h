/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffer that the core driver works in, through HDF5's file-image callbacks: without a copy on
 * the way in (a reader is lent the version's image, read-only) or out (at the real last close the
 * writer's buffer stays ours). The callbacks also come for handles that HDF5 opens for a look and
 * drops at once; only one that was `mkt_vol_image_opened` is released.
 */
#ifndef MKT_VOL_IMAGE_H
#define MKT_VOL_IMAGE_H

#include "vol/vol.h"

struct mkt_vol_image;

/* `lent` must stay readable until the image is destroyed; NULL: an empty file. Writable: the core
 * driver gets a private copy. `released` is called once, when native has closed the file. NULL: out
 * of memory. */
struct mkt_vol_image *mkt_vol_image_create(const void *lent, size_t lent_bytes, bool writable,
                                           void (*released)(void *context), void *context);
/* For a second open of a file that is open: something for HDF5 to look at before it finds the first
 * by its name. */
struct mkt_vol_image *mkt_vol_image_create_knock(void);
void mkt_vol_image_destroy(struct mkt_vol_image *image);
/* Frees the memory that is kept for the next image. */
void mkt_vol_image_forget(void);

/* Has a file access list open this image; the list must have the core driver. */
herr_t mkt_vol_image_set(struct mkt_vol_image *image, hid_t fapl);
/* Takes the image out of the list again. */
herr_t mkt_vol_image_unset(hid_t fapl);
/* Native opened it. */
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
