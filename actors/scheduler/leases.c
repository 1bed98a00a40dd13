/* SPDX-License-Identifier: Apache-2.0 */
#include "leases.h"

#include <errno.h>
#include <stdlib.h>

#include <xxhash.h>

#include "heap.h"
#include "idmap.h"
#include "log.h"
#include "mem.h"

struct lease {
	uint64_t owner;
	uint64_t id;
	uint64_t keys_hash; /* of all keys asked for: a repeat must ask for the same */
	uint32_t tail;      /* the last pinned entry; the others are its ancestors */
	uint32_t length;    /* 0: this row is free */
	uint32_t next_free; /* of a free row */
};

struct dsr_leases {
	struct dsr_cache *cache;            /* borrowed */
	struct dsr_counters_page *counters; /* borrowed; may be NULL */
	struct lease *rows;                 /* owned; max of them, valid below rows_used */
	uint32_t *entries;                  /* owned: scratch of one grant, entry_count of them */
	struct dsr_heap *expiry;            /* owned: row -> when it ends */
	struct dsr_idmap *ids;              /* owned: (owner, id) -> row */
	uint32_t max;
	uint32_t rows_used;
	uint32_t free_row;
	uint32_t count;
};

#define LEASE_ROW_NONE UINT32_MAX

int dsr_leases_new(struct dsr_cache *cache, uint32_t max, struct dsr_counters_page *counters,
                   struct dsr_leases **ret_leases)
{
	struct dsr_leases *leases = calloc(1, sizeof(*leases));
	int r;

	if (leases == NULL)
		return -ENOMEM;
	leases->cache = cache;
	leases->counters = counters;
	leases->max = max;
	leases->free_row = LEASE_ROW_NONE;
	leases->rows = dsr_mem_map(max * sizeof(*leases->rows));
	leases->entries = dsr_mem_map(dsr_cache_entry_count(cache) * sizeof(*leases->entries));
	if (leases->rows == NULL || leases->entries == NULL) {
		r = -ENOMEM;
		goto err_free;
	}
	r = dsr_heap_new(max, &leases->expiry);
	if (r < 0)
		goto err_free;
	r = dsr_idmap_new(max, &leases->ids);
	if (r < 0)
		goto err_free;
	*ret_leases = leases;
	return 0;

err_free:
	dsr_leases_free(&leases);
	return r;
}

void dsr_leases_free(struct dsr_leases **leases)
{
	if (leases == NULL || *leases == NULL)
		return;
	dsr_idmap_free(&(*leases)->ids);
	dsr_heap_free(&(*leases)->expiry);
	dsr_mem_unmap((*leases)->entries,
	              dsr_cache_entry_count((*leases)->cache) * sizeof(*(*leases)->entries));
	dsr_mem_unmap((*leases)->rows, (*leases)->max * sizeof(*(*leases)->rows));
	free(*leases);
	*leases = NULL;
}

static uint64_t lease_hash(const struct dsr_lease_request *request)
{
	return XXH3_64bits_withSeed(request->keys, request->count * sizeof(*request->keys),
	                            request->count);
}

static void lease_refs(const struct dsr_leases *leases, const struct lease *lease,
                       struct dsr_ref *ret_refs)
{
	uint32_t entry = lease->tail;

	for (uint32_t i = lease->length; i-- > 0;) {
		dsr_cache_ref(leases->cache, entry, &ret_refs[i]);
		entry = dsr_cache_parent(leases->cache, entry);
	}
}

/* The leading readable blocks of which each hangs below the one before. */
static uint32_t lease_run(struct dsr_leases *leases, const struct dsr_lease_request *request)
{
	uint32_t count = request->count, run;

	/* A run longer than the table names an entry twice and is cut by the check below. */
	if (count > dsr_cache_entry_count(leases->cache))
		count = dsr_cache_entry_count(leases->cache);
	count = dsr_cache_prefix(leases->cache, request->keys, count, leases->entries);
	if (count > 0 && request->parent != NULL) {
		uint32_t parent = dsr_cache_find(leases->cache, request->parent);

		if (parent != DSR_ENTRY_NONE)
			(void)dsr_cache_link(leases->cache, leases->entries[0], parent);
	}
	for (run = 0; run < count; run++)
		if (run > 0 &&
		    !dsr_cache_link(leases->cache, leases->entries[run], leases->entries[run - 1]))
			break;
	return run;
}

/* Pins what the limit leaves of a run; returns how many. */
static uint32_t lease_pin(struct dsr_leases *leases, uint32_t run)
{
	struct dsr_cache_counts counts;
	uint32_t limit = dsr_cache_slots(leases->cache) / 2, leased, i;

	dsr_cache_count(leases->cache, &counts);
	leased = counts.leased;
	for (i = 0; i < run; i++) {
		bool is_new = dsr_cache_pins(leases->cache, leases->entries[i]) == 0;

		if (is_new && leased >= limit)
			break;
		leased += is_new;
		dsr_cache_pin(leases->cache, leases->entries[i]);
	}
	return i;
}

static uint32_t lease_take_row(struct dsr_leases *leases)
{
	uint32_t row = leases->free_row;

	if (row != LEASE_ROW_NONE)
		leases->free_row = leases->rows[row].next_free;
	else if (leases->rows_used < leases->max)
		row = leases->rows_used++;
	return row;
}

static int lease_repeat(struct dsr_leases *leases, uint32_t row,
                        const struct dsr_lease_request *request, uint64_t now_ns,
                        struct dsr_ref *ret_refs, uint32_t *ret_count)
{
	const struct lease *lease = &leases->rows[row];

	if (lease->length > request->count || lease->keys_hash != lease_hash(request))
		return -EINVAL;
	dsr_heap_set(leases->expiry, row, now_ns + request->ttl_ns);
	lease_refs(leases, lease, ret_refs);
	*ret_count = lease->length;
	return 0;
}

int dsr_leases_grant(struct dsr_leases *leases, const struct dsr_lease_request *request,
                     uint64_t now_ns, struct dsr_ref *ret_refs, uint32_t *ret_count)
{
	uint32_t row = dsr_idmap_find(leases->ids, request->owner, request->id);
	uint32_t run, length;

	if (row != DSR_IDMAP_NONE)
		return lease_repeat(leases, row, request, now_ns, ret_refs, ret_count);
	if (leases->count == leases->max) {
		dsr_counter_add(leases->counters, DSR_COUNTER_REFUSED_LEASES, 1);
		return -EAGAIN;
	}
	run = lease_run(leases, request);
	length = lease_pin(leases, run);
	if (length == 0) {
		if (run > 0) {
			dsr_counter_add(leases->counters, DSR_COUNTER_REFUSED_LEASES, 1);
			return -EAGAIN;
		}
		*ret_count = 0;
		return 0;
	}
	row = lease_take_row(leases);
	leases->rows[row] = (struct lease){
		.owner = request->owner,
		.id = request->id,
		.keys_hash = lease_hash(request),
		.tail = leases->entries[length - 1],
		.length = length,
	};
	leases->count++;
	dsr_idmap_insert(leases->ids, request->owner, request->id, row);
	dsr_heap_set(leases->expiry, row, now_ns + request->ttl_ns);
	dsr_cache_touch(leases->cache, leases->rows[row].tail);
	dsr_counter_add(leases->counters, DSR_COUNTER_LEASES, 1);
	lease_refs(leases, &leases->rows[row], ret_refs);
	*ret_count = length;
	return 0;
}

static void lease_end(struct dsr_leases *leases, uint32_t row)
{
	struct lease *lease = &leases->rows[row];
	uint32_t entry = lease->tail;

	for (uint32_t i = 0; i < lease->length; i++) {
		/* Before the last pin goes, and a mismatched entry with it. */
		uint32_t parent = dsr_cache_parent(leases->cache, entry);

		dsr_cache_unpin(leases->cache, entry);
		entry = parent;
	}
	dsr_idmap_remove(leases->ids, lease->owner, lease->id);
	dsr_heap_remove(leases->expiry, row);
	*lease = (struct lease){.next_free = leases->free_row};
	leases->free_row = row;
	leases->count--;
}

bool dsr_leases_release(struct dsr_leases *leases, uint64_t owner, uint64_t id)
{
	uint32_t row = dsr_idmap_find(leases->ids, owner, id);

	if (row == DSR_IDMAP_NONE)
		return false;
	lease_end(leases, row);
	return true;
}

uint32_t dsr_leases_release_owner(struct dsr_leases *leases, uint64_t owner)
{
	uint32_t released = 0;

	for (uint32_t row = 0; row < leases->rows_used; row++) {
		if (leases->rows[row].length == 0 || leases->rows[row].owner != owner)
			continue;
		lease_end(leases, row);
		released++;
	}
	return released;
}

uint32_t dsr_leases_expire(struct dsr_leases *leases, uint64_t now_ns)
{
	uint32_t expired = 0;

	for (;;) {
		uint64_t end_ns;
		uint32_t row = dsr_heap_first(leases->expiry, &end_ns);

		if (row == DSR_HEAP_NONE || end_ns > now_ns)
			break;
		lease_end(leases, row);
		expired++;
	}
	if (expired > 0)
		dsr_counter_add(leases->counters, DSR_COUNTER_LEASES_EXPIRED, expired);
	return expired;
}

uint32_t dsr_leases_count(const struct dsr_leases *leases)
{
	return leases->count;
}
