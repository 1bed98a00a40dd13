/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler object: the lifecycle, its lock and its service thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "daser/scheduler.h"
#include "lifecycle.h"
#include "log.h"
#include "util.h"

#define ENGINE_NAME_MAX 127 /* what actors have room for */
#define REQUEST_DEADLINE_MS 2000
#define ANNOUNCE_RETRY_NS UINT64_C(500000000)
#define ANNOUNCE_SOON_NS UINT64_C(20000000)
#define FLUSH_RETRY_NS UINT64_C(1000000)
#define TICK_NS UINT64_C(250000000)
#define CLOSE_NS UINT64_C(1000000000)
#define STALLED_NS UINT64_C(2000000000)

struct daser_scheduler {
	struct dsr_client client;
	struct dsr_lifecycle lc;          /* under the client's lock */
	uint32_t unanswered;              /* requests under way; under the lock */
	char reason[DSR_REASON_TEXT];     /* what the caller was given */
	struct dsr_timer *flush_timer;    /* owned by the loop */
	struct dsr_timer *tick_timer;     /* owned by the loop */
	bool is_stalled;                  /* the scheduler made no progress at the last tick */
	struct dsr_timer *announce_timer; /* owned by the loop */
};

/* ---- the lifecycle's port; all with the lock ---- */

static int port_send(void *self, uint32_t type, const void *msg, uint64_t cookie)
{
	struct daser_scheduler *s = self;
	struct dsr_peer *peer = dsr_link_peer(s->client.link, DSR_ROLE_SCHEDULER, "");
	int r;

	if (peer == NULL)
		return -ENOTCONN;
	r = dsr_peer_request(s->client.link, peer, type, msg, REQUEST_DEADLINE_MS, cookie);
	if (r == 0)
		s->unanswered++;
	return r;
}

static void port_wake(void *self)
{
	struct daser_scheduler *s = self;

	dsr_client_wake(&s->client);
}

static bool port_wait(void *self, uint64_t deadline_ns)
{
	struct daser_scheduler *s = self;

	return dsr_client_wait(&s->client, deadline_ns);
}

static void port_count(void *self, enum dsr_counter counter, uint64_t n)
{
	struct daser_scheduler *s = self;

	dsr_client_count(&s->client, counter, n);
}

static uint64_t port_now_ns(void *self)
{
	(void)self;
	return dsr_now_ns();
}

static const struct dsr_lifecycle_port port = {
	.send = port_send,
	.wake = port_wake,
	.wait = port_wait,
	.count = port_count,
	.now_ns = port_now_ns,
};

/* ---- the service thread ---- */

/* Ends a callback: what it brought is sent, and whoever waits looks again. */
static void turn_end(struct daser_scheduler *s)
{
	if (dsr_lifecycle_flush(&s->lc))
		dsr_timer_set(s->flush_timer, dsr_now_ns() + FLUSH_RETRY_NS);
	dsr_client_changed(&s->client);
	dsr_client_unlock(&s->client);
}

/* A scheduler that does not know this engine any more is told of it again. */
static void answered(struct daser_scheduler *s, int err)
{
	if (s->unanswered > 0)
		s->unanswered--;
	if (err == -ENOENT)
		dsr_timer_set(s->announce_timer, dsr_now_ns() + ANNOUNCE_SOON_NS);
}

static void on_lookup(struct daser_scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_lookup_reply *reply)
{
	(void)peer, (void)env;
	dsr_client_lock(&s->client);
	answered(s, reply->err);
	dsr_lifecycle_on_lookup(&s->lc, dsr_link_cookie(s->client.link), reply);
	turn_end(s);
}

static void on_lease(struct daser_scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_lease_reply *reply)
{
	(void)peer, (void)env;
	dsr_client_lock(&s->client);
	answered(s, reply->err);
	dsr_lifecycle_on_lease(&s->lc, dsr_link_cookie(s->client.link), reply);
	turn_end(s);
}

static void on_release(struct daser_scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                       const struct dsr_msg_release_reply *reply)
{
	(void)peer, (void)env, (void)reply;
	dsr_client_lock(&s->client);
	answered(s, 0);
	turn_end(s);
}

static void on_reserve(struct daser_scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                       const struct dsr_msg_reserve_reply *reply)
{
	(void)peer, (void)env;
	dsr_client_lock(&s->client);
	answered(s, reply->err);
	dsr_lifecycle_on_reserve(&s->lc, dsr_link_cookie(s->client.link), reply);
	turn_end(s);
}

static void on_abandon(struct daser_scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                       const struct dsr_msg_abandon_reply *reply)
{
	uint64_t cookie = dsr_link_cookie(s->client.link);

	(void)peer, (void)env;
	dsr_client_lock(&s->client);
	answered(s, 0);
	if (reply->err ==
	    -EPROTO) /* not carried out: our connection is not known there (any more) */
		dsr_lifecycle_on_failed(&s->lc, DSR_MSG_ABANDON, cookie, reply->err);
	else
		dsr_lifecycle_on_abandon(&s->lc, cookie);
	turn_end(s);
}

static void announce(struct daser_scheduler *s, struct dsr_peer *peer)
{
	const struct dsr_msg_engine msg = {
		.engine = {.p = s->lc.engine, .n = (uint32_t)strlen(s->lc.engine)},
		.fingerprint = {.p = s->lc.fingerprint, .n = sizeof(s->lc.fingerprint)},
		.world = s->lc.options.world,
	};

	if (dsr_peer_request(s->client.link, peer, DSR_MSG_ENGINE, &msg, REQUEST_DEADLINE_MS, 0) <
	    0)
		dsr_timer_set(s->announce_timer, dsr_now_ns() + ANNOUNCE_RETRY_NS);
}

static void on_announce_timer(void *self)
{
	struct daser_scheduler *s = self;
	struct dsr_peer *peer = dsr_link_peer(s->client.link, DSR_ROLE_SCHEDULER, "");

	if (peer != NULL)
		announce(s, peer);
}

static void on_engine(struct daser_scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_engine_reply *reply)
{
	(void)env;
	dsr_client_lock(&s->client);
	if (reply->err == 0) {
		dsr_client_set_page(&s->client, reply->page);
		dsr_lifecycle_attached(&s->lc, peer->incarnation);
		dsr_client_set_state(&s->client, DASER_ATTACHED, "%s", "");
	} else {
		dsr_client_set_state(&s->client,
		                     reply->err == -EAGAIN ? DASER_DETACHED : DASER_REFUSED,
		                     "the scheduler says: %.*s", (int)reply->reason.n,
		                     reply->reason.n > 0 ? reply->reason.p : "");
		if (reply->err == -EAGAIN || reply->err == -EPROTO)
			dsr_timer_set(s->announce_timer, dsr_now_ns() + ANNOUNCE_RETRY_NS);
	}
	turn_end(s);
}

static void on_peer_ready(void *self, struct dsr_peer *peer)
{
	struct daser_scheduler *s = self;

	if (peer->role == DSR_ROLE_SCHEDULER)
		announce(s, peer);
}

static void on_peer_dead(void *self, struct dsr_peer *peer)
{
	struct daser_scheduler *s = self;

	if (peer->role != DSR_ROLE_SCHEDULER)
		return;
	dsr_client_lock(&s->client);
	dsr_lifecycle_detached(&s->lc);
	dsr_client_set_state(&s->client, DASER_DETACHED, "the scheduler is gone, waiting for it");
	turn_end(s);
}

static void on_request_failed(void *self, struct dsr_peer *peer, uint32_t type, uint64_t cookie,
                              int err)
{
	struct daser_scheduler *s = self;

	(void)peer;
	dsr_client_lock(&s->client);
	if (type == DSR_MSG_ENGINE) {
		dsr_timer_set(s->announce_timer, dsr_now_ns() + ANNOUNCE_RETRY_NS);
	} else {
		answered(s, 0);
		dsr_lifecycle_on_failed(&s->lc, type, cookie, err);
	}
	turn_end(s);
}

static void on_flush_timer(void *self)
{
	struct daser_scheduler *s = self;

	dsr_client_lock(&s->client);
	turn_end(s);
}

/* A scheduler that lives but does not progress (stopped, under a debugger) counts as down. */
static bool is_stalled(const struct daser_scheduler *s)
{
	const struct dsr_control *control = &s->client.control;

	if (!s->client.has_control)
		return false;
	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++)
		if (control->rows[i].role == DSR_ROLE_SCHEDULER)
			return atomic_load_explicit(&control->rows[i].state,
			                            memory_order_acquire) == DSR_ACTOR_READY &&
			       !dsr_actor_row_is_up(&control->rows[i], dsr_now_ns(), STALLED_NS);
	return false;
}

static void on_tick_timer(void *self)
{
	struct daser_scheduler *s = self;
	bool was_stalled = s->is_stalled;

	dsr_client_lock(&s->client);
	s->is_stalled = is_stalled(s);
	if (s->is_stalled && s->lc.is_attached) {
		dsr_lifecycle_stalled(&s->lc);
		dsr_client_set_state(&s->client, DASER_DETACHED,
		                     "the scheduler makes no progress, waiting for it");
	}
	dsr_lifecycle_tick(&s->lc);
	turn_end(s);
	if (was_stalled && !s->is_stalled)
		on_announce_timer(s);
}

static int on_started(void *self)
{
	struct daser_scheduler *s = self;
	int r;

	r = dsr_timer_new(s->client.loop, on_flush_timer, s, &s->flush_timer);
	r = r < 0 ? r : dsr_timer_new(s->client.loop, on_tick_timer, s, &s->tick_timer);
	r = r < 0 ? r : dsr_timer_new(s->client.loop, on_announce_timer, s, &s->announce_timer);
	if (r == 0)
		dsr_timer_every(s->tick_timer, TICK_NS);
	return r;
}

/* The page was of an earlier control segment: the answer to ENGINE brings the new one. */
static int on_served(void *self)
{
	on_announce_timer(self);
	return 0;
}

static const struct dsr_link_ops link_ops = {
	.on[DSR_MSG_ENGINE_REPLY] = DSR_HANDLER(engine_reply, struct daser_scheduler, on_engine),
	.on[DSR_MSG_LOOKUP_REPLY] = DSR_HANDLER(lookup_reply, struct daser_scheduler, on_lookup),
	.on[DSR_MSG_LEASE_REPLY] = DSR_HANDLER(lease_reply, struct daser_scheduler, on_lease),
	.on[DSR_MSG_RELEASE_REPLY] = DSR_HANDLER(release_reply, struct daser_scheduler, on_release),
	.on[DSR_MSG_RESERVE_REPLY] = DSR_HANDLER(reserve_reply, struct daser_scheduler, on_reserve),
	.on[DSR_MSG_ABANDON_REPLY] = DSR_HANDLER(abandon_reply, struct daser_scheduler, on_abandon),
	.peer_ready = on_peer_ready,
	.peer_dead = on_peer_dead,
	.request_failed = on_request_failed,
};

static const struct dsr_client_ops client_ops = {
	.started = on_started,
	.served = on_served,
	.woken = on_flush_timer,
	.link = &link_ops,
};

/* ---- life ---- */

/* One refused option: the name, the value, what was expected. */
static int refuse_option(const char *name, uint64_t value, const char *expected)
{
	dsr_log(DSR_LOG_ERROR, "option `%s` is %" PRIu64 ", expected %s", name, value, expected);
	return -EINVAL;
}

static int check_options(const struct daser_scheduler_options *o)
{
	if (o->engine == NULL || o->engine[0] == '\0' || strlen(o->engine) > ENGINE_NAME_MAX)
		return refuse_option("engine", o->engine == NULL ? 0 : strlen(o->engine),
		                     "a name of 1 to 127 bytes");
	if (o->fingerprint == NULL)
		return refuse_option("fingerprint", 0, "32 bytes");
	if (o->world == 0 || o->world > DSR_WORLD_MAX)
		return refuse_option("world", o->world, "1 to 4096");
	if (o->block_tokens == 0)
		return refuse_option("block_tokens", 0, "1 or more");
	if (o->lookup_wait_us > 1000000)
		return refuse_option("lookup_wait_us", o->lookup_wait_us, "0 to 1000000");
	if (o->lease_ttl_ms > 3600000)
		return refuse_option("lease_ttl_ms", o->lease_ttl_ms, "0 to 3600000");
	if (o->load_deadline_ms > 600000)
		return refuse_option("load_deadline_ms", o->load_deadline_ms, "0 to 600000");
	if (o->max_requests > DSR_PLACES / 4)
		return refuse_option("max_requests", o->max_requests, "0 to 16384");
	return 0;
}

int daser_scheduler_open(const struct daser_scheduler_options *options,
                         struct daser_scheduler **ret_scheduler)
{
	struct daser_scheduler_options o = {0};
	struct dsr_lifecycle_options lc = {0};
	struct daser_scheduler *s;
	int r;

	if (options == NULL || ret_scheduler == NULL || options->size == 0)
		return -EINVAL;
	memcpy(&o, options, options->size < sizeof(o) ? options->size : sizeof(o));
	r = check_options(&o);
	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	r = dsr_client_init(&s->client, o.run_dir, DSR_ROLE_ENGINE, "", &client_ops, s);
	if (r < 0)
		goto err_free;
	lc = (struct dsr_lifecycle_options){
		.engine = o.engine,
		.fingerprint = o.fingerprint,
		.incarnation = s->client.incarnation,
		.world = o.world,
		.lookup_wait_us = o.lookup_wait_us,
		.lease_ttl_ms = o.lease_ttl_ms,
		.load_deadline_ms = o.load_deadline_ms == 0 ? 10000 : o.load_deadline_ms,
		.max_requests = o.max_requests == 0 ? 4096 : o.max_requests,
		.port = &port,
		.self = s,
	};
	r = dsr_lifecycle_init(&s->lc, &lc);
	if (r < 0)
		goto err_client;
	r = dsr_client_start(&s->client);
	if (r < 0)
		goto err_lifecycle;
	*ret_scheduler = s;
	return 0;

err_lifecycle:
	dsr_lifecycle_done(&s->lc);
err_client:
	dsr_client_done(&s->client);
err_free:
	free(s);
	return r;
}

void daser_scheduler_close(struct daser_scheduler **scheduler)
{
	struct daser_scheduler *s;
	uint64_t deadline;

	if (scheduler == NULL || *scheduler == NULL)
		return;
	s = *scheduler;
	*scheduler = NULL;
	dsr_client_lock(&s->client);
	dsr_lifecycle_shut(&s->lc);
	dsr_client_wake(&s->client);
	/* Sockets that are closed forget what was not sent: wait for the answers. */
	deadline = dsr_now_ns() + CLOSE_NS;
	while (s->lc.is_attached && (s->lc.outbox.count > 0 || s->unanswered > 0))
		if (!dsr_client_wait(&s->client, deadline))
			break;
	dsr_client_unlock(&s->client);
	dsr_client_stop(&s->client);
	dsr_lifecycle_done(&s->lc);
	dsr_client_done(&s->client);
	free(s);
}

enum daser_state daser_scheduler_state(struct daser_scheduler *scheduler)
{
	enum daser_state state;

	if (scheduler == NULL)
		return DASER_DETACHED;
	dsr_client_lock(&scheduler->client);
	state = scheduler->client.state;
	dsr_client_unlock(&scheduler->client);
	return state;
}

const char *daser_scheduler_reason(struct daser_scheduler *scheduler)
{
	if (scheduler == NULL)
		return "no object";
	dsr_client_lock(&scheduler->client);
	memcpy(scheduler->reason, scheduler->client.reason, sizeof(scheduler->reason));
	dsr_client_unlock(&scheduler->client);
	return scheduler->reason;
}

/* ---- calls ---- */

/* A call of the lifecycle under the lock, where there is an object. */
#define LOCKED(scheduler, call)                                                                    \
	({                                                                                         \
		int locked_r;                                                                      \
		if ((scheduler) == NULL)                                                           \
			return -EINVAL;                                                            \
		dsr_client_lock(&(scheduler)->client);                                             \
		locked_r = (call);                                                                 \
		dsr_client_unlock(&(scheduler)->client);                                           \
		locked_r;                                                                          \
	})

int daser_scheduler_new_request(struct daser_scheduler *scheduler, const char *request,
                                const void *hashes, uint32_t count, uint32_t hash_bytes,
                                const void *variant, uint32_t variant_bytes, uint32_t flags)
{
	const struct dsr_bin v = {.p = variant, .n = variant_bytes};

	return LOCKED(scheduler, dsr_lifecycle_new_request(&scheduler->lc, request, hashes, count,
	                                                   hash_bytes, &v, flags));
}

int daser_scheduler_extend(struct daser_scheduler *scheduler, const char *request,
                           const void *hashes, uint32_t count, uint32_t hash_bytes)
{
	return LOCKED(scheduler,
	              dsr_lifecycle_extend(&scheduler->lc, request, hashes, count, hash_bytes));
}

int daser_scheduler_match(struct daser_scheduler *scheduler, const char *request, uint32_t computed,
                          uint32_t *ret_blocks)
{
	if (ret_blocks == NULL)
		return -EINVAL;
	return LOCKED(scheduler,
	              dsr_lifecycle_match(&scheduler->lc, request, computed, ret_blocks));
}

int daser_scheduler_allocated(struct daser_scheduler *scheduler, const char *request,
                              const uint32_t *ids, uint32_t count, uint32_t computed,
                              uint32_t external)
{
	return LOCKED(scheduler, dsr_lifecycle_allocated(&scheduler->lc, request, ids, count,
	                                                 computed, external));
}

int daser_scheduler_scheduled(struct daser_scheduler *scheduler, const char *request,
                              const uint32_t *ids, uint32_t count, uint32_t storable)
{
	return LOCKED(scheduler,
	              dsr_lifecycle_scheduled(&scheduler->lc, request, ids, count, storable));
}

int daser_scheduler_preempted(struct daser_scheduler *scheduler, const char *request)
{
	return LOCKED(scheduler, dsr_lifecycle_preempted(&scheduler->lc, request));
}

int daser_scheduler_build_meta(struct daser_scheduler *scheduler, const void **ret_bytes,
                               size_t *ret_length)
{
	if (ret_bytes == NULL || ret_length == NULL)
		return -EINVAL;
	return LOCKED(scheduler, dsr_lifecycle_build_meta(&scheduler->lc, ret_bytes, ret_length));
}

int daser_scheduler_update(struct daser_scheduler *scheduler, const void *const *outputs,
                           const size_t *lengths, uint32_t ranks)
{
	return LOCKED(scheduler, dsr_lifecycle_update(&scheduler->lc, outputs, lengths, ranks));
}

int daser_scheduler_finished(struct daser_scheduler *scheduler, const char *request, int *ret_delay)
{
	if (ret_delay == NULL)
		return -EINVAL;
	return LOCKED(scheduler, dsr_lifecycle_finished(&scheduler->lc, request, ret_delay));
}

int daser_scheduler_reset_cache(struct daser_scheduler *scheduler, uint64_t weight_epoch)
{
	return LOCKED(scheduler, dsr_lifecycle_reset_cache(&scheduler->lc, weight_epoch));
}

int daser_scheduler_pending(struct daser_scheduler *scheduler)
{
	return LOCKED(scheduler, dsr_lifecycle_pending(&scheduler->lc));
}

int daser_scheduler_get_stats(struct daser_scheduler *scheduler,
                              struct daser_scheduler_stats *ret_stats)
{
	struct daser_scheduler_stats stats;
	size_t size;

	if (scheduler == NULL || ret_stats == NULL)
		return -EINVAL;
	dsr_client_lock(&scheduler->client);
	dsr_lifecycle_stats(&scheduler->lc, &stats);
	dsr_client_unlock(&scheduler->client);
	size = ret_stats->size == 0 || ret_stats->size > sizeof(stats) ? sizeof(stats)
	                                                               : ret_stats->size;
	stats.size = size;
	memcpy(ret_stats, &stats, size);
	return 0;
}

int daser_scheduler_take_events(struct daser_scheduler *scheduler, struct daser_block_event *events,
                                uint32_t max, uint32_t *ret_count)
{
	if (scheduler == NULL || ret_count == NULL || (max > 0 && events == NULL))
		return -EINVAL;
	dsr_client_lock(&scheduler->client);
	*ret_count = dsr_events_take(&scheduler->lc.events, events, max);
	dsr_client_unlock(&scheduler->client);
	return 0;
}
