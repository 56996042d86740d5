/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything in a file, in the order of names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differential.h"

#define SEEN_MAX  256
#define NAMES_MAX 64
#define DEPTH_MAX 6

struct dump {
    hid_t file;
    H5O_token_t seen[SEEN_MAX];
    unsigned seen_count;
};

struct names {
    char *name[NAMES_MAX];
    unsigned count;
};

static void dump_object(struct dump *dump, hid_t object, int depth);

static herr_t note_link(hid_t group, const char *name, const H5L_info2_t *info, void *context)
{
    struct names *names = context;

    (void)group;
    (void)info;
    if (names->count < NAMES_MAX)
        names->name[names->count++] = strdup(name);
    return 0;
}

static herr_t note_attribute(hid_t object, const char *name, const H5A_info_t *info, void *context)
{
    (void)info;
    return note_link(object, name, NULL, context);
}

static void dump_attributes(hid_t object, int depth)
{
    struct names names = {.count = 0};

    H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, NULL, note_attribute, &names);
    for (unsigned n = 0; n < names.count; n++) {
        say("\n%*s@%s", depth * 2, "", names.name[n]);
        hid_t attribute = H5Aopen(object, names.name[n], H5P_DEFAULT);
        if (said(attribute)) {
            attribute_read_all(attribute, H5I_INVALID_HID);
            H5Aclose(attribute);
        }
        free(names.name[n]);
    }
}

static void say_link_value(hid_t group, const char *name, H5L_type_t type)
{
    char value[128] = "";
    const char *file, *path;

    if (H5Lget_val(group, name, value, sizeof value, H5P_DEFAULT) < 0)
        say(" no value");
    else if (type == H5L_TYPE_SOFT)
        say(" -> %s", value);
    else if (H5Lunpack_elink_val(value, sizeof value, NULL, &file, &path) >= 0)
        say(" -> %s:%s", file, path);
}

static void dump_link(struct dump *dump, hid_t group, const char *name, int depth)
{
    H5L_info2_t info;

    say("\n%*s%s", depth * 2, "", name);
    if (H5Lget_info2(group, name, &info, H5P_DEFAULT) < 0) {
        say(" no link");
        return;
    }
    if (info.type != H5L_TYPE_HARD)
        say_link_value(group, name, info.type);
    hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    if (!said(object))
        return;
    if (info.type == H5L_TYPE_HARD && depth < DEPTH_MAX)
        dump_object(dump, object, depth + 1);
    else
        say(" type %d", H5Iget_type(object));
    H5Oclose(object);
}

static void dump_group(struct dump *dump, hid_t group, int depth)
{
    struct names names = {.count = 0};
    unsigned order = 0, most = 0, least = 0;
    hid_t list = H5Gget_create_plist(group);

    H5Pget_link_creation_order(list, &order);
    H5Pget_link_phase_change(list, &most, &least);
    H5Pclose(list);
    say(" order %u phase %u %u", order, most, least);
    H5Literate2(group, H5_INDEX_NAME, H5_ITER_INC, NULL, note_link, &names);
    for (unsigned n = 0; n < names.count; n++) {
        dump_link(dump, group, names.name[n], depth);
        free(names.name[n]);
    }
}

/* True if the object was dumped before, and says which it was. */
static bool was_seen(struct dump *dump, const H5O_token_t *token)
{
    for (unsigned s = 0; s < dump->seen_count; s++) {
        int order = 1;
        if (H5Otoken_cmp(dump->file, &dump->seen[s], token, &order) >= 0 && order == 0) {
            say(" is object %u", s);
            return true;
        }
    }
    if (dump->seen_count < SEEN_MAX)
        dump->seen[dump->seen_count++] = *token;
    return false;
}

static void dump_object(struct dump *dump, hid_t object, int depth)
{
    H5O_info2_t info;
    char comment[32] = "";

    if (H5Oget_info3(object, &info, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS) < 0) {
        say(" no info");
        return;
    }
    if (was_seen(dump, &info.token))
        return;
    say(" type %d links %u attributes %llu", info.type, info.rc,
        (unsigned long long)info.num_attrs);
    if (H5Oget_comment(object, comment, sizeof comment) > 0)
        say(" comment '%s'", comment);
    if (info.type == H5O_TYPE_DATASET) {
        dataset_describe(object);
        dataset_read_all(object);
    } else if (info.type == H5O_TYPE_NAMED_DATATYPE) {
        say(" ");
        type_say(object);
    }
    dump_attributes(object, depth);
    if (info.type == H5O_TYPE_GROUP)
        dump_group(dump, object, depth);
}

void dump_file(hid_t file)
{
    struct dump dump = {.file = file};
    hid_t root = H5Gopen2(file, "/", H5P_DEFAULT);

    if (!said(root))
        return;
    dump_object(&dump, root, 1);
    H5Gclose(root);
}

void dump_path(const char *path)
{
    say("%s", path);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (said(file)) {
        dump_file(file);
        say("\n");
        said(H5Fclose(file));
    }
    say("\n");
}
