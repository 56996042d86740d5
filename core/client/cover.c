/* SPDX-License-Identifier: BSD-3-Clause */
/* Do an array's pieces hold all that is wanted of it, and which of them need to be looked at? */
#include "core/client/client.h"

#include <stddef.h>
#include <string.h>

enum mkt_status mkt_client_piece_table(struct mkt_client *client, const struct mkt_piece *piece,
                                       uint32_t element_bytes, const void **table_out)
{
    struct mkt_error error;
    void *table = NULL;

    if (piece->form == MKT_PIECE_MASKED || piece->form == MKT_PIECE_LIST) {
        enum mkt_status status = mkt_client_map(client, &piece->table, false, &table, &error);
        if (status != MKT_OK)
            return status;
        if (!mkt_piece_table_is_valid(piece, table, element_bytes))
            return MKT_CORRUPT;
    }
    *table_out = table;
    return MKT_OK;
}

void mkt_cover_begin(struct mkt_cover *cover, struct mkt_client *client,
                     const struct mkt_slab *want, uint32_t element_bytes)
{
    memset(cover, 0,
           offsetof(struct mkt_cover, seen)); /* `seen` is large and need not be cleared */
    cover->client = client;
    cover->want = want;
    cover->element_bytes = element_bytes;
}

static void move_nothing(void *context, const struct mkt_move *move)
{
    (void)context;
    (void)move;
}

static bool box_holds(const struct mkt_piece *piece, const struct mkt_slab *want)
{
    if (piece->form != MKT_PIECE_BOX)
        return false;
    for (uint32_t d = 0; d < want->rank; d++)
        if (want->dim[d].start < piece->slab.dim[d].start ||
            mkt_dim_end(&want->dim[d]) > mkt_dim_end(&piece->slab.dim[d]))
            return false;
    return true;
}

enum mkt_status mkt_cover_piece(void *context, const struct mkt_piece *piece)
{
    struct mkt_cover *cover = context;
    struct mkt_layout packed;
    const void *table;

    if (piece->slab.rank != cover->want->rank)
        return MKT_CORRUPT;
    cover->hits++;
    if (box_holds(piece, cover->want)) {
        cover->whole = cover->hits;
        if (cover->hits <= MKT_COVER_SEEN)
            cover->seen[cover->hits - 1].rank = MKT_MAX_RANK + 1; /* meets none */
        return MKT_OK;
    }
    for (uint32_t i = 0; i + 1 < cover->hits && i < MKT_COVER_SEEN; i++)
        cover->overlap = cover->overlap || mkt_slab_bounds_meet(&cover->seen[i], &piece->slab);
    if (cover->hits <= MKT_COVER_SEEN)
        cover->seen[cover->hits - 1] = piece->slab;

    enum mkt_status status =
        mkt_client_piece_table(cover->client, piece, cover->element_bytes, &table);
    if (status != MKT_OK)
        return status;
    mkt_layout_packed(&packed, cover->want, cover->element_bytes, 0);
    cover->moved += mkt_plan_piece(cover->want, &packed, piece, table, cover->element_bytes,
                                   move_nothing, NULL);
    return MKT_OK;
}

bool mkt_cover_is_open(const struct mkt_cover *cover)
{
    return cover->hits > MKT_COVER_SEEN;
}

bool mkt_cover_is_disjoint(const struct mkt_cover *cover, bool disjoint)
{
    return mkt_cover_is_open(cover) ? disjoint : !cover->overlap;
}

bool mkt_cover_holds_all(const struct mkt_cover *cover, bool disjoint)
{
    return cover->whole > 0 || (mkt_cover_is_disjoint(cover, disjoint) &&
                                cover->moved == mkt_slab_elements(cover->want));
}

uint32_t mkt_cover_hidden(const struct mkt_cover *cover)
{
    return cover->whole > 0 ? cover->whole - 1 : 0;
}
