/* SPDX-License-Identifier: BSD-3-Clause */
/* The connector's class, as HDF5 asks for it, and its life: initialize and terminate can come
 * again. */
#include "vol/callbacks.h"
#include "vol/context.h"
#include "vol/error.h"
#include "vol/external.h"
#include "vol/file_lists.h"
#include "vol/image.h"
#include "vol/info.h"
#include "vol/object.h"

#define MKT_VOL_CONNECTOR_VERSION 1

/* What native can do; introspect.c asks it, this is for who reads the class itself. Requests are
 * absent: nothing is asynchronous. */
#define CAPABILITIES                                                                         \
    (H5VL_CAP_FLAG_NATIVE_FILES | H5VL_CAP_FLAG_ATTR_BASIC | H5VL_CAP_FLAG_ATTR_MORE |       \
     H5VL_CAP_FLAG_DATASET_BASIC | H5VL_CAP_FLAG_DATASET_MORE | H5VL_CAP_FLAG_FILE_BASIC |   \
     H5VL_CAP_FLAG_FILE_MORE | H5VL_CAP_FLAG_GROUP_BASIC | H5VL_CAP_FLAG_GROUP_MORE |        \
     H5VL_CAP_FLAG_LINK_BASIC | H5VL_CAP_FLAG_LINK_MORE | H5VL_CAP_FLAG_OBJECT_BASIC |       \
     H5VL_CAP_FLAG_OBJECT_MORE | H5VL_CAP_FLAG_REF_BASIC | H5VL_CAP_FLAG_REF_MORE |          \
     H5VL_CAP_FLAG_OBJ_REF | H5VL_CAP_FLAG_REG_REF | H5VL_CAP_FLAG_ATTR_REF |                \
     H5VL_CAP_FLAG_STORED_DATATYPES | H5VL_CAP_FLAG_CREATION_ORDER | H5VL_CAP_FLAG_ITERATE | \
     H5VL_CAP_FLAG_STORAGE_SIZE | H5VL_CAP_FLAG_BY_IDX | H5VL_CAP_FLAG_GET_PLIST |           \
     H5VL_CAP_FLAG_FLUSH_REFRESH | H5VL_CAP_FLAG_EXTERNAL_LINKS | H5VL_CAP_FLAG_HARD_LINKS | \
     H5VL_CAP_FLAG_SOFT_LINKS | H5VL_CAP_FLAG_UD_LINKS | H5VL_CAP_FLAG_TRACK_TIMES |         \
     H5VL_CAP_FLAG_MOUNT | H5VL_CAP_FLAG_FILTERS | H5VL_CAP_FLAG_FILL_VALUES)

/* In HDF5's search of connectors we come and go between native's complaint and its reader: what is
 * on the error stack stays there. */
static herr_t initialize(hid_t vipl)
{
    (void)vipl;
    hid_t errors = H5Eget_current_stack();
    mkt_vol_error_init();
    herr_t result = mkt_vol_context_init();
    if (errors >= 0)
        H5Eset_current_stack(errors);
    return result;
}

static herr_t terminate(void)
{
    hid_t errors = H5Eget_current_stack();
    mkt_vol_files_settle();
    mkt_vol_context_fini();
    mkt_vol_external_forget();
    mkt_vol_lists_forget();
    mkt_vol_image_forget();
    mkt_vol_error_fini();
    if (errors >= 0)
        H5Eset_current_stack(errors);
    return 0;
}

herr_t mkt_vol_optional(void *object, H5VL_optional_args_t *args, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return -1;
    return H5VLoptional(mkt_vol_under(object), mkt_vol_native_id(), args, dxpl, request);
}

/* ---- HDF5's automatic printing ----
 * A nested call that fails prints the error stack, and the application's call prints it again. So
 * nothing is printed inside of callbacks, but for what fails in the application's own functions.
 * Opens and creates of files, and transfers of datasets, see to it themselves. It costs as much as
 * a small transfer, so closes and what only looks at an open object do without. */
#define QUIET(type, name, parameters, arguments) \
    static type name##_quietly parameters        \
    {                                            \
        struct mkt_vol_silence silence;          \
        mkt_vol_silence_begin(&silence);         \
        type result = mkt_vol_##name arguments;  \
        mkt_vol_silence_end(&silence);           \
        return result;                           \
    }
#define QUIET_UNLESS(calls_back, name, parameters, arguments) \
    static herr_t name##_quietly parameters                   \
    {                                                         \
        struct mkt_vol_silence silence = {.active = false};   \
        if (!(calls_back))                                    \
            mkt_vol_silence_begin(&silence);                  \
        herr_t result = mkt_vol_##name arguments;             \
        mkt_vol_silence_end(&silence);                        \
        return result;                                        \
    }

QUIET(void *, attribute_create,
      (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t type, hid_t space,
       hid_t acpl, hid_t aapl, hid_t dxpl, void **request),
      (object, loc, name, type, space, acpl, aapl, dxpl, request))
QUIET(void *, attribute_open,
      (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t aapl, hid_t dxpl,
       void **request),
      (object, loc, name, aapl, dxpl, request))
QUIET(herr_t, attribute_read, (void *object, hid_t type, void *buffer, hid_t dxpl, void **request),
      (object, type, buffer, dxpl, request))
QUIET(herr_t, attribute_write,
      (void *object, hid_t type, const void *buffer, hid_t dxpl, void **request),
      (object, type, buffer, dxpl, request))
QUIET_UNLESS(args->op_type == H5VL_NATIVE_ATTR_ITERATE_OLD, attribute_optional,
             (void *object, H5VL_optional_args_t *args, hid_t dxpl, void **request),
             (object, args, dxpl, request))
QUIET(void *, dataset_create,
      (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t lcpl, hid_t type,
       hid_t space, hid_t dcpl, hid_t dapl, hid_t dxpl, void **request),
      (object, loc, name, lcpl, type, space, dcpl, dapl, dxpl, request))
QUIET(void *, dataset_open,
      (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t dapl, hid_t dxpl,
       void **request),
      (object, loc, name, dapl, dxpl, request))
QUIET(herr_t, dataset_specific,
      (void *object, H5VL_dataset_specific_args_t *args, hid_t dxpl, void **request),
      (object, args, dxpl, request))
QUIET_UNLESS(args->op_type == H5VL_NATIVE_DATASET_CHUNK_ITER, dataset_optional,
             (void *object, H5VL_optional_args_t *args, hid_t dxpl, void **request),
             (object, args, dxpl, request))
QUIET(void *, datatype_commit,
      (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t type, hid_t lcpl,
       hid_t tcpl, hid_t tapl, hid_t dxpl, void **request),
      (object, loc, name, type, lcpl, tcpl, tapl, dxpl, request))
QUIET(void *, datatype_open,
      (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t tapl, hid_t dxpl,
       void **request),
      (object, loc, name, tapl, dxpl, request))
QUIET(herr_t, datatype_specific,
      (void *object, H5VL_datatype_specific_args_t *args, hid_t dxpl, void **request),
      (object, args, dxpl, request))
QUIET(herr_t, datatype_optional,
      (void *object, H5VL_optional_args_t *args, hid_t dxpl, void **request),
      (object, args, dxpl, request))
QUIET(herr_t, file_get, (void *object, H5VL_file_get_args_t *args, hid_t dxpl, void **request),
      (object, args, dxpl, request))
QUIET(herr_t, file_specific,
      (void *object, H5VL_file_specific_args_t *args, hid_t dxpl, void **request),
      (object, args, dxpl, request))
QUIET(herr_t, file_optional, (void *object, H5VL_optional_args_t *args, hid_t dxpl, void **request),
      (object, args, dxpl, request))
QUIET(herr_t, file_close, (void *object, hid_t dxpl, void **request), (object, dxpl, request))
QUIET(void *, group_create,
      (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t lcpl, hid_t gcpl,
       hid_t gapl, hid_t dxpl, void **request),
      (object, loc, name, lcpl, gcpl, gapl, dxpl, request))
QUIET(void *, group_open,
      (void *object, const H5VL_loc_params_t *loc, const char *name, hid_t gapl, hid_t dxpl,
       void **request),
      (object, loc, name, gapl, dxpl, request))
QUIET(herr_t, group_get, (void *object, H5VL_group_get_args_t *args, hid_t dxpl, void **request),
      (object, args, dxpl, request))
QUIET(herr_t, group_specific,
      (void *object, H5VL_group_specific_args_t *args, hid_t dxpl, void **request),
      (object, args, dxpl, request))
QUIET_UNLESS(args->op_type == H5VL_NATIVE_GROUP_ITERATE_OLD, group_optional,
             (void *object, H5VL_optional_args_t *args, hid_t dxpl, void **request),
             (object, args, dxpl, request))
QUIET(herr_t, link_create,
      (H5VL_link_create_args_t * args, void *object, const H5VL_loc_params_t *loc, hid_t lcpl,
       hid_t lapl, hid_t dxpl, void **request),
      (args, object, loc, lcpl, lapl, dxpl, request))
QUIET(herr_t, link_copy,
      (void *source, const H5VL_loc_params_t *source_loc, void *target,
       const H5VL_loc_params_t *target_loc, hid_t lcpl, hid_t lapl, hid_t dxpl, void **request),
      (source, source_loc, target, target_loc, lcpl, lapl, dxpl, request))
QUIET(herr_t, link_move,
      (void *source, const H5VL_loc_params_t *source_loc, void *target,
       const H5VL_loc_params_t *target_loc, hid_t lcpl, hid_t lapl, hid_t dxpl, void **request),
      (source, source_loc, target, target_loc, lcpl, lapl, dxpl, request))
QUIET(herr_t, link_get,
      (void *object, const H5VL_loc_params_t *loc, H5VL_link_get_args_t *args, hid_t dxpl,
       void **request),
      (object, loc, args, dxpl, request))
QUIET(herr_t, link_optional,
      (void *object, const H5VL_loc_params_t *loc, H5VL_optional_args_t *args, hid_t dxpl,
       void **request),
      (object, loc, args, dxpl, request))
QUIET(void *, object_open,
      (void *object, const H5VL_loc_params_t *loc, H5I_type_t *type, hid_t dxpl, void **request),
      (object, loc, type, dxpl, request))
QUIET(herr_t, object_copy,
      (void *source, const H5VL_loc_params_t *source_loc, const char *source_name, void *target,
       const H5VL_loc_params_t *target_loc, const char *target_name, hid_t ocpypl, hid_t lcpl,
       hid_t dxpl, void **request),
      (source, source_loc, source_name, target, target_loc, target_name, ocpypl, lcpl, dxpl,
       request))
QUIET(herr_t, object_get,
      (void *object, const H5VL_loc_params_t *loc, H5VL_object_get_args_t *args, hid_t dxpl,
       void **request),
      (object, loc, args, dxpl, request))
QUIET(herr_t, object_optional,
      (void *object, const H5VL_loc_params_t *loc, H5VL_optional_args_t *args, hid_t dxpl,
       void **request),
      (object, loc, args, dxpl, request))

/* An iteration: the application's function is called with HDF5's printing as it was. */
struct aloud {
    struct mkt_vol_silence silence;
    H5L_iterate2_t link;
    H5A_operator2_t attribute;
    H5O_iterate2_t object;
    void *data;
};

static herr_t call_link(hid_t object, const char *name, const H5L_info2_t *info, void *context)
{
    struct aloud *aloud = context;
    mkt_vol_silence_end(&aloud->silence);
    herr_t result = aloud->link(object, name, info, aloud->data);
    mkt_vol_silence_begin(&aloud->silence);
    return result;
}

static herr_t link_specific_quietly(void *object, const H5VL_loc_params_t *loc,
                                    H5VL_link_specific_args_t *args, hid_t dxpl, void **request)
{
    struct aloud aloud;
    H5VL_link_specific_args_t native = *args;
    if (args->op_type == H5VL_LINK_ITER) {
        aloud.link = args->args.iterate.op;
        aloud.data = args->args.iterate.op_data;
        native.args.iterate.op = call_link;
        native.args.iterate.op_data = &aloud;
    }
    mkt_vol_silence_begin(&aloud.silence);
    herr_t result = mkt_vol_link_specific(
        object, loc, args->op_type == H5VL_LINK_ITER ? &native : args, dxpl, request);
    mkt_vol_silence_end(&aloud.silence);
    return result;
}

static herr_t call_attribute(hid_t object, const char *name, const H5A_info_t *info, void *context)
{
    struct aloud *aloud = context;
    mkt_vol_silence_end(&aloud->silence);
    herr_t result = aloud->attribute(object, name, info, aloud->data);
    mkt_vol_silence_begin(&aloud->silence);
    return result;
}

static herr_t attribute_specific_quietly(void *object, const H5VL_loc_params_t *loc,
                                         H5VL_attr_specific_args_t *args, hid_t dxpl,
                                         void **request)
{
    struct aloud aloud;
    H5VL_attr_specific_args_t native = *args;
    if (args->op_type == H5VL_ATTR_ITER) {
        aloud.attribute = args->args.iterate.op;
        aloud.data = args->args.iterate.op_data;
        native.args.iterate.op = call_attribute;
        native.args.iterate.op_data = &aloud;
    }
    mkt_vol_silence_begin(&aloud.silence);
    herr_t result = mkt_vol_attribute_specific(
        object, loc, args->op_type == H5VL_ATTR_ITER ? &native : args, dxpl, request);
    mkt_vol_silence_end(&aloud.silence);
    return result;
}

static herr_t call_object(hid_t object, const char *name, const H5O_info2_t *info, void *context)
{
    struct aloud *aloud = context;
    mkt_vol_silence_end(&aloud->silence);
    herr_t result = aloud->object(object, name, info, aloud->data);
    mkt_vol_silence_begin(&aloud->silence);
    return result;
}

static herr_t object_specific_quietly(void *object, const H5VL_loc_params_t *loc,
                                      H5VL_object_specific_args_t *args, hid_t dxpl, void **request)
{
    struct aloud aloud;
    H5VL_object_specific_args_t native = *args;
    if (args->op_type == H5VL_OBJECT_VISIT) {
        aloud.object = args->args.visit.op;
        aloud.data = args->args.visit.op_data;
        native.args.visit.op = call_object;
        native.args.visit.op_data = &aloud;
    }
    mkt_vol_silence_begin(&aloud.silence);
    herr_t result = mkt_vol_object_specific(
        object, loc, args->op_type == H5VL_OBJECT_VISIT ? &native : args, dxpl, request);
    mkt_vol_silence_end(&aloud.silence);
    return result;
}

static const H5VL_class_t market_class = {
    .version = H5VL_VERSION,
    .value = MKT_VOL_VALUE,
    .name = MKT_VOL_NAME,
    .conn_version = MKT_VOL_CONNECTOR_VERSION,
    .cap_flags = CAPABILITIES,
    .initialize = initialize,
    .terminate = terminate,
    .info_cls = {sizeof(struct mkt_vol_info), mkt_vol_info_copy, mkt_vol_info_cmp,
                 mkt_vol_info_free, mkt_vol_info_to_str, mkt_vol_info_from_str},
    .wrap_cls = {mkt_vol_wrap_get_object, mkt_vol_wrap_get_context, mkt_vol_wrap_object,
                 mkt_vol_wrap_unwrap, mkt_vol_wrap_free_context},
    .attr_cls = {attribute_create_quietly, attribute_open_quietly, attribute_read_quietly,
                 attribute_write_quietly, mkt_vol_attribute_get, attribute_specific_quietly,
                 attribute_optional_quietly, mkt_vol_attribute_close},
    .dataset_cls = {dataset_create_quietly, dataset_open_quietly, mkt_vol_dataset_read,
                    mkt_vol_dataset_write, mkt_vol_dataset_get, dataset_specific_quietly,
                    dataset_optional_quietly, mkt_vol_dataset_close},
    .datatype_cls = {datatype_commit_quietly, datatype_open_quietly, mkt_vol_datatype_get,
                     datatype_specific_quietly, datatype_optional_quietly, mkt_vol_datatype_close},
    .file_cls = {mkt_vol_file_create, mkt_vol_file_open, file_get_quietly, file_specific_quietly,
                 file_optional_quietly, file_close_quietly},
    .group_cls = {group_create_quietly, group_open_quietly, group_get_quietly,
                  group_specific_quietly, group_optional_quietly, mkt_vol_group_close},
    .link_cls = {link_create_quietly, link_copy_quietly, link_move_quietly, link_get_quietly,
                 link_specific_quietly, link_optional_quietly},
    .object_cls = {object_open_quietly, object_copy_quietly, object_get_quietly,
                   object_specific_quietly, object_optional_quietly},
    .introspect_cls = {mkt_vol_introspect_class, mkt_vol_introspect_capabilities,
                       mkt_vol_introspect_optional},
    .blob_cls = {mkt_vol_blob_put, mkt_vol_blob_get, mkt_vol_blob_specific, mkt_vol_blob_optional},
    .token_cls = {mkt_vol_token_cmp, mkt_vol_token_to_str, mkt_vol_token_from_str},
    .optional = mkt_vol_optional,
};

const void *mkt_vol_class(void)
{
    return &market_class;
}
