/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * h5market-plan in four parts: what is asked for (selection.c), the dataset and its array
 * (dataset.c), what a read does for it (reckon.c), and how that is said (show.c). One thread.
 */
#ifndef MKT_VOL_PLAN_PLAN_H
#define MKT_VOL_PLAN_PLAN_H

#include "core/client/client.h"
#include "core/geometry/cost.h"
#include "core/geometry/index.h"
#include <jansson.h>
#include <stdio.h>

/* ---- selection.c: h5dump's notation ---- */
struct mkt_plan_list {
    bool given;
    uint32_t count;
    uint64_t number[MKT_MAX_RANK];
};
struct mkt_plan_asked {
    struct mkt_plan_list start, stride, count, block;
};
/* "1,2,3". False: it is no list of numbers, or too long a one. */
bool mkt_plan_parse_list(const char *text, struct mkt_plan_list *list_out);
/* Nothing given: all of the array. Else as h5dump: start 0, stride, count and block 1 in each
 * dimension that a list doesn't reach. MKT_INVALID: it isn't inside the array, or no selection. */
enum mkt_status mkt_plan_select(const struct mkt_plan_asked *asked, const struct mkt_array *array,
                                struct mkt_slab *slab_out, struct mkt_error *error);

/* ---- dataset.c ---- */
struct mkt_plan_dataset {
    struct mkt_array array;
    bool is_written;   /* there is an array in the index, */
    uint32_t position; /* at this place; else nothing was ever written to the dataset */
};
/* Looks the dataset up in the version's image. MKT_NOT_FOUND: there is none; MKT_UNSUPPORTED: its
 * raw data isn't the market's, `error` says where it is; MKT_CORRUPT. */
enum mkt_status mkt_plan_find(const struct mkt_opened *version, const struct mkt_index_view *index,
                              const char *name, struct mkt_plan_dataset *dataset_out,
                              struct mkt_error *error);

/* ---- reckon.c ---- */
enum mkt_plan_way {
    MKT_PLAN_WHOLE,  /* one copy of the whole piece */
    MKT_PLAN_RUN,    /* one copy of a part */
    MKT_PLAN_STRIDED /* many runs, in loops */
};
/* A piece that gives something. */
struct mkt_plan_piece {
    enum mkt_piece_form form;
    uint64_t stamp, bytes;                            /* of its data */
    struct mkt_dim *dim;                              /* of each dimension */
    uint64_t wanted_bytes, runs, run_least, run_most; /* a run's bytes */
    enum mkt_plan_way way;
    bool below; /* in the tier; then the following holds */
    struct mkt_read_cost parts, whole;
    bool takes_whole;
};
struct mkt_plan {
    struct mkt_slab want;
    uint32_t element_bytes;
    struct mkt_plan_piece *piece;
    uint64_t count, capacity;
    uint32_t hidden; /* pieces that lie under a later one, which holds everything */
    uint64_t beside; /* whose bounds meet the selection, but none of whose elements is in it */
    bool holds_all;  /* else what no piece holds, fill values, is put into memory first */
    bool disjoint;   /* no element is in two pieces; else some are copied more than once */
    struct mkt_speeds speeds;
    uint64_t promote_after;
};
/* plan->want, element_bytes, speeds and promote_after are set. */
enum mkt_status mkt_plan_reckon(struct mkt_plan *plan, struct mkt_client *client,
                                const struct mkt_index_view *index,
                                const struct mkt_plan_dataset *dataset, struct mkt_error *error);
void mkt_plan_fini(struct mkt_plan *plan);
/* What the market reads for a piece in the tier. */
const struct mkt_read_cost *mkt_plan_chosen(const struct mkt_plan_piece *piece);

/* ---- show.c ---- */
struct mkt_plan_names {
    const char *file, *dataset;
    uint64_t version;
};
/* At most `lines` pieces are listed. */
void mkt_plan_print(const struct mkt_plan *plan, const struct mkt_plan_names *names,
                    const struct mkt_array *array, uint64_t lines);
json_t *mkt_plan_json(const struct mkt_plan *plan, const struct mkt_plan_names *names,
                      const struct mkt_array *array);

#endif
