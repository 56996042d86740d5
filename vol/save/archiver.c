/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * h5market-archiver: asks the market for versions that are to become files, one after the other,
 * and writes them. The daemon starts it, with the market's folder and the level of its log, which
 * is standard error here, and starts it again if it dies: what it had begun is then begun anew. It
 * ends when nothing comes for a while.
 */
#include "vol/save/save.h"

#include "core/base/fault.h"
#include "core/base/log.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define IDLE_MS 10000u
#define NICE    10

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted = number;
}

bool mkt_save_is_interrupted(void)
{
    return interrupted != 0;
}

static enum mkt_status write_version(struct mkt_client *client, const struct mkt_save_order *order,
                                     struct mkt_save_deposit *deposit, struct mkt_error *error)
{
    struct mkt_save_progress progress = {
        .name = "h5market-archiver", .yields_to = client, .leaves_memory_only = true};
    const struct mkt_opened version = {.image = order->image,
                                       .image_bytes = order->image_bytes,
                                       .index = order->index,
                                       .index_bytes = order->index_bytes};
    struct mkt_file_identity file;
    enum mkt_status status = mkt_save_version(&deposit->target, client, &version, &progress, error);

    if (status == MKT_OK)
        status = mkt_fault_point("archiver.written");
    if (status == MKT_OK)
        status = mkt_save_deposit_complete(deposit, &file, error);
    if (status == MKT_OK)
        status = mkt_client_save_place(client, order, &file, error);
    mkt_fault_point("archiver.place-answered");
    return status;
}

/* *file_out is also set after a failure, to what stands there all the same. *fd_out: the new file,
 * for the caller to close; -1 if it isn't known. */
static enum mkt_status save(struct mkt_client *client, const struct mkt_save_order *order,
                            struct mkt_file_identity *file_out, int *fd_out,
                            struct mkt_error *error)
{
    struct mkt_save_deposit deposit;
    enum mkt_status status = mkt_save_deposit_open(&deposit, order, error);

    if (status == MKT_OK && !deposit.placed)
        status = write_version(client, order, &deposit, error);
    if (status == MKT_OK)
        status = mkt_save_deposit_place(&deposit, file_out, error);
    if (status != MKT_OK)
        *file_out = deposit.there;
    else if (!deposit.placed && !deposit.in_place)
        *fd_out = dup(deposit.target.fd);
    mkt_save_deposit_close(&deposit);
    return status;
}

/* Saves one version and says how it went. False: the market is gone. */
static bool obey(struct mkt_client *client, struct mkt_save_order *order)
{
    struct mkt_file_identity file = {.ino = 0};
    struct mkt_error outcome = {.status = MKT_OK}, error;
    int fd = -1;

    outcome.status = mkt_fault_point("archiver.ordered");
    if (outcome.status == MKT_OK)
        outcome.status = save(client, order, &file, &fd, &outcome);
    else
        mkt_error_set(&outcome, outcome.status, "%s: %s", order->path,
                      mkt_status_text(outcome.status));
    mkt_fault_point("archiver.before-done");
    enum mkt_status status = mkt_client_save_done(client, order, &outcome, &file, fd, &error);
    if (fd >= 0)
        close(fd);
    mkt_fault_point("archiver.done");
    mkt_save_order_fini(order);
    return status == MKT_OK || status == MKT_CANCELLED;
}

/* False: not because there was nothing to do. */
static bool serve(struct mkt_client *client)
{
    struct mkt_save_order order;
    struct mkt_error error;
    enum mkt_status status = MKT_OK;

    while (!interrupted && status == MKT_OK) {
        status = mkt_client_save_next(client, IDLE_MS, &order, &error);
        if (status == MKT_OK && !obey(client, &order))
            return false;
    }
    return interrupted || status == MKT_TIMED_OUT;
}

int main(int argc, char **argv)
{
    struct mkt_client_options options = {.directory = argc > 1 ? argv[1] : NULL};
    struct mkt_client *client;
    struct mkt_error error = {.status = MKT_OK};

    if (argc != 2 && argc != 3) {
        fprintf(stderr,
                "%s is started by h5marketd; it takes the market's folder and a level of the log\n",
                argv[0]);
        return 2;
    }
    if (argc == 3)
        mkt_log_open(STDERR_FILENO, (enum mkt_log_level)atoi(argv[2]));
    /* This program is native HDF5's whatever its environment says. */
    unsetenv("HDF5_VOL_CONNECTOR");
    unsetenv("HDF5_DRIVER");
    unsetenv("HDF5_USE_FILE_LOCKING"); /* the lock is ours already */
    unsetenv("H5MARKET_CONFIG");
    signal(SIGTERM, on_signal);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    (void)!nice(NICE);
    if (mkt_client_connect(&options, &client, &error) != MKT_OK)
        return 1;
    bool idle = serve(client);
    mkt_client_destroy(client);
    return idle ? 0 : 1;
}
