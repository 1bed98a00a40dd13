/* SPDX-License-Identifier: Apache-2.0 */
#include "mover.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "state.h"
#include "util.h"
#include "workers.h"

#define MOVER_STUCK_NS UINT64_C(2000000000)
#define MOVER_TIDY_NS UINT64_C(1000000000)

static void mover_segment_done(void *self, struct dsr_job *job, uint32_t first, uint32_t count);
static void mover_job_done(void *self, struct dsr_job *job);
static void mover_turned(void *self);
static void mover_tidy(void *self);

int dsr_mover_new(struct dsr_rt *rt, const struct dsr_mover_ops *ops, void *self,
                  struct dsr_mover **ret_mover)
{
	struct dsr_mover *m = calloc(1, sizeof(*m));
	struct dsr_copier_options options;
	int r;

	if (m == NULL)
		return -ENOMEM;
	m->rt = rt;
	m->ops = ops;
	m->self = self;
	m->copier_ops = (struct dsr_copier_ops){
		.to_staging = ops->to_staging,
		.entry_state = ops->entry_state,
		.fault_before = ops->fault_before,
		.fault_after = ops->fault_after,
		.segment_done = mover_segment_done,
		.job_done = mover_job_done,
		.turned = mover_turned,
	};
	r = dsr_device_open(rt->device, &m->device);
	if (r < 0) {
		dsr_log(DSR_LOG_ERROR, "device `%s`: %s", rt->device, strerrordesc_np(-r));
		goto err;
	}
	m->l1.device = m->device;
	m->l1.control = &rt->control;
	options = (struct dsr_copier_options){
		.loop = rt->loop,
		.device = m->device,
		.l1 = &m->l1,
		.faults = rt->faults,
		.counters = rt->counters,
		.job_limit = DSR_MOVER_JOBS,
		.ops = &m->copier_ops,
		.self = m,
	};
	r = dsr_copier_new(&options, &m->copier);
	if (r < 0)
		goto err_device;
	r = dsr_timer_new(rt->loop, mover_tidy, m, &m->tidy);
	if (r < 0)
		goto err_copier;
	dsr_timer_every(m->tidy, MOVER_TIDY_NS);
	*ret_mover = m;
	return 0;

err_copier:
	dsr_copier_free(&m->copier);
err_device:
	dsr_device_close(&m->device);
err:
	free(m);
	return r;
}

void dsr_mover_free(struct dsr_mover **mover)
{
	struct dsr_mover *m = *mover;

	if (m == NULL)
		return;
	dsr_timer_free(&m->tidy);
	/* First: it waits for the copies that use all that goes below. */
	dsr_copier_free(&m->copier);
	dsr_workers_close(m);
	dsr_l1_detach(&m->l1);
	dsr_device_close(&m->device);
	free(m);
	*mover = NULL;
}

/* A pool that is served no more costs its memory as long as it is mapped. */
static void mover_tidy(void *self)
{
	struct dsr_mover *m = self;

	if (m->l1.is_attached && !dsr_workers_have_maps(m) &&
	    atomic_load_explicit(&m->rt->control.scheduler->pool_epoch, memory_order_acquire) !=
	            m->l1.pool.epoch)
		dsr_l1_detach(&m->l1);
}

/* ---- jobs ---- */

static void mover_free_job(struct dsr_mover *m, struct dsr_job *job)
{
	job->is_live = false;
	job->is_blocked = false;
	job->attachment->live--;
	m->live--;
}

void dsr_mover_report(struct dsr_mover *m, struct dsr_job *job)
{
	struct dsr_peer *peer = job->attachment->peer;

	job->is_blocked = false;
	/* The buffer is its worker's again by this reply alone: it is said until it goes through,
	 * over a full queue and over a connection that is made anew. The worker's death ends it. */
	if (peer != NULL && m->ops->report(m->self, peer, job) < 0) {
		job->is_blocked = true;
		dsr_copier_again(m->copier);
		return;
	}
	if (job->is_ended)
		mover_free_job(m, job);
}

static void mover_segment_done(void *self, struct dsr_job *job, uint32_t first, uint32_t count)
{
	struct dsr_mover *m = self;

	if (m->ops->settle != NULL)
		m->ops->settle(m->self, job, first, count);
	/* The job's last segment is told together with its end. */
	if (job->running > 0 || job->next_block < job->count)
		dsr_mover_report(m, job);
}

static void mover_job_done(void *self, struct dsr_job *job)
{
	struct dsr_mover *m = self;

	if (job->begun < job->count && m->ops->settle != NULL)
		m->ops->settle(m->self, job, job->begun, job->count - job->begun);
	dsr_mover_report(m, job);
}

static int mover_fill(struct dsr_mover *m, struct dsr_attachment *a, struct dsr_job *job,
                      struct dsr_refs refs)
{
	uint64_t most = a->spec.buffer_bytes / m->l1.geometry.slot_bytes;
	int r;

	if (refs.n == 0 || refs.n > most)
		return -EINVAL;
	for (uint32_t i = 0; i < refs.n; i++)
		if (!dsr_l1_in_range(&m->l1, &refs.v[i]))
			return -EINVAL;
	r = dsr_job_reserve(job, refs.n);
	if (r < 0)
		return r;
	memcpy(job->refs, refs.v, refs.n * sizeof(*refs.v));
	return 0;
}

int dsr_mover_accept(struct dsr_mover *m, struct dsr_peer *peer, const struct dsr_env *env,
                     uint32_t buffer, uint64_t lend, struct dsr_refs refs, struct dsr_job **ret_job)
{
	struct dsr_attachment *a = dsr_workers_find(m, peer);
	struct dsr_job *job;
	int r;

	if (m->is_draining)
		return -ECANCELED;
	if (a == NULL || a->state != DSR_ATTACHMENT_ACTIVE)
		return -ENOENT;
	r = dsr_attachment_lend(a, buffer, lend, &job);
	if (r == 0)
		r = mover_fill(m, a, job, refs);
	if (r < 0)
		return r;
	*job = (struct dsr_job){
		.attachment = a,
		.line = &a->line,
		.is_live = true,
		.buffer = buffer,
		.lend = lend,
		.req = env->req,
		.staging = dsr_attachment_buffer(a, buffer),
		.lane_base = dsr_l1_lane(&m->l1, a->spec.lane),
		.lane = a->spec.lane,
		.refs = job->refs,
		.errs = job->errs,
		.digests = job->digests,
		.capacity = job->capacity,
		.count = refs.n,
	};
	a->live++;
	m->live++;
	*ret_job = job;
	return 0;
}

void dsr_mover_refuse(struct dsr_mover *m, struct dsr_job *job)
{
	mover_free_job(m, job);
}

int dsr_mover_submit(struct dsr_mover *m, struct dsr_job *job)
{
	int r = dsr_copier_submit(m->copier, job);

	if (r < 0)
		mover_free_job(m, job);
	return r;
}

void dsr_mover_drop(struct dsr_mover *m, struct dsr_job *job, int err)
{
	dsr_copier_drop(m->copier, job, err);
}

void dsr_mover_each_of(struct dsr_attachment *a, void (*fn)(void *arg, struct dsr_job *job),
                       void *arg)
{
	for (uint32_t b = 0; a->is_mapped && a->live > 0 && b < a->spec.buffers; b++)
		if (a->buffers[b].job.is_live)
			fn(arg, &a->buffers[b].job);
}

void dsr_mover_each(struct dsr_mover *m, void (*fn)(void *arg, struct dsr_job *job), void *arg)
{
	for (uint32_t i = 0; i < m->used; i++)
		dsr_mover_each_of(&m->slots[i], fn, arg);
}

/* ---- turns ---- */

static void mover_retry(void *arg, struct dsr_job *job)
{
	if (job->is_blocked)
		dsr_mover_report(arg, job);
}

static void mover_turned(void *self)
{
	struct dsr_mover *m = self;

	if (m->live > 0)
		dsr_mover_each(m, mover_retry, m);
	dsr_workers_turn(m);
	if (m->ops->turned != NULL)
		m->ops->turned(m->self);
}

void dsr_mover_again(struct dsr_mover *m)
{
	dsr_copier_again(m->copier);
}

const struct dsr_l1 *dsr_mover_l1(const struct dsr_mover *m)
{
	return &m->l1;
}

const struct dsr_copier *dsr_mover_copier(const struct dsr_mover *m)
{
	return m->copier;
}

void dsr_mover_drain(struct dsr_mover *m)
{
	m->is_draining = true;
}

bool dsr_mover_is_idle(const struct dsr_mover *m)
{
	return m->live == 0;
}

bool dsr_mover_is_stuck(const struct dsr_mover *m)
{
	uint64_t now = dsr_now_ns();

	if (dsr_copier_is_stuck(m->copier, MOVER_STUCK_NS) || dsr_copier_error(m->copier) < 0)
		return true;
	for (uint32_t i = 0; i < m->used; i++)
		if (m->slots[i].is_reading && now - m->slots[i].reading_ns > MOVER_STUCK_NS)
			return true;
	return false;
}
