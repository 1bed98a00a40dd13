/* SPDX-License-Identifier: Apache-2.0 */
#include "jobs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define JOBS 8

struct fixture {
	struct dsr_jobs jobs;
	struct dsr_job_line lines[3];
	struct dsr_job job[3][JOBS];
};

static int set_up(void **state)
{
	struct fixture *f = test_calloc(1, sizeof(*f));

	f->jobs.limit = 16;
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < JOBS; j++)
			f->job[i][j].line = &f->lines[i];
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	test_free(*state);
	return 0;
}

static void add(struct fixture *f, int line, int job)
{
	assert_int_equal(dsr_jobs_add(&f->jobs, &f->job[line][job]), 0);
}

static void no_job_has_no_turn(void **state)
{
	struct fixture *f = *state;

	assert_null(dsr_jobs_turn(&f->jobs));
}

static void a_line_keeps_its_order(void **state)
{
	struct fixture *f = *state;

	for (int j = 0; j < 3; j++)
		add(f, 0, j);
	for (int j = 0; j < 3; j++) {
		assert_ptr_equal(dsr_jobs_turn(&f->jobs), &f->job[0][j]);
		dsr_jobs_remove(&f->jobs, &f->job[0][j]);
	}
	assert_null(dsr_jobs_turn(&f->jobs));
	assert_int_equal(f->jobs.count, 0);
	assert_int_equal(f->jobs.lines, 0);
}

static void a_job_keeps_its_turn_until_it_is_removed(void **state)
{
	struct fixture *f = *state;

	add(f, 0, 0);
	assert_ptr_equal(dsr_jobs_turn(&f->jobs), &f->job[0][0]);
	assert_ptr_equal(dsr_jobs_turn(&f->jobs), &f->job[0][0]);
}

static void lines_take_turns_whatever_their_length(void **state)
{
	struct fixture *f = *state;
	int given[3] = {0};

	for (int j = 0; j < JOBS - 2; j++)
		add(f, 0, j);
	add(f, 1, 0);
	add(f, 2, 0);
	for (int i = 0; i < 9; i++) {
		const struct dsr_job *job = dsr_jobs_turn(&f->jobs);

		given[job->line - f->lines]++;
	}
	assert_int_equal(given[0], 3);
	assert_int_equal(given[1], 3);
	assert_int_equal(given[2], 3);
}

static void a_new_line_waits_for_one_round_at_most(void **state)
{
	struct fixture *f = *state;

	add(f, 0, 0);
	add(f, 1, 0);
	(void)dsr_jobs_turn(&f->jobs);
	add(f, 2, 0);
	for (int i = 0; i < 3; i++)
		if (dsr_jobs_turn(&f->jobs) == &f->job[2][0])
			return;
	fail_msg("three turns, and none for the new line");
}

static void removing_leaves_the_others(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++)
			add(f, i, j);
	dsr_jobs_remove(&f->jobs, &f->job[1][1]); /* in the middle */
	dsr_jobs_remove(&f->jobs, &f->job[1][2]); /* the last */
	dsr_jobs_remove(&f->jobs, &f->job[1][0]); /* the only one: its line leaves the circle */
	assert_int_equal(f->jobs.count, 6);
	assert_int_equal(f->jobs.lines, 2);
	for (int i = 0; i < 4; i++)
		assert_ptr_not_equal(dsr_jobs_turn(&f->jobs)->line, &f->lines[1]);
	add(f, 1, 1);
	assert_int_equal(f->jobs.lines, 3);
	assert_ptr_equal(f->lines[1].first, &f->job[1][1]);
	assert_ptr_equal(f->lines[1].last, &f->job[1][1]);
}

static void removing_what_is_in_no_line_does_nothing(void **state)
{
	struct fixture *f = *state;

	add(f, 0, 0);
	dsr_jobs_remove(&f->jobs, &f->job[0][1]);
	dsr_jobs_remove(&f->jobs, &f->job[0][0]);
	dsr_jobs_remove(&f->jobs, &f->job[0][0]);
	assert_int_equal(f->jobs.count, 0);
}

static void the_limit_counts_all_lines(void **state)
{
	struct fixture *f = *state;

	f->jobs.limit = 3;
	add(f, 0, 0);
	add(f, 0, 1);
	add(f, 1, 0);
	assert_int_equal(dsr_jobs_add(&f->jobs, &f->job[2][0]), -EAGAIN);
	assert_false(f->job[2][0].is_queued);
	assert_int_equal(f->jobs.lines, 2);
	dsr_jobs_remove(&f->jobs, &f->job[0][0]);
	add(f, 2, 0);
}

static void room_grows_and_stays(void **state)
{
	struct dsr_job job = {0};
	struct dsr_ref *refs;

	(void)state;
	assert_int_equal(dsr_job_reserve(&job, 100), 0);
	assert_int_equal(job.capacity, 100);
	refs = job.refs;
	assert_int_equal(dsr_job_reserve(&job, 10), 0);
	assert_ptr_equal(job.refs, refs);
	assert_int_equal(dsr_job_reserve(&job, 1000), 0);
	job.refs[999].slot = 1;
	job.errs[999] = 1;
	job.digests[999] = 1;
	dsr_job_done(&job);
	assert_null(job.refs);
	assert_int_equal(job.capacity, 0);
	dsr_job_done(&job);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(no_job_has_no_turn),
		TEST(a_line_keeps_its_order),
		TEST(a_job_keeps_its_turn_until_it_is_removed),
		TEST(lines_take_turns_whatever_their_length),
		TEST(a_new_line_waits_for_one_round_at_most),
		TEST(removing_leaves_the_others),
		TEST(removing_what_is_in_no_line_does_nothing),
		TEST(the_limit_counts_all_lines),
		TEST(room_grows_and_stays),
	};

	return cmocka_run_group_tests_name("jobs", tests, NULL, NULL);
}
