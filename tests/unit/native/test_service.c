/* SPDX-License-Identifier: Apache-2.0 */
/* Both objects against a service in this process: attaching, the way of a block out and back, and
 * what happens when something goes away. */
#include "engine.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "records.h"
#include "util.h"

static struct fake_shared *seen(const struct engine *e)
{
	return fake_service_shared(e->service);
}

static bool is_told(struct engine *e)
{
	return seen(e)->ready_canary == 1;
}

/* A mover was replaced: a third ATTACH went through. */
static bool is_attached_anew(struct engine *e)
{
	return seen(e)->attaches > 2 && engine_is_attached(e);
}

static bool has_told_mismatches(struct engine *e)
{
	return seen(e)->mismatches == 3;
}

static bool has_reserved_twice(struct engine *e)
{
	return seen(e)->reserves == 2;
}

static bool has_received(struct engine *e)
{
	return e->received > 0;
}

static bool has_sent(struct engine *e)
{
	return e->sent > 0;
}

static bool has_stores(struct engine *e)
{
	return seen(e)->stores > 0;
}

static bool has_loads(struct engine *e)
{
	return seen(e)->loads > 0;
}

static void the_worker_attaches_and_says_so(void **state)
{
	struct engine *e = *state;

	assert_int_equal(seen(e)->engines, 1);
	assert_int_equal(seen(e)->registers, 1);
	assert_int_equal(seen(e)->attaches, 2);
	assert_string_equal(daser_worker_reason(e->worker), "");
	assert_string_equal(daser_scheduler_reason(e->scheduler), "");
	engine_wait(e, is_told, false);
	assert_true(seen(e)->ready_load != 0 && seen(e)->ready_store != 0);
}

static void a_block_goes_out_and_comes_back(void **state)
{
	struct engine *e = *state;
	struct daser_scheduler_stats scheduler = {.size = sizeof(scheduler)};
	struct daser_worker_stats worker = {.size = sizeof(worker)};
	int delay = 9;

	engine_store(e, "a", 20, 0);
	engine_request(e, "again", "a", 24);
	engine_load(e, "again", 20, 40);
	engine_wait(e, has_received, true);
	assert_string_equal(e->last_received, "again");
	assert_int_equal(e->failed_count, 0);
	for (uint32_t i = 0; i < 20; i++)
		assert_true(engine_holds(e, "a", i, 40 + i));
	assert_int_equal(daser_scheduler_finished(e->scheduler, "again", &delay), 0);
	assert_int_equal(delay, 0);
	for (int i = 0; i < 5; i++)
		engine_step(e, NULL);
	assert_int_equal(e->received, 1);
	assert_int_equal(daser_scheduler_get_stats(e->scheduler, &scheduler), 0);
	assert_int_equal(scheduler.l1_hits, 20);
	assert_int_equal(scheduler.l1_misses, 0);
	assert_int_equal(scheduler.stored_blocks, 20);
	assert_int_equal(scheduler.lookups, 2);
	assert_true(scheduler.lookup_p50_ns > 0);
	assert_int_equal(scheduler.errors, 0);
	assert_int_equal(daser_worker_get_stats(e->worker, &worker), 0);
	assert_int_equal(worker.load_blocks, 20);
	assert_int_equal(worker.load_bytes, 20 * ENGINE_BLOCK_BYTES);
	assert_int_equal(worker.store_bytes, 20 * ENGINE_BLOCK_BYTES);
	assert_int_equal(worker.load_buffers, 4);
	assert_true(worker.load_busy_ns > 0 && worker.store_busy_ns > 0);
}

static void records_and_counters_tell_of_it(void **state)
{
	struct engine *e = *state;
	struct dsr_control *control = fake_service_control(e->service);
	struct dsr_record records[4];
	uint32_t n;

	engine_store(e, "a", 6, 0);
	engine_request(e, "again", "a", 6);
	engine_load(e, "again", 6, 40);
	engine_wait(e, has_received, true);
	n = dsr_records_read(control, records, 4);
	assert_int_equal(n, 2);
	assert_int_equal(records[0].op, DSR_RECORD_LOAD);
	assert_int_equal(records[0].l1_hits, 6);
	assert_string_equal(records[0].request, "again");
	assert_int_equal(records[1].op, DSR_RECORD_STORE);
	assert_string_equal(records[1].request, "a");
	for (uint32_t i = 0; i < n; i++) {
		const struct dsr_record *r = &records[i];

		assert_int_equal(r->status, DSR_RECORD_OK);
		assert_int_equal(r->blocks, 6);
		assert_int_equal(r->bytes, 6 * ENGINE_BLOCK_BYTES);
		assert_int_equal(r->copies, 6);
		assert_true(r->segments >= 1 && r->copy_runs >= 1 && r->total_ns > 0);
		assert_true(r->end_ns > 0 && r->incarnation != 0);
		assert_int_equal(r->total_ns, r->open_ns + r->wait_ns + r->ipc_ns + r->copy_ns +
		                                      r->kv_ns + r->sync_ns);
	}
	assert_int_equal(dsr_counters_sum(control, DSR_COUNTER_L1_HITS), 6);
	assert_int_equal(dsr_counters_sum(control, DSR_COUNTER_LOAD_OK), 1);
	assert_int_equal(dsr_counters_sum(control, DSR_COUNTER_STORE_OK), 1);
	assert_int_equal(dsr_counters_sum(control, DSR_COUNTER_LOAD_BYTES), 6 * ENGINE_BLOCK_BYTES);
}

static void changed_bytes_are_failed_blocks_and_told_to_the_scheduler(void **state)
{
	struct engine *e = *state;
	uint32_t blocks = 99;

	engine_store(e, "a", 3, 0);
	fake_service_corrupt(e->service);
	engine_request(e, "again", "a", 3);
	engine_load(e, "again", 3, 40);
	engine_wait(e, has_received, true);
	assert_int_equal(e->failed_count, 3);
	assert_int_equal(e->failed[0], 40);
	assert_int_equal(e->failed[2], 42);
	engine_wait(e, has_told_mismatches, false);
	/* It is not promised again, whatever the service says. */
	assert_int_equal(daser_scheduler_match(e->scheduler, "again", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
}

static void an_ended_request_is_reported_when_its_gathers_are_done(void **state)
{
	struct engine *e = *state;
	int delay = 9;

	fake_service_hold(e->service, DSR_ROLE_STORE, true);
	engine_request(e, "a", "a", 5);
	engine_fill(e, "a", 5, 0);
	engine_compute(e, "a", 5, 0);
	engine_wait(e, has_stores, true);
	assert_int_equal(daser_scheduler_finished(e->scheduler, "a", &delay), 0);
	assert_int_equal(delay, 1);
	/* The store actor has the buffer still; the KV blocks are free all the same. */
	engine_step(e, "a");
	engine_wait(e, has_sent, true);
	assert_string_equal(e->last_sent, "a");
	assert_int_equal(daser_scheduler_pending(e->scheduler), 1);
	fake_service_hold(e->service, DSR_ROLE_STORE, false);
	engine_request(e, "again", "a", 5);
	while (daser_scheduler_pending(e->scheduler) != 0)
		engine_step(e, NULL);
	assert_int_equal(e->sent, 1);
}

static void preempted_saves_are_dropped_before_their_blocks_change(void **state)
{
	struct engine *e = *state;
	struct daser_worker_stats stats = {.size = sizeof(stats)};
	const char *names[] = {"a", "b", "c", "d", "e"};

	/* Four saves keep the buffers; the fifth waits, loses its blocks, and is dropped. */
	fake_service_hold(e->service, DSR_ROLE_STORE, true);
	for (uint32_t i = 0; i < 5; i++) {
		engine_request(e, names[i], names[i], 3);
		engine_fill(e, names[i], 3, 10 * i);
		engine_compute(e, names[i], 3, 10 * i);
	}
	while (seen(e)->stores < 4)
		engine_step(e, NULL);
	do {
		engine_step(e, NULL);
		assert_int_equal(daser_worker_get_stats(e->worker, &stats), 0);
	} while (stats.stores_in_flight_max < 4);
	assert_int_equal(daser_scheduler_preempted(e->scheduler, "e"), 0);
	engine_step(e, NULL);
	memset(e->kv + (size_t)40 * ENGINE_BLOCK_BYTES, 0xee, (size_t)3 * ENGINE_BLOCK_BYTES);
	while (seen(e)->drops + seen(e)->abandons == 0)
		engine_step(e, NULL);
	fake_service_hold(e->service, DSR_ROLE_STORE, false);
	while (daser_scheduler_pending(e->scheduler) != 0)
		engine_step(e, NULL);
	assert_int_equal(seen(e)->stores, 4);
}

static bool is_refused(struct engine *e)
{
	return daser_scheduler_state(e->scheduler) == DASER_REFUSED &&
	       daser_worker_state(e->worker) == DASER_REFUSED;
}

static void a_refused_engine_says_why_and_runs_without(void **state)
{
	struct engine *e = *state;
	uint32_t blocks = 99;

	fake_service_refuse(e->service, -EXDEV, "slot_bytes 4100, this instance serves 8192");
	fake_service_start_all(e->service);
	engine_wait(e, is_refused, false);
	assert_non_null(strstr(daser_scheduler_reason(e->scheduler), "serves 8192"));
	assert_non_null(strstr(daser_worker_reason(e->worker), "serves 8192"));
	engine_request(e, "a", "a", 4);
	assert_int_equal(daser_scheduler_match(e->scheduler, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
	/* Its next start is asked again. */
	fake_service_refuse(e->service, 0, "");
	fake_service_start(e->service, DSR_ROLE_SCHEDULER);
	engine_wait(e, engine_is_attached, false);
}

static void an_engine_without_service_runs_without(void **state)
{
	struct engine *e = *state;
	struct daser_scheduler_stats stats = {.size = sizeof(stats)};
	uint32_t blocks = 99;
	int delay = 9;

	assert_int_equal(daser_worker_state(e->worker), DASER_DETACHED);
	engine_request(e, "a", "a", 4);
	assert_int_equal(daser_scheduler_match(e->scheduler, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
	engine_compute(e, "a", 4, 0);
	engine_step(e, NULL);
	assert_int_equal(daser_scheduler_finished(e->scheduler, "a", &delay), 0);
	assert_int_equal(delay, 0);
	assert_int_equal(daser_scheduler_get_stats(e->scheduler, &stats), 0);
	assert_int_equal(stats.drops[DSR_REASON_DETACHED], 4);
	/* It comes, and from then on everything is as if it had been there. */
	fake_service_start_all(e->service);
	engine_wait(e, engine_is_attached, false);
	engine_store(e, "b", 4, 0);
}

static bool has_stalled(struct engine *e)
{
	return daser_scheduler_state(e->scheduler) == DASER_DETACHED;
}

static void a_scheduler_without_progress_counts_as_down(void **state)
{
	struct engine *e = *state;
	struct dsr_actor_row *row = &fake_service_control(e->service)->rows[0];
	uint32_t blocks = 99;

	engine_store(e, "a", 4, 0);
	row->role = DSR_ROLE_SCHEDULER;
	atomic_store(&row->progress_ns, 1);
	atomic_store(&row->state, DSR_ACTOR_READY);
	engine_wait(e, has_stalled, false);
	assert_non_null(strstr(daser_scheduler_reason(e->scheduler), "no progress"));
	engine_request(e, "again", "a", 4);
	assert_int_equal(daser_scheduler_match(e->scheduler, "again", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
	atomic_store(&row->progress_ns, dsr_now_ns() + UINT64_C(60000000000));
	engine_wait(e, engine_is_attached, false);
	engine_load(e, "again", 4, 40);
	engine_wait(e, has_received, true);
	assert_int_equal(e->failed_count, 0);
}

static void loads_go_on_while_the_scheduler_is_away(void **state)
{
	struct engine *e = *state;
	uint32_t registers = seen(e)->registers;

	engine_store(e, "a", 4, 0);
	fake_service_hold(e->service, DSR_ROLE_LOAD, true);
	engine_request(e, "again", "a", 4);
	engine_load(e, "again", 4, 40);
	engine_wait(e, has_loads, true);
	fake_service_start(e->service, DSR_ROLE_SCHEDULER);
	while (seen(e)->registers == registers)
		engine_step(e, NULL);
	fake_service_hold(e->service, DSR_ROLE_LOAD, false);
	engine_wait(e, has_received, true);
	assert_int_equal(e->failed_count, 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(engine_holds(e, "a", i, 40 + i));
	engine_wait(e, engine_is_attached, true);
	assert_int_equal(seen(e)->attaches, 2); /* the movers stayed */
	engine_store(e, "b", 4, 60);
}

static void the_loads_of_a_dead_actor_fail_and_its_successor_serves(void **state)
{
	struct engine *e = *state;
	struct daser_worker_stats stats = {.size = sizeof(stats)};

	engine_store(e, "a", 4, 0);
	fake_service_hold(e->service, DSR_ROLE_LOAD, true);
	engine_request(e, "again", "a", 4);
	engine_load(e, "again", 4, 40);
	engine_wait(e, has_loads, true);
	fake_service_start(e->service, DSR_ROLE_LOAD);
	fake_service_hold(e->service, DSR_ROLE_LOAD, false);
	engine_wait(e, has_received, true);
	assert_int_equal(e->failed_count, 4);
	assert_int_equal(daser_worker_get_stats(e->worker, &stats), 0);
	assert_int_equal(stats.failures[DSR_REASON_ACTOR_GONE], 4);
	engine_wait(e, is_attached_anew, true);
	engine_clear(e);
	engine_request(e, "third", "a", 4);
	engine_load(e, "third", 4, 80);
	engine_wait(e, has_received, true);
	assert_int_equal(e->failed_count, 0);
	assert_true(engine_holds(e, "a", 3, 83));
}

static void a_save_of_a_dead_store_actor_is_dropped(void **state)
{
	struct engine *e = *state;
	struct daser_scheduler_stats stats = {.size = sizeof(stats)};

	fake_service_hold(e->service, DSR_ROLE_STORE, true);
	engine_request(e, "a", "a", 4);
	engine_compute(e, "a", 4, 0);
	engine_wait(e, has_stores, true);
	fake_service_start(e->service, DSR_ROLE_STORE);
	fake_service_hold(e->service, DSR_ROLE_STORE, false);
	while (daser_scheduler_pending(e->scheduler) != 0)
		engine_step(e, NULL);
	assert_int_equal(daser_scheduler_get_stats(e->scheduler, &stats), 0);
	assert_int_equal(stats.drops[DSR_REASON_ACTOR_GONE], 4);
	engine_wait(e, is_attached_anew, true);
	engine_store(e, "b", 4, 20);
}

static void *close_worker(void *worker)
{
	daser_worker_close(worker);
	return NULL;
}

static void closing_waits_for_a_copy_that_runs(void **state)
{
	struct engine *e = *state;
	pthread_t thread;

	fake_service_hold(e->service, DSR_ROLE_STORE, true);
	engine_request(e, "a", "a", 4);
	engine_compute(e, "a", 4, 0);
	engine_wait(e, has_stores, true);
	assert_int_equal(pthread_create(&thread, NULL, close_worker, &e->worker), 0);
	/* The load actor has nothing under way and may be left at once; the store actor has. */
	assert_in_range(seen(e)->detaches, 0, 1);
	fake_service_hold(e->service, DSR_ROLE_STORE, false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_null(e->worker);
	/* Both actors closed their mappings before the memory went. */
	assert_int_equal(seen(e)->detaches, 2);
}

static void closing_the_scheduler_gives_back_what_it_holds(void **state)
{
	struct engine *e = *state;
	uint32_t blocks = 0;

	engine_store(e, "a", 4, 0);
	engine_request(e, "again", "a", 4);
	while (daser_scheduler_match(e->scheduler, "again", 0, &blocks) == -EAGAIN)
		;
	assert_int_equal(blocks, 4);
	engine_request(e, "b", "b", 4);
	engine_compute(e, "b", 4, 20);
	engine_wait(e, has_reserved_twice, false);
	daser_scheduler_close(&e->scheduler);
	assert_int_equal(seen(e)->releases, 1);
	assert_int_equal(seen(e)->abandons, 1);
}

#define ALL(name) cmocka_unit_test_setup_teardown(name, engine_open, engine_close)
#define ALONE(name) cmocka_unit_test_setup_teardown(name, engine_open_alone, engine_close)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		ALL(the_worker_attaches_and_says_so),
		ALL(a_block_goes_out_and_comes_back),
		ALL(records_and_counters_tell_of_it),
		ALL(changed_bytes_are_failed_blocks_and_told_to_the_scheduler),
		ALL(an_ended_request_is_reported_when_its_gathers_are_done),
		ALL(preempted_saves_are_dropped_before_their_blocks_change),
		ALONE(a_refused_engine_says_why_and_runs_without),
		ALONE(an_engine_without_service_runs_without),
		ALL(a_scheduler_without_progress_counts_as_down),
		ALL(loads_go_on_while_the_scheduler_is_away),
		ALL(the_loads_of_a_dead_actor_fail_and_its_successor_serves),
		ALL(a_save_of_a_dead_store_actor_is_dropped),
		ALL(closing_waits_for_a_copy_that_runs),
		ALL(closing_the_scheduler_gives_back_what_it_holds),
	};

	fake_actor_main(argc, argv);
	return cmocka_run_group_tests_name("native objects", tests, NULL, NULL);
}
