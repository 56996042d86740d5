/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process of a scripted program: what it sends, what it expects, what it does to the bytes it may
 * touch. A process whose connection was cut goes on with its bytes until it dies. A hostile one
 * also sends what nobody should.
 */
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct job *job_of(const struct process *process)
{
    return &process->program->job[process->job];
}

static bool is_writer(const struct process *process)
{
    return job_of(process)->kind == JOB_WRITE;
}

/* ---- bytes ---- */

static void fill(const struct process *process, const struct mkt_extent *extent)
{
    uint64_t *word = world_bytes(extent);

    for (uint64_t i = 0; i < extent->length / 8; i++)
        word[i] = process->fill + i % 8;
}

/* A hostile process may have given bytes back by a message that was changed on its way; false: so
 * they aren't its any more. */
static bool check_filled(const struct process *process, const struct mkt_extent *extent)
{
    const uint64_t *word = world_bytes(extent);

    for (uint64_t i = 0; i < extent->length / 8; i++) {
        if (word[i] == process->fill + i % 8)
            continue;
        SIM_CHECK(process->program->hostile,
                  "bytes granted to process %u at %d were changed by somebody else",
                  process->number, (int)(extent->offset + i * 8));
        return false;
    }
    return true;
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + MKT_EXTENT_GRANULE - 1) / MKT_EXTENT_GRANULE * MKT_EXTENT_GRANULE;
}

static bool take_bytes(struct process *process, uint64_t bytes, struct mkt_extent *extent_out)
{
    for (unsigned i = 0; i < process->free_count; i++) {
        struct mkt_extent *extent = &process->free[i];

        if (extent->length < rounded(bytes))
            continue;
        if (!check_filled(process, extent)) {
            *extent = process->free[--process->free_count];
            return false;
        }
        *extent_out =
            (struct mkt_extent){.arena = extent->arena, .offset = extent->offset, .length = bytes};
        extent->offset += rounded(bytes);
        extent->length -= rounded(bytes);
        if (extent->length == 0)
            *extent = process->free[--process->free_count];
        return true;
    }
    return false;
}

static void give_bytes(struct process *process, const struct mkt_extent *extent)
{
    fill(process, extent);
    process->free[process->free_count++] = *extent;
}

/* ---- sending ---- */

static void mutate(struct process *process, struct mkt_msg *msg)
{
    struct mkt_extent *extent = msg->type == MKT_MSG_COMMIT ? &msg->commit.image : NULL;

    switch (chance(0, 5)) {
    case 0:
        if (extent)
            extent->offset += chance(0, 4) * 64;
        else
            msg->type = MKT_MSG_CANCEL;
        break;
    case 1:
        if (msg->type == MKT_MSG_OPEN)
            msg->open.rank = (uint32_t)chance(0, 3);
        else if (msg->type != MKT_MSG_GRANT && msg->type != MKT_MSG_RELEASE)
            msg->add.file = chance(0, 6);
        break;
    case 2:
        if (msg->type == MKT_MSG_OPEN)
            msg->open.size = (uint32_t)chance(0, 4);
        else if (msg->type == MKT_MSG_GRANT)
            msg->grant.bytes = chance(0, 3) == 0 ? UINT64_MAX - 10 : 0;
        break;
    case 3:
        if (msg->type == MKT_MSG_ADD &&
            msg->add.records.length >= sizeof(struct mkt_piece_record_wire)) {
            uint8_t *bytes = (uint8_t *)msg->add.records.data;

            bytes[chance(0, msg->add.records.length - 1)] ^= (uint8_t)chance(1, 255);
        }
        break;
    case 4:
        if (msg->type == MKT_MSG_OPEN && msg->open.intent != MKT_INTENT_PROBE)
            msg->open.intent = (uint32_t)chance(1, 5);
        break;
    default:
        msg->request = chance(0, world.last_request);
        break;
    }
    (void)process;
}

static void send_message(struct process *process, const struct mkt_msg *msg)
{
    struct mkt_msg copy = *msg;

    if (process->program->hostile && one_in(4))
        mutate(process, &copy);
    world_send(process, &copy);
    if (process->program->hostile && one_in(5))
        world_send(process, &copy);
}

/* A request whose answer is waited for, at most so long after it was delivered (0: no bound of its
 * own). */
static void request(struct process *process, struct mkt_msg *msg, enum mkt_msg_type waits_for,
                    uint64_t limit_ms)
{
    msg->request = process->request = ++world.last_request;
    process->waits_for = waits_for;
    process->delivered = process->cancelled = false;
    process->limit_ms = limit_ms;
    send_message(process, msg);
}

static void release(struct process *process, const struct mkt_extent *extent)
{
    struct mkt_msg msg = {.type = MKT_MSG_RELEASE};

    msg.release.count = 1;
    msg.release.extents = extent;
    send_message(process, &msg);
}

static void release_some(struct process *process)
{
    if (process->free_count == 0)
        return;
    const struct mkt_extent extent = process->free[--process->free_count];
    check_filled(process, &extent);
    release(process, &extent);
}

static void ask_bytes(struct process *process, uint64_t bytes)
{
    struct mkt_msg msg = {.type = MKT_MSG_GRANT};

    while (process->free_count > MAX_EXTENTS / 2)
        release_some(process);
    msg.grant.bytes = bytes;
    msg.grant.align = one_in(4) ? 256 : 0;
    request(process, &msg, MKT_MSG_GRANTED, world.limits.full_timeout_ms);
}

/* Bytes at hand, or a request for them (then false). */
static bool need_bytes(struct process *process, uint64_t bytes, struct mkt_extent *extent_out)
{
    if (take_bytes(process, bytes, extent_out))
        return true;
    uint64_t more = one_in(3) ? rounded(bytes) : chance(rounded(bytes), 4096);
    ask_bytes(process, more);
    return false;
}

/* ---- opening ---- */

static void look_at_path(struct process *process, struct job *job)
{
    struct path *path = &world.path[job->path];
    bool creates = job->kind == JOB_WRITE &&
                   (job->intent == MKT_INTENT_CREATE || job->intent == MKT_INTENT_CREATE_EXCL);

    memset(&job->name, 0, sizeof(job->name));
    job->name.parent_dev = 7;
    job->name.parent_ino = 11;
    job->name.path = (struct mkt_bytes){path->name, (uint32_t)strlen(path->name)};
    job->name.leaf = (struct mkt_bytes){path->name + 6, (uint32_t)strlen(path->name) - 6};
    if (creates && path->uses_stub && !path->has_stub && !path->has_file &&
        job->mode != MKT_MODE_FILE) {
        path->has_stub = true;
        path->ino = ++world.last_ino;
        path->content = 0;
        for (int i = 0; i < MKT_ID_BYTES; i++)
            path->stub[i] = (uint8_t)chance(1, 255);
    }
    if (path->has_stub) {
        memcpy(job->name.object, path->stub, MKT_ID_BYTES);
    } else if (path->has_file) {
        job->name.file.dev = 7;
        job->name.file.ino = path->ino;
        job->name.file.size = 4096;
        job->name.file.mtime_ns = path->mtime;
    }
    process->known_version = path->committed;
    if (path->has_stub && memcmp(path->object, path->stub, MKT_ID_BYTES) != 0)
        process->known_version = 0;
}

static void start_job(struct job *job, const struct program *program)
{
    if (job->started)
        return;
    job->started = true;
    memset(job->token, 0, sizeof(job->token));
    world.last_token++;
    memcpy(job->token, &world.last_token, sizeof(world.last_token));
    if (job->kind == JOB_WRITE)
        job->attempt = content_attempt(job->path, program->size, program->hostile);
}

static void open_file(struct process *process)
{
    struct job *job = job_of(process);
    struct mkt_msg msg = {.type = MKT_MSG_OPEN};
    uint32_t wait_ms =
        job->wait_ms > job->writer_timeout_ms ? job->wait_ms : job->writer_timeout_ms;

    start_job(job, process->program);
    memcpy(msg.open.token, job->token, MKT_ID_BYTES);
    msg.open.rank = process->rank;
    msg.open.size = process->program->size;
    msg.open.intent = job->intent;
    msg.open.mode = job->mode;
    if (process->rank == 0) {
        static const char set[] = "file*";

        look_at_path(process, job);
        msg.open.name = job->name;
        msg.open.has_stub = world.path[job->path].has_stub;
        msg.open.wait_ms = job->wait_ms;
        msg.open.writer_timeout_ms = job->writer_timeout_ms;
        msg.open.version = job->version;
        msg.open.after_ms = job->after_now ? world.now : 0;
        msg.open.keep = job->keep;
        msg.open.publish_close = job->publish_close;
        msg.open.durability = job->durability;
        msg.open.stream = job->stream;
        if (job->queue_until_ms == 0)
            job->queue_until_ms = world.now + job->stream.queue_timeout_ms;
        msg.open.stream.queue_timeout_ms =
            job->queue_until_ms > world.now ? (uint32_t)(job->queue_until_ms - world.now) : 0;
        if ((job->keep && job->path % 2 == 0) || job->stream.queue > 0 || job->stream.consumed ||
            job->stream.end_after > 0 || job->stream.on_full == MKT_FULL_DROP ||
            process->program->reader > 0)
            msg.open.set = (struct mkt_bytes){set, sizeof(set) - 1};
    }
    process->phase = PHASE_OPENING;
    process->file = 0;
    process->pieces = process->unacknowledged = process->round = process->operations =
        process->checks = 0;
    process->out_of_memory = false;
    if (job->kind == JOB_WRITE && job->stream.queue > 0)
        wait_ms = job->stream.queue_timeout_ms;
    request(process, &msg, MKT_MSG_OPENED, (uint64_t)world.limits.join_timeout_ms + wait_ms + 1);
}

static void next_job(struct process *process)
{
    process->phase = PHASE_START;
    process->file = 0;
    process->pieces = process->unacknowledged = 0;
    process->job++;
}

static void close_file(struct process *process)
{
    struct mkt_msg msg = {.type = MKT_MSG_CLOSE};

    msg.file.file = process->file;
    send_message(process, &msg);
    next_job(process);
}

/* ---- pieces ---- */

static unsigned element_cell(const struct own_piece *piece, unsigned element)
{
    return piece->start + element * piece->stride;
}

static unsigned piece_end(const struct own_piece *piece)
{
    return element_cell(piece, piece->count - 1) + 1;
}

static bool is_written(const struct own_piece *piece, unsigned element)
{
    return piece->form != MKT_PIECE_MASKED || piece->mask >> element & 1;
}

/* What the others have done by now is older than what goes out next. */
static void find_beaten(struct process *process, struct own_piece *piece)
{
    for (unsigned i = 0; i < piece->count; i++)
        content_find_done(job_of(process)->attempt, process->rank, piece->array,
                          element_cell(piece, i), piece->beaten[i]);
}

/* New values into all that the piece holds. */
static void write_elements(struct process *process, struct own_piece *piece)
{
    struct attempt *attempt = job_of(process)->attempt;
    uint64_t *data = world_bytes(&piece->data);

    find_beaten(process, piece);
    for (unsigned i = 0; i < piece->count; i++) {
        uint64_t value = content_value(attempt, piece->array, element_cell(piece, i));

        piece->last[i] = value;
        data[i] = value;
        if (is_written(piece, i))
            content_wrote(attempt, process->rank, piece->array, element_cell(piece, i), value);
    }
}

static void note_done(struct process *process, const struct own_piece *piece)
{
    struct attempt *attempt = job_of(process)->attempt;

    for (unsigned i = 0; i < piece->count; i++) {
        if (is_written(piece, i) &&
            attempt->now.value[piece->array][element_cell(piece, i)][process->rank] ==
                piece->last[i])
            content_done(attempt, process->rank, piece->array, element_cell(piece, i),
                         piece->beaten[i]);
    }
}

static void check_elements(const struct process *process, const struct own_piece *piece)
{
    const uint64_t *data = world_bytes(&piece->data);

    for (unsigned i = 0; i < piece->count; i++)
        SIM_CHECK(process->program->hostile || data[i] == piece->last[i],
                  "an unpublished piece of process %u was changed by somebody else",
                  process->number);
}

static void choose_piece(const struct process *process, struct own_piece *piece)
{
    const struct job *job = job_of(process);
    unsigned length = CELLS / process->program->size, low = process->rank * length,
             high = low + length;

    memset(piece, 0, sizeof(*piece));
    if (one_in(3)) { /* into the others' blocks */
        low = 0;
        high = CELLS;
    }
    piece->array = (unsigned)chance(0, ARRAYS - 1);
    piece->start = (unsigned)chance(low, high - 1);
    piece->count = (unsigned)chance(1, high - piece->start);
    piece->stride = 1;
    piece->form = MKT_PIECE_BOX;
    if (one_in(3) && piece->count >= 3) {
        piece->form = MKT_PIECE_SLAB;
        piece->stride = 2;
        piece->count = (piece->count + 1) / 2;
    } else if (one_in(3)) {
        piece->form = MKT_PIECE_MASKED;
        piece->mask = (uint32_t)chance(1, UINT32_MAX);
    }
    (void)job;
}

static void encode_piece(const struct own_piece *own, uint8_t *record, uint32_t *bytes_out)
{
    struct mkt_piece piece = {.form = own->form, .data = own->data, .table = own->table};

    piece.slab.rank = 1;
    piece.slab.dim[0] = (struct mkt_dim){own->start, own->count, 1, own->count};
    if (own->form == MKT_PIECE_SLAB)
        piece.slab.dim[0] = (struct mkt_dim){own->start, own->stride, own->count, 1};
    mkt_piece_encode(&piece, record);
    *bytes_out = mkt_piece_record_bytes(&piece);
}

static struct mkt_array array_info(unsigned array)
{
    return (struct mkt_array){.identity = array + 1,
                              .element_bytes = CELL_BYTES,
                              .rank = 1,
                              .dims = {CELLS},
                              .token = {(uint8_t)(array + 1)}};
}

/* Sends the last `count` own pieces, all of one array. */
static void add_pieces(struct process *process, unsigned count)
{
    uint8_t records[2 * MKT_PIECE_RECORD_MAX_BYTES];
    struct mkt_msg msg = {.type = MKT_MSG_ADD};
    uint32_t at = 0;

    for (unsigned i = process->pieces - count; i < process->pieces; i++) {
        uint32_t bytes;

        encode_piece(&process->piece[i], records + at, &bytes);
        at += bytes;
    }
    msg.add.file = process->file;
    msg.add.array = array_info(process->piece[process->pieces - 1].array);
    msg.add.count = count;
    msg.add.records = (struct mkt_bytes){records, at};
    msg.add.acknowledge = process->program->size > 1 || one_in(2);
    process->unacknowledged = count;
    if (msg.add.acknowledge)
        request(process, &msg, MKT_MSG_ADDED, 1);
    else
        send_message(process, &msg);
}

static void write_mask(const struct own_piece *piece)
{
    const uint64_t bits = piece->mask;

    memcpy(world_bytes(&piece->table), &bits, sizeof(bits));
}

static void write_new(struct process *process)
{
    struct own_piece piece;
    struct mkt_extent extent;
    uint64_t data_bytes;

    if (process->pieces == MAX_OWN_PIECES)
        return;
    choose_piece(process, &piece);
    data_bytes = rounded(piece.count * CELL_BYTES);
    if (!need_bytes(process, data_bytes + (piece.form == MKT_PIECE_MASKED ? 64 : 0), &extent))
        return;
    piece.data = extent;
    piece.data.length = piece.count * CELL_BYTES;
    if (piece.form == MKT_PIECE_MASKED) {
        piece.table = (struct mkt_extent){
            .arena = extent.arena, .offset = extent.offset + data_bytes, .length = 8};
        write_mask(&piece);
    }
    process->piece[process->pieces++] = piece;
    write_elements(process, &process->piece[process->pieces - 1]);
    add_pieces(process, 1);
}

/* A box beside the last: two pieces in one message. */
static void write_two(struct process *process)
{
    struct mkt_extent extent;

    if (process->pieces + 2 > MAX_OWN_PIECES || !need_bytes(process, 128, &extent))
        return;
    unsigned start = (unsigned)chance(0, CELLS - 4), array = (unsigned)chance(0, ARRAYS - 1);
    for (unsigned i = 0; i < 2; i++) {
        struct own_piece *piece = &process->piece[process->pieces++];

        *piece = (struct own_piece){
            .form = MKT_PIECE_BOX, .array = array, .start = start + i * 2, .count = 2, .stride = 1};
        piece->data = (struct mkt_extent){
            .arena = extent.arena, .offset = extent.offset + i * 64, .length = 2 * CELL_BYTES};
        write_elements(process, piece);
    }
    add_pieces(process, 2);
}

static bool may_rewrite(const struct process *process, unsigned at)
{
    const struct own_piece *piece = &process->piece[at];

    if (piece->again || (process->program->size > 1 && piece->stamp == 0))
        return false;
    for (unsigned i = at + 1; i < process->pieces; i++) {
        const struct own_piece *later = &process->piece[i];

        if (later->array == piece->array && later->start < piece_end(piece) &&
            piece->start < piece_end(later))
            return false;
    }
    return true;
}

static void write_in_place(struct process *process)
{
    struct mkt_msg msg = {.type = MKT_MSG_TOUCH};
    unsigned at;

    if (process->pieces == 0)
        return;
    at = (unsigned)chance(0, process->pieces - 1);
    if (!may_rewrite(process, at))
        return;
    check_elements(process, &process->piece[at]);
    write_elements(process, &process->piece[at]);
    if (process->program->size == 1)
        return;
    process->touched = at;
    msg.touch.file = process->file;
    msg.touch.identity = process->piece[at].array + 1;
    msg.touch.stamp = process->piece[at].stamp;
    request(process, &msg, MKT_MSG_TOUCHED, 1);
}

/* The first piece that was overtaken goes out as a new one. False: there is none. */
static bool write_again(struct process *process)
{
    unsigned at = 0;
    struct mkt_extent extent;

    while (at < process->pieces && !process->piece[at].again)
        at++;
    if (at == process->pieces)
        return false;
    struct own_piece piece = process->piece[at];
    uint64_t data_bytes = rounded(piece.count * CELL_BYTES);
    if (!need_bytes(process, data_bytes + (piece.form == MKT_PIECE_MASKED ? 64 : 0), &extent))
        return true;
    memcpy(world_bytes(&extent), world_bytes(&piece.data), piece.data.length);
    piece.data = (struct mkt_extent){
        .arena = extent.arena, .offset = extent.offset, .length = piece.data.length};
    if (piece.form == MKT_PIECE_MASKED) {
        piece.table = (struct mkt_extent){
            .arena = extent.arena, .offset = extent.offset + data_bytes, .length = 8};
        write_mask(&piece);
    }
    piece.again = false;
    piece.stamp = 0;
    find_beaten(process, &piece);
    memmove(&process->piece[at], &process->piece[at + 1],
            (process->pieces - at - 1) * sizeof(piece));
    process->piece[process->pieces - 1] = piece;
    add_pieces(process, 1);
    return true;
}

static void look_up(struct process *process)
{
    struct mkt_msg msg = {.type = MKT_MSG_LOOKUP};

    process->looked_up = (unsigned)chance(0, ARRAYS - 1);
    msg.lookup.file = process->file;
    msg.lookup.identity = process->looked_up + 1;
    request(process, &msg, MKT_MSG_FOUND, 1);
}

/* ---- the close ---- */

static void send_commit(struct process *process, struct job *job, const struct mkt_extent *image)
{
    uint8_t records[ARRAYS * 512];
    struct mkt_msg msg = {.type = MKT_MSG_COMMIT};
    uint32_t bytes = 0, count = 0;
    bool last = process->round + 1 == job->rounds,
         lazy = job->lazy_rank == 0 && process->rank == 0 && job->attempt->has_base;

    content_commit(job->attempt, process->rank, process->round, job);
    for (unsigned a = 0; a < ARRAYS && process->rank == 0 && !lazy && !job->unchanged; a++) {
        struct mkt_array info = array_info(a);

        if (!job->attempt->round[process->round].listed[a])
            continue;
        mkt_array_record_encode(&info, records + bytes);
        bytes += (uint32_t)mkt_array_record_bytes(&info);
        count++;
        if (one_in(4) && bytes > 0) { /* in two parts */
            struct mkt_msg part = {.type = MKT_MSG_COMMIT};

            part.commit.file = process->file;
            part.commit.more = true;
            part.commit.count = count;
            part.commit.arrays = (struct mkt_bytes){records, bytes};
            send_message(process, &part);
            bytes = count = 0;
        }
    }
    msg.commit.file = process->file;
    msg.commit.hash = 1 + (job->disagrees && process->rank == 1);
    msg.commit.unchanged = job->unchanged || lazy;
    msg.commit.keep_open = !last;
    if (image)
        msg.commit.image = *image;
    msg.commit.count = count;
    msg.commit.arrays = (struct mkt_bytes){records, bytes};
    if (process->out_of_memory)
        msg.commit.failure = (struct mkt_bytes){"no memory", 9};
    else if (job->failing_rank == (int)process->rank && last)
        msg.commit.failure = (struct mkt_bytes){"it failed", 9};
    if (msg.commit.failure.length > 0 || (job->disagrees && process->program->size > 1))
        job->attempt->failed = true;
    process->pieces = process->unacknowledged = 0;
    process->phase = PHASE_COMMITTING;
    request(process, &msg, MKT_MSG_COMMITTED, 0);
}

static void commit_file(struct process *process)
{
    struct job *job = job_of(process);
    struct mkt_extent image;
    bool lazy = job->lazy_rank == 0 && job->attempt->has_base;

    if (process->rank != 0 || job->unchanged || lazy || process->out_of_memory) {
        send_commit(process, job, NULL);
    } else if (need_bytes(process, IMAGE_BYTES, &image)) {
        content_write_image(world_bytes(&image), job->attempt, process->round);
        send_commit(process, job, &image);
    }
}

/* Asks for parts of a piece that isn't in memory, if there is one. */
static bool fetch_some(struct process *process)
{
    struct mkt_msg msg = {.type = MKT_MSG_FETCH};
    uint64_t at = 0, end;

    if (!content_cold(&process->opened, &msg.fetch.identity, &process->fetched))
        return false;
    end = process->fetched.data.length;
    process->spans = 0;
    while (process->spans < 3 && at < end) {
        struct mkt_span *span = &process->span[process->spans++];

        span->offset = one_in(3) ? at : chance(at, end - 1);
        span->length = one_in(3) ? end - span->offset : chance(1, end - span->offset);
        at = span->offset + span->length + chance(0, 2);
    }
    process->fetched_of = msg.fetch.identity;
    msg.fetch.file = process->file;
    msg.fetch.stamp = process->fetched.stamp;
    msg.fetch.count = process->spans;
    msg.fetch.spans = process->span;
    request(process, &msg, MKT_MSG_FETCHED, 0);
    return true;
}

static void receive_fetched(struct process *process, const struct mkt_msg_fetched *fetched)
{
    struct mkt_extent place;
    const uint8_t *got = world_bytes(&fetched->extent), *wanted;

    SIM_CHECK(mkt_market_find_piece(world.market, process->opened.object, process->opened.version,
                                    process->fetched_of, process->fetched.stamp, &place),
              "a version has no piece that was fetched of it");
    wanted = world_piece(&place);

    world.fetches++;
    for (unsigned i = 0; i < process->spans; i++) {
        const struct mkt_span *span = &process->span[i];

        SIM_CHECK(span->offset >= fetched->from &&
                      span->offset + span->length <= fetched->from + fetched->extent.length,
                  "what was fetched isn't what was asked for");
        SIM_CHECK(
            memcmp(wanted + span->offset, got + (span->offset - fetched->from), span->length) == 0,
            "a piece that was fetched has other bytes");
    }
    if (fetched->owned && process->free_count < MAX_EXTENTS) {
        struct mkt_extent whole = fetched->extent;

        whole.length = rounded(whole.length);
        give_bytes(process, &whole);
    } else if (fetched->owned) {
        release(process, &fetched->extent);
    }
}

static void act_on_open_file(struct process *process)
{
    struct job *job = job_of(process);

    if (!is_writer(process)) {
        content_check(&process->opened);
        if (one_in(2) && fetch_some(process))
            return;
        if (process->checks++ >= job->operations)
            close_file(process);
        return;
    }
    if (write_again(process) && !process->out_of_memory)
        return;
    if (process->waits_for != 0)
        return;
    if (job->closes && process->operations >= job->operations / 2) {
        job->attempt->failed = true;
        close_file(process);
        return;
    }
    if (process->out_of_memory || job->unchanged || (job->lazy_rank == 0 && process->rank == 0) ||
        process->operations++ >= job->operations * (process->round + 1)) {
        commit_file(process);
        return;
    }
    switch (chance(0, 7)) {
    case 0:
    case 1:
        write_in_place(process);
        break;
    case 2:
        look_up(process);
        break;
    case 3:
        write_two(process);
        break;
    case 4:
        release_some(process);
        break;
    default:
        write_new(process);
        break;
    }
}

/* ---- other jobs ---- */

static void act_hog(struct process *process)
{
    struct job *job = job_of(process);

    if (process->checks == 0) {
        ask_bytes(process, chance(1, world.limits.memory_bytes));
        process->checks = 1;
    } else if (process->checks++ > job->operations) {
        while (process->free_count > 0)
            release_some(process);
        process->checks = 0;
        next_job(process);
    }
}

static void act_withdraw(struct process *process)
{
    struct job *job = job_of(process);
    struct mkt_msg msg = {.type = MKT_MSG_WITHDRAW};

    look_at_path(process, job);
    msg.withdraw.name = job->name;
    world_disturb(job->path);
    request(process, &msg, MKT_MSG_WITHDRAWN, 1);
}

static void act_end(struct process *process)
{
    static const char pattern[] = "file*";
    struct job *job = job_of(process);
    struct mkt_msg msg = {.type = MKT_MSG_END};

    look_at_path(process, job);
    msg.end.name = job->name;
    if (job->by_pattern)
        msg.end.pattern = (struct mkt_bytes){pattern, sizeof(pattern) - 1};
    request(process, &msg, MKT_MSG_ENDED, 1);
}

/* Somebody removes the stub, or changes the real file, without asking the market. */
static void act_remove(struct process *process)
{
    struct path *path = &world.path[job_of(process)->path];

    if (path->has_stub && world.removals < 16) {
        world.removed_path[world.removals] = (uint8_t)job_of(process)->path;
        memcpy(world.removed[world.removals++], path->stub, MKT_ID_BYTES);
        path->has_stub = false;
        if (one_in(3)) { /* by a file that takes its place */
            path->has_file = true;
            path->ino = ++world.last_ino;
            path->mtime = ++world.last_value;
        }
    } else if (path->has_file) {
        path->mtime = ++world.last_value;
        path->ino += one_in(2) ? 0 : ++world.last_ino - path->ino;
    }
    archive_meddled(path);
    world_disturb(job_of(process)->path);
    next_job(process);
}

static void act_at_start(struct process *process)
{
    process->checks = process->phase == PHASE_START ? process->checks : 0;
    if (process->job >= process->program->jobs) {
        while (process->free_count > 0 && one_in(2))
            release_some(process);
        process->phase = PHASE_FINISHED;
        process->alive = process->connected = false;
        return;
    }
    switch (job_of(process)->kind) {
    case JOB_HOG:
        act_hog(process);
        break;
    case JOB_WITHDRAW:
        act_withdraw(process);
        break;
    case JOB_REMOVE:
        act_remove(process);
        break;
    case JOB_END:
        act_end(process);
        break;
    default:
        open_file(process);
        break;
    }
}

/* Without a connection, but alive: it still uses what it has. */
static void act_cut_off(struct process *process)
{
    for (unsigned i = 0; i < process->free_count; i++)
        check_filled(process, &process->free[i]);
    if (process->phase != PHASE_OPEN || process->file == 0)
        return;
    if (!is_writer(process)) {
        content_check(&process->opened);
        return;
    }
    /* Whose ADD was not answered has failed, as far as it knows. */
    unsigned sure = process->pieces;
    if (process->waits_for == MKT_MSG_ADDED)
        sure -= process->unacknowledged;
    for (unsigned i = 0; i < sure; i++) {
        check_elements(process, &process->piece[i]);
        write_elements(process, &process->piece[i]);
    }
}

bool process_can_act(const struct process *process)
{
    return process->exists && process->alive && process->phase != PHASE_FINISHED &&
           (process->waits_for == 0 || !process->connected);
}

void process_act(struct process *process)
{
    if (process->program->is_archiver) {
        archiver_act(process);
    } else if (!process->connected) {
        if (!process->program->hostile && process->job < process->program->jobs)
            act_cut_off(process);
    } else if (process->phase == PHASE_OPEN) {
        act_on_open_file(process);
    } else {
        act_at_start(process);
    }
}

bool process_is_done(const struct process *process)
{
    return process->reclaimed;
}

void process_kill(struct process *process)
{
    sim_trace("process %u is killed", process->number);
    process->alive = process->connected = false;
    world.kills++;
}

void process_cut(struct process *process)
{
    sim_trace("process %u loses its connection", process->number);
    process->connected = false;
    world.kills++;
}

/* ---- answers ---- */

/* What a process may expect that keeps to the rules itself. */
#define EXPECT(condition, ...) SIM_CHECK(process->program->hostile || (condition), __VA_ARGS__)

static void check_open_error(const struct process *process, const struct mkt_msg_error *error)
{
    const struct job *job = job_of(process);

    if (process->program->hostile)
        return;
    switch (error->status) {
    case MKT_NOT_FOUND:
    case MKT_TIMED_OUT:
        /* Its memory was needed, and the file is there. */
        if (world.path[job->path].has_file && world.path[job->path].content > 0)
            break;
        EXPECT(job->kind != JOB_READ || process->rank != 0 || process->known_version == 0 ||
                   job->version != 0 || job->after_now ||
                   job->stream.deliver > MKT_DELIVER_LATEST || error->status == MKT_TIMED_OUT,
               "'%s' has version %d, but a reader was told: %.*s", world.path[job->path].name,
               (int)process->known_version, (int)error->text.length,
               (const char *)error->text.data);
        break;
    case MKT_END:
        stream_check_end(process);
        world.stream_ends++;
        break;
    case MKT_STALE:
        EXPECT(job->kind == JOB_WRITE && job->stream.queue > 0, "an open is to be asked again");
        world.stream_waits++;
        break;
    case MKT_BUSY:
    case MKT_EXISTS:
    case MKT_CANCELLED:
    case MKT_PEER_DOWN:
    case MKT_NO_SPACE:
        break;
    case MKT_NO_MEMORY:
        EXPECT(world.short_of_memory, "out of memory for no reason");
        break;
    default:
        sim_fail("an open failed with %s: %.*s", mkt_status_name(error->status),
                 (int)error->text.length, (const char *)error->text.data);
    }
}

static bool says(const struct mkt_msg_error *error, const char *what)
{
    char text[MKT_ERROR_TEXT_BYTES];

    snprintf(text, sizeof(text), "%.*s", (int)error->text.length, (const char *)error->text.data);
    return strstr(text, what) != NULL;
}

static void receive_error(struct process *process, const struct mkt_msg_error *error)
{
    struct job *job = job_of(process);

    world.errors++;
    EXPECT(error->text.length > 0 || error->status == MKT_STALE, "an error without a text");
    switch (process->waits_for) {
    case MKT_MSG_OPENED:
        check_open_error(process, error);
        if (error->status == MKT_STALE) { /* it asks again */
            process->phase = PHASE_START;
            break;
        }
        EXPECT(!job->answered || job->answer_failed, "one rank could open, another could not: %.*s",
               (int)error->text.length, (const char *)error->text.data);
        job->answered = job->answer_failed = true;
        next_job(process);
        break;
    case MKT_MSG_GRANTED:
        EXPECT(error->status == MKT_NO_SPACE || error->status == MKT_CANCELLED ||
                   error->status == MKT_NO_MEMORY,
               "a grant failed with %s", mkt_status_name(error->status));
        process->out_of_memory = true;
        if (process->phase == PHASE_START) /* HOG */
            next_job(process);
        break;
    case MKT_MSG_ADDED:
        process->pieces -= process->unacknowledged;
        process->unacknowledged = 0;
        /* fall through */
    case MKT_MSG_TOUCHED:
        job->attempt->failed = true;
        process->out_of_memory = true; /* gives up */
        break;
    case MKT_MSG_COMMITTED:
        if (job->durability == MKT_DURABILITY_CLOSE && says(error, "published in memory"))
            SIM_CHECK(job->mode == MKT_MODE_BOTH, "nobody asked for that to be saved");
        else
            job->attempt->failed = true;
        EXPECT(!job->attempt->failed || error->status == MKT_POISONED ||
                   error->status == MKT_CANCELLED,
               "a close failed with %s", mkt_status_name(error->status));
        next_job(process);
        break;
    case MKT_MSG_WITHDRAWN:
    case MKT_MSG_ENDED:
        next_job(process);
        break;
    case MKT_MSG_FETCHED:
        EXPECT(error->status == MKT_NO_SPACE || error->status == MKT_CANCELLED ||
                   error->status == MKT_IO_ERROR ||
                   (error->status == MKT_NO_MEMORY && world.short_of_memory),
               "a read from the tier failed with %s", mkt_status_name(error->status));
        break;
    default:
        break;
    }
}

static void take_scratch(struct process *process, const struct mkt_extent *scratch)
{
    if (scratch->length == 0)
        return;
    EXPECT(scratch->length >= world.limits.scratch_bytes, "a scratch grant of %d bytes",
           (int)scratch->length);
    if (process->free_count < MAX_EXTENTS)
        give_bytes(process, scratch);
    else
        release(process, scratch);
}

static void receive_opened(struct process *process, const struct mkt_msg_opened *opened)
{
    struct job *job = job_of(process);
    struct mkt_msg_opened same = *opened;

    take_scratch(process, &opened->scratch);
    memset(&same.scratch, 0, sizeof(same.scratch));
    memset(&same.notice, 0, sizeof(same.notice)); /* rank 0's alone */
    EXPECT(!job->answered ||
               (!job->answer_failed && memcmp(&same, &job->answer, sizeof(same)) == 0),
           "two ranks got different answers");
    job->answered = true;
    job->answer = same;
    if (opened->file == 0) {
        next_job(process);
        return;
    }
    process->opened = *opened;
    process->file = opened->file;
    process->phase = PHASE_OPEN;
    if (job->kind == JOB_READ) {
        EXPECT(opened->source == MKT_SOURCE_VERSION, "a reader got no version");
        EXPECT(job->version == 0 || job->version == opened->version,
               "a reader got version %d, not %d", (int)opened->version, (int)job->version);
        if (process->rank == 0 && job->version == 0 && job->stream.deliver <= MKT_DELIVER_LATEST &&
            memcmp(opened->object, world.path[job->path].object, MKT_ID_BYTES) == 0)
            EXPECT(opened->version >= process->known_version,
                   "a reader got version %d, but %d was published before it asked",
                   (int)opened->version, (int)process->known_version);
        content_check(opened);
    } else if (opened->source == MKT_SOURCE_VERSION) {
        content_based_on(job->attempt, opened);
        content_check(opened);
    }
}

static void receive_granted(struct process *process, const struct mkt_extent *extent)
{
    struct mkt_extent whole = *extent;

    whole.length = rounded(whole.length);
    if (process->free_count < MAX_EXTENTS)
        give_bytes(process, &whole);
    else
        release(process, extent);
}

static void receive_committed(struct process *process, uint64_t version)
{
    struct job *job = job_of(process);
    struct path *path = &world.path[job->path];

    if (version > 0 && process->published == version && !world.keeps_sets && !world.has_hostile &&
        !job->unchanged) {
        bool same = memcmp(path->object, process->opened.object, MKT_ID_BYTES) == 0;

        if (path->has_stub ? memcmp(path->stub, process->opened.object, MKT_ID_BYTES) == 0
                           : !path->uses_stub) {
            path->committed = same && path->committed > version ? path->committed : version;
            memcpy(path->object, process->opened.object, MKT_ID_BYTES);
        }
    }
    if (++process->round == job->rounds)
        next_job(process);
    else
        process->phase = PHASE_OPEN;
}

static void receive_added(struct process *process, uint64_t first_stamp)
{
    for (unsigned i = 0; i < process->unacknowledged; i++) {
        struct own_piece *piece = &process->piece[process->pieces - process->unacknowledged + i];

        piece->stamp = first_stamp + i;
        note_done(process, piece);
    }
}

void process_receive(struct process *process)
{
    struct frame *frame = queue_take(&process->to_client);
    struct mkt_msg msg;
    enum mkt_msg_type waited_for = process->waits_for;

    SIM_CHECK(mkt_msg_decode((const struct mkt_frame_wire *)frame->data,
                             frame->data + sizeof(struct mkt_frame_wire), &msg) == MKT_OK,
              "an answer can't be decoded");
    if (!process->alive || !process->connected || msg.request != process->request ||
        waited_for == 0 || (msg.type != waited_for && msg.type != MKT_MSG_ERROR)) {
        SIM_CHECK(process->program->hostile || !process->connected || !process->alive,
                  "process %u got type %d, not %d", process->number, msg.type, waited_for);
        free(frame);
        return;
    }
    if (msg.type == MKT_MSG_ERROR)
        sim_trace("market -> process %u: %s: %.*s", process->number,
                  mkt_status_name(msg.error.status), (int)msg.error.text.length,
                  (const char *)msg.error.text.data);
    else
        sim_trace("market -> process %u: type %d", process->number, msg.type);
    if (process->program->hostile && msg.type == MKT_MSG_OPENED &&
        (msg.opened.source == MKT_SOURCE_VERSION || job_of(process)->kind != JOB_WRITE))
        msg.opened.file = 0; /* it does not care */
    if (process->program->is_archiver) {
        process->waits_for = 0;
        archiver_receive(process, &msg);
        free(frame);
        return;
    }
    switch (msg.type) {
    case MKT_MSG_ERROR:
        receive_error(process, &msg.error);
        break;
    case MKT_MSG_OPENED:
        receive_opened(process, &msg.opened);
        break;
    case MKT_MSG_GRANTED:
        receive_granted(process, &msg.extent.extent);
        break;
    case MKT_MSG_ADDED:
        receive_added(process, msg.added.first_stamp);
        break;
    case MKT_MSG_TOUCHED:
        process->piece[process->touched].again = msg.touched.superseded;
        if (!msg.touched.superseded)
            note_done(process, &process->piece[process->touched]);
        break;
    case MKT_MSG_FOUND:
        content_check_lookup(&msg.extent.extent, job_of(process)->attempt, process->rank,
                             process->looked_up);
        release(process, &msg.extent.extent);
        break;
    case MKT_MSG_COMMITTED:
        receive_committed(process, msg.version.version);
        break;
    case MKT_MSG_FETCHED:
        receive_fetched(process, &msg.fetched);
        break;
    default:
        next_job(process);
        break;
    }
    process->waits_for = 0;
    free(frame);
}
