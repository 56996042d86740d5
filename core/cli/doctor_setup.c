/* SPDX-License-Identifier: BSD-3-Clause */
/* Is the installation whole, and does the environment lead HDF5 to it? */
#include "core/cli/doctor.h"
#include "core/cli/elf.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLUGIN_FILE "libhdf5_vol_market.so"
#define PLUGIN_DIR  "lib/hdf5/plugin"

const char *mkt_doctor_setup_remedy(void)
{
    static char *text;
    if (!text)
        text = mkt_cli_format("export HDF5_PLUGIN_PATH=%s/" PLUGIN_DIR
                              " HDF5_VOL_CONNECTOR=market, or `h5market run -- CMD`",
                              mkt_cli_prefix());
    return text;
}

bool mkt_doctor_find_plugin(const char *list, char path_out[PATH_MAX])
{
    while (list && *list) {
        int length = (int)strcspn(list, ":");
        if (length && snprintf(path_out, PATH_MAX, "%.*s/" PLUGIN_FILE, length, list) < PATH_MAX &&
            access(path_out, F_OK) == 0)
            return true;
        list += length;
        list += *list == ':';
    }
    return false;
}

/* ---- the installation ---- */

static void list_connectors(struct mkt_doctor *doctor)
{
    glob_t found;
    char names[512] = "";
    char *pattern = mkt_cli_format("%s/lib/h5market/libh5market_vol_*.so", mkt_cli_prefix());
    if (glob(pattern, 0, NULL, &found) != 0) {
        mkt_doctor_say(doctor, MKT_PROBLEM,
                       "install H5Market again, or build it with HDF5_ROOT set",
                       "no connector in %s/lib/h5market", mkt_cli_prefix());
        free(pattern);
        return;
    }
    free(pattern);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *name = strrchr(found.gl_pathv[i], '/') + strlen("/libh5market_vol_");
        size_t used = strlen(names);
        snprintf(names + used, sizeof(names) - used, "%s%.*s", used ? ", " : "",
                 (int)(strlen(name) - strlen(".so")), name);
    }
    globfree(&found);
    mkt_doctor_say(doctor, MKT_FINE, NULL, "H5Market %s in %s, for HDF5 flavours: %s", MKT_VERSION,
                   mkt_cli_prefix(), names);
    doctor->has_plugin = true;
}

void mkt_doctor_installation(struct mkt_doctor *doctor)
{
    static const char *const parts[] = {PLUGIN_DIR "/" PLUGIN_FILE, "bin/h5marketd"};
    char path[PATH_MAX];
    bool whole = true;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (mkt_cli_installed(parts[i], path, sizeof(path)))
            continue;
        mkt_doctor_say(doctor, MKT_PROBLEM, "install H5Market again", "%s is missing", path);
        whole = false;
    }
    if (whole)
        list_connectors(doctor);
}

/* ---- HDF5_VOL_CONNECTOR ---- */

/* True for what was probably meant to be `market`. */
static bool is_misspelt(const char *word, size_t length)
{
    static const char *const near[] = {"markt",
                                       "h5market",
                                       "mkt",
                                       "maket",
                                       "markets",
                                       "vol_market",
                                       "hdf5_vol_market",
                                       "libhdf5_vol_market",
                                       "libhdf5_vol_market.so",
                                       "market.so",
                                       "marekt",
                                       "merket"};
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++)
        if (strlen(near[i]) == length && strncasecmp(word, near[i], length) == 0)
            return true;
    return length == strlen("market") && strncasecmp(word, "market", length) == 0;
}

/* "market,wait=60" and the like: the right word with the wrong end. */
static bool is_glued(const char *word, size_t length)
{
    return length > strlen("market") && strncasecmp(word, "market", strlen("market")) == 0 &&
           strchr(",;:=", word[strlen("market")]);
}

static void check_connector(struct mkt_doctor *doctor)
{
    const char *value = getenv("HDF5_VOL_CONNECTOR");
    if (!value || !value[0]) {
        mkt_doctor_say(
            doctor, MKT_WARNING, mkt_doctor_setup_remedy(),
            "HDF5_VOL_CONNECTOR is not set: programs started from here use ordinary files");
        return;
    }
    const char *word = value + strspn(value, " \t");
    size_t length = strcspn(word, " \t");
    if (length == strlen("market") && strncmp(word, "market", length) == 0) {
        mkt_doctor_say(doctor, MKT_FINE, NULL, "HDF5_VOL_CONNECTOR=%s", value);
        return;
    }
    if (is_misspelt(word, length) || is_glued(word, length))
        mkt_doctor_say(
            doctor, MKT_PROBLEM,
            "export HDF5_VOL_CONNECTOR=market, with options after a space: \"market wait=60\"",
            "HDF5_VOL_CONNECTOR is \"%s\": the connector is called `market`, and HDF5 "
            "silently uses ordinary files when it can't find one",
            value);
    else
        mkt_doctor_say(
            doctor, MKT_PROBLEM, "export HDF5_VOL_CONNECTOR=market",
            "HDF5_VOL_CONNECTOR is \"%s\", another connector: programs started from here don't "
            "use the market",
            value);
}

/* ---- HDF5_PLUGIN_PATH ---- */

static bool is_same_file(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_ino == second.st_ino &&
           first.st_dev == second.st_dev;
}

static void check_plugin_file(struct mkt_doctor *doctor, const char *path)
{
    struct mkt_elf elf;
    char own[PATH_MAX];
    enum mkt_status status = mkt_elf_read(path, &elf);
    if (status != MKT_OK)
        mkt_doctor_say(doctor, MKT_PROBLEM, "make it readable (chmod a+r), its folders too",
                       "%s: %s", path, mkt_status_text(status));
    else if (!elf.is_elf)
        mkt_doctor_say(doctor, MKT_PROBLEM, "install H5Market again, on this kind of machine",
                       "%s is no library for this machine", path);
    else if (mkt_cli_installed(PLUGIN_DIR "/" PLUGIN_FILE, own, sizeof(own)) &&
             !is_same_file(path, own)) {
        doctor->user_plugin_usable = true;
        mkt_doctor_say(doctor, MKT_WARNING,
                       "use one installation: HDF5_PLUGIN_PATH and PATH should name the same one",
                       "HDF5_PLUGIN_PATH leads to %s, another installation than this command's",
                       path);
    } else {
        doctor->user_plugin_usable = true;
        mkt_doctor_say(doctor, MKT_FINE, NULL, "HDF5_PLUGIN_PATH leads to %s", path);
    }
    mkt_elf_fini(&elf);
}

static void check_plugin_path(struct mkt_doctor *doctor)
{
    const char *list = getenv("HDF5_PLUGIN_PATH"), *connector = getenv("HDF5_VOL_CONNECTOR");
    char path[PATH_MAX];
    if (mkt_doctor_find_plugin(list, path)) {
        check_plugin_file(doctor, path);
        return;
    }
    bool wanted = connector && strncmp(connector, "market", strlen("market")) == 0;
    if (list && list[0])
        mkt_doctor_say(doctor, wanted ? MKT_PROBLEM : MKT_WARNING, mkt_doctor_setup_remedy(),
                       "HDF5_PLUGIN_PATH is %s: no " PLUGIN_FILE
                       " there, so HDF5 can't find the connector",
                       list);
    else
        mkt_doctor_say(doctor, wanted ? MKT_PROBLEM : MKT_WARNING, mkt_doctor_setup_remedy(),
                       "HDF5_PLUGIN_PATH is not set, so HDF5 can't find the connector");
}

/* ---- other variables that keep HDF5 from us ---- */

void mkt_doctor_environment(struct mkt_doctor *doctor)
{
    const char *preload = getenv("HDF5_PLUGIN_PRELOAD"), *driver = getenv("HDF5_DRIVER");
    check_connector(doctor);
    check_plugin_path(doctor);
    if (preload && strcmp(preload, "::") == 0)
        mkt_doctor_say(doctor, MKT_PROBLEM, "unset HDF5_PLUGIN_PRELOAD",
                       "HDF5_PLUGIN_PRELOAD is \"::\": HDF5 loads no plugin at all");
    if (driver && driver[0] && strncmp(driver, "sec2", 4) != 0 && strncmp(driver, "mpio", 4) != 0)
        mkt_doctor_say(
            doctor, MKT_WARNING, "unset HDF5_DRIVER",
            "HDF5_DRIVER is \"%s\": only files of the drivers sec2 and mpio go through the "
            "market, others stay the program's own",
            driver);
}
