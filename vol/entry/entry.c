/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The object that HDF5 loads as the connector `market`. It has no HDF5 and no MPI symbol of its
 * own: it finds the libhdf5 that called it, whatever that is named and however privately it was
 * loaded, makes its symbols visible, and loads the connector that was built for that flavour
 * (../../h5market/, relative to this object). Where no connector fits, or a second libhdf5 would
 * get into its way, it says so on standard error and HDF5 goes without. Called with HDF5's global
 * lock held; no state but the answer, which is kept.
 */
#include "vol/entry/caller.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MKT_EXPORT    __attribute__((visibility("default")))
#define PLUGIN_IS_VOL 1 /* H5PL_TYPE_VOL */

int H5PLget_plugin_type(void);
const void *H5PLget_plugin_info(void);

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    char line[PATH_MAX + 2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fprintf(stderr, "h5market: %s\n", line);
}

/* The path of the connector for a flavour, beside this object. False if it doesn't fit. */
static bool connector_path(const char *flavour, char *path_out, size_t capacity)
{
    Dl_info own;
    char folder[PATH_MAX];
    if (!dladdr((void *)H5PLget_plugin_type, &own) || strlen(own.dli_fname) >= sizeof(folder))
        return false;
    strcpy(folder, own.dli_fname);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    int length = snprintf(path_out, capacity, "%s/../../h5market/libh5market_vol_%s.so",
                          slash ? folder : ".", flavour);
    return length > 0 && (size_t)length < capacity;
}

static const void *load_connector(const struct mkt_caller *caller)
{
    char path[PATH_MAX];
    if (!connector_path(caller->flavour, path, sizeof(path))) {
        say("the plugin's own path is too long or unknown; install it in a shorter one");
        return NULL;
    }
    void *connector = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!connector) {
        const char *reason = dlerror();
        say("no connector for HDF5 %u.%u.%u, flavour `%s` (%s): %s; build H5Market with this HDF5 "
            "(HDF5_ROOT), or use one of the flavours that it was built for",
            caller->version[0], caller->version[1], caller->version[2], caller->flavour,
            caller->path, reason ? reason : "unknown reason");
        return NULL;
    }
    const void *(*get_class)(void) = (const void *(*)(void))dlsym(connector, "mkt_vol_class");
    if (!get_class) {
        say("%s is not a connector of H5Market; reinstall it", path);
        dlclose(connector);
        return NULL;
    }
    return get_class();
}

MKT_EXPORT int H5PLget_plugin_type(void)
{
    return PLUGIN_IS_VOL;
}

/* HDF5 asks at each search of its plugin folders; the same complaint comes once. */
static const void *refuse(const char *reason)
{
    static char said[sizeof(((struct mkt_caller *)0)->path) + 2048];
    if (strcmp(said, reason) != 0)
        say("%s", reason);
    snprintf(said, sizeof(said), "%s", reason);
    return NULL;
}

MKT_EXPORT const void *H5PLget_plugin_info(void)
{
    static const void *connector;
    static const void *served; /* the libhdf5 that the connector is bound to */
    static const void *failed; /* one that has none */
    static struct mkt_caller caller;
    static char reason[sizeof(caller.path) + 1024];

    if (!mkt_caller_find(__builtin_return_address(0), &caller, reason, sizeof(reason)))
        return refuse(reason);
    if (connector && served == caller.base)
        return connector;
    if (connector) {
        snprintf(reason, sizeof(reason),
                 "a second libhdf5 (%s) in this process asks for the connector, which serves "
                 "another one "
                 "already; let all parts of the program use one libhdf5",
                 caller.path);
        return refuse(reason);
    }
    if (failed == caller.base)
        return NULL;
    connector = load_connector(&caller);
    *(connector ? &served : &failed) = caller.base;
    return connector;
}
