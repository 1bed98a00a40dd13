/* SPDX-License-Identifier: Apache-2.0 */
#include "pages.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "util.h"

static int setup(void **state)
{
	static struct dsr_control control;
	int fd = dsr_control_create(64);

	assert_true(fd >= 0);
	assert_int_equal(dsr_control_attach(fd, true, &control, NULL, 0), 0);
	(void)close(fd);
	*state = &control;
	return 0;
}

static int teardown(void **state)
{
	dsr_control_detach(*state);
	return 0;
}

static uint32_t get(struct dsr_control *control, uint64_t incarnation, int32_t pid)
{
	uint32_t page;

	assert_int_equal(dsr_pages_get(control, DSR_ROLE_WORKER, incarnation, pid, &page), 0);
	assert_true(page >= DSR_ACTOR_ROWS && page < DSR_RETIRED_PAGE);
	assert_int_equal(control->counters[page].incarnation, incarnation);
	return page;
}

static void a_process_gets_one_page_and_always_the_same(void **state)
{
	struct dsr_control *control = *state;
	uint32_t page = get(control, 100, 1);

	assert_int_not_equal(get(control, 101, 2), page);
	assert_int_equal(get(control, 100, 1), page);
	assert_int_equal(control->counters[page].role, DSR_ROLE_WORKER);
	assert_int_equal(control->counters[page].pid, 1);
}

static void what_a_dead_process_counted_stays_in_the_sums(void **state)
{
	struct dsr_control *control = *state;
	uint32_t page = get(control, 100, 1);

	dsr_counter_add(&control->counters[page], DSR_COUNTER_LOAD_BYTES, 5);
	dsr_pages_put(control, 100);
	dsr_pages_put(control, 100);
	dsr_pages_put(control, 0);
	assert_int_equal(control->counters[page].incarnation, 0);
	assert_int_equal(dsr_counters_sum(control, DSR_COUNTER_LOAD_BYTES), 5);
	assert_int_equal(get(control, 102, 1), page);
	assert_int_equal(control->counters[page].v[DSR_COUNTER_LOAD_BYTES], 0);
}

static void pages_are_bounded(void **state)
{
	struct dsr_control *control = *state;
	uint32_t page;

	for (uint64_t i = 0; i < DSR_ENGINE_PAGES; i++)
		(void)get(control, 1000 + i, 1);
	assert_int_equal(dsr_pages_get(control, DSR_ROLE_WORKER, 5, 1, &page), -EAGAIN);
	dsr_pages_put(control, 1077);
	(void)get(control, 5, 1);
}

static bool is_seven(void *self, uint64_t incarnation)
{
	(void)self;
	return incarnation == 7;
}

static void a_sweep_folds_pages_of_unknown_dead_processes_alone(void **state)
{
	struct dsr_control *control = *state;
	uint64_t now = dsr_incarnation_new();
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	(void)get(control, 7, child);          /* known */
	(void)get(control, now, getpid());     /* lives */
	(void)get(control, now + 1, child);    /* dead */
	(void)get(control, 1000000, getpid()); /* claimed before this process started */
	assert_int_equal(dsr_pages_sweep(control, is_seven, NULL), 2);
	assert_int_equal(dsr_pages_sweep(control, is_seven, NULL), 0);
	(void)get(control, now, getpid());
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_process_gets_one_page_and_always_the_same),
		T(what_a_dead_process_counted_stays_in_the_sums),
		T(pages_are_bounded),
		T(a_sweep_folds_pages_of_unknown_dead_processes_alone),
	};

	return cmocka_run_group_tests_name("scheduler_pages", tests, NULL, NULL);
}
