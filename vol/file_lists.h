/* SPDX-License-Identifier: BSD-3-Clause */
/* File access lists: what the application set, and what native gets instead. Results are new lists,
 * the caller's to close. */
#ifndef MKT_VOL_FILE_LISTS_H
#define MKT_VOL_FILE_LISTS_H

#include "vol/file_state.h"

/* When the library ends, ids lose their meaning. */
void mkt_vol_lists_forget(void);

/* The driver, if the market takes its files. */
enum mkt_vol_driver mkt_vol_list_driver(hid_t fapl);
/* The same list for the native connector. */
hid_t mkt_vol_list_native(hid_t fapl);
/* For native over memory: the driver of images, and `driver`'s own defaults where they differ. To
 * copy a list (and its communicator) takes longer than all else of an open, so mostly it is the
 * application's own, with another driver until the end: HDF5's lock is held meanwhile. */
struct mkt_vol_list {
    hid_t id;
    hid_t driver; /* to be given back to an application's list; H5I_INVALID_HID: it isn't one */
};
herr_t mkt_vol_list_image(hid_t fapl, enum mkt_vol_driver driver, struct mkt_vol_list *list_out);
/* Negative: an application's list has lost its driver. */
herr_t mkt_vol_list_image_end(const struct mkt_vol_list *list);
/* Keeps what mkt_vol_list_image takes out of the list. */
herr_t mkt_vol_list_note(hid_t fapl, struct mkt_vol_file *file);
/* Turns native's answer into what the application set: its driver again. */
herr_t mkt_vol_list_restore(hid_t fapl, const struct mkt_vol_file *file);

#endif
