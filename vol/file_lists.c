/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/file_lists.h"

/* The core driver grows its memory to multiples of this. image.c grows in larger steps, so that the
 * image ends where the file does. */
#define CORE_INCREMENT 1

/* Drivers have no name to ask for: one whose list has the same driver as a list with sec2. */
static bool is_sec2(hid_t driver)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    if (list < 0)
        return false;
    bool same = H5Pset_fapl_sec2(list) >= 0 && H5Pget_driver(list) == driver;
    H5Pclose(list);
    return same;
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

enum mkt_vol_driver mkt_vol_list_driver(hid_t fapl)
{
    hid_t driver = H5Pget_driver(fapl);
    if (is_sec2(driver))
        return MKT_VOL_DRIVER_SEC2;
    return has_mpi(driver) ? MKT_VOL_DRIVER_MPIO : MKT_VOL_DRIVER_OTHER;
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
/* Memory is each rank's own: nothing about it is collective. And mpio's default close degree isn't
 * core's. */
static herr_t from_mpio(hid_t list)
{
    H5F_close_degree_t degree = H5F_CLOSE_DEFAULT;
    if (H5Pset_all_coll_metadata_ops(list, false) < 0 ||
        H5Pset_coll_metadata_write(list, false) < 0 || H5Pget_fclose_degree(list, &degree) < 0)
        return -1;
    return degree == H5F_CLOSE_DEFAULT ? H5Pset_fclose_degree(list, H5F_CLOSE_SEMI) : 0;
}
#endif

hid_t mkt_vol_list_core(hid_t fapl, enum mkt_vol_driver driver)
{
    hid_t list = mkt_vol_list_native(fapl);
    if (list < 0)
        return list;
#if MKT_VOL_MPI
    if (driver == MKT_VOL_DRIVER_MPIO && from_mpio(list) < 0)
        goto err_list;
#else
    (void)driver;
#endif
    if (H5Pset_fapl_core(list, CORE_INCREMENT, false) < 0)
        goto err_list;
    return list;

err_list:
    H5Pclose(list);
    return H5I_INVALID_HID;
}

herr_t mkt_vol_list_restore(hid_t fapl, const struct mkt_vol_file *file)
{
    if (file->state->driver == MKT_VOL_DRIVER_SEC2)
        return H5Pset_fapl_sec2(fapl);
    return mkt_vol_group_set_list(&file->state->group, fapl);
}
