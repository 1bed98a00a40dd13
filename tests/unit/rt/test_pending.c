/* SPDX-License-Identifier: Apache-2.0 */
#include "pending.h"

#include "rt_test.h"

static int set_up(void **state)
{
	struct dsr_pending *pending;

	assert_int_equal(dsr_pending_new(&pending), 0);
	*state = pending;
	return 0;
}

static int tear_down(void **state)
{
	struct dsr_pending *pending = *state;

	dsr_pending_free(&pending);
	assert_null(pending);
	dsr_pending_free(&pending);
	return 0;
}

static uint64_t add(struct dsr_pending *pending, struct dsr_pending_list *list, uint64_t at_ns,
                    uint64_t cookie)
{
	const struct dsr_request request = {
		.list = list, .at_ns = at_ns, .cookie = cookie, .type = 20};
	uint64_t req = 0;

	assert_int_equal(dsr_pending_add(pending, &request, &req), 0);
	assert_true(req != 0);
	return req;
}

static void a_request_is_taken_once_by_number_type_and_peer(void **state)
{
	struct dsr_pending *pending = *state;
	struct dsr_pending_list list = {0};
	struct dsr_pending_list other = {0};
	uint64_t req = add(pending, &list, 100, 5);
	struct dsr_request got;

	assert_false(dsr_pending_take(pending, &other, req, 20, &got));
	assert_false(dsr_pending_take(pending, &list, req, 22, &got));
	assert_false(dsr_pending_take(pending, &list, req + 65536, 20, &got));
	assert_false(dsr_pending_take(pending, &list, req + 1, 20, &got));
	assert_false(dsr_pending_take(pending, &list, 0, 20, &got));
	assert_true(dsr_pending_take(pending, &list, req, 20, &got));
	assert_true(got.cookie == 5 && got.req == req);
	assert_false(dsr_pending_take(pending, &list, req, 20, &got));
	assert_int_equal(dsr_pending_count(pending), 0);
}

static void a_number_is_never_used_again(void **state)
{
	struct dsr_pending *pending = *state;
	struct dsr_pending_list list = {0};
	uint64_t last = 0;
	struct dsr_request got;
	int i;

	for (i = 0; i < 1000; i++) {
		uint64_t req = add(pending, &list, 1, 0);

		assert_true(req > last);
		assert_false(dsr_pending_take(pending, &list, last, 20, &got));
		assert_true(dsr_pending_take(pending, &list, req, 20, &got));
		last = req;
	}
}

static void requests_fall_due_in_order_of_their_deadlines(void **state)
{
	struct dsr_pending *pending = *state;
	struct dsr_pending_list list = {0};
	uint64_t random = test_seed();
	uint64_t last = 0;
	struct dsr_request got;
	unsigned taken = 0;
	int i;

	for (i = 0; i < 5000; i++) {
		uint64_t req = add(pending, &list, 1 + test_random(&random) % 100000, 0);

		if (test_random(&random) % 4 == 0) {
			assert_true(dsr_pending_take(pending, &list, req, 20, &got));
			taken++;
		}
	}
	assert_false(dsr_pending_take_due(pending, 0, &got));
	while (dsr_pending_count(pending) > 0) {
		uint64_t next = dsr_pending_next_ns(pending);

		assert_false(dsr_pending_take_due(pending, next - 1, &got));
		assert_true(dsr_pending_take_due(pending, next, &got));
		assert_true(got.at_ns == next && next >= last);
		last = next;
		taken++;
	}
	assert_int_equal(taken, 5000);
	assert_true(dsr_pending_next_ns(pending) == UINT64_MAX);
	assert_int_equal(list.first, 0);
}

static void the_requests_of_a_dead_peer_are_found(void **state)
{
	struct dsr_pending *pending = *state;
	struct dsr_pending_list lists[3] = {{0}};
	uint64_t random = test_seed();
	struct dsr_request got;
	unsigned found = 0;
	int i;

	for (i = 0; i < 3000; i++)
		(void)add(pending, &lists[i % 3], test_random(&random), (uint64_t)(i % 3));
	while (dsr_pending_take_first(pending, &lists[1], &got)) {
		assert_true(got.cookie == 1);
		found++;
	}
	assert_int_equal(found, 1000);
	assert_int_equal(dsr_pending_count(pending), 2000);
	for (found = 0; dsr_pending_take_due(pending, UINT64_MAX, &got); found++)
		assert_true(got.cookie != 1);
	assert_int_equal(found, 2000);
}

static void the_table_has_a_limit_and_recovers_from_it(void **state)
{
	struct dsr_pending *pending = *state;
	struct dsr_pending_list list = {0};
	const struct dsr_request request = {.list = &list, .type = 20};
	struct dsr_request got;
	uint64_t req = 0;
	int i;

	for (i = 0; i < DSR_PENDING_MAX; i++)
		(void)add(pending, &list, (uint64_t)i, 0);
	assert_int_equal(dsr_pending_add(pending, &request, &req), -EAGAIN);
	assert_true(req == 0);
	assert_true(dsr_pending_take_due(pending, 0, &got));
	assert_int_equal(dsr_pending_add(pending, &request, &req), 0);
	assert_int_equal(dsr_pending_add(pending, &request, &req), -EAGAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_request_is_taken_once_by_number_type_and_peer,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_number_is_never_used_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(requests_fall_due_in_order_of_their_deadlines,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_requests_of_a_dead_peer_are_found, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(the_table_has_a_limit_and_recovers_from_it, set_up,
	                                        tear_down),
	};

	return cmocka_run_group_tests_name("pending", tests, NULL, NULL);
}
