/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing printed text with a file of tests/golden. Included after shm_test.h's headers. */
#ifndef DSR_TEST_SHM_GOLDEN_H
#define DSR_TEST_SHM_GOLDEN_H

#include <stdlib.h>

#include "shm_test.h"

/* The whole file, NUL-terminated; free it with test_free. path is relative to the repository. */
static inline char *golden_read(const char *path)
{
	char full[4096];
	char *text;
	FILE *file;
	long bytes;

	(void)snprintf(full, sizeof(full), "%s/%s", TEST_SOURCE_DIR, path);
	file = fopen(full, "re");
	if (file == NULL)
		fail_msg("cannot open %s", full);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	bytes = ftell(file);
	assert_true(bytes >= 0);
	rewind(file);
	text = test_calloc(1, (size_t)bytes + 1);
	assert_int_equal(fread(text, 1, (size_t)bytes, file), bytes);
	(void)fclose(file);
	return text;
}

/* Fails with the first line that differs from tests/golden/NAME. */
static inline void golden_check(const char *name, void (*print)(FILE *file))
{
	char path[256], *text = NULL, *golden;
	size_t bytes = 0, at = 0, line = 1;
	FILE *file = open_memstream(&text, &bytes);

	assert_non_null(file);
	print(file);
	assert_int_equal(fclose(file), 0);
	(void)snprintf(path, sizeof(path), "tests/golden/%s", name);
	golden = golden_read(path);
	for (; text[at] != '\0' && text[at] == golden[at]; at++)
		line += text[at] == '\n';
	if (text[at] != golden[at])
		fail_msg("%s line %zu is not what the code prints (run the test with --print)",
		         path, line);
	assert_true(bytes > 0);
	test_free(golden);
	free(text);
}

#endif
