/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries in a folder whose data is in no market: they look like files and can't be opened. */
#include "core/cli/doctor.h"

#include "core/client/stub_layout.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LOOKED_AT 200000
#define MAX_SHOWN     10

struct search {
    struct mkt_doctor *doctor;
    char host[64];
    unsigned looked_at, live, dead, elsewhere;
};

static struct search search; /* nftw has no context */

static bool read_stub(const char *path, struct mkt_stub_disk *stub_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool whole = read(fd, stub_out, sizeof(*stub_out)) == (ssize_t)sizeof(*stub_out);
    close(fd);
    return whole && mkt_stub_is_valid(stub_out);
}

static bool is_in_market(const char *path)
{
    struct mkt_error error;
    char *text = NULL;
    bool known = search.doctor->client && mkt_client_query(search.doctor->client, MKT_QUERY_STAT,
                                                           path, &text, &error) == MKT_OK;
    free(text);
    return known;
}

static void judge(const char *path)
{
    struct mkt_stub_disk stub;
    if (!read_stub(path, &stub))
        return;
    if (is_in_market(path)) {
        search.live++;
        return;
    }
    bool shown = search.dead + search.elsewhere < MAX_SHOWN;
    if (strcmp(stub.host, search.host) != 0) {
        search.elsewhere++;
        if (shown)
            mkt_doctor_say(
                search.doctor, MKT_WARNING,
                "read it on that host; if its market has ended, the data is lost: rm the entry",
                "%s is the entry of a file in memory of host %s", path, stub.host);
        return;
    }
    search.dead++;
    if (shown)
        mkt_doctor_say(
            search.doctor, MKT_WARNING,
            "rm it, or write the file again; if it is another batch job's, that job still has it",
            "%s is a left-over entry: this market has no data for it", path);
}

static int look(const char *path, const struct stat *found, int type, struct FTW *at)
{
    if (++search.looked_at > MAX_LOOKED_AT)
        return FTW_STOP;
    if (type == FTW_D && at->level > 0 && !search.doctor->folder_given)
        return FTW_SKIP_SUBTREE;
    if (type == FTW_F && S_ISREG(found->st_mode) && found->st_size == MKT_STUB_BYTES)
        judge(path);
    return FTW_CONTINUE;
}

void mkt_doctor_stubs(struct mkt_doctor *doctor)
{
    if (doctor->daemon_unknown)
        return;
    memset(&search, 0, sizeof(search));
    search.doctor = doctor;
    gethostname(search.host, sizeof(search.host) - 1);
    nftw(doctor->folder, look, 16, FTW_PHYS | FTW_MOUNT | FTW_ACTIONRETVAL);
    unsigned lost = search.dead + search.elsewhere;
    if (lost > MAX_SHOWN)
        mkt_doctor_say(doctor, MKT_WARNING, "as for those above", "%u more like these in %s",
                       lost - MAX_SHOWN, doctor->folder);
    if (search.looked_at > MAX_LOOKED_AT)
        mkt_doctor_say(doctor, MKT_WARNING, "name a smaller folder: `h5market doctor FOLDER`",
                       "%s has more than %d files; the rest wasn't looked at", doctor->folder,
                       MAX_LOOKED_AT);
    if (!lost)
        mkt_doctor_say(doctor, MKT_FINE, NULL,
                       "no left-over entries in %s (%u of files in the market)", doctor->folder,
                       search.live);
}
