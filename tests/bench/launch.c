/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch.h"

#include <stdlib.h>

#ifdef BENCH_MPI
#include <mpi.h>

struct launch launch_init(int *argc, char ***argv)
{
    struct launch launch;

    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &launch.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &launch.size);
    return launch;
}

void launch_fini(void)
{
    MPI_Finalize();
}

void launch_abort(void)
{
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

hid_t launch_create_fapl(void)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);

    if (fapl >= 0 && H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL) < 0)
        return -1;
    return fapl;
}

hid_t launch_create_dxpl(bool collective)
{
    hid_t dxpl = H5Pcreate(H5P_DATASET_XFER);
    H5FD_mpio_xfer_t mode = collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT;

    if (dxpl >= 0 && H5Pset_dxpl_mpio(dxpl, mode) < 0)
        return -1;
    return dxpl;
}

#else

struct launch launch_init(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return (struct launch){.rank = 0, .size = 1};
}

void launch_fini(void)
{
}

void launch_abort(void)
{
    exit(1);
}

hid_t launch_create_fapl(void)
{
    return H5Pcreate(H5P_FILE_ACCESS);
}

hid_t launch_create_dxpl(bool collective)
{
    (void)collective;
    return H5Pcreate(H5P_DATASET_XFER);
}

#endif
