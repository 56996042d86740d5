/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/vigil.h"

#include <sched.h>

#define AWAY_NS 40000u /* between two polls: another thread had our processor */

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

static void on_idle(uv_idle_t *idle)
{
    struct mkt_vigil *vigil = idle->data;
    uint64_t now_ns = uv_hrtime();
    bool away = now_ns - vigil->polled_ns >= AWAY_NS;

    vigil->polled_ns = now_ns;
    sched_yield(); /* the client may want this very processor */
    if (now_ns - vigil->since_ns < MKT_VIGIL_NS && !away)
        return;
    uv_idle_stop(idle);
    mkt_spin_end(&vigil->spin, false);
}

void mkt_vigil_note_message(struct mkt_vigil *vigil)
{
    uint64_t now_ns = uv_hrtime();
    bool soon = now_ns - vigil->since_ns < MKT_VIGIL_NS;

    vigil->since_ns = vigil->polled_ns = now_ns;
    if (uv_is_active((uv_handle_t *)&vigil->idle))
        mkt_spin_end(&vigil->spin, true);
    else if (soon && mkt_spin_begin(&vigil->spin))
        uv_idle_start(&vigil->idle, on_idle);
}
