/* SPDX-License-Identifier: Apache-2.0 */
/* One call of daserctl inside a test. */
#ifndef DSR_TEST_CLI_CALL_H
#define DSR_TEST_CLI_CALL_H

#include <jansson.h>

struct cli_call {
	int status;
	char *out;    /* owned */
	char *err;    /* owned */
	json_t *json; /* owned: out parsed, or NULL */
};

/* line: words separated by blanks, without the program's name. */
struct cli_call cli_call(const char *line);
void cli_call_done(struct cli_call *call);
/* Fails the test unless it ended so, with nothing or one line on the error stream that contains
 * `part` (NULL: nothing). */
struct cli_call cli_expect(const char *line, int status, const char *part);

#endif
