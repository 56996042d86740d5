/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The turn board: how the benchmark's programs take turns and hand in their times.
 *
 * A small file in /dev/shm that `run` creates and every rank of the writer and of the reader maps.
 * It is no part of what is measured: ranks look at it only outside their timed regions, and a rank
 * that waits sleeps in the kernel, so that programs which aren't at their turn use no processor.
 *
 * Turns:  0 ready -> for each step: prepare (all) -> write (writers) -> read (readers) -> linger ->
 * leave `run` moves 0 to the first prepare and linger to leave; the last rank of a turn moves all
 * others.
 *
 * `run` knows this layout; change both together.
 */
#ifndef BENCH_BOARD_H
#define BENCH_BOARD_H

#include <stdint.h>

#define BOARD_MAGIC     0x6b6d6235u
#define BOARD_SEATS_MAX 32
#define BOARD_STEPS_MAX 128

enum board_part {
    BOARD_PREPARE,
    BOARD_WRITE,
    BOARD_READ,
    BOARD_PARTS
};

/* Little-endian, shared with `run`; the 32-bit words are accessed atomically. */
struct board_shm {
    uint32_t magic;
    uint32_t writers;
    uint32_t readers;
    uint32_t steps;
    uint32_t warm_up_steps;
    uint32_t turn;
    uint32_t done;
    uint32_t ready;
    uint32_t failed;
    uint32_t reserved;
    uint32_t pid[BOARD_SEATS_MAX];
    double seconds[BOARD_STEPS_MAX][BOARD_SEATS_MAX];
};

/* Maps the board; NULL with a message on stderr. It stays mapped until the process ends. */
struct board_shm *board_open(const char *path);

/* Says that this rank has touched its memory and waits at the door. Seats: writers first, then
 * readers. */
void board_join(struct board_shm *board, int seat);

/* Sleeps until it is the turn of `part` of `step`; exits the process if another one failed. */
void board_wait(struct board_shm *board, int step, enum board_part part);

/* This rank has finished its present turn. */
void board_pass(struct board_shm *board, enum board_part part);

/* After the last step: sleeps until `run` has looked at the processes' memory. */
void board_linger(struct board_shm *board);

/* Tells everybody that this program gives up. NULL is allowed. */
void board_fail(struct board_shm *board);

/* Seconds of a monotonic clock that all processes of the node share. */
double board_clock(void);

#endif
