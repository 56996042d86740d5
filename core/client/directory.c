/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/client/directory.h"
#include "core/base/hash.h"
#include "core/client/client.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_boot_id(char *text_out, size_t capacity)
{
    text_out[0] = '\0';
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL)
        return;
    if (fgets(text_out, (int)capacity, file) == NULL)
        text_out[0] = '\0';
    fclose(file);
}

/* "NAME=id" of the batch job that this process belongs to, or "". */
static void read_job_id(char *text_out, size_t capacity)
{
    static const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"};
    text_out[0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0') {
            snprintf(text_out, capacity, "%s=%s", names[i], value);
            return;
        }
    }
}

static void default_directory(char *path_out, size_t capacity)
{
    char boot[64], job[256];
    read_boot_id(boot, sizeof(boot));
    read_job_id(job, sizeof(job));
    uint64_t hash = mkt_hash64(job, strlen(job), mkt_hash64(boot, strlen(boot), 0));
    snprintf(path_out, capacity, "/tmp/h5market-%lu-%08x", (unsigned long)geteuid(),
             (unsigned)hash);
}

static enum mkt_status absolute_directory(const char *wanted, char *path_out, size_t capacity,
                                          struct mkt_error *error)
{
    if (wanted == NULL || wanted[0] == '\0')
        wanted = getenv("H5MARKET_DIR");
    if (wanted == NULL || wanted[0] == '\0') {
        default_directory(path_out, capacity);
        return MKT_OK;
    }
    char *current = wanted[0] == '/' ? NULL : getcwd(NULL, 0);
    if (wanted[0] != '/' && current == NULL)
        return mkt_error_set(error, mkt_status_from_errno(errno),
                             "the market's folder %s is relative to a folder that has gone: %s",
                             wanted, strerror(errno));
    int length = snprintf(path_out, capacity, "%s%s%s", current != NULL ? current : "",
                          current != NULL ? "/" : "", wanted);
    free(current);
    if (length < 0 || (size_t)length >= capacity)
        return mkt_error_set(error, MKT_INVALID, "the path of the market's folder is too long: %s",
                             wanted);
    while (length > 1 && path_out[length - 1] == '/')
        path_out[--length] = '\0';
    return MKT_OK;
}

enum mkt_status mkt_directory_open(const char *directory, int *fd_out, struct mkt_error *error)
{
    struct stat info;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return mkt_error_set(error, MKT_NOT_FOUND, "the market's folder %s doesn't exist",
                             directory);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return mkt_error_set(error, MKT_DENIED,
                             "the market's folder %s is a symbolic link or no folder", directory);
    if (fd < 0)
        return mkt_error_set(error, mkt_status_from_errno(errno),
                             "can't open the market's folder %s: %s", directory, strerror(errno));
    enum mkt_status status = MKT_OK;
    if (fstat(fd, &info) != 0)
        status =
            mkt_error_set(error, MKT_IO_ERROR, "can't stat %s: %s", directory, strerror(errno));
    else if (info.st_uid != geteuid())
        status = mkt_error_set(error, MKT_DENIED,
                               "the market's folder %s belongs to user %lu, not to user %lu; name "
                               "another with H5MARKET_DIR",
                               directory, (unsigned long)info.st_uid, (unsigned long)geteuid());
    else if ((info.st_mode & 077) != 0)
        status = mkt_error_set(error, MKT_DENIED,
                               "the market's folder %s is open to others (mode %03o); chmod 700 it",
                               directory, (unsigned)info.st_mode & 0777);
    if (status != MKT_OK)
        close(fd);
    else
        *fd_out = fd;
    return status;
}

enum mkt_status mkt_client_directory(const char *wanted, bool create, char *path_out,
                                     size_t capacity, struct mkt_error *error)
{
    int fd;
    enum mkt_status status = absolute_directory(wanted, path_out, capacity, error);
    if (status != MKT_OK)
        return status;
    if (create && mkdir(path_out, 0700) != 0 && errno != EEXIST) {
        /* NOT_FOUND would mean that no market is wanted. */
        status = errno == ENOENT ? MKT_IO_ERROR : mkt_status_from_errno(errno);
        return mkt_error_set(
            error, status, "can't make the market's folder %s: %s; name another with H5MARKET_DIR",
            path_out, strerror(errno));
    }
    status = mkt_directory_open(path_out, &fd, error);
    if (status == MKT_NOT_FOUND && !create)
        return MKT_OK;
    if (status == MKT_OK)
        close(fd);
    return status;
}

enum mkt_status mkt_directory_market_id(const char *directory, uint8_t market_out[MKT_ID_BYTES],
                                        struct mkt_error *error)
{
    int fd;
    struct stat info;
    enum mkt_status status = mkt_directory_open(directory, &fd, error);
    if (status != MKT_OK)
        return status;
    int failed = fstat(fd, &info);
    close(fd);
    if (failed)
        return mkt_error_set(error, MKT_IO_ERROR, "can't stat %s", directory);
    /* By number and not by path: a container may see the folder elsewhere. */
    struct {
        char boot[64];
        uint64_t uid, dev, ino;
    } key;
    memset(&key, 0, sizeof(key));
    read_boot_id(key.boot, sizeof(key.boot));
    key.uid = geteuid();
    key.dev = info.st_dev;
    key.ino = info.st_ino;
    uint64_t halves[2] = {mkt_hash64(&key, sizeof(key), 1), mkt_hash64(&key, sizeof(key), 2)};
    memcpy(market_out, halves, MKT_ID_BYTES);
    return MKT_OK;
}
