/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/virtual.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vol/error.h"
#include "vol/external.h"
#include "vol/file_state.h"
#include "vol/list_selection.h"
#include "vol/native.h"
#include "vol/object.h"
#include "vol/threads.h"

#define DEPTH_MAX 16 /* sources that are virtual themselves */

/* ---- where a source file may be ---- */

/* The places where HDF5 looks for a source file (reference manual, H5Pset_virtual_prefix). */
struct places {
    const char *name;        /* as the mapping has it */
    char parent[PATH_MAX];   /* of the virtual dataset */
    char resolved[PATH_MAX]; /* the same, links followed; may be empty */
    char prefix[PATH_MAX];   /* of the access list; may be empty */
};

/* Looks at one place; true ends the search. */
typedef bool (*place_fn)(void *context, const char *path);

static bool visit(place_fn fn, void *context, const char *folder, size_t length, const char *name)
{
    char path[PATH_MAX];
    const char *slash = length > 0 && folder[length - 1] != '/' ? "/" : "";
    int written = snprintf(path, sizeof path, "%.*s%s%s", (int)length, folder, slash, name);

    return written > 0 && (size_t)written < sizeof path && fn(context, path);
}

static bool visit_beside(place_fn fn, void *context, const char *file, const char *name)
{
    const char *slash = strrchr(file, '/');

    return slash && visit(fn, context, file, (size_t)(slash - file + 1), name);
}

static void visit_places(const struct places *places, place_fn fn, void *context)
{
    const char *name = places->name, *folders = getenv("HDF5_VDS_PREFIX");

    if (name[0] == '/') {
        if (fn(context, name))
            return;
        name = strrchr(name, '/') + 1;
    }
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");

        if (length > 0 && visit(fn, context, folders, length, name))
            return;
        folders += length + (folders[length] == ':');
    }
    if (places->prefix[0] && visit(fn, context, places->prefix, strlen(places->prefix), name))
        return;
    if (visit_beside(fn, context, places->parent, name) || fn(context, name))
        return;
    if (places->resolved[0])
        visit_beside(fn, context, places->resolved, name);
}

static herr_t read_prefix(struct mkt_vol_object *dataset, struct places *places)
{
    H5VL_dataset_get_args_t args = {.op_type = H5VL_DATASET_GET_DAPL};

    if (mkt_vol_native()->dataset_cls.get(dataset->under, &args, H5P_DATASET_XFER_DEFAULT, NULL) <
        0)
        return -1;
    ssize_t length =
        H5Pget_virtual_prefix(args.args.get_dapl.dapl_id, places->prefix, sizeof places->prefix);
    mkt_vol_close_keeping_errors(args.args.get_dapl.dapl_id);
    if (length <= 0 || (size_t)length >= sizeof places->prefix)
        places->prefix[0] = '\0';
    return 0;
}

static herr_t read_places(struct mkt_vol_object *dataset, struct places *places)
{
    size_t length;

    places->prefix[0] = '\0';
    if (dataset->file->in_market) {
        snprintf(places->parent, sizeof places->parent, "%s", dataset->file->path);
    } else {
        H5VL_file_get_args_t args = {.op_type = H5VL_FILE_GET_NAME,
                                     .args.get_name = {.type = H5I_DATASET,
                                                       .buf_size = sizeof places->parent,
                                                       .buf = places->parent,
                                                       .file_name_len = &length}};
        if (mkt_vol_native()->file_cls.get(dataset->under, &args, H5P_DATASET_XFER_DEFAULT, NULL) <
            0)
            return -1;
    }
    if (!realpath(places->parent, places->resolved))
        places->resolved[0] = '\0';
    return read_prefix(dataset, places);
}

/* ---- mappings ---- */

static bool is_unlimited(hid_t dcpl, size_t i)
{
    hid_t space = H5Pget_virtual_vspace(dcpl, i);
    bool unlimited = space < 0 || H5Sget_select_npoints(space) == (hssize_t)H5S_UNLIMITED;

    if (space >= 0)
        mkt_vol_close_keeping_errors(space);
    return unlimited;
}

/* A name of a mapping; `block` stands for %b, and %% is %. Negative: it doesn't fit. *formatted_out
 * says whether there was a %b. */
static herr_t expand(char *name, unsigned block, bool *formatted_out)
{
    char expanded[PATH_MAX], *to = expanded, *end = expanded + sizeof expanded - 16;

    for (const char *from = name; *from; from++) {
        if (to >= end)
            return -1;
        if (from[0] == '%' && from[1] == 'b') {
            to += sprintf(to, "%u", block);
            *formatted_out = true;
            from++;
        } else {
            from += from[0] == '%' && from[1] == '%';
            *to++ = *from;
        }
    }
    *to = '\0';
    strcpy(name, expanded);
    return 0;
}

static herr_t file_name(hid_t dcpl, size_t i, unsigned block, char *name, bool *formatted_out)
{
    ssize_t length = H5Pget_virtual_filename(dcpl, i, name, PATH_MAX);

    *formatted_out = false;
    return length < 0 || length >= PATH_MAX ? -1 : expand(name, block, formatted_out);
}

/* ---- opening sources ---- */

struct source {
    struct mkt_vol_object *dataset; /* NULL: missing, or nothing of it is wanted */
    hid_t id;                       /* whose it is */
    hid_t memory, file;             /* what is wanted of it */
};

struct source_file {
    char *name;
    hid_t id;
};

struct call {
    struct mkt_vol_object *dataset;
    bool writing;
    hid_t dcpl, extent, type;
    hid_t file_space, mem_space; /* ours */
    hid_t mem_type, dxpl, fapl;
    void *buffer;
    struct places places;

    struct source_file *files;
    size_t files_count;
    struct source *sources; /* one a mapping */
    size_t mappings;
    hssize_t elements, mapped;
};

struct opening {
    struct call *call;
    hid_t id;
    bool failed; /* it is there, and can't be opened */
};

static bool try_to_open(void *context, const char *path)
{
    struct opening *opening = context;
    unsigned flags = opening->call->writing ? H5F_ACC_RDWR : H5F_ACC_RDONLY;
    struct mkt_vol_silence silence;
    void *library;

    if (mkt_vol_call_context_open(&library) < 0)
        return false;
    mkt_vol_silence_begin(&silence);
    mkt_vol_threads_hold();
    opening->id = H5Fopen(path, flags, opening->call->fapl);
    mkt_vol_threads_unhold();
    mkt_vol_silence_end(&silence);
    mkt_vol_call_context_close(library);
    opening->failed = opening->id < 0 && mkt_path_kind(path) == MKT_PATH_STUB;
    if (opening->id < 0 && !opening->failed)
        H5Eclear2(H5E_DEFAULT);
    return opening->id >= 0 || opening->failed;
}

/* Sources are opened through this connector whatever is the default. */
static hid_t source_list(void)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS), own = H5VLget_connector_id_by_name(MKT_VOL_NAME),
          set = H5I_INVALID_HID;
    int order = 1;

    bool good = list >= 0 && own >= 0 && H5Pset_fclose_degree(list, H5F_CLOSE_WEAK) >= 0 &&
                H5Pget_vol_id(list, &set) >= 0 && H5VLcmp_connector_cls(&order, set, own) >= 0 &&
                (order == 0 || H5Pset_vol(list, own, NULL) >= 0);
    if (set >= 0)
        H5VLclose(set);
    if (own >= 0)
        H5VLclose(own);
    if (!good && list >= 0) {
        mkt_vol_close_keeping_errors(list);
        list = H5I_INVALID_HID;
    }
    return list;
}

/* `own`: the virtual dataset's file, by its path. *id_out negative: there is no such file. */
static herr_t open_file(struct call *call, const char *name, bool own, hid_t *id_out)
{
    struct opening opening = {.call = call, .id = H5I_INVALID_HID};

    for (size_t i = 0; i < call->files_count; i++)
        if (strcmp(call->files[i].name, name) == 0) {
            *id_out = call->files[i].id;
            return 0;
        }
    if (call->fapl < 0 && (call->fapl = source_list()) < 0)
        return -1;
    call->places.name = name;
    if (own)
        try_to_open(&opening, name);
    else
        visit_places(&call->places, try_to_open, &opening);
    if (opening.failed)
        return mkt_vol_fail(H5E_DATASET, H5E_CANTOPENFILE,
                            "%s: the source %s of a virtual dataset is in the market and can't be "
                            "opened",
                            call->places.parent, name);
    struct source_file *file = &call->files[call->files_count];
    file->id = opening.id;
    file->name = strdup(name);
    if (!file->name) {
        if (file->id >= 0)
            mkt_vol_close_keeping_errors(file->id);
        return mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC, "no memory for the sources");
    }
    call->files_count++;
    *id_out = opening.id;
    return 0;
}

/* By HDF5's own function: links on the way need what only that sets up. Negative: missing. */
static hid_t open_by_name(hid_t file, const char *name)
{
    char absolute[PATH_MAX + 1];
    hid_t id = H5I_INVALID_HID;
    void *library;

    snprintf(absolute, sizeof absolute, "%s%s", name[0] == '/' ? "" : "/", name);
    if (mkt_vol_call_context_open(&library) < 0)
        return id;
    H5E_BEGIN_TRY
    {
        id = H5Dopen2(file, absolute, H5P_DEFAULT);
    }
    H5E_END_TRY
    mkt_vol_call_context_close(library);
    if (id < 0)
        H5Eclear2(H5E_DEFAULT);
    return id;
}

/* A wrapper of our own around the dataset of an id. */
static struct mkt_vol_object *wrap_dataset(hid_t id)
{
    void *under = H5VLobject(id);
    struct mkt_vol_object *dataset =
        under ? mkt_vol_object_wrap(under, H5I_DATASET, mkt_vol_file_of(under, H5I_DATASET)) : NULL;

    if (dataset && mkt_vol_dataset_attach(dataset) < 0) {
        mkt_vol_object_free(dataset);
        return NULL;
    }
    return dataset;
}

static void close_dataset(struct source *source)
{
    void *library;

    if (!source->dataset && source->id < 0)
        return;
    if (source->id >= 0 && source->dataset) {
        mkt_vol_dataset_detach(source->dataset);
        mkt_vol_object_free(source->dataset);
    }
    if (mkt_vol_call_context_open(&library) < 0)
        return;
    if (source->id >= 0)
        mkt_vol_close_keeping_errors(source->id);
    else
        mkt_vol_dataset_close(source->dataset, H5P_DATASET_XFER_DEFAULT, NULL);
    mkt_vol_call_context_close(library);
}

/* In the virtual dataset's own file, which may have no path any more; links lead nowhere here. */
static struct mkt_vol_object *open_beside(struct mkt_vol_object *dataset, const char *name)
{
    H5VL_loc_params_t self = {.type = H5VL_OBJECT_BY_SELF, .obj_type = H5I_DATASET};
    char absolute[PATH_MAX + 1];
    void *library, *under = NULL;

    snprintf(absolute, sizeof absolute, "%s%s", name[0] == '/' ? "" : "/", name);
    if (mkt_vol_call_context_open(&library) < 0)
        return NULL;
    H5E_BEGIN_TRY
    {
        under = mkt_vol_native()->dataset_cls.open(dataset->under, &self, absolute,
                                                   H5P_DATASET_ACCESS_DEFAULT,
                                                   H5P_DATASET_XFER_DEFAULT, NULL);
    }
    H5E_END_TRY
    mkt_vol_call_context_close(library);
    if (!under)
        H5Eclear2(H5E_DEFAULT);
    return mkt_vol_object_adopt(under, H5I_DATASET);
}

static herr_t open_dataset(struct call *call, struct source *source, hid_t file, const char *name)
{
    unsigned failures = mkt_vol_external_failures();

    source->id = open_by_name(file, name);
    if (source->id < 0)
        return failures == mkt_vol_external_failures()
                   ? 0
                   : mkt_vol_fail(H5E_DATASET, H5E_CANTOPENFILE,
                                  "%s: a link to the source %s of a virtual dataset leads into the "
                                  "market, to a file that can't be opened",
                                  call->places.parent, name);
    source->dataset = wrap_dataset(source->id);
    return source->dataset ? 0 : -1;
}

static herr_t open_source(struct call *call, size_t i)
{
    char file[PATH_MAX], name[PATH_MAX];
    bool formatted_file, formatted_name = false;
    hid_t id = H5I_INVALID_HID;

    ssize_t length = H5Pget_virtual_dsetname(call->dcpl, i, name, sizeof name);
    if (length < 0 || (size_t)length >= sizeof name || expand(name, 0, &formatted_name) < 0 ||
        file_name(call->dcpl, i, 0, file, &formatted_file) < 0)
        return mkt_vol_fail(H5E_DATASET, H5E_CANTGET,
                            "cannot read the names of a virtual dataset's source");
    bool own = strcmp(file, ".") == 0;
    if (own && (call->sources[i].dataset = open_beside(call->dataset, name)))
        return 0;
    if (open_file(call, own ? call->places.parent : file, own, &id) < 0)
        return -1;
    return id >= 0 ? open_dataset(call, &call->sources[i], id, name) : 0;
}

/* ---- a file passed through ---- */

struct look {
    enum mkt_path_kind kind;
    char path[PATH_MAX];
};

static bool stop_at_anything(void *context, const char *path)
{
    struct look *look = context;

    look->kind = mkt_path_kind(path);
    if (look->kind != MKT_PATH_NONE)
        snprintf(look->path, sizeof look->path, "%s", path);
    return look->kind != MKT_PATH_NONE;
}

static hid_t open_to_look(const char *path)
{
    hid_t list = source_list(), file = H5I_INVALID_HID;
    void *library;

    if (list < 0 || mkt_vol_call_context_open(&library) < 0)
        return file;
    H5E_BEGIN_TRY
    {
        mkt_vol_threads_hold();
        file = H5Fopen(path, H5F_ACC_RDONLY, list);
        mkt_vol_threads_unhold();
    }
    H5E_END_TRY
    mkt_vol_call_context_close(library);
    mkt_vol_close_keeping_errors(list);
    return file;
}

/* A source in an ordinary file: links may lead from there into the market, or it is virtual itself
 * and has sources there. */
static bool leads_into_market(const char *path, const char *name)
{
    static unsigned depth;
    struct source source = {.id = H5I_INVALID_HID};
    void *library;
    bool leads = false;

    if (depth >= DEPTH_MAX)
        return false;
    hid_t file = open_to_look(path);
    if (file < 0)
        return false;
    depth++;
    source.id = open_by_name(file, name);
    if (source.id >= 0 && (source.dataset = wrap_dataset(source.id)))
        leads = source.dataset->file->in_market || mkt_vol_virtual_concerns(source.dataset);
    depth--;
    close_dataset(&source);
    if (mkt_vol_call_context_open(&library) >= 0) {
        mkt_vol_close_keeping_errors(file);
        mkt_vol_call_context_close(library);
    }
    return leads;
}

/* Of a mapping with a printf-style name native reads the blocks up to the first that is missing. */
static bool mapping_leads_into_market(hid_t dcpl, size_t i, struct places *places, bool behind)
{
    char file[PATH_MAX], name[PATH_MAX];
    bool formatted = true, formatted_name = false;
    struct look look = {.kind = MKT_PATH_FILE};

    for (unsigned block = 0; formatted && look.kind == MKT_PATH_FILE; block++) {
        ssize_t length = H5Pget_virtual_dsetname(dcpl, i, name, sizeof name);
        if (length < 0 || (size_t)length >= sizeof name ||
            expand(name, block, &formatted_name) < 0 ||
            file_name(dcpl, i, block, file, &formatted) < 0)
            return false;
        if (strcmp(file, ".") == 0)
            return behind && leads_into_market(places->parent, name);
        places->name = file;
        look.kind = MKT_PATH_NONE;
        visit_places(places, stop_at_anything, &look);
        if (look.kind == MKT_PATH_STUB ||
            (behind && look.kind == MKT_PATH_FILE && leads_into_market(look.path, name)))
            return true;
    }
    return false;
}

static bool has_source_in_market(struct mkt_vol_object *dataset, hid_t dcpl)
{
    struct places places;
    size_t count;

    if (read_places(dataset, &places) < 0 || H5Pget_virtual_count(dcpl, &count) < 0)
        return false;
    /* Native opens its sources once, so once is enough for what takes opening them here. */
    bool behind = !dataset->looked_behind && mkt_vol_external_registered();
    for (size_t i = 0; i < count; i++)
        if (mapping_leads_into_market(dcpl, i, &places, behind))
            return true;
    dataset->looked_behind = dataset->looked_behind || behind;
    return false;
}

/* In a call context of its own: native's answers leave traces of their default transfer list in the
 * one of the transfer that comes next. */
/* An address of its own has what is contiguous and allocated: to ask for it costs a tenth of asking
 * for the creation list. */
static bool has_address(const struct mkt_vol_object *dataset)
{
    haddr_t address = HADDR_UNDEF;
    H5VL_native_dataset_optional_args_t native = {.get_offset = {.offset = &address}};

    return mkt_vol_native_ask(dataset, H5VL_NATIVE_DATASET_GET_OFFSET, &native) >= 0 &&
           address != HADDR_UNDEF;
}

bool mkt_vol_virtual_concerns(struct mkt_vol_object *dataset)
{
    bool concerns = false;
    void *library;

    dataset->not_virtual = has_address(dataset);
    if (dataset->not_virtual)
        return false;

    if (mkt_vol_call_context_open(&library) < 0)
        return false;
    hid_t dcpl = mkt_vol_native_get(dataset, H5VL_DATASET_GET_DCPL);
    dataset->not_virtual = dcpl >= 0 && H5Pget_layout(dcpl) != H5D_VIRTUAL;
    if (dcpl >= 0 && !dataset->not_virtual)
        concerns = has_source_in_market(dataset, dcpl);
    if (dcpl >= 0)
        mkt_vol_close_keeping_errors(dcpl);
    mkt_vol_call_context_close(library);
    return concerns;
}

/* ---- what is wanted of a source ---- */

static hid_t in_extent_of(hid_t selection, hid_t extent)
{
    if (selection >= 0 && H5Sextent_copy(selection, extent) < 0) {
        mkt_vol_close_keeping_errors(selection);
        return H5I_INVALID_HID;
    }
    return selection;
}

static hid_t source_selection(struct call *call, size_t i, struct mkt_vol_object *dataset,
                              hid_t mapped)
{
    hid_t extent = mkt_vol_native_get(dataset, H5VL_DATASET_GET_SPACE), wanted = H5I_INVALID_HID;
    hid_t selection =
        extent < 0 ? extent : in_extent_of(H5Pget_virtual_srcspace(call->dcpl, i), extent);

    if (selection >= 0) {
        wanted = H5Sselect_project_intersection(mapped, selection, call->file_space);
        mkt_vol_close_keeping_errors(selection);
    }
    if (extent >= 0)
        mkt_vol_close_keeping_errors(extent);
    return wanted;
}

static herr_t find_source(struct call *call, size_t i)
{
    struct source *source = &call->sources[i];
    herr_t result = -1;

    hid_t mapped = in_extent_of(H5Pget_virtual_vspace(call->dcpl, i), call->extent);
    if (mapped < 0)
        return -1;
    source->memory = H5Sselect_project_intersection(call->file_space, call->mem_space, mapped);
    if (source->memory < 0)
        goto done;
    hssize_t elements = H5Sget_select_npoints(source->memory);
    result = elements < 0 ? -1 : elements == 0 ? 0 : open_source(call, i);
    if (result < 0 || !source->dataset)
        goto done;
    source->file = source_selection(call, i, source->dataset, mapped);
    if (source->file < 0)
        result = -1;
    call->mapped += elements;
done:
    mkt_vol_close_keeping_errors(mapped);
    return result;
}

static herr_t find_sources(struct call *call)
{
    if (H5Pget_virtual_count(call->dcpl, &call->mappings) < 0)
        return -1;
    call->sources = calloc(call->mappings ? call->mappings : 1, sizeof *call->sources);
    call->files = calloc(call->mappings ? call->mappings : 1, sizeof *call->files);
    if (!call->sources || !call->files)
        return mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC, "no memory for the sources");
    for (size_t i = 0; i < call->mappings; i++)
        call->sources[i] = (struct source){NULL, H5I_INVALID_HID, H5I_INVALID_HID, H5I_INVALID_HID};
    for (size_t i = 0; i < call->mappings; i++) {
        if (is_unlimited(call->dcpl, i))
            return mkt_vol_fail(H5E_DATASET, H5E_UNSUPPORTED,
                                "%s: a virtual dataset with printf-style or unlimited mappings is "
                                "not supported where it or a source is in the market; use fixed "
                                "mappings, or mode `file` for its files",
                                call->places.parent);
        if (find_source(call, i) < 0)
            return -1;
    }
    return 0;
}

static void close_sources(struct call *call)
{
    void *library;

    for (size_t i = 0; call->sources && i < call->mappings; i++) {
        struct source *source = &call->sources[i];

        if (source->memory >= 0)
            mkt_vol_close_keeping_errors(source->memory);
        if (source->file >= 0)
            mkt_vol_close_keeping_errors(source->file);
        close_dataset(source);
    }
    for (size_t i = 0; i < call->files_count; i++) {
        if (call->files[i].id >= 0 && mkt_vol_call_context_open(&library) >= 0) {
            mkt_vol_close_keeping_errors(call->files[i].id);
            mkt_vol_call_context_close(library);
        }
        free(call->files[i].name);
    }
    free(call->sources);
    free(call->files);
}

/* ---- a call ---- */

static herr_t read_spaces(struct call *call, hid_t mem_space, hid_t file_space)
{
    hsize_t dims[MKT_MAX_RANK];
    uint64_t extent[MKT_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(call->extent, dims, NULL);

    for (int d = 0; d < rank; d++)
        extent[d] = dims[d];
    if (file_space == H5S_PLIST)
        call->file_space =
            rank < 0 ? -1 : mkt_vol_list_selection(call->dxpl, (uint32_t)rank, extent);
    else if (file_space == H5S_ALL)
        call->file_space = H5Scopy(call->extent);
    else
        call->file_space = in_extent_of(H5Scopy(file_space), call->extent);
    if (call->file_space < 0)
        return -1;
    if (H5Sselect_valid(call->file_space) <= 0)
        return mkt_vol_fail(H5E_DATASET, H5E_BADRANGE, "file selection+offset not within extent");
    call->elements = H5Sget_select_npoints(call->file_space);
    if (mem_space == H5S_BLOCK) {
        hsize_t elements = (hsize_t)call->elements;

        call->mem_space = H5Screate_simple(1, &elements, NULL);
    } else {
        call->mem_space = H5Scopy(mem_space == H5S_ALL ? call->file_space : mem_space);
    }
    if (call->mem_space < 0)
        return -1;
    if (H5Sget_select_npoints(call->mem_space) != call->elements)
        return mkt_vol_fail(H5E_DATASET, H5E_BADVALUE,
                            "src and dest dataspaces have different number of elements selected");
    return 0;
}

static herr_t fill(struct call *call)
{
    H5D_fill_value_t status;
    void *value = NULL;
    herr_t result;

    if (H5Pfill_value_defined(call->dcpl, &status) < 0)
        return -1;
    if (status == H5D_FILL_VALUE_UNDEFINED)
        return 0;
    if (status == H5D_FILL_VALUE_USER_DEFINED) {
        value = malloc(H5Tget_size(call->type));
        if (!value)
            return mkt_vol_fail(H5E_RESOURCE, H5E_CANTALLOC, "no memory for a fill value");
        if (H5Pget_fill_value(call->dcpl, call->type, value) < 0) {
            free(value);
            return -1;
        }
    }
    result = H5Dfill(value, call->type, call->buffer, call->mem_type, call->mem_space);
    free(value);
    return result;
}

static herr_t move(struct call *call)
{
    const void *from = call->buffer;
    herr_t result = 0;
    void *library;

    if (call->writing && call->mapped != call->elements)
        return mkt_vol_fail(H5E_DATASPACE, H5E_BADVALUE,
                            "write requested to unmapped portion of virtual dataset");
    if (!call->writing && call->mapped < call->elements && fill(call) < 0)
        return -1;
    for (size_t i = 0; i < call->mappings && result >= 0; i++) {
        struct source *source = &call->sources[i];
        void *dataset = source->dataset;

        if (!dataset || mkt_vol_call_context_open(&library) < 0)
            continue;
        result = call->writing
                     ? mkt_vol_dataset_write(1, &dataset, &call->mem_type, &source->memory,
                                             &source->file, call->dxpl, &from, NULL)
                     : mkt_vol_dataset_read(1, &dataset, &call->mem_type, &source->memory,
                                            &source->file, call->dxpl, &call->buffer, NULL);
        mkt_vol_call_context_close(library);
    }
    return result;
}

static herr_t transfer(struct call *call, hid_t mem_space, hid_t file_space)
{
    struct mkt_vol_object *dataset = call->dataset;
    herr_t result = -1;

    call->fapl = call->file_space = call->mem_space = H5I_INVALID_HID;
    call->dcpl = mkt_vol_native_get(dataset, H5VL_DATASET_GET_DCPL);
    call->extent = mkt_vol_native_get(dataset, H5VL_DATASET_GET_SPACE);
    call->type = mkt_vol_native_get(dataset, H5VL_DATASET_GET_TYPE);
    if (call->dcpl >= 0 && call->extent >= 0 && call->type >= 0 &&
        read_places(dataset, &call->places) >= 0 && read_spaces(call, mem_space, file_space) >= 0)
        result = 0;
    if (result >= 0 && call->elements > 0 && !call->buffer)
        result = mkt_vol_fail(H5E_ARGS, H5E_BADVALUE, "no output buffer");
    if (result >= 0 && call->elements > 0) {
        result = find_sources(call);
        if (result >= 0)
            result = move(call);
        close_sources(call);
    }
    const hid_t ids[] = {call->dcpl,       call->extent,    call->type,
                         call->file_space, call->mem_space, call->fapl};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i] >= 0)
            mkt_vol_close_keeping_errors(ids[i]);
    return result;
}

static herr_t begin(struct call *call, hid_t mem_space, hid_t file_space)
{
    static unsigned depth; /* under HDF5's global lock */
    const struct mkt_vol_file *file = call->dataset->file;
    herr_t result;

    if (file->in_market && file->state->driver == MKT_VOL_DRIVER_MPIO)
        return mkt_vol_fail(H5E_DATASET, H5E_UNSUPPORTED,
                            "parallel %s not supported on virtual datasets",
                            call->writing ? "writes" : "reads");
    if (depth >= DEPTH_MAX)
        return mkt_vol_fail(H5E_DATASET, H5E_UNSUPPORTED,
                            "virtual datasets nested more than %d deep", DEPTH_MAX);
    depth++;
    result = transfer(call, mem_space, file_space);
    depth--;
    return result;
}

herr_t mkt_vol_virtual_read(struct mkt_vol_object *dataset, hid_t mem_type, hid_t mem_space,
                            hid_t file_space, hid_t dxpl, void *buffer)
{
    struct call call = {.dataset = dataset, .mem_type = mem_type, .dxpl = dxpl, .buffer = buffer};

    return begin(&call, mem_space, file_space);
}

herr_t mkt_vol_virtual_write(struct mkt_vol_object *dataset, hid_t mem_type, hid_t mem_space,
                             hid_t file_space, hid_t dxpl, const void *buffer)
{
    struct call call = {.dataset = dataset,
                        .writing = true,
                        .mem_type = mem_type,
                        .dxpl = dxpl,
                        .buffer = (void *)buffer}; /* only read */

    return begin(&call, mem_space, file_space);
}
