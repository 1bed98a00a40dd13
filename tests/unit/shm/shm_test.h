/* SPDX-License-Identifier: Apache-2.0 */
/* What the unit tests of shm/ share. */
#ifndef DSR_TEST_SHM_H
#define DSR_TEST_SHM_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* splitmix64: a sequence that is the same everywhere. */
static inline uint64_t test_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static inline void test_random_bytes(uint64_t *state, void *dst, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)dst)[i] = (uint8_t)test_random(state);
}

static inline uint64_t test_now_ns(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Open descriptors, and mappings of memory files of this process. */
static inline size_t test_count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	(void)closedir(dir);
	return count;
}

static inline size_t test_count_maps(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	size_t count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL)
		count += strstr(line, "memfd:daser") != NULL;
	(void)fclose(file);
	return count;
}

#endif
