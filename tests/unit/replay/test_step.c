/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and steps: what one side puts, the other gets; cut or changed bytes are errors. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "rng.h"
#include "step.h"

static void a_setup_arrives_as_it_was_sent(void **state)
{
	struct replay_setup a = {.run_dir = "/run/x",
	                         .engine = "e",
	                         .fingerprint_text = "f",
	                         .device = "host:3",
	                         .staging_mode = "lean",
	                         .block_bytes = 1,
	                         .staging_ceiling = 2,
	                         .rank = 3,
	                         .world = 4,
	                         .lane = 5,
	                         .lanes = 6,
	                         .writer = 1,
	                         .block_tokens = 8,
	                         .blocks = 9,
	                         .layers = 10,
	                         .load_deadline_ms = 11,
	                         .save_deadline_ms = 12};
	struct replay_setup b;
	struct replay_buf buf = {0};

	(void)state;
	replay_setup_put(&buf, &a);
	assert_int_equal(replay_setup_get(replay_view_of(&buf), &b), 0);
	assert_string_equal(b.device, "host:3");
	assert_string_equal(b.staging_mode, "lean");
	assert_int_equal(b.block_bytes, 1);
	assert_int_equal(b.lanes, 6);
	assert_int_equal(b.save_deadline_ms, 12);
	for (size_t length = 0; length < buf.length; length++) {
		struct replay_view view = {.at = buf.data, .end = buf.data + length};

		assert_int_equal(replay_setup_get(view, &b), -EBADMSG);
	}
	replay_put_u32(&buf, 0);
	assert_int_equal(replay_setup_get(replay_view_of(&buf), &b), -EBADMSG);
	replay_buf_done(&buf);
}

static void put_step(struct replay_buf *buf)
{
	struct replay_step step = {0};

	replay_put_text(&step.finished, "p0.1");
	step.finished_count = 1;
	replay_put_u32(&step.poison, 7);
	step.poison_count = 1;
	replay_put_text(&step.loads, "p0.2");
	for (uint32_t i = 0; i < 4; i++)
		replay_put_u32(&step.loads, i);
	replay_put_u32(&step.loads, 2);
	for (uint32_t i = 0; i < 2; i++)
		replay_put_u32(&step.loads, 40 + i);
	for (uint64_t i = 0; i < 2; i++)
		replay_put_u64(&step.loads, 50 + i);
	step.load_count = 1;
	replay_step_put(buf, &step, 123, "meta", 4);
	replay_step_done(&step);
}

static void a_step_arrives_as_it_was_sent(void **state)
{
	struct replay_buf buf = {0};
	struct replay_step_view step;
	struct replay_run run;

	(void)state;
	put_step(&buf);
	assert_int_equal(replay_step_get(replay_view_of(&buf), &step), 0);
	assert_int_equal(step.wait_ns, 123);
	assert_int_equal(step.meta_length, 4);
	assert_memory_equal(step.meta, "meta", 4);
	assert_string_equal(replay_get_text(&step.lists), "p0.1");
	assert_int_equal(replay_get_u32(&step.lists), 7);
	assert_int_equal(replay_run_get(&step.lists, &run), 0);
	assert_string_equal(run.name, "p0.2");
	assert_int_equal(run.request, 0);
	assert_int_equal(run.first, 1);
	assert_int_equal(run.to, 3);
	assert_int_equal(run.count, 2);
	assert_int_equal(replay_u32_at(run.ids, 1), 41);
	assert_int_equal(replay_u64_at(run.seeds, 1), 51);
	assert_ptr_equal(step.lists.at, step.lists.end);
	assert_false(step.lists.failed);
	replay_buf_done(&buf);
}

static void changed_bytes_never_reach_beyond_the_frame(void **state)
{
	struct replay_rng rng = {.state = 3};
	struct replay_buf buf = {0};

	(void)state;
	put_step(&buf);
	for (uint32_t round = 0; round < 5000; round++) {
		uint8_t copy[512];
		struct replay_step_view step;
		struct replay_run run;
		struct replay_done done;
		struct replay_view view = {
			.at = copy, .end = copy + replay_rng_below(&rng, (uint32_t)buf.length + 1)};

		assert_true(buf.length <= sizeof(copy));
		(void)memcpy(copy, buf.data, buf.length);
		copy[replay_rng_below(&rng, (uint32_t)buf.length)] ^=
			(uint8_t)(1 + replay_rng_below(&rng, 255));
		if (replay_step_get(view, &step) == 0) {
			(void)replay_get_text(&step.lists);
			while (replay_run_get(&step.lists, &run) == 0)
				for (uint32_t i = 0; i < run.count; i++)
					(void)replay_u64_at(run.seeds, i);
			assert_true(step.lists.at <= view.end);
		}
		(void)replay_done_get(view, &done);
	}
	replay_buf_done(&buf);
}

static void a_frame_comes_through_a_socket_in_pieces(void **state)
{
	struct replay_inbox inbox = {0};
	struct replay_buf body = {0};
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	replay_put_text(&body, "hello");
	uint32_t header[2] = {(uint32_t)body.length, REPLAY_FRAME_STEP};

	assert_int_equal(replay_inbox_read(&inbox, pair[1]), 0);
	assert_int_equal(write(pair[0], header, 5), 5);
	assert_int_equal(replay_inbox_read(&inbox, pair[1]), 0);
	assert_int_equal(write(pair[0], (uint8_t *)header + 5, 3), 3);
	assert_int_equal(write(pair[0], body.data, 3), 3);
	assert_int_equal(replay_inbox_read(&inbox, pair[1]), 0);
	assert_int_equal(write(pair[0], body.data + 3, body.length - 3), body.length - 3);
	assert_int_equal(replay_inbox_read(&inbox, pair[1]), 1);
	assert_int_equal(inbox.type, REPLAY_FRAME_STEP);
	assert_int_equal(inbox.body.length, body.length);
	assert_memory_equal(inbox.body.data, body.data, body.length);
	/* an empty one, and the end */
	assert_int_equal(replay_frame_send(pair[0], REPLAY_FRAME_WAKE, NULL), 0);
	assert_int_equal(replay_inbox_wait(&inbox, pair[1], 1000), 1);
	assert_int_equal(inbox.type, REPLAY_FRAME_WAKE);
	assert_int_equal(inbox.body.length, 0);
	assert_int_equal(replay_inbox_wait(&inbox, pair[1], 1), -ETIMEDOUT);
	(void)close(pair[0]);
	assert_int_equal(replay_inbox_wait(&inbox, pair[1], 1000), -EPIPE);
	assert_int_equal(replay_frame_send(pair[1], REPLAY_FRAME_STEP, &body), -EPIPE);
	(void)close(pair[1]);
	replay_inbox_done(&inbox);
	replay_buf_done(&body);
}

static void a_frame_of_absurd_length_is_refused(void **state)
{
	struct replay_inbox inbox = {0};
	uint32_t header[2] = {UINT32_MAX, 1};
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(write(pair[0], header, sizeof(header)), sizeof(header));
	assert_int_equal(replay_inbox_read(&inbox, pair[1]), -EMSGSIZE);
	(void)close(pair[0]);
	(void)close(pair[1]);
	replay_inbox_done(&inbox);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_setup_arrives_as_it_was_sent),
		cmocka_unit_test(a_step_arrives_as_it_was_sent),
		cmocka_unit_test(changed_bytes_never_reach_beyond_the_frame),
		cmocka_unit_test(a_frame_comes_through_a_socket_in_pieces),
		cmocka_unit_test(a_frame_of_absurd_length_is_refused),
	};

	return cmocka_run_group_tests_name("replay_step", tests, NULL, NULL);
}
