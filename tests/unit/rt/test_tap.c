/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <zmq.h>

#include "codec.h"
#include "link.h"
#include "rt_test.h"
#include "side.h"

/* What a reader was shown. */
struct seen {
	unsigned count;
	bool has_seen;
	char line[256];
	uint8_t frame[64];
	size_t bytes;
};

static void on_tapped(void *self, const char *line, const void *frame, size_t bytes)
{
	struct seen *seen = self;

	seen->count++;
	seen->has_seen = true;
	(void)snprintf(seen->line, sizeof(seen->line), "%s", line);
	seen->bytes = bytes;
	memcpy(seen->frame, frame, bytes < sizeof(seen->frame) ? bytes : sizeof(seen->frame));
}

struct fixture {
	char *run_dir;
	struct dsr_loop *loop;
	void *zmq;
	struct dsr_tap *tap;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->run_dir = test_make_run_dir();
	assert_int_equal(dsr_loop_new(&f->loop), 0);
	f->zmq = zmq_ctx_new();
	assert_int_equal(
		dsr_tap_bind(f->loop, f->zmq, f->run_dir, DSR_ROLE_LOAD, "host:0", &f->tap), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	dsr_tap_unbind(&f->tap);
	assert_null(f->tap);
	dsr_tap_unbind(&f->tap);
	assert_int_equal(zmq_ctx_term(f->zmq), 0);
	dsr_loop_free(&f->loop);
	test_remove_run_dir(&f->run_dir);
	free(f);
	return 0;
}

static void wait_watched(struct fixture *f, bool is_wanted)
{
	uint64_t end_ns = dsr_now_ns() + TEST_WAIT_NS;

	while (dsr_tap_is_watched(f->tap) != is_wanted) {
		assert_true(dsr_now_ns() < end_ns);
		assert_true(dsr_loop_step(f->loop, 50) >= 0);
	}
}

static void a_tap_is_watched_while_somebody_reads(void **state)
{
	struct fixture *f = *state;
	struct dsr_tap_reader *reader;
	struct seen seen = {0};

	assert_false(dsr_tap_is_watched(NULL));
	assert_false(dsr_tap_is_watched(f->tap));
	assert_int_equal(dsr_tap_open(f->loop, f->run_dir, DSR_ROLE_LOAD, "host:0", "", on_tapped,
	                              &seen, &reader),
	                 0);
	wait_watched(f, true);
	dsr_tap_publish(f->tap, "out worker - 5", "\x01\x02\x00\x03", 4);
	test_run_until(f->loop, &seen.has_seen);
	assert_string_equal(seen.line, "out worker - 5");
	assert_int_equal(seen.bytes, 4);
	assert_memory_equal(seen.frame, "\x01\x02\x00\x03", 4);
	dsr_tap_close(&reader);
	assert_null(reader);
	dsr_tap_close(&reader);
	wait_watched(f, false);
}

static void a_reader_chooses_by_prefix(void **state)
{
	struct fixture *f = *state;
	struct dsr_tap_reader *reader;
	struct seen seen = {0};

	assert_int_equal(dsr_tap_open(f->loop, f->run_dir, DSR_ROLE_LOAD, "host:0", "in worker",
	                              on_tapped, &seen, &reader),
	                 0);
	wait_watched(f, true);
	dsr_tap_publish(f->tap, "out worker - 5", "a", 1);
	dsr_tap_publish(f->tap, "in scheduler - 5", "b", 1);
	dsr_tap_publish(f->tap, "in worker - 5", "c", 1);
	test_run_until(f->loop, &seen.has_seen);
	assert_int_equal(seen.count, 1);
	assert_memory_equal(seen.frame, "c", 1);
	dsr_tap_close(&reader);
}

static void a_slow_reader_loses_messages_and_blocks_nobody(void **state)
{
	struct fixture *f = *state;
	static uint8_t frame[65536];
	struct dsr_tap_reader *reader;
	struct seen seen = {0};
	unsigned i;

	assert_int_equal(dsr_tap_open(f->loop, f->run_dir, DSR_ROLE_LOAD, "host:0", "", on_tapped,
	                              &seen, &reader),
	                 0);
	wait_watched(f, true);
	for (i = 0; i < 5000; i++) /* nobody turns the loop meanwhile */
		dsr_tap_publish(f->tap, "out worker - 5", frame, sizeof(frame));
	test_run_until(f->loop, &seen.has_seen);
	while (dsr_loop_step(f->loop, 200) > 0)
		assert_int_equal(seen.bytes, sizeof(frame));
	assert_in_range(seen.count, 1, 4999);
	dsr_tap_close(&reader);
}

static void a_reader_may_come_before_its_actor(void **state)
{
	struct fixture *f = *state;
	struct dsr_tap_reader *reader;
	struct seen seen = {0};
	struct dsr_tap *late;
	uint64_t end_ns = dsr_now_ns() + TEST_WAIT_NS;

	assert_int_equal(dsr_tap_open(f->loop, f->run_dir, DSR_ROLE_STORE, "host:0", "", on_tapped,
	                              &seen, &reader),
	                 0);
	assert_true(dsr_loop_step(f->loop, 20) >= 0);
	assert_int_equal(dsr_tap_bind(f->loop, f->zmq, f->run_dir, DSR_ROLE_STORE, "host:0", &late),
	                 0);
	while (!dsr_tap_is_watched(late)) {
		assert_true(dsr_now_ns() < end_ns);
		assert_true(dsr_loop_step(f->loop, 50) >= 0);
	}
	dsr_tap_unbind(&late);
	dsr_tap_close(&reader);
}

/* Everything that a tapped actor hears and says, with whom. */
static unsigned ins, outs, strangers;

static void on_any(void *self, const char *line, const void *frame, size_t bytes)
{
	struct dsr_codec *codec = self;
	struct dsr_env env;
	union dsr_msg msg;

	assert_int_equal(dsr_codec_unpack(codec, frame, bytes, &env, &msg), 0);
	ins += env.type == DSR_MSG_LOOKUP && strncmp(line, "in store host:0 ", 16) == 0;
	outs += env.type == DSR_MSG_LOOKUP_REPLY && strncmp(line, "out store host:0 ", 17) == 0;
	strangers += env.type == DSR_MSG_HELLO && strcmp(line, "in ? - 0") == 0;
}

static void a_link_shows_what_it_hears_and_says(void **state)
{
	struct fixture *f = *state;
	struct dsr_codec *codec;
	struct dsr_tap_reader *reader;
	struct side client;
	struct side server;
	uint64_t end_ns = dsr_now_ns() + TEST_WAIT_NS;

	assert_int_equal(dsr_codec_new(&codec), 0);
	side_open_tapped(&server, f->loop, f->run_dir, DSR_ROLE_SCHEDULER, "");
	assert_int_equal(dsr_link_bind(server.link), 0);
	assert_int_equal(dsr_tap_open(f->loop, f->run_dir, DSR_ROLE_SCHEDULER, "", "", on_any,
	                              codec, &reader),
	                 0);
	side_open(&client, f->loop, f->run_dir, DSR_ROLE_STORE, "host:0", NULL);
	assert_int_equal(dsr_link_connect(client.link, DSR_ROLE_SCHEDULER, ""), 0);
	side_wait(&client, &client.ready, 1);
	while (ins == 0 || outs == 0) { /* the tap's subscription takes a moment */
		assert_true(dsr_now_ns() < end_ns);
		assert_int_equal(side_lookup(&client, 1, 10000, 1), 0);
		assert_true(dsr_loop_step(f->loop, 20) >= 0);
	}
	side_close(&client);
	side_open(&client, f->loop, f->run_dir, DSR_ROLE_STORE, "host:1", NULL);
	assert_int_equal(dsr_link_connect(client.link, DSR_ROLE_SCHEDULER, ""), 0);
	while (strangers == 0) {
		assert_true(dsr_now_ns() < end_ns);
		assert_true(dsr_loop_step(f->loop, 20) >= 0);
	}
	side_close(&client);
	dsr_tap_close(&reader);
	side_close(&server);
	dsr_codec_free(&codec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_tap_is_watched_while_somebody_reads, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_reader_chooses_by_prefix, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_slow_reader_loses_messages_and_blocks_nobody,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_reader_may_come_before_its_actor, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_link_shows_what_it_hears_and_says, set_up,
	                                        tear_down),
	};

	return cmocka_run_group_tests_name("tap", tests, NULL, NULL);
}
