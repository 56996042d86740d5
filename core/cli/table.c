/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/cli.h"

#include <stdlib.h>
#include <string.h>

struct mkt_cli_table {
    unsigned columns, rows, capacity;
    char **cells; /* rows x columns; row 0 is the headings */
    bool *right;
};

struct mkt_cli_table *mkt_cli_table_create(unsigned columns, const char *const headings[])
{
    struct mkt_cli_table *table = mkt_cli_alloc(sizeof(*table));
    table->columns = columns;
    table->right = mkt_cli_alloc(columns * sizeof(bool));
    const char **names = mkt_cli_alloc(columns * sizeof(char *));
    for (unsigned i = 0; i < columns; i++) {
        table->right[i] = headings[i][0] == '>';
        names[i] = headings[i] + table->right[i];
    }
    mkt_cli_table_add(table, names);
    free(names);
    return table;
}

void mkt_cli_table_add(struct mkt_cli_table *table, const char *const cells[])
{
    if (table->rows == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 16;
        char **grown = mkt_cli_alloc((size_t)table->capacity * table->columns * sizeof(char *));
        if (table->rows)
            memcpy(grown, table->cells, (size_t)table->rows * table->columns * sizeof(char *));
        free(table->cells);
        table->cells = grown;
    }
    for (unsigned i = 0; i < table->columns; i++)
        table->cells[(size_t)table->rows * table->columns + i] = mkt_cli_copy(cells[i]);
    table->rows++;
}

/* Characters of a UTF-8 text; good enough for columns. */
static int width(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += (*text & 0xc0) != 0x80;
    return count;
}

static void print_cell(FILE *out, const char *text, bool right, bool last, int column_width)
{
    int blanks = column_width - width(text);
    if (right)
        fprintf(out, "%*s", blanks, "");
    for (; *text; text++) /* a name must not steer the terminal */
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
    if (!right && !last)
        fprintf(out, "%*s", blanks, "");
    fputs(last ? "\n" : "  ", out);
}

void mkt_cli_table_print(const struct mkt_cli_table *table, FILE *out)
{
    int *widths = mkt_cli_alloc(table->columns * sizeof(int));
    for (unsigned i = 0; i < table->rows * table->columns; i++) {
        int needed = width(table->cells[i]);
        if (needed > widths[i % table->columns])
            widths[i % table->columns] = needed;
    }
    for (unsigned i = 0; i < table->rows * table->columns; i++) {
        unsigned column = i % table->columns;
        print_cell(out, table->cells[i], table->right[column], column + 1 == table->columns,
                   widths[column]);
    }
    free(widths);
}

void mkt_cli_table_destroy(struct mkt_cli_table *table)
{
    if (!table)
        return;
    for (unsigned i = 0; i < table->rows * table->columns; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table->right);
    free(table);
}
