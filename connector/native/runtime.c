/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's service thread: registration, the pool, messages, and the turns of the pipelines. */
#include "runtime.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "files.h"
#include "log.h"
#include "util.h"

#define REGISTER_DEADLINE_MS 10000 /* the first one makes the pool */
#define REGISTER_RETRY_NS UINT64_C(200000000)
#define READY_DEADLINE_MS 2000
#define TRANSFER_DEADLINE_MS (24 * 3600 * 1000) /* a buffer comes back by reply or death alone */
#define BLOCKED_NS UINT64_C(1000000)

/* ---- the pipelines' ports; with the lock ---- */

static int send_mover(struct daser_worker *w, const struct dsr_mover_side *side, uint32_t type,
                      const void *msg, uint64_t deadline_ms, uint64_t cookie)
{
	if (side->peer == NULL)
		return -EHOSTUNREACH;
	return dsr_peer_request(w->client.link, side->peer, type, msg, deadline_ms, cookie);
}

static int port_load(void *self, const struct dsr_msg_load *msg, uint64_t cookie)
{
	struct daser_worker *w = self;

	return send_mover(w, &w->load_side, DSR_MSG_LOAD, msg, TRANSFER_DEADLINE_MS, cookie);
}

static int port_store(void *self, const struct dsr_msg_store *msg, uint64_t cookie)
{
	struct daser_worker *w = self;

	return send_mover(w, &w->store_side, DSR_MSG_STORE, msg, TRANSFER_DEADLINE_MS, cookie);
}

static int port_drop(void *self, const struct dsr_msg_drop *msg, uint64_t cookie)
{
	struct daser_worker *w = self;

	return send_mover(w, &w->store_side, DSR_MSG_DROP, msg, READY_DEADLINE_MS, cookie);
}

static bool slot_is_bound(const struct dsr_pool *pool, const struct dsr_ref *ref)
{
	return ref->slot < pool->geometry->slots &&
	       atomic_load_explicit(&pool->slot_seqs[ref->slot], memory_order_acquire) ==
	               ref->slot_seq;
}

/* The store actor wrote the digest before the block became visible; a slot that is bound anew gets
 * its new sequence before anything else of it changes. */
static int port_check(void *self, const struct dsr_ref *ref, uint64_t digest)
{
	struct daser_worker *w = self;
	const _Atomic uint64_t *stored;

	if (!w->has_pool || !slot_is_bound(&w->pool, ref))
		return -ESTALE;
	stored = dsr_pool_digest(&w->pool, w->config.lane, ref->slot);
	if (stored == NULL)
		return -ESTALE;
	if (atomic_load_explicit(stored, memory_order_acquire) == digest)
		return 0;
	return slot_is_bound(&w->pool, ref) ? -EBADMSG : -ESTALE;
}

static void port_mismatch(void *self, const struct dsr_ref *refs, uint32_t count)
{
	struct daser_worker *w = self;
	struct dsr_peer *peer = dsr_link_peer(w->client.link, DSR_ROLE_SCHEDULER, "");
	const struct dsr_msg_mismatch msg = {.lane = w->config.lane,
	                                     .refs = {.v = refs, .n = count}};

	dsr_log(DSR_LOG_WARN, "%u blocks hold other bytes than were stored, telling the scheduler",
	        count);
	/* Not told now, it is found again by the next load of them. */
	if (peer != NULL)
		(void)dsr_peer_request(w->client.link, peer, DSR_MSG_MISMATCH, &msg,
		                       READY_DEADLINE_MS, 0);
}

static uint64_t port_now_ns(void *self)
{
	(void)self;
	return dsr_now_ns();
}

const struct dsr_load_port dsr_worker_load_port = {
	.load = port_load,
	.check = port_check,
	.mismatch = port_mismatch,
	.ended = dsr_outputs_load,
	.now_ns = port_now_ns,
};

const struct dsr_store_port dsr_worker_store_port = {
	.store = port_store,
	.drop = port_drop,
	.ended = dsr_outputs_store,
	.released = dsr_outputs_released,
	.now_ns = port_now_ns,
};

/* ---- what the scheduler is told ---- */

static struct dsr_worker_ready present_state(const struct daser_worker *w)
{
	struct dsr_worker_ready ready = {0};
	bool has_staging = w->loads.buffers.quarantined < w->loads.buffers.count;

	if (w->load_side.state == DSR_MOVER_ATTACHED && has_staging)
		ready.load = w->load_side.peer->incarnation;
	if (w->store_side.state == DSR_MOVER_ATTACHED)
		ready.store = w->store_side.peer->incarnation;
	ready.canary = ready.load != 0 && (ready.store != 0 || !w->config.is_writer);
	return ready;
}

static void tell_state(struct daser_worker *w)
{
	struct dsr_peer *peer = dsr_link_peer(w->client.link, DSR_ROLE_SCHEDULER, "");
	struct dsr_worker_ready ready = present_state(w);
	const struct dsr_msg_worker_ready msg = {
		.engine = {.p = w->config.engine, .n = (uint32_t)strlen(w->config.engine)},
		.rank = w->config.rank,
		.load = ready.load,
		.store = ready.store,
		.canary = ready.canary,
	};

	if (peer == NULL || !w->is_accepted ||
	    (ready.load == w->ready.load && ready.store == w->ready.store &&
	     ready.canary == w->ready.canary))
		return;
	if (dsr_peer_request(w->client.link, peer, DSR_MSG_WORKER_READY, &msg, READY_DEADLINE_MS,
	                     0) == 0)
		w->ready = ready;
	else
		dsr_timer_set(w->turn_timer, dsr_now_ns() + BLOCKED_NS);
}

static const char *missing_side(const struct daser_worker *w)
{
	const struct dsr_mover_side *side = &w->load_side;

	if (side->state == DSR_MOVER_ATTACHED)
		side = &w->store_side;
	if (side->reason[0] != '\0')
		return side->reason;
	return side->role == DSR_ROLE_LOAD ? "waiting for the load actor"
	                                   : "waiting for the store actor";
}

/* What daser_worker_state says follows from the parts. */
static void update_state(struct daser_worker *w)
{
	bool is_whole = w->is_accepted && w->load_side.state == DSR_MOVER_ATTACHED &&
	                (!w->config.is_writer || w->store_side.state == DSR_MOVER_ATTACHED);
	enum daser_state state = is_whole ? DASER_ATTACHED : DASER_DETACHED;
	const char *why = is_whole ? "" : missing_side(w);

	if (!w->is_accepted || w->is_closing)
		return; /* whoever refused or left has said why */
	if (!is_whole && !w->has_pool)
		why = "waiting for the pool";
	if (state != w->client.state || strcmp(why, w->client.reason) != 0)
		dsr_client_set_state(&w->client, state, "%s", why);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void dsr_worker_turn(struct daser_worker *w)
{
	uint64_t at_ns;

	dsr_load_pipeline_pump(&w->loads);
	dsr_store_pipeline_pump(&w->stores);
	dsr_mover_turn(w, &w->load_side);
	if (w->config.is_writer)
		dsr_mover_turn(w, &w->store_side);
	at_ns = earlier(dsr_load_pipeline_deadline(&w->loads),
	                dsr_store_pipeline_deadline(&w->stores));
	at_ns = earlier(at_ns, dsr_mover_deadline(w, &w->load_side));
	at_ns = earlier(at_ns, dsr_mover_deadline(w, &w->store_side));
	if (w->loads.is_blocked || w->stores.is_blocked)
		at_ns = earlier(at_ns, dsr_now_ns() + BLOCKED_NS);
	dsr_timer_set(w->turn_timer, at_ns);
	tell_state(w);
	update_state(w);
	dsr_client_changed(&w->client);
	dsr_client_unlock(&w->client);
}

/* ---- registration ---- */

static void send_register(struct daser_worker *w, struct dsr_peer *peer)
{
	const struct dsr_worker_config *c = &w->config;
	const struct dsr_msg_register_worker msg = {
		.engine = {.p = c->engine, .n = (uint32_t)strlen(c->engine)},
		.fingerprint = {.p = c->fingerprint, .n = sizeof(c->fingerprint)},
		.rank = c->rank,
		.world = c->world,
		.lane = c->lane,
		.lanes = c->lanes,
		.writer = c->is_writer,
		.slot_bytes = w->layout.payload_bytes,
		.block_tokens = c->block_tokens,
		.device = {.p = c->device, .n = (uint32_t)strlen(c->device)},
	};

	if (dsr_peer_request(w->client.link, peer, DSR_MSG_REGISTER, &msg, REGISTER_DEADLINE_MS,
	                     0) < 0)
		dsr_timer_set(w->register_timer, dsr_now_ns() + REGISTER_RETRY_NS);
}

/* Fetches and maps the pool that REGISTER named; may wait for the supervisor, so without the
 * lock. */
static int map_pool(struct daser_worker *w)
{
	struct dsr_pool pool;
	char name[64], why[DSR_REASON_TEXT] = "";
	int fd, r;

	if (w->has_pool && w->pool.epoch == w->pool_epoch)
		return 0;
	if (w->client.broker == NULL)
		return -ENOTCONN;
	(void)snprintf(name, sizeof(name), DSR_OBJECT_POOL, (unsigned long long)w->pool_epoch);
	fd = dsr_broker_get(w->client.broker, name);
	if (fd < 0)
		return fd;
	r = dsr_pool_attach(fd, &pool, why, sizeof(why));
	dsr_close(&fd);
	if (r < 0) {
		dsr_log(DSR_LOG_WARN, "%s: %s, trying again", name, why);
		return r;
	}
	dsr_client_lock(&w->client);
	if (w->has_pool)
		dsr_pool_detach(&w->pool);
	w->pool = pool;
	w->has_pool = true;
	dsr_client_unlock(&w->client);
	return 0;
}

static void connect_movers(struct daser_worker *w)
{
	int r;

	if (w->is_connecting)
		return;
	r = dsr_link_connect(w->client.link, DSR_ROLE_LOAD, w->config.device);
	if ((r == 0 || r == -EEXIST) && w->config.is_writer)
		r = dsr_link_connect(w->client.link, DSR_ROLE_STORE, w->config.device);
	if (r == -EEXIST)
		r = 0; /* tried before, as far as that */
	if (r < 0) {
		dsr_log(DSR_LOG_WARN, "connecting to the actors of `%s`: %s", w->config.device,
		        strerror(-r));
		dsr_timer_set(w->register_timer, dsr_now_ns() + REGISTER_RETRY_NS);
		return;
	}
	w->is_connecting = true;
}

/* Service thread, without the lock: what is left to do before the actors can be attached to. */
static void go_on(struct daser_worker *w)
{
	struct dsr_peer *peer = dsr_link_peer(w->client.link, DSR_ROLE_SCHEDULER, "");

	if (!w->is_accepted) {
		if (peer != NULL)
			send_register(w, peer);
		return;
	}
	if (map_pool(w) < 0)
		dsr_timer_set(w->register_timer, dsr_now_ns() + REGISTER_RETRY_NS);
	else
		connect_movers(w);
	dsr_client_lock(&w->client);
	dsr_worker_turn(w);
}

static void on_register_timer(void *self)
{
	go_on(self);
}

static void on_register(struct daser_worker *w, struct dsr_peer *peer, const struct dsr_env *env,
                        const struct dsr_msg_register_worker_reply *reply)
{
	(void)peer, (void)env;
	dsr_client_lock(&w->client);
	if (reply->err == 0) {
		if (w->pool_epoch != reply->pool_epoch) {
			dsr_mover_renew(w, &w->load_side);
			dsr_mover_renew(w, &w->store_side);
		}
		w->is_accepted = true;
		w->pool_epoch = reply->pool_epoch;
		w->ready = (struct dsr_worker_ready){0};
		dsr_client_set_page(&w->client, reply->page);
	} else {
		bool is_final =
			reply->err == -EXDEV || reply->err == -EINVAL || reply->err == -ENOSPC;

		dsr_client_set_state(&w->client, is_final ? DASER_REFUSED : DASER_DETACHED,
		                     "the scheduler says: %.*s (%s)", (int)reply->reason.n,
		                     reply->reason.n > 0 ? reply->reason.p : "",
		                     strerror(-reply->err));
		if (!is_final)
			dsr_timer_set(w->register_timer, dsr_now_ns() + REGISTER_RETRY_NS);
	}
	dsr_client_unlock(&w->client);
	if (reply->err == 0)
		go_on(w);
}

static void on_worker_ready(struct daser_worker *w, struct dsr_peer *peer,
                            const struct dsr_env *env,
                            const struct dsr_msg_worker_ready_reply *reply)
{
	(void)peer, (void)env;
	if (reply->err == 0)
		return;
	/* It does not know us: begin anew. */
	dsr_client_lock(&w->client);
	w->is_accepted = false;
	dsr_client_set_state(&w->client, DASER_DETACHED, "registering anew");
	dsr_client_unlock(&w->client);
	dsr_timer_set(w->register_timer, dsr_now_ns() + REGISTER_RETRY_NS);
}

static void on_mismatch(struct daser_worker *w, struct dsr_peer *peer, const struct dsr_env *env,
                        const struct dsr_msg_mismatch_reply *reply)
{
	(void)w, (void)peer, (void)env, (void)reply;
}

/* ---- messages of the actors ---- */

static void on_attach(struct daser_worker *w, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_attach_reply *reply)
{
	struct dsr_mover_side *side = dsr_mover_of(w, peer->role);

	(void)env;
	dsr_client_lock(&w->client);
	if (side != NULL && side->peer == peer)
		dsr_mover_on_attach(w, side, reply);
	dsr_worker_turn(w);
}

static void on_detach(struct daser_worker *w, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_detach_reply *reply)
{
	struct dsr_mover_side *side = dsr_mover_of(w, peer->role);

	(void)env, (void)reply;
	dsr_client_lock(&w->client);
	if (side != NULL && side->state == DSR_MOVER_LEAVING)
		side->state = DSR_MOVER_ABSENT;
	dsr_worker_turn(w);
}

static void on_load(struct daser_worker *w, struct dsr_peer *peer, const struct dsr_env *env,
                    const struct dsr_msg_load_reply *reply)
{
	(void)peer, (void)env;
	dsr_client_lock(&w->client);
	dsr_load_pipeline_on_reply(&w->loads, dsr_link_cookie(w->client.link), reply);
	if (reply->err == -ENOENT) /* it does not know this attachment (any more) */
		dsr_mover_renew(w, &w->load_side);
	dsr_worker_turn(w);
}

static void on_segment(struct daser_worker *w, struct dsr_peer *peer, const struct dsr_env *env,
                       const struct dsr_msg_segment *msg)
{
	(void)env;
	dsr_client_lock(&w->client);
	if (peer == w->load_side.peer)
		dsr_load_pipeline_on_segment(&w->loads, msg);
	dsr_worker_turn(w);
}

static void on_store(struct daser_worker *w, struct dsr_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_store_reply *reply)
{
	(void)peer, (void)env;
	dsr_client_lock(&w->client);
	dsr_store_pipeline_on_reply(&w->stores, dsr_link_cookie(w->client.link), reply);
	if (reply->err == -ENOENT)
		dsr_mover_renew(w, &w->store_side);
	dsr_worker_turn(w);
}

static void on_drop(struct daser_worker *w, struct dsr_peer *peer, const struct dsr_env *env,
                    const struct dsr_msg_drop_reply *reply)
{
	(void)peer, (void)env;
	dsr_client_lock(&w->client);
	dsr_store_pipeline_on_dropped(&w->stores, dsr_link_cookie(w->client.link), reply->err);
	dsr_worker_turn(w);
}

/* ---- peers ---- */

static void on_peer_ready(void *self, struct dsr_peer *peer)
{
	struct daser_worker *w = self;
	struct dsr_mover_side *side = dsr_mover_of(w, peer->role);

	if (peer->role == DSR_ROLE_SCHEDULER)
		send_register(w, peer);
	if (side == NULL)
		return;
	dsr_client_lock(&w->client);
	dsr_mover_ready(w, side, peer);
	dsr_worker_turn(w);
}

static void on_peer_dead(void *self, struct dsr_peer *peer)
{
	struct daser_worker *w = self;
	struct dsr_mover_side *side = dsr_mover_of(w, peer->role);

	dsr_client_lock(&w->client);
	if (peer->role == DSR_ROLE_SCHEDULER) {
		w->is_accepted = false;
		dsr_client_set_state(&w->client, DASER_DETACHED,
		                     "the scheduler is gone, waiting for it");
	} else if (side != NULL && side->peer == peer) {
		dsr_mover_dead(w, side);
	}
	dsr_worker_turn(w);
}

static void on_request_failed(void *self, struct dsr_peer *peer, uint32_t type, uint64_t cookie,
                              int err)
{
	struct daser_worker *w = self;
	struct dsr_mover_side *side = dsr_mover_of(w, peer->role);

	if (type == DSR_MSG_REGISTER) {
		dsr_timer_set(w->register_timer, dsr_now_ns() + REGISTER_RETRY_NS);
		return;
	}
	dsr_client_lock(&w->client);
	if (type == DSR_MSG_WORKER_READY)
		w->ready = (struct dsr_worker_ready){0};
	else if (type == DSR_MSG_LOAD)
		dsr_load_pipeline_on_failed(&w->loads, cookie, err);
	else if (type == DSR_MSG_STORE)
		dsr_store_pipeline_on_failed(&w->stores, cookie, err);
	else if (type == DSR_MSG_DROP)
		dsr_store_pipeline_on_dropped(&w->stores, cookie, err);
	else if (side != NULL)
		dsr_mover_on_failed(side, type);
	if (err == -EOWNERDEAD) /* peer_dead comes next, and takes the turn */
		dsr_client_unlock(&w->client);
	else
		dsr_worker_turn(w);
}

/* ---- the loop ---- */

static void on_turn(void *self)
{
	struct daser_worker *w = self;

	dsr_client_lock(&w->client);
	dsr_worker_turn(w);
}

static void on_device(void *self)
{
	struct daser_worker *w = self;

	dsr_device_ack(w->device);
	on_turn(w);
}

static int on_started(void *self)
{
	struct daser_worker *w = self;
	int r;

	r = dsr_timer_new(w->client.loop, on_turn, w, &w->turn_timer);
	r = r < 0 ? r : dsr_timer_new(w->client.loop, on_register_timer, w, &w->register_timer);
	return r < 0 ? r : dsr_loop_add_fd(w->client.loop, dsr_device_fd(w->device), on_device, w);
}

static int put_staging(struct daser_worker *w, const struct dsr_device_memory *memory,
                       const char *which)
{
	char name[96];
	int r;

	if (memory->base == NULL || memory->fd == -1)
		return 0;
	(void)snprintf(name, sizeof(name), DSR_OBJECT_STAGING,
	               (unsigned long long)w->client.incarnation, which);
	r = dsr_broker_put(w->client.broker, name, memory->fd);
	return r == -EEXIST ? 0 : r;
}

static int on_served(void *self)
{
	struct daser_worker *w = self;
	int r;

	r = put_staging(w, &w->load_memory, dsr_role_name(DSR_ROLE_LOAD));
	r = r < 0 ? r : put_staging(w, &w->store_memory, dsr_role_name(DSR_ROLE_STORE));
	if (r < 0)
		return r;
	/* A new control segment has another page for us: REGISTER is answered with it. */
	if (w->client.page == NULL)
		w->is_accepted = false;
	go_on(w);
	return 0;
}

static const struct dsr_link_ops link_ops = {
	.on[DSR_MSG_REGISTER_REPLY] =
		DSR_HANDLER(register_worker_reply, struct daser_worker, on_register),
	.on[DSR_MSG_WORKER_READY_REPLY] =
		DSR_HANDLER(worker_ready_reply, struct daser_worker, on_worker_ready),
	.on[DSR_MSG_MISMATCH_REPLY] = DSR_HANDLER(mismatch_reply, struct daser_worker, on_mismatch),
	.on[DSR_MSG_ATTACH_REPLY] = DSR_HANDLER(attach_reply, struct daser_worker, on_attach),
	.on[DSR_MSG_DETACH_REPLY] = DSR_HANDLER(detach_reply, struct daser_worker, on_detach),
	.on[DSR_MSG_LOAD_REPLY] = DSR_HANDLER(load_reply, struct daser_worker, on_load),
	.on[DSR_MSG_SEGMENT] = DSR_HANDLER(segment, struct daser_worker, on_segment),
	.on[DSR_MSG_STORE_REPLY] = DSR_HANDLER(store_reply, struct daser_worker, on_store),
	.on[DSR_MSG_DROP_REPLY] = DSR_HANDLER(drop_reply, struct daser_worker, on_drop),
	.peer_ready = on_peer_ready,
	.peer_dead = on_peer_dead,
	.request_failed = on_request_failed,
};

const struct dsr_client_ops dsr_worker_client_ops = {
	.started = on_started,
	.served = on_served,
	.woken = on_turn,
	.link = &link_ops,
};
