/* SPDX-License-Identifier: Apache-2.0 */
/* What engines ask for blocks: LOOKUP, LEASE, RELEASE, RESERVE, ABANDON; and MISMATCH of workers.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "scheduler.h"
#include "util.h"

static_assert(DSR_RESERVATION_KEYS == DSR_FRAME_MAX / DSR_KEY_BYTES,
              "scratch holds the keys of one message");

/* The engine whose scheduling process this is. 0; -ENOENT: it has not joined; -ENOTCONN: nothing is
 * promised to it now. */
static int serve(struct scheduler *s, const struct dsr_peer *peer, bool is_writing, uint64_t now_ns,
                 uint32_t *ret_engine)
{
	uint32_t engine = dsr_engines_of_process(&s->engines, peer->incarnation);

	if (engine == DSR_ENGINE_NONE)
		return -ENOENT;
	*ret_engine = engine;
	if (s->is_draining)
		return -ENOTCONN;
	return is_writing ? dsr_engines_is_written(&s->engines, engine, s->geometry.lanes, now_ns)
	                  : dsr_engines_is_served(&s->engines, engine, s->geometry.lanes, now_ns);
}

/* A field that is a key or empty. -EINVAL. */
static int parent_of(struct dsr_bin bin, struct dsr_key *buffer, const struct dsr_key **ret_parent)
{
	if (bin.n != 0 && bin.n != DSR_KEY_BYTES)
		return -EINVAL;
	*ret_parent = NULL;
	if (bin.n == DSR_KEY_BYTES) {
		memcpy(buffer->b, bin.p, DSR_KEY_BYTES);
		*ret_parent = buffer;
	}
	return 0;
}

/* Carried out, and not yet told. */
static void reply(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                  const void *msg)
{
	if (dsr_fault_at(s->rt->faults, DSR_FAULT_SCHED_BEFORE_REPLY, NULL) != DSR_FAULT_DROP)
		(void)dsr_peer_reply(s->rt->link, peer, env, msg);
}

void dsr_scheduler_on_lookup(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                             const struct dsr_msg_lookup *m)
{
	struct dsr_msg_lookup_reply answer = {0};
	uint32_t engine;

	answer.err = serve(s, peer, false, dsr_now_ns(), &engine);
	if (answer.err == 0)
		answer.l1 = dsr_cache_prefix(s->cache, m->keys.v, m->keys.n, NULL);
	answer.hits = answer.l1;
	dsr_counter_add(s->rt->counters, DSR_COUNTER_LOOKUP_BLOCKS, m->keys.n);
	dsr_counter_add(s->rt->counters, DSR_COUNTER_LOOKUP_HIT_BLOCKS, answer.hits);
	reply(s, peer, env, &answer);
}

void dsr_scheduler_on_lease(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                            const struct dsr_msg_lease *m)
{
	struct dsr_msg_lease_reply answer = {0};
	uint64_t now_ns = dsr_now_ns(), ttl_ms = s->rt->options.lease_ttl_ms;
	struct dsr_lease_request request = {
		.owner = peer->incarnation,
		.id = m->lease,
		.keys = m->keys.v,
		.count = m->keys.n,
	};
	struct dsr_key parent;
	uint32_t engine;

	if (m->ttl_ms != 0)
		ttl_ms = m->ttl_ms < SCHEDULER_TTL_MAX_MS ? m->ttl_ms : SCHEDULER_TTL_MAX_MS;
	request.ttl_ns = ttl_ms * UINT64_C(1000000);
	answer.err = serve(s, peer, false, now_ns, &engine);
	if (answer.err == 0)
		answer.err = parent_of(m->parent, &parent, &request.parent);
	if (answer.err == 0 && m->keys.n > DSR_RESERVATION_KEYS)
		answer.err = -EINVAL;
	if (answer.err == 0) {
		/* What has ended leaves room. */
		(void)dsr_leases_expire(s->leases, now_ns);
		answer.err = dsr_leases_grant(s->leases, &request, now_ns, s->refs, &answer.refs.n);
	}
	answer.refs.v = s->refs;
	answer.ttl_ms = answer.refs.n > 0 ? (uint32_t)ttl_ms : 0;
	reply(s, peer, env, &answer);
	dsr_scheduler_settle(s);
}

void dsr_scheduler_on_release(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                              const struct dsr_msg_release *m)
{
	struct dsr_msg_release_reply answer = {0};

	for (uint32_t i = 0; i < m->leases.n; i++)
		answer.released += dsr_leases_release(s->leases, peer->incarnation, m->leases.v[i]);
	(void)dsr_peer_reply(s->rt->link, peer, env, &answer);
	dsr_scheduler_settle(s);
}

void dsr_scheduler_on_reserve(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                              const struct dsr_msg_reserve *m)
{
	struct dsr_msg_reserve_reply answer = {0};
	uint64_t now_ns = dsr_now_ns();
	struct dsr_reserve_request request = {
		.id = m->reservation,
		.keys = m->keys.v,
		.count = m->keys.n,
		.depth = m->depth,
	};
	struct dsr_reserve_answer reserved = {0};
	struct dsr_key parent;

	answer.err = serve(s, peer, true, now_ns, &request.owner);
	if (answer.err == 0)
		answer.err = parent_of(m->parent, &parent, &request.parent);
	if (answer.err == 0) {
		request.devices = dsr_engines_devices(&s->engines, request.owner);
		(void)dsr_leases_expire(s->leases, now_ns);
		answer.err = dsr_reservations_reserve(s->reservations, &request, now_ns, &reserved);
	}
	if (answer.err == 0) {
		answer.status = (struct dsr_i32s){.v = reserved.status, .n = m->keys.n};
		answer.refs = (struct dsr_refs){.v = reserved.refs, .n = reserved.reserved};
	}
	reply(s, peer, env, &answer);
	dsr_scheduler_settle(s);
}

void dsr_scheduler_on_abandon(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                              const struct dsr_msg_abandon *m)
{
	uint32_t engine = dsr_engines_of_process(&s->engines, peer->incarnation);
	struct dsr_msg_abandon_reply answer = {.err = -ENOENT};

	if (engine != DSR_ENGINE_NONE)
		answer.err = dsr_reservations_abandon(s->reservations, engine, m->reservation,
		                                      m->refs.v, m->refs.n);
	(void)dsr_peer_reply(s->rt->link, peer, env, &answer);
	dsr_scheduler_settle(s);
}

void dsr_scheduler_on_mismatch(struct scheduler *s, struct dsr_peer *peer,
                               const struct dsr_env *env, const struct dsr_msg_mismatch *m)
{
	struct dsr_msg_mismatch_reply answer = {0};

	for (uint32_t i = 0; i < m->refs.n; i++) {
		uint32_t entry = dsr_cache_resolve(s->cache, &m->refs.v[i]);

		if (entry != DSR_ENTRY_NONE &&
		    dsr_cache_state(s->cache, entry) == DSR_ENTRY_VISIBLE)
			answer.dropped += dsr_cache_mismatch(s->cache, entry);
	}
	if (answer.dropped > 0)
		dsr_log(DSR_LOG_WARN, "lane %u: a reader found other bytes, dropped blocks %u",
		        m->lane, answer.dropped);
	(void)dsr_peer_reply(s->rt->link, peer, env, &answer);
	dsr_scheduler_settle(s);
}
