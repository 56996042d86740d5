/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/wire/codec.h"
#include <string.h>

static bool codec_has(struct mkt_codec *codec, size_t bytes)
{
    if (!codec->failed && codec->mode != MKT_CODEC_MEASURE && bytes > codec->end - codec->at)
        codec->failed = true;
    return !codec->failed;
}

void mkt_codec_raw(struct mkt_codec *codec, void *field, size_t bytes)
{
    if (!codec_has(codec, bytes))
        return;
    if (codec->mode == MKT_CODEC_WRITE && bytes > 0)
        memcpy(codec->out + codec->at, field, bytes);
    else if (codec->mode == MKT_CODEC_READ && bytes > 0)
        memcpy(field, codec->in + codec->at, bytes);
    codec->at += bytes;
}

void mkt_codec_u32(struct mkt_codec *codec, uint32_t *field)
{
    mkt_codec_raw(codec, field, sizeof(*field));
}

void mkt_codec_u64(struct mkt_codec *codec, uint64_t *field)
{
    mkt_codec_raw(codec, field, sizeof(*field));
}

void mkt_codec_range(struct mkt_codec *codec, uint32_t *field, uint32_t first, uint32_t last)
{
    mkt_codec_u32(codec, field);
    if (!codec->failed && (*field < first || *field > last))
        codec->failed = true;
}

void mkt_codec_bool(struct mkt_codec *codec, bool *field)
{
    uint32_t number = codec->mode == MKT_CODEC_READ ? 0 : *field;
    mkt_codec_range(codec, &number, 0, 1);
    if (!codec->failed && codec->mode == MKT_CODEC_READ)
        *field = number == 1;
}

void mkt_codec_align(struct mkt_codec *codec)
{
    uint64_t zeros = 0;
    mkt_codec_raw(codec, &zeros, -codec->at & 7);
    if (zeros != 0)
        codec->failed = true;
}

void mkt_codec_list(struct mkt_codec *codec, const void **data, size_t length)
{
    mkt_codec_align(codec);
    if (codec->mode == MKT_CODEC_READ) {
        if (!codec_has(codec, length))
            return;
        *data = codec->in + codec->at; /* never NULL, for those who copy nothing from it */
        codec->at += length;
    } else {
        mkt_codec_raw(codec, (void *)*data, length);
    }
    mkt_codec_align(codec);
}

void mkt_codec_bytes(struct mkt_codec *codec, struct mkt_bytes *field)
{
    mkt_codec_u32(codec, &field->length);
    mkt_codec_list(codec, &field->data, field->length);
}

void mkt_codec_extent(struct mkt_codec *codec, struct mkt_extent *field)
{
    mkt_codec_raw(codec, field, sizeof(*field));
}

void mkt_codec_array(struct mkt_codec *codec, struct mkt_array *array)
{
    mkt_codec_u64(codec, &array->identity);
    mkt_codec_raw(codec, array->token, sizeof(array->token));
    mkt_codec_u32(codec, &array->element_bytes);
    mkt_codec_u32(codec, &array->flags);
    mkt_codec_range(codec, &array->rank, 0, MKT_MAX_RANK);
    mkt_codec_align(codec);
    if (!codec->failed)
        mkt_codec_raw(codec, array->dims, array->rank * sizeof(array->dims[0]));
}
