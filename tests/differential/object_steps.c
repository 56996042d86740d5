/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups, committed types, links, attributes, references, copies. */
#include <stdio.h>
#include <string.h>

#include "differential.h"

void step_create_group(void)
{
    say("create group");
    hid_t location = world_location();
    if (location < 0)
        return;
    const char *name = name_group();
    hid_t links = list_links(), list = H5Pcreate(H5P_GROUP_CREATE);
    if (chance(30)) {
        say(" ordered");
        H5Pset_link_creation_order(list, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    }
    if (chance(20))
        H5Pset_link_phase_change(list, 1, 0);
    hid_t group = H5Gcreate2(location, name, links, list, H5P_DEFAULT);
    said(group);
    world_put(GROUPS, group);
    H5Pclose(list);
    H5Pclose(links);
}

static void put_object(hid_t object)
{
    H5I_type_t type = H5Iget_type(object);

    say(" type %d", type);
    world_put(type == H5I_DATASET ? DATASETS : type == H5I_GROUP ? GROUPS : TYPES, object);
}

void step_open(void)
{
    unsigned way = pick(10);

    say("open");
    hid_t location = world_location(), id;
    if (location < 0)
        return;
    if (way < 5) {
        id = H5Dopen2(location, name_dataset(), H5P_DEFAULT);
        said(id);
        world_put(DATASETS, id);
    } else if (way < 7) {
        id = H5Gopen2(location, name_group(), H5P_DEFAULT);
        said(id);
        world_put(GROUPS, id);
    } else {
        id = way < 8 ? H5Oopen(location, name_type(), H5P_DEFAULT)
                     : H5Oopen(location, way < 9 ? name_link() : name_any(), H5P_DEFAULT);
        if (said(id))
            put_object(id);
    }
}

void step_commit(void)
{
    say("commit");
    hid_t location = world_location();
    if (location < 0)
        return;
    const char *name = name_type();
    hid_t type = type_random(), links = list_links();
    say(" ");
    type_say(type);
    if (said(H5Tcommit2(location, name, type, links, H5P_DEFAULT, H5P_DEFAULT)))
        world_put(TYPES, type);
    else
        H5Tclose(type);
    H5Pclose(links);
}

/* ---- links ---- */

/* Native fails, but only after it changed metadata, which it then can't write at the close. */
static bool is_writable(hid_t object)
{
    unsigned intent = H5F_ACC_RDONLY;
    hid_t file = H5Iget_file_id(object);

    H5Fget_intent(file, &intent);
    H5Fclose(file);
    return intent & H5F_ACC_RDWR;
}

void step_link(void)
{
    unsigned way = pick(3);

    say(way == 0 ? "hard link" : way == 1 ? "soft link" : "external link");
    hid_t location = world_location(), links = list_links();
    if (location >= 0 && is_writable(location)) {
        const char *name = name_link(), *file = way == 2 ? name_file() : NULL, *target = name_any();
        char path[40];
        snprintf(path, sizeof path, "%s%s", chance(30) ? "/" : "", target);
        if (way == 0)
            said(H5Lcreate_hard(location, path, location, name, links, H5P_DEFAULT));
        else if (way == 1)
            said(H5Lcreate_soft(path, location, name, links, H5P_DEFAULT));
        else
            said(H5Lcreate_external(file, path, location, name, links, H5P_DEFAULT));
    }
    H5Pclose(links);
}

/* What references may name stays where it is. */
static bool is_kept(const char *name)
{
    return name[0] == 'k';
}

void step_move(void)
{
    bool copy = chance(25);

    say(copy ? "copy link" : "move");
    hid_t from = world_location(), to = chance(70) ? from : world_location();
    if (from < 0 || !is_writable(from) || !is_writable(to))
        return;
    const char *name = name_any(), *target = name_any();
    hid_t links = list_links();
    if (!is_kept(name))
        said(copy ? H5Lcopy(from, name, to, target, links, H5P_DEFAULT)
                  : H5Lmove(from, name, to, target, links, H5P_DEFAULT));
    H5Pclose(links);
}

void step_delete(void)
{
    say("delete");
    hid_t location = world_location();
    if (location < 0)
        return;
    const char *name = name_any();
    if (!is_kept(name))
        said(H5Ldelete(location, name, H5P_DEFAULT));
    /* A file whose deleted group gets links natively can't be closed. */
    world_close_kind(GROUPS);
}

void step_copy(void)
{
    static const unsigned flags[] = {
        H5O_COPY_SHALLOW_HIERARCHY_FLAG, H5O_COPY_EXPAND_SOFT_LINK_FLAG,
        H5O_COPY_EXPAND_EXT_LINK_FLAG,   H5O_COPY_EXPAND_REFERENCE_FLAG,
        H5O_COPY_WITHOUT_ATTR_FLAG,      H5O_COPY_MERGE_COMMITTED_DTYPE_FLAG};

    say("copy");
    hid_t from = world_location(), to = chance(40) ? from : world_location();
    if (from < 0 || !is_writable(to))
        return;
    const char *name = name_any(), *target = name_any();
    hid_t links = list_links(), list = H5Pcreate(H5P_OBJECT_COPY);
    unsigned wanted = chance(50) ? 0 : flags[pick(6)] | (chance(30) ? flags[pick(6)] : 0);
    if (wanted)
        say(" flags %x", wanted);
    H5Pset_copy_object(list, wanted);
    /* Of a dataset that is open, with chunks in its cache, native may fail to copy those of an
     * extensible array, or copy wrong ones. */
    world_close_kind(DATASETS);
    H5Fflush(from, H5F_SCOPE_GLOBAL);
    said(H5Ocopy(from, name, to, target, list, links));
    H5Pclose(list);
    H5Pclose(links);
}

/* ---- attributes ---- */

void attribute_read_all(hid_t attribute, hid_t memory_type)
{
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    hid_t native = memory_type >= 0 ? memory_type : H5Tget_native_type(type, H5T_DIR_DEFAULT);
    struct values values;
    hsize_t elements = space_elements(space);

    say(" ");
    type_say(type);
    say(" ");
    space_say(space);
    if (values_create(&values, native, attribute, (size_t)elements)) {
        values_poison(&values);
        if (said(H5Aread(attribute, native, values.bytes))) {
            values_say(&values, false);
            hid_t line = H5Screate_simple(1, &elements, NULL);
            H5Treclaim(native, line, H5P_DEFAULT, values.bytes);
            H5Sclose(line);
        }
        values_destroy(&values);
    }
    if (memory_type < 0)
        H5Tclose(native);
    H5Sclose(space);
    H5Tclose(type);
}

static void attribute_write(hid_t attribute)
{
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    hid_t memory_type = type_for_memory(type);
    struct values values;

    say(" write as ");
    type_say(memory_type);
    if (values_create(&values, memory_type, attribute, (size_t)space_elements(space))) {
        values_fill(&values);
        said(H5Awrite(attribute, memory_type, values.bytes));
        values_destroy(&values);
    }
    H5Tclose(memory_type);
    H5Sclose(space);
    H5Tclose(type);
}

static void attribute_read(hid_t attribute)
{
    hid_t type = H5Aget_type(attribute), memory_type = type_for_memory(type);

    say(" read as ");
    type_say(memory_type);
    attribute_read_all(attribute, memory_type);
    H5Tclose(memory_type);
    H5Tclose(type);
}

static void attribute_create(hid_t object)
{
    const char *name = name_attribute();
    hid_t type = chance(10) ? world_pick(TYPES) : H5I_INVALID_HID;
    type = type < 0 ? type_random() : H5Tcopy(type);
    hid_t space = space_random(false);

    say(" ");
    type_say(type);
    say(" ");
    space_say(space);
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (said(attribute) && (chance(80) || H5Tdetect_class(type, H5T_REFERENCE) > 0))
        attribute_write(attribute);
    world_put(ATTRIBUTES, attribute);
    H5Sclose(space);
    H5Tclose(type);
}

static void attribute_change(hid_t object)
{
    const char *name, *other;
    hid_t attribute;

    switch (pick(5)) {
    case 0:
        say(" rename");
        name = name_attribute();
        other = name_attribute();
        said(H5Arename(object, name, other));
        break;
    case 1:
        say(" delete");
        said(H5Adelete(object, name_attribute()));
        break;
    case 2:
        say(" exists");
        say(" %d", H5Aexists(object, name_attribute()));
        break;
    default:
        attribute = H5Aopen(object, name_attribute(), H5P_DEFAULT);
        said(attribute);
        world_put(ATTRIBUTES, attribute);
    }
}

void step_attribute(void)
{
    unsigned way = pick(10);

    say("attribute");
    if (way < 4) {
        hid_t attribute = world_pick(ATTRIBUTES);
        if (attribute >= 0 && way < 2)
            attribute_write(attribute);
        else if (attribute >= 0)
            attribute_read(attribute);
        return;
    }
    hid_t object = world_object();
    if (object >= 0 && way < 8)
        attribute_create(object);
    else if (object >= 0)
        attribute_change(object);
}

/* ---- looking ---- */

static herr_t say_link(hid_t group, const char *name, const H5L_info2_t *info, void *context)
{
    (void)group;
    (void)context;
    say(" %s:%d", name, info->type);
    return 0;
}

static herr_t say_attribute(hid_t object, const char *name, const H5A_info_t *info, void *context)
{
    (void)object;
    (void)context;
    say(" %s:%llu", name, (unsigned long long)info->data_size);
    return 0;
}

static void look_at_object(hid_t location)
{
    H5O_info2_t info;
    const char *name = name_any();

    if (said(H5Oget_info_by_name3(location, name, &info, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS,
                                  H5P_DEFAULT)))
        say(" type %d links %u attributes %llu", info.type, info.rc,
            (unsigned long long)info.num_attrs);
}

static void look_at_link(hid_t location)
{
    H5L_info2_t info;
    char value[64] = "";
    const char *name = name_link();

    if (!said(H5Lget_info2(location, name, &info, H5P_DEFAULT)))
        return;
    say(" %d", info.type);
    if (info.type == H5L_TYPE_SOFT &&
        H5Lget_val(location, name, value, sizeof value, H5P_DEFAULT) >= 0)
        say(" %s", value);
}

static void look_at_comment(hid_t object)
{
    char text[16] = "";

    if (chance(50)) {
        snprintf(text, sizeof text, "remark %u", pick(100));
        say(" comment %s", text);
        said(H5Oset_comment(object, text));
    } else if (said(H5Oget_comment(object, text, sizeof text))) {
        say(" comment '%s'", text);
    }
}

void step_look(void)
{
    say("look");
    hid_t location = world_location();
    if (location < 0)
        return;
    switch (pick(6)) {
    case 0:
        said(H5Literate2(location, H5_INDEX_NAME, H5_ITER_INC, NULL, say_link, NULL));
        break;
    case 1:
        look_at_object(location);
        break;
    case 2:
        look_at_link(location);
        break;
    case 3:
        say(" exists");
        say(" %d", H5Lexists(location, name_any(), H5P_DEFAULT));
        break;
    case 4:
        look_at_comment(location);
        break;
    default:
        say(" attributes of");
        location = world_object();
        said(H5Aiterate2(location, H5_INDEX_NAME, H5_ITER_INC, NULL, say_attribute, NULL));
    }
}

/* A reference made, and followed at once. */
void step_reference(void)
{
    hobj_ref_t reference;

    say("reference");
    hid_t location = world_location();
    if (location < 0)
        return;
    if (!said(H5Rcreate(&reference, location, name_any(), H5R_OBJECT, H5I_INVALID_HID)))
        return;
    hid_t object = H5Rdereference2(location, H5P_DEFAULT, H5R_OBJECT, &reference);
    if (said(object))
        put_object(object);
}
