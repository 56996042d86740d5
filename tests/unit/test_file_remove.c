/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Removing a name that still leads to a file: two who are at it at once take away the file, and not
 * what a third puts there as soon as it is gone.
 */
#include "core/base/file_identity.h"
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 20000

static char folder[] = "/dev/shm/mkt-remove.XXXXXX", path[sizeof(folder) + 8];

static int make(void)
{
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static bool stands(int fd)
{
    struct stat held, there;
    return fstat(fd, &held) == 0 && lstat(path, &there) == 0 && held.st_ino == there.st_ino;
}

static void test_remove_takes_only_the_file_itself(void **state)
{
    (void)state;
    int former = make();
    assert_true(mkt_file_remove(former, path));
    assert_false(mkt_file_remove(former, path)); /* nothing is there */
    int next = make();
    assert_false(mkt_file_remove(former, path));
    assert_true(stands(next));
    assert_true(mkt_file_remove(next, path));
    close(former);
    close(next);
}

/* A lock that somebody holds for long delays it and doesn't prevent it. */
static void test_remove_gets_past_a_lock(void **state)
{
    (void)state;
    int fd = make(), other = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_true(mkt_file_remove(fd, path));
    close(fd);
    close(other);
}

static pthread_barrier_t barrier;

static void *remove_each_round(void *context)
{
    (void)context;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&barrier); /* it is there */
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        pthread_barrier_wait(&barrier); /* both have it open */
        mkt_file_remove(fd, path);
        close(fd);
        pthread_barrier_wait(&barrier); /* both are done */
    }
    return NULL;
}

static void test_remove_by_two_at_once_spares_the_next_file(void **state)
{
    (void)state;
    pthread_t threads[2];
    unsigned lost = 0;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 3), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, remove_each_round, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int next, fd = make();
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        do
            next = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        while (next < 0);
        pthread_barrier_wait(&barrier);
        lost += !stands(next);
        unlink(path);
        close(next);
        close(fd);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    assert_int_equal(lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remove_takes_only_the_file_itself),
        cmocka_unit_test(test_remove_gets_past_a_lock),
        cmocka_unit_test(test_remove_by_two_at_once_spares_the_next_file),
    };
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof(path), "%s/file", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
