/* SPDX-License-Identifier: Apache-2.0 */
#include "drainlist.h"

#include <errno.h>

#include "rig.h"

static int peers[3];

static void a_drain_is_over_when_all_older_reservations_are(void **state)
{
	struct dsr_drainlist list = {0};
	struct dsr_drain drain = {.peer = &peers[0], .req = 4, .upto = 10, .end_ns = 100}, over;
	int err = 1;

	(void)state;
	assert_int_equal(dsr_drainlist_add(&list, &drain), 0);
	assert_false(dsr_drainlist_next(&list, 3, 50, &over, &err));
	assert_false(dsr_drainlist_next(&list, 10, 99, &over, &err));
	assert_true(dsr_drainlist_next(&list, 11, 99, &over, &err));
	assert_int_equal(err, 0);
	assert_int_equal(over.req, 4);
	assert_ptr_equal(over.peer, &peers[0]);
	assert_false(dsr_drainlist_next(&list, UINT64_MAX, 1000, &over, &err));
	assert_int_equal(list.count, 0);
}

static void a_drain_gives_up_at_its_time(void **state)
{
	struct dsr_drainlist list = {0};
	struct dsr_drain drain = {.peer = &peers[0], .upto = 10, .end_ns = 100}, over;
	int err;

	(void)state;
	assert_int_equal(dsr_drainlist_add(&list, &drain), 0);
	assert_true(dsr_drainlist_next(&list, 10, 100, &over, &err));
	assert_int_equal(err, -ETIMEDOUT);
	/* What is done at that time is done all the same. */
	assert_int_equal(dsr_drainlist_add(&list, &drain), 0);
	assert_true(dsr_drainlist_next(&list, 11, 100, &over, &err));
	assert_int_equal(err, 0);
}

static void a_peer_that_is_gone_is_not_answered(void **state)
{
	struct dsr_drainlist list = {0};
	struct dsr_drain over;
	int err;

	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		struct dsr_drain drain = {.peer = &peers[i % 3], .req = i, .upto = 1, .end_ns = 9};

		assert_int_equal(dsr_drainlist_add(&list, &drain), 0);
	}
	dsr_drainlist_forget(&list, &peers[1]);
	assert_int_equal(list.count, 4);
	while (dsr_drainlist_next(&list, 2, 0, &over, &err))
		assert_ptr_not_equal(over.peer, &peers[1]);
	assert_int_equal(list.count, 0);
}

static void too_many_drains_are_refused(void **state)
{
	struct dsr_drainlist list = {0};
	struct dsr_drain drain = {.peer = &peers[0], .upto = 1, .end_ns = 9};

	(void)state;
	for (uint32_t i = 0; i < DSR_DRAINS_MAX; i++)
		assert_int_equal(dsr_drainlist_add(&list, &drain), 0);
	assert_int_equal(dsr_drainlist_add(&list, &drain), -EAGAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_drain_is_over_when_all_older_reservations_are),
		cmocka_unit_test(a_drain_gives_up_at_its_time),
		cmocka_unit_test(a_peer_that_is_gone_is_not_answered),
		cmocka_unit_test(too_many_drains_are_refused),
	};

	return cmocka_run_group_tests_name("scheduler_drainlist", tests, NULL, NULL);
}
