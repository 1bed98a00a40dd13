/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <errno.h>

bool model_is_readable(const struct model *m, int key)
{
	return m->blocks[key].state == MODEL_VISIBLE && !m->blocks[key].is_mismatched;
}

int model_lookup(const struct model *m, const int *path, int count)
{
	int i = 0;

	while (i < count && model_is_readable(m, path[i]))
		i++;
	return i;
}

int model_free_slots(const struct model *m)
{
	int used = m->quarantined;

	for (int key = 0; key < m->keys; key++)
		used += m->blocks[key].state != MODEL_FREE;
	return m->slots - used;
}

void model_freed(struct model *m, int key)
{
	m->blocks[key] = (struct model_block){.reservation = MODEL_NONE};
	for (int child = 0; child < m->keys; child++)
		if (m->parent[child] == key)
			m->blocks[child].is_linked = false;
}

static bool has_child(const struct model *m, int key)
{
	for (int child = 0; child < m->keys; child++)
		if (m->parent[child] == key && m->blocks[child].state != MODEL_FREE &&
		    m->blocks[child].is_linked)
			return true;
	return false;
}

/* Hangs a block below its parent, when that is there. */
static void link_up(struct model *m, int key)
{
	int parent = m->parent[key];

	if (parent != MODEL_NONE && m->blocks[parent].state != MODEL_FREE)
		m->blocks[key].is_linked = true;
}

static void touch(struct model *m, int key)
{
	for (;;) {
		m->blocks[key].use = ++m->clock;
		if (!m->blocks[key].is_linked)
			break;
		key = m->parent[key];
	}
}

/* ---- leases ---- */

static int leased_slots(const struct model *m)
{
	int leased = 0;

	for (int key = 0; key < m->keys; key++)
		leased += m->blocks[key].pins > 0;
	return leased;
}

int model_lease(struct model *m, struct model_lease *lease, int before)
{
	int run = model_lookup(m, lease->path, lease->asked), granted = 0;

	if (run > 0 && before != MODEL_NONE)
		link_up(m, lease->path[0]);
	for (int i = 1; i < run; i++)
		link_up(m, lease->path[i]);
	for (; granted < run; granted++) {
		struct model_block *block = &m->blocks[lease->path[granted]];

		if (block->pins == 0 && leased_slots(m) == m->slots / 2)
			break;
		block->pins++;
	}
	if (run > 0 && granted == 0)
		return -EAGAIN;
	if (granted > 0)
		touch(m, lease->path[granted - 1]);
	lease->granted = granted;
	lease->is_live = granted > 0;
	return granted;
}

void model_lease_end(struct model *m, struct model_lease *lease)
{
	for (int i = 0; i < lease->granted; i++) {
		struct model_block *block = &m->blocks[lease->path[i]];

		if (--block->pins == 0 && block->is_mismatched)
			model_freed(m, lease->path[i]);
	}
	*lease = (struct model_lease){0};
}

/* ---- reservations ---- */

static bool is_ending(const struct model *m, int key)
{
	return m->blocks[key].state == MODEL_ABORTING || m->blocks[key].is_mismatched;
}

/* The least recently used block that may go, or MODEL_NONE. */
static int victim(const struct model *m, const bool *is_kept)
{
	int best = MODEL_NONE;

	for (int key = 0; key < m->keys; key++) {
		const struct model_block *block = &m->blocks[key];

		if (!model_is_readable(m, key) || block->pins > 0 || is_kept[key] ||
		    has_child(m, key))
			continue;
		if (best == MODEL_NONE || block->use < m->blocks[best].use)
			best = key;
	}
	return best;
}

/* Everything of the chain that is there: the keys asked for, and the ancestors of the first, as far
 * as links are known. */
static void keep_chain(const struct model *m, const struct model_reservation *resv, bool *is_kept)
{
	for (int i = 0; i < resv->count; i++)
		is_kept[resv->path[i]] = true;
	for (int key = resv->parent; key != MODEL_NONE;
	     key = m->blocks[key].is_linked ? m->parent[key] : MODEL_NONE)
		is_kept[key] = true;
}

static int take_slot(struct model *m, const bool *is_kept, uint64_t now_ns)
{
	int evicted;

	if (model_free_slots(m) > 0)
		return 0;
	evicted = now_ns < m->evict_from_ns ? MODEL_NONE : victim(m, is_kept);
	if (evicted == MODEL_NONE)
		return -ENOSPC;
	model_freed(m, evicted);
	return 0;
}

static int reserve_one(struct model *m, int row, int i, int *broken, const bool *is_kept,
                       uint64_t now_ns)
{
	struct model_reservation *resv = &m->reservations[row];
	int key = resv->path[i], above = i > 0 ? resv->path[i - 1] : resv->parent;
	struct model_block *block = &m->blocks[key];

	if (block->state != MODEL_FREE) {
		if (above != MODEL_NONE)
			link_up(m, key);
		if (is_ending(m, key))
			*broken = -ENOENT;
		return block->state == MODEL_VISIBLE && !block->is_mismatched ? -EEXIST : -EBUSY;
	}
	if (*broken != 0)
		return *broken;
	if (take_slot(m, is_kept, now_ns) < 0) {
		*broken = -ENOSPC;
		return -ENOSPC;
	}
	*block = (struct model_block){.state = MODEL_RESERVED, .reservation = row};
	if (above != MODEL_NONE)
		block->is_linked = true;
	return 0;
}

int model_reserve(struct model *m, int row, uint64_t now_ns)
{
	struct model_reservation *resv = &m->reservations[row];
	bool is_kept[MODEL_KEYS] = {false};
	int broken = 0, deepest = MODEL_NONE, reserved = 0, parent = resv->parent;

	resv->is_live = true;
	if (parent != MODEL_NONE &&
	    (m->blocks[parent].state == MODEL_FREE || is_ending(m, parent))) {
		for (int i = 0; i < resv->count; i++)
			resv->status[i] = -ENOENT;
		return 0;
	}
	keep_chain(m, resv, is_kept);
	for (int i = 0; i < resv->count; i++) {
		resv->status[i] = reserve_one(m, row, i, &broken, is_kept, now_ns);
		reserved += resv->status[i] == 0;
		if (m->blocks[resv->path[i]].state != MODEL_FREE)
			deepest = resv->path[i];
	}
	if (deepest != MODEL_NONE)
		touch(m, deepest);
	return reserved;
}

bool model_commit(struct model *m, int row, int key, int lane)
{
	struct model_block *block = &m->blocks[key];

	if (block->state != MODEL_RESERVED || block->reservation != row)
		return false;
	block->lanes |= UINT64_C(1) << lane;
	for (int i = 0; i < m->lanes; i++)
		if ((block->lanes >> i & 1) == 0)
			return false;
	block->state = MODEL_VISIBLE;
	block->reservation = MODEL_NONE;
	return true;
}

int model_abort(struct model *m, int key, uint32_t except)
{
	struct model_block *block = &m->blocks[key];
	int aborted = 1;

	if (block->state != MODEL_RESERVED)
		return 0;
	block->state = MODEL_ABORTING;
	block->need = m->reservations[block->reservation].devices & ~except;
	for (int child = 0; child < m->keys; child++)
		if (m->parent[child] == key && m->blocks[child].is_linked)
			aborted += model_abort(m, child, 0);
	return aborted;
}

int model_abort_lacking(struct model *m, int row, uint64_t lanes, uint32_t except)
{
	bool is_lacking[MODEL_KEYS];
	int aborted = 0;

	for (int key = 0; key < m->keys; key++)
		is_lacking[key] = m->blocks[key].state == MODEL_RESERVED &&
		                  m->blocks[key].reservation == row &&
		                  (lanes & ~m->blocks[key].lanes) != 0;
	for (int key = 0; key < m->keys; key++)
		if (is_lacking[key])
			aborted += model_abort(m, key, except);
	return aborted;
}

void model_device_answered(struct model *m, int key, int device)
{
	if (m->blocks[key].state == MODEL_ABORTING)
		m->blocks[key].need &= ~(UINT32_C(1) << device);
}

void model_device_dead(struct model *m, int device)
{
	for (int key = 0; key < m->keys; key++)
		model_device_answered(m, key, device);
	for (int row = 0; row < MODEL_RESERVATIONS; row++)
		m->reservations[row].devices &= ~(UINT32_C(1) << device);
}

void model_settle(struct model *m)
{
	bool has_blocks[MODEL_RESERVATIONS] = {false};

	for (int key = 0; key < m->keys; key++)
		if (m->blocks[key].reservation != MODEL_NONE)
			has_blocks[m->blocks[key].reservation] = true;
	for (int row = 0; row < MODEL_RESERVATIONS; row++)
		m->reservations[row].is_live = has_blocks[row];
}

/* ---- the rest ---- */

bool model_mismatch(struct model *m, int key)
{
	struct model_block *block = &m->blocks[key];

	if (block->state != MODEL_VISIBLE || block->is_mismatched)
		return false;
	block->is_mismatched = true;
	if (block->pins == 0)
		model_freed(m, key);
	return true;
}

int model_forget(struct model *m)
{
	int forgotten = 0;

	for (int key = 0; key < m->keys; key++) {
		if (m->blocks[key].state != MODEL_VISIBLE || m->blocks[key].pins > 0)
			continue;
		model_freed(m, key);
		forgotten++;
	}
	return forgotten;
}

void model_restart(struct model *m, uint64_t evict_from_ns)
{
	for (int i = 0; i < MODEL_LEASES; i++)
		m->leases[i] = (struct model_lease){0};
	for (int row = 0; row < MODEL_RESERVATIONS; row++)
		m->reservations[row] = (struct model_reservation){.owner = MODEL_NONE};
	for (int key = 0; key < m->keys; key++) {
		m->blocks[key].pins = 0;
		if (m->blocks[key].state == MODEL_FREE || model_is_readable(m, key))
			continue;
		m->quarantined++;
		model_freed(m, key);
	}
	m->evict_from_ns = evict_from_ns;
}
