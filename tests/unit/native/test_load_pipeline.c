/* SPDX-License-Identifier: Apache-2.0 */
/* LoadPipeline on the host device; the load actor is the test. */
#include "pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The only load that ended, with `failed` failed blocks, all for that reason. */
static const struct dsr_load *ended(const struct pipe *pipe, uint32_t failed, uint32_t reason)
{
	const struct dsr_load *load;

	assert_int_equal(pipe->ended_load_count, 1);
	load = pipe->ended_loads[0];
	assert_int_equal(load->failed, failed);
	assert_int_equal(load->reasons, failed > 0 ? 1u << reason : 0);
	return load;
}

static void a_load_brings_its_blocks_into_the_cache(void **state)
{
	struct pipe *pipe = *state;
	struct dsr_record record = {0};
	const struct dsr_load *load;

	(void)pipe_bind_load(pipe, "a", 4, 10, 20);
	pipe_start(pipe);
	assert_int_equal(pipe->load_count, 1);
	assert_int_equal(pipe->loads_sent[0].count, 4);
	assert_int_equal(pipe->loads_sent[0].segment_blocks, 2); /* at least two segments */
	assert_int_equal(pipe->loads_sent[0].refs[3].slot, 23);
	pipe_serve_load(pipe, &pipe->loads_sent[0]);
	pipe_settle(pipe);
	load = ended(pipe, 0, 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(pipe_kv_holds(pipe, 10 + i, "a", i));
	assert_true(dsr_load_pipeline_is_idle(&pipe->loads));
	dsr_times_record(&load->times, pipe->now_ns + 1000, &record);
	assert_int_equal(record.segments, 2);
	assert_int_equal(record.copies, 4);
	assert_true(record.kv_ns > 0 && record.open_ns > 0);
	assert_int_equal(record.wait_ns, 10);
	assert_int_equal(record.copy_ns, 20);
	assert_int_equal(record.total_ns, record.open_ns + record.wait_ns + record.ipc_ns +
	                                          record.copy_ns + record.kv_ns + record.sync_ns);
}

static void three_times_the_buffer_goes_through_one_buffer(void **state)
{
	struct pipe *pipe = *state;

	(void)pipe_bind_load(pipe, "a", 3 * PIPE_BATCH, 10, 20);
	pipe_start(pipe);
	for (uint32_t batch = 0; batch < 3; batch++) {
		/* The next batch waits for the buffer: for the reply and for its scatters. */
		assert_int_equal(pipe->load_count, batch + 1);
		assert_int_equal(pipe->loads_sent[batch].buffer, 0);
		assert_int_equal(pipe->loads_sent[batch].count, PIPE_BATCH);
		assert_int_equal(pipe->loads_sent[batch].refs[0].slot, 20 + batch * PIPE_BATCH);
		if (batch > 0)
			assert_true(pipe->loads_sent[batch].lend >
			            pipe->loads_sent[batch - 1].lend);
		pipe_hold(pipe, true);
		pipe_serve_load(pipe, &pipe->loads_sent[batch]);
		pipe_settle(pipe);
		assert_int_equal(pipe->load_count, batch + 1);
		pipe_hold(pipe, false);
		pipe_settle(pipe);
	}
	(void)ended(pipe, 0, 0);
	assert_int_equal(pipe->load_count, 3);
	for (uint32_t i = 0; i < 3 * PIPE_BATCH; i++)
		assert_true(pipe_kv_holds(pipe, 10 + i, "a", i));
}

static void loads_take_turns_with_the_buffers(void **state)
{
	struct pipe *pipe = *state;

	(void)pipe_bind_load(pipe, "long", 6 * PIPE_BATCH, 0, 0);
	(void)pipe_bind_load(pipe, "b", 1, 30, 30);
	(void)pipe_bind_load(pipe, "c", 1, 31, 31);
	pipe_start(pipe);
	/* One batch of each, then the long one again. */
	assert_int_equal(pipe->load_count, PIPE_BUFFERS);
	assert_int_equal(pipe->loads_sent[0].refs[0].slot, 0);
	assert_int_equal(pipe->loads_sent[1].refs[0].slot, 30);
	assert_int_equal(pipe->loads_sent[2].refs[0].slot, 31);
	assert_int_equal(pipe->loads_sent[3].refs[0].slot, PIPE_BATCH);
	assert_int_equal(pipe->loads.busy.count_max, 3);
	for (uint32_t i = 0; i < 8; i++) {
		assert_true(i < pipe->load_count);
		pipe_serve_load(pipe, &pipe->loads_sent[i]);
		pipe_settle(pipe);
	}
	assert_int_equal(pipe->ended_load_count, 3);
	assert_int_equal(pipe->load_count, 8);
	for (uint32_t i = 0; i < 6 * PIPE_BATCH; i++)
		assert_true(pipe_kv_holds(pipe, i, "long", i));
}

static void of_two_loads_only_the_bad_block_fails(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_load *a, *b;

	a = pipe_bind_load(pipe, "a", 4, 10, 20);
	b = pipe_bind_load(pipe, "b", 4, 30, 40);
	pipe->l1[22][PIPE_PAYLOAD - 1] ^= 1;
	pipe_start(pipe);
	pipe_serve_load(pipe, &pipe->loads_sent[0]);
	pipe_serve_load(pipe, &pipe->loads_sent[1]);
	pipe_settle(pipe);
	assert_int_equal(pipe->ended_load_count, 2);
	assert_int_equal(a->failed, 1);
	assert_int_equal(a->blocks.results[2], DSR_REASON_DIGEST);
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(dsr_load_block_failed(a, i) == (i == 2));
		assert_false(dsr_load_block_failed(b, i));
		assert_true(pipe_kv_holds(pipe, 30 + i, "b", i));
		assert_true(pipe_kv_holds(pipe, 10 + i, "a", i) == (i != 2));
	}
	assert_int_equal(pipe->mismatches, 1);
}

static void the_right_bytes_of_another_block_fail(void **state)
{
	struct pipe *pipe = *state;

	(void)pipe_bind_load(pipe, "a", 2, 10, 20);
	/* A whole, consistent block with its own digest, but not the one that was asked for. */
	pipe_fill_slot(pipe, 21, "b", 1);
	pipe_start(pipe);
	pipe_serve_load(pipe, &pipe->loads_sent[0]);
	pipe_settle(pipe);
	assert_true(dsr_load_block_failed(ended(pipe, 1, DSR_REASON_DIGEST), 1));
}

static void a_slot_that_was_bound_anew_is_evicted_and_no_mismatch(void **state)
{
	struct pipe *pipe = *state;

	(void)pipe_bind_load(pipe, "a", 2, 10, 20);
	pipe_start(pipe);
	pipe_fill_slot(pipe, 20, "b", 0);
	pipe->l1_seqs[20]++;
	pipe_serve_load(pipe, &pipe->loads_sent[0]);
	pipe_settle(pipe);
	assert_true(dsr_load_block_failed(ended(pipe, 1, DSR_REASON_EVICTED), 0));
	assert_int_equal(pipe->mismatches, 0);
}

static void errors_of_segments_fail_their_blocks_alone(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_load *load = pipe_bind_load(pipe, "a", 4, 10, 20);

	pipe_start(pipe);
	pipe_segment_err(pipe, &pipe->loads_sent[0], 0, -ESTALE);
	pipe_segment(pipe, &pipe->loads_sent[0], 1, 1);
	pipe_segment_err(pipe, &pipe->loads_sent[0], 2, -EIO);
	pipe_segment(pipe, &pipe->loads_sent[0], 3, 1);
	pipe_load_reply(pipe, &pipe->loads_sent[0], 0);
	pipe_settle(pipe);
	assert_int_equal(pipe->ended_load_count, 1);
	assert_int_equal(load->blocks.results[0], DSR_REASON_EVICTED);
	assert_int_equal(load->blocks.results[2], DSR_REASON_UNREADABLE);
	assert_int_equal(load->failed, 2);
	assert_true(pipe_kv_holds(pipe, 11, "a", 1));
	assert_true(pipe_kv_holds(pipe, 13, "a", 3));
}

static void good_and_bad_in_one_segment_are_told_apart(void **state)
{
	struct pipe *pipe = *state;
	const struct dsr_load *load = pipe_bind_load(pipe, "a", 4, 10, 20);
	const int32_t errs[] = {0, -ESTALE, 0, 0};
	const struct pipe_sent *sent = &pipe->loads_sent[0];
	struct dsr_msg_segment msg = {.errs = {.v = errs, .n = 4}};

	pipe_start(pipe);
	msg.buffer = sent->buffer;
	msg.lend = sent->lend;
	for (uint32_t i = 0; i < 4; i++)
		memcpy(pipe->staging + i * PIPE_PAYLOAD, pipe->l1[20 + i], PIPE_PAYLOAD);
	dsr_load_pipeline_on_segment(&pipe->loads, &msg);
	pipe_load_reply(pipe, sent, 0);
	pipe_settle(pipe);
	assert_int_equal(ended(pipe, 1, DSR_REASON_EVICTED)->blocks.results[1], DSR_REASON_EVICTED);
	assert_true(pipe_kv_holds(pipe, 10, "a", 0));
	assert_true(pipe_kv_holds(pipe, 12, "a", 2));
	assert_true(pipe_kv_holds(pipe, 13, "a", 3));
	assert_int_equal(load->times.segments, 2);
}

static void without_an_actor_every_block_fails_at_once(void **state)
{
	struct pipe *pipe = *state;

	dsr_load_pipeline_detach(&pipe->loads, DSR_REASON_ACTOR_GONE);
	(void)pipe_bind_load(pipe, "a", 4, 10, 20);
	pipe_start(pipe);
	(void)ended(pipe, 4, DSR_REASON_DETACHED);
	assert_int_equal(pipe->load_count, 0);
}

static void the_deadline_ends_the_load_and_not_the_copy(void **state)
{
	struct pipe *pipe = *state;
	const struct pipe_sent *sent = &pipe->loads_sent[0];

	(void)pipe_bind_load(pipe, "a", PIPE_BATCH + 2, 10, 20);
	pipe_start(pipe);
	assert_int_equal(pipe->load_count, 1);
	pipe_segment(pipe, sent, 0, 1);
	pipe_settle(pipe);
	assert_true(dsr_load_pipeline_deadline(&pipe->loads) < UINT64_MAX);
	pipe->now_ns = dsr_load_pipeline_deadline(&pipe->loads);
	dsr_load_pipeline_pump(&pipe->loads);
	(void)ended(pipe, PIPE_BATCH + 1, DSR_REASON_DEADLINE);
	assert_true(pipe_kv_holds(pipe, 10, "a", 0));
	/* The actor may still write into the buffer: nobody gets it. */
	assert_int_equal(pipe->loads.buffers.quarantined, 1);
	assert_int_equal(pipe->loads.buffers.free, 0);
	assert_false(dsr_load_pipeline_is_idle(&pipe->loads));
	(void)pipe_bind_load(pipe, "b", 1, 30, 40);
	pipe_start(pipe);
	assert_int_equal(pipe->load_count, 1);
	/* What comes now is late: nothing is scattered. */
	pipe_segment(pipe, sent, 1, 3);
	pipe_settle(pipe);
	assert_false(pipe_kv_holds(pipe, 11, "a", 1));
	pipe_load_reply(pipe, sent, 0);
	assert_int_equal(pipe->loads.buffers.quarantined, 0);
	assert_int_equal(pipe->load_count, 2);
	pipe_serve_load(pipe, &pipe->loads_sent[1]);
	pipe_settle(pipe);
	assert_int_equal(pipe->ended_load_count, 2);
	assert_true(pipe_kv_holds(pipe, 30, "b", 0));
}

static void the_deadline_waits_for_a_scatter_that_runs(void **state)
{
	struct pipe *pipe = *state;

	(void)pipe_bind_load(pipe, "a", 4, 10, 20);
	pipe_start(pipe);
	pipe_hold(pipe, true);
	pipe_segment(pipe, &pipe->loads_sent[0], 0, 2);
	pipe->now_ns = dsr_load_pipeline_deadline(&pipe->loads);
	dsr_load_pipeline_pump(&pipe->loads);
	/* The KV blocks may be written at this very moment. */
	assert_int_equal(pipe->ended_load_count, 0);
	assert_int_equal(pipe->loads.buffers.quarantined, 1);
	pipe_settle(pipe);
	assert_int_equal(pipe->ended_load_count, 0);
	pipe_hold(pipe, false);
	pipe_settle(pipe);
	(void)ended(pipe, 2, DSR_REASON_DEADLINE);
	assert_true(pipe_kv_holds(pipe, 10, "a", 0));
	assert_true(pipe_kv_holds(pipe, 11, "a", 1));
}

static void duplicate_and_foreign_messages_change_nothing(void **state)
{
	struct pipe *pipe = *state;
	const struct pipe_sent *sent = &pipe->loads_sent[0];
	struct pipe_sent foreign;

	(void)pipe_bind_load(pipe, "a", 4, 10, 20);
	pipe_start(pipe);
	foreign = *sent;
	foreign.lend += 7;
	foreign.cookie += 7;
	pipe_segment_err(pipe, &foreign, 0, -EIO);
	pipe_load_reply(pipe, &foreign, -EIO);
	foreign = *sent;
	foreign.buffer = 17;
	pipe_segment_err(pipe, &foreign, 0, -EIO);
	pipe_segment_err(pipe, sent, 4, -EIO);          /* behind the end */
	pipe_segment_err(pipe, sent, UINT32_MAX, -EIO); /* far behind it */
	pipe_segment(pipe, sent, 0, 2);
	pipe_segment(pipe, sent, 0, 2);
	pipe_segment_err(pipe, sent, 1, -EIO);
	pipe_segment(pipe, sent, 2, 2);
	pipe_load_reply(pipe, sent, 0);
	pipe_load_reply(pipe, sent, -EIO);
	pipe_settle(pipe);
	pipe_load_reply(pipe, sent, -EIO);
	pipe_segment(pipe, sent, 0, 4);
	pipe_settle(pipe);
	(void)ended(pipe, 0, 0);
	assert_int_equal(pipe->loads.buffers.free, PIPE_BUFFERS);
}

static void what_arrived_before_the_actor_died_counts(void **state)
{
	struct pipe *pipe = *state;

	(void)pipe_bind_load(pipe, "a", 2 * PIPE_BATCH, 10, 20);
	pipe_start(pipe);
	pipe_segment(pipe, &pipe->loads_sent[0], 0, 2);
	/* As the link tells it: first each request, then the death. */
	dsr_load_pipeline_on_failed(&pipe->loads, pipe->loads_sent[0].cookie, -EOWNERDEAD);
	dsr_load_pipeline_detach(&pipe->loads, DSR_REASON_ACTOR_GONE);
	pipe_settle(pipe);
	(void)ended(pipe, 2 * PIPE_BATCH - 2, DSR_REASON_ACTOR_GONE);
	assert_true(pipe_kv_holds(pipe, 10, "a", 0));
	assert_true(pipe_kv_holds(pipe, 11, "a", 1));
	assert_true(dsr_load_pipeline_is_idle(&pipe->loads));
}

static void quarantine_ends_with_the_death_of_the_actor(void **state)
{
	struct pipe *pipe = *state;

	(void)pipe_bind_load(pipe, "a", 1, 10, 20);
	pipe_start(pipe);
	pipe->now_ns = dsr_load_pipeline_deadline(&pipe->loads);
	dsr_load_pipeline_pump(&pipe->loads);
	assert_int_equal(pipe->loads.buffers.quarantined, 1);
	dsr_load_pipeline_on_failed(&pipe->loads, pipe->loads_sent[0].cookie, -ETIMEDOUT);
	assert_int_equal(pipe->loads.buffers.quarantined, 1); /* time alone frees nothing */
	dsr_load_pipeline_on_failed(&pipe->loads, pipe->loads_sent[0].cookie, -EOWNERDEAD);
	assert_int_equal(pipe->loads.buffers.quarantined, 0);
	assert_true(dsr_load_pipeline_is_idle(&pipe->loads));
}

static void a_refused_load_fails_with_the_reason(void **state)
{
	struct pipe *pipe = *state;

	(void)pipe_bind_load(pipe, "a", 2, 10, 20);
	pipe_start(pipe);
	pipe_load_reply(pipe, &pipe->loads_sent[0], -EAGAIN);
	(void)ended(pipe, 2, DSR_REASON_QUEUE_FULL);
	assert_true(dsr_load_pipeline_is_idle(&pipe->loads));
}

static void blocks_that_an_actor_forgot_fail(void **state)
{
	struct pipe *pipe = *state;

	(void)pipe_bind_load(pipe, "a", 4, 10, 20);
	pipe_start(pipe);
	pipe_segment(pipe, &pipe->loads_sent[0], 0, 2);
	pipe_load_reply(pipe, &pipe->loads_sent[0], 0);
	pipe_settle(pipe);
	(void)ended(pipe, 2, DSR_REASON_UNREADABLE);
}

static void a_full_queue_is_tried_again(void **state)
{
	struct pipe *pipe = *state;

	pipe->send_error = -EAGAIN;
	(void)pipe_bind_load(pipe, "a", 2, 10, 20);
	pipe_start(pipe);
	assert_true(pipe->loads.is_blocked);
	assert_int_equal(pipe->loads.buffers.free, PIPE_BUFFERS);
	pipe->send_error = 0;
	dsr_load_pipeline_pump(&pipe->loads);
	assert_false(pipe->loads.is_blocked);
	pipe_serve_load(pipe, &pipe->loads_sent[0]);
	pipe_settle(pipe);
	(void)ended(pipe, 0, 0);
}

static void an_unreachable_actor_fails_the_load(void **state)
{
	struct pipe *pipe = *state;

	pipe->send_error = -EHOSTUNREACH;
	(void)pipe_bind_load(pipe, "a", 2, 10, 20);
	pipe_start(pipe);
	(void)ended(pipe, 2, DSR_REASON_ACTOR_GONE);
}

static void scatters_come_after_the_event(void **state)
{
	struct pipe *pipe = *state;
	const size_t bytes = 8 << 20;
	struct dsr_stream *compute;
	struct dsr_event event;
	uint8_t *from = calloc(1, bytes), *to = malloc(bytes);
	struct dsr_copy copies[9];
	uint8_t old[PIPE_RUN_BYTES] = {0};

	assert_non_null(from);
	assert_non_null(to);
	assert_int_equal(dsr_stream_open(pipe->device, &compute), 0);
	(void)pipe_bind_load(pipe, "a", 1, 10, 20);
	/* The step before still computes, and then writes into the block. */
	for (int i = 0; i < 8; i++)
		copies[i] = (struct dsr_copy){.dst = to, .src = from, .bytes = bytes};
	copies[8] = (struct dsr_copy){.dst = pipe->layout.pieces[0].base +
	                                     10 * pipe->layout.pieces[0].block_stride,
	                              .src = old,
	                              .bytes = sizeof(old)};
	assert_int_equal(dsr_stream_copy(compute, copies, 9), 0);
	assert_int_equal(dsr_stream_record(compute, &event), 0);
	dsr_load_pipeline_start(&pipe->loads, event, UINT64_MAX - 1);
	dsr_load_pipeline_pump(&pipe->loads);
	pipe_serve_load(pipe, &pipe->loads_sent[0]);
	pipe_settle(pipe);
	(void)ended(pipe, 0, 0);
	assert_true(dsr_event_done(event));
	assert_true(pipe_kv_holds(pipe, 10, "a", 0));
	dsr_stream_close(&compute);
	free(from);
	free(to);
}

static void cancelling_ends_every_load_and_keeps_what_is_out(void **state)
{
	struct pipe *pipe = *state;

	(void)pipe_bind_load(pipe, "a", 2, 10, 20);
	pipe_start(pipe);
	(void)pipe_bind_load(pipe, "b", 2, 30, 40); /* never started */
	dsr_load_pipeline_cancel(&pipe->loads);
	(void)ended(pipe, 2, DSR_REASON_CANCELLED);
	assert_false(dsr_load_pipeline_is_idle(&pipe->loads));
	pipe_load_reply(pipe, &pipe->loads_sent[0], -ECANCELED);
	assert_true(dsr_load_pipeline_is_idle(&pipe->loads));
}

#define MANY(name) cmocka_unit_test_setup_teardown(name, pipe_open_loads, pipe_close)
#define ONE(name) cmocka_unit_test_setup_teardown(name, pipe_open_loads_one, pipe_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MANY(a_load_brings_its_blocks_into_the_cache),
		ONE(three_times_the_buffer_goes_through_one_buffer),
		MANY(loads_take_turns_with_the_buffers),
		MANY(of_two_loads_only_the_bad_block_fails),
		MANY(the_right_bytes_of_another_block_fail),
		MANY(a_slot_that_was_bound_anew_is_evicted_and_no_mismatch),
		MANY(errors_of_segments_fail_their_blocks_alone),
		MANY(good_and_bad_in_one_segment_are_told_apart),
		MANY(without_an_actor_every_block_fails_at_once),
		ONE(the_deadline_ends_the_load_and_not_the_copy),
		MANY(the_deadline_waits_for_a_scatter_that_runs),
		MANY(duplicate_and_foreign_messages_change_nothing),
		ONE(what_arrived_before_the_actor_died_counts),
		ONE(quarantine_ends_with_the_death_of_the_actor),
		MANY(a_refused_load_fails_with_the_reason),
		MANY(blocks_that_an_actor_forgot_fail),
		MANY(a_full_queue_is_tried_again),
		MANY(an_unreachable_actor_fails_the_load),
		MANY(scatters_come_after_the_event),
		MANY(cancelling_ends_every_load_and_keeps_what_is_out),
	};

	return cmocka_run_group_tests_name("native load pipeline", tests, NULL, NULL);
}
