/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processes that open a file together: the communicator of the access list. One MPI call an
 * open (rarely two), none at a close. In a connector without MPI every group is of one.
 */
#ifndef MKT_VOL_RANKS_H
#define MKT_VOL_RANKS_H

#include "vol/vol.h"

#if MKT_VOL_MPI
#include <mpi.h>
#endif

struct mkt_vol_group {
    uint32_t rank, size;
#if MKT_VOL_MPI
    bool has_comm;
    MPI_Comm comm;
    MPI_Info info;
#endif
};

/* A group of one. */
void mkt_vol_group_init(struct mkt_vol_group *group);
/* The group of an access list with the mpio driver. Negative if the list has another one. */
herr_t mkt_vol_group_from_list(struct mkt_vol_group *group, hid_t fapl);
/* Frees the communicator, unless MPI is over. */
void mkt_vol_group_fini(struct mkt_vol_group *group);
/* Gives an access list the mpio driver with this group's communicator. */
herr_t mkt_vol_group_set_list(const struct mkt_vol_group *group, hid_t fapl);

/* What a rank brings to an open, and what all ranks take from it. */
struct mkt_vol_vote {
    bool failed;           /* this rank can't go on (its error is on its stack) */
    bool wants_market;     /* rank 0's counts */
    const uint8_t *daemon; /* MKT_ID_BYTES; NULL: not connected */
    bool may_be_search;    /* in: on this rank; out: on every rank */
};
enum mkt_vol_verdict {
    MKT_VOL_VERDICT_MARKET,
    MKT_VOL_VERDICT_NATIVE,     /* by rule, or no rank is connected */
    MKT_VOL_VERDICT_INCOMPLETE, /* some ranks are connected: those that aren't should try, then vote
                                   again */
    MKT_VOL_VERDICT_APART,      /* more than one daemon */
    MKT_VOL_VERDICT_FAILED      /* some rank can't go on */
};
/* Collective over the group: every rank must call it, whatever became of its own part. token_out
 * (MKT_ID_BYTES) is the same on all ranks. */
enum mkt_vol_verdict mkt_vol_group_agree(const struct mkt_vol_group *group,
                                         struct mkt_vol_vote *vote, uint8_t *token_out);

/* Returns when all ranks have called it; collective. */
void mkt_vol_group_meet(const struct mkt_vol_group *group);
/* Rank 0's value, on all ranks; collective. In a group of one its own. */
uint32_t mkt_vol_group_first(const struct mkt_vol_group *group, uint32_t value);

#endif
