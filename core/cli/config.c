/* SPDX-License-Identifier: BSD-3-Clause */
/* `h5market config check`: is the configuration right, and which rule is for a file? */
#include "core/cli/cli.h"

#include "core/client/name.h"
#include "core/config/schema.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIG_MAX_BYTES (256u << 10) /* as programs read it */

struct options {
    const char *config;
    char **files;
    int count;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'c':
        options->config = argument;
        return 0;
    case ARGP_KEY_ARGS:
        if (strcmp(state->argv[state->next], "check") != 0)
            argp_error(state, "the one thing to do is `check`");
        options->files = state->argv + state->next + 1;
        options->count = state->argc - state->next - 1;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "say what to do: `check`");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"config", 'c', "F", 0, "The configuration (default: $H5MARKET_CONFIG)", 0}, {0}};
static const struct argp argp = {
    argp_options,
    parse,
    "check [FILE...]",
    "Reads the configuration as programs and the daemon do, and names errors with file and line. "
    "For each FILE, which needn't be there, it says which rule applies, why those before it don't, "
    "and what is then in force."
    "\v"
    "Exit status: 0 it is right; 1 there is an error in it, or it can't be read; 2 wrong usage.",
    NULL,
    NULL,
    NULL};

/* ---- reading ---- */

static bool read_text(const char *path, char **text_out, size_t *length_out)
{
    FILE *file = fopen(path, "re");
    char *text = mkt_cli_alloc(CONFIG_MAX_BYTES + 1);
    struct stat info;
    if (!file || fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode)) {
        mkt_cli_complain("can't open the configuration %s: %s", path,
                         file ? "it is no file" : strerror(errno));
        if (file)
            fclose(file);
        free(text);
        return false;
    }
    size_t length = fread(text, 1, CONFIG_MAX_BYTES + 1, file);
    bool good = !ferror(file) && length <= CONFIG_MAX_BYTES;
    fclose(file);
    if (!good) {
        mkt_cli_complain("the configuration %s can't be read, or has more than %u bytes", path,
                         CONFIG_MAX_BYTES);
        free(text);
        return false;
    }
    *text_out = text;
    *length_out = length;
    return true;
}

static bool load(const char *path, struct mkt_config *config_out)
{
    struct mkt_error error;
    char *text;
    size_t length;
    if (!path) {
        puts("no configuration (H5MARKET_CONFIG isn't set): all defaults");
        mkt_config_init(config_out);
        return true;
    }
    if (!read_text(path, &text, &length))
        return false;
    enum mkt_status status = mkt_config_parse(text, length, path, NULL, config_out, &error);
    free(text);
    if (status != MKT_OK) {
        mkt_cli_complain("%s", error.text);
        return false;
    }
    printf("%s is right; it has %u rule%s\n", path, config_out->rules_count,
           config_out->rules_count == 1 ? "" : "s");
    return true;
}

/* ---- explaining ---- */

/* Says of each rule up to the first that matches why it does or doesn't. */
static const struct mkt_rule *explain_match(const struct mkt_config *config, const char *path)
{
    for (uint32_t i = 0; i < config->rules_count; i++) {
        const struct mkt_rule *rule = &config->rules[i];
        const char *text;
        bool matches = mkt_rule_matches(rule, path, &text);
        printf("  rule %u (line %u), `%s`: %s the %s %s\n", i + 1, rule->line, rule->pattern,
               matches ? "applies, it matches" : "doesn't match",
               text == path ? "path" : "name (it has no slash)", text);
        if (!matches)
            continue;
        if (i + 1 < config->rules_count)
            printf("  the %u after it don't count\n", config->rules_count - i - 1);
        return rule;
    }
    puts("  no rule applies: all defaults");
    return NULL;
}

/* "`both`" -> "both" */
static void print_default(const char *text)
{
    for (; *text; text++)
        if (*text != '`')
            putchar(*text);
    puts("   (default)");
}

static void print_settings(const struct mkt_config *config, const struct mkt_rule *rule)
{
    char text[4096];
    for (size_t i = 0; i < mkt_schema_rule.fields_count; i++) {
        const struct mkt_schema_field *field = &mkt_schema_rule.fields[i];
        const char *value = rule ? mkt_schema_show(field, rule, text, sizeof(text)) : "";
        if (field->required)
            continue;
        printf("  %-16s", field->key);
        if (value[0])
            puts(value);
        else if (strcmp(field->key, "until") == 0 && rule && rule->queue > 0)
            puts("consumed   (goes with `queue`)");
        else if (strcmp(field->key, "writer_timeout") == 0)
            printf("%s   (the resource of that name)\n",
                   mkt_config_show_duration(config->writer_timeout_ms, text, sizeof(text)));
        else
            print_default(field->standard_text);
    }
}

static void explain(const struct mkt_config *config, const char *file)
{
    char *path = mkt_path_absolute(file);
    printf("\n%s\n", path ? path : file);
    print_settings(config, explain_match(config, path ? path : file));
    free(path);
}

int mkt_cli_config(int argc, char **argv)
{
    struct options options = {.config = getenv("H5MARKET_CONFIG")};
    struct mkt_config config;
    mkt_cli_parse(&argp, 0, argc, argv, &options);
    if (options.config && !options.config[0])
        options.config = NULL;
    if (!load(options.config, &config))
        return MKT_CLI_FAILED;
    for (int i = 0; i < options.count; i++)
        explain(&config, options.files[i]);
    mkt_config_fini(&config);
    return MKT_CLI_OK;
}
