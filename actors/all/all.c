/* SPDX-License-Identifier: Apache-2.0 */
/* daser-all: every actor of the system as a thread of one process, over inproc among themselves:
 * for debuggers and sanitizers.
 *
 * Scheduler and metrics start at once, a load and a store actor with each "spawn" of the
 * supervisor, which this thread hears on a connection of its own. An actor that ends unasked ends
 * them all, and the supervisor starts the whole again.
 * Stopping is in reverse order: all pairs, and when these have ended metrics and scheduler. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "actor.h"
#include "actor_args.h"
#include "errors.h"
#include "load.h"
#include "metrics.h"
#include "scheduler.h"
#include "store.h"
#include "util.h"

#define ALL_SINGLES 2
#define ALL_THREADS DSR_ACTOR_ROWS /* each has a row */
#define ALL_DEVICE "daser-all"     /* how the supervisor knows our connection */
#define ALL_ARG_MAX (DSR_DEVICE_NAME_MAX + 16)

struct all;

/* One actor. Zeroed: free. */
struct all_actor {
	struct all *all; /* borrowed */
	const struct dsr_actor_ops *ops;
	bool is_started;
	bool is_asked; /* to stop */
	bool is_wanted_again;
	pthread_t thread;
	int stop_fd; /* owned: eventfd, readable = stop */
	_Atomic bool has_ended;
	int status; /* W: its thread, before has_ended */
	char device[DSR_DEVICE_NAME_MAX];
	char stop_arg[ALL_ARG_MAX], device_arg[ALL_ARG_MAX];
	char **argv; /* owned array of borrowed strings */
	int argc;
};

struct all {
	struct dsr_options options;
	struct dsr_actor_args args;
	struct dsr_loop *loop;     /* owned */
	struct dsr_broker *broker; /* owned */
	void *context;             /* owned: of ZeroMQ */
	int signal_fd;             /* owned */
	int ended_fd;              /* owned: eventfd, readable = an actor ended */
	int argc;
	char **argv; /* borrowed */
	struct all_actor actors[ALL_THREADS];
	bool is_stopping;
	int status;
};

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ALL_HAS_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(ALL_HAS_TSAN)
/* libzmq, which is not built for the sanitizer, hands messages from thread to thread by atomics of
 * its own: what it copies is not looked at. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "called_from_lib:libzmq.so\n";
}
#endif

static const struct dsr_role_info all_info = {.name = "all", .executable = "daser-all"};

/* ---- one actor ---- */

static void *all_actor_main(void *arg)
{
	struct all_actor *actor = arg;
	const uint64_t one = 1;

	actor->status =
		dsr_actor_run(actor->ops, actor->argc, actor->argv, actor->all->context, true);
	/* Partner: the acquire load in all_on_ended. */
	atomic_store_explicit(&actor->has_ended, true, memory_order_release);
	(void)!write(actor->all->ended_fd, &one, sizeof(one));
	return NULL;
}

/* Our own arguments, then what makes it this actor: the last of a flag counts. */
static int all_actor_args(struct all_actor *actor)
{
	const struct all *all = actor->all;
	int n = all->argc;

	actor->argv = calloc((size_t)n + 3, sizeof(*actor->argv));
	if (actor->argv == NULL)
		return -ENOMEM;
	memcpy(actor->argv, all->argv, (size_t)n * sizeof(*actor->argv));
	(void)snprintf(actor->stop_arg, sizeof(actor->stop_arg), "--stop-fd=%d", actor->stop_fd);
	actor->argv[n++] = actor->stop_arg;
	if (actor->device[0] != '\0') {
		(void)snprintf(actor->device_arg, sizeof(actor->device_arg), "--device=%s",
		               actor->device);
		actor->argv[n++] = actor->device_arg;
	}
	actor->argc = n;
	return 0;
}

static void all_actor_done(struct all_actor *actor)
{
	dsr_close(&actor->stop_fd);
	free(actor->argv);
	memset(actor, 0, sizeof(*actor));
	actor->stop_fd = -1;
}

static struct all_actor *all_find(struct all *all, const struct dsr_actor_ops *ops,
                                  const char *device)
{
	for (int i = 0; i < ALL_THREADS; i++)
		if (all->actors[i].is_started && all->actors[i].ops == ops &&
		    strcmp(all->actors[i].device, device) == 0)
			return &all->actors[i];
	return NULL;
}

static int all_start(struct all *all, const struct dsr_actor_ops *ops, const char *device)
{
	struct all_actor *actor = NULL;
	int r;

	for (int i = 0; i < ALL_THREADS && actor == NULL; i++)
		if (!all->actors[i].is_started)
			actor = &all->actors[i];
	if (actor == NULL)
		return -ENOSPC;
	actor->all = all;
	actor->ops = ops;
	r = dsr_copy_string(actor->device, sizeof(actor->device), device);
	actor->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r == 0 && actor->stop_fd == -1)
		r = -errno;
	if (r == 0)
		r = all_actor_args(actor);
	if (r == 0)
		r = -pthread_create(&actor->thread, NULL, all_actor_main, actor);
	if (r < 0) {
		all_actor_done(actor);
		return r;
	}
	actor->is_started = true;
	return 0;
}

static void all_ask_to_stop(struct all_actor *actor)
{
	const uint64_t one = 1;

	if (!actor->is_started || actor->is_asked)
		return;
	actor->is_asked = true;
	(void)!write(actor->stop_fd, &one, sizeof(one));
}

/* ---- all of them ---- */

static bool all_is_pair(const struct all_actor *actor)
{
	return actor->device[0] != '\0';
}

/* Pairs first; the two others once no pair is left. */
static void all_stop_more(struct all *all)
{
	bool has_pairs = false, has_any = false;

	for (int i = 0; i < ALL_THREADS; i++) {
		has_any = has_any || all->actors[i].is_started;
		if (!all->actors[i].is_started || !all_is_pair(&all->actors[i]))
			continue;
		has_pairs = true;
		all_ask_to_stop(&all->actors[i]);
	}
	for (int i = ALL_THREADS; !has_pairs && i-- > 0;)
		all_ask_to_stop(&all->actors[i]);
	if (!has_any)
		dsr_loop_stop(all->loop);
}

static void all_stop(struct all *all, int status)
{
	if (!all->is_stopping)
		all->status = status;
	all->is_stopping = true;
	all_stop_more(all);
}

static void all_spawn(struct all *all, const struct dsr_actor_ops *ops, const char *device)
{
	struct all_actor *actor = all_find(all, ops, device);
	int r;

	if (all->is_stopping)
		return;
	if (actor != NULL) {
		actor->is_wanted_again = actor->is_asked;
		return;
	}
	r = all_start(all, ops, device);
	if (r < 0) {
		dsr_log(DSR_LOG_ERROR, "starting %s `%s`: %s", dsr_role_name(ops->role), device,
		        strerrordesc_np(-r));
		all_stop(all, DSR_EXIT_FAILURE);
	}
}

static void all_retire(struct all *all, const struct dsr_actor_ops *ops, const char *device)
{
	struct all_actor *actor = all_find(all, ops, device);

	if (actor == NULL)
		return;
	actor->is_wanted_again = false;
	all_ask_to_stop(actor);
}

static void all_take_ended(struct all *all, struct all_actor *actor)
{
	const struct dsr_actor_ops *ops = actor->ops;
	bool was_asked = actor->is_asked, is_wanted_again = actor->is_wanted_again;
	int status = actor->status;
	char device[DSR_DEVICE_NAME_MAX];

	(void)pthread_join(actor->thread, NULL);
	memcpy(device, actor->device, sizeof(device));
	all_actor_done(actor);
	if (is_wanted_again)
		all_spawn(all, ops, device);
	else if (!was_asked && !all->is_stopping) {
		dsr_log(DSR_LOG_WARN, "stopping: %s `%s` ended with status %d",
		        dsr_role_name(ops->role), device, status);
		all_stop(all, status);
	}
}

static void all_on_ended(void *self)
{
	struct all *all = self;
	uint64_t count;

	(void)!read(all->ended_fd, &count, sizeof(count));
	for (int i = 0; i < ALL_THREADS; i++)
		/* Partner: the release store in all_actor_main. */
		if (all->actors[i].is_started &&
		    atomic_load_explicit(&all->actors[i].has_ended, memory_order_acquire))
			all_take_ended(all, &all->actors[i]);
	if (all->is_stopping)
		all_stop_more(all);
}

/* Each actor sees it, too, and drains by itself: asking it once more would end it at once. */
static void all_orphaned(struct all *all)
{
	if (!all->is_stopping)
		all->status = DSR_EXIT_ORPHANED;
	all->is_stopping = true;
	for (int i = 0; i < ALL_THREADS; i++)
		all->actors[i].is_asked = true;
	all_stop_more(all);
}

static void all_on_broker(void *self)
{
	struct all *all = self;
	char device[DSR_DEVICE_NAME_MAX];

	for (;;) {
		switch (dsr_broker_next(all->broker, device)) {
		case DSR_BROKER_NONE:
			return;
		case DSR_BROKER_SPAWN:
			all_spawn(all, &dsr_load_ops, device);
			all_spawn(all, &dsr_store_ops, device);
			break;
		case DSR_BROKER_RETIRE:
			all_retire(all, &dsr_store_ops, device);
			all_retire(all, &dsr_load_ops, device);
			break;
		case DSR_BROKER_STOP:
			all_stop(all, DSR_EXIT_OK);
			break;
		case DSR_BROKER_GONE:
			dsr_loop_remove_fd(all->loop, dsr_broker_fd(all->broker));
			all_orphaned(all);
			return;
		}
	}
}

static void all_on_signal(void *self)
{
	struct all *all = self;
	struct signalfd_siginfo info;

	if (read(all->signal_fd, &info, sizeof(info)) <= 0)
		return;
	dsr_log(DSR_LOG_INFO, "stopping: signal %u", info.ssi_signo);
	all_stop(all, DSR_EXIT_OK);
}

static void all_on_stop_fd(void *self)
{
	struct all *all = self;

	dsr_loop_remove_fd(all->loop, all->args.stop_fd);
	all_stop(all, DSR_EXIT_OK);
}

/* ---- life ---- */

static int all_read_args(struct all *all)
{
	char why[256];
	int r;

	dsr_options_init(&all->options);
	r = dsr_actor_args_parse(&all_info, all->argc, all->argv, &all->options, &all->args, why,
	                         sizeof(why));
	if (r == 0 && all->args.is_help)
		dsr_actor_args_help(&all_info);
	if (r == 0 && all->args.is_version)
		dsr_actor_args_version(&all_info);
	if (r == 0)
		r = dsr_options_resolve_run_dir(&all->options, why, sizeof(why));
	dsr_log_init("all", (enum dsr_log_level)all->options.log_level,
	             all->options.log_format == 1);
	if (r < 0)
		dsr_log(DSR_LOG_ERROR, "%s", why);
	return r;
}

/* Before any thread is made: they inherit the mask, so that signals come here alone. */
static int all_take_signals(struct all *all)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	all->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	all->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return all->signal_fd == -1 || all->ended_fd == -1 ? -errno : 0;
}

static int all_join_broker(struct all *all)
{
	struct dsr_broker_hello hello = {
		.role = DSR_ROLE_CTL, .device = ALL_DEVICE, .incarnation = dsr_incarnation_new()};
	bool by_hand;
	int row, r;

	r = dsr_broker_open(all->options.run_dir, &hello, NULL, &all->broker, &row, &by_hand);
	if (r < 0)
		dsr_log(DSR_LOG_ERROR, "supervisor in `%s`: %s", all->options.run_dir,
		        strerrordesc_np(-r));
	return r;
}

static int all_open(struct all *all)
{
	int r;

	r = all_take_signals(all);
	if (r < 0)
		return r;
	all->context = dsr_link_context_new();
	if (all->context == NULL)
		return -ENOMEM;
	r = dsr_loop_new(&all->loop);
	if (r == 0)
		r = dsr_loop_add_fd(all->loop, all->signal_fd, all_on_signal, all);
	if (r == 0)
		r = dsr_loop_add_fd(all->loop, all->ended_fd, all_on_ended, all);
	if (r == 0)
		r = dsr_loop_add_fd(all->loop, dsr_broker_fd(all->broker), all_on_broker, all);
	if (r == 0 && all->args.stop_fd != -1)
		r = dsr_loop_add_fd(all->loop, all->args.stop_fd, all_on_stop_fd, all);
	if (r < 0)
		dsr_log(DSR_LOG_ERROR, "opening: %s", strerrordesc_np(-r));
	return r;
}

static void all_close(struct all *all)
{
	dsr_loop_free(&all->loop);
	dsr_link_context_free(&all->context);
	dsr_broker_close(&all->broker);
	dsr_close(&all->signal_fd);
	dsr_close(&all->ended_fd);
}

static int all_serve(struct all *all)
{
	int r;

	all_spawn(all, &dsr_scheduler_ops, "");
	all_spawn(all, &dsr_metrics_ops, "");
	r = dsr_loop_run(all->loop);
	if (r < 0)
		dsr_log(DSR_LOG_ERROR, "loop: %s", strerrordesc_np(-r));
	return r < 0 ? DSR_EXIT_FAILURE : all->status;
}

static int all_exit_of(int err)
{
	switch (err) {
	case -ENOTCONN:
		return DSR_EXIT_NO_BROKER;
	case -EPROTONOSUPPORT:
		return DSR_EXIT_VERSION;
	case -EINVAL:
	case -EACCES:
	case -ENAMETOOLONG:
		return DSR_EXIT_USAGE;
	default:
		return DSR_EXIT_FAILURE;
	}
}

int main(int argc, char **argv)
{
	static struct all all;
	int status, r;

	all.argc = argc;
	all.argv = argv;
	all.signal_fd = all.ended_fd = -1;
	for (int i = 0; i < ALL_THREADS; i++)
		all.actors[i].stop_fd = -1;
	r = all_read_args(&all);
	if (r == 0 && (all.args.is_help || all.args.is_version))
		return DSR_EXIT_OK;
	if (r == 0)
		r = all_join_broker(&all);
	if (r < 0)
		return all_exit_of(r);
	status = all_open(&all) < 0 ? DSR_EXIT_FAILURE : all_serve(&all);
	all_close(&all);
	return status;
}
