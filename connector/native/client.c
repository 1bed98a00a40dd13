/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "files.h"
#include "log.h"
#include "util.h"

#define RETRY_FIRST_NS UINT64_C(20000000)
#define RETRY_MAX_NS UINT64_C(1000000000)
#define POLL_AGAIN_MS 10

/* ---- life ---- */

int dsr_client_run_dir(const char *run_dir, char *ret_run_dir)
{
	struct dsr_options options;
	char why[DSR_REASON_TEXT];
	int r;

	dsr_options_init(&options);
	if (run_dir != NULL && run_dir[0] != '\0') {
		r = dsr_options_set(&options, "run_dir", run_dir, why, sizeof(why));
		if (r < 0) {
			dsr_log(DSR_LOG_ERROR, "%s", why);
			return r;
		}
	}
	r = dsr_options_resolve_run_dir(&options, why, sizeof(why));
	if (r < 0) {
		dsr_log(DSR_LOG_ERROR, "%s", why);
		return r;
	}
	return dsr_copy_string(ret_run_dir, DSR_OPTION_TEXT_MAX, options.run_dir);
}

static int init_condition(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;
	int r;

	r = pthread_condattr_init(&attributes);
	if (r != 0)
		return -r;
	r = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	if (r == 0)
		r = pthread_cond_init(condition, &attributes);
	(void)pthread_condattr_destroy(&attributes);
	return -r;
}

int dsr_client_init(struct dsr_client *client, const char *run_dir, enum dsr_role role,
                    const char *device, const struct dsr_client_ops *ops, void *self)
{
	int r;

	*client = (struct dsr_client){.role = role,
	                              .ops = ops,
	                              .self = self,
	                              .wake_fd = -1,
	                              .backoff_ns = RETRY_FIRST_NS};
	r = dsr_client_run_dir(run_dir, client->run_dir);
	if (r < 0)
		return r;
	r = dsr_copy_string(client->device, sizeof(client->device), device);
	if (r < 0)
		return -EINVAL;
	client->incarnation = dsr_incarnation_new();
	(void)snprintf(client->reason, sizeof(client->reason), "not started");
	client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (client->wake_fd == -1)
		return -errno;
	r = -pthread_mutex_init(&client->lock, NULL);
	if (r < 0)
		goto err_close;
	r = init_condition(&client->changed);
	if (r < 0)
		goto err_mutex;
	return 0;

err_mutex:
	(void)pthread_mutex_destroy(&client->lock);
err_close:
	dsr_close(&client->wake_fd);
	return r;
}

void dsr_client_done(struct dsr_client *client)
{
	dsr_client_stop(client);
	if (client->has_control)
		dsr_control_detach(&client->control);
	client->has_control = false;
	(void)pthread_cond_destroy(&client->changed);
	(void)pthread_mutex_destroy(&client->lock);
	dsr_close(&client->wake_fd);
}

/* ---- between threads ---- */

void dsr_client_lock(struct dsr_client *client)
{
	(void)pthread_mutex_lock(&client->lock);
}

void dsr_client_unlock(struct dsr_client *client)
{
	(void)pthread_mutex_unlock(&client->lock);
}

bool dsr_client_wait(struct dsr_client *client, uint64_t deadline_ns)
{
	const struct timespec deadline = {
		.tv_sec = (time_t)(deadline_ns / UINT64_C(1000000000)),
		.tv_nsec = (long)(deadline_ns % UINT64_C(1000000000)),
	};

	return pthread_cond_timedwait(&client->changed, &client->lock, &deadline) == 0;
}

void dsr_client_changed(struct dsr_client *client)
{
	(void)pthread_cond_broadcast(&client->changed);
}

void dsr_client_wake(struct dsr_client *client)
{
	uint64_t one = 1;

	/* Fails only when the counter is full: then it is readable anyway. */
	(void)!write(client->wake_fd, &one, sizeof(one));
}

static void on_wake(void *self)
{
	struct dsr_client *client = self;
	uint64_t count;
	bool is_stopping;

	(void)!read(client->wake_fd, &count, sizeof(count));
	dsr_client_lock(client);
	is_stopping = client->is_stopping;
	dsr_client_unlock(client);
	if (is_stopping)
		dsr_loop_stop(client->loop);
	else
		client->ops->woken(client->self);
}

/* ---- state ---- */

static const char *const state_names[] = {"detached", "attached", "refused"};

void dsr_client_set_state(struct dsr_client *client, enum daser_state state, const char *format,
                          ...)
{
	char text[DSR_REASON_TEXT];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (state != client->state)
		dsr_log(state == DASER_REFUSED ? DSR_LOG_WARN : DSR_LOG_INFO, "%s%s%s %s%s%s",
		        dsr_role_name(client->role), client->device[0] ? " " : "", client->device,
		        state_names[state], text[0] ? ": " : "", text);
	client->state = state;
	(void)dsr_copy_string(client->reason, sizeof(client->reason), text);
	dsr_client_changed(client);
}

/* ---- counters ---- */

void dsr_client_count(struct dsr_client *client, enum dsr_counter counter, uint64_t n)
{
	if (client->page != NULL)
		dsr_counter_add(client->page, counter, n);
	else
		client->uncounted[counter] += n;
}

void dsr_client_set_page(struct dsr_client *client, uint32_t index)
{
	struct dsr_counters_page *page;

	if (!client->has_control || index < DSR_ACTOR_ROWS || index >= DSR_RETIRED_PAGE) {
		dsr_log(DSR_LOG_WARN,
		        "counters page %u of the scheduler, expected %u to %u; counting "
		        "without one",
		        index, DSR_ACTOR_ROWS, DSR_RETIRED_PAGE - 1);
		return;
	}
	page = &client->control.counters[index];
	/* Also the page that we had: the scheduler may have thought us dead meanwhile. */
	if (atomic_load_explicit(&page->incarnation, memory_order_acquire) != client->incarnation)
		dsr_counters_claim(page, client->role, client->incarnation, getpid());
	if (page == client->page)
		return;
	for (unsigned i = 0; i < DSR_COUNTER_COUNT; i++) {
		dsr_counter_add(page, i, client->uncounted[i]);
		client->uncounted[i] = 0;
	}
	client->page = page;
	dsr_link_set_counters(client->link, page);
}

/* ---- the supervisor ---- */

static void retry_later(struct dsr_client *client)
{
	dsr_timer_set(client->retry, dsr_now_ns() + client->backoff_ns);
	client->backoff_ns *= 2;
	if (client->backoff_ns > RETRY_MAX_NS)
		client->backoff_ns = RETRY_MAX_NS;
}

static void close_broker(struct dsr_client *client)
{
	if (client->broker == NULL)
		return;
	dsr_loop_remove_fd(client->loop, dsr_broker_fd(client->broker));
	dsr_broker_close(&client->broker);
}

static void on_broker(void *self)
{
	struct dsr_client *client = self;
	char device[DSR_DEVICE_NAME_MAX];
	enum dsr_broker_event event;

	do {
		event = dsr_broker_next(client->broker, device);
		if (event != DSR_BROKER_GONE)
			continue;
		/* The actors may go on for a while, and so do we with them; a new supervisor has
		 * other ones. */
		close_broker(client);
		client->backoff_ns = RETRY_FIRST_NS;
		retry_later(client);
		return;
	} while (event != DSR_BROKER_NONE);
}

static int open_broker(struct dsr_client *client)
{
	const struct dsr_broker_hello hello = {
		.role = client->role, .device = client->device, .incarnation = client->incarnation};
	bool by_hand;
	int row, r;

	r = dsr_broker_open(client->run_dir, &hello, NULL, &client->broker, &row, &by_hand);
	if (r < 0)
		return r;
	r = dsr_loop_add_fd(client->loop, dsr_broker_fd(client->broker), on_broker, client);
	if (r < 0)
		dsr_broker_close(&client->broker);
	return r;
}

/* Maps the control segment in place of the one of an earlier supervisor. */
static int attach_control(struct dsr_client *client, char *ret_why, size_t why_bytes)
{
	struct dsr_control control;
	int fd, r;

	fd = dsr_broker_get(client->broker, DSR_OBJECT_CONTROL);
	if (fd < 0)
		return fd;
	r = dsr_control_attach(fd, true, &control, ret_why, why_bytes);
	dsr_close(&fd);
	if (r < 0)
		return r;
	dsr_link_set_counters(client->link, NULL);
	dsr_client_lock(client);
	client->page = NULL;
	if (client->has_control)
		dsr_control_detach(&client->control);
	client->control = control;
	client->has_control = true;
	dsr_client_unlock(client);
	return 0;
}

/* Puts off, and says why unless somebody serves us meanwhile. */
static void put_off(struct dsr_client *client, int err, const char *what, const char *why)
{
	enum daser_state state =
		err == -EPROTONOSUPPORT || err == -EACCES ? DASER_REFUSED : DASER_DETACHED;

	dsr_client_lock(client);
	if (client->state != DASER_ATTACHED)
		dsr_client_set_state(client, state, "%s in %s: %s", what, client->run_dir,
		                     why[0] ? why : strerror(-err));
	dsr_client_unlock(client);
	retry_later(client);
}

static void on_retry(void *self)
{
	struct dsr_client *client = self;
	char why[DSR_REASON_TEXT] = "";
	int r;

	if (client->broker == NULL) {
		r = open_broker(client);
		if (r < 0) {
			put_off(client, r, "no supervisor", "");
			return;
		}
	}
	r = attach_control(client, why, sizeof(why));
	if (r < 0) {
		if (r == -ENOTCONN)
			close_broker(client);
		put_off(client, r, "no control segment", why);
		return;
	}
	if (!client->is_connecting) {
		r = dsr_link_connect(client->link, DSR_ROLE_SCHEDULER, "");
		if (r < 0) {
			put_off(client, r, "no connection to the scheduler", "");
			return;
		}
		client->is_connecting = true;
	}
	r = client->ops->served(client->self);
	if (r < 0)
		put_off(client, r, "no service of the supervisor", "");
	else
		client->backoff_ns = RETRY_FIRST_NS;
}

/* ---- the thread ---- */

static int thread_open(struct dsr_client *client)
{
	const struct dsr_link_options options = {
		.run_dir = client->run_dir,
		.role = client->role,
		.device = client->device,
		.incarnation = client->incarnation,
		.ops = client->ops->link,
		.self = client->self,
	};
	int r;

	r = dsr_loop_new(&client->loop);
	r = r < 0 ? r : dsr_link_new(client->loop, &options, &client->link);
	r = r < 0 ? r : dsr_timer_new(client->loop, on_retry, client, &client->retry);
	r = r < 0 ? r : dsr_loop_add_fd(client->loop, client->wake_fd, on_wake, client);
	r = r < 0 ? r : client->ops->started(client->self);
	if (r == 0)
		dsr_timer_set(client->retry, dsr_now_ns());
	return r;
}

static void thread_close(struct dsr_client *client)
{
	close_broker(client);
	dsr_link_free(&client->link);
	dsr_loop_free(&client->loop);
}

static void *thread_main(void *self)
{
	struct dsr_client *client = self;
	int r;

	r = thread_open(client);
	/* Deadlines are enforced here, so the thread lives on: what a poll lacks (memory,
	 * descriptors) may be there a moment later. */
	while (r == 0 && !dsr_loop_stopped(client->loop)) {
		if (dsr_loop_run(client->loop) < 0)
			(void)poll(NULL, 0, POLL_AGAIN_MS);
	}
	if (r < 0) {
		dsr_client_lock(client);
		dsr_client_set_state(client, DASER_DETACHED, "its thread ended: %s", strerror(-r));
		dsr_client_unlock(client);
	}
	thread_close(client);
	return NULL;
}

int dsr_client_start(struct dsr_client *client)
{
	sigset_t all, before;
	int r;

	/* The engine's signals are for the engine's threads. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &before);
	r = -pthread_create(&client->thread, NULL, thread_main, client);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	client->is_started = r == 0;
	return r;
}

void dsr_client_stop(struct dsr_client *client)
{
	if (!client->is_started)
		return;
	dsr_client_lock(client);
	client->is_stopping = true;
	dsr_client_unlock(client);
	dsr_client_wake(client);
	(void)pthread_join(client->thread, NULL);
	client->is_started = false;
}
