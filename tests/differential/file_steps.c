/* SPDX-License-Identifier: BSD-3-Clause */
/* Files: creating, opening, flushing, closing. */
#include "differential.h"

static hid_t list_file_access(void)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);

    H5Pset_fclose_degree(list, chance(4) ? H5F_CLOSE_STRONG : world_degree());
    if (chance(30)) {
        say(" latest");
        H5Pset_libver_bounds(list, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    }
    return list;
}

static hid_t list_file_create(void)
{
    hid_t list = H5Pcreate(H5P_FILE_CREATE);

    if (chance(20)) {
        say(" ordered");
        H5Pset_link_creation_order(list, H5P_CRT_ORDER_TRACKED);
    }
    if (chance(5)) {
        say(" user block");
        H5Pset_userblock(list, 512);
    } else if (chance(10)) { /* with a user block it may fail, and leave an empty file natively */
        unsigned strategy = pick(4);
        say(" strategy %u", strategy);
        H5Pset_file_space_strategy(list, (H5F_fspace_strategy_t)strategy, chance(30), 1);
    }
    return list;
}

/* What references name, so that it is never deleted. */
static void create_kept(hid_t file)
{
    hid_t space = H5Screate(H5S_SCALAR);
    static const char *groups[] = {"k0", "k1"};

    for (int g = 0; g < 2; g++)
        H5Gclose(H5Gcreate2(file, groups[g], H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Dclose(H5Dcreate2(file, "k2", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
}

void step_create_file(void)
{
    bool exclusive = chance(30);

    say(exclusive ? "create file exclusively" : "create file");
    const char *name = name_file();
    hid_t creation = list_file_create(), access = list_file_access();
    hid_t file = H5Fcreate(name, exclusive ? H5F_ACC_EXCL : H5F_ACC_TRUNC, creation, access);
    if (said(file))
        create_kept(file);
    world_put(FILES, file);
    H5Pclose(access);
    H5Pclose(creation);
}

static void open_file(void)
{
    bool write = chance(70);

    say(write ? "open file to write" : "open file to read");
    const char *name = name_file();
    hid_t access = list_file_access();
    hid_t file = H5Fopen(name, write ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access);
    said(file);
    world_put(FILES, file);
    H5Pclose(access);
}

void step_open_or_create_file(void)
{
    if (chance(75))
        open_file();
    else
        step_create_file();
}

static void ask_file(void)
{
    char name[64] = "";
    unsigned intent = 99;

    say("ask file");
    hid_t file = world_pick(FILES);
    if (file < 0)
        return;
    H5Fget_name(file, name, sizeof name);
    H5Fget_intent(file, &intent);
    say(" %s intent %u", name, intent);
    world_say_counts(file);
    hid_t list = H5Fget_create_plist(file);
    hsize_t block = 0;
    unsigned order = 0;
    H5Pget_userblock(list, &block);
    H5Pget_link_creation_order(list, &order);
    say(" block %llu order %u", (unsigned long long)block, order);
    H5Pclose(list);
    list = H5Fget_access_plist(file);
    H5F_libver_t low = 0, high = 0;
    H5F_close_degree_t degree = 0;
    H5Pget_libver_bounds(list, &low, &high);
    H5Pget_fclose_degree(list, &degree);
    say(" bounds %d %d degree %d", low, high, degree);
    H5Pclose(list);
}

static void reopen_file(void)
{
    say("reopen");
    hid_t file = world_pick(FILES);
    if (file < 0)
        return;
    hid_t again = H5Freopen(file);
    said(again);
    world_put(FILES, again);
}

void step_file(bool may_create)
{
    unsigned way = pick(20);

    if (may_create && way < 4)
        step_create_file();
    else if (way < 11)
        open_file();
    else if (way < 13)
        reopen_file();
    else if (way < 15 && world_is_empty()) {
        say("delete file");
        said(H5Fdelete(name_file(), H5P_DEFAULT));
    } else if (way < 17) {
        say("accessible");
        say(" %d", H5Fis_accessible(name_file(), H5P_DEFAULT));
    } else {
        ask_file();
    }
}

/* The child may be opened for it. */
static hid_t pick_child(hid_t parent)
{
    hid_t child = world_pick(FILES);
    unsigned long one = 0, other = 0;

    H5Fget_fileno(parent, &one);
    H5Fget_fileno(child, &other);
    if (one != other)
        return child;
    const char *name = name_file();
    hid_t access = list_file_access();
    child = H5Fopen(name, chance(70) ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access);
    H5Pclose(access);
    said(child);
    return child;
}

/* A file's contents appear in a group of another. */
void step_mount(void)
{
    bool mount = chance(65);

    say(mount ? "mount" : "unmount");
    hid_t parent = world_pick(FILES);
    if (parent < 0)
        return;
    hid_t child = mount ? pick_child(parent) : H5I_INVALID_HID;
    const char *name = chance(70) ? "k0" : name_group();
    say(" at %s", name);
    said(mount ? H5Fmount(parent, name, child, H5P_DEFAULT) : H5Funmount(parent, name));
    if (mount && child >= 0 && !world_holds(FILES, child))
        world_put(FILES, child);
}

void step_flush(void)
{
    say("flush");
    hid_t object = chance(60) ? world_pick(FILES) : world_object();
    if (object >= 0)
        said(H5Fflush(object, chance(50) ? H5F_SCOPE_LOCAL : H5F_SCOPE_GLOBAL));
}

void step_dump(void)
{
    say("dump");
    hid_t file = world_pick(FILES);
    if (file >= 0)
        dump_file(file);
}
