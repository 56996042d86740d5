/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/vigil.h"
#include "core/base/processor.h"

#include <sched.h>

#define AWAY_NS       40000u   /* between two polls: another thread had our processor */
#define LOOKS         256      /* into the mailboxes, some microseconds, for one at the sockets */
#define FROM_HERE_MAX 4        /* messages from our own processor before we leave it */
#define MOVE_NS       5000000u /* from one move to the next */

void mkt_vigil_init(struct mkt_vigil *vigil, uv_loop_t *loop)
{
    *vigil = (struct mkt_vigil){.since_ns = 0};
    uv_idle_init(loop, &vigil->idle);
    vigil->idle.data = vigil;
}

void mkt_vigil_close(struct mkt_vigil *vigil)
{
    uv_close((uv_handle_t *)&vigil->idle, NULL);
}

/* ---- mailboxes ---- */

static struct mkt_vigil_box *find(struct mkt_vigil *vigil, const struct mkt_connection *connection)
{
    for (unsigned i = 0; i < vigil->boxes_count; i++)
        if (vigil->boxes[i].connection == connection)
            return &vigil->boxes[i];
    return NULL;
}

static void attend(struct mkt_vigil *vigil, struct mkt_connection *connection, uint64_t now_ns)
{
    struct mkt_vigil_box *box = find(vigil, connection);

    if (!box && vigil->boxes_count < MKT_VIGIL_BOXES && mkt_connection_look(connection, true)) {
        box = &vigil->boxes[vigil->boxes_count++];
        box->connection = connection;
    }
    if (box)
        box->since_ns = now_ns;
}

void mkt_vigil_forget(struct mkt_vigil *vigil, struct mkt_connection *connection)
{
    struct mkt_vigil_box *box = find(vigil, connection);

    if (box)
        *box = vigil->boxes[--vigil->boxes_count];
}

/* Stops looking where nothing came since then; what came just now counts. */
static void let_go(struct mkt_vigil *vigil, uint64_t before_ns)
{
    for (unsigned i = vigil->boxes_count; i-- > 0;) {
        struct mkt_connection *connection = vigil->boxes[i].connection;
        if (vigil->boxes[i].since_ns >= before_ns)
            continue;
        mkt_vigil_forget(vigil, connection);
        mkt_connection_look(connection, false);
        mkt_connection_take_mail(connection);
    }
}

/* True: something came. */
static bool look(struct mkt_vigil *vigil)
{
    bool found = false;

    for (unsigned round = 0; round < LOOKS && vigil->boxes_count > 0 && !found; round++) {
        for (unsigned i = 0; i < vigil->boxes_count; i++)
            found = mkt_connection_take_mail(vigil->boxes[i].connection) || found;
        mkt_mail_pause();
    }
    return found;
}

/* ---- the loop ---- */

static void on_idle(uv_idle_t *idle)
{
    struct mkt_vigil *vigil = idle->data;
    uint64_t now_ns = uv_hrtime();
    bool away = now_ns - vigil->polled_ns >= AWAY_NS;

    vigil->polled_ns = now_ns;
    if (look(vigil))
        return;
    sched_yield(); /* the client may want this very processor */
    if (now_ns - vigil->since_ns < MKT_VIGIL_NS && !away) {
        let_go(vigil, now_ns - MKT_VIGIL_NS);
        return;
    }
    uv_idle_stop(idle);
    mkt_spin_end(&vigil->spin, false);
    let_go(vigil, UINT64_MAX);
}

/* ---- processors ---- */

static void note_processor(struct mkt_vigil *vigil, const struct mkt_connection *connection,
                           uint64_t now_ns)
{
    vigil->from_here = mkt_connection_is_from_here(connection) ? vigil->from_here + 1 : 0;
    if (vigil->from_here < FROM_HERE_MAX || now_ns - vigil->moved_ns < MOVE_NS)
        return;
    vigil->from_here = 0;
    vigil->moved_ns = now_ns;
    mkt_processor_leave();
}

void mkt_vigil_note_message(struct mkt_vigil *vigil, struct mkt_connection *connection)
{
    uint64_t now_ns = uv_hrtime();
    bool soon = now_ns - vigil->since_ns < MKT_VIGIL_NS;
    bool active = uv_is_active((uv_handle_t *)&vigil->idle);

    vigil->since_ns = vigil->polled_ns = now_ns;
    if (active)
        mkt_spin_end(&vigil->spin, true);
    else if (soon && mkt_spin_begin(&vigil->spin)) {
        active = true;
        uv_idle_start(&vigil->idle, on_idle);
    }
    if (active)
        attend(vigil, connection, now_ns);
    note_processor(vigil, connection, now_ns);
}
