/* SPDX-License-Identifier: BSD-3-Clause */
/* The market's folder, its daemon, the configuration and the memory. */
#include "core/cli/doctor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NEARLY_FULL_PERCENT 90
#define SHMEM_SETTING       "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

/* "... ; do this" is a cause with its remedy. */
static void say_error(struct mkt_doctor *doctor, const struct mkt_error *error, const char *remedy)
{
    char cause[MKT_ERROR_TEXT_BYTES];
    snprintf(cause, sizeof(cause), "%s",
             error->text[0] ? error->text : mkt_status_text(error->status));
    char *cut = strrchr(cause, ';');
    if (!remedy && cut && cut[1] == ' ') {
        *cut = '\0';
        remedy = cut + 2;
    }
    mkt_doctor_say(doctor, MKT_PROBLEM, remedy ? remedy : "as the message says", "%s", cause);
}

static bool check_folder(struct mkt_doctor *doctor, char path_out[PATH_MAX])
{
    struct mkt_error error = {0};
    struct stat found;
    if (mkt_client_directory(NULL, false, path_out, PATH_MAX, &error) != MKT_OK) {
        say_error(doctor, &error, NULL);
        return false;
    }
    if (stat(path_out, &found) == 0)
        mkt_doctor_say(doctor, MKT_FINE, NULL, "market's folder %s", path_out);
    else
        mkt_doctor_say(doctor, MKT_FINE, NULL, "market's folder %s, made when a daemon starts",
                       path_out);
    return true;
}

static void check_memory(struct mkt_doctor *doctor, const json_t *status)
{
    char used_text[MKT_CLI_SHOWN_BYTES], limit_text[MKT_CLI_SHOWN_BYTES];
    const json_t *memory = json_object_get(status, "memory");
    uint64_t used = mkt_cli_number(memory, "used_bytes");
    uint64_t limit = mkt_cli_number(memory, "limit_bytes");
    uint64_t waiting = mkt_cli_number(status, "waiting_grants");
    mkt_cli_show_size(used, used_text);
    mkt_cli_show_size(limit, limit_text);
    if (waiting || (limit && used >= limit / 100 * NEARLY_FULL_PERCENT))
        mkt_doctor_say(
            doctor, MKT_PROBLEM,
            "`h5market ls` shows what takes it: `h5market save` and `h5market rm` files; keep "
            "fewer "
            "versions (`keep`); or raise `memory` in the h5market.yaml that the daemon starts with",
            "the market is full: %s of %s in use, %" PRIu64 " writes wait for memory", used_text,
            limit_text, waiting);
    else
        mkt_doctor_say(doctor, MKT_FINE, NULL, "memory: %s of %s in use", used_text, limit_text);
}

/* Without huge pages it costs a process tens of milliseconds a GiB to enter the market's pages, and
 * again as many to end. */
static void check_pages(struct mkt_doctor *doctor)
{
    char setting[128] = "";
    FILE *file = fopen(SHMEM_SETTING, "re");
    if (!file)
        return; /* a kernel without them, or no /sys here */
    if (fgets(setting, sizeof(setting), file) &&
        (strstr(setting, "[never]") || strstr(setting, "[deny]")))
        mkt_doctor_say(doctor, MKT_HINT,
                       "as root, before the daemon starts: echo advise >" SHMEM_SETTING
                       " (docs/performance.md, Huge pages)",
                       "the kernel gives shared memory no huge pages: processes that move much "
                       "through the market end a little later than natively");
    fclose(file);
}

static void check_keeper(struct mkt_doctor *doctor, const json_t *status)
{
    char age[MKT_CLI_SHOWN_BYTES];
    uint64_t restarts = mkt_cli_number(status, "restarts");
    if (!json_is_true(json_object_get(status, "has_keeper")))
        mkt_doctor_say(doctor, MKT_WARNING,
                       "save what you need (`h5market save`), then `h5market stop`: the next "
                       "program starts a daemon with a keeper",
                       "the daemon has no keeper: if its process ends, what is in memory is lost");
    if (restarts > 0)
        mkt_doctor_say(doctor, MKT_WARNING,
                       "programs went on, and nothing was lost; if it happens again, send the log",
                       "the daemon's worker died and was replaced %" PRIu64
                       " time%s, the last time by %s, %s ago",
                       restarts, restarts == 1 ? "" : "s", mkt_cli_string(status, "restart_reason"),
                       mkt_cli_show_age(mkt_cli_number(status, "restarted_s") * 1000, age));
}

static void check_status(struct mkt_doctor *doctor)
{
    json_t *status = NULL;
    if (mkt_cli_query(doctor->client, MKT_QUERY_STATUS, NULL, &status) != MKT_CLI_OK) {
        mkt_doctor_say(doctor, MKT_PROBLEM, "`h5market stop`, then try again",
                       "the daemon's answer can't be read");
        return;
    }
    const char *version = mkt_cli_string(status, "version");
    if (strcmp(version, MKT_VERSION) == 0)
        mkt_doctor_say(doctor, MKT_FINE, NULL,
                       "daemon: process %" PRIu64 ", %" PRIu64 " files, %" PRIu64
                       " processes connected, log %s",
                       mkt_cli_number(status, "pid"), mkt_cli_number(status, "objects"),
                       mkt_cli_number(status, "sessions"), mkt_cli_string(status, "log"));
    else
        mkt_doctor_say(doctor, MKT_WARNING, "`h5market stop`: the next program starts this one's",
                       "the daemon (process %" PRIu64 ") is version %s, this command " MKT_VERSION,
                       mkt_cli_number(status, "pid"), version);
    check_memory(doctor, status);
    check_keeper(doctor, status);
    json_decref(status);
}

void mkt_doctor_market(struct mkt_doctor *doctor)
{
    char folder[PATH_MAX];
    struct mkt_client_options options = {0};
    struct mkt_error error = {0};
    const char *config = getenv("H5MARKET_CONFIG");
    if (!check_folder(doctor, folder)) {
        doctor->daemon_unknown = true;
        return;
    }
    check_pages(doctor);
    /* The connection brings the configuration along, and the daemon parses it. */
    enum mkt_status status = mkt_client_connect(&options, &doctor->client, &error);
    if (status == MKT_OK) {
        if (config && config[0])
            mkt_doctor_say(doctor, MKT_FINE, NULL, "configuration %s", config);
        check_status(doctor);
    } else if (status == MKT_NOT_FOUND) {
        doctor->client = NULL;
        mkt_doctor_say(doctor, MKT_WARNING,
                       "none is needed: the first program that writes starts one; `h5market start` "
                       "does now, and in a "
                       "batch script should",
                       "no daemon runs in %s, so the market is empty", folder);
    } else {
        doctor->client = NULL;
        doctor->daemon_unknown = true;
        say_error(doctor, &error,
                  status == MKT_INVALID ? "correct that line; docs/configuration.md lists all keys"
                                        : NULL);
    }
}
