/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/wire/mailbox.h"
#include "core/base/memfd.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

enum state {
    EMPTY = 0,
    FULL,
    TAKING
};

/* ---- the memory ---- */

struct mkt_mailbox *mkt_mailbox_map(int fd)
{
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &info) != 0 ||
        info.st_size != (off_t)sizeof(struct mkt_mailbox))
        return NULL;
    void *box = mmap(NULL, sizeof(struct mkt_mailbox), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_POPULATE, fd, 0);
    return box == MAP_FAILED ? NULL : box;
}

struct mkt_mailbox *mkt_mailbox_create(int *fd_out)
{
    int fd = mkt_memfd_create("h5market-mailbox", sizeof(struct mkt_mailbox));
    struct mkt_mailbox *box = fd >= 0 ? mkt_mailbox_map(fd) : NULL;
    if (box == NULL && fd >= 0)
        close(fd);
    *fd_out = box != NULL ? fd : -1;
    return box;
}

void mkt_mailbox_unmap(struct mkt_mailbox *box)
{
    if (box != NULL)
        munmap(box, sizeof(*box));
}

/* ---- posts ---- */

bool mkt_mail_post(struct mkt_mail_slot *slot, const void *bytes, size_t length)
{
    uint32_t full = FULL;
    if (length > sizeof(slot->post) || !atomic_load(&slot->looks) ||
        atomic_load(&slot->state) != EMPTY)
        return false;
    memcpy(slot->post, bytes, length);
    slot->bytes = (uint32_t)length;
    atomic_store(&slot->state, FULL);
    return atomic_load(&slot->looks) || !atomic_compare_exchange_strong(&slot->state, &full, EMPTY);
}

size_t mkt_mail_take(struct mkt_mail_slot *slot, void *bytes_out)
{
    uint32_t full = FULL;
    if (!atomic_compare_exchange_strong(&slot->state, &full, TAKING))
        return 0;
    size_t length = *(volatile uint32_t *)&slot->bytes; /* read once: the other side may write */
    if (length > sizeof(slot->post))
        length = sizeof(slot->post); /* whatever that is, it is no frame */
    memcpy(bytes_out, slot->post, length);
    atomic_store(&slot->state, EMPTY);
    return length;
}
