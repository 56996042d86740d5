/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/config/schema.h"

static void write_table(FILE *out, const struct mkt_schema_table *table)
{
    fprintf(out, "| key | takes | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < table->fields_count; i++) {
        const struct mkt_schema_field *field = &table->fields[i];
        fprintf(out, "| `%s` | %s | ", field->key, mkt_schema_notation(field->kind));
        if (field->required)
            fprintf(out, "required");
        else if (field->standard_text)
            fprintf(out, "%s", field->standard_text);
        else
            fprintf(out, "`%s`", field->standard);
        fprintf(out, " | %s |\n", field->help);
    }
}

void mkt_config_write_reference(FILE *out)
{
    fprintf(out,
            "# Configuration\n"
            "\n"
            "Generated from `core/config/schema.c` by `mkt_config_reference`; change it there.\n"
            "\n"
            "A configuration is optional: without one every default below holds. It is a YAML "
            "file, by custom\n"
            "`h5market.yaml`, found through `H5MARKET_CONFIG` or `HDF5_VOL_CONNECTOR=\"market "
            "config=PATH\"`.\n"
            "A key or value that isn't known is an error with file and line, never ignored.\n"
            "\n"
            "```yaml\n"
            "memory: 8GiB\n"
            "files:\n"
            "  - {match: \"plt*\", keep: 3, wait: 60}\n"
            "  - {match: \"/scratch/**/chk_*\", mode: file}\n"
            "```\n"
            "\n"
            "Durations are whole numbers of seconds, or have a unit: `ms`, `s`, `m`, `h`, `d`. "
            "Sizes have the units `KiB`,\n"
            "`MiB`, `GiB`, `TiB` (powers of 1024; `K`, `M`, `G`, `T` are the same) or `KB`, `MB`, "
            "`GB`, `TB` (powers of 1000).\n"
            "\n"
            "## Resources\n"
            "\n"
            "These belong to the daemon and are read when it starts, from the file of the program "
            "that starts it\n"
            "(or `h5marketd --config PATH`). `h5market stat` and the log say what is in force.\n"
            "\n");
    write_table(out, &mkt_schema_resources);
    fprintf(out,
            "\n"
            "## Rules\n"
            "\n"
            "`" MKT_SCHEMA_RULES_KEY ":` is a list of rules, at most %d. They belong to the "
            "program that reads the configuration: each\n"
            "program has its own. For each file the first rule whose `match` fits counts, alone; "
            "`h5market config check FILE`\n"
            "says which. The short form is a mapping from patterns to a mode or to settings, in "
            "the order written (a key\n"
            "that begins with `*` needs no quotes at the start of a line):\n"
            "\n"
            "```yaml\n"
            "files:\n"
            "  plt*: {mode: memory, keep: 3}\n"
            "  out*.h5: {datasets: {\"/diagnostics/**\": memory}}\n"
            "  **/scratch/*: memory\n"
            "  *: both\n"
            "```\n"
            "\n",
            MKT_CONFIG_MAX_RULES);
    write_table(out, &mkt_schema_rule);
}
