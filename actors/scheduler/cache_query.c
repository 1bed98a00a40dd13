/* SPDX-License-Identifier: Apache-2.0 */
/* What the cache answers without changing anything. */
#include <stdatomic.h>

#include "cache_rows.h"

#define CACHE_PREFIX_BATCH 32 /* keys looked up before their states are read */

uint32_t dsr_cache_find(const struct dsr_cache *cache, const struct dsr_key *key)
{
	return cache->index == NULL ? DSR_ENTRY_NONE : dsr_index_find(cache->index, key);
}

void dsr_cache_find_all(const struct dsr_cache *cache, const struct dsr_key *keys, uint32_t count,
                        uint32_t *ret_entries)
{
	if (cache->index != NULL) {
		dsr_index_find_all(cache->index, keys, count, ret_entries);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		ret_entries[i] = DSR_ENTRY_NONE;
}

uint32_t dsr_cache_prefix(const struct dsr_cache *cache, const struct dsr_key *keys, uint32_t count,
                          uint32_t *ret_entries)
{
	uint32_t found[CACHE_PREFIX_BATCH];

	for (uint32_t i = 0; i < count; i += CACHE_PREFIX_BATCH) {
		uint32_t n = count - i < CACHE_PREFIX_BATCH ? count - i : CACHE_PREFIX_BATCH;

		dsr_cache_find_all(cache, &keys[i], n, found);
		for (uint32_t k = 0; k < n; k++)
			if (found[k] != DSR_ENTRY_NONE)
				__builtin_prefetch(&cache->rows[found[k]].state);
		for (uint32_t k = 0; k < n; k++) {
			if (found[k] == DSR_ENTRY_NONE || !dsr_cache_is_readable(cache, found[k]))
				return i + k;
			if (ret_entries != NULL)
				ret_entries[i + k] = found[k];
		}
	}
	return count;
}

uint32_t dsr_cache_resolve(const struct dsr_cache *cache, const struct dsr_ref *ref)
{
	const struct cache_row *row;

	if (ref->entry >= cache->rows_used)
		return DSR_ENTRY_NONE;
	row = &cache->rows[ref->entry];
	if (row->state == DSR_ENTRY_FREE || row->generation != ref->generation ||
	    row->slot != ref->slot || row->slot_seq != ref->slot_seq)
		return DSR_ENTRY_NONE;
	return ref->entry;
}

void dsr_cache_ref(const struct dsr_cache *cache, uint32_t entry, struct dsr_ref *ret_ref)
{
	const struct cache_row *row = &cache->rows[entry];

	*ret_ref = (struct dsr_ref){
		.generation = row->generation,
		.slot_seq = row->slot_seq,
		.entry = entry,
		.slot = row->slot,
	};
}

enum dsr_entry_state dsr_cache_state(const struct dsr_cache *cache, uint32_t entry)
{
	return cache->rows[entry].state;
}

bool dsr_cache_is_readable(const struct dsr_cache *cache, uint32_t entry)
{
	return cache->rows[entry].state == DSR_ENTRY_VISIBLE && !cache->rows[entry].is_mismatched;
}

uint64_t dsr_cache_lanes(const struct dsr_cache *cache, uint32_t entry)
{
	return cache->rows[entry].lanes;
}

uint32_t dsr_cache_pins(const struct dsr_cache *cache, uint32_t entry)
{
	return cache->rows[entry].pins;
}

uint32_t dsr_cache_parent(const struct dsr_cache *cache, uint32_t entry)
{
	return cache->rows[entry].parent;
}

uint32_t dsr_cache_first_child(const struct dsr_cache *cache, uint32_t entry)
{
	return cache->rows[entry].first_child;
}

uint32_t dsr_cache_next_sibling(const struct dsr_cache *cache, uint32_t entry)
{
	return cache->rows[entry].next_sibling;
}

uint32_t dsr_cache_slots(const struct dsr_cache *cache)
{
	return cache->pool.slots;
}

uint32_t dsr_cache_slots_left(const struct dsr_cache *cache)
{
	return cache->slots == NULL ? 0 : dsr_slots_left(cache->slots);
}

uint32_t dsr_cache_entry_count(const struct dsr_cache *cache)
{
	return cache->options.entry_count;
}

uint32_t dsr_cache_lane_count(const struct dsr_cache *cache)
{
	return cache->pool.lanes;
}

void dsr_cache_count(const struct dsr_cache *cache, struct dsr_cache_counts *ret_counts)
{
	uint32_t quarantined = cache->slots == NULL ? 0 : dsr_slots_quarantined(cache->slots);

	*ret_counts = (struct dsr_cache_counts){
		.visible = cache->visible,
		.reserved = cache->reserved,
		.aborting = cache->aborting,
		.slots_free = dsr_cache_slots_left(cache),
		.slots_quarantined = quarantined + cache->aborting,
		.leased = cache->leased,
	};
}

static void cache_store(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

void dsr_cache_publish(const struct dsr_cache *cache)
{
	struct dsr_scheduler_state *state = cache->options.state;
	struct dsr_cache_counts counts;

	dsr_cache_count(cache, &counts);
	cache_store(&state->entries_visible, counts.visible);
	cache_store(&state->entries_reserved, counts.reserved);
	cache_store(&state->slots_free, counts.slots_free);
	cache_store(&state->slots_quarantined, counts.slots_quarantined);
	cache_store(&state->leased_slots, counts.leased);
}
