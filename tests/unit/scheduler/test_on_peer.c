/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "world.h"

static void dies(struct dsr_peer *peer)
{
	dsr_scheduler_ops.link->peer_dead(world.self, peer);
}

static const struct dsr_scheduler_state *shared(void)
{
	return world.rt.control.scheduler;
}

static void a_dead_worker_stops_its_engine_and_its_lane(void **state)
{
	int err;

	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 2, NULL, 0), 0);
	world_commit(1, 0, 1);
	dies(&world.workers[1]);
	assert_int_equal(world_lookup(0, 1, &err), 0);
	assert_int_equal(err, -ENOTCONN);
	assert_int_equal(shared()->entries_reserved, 1);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 2);
	assert_int_equal(shared()->engines, 1);
	/* It comes back as another process. */
	world.workers[1].incarnation = 5110;
	assert_int_equal(world_register(1), 0);
	assert_int_equal(world_ready(1), 0);
	world_commit(0, 0, 1);
	assert_int_equal(world_lookup(0, 1, &err), 1);
	assert_string_equal(world.calls, "spawn host:0;spawn host:1;");
}

static void a_dead_engine_process_loses_leases_and_reservations(void **state)
{
	int err;

	(void)state;
	world_serve();
	world_store(0, 2);
	assert_int_equal(world_lease(1, 0, 2), 0);
	assert_int_equal(world_reserve(2, 2, NULL, 2), 0);
	dies(&world.engine);
	assert_int_equal(shared()->leases, 0);
	assert_int_equal(shared()->leased_slots, 0);
	assert_int_equal(shared()->slots_quarantined, 2);
	assert_int_equal(shared()->engines, 1);
	assert_int_equal(world_lookup(0, 2, &err), 0);
	assert_int_equal(err, -ENOENT);
	world_answer_cancels(0);
	assert_int_equal(shared()->slots_quarantined, 0);
	assert_int_equal(shared()->reservations, 0);
}

static void devices_are_retired_when_the_engine_is_gone_for_good(void **state)
{
	(void)state;
	world_serve();
	world.calls[0] = '\0';
	dies(&world.workers[0]);
	dies(&world.workers[1]);
	assert_string_equal(world.calls, "");
	dies(&world.engine);
	assert_string_equal(world.calls, "retire host:0;retire host:1;");
	assert_int_equal(shared()->engines, 0);
	/* They are stopped by and by; until then their numbers are kept. */
	dies(&world.stores[0]);
	dies(&world.stores[1]);
	world.calls[0] = '\0';
	world.workers[0].incarnation = 5000;
	assert_int_equal(world_register(0), 0);
	assert_string_equal(world.calls, "spawn host:0;");
}

static void a_worker_that_comes_back_to_a_retired_device_gets_actors(void **state)
{
	(void)state;
	world_serve();
	dies(&world.workers[0]);
	dies(&world.workers[1]);
	dies(&world.engine);
	world.calls[0] = '\0';
	world.workers[0].incarnation = 5000;
	assert_int_equal(world_register(0), 0);
	assert_string_equal(world.calls, "spawn host:0;");
}

static void slots_of_a_gone_engine_wait_for_its_store_actors(void **state)
{
	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 2, NULL, 0), 0);
	dies(&world.workers[0]);
	dies(&world.workers[1]);
	dies(&world.engine);
	assert_int_equal(shared()->engines, 0);
	assert_int_equal(shared()->slots_quarantined, 2);
	world_answer_cancels(0);
	assert_int_equal(shared()->slots_quarantined, 0);
}

static void counters_of_dead_processes_stay_in_the_sums(void **state)
{
	uint32_t page;

	(void)state;
	assert_int_equal(world_register(0), 0);
	page = world_last(DSR_MSG_REGISTER_REPLY)->register_worker_reply.page;
	dsr_counter_add(&world.rt.control.counters[page], DSR_COUNTER_STORE_BYTES, 9);
	dies(&world.workers[0]);
	assert_int_equal(world.rt.control.counters[page].incarnation, 0);
	assert_int_equal(dsr_counters_sum(&world.rt.control, DSR_COUNTER_STORE_BYTES), 9);
}

static void strangers_come_and_go(void **state)
{
	struct dsr_peer other = world.stores[0];

	(void)state;
	world_serve();
	dies(&world.ctl);
	dies(&world.loads[0]);
	memcpy(other.device, "host:9", 7);
	other.incarnation = 999;
	dsr_scheduler_ops.link->peer_ready(world.self, &other);
	dies(&other);
	other.role = DSR_ROLE_WORKER;
	dies(&other);
	assert_int_equal(world_reserve(0, 1, NULL, 0), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(a_dead_worker_stops_its_engine_and_its_lane),
		T(a_dead_engine_process_loses_leases_and_reservations),
		T(devices_are_retired_when_the_engine_is_gone_for_good),
		T(a_worker_that_comes_back_to_a_retired_device_gets_actors),
		T(slots_of_a_gone_engine_wait_for_its_store_actors),
		T(counters_of_dead_processes_stay_in_the_sums),
		T(strangers_come_and_go),
	};

	return cmocka_run_group_tests_name("scheduler_on_peer", tests, NULL, NULL);
}
