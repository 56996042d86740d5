/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain HDF5 program whose calls are its arguments, one an argument, so that a test is a few
 * lines of shell. Built with MPI it is a parallel program, too. It ends with 1 at the first call
 * that fails (or succeeds after a `!`).
 *
 *   h5do [late] CALL...       late: no MPI_Init before the call `mpi-init`
 *
 *   access serial|world|self|split N     the access list from here on; split: by rank modulo N
 *   transfer independent|collective
 *   create F, excl F, open F, openrw F   opens a file and makes it the current one
 *   use N                                the Nth opened file that is still open, from 0
 *   close, flush                         of the current file; the one opened before is current then
 *   make D N, makevl D                   datasets: N integers, one of variable length
 *   put D V                              writes this rank's block: element i is V + i
 *   putall D V, putnone D                all of it; nothing of it (an empty selection)
 *   check D V, checkpart D V, zeros D    reads and compares all of it, this rank's block; all is 0
 *   keep D                               opens a dataset and leaves it open
 *   write V, read V, drop                putall and check of it; closes it
 *   constant                             reads it: element i is i more than the first
 *   group G, attr A V, checkattr A V     of the current file
 *   accessible F, delete F               H5Fis_accessible, H5Fdelete
 *   mark F, await F, sleep S, barrier
 *   say TEXT                             prints TEXT and the seconds since the last `say`
 *   fork CALL                            a child makes the call and exits; the parent waits for it
 *   close-descriptors                    of the process, from 3 on
 *   h5close, mpi-init, mpi-finalize, exit, abort, kill
 *   handle                               a handler of SIGINT, and a thread that could take it
 *
 * Before a call: `!` it must fail; `@N`, `@!N` only on rank N, on all others. In arguments {r} is
 * the rank, {c} the rank modulo N of `split`.
 */
#include <hdf5.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef H5DO_MPI
#include <mpi.h>
#endif

#define MAX_FILES 64
#define ZEROS     INT64_MIN
#define ANY       INT64_MAX

struct opened {
    hid_t id;
    int rank, size; /* in the communicator it was opened with */
};

static struct opened files[MAX_FILES];
static int files_count, current = -1;
static hid_t access_list, transfer_list, kept = H5I_INVALID_HID;
static int rank, color, group_rank, group_size = 1;

/* ---- MPI, where there is one ---- */

static void mpi_init(void)
{
#ifdef H5DO_MPI
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#endif
}

static void mpi_finalize(void)
{
#ifdef H5DO_MPI
    int is_on = 0, is_over = 0;
    MPI_Initialized(&is_on);
    MPI_Finalized(&is_over);
    if (is_on && !is_over)
        MPI_Finalize();
#endif
}

static int barrier(void)
{
#ifdef H5DO_MPI
    MPI_Barrier(MPI_COMM_WORLD);
#endif
    return 0;
}

static int set_access(const char *how, int parts)
{
    if (access_list > 0)
        H5Pclose(access_list);
    access_list = H5Pcreate(H5P_FILE_ACCESS);
    color = 0;
    group_rank = 0;
    group_size = 1;
    if (strcmp(how, "serial") == 0)
        return 0;
#ifdef H5DO_MPI
    MPI_Comm comm = MPI_COMM_WORLD;
    if (strcmp(how, "self") == 0)
        comm = MPI_COMM_SELF;
    if (strcmp(how, "split") == 0) {
        color = rank % parts;
        MPI_Comm_split(MPI_COMM_WORLD, color, rank, &comm);
    }
    MPI_Comm_rank(comm, &group_rank);
    MPI_Comm_size(comm, &group_size);
    int result = H5Pset_fapl_mpio(access_list, comm, MPI_INFO_NULL);
    if (strcmp(how, "split") == 0)
        MPI_Comm_free(&comm); /* HDF5 has a copy */
    return result;
#else
    (void)parts;
    return -1;
#endif
}

static int set_transfer(const char *how)
{
#ifdef H5DO_MPI
    int collective = strcmp(how, "collective") == 0;
    return H5Pset_dxpl_mpio(transfer_list,
                            collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
#else
    (void)how;
    return -1;
#endif
}

/* ---- files ---- */

static int open_file(const char *verb, const char *path)
{
    hid_t id;
    if (strcmp(verb, "create") == 0)
        id = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access_list);
    else if (strcmp(verb, "excl") == 0)
        id = H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, access_list);
    else
        id =
            H5Fopen(path, strcmp(verb, "openrw") == 0 ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access_list);
    if (id < 0)
        return -1;
    current = files_count;
    files[files_count++] = (struct opened){.id = id, .rank = group_rank, .size = group_size};
    return 0;
}

static int close_file(void)
{
    hid_t id = files[current].id;
    memmove(&files[current], &files[current + 1],
            sizeof(files[0]) * (size_t)(files_count - current - 1));
    current = --files_count - 1;
    int result = H5Fclose(id);
    if (result < 0) /* a failed close leaves the id; closed again it succeeds */
        H5E_BEGIN_TRY
        {
            H5Fclose(id);
        }
    H5E_END_TRY
    return result;
}

/* ---- data ---- */

static int make_dataset(const char *name, hsize_t elements)
{
    hid_t space = H5Screate_simple(1, &elements, NULL);
    hid_t id = H5Dcreate2(files[current].id, name, H5T_NATIVE_INT64, space, H5P_DEFAULT,
                          H5P_DEFAULT, H5P_DEFAULT);
    H5Sclose(space);
    return id < 0 ? -1 : H5Dclose(id);
}

static int make_variable(const char *name)
{
    hsize_t one = 1;
    int values[2] = {1, 2};
    hvl_t element = {2, values};
    hid_t space = H5Screate_simple(1, &one, NULL), type = H5Tvlen_create(H5T_NATIVE_INT);
    hid_t id =
        H5Dcreate2(files[current].id, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    int result = id < 0 ? -1 : H5Dwrite(id, type, H5S_ALL, H5S_ALL, transfer_list, &element);
    if (id >= 0)
        H5Dclose(id);
    H5Tclose(type);
    H5Sclose(space);
    return result;
}

enum part {
    ALL,
    BLOCK,
    NOTHING
};

static int compare(const int64_t *values, hsize_t from, hsize_t count, int64_t value)
{
    if (value == ANY)
        value = count > 0 ? values[0] - (int64_t)from : 0;
    for (hsize_t i = 0; i < count; i++) {
        int64_t want = value == ZEROS ? 0 : value + (int64_t)(from + i);
        if (values[i] != want) {
            printf("h5do: rank %d: element %llu is %" PRId64 ", not %" PRId64 "\n", rank,
                   (unsigned long long)(from + i), values[i], want);
            return -1;
        }
    }
    return 0;
}

static int transfer(hid_t dataset, enum part part, int64_t value, int writing)
{
    hid_t space = H5Dget_space(dataset);
    hsize_t count = (hsize_t)H5Sget_simple_extent_npoints(space), from = 0;
    if (part == NOTHING) {
        H5Sselect_none(space);
        count = 0;
    } else if (part == BLOCK) {
        hsize_t n = count, r = (hsize_t)files[current].rank, of = (hsize_t)files[current].size;
        from = n * r / of;
        count = n * (r + 1) / of - from;
        if (count == 0)
            H5Sselect_none(space);
        else
            H5Sselect_hyperslab(space, H5S_SELECT_SET, &from, NULL, &count, NULL);
    }
    hsize_t held = count ? count : 1;
    hid_t memory = H5Screate_simple(1, &held, NULL);
    if (count == 0)
        H5Sselect_none(memory);
    int64_t *values = malloc(sizeof(*values) * held);
    memset(values, 0xee, sizeof(*values) * held);
    int result;
    if (writing) {
        for (hsize_t i = 0; i < count; i++)
            values[i] = value + (int64_t)(from + i);
        result = H5Dwrite(dataset, H5T_NATIVE_INT64, memory, space, transfer_list, values);
    } else {
        result = H5Dread(dataset, H5T_NATIVE_INT64, memory, space, transfer_list, values);
        if (result >= 0)
            result = compare(values, from, count, value);
    }
    free(values);
    H5Sclose(memory);
    H5Sclose(space);
    return result;
}

static int transfer_named(const char *name, enum part part, int64_t value, int writing)
{
    hid_t dataset = H5Dopen2(files[current].id, name, H5P_DEFAULT);
    if (dataset < 0)
        return -1;
    int result = transfer(dataset, part, value, writing);
    H5Dclose(dataset);
    return result;
}

static int write_attribute(const char *name, int64_t value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t id =
        H5Acreate2(files[current].id, name, H5T_NATIVE_INT64, space, H5P_DEFAULT, H5P_DEFAULT);
    int result = id < 0 ? -1 : H5Awrite(id, H5T_NATIVE_INT64, &value);
    if (id >= 0)
        H5Aclose(id);
    H5Sclose(space);
    return result;
}

static int check_attribute(const char *name, int64_t value)
{
    int64_t got = 0;
    hid_t id = H5Aopen(files[current].id, name, H5P_DEFAULT);
    int result = id < 0 ? -1 : H5Aread(id, H5T_NATIVE_INT64, &got);
    if (id >= 0)
        H5Aclose(id);
    return result < 0 ? result : compare(&got, 0, 1, value);
}

static int make_group(const char *name)
{
    hid_t id = H5Gcreate2(files[current].id, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    return id < 0 ? -1 : H5Gclose(id);
}

/* ---- the process ---- */

static int await(const char *path)
{
    struct stat status;
    for (int tries = 0; tries < 3000; tries++) {
        if (stat(path, &status) == 0)
            return 0;
        usleep(10000);
    }
    return -1;
}

static int mark(const char *path)
{
    FILE *file = fopen(path, "w");
    return file ? fclose(file) : -1;
}

static void on_interrupt(int number)
{
    (void)number;
    (void)!write(STDOUT_FILENO, "interrupted\n", 12);
}

static void *idle(void *unused)
{
    for (;;)
        pause();
    return unused;
}

/* As numerical libraries have threads of their own. */
static int handle(void)
{
    pthread_t thread;
    if (signal(SIGINT, on_interrupt) == SIG_ERR)
        return -1;
    return pthread_create(&thread, NULL, idle, NULL) == 0 ? 0 : -1;
}

static int say(const char *text)
{
    static double last;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double at = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    printf("%s %.2f\n", text, last ? at - last : 0.0);
    last = at;
    return 0;
}

static int call(char *line);

static int fork_child(char *line)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(call(line) < 0 ? 1 : 0); /* with HDF5's own end of the process */
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : -1;
}

static int end_process(const char *verb)
{
    fflush(stdout);
    if (strcmp(verb, "exit") == 0)
        exit(0);
    if (strcmp(verb, "abort") == 0)
        abort();
    return kill(getpid(), SIGKILL);
}

/* ---- calls ---- */

static int call_of_data(const char *verb, const char *a, int64_t value)
{
    if (strcmp(verb, "make") == 0)
        return make_dataset(a, (hsize_t)value);
    if (strcmp(verb, "makevl") == 0)
        return make_variable(a);
    if (strcmp(verb, "put") == 0)
        return transfer_named(a, BLOCK, value, 1);
    if (strcmp(verb, "putall") == 0)
        return transfer_named(a, ALL, value, 1);
    if (strcmp(verb, "putnone") == 0)
        return transfer_named(a, NOTHING, value, 1);
    if (strcmp(verb, "check") == 0)
        return transfer_named(a, ALL, value, 0);
    if (strcmp(verb, "zeros") == 0)
        return transfer_named(a, ALL, ZEROS, 0);
    if (strcmp(verb, "checkpart") == 0)
        return transfer_named(a, BLOCK, value, 0);
    if (strcmp(verb, "keep") == 0)
        return (kept = H5Dopen2(files[current].id, a, H5P_DEFAULT)) < 0 ? -1 : 0;
    if (strcmp(verb, "write") == 0)
        return transfer(kept, ALL, atoll(a), 1);
    if (strcmp(verb, "read") == 0)
        return transfer(kept, ALL, atoll(a), 0);
    if (strcmp(verb, "constant") == 0)
        return transfer(kept, ALL, ANY, 0);
    if (strcmp(verb, "drop") == 0)
        return H5Dclose(kept);
    if (strcmp(verb, "group") == 0)
        return make_group(a);
    if (strcmp(verb, "attr") == 0)
        return write_attribute(a, value);
    if (strcmp(verb, "checkattr") == 0)
        return check_attribute(a, value);
    printf("h5do: unknown call %s\n", verb);
    exit(2);
}

static int call_of_file(const char *verb, char *a, const char *b)
{
    if (strcmp(verb, "access") == 0)
        return set_access(a, atoi(b));
    if (strcmp(verb, "transfer") == 0)
        return set_transfer(a);
    if (strcmp(verb, "create") == 0 || strcmp(verb, "excl") == 0 || strcmp(verb, "open") == 0 ||
        strcmp(verb, "openrw") == 0)
        return open_file(verb, a);
    if (strcmp(verb, "use") == 0)
        return (current = atoi(a)) < files_count ? 0 : -1;
    if (strcmp(verb, "close") == 0)
        return close_file();
    if (strcmp(verb, "flush") == 0)
        return H5Fflush(files[current].id, H5F_SCOPE_GLOBAL);
    if (strcmp(verb, "accessible") == 0)
        return H5Fis_accessible(a, access_list) > 0 ? 0 : -1;
    if (strcmp(verb, "delete") == 0)
        return H5Fdelete(a, access_list);
    return call_of_data(verb, a, atoll(b));
}

static int call_of_process(const char *verb, char *rest)
{
    if (strcmp(verb, "fork") == 0)
        return fork_child(rest);
    if (strcmp(verb, "mark") == 0)
        return mark(rest);
    if (strcmp(verb, "await") == 0)
        return await(rest);
    if (strcmp(verb, "sleep") == 0)
        return usleep((useconds_t)(atof(rest) * 1e6));
    if (strcmp(verb, "handle") == 0)
        return handle();
    if (strcmp(verb, "say") == 0)
        return say(rest);
    if (strcmp(verb, "barrier") == 0)
        return barrier();
    if (strcmp(verb, "close-descriptors") == 0)
        return closefrom(3), 0;
    if (strcmp(verb, "h5close") == 0)
        return H5close();
    if (strcmp(verb, "mpi-init") == 0)
        return mpi_init(), 0;
    if (strcmp(verb, "mpi-finalize") == 0)
        return mpi_finalize(), 0;
    if (strcmp(verb, "exit") == 0 || strcmp(verb, "abort") == 0 || strcmp(verb, "kill") == 0)
        return end_process(verb);
    char *space = strrchr(rest, ' ');
    const char *second = "";
    if (space) {
        *space = '\0';
        second = space + 1;
    }
    return call_of_file(verb, rest, second);
}

/* {r} and {c} replaced; the caller frees. */
static char *expand(const char *line)
{
    char *out = malloc(8 * strlen(line) + 16), *end = out;
    for (; *line; line++) {
        if (strncmp(line, "{r}", 3) == 0 || strncmp(line, "{c}", 3) == 0) {
            end += sprintf(end, "%d", line[1] == 'r' ? rank : color);
            line += 2;
        } else
            *end++ = *line;
    }
    *end = '\0';
    return out;
}

static int call(char *line)
{
    char *rest = strchr(line, ' ');
    if (rest)
        *rest++ = '\0';
    return call_of_process(line, rest ? rest : line + strlen(line));
}

/* The call, unless it is for another rank. False if it went otherwise than it should. */
static int run(const char *argument)
{
    char *line = expand(argument), *at = line;
    int must_fail = 0, is_ours = 1;
    for (;; at += strspn(at, " ")) {
        if (*at == '!') {
            must_fail = 1;
            at++;
        } else if (*at == '@') {
            int negated = at[1] == '!';
            is_ours = (strtol(at + 1 + negated, &at, 10) == rank) != negated;
        } else
            break;
    }
    if (!is_ours) {
        free(line);
        return 1;
    }
    int failed = call(at) < 0;
    if (failed != must_fail)
        printf("h5do: rank %d: '%s' %s\n", rank, argument, failed ? "failed" : "succeeded");
    fflush(stdout);
    free(line);
    return failed == must_fail;
}

int main(int argc, char **argv)
{
    int at = 1;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (at < argc && strcmp(argv[at], "late") == 0)
        at++;
    else
        mpi_init();
#ifdef H5DO_MPI
    /* Before MPI_Init, too: as Open MPI says it, and MPICH. */
    const char *given = getenv("OMPI_COMM_WORLD_RANK");
    given = given ? given : getenv("PMI_RANK");
    rank = given ? atoi(given) : rank;
#endif
    H5Eset_auto2(H5E_DEFAULT, (H5E_auto2_t)H5Eprint2, stdout);
    access_list = H5Pcreate(H5P_FILE_ACCESS);
    transfer_list = H5Pcreate(H5P_DATASET_XFER);
    for (; at < argc; at++)
        if (!run(argv[at])) {
#ifdef H5DO_MPI
            int is_on = 0, is_over = 0;
            MPI_Initialized(&is_on);
            MPI_Finalized(&is_over);
            if (is_on && !is_over)
                MPI_Abort(MPI_COMM_WORLD, 1);
#endif
            _exit(1);
        }
    mpi_finalize();
    return 0;
}
