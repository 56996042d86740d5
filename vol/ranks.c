/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/ranks.h"

#include <string.h>
#include <sys/random.h>

#include "vol/error.h"

void mkt_vol_group_init(struct mkt_vol_group *group)
{
    memset(group, 0, sizeof(*group));
    group->size = 1;
}

static enum mkt_vol_verdict decide_alone(const struct mkt_vol_vote *vote, uint8_t *token_out)
{
    memset(token_out, 0, MKT_ID_BYTES); /* nobody to tell */
    if (vote->failed)
        return MKT_VOL_VERDICT_FAILED;
    return vote->daemon && vote->wants_market ? MKT_VOL_VERDICT_MARKET : MKT_VOL_VERDICT_NATIVE;
}

#if MKT_VOL_MPI

/* Reduced with MAX; the smallest of a word is the complement of its complement's largest. */
enum {
    FAILED,
    NO_SEARCH,
    NATIVE,
    CONNECTED,
    MISSING,
    TOKEN,
    DAEMON = TOKEN + 2,
    NOT_DAEMON = DAEMON + 2,
    WORDS = NOT_DAEMON + 2
};

static void make_token(uint8_t *token)
{
    memset(token, 0, MKT_ID_BYTES);
    if (getrandom(token, MKT_ID_BYTES, 0) != MKT_ID_BYTES)
        token[0] = 1; /* not unique, but never zero; the kernel's pool is ready long before us */
}

static bool mpi_is_on(void)
{
    int initialized = 0, finalized = 0;
    return MPI_Initialized(&initialized) == MPI_SUCCESS && initialized &&
           MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized;
}

herr_t mkt_vol_group_from_list(struct mkt_vol_group *group, hid_t fapl)
{
    mkt_vol_group_init(group);
    if (!mpi_is_on())
        return -1;
    struct mkt_vol_silence silence;
    mkt_vol_silence_begin(&silence);
    herr_t result = H5Pget_fapl_mpio(fapl, &group->comm, &group->info);
    mkt_vol_silence_end(&silence);
    if (result < 0)
        return -1;
    group->has_comm = true;
    int rank = 0, size = 1;
    if (MPI_Comm_rank(group->comm, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(group->comm, &size) != MPI_SUCCESS) {
        mkt_vol_group_fini(group);
        return -1;
    }
    group->rank = (uint32_t)rank;
    group->size = (uint32_t)size;
    return 0;
}

void mkt_vol_group_fini(struct mkt_vol_group *group)
{
    if (group->has_comm && mpi_is_on()) {
        MPI_Comm_free(&group->comm);
        if (group->info != MPI_INFO_NULL)
            MPI_Info_free(&group->info);
    }
    group->has_comm = false;
}

herr_t mkt_vol_group_set_list(const struct mkt_vol_group *group, hid_t fapl)
{
    return group->has_comm ? H5Pset_fapl_mpio(fapl, group->comm, group->info) : -1;
}

static enum mkt_vol_verdict judge(const uint64_t *words)
{
    if (words[FAILED])
        return MKT_VOL_VERDICT_FAILED;
    if (words[NATIVE] || !words[CONNECTED])
        return MKT_VOL_VERDICT_NATIVE;
    if (words[MISSING])
        return MKT_VOL_VERDICT_INCOMPLETE;
    for (unsigned i = 0; i < 2; i++)
        if (words[DAEMON + i] != ~words[NOT_DAEMON + i])
            return MKT_VOL_VERDICT_APART;
    return MKT_VOL_VERDICT_MARKET;
}

enum mkt_vol_verdict mkt_vol_group_agree(const struct mkt_vol_group *group,
                                         struct mkt_vol_vote *vote, uint8_t *token_out)
{
    if (group->size == 1)
        return decide_alone(vote, token_out);
    uint64_t mine[WORDS] = {0}, all[WORDS];
    mine[FAILED] = vote->failed;
    mine[NO_SEARCH] = !vote->may_be_search;
    mine[CONNECTED] = vote->daemon != NULL;
    mine[MISSING] = vote->daemon == NULL;
    if (vote->daemon) {
        memcpy(&mine[DAEMON], vote->daemon, MKT_ID_BYTES);
        mine[NOT_DAEMON] = ~mine[DAEMON];
        mine[NOT_DAEMON + 1] = ~mine[DAEMON + 1];
    }
    if (group->rank == 0) {
        /* Without a connection it doesn't know the rule: that is MISSING, not NATIVE. */
        mine[NATIVE] = vote->daemon && !vote->wants_market;
        make_token((uint8_t *)&mine[TOKEN]);
    }
    if (!mpi_is_on() ||
        MPI_Allreduce(mine, all, WORDS, MPI_UINT64_T, MPI_MAX, group->comm) != MPI_SUCCESS)
        return MKT_VOL_VERDICT_FAILED;
    memcpy(token_out, &all[TOKEN], MKT_ID_BYTES);
    vote->may_be_search = !all[NO_SEARCH];
    return judge(all);
}

void mkt_vol_group_meet(const struct mkt_vol_group *group)
{
    if (group->size > 1 && mpi_is_on())
        MPI_Barrier(group->comm);
}

uint32_t mkt_vol_group_first(const struct mkt_vol_group *group, uint32_t value)
{
    if (group->size > 1 && mpi_is_on())
        MPI_Bcast(&value, 1, MPI_UINT32_T, 0, group->comm);
    return value;
}

hid_t mkt_vol_independent_list(hid_t dxpl, bool *owned_out)
{
    *owned_out = false;
    H5FD_mpio_xfer_t mode = H5FD_MPIO_INDEPENDENT;
    if (dxpl == H5P_DEFAULT || dxpl == H5P_DATASET_XFER_DEFAULT)
        return dxpl;
    if (H5Pget_dxpl_mpio(dxpl, &mode) < 0)
        return H5I_INVALID_HID;
    if (mode == H5FD_MPIO_INDEPENDENT)
        return dxpl;
    hid_t copy = H5Pcopy(dxpl);
    if (copy >= 0 && H5Pset_dxpl_mpio(copy, H5FD_MPIO_INDEPENDENT) < 0) {
        H5Pclose(copy);
        return H5I_INVALID_HID;
    }
    *owned_out = copy >= 0;
    return copy;
}

#else /* no MPI in this HDF5 */

herr_t mkt_vol_group_from_list(struct mkt_vol_group *group, hid_t fapl)
{
    (void)fapl;
    mkt_vol_group_init(group);
    return -1;
}

void mkt_vol_group_fini(struct mkt_vol_group *group)
{
    (void)group;
}

herr_t mkt_vol_group_set_list(const struct mkt_vol_group *group, hid_t fapl)
{
    (void)group;
    (void)fapl;
    return -1;
}

enum mkt_vol_verdict mkt_vol_group_agree(const struct mkt_vol_group *group,
                                         struct mkt_vol_vote *vote, uint8_t *token_out)
{
    (void)group;
    return decide_alone(vote, token_out);
}

void mkt_vol_group_meet(const struct mkt_vol_group *group)
{
    (void)group;
}

uint32_t mkt_vol_group_first(const struct mkt_vol_group *group, uint32_t value)
{
    (void)group;
    return value;
}

hid_t mkt_vol_independent_list(hid_t dxpl, bool *owned_out)
{
    *owned_out = false;
    return dxpl;
}

#endif
