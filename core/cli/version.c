/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/cli.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

static error_t parse(int key, char *argument, struct argp_state *state)
{
    (void)argument;
    return mkt_cli_parse_no_argument(key, state);
}

static const struct argp argp = {
    NULL, parse, NULL, "Shows the version, where it is installed, and the HDF5 flavours it serves.",
    NULL, NULL,  NULL};

int mkt_cli_version(int argc, char **argv)
{
    glob_t found;
    mkt_cli_parse(&argp, 0, argc, argv, NULL);
    printf("h5market %s (protocol %d)\ninstalled in %s\nconnectors for HDF5 flavours:", MKT_VERSION,
           MKT_PROTOCOL_VERSION, mkt_cli_prefix());
    char *pattern = mkt_cli_format("%s/lib/h5market/libh5market_vol_*.so", mkt_cli_prefix());
    bool any = glob(pattern, 0, NULL, &found) == 0;
    free(pattern);
    if (!any) {
        puts(" none");
        return MKT_CLI_OK;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *name = strrchr(found.gl_pathv[i], '/') + strlen("/libh5market_vol_");
        printf(" %.*s", (int)(strlen(name) - strlen(".so")), name);
    }
    putchar('\n');
    globfree(&found);
    return MKT_CLI_OK;
}
