/* SPDX-License-Identifier: Apache-2.0 */
/* How reserved blocks become visible or free again. */
#include <errno.h>

#include "log.h"
#include "reservations_rows.h"

/* The open block of this reservation that `ref` names, or DSR_ENTRY_NONE: stale. */
static uint32_t report_entry(const struct dsr_reservations *r, uint64_t owner, uint64_t id,
                             const struct dsr_ref *ref)
{
	uint32_t entry = dsr_cache_resolve(r->cache, ref);
	const struct reservation *resv;

	if (entry == DSR_ENTRY_NONE || dsr_cache_state(r->cache, entry) != DSR_ENTRY_RESERVED)
		return DSR_ENTRY_NONE;
	resv = &r->rows[r->links[entry].reservation];
	return resv->owner_incarnation == owner && resv->id == id ? entry : DSR_ENTRY_NONE;
}

void dsr_reservations_set_dirty(struct dsr_reservations *r, uint32_t row)
{
	if (r->rows[row].is_dirty)
		return;
	r->rows[row].is_dirty = true;
	r->rows[row].next_dirty = r->first_dirty;
	r->first_dirty = row;
}

void dsr_reservations_commit(struct dsr_reservations *r, const struct dsr_lane_report *report,
                             uint32_t *ret_committed, uint32_t *ret_visible)
{
	uint32_t committed = 0, visible = 0;

	for (uint32_t i = 0; i < report->count; i++) {
		uint32_t entry = report_entry(r, report->owner, report->id, &report->refs[i]);
		uint32_t row;
		bool is_new;

		if (entry == DSR_ENTRY_NONE || report->lane >= dsr_cache_lane_count(r->cache))
			continue;
		row = r->links[entry].reservation;
		if (dsr_cache_commit(r->cache, entry, report->lane, &is_new)) {
			dsr_reservations_list_remove(r, &r->rows[row].open, entry);
			dsr_reservations_set_dirty(r, row);
			visible++;
		}
		committed += is_new;
	}
	if (visible > 0)
		dsr_counter_add(r->options.counters, DSR_COUNTER_BLOCKS_COMMITTED, visible);
	*ret_committed = committed;
	*ret_visible = visible;
}

/* ---- aborting ---- */

static void abort_one(struct dsr_reservations *r, uint32_t entry, uint32_t except)
{
	uint32_t row = r->links[entry].reservation;
	struct reservation *resv = &r->rows[row];

	dsr_cache_abort(r->cache, entry);
	dsr_reservations_list_remove(r, &resv->open, entry);
	dsr_reservations_list_add(r, &resv->pending, entry);
	resv->pending_to |= resv->devices & ~except;
	dsr_reservations_set_dirty(r, row);
}

/* Aborts a block and every reserved block below it, in whatever reservation: nobody could reach
 * them. Without recursion: a chain may be long. */
static uint32_t abort_tree(struct dsr_reservations *r, uint32_t root, uint32_t except)
{
	uint32_t aborted = 1, at;

	abort_one(r, root, except);
	at = dsr_cache_first_child(r->cache, root);
	while (at != DSR_ENTRY_NONE) {
		uint32_t next = DSR_ENTRY_NONE;

		if (dsr_cache_state(r->cache, at) == DSR_ENTRY_RESERVED) {
			abort_one(r, at, 0);
			aborted++;
			next = dsr_cache_first_child(r->cache, at);
		}
		while (next == DSR_ENTRY_NONE && at != root) {
			next = dsr_cache_next_sibling(r->cache, at);
			if (next == DSR_ENTRY_NONE)
				at = dsr_cache_parent(r->cache, at);
		}
		at = next;
	}
	return aborted;
}

/* Aborts the open blocks of one reservation that lack a lane of `lanes`. */
static uint32_t abort_lacking(struct dsr_reservations *r, uint32_t row, uint64_t lanes,
                              uint32_t except)
{
	uint32_t found = 0, aborted = 0;
	uint64_t all;

	if (r->rows[row].open.count == 0)
		return 0;
	all = ~UINT64_C(0) >> (64 - dsr_cache_lane_count(r->cache));
	/* First all, then each: aborting one may take others of this list with it. */
	for (uint32_t entry = r->rows[row].open.first; entry != RESERVATION_NONE;
	     entry = r->links[entry].next)
		if ((lanes & all & ~dsr_cache_lanes(r->cache, entry)) != 0)
			r->entries[found++] = entry;
	for (uint32_t i = 0; i < found; i++)
		if (dsr_cache_state(r->cache, r->entries[i]) == DSR_ENTRY_RESERVED)
			aborted += abort_tree(r, r->entries[i], except);
	return aborted;
}

static uint32_t count_aborted(struct dsr_reservations *r, uint32_t aborted)
{
	if (aborted > 0)
		dsr_counter_add(r->options.counters, DSR_COUNTER_BLOCKS_ABORTED, aborted);
	return aborted;
}

uint32_t dsr_reservations_abort(struct dsr_reservations *r, const struct dsr_lane_report *report,
                                uint32_t except)
{
	uint32_t aborted = 0;

	for (uint32_t i = 0; i < report->count; i++) {
		uint32_t entry = report_entry(r, report->owner, report->id, &report->refs[i]);

		if (entry != DSR_ENTRY_NONE)
			aborted += abort_tree(r, entry, except);
	}
	return count_aborted(r, aborted);
}

int dsr_reservations_abandon(struct dsr_reservations *r, uint32_t owner, uint64_t id,
                             const struct dsr_ref *refs, uint32_t count)
{
	uint64_t incarnation = r->owners[owner].incarnation;
	uint32_t row = dsr_idmap_find(r->ids, incarnation, id);
	struct dsr_lane_report report = {
		.owner = incarnation, .id = id, .refs = refs, .count = count};

	if (row == DSR_IDMAP_NONE)
		return -ENOENT;
	if (count > 0)
		(void)dsr_reservations_abort(r, &report, 0);
	else if (r->rows[row].state == RESERVATION_LIVE)
		(void)count_aborted(r, abort_lacking(r, row, ~UINT64_C(0), 0));
	return 0;
}

uint32_t dsr_reservations_lanes_dead(struct dsr_reservations *r, uint32_t owner, uint64_t lanes)
{
	uint32_t aborted = 0;

	for (uint32_t row = r->live.first; row != RESERVATION_NONE; row = r->rows[row].next)
		if (r->rows[row].owner == owner)
			aborted += abort_lacking(r, row, lanes, 0);
	return count_aborted(r, aborted);
}

uint32_t dsr_reservations_device_dead(struct dsr_reservations *r, uint32_t device,
                                      const uint64_t lanes[DSR_RESERVATION_OWNERS])
{
	uint32_t bit = UINT32_C(1) << device, aborted = 0;

	for (uint32_t row = r->live.first; row != RESERVATION_NONE; row = r->rows[row].next) {
		struct reservation *resv = &r->rows[row];

		if ((resv->devices & bit) == 0)
			continue;
		resv->devices &= ~bit;
		if (resv->owner != RESERVATION_NONE)
			aborted += abort_lacking(r, row, lanes[resv->owner], bit);
		resv->pending_to &= ~bit;
		resv->flying_to &= ~bit;
		resv->unsent &= ~bit;
		dsr_reservations_set_dirty(r, row);
	}
	return count_aborted(r, aborted);
}

/* ---- CANCEL ---- */

static uint64_t cancel_cookie(uint32_t row, uint32_t batch)
{
	return (uint64_t)row << 32 | batch;
}

/* The reservation whose CANCEL under way has this cookie and waits for this device, or
 * RESERVATION_NONE. */
static uint32_t cancel_row(const struct dsr_reservations *r, uint64_t cookie, uint32_t device)
{
	uint32_t row = (uint32_t)(cookie >> 32);

	if (row >= r->rows_used || r->rows[row].state != RESERVATION_LIVE ||
	    r->rows[row].batch != (uint32_t)cookie || device >= 32 ||
	    (r->rows[row].flying_to >> device & 1) == 0)
		return RESERVATION_NONE;
	return row;
}

static void cancel_send(struct dsr_reservations *r, uint32_t row, uint32_t devices)
{
	struct reservation *resv = &r->rows[row];
	uint32_t count = 0;

	if (devices == 0)
		return;
	for (uint32_t entry = resv->flying.first; entry != RESERVATION_NONE;
	     entry = r->links[entry].next)
		dsr_cache_ref(r->cache, entry, &r->cancel_refs[count++]);
	for (uint32_t device = 0; device < 32; device++) {
		uint32_t bit = UINT32_C(1) << device;
		int err;

		if ((devices & bit) == 0)
			continue;
		err = r->options.cancel(r->options.self, device, cancel_cookie(row, resv->batch),
		                        r->cancel_refs, count);
		resv->unsent &= ~bit;
		if (err == -EOWNERDEAD)
			resv->flying_to &= ~bit;
		else if (err < 0)
			resv->unsent |= bit;
	}
}

static void cancel_end(struct dsr_reservations *r, struct reservation *resv)
{
	while (resv->flying.count > 0) {
		uint32_t entry = resv->flying.first;

		dsr_reservations_list_remove(r, &resv->flying, entry);
		dsr_cache_drop(r->cache, entry);
	}
}

void dsr_reservations_answered(struct dsr_reservations *r, uint64_t cookie, uint32_t device)
{
	uint32_t row = cancel_row(r, cookie, device);

	if (row == RESERVATION_NONE)
		return;
	r->rows[row].flying_to &= ~(UINT32_C(1) << device);
	r->rows[row].unsent &= ~(UINT32_C(1) << device);
	dsr_reservations_set_dirty(r, row);
}

void dsr_reservations_unanswered(struct dsr_reservations *r, uint64_t cookie, uint32_t device)
{
	uint32_t row = cancel_row(r, cookie, device);

	if (row != RESERVATION_NONE)
		r->rows[row].unsent |= UINT32_C(1) << device;
}

void dsr_reservations_retry(struct dsr_reservations *r)
{
	for (uint32_t row = r->live.first; row != RESERVATION_NONE; row = r->rows[row].next) {
		if (r->rows[row].unsent == 0)
			continue;
		cancel_send(r, row, r->rows[row].unsent);
		dsr_reservations_set_dirty(r, row);
	}
}

static void flush_one(struct dsr_reservations *r, uint32_t row)
{
	struct reservation *resv = &r->rows[row];

	for (;;) {
		if (resv->flying_to == 0)
			cancel_end(r, resv);
		if (resv->flying.count > 0 || resv->pending.count == 0)
			break;
		resv->flying = resv->pending;
		resv->flying_to = resv->pending_to;
		resv->pending =
			(struct number_list){.first = RESERVATION_NONE, .last = RESERVATION_NONE};
		resv->pending_to = 0;
		resv->batch++;
		cancel_send(r, row, resv->flying_to);
	}
	if (resv->open.count == 0 && resv->flying.count == 0)
		dsr_reservations_finish(r, row);
}

void dsr_reservations_flush(struct dsr_reservations *r)
{
	while (r->first_dirty != RESERVATION_NONE) {
		uint32_t row = r->first_dirty;

		r->first_dirty = r->rows[row].next_dirty;
		r->rows[row].is_dirty = false;
		flush_one(r, row);
	}
}
