/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {
#define MKT_LOG_NAME(name, text) text,
    MKT_LOG_LEVELS(MKT_LOG_NAME)
#undef MKT_LOG_NAME
};

/* Written at start-up only; `level` also later, as an aligned word. */
static struct {
    int fd;
    bool service, owned;
    enum mkt_log_level level;
} logger = {.fd = STDERR_FILENO, .level = MKT_LOG_WARNING};

static void release(void)
{
    if (logger.owned)
        close(logger.fd);
    logger.owned = false;
}

void mkt_log_open(int fd, enum mkt_log_level level)
{
    release();
    logger.fd = fd;
    logger.service = true;
    mkt_log_set_level(level);
}

enum mkt_status mkt_log_open_file(const char *path, enum mkt_log_level level)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return mkt_status_from_errno(errno);
    mkt_log_open(fd, level);
    logger.owned = true;
    return MKT_OK;
}

void mkt_log_close(void)
{
    release();
    logger.fd = STDERR_FILENO;
    logger.service = false;
    mkt_log_set_level(MKT_LOG_WARNING);
}

enum mkt_log_level mkt_log_level(void)
{
    return __atomic_load_n(&logger.level, __ATOMIC_RELAXED);
}

void mkt_log_set_level(enum mkt_log_level level)
{
    __atomic_store_n(&logger.level, level, __ATOMIC_RELAXED);
}

enum mkt_status mkt_log_level_parse(const char *name, enum mkt_log_level *level_out)
{
    for (int i = 0; i < MKT_LOG_LEVEL_COUNT; i++)
        if (strcmp(name, level_names[i]) == 0) {
            *level_out = (enum mkt_log_level)i;
            return MKT_OK;
        }
    return MKT_INVALID;
}

bool mkt_log_enabled(enum mkt_log_level level)
{
    return level <= mkt_log_level();
}

static int put_head(char *line, size_t capacity, enum mkt_log_level level, const char *component)
{
    struct timespec now;
    struct tm utc;
    char stamp[32];

    if (!logger.service)
        return snprintf(line, capacity, "h5market: ");
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
    return snprintf(line, capacity, "%s.%03ldZ %-7s %.32s: ", stamp, now.tv_nsec / 1000000,
                    level_names[level], component);
}

static void write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, bytes, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* a log that can't be written must not stop its process */
        bytes += n;
        length -= (size_t)n;
    }
}

void mkt_log_write(enum mkt_log_level level, const char *component, const char *format, ...)
{
    char line[MKT_LOG_LINE_BYTES];
    const size_t room = sizeof(line) - 1; /* the newline's byte */
    int kept_errno = errno;
    va_list arguments;

    if ((unsigned)level >= MKT_LOG_LEVEL_COUNT || !mkt_log_enabled(level))
        return;
    size_t length = (size_t)put_head(line, room, level, component);
    size_t head = length;
    va_start(arguments, format);
    int text = vsnprintf(line + length, room - length, format, arguments);
    va_end(arguments);
    length += text > 0 ? (size_t)text : 0;
    if (length >= room) {
        length = room - 1;
        memcpy(line + length - 3, "...", 3);
    }
    for (size_t i = head; i < length; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[length++] = '\n';
    write_all(logger.fd, line, length);
    errno = kept_errno;
}
