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
    .attr_cls = {mkt_vol_attribute_create, mkt_vol_attribute_open, mkt_vol_attribute_read,
                 mkt_vol_attribute_write, mkt_vol_attribute_get, mkt_vol_attribute_specific,
                 mkt_vol_attribute_optional, mkt_vol_attribute_close},
    .dataset_cls = {mkt_vol_dataset_create, mkt_vol_dataset_open, mkt_vol_dataset_read,
                    mkt_vol_dataset_write, mkt_vol_dataset_get, mkt_vol_dataset_specific,
                    mkt_vol_dataset_optional, mkt_vol_dataset_close},
    .datatype_cls = {mkt_vol_datatype_commit, mkt_vol_datatype_open, mkt_vol_datatype_get,
                     mkt_vol_datatype_specific, mkt_vol_datatype_optional, mkt_vol_datatype_close},
    .file_cls = {mkt_vol_file_create, mkt_vol_file_open, mkt_vol_file_get, mkt_vol_file_specific,
                 mkt_vol_file_optional, mkt_vol_file_close},
    .group_cls = {mkt_vol_group_create, mkt_vol_group_open, mkt_vol_group_get,
                  mkt_vol_group_specific, mkt_vol_group_optional, mkt_vol_group_close},
    .link_cls = {mkt_vol_link_create, mkt_vol_link_copy, mkt_vol_link_move, mkt_vol_link_get,
                 mkt_vol_link_specific, mkt_vol_link_optional},
    .object_cls = {mkt_vol_object_open, mkt_vol_object_copy, mkt_vol_object_get,
                   mkt_vol_object_specific, mkt_vol_object_optional},
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
