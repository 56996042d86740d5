/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * h5market-plan: what reading a part of a dataset would cost, and how it would be done. `h5market
 * plan` runs it. Reads no raw data.
 */
#include "core/cli/cli.h"
#include "vol/plan/plan.h"
#include "vol/save/opened.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINES 40u /* pieces that are listed unless --all is given */

struct options {
    const char *file, *dataset;
    uint64_t version;
    bool json, all;
    struct mkt_plan_asked asked;
};

static void parse_list(const char *text, char option, struct mkt_plan_list *list,
                       struct argp_state *state)
{
    if (!mkt_plan_parse_list(text, list))
        argp_error(state, "-%c takes numbers with commas, as 0,10,20, not '%s'", option, text);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 's':
        parse_list(argument, 's', &options->asked.start, state);
        return 0;
    case 'S':
        parse_list(argument, 'S', &options->asked.stride, state);
        return 0;
    case 'c':
        parse_list(argument, 'c', &options->asked.count, state);
        return 0;
    case 'k':
        parse_list(argument, 'k', &options->asked.block, state);
        return 0;
    case 'n':
        options->version = mkt_opened_parse_version(argument, state);
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case 'a':
        options->all = true;
        return 0;
    default:
        return mkt_opened_parse_two(key, argument, state, "FILE and DATASET", &options->file,
                                    &options->dataset);
    }
}

static const struct argp_option argp_options[] = {
    {"start", 's', "LIST", 0, "Where the selection starts (default: 0 in each dimension)", 0},
    {"stride", 'S', "LIST", 0, "From one block to the next (default: 1)", 0},
    {"count", 'c', "LIST", 0, "How many blocks (default: 1)", 0},
    {"block", 'k', "LIST", 0, "Elements of a block (default: 1)", 0},
    {"all", 'a', 0, 0, "List all pieces, not only the first 40", 0},
    {"json", 'j', 0, 0, "For programs: all of it as JSON", 0},
    {"version", 'n', "N", 0, "An older version that is kept; default the newest", 0},
    {0}};
static const struct argp argp = {
    argp_options,
    parse,
    "FILE DATASET",
    "Shows what a read of DATASET in FILE, or of a part of it, would cost: which pieces give how "
    "much of it, where they are, and how their bytes get into the program's memory. Reads none of "
    "it."
    "\v"
    "The part is a hyperslab in h5dump's notation, a LIST with a number for each dimension: "
    "`-s 0,10 -c 5,5`. Without any of -s, -S, -c, -k it is the whole dataset. The program's memory "
    "is taken as packed, and its type as the file's.\n\n"
    "PLACE is start:end (:stride where there are gaps) in each dimension. RUNS are contiguous in "
    "the piece and in memory. For pieces below memory HOW says first what would be read from the "
    "tier, in brackets what the other way would take: only the parts that are wanted, or the whole "
    "piece, whichever is to be had sooner by the speeds that the daemon measured; times are for "
    "one read at a time.\n\n"
    "The command has the version open for a moment, which counts as a read of it.",
    NULL,
    NULL,
    NULL};

/* ---- the plan ---- */

static int ask_speeds(struct mkt_client *client, struct mkt_plan *plan)
{
    json_t *status = NULL;
    int result = mkt_cli_query(client, MKT_QUERY_STATUS, NULL, &status);
    const json_t *tier = json_object_get(status, "tier");
    plan->speeds =
        (struct mkt_speeds){.bytes_per_s = mkt_cli_number(tier, "bytes_per_s"),
                            .latency_ns = (uint32_t)mkt_cli_number(tier, "latency_ns"),
                            .queue_depth = (uint32_t)mkt_cli_number(tier, "queue_depth")};
    plan->promote_after = mkt_cli_number(tier, "promote_after");
    json_decref(status);
    return result;
}

static void show(const struct mkt_plan *plan, const struct options *options, uint64_t version,
                 const struct mkt_array *array)
{
    const struct mkt_plan_names names = {
        .file = options->file, .dataset = options->dataset, .version = version};
    if (!options->json) {
        mkt_plan_print(plan, &names, array, options->all ? UINT64_MAX : LINES);
        return;
    }
    json_t *json = mkt_plan_json(plan, &names, array);
    mkt_cli_print_json(json);
    json_decref(json);
}

static enum mkt_status plan_opened(struct mkt_client *client, const struct mkt_opened *opened,
                                   const struct options *options, struct mkt_plan *plan,
                                   struct mkt_error *error)
{
    struct mkt_index_view index = {0};
    struct mkt_plan_dataset dataset = {0};
    enum mkt_status status = MKT_OK;
    if (opened->index_bytes)
        status = mkt_index_view_open(&index, opened->index, opened->index_bytes);
    if (status != MKT_OK)
        return mkt_error_set(error, status, "the index of the version is corrupt");
    status = mkt_plan_find(opened, &index, options->dataset, &dataset, error);
    if (status == MKT_OK)
        status = mkt_plan_select(&options->asked, &dataset.array, &plan->want, error);
    plan->element_bytes = dataset.array.element_bytes;
    if (status == MKT_OK)
        status = mkt_plan_reckon(plan, client, &index, &dataset, error);
    if (status == MKT_OK)
        show(plan, options, opened->version, &dataset.array);
    return status;
}

static int plan_file(struct mkt_client *client, const struct options *options)
{
    struct mkt_plan plan = {.count = 0};
    struct mkt_error error = {0};
    struct mkt_opened opened;
    const struct mkt_wanted wanted = {.file = options->file, .version = options->version};
    int result = ask_speeds(client, &plan);
    if (result == MKT_CLI_OK)
        result = mkt_opened_find(client, &wanted, &opened);
    if (result != MKT_CLI_OK)
        return result;
    if (plan_opened(client, &opened, options, &plan, &error) != MKT_OK) {
        mkt_cli_complain("%s: %s", options->file, error.text);
        result = MKT_CLI_FAILED;
    }
    mkt_plan_fini(&plan);
    mkt_client_close(client, opened.file);
    return result;
}

int main(int argc, char **argv)
{
    static char name[] = "h5market plan";
    struct options options = {0};
    struct mkt_client *client;

    argv[0] = program_invocation_name = name;
    argp_err_exit_status = MKT_CLI_USAGE;
    mkt_cli_parse(&argp, 0, argc, argv, &options);
    mkt_opened_be_native();
    int result = mkt_cli_connect(false, NULL, &client);
    if (result != MKT_CLI_OK)
        return result;
    result = plan_file(client, &options);
    mkt_client_destroy(client);
    return result;
}
