/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <string.h>

#include "entry_table.h"
#include "rig.h"

static struct dsr_key keys[RIG_KEYS]; /* of blocks 0, 1, 2, ... */

static int setup(void **state)
{
	static struct rig rig;

	rig_open(&rig, 16, 2);
	rig_chain(keys, 0, RIG_KEYS);
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

static struct dsr_cache_rebuilt restart(struct rig *rig)
{
	struct dsr_cache_rebuilt rebuilt;

	rig_close_tables(rig);
	rig_open_tables(rig);
	assert_int_equal(dsr_cache_rebuild(rig->cache, rig->now_ns, &rebuilt), 0);
	return rebuilt;
}

static uint32_t entry_of(const struct rig *rig, uint64_t number)
{
	struct dsr_key key = rig_key(number);

	return dsr_cache_find(rig->cache, &key);
}

static void an_unused_table_is_an_empty_cache(void **state)
{
	struct rig *rig = *state;
	struct dsr_cache_rebuilt rebuilt = restart(rig);

	assert_int_equal(rebuilt.kept, 0);
	assert_int_equal(rebuilt.quarantined, 0);
	assert_int_equal(rig_counts(rig).slots_free, 16);
}

static void visible_blocks_are_there_as_before(void **state)
{
	struct rig *rig = *state;
	struct dsr_entry before[16];
	struct dsr_ref refs[4];
	uint32_t i;

	rig_store(rig, 1, 0, 4);
	memcpy(refs, rig->refs, sizeof(refs));
	rig_store(rig, 2, 100, 3);
	memcpy(before, rig->entries, sizeof(before));
	assert_int_equal(restart(rig).kept, 7);
	for (i = 0; i < 16; i++) {
		before[i].seq = rig->entries[i].seq; /* free rows were cleared once more */
		assert_memory_equal(&before[i], &rig->entries[i], sizeof(before[i]));
	}
	assert_int_equal(dsr_cache_prefix(rig->cache, keys, 5, NULL), 4);
	for (i = 0; i < 4; i++)
		assert_int_equal(dsr_cache_resolve(rig->cache, &refs[i]), refs[i].entry);
	for (i = 1; i < 4; i++)
		assert_int_equal(dsr_cache_parent(rig->cache, refs[i].entry), refs[i - 1].entry);
}

static void the_order_of_eviction_is_as_before(void **state)
{
	struct rig *rig = *state;
	static const uint64_t order[] = {101, 100, 2, 1, 0, 201, 200};

	rig_store(rig, 1, 0, 3);
	rig_store(rig, 2, 200, 2);
	rig_store(rig, 3, 100, 2);
	assert_int_equal(rig_lease(rig, 1, keys, 3), 0);
	dsr_cache_touch(rig->cache, entry_of(rig, 201));
	(void)restart(rig);
	for (uint32_t i = 0; i < 7; i++) {
		assert_int_equal(rig_state(rig, order[i]), DSR_ENTRY_VISIBLE);
		(void)dsr_cache_make_room(rig->cache, 10 + i, rig->now_ns);
		assert_int_equal(rig_state(rig, order[i]), DSR_ENTRY_FREE);
	}
}

static void nothing_is_evicted_before_the_given_time(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 16);
	(void)restart(rig);
	assert_int_equal(dsr_cache_make_room(rig->cache, 1, rig->now_ns - 1), 0);
	assert_int_equal(dsr_cache_make_room(rig->cache, 1, rig->now_ns), 1);
}

static void numbers_go_on_above_all_that_were_given(void **state)
{
	struct rig *rig = *state;
	uint64_t generation, slot_seq, last;

	rig_store(rig, 1, 0, 2);
	last = rig->refs[1].generation;
	(void)restart(rig);
	dsr_cache_number(rig->cache, 1, &generation, &slot_seq);
	assert_true(generation > last);
	assert_true(slot_seq > rig->slot_seqs[0] && slot_seq > rig->slot_seqs[1]);
}

static void unfinished_blocks_go_and_their_slots_wait(void **state)
{
	struct rig *rig = *state;
	struct dsr_cache_rebuilt rebuilt;

	rig_store(rig, 1, 0, 2);
	assert_int_equal(rig_reserve(rig, 2, &keys[2], 3, &keys[1], 2, 1), 0);
	dsr_cache_abort(rig->cache, rig->refs[2].entry);
	rebuilt = restart(rig);
	assert_int_equal(rebuilt.kept, 2);
	assert_int_equal(rebuilt.unfinished, 3);
	assert_int_equal(rebuilt.quarantined, 3);
	assert_int_equal(rig_counts(rig).slots_free, 11);
	assert_int_equal(rig_counts(rig).slots_quarantined, 3);
	assert_int_equal(dsr_cache_make_room(rig->cache, 16, rig->now_ns), 13);
	assert_int_equal(dsr_cache_end_quarantine(rig->cache), 3);
	assert_int_equal(rig_counts(rig).slots_free, 16);
}

static void slots_that_may_be_written_wait_over_any_number_of_restarts(void **state)
{
	struct rig *rig = *state;
	struct dsr_cache_rebuilt rebuilt;

	rig_store(rig, 1, 0, 2);
	assert_int_equal(rig_reserve(rig, 2, &keys[2], 3, &keys[1], 2, 1), 0);
	for (int i = 0; i < 3; i++) {
		rebuilt = restart(rig);
		assert_int_equal(rebuilt.kept, 2);
		assert_int_equal(rebuilt.unfinished, 3);
		assert_int_equal(rebuilt.quarantined, 3);
		for (uint32_t k = 0; k < 3; k++)
			assert_int_equal(dsr_cache_resolve(rig->cache, &rig->refs[k]),
			                 DSR_ENTRY_NONE);
		rig_check(rig);
	}
	assert_int_equal(dsr_cache_end_quarantine(rig->cache), 3);
	assert_int_equal(restart(rig).quarantined, 0);
	assert_int_equal(rig_counts(rig).slots_free, 14);
}

static void a_torn_row_goes_whatever_it_holds(void **state)
{
	struct rig *rig = *state;
	struct dsr_cache_rebuilt rebuilt;
	uint32_t torn;

	rig_store(rig, 1, 0, 3);
	torn = rig->refs[1].entry;
	dsr_entry_write_begin(&rig->entries[torn]);
	rig->entries[torn].generation++;
	rebuilt = restart(rig);
	assert_int_equal(rebuilt.kept, 2);
	assert_int_equal(rebuilt.torn, 1);
	assert_int_equal(rebuilt.quarantined, 1);
	assert_int_equal(rig->entries[torn].seq % 2, 0);
	assert_int_equal(rig->entries[torn].state, DSR_ENTRY_ABORTING);
	/* Its child is there, without parent; the row is used again. */
	assert_int_equal(dsr_cache_prefix(rig->cache, keys, 3, NULL), 1);
	assert_int_equal(dsr_cache_parent(rig->cache, entry_of(rig, 2)), DSR_ENTRY_NONE);
	assert_int_equal(dsr_cache_end_quarantine(rig->cache), 1);
	assert_int_equal(rig->entries[torn].state, DSR_ENTRY_FREE);
	assert_int_equal(rig_reserve(rig, 1, keys, 3, NULL, 0, 1), 0);
	assert_int_equal(rig->status[1], 0);
	assert_int_equal(rig->refs[0].entry, torn);
}

/* As it is left by a scheduler that dies in the first write of a row. */
static void a_torn_row_that_was_never_whole_goes(void **state)
{
	struct rig *rig = *state;
	struct dsr_cache_rebuilt rebuilt;

	rig_store(rig, 1, 0, 2);
	dsr_entry_write_begin(&rig->entries[2]);
	rebuilt = restart(rig);
	assert_int_equal(rebuilt.kept, 2);
	assert_int_equal(rebuilt.torn, 1);
	assert_int_equal(rig->entries[2].state, DSR_ENTRY_FREE);
}

static void of_two_rows_that_name_one_slot_both_go(void **state)
{
	struct rig *rig = *state;
	struct dsr_cache_rebuilt rebuilt;
	struct dsr_entry copy;

	rig_store(rig, 1, 0, 3);
	copy = rig->entries[rig->refs[2].entry];
	copy.l1_slot = rig->refs[0].slot;
	copy.slot_seq = rig->refs[0].slot_seq;
	dsr_entry_write(&rig->entries[rig->refs[2].entry], &copy);
	rebuilt = restart(rig);
	assert_int_equal(rebuilt.kept, 1);
	assert_int_equal(rebuilt.doubled, 2);
	assert_int_equal(rebuilt.quarantined, 1);
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_VISIBLE);
	assert_int_equal(rig_counts(rig).slots_free, 14);
}

static void a_torn_row_takes_no_slot_from_its_last_binding(void **state)
{
	struct rig *rig = *state;
	struct dsr_cache_rebuilt rebuilt;

	rig_store(rig, 1, 0, 3);
	dsr_entry_write_begin(&rig->entries[rig->refs[0].entry]);
	rig->entries[rig->refs[0].entry].l1_slot = rig->refs[2].slot;
	rebuilt = restart(rig);
	assert_int_equal(rebuilt.kept, 2);
	assert_int_equal(rebuilt.torn, 1);
	assert_int_equal(rebuilt.doubled, 0);
	assert_int_equal(rebuilt.quarantined, 0);
	/* The other way round: the slot was bound anew, and the torn row is that binding. */
	dsr_entry_write_begin(&rig->entries[rig->refs[0].entry]);
	rig->entries[rig->refs[0].entry].l1_slot = rig->refs[2].slot;
	rig->slot_seqs[rig->refs[2].slot]++;
	rebuilt = restart(rig);
	assert_int_equal(rebuilt.kept, 1);
	assert_int_equal(rebuilt.torn, 1);
	assert_int_equal(rebuilt.invalid, 1);
	assert_int_equal(rebuilt.quarantined, 1);
}

static void of_two_rows_with_one_key_one_stays(void **state)
{
	struct rig *rig = *state;
	struct dsr_cache_rebuilt rebuilt;
	struct dsr_entry copy;

	rig_store(rig, 1, 0, 2);
	copy = rig->entries[rig->refs[1].entry];
	copy.key = keys[0];
	dsr_entry_write(&rig->entries[rig->refs[1].entry], &copy);
	rebuilt = restart(rig);
	assert_int_equal(rebuilt.kept, 1);
	assert_int_equal(rebuilt.doubled, 1);
	assert_int_equal(entry_of(rig, 0), rig->refs[0].entry);
}

static void a_state_that_is_none(struct rig *rig, struct dsr_entry *value)
{
	(void)rig;
	value->state = 9;
}

static void a_slot_out_of_range(struct rig *rig, struct dsr_entry *value)
{
	value->l1_slot = rig->slots;
}

static void a_lane_missing(struct rig *rig, struct dsr_entry *value)
{
	(void)rig;
	value->lanes_stored = 1;
}

static void a_lane_too_many(struct rig *rig, struct dsr_entry *value)
{
	(void)rig;
	value->lanes_stored = 7;
}

static void a_generation_never_given(struct rig *rig, struct dsr_entry *value)
{
	value->generation = rig->state.next_generation;
}

static void no_generation(struct rig *rig, struct dsr_entry *value)
{
	(void)rig;
	value->generation = 0;
}

static void an_old_sequence(struct rig *rig, struct dsr_entry *value)
{
	(void)rig;
	value->slot_seq--;
}

static void another_payload(struct rig *rig, struct dsr_entry *value)
{
	(void)rig;
	value->payload = 4;
}

static void rows_that_make_no_sense_go(void **state)
{
	static void (*const damages[])(struct rig *, struct dsr_entry *) = {
		a_state_that_is_none,     a_slot_out_of_range, a_lane_missing,  a_lane_too_many,
		a_generation_never_given, no_generation,       an_old_sequence, another_payload,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		struct dsr_cache_rebuilt rebuilt;
		struct dsr_entry copy;
		struct rig rig;

		rig_open(&rig, 16, 2);
		rig_store(&rig, 1, 0, 2);
		copy = rig.entries[rig.refs[1].entry];
		damages[i](&rig, &copy);
		dsr_entry_write(&rig.entries[rig.refs[1].entry], &copy);
		rebuilt = restart(&rig);
		assert_int_equal(rebuilt.kept, 1);
		assert_int_equal(rebuilt.invalid, 1);
		assert_int_equal(rig_state(&rig, 1), DSR_ENTRY_FREE);
		rig_check(&rig);
		rig_close(&rig);
	}
}

static void a_mismatched_block_does_not_come_back(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 2);
	assert_int_equal(rig_lease(rig, 1, keys, 2), 0);
	assert_true(dsr_cache_mismatch(rig->cache, entry_of(rig, 1)));
	assert_int_equal(restart(rig).kept, 1);
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_FREE);
}

static void a_link_to_a_reused_or_wrong_row_is_none(void **state)
{
	struct rig *rig = *state;
	struct dsr_entry copy;

	rig_store(rig, 1, 0, 4);
	/* 1: another generation of its parent; 2: a parent out of range; 3: a wrong depth. */
	copy = rig->entries[rig->refs[1].entry];
	copy.parent_generation--;
	dsr_entry_write(&rig->entries[rig->refs[1].entry], &copy);
	copy = rig->entries[rig->refs[2].entry];
	copy.parent = 4000;
	dsr_entry_write(&rig->entries[rig->refs[2].entry], &copy);
	copy = rig->entries[rig->refs[3].entry];
	copy.depth = 7;
	dsr_entry_write(&rig->entries[rig->refs[3].entry], &copy);
	assert_int_equal(restart(rig).kept, 4);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(dsr_cache_parent(rig->cache, entry_of(rig, i)), DSR_ENTRY_NONE);
}

static void rows_behind_the_first_unused_one_are_not_read(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 2);
	rig->entries[9] = rig->entries[rig->refs[0].entry];
	rig->entries[9].l1_slot = 9;
	assert_int_equal(restart(rig).kept, 2);
	memset(&rig->entries[9], 0, sizeof(rig->entries[9]));
}

static void without_its_pool_everything_goes(void **state)
{
	struct rig *rig = *state;
	struct dsr_cache_options options = {
		.entries = rig->entries,
		.entry_count = rig->entry_count,
		.state = &rig->state,
		.policy = &dsr_evict_lru,
	};
	struct dsr_cache_rebuilt rebuilt;
	struct dsr_cache *cache;

	rig_store(rig, 1, 0, 2);
	assert_int_equal(dsr_cache_new(&options, &cache), 0);
	assert_int_equal(dsr_cache_rebuild(cache, 0, &rebuilt), 0);
	assert_int_equal(rebuilt.kept, 0);
	assert_int_equal(rebuilt.invalid, 2);
	assert_int_equal(dsr_cache_find(cache, &keys[0]), DSR_ENTRY_NONE);
	dsr_cache_free(&cache);
	assert_int_equal(restart(rig).kept, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(an_unused_table_is_an_empty_cache),
		T(visible_blocks_are_there_as_before),
		T(the_order_of_eviction_is_as_before),
		T(nothing_is_evicted_before_the_given_time),
		T(numbers_go_on_above_all_that_were_given),
		T(unfinished_blocks_go_and_their_slots_wait),
		T(slots_that_may_be_written_wait_over_any_number_of_restarts),
		T(a_torn_row_goes_whatever_it_holds),
		T(a_torn_row_that_was_never_whole_goes),
		T(of_two_rows_that_name_one_slot_both_go),
		T(a_torn_row_takes_no_slot_from_its_last_binding),
		T(of_two_rows_with_one_key_one_stays),
		T(rows_that_make_no_sense_go),
		T(a_mismatched_block_does_not_come_back),
		T(a_link_to_a_reused_or_wrong_row_is_none),
		T(rows_behind_the_first_unused_one_are_not_read),
		T(without_its_pool_everything_goes),
	};

	return cmocka_run_group_tests_name("scheduler_cache_rebuild", tests, NULL, NULL);
}
