/* SPDX-License-Identifier: Apache-2.0 */
/* With the argument --print: writes tests/golden/layout.txt. */
#include "layout_check.h"

#include <errno.h>

#include "golden.h"
#include "shm_test.h"
#include "version.h"

static void print_layout(FILE *file)
{
	(void)dsr_layout_dump(file);
}

static void the_golden_dump_is_what_the_code_prints(void **state)
{
	(void)state;
	golden_check("layout.txt", print_layout);
}

static char *layout_text(void)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	assert_non_null(file);
	assert_int_equal(dsr_layout_dump(file), 0);
	assert_int_equal(fclose(file), 0);
	return text;
}

/* No unnamed padding: the fields of each struct follow each other and fill it. */
static void every_byte_of_every_struct_has_a_name(void **state)
{
	char *text = layout_text(), *save = NULL;
	unsigned long size = 0, end = 0, off, bytes;
	char name[64];
	unsigned structs = 0;

	(void)state;
	for (char *line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "struct %63s size %lu", name, &bytes) == 2) {
			assert_int_equal(end, size);
			size = bytes;
			end = 0;
			structs++;
		} else if (sscanf(line, "  %63s off %lu size %lu", name, &off, &bytes) == 3) {
			assert_int_equal(off, end);
			end += bytes;
		}
	}
	assert_int_equal(end, size);
	assert_int_equal(structs, 13);
	free(text);
}

static void the_document_describes_this_version(void **state)
{
	char *document = golden_read("docs/shm-layout.md"), expected[64];

	(void)state;
	(void)snprintf(expected, sizeof(expected), "layout version %d.%d", DSR_LAYOUT_MAJOR,
	               DSR_LAYOUT_MINOR);
	if (strstr(document, expected) == NULL)
		fail_msg("docs/shm-layout.md does not name `%s`", expected);
	test_free(document);
}

/* Offset, size and name of each field stand in the document, in this order, under the struct. */
static void the_document_lists_every_field(void **state)
{
	char *document = golden_read("docs/shm-layout.md"), *text = layout_text(), *save = NULL;
	char name[64], row[160];
	const char *section = document;
	unsigned long off, bytes;

	(void)state;
	for (char *line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "struct %63s size %lu", name, &bytes) == 2) {
			(void)snprintf(row, sizeof(row), "`struct %s`, %lu bytes", name, bytes);
			section = strstr(document, row);
		} else if (sscanf(line, "  %63s off %lu size %lu", name, &off, &bytes) == 3) {
			(void)snprintf(row, sizeof(row), "| %lu | %lu | `%s` |", off, bytes, name);
			section = section == NULL ? NULL : strstr(section, row);
		} else {
			continue;
		}
		if (section == NULL)
			fail_msg("docs/shm-layout.md does not say `%s`", row);
	}
	free(text);
	test_free(document);
}

static void a_dump_that_cannot_be_written_is_eio(void **state)
{
	FILE *full = fopen("/dev/full", "we");

	(void)state;
	assert_non_null(full);
	assert_int_equal(dsr_layout_dump(full), -EIO);
	(void)fclose(full);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_golden_dump_is_what_the_code_prints),
		cmocka_unit_test(every_byte_of_every_struct_has_a_name),
		cmocka_unit_test(the_document_describes_this_version),
		cmocka_unit_test(the_document_lists_every_field),
		cmocka_unit_test(a_dump_that_cannot_be_written_is_eio),
	};

	if (argc == 2 && strcmp(argv[1], "--print") == 0)
		return dsr_layout_dump(stdout) < 0;
	return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
