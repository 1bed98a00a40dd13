/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "world.h"

static const struct dsr_scheduler_state *shared(void)
{
	return world.rt.control.scheduler;
}

static void drain(uint32_t timeout_ms)
{
	struct dsr_msg_drain m = {.timeout_ms = timeout_ms};

	world_call(&world.ctl, DSR_MSG_DRAIN, &m);
}

static const struct dsr_msg_reset_reply *reset(uint32_t entries_only)
{
	struct dsr_msg_reset m = {.entries_only = entries_only};

	world_call(&world.ctl, DSR_MSG_RESET, &m);
	return &world_last(DSR_MSG_RESET_REPLY)->reset_reply;
}

static void a_drain_of_nothing_is_answered_at_once(void **state)
{
	(void)state;
	world_serve();
	drain(1000);
	assert_int_equal(world_count(DSR_MSG_DRAIN_REPLY), 1);
	assert_int_equal(world_last(DSR_MSG_DRAIN_REPLY)->drain_reply.err, 0);
	drain(0);
	assert_int_equal(world_count(DSR_MSG_DRAIN_REPLY), 2);
	assert_int_equal(world_last(DSR_MSG_DRAIN_REPLY)->drain_reply.err, 0);
}

static void a_drain_waits_for_reservations_made_before_it_alone(void **state)
{
	struct dsr_ref refs[2];
	uint64_t reservation, req;

	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 2, NULL, 0), 0);
	memcpy(refs, world_refs, sizeof(refs));
	reservation = world.reservation;
	drain(60000);
	req = world.req;
	assert_int_equal(shared()->draining, 1);
	assert_int_equal(world_reserve(10, 1, NULL, 0), 0);
	memcpy(world_refs, refs, sizeof(refs));
	world.reservation = reservation;
	world_commit(0, 0, 2);
	world_commit(1, 0, 1);
	assert_int_equal(world_count(DSR_MSG_DRAIN_REPLY), 0);
	world_commit(1, 1, 1);
	assert_int_equal(world_count(DSR_MSG_DRAIN_REPLY), 1);
	assert_int_equal(world_last(DSR_MSG_DRAIN_REPLY)->drain_reply.err, 0);
	assert_ptr_equal(world.sent[world.sent_count - 1].peer, &world.ctl);
	assert_int_equal(world.sent[world.sent_count - 1].req, req);
	assert_int_equal(shared()->draining, 0);
	assert_int_equal(shared()->entries_reserved, 1);
}

static void a_drain_gives_up_and_says_what_is_left(void **state)
{
	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 3, NULL, 0), 0);
	drain(1500);
	world_tick(1);
	assert_int_equal(world_count(DSR_MSG_DRAIN_REPLY), 0);
	world_tick(1);
	assert_int_equal(world_count(DSR_MSG_DRAIN_REPLY), 1);
	assert_int_equal(world_last(DSR_MSG_DRAIN_REPLY)->drain_reply.err, -ETIMEDOUT);
	assert_int_equal(world_last(DSR_MSG_DRAIN_REPLY)->drain_reply.left, 3);
}

static void too_many_drains_are_refused_and_those_of_the_gone_forgotten(void **state)
{
	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 1, NULL, 0), 0);
	for (uint32_t i = 0; i < DSR_DRAINS_MAX; i++)
		drain(1000);
	assert_int_equal(world_count(DSR_MSG_DRAIN_REPLY), 0);
	drain(1000);
	assert_int_equal(world_count(DSR_MSG_DRAIN_REPLY), 1);
	assert_int_equal(world_last(DSR_MSG_DRAIN_REPLY)->drain_reply.err, -EAGAIN);
	assert_int_equal(dsr_counters_sum(&world.rt.control, DSR_COUNTER_REFUSED_DRAINS), 1);
	dsr_scheduler_ops.link->peer_dead(world.self, &world.ctl);
	assert_int_equal(shared()->draining, 0);
	world_tick(2);
	assert_int_equal(world_count(DSR_MSG_DRAIN_REPLY), 1);
}

static void forgetting_blocks_keeps_the_geometry_and_what_is_used(void **state)
{
	uint64_t epoch;
	int err;

	(void)state;
	world_serve();
	world_store(0, 3);
	world_store(100, 2);
	epoch = shared()->pool_epoch;
	assert_int_equal(world_lease(1, 100, 2), 0);
	assert_int_equal(reset(1)->err, 0);
	assert_int_equal(reset(1)->entries, 0);
	assert_int_equal(shared()->entries_visible, 2);
	assert_int_equal(world_lookup(0, 3, &err), 0);
	assert_int_equal(world_lookup(100, 2, &err), 2);
	assert_int_equal(shared()->pool_epoch, epoch);
}

static void forgetting_everything_is_refused_while_something_is_left(void **state)
{
	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 1, NULL, 0), 0);
	assert_int_equal(reset(0)->err, -EBUSY);
	assert_string_equal(reset(0)->reason.p, "engines 1, expected 0");
	dsr_scheduler_ops.link->peer_dead(world.self, &world.workers[0]);
	dsr_scheduler_ops.link->peer_dead(world.self, &world.workers[1]);
	dsr_scheduler_ops.link->peer_dead(world.self, &world.engine);
	assert_string_equal(reset(0)->reason.p, "reservations 1, expected 0");
	assert_int_not_equal(shared()->pool_epoch, 0);
}

static void after_a_reset_another_geometry_is_served(void **state)
{
	uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {99};
	struct dsr_msg_register_worker m = {
		.engine = {.p = "new", .n = 3},
		.fingerprint = {.p = fingerprint, .n = sizeof(fingerprint)},
		.world = 1,
		.lanes = 1,
		.writer = 1,
		.slot_bytes = 8192,
		.block_tokens = 32,
		.device = {.p = "host:0", .n = 6},
	};
	uint64_t epoch, generation;

	(void)state;
	world_serve();
	world_store(0, 3);
	epoch = shared()->pool_epoch;
	generation = world_refs[2].generation;
	for (uint32_t i = 0; i < 2; i++) {
		dsr_scheduler_ops.link->peer_dead(world.self, &world.workers[i]);
		dsr_scheduler_ops.link->peer_dead(world.self, &world.stores[i]);
	}
	dsr_scheduler_ops.link->peer_dead(world.self, &world.engine);
	world.workers[0].incarnation = 5000;
	world_call(&world.workers[0], DSR_MSG_REGISTER, &m);
	assert_int_equal(world_last(DSR_MSG_REGISTER_REPLY)->register_worker_reply.err, -EXDEV);
	assert_int_equal(reset(0)->err, 0);
	assert_int_equal(world_last(DSR_MSG_RESET_REPLY)->reset_reply.entries, 3);
	assert_int_equal(shared()->pool_epoch, 0);
	assert_int_equal(shared()->entries_visible, 0);
	assert_string_equal(world.objects[0].name, "");
	world_call(&world.workers[0], DSR_MSG_REGISTER, &m);
	assert_int_equal(world_last(DSR_MSG_REGISTER_REPLY)->register_worker_reply.err, 0);
	assert_int_equal(shared()->pool_epoch, epoch + 1);
	assert_true(shared()->next_generation > generation);
	assert_int_equal(reset(0)->err, -EBUSY);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(a_drain_of_nothing_is_answered_at_once),
		T(a_drain_waits_for_reservations_made_before_it_alone),
		T(a_drain_gives_up_and_says_what_is_left),
		T(too_many_drains_are_refused_and_those_of_the_gone_forgotten),
		T(forgetting_blocks_keeps_the_geometry_and_what_is_used),
		T(forgetting_everything_is_refused_while_something_is_left),
		T(after_a_reset_another_geometry_is_served),
	};

	return cmocka_run_group_tests_name("scheduler_on_operator", tests, NULL, NULL);
}
