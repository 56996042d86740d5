/* SPDX-License-Identifier: BSD-3-Clause */
/* What the program has open, and the few names that its files, objects and attributes go by. */
#include <stdio.h>

#include "differential.h"

static const char letters[KINDS] = {'f', 'g', 'd', 't', 'a'};
static hid_t slots[KINDS][SLOTS];
static H5F_close_degree_t degree;

void world_start(uint64_t seed)
{
    static const H5F_close_degree_t degrees[] = {H5F_CLOSE_WEAK, H5F_CLOSE_WEAK, H5F_CLOSE_DEFAULT,
                                                 H5F_CLOSE_SEMI, H5F_CLOSE_STRONG};

    for (int kind = 0; kind < KINDS; kind++)
        for (int s = 0; s < SLOTS; s++)
            slots[kind][s] = H5I_INVALID_HID;
    random_start(seed, UINT64_MAX);
    degree = degrees[pick(5)];
}

H5F_close_degree_t world_degree(void)
{
    return degree;
}

hid_t world_pick(enum kind kind)
{
    unsigned first = pick(SLOTS);

    for (unsigned s = 0; s < SLOTS; s++) {
        unsigned at = (first + s) % SLOTS;
        if (slots[kind][at] >= 0) {
            say(" %c%u", letters[kind], at);
            return slots[kind][at];
        }
    }
    say(" no %c", letters[kind]);
    return H5I_INVALID_HID;
}

static herr_t close_id(enum kind kind, hid_t id)
{
    switch (kind) {
    case FILES:
        return H5Fclose(id);
    case GROUPS:
        return H5Gclose(id);
    case DATASETS:
        return H5Dclose(id);
    case TYPES:
        return H5Tclose(id);
    default:
        return H5Aclose(id);
    }
}

static void close_slot(enum kind kind, unsigned at)
{
    say(" close %c%u", letters[kind], at);
    if (said(close_id(kind, slots[kind][at])))
        slots[kind][at] = H5I_INVALID_HID;
}

void world_put(enum kind kind, hid_t id)
{
    unsigned at = pick(SLOTS);

    if (id < 0)
        return;
    if (slots[kind][at] >= 0)
        close_slot(kind, at);
    if (slots[kind][at] >= 0) { /* not to be closed now */
        close_id(kind, id);
        return;
    }
    say(" is %c%u", letters[kind], at);
    slots[kind][at] = id;
}

void world_sweep(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int s = 0; s < SLOTS; s++)
            if (slots[kind][s] >= 0 && H5Iis_valid(slots[kind][s]) <= 0) {
                say(" %c%d gone;", letters[kind], s);
                slots[kind][s] = H5I_INVALID_HID;
            }
}

bool world_is_empty(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int s = 0; s < SLOTS; s++)
            if (slots[kind][s] >= 0)
                return false;
    return true;
}

bool world_holds(enum kind kind, hid_t id)
{
    for (int s = 0; s < SLOTS; s++)
        if (slots[kind][s] == id)
            return true;
    return false;
}

bool world_has(enum kind kind)
{
    for (int s = 0; s < SLOTS; s++)
        if (slots[kind][s] >= 0)
            return true;
    return false;
}

void world_close_one(enum kind kind)
{
    unsigned first = pick(SLOTS);

    for (unsigned s = 0; s < SLOTS; s++)
        if (slots[kind][(first + s) % SLOTS] >= 0) {
            close_slot(kind, (first + s) % SLOTS);
            return;
        }
}

hid_t world_location(void)
{
    bool file = chance(60);
    hid_t id = world_pick(file ? FILES : GROUPS);

    return id >= 0 ? id : world_pick(file ? GROUPS : FILES);
}

hid_t world_object(void)
{
    static const enum kind kinds[] = {DATASETS, GROUPS, FILES, DATASETS, TYPES};
    unsigned first = pick(5);

    for (unsigned k = 0; k < 5; k++) {
        hid_t id = world_pick(kinds[(first + k) % 5]);
        if (id >= 0)
            return id;
    }
    return H5I_INVALID_HID;
}

void world_close_kind(enum kind kind)
{
    for (unsigned s = 0; s < SLOTS; s++)
        if (slots[kind][s] >= 0)
            close_slot(kind, s);
}

/* At exit HDF5 looks, for a file that is open twice, through a list where freed ones still stand.
 */
void world_close_doubles(void)
{
    for (unsigned s = 0; s < SLOTS; s++)
        for (unsigned other = 0; other < s && slots[FILES][s] >= 0; other++) {
            unsigned long one = 0, another = 1;
            H5Fget_fileno(slots[FILES][s], &one);
            if (slots[FILES][other] >= 0 && H5Fget_fileno(slots[FILES][other], &another) >= 0 &&
                one == another) {
                close_slot(FILES, s);
                if (slots[FILES][s] >= 0) { /* its objects first */
                    for (int kind = GROUPS; kind < KINDS; kind++)
                        world_close_kind((enum kind)kind);
                    close_slot(FILES, s);
                }
                break;
            }
        }
    world_sweep();
}

/* Twice: a file that must be closed after its objects is refused the first time. */
void world_close_all(void)
{
    unsigned first = pick(KINDS);

    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned k = 0; k < KINDS; k++)
            for (unsigned s = 0; s < SLOTS; s++) {
                enum kind kind = (enum kind)((first + k) % KINDS);
                if (slots[kind][s] >= 0)
                    close_slot(kind, s);
                world_sweep();
            }
}

void world_say_counts(hid_t file)
{
    static const unsigned kinds[] = {H5F_OBJ_FILE, H5F_OBJ_DATASET, H5F_OBJ_GROUP, H5F_OBJ_DATATYPE,
                                     H5F_OBJ_ATTR};

    say(" counts");
    for (int k = 0; k < 5; k++)
        say(" %d", (int)H5Fget_obj_count(file, kinds[k]));
}

/* ---- names ---- */

static const char *name_of(char letter, unsigned numbers, bool nested)
{
    static char names[4][32];
    static unsigned turn;
    static const char *folders[] = {"", "", "", "g0/", "g1/", "g0/g1/"};
    char *name = names[turn++ % 4];

    snprintf(name, sizeof *names, "%s%c%u", nested ? folders[pick(6)] : "", letter, pick(numbers));
    say(" \"%s\"", name);
    return name;
}

const char *name_dataset(void)
{
    return name_of('d', 4, true);
}

const char *name_group(void)
{
    return name_of('g', 2, true);
}

const char *name_type(void)
{
    return name_of('t', 2, true);
}

const char *name_link(void)
{
    return name_of('l', 3, true);
}

const char *name_any(void)
{
    unsigned way = pick(10);

    if (way == 0)
        return name_of('k', 3, false);
    return way < 6 ? name_dataset() : way < 8 ? name_group() : way < 9 ? name_link() : name_type();
}

const char *name_attribute(void)
{
    return name_of('a', 4, false);
}

const char *name_file(void)
{
    static const char *names[] = {"a.h5", "a.h5", "b.h5", "c.h5"};
    const char *name = names[pick(4)];

    say(" \"%s\"", name);
    return name;
}

hid_t list_links(void)
{
    hid_t list = H5Pcreate(H5P_LINK_CREATE);

    H5Pset_create_intermediate_group(list, !chance(15));
    return list;
}
