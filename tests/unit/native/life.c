/* SPDX-License-Identifier: Apache-2.0 */
#include "life.h"

#include <stdlib.h>
#include <string.h>

#include "digest.h"

static const uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {1, 2, 3};

/* ---- the port ---- */

static struct dsr_key key_of_bin(struct dsr_bin bin)
{
	struct dsr_key key = {0};

	if (bin.n == sizeof(key.b))
		memcpy(key.b, bin.p, sizeof(key.b));
	return key;
}

static int life_send(void *self, uint32_t type, const void *msg, uint64_t cookie)
{
	struct life *life = self;
	const union dsr_msg *m = msg;
	struct life_sent sent = {.type = type, .cookie = cookie};

	if (life->send_error < 0)
		return life->send_error;
	assert_true(life->sent_count < LIFE_SENT_MAX);
	if (type == DSR_MSG_LOOKUP) {
		sent.keys = m->lookup.keys.n;
		sent.first_key = m->lookup.keys.v[0];
	} else if (type == DSR_MSG_LEASE) {
		sent.id = m->lease.lease;
		sent.keys = m->lease.keys.n;
		sent.first_key = m->lease.keys.v[0];
		sent.has_parent = m->lease.parent.n > 0;
		sent.parent = key_of_bin(m->lease.parent);
	} else if (type == DSR_MSG_RELEASE) {
		sent.id = m->release.leases.v[0];
		sent.keys = m->release.leases.n;
	} else if (type == DSR_MSG_RESERVE) {
		sent.id = m->reserve.reservation;
		sent.keys = m->reserve.keys.n;
		sent.depth = m->reserve.depth;
		sent.first_key = m->reserve.keys.v[0];
		sent.has_parent = m->reserve.parent.n > 0;
		sent.parent = key_of_bin(m->reserve.parent);
	} else if (type == DSR_MSG_ABANDON) {
		sent.id = m->abandon.reservation;
		sent.refs = m->abandon.refs.n;
		sent.reason = m->abandon.reason;
	}
	life->sent[life->sent_count++] = sent;
	return 0;
}

static void life_wake(void *self)
{
	(void)self; /* tests flush by themselves */
}

static bool life_wait(void *self, uint64_t deadline_ns)
{
	struct life *life = self;

	life->waited_until_ns = deadline_ns;
	life->waits++;
	(void)dsr_lifecycle_flush(&life->lc);
	if (life->on_wait != NULL && life->on_wait(life))
		return true;
	if (life->now_ns < deadline_ns)
		life->now_ns = deadline_ns;
	return false;
}

static void life_count(void *self, enum dsr_counter counter, uint64_t n)
{
	struct life *life = self;

	life->counters[counter] += n;
}

static uint64_t life_now(void *self)
{
	struct life *life = self;

	return life->now_ns;
}

static const struct dsr_lifecycle_port port = {
	.send = life_send,
	.wake = life_wake,
	.wait = life_wait,
	.count = life_count,
	.now_ns = life_now,
};

/* ---- fixtures ---- */

int life_open_world(void **state, uint32_t world)
{
	struct life *life = calloc(1, sizeof(*life));
	const struct dsr_lifecycle_options options = {
		.engine = "engine-0",
		.fingerprint = fingerprint,
		.incarnation = 4711,
		.world = world,
		.lookup_wait_us = 300,
		.load_deadline_ms = 10000,
		.max_requests = 64,
		.port = &port,
		.self = life,
	};

	assert_non_null(life);
	life->now_ns = UINT64_C(1000000000);
	life->grant = UINT32_MAX;
	assert_int_equal(dsr_lifecycle_init(&life->lc, &options), 0);
	assert_int_equal(dsr_pack_new(&life->pack), 0);
	dsr_lifecycle_attached(&life->lc, LIFE_SCHEDULER);
	*state = life;
	return 0;
}

int life_open(void **state)
{
	return life_open_world(state, 1);
}

int life_open_two(void **state)
{
	return life_open_world(state, 2);
}

int life_close(void **state)
{
	struct life *life = *state;

	dsr_lifecycle_done(&life->lc);
	dsr_pack_free(&life->pack);
	free(life);
	return 0;
}

/* ---- requests ---- */

static void make_hash(const char *name, uint32_t block, uint8_t *ret_hash)
{
	uint64_t x = dsr_digest_of(name, strlen(name), block + 1);

	for (uint32_t i = 0; i < DSR_KEY_BYTES; i++)
		ret_hash[i] = (uint8_t)(x >> (8 * (i % 8)));
}

void life_new(struct life *life, const char *name, uint32_t count)
{
	const struct dsr_bin variant = {0};
	uint8_t *hashes = calloc(count + 1, DSR_KEY_BYTES);

	assert_non_null(hashes);
	for (uint32_t i = 0; i < count; i++)
		make_hash(name, i, hashes + (size_t)i * DSR_KEY_BYTES);
	assert_int_equal(dsr_lifecycle_new_request(&life->lc, name, hashes, count, DSR_KEY_BYTES,
	                                           &variant, 0),
	                 0);
	free(hashes);
}

struct dsr_key life_key(const struct life *life, const char *name, uint32_t block)
{
	uint8_t hash[DSR_KEY_BYTES];
	struct dsr_key mask, key;

	(void)life;
	make_hash(name, block, hash);
	dsr_key_mask(fingerprint, NULL, 0, &mask);
	assert_int_equal(dsr_key_make(&mask, hash, sizeof(hash), &key), 0);
	return key;
}

struct life_sent *life_last(struct life *life, uint32_t type)
{
	(void)dsr_lifecycle_flush(&life->lc);
	for (uint32_t i = life->sent_count; i-- > 0;)
		if (life->sent[i].type == type)
			return &life->sent[i];
	fail_msg("no message of type %u was sent", type);
	return &life->sent[0];
}

uint32_t life_sent_of(struct life *life, uint32_t type)
{
	uint32_t n = 0;

	(void)dsr_lifecycle_flush(&life->lc);
	for (uint32_t i = 0; i < life->sent_count; i++)
		n += life->sent[i].type == type;
	return n;
}

/* ---- answers ---- */

static void fill_refs(struct dsr_ref *refs, uint32_t count, uint32_t base)
{
	for (uint32_t i = 0; i < count; i++)
		refs[i] = (struct dsr_ref){.generation = 100 + base + i,
		                           .slot_seq = 200 + base + i,
		                           .entry = base + i,
		                           .slot = base + i};
}

static void answer_lookup(struct life *life, const struct life_sent *sent, uint32_t hits)
{
	const struct dsr_msg_lookup_reply reply = {.hits = hits, .l1 = hits};

	dsr_lifecycle_on_lookup(&life->lc, sent->cookie, &reply);
}

static void answer_lease(struct life *life, const struct life_sent *sent, uint32_t granted)
{
	struct dsr_ref *refs = calloc(granted + 1, sizeof(*refs));
	const struct dsr_msg_lease_reply reply = {.refs = {.v = refs, .n = granted},
	                                          .ttl_ms = LIFE_TTL_MS};

	assert_non_null(refs);
	fill_refs(refs, granted, 0);
	dsr_lifecycle_on_lease(&life->lc, sent->cookie, &reply);
	free(refs);
}

void life_lookup(struct life *life, uint32_t hits)
{
	answer_lookup(life, life_last(life, DSR_MSG_LOOKUP), hits);
}

void life_lease(struct life *life, uint32_t granted)
{
	answer_lease(life, life_last(life, DSR_MSG_LEASE), granted);
}

void life_reserve(struct life *life, const int32_t *statuses)
{
	const struct life_sent *sent = life_last(life, DSR_MSG_RESERVE);
	struct dsr_ref *refs = calloc(sent->keys, sizeof(*refs));
	struct dsr_msg_reserve_reply reply = {.status = {.v = statuses, .n = sent->keys}};
	uint32_t n = 0;

	assert_non_null(refs);
	for (uint32_t i = 0; i < sent->keys; i++)
		n += statuses[i] == 0;
	fill_refs(refs, n, 50);
	reply.refs = (struct dsr_refs){.v = refs, .n = n};
	dsr_lifecycle_on_reserve(&life->lc, sent->cookie, &reply);
	free(refs);
}

void life_reserve_all(struct life *life)
{
	int32_t *zeros = calloc(life_last(life, DSR_MSG_RESERVE)->keys, sizeof(*zeros));

	assert_non_null(zeros);
	life_reserve(life, zeros);
	free(zeros);
}

bool life_answer_all(struct life *life)
{
	bool has_answered = false;

	if (life->answered > life->sent_count)
		life->answered = 0; /* the test forgot what was sent */
	life->now_ns += 50000;
	while (life->answered < life->sent_count) {
		struct life_sent sent = life->sent[life->answered++];

		if (sent.type == DSR_MSG_LOOKUP)
			answer_lookup(life, &sent, life->hits);
		else if (sent.type == DSR_MSG_LEASE)
			answer_lease(life, &sent,
			             sent.keys < life->grant ? sent.keys : life->grant);
		else
			continue;
		has_answered = true;
	}
	return has_answered;
}

/* ---- steps ---- */

struct dsr_meta life_meta(struct life *life)
{
	struct dsr_meta meta;
	const void *bytes;
	size_t length;

	(void)dsr_lifecycle_flush(&life->lc);
	assert_int_equal(dsr_lifecycle_build_meta(&life->lc, &bytes, &length), 0);
	assert_int_equal(dsr_meta_parse(bytes, length, &meta), 0);
	return meta;
}

uint64_t life_load(struct life *life, const char *name, uint32_t first, uint32_t hits)
{
	uint32_t ids[512], blocks = 0;
	struct dsr_meta meta;

	for (uint32_t i = 0; i < 512; i++)
		ids[i] = i;
	life->on_wait = life_answer_all;
	life->hits = hits;
	assert_int_equal(dsr_lifecycle_match(&life->lc, name, first, &blocks), 0);
	assert_int_equal(blocks, hits - first);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, name, ids, hits + 1, first, blocks), 0);
	meta = life_meta(life);
	assert_int_equal(meta.load_count, 1);
	return dsr_meta_next_job(&meta.loads).id;
}

struct dsr_meta_job life_save(struct life *life, const char *name, uint32_t blocks)
{
	struct dsr_meta meta;
	uint32_t ids[512];

	for (uint32_t i = 0; i < 512; i++)
		ids[i] = 1000 + i;
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, name, ids, blocks, blocks), 0);
	life_reserve_all(life);
	meta = life_meta(life);
	assert_int_equal(meta.save_count, 1);
	return dsr_meta_next_job(&meta.saves);
}

/* ---- outputs ---- */

static int update_with(struct life *life, uint32_t rank)
{
	const void *outputs[64] = {0};
	size_t lengths[64] = {0};

	assert_int_equal(dsr_pack_result(life->pack, &outputs[rank], &lengths[rank]), 0);
	return dsr_lifecycle_update(&life->lc, outputs, lengths, life->lc.options.world);
}

int life_report_load(struct life *life, uint32_t rank, uint64_t id, uint32_t count,
                     const uint32_t *failed, uint32_t failed_count)
{
	dsr_output_write_head(life->pack, "engine-0", rank, life->lc.options.world);
	dsr_output_write_count(life->pack, 1);
	dsr_output_write_load(life->pack, life->lc.options.incarnation, id, count, failed_count);
	for (uint32_t i = 0; i < failed_count; i++) {
		dsr_pack_le32(life->pack, failed[i]);
		dsr_pack_le32(life->pack, DSR_REASON_DIGEST);
	}
	dsr_output_write_count(life->pack, 0);
	return update_with(life, rank);
}

int life_report_save(struct life *life, uint32_t rank, uint64_t id, const uint8_t *results,
                     uint32_t count)
{
	dsr_output_write_head(life->pack, "engine-0", rank, life->lc.options.world);
	dsr_output_write_count(life->pack, 0);
	dsr_output_write_count(life->pack, 1);
	dsr_output_write_save(life->pack, life->lc.options.incarnation, id, results, count);
	return update_with(life, rank);
}

int life_report_stored(struct life *life, uint32_t rank, uint64_t id, uint32_t count)
{
	uint8_t results[512] = {0};

	assert_true(count <= sizeof(results));
	return life_report_save(life, rank, id, results, count);
}

uint32_t life_events(struct life *life, enum daser_block_fate fate, uint32_t reason)
{
	struct daser_block_event event;
	uint32_t n = 0;

	while (dsr_events_take(&life->lc.events, &event, 1) == 1)
		n += event.fate == (uint32_t)fate &&
		     (fate != DASER_BLOCK_DROPPED || event.reason == reason);
	return n;
}
