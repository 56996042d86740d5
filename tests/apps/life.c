/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary HDF5 program that ends, restarts HDF5, forks and chooses its connector in the ways
 * that programs do; what it prints is the same over plain files and through the market.
 *
 *   life CASE FILE     the case's part as a writer; `life read FILE` prints what is in the file
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT 1000

static double values[COUNT];
static const char *path;

static void fill(double value)
{
    for (int i = 0; i < COUNT; i++)
        values[i] = value + i;
}

static hid_t degree(H5F_close_degree_t close_degree)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fclose_degree(list, close_degree);
    return list;
}

static hid_t put(hid_t file, const char *name, double value)
{
    hsize_t dims = COUNT;
    hid_t space = H5Screate_simple(1, &dims, NULL);
    hid_t dataset =
        H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t attribute =
        H5Acreate2(dataset, "value", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT);
    fill(value);
    printf("%s: write %d, attribute %d\n", name,
           H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
           H5Awrite(attribute, H5T_NATIVE_DOUBLE, values));
    H5Aclose(attribute);
    H5Sclose(space);
    return dataset;
}

static void show_dataset(hid_t dataset, const char *name)
{
    int wrong = 0;
    memset(values, 0xee, sizeof(values));
    herr_t status = H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    for (int i = 1; i < COUNT; i++)
        wrong += values[i] != values[0] + i;
    printf("%s: read %d, from %g, %d wrong\n", name, status, status < 0 ? 0 : values[0], wrong);
}

static herr_t show_link(hid_t file, const char *name, const H5L_info2_t *info, void *context)
{
    (void)info, (void)context;
    hid_t object = H5Oopen(file, name, H5P_DEFAULT);
    if (H5Iget_type(object) == H5I_DATASET)
        show_dataset(object, name);
    else
        printf("%s\n", name);
    H5Oclose(object);
    return 0;
}

static void show(hid_t access)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
    printf("open %s\n", file < 0 ? "fails" : "succeeds");
    if (file < 0)
        return;
    H5Literate2(file, H5_INDEX_NAME, H5_ITER_INC, NULL, show_link, NULL);
    printf("close %d\n", H5Fclose(file));
}

static void count(hid_t file)
{
    printf("open objects %zd, files %zd, datasets %zd, attributes %zd\n",
           H5Fget_obj_count(file, H5F_OBJ_ALL), H5Fget_obj_count(file, H5F_OBJ_FILE),
           H5Fget_obj_count(file, H5F_OBJ_DATASET), H5Fget_obj_count(file, H5F_OBJ_ATTR));
}

/* ---- cases ---- */

static void left_open(void)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put(file, "a", 1);
    H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Tcommit2(file, "type", H5Tcopy(H5T_NATIVE_INT), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t b = put(file, "b", 2);
    H5Aopen(b, "value", H5P_DEFAULT);
    H5Freopen(file);
    H5Dget_space(b);
    count(file);
}

static void left_open_quick_exit(void)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Dclose(put(file, "a", 1));
    H5Fclose(file);
    file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t a = H5Dopen2(file, "a", H5P_DEFAULT);
    show_dataset(a, "a");
    fflush(stdout);
    _exit(0);
}

static void dont_atexit(void)
{
    H5dont_atexit();
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put(file, "a", 1);
    H5close();
}

static void weak(void)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, degree(H5F_CLOSE_WEAK));
    hid_t a = put(file, "a", 1),
          group = H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    printf("close %d\n", H5Fclose(file));
    show_dataset(a, "a");
    hid_t inside = put(group, "inside", 3);
    hid_t again = H5Iget_file_id(a);
    count(again);
    printf("file %d\n", again > 0);
    H5Fclose(again);
    fill(5);
    printf("write %d\n", H5Dwrite(a, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    printf("close %d %d %d\n", H5Dclose(a), H5Gclose(group), H5Dclose(inside));
    show(H5P_DEFAULT);
}

static void semi(void)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, degree(H5F_CLOSE_SEMI));
    hid_t a = put(file, "a", 1);
    printf("close with an open dataset %d\n", H5Fclose(file));
    H5Dclose(a);
    printf("close %d\n", H5Fclose(file));
    show(degree(H5F_CLOSE_SEMI));
}

static void strong(void)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, degree(H5F_CLOSE_STRONG));
    hid_t second = H5Fopen(path, H5F_ACC_RDWR, degree(H5F_CLOSE_STRONG));
    hid_t a = put(file, "a", 1), b = put(second, "b", 2);
    printf("mixed degrees %d\n", H5Fopen(path, H5F_ACC_RDWR, degree(H5F_CLOSE_WEAK)) >= 0);
    count(file);
    printf("close %d\n", H5Fclose(file));
    show_dataset(a, "a");
    show_dataset(b, "b");
    printf("close %d\n", H5Fclose(second));
    printf("valid %d %d\n", H5Iis_valid(a), H5Iis_valid(b));
    show(degree(H5F_CLOSE_STRONG));
}

static void again(void)
{
    for (int round = 0; round < 3; round++) {
        hid_t file = round ? H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT)
                           : H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        char name[] = {(char)('a' + round), 0};
        put(file, name, round);
        printf("H5close %d\n", H5close());
        printf("H5open %d\n", H5open());
        show(H5P_DEFAULT);
    }
    H5close();
    show(H5P_DEFAULT);
}

static void wait_for(pid_t child)
{
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

/* The child of a program that has a file open exits (its HDF5 closes what it inherited), then one
 * that reads another file first. */
static void forks(void)
{
    char other[4096];
    snprintf(other, sizeof(other), "%s.other", path);
    hid_t file = H5Fcreate(other, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Dclose(put(file, "o", 7));
    H5Fclose(file);
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t a = put(file, "a", 1);
    H5Fflush(file, H5F_SCOPE_GLOBAL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        path = other;
        show(H5P_DEFAULT);
        fflush(stdout);
        _exit(3);
    }
    wait_for(child);
    fill(10);
    printf("write %d\n", H5Dwrite(a, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    fflush(stdout);
    if (child = fork(), child == 0)
        execlp("true", "true", (char *)NULL);
    wait_for(child);
    H5Dclose(put(file, "b", 2));
    show_dataset(a, "a");
    H5Dclose(a);
    printf("close %d\n", H5Fclose(file));
    show(H5P_DEFAULT);
}

/* By hand, where the environment names no connector. Natively the native one. */
static void by_hand(const char *connector, const char *text)
{
    hid_t id = strcmp(connector, "native") == 0
                   ? H5VLget_connector_id_by_name("native")
                   : H5VLregister_connector_by_name(connector, H5P_DEFAULT);
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    void *info = NULL;
    if (text && strcmp(connector, "native") != 0)
        printf("info %d\n", H5VLconnector_str_to_info(text, id, &info));
    else if (text)
        printf("info 0\n");
    printf("set %d\n", H5Pset_vol(list, id, info));
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, list);
    H5Dclose(put(file, "a", 1));
    count(file);
    printf("close %d\n", H5Fclose(file));
    show(list);
    printf("accessible %d\n", H5Fis_accessible(path, list));
    printf("lists %d\n", H5Pclose(list));
    if (info)
        printf("free %d\n", H5VLfree_connector_info(id, info));
    else if (text)
        printf("free 0\n");
    printf("connector %d\n", H5VLclose(id));
}

static void by_hand_null(void)
{
    by_hand(getenv("LIFE_CONNECTOR"), NULL);
}
static void by_hand_options(void)
{
    by_hand(getenv("LIFE_CONNECTOR"), "wait=2");
}

/* Its last words are the time. */
static void exits(void)
{
    hsize_t dims = (hsize_t)(atof(getenv("LIFE_MIB")) * 131072);
    double *big = calloc(dims, sizeof(double));
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, &dims, NULL);
    hid_t dataset =
        H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, big);
    H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, big);
    H5Dclose(dataset);
    H5Fclose(file);
    free(big);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%.9f\n", (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
}

static void never_used(void)
{
    printf("open %d\n", H5open());
}

static void reads(void)
{
    show(H5P_DEFAULT);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"left_open", left_open},
                 {"left_open_quick_exit", left_open_quick_exit},
                 {"dont_atexit", dont_atexit},
                 {"weak", weak},
                 {"semi", semi},
                 {"strong", strong},
                 {"again", again},
                 {"forks", forks},
                 {"by_hand_null", by_hand_null},
                 {"by_hand_options", by_hand_options},
                 {"never_used", never_used},
                 {"exits", exits},
                 {"read", reads}};
    if (argc != 3)
        return 2;
    path = argv[2];
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    return 2;
}
