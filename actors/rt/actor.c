/* SPDX-License-Identifier: Apache-2.0 */
#include "actor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "actor_args.h"
#include "errors.h"
#include "files.h"
#include "last_words.h"
#include "util.h"

#define MS UINT64_C(1000000)
#define CONTROL_WAIT_NS (10000 * MS)
#define CONTROL_POLL_MS 20
#define HEARTBEAT_NS (200 * MS)
#define DRAIN_TURN_MS 10
#define DRAIN_SPARE_MS 500 /* of the stop timeout, to close in: the supervisor kills after it */
/* How long an actor without work stays: a DEALER with IMMEDIATE loses what it has not read when its
 * connection ends, so the last replies need time to be read, not only to leave. */
#define FAREWELL_NS (30 * MS)
#define GO_ON (-1) /* of a stage: no exit status yet */

struct actor {
	const struct dsr_actor_ops *ops; /* borrowed */
	const struct dsr_role_info *role;
	struct dsr_rt rt; /* its pointers are owned here, but for those into the control segment */
	struct dsr_actor_args args;
	struct dsr_timer *heartbeat; /* owned */
	struct dsr_last_words *last_words;
	void *zmq;       /* borrowed, may be NULL */
	void *self;      /* owned */
	void *sig_stack; /* owned */
	char **argv;     /* borrowed */
	int argc;
	int lock_fd;   /* owned */
	int signal_fd; /* owned */
	int row;
	bool use_inproc, by_hand, has_mask, was_opened, is_draining, is_over;
	sigset_t mask_before;
	uint64_t drain_end_ns;
	uint64_t drained_ns; /* since when there is no work, 0 = there is */
	int status;          /* of the exit once it is draining */
};

/* Says why this actor ends, in the log and for its obituary. Returns the exit status. */
__attribute__((format(printf, 2, 3))) static int die(int status, const char *format, ...)
{
	char text[sizeof(((struct dsr_last_words *)0)->text)];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	dsr_log(DSR_LOG_ERROR, "%s", text);
	dsr_log_last_words(text);
	return status;
}

static void init_log(const struct actor *a)
{
	char who[DSR_DEVICE_NAME_MAX + 32];

	(void)snprintf(who, sizeof(who), "%s%s%s", a->role->name, a->args.device[0] ? " " : "",
	               a->args.device);
	dsr_log_init(who, (enum dsr_log_level)a->rt.options.log_level,
	             a->rt.options.log_format == 1);
}

/* ---- stages of starting: each returns an exit status or GO_ON ---- */

static int read_args(struct actor *a)
{
	char why[256];
	int r;

	dsr_options_init(&a->rt.options);
	a->args.device = "";
	init_log(a);
	r = dsr_actor_args_parse(a->role, a->argc, a->argv, &a->rt.options, &a->args, why,
	                         sizeof(why));
	r = r ? r : dsr_options_resolve_run_dir(&a->rt.options, why, sizeof(why));
	if (r < 0)
		return die(DSR_EXIT_USAGE, "%s", why);
	if (a->args.is_help || a->args.is_version) {
		if (a->args.is_help)
			dsr_actor_args_help(a->role);
		else
			dsr_actor_args_version(a->role);
		return DSR_EXIT_OK;
	}
	init_log(a);
	(void)dsr_copy_string(a->rt.device, sizeof(a->rt.device), a->args.device);
	return GO_ON;
}

/* Before anything makes a thread: those inherit the signal mask. */
static int take_signals(struct actor *a)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigset_t set;

	a->sig_stack = dsr_last_words_stack_new();
	dsr_last_words_catch();
	(void)sigaction(SIGPIPE, &ignore, NULL);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (a->use_inproc)
		return GO_ON;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)pthread_sigmask(SIG_BLOCK, &set, &a->mask_before);
	a->has_mask = true;
	a->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (a->signal_fd == -1)
		return die(DSR_EXIT_FAILURE, "signalfd: %s", strerror(errno));
	return GO_ON;
}

static int exit_of(int err)
{
	switch (err) {
	case -ENOTCONN:
		return DSR_EXIT_NO_BROKER;
	case -EEXIST:
		return DSR_EXIT_LOCKED;
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

/* The supervisor's settings first, then once more the flags over them. */
static int join_broker(struct actor *a)
{
	struct dsr_broker_hello hello = {.role = a->ops->role, .device = a->rt.device};
	char run_dir[DSR_OPTION_TEXT_MAX];
	char why[256];
	int r;

	a->rt.incarnation = hello.incarnation = dsr_incarnation_new();
	memcpy(run_dir, a->rt.options.run_dir, sizeof(run_dir));
	r = dsr_broker_open(run_dir, &hello, &a->rt.options, &a->rt.broker, &a->row, &a->by_hand);
	if (r < 0)
		return die(exit_of(r), "supervisor in `%s`: %s", run_dir, strerror(-r));
	if (a->row < 0)
		return die(DSR_EXIT_FAILURE, "the supervisor gave no row");
	r = dsr_actor_args_parse(a->role, a->argc, a->argv, &a->rt.options, &a->args, why,
	                         sizeof(why));
	if (r < 0)
		return die(DSR_EXIT_USAGE, "%s", why);
	memcpy(a->rt.options.run_dir, run_dir, sizeof(run_dir)); /* by the name that we used */
	init_log(a);
	return GO_ON;
}

static int lock_role(struct actor *a)
{
	a->lock_fd = dsr_role_lock(a->rt.options.run_dir, a->ops->role, a->rt.device);
	if (a->lock_fd >= 0)
		return GO_ON;
	return die(exit_of(a->lock_fd), "role lock: %s",
	           a->lock_fd == -EEXIST ? "another actor of this role lives"
	                                 : strerror(-a->lock_fd));
}

/* True when a stop was asked for, or the supervisor left, while nothing serves yet. */
static bool is_stop_asked(struct actor *a, int *ret_status)
{
	char device[DSR_DEVICE_NAME_MAX];
	enum dsr_broker_event event;
	struct signalfd_siginfo info;
	struct pollfd stop = {.fd = a->args.stop_fd, .events = POLLIN};

	do
		event = dsr_broker_next(a->rt.broker, device);
	while (event == DSR_BROKER_SPAWN || event == DSR_BROKER_RETIRE);
	*ret_status = event == DSR_BROKER_GONE ? DSR_EXIT_ORPHANED : DSR_EXIT_OK;
	if (event != DSR_BROKER_NONE)
		return true;
	if (a->signal_fd != -1 && read(a->signal_fd, &info, sizeof(info)) > 0)
		return true;
	return a->args.stop_fd != -1 && poll(&stop, 1, 0) > 0;
}

static void wait_a_little(struct actor *a)
{
	struct pollfd p[3] = {{.fd = dsr_broker_fd(a->rt.broker), .events = POLLIN},
	                      {.fd = a->signal_fd, .events = POLLIN},
	                      {.fd = a->args.stop_fd, .events = POLLIN}};

	(void)poll(p, 3, CONTROL_POLL_MS);
}

/* Makes the control segment and gives it to the broker. A descriptor; -EEXIST: somebody else did.
 */
static int make_control(struct actor *a)
{
	char why[256];
	int fd;
	int r = dsr_options_resolve(&a->rt.options, why, sizeof(why));

	if (r < 0) {
		dsr_log(DSR_LOG_ERROR, "%s", why);
		return r;
	}
	fd = a->ops->make_control(&a->rt);
	if (fd < 0)
		return fd;
	r = dsr_broker_put(a->rt.broker, DSR_OBJECT_CONTROL, fd);
	if (r < 0)
		dsr_close(&fd);
	return r < 0 ? r : fd;
}

/* Descriptor in *ret_fd, made or waited for. */
static int get_control(struct actor *a, int *ret_fd)
{
	uint64_t end_ns = dsr_now_ns() + CONTROL_WAIT_NS;
	int status;
	int fd;

	for (;;) {
		fd = dsr_broker_get(a->rt.broker, DSR_OBJECT_CONTROL);
		if (fd == -ENOENT && a->ops->make_control)
			fd = make_control(a);
		if (fd >= 0) {
			*ret_fd = fd;
			return GO_ON;
		}
		if (is_stop_asked(a, &status))
			return status;
		if (fd != -ENOENT && fd != -EEXIST)
			return die(DSR_EXIT_FAILURE, "control segment: %s", strerror(-fd));
		if (dsr_now_ns() >= end_ns)
			return die(DSR_EXIT_FAILURE, "control segment: none after %d s",
			           (int)(CONTROL_WAIT_NS / (1000 * MS)));
		wait_a_little(a);
	}
}

static int attach_control(struct actor *a)
{
	char why[256] = "";
	int fd = -1;
	int status = get_control(a, &fd);
	int r;

	if (status != GO_ON)
		return status;
	r = dsr_control_attach(fd, true, &a->rt.control, why, sizeof(why));
	dsr_close(&fd);
	if (r < 0)
		return die(exit_of(r), "control segment: %s", why[0] ? why : strerror(-r));
	a->last_words = &a->rt.control.last_words[a->row];
	a->rt.row = &a->rt.control.rows[a->row];
	a->rt.counters = &a->rt.control.counters[a->row];
	/* A scheduler that found everything made still needs the size, for the pool. */
	if (a->ops->make_control && a->rt.options.l1_size == 0 &&
	    dsr_options_resolve(&a->rt.options, why, sizeof(why)) < 0)
		return die(DSR_EXIT_USAGE, "%s", why);
	return GO_ON;
}

/* Takes the row over. State goes first and last: whoever reads READY reads our fields beside it. */
static int take_row(struct actor *a)
{
	struct dsr_actor_row *row = a->rt.row;
	uint64_t before = atomic_load(&row->incarnation);
	uint64_t now_ns = dsr_now_ns();

	/* We hold the role lock, so whoever wrote that is gone; and incarnations are times of one
	 * clock, which ours was just read from. */
	if (before >= a->rt.incarnation)
		dsr_log(DSR_LOG_WARN,
		        "row %d holds incarnation %llu, expected one below ours, %llu: taking it",
		        a->row, (unsigned long long)before, (unsigned long long)a->rt.incarnation);
	atomic_store_explicit(&row->state, DSR_ACTOR_STARTING, memory_order_release);
	row->role = (uint32_t)a->ops->role;
	row->pid = getpid();
	row->by_hand = a->by_hand;
	(void)dsr_start_ticks(row->pid, &row->start_ticks);
	memcpy(row->device, a->rt.device, sizeof(row->device));
	atomic_store(&row->heartbeat_ns, now_ns);
	atomic_store(&row->progress_ns, now_ns);
	atomic_store(&row->peer_handles, 0);
	atomic_store_explicit(&row->incarnation, a->rt.incarnation, memory_order_release);
	a->last_words->text[0] = '\0';
	atomic_store_explicit(&a->last_words->incarnation, a->rt.incarnation, memory_order_release);
	dsr_log_set_last_words(a->last_words);
	dsr_counters_claim(a->rt.counters, a->ops->role, a->rt.incarnation, row->pid);
	if (before != 0)
		dsr_counter_add(a->rt.counters, DSR_COUNTER_RESTARTS, 1);
	return GO_ON;
}

static int arm_faults(struct actor *a)
{
	char why[256];
	unsigned i;
	int r = dsr_faults_new(&a->rt.faults);

	if (r < 0)
		return die(DSR_EXIT_FAILURE, "faults: %s", strerror(-r));
	for (i = 0; i < a->args.fault_count; i++) {
		r = dsr_faults_arm(a->rt.faults, a->args.faults[i], why, sizeof(why));
		if (r < 0)
			return die(DSR_EXIT_USAGE, "--fault: %s", why);
	}
	return GO_ON;
}

/* ---- serving ---- */

static void begin_drain(struct actor *a, int status)
{
	unsigned ms = a->role->stop_ms > 2 * DRAIN_SPARE_MS ? a->role->stop_ms - DRAIN_SPARE_MS
	                                                    : a->role->stop_ms / 2;

	if (a->is_draining) { /* asked twice */
		a->is_over = true;
		return;
	}
	a->is_draining = true;
	a->status = status;
	a->drain_end_ns = dsr_now_ns() + ms * MS;
	atomic_store_explicit(&a->rt.row->state, DSR_ACTOR_DRAINING, memory_order_release);
	if (a->ops->drain)
		a->ops->drain(a->self);
}

static void on_signal(void *self)
{
	struct actor *a = self;
	struct signalfd_siginfo info;

	if (read(a->signal_fd, &info, sizeof(info)) <= 0)
		return;
	dsr_log(DSR_LOG_INFO, "stopping: signal %u", info.ssi_signo);
	begin_drain(a, DSR_EXIT_OK);
}

static void on_stop_fd(void *self)
{
	struct actor *a = self;

	dsr_loop_remove_fd(a->rt.loop, a->args.stop_fd);
	dsr_log(DSR_LOG_INFO, "stopping: asked by this process");
	begin_drain(a, DSR_EXIT_OK);
}

static void on_broker(void *self)
{
	struct actor *a = self;
	char device[DSR_DEVICE_NAME_MAX];
	enum dsr_broker_event event;

	while ((event = dsr_broker_next(a->rt.broker, device)) != DSR_BROKER_NONE) {
		if (event == DSR_BROKER_STOP && !a->is_draining) {
			dsr_log(DSR_LOG_INFO, "stopping: asked by the supervisor");
			begin_drain(a, DSR_EXIT_OK);
		}
		if (event != DSR_BROKER_GONE)
			continue;
		dsr_loop_remove_fd(a->rt.loop, dsr_broker_fd(a->rt.broker));
		if (!a->is_draining) {
			dsr_log(DSR_LOG_WARN, "stopping: the supervisor is gone");
			begin_drain(a, DSR_EXIT_ORPHANED);
		}
		return;
	}
}

static void on_heartbeat(void *self)
{
	struct actor *a = self;
	uint64_t now_ns = dsr_now_ns();

	atomic_store_explicit(&a->rt.row->heartbeat_ns, now_ns, memory_order_relaxed);
	if (!a->ops->is_stuck || !a->ops->is_stuck(a->self))
		atomic_store_explicit(&a->rt.row->progress_ns, now_ns, memory_order_relaxed);
	dsr_log_flush(false);
}

static int make_loop(struct actor *a)
{
	struct dsr_link_options options = {.zmq = a->zmq,
	                                   .run_dir = a->rt.options.run_dir,
	                                   .role = a->ops->role,
	                                   .device = a->rt.device,
	                                   .incarnation = a->rt.incarnation,
	                                   .use_inproc = a->use_inproc,
	                                   .counters = a->rt.counters,
	                                   .ops = a->ops->link,
	                                   .self = a->self,
	                                   .has_tap = true,
	                                   .faults = a->rt.faults};
	struct dsr_loop *loop;
	int r = dsr_loop_new(&a->rt.loop);

	if (r < 0)
		return die(DSR_EXIT_FAILURE, "loop: %s", strerror(-r));
	loop = a->rt.loop;
	r = dsr_loop_add_fd(loop, dsr_broker_fd(a->rt.broker), on_broker, a);
	if (r == 0 && a->signal_fd != -1)
		r = dsr_loop_add_fd(loop, a->signal_fd, on_signal, a);
	if (r == 0 && a->args.stop_fd != -1)
		r = dsr_loop_add_fd(loop, a->args.stop_fd, on_stop_fd, a);
	r = r ? r : dsr_timer_new(loop, on_heartbeat, a, &a->heartbeat);
	r = r ? r : dsr_link_new(loop, &options, &a->rt.link);
	if (r < 0)
		return die(DSR_EXIT_FAILURE, "loop: %s", strerror(-r));
	return GO_ON;
}

static int open_role(struct actor *a)
{
	int r;

	a->was_opened = true;
	r = a->ops->open(a->self, &a->rt);
	if (r < 0)
		return die(r == -EPROTONOSUPPORT ? DSR_EXIT_VERSION : DSR_EXIT_FAILURE, "open: %s",
		           strerror(-r));
	r = dsr_link_bind(a->rt.link);
	if (r < 0)
		return die(DSR_EXIT_FAILURE, "bind: %s", strerror(-r));
	return GO_ON;
}

static int start_serving(struct actor *a)
{
	int r;

	on_heartbeat(a);
	dsr_timer_every(a->heartbeat, HEARTBEAT_NS);
	atomic_store_explicit(&a->rt.row->state, DSR_ACTOR_READY, memory_order_release);
	r = dsr_broker_ready(a->rt.broker);
	if (r < 0 && r != -ENOTCONN) /* its end comes as an event */
		return die(DSR_EXIT_FAILURE, "ready: %s", strerror(-r));
	dsr_log(DSR_LOG_INFO, "ready, incarnation %llu", (unsigned long long)a->rt.incarnation);
	return GO_ON;
}

/* True once there was no work for a while, or no time is left for it. */
static bool is_drain_over(struct actor *a)
{
	uint64_t now_ns = dsr_now_ns();

	if (a->ops->is_drained && !a->ops->is_drained(a->self))
		a->drained_ns = 0;
	else if (a->drained_ns == 0)
		a->drained_ns = now_ns;
	else if (now_ns - a->drained_ns >= FAREWELL_NS)
		return true;
	if (now_ns < a->drain_end_ns)
		return false;
	dsr_log(DSR_LOG_WARN, "stopping with work left: the stop timeout is over");
	return true;
}

static int serve(struct actor *a)
{
	int r = 0;

	while (!a->is_over && r >= 0) {
		r = dsr_loop_step(a->rt.loop, a->is_draining ? DRAIN_TURN_MS : -1);
		if (dsr_loop_stopped(a->rt.loop) && !a->is_draining)
			begin_drain(a, DSR_EXIT_FAILURE); /* the role saw that it cannot go on */
		if (a->is_draining && is_drain_over(a))
			return a->status;
	}
	return r < 0 ? die(DSR_EXIT_FAILURE, "loop: %s", strerror(-r)) : a->status;
}

/* ---- the end ---- */

/* In reverse order; after every stage that may have failed. */
static void tear_down(struct actor *a, int status)
{
	bool is_good = status == DSR_EXIT_OK || status == DSR_EXIT_ORPHANED;

	if (a->was_opened && a->ops->close)
		a->ops->close(a->self);
	dsr_link_free(&a->rt.link);
	dsr_timer_free(&a->heartbeat);
	dsr_loop_free(&a->rt.loop);
	dsr_faults_free(&a->rt.faults);
	dsr_log_set_last_words(NULL);
	if (a->rt.row && atomic_load(&a->rt.row->incarnation) == a->rt.incarnation)
		atomic_store_explicit(&a->rt.row->state,
		                      is_good ? DSR_ACTOR_STOPPED : DSR_ACTOR_ABSENT,
		                      memory_order_release);
	if (a->rt.control.segment.base)
		dsr_control_detach(&a->rt.control);
	dsr_close(&a->lock_fd);
	dsr_broker_close(&a->rt.broker);
	dsr_close(&a->signal_fd);
	if (a->has_mask)
		(void)pthread_sigmask(SIG_SETMASK, &a->mask_before, NULL);
	dsr_last_words_stack_free(&a->sig_stack);
	free(a->self);
	dsr_log_flush(true);
}

int dsr_actor_run(const struct dsr_actor_ops *ops, int argc, char **argv, void *zmq,
                  bool use_inproc)
{
	static int (*const stages[])(struct actor *) = {
		read_args, take_signals, join_broker, lock_role, attach_control,
		take_row,  arm_faults,   make_loop,   open_role, start_serving};
	struct actor *a = calloc(1, sizeof(*a));
	int status = GO_ON;
	size_t i;

	if (!a)
		return DSR_EXIT_FAILURE;
	a->ops = ops;
	a->role = dsr_role_info(ops->role);
	dsr_assert(a->role && ops->link && ops->open);
	a->argc = argc;
	a->argv = argv;
	a->zmq = zmq;
	a->use_inproc = use_inproc;
	a->lock_fd = a->signal_fd = -1;
	a->args.stop_fd = -1;
	a->self = calloc(1, ops->self_size ? ops->self_size : 1);
	if (!a->self)
		status = DSR_EXIT_FAILURE;
	for (i = 0; i < sizeof(stages) / sizeof(stages[0]) && status == GO_ON; i++)
		status = stages[i](a);
	if (status == GO_ON)
		status = serve(a);
	tear_down(a, status);
	free(a);
	return status;
}
