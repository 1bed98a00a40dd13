/* SPDX-License-Identifier: Apache-2.0 */
/* daser-scheduler: index, leases, reservations over lanes, one hit decision for all ranks.
 * Owns: the entry table, slot sequences and scheduler state (only writer), the decision what is
 *   cached, leased, reserved and evicted. Keeps no descriptor: memory belongs to the supervisor.
 * Borrows: nothing; a slot under a store actor's copy is freed when that actor has answered.
 * On death: the next one rebuilds everything from the entry table; leases and reservations end. */
#include "scheduler.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "mem.h"
#include "pages.h"
#include "util.h"

static int scheduler_make_control(struct dsr_rt *rt)
{
	return dsr_control_create(
		dsr_control_entries_for(rt->options.l1_size + rt->options.l2_size));
}

static void scheduler_answer_drains(struct scheduler *s, uint64_t now_ns)
{
	uint64_t oldest = dsr_reservations_oldest(s->reservations);
	struct dsr_drain drain;
	int err;

	while (dsr_drainlist_next(&s->drains, oldest, now_ns, &drain, &err)) {
		struct dsr_msg_drain_reply reply = {
			.err = err, .left = dsr_reservations_left(s->reservations, drain.upto)};

		(void)dsr_peer_send(s->rt->link, drain.peer, DSR_MSG_DRAIN_REPLY, drain.req,
		                    &reply);
	}
}

static void scheduler_publish(struct scheduler *s)
{
	struct dsr_scheduler_state *state = s->rt->control.scheduler;

	dsr_cache_publish(s->cache);
	atomic_store_explicit(&state->leases, dsr_leases_count(s->leases), memory_order_relaxed);
	atomic_store_explicit(&state->reservations, dsr_reservations_live(s->reservations),
	                      memory_order_relaxed);
	atomic_store_explicit(&state->engines, dsr_engines_count(&s->engines),
	                      memory_order_relaxed);
	atomic_store_explicit(&state->draining, s->drains.count, memory_order_relaxed);
}

void dsr_scheduler_settle(struct scheduler *s)
{
	dsr_reservations_flush(s->reservations);
	scheduler_answer_drains(s, dsr_now_ns());
	scheduler_publish(s);
}

/* ---- now and then ---- */

/* Terminated whatever the row holds. */
static void row_device(const struct dsr_actor_row *row, char ret_device[DSR_DEVICE_NAME_MAX])
{
	memcpy(ret_device, row->device, DSR_DEVICE_NAME_MAX);
	ret_device[DSR_DEVICE_NAME_MAX - 1] = '\0';
}

static void scheduler_kill(void *self, const struct dsr_actor_row *row, uint64_t incarnation,
                           const char *why)
{
	struct scheduler *s = self;
	char device[DSR_DEVICE_NAME_MAX];
	int r;

	row_device(row, device);
	r = dsr_broker_kill(s->rt->broker, row->role, device, incarnation, why);
	if (r < 0)
		dsr_log(DSR_LOG_WARN, "%s `%s`: %s, and the supervisor does not kill it: %s",
		        dsr_role_name(row->role), device, why, strerrordesc_np(-r));
	else
		dsr_log(DSR_LOG_WARN, "%s `%s`: %s, asked the supervisor to kill it",
		        dsr_role_name(row->role), device, why);
}

static bool scheduler_knows(void *self, uint64_t incarnation)
{
	const struct scheduler *s = self;
	uint32_t rank;

	return dsr_engines_of_process(&s->engines, incarnation) != DSR_ENGINE_NONE ||
	       dsr_engines_of_worker(&s->engines, incarnation, &rank) != DSR_ENGINE_NONE;
}

/* Processes that died while there was no scheduler told nobody: what they left is found when those
 * that live have had the time to come back. */
static void scheduler_end_grace(struct scheduler *s)
{
	s->is_settled = true;
	(void)dsr_pages_sweep(&s->rt->control, scheduler_knows, s);
	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++) {
		const struct dsr_actor_row *row = &s->rt->control.rows[i];
		char device[DSR_DEVICE_NAME_MAX];

		if (atomic_load_explicit(&row->state, memory_order_acquire) != DSR_ACTOR_READY ||
		    row->role != DSR_ROLE_LOAD || row->by_hand != 0)
			continue;
		row_device(row, device);
		if (dsr_engines_device(&s->engines, device) != DSR_DEVICE_NONE)
			continue;
		dsr_log(DSR_LOG_INFO, "device `%s` has no worker any more", device);
		(void)dsr_broker_retire(s->rt->broker, device);
	}
}

static void scheduler_look(struct scheduler *s, uint64_t now_ns)
{
	dsr_engines_locate(&s->engines);
	dsr_watch_look(&s->watch, s->rt->control.rows, s->rt->incarnation, now_ns, scheduler_kill,
	               s);
	if (s->quarantine.left > 0) {
		dsr_quarantine_sweep(&s->quarantine);
		dsr_scheduler_ask_writers(s);
		dsr_scheduler_end_quarantine(s);
	}
	if (s->is_rebuilt && !s->is_settled && now_ns - s->opened_ns > SCHEDULER_GRACE_NS)
		scheduler_end_grace(s);
}

static void scheduler_tick(void *self)
{
	struct scheduler *s = self;
	uint64_t now_ns = dsr_now_ns();

	(void)dsr_leases_expire(s->leases, now_ns);
	dsr_reservations_retry(s->reservations);
	if (++s->ticks % SCHEDULER_LOOK_TICKS == 0)
		scheduler_look(s, now_ns);
	dsr_scheduler_settle(s);
}

/* ---- life ---- */

static int scheduler_open_tables(struct scheduler *s)
{
	const struct dsr_control *control = &s->rt->control;
	struct dsr_cache_options cache = {
		.entries = control->entries,
		.entry_count = control->entry_count,
		.state = control->scheduler,
		.counters = s->rt->counters,
		.faults = s->rt->faults,
		.policy = dsr_evict_at(s->rt->options.eviction_l1),
		.seed = s->rt->incarnation,
	};
	struct dsr_reservations_options reservations = {
		.counters = s->rt->counters,
		.live_max = DSR_RESERVATIONS_MAX,
		.kept = DSR_RESERVATIONS_KEPT,
		.answer_bytes = DSR_RESERVATION_ANSWERS,
		.cancel = dsr_scheduler_send_cancel,
		.self = s,
	};
	int r;

	r = dsr_cache_new(&cache, &s->cache);
	if (r < 0)
		return r;
	r = dsr_leases_new(s->cache, DSR_LEASES_MAX, s->rt->counters, &s->leases);
	if (r < 0)
		return r;
	reservations.cache = s->cache;
	r = dsr_reservations_new(&reservations, &s->reservations);
	if (r < 0)
		return r;
	s->refs = dsr_mem_map(DSR_RESERVATION_KEYS * sizeof(*s->refs));
	return s->refs == NULL ? -ENOMEM : 0;
}

/* Rows of the entry table are written before the actor table is read: a store actor that is not in
 * it by now finds nothing to write. */
static int scheduler_rebuild(struct scheduler *s)
{
	uint64_t ttl_ns = s->rt->options.lease_ttl_ms * UINT64_C(1000000);
	struct dsr_cache_rebuilt *rebuilt = &s->rebuilt;
	uint32_t writers;
	int r;

	r = dsr_cache_rebuild(s->cache, s->opened_ns + ttl_ns, rebuilt);
	if (r < 0)
		return r;
	writers = dsr_quarantine_begin(&s->quarantine, s->rt->control.rows);
	dsr_log(DSR_LOG_INFO,
	        "rebuilt from the entry table: kept %" PRIu32 ", dropped unfinished %" PRIu32
	        ", torn %" PRIu32 ", invalid %" PRIu32 ", doubled %" PRIu32
	        "; quarantined slots %" PRIu32 " wait for %" PRIu32 " store actors",
	        rebuilt->kept, rebuilt->unfinished, rebuilt->torn, rebuilt->invalid,
	        rebuilt->doubled, rebuilt->quarantined, writers);
	dsr_scheduler_end_quarantine(s);
	return 0;
}

static int scheduler_open(void *self, struct dsr_rt *rt)
{
	struct scheduler *s = self;
	int r;

	s->rt = rt;
	s->opened_ns = dsr_now_ns();
	dsr_engines_init(&s->engines, rt->control.rows);
	dsr_scheduler_start_epochs(s);
	r = scheduler_open_tables(s);
	if (r < 0)
		return r;
	r = dsr_scheduler_find_pool(s);
	if (r < 0)
		return r;
	if (s->is_rebuilt) {
		r = scheduler_rebuild(s);
		if (r < 0)
			return r;
	}
	r = dsr_timer_new(rt->loop, scheduler_tick, s, &s->tick);
	if (r < 0)
		return r;
	dsr_timer_every(s->tick, SCHEDULER_TICK_NS);
	scheduler_publish(s);
	return 0;
}

static void scheduler_close(void *self)
{
	struct scheduler *s = self;

	dsr_timer_free(&s->tick);
	dsr_mem_unmap(s->refs, DSR_RESERVATION_KEYS * sizeof(*s->refs));
	s->refs = NULL;
	dsr_reservations_free(&s->reservations);
	dsr_leases_free(&s->leases);
	dsr_cache_free(&s->cache);
	dsr_pool_detach(&s->pool);
}

/* What is under way is finished; nothing new is promised. */
static void scheduler_drain(void *self)
{
	struct scheduler *s = self;

	s->is_draining = true;
}

static bool scheduler_is_drained(void *self)
{
	struct scheduler *s = self;

	return dsr_reservations_live(s->reservations) == 0;
}

static const struct dsr_link_ops scheduler_link = {
	.on[DSR_MSG_ENGINE] = DSR_HANDLER(engine, struct scheduler, dsr_scheduler_on_engine),
	.on[DSR_MSG_REGISTER] =
		DSR_HANDLER(register_worker, struct scheduler, dsr_scheduler_on_register),
	.on[DSR_MSG_WORKER_READY] =
		DSR_HANDLER(worker_ready, struct scheduler, dsr_scheduler_on_worker_ready),
	.on[DSR_MSG_LOOKUP] = DSR_HANDLER(lookup, struct scheduler, dsr_scheduler_on_lookup),
	.on[DSR_MSG_LEASE] = DSR_HANDLER(lease, struct scheduler, dsr_scheduler_on_lease),
	.on[DSR_MSG_RELEASE] = DSR_HANDLER(release, struct scheduler, dsr_scheduler_on_release),
	.on[DSR_MSG_RESERVE] = DSR_HANDLER(reserve, struct scheduler, dsr_scheduler_on_reserve),
	.on[DSR_MSG_ABANDON] = DSR_HANDLER(abandon, struct scheduler, dsr_scheduler_on_abandon),
	.on[DSR_MSG_MISMATCH] = DSR_HANDLER(mismatch, struct scheduler, dsr_scheduler_on_mismatch),
	.on[DSR_MSG_COMMIT] = DSR_HANDLER(commit, struct scheduler, dsr_scheduler_on_commit),
	.on[DSR_MSG_ABORT] = DSR_HANDLER(abort, struct scheduler, dsr_scheduler_on_abort),
	.on[DSR_MSG_CANCEL_REPLY] =
		DSR_HANDLER(cancel_reply, struct scheduler, dsr_scheduler_on_cancel_reply),
	.on[DSR_MSG_DRAIN] = DSR_HANDLER(drain, struct scheduler, dsr_scheduler_on_drain),
	.on[DSR_MSG_RESET] = DSR_HANDLER(reset, struct scheduler, dsr_scheduler_on_reset),
	.peer_ready = dsr_scheduler_peer_ready,
	.peer_dead = dsr_scheduler_peer_dead,
	.request_failed = dsr_scheduler_request_failed,
};

const struct dsr_actor_ops dsr_scheduler_ops = {
	.role = DSR_ROLE_SCHEDULER,
	.self_size = sizeof(struct scheduler),
	.make_control = scheduler_make_control,
	.open = scheduler_open,
	.close = scheduler_close,
	.is_drained = scheduler_is_drained,
	.drain = scheduler_drain,
	.link = &scheduler_link,
};
