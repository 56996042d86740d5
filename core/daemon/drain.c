/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/drain.h"
#include "core/base/clock.h"

#include "core/daemon/archiver.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SAME_MS   1000u /* a batch system's signal comes to the keeper and to the worker */
#define TRIES     3u    /* of what fails */
#define NAMED_MAX 50u

/* ---- what would be lost ---- */

static bool is_unsaved(const struct mkt_object_info *info)
{
    return info->saving.state == MKT_SAVING_UNSAVED || info->saving.state == MKT_SAVING_RUNNING ||
           info->saving.state == MKT_SAVING_FAILING;
}

/* Versions that end with the daemon, though nobody is going to save them. An older version of a
 * path in mode `both` isn't owed. */
static uint32_t memory_only(const struct mkt_object_info *info)
{
    bool is_saved = info->saving.state == MKT_SAVING_SAVED;

    if (info->newest_version > 0 && (is_saved || is_unsaved(info)))
        return info->keeps_some ? 1 : info->mode == MKT_MODE_MEMORY ? info->versions - 1 : 0;
    return info->versions;
}

static void count(void *context, const struct mkt_object_info *info)
{
    struct mkt_loss *loss = context;
    uint32_t versions = memory_only(info);
    bool unsaved = info->newest_version > 0 && is_unsaved(info);

    if (versions == 0 && !unsaved && !info->has_writer)
        return;
    if (versions > 0 ? loss->files == 0
                     : loss->files == 0 && (unsaved ? loss->unsaved == 0 : !mkt_loss_any(loss)))
        snprintf(loss->path, sizeof(loss->path), "%s", info->path);
    loss->versions += versions;
    loss->files += versions > 0;
    loss->unsaved += unsaved;
    loss->partly |= info->keeps_some;
    loss->writers += info->has_writer;
    loss->bytes += info->bytes;
}

void mkt_loss_count(const struct mkt_daemon *daemon, struct mkt_loss *loss_out)
{
    *loss_out = (struct mkt_loss){.versions = 0};
    mkt_market_each_object(daemon->market, count, loss_out);
}

bool mkt_loss_any(const struct mkt_loss *loss)
{
    return loss->versions > 0 || loss->unsaved > 0 || loss->writers > 0;
}

const char *mkt_loss_text(const struct mkt_loss *loss, char *text, size_t capacity)
{
    char writers[64] = "";

    if (loss->writers > 0)
        snprintf(writers, sizeof(writers), ", and %u file(s) are being written", loss->writers);
    if (loss->versions > 0)
        snprintf(text, capacity,
                 "%" PRIu64 " version(s) of %u file(s)%s exist only in memory (the first is %s)%s: "
                 "save what you need (h5market save), or discard it (h5market stop --discard)",
                 loss->versions, loss->files, loss->partly ? ", or datasets of them," : "",
                 loss->path, writers);
    else if (loss->unsaved > 0)
        snprintf(text, capacity, "%u file(s) are not on disk yet (the first is %s)%s",
                 loss->unsaved, loss->path, writers);
    else
        snprintf(text, capacity,
                 "%u file(s) are being written (the first is %s): wait for their programs, or "
                 "discard what they wrote (h5market stop --discard)",
                 loss->writers, loss->path);
    return text;
}

static void name_lost(void *context, const struct mkt_object_info *info)
{
    unsigned *named = context;
    const char *failure = info->saving.failure ? info->saving.failure : "";

    if ((memory_only(info) == 0 && !is_unsaved(info) && !info->has_writer) ||
        (*named)++ >= NAMED_MAX)
        return;
    mkt_log_warning("daemon", "lost: %s (%s%s%s%s)", info->path,
                    is_unsaved(info)     ? "not saved"
                    : info->keeps_some   ? "its datasets of mode memory"
                    : info->versions > 0 ? "in memory only"
                                         : "not published",
                    info->has_writer && info->versions > 0 ? ", being written" : "",
                    failure[0] ? ": " : "", failure);
}

void mkt_loss_log(const struct mkt_daemon *daemon)
{
    struct mkt_loss loss;
    unsigned named = 0;
    char size[32];

    mkt_loss_count(daemon, &loss);
    if (!mkt_loss_any(&loss))
        return;
    mkt_log_warning("daemon",
                    "dropped: %" PRIu64 " version(s) of %u file(s) (%s), and %u being "
                    "written",
                    loss.versions + loss.unsaved, loss.files + loss.unsaved,
                    mkt_config_show_size(loss.bytes, size, sizeof(size)), loss.writers);
    mkt_market_each_object(daemon->market, name_lost, &named);
    if (named > NAMED_MAX)
        mkt_log_warning("daemon", "lost: %u more", named - NAMED_MAX);
}

/* ---- the drain ---- */

static void note_in_journal(struct mkt_daemon *daemon)
{
    if (!daemon->keeper)
        return;
    daemon->keeper->journal.state->last_session = daemon->last_session;
    daemon->keeper->journal.state->is_draining = 1;
}

static void begin(struct mkt_daemon *daemon, const char *reason)
{
    const struct mkt_msg message = {.type = MKT_MSG_DRAIN, .request = 1};
    uint64_t now_ms = mkt_now_ms(), session = ++daemon->last_session;
    struct mkt_market_usage usage;
    char size[32];

    note_in_journal(daemon);
    daemon->drain.on = true;
    daemon->drain.reason = reason;
    if (mkt_market_session_begin(daemon->market, session, "h5marketd", (uint32_t)getpid(),
                                 MKT_NO_NODE) == MKT_OK)
        mkt_market_message(daemon->market, session, &message, now_ms);
    mkt_market_usage(daemon->market, &usage);
    daemon->drain.progress = (struct mkt_progress){.began_ms = now_ms, .line_ms = now_ms};
    daemon->drain.moved_ms = now_ms;
    (void)mkt_progress_note(&daemon->drain.progress, usage.unsaved_bytes);
    if (usage.unsaved_versions > 0)
        mkt_log_info("daemon",
                     "%s: %" PRIu64 " file(s), %s, are saved before the end; nothing new is opened "
                     "for writing, and a second signal ends it at once",
                     reason, usage.unsaved_versions,
                     mkt_config_show_size(usage.unsaved_bytes, size, sizeof(size)));
}

void mkt_drain_signal(struct mkt_daemon *daemon, const char *name)
{
    uint64_t now_ms = mkt_now_ms();

    if (!daemon->drain.on) {
        begin(daemon, name);
        mkt_shell_settle(daemon);
    } else if (now_ms - daemon->drain.progress.began_ms >= SAME_MS) {
        mkt_daemon_stop(daemon, "a second signal");
    }
}

void mkt_drain_resume(struct mkt_daemon *daemon)
{
    if (daemon->keeper && daemon->keeper->journal.state->is_draining)
        begin(daemon, "a signal to the worker before this one");
}

void mkt_drain_settle(struct mkt_daemon *daemon, const struct mkt_market_usage *usage)
{
    if (!daemon->drain.on || daemon->stopping)
        return;
    if (usage->unsaved_versions == 0)
        mkt_daemon_stop(daemon, daemon->drain.reason);
    else if (!mkt_archivers_installed(daemon->archivers))
        mkt_daemon_stop(daemon, "a signal; h5market-archiver isn't installed to save what is left");
}

static void look_for_hope(void *context, const struct mkt_object_info *info)
{
    bool *any = context;

    *any = *any || (is_unsaved(info) && info->saving.tries < TRIES);
}

static void log_progress(struct mkt_daemon *daemon, const struct mkt_market_usage *usage,
                         uint64_t now_ms)
{
    uint64_t left = usage->unsaved_bytes, rate = mkt_progress_rate(&daemon->drain.progress, now_ms);
    char left_text[32], rate_text[32];

    mkt_log_info("daemon", "before the end %" PRIu64 " file(s) are to be saved: %s left, %s/s",
                 usage->unsaved_versions, mkt_config_show_size(left, left_text, sizeof(left_text)),
                 mkt_config_show_size(rate, rate_text, sizeof(rate_text)));
}

void mkt_drain_tick(struct mkt_daemon *daemon, uint64_t now_ms)
{
    struct mkt_market_usage usage;
    bool hope = false;

    if (!daemon->drain.on || daemon->stopping)
        return;
    mkt_market_usage(daemon->market, &usage);
    if (mkt_progress_note(&daemon->drain.progress, usage.unsaved_bytes))
        daemon->drain.moved_ms = now_ms;
    mkt_market_each_object(daemon->market, look_for_hope, &hope);
    if (!hope && usage.unsaved_versions > 0)
        mkt_daemon_stop(daemon, "a signal; what is left can't be saved");
    else if (now_ms - daemon->drain.moved_ms >= daemon->config.drain_timeout_ms)
        mkt_daemon_stop(daemon, "a signal; no file was saved within `drain_timeout`");
    else if (mkt_progress_is_due(&daemon->drain.progress, now_ms, false))
        log_progress(daemon, &usage, now_ms);
}
