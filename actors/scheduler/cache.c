/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cache_rows.h"
#include "entry_table.h"
#include "log.h"
#include "mem.h"

int dsr_cache_new(const struct dsr_cache_options *options, struct dsr_cache **ret_cache)
{
	struct dsr_cache *cache;
	int r;

	if (options->entry_count == 0 || options->policy == NULL)
		return -EINVAL;
	cache = calloc(1, sizeof(*cache));
	if (cache == NULL)
		return -ENOMEM;
	cache->options = *options;
	cache->free_row = DSR_ENTRY_NONE;
	cache->next_generation =
		atomic_load_explicit(&options->state->next_generation, memory_order_relaxed);
	cache->next_slot_seq =
		atomic_load_explicit(&options->state->next_slot_seq, memory_order_relaxed);
	cache->rows = dsr_mem_map(options->entry_count * sizeof(*cache->rows));
	if (cache->rows == NULL) {
		r = -ENOMEM;
		goto err_free;
	}
	r = options->policy->open(options->entry_count, &cache->policy);
	if (r < 0)
		goto err_free;
	*ret_cache = cache;
	return 0;

err_free:
	dsr_cache_free(&cache);
	return r;
}

void dsr_cache_free(struct dsr_cache **cache)
{
	if (cache == NULL || *cache == NULL)
		return;
	if ((*cache)->policy != NULL)
		(*cache)->options.policy->close(&(*cache)->policy);
	dsr_slots_free(&(*cache)->slots);
	dsr_index_free(&(*cache)->index);
	dsr_mem_unmap((*cache)->rows, (*cache)->options.entry_count * sizeof(*(*cache)->rows));
	free(*cache);
	*cache = NULL;
}

/* Numbers never go back: after a restart they go on where they were. */
static void cache_start_epoch(struct dsr_cache *cache, uint64_t epoch)
{
	uint64_t first = epoch << DSR_EPOCH_SHIFT | 1, unused;

	if (cache->next_generation < first)
		cache->next_generation = first;
	if (cache->next_slot_seq < first)
		cache->next_slot_seq = first;
	dsr_cache_number(cache, 0, &unused, &unused);
}

int dsr_cache_set_pool(struct dsr_cache *cache, const struct dsr_cache_pool *pool)
{
	int r;

	if (cache->pool.slots != 0)
		return -EALREADY;
	if (pool->lanes == 0 || pool->lanes > DSR_LANES_MAX || pool->slots == 0 ||
	    pool->slots > cache->options.entry_count)
		return -EINVAL;
	r = dsr_slots_new(pool->slots, &cache->slots);
	if (r < 0)
		return r;
	/* Every entry has a slot: for so many, and not for the whole table, which is made for small
	 * blocks. */
	r = dsr_index_new(cache->options.entries, pool->slots, cache->options.seed, &cache->index);
	if (r < 0) {
		dsr_slots_free(&cache->slots);
		return r;
	}
	cache->pool = *pool;
	cache_start_epoch(cache, pool->epoch);
	return 0;
}

void dsr_cache_clear_pool(struct dsr_cache *cache)
{
	(void)dsr_cache_forget(cache);
	dsr_assert(cache->visible == 0 && cache->reserved == 0 && cache->aborting == 0);
	dsr_index_free(&cache->index);
	dsr_slots_free(&cache->slots);
	cache->pool = (struct dsr_cache_pool){0};
}

/* ---- rows ---- */

void dsr_cache_row_settle(struct dsr_cache *cache, uint32_t entry)
{
	const struct cache_row *row = &cache->rows[entry];

	/* A mismatched one has leases, or it would be gone. */
	if (row->state == DSR_ENTRY_VISIBLE && row->pins == 0 &&
	    row->first_child == DSR_ENTRY_NONE && !row->is_guarded)
		cache->options.policy->allow(cache->policy, entry, row->last_use);
	else
		cache->options.policy->forbid(cache->policy, entry);
}

void dsr_cache_row_adopt(struct dsr_cache *cache, uint32_t entry, uint32_t parent)
{
	struct cache_row *row = &cache->rows[entry], *above = &cache->rows[parent];

	row->parent = parent;
	row->prev_sibling = DSR_ENTRY_NONE;
	row->next_sibling = above->first_child;
	if (above->first_child != DSR_ENTRY_NONE)
		cache->rows[above->first_child].prev_sibling = entry;
	above->first_child = entry;
	dsr_cache_row_settle(cache, parent);
}

static void cache_leave_parent(struct dsr_cache *cache, uint32_t entry)
{
	struct cache_row *row = &cache->rows[entry];
	uint32_t parent = row->parent;

	if (parent == DSR_ENTRY_NONE)
		return;
	if (row->next_sibling != DSR_ENTRY_NONE)
		cache->rows[row->next_sibling].prev_sibling = row->prev_sibling;
	if (row->prev_sibling != DSR_ENTRY_NONE)
		cache->rows[row->prev_sibling].next_sibling = row->next_sibling;
	else
		cache->rows[parent].first_child = row->next_sibling;
	row->parent = DSR_ENTRY_NONE;
	dsr_cache_row_settle(cache, parent);
}

/* Shared rows keep naming a parent that is gone: its generation tells. */
static void cache_leave_children(struct dsr_cache *cache, uint32_t entry)
{
	uint32_t child = cache->rows[entry].first_child;

	while (child != DSR_ENTRY_NONE) {
		uint32_t next = cache->rows[child].next_sibling;

		cache->rows[child].parent = DSR_ENTRY_NONE;
		cache->rows[child].next_sibling = DSR_ENTRY_NONE;
		cache->rows[child].prev_sibling = DSR_ENTRY_NONE;
		child = next;
	}
	cache->rows[entry].first_child = DSR_ENTRY_NONE;
}

static uint32_t cache_take_row(struct dsr_cache *cache)
{
	uint32_t entry = cache->free_row;

	if (entry != DSR_ENTRY_NONE)
		cache->free_row = cache->rows[entry].next_sibling;
	else if (cache->rows_used < cache->options.entry_count)
		entry = cache->rows_used++;
	return entry;
}

/* Writes the shared row from the private one. The row is odd while half of it is new, as it is when
 * the process dies in here. */
static void cache_write_row(struct dsr_cache *cache, uint32_t entry, const struct dsr_key *key)
{
	struct dsr_entry *shared = &cache->options.entries[entry];
	const struct cache_row *row = &cache->rows[entry];
	struct dsr_entry value = {
		.generation = row->generation,
		.key = *key,
		.lanes_stored = row->lanes,
		.slot_seq = row->slot_seq,
		.l2_slot = UINT64_MAX,
		.last_use = row->last_use,
		.state = row->state,
		.l1_slot = row->slot,
		.parent = row->parent,
		.payload = cache->pool.payload,
		.flags = row->is_mismatched ? DSR_ENTRY_MISMATCHED : 0,
		.stored_bytes = cache->pool.stored_bytes,
		.depth = row->depth,
	};

	if (row->parent != DSR_ENTRY_NONE)
		value.parent_generation = cache->rows[row->parent].generation;
	if (cache->options.faults != NULL) {
		dsr_entry_write_begin(shared);
		__atomic_store_n(&shared->generation, row->generation, __ATOMIC_RELAXED);
		(void)dsr_fault_at(cache->options.faults, DSR_FAULT_SCHED_MID_ENTRY, NULL);
	}
	dsr_entry_write(shared, &value);
}

static void cache_rewrite_row(struct dsr_cache *cache, uint32_t entry)
{
	struct dsr_key key = cache->options.entries[entry].key;

	cache_write_row(cache, entry, &key);
}

void dsr_cache_row_clear(struct dsr_cache *cache, uint32_t entry)
{
	static const struct dsr_entry free_entry = {
		.l2_slot = UINT64_MAX,
		.state = DSR_ENTRY_FREE,
		.l1_slot = DSR_SLOT_NONE,
		.parent = DSR_ENTRY_NONE,
	};

	dsr_entry_write(&cache->options.entries[entry], &free_entry);
}

/* ---- use and eviction ---- */

void dsr_cache_touch(struct dsr_cache *cache, uint32_t entry)
{
	for (; entry != DSR_ENTRY_NONE; entry = cache->rows[entry].parent) {
		uint64_t now = ++cache->clock;

		cache->rows[entry].last_use = now;
		/* Outside the seqlock: readers between two copies must not find the row odd for
		 * this, and the word has a meaning of its own. */
		__atomic_store_n(&cache->options.entries[entry].last_use, now, __ATOMIC_RELAXED);
		cache->options.policy->used(cache->policy, entry, now);
	}
}

bool dsr_cache_link(struct dsr_cache *cache, uint32_t entry, uint32_t parent)
{
	struct cache_row *row = &cache->rows[entry];

	if (row->parent == parent)
		return true;
	/* Depth: else two engines that lie about their chains could close a ring. */
	if (row->parent != DSR_ENTRY_NONE || row->depth != cache->rows[parent].depth + 1)
		return false;
	dsr_cache_row_adopt(cache, entry, parent);
	cache_rewrite_row(cache, entry);
	return true;
}

void dsr_cache_pin(struct dsr_cache *cache, uint32_t entry)
{
	if (cache->rows[entry].pins++ > 0)
		return;
	cache->leased++;
	dsr_cache_row_settle(cache, entry);
}

void dsr_cache_unpin(struct dsr_cache *cache, uint32_t entry)
{
	dsr_assert(cache->rows[entry].pins > 0);
	if (--cache->rows[entry].pins > 0)
		return;
	cache->leased--;
	if (cache->rows[entry].is_mismatched)
		dsr_cache_drop(cache, entry);
	else
		dsr_cache_row_settle(cache, entry);
}

void dsr_cache_guard(struct dsr_cache *cache, uint32_t entry)
{
	cache->rows[entry].is_guarded = true;
	dsr_cache_row_settle(cache, entry);
}

void dsr_cache_unguard(struct dsr_cache *cache, uint32_t entry)
{
	cache->rows[entry].is_guarded = false;
	dsr_cache_row_settle(cache, entry);
}

uint32_t dsr_cache_make_room(struct dsr_cache *cache, uint32_t count, uint64_t now_ns)
{
	uint32_t left = dsr_cache_slots_left(cache), evicted = 0;

	while (left < count && now_ns >= cache->evict_from_ns) {
		uint32_t victim = cache->options.policy->victim(cache->policy);

		if (victim == DSR_ENTRY_NONE)
			break;
		dsr_cache_drop(cache, victim);
		left++;
		evicted++;
	}
	if (evicted > 0)
		dsr_counter_add(cache->options.counters, DSR_COUNTER_BLOCKS_EVICTED, evicted);
	return left < count ? left : count;
}

/* ---- life of an entry ---- */

void dsr_cache_number(struct dsr_cache *cache, uint32_t count, uint64_t *ret_generation,
                      uint64_t *ret_slot_seq)
{
	struct dsr_scheduler_state *state = cache->options.state;

	*ret_generation = cache->next_generation;
	*ret_slot_seq = cache->next_slot_seq;
	cache->next_generation += count;
	cache->next_slot_seq += count;
	/* Before any of them is used: the next incarnation starts above. */
	atomic_store_explicit(&state->next_generation, cache->next_generation,
	                      memory_order_release);
	atomic_store_explicit(&state->next_slot_seq, cache->next_slot_seq, memory_order_release);
}

uint32_t dsr_cache_bind(struct dsr_cache *cache, const struct dsr_cache_binding *binding)
{
	uint32_t entry, slot;
	struct cache_row *row;

	if (dsr_cache_slots_left(cache) == 0)
		return DSR_ENTRY_NONE;
	entry = cache_take_row(cache);
	if (entry == DSR_ENTRY_NONE)
		return DSR_ENTRY_NONE;
	slot = dsr_slots_take(cache->slots);
	row = &cache->rows[entry];
	*row = (struct cache_row){
		.generation = binding->generation,
		.slot_seq = binding->slot_seq,
		.slot = slot,
		.parent = DSR_ENTRY_NONE,
		.first_child = DSR_ENTRY_NONE,
		.next_sibling = DSR_ENTRY_NONE,
		.prev_sibling = DSR_ENTRY_NONE,
		.depth = binding->depth,
		.tag = dsr_index_tag(cache->index, binding->key),
		.state = DSR_ENTRY_RESERVED,
	};
	if (binding->parent != DSR_ENTRY_NONE) {
		row->depth = cache->rows[binding->parent].depth + 1;
		dsr_cache_row_adopt(cache, entry, binding->parent);
	}
	/* First the sequence: whoever still reads the slot's last block then knows, and nobody is
	 * told of the new one before. */
	atomic_store_explicit(&cache->pool.slot_seqs[slot], binding->slot_seq,
	                      memory_order_release);
	cache_write_row(cache, entry, binding->key);
	dsr_index_insert(cache->index, row->tag, entry);
	cache->reserved++;
	return entry;
}

bool dsr_cache_commit(struct dsr_cache *cache, uint32_t entry, uint32_t lane, bool *ret_is_new)
{
	struct cache_row *row = &cache->rows[entry];
	uint64_t bit = UINT64_C(1) << lane;

	dsr_assert(row->state == DSR_ENTRY_RESERVED && lane < cache->pool.lanes);
	*ret_is_new = (row->lanes & bit) == 0;
	row->lanes |= bit;
	if (row->lanes != cache_all_lanes(cache)) {
		/* Outside the seqlock: other lanes' store actors look at the row around their
		 * copies and must not find it odd for this. */
		__atomic_store_n(&cache->options.entries[entry].lanes_stored, row->lanes,
		                 __ATOMIC_RELAXED);
		return false;
	}
	row->state = DSR_ENTRY_VISIBLE;
	cache->reserved--;
	cache->visible++;
	cache_rewrite_row(cache, entry);
	dsr_cache_row_settle(cache, entry);
	return true;
}

void dsr_cache_abort(struct dsr_cache *cache, uint32_t entry)
{
	struct cache_row *row = &cache->rows[entry];

	dsr_assert(row->state == DSR_ENTRY_RESERVED);
	row->state = DSR_ENTRY_ABORTING;
	cache->reserved--;
	cache->aborting++;
	cache_rewrite_row(cache, entry);
}

void dsr_cache_drop(struct dsr_cache *cache, uint32_t entry)
{
	struct cache_row *row = &cache->rows[entry];
	bool was_there;

	dsr_assert(row->state != DSR_ENTRY_FREE && row->pins == 0);
	if (row->state == DSR_ENTRY_VISIBLE)
		cache->visible--;
	else if (row->state == DSR_ENTRY_RESERVED)
		cache->reserved--;
	else
		cache->aborting--;
	row->state = DSR_ENTRY_FREE;
	cache->options.policy->forbid(cache->policy, entry);
	was_there = dsr_index_remove(cache->index, row->tag, entry);
	dsr_assert(was_there);
	cache_leave_children(cache, entry);
	cache_leave_parent(cache, entry);
	/* The row says free before the slot can be bound again. */
	dsr_cache_row_clear(cache, entry);
	dsr_slots_put(cache->slots, row->slot);
	row->next_sibling = cache->free_row;
	cache->free_row = entry;
}

bool dsr_cache_mismatch(struct dsr_cache *cache, uint32_t entry)
{
	struct cache_row *row = &cache->rows[entry];

	dsr_assert(row->state == DSR_ENTRY_VISIBLE);
	if (row->is_mismatched)
		return false;
	row->is_mismatched = true;
	dsr_counter_add(cache->options.counters, DSR_COUNTER_BLOCKS_MISMATCHED, 1);
	if (row->pins == 0) {
		dsr_cache_drop(cache, entry);
	} else {
		/* Also for the next incarnation, which must not take it over. */
		__atomic_store_n(&cache->options.entries[entry].flags, DSR_ENTRY_MISMATCHED,
		                 __ATOMIC_RELAXED);
	}
	return true;
}

uint32_t dsr_cache_forget(struct dsr_cache *cache)
{
	uint32_t forgotten = 0;

	for (uint32_t entry = 0; entry < cache->rows_used; entry++) {
		const struct cache_row *row = &cache->rows[entry];

		if (row->state != DSR_ENTRY_VISIBLE || row->pins > 0)
			continue;
		dsr_cache_drop(cache, entry);
		forgotten++;
	}
	return forgotten;
}
