/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "world.h"

static void blocks_are_promised_only_to_an_engine_that_is_served(void **state)
{
	int err;

	(void)state;
	assert_int_equal(world_lookup(0, 3, &err), 0);
	assert_int_equal(err, -ENOENT);
	assert_int_equal(world_engine(), 0);
	assert_int_equal(world_lookup(0, 3, &err), 0);
	assert_int_equal(err, -ENOTCONN);
	assert_int_equal(world_reserve(0, 3, NULL, 0), -ENOTCONN);
	assert_int_equal(world_lease(1, 0, 3), -ENOTCONN);
	world_serve();
	assert_int_equal(world_lookup(0, 3, &err), 0);
	assert_int_equal(err, 0);
}

static void what_all_lanes_committed_is_found_leased_and_released(void **state)
{
	struct dsr_msg_release release;
	uint64_t ids[2] = {5, 6};
	int err;

	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 3, NULL, 0), 0);
	assert_int_equal(world_ref_count, 3);
	world_commit(0, 0, 3);
	assert_int_equal(world_lookup(0, 4, &err), 0);
	world_commit(1, 0, 2);
	assert_int_equal(world_last(DSR_MSG_COMMIT_REPLY)->commit_reply.visible, 2);
	assert_int_equal(world_lookup(0, 4, &err), 2);
	world_commit(1, 2, 1);
	assert_int_equal(world_lookup(0, 4, &err), 3);
	assert_int_equal(world_last(DSR_MSG_LOOKUP_REPLY)->lookup_reply.l1, 3);
	assert_int_equal(world_lease(5, 0, 4), 0);
	assert_int_equal(world_ref_count, 3);
	assert_int_equal(world_last(DSR_MSG_LEASE_REPLY)->lease_reply.ttl_ms, 30000);
	assert_int_equal(world.rt.control.scheduler->leases, 1);
	assert_int_equal(world.rt.control.scheduler->leased_slots, 3);
	release.leases = (struct dsr_u64s){.v = ids, .n = 2};
	world_call(&world.engine, DSR_MSG_RELEASE, &release);
	assert_int_equal(world_last(DSR_MSG_RELEASE_REPLY)->release_reply.released, 1);
	assert_int_equal(world.rt.control.scheduler->leases, 0);
	assert_int_equal(dsr_counters_sum(&world.rt.control, DSR_COUNTER_LOOKUP_BLOCKS), 12);
	assert_int_equal(dsr_counters_sum(&world.rt.control, DSR_COUNTER_LOOKUP_HIT_BLOCKS), 5);
	assert_int_equal(dsr_counters_sum(&world.rt.control, DSR_COUNTER_BLOCKS_COMMITTED), 3);
}

static void a_lease_ends_by_its_time_to_live(void **state)
{
	struct dsr_key key = rig_key(0);
	struct dsr_msg_lease m = {.lease = 1, .keys = {.v = &key, .n = 1}, .ttl_ms = 1500};

	(void)state;
	world_serve();
	world_store(0, 1);
	world_call(&world.engine, DSR_MSG_LEASE, &m);
	assert_int_equal(world_last(DSR_MSG_LEASE_REPLY)->lease_reply.ttl_ms, 1500);
	world_tick(1);
	assert_int_equal(world.rt.control.scheduler->leases, 1);
	world_tick(1);
	assert_int_equal(world.rt.control.scheduler->leases, 0);
	m.lease = 2;
	m.ttl_ms = UINT32_MAX;
	world_call(&world.engine, DSR_MSG_LEASE, &m);
	assert_int_equal(world_last(DSR_MSG_LEASE_REPLY)->lease_reply.ttl_ms, 3600000);
}

/* SCHED_BEFORE_REPLY: it was carried out, so the repeat must find it. */
static void an_answer_that_was_lost_is_given_again(void **state)
{
	struct dsr_ref refs[2];
	char why[256];

	(void)state;
	world_serve();
	assert_int_equal(
		dsr_faults_arm(world.rt.faults, "sched_before_reply:drop", why, sizeof(why)), 0);
	assert_int_equal(world_reserve(0, 2, NULL, 0), -ETIMEDOUT);
	dsr_faults_disarm(world.rt.faults);
	assert_int_equal(world.rt.control.scheduler->entries_reserved, 2);
	world.reservation--;
	assert_int_equal(world_reserve(0, 2, NULL, 0), 0);
	assert_int_equal(world_ref_count, 2);
	assert_int_equal(world.rt.control.scheduler->entries_reserved, 2);
	memcpy(refs, world_refs, sizeof(refs));
	world.reservation--;
	assert_int_equal(world_reserve(0, 2, NULL, 0), 0);
	assert_memory_equal(refs, world_refs, sizeof(refs));
	world_commit(0, 0, 2);
	world_commit(1, 0, 2);
	assert_int_equal(world.rt.control.scheduler->entries_visible, 2);
}

static void a_parent_field_is_a_key_or_empty(void **state)
{
	struct dsr_key key = rig_key(0);
	struct dsr_msg_reserve reserve = {
		.reservation = 1,
		.keys = {.v = &key, .n = 1},
		.parent = {.p = key.b, .n = 31},
	};
	struct dsr_msg_lease lease = {
		.lease = 1,
		.keys = {.v = &key, .n = 1},
		.parent = {.p = key.b, .n = 1},
	};

	(void)state;
	world_serve();
	world_call(&world.engine, DSR_MSG_RESERVE, &reserve);
	assert_int_equal(world_last(DSR_MSG_RESERVE_REPLY)->reserve_reply.err, -EINVAL);
	assert_int_equal(world_last(DSR_MSG_RESERVE_REPLY)->reserve_reply.status.n, 0);
	world_call(&world.engine, DSR_MSG_LEASE, &lease);
	assert_int_equal(world_last(DSR_MSG_LEASE_REPLY)->lease_reply.err, -EINVAL);
	reserve.parent.n = 32;
	world_call(&world.engine, DSR_MSG_RESERVE, &reserve);
	assert_int_equal(world_last(DSR_MSG_RESERVE_REPLY)->reserve_reply.err, 0);
	assert_int_equal(world_last(DSR_MSG_RESERVE_REPLY)->reserve_reply.status.v[0], -ENOENT);
}

static void abandoned_blocks_are_cancelled_at_every_writer(void **state)
{
	struct dsr_msg_abandon m;

	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 3, NULL, 0), 0);
	m = (struct dsr_msg_abandon){.reservation = world.reservation,
	                             .refs = {.v = &world_refs[1], .n = 1}};
	world_call(&world.engine, DSR_MSG_ABANDON, &m);
	assert_int_equal(world_last(DSR_MSG_ABANDON_REPLY)->abandon_reply.err, 0);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 2);
	/* And the block behind it. */
	assert_int_equal(world_last(DSR_MSG_CANCEL)->cancel.refs.n, 2);
	assert_int_equal(world_last(DSR_MSG_CANCEL)->cancel.scheduler, world.rt.incarnation);
	assert_int_equal(world.rt.control.scheduler->slots_quarantined, 2);
	world_answer_cancels(0);
	assert_int_equal(world.rt.control.scheduler->slots_quarantined, 0);
	m.reservation = 77;
	world_call(&world.engine, DSR_MSG_ABANDON, &m);
	assert_int_equal(world_last(DSR_MSG_ABANDON_REPLY)->abandon_reply.err, -ENOENT);
	world_call(&world.ctl, DSR_MSG_ABANDON, &m);
	assert_int_equal(world_last(DSR_MSG_ABANDON_REPLY)->abandon_reply.err, -ENOENT);
}

static void a_mismatch_drops_the_block_that_is_still_that_one(void **state)
{
	struct dsr_ref refs[3];
	struct dsr_msg_mismatch m = {.lane = 1, .refs = {.v = refs, .n = 3}};
	int err;

	(void)state;
	world_serve();
	world_store(0, 3);
	refs[0] = world_refs[1];
	refs[1] = world_refs[2];
	refs[1].generation++;
	refs[2] = (struct dsr_ref){.entry = UINT32_MAX};
	world_call(&world.workers[1], DSR_MSG_MISMATCH, &m);
	assert_int_equal(world_last(DSR_MSG_MISMATCH_REPLY)->mismatch_reply.dropped, 1);
	assert_int_equal(world_lookup(0, 3, &err), 1);
	assert_int_equal(dsr_counters_sum(&world.rt.control, DSR_COUNTER_BLOCKS_MISMATCHED), 1);
}

static void nothing_is_promised_while_stopping(void **state)
{
	int err;

	(void)state;
	world_serve();
	world_store(0, 2);
	assert_int_equal(world_reserve(2, 1, NULL, 2), 0);
	dsr_scheduler_ops.drain(world.self);
	assert_false(dsr_scheduler_ops.is_drained(world.self));
	assert_int_equal(world_lookup(0, 2, &err), 0);
	assert_int_equal(err, -ENOTCONN);
	world_commit(0, 0, 1);
	world_commit(1, 0, 1);
	assert_true(dsr_scheduler_ops.is_drained(world.self));
	assert_int_equal(world_reserve(5, 1, NULL, 0), -ENOTCONN);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(blocks_are_promised_only_to_an_engine_that_is_served),
		T(what_all_lanes_committed_is_found_leased_and_released),
		T(a_lease_ends_by_its_time_to_live),
		T(an_answer_that_was_lost_is_given_again),
		T(a_parent_field_is_a_key_or_empty),
		T(abandoned_blocks_are_cancelled_at_every_writer),
		T(a_mismatch_drops_the_block_that_is_still_that_one),
		T(nothing_is_promised_while_stopping),
	};

	return cmocka_run_group_tests_name("scheduler_on_block", tests, NULL, NULL);
}
