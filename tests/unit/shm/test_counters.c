/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "shm_test.h"

struct fixture {
	int fd;
	struct dsr_control control;
};

static int set_up(void **state)
{
	struct fixture *f = test_calloc(1, sizeof(*f));

	*state = f;
	f->fd = dsr_control_create(1);
	assert_true(f->fd >= 0);
	assert_int_equal(dsr_control_attach(f->fd, true, &f->control, NULL, 0), 0);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	dsr_control_detach(&f->control);
	(void)close(f->fd);
	test_free(f);
	return 0;
}

static void add_goes_to_the_own_page_and_sum_takes_all(void **state)
{
	struct fixture *f = *state;

	dsr_counter_add(&f->control.counters[0], DSR_COUNTER_L1_HITS, 3);
	dsr_counter_add(&f->control.counters[0], DSR_COUNTER_L1_HITS, 4);
	dsr_counter_add(&f->control.counters[DSR_COUNTER_PAGES - 1], DSR_COUNTER_L1_HITS, 10);
	dsr_counter_add(&f->control.counters[100], DSR_COUNTER_L1_MISSES, 1);
	assert_int_equal(f->control.counters[0].v[DSR_COUNTER_L1_HITS], 7);
	assert_int_equal(dsr_counters_sum(&f->control, DSR_COUNTER_L1_HITS), 17);
	assert_int_equal(dsr_counters_sum(&f->control, DSR_COUNTER_L1_MISSES), 1);
	assert_int_equal(dsr_counters_sum(&f->control, DSR_COUNTER_ENGINE_ERRORS), 0);
}

static void no_page_and_no_counter_are_ignored(void **state)
{
	struct fixture *f = *state;

	dsr_counter_add(NULL, DSR_COUNTER_L1_HITS, 1);
	dsr_counter_add(&f->control.counters[1], DSR_COUNTER_COUNT, 1);
	dsr_counter_add(&f->control.counters[1], (enum dsr_counter)100000, 1);
	assert_int_equal(dsr_counters_sum(&f->control, DSR_COUNTER_COUNT), 0);
	for (unsigned i = 0; i < DSR_COUNTERS_PER_PAGE; i++)
		assert_int_equal(f->control.counters[1].v[i], 0);
}

static void claim_sets_the_owner_and_keeps_the_values(void **state)
{
	struct fixture *f = *state;
	struct dsr_counters_page *page = &f->control.counters[2];
	uint64_t generation;

	dsr_counters_claim(page, DSR_ROLE_LOAD, 11, 100);
	dsr_counter_add(page, DSR_COUNTER_COPIES, 5);
	generation = page->generation;
	dsr_counters_claim(page, DSR_ROLE_STORE, 22, 200);
	assert_int_equal(page->role, DSR_ROLE_STORE);
	assert_int_equal(page->incarnation, 22);
	assert_int_equal(page->pid, 200);
	assert_true(page->generation > generation);
	assert_int_equal(page->v[DSR_COUNTER_COPIES], 5);
}

static void retire_moves_the_values_and_frees_the_page(void **state)
{
	struct fixture *f = *state;
	struct dsr_counters_page *page = &f->control.counters[70];
	struct dsr_counters_page *retired = &f->control.counters[DSR_RETIRED_PAGE];
	uint64_t generation;

	dsr_counters_claim(page, DSR_ROLE_WORKER, 7, 8);
	generation = page->generation;
	for (unsigned i = 0; i < DSR_COUNTER_COUNT; i++)
		dsr_counter_add(page, (enum dsr_counter)i, i + 1);
	dsr_counters_retire(&f->control, 70);
	dsr_counters_retire(&f->control, 70);
	for (unsigned i = 0; i < DSR_COUNTER_COUNT; i++) {
		assert_int_equal(page->v[i], 0);
		assert_int_equal(retired->v[i], i + 1);
		assert_int_equal(dsr_counters_sum(&f->control, (enum dsr_counter)i), i + 1);
	}
	assert_int_equal(page->incarnation, 0);
	assert_int_equal(page->pid, 0);
	assert_true(page->generation > generation);
	assert_int_equal(retired->generation, 4);
}

static void retire_leaves_the_retired_page_and_what_is_no_page(void **state)
{
	struct fixture *f = *state;

	dsr_counter_add(&f->control.counters[DSR_RETIRED_PAGE], DSR_COUNTER_L1_HITS, 9);
	dsr_counters_retire(&f->control, DSR_RETIRED_PAGE);
	dsr_counters_retire(&f->control, DSR_COUNTER_PAGES);
	dsr_counters_retire(&f->control, UINT32_MAX);
	assert_int_equal(f->control.counters[DSR_RETIRED_PAGE].generation, 0);
	assert_int_equal(dsr_counters_sum(&f->control, DSR_COUNTER_L1_HITS), 9);
}

/* A scheduler died in the middle: some values moved, the generation is odd. */
static void retire_goes_on_where_a_dead_scheduler_stopped(void **state)
{
	struct fixture *f = *state;
	struct dsr_counters_page *retired = &f->control.counters[DSR_RETIRED_PAGE];

	dsr_counter_add(&f->control.counters[80], DSR_COUNTER_L2_READS, 5);
	atomic_store(&retired->generation, 7);
	retired->v[DSR_COUNTER_L1_HITS] = 3;
	assert_int_equal(dsr_counters_sum(&f->control, DSR_COUNTER_L1_HITS), 3);
	dsr_counters_retire(&f->control, 80);
	assert_int_equal(retired->generation, 8);
	assert_int_equal(retired->v[DSR_COUNTER_L1_HITS], 3);
	assert_int_equal(retired->v[DSR_COUNTER_L2_READS], 5);
}

#define RETIRES 1000

struct retiring {
	struct dsr_control *control;
	_Atomic uint64_t sums; /* taken by the reader */
};

/* As seldom as processes go: at most one page for each sum that is taken. */
static void *retire_pages(void *arg)
{
	struct retiring *r = arg;

	for (unsigned i = 0; i < RETIRES; i++) {
		unsigned page = i % DSR_RETIRED_PAGE;
		uint64_t sums = atomic_load(&r->sums);

		dsr_counter_add(&r->control->counters[page], DSR_COUNTER_L1_HITS, 1);
		dsr_counters_retire(r->control, page);
		while (atomic_load(&r->sums) == sums)
			(void)sched_yield();
	}
	return NULL;
}

static void a_sum_never_goes_down_while_pages_are_retired(void **state)
{
	struct fixture *f = *state;
	struct retiring r = {.control = &f->control};
	uint64_t last = 0, sum, wrong = 0;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, retire_pages, &r), 0);
	do {
		sum = dsr_counters_sum(&f->control, DSR_COUNTER_L1_HITS);
		atomic_fetch_add(&r.sums, 1);
		wrong += sum > RETIRES || sum < last;
		last = sum;
		(void)sched_yield();
	} while (sum < RETIRES);
	/* the thread waits for one more sum */
	atomic_fetch_add(&r.sums, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(wrong, 0);
}

static void every_counter_is_described(void **state)
{
	const struct dsr_counter_info *info, *before = NULL;

	(void)state;
	for (unsigned i = 0; i < DSR_COUNTER_COUNT; i++, before = info) {
		info = dsr_counter_info(i);
		assert_non_null(info);
		assert_true(strlen(info->name) > 0);
		assert_true(strncmp(info->metric, "daser_", 6) == 0);
		assert_true(strcmp(info->type, "counter") == 0 || strcmp(info->type, "gauge") == 0);
		/* the first line of a metric has its help */
		if (before == NULL || strcmp(before->metric, info->metric) != 0)
			assert_true(strlen(info->help) > 0);
	}
	assert_null(dsr_counter_info(DSR_COUNTER_COUNT));
	info = dsr_counter_info(DSR_COUNTER_DROP_NO_SLOT);
	assert_string_equal(info->name, "DROP_NO_SLOT");
	assert_string_equal(info->metric, "daser_drops_total");
	assert_string_equal(info->labels, "reason=\"no_slot\"");
	assert_string_equal(info->type, "counter");
}

static void numbers_have_names(void **state)
{
	(void)state;
	assert_string_equal(dsr_reason_name(DSR_REASON_EVICTED), "evicted");
	assert_string_equal(dsr_reason_name(DSR_REASON_COUNT - 1), "orphan");
	assert_string_equal(dsr_reason_name(DSR_REASON_COUNT), "?");
	assert_string_equal(dsr_role_name(DSR_ROLE_SCHEDULER), "scheduler");
	assert_string_equal(dsr_role_name(DSR_ROLE_CTL), "ctl");
	assert_string_equal(dsr_role_name(0), "?");
	assert_string_equal(dsr_role_name(UINT32_MAX), "?");
	assert_string_equal(dsr_actor_state_name(DSR_ACTOR_ABSENT), "absent");
	assert_string_equal(dsr_actor_state_name(DSR_ACTOR_STOPPED), "stopped");
	assert_string_equal(dsr_actor_state_name(DSR_ACTOR_STOPPED + 1), "?");
	for (unsigned i = 0; i < DSR_REASON_COUNT; i++)
		assert_string_not_equal(dsr_reason_name(i), "?");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(add_goes_to_the_own_page_and_sum_takes_all),
		TEST(no_page_and_no_counter_are_ignored),
		TEST(claim_sets_the_owner_and_keeps_the_values),
		TEST(retire_moves_the_values_and_frees_the_page),
		TEST(retire_leaves_the_retired_page_and_what_is_no_page),
		TEST(retire_goes_on_where_a_dead_scheduler_stopped),
		TEST(a_sum_never_goes_down_while_pages_are_retired),
		TEST(every_counter_is_described),
		TEST(numbers_have_names),
	};

	return cmocka_run_group_tests_name("counters", tests, NULL, NULL);
}
