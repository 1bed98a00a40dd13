/* SPDX-License-Identifier: Apache-2.0 */
/* An actor's life, in a process of its own before a made-up supervisor. */
#include "actor.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <zmq.h>

#include "errors.h"
#include "fake_supervisor.h"
#include "files.h"
#include "rt_actor.h"
#include "rt_test.h"
#include "side.h"
#include "version.h"

extern char **environ;

#define ROW 1

struct fixture {
	char *run_dir;
	struct fake *fake;
	struct dsr_loop *loop;
	struct side side; /* an engine, connected to the actor */
	struct dsr_control control;
	pid_t pid;
	int output; /* what the actor wrote: a file, owned */
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->run_dir = test_make_run_dir();
	f->fake = fake_start(f->run_dir, ROW);
	assert_int_equal(dsr_loop_new(&f->loop), 0);
	side_open(&f->side, f->loop, f->run_dir, DSR_ROLE_ENGINE, "", NULL);
	f->output = memfd_create("output", MFD_CLOEXEC);
	assert_true(f->output >= 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	if (f->pid > 0) {
		(void)kill(f->pid, SIGKILL);
		(void)waitpid(f->pid, NULL, 0);
	}
	if (f->control.segment.base)
		dsr_control_detach(&f->control);
	side_close(&f->side);
	dsr_loop_free(&f->loop);
	if (f->fake)
		fake_stop(&f->fake);
	(void)close(f->output);
	test_remove_run_dir(&f->run_dir);
	free(f);
	return 0;
}

/* Starts the actor with up to two more arguments. */
static pid_t start(struct fixture *f, const char *first, const char *second)
{
	char *program = getenv("RT_ACTOR");
	char run_dir[80];
	char one[128];
	char two[128];
	char *argv[] = {program, run_dir, first ? one : NULL, second ? two : NULL, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;

	assert_non_null(program);
	(void)snprintf(run_dir, sizeof(run_dir), "--run-dir=%s", f->run_dir);
	(void)snprintf(one, sizeof(one), "%s", first ? first : "");
	(void)snprintf(two, sizeof(two), "%s", second ? second : "");
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	(void)posix_spawn_file_actions_adddup2(&actions, f->output, STDOUT_FILENO);
	(void)posix_spawn_file_actions_adddup2(&actions, f->output, STDERR_FILENO);
	assert_int_equal(posix_spawn(&pid, program, &actions, NULL, argv, environ), 0);
	(void)posix_spawn_file_actions_destroy(&actions);
	return pid;
}

/* Exit status, or 128 + signal. */
static int wait_for(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int end(struct fixture *f)
{
	pid_t pid = f->pid;

	f->pid = 0;
	return wait_for(pid);
}

static const char *output(struct fixture *f)
{
	static char text[8192];
	ssize_t n = pread(f->output, text, sizeof(text) - 1, 0);

	assert_true(n >= 0);
	text[n] = '\0';
	return text;
}

/* Starts the actor, waits until it is ready, attaches its control segment and connects to it. */
static void serve(struct fixture *f, const char *first, const char *second)
{
	char why[256];
	int fd;

	f->pid = start(f, first, second);
	fake_wait_ready(f->fake, 1);
	fd = fake_object(f->fake, DSR_OBJECT_CONTROL);
	assert_true(fd >= 0);
	assert_int_equal(dsr_control_attach(fd, true, &f->control, why, sizeof(why)), 0);
	(void)close(fd);
	assert_int_equal(dsr_link_connect(f->side.link, DSR_ROLE_METRICS, ""), 0);
	side_wait(&f->side, &f->side.ready, 1);
}

static void order(struct fixture *f, uint32_t what)
{
	unsigned before = f->side.replies;

	assert_int_equal(side_lookup(&f->side, what, 20000, 0), 0);
	side_wait(&f->side, &f->side.replies, before + 1);
}

static void wait_value(const _Atomic uint64_t *word, uint64_t above)
{
	uint64_t end_ns = dsr_now_ns() + TEST_WAIT_NS;

	while (atomic_load(word) <= above) {
		assert_true(dsr_now_ns() < end_ns);
		(void)sched_yield();
	}
}

static void it_takes_its_row_and_serves(void **state)
{
	struct fixture *f = *state;
	struct dsr_actor_row *row;
	uint64_t ticks;

	serve(f, NULL, NULL);
	row = &f->control.rows[ROW];
	assert_int_equal(dsr_start_ticks(f->pid, &ticks), 0);
	assert_int_equal(atomic_load(&row->state), DSR_ACTOR_READY);
	assert_int_equal(row->role, DSR_ROLE_METRICS);
	assert_int_equal(row->pid, f->pid);
	assert_true(row->start_ticks == ticks);
	assert_int_equal(row->by_hand, 1);
	assert_string_equal(row->device, "");
	assert_true(atomic_load(&row->incarnation) == f->side.peer->incarnation);
	assert_true(atomic_load(&f->control.counters[ROW].incarnation) ==
	            f->side.peer->incarnation);
	assert_true(atomic_load(&f->control.last_words[ROW].incarnation) ==
	            f->side.peer->incarnation);
	assert_string_equal(f->control.last_words[ROW].text, "");
	assert_true(dsr_counters_sum(&f->control, DSR_COUNTER_RESTARTS) == 0);
	assert_true(dsr_counters_sum(&f->control, DSR_COUNTER_MESSAGES_RECEIVED) >= 1);
	wait_value(&row->heartbeat_ns, atomic_load(&row->heartbeat_ns));
	wait_value(&row->progress_ns, atomic_load(&row->progress_ns));
}

static void a_stuck_actor_beats_without_progress(void **state)
{
	struct fixture *f = *state;
	struct dsr_actor_row *row;
	uint64_t progress_ns;
	uint64_t beats_ns;

	serve(f, NULL, NULL);
	row = &f->control.rows[ROW];
	order(f, RT_ACTOR_STUCK);
	progress_ns = atomic_load(&row->progress_ns);
	beats_ns = atomic_load(&row->heartbeat_ns);
	wait_value(&row->heartbeat_ns, beats_ns);
	assert_true(atomic_load(&row->progress_ns) == progress_ns);
}

static void settings_come_from_the_supervisor_and_flags_override(void **state)
{
	struct fixture *f = *state;

	fake_set_options(f->fake, "{\"lease.ttl_ms\":\"1234\",\"log.level\":\"warn\"}");
	serve(f, "--log-level", "info");
	order(f, RT_ACTOR_TTL);
	assert_int_equal(f->side.last_hits, 1234);
	assert_non_null(strstr(output(f), "metrics: info: ready"));
	assert_int_equal(kill(f->pid, SIGKILL), 0);
	(void)end(f);
	f->pid = start(f, "--lease-ttl-ms=555", NULL);
	side_wait(&f->side, &f->side.ready, 2);
	order(f, RT_ACTOR_TTL);
	assert_int_equal(f->side.last_hits, 555);
}

static void term_stops_it(void **state)
{
	struct fixture *f = *state;
	int fd;

	serve(f, NULL, NULL);
	assert_int_equal(kill(f->pid, SIGTERM), 0);
	assert_int_equal(end(f), DSR_EXIT_OK);
	assert_int_equal(atomic_load(&f->control.rows[ROW].state), DSR_ACTOR_STOPPED);
	assert_non_null(strstr(output(f), "metrics: info: draining\n"));
	assert_non_null(strstr(output(f), "metrics: info: closed\n"));
	fd = dsr_role_lock(f->run_dir, DSR_ROLE_METRICS, "");
	assert_true(fd >= 0);
	(void)close(fd);
}

static void the_supervisors_stop_stops_it(void **state)
{
	struct fixture *f = *state;

	serve(f, NULL, NULL);
	fake_send(f->fake, "{\"event\":\"stop\"}");
	assert_int_equal(end(f), DSR_EXIT_OK);
	assert_int_equal(atomic_load(&f->control.rows[ROW].state), DSR_ACTOR_STOPPED);
}

static void the_supervisors_end_is_its_end(void **state)
{
	struct fixture *f = *state;

	serve(f, NULL, NULL);
	fake_hang_up(f->fake);
	assert_int_equal(end(f), DSR_EXIT_ORPHANED);
	assert_int_equal(atomic_load(&f->control.rows[ROW].state), DSR_ACTOR_STOPPED);
}

static void it_finishes_its_work_before_it_stops(void **state)
{
	struct fixture *f = *state;
	uint64_t end_ns = dsr_now_ns() + TEST_WAIT_NS;

	serve(f, NULL, NULL);
	order(f, RT_ACTOR_WORK);
	assert_int_equal(kill(f->pid, SIGTERM), 0);
	while (atomic_load(&f->control.rows[ROW].state) != DSR_ACTOR_DRAINING) {
		assert_true(dsr_now_ns() < end_ns);
		(void)sched_yield();
	}
	order(f, RT_ACTOR_DONE);
	assert_int_equal(end(f), DSR_EXIT_OK);
	assert_null(strstr(output(f), "with work left"));
}

static void work_that_does_not_end_is_left(void **state)
{
	struct fixture *f = *state;

	serve(f, NULL, NULL);
	order(f, RT_ACTOR_WORK);
	assert_int_equal(kill(f->pid, SIGTERM), 0);
	assert_int_equal(end(f), DSR_EXIT_OK);
	assert_non_null(strstr(output(f), "stopping with work left"));
}

static void a_second_term_ends_draining(void **state)
{
	struct fixture *f = *state;
	uint64_t end_ns = dsr_now_ns() + TEST_WAIT_NS;

	serve(f, NULL, NULL);
	order(f, RT_ACTOR_WORK);
	assert_int_equal(kill(f->pid, SIGTERM), 0);
	while (atomic_load(&f->control.rows[ROW].state) != DSR_ACTOR_DRAINING) {
		assert_true(dsr_now_ns() < end_ns);
		(void)sched_yield();
	}
	assert_int_equal(kill(f->pid, SIGINT), 0);
	assert_int_equal(end(f), DSR_EXIT_OK);
	assert_null(strstr(output(f), "with work left"));
}

static void a_role_that_stops_its_loop_has_failed(void **state)
{
	struct fixture *f = *state;

	serve(f, NULL, NULL);
	assert_int_equal(side_lookup(&f->side, RT_ACTOR_QUIT, 20000, 0), 0);
	side_wait(&f->side, &f->side.dead, 1);
	assert_int_equal(end(f), DSR_EXIT_FAILURE);
	assert_int_equal(atomic_load(&f->control.rows[ROW].state), DSR_ACTOR_ABSENT);
}

static void a_killed_actor_comes_back_as_a_restart(void **state)
{
	struct fixture *f = *state;
	uint64_t first;

	serve(f, NULL, NULL);
	first = f->side.peer->incarnation;
	assert_int_equal(kill(f->pid, SIGKILL), 0);
	assert_int_equal(end(f), 128 + SIGKILL);
	side_wait(&f->side, &f->side.dead, 1);
	assert_int_equal(atomic_load(&f->control.rows[ROW].state), DSR_ACTOR_READY);
	f->pid = start(f, NULL, NULL);
	side_wait(&f->side, &f->side.ready, 2);
	assert_true(f->side.peer->incarnation > first);
	assert_int_equal(f->side.peer->pid, f->pid);
	fake_wait_ready(f->fake, 2);
	assert_true(atomic_load(&f->control.rows[ROW].incarnation) == f->side.peer->incarnation);
	assert_true(dsr_counters_sum(&f->control, DSR_COUNTER_RESTARTS) == 1);
}

static void last_words_tell_of_an_assertion(void **state)
{
	struct fixture *f = *state;

	serve(f, NULL, NULL);
	assert_int_equal(side_lookup(&f->side, RT_ACTOR_ASSERT, 20000, 0), 0);
	side_wait(&f->side, &f->side.dead, 1);
	assert_int_equal(end(f), 128 + SIGABRT);
	assert_non_null(strstr(f->control.last_words[ROW].text,
	                       "assertion `m->keys.n != RT_ACTOR_ASSERT` failed at rt_actor.c:"));
}

static void last_words_tell_of_a_fault(void **state)
{
	struct fixture *f = *state;

	if (getenv("DSR_SANITIZED")) /* it has a handler of its own */
		skip();
	serve(f, NULL, NULL);
	assert_int_equal(side_lookup(&f->side, RT_ACTOR_FAULT, 20000, 0), 0);
	side_wait(&f->side, &f->side.dead, 1);
	assert_int_equal(end(f), 128 + SIGSEGV);
	assert_string_equal(f->control.last_words[ROW].text, "signal 11 at 0x10");
}

static void a_failed_open_is_closed_and_leaves_words(void **state)
{
	struct fixture *f = *state;
	char why[256];
	pid_t pid;
	int fd;

	(void)setenv("RT_ACTOR_FAILS", "1", 1);
	pid = start(f, NULL, NULL);
	(void)unsetenv("RT_ACTOR_FAILS");
	assert_int_equal(wait_for(pid), DSR_EXIT_FAILURE);
	assert_non_null(strstr(output(f), "metrics: error: open: Input/output error\n"));
	assert_non_null(strstr(output(f), "metrics: info: closed\n"));
	fd = fake_object(f->fake, DSR_OBJECT_CONTROL);
	assert_int_equal(dsr_control_attach(fd, true, &f->control, why, sizeof(why)), 0);
	(void)close(fd);
	assert_string_equal(f->control.last_words[ROW].text, "open: Input/output error");
	assert_int_equal(atomic_load(&f->control.rows[ROW].state), DSR_ACTOR_ABSENT);
}

static void one_actor_of_a_role_lives_at_a_time(void **state)
{
	struct fixture *f = *state;

	serve(f, NULL, NULL);
	assert_int_equal(wait_for(start(f, NULL, NULL)), DSR_EXIT_LOCKED);
	assert_non_null(strstr(output(f), "role lock: another actor of this role lives\n"));
	order(f, RT_ACTOR_TTL); /* the first does not mind */
}

static void without_a_supervisor_it_does_not_start(void **state)
{
	struct fixture *f = *state;

	fake_stop(&f->fake);
	assert_int_equal(wait_for(start(f, NULL, NULL)), DSR_EXIT_NO_BROKER);
}

static void bad_arguments_are_a_usage_error(void **state)
{
	static const struct {
		const char *flag, *why;
	} cases[] = {
		{"--nonsense", "argument `--nonsense` is not known, see daser-metrics --help\n"},
		{"word", "argument `word` is not known"},
		{"--l1-size=big", "l1.size: value `big`, expected 1MiB..64TiB or auto\n"},
		{"--device=host:0", "--device: a metrics serves all devices\n"},
		{"--fault", "--fault: a value is missing\n"},
		{"--fault=x:kill", "--fault: no fault point `x`, see --help\n"},
		{"--stop-fd=x", "--stop-fd: value `x`, expected a number\n"},
		{"--devices=1", "argument `--devices=1` is not known"},
	};
	struct fixture *f = *state;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(wait_for(start(f, cases[i].flag, NULL)), DSR_EXIT_USAGE);
		assert_non_null(strstr(output(f), cases[i].why));
	}
}

static void help_and_version_are_told(void **state)
{
	struct fixture *f = *state;

	fake_stop(&f->fake); /* they need none */
	assert_int_equal(wait_for(start(f, "--help", NULL)), DSR_EXIT_OK);
	assert_non_null(strstr(output(f), "usage: daser-metrics [--KEY VALUE]...\n"));
	assert_non_null(strstr(output(f), "  --lease-ttl-ms VALUE\n"));
	assert_int_equal(wait_for(start(f, "--version", NULL)), DSR_EXIT_OK);
	assert_non_null(strstr(output(f), "daser-metrics 0.1.0, protocol 1.0, layout 1.0\n"));
}

static void fault_points_are_armed_by_flag_and_by_message(void **state)
{
	struct fixture *f = *state;
	const struct dsr_msg_fault disarm = {{"", 0}};
	const struct dsr_msg_fault bad = {{"x:kill", 6}};

	serve(f, "--fault=load_before_copy:fail=EXDEV", NULL);
	order(f, RT_ACTOR_POINT);
	assert_int_equal(f->side.last_hits, DSR_FAULT_FAIL);
	assert_int_equal(f->side.last_err, -EXDEV);
	f->side.ops.on[DSR_MSG_FAULT_REPLY] = f->side.ops.on[DSR_MSG_CANCEL_REPLY]; /* notes err */
	assert_int_equal(
		dsr_peer_request(f->side.link, f->side.peer, DSR_MSG_FAULT, &bad, 20000, 0), 0);
	side_wait(&f->side, &f->side.cancel_replies, 1);
	assert_int_equal(f->side.last_err, -EINVAL);
	assert_int_equal(
		dsr_peer_request(f->side.link, f->side.peer, DSR_MSG_FAULT, &disarm, 20000, 0), 0);
	side_wait(&f->side, &f->side.cancel_replies, 2);
	assert_int_equal(f->side.last_err, 0);
	order(f, RT_ACTOR_POINT);
	assert_int_equal(f->side.last_hits, DSR_FAULT_NONE);
}

static void it_waits_for_the_control_segment_and_can_be_stopped_then(void **state)
{
	struct fixture *f = *state;

	(void)setenv("RT_ACTOR_WAITS", "1", 1);
	f->pid = start(f, NULL, NULL);
	fake_wait_request(f->fake, "get");
	fake_send(f->fake, "{\"event\":\"stop\"}");
	assert_int_equal(end(f), DSR_EXIT_OK);
	f->pid = start(f, NULL, NULL);
	fake_wait_request(f->fake, "get");
	assert_int_equal(kill(f->pid, SIGTERM), 0);
	assert_int_equal(end(f), DSR_EXIT_OK);
	f->pid = start(f, NULL, NULL);
	fake_wait_request(f->fake, "get");
	fake_hang_up(f->fake);
	assert_int_equal(end(f), DSR_EXIT_ORPHANED);
	f->pid = start(f, NULL, NULL);
	fake_wait_request(f->fake, "get");
	fake_put(f->fake, DSR_OBJECT_CONTROL, dsr_control_create(4096));
	fake_wait_ready(f->fake, 1);
	(void)unsetenv("RT_ACTOR_WAITS");
}

static void a_control_segment_of_another_version_is_refused(void **state)
{
	struct fixture *f = *state;
	int fd = dsr_control_create(4096);
	uint16_t major = DSR_LAYOUT_MAJOR + 1;

	assert_int_equal(
		pwrite(fd, &major, sizeof(major), offsetof(struct dsr_segment_header, major)),
		sizeof(major));
	fake_put(f->fake, DSR_OBJECT_CONTROL, fd);
	assert_int_equal(wait_for(start(f, NULL, NULL)), DSR_EXIT_VERSION);
	assert_non_null(strstr(output(f), "error: control segment: "));
}

static void a_row_scribbled_with_a_later_incarnation_is_taken(void **state)
{
	struct fixture *f = *state;
	int fd = dsr_control_create(4096);
	char why[256];

	assert_int_equal(dsr_control_attach(fd, true, &f->control, why, sizeof(why)), 0);
	atomic_store(&f->control.rows[ROW].incarnation, UINT64_MAX);
	fake_put(f->fake, DSR_OBJECT_CONTROL, fd);
	f->pid = start(f, NULL, NULL);
	fake_wait_ready(f->fake, 1);
	assert_true(atomic_load(&f->control.rows[ROW].incarnation) < UINT64_MAX);
	assert_int_equal(atomic_load(&f->control.rows[ROW].state), DSR_ACTOR_READY);
	assert_int_equal(kill(f->pid, SIGTERM), 0);
	assert_int_equal(end(f), DSR_EXIT_OK);
}

/* ---- in a thread, as daser-all has it ---- */

struct runner {
	char run_dir[80];
	char stop[32];
	void *zmq;
	int status;
};

static void *run_actor(void *self)
{
	struct runner *r = self;
	char program[] = "daser-all";
	char *argv[] = {program, r->run_dir, r->stop, NULL};

	r->status = dsr_actor_run(rt_actor_ops(), 3, argv, r->zmq, true);
	return NULL;
}

static void a_thread_serves_until_its_stop_descriptor_is_readable(void **state)
{
	struct fixture *f = *state;
	struct runner r = {.zmq = zmq_ctx_new(), .status = -1};
	int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct side near;
	pthread_t thread;
	sigset_t before;
	sigset_t after;

	(void)snprintf(r.run_dir, sizeof(r.run_dir), "--run-dir=%s", f->run_dir);
	(void)snprintf(r.stop, sizeof(r.stop), "--stop-fd=%d", stop_fd);
	(void)pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(pthread_create(&thread, NULL, run_actor, &r), 0);
	side_open(&near, f->loop, f->run_dir, DSR_ROLE_LOAD, "host:0", r.zmq);
	assert_int_equal(dsr_link_connect(near.link, DSR_ROLE_METRICS, ""), 0);
	side_wait(&near, &near.ready, 1);
	assert_int_equal(side_lookup(&near, RT_ACTOR_TTL, 20000, 0), 0);
	side_wait(&near, &near.replies, 1);
	/* Other processes reach it by ipc. */
	assert_int_equal(dsr_link_connect(f->side.link, DSR_ROLE_METRICS, ""), 0);
	side_wait(&f->side, &f->side.ready, 1);
	side_close(&near);
	(void)eventfd_write(stop_fd, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(r.status, DSR_EXIT_OK);
	(void)pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
	(void)close(stop_fd);
	assert_int_equal(zmq_ctx_term(r.zmq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_takes_its_row_and_serves, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_stuck_actor_beats_without_progress, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(
			settings_come_from_the_supervisor_and_flags_override, set_up, tear_down),
		cmocka_unit_test_setup_teardown(term_stops_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_supervisors_stop_stops_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_supervisors_end_is_its_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(it_finishes_its_work_before_it_stops, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(work_that_does_not_end_is_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_second_term_ends_draining, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_role_that_stops_its_loop_has_failed, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_killed_actor_comes_back_as_a_restart, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(last_words_tell_of_an_assertion, set_up, tear_down),
		cmocka_unit_test_setup_teardown(last_words_tell_of_a_fault, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_failed_open_is_closed_and_leaves_words, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(one_actor_of_a_role_lives_at_a_time, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(without_a_supervisor_it_does_not_start, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(bad_arguments_are_a_usage_error, set_up, tear_down),
		cmocka_unit_test_setup_teardown(help_and_version_are_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(fault_points_are_armed_by_flag_and_by_message,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			it_waits_for_the_control_segment_and_can_be_stopped_then, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(a_control_segment_of_another_version_is_refused,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_row_scribbled_with_a_later_incarnation_is_taken,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_thread_serves_until_its_stop_descriptor_is_readable, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("actor", tests, NULL, NULL);
}
