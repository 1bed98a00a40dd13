/* SPDX-License-Identifier: Apache-2.0 */
/* Its life: what it is after a restart, and what it does by the clock. */
#include "scheduler.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "entry_table.h"
#include "world.h"

static const struct dsr_scheduler_state *shared(void)
{
	return world.rt.control.scheduler;
}

static void come_back(void)
{
	world_serve();
}

static void a_restart_finds_pool_blocks_and_numbers_again(void **state)
{
	uint64_t epoch, generation, free_slots;
	struct dsr_key parent = rig_key(2);
	struct dsr_ref refs[3];
	uint32_t page;
	int err;

	(void)state;
	world_serve();
	world_store(0, 3);
	memcpy(refs, world_refs, sizeof(refs));
	epoch = shared()->pool_epoch;
	generation = shared()->next_generation;
	free_slots = shared()->slots_free;
	page = world.self->engines.engines[0].ranks[1].page;
	world_restart();
	assert_int_equal(shared()->pool_epoch, epoch);
	assert_int_equal(shared()->entries_visible, 3);
	assert_int_equal(shared()->slots_free, free_slots);
	assert_int_equal(shared()->engines, 0);
	assert_int_equal(world_lookup(0, 3, &err), 0);
	assert_int_equal(err, -ENOENT);
	come_back();
	assert_int_equal(world.self->engines.engines[0].ranks[1].page, page);
	assert_int_equal(world_lookup(0, 3, &err), 3);
	assert_int_equal(world_lease(1, 0, 3), 0);
	assert_memory_equal(refs, world_refs, sizeof(refs));
	assert_int_equal(world_reserve(3, 1, &parent, 3), 0);
	assert_true(world_refs[0].generation >= generation);
}

static void nothing_is_evicted_for_one_lease_time_after_a_restart(void **state)
{
	uint32_t slots;

	(void)state;
	world_serve();
	slots = world.self->geometry.slots;
	assert_true(slots <= WORLD_SLOTS_MAX);
	for (uint32_t i = 0; i < slots; i++)
		world_store(1000 + i, 1), world_forget_sent();
	assert_int_equal(shared()->slots_free, 0);
	world_restart();
	come_back();
	assert_int_equal(world_reserve(0, 1, NULL, 0), 0);
	assert_int_equal(world_ref_count, 0);
	assert_int_equal(world_last(DSR_MSG_RESERVE_REPLY)->reserve_reply.status.v[0], -ENOSPC);
	world_tick(30);
	assert_int_equal(world_reserve(0, 1, NULL, 0), 0);
	assert_int_equal(world_ref_count, 1);
	assert_int_equal(dsr_counters_sum(&world.rt.control, DSR_COUNTER_BLOCKS_EVICTED), 1);
}

static void slots_being_written_wait_for_the_store_actors_of_before(void **state)
{
	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 4, NULL, 0), 0);
	world_commit(0, 0, 4);
	world_restart();
	assert_int_equal(shared()->slots_quarantined, 4);
	assert_int_equal(shared()->entries_reserved, 0);
	/* Both store actors are this process and live. */
	dsr_scheduler_ops.link->peer_ready(world.self, &world.stores[0]);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 1);
	assert_int_equal(world_last(DSR_MSG_CANCEL)->cancel.refs.n, 0);
	assert_int_equal(world_last(DSR_MSG_CANCEL)->cancel.scheduler, world.rt.incarnation - 1);
	world_answer_cancels(0);
	assert_int_equal(shared()->slots_quarantined, 4);
	dsr_scheduler_ops.link->peer_ready(world.self, &world.stores[1]);
	/* It does not answer in time, and is asked again. */
	dsr_scheduler_ops.link->request_failed(world.self, &world.stores[1], DSR_MSG_CANCEL,
	                                       world.sent[world.sent_count - 1].cookie, -ETIMEDOUT);
	world_forget_sent();
	world_tick(1);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 1);
	world_tick(1);
	assert_int_equal(world_count(DSR_MSG_CANCEL), 1);
	world_answer_cancels(0);
	assert_int_equal(shared()->slots_quarantined, 0);
	assert_int_equal(shared()->slots_free, world.self->geometry.slots);
}

static void a_store_actor_of_before_that_dies_is_not_waited_for(void **state)
{
	(void)state;
	world_serve();
	assert_int_equal(world_reserve(0, 1, NULL, 0), 0);
	world_restart();
	assert_int_equal(shared()->slots_quarantined, 1);
	dsr_scheduler_ops.link->peer_ready(world.self, &world.stores[0]);
	dsr_scheduler_ops.link->peer_dead(world.self, &world.stores[0]);
	assert_int_equal(shared()->slots_quarantined, 1);
	/* The other one is found dead by its identity, without ever connecting. */
	world.self->quarantine.writers[5].start_ticks--;
	world_tick(1);
	assert_int_equal(shared()->slots_quarantined, 0);
}

static void a_row_torn_by_its_death_is_dropped(void **state)
{
	struct dsr_ref ref;
	int err;

	(void)state;
	world_serve();
	world_store(0, 3);
	ref = world_refs[1];
	dsr_entry_write_begin(&world.rt.control.entries[ref.entry]);
	world_restart();
	assert_int_equal(shared()->entries_visible, 2);
	assert_int_equal(shared()->slots_quarantined, 1);
	come_back();
	assert_int_equal(world_lookup(0, 3, &err), 1);
}

/* A process that really dies half way through a row, by its fault point. */
static void a_scheduler_killed_in_the_middle_of_a_row_costs_that_row(void **state)
{
	char why[256];
	int status, err;
	pid_t child;

	(void)state;
	world_serve();
	world_store(0, 3);
	child = fork();
	if (child == 0) {
		(void)dsr_faults_arm(world.rt.faults, "sched_mid_entry:nth=2:kill", why,
		                     sizeof(why));
		(void)world_reserve(100, 3, NULL, 0);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	world_restart();
	assert_int_equal(shared()->entries_visible, 3);
	assert_int_equal(world.self->rebuilt.torn, 1);
	assert_int_equal(world.self->rebuilt.unfinished, 1);
	come_back();
	assert_int_equal(world_lookup(0, 3, &err), 3);
	world_answer_cancels(0);
	assert_int_equal(world_reserve(100, 3, NULL, 0), 0);
	assert_int_equal(world_ref_count, 3);
}

static void a_pool_that_was_never_announced_is_dropped(void **state)
{
	(void)state;
	world_serve();
	/* As if it had died between putting and announcing it. */
	world.rt.control.scheduler->pool_epoch = 0;
	world_restart();
	assert_string_equal(world.objects[0].name, "");
	come_back();
	assert_string_not_equal(world.objects[0].name, "");
}

static void a_pool_that_is_lost_is_an_empty_start(void **state)
{
	int err;

	(void)state;
	world_serve();
	world_store(0, 3);
	assert_int_equal(dsr_broker_drop(NULL, world.objects[0].name), 0);
	world_restart();
	assert_int_equal(shared()->pool_epoch, 0);
	assert_int_equal(shared()->entries_visible, 0);
	come_back();
	assert_int_equal(world_lookup(0, 3, &err), 0);
	assert_int_equal(err, 0);
}

static void what_died_while_there_was_no_scheduler_is_cleared_away(void **state)
{
	uint32_t page;

	(void)state;
	world_serve();
	page = world.self->engines.engines[0].ranks[1].page;
	/* Of a process that is no more. */
	world.rt.control.counters[page].pid = 0x3ffffff;
	dsr_counter_add(&world.rt.control.counters[page], DSR_COUNTER_LOAD_OK, 3);
	world_restart();
	world.calls[0] = '\0';
	assert_int_equal(world_engine(), 0);
	assert_int_equal(world_register(0), 0);
	world_tick(9);
	assert_int_not_equal(world.rt.control.counters[page].incarnation, 0);
	assert_string_equal(world.calls, "spawn host:0;");
	world_tick(3);
	assert_int_equal(world.rt.control.counters[page].incarnation, 0);
	assert_int_equal(dsr_counters_sum(&world.rt.control, DSR_COUNTER_LOAD_OK), 3);
	assert_string_equal(world.calls, "spawn host:0;retire host:1;");
	world_tick(30);
	assert_string_equal(world.calls, "spawn host:0;retire host:1;");
}

static void an_actor_that_stands_still_is_killed_through_the_supervisor(void **state)
{
	(void)state;
	world_serve();
	world.calls[0] = '\0';
	world.rt.control.rows[4].progress_ns = world.now_ns;
	world_tick(9);
	assert_string_equal(world.calls, "");
	world_tick(5);
	assert_string_equal(world.calls, "load host:1 601;");
	world_tick(30);
	assert_string_equal(world.calls, "load host:1 601;");
}

static void epochs_of_two_control_segments_differ(void **state)
{
	uint64_t epoch;

	(void)state;
	assert_int_equal(world_register(0), 0);
	epoch = shared()->pool_epoch;
	assert_true(epoch > 0 && epoch < UINT64_C(1) << (64 - DSR_EPOCH_SHIFT));
	(void)world_teardown(state);
	(void)world_setup(state);
	assert_int_equal(world_register(0), 0);
	assert_int_not_equal(shared()->pool_epoch, epoch);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(a_restart_finds_pool_blocks_and_numbers_again),
		T(nothing_is_evicted_for_one_lease_time_after_a_restart),
		T(slots_being_written_wait_for_the_store_actors_of_before),
		T(a_store_actor_of_before_that_dies_is_not_waited_for),
		T(a_row_torn_by_its_death_is_dropped),
		T(a_scheduler_killed_in_the_middle_of_a_row_costs_that_row),
		T(a_pool_that_was_never_announced_is_dropped),
		T(a_pool_that_is_lost_is_an_empty_start),
		T(what_died_while_there_was_no_scheduler_is_cleared_away),
		T(an_actor_that_stands_still_is_killed_through_the_supervisor),
		T(epochs_of_two_control_segments_differ),
	};

	return cmocka_run_group_tests_name("scheduler_life", tests, NULL, NULL);
}
