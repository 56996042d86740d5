/* SPDX-License-Identifier: BSD-3-Clause */
/* The yardstick of one core: memcpy between two touched buffers, `copy BYTES STEPS WARM_UP_STEPS`;
 * a line a step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "board.h"

int main(int argc, char **argv)
{
    struct block block = {.ndims = 1};
    double *from;
    double *to;
    size_t bytes;

    if (argc != 4) {
        fprintf(stderr, "usage: %s BYTES STEPS WARM_UP_STEPS\n", argv[0]);
        return 2;
    }
    bytes = strtoull(argv[1], NULL, 10);
    block.dims[0] = block.count[0] = bytes / sizeof(double);
    from = malloc(bytes);
    to = malloc(bytes);
    if (from == NULL || to == NULL || block.count[0] == 0) {
        fprintf(stderr, "%s: no memory for %zu bytes\n", argv[0], bytes);
        return 1;
    }
    memset(to, 0xa5, bytes);
    for (int step = 0; step < atoi(argv[2]); step++) {
        uint64_t stride = step < atoi(argv[3]) ? 1 : 4099;
        double start;

        block_fill(&block, from, step, 0);
        start = board_clock();
        memcpy(to, from, bytes);
        printf("%.9f\n", board_clock() - start);
        if (block_count_wrong(&block, to, step, 0, stride) != 0) {
            fprintf(stderr, "%s: wrong values\n", argv[0]);
            return 1;
        }
    }
    free(to);
    free(from);
    return 0;
}
