/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "digest.h"
#include "entry_table.h"
#include "util.h"

#define DEADLINE_NS UINT64_C(10000000000)

/* ---- the link and the broker, as the actor sees them ---- */

int __wrap_dsr_peer_send(struct dsr_link *link, struct dsr_peer *peer, uint32_t type, uint64_t req,
                         const void *msg);
int __wrap_dsr_peer_request(struct dsr_link *link, struct dsr_peer *peer, uint32_t type,
                            const void *msg, uint64_t deadline_ms, uint64_t cookie);
int __wrap_dsr_peer_reply_err(struct dsr_link *link, struct dsr_peer *peer,
                              const struct dsr_env *env, int err);
struct dsr_peer *__wrap_dsr_link_peer(struct dsr_link *link, enum dsr_role role,
                                      const char *device);
int __wrap_dsr_link_connect(struct dsr_link *link, enum dsr_role role, const char *device);
uint64_t __wrap_dsr_link_cookie(const struct dsr_link *link);
int __wrap_dsr_broker_get(struct dsr_broker *broker, const char *name);

static void *world_copy(const void *array, size_t bytes)
{
	void *copy = malloc(bytes + 1);

	assert_non_null(copy);
	if (bytes > 0)
		memcpy(copy, array, bytes);
	return copy;
}

static void world_keep_arrays(struct world_message *m)
{
	struct dsr_str *text;

	switch (m->type) {
	case DSR_MSG_SEGMENT:
		m->array = world_copy(m->body.segment.errs.v,
		                      m->body.segment.errs.n * sizeof(int32_t));
		m->body.segment.errs.v = m->array;
		break;
	case DSR_MSG_STORE_REPLY:
		m->array = world_copy(m->body.store_reply.errs.v,
		                      m->body.store_reply.errs.n * sizeof(int32_t));
		m->body.store_reply.errs.v = m->array;
		break;
	case DSR_MSG_COMMIT:
		m->array = world_copy(m->body.commit.refs.v,
		                      m->body.commit.refs.n * sizeof(struct dsr_ref));
		m->body.commit.refs.v = m->array;
		break;
	case DSR_MSG_ABORT:
		m->array = world_copy(m->body.abort.refs.v,
		                      m->body.abort.refs.n * sizeof(struct dsr_ref));
		m->body.abort.refs.v = m->array;
		break;
	case DSR_MSG_ATTACH_REPLY:
		text = &m->body.attach_reply.reason;
		assert_true(text->n < sizeof(m->text));
		if (text->n > 0)
			memcpy(m->text, text->p, text->n);
		break;
	default:
		break;
	}
}

static struct world_message *world_add(struct world *w)
{
	if (w->message_count == w->message_capacity) {
		w->message_capacity = w->message_capacity * 2 + 64;
		w->messages = realloc(w->messages, w->message_capacity * sizeof(*w->messages));
		assert_non_null(w->messages);
	}
	memset(&w->messages[w->message_count], 0, sizeof(*w->messages));
	return &w->messages[w->message_count++];
}

int __wrap_dsr_peer_send(struct dsr_link *link, struct dsr_peer *peer, uint32_t type, uint64_t req,
                         const void *msg)
{
	struct world *w = (struct world *)(void *)link;
	struct world_message *m;

	if (peer == w->unreachable) {
		if (w->sends_left == 0)
			return w->send_error;
		w->sends_left--;
	}
	m = world_add(w);
	m->peer = peer;
	m->type = type;
	m->req = req;
	memcpy(&m->body, msg, dsr_msg_info(type)->size);
	world_keep_arrays(m);
	return 0;
}

int __wrap_dsr_peer_request(struct dsr_link *link, struct dsr_peer *peer, uint32_t type,
                            const void *msg, uint64_t deadline_ms, uint64_t cookie)
{
	struct world *w = (struct world *)(void *)link;
	int r;

	assert_true(deadline_ms > 0);
	r = __wrap_dsr_peer_send(link, peer, type, 0, msg);
	if (r == 0)
		w->messages[w->message_count - 1].cookie = cookie;
	return r;
}

int __wrap_dsr_peer_reply_err(struct dsr_link *link, struct dsr_peer *peer,
                              const struct dsr_env *env, int err)
{
	union dsr_msg msg = {0};

	/* `err` is the first field of every reply. */
	memcpy(&msg, &err, sizeof(err));
	return __wrap_dsr_peer_send(link, peer, env->type + 1, env->req, &msg);
}

struct dsr_peer *__wrap_dsr_link_peer(struct dsr_link *link, enum dsr_role role, const char *device)
{
	assert_int_equal(role, DSR_ROLE_SCHEDULER);
	assert_string_equal(device, "");
	return ((struct world *)(void *)link)->present_scheduler;
}

int __wrap_dsr_link_connect(struct dsr_link *link, enum dsr_role role, const char *device)
{
	(void)link;
	assert_int_equal(role, DSR_ROLE_SCHEDULER);
	assert_string_equal(device, "");
	return 0;
}

uint64_t __wrap_dsr_link_cookie(const struct dsr_link *link)
{
	return ((const struct world *)(const void *)link)->cookie;
}

int __wrap_dsr_broker_get(struct dsr_broker *broker, const char *name)
{
	struct world *w = (struct world *)(void *)broker;

	if (strcmp(name, "pool/7") == 0)
		return dup(w->pool_fd);
	for (uint32_t i = 0; i < w->staging_count; i++)
		if (strcmp(name, w->stagings[i].name) == 0)
			return dup(w->stagings[i].memory.fd);
	return -ENOENT;
}

/* ---- making a world ---- */

static size_t world_count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	(void)closedir(dir);
	return count;
}

static size_t world_count_maps(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	size_t count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL)
		count += strstr(line, "memfd:") != NULL;
	(void)fclose(file);
	return count;
}

static void world_make_pool(struct world *w, uint64_t slot_bytes, uint32_t lanes, uint32_t slots)
{
	uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {1};
	struct dsr_pool_request request = {
		.fingerprint = fingerprint,
		.slot_bytes = slot_bytes,
		.budget_bytes = (UINT64_C(8) << 20) + lanes * (UINT64_C(4) << 20) +
	                        lanes * slots * (slot_bytes + 8192),
		.epoch = WORLD_EPOCH,
		.lanes = lanes,
		.block_tokens = 16,
		.max_slots = slots,
	};
	char why[256] = "";

	w->pool_fd = dsr_pool_create(&request, why, sizeof(why));
	if (w->pool_fd < 0)
		fail_msg("pool: %s", why);
	assert_int_equal(dsr_pool_attach(w->pool_fd, &w->pool, why, sizeof(why)), 0);
	assert_int_equal(w->pool.geometry->slots, slots);
	atomic_store(&w->rt.control.scheduler->pool_epoch, WORLD_EPOCH);
}

static void world_make_peers(struct world *w)
{
	w->scheduler =
		(struct dsr_peer){.role = DSR_ROLE_SCHEDULER, .incarnation = 1000, .is_ours = true};
	w->ctl = (struct dsr_peer){.role = DSR_ROLE_CTL, .incarnation = 2000};
	for (uint32_t i = 0; i < 80; i++)
		w->workers[i] = (struct dsr_peer){.role = DSR_ROLE_WORKER, .incarnation = 3000 + i};
	w->present_scheduler = &w->scheduler;
}

struct world *world_new(const struct dsr_actor_ops *ops, uint64_t slot_bytes, uint32_t lanes,
                        uint32_t slots)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->ops = ops;
	w->next_req = 1;
	w->fds_before = world_count_fds();
	w->maps_before = world_count_maps();
	w->control_fd = dsr_control_create(WORLD_SLOTS_MAX);
	assert_true(w->control_fd >= 0);
	assert_int_equal(dsr_control_attach(w->control_fd, true, &w->rt.control, NULL, 0), 0);
	world_make_pool(w, slot_bytes, lanes, slots);
	world_make_peers(w);
	assert_int_equal(dsr_device_open("host:0", &w->device), 0);
	assert_int_equal(dsr_loop_new(&w->rt.loop), 0);
	assert_int_equal(dsr_faults_new(&w->rt.faults), 0);
	w->rt.link = (struct dsr_link *)(void *)w;
	w->rt.broker = (struct dsr_broker *)(void *)w;
	w->rt.row = &w->rt.control.rows[2];
	w->rt.counters = &w->rt.control.counters[2];
	w->rt.incarnation = 500;
	(void)snprintf(w->rt.device, sizeof(w->rt.device), "host:0");
	w->self = calloc(1, ops->self_size);
	assert_non_null(w->self);
	assert_int_equal(ops->open(w->self, &w->rt), 0);
	return w;
}

void world_free(struct world *w)
{
	w->ops->close(w->self);
	free(w->self);
	for (uint32_t i = 0; i < w->staging_count; i++)
		dsr_device_release(w->device, &w->stagings[i].memory);
	dsr_faults_free(&w->rt.faults);
	dsr_loop_free(&w->rt.loop);
	dsr_device_close(&w->device);
	dsr_pool_detach(&w->pool);
	dsr_control_detach(&w->rt.control);
	(void)close(w->pool_fd);
	(void)close(w->control_fd);
	assert_int_equal(world_count_fds(), w->fds_before);
	assert_int_equal(world_count_maps(), w->maps_before);
	for (size_t i = 0; i < w->message_count; i++)
		free(w->messages[i].array);
	free(w->messages);
	free(w);
}

/* ---- being the worker ---- */

struct dsr_msg_attach world_staging(struct world *w, uint32_t i, uint64_t buffer_bytes,
                                    uint32_t buffers, uint32_t lane)
{
	struct world_staging *staging = &w->stagings[w->staging_count];

	assert_true(w->staging_count < 80);
	(void)snprintf(staging->name, sizeof(staging->name), "staging/%" PRIx64 "/%" PRIu32,
	               w->workers[i].incarnation, w->staging_count++);
	staging->buffer_bytes = buffer_bytes;
	staging->buffers = buffers;
	assert_int_equal(dsr_device_alloc(w->device, buffer_bytes * buffers, &staging->memory), 0);
	world_fill(staging->memory.base, 99, WORLD_CANARY);
	return (struct dsr_msg_attach){
		.engine = {.p = "e", .n = 1},
		.rank = i,
		.lane = lane,
		.pool_epoch = WORLD_EPOCH,
		.object = {.p = staging->name, .n = (uint32_t)strlen(staging->name)},
		.buffer_bytes = buffer_bytes,
		.buffers = buffers,
		.canary = dsr_digest_of(staging->memory.base, WORLD_CANARY, 0),
		.canary_bytes = WORLD_CANARY,
	};
}

void world_attach(struct world *w, uint32_t i, uint64_t buffer_bytes, uint32_t buffers,
                  uint32_t lane)
{
	struct dsr_msg_attach attach = world_staging(w, i, buffer_bytes, buffers, lane);
	struct world_message *m;

	(void)world_tell(w, &w->workers[i], DSR_MSG_ATTACH, &attach);
	m = world_expect(w, DSR_MSG_ATTACH_REPLY);
	if (m->body.attach_reply.err != 0)
		fail_msg("attach: %d %s", m->body.attach_reply.err, m->text);
	assert_ptr_equal(m->peer, &w->workers[i]);
}

uint8_t *world_buffer(struct world *w, uint32_t i, uint32_t buffer)
{
	char prefix[64];

	(void)snprintf(prefix, sizeof(prefix), "staging/%" PRIx64 "/", w->workers[i].incarnation);
	for (uint32_t s = w->staging_count; s-- > 0;)
		if (strncmp(w->stagings[s].name, prefix, strlen(prefix)) == 0)
			return w->stagings[s].memory.base + w->stagings[s].buffer_bytes * buffer;
	fail_msg("worker %u has no staging", i);
	return NULL;
}

uint64_t world_tell(struct world *w, struct dsr_peer *from, uint32_t type, const void *msg)
{
	struct dsr_env env = {.major = 1,
	                      .type = type,
	                      .from = from->incarnation,
	                      .to = w->rt.incarnation,
	                      .req = w->next_req++};

	assert_non_null(w->ops->link->on[type]);
	w->ops->link->on[type](w->self, from, &env, msg);
	return env.req;
}

void world_answer(struct world *w, struct dsr_peer *from, const struct world_message *request,
                  const void *msg)
{
	w->cookie = request->cookie;
	(void)world_tell(w, from, request->type + 1, msg);
}

/* ---- being the scheduler ---- */

static void world_write(struct world *w, const struct dsr_ref *ref, uint64_t slot_seq,
                        uint32_t state)
{
	struct dsr_entry entry = {.generation = ref->generation,
	                          .slot_seq = slot_seq,
	                          .l1_slot = ref->slot,
	                          .parent = DSR_ENTRY_NONE,
	                          .state = state};

	dsr_entry_write(&w->rt.control.entries[ref->entry], &entry);
	atomic_store_explicit(&w->pool.slot_seqs[ref->slot], slot_seq, memory_order_release);
}

struct dsr_ref world_bind(struct world *w, uint32_t i, uint32_t slot, uint32_t state)
{
	const uint64_t high = (uint64_t)WORLD_EPOCH << DSR_EPOCH_SHIFT;
	struct dsr_ref ref = {.generation = high + i + 1,
	                      .slot_seq = high + 10000 + slot,
	                      .entry = i,
	                      .slot = slot};

	world_write(w, &ref, ref.slot_seq, state);
	return ref;
}

void world_set_state(struct world *w, const struct dsr_ref *ref, uint32_t state)
{
	world_write(w, ref, ref->slot_seq, state);
}

void world_rebind(struct world *w, const struct dsr_ref *ref)
{
	world_write(w, ref, ref->slot_seq + 1000000, DSR_ENTRY_RESERVED);
}

uint8_t *world_slot(struct world *w, uint32_t lane, uint32_t slot)
{
	uint8_t *p = dsr_pool_slot(&w->pool, lane, slot);

	assert_non_null(p);
	return p;
}

/* ---- being the clock ---- */

void world_step(struct world *w)
{
	assert_true(dsr_loop_step(w->rt.loop, 20) >= 0);
}

struct world_message *world_next(struct world *w, uint32_t type)
{
	for (size_t i = w->taken; i < w->message_count; i++) {
		if (w->messages[i].type == type) {
			/* Taken means out of the way: swapped before the untaken ones. */
			struct world_message m = w->messages[i];

			memmove(&w->messages[w->taken + 1], &w->messages[w->taken],
			        (i - w->taken) * sizeof(m));
			w->messages[w->taken] = m;
			return &w->messages[w->taken++];
		}
	}
	return NULL;
}

struct world_message *world_expect(struct world *w, uint32_t type)
{
	uint64_t deadline = dsr_now_ns() + DEADLINE_NS;
	struct world_message *m;

	while ((m = world_next(w, type)) == NULL) {
		if (dsr_now_ns() > deadline)
			fail_msg("no %s within 10 s", dsr_msg_info(type)->name);
		world_step(w);
	}
	return m;
}

uint32_t world_count(struct world *w, uint32_t type)
{
	uint32_t count = 0;

	for (size_t i = w->taken; i < w->message_count; i++)
		count += w->messages[i].type == type;
	return count;
}

void world_until(struct world *w, bool (*done)(struct world *w))
{
	uint64_t deadline = dsr_now_ns() + DEADLINE_NS;

	while (!done(w)) {
		if (dsr_now_ns() > deadline)
			fail_msg("not within 10 s");
		world_step(w);
	}
}

void world_arm(struct world *w, const char *spec)
{
	char why[256] = "";

	if (dsr_faults_arm(w->rt.faults, spec, why, sizeof(why)) < 0)
		fail_msg("%s: %s", spec, why);
}

uint64_t world_counter(struct world *w, enum dsr_counter counter)
{
	return dsr_counters_sum(&w->rt.control, counter);
}

uint8_t world_byte(uint64_t block, uint64_t at)
{
	return (uint8_t)((block * 131 + at * 7 + at / 256 + 1) % 251);
}

void world_fill(uint8_t *dst, uint64_t block, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		dst[i] = world_byte(block, i);
}

bool world_is_filled(const uint8_t *bytes, uint64_t block, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (bytes[i] != world_byte(block, i))
			return false;
	return true;
}
