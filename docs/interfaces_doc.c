/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of docs/interfaces.md, from the .def files that also make the code.
 *   interfaces_doc FILE          writes each table anew between its markers
 *   interfaces_doc --check FILE  exits 1 unless FILE is what would be written
 * A table stands between the lines `<!-- generated: NAME -->` and `<!-- end -->`. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "options.h"
#include "roles.h"

#define BEGIN "<!-- generated: "
#define END "<!-- end -->\n"

struct table {
	const char *name; /* as in its marker */
	void (*write)(FILE *out);
	unsigned seen;
};

/* A cell: `|` would end it, in code spans too, and `<` would begin a tag. */
static void write_cell(FILE *out, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '|' || *text == '<')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void write_settings(FILE *out)
{
	const struct dsr_option_info *info;

	fputs("| key | flag | type | default | accepted | meaning |\n"
	      "| --- | --- | --- | --- | --- | --- |\n",
	      out);
	for (unsigned i = 0; (info = dsr_option_info(i)) != NULL; i++) {
		fprintf(out, "| `%s` | `--%s` | ", info->key, info->flag);
		write_cell(out, info->type);
		fputs(" | ", out);
		if (info->def[0] != '\0') {
			fputc('`', out);
			write_cell(out, info->def);
			fputc('`', out);
		} else {
			fputs("empty", out);
		}
		fputs(" | ", out);
		write_cell(out, info->accepted);
		fputs(" | ", out);
		write_cell(out, info->help);
		fputs(" |\n", out);
	}
}

struct gauge {
	const char *metric, *labels, *help;
};

static const struct gauge gauges[] = {
#define DSR_GAUGE(NAME, metric, labels, help) {(metric), (labels), (help)},
#include "gauges.def"
#undef DSR_GAUGE
};

/* The names of labels: `op="load",status="ok"` -> op, status. */
static void write_labels(FILE *out, const char *labels)
{
	const char *separator = "";

	while (*labels != '\0') {
		size_t length = strcspn(labels, "=,");

		fprintf(out, "%s`%.*s`", separator, (int)length, labels);
		separator = ", ";
		labels += length;
		if (*labels == '=') /* its value is quoted and has no quotes inside */
			labels += 2 + strcspn(labels + 2, "\"") + 1;
		labels += *labels == ',';
	}
}

static void write_metric(FILE *out, const char *metric, const char *type, const char *labels,
                         const char *help)
{
	fprintf(out, "| `%s` | %s | ", metric, type);
	write_labels(out, labels);
	fputs(" | ", out);
	write_cell(out, help);
	fputs(" |\n", out);
}

/* One row a metric: its first line has the help. */
static void write_metrics(FILE *out)
{
	const char *last = "";

	fputs("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n", out);
	for (unsigned i = 0; i < DSR_COUNTER_COUNT; i++) {
		const struct dsr_counter_info *info = dsr_counter_info(i);

		if (strcmp(info->metric, last) != 0)
			write_metric(out, info->metric, info->type, info->labels, info->help);
		last = info->metric;
	}
	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
		const struct gauge *gauge = &gauges[i];

		if (strcmp(gauge->metric, last) != 0)
			write_metric(out, gauge->metric, "gauge", gauge->labels, gauge->help);
		last = gauge->metric;
	}
}

static void write_reasons(FILE *out)
{
	fputs("| number | reason | meaning |\n| --- | --- | --- |\n", out);
#define DSR_REASON(NAME, name, number, meaning)                                                    \
	fprintf(out, "| %d | `%s` | %s |\n", (number), #name, (meaning));
#include "reasons.def"
#undef DSR_REASON
}

static void write_faults(FILE *out)
{
	fputs("| point | role | where, and what it heeds beside kill, stop and delay |\n"
	      "| --- | --- | --- |\n",
	      out);
#define DSR_FAULT(NAME, name, role, meaning)                                                       \
	fprintf(out, "| `%s` | %s | %s |\n", #name, #role, (meaning));
#include "faults.def"
#undef DSR_FAULT
}

static struct table *find_table(struct table *tables, size_t count, const char *line)
{
	const char *name = line + strlen(BEGIN);
	size_t length = strcspn(name, " ");

	for (size_t i = 0; i < count; i++) {
		if (strlen(tables[i].name) == length && strncmp(tables[i].name, name, length) == 0)
			return &tables[i];
	}
	fprintf(stderr, "interfaces_doc: no table is called `%.*s`\n", (int)length, name);
	return NULL;
}

/* Copies `in` to `out`, replacing what stands between markers. False with a message. */
static bool rewrite(FILE *in, FILE *out)
{
	struct table tables[] = {
		{"settings", write_settings, 0},
		{"metrics", write_metrics, 0},
		{"reasons", write_reasons, 0},
		{"faults", write_faults, 0},
	};
	const size_t count = sizeof(tables) / sizeof(tables[0]);
	struct table *inside = NULL;
	bool is_good = true;
	char *line = NULL;
	size_t room = 0;

	while (is_good && getline(&line, &room, in) != -1) {
		if (inside != NULL && strcmp(line, END) == 0)
			inside = NULL;
		if (inside == NULL)
			fputs(line, out);
		if (inside != NULL || strncmp(line, BEGIN, strlen(BEGIN)) != 0)
			continue;
		inside = find_table(tables, count, line);
		is_good = inside != NULL;
		if (is_good) {
			inside->seen++;
			inside->write(out);
		}
	}
	free(line);
	if (is_good && inside != NULL)
		fprintf(stderr, "interfaces_doc: table `%s` has no end\n", inside->name);
	is_good = is_good && inside == NULL;
	for (size_t i = 0; i < count && is_good; i++) {
		if (tables[i].seen != 1)
			fprintf(stderr, "interfaces_doc: table `%s` is there %u times, not once\n",
			        tables[i].name, tables[i].seen);
		is_good = tables[i].seen == 1;
	}
	return is_good && !ferror(in) && !ferror(out);
}

static bool is_same(const char *path, const char *text, size_t bytes)
{
	FILE *file = fopen(path, "re");
	bool same = file != NULL;

	for (size_t i = 0; i < bytes && same; i++)
		same = fgetc(file) == (unsigned char)text[i];
	same = same && fgetc(file) == EOF;
	if (file != NULL)
		fclose(file);
	return same;
}

static bool write_file(const char *path, const char *text, size_t bytes)
{
	FILE *file = fopen(path, "we");
	bool is_good;

	if (file == NULL)
		return false;
	is_good = fwrite(text, 1, bytes, file) == bytes;
	return fclose(file) == 0 && is_good;
}

/* Makes the text that the file should have; freed by the caller. NULL with a message. */
static char *make_text(const char *path, size_t *ret_bytes)
{
	FILE *in = fopen(path, "re");
	char *text = NULL;
	FILE *out;
	bool is_good;

	if (in == NULL) {
		fprintf(stderr, "interfaces_doc: `%s`: %s\n", path, strerror(errno));
		return NULL;
	}
	out = open_memstream(&text, ret_bytes);
	is_good = out != NULL && rewrite(in, out);
	fclose(in);
	if (out != NULL && fclose(out) != 0)
		is_good = false;
	if (is_good)
		return text;
	fprintf(stderr, "interfaces_doc: `%s` is left as it is\n", path);
	free(text);
	return NULL;
}

int main(int argc, char **argv)
{
	bool is_check = argc == 3 && strcmp(argv[1], "--check") == 0;
	const char *path = argv[argc - 1];
	size_t bytes = 0;
	char *text;
	int status = 0;

	if (argc != 2 && !is_check) {
		fputs("usage: interfaces_doc [--check] FILE\n", stderr);
		return 2;
	}
	text = make_text(path, &bytes);
	if (text == NULL)
		return 1;
	if (is_check && !is_same(path, text, bytes)) {
		fprintf(stderr, "`%s` is not current: run `ninja -C build docs`\n", path);
		status = 1;
	} else if (!is_check && !is_same(path, text, bytes) && !write_file(path, text, bytes)) {
		fprintf(stderr, "interfaces_doc: `%s`: %s\n", path, strerror(errno));
		status = 1;
	}
	free(text);
	return status;
}
