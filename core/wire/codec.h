/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cursor that walks over the fields of a message: one description of a message serves to measure,
 * write and read it. Internal to core/wire. Integers are little-endian; lists start and end at
 * multiples of 8 bytes from the start of the payload, and what lies between is zero, so a message
 * has exactly one encoding.
 */
#ifndef MKT_WIRE_CODEC_H
#define MKT_WIRE_CODEC_H

#include "core/wire/messages.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "lists are used where they lie in a frame");

enum mkt_codec_mode {
    MKT_CODEC_MEASURE,
    MKT_CODEC_WRITE,
    MKT_CODEC_READ
};

struct mkt_codec {
    enum mkt_codec_mode mode;
    union {
        const uint8_t *in;
        uint8_t *out;
    };
    size_t at, end;
    bool failed; /* set by the first field that doesn't fit; later fields do nothing */
};

void mkt_codec_raw(struct mkt_codec *codec, void *field, size_t bytes);
void mkt_codec_u32(struct mkt_codec *codec, uint32_t *field);
void mkt_codec_u64(struct mkt_codec *codec, uint64_t *field);
/* Anything but 0 and 1 fails. */
void mkt_codec_bool(struct mkt_codec *codec, bool *field);
/* A number that must lie in first .. last. */
void mkt_codec_range(struct mkt_codec *codec, uint32_t *field, uint32_t first, uint32_t last);
void mkt_codec_align(struct mkt_codec *codec);
/* `length` bytes at the next multiple of 8; reading points *data into the input. */
void mkt_codec_list(struct mkt_codec *codec, const void **data, size_t length);
/* The length and the list. */
void mkt_codec_bytes(struct mkt_codec *codec, struct mkt_bytes *field);
void mkt_codec_extent(struct mkt_codec *codec, struct mkt_extent *field);
void mkt_codec_array(struct mkt_codec *codec, struct mkt_array *array);

#endif
