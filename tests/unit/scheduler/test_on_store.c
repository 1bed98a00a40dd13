/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "world.h"

static const struct dsr_scheduler_state *shared(void)
{
	return world.rt.control.scheduler;
}

static struct dsr_msg_abort abort_of(uint32_t rank, uint32_t first, uint32_t count)
{
	return (struct dsr_msg_abort){
		.engine = world.engine.incarnation,
		.reservation = world.reservation,
		.lane = rank,
		.refs = {.v = world_refs + first, .n = count},
	};
}

static void a_commit_must_come_from_the_store_actor_of_its_lane(void **state)
{
	struct dsr_msg_commit m;

	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 1, NULL, 0), 0);
	m = (struct dsr_msg_commit){
		.engine = world.engine.incarnation,
		.reservation = world.reservation,
		.lane = 1,
		.refs = {.v = world_refs, .n = 1},
	};
	world_call(&world.ctl, DSR_MSG_COMMIT, &m);
	assert_int_equal(world_last(DSR_MSG_COMMIT_REPLY)->commit_reply.err, -EINVAL);
	world_call(&world.stores[0], DSR_MSG_COMMIT, &m);
	assert_int_equal(world_last(DSR_MSG_COMMIT_REPLY)->commit_reply.err, 0);
	assert_int_equal(world_last(DSR_MSG_COMMIT_REPLY)->commit_reply.committed, 0);
	m.engine++;
	world_call(&world.stores[1], DSR_MSG_COMMIT, &m);
	assert_int_equal(world_last(DSR_MSG_COMMIT_REPLY)->commit_reply.committed, 0);
	m.engine--;
	m.lane = 64;
	world_call(&world.stores[1], DSR_MSG_COMMIT, &m);
	assert_int_equal(world_last(DSR_MSG_COMMIT_REPLY)->commit_reply.committed, 0);
	m.lane = 1;
	world_call(&world.stores[1], DSR_MSG_COMMIT, &m);
	assert_int_equal(world_last(DSR_MSG_COMMIT_REPLY)->commit_reply.committed, 1);
	world_call(&world.stores[1], DSR_MSG_COMMIT, &m);
	assert_int_equal(world_last(DSR_MSG_COMMIT_REPLY)->commit_reply.committed, 0);
}

static void an_abort_asks_the_other_writers_alone(void **state)
{
	struct dsr_msg_abort m;

	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 1, NULL, 0), 0);
	world_commit(0, 0, 1);
	m = abort_of(1, 0, 1);
	world_call(&world.ctl, DSR_MSG_ABORT, &m);
	assert_int_equal(world_last(DSR_MSG_ABORT_REPLY)->abort_reply.err, -EINVAL);
	world_call(&world.stores[1], DSR_MSG_ABORT, &m);
	assert_int_equal(world_last(DSR_MSG_ABORT_REPLY)->abort_reply.aborted, 1);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 1);
	assert_ptr_equal(world.sent[world.sent_count - 1].peer, &world.stores[0]);
	world_call(&world.stores[1], DSR_MSG_ABORT, &m);
	assert_int_equal(world_last(DSR_MSG_ABORT_REPLY)->abort_reply.aborted, 0);
	assert_int_equal(shared()->slots_quarantined, 1);
	world_answer_cancels(0);
	assert_int_equal(shared()->slots_quarantined, 0);
	assert_int_equal(shared()->reservations, 0);
	/* A late commit is stale. */
	world_commit(1, 0, 1);
	assert_int_equal(world_last(DSR_MSG_COMMIT_REPLY)->commit_reply.committed, 0);
	assert_int_equal(shared()->entries_visible, 0);
}

/* The one that reports may still be writing its other lane of the block. */
static void a_store_actor_of_two_lanes_is_asked_about_its_own_abort(void **state)
{
	struct dsr_msg_abort m;

	(void)state;
	world.workers[1] = world.workers[0];
	world.workers[1].incarnation++;
	world.loads[1] = world.loads[0];
	world.stores[1] = world.stores[0];
	world_serve();
	assert_string_equal(world.calls, "spawn host:0;");
	assert_int_equal(world_reserve(0, 1, NULL, 0), 0);
	m = abort_of(1, 0, 1);
	world_call(&world.stores[0], DSR_MSG_ABORT, &m);
	assert_int_equal(world_last(DSR_MSG_ABORT_REPLY)->abort_reply.aborted, 1);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 1);
	world_answer_cancels(0);
	assert_int_equal(shared()->slots_quarantined, 0);
}

static void a_cancel_without_answer_is_sent_again(void **state)
{
	struct dsr_msg_abort m;
	uint64_t cookie;

	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 1, NULL, 0), 0);
	m = abort_of(1, 0, 1);
	world_call(&world.stores[1], DSR_MSG_ABORT, &m);
	cookie = world.sent[world.sent_count - 1].cookie;
	dsr_scheduler_ops.link->request_failed(world.self, &world.stores[0], DSR_MSG_CANCEL, cookie,
	                                       -ETIMEDOUT);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 1);
	world_tick(1);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 2);
	/* An answer that says anything but 0 is none. */
	world_answer_cancels(-ESTALE);
	assert_int_equal(shared()->slots_quarantined, 1);
	world.request_err = -EAGAIN;
	world_tick(1);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 0);
	world.request_err = 0;
	world_tick(1);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 1);
	world_answer_cancels(0);
	assert_int_equal(shared()->slots_quarantined, 0);
}

static void a_dead_store_actor_takes_its_unwritten_blocks_along(void **state)
{
	struct dsr_peer next = world.stores[1];

	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 3, NULL, 0), 0);
	world_commit(1, 0, 1);
	dsr_scheduler_ops.link->peer_dead(world.self, &world.stores[1]);
	assert_int_equal(shared()->entries_reserved, 1);
	assert_int_equal(shared()->slots_quarantined, 2);
	assert_int_equal(world_reserve(10, 1, NULL, 0), -ENOTCONN);
	world_answer_cancels(0);
	assert_int_equal(shared()->slots_quarantined, 0);
	/* Its successor serves when the worker is attached to it. */
	next.incarnation = 777;
	dsr_scheduler_ops.link->peer_ready(world.self, &next);
	world.rt.control.rows[5].incarnation = 777;
	assert_int_equal(world_reserve(10, 1, NULL, 0), -ENOTCONN);
	world.stores[1].incarnation = 777;
	assert_int_equal(world_ready(1), 0);
	assert_int_equal(world_reserve(10, 1, NULL, 0), 0);
	dsr_scheduler_ops.link->peer_dead(world.self, &next);
}

static void a_successor_that_connects_first_ends_its_predecessor(void **state)
{
	struct dsr_peer next = world.stores[1];

	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 2, NULL, 0), 0);
	next.incarnation = 777;
	dsr_scheduler_ops.link->peer_ready(world.self, &next);
	assert_int_equal(shared()->slots_quarantined, 2);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 1);
	world_answer_cancels(0);
	assert_int_equal(shared()->slots_quarantined, 0);
	dsr_scheduler_ops.link->peer_dead(world.self, &world.stores[1]);
	dsr_scheduler_ops.link->peer_dead(world.self, &next);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(a_commit_must_come_from_the_store_actor_of_its_lane),
		T(an_abort_asks_the_other_writers_alone),
		T(a_store_actor_of_two_lanes_is_asked_about_its_own_abort),
		T(a_cancel_without_answer_is_sent_again),
		T(a_dead_store_actor_takes_its_unwritten_blocks_along),
		T(a_successor_that_connects_first_ends_its_predecessor),
	};

	return cmocka_run_group_tests_name("scheduler_on_store", tests, NULL, NULL);
}
