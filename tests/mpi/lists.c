/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain parallel HDF5 program: what file access lists with mpio are before and after the calls
 * that use them, and what a file's own list says. Rank 0 prints it.
 *
 *   lists FOLDER
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

static int rank;

static void tell(const char *what, const char *step, long answer)
{
    long all = 0;

    MPI_Reduce(&answer, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %s: %ld\n", what, step, all);
}

/* 0: another communicator, or none. */
static int has_communicator(hid_t list, MPI_Comm wanted)
{
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    int result = MPI_UNEQUAL;

    if (H5Pget_fapl_mpio(list, &comm, &info) < 0)
        return 0;
    MPI_Comm_compare(comm, wanted, &result);
    MPI_Comm_free(&comm);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    return result == MPI_CONGRUENT;
}

static void look_at_list(const char *what, const char *step, hid_t list, hid_t before,
                         MPI_Comm comm)
{
    char name[64];

    snprintf(name, sizeof name, "%s, driver", step);
    tell(what, name, H5Pget_driver(list) == H5FD_MPIO);
    snprintf(name, sizeof name, "%s, equal", step);
    tell(what, name, H5Pequal(list, before));
    snprintf(name, sizeof name, "%s, communicator", step);
    tell(what, name, has_communicator(list, comm));
}

static void look_at_file(const char *what, hid_t file, MPI_Comm comm)
{
    H5F_close_degree_t degree = H5F_CLOSE_DEFAULT;
    hbool_t all = 0, write = 0;
    hid_t list = H5Fget_access_plist(file);

    H5Pget_fclose_degree(list, &degree);
    H5Pget_all_coll_metadata_ops(list, &all);
    H5Pget_coll_metadata_write(list, &write);
    tell(what, "the file's close degree", degree);
    tell(what, "the file's collective metadata", 2 * all + write);
    tell(what, "the file's communicator", has_communicator(list, comm));
    H5Pclose(list);
}

static void use(const char *what, const char *path, const char *missing, hid_t list, MPI_Comm comm)
{
    hid_t before = H5Pcopy(list), file, group;
    herr_t result;

    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, list);
    tell(what, "create", file >= 0);
    look_at_list(what, "after create", list, before, comm);
    look_at_file(what, file, comm);
    group = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    result = H5Fclose(file);
    tell(what, "close with an open object", result);
    H5Gclose(group);
    if (result < 0)
        tell(what, "close", H5Fclose(file));
    tell(what, "exclusive create", H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, list) >= 0);
    tell(what, "open of nothing", H5Fopen(missing, H5F_ACC_RDONLY, list) >= 0);
    look_at_list(what, "after failures", list, before, comm);
    for (int i = 0; i < 2; i++) {
        file = H5Fopen(path, i ? H5F_ACC_RDWR : H5F_ACC_RDONLY, list);
        tell(what, "open", file >= 0 && H5Lexists(file, "group", H5P_DEFAULT) > 0);
        look_at_file(what, file, comm);
        tell(what, "close", H5Fclose(file));
    }
    look_at_list(what, "after open", list, before, comm);
    H5Pclose(before);
}

int main(int argc, char **argv)
{
    char path[4096], missing[4096];
    MPI_Comm half;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2)
        return 2;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    snprintf(missing, sizeof missing, "%s/missing.h5", argv[1]);
    snprintf(path, sizeof path, "%s/lists.h5", argv[1]);
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL);
    use("as made", path, missing, list, MPI_COMM_WORLD);
    H5Pset_fclose_degree(list, H5F_CLOSE_WEAK);
    use("closed weakly", path, missing, list, MPI_COMM_WORLD);
    H5Pset_fclose_degree(list, H5F_CLOSE_STRONG);
    use("closed strongly", path, missing, list, MPI_COMM_WORLD);
    H5Pset_fclose_degree(list, H5F_CLOSE_DEFAULT);
    H5Pset_coll_metadata_write(list, 1);
    use("collective metadata writes", path, missing, list, MPI_COMM_WORLD);
    H5Pset_all_coll_metadata_ops(list, 1);
    use("collective metadata", path, missing, list, MPI_COMM_WORLD);
    H5Pset_coll_metadata_write(list, 0);
    H5Pset_all_coll_metadata_ops(list, 0);
    H5Pset_libver_bounds(list, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    use("none again, newer format", path, missing, list, MPI_COMM_WORLD);
    /* Each half has a file of its own. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    snprintf(path, sizeof path, "%s/half-%d.h5", argv[1], rank % 2);
    H5Pset_fapl_mpio(list, half, MPI_INFO_NULL);
    use("halves", path, missing, list, half);
    /* What was lent is as good as ever for native. */
    H5Pset_vol(list, H5VL_NATIVE, NULL);
    snprintf(path, sizeof path, "%s/native-%d.h5", argv[1], rank % 2);
    use("native", path, missing, list, half);
    H5Pclose(list);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
