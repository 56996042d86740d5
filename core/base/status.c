/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

struct status_entry {
    const char *name, *text;
};

static const struct status_entry table[] = {
#define MKT_STATUS_ENTRY(name, text) {#name, text},
    MKT_STATUS_TABLE(MKT_STATUS_ENTRY)
#undef MKT_STATUS_ENTRY
};
_Static_assert(sizeof(table) / sizeof(table[0]) == MKT_STATUS_COUNT, "one entry a status");

static const struct status_entry unknown = {"UNKNOWN", "unknown status"};

static const struct status_entry *entry(enum mkt_status status)
{
    return (unsigned)status < MKT_STATUS_COUNT ? &table[status] : &unknown;
}

const char *mkt_status_name(enum mkt_status status)
{
    return entry(status)->name;
}

const char *mkt_status_text(enum mkt_status status)
{
    return entry(status)->text;
}

enum mkt_status mkt_status_from_errno(int error_number)
{
    switch (error_number) {
    case 0:
        return MKT_OK;
    case ENOENT:
    case ENXIO:
    case ESRCH:
    case ENODEV:
        return MKT_NOT_FOUND;
    case EEXIST:
    case EADDRINUSE:
        return MKT_EXISTS;
    case EBUSY:
    case EAGAIN:
    case ETXTBSY:
        return MKT_BUSY;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return MKT_NO_SPACE;
    case ENOMEM:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
        return MKT_NO_MEMORY;
    case ESTALE:
        return MKT_STALE;
    case ETIMEDOUT:
    case ETIME:
        return MKT_TIMED_OUT;
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
    case ECONNABORTED:
    case ENOTCONN:
    case EHOSTDOWN:
    case EHOSTUNREACH:
        return MKT_PEER_DOWN;
    case EBADMSG:
    case EILSEQ:
        return MKT_CORRUPT;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
        return MKT_UNSUPPORTED;
    case ECANCELED:
    case EINTR:
        return MKT_CANCELLED;
    case EINVAL:
    case EDOM:
    case ERANGE:
    case EBADF:
    case ENAMETOOLONG:
    case EISDIR:
    case ENOTDIR:
        return MKT_INVALID;
    case EACCES:
    case EPERM:
    case EROFS:
        return MKT_DENIED;
    case EPROTO:
    case EMSGSIZE:
        return MKT_PROTOCOL;
    default:
        return MKT_IO_ERROR;
    }
}

enum mkt_status mkt_error_set(struct mkt_error *error, enum mkt_status status, const char *format,
                              ...)
{
    if (error) {
        va_list arguments;
        error->status = status;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof(error->text), format, arguments);
        va_end(arguments);
    }
    return status;
}
