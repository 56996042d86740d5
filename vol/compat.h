/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What differs between HDF5's versions and builds, after <hdf5.h>. A connector built against 1.14
 * also runs in 2.x.
 */
#ifndef MKT_VOL_COMPAT_H
#define MKT_VOL_COMPAT_H

#include <hdf5.h>

#include <H5VLconnector.h>
#include <H5VLconnector_passthru.h>
#include <H5VLnative.h>

/* H5F_ACC_* would check the headers' version against the library's and abort on a newer one. */
#undef H5CHECK
#define H5CHECK
/* H5E_* and H5P_* would initialise the library at each use; in a callback it is. */
#undef H5OPEN
#define H5OPEN

#if H5_VERS_MAJOR < 1 || (H5_VERS_MAJOR == 1 && H5_VERS_MINOR < 14)
#error "HDF5 1.14 or newer is needed"
#endif

/* A call context of HDF5's own for what is called from a callback: 1.14 and 2.x have different
 * names for it, and the library that is there at run time decides. */
herr_t mkt_vol_call_context_open(void **context_out);
void mkt_vol_call_context_close(void *context);

#endif
