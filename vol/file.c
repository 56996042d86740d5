/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and creating files: through the market, where the driver, the rule and the whole group
 * say so, else by native as if we weren't there.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/base/log.h"
#include "core/base/process_number.h"
#include "vol/callbacks.h"
#include "vol/context.h"
#include "vol/error.h"
#include "vol/external.h"
#include "vol/file_lists.h"
#include "vol/file_state.h"
#include "vol/object.h"
#include "vol/threads.h"

/* One call of H5Fcreate or H5Fopen. */
struct opening {
    const char *path;
    unsigned flags;
    bool create;
    bool may_be_search; /* HDF5 asked before whether the path is accessible */
    hid_t fcpl, fapl, dxpl;
    void **request;
    enum mkt_intent intent;
    enum mkt_vol_driver driver;
    struct mkt_vol_info *info; /* NULL: all by default */
    struct mkt_vol_group group;
    struct mkt_client *client;
    uint8_t token[MKT_ID_BYTES];
    struct mkt_vol_file *early; /* what can be made while the daemon is asked whether it may be */
    void *early_object;         /* of a new file */
};

/* One question to the daemon. */
struct asking {
    struct opening *opening;
    bool waits;        /* it has become a wait */
    bool may_move;     /* a wait may go on without HDF5's lock */
    bool moves;        /* it ends here, to go on so */
    uint64_t begun_ms; /* by the clock that doesn't jump */
};

/* ---- native ---- */

static void *native_open(const struct opening *opening, const char *name, hid_t list)
{
    return opening->create
               ? mkt_vol_native()->file_cls.create(name, opening->flags, opening->fcpl, list,
                                                   opening->dxpl, opening->request)
               : mkt_vol_native()->file_cls.open(name, opening->flags, list, opening->dxpl,
                                                 opening->request);
}

static void *pass_through(const struct opening *opening)
{
    hid_t list = mkt_vol_list_native(opening->fapl);
    if (list < 0)
        return NULL;
    void *under = native_open(opening, opening->path, list);
    if (!under) {
        mkt_vol_close_keeping_errors(list);
        if (opening->intent != MKT_INTENT_CREATE_EXCL &&
            mkt_path_kind(opening->path) == MKT_PATH_STUB)
            mkt_vol_fail(H5E_FILE, H5E_CANTOPENFILE,
                         "%s stands for a file in memory; with SWMR, with drivers other than sec2 "
                         "and mpio, and by the rule `mode: file` only files on disk are opened",
                         opening->path);
        return NULL;
    }
    H5Pclose(list);
    struct mkt_vol_object *object =
        mkt_vol_object_wrap(under, H5I_FILE, mkt_vol_file_passed_through());
    if (!object)
        mkt_vol_native()->file_cls.close(under, opening->dxpl, NULL);
    return object;
}

/* ---- in the market ---- */

/* Has native open the file's image; the wrapper takes a reference. Of a file that is open here
 * HDF5 finds the first open by the image, or fails as it does. */
static void *open_image(const struct opening *opening, struct mkt_vol_file *file)
{
    struct mkt_vol_list list;
    if (mkt_vol_list_image(opening->fapl, opening->driver, &list) < 0)
        return NULL;
    mkt_vol_image_offer(file->image);
    void *under = native_open(opening, file->state->name, list.id);
    mkt_vol_image_offer(NULL);
    hid_t errors = under ? H5I_INVALID_HID : H5Eget_current_stack();
    bool ended = mkt_vol_list_image_end(&list) >= 0;
    if (errors >= 0)
        H5Eset_current_stack(errors);
    if (!under)
        return NULL;
    struct mkt_vol_object *object = ended ? mkt_vol_object_wrap(under, H5I_FILE, file) : NULL;
    if (!object)
        mkt_vol_native()->file_cls.close(under, opening->dxpl, NULL);
    return object;
}

/* What of a file of the market comes from this process alone. */
static struct mkt_vol_file *make_file(const struct opening *opening)
{
    struct mkt_vol_file *file = mkt_vol_file_create_state(opening->path, opening->driver);
    if (!file)
        return NULL;
    file->client = opening->client;
    file->rank = opening->group.rank;
    file->size = opening->group.size;
    file->writable = opening->intent != MKT_INTENT_READ;
    file->state->created = opening->create;
    return file;
}

/* Gives the file its image and its arrays (NULL: a new one has neither), and lets native open it.
 */
static void *open_file_in_memory(const struct opening *opening, struct mkt_vol_file *file,
                                 const struct mkt_opened *opened)
{
    file->image = mkt_vol_image_create(opened ? opened->image : NULL,
                                       opened ? (size_t)opened->image_bytes : 0, file->writable,
                                       mkt_vol_file_released, file);
    file->arrays = mkt_vol_arrays_create(file, opened ? opened->index : NULL,
                                         opened ? opened->index_bytes : 0);
    if (!file->image || !file->arrays) {
        mkt_vol_fail(H5E_RESOURCE, H5E_NOSPACE, "no memory for %s, or its index is damaged",
                     opening->path);
        return NULL;
    }
    return open_image(opening, file);
}

/* The answer was another than expected. */
static void drop_early(struct opening *opening)
{
    if (opening->early_object)
        mkt_vol_file_close(opening->early_object, opening->dxpl, NULL);
    if (opening->early)
        mkt_vol_file_put_reference(opening->early);
    opening->early_object = NULL;
    opening->early = NULL;
}

/* While the daemon answers: what one process needs of itself, for a new file all of it. If it can't
 * be made, enter_market tries again, and that failure counts. */
static void make_early(void *context)
{
    struct opening *opening = ((struct asking *)context)->opening;
    if (opening->early || opening->group.size > 1)
        return;
    opening->early = make_file(opening);
    if (!opening->early || !opening->create)
        return;
    opening->early_object = open_file_in_memory(opening, opening->early, NULL);
    if (!opening->early_object)
        drop_early(opening);
}

static void *enter_market(struct opening *opening, const struct mkt_opened *opened)
{
    bool is_new = opened->source == MKT_SOURCE_EMPTY;
    if (opening->early_object && !is_new)
        drop_early(opening);
    void *object = opening->early_object;
    struct mkt_vol_file *file = opening->early ? opening->early : make_file(opening);
    opening->early_object = NULL;
    opening->early = NULL;
    if (!file) {
        mkt_client_close_unread(opening->client, opened->file);
        mkt_vol_context_put_waiter(opening->client);
        mkt_vol_fail(H5E_RESOURCE, H5E_NOSPACE, "out of memory to open %s", opening->path);
        return NULL;
    }
    /* From here on the file's end gives back the handle and the group. */
    file->client = opening->client; /* another one, if its daemon ended while it was asked */
    file->handle = opened->file;
    file->version = opened->version;
    file->state->group = opening->group;
    mkt_vol_group_init(&opening->group);
    struct mkt_rule rule;
    mkt_client_rule(file->client, opening->path, &rule);
    file->state->rule = rule;
    file->state->publish_at_flush = rule.publish == MKT_PUBLISH_FLUSH;
    file->state->may_be_replaced = rule.mode == MKT_MODE_BOTH;
    memcpy(file->state->object, opened->object, MKT_ID_BYTES);

    if (!object)
        object = open_file_in_memory(opening, file, is_new ? NULL : opened);
    if (object && mkt_vol_list_note(opening->fapl, file) < 0) {
        mkt_vol_file_close(object, opening->dxpl, NULL);
        mkt_vol_fail(H5E_PLIST, H5E_CANTGET, "can't read the access list of %s", opening->path);
        object = NULL;
    }
    if (object) {
        mkt_vol_image_opened(file->image);
        mkt_vol_file_enter(file, &opened->stand);
    }
    mkt_vol_file_put_reference(file);
    return object;
}

/* ---- asking ---- */

/* Ctrl-C in long waits. Where the program handles SIGINT itself, its handler gives way to ours from
 * the first look of the first wait on until the last wait ends, and gets the signal then. (Blocking
 * SIGINT here wouldn't do: another thread, say of a numerical library, would take it.) */
static struct {
    unsigned waits;
    bool taken;
    uint64_t owner;
    struct sigaction former;
} interrupt;
static volatile sig_atomic_t interrupted;

static void note_interrupt(int number, siginfo_t *info, void *context)
{
    interrupted = 1;
    if (interrupt.owner == mkt_process_number())
        return;
    /* A child that another thread forked meanwhile doesn't wait. */
    if (interrupt.former.sa_flags & SA_SIGINFO)
        interrupt.former.sa_sigaction(number, info, context);
    else
        interrupt.former.sa_handler(number);
}

static void interrupt_begin(void)
{
    if (interrupt.owner != mkt_process_number())
        interrupt.waits = 0;
    if (interrupt.waits++ > 0)
        return;
    interrupt.taken = false;
    if (sigaction(SIGINT, NULL, &interrupt.former) != 0 ||
        (!(interrupt.former.sa_flags & SA_SIGINFO) &&
         (interrupt.former.sa_handler == SIG_DFL || interrupt.former.sa_handler == SIG_IGN)))
        return;
    struct sigaction ours = interrupt.former;
    ours.sa_flags = (ours.sa_flags & (SA_RESTART | SA_ONSTACK)) | SA_SIGINFO;
    ours.sa_sigaction = note_interrupt;
    interrupted = 0;
    interrupt.owner = mkt_process_number();
    interrupt.taken = sigaction(SIGINT, &ours, NULL) == 0;
}

static void interrupt_end(void)
{
    struct sigaction now;
    if (--interrupt.waits > 0 || !interrupt.taken)
        return;
    if (sigaction(SIGINT, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == note_interrupt)
        sigaction(SIGINT, &interrupt.former, NULL);
    if (interrupted)
        raise(SIGINT);
}

static bool is_interrupted(void *context)
{
    struct asking *asking = context;
    if (!asking->waits)
        interrupt_begin();
    asking->waits = true;
    asking->moves = asking->may_move;
    return asking->moves || (interrupt.taken && interrupted) || mkt_vol_threads_end();
}

/* What is left of the reader's time. */
static int64_t rest_of_wait(const struct asking *asking, const struct mkt_open *request)
{
    struct mkt_rule rule;
    int64_t waited_ms = (int64_t)(mkt_now_ms() - asking->begun_ms), wait_ms = request->wait_ms;
    if (wait_ms < 0) {
        mkt_client_rule(asking->opening->client, request->path, &rule);
        wait_ms = rule.wait_ms;
    }
    return wait_ms > waited_ms ? wait_ms - waited_ms : 0;
}

/* The rest of a wait that has proved long, in a thread-safe library: other threads go on with HDF5
 * and the process's connection, so it has one of its own, and between release and acquire nothing
 * else of the process. If it can't have that, it goes on as it was. */
static enum mkt_status wait_without_lock(struct asking *asking, struct mkt_open *request,
                                         struct mkt_opened *opened_out, struct mkt_error *error)
{
    struct opening *opening = asking->opening;
    struct mkt_client *client = NULL;
    asking->may_move = asking->moves = false;
    request->wait_ms = rest_of_wait(asking, request);
    request->meanwhile = NULL;
    if (mkt_vol_context_take_waiter(&client, error) != MKT_OK || !mkt_vol_threads_release()) {
        mkt_vol_context_put_waiter(client);
        return mkt_client_open(opening->client, request, opened_out, error);
    }
    enum mkt_status status = mkt_client_open(client, request, opened_out, error);
    mkt_vol_threads_acquire();
    if (status == MKT_OK && opened_out->file != 0)
        opening->client = client; /* the file's from here on */
    else
        mkt_vol_context_put_waiter(client);
    return status;
}

static enum mkt_status ask(struct opening *opening, struct mkt_opened *opened_out, bool *waited_out,
                           struct mkt_error *error)
{
    const struct mkt_vol_info *info = opening->info;
    struct asking asking = {.opening = opening,
                            .may_move = opening->intent == MKT_INTENT_READ &&
                                        opening->group.size == 1 && mkt_vol_threads_may_release(),
                            .begun_ms = mkt_now_ms()};
    struct mkt_open request = {
        .path = opening->group.rank == 0 ? opening->path : NULL,
        .intent = opening->intent,
        .rank = opening->group.rank,
        .size = opening->group.size,
        .wait_ms = info ? info->wait_ms : -1,
        .version = info && opening->intent == MKT_INTENT_READ ? info->version : 0,
        /* Native couldn't open it, and had its reasons. */
        .as_on_disk = opening->may_be_search && !mkt_vol_context_is_default(),
        .after_start = info && info->after_start,
        .deliver = info ? info->deliver : 0,
        .every = info ? info->every : 0,
        .reader = info ? info->reader : NULL,
        .is_reader = true,
        .interrupted = is_interrupted,
        .meanwhile = make_early,
        .context = &asking};
    memcpy(request.token, opening->token, MKT_ID_BYTES);
    enum mkt_status status = mkt_client_open(opening->client, &request, opened_out, error);
    if (status == MKT_CANCELLED && asking.moves)
        status = wait_without_lock(&asking, &request, opened_out, error);
    /* A daemon that ended since the last file may be noticed only now; a new one takes a new file
     * as well. (A group would have to agree on it first.) */
    if (status == MKT_PEER_DOWN && opening->create && opening->group.size == 1 &&
        mkt_vol_context_client(opening->info, true, &opening->client, error) == MKT_OK)
        status = mkt_client_open(opening->client, &request, opened_out, error);
    if (asking.waits)
        interrupt_end();
    *waited_out = asking.waits;
    return status;
}

/* The errno that a program finds after an open that failed; 0: none fits. A stub without its data
 * is not an absent file to a writer: who would create one then (h5py's mode `a`) has to see it. */
static int errno_of(const struct opening *opening, enum mkt_status status)
{
    switch (status) {
    case MKT_NOT_FOUND:
        return opening->intent != MKT_INTENT_READ && mkt_path_kind(opening->path) == MKT_PATH_STUB
                   ? ESTALE
                   : ENOENT;
    case MKT_EXISTS:
        return EEXIST;
    case MKT_END:
        return ENODATA;
    case MKT_BUSY:
        return EAGAIN;
    case MKT_DENIED:
        return EACCES;
    default:
        return 0;
    }
}

/* In the words of HDF5's drivers where there is an errno: h5py and others look for it in the text.
 */
static void *fail_open(const struct opening *opening, enum mkt_status status,
                       struct mkt_error *error)
{
    int number = errno_of(opening, status);
    error->status = status;
    if (number) {
        mkt_vol_fail(H5E_FILE, status == MKT_END ? H5E_CANTNEXT : H5E_CANTOPENFILE,
                     "unable to open file: name = '%s', errno = %d, error message = '%s': %s",
                     opening->path, number, strerror(number), error->text);
        errno = number;
    } else {
        mkt_vol_fail_status(error);
    }
    mkt_vol_fail(H5E_FILE, H5E_CANTOPENFILE, "can't %s %s in the market",
                 opening->create ? "create" : "open", opening->path);
    return NULL;
}

/* The version that we waited for, if another thread has opened it meanwhile: one file, as of two
 * opens that don't wait. */
static struct mkt_vol_file *find_opened_meanwhile(const struct opening *opening,
                                                  const struct mkt_opened *opened)
{
    struct mkt_vol_file *file = opening->intent == MKT_INTENT_READ && opening->group.size == 1
                                    ? mkt_vol_file_find(opening->path, opening->driver)
                                    : NULL;
    return file && !file->writable && file->version == opened->version ? file : NULL;
}

static bool stands_no_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

static void *open_in_market(struct opening *opening)
{
    struct mkt_opened opened = {0};
    struct mkt_error error = {0};
    bool waited = false;
    enum mkt_status status = ask(opening, &opened, &waited, &error);
    struct mkt_vol_file *other = status == MKT_OK && waited && opened.source == MKT_SOURCE_VERSION
                                     ? find_opened_meanwhile(opening, &opened)
                                     : NULL;
    if (other || status != MKT_OK || opened.source == MKT_SOURCE_NATIVE)
        drop_early(opening);
    if (other) {
        mkt_client_close(opening->client, opened.file);
        mkt_vol_context_put_waiter(opening->client);
        return open_image(opening, other);
    }
    if (status == MKT_OK)
        return opened.source == MKT_SOURCE_NATIVE ? pass_through(opening)
                                                  : enter_market(opening, &opened);
    /* A folder, a device: native's to refuse. (In a group the ranks could see different things.) */
    if (status == MKT_NOT_FOUND && !opening->create && opening->group.size == 1 &&
        stands_no_file(opening->path))
        return pass_through(opening);
    return fail_open(opening, status, &error);
}

/* Native, unless a stub stands there: it would say of it that it isn't an HDF5 file. */
static void *open_without_market(struct opening *opening)
{
    struct mkt_open request = {.path = opening->path, .intent = MKT_INTENT_READ, .size = 1};
    struct mkt_opened opened;
    struct mkt_error error = {0};
    if (mkt_path_kind(opening->path) != MKT_PATH_STUB ||
        mkt_client_open(NULL, &request, &opened, &error) == MKT_OK)
        return pass_through(opening);
    return fail_open(opening, error.status, &error);
}

/* What the market holds of a file that native is about to change goes once it is on disk: the
 * program goes on from the newest. (A stub is native's to refuse.) */
static enum mkt_status give_up_for_change(const struct opening *opening, struct mkt_open *request,
                                          struct mkt_error *error)
{
    struct mkt_save_state state = {0};
    struct mkt_opened opened;
    struct mkt_rule rule;
    if (mkt_path_kind(opening->path) != MKT_PATH_FILE || access(opening->path, W_OK) != 0)
        return MKT_OK;
    mkt_client_rule(opening->client, opening->path, &rule);
    enum mkt_status status =
        mkt_client_save_wait(opening->client, opening->path, rule.writer_timeout_ms, &state, error);
    if (status == MKT_NOT_FOUND)
        return MKT_OK;
    if (status != MKT_OK || state.files == 0)
        return status == MKT_OK ? mkt_client_open(opening->client, request, &opened, error)
                                : status;
    mkt_log_warning("vol",
                    "%s is changed on disk by the rule `mode: file` while what is in memory isn't "
                    "saved there%s%s",
                    opening->path, state.text[0] ? ": " : "", state.text);
    return MKT_OK;
}

/* In mode FILE, before native makes or changes the file: a version that the market still has of the
 * path would stand in its way. */
static enum mkt_status give_up_versions(const struct opening *opening, struct mkt_error *error)
{
    struct mkt_open request = {.path = opening->path, .intent = opening->intent, .size = 1};
    struct mkt_opened opened;
    if (opening->intent == MKT_INTENT_READ_WRITE)
        return give_up_for_change(opening, &request, error);
    /* In an empty place there is nothing but what waits for another's file to go again. */
    if (mkt_path_kind(opening->path) == MKT_PATH_NONE)
        return MKT_OK;
    return mkt_client_open(opening->client, &request, &opened, error);
}

static void *open_by_native(struct opening *opening)
{
    struct mkt_error error = {0};
    bool writes = opening->intent == MKT_INTENT_READ_WRITE || opening->create;
    if (!opening->client)
        return opening->create ? pass_through(opening) : open_without_market(opening);
    /* (Another rank would wait for a rank 0 that failed.) */
    if (writes && opening->group.rank == 0) {
        enum mkt_status status = give_up_versions(opening, &error);
        if (status == MKT_BUSY && opening->group.size == 1)
            return fail_open(opening, status, &error);
    }
    return pass_through(opening);
}

/* Connects this rank: true if it has a client now. A failure that isn't "no market here" is pushed
 * and told. */
static bool connect_rank(struct opening *opening, bool start, bool *failed_out)
{
    struct mkt_error error = {0};
    enum mkt_status status = mkt_vol_context_client(opening->info, start, &opening->client, &error);
    *failed_out = status != MKT_OK && status != MKT_NOT_FOUND;
    if (*failed_out)
        fail_open(opening, status, &error);
    return status == MKT_OK;
}

static bool wants_market(const struct opening *opening)
{
    struct mkt_rule rule;
    if (!opening->client)
        return false;
    mkt_client_rule(opening->client, opening->path, &rule);
    return rule.mode != MKT_MODE_FILE;
}

static enum mkt_vol_verdict vote(struct opening *opening, bool failed)
{
    struct mkt_vol_vote mine = {.failed = failed,
                                .wants_market = wants_market(opening),
                                .may_be_search = opening->may_be_search,
                                .daemon =
                                    opening->client ? mkt_client_daemon_id(opening->client) : NULL};
    enum mkt_vol_verdict verdict = mkt_vol_group_agree(&opening->group, &mine, opening->token);
    opening->may_be_search = mine.may_be_search;
    return verdict;
}

static void *open_by_rule(struct opening *opening)
{
    bool writes = opening->intent != MKT_INTENT_READ;
    bool waits = opening->info &&
                 (opening->info->wait_ms > 0 || opening->info->deliver > MKT_DELIVER_LATEST);
    bool start = writes || waits || mkt_vol_context_configured(opening->info);
    bool failed = false;
    connect_rank(opening, start, &failed);
    if (opening->client)
        mkt_vol_external_register();
    enum mkt_vol_verdict verdict = vote(opening, failed);
    if (verdict == MKT_VOL_VERDICT_INCOMPLETE) {
        if (!opening->client)
            connect_rank(opening, true, &failed);
        verdict = vote(opening, failed);
    }
    mkt_fault_point("vol.group-agreed");
    switch (verdict) {
    case MKT_VOL_VERDICT_MARKET:
        return open_in_market(opening);
    case MKT_VOL_VERDICT_NATIVE:
        return open_by_native(opening);
    case MKT_VOL_VERDICT_INCOMPLETE:
    case MKT_VOL_VERDICT_APART:
        if (opening->group.rank == 0)
            mkt_log_warning(
                "vol",
                "%s: the group's processes are not all at one market; it goes to a real file",
                opening->path);
        return pass_through(opening);
    default:
        if (!failed)
            mkt_vol_fail(H5E_FILE, H5E_CANTOPENFILE,
                         "another rank of the group can't open %s in the market", opening->path);
        return NULL;
    }
}

/* True if HDF5 notes native as the file's connector: it had failed to open it through native before
 * it came to us. Collective in a group, since a copy of the list duplicates the communicator. */
static bool is_native_to_hdf5(void *under)
{
    H5VL_file_get_args_t args = {.op_type = H5VL_FILE_GET_FAPL};
    if (mkt_vol_native()->file_cls.get(under, &args, H5P_DATASET_XFER_DEFAULT, NULL) < 0)
        return false;
    hid_t connector = H5I_INVALID_HID;
    int order = 1;
    if (H5Pget_vol_id(args.args.get_fapl.fapl_id, &connector) >= 0) {
        H5VLcmp_connector_cls(&order, connector, mkt_vol_native_id());
        H5VLclose(connector);
    }
    H5Pclose(args.args.get_fapl.fapl_id);
    return order == 0;
}

static void *open_through_market(struct opening *opening)
{
    /* A version never changes: SWMR's reader gets more than it asks for. */
    if ((opening->flags & H5F_ACC_SWMR_READ) && mkt_path_kind(opening->path) == MKT_PATH_STUB)
        opening->flags &= ~H5F_ACC_SWMR_READ;
    bool swmr = opening->flags & (H5F_ACC_SWMR_WRITE | H5F_ACC_SWMR_READ);
    opening->driver = swmr ? MKT_VOL_DRIVER_OTHER : mkt_vol_list_driver(opening->fapl);
    if (opening->driver == MKT_VOL_DRIVER_OTHER)
        return pass_through(opening);
    struct mkt_vol_file *open_here = mkt_vol_file_find(opening->path, opening->driver);
    if (open_here) {
        opening->may_be_search = false;
        return open_image(opening, open_here);
    }
    mkt_vol_group_init(&opening->group);
    if (opening->driver == MKT_VOL_DRIVER_MPIO &&
        mkt_vol_group_from_list(&opening->group, opening->fapl) < 0)
        return pass_through(opening); /* native says what is wrong with the communicator */
    void *info = NULL;
    H5Pget_vol_info(opening->fapl, &info);
    opening->info = info;
    void *object = open_by_rule(opening);
    mkt_vol_info_free(info);
    mkt_vol_group_fini(&opening->group);
    return object;
}

static void *open_file(struct opening *opening)
{
    opening->may_be_search = mkt_vol_context_take_accessible(opening->path) && !opening->create;
    struct mkt_vol_object *object = open_through_market(opening);
    if (!object || !opening->may_be_search || !is_native_to_hdf5(object->under))
        return object;
    object->found_by_search = true;
    return object;
}

void *mkt_vol_file_create(const char *name, unsigned flags, hid_t fcpl, hid_t fapl, hid_t dxpl,
                          void **request)
{
    struct opening opening = {.path = name,
                              .flags = flags,
                              .create = true,
                              .fcpl = fcpl,
                              .fapl = fapl,
                              .dxpl = dxpl,
                              .request = request,
                              .intent = flags & H5F_ACC_TRUNC ? MKT_INTENT_CREATE
                                                              : MKT_INTENT_CREATE_EXCL};
    return open_file(&opening);
}

void *mkt_vol_file_open(const char *name, unsigned flags, hid_t fapl, hid_t dxpl, void **request)
{
    struct opening opening = {.path = name,
                              .flags = flags,
                              .fapl = fapl,
                              .dxpl = dxpl,
                              .request = request,
                              .intent =
                                  flags & H5F_ACC_RDWR ? MKT_INTENT_READ_WRITE : MKT_INTENT_READ};
    return open_file(&opening);
}

herr_t mkt_vol_file_close(void *file, hid_t dxpl, void **request)
{
    if (!mkt_vol_object_closing(file))
        return 0;
    return mkt_vol_object_closed(
        file, mkt_vol_native()->file_cls.close(mkt_vol_under(file), dxpl, request));
}
