/* SPDX-License-Identifier: Apache-2.0 */
/* The cached blocks: which key is in which entry and slot, how entries hang together as prefixes,
 * what may be evicted. The only writer of the shared entry table and of the slot sequences.
 *
 *            bind                 commit (last lane)
 *   FREE -----------> RESERVED ----------------------> VISIBLE
 *    ^                   | abort                          | evict, mismatch, forget (free)
 *    +---- ABORTING <----+                                |
 *    +--------(free)-----+--------------------------------+
 *
 * A parent is the entry of the block before it; depth grows by one along every link, so links make
 * trees. Entries are named by their number in the table; functions that take one trust it, only
 * those that take keys or references check them. Nothing here knows engines, leases by name,
 * reservations or messages, and nothing allocates after new and set_pool. */
#ifndef DSR_SCHEDULER_CACHE_H
#define DSR_SCHEDULER_CACHE_H

#include <stdbool.h>

#include "counters.h"
#include "evict.h"
#include "faults.h"
#include "layout.h"

struct dsr_cache;

struct dsr_cache_options {
	struct dsr_entry *entries; /* borrowed: the control segment's */
	uint32_t entry_count;
	struct dsr_scheduler_state *state;  /* borrowed: the control segment's */
	struct dsr_counters_page *counters; /* borrowed; may be NULL */
	struct dsr_faults *faults;          /* borrowed; may be NULL */
	const struct dsr_evict_ops *policy; /* static */
	uint64_t seed;                      /* of the index */
};

struct dsr_cache_pool {
	_Atomic uint64_t *slot_seqs; /* borrowed until clear_pool: the pool's */
	uint32_t slots;
	uint32_t lanes;
	uint32_t stored_bytes;
	uint16_t payload;
	uint64_t epoch; /* high bits of generations and slot sequences from now on */
};

/* Starts without a pool and with no entry. -EINVAL (no entries), -ENOMEM. */
int dsr_cache_new(const struct dsr_cache_options *options, struct dsr_cache **ret_cache);
void dsr_cache_free(struct dsr_cache **cache);
/* From now on blocks can be bound. -EINVAL (0 or too many lanes, no slots, more slots than
 * entries), -ENOMEM, -EALREADY. */
int dsr_cache_set_pool(struct dsr_cache *cache, const struct dsr_cache_pool *pool);
/* Frees every entry and forgets the pool. No entry may be leased or reserved. */
void dsr_cache_clear_pool(struct dsr_cache *cache);

struct dsr_cache_rebuilt {
	uint32_t kept;        /* visible entries */
	uint32_t torn;        /* rows a dead scheduler left half written */
	uint32_t unfinished;  /* reserved, aborting or mismatched */
	uint32_t invalid;     /* out of range, or not what the slot's sequence says */
	uint32_t doubled;     /* of one slot named twice all, of one key named twice the later */
	uint32_t quarantined; /* slots */
};
/* After new and set_pool, instead of starting empty: takes over what a dead scheduler left in the
 * entry table. Only whole visible entries stay. The slot of every other row is quarantined, since a
 * store actor may still be writing there; the row says ABORTING until that ends. Without a pool
 * nothing stays. Nothing is evicted before `evict_from_ns`. -ENOMEM: nothing was changed. */
int dsr_cache_rebuild(struct dsr_cache *cache, uint64_t evict_from_ns,
                      struct dsr_cache_rebuilt *ret_rebuilt);
/* Every writer of the quarantined slots has answered or is confirmed dead. Returns how many. */
uint32_t dsr_cache_end_quarantine(struct dsr_cache *cache);

/* ---- questions ---- */
uint32_t dsr_cache_find(const struct dsr_cache *cache, const struct dsr_key *key);
void dsr_cache_find_all(const struct dsr_cache *cache, const struct dsr_key *keys, uint32_t count,
                        uint32_t *ret_entries);
/* How many leading keys are readable; ret_entries (may be NULL) has room for `count`. */
uint32_t dsr_cache_prefix(const struct dsr_cache *cache, const struct dsr_key *keys, uint32_t count,
                          uint32_t *ret_entries);
/* The entry that `ref` names, or DSR_ENTRY_NONE when it is not that any more. Any bytes will do. */
uint32_t dsr_cache_resolve(const struct dsr_cache *cache, const struct dsr_ref *ref);
void dsr_cache_ref(const struct dsr_cache *cache, uint32_t entry, struct dsr_ref *ret_ref);
enum dsr_entry_state dsr_cache_state(const struct dsr_cache *cache, uint32_t entry);
/* Visible and not found to hold other bytes: may be read and leased. */
bool dsr_cache_is_readable(const struct dsr_cache *cache, uint32_t entry);
uint64_t dsr_cache_lanes(const struct dsr_cache *cache, uint32_t entry); /* committed ones */
uint32_t dsr_cache_pins(const struct dsr_cache *cache, uint32_t entry);
uint32_t dsr_cache_parent(const struct dsr_cache *cache, uint32_t entry);
uint32_t dsr_cache_first_child(const struct dsr_cache *cache, uint32_t entry);
uint32_t dsr_cache_next_sibling(const struct dsr_cache *cache, uint32_t entry);
/* 0 without a pool. */
uint32_t dsr_cache_slots(const struct dsr_cache *cache);
uint32_t dsr_cache_slots_left(const struct dsr_cache *cache);
uint32_t dsr_cache_entry_count(const struct dsr_cache *cache);
uint32_t dsr_cache_lane_count(const struct dsr_cache *cache);
/* Entries by state, slots that are quarantined or of ABORTING entries, leased entries. */
struct dsr_cache_counts {
	uint32_t visible, reserved, aborting;
	uint32_t slots_free, slots_quarantined;
	uint32_t leased;
};
void dsr_cache_count(const struct dsr_cache *cache, struct dsr_cache_counts *ret_counts);

/* ---- use and eviction ---- */
/* The entry and its ancestors were used now, the deepest first. */
void dsr_cache_touch(struct dsr_cache *cache, uint32_t entry);
/* Makes `parent` the parent of an entry that lost its own or never had one. Returns whether it is
 * its parent now. */
bool dsr_cache_link(struct dsr_cache *cache, uint32_t entry, uint32_t parent);
/* One more and one less lease on it. */
void dsr_cache_pin(struct dsr_cache *cache, uint32_t entry);
void dsr_cache_unpin(struct dsr_cache *cache, uint32_t entry);
/* Keeps one entry from being evicted for a moment; does not nest. */
void dsr_cache_guard(struct dsr_cache *cache, uint32_t entry);
void dsr_cache_unguard(struct dsr_cache *cache, uint32_t entry);
/* Evicts until `count` slots are free or nothing may be evicted; returns the free ones, at most
 * `count`. */
uint32_t dsr_cache_make_room(struct dsr_cache *cache, uint32_t count, uint64_t now_ns);

/* ---- life of an entry ---- */
/* Takes `count` generations and as many slot sequences, consecutive, never given before or again,
 * also not by the next incarnation. */
void dsr_cache_number(struct dsr_cache *cache, uint32_t count, uint64_t *ret_generation,
                      uint64_t *ret_slot_seq);
/* Binds an absent key to a free slot and entry, RESERVED. parent: DSR_ENTRY_NONE, or an entry,
 * whose depth + 1 it then gets instead of `depth`. DSR_ENTRY_NONE when there is no free slot. */
struct dsr_cache_binding {
	const struct dsr_key *key;
	uint32_t parent;
	uint32_t depth;
	uint64_t generation;
	uint64_t slot_seq;
};
uint32_t dsr_cache_bind(struct dsr_cache *cache, const struct dsr_cache_binding *binding);
/* One lane of a RESERVED entry is stored. True when it became VISIBLE by that. *ret_is_new: the
 * lane was not stored before. */
bool dsr_cache_commit(struct dsr_cache *cache, uint32_t entry, uint32_t lane, bool *ret_is_new);
/* RESERVED -> ABORTING. */
void dsr_cache_abort(struct dsr_cache *cache, uint32_t entry);
/* Any state -> FREE; nobody writes to its slot any more and no lease is on it. Its children lose
 * their parent. */
void dsr_cache_drop(struct dsr_cache *cache, uint32_t entry);
/* A reader found other bytes in this VISIBLE entry: dropped now, or when its last lease ends; until
 * then it is not readable. False when that was known. */
bool dsr_cache_mismatch(struct dsr_cache *cache, uint32_t entry);
/* Drops every VISIBLE entry without lease; returns how many. */
uint32_t dsr_cache_forget(struct dsr_cache *cache);

/* Writes the counts into the shared scheduler state. */
void dsr_cache_publish(const struct dsr_cache *cache);

#endif
