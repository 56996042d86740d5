/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded (LD_PRELOAD) into an archiver: writes down what it does to files, one line an
 * operation, into RECORD_FILES. power_loss.py replays it.
 *
 *   write INODE OFFSET HEX | truncate INODE SIZE | sync INODE | rename FROM TO | exchange FROM TO |
 *   unlink PATH | link FROM TO | create PATH INODE | say TYPE (a message to the daemon)
 */
#include "core/wire/messages.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static FILE *record(void)
{
    static FILE *file;
    const char *path = getenv("RECORD_FILES");

    if (!file && path)
        file = fopen(path, "ae");
    return file;
}

static unsigned long inode_of(int fd, mode_t *type_out)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return 0;
    *type_out = info.st_mode & S_IFMT;
    return info.st_ino;
}

static void note_write(int fd, const void *bytes, ssize_t count, off_t offset)
{
    mode_t type = 0;
    unsigned long inode = inode_of(fd, &type);

    if (count <= 0 || type != S_IFREG || !record())
        return;
    fprintf(record(), "write %lu %lld ", inode, (long long)offset);
    for (ssize_t i = 0; i < count; i++)
        fprintf(record(), "%02x", ((const unsigned char *)bytes)[i]);
    fputs("\n", record());
    fflush(record());
}

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    va_list arguments;

    if (!record())
        return;
    va_start(arguments, format);
    vfprintf(record(), format, arguments);
    va_end(arguments);
    fflush(record());
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    REAL(pwrite);
    ssize_t done = real(fd, bytes, count, offset);
    note_write(fd, bytes, done, offset);
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset)
{
    return pwrite(fd, bytes, count, offset);
}

static int note_truncate(int fd, off_t size, int done)
{
    mode_t type = 0;
    unsigned long inode = inode_of(fd, &type);

    if (done == 0)
        note("truncate %lu %lld\n", inode, (long long)size);
    return done;
}

int ftruncate(int fd, off_t size)
{
    REAL(ftruncate);
    return note_truncate(fd, size, real(fd, size));
}

int ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}

int fsync(int fd)
{
    REAL(fsync);
    mode_t type = 0;
    unsigned long inode = inode_of(fd, &type);
    int done = real(fd);

    if (done == 0)
        note("sync %lu\n", inode);
    return done;
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    int done = real(from, to);

    if (done == 0)
        note("rename %s %s\n", from, to);
    return done;
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    REAL(renameat2);
    int done = real(from_fd, from, to_fd, to, flags);

    if (done == 0)
        note("%s %s %s\n", flags & RENAME_EXCHANGE ? "exchange" : "rename", from, to);
    return done;
}

int unlink(const char *path)
{
    REAL(unlink);
    int done = real(path);

    if (done == 0)
        note("unlink %s\n", path);
    return done;
}

static int note_open(const char *path, int flags, int fd)
{
    mode_t type = 0;

    if (fd >= 0 && (flags & O_CREAT) && inode_of(fd, &type) && type == S_IFREG)
        note("create %s %lu\n", path, inode_of(fd, &type));
    return fd;
}

int open(const char *path, int flags, ...)
{
    REAL(open);
    va_list arguments;

    va_start(arguments, flags);
    unsigned mode = flags & O_CREAT ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    return note_open(path, flags, real(path, flags, mode));
}

int open64(const char *path, int flags, ...)
{
    va_list arguments;

    va_start(arguments, flags);
    unsigned mode = flags & O_CREAT ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    return open(path, flags, mode);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(sendmsg);
    struct mkt_frame_wire head;

    if (message->msg_iovlen > 0 && message->msg_iov[0].iov_len >= sizeof(head)) {
        memcpy(&head, message->msg_iov[0].iov_base, sizeof(head));
        if (head.type == MKT_MSG_SAVE_PLACE || head.type == MKT_MSG_SAVE_DONE)
            note("say %s\n", head.type == MKT_MSG_SAVE_PLACE ? "place" : "done");
    }
    return real(fd, message, flags);
}
