/* SPDX-License-Identifier: BSD-3-Clause */
/* Which HDF5 a program would use, found out from its files. */
#include "core/cli/doctor.h"
#include "core/cli/libraries.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLDEST_MINOR 14

/* ---- which file ---- */

static bool is_program(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode) && access(path, X_OK) == 0;
}

static bool find_program(const char *name, char path_out[PATH_MAX])
{
    if (strchr(name, '/')) {
        snprintf(path_out, PATH_MAX, "%s", name);
        return is_program(path_out);
    }
    for (const char *list = getenv("PATH"); list && *list;) {
        int length = (int)strcspn(list, ":");
        if (snprintf(path_out, PATH_MAX, "%.*s/%s", length ? length : 1, length ? list : ".",
                     name) < PATH_MAX &&
            is_program(path_out))
            return true;
        list += length;
        list += *list == ':';
    }
    return false;
}

static const char *leaf_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Programs that run another one, which is what counts. */
static bool is_launcher(const char *path)
{
    static const char *const names[] = {"mpiexec", "mpirun", "orterun", "prterun", "srun",
                                        "aprun",   "jsrun",  "flux",    "env",     "time",
                                        "timeout", "nice",   "taskset", "numactl", "nohup",
                                        "setsid",  "stdbuf", "strace",  "gdb"};
    size_t length = strcspn(leaf_of(path), ".");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == length && strncmp(leaf_of(path), names[i], length) == 0)
            return true;
    return false;
}

/* The program of a command line, past launchers and their options. */
static bool choose_program(char **words, char path_out[PATH_MAX])
{
    char path[PATH_MAX];
    if (!find_program(words[0], path_out))
        return false;
    if (!is_launcher(path_out))
        return true;
    for (int i = 1; words[i]; i++)
        if (words[i][0] != '-' && !strchr(words[i], '=') && find_program(words[i], path) &&
            !is_launcher(path)) {
            strcpy(path_out, path);
            return true;
        }
    return true; /* the launcher itself */
}

/* ---- an HDF5 ---- */

/* 0.0 if it can't be read. */
static void parse_version(const char *text, unsigned *major_out, unsigned *minor_out)
{
    *major_out = *minor_out = 0;
    sscanf(text, "%u.%u", major_out, minor_out);
}

/* Which MPI a parallel HDF5 stands on; NULL: one that there is no connector for. */
static const char *flavour_of(const struct mkt_library *hdf5, const struct mkt_libraries *libraries)
{
    static const char *const mpich[] = {"libmpich.so", "libmpi.so.12", "libmpi_cray", "libmpi_gnu",
                                        "libmpich_"};
    if (!hdf5->elf.parallel)
        return "serial";
    for (size_t i = 0; i < sizeof(mpich) / sizeof(mpich[0]); i++)
        if (mkt_libraries_have(libraries, mpich[i]))
            return "mpich";
    if (mkt_libraries_have(libraries, "libopen-pal.so") ||
        mkt_libraries_have(libraries, "libmpi.so.40"))
        return "openmpi";
    return NULL;
}

static void judge_hdf5(struct mkt_doctor *doctor, const char *program,
                       const struct mkt_library *hdf5, const struct mkt_libraries *libraries)
{
    unsigned major, minor;
    char connector[PATH_MAX], below[128];
    const char *flavour = flavour_of(hdf5, libraries);
    const char *version = hdf5->elf.hdf5_version;
    parse_version(version, &major, &minor);
    if (major == 1 && minor < OLDEST_MINOR) {
        mkt_doctor_say(doctor, MKT_PROBLEM,
                       "use HDF5 1.14 or newer, for example the one in HDF5_ROOT: its 1.14 also "
                       "reads and writes older files",
                       "%s uses HDF5 %s (%s), which is too old", program, version, hdf5->path);
        return;
    }
    if (!flavour) {
        mkt_doctor_say(
            doctor, MKT_PROBLEM, "use an HDF5 over Open MPI, or over MPICH or one of its family",
            "%s uses a parallel HDF5 (%s) over an MPI that isn't known", program, hdf5->path);
        return;
    }
    snprintf(below, sizeof(below), "lib/h5market/libh5market_vol_%s.so", flavour);
    if (!mkt_cli_installed(below, connector, sizeof(connector))) {
        mkt_doctor_say(
            doctor, MKT_PROBLEM,
            "build H5Market with this HDF5: HDF5_ROOT=<its prefix> ./bootstrap build",
            "%s uses HDF5 %s of flavour `%s` (%s), and there is no connector for that one", program,
            version[0] ? version : "(unknown version)", flavour, hdf5->path);
        return;
    }
    mkt_doctor_say(doctor, MKT_FINE, NULL, "%s uses HDF5 %s, flavour `%s` (%s)", program,
                   version[0] ? version : "(unknown version)", flavour, hdf5->path);
}

/* ---- no shared HDF5 ---- */

static void judge_static(struct mkt_doctor *doctor, const struct mkt_library *program)
{
    const char *remedy = "link it with the shared libhdf5 (CMake: HDF5_USE_STATIC_LIBRARIES OFF; "
                         "else -lhdf5 with the "
                         "folder of libhdf5.so first), or at least with -rdynamic";
    if (!program->elf.is_dynamic)
        mkt_doctor_say(doctor, MKT_PROBLEM,
                       "link it dynamically (without -static), with the shared libhdf5",
                       "%s is linked statically: it can load no connector", program->path);
    else if (!program->elf.exports_hdf5)
        mkt_doctor_say(doctor, MKT_PROBLEM, remedy,
                       "%s has HDF5 %s linked into it statically, where no connector can reach it",
                       program->path, program->elf.hdf5_version);
    else
        mkt_doctor_say(doctor, MKT_FINE, NULL,
                       "%s has HDF5 %s in it and shows it to plugins (-rdynamic)", program->path,
                       program->elf.hdf5_version);
}

static void judge_missing(struct mkt_doctor *doctor, const struct mkt_libraries *libraries)
{
    for (unsigned i = 1; i < libraries->count; i++)
        if (!libraries->item[i].path)
            mkt_doctor_say(
                doctor, MKT_PROBLEM, "set LD_LIBRARY_PATH, or load the module that has it",
                "%s needs %s, which isn't found", libraries->item[0].path, libraries->item[i].name);
}

/* ---- programs in Python ---- */

static bool find_one(const char *format, const char *folder, char path_out[PATH_MAX])
{
    glob_t found;
    char pattern[PATH_MAX];
    snprintf(pattern, sizeof(pattern), format, folder);
    if (glob(pattern, 0, NULL, &found) != 0)
        return false;
    snprintf(path_out, PATH_MAX, "%s", found.gl_pathv[0]);
    globfree(&found);
    return true;
}

/* The module of h5py that is linked with HDF5, as the interpreter at this path would load it. */
static bool find_h5py(const char *interpreter, char path_out[PATH_MAX])
{
    static const char *const places[] = {
        "%s/../lib/python3*/site-packages/h5py/defs.*.so",
        "%s/../lib/python3*/dist-packages/h5py/defs.*.so",
        "%s/../local/lib/python3*/dist-packages/h5py/defs.*.so",
        "%s/../lib/python3/dist-packages/h5py/defs.*.so",
        "%s/../lib/python3/dist-packages/h5py/_debian_h5py_serial/defs.*.so"};
    char folder[PATH_MAX], resolved[PATH_MAX];
    const char *from[] = {interpreter, realpath(interpreter, resolved)};
    for (int i = 0; i < 2; i++) {
        if (!from[i] || !strrchr(from[i], '/'))
            continue;
        snprintf(folder, sizeof(folder), "%.*s", (int)(leaf_of(from[i]) - from[i]), from[i]);
        for (size_t j = 0; j < sizeof(places) / sizeof(places[0]); j++)
            if (find_one(places[j], folder, path_out))
                return true;
    }
    return false;
}

static void examine(struct mkt_doctor *doctor, const char *path);

static void examine_python(struct mkt_doctor *doctor, const char *interpreter)
{
    char module[PATH_MAX];
    if (find_h5py(interpreter, module))
        examine(doctor, module);
    else
        mkt_doctor_say(
            doctor, MKT_WARNING,
            "run it with `h5market run` and look whether its files come up in `h5market ls`",
            "%s: no h5py found beside it, so it isn't known which HDF5 its scripts load",
            interpreter);
}

/* A script counts as its interpreter. */
static void examine_script(struct mkt_doctor *doctor, const char *script, const char *first_line)
{
    char words[256], path[PATH_MAX], *rest = words, *word;
    snprintf(words, sizeof(words), "%s", first_line);
    while ((word = strsep(&rest, " \t"))) {
        if (!word[0] || word[0] == '-' || !find_program(word, path) || is_launcher(path))
            continue;
        if (strncmp(leaf_of(path), "python", 6) == 0) {
            examine_python(doctor, path);
            return;
        }
        mkt_doctor_say(doctor, MKT_WARNING,
                       "name the program that it runs: `h5market doctor -- PROGRAM`",
                       "%s is a script for %s; which programs it runs isn't known", script, path);
        return;
    }
    mkt_doctor_say(doctor, MKT_PROBLEM, "correct the script's first line",
                   "%s is a script for \"%s\", which isn't found", script, first_line);
}

/* ---- all together ---- */

static void judge_libraries(struct mkt_doctor *doctor, const struct mkt_libraries *libraries)
{
    const struct mkt_library *program = &libraries->item[0], *first = NULL;
    judge_missing(doctor, libraries);
    for (unsigned i = 1; i < libraries->count; i++) {
        const struct mkt_library *item = &libraries->item[i];
        if (!item->elf.exports_hdf5)
            continue;
        if (first) {
            mkt_doctor_say(doctor, MKT_PROBLEM,
                           "let all its parts use one libhdf5: rebuild the part that has the other",
                           "%s would load two HDF5 libraries, %s and %s (needed by %s); the "
                           "connector refuses that",
                           program->path, first->path, item->path,
                           libraries->item[item->parent].path);
            return;
        }
        first = item;
    }
    if (first)
        judge_hdf5(doctor, program->path, first, libraries);
    else if (program->elf.contains_hdf5)
        judge_static(doctor, program);
    else if (!program->elf.is_dynamic)
        judge_static(doctor, program);
    else
        mkt_doctor_say(doctor, MKT_WARNING,
                       "if it loads HDF5 later by itself, run it with `h5market run` and look "
                       "whether its files come "
                       "up in `h5market ls`",
                       "%s isn't linked with HDF5", program->path);
}

static void examine(struct mkt_doctor *doctor, const char *path)
{
    struct mkt_libraries libraries;
    enum mkt_status status = mkt_libraries_collect(path, &libraries);
    const struct mkt_elf *elf = &libraries.item[0].elf;
    if (status != MKT_OK)
        mkt_doctor_say(doctor, MKT_WARNING, "make it readable", "can't read %s: %s", path,
                       mkt_status_text(status));
    else if (elf->interpreter[0])
        examine_script(doctor, path, elf->interpreter);
    else if (elf->is_foreign)
        mkt_doctor_say(doctor, MKT_PROBLEM, "build it for this machine",
                       "%s is for another kind of machine", path);
    else if (!elf->is_elf)
        mkt_doctor_say(doctor, MKT_WARNING, "name the program itself",
                       "%s is no program that can be looked into", path);
    else
        judge_libraries(doctor, &libraries);
    mkt_libraries_fini(&libraries);
}

void mkt_doctor_program(struct mkt_doctor *doctor)
{
    char path[PATH_MAX];
    if (!doctor->programs)
        return;
    if (!choose_program(doctor->programs, path))
        mkt_doctor_say(doctor, MKT_PROBLEM, "check the name and PATH", "there is no program %s",
                       doctor->programs[0]);
    else if (strncmp(leaf_of(path), "python", 6) == 0)
        examine_python(doctor, path);
    else
        examine(doctor, path);
}
