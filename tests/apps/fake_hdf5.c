/* SPDX-License-Identifier: BSD-3-Clause */
/* What h5market looks for in a file that has HDF5 in it, and nothing else. */
#ifdef FAKE_SHOWN
#define SHOWN __attribute__((visibility("default")))
#elif defined(__PIC__) && !defined(__PIE__)
#define SHOWN __attribute__((visibility("default"))) /* a library */
#else
#define SHOWN
#endif

SHOWN int H5open(void);
SHOWN extern const char fake_hdf5_version[];
const char fake_hdf5_version[] = "HDF5 library version: " FAKE_VERSION;

int H5open(void)
{
    return fake_hdf5_version[0] == 'H' ? 0 : -1;
}

#if FAKE_PARALLEL
SHOWN int H5Pset_fapl_mpio(void);
int H5Pset_fapl_mpio(void)
{
    return 0;
}
#endif
