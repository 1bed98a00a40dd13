/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop of one thread: descriptors, ZeroMQ sockets, timers, deferred work, stop. */
#ifndef DSR_RT_LOOP_H
#define DSR_RT_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct dsr_loop;
struct dsr_timer;

typedef void dsr_loop_fn(void *self);

int dsr_loop_new(struct dsr_loop **ret_loop);
void dsr_loop_free(struct dsr_loop **loop); /* frees timers left */

/* Calls fn(self) while fd is readable. -EEXIST, -ENOSPC (256 sources). */
int dsr_loop_add_fd(struct dsr_loop *loop, int fd, dsr_loop_fn *fn, void *self);
/* A ZeroMQ socket (void * as libzmq has it); fn must take all that is there. */
int dsr_loop_add_zmq(struct dsr_loop *loop, void *socket, dsr_loop_fn *fn, void *self);
/* May be called from any callback, also for the source that is calling. */
void dsr_loop_remove_fd(struct dsr_loop *loop, int fd);
void dsr_loop_remove_zmq(struct dsr_loop *loop, void *socket);

/* One timer, unarmed. */
int dsr_timer_new(struct dsr_loop *loop, dsr_loop_fn *fn, void *self, struct dsr_timer **ret_timer);
void dsr_timer_free(struct dsr_timer **timer);
/* Fires once at `at_ns` (CLOCK_MONOTONIC); UINT64_MAX disarms. Rearming replaces. */
void dsr_timer_set(struct dsr_timer *timer, uint64_t at_ns);
/* First at now + period, then every period. */
void dsr_timer_every(struct dsr_timer *timer, uint64_t period_ns);

/* One turn: waits at most timeout_ms (-1: until something happens), runs what is due. Returns the
 * number of callbacks run, or negative errno. */
int dsr_loop_step(struct dsr_loop *loop, int timeout_ms);
/* Turns until dsr_loop_stop. */
int dsr_loop_run(struct dsr_loop *loop);
void dsr_loop_stop(struct dsr_loop *loop); /* from a callback */
bool dsr_loop_stopped(const struct dsr_loop *loop);

#endif
