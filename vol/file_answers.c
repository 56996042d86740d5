/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a file is asked and told. Answers are the application's own terms (its path, its driver),
 * never those of the memory that native works in. Files passed through get native's answers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/client/superblock.h"
#include "vol/callbacks.h"
#include "vol/context.h"
#include "vol/error.h"
#include "vol/file_image.h"
#include "vol/file_lists.h"
#include "vol/file_state.h"
#include "vol/intent.h"
#include "vol/object.h"

#define NEWEST_OF_1_8 2 /* superblock that H5Fformat_convert leaves */

static const struct mkt_vol_object *as_object(const void *object)
{
    return object;
}

static herr_t get_name(const struct mkt_vol_file *file, H5VL_file_get_name_args_t *args)
{
    size_t length = strlen(file->path);
    *args->file_name_len = length;
    if (args->buf && args->buf_size) {
        size_t fits = length < args->buf_size ? length : args->buf_size - 1;
        memcpy(args->buf, file->path, fits);
        args->buf[fits] = '\0';
    }
    return 0;
}

/* A file whose last close failed has no open objects; h5py asks before it closes once more. */
static bool has_no_objects(const struct mkt_vol_object *object, H5VL_file_get_args_t *args)
{
    if (object->under)
        return false;
    if (args->op_type == H5VL_FILE_GET_OBJ_COUNT)
        *args->args.get_obj_count.count = 0;
    else if (args->op_type == H5VL_FILE_GET_OBJ_IDS)
        *args->args.get_obj_ids.count = 0;
    else
        return false;
    return true;
}

herr_t mkt_vol_file_get(void *object, H5VL_file_get_args_t *args, hid_t dxpl, void **request)
{
    /* HDF5 2.x's tools ask with what H5VLobject gave them: native's object. */
    if (as_object(object)->mark != MKT_VOL_OBJECT_MARK)
        return mkt_vol_native()->file_cls.get(object, args, dxpl, request);
    if (has_no_objects(as_object(object), args))
        return 0;
    if (!mkt_vol_object_usable(object))
        return -1;
    const struct mkt_vol_file *file = as_object(object)->file;
    bool in_market = file && file->in_market;
    if (in_market && args->op_type == H5VL_FILE_GET_NAME)
        return get_name(file, &args->args.get_name);
    if (mkt_vol_native()->file_cls.get(mkt_vol_under(object), args, dxpl, request) < 0)
        return -1;
    if (in_market && args->op_type == H5VL_FILE_GET_FAPL)
        return mkt_vol_list_restore(args->args.get_fapl.fapl_id, file);
    return 0;
}

/* ---- without an open file ---- */

/* What rank 0 finds out about a path; the whole group acts on it, since native's own way is
 * collective. */
enum answer {
    ANSWER_NATIVE,
    ANSWER_YES,
    ANSWER_NO,
    ANSWER_FAILED
};

/* The market's client, if one runs here. False, with an entry on the error stack, for a failure. */
static bool client_for(hid_t fapl, struct mkt_client **client_out)
{
    struct mkt_error error = {0};
    void *info = NULL;
    *client_out = NULL;
    H5Pget_vol_info(fapl, &info);
    enum mkt_status status = mkt_vol_context_client(info, false, client_out, &error);
    mkt_vol_info_free(info);
    if (status == MKT_OK || status == MKT_NOT_FOUND)
        return true;
    error.status = status;
    mkt_vol_fail_status(&error);
    return false;
}

/* True if the rule sends the path to native, and no stub stands there: nothing need be asked. */
static bool is_on_disk(const struct mkt_client *client, const char *path)
{
    struct mkt_rule rule;
    mkt_client_rule(client, path, &rule);
    return rule.mode == MKT_MODE_FILE && mkt_path_kind(path) != MKT_PATH_STUB;
}

static enum answer ask_accessible(const char *path, hid_t fapl)
{
    struct mkt_client *client;
    if (!client_for(fapl, &client))
        return ANSWER_FAILED;
    if (client && is_on_disk(client, path))
        return ANSWER_NATIVE;
    struct mkt_open probe = {.path = path, .intent = MKT_INTENT_PROBE, .size = 1};
    struct mkt_opened opened = {0};
    struct mkt_error error;
    if (client && mkt_client_open(client, &probe, &opened, &error) == MKT_OK &&
        opened.source != MKT_SOURCE_NATIVE)
        return ANSWER_YES;
    /* A stub looks like a file, but nothing is behind it any more. */
    return mkt_path_kind(path) == MKT_PATH_STUB ? ANSWER_NO : ANSWER_NATIVE;
}

/* As with any removed file, who has it open, this process too, keeps it, and what is still written
 * ends with the close. */
static enum answer withdraw(const char *path, hid_t fapl)
{
    struct mkt_client *client;
    if (!client_for(fapl, &client))
        return ANSWER_FAILED;
    if (client && is_on_disk(client, path)) {
        mkt_client_withdraw_unheard(client, path);
        return ANSWER_NATIVE;
    }
    struct mkt_error error = {0};
    uint64_t versions = 0;
    enum mkt_status status =
        client ? mkt_client_withdraw(client, path, &versions, &error) : MKT_NOT_FOUND;
    if (status == MKT_OK)
        return mkt_path_kind(path) == MKT_PATH_FILE ? ANSWER_NATIVE : ANSWER_YES;
    if (status == MKT_NOT_FOUND)
        return ANSWER_NATIVE;
    error.status = status;
    mkt_vol_fail_status(&error);
    return ANSWER_FAILED;
}

/* Asks on rank 0 of the list's group, if the market takes files of the list's driver. */
static enum answer ask_in_group(enum answer (*ask)(const char *path, hid_t fapl), const char *path,
                                hid_t fapl)
{
    struct mkt_vol_group group;
    mkt_vol_group_init(&group);
    enum mkt_vol_driver driver = mkt_vol_list_driver(fapl);
    if (driver == MKT_VOL_DRIVER_OTHER ||
        (driver == MKT_VOL_DRIVER_MPIO && mkt_vol_group_from_list(&group, fapl) < 0))
        return ANSWER_NATIVE;
    enum answer answer = group.rank == 0 ? ask(path, fapl) : ANSWER_NATIVE;
    answer = mkt_vol_group_first(&group, answer);
    if (answer == ANSWER_FAILED && group.rank != 0)
        mkt_vol_fail(H5E_FILE, H5E_CANTOPERATE,
                     "rank 0 of the group couldn't ask the market about %s", path);
    mkt_vol_group_fini(&group);
    return answer;
}

/* Native's question or order about a path, with its own list. */
static herr_t ask_native(H5VL_file_specific_args_t *args, hid_t *fapl_place, hid_t dxpl,
                         void **request)
{
    hid_t given = *fapl_place;
    hid_t list = mkt_vol_list_native(given);
    if (list < 0)
        return -1;
    *fapl_place = list;
    herr_t result = mkt_vol_native()->file_cls.specific(NULL, args, dxpl, request);
    *fapl_place = given;
    mkt_vol_close_keeping_errors(list);
    return result;
}

/* From 2.0 on HDF5 treats a file that its search of connectors found as native's, and crashes on
 * it. The question looks the same when a program asks it: there, yes is for programs that have us
 * as their default. */
static bool may_say_yes(bool is_default)
{
    unsigned major = 0, minor, release;
    return is_default || H5get_libversion(&major, &minor, &release) < 0 || major < 2;
}

static herr_t find_accessible(H5VL_file_specific_args_t *args, hid_t dxpl, void **request,
                              bool is_default)
{
    const char *path = args->args.is_accessible.filename;
    enum answer answer = may_say_yes(is_default)
                             ? ask_in_group(ask_accessible, path, args->args.is_accessible.fapl_id)
                             : ANSWER_NO;
    if (answer == ANSWER_FAILED)
        return -1;
    *args->args.is_accessible.accessible = answer == ANSWER_YES;
    if (answer == ANSWER_NATIVE) {
        herr_t result = ask_native(args, &args->args.is_accessible.fapl_id, dxpl, request);
        /* In HDF5's search native has complained of the path already, and no answer is no. */
        return is_default ? result : 0;
    }
    return 0;
}

static herr_t is_accessible(H5VL_file_specific_args_t *args, hid_t dxpl, void **request)
{
    /* What led HDF5 to its search must survive it on the error stack. */
    hid_t errors = H5Eget_current_stack();
    herr_t result = find_accessible(args, dxpl, request, mkt_vol_context_is_default());
    if (errors >= 0 && result >= 0)
        H5Eset_current_stack(errors);
    else if (errors >= 0)
        H5Eclose_stack(errors);
    if (result >= 0 && *args->args.is_accessible.accessible)
        mkt_vol_context_set_accessible(args->args.is_accessible.filename);
    return result;
}

static herr_t delete_file(H5VL_file_specific_args_t *args, hid_t dxpl, void **request)
{
    switch (ask_in_group(withdraw, args->args.del.filename, args->args.del.fapl_id)) {
    case ANSWER_FAILED:
        return -1;
    case ANSWER_NATIVE:
        return ask_native(args, &args->args.del.fapl_id, dxpl, request);
    default:
        return 0;
    }
}

/* ---- with one ---- */

static herr_t flush(void *object, H5VL_file_specific_args_t *args, hid_t dxpl, void **request)
{
    struct mkt_vol_object *of = object;
    if (mkt_vol_native()->file_cls.specific(of->under, args, dxpl, request) < 0)
        return -1;
    if (of->file && of->file->in_market && of->file->writable && of->file->state->publish_at_flush)
        return mkt_vol_file_publish_flushed(of);
    return 0;
}

static herr_t reopen(void *object, H5VL_file_specific_args_t *args, hid_t dxpl, void **request)
{
    if (mkt_vol_native()->file_cls.specific(mkt_vol_under(object), args, dxpl, request) < 0)
        return -1;
    *args->args.reopen.file = mkt_vol_object_adopt(*args->args.reopen.file, H5I_FILE);
    return *args->args.reopen.file ? 0 : -1;
}

herr_t mkt_vol_file_specific(void *object, H5VL_file_specific_args_t *args, hid_t dxpl,
                             void **request)
{
    /* These two come without an object. */
    if (args->op_type == H5VL_FILE_IS_ACCESSIBLE)
        return is_accessible(args, dxpl, request);
    if (args->op_type == H5VL_FILE_DELETE)
        return delete_file(args, dxpl, request);
    if (!mkt_vol_object_usable(object))
        return -1;
    switch (args->op_type) {
    case H5VL_FILE_FLUSH:
        return flush(object, args, dxpl, request);
    case H5VL_FILE_REOPEN:
        return reopen(object, args, dxpl, request);
    default:
        /* IS_EQUAL's second file comes unwrapped. */
        return mkt_vol_native()->file_cls.specific(mkt_vol_under(object), args, dxpl, request);
    }
}

/* ---- native's own operations ---- */

static herr_t post_open(void *object, H5VL_optional_args_t *args, hid_t dxpl, void **request)
{
    mkt_vol_context_set_post_open(as_object(object)->found_by_search ? MKT_VOL_POST_OPEN_BARE
                                                                     : MKT_VOL_POST_OPEN_WRAPPED);
    herr_t result = mkt_vol_native()->file_cls.optional(mkt_vol_under(object), args, dxpl, request);
    mkt_vol_context_set_post_open(MKT_VOL_POST_OPEN_NONE);
    return result;
}

/* sec2 answers it, core doesn't. */
static herr_t get_eoa(struct mkt_vol_object *object, H5VL_native_file_optional_args_t *args,
                      hid_t dxpl)
{
    hsize_t bytes = 0;
    H5VL_native_file_optional_args_t size = {.get_size = {&bytes}};
    H5VL_optional_args_t ask = {.op_type = H5VL_NATIVE_FILE_GET_SIZE, .args = &size};
    if (mkt_vol_native()->file_cls.optional(object->under, &ask, dxpl, NULL) < 0)
        return -1;
    *args->get_eoa.eoa = bytes;
    return 0;
}

/* sec2's handle is the address of a descriptor. Programs sync it, lock it, ask for its status: they
 * get one of what stands on disk, for reading, since writes by that way would be lost. */
static herr_t get_vfd_handle(struct mkt_vol_file *file, H5VL_native_file_optional_args_t *args)
{
    int *place = &file->state->disk_fd;

    if (file->state->driver != MKT_VOL_DRIVER_SEC2)
        return mkt_vol_fail(
            H5E_FILE, H5E_UNSUPPORTED,
            "no MPI file: %s is in memory; a rule with `mode: file` gives a real file", file->path);
    if (*place < 0)
        *place = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*place < 0)
        *place = memfd_create("nothing on disk", MFD_CLOEXEC);
    if (*place < 0)
        return mkt_vol_fail(H5E_FILE, H5E_CANTGET, "no file descriptor for %s: %s", file->path,
                            strerror(errno));
    *args->get_vfd_handle.file_handle = place;
    return 0;
}

#if MKT_VOL_MPI
/* Atomic or not: what a rank wrote is seen by all when the call returns. */
static herr_t atomicity(struct mkt_vol_file *file, int operation,
                        H5VL_native_file_optional_args_t *args)
{
    if (file->state->driver != MKT_VOL_DRIVER_MPIO)
        return mkt_vol_fail(H5E_FILE, H5E_UNSUPPORTED,
                            "incorrect VFL driver, does not support MPI atomicity mode");
    if (operation == H5VL_NATIVE_FILE_SET_MPI_ATOMICITY)
        file->state->atomic = args->set_mpi_atomicity.flag;
    else
        *args->get_mpi_atomicity.flag = file->state->atomic;
    return 0;
}
#endif

/* Native changes the superblock of a file that is open for reading, too, and fails at its close.
 * Here it would write into what all readers share. */
static herr_t convert_format(struct mkt_vol_object *object, H5VL_optional_args_t *args, hid_t dxpl,
                             void **request)
{
    struct mkt_vol_file *file = object->file;
    struct mkt_superblock superblock;
    size_t bytes;

    if (!file->writable) {
        const void *image = mkt_vol_image_content(file->image, &bytes);
        if (!mkt_superblock_read(image, bytes, &superblock) || superblock.version > NEWEST_OF_1_8)
            return mkt_vol_may_write(object);
    }
    return mkt_vol_native()->file_cls.optional(object->under, args, dxpl, request);
}

/* Space behind the file's end that nothing is in: sec2 takes it, core doesn't, and a file in memory
 * needs none. */
static herr_t increment_size(struct mkt_vol_object *object, H5VL_optional_args_t *args, hid_t dxpl,
                             void **request)
{
    if (object->file->state->driver == MKT_VOL_DRIVER_SEC2)
        return 0;
    return mkt_vol_native()->file_cls.optional(object->under, args, dxpl, request);
}

static herr_t market_optional(struct mkt_vol_object *object, H5VL_optional_args_t *args, hid_t dxpl,
                              void **request)
{
    switch (args->op_type) {
    case H5VL_NATIVE_FILE_GET_FILE_IMAGE:
        return mkt_vol_file_image_get(
            object, &((H5VL_native_file_optional_args_t *)args->args)->get_file_image, dxpl);
    case H5VL_NATIVE_FILE_FORMAT_CONVERT:
        return convert_format(object, args, dxpl, request);
    case H5VL_NATIVE_FILE_INCR_FILESIZE:
        return increment_size(object, args, dxpl, request);
    case H5VL_NATIVE_FILE_GET_EOA:
        return get_eoa(object, args->args, dxpl);
    case H5VL_NATIVE_FILE_GET_VFD_HANDLE:
        return get_vfd_handle(object->file, args->args);
#if MKT_VOL_MPI
    case H5VL_NATIVE_FILE_GET_MPI_ATOMICITY:
    case H5VL_NATIVE_FILE_SET_MPI_ATOMICITY:
        return atomicity(object->file, args->op_type, args->args);
#endif
    default:
        return mkt_vol_native()->file_cls.optional(object->under, args, dxpl, request);
    }
}

herr_t mkt_vol_file_optional(void *object, H5VL_optional_args_t *args, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_usable(object))
        return -1;
    if (args->op_type == H5VL_NATIVE_FILE_POST_OPEN)
        return post_open(object, args, dxpl, request);
    const struct mkt_vol_file *file = as_object(object)->file;
    if (file && file->in_market)
        return market_optional(object, args, dxpl, request);
    return mkt_vol_native()->file_cls.optional(mkt_vol_under(object), args, dxpl, request);
}
