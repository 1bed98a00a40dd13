/* SPDX-License-Identifier: Apache-2.0 */
/* Writes docs/protocol.md: the hand-written head, then the tables of messages.def.
 *   protocol_doc HEAD              to standard output
 *   protocol_doc HEAD FILE         to FILE
 *   protocol_doc --check HEAD FILE exits 1 unless FILE is what would be written */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec.h"
#include "version.h"

static const char *const kinds[] = {"request", "reply", "event"};

static void write_message(FILE *f, const struct dsr_msg_info *info)
{
	uint32_t i;

	(void)fprintf(f, "### %u `%s`\n\n", info->type, info->name);
	(void)fprintf(f, "%s %s to %s: %s.\n\n", info->kind == DSR_KIND_EVENT ? "An" : "A",
	              kinds[info->kind], info->receiver, info->meaning);
	(void)fprintf(f, "| field | type | meaning |\n| --- | --- | --- |\n");
	for (i = 0; i < info->field_count; i++)
		(void)fprintf(f, "| `%s` | %s | %s |\n", info->fields[i].name, info->fields[i].type,
		              info->fields[i].doc);
	(void)fprintf(f, "\n");
}

static void write_tables(FILE *f)
{
	const struct dsr_msg_info *info;
	unsigned i;

	(void)fprintf(f, "## Messages of protocol %d.%d\n\n", DSR_PROTOCOL_MAJOR,
	              DSR_PROTOCOL_MINOR);
	(void)fprintf(f,
	              "| number | name | kind | to | meaning |\n| --- | --- | --- | --- | --- |\n");
	for (i = 0; (info = dsr_msg_at(i)); i++)
		(void)fprintf(f, "| %u | `%s` | %s | %s | %s |\n", info->type, info->name,
		              kinds[info->kind], info->receiver, info->meaning);
	(void)fprintf(f, "\n");
	for (i = 0; (info = dsr_msg_at(i)); i++)
		write_message(f, info);
}

/* The whole of a file (caller's, NUL-terminated), NULL with errno. */
static char *read_file(const char *path)
{
	FILE *in = fopen(path, "re");
	char *text = NULL;
	size_t bytes = 0;
	FILE *out;
	int c;

	if (!in)
		return NULL;
	out = open_memstream(&text, &bytes);
	if (out) {
		while ((c = fgetc(in)) != EOF)
			(void)fputc(c, out);
		(void)fclose(out);
	}
	(void)fclose(in);
	return text;
}

static char *make_document(const char *head_path)
{
	char *head = read_file(head_path);
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = head ? open_memstream(&text, &bytes) : NULL;

	if (f) {
		(void)fputs(head, f);
		write_tables(f);
		(void)fclose(f);
		text[bytes - 1] = '\0'; /* one newline at the end, not two */
	}
	free(head);
	return text;
}

static int write_document(const char *path, const char *text)
{
	/* style-ok: stdout: a program for people and the build */
	FILE *f = path ? fopen(path, "we") : stdout;

	if (!f || fputs(text, f) == EOF || fclose(f) == EOF) {
		(void)fprintf(stderr, "protocol_doc: %s: %s\n", path ? path : "output",
		              strerror(errno));
		return 1;
	}
	return 0;
}

static int check_document(const char *path, const char *text)
{
	char *found = read_file(path);
	int is_current = found && strcmp(found, text) == 0;

	free(found);
	if (is_current)
		return 0;
	(void)fprintf(stderr, "protocol_doc: %s is not current: run `ninja docs`\n", path);
	return 1;
}

int main(int argc, char **argv)
{
	int is_check = argc > 1 && strcmp(argv[1], "--check") == 0;
	const char *head = argv[argc > 1 ? 1 + is_check : 0];
	const char *path = argc > 2 + is_check ? argv[2 + is_check] : NULL;
	char *text;
	int status;

	if (argc < 2 + is_check || argc > 3 + is_check || (is_check && !path)) {
		(void)fprintf(stderr, "usage: protocol_doc [--check] HEAD [FILE]\n");
		return 2;
	}
	text = make_document(head);
	if (!text) {
		(void)fprintf(stderr, "protocol_doc: %s: %s\n", head, strerror(errno));
		return 1;
	}
	status = is_check ? check_document(path, text) : write_document(path, text);
	free(text);
	return status;
}
