/* SPDX-License-Identifier: BSD-3-Clause */
/* Datasets: creating, writing, reading, changing extents, and what they say of themselves. */
#include <stdlib.h>
#include <string.h>

#include "differential.h"

/* ---- creation lists ---- */

static void set_chunks(hid_t list, hid_t space)
{
    hsize_t dims[MAX_RANK], max[MAX_RANK], chunk[MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, dims, max);

    for (int d = 0; d < rank; d++)
        chunk[d] = 1 + pick(chance(50) ? 4 : max[d] == H5S_UNLIMITED ? 20 : (unsigned)max[d]);
    say(" chunks ");
    say_dims(rank, chunk);
    H5Pset_chunk(list, rank, chunk);
    if (chance(25)) {
        say(" shuffle");
        H5Pset_shuffle(list);
    }
    if (chance(35)) {
        say(" deflate");
        H5Pset_deflate(list, 1);
    }
    if (chance(20)) {
        say(" fletcher32");
        H5Pset_fletcher32(list);
    }
}

static void set_fill_value(hid_t list, hid_t type)
{
    struct values fill;
    hid_t given = chance(70) ? H5Tcopy(type) : H5Tget_native_type(type, H5T_DIR_DEFAULT);

    if (H5Tdetect_class(type, H5T_REFERENCE) <= 0 && values_create(&fill, given, -1, 1)) {
        values_fill(&fill);
        say(" fill value");
        said(H5Pset_fill_value(list, given, fill.bytes));
        values_destroy(&fill);
    }
    H5Tclose(given);
}

static bool is_growing(hid_t space)
{
    hsize_t dims[MAX_RANK], max[MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, dims, max);

    for (int d = 0; d < rank; d++)
        if (dims[d] != max[d])
            return true;
    return false;
}

static bool has_pointers(hid_t type)
{
    struct shape *shape = shape_create(type);
    bool has = shape_has(shape, H5T_VLEN) || shape_has(shape, H5T_REFERENCE);

    shape_destroy(shape);
    return has;
}

/* Space that nobody filled holds whatever was there: such datasets are of one size and written
 * whole at once (write_whole). */
static void set_fill_time(hid_t list, hid_t type, hid_t space)
{
    bool contiguous = H5Pget_layout(list) == H5D_CONTIGUOUS;

    if (!is_growing(space) && !has_pointers(type) && chance(contiguous ? 40 : 10)) {
        if (chance(30)) {
            say(" fill never");
            H5Pset_fill_time(list, H5D_FILL_TIME_NEVER);
        } else if (chance(20)) {
            say(" fill undefined");
            H5Pset_fill_value(list, type, NULL);
        }
    } else if (contiguous || chance(20)) {
        say(" fill at allocation");
        H5Pset_fill_time(list, H5D_FILL_TIME_ALLOC);
    }
}

/* Raw data in files of its own beside the HDF5 file, in one or two parts; several datasets may
 * share them. */
static void set_raw_files(hid_t list, hid_t type, hid_t space)
{
    hsize_t bytes = space_elements(space) * H5Tget_size(type), first = bytes;
    static const char *names[] = {"r0.raw", "r1.raw"};
    unsigned name = pick(2), offset = pick(3) * 16;

    if (bytes == 0 || has_pointers(type))
        return;
    if (chance(40))
        first = 1 + pick((unsigned)bytes);
    say(" in %s at %u", names[name], offset);
    said(H5Pset_external(list, names[name], offset, first));
    if (first < bytes) {
        say(" and %llu more", (unsigned long long)(bytes - first));
        said(H5Pset_external(list, names[1 - name], 0, chance(50) ? H5F_UNLIMITED : bytes - first));
    }
}

static hid_t list_dataset(hid_t type, hid_t space)
{
    static const H5D_alloc_time_t times[] = {H5D_ALLOC_TIME_EARLY, H5D_ALLOC_TIME_LATE,
                                             H5D_ALLOC_TIME_INCR};
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    bool simple = H5Sget_simple_extent_type(space) == H5S_SIMPLE;

    if (simple && (is_growing(space) ? !chance(3) : chance(35))) {
        set_chunks(list, space);
    } else if (simple && chance(8)) {
        set_raw_files(list, type, space);
    } else if (chance(20)) {
        say(" compact");
        H5Pset_layout(list, H5D_COMPACT);
    }
    if (chance(40))
        set_fill_value(list, type);
    set_fill_time(list, type, space);
    if (chance(30)) {
        unsigned time = pick(3);
        /* Written whole first, such chunks hold nothing beyond the extent, no fill value either. */
        if (H5Pget_layout(list) == H5D_CHUNKED && is_growing(space) && time == 1)
            time = 2;
        say(" alloc %u", time);
        H5Pset_alloc_time(list, times[time]);
    }
    if (chance(20)) {
        say(" attributes ordered");
        H5Pset_attr_creation_order(list, H5P_CRT_ORDER_TRACKED);
    }
    if (chance(15))
        H5Pset_attr_phase_change(list, 1, 0);
    return list;
}

bool dataset_reads_undefined(hid_t dataset)
{
    hid_t list = H5Dget_create_plist(dataset);
    H5D_fill_value_t fill = H5D_FILL_VALUE_DEFAULT;
    H5D_fill_time_t time = H5D_FILL_TIME_IFSET;

    H5Pfill_value_defined(list, &fill);
    H5Pget_fill_time(list, &time);
    bool contiguous = H5Pget_layout(list) == H5D_CONTIGUOUS;
    H5Pclose(list);
    return time == H5D_FILL_TIME_NEVER || fill == H5D_FILL_VALUE_UNDEFINED ||
           (contiguous && time == H5D_FILL_TIME_IFSET && fill == H5D_FILL_VALUE_DEFAULT);
}

/* ---- create ---- */

static void write_whole(hid_t dataset)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    struct values values;

    if (values_create(&values, type, dataset, (size_t)space_elements(space))) {
        values_fill(&values);
        say(" write all");
        said(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.bytes));
        values_destroy(&values);
    }
    H5Sclose(space);
    H5Tclose(type);
}

void step_create_dataset(void)
{
    say("create dataset");
    hid_t location = world_location();
    if (location < 0)
        return;
    const char *name = name_dataset();
    hid_t type = chance(15) ? world_pick(TYPES) : H5I_INVALID_HID;
    type = type < 0 ? type_random() : H5Tcopy(type);
    hid_t space = space_random(chance(50));
    say(" ");
    type_say(type);
    say(" ");
    space_say(space);
    hid_t list = list_dataset(type, space), links = list_links(), dataset;

    dataset = chance(3) ? H5Dcreate_anon(location, type, space, list, H5P_DEFAULT)
                        : H5Dcreate2(location, name, type, space, links, list, H5P_DEFAULT);
    if (said(dataset) && (dataset_reads_undefined(dataset) || chance(30)))
        write_whole(dataset);
    world_put(DATASETS, dataset);
    H5Pclose(links);
    H5Pclose(list);
    H5Sclose(space);
    H5Tclose(type);
}

/* ---- transfers ---- */

struct transfer {
    hid_t dataset, file_type, memory_type, extent, file_space, memory_space, list;
    struct values values;
};

/* Native takes a write of all elements for a whole one, though it be of some members only: of a new
 * dataset the others show what the file's space held before, of chunks (where the sizes of the
 * types are the same, too) they are lost. */
static bool seems_whole(const struct transfer *transfer)
{
    H5D_space_status_t status = H5D_SPACE_STATUS_ALLOCATED;
    hid_t list = H5Dget_create_plist(transfer->dataset);
    bool chunked = H5Pget_layout(list) == H5D_CHUNKED;

    H5Pclose(list);
    if (H5Tdetect_class(transfer->file_type, H5T_COMPOUND) <= 0)
        return false;
    H5Dget_space_status(transfer->dataset, &status);
    return (chunked && H5Tget_size(transfer->memory_type) == H5Tget_size(transfer->file_type)) ||
           (status == H5D_SPACE_STATUS_NOT_ALLOCATED &&
            (transfer->file_space == H5S_ALL ||
             H5Sget_select_npoints(transfer->file_space) ==
                 H5Sget_simple_extent_npoints(transfer->extent)));
}

/* Draws all of a transfer and says it. */
static bool transfer_begin(struct transfer *transfer, hid_t dataset, bool writing)
{
    hsize_t elements = 0;

    transfer->dataset = dataset;
    transfer->file_type = H5Dget_type(dataset);
    transfer->extent = H5Dget_space(dataset);
    transfer->memory_type = type_for_memory(transfer->file_type);
    transfer->file_space = chance(15) ? H5S_ALL : H5Scopy(transfer->extent);
    transfer->list = H5Pcreate(H5P_DATASET_XFER);
    if (chance(20))
        H5Pset_buffer(transfer->list, 4096, NULL, NULL);
    if (transfer->file_space != H5S_ALL)
        space_select(transfer->file_space, writing && chance(20));
    if (writing && seems_whole(transfer)) {
        H5Tclose(transfer->memory_type);
        transfer->memory_type = H5Tcopy(transfer->file_type);
    }
    say(" as ");
    type_say(transfer->memory_type);
    transfer->memory_space = space_for_memory(transfer->file_space, transfer->extent, &elements);
    if (elements > 100 * MAX_ELEMENTS)
        return false;
    return values_create(&transfer->values, transfer->memory_type, dataset, (size_t)elements);
}

static void transfer_end(struct transfer *transfer)
{
    values_destroy(&transfer->values);
    if (transfer->file_space != H5S_ALL)
        H5Sclose(transfer->file_space);
    if (transfer->memory_space != H5S_ALL)
        H5Sclose(transfer->memory_space);
    H5Pclose(transfer->list);
    H5Sclose(transfer->extent);
    H5Tclose(transfer->memory_type);
    H5Tclose(transfer->file_type);
}

static void reclaim(hid_t type, hsize_t elements, void *bytes)
{
    hid_t space = H5Screate_simple(1, &elements, NULL);

    if (H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tdetect_class(type, H5T_STRING) > 0)
        H5Treclaim(type, space, H5P_DEFAULT, bytes);
    H5Sclose(space);
}

/* A conversion may leave anything between the members of the file's type. Where no space is
 * allocated native writes zeros between those of the memory's. */
static bool gaps_matter(const struct transfer *transfer)
{
    H5D_space_status_t status = H5D_SPACE_STATUS_NOT_ALLOCATED;
    H5D_alloc_time_t time = H5D_ALLOC_TIME_EARLY;
    hid_t list = H5Dget_create_plist(transfer->dataset);
    struct shape *file = shape_create(transfer->file_type);

    H5Dget_space_status(transfer->dataset, &status);
    H5Pget_alloc_time(list, &time);
    H5Pclose(list);
    bool matter = status == H5D_SPACE_STATUS_ALLOCATED && time != H5D_ALLOC_TIME_EARLY &&
                  !shape_has_gaps(file) && transfer->values.shape->class == H5T_COMPOUND &&
                  !shape_has(file, H5T_VLEN) && !shape_has(file, H5T_REFERENCE);

    shape_destroy(file);
    return matter;
}

void step_write(void)
{
    struct transfer transfer;

    say("write");
    hid_t dataset = world_pick(DATASETS);
    if (dataset < 0)
        return;
    if (transfer_begin(&transfer, dataset, true)) {
        values_fill(&transfer.values);
        said(H5Dwrite(dataset, transfer.memory_type, transfer.memory_space, transfer.file_space,
                      transfer.list, transfer.values.bytes));
    }
    transfer_end(&transfer);
}

void step_read(void)
{
    struct transfer transfer;

    say("read");
    hid_t dataset = world_pick(DATASETS);
    if (dataset < 0)
        return;
    if (transfer_begin(&transfer, dataset, false)) {
        values_poison(&transfer.values);
        if (said(H5Dread(dataset, transfer.memory_type, transfer.memory_space, transfer.file_space,
                         transfer.list, transfer.values.bytes))) {
            values_say(&transfer.values, gaps_matter(&transfer));
            reclaim(transfer.memory_type, transfer.values.count, transfer.values.bytes);
        }
    }
    transfer_end(&transfer);
}

static herr_t add_to_digest(void *element, hid_t type, unsigned rank, const hsize_t *point,
                            void *context)
{
    digest_add(context, point, rank * sizeof *point);
    digest_add(context, element, H5Tget_size(type));
    return 0;
}

/* A selection of the elements in memory is filled, walked over, and written back. */
void step_fill(void)
{
    static const hssize_t at_home[H5S_MAX_RANK] = {0};
    struct values values, fill;
    struct digest digest;

    say("fill");
    hid_t dataset = world_pick(DATASETS);
    if (dataset < 0)
        return;
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    if (!has_pointers(type) && H5Sget_simple_extent_type(space) == H5S_SIMPLE &&
        values_create(&values, type, dataset, (size_t)space_elements(space))) {
        values_create(&fill, type, dataset, 1);
        values_fill(&fill);
        values_poison(&values);
        space_select(space, false);
        if (H5Sselect_valid(space) <= 0) { /* moved out of its extent, which these don't look at */
            H5Soffset_simple(space, at_home);
            H5Sselect_all(space);
        }
        said(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.bytes));
        said(H5Dfill(chance(80) ? fill.bytes : NULL, type, values.bytes, type, space));
        digest_start(&digest);
        said(H5Diterate(values.bytes, type, space, add_to_digest, &digest));
        if (!shape_has_gaps(values.shape))
            say(" {%016llx}", (unsigned long long)digest.sum);
        if (chance(60))
            said(H5Dwrite(dataset, type, space, space, H5P_DEFAULT, values.bytes));
        values_destroy(&fill);
        values_destroy(&values);
    }
    H5Sclose(space);
    H5Tclose(type);
}

/* Records, rows and single elements, one at a time, at random or one behind the other. */
void step_write_many(void)
{
    hsize_t dims[MAX_RANK], start[MAX_RANK], count[MAX_RANK], at = 0;
    struct values values;

    say("write many");
    hid_t dataset = world_pick(DATASETS);
    if (dataset < 0)
        return;
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    int rank = H5Sget_simple_extent_dims(space, dims, NULL);
    unsigned writes = 10 + pick(120), failed = 0, whole = pick((unsigned)rank + 1);
    bool in_order = chance(40);

    say(" %u of rank %u%s", writes, whole, in_order ? " in order" : "");
    if (rank > 0 && space_elements(space) > 0) {
        hsize_t elements = 1;
        for (int d = 0; d < rank; d++) {
            count[d] = d + (int)whole >= rank ? dims[d] : 1;
            elements *= count[d];
        }
        hid_t memory = H5Screate_simple(1, &elements, NULL);
        values_create(&values, type, dataset, (size_t)elements);
        for (unsigned w = 0; w < writes; w++) {
            at = in_order ? at + 1 : pick((unsigned)space_elements(space));
            hsize_t rest = at;
            for (int d = rank; d-- > 0;) {
                bool moves = d + (int)whole < rank;
                start[d] = moves ? rest % dims[d] : 0;
                rest = moves ? rest / dims[d] : rest;
            }
            values_fill(&values);
            H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
            failed += H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, values.bytes) < 0;
        }
        values_destroy(&values);
        H5Sclose(memory);
        say(" failed %u", failed);
    }
    H5Sclose(space);
    H5Tclose(type);
}

/* Native refuses datasets of several files, and one dataset twice if it is chunked in some way. */
static bool go_together(hid_t left, hid_t right)
{
    H5O_info2_t one, other;
    int order = 0;

    return H5Oget_info3(left, &one, H5O_INFO_BASIC) >= 0 &&
           H5Oget_info3(right, &other, H5O_INFO_BASIC) >= 0 && one.fileno == other.fileno &&
           H5Otoken_cmp(left, &one.token, &other.token, &order) >= 0 && order != 0;
}

/* Several datasets in one call. */
void step_multi(void)
{
    struct transfer transfer[3];
    hid_t datasets[3], memory_types[3], memory_spaces[3], file_spaces[3];
    void *buffers[3];
    size_t count = 0;
    bool writing = chance(50), good = true;

    say(writing ? "write several" : "read several");
    for (size_t i = 0, wanted = 1 + pick(3); i < wanted && good; i++) {
        hid_t dataset = world_pick(DATASETS);
        bool again = dataset < 0;
        for (size_t j = 0; j < count; j++)
            again = again || !go_together(datasets[j], dataset);
        if (again)
            break;
        good = transfer_begin(&transfer[count], dataset, writing);
        if (writing)
            values_fill(&transfer[count].values);
        else
            values_poison(&transfer[count].values);
        datasets[count] = dataset;
        memory_types[count] = transfer[count].memory_type;
        memory_spaces[count] = transfer[count].memory_space;
        file_spaces[count] = transfer[count].file_space;
        buffers[count] = transfer[count].values.bytes;
        count++;
    }
    if (good && count > 0 && writing)
        said(H5Dwrite_multi(count, datasets, memory_types, memory_spaces, file_spaces, H5P_DEFAULT,
                            (const void **)buffers));
    else if (good && count > 0 &&
             said(H5Dread_multi(count, datasets, memory_types, memory_spaces, file_spaces,
                                H5P_DEFAULT, buffers)))
        for (size_t i = 0; i < count; i++) {
            values_say(&transfer[i].values, gaps_matter(&transfer[i]));
            reclaim(memory_types[i], transfer[i].values.count, buffers[i]);
        }
    for (size_t i = 0; i < count; i++)
        transfer_end(&transfer[i]);
}

/* Native makes room for chunks across the new edge that it only read, if they are in its cache. */
static hid_t open_afresh(hid_t dataset)
{
    char name[64] = "";
    hid_t file = H5Iget_file_id(dataset), again = H5I_INVALID_HID;

    H5Iget_name(dataset, name, sizeof name);
    world_close_kind(DATASETS);
    if (name[0]) {
        say(" again");
        again = H5Dopen2(file, name, H5P_DEFAULT);
        said(again);
    }
    H5Fclose(file);
    return again;
}

void step_extent(void)
{
    hsize_t dims[H5S_MAX_RANK], former[H5S_MAX_RANK], max[H5S_MAX_RANK], elements = 1;
    bool shrinks = false;

    say("extent");
    hid_t dataset = world_pick(DATASETS);
    if (dataset < 0 || dataset_reads_undefined(dataset))
        return;
    hid_t space = H5Dget_space(dataset);
    int rank = H5Sget_simple_extent_dims(space, dims, max);
    H5Sclose(space);
    memcpy(former, dims, sizeof former);
    for (int d = 0; d < rank; d++) {
        hsize_t most = max[d] == H5S_UNLIMITED ? 20 : max[d];
        if (max[d] != dims[d] && chance(75))
            dims[d] = chance(4) ? most + 1 : pick((unsigned)most + 1);
        while (elements * dims[d] > MAX_ELEMENTS)
            dims[d] /= 2;
        elements *= dims[d] ? dims[d] : 1;
        shrinks = shrinks || dims[d] < former[d];
    }
    say(" ");
    say_dims(rank, dims);
    if (shrinks && (dataset = open_afresh(dataset)) < 0)
        return;
    said(H5Dset_extent(dataset, dims));
    if (shrinks)
        world_put(DATASETS, dataset);
}

/* ---- what it says of itself ---- */

static void describe_raw_files(hid_t list)
{
    int count = H5Pget_external_count(list);

    for (int i = 0; i < count; i++) {
        char name[64] = "";
        off_t offset = 0;
        hsize_t bytes = 0;

        H5Pget_external(list, (unsigned)i, sizeof name - 1, name, &offset, &bytes);
        say(" in %s at %lld %llu", name, (long long)offset, (unsigned long long)bytes);
    }
}

static void describe_fill(hid_t list, hid_t type)
{
    H5D_fill_value_t status = H5D_FILL_VALUE_ERROR;
    H5D_fill_time_t time = H5D_FILL_TIME_ERROR;
    struct values fill;

    H5Pfill_value_defined(list, &status);
    H5Pget_fill_time(list, &time);
    say(" fill %d time %d", status, time);
    if (status != H5D_FILL_VALUE_USER_DEFINED || !values_create(&fill, type, -1, 1))
        return;
    if (said(H5Pget_fill_value(list, type, fill.bytes))) {
        values_say(&fill, false);
        reclaim(type, 1, fill.bytes);
    }
    values_destroy(&fill);
}

/* What a saved file may answer differently: the driver leaves out what is in angle brackets. */
static void describe_storage(hid_t dataset, hid_t list)
{
    H5D_alloc_time_t time = H5D_ALLOC_TIME_ERROR;
    H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;

    H5Pget_alloc_time(list, &time);
    H5Dget_space_status(dataset, &status);
    say(" <alloc %d", time);
    if (H5Pget_nfilters(list) == 0)
        say(" status %d bytes %llu", status, (unsigned long long)H5Dget_storage_size(dataset));
    say(">");
}

void dataset_describe(hid_t dataset)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    hid_t list = H5Dget_create_plist(dataset);
    hsize_t chunk[H5S_MAX_RANK];
    unsigned order = 0, most = 0, least = 0;

    say(" ");
    type_say(type);
    say(H5Tcommitted(type) > 0 ? " committed " : " ");
    space_say(space);
    say(" layout %d", H5Pget_layout(list));
    if (H5Pget_layout(list) == H5D_CHUNKED)
        say_dims(H5Pget_chunk(list, MAX_RANK, chunk), chunk);
    for (int f = 0; f < H5Pget_nfilters(list); f++) {
        unsigned flags, config;
        size_t values = 0;
        say(" filter %d",
            H5Pget_filter2(list, (unsigned)f, &flags, &values, NULL, 0, NULL, &config));
    }
    describe_raw_files(list);
    describe_fill(list, type);
    H5Pget_attr_creation_order(list, &order);
    H5Pget_attr_phase_change(list, &most, &least);
    say(" order %u phase %u %u", order, most, least);
    describe_storage(dataset, list);
    H5Pclose(list);
    H5Sclose(space);
    H5Tclose(type);
}

static void read_all_as(hid_t dataset, hid_t type, hsize_t elements, bool gaps)
{
    struct values values;

    if (!values_create(&values, type, dataset, (size_t)elements))
        return;
    values_poison(&values);
    if (said(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.bytes))) {
        values_say(&values, gaps);
        reclaim(type, elements, values.bytes);
    }
    values_destroy(&values);
}

void dataset_read_all(hid_t dataset)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    hid_t native = H5Tget_native_type(type, H5T_DIR_DEFAULT);
    hsize_t elements = space_elements(space);

    say(" as stored");
    read_all_as(dataset, type, elements, false);
    say(" as native");
    read_all_as(dataset, native, elements, false);
    H5Tclose(native);
    H5Sclose(space);
    H5Tclose(type);
}

void step_describe(void)
{
    char name[64] = "";

    say("describe");
    hid_t dataset = world_pick(DATASETS);
    if (dataset < 0)
        return;
    if (H5Iget_name(dataset, name, sizeof name) >= 0)
        say(" %s", name);
    dataset_describe(dataset);
    if (chance(50))
        dataset_read_all(dataset);
}
