/* SPDX-License-Identifier: Apache-2.0 */
#include "quarantine.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "roles.h"
#include "util.h"

struct fixture {
	struct dsr_actor_row rows[DSR_ACTOR_ROWS];
	struct dsr_quarantine quarantine;
	pid_t child;
};

static void row(struct fixture *f, uint32_t i, uint32_t role, const char *device,
                uint64_t incarnation, pid_t pid)
{
	f->rows[i].role = role;
	f->rows[i].incarnation = incarnation;
	f->rows[i].pid = pid;
	(void)snprintf(f->rows[i].device, sizeof(f->rows[i].device), "%s", device);
	assert_int_equal(dsr_start_ticks(pid, &f->rows[i].start_ticks), 0);
}

/* Two store actors that live: this process and a child of it. */
static int setup(void **state)
{
	static struct fixture f;

	memset(&f, 0, sizeof(f));
	f.child = fork();
	if (f.child == 0) {
		(void)pause();
		_exit(0);
	}
	assert_true(f.child > 0);
	row(&f, 0, DSR_ROLE_SCHEDULER, "", 5, getpid());
	row(&f, 2, DSR_ROLE_LOAD, "host:0", 10, getpid());
	row(&f, 3, DSR_ROLE_STORE, "host:0", 11, getpid());
	row(&f, 5, DSR_ROLE_STORE, "host:1", 12, f.child);
	*state = &f;
	return 0;
}

static void end_child(struct fixture *f)
{
	if (f->child == 0)
		return;
	assert_int_equal(kill(f->child, SIGKILL), 0);
	assert_int_equal(waitpid(f->child, NULL, 0), f->child);
	f->child = 0;
}

static int teardown(void **state)
{
	end_child(*state);
	return 0;
}

static void every_living_store_actor_is_waited_for_until_it_answers(void **state)
{
	struct fixture *f = *state;
	uint32_t a, b;

	assert_int_equal(dsr_quarantine_begin(&f->quarantine, f->rows), 2);
	a = dsr_quarantine_meet(&f->quarantine, "host:0", 11);
	b = dsr_quarantine_meet(&f->quarantine, "host:1", 12);
	assert_int_equal(a, 3);
	assert_int_equal(b, 5);
	assert_int_equal(dsr_quarantine_meet(&f->quarantine, "host:2", 11), DSR_ACTOR_ROWS);
	dsr_quarantine_sweep(&f->quarantine);
	assert_int_equal(f->quarantine.left, 2);
	dsr_quarantine_end(&f->quarantine, a);
	dsr_quarantine_end(&f->quarantine, a);
	dsr_quarantine_end(&f->quarantine, DSR_ACTOR_ROWS);
	assert_int_equal(f->quarantine.left, 1);
	assert_int_equal(dsr_quarantine_meet(&f->quarantine, "host:0", 11), DSR_ACTOR_ROWS);
	dsr_quarantine_end(&f->quarantine, b);
	assert_int_equal(f->quarantine.left, 0);
}

static void one_that_dies_is_not_waited_for(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(dsr_quarantine_begin(&f->quarantine, f->rows), 2);
	end_child(f);
	dsr_quarantine_sweep(&f->quarantine);
	assert_int_equal(f->quarantine.left, 1);
	assert_int_equal(dsr_quarantine_meet(&f->quarantine, "host:1", 12), DSR_ACTOR_ROWS);
}

static void one_that_is_dead_and_not_reaped_counts_as_dead(void **state)
{
	struct fixture *f = *state;
	siginfo_t info;

	assert_int_equal(dsr_quarantine_begin(&f->quarantine, f->rows), 2);
	assert_int_equal(kill(f->child, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)f->child, &info, WEXITED | WNOWAIT), 0);
	dsr_quarantine_sweep(&f->quarantine);
	assert_int_equal(f->quarantine.left, 1);
}

static void one_that_was_dead_before_is_not_waited_for(void **state)
{
	struct fixture *f = *state;

	end_child(f);
	assert_int_equal(dsr_quarantine_begin(&f->quarantine, f->rows), 1);
}

static void another_process_with_its_pid_is_not_it(void **state)
{
	struct fixture *f = *state;

	f->rows[5].start_ticks--;
	assert_int_equal(dsr_quarantine_begin(&f->quarantine, f->rows), 1);
}

static void a_newer_incarnation_ends_the_wait_for_the_older(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(dsr_quarantine_begin(&f->quarantine, f->rows), 2);
	assert_int_equal(dsr_quarantine_meet(&f->quarantine, "host:0", 40), DSR_ACTOR_ROWS);
	assert_int_equal(f->quarantine.left, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(every_living_store_actor_is_waited_for_until_it_answers),
		T(one_that_dies_is_not_waited_for),
		T(one_that_is_dead_and_not_reaped_counts_as_dead),
		T(one_that_was_dead_before_is_not_waited_for),
		T(another_process_with_its_pid_is_not_it),
		T(a_newer_incarnation_ends_the_wait_for_the_older),
	};

	return cmocka_run_group_tests_name("scheduler_quarantine", tests, NULL, NULL);
}
