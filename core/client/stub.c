/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/clock.h"
#include "core/client/client.h"
#include "core/client/directory.h"
#include "core/client/name.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static enum mkt_status write_stub(int fd, struct mkt_stub_disk *stub, struct mkt_error *error)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return mkt_error_set(error, MKT_IO_ERROR, "can't stat a new stub: %s", strerror(errno));
    stub->inode = info.st_ino;
    stub->created_ns = mkt_wall_ns();
    ssize_t bytes = pwrite(fd, stub, sizeof(*stub), 0);
    if (bytes != (ssize_t)sizeof(*stub)) {
        int reason = bytes < 0 ? errno : ENOSPC;
        return mkt_error_set(error, mkt_status_from_errno(reason), "can't write a stub: %s",
                             strerror(reason));
    }
    return MKT_OK;
}

static enum mkt_status new_object(uint8_t object_out[MKT_ID_BYTES], struct mkt_error *error)
{
    if (getrandom(object_out, MKT_ID_BYTES, 0) != MKT_ID_BYTES)
        return mkt_error_set(error, MKT_IO_ERROR, "no random numbers: %s", strerror(errno));
    return MKT_OK;
}

/* Empty for a moment; who looks just then waits a little (name.c). O_TMPFILE would give it its name
 * when it is whole, but its descriptor doesn't lead back to the name, which the daemon needs, and
 * it takes three times as long. */
static enum mkt_status make_stub(struct mkt_place *place, struct mkt_stub_disk *stub, int *fd_out,
                                 struct mkt_error *error)
{
    int fd = open(place->real, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (fd < 0)
        return mkt_error_set(error, mkt_status_from_errno(errno), "can't make %.400s: %s",
                             place->real, strerror(errno));
    enum mkt_status status = write_stub(fd, stub, error);
    if (status != MKT_OK) {
        unlink(place->real);
        close(fd);
        return status;
    }
    *fd_out = fd;
    return MKT_OK;
}

/* The stub that stands there: one of ours serves as it is; one of another market, or a copy of
 * ours, becomes a new object. */
static enum mkt_status take_stub(struct mkt_place *place, struct mkt_stub_disk *fresh, int *fd_out,
                                 struct mkt_error *error)
{
    struct mkt_stub_disk found;
    struct stat info;
    int fd = open(place->real, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return mkt_error_set(error, mkt_status_from_errno(errno), "can't open the stub %.400s: %s",
                             place->real, strerror(errno));
    enum mkt_status status = MKT_OK;
    if (fstat(fd, &info) != 0 || info.st_size != MKT_STUB_BYTES ||
        pread(fd, &found, sizeof(found), 0) != (ssize_t)sizeof(found) || !mkt_stub_is_valid(&found))
        status = mkt_error_set(error, MKT_EXISTS, "%.400s changed just now", place->real);
    else if (memcmp(found.market, fresh->market, MKT_ID_BYTES) == 0 && found.inode == info.st_ino)
        *fresh = found;
    else
        status = write_stub(fd, fresh, error);
    if (status != MKT_OK) {
        close(fd);
        return status;
    }
    *fd_out = fd;
    return MKT_OK;
}

enum mkt_status mkt_stub_ensure(struct mkt_place *place, const uint8_t market[MKT_ID_BYTES],
                                const char *host, int *fd_out, bool *made_out,
                                struct mkt_error *error)
{
    struct mkt_stub_disk stub;
    uint8_t object[MKT_ID_BYTES];
    uint32_t mode;
    int fd = -1;
    bool make = place->kind == MKT_PLACE_NONE;
    enum mkt_status status = new_object(object, error);
    if (status != MKT_OK)
        return status;
    mkt_stub_init(&stub, market, object, host);
    status = make ? make_stub(place, &stub, &fd, error) : take_stub(place, &stub, &fd, error);
    if (status != MKT_OK)
        return status;
    if (mkt_file_look_fd(fd, &place->file, &mode) != 0) {
        close(fd);
        return mkt_error_set(error, MKT_IO_ERROR, "can't stat the stub %.400s", place->real);
    }
    place->kind = MKT_PLACE_STUB;
    place->stub = stub;
    *made_out = make;
    *fd_out = fd;
    return MKT_OK;
}

/* The daemon may be removing it, too, and another program have made one anew since. */
void mkt_stub_remove(const struct mkt_place *place)
{
    struct mkt_file_identity there;
    struct mkt_place now;
    uint32_t mode;
    struct mkt_error error;
    if (mkt_place_init(&now, place->real, &error) != MKT_OK)
        return;
    int fd = -1;
    if (now.kind == MKT_PLACE_STUB && mkt_place_equal(&now, place))
        fd = open(now.real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd >= 0 && mkt_file_look_fd(fd, &there, &mode) == 0 && mkt_file_same(&there, &now.file))
        mkt_file_remove(fd, now.real);
    if (fd >= 0)
        close(fd);
    mkt_place_fini(&now);
}

/* Without a daemon to ask. */
static bool is_of_our_folder(const struct mkt_stub_disk *stub)
{
    char directory[PATH_MAX];
    uint8_t market[MKT_ID_BYTES];
    struct mkt_error error;
    return mkt_client_directory(NULL, false, directory, sizeof(directory), &error) == MKT_OK &&
           mkt_directory_market_id(directory, market, &error) == MKT_OK &&
           memcmp(stub->market, market, MKT_ID_BYTES) == 0;
}

void mkt_stub_explain(const struct mkt_place *place, const uint8_t *market, const char *host,
                      struct mkt_error *error)
{
    char when[64] = "?";
    time_t seconds = (time_t)(place->stub.created_ns / 1000000000u);
    struct tm local;
    if (localtime_r(&seconds, &local) != NULL)
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
    bool other_host = strcmp(place->stub.host, host) != 0;
    bool other_market = market != NULL ? memcmp(place->stub.market, market, MKT_ID_BYTES) != 0
                                       : !is_of_our_folder(&place->stub);
    if (other_host)
        mkt_error_set(error, MKT_NOT_FOUND,
                      "%.300s is a stub that a market on host %s left on %s: its data is in the "
                      "memory of that host; if that market has ended, remove the file or write it "
                      "anew",
                      place->path, place->stub.host, when);
    else if (other_market)
        mkt_error_set(error, MKT_NOT_FOUND,
                      "%.300s is a stub of another market of this host (another folder, batch job "
                      "or boot), left on %s; if that market has ended, remove the file or write it "
                      "anew",
                      place->path, when);
    else
        mkt_error_set(error, MKT_NOT_FOUND,
                      "%.300s is a left-over stub of %s: %s, and the data with it; remove the file "
                      "or write it anew",
                      place->path, when,
                      market == NULL ? "its market has ended"
                                     : "the market no longer has its object (withdrawn, or the "
                                       "daemon was restarted)");
}
