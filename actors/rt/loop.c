/* SPDX-License-Identifier: Apache-2.0 */
/* ZeroMQ sockets are polled by zmq_poll, together with one epoll descriptor that stands for all
 * plain ones: many pidfds cost nothing per turn, and few items need no memory in zmq_poll. */
#include "loop.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <zmq.h>

#include "log.h"
#include "util.h"

#define SOURCES_MAX 256
#define TIMER_OFF UINT64_MAX

struct source {
	dsr_loop_fn *fn; /* NULL: this place is free */
	void *self;      /* borrowed */
	void *socket;    /* borrowed; NULL: a plain descriptor */
	int fd;          /* borrowed; -1 for sockets */
	uint32_t serial; /* new for each use of the place: tells a removed source from its successor
	                  */
};

struct dsr_timer {
	struct dsr_loop *loop; /* borrowed */
	dsr_loop_fn *fn;
	void *self; /* borrowed */
	uint64_t at_ns;
	uint64_t period_ns; /* 0: once */
	uint64_t armed_in;  /* turn: one armed by a callback waits for the next */
	size_t heap_index;  /* valid while armed */
};

struct dsr_loop {
	int epoll_fd; /* owned */
	bool is_stopped;
	uint32_t next_serial;
	uint64_t turn;
	struct source sources[SOURCES_MAX];
	unsigned used; /* places ever used: the rest is free */
	/* A min-heap of the armed timers by time. All timers have room in it. */
	struct dsr_timer **heap; /* owned array */
	size_t armed, timers, heap_size;
	struct dsr_timer **all; /* owned, with the timers in it: what dsr_loop_free frees */
};

int dsr_loop_new(struct dsr_loop **ret_loop)
{
	struct dsr_loop *loop = calloc(1, sizeof(*loop));
	int r;

	if (!loop)
		return -ENOMEM;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd == -1) {
		r = -errno;
		free(loop);
		return r;
	}
	*ret_loop = loop;
	return 0;
}

void dsr_loop_free(struct dsr_loop **loop)
{
	if (!*loop)
		return;
	while ((*loop)->timers > 0) {
		struct dsr_timer *timer = (*loop)->all[(*loop)->timers - 1];

		dsr_timer_free(&timer);
	}
	free((*loop)->heap);
	free((*loop)->all);
	dsr_close(&(*loop)->epoll_fd);
	free(*loop);
	*loop = NULL;
}

/* ---- sources ---- */

static struct source *find_source(struct dsr_loop *loop, void *socket, int fd)
{
	unsigned i;

	for (i = 0; i < loop->used; i++)
		if (loop->sources[i].fn && loop->sources[i].socket == socket &&
		    loop->sources[i].fd == fd)
			return &loop->sources[i];
	return NULL;
}

static int add_source(struct dsr_loop *loop, void *socket, int fd, dsr_loop_fn *fn, void *self,
                      struct source **ret_source)
{
	unsigned i;

	if (find_source(loop, socket, fd))
		return -EEXIST;
	for (i = 0; i < loop->used && loop->sources[i].fn; i++)
		;
	if (i == SOURCES_MAX)
		return -ENOSPC;
	if (i == loop->used)
		loop->used++;
	loop->sources[i] = (struct source){
		.fn = fn, .self = self, .socket = socket, .fd = fd, .serial = loop->next_serial++};
	*ret_source = &loop->sources[i];
	return 0;
}

static void drop_source(struct dsr_loop *loop, struct source *source)
{
	source->fn = NULL;
	while (loop->used > 0 && !loop->sources[loop->used - 1].fn)
		loop->used--;
}

int dsr_loop_add_fd(struct dsr_loop *loop, int fd, dsr_loop_fn *fn, void *self)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct source *source;
	int r = add_source(loop, NULL, fd, fn, self, &source);

	if (r < 0)
		return r;
	event.data.u64 = (uint64_t)(source - loop->sources) << 32 | source->serial;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == -1) {
		r = -errno;
		drop_source(loop, source);
		return r;
	}
	return 0;
}

int dsr_loop_add_zmq(struct dsr_loop *loop, void *socket, dsr_loop_fn *fn, void *self)
{
	struct source *source;

	return add_source(loop, socket, -1, fn, self, &source);
}

void dsr_loop_remove_fd(struct dsr_loop *loop, int fd)
{
	struct source *source = find_source(loop, NULL, fd);

	if (!source)
		return;
	(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	drop_source(loop, source);
}

void dsr_loop_remove_zmq(struct dsr_loop *loop, void *socket)
{
	struct source *source = find_source(loop, socket, -1);

	if (source)
		drop_source(loop, source);
}

/* ---- timers ---- */

static void heap_put(struct dsr_loop *loop, size_t i, struct dsr_timer *timer)
{
	loop->heap[i] = timer;
	timer->heap_index = i;
}

/* Moves the timer that belongs at or below place i to its place. */
static void sift_down(struct dsr_loop *loop, size_t i, struct dsr_timer *timer)
{
	size_t child;

	while ((child = 2 * i + 1) < loop->armed) {
		if (child + 1 < loop->armed &&
		    loop->heap[child + 1]->at_ns < loop->heap[child]->at_ns)
			child++;
		if (timer->at_ns <= loop->heap[child]->at_ns)
			break;
		heap_put(loop, i, loop->heap[child]);
		i = child;
	}
	heap_put(loop, i, timer);
}

static void sift_up(struct dsr_loop *loop, size_t i, struct dsr_timer *timer)
{
	while (i > 0 && timer->at_ns < loop->heap[(i - 1) / 2]->at_ns) {
		heap_put(loop, i, loop->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_put(loop, i, timer);
}

static void disarm(struct dsr_timer *timer)
{
	struct dsr_loop *loop = timer->loop;
	struct dsr_timer *last;
	size_t i = timer->heap_index;

	if (timer->at_ns == TIMER_OFF)
		return;
	timer->at_ns = TIMER_OFF;
	last = loop->heap[--loop->armed];
	if (last == timer)
		return;
	if (i > 0 && last->at_ns < loop->heap[(i - 1) / 2]->at_ns)
		sift_up(loop, i, last);
	else
		sift_down(loop, i, last);
}

static void arm(struct dsr_timer *timer, uint64_t at_ns)
{
	disarm(timer);
	if (at_ns == TIMER_OFF)
		return;
	timer->at_ns = at_ns;
	timer->armed_in = timer->loop->turn;
	sift_up(timer->loop, timer->loop->armed++, timer);
}

int dsr_timer_new(struct dsr_loop *loop, dsr_loop_fn *fn, void *self, struct dsr_timer **ret_timer)
{
	size_t size = loop->heap_size ? loop->heap_size * 2 : 16;
	struct dsr_timer *timer = calloc(1, sizeof(*timer));
	struct dsr_timer **grown;

	if (!timer)
		return -ENOMEM;
	if (loop->timers == loop->heap_size) {
		grown = realloc(loop->heap, size * sizeof(*grown));
		if (!grown)
			goto err_free;
		loop->heap = grown;
		grown = realloc(loop->all, size * sizeof(*grown));
		if (!grown)
			goto err_free;
		loop->all = grown;
		loop->heap_size = size;
	}
	*timer = (struct dsr_timer){.loop = loop, .fn = fn, .self = self, .at_ns = TIMER_OFF};
	loop->all[loop->timers++] = timer;
	*ret_timer = timer;
	return 0;

err_free:
	free(timer);
	return -ENOMEM;
}

void dsr_timer_free(struct dsr_timer **timer)
{
	struct dsr_loop *loop;
	size_t i;

	if (!*timer)
		return;
	loop = (*timer)->loop;
	disarm(*timer);
	for (i = 0; loop->all[i] != *timer; i++)
		;
	loop->all[i] = loop->all[--loop->timers];
	free(*timer);
	*timer = NULL;
}

void dsr_timer_set(struct dsr_timer *timer, uint64_t at_ns)
{
	timer->period_ns = 0;
	arm(timer, at_ns);
}

void dsr_timer_every(struct dsr_timer *timer, uint64_t period_ns)
{
	dsr_assert(period_ns > 0);
	timer->period_ns = period_ns;
	arm(timer, dsr_now_ns() + period_ns);
}

/* Runs the timers due at now_ns, but for those that a callback of this turn armed. */
static int run_timers(struct dsr_loop *loop, uint64_t now_ns)
{
	struct dsr_timer *timer;
	int ran = 0;

	while (loop->armed > 0 && loop->heap[0]->at_ns <= now_ns &&
	       loop->heap[0]->armed_in != loop->turn) {
		timer = loop->heap[0];
		/* A late turn skips periods instead of running them in a row. */
		if (timer->period_ns > 0)
			arm(timer, now_ns + timer->period_ns);
		else
			disarm(timer);
		timer->fn(timer->self);
		ran++;
	}
	return ran;
}

/* ---- turns ---- */

/* Milliseconds that zmq_poll may wait: timeout_ms, shortened to the next timer, rounded up. */
static long poll_timeout(const struct dsr_loop *loop, int timeout_ms)
{
	uint64_t now_ns;
	uint64_t wait_ms;

	if (loop->armed == 0 || timeout_ms == 0)
		return timeout_ms;
	now_ns = dsr_now_ns();
	if (loop->heap[0]->at_ns <= now_ns)
		return 0;
	wait_ms = (loop->heap[0]->at_ns - now_ns + 999999) / 1000000;
	if (wait_ms > INT_MAX)
		wait_ms = INT_MAX;
	return timeout_ms >= 0 && (uint64_t)timeout_ms < wait_ms ? timeout_ms : (long)wait_ms;
}

static int call_source(struct dsr_loop *loop, uint32_t index, uint32_t serial)
{
	struct source *source = &loop->sources[index];

	if (!source->fn || source->serial != serial)
		return 0; /* removed by an earlier callback of this turn */
	source->fn(source->self);
	return 1;
}

static int run_fds(struct dsr_loop *loop)
{
	struct epoll_event events[SOURCES_MAX];
	int n = epoll_wait(loop->epoll_fd, events, SOURCES_MAX, 0);
	int ran = 0;
	int i;

	for (i = 0; i < n; i++)
		ran += call_source(loop, (uint32_t)(events[i].data.u64 >> 32),
		                   (uint32_t)events[i].data.u64);
	return ran;
}

int dsr_loop_step(struct dsr_loop *loop, int timeout_ms)
{
	zmq_pollitem_t items[SOURCES_MAX + 1];
	uint32_t index[SOURCES_MAX + 1];
	uint32_t serial[SOURCES_MAX + 1];
	int count = 1;
	int ran = 0;
	int i;

	items[0] = (zmq_pollitem_t){.fd = loop->epoll_fd, .events = ZMQ_POLLIN};
	for (i = 0; i < (int)loop->used; i++) {
		if (!loop->sources[i].fn || !loop->sources[i].socket)
			continue;
		items[count] =
			(zmq_pollitem_t){.socket = loop->sources[i].socket, .events = ZMQ_POLLIN};
		index[count] = (uint32_t)i;
		serial[count++] = loop->sources[i].serial;
	}
	if (zmq_poll(items, count, poll_timeout(loop, timeout_ms)) == -1)
		return errno == EINTR ? 0 : -errno;
	loop->turn++;
	if (items[0].revents)
		ran += run_fds(loop);
	for (i = 1; i < count; i++)
		if (items[i].revents)
			ran += call_source(loop, index[i], serial[i]);
	return ran + run_timers(loop, dsr_now_ns());
}

int dsr_loop_run(struct dsr_loop *loop)
{
	int r = 0;

	while (!loop->is_stopped && r >= 0)
		r = dsr_loop_step(loop, -1);
	return r < 0 ? r : 0;
}

void dsr_loop_stop(struct dsr_loop *loop)
{
	loop->is_stopped = true;
}

bool dsr_loop_stopped(const struct dsr_loop *loop)
{
	return loop->is_stopped;
}
