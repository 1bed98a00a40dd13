/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "entry_table.h"

static int rig_cancel(void *self, uint32_t device, uint64_t cookie, const struct dsr_ref *refs,
                      uint32_t count)
{
	struct rig *rig = self;

	if ((rig->dead >> device & 1) != 0)
		return -EOWNERDEAD;
	if ((rig->refuse >> device & 1) != 0)
		return -EAGAIN;
	assert_true(count > 0);
	assert_true(rig->cancel_count < RIG_CANCELS);
	rig->cancels[rig->cancel_count++] =
		(struct rig_cancel){.device = device, .cookie = cookie, .count = count};
	memcpy(rig->cancels[rig->cancel_count - 1].refs, refs,
	       (count < 64 ? count : 64) * sizeof(*refs));
	return 0;
}

void rig_open_tables(struct rig *rig)
{
	struct dsr_cache_options cache = {
		.entries = rig->entries,
		.entry_count = rig->entry_count,
		.state = &rig->state,
		.counters = &rig->page,
		.policy = &dsr_evict_lru,
		.seed = 7,
	};
	struct dsr_cache_pool pool = {
		.slot_seqs = rig->slot_seqs,
		.slots = rig->slots,
		.lanes = rig->lanes,
		.stored_bytes = 4096,
		.epoch = 3,
	};
	struct dsr_reservations_options reservations = {
		.counters = &rig->page,
		.live_max = 64,
		.kept = 4,
		.answer_bytes = 65536,
		.cancel = rig_cancel,
		.self = rig,
	};

	assert_int_equal(dsr_cache_new(&cache, &rig->cache), 0);
	assert_int_equal(dsr_cache_set_pool(rig->cache, &pool), 0);
	assert_int_equal(dsr_leases_new(rig->cache, 64, &rig->page, &rig->leases), 0);
	reservations.cache = rig->cache;
	assert_int_equal(dsr_reservations_new(&reservations, &rig->reservations), 0);
	dsr_reservations_owner_begin(rig->reservations, RIG_OWNER, RIG_INCARNATION);
	rig->cancel_count = 0;
}

void rig_close_tables(struct rig *rig)
{
	dsr_reservations_free(&rig->reservations);
	dsr_leases_free(&rig->leases);
	dsr_cache_free(&rig->cache);
}

void rig_open(struct rig *rig, uint32_t slots, uint32_t lanes)
{
	memset(rig, 0, sizeof(*rig));
	rig->entry_count = slots;
	rig->slots = slots;
	rig->lanes = lanes;
	rig->entries = calloc(slots, sizeof(*rig->entries));
	rig->seq_memory = calloc(slots, sizeof(*rig->slot_seqs));
	rig->slot_seqs = rig->seq_memory;
	rig->now_ns = 1000;
	assert_non_null(rig->entries);
	assert_non_null(rig->slot_seqs);
	rig_open_tables(rig);
}

void rig_close(struct rig *rig)
{
	rig_close_tables(rig);
	free(rig->entries);
	free(rig->seq_memory);
}

uint64_t rig_counter(const struct rig *rig, enum dsr_counter counter)
{
	return rig->page.v[counter];
}

struct dsr_key rig_key(uint64_t number)
{
	struct dsr_key key = {{0}};

	memcpy(key.b, &number, sizeof(number));
	key.b[31] = 0x5a;
	return key;
}

void rig_chain(struct dsr_key *ret_keys, uint64_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ret_keys[i] = rig_key(first + i);
}

int rig_reserve(struct rig *rig, uint64_t id, const struct dsr_key *keys, uint32_t count,
                const struct dsr_key *parent, uint32_t depth, uint32_t devices)
{
	struct dsr_reserve_request request = {
		.owner = RIG_OWNER,
		.id = id,
		.keys = keys,
		.count = count,
		.parent = parent,
		.depth = depth,
		.devices = devices,
	};
	struct dsr_reserve_answer answer;
	int r = dsr_reservations_reserve(rig->reservations, &request, rig->now_ns, &answer);

	rig->got = 0;
	if (r == 0) {
		assert_true(count <= RIG_KEYS);
		memcpy(rig->status, answer.status, count * sizeof(rig->status[0]));
		memcpy(rig->refs, answer.refs, answer.reserved * sizeof(rig->refs[0]));
		rig->got = answer.reserved;
	}
	dsr_reservations_flush(rig->reservations);
	return r;
}

uint32_t rig_commit(struct rig *rig, uint64_t id, uint32_t lane, uint32_t first, uint32_t count)
{
	struct dsr_lane_report report = {
		.owner = RIG_INCARNATION,
		.id = id,
		.lane = lane,
		.refs = rig->refs + first,
		.count = count,
	};
	uint32_t committed, visible;

	dsr_reservations_commit(rig->reservations, &report, &committed, &visible);
	dsr_reservations_flush(rig->reservations);
	return visible;
}

void rig_store(struct rig *rig, uint64_t id, uint64_t first, uint32_t count)
{
	struct dsr_key keys[RIG_KEYS];

	rig_chain(keys, first, count);
	assert_int_equal(rig_reserve(rig, id, keys, count, NULL, 0, 1), 0);
	for (uint32_t lane = 0; lane < rig->lanes; lane++)
		(void)rig_commit(rig, id, lane, 0, rig->got);
}

int rig_lease(struct rig *rig, uint64_t id, const struct dsr_key *keys, uint32_t count)
{
	struct dsr_lease_request request = {
		.owner = RIG_INCARNATION, .id = id, .keys = keys, .count = count, .ttl_ns = 1000};

	rig->got = 0;
	return dsr_leases_grant(rig->leases, &request, rig->now_ns, rig->refs, &rig->got);
}

bool rig_answer(struct rig *rig, uint32_t device)
{
	for (uint32_t i = 0; i < rig->cancel_count; i++) {
		uint64_t cookie = rig->cancels[i].cookie;

		if (rig->cancels[i].device != device)
			continue;
		memmove(&rig->cancels[i], &rig->cancels[i + 1],
		        (--rig->cancel_count - i) * sizeof(rig->cancels[0]));
		dsr_reservations_answered(rig->reservations, cookie, device);
		dsr_reservations_flush(rig->reservations);
		return true;
	}
	return false;
}

enum dsr_entry_state rig_state(const struct rig *rig, uint64_t number)
{
	struct dsr_key key = rig_key(number);
	uint32_t entry = dsr_cache_find(rig->cache, &key);

	return entry == DSR_ENTRY_NONE ? DSR_ENTRY_FREE : dsr_cache_state(rig->cache, entry);
}

struct dsr_cache_counts rig_counts(const struct rig *rig)
{
	struct dsr_cache_counts counts;

	dsr_cache_count(rig->cache, &counts);
	return counts;
}

void rig_check(const struct rig *rig)
{
	struct dsr_cache_counts counts = rig_counts(rig), seen = {0};
	uint8_t *owned = calloc(rig->slots, 1);
	uint32_t quarantined = 0;
	uint64_t all = rig->lanes == 64 ? UINT64_MAX : (UINT64_C(1) << rig->lanes) - 1;

	assert_non_null(owned);
	for (uint32_t i = 0; i < rig->entry_count; i++) {
		const struct dsr_entry *shared = &rig->entries[i];

		assert_int_equal(shared->seq % 2, 0);
		if (shared->state == DSR_ENTRY_FREE)
			continue;
		assert_true(shared->l1_slot < rig->slots);
		assert_int_equal(owned[shared->l1_slot]++, 0);
		assert_int_equal(shared->slot_seq, rig->slot_seqs[shared->l1_slot]);
		assert_int_equal(dsr_cache_state(rig->cache, i), shared->state);
		if (shared->generation == 0) { /* of the quarantine after a restart */
			assert_int_equal(shared->state, DSR_ENTRY_ABORTING);
			quarantined++;
			continue;
		}
		assert_int_equal(dsr_cache_find(rig->cache, &shared->key), i);
		assert_int_equal(dsr_cache_lanes(rig->cache, i), shared->lanes_stored);
		if (shared->state == DSR_ENTRY_VISIBLE)
			assert_int_equal(shared->lanes_stored, all);
		seen.visible += shared->state == DSR_ENTRY_VISIBLE;
		seen.reserved += shared->state == DSR_ENTRY_RESERVED;
		seen.aborting += shared->state == DSR_ENTRY_ABORTING;
		seen.leased += dsr_cache_pins(rig->cache, i) > 0;
	}
	free(owned);
	assert_int_equal(seen.visible, counts.visible);
	assert_int_equal(seen.reserved, counts.reserved);
	assert_int_equal(seen.aborting, counts.aborting);
	assert_int_equal(seen.leased, counts.leased);
	assert_int_equal(quarantined + counts.aborting, counts.slots_quarantined);
	assert_int_equal(counts.visible + counts.reserved + counts.slots_free +
	                         counts.slots_quarantined,
	                 rig->slots);
}

uint64_t rig_seed(void)
{
	const char *text = getenv("DSR_TEST_SEED");
	uint64_t seed = (uint64_t)time(NULL);

	if (text != NULL)
		seed = strtoull(text, NULL, 0);
	print_message("DSR_TEST_SEED=%" PRIu64 "\n", seed);
	return seed;
}

/* splitmix64 */
uint64_t rig_random(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}
