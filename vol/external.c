/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/external.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vol/callbacks.h"
#include "vol/error.h"
#include "vol/info.h"
#include "vol/threads.h"

#define EXTERNAL_LINK_VERSION 0

static bool registered;
static unsigned failures;
static unsigned depth; /* of external links that lead through external links */

/* A link being followed. */
struct following {
    const char *file_name, *object_name;
    unsigned flags;
    hid_t fapl;  /* ours to close */
    hid_t group; /* where it is */
    char parent[PATH_MAX];
    char prefix[PATH_MAX]; /* of the link access list; may be empty */
};

/* ---- opening candidates ---- */

/* Links open their files so: a file that is open here in another way refuses them. */
static bool closes_weakly(hid_t file)
{
    H5F_close_degree_t degree = H5F_CLOSE_STRONG;
    hid_t fapl = H5Fget_access_plist(file);

    if (fapl >= 0) {
        H5Pget_fclose_degree(fapl, &degree);
        H5Pclose(fapl);
    }
    return degree == H5F_CLOSE_WEAK || degree == H5F_CLOSE_DEFAULT;
}

/* A link into its own file: opened again, it would be flushed when that open is closed, in the
 * middle of a traversal, which native can't. */
static hid_t own_file(const struct following *link, const char *path)
{
    struct stat target, parent;
    unsigned intent = 0;

    if (stat(path, &target) < 0 || stat(link->parent, &parent) < 0 ||
        target.st_dev != parent.st_dev || target.st_ino != parent.st_ino)
        return H5I_INVALID_HID;
    hid_t file = H5Iget_file_id(link->group);
    if (file >= 0 && H5Fget_intent(file, &intent) >= 0 &&
        ((intent ^ link->flags) & H5F_ACC_RDWR) == 0 && closes_weakly(file))
        return file;
    if (file >= 0)
        H5Fclose(file);
    return H5I_INVALID_HID;
}

static hid_t try_file(const struct following *link, const char *path)
{
    hid_t file = own_file(link, path);
    if (file >= 0)
        return file;
    H5E_BEGIN_TRY
    {
        mkt_vol_threads_hold();
        file = H5Fopen(path, link->flags, link->fapl);
        mkt_vol_threads_unhold();
    }
    H5E_END_TRY
    failures += file < 0 && mkt_path_kind(path) == MKT_PATH_STUB;
    return file;
}

static hid_t try_in_folder(const struct following *link, const char *folder, size_t length,
                           const char *name)
{
    char path[PATH_MAX];
    bool needs_slash = length > 0 && folder[length - 1] != '/';
    int written =
        snprintf(path, sizeof(path), "%.*s%s%s", (int)length, folder, needs_slash ? "/" : "", name);
    return written > 0 && (size_t)written < sizeof(path) ? try_file(link, path) : H5I_INVALID_HID;
}

/* The folders of HDF5_EXT_PREFIX, separated by colons. */
static hid_t try_environment(const struct following *link, const char *name)
{
    hid_t file = H5I_INVALID_HID;
    const char *rest = getenv("HDF5_EXT_PREFIX");
    while (rest && *rest && file < 0) {
        size_t length = strcspn(rest, ":");
        if (length)
            file = try_in_folder(link, rest, length, name);
        rest += length + (rest[length] == ':');
    }
    return file;
}

static hid_t try_beside(const struct following *link, const char *parent, const char *name)
{
    const char *slash = strrchr(parent, '/');
    return slash ? try_in_folder(link, parent, (size_t)(slash - parent + 1), name)
                 : H5I_INVALID_HID;
}

/* The order of HDF5's own search (reference manual, H5Lcreate_external). */
static hid_t find_file(const struct following *link)
{
    const char *name = link->file_name;
    hid_t file = H5I_INVALID_HID;
    if (name[0] == '/') {
        file = try_file(link, name);
        name = strrchr(name, '/') + 1;
    }
    if (file < 0)
        file = try_environment(link, name);
    if (file < 0 && link->prefix[0])
        file = try_in_folder(link, link->prefix, strlen(link->prefix), name);
    if (file < 0)
        file = try_beside(link, link->parent, name);
    if (file < 0)
        file = try_file(link, name);
    char resolved[PATH_MAX];
    if (file < 0 && realpath(link->parent, resolved))
        file = try_beside(link, resolved, name);
    return file;
}

/* ---- what the link and its access list say ---- */

static bool decode(struct following *link, const void *data, size_t size)
{
    const char *bytes = data;
    if (size < 3 || ((unsigned char)bytes[0] >> 4) > EXTERNAL_LINK_VERSION ||
        (bytes[0] & 0x0f) != 0)
        return false;
    link->file_name = bytes + 1;
    size_t length = strnlen(link->file_name, size - 1);
    if (length + 2 >= size)
        return false;
    link->object_name = link->file_name + length + 1;
    return strnlen(link->object_name, size - length - 2) < size - length - 2;
}

/* Flags, list and path of the parent, where the link access list has none of its own. */
static bool ask_parent(struct following *link, hid_t group)
{
    hid_t file = H5Iget_file_id(group);
    bool good = file >= 0;
    if (good && link->flags == H5F_ACC_DEFAULT)
        good = H5Fget_intent(file, &link->flags) >= 0;
    if (good && link->fapl == H5P_DEFAULT)
        good = (link->fapl = H5Fget_access_plist(file)) >= 0;
    if (good)
        good = H5Fget_name(file, link->parent, sizeof(link->parent)) >= 0;
    if (file >= 0)
        H5Fclose(file);
    return good;
}

/* The application's own callback may change the flags and the list. */
static bool ask_callback(struct following *link, hid_t group, hid_t lapl)
{
    H5L_elink_traverse_t function = NULL;
    void *data = NULL;
    if (H5Pget_elink_cb(lapl, &function, &data) < 0)
        return false;
    if (!function)
        return true;
    ssize_t length = H5Iget_name(group, NULL, 0);
    char *name = length < 0 ? NULL : malloc((size_t)length + 1);
    bool good = name && H5Iget_name(group, name, (size_t)length + 1) >= 0 &&
                function(link->parent, name, link->file_name, link->object_name, &link->flags,
                         link->fapl, data) >= 0;
    free(name);
    if (good && (link->flags & (H5F_ACC_TRUNC | H5F_ACC_EXCL)))
        good = false;
    return good;
}

static bool is_ours(hid_t connector)
{
    hid_t own = H5VLget_connector_id_by_name(MKT_VOL_NAME);
    int order = 1;
    if (own < 0)
        return false;
    H5VLcmp_connector_cls(&order, connector, own);
    H5VLclose(own);
    return order == 0;
}

/* The user's `wait` and `version` are for the files that the program names: a candidate of the
 * search is there, or the next one is tried. */
static bool wait_for_none(hid_t fapl)
{
    hid_t connector = H5I_INVALID_HID;
    void *given = NULL;
    struct mkt_vol_info info = {.wait_ms = 0};
    if (H5Pget_vol_id(fapl, &connector) < 0)
        return false;
    bool good = true;
    if (is_ours(connector)) {
        good = H5Pget_vol_info(fapl, &given) >= 0;
        if (given)
            info.config = ((struct mkt_vol_info *)given)->config;
        good = good && H5Pset_vol(fapl, connector, &info) >= 0;
        mkt_vol_info_free(given);
    }
    H5VLclose(connector);
    return good;
}

/* HDF5 counts the links of one traversal; one that we begin for it starts from zero again. */
static bool too_deep(hid_t lapl)
{
    size_t most = 0;

    return H5Pget_nlinks(lapl, &most) < 0 || depth >= most;
}

static hid_t follow(const char *name, hid_t group, const void *data, size_t size, hid_t lapl,
                    hid_t dxpl)
{
    (void)name;
    (void)dxpl;
    struct following link = {.flags = H5F_ACC_DEFAULT, .fapl = H5P_DEFAULT, .group = group};
    hid_t object = H5I_INVALID_HID, file = H5I_INVALID_HID;
    struct mkt_vol_silence silence;
    if (!decode(&link, data, size)) {
        mkt_vol_fail(H5E_LINK, H5E_CANTDECODE, "an external link that can't be decoded");
        return H5I_INVALID_HID;
    }
    if (too_deep(lapl)) {
        mkt_vol_fail(H5E_LINK, H5E_NLINKS, "too many links");
        return H5I_INVALID_HID;
    }
    if (H5Pget_elink_acc_flags(lapl, &link.flags) < 0 ||
        (link.fapl = H5Pget_elink_fapl(lapl)) < 0 ||
        H5Pget_elink_prefix(lapl, link.prefix, sizeof(link.prefix)) < 0 ||
        !ask_parent(&link, group) || !ask_callback(&link, group, lapl))
        goto out;
    link.flags &= H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE | H5F_ACC_SWMR_READ;
    if (H5Pset_fclose_degree(link.fapl, H5F_CLOSE_WEAK) < 0 || !wait_for_none(link.fapl))
        goto out;
    file = find_file(&link);
    if (file < 0) {
        mkt_vol_fail(H5E_LINK, H5E_CANTOPENFILE,
                     "unable to open external file, external link file name = '%s'",
                     link.file_name);
        goto out;
    }
    depth++;
    mkt_vol_silence_begin(&silence);
    object = H5Oopen(file, link.object_name, H5P_DEFAULT);
    mkt_vol_silence_end(&silence);
    depth--;
    /* Weakly closed: the object keeps it open. */
    mkt_vol_close_keeping_errors(file);

out:
    if (link.fapl > 0)
        mkt_vol_close_keeping_errors(link.fapl);
    return object;
}

static ssize_t query(const char *name, const void *data, size_t size, void *buffer, size_t capacity)
{
    (void)name;
    if (buffer)
        memcpy(buffer, data, size < capacity ? size : capacity);
    return (ssize_t)size;
}

void mkt_vol_external_register(void)
{
    static const H5L_class_t link_class = {.version = H5L_LINK_CLASS_T_VERS,
                                           .id = H5L_TYPE_EXTERNAL,
                                           .comment = "external_link",
                                           .trav_func = follow,
                                           .query_func = query};
    if (!registered)
        registered = H5Lregister(&link_class) >= 0;
}

bool mkt_vol_external_registered(void)
{
    return registered;
}

unsigned mkt_vol_external_failures(void)
{
    return failures;
}

void mkt_vol_external_forget(void)
{
    registered = false;
}
