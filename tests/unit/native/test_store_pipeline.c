/* SPDX-License-Identifier: Apache-2.0 */
/* StorePipeline on the host device; the store actor is the test. */
#include "pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TOLD(reason) (DSR_RESULT_DROPPED | DSR_REASON_##reason)
#define UNTOLD(reason) (DSR_RESULT_UNTOLD | DSR_REASON_##reason)

/* Every block of the save has that result. */
static void assert_results(const struct dsr_store *store, uint32_t first, uint32_t count,
                           uint8_t result)
{
	for (uint32_t i = first; i < first + count; i++)
		assert_int_equal(store->blocks.results[i], result);
}

static bool is_of(void *self, const struct dsr_store *store)
{
	return strcmp(store->blocks.name, self) == 0;
}

/* What preemptions() does for one request; returns the gathers to be waited for. */
static uint32_t preempt(struct pipe *pipe, const char *name)
{
	struct dsr_event events[PIPE_BUFFERS];
	uint32_t count = 0;
	char text[16];

	(void)strncpy(text, name, sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	dsr_store_pipeline_drop(&pipe->stores, is_of, text, DSR_REASON_PREEMPTED, events, &count);
	return count;
}

static void a_save_reaches_l1_with_its_digests(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *store = pipe_bind_store(pipe, "a", 4, 10, 20);
	struct dsr_record record = {0};
	uint64_t expected[4];

	for (uint32_t i = 0; i < 4; i++) {
		pipe_fill_slot(pipe, 40 + i, "a", i);
		expected[i] = pipe->l1_digests[40 + i];
	}
	dsr_store_pipeline_pump(&pipe->stores);
	pipe_settle(pipe);
	assert_int_equal(pipe->store_count, 0); /* not before it is submitted */
	pipe_submit(pipe);
	pipe_settle(pipe);
	assert_int_equal(pipe->store_count, 1);
	assert_int_equal(pipe->stores_sent[0].count, 4);
	assert_memory_equal(pipe->stores_sent[0].digests, expected, sizeof(expected));
	pipe_serve_store(pipe, &pipe->stores_sent[0]);
	assert_int_equal(pipe->ended_store_count, 1);
	assert_results(store, 0, 4, DSR_RESULT_STORED);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(pipe_slot_holds(pipe, 20 + i, "a", i));
	assert_true(dsr_store_pipeline_is_idle(&pipe->stores));
	dsr_times_record(&store->times, pipe->now_ns, &record);
	assert_true(record.kv_ns > 0 && record.open_ns > 0);
	assert_int_equal(record.total_ns, record.open_ns + record.wait_ns + record.ipc_ns +
	                                          record.copy_ns + record.kv_ns + record.sync_ns);
}

static void as_many_saves_as_buffers_are_under_way_at_once(void **state)
{
	struct pipe *pipe = *state;
	const char *names[] = {"a", "b", "c", "d", "e", "f"};

	for (uint32_t i = 0; i < 6; i++)
		(void)pipe_bind_store(pipe, names[i], 2, 10 + 2 * i, 20 + 2 * i);
	pipe_submit(pipe);
	pipe_settle(pipe);
	/* None of them was answered. */
	assert_int_equal(pipe->store_count, PIPE_BUFFERS);
	assert_int_equal(pipe->stores.busy.count_max, PIPE_BUFFERS);
	for (uint32_t i = 0; i < PIPE_BUFFERS; i++)
		assert_int_equal(pipe->stores_sent[i].reservation, 110 + 2 * i);
	/* Each one that is over lets the next begin, in order. */
	pipe_serve_store(pipe, &pipe->stores_sent[2]);
	pipe_settle(pipe);
	assert_int_equal(pipe->store_count, PIPE_BUFFERS + 1);
	assert_int_equal(pipe->stores_sent[PIPE_BUFFERS].reservation, 110 + 2 * 4);
	assert_int_equal(pipe->stores_sent[PIPE_BUFFERS].buffer, pipe->stores_sent[2].buffer);
	assert_true(pipe->stores_sent[PIPE_BUFFERS].lend > pipe->stores_sent[3].lend);
	for (uint32_t i = 0; i < 6; i++) {
		if (i != 2)
			pipe_serve_store(pipe, &pipe->stores_sent[i]);
		pipe_settle(pipe);
	}
	assert_int_equal(pipe->ended_store_count, 6);
	for (uint32_t i = 0; i < 6; i++)
		assert_true(pipe_slot_holds(pipe, 21 + 2 * i, names[i], 1));
}

static void three_times_the_buffer_goes_through_one_buffer(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *store = pipe_bind_store(pipe, "a", 3 * PIPE_BATCH, 10, 20);

	(void)pipe_bind_store(pipe, "b", 1, 40, 50);
	pipe_submit(pipe);
	for (uint32_t batch = 0; batch < 3; batch++) {
		pipe_settle(pipe);
		assert_int_equal(pipe->store_count, batch + 1);
		assert_int_equal(pipe->stores_sent[batch].buffer, 0);
		assert_int_equal(pipe->stores_sent[batch].count, PIPE_BATCH);
		assert_int_equal(pipe->stores_sent[batch].refs[0].slot, 20 + batch * PIPE_BATCH);
		if (batch > 0)
			assert_true(pipe->stores_sent[batch].lend >
			            pipe->stores_sent[batch - 1].lend);
		pipe_serve_store(pipe, &pipe->stores_sent[batch]);
	}
	assert_int_equal(pipe->ended_store_count, 1);
	assert_results(store, 0, 3 * PIPE_BATCH, DSR_RESULT_STORED);
	for (uint32_t i = 0; i < 3 * PIPE_BATCH; i++)
		assert_true(pipe_slot_holds(pipe, 20 + i, "a", i));
	pipe_settle(pipe);
	assert_int_equal(pipe->stores_sent[3].reservation, 140);
}

static void a_store_is_sent_when_its_gather_has_ended(void **state)
{
	struct pipe *pipe = *state;
	uint64_t hash = dsr_name_hash("a", 1);

	(void)pipe_bind_store(pipe, "a", 2, 10, 20);
	pipe_hold(pipe, true);
	pipe_submit(pipe);
	pipe_settle(pipe);
	assert_int_equal(pipe->store_count, 0);
	assert_true(dsr_store_pipeline_reads(&pipe->stores, "a", hash));
	pipe_hold(pipe, false);
	pipe_settle(pipe);
	assert_int_equal(pipe->store_count, 1);
	/* From here on the KV cache is not read: the request's blocks may go before the answer. */
	assert_false(dsr_store_pipeline_reads(&pipe->stores, "a", hash));
	assert_int_equal(pipe->releases, 1);
	assert_int_equal(pipe->ended_store_count, 0);
}

static void preemption_drops_what_was_not_launched(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *a, *b;

	a = pipe_bind_store(pipe, "a", 2 * PIPE_BATCH, 10, 20);
	b = pipe_bind_store(pipe, "b", 2, 30, 40);
	pipe_hold(pipe, true);
	pipe_submit(pipe);
	/* The gather of its first batch runs: the caller has to wait for it, not for the actor. */
	assert_int_equal(preempt(pipe, "a"), 1);
	dsr_store_pipeline_pump(&pipe->stores);
	assert_int_equal(pipe->drop_count, 1);
	assert_int_equal(pipe->drops_sent[0].count, PIPE_BATCH);
	assert_int_equal(pipe->drops_sent[0].reservation, 110);
	assert_int_equal(pipe->drops_sent[0].reason, DSR_REASON_PREEMPTED);
	pipe_hold(pipe, false);
	pipe_settle(pipe);
	pipe_drop_reply(pipe, &pipe->drops_sent[0], 0);
	pipe_serve_store(pipe, &pipe->stores_sent[0]);
	pipe_settle(pipe);
	assert_int_equal(pipe->ended_store_count, 1);
	assert_ptr_equal(pipe->ended_stores[0], a);
	assert_results(a, 0, PIPE_BATCH, DSR_RESULT_STORED);
	assert_results(a, PIPE_BATCH, PIPE_BATCH, TOLD(PREEMPTED));
	/* The other request's save goes on. */
	pipe_serve_store(pipe, &pipe->stores_sent[1]);
	assert_results(b, 0, 2, DSR_RESULT_STORED);
}

static void preemption_of_a_queued_save_waits_for_nothing(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *b;

	(void)pipe_bind_store(pipe, "a", 1, 10, 20);
	pipe_submit(pipe);
	b = pipe_bind_store(pipe, "b", 3, 30, 40);
	assert_int_equal(preempt(pipe, "b"), 0);
	assert_false(dsr_store_pipeline_reads(&pipe->stores, "b", dsr_name_hash("b", 1)));
	pipe_submit(pipe);
	assert_int_equal(pipe->drop_count, 1);
	assert_int_equal(pipe->ended_store_count, 0); /* told, not answered */
	pipe_drop_reply(pipe, &pipe->drops_sent[0], 0);
	pipe_drop_reply(pipe, &pipe->drops_sent[0], -ESTALE); /* late */
	assert_int_equal(pipe->ended_store_count, 1);
	assert_results(b, 0, 3, TOLD(PREEMPTED));
	assert_int_equal(b->times.opened_ns, 0);
}

static void a_drop_that_nobody_took_is_untold(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *a, *b;

	a = pipe_bind_store(pipe, "a", 3, 10, 20);
	b = pipe_bind_store(pipe, "b", 3, 30, 40);
	(void)preempt(pipe, "a");
	dsr_store_pipeline_pump(&pipe->stores);
	pipe_drop_reply(pipe, &pipe->drops_sent[0], -EAGAIN);
	assert_results(a, 0, 3, UNTOLD(PREEMPTED));
	pipe->send_error = -EHOSTUNREACH;
	(void)preempt(pipe, "b");
	dsr_store_pipeline_pump(&pipe->stores);
	assert_results(b, 0, 3, UNTOLD(PREEMPTED));
	assert_int_equal(pipe->ended_store_count, 2);
}

static void the_queue_is_bounded(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *last;

	(void)pipe_bind_store(pipe, "a", 30, 0, 0);
	(void)pipe_bind_store(pipe, "b", 2, 30, 30);
	last = pipe_bind_store(pipe, "c", 1, 40, 40);
	assert_int_equal(pipe->stores.queued, 32);
	dsr_store_pipeline_pump(&pipe->stores);
	assert_int_equal(pipe->drops_sent[0].reason, DSR_REASON_QUEUE_FULL);
	pipe_drop_reply(pipe, &pipe->drops_sent[0], 0);
	assert_int_equal(pipe->ended_store_count, 1);
	assert_results(last, 0, 1, TOLD(QUEUE_FULL));
}

static void without_an_actor_a_save_is_dropped_untold(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *store;

	dsr_store_pipeline_detach(&pipe->stores, DSR_REASON_ACTOR_GONE);
	store = pipe_bind_store(pipe, "a", 3, 10, 20);
	pipe_submit(pipe);
	assert_int_equal(pipe->ended_store_count, 1);
	assert_results(store, 0, 3, UNTOLD(DETACHED));
	assert_int_equal(pipe->stores.queued, 0);
}

static void the_death_of_the_actor_ends_every_save(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *sent, *gathering, *queued;

	sent = pipe_bind_store(pipe, "a", 2, 10, 20);
	pipe_submit(pipe);
	pipe_settle(pipe);
	assert_int_equal(pipe->store_count, 1);
	gathering = pipe_bind_store(pipe, "b", 2, 30, 40);
	pipe_hold(pipe, true);
	pipe_submit(pipe);
	queued = pipe_bind_store(pipe, "c", 2, 50, 50);
	dsr_store_pipeline_on_failed(&pipe->stores, pipe->stores_sent[0].cookie, -ETIMEDOUT);
	assert_int_equal(pipe->ended_store_count, 0); /* time alone ends nothing */
	dsr_store_pipeline_on_failed(&pipe->stores, pipe->stores_sent[0].cookie, -EOWNERDEAD);
	dsr_store_pipeline_detach(&pipe->stores, DSR_REASON_ACTOR_GONE);
	assert_int_equal(pipe->ended_store_count, 2);
	/* The scheduler aborts what a dead store actor had; of the rest nobody knows. */
	assert_results(sent, 0, 2, TOLD(ACTOR_GONE));
	assert_results(queued, 0, 2, UNTOLD(ACTOR_GONE));
	pipe_settle(pipe);
	assert_int_equal(pipe->ended_store_count, 2); /* the gather still reads */
	pipe_hold(pipe, false);
	pipe_settle(pipe);
	assert_int_equal(pipe->ended_store_count, 3);
	assert_results(gathering, 0, 2, UNTOLD(ACTOR_GONE));
	assert_true(dsr_store_pipeline_is_idle(&pipe->stores));
}

static void each_block_has_the_result_that_the_actor_gave(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *store = pipe_bind_store(pipe, "a", 4, 10, 20);
	const int32_t errs[] = {0, -EIO, -ESTALE, -ECANCELED};

	pipe_submit(pipe);
	pipe_settle(pipe);
	pipe_store_reply(pipe, &pipe->stores_sent[0], 0, errs);
	assert_int_equal(pipe->ended_store_count, 1);
	assert_int_equal(store->blocks.results[0], DSR_RESULT_STORED);
	assert_int_equal(store->blocks.results[1], DSR_RESULT_DROPPED | DSR_REASON_UNREADABLE);
	assert_int_equal(store->blocks.results[2], TOLD(STALE));
	assert_int_equal(store->blocks.results[3], TOLD(CANCELLED));
	assert_int_equal(store->dropped, 3);
}

static void a_refused_store_is_untold(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *store = pipe_bind_store(pipe, "a", PIPE_BATCH + 1, 10, 20);

	pipe_submit(pipe);
	pipe_settle(pipe);
	pipe_store_reply(pipe, &pipe->stores_sent[0], -EAGAIN, NULL);
	pipe_settle(pipe);
	/* The next batch is tried all the same. */
	assert_int_equal(pipe->store_count, 2);
	pipe_serve_store(pipe, &pipe->stores_sent[1]);
	assert_results(store, 0, PIPE_BATCH, UNTOLD(QUEUE_FULL));
	assert_results(store, PIPE_BATCH, 1, DSR_RESULT_STORED);
}

static void late_and_foreign_replies_change_nothing(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *store = pipe_bind_store(pipe, "a", 2, 10, 20);
	const int32_t bad[] = {-EIO, -EIO};
	struct pipe_sent foreign;

	pipe_submit(pipe);
	pipe_settle(pipe);
	foreign = pipe->stores_sent[0];
	foreign.cookie += 3;
	pipe_store_reply(pipe, &foreign, 0, bad);
	assert_int_equal(pipe->ended_store_count, 0);
	pipe_serve_store(pipe, &pipe->stores_sent[0]);
	pipe_store_reply(pipe, &pipe->stores_sent[0], 0, bad);
	assert_int_equal(pipe->ended_store_count, 1);
	assert_results(store, 0, 2, DSR_RESULT_STORED);
	assert_int_equal(pipe->stores.buffers.free, PIPE_BUFFERS);
}

static void an_ended_request_drops_what_is_late(void **state)
{
	struct pipe *pipe = *state;
	uint64_t hash = dsr_name_hash("b", 1);
	const struct dsr_store *b;

	(void)pipe_bind_store(pipe, "a", 1, 10, 20);
	b = pipe_bind_store(pipe, "b", 2, 30, 40);
	pipe_submit(pipe); /* the one buffer is with a */
	pipe_settle(pipe);
	assert_int_equal(pipe->store_count, 1);
	dsr_store_pipeline_finish(&pipe->stores, "b", hash, pipe->now_ns + 1000000);
	assert_true(dsr_store_pipeline_reads(&pipe->stores, "b", hash));
	dsr_store_pipeline_pump(&pipe->stores);
	assert_true(dsr_store_pipeline_reads(&pipe->stores, "b", hash));
	pipe->now_ns = dsr_store_pipeline_deadline(&pipe->stores);
	dsr_store_pipeline_pump(&pipe->stores);
	assert_false(dsr_store_pipeline_reads(&pipe->stores, "b", hash));
	assert_true(pipe->releases > 0);
	assert_int_equal(dsr_store_pipeline_deadline(&pipe->stores), UINT64_MAX);
	assert_int_equal(pipe->drops_sent[0].reason, DSR_REASON_DEADLINE);
	pipe_drop_reply(pipe, &pipe->drops_sent[0], 0);
	assert_results(b, 0, 2, TOLD(DEADLINE));
}

static void a_full_queue_is_tried_again(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *store = pipe_bind_store(pipe, "a", 2, 10, 20);

	pipe->send_error = -EAGAIN;
	pipe_submit(pipe);
	pipe_settle(pipe);
	assert_true(pipe->stores.is_blocked);
	assert_int_equal(pipe->stores.buffers.free, PIPE_BUFFERS - 1);
	pipe->send_error = 0;
	dsr_store_pipeline_pump(&pipe->stores);
	pipe_serve_store(pipe, &pipe->stores_sent[0]);
	assert_results(store, 0, 2, DSR_RESULT_STORED);
}

static void cancelling_lets_what_was_launched_end(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_store *a, *b;

	a = pipe_bind_store(pipe, "a", 1, 10, 20);
	b = pipe_bind_store(pipe, "b", 2, 30, 40);
	pipe_submit(pipe);
	dsr_store_pipeline_cancel(&pipe->stores);
	pipe_settle(pipe);
	dsr_store_pipeline_pump(&pipe->stores);
	pipe_drop_reply(pipe, &pipe->drops_sent[0], 0);
	pipe_serve_store(pipe, &pipe->stores_sent[0]);
	assert_results(a, 0, 1, DSR_RESULT_STORED);
	assert_results(b, 0, 2, TOLD(CANCELLED));
	assert_true(dsr_store_pipeline_is_idle(&pipe->stores));
}

#define MANY(name) cmocka_unit_test_setup_teardown(name, pipe_open_stores, pipe_close)
#define ONE(name) cmocka_unit_test_setup_teardown(name, pipe_open_stores_one, pipe_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MANY(a_save_reaches_l1_with_its_digests),
		MANY(as_many_saves_as_buffers_are_under_way_at_once),
		ONE(three_times_the_buffer_goes_through_one_buffer),
		MANY(a_store_is_sent_when_its_gather_has_ended),
		MANY(preemption_drops_what_was_not_launched),
		ONE(preemption_of_a_queued_save_waits_for_nothing),
		MANY(a_drop_that_nobody_took_is_untold),
		ONE(the_queue_is_bounded),
		MANY(without_an_actor_a_save_is_dropped_untold),
		MANY(the_death_of_the_actor_ends_every_save),
		MANY(each_block_has_the_result_that_the_actor_gave),
		MANY(a_refused_store_is_untold),
		MANY(late_and_foreign_replies_change_nothing),
		ONE(an_ended_request_drops_what_is_late),
		MANY(a_full_queue_is_tried_again),
		ONE(cancelling_lets_what_was_launched_end),
	};

	return cmocka_run_group_tests_name("native store pipeline", tests, NULL, NULL);
}
