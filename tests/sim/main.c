/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim [--from N] [--count N] [--memory] | --seed N [--memory] [--trace]
 * Runs schedules; the first that fails prints its seed and how to see it again. --memory lets
 * allocations in the market fail.
 */
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    uint64_t from = 1, count = 100, steps = 0, kills = 0, publishes = 0, reads = 0, errors = 0,
             restarts = 0, deaths = 0, moves = 0, fetches = 0, far_grants = 0,
             failed_allocations = 0, delivered = 0, ends = 0, waits = 0;
    bool trace = false, memory = false;
    double start = seconds();

    setvbuf(stdout, NULL, _IOLBF, 0);

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            trace = true;
        } else if (strcmp(argv[i], "--memory") == 0) {
            memory = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            from = strtoull(argv[++i], NULL, 0);
            count = 1;
        } else if (i + 1 < argc && strcmp(argv[i], "--from") == 0) {
            from = strtoull(argv[++i], NULL, 0);
        } else if (i + 1 < argc && strcmp(argv[i], "--count") == 0) {
            count = strtoull(argv[++i], NULL, 0);
        } else {
            fprintf(stderr,
                    "usage: %s [--from N] [--count N] [--memory] | --seed N [--memory] [--trace]\n",
                    argv[0]);
            return 2;
        }
    }
    for (uint64_t seed = from; seed < from + count; seed++) {
        if (!schedule_run(seed, trace, memory)) {
            printf("seed %llu, step %llu: %s\nto see it: %s --seed %llu%s --trace\n",
                   (unsigned long long)seed, (unsigned long long)world.steps, world.failure,
                   argv[0], (unsigned long long)seed, memory ? " --memory" : "");
            return 1;
        }
        steps += world.steps;
        kills += world.kills;
        publishes += world.publishes;
        reads += world.reads;
        errors += world.errors;
        restarts += world.restarts;
        deaths += world.deaths;
        delivered += world.stream_reads;
        ends += world.stream_ends;
        waits += world.stream_waits;
        moves += world.moves;
        fetches += world.fetches;
        far_grants += world.far_grants;
        failed_allocations += memory_failures();
    }
    printf("%llu schedules, %.0f a second: %llu steps, %llu kills, %llu versions published, %llu "
           "read, %llu errors, %llu restarts (%llu in the middle of a call), %llu moves, %llu "
           "reads from the tier, %llu grants from another node, %llu allocations failed; %llu "
           "versions delivered to named "
           "readers, %llu told of an end, %llu "
           "writers told of a full queue\n",
           (unsigned long long)count, (double)count / (seconds() - start),
           (unsigned long long)steps, (unsigned long long)kills, (unsigned long long)publishes,
           (unsigned long long)reads, (unsigned long long)errors, (unsigned long long)restarts,
           (unsigned long long)deaths, (unsigned long long)moves, (unsigned long long)fetches,
           (unsigned long long)far_grants, (unsigned long long)failed_allocations,
           (unsigned long long)delivered, (unsigned long long)ends, (unsigned long long)waits);
    return 0;
}
