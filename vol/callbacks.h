/* SPDX-License-Identifier: BSD-3-Clause */
/* The callbacks of the connector's class, by kind of object; dataset callbacks are in vol.h.
 * Parameters are HDF5's (H5VLconnector.h). */
#ifndef MKT_VOL_CALLBACKS_H
#define MKT_VOL_CALLBACKS_H

#include "vol/vol.h"

/* ---- info.c: the connector string ---- */
void *mkt_vol_info_copy(const void *info);
herr_t mkt_vol_info_cmp(int *order_out, const void *left, const void *right);
herr_t mkt_vol_info_free(void *info);
herr_t mkt_vol_info_to_str(const void *info, char **string_out);
herr_t mkt_vol_info_from_str(const char *string, void **info_out);

/* ---- wrap.c ---- */
void *mkt_vol_wrap_get_object(const void *object);
herr_t mkt_vol_wrap_get_context(const void *object, void **context_out);
void *mkt_vol_wrap_object(void *under, H5I_type_t type, void *context);
void *mkt_vol_wrap_unwrap(void *object);
herr_t mkt_vol_wrap_free_context(void *context);

/* ---- attribute.c ---- */
void *mkt_vol_attribute_create(void *object, const H5VL_loc_params_t *loc, const char *name,
                               hid_t type, hid_t space, hid_t acpl, hid_t aapl, hid_t dxpl,
                               void **request);
void *mkt_vol_attribute_open(void *object, const H5VL_loc_params_t *loc, const char *name,
                             hid_t aapl, hid_t dxpl, void **request);
herr_t mkt_vol_attribute_read(void *attribute, hid_t type, void *buffer, hid_t dxpl,
                              void **request);
herr_t mkt_vol_attribute_write(void *attribute, hid_t type, const void *buffer, hid_t dxpl,
                               void **request);
herr_t mkt_vol_attribute_get(void *object, H5VL_attr_get_args_t *args, hid_t dxpl, void **request);
herr_t mkt_vol_attribute_specific(void *object, const H5VL_loc_params_t *loc,
                                  H5VL_attr_specific_args_t *args, hid_t dxpl, void **request);
herr_t mkt_vol_attribute_optional(void *object, H5VL_optional_args_t *args, hid_t dxpl,
                                  void **request);
herr_t mkt_vol_attribute_close(void *attribute, hid_t dxpl, void **request);

/* ---- datatype.c ---- */
void *mkt_vol_datatype_commit(void *object, const H5VL_loc_params_t *loc, const char *name,
                              hid_t type, hid_t lcpl, hid_t tcpl, hid_t tapl, hid_t dxpl,
                              void **request);
void *mkt_vol_datatype_open(void *object, const H5VL_loc_params_t *loc, const char *name,
                            hid_t tapl, hid_t dxpl, void **request);
herr_t mkt_vol_datatype_get(void *datatype, H5VL_datatype_get_args_t *args, hid_t dxpl,
                            void **request);
herr_t mkt_vol_datatype_specific(void *datatype, H5VL_datatype_specific_args_t *args, hid_t dxpl,
                                 void **request);
herr_t mkt_vol_datatype_optional(void *datatype, H5VL_optional_args_t *args, hid_t dxpl,
                                 void **request);
herr_t mkt_vol_datatype_close(void *datatype, hid_t dxpl, void **request);

/* ---- file.c ---- */
void *mkt_vol_file_create(const char *name, unsigned flags, hid_t fcpl, hid_t fapl, hid_t dxpl,
                          void **request);
void *mkt_vol_file_open(const char *name, unsigned flags, hid_t fapl, hid_t dxpl, void **request);
herr_t mkt_vol_file_close(void *file, hid_t dxpl, void **request);
/* ---- file_answers.c ---- */
herr_t mkt_vol_file_get(void *file, H5VL_file_get_args_t *args, hid_t dxpl, void **request);
herr_t mkt_vol_file_specific(void *file, H5VL_file_specific_args_t *args, hid_t dxpl,
                             void **request);
herr_t mkt_vol_file_optional(void *file, H5VL_optional_args_t *args, hid_t dxpl, void **request);

/* ---- group.c ---- */
void *mkt_vol_group_create(void *object, const H5VL_loc_params_t *loc, const char *name, hid_t lcpl,
                           hid_t gcpl, hid_t gapl, hid_t dxpl, void **request);
void *mkt_vol_group_open(void *object, const H5VL_loc_params_t *loc, const char *name, hid_t gapl,
                         hid_t dxpl, void **request);
herr_t mkt_vol_group_get(void *group, H5VL_group_get_args_t *args, hid_t dxpl, void **request);
herr_t mkt_vol_group_specific(void *group, H5VL_group_specific_args_t *args, hid_t dxpl,
                              void **request);
herr_t mkt_vol_group_optional(void *group, H5VL_optional_args_t *args, hid_t dxpl, void **request);
herr_t mkt_vol_group_close(void *group, hid_t dxpl, void **request);

/* ---- link.c ---- */
herr_t mkt_vol_link_create(H5VL_link_create_args_t *args, void *object,
                           const H5VL_loc_params_t *loc, hid_t lcpl, hid_t lapl, hid_t dxpl,
                           void **request);
herr_t mkt_vol_link_copy(void *source, const H5VL_loc_params_t *source_loc, void *target,
                         const H5VL_loc_params_t *target_loc, hid_t lcpl, hid_t lapl, hid_t dxpl,
                         void **request);
herr_t mkt_vol_link_move(void *source, const H5VL_loc_params_t *source_loc, void *target,
                         const H5VL_loc_params_t *target_loc, hid_t lcpl, hid_t lapl, hid_t dxpl,
                         void **request);
herr_t mkt_vol_link_get(void *object, const H5VL_loc_params_t *loc, H5VL_link_get_args_t *args,
                        hid_t dxpl, void **request);
herr_t mkt_vol_link_specific(void *object, const H5VL_loc_params_t *loc,
                             H5VL_link_specific_args_t *args, hid_t dxpl, void **request);
herr_t mkt_vol_link_optional(void *object, const H5VL_loc_params_t *loc, H5VL_optional_args_t *args,
                             hid_t dxpl, void **request);

/* ---- object.c ---- */
void *mkt_vol_object_open(void *object, const H5VL_loc_params_t *loc, H5I_type_t *type_out,
                          hid_t dxpl, void **request);
herr_t mkt_vol_object_copy(void *source, const H5VL_loc_params_t *source_loc,
                           const char *source_name, void *target,
                           const H5VL_loc_params_t *target_loc, const char *target_name,
                           hid_t ocpypl, hid_t lcpl, hid_t dxpl, void **request);
herr_t mkt_vol_object_get(void *object, const H5VL_loc_params_t *loc, H5VL_object_get_args_t *args,
                          hid_t dxpl, void **request);
herr_t mkt_vol_object_specific(void *object, const H5VL_loc_params_t *loc,
                               H5VL_object_specific_args_t *args, hid_t dxpl, void **request);
herr_t mkt_vol_object_optional(void *object, const H5VL_loc_params_t *loc,
                               H5VL_optional_args_t *args, hid_t dxpl, void **request);

/* ---- introspect.c ---- */
herr_t mkt_vol_introspect_class(void *object, H5VL_get_conn_lvl_t level,
                                const H5VL_class_t **class_out);
herr_t mkt_vol_introspect_capabilities(const void *info, uint64_t *flags_out);
herr_t mkt_vol_introspect_optional(void *object, H5VL_subclass_t subclass, int operation,
                                   uint64_t *flags_out);

/* ---- blob.c ---- */
herr_t mkt_vol_blob_put(void *object, const void *buffer, size_t size, void *id, void *context);
herr_t mkt_vol_blob_get(void *object, const void *id, void *buffer, size_t size, void *context);
herr_t mkt_vol_blob_specific(void *object, void *id, H5VL_blob_specific_args_t *args);
herr_t mkt_vol_blob_optional(void *object, void *id, H5VL_optional_args_t *args);

/* ---- token.c ---- */
herr_t mkt_vol_token_cmp(void *object, const H5O_token_t *left, const H5O_token_t *right,
                         int *order_out);
herr_t mkt_vol_token_to_str(void *object, H5I_type_t type, const H5O_token_t *token,
                            char **string_out);
herr_t mkt_vol_token_from_str(void *object, H5I_type_t type, const char *string,
                              H5O_token_t *token_out);

/* ---- class.c ---- */
/* The connector's H5VL_class_t; exported for the entry object. */
__attribute__((visibility("default"))) const void *mkt_vol_class(void);
herr_t mkt_vol_optional(void *object, H5VL_optional_args_t *args, hid_t dxpl, void **request);

#endif
