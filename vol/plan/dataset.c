/* SPDX-License-Identifier: BSD-3-Clause */
/* The dataset: HDF5 finds it by its name in the version's image, the index by its token. */
#include "vol/plan/plan.h"

#include <hdf5.h>

#include <string.h>

#include "vol/save/opened.h"
#include "vol/save/rawdata.h"

#define CORE_INCREMENT (1u << 20)

struct search {
    const struct mkt_index_view *index;
    const char *name;
    hid_t file, dataset, type, space, dcpl;
    char elsewhere[256]; /* the file that an external link on the way leads to */
};

/* ---- opening ---- */

static hid_t open_image(const struct mkt_opened *version)
{
    hid_t fapl = mkt_opened_access_list(), file = H5I_INVALID_HID;
    if (fapl < 0)
        return fapl;
    if (H5Pset_fapl_core(fapl, CORE_INCREMENT, false) >= 0 &&
        H5Pset_file_image(fapl, (void *)(uintptr_t)version->image, version->image_bytes) >= 0)
        file = H5Fopen("/dev/null/image", H5F_ACC_RDONLY, fapl);
    H5Pclose(fapl);
    return file;
}

/* What lies in another file is that file's. */
static herr_t note_link(const char *parent_file, const char *parent_group, const char *target_file,
                        const char *target, unsigned *flags, hid_t fapl, void *context)
{
    struct search *search = context;
    (void)parent_file, (void)parent_group, (void)target, (void)flags, (void)fapl;
    snprintf(search->elsewhere, sizeof(search->elsewhere), "%s", target_file);
    return -1;
}

static hid_t open_object(struct search *search)
{
    hid_t lapl = H5Pcreate(H5P_LINK_ACCESS), object = H5I_INVALID_HID;
    if (lapl >= 0 && H5Pset_elink_cb(lapl, note_link, search) >= 0)
        object = H5Oopen(search->file, search->name, lapl);
    if (lapl >= 0)
        H5Pclose(lapl);
    return object;
}

static enum mkt_status open_dataset(struct search *search, struct mkt_error *error)
{
    hid_t object = open_object(search);
    if (object < 0 && search->elsewhere[0])
        return mkt_error_set(error, MKT_UNSUPPORTED,
                             "an external link leads from %s to the file %s: ask for its plan",
                             search->name, search->elsewhere);
    if (object < 0)
        return mkt_error_set(error, MKT_NOT_FOUND,
                             "there is no dataset %s in that version; `h5dump -n` or `h5ls -r` "
                             "list what there is",
                             search->name);
    if (H5Iget_type(object) != H5I_DATASET) {
        H5Oclose(object);
        return mkt_error_set(error, MKT_NOT_FOUND, "%s is no dataset", search->name);
    }
    search->dataset = object;
    search->type = H5Dget_type(object);
    search->space = H5Dget_space(object);
    search->dcpl = H5Dget_create_plist(object);
    return search->type >= 0 && search->space >= 0 && search->dcpl >= 0
               ? MKT_OK
               : mkt_raw_failed("opening dataset", search->name, error);
}

static void search_fini(const struct search *search)
{
    if (search->dcpl >= 0)
        H5Pclose(search->dcpl);
    if (search->space >= 0)
        H5Sclose(search->space);
    if (search->type >= 0)
        H5Tclose(search->type);
    if (search->dataset >= 0)
        H5Dclose(search->dataset);
    if (search->file >= 0)
        H5Fclose(search->file);
}

/* ---- what isn't the market's ---- */

static bool has_class(hid_t type, H5T_class_t class)
{
    return H5Tdetect_class(type, class) > 0;
}

/* A member of a compound may be such a string. */
static bool has_variable_length(hid_t type)
{
    if (H5Tget_class(type) == H5T_STRING)
        return H5Tis_variable_str(type) > 0;
    if (has_class(type, H5T_VLEN))
        return true;
    if (H5Tget_class(type) == H5T_ARRAY) {
        hid_t base = H5Tget_super(type);
        bool found = base >= 0 && has_variable_length(base);
        if (base >= 0)
            H5Tclose(base);
        return found;
    }
    for (int m = 0; H5Tget_class(type) == H5T_COMPOUND && m < H5Tget_nmembers(type); m++) {
        hid_t member = H5Tget_member_type(type, (unsigned)m);
        bool found = member >= 0 && has_variable_length(member);
        if (member >= 0)
            H5Tclose(member);
        if (found)
            return true;
    }
    return false;
}

/* Why the raw data isn't redirected; NULL: it would be, if there were any. */
static const char *why_not(const struct search *search)
{
    if (H5Pget_layout(search->dcpl) == H5D_VIRTUAL)
        return "it is virtual: its data is that of its sources, ask for their plans";
    if (H5Pget_external_count(search->dcpl) > 0)
        return "its raw data is in external files (H5Pset_external)";
    if (H5Sget_simple_extent_type(search->space) == H5S_NULL)
        return "it has no elements";
    if (has_variable_length(search->type))
        return "its elements are of variable length, and stay in the file's image: a reader has "
               "all of it in memory, and HDF5 reads from there";
    if (has_class(search->type, H5T_REFERENCE))
        return "its elements are references, and stay in the file's image: a reader has all of it "
               "in memory, and HDF5 reads from there";
    if (H5Dget_storage_size(search->dataset) > 0)
        return "its raw data is in the file's image, as that of a file which was brought in from "
               "disk: a reader has all of it in memory, and HDF5 reads from there";
    return NULL;
}

static void describe_unwritten(const struct search *search, struct mkt_array *array_out)
{
    hsize_t dims[H5S_MAX_RANK] = {0};
    int rank = H5Sget_simple_extent_dims(search->space, dims, NULL);
    *array_out = (struct mkt_array){.rank = rank > 0 ? (uint32_t)rank : 0,
                                    .element_bytes = (uint32_t)H5Tget_size(search->type)};
    for (uint32_t d = 0; d < array_out->rank; d++)
        array_out->dims[d] = dims[d];
}

/* ---- the array ---- */

static enum mkt_status find_array(const struct search *search, struct mkt_plan_dataset *dataset_out,
                                  struct mkt_error *error)
{
    H5O_info2_t info;
    uint8_t token[MKT_TOKEN_BYTES];
    if (H5Oget_info3(search->dataset, &info, H5O_INFO_BASIC) < 0)
        return mkt_raw_failed("looking at dataset", search->name, error);
    memcpy(token, &info.token, sizeof token);
    enum mkt_status status =
        mkt_index_view_find_token(search->index, token, &dataset_out->position);
    if (status == MKT_OK)
        status = mkt_index_view_array(search->index, dataset_out->position, &dataset_out->array);
    dataset_out->is_written = status == MKT_OK;
    if (status == MKT_OK &&
        !mkt_raw_fits(search->space, &dataset_out->array, H5Tget_size(search->type)))
        return mkt_error_set(error, MKT_CORRUPT,
                             "dataset %s does not fit the market's record of it", search->name);
    if (status == MKT_OK)
        return MKT_OK;
    if (status != MKT_NOT_FOUND)
        return mkt_error_set(error, status, "the index of the version is corrupt");
    const char *why = why_not(search);
    if (why)
        return mkt_error_set(error, MKT_UNSUPPORTED, "the raw data of %s isn't in pieces: %s",
                             search->name, why);
    describe_unwritten(search, &dataset_out->array);
    return MKT_OK;
}

enum mkt_status mkt_plan_find(const struct mkt_opened *version, const struct mkt_index_view *index,
                              const char *name, struct mkt_plan_dataset *dataset_out,
                              struct mkt_error *error)
{
    struct search search = {.index = index,
                            .name = name,
                            .dataset = H5I_INVALID_HID,
                            .type = H5I_INVALID_HID,
                            .space = H5I_INVALID_HID,
                            .dcpl = H5I_INVALID_HID};
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    search.file = open_image(version);
    enum mkt_status status = search.file < 0
                                 ? mkt_raw_failed("opening", "the version's image", error)
                                 : open_dataset(&search, error);
    if (status == MKT_OK)
        status = find_array(&search, dataset_out, error);
    search_fini(&search);
    return status;
}
