/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one line an event, one write(2) a line, to a descriptor that is the process's own.
 * Two styles: a service's lines carry time, level and component; a guest (the plugin in a user's
 * program) writes warnings and errors only, as "h5market: text", to standard error. Until
 * mkt_log_open the style is the guest's.
 *
 * Any thread may write; mkt_log_open* belong to start-up, before other threads write. errno is
 * kept.
 */
#ifndef MKT_BASE_LOG_H
#define MKT_BASE_LOG_H

#include "core/base/status.h"
#include <stdbool.h>

#define MKT_LOG_LEVELS(X) \
    X(ERROR, "error")     \
    X(WARNING, "warning") \
    X(INFO, "info")       \
    X(DEBUG, "debug")

enum mkt_log_level {
#define MKT_LOG_ENUM(name, text) MKT_LOG_##name,
    MKT_LOG_LEVELS(MKT_LOG_ENUM)
#undef MKT_LOG_ENUM
    MKT_LOG_LEVEL_COUNT
};

/* Longer lines are cut and end in "...". */
#define MKT_LOG_LINE_BYTES 2048

/* Service style to a descriptor, which stays the caller's. Messages above `level` are dropped. */
void mkt_log_open(int fd, enum mkt_log_level level);

/* The same to a file, created 0600 and appended to. On failure the log stays as it was. */
enum mkt_status mkt_log_open_file(const char *path, enum mkt_log_level level);

/* Back to the guest's style on standard error; closes what mkt_log_open_file opened. */
void mkt_log_close(void);

/* The level in force, and by name ("error" .. "debug"; MKT_INVALID for another name). */
enum mkt_log_level mkt_log_level(void);
void mkt_log_set_level(enum mkt_log_level level);
enum mkt_status mkt_log_level_parse(const char *name, enum mkt_log_level *level_out);

/* True if a message of this level would be written: for callers whose arguments cost. */
bool mkt_log_enabled(enum mkt_log_level level);

/* Control characters in the text are written as '?', so that a line stays one line. */
void mkt_log_write(enum mkt_log_level level, const char *component, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define mkt_log_error(component, ...)   mkt_log_write(MKT_LOG_ERROR, component, __VA_ARGS__)
#define mkt_log_warning(component, ...) mkt_log_write(MKT_LOG_WARNING, component, __VA_ARGS__)
#define mkt_log_info(component, ...)    mkt_log_write(MKT_LOG_INFO, component, __VA_ARGS__)
#define mkt_log_debug(component, ...)                             \
    do {                                                          \
        if (mkt_log_enabled(MKT_LOG_DEBUG))                       \
            mkt_log_write(MKT_LOG_DEBUG, component, __VA_ARGS__); \
    } while (0)

#endif
