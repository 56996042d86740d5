/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/context.h"

#include "vol/exit_wait.h"
#include "vol/threads.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAITERS_MAX           256
#define DAEMON_FROM_CONNECTOR "../../bin/h5marketd"

/* A connection for one waiting thread, then for the file that it has opened. */
struct waiter {
    struct mkt_client *client;
    bool taken;
};

static struct {
    hid_t native;
    const H5VL_class_t *native_class;
    enum mkt_vol_post_open post_open;
    char accessible[PATH_MAX];
    struct mkt_client *client;
    char config[PATH_MAX]; /* that it was connected with; empty: none */
    struct waiter waiters[WAITERS_MAX];
    char daemon_path[PATH_MAX];
} context = {.native = H5I_INVALID_HID};

hid_t mkt_vol_native_id(void)
{
    return context.native;
}

const H5VL_class_t *mkt_vol_native(void)
{
    return context.native_class;
}

herr_t mkt_vol_context_init(void)
{
    mkt_vol_threads_init();
    context.native = H5VLget_connector_id_by_name(H5VL_NATIVE_NAME);
    if (context.native < 0)
        return -1;
    /* Asked of an object, by the rule; native looks at none. */
    return H5VLintrospect_get_conn_cls(&context, context.native, H5VL_GET_CONN_LVL_TERM,
                                       &context.native_class);
}

void mkt_vol_context_fini(void)
{
    if (context.client && !mkt_client_is_inherited(context.client))
        mkt_vol_exit_wait(context.client);
    /* In a forked child this only frees. */
    mkt_client_destroy(context.client);
    context.client = NULL;
    /* A thread that sleeps still will look at its own. */
    for (int i = 0; i < WAITERS_MAX && !mkt_vol_threads_wait(); i++)
        mkt_client_destroy(context.waiters[i].client);
    memset(context.waiters, 0, sizeof(context.waiters));
    /* When the library ends, the id may be gone before us. */
    if (context.native >= 0 && H5Iis_valid(context.native) > 0)
        H5VLclose(context.native);
    context.native = H5I_INVALID_HID;
}

/* The daemon of this build or installation: relative to the connector, whatever the program's
 * folder is. */
static const char *daemon_path(void)
{
    const char *wanted = getenv("H5MARKET_DAEMON");
    if (wanted && wanted[0])
        return wanted;
    if (context.daemon_path[0])
        return context.daemon_path;
    Dl_info own;
    if (!dladdr((void *)&context, &own))
        return NULL;
    const char *slash = strrchr(own.dli_fname, '/');
    char path[PATH_MAX];
    int length =
        snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash - own.dli_fname + 1) : 0,
                 own.dli_fname, DAEMON_FROM_CONNECTOR);
    if (length < 0 || (size_t)length >= sizeof(path) || !realpath(path, context.daemon_path)) {
        context.daemon_path[0] = '\0';
        return NULL;
    }
    return context.daemon_path;
}

static const char *configuration(const struct mkt_vol_info *info)
{
    if (info && info->config)
        return info->config;
    const char *path = getenv("H5MARKET_CONFIG");
    return path && path[0] ? path : NULL;
}

bool mkt_vol_context_configured(const struct mkt_vol_info *info)
{
    return configuration(info) != NULL;
}

enum mkt_status mkt_vol_context_client(const struct mkt_vol_info *info, bool start,
                                       struct mkt_client **client_out, struct mkt_error *error)
{
    if (info && info->wrong)
        return mkt_error_set(error, MKT_INVALID, "%s", info->wrong);
    /* The parent's is not ours to destroy: files that the parent opened point to it. */
    if (context.client && mkt_client_is_inherited(context.client))
        context.client = NULL;
    if (context.client && mkt_client_is_down(context.client))
        context.client =
            NULL; /* open files keep pointing to it and report the loss; it is leaked once */
    if (!context.client) {
        struct mkt_client_options options = {.config_path = configuration(info)};
        if (start) {
            options.on_demand = true;
            options.daemon_path = daemon_path();
            if (!options.daemon_path)
                return mkt_error_set(
                    error, MKT_IO_ERROR,
                    "h5marketd is not where this connector was built or installed; "
                    "reinstall H5Market, or set H5MARKET_DAEMON to its path");
        }
        enum mkt_status status = mkt_client_connect(&options, &context.client, error);
        if (status != MKT_OK) {
            context.client = NULL;
            return status;
        }
        snprintf(context.config, sizeof(context.config), "%s",
                 options.config_path ? options.config_path : "");
    }
    *client_out = context.client;
    return MKT_OK;
}

/* One that is connected, else an empty one, else NULL. */
static struct waiter *find_free_waiter(void)
{
    struct waiter *found = NULL;
    for (int i = 0; i < WAITERS_MAX; i++) {
        struct waiter *waiter = &context.waiters[i];
        /* A parent's isn't ours to destroy: files that it opened point to it. */
        if (waiter->client && mkt_client_is_inherited(waiter->client))
            *waiter = (struct waiter){.client = NULL};
        if (!waiter->taken && (!found || (waiter->client && !found->client)))
            found = waiter;
    }
    return found;
}

enum mkt_status mkt_vol_context_take_waiter(struct mkt_client **client_out, struct mkt_error *error)
{
    struct waiter *waiter = find_free_waiter();
    if (!waiter)
        return mkt_error_set(error, MKT_BUSY, "%d threads and their files have connections already",
                             WAITERS_MAX);
    if (waiter->client && mkt_client_is_down(waiter->client)) {
        mkt_client_destroy(waiter->client);
        waiter->client = NULL;
    }
    if (!waiter->client) {
        struct mkt_client_options options = {.config_path =
                                                 context.config[0] ? context.config : NULL,
                                             .started_ms = mkt_client_started_ms(context.client)};
        enum mkt_status status = mkt_client_connect(&options, &waiter->client, error);
        if (status != MKT_OK) {
            waiter->client = NULL;
            return status;
        }
    }
    waiter->taken = true;
    *client_out = waiter->client;
    return MKT_OK;
}

void mkt_vol_context_put_waiter(struct mkt_client *client)
{
    if (!client || client == context.client)
        return;
    for (int i = 0; i < WAITERS_MAX; i++)
        if (context.waiters[i].client == client)
            context.waiters[i].taken = false;
}

void mkt_vol_context_set_post_open(enum mkt_vol_post_open kind)
{
    context.post_open = kind;
}

enum mkt_vol_post_open mkt_vol_context_post_open(void)
{
    return context.post_open;
}

bool mkt_vol_context_is_default(void)
{
    hid_t connector = H5I_INVALID_HID;
    int order = 0;
    if (H5Pget_vol_id(H5P_FILE_ACCESS_DEFAULT, &connector) >= 0) {
        H5VLcmp_connector_cls(&order, connector, context.native);
        H5VLclose(connector);
    }
    return order != 0;
}

void mkt_vol_context_set_accessible(const char *path)
{
    snprintf(context.accessible, sizeof(context.accessible), "%s", path);
}

bool mkt_vol_context_take_accessible(const char *path)
{
    bool same = strncmp(context.accessible, path, sizeof(context.accessible) - 1) == 0;
    context.accessible[0] = '\0';
    return same;
}
