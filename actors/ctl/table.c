/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_COLUMNS 32

struct table_column {
	const char *head; /* borrowed; not terminated */
	size_t length;
	size_t width;
	bool is_right;
};

struct dsr_table {
	struct table_column columns[TABLE_COLUMNS];
	size_t column_count;
	char **cells; /* owned, each owned */
	size_t cell_count;
	size_t cell_room;
	bool is_short; /* a cell was lost for want of memory */
};

int dsr_table_new(const char *heads, struct dsr_table **ret_table)
{
	struct dsr_table *table = calloc(1, sizeof(*table));

	if (table == NULL)
		return -ENOMEM;
	while (*heads != '\0' && table->column_count < TABLE_COLUMNS) {
		struct table_column *column = &table->columns[table->column_count++];

		column->is_right = *heads == '>';
		heads += column->is_right;
		column->head = heads;
		column->length = strcspn(heads, ",");
		column->width = column->length;
		heads += column->length + (heads[column->length] == ',');
	}
	*ret_table = table;
	return 0;
}

void dsr_table_free(struct dsr_table **table)
{
	struct dsr_table *t = *table;

	if (t == NULL)
		return;
	for (size_t i = 0; i < t->cell_count; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t);
	*table = NULL;
}

static bool make_room(struct dsr_table *table)
{
	size_t room = table->cell_room != 0 ? table->cell_room * 2 : 256;
	char **cells;

	if (table->cell_count < table->cell_room)
		return true;
	cells = reallocarray(table->cells, room, sizeof(*cells));
	if (cells == NULL)
		return false;
	table->cells = cells;
	table->cell_room = room;
	return true;
}

void dsr_table_cell(struct dsr_table *table, const char *format, ...)
{
	struct table_column *column = &table->columns[table->cell_count % table->column_count];
	va_list arguments;
	char *text = NULL;
	int n;

	va_start(arguments, format);
	n = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (table->is_short || n < 0 || !make_room(table)) {
		table->is_short = true; /* further cells would stand in wrong columns */
		if (n >= 0)
			free(text);
		return;
	}
	for (char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
	if ((size_t)n > column->width)
		column->width = (size_t)n;
	table->cells[table->cell_count++] = text;
}

/* One line in the making: blanks are held back until something follows them. */
struct line {
	FILE *out;
	int blanks;
};

static void print_cell(struct line *line, const struct table_column *column, const char *text,
                       size_t length)
{
	int pad = (int)(column->width - length);

	line->blanks += column->is_right ? pad : 0;
	if (length > 0) {
		fprintf(line->out, "%*s%.*s", line->blanks, "", (int)length, text);
		line->blanks = 0;
	}
	line->blanks += (column->is_right ? 0 : pad) + 2;
}

int dsr_table_print(const struct dsr_table *table, FILE *out)
{
	struct line line = {.out = out};

	for (size_t i = 0; i < table->column_count; i++)
		print_cell(&line, &table->columns[i], table->columns[i].head,
		           table->columns[i].length);
	for (size_t i = 0; i < table->cell_count; i++) {
		if (i % table->column_count == 0) {
			fputc('\n', out);
			line.blanks = 0;
		}
		print_cell(&line, &table->columns[i % table->column_count], table->cells[i],
		           strlen(table->cells[i]));
	}
	fputc('\n', out);
	if (table->is_short)
		return -ENOMEM;
	return ferror(out) ? -EIO : 0;
}

const char *dsr_table_bytes(uint64_t bytes, char *ret_text)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double value = (double)bytes;
	unsigned unit = 0;

	for (; value >= 1024 && unit < 4; unit++)
		value /= 1024;
	snprintf(ret_text, DSR_TABLE_TEXT, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
	return ret_text;
}

const char *dsr_table_time(uint64_t ns, char *ret_text)
{
	if (ns < 1000000)
		snprintf(ret_text, DSR_TABLE_TEXT, "%.1f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(ret_text, DSR_TABLE_TEXT, "%.2f ms", (double)ns / 1e6);
	else
		snprintf(ret_text, DSR_TABLE_TEXT, "%.2f s", (double)ns / 1e9);
	return ret_text;
}
