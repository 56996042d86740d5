/* SPDX-License-Identifier: BSD-3-Clause */
/* mkt_config_reference: writes the configuration reference to standard output. */
#include "core/config/config.h"

int main(void)
{
    mkt_config_write_reference(stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
