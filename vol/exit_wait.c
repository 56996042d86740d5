/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/exit_wait.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/progress.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS  1000u
#define STALL_MS 3600000u /* no file is completed for so long */
#define MIB      (1024.0 * 1024.0)

static struct {
    bool any;            /* something was published that is to be waited for */
    uint32_t failing_ms; /* the most that a rule bears */
} noted;

void mkt_vol_exit_wait_note(const struct mkt_rule *rule)
{
    if (rule->mode != MKT_MODE_BOTH || rule->exit_wait_ms == MKT_EXIT_WAIT_NEVER)
        return;
    noted.any = true;
    if (noted.failing_ms < rule->exit_wait_ms)
        noted.failing_ms = rule->exit_wait_ms;
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0];
}

/* H5MARKET_EXIT_WAIT=1 waits anywhere, =0 nowhere. */
static bool is_wanted(const struct mkt_client *client)
{
    const char *forced = getenv("H5MARKET_EXIT_WAIT");
    if (forced && forced[0])
        return strcmp(forced, "0") != 0;
    return mkt_client_is_on_demand(client) && (is_set("SLURM_JOB_ID") || is_set("PBS_JOBID") ||
                                               is_set("LSB_JOBID") || is_set("FLUX_JOB_ID"));
}

struct waiting {
    struct mkt_progress progress;
    uint64_t moved_ms, worked_ms; /* worked: something wasn't failing */
};

static void show(struct waiting *waiting, const struct mkt_save_state *state, uint64_t now)
{
    if (!mkt_progress_is_due(&waiting->progress, now, false))
        return;
    mkt_log_warning("vol",
                    "the exit waits for %" PRIu64 " file(s) to be on disk: %.1f MiB left, %.1f "
                    "MiB/s%s%s",
                    state->files, (double)state->bytes / MIB,
                    (double)mkt_progress_rate(&waiting->progress, now) / MIB,
                    state->failing ? "; some fail: " : "", state->failing ? state->text : "");
}

/* True if it is no use to wait any longer, and said so. */
static bool gives_up(const struct waiting *waiting, const struct mkt_save_state *state,
                     uint64_t now)
{
    if (now - waiting->worked_ms >= noted.failing_ms)
        mkt_log_error("vol",
                      "%" PRIu64 " file(s) of this program are NOT on disk, and end with the "
                      "market's daemon: %s",
                      state->files, state->text);
    else if (now - waiting->moved_ms >= STALL_MS)
        mkt_log_error("vol",
                      "%" PRIu64 " file(s) of this program are NOT on disk: none was completed "
                      "within %u s; the exit doesn't wait any longer",
                      state->files, STALL_MS / 1000);
    else
        return false;
    return true;
}

static void note_progress(struct waiting *waiting, const struct mkt_save_state *state, uint64_t now)
{
    if (mkt_progress_note(&waiting->progress, state->bytes))
        waiting->moved_ms = waiting->worked_ms = now;
    if (state->failing < state->files)
        waiting->worked_ms = now;
}

void mkt_vol_exit_wait(struct mkt_client *client)
{
    struct waiting waiting = {.progress.began_ms = mkt_now_ms()};
    struct mkt_save_state state = {.files = 0};
    struct mkt_error error = {.status = MKT_OK};
    uint32_t wait_ms = 0;

    if (!noted.any || !is_wanted(client))
        return;
    noted.any = false;
    for (;;) {
        if (mkt_client_save_wait_own(client, wait_ms, &state, &error) != MKT_OK) {
            mkt_log_error("vol", "whether the files of this program are on disk isn't known: %s",
                          error.text);
            return;
        }
        uint64_t now = mkt_now_ms();
        note_progress(&waiting, &state, now);
        if (state.files == 0 || gives_up(&waiting, &state, now))
            return;
        show(&waiting, &state, now);
        wait_ms = LOOK_MS;
    }
}
