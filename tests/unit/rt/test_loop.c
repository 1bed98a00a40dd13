/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <zmq.h>

#include "rt_test.h"

#define MS UINT64_C(1000000)

/* A source and what became of it. */
struct probe {
	struct dsr_loop *loop;
	int fd;
	void *socket;
	struct dsr_timer *timer;
	unsigned calls;
	bool has_run;
	struct probe *victim; /* removed in the callback */
	uint64_t at_ns;
	unsigned *order;
	unsigned place;
};

static int set_up(void **state)
{
	struct dsr_loop *loop;

	assert_int_equal(dsr_loop_new(&loop), 0);
	*state = loop;
	return 0;
}

static int tear_down(void **state)
{
	struct dsr_loop *loop = *state;

	dsr_loop_free(&loop);
	assert_null(loop);
	dsr_loop_free(&loop);
	return 0;
}

static void on_fd(void *self)
{
	struct probe *p = self;

	p->calls++;
	p->has_run = true;
	if (p->victim)
		dsr_loop_remove_fd(p->loop, p->victim->fd);
}

static struct probe make_probe(struct dsr_loop *loop, unsigned value)
{
	struct probe p = {.loop = loop, .fd = eventfd(value, EFD_CLOEXEC | EFD_NONBLOCK)};

	assert_true(p.fd >= 0);
	return p;
}

static void a_readable_descriptor_calls_each_turn(void **state)
{
	struct dsr_loop *loop = *state;
	struct probe p = make_probe(loop, 0);
	eventfd_t value;

	assert_int_equal(dsr_loop_add_fd(loop, p.fd, on_fd, &p), 0);
	assert_int_equal(dsr_loop_add_fd(loop, p.fd, on_fd, &p), -EEXIST);
	assert_int_equal(dsr_loop_step(loop, 0), 0);
	(void)eventfd_write(p.fd, 1);
	assert_int_equal(dsr_loop_step(loop, -1), 1);
	assert_int_equal(dsr_loop_step(loop, -1), 1);
	(void)eventfd_read(p.fd, &value);
	assert_int_equal(dsr_loop_step(loop, 0), 0);
	dsr_loop_remove_fd(loop, p.fd);
	(void)eventfd_write(p.fd, 1);
	assert_int_equal(dsr_loop_step(loop, 0), 0);
	assert_int_equal(p.calls, 2);
	(void)close(p.fd);
}

static void a_closed_pipe_is_readable(void **state)
{
	struct dsr_loop *loop = *state;
	struct probe p = {.loop = loop};
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	p.fd = fds[0];
	assert_int_equal(dsr_loop_add_fd(loop, p.fd, on_fd, &p), 0);
	(void)close(fds[1]);
	assert_int_equal(dsr_loop_step(loop, -1), 1);
	dsr_loop_remove_fd(loop, p.fd);
	(void)close(fds[0]);
}

static void a_source_may_remove_itself_and_others(void **state)
{
	struct dsr_loop *loop = *state;
	struct probe a = make_probe(loop, 1);
	struct probe b = make_probe(loop, 1);
	struct probe self = make_probe(loop, 1);

	a.victim = &b;
	b.victim = &a;
	self.victim = &self;
	assert_int_equal(dsr_loop_add_fd(loop, a.fd, on_fd, &a), 0);
	assert_int_equal(dsr_loop_add_fd(loop, b.fd, on_fd, &b), 0);
	assert_int_equal(dsr_loop_add_fd(loop, self.fd, on_fd, &self), 0);
	/* Both are readable; whichever comes first silences the other in the same turn. */
	assert_int_equal(dsr_loop_step(loop, -1), 2);
	assert_int_equal(a.calls + b.calls, 1);
	assert_int_equal(self.calls, 1);
	dsr_loop_remove_fd(loop, a.fd);
	dsr_loop_remove_fd(loop, b.fd);
	dsr_loop_remove_fd(loop, b.fd);
	(void)close(a.fd);
	(void)close(b.fd);
	(void)close(self.fd);
}

/* Removes the victim and gives its place to `next`, which must not run in this turn. */
static struct probe *next_probe;

static void on_replace(void *self)
{
	struct probe *p = self;

	p->calls++;
	if (!p->victim)
		return;
	dsr_loop_remove_fd(p->loop, p->victim->fd);
	assert_int_equal(dsr_loop_add_fd(p->loop, next_probe->fd, on_fd, next_probe), 0);
	p->victim = NULL;
}

static void a_new_source_does_not_run_for_its_predecessor(void **state)
{
	struct dsr_loop *loop = *state;
	struct probe a = make_probe(loop, 1);
	struct probe b = make_probe(loop, 1);
	struct probe next = make_probe(loop, 0);

	next_probe = &next;
	a.victim = &b;
	b.victim = &a;
	assert_int_equal(dsr_loop_add_fd(loop, a.fd, on_replace, &a), 0);
	assert_int_equal(dsr_loop_add_fd(loop, b.fd, on_replace, &b), 0);
	assert_int_equal(dsr_loop_step(loop, -1), 1);
	assert_int_equal(next.calls, 0);
	dsr_loop_remove_fd(loop, a.fd);
	dsr_loop_remove_fd(loop, b.fd);
	dsr_loop_remove_fd(loop, next.fd);
	(void)close(a.fd);
	(void)close(b.fd);
	(void)close(next.fd);
}

static void the_number_of_sources_has_a_limit(void **state)
{
	struct dsr_loop *loop = *state;
	struct probe probes[257];
	int i;

	for (i = 0; i < 257; i++) {
		probes[i] = make_probe(loop, 1);
		assert_int_equal(dsr_loop_add_fd(loop, probes[i].fd, on_fd, &probes[i]),
		                 i < 256 ? 0 : -ENOSPC);
	}
	assert_int_equal(dsr_loop_step(loop, -1), 256);
	for (i = 0; i < 257; i++) {
		dsr_loop_remove_fd(loop, probes[i].fd);
		(void)close(probes[i].fd);
	}
}

static void a_descriptor_that_cannot_be_waited_for_is_refused(void **state)
{
	struct dsr_loop *loop = *state;
	FILE *f = tmpfile();

	assert_non_null(f);
	assert_int_equal(dsr_loop_add_fd(loop, fileno(f), on_fd, NULL), -EPERM);
	assert_int_equal(dsr_loop_add_fd(loop, 100000, on_fd, NULL), -EBADF);
	(void)fclose(f);
}

static void on_socket(void *self)
{
	struct probe *p = self;
	char byte;

	p->has_run = true;
	while (zmq_recv(p->socket, &byte, 1, ZMQ_DONTWAIT) == 1)
		p->calls++;
}

static void sockets_and_descriptors_run_in_one_turn(void **state)
{
	struct dsr_loop *loop = *state;
	struct probe socket = {.loop = loop};
	struct probe fd = make_probe(loop, 1);
	void *zmq = zmq_ctx_new();
	void *sender = zmq_socket(zmq, ZMQ_PAIR);
	int i;

	socket.socket = zmq_socket(zmq, ZMQ_PAIR);
	assert_int_equal(zmq_bind(socket.socket, "inproc://loop"), 0);
	assert_int_equal(zmq_connect(sender, "inproc://loop"), 0);
	assert_int_equal(dsr_loop_add_zmq(loop, socket.socket, on_socket, &socket), 0);
	assert_int_equal(dsr_loop_add_zmq(loop, socket.socket, on_socket, &socket), -EEXIST);
	assert_int_equal(dsr_loop_add_fd(loop, fd.fd, on_fd, &fd), 0);
	for (i = 0; i < 10; i++)
		assert_int_equal(zmq_send(sender, "x", 1, 0), 1);
	assert_int_equal(dsr_loop_step(loop, -1), 2);
	assert_int_equal(socket.calls, 10);
	assert_int_equal(fd.calls, 1);
	dsr_loop_remove_fd(loop, fd.fd);
	assert_int_equal(zmq_send(sender, "x", 1, 0), 1);
	test_run_until(loop, &socket.has_run);
	dsr_loop_remove_zmq(loop, socket.socket);
	assert_int_equal(zmq_send(sender, "x", 1, 0), 1);
	assert_int_equal(dsr_loop_step(loop, 0), 0);
	(void)zmq_close(sender);
	(void)zmq_close(socket.socket);
	(void)zmq_ctx_term(zmq);
	(void)close(fd.fd);
}

static void on_timer(void *self)
{
	struct probe *p = self;

	p->calls++;
	p->has_run = true;
	p->at_ns = dsr_now_ns();
	if (p->order)
		p->place = (*p->order)++;
}

static void a_timer_fires_once_and_not_early(void **state)
{
	struct dsr_loop *loop = *state;
	struct probe p = {.loop = loop};
	uint64_t at_ns;

	assert_int_equal(dsr_timer_new(loop, on_timer, &p, &p.timer), 0);
	assert_int_equal(dsr_loop_step(loop, 0), 0);
	at_ns = dsr_now_ns() + 5 * MS;
	dsr_timer_set(p.timer, at_ns);
	test_run_until(loop, &p.has_run);
	assert_true(p.at_ns >= at_ns);
	assert_int_equal(dsr_loop_step(loop, 0), 0);
	dsr_timer_set(p.timer, 0); /* past */
	assert_int_equal(dsr_loop_step(loop, -1), 1);
	dsr_timer_set(p.timer, 0);
	dsr_timer_set(p.timer, UINT64_MAX);
	assert_int_equal(dsr_loop_step(loop, 0), 0);
	assert_int_equal(p.calls, 2);
	dsr_timer_free(&p.timer);
	assert_null(p.timer);
	dsr_timer_free(&p.timer);
}

static void timers_fire_in_order(void **state)
{
	struct dsr_loop *loop = *state;
	static struct probe probes[200];
	uint64_t random = test_seed();
	uint64_t now_ns = dsr_now_ns();
	unsigned order = 0;
	int i;

	memset(probes, 0, sizeof(probes));
	for (i = 0; i < 200; i++) {
		probes[i].order = &order;
		assert_int_equal(dsr_timer_new(loop, on_timer, &probes[i], &probes[i].timer), 0);
	}
	/* Set twice, so that some move up and some move down. */
	for (i = 0; i < 200; i++)
		dsr_timer_set(probes[i].timer, now_ns - test_random(&random) % (1000 * MS));
	for (i = 0; i < 200; i++)
		dsr_timer_set(probes[i].timer, now_ns - (uint64_t)(i * 7 % 200) * MS);
	for (i = 0; i < 200; i += 3)
		dsr_timer_free(&probes[i].timer);
	assert_int_equal(dsr_loop_step(loop, -1), 200 - 67);
	for (i = 1; i < 200; i += 3) {
		int k = (i + 3) < 200 ? i + 3 : 1;

		if (i * 7 % 200 > k * 7 % 200)
			assert_true(probes[i].place < probes[k].place);
		else
			assert_true(probes[i].place > probes[k].place);
	}
}

static void a_periodic_timer_skips_what_it_missed(void **state)
{
	struct dsr_loop *loop = *state;
	struct probe p = {.loop = loop};

	assert_int_equal(dsr_timer_new(loop, on_timer, &p, &p.timer), 0);
	dsr_timer_every(p.timer, MS);
	while (p.calls < 3)
		assert_true(dsr_loop_step(loop, 1000) >= 0);
	p.has_run = false;
	{
		uint64_t until_ns = dsr_now_ns() + 20 * MS;

		while (dsr_now_ns() < until_ns) /* late by 20 periods */
			;
	}
	assert_int_equal(dsr_loop_step(loop, 0), 1);
	assert_int_equal(p.calls, 4);
}

static void on_rearm(void *self)
{
	struct probe *p = self;

	p->calls++;
	dsr_timer_set(p->timer, 0);
}

static void a_timer_that_rearms_itself_does_not_starve_the_turn(void **state)
{
	struct dsr_loop *loop = *state;
	struct probe p = {.loop = loop};

	assert_int_equal(dsr_timer_new(loop, on_rearm, &p, &p.timer), 0);
	dsr_timer_set(p.timer, 0);
	assert_int_equal(dsr_loop_step(loop, -1), 1);
	assert_int_equal(dsr_loop_step(loop, -1), 1);
	assert_int_equal(p.calls, 2);
}

static void on_free(void *self)
{
	struct probe *p = self;

	p->calls++;
	dsr_timer_free(&p->timer);
	if (p->victim)
		dsr_timer_free(&p->victim->timer);
}

static void a_timer_may_free_itself_and_others(void **state)
{
	struct dsr_loop *loop = *state;
	struct probe a = {.loop = loop};
	struct probe b = {.loop = loop};

	assert_int_equal(dsr_timer_new(loop, on_free, &a, &a.timer), 0);
	assert_int_equal(dsr_timer_new(loop, on_free, &b, &b.timer), 0);
	a.victim = &b;
	dsr_timer_set(a.timer, 1);
	dsr_timer_set(b.timer, 2);
	assert_int_equal(dsr_loop_step(loop, -1), 1);
	assert_int_equal(a.calls + b.calls, 1);
}

static void on_stop(void *self)
{
	struct probe *p = self;

	p->calls++;
	if (p->calls == 3)
		dsr_loop_stop(p->loop);
}

static void the_loop_runs_until_it_is_stopped(void **state)
{
	struct dsr_loop *loop = *state;
	struct probe p = {.loop = loop};

	assert_int_equal(dsr_timer_new(loop, on_stop, &p, &p.timer), 0);
	dsr_timer_every(p.timer, MS);
	assert_false(dsr_loop_stopped(loop));
	assert_int_equal(dsr_loop_run(loop), 0);
	assert_true(dsr_loop_stopped(loop));
	assert_int_equal(p.calls, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_readable_descriptor_calls_each_turn, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_closed_pipe_is_readable, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_source_may_remove_itself_and_others, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_new_source_does_not_run_for_its_predecessor,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_number_of_sources_has_a_limit, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_descriptor_that_cannot_be_waited_for_is_refused,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(sockets_and_descriptors_run_in_one_turn, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_timer_fires_once_and_not_early, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(timers_fire_in_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_periodic_timer_skips_what_it_missed, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_timer_that_rearms_itself_does_not_starve_the_turn,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_timer_may_free_itself_and_others, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(the_loop_runs_until_it_is_stopped, set_up,
	                                        tear_down),
	};

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
