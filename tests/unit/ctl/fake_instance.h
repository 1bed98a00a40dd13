/* SPDX-License-Identifier: Apache-2.0 */
/* A running instance inside a test: a supervisor's broker and a scheduler that answers what
 * operators ask, each in a thread, around a control segment with fixed numbers. */
#ifndef DSR_TEST_FAKE_INSTANCE_H
#define DSR_TEST_FAKE_INSTANCE_H

#include <pthread.h>
#include <stdatomic.h>

#include "ctl_test.h"

#define FAKE_CLIENTS 16
#define FAKE_OBJECTS 8

struct fake_object {
	char name[64];
	int fd; /* owned */
};

struct fake_instance {
	struct test_instance test; /* its descriptor is object "control" */
	char run_dir[64];
	struct fake_object objects[FAKE_OBJECTS]; /* W: test before start, then broker thread */
	pthread_t broker, scheduler;
	bool has_scheduler;
	int listen_fd, clients[FAKE_CLIENTS]; /* owned */
	int stop_fd;                          /* owned: readable when the threads end */
	int ready_fd;                         /* owned: readable when the scheduler is bound */
	atomic_int drain_err, reset_err;      /* what the scheduler answers */
	atomic_int hello_errno;               /* what the broker answers to hello; 0 = good */
	atomic_uint ready_count;              /* actors that said ready */
};

/* cmocka fixtures; *state is a struct fake_instance. DASER_RUN_DIR names its directory. */
int fake_instance_set_up(void **state);
int fake_instance_tear_down(void **state);

/* All four actors of test_fill made progress now, under this process's identity. */
void fake_instance_refresh(struct fake_instance *f);
/* Starts the scheduler's thread and waits until it is bound. */
void fake_instance_start_scheduler(struct fake_instance *f);
/* Forgets an object of the broker; only before anyone uses it. */
void fake_instance_drop(struct fake_instance *f, const char *name);

#endif
