/* SPDX-License-Identifier: Apache-2.0 */
#include "reservations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "log.h"
#include "mem.h"
#include "reservations_rows.h"

/* What is kept of an answer: a status for each key, then the place of each reserved block. */
struct answer_place {
	uint32_t entry;
	uint32_t slot;
};

static size_t answer_bytes(uint32_t keys, uint32_t reserved)
{
	return ((keys + 3u) & ~3u) + reserved * sizeof(struct answer_place);
}

static const struct number_list empty_list = {.first = RESERVATION_NONE, .last = RESERVATION_NONE};

static int reservations_map(struct dsr_reservations *r)
{
	size_t keys = DSR_RESERVATION_KEYS;

	r->rows = dsr_mem_map(r->row_count * sizeof(*r->rows));
	r->links = dsr_mem_map(dsr_cache_entry_count(r->cache) * sizeof(*r->links));
	r->entries = dsr_mem_map(keys * sizeof(*r->entries));
	r->status = dsr_mem_map(keys * sizeof(*r->status));
	r->refs = dsr_mem_map(keys * sizeof(*r->refs));
	r->cancel_refs = dsr_mem_map(keys * sizeof(*r->cancel_refs));
	if (r->rows == NULL || r->links == NULL || r->entries == NULL || r->status == NULL ||
	    r->refs == NULL || r->cancel_refs == NULL)
		return -ENOMEM;
	return 0;
}

int dsr_reservations_new(const struct dsr_reservations_options *options,
                         struct dsr_reservations **ret_reservations)
{
	struct dsr_reservations *r = calloc(1, sizeof(*r));
	int err;

	if (r == NULL)
		return -ENOMEM;
	r->options = *options;
	r->cache = options->cache;
	r->row_count = options->live_max + options->kept * DSR_RESERVATION_OWNERS;
	r->free_row = RESERVATION_NONE;
	r->first_dirty = RESERVATION_NONE;
	r->live = empty_list;
	for (uint32_t owner = 0; owner < DSR_RESERVATION_OWNERS; owner++)
		r->owners[owner].done = empty_list;
	err = reservations_map(r);
	if (err < 0)
		goto err_free;
	err = dsr_idmap_new(r->row_count, &r->ids);
	if (err < 0)
		goto err_free;
	err = dsr_answers_new(options->answer_bytes, &r->answers);
	if (err < 0)
		goto err_free;
	*ret_reservations = r;
	return 0;

err_free:
	dsr_reservations_free(&r);
	return err;
}

void dsr_reservations_free(struct dsr_reservations **reservations)
{
	struct dsr_reservations *r;
	size_t keys = DSR_RESERVATION_KEYS;

	if (reservations == NULL || *reservations == NULL)
		return;
	r = *reservations;
	dsr_answers_free(&r->answers);
	dsr_idmap_free(&r->ids);
	dsr_mem_unmap(r->cancel_refs, keys * sizeof(*r->cancel_refs));
	dsr_mem_unmap(r->refs, keys * sizeof(*r->refs));
	dsr_mem_unmap(r->status, keys * sizeof(*r->status));
	dsr_mem_unmap(r->entries, keys * sizeof(*r->entries));
	dsr_mem_unmap(r->links, dsr_cache_entry_count(r->cache) * sizeof(*r->links));
	dsr_mem_unmap(r->rows, r->row_count * sizeof(*r->rows));
	free(r);
	*reservations = NULL;
}

/* ---- rows and lists ---- */

void dsr_reservations_list_add(struct dsr_reservations *r, struct number_list *list, uint32_t entry)
{
	r->links[entry].next = RESERVATION_NONE;
	r->links[entry].prev = list->last;
	if (list->last != RESERVATION_NONE)
		r->links[list->last].next = entry;
	else
		list->first = entry;
	list->last = entry;
	list->count++;
}

void dsr_reservations_list_remove(struct dsr_reservations *r, struct number_list *list,
                                  uint32_t entry)
{
	const struct reservation_link *link = &r->links[entry];

	if (link->next != RESERVATION_NONE)
		r->links[link->next].prev = link->prev;
	else
		list->last = link->prev;
	if (link->prev != RESERVATION_NONE)
		r->links[link->prev].next = link->next;
	else
		list->first = link->next;
	list->count--;
}

static void row_free(struct dsr_reservations *r, uint32_t row)
{
	dsr_idmap_remove(r->ids, r->rows[row].owner_incarnation, r->rows[row].id);
	r->rows[row] = (struct reservation){.next = r->free_row};
	r->free_row = row;
}

/* There is always one: live ones and those kept are bounded, and the table holds both. */
static uint32_t row_take(struct dsr_reservations *r)
{
	uint32_t row = r->free_row;

	if (row != RESERVATION_NONE)
		r->free_row = r->rows[row].next;
	else
		row = r->rows_used++;
	dsr_assert(row < r->row_count);
	return row;
}

static void live_add(struct dsr_reservations *r, uint32_t row)
{
	struct reservation *resv = &r->rows[row];

	resv->next = RESERVATION_NONE;
	resv->prev = r->live.last;
	if (r->live.last != RESERVATION_NONE)
		r->rows[r->live.last].next = row;
	else
		r->live.first = row;
	r->live.last = row;
	r->live.count++;
}

static void live_remove(struct dsr_reservations *r, uint32_t row)
{
	const struct reservation *resv = &r->rows[row];

	if (resv->next != RESERVATION_NONE)
		r->rows[resv->next].prev = resv->prev;
	else
		r->live.last = resv->prev;
	if (resv->prev != RESERVATION_NONE)
		r->rows[resv->prev].next = resv->next;
	else
		r->live.first = resv->next;
	r->live.count--;
}

static void done_drop_oldest(struct dsr_reservations *r, struct reservation_owner *owner)
{
	uint32_t row = owner->done.first;

	owner->done.first = r->rows[row].next;
	if (owner->done.first == RESERVATION_NONE)
		owner->done.last = RESERVATION_NONE;
	owner->done.count--;
	row_free(r, row);
}

void dsr_reservations_finish(struct dsr_reservations *r, uint32_t row)
{
	struct reservation *resv = &r->rows[row];
	struct reservation_owner *owner;

	live_remove(r, row);
	if (resv->owner == RESERVATION_NONE) {
		row_free(r, row);
		return;
	}
	resv->state = RESERVATION_DONE;
	resv->next = RESERVATION_NONE;
	owner = &r->owners[resv->owner];
	if (owner->done.last != RESERVATION_NONE)
		r->rows[owner->done.last].next = row;
	else
		owner->done.first = row;
	owner->done.last = row;
	owner->done.count++;
	if (owner->done.count > r->options.kept)
		done_drop_oldest(r, owner);
}

void dsr_reservations_owner_begin(struct dsr_reservations *r, uint32_t owner, uint64_t incarnation)
{
	dsr_assert(owner < DSR_RESERVATION_OWNERS && incarnation != 0);
	if (r->owners[owner].incarnation == incarnation)
		return;
	dsr_reservations_owner_end(r, owner);
	r->owners[owner].incarnation = incarnation;
}

void dsr_reservations_owner_end(struct dsr_reservations *r, uint32_t owner)
{
	struct reservation_owner *ended = &r->owners[owner];

	if (ended->incarnation == 0)
		return;
	(void)dsr_reservations_lanes_dead(r, owner, ~UINT64_C(0));
	for (uint32_t row = r->live.first; row != RESERVATION_NONE; row = r->rows[row].next) {
		if (r->rows[row].owner != owner)
			continue;
		r->rows[row].owner = RESERVATION_NONE;
		dsr_reservations_set_dirty(r, row);
	}
	while (ended->done.count > 0)
		done_drop_oldest(r, ended);
	*ended = (struct reservation_owner){.done = empty_list};
}

/* ---- RESERVE ---- */

static uint64_t request_hash(const struct dsr_reserve_request *request)
{
	uint64_t hash = XXH3_64bits_withSeed(request->keys, request->count * sizeof(struct dsr_key),
	                                     request->depth);

	if (request->parent != NULL)
		hash = XXH3_64bits_withSeed(request->parent, sizeof(*request->parent), hash);
	return hash;
}

static void answer_keep(struct dsr_reservations *r, struct reservation *resv)
{
	size_t bytes = answer_bytes(resv->keys, resv->reserved);
	struct answer_place *places;
	int8_t *status = dsr_answers_put(r->answers, bytes, &resv->answer_at);

	if (status == NULL) {
		resv->answer_at = UINT64_MAX; /* never there: a repeat is -ESTALE */
		return;
	}
	for (uint32_t i = 0; i < resv->keys; i++)
		status[i] = (int8_t)r->status[i];
	places = (struct answer_place *)(void *)(status + ((resv->keys + 3u) & ~3u));
	for (uint32_t i = 0; i < resv->reserved; i++)
		places[i] =
			(struct answer_place){.entry = r->refs[i].entry, .slot = r->refs[i].slot};
}

static int answer_repeat(struct dsr_reservations *r, const struct reservation *resv,
                         const struct dsr_reserve_request *request)
{
	const struct answer_place *places;
	const int8_t *status;

	if (resv->keys != request->count || resv->keys_hash != request_hash(request))
		return -EINVAL;
	status = resv->answer_at == UINT64_MAX ? NULL : dsr_answers_at(r->answers, resv->answer_at);
	if (status == NULL)
		return -ESTALE;
	for (uint32_t i = 0; i < resv->keys; i++)
		r->status[i] = status[i];
	places = (const struct answer_place *)(const void *)(status + ((resv->keys + 3u) & ~3u));
	for (uint32_t i = 0; i < resv->reserved; i++)
		r->refs[i] = (struct dsr_ref){
			.generation = resv->generation + i,
			.slot_seq = resv->slot_seq + i,
			.entry = places[i].entry,
			.slot = places[i].slot,
		};
	return 0;
}

/* An entry that will not be there: nothing may be hung below it. */
static bool entry_is_ending(const struct dsr_cache *cache, uint32_t entry)
{
	enum dsr_entry_state state = dsr_cache_state(cache, entry);

	return state == DSR_ENTRY_ABORTING ||
	       (state == DSR_ENTRY_VISIBLE && !dsr_cache_is_readable(cache, entry));
}

/* The status of every key as if there were room; returns how many slots that takes. */
static uint32_t reserve_judge(struct dsr_reservations *r, const struct dsr_reserve_request *request)
{
	int32_t broken = 0; /* what absent keys get from here on */
	uint32_t wanted = 0;

	dsr_cache_find_all(r->cache, request->keys, request->count, r->entries);
	for (uint32_t i = 0; i < request->count; i++) {
		uint32_t entry = r->entries[i];

		if (entry == DSR_ENTRY_NONE) {
			r->status[i] = broken;
			wanted += broken == 0;
		} else if (entry_is_ending(r->cache, entry)) {
			r->status[i] = -EBUSY;
			broken = -ENOENT;
		} else if (dsr_cache_state(r->cache, entry) == DSR_ENTRY_VISIBLE) {
			r->status[i] = -EEXIST;
		} else {
			r->status[i] = -EBUSY;
		}
	}
	return wanted;
}

/* Evicts for `wanted` blocks, but nothing of the request's own chain: of its ancestors, too, only
 * the deepest could be without child. Returns how many will get a slot. */
static uint32_t reserve_make_room(struct dsr_reservations *r,
                                  const struct dsr_reserve_request *request, uint32_t parent,
                                  uint32_t wanted, uint64_t now_ns)
{
	uint32_t granted;

	if (parent != DSR_ENTRY_NONE)
		dsr_cache_guard(r->cache, parent);
	for (uint32_t i = 0; i < request->count; i++)
		if (r->entries[i] != DSR_ENTRY_NONE)
			dsr_cache_guard(r->cache, r->entries[i]);
	granted = dsr_cache_make_room(r->cache, wanted, now_ns);
	for (uint32_t i = 0; i < request->count; i++)
		if (r->entries[i] != DSR_ENTRY_NONE)
			dsr_cache_unguard(r->cache, r->entries[i]);
	if (parent != DSR_ENTRY_NONE)
		dsr_cache_unguard(r->cache, parent);
	return granted;
}

/* Binds one absent key; its status says whether it worked. */
static void reserve_bind(struct dsr_reservations *r, const struct dsr_reserve_request *request,
                         uint32_t row, uint32_t i, uint32_t above)
{
	struct reservation *resv = &r->rows[row];
	struct dsr_cache_binding binding = {
		.key = &request->keys[i],
		.parent = above,
		.depth = request->depth + i,
		.generation = resv->generation + resv->reserved,
		.slot_seq = resv->slot_seq + resv->reserved,
	};
	uint32_t entry = dsr_cache_find(r->cache, binding.key);

	if (entry != DSR_ENTRY_NONE) { /* the request names it twice */
		r->status[i] = -EBUSY;
		r->entries[i] = entry;
		return;
	}
	entry = dsr_cache_bind(r->cache, &binding);
	if (entry == DSR_ENTRY_NONE) {
		r->status[i] = -ENOSPC;
		return;
	}
	r->entries[i] = entry;
	r->links[entry].reservation = row;
	dsr_reservations_list_add(r, &resv->open, entry);
	dsr_cache_ref(r->cache, entry, &r->refs[resv->reserved++]);
}

static void reserve_all(struct dsr_reservations *r, const struct dsr_reserve_request *request,
                        uint32_t row, uint32_t parent, uint32_t granted)
{
	struct reservation *resv = &r->rows[row];
	uint32_t above = parent, deepest = DSR_ENTRY_NONE;
	bool is_full = false;

	dsr_cache_number(r->cache, granted, &resv->generation, &resv->slot_seq);
	for (uint32_t i = 0; i < request->count; i++) {
		if (r->status[i] == 0) {
			if (is_full || resv->reserved == granted)
				r->status[i] = -ENOSPC;
			else
				reserve_bind(r, request, row, i, above);
			is_full = is_full || r->status[i] == -ENOSPC;
		} else if (r->entries[i] != DSR_ENTRY_NONE && above != DSR_ENTRY_NONE) {
			(void)dsr_cache_link(r->cache, r->entries[i], above);
		}
		above = r->entries[i];
		if (above != DSR_ENTRY_NONE)
			deepest = above;
	}
	if (deepest != DSR_ENTRY_NONE)
		dsr_cache_touch(r->cache, deepest);
	if (resv->reserved > 0)
		dsr_counter_add(r->options.counters, DSR_COUNTER_BLOCKS_RESERVED, resv->reserved);
}

static uint32_t reserve_open(struct dsr_reservations *r, const struct dsr_reserve_request *request)
{
	uint32_t row = row_take(r);
	struct reservation *resv = &r->rows[row];

	*resv = (struct reservation){
		.owner_incarnation = r->owners[request->owner].incarnation,
		.id = request->id,
		.serial = ++r->serial,
		.keys_hash = request_hash(request),
		.keys = request->count,
		.owner = request->owner,
		.devices = request->devices,
		.open = empty_list,
		.pending = empty_list,
		.flying = empty_list,
		.next_dirty = RESERVATION_NONE,
		.state = RESERVATION_LIVE,
	};
	dsr_idmap_insert(r->ids, resv->owner_incarnation, resv->id, row);
	r->owners[request->owner].last_id = request->id;
	live_add(r, row);
	return row;
}

int dsr_reservations_reserve(struct dsr_reservations *r, const struct dsr_reserve_request *request,
                             uint64_t now_ns, struct dsr_reserve_answer *ret_answer)
{
	struct reservation_owner *owner = &r->owners[request->owner];
	uint32_t row, parent = DSR_ENTRY_NONE;
	int err;

	if (request->count > DSR_RESERVATION_KEYS)
		return -EINVAL;
	row = dsr_idmap_find(r->ids, owner->incarnation, request->id);
	if (row != DSR_IDMAP_NONE) {
		err = answer_repeat(r, &r->rows[row], request);
		if (err < 0)
			return err;
	} else if (request->id <= owner->last_id) {
		return -ESTALE;
	} else if (r->live.count == r->options.live_max) {
		dsr_counter_add(r->options.counters, DSR_COUNTER_REFUSED_RESERVATIONS, 1);
		return -EAGAIN;
	} else {
		row = reserve_open(r, request);
		if (request->parent != NULL)
			parent = dsr_cache_find(r->cache, request->parent);
		if (request->parent != NULL &&
		    (parent == DSR_ENTRY_NONE || entry_is_ending(r->cache, parent))) {
			for (uint32_t i = 0; i < request->count; i++)
				r->status[i] = -ENOENT;
		} else {
			uint32_t wanted = reserve_judge(r, request);

			reserve_all(r, request, row, parent,
			            reserve_make_room(r, request, parent, wanted, now_ns));
		}
		answer_keep(r, &r->rows[row]);
		dsr_reservations_set_dirty(r, row);
	}
	*ret_answer = (struct dsr_reserve_answer){
		.status = r->status,
		.refs = r->refs,
		.reserved = r->rows[row].reserved,
	};
	return 0;
}

uint32_t dsr_reservations_live(const struct dsr_reservations *r)
{
	return r->live.count;
}

uint64_t dsr_reservations_newest(const struct dsr_reservations *r)
{
	return r->serial;
}

uint64_t dsr_reservations_oldest(const struct dsr_reservations *r)
{
	return r->live.first == RESERVATION_NONE ? UINT64_MAX : r->rows[r->live.first].serial;
}

uint64_t dsr_reservations_left(const struct dsr_reservations *r, uint64_t serial)
{
	uint64_t left = 0;

	for (uint32_t row = r->live.first; row != RESERVATION_NONE && r->rows[row].serial <= serial;
	     row = r->rows[row].next)
		left += (uint64_t)r->rows[row].open.count + r->rows[row].pending.count +
		        r->rows[row].flying.count;
	return left;
}
