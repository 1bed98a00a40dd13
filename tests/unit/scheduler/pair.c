/* SPDX-License-Identifier: Apache-2.0 */
#include "pair.h"

int pair_pick(struct pair *p, int count)
{
	return (int)(rig_random(&p->seed) % (uint64_t)count);
}

int pair_pick_path(struct pair *p, int *ret_path, int *ret_first, int *ret_before)
{
	int path[MODEL_KEYS], length = 0, first, count;

	for (int key = pair_pick(p, p->model.keys); key != MODEL_NONE; key = p->model.parent[key])
		path[length++] = key;
	first = pair_pick(p, 3) == 0 ? pair_pick(p, length) : 0;
	count = 1 + pair_pick(p, length - first);
	for (int i = 0; i < count; i++)
		ret_path[i] = path[length - 1 - first - i];
	*ret_first = first;
	*ret_before = first > 0 ? path[length - first] : MODEL_NONE;
	return count;
}

void pair_path_keys(const int *path, int count, struct dsr_key *ret_keys)
{
	for (int i = 0; i < count; i++)
		ret_keys[i] = rig_key((uint64_t)path[i]);
}

/* ---- comparing ---- */

static void compare_order(struct pair *p)
{
	for (int a = 0; a < p->model.keys; a++) {
		for (int b = 0; b < p->model.keys; b++) {
			struct dsr_key key_a = rig_key((uint64_t)a), key_b = rig_key((uint64_t)b);

			if (p->model.blocks[a].state != MODEL_VISIBLE ||
			    p->model.blocks[b].state != MODEL_VISIBLE)
				continue;
			assert_int_equal(
				p->model.blocks[a].use < p->model.blocks[b].use,
				p->rig.entries[dsr_cache_find(p->rig.cache, &key_a)].last_use <
					p->rig.entries[dsr_cache_find(p->rig.cache, &key_b)]
						.last_use);
		}
	}
}

/* Blocks that are being aborted may be free by now, but only those for which every writer answered;
 * and when no CANCEL is under way, all of them. */
static void follow_aborting(struct pair *p)
{
	for (int key = 0; key < p->model.keys; key++) {
		if (p->model.blocks[key].state != MODEL_ABORTING)
			continue;
		if (rig_state(&p->rig, (uint64_t)key) == DSR_ENTRY_ABORTING) {
			assert_true(p->rig.cancel_count > 0);
			continue;
		}
		assert_int_equal(p->model.blocks[key].need, 0);
		model_freed(&p->model, key);
	}
}

void pair_compare(struct pair *p)
{
	static const enum dsr_entry_state states[] = {
		[MODEL_FREE] = DSR_ENTRY_FREE,
		[MODEL_RESERVED] = DSR_ENTRY_RESERVED,
		[MODEL_VISIBLE] = DSR_ENTRY_VISIBLE,
		[MODEL_ABORTING] = DSR_ENTRY_ABORTING,
	};
	int live = 0;

	dsr_reservations_flush(p->rig.reservations);
	follow_aborting(p);
	model_settle(&p->model);
	for (int key = 0; key < p->model.keys; key++) {
		const struct model_block *block = &p->model.blocks[key];
		struct dsr_key of = rig_key((uint64_t)key);
		uint32_t entry = dsr_cache_find(p->rig.cache, &of), parent;

		assert_int_equal(rig_state(&p->rig, (uint64_t)key), states[block->state]);
		if (entry == DSR_ENTRY_NONE)
			continue;
		assert_int_equal(dsr_cache_lanes(p->rig.cache, entry), block->lanes);
		assert_int_equal(dsr_cache_pins(p->rig.cache, entry), block->pins);
		assert_int_equal(dsr_cache_is_readable(p->rig.cache, entry),
		                 model_is_readable(&p->model, key));
		parent = dsr_cache_parent(p->rig.cache, entry);
		assert_int_equal(parent != DSR_ENTRY_NONE, block->is_linked);
		if (block->is_linked) {
			of = rig_key((uint64_t)p->model.parent[key]);
			assert_int_equal(parent, dsr_cache_find(p->rig.cache, &of));
		}
	}
	for (int row = 0; row < MODEL_RESERVATIONS; row++)
		live += p->model.reservations[row].is_live;
	assert_int_equal(dsr_reservations_live(p->rig.reservations), live);
	assert_int_equal(rig_counts(&p->rig).slots_free, model_free_slots(&p->model));
	if (p->step % 32 == 0) {
		rig_check(&p->rig);
		compare_order(p);
	}
}
