/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the cache, shared by cache.c and cache_rebuild.c alone. */
#ifndef DSR_SCHEDULER_CACHE_ROWS_H
#define DSR_SCHEDULER_CACHE_ROWS_H

#include "cache.h"
#include "index.h"
#include "slots.h"

/* What the scheduler knows of an entry. The shared row is written from it and not read back, its
 * key excepted. */
struct cache_row {
	uint64_t generation;
	uint64_t slot_seq;
	uint64_t last_use;
	uint64_t lanes; /* committed ones */
	uint32_t slot;
	uint32_t parent;
	uint32_t first_child;
	uint32_t next_sibling; /* of a free row: the next free row */
	uint32_t prev_sibling;
	uint32_t pins;
	uint32_t depth;
	uint32_t tag;  /* of the index */
	uint8_t state; /* enum dsr_entry_state */
	bool is_guarded;
	bool is_mismatched;
	bool is_quarantined; /* a rebuilt row that only holds a slot which may still be written */
};

struct dsr_cache {
	struct dsr_cache_options options;
	struct dsr_cache_pool pool; /* slots 0: none */
	struct cache_row *rows;     /* owned; entry_count of them, valid below rows_used */
	uint32_t rows_used;         /* rows are used for the first time in ascending order */
	uint32_t free_row;          /* first of the list of free rows below rows_used */
	uint32_t visible;
	uint32_t reserved;
	uint32_t aborting;
	uint32_t leased;
	struct dsr_index *index; /* owned; NULL without a pool */
	struct dsr_slots *slots; /* owned; NULL without a pool */
	void *policy;            /* owned; of options.policy */
	uint64_t clock;
	uint64_t next_generation;
	uint64_t next_slot_seq;
	uint64_t evict_from_ns;
};

static inline uint64_t cache_all_lanes(const struct dsr_cache *cache)
{
	return ~UINT64_C(0) >> (64 - cache->pool.lanes);
}

/* Tells the policy whether the entry may be evicted now. */
void dsr_cache_row_settle(struct dsr_cache *cache, uint32_t entry);
/* Hangs an entry without parent below one. */
void dsr_cache_row_adopt(struct dsr_cache *cache, uint32_t entry, uint32_t parent);
/* Writes a row of the table as free. */
void dsr_cache_row_clear(struct dsr_cache *cache, uint32_t entry);

#endif
