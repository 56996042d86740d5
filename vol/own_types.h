/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HDF5's own types that programs mostly store: numbers of a common size in the byte order of most
 * machines. They can be neither changed nor closed, so their ids alone say what they are, without
 * a question to HDF5. Under HDF5's lock.
 */
#ifndef MKT_VOL_OWN_TYPES_H
#define MKT_VOL_OWN_TYPES_H

#include <hdf5.h>
#include <stdint.h>

/* `number` names the bytes that such a type stores and nothing else, so that it means the same to
 * every process: H5T_NATIVE_LONG and H5T_STD_I64LE have one. 0: none of these. */
struct mkt_vol_own_type {
    uint32_t number, bytes;
};

struct mkt_vol_own_type mkt_vol_own_type(hid_t type);

#endif
