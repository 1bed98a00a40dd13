/* SPDX-License-Identifier: Apache-2.0 */
/* A link and peers that break the rules. */
#include "link.h"

#include "raw_peer.h"
#include "rt_test.h"
#include "side.h"
#include "version.h"

struct fixture {
	char *run_dir;
	struct dsr_loop *loop;
	struct side server; /* a scheduler, bound */
	struct raw_peer *raw;
	struct dsr_env env; /* of the message received last */
	union dsr_msg msg;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->run_dir = test_make_run_dir();
	assert_int_equal(dsr_loop_new(&f->loop), 0);
	side_open(&f->server, f->loop, f->run_dir, DSR_ROLE_SCHEDULER, "", NULL);
	assert_int_equal(dsr_link_bind(f->server.link), 0);
	f->raw = raw_connect(f->run_dir, DSR_ROLE_SCHEDULER, "", NULL);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	raw_close(&f->raw);
	side_close(&f->server);
	dsr_loop_free(&f->loop);
	test_remove_run_dir(&f->run_dir);
	free(f);
	return 0;
}

static void expect(struct fixture *f, uint32_t type)
{
	raw_expect(f->raw, f->loop, type, &f->env, &f->msg);
}

/* Says HELLO as an engine of that incarnation and hears the answer. */
static void greet(struct fixture *f, uint64_t incarnation)
{
	raw_send_hello(f->raw, DSR_ROLE_ENGINE, "", incarnation, 1);
	expect(f, DSR_MSG_HELLO_REPLY);
	assert_int_equal(f->msg.hello_reply.err, 0);
}

static struct dsr_env to_server(const struct fixture *f, uint32_t type, uint64_t from, uint64_t req)
{
	return (struct dsr_env){.major = DSR_PROTOCOL_MAJOR,
	                        .type = type,
	                        .from = from,
	                        .to = f->server.incarnation,
	                        .req = req};
}

static void send_lookup(struct fixture *f, uint64_t from, uint64_t to, uint64_t req)
{
	const struct dsr_msg_lookup m = {.keys = {NULL, 0}};
	struct dsr_env env = to_server(f, DSR_MSG_LOOKUP, from, req);

	env.to = to;
	raw_send_msg(f->raw, &env, &m);
}

static void hello_is_answered_with_who_serves(void **state)
{
	struct fixture *f = *state;
	uint64_t ticks;

	greet(f, 7);
	assert_int_equal(dsr_start_ticks(getpid(), &ticks), 0);
	assert_true(f->env.from == f->server.incarnation);
	assert_true(f->env.to == 7);
	assert_true(f->env.req == 1);
	assert_int_equal(f->msg.hello_reply.major, DSR_PROTOCOL_MAJOR);
	assert_int_equal(f->msg.hello_reply.minor, DSR_PROTOCOL_MINOR);
	assert_int_equal(f->msg.hello_reply.role, DSR_ROLE_SCHEDULER);
	assert_int_equal(f->msg.hello_reply.device.n, 0);
	assert_int_equal(f->msg.hello_reply.pid, getpid());
	assert_true(f->msg.hello_reply.start_ticks == ticks);
	assert_int_equal(f->server.ready, 1);
}

static void hello_said_again_is_answered_again(void **state)
{
	struct fixture *f = *state;

	greet(f, 7);
	greet(f, 7);
	greet(f, 7);
	assert_int_equal(f->server.ready, 1);
	assert_int_equal(f->server.dead, 0);
}

static void nothing_is_accepted_before_hello(void **state)
{
	struct fixture *f = *state;
	const struct dsr_msg_segment event = {0};
	const struct dsr_env env = to_server(f, DSR_MSG_SEGMENT, 7, 0);

	raw_send_msg(f->raw, &env, &event);
	send_lookup(f, 7, f->server.incarnation, 55);
	expect(f, DSR_MSG_LOOKUP_REPLY);
	assert_int_equal(f->msg.lookup_reply.err, -EPROTO);
	assert_true(f->env.req == 55);
	assert_int_equal(f->server.lookups, 0);
	assert_int_equal(f->server.segments, 0);
	assert_true(side_counter(&f->server, DSR_COUNTER_BAD_UNEXPECTED) == 2);
}

static void a_message_for_another_incarnation_is_stale(void **state)
{
	struct fixture *f = *state;

	greet(f, 7);
	send_lookup(f, 7, f->server.incarnation - 1, 2);
	expect(f, DSR_MSG_LOOKUP_REPLY);
	assert_int_equal(f->msg.lookup_reply.err, -ESTALE);
	assert_true(f->env.req == 2);
	assert_int_equal(f->server.lookups, 0);
	assert_true(side_counter(&f->server, DSR_COUNTER_BAD_STALE) == 1);
}

static void a_message_from_an_old_incarnation_is_stale(void **state)
{
	struct fixture *f = *state;

	greet(f, 7);
	send_lookup(f, 6, f->server.incarnation, 3);
	expect(f, DSR_MSG_LOOKUP_REPLY);
	assert_int_equal(f->msg.lookup_reply.err, -ESTALE);
	assert_true(f->env.to == 6);
	assert_int_equal(f->server.lookups, 0);
	assert_true(side_counter(&f->server, DSR_COUNTER_BAD_STALE) == 1);
	send_lookup(f, 7, f->server.incarnation, 4);
	expect(f, DSR_MSG_LOOKUP_REPLY);
	assert_int_equal(f->msg.lookup_reply.err, 0);
}

static void malformed_and_unknown_messages_are_counted_and_dropped(void **state)
{
	static const uint8_t garbage[] = {0xc1, 0xc1, 0xc1};
	static const uint8_t unknown[] = {0x96, 1, 3, 7, 1, 1, 0x90};
	struct fixture *f = *state;

	greet(f, 7);
	raw_send(f->raw, garbage, sizeof(garbage));
	raw_send(f->raw, garbage, sizeof(garbage));
	raw_send(f->raw, "", 0);
	raw_send_two(f->raw, garbage, sizeof(garbage));
	raw_send(f->raw, unknown, sizeof(unknown));
	send_lookup(f, 7, f->server.incarnation, 4);
	expect(f, DSR_MSG_LOOKUP_REPLY);
	assert_int_equal(f->msg.lookup_reply.err, 0);
	assert_true(side_counter(&f->server, DSR_COUNTER_BAD_MALFORMED) == 4);
	assert_true(side_counter(&f->server, DSR_COUNTER_BAD_UNEXPECTED) == 1);
	assert_int_equal(f->server.dead, 0);
}

static void a_malformed_message_is_logged_once_for_each_peer(void **state)
{
	static const uint8_t garbage[] = {0xc1};
	struct fixture *f = *state;
	FILE *out = tmpfile();
	int saved = dup(STDERR_FILENO);
	char line[512];
	unsigned lines = 0;
	unsigned i;

	assert_non_null(out);
	greet(f, 7);
	assert_int_equal(dup2(fileno(out), STDERR_FILENO), STDERR_FILENO);
	for (i = 0; i < 5; i++)
		raw_send(f->raw, garbage, sizeof(garbage));
	side_wait_counter(&f->server, DSR_COUNTER_BAD_MALFORMED, 5);
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	(void)close(saved);
	rewind(out);
	while (fgets(line, sizeof(line), out)) {
		assert_non_null(strstr(line, "dropping a message of 1 bytes from engine"));
		lines++;
	}
	assert_int_equal(lines, 1);
	(void)fclose(out);
}

static void a_routing_id_of_its_own_choice_is_refused(void **state)
{
	struct fixture *f = *state;
	struct raw_peer *named = raw_connect(f->run_dir, DSR_ROLE_SCHEDULER, "", "store-host:0");

	raw_send_hello(named, DSR_ROLE_STORE, "host:0", 7, 1);
	side_wait_counter(&f->server, DSR_COUNTER_BAD_MALFORMED, 1);
	assert_int_equal(f->server.ready, 0);
	raw_close(&named);
}

static void an_oversize_message_ends_its_connection_alone(void **state)
{
	struct fixture *f = *state;
	struct raw_peer *big = raw_connect(f->run_dir, DSR_ROLE_SCHEDULER, "", NULL);
	uint8_t *bytes = calloc(1, DSR_FRAME_MAX + 1);
	uint64_t received;

	assert_non_null(bytes);
	greet(f, 7);
	received = side_counter(&f->server, DSR_COUNTER_MESSAGES_RECEIVED);
	raw_send(big, bytes, DSR_FRAME_MAX + 1);
	/* What it sends then comes over a new connection, so the long one was not taken. */
	raw_send_hello(big, DSR_ROLE_ENGINE, "", 8, 1);
	send_lookup(f, 7, f->server.incarnation, 4);
	expect(f, DSR_MSG_LOOKUP_REPLY);
	assert_int_equal(f->msg.lookup_reply.err, 0);
	assert_true(side_counter(&f->server, DSR_COUNTER_BAD_MALFORMED) == 0);
	assert_true(side_counter(&f->server, DSR_COUNTER_MESSAGES_RECEIVED) <= received + 2);
	free(bytes);
	raw_close(&big);
}

static void a_full_queue_is_a_counted_refusal(void **state)
{
	static int32_t errs[4096];
	struct fixture *f = *state;
	const struct dsr_msg_segment m = {.errs = {errs, 4096}};
	unsigned sent = 0;
	int r;

	greet(f, 7);
	memset(errs, 0x7f, sizeof(errs));
	while ((r = dsr_peer_send(f->server.link, f->server.peer, DSR_MSG_SEGMENT, 0, &m)) == 0) {
		assert_true(++sent < 1000000);
		assert_true(dsr_loop_step(f->loop, 0) >= 0);
	}
	assert_int_equal(r, -EAGAIN);
	assert_true(side_counter(&f->server, DSR_COUNTER_SEND_FULL) == 1);
	assert_true(sent >= 1000);
	/* A request that cannot be sent leaves nothing pending. */
	assert_int_equal(side_lookup(&f->server, 1, 1, 0), -EAGAIN);
	assert_true(dsr_loop_step(f->loop, 20) >= 0);
	assert_int_equal(f->server.failed_count, 0);
	/* Taken from, it can be sent to again. */
	expect(f, DSR_MSG_SEGMENT);
	assert_int_equal(f->msg.segment.errs.n, 4096);
}

static void another_major_version_is_told(void **state)
{
	struct fixture *f = *state;
	/* [2, HELLO, 7, 0, 9, what only version 2 knows] */
	static const uint8_t hello[] = {0x96, 2, 1, 7, 0, 9, 0x81, 1, 2};

	raw_send(f->raw, hello, sizeof(hello));
	expect(f, DSR_MSG_HELLO_REPLY);
	assert_int_equal(f->msg.hello_reply.err, -EPROTONOSUPPORT);
	assert_int_equal(f->msg.hello_reply.major, DSR_PROTOCOL_MAJOR);
	assert_true(f->env.req == 9);
	assert_true(side_counter(&f->server, DSR_COUNTER_BAD_VERSION) == 1);
	assert_int_equal(f->server.ready, 0);
}

static void a_hello_of_nobody_is_refused(void **state)
{
	struct fixture *f = *state;
	const struct dsr_env env = {
		.major = DSR_PROTOCOL_MAJOR, .type = DSR_MSG_HELLO, .from = 7, .req = 1};
	struct dsr_msg_hello m = {.major = DSR_PROTOCOL_MAJOR,
	                          .role = DSR_ROLE_ENGINE,
	                          .pid = getpid(),
	                          .start_ticks = 1};

	raw_send_msg(f->raw, &env, &m); /* the pid lives, but it is another process */
	expect(f, DSR_MSG_HELLO_REPLY);
	assert_int_equal(f->msg.hello_reply.err, -ESRCH);
	m.role = 99;
	raw_send_msg(f->raw, &env, &m);
	expect(f, DSR_MSG_HELLO_REPLY);
	assert_int_equal(f->msg.hello_reply.err, -EPROTO);
	m.role = DSR_ROLE_STORE;
	m.device = (struct dsr_str){"../../etc", 9};
	raw_send_msg(f->raw, &env, &m);
	expect(f, DSR_MSG_HELLO_REPLY);
	assert_int_equal(f->msg.hello_reply.err, -EPROTO);
	assert_int_equal(f->server.ready, 0);
}

static void a_successor_replaces_an_actor_and_an_old_one_does_not(void **state)
{
	struct fixture *f = *state;
	struct raw_peer *second = raw_connect(f->run_dir, DSR_ROLE_SCHEDULER, "", NULL);

	raw_send_hello(f->raw, DSR_ROLE_STORE, "host:0", 10, 1);
	expect(f, DSR_MSG_HELLO_REPLY);
	assert_int_equal(side_lookup(&f->server, 1, 10000, 42), 0);
	raw_send_hello(second, DSR_ROLE_STORE, "host:0", 11, 1);
	raw_expect(second, f->loop, DSR_MSG_HELLO_REPLY, &f->env, &f->msg);
	assert_int_equal(f->msg.hello_reply.err, 0);
	assert_int_equal(f->server.ready, 2);
	assert_int_equal(f->server.dead, 1);
	assert_true(f->server.peer->incarnation == 11);
	assert_int_equal(f->server.failed_count, 1);
	assert_int_equal(f->server.failed[0].err, -EOWNERDEAD);
	assert_true(f->server.failed[0].was_alive);
	assert_true(f->server.failed[0].cookie == 42);
	expect(f, DSR_MSG_LOOKUP);
	raw_send_hello(f->raw, DSR_ROLE_STORE, "host:0", 10, 2);
	expect(f, DSR_MSG_HELLO_REPLY);
	assert_int_equal(f->msg.hello_reply.err, -ESTALE);
	/* Another device is another actor, and engines of one process live side by side. */
	raw_send_hello(f->raw, DSR_ROLE_STORE, "host:1", 10, 3);
	expect(f, DSR_MSG_HELLO_REPLY);
	assert_int_equal(f->msg.hello_reply.err, 0);
	assert_int_equal(f->server.dead, 1);
	raw_close(&second);
}

static void a_hello_over_a_new_connection_moves_the_peer(void **state)
{
	struct fixture *f = *state;
	struct raw_peer *again = raw_connect(f->run_dir, DSR_ROLE_SCHEDULER, "", NULL);

	greet(f, 7);
	raw_send_hello(again, DSR_ROLE_ENGINE, "", 7, 2);
	raw_expect(again, f->loop, DSR_MSG_HELLO_REPLY, &f->env, &f->msg);
	assert_int_equal(f->msg.hello_reply.err, 0);
	assert_int_equal(f->server.ready, 1);
	assert_int_equal(f->server.dead, 0);
	assert_int_equal(side_lookup(&f->server, 1, 10000, 0), 0);
	raw_expect(again, f->loop, DSR_MSG_LOOKUP, &f->env, &f->msg);
	/* The old connection is nobody's now. */
	send_lookup(f, 7, f->server.incarnation, 5);
	expect(f, DSR_MSG_LOOKUP_REPLY);
	assert_int_equal(f->msg.lookup_reply.err, -EPROTO);
	raw_close(&again);
}

static void a_reply_of_the_wrong_kind_or_peer_ends_no_request(void **state)
{
	struct fixture *f = *state;
	struct raw_peer *other = raw_connect(f->run_dir, DSR_ROLE_SCHEDULER, "", NULL);
	const struct dsr_msg_lookup_reply reply = {.hits = 1};
	const struct dsr_msg_cancel_reply wrong = {0};
	struct dsr_env env;

	greet(f, 7);
	assert_int_equal(side_lookup(&f->server, 1, 10000, 1), 0);
	expect(f, DSR_MSG_LOOKUP);
	raw_send_hello(other, DSR_ROLE_ENGINE, "", 8, 2);
	raw_expect(other, f->loop, DSR_MSG_HELLO_REPLY, &env, &f->msg);
	env = to_server(f, DSR_MSG_LOOKUP_REPLY, 8, f->env.req);
	raw_send_msg(other, &env, &reply);
	side_wait_counter(&f->server, DSR_COUNTER_BAD_UNEXPECTED, 1);
	env = to_server(f, DSR_MSG_CANCEL_REPLY, 7, f->env.req);
	raw_send_msg(f->raw, &env, &wrong);
	side_wait_counter(&f->server, DSR_COUNTER_BAD_UNEXPECTED, 2);
	assert_int_equal(f->server.replies, 0);
	env = to_server(f, DSR_MSG_LOOKUP_REPLY, 7, f->env.req);
	raw_send_msg(f->raw, &env, &reply);
	side_wait(&f->server, &f->server.replies, 1);
	raw_send_msg(f->raw, &env, &reply); /* once more */
	side_wait_counter(&f->server, DSR_COUNTER_BAD_UNEXPECTED, 3);
	assert_int_equal(f->server.replies, 1);
	raw_close(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(hello_is_answered_with_who_serves, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(hello_said_again_is_answered_again, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(nothing_is_accepted_before_hello, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_message_for_another_incarnation_is_stale, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_message_from_an_old_incarnation_is_stale, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(
			malformed_and_unknown_messages_are_counted_and_dropped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_malformed_message_is_logged_once_for_each_peer,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_routing_id_of_its_own_choice_is_refused, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(an_oversize_message_ends_its_connection_alone,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_full_queue_is_a_counted_refusal, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(another_major_version_is_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_hello_of_nobody_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_successor_replaces_an_actor_and_an_old_one_does_not, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_hello_over_a_new_connection_moves_the_peer,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_reply_of_the_wrong_kind_or_peer_ends_no_request,
	                                        set_up, tear_down),
	};

	return cmocka_run_group_tests_name("link_raw", tests, NULL, NULL);
}
