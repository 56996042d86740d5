/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * H5Ocopy: native copies objects, and what raw data it knows of; the redirected data of the
 * datasets among them follows here. Source and target are walked side by side by the names of their
 * links.
 */
#include <stdlib.h>
#include <string.h>

#include "vol/arrays.h"
#include "vol/native.h"
#include "vol/selection.h"
#include "vol/transfer.h"
#include "vol/walk.h"

#define COPY_STRIP_BYTES (UINT64_C(16) << 20) /* moved at a time into a file that native keeps */

struct walk {
    struct mkt_vol_tokens {
        uint8_t (*token)[MKT_TOKEN_BYTES];
        size_t count;
    } seen; /* of the source: an object with several links is copied once */
};

/* ---- one dataset ---- */

struct follow {
    struct mkt_vol_array *target;
    struct mkt_client *source_client;
    struct mkt_piece_source source;
    struct mkt_error error;
};

static enum mkt_status place_piece(struct follow *follow, const struct mkt_piece *piece,
                                   const void *from)
{
    void *from_table = NULL;
    struct mkt_vol_place place;
    enum mkt_status status = MKT_OK;

    if (piece->table.length > 0)
        status = mkt_client_map(follow->source_client, &piece->table, false, &from_table,
                                &follow->error);
    if (status != MKT_OK)
        return status;
    if (from_table)
        status = mkt_vol_array_place_table(follow->target, piece, &place, &follow->error);
    else
        status = mkt_vol_array_place(follow->target, &piece->slab, true, &place, &follow->error);
    if (status != MKT_OK)
        return status;
    if (from_table)
        memcpy(place.table, from_table, piece->table.length);
    memcpy(place.data, from, piece->data.length);
    return mkt_vol_array_written(&place, &follow->error);
}

static enum mkt_status follow_piece(void *context, const struct mkt_piece *piece)
{
    struct follow *follow = context;
    struct mkt_piece_data from;
    enum mkt_status status = mkt_client_piece_get(follow->source_client, &follow->source, piece,
                                                  NULL, &from, &follow->error);

    if (status != MKT_OK)
        return status;
    status = place_piece(follow, piece, from.base);
    mkt_client_piece_put(follow->source_client, &from);
    return status;
}

static herr_t to_market(struct mkt_vol_array *source, struct mkt_vol_object *target,
                        const uint8_t *token)
{
    const struct mkt_array *meta = mkt_vol_array_meta(source);
    struct mkt_vol_file *file = target->file;
    struct follow follow = {
        .source_client = mkt_vol_array_file(source)->client,
        .source = {.file = mkt_vol_array_file(source)->handle, .identity = meta->identity}};
    struct mkt_vol_sources sources;
    struct mkt_slab all;

    follow.target = mkt_vol_array_create(file->arrays, token, meta->element_bytes, meta->rank,
                                         meta->dims, meta->flags & ~MKT_ARRAY_MEMORY_ONLY, true);
    if (!follow.target)
        return mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC,
                            "no memory for the description of an array");
    for (uint32_t d = 0; d < meta->rank; d++)
        if (meta->dims[d] == 0)
            return 0;
    if (file->rank != 0) /* rank 0's copy is the group's */
        return 0;
    mkt_slab_box(&all, meta->rank, (uint64_t[MKT_MAX_RANK]){0}, meta->dims);
    enum mkt_status status = mkt_vol_sources_open(&sources, source, &follow.error);
    if (status == MKT_OK) {
        status = mkt_vol_sources_query(&sources, &all, follow_piece, &follow);
        mkt_vol_sources_close(&sources);
    }
    if (status == MKT_OK)
        return 0;
    mkt_vol_file_poison(file, "copying a dataset into it failed: %s", follow.error.text);
    return mkt_vol_fail(H5E_OHDR, H5E_CANTCOPY, "%s: cannot copy a dataset's data: %s", file->path,
                        follow.error.text);
}

struct drain {
    struct mkt_vol_transfer transfer;
    struct mkt_vol_object *target;
    hid_t file_space;
    void *buffer;
};

static herr_t drain_part(void *context, const struct mkt_slab *part)
{
    struct drain *drain = context;
    hsize_t start[MKT_MAX_RANK], count[MKT_MAX_RANK], elements = mkt_slab_elements(part);
    const void *buffer = drain->buffer;

    for (uint32_t d = 0; d < part->rank; d++) {
        start[d] = part->dim[d].start;
        count[d] = mkt_dim_elements(&part->dim[d]);
    }
    if (part->rank > 0 &&
        H5Sselect_hyperslab(drain->file_space, H5S_SELECT_SET, start, NULL, count, NULL) < 0)
        return -1;
    hid_t memory = H5Screate_simple(1, &elements, NULL);
    if (memory < 0)
        return -1;
    drain->transfer.mem_space = memory;
    drain->transfer.file_space = drain->file_space;
    herr_t result = mkt_vol_transfer_read(&drain->transfer, drain->buffer);
    if (result >= 0)
        result = mkt_vol_native()->dataset_cls.write(
            1, &drain->target->under, &drain->transfer.file_type, &memory, &drain->file_space,
            H5P_DATASET_XFER_DEFAULT, &buffer, NULL);
    H5Sclose(memory);
    return result;
}

static herr_t to_native(struct mkt_vol_object *source, struct mkt_vol_array *array,
                        struct mkt_vol_object *target)
{
    const struct mkt_array *meta = mkt_vol_array_meta(array);
    struct drain drain = {.target = target};
    struct mkt_slab all;
    uint64_t elements = 1;
    herr_t result = -1;

    for (uint32_t d = 0; d < meta->rank; d++)
        elements *= meta->dims[d];
    if (elements == 0)
        return 0;
    hid_t type = mkt_vol_native_get(source, H5VL_DATASET_GET_TYPE);
    if (type < 0)
        return -1;
    drain.file_space = mkt_vol_native_get(source, H5VL_DATASET_GET_SPACE);
    if (drain.file_space < 0)
        goto err_type;
    uint64_t most = COPY_STRIP_BYTES / meta->element_bytes;
    most = most == 0 ? 1 : most < elements ? most : elements;
    drain.buffer = malloc(most * meta->element_bytes);
    drain.transfer = (struct mkt_vol_transfer){.dataset = source,
                                               .array = array,
                                               .file_type = type,
                                               .mem_type = type,
                                               .dxpl = H5P_DATASET_XFER_DEFAULT};
    mkt_slab_box(&all, meta->rank, (uint64_t[MKT_MAX_RANK]){0}, meta->dims);
    if (drain.buffer)
        result = mkt_vol_slab_split(&all, most, drain_part, &drain);
    free(drain.buffer);
    H5Sclose(drain.file_space);
err_type:
    H5Tclose(type);
    return result;
}

static herr_t copy_dataset(struct mkt_vol_object *source, const uint8_t *source_token,
                           struct mkt_vol_object *target)
{
    struct mkt_vol_walk_info info;

    if (!source->file->in_market)
        return 0; /* native had the data and copied it, into the image if need be */
    struct mkt_vol_array *array = mkt_vol_array_find(source->file->arrays, source_token);
    if (!array)
        return 0;
    if (!target->file->in_market)
        return to_native(source, array, target);
    if (mkt_vol_walk_info(target, &info) < 0)
        return -1;
    return to_market(array, target, info.token);
}

/* ---- the walk ---- */

static herr_t walk_object(struct walk *walk, struct mkt_vol_object *source,
                          struct mkt_vol_object *target);

static herr_t walk_named(struct walk *walk, struct mkt_vol_object *source_parent,
                         const char *source_name, struct mkt_vol_object *target_parent,
                         const char *target_name)
{
    struct mkt_vol_object source, target;
    herr_t result = -1;

    if (mkt_vol_walk_open(source_parent, source_name, &source) < 0)
        return -1;
    if (mkt_vol_walk_open(target_parent, target_name, &target) >= 0) {
        result = walk_object(walk, &source, &target);
        mkt_vol_walk_close(&target);
    }
    mkt_vol_walk_close(&source);
    return result;
}

static herr_t walk_group(struct walk *walk, struct mkt_vol_object *source,
                         struct mkt_vol_object *target)
{
    hsize_t links;

    if (mkt_vol_walk_links(target, &links) < 0)
        return -1;
    for (hsize_t i = 0; i < links; i++) {
        char *name;
        herr_t result = mkt_vol_walk_name(target, i, &name);

        if (result >= 0 && name)
            result = walk_named(walk, source, name, target, name);
        free(name);
        if (result < 0)
            return -1;
    }
    return 0;
}

static herr_t walk_object(struct walk *walk, struct mkt_vol_object *source,
                          struct mkt_vol_object *target)
{
    struct mkt_vol_walk_info info;

    if (mkt_vol_walk_info(source, &info) < 0)
        return -1;
    for (size_t i = 0; i < walk->seen.count; i++)
        if (memcmp(walk->seen.token[i], info.token, MKT_TOKEN_BYTES) == 0)
            return 0;
    void *grown = realloc(walk->seen.token, (walk->seen.count + 1) * MKT_TOKEN_BYTES);
    if (!grown)
        return -1;
    walk->seen.token = grown;
    memcpy(walk->seen.token[walk->seen.count++], info.token, MKT_TOKEN_BYTES);
    if (source->type == H5I_DATASET)
        return copy_dataset(source, info.token, target);
    return source->type == H5I_GROUP ? walk_group(walk, source, target) : 0;
}

herr_t mkt_vol_arrays_copied(struct mkt_vol_object *source_location, const char *source_name,
                             struct mkt_vol_object *target_location, const char *target_name)
{
    struct walk walk = {0};

    herr_t result = walk_named(&walk, source_location, source_name, target_location, target_name);
    free(walk.seen.token);
    if (result < 0)
        return mkt_vol_fail(H5E_OHDR, H5E_CANTCOPY,
                            "the raw data of a copied object could not follow it");
    H5Eclear2(H5E_DEFAULT); /* of what was looked for in vain */
    return 0;
}
