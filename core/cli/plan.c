/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding a dataset takes HDF5, so this only hands over to the program that has it. */
#include "core/cli/cli.h"

int mkt_cli_plan(int argc, char **argv)
{
    (void)argc;
    return mkt_cli_become("h5market-plan", argv);
}
