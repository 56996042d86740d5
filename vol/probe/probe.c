/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes a small file, reads it back, removes it, and prints what happened as "name=value" lines.
 * It goes on after a failed first call, as programs do that don't check H5open. usage:
 * h5market-probe-<flavour> PATH
 */
#include <hdf5.h>

#include <stdio.h>
#include <string.h>

#define VALUES 512

static void answer(const char *name, const char *value)
{
    printf("%s=%s\n", name, value);
    fflush(stdout);
}

static const char *word(int result)
{
    return result < 0 ? "failed" : "ok";
}

static void print_version(void)
{
    unsigned major, minor, release;
    char text[64];
    if (H5get_libversion(&major, &minor, &release) < 0)
        return;
    snprintf(text, sizeof(text), "%u.%u.%u", major, minor, release);
    answer("hdf5", text);
}

static int write_file(const char *path)
{
    char connector[128] = "unknown";
    double values[VALUES];
    hsize_t dims = VALUES;
    for (int i = 0; i < VALUES; i++)
        values[i] = i;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (file < 0)
        return -1;
    H5VLget_connector_name(file, connector, sizeof(connector));
    answer("connector", connector);
    hid_t space = H5Screate_simple(1, &dims, NULL);
    hid_t dataset =
        H5Dcreate2(file, "values", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    int result = H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(dataset);
    H5Sclose(space);
    if (H5Fclose(file) < 0)
        result = -1;
    return result;
}

static int read_file(const char *path)
{
    double values[VALUES];
    int result = -1;
    memset(values, 0xee, sizeof(values));
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0)
        return -1;
    hid_t dataset = H5Dopen2(file, "values", H5P_DEFAULT);
    if (dataset >= 0) {
        result = H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
        H5Dclose(dataset);
    }
    H5Fclose(file);
    for (int i = 0; i < VALUES; i++)
        if (values[i] != i)
            result = -1;
    return result;
}

/* What stands at the path when the file is closed. */
static const char *kind_on_disk(const char *path)
{
    char bytes[512];
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return "nothing";
    size_t count = fread(bytes, 1, sizeof(bytes), stream);
    fclose(stream);
    if (count == sizeof(bytes) && memcmp(bytes + 256, "H5MARKET", 8) == 0)
        return "stub";
    return "file";
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: h5market-probe PATH\n");
        return 2;
    }
    answer("first_call", word(H5open()));
    print_version();
    answer("write", word(write_file(argv[1])));
    answer("on_disk", kind_on_disk(argv[1]));
    answer("read", word(read_file(argv[1])));
    answer("delete", word(H5Fdelete(argv[1], H5P_DEFAULT)));
    return 0;
}
