/* SPDX-License-Identifier: Apache-2.0 */
/* Peers in processes of their own, which are killed, and what the connecting side does about it. */
#include "link.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "raw_peer.h"
#include "rt_test.h"
#include "side.h"
#include "version.h"

extern char **environ;

struct fixture {
	char *run_dir;
	struct dsr_loop *loop;
	struct side side;
	pid_t pid; /* of the peer process, 0 = none */
	struct raw_peer *raw;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->run_dir = test_make_run_dir();
	assert_int_equal(dsr_loop_new(&f->loop), 0);
	*state = f;
	return 0;
}

static void kill_peer(struct fixture *f)
{
	assert_int_equal(kill(f->pid, SIGKILL), 0);
	assert_int_equal(waitpid(f->pid, NULL, 0), f->pid);
	f->pid = 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	if (f->pid)
		kill_peer(f);
	if (f->raw)
		raw_close(&f->raw);
	side_close(&f->side);
	dsr_loop_free(&f->loop);
	test_remove_run_dir(&f->run_dir);
	free(f);
	return 0;
}

static void start_peer(struct fixture *f, const char *mode, enum dsr_role role, const char *device,
                       enum dsr_role to)
{
	char *program = getenv("RT_PEER");
	char what[8];
	char name[16];
	char number[8];
	char target[8];
	char *argv[] = {program, what, f->run_dir, number, name, to ? target : NULL, NULL};

	assert_non_null(program);
	(void)snprintf(what, sizeof(what), "%s", mode);
	(void)snprintf(name, sizeof(name), "%s", device);
	(void)snprintf(number, sizeof(number), "%d", (int)role);
	(void)snprintf(target, sizeof(target), "%d", (int)to);
	assert_int_equal(posix_spawn(&f->pid, program, NULL, NULL, argv, environ), 0);
}

static void a_killed_server_fails_its_requests_and_is_found_again(void **state)
{
	struct fixture *f = *state;
	struct side *side = &f->side;
	uint64_t first;

	side_open(side, f->loop, f->run_dir, DSR_ROLE_ENGINE, "", NULL);
	assert_int_equal(dsr_link_connect(side->link, DSR_ROLE_SCHEDULER, ""), 0);
	start_peer(f, "serve", DSR_ROLE_SCHEDULER, "", 0);
	side_wait(side, &side->ready, 1);
	first = side->peer->incarnation;
	assert_int_equal(side->peer->pid, f->pid);
	assert_int_equal(side_lookup(side, 5, 10000, 1), 0);
	side_wait(side, &side->replies, 1);
	assert_int_equal(side_lookup(side, 0, 10000, 2), 0); /* not answered */
	assert_int_equal(side_lookup(side, 0, 10000, 3), 0);
	assert_int_equal(side_lookup(side, 5, 10000, 4), 0);
	side_wait(side, &side->replies, 2);
	kill_peer(f);
	side_wait(side, &side->dead, 1);
	assert_int_equal(side->failed_count, 2);
	assert_int_equal(side->failed[0].err, -EOWNERDEAD);
	assert_int_equal(side->failed[1].err, -EOWNERDEAD);
	assert_true(side->failed[0].was_alive && side->failed[1].was_alive);
	assert_null(dsr_link_peer(side->link, DSR_ROLE_SCHEDULER, ""));
	start_peer(f, "serve", DSR_ROLE_SCHEDULER, "", 0);
	side_wait(side, &side->ready, 2);
	assert_true(side->peer->incarnation > first);
	assert_int_equal(side_lookup(side, 5, 10000, 6), 0);
	side_wait(side, &side->replies, 3);
	assert_int_equal(side->failed_count, 2);
}

static void a_killed_client_is_noticed_by_the_server(void **state)
{
	struct fixture *f = *state;
	struct side *side = &f->side;

	side_open(side, f->loop, f->run_dir, DSR_ROLE_SCHEDULER, "", NULL);
	assert_int_equal(dsr_link_bind(side->link), 0);
	start_peer(f, "join", DSR_ROLE_STORE, "host:0", DSR_ROLE_SCHEDULER);
	side_wait(side, &side->ready, 1);
	assert_int_equal(side->peer->pid, f->pid);
	assert_string_equal(side->peer->device, "host:0");
	assert_int_equal(side_lookup(side, 0, 10000, 2), 0);
	kill_peer(f);
	side_wait(side, &side->dead, 1);
	assert_int_equal(side->failed_count, 1);
	assert_int_equal(side->failed[0].err, -EOWNERDEAD);
	start_peer(f, "join", DSR_ROLE_STORE, "host:0", DSR_ROLE_SCHEDULER);
	side_wait(side, &side->ready, 2);
}

static void a_stopped_peer_is_not_a_dead_one(void **state)
{
	struct fixture *f = *state;
	struct side *side = &f->side;

	side_open(side, f->loop, f->run_dir, DSR_ROLE_ENGINE, "", NULL);
	assert_int_equal(dsr_link_connect(side->link, DSR_ROLE_SCHEDULER, ""), 0);
	start_peer(f, "serve", DSR_ROLE_SCHEDULER, "", 0);
	side_wait(side, &side->ready, 1);
	assert_int_equal(kill(f->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(f->pid, NULL, WUNTRACED), f->pid);
	assert_int_equal(side_lookup(side, 5, 50, 1), 0);
	side_wait(side, &side->failed_count, 1);
	assert_int_equal(side->failed[0].err, -ETIMEDOUT);
	assert_int_equal(kill(f->pid, SIGCONT), 0);
	assert_int_equal(side_lookup(side, 5, 10000, 2), 0);
	side_wait(side, &side->replies, 1);
	assert_int_equal(side->dead, 0);
	assert_int_equal(side->ready, 1);
}

/* ---- a ROUTER in an actor's place ---- */

static void answer_hello(struct fixture *f, const struct dsr_env *hello, uint32_t major,
                         enum dsr_role role, uint64_t incarnation)
{
	const struct dsr_env env = {.major = major,
	                            .type = DSR_MSG_HELLO_REPLY,
	                            .from = incarnation,
	                            .to = hello->from,
	                            .req = hello->req};
	struct dsr_msg_hello_reply m = {.major = major, .role = (uint32_t)role, .pid = getpid()};

	assert_int_equal(dsr_start_ticks(getpid(), &m.start_ticks), 0);
	raw_send_msg(f->raw, &env, &m);
}

static void wait_for_hello(struct fixture *f, struct dsr_env *ret_env)
{
	union dsr_msg msg;

	raw_expect(f->raw, f->loop, DSR_MSG_HELLO, ret_env, &msg);
	assert_true(ret_env->to == 0);
	assert_true(ret_env->from == f->side.incarnation);
	assert_int_equal(msg.hello.role, DSR_ROLE_ENGINE);
	assert_int_equal(msg.hello.pid, getpid());
}

static int set_up_raw(void **state)
{
	struct fixture *f;

	(void)set_up(state);
	f = *state;
	f->raw = raw_bind(f->run_dir, DSR_ROLE_SCHEDULER, "");
	side_open(&f->side, f->loop, f->run_dir, DSR_ROLE_ENGINE, "", NULL);
	assert_int_equal(dsr_link_connect(f->side.link, DSR_ROLE_SCHEDULER, ""), 0);
	return 0;
}

static void hello_is_repeated_until_it_is_answered(void **state)
{
	struct fixture *f = *state;
	struct dsr_env first;
	struct dsr_env env;

	wait_for_hello(f, &first);
	wait_for_hello(f, &env);
	assert_true(env.req == first.req);
	wait_for_hello(f, &env);
	answer_hello(f, &env, DSR_PROTOCOL_MAJOR, DSR_ROLE_SCHEDULER, 50);
	answer_hello(f, &env, DSR_PROTOCOL_MAJOR, DSR_ROLE_SCHEDULER, 50);
	side_wait(&f->side, &f->side.ready, 1);
	assert_true(f->side.peer->incarnation == 50);
	assert_true(side_counter(&f->side, DSR_COUNTER_SEND_FULL) == 0);
}

static void a_server_of_another_major_version_is_no_peer(void **state)
{
	struct fixture *f = *state;
	struct dsr_env env;

	wait_for_hello(f, &env);
	answer_hello(f, &env, DSR_PROTOCOL_MAJOR + 1, DSR_ROLE_SCHEDULER, 50);
	side_wait_counter(&f->side, DSR_COUNTER_BAD_VERSION, 1);
	assert_int_equal(f->side.ready, 0);
	/* Its successor may fit. */
	wait_for_hello(f, &env);
	answer_hello(f, &env, DSR_PROTOCOL_MAJOR, DSR_ROLE_SCHEDULER, 51);
	side_wait(&f->side, &f->side.ready, 1);
}

static void a_server_of_another_role_is_no_peer(void **state)
{
	struct fixture *f = *state;
	struct dsr_env env;

	wait_for_hello(f, &env);
	answer_hello(f, &env, DSR_PROTOCOL_MAJOR, DSR_ROLE_METRICS, 50);
	side_wait_counter(&f->side, DSR_COUNTER_BAD_UNEXPECTED, 1);
	assert_int_equal(f->side.ready, 0);
}

static void a_server_that_forgot_us_is_told_again(void **state)
{
	struct fixture *f = *state;
	const struct dsr_msg_ping_reply forgot = {.err = -EPROTO};
	struct dsr_env hello;
	struct dsr_env env;
	union dsr_msg msg;

	wait_for_hello(f, &hello);
	answer_hello(f, &hello, DSR_PROTOCOL_MAJOR, DSR_ROLE_SCHEDULER, 50);
	do /* HELLOs that were on their way */
		raw_recv_any(f->raw, f->loop, &env, &msg);
	while (env.type == DSR_MSG_HELLO);
	assert_int_equal(env.type, DSR_MSG_PING);
	env = (struct dsr_env){.major = DSR_PROTOCOL_MAJOR,
	                       .type = DSR_MSG_PING_REPLY,
	                       .from = 50,
	                       .to = env.from,
	                       .req = env.req};
	raw_send_msg(f->raw, &env, &forgot);
	wait_for_hello(f, &env);
	assert_true(env.req != hello.req);
	answer_hello(f, &env, DSR_PROTOCOL_MAJOR, DSR_ROLE_SCHEDULER, 50);
	assert_int_equal(side_lookup(&f->side, 1, 10000, 0), 0);
	do
		raw_recv(f->raw, f->loop, &env, &msg);
	while (env.type == DSR_MSG_HELLO);
	assert_int_equal(env.type, DSR_MSG_LOOKUP);
	assert_int_equal(f->side.ready, 1);
	assert_int_equal(f->side.dead, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_killed_server_fails_its_requests_and_is_found_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_killed_client_is_noticed_by_the_server, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_stopped_peer_is_not_a_dead_one, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(hello_is_repeated_until_it_is_answered, set_up_raw,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_server_of_another_major_version_is_no_peer,
	                                        set_up_raw, tear_down),
		cmocka_unit_test_setup_teardown(a_server_of_another_role_is_no_peer, set_up_raw,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_server_that_forgot_us_is_told_again, set_up_raw,
	                                        tear_down),
	};

	return cmocka_run_group_tests_name("link_death", tests, NULL, NULL);
}
