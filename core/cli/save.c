/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing HDF5 files takes HDF5, so this only hands over to the program that has it. */
#include "core/cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

int mkt_cli_save(int argc, char **argv)
{
    char program[PATH_MAX];
    (void)argc;
    if (!mkt_cli_installed("lib/h5market/h5market-save", program, sizeof(program))) {
        mkt_cli_complain(
            "%s is missing: this H5Market was built without a libhdf5 to link; build it "
            "again with HDF5_ROOT set",
            program);
        return MKT_CLI_FAILED;
    }
    fflush(NULL);
    execv(program, argv);
    mkt_cli_complain("can't run %s: %s", program, strerror(errno));
    return MKT_CLI_FAILED;
}
