/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/file_lists.h"

#include <string.h>

#include "vol/error.h"

/* Drivers have no name to ask for: sec2 is what a list with sec2 has. Asked once in the library's
 * life. */
static hid_t sec2_driver = H5I_INVALID_HID;

/* What a program may have changed in the default list: 1.14 lets it. H5Pequal would take as long as
 * making the list anew; what it would notice beyond these only tunes. */
struct traits {
    H5F_libver_t low, high;
    H5F_close_degree_t degree;
};

/* What mkt_vol_list_image makes of the default list, kept from file to file: making it takes as
 * long as a message to the daemon. */
static struct {
    hid_t list; /* H5I_INVALID_HID: none */
    struct traits traits;
} kept = {.list = H5I_INVALID_HID};

static bool traits_read(hid_t fapl, struct traits *traits_out)
{
    struct traits traits;
    memset(&traits, 0, sizeof(traits)); /* for memcmp */
    bool read = H5Pget_libver_bounds(fapl, &traits.low, &traits.high) >= 0 &&
                H5Pget_fclose_degree(fapl, &traits.degree) >= 0;
    *traits_out = traits;
    return read;
}

static void drop_kept(void)
{
    /* When the library ends, lists may be gone before us. */
    if (kept.list >= 0 && H5Iis_valid(kept.list) > 0)
        H5Pclose(kept.list);
    kept.list = H5I_INVALID_HID;
}

void mkt_vol_lists_forget(void)
{
    sec2_driver = H5I_INVALID_HID;
    drop_kept();
}

static bool is_sec2(hid_t driver)
{
    if (sec2_driver >= 0)
        return driver == sec2_driver;
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    if (list < 0)
        return false;
    if (H5Pset_fapl_sec2(list) >= 0)
        sec2_driver = H5Pget_driver(list);
    H5Pclose(list);
    return driver == sec2_driver;
}

/* mpio, or another driver over MPI: that one has no communicator to give and is passed through. */
static bool has_mpi(hid_t driver)
{
#if MKT_VOL_MPI
    unsigned long flags = 0;
    return H5FDdriver_query(driver, &flags) >= 0 && (flags & H5FD_FEAT_HAS_MPI);
#else
    (void)driver;
    return false;
#endif
}

/* What native refuses, or not, over MPI; it wouldn't over memory. */
static bool asks_more_than_mpio_can(hid_t fapl)
{
    size_t page_buffer = 0;
    unsigned metadata = 0, raw = 0;
    hbool_t evict = false;
    H5Pget_page_buffer_size(fapl, &page_buffer, &metadata, &raw);
    H5Pget_evict_on_close(fapl, &evict);
    return page_buffer > 0 || evict;
}

enum mkt_vol_driver mkt_vol_list_driver(hid_t fapl)
{
    hid_t driver = H5Pget_driver(fapl);
    if (is_sec2(driver))
        return MKT_VOL_DRIVER_SEC2;
    return has_mpi(driver) && !asks_more_than_mpio_can(fapl) ? MKT_VOL_DRIVER_MPIO
                                                             : MKT_VOL_DRIVER_OTHER;
}

hid_t mkt_vol_list_native(hid_t fapl)
{
    hid_t list = H5Pcopy(fapl);
    if (list >= 0 && H5Pset_vol(list, mkt_vol_native_id(), NULL) < 0) {
        H5Pclose(list);
        return H5I_INVALID_HID;
    }
    return list;
}

#if MKT_VOL_MPI
static herr_t read_collective(hid_t fapl, hbool_t *all_out, hbool_t *write_out)
{
    return H5Pget_all_coll_metadata_ops(fapl, all_out) < 0 ||
                   H5Pget_coll_metadata_write(fapl, write_out) < 0
               ? -1
               : 0;
}

/* Memory is each rank's own: nothing about it is collective. True if the list says so already. */
static bool is_independent(hid_t fapl)
{
    hbool_t all = true, write = true;
    return read_collective(fapl, &all, &write) >= 0 && !all && !write;
}

static herr_t make_independent(hid_t list)
{
    return H5Pset_all_coll_metadata_ops(list, false) < 0 ||
                   H5Pset_coll_metadata_write(list, false) < 0
               ? -1
               : 0;
}
#else
static bool is_independent(hid_t fapl)
{
    (void)fapl;
    return true;
}

static herr_t make_independent(hid_t list)
{
    (void)list;
    return 0;
}
#endif

static herr_t set_image_driver(hid_t list, enum mkt_vol_driver driver)
{
    return mkt_vol_image_set_driver(list, driver == MKT_VOL_DRIVER_MPIO ? H5F_CLOSE_SEMI
                                                                        : H5F_CLOSE_WEAK);
}

static hid_t make_list(hid_t fapl, enum mkt_vol_driver driver)
{
    hid_t list = mkt_vol_list_native(fapl);
    if (list < 0)
        return list;
    if ((driver != MKT_VOL_DRIVER_MPIO || make_independent(list) >= 0) &&
        set_image_driver(list, driver) >= 0)
        return list;
    mkt_vol_close_keeping_errors(list);
    return H5I_INVALID_HID;
}

static hid_t keep_list(hid_t fapl, const struct traits *traits)
{
    if (kept.list < 0 || memcmp(traits, &kept.traits, sizeof(*traits)) != 0) {
        drop_kept();
        kept.list = make_list(fapl, MKT_VOL_DRIVER_SEC2);
        kept.traits = *traits;
    }
    return kept.list;
}

/* True if its id is all that the list says of its driver, and nothing else is to be changed in it.
 * (A text without a length is a text: H5Pequal tells it from none.) */
static bool may_lend(hid_t fapl, enum mkt_vol_driver driver)
{
    char text[] = "?";
    return fapl != H5P_FILE_ACCESS_DEFAULT &&
           (driver != MKT_VOL_DRIVER_MPIO || is_independent(fapl)) &&
           H5Pget_driver_config_str(fapl, text, sizeof(text)) == 0 && text[0] == '?';
}

/* Its own driver must live until it has it back. */
static herr_t lend(hid_t fapl, enum mkt_vol_driver driver, struct mkt_vol_list *list_out)
{
    hid_t own = H5Pget_driver(fapl);
    if (own < 0 || H5Iinc_ref(own) < 0)
        return -1;
    if (set_image_driver(fapl, driver) < 0) {
        H5Idec_ref(own);
        return -1;
    }
    *list_out = (struct mkt_vol_list){.id = fapl, .driver = own};
    return 0;
}

herr_t mkt_vol_list_image(hid_t fapl, enum mkt_vol_driver driver, struct mkt_vol_list *list_out)
{
    struct traits traits;
    if (may_lend(fapl, driver))
        return lend(fapl, driver, list_out);
    struct mkt_vol_list list = {.driver = H5I_INVALID_HID};
    if (driver == MKT_VOL_DRIVER_SEC2 && fapl == H5P_FILE_ACCESS_DEFAULT &&
        traits_read(fapl, &traits))
        list.id = keep_list(fapl, &traits);
    else
        list.id = make_list(fapl, driver);
    *list_out = list;
    return list.id < 0 ? -1 : 0;
}

herr_t mkt_vol_list_image_end(const struct mkt_vol_list *list)
{
    if (list->driver >= 0) {
        herr_t result = H5Pset_driver(list->id, list->driver, NULL);
        H5Idec_ref(list->driver);
        return result;
    }
    if (list->id != kept.list)
        H5Pclose(list->id);
    return 0;
}

#if MKT_VOL_MPI
herr_t mkt_vol_list_note(hid_t fapl, struct mkt_vol_file *file)
{
    hbool_t all = false, write = false;
    if (file->state->driver == MKT_VOL_DRIVER_MPIO && read_collective(fapl, &all, &write) < 0)
        return -1;
    file->state->collective_metadata_ops = all;
    file->state->collective_metadata_write = write;
    return 0;
}

herr_t mkt_vol_list_restore(hid_t fapl, const struct mkt_vol_file *file)
{
    const struct mkt_vol_file_state *state = file->state;
    if (state->driver == MKT_VOL_DRIVER_SEC2)
        return H5Pset_fapl_sec2(fapl);
    if (mkt_vol_group_set_list(&state->group, fapl) < 0 ||
        H5Pset_coll_metadata_write(fapl, state->collective_metadata_write) < 0)
        return -1;
    /* Setting it, even to false, says that it was set. */
    return state->collective_metadata_ops ? H5Pset_all_coll_metadata_ops(fapl, true) : 0;
}
#else
herr_t mkt_vol_list_note(hid_t fapl, struct mkt_vol_file *file)
{
    (void)fapl;
    (void)file;
    return 0;
}

herr_t mkt_vol_list_restore(hid_t fapl, const struct mkt_vol_file *file)
{
    (void)file;
    return H5Pset_fapl_sec2(fapl);
}
#endif
