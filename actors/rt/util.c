/* SPDX-License-Identifier: Apache-2.0 */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#define STAT_START_TIME 22 /* field of /proc/pid/stat, counted from 1 */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t); /* cannot fail for the clocks used here */
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

uint64_t dsr_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t dsr_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

uint64_t dsr_incarnation_new(void)
{
	/* Two objects of one process may start within one tick of the clock. */
	static _Atomic uint64_t last;
	uint64_t before = atomic_load(&last);
	uint64_t now;

	do {
		now = clock_ns(CLOCK_BOOTTIME);
		if (now <= before)
			now = before + 1;
	} while (!atomic_compare_exchange_weak(&last, &before, now));
	return now;
}

/* The command in field 2 may hold blanks and parentheses: fields are counted from the last ')'. */
static int parse_stat(const char *stat, char *ret_state, uint64_t *ret_ticks)
{
	const char *p = strrchr(stat, ')');
	uint64_t ticks;
	char state;
	int field;

	if (!p || sscanf(p, ") %c", &state) != 1)
		return -ESRCH;
	for (field = 2; p && field < STAT_START_TIME; field++) {
		p = strchr(p, ' ');
		if (p)
			p++;
	}
	if (!p || sscanf(p, "%" SCNu64, &ticks) != 1)
		return -ESRCH;
	*ret_state = state;
	*ret_ticks = ticks;
	return 0;
}

static int read_stat(int32_t pid, char *ret_state, uint64_t *ret_ticks)
{
	char path[32];
	char stat[1024];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%" PRId32 "/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		return -ESRCH;
	n = read(fd, stat, sizeof(stat) - 1);
	(void)close(fd);
	if (n <= 0)
		return -ESRCH;
	stat[n] = '\0';
	return parse_stat(stat, ret_state, ret_ticks);
}

int dsr_start_ticks(int32_t pid, uint64_t *ret_ticks)
{
	char state;

	return read_stat(pid, &state, ret_ticks);
}

bool dsr_process_lives(int32_t pid, uint64_t start_ticks)
{
	uint64_t ticks;
	char state;

	return read_stat(pid, &state, &ticks) == 0 && ticks == start_ticks && state != 'Z' &&
	       state != 'X';
}

int dsr_pidfd_open(int32_t pid, uint64_t start_ticks)
{
	uint64_t ticks;
	int fd;

	if (pid <= 0 || dsr_start_ticks(pid, &ticks) < 0 || ticks != start_ticks)
		return -ESRCH;
	fd = pidfd_open(pid, 0);
	if (fd == -1)
		return errno == EINVAL ? -ESRCH : -errno; /* EINVAL: a thread's id */
	/* The pid may have been reused before the open; after it, the pidfd pins it. */
	if (dsr_start_ticks(pid, &ticks) < 0 || ticks != start_ticks) {
		dsr_close(&fd);
		return -ESRCH;
	}
	return fd;
}

size_t dsr_utf8_next(const void *text, size_t bytes, uint32_t *ret_char)
{
	static const uint8_t mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	static const uint32_t least[] = {0, 0, 0x80, 0x800,
	                                 0x10000}; /* shorter forms exist below */
	const uint8_t *s = text;
	size_t n;
	size_t i;
	uint32_t c;

	if (bytes == 0 || (s[0] >= 0x80 && s[0] < 0xc0) || s[0] > 0xf4)
		return 0;
	n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (n > bytes)
		return 0;
	c = s[0] & mask[n];
	for (i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*ret_char = c;
	return n;
}

void dsr_close(int *fd)
{
	if (*fd == -1)
		return;
	(void)close(*fd);
	*fd = -1;
}

int dsr_copy_string(char *dst, size_t dst_bytes, const char *src)
{
	size_t n = strlen(src);

	if (dst_bytes == 0)
		return -E2BIG;
	if (n >= dst_bytes) {
		memcpy(dst, src, dst_bytes - 1);
		dst[dst_bytes - 1] = '\0';
		return -E2BIG;
	}
	memcpy(dst, src, n + 1);
	return 0;
}
