/* SPDX-License-Identifier: Apache-2.0 */
/* Eviction policies behind one table of functions. The cache decides what may be evicted (visible,
 * no cached child, no lease); a policy decides which of these goes first.
 *
 * A policy keeps its own memory for entries 0 .. count-1, sized at new; its functions neither fail
 * nor allocate after that. */
#ifndef DSR_SCHEDULER_EVICT_H
#define DSR_SCHEDULER_EVICT_H

#include <stdint.h>

#include "layout.h"

struct dsr_evict_ops {
	const char *name; /* as eviction.l1 accepts it */
	int (*open)(uint32_t count, void **ret_self);
	void (*close)(void **self);
	/* The entry was used; a greater clock is a later use. Also of entries that may not be
	 * evicted now. */
	void (*used)(void *self, uint32_t entry, uint64_t clock);
	/* It may be evicted from now on; `clock` is its last use. */
	void (*allow)(void *self, uint32_t entry, uint64_t clock);
	/* It may not any more. Nothing happens when it may not already. */
	void (*forbid)(void *self, uint32_t entry);
	/* Which of the allowed ones goes next; DSR_ENTRY_NONE when there is none. It stays allowed.
	 */
	uint32_t (*victim)(void *self);
};

/* Prefix-aware LRU: since a request's blocks are used deepest first, a parent is always used later
 * than its children, and the least recently used of the allowed entries is a leaf. */
extern const struct dsr_evict_ops dsr_evict_lru;

/* By position in the accepted values of eviction.l1; NULL past the last one. */
const struct dsr_evict_ops *dsr_evict_at(uint32_t index);

#endif
