/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded: before a program opens a file, the file is saved and goes from memory, if nobody
 * has it open. So every reopening starts from a real file on disk. DIFFERENTIAL_RELOADED names a
 * file that gets a line for each.
 */
#include <dlfcn.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) hid_t H5Fopen(const char *name, unsigned flags, hid_t fapl);

static void take_out_of_memory(const char *name)
{
    char command[4096];

    snprintf(command, sizeof(command),
             "unset LD_PRELOAD; said=$(h5market stat --json '%s' 2>&1) && "
             "case $said in *'\"writer\": {'*|*'\"readers\": '[1-9]*) ;; "
             "*) h5market wait '%s' && h5market rm -q '%s' &&"
             "echo '%s' >>\"$DIFFERENTIAL_RELOADED\" ;; esac >&2",
             name, name, name, name);
    if (system(command) != 0)
        return; /* it isn't in memory */
}

hid_t H5Fopen(const char *name, unsigned flags, hid_t fapl)
{
    static hid_t (*real)(const char *, unsigned, hid_t);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "H5Fopen");
    take_out_of_memory(name);
    return real(name, flags, fapl);
}
