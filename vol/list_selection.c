/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list's property can't be read from outside of HDF5. But while native transfers with it, it is
 * the selection of native's dataset, which can be asked for. So: a dataset of the extent that holds
 * nothing but a fill value that doesn't fit the memory's type is read, and the conversion's
 * callback, called before anything moves, asks and gives up.
 */
#include "vol/list_selection.h"

#include <sys/mman.h>

#include "vol/error.h"
#include "vol/twin.h"

struct asking {
    struct mkt_vol_twin twin;
    hid_t space;
};

static H5T_conv_ret_t ask(H5T_conv_except_t kind, hid_t from, hid_t to, void *source, void *target,
                          void *context)
{
    struct asking *asking = context;
    H5VL_dataset_get_args_t args = {.op_type = H5VL_DATASET_GET_SPACE};

    (void)kind;
    (void)from;
    (void)to;
    (void)source;
    (void)target;
    if (asking->space < 0 && mkt_vol_native()->dataset_cls.get(asking->twin.dataset, &args,
                                                               H5P_DATASET_XFER_DEFAULT, NULL) >= 0)
        asking->space = args.args.get_space.space_id;
    return H5T_CONV_ABORT;
}

/* `room`: as large as the selection may be, never touched. */
static void read_and_give_up(struct asking *asking, hid_t list, void *room)
{
    hid_t type = H5T_NATIVE_UCHAR, memory = H5S_BLOCK, selection = H5S_PLIST;
    void *context;

    if (mkt_vol_call_context_open(&context) < 0)
        return;
    mkt_vol_native()->dataset_cls.read(1, &asking->twin.dataset, &type, &memory, &selection, list,
                                       &room, NULL);
    mkt_vol_call_context_close(context);
}

static herr_t make_dataset(struct asking *asking, uint32_t rank, const uint64_t *dims)
{
    const signed char too_low = -1;
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    if (dcpl < 0)
        return -1;
    herr_t result = H5Pset_fill_value(dcpl, H5T_NATIVE_SCHAR, &too_low);
    if (result >= 0)
        result = mkt_vol_twin_open(&asking->twin);
    if (result >= 0)
        result = mkt_vol_twin_make(&asking->twin, H5T_NATIVE_SCHAR, rank, dims, dcpl);
    mkt_vol_close_keeping_errors(dcpl);
    return result;
}

static hid_t make_list(hid_t dxpl, struct asking *asking)
{
    bool owned = false;
    hid_t independent = mkt_vol_independent_list(dxpl, &owned);
    hid_t list = independent < 0 ? independent : H5Pcopy(independent);

    if (owned)
        mkt_vol_close_keeping_errors(independent);
    if (list >= 0 &&
        (H5Pset_type_conv_cb(list, ask, asking) < 0 || H5Pset_data_transform(list, "x") < 0)) {
        mkt_vol_close_keeping_errors(list);
        return H5I_INVALID_HID;
    }
    return list;
}

hid_t mkt_vol_list_selection(hid_t dxpl, uint32_t rank, const uint64_t *dims)
{
    struct asking asking = {.twin = MKT_VOL_TWIN_NONE, .space = H5I_INVALID_HID};
    size_t elements = 1;

    for (uint32_t d = 0; d < rank; d++)
        elements *= dims[d];
    void *room = mmap(NULL, elements ? elements : 1, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC,
                            "no memory to find the transfer list's selection");
    hid_t list = make_list(dxpl, &asking);
    if (list >= 0 && make_dataset(&asking, rank, dims) >= 0)
        read_and_give_up(&asking, list, room);
    mkt_vol_twin_close(&asking.twin);
    if (list >= 0)
        mkt_vol_close_keeping_errors(list);
    munmap(room, elements ? elements : 1);
    if (asking.space < 0)
        mkt_vol_fail(H5E_DATASET, H5E_CANTGET,
                     "cannot find the transfer list's selection (H5S_PLIST), or it is empty");
    return asking.space;
}
