/* SPDX-License-Identifier: Apache-2.0 */
#include "util.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "rt_test.h"

extern char **environ;

static void incarnations_always_grow(void **state)
{
	uint64_t last = 0;
	int i;

	(void)state;
	for (i = 0; i < 10000; i++) {
		uint64_t next = dsr_incarnation_new();

		assert_true(next > last);
		last = next;
	}
}

struct draws {
	uint64_t drawn[2000];
};

static void *draw(void *self)
{
	struct draws *draws = self;
	int i;

	for (i = 0; i < 2000; i++)
		draws->drawn[i] = dsr_incarnation_new();
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;

	return (*x > *y) - (*x < *y);
}

static void threads_never_share_an_incarnation(void **state)
{
	static struct draws draws[4];
	pthread_t threads[4];
	uint64_t *all = (uint64_t *)draws;
	int i;

	(void)state;
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, draw, &draws[i]), 0);
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	qsort(all, 8000, sizeof(*all), compare);
	for (i = 1; i < 8000; i++)
		assert_true(all[i] != all[i - 1]);
}

static void start_ticks_survive_an_odd_command_name(void **state)
{
	uint64_t before;
	uint64_t after;

	(void)state;
	assert_int_equal(dsr_start_ticks(getpid(), &before), 0);
	assert_true(before > 0);
	assert_int_equal(prctl(PR_SET_NAME, "a) S 1 (b) 2"), 0);
	assert_int_equal(dsr_start_ticks(getpid(), &after), 0);
	assert_true(before == after);
}

static void nobody_has_no_start_time(void **state)
{
	uint64_t ticks = 5;

	(void)state;
	assert_int_equal(dsr_start_ticks(-1, &ticks), -ESRCH);
	assert_int_equal(dsr_start_ticks(0x7ffffff0, &ticks), -ESRCH);
	assert_true(ticks == 5);
}

static void a_pidfd_is_of_exactly_that_process(void **state)
{
	char name[] = "cat";
	char *argv[] = {name, NULL};
	posix_spawn_file_actions_t actions;
	struct pollfd p = {.events = POLLIN};
	int pipe_fds[2];
	uint64_t ticks;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	(void)posix_spawn_file_actions_adddup2(&actions, pipe_fds[0], STDIN_FILENO);
	(void)posix_spawn_file_actions_addclose(&actions, pipe_fds[1]);
	assert_int_equal(posix_spawnp(&pid, name, &actions, NULL, argv, environ), 0);
	assert_int_equal(dsr_start_ticks(pid, &ticks), 0);
	assert_int_equal(dsr_pidfd_open(pid, ticks + 1), -ESRCH);
	assert_false(dsr_process_lives(pid, ticks + 1));
	assert_true(dsr_process_lives(pid, ticks));
	p.fd = dsr_pidfd_open(pid, ticks);
	assert_true(p.fd >= 0 || p.fd == -ENOSYS);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	if (p.fd >= 0)
		assert_int_equal(poll(&p, 1, 10000), 1);
	while (dsr_process_lives(pid, ticks)) /* a zombie does not */
		(void)sched_yield();
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(dsr_process_lives(pid, ticks));
	assert_int_equal(dsr_pidfd_open(pid, ticks), -ESRCH);
	if (p.fd >= 0)
		dsr_close(&p.fd);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
}

static void strings_are_cut_with_an_error(void **state)
{
	char text[4] = "zzz";

	(void)state;
	assert_int_equal(dsr_copy_string(text, sizeof(text), "abc"), 0);
	assert_string_equal(text, "abc");
	assert_int_equal(dsr_copy_string(text, sizeof(text), "defg"), -E2BIG);
	assert_string_equal(text, "def");
	assert_int_equal(dsr_copy_string(text, 0, ""), -E2BIG);
	assert_int_equal(dsr_copy_string(text, 1, ""), 0);
	assert_string_equal(text, "");
}

static void closing_takes_the_descriptor_away(void **state)
{
	int fd = dup(STDERR_FILENO);

	(void)state;
	assert_true(fd >= 0);
	dsr_close(&fd);
	assert_int_equal(fd, -1);
	dsr_close(&fd);
	assert_int_equal(fd, -1);
}

static void utf8_is_told_from_other_bytes(void **state)
{
	static const struct {
		const char *bytes;
		size_t n, want;
		uint32_t c;
	} cases[] = {
		{"a", 1, 1, 'a'},
		{"\0", 1, 1, 0},
		{"\xc3\xa4", 2, 2, 0xe4},
		{"\xe2\x82\xac", 3, 3, 0x20ac},
		{"\xf0\x9f\x98\x80", 4, 4, 0x1f600},
		{"\xf4\x8f\xbf\xbf", 4, 4, 0x10ffff},
		{"", 0, 0, 0},
		{"\x80", 1, 0, 0},
		{"\xc3", 1, 0, 0},
		{"\xc3\x28", 2, 0, 0},
		{"\xc0\x80", 2, 0, 0},
		{"\xe0\x80\x80", 3, 0, 0},
		{"\xed\xa0\x80", 3, 0, 0},
		{"\xf4\x90\x80\x80", 4, 0, 0},
		{"\xf8\x88\x80\x80\x80", 5, 0, 0},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t c = 0;

		assert_int_equal(dsr_utf8_next(cases[i].bytes, cases[i].n, &c), cases[i].want);
		assert_int_equal(c, cases[i].c);
	}
}

static void clocks_run(void **state)
{
	uint64_t before = dsr_now_ns();

	(void)state;
	assert_true(dsr_now_ns() >= before);
	assert_true(dsr_realtime_ns() > UINT64_C(1600000000000000000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(incarnations_always_grow),
		cmocka_unit_test(threads_never_share_an_incarnation),
		cmocka_unit_test(start_ticks_survive_an_odd_command_name),
		cmocka_unit_test(nobody_has_no_start_time),
		cmocka_unit_test(a_pidfd_is_of_exactly_that_process),
		cmocka_unit_test(strings_are_cut_with_an_error),
		cmocka_unit_test(closing_takes_the_descriptor_away),
		cmocka_unit_test(utf8_is_told_from_other_bytes),
		cmocka_unit_test(clocks_run),
	};

	return cmocka_run_group_tests_name("util", tests, NULL, NULL);
}
