/* SPDX-License-Identifier: Apache-2.0 */
/* A heap of the entries that may be evicted, by last use. A list of all entries in that order would
 * be shorter to write, but evicting would walk over everything leased at its cold end. */
#include "evict.h"

#include <stddef.h>

#include "heap.h"

static int lru_open(uint32_t count, void **ret_self)
{
	struct dsr_heap *heap;
	int r;

	r = dsr_heap_new(count, &heap);
	if (r < 0)
		return r;
	*ret_self = heap;
	return 0;
}

static void lru_close(void **self)
{
	struct dsr_heap *heap = *self;

	dsr_heap_free(&heap);
	*self = NULL;
}

static void lru_used(void *self, uint32_t entry, uint64_t clock)
{
	if (dsr_heap_has(self, entry))
		dsr_heap_set(self, entry, clock);
}

static void lru_allow(void *self, uint32_t entry, uint64_t clock)
{
	dsr_heap_set(self, entry, clock);
}

static void lru_forbid(void *self, uint32_t entry)
{
	dsr_heap_remove(self, entry);
}

static uint32_t lru_victim(void *self)
{
	uint32_t entry = dsr_heap_first(self, NULL);

	return entry == DSR_HEAP_NONE ? DSR_ENTRY_NONE : entry;
}

const struct dsr_evict_ops dsr_evict_lru = {
	.name = "lru",
	.open = lru_open,
	.close = lru_close,
	.used = lru_used,
	.allow = lru_allow,
	.forbid = lru_forbid,
	.victim = lru_victim,
};
