/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C (Castagnoli, RFC 3720 B.4), the checksum of what lies on disks. Pure; any thread. */
#ifndef MKT_TRANSPORT_CRC32C_H
#define MKT_TRANSPORT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of `length` bytes; chain calls by passing the former value as `before`, 0 at the start. */
uint32_t mkt_crc32c(uint32_t before, const void *bytes, size_t length);

#endif
