/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process knows of itself: which one it is, and on which processor it runs. */
#include "core/base/process_number.h"
#include "core/base/processor.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 8

static void *ask(void *number)
{
    *(uint64_t *)number = mkt_process_number();
    return NULL;
}

/* Before anything else asks: the threads meet at the first time. */
static void test_process_number_is_one_for_all_threads(void **state)
{
    pthread_t threads[THREADS];
    uint64_t numbers[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &numbers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(numbers[0] != 0);
    for (int i = 0; i < THREADS; i++)
        assert_true(numbers[i] == mkt_process_number());
}

static void tell(int fd)
{
    uint64_t number = mkt_process_number();
    if (write(fd, &number, sizeof(number)) != sizeof(number))
        _exit(1);
}

static void test_process_number_differs_in_forked_children(void **state)
{
    uint64_t own = mkt_process_number(), child, grandchild;
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    if (fork() == 0) {
        tell(ends[1]);
        if (fork() == 0)
            tell(ends[1]);
        _exit(0);
    }
    assert_int_equal(read(ends[0], &child, sizeof(child)), sizeof(child));
    assert_int_equal(read(ends[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
    assert_true(wait(NULL) > 0);
    assert_true(child != own && grandchild != own && child != grandchild);
    assert_true(mkt_process_number() == own);
    close(ends[0]);
    close(ends[1]);
}

static void test_processor_is_left_for_another(void **state)
{
    cpu_set_t before, after;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    for (int i = 0; i < 20; i++) {
        int here = sched_getcpu();
        mkt_processor_leave();
        int now = sched_getcpu();
        /* (The kernel may move it back between the two.) */
        if (CPU_COUNT(&before) == 1)
            assert_int_equal(now, here);
        else if (now != here)
            break;
        assert_true(i < 19 || CPU_COUNT(&before) == 1);
    }
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static void test_processor_stays_where_there_is_no_other(void **state)
{
    cpu_set_t before, one, after;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    int here = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET((size_t)here, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    mkt_processor_leave();
    assert_int_equal(sched_getcpu(), here);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&one, &after));
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process_number_is_one_for_all_threads),
        cmocka_unit_test(test_process_number_differs_in_forked_children),
        cmocka_unit_test(test_processor_is_left_for_another),
        cmocka_unit_test(test_processor_stays_where_there_is_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
