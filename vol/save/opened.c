/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/save/opened.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void mkt_opened_be_native(void)
{
    unsetenv("HDF5_VOL_CONNECTOR");
    unsetenv("HDF5_DRIVER");
    unsetenv("HDF5_USE_FILE_LOCKING"); /* the lock is ours already, or none is needed */
}

hid_t mkt_opened_access_list(void)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    if (fapl < 0)
        return fapl;
#ifdef H5F_RFIC_ALL
    H5Pset_relax_file_integrity_checks(fapl, H5F_RFIC_ALL);
#endif
    if (H5Pset_vol(fapl, H5VL_NATIVE, NULL) >= 0 && H5Pset_file_locking(fapl, false, true) >= 0)
        return fapl;
    H5Pclose(fapl);
    return H5I_INVALID_HID;
}

uint64_t mkt_opened_parse_version(const char *argument, struct argp_state *state)
{
    char *end;
    errno = 0;
    uint64_t version = strtoull(argument, &end, 10);
    if (errno || end == argument || *end || argument[0] == '-' || version == 0)
        argp_error(state, "--version takes a number from 1 on, not '%s'", argument);
    return version;
}

error_t mkt_opened_parse_two(int key, char *argument, struct argp_state *state, const char *names,
                             const char **first_out, const char **second_out)
{
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "too many arguments");
        *(state->arg_num ? second_out : first_out) = argument;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 2)
            argp_error(state, "%s are needed", names);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int mkt_opened_complain(const struct mkt_error *error)
{
    fprintf(stderr, "%s: %s\n", program_invocation_name,
            error->text[0] ? error->text : mkt_status_text(error->status));
    return MKT_EXIT_FAILED;
}

/* True if the market has the file at all. */
static bool is_known(struct mkt_client *client, const char *file)
{
    struct mkt_error error;
    char *json = NULL;
    bool known = mkt_client_query(client, MKT_QUERY_STAT, file, &json, &error) == MKT_OK;
    free(json);
    return known;
}

static int explain_missing(struct mkt_client *client, const struct mkt_wanted *wanted,
                           const struct mkt_error *error)
{
    enum mkt_path_kind kind = mkt_path_kind(wanted->file);
    const char *text = "not in the market; `h5market ls` lists what is";
    if (wanted->version && is_known(client, wanted->file)) {
        fprintf(stderr, "%s: %s has no version %llu; `h5market stat` lists those it has\n",
                program_invocation_name, wanted->file, (unsigned long long)wanted->version);
        return MKT_EXIT_NOT_IN_MARKET;
    }
    if (kind == MKT_PATH_FILE)
        text = "an ordinary file and not in the market: it can be used as it is";
    else if (error->text[0] && kind == MKT_PATH_STUB)
        text = error->text;
    fprintf(stderr, "%s: %s: %s\n", program_invocation_name, wanted->file, text);
    return MKT_EXIT_NOT_IN_MARKET;
}

int mkt_opened_find(struct mkt_client *client, const struct mkt_wanted *wanted,
                    struct mkt_opened *opened_out)
{
    struct mkt_error error = {0};
    struct mkt_open request = {.path = wanted->file,
                               .intent = MKT_INTENT_READ,
                               .size = 1,
                               .version = wanted->version,
                               .interrupted = wanted->interrupted};
    enum mkt_status status = mkt_client_open(client, &request, opened_out, &error);
    if (status == MKT_NOT_FOUND || (status == MKT_OK && opened_out->source != MKT_SOURCE_VERSION))
        return explain_missing(client, wanted, &error);
    return status == MKT_OK ? MKT_EXIT_OK : mkt_opened_complain(&error);
}
