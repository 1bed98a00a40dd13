/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <errno.h>

#include "entry_table.h"
#include "rig.h"

static int setup(void **state)
{
	static struct rig rig;

	rig_open(&rig, 8, 2);
	*state = &rig;
	return 0;
}

static int teardown(void **state)
{
	struct rig *rig = *state;

	rig_check(rig);
	rig_close(rig);
	return 0;
}

static uint32_t bind(struct rig *rig, uint64_t number, uint32_t parent)
{
	struct dsr_key key = rig_key(number);
	struct dsr_cache_binding binding = {.key = &key, .parent = parent};

	dsr_cache_number(rig->cache, 1, &binding.generation, &binding.slot_seq);
	return dsr_cache_bind(rig->cache, &binding);
}

static void commit(struct rig *rig, uint32_t entry)
{
	bool is_new;

	(void)dsr_cache_commit(rig->cache, entry, 0, &is_new);
	assert_true(dsr_cache_commit(rig->cache, entry, 1, &is_new));
}

static uint32_t add(struct rig *rig, uint64_t number, uint32_t parent)
{
	uint32_t entry = bind(rig, number, parent);

	commit(rig, entry);
	dsr_cache_touch(rig->cache, entry);
	return entry;
}

static void a_block_is_visible_when_every_lane_is_stored(void **state)
{
	struct rig *rig = *state;
	uint32_t entry = bind(rig, 1, DSR_ENTRY_NONE);
	struct dsr_key key = rig_key(1);
	bool is_new;

	assert_int_equal(dsr_cache_prefix(rig->cache, &key, 1, NULL), 0);
	assert_false(dsr_cache_commit(rig->cache, entry, 1, &is_new));
	assert_true(is_new);
	assert_false(dsr_cache_commit(rig->cache, entry, 1, &is_new));
	assert_false(is_new);
	assert_int_equal(dsr_cache_prefix(rig->cache, &key, 1, NULL), 0);
	assert_true(dsr_cache_commit(rig->cache, entry, 0, &is_new));
	assert_int_equal(dsr_cache_prefix(rig->cache, &key, 1, NULL), 1);
}

static void sixty_four_lanes_are_all_waited_for(void **state)
{
	struct rig rig;
	uint32_t entry;
	bool is_new;

	(void)state;
	rig_open(&rig, 4, 64);
	entry = bind(&rig, 1, DSR_ENTRY_NONE);
	for (uint32_t lane = 0; lane < 63; lane++)
		assert_false(dsr_cache_commit(rig.cache, entry, 63 - lane, &is_new));
	assert_true(dsr_cache_commit(rig.cache, entry, 0, &is_new));
	rig_check(&rig);
	rig_close(&rig);
}

static void the_slot_sequence_moves_before_the_entry_names_the_slot(void **state)
{
	struct rig *rig = *state;
	uint32_t entry = add(rig, 1, DSR_ENTRY_NONE);
	struct dsr_ref ref, again;

	dsr_cache_ref(rig->cache, entry, &ref);
	assert_int_equal(rig->slot_seqs[ref.slot], ref.slot_seq);
	assert_true(dsr_entry_matches(rig->entries, 8, &ref, DSR_ENTRY_VISIBLE));
	dsr_cache_drop(rig->cache, entry);
	assert_false(dsr_entry_matches(rig->entries, 8, &ref, DSR_ENTRY_VISIBLE));
	/* Every slot is taken once: one of them is the same. */
	for (uint64_t i = 0; i < 8; i++)
		entry = bind(rig, 10 + i, DSR_ENTRY_NONE);
	assert_true(rig->slot_seqs[ref.slot] > ref.slot_seq);
	dsr_cache_ref(rig->cache, entry, &again);
	assert_true(again.generation > ref.generation);
	assert_int_equal(dsr_cache_resolve(rig->cache, &ref), DSR_ENTRY_NONE);
}

static void numbers_carry_the_pool_epoch_and_are_written_ahead(void **state)
{
	struct rig *rig = *state;
	uint64_t generation, slot_seq;

	dsr_cache_number(rig->cache, 5, &generation, &slot_seq);
	assert_int_equal(generation >> DSR_EPOCH_SHIFT, 3);
	assert_int_equal(slot_seq >> DSR_EPOCH_SHIFT, 3);
	assert_int_equal(rig->state.next_generation, generation + 5);
	assert_int_equal(rig->state.next_slot_seq, slot_seq + 5);
}

static void a_reference_is_resolved_only_while_every_part_of_it_holds(void **state)
{
	struct rig *rig = *state;
	uint32_t entry = add(rig, 1, DSR_ENTRY_NONE);
	struct dsr_ref good, ref;

	dsr_cache_ref(rig->cache, entry, &good);
	assert_int_equal(dsr_cache_resolve(rig->cache, &good), entry);
	ref = good;
	ref.generation++;
	assert_int_equal(dsr_cache_resolve(rig->cache, &ref), DSR_ENTRY_NONE);
	ref = good;
	ref.slot_seq++;
	assert_int_equal(dsr_cache_resolve(rig->cache, &ref), DSR_ENTRY_NONE);
	ref = good;
	ref.slot++;
	assert_int_equal(dsr_cache_resolve(rig->cache, &ref), DSR_ENTRY_NONE);
	ref = good;
	ref.entry++;
	assert_int_equal(dsr_cache_resolve(rig->cache, &ref), DSR_ENTRY_NONE);
	ref.entry = UINT32_MAX;
	assert_int_equal(dsr_cache_resolve(rig->cache, &ref), DSR_ENTRY_NONE);
	dsr_cache_drop(rig->cache, entry);
	assert_int_equal(dsr_cache_resolve(rig->cache, &good), DSR_ENTRY_NONE);
}

static void the_prefix_ends_at_the_first_key_that_is_not_readable(void **state)
{
	struct rig *rig = *state;
	uint32_t a = add(rig, 0, DSR_ENTRY_NONE), b = add(rig, 1, a), c = add(rig, 2, b);
	struct dsr_key keys[5];
	uint32_t entries[5];

	rig_chain(keys, 0, 5);
	(void)bind(rig, 3, c);
	(void)add(rig, 4, DSR_ENTRY_NONE);
	assert_int_equal(dsr_cache_prefix(rig->cache, keys, 5, entries), 3);
	assert_int_equal(entries[2], c);
	dsr_cache_pin(rig->cache, b);
	assert_true(dsr_cache_mismatch(rig->cache, b));
	assert_int_equal(dsr_cache_prefix(rig->cache, keys, 5, entries), 1);
	dsr_cache_unpin(rig->cache, b);
}

static void the_least_recently_used_leaf_is_evicted_first(void **state)
{
	struct rig *rig = *state;
	uint32_t a = add(rig, 0, DSR_ENTRY_NONE), b = add(rig, 1, a);
	uint32_t other = add(rig, 10, DSR_ENTRY_NONE);

	dsr_cache_touch(rig->cache, other);
	dsr_cache_touch(rig->cache, b); /* b, then a */
	assert_int_equal(dsr_cache_make_room(rig->cache, 6, 0), 6);
	assert_int_equal(rig_state(rig, 10), DSR_ENTRY_FREE);
	assert_int_equal(dsr_cache_make_room(rig->cache, 7, 0), 7);
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_FREE);
	assert_int_equal(rig_state(rig, 0), DSR_ENTRY_VISIBLE);
	assert_int_equal(rig_counter(rig, DSR_COUNTER_BLOCKS_EVICTED), 2);
}

static void what_has_a_child_a_lease_or_a_guard_or_is_half_written_stays(void **state)
{
	struct rig *rig = *state;
	uint32_t parent = add(rig, 0, DSR_ENTRY_NONE), child = bind(rig, 1, parent);
	uint32_t leased = add(rig, 2, DSR_ENTRY_NONE), guarded = add(rig, 3, DSR_ENTRY_NONE);

	dsr_cache_pin(rig->cache, leased);
	dsr_cache_guard(rig->cache, guarded);
	assert_int_equal(dsr_cache_make_room(rig->cache, 8, 0), 4);
	dsr_cache_unpin(rig->cache, leased);
	assert_int_equal(dsr_cache_make_room(rig->cache, 8, 0), 5);
	dsr_cache_unguard(rig->cache, guarded);
	assert_int_equal(dsr_cache_make_room(rig->cache, 8, 0), 6);
	commit(rig, child);
	assert_int_equal(dsr_cache_make_room(rig->cache, 8, 0), 8);
}

static void no_more_is_evicted_than_is_needed(void **state)
{
	struct rig *rig = *state;

	for (uint64_t i = 0; i < 8; i++)
		(void)add(rig, i, DSR_ENTRY_NONE);
	assert_int_equal(dsr_cache_make_room(rig->cache, 3, 0), 3);
	assert_int_equal(rig_counts(rig).visible, 5);
	assert_int_equal(dsr_cache_make_room(rig->cache, 3, 0), 3);
	assert_int_equal(rig_counts(rig).visible, 5);
}

static void leases_of_one_entry_are_counted(void **state)
{
	struct rig *rig = *state;
	uint32_t entry = add(rig, 0, DSR_ENTRY_NONE);

	dsr_cache_pin(rig->cache, entry);
	dsr_cache_pin(rig->cache, entry);
	assert_int_equal(rig_counts(rig).leased, 1);
	dsr_cache_unpin(rig->cache, entry);
	assert_int_equal(dsr_cache_make_room(rig->cache, 8, 0), 7);
	dsr_cache_unpin(rig->cache, entry);
	assert_int_equal(rig_counts(rig).leased, 0);
	assert_int_equal(dsr_cache_make_room(rig->cache, 8, 0), 8);
}

static void a_mismatched_block_goes_at_once_or_with_its_last_lease(void **state)
{
	struct rig *rig = *state;
	uint32_t a = add(rig, 0, DSR_ENTRY_NONE), b = add(rig, 1, DSR_ENTRY_NONE);

	assert_true(dsr_cache_mismatch(rig->cache, a));
	assert_int_equal(rig_state(rig, 0), DSR_ENTRY_FREE);
	dsr_cache_pin(rig->cache, b);
	assert_true(dsr_cache_mismatch(rig->cache, b));
	assert_false(dsr_cache_mismatch(rig->cache, b));
	assert_false(dsr_cache_is_readable(rig->cache, b));
	assert_int_equal(rig->entries[b].flags, DSR_ENTRY_MISMATCHED);
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_VISIBLE);
	dsr_cache_unpin(rig->cache, b);
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_FREE);
	assert_int_equal(rig_counter(rig, DSR_COUNTER_BLOCKS_MISMATCHED), 2);
}

static void children_of_a_dropped_block_can_be_hung_below_its_successor(void **state)
{
	struct rig *rig = *state;
	uint32_t a = add(rig, 0, DSR_ENTRY_NONE), b = add(rig, 1, a);

	assert_true(dsr_cache_mismatch(rig->cache, a));
	assert_int_equal(dsr_cache_parent(rig->cache, b), DSR_ENTRY_NONE);
	a = bind(rig, 0, DSR_ENTRY_NONE);
	assert_true(dsr_cache_link(rig->cache, b, a));
	assert_int_equal(dsr_cache_parent(rig->cache, b), a);
	assert_int_equal(dsr_cache_first_child(rig->cache, a), b);
	assert_int_equal(rig->entries[b].parent, a);
	assert_int_equal(rig->entries[b].parent_generation, rig->entries[a].generation);
}

static void links_that_do_not_grow_by_one_are_refused(void **state)
{
	struct rig *rig = *state;
	uint32_t a = add(rig, 0, DSR_ENTRY_NONE), b = add(rig, 1, a), c = add(rig, 2, b);

	assert_false(dsr_cache_link(rig->cache, a, c)); /* a ring */
	assert_false(dsr_cache_link(rig->cache, a, a));
	assert_false(dsr_cache_link(rig->cache, c, a)); /* has a parent */
	assert_true(dsr_cache_link(rig->cache, c, b));
}

static void siblings_leave_their_parent_in_any_order(void **state)
{
	struct rig *rig = *state;
	uint32_t root = add(rig, 0, DSR_ENTRY_NONE), child[4];

	for (uint64_t i = 0; i < 4; i++)
		child[i] = add(rig, 1 + i, root);
	dsr_cache_drop(rig->cache, child[1]);
	dsr_cache_drop(rig->cache, child[3]);
	dsr_cache_drop(rig->cache, child[0]);
	assert_int_equal(dsr_cache_first_child(rig->cache, root), child[2]);
	assert_int_equal(dsr_cache_next_sibling(rig->cache, child[2]), DSR_ENTRY_NONE);
	dsr_cache_drop(rig->cache, child[2]);
	assert_int_equal(dsr_cache_first_child(rig->cache, root), DSR_ENTRY_NONE);
	assert_int_equal(dsr_cache_make_room(rig->cache, 8, 0), 8);
}

static void use_is_written_into_the_table_deepest_first(void **state)
{
	struct rig *rig = *state;
	uint32_t a = add(rig, 0, DSR_ENTRY_NONE), b = add(rig, 1, a), c = add(rig, 2, b);

	dsr_cache_touch(rig->cache, c);
	assert_true(rig->entries[a].last_use > rig->entries[b].last_use);
	assert_true(rig->entries[b].last_use > rig->entries[c].last_use);
}

static void forgetting_spares_what_is_leased_or_being_written(void **state)
{
	struct rig *rig = *state;
	uint32_t a = add(rig, 0, DSR_ENTRY_NONE), b = add(rig, 1, a);

	(void)bind(rig, 2, b);
	(void)add(rig, 3, DSR_ENTRY_NONE);
	dsr_cache_pin(rig->cache, b);
	assert_int_equal(dsr_cache_forget(rig->cache), 2);
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_VISIBLE);
	assert_int_equal(rig_state(rig, 2), DSR_ENTRY_RESERVED);
	dsr_cache_unpin(rig->cache, b);
}

static void counts_are_published(void **state)
{
	struct rig *rig = *state;
	uint32_t a = add(rig, 0, DSR_ENTRY_NONE), b = bind(rig, 1, DSR_ENTRY_NONE);

	(void)bind(rig, 2, DSR_ENTRY_NONE);
	dsr_cache_pin(rig->cache, a);
	dsr_cache_abort(rig->cache, b);
	dsr_cache_publish(rig->cache);
	assert_int_equal(rig->state.entries_visible, 1);
	assert_int_equal(rig->state.entries_reserved, 1);
	assert_int_equal(rig->state.slots_quarantined, 1);
	assert_int_equal(rig->state.slots_free, 5);
	assert_int_equal(rig->state.leased_slots, 1);
	dsr_cache_unpin(rig->cache, a);
}

static void without_a_pool_nothing_is_bound(void **state)
{
	struct rig *rig = *state;
	struct dsr_cache_pool pool = {.slot_seqs = rig->slot_seqs, .slots = 8, .lanes = 2};
	uint32_t old = add(rig, 0, DSR_ENTRY_NONE);

	(void)old;
	assert_int_equal(dsr_cache_set_pool(rig->cache, &pool), -EALREADY);
	dsr_cache_clear_pool(rig->cache);
	assert_int_equal(rig_state(rig, 0), DSR_ENTRY_FREE);
	assert_int_equal(bind(rig, 1, DSR_ENTRY_NONE), DSR_ENTRY_NONE);
	assert_int_equal(dsr_cache_make_room(rig->cache, 1, 0), 0);
	pool.lanes = 65;
	assert_int_equal(dsr_cache_set_pool(rig->cache, &pool), -EINVAL);
	pool.lanes = 2;
	pool.slots = 9; /* more than entries */
	assert_int_equal(dsr_cache_set_pool(rig->cache, &pool), -EINVAL);
	pool.slots = 8;
	assert_int_equal(dsr_cache_set_pool(rig->cache, &pool), 0);
	(void)add(rig, 1, DSR_ENTRY_NONE);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_block_is_visible_when_every_lane_is_stored),
		T(sixty_four_lanes_are_all_waited_for),
		T(the_slot_sequence_moves_before_the_entry_names_the_slot),
		T(numbers_carry_the_pool_epoch_and_are_written_ahead),
		T(a_reference_is_resolved_only_while_every_part_of_it_holds),
		T(the_prefix_ends_at_the_first_key_that_is_not_readable),
		T(the_least_recently_used_leaf_is_evicted_first),
		T(what_has_a_child_a_lease_or_a_guard_or_is_half_written_stays),
		T(no_more_is_evicted_than_is_needed),
		T(leases_of_one_entry_are_counted),
		T(a_mismatched_block_goes_at_once_or_with_its_last_lease),
		T(children_of_a_dropped_block_can_be_hung_below_its_successor),
		T(links_that_do_not_grow_by_one_are_refused),
		T(siblings_leave_their_parent_in_any_order),
		T(use_is_written_into_the_table_deepest_first),
		T(forgetting_spares_what_is_leased_or_being_written),
		T(counts_are_published),
		T(without_a_pool_nothing_is_bound),
	};

	return cmocka_run_group_tests_name("scheduler_cache", tests, NULL, NULL);
}
