/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An archiver, and the files that it makes: a step an act, as vol/save/deposit.c does it, so that
 * it can die between any two. A file knows which version it is; what stands at a path must never be
 * older than what stood there before, and what is owed must be there in the end, or in memory.
 */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

#define FILE_BYTES 4096
#define DEVICE     7

static struct path *path_named(const struct mkt_bytes *name)
{
    for (unsigned p = 0; p < PATHS; p++) {
        if (strlen(world.path[p].name) == name->length &&
            memcmp(world.path[p].name, name->data, name->length) == 0)
            return &world.path[p];
    }
    sim_fail("an order for a path that nobody opened");
}

static void request(struct process *process, struct mkt_msg *msg, enum mkt_msg_type waits_for,
                    uint64_t limit_ms)
{
    msg->request = process->request = ++world.last_request;
    process->waits_for = waits_for;
    process->delivered = process->cancelled = false;
    process->limit_ms = limit_ms;
    world_send(process, msg);
}

/* ---- files ---- */

static struct file standing(const struct path *path)
{
    struct file file = {.exists = path->has_stub || path->has_file,
                        .is_stub = path->has_stub,
                        .ino = path->ino,
                        .mtime = path->mtime,
                        .content = path->content,
                        .is_safe = path->is_safe};

    memcpy(file.stub, path->stub, MKT_ID_BYTES);
    return file;
}

static void put(struct path *path, const struct file *file)
{
    path->has_stub = file->exists && file->is_stub;
    path->has_file = file->exists && !file->is_stub;
    path->ino = file->ino;
    path->mtime = file->mtime;
    path->content = file->content;
    path->is_safe = file->is_safe;
    memcpy(path->stub, file->stub, MKT_ID_BYTES);
}

static struct mkt_file_identity identity(const struct file *file)
{
    return (struct mkt_file_identity){
        .dev = DEVICE, .ino = file->ino, .size = FILE_BYTES, .mtime_ns = file->mtime};
}

static bool is_expected(const struct mkt_msg_save_order *order, const struct file *file)
{
    if (!file->exists)
        return false;
    if (order->has_stub)
        return file->is_stub && memcmp(file->stub, order->object, MKT_ID_BYTES) == 0;
    return !file->is_stub && file->ino == order->file.ino && file->mtime == order->file.mtime_ns;
}

/* What was removed may have been a stub that the daemon watches. */
static void remove_temporary(struct path *path)
{
    if (path->temporary.exists && path->temporary.is_stub && world.removals < 16) {
        memcpy(world.removed[world.removals], path->temporary.stub, MKT_ID_BYTES);
        world.removed_path[world.removals++] = (uint8_t)(path - world.path);
    }
    path->temporary = (struct file){.exists = false};
}

static void swap(struct path *path)
{
    struct file there = standing(path), temporary = path->temporary;

    put(path, &temporary);
    path->temporary = there;
}

void archive_meddled(struct path *path)
{
    path->content = path->last_saved = 0;
    world.meddled = true;
}

static void note_placed(struct path *path)
{
    SIM_CHECK(world.has_hostile || path->content > path->last_saved,
              "'%s': version %u (in the order of publication) replaced %u", path->name,
              path->content, path->last_saved);
    sim_trace("'%s', %u is there", path->name, path->content);
    path->last_saved = path->content;
    world.saves++;
}

/* ---- the steps ---- */

static void end(struct archive *archive, enum mkt_status outcome, struct mkt_file_identity file)
{
    sim_trace("'%s', %u: %s", archive->path->name, archive->content, mkt_status_name(outcome));
    archive->outcome = outcome;
    archive->file = file;
    archive->step = ARCHIVE_DONE;
}

static void fail(struct archive *archive, enum mkt_status outcome)
{
    remove_temporary(archive->path);
    end(archive, outcome, (struct mkt_file_identity){.ino = 0});
}

static void put_back(struct archive *archive)
{
    swap(archive->path);
    archive->path->last_saved = archive->path->content;
    fail(archive, MKT_EXISTS);
}

static void resume(struct archive *archive, bool came_out, bool owns)
{
    if (came_out && !owns) {
        put_back(archive);
        return;
    }
    remove_temporary(archive->path);
    archive->step = ARCHIVE_SYNC;
}

static void open_target(struct process *process)
{
    struct archive *archive = &process->archive;
    const struct mkt_msg_save_order *order = &archive->order;
    struct path *path = archive->path;
    const struct file there = standing(path);
    bool came_out = order->placed.ino != 0 && path->temporary.exists &&
                    path->temporary.ino != order->placed.ino;
    bool owns = !came_out || is_expected(order, &path->temporary);

    if (path->saver && path->saver != process && path->saver->alive) {
        end(archive, MKT_BUSY, order->placed);
        return;
    }
    path->saver = process;
    archive->expected = 0;
    if (there.exists && !there.is_stub && order->placed.ino != 0 &&
        there.ino == order->placed.ino) {
        resume(archive, came_out, owns);
        return;
    }
    if (came_out && !owns) { /* somebody's: it stays where it is */
        end(archive, MKT_EXISTS, (struct mkt_file_identity){.ino = 0});
    } else if (came_out) {
        fail(archive, MKT_EXISTS);
    } else if (!there.exists && (order->has_stub || order->file.ino != 0)) {
        fail(archive, MKT_NOT_FOUND);
    } else if (there.exists && !is_expected(order, &there)) {
        fail(archive, MKT_EXISTS);
    } else {
        archive->expected = there.exists ? there.ino : 0;
        archive->step = ARCHIVE_FILL;
    }
}

static void fill(struct archive *archive)
{
    struct path *path = archive->path;

    if (!world.archivers_end && one_in(12)) {
        fail(archive, MKT_NO_SPACE);
        return;
    }
    if (!path->temporary.exists)
        path->temporary.ino = ++world.last_ino;
    path->temporary.exists = true;
    path->temporary.is_stub = path->temporary.is_safe = false;
    path->temporary.content = archive->content;
    path->temporary.mtime = ++world.last_value;
    archive->step = ARCHIVE_PLACE;
}

static void ask_to_place(struct process *process)
{
    struct mkt_msg msg = {.type = MKT_MSG_SAVE_PLACE};

    msg.save_place.version = process->archive.order.version;
    msg.save_place.file = identity(&process->archive.path->temporary);
    memcpy(msg.save_place.object, process->archive.order.object, MKT_ID_BYTES);
    request(process, &msg, MKT_MSG_SAVE_PLACED, 1);
}

static void exchange(struct archive *archive)
{
    struct path *path = archive->path;
    const struct file there = standing(path);

    if (archive->expected == 0 && !archive->order.has_stub) {
        if (there.exists) {
            fail(archive, MKT_EXISTS);
            return;
        }
        put(path, &path->temporary);
        path->temporary = (struct file){.exists = false};
        note_placed(path);
        archive->step = ARCHIVE_SYNC;
    } else if (!there.exists) {
        fail(archive, MKT_NOT_FOUND);
    } else {
        swap(path);
        archive->step = ARCHIVE_LOOK;
        if (is_expected(&archive->order, &path->temporary))
            note_placed(path);
    }
}

static void look(struct archive *archive)
{
    if (!is_expected(&archive->order, &archive->path->temporary)) {
        put_back(archive);
        return;
    }
    remove_temporary(archive->path);
    archive->step = ARCHIVE_SYNC;
}

static void sync_folder(struct archive *archive)
{
    struct path *path = archive->path;
    const struct file there = standing(path);

    /* Somebody may have meddled: it was there, and safe. */
    if (!world.archivers_end && one_in(12)) {
        end(archive, MKT_IO_ERROR, identity(&there));
        return;
    }
    path->is_safe |= path->content == archive->content;
    end(archive, MKT_OK, identity(&there));
}

static void say_done(struct process *process)
{
    static const char why[] = "it was not to be";
    const struct archive *archive = &process->archive;
    struct mkt_msg msg = {.type = MKT_MSG_SAVE_DONE};

    if (archive->path->saver == process)
        archive->path->saver = NULL;
    msg.save_done.version = archive->order.version;
    msg.save_done.status = archive->outcome;
    msg.save_done.file = archive->file;
    memcpy(msg.save_done.object, archive->order.object, MKT_ID_BYTES);
    if (archive->outcome != MKT_OK)
        msg.save_done.text = (struct mkt_bytes){why, sizeof(why) - 1};
    request(process, &msg, MKT_MSG_SAVE_NOTED, 1);
}

void archiver_act(struct process *process)
{
    struct archive *archive = &process->archive;
    struct mkt_msg msg = {.type = MKT_MSG_SAVE_NEXT};

    switch (archive->step) {
    case ARCHIVE_IDLE:
        msg.save_next.wait_ms = world.archivers_end ? 0 : (uint32_t)chance(0, 200);
        request(process, &msg, MKT_MSG_SAVE_ORDER, msg.save_next.wait_ms + 1);
        break;
    case ARCHIVE_OPEN:
        open_target(process);
        break;
    case ARCHIVE_FILL:
        fill(archive);
        break;
    case ARCHIVE_PLACE:
        ask_to_place(process);
        break;
    case ARCHIVE_EXCHANGE:
        exchange(archive);
        break;
    case ARCHIVE_LOOK:
        look(archive);
        break;
    case ARCHIVE_SYNC:
        sync_folder(archive);
        break;
    case ARCHIVE_DONE:
        say_done(process);
        break;
    }
}

static void take_order(struct process *process, const struct mkt_msg_save_order *order)
{
    struct archive *archive = &process->archive;
    struct mkt_msg_opened version = {
        .version = order->version, .image = order->image, .index = order->index};

    memcpy(version.object, order->object, MKT_ID_BYTES);
    content_check(&version);
    archive->order = *order;
    archive->path = path_named(&order->path);
    archive->content = content_order(order->object, order->version);
    archive->order.path = (struct mkt_bytes){NULL, 0};
    sim_trace("'%s', %u is to be saved", archive->path->name, archive->content);
    archive->step = ARCHIVE_OPEN;
    archive->found_nothing = 0;
}

void archiver_receive(struct process *process, const struct mkt_msg *msg)
{
    struct archive *archive = &process->archive;

    if (msg->type == MKT_MSG_ERROR && archive->step == ARCHIVE_PLACE) {
        SIM_CHECK(msg->error.status == MKT_CANCELLED, "a file may not be placed: %s",
                  mkt_status_name(msg->error.status));
        fail(archive, MKT_CANCELLED);
        return;
    }
    switch (archive->step) {
    case ARCHIVE_IDLE:
        if (msg->type == MKT_MSG_SAVE_ORDER)
            take_order(process, &msg->save_order);
        else
            archive->found_nothing++;
        break;
    case ARCHIVE_PLACE:
        archive->step = ARCHIVE_EXCHANGE;
        break;
    default:
        archive->step = ARCHIVE_IDLE;
        break;
    }
}

void archiver_reborn(struct process *process)
{
    struct program *program = process->program;
    const unsigned number = process->number;
    const uint64_t session = process->session + 1000;

    memset(process, 0, sizeof(*process));
    process->number = number;
    process->session = session;
    process->program = program;
    do
        world_session_begin(process); /* the daemon tries until one is there */
    while (!process->exists);
}

/* ---- what is owed ---- */

void archive_owe(struct path *path, unsigned content, bool owed)
{
    if (content >= path->owed)
        path->owed = owed ? content : 0;
}

struct unsaved {
    unsigned order;
    const uint8_t *object;
    bool is_there;
};

static void find_unsaved(void *context, const struct mkt_version_info *info)
{
    struct unsaved *unsaved = context;

    unsaved->is_there |= content_order(unsaved->object, info->version) >= unsaved->order;
}

static void find_in_object(void *context, const struct mkt_object_info *info)
{
    struct unsaved *unsaved = context;

    unsaved->object = info->object;
    mkt_market_each_version(world.market, info->object, find_unsaved, unsaved);
}

/* One after the other, nobody dies. */
static void save_all(struct process *process)
{
    for (unsigned step = 0; step < 3000 && process->archive.found_nothing < 12; step++) {
        if (process->archive.found_nothing > 0)
            world_tick(world.now + 20000);
        archiver_act(process);
        while (process->to_market.count > 0)
            world_deliver_to_market(process);
        while (process->to_client.count > 0)
            process_receive(process);
        if (process->waits_for == MKT_MSG_SAVE_ORDER) {
            world_tick(world.now + 10);
            while (process->to_client.count > 0)
                process_receive(process);
        }
        while (world.removals > 0 && one_in(2))
            world_stub_removed(0);
    }
}

void archive_rest(struct process *process)
{
    struct mkt_market_usage usage;

    save_all(process);
    mkt_market_usage(world.market, &usage);
    /* Without memory an object may lose its file's name, and its path goes to another one. */
    SIM_CHECK(
        world.meddled || world.has_hostile || world.short_of_memory || usage.unsaved_versions == 0,
        "%d versions can't be saved, though nobody is in the way", (int)usage.unsaved_versions);
    for (unsigned p = 0; p < PATHS; p++) {
        const struct path *path = &world.path[p];
        struct unsaved unsaved = {.order = path->owed};

        if (path->owed == 0 || world.has_hostile || (path->has_file && path->content >= path->owed))
            continue;
        mkt_market_each_object(world.market, find_in_object, &unsaved);
        SIM_CHECK(unsaved.is_there,
                  "'%s': version %u (in the order of publication) is lost; its file is %u",
                  path->name, path->owed, path->has_file ? path->content : 0);
    }
}
