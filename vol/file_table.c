/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of open market files, and how one ends; see file_state.h. */
#include "vol/exit_wait.h"
#include "vol/file_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "vol/context.h"

/* Between the path and the serial number in an internal name; in the same folder, so that relative
 * external links and virtual sources are looked for where the application means. */
#define NAME_MARK ".h5market-"

static struct mkt_vol_file_state *open_files; /* in the order of opening, newest first */
static struct mkt_vol_file_state *released_files;
static struct mkt_vol_file passed_through;
static uint64_t passed_through_objects;

bool mkt_vol_files_any(void)
{
    return open_files != NULL;
}

struct mkt_vol_file *mkt_vol_file_passed_through(void)
{
    return &passed_through;
}

static char *make_name(const char *path, uint64_t *serial_out)
{
    static const char digits[] = "0123456789abcdef";
    static uint64_t serial;
    size_t length = strlen(path);
    char *name = malloc(length + sizeof(NAME_MARK) + 2 * sizeof(serial));
    if (!name)
        return NULL;
    memcpy(name, path, length);
    memcpy(name + length, NAME_MARK, sizeof(NAME_MARK) - 1);
    char *end = name + length + sizeof(NAME_MARK) - 1;
    serial++;
    for (int shift = 60; shift >= 0; shift -= 4)
        if (serial >> shift)
            *end++ = digits[(serial >> shift) & 15];
    *end = '\0';
    *serial_out = serial;
    return name;
}

struct mkt_vol_file *mkt_vol_file_create_state(const char *path, enum mkt_vol_driver driver)
{
    struct mkt_vol_file *file = calloc(1, sizeof(*file));
    struct mkt_vol_file_state *state = calloc(1, sizeof(*state));
    if (!file || !state)
        goto err_memory;
    file->state = state;
    file->in_market = true;
    file->size = 1;
    state->file = file;
    state->driver = driver;
    state->owner = mkt_process_number();
    state->disk_fd = -1;
    mkt_vol_group_init(&state->group);
    file->path = strdup(path);
    state->name = make_name(path, &state->serial);
    if (!file->path || !state->name)
        goto err_names;
    file->references = 1; /* the caller's */
    return file;

err_names:
    free(file->path);
    free(state->name);
err_memory:
    free(state);
    free(file);
    return NULL;
}

herr_t mkt_vol_file_refuse_in_child(const struct mkt_vol_file *file, hid_t major)
{
    if (mkt_vol_file_is_own(file->state))
        return 0;
    return mkt_vol_fail(major, H5E_UNSUPPORTED,
                        "%s was opened by the parent of this forked process: open it in the child",
                        file->path);
}

/* Of what stands at the path; ino 0: nothing. */
static struct mkt_file_identity stand_at(const char *path)
{
    struct mkt_file_identity file = {.ino = 0};
    uint32_t mode;
    if (mkt_file_look_through(path, &file, &mode) != 0)
        file.ino = 0;
    return file;
}

static bool is_same(const struct mkt_file_identity *a, const struct mkt_file_identity *b)
{
    return a->ino != 0 && mkt_file_unchanged(a, b);
}

void mkt_vol_file_enter(struct mkt_vol_file *file, const struct mkt_file_identity *stand)
{
    struct mkt_vol_file_state *state = file->state;
    state->stand = stand->ino != 0 ? *stand : stand_at(file->path);
    state->next = open_files;
    state->entered = true;
    open_files = state;
}

static void unlist(struct mkt_vol_file_state *state)
{
    for (struct mkt_vol_file_state **link = &open_files; *link; link = &(*link)->next) {
        if (*link != state)
            continue;
        *link = state->next;
        state->next = NULL;
        return;
    }
}

/* True if what stands at the path of an open file isn't what stood there before. */
static bool is_replaced(const struct mkt_vol_file_state *state)
{
    if (!state->may_be_replaced)
        return false;
    const struct mkt_file_identity now = stand_at(state->file->path);
    return now.ino != 0 && !is_same(&state->stand, &now);
}

/* The open file whose own file on disk took the place of its entry, or of the file before it: the
 * market knows which object that is. */
static struct mkt_vol_file *find_replaced(const char *path, enum mkt_vol_driver driver,
                                          const struct mkt_file_identity *here)
{
    const struct mkt_open probe = {.path = path, .intent = MKT_INTENT_PROBE, .size = 1};
    struct mkt_opened opened = {0};
    struct mkt_error error;
    for (struct mkt_vol_file_state *state = open_files; state; state = state->next) {
        if (!mkt_vol_file_is_own(state) || state->driver != driver || !is_replaced(state))
            continue;
        if (mkt_client_open(state->file->client, &probe, &opened, &error) != MKT_OK ||
            opened.source != MKT_SOURCE_VERSION ||
            memcmp(opened.object, state->object, MKT_ID_BYTES) != 0)
            continue;
        state->stand = *here;
        return state->file;
    }
    return NULL;
}

struct mkt_vol_file *mkt_vol_file_find(const char *path, enum mkt_vol_driver driver)
{
    if (!open_files)
        return NULL;
    const struct mkt_file_identity here = stand_at(path);
    if (here.ino == 0)
        return NULL;
    for (struct mkt_vol_file_state *state = open_files; state; state = state->next)
        if (mkt_vol_file_is_own(state) && state->driver == driver && is_same(&state->stand, &here))
            return state->file;
    return find_replaced(path, driver, &here);
}

struct mkt_vol_file *mkt_vol_file_of(void *under, H5I_type_t type)
{
    if (!open_files)
        return &passed_through;
    /* Nothing else is open that a mount or a link could lead to. */
    if (!open_files->next && passed_through_objects == 0)
        return open_files->file;
    static char name[65536]; /* under HDF5's global lock */
    size_t length = 0;
    H5VL_file_get_args_t args = {.op_type = H5VL_FILE_GET_NAME};
    args.args.get_name.type = type;
    args.args.get_name.buf = name;
    args.args.get_name.buf_size = sizeof(name);
    args.args.get_name.file_name_len = &length;
    if (mkt_vol_native()->file_cls.get(under, &args, H5P_DATASET_XFER_DEFAULT, NULL) < 0)
        return &passed_through;
    const char *dash = strrchr(name, '-');
    uint64_t serial = dash ? strtoull(dash + 1, NULL, 16) : 0;
    if (!serial)
        return &passed_through;
    for (struct mkt_vol_file_state *state = open_files; state; state = state->next)
        if (state->serial == serial && strcmp(state->name, name) == 0)
            return state->file;
    return &passed_through;
}

void mkt_vol_file_get_reference(struct mkt_vol_file *file)
{
    if (!file->in_market) {
        passed_through_objects++;
        return;
    }
    file->references++;
    file->state->live++;
}

static void end(struct mkt_vol_file *file)
{
    struct mkt_vol_file_state *state = file->state;
    unlist(state);
    mkt_vol_arrays_destroy(file->arrays);
    if (file->handle != 0 && mkt_vol_file_is_own(state) && !state->settled) {
        if (state->entered)
            mkt_client_close(file->client, file->handle);
        else
            mkt_client_close_unread(file->client, file->handle);
    }
    mkt_vol_image_destroy(file->image);
    mkt_vol_context_put_waiter(file->client);
    mkt_vol_group_fini(&state->group);
    if (state->disk_fd >= 0)
        close(state->disk_fd);
    free(state->arrays);
    free(state->name);
    free(state);
    free(file->failure);
    free(file->path);
    free(file);
}

void mkt_vol_file_put_reference(struct mkt_vol_file *file)
{
    if (!file->in_market)
        passed_through_objects--;
    else if (--file->references == 0)
        end(file);
}

void mkt_vol_file_object_gone(struct mkt_vol_file *file)
{
    if (file->in_market)
        file->state->live--;
}

void mkt_vol_file_object_back(struct mkt_vol_file *file)
{
    if (file->in_market)
        file->state->live++;
}

void mkt_vol_file_poison(struct mkt_vol_file *file, const char *format, ...)
{
    if (!file->in_market || file->failure)
        return;
    char text[MKT_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    file->failure = strdup(text);
    if (!file->failure)
        file->failure = strdup("out of memory");
}

void mkt_vol_files_note_unlink(void)
{
    for (struct mkt_vol_file_state *state = open_files; state; state = state->next)
        if (state->file->writable)
            mkt_vol_arrays_note_unlink(state->file->arrays);
}

static void list_arrays(struct mkt_vol_file *file)
{
    struct mkt_vol_file_state *state = file->state;
    free(state->arrays);
    state->arrays = NULL;
    state->arrays_count = 0;
    state->prepare_status =
        mkt_vol_arrays_list(file->arrays, &state->arrays, &state->arrays_count, &state->hash);
    state->prepared = true;
}

void mkt_vol_file_prepare(struct mkt_vol_object *object)
{
    struct mkt_vol_file *file = object->file;
    if (file->in_market && file->writable && file->state->live == 0 &&
        mkt_vol_file_is_own(file->state))
        list_arrays(file);
}

void mkt_vol_file_released(void *context)
{
    struct mkt_vol_file *file = context;
    unlist(file->state);
    file->state->released = true;
    if (!file->writable)
        return;         /* a reader ends with its last reference */
    file->references++; /* settle's */
    file->state->next = released_files;
    released_files = file->state;
}

/* True if nothing was written since the READ_WRITE open. */
static bool is_unchanged(struct mkt_vol_file *file)
{
    return !file->state->created && !mkt_vol_arrays_changed(file->arrays) &&
           !mkt_vol_image_changed(file->image);
}

static herr_t commit(struct mkt_vol_file *file, const struct mkt_commit *what)
{
    struct mkt_error error = {0};
    uint64_t version = 0;
    enum mkt_status status = mkt_client_commit(file->client, what, &version, &error);
    if (status == MKT_OK) {
        file->version = version;
        if (file->rank == 0 && version > 0 && !what->keep_open)
            mkt_vol_exit_wait_note(&file->state->rule);
        return 0;
    }
    error.status = status;
    if (what->failure)
        return mkt_vol_fail(H5E_FILE, H5E_CANTCLOSEFILE,
                            "%s was not published, its former version stays: %s", file->path,
                            what->failure);
    mkt_vol_fail_status(&error);
    return mkt_vol_fail(H5E_FILE, H5E_CANTCLOSEFILE,
                        "%s was not published, its former version stays", file->path);
}

/* Fills in what rank 0 offers; the image stays the file's. */
static void describe(struct mkt_vol_file *file, struct mkt_commit *what)
{
    struct mkt_vol_file_state *state = file->state;
    if (!state->prepared)
        list_arrays(file);
    if (state->prepare_status != MKT_OK)
        mkt_vol_file_poison(file, "its arrays could not be listed: %s",
                            mkt_status_text(state->prepare_status));
    what->file = file->handle;
    what->hash = state->hash;
    if (file->rank == 0 && !what->unchanged) {
        size_t bytes = 0;
        what->image = mkt_vol_image_content(file->image, &bytes);
        what->image_bytes = bytes;
        if (!what->image)
            mkt_vol_file_poison(file, "HDF5 left no valid image of its metadata (out of memory?)");
        what->arrays = state->arrays;
        what->arrays_count = state->arrays_count;
    }
    what->failure = file->failure;
}

static herr_t publish(struct mkt_vol_file *file)
{
    if (!mkt_vol_file_is_own(file->state))
        return 0;
    struct mkt_commit what = {.unchanged = is_unchanged(file)};
    describe(file, &what);
    file->state->settled = true;
    return commit(file, &what);
}

herr_t mkt_vol_file_publish_flushed(struct mkt_vol_object *object)
{
    struct mkt_vol_file *file = object->file;
    if (!mkt_vol_file_is_own(file->state))
        return 0;
    list_arrays(file);
    struct mkt_commit what = {.keep_open = true};
    what.failure = file->failure;
    what.file = file->handle;
    what.hash = file->state->hash;
    if (file->state->prepare_status != MKT_OK)
        what.failure = mkt_status_text(file->state->prepare_status);
    void *image = NULL;
    if (file->rank == 0) {
        size_t bytes = 0;
        image = mkt_vol_image_copy_flushed(file->image, &bytes);
        what.image = image;
        what.image_bytes = bytes;
        what.arrays = file->state->arrays;
        what.arrays_count = file->state->arrays_count;
        if (!image)
            what.failure = "no copy of the metadata could be made (out of memory?)";
    }
    herr_t result = commit(file, &what);
    free(image);
    return result;
}

bool mkt_vol_files_fail_released(const struct mkt_vol_object *object)
{
    for (struct mkt_vol_file_state *state = released_files; state; state = state->next) {
        mkt_vol_file_poison(state->file, "HDF5 could not finish it");
        /* At a program's end nobody shows the error stack. */
        mkt_log_error("vol",
                      "HDF5 could not finish %s: it is not published, its former version stays",
                      state->file->path);
    }
    return object->file && object->file->in_market && object->file->state->released;
}

herr_t mkt_vol_files_settle(void)
{
    herr_t result = 0;
    while (released_files) {
        struct mkt_vol_file_state *state = released_files;
        released_files = state->next;
        state->next = NULL;
        if (publish(state->file) < 0)
            result = -1;
        mkt_vol_file_put_reference(state->file);
    }
    return result;
}
