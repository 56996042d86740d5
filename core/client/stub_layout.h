/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stub: the small file that stands at the path of an object in the market, so that umask and
 * access lists apply, programs that look for the file first find one, and the object can be moved
 * by moving the stub. It begins as an HDF5 file whose superblock has an impossible version, so a
 * program without the connector fails to open it. Little-endian, exactly 512 bytes.
 */
#ifndef MKT_CLIENT_STUB_LAYOUT_H
#define MKT_CLIENT_STUB_LAYOUT_H

#include "core/wire/messages.h"
#include <stdio.h>
#include <string.h>

#define MKT_STUB_BYTES   512
#define MKT_STUB_VERSION 1

struct mkt_stub_disk {
    uint8_t signature[8];       /* \211HDF\r\n\032\n */
    uint8_t superblock_version; /* 255: HDF5 knows 0 to 3 and refuses all others */
    uint8_t zeros[247];
    uint8_t magic[8]; /* "H5MARKET" */
    uint32_t version;
    uint32_t reserved;
    uint8_t market[MKT_ID_BYTES]; /* the folder of the market: one for each host boot, user and
                                     folder */
    uint8_t object[MKT_ID_BYTES];
    uint64_t inode;      /* of this file when it was made: a copy has another */
    uint64_t created_ns; /* since 1970 */
    char host[64];       /* NUL-terminated */
    uint8_t rest[128];   /* zeros */
};
_Static_assert(sizeof(struct mkt_stub_disk) == MKT_STUB_BYTES, "stub");
_Static_assert(offsetof(struct mkt_stub_disk, magic) == 256, "stub");

/* False if these bytes aren't a stub that this version understands. */
static inline bool mkt_stub_is_valid(const struct mkt_stub_disk *stub)
{
    return memcmp(stub->signature, "\211HDF\r\n\032\n", sizeof(stub->signature)) == 0 &&
           memcmp(stub->magic, "H5MARKET", sizeof(stub->magic)) == 0 &&
           stub->version == MKT_STUB_VERSION && memchr(stub->host, 0, sizeof(stub->host)) != NULL;
}

/* All but the file's own inode and time. */
static inline void mkt_stub_init(struct mkt_stub_disk *stub_out, const uint8_t market[MKT_ID_BYTES],
                                 const uint8_t object[MKT_ID_BYTES], const char *host)
{
    memset(stub_out, 0, sizeof(*stub_out));
    memcpy(stub_out->signature, "\211HDF\r\n\032\n", sizeof(stub_out->signature));
    stub_out->superblock_version = 255;
    memcpy(stub_out->magic, "H5MARKET", sizeof(stub_out->magic));
    stub_out->version = MKT_STUB_VERSION;
    memcpy(stub_out->market, market, MKT_ID_BYTES);
    memcpy(stub_out->object, object, MKT_ID_BYTES);
    snprintf(stub_out->host, sizeof(stub_out->host), "%s", host);
}

#endif
