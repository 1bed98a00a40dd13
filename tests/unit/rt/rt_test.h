/* SPDX-License-Identifier: Apache-2.0 */
/* What every unit test of actors/rt includes. */
#ifndef DSR_TEST_RT_H
#define DSR_TEST_RT_H

/* cmocka.h needs these four before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

#define TEST_WAIT_NS UINT64_C(20000000000) /* ends a test that hangs; nothing waits so long */

/* A run directory, mode 0700, in /tmp: sockets need a short path. The caller's to free. */
static inline char *test_make_run_dir(void)
{
	char *path = strdup("/tmp/daser-rt-XXXXXX");

	assert_non_null(path);
	assert_non_null(mkdtemp(path));
	return path;
}

/* Removes it with the files in it and frees the name. */
void test_remove_run_dir(char **path);

/* A reproducible random sequence; the seed is printed and can be given as DSR_TEST_SEED. */
uint64_t test_seed(void);
uint64_t test_random(uint64_t *state);

/* Turns of the loop until `*flag`, which a callback sets; fails after TEST_WAIT_NS. */
struct dsr_loop;
void test_run_until(struct dsr_loop *loop, const bool *flag);

#endif
