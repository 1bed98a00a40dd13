/* SPDX-License-Identifier: Apache-2.0 */
#include "rt_test.h"

#include <dirent.h>
#include <fcntl.h>

#include "loop.h"

void test_remove_run_dir(char **path)
{
	DIR *dir = opendir(*path);
	struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
	(void)closedir(dir);
	assert_int_equal(rmdir(*path), 0);
	free(*path);
	*path = NULL;
}

uint64_t test_seed(void)
{
	const char *given = getenv("DSR_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : dsr_realtime_ns();

	print_message("# DSR_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

/* splitmix64 */
uint64_t test_random(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

void test_run_until(struct dsr_loop *loop, const bool *flag)
{
	uint64_t end_ns = dsr_now_ns() + TEST_WAIT_NS;

	while (!*flag) {
		assert_true(dsr_now_ns() < end_ns);
		assert_true(dsr_loop_step(loop, 100) >= 0);
	}
}
