/* SPDX-License-Identifier: Apache-2.0 */
#include "workers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "digest.h"
#include "log.h"
#include "state.h"
#include "util.h"

#define WORKERS_WHY_MAX 256

static void workers_attach_reply(struct dsr_mover *m, struct dsr_attachment *a, int err,
                                 const char *why, uint64_t canary)
{
	struct dsr_msg_attach_reply reply = {.err = err, .canary = canary};

	if (err < 0) {
		reply.reason = (struct dsr_str){.p = why, .n = (uint32_t)strlen(why)};
		dsr_log(DSR_LOG_WARN, "worker of engine `%s` rank %" PRIu32 " is not attached: %s",
		        a->spec.engine, a->spec.rank, why);
	}
	if (a->is_asked && a->peer != NULL)
		(void)dsr_peer_send(m->rt->link, a->peer, DSR_MSG_ATTACH_REPLY, a->req, &reply);
	a->is_asked = false;
}

/* W: this actor. R: the supervisor, which kills an actor that keeps a dead peer's handles. */
static void workers_count_handles(struct dsr_mover *m)
{
	uint64_t handles = 0;

	for (uint32_t i = 0; i < m->used; i++)
		handles += m->slots[i].is_mapped && m->slots[i].peer == NULL;
	atomic_store_explicit(&m->rt->row->peer_handles, handles, memory_order_relaxed);
}

bool dsr_workers_have_maps(const struct dsr_mover *m)
{
	for (uint32_t i = 0; i < m->used; i++)
		if (m->slots[i].is_mapped)
			return true;
	return false;
}

struct dsr_attachment *dsr_workers_find(struct dsr_mover *m, const struct dsr_peer *peer)
{
	for (uint32_t i = 0; i < m->used; i++) {
		struct dsr_attachment *a = &m->slots[i];

		if (a->peer == peer && a->state != DSR_ATTACHMENT_FREE &&
		    a->state != DSR_ATTACHMENT_CLOSING)
			return a;
	}
	return NULL;
}

/* ---- the end of an attachment ---- */

static void workers_map(struct dsr_mover *m, struct dsr_attachment *a);

/* Its replacement, if one waits, may map the same memory only now: a device maps a handle once. */
static void workers_release(struct dsr_mover *m, struct dsr_attachment *a)
{
	uint64_t incarnation = a->incarnation;

	if (a->live > 0 || a->is_reading)
		return;
	dsr_attachment_unmap(a, m->device);
	if (a->is_asked && a->peer != NULL)
		(void)dsr_peer_send(m->rt->link, a->peer, DSR_MSG_DETACH_REPLY, a->req,
		                    &(struct dsr_msg_detach_reply){.err = 0});
	*a = (struct dsr_attachment){.state = DSR_ATTACHMENT_FREE};
	workers_count_handles(m);
	for (uint32_t i = 0; i < m->used; i++)
		if (m->slots[i].state == DSR_ATTACHMENT_WAITING &&
		    m->slots[i].incarnation == incarnation)
			workers_map(m, &m->slots[i]);
}

struct workers_closing {
	struct dsr_mover *mover;
	enum dsr_reason reason;
};

static void workers_close_job(void *arg, struct dsr_job *job)
{
	struct workers_closing *closing = arg;

	job->tail_reason = closing->reason;
	if (job->is_queued)
		dsr_copier_drop(closing->mover->copier, job, -ECANCELED);
	else if (job->is_blocked)
		dsr_mover_report(closing->mover, job);
}

/* Nothing more is submitted; memory is closed when the copies have ended. Answers a pending ATTACH.
 */
static void workers_close(struct dsr_mover *m, struct dsr_attachment *a, enum dsr_reason reason)
{
	struct workers_closing closing = {.mover = m, .reason = reason};

	if (a->is_asked)
		workers_attach_reply(m, a, -ECANCELED, "replaced or detached", 0);
	a->state = DSR_ATTACHMENT_CLOSING;
	dsr_mover_each_of(a, workers_close_job, &closing);
}

void dsr_workers_dead(struct dsr_mover *m, const struct dsr_peer *peer)
{
	uint64_t incarnation = peer->incarnation;

	for (uint32_t i = 0; i < m->used; i++) {
		struct dsr_attachment *a = &m->slots[i];

		if (a->state == DSR_ATTACHMENT_FREE || a->peer != peer)
			continue;
		dsr_log(DSR_LOG_INFO,
		        "worker of engine `%s` rank %" PRIu32 " is gone, %" PRIu32 " jobs of it",
		        a->spec.engine, a->spec.rank, a->live);
		a->peer = NULL;
		a->is_asked = false;
		workers_close(m, a, DSR_REASON_ACTOR_GONE);
	}
	for (uint32_t i = 0; i < m->used; i++)
		if (m->slots[i].state == DSR_ATTACHMENT_CLOSING &&
		    m->slots[i].incarnation == incarnation)
			workers_release(m, &m->slots[i]);
	workers_count_handles(m);
}

void dsr_workers_on_detach(struct dsr_mover *m, struct dsr_peer *peer, const struct dsr_env *env)
{
	struct dsr_attachment *a = dsr_workers_find(m, peer);

	if (a != NULL) {
		workers_close(m, a, DSR_REASON_CANCELLED);
		workers_release(m, a);
	}
	/* Also one that was replaced: its copies may run still. */
	for (uint32_t i = 0; i < m->used; i++) {
		a = &m->slots[i];
		if (a->is_mapped && a->peer == peer && !a->is_asked) {
			a->req = env->req;
			a->is_asked = true;
			return;
		}
	}
	(void)dsr_peer_reply_err(m->rt->link, peer, env, 0);
}

/* ---- the begin of an attachment ---- */

static void workers_refuse(struct dsr_mover *m, struct dsr_attachment *a, int err, const char *why)
{
	workers_attach_reply(m, a, err, why, 0);
	a->state = DSR_ATTACHMENT_CLOSING;
	workers_release(m, a);
}

/* Maps staging and has its pattern read, as every later byte: by the device. */
static void workers_map(struct dsr_mover *m, struct dsr_attachment *a)
{
	char why[WORKERS_WHY_MAX] = "";
	int r;

	r = dsr_l1_attach(&m->l1, m->rt->broker, a->spec.pool_epoch, why, sizeof(why));
	if (r == 0)
		r = dsr_attachment_map(a, m->device, m->rt->broker, why, sizeof(why));
	if (r < 0) {
		workers_refuse(m, a, r == -EBUSY ? -EAGAIN : r, why);
		return;
	}
	a->state = DSR_ATTACHMENT_CHECKING;
	r = dsr_copier_read(m->copier, a->pattern, dsr_attachment_buffer(a, 0),
	                    a->spec.canary_bytes);
	if (r < 0) {
		workers_refuse(m, a, r, "the device takes no copy");
		return;
	}
	a->is_reading = true;
	a->reading_ns = dsr_now_ns();
	a->is_marked = dsr_copier_mark(m->copier, &a->event) == 0;
	if (!a->is_marked)
		dsr_copier_again(m->copier);
}

static void workers_check_pattern(struct dsr_mover *m, struct dsr_attachment *a)
{
	char why[WORKERS_WHY_MAX];
	uint64_t canary;
	int err;

	if (!a->is_marked)
		a->is_marked = dsr_copier_mark(m->copier, &a->event) == 0;
	if (!a->is_marked || !dsr_event_done(a->event)) {
		if (!a->is_marked)
			dsr_copier_again(m->copier);
		return;
	}
	a->is_reading = false;
	if (a->state != DSR_ATTACHMENT_CHECKING)
		return;
	err = dsr_event_error(a->event);
	canary = dsr_digest_of(a->pattern, a->spec.canary_bytes, 0);
	if (err == 0 && canary == a->spec.canary) {
		a->state = DSR_ATTACHMENT_ACTIVE;
		dsr_log(DSR_LOG_INFO,
		        "worker of engine `%s` rank %" PRIu32 " is attached: lane %" PRIu32
		        ", %" PRIu32 " buffers of %" PRIu64 " bytes",
		        a->spec.engine, a->spec.rank, a->spec.lane, a->spec.buffers,
		        a->spec.buffer_bytes);
		workers_attach_reply(m, a, 0, "", canary);
		return;
	}
	(void)snprintf(why, sizeof(why),
	               "the pattern's digest is %016" PRIx64 ", expected %016" PRIx64, canary,
	               a->spec.canary);
	workers_attach_reply(m, a, err < 0 ? -EIO : -EBADMSG,
	                     err < 0 ? "the pattern cannot be read" : why, canary);
	a->state = DSR_ATTACHMENT_CLOSING;
}

static struct dsr_attachment *workers_take_slot(struct dsr_mover *m)
{
	uint32_t attached = 0, slot = DSR_MOVER_SLOTS;

	for (uint32_t i = 0; i < DSR_MOVER_SLOTS; i++) {
		if (m->slots[i].state == DSR_ATTACHMENT_FREE && slot == DSR_MOVER_SLOTS)
			slot = i;
		attached += m->slots[i].state != DSR_ATTACHMENT_FREE &&
		            m->slots[i].state != DSR_ATTACHMENT_CLOSING;
	}
	if (attached >= DSR_MOVER_WORKERS || slot == DSR_MOVER_SLOTS)
		return NULL;
	if (slot >= m->used)
		m->used = slot + 1;
	return &m->slots[slot];
}

/* The pool that the spec names, and whether the spec fits it. Workers of an older pool are closed:
 * the scheduler serves it no more. */
static int workers_check_pool(struct dsr_mover *m, const struct dsr_attachment_spec *spec,
                              char *ret_why, size_t why_bytes)
{
	int r;

	if (m->l1.is_attached && !dsr_workers_have_maps(m) && m->l1.pool.epoch != spec->pool_epoch)
		dsr_l1_detach(&m->l1);
	r = dsr_l1_attach(&m->l1, m->rt->broker, spec->pool_epoch, ret_why, why_bytes);
	for (uint32_t i = 0; r == -EBUSY && i < m->used; i++) {
		struct dsr_attachment *a = &m->slots[i];

		if (a->is_mapped && a->state != DSR_ATTACHMENT_CLOSING) {
			workers_close(m, a, DSR_REASON_CANCELLED);
			workers_release(m, a);
		}
	}
	if (r < 0)
		return r == -EBUSY ? -EAGAIN : r;
	r = dsr_attachment_fits(spec, &m->l1.geometry, ret_why, why_bytes);
	if (r < 0)
		return r;
	r = dsr_l1_use_lane(&m->l1, spec->lane);
	if (r < 0)
		(void)snprintf(ret_why, why_bytes, "lane %" PRIu32 " for the device: %s",
		               spec->lane, strerrordesc_np(-r));
	return r;
}

static bool workers_is_mapped(const struct dsr_mover *m, uint64_t incarnation)
{
	for (uint32_t i = 0; i < m->used; i++)
		if (m->slots[i].is_mapped && m->slots[i].incarnation == incarnation)
			return true;
	return false;
}

void dsr_workers_on_attach(struct dsr_mover *m, struct dsr_peer *peer, const struct dsr_env *env,
                           const struct dsr_msg_attach *msg)
{
	struct dsr_attachment fresh = {.state = DSR_ATTACHMENT_WAITING,
	                               .peer = peer,
	                               .incarnation = peer->incarnation,
	                               .req = env->req,
	                               .is_asked = true};
	struct dsr_attachment *a;
	char why[WORKERS_WHY_MAX] = "";
	int r;

	r = dsr_attachment_parse(msg, &fresh.spec, why, sizeof(why));
	if (r == 0 && m->is_draining) {
		r = -ECANCELED;
		(void)snprintf(why, sizeof(why), "this actor is stopping");
	}
	if (r == 0)
		r = workers_check_pool(m, &fresh.spec, why, sizeof(why));
	if (r < 0) {
		workers_attach_reply(m, &fresh, r, why, 0);
		return;
	}
	a = dsr_workers_find(m, peer);
	if (a != NULL) {
		workers_close(m, a, DSR_REASON_CANCELLED);
		workers_release(m, a);
	}
	a = workers_take_slot(m);
	if (a == NULL) {
		(void)snprintf(why, sizeof(why), "%d workers are attached", DSR_MOVER_WORKERS);
		workers_attach_reply(m, &fresh, -EAGAIN, why, 0);
		return;
	}
	*a = fresh;
	if (!workers_is_mapped(m, a->incarnation))
		workers_map(m, a);
}

void dsr_workers_turn(struct dsr_mover *m)
{
	for (uint32_t i = 0; i < m->used; i++) {
		struct dsr_attachment *a = &m->slots[i];

		if (a->is_reading)
			workers_check_pattern(m, a);
		if (a->state == DSR_ATTACHMENT_CLOSING)
			workers_release(m, a);
	}
}

void dsr_workers_close(struct dsr_mover *m)
{
	for (uint32_t i = 0; i < m->used; i++)
		dsr_attachment_unmap(&m->slots[i], m->device);
	atomic_store_explicit(&m->rt->row->peer_handles, 0, memory_order_relaxed);
}
