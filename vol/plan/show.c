/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan as text, for people, and as JSON. */
#include "vol/plan/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/cli/cli.h"

static const char *const forms[] = {[MKT_PIECE_BOX] = "box",
                                    [MKT_PIECE_SLAB] = "slab",
                                    [MKT_PIECE_MASKED] = "masked",
                                    [MKT_PIECE_LIST] = "list"};

struct totals {
    uint64_t bytes, runs; /* wanted */
    uint64_t below, below_bytes;
    struct mkt_read_cost cost;
};

static void add_up(const struct mkt_plan *plan, struct totals *totals)
{
    *totals = (struct totals){.bytes = 0};
    for (uint64_t i = 0; i < plan->count; i++) {
        const struct mkt_plan_piece *piece = &plan->piece[i];
        const struct mkt_read_cost *cost = mkt_plan_chosen(piece);
        totals->bytes += piece->wanted_bytes;
        totals->runs += piece->runs;
        totals->below += piece->below;
        totals->below_bytes += piece->below ? piece->wanted_bytes : 0;
        totals->cost.requests += cost->requests;
        totals->cost.bytes += cost->bytes;
        totals->cost.ns += cost->ns;
    }
}

/* ---- text ---- */

static const char *show_time(uint64_t ns, char text[MKT_CLI_SHOWN_BYTES])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    unsigned unit = 0;
    double value = (double)ns;
    if (ns == 0)
        return "?"; /* nothing takes no time: the speeds aren't known */
    while (value >= 1000 && unit < 3) {
        value /= 1000;
        unit++;
    }
    snprintf(text, MKT_CLI_SHOWN_BYTES, "%.*f %s", value >= 100 || unit == 0 ? 0 : 1, value,
             units[unit]);
    return text;
}

/* "0:48,0:96:3": start, end and, where there are gaps, how far apart the parts begin. */
static char *show_place(const struct mkt_plan_piece *piece, uint32_t rank)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    for (uint32_t d = 0; out && d < rank; d++) {
        const struct mkt_dim *dim = &piece->dim[d];
        fprintf(out, "%s%" PRIu64 ":%" PRIu64, d > 0 ? "," : "", dim->start, mkt_dim_end(dim));
        if (dim->count > 1)
            fprintf(out, ":%" PRIu64, dim->stride);
    }
    if (out && rank == 0)
        fputs("scalar", out);
    if (!out || fclose(out) != 0) {
        mkt_cli_complain("out of memory");
        exit(MKT_CLI_FAILED);
    }
    return text;
}

static char *show_cost(const char *what, const struct mkt_read_cost *cost)
{
    char size[MKT_CLI_SHOWN_BYTES], time[MKT_CLI_SHOWN_BYTES];
    return mkt_cli_format("%s %s in %" PRIu64 " request%s, %s", what,
                          mkt_cli_show_size(cost->bytes, size), cost->requests,
                          cost->requests == 1 ? "" : "s", show_time(cost->ns, time));
}

static bool are_alike(const struct mkt_read_cost *a, const struct mkt_read_cost *b)
{
    return a->requests == b->requests && a->bytes == b->bytes;
}

/* How it is copied, and for a piece in the tier first how it gets into memory. */
static char *show_way(const struct mkt_plan_piece *piece)
{
    static const char *const ways[] = {[MKT_PLAN_WHOLE] = "whole piece in one copy",
                                       [MKT_PLAN_RUN] = "one copy",
                                       [MKT_PLAN_STRIDED] = "strided copy"};
    if (!piece->below)
        return mkt_cli_copy(ways[piece->way]);
    char *whole = show_cost("whole", &piece->whole), *parts = show_cost("parts", &piece->parts);
    char *text = are_alike(&piece->parts, &piece->whole)
                     ? mkt_cli_format("%s; %s", whole, ways[piece->way])
                     : mkt_cli_format("%s (%s); %s", piece->takes_whole ? whole : parts,
                                      piece->takes_whole ? parts : whole, ways[piece->way]);
    free(whole);
    free(parts);
    return text;
}

static void add_row(struct mkt_cli_table *table, const struct mkt_plan_piece *piece, uint32_t rank)
{
    char size[4][MKT_CLI_SHOWN_BYTES], runs[24], *place = show_place(piece, rank),
                                                 *way = show_way(piece);
    char run[2 * MKT_CLI_SHOWN_BYTES];
    snprintf(runs, sizeof(runs), "%" PRIu64, piece->runs);
    snprintf(run, sizeof(run), "%s%s%s", mkt_cli_show_size(piece->run_least, size[2]),
             piece->run_least < piece->run_most ? " to " : "",
             piece->run_least < piece->run_most ? mkt_cli_show_size(piece->run_most, size[3]) : "");
    const char *const cells[] = {forms[piece->form],
                                 place,
                                 piece->below ? "below" : "memory",
                                 mkt_cli_show_size(piece->bytes, size[0]),
                                 mkt_cli_show_size(piece->wanted_bytes, size[1]),
                                 runs,
                                 run,
                                 way};
    mkt_cli_table_add(table, cells);
    free(place);
    free(way);
}

static void print_pieces(const struct mkt_plan *plan, uint64_t lines)
{
    static const char *const headings[] = {"FORM",    "PLACE", "WHERE",  ">SIZE",
                                           ">WANTED", ">RUNS", ">A RUN", "HOW"};
    struct mkt_cli_table *table = mkt_cli_table_create(8, headings);
    for (uint64_t i = 0; i < plan->count && i < lines; i++)
        add_row(table, &plan->piece[i], plan->want.rank);
    putchar('\n');
    if (plan->count > 0)
        mkt_cli_table_print(table, stdout);
    if (plan->count > lines)
        printf("and %" PRIu64 " more pieces; --all lists them\n", plan->count - lines);
    if (plan->count > 0)
        putchar('\n');
    mkt_cli_table_destroy(table);
}

static void print_heading(const struct mkt_plan *plan, const struct mkt_plan_names *names,
                          const struct mkt_array *array)
{
    char size[MKT_CLI_SHOWN_BYTES];
    uint64_t elements = mkt_slab_elements(&plan->want);
    printf("%s, version %" PRIu64 ", %s:", names->file, names->version, names->dataset);
    for (uint32_t d = 0; d < array->rank; d++)
        printf("%s%" PRIu64, d > 0 ? " x " : " ", array->dims[d]);
    printf("%s of %" PRIu32 " bytes\nwanted: %" PRIu64 " element%s, %s\n",
           array->rank == 0 ? " one element" : " elements", array->element_bytes, elements,
           elements == 1 ? "" : "s", mkt_cli_show_size(elements * plan->element_bytes, size));
}

/* What else a read has to do, or needn't. */
static void print_notes(const struct mkt_plan *plan)
{
    if (!plan->holds_all)
        puts(plan->count == 0
                 ? "no piece has any of it: all are fill values"
                 : "not all of it is known to be in pieces: fill values are put in place first");
    if (!plan->disjoint)
        puts("pieces lie over one another: some elements are copied more than once");
    if (plan->hidden > 0)
        printf("%" PRIu32 " older piece%s under these, and %s read\n", plan->hidden,
               plan->hidden == 1 ? " lies" : "s lie", plan->hidden == 1 ? "isn't" : "aren't");
    if (plan->beside > 0)
        printf("%" PRIu64 " piece%s around it ha%s none of it\n", plan->beside,
               plan->beside == 1 ? "" : "s", plan->beside == 1 ? "s" : "ve");
}

static void print_totals(const struct mkt_plan *plan)
{
    char text[3][MKT_CLI_SHOWN_BYTES];
    struct totals totals;
    add_up(plan, &totals);
    printf("total: %" PRIu64 " piece%s, %s in %" PRIu64 " run%s\n", plan->count,
           plan->count == 1 ? "" : "s", mkt_cli_show_size(totals.bytes, text[0]), totals.runs,
           totals.runs == 1 ? "" : "s");
    if (totals.below == 0)
        return;
    printf("below memory: %" PRIu64 " of them, %s; to be read: %s in %" PRIu64
           " request%s, about %s\n",
           totals.below, mkt_cli_show_size(totals.below_bytes, text[0]),
           mkt_cli_show_size(totals.cost.bytes, text[1]), totals.cost.requests,
           totals.cost.requests == 1 ? "" : "s", show_time(totals.cost.ns, text[2]));
    if (plan->promote_after > 0)
        printf("read %" PRIu64 " times, a piece comes back into memory, if there is room\n",
               plan->promote_after);
}

void mkt_plan_print(const struct mkt_plan *plan, const struct mkt_plan_names *names,
                    const struct mkt_array *array, uint64_t lines)
{
    print_heading(plan, names, array);
    print_pieces(plan, lines);
    print_notes(plan);
    print_totals(plan);
}

/* ---- JSON ---- */

static void set(json_t *json, const char *key, uint64_t number)
{
    json_object_set_new(json, key, json_integer((json_int_t)number));
}

static json_t *slab_json(const struct mkt_dim *dim, uint32_t rank)
{
    json_t *json = json_object(), *start = json_array(), *stride = json_array(),
           *count = json_array(), *block = json_array();
    for (uint32_t d = 0; d < rank; d++) {
        json_array_append_new(start, json_integer((json_int_t)dim[d].start));
        json_array_append_new(stride, json_integer((json_int_t)dim[d].stride));
        json_array_append_new(count, json_integer((json_int_t)dim[d].count));
        json_array_append_new(block, json_integer((json_int_t)dim[d].block));
    }
    json_object_set_new(json, "start", start);
    json_object_set_new(json, "stride", stride);
    json_object_set_new(json, "count", count);
    json_object_set_new(json, "block", block);
    return json;
}

static json_t *cost_json(const struct mkt_read_cost *cost)
{
    json_t *json = json_object();
    set(json, "requests", cost->requests);
    set(json, "bytes", cost->bytes);
    set(json, "ns", cost->ns);
    return json;
}

static json_t *piece_json(const struct mkt_plan_piece *piece, uint32_t rank)
{
    static const char *const ways[] = {
        [MKT_PLAN_WHOLE] = "whole", [MKT_PLAN_RUN] = "run", [MKT_PLAN_STRIDED] = "strided"};
    json_t *json = json_object();
    json_object_set_new(json, "form", json_string(forms[piece->form]));
    set(json, "stamp", piece->stamp);
    json_object_set_new(json, "place", slab_json(piece->dim, rank));
    json_object_set_new(json, "where", json_string(piece->below ? "tier" : "memory"));
    set(json, "bytes", piece->bytes);
    set(json, "wanted_bytes", piece->wanted_bytes);
    set(json, "runs", piece->runs);
    set(json, "run_bytes_least", piece->run_least);
    set(json, "run_bytes_most", piece->run_most);
    json_object_set_new(json, "copy", json_string(ways[piece->way]));
    if (!piece->below)
        return json;
    json_object_set_new(json, "parts", cost_json(&piece->parts));
    json_object_set_new(json, "whole", cost_json(&piece->whole));
    json_object_set_new(json, "takes", json_string(piece->takes_whole ? "whole" : "parts"));
    return json;
}

static json_t *totals_json(const struct mkt_plan *plan)
{
    struct totals totals;
    add_up(plan, &totals);
    json_t *json = json_object(), *below = cost_json(&totals.cost);
    set(json, "pieces", plan->count);
    set(json, "wanted_bytes", totals.bytes);
    set(json, "runs", totals.runs);
    set(below, "pieces", totals.below);
    set(below, "wanted_bytes", totals.below_bytes);
    json_object_set_new(json, "tier", below);
    return json;
}

json_t *mkt_plan_json(const struct mkt_plan *plan, const struct mkt_plan_names *names,
                      const struct mkt_array *array)
{
    json_t *json = json_object(), *dims = json_array(), *pieces = json_array();
    for (uint32_t d = 0; d < array->rank; d++)
        json_array_append_new(dims, json_integer((json_int_t)array->dims[d]));
    for (uint64_t i = 0; i < plan->count; i++)
        json_array_append_new(pieces, piece_json(&plan->piece[i], array->rank));
    json_object_set_new(json, "file", json_string(names->file));
    set(json, "version", names->version);
    json_object_set_new(json, "dataset", json_string(names->dataset));
    json_object_set_new(json, "dims", dims);
    set(json, "element_bytes", array->element_bytes);
    json_object_set_new(json, "selection", slab_json(plan->want.dim, array->rank));
    set(json, "elements", mkt_slab_elements(&plan->want));
    json_object_set_new(json, "holds_all", json_boolean(plan->holds_all));
    json_object_set_new(json, "disjoint", json_boolean(plan->disjoint));
    set(json, "hidden_pieces", plan->hidden);
    set(json, "pieces_beside", plan->beside);
    json_object_set_new(json, "pieces", pieces);
    json_object_set_new(json, "totals", totals_json(plan));
    return json;
}
