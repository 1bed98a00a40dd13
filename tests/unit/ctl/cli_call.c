/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_call.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "ctl_test.h"

#define WORDS_MAX 64

struct cli_call cli_call(const char *line)
{
	char program[] = "daserctl", *words = strdup(line), *rest = words, *word;
	char *argv[WORDS_MAX] = {program};
	struct cli_call call = {0};
	size_t out_bytes = 0, err_bytes = 0;
	FILE *out = open_memstream(&call.out, &out_bytes);
	FILE *err = open_memstream(&call.err, &err_bytes);
	int argc = 1;

	assert_non_null(words);
	assert_non_null(out);
	assert_non_null(err);
	while ((word = strsep(&rest, " ")) != NULL) {
		assert_true(argc < WORDS_MAX - 1);
		if (word[0] != '\0')
			argv[argc++] = word;
	}
	call.status = dsr_cli_main(argc, argv, out, err);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(fclose(err), 0);
	call.json = json_loads(call.out, JSON_REJECT_DUPLICATES, NULL);
	free(words);
	return call;
}

void cli_call_done(struct cli_call *call)
{
	json_decref(call->json);
	free(call->out);
	free(call->err);
	*call = (struct cli_call){0};
}

struct cli_call cli_expect(const char *line, int status, const char *part)
{
	struct cli_call call = cli_call(line);
	const char *end = strchr(call.err, '\n');

	if (call.status != status)
		fail_msg("`%s` ended with %d, not %d: %s%s", line, call.status, status, call.out,
		         call.err);
	if (part == NULL && call.err[0] != '\0')
		fail_msg("`%s` said `%s`", line, call.err);
	if (part != NULL && (end == NULL || end[1] != '\0' || strstr(call.err, part) == NULL ||
	                     strncmp(call.err, "daserctl: ", 10) != 0))
		fail_msg("`%s` said `%s`, not one line with `%s`", line, call.err, part);
	return call;
}
