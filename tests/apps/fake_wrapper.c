/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that is linked with an HDF5 of its own. */
int H5open(void);
__attribute__((visibility("default"))) int fake_wrapper(void);
int fake_wrapper(void)
{
    return H5open();
}
