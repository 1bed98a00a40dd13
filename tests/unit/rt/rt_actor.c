/* SPDX-License-Identifier: Apache-2.0 */
#include "rt_actor.h"

#include <errno.h>
#include <stdlib.h>

struct rt_actor {
	struct dsr_rt *rt; /* borrowed */
	bool has_work, is_stuck;
};

static void on_lookup(struct rt_actor *self, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_lookup *m)
{
	struct dsr_msg_lookup_reply reply = {0};
	int *volatile nowhere = (int *)16;

	switch (m->keys.n) {
	case RT_ACTOR_TTL:
		reply.hits = (uint32_t)self->rt->options.lease_ttl_ms;
		break;
	case RT_ACTOR_ASSERT:
		dsr_assert(m->keys.n != RT_ACTOR_ASSERT);
		break;
	case RT_ACTOR_FAULT:
		*nowhere = 1;
		break;
	case RT_ACTOR_WORK:
		self->has_work = true;
		break;
	case RT_ACTOR_DONE:
		self->has_work = false;
		break;
	case RT_ACTOR_STUCK:
		self->is_stuck = true;
		break;
	case RT_ACTOR_QUIT:
		dsr_loop_stop(self->rt->loop);
		break;
	default:
		reply.hits = dsr_fault_at(self->rt->faults, DSR_FAULT_LOAD_BEFORE_COPY, &reply.err);
		break;
	}
	(void)dsr_peer_reply(self->rt->link, peer, env, &reply);
}

static int make_control(struct dsr_rt *rt)
{
	(void)rt;
	return dsr_control_create(4096);
}

static int open_actor(void *self, struct dsr_rt *rt)
{
	((struct rt_actor *)self)->rt = rt;
	return getenv("RT_ACTOR_FAILS") ? -EIO : 0;
}

static void close_actor(void *self)
{
	(void)self;
	dsr_log(DSR_LOG_INFO, "closed");
}

static bool is_drained(void *self)
{
	return !((struct rt_actor *)self)->has_work;
}

static void drain(void *self)
{
	(void)self;
	dsr_log(DSR_LOG_INFO, "draining");
}

static bool is_stuck(void *self)
{
	return ((struct rt_actor *)self)->is_stuck;
}

static const struct dsr_link_ops link_ops = {
	.on[DSR_MSG_LOOKUP] = DSR_HANDLER(lookup, struct rt_actor, on_lookup)};

static const struct dsr_actor_ops making = {.role = DSR_ROLE_METRICS,
                                            .self_size = sizeof(struct rt_actor),
                                            .make_control = make_control,
                                            .open = open_actor,
                                            .close = close_actor,
                                            .is_drained = is_drained,
                                            .drain = drain,
                                            .is_stuck = is_stuck,
                                            .link = &link_ops};

static const struct dsr_actor_ops waiting = {.role = DSR_ROLE_METRICS,
                                             .self_size = sizeof(struct rt_actor),
                                             .open = open_actor,
                                             .close = close_actor,
                                             .link = &link_ops};

const struct dsr_actor_ops *rt_actor_ops(void)
{
	return getenv("RT_ACTOR_WAITS") ? &waiting : &making;
}
