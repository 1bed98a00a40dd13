/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

struct world world;
struct dsr_ref world_refs[64];
uint32_t world_ref_count;

static const uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {7};

/* ---- what the scheduler calls ---- */

uint64_t __wrap_dsr_now_ns(void);
int __wrap_dsr_peer_send(struct dsr_link *link, struct dsr_peer *peer, uint32_t type, uint64_t req,
                         const void *msg);
int __wrap_dsr_peer_request(struct dsr_link *link, struct dsr_peer *peer, uint32_t type,
                            const void *msg, uint64_t deadline_ms, uint64_t cookie);
int __wrap_dsr_peer_reply_err(struct dsr_link *link, struct dsr_peer *peer,
                              const struct dsr_env *env, int err);
uint64_t __wrap_dsr_link_cookie(const struct dsr_link *link);
int __wrap_dsr_broker_put(struct dsr_broker *broker, const char *name, int fd);
int __wrap_dsr_broker_get(struct dsr_broker *broker, const char *name);
int __wrap_dsr_broker_drop(struct dsr_broker *broker, const char *name);
int __wrap_dsr_broker_spawn(struct dsr_broker *broker, const char *device);
int __wrap_dsr_broker_retire(struct dsr_broker *broker, const char *device);
int __wrap_dsr_broker_kill(struct dsr_broker *broker, enum dsr_role role, const char *device,
                           uint64_t incarnation, const char *why);
int __wrap_dsr_timer_new(struct dsr_loop *loop, dsr_loop_fn *fn, void *self,
                         struct dsr_timer **ret_timer);
void __wrap_dsr_timer_every(struct dsr_timer *timer, uint64_t period_ns);
void __wrap_dsr_timer_free(struct dsr_timer **timer);

static struct {
	dsr_loop_fn *fn;
	void *self;
	uint64_t period_ns;
} timer;

uint64_t __wrap_dsr_now_ns(void)
{
	return world.now_ns;
}

int __wrap_dsr_timer_new(struct dsr_loop *loop, dsr_loop_fn *fn, void *self,
                         struct dsr_timer **ret_timer)
{
	(void)loop;
	timer.fn = fn;
	timer.self = self;
	*ret_timer = (struct dsr_timer *)&timer;
	return 0;
}

void __wrap_dsr_timer_every(struct dsr_timer *t, uint64_t period_ns)
{
	assert_ptr_equal(t, &timer);
	timer.period_ns = period_ns;
}

void __wrap_dsr_timer_free(struct dsr_timer **t)
{
	*t = NULL;
	timer.fn = NULL;
}

static void copy_slices(struct world_sent *sent)
{
	struct dsr_refs *refs = NULL;
	struct dsr_str *text = NULL;

	if (sent->type == DSR_MSG_LEASE_REPLY)
		refs = &sent->msg.lease_reply.refs;
	if (sent->type == DSR_MSG_RESERVE_REPLY)
		refs = &sent->msg.reserve_reply.refs;
	if (sent->type == DSR_MSG_CANCEL)
		refs = &sent->msg.cancel.refs;
	if (sent->type == DSR_MSG_ENGINE_REPLY)
		text = &sent->msg.engine_reply.reason;
	if (sent->type == DSR_MSG_REGISTER_REPLY)
		text = &sent->msg.register_worker_reply.reason;
	if (sent->type == DSR_MSG_RESET_REPLY)
		text = &sent->msg.reset_reply.reason;
	if (refs != NULL && refs->n > 0) {
		assert_true(refs->n <= 64);
		memcpy(sent->refs, refs->v, refs->n * sizeof(sent->refs[0]));
		refs->v = sent->refs;
	}
	if (sent->type == DSR_MSG_RESERVE_REPLY && sent->msg.reserve_reply.status.n > 0) {
		struct dsr_i32s *status = &sent->msg.reserve_reply.status;

		assert_true(status->n <= 64);
		memcpy(sent->status, status->v, status->n * sizeof(sent->status[0]));
		status->v = sent->status;
	}
	if (text != NULL) {
		assert_true(text->n < sizeof(sent->text));
		memcpy(sent->text, text->p, text->n);
		text->p = sent->text;
	}
}

static void record(struct dsr_peer *peer, uint32_t type, const void *msg, uint64_t req,
                   uint64_t cookie)
{
	struct world_sent *sent = &world.sent[world.sent_count++];

	assert_true(world.sent_count < WORLD_SENT);
	memset(sent, 0, sizeof(*sent));
	sent->peer = peer;
	sent->type = type;
	sent->req = req;
	sent->cookie = cookie;
	memcpy(&sent->msg, msg, dsr_msg_info(type)->size);
	copy_slices(sent);
}

int __wrap_dsr_peer_send(struct dsr_link *link, struct dsr_peer *peer, uint32_t type, uint64_t req,
                         const void *msg)
{
	(void)link;
	record(peer, type, msg, req, 0);
	return 0;
}

int __wrap_dsr_peer_request(struct dsr_link *link, struct dsr_peer *peer, uint32_t type,
                            const void *msg, uint64_t deadline_ms, uint64_t cookie)
{
	(void)link;
	assert_true(deadline_ms > 0);
	if (world.request_err != 0)
		return world.request_err;
	record(peer, type, msg, 0, cookie);
	return 0;
}

int __wrap_dsr_peer_reply_err(struct dsr_link *link, struct dsr_peer *peer,
                              const struct dsr_env *env, int err)
{
	union dsr_msg msg = {0};

	(void)link;
	memcpy(&msg, &err, sizeof(err)); /* the first field of every reply */
	record(peer, env->type + 1, &msg, env->req, 0);
	return 0;
}

uint64_t __wrap_dsr_link_cookie(const struct dsr_link *link)
{
	(void)link;
	return world.cookie;
}

static int object_find(const char *name)
{
	for (int i = 0; i < 8; i++)
		if (strcmp(world.objects[i].name, name) == 0)
			return i;
	return -1;
}

int __wrap_dsr_broker_put(struct dsr_broker *broker, const char *name, int fd)
{
	int at = object_find("");

	(void)broker;
	if (world.put_err != 0)
		return world.put_err;
	if (object_find(name) != -1)
		return -EEXIST;
	assert_true(at >= 0);
	(void)snprintf(world.objects[at].name, sizeof(world.objects[at].name), "%s", name);
	world.objects[at].fd = dup(fd);
	return 0;
}

int __wrap_dsr_broker_get(struct dsr_broker *broker, const char *name)
{
	int at = object_find(name);

	(void)broker;
	return at == -1 ? -ENOENT : dup(world.objects[at].fd);
}

int __wrap_dsr_broker_drop(struct dsr_broker *broker, const char *name)
{
	int at = object_find(name);

	(void)broker;
	if (at == -1)
		return -ENOENT;
	(void)close(world.objects[at].fd);
	world.objects[at].name[0] = '\0';
	return 0;
}

static void note(const char *what, const char *device)
{
	size_t at = strlen(world.calls);

	(void)snprintf(world.calls + at, sizeof(world.calls) - at, "%s %s;", what, device);
}

int __wrap_dsr_broker_spawn(struct dsr_broker *broker, const char *device)
{
	(void)broker;
	if (world.spawn_err == 0)
		note("spawn", device);
	return world.spawn_err;
}

int __wrap_dsr_broker_retire(struct dsr_broker *broker, const char *device)
{
	(void)broker;
	note("retire", device);
	return 0;
}

int __wrap_dsr_broker_kill(struct dsr_broker *broker, enum dsr_role role, const char *device,
                           uint64_t incarnation, const char *why)
{
	char text[64];

	(void)broker;
	assert_non_null(why);
	(void)snprintf(text, sizeof(text), "%s %llu", device, (unsigned long long)incarnation);
	note(dsr_role_name(role), text);
	return 0;
}

/* ---- life ---- */

static void open_self(void)
{
	world.self = calloc(1, dsr_scheduler_ops.self_size);
	assert_non_null(world.self);
	assert_int_equal(dsr_scheduler_ops.open(world.self, &world.rt), 0);
}

static void close_self(void)
{
	dsr_scheduler_ops.close(world.self);
	free(world.self);
	world.self = NULL;
}

static void peer(struct dsr_peer *p, enum dsr_role role, const char *device, uint64_t incarnation)
{
	*p = (struct dsr_peer){.role = role, .incarnation = incarnation, .pid = getpid()};
	(void)snprintf(p->device, sizeof(p->device), "%s", device);
}

int world_setup(void **state)
{
	static const char *const devices[] = {"host:0", "host:1"};
	int fd;

	(void)state;
	memset(&world, 0, sizeof(world));
	world.now_ns = 1000 * SECOND;
	dsr_options_init(&world.rt.options);
	world.rt.options.l1_size = 6u << 20;
	world.rt.incarnation = 1000000;
	assert_int_equal(dsr_faults_new(&world.rt.faults), 0);
	fd = dsr_scheduler_ops.make_control(&world.rt);
	assert_true(fd >= 0);
	assert_int_equal(dsr_control_attach(fd, true, &world.rt.control, NULL, 0), 0);
	(void)close(fd);
	world.rt.row = &world.rt.control.rows[0];
	world.rt.counters = &world.rt.control.counters[0];
	peer(&world.engine, DSR_ROLE_ENGINE, "", 500);
	peer(&world.ctl, DSR_ROLE_CTL, "", 900);
	for (uint32_t i = 0; i < 2; i++) {
		peer(&world.workers[i], DSR_ROLE_WORKER, devices[i], 510 + i);
		peer(&world.loads[i], DSR_ROLE_LOAD, devices[i], 600 + i);
		peer(&world.stores[i], DSR_ROLE_STORE, devices[i], 700 + i);
	}
	open_self();
	return 0;
}

int world_teardown(void **state)
{
	(void)state;
	close_self();
	for (int i = 0; i < 8; i++)
		if (world.objects[i].name[0] != '\0')
			(void)close(world.objects[i].fd);
	dsr_control_detach(&world.rt.control);
	dsr_faults_free(&world.rt.faults);
	return 0;
}

void world_restart(void)
{
	close_self();
	world.rt.incarnation += 1000;
	world_forget_sent();
	open_self();
}

void world_call(struct dsr_peer *from, uint32_t type, const void *msg)
{
	struct dsr_env env = {.type = type, .from = from->incarnation, .to = world.rt.incarnation};

	env.req = ++world.req;
	assert_non_null(dsr_scheduler_ops.link->on[type]);
	dsr_scheduler_ops.link->on[type](world.self, from, &env, msg);
}

const union dsr_msg *world_last(uint32_t type)
{
	static const union dsr_msg none;

	for (uint32_t i = world.sent_count; i-- > 0;)
		if (world.sent[i].type == type)
			return &world.sent[i].msg;
	fail_msg("no message of type %u was sent", type);
	return &none;
}

uint32_t world_count(uint32_t type)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < world.sent_count; i++)
		count += world.sent[i].type == type;
	return count;
}

void world_forget_sent(void)
{
	world.sent_count = 0;
}

void world_tick(uint32_t seconds)
{
	assert_int_equal(timer.period_ns, SECOND / 10);
	for (uint32_t i = 0; i < 10 * seconds; i++) {
		world.now_ns += timer.period_ns;
		timer.fn(timer.self);
	}
}

/* ---- messages ---- */

int world_engine(void)
{
	struct dsr_msg_engine m = {
		.engine = {.p = "llm", .n = 3},
		.fingerprint = {.p = fingerprint, .n = sizeof(fingerprint)},
		.world = 2,
	};

	world_call(&world.engine, DSR_MSG_ENGINE, &m);
	return world_last(DSR_MSG_ENGINE_REPLY)->engine_reply.err;
}

int world_register(uint32_t rank)
{
	struct dsr_msg_register_worker m = {
		.engine = {.p = "llm", .n = 3},
		.fingerprint = {.p = fingerprint, .n = sizeof(fingerprint)},
		.rank = rank,
		.world = 2,
		.lane = rank,
		.lanes = 2,
		.writer = 1,
		.slot_bytes = 4096,
		.block_tokens = 16,
		.device = {.p = world.workers[rank].device, .n = 6},
	};

	world_call(&world.workers[rank], DSR_MSG_REGISTER, &m);
	return world_last(DSR_MSG_REGISTER_REPLY)->register_worker_reply.err;
}

int world_ready(uint32_t rank)
{
	struct dsr_msg_worker_ready m = {
		.engine = {.p = "llm", .n = 3},
		.rank = rank,
		.load = world.loads[rank].incarnation,
		.store = world.stores[rank].incarnation,
		.canary = 1,
	};

	world_call(&world.workers[rank], DSR_MSG_WORKER_READY, &m);
	return world_last(DSR_MSG_WORKER_READY_REPLY)->worker_ready_reply.err;
}

uint32_t world_lookup(uint64_t first, uint32_t count, int *ret_err)
{
	struct dsr_key keys[RIG_KEYS];
	struct dsr_msg_lookup m = {.keys = {.v = keys, .n = count}};

	rig_chain(keys, first, count);
	world_call(&world.engine, DSR_MSG_LOOKUP, &m);
	*ret_err = world_last(DSR_MSG_LOOKUP_REPLY)->lookup_reply.err;
	return world_last(DSR_MSG_LOOKUP_REPLY)->lookup_reply.hits;
}

static void keep_refs(const struct dsr_refs *refs)
{
	world_ref_count = refs->n;
	if (refs->n > 0)
		memcpy(world_refs, refs->v, refs->n * sizeof(world_refs[0]));
}

int world_reserve(uint64_t first, uint32_t count, const struct dsr_key *parent, uint32_t depth)
{
	struct dsr_key keys[RIG_KEYS];
	struct dsr_msg_reserve m = {
		.reservation = ++world.reservation,
		.keys = {.v = keys, .n = count},
		.depth = depth,
	};
	uint32_t before = world_count(DSR_MSG_RESERVE_REPLY);

	rig_chain(keys, first, count);
	if (parent != NULL)
		m.parent = (struct dsr_bin){.p = parent->b, .n = DSR_KEY_BYTES};
	world_call(&world.engine, DSR_MSG_RESERVE, &m);
	if (world_count(DSR_MSG_RESERVE_REPLY) == before)
		return -ETIMEDOUT;
	keep_refs(&world_last(DSR_MSG_RESERVE_REPLY)->reserve_reply.refs);
	return world_last(DSR_MSG_RESERVE_REPLY)->reserve_reply.err;
}

int world_lease(uint64_t id, uint64_t first, uint32_t count)
{
	struct dsr_key keys[RIG_KEYS];
	struct dsr_msg_lease m = {.lease = id, .keys = {.v = keys, .n = count}};

	rig_chain(keys, first, count);
	world_call(&world.engine, DSR_MSG_LEASE, &m);
	keep_refs(&world_last(DSR_MSG_LEASE_REPLY)->lease_reply.refs);
	return world_last(DSR_MSG_LEASE_REPLY)->lease_reply.err;
}

void world_commit(uint32_t rank, uint32_t first, uint32_t count)
{
	struct dsr_msg_commit m = {
		.engine = world.engine.incarnation,
		.reservation = world.reservation,
		.lane = rank,
		.refs = {.v = world_refs + first, .n = count},
	};

	world_call(&world.stores[rank], DSR_MSG_COMMIT, &m);
}

static void put_row(uint32_t row, const struct dsr_peer *of)
{
	struct dsr_actor_row *r = &world.rt.control.rows[row];

	r->role = of->role;
	memcpy(r->device, of->device, sizeof(r->device));
	r->pid = getpid();
	assert_int_equal(dsr_start_ticks(getpid(), &r->start_ticks), 0);
	r->progress_ns = UINT64_MAX; /* always young */
	r->state = DSR_ACTOR_READY;
	r->incarnation = of->incarnation;
}

void world_serve(void)
{
	assert_int_equal(world_engine(), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(world_register(i), 0);
		put_row(2 + 2 * i, &world.loads[i]);
		put_row(3 + 2 * i, &world.stores[i]);
		dsr_scheduler_ops.link->peer_ready(world.self, &world.loads[i]);
		dsr_scheduler_ops.link->peer_ready(world.self, &world.stores[i]);
		assert_int_equal(world_ready(i), 0);
	}
	world_forget_sent();
}

void world_store(uint64_t first, uint32_t count)
{
	assert_int_equal(world_reserve(first, count, NULL, 0), 0);
	world_commit(0, 0, world_ref_count);
	world_commit(1, 0, world_ref_count);
}

/* Every CANCEL that was sent so far. */
void world_answer_cancels(int err)
{
	struct dsr_msg_cancel_reply m = {.err = err};
	uint32_t count = world.sent_count;

	for (uint32_t i = 0; i < count; i++) {
		if (world.sent[i].type != DSR_MSG_CANCEL)
			continue;
		world.sent[i].type = 0;
		world.cookie = world.sent[i].cookie;
		world_call(world.sent[i].peer, DSR_MSG_CANCEL_REPLY, &m);
	}
}
