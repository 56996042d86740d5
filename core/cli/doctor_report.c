/* SPDX-License-Identifier: BSD-3-Clause */
/* What a bug report needs. Prints no environment variable but those of HDF5, MPI's and batch
 * systems' few, and ours. */
#include "core/cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LOG_BYTES 8192

extern char **environ;

static void heading(const char *text)
{
    printf("\n== %s\n", text);
}

/* A file's content, if it is there, with a blank before each line. */
static void print_file(const char *path, size_t most)
{
    char line[1024];
    size_t printed = 0;
    FILE *stream = fopen(path, "re");
    if (!stream)
        return;
    while (printed < most && fgets(line, sizeof(line), stream))
        printed += (size_t)printf("  %s%s", line, strchr(line, '\n') ? "" : "\n");
    fclose(stream);
}

static void print_system(void)
{
    struct utsname system;
    char line[512];
    heading("system");
    if (uname(&system) == 0)
        printf("  %s %s %s\n", system.sysname, system.release, system.machine);
    FILE *stream = fopen("/etc/os-release", "re");
    while (stream && fgets(line, sizeof(line), stream))
        if (strncmp(line, "PRETTY_NAME=", 12) == 0)
            printf("  %s", line + 12);
    if (stream)
        fclose(stream);
    stream = fopen("/proc/meminfo", "re");
    for (int i = 0; stream && i < 3 && fgets(line, sizeof(line), stream); i++)
        printf("  %s", line);
    if (stream)
        fclose(stream);
    printf("  processors: %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
}

static void print_environment(void)
{
    static const char *const starts[] = {
        "H5MARKET_",  "HDF5_",        "LD_LIBRARY_PATH=", "LD_PRELOAD=",
        "PATH=",      "TMPDIR=",      "SLURM_JOB_ID=",    "PBS_JOBID=",
        "LSB_JOBID=", "FLUX_JOB_ID=", "OMPI_VERSION=",    "PMIX_VERSION="};
    heading("environment");
    for (char **entry = environ; *entry; entry++)
        for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
            if (strncmp(*entry, starts[i], strlen(starts[i])) == 0)
                printf("  %s\n", *entry);
}

static void print_limits(void)
{
    static const struct {
        int resource;
        const char *name;
    } limits[] = {{RLIMIT_NOFILE, "open files"}, {RLIMIT_AS, "address space"},
                  {RLIMIT_DATA, "data"},         {RLIMIT_MEMLOCK, "locked memory"},
                  {RLIMIT_FSIZE, "file size"},   {RLIMIT_NPROC, "processes"}};
    heading("limits (soft, hard)");
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)limits[i].resource, &limit) != 0)
            continue;
        printf("  %-14s", limits[i].name);
        for (int j = 0; j < 2; j++) {
            rlim_t value = j ? limit.rlim_max : limit.rlim_cur;
            if (value == RLIM_INFINITY)
                printf(" unlimited");
            else
                printf(" %" PRIu64, (uint64_t)value);
        }
        putchar('\n');
    }
}

/* The memory limits of this process's control groups, from the innermost to the root. */
static void print_group(const char *root, char *group, const char *file)
{
    char path[PATH_MAX], text[64];
    for (;;) {
        snprintf(path, sizeof(path), "%s%s/%s", root, group, file);
        FILE *stream = fopen(path, "re");
        if (stream && fgets(text, sizeof(text), stream))
            printf("  %s: %s", path, text);
        if (stream)
            fclose(stream);
        char *slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

static void print_cgroups(void)
{
    char line[PATH_MAX];
    heading("control groups");
    print_file("/proc/self/cgroup", 4096);
    FILE *stream = fopen("/proc/self/cgroup", "re");
    while (stream && fgets(line, sizeof(line), stream)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        if (controllers[1] == '\0')
            print_group("/sys/fs/cgroup", group, "memory.max");
        else if (strstr(controllers, "memory"))
            print_group("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    }
    if (stream)
        fclose(stream);
}

static void print_log(void)
{
    char folder[PATH_MAX], text[LOG_BYTES + 1];
    struct mkt_error error;
    if (mkt_client_directory(NULL, false, folder, sizeof(folder), &error) != MKT_OK)
        return;
    char *path = mkt_cli_format("%s/h5marketd.log", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    heading(path);
    free(path);
    if (fd < 0) {
        printf("  %s\n", strerror(errno));
        return;
    }
    off_t end = lseek(fd, 0, SEEK_END), from = end > LOG_BYTES ? end - LOG_BYTES : 0;
    ssize_t got = pread(fd, text, LOG_BYTES, from);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    char *start = from ? strchr(text, '\n') : text;
    for (char *line = start ? start : text; line && *line; line = line ? line + 1 : NULL) {
        int length = (int)strcspn(line, "\n");
        if (length)
            printf("  %.*s\n", length, line);
        line = strchr(line, '\n');
    }
}

void mkt_doctor_report(struct mkt_doctor *doctor)
{
    char name[] = "h5market version", *arguments[] = {name, NULL};
    json_t *status = NULL;
    heading("version");
    mkt_cli_version(1, arguments);
    print_system();
    print_environment();
    print_limits();
    print_cgroups();
    if (doctor->client &&
        mkt_cli_query(doctor->client, MKT_QUERY_STATUS, NULL, &status) == MKT_CLI_OK) {
        heading("daemon");
        mkt_cli_print_json(status);
        json_decref(status);
    }
    const char *config = getenv("H5MARKET_CONFIG");
    if (config && config[0]) {
        heading(config);
        print_file(config, 65536);
    }
    print_log();
}
