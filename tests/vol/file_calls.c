/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file_calls FOLDER: each call that a file takes, on files opened in each way: whether it succeeds,
 * and what it answers where that isn't the machinery's own. A test compares the lines with
 * native's.
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char path[4096];

static void check(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "file_calls: %s failed\n", what);
    exit(1);
}

/* ---- the calls ---- */

static herr_t increment_filesize(hid_t file)
{
    return H5Fincrement_filesize(file, 4096);
}

static herr_t libver_bounds(hid_t file)
{
    return H5Fset_libver_bounds(file, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
}

static herr_t libver_bounds_latest(hid_t file)
{
    return H5Fset_libver_bounds(file, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
}

static herr_t libver_bounds_wrong(hid_t file)
{
    return H5Fset_libver_bounds(file, H5F_LIBVER_LATEST, H5F_LIBVER_EARLIEST);
}

static herr_t no_attrs_hint(hid_t file)
{
    return H5Fset_dset_no_attrs_hint(file, true);
}

static herr_t get_no_attrs_hint(hid_t file)
{
    hbool_t minimize = 0;
    herr_t result = H5Fget_dset_no_attrs_hint(file, &minimize);
    printf("(%d) ", minimize);
    return result;
}

static herr_t mdc_config(hid_t file)
{
    H5AC_cache_config_t config = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    herr_t result = H5Fget_mdc_config(file, &config);
    return result < 0 ? result : H5Fset_mdc_config(file, &config);
}

static herr_t mdc_logging(hid_t file)
{
    hbool_t enabled, logs;
    herr_t result = H5Fget_mdc_logging_status(file, &enabled, &logs);
    printf("(%d %d) ", enabled, logs);
    return result;
}

static herr_t page_buffering(hid_t file)
{
    unsigned accesses[2], hits[2], misses[2], evictions[2], bypasses[2];
    return H5Fget_page_buffering_stats(file, accesses, hits, misses, evictions, bypasses);
}

static herr_t mdc_image(hid_t file)
{
    haddr_t address;
    hsize_t bytes;
    herr_t result = H5Fget_mdc_image_info(file, &address, &bytes);
    printf("(%d %llu) ", address == HADDR_UNDEF, (unsigned long long)bytes);
    return result;
}

static herr_t intent(hid_t file)
{
    unsigned flags = 77;
    herr_t result = H5Fget_intent(file, &flags);
    printf("(%u) ", flags);
    return result;
}

static herr_t retries(hid_t file)
{
    H5F_retry_info_t info;
    herr_t result = H5Fget_metadata_read_retry_info(file, &info);
    if (result >= 0)
        printf("(%u) ", info.nbins);
    for (int i = 0; result >= 0 && i < H5F_NUM_METADATA_READ_RETRY_TYPES; i++)
        H5free_memory(info.retries[i]);
    return result;
}

static herr_t info(hid_t file)
{
    H5F_info2_t found;
    herr_t result = H5Fget_info2(file, &found);
    printf("(%u %u) ", found.super.version, found.free.version);
    return result;
}

static herr_t sections(hid_t file)
{
    return H5Fget_free_sections(file, H5FD_MEM_DEFAULT, 0, NULL) < 0 ? -1 : 0;
}

static herr_t flush_global(hid_t file)
{
    return H5Fflush(file, H5F_SCOPE_GLOBAL);
}

static herr_t reopen(hid_t file)
{
    hid_t again = H5Freopen(file);
    return again < 0 ? -1 : H5Fclose(again);
}

static herr_t create_group(hid_t file)
{
    hid_t group = H5Gcreate2(file, "new", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    return group < 0 ? -1 : H5Gclose(group);
}

static herr_t access_bounds(hid_t file)
{
    H5F_libver_t low = H5F_LIBVER_ERROR, high = H5F_LIBVER_ERROR;
    hid_t list = H5Fget_access_plist(file);
    herr_t result = list < 0 ? -1 : H5Pget_libver_bounds(list, &low, &high);
    printf("(%d %d) ", low, high);
    if (list >= 0)
        H5Pclose(list);
    return result;
}

static herr_t comment(hid_t file)
{
    return H5Oset_comment(file, "a comment");
}

static herr_t hit_rate(hid_t file)
{
    double rate;
    return H5Fget_mdc_hit_rate(file, &rate);
}

/* One that takes a dataset. */
static herr_t on_dataset(hid_t file, const char *name, herr_t (*call)(hid_t dataset))
{
    hid_t id = H5Dopen2(file, name, H5P_DEFAULT);
    herr_t result = id < 0 ? -1 : call(id);
    if (id >= 0)
        H5Dclose(id);
    return result;
}

static herr_t convert_dataset(hid_t file)
{
    return on_dataset(file, "chunked", H5Dformat_convert);
}

static herr_t increment_count(hid_t file)
{
    return on_dataset(file, "d", H5Oincr_refcount);
}

static herr_t decrement_count(hid_t file)
{
    return on_dataset(file, "d", H5Odecr_refcount);
}

static herr_t flush_dataset(hid_t file)
{
    return on_dataset(file, "d", H5Dflush);
}

static herr_t refresh_dataset(hid_t file)
{
    return on_dataset(file, "d", H5Drefresh);
}

static herr_t disable_flushes(hid_t file)
{
    return on_dataset(file, "d", H5Odisable_mdc_flushes);
}

static herr_t enable_flushes(hid_t file)
{
    return on_dataset(file, "d", H5Oenable_mdc_flushes);
}

static const struct {
    const char *name;
    herr_t (*call)(hid_t file_id);
} calls[] = {{"H5Fget_intent", intent},
             {"H5Fget_info", info},
             {"H5Fget_dset_no_attrs_hint", get_no_attrs_hint},
             {"H5Fset_dset_no_attrs_hint", no_attrs_hint},
             {"H5Fget_dset_no_attrs_hint again", get_no_attrs_hint},
             {"H5Fset_libver_bounds, wrong", libver_bounds_wrong},
             {"H5Fset_libver_bounds", libver_bounds},
             {"H5Fget_access_plist", access_bounds},
             {"H5Fset_libver_bounds, latest", libver_bounds_latest},
             {"H5Fget_access_plist again", access_bounds},
             {"H5Fincrement_filesize", increment_filesize},
             {"H5Fclear_elink_file_cache", H5Fclear_elink_file_cache},
             {"H5Fset_mdc_config", mdc_config},
             {"H5Fget_mdc_hit_rate", hit_rate},
             {"H5Freset_mdc_hit_rate_stats", H5Freset_mdc_hit_rate_stats},
             {"H5Fget_mdc_logging_status", mdc_logging},
             {"H5Fstart_mdc_logging", H5Fstart_mdc_logging},
             {"H5Fstop_mdc_logging", H5Fstop_mdc_logging},
             {"H5Fget_page_buffering_stats", page_buffering},
             {"H5Freset_page_buffering_stats", H5Freset_page_buffering_stats},
             {"H5Fget_mdc_image_info", mdc_image},
             {"H5Fget_metadata_read_retry_info", retries},
             {"H5Fget_free_sections", sections},
             {"H5Fflush", flush_global},
             {"H5Freopen", reopen},
             {"H5Oset_comment", comment},
             {"H5Dflush", flush_dataset},
             {"H5Drefresh", refresh_dataset},
             {"H5Odisable_mdc_flushes", disable_flushes},
             {"H5Oenable_mdc_flushes", enable_flushes},
             {"H5Oincr_refcount", increment_count},
             {"H5Odecr_refcount", decrement_count},
             {"H5Dformat_convert", convert_dataset},
             {"H5Gcreate", create_group},
             {"H5Fformat_convert", H5Fformat_convert},
             {"H5Fget_info, converted", info},
             {"H5Fstart_swmr_write", H5Fstart_swmr_write},
             {"H5Fget_intent, then", intent}};

/* ---- the files ---- */

static hid_t bounds(H5F_libver_t low)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    check(H5Pset_libver_bounds(fapl, low, H5F_LIBVER_LATEST) >= 0, "H5Pset_libver_bounds");
    return fapl;
}

static hid_t create(hid_t fapl)
{
    const hsize_t dims[1] = {10};
    const int data[10] = {1, 2, 3};
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    hid_t space = H5Screate_simple(1, dims, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);

    check(file >= 0, path);
    hid_t id = H5Dcreate2(file, "d", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    check(H5Dwrite(id, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, "H5Dwrite");
    H5Dclose(id);
    check(H5Pset_chunk(dcpl, 1, dims) >= 0, "H5Pset_chunk");
    id = H5Dcreate2(file, "chunked", H5T_NATIVE_INT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    check(H5Dwrite(id, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, "H5Dwrite");
    H5Dclose(id);
    H5Pclose(dcpl);
    H5Sclose(space);
    return file;
}

/* Each call on a file of its own, since some change what the next may do. */
static void one_call(const char *way, int format, int access, size_t i)
{
    hid_t fapl = bounds(format ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST), file = create(fapl);

    if (access >= 0) {
        check(H5Fclose(file) >= 0, "H5Fclose");
        file = H5Fopen(path, (unsigned)access, fapl);
        check(file >= 0, path);
    }
    printf("%s: %s: ", way, calls[i].name);
    printf("%s\n", calls[i].call(file) < 0 ? "failed" : "succeeded");
    printf("%s: %s, closed: %s\n", way, calls[i].name, H5Fclose(file) < 0 ? "failed" : "succeeded");
    H5Pclose(fapl);
}

/* All of them on one file, one after the other. */
static void all_calls(const char *way, int format, int access)
{
    hid_t fapl = bounds(format ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST), file = create(fapl);

    if (access >= 0) {
        check(H5Fclose(file) >= 0, "H5Fclose");
        file = H5Fopen(path, (unsigned)access, fapl);
        check(file >= 0, path);
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        printf("%s, all: %s: ", way, calls[i].name);
        printf("%s\n", calls[i].call(file) < 0 ? "failed" : "succeeded");
    }
    printf("%s, all, closed: %s\n", way, H5Fclose(file) < 0 ? "failed" : "succeeded");
    H5Pclose(fapl);
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        int access;
    } ways[] = {
        {"created", -1}, {"read-write", (int)H5F_ACC_RDWR}, {"read-only", (int)H5F_ACC_RDONLY}};

    if (argc != 2)
        return 2;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (int format = 0; format < 2; format++)
        for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++) {
            char text[64];
            snprintf(text, sizeof(text), "%s format, %s", format ? "latest" : "earliest",
                     ways[way].name);
            snprintf(path, sizeof(path), "%s/%d%zu.h5", argv[1], format, way);
            for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
                one_call(text, format, ways[way].access, i);
            all_calls(text, format, ways[way].access);
        }
    return 0;
}
