/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing HDF5 files takes HDF5, so this only hands over to the program that has it. */
#include "core/cli/cli.h"

int mkt_cli_save(int argc, char **argv)
{
    (void)argc;
    return mkt_cli_become("h5market-save", argv);
}
