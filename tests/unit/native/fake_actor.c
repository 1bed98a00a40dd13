/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_actor.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "broker.h"
#include "device.h"
#include "digest.h"
#include "files.h"
#include "layout.h"
#include "link.h"
#include "loop.h"
#include "pool.h"
#include "util.h"

#define HELD_MAX 32
#define WORKERS_MAX 8

struct staging {
	uint64_t worker; /* incarnation; 0: free */
	struct dsr_device_memory memory;
	uint64_t buffer_bytes;
	uint32_t lane;
};

/* A LOAD or STORE that is not answered yet. */
struct held {
	struct dsr_peer *peer; /* borrowed: tests end before it does */
	struct dsr_env env;
	uint32_t buffer, count, segment_blocks;
	uint64_t lend;
	struct dsr_ref refs[FAKE_SLOTS_MAX];
	uint64_t digests[FAKE_SLOTS_MAX];
};

struct actor {
	enum dsr_role role;
	struct fake_shared *shared;
	int wake_fd;
	struct dsr_loop *loop;
	struct dsr_link *link;
	struct dsr_broker *broker;
	struct dsr_device *device;
	struct dsr_pool pool;
	bool has_pool;
	struct staging stagings[WORKERS_MAX];
	struct held held[HELD_MAX];
	uint32_t held_count;
};

static void die(const char *what, int err)
{
	(void)fprintf(stderr, "fake actor: %s: %s\n", what, strerror(-err));
	_exit(1);
}

/* The pool, if somebody made it. */
static bool find_pool(struct actor *a)
{
	char name[64], why[256];
	int fd, r;

	if (a->has_pool)
		return true;
	(void)snprintf(name, sizeof(name), DSR_OBJECT_POOL, (unsigned long long)FAKE_POOL_EPOCH);
	fd = dsr_broker_get(a->broker, name);
	if (fd < 0)
		return false;
	r = dsr_pool_attach(fd, &a->pool, why, sizeof(why));
	if (r < 0)
		die(why, r);
	(void)close(fd);
	a->has_pool = true;
	return true;
}

static struct dsr_ref ref_of(const struct actor *a, uint32_t slot)
{
	return (struct dsr_ref){.generation = 100 + slot,
	                        .slot_seq = atomic_load(&a->pool.slot_seqs[slot]),
	                        .entry = slot,
	                        .slot = slot};
}

/* The slot of a cached key, or -1. */
static int slot_of(const struct actor *a, const struct dsr_key *key)
{
	for (uint32_t i = 0; i < atomic_load(&a->shared->slots_used); i++)
		if (atomic_load(&a->shared->is_cached[i]) &&
		    memcmp(&a->shared->keys[i], key, sizeof(*key)) == 0)
			return (int)i;
	return -1;
}

static struct dsr_str reason_of(const struct actor *a)
{
	return (struct dsr_str){.p = a->shared->reason, .n = (uint32_t)strlen(a->shared->reason)};
}

/* ---- the scheduler ---- */

static void on_engine(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_engine *m)
{
	const struct dsr_msg_engine_reply reply = {.err = atomic_load(&a->shared->refusal),
	                                           .reason = reason_of(a),
	                                           .page = DSR_ACTOR_ROWS};

	(void)m;
	atomic_fetch_add(&a->shared->engines, 1);
	(void)dsr_peer_reply(a->link, peer, env, &reply);
}

static void make_pool(struct actor *a, const struct dsr_msg_register_worker *m)
{
	const struct dsr_pool_request request = {.fingerprint = m->fingerprint.p,
	                                         .slot_bytes = m->slot_bytes,
	                                         .budget_bytes = 64 << 20,
	                                         .epoch = FAKE_POOL_EPOCH,
	                                         .lanes = m->lanes,
	                                         .block_tokens = m->block_tokens,
	                                         .max_slots = FAKE_SLOTS_MAX};
	char name[64], why[256];
	int fd, r;

	if (find_pool(a))
		return;
	fd = dsr_pool_create(&request, why, sizeof(why));
	if (fd < 0)
		die(why, fd);
	(void)snprintf(name, sizeof(name), DSR_OBJECT_POOL, (unsigned long long)FAKE_POOL_EPOCH);
	r = dsr_broker_put(a->broker, name, fd);
	if (r < 0)
		die("put", r);
	(void)close(fd);
	(void)find_pool(a);
	for (uint32_t i = 0; i < FAKE_SLOTS_MAX; i++)
		atomic_store(&a->pool.slot_seqs[i], 1000 + i);
}

static void on_register(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                        const struct dsr_msg_register_worker *m)
{
	const struct dsr_msg_register_worker_reply reply = {.err = atomic_load(&a->shared->refusal),
	                                                    .reason = reason_of(a),
	                                                    .pool_epoch = FAKE_POOL_EPOCH,
	                                                    .slots = FAKE_SLOTS_MAX,
	                                                    .page = DSR_ACTOR_ROWS + 1 + m->rank};

	if (reply.err == 0)
		make_pool(a, m);
	atomic_fetch_add(&a->shared->registers, 1);
	(void)dsr_peer_reply(a->link, peer, env, &reply);
}

static void on_ready(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_worker_ready *m)
{
	atomic_store(&a->shared->ready_load, m->load);
	atomic_store(&a->shared->ready_store, m->store);
	atomic_store(&a->shared->ready_canary, m->canary);
	atomic_fetch_add(&a->shared->readies, 1);
	(void)dsr_peer_reply_err(a->link, peer, env, 0);
}

static uint32_t leading(const struct actor *a, struct dsr_keys keys)
{
	uint32_t n = 0;

	while (n < keys.n && slot_of(a, &keys.v[n]) >= 0)
		n++;
	return n;
}

static void on_lookup(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_lookup *m)
{
	uint32_t hits = leading(a, m->keys);
	const struct dsr_msg_lookup_reply reply = {.hits = hits, .l1 = hits};

	atomic_fetch_add(&a->shared->lookups, 1);
	(void)dsr_peer_reply(a->link, peer, env, &reply);
}

static void on_lease(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_lease *m)
{
	struct dsr_ref refs[FAKE_SLOTS_MAX];
	struct dsr_msg_lease_reply reply = {.ttl_ms = 30000,
	                                    .refs = {.v = refs, .n = leading(a, m->keys)}};

	atomic_fetch_add(&a->shared->leases, 1);
	for (uint32_t i = 0; i < reply.refs.n && find_pool(a); i++)
		refs[i] = ref_of(a, (uint32_t)slot_of(a, &m->keys.v[i]));
	(void)dsr_peer_reply(a->link, peer, env, &reply);
}

static void on_release(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                       const struct dsr_msg_release *m)
{
	atomic_fetch_add(&a->shared->releases, m->leases.n);
	(void)dsr_peer_reply_err(a->link, peer, env, 0);
}

static void on_reserve(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                       const struct dsr_msg_reserve *m)
{
	struct dsr_ref refs[FAKE_SLOTS_MAX];
	int32_t status[FAKE_SLOTS_MAX];
	struct dsr_msg_reserve_reply reply = {.status = {.v = status, .n = m->keys.n},
	                                      .refs = {.v = refs}};
	uint32_t slot;

	atomic_fetch_add(&a->shared->reserves, 1);
	for (uint32_t i = 0; i < m->keys.n; i++) {
		slot = atomic_load(&a->shared->slots_used);
		status[i] = -EEXIST;
		if (slot_of(a, &m->keys.v[i]) >= 0)
			continue;
		status[i] = slot < FAKE_SLOTS_MAX && find_pool(a) ? 0 : -ENOSPC;
		if (status[i] < 0)
			continue;
		a->shared->keys[slot] = m->keys.v[i];
		refs[reply.refs.n++] = ref_of(a, slot);
		atomic_store(&a->shared->slots_used, slot + 1);
	}
	(void)dsr_peer_reply(a->link, peer, env, &reply);
}

static void on_abandon(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                       const struct dsr_msg_abandon *m)
{
	(void)m;
	atomic_fetch_add(&a->shared->abandons, 1);
	(void)dsr_peer_reply_err(a->link, peer, env, 0);
}

static void on_mismatch(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                        const struct dsr_msg_mismatch *m)
{
	atomic_fetch_add(&a->shared->mismatches, m->refs.n);
	(void)dsr_peer_reply_err(a->link, peer, env, 0);
}

static void on_drain(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_drain *m)
{
	const struct dsr_msg_drain_reply reply = {.err = atomic_load(&a->shared->drain_err),
	                                          .left = atomic_load(&a->shared->drain_left)};

	(void)m;
	if (atomic_fetch_add(&a->shared->drains, 1) == 0)
		atomic_store(&a->shared->first_drained, a->role);
	(void)dsr_peer_reply(a->link, peer, env, &reply);
}

/* ---- the movers ---- */

static struct staging *staging_of(struct actor *a, uint64_t worker)
{
	for (uint32_t i = 0; i < WORKERS_MAX; i++)
		if (a->stagings[i].worker == worker)
			return &a->stagings[i];
	return NULL;
}

static void unmap(struct actor *a, struct staging *staging)
{
	if (staging != NULL && staging->worker != 0)
		dsr_device_release(a->device, &staging->memory);
	if (staging != NULL)
		*staging = (struct staging){0};
}

static void on_attach(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_attach *m)
{
	struct dsr_msg_attach_reply reply = {0};
	struct staging *staging;
	char name[128];
	int fd;

	unmap(a, staging_of(a, peer->incarnation));
	staging = staging_of(a, 0);
	(void)snprintf(name, sizeof(name), "%.*s", (int)m->object.n, m->object.p);
	fd = dsr_broker_get(a->broker, name);
	if (staging == NULL || fd < 0 || !find_pool(a) ||
	    dsr_device_import(a->device, NULL, 0, fd, m->buffers * m->buffer_bytes,
	                      &staging->memory) < 0) {
		reply.err = -EINVAL;
	} else {
		staging->worker = peer->incarnation;
		staging->buffer_bytes = m->buffer_bytes;
		staging->lane = m->lane;
		reply.canary = dsr_digest_of(staging->memory.base, m->canary_bytes, 0);
		atomic_fetch_add(&a->shared->attaches, 1);
	}
	dsr_close(&fd);
	(void)dsr_peer_reply(a->link, peer, env, &reply);
}

static void on_detach(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_detach *m)
{
	(void)m;
	unmap(a, staging_of(a, peer->incarnation));
	atomic_fetch_add(&a->shared->detaches, 1);
	(void)dsr_peer_reply_err(a->link, peer, env, 0);
}

/* Where block `index` of a held one lies in staging. */
static uint8_t *staged(const struct actor *a, const struct staging *staging,
                       const struct held *held, uint32_t index)
{
	return staging->memory.base + held->buffer * staging->buffer_bytes +
	       index * a->pool.geometry->slot_bytes;
}

static void serve_load(struct actor *a, const struct held *held)
{
	const struct staging *staging = staging_of(a, held->peer->incarnation);
	const int32_t errs[FAKE_SLOTS_MAX] = {0};
	const struct dsr_msg_load_reply reply = {.lend = held->lend,
	                                         .copies = held->count,
	                                         .runs = 1,
	                                         .wait_ns = 1000,
	                                         .copy_ns = 2000};
	struct dsr_msg_segment segment = {.buffer = held->buffer, .lend = held->lend};
	uint32_t n;

	for (uint32_t i = 0; staging != NULL && i < held->count; i += n) {
		n = held->count - i < held->segment_blocks ? held->count - i : held->segment_blocks;
		for (uint32_t j = i; j < i + n; j++)
			memcpy(staged(a, staging, held, j),
			       dsr_pool_slot(&a->pool, staging->lane, held->refs[j].slot),
			       a->pool.geometry->slot_bytes);
		segment.first = i;
		segment.errs = (struct dsr_i32s){.v = errs, .n = n};
		(void)dsr_peer_send(a->link, held->peer, DSR_MSG_SEGMENT, 0, &segment);
	}
	(void)dsr_peer_reply(a->link, held->peer, &held->env, &reply);
}

static void serve_store(struct actor *a, const struct held *held)
{
	const struct staging *staging = staging_of(a, held->peer->incarnation);
	const int32_t errs[FAKE_SLOTS_MAX] = {0};
	const struct dsr_msg_store_reply reply = {.lend = held->lend,
	                                          .errs = {.v = errs, .n = held->count},
	                                          .runs = 1,
	                                          .wait_ns = 1000,
	                                          .copy_ns = 2000};
	uint32_t slot;

	for (uint32_t i = 0; staging != NULL && i < held->count; i++) {
		slot = held->refs[i].slot;
		memcpy(dsr_pool_slot(&a->pool, staging->lane, slot), staged(a, staging, held, i),
		       a->pool.geometry->slot_bytes);
		atomic_store(dsr_pool_digest(&a->pool, staging->lane, slot), held->digests[i]);
		atomic_store(&a->shared->is_cached[slot], 1);
	}
	(void)dsr_peer_reply(a->link, held->peer, &held->env, &reply);
}

static struct held *hold(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                         struct dsr_refs refs)
{
	struct held *held = &a->held[a->held_count];

	if (a->held_count == HELD_MAX - 1 || refs.n > FAKE_SLOTS_MAX)
		die("hold", -ENOSPC);
	*held = (struct held){.peer = peer, .env = *env, .count = refs.n};
	memcpy(held->refs, refs.v, refs.n * sizeof(*refs.v));
	a->held_count++;
	return held;
}

static void let_go(struct actor *a)
{
	const _Atomic uint32_t *holds =
		a->role == DSR_ROLE_LOAD ? &a->shared->holds_loads : &a->shared->holds_stores;

	for (uint32_t i = 0; i < a->held_count && !atomic_load(holds); i++) {
		if (a->role == DSR_ROLE_LOAD)
			serve_load(a, &a->held[i]);
		else
			serve_store(a, &a->held[i]);
	}
	if (!atomic_load(holds))
		a->held_count = 0;
}

static void on_load(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                    const struct dsr_msg_load *m)
{
	struct held *held = hold(a, peer, env, m->refs);

	held->buffer = m->buffer;
	held->lend = m->lend;
	held->segment_blocks = m->segment_blocks;
	atomic_fetch_add(&a->shared->loads, 1);
	let_go(a);
}

static void on_store(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_store *m)
{
	struct held *held = hold(a, peer, env, m->refs);

	held->buffer = m->buffer;
	held->lend = m->lend;
	memcpy(held->digests, m->digests.v, m->digests.n * sizeof(*m->digests.v));
	atomic_fetch_add(&a->shared->stores, 1);
	let_go(a);
}

static void on_drop(struct actor *a, struct dsr_peer *peer, const struct dsr_env *env,
                    const struct dsr_msg_drop *m)
{
	atomic_fetch_add(&a->shared->drops, m->refs.n);
	(void)dsr_peer_reply_err(a->link, peer, env, 0);
}

static const struct dsr_link_ops ops = {
	.on[DSR_MSG_ENGINE] = DSR_HANDLER(engine, struct actor, on_engine),
	.on[DSR_MSG_REGISTER] = DSR_HANDLER(register_worker, struct actor, on_register),
	.on[DSR_MSG_WORKER_READY] = DSR_HANDLER(worker_ready, struct actor, on_ready),
	.on[DSR_MSG_LOOKUP] = DSR_HANDLER(lookup, struct actor, on_lookup),
	.on[DSR_MSG_LEASE] = DSR_HANDLER(lease, struct actor, on_lease),
	.on[DSR_MSG_RELEASE] = DSR_HANDLER(release, struct actor, on_release),
	.on[DSR_MSG_RESERVE] = DSR_HANDLER(reserve, struct actor, on_reserve),
	.on[DSR_MSG_ABANDON] = DSR_HANDLER(abandon, struct actor, on_abandon),
	.on[DSR_MSG_MISMATCH] = DSR_HANDLER(mismatch, struct actor, on_mismatch),
	.on[DSR_MSG_DRAIN] = DSR_HANDLER(drain, struct actor, on_drain),
	.on[DSR_MSG_ATTACH] = DSR_HANDLER(attach, struct actor, on_attach),
	.on[DSR_MSG_DETACH] = DSR_HANDLER(detach, struct actor, on_detach),
	.on[DSR_MSG_LOAD] = DSR_HANDLER(load, struct actor, on_load),
	.on[DSR_MSG_STORE] = DSR_HANDLER(store, struct actor, on_store),
	.on[DSR_MSG_DROP] = DSR_HANDLER(drop, struct actor, on_drop),
};

/* ---- the process ---- */

static void on_wake(void *self)
{
	struct actor *a = self;
	uint64_t count;

	(void)!read(a->wake_fd, &count, sizeof(count));
	let_go(a);
}

/* The test is gone: so are we. */
static void on_broker(void *self)
{
	struct actor *a = self;
	char device[DSR_DEVICE_NAME_MAX];

	if (dsr_broker_next(a->broker, device) == DSR_BROKER_GONE)
		_exit(0);
}

static void open_actor(struct actor *a, const char *run_dir)
{
	const struct dsr_link_options options = {
		.run_dir = run_dir,
		.role = a->role,
		.device = a->role == DSR_ROLE_SCHEDULER ? "" : FAKE_DEVICE,
		.incarnation = dsr_incarnation_new(),
		.ops = &ops,
		.self = a,
	};
	const struct dsr_broker_hello hello = {
		.role = a->role, .device = options.device, .incarnation = options.incarnation};
	bool by_hand;
	int row, r;

	r = dsr_broker_open(run_dir, &hello, NULL, &a->broker, &row, &by_hand);
	r = r < 0 ? r : dsr_loop_new(&a->loop);
	r = r < 0 ? r : dsr_device_open(FAKE_DEVICE, &a->device);
	r = r < 0 ? r : dsr_link_new(a->loop, &options, &a->link);
	r = r < 0 ? r : dsr_link_bind(a->link);
	r = r < 0 ? r : dsr_loop_add_fd(a->loop, a->wake_fd, on_wake, a);
	r = r < 0 ? r : dsr_loop_add_fd(a->loop, dsr_broker_fd(a->broker), on_broker, a);
	if (r < 0)
		die("open", r);
}

void fake_actor_main(int argc, char **argv)
{
	static struct actor actor;
	uint64_t one = 1;
	int shared_fd, ready_fd;

	if (argc != 7 || strcmp(argv[1], FAKE_ACTOR_ARG) != 0)
		return;
	actor.role = (enum dsr_role)strtol(argv[2], NULL, 10);
	shared_fd = (int)strtol(argv[4], NULL, 10);
	actor.wake_fd = (int)strtol(argv[5], NULL, 10);
	ready_fd = (int)strtol(argv[6], NULL, 10);
	actor.shared =
		mmap(NULL, sizeof(*actor.shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
	if (actor.shared == MAP_FAILED)
		die("mmap", -errno);
	open_actor(&actor, argv[3]);
	(void)!write(ready_fd, &one, sizeof(one));
	(void)dsr_loop_run(actor.loop);
	_exit(1);
}
