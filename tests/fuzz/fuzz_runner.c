/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target without libFuzzer: on files of a corpus, and on random messages of every type
 * with random damage, the same on every machine.
 *
 * usage: fuzz_runner ROUNDS [FILE...]       or   fuzz_runner --seeds FOLDER   to write first inputs
 * for libFuzzer
 */
#include "tests/unit/message_samples.h"
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX_BYTES (64u << 10)

static size_t make_input(uint64_t *random, enum mkt_msg_type type, uint8_t *input)
{
    static struct message_sample sample;
    size_t bytes = 0;
    sample_message(random, type, &sample);
    if (mkt_msg_encode(&sample.msg, sample.has_fd, input, INPUT_MAX_BYTES / 2, &bytes) != MKT_OK) {
        fprintf(stderr, "fuzz_runner: a message of type %d doesn't encode\n", (int)type);
        exit(1);
    }
    return bytes;
}

/* A few bits, bytes or lengths changed; the end cut off or repeated. */
static size_t damage(uint64_t *random, uint8_t *input, size_t bytes)
{
    for (uint64_t times = random_below(random, 4); times > 0 && bytes > 0; times--) {
        size_t at = random_below(random, bytes);
        switch (random_below(random, 5)) {
        case 0:
            input[at] ^= (uint8_t)(1u << random_below(random, 8));
            break;
        case 1:
            input[at] = (uint8_t)random_next(random);
            break;
        case 2:
            memset(input + at, 0xff, bytes - at < 4 ? bytes - at : 4);
            break;
        case 3:
            bytes = at;
            break;
        default:
            memmove(input + bytes, input + at, bytes - at);
            bytes += bytes - at;
        }
        if (bytes > INPUT_MAX_BYTES / 2)
            bytes = INPUT_MAX_BYTES / 2;
    }
    return bytes;
}

static void run_file(const char *path, uint8_t *input)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "fuzz_runner: can't open %s\n", path);
        exit(1);
    }
    LLVMFuzzerTestOneInput(input, fread(input, 1, INPUT_MAX_BYTES, file));
    fclose(file);
}

static void write_seeds(const char *folder, uint8_t *input)
{
    uint64_t random = 1;
    for (int type = MKT_MSG_HELLO; type < MKT_MSG_TYPE_END; type++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/message-%02d", folder, type);
        FILE *file = fopen(path, "wb");
        size_t bytes = make_input(&random, type, input);
        if (file == NULL || fwrite(input, 1, bytes, file) != bytes || fclose(file) != 0) {
            fprintf(stderr, "fuzz_runner: can't write %s\n", path);
            exit(1);
        }
    }
}

int main(int count, char **arguments)
{
    static uint8_t input[INPUT_MAX_BYTES];
    uint64_t random = 7;
    if (count == 3 && strcmp(arguments[1], "--seeds") == 0) {
        write_seeds(arguments[2], input);
        return 0;
    }
    long rounds = count > 1 ? strtol(arguments[1], NULL, 10) : 0;
    for (int i = 2; i < count; i++)
        run_file(arguments[i], input);
    for (long round = 0; round < rounds; round++)
        for (int type = MKT_MSG_HELLO; type < MKT_MSG_TYPE_END; type++)
            LLVMFuzzerTestOneInput(input, damage(&random, input, make_input(&random, type, input)));
    printf("%ld rounds of %d types, %d files\n", rounds, MKT_MSG_TYPE_END - 1,
           count > 2 ? count - 2 : 0);
    return rounds > 0 || count > 2 ? 0 : 1;
}
