/* SPDX-License-Identifier: BSD-3-Clause */
#include "board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(offsetof(struct board_shm, turn) == 20, "known to run");
_Static_assert(offsetof(struct board_shm, pid) == 40, "known to run");
_Static_assert(offsetof(struct board_shm, seconds) == 168, "known to run");

/* A wait ends with an error if nobody has moved the board for so long. */
#define SILENCE_S 300

double board_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct board_shm *board_open(const char *path)
{
    struct board_shm *board;
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size < (off_t)sizeof *board) {
        fprintf(stderr, "bench: %s is no turn board\n", path);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (board == MAP_FAILED || board->magic != BOARD_MAGIC) {
        fprintf(stderr, "bench: %s cannot be used as a turn board\n", path);
        return NULL;
    }
    return board;
}

static void wait_for_turn(struct board_shm *board, uint32_t wanted)
{
    const struct timespec look_again = {.tv_sec = 0, .tv_nsec = 100 * 1000 * 1000};
    double moved_at = board_clock();
    uint32_t last_seen = 0;

    for (;;) {
        uint32_t turn = __atomic_load_n(&board->turn, __ATOMIC_ACQUIRE);

        if (__atomic_load_n(&board->failed, __ATOMIC_ACQUIRE))
            _exit(3);
        if (turn >= wanted)
            return;
        if (turn != last_seen) {
            last_seen = turn;
            moved_at = board_clock();
        }
        if (board_clock() - moved_at > SILENCE_S) {
            fprintf(stderr, "bench: waited %d s for turn %u, the board stands at %u\n", SILENCE_S,
                    wanted, turn);
            board_fail(board);
            _exit(3);
        }
        syscall(SYS_futex, &board->turn, FUTEX_WAIT, turn, &look_again, NULL, 0);
    }
}

static void move_on(struct board_shm *board)
{
    __atomic_store_n(&board->done, 0, __ATOMIC_RELAXED);
    __atomic_add_fetch(&board->turn, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &board->turn, FUTEX_WAKE, BOARD_SEATS_MAX, NULL, NULL, 0);
}

void board_join(struct board_shm *board, int seat)
{
    board->pid[seat] = (uint32_t)getpid();
    __atomic_add_fetch(&board->ready, 1, __ATOMIC_RELEASE);
}

void board_wait(struct board_shm *board, int step, enum board_part part)
{
    wait_for_turn(board, (uint32_t)(1 + step * BOARD_PARTS + (int)part));
}

void board_pass(struct board_shm *board, enum board_part part)
{
    uint32_t members = 0;

    if (part != BOARD_READ)
        members += board->writers;
    if (part != BOARD_WRITE)
        members += board->readers;
    if (__atomic_add_fetch(&board->done, 1, __ATOMIC_ACQ_REL) == members)
        move_on(board);
}

void board_linger(struct board_shm *board)
{
    wait_for_turn(board, 1 + board->steps * BOARD_PARTS + 1);
}

void board_fail(struct board_shm *board)
{
    if (board == NULL)
        return;
    __atomic_store_n(&board->failed, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &board->turn, FUTEX_WAKE, BOARD_SEATS_MAX, NULL, NULL, 0);
}
