/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an actor: options -> broker -> role lock -> control segment -> open -> bind -> READY
 * -> serve -> STOP or supervisor gone -> drain -> close. An actor's main file gives its ops. */
#ifndef DSR_RT_ACTOR_H
#define DSR_RT_ACTOR_H

#include "broker.h"
#include "control.h"
#include "faults.h"
#include "link.h"
#include "log.h"
#include "loop.h"
#include "options.h"

/* What the runtime gives to an actor. All pointers are borrowed from it. */
struct dsr_rt {
	struct dsr_options options;
	struct dsr_broker *broker;
	struct dsr_control control;
	struct dsr_actor_row *row;
	struct dsr_counters_page *counters;
	struct dsr_loop *loop;
	struct dsr_link *link;
	struct dsr_faults *faults;
	uint64_t incarnation;
	char device[DSR_DEVICE_NAME_MAX]; /* "" when the role has none */
};

struct dsr_actor_ops {
	enum dsr_role role;
	size_t self_size; /* zeroed memory given to every op as self */
	/* Makes the control segment when the broker has none (the scheduler alone); NULL: wait for
	 * it. */
	int (*make_control)(struct dsr_rt *rt);
	int (*open)(void *self, struct dsr_rt *rt);
	/* Also after a failed open. */
	void (*close)(void *self);
	/* True when there is nothing left to finish; asked each turn while draining. NULL: always.
	 */
	bool (*is_drained)(void *self);
	/* Once at the start of draining; NULL: nothing to do. */
	void (*drain)(void *self);
	/* True while work is waiting that did not advance since the last call: the row's progress
	 * then stands still. NULL: never stuck. Asked by the heartbeat timer. */
	bool (*is_stuck)(void *self);
	const struct dsr_link_ops *link;
};

/* Runs the actor in this thread until it ends; returns an exit status of errors.h. zmq: shared
 * context, or NULL. argv (argc strings and a NULL): the flags of options.def, --device NAME,
 * --fault SPEC, --stop-fd FD (an inherited or eventfd descriptor, borrowed: readable means stop),
 * --help,
 * --version. use_inproc: daser-all, where several run in threads: signals are then the caller's,
 * and
 * --stop-fd is how it ends one. */
int dsr_actor_run(const struct dsr_actor_ops *ops, int argc, char **argv, void *zmq,
                  bool use_inproc);

#define DSR_ACTOR_MAIN(ops)                                                                        \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		return dsr_actor_run(&(ops), argc, argv, NULL, false);                             \
	}

#endif
