/* SPDX-License-Identifier: Apache-2.0 */
/* The service thread of one object of libdaser: finds the supervisor and its control segment, and
 * runs the loop and the link.
 *
 * The owner's state is guarded by `lock`: its callers take it, its callbacks take it. Nothing
 * blocks while holding it. The thread itself may wait up to 2 s for the supervisor, without the
 * lock. */
#ifndef DSR_NATIVE_CLIENT_H
#define DSR_NATIVE_CLIENT_H

#include <pthread.h>
#include <stdbool.h>

#include "broker.h"
#include "control.h"
#include "counters.h"
#include "daser/daser.h"
#include "link.h"
#include "loop.h"
#include "options.h"

#define DSR_REASON_TEXT 256

/* All run in the service thread, without the lock. */
struct dsr_client_ops {
	/* Loop and link exist: sources and timers of the owner's may be added. */
	int (*started)(void *self);
	/* The supervisor is there (again) with the control segment; the link is connecting to the
	 * scheduler. Negative: it is called again after a while. */
	int (*served)(void *self);
	/* After dsr_client_wake. */
	void (*woken)(void *self);
	const struct dsr_link_ops *link; /* with the same self */
};

struct dsr_client {
	char run_dir[DSR_OPTION_TEXT_MAX];
	enum dsr_role role;
	char device[DSR_DEVICE_NAME_MAX];
	uint64_t incarnation;
	const struct dsr_client_ops *ops; /* borrowed */
	void *self;                       /* first argument of the ops */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* CLOCK_MONOTONIC */
	pthread_t thread;
	bool is_started;
	int wake_fd; /* owned: eventfd */

	/* under the lock */
	bool is_stopping;
	bool has_control;
	struct dsr_control control;            /* owned */
	struct dsr_counters_page *page;        /* borrowed from control; NULL: none yet */
	uint64_t uncounted[DSR_COUNTER_COUNT]; /* until there is a page */
	enum daser_state state;
	char reason[DSR_REASON_TEXT];

	/* of the service thread alone */
	struct dsr_loop *loop;     /* owned */
	struct dsr_link *link;     /* owned */
	struct dsr_broker *broker; /* owned, NULL while there is none */
	struct dsr_timer *retry;   /* owned by the loop */
	uint64_t backoff_ns;
	bool is_connecting; /* the link looks for the scheduler */
};

/* run_dir NULL or "": the default. -EINVAL, -ENAMETOOLONG. ret_run_dir: DSR_OPTION_TEXT_MAX. */
int dsr_client_run_dir(const char *run_dir, char *ret_run_dir);
/* The same errors, and -ENOMEM, errno. */
int dsr_client_init(struct dsr_client *client, const char *run_dir, enum dsr_role role,
                    const char *device, const struct dsr_client_ops *ops, void *self);
/* Starts the thread; signals are blocked in it. */
int dsr_client_start(struct dsr_client *client);
/* Ends the thread, if there is one, and waits for it: at most as long as it may wait for the
 * supervisor. */
void dsr_client_stop(struct dsr_client *client);
void dsr_client_done(struct dsr_client *client);

void dsr_client_lock(struct dsr_client *client);
void dsr_client_unlock(struct dsr_client *client);
/* With the lock, which is given up meanwhile: until dsr_client_changed or `deadline_ns`; false: the
 * latter. */
bool dsr_client_wait(struct dsr_client *client, uint64_t deadline_ns);
void dsr_client_changed(struct dsr_client *client);
/* Any thread. */
void dsr_client_wake(struct dsr_client *client);

/* With the lock. A change is logged. */
void dsr_client_set_state(struct dsr_client *client, enum daser_state state, const char *format,
                          ...) __attribute__((format(printf, 3, 4)));
void dsr_client_count(struct dsr_client *client, enum dsr_counter counter, uint64_t n);
/* Service thread, with the lock: the counters page that the scheduler actor gave us. */
void dsr_client_set_page(struct dsr_client *client, uint32_t index);

#endif
