/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with threads: some wait for files that others of its threads write. Needs a
 * thread-safe HDF5 (77 without), and a connector that waits.
 * usage: threads CASE, see main
 */
#include "scenario.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAITERS 4
#define THREADS 8
#define FILES   12
#define N       5000
#define SKIP    77

static void nap(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void write_file(const char *path, int first)
{
    hsize_t n = N;
    int *values = malloc(N * sizeof(*values));
    hid_t file, space = H5Screate_simple(1, &n, NULL), dataset;
    for (int i = 0; i < N; i++)
        values[i] = first + i;
    MUST(file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    MUST(dataset =
             H5Dcreate2(file, "d", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    MUST(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    MUST(H5Dclose(dataset));
    MUST(H5Sclose(space));
    MUST(H5Fclose(file));
    free(values);
}

/* What is wrong with the file, or NULL. */
static const char *read_file(const char *path, int first)
{
    const char *wrong = NULL;
    int *values = calloc(N, sizeof(*values));
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), dataset = H5I_INVALID_HID;
    if (file < 0)
        wrong = "it can't be opened";
    if (!wrong && (dataset = H5Dopen2(file, "d", H5P_DEFAULT)) < 0)
        wrong = "it has no dataset";
    if (!wrong && H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        wrong = "it can't be read";
    for (int i = 0; !wrong && i < N; i++)
        if (values[i] != first + i)
            wrong = "a value is wrong";
    if (wrong == NULL && (H5Dclose(dataset) < 0 || H5Fclose(file) < 0))
        wrong = "it can't be closed";
    free(values);
    return wrong;
}

struct reader {
    pthread_t thread;
    const char *path;
    int first;
    bool quiet; /* an open that is to fail */
    const char *wrong;
};

static void *run_reader(void *argument)
{
    struct reader *reader = argument;
    if (reader->quiet)
        H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    reader->wrong = read_file(reader->path, reader->first);
    return NULL;
}

/* How many wait for the path, by the market's own word; each wait names its path. */
static int waits_for(const char *path)
{
    char line[512], end[64];
    int waits = 0;
    FILE *answer = popen("h5market stat --json 2>/dev/null", "r");
    snprintf(end, sizeof(end), "/%s\",\n", path);
    while (answer && fgets(line, sizeof(line), answer)) {
        const char *name = strrchr(line, '/');
        waits += strstr(line, "\"path\": ") && name && strcmp(name, end) == 0;
    }
    if (answer)
        pclose(answer);
    return waits;
}

/* Starts readers and returns when all of them wait. (One that begins when the file is open in this
 * process shares it, as it is then.) */
static void start_readers(struct reader *readers, int count)
{
    for (int i = 0; i < count; i++)
        CHECK(pthread_create(&readers[i].thread, NULL, run_reader, &readers[i]) == 0);
    for (int i = 0; i < count; i++) {
        int same = 0, tries = 1000;
        for (int k = 0; k < count; k++)
            same += strcmp(readers[k].path, readers[i].path) == 0;
        while (waits_for(readers[i].path) < same && tries-- > 0)
            nap(10);
        CHECK(tries > 0);
    }
}

static void check_readers(struct reader *readers, int count, const char *wrong)
{
    for (int i = 0; i < count; i++) {
        pthread_join(readers[i].thread, NULL);
        CHECK((readers[i].wrong != NULL) == (wrong != NULL));
        if (readers[i].wrong && wrong)
            CHECK(strcmp(readers[i].wrong, wrong) == 0);
        else if (readers[i].wrong)
            fprintf(stderr, "%s: %s\n", readers[i].path, readers[i].wrong);
    }
}

/* ---- cases ---- */

/* One thread waits; meanwhile another works with many files, and last makes the one that is waited
 * for. If the waiting thread kept HDF5's lock, it would wait in vain. */
static void waits_for_another_thread(void)
{
    struct reader reader = {.path = "late.h5", .first = 7};
    char path[32];
    start_readers(&reader, 1);
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof(path), "other%d.h5", i % FILES);
        write_file(path, i);
        const char *wrong = read_file(path, i);
        CHECK(wrong == NULL);
    }
    write_file("late.h5", 7);
    check_readers(&reader, 1, NULL);
}

/* Several wait for the same file and for different ones. */
static void several_wait(void)
{
    struct reader readers[2 * WAITERS];
    char paths[WAITERS][32];
    for (int i = 0; i < WAITERS; i++) {
        snprintf(paths[i], sizeof(paths[i]), "own%d.h5", i);
        readers[i] = (struct reader){.path = paths[i], .first = i};
        readers[WAITERS + i] = (struct reader){.path = "same.h5", .first = 99};
    }
    start_readers(readers, 2 * WAITERS);
    for (int i = WAITERS; i-- > 0;)
        write_file(paths[i], i);
    write_file("same.h5", 99);
    check_readers(readers, 2 * WAITERS, NULL);
}

/* A thread writes the file while another waits for it: the waiting one sees the whole. */
static void waits_while_it_is_written(void)
{
    struct reader reader = {.path = "slow.h5", .first = 1};
    hid_t file, space, dataset;
    hsize_t n = N, block = N / 10;
    int values[N];
    for (int i = 0; i < N; i++)
        values[i] = 1 + i;
    MUST(file = H5Fcreate("slow.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    space = H5Screate_simple(1, &n, NULL);
    /* Another process, since this one's next open shares the file. */
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "threads", "read", "slow.h5", "1", NULL);
        _exit(127);
    }
    reader.path = "later.h5";
    start_readers(&reader, 1);
    MUST(dataset =
             H5Dcreate2(file, "d", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    hid_t memory = H5Screate_simple(1, &block, NULL);
    for (hsize_t start = 0; start < n; start += block) {
        MUST(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &block, NULL));
        MUST(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values + start));
        nap(20);
    }
    H5Sclose(memory);
    H5Sclose(space);
    MUST(H5Dclose(dataset));
    MUST(H5Fclose(file));
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    write_file("later.h5", 1);
    check_readers(&reader, 1, NULL);
}

static void *run_own_files(void *argument)
{
    int number = *(int *)argument;
    char path[32];
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof(path), "t%d.%d.h5", number, i);
        write_file(path, number * 1000 + i);
        const char *wrong = read_file(path, number * 1000 + i);
        if (wrong)
            return argument;
    }
    return NULL;
}

/* Each thread has files of its own, while two more wait for the last of some. */
static void own_files(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    struct reader readers[2] = {{.path = "last0.h5", .first = 3}, {.path = "last1.h5", .first = 4}};
    start_readers(readers, 2);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, run_own_files, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *bad = NULL;
        pthread_join(threads[i], &bad);
        CHECK(bad == NULL);
    }
    write_file("last1.h5", 4);
    write_file("last0.h5", 3);
    check_readers(readers, 2, NULL);
}

/* H5close ends a wait, and the library can be used again. */
static void close_ends_waits(void)
{
    struct reader readers[2] = {{.path = "never0.h5", .quiet = true},
                                {.path = "never1.h5", .quiet = true}};
    write_file("before.h5", 1);
    start_readers(readers, 2);
    CHECK(H5close() >= 0);
    check_readers(readers, 2, "it can't be opened");
    CHECK(read_file("before.h5", 1) == NULL);
    struct reader reader = {.path = "after.h5", .first = 5};
    start_readers(&reader, 1);
    write_file("after.h5", 5);
    check_readers(&reader, 1, NULL);
}

/* The process ends while a thread waits. */
static void exit_ends_waits(void)
{
    static struct reader readers[2] = {{.path = "never0.h5", .quiet = true},
                                       {.path = "never1.h5", .quiet = true}};
    start_readers(readers, 2);
    write_file("last.h5", 1);
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

/* Ctrl-C ends all waits, and the program's own handler hears of it. */
static void interrupt_ends_waits(void)
{
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART}, now;
    struct reader readers[2] = {{.path = "never0.h5", .quiet = true},
                                {.path = "never1.h5", .quiet = true}};
    sigaction(SIGINT, &action, NULL);
    start_readers(readers, 2);
    kill(getpid(), SIGINT);
    check_readers(readers, 2, "it can't be opened");
    CHECK(signals == 1);
    CHECK(sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == count_signal);
    struct reader reader = {.path = "next.h5", .first = 5};
    start_readers(&reader, 1);
    write_file("next.h5", 5);
    check_readers(&reader, 1, NULL);
    CHECK(signals == 1);
}

/* Where the program has no handler, the process ends. */
static void interrupt_ends_the_process(void)
{
    static struct reader readers[2] = {{.path = "never0.h5", .quiet = true},
                                       {.path = "never1.h5", .quiet = true}};
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        start_readers(readers, 2);
        kill(getpid(), SIGINT);
        for (;;)
            pause();
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

/* A child that another thread forks meanwhile has its own connection, and its signals. */
static void fork_while_one_waits(void)
{
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    struct reader reader = {.path = "late.h5", .first = 7};
    int status = -1;
    sigaction(SIGINT, &action, NULL);
    start_readers(&reader, 1);
    H5Sclose(H5Screate(H5S_NULL)); /* it has given HDF5's lock away */
    pid_t child = fork();
    if (child == 0) {
        raise(SIGINT);
        CHECK(signals == 1);
        write_file("late.h5", 7);
        /* HDF5 can't end in a child: what the other thread has of it stays. */
        _exit(failures > 0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    check_readers(&reader, 1, NULL);
    CHECK(signals == 0);
}

/* An open inside an iteration keeps the lock: HDF5 is in the middle of another call. */
struct inside {
    pthread_t writer;
    int calls, written, wrong;
};

static void *run_writer(void *argument)
{
    write_file("b.h5", 2);
    __atomic_store_n(&((struct inside *)argument)->written, 1, __ATOMIC_RELEASE);
    return NULL;
}

static herr_t open_inside(hid_t group, const char *name, const H5L_info2_t *info, void *context)
{
    struct inside *inside = context;
    (void)group, (void)name, (void)info;
    inside->calls++;
    inside->wrong += pthread_create(&inside->writer, NULL, run_writer, inside) != 0;
    H5E_BEGIN_TRY
    {
        inside->wrong += H5Fopen("never.h5", H5F_ACC_RDONLY, H5P_DEFAULT) >= 0;
    }
    H5E_END_TRY
    inside->wrong += __atomic_load_n(&inside->written, __ATOMIC_ACQUIRE) != 0;
    return 0;
}

static void nested_open_keeps_the_lock(void)
{
    struct inside inside = {.calls = 0};
    hid_t file;
    write_file("a.h5", 1);
    MUST(file = H5Fopen("a.h5", H5F_ACC_RDONLY, H5P_DEFAULT));
    MUST(H5Literate2(file, H5_INDEX_NAME, H5_ITER_INC, NULL, open_inside, &inside));
    MUST(H5Fclose(file));
    CHECK(inside.calls == 1 && inside.wrong == 0);
    pthread_join(inside.writer, NULL);
    CHECK(inside.written == 1 && read_file("b.h5", 2) == NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"waits_for_another_thread", waits_for_another_thread},
    {"several_wait", several_wait},
    {"waits_while_it_is_written", waits_while_it_is_written},
    {"own_files", own_files},
    {"close_ends_waits", close_ends_waits},
    {"exit_ends_waits", exit_ends_waits},
    {"interrupt_ends_waits", interrupt_ends_waits},
    {"interrupt_ends_the_process", interrupt_ends_the_process},
    {"fork_while_one_waits", fork_while_one_waits},
    {"nested_open_keeps_the_lock", nested_open_keeps_the_lock},
};

int main(int argc, char **argv)
{
    hbool_t threadsafe = false;
    if (H5is_library_threadsafe(&threadsafe) < 0 || !threadsafe) {
        printf("skipped: this HDF5 isn't thread-safe\n");
        return SKIP;
    }
    if (argc == 4 && strcmp(argv[1], "read") == 0) {
        const char *wrong = read_file(argv[2], atoi(argv[3]));
        if (wrong)
            fprintf(stderr, "%s: %s\n", argv[2], wrong);
        return wrong != NULL;
    }
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            scenario = cases[i].name;
            cases[i].run();
            return failures > 0;
        }
    fprintf(stderr, "usage: threads CASE | threads read FILE FIRST\n");
    return 2;
}
