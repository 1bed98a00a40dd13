/* SPDX-License-Identifier: Apache-2.0 */
/* A scheduler takes over the entry table of a dead one. */
#include <errno.h>
#include <stdatomic.h>

#include "cache_rows.h"
#include "entry_table.h"
#include "log.h"
#include "mem.h"

/* Rows are used for the first time in ascending order: the first one never written ends the table.
 * (The rest is not read: reading would give it memory.) */
static uint32_t rebuild_rows_used(const struct dsr_cache *cache)
{
	uint32_t entry = 0;

	while (entry < cache->options.entry_count &&
	       atomic_load_explicit(&cache->options.entries[entry].seq, memory_order_relaxed) != 0)
		entry++;
	return entry;
}

static bool rebuild_is_torn(const struct dsr_entry *shared)
{
	return atomic_load_explicit(&shared->seq, memory_order_relaxed) & 1;
}

/* names[slot]: how many whole rows name it, counted to 2. Torn ones do not count: the row whose
 * sequence is the slot's own is the slot's last binding, whatever a torn one seems to say. */
static void rebuild_count_names(const struct dsr_cache *cache, uint8_t *names)
{
	for (uint32_t entry = 0; entry < cache->rows_used; entry++) {
		const struct dsr_entry *shared = &cache->options.entries[entry];

		if (shared->state == DSR_ENTRY_FREE || rebuild_is_torn(shared))
			continue;
		if (shared->l1_slot < cache->pool.slots && names[shared->l1_slot] < 2)
			names[shared->l1_slot]++;
	}
}

static bool rebuild_is_valid(const struct dsr_cache *cache, const struct dsr_entry *value)
{
	return value->state == DSR_ENTRY_VISIBLE && value->l1_slot < cache->pool.slots &&
	       value->lanes_stored == cache_all_lanes(cache) && value->generation != 0 &&
	       value->generation < cache->next_generation &&
	       value->payload == cache->pool.payload &&
	       value->slot_seq == atomic_load_explicit(&cache->pool.slot_seqs[value->l1_slot],
	                                               memory_order_relaxed);
}

static void rebuild_take(struct dsr_cache *cache, uint32_t entry, const struct dsr_entry *value)
{
	bool is_taken = dsr_slots_take_one(cache->slots, value->l1_slot);

	dsr_assert(is_taken); /* it is the only row that names the slot */
	cache->rows[entry] = (struct cache_row){
		.generation = value->generation,
		.slot_seq = value->slot_seq,
		.last_use = value->last_use,
		.lanes = value->lanes_stored,
		.slot = value->l1_slot,
		.parent = DSR_ENTRY_NONE,
		.first_child = DSR_ENTRY_NONE,
		.next_sibling = DSR_ENTRY_NONE,
		.prev_sibling = DSR_ENTRY_NONE,
		.depth = value->depth,
		.tag = dsr_index_tag(cache->index, &value->key),
		.state = DSR_ENTRY_VISIBLE,
	};
	dsr_index_insert(cache->index, cache->rows[entry].tag, entry);
	cache->visible++;
	if (value->last_use > cache->clock)
		cache->clock = value->last_use;
}

/* Takes a row over, or counts why not. */
static void rebuild_row(struct dsr_cache *cache, uint32_t entry, const uint8_t *names,
                        struct dsr_cache_rebuilt *rebuilt)
{
	struct dsr_entry value;
	uint32_t other;

	if (rebuild_is_torn(&cache->options.entries[entry]) ||
	    dsr_entry_read(&cache->options.entries[entry], 1, &value) < 0) {
		rebuilt->torn++;
		return;
	}
	if (value.state == DSR_ENTRY_FREE)
		return;
	if (value.state == DSR_ENTRY_RESERVED || value.state == DSR_ENTRY_ABORTING ||
	    (value.flags & DSR_ENTRY_MISMATCHED) != 0) {
		rebuilt->unfinished++;
		return;
	}
	if (!rebuild_is_valid(cache, &value)) {
		rebuilt->invalid++;
		return;
	}
	other = dsr_index_find(cache->index, &value.key);
	if (names[value.l1_slot] > 1 || other != DSR_ENTRY_NONE) {
		rebuilt->doubled++;
		return;
	}
	rebuild_take(cache, entry, &value);
}

/* The row of a slot that may still be written: it says so until the quarantine ends, for the case
 * that we die before that. It has no key and no reservation. */
static void rebuild_quarantine(struct dsr_cache *cache, uint32_t entry, uint32_t slot)
{
	struct dsr_entry value = {
		.l2_slot = UINT64_MAX,
		.state = DSR_ENTRY_ABORTING,
		.l1_slot = slot,
		.parent = DSR_ENTRY_NONE,
	};

	value.slot_seq = atomic_load_explicit(&cache->pool.slot_seqs[slot], memory_order_relaxed);
	cache->rows[entry] = (struct cache_row){
		.slot_seq = value.slot_seq,
		.slot = slot,
		.parent = DSR_ENTRY_NONE,
		.first_child = DSR_ENTRY_NONE,
		.next_sibling = DSR_ENTRY_NONE,
		.prev_sibling = DSR_ENTRY_NONE,
		.state = DSR_ENTRY_ABORTING,
		.is_quarantined = true,
	};
	dsr_entry_write(&cache->options.entries[entry], &value);
}

/* After every row was looked at: the slots that dropped rows name, torn ones too, unless a row that
 * stays has them. */
static void rebuild_clear(struct dsr_cache *cache)
{
	for (uint32_t entry = 0; entry < cache->rows_used; entry++) {
		const struct dsr_entry *shared = &cache->options.entries[entry];

		if (cache->rows[entry].state == DSR_ENTRY_VISIBLE)
			continue;
		if (shared->l1_slot < cache->pool.slots &&
		    dsr_slots_quarantine(cache->slots, shared->l1_slot))
			rebuild_quarantine(cache, entry, shared->l1_slot);
		else if (shared->state != DSR_ENTRY_FREE || rebuild_is_torn(shared))
			dsr_cache_row_clear(cache, entry);
	}
}

uint32_t dsr_cache_end_quarantine(struct dsr_cache *cache)
{
	uint32_t ended = cache->slots == NULL ? 0 : dsr_slots_quarantined(cache->slots);

	for (uint32_t entry = cache->rows_used; ended > 0 && entry-- > 0;) {
		if (!cache->rows[entry].is_quarantined)
			continue;
		cache->rows[entry] = (struct cache_row){.next_sibling = cache->free_row};
		cache->free_row = entry;
		dsr_cache_row_clear(cache, entry);
	}
	/* The rows say free before the slots can be bound again. */
	return ended == 0 ? 0 : dsr_slots_end_quarantine(cache->slots);
}

/* A link holds when its parent is the same binding still and one block less deep. */
static void rebuild_link(struct dsr_cache *cache, uint32_t entry)
{
	const struct dsr_entry *shared = &cache->options.entries[entry];
	uint32_t parent = shared->parent;

	if (parent >= cache->rows_used || cache->rows[parent].state != DSR_ENTRY_VISIBLE ||
	    cache->rows[parent].generation != shared->parent_generation ||
	    cache->rows[entry].depth != cache->rows[parent].depth + 1)
		return;
	dsr_cache_row_adopt(cache, entry, parent);
}

static void rebuild_chain_rows(struct dsr_cache *cache)
{
	for (uint32_t entry = cache->rows_used; entry-- > 0;) {
		if (cache->rows[entry].state != DSR_ENTRY_FREE)
			continue;
		cache->rows[entry].next_sibling = cache->free_row;
		cache->free_row = entry;
	}
	for (uint32_t entry = 0; entry < cache->rows_used; entry++)
		if (cache->rows[entry].state == DSR_ENTRY_VISIBLE)
			rebuild_link(cache, entry);
	for (uint32_t entry = 0; entry < cache->rows_used; entry++)
		if (cache->rows[entry].state == DSR_ENTRY_VISIBLE)
			dsr_cache_row_settle(cache, entry);
}

int dsr_cache_rebuild(struct dsr_cache *cache, uint64_t evict_from_ns,
                      struct dsr_cache_rebuilt *ret_rebuilt)
{
	struct dsr_cache_rebuilt rebuilt = {0};
	uint8_t *names = NULL;

	dsr_assert(cache->rows_used == 0);
	if (cache->slots != NULL) {
		names = dsr_mem_map(cache->pool.slots);
		if (names == NULL)
			return -ENOMEM;
	}
	cache->rows_used = rebuild_rows_used(cache);
	cache->evict_from_ns = evict_from_ns;
	rebuild_count_names(cache, names);
	for (uint32_t entry = 0; entry < cache->rows_used; entry++)
		rebuild_row(cache, entry, names, &rebuilt);
	rebuild_clear(cache);
	dsr_mem_unmap(names, cache->pool.slots);
	rebuild_chain_rows(cache);
	rebuilt.kept = cache->visible;
	rebuilt.quarantined = cache->slots == NULL ? 0 : dsr_slots_quarantined(cache->slots);
	*ret_rebuilt = rebuilt;
	return 0;
}
