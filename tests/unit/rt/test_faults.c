/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "rt_test.h"

static char why[256];

static int set_up(void **state)
{
	struct dsr_faults *faults;

	assert_int_equal(dsr_faults_new(&faults), 0);
	*state = faults;
	return 0;
}

static int tear_down(void **state)
{
	struct dsr_faults *faults = *state;

	dsr_faults_free(&faults);
	assert_null(faults);
	dsr_faults_free(&faults);
	return 0;
}

#define arm(spec) dsr_faults_arm(*state, (spec), why, sizeof(why))

static void every_point_has_a_name_role_and_meaning(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < DSR_FAULT_COUNT; i++) {
		assert_string_not_equal(dsr_fault_name(i), "?");
		assert_string_not_equal(dsr_fault_role(i), "?");
		assert_string_not_equal(dsr_fault_meaning(i), "?");
	}
	assert_string_equal(dsr_fault_name(DSR_FAULT_COUNT), "?");
	assert_string_equal(dsr_fault_name(DSR_FAULT_LOAD_BEFORE_COPY), "load_before_copy");
	assert_string_equal(dsr_fault_role(DSR_FAULT_LOAD_BEFORE_COPY), "load");
}

static void nothing_happens_unarmed(void **state)
{
	int err = 5;

	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_LOAD_BEFORE_COPY, &err), DSR_FAULT_NONE);
	assert_int_equal(dsr_fault_at(NULL, DSR_FAULT_LOAD_BEFORE_COPY, &err), DSR_FAULT_NONE);
	assert_int_equal(err, 5);
}

#if DSR_WITH_FAULTS

static void fail_gives_its_errno_from_the_nth_time_on(void **state)
{
	int err = 0;

	assert_int_equal(arm("load_before_copy:nth=3:fail=EIO"), 0);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_LOAD_BEFORE_COPY, &err), DSR_FAULT_NONE);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_LOAD_BEFORE_COPY, &err), DSR_FAULT_NONE);
	assert_int_equal(err, 0);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_LOAD_BEFORE_COPY, &err), DSR_FAULT_FAIL);
	assert_int_equal(err, -EIO);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_LOAD_BEFORE_COPY, NULL), DSR_FAULT_FAIL);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_LOAD_AFTER_COPY, &err), DSR_FAULT_NONE);
	assert_int_equal(arm("load_before_copy:fail=28"), 0);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_LOAD_BEFORE_COPY, &err), DSR_FAULT_FAIL);
	assert_int_equal(err, -ENOSPC);
}

static void several_points_are_armed_and_disarmed_together(void **state)
{
	assert_int_equal(arm("store_before_commit:drop"), 0);
	assert_int_equal(arm("load_after_copy:corrupt"), 0);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_STORE_BEFORE_COMMIT, NULL), DSR_FAULT_DROP);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_LOAD_AFTER_COPY, NULL), DSR_FAULT_CORRUPT);
	dsr_faults_disarm(*state);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_STORE_BEFORE_COMMIT, NULL), DSR_FAULT_NONE);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_LOAD_AFTER_COPY, NULL), DSR_FAULT_NONE);
}

static void delay_waits_and_goes_on(void **state)
{
	uint64_t before = dsr_now_ns();

	assert_int_equal(arm("load_before_copy:delay=30"), 0);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_LOAD_BEFORE_COPY, NULL), DSR_FAULT_NONE);
	assert_true(dsr_now_ns() - before >= UINT64_C(29000000));
}

static void a_bad_spec_is_told_and_arms_nothing(void **state)
{
	static const struct {
		const char *spec, *why;
	} cases[] = {
		{"", "no fault point ``, see --help"},
		{"nowhere:kill", "no fault point `nowhere`, see --help"},
		{"load_before_copy", "fault action ``, expected kill, stop, fail=ERRNO, delay=MS, "
	                             "drop or corrupt"},
		{"load_before_copy:", "fault action ``, expected kill, stop, fail=ERRNO, delay=MS, "
	                              "drop or corrupt"},
		{"load_before_copy:explode", "fault action `explode`, expected kill, stop, "
	                                     "fail=ERRNO, delay=MS, drop or corrupt"},
		{"load_before_copy:fail=EWHAT", "fault action `fail=EWHAT`, expected kill, stop, "
	                                        "fail=ERRNO, delay=MS, drop or corrupt"},
		{"load_before_copy:fail=0", "fault action `fail=0`, expected kill, stop, "
	                                    "fail=ERRNO, delay=MS, drop or corrupt"},
		{"load_before_copy:delay=x", "fault action `delay=x`, expected kill, stop, "
	                                     "fail=ERRNO, delay=MS, drop or corrupt"},
		{"load_before_copy:nth=0:kill", "nth `0`, expected 1 or more"},
		{"load_before_copy:nth=-1:kill", "nth `-1`, expected 1 or more"},
		{"load_before_copy:nth=2", "fault action ``, expected kill, stop, fail=ERRNO, "
	                                   "delay=MS, drop or corrupt"},
	};
	char longest[300];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(arm(cases[i].spec), -EINVAL);
		assert_string_equal(why, cases[i].why);
	}
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(arm(longest), -EINVAL);
	assert_int_equal(dsr_fault_at(*state, DSR_FAULT_LOAD_BEFORE_COPY, NULL), DSR_FAULT_NONE);
}

extern char **environ;

static char *this_program;

/* Runs this program again with a spec; it reaches the point three times. */
static pid_t run_again(const char *spec)
{
	char text[64];
	char *argv[] = {this_program, text, NULL};
	pid_t pid;

	(void)snprintf(text, sizeof(text), "%s", spec);
	assert_int_equal(posix_spawn(&pid, this_program, NULL, NULL, argv, environ), 0);
	return pid;
}

static void kill_ends_the_process_at_the_point(void **state)
{
	pid_t pid = run_again("load_before_copy:nth=3:kill");
	int status;

	(void)state;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	pid = run_again("load_before_copy:nth=4:kill");
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void stop_stops_the_process_once(void **state)
{
	pid_t pid = run_again("load_before_copy:stop");
	int status;

	(void)state;
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
}

static int reach_three_times(const char *spec)
{
	struct dsr_faults *faults;
	int i;

	if (dsr_faults_new(&faults) < 0 || dsr_faults_arm(faults, spec, why, sizeof(why)) < 0)
		return 1;
	for (i = 0; i < 3; i++)
		(void)dsr_fault_at(faults, DSR_FAULT_LOAD_BEFORE_COPY, NULL);
	dsr_faults_free(&faults);
	return 0;
}

#else

static void arming_is_refused(void **state)
{
	assert_int_equal(arm("load_before_copy:kill"), -ENOTSUP);
	assert_string_equal(why, "fault points are compiled out (-Dfaults=false)");
	dsr_faults_disarm(*state);
}

#endif

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_point_has_a_name_role_and_meaning),
		cmocka_unit_test_setup_teardown(nothing_happens_unarmed, set_up, tear_down),
#if DSR_WITH_FAULTS
		cmocka_unit_test_setup_teardown(fail_gives_its_errno_from_the_nth_time_on, set_up,
		                                tear_down),
		cmocka_unit_test_setup_teardown(several_points_are_armed_and_disarmed_together,
		                                set_up, tear_down),
		cmocka_unit_test_setup_teardown(delay_waits_and_goes_on, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_bad_spec_is_told_and_arms_nothing, set_up,
		                                tear_down),
		cmocka_unit_test(kill_ends_the_process_at_the_point),
		cmocka_unit_test(stop_stops_the_process_once),
#else
		cmocka_unit_test_setup_teardown(arming_is_refused, set_up, tear_down),
#endif
	};

#if DSR_WITH_FAULTS
	this_program = argv[0];
	if (argc > 1)
		return reach_three_times(argv[1]);
#else
	(void)argc;
	(void)argv;
#endif
	return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
