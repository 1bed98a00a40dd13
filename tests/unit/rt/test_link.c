/* SPDX-License-Identifier: Apache-2.0 */
/* Two links that behave. */
#include "link.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <zmq.h>

#include "rt_test.h"
#include "side.h"

struct fixture {
	char *run_dir;
	struct dsr_loop *loop;
	struct side server; /* a scheduler, bound */
	struct side client; /* a store actor, connected to it */
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->run_dir = test_make_run_dir();
	assert_int_equal(dsr_loop_new(&f->loop), 0);
	side_open(&f->server, f->loop, f->run_dir, DSR_ROLE_SCHEDULER, "", NULL);
	assert_int_equal(dsr_link_bind(f->server.link), 0);
	side_open(&f->client, f->loop, f->run_dir, DSR_ROLE_STORE, "host:0", NULL);
	assert_int_equal(dsr_link_connect(f->client.link, DSR_ROLE_SCHEDULER, ""), 0);
	side_wait(&f->client, &f->client.ready, 1);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	side_close(&f->client);
	side_close(&f->server);
	dsr_loop_free(&f->loop);
	test_remove_run_dir(&f->run_dir);
	free(f);
	return 0;
}

static void hello_introduces_both_sides(void **state)
{
	struct fixture *f = *state;
	struct dsr_peer *theirs = f->server.peer;
	struct dsr_peer *ours = f->client.peer;

	assert_int_equal(f->server.ready, 1);
	assert_int_equal(theirs->role, DSR_ROLE_STORE);
	assert_string_equal(theirs->device, "host:0");
	assert_true(theirs->incarnation == f->client.incarnation);
	assert_int_equal(theirs->pid, getpid());
	assert_false(theirs->is_ours);
	assert_int_equal(ours->role, DSR_ROLE_SCHEDULER);
	assert_string_equal(ours->device, "");
	assert_true(ours->incarnation == f->server.incarnation);
	assert_true(ours->is_ours);
	assert_ptr_equal(dsr_link_peer(f->client.link, DSR_ROLE_SCHEDULER, ""), ours);
	assert_null(dsr_link_peer(f->client.link, DSR_ROLE_METRICS, ""));
}

static void a_request_gets_its_reply_and_cookie(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(side_lookup(&f->client, 512, 10000, 77), 0);
	side_wait(&f->client, &f->client.replies, 1);
	assert_true(f->client.last_cookie == 77);
	assert_int_equal(f->server.lookups, 1);
	assert_true(dsr_link_cookie(f->client.link) == 0);
	assert_int_equal(f->client.failed_count, 0);
}

static void requests_flow_both_ways_on_one_connection(void **state)
{
	struct fixture *f = *state;
	const struct dsr_ref ref = {1, 2, 3, 4};
	const struct dsr_msg_cancel m = {.scheduler = 1, .refs = {&ref, 1}};

	assert_int_equal(
		dsr_peer_request(f->server.link, f->server.peer, DSR_MSG_CANCEL, &m, 10000, 5), 0);
	side_wait(&f->server, &f->server.cancel_replies, 1);
	assert_true(f->server.last_cookie == 5);
	assert_int_equal(f->server.last_err, -EAGAIN);
	assert_int_equal(f->client.cancels, 1);
}

static void many_requests_end_once_each(void **state)
{
	struct fixture *f = *state;
	unsigned sent = 0;
	unsigned i;
	int r;

	for (i = 0; i < 3000; i++) {
		r = side_lookup(&f->client, i % 16, 20000, i);
		assert_true(r == 0 || r == -EAGAIN);
		sent += r == 0;
		assert_true(dsr_loop_step(f->loop, 0) >= 0);
	}
	side_wait(&f->client, &f->client.replies, sent);
	assert_int_equal(f->client.replies, sent);
	assert_int_equal(f->client.failed_count, 0);
	assert_true(side_counter(&f->client, DSR_COUNTER_SEND_FULL) == 3000 - sent);
}

static void a_deadline_ends_a_request_and_a_late_reply_is_dropped(void **state)
{
	struct fixture *f = *state;
	const struct dsr_msg_lookup_reply late = {0};

	f->server.is_mute = true;
	assert_int_equal(side_lookup(&f->client, 1, 20, 8), 0);
	assert_int_equal(side_lookup(&f->client, 1, 10000, 9), 0);
	side_wait(&f->client, &f->client.failed_count, 1);
	assert_int_equal(f->client.failed[0].err, -ETIMEDOUT);
	assert_int_equal(f->client.failed[0].type, DSR_MSG_LOOKUP);
	assert_true(f->client.failed[0].cookie == 8);
	side_wait(&f->server, &f->server.lookups, 2);
	assert_int_equal(
		dsr_peer_send(f->server.link, f->server.peer, DSR_MSG_LOOKUP_REPLY, 1 << 16, &late),
		0);
	side_wait_counter(&f->client, DSR_COUNTER_BAD_UNEXPECTED, 1);
	assert_int_equal(f->client.replies, 0);
	assert_int_equal(f->client.failed_count, 1);
}

static void an_event_arrives(void **state)
{
	struct fixture *f = *state;
	const struct dsr_msg_segment m = {.buffer = 1};

	assert_int_equal(dsr_peer_send(f->server.link, f->server.peer, DSR_MSG_SEGMENT, 0, &m), 0);
	side_wait(&f->client, &f->client.segments, 1);
}

static void a_request_without_a_handler_is_answered_eproto(void **state)
{
	struct fixture *f = *state;
	const struct dsr_msg_drain m = {0};

	f->client.ops.on[DSR_MSG_DRAIN_REPLY] = f->client.ops.on[DSR_MSG_LOOKUP_REPLY];
	assert_int_equal(
		dsr_peer_request(f->client.link, f->client.peer, DSR_MSG_DRAIN, &m, 10000, 3), 0);
	side_wait(&f->client, &f->client.replies, 1);
	assert_int_equal(f->client.last_err, -EPROTO);
	assert_true(side_counter(&f->server, DSR_COUNTER_BAD_UNEXPECTED) == 1);
	/* It is still known: HELLO, which -EPROTO brings, ends nothing. */
	assert_int_equal(side_lookup(&f->client, 1, 10000, 4), 0);
	side_wait(&f->client, &f->client.replies, 2);
	assert_int_equal(f->client.ready, 1);
	assert_int_equal(f->server.ready, 1);
	assert_int_equal(f->server.dead, 0);
}

static int32_t ping_err;
static uint64_t ping_token;
static unsigned pings;

static void on_ping_reply(struct side *side, struct dsr_peer *peer, const struct dsr_env *env,
                          const struct dsr_msg_ping_reply *m)
{
	(void)side;
	(void)peer;
	(void)env;
	ping_err = m->err;
	ping_token = m->token;
	pings++;
}

static void ping_is_answered_by_every_link(void **state)
{
	struct fixture *f = *state;
	const struct dsr_msg_ping m = {.token = 123456};

	pings = 0;
	f->client.ops.on[DSR_MSG_PING_REPLY] = DSR_HANDLER(ping_reply, struct side, on_ping_reply);
	assert_int_equal(
		dsr_peer_request(f->client.link, f->client.peer, DSR_MSG_PING, &m, 10000, 0), 0);
	side_wait(&f->client, &pings, 1);
	assert_int_equal(ping_err, 0);
	assert_true(ping_token == 123456);
}

static void disconnecting_fails_what_is_pending(void **state)
{
	struct fixture *f = *state;

	f->server.is_mute = true;
	assert_int_equal(side_lookup(&f->client, 1, 10000, 8), 0);
	dsr_link_disconnect(f->client.link, DSR_ROLE_SCHEDULER, "");
	assert_int_equal(f->client.failed_count, 1);
	assert_int_equal(f->client.failed[0].err, -ECANCELED);
	assert_int_equal(f->client.dead, 0);
	assert_null(dsr_link_peer(f->client.link, DSR_ROLE_SCHEDULER, ""));
	dsr_link_disconnect(f->client.link, DSR_ROLE_SCHEDULER, "");
}

static void disconnecting_within_a_handler_is_safe(void **state)
{
	struct fixture *f = *state;
	unsigned i;

	f->client.is_leaving = true;
	f->client.leaves = DSR_ROLE_SCHEDULER;
	for (i = 0; i < 5; i++)
		assert_int_equal(side_lookup(&f->client, 1, 10000, i), 0);
	side_wait(&f->client, &f->client.replies, 1);
	assert_int_equal(f->client.replies, 1);
	assert_int_equal(f->client.failed_count, 4);
	assert_int_equal(f->client.failed[3].err, -ECANCELED);
}

static void one_connection_for_each_actor(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(dsr_link_connect(f->client.link, DSR_ROLE_SCHEDULER, ""), -EEXIST);
	assert_int_equal(dsr_link_connect(f->client.link, DSR_ROLE_LOAD, "../x"), -EINVAL);
	assert_int_equal(dsr_link_bind(f->server.link), -EEXIST);
}

static void a_connection_waits_for_an_actor_that_comes_later(void **state)
{
	struct fixture *f = *state;
	struct side late;

	assert_int_equal(dsr_link_connect(f->client.link, DSR_ROLE_LOAD, "host:1"), 0);
	assert_true(dsr_loop_step(f->loop, 50) >= 0);
	side_open(&late, f->loop, f->run_dir, DSR_ROLE_LOAD, "host:1", NULL);
	assert_int_equal(dsr_link_bind(late.link), 0);
	side_wait(&f->client, &f->client.ready, 2);
	assert_int_equal(f->client.peer->role, DSR_ROLE_LOAD);
	assert_true(side_counter(&f->client, DSR_COUNTER_SEND_FULL) == 0);
	side_close(&late);
}

static void a_closed_connection_of_an_engine_is_its_end(void **state)
{
	struct fixture *f = *state;
	struct side engine;
	const struct dsr_msg_ping m = {0};

	side_open(&engine, f->loop, f->run_dir, DSR_ROLE_ENGINE, "", NULL);
	assert_int_equal(dsr_link_connect(engine.link, DSR_ROLE_SCHEDULER, ""), 0);
	side_wait(&f->server, &f->server.ready, 2);
	side_wait(&engine, &engine.ready, 1);
	side_close(&engine);
	while (dsr_peer_send(f->server.link, f->server.peer, DSR_MSG_PING, 0, &m) == 0)
		assert_true(dsr_loop_step(f->loop, 1) >= 0);
	assert_true(side_counter(&f->server, DSR_COUNTER_SEND_UNREACHABLE) >= 1);
	side_wait(&f->server, &f->server.dead, 1);
	assert_null(f->server.peer);
}

static void a_dead_process_left_its_socket_file(void **state)
{
	char *run_dir = test_make_run_dir();
	struct dsr_loop *loop;
	struct side side;
	char path[160];
	int fd;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/scheduler.sock", run_dir);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(dsr_loop_new(&loop), 0);
	side_open(&side, loop, run_dir, DSR_ROLE_SCHEDULER, "", NULL);
	assert_int_equal(dsr_link_bind(side.link), 0);
	side_close(&side);
	dsr_loop_free(&loop);
	test_remove_run_dir(&run_dir);
}

static void threads_of_one_process_talk_by_inproc(void **state)
{
	void *zmq = zmq_ctx_new();
	struct dsr_loop *loop;
	struct side server;
	struct side client;

	(void)state;
	assert_int_equal(dsr_loop_new(&loop), 0);
	/* The client comes first, and the directory is none: no ipc socket is connected to. */
	side_open(&client, loop, "/tmp", DSR_ROLE_LOAD, "host:0", zmq);
	assert_int_equal(dsr_link_connect(client.link, DSR_ROLE_SCHEDULER, ""), 0);
	assert_true(dsr_loop_step(loop, 10) >= 0);
	{
		char *run_dir = test_make_run_dir();

		side_open(&server, loop, run_dir, DSR_ROLE_SCHEDULER, "", zmq);
		assert_int_equal(dsr_link_bind(server.link), 0);
		side_wait(&client, &client.ready, 1);
		assert_int_equal(side_lookup(&client, 3, 10000, 1), 0);
		side_wait(&client, &client.replies, 1);
		/* The server's thread ends: its queue's end is its death. */
		side_close(&server);
		side_wait(&client, &client.dead, 1);
		side_open(&server, loop, run_dir, DSR_ROLE_SCHEDULER, "", zmq);
		assert_int_equal(dsr_link_bind(server.link), 0);
		side_wait(&client, &client.ready, 2);
		assert_true(client.peer->incarnation == server.incarnation);
		side_close(&server);
		test_remove_run_dir(&run_dir);
	}
	side_close(&client);
	dsr_loop_free(&loop);
	assert_int_equal(zmq_ctx_term(zmq), 0);
}

static void endpoints_have_one_form(void **state)
{
	char text[160];
	char longest[200];

	(void)state;
	assert_int_equal(dsr_link_endpoint("/run/d", DSR_ROLE_LOAD, "host:0", text, sizeof(text)),
	                 0);
	assert_string_equal(text, "ipc:///run/d/load-host:0.sock");
	assert_int_equal(dsr_link_endpoint("/run/d", DSR_ROLE_SCHEDULER, "", text, sizeof(text)),
	                 0);
	assert_string_equal(text, "ipc:///run/d/scheduler.sock");
	assert_int_equal(dsr_link_endpoint("/r", DSR_ROLE_LOAD, "a/b", text, sizeof(text)),
	                 -EINVAL);
	assert_int_equal(dsr_link_endpoint("/r", DSR_ROLE_LOAD, "a", text, 5), -E2BIG);
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(dsr_link_endpoint(longest, DSR_ROLE_LOAD, "a", text, sizeof(text)),
	                 -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(hello_introduces_both_sides, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_request_gets_its_reply_and_cookie, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(requests_flow_both_ways_on_one_connection, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(many_requests_end_once_each, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_deadline_ends_a_request_and_a_late_reply_is_dropped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_event_arrives, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_request_without_a_handler_is_answered_eproto,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(ping_is_answered_by_every_link, set_up, tear_down),
		cmocka_unit_test_setup_teardown(disconnecting_fails_what_is_pending, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(disconnecting_within_a_handler_is_safe, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(one_connection_for_each_actor, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_connection_waits_for_an_actor_that_comes_later,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_closed_connection_of_an_engine_is_its_end, set_up,
	                                        tear_down),
		cmocka_unit_test(a_dead_process_left_its_socket_file),
		cmocka_unit_test(threads_of_one_process_talk_by_inproc),
		cmocka_unit_test(endpoints_have_one_form),
	};

	return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
