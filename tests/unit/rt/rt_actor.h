/* SPDX-License-Identifier: Apache-2.0 */
/* An actor for tests, which does what the number of keys in a LOOKUP says. */
#ifndef DSR_TEST_RT_ACTOR_H
#define DSR_TEST_RT_ACTOR_H

#include "actor.h"

enum {
	RT_ACTOR_TTL = 0,    /* answers hits = lease.ttl_ms */
	RT_ACTOR_ASSERT = 1, /* fails an assertion */
	RT_ACTOR_FAULT = 2,  /* writes where there is nothing */
	RT_ACTOR_WORK = 3,   /* begins work that only RT_ACTOR_DONE ends */
	RT_ACTOR_DONE = 4,
	RT_ACTOR_STUCK = 5, /* is_stuck from now on */
	RT_ACTOR_QUIT = 6,  /* stops its loop: it cannot go on */
	RT_ACTOR_POINT = 7  /* reaches load_before_copy; answers hits = the action */
};

/* Role metrics. It makes the control segment, unless RT_ACTOR_WAITS is in the environment; its open
 * fails with -EIO when RT_ACTOR_FAILS is, and its close tells on standard error. */
const struct dsr_actor_ops *rt_actor_ops(void);

#endif
