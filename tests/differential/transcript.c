/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>

#include "differential.h"

struct transcript_options transcript_options;
static FILE *transcript;

bool transcript_open(const char *path)
{
    transcript = path ? fopen(path, "a") : stdout;
    return transcript != NULL;
}

void transcript_flush(void)
{
    fflush(transcript);
}

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(transcript, format, args);
    va_end(args);
}

bool said(hid_t result)
{
    say(result < 0 ? " = fail;" : " = ok;");
    return result >= 0;
}

void say_dims(int rank, const hsize_t *dims)
{
    say("[");
    for (int d = 0; d < rank; d++)
        if (dims[d] == H5S_UNLIMITED)
            say(d ? ",inf" : "inf");
        else
            say(d ? ",%llu" : "%llu", (unsigned long long)dims[d]);
    say("]");
}

/* FNV-1a */
void digest_start(struct digest *digest)
{
    digest->sum = UINT64_C(0xcbf29ce484222325);
}

void digest_add(struct digest *digest, const void *bytes, size_t count)
{
    const uint8_t *byte = bytes;

    for (size_t i = 0; i < count; i++)
        digest->sum = (digest->sum ^ byte[i]) * UINT64_C(0x100000001b3);
}
