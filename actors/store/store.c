/* SPDX-License-Identifier: Apache-2.0 */
/* daser-store: copies blocks from the store staging of its device's workers into their L1 slots and
 * commits them.
 *
 * Owns: the mappings of the pool and of each worker's store staging; the digests of the lanes that
 * its workers write. Borrows: a staging buffer, from STORE to STORE_REPLY; a slot, from the check
 * that its entry is reserved to COMMIT, ABORT or CANCEL_REPLY.
 * On death: the scheduler gives up what it did not commit, once it is confirmed dead. */
#include "store.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "drains.h"
#include "mover.h"
#include "settle.h"
#include "util.h"
#include "workers.h"

/* A segment: small enough that a CANCEL waits little for it, large enough to hide its turn. */
#define STORE_SEGMENT_BYTES (UINT64_C(8) << 20)
#define STORE_CANCELS 1024 /* CANCELs that wait for copies */

/* A CANCEL that is answered when the segments submitted before it have ended. */
struct store_cancel {
	uint64_t req;
	uint64_t until;
};

struct store {
	struct dsr_rt *rt;          /* borrowed */
	struct dsr_mover *mover;    /* owned */
	struct dsr_settle *settle;  /* owned */
	struct dsr_drains drains;   /* owned */
	struct dsr_peer *canceller; /* borrowed: who sent the waiting CANCELs, or NULL */
	struct store_cancel cancels[STORE_CANCELS]; /* ring */
	uint64_t cancel_head, cancel_tail;
};

static uint64_t store_scheduler(const struct store *s)
{
	const struct dsr_peer *peer = dsr_link_peer(s->rt->link, DSR_ROLE_SCHEDULER, "");

	return peer == NULL ? 0 : peer->incarnation;
}

/* ---- requests of workers ---- */

static void on_attach(struct store *s, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_attach *m)
{
	dsr_workers_on_attach(s->mover, peer, env, m);
}

static void on_detach(struct store *s, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_detach *m)
{
	(void)m;
	dsr_workers_on_detach(s->mover, peer, env);
}

static uint32_t store_segment_blocks(const struct store *s)
{
	uint64_t blocks = STORE_SEGMENT_BYTES / dsr_mover_l1(s->mover)->geometry.slot_bytes;

	return blocks == 0 ? 1 : (uint32_t)blocks;
}

static int store_submit(struct store *s, struct dsr_job *job, const struct dsr_msg_store *m)
{
	int r = -EINVAL;

	if (m->digests.n != job->count)
		goto err_refuse;
	r = dsr_settle_promise(s->settle, job->count);
	if (r < 0)
		goto err_refuse;
	memcpy(job->digests, m->digests.v, job->count * sizeof(*job->digests));
	job->segment_blocks = store_segment_blocks(s);
	job->reservation = m->reservation;
	job->scheduler = m->scheduler;
	job->engine = m->engine;
	r = dsr_mover_submit(s->mover, job);
	if (r < 0)
		dsr_settle_release(s->settle, 0, m->refs.n);
	return r;

err_refuse:
	dsr_mover_refuse(s->mover, job);
	return r;
}

static void on_store(struct store *s, struct dsr_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_store *m)
{
	struct dsr_msg_store_reply reply = {.lend = m->lend};
	struct dsr_job *job;
	int r;

	if (m->scheduler == 0 || m->scheduler != store_scheduler(s))
		r = -ESTALE;
	else
		r = dsr_mover_accept(s->mover, peer, env, m->buffer, m->lend, m->refs, &job);
	if (r == 0)
		r = store_submit(s, job, m);
	if (r == 0)
		return;
	if (r == -EAGAIN)
		dsr_counter_add(s->rt->counters, DSR_COUNTER_REFUSED_STORES, 1);
	reply.err = r;
	(void)dsr_peer_reply(s->rt->link, peer, env, &reply);
}

/* The worker never sent these blocks: there is no copy to wait for. It counts them itself. */
static int store_drop(struct store *s, const struct dsr_attachment *a, const struct dsr_msg_drop *m)
{
	struct dsr_settle_lane lane = {.engine = m->engine, .reservation = m->reservation};
	int r;

	if (a == NULL || m->scheduler == 0 || m->scheduler != store_scheduler(s))
		return -ESTALE;
	if (m->reason >= DSR_REASON_COUNT)
		return -EINVAL;
	r = dsr_settle_promise(s->settle, m->refs.n);
	if (r < 0)
		return r;
	lane.lane = a->spec.lane;
	for (uint32_t i = 0; i < m->refs.n; i++)
		dsr_settle_abort(s->settle, &lane, &m->refs.v[i], m->reason);
	dsr_settle_flush(s->settle);
	return 0;
}

static void on_drop(struct store *s, struct dsr_peer *peer, const struct dsr_env *env,
                    const struct dsr_msg_drop *m)
{
	int r = store_drop(s, dsr_workers_find(s->mover, peer), m);

	if (r == -EAGAIN)
		dsr_counter_add(s->rt->counters, DSR_COUNTER_REFUSED_STORES, 1);
	(void)dsr_peer_reply_err(s->rt->link, peer, env, r);
}

/* ---- results ---- */

/* Why a block is given up. */
static enum dsr_reason store_reason(const struct dsr_job *job, uint32_t i)
{
	if (i >= job->begun)
		return job->tail_reason;
	if (job->errs[i] == -ESTALE)
		return DSR_REASON_STALE;
	return job->errs[i] == -ECANCELED ? DSR_REASON_CANCELLED : DSR_REASON_UNREADABLE;
}

static void store_settle_block(struct store *s, struct dsr_job *job, uint32_t i,
                               const struct dsr_settle_lane *lane)
{
	_Atomic uint64_t *digest =
		dsr_pool_digest(&dsr_mover_l1(s->mover)->pool, job->lane, job->refs[i].slot);
	enum dsr_reason reason;

	if (digest == NULL)
		job->errs[i] = -EIO;
	if (job->errs[i] == 0) {
		/* Before COMMIT. Partner: the acquire load of whoever verifies the block; the
		 * scheduler, which hears of it by message, stands between. */
		atomic_store_explicit(digest, job->digests[i], memory_order_release);
		dsr_settle_commit(s->settle, lane, &job->refs[i]);
		return;
	}
	reason = store_reason(job, i);
	/* A worker that lives is told, and its engine counts the block. */
	if (job->attachment->peer == NULL)
		dsr_counter_add(s->rt->counters, DSR_COUNTER_DROP_EVICTED + (unsigned)reason, 1);
	dsr_settle_abort(s->settle, lane, &job->refs[i], reason);
}

static void store_settle(void *self, struct dsr_job *job, uint32_t first, uint32_t count)
{
	struct store *s = self;
	struct dsr_settle_lane lane = {.engine = job->engine,
	                               .reservation = job->reservation,
	                               .lane = job->lane,
	                               .drains = job->drains};
	bool is_void =
		job->scheduler != store_scheduler(s) || (first >= job->begun && job->is_cancelled);

	job->settled = first + count;
	if (is_void) {
		/* A dead scheduler's reservation, or one that a CANCEL took back: nobody is to be
		 * told. */
		for (uint32_t i = first; i < first + count; i++)
			if (job->errs[i] == 0)
				job->errs[i] = -ESTALE;
		dsr_settle_release(s->settle, job->drains, count);
		return;
	}
	for (uint32_t i = first; i < first + count; i++)
		store_settle_block(s, job, i, &lane);
	dsr_settle_flush(s->settle);
}

static int store_report(void *self, struct dsr_peer *peer, struct dsr_job *job)
{
	struct store *s = self;
	struct dsr_msg_store_reply reply = {
		.lend = job->lend, .errs = {.v = job->errs, .n = job->count}, .runs = job->runs};

	if (!job->is_ended)
		return 0;
	if (job->started_ns != 0) {
		reply.wait_ns = job->started_ns - job->queued_ns;
		reply.copy_ns = job->ended_ns - job->started_ns;
	}
	return dsr_peer_send(s->rt->link, peer, DSR_MSG_STORE_REPLY, job->req, &reply);
}

/* ---- the scheduler ---- */

/* -EPROTO: the scheduler's link does not know this connection (any more) and did nothing; ours says
 * HELLO again. */
static void on_settle_reply(struct store *s, int err)
{
	uint64_t cookie = dsr_link_cookie(s->rt->link);

	if (err == -EPROTO)
		dsr_settle_on_failed(s->settle, cookie);
	else
		dsr_settle_on_reply(s->settle, cookie);
}

static void on_commit_reply(struct store *s, struct dsr_peer *peer, const struct dsr_env *env,
                            const struct dsr_msg_commit_reply *m)
{
	(void)peer;
	(void)env;
	on_settle_reply(s, m->err);
}

static void on_abort_reply(struct store *s, struct dsr_peer *peer, const struct dsr_env *env,
                           const struct dsr_msg_abort_reply *m)
{
	(void)peer;
	(void)env;
	on_settle_reply(s, m->err);
}

static void store_cancel_job(void *arg, struct dsr_job *job)
{
	const struct dsr_msg_cancel *m = arg;

	if (job->is_queued && job->scheduler <= m->scheduler)
		job->is_cancelled = true;
}

static void store_drop_cancelled(void *arg, struct dsr_job *job)
{
	struct store *s = arg;

	if (job->is_queued && job->is_cancelled)
		dsr_mover_drop(s->mover, job, -ECANCELED);
}

static void store_answer_cancels(struct store *s)
{
	while (s->cancel_head < s->cancel_tail) {
		const struct store_cancel *cancel = &s->cancels[s->cancel_head % STORE_CANCELS];
		int r;

		if (dsr_copier_ended(dsr_mover_copier(s->mover)) < cancel->until)
			return;
		r = dsr_peer_send(s->rt->link, s->canceller, DSR_MSG_CANCEL_REPLY, cancel->req,
		                  &(struct dsr_msg_cancel_reply){.err = 0});
		if (r == -EAGAIN) {
			dsr_mover_again(s->mover);
			return;
		}
		s->cancel_head++;
	}
}

/* The scheduler made the entries ABORTING before it sent this, and each block's entry is looked at
 * right before its copy is submitted: so what is submitted from now on is none of these blocks, and
 * the answer waits for all that was submitted before. Waiting blocks fail at that look; those of
 * whole incarnations are dropped here, since a new scheduler may have no entry for them. */
static void on_cancel(struct store *s, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_cancel *m)
{
	struct dsr_msg_cancel args = *m;

	if (peer->role != DSR_ROLE_SCHEDULER) {
		(void)dsr_peer_reply_err(s->rt->link, peer, env, -EINVAL);
		return;
	}
	if (m->refs.n == 0) {
		dsr_mover_each(s->mover, store_cancel_job, &args);
		dsr_mover_each(s->mover, store_drop_cancelled, s);
	}
	if (s->cancel_head == s->cancel_tail)
		s->canceller = peer;
	if (peer != s->canceller || s->cancel_tail - s->cancel_head == STORE_CANCELS) {
		(void)dsr_peer_reply_err(s->rt->link, peer, env, -EAGAIN);
		return;
	}
	s->cancels[s->cancel_tail % STORE_CANCELS] = (struct store_cancel){
		.req = env->req, .until = dsr_copier_submitted(dsr_mover_copier(s->mover))};
	s->cancel_tail++;
	store_answer_cancels(s);
}

static void request_failed(void *self, struct dsr_peer *peer, uint32_t type, uint64_t cookie,
                           int err)
{
	struct store *s = self;

	(void)peer;
	(void)err;
	if (type == DSR_MSG_COMMIT || type == DSR_MSG_ABORT)
		dsr_settle_on_failed(s->settle, cookie);
}

static void peer_ready(void *self, struct dsr_peer *peer)
{
	struct store *s = self;

	if (peer->is_ours)
		dsr_settle_flush(s->settle);
}

static void store_scheduler_dead(struct store *s, const struct dsr_peer *peer)
{
	struct dsr_msg_cancel args = {.scheduler = peer->incarnation};

	dsr_mover_each(s->mover, store_cancel_job, &args);
	dsr_mover_each(s->mover, store_drop_cancelled, s);
	dsr_settle_forget(s->settle);
}

static void peer_dead(void *self, struct dsr_peer *peer)
{
	struct store *s = self;

	if (peer == s->canceller) {
		s->canceller = NULL;
		s->cancel_head = s->cancel_tail;
	}
	dsr_drains_peer_dead(&s->drains, peer);
	if (peer->is_ours)
		store_scheduler_dead(s, peer);
	else
		dsr_workers_dead(s->mover, peer);
}

/* ---- operators ---- */

struct store_draining {
	uint16_t bit;
	uint64_t left;
};

static void store_mark(void *arg, struct dsr_job *job)
{
	struct store_draining *draining = arg;

	job->drains |= draining->bit;
	draining->left += job->count - job->settled;
}

static void on_drain(struct store *s, struct dsr_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_drain *m)
{
	struct store_draining draining = {.bit = dsr_drains_bit(&s->drains)};

	if (draining.bit == 0) {
		(void)dsr_peer_reply_err(s->rt->link, peer, env, -EAGAIN);
		return;
	}
	dsr_mover_each(s->mover, store_mark, &draining);
	draining.left += dsr_settle_mark(s->settle, draining.bit);
	dsr_drains_add(&s->drains, draining.bit, peer, env->req,
	               dsr_now_ns() + UINT64_C(1000000) * m->timeout_ms, draining.left);
}

static void store_settled(void *self, uint16_t bits, uint32_t count)
{
	struct store *s = self;

	dsr_drains_settled(&s->drains, bits, count);
}

/* ---- life ---- */

static void store_turned(void *self)
{
	store_answer_cancels(self);
}

static const struct dsr_mover_ops store_mover_ops = {
	.to_staging = false,
	.entry_state = DSR_ENTRY_RESERVED,
	.fault_before = DSR_FAULT_STORE_BEFORE_COPY,
	.fault_after = DSR_FAULT_STORE_AFTER_COPY,
	.settle = store_settle,
	.report = store_report,
	.turned = store_turned,
};

static int store_open(void *self, struct dsr_rt *rt)
{
	struct store *s = self;
	struct dsr_settle_options options = {
		.loop = rt->loop,
		.link = rt->link,
		.faults = rt->faults,
		.settled = store_settled,
		.self = s,
	};
	int r;

	s->rt = rt;
	r = dsr_drains_init(&s->drains, rt->loop, rt->link);
	if (r == 0)
		r = dsr_settle_new(&options, &s->settle);
	if (r == 0)
		r = dsr_mover_new(rt, &store_mover_ops, s, &s->mover);
	return r < 0 ? r : dsr_link_connect(rt->link, DSR_ROLE_SCHEDULER, "");
}

static void store_close(void *self)
{
	struct store *s = self;

	dsr_mover_free(&s->mover);
	dsr_settle_free(&s->settle);
	dsr_drains_done(&s->drains);
}

static void store_drain(void *self)
{
	struct store *s = self;

	dsr_mover_drain(s->mover);
}

static bool store_is_drained(void *self)
{
	struct store *s = self;

	return dsr_mover_is_idle(s->mover) && dsr_settle_left(s->settle) == 0;
}

static bool store_is_stuck(void *self)
{
	struct store *s = self;

	return dsr_mover_is_stuck(s->mover);
}

static const struct dsr_link_ops store_link_ops = {
	.on[DSR_MSG_ATTACH] = DSR_HANDLER(attach, struct store, on_attach),
	.on[DSR_MSG_DETACH] = DSR_HANDLER(detach, struct store, on_detach),
	.on[DSR_MSG_STORE] = DSR_HANDLER(store, struct store, on_store),
	.on[DSR_MSG_DROP] = DSR_HANDLER(drop, struct store, on_drop),
	.on[DSR_MSG_COMMIT_REPLY] = DSR_HANDLER(commit_reply, struct store, on_commit_reply),
	.on[DSR_MSG_ABORT_REPLY] = DSR_HANDLER(abort_reply, struct store, on_abort_reply),
	.on[DSR_MSG_CANCEL] = DSR_HANDLER(cancel, struct store, on_cancel),
	.on[DSR_MSG_DRAIN] = DSR_HANDLER(drain, struct store, on_drain),
	.peer_ready = peer_ready,
	.peer_dead = peer_dead,
	.request_failed = request_failed,
};

const struct dsr_actor_ops dsr_store_ops = {
	.role = DSR_ROLE_STORE,
	.self_size = sizeof(struct store),
	.open = store_open,
	.close = store_close,
	.is_drained = store_is_drained,
	.drain = store_drain,
	.is_stuck = store_is_stuck,
	.link = &store_link_ops,
};
