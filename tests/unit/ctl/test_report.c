/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "ctl_test.h"
#include "pool.h"

static struct dsr_actor_report reports[DSR_REPORT_MAX];

static const struct dsr_actor_report *find(uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(reports[i].name, name) == 0)
			return &reports[i];
	}
	fail_msg("no report of `%s`", name);
	return &reports[0]; /* not reached */
}

static uint32_t look(const struct test_instance *t)
{
	return dsr_report_actors(&t->control, TEST_NOW_NS, test_is_alive, reports);
}

static void nothing_started_means_scheduler_and_metrics_are_missing(void **state)
{
	char why[96];

	assert_int_equal(look(*state), 2);
	assert_string_equal(reports[0].name, "scheduler");
	assert_string_equal(reports[1].name, "metrics");
	for (int i = 0; i < 2; i++) {
		assert_true(reports[i].is_expected);
		assert_false(reports[i].is_up);
		assert_int_equal(reports[i].row, DSR_REPORT_NO_ROW);
	}
	dsr_report_why(&reports[0], why, sizeof(why));
	assert_string_equal(why, "never started");
	assert_false(dsr_report_is_good(reports, 2));
}

static void all_four_up_is_good(void **state)
{
	uint32_t count;

	test_fill(*state);
	count = look(*state);
	assert_int_equal(count, 4);
	assert_true(dsr_report_is_good(reports, count));
	assert_int_equal(find(count, "load-host:0")->restarts, 2);
	assert_int_equal(find(count, "store-host:0")->progress_age_ns, 78000000);
	assert_true(find(count, "store-host:0")->is_by_hand);
}

static void no_progress_for_two_seconds_is_down(void **state)
{
	struct test_instance *t = *state;
	uint32_t count;
	char why[96];

	test_fill(t);
	test_set_row(t, 2, DSR_ROLE_LOAD, "host:0", DSR_ACTOR_READY, 3210);
	count = look(t);
	assert_false(dsr_report_is_good(reports, count));
	dsr_report_why(find(count, "load-host:0"), why, sizeof(why));
	assert_string_equal(why, "no progress for 3.2 s");
}

static void a_gone_process_is_down_at_once(void **state)
{
	struct test_instance *t = *state;
	uint32_t count;
	char why[96];

	test_fill(t);
	t->control.rows[0].pid = TEST_GONE_PID;
	count = look(t);
	assert_false(dsr_report_is_good(reports, count));
	dsr_report_why(find(count, "scheduler"), why, sizeof(why));
	assert_string_equal(why, "process 4040 is gone");
	count = dsr_report_actors(&t->control, TEST_NOW_NS, NULL, reports);
	assert_true(dsr_report_is_good(reports, count));
}

static void half_a_pair_expects_the_other_half(void **state)
{
	struct test_instance *t = *state;
	uint32_t count;

	test_fill(t);
	test_set_row(t, 4, DSR_ROLE_STORE, "host:1", DSR_ACTOR_STARTING, 0);
	count = look(t);
	assert_int_equal(count, 6);
	assert_true(find(count, "load-host:1")->is_expected);
	assert_int_equal(find(count, "load-host:1")->row, DSR_REPORT_NO_ROW);
	assert_true(find(count, "store-host:1")->is_expected);
	assert_false(dsr_report_is_good(reports, count));
}

static void a_retired_device_is_not_missed(void **state)
{
	struct test_instance *t = *state;
	uint32_t count;

	test_fill(t);
	test_set_row(t, 2, DSR_ROLE_LOAD, "host:0", DSR_ACTOR_STOPPED, 60000);
	test_set_row(t, 3, DSR_ROLE_STORE, "host:0", DSR_ACTOR_STOPPED, 60000);
	count = look(t);
	assert_int_equal(count, 4);
	assert_false(find(count, "load-host:0")->is_expected);
	assert_true(dsr_report_is_good(reports, count));
}

static void a_pair_that_is_just_stopping_is_not_missed(void **state)
{
	struct test_instance *t = *state;
	uint32_t count;

	test_fill(t);
	test_set_row(t, 2, DSR_ROLE_LOAD, "host:0", DSR_ACTOR_DRAINING, 10);
	count = look(t);
	assert_true(dsr_report_is_good(reports, count));
	test_set_row(t, 2, DSR_ROLE_LOAD, "host:0", DSR_ACTOR_STOPPED, 100);
	count = look(t);
	assert_true(dsr_report_is_good(reports, count));
	/* its partner stayed: somebody stopped one of them alone */
	test_set_row(t, 2, DSR_ROLE_LOAD, "host:0", DSR_ACTOR_STOPPED, 6000);
	count = look(t);
	assert_false(dsr_report_is_good(reports, count));
	assert_true(find(count, "load-host:0")->is_expected);
}

static void an_actor_killed_while_draining_has_left(void **state)
{
	struct test_instance *t = *state;
	uint32_t count;

	test_fill(t);
	test_set_row(t, 2, DSR_ROLE_LOAD, "host:0", DSR_ACTOR_DRAINING, 60000);
	t->control.rows[2].pid = TEST_GONE_PID;
	test_set_row(t, 3, DSR_ROLE_STORE, "host:0", DSR_ACTOR_STOPPED, 60000);
	count = look(t);
	assert_true(dsr_report_is_good(reports, count));
}

static void rows_come_in_order_of_role_and_row(void **state)
{
	struct test_instance *t = *state;
	uint32_t count;

	test_set_row(t, 5, DSR_ROLE_SCHEDULER, "", DSR_ACTOR_READY, 0);
	test_set_row(t, 4, DSR_ROLE_METRICS, "", DSR_ACTOR_READY, 0);
	test_set_row(t, 3, DSR_ROLE_LOAD, "host:0", DSR_ACTOR_READY, 0);
	test_set_row(t, 2, DSR_ROLE_STORE, "host:0", DSR_ACTOR_READY, 0);
	test_set_row(t, 1, DSR_ROLE_LOAD, "host:1", DSR_ACTOR_READY, 0);
	test_set_row(t, 0, DSR_ROLE_STORE, "host:1", DSR_ACTOR_READY, 0);
	count = look(t);
	assert_int_equal(count, 6);
	for (uint32_t i = 1; i < count; i++)
		assert_true(reports[i - 1].role < reports[i].role ||
		            (reports[i - 1].role == reports[i].role &&
		             reports[i - 1].row < reports[i].row));
}

static void foreign_bytes_in_rows_do_no_harm(void **state)
{
	struct test_instance *t = *state;
	uint32_t count;

	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++) {
		test_set_row(t, i, DSR_ROLE_LOAD, "", DSR_ACTOR_READY, 0);
		memset(t->control.rows[i].device, 'a', DSR_DEVICE_NAME_MAX);
		t->control.rows[i].device[0] = (char)('A' + i % 26);
		t->control.rows[i].device[1] = (char)('a' + i / 26);
		t->control.rows[i].device[2] = '"';
	}
	count = look(t);
	assert_int_equal(count, 2 * DSR_ACTOR_ROWS + 2);
	for (uint32_t i = 0; i < count; i++)
		assert_null(strchr(reports[i].name, '"'));
	test_set_row(t, 0, 99, "host:0", DSR_ACTOR_READY, 0);
	assert_int_equal(look(t), 2 * DSR_ACTOR_ROWS);
}

static void l1_use_counts_every_lane(void **state)
{
	struct test_instance *t = *state;
	struct dsr_l1_report l1;

	test_fill(t);
	dsr_report_l1(&t->control, &t->geometry, &l1);
	assert_int_equal(l1.slots_used, 4);
	assert_int_equal(l1.bytes_used, 4 * 2 * 65536);
	assert_int_equal(l1.bytes_capacity, 32 * 2 * 65536);
	dsr_report_l1(&t->control, NULL, &l1);
	assert_int_equal(l1.bytes_capacity, 0);
	atomic_store(&t->control.scheduler->slots_free, UINT64_MAX);
	dsr_report_l1(&t->control, &t->geometry, &l1);
	assert_int_equal(l1.slots_used, 0);
}

static void geometry_is_read_from_a_pool(void **state)
{
	static const uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {1, 2, 3};
	struct dsr_pool_request request = {.fingerprint = fingerprint,
	                                   .slot_bytes = 8000,
	                                   .budget_bytes = 16 << 20,
	                                   .epoch = 9,
	                                   .lanes = 2,
	                                   .block_tokens = 16,
	                                   .max_slots = 100};
	struct dsr_pool_geometry geometry;
	uint64_t epoch = 0;
	char why[256] = "";
	int fd = dsr_pool_create(&request, why, sizeof(why));

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(dsr_report_geometry(fd, &geometry, &epoch, why, sizeof(why)), 0);
	assert_int_equal(epoch, 9);
	assert_int_equal(geometry.lanes, 2);
	assert_int_equal(geometry.slot_bytes, 8000);
	close(fd);
}

static void another_segment_is_no_pool(void **state)
{
	struct test_instance *t = *state;
	struct dsr_pool_geometry geometry;
	uint64_t epoch = 0;
	char why[256] = "";
	int pair[2];

	assert_int_equal(dsr_report_geometry(t->fd, &geometry, &epoch, why, sizeof(why)),
	                 -EPROTONOSUPPORT);
	assert_true(why[0] != '\0');
	assert_int_equal(pipe(pair), 0);
	assert_true(dsr_report_geometry(pair[0], &geometry, &epoch, why, sizeof(why)) < 0);
	close(pair[0]);
	close(pair[1]);
}

#define TEST(name)                                                                                 \
	cmocka_unit_test_setup_teardown(name, test_instance_set_up, test_instance_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_started_means_scheduler_and_metrics_are_missing),
		TEST(all_four_up_is_good),
		TEST(no_progress_for_two_seconds_is_down),
		TEST(a_gone_process_is_down_at_once),
		TEST(half_a_pair_expects_the_other_half),
		TEST(a_retired_device_is_not_missed),
		TEST(a_pair_that_is_just_stopping_is_not_missed),
		TEST(an_actor_killed_while_draining_has_left),
		TEST(rows_come_in_order_of_role_and_row),
		TEST(foreign_bytes_in_rows_do_no_harm),
		TEST(l1_use_counts_every_lane),
		TEST(geometry_is_read_from_a_pool),
		TEST(another_segment_is_no_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
