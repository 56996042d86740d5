/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one status type of the project. Every function that can fail returns it, nobody ignores it.
 * Foreign errors (errno, libfabric, herr_t) are converted once, at the edge where they arise.
 * Pure; any thread.
 */
#ifndef MKT_BASE_STATUS_H
#define MKT_BASE_STATUS_H

#include <stddef.h>

/* name, text for people. The order is wire format: append only. */
#define MKT_STATUS_TABLE(X)                                     \
    X(OK, "success")                                            \
    X(NOT_FOUND, "not found")                                   \
    X(EXISTS, "already exists")                                 \
    X(BUSY, "held by another writer")                           \
    X(NO_SPACE, "no space left in the market")                  \
    X(NO_MEMORY, "out of memory")                               \
    X(STALE, "stale, ask again")                                \
    X(TIMED_OUT, "timed out")                                   \
    X(PEER_DOWN, "the other side has gone")                     \
    X(IO_ERROR, "input/output error")                           \
    X(CORRUPT, "corrupt data")                                  \
    X(UNSUPPORTED, "not supported")                             \
    X(CANCELLED, "cancelled")                                   \
    X(INVALID, "invalid argument")                              \
    X(DENIED, "permission denied")                              \
    X(PROTOCOL, "protocol violation")                           \
    X(POISONED, "the version was spoilt by an earlier failure") \
    X(END, "end of stream")

enum mkt_status {
#define MKT_STATUS_ENUM(name, text) MKT_##name,
    MKT_STATUS_TABLE(MKT_STATUS_ENUM)
#undef MKT_STATUS_ENUM
    MKT_STATUS_COUNT
};

#define MKT_ERROR_TEXT_BYTES 1024

/* A failure with its story: names the file, the dataset, the cause and the remedy. */
struct mkt_error {
    enum mkt_status status;
    char text[MKT_ERROR_TEXT_BYTES];
};

/* The name ("NO_SPACE") and the text of a status; a number out of range gives "UNKNOWN". Never
 * NULL. */
const char *mkt_status_name(enum mkt_status status);
const char *mkt_status_text(enum mkt_status status);

/* Converts an errno value. 0 gives MKT_OK. */
enum mkt_status mkt_status_from_errno(int error_number);

/* Fills `error` (NULL is allowed) and returns `status`, so that a caller can `return
 * mkt_error_set(...)`. */
enum mkt_status mkt_error_set(struct mkt_error *error, enum mkt_status status, const char *format,
                              ...) __attribute__((format(printf, 3, 4)));

#endif
