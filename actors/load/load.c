/* SPDX-License-Identifier: Apache-2.0 */
/* daser-load: copies blocks from L1 into the load staging of its device's workers.
 *
 * Owns: the mappings of the pool and of each worker's load staging. Borrows: a staging buffer, from
 * LOAD to LOAD_REPLY. Writes neither L1 nor an index.
 * On death: loads under way fail with their own blocks; a new one is attached to anew. */
#include "load.h"

#include <errno.h>

#include "mover.h"
#include "workers.h"

struct load {
	struct dsr_rt *rt;       /* borrowed */
	struct dsr_mover *mover; /* owned */
};

/* ---- handlers ---- */

static void on_attach(struct load *l, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_attach *m)
{
	dsr_workers_on_attach(l->mover, peer, env, m);
}

static void on_detach(struct load *l, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_detach *m)
{
	(void)m;
	dsr_workers_on_detach(l->mover, peer, env);
}

static void on_load(struct load *l, struct dsr_peer *peer, const struct dsr_env *env,
                    const struct dsr_msg_load *m)
{
	struct dsr_msg_load_reply reply = {.lend = m->lend};
	struct dsr_job *job;
	int r;

	r = dsr_mover_accept(l->mover, peer, env, m->buffer, m->lend, m->refs, &job);
	if (r == 0) {
		job->segment_blocks = m->segment_blocks;
		if (m->segment_blocks > 0) {
			r = dsr_mover_submit(l->mover, job);
		} else {
			dsr_mover_refuse(l->mover, job);
			r = -EINVAL;
		}
	}
	if (r == 0)
		return;
	if (r == -EAGAIN)
		dsr_counter_add(l->rt->counters, DSR_COUNTER_REFUSED_LOADS, 1);
	reply.err = r;
	(void)dsr_peer_reply(l->rt->link, peer, env, &reply);
}

/* No copy of this actor writes into L1. */
static void on_cancel(struct load *l, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_cancel *m)
{
	(void)m;
	(void)dsr_peer_reply_err(l->rt->link, peer, env, 0);
}

static void peer_dead(void *self, struct dsr_peer *peer)
{
	struct load *l = self;

	if (!peer->is_ours)
		dsr_workers_dead(l->mover, peer);
}

/* ---- what a worker is told ---- */

static int load_report(void *self, struct dsr_peer *peer, struct dsr_job *job)
{
	struct load *l = self;
	struct dsr_msg_load_reply reply = {
		.lend = job->lend, .copies = job->copied, .runs = job->runs};
	int r;

	while (job->reported < job->done) {
		struct dsr_msg_segment segment = {
			.buffer = job->buffer, .lend = job->lend, .first = job->reported};
		uint32_t count = job->done - job->reported;

		if (count > job->segment_blocks)
			count = job->segment_blocks;
		segment.errs = (struct dsr_i32s){.v = &job->errs[job->reported], .n = count};
		r = dsr_peer_send(l->rt->link, peer, DSR_MSG_SEGMENT, 0, &segment);
		if (r < 0)
			return r;
		job->reported += count;
	}
	if (!job->is_ended)
		return 0;
	if (job->started_ns != 0) {
		reply.wait_ns = job->started_ns - job->queued_ns;
		reply.copy_ns = job->ended_ns - job->started_ns;
	}
	return dsr_peer_send(l->rt->link, peer, DSR_MSG_LOAD_REPLY, job->req, &reply);
}

static const struct dsr_mover_ops load_mover_ops = {
	.to_staging = true,
	.entry_state = DSR_ENTRY_VISIBLE,
	.fault_before = DSR_FAULT_LOAD_BEFORE_COPY,
	.fault_after = DSR_FAULT_LOAD_AFTER_COPY,
	.report = load_report,
};

/* ---- life ---- */

static int load_open(void *self, struct dsr_rt *rt)
{
	struct load *l = self;
	int r;

	l->rt = rt;
	r = dsr_mover_new(rt, &load_mover_ops, l, &l->mover);
	if (r < 0)
		return r;
	return dsr_link_connect(rt->link, DSR_ROLE_SCHEDULER, "");
}

static void load_close(void *self)
{
	struct load *l = self;

	dsr_mover_free(&l->mover);
}

static void load_drain(void *self)
{
	struct load *l = self;

	dsr_mover_drain(l->mover);
}

static bool load_is_drained(void *self)
{
	struct load *l = self;

	return dsr_mover_is_idle(l->mover);
}

static bool load_is_stuck(void *self)
{
	struct load *l = self;

	return dsr_mover_is_stuck(l->mover);
}

static const struct dsr_link_ops load_link_ops = {
	.on[DSR_MSG_ATTACH] = DSR_HANDLER(attach, struct load, on_attach),
	.on[DSR_MSG_DETACH] = DSR_HANDLER(detach, struct load, on_detach),
	.on[DSR_MSG_LOAD] = DSR_HANDLER(load, struct load, on_load),
	.on[DSR_MSG_CANCEL] = DSR_HANDLER(cancel, struct load, on_cancel),
	.peer_dead = peer_dead,
};

const struct dsr_actor_ops dsr_load_ops = {
	.role = DSR_ROLE_LOAD,
	.self_size = sizeof(struct load),
	.open = load_open,
	.close = load_close,
	.is_drained = load_is_drained,
	.drain = load_drain,
	.is_stuck = load_is_stuck,
	.link = &load_link_ops,
};
