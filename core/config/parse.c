/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/config/schema.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* One parse: the document, and what its messages start with. */
struct parse {
    const char *path;
    struct mkt_error *error;
    yaml_document_t document;
};

static enum mkt_status fail_at(struct parse *parse, const yaml_node_t *node, enum mkt_status status,
                               const char *text)
{
    return mkt_error_set(parse->error, status, "%s:%zu: %s", parse->path, node->start_mark.line + 1,
                         text);
}

static enum mkt_status fail_format(struct parse *parse, const yaml_node_t *node, const char *format,
                                   ...) __attribute__((format(printf, 3, 4)));

static enum mkt_status fail_format(struct parse *parse, const yaml_node_t *node, const char *format,
                                   ...)
{
    char text[MKT_ERROR_TEXT_BYTES - 128];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return fail_at(parse, node, MKT_INVALID, text);
}

/* Edits (insert, delete, replace, swap of neighbours) between two short words; more than
 * `NEAR_BYTES` long: far. */
#define NEAR_BYTES 24
static unsigned edits_between(const char *a, const char *b)
{
    size_t a_bytes = strlen(a), b_bytes = strlen(b);
    unsigned table[NEAR_BYTES + 1][NEAR_BYTES + 1];

    if (a_bytes > NEAR_BYTES || b_bytes > NEAR_BYTES)
        return UINT32_MAX;
    for (size_t i = 0; i <= a_bytes; i++)
        for (size_t j = 0; j <= b_bytes; j++) {
            if (i == 0 || j == 0) {
                table[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned best = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (table[i - 1][j] + 1 < best)
                best = table[i - 1][j] + 1;
            if (table[i][j - 1] + 1 < best)
                best = table[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                table[i - 2][j - 2] + 1 < best)
                best = table[i - 2][j - 2] + 1;
            table[i][j] = best;
        }
    return table[a_bytes][b_bytes];
}

static void consider(const char *key, const char *wrong, const char **best, unsigned *best_edits)
{
    unsigned edits = edits_between(key, wrong);

    if (edits < *best_edits) {
        *best = key;
        *best_edits = edits;
    }
}

static enum mkt_status fail_unknown_key(struct parse *parse, const yaml_node_t *key,
                                        const char *word, const struct mkt_schema_table *table)
{
    const struct mkt_schema_table *other =
        table == &mkt_schema_rule ? &mkt_schema_resources : &mkt_schema_rule;
    const char *best = NULL;
    unsigned best_edits = strlen(word) > 4 ? 3 : 2; /* fewer than this is near */

    for (size_t i = 0; i < table->fields_count; i++)
        consider(table->fields[i].key, word, &best, &best_edits);
    if (table == &mkt_schema_resources)
        consider(MKT_SCHEMA_RULES_KEY, word, &best, &best_edits);
    if (best)
        return fail_format(parse, key, "unknown key '%.80s' (did you mean '%s'?)", word, best);
    for (size_t i = 0; i < other->fields_count; i++)
        if (strcmp(other->fields[i].key, word) == 0)
            return fail_format(parse, key, "key '%s' belongs to %s, not to %s", word, other->what,
                               table->what);
    return fail_format(parse, key, "unknown key '%.80s' in %s", word, table->what);
}

/* The text of a scalar; NULL if the node is none, is the null value, or holds a NUL. */
static const char *scalar(const yaml_node_t *node)
{
    const char *text;

    if (node->type != YAML_SCALAR_NODE)
        return NULL;
    text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length)
        return NULL;
    if (node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
        (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0))
        return NULL;
    return text;
}

static const struct mkt_schema_field *find_field(const struct mkt_schema_table *table,
                                                 const char *key)
{
    for (size_t i = 0; i < table->fields_count; i++)
        if (strcmp(table->fields[i].key, key) == 0)
            return &table->fields[i];
    return NULL;
}

static enum mkt_status set_datasets(struct parse *parse, const struct mkt_schema_field *field,
                                    const yaml_node_t *mapping, void *base)
{
    const char **datasets = (const char **)((char *)base + field->offset);

    if (mapping->type != YAML_MAPPING_NODE)
        return fail_format(parse, mapping, "'%s' takes %s", field->key,
                           mkt_schema_notation(field->kind));
    for (yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
         pair < mapping->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&parse->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&parse->document, pair->value);
        const char *pattern = scalar(key), *mode = scalar(value);
        struct mkt_error error;
        if (!pattern || !mode)
            return fail_format(parse, key, "'%s' takes %s", field->key,
                               mkt_schema_notation(field->kind));
        enum mkt_status status = mkt_schema_add_dataset(field, pattern, mode, datasets, &error);
        if (status != MKT_OK)
            return fail_at(parse, value, status, error.text);
    }
    return MKT_OK;
}

static enum mkt_status set_field(struct parse *parse, const struct mkt_schema_field *field,
                                 const yaml_node_t *node, void *base)
{
    const char *value = scalar(node);
    struct mkt_error error;
    enum mkt_status status;

    if (field->kind == MKT_VALUE_DATASETS)
        return set_datasets(parse, field, node, base);
    if (!value)
        return fail_format(parse, node, "'%s' takes %s", field->key,
                           mkt_schema_notation(field->kind));
    status = mkt_schema_set(field, value, base, &error);
    return status == MKT_OK ? MKT_OK : fail_at(parse, node, status, error.text);
}

static enum mkt_status set_rules(struct parse *parse, const yaml_node_t *list,
                                 struct mkt_config *config);

/* Sets the fields of a mapping in the structure at `base`; *seen_out has a bit for each that was
 * there. */
static enum mkt_status set_mapping(struct parse *parse, const yaml_node_t *mapping,
                                   const struct mkt_schema_table *table, void *base,
                                   uint64_t *seen_out)
{
    uint64_t seen = 0;
    bool seen_rules = false;

    for (yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
         pair < mapping->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&parse->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&parse->document, pair->value);
        const char *word = scalar(key);
        enum mkt_status status;

        if (!word)
            return fail_format(parse, key, "a key of %s must be a word", table->what);
        const struct mkt_schema_field *field = find_field(table, word);
        bool is_rules = table == &mkt_schema_resources && strcmp(word, MKT_SCHEMA_RULES_KEY) == 0;
        if (!field && !is_rules)
            return fail_unknown_key(parse, key, word, table);
        uint64_t bit = field ? UINT64_C(1) << (field - table->fields) : 0;
        if ((seen & bit) || (is_rules && seen_rules))
            return fail_format(parse, key, "key '%s' is there twice", word);
        seen |= bit;
        seen_rules |= is_rules;
        status = is_rules ? set_rules(parse, value, base) : set_field(parse, field, value, base);
        if (status != MKT_OK)
            return status;
    }
    *seen_out = seen;
    return MKT_OK;
}

/* The value of a key of a mapping; NULL if it isn't there. */
static const yaml_node_t *find_value(struct parse *parse, const yaml_node_t *mapping,
                                     const char *word)
{
    for (yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
         pair < mapping->data.mapping.pairs.top; pair++) {
        const char *key = scalar(yaml_document_get_node(&parse->document, pair->key));
        if (key && strcmp(key, word) == 0)
            return yaml_document_get_node(&parse->document, pair->value);
    }
    return NULL;
}

/* An ordinary file has no versions: what a rule says of them would be in vain. */
static enum mkt_status check_file_rule(struct parse *parse, const yaml_node_t *settings,
                                       const struct mkt_rule *rule, uint64_t seen)
{
    if (rule->mode != MKT_MODE_FILE)
        return MKT_OK;
    for (size_t i = 0; i < mkt_schema_rule.fields_count; i++) {
        const struct mkt_schema_field *field = &mkt_schema_rule.fields[i];

        if ((seen & UINT64_C(1) << i) && !field->of_files)
            return fail_format(parse, find_value(parse, settings, field->key),
                               "'%s' says nothing of ordinary files (`mode: file`)", field->key);
    }
    return MKT_OK;
}

static enum mkt_status set_rule(struct parse *parse, const yaml_node_t *node, struct mkt_rule *rule)
{
    uint64_t seen;
    enum mkt_status status;

    if (node->type != YAML_MAPPING_NODE)
        return fail_format(parse, node,
                           "each entry of '" MKT_SCHEMA_RULES_KEY
                           "' is a rule such as {match: \"plt*\", keep: 3}");
    rule->line = (uint32_t)node->start_mark.line + 1;
    status = set_mapping(parse, node, &mkt_schema_rule, rule, &seen);
    if (status != MKT_OK)
        return status;
    for (size_t i = 0; i < mkt_schema_rule.fields_count; i++)
        if (mkt_schema_rule.fields[i].required && !(seen & UINT64_C(1) << i))
            return fail_format(parse, node, "this rule has no '%s'", mkt_schema_rule.fields[i].key);
    return check_file_rule(parse, node, rule, seen);
}

/* `pattern: mode` or `pattern: {settings}` */
static enum mkt_status set_short_rule(struct parse *parse, const yaml_node_t *key,
                                      const yaml_node_t *value, struct mkt_rule *rule)
{
    const struct mkt_schema_field *match = find_field(&mkt_schema_rule, "match");
    const struct mkt_schema_field *mode = find_field(&mkt_schema_rule, "mode");
    uint64_t seen = 0;
    enum mkt_status status = set_field(parse, match, key, rule);

    rule->line = (uint32_t)key->start_mark.line + 1;
    if (status != MKT_OK)
        return status;
    if (value->type == YAML_SCALAR_NODE)
        return scalar(value) ? set_field(parse, mode, value, rule) : MKT_OK;
    if (value->type != YAML_MAPPING_NODE)
        return fail_format(parse, value,
                           "a pattern of '" MKT_SCHEMA_RULES_KEY
                           "' takes a mode, or settings such as {mode: memory, keep: 3}");
    status = set_mapping(parse, value, &mkt_schema_rule, rule, &seen);
    if (status == MKT_OK && (seen & UINT64_C(1) << (match - mkt_schema_rule.fields)))
        return fail_format(parse, value,
                           "the pattern stands before the colon: 'match' is one too "
                           "many");
    return status == MKT_OK ? check_file_rule(parse, value, rule, seen) : status;
}

static enum mkt_status make_rules(struct parse *parse, const yaml_node_t *node, ptrdiff_t count,
                                  struct mkt_config *config)
{
    if (count > MKT_CONFIG_MAX_RULES)
        return fail_format(parse, node, "more than %d rules", MKT_CONFIG_MAX_RULES);
    config->rules = calloc((size_t)count + 1, sizeof(*config->rules));
    return config->rules ? MKT_OK : fail_at(parse, node, MKT_NO_MEMORY, "out of memory");
}

static enum mkt_status set_short_rules(struct parse *parse, const yaml_node_t *mapping,
                                       struct mkt_config *config)
{
    const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
    ptrdiff_t count = mapping->data.mapping.pairs.top - pair;
    enum mkt_status status = make_rules(parse, mapping, count, config);

    for (ptrdiff_t i = 0; status == MKT_OK && i < count; i++) {
        const yaml_node_t *key = yaml_document_get_node(&parse->document, pair[i].key);
        const yaml_node_t *value = yaml_document_get_node(&parse->document, pair[i].value);
        config->rules_count = (uint32_t)i + 1;
        status = set_short_rule(parse, key, value, &config->rules[i]);
    }
    return status;
}

static enum mkt_status set_rules(struct parse *parse, const yaml_node_t *list,
                                 struct mkt_config *config)
{
    if (list->type == YAML_SCALAR_NODE && !scalar(list))
        return MKT_OK; /* "files:" with nothing under it */
    if (list->type == YAML_MAPPING_NODE)
        return set_short_rules(parse, list, config);
    if (list->type != YAML_SEQUENCE_NODE)
        return fail_format(parse, list, "'" MKT_SCHEMA_RULES_KEY "' takes a list of rules");
    ptrdiff_t count = list->data.sequence.items.top - list->data.sequence.items.start;
    enum mkt_status status = make_rules(parse, list, count, config);
    for (ptrdiff_t i = 0; status == MKT_OK && i < count; i++) {
        const yaml_node_t *node =
            yaml_document_get_node(&parse->document, list->data.sequence.items.start[i]);
        config->rules_count = (uint32_t)i + 1;
        status = set_rule(parse, node, &config->rules[i]);
    }
    return status;
}

/* ---- patterns that begin with a star ---- */

/* In YAML `*` begins an alias, and nobody wants one here: a key that begins with it at the start of
 * a line gets the quotes that its writer forgot. Lines stay where they are. */
struct quoting {
    char *text;
    size_t length;
};

static void put(struct quoting *quoting, const char *text, size_t length)
{
    memcpy(quoting->text + quoting->length, text, length);
    quoting->length += length;
}

/* The length of a bare key that begins with a star; 0: there is none. */
static size_t star_key(const char *text, size_t length)
{
    if (length == 0 || text[0] != '*')
        return 0;
    for (size_t i = 0; i < length && text[i] != '\n'; i++) {
        if (strchr("\"'\\\t", text[i]) || (text[i] == '#' && text[i - 1] == ' '))
            return 0;
        if (text[i] == ':' && (i + 1 == length || strchr(" \n\r\t", text[i + 1])))
            return i;
    }
    return 0;
}

static bool quote_stars(const char *text, size_t length, struct quoting *quoting_out)
{
    struct quoting quoting = {.text = malloc(2 * length + 1)};
    bool at_start = true;

    if (!quoting.text)
        return false;
    for (size_t i = 0; i < length; i++) {
        size_t key = at_start ? star_key(text + i, length - i) : 0;
        if (key > 0) {
            put(&quoting, "\"", 1);
            put(&quoting, text + i, key);
            put(&quoting, "\"", 1);
            i += key;
        }
        put(&quoting, text + i, 1);
        at_start = text[i] == '\n' || (at_start && text[i] == ' ');
    }
    *quoting_out = quoting;
    return true;
}

/* A low one that isn't there goes down with the high one. */
static enum mkt_status check_watermarks(struct parse *parse, const yaml_node_t *root,
                                        struct mkt_config *config)
{
    if (config->low_percent <= config->high_percent)
        return MKT_OK;
    const yaml_node_t *low = find_value(parse, root, "low_watermark");
    if (low)
        return fail_format(parse, low, "'low_watermark' (%u) is above 'high_watermark' (%u)",
                           config->low_percent, config->high_percent);
    config->low_percent = config->high_percent;
    return MKT_OK;
}

static enum mkt_status set_document(struct parse *parse, struct mkt_config *config)
{
    const yaml_node_t *root = yaml_document_get_root_node(&parse->document);
    uint64_t seen;

    if (!root || (root->type == YAML_SCALAR_NODE && !scalar(root)))
        return MKT_OK;
    if (root->type != YAML_MAPPING_NODE)
        return fail_format(parse, root, "a configuration is a list of 'key: value' lines");
    enum mkt_status status = set_mapping(parse, root, &mkt_schema_resources, config, &seen);
    return status == MKT_OK ? check_watermarks(parse, root, config) : status;
}

static enum mkt_status fail_syntax(struct parse *parse, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return mkt_error_set(parse->error, MKT_NO_MEMORY, "%s: out of memory", parse->path);
    return mkt_error_set(parse->error, MKT_INVALID, "%s:%zu: not YAML: %s", parse->path,
                         parser->problem_mark.line + 1,
                         parser->problem ? parser->problem : "cannot be read");
}

/* Loads the first document and sees that there is no second. */
static enum mkt_status load(struct parse *parse, yaml_parser_t *parser, struct mkt_config *config)
{
    yaml_document_t next;
    enum mkt_status status;

    if (!yaml_parser_load(parser, &parse->document))
        return fail_syntax(parse, parser);
    status = set_document(parse, config);
    yaml_document_delete(&parse->document);
    if (status != MKT_OK)
        return status;
    if (!yaml_parser_load(parser, &next))
        return fail_syntax(parse, parser);
    const yaml_node_t *root = yaml_document_get_root_node(&next);
    if (root)
        status = fail_format(parse, root, "a second document: a configuration is one");
    yaml_document_delete(&next);
    return status;
}

void mkt_config_init(struct mkt_config *config_out)
{
    *config_out = (struct mkt_config){.rules = NULL};
    for (size_t i = 0; i < mkt_schema_resources.fields_count; i++) {
        const struct mkt_schema_field *field = &mkt_schema_resources.fields[i];
        if (field->standard) {
            enum mkt_status status = mkt_schema_set(field, field->standard, config_out, NULL);
            assert(status == MKT_OK);
            (void)status;
        }
    }
}

void mkt_config_fini(struct mkt_config *config)
{
    for (uint32_t i = 0; i < config->rules_count; i++) {
        free((char *)config->rules[i].pattern);
        free((char *)config->rules[i].datasets);
        free((char *)config->rules[i].reader);
    }
    free(config->rules);
    config->rules = NULL;
    config->rules_count = 0;
}

enum mkt_status mkt_config_parse(const char *text, size_t length, const char *path,
                                 const struct mkt_config *base, struct mkt_config *config_out,
                                 struct mkt_error *error)
{
    struct parse parse = {.path = path, .error = error};
    struct mkt_config config;
    yaml_parser_t parser;
    enum mkt_status status;

    if (base) {
        config = *base;
        config.rules = NULL;
        config.rules_count = 0;
    } else
        mkt_config_init(&config);
    struct quoting quoted;
    if (!quote_stars(text, length, &quoted))
        return mkt_error_set(error, MKT_NO_MEMORY, "%s: out of memory", path);
    if (!yaml_parser_initialize(&parser)) {
        free(quoted.text);
        return mkt_error_set(error, MKT_NO_MEMORY, "%s: out of memory", path);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)quoted.text, quoted.length);
    status = load(&parse, &parser, &config);
    yaml_parser_delete(&parser);
    free(quoted.text);
    if (status == MKT_OK)
        *config_out = config;
    else
        mkt_config_fini(&config);
    return status;
}
