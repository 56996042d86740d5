/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/entry/caller.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define OLDEST_MAJOR 1
#define OLDEST_MINOR 14

/* The object that holds an address; its name as the dynamic linker knows it. */
struct object {
    const void *address;
    const void *base;
    char name[PATH_MAX];
};

static const void *base_of(const void *address)
{
    Dl_info info;
    return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* A handle to an object that is loaded already. The program's own name is empty. */
static void *handle_of(const char *name)
{
    return dlopen(name[0] ? name : NULL, RTLD_NOLOAD | RTLD_LAZY);
}

/* The object's own definition: dlsym would also find one of its dependencies. */
static bool defines(void *handle, const void *base, const char *symbol)
{
    return base_of(dlsym(handle, symbol)) == base;
}

static int match_address(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct object *object = context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        ElfW(Addr) from = info->dlpi_addr + segment->p_vaddr;
        ElfW(Addr) address = (ElfW(Addr))object->address;
        if (segment->p_type != PT_LOAD || address < from || address - from >= segment->p_memsz)
            continue;
        object->base = base_of(object->address);
        snprintf(object->name, sizeof(object->name), "%s", info->dlpi_name ? info->dlpi_name : "");
        return 1;
    }
    return 0;
}

/* The first loaded object that itself defines H5open: for a caller that isn't libhdf5 (a program
 * that asks the plugin directly). Handles are taken after the walk, since it holds the linker's
 * lock. */
struct names {
    unsigned count;
    char name[64][PATH_MAX];
};

static int collect_name(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct names *names = context;
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    const char *leaf = strrchr(name, '/');
    leaf = leaf ? leaf + 1 : name;
    if (names->count < 64 && strncmp(leaf, "libhdf5", 7) == 0)
        snprintf(names->name[names->count++], PATH_MAX, "%s", name);
    return 0;
}

static bool find_by_symbol(struct object *object)
{
    static struct names names; /* under HDF5's global lock; too large for a stack */
    names.count = 0;
    dl_iterate_phdr(collect_name, &names);
    for (unsigned i = 0; i < names.count; i++) {
        void *handle = handle_of(names.name[i]);
        if (!handle)
            continue;
        const void *found = dlsym(handle, "H5open");
        dlclose(handle);
        if (found) {
            object->address = found;
            return dl_iterate_phdr(match_address, object) != 0;
        }
    }
    return false;
}

/* serial, openmpi, mpich, or NULL for an MPI that we don't know. */
static const char *flavour_of(void *handle)
{
    if (!dlsym(handle, "H5Pset_fapl_mpio"))
        return "serial";
    if (dlsym(handle, "ompi_mpi_comm_world") || dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world"))
        return "openmpi";
    int (*library_version)(char *, int *) = NULL;
    *(void **)&library_version = dlsym(handle, "MPI_Get_library_version");
    if (!library_version)
        *(void **)&library_version = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    static char text[16384]; /* MPI_MAX_LIBRARY_VERSION_STRING is at most 8192 */
    int length = 0;
    if (!library_version || library_version(text, &length) != 0)
        return NULL;
    /* All of one binary interface. */
    static const char *const mpich_family[] = {"MPICH", "Intel(R) MPI", "MVAPICH", "CRAY"};
    for (unsigned i = 0; i < sizeof(mpich_family) / sizeof(mpich_family[0]); i++)
        if (strstr(text, mpich_family[i]))
            return "mpich";
    return NULL;
}

/* From the text "HDF5 library version: 1.14.5" where it shows that; a call of HDF5's would clear
 * its error stack. */
static bool read_version(void *handle, unsigned version[3])
{
    const char *text = dlsym(handle, "H5_lib_vers_info_g");
    if (text &&
        sscanf(text, "HDF5 library version: %u.%u.%u", &version[0], &version[1], &version[2]) >= 2)
        return true;
    int (*get)(unsigned *, unsigned *, unsigned *) = NULL;
    *(void **)&get = dlsym(handle, "H5get_libversion");
    return get && get(&version[0], &version[1], &version[2]) >= 0;
}

static bool check(void *handle, struct mkt_caller *caller, char *reason, size_t capacity)
{
    const char *shown = caller->path[0] ? caller->path : "the program itself";
    if (!read_version(handle, caller->version)) {
        snprintf(reason, capacity, "%s does not tell its HDF5 version; use HDF5 %u.%u or newer",
                 shown, OLDEST_MAJOR, OLDEST_MINOR);
        return false;
    }
    if (caller->version[0] < OLDEST_MAJOR ||
        (caller->version[0] == OLDEST_MAJOR && caller->version[1] < OLDEST_MINOR)) {
        snprintf(reason, capacity, "HDF5 %u.%u.%u (%s) is too old; use HDF5 %u.%u or newer",
                 caller->version[0], caller->version[1], caller->version[2], shown, OLDEST_MAJOR,
                 OLDEST_MINOR);
        return false;
    }
    caller->flavour = flavour_of(handle);
    if (!caller->flavour) {
        snprintf(
            reason, capacity,
            "%s is a parallel HDF5 over an MPI that is neither Open MPI nor of MPICH's family; use "
            "one of these",
            shown);
        return false;
    }
    /* Another libhdf5 that was in the global scope before: the connector would bind to that one. */
    const void *bound = base_of(dlsym(RTLD_DEFAULT, "H5VLfile_open"));
    if (bound != caller->base) {
        Dl_info other;
        const char *other_name =
            dladdr(dlsym(RTLD_DEFAULT, "H5open"), &other) ? other.dli_fname : "?";
        snprintf(reason, capacity,
                 "two HDF5 libraries are in this process, %s and %s, and the connector can't be "
                 "bound to "
                 "the first; let all parts of the program use one libhdf5",
                 shown, other_name);
        return false;
    }
    return true;
}

bool mkt_caller_find(const void *address, struct mkt_caller *caller_out, char *reason,
                     size_t capacity)
{
    static struct object object; /* under HDF5's global lock */
    memset(caller_out, 0, sizeof(*caller_out));
    memset(&object, 0, sizeof(object));
    object.address = address;
    bool found = dl_iterate_phdr(match_address, &object) != 0;
    void *handle = found ? handle_of(object.name) : NULL;
    if (!handle || !defines(handle, object.base, "H5open")) {
        bool is_program = found && object.name[0] == '\0';
        if (handle)
            dlclose(handle);
        handle = NULL;
        if (find_by_symbol(&object))
            handle = handle_of(object.name);
        if (!handle) {
            snprintf(reason, capacity,
                     is_program ? "HDF5 is linked into the program statically and shows no "
                                  "symbols; link it with "
                                  "-rdynamic, or with the shared libhdf5"
                                : "no libhdf5 found in this process; use a shared libhdf5");
            return false;
        }
    }
    caller_out->base = object.base;
    snprintf(caller_out->path, sizeof(caller_out->path), "%s", object.name);
    /* Python and others load it privately. The handle stays: so does the library. */
    dlopen(object.name[0] ? object.name : NULL, RTLD_NOLOAD | RTLD_GLOBAL | RTLD_LAZY);
    return check(handle, caller_out, reason, capacity);
}
