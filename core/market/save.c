/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saving: versions of mode BOTH become files, written by archivers, who are sessions like any
 * other. A version is owed until its file is safe; of a path the newest only, but a save that has
 * begun ends. What is saved may be given up when its memory is needed: its file has it.
 */
#include "core/market/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_MS      50u /* many programs rename or remove a file when they have closed it */
#define RETRY_FIRST_MS 1000u
#define RETRY_LAST_MS  60000u

static uint64_t version_bytes(const struct version *version)
{
    return version->data_bytes + (version->image ? version->image->extent.length : 0);
}

/* ---- the two lists ---- */

static void leave_unsaved(struct mkt_market *market, struct version *version)
{
    DL_DELETE2(market->unsaved, version, save_prev, save_next);
    market->save_turn++;
    market->unsaved_count--;
    market->unsaved_bytes -= version_bytes(version);
}

static void enter_saved(struct mkt_market *market, struct version *version)
{
    DL_APPEND2(market->saved, version, save_prev, save_next);
    market->evictable_count += !version->keeps_some;
}

static void leave_saved(struct mkt_market *market, struct version *version)
{
    DL_DELETE2(market->saved, version, save_prev, save_next);
    market->evictable_count -= !version->keeps_some;
}

/* ---- closes that wait ---- */

void mkt_save_await(struct mkt_market *market, struct version *version, struct group *group)
{
    market->awaited++;
    group->awaits = version;
    DL_APPEND2(version->save.closers, group, await_prev, await_next);
}

void mkt_save_await_no_more(struct mkt_market *market, struct group *group)
{
    if (!group->awaits)
        return;
    market->awaited--;
    DL_DELETE2(group->awaits->save.closers, group, await_prev, await_next);
    group->awaits = NULL;
}

static void answer_closers(struct mkt_market *market, struct version *version,
                           enum mkt_status status, const char *why)
{
    struct group *group;

    while ((group = version->save.closers)) {
        mkt_save_await_no_more(market, group);
        mkt_commit_saved(market, group, status, why);
    }
}

static bool is_running(const struct version *version)
{
    return version->save.state == SAVE_RUNNING || version->save.state == SAVE_PLACING;
}

bool mkt_save_is_unsaved(const struct version *version)
{
    return version->save.state != SAVE_NONE && version->save.state != SAVE_SAVED;
}

/* It won't be saved any more. Who waits for it waits for its successor, which is as good; without
 * one it was withdrawn, and nothing is left to wait for. */
static void pass_closers_on(struct mkt_market *market, struct version *version)
{
    struct version *newest = mkt_version_newest(version->object);
    struct group *group;

    if (!newest || newest == version || !mkt_save_is_unsaved(newest)) {
        answer_closers(market, version, MKT_OK, NULL);
        return;
    }
    while ((group = version->save.closers)) {
        mkt_save_await_no_more(market, group);
        mkt_save_await(market, newest, group);
    }
}

/* Its file may be at its place already, and has to be looked after before anything else of that
 * object is saved: so it stays, even if it is retired. */
static void hold(struct version *version)
{
    version->save.held = true;
    mkt_version_pin(version, false);
}

void mkt_save_give_up(struct mkt_market *market, struct version *version)
{
    if (is_running(version))
        return;
    if (version->save.state == SAVE_PENDING && version->save.placed.ino != 0) {
        if (version->retired)
            hold(version);
        return;
    }
    if (version->save.state == SAVE_PENDING)
        leave_unsaved(market, version);
    else if (version->save.state == SAVE_SAVED)
        leave_saved(market, version);
    version->save.state = SAVE_NONE;
    pass_closers_on(market, version);
}

void mkt_save_drop_held(struct mkt_market *market)
{
    struct version *version, *next;

    DL_FOREACH_SAFE2 (market->unsaved, version, next, save_next) {
        if (!version->save.held)
            continue;
        version->save.held = false;
        leave_unsaved(market, version);
        version->save.state = SAVE_NONE;
        mkt_version_unpin(market, version, false);
    }
}

/* Arrays that only memory has keep their version there. */
static bool has_memory_only(const struct version *version)
{
    for (uint32_t i = 0; i < version->arrays; i++) {
        if ((version->array[i].info.flags & MKT_ARRAY_MEMORY_ONLY) && version->array[i].count > 0)
            return true;
    }
    return false;
}

static uint64_t due_ms(const struct version *version)
{
    uint64_t settled_ms = version->published_ms + SETTLE_MS;

    return version->save.retry_ms > settled_ms ? version->save.retry_ms : settled_ms;
}

static void owe(struct mkt_market *market, struct version *version)
{
    const struct object *object = version->object;
    struct version *older;

    version->keeps_some = has_memory_only(version);
    version->save.state = SAVE_PENDING;
    version->save.durability = object->durability;
    version->save.priority = object->priority;
    DL_APPEND2(market->unsaved, version, save_prev, save_next);
    market->unsaved_count++;
    market->unsaved_bytes += version_bytes(version);
    mkt_note_deadline(market, due_ms(version));
    /* Now that there is a successor for those to wait for who wait for these. */
    DL_FOREACH (object->versions, older) {
        if (older != version && older->save.state == SAVE_PENDING && older->save.placed.ino == 0)
            mkt_save_give_up(market, older);
    }
}

void mkt_save_begin(struct mkt_market *market, struct version *version)
{
    const struct object *object = version->object;

    if (version->loaded && version->save.state == SAVE_NONE) {
        version->save.state = SAVE_SAVED;
        enter_saved(market, version);
    }
    if (version->save.state == SAVE_NONE &&
        (object->mode == MKT_MODE_BOTH || (market->drains > 0 && object->backup)))
        owe(market, version);
}

void mkt_save_drain(struct mkt_market *market, struct session *session, const struct mkt_msg *msg)
{
    struct object *object, *next;
    struct version *version;

    market->drains += !session->drains;
    session->drains = true;
    HASH_ITER (hh, market->objects, object, next) {
        version = mkt_version_visible(object);
        if (version)
            mkt_save_begin(market, version);
    }
    DL_FOREACH2 (market->unsaved, version, save_next)
        version->save.tries = 0, version->save.retry_ms = 0;
    mkt_reply(market, session, &(struct mkt_msg){.type = MKT_MSG_DRAINING, .request = msg->request},
              NULL);
}

bool mkt_save_is_owed(const struct version *version)
{
    return (version->save.state == SAVE_PENDING || is_running(version)) &&
           version->save.durability != MKT_DURABILITY_NONE &&
           version == mkt_version_visible(version->object);
}

bool mkt_save_evict(struct mkt_market *market)
{
    struct version *version;

    DL_FOREACH2 (market->saved, version, save_next) {
        struct object *object = version->object;

        if (version->keeps_some || version->pins > 0 || mkt_stream_holds(version))
            continue;
        mkt_object_get(object);
        mkt_version_retire(market, version);
        mkt_object_settle(market, object, "its memory was needed; its file is on disk");
        mkt_object_put(market, object);
        return true;
    }
    return false;
}

/* ---- orders ---- */

/* A close that waits goes before all. The first of what is to be saved at the market's end is what
 * has `backup`. */
static bool comes_before(const struct mkt_market *market, const struct version *a,
                         const struct version *b)
{
    if ((a->save.closers != NULL) != (b->save.closers != NULL))
        return a->save.closers != NULL;
    if (market->drains > 0 && a->object->backup != b->object->backup)
        return a->object->backup;
    return a->save.priority > b->save.priority;
}

/* Somebody waits for archivers: for memory, for files to be safe, for a close, for the end. */
static bool is_waited_for(const struct mkt_market *market)
{
    const struct save_wait *wait;

    DL_FOREACH (market->save_waits, wait) {
        if (!wait->is_archiver && !wait->yields)
            return true;
    }
    return market->grant_waits || market->awaited > 0 || market->drains > 0;
}

static bool is_due(const struct mkt_market *market, const struct version *version)
{
    if (version->save.placed.ino != 0 || is_waited_for(market))
        return version->save.retry_ms <= market->now_ms;
    return due_ms(version) <= market->now_ms;
}

/* One at a time of an object, in their order. */
static bool is_first(const struct mkt_market *market, const struct version *version)
{
    const struct version *other;

    DL_FOREACH2 (market->unsaved, other, save_next) {
        if (other->object == version->object && other != version &&
            (is_running(other) || (other->number < version->number && other->save.placed.ino != 0)))
            return false;
    }
    return true;
}

/* The next to be saved: by priority, then the oldest. */
static struct version *pick(const struct mkt_market *market)
{
    struct version *version, *best = NULL;

    DL_FOREACH2 (market->unsaved, version, save_next) {
        if (version->save.state != SAVE_PENDING || !is_due(market, version))
            continue;
        if ((!best || comes_before(market, version, best)) && is_first(market, version))
            best = version;
    }
    return best;
}

static void send_order(struct mkt_market *market, struct session *session, uint64_t request,
                       struct version *version)
{
    const struct object *object = version->object;
    struct mkt_msg order = {.type = MKT_MSG_SAVE_ORDER, .request = request};

    version->save.state = SAVE_RUNNING;
    version->save.saver = session;
    session->saving++;
    if (!version->save.held)
        mkt_version_pin(version, false);
    version->save.held = false; /* its saver holds it */
    memcpy(order.save_order.object, object->id, MKT_ID_BYTES);
    order.save_order.version = version->number;
    order.save_order.index = version->index;
    if (version->image)
        order.save_order.image = version->image->extent;
    order.save_order.path =
        (struct mkt_bytes){object->name.path, (uint32_t)strlen(object->name.path)};
    order.save_order.has_stub = object->has_stub;
    order.save_order.file = object->name.file;
    order.save_order.placed = version->save.placed;
    mkt_reply(market, session, &order, NULL);
}

/* The version that the session is saving; NULL, and answered, if it isn't. */
static struct version *find_running(struct mkt_market *market, struct session *session,
                                    uint64_t request, const uint8_t object[MKT_ID_BYTES],
                                    uint64_t number)
{
    struct version *version;

    DL_FOREACH2 (market->unsaved, version, save_next) {
        if (is_running(version) && version->save.saver == session && version->number == number &&
            memcmp(version->object->id, object, MKT_ID_BYTES) == 0)
            return version;
    }
    mkt_reply_error(market, session, request, MKT_CANCELLED, "nobody asks for that file any more");
    return NULL;
}

/* What has a successor isn't saved any more: it could replace the newer file. Unless its file may
 * be at its place already: then that has to be found out first. */
static bool may_be_tried(const struct version *version)
{
    return (!version->retired && version == mkt_version_visible(version->object)) ||
           version->save.placed.ino != 0;
}

/* The save ended, in whichever way: the version is no longer its saver's, and its pin is gone. */
static void end_run(struct mkt_market *market, struct version *version, enum save_state state)
{
    version->save.saver->saving--;
    version->save.saver = NULL;
    if (state == SAVE_PENDING && may_be_tried(version)) {
        version->save.state = SAVE_PENDING;
        if (version->retired)
            hold(version);
    } else {
        leave_unsaved(market, version);
        version->save.state = state == SAVE_SAVED && !version->retired ? SAVE_SAVED : SAVE_NONE;
        if (version->save.state == SAVE_SAVED)
            enter_saved(market, version);
        pass_closers_on(market, version);
    }
    mkt_version_unpin(market, version, false);
}

void mkt_save_place(struct mkt_market *market, struct session *session, const struct mkt_msg *msg)
{
    const struct mkt_msg_save_place *place = &msg->save_place;
    struct version *version =
        find_running(market, session, msg->request, place->object, place->version);

    if (!version)
        return;
    if (version->object->gone) {
        mkt_reply_error(market, session, msg->request, MKT_CANCELLED, "it was withdrawn");
        return;
    }
    version->save.state = SAVE_PLACING;
    version->save.placed = place->file;
    mkt_reply(market, session,
              &(struct mkt_msg){.type = MKT_MSG_SAVE_PLACED, .request = msg->request}, NULL);
}

bool mkt_save_is_placing(const struct mkt_market *market, const struct object *object)
{
    const struct version *version;

    DL_FOREACH2 (market->unsaved, version, save_next) {
        if (version->object == object &&
            (version->save.state == SAVE_PLACING || version->save.placed.ino != 0))
            return true;
    }
    return false;
}

struct object *mkt_save_find_placing(const struct mkt_market *market, const struct owned_name *name)
{
    const struct version *version;

    DL_FOREACH2 (market->unsaved, version, save_next) {
        if (version->save.placed.ino == 0 || !mkt_file_same(&version->save.placed, &name->file))
            continue;
        /* What was withdrawn and got there all the same, for a moment, is not what is meant. */
        return version->object->gone ? mkt_object_by_stub_place(market, name) : version->object;
    }
    return NULL;
}

/* Its file is where the stub was, or the former file: that is what the object is known by now. */
static void take_file(struct mkt_market *market, struct version *version,
                      const struct mkt_file_identity *file)
{
    struct object *object = version->object;

    free(object->save_failure);
    object->save_failure = NULL;
    if (object->gone)
        return;
    /* The stub is no more, or the file before it, and must not be looked for. */
    mkt_op_drop_stub(market, object->id);
    mkt_object_set_file(market, object, file);
}

/* The more often it failed, the later it is tried again. */
static void put_off(struct mkt_market *market, struct save *save, uint32_t failures)
{
    uint64_t pause_ms = RETRY_FIRST_MS << (failures < 6 ? failures : 6);

    save->retry_ms = market->now_ms + (pause_ms < RETRY_LAST_MS ? pause_ms : RETRY_LAST_MS);
    mkt_note_deadline(market, save->retry_ms);
}

static void keep_reason(struct mkt_market *market, struct object *object,
                        const struct mkt_bytes *text)
{
    char *reason = strndup(text->length ? text->data : "", text->length);

    if (!object->save_failure || !reason || strcmp(object->save_failure, reason) != 0) {
        object->save_told = false;
        market->has_save_news = true;
    }
    free(object->save_failure);
    object->save_failure = reason;
}

const char *mkt_save_notice(struct mkt_market *market, const struct session *session,
                            const struct object *object, char text[MKT_SAVE_NOTICE_BYTES])
{
    const struct version *version;
    uint32_t told = 0, untold = 0;

    text[0] = '\0';
    if (!market->has_save_news)
        return text;
    DL_FOREACH2 (market->unsaved, version, save_next) {
        struct object *failed = version->object;

        if (!failed->save_failure || failed->save_told || failed->gone)
            continue;
        if (failed != object && failed->writer_session != session->id) {
            untold++;
            continue;
        }
        failed->save_told = true;
        if (told++ == 0)
            snprintf(text, MKT_SAVE_NOTICE_BYTES - 64,
                     "'%s' is not on disk yet, it stays in memory: %s",
                     mkt_path_text(failed->name.path), failed->save_failure);
    }
    if (told > 1)
        snprintf(text + strlen(text), 64, " (and %u more files; `h5market ls`)", told - 1);
    market->has_save_news = untold > 0;
    return text;
}

static void note_failure(struct mkt_market *market, struct version *version,
                         const struct mkt_msg_save_done *done)
{
    struct save *save = &version->save;

    keep_reason(market, version->object, &done->text);
    /* Who removed it or wrote another over it need not be told: that it is meant shows soon. */
    if (done->status == MKT_NOT_FOUND || (done->status == MKT_EXISTS && save->tries == 0))
        version->object->save_told = true;
    else if (done->status == MKT_EXISTS && save->tries == 1) {
        version->object->save_told = false;
        market->has_save_news = true;
    }
    save->placed = done->file; /* ino 0: its saver knows that it isn't there */
    put_off(market, save, save->tries++);
    answer_closers(market, version, done->status,
                   version->object->save_failure ? version->object->save_failure : "");
}

void mkt_save_done(struct mkt_market *market, struct session *session, const struct mkt_msg *msg)
{
    const struct mkt_msg_save_done *done = &msg->save_done;
    struct version *version =
        find_running(market, session, msg->request, done->object, done->version);

    if (!version)
        return;
    struct object *object = version->object;
    struct set *set = version->set;
    mkt_object_get(object);
    if (done->status == MKT_OK) {
        market->saves++;
        market->saved_bytes += version_bytes(version);
        take_file(market, version, &done->file);
        answer_closers(market, version, MKT_OK, NULL);
    } else {
        note_failure(market, version, done);
    }
    end_run(market, version, done->status == MKT_OK ? SAVE_SAVED : SAVE_PENDING);
    if (set)
        mkt_set_apply(market, set);
    if (object->stream && object->stream->consumed)
        mkt_stream_apply(market, object->stream);
    mkt_object_put(market, object);
    mkt_reply(market, session,
              &(struct mkt_msg){.type = MKT_MSG_SAVE_NOTED, .request = msg->request}, NULL);
}

/* ---- waits ---- */

static void wait_end(struct mkt_market *market, struct save_wait *wait)
{
    DL_DELETE(market->save_waits, wait);
    market->save_waits_count--;
    wait->session->save_waits--;
    mkt_object_put(market, wait->object);
    free(wait);
}

static void wait_begin(struct mkt_market *market, struct session *session, uint64_t request,
                       struct save_wait what, uint32_t wait_ms)
{
    struct save_wait *wait = NULL;

    if (market->save_waits_count < market->limits.max_waiting)
        wait = malloc(sizeof(*wait));
    if (!wait) {
        mkt_reply_error(market, session, request, MKT_NO_SPACE,
                        "too many programs wait for files to be saved (`max_waiting`)");
        return;
    }
    *wait = what;
    wait->session = session;
    session->save_waits++;
    wait->seen = UINT64_MAX;
    wait->request = request;
    wait->started_ms = market->now_ms;
    wait->deadline_ms = market->now_ms + wait_ms;
    if (wait->object)
        mkt_object_get(wait->object);
    DL_APPEND(market->save_waits, wait);
    market->save_waits_count++;
    mkt_note_deadline(market, wait->deadline_ms);
}

void mkt_save_next(struct mkt_market *market, struct session *session, const struct mkt_msg *msg)
{
    wait_begin(market, session, msg->request, (struct save_wait){.is_archiver = true},
               msg->save_next.wait_ms);
}

void mkt_save_wait(struct mkt_market *market, struct session *session, const struct mkt_msg *msg)
{
    struct save_wait wait = {.own = !msg->save_wait.all && msg->save_wait.own};
    struct owned_name name;
    bool differs = false;

    if (!msg->save_wait.all && !wait.own) {
        if (mkt_owned_name_init(&name, &msg->save_wait.name) != MKT_OK) {
            mkt_reply_error(market, session, msg->request, MKT_NO_MEMORY,
                            "the market daemon is out of memory");
            return;
        }
        wait.object = mkt_object_by_client_name(market, &name, &differs);
        mkt_owned_name_fini(&name);
        if (!wait.object || differs) {
            mkt_reply_error(market, session, msg->request, MKT_NOT_FOUND,
                            "the market holds nothing for that name");
            return;
        }
    }
    wait_begin(market, session, msg->request, wait, msg->save_wait.wait_ms);
}

/* Somebody may wait for what the session brings in. */
static bool is_loading_for_others(const struct mkt_market *market, const struct session *session)
{
    const struct member *member;

    DL_FOREACH (session->members, member) {
        if (member->group->intent == MKT_INTENT_LOAD && market->waiting_opens > 0)
            return true;
    }
    return false;
}

/* When the session may go on, beside programs that aren't done; 0: now. */
static uint64_t quiet_at(const struct mkt_market *market, const struct session *session)
{
    uint64_t at = mkt_market_quiet_ms(market);

    if (market->limits.background_rate == MKT_BACKGROUND_FREE || is_waited_for(market) ||
        is_loading_for_others(market, session))
        return 0;
    if (market->limits.background_rate != MKT_BACKGROUND_YIELDS)
        at = market->rate_allowed_ms;
    return at > market->now_ms ? at : 0;
}

void mkt_save_yield(struct mkt_market *market, struct session *session, const struct mkt_msg *msg)
{
    uint64_t rate = market->limits.background_rate;
    const struct member *member;

    DL_FOREACH (session->members, member) {
        market->background_files -= member->rank == 0 && mkt_group_is_background(member->group);
    }
    session->yields = true;
    DL_FOREACH (session->members, member) {
        market->background_files += member->rank == 0 && mkt_group_is_background(member->group);
    }
    if (rate != MKT_BACKGROUND_YIELDS && rate != MKT_BACKGROUND_FREE) {
        if (market->rate_allowed_ms < market->now_ms)
            market->rate_allowed_ms = market->now_ms;
        market->rate_allowed_ms += msg->save_yield.bytes / (rate / 1000 ? rate / 1000 : 1);
    }
    wait_begin(market, session, msg->request, (struct save_wait){.yields = true}, 0);
}

static void serve_yield(struct mkt_market *market, struct save_wait *wait)
{
    uint64_t at_ms = quiet_at(market, wait->session);

    if (at_ms > 0) {
        wait->deadline_ms = at_ms;
        mkt_note_deadline(market, at_ms);
        return;
    }
    market->yielded_ms += market->now_ms - wait->started_ms;
    mkt_reply(market, wait->session,
              &(struct mkt_msg){.type = MKT_MSG_SAVE_GO, .request = wait->request}, NULL);
    wait_end(market, wait);
}

/* What is still to be saved of that which is waited for. */
static struct mkt_msg_save_state state_of(const struct mkt_market *market,
                                          const struct save_wait *wait)
{
    struct mkt_msg_save_state state = {.files = 0};
    const struct version *version;

    DL_FOREACH2 (market->unsaved, version, save_next) {
        const char *failure = version->object->save_failure;

        if ((wait->object && version->object != wait->object) || version->object->gone ||
            (wait->own && version->object->writer_session != wait->session->id))
            continue;
        state.files++;
        state.bytes += version_bytes(version);
        if (!failure)
            continue;
        if (state.failing++ == 0)
            state.text = (struct mkt_bytes){failure, (uint32_t)strlen(failure)};
    }
    return state;
}

static void answer_state(struct mkt_market *market, struct save_wait *wait,
                         const struct mkt_msg_save_state *state)
{
    struct mkt_msg answer = {.type = MKT_MSG_SAVE_STATE, .request = wait->request};

    answer.save_state = *state;
    mkt_reply(market, wait->session, &answer, NULL);
    wait_end(market, wait);
}

bool mkt_save_cancel(struct mkt_market *market, struct session *session, uint64_t request)
{
    struct save_wait *wait;

    if (session->save_waits == 0)
        return false;
    DL_FOREACH (market->save_waits, wait) {
        if (wait->session != session || wait->request != request)
            continue;
        mkt_reply_error(market, session, request, MKT_CANCELLED, "the wait was ended");
        wait_end(market, wait);
        return true;
    }
    return false;
}

void mkt_save_forget(struct mkt_market *market, struct session *session)
{
    struct save_wait *wait, *next;
    struct version *version, *next_version;

    market->drains -= session->drains;
    session->drains = false;
    if (session->save_waits > 0) {
        DL_FOREACH_SAFE (market->save_waits, wait, next) {
            if (wait->session == session)
                wait_end(market, wait);
        }
    }
    if (session->saving == 0)
        return;
    DL_FOREACH_SAFE2 (market->unsaved, version, next_version, save_next) {
        if (version->save.saver != session)
            continue;
        /* Once may be chance; what kills its savers must not keep the others from being saved. */
        if (version->save.deaths++ > 0)
            put_off(market, &version->save, version->save.deaths - 2);
        end_run(market, version, SAVE_PENDING);
    }
}

void mkt_save_serve(struct mkt_market *market)
{
    struct save_wait *wait, *next;

    DL_FOREACH_SAFE (market->save_waits, wait, next) {
        struct version *version = wait->is_archiver ? pick(market) : NULL;
        struct mkt_msg_save_state state;

        if (version && mkt_version_refresh(market, version) != MKT_OK) {
            put_off(market, &version->save, version->save.tries);
        } else if (version) {
            send_order(market, wait->session, wait->request, version);
            wait_end(market, wait);
        } else if (wait->yields) {
            serve_yield(market, wait);
        } else if (!wait->is_archiver && wait->seen != market->save_turn) {
            wait->seen = market->save_turn;
            state = state_of(market, wait);
            if (state.files == 0)
                answer_state(market, wait, &state);
        }
    }
}

void mkt_save_tick(struct mkt_market *market)
{
    struct save_wait *wait, *next;
    const struct version *version;

    DL_FOREACH_SAFE (market->save_waits, wait, next) {
        struct mkt_msg_save_state state;

        if (wait->deadline_ms > market->now_ms) {
            mkt_note_deadline(market, wait->deadline_ms);
        } else if (wait->yields) {
            serve_yield(market, wait);
        } else if (wait->is_archiver) {
            mkt_reply_error(market, wait->session, wait->request, MKT_TIMED_OUT,
                            "nothing is to be saved");
            wait_end(market, wait);
        } else {
            state = state_of(market, wait);
            answer_state(market, wait, &state);
        }
    }
    DL_FOREACH2 (market->unsaved, version, save_next) {
        if (version->save.state == SAVE_PENDING && due_ms(version) > market->now_ms)
            mkt_note_deadline(market, due_ms(version));
    }
}
